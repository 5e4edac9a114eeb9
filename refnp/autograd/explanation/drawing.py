"""The tape as a picture: a box for each operation, its value and gradient on the edge that leaves it.

Every operation stands in a row below all that it takes; edges that cross rows pass between the boxes. Within a row the
boxes are ordered by the mean place of their neighbours, above and below in turn, which takes out most crossings.
The page needs nothing beside it, follows the reader's light or dark, and has the text of `explain` below.
Source: Sugiyama, Tagawa & Toda (1981).
"""

import dataclasses
import textwrap
from collections.abc import Sequence
from html import escape
from itertools import pairwise

import numpy as np

from refnp.autograd.explanation.lines import Line
from refnp.autograd.explanation.previews import array_rows, mask_rows

LETTER, HEIGHT = 7.3, 16.0  # of a letter in pixels, and from line to line
COLUMNS = 30  # letters of a value
TITLE = 44  # letters of a title or equation
APART, BETWEEN = 28.0, 44.0  # boxes in a row; rows
SWEEPS = 8
STYLE = """
.tape { --text: #222; --page: #fff; --box: #e4eefb; --leaf: #f2f2f2; --line: #8a94a3; --quiet: #5b6470;
  --back: #b3361e; background: var(--page) }
@media (prefers-color-scheme: dark) {
  .tape { --text: #ddd; --page: #16181c; --box: #1f3553; --leaf: #2a2e35; --line: #77808c; --quiet: #9aa3ae;
    --back: #ff9a85 }
}
.tape text { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: var(--text);
  white-space: pre }
.tape .box { fill: var(--box); stroke: var(--line) } .tape .leaf { fill: var(--leaf) }
.tape .edge { fill: none; stroke: var(--line); stroke-width: 1.4 }
.tape .quiet { fill: var(--quiet) } .tape .gradient { fill: var(--back) } .tape .name { font-weight: bold }
"""
PAGE_STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5rem; background: #fff; color: #222 }
.back { color: #b3361e }
@media (prefers-color-scheme: dark) { body { background: #16181c; color: #ddd } .back { color: #ff9a85 } }
.wide { overflow-x: auto } pre { font-size: 12px; line-height: 1.35 } summary { cursor: pointer }
"""


@dataclasses.dataclass
class Box:
    """A box, or a place where a long edge passes a row; x is its middle."""

    width: float
    height: float
    lines: list[Line]
    texts: list[str] = dataclasses.field(default_factory=list)
    named: int = 0  # how many of the texts are the title
    values: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # (class, text)
    x: float = 0.0
    y: float = 0.0

    @property
    def out(self) -> float:
        """Where edges leave: beside the values of a box, in the middle of a passage."""
        return self.x - self.width / 2 + 8 if self.lines else self.x


def page(lines: Sequence[Line], text: str) -> str:
    """The picture as a page of HTML, with the text below."""
    title = f"{lines[-1].title} and what it was computed from"
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
            f"<title>{escape(title)}</title><style>{PAGE_STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            "<p>A box is an operation with its equation; under it, on the edge, its shape, its value, and "
            '<span class="back">the gradient</span> of it if there is one.</p>',
            f'<div class="wide">{picture(lines)}</div>',
            f'<details><summary>as text</summary><div class="wide"><pre>{escape(text)}</pre></div></details>',
            "</body></html>\n",
        ]
    )


def picture(lines: Sequence[Line]) -> str:
    """The picture as SVG."""
    boxes, edges = _graph(lines, any(line.count for line in lines))
    rows = _rows(boxes, edges)
    paths = _with_passages(boxes, edges, rows)
    _order(rows, paths)
    width, height = _place(rows, boxes)
    parts = [_edge(path, boxes) for path in paths]
    parts += [_box(box) for box in boxes.values() if box.lines]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="tape" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img"><style>{STYLE}</style>{"".join(parts)}</svg>'
    )


# ---- what is drawn


def _graph(lines: Sequence[Line], is_folded: bool) -> tuple[dict[str, Box], list[tuple[str, str]]]:
    """A box for each operation or leaf by its number, results of one operation together; (from, to) for each edge."""
    boxes: dict[str, Box] = {}
    home: dict[str, str] = {}
    edges = []
    for line in lines:
        first, _, last = line.number.rpartition("–")
        name = last.partition(".")[0]
        home.update((str(number), name) for number in range(int(first or name), int(name) + 1))  # of a folded line all
        if name in boxes and "(result" in line.title:
            boxes[name].lines.append(line)
            continue
        boxes[name] = Box(0, 0, [line])
        sources = [home.get(number.partition(".")[0]) for number in line.inputs]
        edges += [(source, name) for source in sources if source is not None and source != name]
    for box in boxes.values():
        _fill(box, is_folded)
    return boxes, list(dict.fromkeys(edges))


def _fill(box: Box, is_folded: bool) -> None:
    """The texts of a box, and its size; of folded lines values have one row."""
    first = box.lines[0]
    box.texts = textwrap.wrap(f"{first.number}  {first.title}", TITLE, subsequent_indent="   ")
    named = len(box.texts)
    box.texts += [part for text in (first.equation, first.count) for part in textwrap.wrap(text, TITLE)]
    box.texts += [row for mask in first.masks.values() for row in mask_rows(mask, TITLE)]
    box.named = named
    for line in box.lines:
        box.values.append(("quiet", str(line.shape)))
        for kind, array in (("", line.value), ("gradient", line.gradient)):
            if array is not None:
                shown = np.ravel(array) if is_folded else array
                box.values += [(kind, row) for row in array_rows(shown, COLUMNS)]
    box.width = LETTER * max(map(len, [*box.texts, *(f"  {text}" for _, text in box.values)])) + 16
    box.height = HEIGHT * (len(box.texts) + len(box.values)) + 16


# ---- where it stands


def _rows(boxes: dict[str, Box], edges: list[tuple[str, str]]) -> list[list[str]]:
    """The names of each row: an operation below all that it takes, a leaf right above its first use."""
    row = dict.fromkeys(boxes, 0)
    for start, end in edges:  # in the order of making
        row[end] = max(row[end], row[start] + 1)
    for name, box in boxes.items():
        uses = [row[end] for start, end in edges if start == name]
        if not any(end == name for _, end in edges) and uses and box.lines[0].is_leaf:
            row[name] = min(uses) - 1
    return [[name for name in boxes if row[name] == level] for level in range(max(row.values()) + 1)]


def _with_passages(boxes: dict[str, Box], edges: list[tuple[str, str]], rows: list[list[str]]) -> list[list[str]]:
    """The names along each edge, with a passage, which is put among the boxes, in every row that it crosses."""
    level = {name: k for k, row in enumerate(rows) for name in row}
    paths = []
    for start, end in edges:
        path = [start]
        for k in range(level[start] + 1, level[end]):
            name = f"{start}→{k}"  # edges from one box share their passages
            if name not in boxes:
                boxes[name] = Box(10.0, 0.0, [])
                rows[k].append(name)
            path.append(name)
        paths.append([*path, end])
    return paths


def _order(rows: list[list[str]], paths: list[list[str]]) -> None:
    """Order each row by the mean place of its neighbours, from above and from below in turn."""
    above: dict[str, set[str]] = {}
    below: dict[str, set[str]] = {}
    for path in paths:
        for start, end in pairwise(path):
            above.setdefault(end, set()).add(start)
            below.setdefault(start, set()).add(end)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for k in range(1, len(rows)) if down else range(len(rows) - 2, -1, -1):
            beside = rows[k - 1] if down else rows[k + 1]
            at = {name: i / max(len(beside) - 1, 1) for i, name in enumerate(beside)}
            own = {name: i / max(len(rows[k]) - 1, 1) for i, name in enumerate(rows[k])}
            near = above if down else below
            places = {n: [at[m] for m in near.get(n, ()) if m in at] or [own[n]] for n in rows[k]}
            means = {name: sum(found) / len(found) for name, found in places.items()}
            rows[k].sort(key=means.__getitem__)


def _place(rows: list[list[str]], boxes: dict[str, Box]) -> tuple[float, float]:
    """Set x and y of every box; the width and height of the whole."""
    lengths = [sum(boxes[name].width for name in row) + APART * (len(row) - 1) for row in rows]
    width = max(lengths) + 2 * APART
    y = APART
    for row, length in zip(rows, lengths, strict=True):
        x = (width - length) / 2
        tallest = max(boxes[name].height for name in row)
        for name in row:
            box = boxes[name]
            box.x, box.y = x + box.width / 2, y
            box.height = box.height if box.lines else tallest
            x += box.width + APART
        y += tallest + BETWEEN
    return width, y - BETWEEN + APART


# ---- as SVG


def _edge(path: list[str], boxes: dict[str, Box]) -> str:
    """A line from box to box, straight through the rows that it crosses."""
    first = boxes[path[0]]
    x, y = first.out, first.y + first.height
    text = f"M{x:.1f} {y:.1f}"
    for name in path[1:]:
        box = boxes[name]
        middle = (y + box.y) / 2
        text += f"C{x:.1f} {middle:.1f} {box.x:.1f} {middle:.1f} {box.x:.1f} {box.y:.1f}"
        if not box.lines:
            text += f"V{box.y + box.height:.1f}"
        x, y = box.out, box.y + box.height
    return f'<path class="edge" d="{text}"/>'


def _box(box: Box) -> str:
    """The box with its texts, and under it the edge with the values beside it."""
    left, lower = box.x - box.width / 2, box.y + HEIGHT * len(box.texts) + 8
    kind = "box leaf" if box.lines[0].is_leaf else "box"
    parts = [
        f'<path class="edge" d="M{box.out:.1f} {lower:.1f}V{box.y + box.height:.1f}"/>',
        f'<rect class="{kind}" x="{left:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{lower - box.y:.1f}" rx="5"/>',
    ]
    for i, text in enumerate(box.texts):
        parts.append(_text(left + 8, box.y + HEIGHT * (i + 1) - 1, text, "name" if i < box.named else "quiet"))
    for i, (kind, text) in enumerate(box.values):
        parts.append(_text(left + 18, lower + HEIGHT * (i + 1) - 1, text, kind))
    return f"<g>{''.join(parts)}</g>"


def _text(x: float, y: float, text: str, kind: str) -> str:
    attribute = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{attribute}>{escape(text)}</text>'
