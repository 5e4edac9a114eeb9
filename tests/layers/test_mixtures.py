"""Mixtures of normal distributions: the density, its moments, and samples that are coherent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.layers import density
from refnp.layers.distributions import Normal
from refnp.layers.mixture import Mixture, log_mean_exp
from refnp.layers.student_t import StudentT
from refnp.numbers import rounding
from refnp.numbers.rounding import WIDE, constant, exact, tolerance
from refnp.verify.judged_pages import by_page
from refnp.verify.layers.losses import GAUSSIAN_NLL
from tests.helpers import assert_same_bits, assert_within, check, normal, real_dtypes, seeds

counts = st.integers(1, 5)
elements = st.lists(st.integers(0, 3), max_size=3).map(tuple)


def drawn(seed, k, shape, dtype=np.float64):
    """Means and standard deviations (K, *shape), y and a mask of `shape`."""
    rng = np.random.default_rng(seed)
    mean, std = normal(rng, (k, *shape), dtype), np.exp(normal(rng, (k, *shape), dtype))
    return mean, std, normal(rng, shape, dtype), rng.random(shape) < 0.7


def rounded_mean(x):
    return x.sum((0,)) / x.shape[0]


def rounded_log_prob(mean, std, y, mask, together):
    terms, _ = GAUSSIAN_NLL.equation(
        exact(mean), exact(std), exact(y), mask=np.broadcast_to(mask, mean.shape), reduction="none"
    )
    log_p = -terms.sum(tuple(range(mean.ndim - together, mean.ndim)))
    largest = log_p.value.max(0)
    return rounding.log(rounding.exp(log_p - largest).sum((0,))) + largest - constant(np.log(WIDE(len(mean))))


@given(seeds, counts, elements, real_dtypes, st.data())
def test_log_prob(seed, k, shape, dtype, data):
    together = data.draw(st.integers(0, len(shape)))
    mean, std, y, mask = drawn(seed, k, shape, dtype)
    mixture = Mixture(Normal(mean, std), together=together)
    limit = rounded_log_prob(mean, std, y, mask, together)
    log_p = mixture.log_prob(y, mask=mask)
    assert log_p.dtype == dtype
    assert log_p.shape == mixture.shape == shape[: len(shape) - together]
    assert_within(log_p, limit.value, tolerance(limit, dtype))


@given(seeds, counts, elements, real_dtypes)
def test_moments(seed, k, shape, dtype):
    """μ is the mean of means, σ² = E σ_k² + Var μ_k; and the cdf a mean."""
    mean, std, y, _ = drawn(seed, k, shape, dtype)
    mixture = Mixture(Normal(mean, std))
    mu, s = exact(mean), exact(std)
    centre = rounded_mean(mu)
    away = mu - centre
    spread = rounding.sqrt(rounded_mean(s * s + away * away))
    below = rounded_mean(by_page(density.normal_cdf)(exact(y), mu, s)[0])
    for value, limit in ((mixture.mean, centre), (mixture.std, spread), (mixture.cdf(y), below)):
        assert value.dtype == dtype
        assert_within(value, limit.value, tolerance(limit, dtype))


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_deviations_of_any_size(scale):
    """σ is scaled as μ_k and σ_k are, though their squares are 0 or infinite; and its gradient stays."""
    mean, std, *_ = drawn(1, 3, (4,))
    sigma = lambda mean, std: Mixture(Normal(mean, std)).std
    (value, pullback), (right, expected) = ad.vjp(sigma, scale * mean, scale * std), ad.vjp(sigma, mean, std)
    assert_within(value / scale, right, 1e-14)
    for bar, right_bar in zip(pullback(np.ones(4)), expected(np.ones(4)), strict=True):
        assert_within(bar, right_bar, 1e-14)


def test_one_component_is_that_component():
    mean, std, y, _ = drawn(0, 1, (3, 2))
    mixture, alone = Mixture(Normal(mean, std)), Normal(mean[0], std[0])
    assert_same_bits(mixture.log_prob(y), alone.log_prob(y))
    assert_same_bits(mixture.mean, mean[0])


def test_joint_and_marginals_are_different_things():
    """A choice that all share: y = (−1, −1) or (1, 1) is probable, (−1, 1) is not, though each number is."""
    mixture = Mixture(Normal(np.array([[-1.0, -1.0], [1.0, 1.0]]), 0.1), together=1)
    same, mixed = np.array([1.0, 1.0]), np.array([-1.0, 1.0])
    assert mixture.log_prob(same) > 2
    assert mixture.log_prob(mixed) < -100
    assert_same_bits(mixture.marginals().log_prob(same), mixture.marginals().log_prob(mixed))
    assert mixture.marginals().shape == (2,)


def test_samples_choose_once_for_what_belongs_together():
    mean = np.array([[-1.0, -1.0], [1.0, 1.0]])
    together = Mixture(Normal(mean, 1e-3), together=1).sample(np.random.default_rng(0), 200)
    alone = Mixture(Normal(mean, 1e-3)).sample(np.random.default_rng(0), 200)
    assert (np.sign(together[:, 0]) == np.sign(together[:, 1])).all()
    assert (np.sign(alone[:, 0]) != np.sign(alone[:, 1])).any()
    assert {-1, 1} == set(np.sign(together[:, 0]))


def test_given_choices_and_noise():
    """Both, or one of them with a generator for the other."""
    rng = np.random.default_rng(0)
    mean, noise = rng.standard_normal((3, 2, 4)), rng.standard_normal((5, 2, 4))
    mixture, chosen = Mixture(Normal(mean, 0.5), together=1), rng.integers(3, size=(5, 2))
    expected = mean[chosen, np.arange(2)] + 0.5 * noise
    assert_same_bits(mixture.sample(shape=5, chosen=chosen, epsilon=noise), expected)
    drawn = np.random.default_rng(3).integers(3, size=(5, 2))
    found = mixture.sample(np.random.default_rng(3), 5, epsilon=noise)
    assert_same_bits(found, mean[drawn, np.arange(2)] + 0.5 * noise)
    found = mixture.sample(np.random.default_rng(3), 5, chosen=chosen)
    noise = np.random.default_rng(3).standard_normal((5, 2, 4))
    assert_same_bits(found, mean[chosen, np.arange(2)] + 0.5 * noise)


@pytest.mark.parametrize(
    ("given_", "error", "message"),
    [
        ({"chosen": np.zeros(2, int)}, TypeError, "Mixture.sample: rng is NoneType"),
        ({"epsilon": np.zeros((2, 4))}, TypeError, "Mixture.sample: rng is NoneType"),
        (
            {"chosen": np.zeros(2), "epsilon": np.zeros((2, 4))},
            TypeError,
            "chosen is float64 .*; pass integers, the numbers",
        ),
        ({"chosen": [0, 3], "epsilon": np.zeros((2, 4))}, ValueError, "chosen holds 0 to 3; components are 0 to 2"),
        ({"chosen": [0], "epsilon": np.zeros((2, 4))}, ValueError, r"chosen has shape \(1,\); it must be \(2,\)"),
        ({"chosen": [0, 1], "epsilon": np.zeros(4)}, ValueError, r"epsilon has shape \(4,\); it must be \(2, 4\)"),
        (
            {"rng": np.random.default_rng(0), "chosen": [0, 1], "epsilon": np.zeros((2, 4))},
            ValueError,
            "nothing is left to be drawn",
        ),
    ],
)
def test_errors_of_what_is_given(given_, error, message):
    with pytest.raises(error, match=message):
        Mixture(Normal(np.zeros((3, 2, 4)), 1.0), together=1).sample(**given_)


def test_samples_have_the_moments():
    """Within five standard errors, of means and variances: a correct sampler fails once in 10⁵ seeds."""
    mean, std, *_ = drawn(1, 3, (2, 2))
    mixture, n = Mixture(Normal(mean, std), together=2), 20_000
    y = mixture.sample(np.random.default_rng(0), n)
    assert y.shape == (n, 2, 2)
    assert (abs(y.mean(0) - mixture.mean) < 5 * mixture.std / n**0.5).all()
    square = (y - mixture.mean) ** 2
    assert (abs(square.mean(0) - mixture.std**2) < 5 * square.std(0) / n**0.5).all()


@pytest.mark.parametrize("together", [0, 1])
def test_gradients_of_samples(together):
    """∂y/∂μ_k is 1 for the component that was drawn."""
    mean, std = normal(0, (3, 2, 2)), np.random.default_rng(0).uniform(1, 2, (3, 2, 2))

    def sample(mean, std):
        return Mixture(Normal(mean, std), together=together).sample(np.random.default_rng(0), 4)

    check(sample, (mean, std))
    total = ad.grad(lambda m: ad.sum(sample(m, std)))(mean)
    assert total.sum() == 16


def test_what_is_hidden_is_not_looked_at():
    mean, std, y, mask = drawn(2, 3, (2, 3))
    y_nan = np.where(mask, y, np.nan)
    mixture = Mixture(Normal(mean, std), together=1)
    assert_same_bits(mixture.log_prob(y_nan, mask=mask), mixture.log_prob(y, mask=mask))
    assert (mixture.log_prob(y_nan, mask=np.zeros_like(mask)) == 0).all()


def test_log_mean_exp_does_not_overflow():
    assert log_mean_exp(np.array([1e4, 1e4])) == 1e4
    assert log_mean_exp(np.array([-1e4, -1e4])) == -1e4
    assert log_mean_exp(np.array([-np.inf, 0.0])) == -np.log(2)


@pytest.mark.parametrize(
    ("shape", "together", "message"),
    [
        ((), 0, r"together is 0, components have shape \(\); the first axis, of components, must hold one.*"),
        ((0, 2), 0, r"together is 0, components have shape \(0, 2\); .*"),
        ((3, 2), 2, r"together is 2, components have shape \(3, 2\); .* is not together"),
    ],
)
def test_errors(shape, together, message):
    with pytest.raises(ValueError, match=rf"^Mixture: {message}$"):
        Mixture(Normal(np.zeros(shape), 1.0), together=together)


@pytest.mark.parametrize("shape", [(3, 2, 4), (5, 2, 4), (5, 1, 2, 4), (3,)])
def test_values_that_do_not_fit(shape):
    """(3, 2, 4) would compare each of its rows with another of the three components."""
    mixture = Mixture(Normal(np.zeros((3, 2, 4)), 1.0), together=1)
    for name in ("log_prob", "cdf"):
        with pytest.raises(ValueError, match=rf"^Mixture\.{name}: y has shape .* = \(2, 4\)$"):
            getattr(mixture, name)(np.zeros(shape))


def test_components_are_normal():
    """A scale is no standard deviation: of others mean, std and samples would be those of a normal one."""
    with pytest.raises(TypeError, match="Mixture: components is a StudentT; it must be a Normal"):
        Mixture(StudentT(np.array([3.0, 4.0])))
