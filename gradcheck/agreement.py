r"""How many digits a claimed derivative and a numerical one have in common, and when a difference is rounding error.

A derivative that is compared is a contraction, x̄ⱼ = Σᵢ uᵢ Jᵢⱼ, and its terms may cancel. So the difference is measured
by the sum of the sizes of the terms, to which the rounding error of a sum is proportional:

    digits = −log₁₀( |claimed − numeric| / Σᵢ |uᵢ Jᵢⱼ| )

The scale belongs to the one element j: a gradient that is tiny at j is judged by what is tiny there, so an error
proportional to it shows in full however large its neighbours are. With random u the sum is within a digit of |x̄ⱼ|.

Where that gives fewer digits than are asked, the gradient may be wrong, or terms may have cancelled *inside* f, as for
the key bias of an attention, whose gradient is 0 and is computed as a rounding error of 1e-17. The two are told apart
by computing both sides once more in a wider precision: a rounding error shrinks with the unit roundoff, a wrong
gradient stays. An element passes if it has the digits there, or if the difference shrank as a rounding error would.
But a claim may be right in the wider precision alone, and wrong in that of the arguments. Rounding errors are others at
numbers beside x, and for a cotangent in two parts; so a difference that is larger than some roundings of the terms must
change there, or the derivative must.

Nothing can be said of an element that is itself below the rounding error of f in the widest precision, 64u Σ|uᵢyᵢ|
for a step as large as x; with an x87 longdouble that is 3e-18 of f. The complex step has digits there, but nothing
confirms that f is analytic. Such elements pass, and are counted as not judged, but any larger one must have its own
digits. Where nothing is wider than float64 (PyTorch) the same floor, 7e-15 of f, hides differences below it; and
nothing is said of a difference that is no larger than what a rounding of x itself makes of the derivative of f.

Of a numerical derivative with an error estimate (differences) no more digits are asked than that leaves, but 6; or
where f itself has few, because it computes in float32, two. Where even these are not left, nothing is
said of the element: it is `unknown`. A claim that is further off than some errors disagrees all the same, unless the
error is larger than the derivative and f: then f was not resolved, and the error may be anything.

Source: Higham (2002), §3.1, for the rounding error of a sum.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradcheck.precision import SAFETY, Array, DType, dtype_name, roundoff

LARGEST_ERROR_IF_COARSE = 2.0**-6  # of a derivative of an f that has few digits itself: it must keep two
STEADY = 16 * SAFETY  # roundings of the terms, or of f: where 1 + e⁻³⁰ is rounded, the error is the same beside x too
LARGEST_ERROR = 1e-6  # a numerical derivative with a larger relative error than this is no evidence


@dataclass(frozen=True)
class Comparison:
    """Claimed and numerical derivatives, and what to measure their differences by.

    All are arrays (V, K), for V elements or directions and K cotangents. `terms` is the sum of the sizes of what was
    added up; `expected` the size of derivative that the sizes of f and of its argument suggest; `error` how far the
    numerical value may be wrong, and `noise` (K,) how large the noise of f is beside it. `dtype` is the precision of
    the claim.
    """

    dtype: DType
    claimed: Array
    numeric: Array
    terms: Array
    expected: Array
    error: Array
    noise: Array | float = 0.0

    @property
    def difference(self) -> Array:
        """|claimed − numeric|."""
        with np.errstate(invalid="ignore"):  # inf − inf
            return np.abs(self.claimed - self.numeric)

    @property
    def digits(self) -> Array:
        """The digits of agreement, measured by the terms."""
        return digits_of(self.difference, self.terms, self.dtype)

    @property
    def coarse(self) -> Array:
        """For which cotangents (K,) half the digits of f are fewer than are asked of a usual numerical derivative."""
        return np.sqrt(self.noise) > LARGEST_ERROR

    @property
    def is_evidence(self) -> Array:
        """Where the error of the numerical value is small enough for it to confirm a claim."""
        usual = self.error <= LARGEST_ERROR * np.maximum(self.terms, self.expected)
        return np.where(self.coarse, self.error <= LARGEST_ERROR_IF_COARSE * self.terms, usual)

    @property
    def is_within_error(self) -> Array:
        """Where claim and numerical value differ by no more than the numerical one may be wrong, and the claim too
        where it comes from a coarse arithmetic; or where the numerical one is not known at all, nor its error."""
        allowed = np.where(self.coarse, 2 * self.error + 16 * self.noise * self.terms, 10 * self.error)
        nothing = self.error > 2 * np.maximum(self.terms, self.expected)
        return np.isfinite(self.claimed) & ((self.difference <= allowed) | nothing)

    def rows(self, chosen: list[int]) -> "Comparison":
        """The comparisons of some of the elements or directions."""
        fields = (self.claimed, self.numeric, self.terms, self.expected, self.error)
        return Comparison(self.dtype, *(field[chosen] for field in fields), self.noise)  # type: ignore[call-arg]


Claims = tuple[Array, Array]  # in the precision of the claim and in a wider one, (points, rows, K), at x first
Beside = Callable[[list[int]], Claims]
Repeat = Callable[[list[int]], "tuple[Comparison, Repeat, Beside] | None"]
Moved = Callable[[list[int]], Array]


@dataclass(frozen=True)
class Agreement:
    """Digits of agreement and what they mean, all (V, K): which comparisons `passed`, which of these for a reason other
    than their digits, by `rounding`, as the wider precision shows, or `below` what f rounds to in it, or because
    differences are `limited` in what they resolve; which are `unknown`, because nothing is resolved; and which fail
    though they are right in the wider precision, by a `steady` difference that is no rounding."""

    digits: Array
    passed: Array
    rounding: Array
    below: Array
    limited: Array
    unknown: Array
    steady: Array

    @property
    def failed(self) -> Array:
        """Which comparisons disagree."""
        return ~self.passed & ~self.unknown

    @property
    def ranked(self) -> Array:
        """Digits, but whatever failed ranks below all that passed: the argmin is the worst comparison. What is unknown
        ranks above them."""
        return np.where(self.unknown, np.inf, self.digits - 100.0 * self.failed)

    @property
    def least(self) -> float:
        """The least digits of all comparisons of which something is known."""
        return float(np.where(self.unknown, np.inf, self.digits).min())

    def reason(self, row: int, column: int) -> str:
        """Why this comparison passed, if not by its digits: "rounding", "below" a rounding of f, or "differences"."""
        reasons = {"rounding": self.rounding, "below": self.below, "differences": self.limited}
        return next((reason for reason, of in reasons.items() if of[row, column]), "")


def digits_of(difference: Array, scale: Array, dtype: DType) -> Array:
    """−log₁₀(difference / scale), from 0 to one digit more than `dtype` has; NaN has none, equality has all."""
    most = most_digits(dtype)
    with np.errstate(all="ignore"):
        found = -np.log10(difference / scale)
    found = np.where(difference == 0, most, np.where(np.isnan(found), 0.0, found))
    return np.clip(found, 0.0, most).astype(np.float64) + 0.0  # not −0.0


def most_digits(dtype: DType) -> int:
    """One digit more than `dtype` has: what equality counts for."""
    return math.ceil(-math.log10(roundoff(dtype))) + 1


def judge(
    narrow: Comparison, asked: float, repeat: Repeat, *, floor: bool = True, moved: Moved | None = None
) -> Agreement:
    """Digits and verdict for every comparison.

    `repeat(rows)` computes some rows again in the next wider precision and returns them with the `repeat` of those
    rows, and what gives the claims of some of them in both precisions, at x, beside it, and for cotangents in two
    parts; or None where there is no wider precision; then `floor` allows rounding errors of f, and `moved(rows)` says
    how far a rounding of x moves the numerical derivatives.
    """
    difference, largest = narrow.difference, np.maximum(narrow.terms, narrow.expected)
    digits, at_scale = narrow.digits, digits_of(difference, largest, narrow.dtype)
    passed = digits >= asked
    limited = ~passed & narrow.is_within_error & narrow.is_evidence
    digits, passed = np.where(limited & ~narrow.coarse, at_scale, digits), passed | limited

    short = ~passed & np.isfinite(narrow.claimed) & (np.isfinite(narrow.numeric) | np.isposinf(narrow.error))
    rounding, below, unknown, steady = (np.zeros_like(short) for _ in range(4))
    if not short.any():
        return Agreement(digits, passed, rounding, below, limited, unknown, steady)
    rows = [int(row) for row in np.flatnonzero(short.any(axis=1))]
    repeated, better = repeat(rows), at_scale.copy()
    if repeated is None:
        floor_of_f = SAFETY * roundoff(narrow.dtype) * narrow.expected
        below = short & floor & ~narrow.coarse & (difference <= floor_of_f)
        unknown = short & ~below & narrow.is_within_error
        if moved is not None and (left := (short & ~below & ~unknown)).any():
            rows = [int(row) for row in np.flatnonzero(left.any(axis=1))]
            unknown[rows] |= left[rows] & (difference[rows] <= SAFETY * moved(rows))
    else:
        wide, further, beside = repeated
        at_wide = judge(wide, asked, further, floor=wide.dtype == np.float64)
        shrank, under = _shrank(narrow.rows(rows), wide), _below_rounding(narrow.rows(rows), wide)
        large = difference[rows] > STEADY * roundoff(narrow.dtype) * largest[rows]
        large &= short[rows] & (shrank | at_wide.passed | under)
        if (some := np.flatnonzero(large.any(axis=1))).size:
            steady[np.array(rows)[some]] = large[some] & _is_steady(*beside([int(row) for row in some]))
        left = (short & ~steady)[rows]
        rounding[rows] = left & (shrank | (at_wide.passed & ~at_wide.below))
        below[rows] = left & ~rounding[rows] & (at_wide.below | under)
        unknown[rows] = left & ~(rounding | below)[rows] & at_wide.unknown & narrow.rows(rows).is_within_error
        better[rows] = np.where(shrank | under, at_scale[rows], at_wide.digits)
    digits = np.where(rounding | below, np.maximum(better, digits), digits)
    return Agreement(digits, passed | rounding | below, rounding, below, limited, unknown, steady)


def _is_steady(narrow: Array, wide: Array) -> Array:
    """Where (rows, K) claims differ from those in a wider precision by an amount that hardly changes, nor do they.

    Shapes: claims (points, rows, K), those at x first.
    """
    off = narrow - wide
    changes = np.abs(off[1:] - off[0]) + np.abs(wide[1:] - wide[0])
    return np.abs(off[0]) > 16 * changes.max(axis=0)


def _shrank(narrow: Comparison, wide: Comparison) -> Array:
    """Where the difference shrank as rounding errors do, compared with how far both sides moved in the wider precision.

    One rounding error may be small by chance; the largest of a row, over its cotangents, seldom is.
    """
    with np.errstate(invalid="ignore"):  # inf − inf
        moved = np.abs(narrow.claimed - wide.claimed) + np.abs(narrow.numeric - wide.numeric)
    shrinks = SAFETY * roundoff(wide.dtype) / roundoff(narrow.dtype)
    return wide.difference <= shrinks * moved.max(axis=1, keepdims=True)


def _below_rounding(narrow: Comparison, wide: Comparison) -> Array:
    """Where the difference is below a rounding error of f even in the wider precision, and the claim is one too, or 0.

    So it is with 1 − y² of a saturated y = tanh x, and with the scores of an attention whose weights are 0 and 1.
    """
    floor = SAFETY * roundoff(wide.dtype) * wide.expected
    changed = np.abs(narrow.claimed - wide.claimed) >= 1e-3 * np.abs(wide.claimed)
    return (wide.difference <= floor) & (changed | (wide.terms <= floor))


def remarks_on(agreements: list[Agreement], dtype: DType) -> tuple[str, ...]:
    """What a reader should know of how the digits came about."""
    remarks = []
    if rounding := sum(int(agreement.rounding.sum()) for agreement in agreements):
        remarks.append(
            f"{rounding} comparisons have fewer digits in {dtype_name(dtype)}, but only by rounding: terms "
            "cancel, and the difference vanishes in a wider precision"
        )
    if steady := sum(int(agreement.steady.sum()) for agreement in agreements):
        remarks.append(
            f"{steady} comparisons disagree in {dtype_name(dtype)} alone: in a wider precision the claim is right, and "
            "what it is off by is no rounding, for it does not change at numbers beside these"
        )
    if below := sum(int(agreement.below.sum()) for agreement in agreements):
        remarks.append(f"{below} comparisons were not judged: the difference is below a rounding of f")
    if limited := sum(int(agreement.limited.sum()) for agreement in agreements):
        remarks.append(
            f"{limited} comparisons agree as far as the numerical derivative can see, which is not as far as was asked"
        )
    if unknown := sum(int(agreement.unknown.sum()) for agreement in agreements):
        remarks.append(f"{unknown} comparisons were not judged: too few digits of the numerical derivatives are left")
    return tuple(remarks)
