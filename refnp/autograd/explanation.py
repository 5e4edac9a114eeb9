"""The tape as text: what was computed, line by line, and on request the gradient of each line.

    x = Tensor([3.0, 4.0], requires_grad=True)
    explain((x * x).sum(), gradients=True)

    1   leaf             (2,) float64   3. 4.
                         gradient       6. 8.
    2   multiply(1, 1)   (2,) float64   9. 16.   z = x y
                         gradient       1. 1.
    3   sum(2)           () float64     25.      y = Σ x over `axis`
                         gradient       1.

Numbers in brackets are earlier lines; anything else in them is a constant. A result that is one of several has the
number of its line and its own, 4.0, 4.1. The equation is the one in the operation's docstring.
"""

import inspect
import itertools
import re
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from refnp.autograd.backward import gradients_of, starting_cotangent, tape_of
from refnp.autograd.tensor import Array, ArrayLike, Node, Parameter, Tensor

SHOWN = 4  # elements of an array
WIDTHS = (6, 30, 24, 44)  # at most, of the columns before the equation


def explain(
    tensor: Tensor, *, gradients: bool = False, cotangent: ArrayLike | None = None, file: IO[str] | None = None
) -> None:
    """Print the tape behind `tensor`: a numbered line for each operation, its equation, shapes, a preview of values.

    With `gradients` also the gradient of each line if that of the tensor is `cotangent` (1 for a scalar). The tape is
    not freed, and no `.grad` changes.
    Raises TypeError for what is not a Tensor. With `gradients` raises RuntimeError if nothing needs a gradient or the
    tape was already freed, ValueError without a cotangent for a non-scalar or with one of another shape.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"explain: {type(tensor).__name__} has no tape; pass a Tensor")
    back: dict[Any, Array] = {}
    if gradients:
        record: dict[Node, list] = {}
        leaves = gradients_of([tensor], [starting_cotangent(tensor, cotangent)], keep_tape=True, record=record)
        back.update({_place(leaf): gradient for leaf, gradient in leaves})
        back.update({(id(node), slot): bar for node, bars in record.items() for slot, bar in enumerate(bars)})
    rows = []
    for line in _lines(tensor):
        rows.append(line[1:])
        if gradients and line[0] in back:
            rows.append(("", "", "gradient", _preview(back[line[0]]), ""))
    widths = [min(most, max(len(row[i]) for row in rows)) for i, most in enumerate(WIDTHS)]
    text = ["   ".join([*(_cut(c, w).ljust(w) for c, w in zip(row, widths, strict=False)), row[-1]]) for row in rows]
    print("\n".join(line.rstrip() for line in text), file=file)


def _lines(tensor: Tensor) -> list[tuple]:
    """(place, number, call, shape and dtype, values, equation) of every leaf and result, in the order of making."""
    nodes = tape_of([tensor])
    used = [a for node in nodes for a in node.arguments or () if isinstance(a, Tensor)]
    tensors = {_place(t): t for t in (*used, tensor)}
    numbers: dict[Any, str] = {}
    lines: list[tuple] = []
    count = itertools.count(1)

    def add_leaf(leaf: Tensor) -> None:
        number = numbers[_place(leaf)] = str(next(count))
        kind = "parameter" if isinstance(leaf, Parameter) else "leaf" if leaf.requires_grad else "constant"
        lines.append((_place(leaf), number, kind, f"{leaf.shape} {leaf.dtype}", _preview(leaf.data), ""))

    for node in nodes:
        for argument in node.arguments or ():
            if isinstance(argument, Tensor) and argument.requires_grad and _place(argument) not in numbers:
                add_leaf(argument)
        number = next(count)
        for slot, (shape, dtype) in enumerate(node.outputs):
            place = (id(node), slot)
            numbers[place] = f"{number}.{slot}" if len(node.outputs) > 1 else str(number)
            value = _preview(tensors[place].data) if place in tensors else "not used"
            first = (_call(node, numbers), equation_of(node.operation)) if slot == 0 else ("", "")
            lines.append((place, numbers[place], first[0], f"{shape} {dtype}", value, first[1]))
    if not nodes:
        add_leaf(tensor)
    return lines


def _place(tensor: Tensor) -> tuple[int, int]:
    """The key of a value: its node and which of the node's results it is, or the leaf itself."""
    return (id(tensor), 0) if tensor.node is None else (id(tensor.node), tensor.slot)


def _call(node: Node, numbers: dict) -> str:
    name = node.operation.__name__.lstrip("_")
    if node.arguments is None:
        return f"{name}(…), freed by backward"

    def text(argument: Any) -> str:
        if isinstance(argument, Tensor) and _place(argument) in numbers:
            return numbers[_place(argument)]
        if isinstance(argument, (Tensor, np.ndarray)):
            return f"constant {argument.shape}" if argument.ndim else str(argument.item())
        return repr(argument)

    return f"{name}({', '.join(map(text, node.arguments))})"


def _preview(values: Array) -> str:
    first = np.ravel(values)[:SHOWN]
    numbers = np.array2string(first, precision=4, max_line_width=1000)[1:-1]
    return " ".join(numbers.split()) + (" …" if np.size(values) > SHOWN else "")


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def equation_of(operation: Callable) -> str:
    """The equation in an operation's docstring: in its first paragraph, before the VJP, the first clause with an '='.

    A paragraph without one gives its first sentence.
    """
    text = re.split(r"VJP|\n\s*\n", inspect.getdoc(operation) or "")[0]
    text = re.sub(r" \([^()]*[a-z]{4}[^()]*\)", "", text)  # remarks, as "(for complex x, the largest real part)"
    sentences = [" ".join(s.split()) for s in re.split(r"\.(?:\s|$)", text)]
    for sentence in sentences:
        if "=" in sentence:
            clauses = re.split(r": |; |,(?! else)(?![^(]*\))", sentence)  # commas within brackets separate arguments
            return next((c.strip() for c in clauses if "=" in c), "")
    return sentences[0]
