"""The latent neural process: its law, its bounds against a likelihood that is known, and its coherent samples."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp import autograd as ag
from refnp.autograd import Tensor
from refnp.autograd.primitives import raw
from refnp.layers.distributions import Normal
from refnp.layers.mixture import Mixture
from refnp.layers.multivariate_normal import MultivariateNormal
from refnp.models.latent import LatentNP, elbo, importance_weighted_bound
from refnp.models.neural_process import CNP
from refnp.numbers.rounding import tolerance
from refnp.tasks.task import Task
from refnp.verify.layers.neural_processes import loss_of
from tests.helpers import assert_same_bits, assert_within, check, normal, real_dtypes, seeds
from tests.models.helpers import generator, predict, problem, rounded, shaken, sizes
from tests.transcriptions import neural_processes as transcription

SMALL = {"hidden": 4, "latent": 3, "before": 2, "after": 1, "decoder": 2, "samples": 3, "loss_samples": 2}
bounds = st.sampled_from(["elbo", "importance_weighted"])


def small(dx=1, dy=1, **options):
    return shaken(LatentNP(dx, dy, **(SMALL | options), rng=generator()))


def everything_of(task):
    """x, y and mask of contexts and targets together."""
    pairs = ((task.context_x, task.target_x), (task.context_y, task.target_y), (task.context_mask, task.target_mask))
    return [np.concatenate(pair, 1) for pair in pairs]


# ---- the law


def test_without_a_generator_it_is_a_function_and_with_one_it_is_not():
    model, (arrays, _) = small(), problem(0, (2, 3, 2, 1, 1))
    assert_same_bits(predict(model, *arrays)[0], predict(model, *arrays)[0])
    answers = [raw(model(*arrays, rng=generator(seed)).components.mean) for seed in (1, 1, 2)]
    assert_same_bits(answers[0], answers[1])
    assert (answers[0] != answers[2]).all()


@pytest.mark.parametrize("samples", [1, 5])
def test_as_many_draws_as_asked_for(samples):
    model, (arrays, _) = small(dy=2), problem(0, (2, 3, 4, 1, 2))
    answer = model(*arrays, samples=samples)
    assert isinstance(answer, Mixture)
    assert answer.components.shape == (samples, 2, 4, 2)
    assert answer.shape == (2,)


# ---- the bounds


def test_the_loss_draws_from_its_generator():
    """Else every step of a training would see the same ε."""
    model, (_, task) = small(), problem(0, (2, 3, 2, 1, 1))
    losses = [model.loss(task, rng=rng).item() for rng in (None, generator(5), generator(6))]
    assert len(set(losses)) == 3
    bounds = [model.log_likelihood_bound(task, rng=rng) for rng in (None, generator(5), generator(6))]
    count = max(int(task.target_mask.sum()), 1)
    assert losses == [raw(-ag.sum(bound) / count).item() for bound in bounds]


@pytest.mark.parametrize("bound", ["elbo", "importance_weighted"])
def test_bounds_point_by_point(bound):
    size = (2, 3, 3, 2, 2)
    model, (_, task) = small(2, 2, bound=bound), problem(1, size)
    noise, state = generator().standard_normal((2, 2, 3)), model.state_dict()
    found, limit = (
        raw(model.log_likelihood_bound(task)),
        raw(rounded(model.log_likelihood_bound, task, judged=task.dtype, epsilon=noise)),
    )
    for b in range(2):
        x, y, target_x, target_y = (a[b] for a in (task.context_x, task.context_y, task.target_x, task.target_y))
        mask, there = task.context_mask[b], task.target_mask[b]
        prior = transcription.latent(x, y, mask, state, 0.0)
        everything = np.concatenate([x, target_x]), np.concatenate([y, target_y]), np.concatenate([mask, there])
        posterior = transcription.latent(*everything, state, 0.0)
        terms = []
        for k in range(2):
            z = posterior[0] + posterior[1] * noise[k, b]
            log_p = transcription.log_density(
                target_y, *transcription.latent_np(x, y, target_x, mask, z, state, 0.0), there
            )
            if bound == "importance_weighted":
                for a, m, s, n, t in zip(z, *prior, *posterior, strict=True):
                    log_p += transcription.log_normal(a, m, s) - transcription.log_normal(a, n, t)
            terms.append(log_p)
        expected = (
            sum(terms) / 2 - transcription.normal_kl(*posterior, *prior)
            if bound == "elbo" else transcription.log_mean_exp(terms)
        )  # fmt: skip
        assert_within(found[b], expected, tolerance(limit, np.float64)[b])


objectives = pytest.mark.parametrize(("objective", "draws"), [("deepmind", 1), ("tnp_pytorch", 1), ("tnp_pytorch", 3)])


@objectives
@given(seeds, sizes, real_dtypes)
def test_published_objectives(objective, draws, seed, size, dtype):
    """Bounds on contexts and targets together, over their number in each task; the mean over tasks."""
    options = {"objective": objective, "loss_samples": draws, "deterministic": True, "latent_floor": 0.1}
    model = small(*size[3:], **options).astype(dtype)
    _, task = problem(seed, size, dtype)
    noise = generator(seed).standard_normal((draws, size[0], 3)).astype(dtype)
    limit = raw(rounded(model.loss, task, judged=task.dtype, epsilon=noise))
    loss = model.loss(task, epsilon=noise)
    assert loss.dtype == dtype
    assert_within(raw(loss), limit.value, tolerance(limit, dtype))


@objectives
def test_published_objectives_point_by_point(objective, draws):
    model = small(2, 2, objective=objective, loss_samples=draws)
    _, task = problem(1, (2, 3, 3, 2, 2))
    noise, state, total = generator().standard_normal((draws, 2, 3)), model.state_dict(), 0
    for b in range(2):
        context = [a[b] for a in (task.context_x, task.context_y, task.context_mask)]
        points = [a[b] for a in everything_of(task)]
        prior, posterior = (transcription.latent(*found, state, 0.0) for found in (context, points))
        terms = []
        for k in range(draws):
            z = posterior[0] + posterior[1] * noise[k, b]
            answer = transcription.latent_np(context[0], context[1], points[0], context[2], z, state, 0.0)
            log_p = transcription.log_density(points[1], *answer, points[2])
            if draws > 1:
                for a, m, s, n, t in zip(z, *prior, *posterior, strict=True):
                    log_p += transcription.log_normal(a, m, s) - transcription.log_normal(a, n, t)
            terms.append(log_p)
        estimate = terms[0] - transcription.normal_kl(*posterior, *prior)
        total -= (transcription.log_mean_exp(terms) if draws > 1 else estimate) / max(sum(points[2]), 1) / 2
    limit = raw(rounded(model.loss, task, judged=task.dtype, epsilon=noise))
    assert_within(raw(model.loss(task, epsilon=noise)), total, tolerance(limit, np.float64))


def test_what_the_objectives_have_in_common_and_what_not():
    """One draw: the two published ones agree, and `bound` is not asked. Weighing and points differ from "targets"."""
    losses = {}
    for name, options in {
        "targets": {},
        "deepmind": {"bound": "importance_weighted", "loss_samples": 5},
        "tnp_pytorch": {"loss_samples": 1},
    }.items():
        model, (_, task) = small(objective=name, **options), problem(0, (2, 3, 2, 1, 1))
        losses[name] = model.loss(task, rng=generator(1)).item()
    assert losses["deepmind"] == losses["tnp_pytorch"] != losses["targets"]


# ---- noise that is given


def test_given_noise_is_the_noise():
    """Of a call, a bound and a loss: as if a generator had drawn it; draws are as many as it has."""
    model, (arrays, task) = small(deterministic=True), problem(0, (2, 3, 2, 1, 1))
    noise = generator(7).standard_normal((4, 2, 3))
    calls = (
        lambda **given: raw(model(*arrays, **given).components.mean),
        lambda **given: raw(model.log_likelihood_bound(task, **given)),
    )
    for call in calls:
        assert_same_bits(call(epsilon=noise), call(rng=generator(7), samples=4))
        assert_same_bits(call(epsilon=noise, samples=4), call(epsilon=Tensor(noise)))
    twice = generator(7).standard_normal((2, 2, 3))
    assert model.loss(task, epsilon=twice).item() == model.loss(task, rng=generator(7)).item()


def test_the_loss_differentiates_by_its_noise():
    model, (_, task) = small(deterministic=True), problem(0, (2, 3, 2, 1, 1))
    bound = model.without_tape()
    check(lambda noise: bound.loss(task, epsilon=noise), (generator().standard_normal((2, 2, 3)),))


@pytest.mark.parametrize("objective", ["targets", "deepmind", "tnp_pytorch"])
def test_derivatives_of_the_objectives(objective):
    options = {"hidden": 3, "latent": 2, "before": 1, "latent_floor": 0.1, "objective": objective}
    model, (_, task) = small(1, 1, **options), problem(3, (2, 2, 2, 1, 1))
    sets = {"x": task.context_x, "y": task.context_y}, {"x": task.target_x, "y": task.target_y}
    assert check(loss_of(model, task.context_mask, task.target_mask), (model.state_dict(), *sets), max_elements=6)


def linear_gaussian(copies):
    """A model whose decoder is one linear map and whose σ is constant: its likelihood is a normal distribution.

    Returns the model, one task `copies` times, and the exact log p(y | x, C).
    """
    model = LatentNP(hidden=4, latent=2, before=1, after=1, decoder=1, rng=generator(3))
    model.decoder.layers[0].weight.data[:, 1] = 0
    model.decoder.layers[0].weight.data[:2, 0] = [1.0, -1.0]
    model.decoder.layers[0].bias.data[1] = 1.0
    model.latent_encoder.after.layers[0].weight.data *= 6  # so that contexts and targets tell it different things
    x, y, target_x, target_y = (np.repeat(normal(i, (1, n, 1)), copies, 0) for i, n in enumerate((2, 2, 3, 3)))
    task = Task(x, y, target_x, target_y)
    prior = model.latent(x[:1], y[:1], np.ones((1, 2), bool))
    weight, bias = model.decoder.layers[0].weight.data[:, 0], model.decoder.layers[0].bias.data
    a = np.repeat(weight[None, :2], 3, 0)
    mean = a @ raw(prior.mean)[0] + target_x[0, :, 0] * weight[2] + bias[0]
    covariance = (a * raw(prior.std)[0] ** 2) @ a.T + np.log1p(np.exp(bias[1])) ** 2 * np.eye(3)
    exact_law = MultivariateNormal(mean, np.linalg.cholesky(covariance))
    return model, task, exact_law


def estimate(values):
    """The mean, and five standard errors of it: a correct bound is farther off once in 2 · 10⁶ seeds."""
    return values.mean(), 5 * values.std() / len(values) ** 0.5


def test_elbo_below_importance_weighted_bound_below_log_likelihood():
    """In expectation: ELBO < IW₂ < IW₁₆ < IW₁₂₈ ≤ log p, each step wider than the errors of the estimates."""
    model, task, law = linear_gaussian(4000)
    truth = law.log_prob(task.target_y[0, :, 0])
    estimates = [estimate(raw(model.log_likelihood_bound(task, bound="elbo", samples=1, rng=generator(1))))]
    for samples in (2, 16, 128):
        values = model.log_likelihood_bound(task, bound="importance_weighted", samples=samples, rng=generator(samples))
        estimates.append(estimate(raw(values)))
    for (lower, error), (upper, other) in itertools.pairwise(estimates):
        assert lower + error < upper - other
    assert estimates[-1][0] < truth + estimates[-1][1]
    assert estimates[-1][0] > truth - 0.05


def test_the_elbo_is_what_it_is_on_paper():
    """E_q log p(y | z) − KL, where both have closed forms."""
    model, task, _ = linear_gaussian(4000)
    found, error = estimate(raw(model.log_likelihood_bound(task, bound="elbo", samples=32, rng=generator(2))))
    x, y = (np.concatenate(p, 1)[:1] for p in ((task.context_x, task.target_x), (task.context_y, task.target_y)))
    prior = model.latent(task.context_x[:1], task.context_y[:1], np.ones((1, 2), bool))
    posterior = model.latent(x, y, np.ones((1, 5), bool))
    (m, v), (n, w) = ((raw(q.mean)[0], raw(q.std)[0]) for q in (posterior, prior))
    weight, bias = model.decoder.layers[0].weight.data[:, 0], model.decoder.layers[0].bias.data
    variance = np.log1p(np.exp(bias[1])) ** 2
    away = task.target_y[0, :, 0] - (m @ weight[:2] + task.target_x[0, :, 0] * weight[2] + bias[0])
    expected = -0.5 * (away**2 + (weight[:2] ** 2 * v**2).sum()).sum() / variance - 1.5 * np.log(2 * np.pi * variance)
    kl = (np.log(w / v) + (v**2 + (m - n) ** 2) / (2 * w**2) - 0.5).sum()
    assert abs(found - (expected - kl)) < error
    assert kl > 5 * error  # without it the test would fail


def test_with_the_true_posterior_every_weight_is_the_likelihood():
    """z ~ N(m, v²), y_i = a z_i + noise: the posterior is diagonal too, and the bound exact for every single draw."""
    rng = generator(0)
    m, v, y, noise = rng.normal(size=(1, 4)), rng.uniform(0.5, 2, (1, 4)), rng.normal(size=(1, 4)), 0.3
    prior, precision = Normal(m, v), v**-2 + 4 * noise**-2
    true = Normal((m / v**2 + 2 * y / noise**2) / precision, precision**-0.5)

    def log_likelihood(z):
        return Normal(2 * z, noise).log_prob(y).sum(-1)

    truth = Normal(2 * m, np.sqrt(4 * v**2 + noise**2)).log_prob(y).sum(-1)
    z = true.sample(rng, 7)
    terms = [abs(log_likelihood(z)), abs(prior.log_prob(z)).sum(-1), abs(true.log_prob(z)).sum(-1)]
    limit = 2 * 64 * 2.0**-53 * max(t.max() for t in terms)  # 64 roundings a term, of which none exceeds the largest
    assert_within(importance_weighted_bound(prior, true, log_likelihood, z), truth, limit)
    for k in range(7):
        assert_within(importance_weighted_bound(prior, true, log_likelihood, z[k : k + 1]), truth, limit)
    wider = Normal(true.mean, 2 * true.std)
    z = wider.sample(rng, 7)
    with pytest.raises(AssertionError, match="beyond the bound"):
        assert_within(importance_weighted_bound(prior, wider, log_likelihood, z), truth, 1e6 * limit)
    assert elbo(prior, wider, log_likelihood, wider.sample(rng, 4000))[0] < truth[0] - 0.5


def test_the_mixture_is_an_unbiased_estimate_of_the_density():
    model, task, law = linear_gaussian(4000)
    log_p = model(task.context_x, task.context_y, task.target_x, samples=4, rng=generator(0)).log_prob(task.target_y)
    mean, error = estimate(np.exp(raw(log_p)))
    density = np.exp(law.log_prob(task.target_y[0, :, 0]))
    assert abs(mean - density) < error < density / 2


# ---- samples


def test_samples_are_coherent_and_have_the_covariance():
    """Cov(y_s, y_t) = (A V Aᵀ)_st + σ² δ_st; a CNP's samples have none between targets."""
    model, task, law = linear_gaussian(1)
    mixture = model(task.context_x, task.context_y, task.target_x, samples=20_000, rng=generator(0))
    y = raw(mixture.sample(generator(1), 20_000))[:, 0, :, 0]
    centred = y - law.mean
    for s in range(3):
        for t in range(3):
            found, error = estimate(centred[:, s] * centred[:, t])
            assert abs(found - law.covariance()[s, t]) < 2 * error  # of the draws of z, and of those of y
            assert law.covariance()[s, t] > 4 * error
    other = CNP(hidden=4, rng=generator())(task.context_x, task.context_y, task.target_x).sample(generator(), 20_000)
    away = raw(other)[:, 0, :, 0] - raw(other)[:, 0, :, 0].mean(0)
    found, error = estimate(away[:, 0] * away[:, 1])
    assert abs(found) < error


# ---- derivatives


@pytest.mark.parametrize(("bound", "order"), [("importance_weighted", 2)])
def test_derivatives(bound, order):
    options = {"hidden": 3, "latent": 2, "before": 1, "deterministic": True, "latent_floor": 0.1}
    model, (_, task) = small(1, 2, bound=bound, **options), problem(3, (2, 2, 2, 1, 2))
    sets = {"x": task.context_x, "y": task.context_y}, {"x": task.target_x, "y": task.target_y}
    loss = loss_of(model, task.context_mask, task.target_mask)
    result = check(loss, (model.state_dict(), *sets), order=order, max_elements=6)
    assert result.method == "complex step"


# ---- errors


def test_errors_of_calls():
    model, (arrays, task) = small(), problem(0, (1, 2, 2, 1, 1))
    with pytest.raises(ValueError, match=r"^LatentNP: bound is 'iw'; use 'elbo' or 'importance_weighted'$"):
        model.log_likelihood_bound(task, bound="iw")
    for call in (lambda: model(*arrays, samples=0), lambda: model.log_likelihood_bound(task, samples=0)):
        with pytest.raises(ValueError, match=r"^LatentNP: samples is 0; at least 1 is needed$"):
            call()
    for noise, options, message in (
        (
            np.zeros((0, 1, 3)),
            {},
            r"epsilon has shape \(0, 1, 3\); it must be \(S, 1, 3\), draws of z for each task, at",
        ),
        (np.zeros((2, 1, 2)), {"samples": 2}, r"epsilon has shape \(2, 1, 2\); it must be \(2, 1, 3\)"),
        (np.zeros((2, 1, 3)), {"samples": 3}, r"epsilon has shape \(2, 1, 3\); it must be \(3, 1, 3\)"),
        (np.zeros((2, 1, 3)), {"rng": generator()}, r"rng and epsilon are both given; pass one of them"),
        (0.5, {}, r"epsilon has shape \(\); it must be \(S, 1, 3\)"),
    ):
        with pytest.raises(ValueError, match=rf"^LatentNP: {message}"):
            model(*arrays, epsilon=noise, **options)
    for objective in ("targets", "deepmind", "tnp_pytorch"):
        for noise in (0.5, np.zeros((2, 7, 3)), np.zeros((0, 1, 3))):
            with pytest.raises(ValueError, match=r"^LatentNP: epsilon has shape .*; it must be \("):
                small(objective=objective).loss(task, epsilon=noise)
