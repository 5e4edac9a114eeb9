"""What a search found: a `Verdict` to print or to read, and the `CounterExample` of a claim that fails, as code too."""

import functools
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from refnp.autograd import Array, ArrayLike
from refnp.symmetry.actions import Arrays, Element
from refnp.symmetry.claim import FLOATS, dtype_name, roundoff
from refnp.symmetry.evaluation import same

MOST_PRINTED = 200  # larger arrays are not printed
ALONE = 1000  # times as many u as in finer precisions are not made by rounding
PLAIN = {np.dtype(np.float64), np.dtype(np.int64), np.dtype(bool)}  # what np.array makes of Python numbers


class SymmetryError(AssertionError):
    """A claim did not have the outcome that was required; the message is the verdict."""


@dataclass(frozen=True)
class CounterExample:
    """An input and an element for which f(g·x) is not g·f(x), as small and as simple as could be found.

    sizes          of the input
    element        g, and `description`, g in words
    inputs, moved  x and g·x
    given          f(g·x), as computed in `precision`; empty where f raises an error
    expected       g·f(x), as computed in `precision`
    relative       precision → the discrepancy over the largest number of the output
    reason         what differs, and where
    ratio          the largest discrepancy over its allowance for rounding errors; infinite where nothing is allowed
    origin         how the input was made at which the claim was first found to fail, before it was made simple
    """

    sizes: dict[str, int]
    element: Element
    description: str
    inputs: dict[str, Any]
    moved: dict[str, Any]
    given: dict[str, Array]
    expected: dict[str, Array]
    precision: str
    relative: Mapping[str, float]
    reason: str
    ratio: float = math.inf
    origin: str = ""

    def code(self) -> str:
        """The counter-example as Python that can be run: `inputs`, `moved`, `given` and `expected` as dicts of arrays.

        f(**moved) is `given`; the claim demands `expected`.
        """
        parts = [("inputs", self.inputs), ("moved", self.moved), ("given", self.given), ("expected", self.expected)]
        return "\n".join(["import numpy as np", "", *(dict_code(name, arrays) for name, arrays in parts)])

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {n}" for name, n in self.sizes.items())
        lines = [
            f"counter-example{' with ' + sizes if sizes else ''}, {self.description}, computed in {self.precision}"
        ]
        small = {name: a for name, a in self.inputs.items() if a is None or np.size(a) <= MOST_PRINTED}
        lines += ["    " + line for line in dict_code("inputs", small).splitlines()]
        for name, array in self.moved.items():
            if not same(array, self.inputs[name]):
                lines.append(f"    moved: {name} = {_short(array, 13 + len(name))}")
        relative = self.relative.get(self.precision, 1.0)
        digits = 4 + (max(0, math.ceil(-math.log10(relative))) if 0 < relative < 1 else 0)  # three more than differ
        for what, arrays in (("f(inputs moved)", self.given), ("f(inputs) moved", self.expected)):
            for name, array in arrays.items():
                output = "" if name == "output" else f", {name}"
                lines.append(f"    {what}{output}: {_short(_rounded(array, digits), 6 + len(what))}")
        by_precision = ", ".join(f"{name} {value:.1e}" for name, value in self.relative.items())
        lines += [f"    {self.reason}", f"    discrepancy over the output: {by_precision}"]
        return "\n".join([*lines, *([f"    {self.origin}"] if self.origin else [])])


@dataclass(frozen=True)
class Counts:
    """What was tried.

    inputs       how many inputs were judged; `refused`, how many more f did not take
    pairs        how many pairs of an input and an element were judged; `idle`, at how many more nothing moved or f
                 gave only zeros
    exhausted    for how many inputs every element of the group was tried
    unresolved   at how many pairs rounding would have hidden a violation of the size that must be seen
    nan          at how many pairs that agree f gave NaN, on both sides in the same places
    jumps        at how many pairs a choice in f hangs on a rounding, so that both sides differ as much as the output
    """

    inputs: int = 0
    refused: int = 0
    pairs: int = 0
    idle: int = 0
    exhausted: int = 0
    unresolved: int = 0
    nan: int = 0
    jumps: int = 0


@dataclass(frozen=True)
class Verdict:
    """What a search found about one claim.

    outcome         "proved": for every size, if what `reason` says; "holds": no counter-example; "fails": here is one;
                    "undecided": `reason` says why
    claim, sense    the claim in words, and on what it was tried: sizes, dtypes, scales, seed
    reason          why it is undecided, or what else a reader should know
    counts          of inputs, elements and pairs that were tried
    worst           the largest discrepancy over its allowance for rounding errors: at most 1 where a claim holds
    relative        dtype → the largest discrepancy over the size of the output, computed in that precision
    resolution      the largest violation, relative to the output, that could have passed for rounding error, unresolved
                    pairs aside; infinite where there are no others
    counterexample  of a claim that fails
    precision       that of the verdict, "float32" for example, if it is coarser than float64; "its float64 constants",
                    or float32, where a discrepancy is no larger than these leave

    A verdict is true, as in `assert search(…)`, if the claim was found to hold, and only then: one that is undecided is
    not. `holds_if` says which claims near one that fails hold.
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
    precision: str = ""
    neighbours: Callable[[], Sequence[str]] | None = field(default=None, repr=False, compare=False)

    def __bool__(self) -> bool:
        return self.holds

    @functools.cached_property
    def holds_if(self) -> tuple[str, ...]:
        """Of a claim that fails: under which conditions near it a search found it to hold; made when it is read.

        Other arguments that move too, the inverse on the output, results exchanged, no ties, these sizes only, even
        shifts only, another axis.
        """
        return tuple(self.neighbours()) if self.fails and self.neighbours is not None else ()

    @property
    def holds(self) -> bool:
        """Whether it is proved, or the search ended without a counter-example and tried enough to say so."""
        return self.outcome in ("holds", "proved")

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

    def require(self, outcome: str = "holds") -> Self:
        """The verdict itself; raises SymmetryError, with the report, if the outcome is another."""
        __tracebackhide__ = True  # for pytest, which then shows the line of the test
        if self.outcome != outcome and not (outcome == "holds" and self.holds):
            raise SymmetryError(str(self))
        return self

    def _units(self) -> dict[str, float]:
        """The largest discrepancies in unit roundoffs of their precision."""
        u = {dtype_name(dtype): roundoff(dtype) for dtype in FLOATS}
        return {name: value / u[name] for name, value in self.relative.items()}

    def _so_far(self) -> str:
        """How far a precision coarser than float64 lets one say that a claim holds."""
        if not self.holds or not self.precision:
            return ""
        tells = "tell" if self.precision.endswith("s") else "tells"
        return f", as far as {self.precision} {tells}, to {self.resolution:.0e} of the output"

    def __str__(self) -> str:
        if self.outcome == "proved":
            lines = [f"{self.claim}: PROVED for {self.sense}", *([f"  if {self.reason}"] if self.reason else [])]
            lines.append("  of real arithmetic, for sizes of at least 1")
            if self.counts.inputs:
                lines.append(f"  a search of {self.counts.inputs} inputs, be that so or not, found nothing against it")
            return "\n".join(lines)
        counts = self.counts
        lines = [
            f"{self.claim}: {self.outcome.upper()}{self._so_far()}",
            f"  tried on {self.sense}",
            f"  {counts.inputs} inputs, for {counts.exhausted} of them every element of the group; "
            f"{counts.pairs} pairs of input and element, {counts.idle} more that moved nothing",
        ]
        if counts.refused:
            lines.append(f"  {counts.refused} inputs were refused by f")
        if self.relative and self.outcome != "fails":
            units = self._units()
            steps = ", ".join(f"{name} {value:.1e} ({units[name]:.2g} u)" for name, value in self.relative.items())
            lines.append(f"  largest discrepancy over the output: {steps}")
            (name, most), *finer = units.items()
            if finer and most > ALONE * max(1.0, *(less for _, less in finer)):
                lines.append(f"  so many u are no rounding: what f computes in {name} alone is not judged")
        if self.outcome != "fails" and counts.pairs:
            but = f", but for {counts.unresolved} pairs where rounding is too large" if counts.unresolved else ""
            seen = f"a violation above {self.resolution:.1e} of the output would have been seen{but}"
            seen = seen if self.resolution < math.inf else "at no pair was enough resolved to see a violation"
            lines.append(f"  {self.worst:.2g} of what rounding allows; {seen}")
        if self.reason:
            lines.append(f"  {self.reason}")
        if self.counterexample is not None:
            lines += ["  " + line for line in str(self.counterexample).splitlines()]
            lines += [f"  holds if {condition}" for condition in self.holds_if]
        return "\n".join(lines)


def in_a_row(numbers: Iterable[int]) -> str:
    """Whole numbers as they are: "5, 9 and 13"; four and more that follow one another as "0 to 3"."""
    ordered, parts = sorted(numbers), []
    while ordered:
        n = next((i for i in range(1, len(ordered)) if ordered[i] != ordered[0] + i), len(ordered))
        parts += [f"{ordered[0]} to {ordered[n - 1]}"] if n > 3 else [str(k) for k in ordered[:n]]
        ordered = ordered[n:]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _rounded(array: Array, digits: int) -> Array:
    """Real numbers to so many significant digits."""
    if array.dtype.kind != "f":
        return array
    return np.array([float(f"{number:.{digits}g}") for number in array.ravel()]).reshape(array.shape)


def _short(array: ArrayLike | None, indent: int) -> str:
    if array is not None and np.size(array) > MOST_PRINTED:
        return f"{np.shape(array)}, {np.size(array)} numbers"
    return array_code(array, indent)


def array_code(array: ArrayLike | None, indent: int = 0) -> str:
    """`np.array([[0., 1.]])`: evaluates to the same array, dtype and all digits included. `indent` is of its lines."""
    if array is None:
        return "None"
    array = np.asarray(array)
    if not array.size:
        return f"np.zeros({array.shape}, {_dtype_code(array.dtype)})"
    if array.ndim == 0 and array.dtype in PLAIN:
        return _qualified(repr(array.item()))
    body = np.array2string(
        array.astype(str) if dtype_name(array.dtype) == "longdouble" else array,
        separator=", ",
        prefix=" " * (indent + len("np.array(")),
        threshold=sys.maxsize,
        floatmode="unique",
        max_line_width=120,
    )
    dtype = "" if array.dtype in PLAIN else f", {_dtype_code(array.dtype)}"
    return f"np.array({_qualified(body)}{dtype})"


def dict_code(name: str, arrays: Arrays) -> str:
    """`name = {"x": np.array(…), …}`, a line or more for each array."""
    lines = [f'    "{key}": {array_code(array, 6 + len(key))},' for key, array in arrays.items()]
    return "\n".join([f"{name} = {{", *lines, "}"])


def _dtype_code(dtype: np.dtype) -> str:
    return "bool" if dtype.kind == "b" else f"np.{dtype_name(dtype)}"


def _qualified(text: str) -> str:
    """nan and inf as np.nan and np.inf."""
    return re.sub(r"(?<!['\w.])(nan|inf)\b", r"np.\1", text)
