"""The densities behind the distributions: against many digits, the complex step, and derived bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.layers import density
from refnp.layers.density import categorical_entropy, low_rank_normal_log_prob, multivariate_normal_log_prob, normal_cdf
from refnp.layers.divergence import multivariate_normal_kl
from refnp.layers.multivariate_normal import MultivariateNormal
from refnp.numbers.rounding import tolerance
from refnp.verify.judged_pages import by_page
from tests.helpers import assert_same_bits, assert_within, seeds
from tests.layers.judges import assert_as_derived
from tests.transcriptions import probability as transcription


def test_normal_cdf_far_out():
    """Φ(−30) = 4.9067e-198 has its digits, Φ(−10²⁰⁰) is 0, and gradients there are 0, not NaN."""
    assert normal_cdf(-30.0, 0.0, 1.0) == pytest.approx(4.906713927148187e-198, rel=1e-13)
    with np.errstate(over="ignore"):
        value, pullback = ad.vjp(normal_cdf, np.array([-1e200, 1e200]), np.zeros(2), np.array([1e-200, 1e-200]))
    assert_same_bits(value, np.array([0.0, 1.0]))
    assert not any(np.any(g) for g in pullback(np.ones(2)))


def test_little_noise_costs_no_digits_of_the_square():
    """y in the span of F and noise of 1e-6: the difference |r|² − |L⁻¹ Aᵀ r|² is worse by a factor of a hundred."""
    rng = np.random.default_rng(0)
    factor, std, mean = rng.standard_normal((8, 2)), np.full(8, 1e-6), np.zeros(8)
    y = factor @ np.array([0.3, -0.5])
    value, rounded = assert_as_derived(
        low_rank_normal_log_prob, by_page(density.low_rank_normal_log_prob), [y, mean, factor, std]
    )
    reference = transcription.low_rank_normal_log_prob(y, mean, factor, std)
    assert_within(value, reference, tolerance(rounded, np.float64))
    a, r = factor / std[:, None], y / std
    w = np.linalg.solve(np.eye(2) + a.T @ a, a.T @ r)
    squares, difference = np.square(r - a @ w).sum() + w @ w, r @ r - r @ a @ w
    assert abs(difference - squares) / 2 > 100 * abs(value - reference)


def test_nothing_above_the_diagonal_is_read():
    y, mean, factor = np.ones(3), np.zeros(3), np.array([[2, np.nan, 1], [1, 3, np.inf], [0, 1, 1.0]])
    value, pullback = ad.vjp(multivariate_normal_log_prob, y, mean, factor)
    assert value == multivariate_normal_log_prob(y, mean, np.tril(np.nan_to_num(factor)))
    assert not np.triu(pullback(np.array(1.0))[2], 1).any()


def test_entropy_of_impossible_classes():
    """p log p is 0 at p = 0, and so is its gradient: exactly −∞, or a probability that underflows."""
    for bottom in (-np.inf, -1e4):
        value, pullback = ad.vjp(categorical_entropy, np.array([0.0, bottom, 0.0]))
        assert value == np.log(2)
        assert_same_bits(np.abs(pullback(np.array(1.0))[0]), np.zeros(3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: multivariate_normal_log_prob(np.zeros(2), np.zeros(2), np.diag([1.0, 0])),
            "diagonal of the factor holds 0",
        ),
        (lambda: categorical_entropy(np.array([[0, 1], [-np.inf, -np.inf]])), r"logits\[1\] are all −∞"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@given(st.integers(2, 12), st.sampled_from([np.float32, np.float64, np.longdouble]), st.booleans(), seeds)
def test_a_covariance_in_place_of_its_factor_is_refused_and_no_factor_is(n, dtype, batched, seed):
    """What stands above the diagonal is not read: a factor may have anything there, but for its own mirror image."""
    rng = np.random.default_rng(seed)
    lower = np.tril(rng.normal(size=(*[3] * batched, n, n)), -1) + np.eye(n) * rng.uniform(0.5, 2, n)
    covariance, factor = (lower @ lower.swapaxes(-1, -2)).astype(dtype), lower.astype(dtype)
    junk = factor + np.triu(rng.normal(size=(n, n)), 1).astype(dtype)
    y, side = rng.normal(size=n).astype(dtype), rng.normal(size=(n, 2)).astype(dtype)
    takers = {
        "MultivariateNormal": lambda f: MultivariateNormal(y, f).entropy(),
        "multivariate_normal_log_prob": lambda f: multivariate_normal_log_prob(y, 2 * y, f),
        "multivariate_normal_kl": lambda f: multivariate_normal_kl(y, factor, y, f),
        "cholesky_solve": lambda f: ad.cholesky_solve(f, side),
        "log_determinant": ad.log_determinant,
    }
    for name, take in takers.items():
        with pytest.raises(ValueError, match=rf"{name}: .*factor is symmetric, as a covariance is; pass its Cholesky"):
            take(covariance)
        right = take(factor)
        np.testing.assert_array_equal(take(junk), right)
        take(np.eye(n, dtype=dtype) * 2)
    with pytest.raises(ValueError, match="cholesky: a is lower triangular, as a factor is; pass the covariance"):
        ad.cholesky(factor)
    np.testing.assert_array_equal(ad.cholesky(np.eye(n, dtype=dtype)), np.eye(n, dtype=dtype))
