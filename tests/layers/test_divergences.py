"""Kullback-Leibler divergences: never negative, exact where distributions nearly agree, and never NaN."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.layers import divergence
from refnp.layers.divergence import categorical_kl, multivariate_normal_kl, normal_kl, ratio_excess
from refnp.layers.softmax import softmax
from refnp.numbers.rounding import exact, tolerance
from refnp.numbers.words import expm1_less
from refnp.verify.judged_pages import by_page
from tests.helpers import assert_same_bits, assert_within, normal, real_dtypes, seeds
from tests.layers.judges import assert_as_derived, factors
from tests.transcriptions import probability as transcription


@given(
    st.sampled_from([(), (3,), (0,)]), st.integers(0, 4), real_dtypes, seeds, st.sampled_from([1e-9, 1e-4, 0.1, 1.0])
)
def test_multivariate_normal_kl_is_its_equation(batch, n, dtype, seed, distance):
    rng = np.random.default_rng(seed)
    mean_p, factor_p = normal(rng, (*batch, n)), factors(rng, batch, n)
    mean_q = mean_p + distance * normal(rng, (*batch, n))
    factor_q = factor_p * np.exp(distance * normal(rng, (*batch, n, n)))
    arguments = [np.asarray(a, dtype) for a in (mean_p, factor_p, mean_q, factor_q)]
    value, rounded = assert_as_derived(multivariate_normal_kl, by_page(divergence.multivariate_normal_kl), arguments)
    assert_within(value, transcription.multivariate_normal_kl(*arguments), tolerance(rounded, dtype))
    assert (value >= 0).all()


@pytest.mark.parametrize("kl", [normal_kl, multivariate_normal_kl, categorical_kl])
def test_a_distribution_is_at_distance_zero_from_itself(kl):
    """Exactly 0, with gradient exactly 0, whatever the numbers."""
    rng = np.random.default_rng(9)
    p = {
        normal_kl: (normal(rng, 5), np.exp(normal(rng, 5))),
        multivariate_normal_kl: (normal(rng, 5), factors(rng, (), 5)),
        categorical_kl: (normal(rng, 5),),
    }[kl]
    value, pullback = ad.vjp(kl, *p, *p)
    assert not value.any()
    assert not any(g.any() for g in pullback(np.ones(value.shape)))


@given(st.floats(-0.999, 1e6), real_dtypes)
def test_ratio_excess_on_both_branches(t, dtype):
    """h(t) = ½ (r² − 1) − log r with r = 1 + t a ratio of which t is computed."""
    ratio = np.asarray(1 + t, dtype)
    value = ratio_excess(np.asarray(ratio - 1), ratio, np.ones_like(ratio))
    with mpmath.workdps(60):
        r = transcription.exactly(ratio)
        expected = transcription.wide((r**2 - 1) / 2 - mpmath.log(r))
    rounded = ratio_excess(exact(ratio) - 1, exact(ratio), exact(np.ones_like(ratio)))
    assert_within(value, expected, tolerance(rounded, dtype))


@given(st.floats(-1, 1), real_dtypes)
def test_exponential_excess(delta, dtype):
    delta = np.asarray(delta if abs(delta) > 1e-15 else 0, dtype)  # 50 digits are enough for what is left
    with mpmath.workdps(60):
        x = transcription.exactly(delta)
        expected = transcription.wide(mpmath.exp(x) - 1 - x)
    assert_within(expm1_less(delta), expected, 8 * np.finfo(dtype).eps / 2 * expected + np.finfo(dtype).tiny)


def test_ratios_beyond_the_range_of_numbers():
    """σ_p/σ_q = 10⁻⁴⁰⁰ rounds to 0; the divergence is 400 log 10 − ½ all the same, and 10⁴⁰⁰ makes it infinite."""
    value = normal_kl(0.0, 1e-200, 0.0, 1e200)
    assert value == pytest.approx(400 * np.log(10) - 0.5, rel=1e-14)
    with np.errstate(over="ignore"):
        value, pullback = ad.vjp(normal_kl, *(np.array(x) for x in (0.0, 1e200, 0.0, 1e-200)))
        assert value == np.inf
        assert not any(np.isnan(g) for g in pullback(np.ones(())))


def test_impossible_classes():
    """q = 0 where p = 0 is fine; where p > 0 the divergence is +∞, not NaN."""
    p, q = np.array([0.0, 0.0, -np.inf]), np.array([0.0, 1.0, -np.inf])
    value, pullback = ad.vjp(categorical_kl, p, q)
    assert value == categorical_kl(p[:2], q[:2])
    for gradient, expected in zip(
        pullback(np.array(1.0)), ad.vjp(categorical_kl, p[:2], q[:2])[1](np.array(1.0)), strict=True
    ):
        assert_same_bits(gradient[:2], expected)
        assert gradient[2] == 0
    assert categorical_kl(p, np.zeros(3)) == pytest.approx(np.log(1.5), rel=1e-15)
    value, pullback = ad.vjp(categorical_kl, np.zeros(3), q)
    assert value == np.inf
    assert categorical_kl(np.array([0.0, -1e4]), np.array([0.0, -np.inf])) == np.inf
    p_bar, q_bar = pullback(np.array(1.0))
    assert not p_bar.any()
    assert_within(q_bar, softmax(q) - 1 / 3, 1e-15)


def test_nan_is_not_hidden():
    value, pullback = ad.vjp(categorical_kl, np.array([np.nan, 1.0]), np.zeros(2))
    assert np.isnan(value)
    assert np.isnan(pullback(np.array(1.0))[0]).any()


@given(seeds)
def test_a_change_of_coordinates_changes_nothing(seed):
    """y → M y + c for both; a diagonal M leaves the factors triangular, M L, and powers of 2 every digit."""
    rng = np.random.default_rng(seed)
    p, q = (normal(rng, 4), factors(rng, (), 4)), (normal(rng, 4), factors(rng, (), 4))
    scales = 2.0 ** rng.integers(-5, 6, 4)
    moved = [a * scales if a.ndim == 1 else a * scales[:, None] for a in (*p, *q)]
    assert_same_bits(multivariate_normal_kl(*p, *q), multivariate_normal_kl(*moved))


def test_nothing_above_the_diagonal_is_read():
    factor = np.array([[1.0, np.nan], [0.5, 2.0]])
    value, pullback = ad.vjp(multivariate_normal_kl, np.zeros(2), factor, np.ones(2), factor)
    assert value == multivariate_normal_kl(
        np.zeros(2), np.tril(np.nan_to_num(factor)), np.ones(2), np.nan_to_num(factor)
    )
    _, p_bar, _, q_bar = pullback(np.array(1.0))
    assert not np.triu(p_bar, 1).any()
    assert not np.triu(q_bar, 1).any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: multivariate_normal_kl(np.zeros(2), np.eye(2), np.zeros(2), -np.eye(2)),
            "diagonal of the factor holds -1",
        ),
        (lambda: categorical_kl(np.zeros(2), np.full(2, -np.inf)), "are all −∞"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
