"""Whether the complex step may be trusted with a function, and which numerical derivative to take otherwise.

Code that takes `abs`, `.real` or a cast of a complex number drops its imaginary part and says nothing, so that a
complex step through it is wrong in silence. Three questions are asked before it is believed, at f(x + ihv) along one
random direction v:

    does f take complex arguments at all, without a warning that it discards something?
    is the real part f(x)?
    is the imaginary part what central differences give, in longdouble where f computes in it, within their own error?
"""

import warnings
from dataclasses import dataclass

import numpy as np

from gradcheck.complex_step import STEP, complex_step
from gradcheck.flat import FlatFunction
from gradcheck.longdouble import longdouble
from gradcheck.precision import DType, roundoff, wider, working
from gradcheck.richardson import Estimate, richardson

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
