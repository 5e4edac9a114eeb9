"""The tape as a picture."""

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest

import refnp
from refnp import Tensor
from refnp.autograd.explanation import explain
from refnp.layers import MLP, attention, softmax

SVG = "{http://www.w3.org/2000/svg}"


def tape():
    x = Tensor([[1.0, 2.0], [3.0, -4.0]], requires_grad=True)
    mask = np.array([[True, False], [True, True]])
    y = attention(x * 2.0, x, x, mask=mask)
    return (softmax(y) + x).sum()


def drawn(tmp_path, tensor, **options):
    """The SVG that is written, read again."""
    file = tmp_path / "tape.svg"
    explain(tensor, svg=file, **options)
    return ElementTree.parse(file).getroot()


def boxes(root):
    """(left, top, right, bottom) of what belongs to each box, the values under it too, and the texts of it."""
    found = []
    for group in root.iter(f"{SVG}g"):
        box = group.find(f"{SVG}rect")
        left, top, width = (float(box.get(key)) for key in ("x", "y", "width"))
        texts = group.findall(f"{SVG}text")
        bottom = max(float(text.get("y")) for text in texts)
        found.append(((left, top, left + width, bottom), [text.text for text in texts]))
    return found


def test_a_box_has_operation_equation_mask_shape_value_and_gradient(tmp_path):
    found = [texts for _, texts in boxes(drawn(tmp_path, tape(), gradients=True))]
    assert found[0][:4] == ["1  leaf", "(2, 2)", "1  2", "3 -4"]
    assert found[1][:3] == ["2  multiply(1, 2.0)", "z = x y", "(2, 2)"]
    assert found[2][0] == "3  attention(2, 1, 1, mask)"
    assert {"■ ·", "■ ■"} <= set(found[2])
    assert found[-1] == ["6  sum(5)", "y = Σ x over `axis`", "()", "4", "1"]


def test_there_is_an_edge_for_each_argument(tmp_path):
    """1 → 2, 3 and 5, 2 → 3, 3 → 4, 4 → 5, 5 → 6; beside these each box has the piece along its values."""
    root = drawn(tmp_path, tape())
    edges = [path for path in root.findall(f"{SVG}path") if path.get("class") == "edge"]
    at, found = {texts[0].split()[0]: place for place, texts in boxes(root)}, []
    for edge in edges:
        x, y, *_, end_x, end_y = map(float, re.findall(r"[-\d.]+", edge.get("d")))
        above = [n for n, (left, top, right, _) in at.items() if left < x < right and top < y]
        below = [n for n, (left, top, right, _) in at.items() if left < end_x < right and top == end_y]
        found.append((max(above, key=lambda n: at[n][1]), *below))
    assert sorted(found) == [(*"12",), (*"13",), (*"15",), (*"23",), (*"34",), (*"45",), (*"56",)]


@pytest.mark.parametrize("seed", range(5))
def test_boxes_do_not_overlap_and_stand_inside(tmp_path, seed):
    rng = np.random.default_rng(seed)
    values = [Tensor(rng.normal(size=(2, 3)), requires_grad=True) for _ in range(3)]
    for _ in range(12):
        i, j = rng.integers(len(values), size=2)
        values.append(values[i] * values[j] + values[i])
    total = sum(values[3:], start=values[0]).sum()
    root = drawn(tmp_path, total, gradients=True)
    width, height = float(root.get("width")), float(root.get("height"))
    found = [place for place, _ in boxes(root)]
    for left, top, right, bottom in found:
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height
    for k, (left, top, right, bottom) in enumerate(found):
        for other in found[k + 1 :]:
            assert right < other[0] or other[2] < left or bottom < other[1] or other[3] < top


def test_every_operation_stands_below_what_it_takes(tmp_path):
    found = boxes(drawn(tmp_path, tape()))
    top = {texts[0].split()[0]: place[1] for place, texts in found}
    for _, texts in found:
        number, _, call = texts[0].partition("  ")
        for argument in re.findall(r"(?<=[(, ])(\d)(?=[,)])", call):
            assert top[argument] < top[number]


def test_folded_modules_and_several_results_are_drawn(tmp_path):
    model = MLP([2, 3, 2], rng=np.random.default_rng(0))
    a, b = refnp.autograd.split(model(Tensor(np.ones((1, 2)))), 2)
    texts = [texts for _, texts in boxes(drawn(tmp_path, (a * b).sum(), group=1))]
    assert texts[0][:2] == ["3–7  MLP()", "3 operations, 17 parameters"]
    assert texts[-1][0].endswith("split, multiply, sum(7)")
    assert len(drawn(tmp_path, (a * b).sum(), group=1).findall(f"{SVG}path")) == 1
    x = Tensor(np.arange(4.0), requires_grad=True)
    a, b = refnp.autograd.split(x, 2)
    found = [texts for _, texts in boxes(drawn(tmp_path, a * b))]
    assert [texts[0] for texts in found] == ["1  leaf", "2.0  split(1, 2)", "3  multiply(2.0, 2.1)"]
    assert found[1][-2:] == ["(2,)", "2 3"]


class Page(HTMLParser):
    """The tags of a page, and what it takes from elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elsewhere = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "path", "rect"):
            self.open.append(tag)
        self.elsewhere += [value for key, value in attributes if key in ("src", "href")]

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_page_is_whole_and_needs_nothing_beside_it(tmp_path, capsys):
    file = tmp_path / "tape.html"
    explain(tape(), html=str(file), gradients=True, expand=True)
    assert capsys.readouterr().out == ""
    text = file.read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert page.elsewhere == []
    assert "<script" not in text
    assert "prefers-color-scheme: dark" in text
    assert "weights, _ = softmax.page(scores)" in text  # the steps, in the text below
    assert [path.name for path in tmp_path.iterdir()] == ["tape.html"]


def test_a_file_that_cannot_be_written_is_named_and_none_is_left(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing"):
        explain(tape(), svg=tmp_path / "missing" / "tape.svg")
    (tmp_path / "tape.svg").mkdir()
    with pytest.raises(OSError, match=r"tape\.svg"):
        explain(tape(), svg=tmp_path / "tape.svg")
    assert [path.name for path in tmp_path.iterdir()] == ["tape.svg"]
