"""The ledger as a page of HTML: every row, counter-examples to unfold, pictures, and what is not as expected first."""

import re
from dataclasses import replace
from xml.etree import ElementTree

from refnp import cli
from refnp.claims import APPROXIMATE, BROKEN, EXACT, UNDECIDED, html, ledger
from refnp.claims.decision import Found

BEYOND_XML = r"<script>.*?</script>|<style>.*?</style>|<!DOCTYPE html>|<meta[^>]*>|<input[^>]*>"
ROLL = Found(
    "convolution <1>",
    "roll & turn",
    BROKEN,
    "",
    "zeros < edges",
    verdict=BROKEN,
    discrepancy=0.25,
    bound=1e-17,
    pairs=3,
    right=True,
    counterexample="counter-example with n = 2\n    x < y",
    code='import numpy as np\ninputs = {"x": np.array([0.])}',
)
NEARLY = replace(
    ROLL,
    subject="ConvCNP",
    expected=APPROXIMATE,
    verdict=APPROXIMATE,
    rate=2.0,
    finer="places per unit",
    levels={4: 1e-2, 8: 2.5e-3},
    shifts={0.0: 0.0, 0.25: 1e-2, 0.5: 3e-3, 1.0: 0.0},
)
KEPT = replace(ROLL, subject="CNP", expected=EXACT, verdict=EXACT, counterexample="", code="")
WRONG = replace(KEPT, subject="NP", expected=EXACT, verdict=UNDECIDED, right=False, remark="nothing was tested")


def page(*rows):
    return html.page(rows, title="refnp claims", summary=["4 rows", "1 < 2"])


def test_a_page_is_well_formed_and_escapes_what_it_shows():
    text = page(("layers", ROLL), ("layers", NEARLY), ("layers", KEPT), ("models", WRONG))
    body = re.sub(BEYOND_XML, "", text, flags=re.S)
    tree = ElementTree.fromstring(re.sub(r"<details([^>]*?) open", r'<details\1 open=""', body))
    assert len(tree.findall(".//tbody/tr")) == 4
    assert "convolution &lt;1&gt;" in text
    assert "x &lt; y" in text
    assert "http" not in re.sub(r"<svg.*?</svg>", "", text, flags=re.S)  # nothing is fetched


def test_what_is_not_as_expected_comes_first_and_is_open():
    text = page(("layers", ROLL), ("models", WRONG))
    assert text.index('id="models" open') < text.index('id="layers"')
    assert "undecided (expected exact)" in text
    assert "nothing was tested" in text


def test_counter_examples_are_folded():
    text = page(("layers", ROLL), ("layers", KEPT))
    assert text.count("<summary>counter-example</summary>") == 1
    assert text.count("<summary>counter-example as code</summary>") == 1


def test_a_picture_has_a_point_for_each_shift_and_its_exact_ones_on_the_lowest_line():
    assert html.refined(NEARLY) == "places per unit: 4 → 1.0e-02, 8 → 2.5e-03; rate 2"
    picture = ElementTree.fromstring(html.picture(NEARLY.shifts))
    dots = picture.findall("circle")
    heights = [float(dot.get("cy")) for dot in dots]
    assert len(dots) == 4
    assert heights[0] == heights[3] == max(heights)
    assert heights[1] < heights[2] < heights[0]  # more upwards, which is less
    assert [dot.find("title").text for dot in dots][1] == "shift 0.25: 0.01"
    assert "discrepancy against shift" in page(("models", NEARLY))


def test_the_command_writes_it(tmp_path, capsys):
    file = tmp_path / "claims.html"
    assert cli.main(["claims", "--only", "convolutions/max pooling*", "--html", str(file)]) == 0
    capsys.readouterr()
    text = file.read_text(encoding="utf-8")
    assert text.count("<tr class=") == len(ledger.rows("convolutions/max pooling*")) == 3
    assert "multiples of 2" in text
