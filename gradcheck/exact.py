r"""Element by element: each element of a gradient by its own digits, against an equation in arbitrary precision.

    digits of x̄ⱼ = −log₁₀( |claimed − exact| / |exact| )

Where terms cancel in f or in its gradient, the other comparisons do not see what is lost. Digits by the norm, or by the
sum of the sizes of the terms, take what is small beside its terms for rounding; the complex step runs the same
operations as f, and loses what they lose. So for softmax of [0, −40] and the cotangent [1, 0]: x̄₀ = p₀ p₁ = 4.2e-18 is
a difference of two numbers near 1, p₀ (ȳ₀ − ȳ₀ p₀), of which float64 keeps nothing, and every one of these ways agrees
that it is 0.

An equation says what is right: f once more, on numbers with as many digits as are wanted. Its derivative is a central
difference, whose two errors

    (F(x + heⱼ) − F(x − heⱼ)) / 2h = ∂F/∂xⱼ + O(h²) + O(10^−d / h)        h = 10^(−d/3), d digits

are so small that it is exact beside any floating-point number. The difference with 2h tells the first of them. An
element that 60 digits do not resolve, because it is tiny beside F, is computed again with more.

What may be left: a difference up to the smallest normal number counts as none, because whatever is below may be flushed
to 0. Where the exact value is 0, as no number of digits shows anything else, the claim is measured by the sizes of its
terms and of f, whose rounding error it may be. Where the slopes of the equation to the left and to the right differ
there is a kink, and the exact value is the number between them that is nearest to the claim (`gradcheck.kinks`).
"""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcheck.agreement import most_digits
from gradcheck.flat import ClaimedGradient, FlatFunction, Path, branch_at, leaves_of, replace_leaves
from gradcheck.precision import Array, DType
from gradcheck.report import Kink, Report, Worst

DIGITS = (60, 480, 2400)  # the second resolves what float64 can hold; what the third does not is 0
EXACT = "exact equation"  # as reports name it
SPARE = 22  # digits of an exact value that must be right: more than longdouble has
Number = Any


@dataclass(frozen=True)
class Exact:
    """f once more, as an `equation` in numbers of arbitrary precision; gradcheck takes its derivative.

    equation    takes f's arguments with object arrays of such numbers in place of floating arrays, and returns what f
                returns, of such numbers; written in loops, or with what NumPy can do with object arrays: + − * /, sum
    number      makes such a number of an integer: mpmath.mpf, decimal.Decimal
    precision   precision(digits) → a context in which numbers have so many digits: mpmath.workdps
    columns     a dict that keeps derivatives for further checks, of the same f with the same constants; none by default
    """

    equation: Callable
    number: Callable[[int], Number]
    precision: Callable[[int], AbstractContextManager]
    columns: dict[tuple, "Column"] | None = None

    def of(self, value: Any) -> Number:
        """A finite NumPy number in such numbers, without rounding where there are digits enough."""
        numerator, denominator = value.as_integer_ratio()
        return self.number(numerator) / self.number(denominator)

    def array(self, values: Array) -> Array:
        """An array of NumPy numbers in such numbers."""
        exact = np.empty(values.shape, object)
        for place, value in np.ndenumerate(values):
            exact[place] = self.of(value)
        return exact


class ExactFunction:
    """F: ℝⁿ → ℝᵐ in numbers of arbitrary precision, at the point of `problem`."""

    def __init__(self, exact: Exact, problem: FlatFunction):
        self.exact, self.problem = exact, problem
        self.arguments: dict[int, dict] = {}  # by the number of digits
        self.values: dict[int, Array] = {}  # F(x), likewise
        y = np.array([float(number) for number in self.at({}, DIGITS[0])])
        difference = np.abs(y - problem.y)
        if not np.all(difference <= problem.same(problem.y)):
            raise ValueError(
                f"exact: the equation differs from f by up to {np.max(difference):.3g}; it is another function, or "
                "takes its arguments in another order"
            )

    def at(self, moved: dict[int, Number], digits: int) -> Array:
        """F (m,) at x, with some elements moved to other places, in `digits` digits."""
        with self.exact.precision(digits):
            if digits not in self.arguments:
                self.arguments[digits] = dict(self._floating_leaves())
            new = dict(self.arguments[digits])
            for j, number in moved.items():
                leaf = self.problem.leaf_of(j)
                new[leaf.path] = new[leaf.path].copy()
                new[leaf.path][np.unravel_index(j - leaf.start, leaf.shape)] = number
            value = self.exact.equation(*replace_leaves(self.problem.given, new))
        parts = [np.asarray(branch_at(value, path), object).reshape(-1) for path, _ in self.problem.outputs]
        y = np.concatenate(parts)
        if y.shape != self.problem.y.shape:
            raise ValueError(f"exact: the equation gives {y.size} numbers where f gives {self.problem.y.size}")
        return y

    def here(self, digits: int) -> Array:
        """F (m,) at x itself, which every element needs: computed once for each number of digits."""
        if digits not in self.values:
            self.values[digits] = self.at({}, digits)
        return self.values[digits]

    def column(self, j: int, digits: int) -> "Column":
        """∂F/∂xⱼ by central differences with steps h and 2h, h = 10^(−digits/3), or as much smaller as xⱼ is.

        A smaller step needs more digits: two for each by which it is smaller. What was computed before, for the same
        numbers in another precision, is not computed again.
        """
        columns = {} if self.exact.columns is None else self.exact.columns
        key = (digits, j, *self.problem.x.tolist())
        if key not in columns:
            columns[key] = self._column(j, digits)
        return columns[key]

    def _column(self, j: int, digits: int) -> "Column":
        size = abs(self.problem.x[j])
        smaller = int(np.ceil(-np.log10(min(size, 1)))) if size else 0
        digits, step_digits = digits + 2 * smaller, digits // 3 + smaller
        with self.exact.precision(digits):
            x, h = self.exact.of(self.problem.x[j]), 1 / self.exact.number(10**step_digits)
            left2, left, right, right2 = (self.at({j: x + k * h}, digits) for k in (-2, -1, 1, 2))
            middle = self.here(digits)
            value, coarse = (right - left) / (2 * h), (right2 - left2) / (4 * h)
            noise = (abs(right2) + abs(left2)) * 10 ** (step_digits + 1) / self.exact.number(10**digits)
            gap, gap2 = (abs(b - 2 * middle + a) / (k * h) for a, b, k in ((left, right, 1), (left2, right2, 2)))
            kink = np.any((gap > 100 * noise) & (2 * gap2 < 3 * gap))  # where F is smooth, gap2 is twice gap
            if not kink:
                return Column(value, abs(value - coarse) + noise)
            slopes = (middle - left) / h, (right - middle) / h
            bends = abs(left2 - 2 * left + middle) + abs(right2 - 2 * right + middle)
            return Column(value, bends / h + noise, slopes)

    def parts(self, j: int, cotangents: Array, claimed: Array) -> tuple[list["Element"], int]:
        """x̄ⱼ for every cotangent (K, m), and with how many digits it was computed.

        More digits are taken until every element is known, or so small, like the claim (K,) of it, that they underflow.
        """
        least = self.exact.of(smallest(self.problem.dtype))
        for digits in DIGITS:
            column = self.column(j, digits)
            with self.exact.precision(digits):
                sizes = [self.exact.of(np.abs(u) @ self.problem.within / self.problem.size[j]) for u in cotangents]
                u = self.exact.array(cotangents)
                claims = [self.exact.of(given) for given in claimed]
                parts = [column.contracted(*each) for each in zip(u, sizes, claims, strict=True)]
                if all(part.is_settled(given, least) for part, given in zip(parts, claims, strict=True)):
                    break
        return parts, digits

    def _floating_leaves(self) -> Iterator[tuple[Path, Array]]:
        for path, leaf in leaves_of(self.problem.given):
            if isinstance(leaf, (np.ndarray, np.generic, float)) and np.asarray(leaf).dtype.kind == "f":
                yield path, self.exact.array(np.asarray(leaf))


@dataclass(frozen=True)
class Column:
    """∂F/∂xⱼ (m,) in exact numbers, and how far it may be wrong; where F has a kink at xⱼ, its slopes to both sides."""

    value: Array
    error: Array
    slopes: tuple[Array, Array] | None = None

    def contracted(self, u: Array, size: Number, claimed: Number) -> "Element":
        """x̄ⱼ = Σᵢ uᵢ ∂Fᵢ/∂xⱼ, for a cotangent u (m,), and the size of derivative that f suggests, in exact numbers.

        At a kink, it is what is nearest to the claim, of all that may be claimed there.
        """
        terms, error = u * self.value, (abs(u) * self.error).sum()
        size = max(abs(terms).sum(), size)
        if self.slopes is None:
            return Element(terms.sum(), error, size)
        left, right = (u * slope for slope in self.slopes)
        bounds = np.where(left < right, left, right).sum(), np.where(left < right, right, left).sum()
        nearest = min(max(claimed, bounds[0]), bounds[1])
        return Element(nearest, 0 * error if nearest == claimed else error, size, (left.sum(), right.sum()), bounds)


@dataclass(frozen=True)
class Element:
    """One x̄ⱼ for one cotangent: the exact value, how far it may be wrong, and the size of what adds up to it; at a kink
    also the slopes to both sides, and the bounds of what may be claimed."""

    value: Number
    error: Number
    size: Number
    slopes: tuple[Number, Number] | None = None
    bounds: tuple[Number, Number] | None = None

    @property
    def is_known(self) -> bool:
        """Whether the error is far below a rounding of the value; if not, the value is 0 as far as can be seen."""
        return 10**SPARE * self.error <= abs(self.value)

    def is_settled(self, claimed: Number, least: Number) -> bool:
        """Whether more digits cannot change what is said of a claim: the value is known, or all may be flushed to 0."""
        return self.is_known or abs(claimed) + abs(self.value) + self.error <= least

    def digits(self, claimed: Number, least: Number) -> float:
        """The digits of a claim, where a difference up to `least` counts as none."""
        scale = abs(self.value) if self.is_known else self.size
        lost = float((abs(claimed - self.value) - least) / scale) if scale else float(abs(claimed) > least)
        return -math.log10(min(lost, 1.0)) + 0.0 if lost > 0 else math.inf


def smallest(dtype: DType) -> np.floating:
    """The smallest normal number: whatever is below may be flushed to 0."""
    return np.finfo(dtype).tiny


def element_wise(
    report: Report, claim: ClaimedGradient, exact: Exact, cotangents: Array, elements: list[int]
) -> Report:
    """The report, completed: these elements of the claimed gradient, each by its own digits."""
    problem, f = claim.problem, ExactFunction(exact, claim.problem)
    claimed = np.stack([claim(u) for u in cotangents])  # (K, n)
    found: list[tuple[float, Worst]] = []
    kinks, used = [], DIGITS[0]
    for j in elements:
        place = problem.place_of(j)
        parts, digits = f.parts(j, cotangents, np.where(np.isfinite(claimed[:, j]), claimed[:, j], 0))
        used = max(used, digits)
        of_element = len(found)
        for given, part in zip(claimed[:, j], parts, strict=True):
            with exact.precision(digits):
                own = part.digits(exact.of(given), exact.of(smallest(problem.dtype))) if np.isfinite(given) else 0.0
            own = min(own, float(most_digits(problem.dtype)))
            found.append((own, Worst(*place, given, float(part.value), own, f"the {EXACT}")))
        worst = int(np.argmin([own for own, _ in found[of_element:]]))
        if (at := parts[worst]).slopes is not None and at.bounds is not None:
            numbers = (*at.slopes, claimed[worst, j], *at.bounds)
            kinks.append(Kink(*place, *map(float, numbers)))
    report = replace(report, kinks=tuple(kinks), element_wise=True)
    if not found:
        return report
    least, shown = min(found, key=lambda one: one[0])
    left_out = problem.x.size - len(elements)
    remark = f"{left_out} elements were not compared; max_elements compares more of each array"
    return replace(
        report,
        method=EXACT,
        precision=f"{used} digits",
        elements=len(elements) - len(kinks),
        digits=least,
        agrees=least >= report.asked,
        disagrees=not least >= report.asked,
        left_out=left_out,
        worst=shown,
        remarks=report.remarks + ((remark,) if left_out else ()),
    )
