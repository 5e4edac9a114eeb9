r"""Numerical derivatives along a direction v: the complex step, three kinds of differences, and which of them to take.

    complex step                Im f(x + ihv) / h                                     exact to rounding, analytic code
    central difference          (f(x + hv) − f(x − hv)) / 2h                          extrapolated: `richardson`
    five-point difference       [8 (f(x + hv) − f(x − hv)) − (f(x + 2hv) − f(x − 2hv))] / 12h         `longdouble`
    one-sided difference        (f(x ± hv) − f(x)) / ±h                               extrapolated: `one_sided`, kinks

A small step h cancels digits (a rounding error u|f|/h), a large one truncates the Taylor series; the complex step alone
subtracts nothing. Differences come with an estimate of their error. Directions should be as long as the scale on which
f changes.

Sources: Lyness & Moler (1967), Squire & Trapp (1998), Martins, Sturdza & Alonso (2003) for the complex step;
Richardson (1911), Ridders (1982) for extrapolation; Fornberg (1988), table 1, for the five-point weights;
Higham (2002), §1.14, for the rounding error of a difference.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gradcheck.flat import FlatFunction
from gradcheck.noise import Noise, noise_of
from gradcheck.precision import Array, DType, complex_of, dtype_name, roundoff, wider, working

Function = Callable[[Array], Array]
STEP = 2.0**-332  # 1.1e-100, and a power of two: multiplying and dividing by it rounds nothing
FIRST_STEP, FIRST_STEP_IF_COARSE = 0.125, 2.0  # as parts of v; the longer a step, the less noise matters
CLOSER = (2.0**-12, 2.0**-20, 2.0**-28, 2.0**-36)  # steps beside those of a table, where f has few digits
FAR_SMALLER = 2.0**-200  # than the size of its array is an element that the complex step must be small beside
SETTLED = 1e-6  # of a slope: what changes less, from one distance to the next, or in a table, has its limit
STRAY = 1000  # times as far as at the steps beside it: the differences at halved steps were alike by chance
NOT_RESOLVED = "differences do not resolve the derivative of f, and so cannot confirm it"
IS_NOT_DERIVATIVE = "the imaginary part of f at x + ihv is not its derivative: f uses abs, conj, .real or the like"
METHODS = ("auto", "complex_step", "richardson", "longdouble")


@np.errstate(under="ignore")
def complex_step(f: Function, x: Array, v: Array, *, h: float = STEP) -> Array:
    """Directional derivative f′(x)v = Im f(x + ihv)/h of a function of one array.

    For f analytic at x, f(x + ihv) = f(x) + ih f′(x)v − h² f″(x)[v, v]/2 − …, so the truncation error is O(h²). Nothing
    is subtracted, so h may be so small that this is far below one rounding: 1e-200 for h = 1e-100. What is left is the
    rounding error of f itself.

    Shapes: x and v (...), f: (...) → (m...) → derivative (m...). Complex128 is the least it computes in, since
    complex64 cannot hold 1e-100; a longdouble x is differentiated in clongdouble.

    It holds for analytic code alone: `abs`, `conj`, `.real`, `np.var` of the complex argument are not analytic, and a
    function that uses them gives a wrong imaginary part without an error. `compare` tests for that before it uses the
    complex step. A real result of f counts as a derivative of 0. What f raises on complex input passes through.
    """
    dtype = working(np.asarray(x).dtype)
    x, v = np.asarray(x, dtype), np.asarray(v, dtype)
    return np.asarray(f(x + 1j * h * v)).imag / h


class Estimate(NamedTuple):
    """A numerical derivative and how far it may be from the true one, element by element."""

    value: Array
    error: Array

    @property
    def relative_error(self) -> Array:
        """error / |value|, and 1 where that is above 1e-3.

        Where f no longer changes, a difference is small and so is its error; only relative to its value does it show
        that it has no correct digit. Where every value is such, all have relative error 1, and the smallest error wins.
        """
        with np.errstate(all="ignore"):
            relative = np.where(self.error == 0, 0.0, self.error / np.abs(self.value))
        return np.where(relative <= 1e-3, relative, 1.0)

    def or_better(self, other: "Estimate") -> "Estimate":
        """Element by element, the estimate of smaller relative error, or of smaller error where these are equal."""
        mine, others = self.relative_error, other.relative_error
        return self._replaced(other, (others < mine) | ((others == mine) & (other.error < self.error)))

    def or_closer(self, closer: "Estimate") -> "Estimate":
        """The better of two estimates; where they contradict each other, that from smaller steps, if it has digits.

        Steps that are too large are wrong by far more than their error, because they miss what f does in between. If
        smaller ones leave one digit or two, these show so much: by how much the larger ones may be wrong.
        """
        apart = np.abs(self.value - closer.value)
        contradict, better = apart > 10 * (self.error + closer.error), self.or_better(closer)
        shown = contradict & (closer.error <= 0.1 * np.abs(closer.value))
        widened = Estimate(better.value, np.where(shown, np.maximum(better.error, apart), better.error))
        return widened._replaced(closer, contradict & (closer.relative_error < 1))

    def _replaced(self, other: "Estimate", where: Array) -> "Estimate":
        return Estimate(np.where(where, other.value, self.value), np.where(where, other.error, self.error))


@np.errstate(under="ignore")
def richardson(
    f: Function,
    x: Array,
    v: Array,
    *,
    step: float = FIRST_STEP,
    levels: int = 7,
    rounds: int = 5,
    noise: Noise | None = None,
) -> Estimate:
    """Directional derivative f′(x)v of a function of one array, by central differences extrapolated to step 0.

    A central difference errs by even powers of its step only, and each column of the table removes the next of them:

        D(h) = (f(x + hv) − f(x − hv)) / 2h = f′(x)v + c₂h² + c₄h⁴ + …
        Tₖ₀ = D(h/2ᵏ)        Tₖⱼ = Tₖ,ⱼ₋₁ + (Tₖ,ⱼ₋₁ − Tₖ₋₁,ⱼ₋₁) / (4ʲ − 1)

    The answer is the entry that differs least from the two it was made of, element by element of f; that difference,
    plus the rounding error of f at that step, estimates the error (Ridders' rule). It is no evidence alone: where f is
    constant to both sides of a peak at x, or bends between x − hv and x + hv, all differences may be alike. There
    (f(x + hv) + f(x − hv))/2, extrapolated in the same way, is not f(x); by how much, over h, is part of the error.

    Seven levels reach 1e-13 in float64 and 1e-16 in an x87 longdouble where f is smooth on the scale of the first step.
    Where it is not, because f bends on a smaller scale or leaves its domain, another table follows with smaller steps.

    Shapes: x and v (...), f: (...) → (m...) → Estimate(value (m...), error (m...)), all in the dtype of x.

    step      the first one, to x ± v/8
    levels    of the table, each with half the step; a table costs 2·levels evaluations
    rounds    how many tables at most; most functions need one
    noise     how far rounding moves the values of f; by default they tell it themselves (`gradcheck.noise`)

    An error of inf: no entry was finite.
    """
    start = np.asarray(f(x))
    u = max(roundoff(np.asarray(x).dtype), roundoff(start.dtype))
    start = start.astype(np.result_type(start.dtype, np.asarray(x).dtype))
    enough = min(1e6 * u, u**0.625)  # 1e-10 in float64, 3e-5 in float32
    relative, absolute = noise_of(f, x, v) if noise is None else noise
    at = lambda h: np.asarray(f(x + h * v), start.dtype)
    best = Estimate(np.full(start.shape, np.nan, start.dtype), np.full(start.shape, np.inf, start.dtype))
    slope = lambda plus, minus, h: (plus - minus) / (2 * h)
    for _ in range(rounds):
        rows: list[list] = []
        means: list[list] = []
        of_rows: list = []
        missed: list = []
        for _ in range(levels):
            plus, minus = at(step), at(-step)
            add_row(rows, slope(plus, minus, step), base=4)
            add_row(means, (plus + minus) / 2, base=4)
            of_rows.append((relative * (np.abs(plus) + np.abs(minus)) + 2 * absolute) / step)
            missed.append(np.abs(np.array(means[-1]) - start) / step)
            step = step / 2
        found = best_entry(rows, of_rows, missed)
        apart = lambda slope, value=found.value: np.abs(slope - value)
        between = apart(slope(at(math.e * step), at(-math.e * step), math.e * step))
        usual = found.error + of_rows[-1] + np.minimum(*(apart(row[0]) for row in rows[-2:]))
        best = best.or_closer(Estimate(found.value, np.where(between > STRAY * usual, between, found.error)))
        # Smaller steps help only while the table is limited by truncation and not by rounding.
        if np.all(best.error <= np.maximum(enough * np.abs(best.value), 16 * of_rows[-1])):
            break
    return best


def add_row(rows: list[list], first: Array, base: int) -> None:
    """Add a row to a Richardson table, from its first entry and the row above; `base` is 4 for a central difference
    (only even powers of h to remove), 2 for a one-sided one."""
    row = [first]
    for j, above in enumerate(rows[-1] if rows else [], start=1):
        row.append(row[-1] + (row[-1] - above) / (base**j - 1))
    rows.append(row)


def best_entry(rows: list[list], noise: list, missed: list | None = None) -> Estimate:
    """Ridders' choice from a table: the entry that differs least from the two it was made of, given rounding errors.

    `missed` has a row for each row of the table, and for each of its entries by how much it is wrong at least.
    The least of many differences may be small by chance. So the best entries of three rows, whose rounding errors are
    partly independent, are compared: their distances are part of the error.
    """
    of_rows = []
    for k in range(1, len(rows)):
        row, above = np.array(rows[k]), np.array(rows[k - 1])  # (k + 1, m...), (k, m...)
        moved = np.maximum(np.abs(row[1:] - row[:-1]), np.abs(row[1:] - above)) + noise[k]
        moved = moved if missed is None else np.maximum(moved, missed[k][1:])
        entries = Estimate(row, np.concatenate([np.full_like(moved[:1], np.inf), moved]))
        least = np.lexsort((entries.error, entries.relative_error), axis=0)[:1]
        of_rows.append(Estimate(*(np.take_along_axis(part, least, axis=0)[0] for part in entries)))
    value, error, relative = (np.stack(part) for part in zip(*((*e, e.relative_error) for e in of_rows), strict=True))
    order = np.lexsort((error, relative), axis=0)[:3]  # (3, m...)
    value, error = np.take_along_axis(value, order, axis=0), np.take_along_axis(error, order, axis=0)
    with np.errstate(invalid="ignore"):
        apart = np.abs(value - value[0])
    return Estimate(value[0], np.fmax(error[0], np.where(np.isfinite(apart), apart, 0.0).max(axis=0)))


@np.errstate(under="ignore")
def longdouble(f: Function, x: Array, v: Array, *, step: float = 2.0**-12) -> Estimate:
    """Directional derivative f′(x)v of a function of one array, by five-point differences in longdouble.

        D(h) = [8 (f(x + hv) − f(x − hv)) − (f(x + 2hv) − f(x − 2hv))] / 12h = f′(x)v − h⁴ f⁽⁵⁾/30 + …

    The truncation error h⁴/30 and the rounding error 3u|f|/2h are equal near h = u^(1/5). With u = 5e-20 of an x87
    longdouble and h = 2⁻¹² both are about 3e-16, one or two roundings of float64; float64 itself would give 1e-12.
    (D(2h) − D(h))/15 estimates the truncation error of D(h). It shares nothing with the complex step.

    Shapes: x and v (...), f: (...) → (m...) → Estimate(value (m...), error (m...)), seven evaluations; `step` is h.
    Raises ValueError where longdouble is no wider than float64, or where f answers in a narrower precision.
    """
    wide = np.dtype(np.longdouble)
    if wider(np.float64) is None:
        raise ValueError("longdouble: np.longdouble is float64 on this platform; use richardson, whose error it tells")
    x, v = np.asarray(x, wide), np.asarray(v, wide)

    def rise(h: float) -> Array:
        plus, minus = np.asarray(f(x + h * v)), np.asarray(f(x - h * v))
        if plus.dtype != wide:
            raise ValueError(f"longdouble: f answers in {plus.dtype} when it is given longdouble; use richardson")
        return plus - minus

    near, twice, four_times = rise(step), rise(2 * step), rise(4 * step)
    fine = (8 * near - twice) / (12 * step)
    coarse = (8 * twice - four_times) / (24 * step)
    noise = roundoff(wide) * np.abs(np.asarray(f(x))) * 1.5 / step
    return Estimate(fine, np.abs(coarse - fine) / 15 + noise)


@np.errstate(under="ignore")
def one_sided(
    f: Function, x: Array, v: Array, *, step: float = 2.0**-8, levels: int = 5, noise: Noise | None = None
) -> tuple[Estimate, Estimate]:
    """The slopes of f along v to the left and to the right of x, each with its error; 2·levels + 1 evaluations.

        f′₋(x)v = lim (f(x) − f(x − hv))/h        f′₊(x)v = lim (f(x + hv) − f(x))/h        (h ↓ 0)

    Each has a Richardson table of its own, of base 2, because one-sided differences err by all powers of h. Where f
    jumps, or its slopes grow for ever, the value is ±inf; where it has no finite values on one side, nan.

    Shapes: x and v (...), f: (...) → (m...) → two Estimates of (m...), in the dtype of x. `step` is the first one,
    `levels` how often it is halved, `noise` how far rounding moves f; by default a rounding of the dtype it returns.
    """
    here = np.asarray(f(x))
    u = max(roundoff(np.asarray(x).dtype), roundoff(here.dtype))
    here = here.astype(np.result_type(here.dtype, np.asarray(x).dtype))
    allowed = (Noise(u, 0.0) if noise is None else noise).at(here)
    tables: tuple[list, list] = [], []
    of_rows, steps = [], [step / 2**k for k in range(levels)]
    for h in steps:
        for rows, sign in zip(tables, (-1, 1), strict=True):
            slope = (np.asarray(f(x + sign * h * v), here.dtype) - here) / (sign * h)
            add_row(rows, slope, base=2)
        of_rows.append(8 * allowed / h)
    estimates = []
    for rows in tables:
        rises = np.array([np.abs(row[0]) * h for row, h in zip(rows, steps, strict=True)])
        jumps = (rises[-1] > 0.5 * rises.max(axis=0)) & (rises[-1] > 1e4 * allowed)
        chosen = [0, levels // 2, levels - 1]
        endless, _ = limit([rows[k][0] for k in chosen], [steps[k] for k in chosen], of_rows[-1])
        best = best_entry(rows, of_rows)
        value = np.where(jumps | endless, np.copysign(np.inf, rows[-1][0]), best.value)
        estimates.append(Estimate(value, best.error))
    return estimates[0], estimates[1]


def limit(slopes: Sequence[Array], distances: Sequence[float], rounding: Array | float) -> tuple[Array, Array]:
    """Where slopes (m,) at three distances, the nearest last, grow without a limit, and where it is not reached.

    The slopes of a smooth function change by as much less as the distance does, those of log x alike in each halving.
    """
    first, middle, last = slopes
    before, after = np.abs(middle - first), np.abs(last - middle)
    alike = before * np.log(distances[1] / distances[2]) / np.log(distances[0] / distances[1])
    moves = after > np.maximum(rounding, SETTLED * np.abs(last))
    grows = (np.abs(last) > np.abs(middle)) & (np.abs(middle) > 1.01 * np.abs(first))
    endless = moves & grows & (after > 0.95 * alike)
    return endless, moves & ~endless & (after > 0.1 * alike)


@dataclass(frozen=True)
class Method:
    """A way to take derivatives of F at x, in `precision`; `name` as reports print it, `remark` why it was chosen."""

    name: str
    precision: DType
    remark: str | None = None

    def __call__(self, f: FlatFunction, x: Array, v: Array) -> Estimate:
        x, v = x.astype(self.precision), v.astype(self.precision)
        if self.name == "complex step":
            moved = np.flatnonzero(v)
            if len(moved) == 1 and (own := f.own[moved[0]]) < f.size[moved[0]] * FAR_SMALLER:
                h = 2.0**-60 if own > 1e-270 else 2.0**-26  # the usual step is not small beside such an element
                value = complex_step(f, x, np.sign(v) * own, h=h) / own * np.abs(v).max()
            else:
                value = complex_step(f, x, v)
            return Estimate(value, np.zeros_like(value))
        if self.name == "longdouble differences":
            return longdouble(f, x, v)
        return self.by_differences(f, x, v)

    def by_differences(self, f: FlatFunction, x: Array, v: Array) -> Estimate:
        """Richardson differences with the noise that f has; of an element that is far smaller than its array, also with
        steps of its own size, because a step as long as the others may leave the domain of f, or cross a kink."""
        noise = f.noise(self.precision)
        coarse = noise.is_coarse(np.float64)
        found = richardson(f, x, v, step=FIRST_STEP_IF_COARSE if coarse else FIRST_STEP, noise=noise)
        at = lambda h: f(x + h * v).astype(x.dtype)
        for step in CLOSER if coarse else ():  # long steps miss what f does nearby, as beside a singular matrix
            near, nearer = ((at(h) - at(-h)) / (2 * h) for h in (step, step / 2))
            found = found.or_closer(Estimate(nearer, np.abs(nearer - near) + 8 * noise.at(f.y) / step))
        moved = np.flatnonzero(v)
        if len(moved) != 1 or f.own[moved[0]] == f.size[moved[0]]:
            return found
        smaller = float(f.own[moved[0]] / f.size[moved[0]])
        if not smaller:
            return found
        closer = richardson(f, x, v * smaller, noise=noise)
        return found.or_closer(Estimate(closer.value / smaller, closer.error / smaller))

    @property
    def arithmetic(self) -> DType:
        """The dtype that f computes in under this method."""
        return complex_of(self.precision) if self.name == "complex step" else self.precision


def differences_precision(problem: FlatFunction) -> DType:
    """The widest real precision that f computes in: longdouble if it does and that is wider, else at least float64."""
    at_least = working(problem.x.dtype)
    wide = wider(at_least)
    return wide if wide is not None and problem.computes_in(wide) else at_least


def choose(problem: FlatFunction, method: str, precision: DType, smooth: Sequence[Array], kinked: Array) -> Method:
    """The numerical derivative to judge by: complex step where f is analytic, else differences in `precision`.

    `smooth` are directions through no kink, `kinked` one through all of them, 0 if there is none.
    Where differences do not tell whether f is analytic, it is if the complex step is asked for.
    Raises ValueError if `method` is none of METHODS, or asks for what f or this machine cannot do.
    """
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; it must be one of {', '.join(map(repr, METHODS))}")
    if method == "longdouble":
        longdouble(problem, problem.x, 0 * kinked)  # raises, with the reason, where it cannot be had
        return Method("longdouble differences", np.dtype(np.longdouble))
    if method == "richardson":
        return Method("Richardson differences", precision)
    reason = next((why for v in smooth if (why := why_not_analytic(problem, v, precision)) is not None), None)
    if reason is None and kinked.any():
        reason = why_not_analytic_beside(problem, kinked, precision)
    if reason is None or (reason == NOT_RESOLVED and method == "complex_step"):
        return Method("complex step", working(problem.x.dtype))
    return not_the_complex_step(method, precision, reason)


def not_the_complex_step(method: str, precision: DType, reason: str) -> Method:
    """Differences, for a reason that is said; ValueError if `method` asks for the complex step."""
    if method == "complex_step":
        raise ValueError(f"method is 'complex_step' but {reason}; pass method='auto' to fall back on differences")
    return Method("Richardson differences", precision, f"no complex step: {reason}")


def why_not_analytic_beside(problem: FlatFunction, v: Array, precision: DType) -> str | None:
    """`why_not_analytic` along v at points on both sides of a kink, if f has values there.

    At the kink itself an f that is not analytic may seem to be so: of |x| both derivatives are 0 at x = 0.
    """
    x = problem.x.astype(working(problem.x.dtype))
    beside = [y for y in (x + v / 2, x - v / 2) if np.isfinite(problem(y)).all()]
    return next((why for y in beside if (why := why_not_analytic(problem, v / 16, precision, y)) is not None), None)


def why_not_analytic(problem: FlatFunction, v: Array, precision: DType, at: Array | None = None) -> str | None:
    """None where the complex step of F along v can be trusted, else the reason why not, as an end of a sentence.

    It is trusted where f takes complex arguments without a warning that it discards something, the real part of
    f(x + ihv) is f(x), and the imaginary part is what central differences give. `at` is another x than that of the
    problem.
    """
    given, value = (problem.x, problem.y) if at is None else (at, problem(at))
    x = given.astype(working(problem.x.dtype))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            y = problem(x + 1j * STEP * v)
    except Exception as refusal:  # f may be any code, and so raise anything
        said = (str(refusal).splitlines() or [""])[0]
        return f"f does not take complex numbers there ({type(refusal).__name__}: {said})"
    if roundoff(y.dtype) > roundoff(x.dtype):
        return f"f computes in {dtype_name(y.dtype)}, which cannot hold a step of 1e-100"
    half_the_digits = np.sqrt(roundoff(x.dtype)) * problem.within
    if not np.all(np.abs(y.real - value) <= np.maximum(problem.same(y, value), half_the_digits)):
        return "the real part of f at x + ihv is not f at x"
    is_derivative = imaginary_part_is_derivative(problem, v, precision, given, value)
    if is_derivative is None:
        return NOT_RESOLVED
    return None if is_derivative else IS_NOT_DERIVATIVE


def imaginary_part_is_derivative(
    problem: FlatFunction, v: Array, precision: DType, at: Array, value: Array
) -> bool | None:
    """Whether Im f(x + ihv)/h is what central differences give within their own error; None where they do not tell.

    `at` is x, and `value` f(x).

    They tell where that error is small beside the derivative, or beside f, with steps as long as the array's elements
    are or, where these cross a kink, leave the domain of f or are longer than what it does, as the elements themselves.
    """
    x = at.astype(precision if problem.computes_in(complex_of(precision)) else working(problem.x.dtype))
    within = np.maximum(problem.within, np.abs(value))
    rounding = Noise(roundoff(precision), roundoff(precision) * within)
    own = v * (problem.own / problem.size)
    for way in (v, own) if np.any(own != v) else (v,):
        step = complex_step(problem, x, way)
        for measured in (False, True):  # f may have more noise than rounding makes, which only then matters
            noise = problem.noise(precision) if measured else rounding
            second = richardson(problem, at.astype(precision), way.astype(precision), noise=noise, rounds=12)
            size, usual = np.abs(second.value), np.mean(np.abs(second.value))
            error = 100 * second.error + np.sqrt(roundoff(x.dtype)) * (size + usual)
            tells = error <= np.maximum(0.1 * np.maximum(np.abs(step), size), 1e-6 * (within + usual))
            if not np.any(tells & ~(np.abs(step - second.value) <= error)):
                break
        else:
            return False
        if np.all(tells):
            return True
    return None
