"""An operation opened into steps: each with its equation, its value and the gradient that reaches it.

A page (refnp/autograd/pages.py) is opened line by line: it runs once more on the same arrays, forward and back. What
is no page may have a plain form, a generator of steps in operations of the engine, such as those of
refnp/layers/steps.py; the walk back through it gives the gradient of every step. How far the result is from the
operation's own is shown with it: rounding, or digits that a kernel saves.
"""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np

from refnp.autograd.backward import gradients_of
from refnp.autograd.explanation.lines import place_of
from refnp.autograd.explanation.page_lines import lines_of_page
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, Node, Tensor
from refnp.numbers.arrays import sum_to

Steps = Generator[tuple[str, Any], None, Any]  # yields (equation, value), returns the result of the operation
_plain: dict[Callable, Callable[..., Steps]] = {}


class Step(NamedTuple):
    """A step of an operation; `gradient` is None for a constant, or where none is asked for.

    Of a page a step is a line of its code, with its comment: forward with a value, in the VJP with a gradient.
    """

    equation: str
    value: Array | None
    gradient: Array | None
    comment: str = ""


class Opened(NamedTuple):
    """The steps of an operation, the results and gradients by argument of the plain form, and how far it is off.

    `digits` are those of the largest number in the result to which it agrees with the page, at most as many as the
    precision holds.
    """

    steps: list[Step]
    results: list[Array]
    gradients: dict[int, Array]
    difference: float
    digits: int


def steps_of(operation: Callable) -> Callable:
    """Make a generator of steps the plain form of an operation, whose arguments and options it takes.

    It yields (equation, value) for each step and returns the result, a tuple if there are several. Arguments that need
    a gradient come as Tensors. A generator that returns None leaves the operation closed.
    """

    def register(form: Callable[..., Steps]) -> Callable[..., Steps]:
        _plain[operation] = form
        return form

    return register


def operations_with_steps() -> list[Callable]:
    """The operations that can be opened though they are no pages."""
    return list(_plain)


def can_be_opened(operation: Callable) -> bool:
    """Whether an operation is a page, or has a plain form."""
    return hasattr(operation, "page") or operation in _plain


def opened(node: Node, values: list[Array | None], bars: list[Array] | None) -> Opened | None:
    """The steps of a node whose results are `values` and, if asked for, have the gradients `bars`.

    None if there is no plain form, the tape was freed, or random numbers were drawn, which it would draw otherwise.
    """
    form = _plain.get(node.operation)
    options = node.options or {}
    if node.arguments is None or any(isinstance(o, np.random.Generator) for o in options.values()):
        return None
    if hasattr(node.operation, "page"):
        return _opened_page(node, values, bars)
    if form is None:
        return None
    arguments = [_leaf(a) if isinstance(a, Tensor) else np.asarray(a) if isinstance(a, list) else a
                 for a in node.arguments]  # fmt: skip
    found: list[tuple[str, Any]] = []
    with np.errstate(all="ignore"):
        result = _run(form(*arguments, **options), found)
        if result is None:
            return None
        results = list(result) if isinstance(result, tuple) else [result]
        by_place, gradients = _gradients(results, arguments, bars)
    steps = [Step(text, np.asarray(raw(v)), by_place.get(place_of(v)) if isinstance(v, Tensor) else None)
             for text, v in found]  # fmt: skip
    return _compared(steps, [np.asarray(raw(r)) for r in results], gradients, values)


def _opened_page(node: Node, values: list[Array | None], bars: list[Array] | None) -> Opened:
    """The lines of a page, run once more on the arguments; float16 in float32, as pages compute it."""
    arguments = tuple(_given(argument) for argument in node.arguments or ())
    wide_bars = None if bars is None else [_given(bar) for bar in bars]
    with np.errstate(all="ignore"):
        page: Callable = node.operation.page  # type: ignore[attr-defined]
        forward, back, value, found = lines_of_page(page, arguments, node.options or {}, wide_bars)
    indented = lambda line: "  " * line.depth + line.code
    steps = [Step(indented(line), line.value, None, line.comment) for line in forward]
    steps += [Step(indented(line), None, line.value, line.comment) for line in back]
    results = list(value) if isinstance(value, tuple) else [value]
    needed = {k for k, a in enumerate(node.arguments or ()) if isinstance(a, Tensor) and a.requires_grad}
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


def _leaf(tensor: Tensor) -> Any:
    """A leaf of the same numbers, so that the walk back ends there; an array if it needs no gradient."""
    return Tensor(tensor.data, requires_grad=True) if tensor.requires_grad else tensor.data


def _run(steps: Steps, found: list[tuple[str, Any]]) -> Any:
    """Put the steps into `found`; what the generator returns."""
    while True:
        try:
            found.append(next(steps))
        except StopIteration as end:
            return end.value


def _gradients(results: list[Any], arguments: list[Any], bars: list[Array] | None) -> tuple[dict, dict[int, Array]]:
    """The gradient of every value on the tape of the plain form by its place, and that of each argument."""
    if bars is None:
        return {}, {}
    record: dict[Node, list[Array]] = {}
    needed = [(r, bar) for r, bar in zip(results, bars, strict=True) if isinstance(r, Tensor) and r.requires_grad]
    leaves = gradients_of([r for r, _ in needed], [bar for _, bar in needed], keep_tape=True, record=record)
    by_place = {place_of(leaf): gradient for leaf, gradient in leaves}
    by_place |= {(id(node), slot): bar for node, own in record.items() for slot, bar in enumerate(own)}
    at = {place_of(a): k for k, a in enumerate(arguments) if isinstance(a, Tensor)}
    return by_place, {at[place]: gradient for place, gradient in by_place.items() if place in at}
