"""A page opened into steps: each line with its value, and the gradient that the lines of its VJP give.

A page (refnp/autograd/pages.py) runs once more on the same arrays, forward and back, line by line; what a mask hides is
set apart in front of it as it was. How far values and gradients are from the operation's own is shown with it:
rounding, or what a kernel saves.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from refnp.autograd.explanation.page_lines import lines_of_page, number_of
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, Node, Tensor
from refnp.numbers.arrays import sum_to


class Step(NamedTuple):
    """A step of an operation; `gradient` is None for a constant, or where none is asked for.

    It is a line of the code of a page, with its comment: forward with a value, in the VJP with a gradient. It has
    neither where a `PageLine` has no value.
    """

    equation: str
    value: Array | None
    gradient: Array | None
    comment: str = ""


class Opened(NamedTuple):
    """The steps of an operation, the results of its page and gradients by argument, and how they agree with its own.

    `digits` are those of the largest number of an array to which it agrees with the page, of the array with the fewest,
    and at most as many as the precision holds; `difference` is the largest, and `largest` the largest number in the
    steps. Numbers that are NaN or infinite in one of the two alone are `unlike`, of so many `numbers`. `kernel`:
    whether the operation has one. `hidden`: numbers that were set apart in front.
    """

    steps: list[Step]
    results: list[Array]
    gradients: dict[int, Array]
    digits: int
    difference: float
    largest: float
    unlike: int
    numbers: int
    kernel: bool
    hidden: int

    def notes(self, number: str) -> list[str]:
        """What is known of the steps beside line `number`."""
        found = f"these steps agree with line {number} to {self.digits} digits"
        if self.unlike:
            found += f", but for {self.unlike} of {self.numbers} numbers, which are NaN or infinite in one alone"
        notes = [found]
        if self.digits < FEW:
            by, beside = f"{self.difference:.1e}", f"{self.largest:.1e}"
            notes.append(f"they differ by up to {by}, beside numbers up to {beside} in the steps")
        if self.kernel and (self.unlike or self.digits < FEW):
            may = "the line may be" if self.unlike else "that may be their rounding, or the line is"
            notes.append(f"{may} a kernel's, which keeps promises that its page does not make: refnp.plain")
        if self.hidden:
            notes.append(f"{self.hidden} numbers that a mask hides, or that are not finite, are 0 or 1 in these steps")
        return notes


FEW = 3  # digits: fewer are no rounding of these lines, in any precision


def can_be_opened(operation: Callable) -> bool:
    """Whether an operation is a page."""
    return hasattr(operation, "page")


def opened(node: Node, values: list[Array | None], bars: list[Array] | None) -> Opened | None:
    """The lines of a node whose results are `values` and, if asked for, have the gradients `bars`; float16 in float32.

    None if it is no page, the tape was freed, or random numbers were drawn, which the page would draw otherwise.
    """
    options = node.options or {}
    drawn = any(isinstance(o, np.random.Generator) for o in options.values())
    if node.arguments is None or node.vjp is None or drawn or not can_be_opened(node.operation):
        return None
    operation: Any = node.operation
    arguments = tuple(_given(argument) for argument in node.arguments)
    hidden = 0

    def page(*arrays: Any, **given: Any) -> tuple:
        nonlocal hidden
        hidden = sum(map(_changed, arrays, arguments))
        return operation.page(*arrays, **given)

    with np.errstate(all="ignore"):
        form = page if operation.around is None else operation.around(page)
        forward, back, value, found = lines_of_page(form, arguments, options, bars and list(map(_given, bars)))
        results = [number_of(one) for one in (value if isinstance(value, tuple) else (value,))]
        needed = {k for k, a in enumerate(node.arguments) if isinstance(a, Tensor) and a.requires_grad}
        gradients = {k: _summed(g, arguments[k]) for k, g in enumerate(found or ()) if k in needed}
        own = node.vjp(*bars) if bars else ()
        pairs = list(zip(results, values, strict=True))
        pairs += [(gradients[k], _summed(own[k], arguments[k])) for k in gradients if own[k] is not None]
        agreement = [_agreement(number_of(a), np.asarray(b)) for a, b in pairs if b is not None]
    digits, differences, unlike, numbers = zip(*agreement, strict=True)
    largest = max((_largest(line.value) for line in (*forward, *back) if line.value is not None), default=0.0)
    indented = lambda line: "  " * line.depth + line.code
    steps = [Step(indented(line), line.value, None, line.comment) for line in forward]
    steps += [Step(indented(line), None, line.value, line.comment) for line in back]
    kernel = operation.kernel is not None
    return Opened(
        steps, results, gradients, min(digits), max(differences), largest, sum(unlike), sum(numbers), kernel, hidden
    )


def _given(argument: Any) -> Any:
    """The array of a Tensor or a list; numbers and None as they are."""
    array = np.asarray(argument) if isinstance(argument, list) else raw(argument)
    return array.astype(np.float32) if getattr(array, "dtype", None) == np.float16 else array


def _changed(array: Any, given: Any) -> int:
    """How many numbers of an array are not those that were given."""
    same = array is given or array is None
    return 0 if same else int((~np.isclose(array, given, rtol=0, atol=0, equal_nan=True)).sum())


def _summed(gradient: Any, argument: Any) -> Array:
    """A gradient, computed if it is not yet, in the shape of its argument."""
    return sum_to(gradient() if callable(gradient) else gradient, np.shape(argument))


def _largest(x: Array) -> float:
    """The size of the largest number that is finite; 0 without one."""
    return float(np.max(np.abs(x), where=np.isfinite(x), initial=0))


def _agreement(a: Array, b: Array) -> tuple[int, float, int, int]:
    """The digits to which a agrees with b, how far it is off, and how many numbers are NaN or infinite in one alone."""
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    both = np.isfinite(a) & np.isfinite(b)
    most = np.finfo(b.dtype).precision if b.dtype.kind in "fc" else 15
    difference = float(np.max(np.abs(a - b), where=both & ~same, initial=0))
    size = float(np.max(np.abs(b), where=both, initial=0))
    return _digits(difference, size, most), difference, int((~same & ~both).sum()), a.size


def _digits(difference: float, size: float, most: int) -> int:
    """The decimal digits of numbers of this size that a difference leaves."""
    if not difference:
        return most
    return min(most, max(0, int(np.log10(size) - np.log10(difference)))) if size else 0
