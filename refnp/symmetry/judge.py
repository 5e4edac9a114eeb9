"""One input, one element: is f(g·x) = g·f(x) wrong, or is the difference rounding error?

In exact arithmetic a true claim leaves no discrepancy d = f(g·x) − g·f(x). In precision u it leaves the rounding
errors of both sides, to first order u κ with a κ that does not depend on u. A false claim leaves the same d in every
precision. So f is evaluated in the finest precision it computes in, of roundoff u, and in the next coarser one, U:

    rounding error in u  ≈  (u/U) · |f_U − f_u|        at the same numbers, on both sides of the claim
    allowance            =  64 · max( that, u |y| )    for each number of the output, y the largest of its array that
                                                       changes with x, or itself if that is larger

64 is a safety factor: one error seen in U may be smaller than such errors usually are, and the order of a sum may
differ between precisions. Where d exceeds a quarter of its allowance, both errors are estimated again at 8
perturbations of x (evaluation.py), and the largest counts. (Where these change nothing, as with whole numbers, other
elements serve instead, and the noise of f nearby.) What is still above must be *steady*: from x to half of its
perturbations it must change by less than a quarter of itself, which a violation does and rounding error does not. Only
then does the claim fail, if d is also above 16 times the noise that f shows on rays along which zeros and equal numbers
move apart (noise.py): where these stay, an ill-conditioned f may make the same rounding errors each time.

Code may round more coarsely than its dtypes say: constants that were once float64, a cast on the way. A d that is
steady, but within the allowance that float64 would have, or float32 if f holds such numbers (constants.py), or within
64 times what such a rounding of x changes of f, is what "constants" leave, if f has not as much noise. A
difference of the order of the output is no rounding: where it is not steady, f is asked for a jump (jumps.py). A d
below 64 roundings of float32 must be steady over twice as many perturbations. And the d that is left then must stand
out by 64 against the noise of f in float32, and in half precision: what f(x) and f(g·x) show when they are followed
along lines that are long enough for such a rounding to change (noise.py). Otherwise it is ambiguous. Where nothing can
be perturbed (zeros, whole numbers), the noise that f has at other inputs serves, and without such inputs the unit
roundoff of the precision. A d of the order of the output is not held against noise that f has at no other input.

With one precision only, 16 times the noise of f along lines of 256 roundings stands for the rounding error, and 16 for
64: what is compared then are many errors of this precision itself. A number that is infinite or NaN on one side alone
in float64 is a violation of f as computed, though a finer precision reaches further. Where the user gives a bound,
nothing of this applies: |f(g·x) − g·f(x)| ≤ bound(inputs, g, dtype) for every number of the output, in the dtype of the
input.

Source: Higham (2002), chapters 1 and 3, for the first-order model of rounding error and backward stability.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from refnp.autograd import Array, ArrayLike
from refnp.symmetry.actions import Arrays, Element
from refnp.symmetry.claim import Claim, DType, Precisions, Refusal, dtype_name, roundoff
from refnp.symmetry.evaluation import BothSides, Evaluations, change
from refnp.symmetry.jumps import OF_ORDER, Jumps
from refnp.symmetry.noise import INSIDE, LINES, UNIT_ROUNDOFFS, lengths, span
from refnp.symmetry.vectors import Vector

Levels = Callable[[str], Mapping[str, float] | None]
Bound = Callable[[dict[str, Any], Element, DType], ArrayLike | Mapping[str, ArrayLike]]

SAFETY = 64  # the factor on estimated rounding errors
CLOSE = 0.25  # above this part of its allowance a discrepancy is compared with more estimates
STEADY = 0.25  # a violation changes by less than this part of itself from x to its perturbations
SINGLE = SAFETY * roundoff(np.float32)  # relative discrepancies below this are compared at all perturbations
FINE = 2.0**-24  # lines on which rounding to float64 shows
SAFETY_OF_NOISE = 16  # the factor on the noise of f in its only precision
NO_DIGITS = 2.0**-10  # a noise above this part of the output leaves nothing that can be judged
NO_NOISE = 2.0**-34  # of the output: less than float32 leaves
ENOUGH_CONSTANTS = 2  # pairs of one input: at others a discrepancy that they would leave is one, too
HALF_PRECISION = 2.0**-16  # a noise above this part of the output means that f may compute in half precision


@dataclass(frozen=True)
class Finding:
    """What one input and element came to.

    outcome      "agrees"; "violated"; "constants": steady, but no larger than the constants in f would leave;
                 "ambiguous": steady, but no larger than rounding errors of a coarser precision inside f; "jumps": f
                 is another on both sides of a rounding; or "unsteady": more than the allowance, but changing with x as
                 rounding errors do
    kind         of a violation: "value", "infinite", "nan", "shape" or "raises"
    ratio        the largest discrepancy over its allowance
    relative     the largest discrepancy over the size of its number, which is the largest of its array (vectors.py)
    resolution   the largest relative discrepancy that would have passed for rounding error
    reason       of a violation: what differs, and where; of a jump: its two sides
    inside       of an ambiguous one: the precision inside f that would leave it
    noise        of a violation: what coarser precisions inside f could have left, relative to the output
    """

    outcome: str
    kind: str = ""
    ratio: float = 0.0
    relative: float = 0.0
    resolution: float = 0.0
    reason: str = ""
    inside: str = ""
    noise: float = 0.0


def judge(
    at: Evaluations,
    g: Element,
    bound: Bound | None = None,
    levels: Levels | None = None,
    jumps: Jumps | None = None,
) -> Finding:
    """The finding for one element at one input, by the rounding errors that are estimated or by the user's bound.

    `levels` gives the noise of each array of f at other inputs, relative to it, for each of INSIDE, or None if it
    cannot be known; without it no coarser precision inside f is thought of. `jumps` looks for jumps of f, if it is
    given.
    """
    sides, finest, u = BothSides(at, g), at.finest, at.precisions.u
    try:
        left, right = sides.left(0, finest), sides.right(0, finest)
    except Refusal as refusal:
        reason = f"f takes the input, but not moved: {refusal}"
        clear = sides.differ_steadily("raises") and not sides.has_no_digit()
        outcome = "violated" if clear else "unsteady"
        return Finding(outcome, "raises", np.inf, np.inf, np.inf, reason=reason)
    if left.form != right.form:
        forms = [", ".join(f"{name} {shape}" for name, shape in side.form) for side in (left, right)]
        outcome = "violated" if sides.differ_steadily("shape") else "unsteady"
        return Finding(outcome, "shape", np.inf, np.inf, np.inf, reason=f"{forms[0]} against {forms[1]}")
    d = left.minus(right)
    allowed = rounding_allowance(sides, left, right, d) if bound is None else by_bound(sides, bound)
    with np.errstate(all="ignore"):
        ratio = float(np.max(np.where(d == 0, 0, np.abs(d) / allowed), initial=0))
    beyond = ~(np.abs(d) <= allowed)
    if bound is not None and beyond.any():
        return violation(left, right, np.where(beyond, d, 0), ratio)
    if bound is None and (overflow := overflows_in_float64(sides, d)) is not None:
        return overflow
    agrees = Finding("agrees", "", ratio, left.relative(d, right), left.relative(allowed, right, empty=0.0))
    if jumps is not None and may_jump(sides, agrees, jumps.suspected):
        unsteady = sides.change_of_discrepancy(d, (at.perturbations + 1) // 2) >= STEADY * np.abs(d)
        of_order = np.abs(d) >= OF_ORDER * right.sizes
        if not np.any(of_order & (d != 0) & ~unsteady):
            jump = jumps.near(sides, np.where(unsteady, d, 0))
            if jump is not None:
                return Finding("jumps", "", ratio, agrees.relative, reason=str(jump))
    if not beyond.any():
        return agrees
    relative = left.relative(np.where(beyond, d, 0), right)
    of_constants = roundoff(at.claim.constants)
    hidden = np.where(right.rounded, allowed * (of_constants / u), 0) if u else np.zeros_like(d)
    from_constants = Finding("constants", "", ratio, relative, left.relative(hidden, right, empty=0.0))
    if at.constants >= ENOUGH_CONSTANTS and np.all(np.abs(d) <= hidden):
        return from_constants
    coarser, level_of = (coarser_than(u), levels) if levels is not None else ([], no_level)
    for inside in coarser:
        level = left.spread(level_of(inside) or {})
        if np.any(level > NO_NOISE) and not np.any(beyond & ~(np.abs(d) <= level_allowance(left, right, level))):
            return Finding("ambiguous", "", ratio, relative, inside=inside)
    small = bool(np.any(beyond & right.rounded)) and relative < SINGLE
    changed = sides.change_of_discrepancy(d, 2 * at.perturbations if small else (at.perturbations + 1) // 2)
    steady = beyond & (sides.is_exact() | (changed < STEADY * np.abs(d)) | (np.isinf(d) & (changed == 0)))
    if not steady.any():
        resolution = left.relative(np.where(beyond, changed / STEADY, 0), right)
        return Finding("unsteady", "", ratio, relative, resolution)
    steadily = left.relative(np.where(steady, d, 0), right)
    violated = steady
    if 0 < u < of_constants:  # what constants that were once rounded to it may leave is no violation
        violated = steady & ~(np.abs(d) <= hidden)
        if violated.any():
            hidden = np.maximum(hidden, np.where(right.rounded, SAFETY * sides.change_by_roundings(of_constants), 0))
            violated = steady & ~(np.abs(d) <= hidden)
        if not violated.any():
            noise = SAFETY * np.maximum(sides.right_noise(FINE, 0), sides.left_noise(FINE))
            if np.all(np.abs(d) <= np.where(steady, noise, np.inf)):  # not constants, but arithmetic in float64
                return Finding("unsteady", "", ratio, steadily, left.relative(np.where(steady, noise, 0), right))
            at.constants += 1
            return replace(from_constants, relative=steadily)
    apart = np.zeros_like(d)
    for reach in lengths(u) if u <= roundoff(finest) else ():  # where f is said to compute in u, what is larger fails
        apart = np.maximum(apart, noise_allowance_apart(sides, d, reach))
        violated = violated & ~(np.abs(d) <= apart)
        if not violated.any():
            return Finding("unsteady", "", ratio, steadily, left.relative(np.where(steady, apart, 0), right))
    left_by_noise = np.zeros_like(d)
    for inside in coarser:
        usual = level_of(inside) if steadily >= OF_ORDER else None
        # noise of an array here alone is a choice of f on the line, and no rounding
        quiet = np.zeros(d.shape, bool) if usual is None else left.spread(usual) <= NO_NOISE
        if quiet.all():
            continue
        by_noise = noise_allowance(sides, violated & ~quiet, d, inside, level_of)
        left_by_noise = np.where(quiet, left_by_noise, np.maximum(left_by_noise, by_noise))
        violated = violated & ~(np.abs(d) <= left_by_noise)
        if not violated.any():
            return Finding("ambiguous", "", ratio, steadily, inside=inside)
    noise = left.relative(np.where(violated & np.isfinite(left_by_noise), left_by_noise, 0), right, empty=0.0)
    return replace(violation(left, right, np.where(violated, d, 0), ratio), noise=noise)


def overflows_in_float64(sides: BothSides, d: Array) -> Finding | None:
    """The violation of a number that is finite on one side alone in float64, where a finer precision is judged.

    d is the discrepancy in that. It must be so at all perturbations as well; an f that raises an error in float64 alone
    is not judged.
    """
    at, double = sides.at, np.dtype(np.float64)
    if roundoff(at.finest) >= roundoff(double):
        return None
    apart = np.isfinite(d)
    for k in range(at.perturbations + 1):
        try:
            left, right = sides.left(k, double), sides.right(k, double)
        except Refusal:
            return None
        if left.form != right.form or left.values.size != d.size:
            return None
        both = np.isfinite(left.values) & np.isfinite(right.values)
        apart = apart & ~both & np.isinf(left.minus(right))
        if not apart.any():
            return None
    found = violation(sides.left(0, double), sides.right(0, double), np.where(apart, np.inf, 0), np.inf)
    finer = dtype_name(at.finest)
    return replace(
        found, reason=f"{found.reason}; in float64 alone: an overflow, or the like, that {finer} does not have"
    )


def may_jump(sides: BothSides, found: Finding, suspected: bool) -> bool:
    """Whether both sides differ by a part of the output, or float64 from a finer precision on either of them."""
    at = sides.at
    apart = OF_ORDER <= found.relative < np.inf
    if not apart and at.coarser is not None and roundoff(at.coarser) <= roundoff(np.float64):
        apart = OF_ORDER * SAFETY * at.ratio <= found.resolution < np.inf
        if not apart and suspected:
            left = sides.left(0, at.finest)
            apart = left.relative(change(sides.left, (0, at.finest), (0, at.coarser)), left, empty=0.0) >= OF_ORDER
    return apart and not sides.is_exact()


def coarser_than(u: float) -> list[str]:
    """Those of INSIDE that are coarser than u."""
    return [inside for inside, reach in INSIDE.items() if reach > span(u)]


def no_level(inside: str) -> None:
    """The noise of an f of which nothing is known."""
    return None


def level_allowance(left: Vector, right: Vector, level: Array | float) -> Array:
    """64 times a noise relative to the output, for each number of it; 0 for whole numbers, which do not round."""
    return SAFETY * level * right.rounded * np.maximum(left.sizes, right.sizes)


def noise_allowance(sides: BothSides, violated: Array, d: Array, inside: str, levels: Levels) -> Array:
    """What a coarser precision inside f may leave of each number of the output: the least of the lines that are tried.

    It ends with the first line that shows a violated number to be more than that. inf − finite and the like can be the
    overflow of float16, if f computes in half precision elsewhere.
    """
    at, reach, level = sides.at, INSIDE[inside], levels(inside)
    left, right = sides.left(0, at.finest), sides.right(0, at.finest)
    halved = left.spread(level or {}) > HALF_PRECISION
    if np.any(violated & np.isinf(d) & halved) and reach == max(INSIDE.values()):
        return np.full_like(d, np.inf)
    if not at.perturbations_differ():
        trusted = at.claim.in_precision is not None  # f is given in several precisions, and so computes in them
        known = unit_roundoff(inside) if level is None else left.spread(level)
        return level_allowance(left, right, 0.0 if trusted else known)
    least = np.full_like(d, np.inf)
    for i in range(LINES):
        noise = SAFETY * sides.right_noise(reach, i)
        if np.any(violated & ~(np.abs(d) <= noise)):
            noise = np.maximum(noise, SAFETY * sides.left_noise(reach))
        least = np.minimum(least, noise)
        if np.any(violated & ~(np.abs(d) <= least)):
            break
    if inside == "float32" and at.claim.in_precision is None and sides.moves_whole_numbers():
        least = np.maximum(least, level_allowance(left, right, unit_roundoff(inside)))
    return least


def noise_allowance_apart(sides: BothSides, d: Array, reach: float) -> Array:
    """What rounding may leave of each number of the output where zeros and equal numbers move apart, along one ray.

    It is infinite where f has no digits there: the errors of an ill-conditioned f may be the same at all points at
    which these stay. inf − finite is no rounding.
    """
    left, right = sides.left(0, sides.at.finest), sides.right(0, sides.at.finest)
    noise = sides.noise_apart(reach)
    allowed = np.where(noise > NO_DIGITS * np.maximum(left.sizes, right.sizes), np.inf, SAFETY_OF_NOISE * noise)
    return np.where(right.rounded & np.isfinite(d) & ~right.fixed, allowed, 0)


def unit_roundoff(inside: str) -> float:
    """That of one of INSIDE, the coarsest where it names several."""
    return max(u for name, u in UNIT_ROUNDOFFS.items() if name in inside)


def rounding_allowance(sides: BothSides, left: Vector, right: Vector, d: Array) -> Array:
    """What rounding may leave of each number of the output, on both sides together.

    The estimates are of g·f(x), of f(g·x), then of both at perturbations of x; with one precision only, the noise of
    each side.
    """
    at, u = sides.at, sides.at.precisions.u
    underflow = np.finfo(at.finest).tiny
    safety = SAFETY if at.coarser is not None else SAFETY_OF_NOISE
    allowed = safety * u * np.maximum(left.sizes, right.sizes) + underflow
    allowed = np.where(right.rounded & np.isfinite(d), allowed, 0)
    close = CLOSE if at.coarser is not None else 1.0
    if at.constants >= ENOUGH_CONSTANTS:  # here what those leave is asked for, and no more
        close *= roundoff(at.claim.constants) / u
    for error in estimated_errors(sides):
        allowed = np.maximum(allowed, np.where(right.fixed, 0, safety * error))
        if np.all(np.abs(d) <= close * allowed):
            return allowed
    if np.any(np.abs(d) > allowed) and sides.is_insensitive():
        if at.coarser is not None:
            allowed = np.maximum(allowed, SAFETY * sides.rounding_error_at_other_elements() * right.rounded)
            if np.any(np.abs(d) > allowed):  # f may compute in u whatever it is given, and show no error in U
                noise = np.inf if sides.has_no_digit() else SAFETY_OF_NOISE * sides.noise_nearby()
                allowed = np.maximum(allowed, np.where(right.rounded, noise, 0))
            return allowed
        # With one precision and nothing to perturb no error can be estimated: half of the digits are asked for.
        return np.maximum(allowed, u**0.5 * right.sizes)
    return allowed


def estimated_errors(sides: BothSides) -> Iterator[Array]:
    """Rounding errors of each number of the output, estimated one way after the other, the cheapest first."""
    at = sides.at
    if at.coarser is None:
        reach = span(at.precisions.u)
        yield sides.right_noise(reach, 0)
        yield sides.left_noise(reach)
        return
    for k in range(at.perturbations + 1):
        for side in (sides.right, sides.left):
            yield at.ratio * change(side, (k, at.finest), (k, at.coarser))


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
    at = int(np.argmax(np.abs(d)))
    one_nan = np.isnan(left.values[at]) != np.isnan(right.values[at])
    kind = "nan" if one_nan else "infinite" if np.isinf(d).any() else "value"
    reason = f"{left.place(at)}: {left.values[at]:.17g} against {right.values[at]:.17g}"
    reason += ", NaN on one side only" if one_nan else ""
    return Finding("violated", kind, ratio, left.relative(d, right), 0.0, reason)


def discrepancy(claim: Claim, inputs: Arrays, g: Element, dtype: DType) -> float:
    """|f(g·x) − g·f(x)| over the size of the output, computed in one precision; infinite where f refuses."""
    try:
        at = Evaluations(claim, Precisions((dtype,), roundoff(dtype)), inputs, np.random.default_rng(0), 0)
    except Refusal:
        return np.inf
    return BothSides(at, g).discrepancy(dtype)
