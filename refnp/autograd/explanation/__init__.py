"""The tape as text: what was computed, line by line, and on request the gradient of each line.

    x = Tensor([3.0, 4.0], requires_grad=True)
    explain((x * x).sum(), gradients=True)

    line, shape (float64)     value   gradient
    1   leaf (2,)             3 4     6 8
    2   multiply(1, 1) (2,)   9 16    1 1
        z = x y
    3   sum(2) ()             25      1
        y = Σ x over `axis`

Numbers in brackets are earlier lines; anything else in them is a constant. A result that is one of several has the
number of its line and its own, 4.0, 4.1. The equation is the one in the operation's docstring, and stands where the
operation comes first. Numbers have four digits; matrices stand in rows, wide and long ones by their corners.

lines.py makes the lines and folds them by module, opening.py opens one into steps, previews.py shows arrays,
drawing.py draws the graph.
"""

import itertools
import shutil
import string
import sys
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from refnp.autograd.backward import gradients_of, starting_cotangent
from refnp.autograd.explanation.drawing import page, picture
from refnp.autograd.explanation.lines import Line, depth_of, folded, lines_of, place_of
from refnp.autograd.explanation.opening import Opened, can_be_opened, opened
from refnp.autograd.explanation.previews import array_rows, mask_rows
from refnp.autograd.tensor import ArrayLike, Node, Tensor
from refnp.files import write_whole

WIDTH = 100  # characters of a line where there is no terminal
NARROWEST = 60
FEW = 30  # lines of text, in which a model is read at once
GAP = "   "
FIXED = "\u00a0"  # a space at which no line ends


__all__ = ["explain"]


def __dir__() -> list[str]:
    return __all__


def explain(
    tensor: Tensor,
    *,
    gradients: bool = False,
    cotangent: ArrayLike | None = None,
    expand: bool | str | Sequence[str] = False,
    group: Any = False,
    width: int | None = None,
    file: IO[str] | None = None,
    html: str | Path | None = None,
    svg: str | Path | None = None,
) -> None:
    """Print the tape behind `tensor`: a numbered line for each operation, its equation, options, masks and values.

    gradients: also the gradient of each line if that of the tensor is `cotangent` (1 for a scalar).
    expand: open operations into the lines of their pages, each with its code, its comment and its value, forward and,
        with `gradients`, back; helpers' lines stand deeper, under the helper's name. True opens all pages, names
        ("attention", or several) these alone. What drew random numbers stays closed.
    group: fold by modules, one line for each call of one, with its numbers in one row: True as deep as 30 lines allow,
        a number so many calls deep, or the module by whose attributes calls are named that no other surrounds.
    width: characters of a line; that of the terminal by default, 100 where the output is none.
    file: where to write the text, sys.stdout by default.

    html, svg: a file to draw the graph in instead, operations in boxes, values and gradients on the edges: a page with
        the text below, or the picture alone, in which steps are not drawn.

    The tape is not freed, and no `.grad` changes.
    Raises TypeError for what is not a Tensor. With `gradients` raises RuntimeError if nothing needs a gradient or the
    tape was already freed, ValueError without a cotangent for a non-scalar or with one of another shape. Raises
    ValueError for `expand` together with `group`, a group below 1, a width below 60, or a name in `expand` that is no
    operation on the tape or has no steps.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"explain: {type(tensor).__name__} has no tape; pass a Tensor")
    _check_options(expand, group, width)
    lines = lines_of(tensor)
    record: dict[Node, list] = {}
    if gradients:
        _set_gradients(lines, tensor, cotangent, record)
    steps = _opened(lines, expand, record)
    width = width or _width_of(file)
    if group is False:
        text = _text(lines, steps, gradients, width)
    else:
        lines, text = _folded(lines, group, gradients, width)
    if html is not None:
        write_whole(Path(html), page(lines, "\n".join(text)).encode())
    if svg is not None:
        write_whole(Path(svg), picture(lines).encode())
    if html is None and svg is None:
        print("\n".join(text), file=file)


def _check_options(expand: Any, group: Any, width: Any) -> None:
    is_number = isinstance(group, (bool, int, np.integer))
    if not (is_number or hasattr(group, "named_parameters")) or (is_number and group is not False and group < 1):
        raise ValueError(f"explain: group is {group!r}; pass True, a number of calls from 1 on, or a module")
    if expand and group is not False:
        raise ValueError("explain: expand opens operations and group folds them; choose one")
    if width is not None and (not isinstance(width, (int, np.integer)) or width < NARROWEST):
        raise ValueError(f"explain: width is {width!r}; pass a number of characters from {NARROWEST} on, or None")


def _set_gradients(lines: list[Line], tensor: Tensor, cotangent: ArrayLike | None, record: dict[Node, list]) -> None:
    leaves = gradients_of([tensor], [starting_cotangent(tensor, cotangent)], keep_tape=True, record=record)
    found: dict[Any, Any] = {place_of(leaf): gradient for leaf, gradient in leaves}
    found |= {(id(node), slot): bar for node, bars in record.items() for slot, bar in enumerate(bars)}
    for line in lines:
        line.gradient = found.get(line.place)


def _opened(lines: list[Line], expand: bool | str | Sequence[str], record: dict[Node, list]) -> dict[str, Opened]:
    """The steps of the lines that `expand` names, by number."""
    if not expand:
        return {}
    names = () if expand is True else (expand,) if isinstance(expand, str) else tuple(expand)
    on_tape = [line.node.operation for line in lines if line.node is not None]
    with_steps = {operation.__name__ for operation in on_tape if can_be_opened(operation)}
    made = {line.title.partition("(")[0] for line in lines if line.node is not None}
    for name in names:
        if name not in made:
            raise ValueError(f"explain: expand names {name!r}; on this tape are {', '.join(sorted(made))}")
        if name not in with_steps:
            others = ", ".join(sorted(with_steps)) or "none"
            raise ValueError(f"explain: {name} has no steps; on this tape have some: {others}")
    chosen = [line for line in lines if line.node is not None and (not names or line.title.partition("(")[0] in names)]
    results: dict[int, list[Any]] = {}
    for line in lines:
        results.setdefault(line.place[0], []).append(line.value)
    found = {
        line.number: opened(line.node, results[line.place[0]], record.get(line.node)) for line in chosen if line.node
    }
    return {number: steps for number, steps in found.items() if steps is not None}


def _folded(lines: list[Line], group: Any, gradients: bool, width: int) -> tuple[list[Line], list[str]]:
    """The lines folded as deep as `group` says, or as FEW lines of text allow, and that text."""
    root = group if hasattr(group, "named_parameters") else None
    if root is None and group is not True:
        found = folded(lines, int(group))
        return found, _text(found, {}, gradients, width, is_folded=True)
    for depth in range(1, max(depth_of(lines), 1) + 1):
        finer = folded(lines, depth, root)
        text = _text(finer, {}, gradients, width, is_folded=True)
        if depth > 1 and len(text) > FEW:
            break
        best = finer, text
    return best


# ---- the layout


def _width_of(file: IO[str] | None) -> int:
    stream = sys.stdout if file is None else file
    on_terminal = getattr(stream, "isatty", bool)()
    return max(NARROWEST, shutil.get_terminal_size((WIDTH, 24)).columns) if on_terminal else WIDTH


def _text(
    lines: list[Line], steps: dict[str, Opened], gradients: bool, width: int, *, is_folded: bool = False
) -> list[str]:
    """The table: what was computed on the left, values and gradients on the right; of folded lines in one row."""
    dtypes = {line.dtype for line in lines}
    only = f" ({next(iter(dtypes))})" if len(dtypes) == 1 else ""
    margin = max(len(line.number) for line in lines) + len(GAP)
    columns = 2 if gradients else 1
    share = (0.62 if gradients else 0.55) * (0.7 if is_folded else 1)
    space = (width - margin) * share - columns * len(GAP)
    each = int(space / columns)
    left = width - margin - columns * (each + len(GAP))
    table = _Table(margin, left, each, columns)
    said: set[str] = set()
    for line in lines:
        dtype = "" if only else f" {line.dtype}"
        new = not is_folded and (line.equation not in said or line.number in steps)
        said.add(line.equation)
        notes = [line.equation] if line.equation and new else []
        pictures = [row for name, mask in line.masks.items() for row in _beside(name, mask_rows(mask, left - 12))]
        values: list[Any] = [line.value, line.gradient]
        if is_folded:
            values = [value if value is None else np.ravel(value) for value in values]
        unused = ", not used" if line.value is None else ""
        count = f", {line.count}" if line.count else ""
        table.add(
            line.number, f"{line.title} {_shape(line.shape)}{dtype}{unused}{count}", notes, pictures, values[:columns]
        )
        if line.number in steps:
            letters, found = _letters(), steps[line.number]
            for step in found.steps:
                notes = [step.comment] if step.comment else []
                given = step.gradient if step.value is None else step.value
                if given is None:
                    beside = " " if step.equation.endswith(":") else GAP
                    table.add("", "", [beside.join([step.equation, *notes])], [], [None, None][:columns])
                    continue
                title, both = f"{step.equation} {_shape(given.shape)}", [step.value, step.gradient]
                table.add(f"{line.number}{next(letters)}", title, notes, [], both[:columns])
            table.add("", "", found.notes(line.number), [], [None, None][:columns])
    return table.text(f"line, shape{only}", ["value", "gradient"][:columns])


def _shape(shape: tuple[int, ...]) -> str:
    return str(shape).replace(" ", FIXED)


def _letters() -> Iterator[str]:
    """a, b, …, z, aa, ab, …"""
    for length in itertools.count(1):
        yield from map("".join, itertools.product(string.ascii_lowercase, repeat=length))


def _beside(name: str, rows: list[str]) -> list[str]:
    """A name beside the first row of a picture."""
    return [f"{name if i == 0 else '':{len(name)}} {row}" for i, row in enumerate(rows)]


class _Table:
    """Rows of text in columns: a number, what was computed, and one or two columns of arrays."""

    def __init__(self, margin: int, left: int, each: int, columns: int):
        self.margin, self.left, self.each = margin, left, each
        self.whole = left + columns * (each + len(GAP))
        self.rows: list[tuple[str, list[str], list[list[str]]]] = []

    def add(self, number: str, title: str, notes: list[str], pictures: list[str], values: list[Any]) -> None:
        """A row: the title, notes and pictures under it, and arrays beside them, None for one that is not there."""
        cells = [[] if value is None else array_rows(value, self.each) for value in values]
        first = [line.replace(FIXED, " ") for line in textwrap.wrap(title, self.left, subsequent_indent="  ")]
        height = max(map(len, cells), default=0)
        space = self.left if height > len(first) else self.whole  # below the arrays there is the whole width
        indent = lambda note: "  " + note[: len(note) - len(note.lstrip())] if note[:1] == " " else ""
        under = [line for note in notes for line in textwrap.wrap(note, space, subsequent_indent=indent(note))]
        self.rows.append((number, first + under + pictures, cells))

    def text(self, heading: str, titles: list[str]) -> list[str]:
        """The lines, under a heading."""
        rows = [("", [heading], [[title] for title in titles]), *self.rows]
        lengths = [
            max(len(text) for _, _, cells in rows for text in cells[i]) if rows else 0 for i in range(len(titles))
        ]
        beside = [text for _, texts, cells in self.rows for text in texts[: max(map(len, cells))]]
        left = max((_length(text) + self.margin for text in beside), default=0)
        left = max(left, len(heading))
        lines = []
        for k, (number, texts, cells) in enumerate(rows):
            for i in range(max(len(texts), *map(len, cells))):
                start = number.ljust(self.margin) if i == 0 and k else " " * self.margin if k else ""
                start += texts[i] if i < len(texts) else ""
                at = [column[i] if i < len(column) else "" for column in cells]
                padded = start + " " * (left - _length(start))
                lines.append((GAP.join([padded, *(c.ljust(n) for c, n in zip(at, lengths, strict=True))])
                              if any(at) else start).rstrip())  # fmt: skip
        return lines


def _length(text: str) -> int:
    """How many places the text takes: the hat of x̂ takes none."""
    return sum(not unicodedata.combining(letter) for letter in text)
