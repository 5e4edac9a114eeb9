r"""The complex step: a derivative with no truncation error worth the name and no cancellation at all.

For f analytic at x, the Taylor series in the imaginary direction is

    f(x + ihv) = f(x) + ih f′(x)v − h² f″(x)[v, v]/2 − …,        so        f′(x)v = Im f(x + ihv)/h + O(h²)

Nothing is subtracted, so h may be so small that the O(h²) is far below one rounding: with h = 1e-100 it is 1e-200.
What is left is the rounding of f itself, and the answer is as good as a hand-written derivative.

It holds for analytic code alone. `abs`, `conj`, `.real`, `np.var` of the complex argument are not analytic, and a
function that uses them gives a wrong imaginary part without a word; `gradcheck.numerical` guards against that.

Sources: Lyness & Moler (1967); Squire & Trapp (1998); Martins, Sturdza & Alonso (2003).

Central differences, extrapolated to step 0, with an estimate of the error.

A central difference errs by even powers of its step only, and each column of the table removes the next of them:

    D(h) = (f(x + hv) − f(x − hv)) / 2h = f′(x)v + c₂h² + c₄h⁴ + …
    Tₖ₀ = D(h/2ᵏ)        Tₖⱼ = Tₖ,ⱼ₋₁ + (Tₖ,ⱼ₋₁ − Tₖ₋₁,ⱼ₋₁) / (4ʲ − 1)

A small step cancels digits (noise u|f|/h), a large one truncates. Ridders' rule chooses between them without knowing
either: every entry is compared with the two it came from, and the entry that moved least is the answer, element by
element of f. That movement, plus the rounding noise of f at that step, is the estimate of the error. Seven levels reach
1e-13 in float64 and 1e-16 in an x87 longdouble where f is smooth on the scale of the first step.

Where it is not, because f bends on a smaller scale or leaves its domain, all of the table is laid again with smaller
steps.

Sources: Richardson (1911); Ridders (1982); Higham (2002), §1.14, for the noise of a difference.

Fourth-order central differences in `np.longdouble`: a second opinion that shares nothing with the complex step.

    D(h) = [8 (f(x + hv) − f(x − hv)) − (f(x + 2hv) − f(x − 2hv))] / 12h = f′(x)v − h⁴ f⁽⁵⁾/30 + …

The truncation h⁴/30 and the noise 3u|f|/2h meet near h = u^(1/5). With the 64-bit fraction of an x87 longdouble,
u = 5e-20 and h = 2⁻¹², both are about 3e-16, one or two roundings of float64; with float64 alone they would be 1e-12.
(D(2h) − D(h))/15 estimates the truncation of D(h), at the price of one more pair of points.

A longdouble is not everywhere wider than float64 (`gradcheck.precision`), so where it is not this raises rather than
pass a float64 difference for more than it is.
Source: Fornberg (1988), table 1, for the weights.

Kinks: points where a function has one slope to the left and another to the right, and so no derivative.

    f′₊(x)v = lim (f(x + hv) − f(x))/h        f′₋(x)v = lim (f(x) − f(x − hv))/h        (h ↓ 0)

relu and |x| at 0 and the maximum of equal numbers have them. Any number between the two slopes is called a subgradient
there, and every framework picks its own; to compare one with a difference, which gives the mean, would mean nothing.

Each slope is extrapolated by a Richardson table of its own (one-sided differences err by all powers of h, so its base
is 2) and comes with an error; a kink is a difference of slopes far beyond both errors. A jump of f is a slope of
infinity, the edge of its domain one of nan. What looks like a kink from afar is looked at again, twice, from 1000 times
closer, for a smooth function may bend sharply; so only a kink within 1e-9 of the size of x counts as one *at* x.

Whether the complex step may be trusted with a function, and which numerical derivative to take otherwise.

Code that takes `abs`, `.real` or a cast of a complex number drops its imaginary part and says nothing, so that a
complex step through it is wrong in silence. Three questions are asked before it is believed, at f(x + ihv) along one
random direction v:

    does f take complex arguments at all, without a warning that it discards something?
    is the real part f(x)?
    is the imaginary part what central differences give, in longdouble where f computes in it, within their own error?
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gradcheck.flat import FlatFunction
from gradcheck.precision import DType, roundoff, wider, working

STEP = 2.0**-332  # 1.1e-100, and a power of two: multiplying and dividing by it rounds nothing


def complex_step(f: Callable, x: np.ndarray, v: np.ndarray, *, h: float = STEP) -> np.ndarray:
    """Directional derivative f′(x)v = Im f(x + ihv)/h of a function of one array.

    Shapes: x and v (...), f: (...) → (m...) → derivative (m...). Complex128 is the least it computes in, since
    complex64 cannot hold 1e-100; a longdouble x is differentiated in clongdouble.
    A real result of f counts as a derivative of 0. What f raises on complex input passes through.
    """
    dtype = working(np.asarray(x).dtype)
    x, v = np.asarray(x, dtype), np.asarray(v, dtype)
    return np.asarray(f(x + 1j * h * v)).imag / h


class Estimate(NamedTuple):
    """A numerical derivative and how far it may be from the true one, element by element."""

    value: np.ndarray
    error: np.ndarray

    @property
    def doubt(self) -> np.ndarray:
        """The relative error, and 1 where that is above 1e-3.

        Far out, where f no longer changes, a difference is small and so is its error; only relative to its value does
        it show that it knows nothing. Where every value is noise all are in full doubt, and the smallest noise is best.
        """
        with np.errstate(all="ignore"):
            relative = np.where(self.error == 0, 0.0, self.error / np.abs(self.value))
        return np.where(relative <= 1e-3, relative, 1.0)

    def or_better(self, other: "Estimate") -> "Estimate":
        """Element by element, the estimate with less doubt, or with the smaller error where both are in full doubt."""
        better = (other.doubt < self.doubt) | ((other.doubt == self.doubt) & (other.error < self.error))
        return self._replaced(other, better)

    def or_closer(self, closer: "Estimate") -> "Estimate":
        """The better of two estimates; where they contradict each other, that from smaller steps, if it knows anything.

        Steps that are too large deceive by far more than their error, for they leap over what f does in between.
        """
        contradict = np.abs(self.value - closer.value) > 10 * (self.error + closer.error)
        return self.or_better(closer)._replaced(closer, contradict & (closer.doubt < 1))

    def _replaced(self, other: "Estimate", where: np.ndarray) -> "Estimate":
        return Estimate(np.where(where, other.value, self.value), np.where(where, other.error, self.error))


def extrapolated(row: list, above: list, base: int) -> list:
    """Complete one row of a Richardson table from its first entry and the row above; `base` is 4 for a central
    difference (only even powers of h to remove), 2 for a one-sided one."""
    for j, entry in enumerate(above, start=1):
        row.append(row[-1] + (row[-1] - entry) / (base**j - 1))
    return row


def best_entry(rows: list[list], noise: list) -> Estimate:
    """Ridders' choice from a table: the entry that moved least from the two it was made of.

    The least of many movements may be small by luck, where noise is larger than it was taken for. So the best entries
    of three rows, which share but some of their noise, vouch for each other: their distances are part of the error.
    """
    of_rows = []
    for k in range(1, len(rows)):
        best = Estimate(rows[k][0], np.full(np.shape(rows[k][0]), np.inf))
        for j in range(1, k + 1):
            moved = np.maximum(np.abs(rows[k][j] - rows[k][j - 1]), np.abs(rows[k][j] - rows[k - 1][j - 1]))
            best = best.or_better(Estimate(rows[k][j], moved + noise[k]))
        of_rows.append(best)
    value, error, doubt = (np.stack(part) for part in zip(*((*e, e.doubt) for e in of_rows), strict=True))
    order = np.lexsort((error, doubt), axis=0)[:3]  # (3, m...)
    value, error = np.take_along_axis(value, order, axis=0), np.take_along_axis(error, order, axis=0)
    apart = np.abs(value - value[0])
    return Estimate(value[0], np.fmax(error[0], np.where(np.isfinite(apart), apart, 0.0).max(axis=0)))


def richardson(
    f: Callable,
    x: np.ndarray,
    v: np.ndarray,
    *,
    step: float = 0.125,
    levels: int = 7,
    rounds: int = 5,
    within: np.ndarray | float = 0.0,
) -> Estimate:
    """Directional derivative f′(x)v of a function of one array, by extrapolated central differences.

    Shapes: x and v (...), f: (...) → (m...) → Estimate(value (m...), error (m...)), all in the dtype of x. `v` should
    be as long as the scale on which f changes: the first step goes to x ± v/8. Each round costs 2·levels evaluations;
    most functions need one. `within` is the size of what cancels inside f, where that is known to be larger than f
    itself (1 for 1 − tanh²), so that its rounding is not taken for a value. An error of inf: no entry was finite.
    """
    u = roundoff(np.asarray(x).dtype)
    start = np.asarray(f(x))
    best = Estimate(np.full(start.shape, np.nan, start.dtype), np.full(start.shape, np.inf, start.dtype))
    for _ in range(rounds):
        rows: list[list] = []
        noise: list = []
        for _ in range(levels):
            plus, minus = np.asarray(f(x + step * v)), np.asarray(f(x - step * v))
            rows.append(extrapolated([(plus - minus) / (2 * step)], rows[-1] if rows else [], base=4))
            noise.append(u * (np.abs(plus) + np.abs(minus) + 2 * within) / step)
            step = step / 2
        best = best.or_closer(best_entry(rows, noise))
        # Smaller steps help only while it is truncation that spoils the table and not the noise.
        if np.all(best.error <= np.maximum(1e6 * u * np.abs(best.value), 16 * noise[-1])):
            break
    return best


def longdouble(f: Callable, x: np.ndarray, v: np.ndarray, *, step: float = 2.0**-12) -> Estimate:
    """Directional derivative f′(x)v of a function of one array, by five-point differences in longdouble.

    Shapes: x and v (...), f: (...) → (m...) → Estimate(value (m...), error (m...)), seven evaluations. `v` should be as
    long as the scale on which f changes.
    Raises ValueError where longdouble is no wider than float64, or where f answers in a narrower precision.
    """
    wide = np.dtype(np.longdouble)
    if wider(np.float64) is None:
        raise ValueError("longdouble: np.longdouble is float64 on this platform; use richardson, whose error it tells")
    x, v = np.asarray(x, wide), np.asarray(v, wide)

    def rise(h: float) -> np.ndarray:
        plus, minus = np.asarray(f(x + h * v)), np.asarray(f(x - h * v))
        if plus.dtype != wide:
            raise ValueError(f"longdouble: f answers in {plus.dtype} when it is given longdouble; use richardson")
        return plus - minus

    near, twice, far = rise(step), rise(2 * step), rise(4 * step)
    fine = (8 * near - twice) / (12 * step)
    coarse = (8 * twice - far) / (24 * step)
    noise = roundoff(wide) * np.abs(np.asarray(f(x))) * 1.5 / step
    return Estimate(fine, np.abs(coarse - fine) / 15 + noise)


MOST = 64  # after so many single kinks, what else seems to have one is left out without a closer look


def one_sided(
    f: Callable, x: np.ndarray, v: np.ndarray, *, step: float = 2.0**-8, levels: int = 5
) -> tuple[Estimate, Estimate]:
    """The slopes of f along v to the left and to the right of x, each with its error; 2·levels + 1 evaluations.

    Shapes: x and v (...), f: (...) → (m...) → two Estimates of (m...). Computed in the dtype of x. Where f jumps, the
    value is ±inf; where it has no finite values on one side, nan.
    """
    u, here = roundoff(np.asarray(x).dtype), np.asarray(f(x))
    tables: tuple[list, list] = [], []
    noise, steps = [], [step / 2**k for k in range(levels)]
    for h in steps:
        for rows, sign in zip(tables, (-1, 1), strict=True):
            slope = (np.asarray(f(x + sign * h * v)) - here) / (sign * h)
            rows.append(extrapolated([slope], rows[-1] if rows else [], base=2))
        noise.append(8 * u * np.abs(here) / h)
    estimates = []
    for rows in tables:
        rises = np.array([np.abs(row[0]) * h for row, h in zip(rows, steps, strict=True)])
        jumps = (rises[-1] > 0.5 * rises.max(axis=0)) & (rises[-1] > 1e4 * u * np.abs(here))
        best = best_entry(rows, noise)
        estimates.append(Estimate(np.where(jumps, np.copysign(np.inf, rows[-1][0]), best.value), best.error))
    return estimates[0], estimates[1]


def has_kink(f: Callable, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Where (m...) the outputs of f have a kink, a jump or an end of their domain at x along v."""
    found, before = np.asarray(True), np.asarray(np.inf)
    for step in (2.0**-8, 2.0**-18, 2.0**-28):
        with np.errstate(all="ignore"):
            left, right = one_sided(f, x, v, step=step)
            gap, steep = np.abs(right.value - left.value), np.abs(right.value) + np.abs(left.value)
            usual = np.mean(steep[np.isfinite(steep)]) if np.isfinite(steep).any() else 0.0
            error = 10 * (left.error + right.error)
            blind = (error > 0.1 * before) & np.isfinite(before)  # nothing new can be seen from so close
        found = found & ((gap > error + 1e-7 * (steep + usual)) | ~np.isfinite(gap) | blind)
        before = gap
        if not found.any():
            break
    return found


METHODS = ("auto", "complex_step", "richardson", "longdouble")


@dataclass(frozen=True)
class Method:
    """A way to take derivatives of F at x, in `precision`; `name` as reports print it, `remark` why it was chosen."""

    name: str
    precision: DType
    remark: str | None = None

    def __call__(self, f: FlatFunction, x: np.ndarray, v: np.ndarray) -> Estimate:
        x, v = x.astype(self.precision), v.astype(self.precision)
        if self.name == "complex step":
            value = complex_step(f, x, v)
            return Estimate(value, np.zeros_like(value))
        if self.name == "longdouble differences":
            return longdouble(f, x, v)
        return richardson(f, x, v, within=f.within)

    @property
    def arithmetic(self) -> DType:
        """The dtype that f computes in under this method."""
        return np.result_type(self.precision, np.complex64) if self.name == "complex step" else self.precision

    def in_precision(self, precision: DType) -> "Method":
        return Method(self.name, precision, self.remark)


def differences_precision(problem: FlatFunction) -> DType:
    """The widest real precision that f computes in: longdouble if it does and that is wider, else at least float64."""
    at_least = working(problem.x.dtype)
    wide = wider(at_least)
    return wide if wide is not None and problem.computes_in(wide) else at_least


def choose(problem: FlatFunction, method: str, v: np.ndarray) -> Method:
    """The numerical derivative to judge by: complex step where f is analytic, else differences in the widest precision.

    Raises ValueError if `method` is none of METHODS, or asks for what f or this machine cannot do.
    """
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; it must be one of {', '.join(map(repr, METHODS))}")
    precision = differences_precision(problem)
    if method == "longdouble":
        longdouble(problem, problem.x, 0 * v)  # raises, with the reason, where it cannot be had
        return Method("longdouble differences", np.dtype(np.longdouble))
    if method == "richardson":
        return Method("Richardson differences", precision)
    reason = why_not_analytic(problem, v, precision)
    if reason is None:
        return Method("complex step", working(problem.x.dtype))
    if method == "complex_step":
        raise ValueError(f"method is 'complex_step' but {reason}; pass method='auto' to fall back on differences")
    return Method("Richardson differences", precision, f"no complex step: {reason}")


def why_not_analytic(problem: FlatFunction, v: np.ndarray, precision: DType) -> str | None:
    """None where the complex step of F along v can be trusted, else the reason why not, as an end of a sentence."""
    x = problem.x.astype(working(problem.x.dtype))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            y = problem(x + 1j * STEP * v)
    except Exception as refusal:  # f is anybody's code: whatever it raises, it is a no
        said = (str(refusal).splitlines() or [""])[0]
        return f"f does not take complex arguments ({type(refusal).__name__}: {said})"
    if not np.all(np.abs(y.real - problem.y) <= problem.same(y)):
        return "the real part of f at x + ihv is not f at x"
    if problem.computes_in(np.result_type(precision, np.complex64)):
        x = x.astype(precision)
    step = complex_step(problem, x, v)
    second = richardson(problem, problem.x.astype(precision), v.astype(precision), within=problem.within)
    usual = np.abs(second.value) + np.mean(np.abs(second.value))
    if not np.all(np.abs(step - second.value) <= 100 * second.error + np.sqrt(roundoff(x.dtype)) * usual):
        return "the imaginary part of f at x + ihv is not its derivative: f uses abs, conj, .real or the like"
    return None
