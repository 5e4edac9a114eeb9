r"""The Hessian of ⟨u, f⟩ along directions: from the claimed gradient in two ways, and from f alone.

    Hw = Im g(x + ihw)/h               the complex step through the claimed reverse pass, g = Jᵀu
    Hw = D_w g                         Richardson differences of the claimed gradient
    ⟨v, Hw⟩ = ⟨u, D_w (J v)⟩           differences along w of a numerical first derivative of f along v

Differences are taken in longdouble wherever f and its gradient compute in it, and are then good to 1e-15 or so.

Sources: Pearlmutter (1994), for the product; Squire & Trapp (1998) for the complex step.

Second order: is what the claimed gradient g(x) = J(x)ᵀu has for a derivative the Hessian H of ⟨u, f⟩?

The claim is the Hessian-vector product Hw = (d/dt) g(x + tw). Where the reverse pass is analytic it comes, to the
last digits, from the complex step through it. Three things are asked of it:

    elements       Hw = D_w g                    the same derivative by differences of the claimed gradient
    projections    ⟨v, Hw⟩ = ⟨u, D_w (J v)⟩      a second derivative of f itself, in which the claim has no part
    symmetry       ⟨v, Hw⟩ = ⟨w, Hv⟩             which holds for nothing but a gradient

A claim that is not analytic (PyTorch's, JAX's) may bring its own `hvp(f, args, tangents, cotangent) → tuple like args`;
without one, the difference of its gradient is the claim, and no single elements are left to compare, only the others.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from gradcheck.agreement import Again, Comparison, judge, remarks_on
from gradcheck.first_order import Direction, Effort, along, draw_cotangents
from gradcheck.flat import Claim, FlatFunction
from gradcheck.numerical import Estimate, Method, complex_step, richardson
from gradcheck.precision import DType, roundoff, wider, working
from gradcheck.report import Findings, Worst


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


def choose_products(here: SecondOrder, hvp: Callable | None, forced: bool) -> Products:
    """The claimed way to Hw: the user's `hvp`, else the complex step through the reverse pass, else its differences.

    Where `forced`, the complex step is taken even if it is not trusted, so that the comparison shows where it fails.
    """
    problem, claim = here.problem, here.claim
    if hvp is not None:

        def of(u: np.ndarray, w: np.ndarray, dtype: DType) -> Estimate:
            args, value = problem.args(), problem.f(*problem.args())
            tangents = problem.tangents(w)
            product = claim.joined(hvp(problem.f, args, tangents, claim.cotangent(value, u)), "hvp")
            return Estimate(product, np.zeros_like(product))

        return Products("hvp", of)
    reason = here.why_not_analytic()
    if reason is None or forced:
        return Products("complex step", here.by_complex_step)
    return Products(
        "differences of the claimed gradient",
        here.by_differences,
        f"no single elements were compared at second order, for {reason}; an hvp would allow it",
    )


def second_order(
    problem: FlatFunction,
    claim: Claim,
    inner: Method,
    kinks: np.ndarray,
    asked: float,
    effort: Effort,
    rng: np.random.Generator,
    hvp: Callable | None,
    forced: bool,
) -> tuple[Findings, str, DType]:
    """Compare the claimed Hessian-vector products in the three ways above; returns also how and in which arithmetic
    they were obtained."""
    kept = np.setdiff1d(np.arange(problem.x.size), kinks)
    here = SecondOrder(problem, claim, inner, draw_cotangents(problem, effort.cotangents, rng), kept, rng)
    way = choose_products(here, hvp, forced)
    compared = here.all_three(way, here.dtype)
    wide: list[Comparison] = []

    def again_for(which: int) -> Callable[[list[int]], Again | None]:
        def again(rows: list[int]) -> Again | None:
            precision = wider(here.dtype)
            if way.name != "complex step" or precision is None or here.widest != precision:
                return None
            if not wide:
                wide.extend(here.all_three(way, precision))
            return wide[which].rows(rows), lambda _: None

        return again

    by_elements = way.name != "differences of the claimed gradient"
    verdicts = {i: judge(compared[i], asked, again_for(i)) for i in range(0 if by_elements else 1, 3)}
    ranked = {i: float(np.min(verdict.digits - 100.0 * ~verdict.passed)) for i, verdict in verdicts.items()}
    which = min(ranked, key=lambda i: ranked[i])
    digits = float(min(verdict.digits.min() for verdict in verdicts.values()))
    agrees = all(bool(verdict.passed.all()) for verdict in verdicts.values())
    at = int(np.argmin(verdicts[which].digits - 100.0 * ~verdicts[which].passed))
    worst = _worst(here, way, compared[which], which, at, float(verdicts[which].digits.flat[at]), agrees, asked)
    remarks = remarks_on(verdicts.values(), here.dtype)
    elements = compared[0].claimed.size if by_elements else 0
    findings = Findings(
        elements,
        0 if by_elements else len(kept),
        digits,
        agrees,
        worst,
        remarks + ((way.remark,) if way.remark else ()),
    )
    arithmetic = here.widest
    return findings, way.name, np.result_type(here.dtype, np.complex64) if way.name == "complex step" else arithmetic


def _worst(
    here: SecondOrder,
    way: Products,
    compared: Comparison,
    which: int,
    at: int,
    digits: float,
    agrees: bool,
    asked: float,
) -> Worst:
    problem, claimed, numeric = here.problem, compared.claimed.flat[at], compared.numeric.flat[at]
    if which == 0:
        leaf, index = problem.leaf_of(int(here.kept[at // compared.claimed.shape[1]]))
        return Worst(leaf.place(index), leaf.path[0], index, claimed, numeric, digits, "a difference of the gradient")
    if which == 1 and not agrees:
        products = [way.of(u, w, here.dtype) for u, w in here.pairs]
        direction, one = here.to_blame(products, at, asked)
        (leaf, index), scale = problem.leaf_of(int(direction.support[0])), direction.weights[0]
        return Worst(
            leaf.place(index),
            leaf.path[0],
            index,
            one.claimed[0, 0] / scale,
            one.numeric[0, 0] / scale,
            float(one.digits[0, 0]),
            "a second difference of f",
        )
    by = "a second difference of f" if which == 1 else "its symmetric twin ⟨w, Hv⟩"
    return Worst("a random projection, ⟨v, Hw⟩", None, None, claimed, numeric, digits, by)
