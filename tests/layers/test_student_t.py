"""Student's t: its equation from Cauchy's distribution to the normal one, both tails, and what is refused."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.layers import Normal, StudentT
from refnp.layers.student_t import FAR, gamma_ratio, student_t_entropy, student_t_log_prob
from tests.helpers import assert_same_bits
from tests.transcriptions import probability as transcription


@pytest.mark.parametrize("a", [1e-9, 0.01, 0.24, 0.26, 1.0, 5.0, FAR - 0.1, FAR, 1e3, 1e9])
def test_the_ratio_of_gammas_keeps_its_digits(a):
    """s, s′ and a s″ against differences of log Γ and its derivatives with 80 digits."""
    with mpmath.workdps(80):
        b = mpmath.mpf(a)
        half = b + mpmath.mpf(1) / 2
        expected = (
            mpmath.loggamma(half) - mpmath.loggamma(b) - mpmath.log(b) / 2,
            mpmath.digamma(half) - mpmath.digamma(b) - 1 / (2 * b),
            b * (mpmath.psi(1, half) - mpmath.psi(1, b) + 1 / (2 * b**2)),
        )
        for found, right in zip(gamma_ratio(np.float64(a)), expected, strict=True):
            assert abs(mpmath.mpf(float(found)) / right - 1) < 64 * np.finfo(float).eps


@given(st.sampled_from([0.1, 1.0, 3.0, 100.0, 1e8]), st.sampled_from([1e-3, 1.0, 1e3]))
def test_entropy_is_its_equation(nu, scale):
    expected = transcription.student_t_entropy(np.array(nu), np.array(scale))
    assert abs(StudentT(nu, 0.0, scale).entropy() - expected) <= 64 * np.finfo(float).eps * max(abs(expected), 1)


@pytest.mark.parametrize(
    ("dtype", "nu"), [(np.float32, 1e16), (np.float32, 1e18), (np.float64, 1e120), (np.float64, 1e153)]
)
def test_the_slope_of_entropy_where_powers_of_many_degrees_of_freedom_are_out_of_range(dtype, nu):
    """−1/ν² (1 + O(1/ν)), though ν³ is infinite and s″ = −2/ν³ is 0."""
    _, pullback = ad.vjp(student_t_entropy, np.array(nu, dtype), np.array(1, dtype))
    nu_bar, _ = pullback(np.array(1, dtype))
    assert abs(nu_bar * np.longdouble(nu) * np.longdouble(nu) + 1) < 8 * np.finfo(dtype).eps


def test_one_degree_of_freedom_is_cauchy_and_many_are_normal():
    y = np.linspace(-5, 5, 11)
    cauchy = -np.log(np.pi) - np.log1p(y * y)
    assert np.abs(StudentT(1.0).log_prob(y) - cauchy).max() < 1e-14
    assert np.abs(StudentT(1e12).log_prob(y) - Normal(0.0, 1.0).log_prob(y)).max() < 1e-9


def test_far_tails_are_finite():
    """z² overflows; log p = s − ½ log 2π − ½ (ν + 1) (2 log|z| − log ν) does not, nor do its gradients."""
    value, pullback = ad.vjp(student_t_log_prob, np.array([1e200, -1e200]), np.array(2.0), np.array(0.0), np.array(1.0))
    assert np.abs(value + 3 * np.log(1e200) - np.log(2) - np.log(0.5) * 1).max() < 1e-9 * 1e3
    y_bar, nu_bar, mean_bar, scale_bar = pullback(np.ones(2))
    assert np.abs(y_bar * [1e200, -1e200] + 3).max() < 1e-12
    assert np.isfinite([nu_bar, mean_bar]).all()
    assert abs(scale_bar - 4) < 1e-12


def test_moments_and_samples():
    law = StudentT(np.array([0.5, 1.5, 4.0]), 2.0, 3.0)
    assert_same_bits(law.mean, np.array([np.nan, 2.0, 2.0]))
    assert law.std.tolist()[1:] == [np.inf, 3 * 2**0.5]
    assert np.isnan(law.std[0])
    draws = StudentT(5.0, 2.0, 3.0).sample(np.random.default_rng(0), (4, 100_000))
    assert draws.shape == (4, 100_000)
    assert np.abs(draws.mean(-1) - 2).max() < 5 * 3 * (5 / 3) ** 0.5 / 100_000**0.5
    location = ad.Tensor(np.float32(1.0), requires_grad=True)
    sample = StudentT(np.float32(3.0), location, np.float32(2.0)).sample(np.random.default_rng(1), 7)
    assert sample.dtype == np.float32
    sample.backward(np.ones(7, np.float32))
    assert location.grad == 7


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: StudentT(0.0), ValueError, "degrees_of_freedom holds 0.0; it must be positive and finite"),
        (lambda: StudentT(1.0, 0.0, -1.0), ValueError, "scale holds -1.0; it must be positive and finite"),
        (lambda: StudentT(np.ones(2), np.ones(3)), ValueError, "do not broadcast"),
        (lambda: StudentT(1.0).sample(3), TypeError, "rng is int"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()
