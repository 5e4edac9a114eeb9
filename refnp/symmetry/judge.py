"""One input, one element: is f(g·x) = g·f(x) wrong, or is the difference rounding error?

In exact arithmetic a true claim leaves no discrepancy d = f(g·x) − g·f(x). In precision u it leaves the rounding
errors of both sides, to first order u κ with a κ that does not depend on u. A false claim leaves the same d in every
precision. So f is evaluated in the finest precision it computes in, of roundoff u, and in the next coarser one, U:

    rounding error in u  ≈  (u/U) · |f_U − f_u|        at the same numbers, on both sides of the claim
    allowance            =  64 · max( that, u |f| )    for each number of the output

64 is a safety factor: one error seen in U may be smaller than such errors usually are, and the order of a sum may
differ between precisions. Where d exceeds a quarter of its allowance, both errors are estimated again at 8
perturbations of x (evaluation.py), and the largest counts. (Where these change nothing, as with whole numbers, other
elements serve instead.) What is still above must be *steady*: from x to half of its perturbations it must change by
less than a quarter of itself, which a violation does and rounding error does not. Only then does the claim fail.

Code may round more coarsely than its dtypes say: constants that were once float64, a cast on the way. A d that is
steady, but within the allowance that float64 would have, is "ambiguous", not a violation; a d below 64 roundings of
float32 must be steady over perturbations of 16 roundings of float32 as well. If both sides have the same bits in both
precisions, and d is larger than that, nothing was rounded and d needs no further proof.

With one precision only, |f(x′) − f(x)| at perturbations x′ of x stands for the rounding error: what a backward stable f
may do. Where the user gives a bound, nothing of this applies: |f(g·x) − g·f(x)| ≤ bound(inputs, g, dtype) for every
number of the output, in the dtype of the input.

Source: Higham (2002), chapters 1 and 3, for the first-order model of rounding error and backward stability.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.autograd import Array, ArrayLike
from refnp.symmetry.actions import Arrays, Element
from refnp.symmetry.claim import Claim, DType, Refusal, cast, roundoff
from refnp.symmetry.evaluation import BothSides, Evaluations, Vector, change

Bound = Callable[[dict[str, Any], Element, DType], ArrayLike | Mapping[str, ArrayLike]]

SAFETY = 64  # the factor on estimated rounding errors
CLOSE = 0.25  # above this part of its allowance a discrepancy is compared with more estimates
STEADY = 0.25  # a violation changes by less than this part of itself from x to its perturbations
SINGLE = SAFETY * roundoff(np.float32)  # relative discrepancies below this may come from a cast to float32 inside f


@dataclass(frozen=True)
class Finding:
    """What one input and element came to.

    outcome      "agrees"; "violated"; "ambiguous": steady, but no larger than rounding errors of float64 or of a cast
                 to float32; or "unsteady": more than the allowance, but changing with x as rounding errors do
    kind         of a violation: "value", "infinite", "shape" or "raises"
    ratio        the largest discrepancy over its allowance
    relative     the largest discrepancy over the largest number of its array
    resolution   the largest relative discrepancy that would have passed for rounding error
    reason       of a violation: what differs, and where
    """

    outcome: str
    kind: str = ""
    ratio: float = 0.0
    relative: float = 0.0
    resolution: float = 0.0
    reason: str = ""


def judge(at: Evaluations, g: Element, bound: Bound | None = None) -> Finding:
    """The finding for one element at one input, by the rounding errors that are estimated or by the user's bound."""
    sides, finest, u = BothSides(at, g), at.finest, at.precisions.u
    try:
        left, right = sides.left(0, finest), sides.right(0, finest)
    except Refusal as refusal:
        reason = f"f takes the input, but not moved: {refusal}"
        return Finding("violated", "raises", np.inf, np.inf, reason=reason)
    if left.form != right.form:
        forms = [", ".join(f"{name} {shape}" for name, shape in side.form) for side in (left, right)]
        return Finding("violated", "shape", np.inf, np.inf, reason=f"{forms[0]} against {forms[1]}")
    d = left.minus(right)
    allowed = rounding_allowance(sides, left, right, d) if bound is None else by_bound(sides, bound)
    with np.errstate(all="ignore"):
        ratio = float(np.max(np.where(d == 0, 0, np.abs(d) / allowed), initial=0))
    beyond = ~(np.abs(d) <= allowed)
    if not beyond.any():
        return Finding("agrees", "", ratio, left.relative(d, right), left.relative(allowed, right, empty=0.0))
    if bound is not None:
        return violation(left, right, np.where(beyond, d, 0), ratio)

    relative = left.relative(np.where(beyond, d, 0), right)
    small = bool(np.any(beyond & right.rounded)) and relative < SINGLE
    changed = sides.change_of_discrepancy(d, 2 * at.perturbations if small else (at.perturbations + 1) // 2)
    steady = (changed < STEADY * np.abs(d)) | (np.isinf(d) & (changed == 0))
    steady = beyond & ((sides.is_exact() and not small) | steady)
    if not steady.any():
        resolution = left.relative(np.where(beyond, changed / STEADY, 0), right)
        return Finding("unsteady", "", ratio, relative, resolution)
    violated = steady
    if 0 < u < roundoff(np.float64):  # what constants that were once float64 may leave is no violation
        violated = steady & ~(np.abs(d) <= np.where(right.rounded, allowed * (roundoff(np.float64) / u), 0))
    cast_inside = small and at.perturbations_differ() and sides.is_insensitive()
    if cast_inside or not violated.any():
        return Finding("ambiguous", "", ratio, left.relative(np.where(steady, d, 0), right))
    return violation(left, right, np.where(violated, d, 0), ratio)


def rounding_allowance(sides: BothSides, left: Vector, right: Vector, d: Array) -> Array:
    """What rounding may leave of each number of the output, on both sides together.

    The estimates are of g·f(x), of f(g·x), then of both at perturbations of x; with one precision only, the change of
    each side from x to its first perturbation.
    """
    at, u = sides.at, sides.at.precisions.u
    size = np.maximum(np.abs(left.values), np.abs(right.values))
    rounds = right.rounded & np.isfinite(size)
    underflow = np.finfo(at.finest).tiny
    allowed = np.where(rounds, SAFETY * u * np.where(rounds, size, 0) + underflow, 0)
    compared = [((1, at.finest), (0, at.finest))]
    if at.coarser is not None:
        compared = [((k, at.finest), (k, at.coarser)) for k in range(at.perturbations + 1)]
    for one, other in compared:
        for side in (sides.right, sides.left):
            allowed = np.maximum(allowed, SAFETY * at.ratio * change(side, one, other))
            if np.all(np.abs(d) <= CLOSE * allowed):
                return allowed
    if np.any(np.abs(d) > allowed) and sides.is_insensitive():
        if at.coarser is not None:
            return np.maximum(allowed, SAFETY * sides.rounding_error_at_other_elements() * right.rounded)
        # With one precision and nothing to perturb no error can be estimated: half of the digits are asked for.
        finite = np.where(np.isfinite(right.values), right.values, 0)
        return np.maximum(allowed, u**0.5 * right.largest_by_array(finite, right))
    return allowed


def by_bound(sides: BothSides, bound: Bound) -> Array:
    """The bound for each number of the output; of a complex one for the real and for the imaginary part.

    It is a number, an array that broadcasts to every output, or a mapping of these by the names of the outputs.
    """
    at, g = sides.at, sides.elements[0]
    given: Any = bound(dict(at.inputs[0]), g, at.finest)
    allowed = {}
    for name, output in at.claim.action_out.act(g, at.output(0, at.finest)).items():
        each = np.asarray(given[name] if isinstance(given, Mapping) else given)
        allowed[name] = np.broadcast_to(each * (1 + 1j) if output.dtype.kind == "c" else each, output.shape)
    return Vector.of(allowed).values


def violation(left: Vector, right: Vector, d: Array, ratio: float) -> Finding:
    """The finding for values that differ by d, with the place of the largest |d| and both values there."""
    kind, reason, at = "infinite" if np.isinf(d).any() else "value", "", int(np.argmax(np.abs(d)))
    for (name, shape), part in zip(left.form, left.parts, strict=True):
        if part.start <= at < part.stop:
            per = (part.stop - part.start) // max(1, int(np.prod(shape)))  # two for a complex number
            index = list(map(int, np.unravel_index((at - part.start) // per, shape)))
            reason = f"{name}{index if shape else ''}: {left.values[at]:.17g} against {right.values[at]:.17g}"
    return Finding("violated", kind, ratio, left.relative(d, right), 0.0, reason)


def discrepancy(claim: Claim, inputs: Arrays, g: Element, dtype: DType) -> float:
    """|f(g·x) − g·f(x)| over the largest number of the output, computed in one precision; infinite where f refuses."""
    x = cast(inputs, dtype)
    try:
        y = claim.at(x, dtype)
        left, right = Vector.of(claim.left(g, x, y, dtype)), Vector.of(claim.right(g, y))
    except Refusal:
        return np.inf
    return left.relative(left.minus(right), right) if left.form == right.form else np.inf
