r"""First order: is the claimed x̄ = Jᵀu the transpose of the derivative J that f has?

    ⟨u, J v⟩ = ⟨Jᵀu, v⟩        for every cotangent u (m,) and direction v (n,)

The left side takes f and a numerical derivative, the right side the claim. With v = eⱼ it is one element of the
claimed gradient, and one numerical derivative serves all cotangents. Several seeded random u are drawn, and where f
has several outputs also one u for each of them alone, so that a small output is not lost beside a large one.

What a projection can miss: over a group of k elements, the error of one is seen only if it exceeds 10^-digits of the
sum of sizes over the group, that is, relative errors below k·10^-digits pass. (Along a single axis there is no such
loss.) Errors of several elements could also cancel in the sum, which for random weights has probability 0 in exact
arithmetic. A group that fails is halved until one element is left to blame.
"""

from collections.abc import Sequence

import numpy as np

from gradcheck.agreement import Again, Comparison, judge, remarks_on
from gradcheck.analytic import Method
from gradcheck.claim import Claim
from gradcheck.directions import Direction, Effort, covering, random_weights
from gradcheck.flat import FlatFunction
from gradcheck.precision import DType, roundoff, wider
from gradcheck.report import Findings, Worst


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
