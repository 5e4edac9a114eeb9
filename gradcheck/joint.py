r"""Several elements at a kink together: is the claim a generalised gradient along directions d through all of them?

At a tie of a maximum, (1, 0), (0, 1) and all between them are subgradients; (1, 1) and (0, 0) are not, though each of
their elements lies between the slopes along its own axis. Clarke's generalised gradient is the convex hull of the
limits of ∇f at points beside x, and a claim in it satisfies, for every d,

    −f°(x; −d) ≤ ⟨x̄, d⟩ ≤ f°(x; d)        f°(x; d) = limsup ⟨∇f(y), d⟩ for y → x

For each output, f° is known in three cases. Where the slopes at points drawn beside x all lie between those of x itself
to its left and right, f is convex or concave there, and these are the bounds. Where f is a sum of kinks of single
elements, that bend both ways, the bounds are the slopes on the sides of the kinks where each is steepest, if what is
met there is that sum. Else the bounds are the extremes of the slopes that were drawn, if both were met more than once,
for then there is hardly another. Of other outputs nothing is said. A cotangent u is bounded by the sum over outputs of
uᵢ times the one or the other bound, so that each output may have a convention of its own.

The same points show kinks that no single axis crosses: where one of five equal numbers moves, their median does not.

Source: Clarke (1983), ch. 2.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gradcheck.first_order import Direction, FirstOrder, along, random_weights
from gradcheck.flat import ClaimedGradient, FlatFunction
from gradcheck.kinks import ALONE, MOST_KINKS, NEAREST, Slopes
from gradcheck.numerical import Method
from gradcheck.precision import SAFETY, Array, DType, roundoff
from gradcheck.report import Report, Worst

DIRECTIONS = 4  # one along which ties move together; one like the claim; two at random
BESIDE = 48  # points at which slopes are drawn, and as many at most that are chosen
SAME = 1e-3  # of the slopes: how near those beside x and at half the distance are to each other
OUTSIDE = 1e-3  # of the slopes: less is no evidence, for slopes beside x are not those at x

Slope = Callable[[Array, float], Array]  # along a direction, by a way (n,) from x and how much of it


def judge_joint(
    report: Report, claim: ClaimedGradient, slopes: list[Slopes], here: FirstOrder, precision: DType
) -> Report:
    """The report, with the worst direction if the claim at several kinks is no generalised gradient.

    For the cotangents of `here`, and for some outputs alone.
    """
    problem, rng = claim.problem, np.random.default_rng(report.seed)
    slopes = [at for at in slopes if not np.any(at.jumps)]
    if len(slopes) < 2 or report.disagrees or problem.noise(precision).is_coarse(np.float64):
        return report
    support = np.array([at.element for at in slopes])
    shared = np.sum([at.apart for at in slopes], axis=0)  # (m,) how many of the elements each output has a kink in
    chosen = [i for i in np.argsort(-shared, kind="stable")[:ALONE] if shared[i] > 1]
    alone = [np.where(np.arange(problem.y.size) == i, 1.0, 0.0) for i in chosen]
    claims = [*zip(here.cotangents, here.gradients, strict=True), *((u, claim(u)) for u in alone)]
    steepest = here.gradients[0, support].astype(np.float64) * problem.own[support]
    for k in range(DIRECTIONS):
        weights = random_weights(len(support), rng) if k else np.ones(len(support))
        if k == 1 and steepest.any():
            weights = np.abs(weights) * steepest / np.abs(steepest).max()
        d = Direction(support, weights * problem.own[support])
        low, high, *_ = bounds_along(problem, d, here.method, precision, rng)
        for u, gradient in claims:
            used = u != 0
            a, b = u[used] * low[used], u[used] * high[used]
            least, greatest = float(np.minimum(a, b).sum()), float(np.maximum(a, b).sum())
            claimed = float(gradient[support] @ d.weights)
            allowed = OUTSIDE * float(np.maximum(np.abs(a), np.abs(b)).sum())
            if least - claimed > allowed or claimed - greatest > allowed:
                place = f"{problem.place_of(int(support[0]))[0]}, along a direction through {len(support)} kinks"
                by = f"the nearer end of {least} to {greatest}, the slopes that it has there,"
                worst = Worst(place, None, None, claimed, least if claimed < least else greatest, 0.0, by)
                return replace(report, digits=0.0, agrees=False, disagrees=True, worst=worst)
    return report


def has_slope_of_its_own(here: FirstOrder, d: Direction) -> bool:
    """Whether f has another slope along d than the claim, as at a kink where its elements one by one may agree."""
    if len(d.support) < 2:
        return False
    compared = here.along([d])
    return bool(np.any(compared.difference > OUTSIDE * compared.terms + compared.error))


def with_slopes_beside(
    problem: FlatFunction,
    method: Method,
    precision: DType,
    rng: np.random.Generator,
    slopes: list[Slopes],
    worst: str | None = None,
) -> list[Slopes]:
    """The slopes at kinks, and of all elements whose slopes at points beside x go beyond those at x.

    Those that are given where there are many elements, or f computes in float32; and if none are, where neither a
    direction through all elements of a size has such slopes nor the element at the place that is the `worst`: beside
    the slope of a large element those of small ones cannot be seen.
    """
    elements, found = np.arange(problem.x.size), {at.element: at for at in slopes}
    if len(elements) > MOST_KINKS or problem.noise(precision).is_coarse(np.float64):
        return slopes

    def beside(d: Direction, at: Slopes | None) -> Slopes | None:
        if at is not None and np.any(at.jumps):
            return at
        least, greatest, irregular, noise = bounds_along(problem, d, method, precision, rng)
        per_size = problem.size[d.support[0]] / problem.own[d.support[0]]
        least, greatest = least * per_size, greatest * per_size
        low, high = (greatest, greatest) if at is None else at.bounds
        with np.errstate(invalid="ignore"):
            size = OUTSIDE * np.maximum(np.abs(least), np.abs(greatest))
            more = np.maximum(low - least, greatest - high) > size + 4 * noise * per_size
            error = OUTSIDE / 20 * (greatest - least)
        known = (np.isfinite(greatest) | irregular).all()  # else nothing is known beside x
        return Slopes(int(d.support[0]), least, greatest, error) if known and (more | irregular).any() else at

    if not slopes:
        groups = [np.flatnonzero(problem.own == size) for size in np.unique(problem.own)]
        groups += [np.array([j]) for j in elements if problem.place_of(int(j))[0] == worst]
        if all(beside(along(problem, group, rng, problem.own), None) is None for group in groups):
            return slopes
    more = False
    for j in map(int, elements):
        at = beside(Direction(np.array([j]), problem.own[[j]]), found.get(j))
        if at is not None and at is not found.get(j):
            found[j], more = at, True
    return [found[j] for j in sorted(found)] if more else slopes


def bounds_along(
    problem: FlatFunction, d: Direction, method: Method, precision: DType, rng: np.random.Generator
) -> tuple[Array, Array, Array, Array]:
    """−f°(x; −d) and f°(x; d) of each output, (m,) both; ∓∞ where they are not known.

    And where they are not, though slopes were met beyond those at x, so that these are no bounds; and by how much noise
    moves a slope.
    """
    slope, error = (
        _by_complex_step(problem, method, d)
        if method.name == "complex step"
        else _by_differences(problem, precision, d)
    )
    with np.errstate(all="ignore"):
        ends = np.stack([slope(side * d.vector(problem.x.size) / problem.own, 1.0) for side in (-1, 1)])
        both = lambda ways: np.stack([[slope(way, near) for near in (1.0, 0.5)] for way in ways])  # (ways, 2, m)
        n = problem.x.size
        ways = [random_weights(n, rng) if k % 2 == 0 else rng.normal(size=n) for k in range(BESIDE)]
        drawn = both(ways)
        sums, steepest = sums_of_kinks(slope, ways[0], drawn[0, 1], d.support)
        drawn = np.concatenate([drawn, both(steepest)])
        size = np.maximum(np.abs(drawn).max((0, 1)), np.abs(ends).max(0))  # (m,)
        same = SAME * size + error
        clear = np.abs(drawn[:, 0] - drawn[:, 1]) <= same  # else a kink lies between the points of a difference
        least = np.where(clear, drawn[:, 1], np.inf).min(0)
        greatest = np.where(clear, drawn[:, 1], -np.inf).max(0)
        times = [(clear & (np.abs(drawn[:, 1] - end) <= same))[:BESIDE].sum(0) for end in (least, greatest)]
        is_sum = (np.abs(np.stack([least, greatest]) - sums) <= same).all(0)
        within = (least >= ends.min(0) - same) & (greatest <= ends.max(0) + same)
        known = np.isfinite(size) & (error <= OUTSIDE * size) & (2 * clear[:BESIDE].sum(0) >= BESIDE)
        known &= within | is_sum | (np.minimum(*times) > 1)
        flat = size <= error
    low, high = np.minimum(ends.min(0), least), np.maximum(ends.max(0), greatest)
    low, high = np.where(flat, np.minimum(low, -error), low), np.where(flat, np.maximum(high, error), high)
    irregular = ~(known | flat | within) & np.isfinite(size) & (error <= OUTSIDE * size)
    return np.where(known | flat, low, -np.inf), np.where(known | flat, high, np.inf), irregular, error


def sums_of_kinks(slope: Slope, way: Array, here: Array, support: Array) -> tuple[Array, list[Array]]:
    """The least and the greatest slopes (2, m) of a sum of kinks of single elements, and the ways to where they are.

    Where the sign of one element of a way turns, such a sum changes, from `here`, by the kink of that element.
    """

    def turned(elements: Array) -> Array:
        other = way.copy()
        other[elements] *= -1
        return other

    change = np.stack([slope(turned(j), 0.5) for j in support]) - here  # (elements, m)
    sums = np.stack([here + np.minimum(change, 0).sum(0), here + np.maximum(change, 0).sum(0)])
    turns = np.unique(np.concatenate([change < 0, change > 0], axis=1), axis=1).T[:BESIDE]
    return sums, [turned(support[turn]) for turn in turns]


def _by_complex_step(problem: FlatFunction, method: Method, d: Direction) -> tuple[Slope, Array]:
    """Among the nearest numbers that there are; and as error (m,) what is below a rounding of f."""
    x, v = problem.x.astype(method.precision), d.vector(problem.x.size)
    nearest = np.where(x == 0, problem.size * NEAREST, 16 * np.spacing(np.abs(x)))

    def slope(w: Array, near: float) -> Array:
        y = x + near * w * nearest
        return np.where(np.isfinite(problem(y)), method(problem, y, v).value, np.nan)  # complex roots have no domain

    return slope, SAFETY * roundoff(method.precision) * problem.within


def _by_differences(problem: FlatFunction, precision: DType, d: Direction) -> tuple[Slope, Array]:
    """With the error (m,) that the noise of f leaves in them."""
    x, v, noise = problem.x.astype(precision), d.vector(problem.x.size).astype(precision), problem.noise(precision)
    far = 2.0 ** np.round(0.375 * np.log2(roundoff(precision)))  # the distance of the points
    step = far / 256  # a kink seldom lies so near to a point; slopes keep 7 digits in float64

    def slope(w: Array, near: float) -> Array:
        y, h = x + near * far * w * problem.own, near * step
        return (problem(y + h * v) - problem(y - h * v)) / (2 * h)

    return slope, 2 * noise.at(problem.y) / step
