r"""Second order: is what the claimed gradient g(x) = J(x)ᵀu has for a derivative the Hessian H of ⟨u, f⟩?

The claim is the Hessian-vector product Hw = (d/dt) g(x + tw). Where the reverse pass is analytic it comes, to the
last digits, from the complex step through it. Three things are asked of it:

    elements       Hw = D_w g                    the same derivative by differences of the claimed gradient
    projections    ⟨v, Hw⟩ = ⟨u, D_w (J v)⟩      a second derivative of f itself, in which the claim has no part
    symmetry       ⟨v, Hw⟩ = ⟨w, Hv⟩             which holds for nothing but a gradient

A claim that is not analytic (PyTorch's, JAX's) may bring its own `hvp(f, args, tangents, cotangent) → tuple like args`;
without one, the difference of its gradient is the claim, and no single elements are left to compare, only the others.
"""

from collections.abc import Callable

import numpy as np

from gradcheck.agreement import Again, Comparison, judge, remarks_on
from gradcheck.analytic import Method
from gradcheck.claim import Claim
from gradcheck.directions import Effort
from gradcheck.first_order import draw_cotangents
from gradcheck.flat import FlatFunction
from gradcheck.hessian import Products, SecondOrder
from gradcheck.precision import DType, wider
from gradcheck.report import Findings, Worst
from gradcheck.richardson import Estimate


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
