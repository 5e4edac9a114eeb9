r"""Kinks: where they are, and whether a claimed gradient is a subgradient there.

At a kink f has one slope to the left and another to the right, and every number between them is a subgradient: which
one is a convention, and each framework has its own. So there the claim has to be finite, and for each output to lie

    min(f′₋, f′₊) ≤ x̄ⱼ ≤ max(f′₋, f′₊)

The claim for each such output alone is asked for; and for a cotangent u, x̄ⱼ must lie between the sums of uᵢ times the
one or the other bound of output i, which bounds it less closely where several outputs have a kink at one element.

Slopes that grow for ever as points come nearer to x are infinite: √x, x log x at 0. Slopes that change, as those of
|x|^1.01 do, have a limit that is not reached: nothing is said. Nor is it where f jumps, to whatever slope.

A kink is looked for with steps as long as the array's elements are. What is found is checked again with steps of the
element's own size: relu has a slope at 1e-13, and log p at p = 1e-10. Where the complex step is trusted, its slopes at
the two neighbouring numbers decide: a function that only bends sharply has one slope there.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gradcheck.agreement import digits_of, most_digits
from gradcheck.first_order import Direction, along
from gradcheck.flat import ClaimedGradient, FlatFunction
from gradcheck.noise import Noise
from gradcheck.numerical import SETTLED, Estimate, Method, limit, one_sided
from gradcheck.precision import SAFETY, Array, DType, roundoff
from gradcheck.report import Kink, Report, Worst

MOST_KINKS = 64  # after so many single kinks, what else seems to have one is left out without a closer look
STEPS = (2.0**-8, 2.0**-18, 2.0**-28)
ALONE = 4  # outputs whose kinks are judged one by one, for each element
NEAREST = 2.0**-100  # of the size of the array: how near to 0 the neighbours of an element that is 0 are taken
NOTHING: dict = dict.fromkeys(("left", "right", "claimed", "least", "greatest"))
CLOSEST = 2.0**-32  # where a jump is told from a slope, after the smallest of STEPS
AROUND = (1024, 4, 1)  # times the distance of the neighbours: where the complex step is taken beside x


def has_kink(
    f: Callable[[Array], Array], x: Array, v: Array, noise: Noise | None = None, *, steps: tuple[float, ...] = STEPS
) -> Array:
    """Where (m...) the outputs of f have a kink, a jump or an end of their domain at x along v.

    A kink is a point with one slope to the left and another to the right, and so without a derivative: relu and |x| at
    0, the maximum of equal numbers. It is found as a difference of the slopes beyond both errors. Because a smooth
    function may bend sharply, it must be found at three step sizes, each 1000 times smaller than the last: a kink
    within 1e-9 of the size of v counts as one *at* x.
    """
    found, before = np.asarray(True), np.asarray(np.inf)
    for step in steps:
        with np.errstate(all="ignore"):
            left, right = one_sided(f, x, v, step=step, noise=noise)
            gap, steep = np.abs(right.value - left.value), np.abs(right.value) + np.abs(left.value)
            usual = np.mean(steep[np.isfinite(steep)]) if np.isfinite(steep).any() else 0.0
            error = 10 * (left.error + right.error)
            unresolved = (error > 0.1 * before) & np.isfinite(before)  # steps as small as these show nothing new
        found = found & ((gap > error + 1e-7 * (steep + usual)) | ~np.isfinite(gap) | unresolved)
        before = gap
        if not found.any():
            break
    return found


def find_kinks(problem: FlatFunction, precision: DType, rng: np.random.Generator) -> tuple[list[int], list[int]]:
    """The elements of x at which F has a kink by differences, and those that may have one but were not checked singly.

    Random directions, through all arrays, each array, and halves of halves, down to single elements: a smooth function
    is done after one direction, k kinks among n elements take about 2k log₂ n. A kink that no single axis crosses is
    not found.
    """
    x = problem.x.astype(precision)
    found: list[int] = []
    left_out: list[int] = []

    def kinked(v: Array) -> bool:
        """By the largest steps, and if so by all of them, with the noise that f has."""
        suspect = has_kink(problem, x, v, steps=STEPS[:1]).any()
        return bool(suspect and has_kink(problem, x, v, problem.noise(precision)).any())

    def search(direction: Direction) -> None:
        if not kinked(direction.vector(x.size)):
            return
        if len(found) >= MOST_KINKS:
            left_out.extend(int(j) for j in direction.support)
        elif len(direction.support) > 1:
            for half in direction.halves():
                search(half)
        elif (own := problem.own[j := int(direction.support[0])]) == problem.size[j] or kinked(_axis(problem, j, own)):
            found.append(j)

    filled = [leaf for leaf in problem.leaves if leaf.stop > leaf.start]
    arrays = [along(problem, np.arange(leaf.start, leaf.stop), rng) for leaf in filled]
    if len(arrays) < 2 or kinked(np.sum([array.vector(x.size) for array in arrays], axis=0)):
        for array in arrays:
            search(array)
    return sorted(found), sorted(left_out)


def _axis(problem: FlatFunction, j: int, length: float) -> Array:
    v = np.zeros(problem.x.size)
    v[j] = length
    return v


@dataclass(frozen=True)
class Slopes:
    """The slopes of F along one element, to its left and to its right, each (m,) and for a step as long as the size of
    the array; nan where F has no values, infinite where they have no limit. `error`: how far they may be wrong.
    `jumps`: which outputs (m,) jump there, so that they have no slopes, and −∞ and ∞ here."""

    element: int
    left: Array
    right: Array
    error: Array
    jumps: Array | bool = False

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The least and the greatest slope that may be claimed of each output, (m,) both."""
        left = np.where(np.isnan(self.left), self.right, self.left)
        right = np.where(np.isnan(self.right), self.left, self.right)
        low, high = np.minimum(left, right), np.maximum(left, right)
        no_finite = ~np.isfinite(low) & ~np.isfinite(high)
        return np.where(no_finite, -np.inf, low), np.where(no_finite, np.inf, high)

    @property
    def apart(self) -> Array:
        """Which outputs (m,) have two slopes here."""
        with np.errstate(invalid="ignore"):
            return ~(np.abs(self.right - self.left) <= 10 * self.error)


def by_differences(problem: FlatFunction, precision: DType, j: int) -> Slopes:
    """The slopes at element j by one-sided differences, with steps of the element's own size."""
    own, noise = float(problem.own[j]), problem.noise(precision)
    x, v = problem.x.astype(precision), _axis(problem, j, own).astype(precision)
    here, per_size = problem(x), float(problem.size[j]) / own
    allowed = noise.at(here)
    sides, error, jumps = [], np.zeros(here.shape), np.zeros(here.shape, bool)
    with np.errstate(all="ignore"):
        both = [one_sided(problem, x, v, step=step, noise=noise) for step in STEPS]
        for side, sign in enumerate((-1, 1)):
            *rises, closest = (problem(x + sign * h * v) - here for h in (*STEPS, CLOSEST))
            jumps |= (np.abs(closest) > 0.9 * np.abs(rises[-1])) & (np.abs(closest) > 1e4 * allowed)
            first, *_, last = (pair[side] for pair in both)
            best = Estimate(*first)
            for pair in both[1:]:
                best = best.or_closer(pair[side])
            slopes = [rise / (sign * h) for rise, h in zip(rises, STEPS, strict=True)]
            endless, changes = limit(slopes, STEPS, 10 * allowed / STEPS[-1])
            changes &= ~(last.error <= SETTLED * np.abs(last.value))
            sides.append(np.where(endless, np.copysign(np.inf, slopes[-1]), best.value) * per_size)
            error = np.fmax(error, np.where(changes, np.abs(best.value), best.error) * per_size)
    left, right = sides
    return _with_jumps(Slopes(j, left, right, np.where(np.isfinite(error), error, 0.0), jumps))


def by_complex_step(problem: FlatFunction, method: Method, j: int) -> Slopes | None:
    """The slopes at element j by the complex step at the numbers beside it, None where they are one, and f has a limit.

    A slope that changes smoothly changes four times as much over four times the distance; at a kink it does not.
    """
    x, size = problem.x.astype(method.precision), float(problem.size[j])
    near = float(np.spacing(np.abs(x[j]))) if x[j] else size * NEAREST
    here, sides, rounding = problem(x), [], SAFETY * roundoff(method.precision)
    error, jumps, two = np.zeros(here.shape), np.zeros(here.shape, bool), np.zeros(here.shape, bool)

    def beside(step: float) -> tuple[Array, Array]:
        """F's slope and its rise there; not a number where it is none: a complex root has values outside the domain."""
        y = x.copy()
        y[j] += step
        value = problem(y)
        derivative = method(problem, y, _axis(problem, j, size)).value
        return np.where(np.isfinite(value), derivative, np.nan), np.abs(value - here)

    with np.errstate(invalid="ignore"):
        for sign in (-1, 1):
            slopes, rises = zip(*(beside(sign * k * near) for k in AROUND), strict=True)
            jumps |= (rises[2] > 0.9 * rises[1]) & (rises[2] > 1e4 * rounding * problem.within)
            least = rounding * np.maximum(np.abs(slopes[2]), problem.within)
            endless, changes = limit(slopes, AROUND, least)
            two |= endless | changes
            off = np.where(changes, np.abs(slopes[2]), np.abs(slopes[1] - slopes[2]))
            error = error + np.nan_to_num(off) + np.nan_to_num(least)
            sides.append((slopes[1], slopes[2], np.where(endless, np.copysign(np.inf, slopes[2]), slopes[2])))
        (far_left, left, to_left), (far_right, right, to_right) = sides
        gap, wider_gap = np.abs(right - left), np.abs(far_right - far_left)
        steep = rounding * np.maximum(np.nan_to_num(np.abs(left) + np.abs(right)), problem.within)
        two |= (gap > steep) & (2 * gap > wider_gap) | ~np.isfinite(gap) | jumps
    return _with_jumps(Slopes(j, to_left, to_right, error, jumps)) if two.any() else None


def _with_jumps(at: Slopes) -> Slopes:
    """The same, with infinite slopes where f jumps."""
    left, right = np.where(at.jumps, -np.inf, at.left), np.where(at.jumps, np.inf, at.right)
    return replace(at, left=left, right=right)


def slopes_at(problem: FlatFunction, method: Method, precision: DType, suspects: list[int]) -> list[Slopes]:
    """The slopes at those of the suspected elements that have two; the complex step decides where it is trusted."""
    if method.name != "complex step":
        return [by_differences(problem, precision, j) for j in suspects]
    return [at for j in suspects if (at := by_complex_step(problem, method, j)) is not None]


@dataclass(frozen=True)
class AtKink:
    """One claim x̄ⱼ at a kink, for one cotangent: where it lies beside the bounds [low, high] of the slopes.

    `holds`, or `unknown` where the slopes are too uncertain to say so.
    """

    kink: Kink
    digits: float
    holds: bool
    unknown: bool


def judge_kinks(
    claim: ClaimedGradient, slopes: list[Slopes], cotangents: Array, gradients: Array, asked: float
) -> list[AtKink]:
    """For every kink, the claim that fits its slopes least, of all cotangents (K, m) with gradients (K, n)."""
    alone: dict[int, Array] = {}
    found = []
    for at in slopes:
        judged = []
        for i in map(int, np.flatnonzero(at.apart)[:ALONE]):
            u = np.zeros(claim.problem.y.size)
            u[i] = 1.0
            if i not in alone:
                alone[i] = claim(u)
            judged.append(_judge(claim.problem, at, u, alone[i], asked))
        judged += [_judge(claim.problem, at, u, g, asked) for u, g in zip(cotangents, gradients, strict=True)]
        found.append(min(judged, key=lambda one: (one.holds or one.unknown, one.unknown, one.digits)))
    return found


def _judge(problem: FlatFunction, at: Slopes, u: Array, gradient: Array, asked: float) -> AtKink:
    size, j = float(problem.size[at.element]), at.element
    low, high = at.bounds
    used = u != 0
    u, low, high, error = u[used], low[used], high[used], at.error[used]
    least, greatest = (float(np.sum(np.where(u > 0, u * a, u * b))) for a, b in ((low, high), (high, low)))
    uncertain = float(np.abs(u) @ error)
    steepest = np.maximum(np.abs(low), np.abs(high))
    terms = float(np.abs(u) @ np.where(np.isfinite(steepest), steepest, 0.0))
    with np.errstate(invalid="ignore"):  # ∞ − ∞
        left, right = float(np.sum(u * at.left[used])), float(np.sum(u * at.right[used]))
    claimed = float(gradient[j]) * size
    outside = max(least - claimed, claimed - greatest, 0.0) if np.isfinite(claimed) else np.inf
    if np.isinf(claimed) and claimed in (left, right):  # an end of the domain where f has no finite slope
        outside = 0.0
    rounding = SAFETY * roundoff(problem.dtype) * float(np.abs(u) @ problem.within[used])
    digits = float(digits_of(np.asarray(outside), np.asarray(terms), problem.dtype))
    holds = digits >= asked or outside <= max(10 * uncertain, rounding)
    unknown = holds and ((np.isinf(least) and np.isinf(greatest)) or uncertain > 0.1 * terms > 0)
    kink = Kink(*problem.place_of(j), left / size, right / size, float(gradient[j]), least / size, greatest / size,
                jumps=bool(np.any(at.jumps & used)))  # fmt: skip
    return AtKink(kink, float(most_digits(problem.dtype)) if holds and not outside else digits, holds, unknown)


def with_kinks(report: Report, found: list[AtKink]) -> Report:
    """The report, completed by the claims at kinks; one that does not lie between its slopes is the worst of all."""
    if not found:
        return report
    known = [one for one in found if not one.unknown]
    failed = [one for one in known if not one.holds]
    left_out = len(found) - len(known)
    report = replace(
        report,
        kinks=tuple(replace(one.kink, **NOTHING) if one.unknown else one.kink for one in found),
        left_out=report.left_out + left_out,
        agrees=not failed and not report.disagrees and (report.agrees or bool(known)),
        disagrees=report.disagrees or bool(failed),
    )
    jumps = sum(one.unknown and one.kink.jumps for one in found)
    for count, why in (
        (jumps, "f jumps there"),
        (left_out - jumps, "their slopes have no limit, or none that is known"),
    ):
        if count:
            report = replace(report, remarks=(*report.remarks, f"{count} elements were left out: {why}"))
    if report.worst is None and known:
        report = replace(report, digits=min(one.digits for one in known))
    if not failed:
        return report
    worst = min(failed, key=lambda one: one.digits)
    kink, claimed = worst.kink, worst.kink.claimed or 0.0
    nearest = kink.least if claimed < (kink.least or 0.0) else kink.greatest
    by = f"the nearer end of {kink.least} to {kink.greatest}, the slopes at this kink,"
    shown = Worst(kink.place, kink.argument, kink.index, kink.claimed or 0.0, nearest or 0.0, worst.digits, by)
    return replace(report, digits=min(report.digits, worst.digits) if report.worst else worst.digits, worst=shown)
