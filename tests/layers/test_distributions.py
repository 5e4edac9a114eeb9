"""Distributions: what they answer, that samples are theirs, masks, Tensors, and PyTorch's opinion."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.layers import density
from refnp.layers.distributions import Categorical, Normal, kl_divergence
from refnp.layers.mixture import Mixture
from refnp.layers.multivariate_normal import LowRankNormal, MultivariateNormal
from refnp.layers.softmax import softmax
from refnp.layers.student_t import StudentT
from refnp.numbers.rounding import exact, tolerance
from refnp.verify.judged_pages import by_page
from refnp.verify.layers.losses import CROSS_ENTROPY
from tests.helpers import REAL, assert_same_bits, assert_within, normal, real_dtypes, seeds
from tests.layers.judges import factors
from tests.transcriptions import probability as transcription

MEAN, STD, Y = np.array([0.0, 1.0, -2.0]), np.array([1.0, 0.5, 3.0]), np.array([0.5, 1.0, 4.0])


def joint(seed, n=4, batch=()):
    rng = np.random.default_rng(seed)
    return normal(rng, (*batch, n)), np.tril(factors(rng, batch, n)), normal(rng, (*batch, n))


# Normal


def test_normal_by_its_formula():
    p = Normal(MEAN, STD)
    u = np.finfo(float).eps
    assert_within(p.log_prob(Y), -transcription.gaussian_nll(MEAN, STD, Y), 16 * u)
    assert_within(p.entropy(), transcription.normal_entropy(MEAN, STD), 16 * u)
    assert_within(p.cdf(Y), transcription.normal_cdf(Y, MEAN, STD), 16 * u)
    assert p.shape == (3,)


@pytest.mark.parametrize(
    "law", [Normal, lambda mean, std: StudentT(3.0, mean, std), lambda *both: Mixture(Normal(*both))]
)
def test_parameters_neither_of_which_has_the_shape_of_both(law):
    mean, std = MEAN[:, None], STD
    p, full = law(mean, std), law(*map(np.array, np.broadcast_arrays(mean, std)))
    assert_same_bits(p.log_prob(0.5), full.log_prob(0.5))
    mean_bar, std_bar = ad.grad(lambda mean, std: ad.sum(law(mean, std).log_prob(0.5)), (0, 1))(mean, std)
    assert (mean_bar.shape, std_bar.shape) == (mean.shape, std.shape)
    if law is Normal:
        assert_same_bits(p.cdf(0.5), full.cdf(0.5))
        assert_same_bits(kl_divergence(p, p), np.zeros((3, 3)))


@given(seeds, real_dtypes)
def test_sample_is_mean_plus_std_times_noise(seed, dtype):
    """One stream of noise for every precision, and the gradient of σ is the noise."""
    p = Normal(MEAN.astype(dtype), STD.astype(dtype))
    noise = np.random.default_rng(seed).standard_normal((2, 3)).astype(dtype)
    sample = p.sample(np.random.default_rng(seed), 2)
    assert_same_bits(sample, p.mean + p.std * noise)
    mean_bar, std_bar = ad.vjp(
        lambda m, s: Normal(m, s).sample(np.random.default_rng(seed), (2,)), p.mean, p.std
    )[1](np.ones((2, 3), dtype))  # fmt: skip
    assert_same_bits(mean_bar, np.full(3, 2, dtype))
    assert_same_bits(std_bar, noise.sum(0))


CASES = {
    "Normal": (Normal(MEAN, STD), MEAN.shape),
    "MultivariateNormal": (MultivariateNormal(MEAN, np.tril(np.ones((3, 3)))), MEAN.shape),
    "LowRankNormal": (LowRankNormal(MEAN, np.ones((3, 2)), STD), (5,)),
    "Categorical": (Categorical(MEAN), MEAN.shape),
}


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize("shape", [(), 2, (2, 1)])
def test_given_noise_is_the_noise(name, shape):
    """As if a generator had drawn it: the same numbers."""
    p, elements = CASES[name]
    rng, all_axes = np.random.default_rng(5), (*(np.atleast_1d(shape).astype(int) if shape != () else ()), *elements)
    noise = rng.gumbel(size=all_axes) if name == "Categorical" else rng.standard_normal(all_axes)
    assert_same_bits(p.sample(shape=shape, epsilon=noise), p.sample(np.random.default_rng(5), shape))
    with pytest.raises(ValueError, match=rf"^{name}.sample: rng and epsilon are both given; pass one of them$"):
        p.sample(rng, shape, epsilon=noise)
    with pytest.raises(ValueError, match=rf"^{name}.sample: epsilon has shape .*; it must be .*, the draws in front$"):
        p.sample(shape=(7, 7), epsilon=noise)
    with pytest.raises(TypeError, match=rf"^{name}.sample: rng is NoneType; pass numpy.random.default_rng"):
        p.sample()


def test_given_noise_of_functions_and_of_what_each_number_has():
    """K numbers of ε, and N of ε′ after them; without ε′ it is the function."""
    rng = np.random.default_rng(0)
    p = LowRankNormal(MEAN, rng.standard_normal((3, 2)), STD)
    noise = rng.standard_normal((4, 5))
    assert_same_bits(p.sample(shape=4, epsilon=noise), p.functions(shape=4, epsilon=noise[:, :2]) + STD * noise[:, 2:])
    drawn = np.random.default_rng(5).standard_normal((4, 2))
    assert_same_bits(p.functions(shape=4, epsilon=drawn), p.functions(np.random.default_rng(5), 4))
    with pytest.raises(
        ValueError, match=r"^LowRankNormal.functions: epsilon has shape \(4, 5\); it must be \(4, 2\), the"
    ):
        p.functions(shape=4, epsilon=noise)


# MultivariateNormal


@given(seeds, st.sampled_from(REAL), st.integers(0, 5))
def test_multivariate_normal_by_its_formula(seed, dtype, n):
    mean, factor, y = (a.astype(dtype) for a in joint(seed, n, (2,)))
    p = MultivariateNormal(mean, factor)
    rounded, _ = by_page(density.multivariate_normal_log_prob)(*map(exact, (y, mean, factor)))
    assert_within(p.log_prob(y), transcription.multivariate_normal_log_prob(y, mean, factor), tolerance(rounded, dtype))
    at_mean = by_page(density.multivariate_normal_log_prob)(*map(exact, (mean, mean, factor)))[0]
    entropy = n / 2 - transcription.multivariate_normal_log_prob(mean, mean, factor)  # −log p(μ) + N/2
    assert_within(p.entropy(), entropy, tolerance(at_mean + n / 2, dtype))
    assert p.shape == (2,)


@given(seeds)
def test_covariance_and_marginals_agree(seed):
    mean, factor, _ = joint(seed, 4, (2,))
    p = MultivariateNormal(mean, factor)
    covariance = p.covariance()
    assert_within(covariance, covariance.swapaxes(-1, -2), 0)
    variance = np.diagonal(covariance, axis1=-2, axis2=-1)
    assert_within(p.marginals().std ** 2, variance, 16 * np.finfo(float).eps * variance)
    assert_same_bits(p.marginals().mean, mean)


def test_joint_is_not_the_sum_of_marginals_unless_independent():
    """A claim that is false: they agree for a diagonal factor and for no other."""
    mean, factor, y = joint(3)
    p, independent = MultivariateNormal(mean, factor), MultivariateNormal(mean, np.diag(np.diag(factor)))
    assert abs(p.log_prob(y) - p.marginals().log_prob(y).sum()) > 0.1
    together = independent.marginals().log_prob(y).sum()
    assert abs(independent.log_prob(y) - together) <= 64 * np.finfo(float).eps * abs(together)


@given(seeds, st.sampled_from([np.nan, np.inf, 1.0]), st.booleans())
def test_masked_joint_is_the_joint_of_the_rest(seed, poison, padded):
    """Against the covariance with rows and columns struck out; what stood there does not matter, nor NaN in it."""
    rng = np.random.default_rng(seed)
    mean, factor, y = joint(seed, 5)
    counts = np.arange(5) < rng.integers(0, 6) if padded else rng.random(5) < 0.5
    poisoned = [np.where(counts, a, poison) for a in (mean, y)]
    hidden = np.arange(1.0, 6) if poison == 1 else np.nan  # numbers, but no symmetric matrix, where no row counts
    p = MultivariateNormal(poisoned[0], np.where(counts[:, None], factor, hidden))
    value, pullback = ad.vjp(
        lambda m, f, y: MultivariateNormal(m, f).log_prob(y, mask=counts), p.mean, p.cholesky_factor, poisoned[1]
    )
    rest = np.linalg.cholesky((factor @ factor.T)[np.ix_(counts, counts)])
    expected = MultivariateNormal(mean[counts], rest).log_prob(y[counts])
    condition = np.linalg.cond(factor) ** 2
    assert_within(value, expected, 5**2 * 4 * np.finfo(float).eps * condition * (5 + abs(expected)))
    for gradient in pullback(np.ones(())):
        assert np.isfinite(gradient).all()
        assert not gradient[~counts].any()


def test_those_that_lean_on_nobody_hidden_keep_their_factor():
    """One of eight hidden in the middle, uncorrelated with the others: the same sums as without it, in another order.

    Seven numbers that are nearly the same: L Lᵀ made anew in float32 loses what they differ by.
    """
    counts = np.arange(8) != 3
    factor = np.diag(np.full(8, 3e-3, np.float32))
    factor[:, 0] = 1
    y = (factor @ np.random.default_rng(0).standard_normal(8)).astype(np.float32)
    rest = MultivariateNormal(np.zeros(7, np.float32), factor[np.ix_(counts, counts)]).log_prob(y[counts])
    found = MultivariateNormal(np.zeros(8, np.float32), factor).log_prob(y, mask=counts)
    assert abs(found - rest) <= 8 * np.finfo(np.float32).eps * abs(rest)  # sums of 7 and of 8 terms
    factor[4:, 3] = 1e-20  # so little is no leaning, but it is not nothing
    anew = MultivariateNormal(np.zeros(8, np.float32), factor).log_prob(y, mask=counts)
    assert abs(anew - rest) > 1e-4 * abs(rest)  # what is avoided


def test_everything_masked_is_certain():
    mean, factor, y = joint(1)
    assert MultivariateNormal(mean, factor).log_prob(y, mask=np.zeros(4, bool)) == 0
    assert not Normal(mean, 1.0).log_prob(y * np.nan, mask=np.zeros(4, bool)).any()


# LowRankNormal


def low_rank(seed=0, n=4, rank=2, batch=()):
    """mean, factor, std and y."""
    rng = np.random.default_rng(seed)
    mean, y = rng.standard_normal((2, *batch, n))
    return mean, rng.standard_normal((*batch, n, rank)), np.exp(rng.standard_normal((*batch, n))), y


@given(seeds, st.integers(1, 4), st.integers(1, 8))
def test_large_factors_of_rank_above_their_number(seed, n, rank):
    """The 1 in I + AᵀA is not lost beside squares of A: of rank above N, and near 1e4, AᵀA has no Cholesky factor."""
    mean, factor, std, y = (a.astype(np.float32) for a in low_rank(seed, n, rank))
    value = LowRankNormal(mean, 1e4 * factor, std).log_prob(y)
    reference = transcription.low_rank_normal_log_prob(y, mean, 1e4 * factor, std)
    off = np.finfo(np.float32).eps * np.linalg.cond(np.vstack([1e4 * factor / std[:, None], np.eye(rank)]))
    assert_within(value, reference, 8 * (n + rank) * off * (1 + abs(reference)))


@given(seeds)
def test_a_low_rank_normal_is_the_dense_one(seed):
    """Covariance, marginals, density and entropy of the same distribution by its Cholesky factor."""
    mean, factor, std, y = low_rank(seed, 5, 2, (2,))
    p = LowRankNormal(mean, factor, std)
    dense, covariance = p.dense(), p.covariance()
    assert_within(dense.covariance(), covariance, 32 * np.finfo(float).eps * np.abs(covariance).max())
    variance = np.diagonal(covariance, axis1=-2, axis2=-1)
    assert_within(p.marginals().std ** 2, variance, 16 * np.finfo(float).eps * variance)
    condition = np.linalg.cond(covariance)[:, None]
    for a, b in ((p.log_prob(y), dense.log_prob(y)), (p.entropy(), dense.entropy())):
        assert_within(a, b, 5**2 * 4 * np.finfo(float).eps * condition[:, 0] * (5 + abs(b)))


@given(seeds, st.sampled_from([np.nan, np.inf, 1.0]))
def test_masked_low_rank_is_that_of_the_rest(seed, poison):
    """Rows that do not count are struck out; what stood there does not matter, nor NaN in it."""
    rng = np.random.default_rng(seed)
    mean, factor, std, y = low_rank(seed, 5)
    counts = rng.random(5) < 0.5
    hidden = [np.where(counts, a, poison) for a in (mean, y)]
    rows = np.where(counts[:, None], factor, poison), np.where(counts, std, 1.0 if poison == np.inf else poison)
    value, pullback = ad.vjp(
        lambda m, f, s, y: LowRankNormal(m, f, s).log_prob(y, mask=counts), hidden[0], *rows, hidden[1]
    )
    rest = [a[counts] for a in (y, mean, factor, std)]
    rounded, _ = by_page(density.low_rank_normal_log_prob)(*map(exact, rest))
    # the struck rows add sums of 0 and 5/2 log 2π taken away again
    assert_within(value, rounded.value, 2 * tolerance(rounded, np.float64) + 64 * np.finfo(float).eps)
    for gradient in pullback(np.ones(())):
        assert np.isfinite(gradient).all()
        assert not gradient[~counts].any()


# Categorical


@given(seeds, real_dtypes, st.integers(1, 5))
def test_categorical_by_its_formula(seed, dtype, classes):
    logits = normal(seed, (2, 3, classes), dtype)
    p = Categorical(logits)
    rounded, _ = CROSS_ENTROPY.equation(exact(logits), targets=np.zeros((2, 3), int), reduction="none")
    assert_within(
        p.log_prob(0), -transcription.cross_entropy(logits, np.zeros((2, 3), int))[0], tolerance(rounded, dtype)
    )
    assert_same_bits(p.probabilities(), softmax(logits))
    assert_same_bits(p.mode(), logits.argmax(-1))
    assert p.log_prob(np.zeros((4, 1, 1), int)).shape == (4, 2, 3)
    assert p.entropy().dtype == dtype
    assert p.shape == (2, 3)


def test_categorical_mask():
    """Classes and logits that do not count may be anything; a class −1 that counts is refused."""
    logits = np.array([[0.0, 0.0], [np.nan, np.nan]])
    value, pullback = ad.vjp(lambda x: Categorical(x).log_prob(np.array([1, 99]), mask=np.array([True, False])), logits)
    assert_within(value, np.array([-np.log(2), 0.0]), 0)
    assert_within(pullback(np.ones(2))[0], np.array([[-0.5, 0.5], [0, 0]]), 0)
    with pytest.raises(ValueError, match=r"targets holds -1 at \[0\]"):
        Categorical(logits).log_prob(np.array([-1, 0]), mask=np.array([True, False]))


def test_categorical_samples_follow_the_distribution():
    """10⁵ seeded draws within 5 standard errors; an impossible class never comes."""
    p, count = Categorical(np.array([[0.0, 1.0, -np.inf], [5.0, 5.0, 5.0]])), 100_000
    draws = p.sample(np.random.default_rng(0), count)
    assert draws.shape == (count, 2)
    assert draws.dtype.kind == "i"
    frequencies = (draws[..., None] == np.arange(3)).mean(0)
    expected = p.probabilities()
    assert_within(frequencies, expected, 5 * np.sqrt(expected * (1 - expected) / count))


# All of them


def distributions(wrap=np.asarray):
    mean, factor, _ = joint(7, 3)
    return [
        (Normal(wrap(MEAN), wrap(STD)), Normal(wrap(Y), wrap(STD[::-1].copy()))),
        (MultivariateNormal(wrap(mean), wrap(factor)), MultivariateNormal(wrap(MEAN), wrap(np.diag(STD)))),
        (Categorical(wrap(MEAN)), Categorical(wrap(Y))),
    ]


LOW_RANK = low_rank(2, 3)[:3]
SAMPLED = {
    "Normal": (Normal(MEAN, STD), np.diag(STD**2)),
    "MultivariateNormal": (MultivariateNormal(*joint(2, 3)[:2]), joint(2, 3)[1] @ joint(2, 3)[1].T),
    "LowRankNormal": (LowRankNormal(*LOW_RANK), LowRankNormal(*LOW_RANK).covariance()),
    "LowRankNormal.functions": (LowRankNormal(*LOW_RANK), LOW_RANK[1] @ LOW_RANK[1].T),
}


@pytest.mark.parametrize("name", SAMPLED)
def test_samples_follow_the_distribution(name):
    """10⁵ seeded draws: mean and covariance within 5 standard errors; functions are draws without the noise."""
    (p, covariance), count = SAMPLED[name], 100_000
    draws = getattr(p, name.partition(".")[2] or "sample")(np.random.default_rng(0), count)
    size = np.sqrt(np.diag(covariance))
    assert_within(draws.mean(0), p.mean, 5 * size / np.sqrt(count))
    assert_within(np.cov(draws.T), covariance, 5 * np.sqrt((np.outer(size, size) ** 2 + covariance**2) / count))


@pytest.mark.parametrize("index", [0, 1, 2])
def test_divergence_is_the_mean_log_ratio(index):
    """KL(p‖q) = E_p[log p − log q], by 10⁵ seeded draws within 5 standard errors."""
    p, q = distributions()[index]
    draws = p.sample(np.random.default_rng(1), 100_000)
    ratios = p.log_prob(draws) - q.log_prob(draws)
    assert_within(kl_divergence(p, q), ratios.mean(0), 5 * ratios.std(0) / np.sqrt(len(draws)))


@pytest.mark.parametrize("index", [0, 1, 2])
def test_entropy_is_the_mean_log_density(index):
    p, _ = distributions()[index]
    densities = -p.log_prob(p.sample(np.random.default_rng(2), 100_000))
    assert_within(p.entropy(), densities.mean(0), 5 * densities.std(0) / np.sqrt(len(densities)))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Normal(0.0, 0.0), ValueError, "Normal: std holds 0.0"),
        (lambda: Normal(MEAN, [1, -2, 3]), ValueError, "std holds -2.0"),
        (lambda: Normal(0.0, np.inf), ValueError, "std holds inf"),
        (lambda: Normal(0.0, np.nan).log_prob(1.0), ValueError, "std holds nan"),
        (lambda: Normal(MEAN, np.ones(2)), ValueError, r"mean \(3,\), std \(2,\) do not broadcast"),
        (lambda: Normal(MEAN, STD).sample(0), TypeError, "rng is int; pass numpy.random.default_rng"),
        (lambda: LowRankNormal(MEAN, np.ones((3, 1)), -STD), ValueError, "LowRankNormal: std holds -"),
        (
            lambda: kl_divergence(*[LowRankNormal(MEAN, np.ones((3, 1)), STD)] * 2),
            TypeError,
            "p is LowRankNormal and q is LowRankNormal",
        ),
        (lambda: MultivariateNormal(MEAN, np.diag([1.0, 0, 1])), ValueError, "diagonal of the factor holds 0"),
        (
            lambda: MultivariateNormal(MEAN, np.eye(3)).log_prob(Y, mask=np.ones(2, bool)),
            ValueError,
            r"mask has shape \(2,\)",
        ),
        (lambda: Categorical(np.full((2, 3), -np.inf)), ValueError, r"logits\[0\] are all −∞"),
        (lambda: Categorical(MEAN).log_prob(0.5), TypeError, "classes are float64; pass integers"),
        (lambda: kl_divergence(Normal(0, 1), Categorical(MEAN)), TypeError, "p is Normal and q is Categorical"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()
