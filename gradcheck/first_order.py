r"""First order: is the claimed x̄ = Jᵀu the transpose of the derivative J that f has?

    ⟨u, J v⟩ = ⟨Jᵀu, v⟩        for every cotangent u (m,) and direction v (n,)

The left side takes f and a numerical derivative, the right side the claim. With v = eⱼ it is one element of the
claimed gradient, and one numerical derivative serves all cotangents. Several seeded random u are drawn, and where f
has several outputs also one u for each of them alone, so that a small output is not lost next to a large one.

Directions are single elements, and random sums over many. A projection covers every element of its group, and a wrong
one is found: let δ ≠ 0 be the error of the claim there. Whatever the other weights are, at most one value of the weight
vⱼ at an element with δⱼ ≠ 0 makes ⟨δ, v⟩ = 0, and vⱼ is one of 2²⁰ numbers, equally likely; so in exact arithmetic
errors cancel with a probability of at most 2⁻²⁰, for each direction and cotangent. What a projection can miss is small
errors: over a group of k elements, the error of one is seen only if it exceeds 10^-digits of the sum of sizes over the
group, that is, relative errors below k·10^-digits pass. (Along a single axis there is no such loss.) A group that fails
is halved until one element is left.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from gradcheck.agreement import Beside, Claims, Comparison, Repeat, judge, remarks_on
from gradcheck.flat import ClaimedGradient, FlatFunction
from gradcheck.numerical import Method
from gradcheck.precision import Array, dtype_name, roundoff, wider
from gradcheck.report import Report, Worst
from gradcheck.seen import seen

HIDDEN = 1e-6  # of the largest part of a gradient: what is smaller hardly shows in a direction through all elements
GROUP = 40  # elements in a projection of an array, where `projections` are enough for it


def random_weights(count: int, rng: np.random.Generator) -> Array:
    """`count` numbers of random sign and size in [½, 1), multiples of 2⁻²⁰.

    None is near 0, so no single element can be hidden by a small weight; no two are alike, so the kink of max(x, y) at
    a tie is crossed. With 20 binary digits they are exact in float32, and x + hv is exact in longdouble. They are never
    all ones: along those the gradients of softmax and LayerNorm vanish, and an error proportional to them would pass.
    """
    sizes = rng.integers(2**19, 2**20, count) / 2.0**20
    return np.where(rng.integers(0, 2, count) == 1, sizes, -sizes)


@dataclass(frozen=True)
class Direction:
    """Σ weightⱼ eⱼ over the elements j of x in `support`. Weights include the size of the element (a power of two),
    so that one step along a direction is as long as x itself."""

    support: Array
    weights: Array

    def vector(self, n: int) -> Array:
        """The direction as a vector (n,)."""
        v = np.zeros(n)
        v[self.support] = self.weights
        return v

    def halves(self) -> tuple["Direction", "Direction"]:
        """The directions over the first and the second half of the elements."""
        n = len(self.support) // 2
        return Direction(self.support[:n], self.weights[:n]), Direction(self.support[n:], self.weights[n:])


def along(problem: FlatFunction, support: Array, rng: np.random.Generator, size: Array | None = None) -> Direction:
    """A random direction over the elements in `support`, as long as their arrays, or as `size` (n,) says."""
    return Direction(support, random_weights(len(support), rng) * (problem.size if size is None else size)[support])


def covering(
    problem: FlatFunction,
    excluded: Array,
    max_elements: int,
    projections: int,
    rng: np.random.Generator,
    *,
    by_differences: bool,
) -> Iterator[Direction]:
    """Directions that cover every element of x that is not excluded.

    Of each array: a seeded sample of `max_elements` elements one by one (all, where there are no more; fewer where
    there are more than ten arrays, so that a model of many parameters costs no more than ten arrays), and the rest
    dealt at random into `projections` groups, each with one random direction. Where `max_elements` is 0, the array is
    dealt into groups of up to 40 elements, or into `projections` larger ones. `by_differences`, elements far smaller
    than their array have groups of their own, by their size, and are moved by no more than that: larger steps may cross
    a kink, or leave the domain of f.
    """
    each = min(max_elements, max(4, 10 * max_elements // len(problem.leaves)))
    for leaf in problem.leaves:
        shuffled = rng.permutation(np.setdiff1d(np.arange(leaf.start, leaf.stop), excluded))
        for j in np.sort(shuffled[:each]):
            yield Direction(np.array([j]), problem.size[j : j + 1])
        rest = shuffled[each:]
        small = rest[problem.own[rest] < problem.size[rest]] if by_differences else rest[:0]
        of_a_size = small[np.argsort(problem.own[small], kind="stable")]
        for members, size in ((np.setdiff1d(rest, small) if small.size else rest, None), (of_a_size, problem.own)):
            groups = min(projections, -(-len(members) // (each or GROUP)))
            for group in np.array_split(members, groups) if groups else []:
                yield along(problem, np.sort(group), rng, size)


def draw_cotangents(problem: FlatFunction, count: int, rng: np.random.Generator) -> Array:
    """Cotangents (K, m): `count` random ones, and one for each output alone where there are several (at most 8)."""
    drawn = [random_weights(problem.y.size, rng) for _ in range(count)]
    if len(problem.outputs) > 1:
        for _, part in problem.outputs[:8]:
            alone = np.zeros(problem.y.size)
            alone[part] = random_weights(part.stop - part.start, rng)
            drawn.append(alone)
    return np.stack(drawn)


def beside_larger_ones(claim: ClaimedGradient, elements: Array, rng: np.random.Generator) -> Iterator[Direction]:
    """Directions through those of the elements that one through all of them hardly shows, moved by their own size:
    those that are far smaller than their array, and those whose part in the claimed gradient is far below the others'.
    """
    problem = claim.problem
    gradient = claim(draw_cotangents(problem, 1, rng)[0])[elements]
    parts = np.nan_to_num(np.abs(gradient.astype(np.float64) * problem.own[elements]))
    small, hidden = problem.own[elements] < problem.size[elements], parts < HIDDEN * parts.max(initial=0)
    for chosen in (small, hidden) if np.any(small != hidden) else (small,):
        if chosen.any() and not chosen.all():
            yield along(problem, elements[chosen], rng, problem.own)


def noise_beside_f(problem: FlatFunction, method: Method, cotangents: Array) -> Array:
    """How large the noise of f is beside it, for each cotangent (K,), where differences are taken of it; else 0."""
    within, u = problem.within, np.abs(cotangents)
    if method.name == "complex step":
        return np.zeros(len(u))
    return u @ problem.noise(method.precision).at(problem.y) / np.maximum(u @ within, 1e-300)


def rounded_once_more(x: Array, size: Array) -> list[Array]:
    """Points beside x, each number another one by a rounding or the same, at random: f may not see one of them.

    Zeros move by a rounding of the `size` (n,) of their array.
    """
    rng, u = np.random.default_rng(0), roundoff(x.dtype)
    size = np.where(x == 0, size, np.abs(x))
    return [x + (2 * u * rng.integers(-1, 2, x.shape) * size).astype(x.dtype) for _ in range(4)]


def in_two_parts(u: Array) -> tuple[Array, Array]:
    """A cotangent as the sum of two, which are 0 where it is; multiples of 2⁻²¹, as exact as it is."""
    part = u / 2 + (u != 0) * np.random.default_rng(0).integers(1, 2**17, u.shape) / 2.0**20
    return part, u - part


class FirstOrder:
    """The claimed gradient at one point and numerical derivatives along directions, in one precision.

    Shapes: cotangents (K, m), gradients (K, n). `x` is None for the arguments as given, in their own dtypes.
    """

    def __init__(self, claim: ClaimedGradient, method: Method, cotangents: Array, x: Array | None = None):
        self.problem, self.claim, self.method, self.cotangents, self.x = claim.problem, claim, method, cotangents, x
        self.gradients = np.stack([claim(u, x) for u in cotangents])
        self.dtype = self.problem.dtype if x is None else x.dtype

    def along(self, directions: Sequence[Direction]) -> Comparison:
        """⟨Jᵀu, v⟩ as claimed against ⟨u, J v⟩ as computed: a row for each direction v, a column for each u."""
        wide = np.result_type(self.gradients.dtype, np.float64)  # float32 gradients are not rounded once more
        u, g = self.cotangents.astype(wide), self.gradients.astype(wide)
        expected = np.abs(u) @ self.problem.within.astype(wide)  # (K,)
        rows = []
        for d in directions:
            value, error = self.method(self.problem, self.problem.x, d.vector(self.problem.x.size))
            products = g[:, d.support] * d.weights  # (K, elements)
            terms = np.abs(u) @ np.abs(value)
            if len(d.support) > 1:
                terms = np.maximum(terms, np.abs(products).sum(axis=1))
            rows.append((products.sum(axis=1), u @ value, terms, expected, np.abs(u) @ error))
        columns = [np.array(column) for column in zip(*rows, strict=True)]
        noise = noise_beside_f(self.problem, self.method, self.cotangents)
        return Comparison(self.dtype, *columns, noise)  # type: ignore[call-arg]

    def repeat(self, directions: Sequence[Direction], rows: list[int]) -> tuple[Comparison, Repeat, Beside] | None:
        """The `repeat` of `judge`: the directions of these rows, with both sides in the next wider precision.

        None where f or the claim does not compute in it.
        """
        wide, method = wider(self.dtype), self.method
        if wide is None or not self.claim.computes_in(wide, self.cotangents[0]):
            return None
        if roundoff(method.precision) > roundoff(wide):
            method = replace(method, precision=wide)
            if not self.problem.computes_in(method.arithmetic):
                return None
        there = FirstOrder(self.claim, method, self.cotangents, self.problem.x.astype(wide))
        chosen = [directions[row] for row in rows]
        return there.along(chosen), partial(there.repeat, chosen), partial(self.beside, there, chosen)

    def beside(self, there: "FirstOrder", directions: Sequence[Direction], rows: list[int]) -> Claims:
        """The claims along some of the directions, here and `there`: at x, a rounding away, and in two parts at x."""
        points = rounded_once_more(self.problem.x.astype(self.dtype), self.problem.size)
        v = np.stack([directions[row].vector(self.problem.x.size) for row in rows], axis=1).astype(there.dtype)

        def along(one: FirstOrder, points: Sequence[Array], own: bool) -> Array:
            moved = (np.stack([self.claim(u, x, own=own) for u in self.cotangents]) for x in points)
            return (np.stack([one.gradients, *moved, one.of_two_parts()]).astype(there.dtype) @ v).mT

        return along(self, points, self.x is None), along(there, [x.astype(there.dtype) for x in points], False)

    def of_two_parts(self) -> Array:
        """The gradients (K, n), each as the sum of those for two parts of its cotangent."""
        return np.stack([np.sum([self.claim(v, self.x) for v in in_two_parts(u)], axis=0) for u in self.cotangents])

    def moved(self, directions: Sequence[Direction], rows: list[int]) -> Array:
        """How far a rounding of x moves the numerical derivatives of these rows (rows, K)."""
        x, n = self.problem.x, self.problem.x.size
        here, *others = (
            np.array([self.cotangents @ self.method(self.problem, at, directions[row].vector(n))[0] for row in rows])
            for at in (x, *rounded_once_more(x, 0 * x))  # zeros are exact
        )
        return np.max([np.abs(other - here) for other in others], axis=0)

    def worst(
        self, direction: Direction, compared: Comparison, k: int, digits: float, agrees: bool, reason: str
    ) -> Worst:
        """A comparison along a direction for cotangent k, as one of a single element; a projection that passed stays
        a projection. A direction that failed is halved, towards the half that agrees less, down to one element."""
        while not agrees and len(direction.support) > 1:
            halves = [(half, self.along([half])) for half in direction.halves()]
            direction, compared = min(halves, key=lambda half: float(half[1].digits[0, k]))
        scale = direction.weights[0]
        place, argument, index = self.problem.place_of(int(direction.support[0]))
        claimed, numeric = compared.claimed[0, k], compared.numeric[0, k]
        if len(direction.support) > 1:
            array = self.problem.leaf_of(int(direction.support[0])).place()
            place = f"{array}, along a random direction through {len(direction.support)} elements"
            return Worst(place, argument, None, claimed, numeric, digits, self.method.name, reason)
        digits = digits if agrees else float(compared.digits[0, k])
        return Worst(place, argument, index, claimed / scale, numeric / scale, digits, self.method.name, reason)


def first_order(report: Report, here: FirstOrder, directions: Sequence[Direction]) -> Report:
    """The report, completed: the claimed gradient against numerical derivatives along directions that cover x."""
    compared = here.along(directions)
    agreement = judge(compared, report.asked, partial(here.repeat, directions), moved=partial(here.moved, directions))
    row, k = map(int, np.unravel_index(int(np.argmin(agreement.ranked)), agreement.ranked.shape))
    judged, agrees = (agreement.passed | agreement.failed).any(axis=1), not agreement.failed.any()
    sizes = np.array([len(d.support) for d in directions])
    arrays = [here.problem.leaf_of(int(d.support[0])).place() for d in directions]
    told = seen(arrays, compared.claimed, compared.numeric, np.any(agreement.failed, axis=1))
    report = replace(
        report,
        method=here.method.name,
        precision=dtype_name(here.method.arithmetic),
        elements=int(np.sum(judged & (sizes == 1))),
        projected=int(np.sum(sizes[judged & (sizes > 1)])),
        left_out=report.left_out + int(np.sum(sizes[~judged])),
        remarks=(*report.remarks, *remarks_on([agreement], here.dtype), *told),
    )
    if not judged.any():
        return report
    digits = float(agreement.digits[row, k])
    return replace(
        report,
        digits=agreement.least,
        agrees=agrees,
        disagrees=not agrees,
        worst=here.worst(directions[row], compared.rows([row]), k, digits, agrees, agreement.reason(row, k)),
    )
