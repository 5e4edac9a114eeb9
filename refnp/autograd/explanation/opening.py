"""A page opened into steps: each line with its value, and the gradient that the lines of its VJP give.

A page (refnp/autograd/pages.py) runs once more on the same arrays, forward and back, line by line. How far the result
is from the operation's own is shown with it: rounding, or digits that a kernel saves.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from refnp.autograd.explanation.page_lines import lines_of_page
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, Node, Tensor
from refnp.numbers.arrays import sum_to


class Step(NamedTuple):
    """A step of an operation; `gradient` is None for a constant, or where none is asked for.

    It is a line of the code of a page, with its comment: forward with a value, in the VJP with a gradient.
    """

    equation: str
    value: Array | None
    gradient: Array | None
    comment: str = ""


class Opened(NamedTuple):
    """The steps of an operation, the results of its page and gradients by argument, and how far the page is off.

    `digits` are those of the largest number in the result to which it agrees with the page, at most as many as the
    precision holds.
    """

    steps: list[Step]
    results: list[Array]
    gradients: dict[int, Array]
    difference: float
    digits: int


def can_be_opened(operation: Callable) -> bool:
    """Whether an operation is a page."""
    return hasattr(operation, "page")


def opened(node: Node, values: list[Array | None], bars: list[Array] | None) -> Opened | None:
    """The lines of a node whose results are `values` and, if asked for, have the gradients `bars`; float16 in float32.

    None if it is no page, the tape was freed, or random numbers were drawn, which the page would draw otherwise.
    """
    options = node.options or {}
    drawn = any(isinstance(o, np.random.Generator) for o in options.values())
    if node.arguments is None or drawn or not can_be_opened(node.operation):
        return None
    arguments = tuple(_given(argument) for argument in node.arguments)
    wide_bars = None if bars is None else [_given(bar) for bar in bars]
    with np.errstate(all="ignore"):
        page: Callable = node.operation.page  # type: ignore[attr-defined]
        forward, back, value, found = lines_of_page(page, arguments, options, wide_bars)
    indented = lambda line: "  " * line.depth + line.code
    steps = [Step(indented(line), line.value, None, line.comment) for line in forward]
    steps += [Step(indented(line), None, line.value, line.comment) for line in back]
    results = list(value) if isinstance(value, tuple) else [value]
    needed = {k for k, a in enumerate(node.arguments) if isinstance(a, Tensor) and a.requires_grad}
    gradients = {
        k: sum_to(g() if callable(g) else g, np.shape(arguments[k])) for k, g in enumerate(found or ()) if k in needed
    }
    return _compared(steps, results, gradients, values)


def _given(argument: Any) -> Any:
    """The array of a Tensor or a list; numbers and None as they are."""
    array = np.asarray(argument) if isinstance(argument, list) else raw(argument)
    return array.astype(np.float32) if getattr(array, "dtype", None) == np.float16 else array


def _compared(steps: list[Step], arrays: list[Array], gradients: dict[int, Array], values: list) -> Opened:
    """What was opened, and how far its results are from the values that stand on the tape."""
    pairs = [(a, v) for a, v in zip(arrays, values, strict=True) if v is not None]
    difference = max((float(np.max(np.abs(a - v), initial=0)) for a, v in pairs), default=0.0)
    size = max((float(np.max(np.abs(v), initial=0)) for _, v in pairs), default=0.0)
    return Opened(steps, arrays, gradients, difference, _digits(difference, size, np.finfo(arrays[0].dtype).precision))


def _digits(difference: float, size: float, most: int) -> int:
    """The decimal digits of numbers of this size that a difference leaves; 0 if it is NaN or infinite."""
    if not np.isfinite(difference):
        return 0
    return most if not difference else min(most, max(0, int(np.log10(size) - np.log10(difference)))) if size else 0
