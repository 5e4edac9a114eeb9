r"""Seeded directions to differentiate along: single elements, and random sums over many.

A weight of a random direction is ± a number from [½, 1). None is near 0, so no single element can hide behind a small
weight; no two are alike, so the kink of max(x, y) at a tie is crossed. They have 20 binary digits, and so are exact in
float32, and x + hv is exact in longdouble. They are never all ones: along those, the gradients of softmax and
LayerNorm vanish, and an error proportional to the gradient would pass.

First order: is the claimed x̄ = Jᵀu the transpose of the derivative J that f has?

    ⟨u, J v⟩ = ⟨Jᵀu, v⟩        for every cotangent u (m,) and direction v (n,)

The left side takes f and a numerical derivative, the right side the claim. With v = eⱼ it is one element of the
claimed gradient, and one numerical derivative serves all cotangents. Several seeded random u are drawn, and where f
has several outputs also one u for each of them alone, so that a small output is not lost beside a large one.

What a projection can miss: over a group of k elements, the error of one is seen only if it exceeds 10^-digits of the
sum of sizes over the group, that is, relative errors below k·10^-digits pass. (Along a single axis there is no such
loss.) Errors of several elements could also cancel in the sum, which for random weights has probability 0 in exact
arithmetic. A group that fails is halved until one element is left to blame.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gradcheck.agreement import Again, Comparison, judge, remarks_on
from gradcheck.flat import Claim, FlatFunction
from gradcheck.numerical import MOST, Method, has_kink
from gradcheck.precision import DType, roundoff, wider
from gradcheck.report import Findings, Worst


def random_weights(count: int, rng: np.random.Generator) -> np.ndarray:
    """`count` numbers of random sign and size in [½, 1), multiples of 2⁻²⁰."""
    sizes = rng.integers(2**19, 2**20, count) / 2.0**20
    return np.where(rng.integers(0, 2, count) == 1, sizes, -sizes)


@dataclass(frozen=True)
class Direction:
    """Σ weightⱼ eⱼ over the elements j of x in `support`. Weights include the size of the element (a power of two),
    so that one step along a direction is as long as x itself."""

    support: np.ndarray
    weights: np.ndarray

    def vector(self, n: int) -> np.ndarray:
        v = np.zeros(n)
        v[self.support] = self.weights
        return v

    def halves(self) -> tuple["Direction", "Direction"]:
        middle = len(self.support) // 2
        return (
            Direction(self.support[:middle], self.weights[:middle]),
            Direction(self.support[middle:], self.weights[middle:]),
        )


def along(problem: FlatFunction, support: np.ndarray, rng: np.random.Generator) -> Direction:
    """A random direction over the elements in `support`."""
    return Direction(support, random_weights(len(support), rng) * problem.size[support])


@dataclass(frozen=True)
class Effort:
    """How much is drawn: elements compared one by one in each array, projections for the rest, cotangents."""

    max_elements: int
    projections: int
    cotangents: int


def covering(
    problem: FlatFunction, excluded: np.ndarray, effort: Effort, rng: np.random.Generator
) -> Iterator[Direction]:
    """Directions that cover every element of x that is not excluded.

    Of each array: a seeded sample of `max_elements` elements one by one (all, where there are no more; fewer where
    there are more than ten arrays, so that a model of many parameters costs no more than ten arrays), and the rest
    dealt at random into `projections` groups, each with one random direction.
    """
    each = max(4, min(effort.max_elements, 10 * effort.max_elements // len(problem.leaves)))
    for leaf in problem.leaves:
        shuffled = rng.permutation(np.setdiff1d(np.arange(leaf.start, leaf.stop), excluded))
        for j in np.sort(shuffled[:each]):
            yield Direction(np.array([j]), problem.size[j : j + 1])
        rest = shuffled[each:]
        groups = min(effort.projections, -(-len(rest) // each))
        for group in np.array_split(rest, groups) if groups else []:
            yield along(problem, np.sort(group), rng)


def find_kinks(problem: FlatFunction, precision: DType, rng: np.random.Generator) -> np.ndarray:
    """The elements of x at which F has a kink, in order.

    Random directions through halves of halves, down to single elements: a smooth function is done after one direction
    for each array, k kinks among n elements take about 2k log₂ n. A kink that no single axis crosses is not found.
    """
    x = problem.x.astype(precision)
    found: list[int] = []

    def search(direction: Direction) -> None:
        if not has_kink(problem, x, direction.vector(x.size)).any():
            return
        if len(direction.support) == 1 or len(found) >= MOST:
            found.extend(int(j) for j in direction.support)
        else:
            for half in direction.halves():
                search(half)

    for leaf in problem.leaves:
        if leaf.stop > leaf.start:
            search(along(problem, np.arange(leaf.start, leaf.stop), rng))
    return np.array(sorted(found), dtype=np.intp)


class FirstOrder:
    """The claimed gradient at one point and numerical derivatives along directions, in one precision.

    Shapes: cotangents (K, m), gradients (K, n). `x` is None for the arguments as given, in their own dtypes.
    """

    def __init__(
        self, problem: FlatFunction, claim: Claim, method: Method, cotangents: np.ndarray, x: np.ndarray | None = None
    ):
        self.problem, self.claim, self.method, self.cotangents = problem, claim, method, cotangents
        self.gradients = np.stack([claim.gradient(u, x) for u in cotangents])
        self.dtype = problem.dtype if x is None else x.dtype

    def along(self, directions: Sequence[Direction]) -> Comparison:
        """⟨Jᵀu, v⟩ as claimed against ⟨u, J v⟩ as computed: a row for each direction v, a column for each u."""
        wide = np.result_type(self.gradients.dtype, np.float64)  # float32 gradients are not rounded once more
        u, g = self.cotangents.astype(wide), self.gradients.astype(wide)
        natural = np.abs(u) @ self.problem.within.astype(wide)  # (K,)
        rows = []
        for d in directions:
            value, error = self.method(self.problem, self.problem.x, d.vector(self.problem.x.size))
            products = g[:, d.support] * d.weights  # (K, elements)
            terms = np.abs(u) @ np.abs(value)
            if len(d.support) > 1:
                terms = np.maximum(terms, np.abs(products).sum(axis=1))
            rows.append((products.sum(axis=1), u @ value, terms, natural, np.abs(u) @ error))
        return Comparison(self.dtype, *(np.array(column) for column in zip(*rows, strict=True)))

    def in_wider_precision(self) -> "FirstOrder | None":
        """The same comparison with both sides in the next wider precision, or None where f or the claim lacks it."""
        wide = wider(self.dtype)
        if wide is None or not self.claim.computes_in(wide, self.cotangents[0]):
            return None
        method = self.method
        if roundoff(method.precision) > roundoff(wide):
            needed: DType = np.result_type(wide, np.complex64) if method.name == "complex step" else wide
            if not self.problem.computes_in(needed):
                return None
            method = method.in_precision(wide)
        return FirstOrder(self.problem, self.claim, method, self.cotangents, self.problem.x.astype(wide))

    def to_blame(self, direction: Direction, k: int) -> Direction:
        """The one element of a failing direction that agrees least for cotangent k, found by halving."""

        def disagreement(part: Direction) -> float:
            return -float(self.along([part]).digits[0, k])

        while len(direction.support) > 1:
            direction = max(direction.halves(), key=disagreement)
        return direction


def draw_cotangents(problem: FlatFunction, count: int, rng: np.random.Generator) -> np.ndarray:
    """Cotangents (K, m): `count` random ones, and one for each output alone where there are several (at most 8)."""
    drawn = [random_weights(problem.y.size, rng) for _ in range(count)]
    if len(problem.outputs) > 1:
        for _, part in problem.outputs[:8]:
            alone = np.zeros(problem.y.size)
            alone[part] = random_weights(part.stop - part.start, rng)
            drawn.append(alone)
    return np.stack(drawn)


def first_order(
    problem: FlatFunction,
    claim: Claim,
    method: Method,
    kinks: np.ndarray,
    asked: float,
    effort: Effort,
    rng: np.random.Generator,
) -> Findings:
    """Compare the claimed gradient with numerical derivatives along directions that cover x, kinks left out."""
    here = FirstOrder(problem, claim, method, draw_cotangents(problem, effort.cotangents, rng))
    directions = list(covering(problem, kinks, effort, rng))

    compared = here.along(directions)
    verdict = judge(compared, asked, lambda rows: again(here, directions, rows))
    ranked = verdict.digits - 100.0 * ~verdict.passed  # whatever failed comes before what passed
    row, k = np.unravel_index(int(np.argmin(ranked)), ranked.shape)
    digits, agrees = float(verdict.digits.min()), bool(verdict.passed.all())
    worst = _worst(here, directions[row], int(k), float(verdict.digits[row, k]), agrees)
    single = sum(len(d.support) == 1 for d in directions)
    covered = sum(len(d.support) for d in directions)
    return Findings(single, covered - single, digits, agrees, worst, remarks_on([verdict], problem.dtype))


def again(here: FirstOrder, directions: Sequence[Direction], rows: list[int]) -> Again | None:
    """The comparisons along some of the directions in the next wider precision, and how to repeat those once more."""
    wide = here.in_wider_precision()
    if wide is None:
        return None
    chosen = [directions[row] for row in rows]
    return wide.along(chosen), lambda some: again(wide, chosen, some)


def _worst(here: FirstOrder, direction: Direction, k: int, digits: float, agrees: bool) -> Worst:
    """The worst comparison as a claim about one element; a projection that passed stays a projection."""
    problem = here.problem
    leaf, index = problem.leaf_of(int(direction.support[0]))
    if len(direction.support) > 1 and agrees:
        place = f"{leaf.place()}, along a random direction through {len(direction.support)} elements"
        compared, scale = here.along([direction]), 1.0
        return Worst(
            place, leaf.path[0], None, compared.claimed[0, k], compared.numeric[0, k], digits, here.method.name
        )
    if len(direction.support) > 1:
        direction = here.to_blame(direction, k)
        leaf, index = problem.leaf_of(int(direction.support[0]))
    compared, scale = here.along([direction]), direction.weights[0]
    if not agrees:
        digits = float(compared.digits[0, k])
    return Worst(
        leaf.place(index),
        leaf.path[0],
        index,
        compared.claimed[0, k] / scale,
        compared.numeric[0, k] / scale,
        digits,
        here.method.name,
    )
