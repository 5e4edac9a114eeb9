"""The check of the site finds what is wrong with a page: links, anchors, and what a browser shows."""

import base64
import collections
import html
import itertools
import math
import re

import numpy as np
import pytest

from docs.site import build, check, sources

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
HEAD = '<!doctype html><html><head><meta name="viewport" content="width=device-width"></head><body><article>'
FAULTS = {
    "wide": ('<div style="width: 500px">wide</div>', r"1\d\d pixels wider than the window: .*at 390 light, 390 dark"),
    "left": ('<div style="margin-left: -30px">left</div>', "cut at the left edge"),
    "low": ('<div style="height: 9px; overflow: hidden">a<br>b<br>c</div>', "pixels cut at the bottom"),
    "formula": ('<p style="display: none"><math><mi>x</mi></math></p>', "a formula without size: x"),
    "merror": ("<math><merror><mtext>no</mtext></merror></math>", "a formula is wrong: no"),
    "picture": ('<img src="gone.png" alt="a point">', "a picture is missing"),
    "words": ('<img src="pixel.png" alt="pixel.png">', "no words instead of a picture"),
    "console": ("<script>console.error('spoke')</script>", "console: spoke"),
    "script": ("<script>undefined_name()</script>", "undefined_name is not defined"),
}


def write(folder, pages):
    for name, body in pages.items():
        (folder / f"{name}.html").write_text(HEAD + body, encoding="utf-8")
    (folder / "pixel.png").write_bytes(PIXEL)
    return folder


def test_links_and_anchors_are_followed(tmp_path):
    write(
        tmp_path,
        {"a": '<a href="b.html#here">1</a><a href="b.html#gone">2</a><a href="c.html">3</a>', "b": '<p id="here">'},
    )
    assert check.broken_links(tmp_path) == [
        "a.html links to b.html#gone: b.html has no such place",
        "a.html links to c.html: no such file",
    ]


def test_links_to_other_sites_and_within_a_page(tmp_path):
    write(tmp_path, {"a": '<a href="https://example.org/x">1</a><a href="#b">2</a><p id="b"><img src="pixel.png">'})
    assert check.broken_links(tmp_path) == []


def test_a_browser_finds_what_is_wrong(tmp_path):
    pytest.importorskip("playwright")
    if check.browser() is None:
        pytest.skip("Chromium is not installed")
    good = '<details><summary>a</summary><math><mi>x</mi></math></details><img src="pixel.png" alt="a point">'
    write(tmp_path, {"good": good} | {name: body for name, (body, _) in FAULTS.items()})
    found = check.seen(tmp_path, processes=1)
    assert (found.pages, found.pictures) == (len(FAULTS) + 1, 3)
    assert not [wrong for wrong in found.wrong if wrong.startswith("good")]
    by_page = {page: list(group) for page, group in itertools.groupby(found.wrong, lambda wrong: wrong.split(".")[0])}
    assert by_page.keys() == FAULTS.keys()
    for name, (_, message) in FAULTS.items():
        assert any(re.search(message, wrong) for wrong in by_page[name]), by_page[name]


# Pages with a box, and how wide it may be in a window of some width, in a scheme.
ROOMS = {
    "window": ('<div style="width: {}px">', lambda window, scheme: window),
    "hidden": ('<div style="overflow: hidden"><div style="width: {}px">', lambda window, scheme: window),
    "clipped": ('<div style="overflow: clip"><p>a</p><div style="width: {}px">', lambda window, scheme: window),
    "column": (
        '<div style="display: flex"><div style="flex: 0 0 50%; min-width: 0"><div style="width: {}px">',
        lambda window, scheme: window / 2,
    ),
    "scrolled": ('<div style="overflow: auto"><div style="width: {}px">', lambda window, scheme: math.inf),
    "dark": (
        "<style>@media (prefers-color-scheme: dark) {{ div {{ width: {}px }} }}</style><div>",
        lambda window, scheme: window if scheme == "dark" else math.inf,
    ),
}


def test_what_is_too_wide_is_found_at_just_the_widths_where_it_is(tmp_path):
    pytest.importorskip("playwright")
    if check.browser() is None:
        pytest.skip("Chromium is not installed")
    widths = np.random.default_rng(0).integers(150, 2200, (len(ROOMS), 8)).tolist()
    boxes = {f"{room}-{width}": (room, width) for room, row in zip(ROOMS, widths, strict=True) for width in row}
    style = "<style>body { margin: 0 }</style>"
    write(tmp_path, {page: f"{style}{ROOMS[room][0].format(width)}wide" for page, (room, width) in boxes.items()})
    found = collections.defaultdict(set)
    for wrong in check.seen(tmp_path, processes=1).wrong:
        page, states = re.fullmatch(r"(.*)\.html: .* \(at (.*)\)", wrong).groups()
        found[page] |= set(states.split(", "))
    for page, (room, width) in boxes.items():
        states = itertools.product(check.WIDTHS, check.SCHEMES)
        assert found[page] == {f"{w} {scheme}" for w, scheme in states if width > ROOMS[room][1](w, scheme)}, page


def test_names_of_a_file_are_found_at_their_lines():
    names = sources.names("tests/docs/test_check.py")
    text = (build.ROOT / "tests/docs/test_check.py").read_text(encoding="utf-8").splitlines()
    assert text[names["write"] - 1].startswith("def write")
    assert text[names["FAULTS"] - 1].startswith("FAULTS")
    assert "Module.parameters" in sources.names("refnp/layers/module.py")


@pytest.mark.parametrize("target", ["refnp/nowhere.py", "refnp/version.py#nothing", "pyproject.toml", "refnp/nowhere/"])
def test_what_is_not_on_the_site_is_an_error(target):
    with pytest.raises(ValueError, match=target.split("#")[-1].split("/")[-1] or "not a"):
        sources.address(target)


def test_a_page_of_the_source_has_a_place_for_each_name_and_line():
    pytest.importorskip("pygments")
    page = sources.page("refnp/version.py")
    assert 'id="__version__"' in page
    assert 'id="L1"' in page
    assert 'href="../../index.html"' in page


def test_a_page_of_the_source_has_the_text_of_its_file():
    pytest.importorskip("pygments")
    shown = re.search(r"<pre.*?>(.*)</pre>", sources.page("docs/site/sources.py"), re.S)[1]
    lines = [html.unescape(re.sub(r"<[^>]*>", "", line)) for line in shown.splitlines()]
    text = (build.ROOT / "docs/site/sources.py").read_text(encoding="utf-8").splitlines()
    assert [line[5:] for line in lines if line] == text
