r"""Second order: is what the claimed gradient g(x) = J(x)ᵀu has for a derivative the Hessian H of ⟨u, f⟩?

The claim is the Hessian-vector product Hw = (d/dt) g(x + tw), obtained in one of three ways:

    hvp(f, args, tangents, cotangent)  the user's own, for claims that are not analytic (PyTorch's, JAX's)
    Hw = Im g(x + ihw)/h               the complex step through the claimed reverse pass, where that is analytic
    Hw = D_w g                         Richardson differences of the claimed gradient

and compared in three:

    elements       Hw = D_w g                    the same derivative by differences of the claimed gradient; impossible
                                                 where these are the claim
    projections    ⟨v, Hw⟩ = ⟨u, D_w (J v)⟩      differences along w of a numerical first derivative of f along v, in
                                                 which the claim has no part
    symmetry       ⟨v, Hw⟩ = ⟨w, Hv⟩             which holds for nothing but a gradient

Differences are taken in longdouble wherever f and its gradient compute in it, and are then good to 1e-15 or so.

Sources: Pearlmutter (1994) for the product; Squire & Trapp (1998) for the complex step.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from gradcheck.agreement import Comparison, Repeat, judge, remarks_on
from gradcheck.first_order import Direction, Effort, along, draw_cotangents
from gradcheck.flat import ClaimedGradient, FlatFunction
from gradcheck.numerical import Estimate, Method, complex_step, richardson
from gradcheck.precision import Array, DType, complex_of, dtype_name, roundoff, wider, working
from gradcheck.report import Report, Worst

BY_DIFFERENCES = "differences of the claimed gradient"


@dataclass(frozen=True)
class HessianProducts:
    """A way to Hessian-vector products: `of(u, w, dtype)` → Hw (n,) with its error, in the precision asked for."""

    name: str
    of: Callable[[Array, Array, DType], Estimate]
    remarks: tuple[str, ...] = ()


class SecondOrder:
    """Second derivatives of one claim at one point, for K drawn pairs of a cotangent u and a direction w.

    Shapes: cotangents (K, m), directions (K, n); v (n,) is one more direction, `kept` the elements that may be
    compared.
    """

    def __init__(
        self,
        problem: FlatFunction,
        claim: ClaimedGradient,
        first: Method,
        cotangents: Array,
        kept: Array,
        rng: np.random.Generator,
    ):
        self.problem, self.claim, self.first, self.kept = problem, claim, first, kept
        self.dtype = working(problem.x.dtype)
        n = problem.x.size
        self.pairs = [(u, along(problem, kept, rng).vector(n)) for u in cotangents]
        self.v = along(problem, kept, rng)
        self.gradients = np.stack([claim(u, problem.x.astype(self.dtype)) for u in cotangents])
        self.size_of_f = np.abs(cotangents) @ problem.within  # (K,)
        self.expected = np.abs(self.gradients) + self.size_of_f[:, None] / problem.size  # (K, n)
        wide = wider(self.dtype)
        self.widest = wide if wide is not None and claim.computes_in(wide, cotangents[0]) else self.dtype
        self.differences = [self.by_differences(u, w, self.widest) for u, w in self.pairs]

    def products(self, hvp: Callable | None, forced: bool) -> HessianProducts:
        """The claimed way to Hw: the user's `hvp`, else the complex step through the reverse pass, else differences.

        Where `forced`, the complex step is taken even if it is not trusted: the comparison then shows where it fails.
        """
        if hvp is not None:
            return HessianProducts("hvp", lambda u, w, dtype: self.by_hvp(hvp, u, w))
        reason = self.why_not_analytic()
        if reason is None or forced:
            return HessianProducts("complex step", self.by_complex_step)
        remark = f"no single elements were compared at second order, for {reason}; an hvp would allow it"
        return HessianProducts(BY_DIFFERENCES, self.by_differences, (remark,))

    def by_hvp(self, hvp: Callable, u: Array, w: Array) -> Estimate:
        """Hw as the user's `hvp` gives it, at the arguments as they are."""
        args, value = self.problem.args(), self.problem.f(*self.problem.args())
        tangents, cotangent = self.problem.tangents(w), self.claim.cotangent(value, u)
        product = self.claim.joined(hvp(self.problem.f, args, tangents, cotangent), "hvp")
        return Estimate(product, np.zeros_like(product))

    def by_complex_step(self, u: Array, w: Array, dtype: DType) -> Estimate:
        """Hw by the complex step through the claimed reverse pass, in the complex counterpart of `dtype`."""
        product = complex_step(lambda x: self.claim(u, x), self.problem.x.astype(dtype), w)
        return Estimate(product, np.zeros_like(product))

    def by_differences(self, u: Array, w: Array, dtype: DType) -> Estimate:
        """Hw by Richardson differences of the claimed gradient, in which terms as large as those in f may cancel."""
        x, size = self.problem.x, np.abs(u) @ self.problem.within / self.problem.size
        within = _within(size, self.claim(u, x.astype(self.dtype)), self.claim(u, x.astype(dtype)))
        return richardson(lambda at: self.claim(u, at), x.astype(dtype), w.astype(dtype), within=within)

    def why_not_analytic(self) -> str | None:
        """None where the complex step through the claimed reverse pass can be trusted, else why it cannot."""
        (u, w), differences = self.pairs[0], self.differences[0]
        try:
            product = self.by_complex_step(u, w, self.widest).value
        except Exception as refusal:  # the claim may be any code, and so raise anything
            return f"the claimed reverse pass does not take complex numbers ({type(refusal).__name__})"
        allowed = 100 * differences.error + 1e-6 * np.abs(differences.value) + 1e-9 * self.expected[0]
        if not np.all((np.abs(product - differences.value) <= allowed)[self.kept]):
            return "the claimed reverse pass is not analytic: it uses abs, conj, .real or the like"
        return None

    def second_derivative(self, v: Array, w: Array) -> Estimate:
        """D_w (J v) (m,) from f alone: Richardson differences along w of its numerical first derivative along v."""
        precision, wide = self.first.precision, wider(self.first.precision)
        if self.first.name == "complex step" and wide is not None and self.problem.computes_in(wide):
            precision = wide  # where the rounding errors of differences are smaller
        first, x = replace(self.first, precision=precision), self.problem.x
        slopes = [method(self.problem, x, v).value for method in (self.first, first)]
        return richardson(
            lambda at: first(self.problem, at, v).value,
            x.astype(precision),
            w.astype(precision),
            within=_within(self.problem.within, *slopes),
        )

    def comparisons(self, way: HessianProducts, dtype: DType) -> list[Comparison]:
        """By elements, by projections, by symmetry."""
        products = [way.of(u, w, dtype) for u, w in self.pairs]
        elements = self.elements(products, dtype)
        return [elements, self.projections(products, self.v, dtype), self.symmetry(products, way, dtype)]

    def elements(self, products: list[Estimate], dtype: DType) -> Comparison:
        """Hw as claimed against differences of the claimed gradient: a row for each kept element, a column a pair.

        The terms of (Hw)ⱼ = Σₖ Hⱼₖwₖ are not known, but the largest (Hw)ⱼ over the pairs is about as large as they are,
        and an error proportional to the row shows in full in the pair where it is attained.
        """
        claimed = np.stack([product.value for product in products], axis=1)  # (n, K)
        numeric = np.stack([difference.value for difference in self.differences], axis=1)
        error = np.stack([difference.error for difference in self.differences], axis=1)
        terms = np.broadcast_to(np.abs(numeric).max(axis=1, keepdims=True), numeric.shape)
        return Comparison(dtype, *(a[self.kept] for a in (claimed, numeric, terms, self.expected.T, error)))

    def projections(
        self, products: list[Estimate], direction: Direction, dtype: DType, pairs: Iterable[int] | None = None
    ) -> Comparison:
        """⟨v, Hw⟩ as claimed against ⟨u, D_w (J v)⟩ from f alone: one row, a column for each pair (or those chosen)."""
        rows, v = [], direction.vector(self.problem.x.size)
        for k in range(len(self.pairs)) if pairs is None else pairs:
            u, w = self.pairs[k]
            expected = np.abs(v) @ np.abs(self.gradients[k]) + self.size_of_f[k]
            rows.append(_contracted(v, products[k], u, self.second_derivative(v, w), expected))
        return Comparison(dtype, *(np.array([column]) for column in zip(*rows, strict=True)))

    def symmetry(self, products: list[Estimate], way: HessianProducts, dtype: DType) -> Comparison:
        """⟨v, Hw⟩ against ⟨w, Hv⟩, both as claimed: one row, a column for each pair."""
        rows, v = [], self.v.vector(self.problem.x.size)
        for k, (u, w) in enumerate(self.pairs):
            expected = (np.abs(v) + np.abs(w)) @ np.abs(self.gradients[k]) + self.size_of_f[k]
            *row, error = _contracted(v, products[k], w, way.of(u, v, dtype), expected)
            rows.append((*row, error + 4 * roundoff(self.widest) * expected))
        return Comparison(dtype, *(np.array([column]) for column in zip(*rows, strict=True)))

    def worst_element(self, way: HessianProducts, k: int, asked: float) -> Worst:
        """The one element whose part in a failing projection of pair k disagrees, by halving."""
        products = [way.of(u, w, self.dtype) for u, w in self.pairs]
        direction = self.v
        while len(direction.support) > 1:
            first, second = direction.halves()
            fails = self.projections(products, first, self.dtype, [k]).digits[0, 0] < asked
            direction = first if fails else second
        part, scale = self.projections(products, direction, self.dtype, [k]), direction.weights[0]
        place = self.problem.place_of(int(direction.support[0]))
        claimed, numeric = part.claimed[0, 0] / scale, part.numeric[0, 0] / scale
        return Worst(*place, claimed, numeric, float(part.digits[0, 0]), "a second difference of f")


def _contracted(v: Array, product: Estimate, a: Array, other: Estimate, expected: float) -> tuple[float, ...]:
    """⟨v, product⟩ as claimed and ⟨a, other⟩ as computed, with terms, expected size and error, as `Comparison` has."""
    terms = max(np.abs(a) @ np.abs(other.value), np.abs(v) @ np.abs(product.value))
    error = np.abs(v) @ product.error + np.abs(a) @ other.error
    return v @ product.value, a @ other.value, terms, expected, error


def _within(size: Array, narrow: Array, wide: Array) -> Array:
    """The size of what cancels inside a derivative, at least `size`, as its rounding error in `narrow` tells."""
    if roundoff(narrow.dtype) <= roundoff(wide.dtype):
        return size
    return np.maximum(size, np.abs(narrow - wide) / roundoff(narrow.dtype))


def second_order(
    report: Report,
    problem: FlatFunction,
    claim: ClaimedGradient,
    first: Method,
    kept: Array,
    effort: Effort,
    rng: np.random.Generator,
    hvp: Callable | None,
    forced: bool,
) -> Report:
    """The report, completed: the claimed Hessian-vector products, compared in three ways at the elements `kept`."""
    here = SecondOrder(problem, claim, first, draw_cotangents(problem, effort.cotangents, rng), kept, rng)
    way = here.products(hvp, forced)
    compared = here.comparisons(way, here.dtype)
    again: list[Comparison] = []  # the same in the next wider precision, once it is asked for

    def repeat_of(which: int) -> Repeat:
        def repeat(rows: list[int]) -> tuple[Comparison, Repeat] | None:
            precision = wider(here.dtype)
            if way.name != "complex step" or precision is None or here.widest != precision:
                return None
            if not again:
                again.extend(here.comparisons(way, precision))
            return again[which].rows(rows), lambda _: None

        return repeat

    by_elements = way.name != BY_DIFFERENCES
    agreements = {i: judge(compared[i], report.asked, repeat_of(i)) for i in range(0 if by_elements else 1, 3)}
    which = min(agreements, key=lambda i: float(agreements[i].ranked.min()))
    at, agrees = int(np.argmin(agreements[which].ranked)), all(bool(a.passed.all()) for a in agreements.values())
    claimed, numeric = compared[which].claimed.flat[at], compared[which].numeric.flat[at]
    digits = float(agreements[which].digits.flat[at])
    if which == 0:
        place = problem.place_of(int(kept[at // compared[0].claimed.shape[1]]))
        worst = Worst(*place, claimed, numeric, digits, "a difference of the gradient")
    elif which == 1 and not agrees:
        worst = here.worst_element(way, at, report.asked)
    else:
        by = "a second difference of f" if which == 1 else "its symmetric twin ⟨w, Hv⟩"
        worst = Worst("a random projection, ⟨v, Hw⟩", None, None, claimed, numeric, digits, by)
    return replace(
        report,
        method=way.name,
        precision=dtype_name(complex_of(here.dtype) if way.name == "complex step" else here.widest),
        elements=compared[0].claimed.size if by_elements else 0,
        projected=0 if by_elements else len(kept),
        digits=float(min(a.digits.min() for a in agreements.values())),
        agrees=agrees,
        worst=worst,
        remarks=report.remarks + remarks_on(list(agreements.values()), here.dtype) + way.remarks,
    )
