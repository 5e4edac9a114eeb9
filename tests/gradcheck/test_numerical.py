"""The numerical derivatives by themselves, against derivatives by mpmath with 40 digits."""

import mpmath
import numpy as np
import pytest

from gradcheck import complex_step, longdouble, one_sided, richardson
from gradcheck.noise import Noise
from gradcheck.precision import wider

needs_longdouble = pytest.mark.skipif(wider(np.float64) is None, reason="longdouble is float64 here")

X = np.array([0.3, -1.1, 2.0])
V = np.array([1.0, -0.5, 0.25])
SMOOTH = {
    "exp sin": (lambda x: np.exp(np.sin(x)), lambda x: mpmath.exp(mpmath.sin(x))),
    "rational": (lambda x: x / (1 + x * x), lambda x: x / (1 + x * x)),
    "tanh": (np.tanh, mpmath.tanh),
}


def exact(known):
    with mpmath.workdps(40):
        return np.array(
            [
                np.longdouble(mpmath.nstr(mpmath.diff(known, mpmath.mpf(float(x))) * mpmath.mpf(float(v)), 25))
                for x, v in zip(X, V, strict=True)
            ]
        )


@pytest.mark.parametrize("name", SMOOTH)
def test_complex_step_is_exact_to_rounding(name):
    f, known = SMOOTH[name]
    assert np.all(np.abs(complex_step(f, X, V) - exact(known)) <= 8 * 2.0**-53 * np.abs(V))


def test_complex_step_of_float32_computes_in_complex128():
    derivative = complex_step(np.exp, X.astype(np.float32), V.astype(np.float32))
    assert derivative.dtype == np.float64
    np.testing.assert_allclose(derivative, np.exp(X.astype(np.float32).astype(float)) * V, rtol=1e-15)


@needs_longdouble
def test_complex_step_of_longdouble_keeps_its_digits():
    x = X.astype(np.longdouble)
    assert np.all(np.abs(complex_step(np.exp, x, V) - np.exp(x) * V) <= 1e-18 * np.exp(x))


def test_complex_step_of_what_ignores_its_imaginary_part_is_zero():
    assert not complex_step(np.abs, X, V).any()


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize(
    ("method", "dtype", "at_most"),
    [
        (richardson, np.float64, 1e-11),
        pytest.param(richardson, np.longdouble, 1e-14, marks=needs_longdouble),
        pytest.param(longdouble, np.float64, 2e-14, marks=needs_longdouble),  # a rounding or two of float64
    ],
)
def test_differences_estimate_their_error(method, dtype, at_most, name):
    f, known = SMOOTH[name]
    estimate = method(f, X.astype(dtype), V.astype(dtype))
    off = np.abs(estimate.value - exact(known))
    assert np.all(off <= 3 * estimate.error)
    assert np.all(np.maximum(off, estimate.error if method is richardson else 0) <= at_most)


def test_richardson_takes_smaller_steps_where_f_bends_on_a_small_scale():
    x = np.array([0.3e-3])
    estimate = richardson(lambda x: np.sin(1e3 * x), x, np.array([1.0]))
    assert abs(estimate.value - 1e3 * np.cos(0.3))[0] <= 1e-8 * 1e3


def test_richardson_stays_in_the_domain_of_f():
    with np.errstate(invalid="ignore"):
        estimate = richardson(np.log, np.array([1e-3]), np.array([1.0]))
    assert abs(estimate.value[0] - 1e3) <= 1e-7 * 1e3


def test_richardson_beyond_all_scales_says_so():
    """A function that has saturated on either side of every step must not pass for one of derivative 0."""
    estimate = richardson(lambda x: np.tanh(1e30 * x), np.array([0.0]), np.array([1.0]))
    assert not estimate.error[0] <= 1e-3 * abs(estimate.value[0])


@needs_longdouble
def test_longdouble_refuses_a_function_that_narrows():
    with pytest.raises(
        ValueError, match="longdouble: f answers in float64 when it is given longdouble; use richardson"
    ):
        longdouble(lambda x: np.exp(x.astype(float)), X, V)


def test_one_sided_slopes_differ_at_a_kink_and_agree_elsewhere():
    left, right = one_sided(np.abs, np.array([0.0, 0.5]), np.array([1.0, 1.0]))
    np.testing.assert_allclose(left.value, [-1, 1], atol=1e-9)
    np.testing.assert_allclose(right.value, [1, 1], atol=1e-9)


def test_one_sided_slopes_are_along_a_direction_of_any_length():
    left, right = one_sided(lambda x: np.abs(x).sum(), np.array([0.0, 0.5]), np.array([3.0, -2.0]))
    np.testing.assert_allclose([left.value, right.value], [-5, 1], atol=1e-9)


def test_one_sided_slopes_at_a_jump_are_infinite():
    left, right = one_sided(np.floor, np.array([1.0]), np.array([1.0]))
    assert np.isinf(left.value[0])
    assert right.value[0] == 0


UNRESOLVED = {  # by steps as long as v, at which all differences are alike: a peak, a bend, waves
    "a peak between plateaus": (lambda x: np.exp(-np.abs(x) / 1e-4), 1e-4, -1e4 * np.exp(-1)),
    "a bend near by": (lambda x: np.maximum(x, 0), -1e-6, 0.0),
    "the other side of it": (lambda x: np.maximum(x, 0), 1e-6, 1.0),
    "whole waves": (lambda x: np.sin(2**10 * np.pi * x), 0.3, 2**10 * np.pi * np.cos(2**10 * np.pi * 0.3)),
    "waves that are nearly whole": (lambda x: np.sin(1e7 * x), 0.3, 1e7 * np.cos(3e6)),
}


@pytest.mark.parametrize("what", UNRESOLVED)
def test_differences_that_are_alike_are_no_evidence(what):
    """Their mean is not f(x), or between two of them there is another: smaller steps follow, which have digits."""
    f, x, slope = UNRESOLVED[what]
    estimate = richardson(f, np.array([x]), np.ones(1))
    assert abs(estimate.value[0] - slope) <= max(3 * estimate.error[0], 1e-9 * abs(slope))
    assert estimate.error[0] <= 1e-4 * max(abs(slope), 1)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_what_is_smooth_needs_no_smaller_steps(scale):
    calls = []
    richardson(
        lambda x: calls.append(0) or np.tanh(x), np.array([0.3 * scale]), np.array([scale]), noise=Noise(1e-16, 0)
    )
    assert len(calls) == 17
