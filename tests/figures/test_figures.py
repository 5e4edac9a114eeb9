"""Every figure draws, is a valid file of the promised width and the same bytes each time, and prints its numbers."""

import importlib.util
import re
import xml.etree.ElementTree as ElementTree
import zlib
from pathlib import Path

import numpy as np
import pytest

from refnp import cli, figures
from refnp.figures import masks, positions
from refnp.layers.masks import causal
from tests.figures import page
from tests.helpers import assert_within
from tests.pages import differences
from tests.transcriptions import positions as printed

pytest.importorskip("matplotlib")
DRAW, DRAWN = figures.draw, {}


def drawn(name):
    """A figure; each is drawn once for all tests of this file."""
    if name not in DRAWN:
        DRAWN[name] = DRAW(name)
    return DRAWN[name]


def pixels(content):
    """Width and height of a .png, all of whose blocks are whole."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    kinds, at = [], 8
    while at < len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        block = content[at + 4 : at + 8 + length]
        assert zlib.crc32(block) == int.from_bytes(content[at + 8 + length : at + 12 + length], "big")
        kinds.append(block[:4])
        at += 12 + length
    assert (kinds[0], kinds[-1]) == (b"IHDR", b"IEND")
    return tuple(int.from_bytes(content[16 + 4 * i : 20 + 4 * i], "big") for i in (0, 1))


@pytest.mark.parametrize("name", figures.FIGURES)
def test_files(tmp_path, name):
    for kind in figures.FORMATS:
        figures.save(drawn(name), tmp_path / f"a{kind}")
    width, height = pixels((tmp_path / "a.png").read_bytes())
    assert width == 900
    assert 200 <= height <= 1600
    root = ElementTree.parse(tmp_path / "a.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "a.svg"]


@pytest.mark.parametrize("name", figures.FIGURES)
def test_nothing_is_cut_off_and_no_text_is_small(name):
    """All that is drawn lies inside the picture, and every text is 8 points, 11 pixels at a width of 900, or more."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    figure = drawn(name).figure
    with figures.style():
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        drawn_on = figure.get_tightbbox(canvas.get_renderer())  # inches
    assert drawn_on.x0 >= 0
    assert drawn_on.y0 >= 0
    assert drawn_on.x1 <= figure.get_figwidth()
    assert drawn_on.y1 <= figure.get_figheight()
    assert min(text.get_fontsize() for text in figure.findobj(Text) if text.get_text().strip()) >= 8


@pytest.mark.parametrize("name", figures.FIGURES)
def test_numbers_are_finite_and_printed(name):
    numbers = drawn(name).numbers
    assert numbers
    said = figures.text(name, drawn(name))
    assert said.startswith(f"{name}: {figures.FIGURES[name].says}\n")
    for what, number in numbers.items():
        assert what in said
        assert isinstance(number, str) or np.isfinite(number), what
        assert isinstance(number, (str, int, float)), what


def test_the_same_figure_is_the_same_file(tmp_path):
    for kind in figures.FORMATS:
        for name in ("a", "b"):
            figures.save(figures.draw("masks"), tmp_path / f"{name}{kind}")
        assert (tmp_path / f"a{kind}").read_bytes() == (tmp_path / f"b{kind}").read_bytes()


def test_settings_of_the_reader_change_nothing(tmp_path):
    import matplotlib

    figures.save(figures.draw("masks"), tmp_path / "a.png")
    with matplotlib.rc_context({"font.size": 30, "savefig.transparent": True, "axes.facecolor": "red"}):
        figures.save(figures.draw("masks"), tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


# the command


def test_the_list(capsys):
    assert cli.main(["figure"]) == 0
    output = capsys.readouterr().out
    for name, figure in figures.FIGURES.items():
        assert name in output
        assert figure.says in output


def test_one_figure(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["figure", "masks"]) == 0
    assert cli.main(["figure", "masks", "--out", "m.SVG"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.SVG", "masks.png"]
    output = capsys.readouterr().out
    assert "drawn in masks.png" in output
    assert "drawn in m.SVG" in output
    assert figures.text("masks", drawn("masks")) in output


def test_options(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["figure", "multi-head", "--option", "features=6", "--option", "heads=2"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("multi-head: with features=6, heads=2\n")
    assert re.search(r"query by head +\(1, 2, 5, 3\)", output)
    assert cli.main(["figure"]) == 0
    assert '--option sentence="I live in Paris"' in capsys.readouterr().out


def test_all_figures(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(figures, "draw", drawn)
    monkeypatch.setattr(figures, "save", lambda drawn, file: file.touch())  # files are tested above
    folder = tmp_path / "new" / "folder"
    assert cli.main(["figure", "--all", "--out", str(folder), "--format", "svg"]) == 0
    assert {path.name for path in folder.iterdir()} == {f"{name}.svg" for name in figures.FIGURES}
    assert capsys.readouterr().out.count("drawn in") == len(figures.FIGURES)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("mask",), "there is no figure 'mask'; did you mean masks"),
        (("masks", "--all"), "'masks' was named, and --all; give one of them"),
        (("masks", "--out", "m.gif"), "m.gif ends in '.gif'; give a file that ends in .png or .svg"),
        (("masks", "--out", "/no/such/m.png"), "No such file"),
        (("--all", "--out", __file__), "is a file; with --all, --out is a folder"),
        (("--all", "--format", "pdf"), "invalid choice"),
        (("--all", "--option", "features=8"), "--option is one of a single figure; name it instead of --all"),
        (("masks", "--option", "size=3"), "there is no option of masks 'size'. There are none"),
        (
            ("transformer", "--option", "featurs=3"),
            "there is no option of transformer 'featurs'; did you mean features",
        ),
        (("transformer", "--option", "features=many"), "features is 'many'; it must be a whole number, such as 512"),
        (("transformer", "--option", "features"), "write NAME=VALUE"),
    ],
)
def test_wrong_usage(words, message, capsys, monkeypatch):
    monkeypatch.setattr(figures, "style", lambda: pytest.fail("work was done"))
    assert cli.main(["figure", *words]) == 2
    assert message in capsys.readouterr().err


def test_without_matplotlib(monkeypatch, capsys):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else found(name))
    assert cli.main(["figure", "masks"]) == 2
    assert "figures need matplotlib; python -m pip install 'refnp[study]'" in capsys.readouterr().err
    assert not Path("masks.png").exists()


def test_the_page_of_figures_lists_them_all():
    assert list(page.sections()) == list(figures.FIGURES), "python -m tests.figures.page --write"


@pytest.mark.parametrize("name", figures.FIGURES)
def test_the_page_of_figures_has_what_is_printed(name):
    """Figures may differ by a tenth, those below 1 by a factor of 3, as on other pages: machines round differently."""
    assert differences(page.sections()[name], page.section(name, drawn(name))) == [], (
        "python -m tests.figures.page --write"
    )
    width, _ = pixels((page.FOLDER / f"{name}.png").read_bytes())
    assert width == 900


def test_the_program_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", page.PAGE.read_text(encoding="utf-8"), re.S)
    exec(compile(code, "figures.md", "exec"), {})
    assert ElementTree.parse(tmp_path / "transformer.svg").getroot().tag.endswith("svg")


# what they show


def heat_maps(figure):
    """The arrays of all heat maps, in the order in which they were drawn."""
    from matplotlib.collections import QuadMesh

    found = [own.images[0] for own in figure.axes if own.images]
    found += [mesh for own in figure.axes for mesh in own.collections if isinstance(mesh, QuadMesh)]
    return [np.asarray(shown.get_array()) for shown in found]


def test_masks_are_drawn_cell_by_cell():
    figure, numbers = drawn("masks")
    for own, (mask, tokens) in zip(figure.axes, masks.tables().values(), strict=True):
        (cells,) = own.collections
        np.testing.assert_array_equal(np.asarray(cells.get_array()).reshape(mask.shape), mask)
        assert [label.get_text() for label in own.get_yticklabels()] == tokens
        assert own.yaxis_inverted(), "the first query stands on top"
    np.testing.assert_array_equal(masks.tables()["causal"][0], causal(6))
    assert list(numbers.values()) == [6 * 7 // 2, 7 * 3, 4 * 4, 11 * 3 + 4 * 5 // 2 + 3 * 4 // 2]


def test_positions_are_drawn_as_the_transcriptions_have_them():
    figure, numbers = drawn("positions")
    p, gram, wrong, wrong_gram = heat_maps(figure)[:4]
    places = range(positions.PLACES)
    assert_within(p, printed.sinusoidal(places, positions.FEATURES), 2e-15)
    exact = printed.position_and_dimension_exchanged(places, positions.FEATURES)
    u = 2.0**-53  # the angle j/10000^(2p/D), at most 31, has a division, a power and its exponent: 8u of it
    assert_within(wrong, exact, 8 * u * 31 + 2 * u)
    for table, product in ((p, gram), (wrong, wrong_gram)):
        assert_within(product, table @ table.T, 2 * positions.FEATURES * u * positions.FEATURES)
    assert numbers["right: largest difference along a diagonal of the Gram matrix"] < 1e-13
    assert numbers["misprinted: largest difference along a diagonal of the Gram matrix"] > 30
    assert numbers["right: different rows of 64"] == 64
    assert numbers["misprinted: different rows of 64"] < 40


def test_a_picture_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    file = tmp_path / "a.png"
    file.write_bytes(b"before")

    class Broken:
        @staticmethod
        def savefig(*_, **__):
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        figures.save(figures.Drawn(Broken, {}), file)
    assert file.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [file]
