"""Arithmetic, elementary functions and choices: corners, tails, precision, ties, NaN, bounds.

What all share is in test_contract.py.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.autograd import Tensor
from refnp.autograd.elementary import log1p_of
from tests.helpers import COMPLEX, REAL, assert_same_bits, assert_within, normal, real_dtypes, seeds, unit_roundoff

ANALYTIC = [(ad.exp, np.exp), (ad.expm1, np.expm1), (ad.log, np.log), (ad.sqrt, np.sqrt), (ad.tanh, np.tanh),
            (ad.sin, np.sin), (ad.cos, np.cos), (ad.negative, np.negative)]  # fmt: skip


def gradient_of(function, *arguments):
    value, pullback = ad.vjp(function, *arguments)
    return pullback(np.ones_like(value))


@pytest.mark.parametrize(("ours", "numpys"), ANALYTIC, ids=lambda f: f.__name__)
@given(dtype=st.sampled_from(COMPLEX), seed=seeds)
def test_complex_values_are_numpys(ours, numpys, dtype, seed):
    z = normal(seed, 6, dtype)
    assert_within(ours(z), numpys(z), 8 * unit_roundoff(dtype) * abs(numpys(z)))


def test_division_by_zero_where_nothing_comes_back():
    """A branch that was not taken gets cotangent 0 and gives gradient 0, whatever was divided by."""
    x, y = Tensor([1.0, 2.0], requires_grad=True), Tensor([0.0, 4.0], requires_grad=True)
    with np.errstate(divide="ignore"):
        ad.where(y.numpy() > 0, x / y, 0.0).sum().backward()
    assert x.grad.tolist() == [0, 0.25]
    assert y.grad.tolist() == [0, -0.125]


def test_log_sqrt_and_power_where_nothing_comes_back():
    """where(x > 0, log x, 0) at 0: HIPS autograd and PyTorch give NaN."""
    for function in (ad.log, ad.sqrt, lambda x: x**0.5, lambda x: x**-1, lambda x: 1 / x, lambda x: ad.log1p(x - 1)):
        x = Tensor([0.0, 2.0], requires_grad=True)
        with np.errstate(divide="ignore"):
            ad.where(x > 0, function(x), 0.0).sum().backward()
        assert x.grad[0] == 0
        assert np.isfinite(x.grad[1])
        assert x.grad[1] != 0


def test_infinite_slopes_are_infinite():
    assert gradient_of(ad.sqrt, np.zeros(1))[0].tolist() == [np.inf]
    assert gradient_of(lambda x: ad.power(x, 0.5), np.zeros(1))[0].tolist() == [np.inf]


# ---- powers


@pytest.mark.parametrize("x", [-2.0, -0.5, 0.0, 0.5, 3.0])
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 5.0])
def test_whole_powers_of_any_number(x, exponent):
    assert ad.power(x, exponent) == x**exponent
    (gradient,) = gradient_of(lambda x: ad.power(x, exponent), np.array(x))
    assert gradient == (exponent * x ** (exponent - 1) if exponent else 0)


@pytest.mark.parametrize("exponent", [-1, -2, -3, -1.0])
def test_negative_powers(exponent):
    x = np.array([-2.0, 0.5, 4.0])
    assert ad.power(x, exponent).tolist() == (x ** float(exponent)).tolist()
    assert gradient_of(lambda x: ad.power(x, exponent), x)[0].tolist() == (exponent * x ** (exponent - 1.0)).tolist()


def test_zero_to_the_zero():
    x, p = np.zeros(2), np.array([0.0, 1.0])
    assert ad.power(x, p).tolist() == [1, 0]
    x_bar, p_bar = gradient_of(ad.power, x, p)
    assert x_bar.tolist() == [0, 1]
    assert p_bar.tolist() == [0, 0]


def test_gradients_where_the_base_is_zero():
    """p̄ = ȳ y log x: 0 where 0^p does not change with p, −∞ where 0^p is ∞; and 0 where ȳ is. Never NaN."""
    x, p = np.zeros(5), np.array([-2.0, -1.0, -0.5, 0.5, 2.0])
    with np.errstate(divide="ignore"):
        y, pullback = ad.vjp(ad.power, x, p)
        x_bar, p_bar = pullback(np.ones(5))
        assert y.tolist() == [np.inf, np.inf, np.inf, 0, 0]
        assert x_bar.tolist() == [-np.inf, -np.inf, -np.inf, np.inf, 0]
        assert p_bar.tolist() == [-np.inf, -np.inf, -np.inf, 0, 0]
        assert [bar.tolist() for bar in pullback(np.zeros(5))] == [[0] * 5, [0] * 5]


@pytest.mark.parametrize(
    ("x", "y", "z_bar"), [(1e-320, 1e-310, 1.0), (0.0, 1e-310, 1.0), (1e308, 1e100, 1e-308), (1.0, 1e-308, 1e-310)]
)
def test_divide_where_only_a_quotient_is_out_of_range(x, y, z_bar):
    """z̄/y over- or underflows, ȳ = −z̄ z/y does not: 0 and not NaN for x = 0."""
    (y_bar,) = ad.vjp(lambda y: ad.divide(x, y), np.array([y]))[1](np.array([z_bar]))
    wide = np.longdouble
    expected = -wide(z_bar) * (wide(x) / wide(y)) / wide(y)
    assert_within(y_bar, [expected], np.abs(expected) * (8 * unit_roundoff(float) + (x < 1e-307) * 1e-4))


ELEMENTWISE = (ad.negative, ad.exp, ad.expm1, ad.log, ad.log1p, ad.sqrt, ad.tanh, ad.sin, ad.cos, ad.erf, ad.erfc,
               ad.absolute, lambda x: ad.power(x, 2), lambda x: ad.power(x, 2.5))  # fmt: skip


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("function", ELEMENTWISE)
def test_nan_has_the_value_and_the_slope_nan(function, dtype):
    """A slope of NaN, but for a function that is linear, and only there."""
    value, pullback = ad.vjp(function, np.array([0.5, np.nan, 0.7], dtype))
    (gradient,) = pullback(np.ones(3, dtype))
    assert np.isnan(value).tolist() == [False, True, False]
    assert np.isnan(gradient).tolist() == [False, function is not ad.negative, False]


def test_first_power_is_a_copy():
    x = np.ones(2)
    assert not np.shares_memory(ad.power(x, 1), x)


@pytest.mark.parametrize("dtype", REAL)
def test_base_given_as_a_python_number_has_the_precision_of_the_exponent(dtype):
    p = np.array([0.5, 3.0], dtype)
    (gradient,) = gradient_of(lambda p: ad.power(2.0, p), p)
    two = np.longdouble(2)
    assert_within(gradient, two**p * np.log(two), 16 * unit_roundoff(dtype) * two**p)


# ---- tails and small numbers


@pytest.mark.parametrize("dtype", COMPLEX)
@given(seed=seeds)
def test_complex_log1p_near_zero_and_far_away(dtype, seed):
    """NumPy's own returns (0 + 1e-20j) for log1p(1e-20 + 1e-20j)."""
    rng = np.random.default_rng(seed)
    z = (10.0 ** rng.uniform(-30, 2, 20) * np.exp(1j * rng.uniform(-np.pi, np.pi, 20))).astype(dtype)
    y = log1p_of(z)
    assert y.dtype == dtype
    if dtype == np.complex128:
        far = abs(z) > 1e-3
        wide = z.astype(np.clongdouble)
        series = wide - wide**2 / 2 + wide**3 / 3 - wide**4 / 4 + wide**5 / 5 - wide**6 / 6
        expected = np.where(far, np.log(1 + wide), series)
        assert_within(y.imag, expected.imag, 8 * unit_roundoff(dtype) * abs(expected))
        # the real part cancels on the circle |1 + z| = 1; there it is as good as |z| allows
        assert_within(y.real, expected.real, 16 * unit_roundoff(dtype) * (abs(expected.real) + abs(z) ** 2))
    assert_same_bits(log1p_of(z.real.clip(-0.4) + 0j * z).real, np.log1p(z.real.clip(-0.4)))


def test_complex_log1p_beyond_the_branch_point():
    z = np.array([-1 + 1j, -3 + 0.5j, -0.9 + 1e-200j, 1e200 + 1e200j, 5 - 3j])
    assert_within(log1p_of(z), np.log(1 + z), 8 * unit_roundoff(complex) * (1 + abs(np.log(1 + z))))


# ---- precision


def test_gradients_of_float32_stay_float32_inside_the_walk():
    """A gradient that passes through float64 on its way is slow and hides behind the last cast: look inside."""
    x = Tensor(np.ones(3, np.float32), requires_grad=True)
    kinds = []

    @ad.primitive
    def spy(x):
        def vjp(y_bar):
            kinds.append(y_bar.dtype)
            return (y_bar,)

        return x * 1.0, vjp

    functions = [lambda x: x / 3.0, lambda x: x**2.5, lambda x: ad.where(x > 0, x, 0.0), lambda x: ad.clip(x, 0.0, 2.0)]
    for function in (*functions, ad.log, ad.sqrt, ad.tanh, ad.exp, ad.mean, ad.max, ad.logsumexp, ad.norm, ad.prod):
        ad.sum(spy(function(spy(x)))).backward()
    assert set(kinds) == {np.dtype(np.float32)}


def gradients(function, *arguments):
    value, pullback = ad.vjp(function, *arguments)
    return [g if g is None else g.tolist() for g in pullback(np.ones_like(value))]


@pytest.mark.parametrize("function", [ad.maximum, ad.minimum])
def test_a_tie_is_shared(function):
    x, y = np.array([1.0, 2.0, 3.0]), np.array([1.0, 5.0, 0.0])
    larger = function is ad.maximum
    assert gradients(function, x, y) == [[0.5, 1.0 - larger, 0.0 + larger], [0.5, 0.0 + larger, 1.0 - larger]]


@pytest.mark.parametrize("function", [ad.maximum, ad.minimum])
def test_forward_and_reverse_mode_agree_at_a_tie(function):
    """At a kink both take the same one of the possible derivatives, ½ and ½."""
    _, forward = ad.jvp(function, (np.ones(1), np.ones(1)), (np.array([2.0]), np.array([8.0])))
    assert forward == [5.0]


@pytest.mark.parametrize("function", [ad.maximum, ad.minimum])
def test_nan_is_kept_wherever_it_stands(function):
    nan = np.nan
    assert np.isnan(function(np.array([nan, 1.0, nan]), np.array([1.0, nan, nan]))).all()
    assert gradients(function, np.array([nan, 1.0]), np.array([1.0, nan])) == [[1, 0], [0, 1]]


def test_infinities_tie_without_nan():
    x = np.array([np.inf, -np.inf])
    assert ad.maximum(x, x).tolist() == [np.inf, -np.inf]
    assert ad.maximum(x + 0j, x + 0j).tolist() == [np.inf, -np.inf]


def test_absolute():
    x = np.array([-2.0, -0.0, 0.0, 3.0, np.inf])
    assert ad.absolute(x).tolist() == [2, 0, 0, 3, np.inf]
    assert gradients(ad.absolute, x) == [[-1, 0, 0, 1, 1]]
    assert ad.absolute(-2) == 2
    assert ad.absolute([-1, 2]).tolist() == [1, 2]
    assert ad.absolute(-2 + 1e-100j) == 2 - 1e-100j


@pytest.mark.parametrize("condition", [np.ones(2), [1, 0], Tensor([1.0, 0.0]), np.array([1, 0], np.uint8)])
def test_where_wants_booleans(condition):
    with pytest.raises(TypeError, match=r"where: condition is (float64|int64|uint8); pass booleans, for example x > 0"):
        ad.where(condition, 1.0, 2.0)


def test_where_lets_nothing_through_from_the_other_side():
    x, y = Tensor([np.nan, 1.0], requires_grad=True), Tensor([2.0, np.inf], requires_grad=True)
    z = ad.where([False, True], x, y)
    z.sum().backward()
    assert z.numpy().tolist() == [2, 1]
    assert (x.grad.tolist(), y.grad.tolist()) == ([0, 1], [1, 0])


def test_clip_refuses():
    with pytest.raises(ValueError, match="neither low nor high is given; pass at least one"):
        ad.clip(np.ones(2))


@given(dtype=real_dtypes, seed=seeds)
def test_clip_is_numpys_with_any_bounds(dtype, seed):
    """Bounds in any order, NaN and infinity among x and the bounds; one of the three gets the whole gradient."""
    rng = np.random.default_rng(seed)
    values = np.array([-np.inf, -1, 0, 0.5, 1, np.inf, np.nan], dtype)
    x, low, high = (rng.choice(values, 12) for _ in range(3))
    assert_same_bits(ad.clip(x, low, high), np.clip(x, low, high))
    assert_same_bits(ad.clip(x, low, None), np.clip(x, low, None))
    assert_same_bits(ad.clip(x, None, high), np.clip(x, None, high))
    y, pullback = ad.vjp(ad.clip, x, low, high)
    bars = pullback(np.ones_like(y))
    assert (sum(bars) == 1).all()
    for bar, source in zip(bars, (x, low, high), strict=True):
        assert_same_bits(y[bar == 1], source[bar == 1])


def test_choices_are_made_by_the_real_part():
    """So that x + i h v takes the branch that x takes, exactly at a threshold as well."""
    z = np.array([0 + 1e-100j, 1 - 5e-13j, -1 + 5e-13j])
    assert ad.maximum(z, -z).tolist() == [0, 1 - 5e-13j, 1 - 5e-13j]
    assert ad.clip(z, 0.0, 0.5).tolist() == [1e-100j, 0.5, 0]
    assert ad.absolute(z).tolist() == [0, 1 - 5e-13j, 1 - 5e-13j]


@pytest.mark.parametrize("function", [ad.absolute, ad.norm, ad.var, ad.std])
def test_sizes_of_complex_numbers_are_refused(function):
    """|z| is not holomorphic, and its continuation from the real line, of 3 + 4i that number itself, is no size."""
    with pytest.raises(TypeError, match=rf"^{function.__name__}: x has an imaginary part of size 4; complex x is for"):
        function(np.array([3 + 4j, 1.0]))
