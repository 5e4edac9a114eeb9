r"""The Hessian of ⟨u, f⟩ along directions: from the claimed gradient in two ways, and from f alone.

    Hw = Im g(x + ihw)/h               the complex step through the claimed reverse pass, g = Jᵀu
    Hw = D_w g                         Richardson differences of the claimed gradient
    ⟨v, Hw⟩ = ⟨u, D_w (J v)⟩           differences along w of a numerical first derivative of f along v

Differences are taken in longdouble wherever f and its gradient compute in it, and are then good to 1e-15 or so.

Sources: Pearlmutter, Neural Computation 6 (1994) 147, for the product; Squire & Trapp (1998) for the complex step.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from gradcheck.agreement import Comparison
from gradcheck.analytic import Method
from gradcheck.claim import Claim
from gradcheck.complex_step import complex_step
from gradcheck.directions import Direction, along
from gradcheck.flat import FlatFunction
from gradcheck.precision import DType, roundoff, wider, working
from gradcheck.richardson import Estimate, richardson


@dataclass(frozen=True)
class Products:
    """A way to Hessian-vector products: `of(u, w, dtype)` → Hw (n,) with its error, in the precision asked for."""

    name: str
    of: Callable[[np.ndarray, np.ndarray, DType], Estimate]
    remark: str | None = None


class SecondOrder:
    """Second derivatives of one claim at one point, for K drawn pairs of a cotangent u and a direction w.

    Shapes: cotangents (K, m), directions (K, n); v (n,) is one more direction, `kept` the elements that may be
    compared.
    """

    def __init__(
        self,
        problem: FlatFunction,
        claim: Claim,
        inner: Method,
        cotangents: np.ndarray,
        kept: np.ndarray,
        rng: np.random.Generator,
    ):
        self.problem, self.claim, self.inner, self.kept = problem, claim, inner, kept
        self.dtype = working(problem.x.dtype)
        n = problem.x.size
        self.pairs = [(u, along(problem, kept, rng).vector(n)) for u in cotangents]
        self.v = along(problem, kept, rng)
        self.gradients = np.stack([claim.gradient(u, problem.x.astype(self.dtype)) for u in cotangents])
        self.size_of_f = np.abs(cotangents) @ problem.within  # (K,)
        self.natural = np.abs(self.gradients) + self.size_of_f[:, None] / problem.size  # (K, n)
        wide = wider(self.dtype)
        self.widest = wide if wide is not None and claim.computes_in(wide, cotangents[0]) else self.dtype
        self.differences = [self.by_differences(u, w, self.widest) for u, w in self.pairs]

    def by_differences(self, u: np.ndarray, w: np.ndarray, dtype: DType) -> Estimate:
        """Hw by Richardson differences of the claimed gradient, in which terms as large as those in f may cancel."""
        x, size = self.problem.x, np.abs(u) @ self.problem.within / self.problem.size
        within = _within(size, self.claim.gradient(u, x.astype(self.dtype)), self.claim.gradient(u, x.astype(dtype)))
        return richardson(lambda at: self.claim.gradient(u, at), x.astype(dtype), w.astype(dtype), within=within)

    def by_complex_step(self, u: np.ndarray, w: np.ndarray, dtype: DType) -> Estimate:
        """Hw by the complex step through the claimed reverse pass, in the complex counterpart of `dtype`."""
        product = complex_step(lambda x: self.claim.gradient(u, x), self.problem.x.astype(dtype), w)
        return Estimate(product, np.zeros_like(product))

    def why_not_analytic(self) -> str | None:
        """None where the complex step goes through the claimed reverse pass unharmed, else why it does not."""
        (u, w), differences = self.pairs[0], self.differences[0]
        try:
            product = self.by_complex_step(u, w, self.widest).value
        except Exception as refusal:  # the claim is anybody's code: whatever it raises, it is a no
            return f"the claimed reverse pass does not take complex numbers ({type(refusal).__name__})"
        allowed = 100 * differences.error + 1e-6 * np.abs(differences.value) + 1e-9 * self.natural[0]
        if not np.all((np.abs(product - differences.value) <= allowed)[self.kept]):
            return "the claimed reverse pass is not analytic: it uses abs, conj, .real or the like"
        return None

    def second_derivative(self, v: np.ndarray, w: np.ndarray) -> Estimate:
        """D_w (J v) (m,) from f alone: Richardson differences along w of its numerical first derivative along v."""
        precision, wide = self.inner.precision, wider(self.inner.precision)
        if self.inner.name == "complex step" and wide is not None and self.problem.computes_in(wide):
            precision = wide  # differences have noise, and less of it here
        inner, x = self.inner.in_precision(precision), self.problem.x
        slopes = [way(self.problem, x, v).value for way in (self.inner, inner)]
        return richardson(
            lambda at: inner(self.problem, at, v).value,
            x.astype(precision),
            w.astype(precision),
            within=_within(self.problem.within, *slopes),
        )

    def elements(self, products: list[Estimate], dtype: DType) -> Comparison:
        """Hw as claimed against differences of the claimed gradient: a row for each kept element, a column a pair.

        The terms of (Hw)ⱼ = Σₖ Hⱼₖwₖ are not known, but the largest (Hw)ⱼ over the pairs is about as large as they are,
        and an error proportional to the row shows in full in the pair where it is attained.
        """
        claimed = np.stack([product.value for product in products], axis=1)  # (n, K)
        numeric = np.stack([difference.value for difference in self.differences], axis=1)
        error = np.stack([difference.error for difference in self.differences], axis=1)
        terms = np.broadcast_to(np.abs(numeric).max(axis=1, keepdims=True), numeric.shape)
        return Comparison(dtype, *(a[self.kept] for a in (claimed, numeric, terms, self.natural.T, error)))

    def projections(
        self, products: list[Estimate], direction: Direction, dtype: DType, pairs: Iterable[int] | None = None
    ) -> Comparison:
        """⟨v, Hw⟩ as claimed against ⟨u, D_w (J v)⟩ from f alone: one row, a column for each pair (or those chosen)."""
        rows, v = [], direction.vector(self.problem.x.size)
        for k in range(len(self.pairs)) if pairs is None else pairs:
            (u, w), product = self.pairs[k], products[k]
            second = self.second_derivative(v, w)
            terms = max(np.abs(u) @ np.abs(second.value), np.abs(v) @ np.abs(product.value))
            error = np.abs(u) @ second.error + np.abs(v) @ product.error
            natural = np.abs(v) @ np.abs(self.gradients[k]) + self.size_of_f[k]
            rows.append((v @ product.value, u @ second.value, terms, natural, error))
        return Comparison(dtype, *(np.array([column]) for column in zip(*rows, strict=True)))

    def symmetry(self, products: list[Estimate], way: Products, dtype: DType) -> Comparison:
        """⟨v, Hw⟩ against ⟨w, Hv⟩, both as claimed: one row, a column for each pair."""
        rows, v = [], self.v.vector(self.problem.x.size)
        for k, ((u, w), product) in enumerate(zip(self.pairs, products, strict=True)):
            other = way.of(u, v, dtype)
            terms = max(np.abs(v) @ np.abs(product.value), np.abs(w) @ np.abs(other.value))
            error = np.abs(v) @ product.error + np.abs(w) @ other.error
            natural = (np.abs(v) + np.abs(w)) @ np.abs(self.gradients[k]) + self.size_of_f[k]
            error = error + 4 * roundoff(self.widest) * natural
            rows.append((v @ product.value, w @ other.value, terms, natural, error))
        return Comparison(dtype, *(np.array([column]) for column in zip(*rows, strict=True)))

    def to_blame(self, products: list[Estimate], k: int, asked: float) -> tuple[Direction, Comparison]:
        """The one element whose part in a failing projection disagrees, by halving, and its comparison for pair k."""
        direction = self.v
        while len(direction.support) > 1:
            first, second = direction.halves()
            part = self.projections(products, first, self.dtype, [k])
            direction = first if part.digits[0, 0] < asked else second
        return direction, self.projections(products, direction, self.dtype, [k])

    def all_three(self, way: Products, dtype: DType) -> list[Comparison]:
        products = [way.of(u, w, dtype) for u, w in self.pairs]
        return [
            self.elements(products, dtype),
            self.projections(products, self.v, dtype),
            self.symmetry(products, way, dtype),
        ]


def _within(size: np.ndarray, narrow: np.ndarray, wide: np.ndarray) -> np.ndarray:
    """The size of what cancels inside a derivative, at least `size`, as its rounding error in `narrow` tells."""
    if roundoff(narrow.dtype) <= roundoff(wide.dtype):
        return size
    return np.maximum(size, np.abs(narrow - wide) / roundoff(narrow.dtype))
