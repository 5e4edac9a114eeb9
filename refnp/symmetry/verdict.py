"""Arrays as the Python that makes them.

What a search came to: a `Verdict` to print or to read, and the `CounterExample` of a claim that fails.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.symmetry.claim import WIDE, called

PLAIN = {np.dtype(np.float64), np.dtype(np.int64), np.dtype(bool)}  # what np.array makes of Python numbers


def array_code(array: Any, indent: int = 0) -> str:
    """`np.array([[0., 1.]])`: evaluates to the same array, dtype and all digits included."""
    if array is None:
        return "None"
    array = np.asarray(array)
    if not array.size:
        return f"np.zeros({array.shape}, {_dtype(array.dtype)})"
    if array.ndim == 0 and array.dtype in PLAIN:
        return _names(repr(array.item()))
    wide = array.dtype == WIDE and array.dtype not in PLAIN
    body = np.array2string(
        array.astype(str) if wide else array,
        separator=", ",
        prefix=" " * (indent + len("np.array(")),
        threshold=sys.maxsize,
        floatmode="unique",
        max_line_width=120,
    )
    dtype = "" if array.dtype in PLAIN else f", {_dtype(array.dtype)}"
    return f"np.array({_names(body)}{dtype})"


def dict_code(name: str, arrays: Mapping[str, Any]) -> str:
    """`name = {"x": np.array(…), …}`, a line or more for each array."""
    lines = [f'    "{key}": {array_code(array, 6 + len(key))},' for key, array in arrays.items()]
    return "\n".join([f"{name} = {{", *lines, "}"])


def _dtype(dtype: Any) -> str:
    if dtype.kind == "b":
        return "bool"
    return "np.longdouble" if dtype == WIDE and dtype not in PLAIN else f"np.{dtype.name}"


def _names(text: str) -> str:
    return re.sub(r"(?<!['\w.])(nan|inf)\b", r"np.\1", text)


SHOWN = 200  # more numbers than these are not printed


class SymmetryError(AssertionError):
    """A claim did not come out as it was required to; the message is the verdict."""


@dataclass(frozen=True)
class CounterExample:
    """An input and an element for which f(g·x) is not g·f(x), made as small and as simple as could be found.

    `moved` is g·x, `given` f(g·x) and `expected` g·f(x), all as computed in `precision`. `relative` gives for each
    precision the discrepancy over the largest number of the output. `element` is g, `written` says it in words.
    """

    sizes: dict[str, int]
    element: Any
    written: str
    inputs: dict[str, Any]
    moved: dict[str, Any]
    given: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]
    precision: str
    relative: Mapping[str, float]
    reason: str

    def code(self) -> str:
        """The counter-example as Python that can be run: `inputs`, `moved`, `given` and `expected` as dicts of arrays.

        f(**moved) is `given`; the claim demands `expected`.
        """
        parts = [("inputs", self.inputs), ("moved", self.moved), ("given", self.given), ("expected", self.expected)]
        return "\n".join(["import numpy as np", "", *(dict_code(name, arrays) for name, arrays in parts)])

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {n}" for name, n in self.sizes.items())
        lines = [f"counter-example{' with ' + sizes if sizes else ''}, {self.written}, computed in {self.precision}"]
        lines += ["    " + line for line in dict_code("inputs", _few(self.inputs)).splitlines()]
        moved = {name: a for name, a in self.moved.items() if not _same(a, self.inputs[name])}
        parts = (("f(inputs moved)", self.given), ("f(inputs) moved", self.expected))
        digits = _digits_to_see(self.relative.get(self.precision, 1.0))
        lines += [f"    moved: {name} = {_short(array, 13 + len(name))}" for name, array in moved.items()]
        lines += [
            f"    {what}{'' if name == 'output' else f', {name}'}: {_short(_rounded(array, digits), 6 + len(what))}"
            for what, arrays in parts
            for name, array in arrays.items()
        ]
        steps = ", ".join(f"{name} {value:.1e}" for name, value in self.relative.items())
        return "\n".join([*lines, f"    {self.reason}", f"    discrepancy over the output: {steps}"])


@dataclass(frozen=True)
class Counts:
    """What was tried.

    inputs       how many inputs were judged; `refused`, how many more f did not take
    pairs        how many pairs of an input and an element were judged; `idle`, at how many more nothing moved or f
                 said nothing but zeros
    exhausted    for how many inputs every element of the group was tried
    blurred      at how many pairs rounding would have hidden a violation of the size that must be seen
    """

    inputs: int = 0
    refused: int = 0
    pairs: int = 0
    idle: int = 0
    exhausted: int = 0
    blurred: int = 0


@dataclass(frozen=True)
class Verdict:
    """What a search found out about one claim.

    outcome      "holds": no counter-example; "fails": here is one; "undecided": `reason` says why
    claim, sense the claim in words, and on what it was tried: sizes, dtypes, scales, seed
    worst        the largest discrepancy over what rounding allows: at most 1 where a claim holds
    relative     dtype → the largest discrepancy over the size of the output, computed in that precision
    resolution   the largest violation, relative to the output, that could have passed for rounding, blurred pairs aside
    """

    outcome: str
    claim: str
    sense: str
    reason: str
    counts: Counts
    worst: float
    relative: Mapping[str, float]
    resolution: float
    counterexample: CounterExample | None = None

    @property
    def holds(self) -> bool:
        """Whether the search ended without a counter-example, and saw enough to say so."""
        return self.outcome == "holds"

    @property
    def fails(self) -> bool:
        """Whether there is a counter-example."""
        return self.outcome == "fails"

    @property
    def digits(self) -> float:
        """To how many digits both sides agree where they agree least, in the finest precision."""
        relative = list(self.relative.values())[-1] if self.relative else 0.0
        most = -math.log10(float(np.finfo(np.longdouble).eps))
        return most if relative == 0 else max(0.0, min(most, -math.log10(relative)))

    def require(self, outcome: str = "holds") -> Verdict:
        """The verdict itself; raises SymmetryError, with the report, if the outcome is another."""
        if self.outcome != outcome:
            raise SymmetryError(str(self))
        return self

    def __str__(self) -> str:
        counts = self.counts
        lines = [f"{self.claim}: {self.outcome.upper()}", f"  tried on {self.sense}"]
        lines.append(
            f"  {counts.inputs} inputs, for {counts.exhausted} of them every element of the group; "
            f"{counts.pairs} pairs of input and element, {counts.idle} more that moved nothing"
        )
        if counts.refused:
            lines.append(f"  {counts.refused} inputs were refused by f")
        if self.relative and self.outcome != "fails":
            steps = ", ".join(_evidence(name, value) for name, value in self.relative.items())
            lines.append(f"  largest discrepancy over the output: {steps}")
        if self.outcome != "fails" and counts.pairs:
            blurred = f", but for {counts.blurred} pairs where rounding is too large" if counts.blurred else ""
            lines.append(
                f"  {self.worst:.2g} of what rounding allows; a violation above {self.resolution:.1e} of the output "
                f"would have been seen{blurred}"
            )
        if self.reason:
            lines.append(f"  {self.reason}")
        if self.counterexample is not None:
            lines += ["  " + line for line in str(self.counterexample).splitlines()]
        return "\n".join(lines)


def _evidence(name: str, value: float) -> str:
    u = next(float(np.finfo(t).eps) / 2 for t in (np.float32, np.float64, np.longdouble) if called(t) == name)
    return f"{name} {value:.1e} ({value / u:.2g} u)"


def _digits_to_see(relative: float) -> int:
    """As many significant digits as show the discrepancy, and three more."""
    return 4 + (max(0, math.ceil(-math.log10(relative))) if 0 < relative < 1 else 0)


def _rounded(array: np.ndarray, digits: int) -> np.ndarray:
    """Real numbers to so many significant digits."""
    if array.dtype.kind != "f":
        return array
    return np.array([float(f"{number:.{digits}g}") for number in array.ravel()]).reshape(array.shape)


def _few(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays that are small enough to be read."""
    return {name: a for name, a in arrays.items() if a is None or np.size(a) <= SHOWN}


def _short(array: Any, indent: int) -> str:
    if array is not None and np.size(array) > SHOWN:
        return f"{np.shape(array)}, {np.size(array)} numbers"
    return array_code(array, indent)


def _same(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    return np.shape(a) == np.shape(b) and np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind in "fc")
