r"""How many digits a claimed derivative and a numerical one have in common, and when a difference is only rounding.

A derivative that is compared is a contraction, x̄ⱼ = Σᵢ uᵢ Jᵢⱼ, and its terms may cancel. So the difference is measured
by the sum of the sizes of the terms, to which the rounding of a sum is proportional (Higham (2002), §3.1):

    digits = −log₁₀( |claimed − numeric| / Σᵢ |uᵢ Jᵢⱼ| )

The scale belongs to the one element j: a gradient that is tiny at j is judged by what is tiny there, so an error
proportional to it shows in full however large its neighbours are. With random u the sum is within a digit of |x̄ⱼ|.

Where that falls short of the digits asked, the gradient may be wrong, or terms may have cancelled *inside* f, as they
do for the key bias of an attention, whose true gradient is 0 and whose computed one is 1e-17 of noise. The two are told
apart by computing both sides once more in a wider precision: rounding shrinks with the unit roundoff, an error stays.
An element passes if it has the digits there, or if the two sides came together as far as rounding would bring them.

Nothing can be said of an element that is itself below the rounding of f in the widest precision, 64u Σ|uᵢyᵢ| for a
step as large as x; with an x87 longdouble that is 3e-18 of f. Such elements pass, but any larger one must have its own
digits. Where nothing is wider than float64 (PyTorch) the same floor, 7e-15 of f, hides differences below it.

A numerical derivative that knows its own error (differences) is asked for no more than it has, but must have 6 digits.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from gradcheck.precision import DType, called, roundoff

ROUNDINGS = 64  # as many as the steps of a layer may leave in a result
LEAST = 1e-6  # a numerical derivative with a larger relative error than this judges nothing


@dataclass(frozen=True)
class Comparison:
    """Claimed and numerical derivatives, and what to measure their differences by.

    All are arrays (V, K), for V elements or directions and K cotangents. `terms` is the sum of the sizes of what was
    added up; `natural` how large the derivative can be expected from the size of f and of its argument; `error` how
    far the numerical value may be wrong. `dtype` is the precision of the claim.
    """

    dtype: DType
    claimed: np.ndarray
    numeric: np.ndarray
    terms: np.ndarray
    natural: np.ndarray
    error: np.ndarray

    @property
    def difference(self) -> np.ndarray:
        """|claimed − numeric|."""
        with np.errstate(invalid="ignore"):  # inf − inf
            return np.abs(self.claimed - self.numeric)

    @property
    def digits(self) -> np.ndarray:
        """The digits of agreement, measured by the terms."""
        return digits_of(self.difference, self.terms, self.dtype)

    def rows(self, chosen: list[int]) -> "Comparison":
        """The comparisons of some of the elements or directions."""
        fields = (self.claimed, self.numeric, self.terms, self.natural, self.error)
        return Comparison(self.dtype, *(field[chosen] for field in fields))


Again = tuple[Comparison, Callable[[list[int]], "Again | None"]]


@dataclass(frozen=True)
class Verdict:
    """Digits of agreement and `passed`, both (V, K), and how many passed for a reason other than their digits:
    by `rounding`, as the wider precision shows, or because differences are `limited` in what they can see."""

    digits: np.ndarray
    passed: np.ndarray
    rounding: int
    limited: int


def digits_of(difference: np.ndarray, scale: np.ndarray, dtype: DType) -> np.ndarray:
    """−log₁₀(difference / scale), from 0 to one digit more than `dtype` has; NaN has none, equality has all."""
    most = math.ceil(-math.log10(roundoff(dtype))) + 1
    with np.errstate(all="ignore"):
        found = -np.log10(difference / scale)
    found = np.where(difference == 0, most, np.where(np.isnan(found), 0.0, found))
    return np.clip(found, 0.0, most).astype(np.float64) + 0.0  # not −0.0


def judge(
    narrow: Comparison, asked: float, again: Callable[[list[int]], "Again | None"], *, floor: bool = True
) -> Verdict:
    """Digits and verdict for every comparison.

    `again(rows)` repeats some rows in the next wider precision and brings the `again` of those rows with it; it returns
    None where no wider precision can be had, and then `floor` allows a few roundings of f.
    """
    difference, largest = narrow.difference, np.maximum(narrow.terms, narrow.natural)
    digits, at_scale = narrow.digits, digits_of(difference, largest, narrow.dtype)
    passed = digits >= asked
    limited = ~passed & (difference <= 10 * narrow.error) & (narrow.error <= LEAST * largest)
    digits, passed = np.where(limited, at_scale, digits), passed | limited

    short = ~passed & np.isfinite(narrow.claimed) & np.isfinite(narrow.numeric)
    if not short.any():
        return Verdict(digits, passed, 0, int(limited.sum()))
    rows = [int(row) for row in np.flatnonzero(short.any(axis=1))]
    repeated = again(rows)
    rounding, better = np.zeros_like(short), at_scale.copy()
    if repeated is None:
        rounding = short & floor & (difference <= ROUNDINGS * roundoff(narrow.dtype) * narrow.natural)
    else:
        wide, further = repeated
        at_wide = judge(wide, asked, further, floor=wide.dtype == np.float64)
        noise = _shrank(narrow.rows(rows), wide) | _lost(narrow.rows(rows), wide)
        rounding[rows] = short[rows] & (at_wide.passed | noise)
        better[rows] = np.where(noise, at_scale[rows], at_wide.digits)
    digits = np.where(rounding, np.maximum(better, digits), digits)
    return Verdict(digits, passed | rounding, int(rounding.sum()), int(limited.sum()))


def _shrank(narrow: Comparison, wide: Comparison) -> np.ndarray:
    """Where the two sides came together as rounding does, compared with how far they moved in the wider precision.

    Noise is small by luck now and then; the most that a row moved, over its cotangents, seldom is.
    """
    moved = np.abs(narrow.claimed - wide.claimed) + np.abs(narrow.numeric - wide.numeric)
    shrinks = ROUNDINGS * roundoff(wide.dtype) / roundoff(narrow.dtype)
    return wide.difference <= shrinks * moved.max(axis=1, keepdims=True)


def _lost(narrow: Comparison, wide: Comparison) -> np.ndarray:
    """Where both sides are below a rounding of f even in the wider precision, or the claim is 0 or noise on that scale.

    So it is with 1 − y² of a saturated y = tanh x, and with the scores of an attention that has made up its mind.
    """
    floor = ROUNDINGS * roundoff(wide.dtype) * wide.natural
    unsettled = np.abs(narrow.claimed - wide.claimed) >= 1e-3 * np.abs(wide.claimed)
    return (wide.difference <= floor) & (unsettled | (wide.terms <= floor))


def remarks_on(verdicts: Iterable[Verdict], dtype: DType) -> tuple[str, ...]:
    """What a reader should know of how the digits came about."""
    remarks, verdicts = [], list(verdicts)
    if rounding := sum(verdict.rounding for verdict in verdicts):
        remarks.append(
            f"{rounding} comparisons have fewer digits in {called(dtype)}, but only by rounding: terms "
            "cancel, and the difference vanishes in a wider precision or is below a rounding of f"
        )
    if limited := sum(verdict.limited for verdict in verdicts):
        remarks.append(
            f"{limited} comparisons agree as far as the numerical derivative can see, which is not as far as was asked"
        )
    return tuple(remarks)
