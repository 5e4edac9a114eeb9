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

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from gradcheck.agreement import Beside, Claims, Comparison, Repeat, judge, remarks_on
from gradcheck.first_order import Direction, along, in_two_parts, noise_beside_f, rounded_once_more
from gradcheck.flat import ClaimedGradient
from gradcheck.noise import Noise, noise_of
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
    compared. `way` is the claimed way to Hw: the user's `hvp`, else the complex step through the reverse pass, else
    differences. Where `forced`, the complex step is taken even if it is not trusted: the comparison then shows where it
    fails.
    """

    def __init__(
        self,
        claim: ClaimedGradient,
        first: Method,
        cotangents: Array,
        kept: Array,
        rng: np.random.Generator,
        hvp: Callable | None,
        own: Callable | None,
        forced: bool,
    ):
        self.claim, self.first, self.kept = claim, first, kept
        self.problem, self.x = claim.problem, claim.problem.x
        self.dtype = working(self.x.dtype)
        self.pairs = [(u, along(self.problem, kept, rng).vector(self.x.size)) for u in cotangents]
        self.v = along(self.problem, kept, rng)
        self.gradients = np.stack([claim(u, self.x.astype(self.dtype)) for u in cotangents])
        self.size_of_f = np.abs(cotangents) @ self.problem.within  # (K,)
        self.noise = noise_beside_f(self.problem, first, cotangents)
        self.coarse = first.name != "complex step" and self.problem.noise(first.precision).is_coarse(np.float64)
        self.expected = np.abs(self.gradients) + self.size_of_f[:, None] / self.problem.size  # (K, n)
        wide = wider(self.dtype)
        self.widest = wide if wide is not None and claim.computes_in(wide, cotangents[0]) else self.dtype
        self.differences = [self.by_differences(u, w, self.widest) for u, w in self.pairs]
        lacking = ""
        if hvp is None and own is not None and not forced:
            try:
                self.by_hvp(own, *self.pairs[0])
                hvp = own
            except Exception as refusal:  # as the library says that it has none
                said = (str(refusal).splitlines() or [type(refusal).__name__])[0]
                lacking = f"the library's own second derivative was not asked: {said}"
        if hvp is not None:
            self.way = HessianProducts("hvp", lambda u, w, dtype: self.by_hvp(hvp, u, w))
        elif (reason := self.why_not_analytic()) is None or forced:
            self.way = HessianProducts("complex step", self.by_complex_step)
        else:
            remark = f"no single elements were compared at second order, for {reason}; an hvp would allow it"
            self.way = HessianProducts(BY_DIFFERENCES, self.by_differences, (remark,))
        if lacking:
            self.way = replace(self.way, remarks=(lacking, *self.way.remarks))

    def beside(self) -> list["SecondOrder"]:
        """The same at points a rounding away."""
        return [self.at(x, self.pairs) for x in rounded_once_more(self.x, self.problem.size)]

    def in_two_parts(self) -> list["SecondOrder"]:
        """The same for cotangents of which these are the sums."""
        parts = zip(*(in_two_parts(u) for u, _ in self.pairs), strict=True)
        return [self.at(self.x, [(u, w) for u, (_, w) in zip(part, self.pairs, strict=True)]) for part in parts]

    def at(self, x: Array, pairs: list[tuple[Array, Array]]) -> "SecondOrder":
        """The same at another point, or for other cotangents."""
        other = copy(self)
        other.x, other.pairs = x, pairs
        ways = {"complex step": other.by_complex_step, BY_DIFFERENCES: other.by_differences}
        other.way = replace(self.way, of=ways.get(self.way.name, self.way.of))
        other.differences = [other.by_differences(u, w, self.widest) for u, w in pairs]
        return other

    def by_hvp(self, hvp: Callable, u: Array, w: Array) -> Estimate:
        """Hw as the user's `hvp` gives it, at the arguments as they are."""
        args, value = self.problem.args(), self.problem.f(*self.problem.args())
        tangents, cotangent = self.problem.tangents(w), self.claim.cotangent(value, u)
        product = self.claim.joined(hvp(self.problem.f, args, tangents, cotangent), "hvp")
        return Estimate(product, np.zeros_like(product))

    def by_complex_step(self, u: Array, w: Array, dtype: DType) -> Estimate:
        """Hw by the complex step through the claimed reverse pass, in the complex counterpart of `dtype`."""
        product = complex_step(lambda x: self.claim(u, x), self.x.astype(dtype), w)
        return Estimate(product, np.zeros_like(product))

    def by_differences(self, u: Array, w: Array, dtype: DType) -> Estimate:
        """Hw by Richardson differences of the claimed gradient, in which terms as large as those in f may cancel."""
        size = np.abs(u) @ self.problem.within / self.problem.size
        within = _within(size, self.claim(u, self.x.astype(self.dtype)), self.claim(u, self.x.astype(dtype)))
        noise = Noise(roundoff(dtype), roundoff(dtype) * within)
        if self.coarse:
            noise = noise_of(lambda x: self.claim(u, x), self.x.astype(dtype), w.astype(dtype))
        return richardson(lambda x: self.claim(u, x), self.x.astype(dtype), w.astype(dtype), noise=noise)

    def why_not_analytic(self) -> str | None:
        """None where the complex step through the claimed reverse pass can be trusted, else why it cannot."""
        (u, w), differences = self.pairs[0], self.differences[0]
        try:
            product = self.by_complex_step(u, w, self.widest).value
        except Exception as refusal:  # the claim may be any code, and so raise anything
            return f"the claimed reverse pass does not take complex numbers ({type(refusal).__name__})"
        allowed = 100 * differences.error + 1e-6 * np.abs(differences.value) + 1e-9 * self.expected[0]
        if not np.all((np.abs(product - differences.value) <= allowed)[self.kept]):
            return "the claimed reverse pass is not analytic, as where it uses abs, conj or .real"
        return None

    def second_derivative(self, v: Array, w: Array) -> Estimate:
        """D_w (J v) (m,) from f alone: Richardson differences along w of its numerical first derivative along v."""
        precision, wide = self.first.precision, wider(self.first.precision)
        if self.first.name == "complex step" and wide is not None and self.problem.computes_in(wide):
            precision = wide  # where the rounding errors of differences are smaller
        first = replace(self.first, precision=precision)
        slopes, errors = zip(*(method(self.problem, self.x, v) for method in (self.first, first)), strict=True)
        slope = lambda x: first(self.problem, x, v).value
        within = _within(self.problem.within, *slopes)
        noise = Noise(roundoff(precision), roundoff(precision) * within)
        if self.coarse:
            noise = Noise(roundoff(precision), np.maximum(noise.absolute, errors[1]))
        return richardson(slope, self.x.astype(precision), w.astype(precision), noise=noise)

    def comparisons(self, dtype: DType) -> dict[str, Comparison]:
        """Hw as claimed, in this precision, in all the ways that the claim allows; a column for each pair.

        elements       against differences of the claimed gradient, a row for each kept element. The terms of
                       (Hw)ⱼ = Σₖ Hⱼₖwₖ are not known, but the largest (Hw)ⱼ over the pairs is about as large as they
                       are, and an error proportional to the row shows in full in the pair where it is attained.
        projections    one row, see `projection`
        symmetry       ⟨v, Hw⟩ against ⟨w, Hv⟩, both as claimed: one row
        """
        v, compared = self.v.vector(self.x.size), {}
        products = [self.way.of(u, w, dtype) for u, w in self.pairs]
        if self.way.name != BY_DIFFERENCES:
            claimed = np.stack([product.value for product in products], axis=1)  # (n, K)
            numeric = np.stack([difference.value for difference in self.differences], axis=1)
            error = np.stack([difference.error for difference in self.differences], axis=1)
            terms = np.broadcast_to(np.abs(numeric).max(axis=1, keepdims=True), numeric.shape)
            columns = (claimed, numeric, terms, self.expected.T, error)
            kept = [column[self.kept] for column in columns]
            compared["elements"] = Comparison(dtype, *kept, self.noise)  # type: ignore[call-arg]
        compared["projections"] = self.row(
            dtype, [self.projection(k, product, v) for k, product in enumerate(products)]
        )
        both = []
        for (u, w), product, gradient, size in zip(self.pairs, products, self.gradients, self.size_of_f, strict=True):
            expected = (np.abs(v) + np.abs(w)) @ np.abs(gradient) + size
            *numbers, noise = _contracted(v, product, w, self.way.of(u, v, dtype), expected)
            both.append((*numbers, noise + 4 * roundoff(self.widest) * expected))
        compared["symmetry"] = self.row(dtype, both)
        return compared

    def projection(self, k: int, product: Estimate, v: Array) -> tuple[float, ...]:
        """⟨v, Hw⟩ as claimed, with `product` for Hw, against ⟨u, D_w (J v)⟩ from f alone, for pair k."""
        u, w = self.pairs[k]
        expected = np.abs(v) @ np.abs(self.gradients[k]) + self.size_of_f[k]
        return _contracted(v, product, u, self.second_derivative(v, w), expected)

    def row(self, dtype: DType, columns: list[tuple[float, ...]]) -> Comparison:
        """The comparison of one row, a column for each pair."""
        return replace(_row(dtype, columns), noise=self.noise)

    def worst_element(self, k: int, asked: float) -> Worst:
        """The one element whose part in a failing projection of pair k disagrees, by halving."""
        product = self.way.of(*self.pairs[k], self.dtype)

        def along_one(direction: Direction) -> Comparison:
            return _row(self.dtype, [self.projection(k, product, direction.vector(self.x.size))])

        direction = self.v
        while len(direction.support) > 1:
            first, second = direction.halves()
            direction = first if along_one(first).digits[0, 0] < asked else second
        part, scale = along_one(direction), direction.weights[0]
        place = self.problem.place_of(int(direction.support[0]))
        claimed, numeric = part.claimed[0, 0] / scale, part.numeric[0, 0] / scale
        return Worst(*place, claimed, numeric, float(part.digits[0, 0]), "a second difference of f")


def _row(dtype: DType, columns: list[tuple[float, ...]]) -> Comparison:
    """The comparison of one row, from the numbers of each column."""
    return Comparison(dtype, *(np.array([numbers]) for numbers in zip(*columns, strict=True)))


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


def second_order(report: Report, here: SecondOrder) -> Report:
    """The report, completed: the claimed Hessian-vector products, compared in three ways."""
    way, compared = here.way, here.comparisons(here.dtype)
    in_wider_precision = cache(lambda: here.comparisons(here.widest))  # computed where it is asked for, once

    def repeat(name: str, rows: list[int]) -> tuple[Comparison, Repeat, Beside] | None:
        if way.name != "complex step" or here.widest != wider(here.dtype):
            return None
        return in_wider_precision()[name].rows(rows), lambda _: None, lambda some: claims(name, rows, some)

    beside = cache(lambda dtype: [at.comparisons(dtype) for at in here.beside()])
    parts = cache(lambda dtype: [part.comparisons(dtype) for part in here.in_two_parts()])

    def claims(name: str, rows: list[int], some: list[int]) -> Claims:
        def at(first: Comparison, dtype: DType) -> Array:
            claimed = [each[name].claimed for each in (*beside(dtype), *parts(dtype))]
            points = [first.claimed, *claimed[:-2], claimed[-2] + claimed[-1]]
            return np.stack(points).astype(here.widest)[:, rows][:, some]

        return at(compared[name], here.dtype), at(in_wider_precision()[name], here.widest)

    def moved(name: str, rows: list[int]) -> Array:
        others = (other[name].numeric for other in beside(here.dtype))
        return np.max([np.abs(other - compared[name].numeric) for other in others], axis=0)[rows]

    agreements = {
        name: judge(each, report.asked, partial(repeat, name), moved=partial(moved, name))
        for name, each in compared.items()
    }
    least = min(agreements, key=lambda name: float(agreements[name].ranked.min()))
    at, agrees = int(np.argmin(agreements[least].ranked)), not any(bool(a.failed.any()) for a in agreements.values())
    judged = any(bool((~a.unknown).any()) for a in agreements.values())
    claimed, numeric = compared[least].claimed.flat[at], compared[least].numeric.flat[at]
    digits = float(agreements[least].digits.flat[at])
    reason = agreements[least].reason(*map(int, np.unravel_index(at, agreements[least].digits.shape)))
    if least == "elements":
        place = here.problem.place_of(int(here.kept[at // len(here.pairs)]))
        worst = Worst(*place, claimed, numeric, digits, "a difference of the gradient", reason)
    elif least == "projections" and not agrees:
        worst = here.worst_element(at, report.asked)
    else:
        by = "a second difference of f" if least == "projections" else "its symmetric twin ⟨w, Hv⟩"
        worst = Worst("a random projection, ⟨v, Hw⟩", None, None, claimed, numeric, digits, by, reason)
    by_elements = "elements" in compared
    return replace(
        report,
        method=way.name,
        precision=dtype_name(complex_of(here.dtype) if way.name == "complex step" else here.widest),
        elements=compared["elements"].claimed.size if by_elements else 0,
        projected=0 if by_elements else len(here.kept),
        digits=min(a.least for a in agreements.values()) if judged else 0.0,
        agrees=agrees and judged,
        disagrees=not agrees,
        worst=worst,
        remarks=report.remarks + remarks_on(list(agreements.values()), here.dtype) + way.remarks,
    )
