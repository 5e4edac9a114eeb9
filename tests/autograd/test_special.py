"""erf, erfc and their relatives: against mpmath, against each other, and what they promise about arrays."""

import pathlib
import runpy

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from refnp.numbers.special import MILLS, NEAR, erf, erfc, gaussian, normal_cdf
from tests.helpers import assert_same_bits


def true_erfc(x):
    return mpmath.erfc(min(x, 10_000))  # mpmath overflows for larger x


FUNCTIONS = {  # name: the function, the same in mpmath
    "erf": (erf, mpmath.erf),
    "erfc": (erfc, true_erfc),
    "gaussian": (gaussian, lambda x: mpmath.exp(-x * x)),
    "cdf": (lambda x: normal_cdf(x)[0], lambda x: true_erfc(-x / mpmath.sqrt(2)) / 2),
    "density": (lambda x: normal_cdf(x)[1], lambda x: mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mpmath.pi)),
}
REAL = [np.float32, np.float64, np.longdouble]
COMPLEX = [np.complex64, np.complex128, np.clongdouble]
every_function = pytest.mark.parametrize("name", FUNCTIONS)
real_types = pytest.mark.parametrize("dtype", REAL)
any_float = hnp.arrays(st.sampled_from([np.float32, np.float64]), hnp.array_shapes(), elements={"allow_nan": False})


def ulps_allowed(name, dtype):
    """As the module says. The worst found, in millions of points: erfc 3.8, Φ 4.9; in longdouble 5.1."""
    return 6 if dtype == np.longdouble else 5 if name == "cdf" else 4


def exact(x):
    """A NumPy number as an mpmath number, without rounding."""
    numerator, denominator = x.as_integer_ratio()
    return mpmath.mpf(numerator) / denominator


@mpmath.workdps(60)
def error_in_ulps(value, true_function, *arguments):
    """|value − true| in units of the last place of the true value (of the smallest normal number if that is larger)."""
    info = np.finfo(value.dtype)
    errors = []
    for v, *numbers in zip(value, *arguments, strict=True):
        t = true_function(*map(exact, numbers))
        exponent = max(int(mpmath.frexp(t)[1]) - 1, int(info.minexp))
        errors.append(float(abs(exact(v) - t) / mpmath.ldexp(1, exponent - int(info.nmant))))
    return np.array(errors)


def points(dtype):
    """Dense where the functions live, sparse towards 0 and into the tails, and both neighbours of every breakpoint."""
    rng = np.random.default_rng(0)
    info = np.finfo(dtype)
    last = np.sqrt(-np.log(info.smallest_subnormal)) * 1.45  # beyond, even e^(−x²/2) has vanished
    breaks = np.array([NEAR, NEAR * np.sqrt(2), 1, 2, last / 1.45, last], dtype)
    parts = [
        rng.random(250) * 4,
        rng.random(250) * last,
        10.0 ** -rng.uniform(0, 30, 50),
        [0, info.tiny, info.smallest_subnormal, info.eps, 1e10, info.max],
        *(np.nextafter(breaks, towards) for towards in (dtype(0), breaks, dtype(np.inf))),
    ]
    x = np.concatenate([np.asarray(part, dtype) for part in parts])
    return np.concatenate([x, -x])


@every_function
@real_types
def test_error_stays_within_the_promised_ulps(name, dtype):
    function, true = FUNCTIONS[name]
    x = points(dtype)
    y = function(x)
    assert y.dtype == dtype
    errors = error_in_ulps(y, true, x)
    assert errors.max() <= ulps_allowed(name, dtype), x[errors.argmax()]


@every_function
def test_float32_agrees_with_float64_over_all_of_float32(name):
    function, _ = FUNCTIONS[name]
    bits = np.arange(0, np.float32(np.inf).view(np.uint32), 6007, dtype=np.uint32)
    x = np.concatenate([bits.view(np.float32), -bits.view(np.float32)])
    true = function(x.astype(np.float64))
    ulp = np.ldexp(1.0, np.maximum(np.frexp(true)[1] - 1, -126) - 23)
    assert (np.abs(function(x) - true) / ulp).max() <= ulps_allowed(name, np.float32)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="longdouble is float64 here")
@pytest.mark.parametrize("name", ["erf", "erfc", "cdf"])
def test_rational_function_agrees_with_trapezoidal_rule(name):
    function, _ = FUNCTIONS[name]
    x = np.random.default_rng(1).uniform(-26, 26, 20_000)
    true = function(x.astype(np.longdouble))
    assert (np.abs(function(x) - true) / np.spacing(np.abs(true).astype(np.float64))).max() <= ulps_allowed(name, float)


def test_coefficients_are_those_that_the_derivation_finds():
    script = pathlib.Path(__file__).parents[2] / "docs/derivations/erf_coefficients.py"
    find = runpy.run_path(str(script))["coefficients"]
    for dtype, stated_error in [(np.float32, 3.7e-8), (np.float64, 7.7e-18)]:
        p, q, error = find(dtype)
        on_page = tuple(tuple(dtype(c) for c in side) for side in MILLS[np.dtype(dtype)])
        assert (p, q) == on_page
        assert error == pytest.approx(stated_error, rel=0.02)


@given(any_float)
def test_erf_is_odd_to_the_bit(x):
    np.testing.assert_array_equal(erf(-x).view(np.uint8), (-erf(x)).view(np.uint8))


@given(any_float)
def test_erfc_reflects_to_the_bit(x):
    right = np.abs(x)
    np.testing.assert_array_equal(erfc(-right), 2 - erfc(right))


@given(any_float)
def test_density_and_gaussian_are_even_to_the_bit(x):
    np.testing.assert_array_equal(gaussian(-x), gaussian(x))
    np.testing.assert_array_equal(normal_cdf(-x)[1], normal_cdf(x)[1])


@pytest.mark.parametrize("dtype", REAL + COMPLEX)
def test_special_values(dtype):
    x = np.array([-np.inf, -0.0, 0.0, np.inf, np.nan], dtype)
    np.testing.assert_array_equal(erf(x), np.array([-1, -0.0, 0, 1, np.nan], dtype))
    assert np.signbit(erf(x).real).tolist()[:3] == [True, True, False]
    np.testing.assert_array_equal(erfc(x), np.array([2, 1, 1, 0, np.nan], dtype))
    np.testing.assert_array_equal(gaussian(x), np.array([0, 1, 1, 0, np.nan], dtype))
    np.testing.assert_array_equal(normal_cdf(x)[0], np.array([0, 0.5, 0.5, 1, np.nan], dtype))


@every_function
def test_nothing_is_nan_or_warns_at_any_finite_number(name):
    function, _ = FUNCTIONS[name]
    for dtype in REAL:
        info = np.finfo(dtype)
        sizes = np.array([info.smallest_subnormal, info.tiny, 1, np.sqrt(info.max), info.max], dtype)
        assert np.isfinite(function(np.concatenate([sizes, -sizes]))).all()


@pytest.mark.parametrize("function", [erf, erfc, gaussian, lambda x: normal_cdf(x)[0], lambda x: normal_cdf(x)[1]])
def test_float16_is_float32_rounded(function):
    x = np.arange(2**16, dtype=np.uint16).view(np.float16)
    x = x[np.isfinite(x)]
    assert_same_bits(function(x), function(x.astype(np.float32)).astype(np.float16))
    assert function(x[5]).dtype == np.float16


@pytest.mark.parametrize("imaginary", [1e-11, 1, np.inf, np.nan])
def test_imaginary_part_that_is_not_small_is_refused(imaginary):
    with pytest.raises(ValueError, match=r"erf: x has an imaginary part of size .* take a smaller step"):
        erf(np.array([0, complex(1, imaginary)]))
