"""One input, one element: is f(g·x) = g·f(x) wrong, or only rounded?

In exact arithmetic a true claim leaves no discrepancy d = f(g·x) − g·f(x). In precision u it leaves the roundings of
both sides, to first order u κ with a κ that does not depend on u. A false claim leaves the same d in every precision.
So f is asked in the finest precision it computes in, with roundoff u, and in the next coarser one, U:

    rounding in u  ≈  (u/U) · |f_U − f_u|         at the same numbers, on both sides of the claim
    allowed        =  64 · max( that, u |f| )

Each number of the output has its own allowance. 64 is for luck: the error seen in U may be smaller than it usually is,
the order of a sum may differ between precisions. Where d comes near it, luck is made improbable: both errors are taken
again at 8 inputs beside x (`sides.py`), and the largest counts. (Where these change nothing, as with whole numbers,
other elements serve instead.) What still is above must be *steady*: from x to the nearest of these inputs rounding
changes, a violation does not. Only then does the claim fail.

Code may round more coarsely than its dtypes say: constants that were once float64, a cast on the way. What is steady
but allowed in float64 is "faint", not a violation; what is below 64 roundings of float32 must be steady over inputs
that differ by 16 roundings of float32 as well. If both sides have the same bits in both precisions, and d is larger
than that, nothing was rounded and d needs no further proof.

With one precision only, |f(x′) − f(x)| at inputs x′ beside x stands for the rounding: what a backward stable f may do.

Judging by a bound that the user knows, in place of the law of rounding.

|f(g·x) − g·f(x)| ≤ bound(inputs, g, dtype)          for every number of the output, in the dtype of the input
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.symmetry.actions import Arrays
from refnp.symmetry.claim import Claim, DType, Ladder, Refusal, cast, roundoff
from refnp.symmetry.evaluation import Pair, Site, Vector

ROUNDINGS = 64  # as many as the steps of a layer may leave in a result
SAMPLES = 8  # inputs beside x at which rounding is looked at
NEAR = 0.25  # more of the allowance than this, and it is worth another look
SINGLE = ROUNDINGS * roundoff(np.float32)
STEADY = 0.25  # a violation changes by less than this part of itself from x to the inputs beside it


@dataclass(frozen=True)
class Finding:
    """What one input and element came to.

    outcome      "agrees", "violated", "faint" or "blurred" (more than was expected of rounding, but not steady)
    kind         of a violation: "value", "infinite", "shape" or "raises"
    ratio        the largest discrepancy over what rounding allows
    relative     the same over the largest number of its array
    resolution   the largest relative discrepancy that would have passed for rounding
    """

    outcome: str
    kind: str = ""
    ratio: float = 0.0
    relative: float = 0.0
    resolution: float = 0.0
    reason: str = ""


class Judge:
    """Judges the claim at one input for any number of elements. Raises Refusal when made, if f does not take it."""

    def __init__(self, claim: Claim, ladder: Ladder, inputs: Arrays, rng: np.random.Generator, samples: int = SAMPLES):
        self.site, self.ladder = Site(claim, ladder, inputs, rng, samples), ladder

    def __call__(self, g: Any) -> Finding:
        """The finding for one element."""
        pair, top = Pair(self.site, g), self.ladder.top
        try:
            left, right = pair.left(0, top), pair.right(0, top)
        except Refusal as refusal:
            return refused(refusal)
        if left.form != right.form:
            return misshapen(left, right)
        d, allowed = left.minus(right), floor(left, right, self.ladder)
        for noise in pair.noises():
            allowed = np.maximum(allowed, ROUNDINGS * noise)
            if np.all(np.abs(d) <= NEAR * allowed):
                break
        if np.any(np.abs(d) > allowed) and pair.is_deaf():
            allowed = np.maximum(allowed, self._unheard(pair, right))
        beyond = ~(np.abs(d) <= allowed)
        ratio = largest_ratio(d, allowed)
        if not beyond.any():
            resolution = left.over_size(allowed, right, empty=0.0)
            return Finding("agrees", "", ratio, left.over_size(d, right), resolution)
        return self._suspected(pair, d, allowed, ratio)

    def _unheard(self, pair: Pair, right: Vector) -> np.ndarray:
        """The allowance where x has nothing to vary. With one precision nothing shows: half of the digits count."""
        if self.ladder.below is not None:
            return ROUNDINGS * pair.noise_elsewhere() * right.rounded
        finite = np.where(np.isfinite(right.values), right.values, 0)
        return self.ladder.u**0.5 * right.spread(finite, right)

    def _suspected(self, pair: Pair, d: np.ndarray, allowed: np.ndarray, ratio: float) -> Finding:
        """Beyond rounding as it was seen. Is it steady, and large enough for that to count?"""
        left, right = pair.left(0, self.ladder.top), pair.right(0, self.ladder.top)
        beyond, samples = ~(np.abs(d) <= allowed), self.site.samples
        relative = left.over_size(np.where(beyond, d, 0), right)
        whole = not np.any(beyond & right.rounded)
        small = not whole and relative < SINGLE
        wander = pair.wander(d, 2 * samples if small else (samples + 1) // 2)
        sure = beyond & ((pair.is_exact() and not small) | _steady(wander, d))
        if not sure.any():
            return Finding("blurred", "", ratio, relative, left.over_size(np.where(beyond, wander / STEADY, 0), right))
        loud = sure & ~(np.abs(d) <= self._hidden(allowed, right))
        deaf = small and self.site.varies and pair.is_deaf()
        if deaf or not loud.any():
            return Finding("faint", "", ratio, left.over_size(np.where(sure, d, 0), right))
        d = np.where(loud, d, 0)
        relative = left.over_size(d, right)
        kind = "infinite" if np.isinf(d).any() else "value"
        return Finding("violated", kind, ratio, relative, 0.0, place_of_worst(left, right, d))

    def unheard(self) -> float:
        """A change of the input, as a part of it, that f does not notice; 0 if f refuses to say. See `Site.unheard`."""
        try:
            return self.site.unheard()
        except Refusal:
            return 0.0

    def _hidden(self, allowed: np.ndarray, right: Vector) -> np.ndarray:
        """What constants that were once float64 may leave: as much as rounding in float64, where that is coarser."""
        if self.ladder.u >= roundoff(np.float64) or not self.ladder.u:
            return np.zeros(1)
        return np.where(right.rounded, allowed * (roundoff(np.float64) / self.ladder.u), 0)

    def changes_its_mind(self) -> bool:
        """Whether f, asked again for the same, gives something else, in the first half of the digits."""
        top = self.ladder.top
        try:
            again = Vector.of(self.site.claim.at(self.site.input(0), top))
        except Refusal:
            return True
        first = Vector.of(self.site.here(0, top))
        return first.form != again.form or first.over_size(again.minus(first), again) > self.ladder.u**0.5


def floor(left: Vector, right: Vector, ladder: Ladder) -> np.ndarray:
    """64 u |f| for every number that rounds, and what underflow may leave."""
    size = np.maximum(np.abs(left.values), np.abs(right.values))
    counts = right.rounded & np.isfinite(size)
    return np.where(counts, ROUNDINGS * ladder.u * np.where(counts, size, 0) + np.finfo(ladder.top).tiny, 0)


def refused(refusal: Refusal) -> Finding:
    """The finding where f takes x but not g·x."""
    return Finding("violated", "raises", np.inf, np.inf, 0.0, f"f takes the input, but not moved: {refusal}")


def misshapen(left: Vector, right: Vector) -> Finding:
    """The finding where f(g·x) and g·f(x) are not the same arrays."""
    told = [", ".join(f"{name} {shape}" for name, shape in side.form) for side in (left, right)]
    return Finding("violated", "shape", np.inf, np.inf, 0.0, f"{told[0]} against {told[1]}")


def largest_ratio(d: np.ndarray, allowed: np.ndarray) -> float:
    """max |d| / allowed, where 0 is never too much."""
    with np.errstate(all="ignore"):
        return float(np.max(np.where(d == 0, 0, np.abs(d) / allowed), initial=0))


def place_of_worst(left: Vector, right: Vector, d: np.ndarray) -> str:
    """Where |d| is largest, with both values."""
    at = int(np.argmax(np.abs(d)))
    start = 0
    for (name, shape), end in zip(left.form, left.ends, strict=True):
        if at < end:
            per = (end - start) // max(1, int(np.prod(shape)))  # two for a complex number
            place = list(map(int, np.unravel_index((at - start) // per, shape)))
            return f"{name}{place if shape else ''}: {left.values[at]:.17g} against {right.values[at]:.17g}"
        start = end
    return ""


def discrepancy(claim: Claim, inputs: Arrays, g: Any, dtype: DType) -> float:
    """|f(g·x) − g·f(x)| over the largest number of the output, computed in one precision. Raises Refusal as f does."""
    x = cast(inputs, dtype)
    left = Vector.of(claim.at(claim.action.act(g, x), dtype))
    right = Vector.of(claim.action_out.act(g, claim.at(x, dtype)))
    return left.over_size(left.minus(right), right) if left.form == right.form else np.inf


def _steady(wander: np.ndarray, d: np.ndarray) -> np.ndarray:
    return (wander < STEADY * np.abs(d)) | (np.isinf(d) & (wander == 0))


Bound = Callable[[dict[str, Any], Any, Any], Any]


class BoundedJudge(Judge):
    """Judges at one input; the bound is a number, an array that broadcasts to every output, or a mapping of these."""

    def __init__(self, claim: Claim, bound: Bound, dtype: DType, inputs: Arrays):
        super().__init__(claim, Ladder((dtype,), roundoff(dtype)), inputs, np.random.default_rng(0))
        self.bound = bound

    def unheard(self) -> float:
        """0, for whoever gives a bound answers for what f notices."""
        return 0.0

    def __call__(self, g: Any) -> Finding:
        """The finding for one element."""
        pair, dtype = Pair(self.site, g), self.ladder.top
        try:
            left, right = pair.left(0, dtype), pair.right(0, dtype)
        except Refusal as refusal:
            return refused(refusal)
        if left.form != right.form:
            return misshapen(left, right)
        given = self.bound(dict(self.site.inputs[0]), g, dtype)
        outputs = self.site.claim.action_out.act(g, self.site.here(0, dtype))
        each = {name: given[name] if isinstance(given, Mapping) else given for name in outputs}
        allowed = Vector.of({n: np.broadcast_to(_alike(each[n], a), a.shape) for n, a in outputs.items()}).values
        d = left.minus(right)
        ratio, beyond = largest_ratio(d, allowed), ~(np.abs(d) <= allowed)
        if not beyond.any():
            resolution = left.over_size(allowed, right, empty=0.0)
            return Finding("agrees", "", ratio, left.over_size(d, right), resolution)
        d = np.where(beyond, d, 0)
        kind = "infinite" if np.isinf(d).any() else "value"
        return Finding("violated", kind, ratio, left.over_size(d, right), 0.0, place_of_worst(left, right, d))


def _alike(bound: Any, output: np.ndarray) -> np.ndarray:
    """A bound as an array of the output's kind: complex outputs are judged by real and imaginary part."""
    return np.asarray(bound) * (1 + 1j) if output.dtype.kind == "c" else np.asarray(bound)
