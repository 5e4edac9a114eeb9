"""The oracle: the textbook's posterior to within rounding, and the laws that its figures keep."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.autograd import Tensor
from refnp.layers.distributions import Categorical, Normal, kl_divergence
from refnp.layers.multivariate_normal import MultivariateNormal
from refnp.numbers.rounding import exact, tolerance
from refnp.tasks.gaussian_process import KEPT, NUGGET, GaussianProcess, GaussianProcessTasks
from refnp.tasks.kernels import EQ, Matern12, Matern52
from refnp.tasks.task import Places, Task, padded
from tests.helpers import assert_same_bits, assert_within, seeds
from tests.studies.tiny import spoiled
from tests.tasks import rounded
from tests.transcriptions import gaussian_process as transcription

FORMULAS = {EQ: transcription.eq, Matern12: transcription.matern12, Matern52: transcription.matern52}
PLACES = Places(context=(0, 6), target=(1, 7), ragged=True)


def sampled(seed, batch=4, *, kernel=None, noise_std=(0.02, 0.3), places=PLACES, outputs=1):
    """Tasks, the process they come from, and its posterior."""
    kernel = EQ((0.2, 0.6), (0.3, 1.0)) if kernel is None else kernel
    task, process = GaussianProcessTasks(kernel, noise_std, places, outputs).sample_with_process(
        np.random.default_rng(seed), batch
    )
    return task, process, process.posterior(task)


def noise(rng, posterior):
    """A prediction that is not the oracle's."""
    shape = posterior.mean.shape
    return posterior.mean + 0.3 * rng.standard_normal(shape), posterior.std[..., None] * rng.uniform(0.5, 2, shape)


@pytest.mark.parametrize("kind", FORMULAS, ids=lambda kind: kind.__name__)
@given(
    st.integers(0, 4), st.integers(1, 4), st.integers(1, 2), st.integers(1, 2), st.sampled_from([0.0, 0.02, 0.3]), seeds
)
def test_the_posterior_is_the_textbook_s(kind, contexts, targets, dx, outputs, noise_std, seed):
    rng = np.random.default_rng(seed)
    length_scale, scale = rng.uniform(0.2, 0.6, 2), rng.uniform(0.3, 1.0, 2)
    x = rng.uniform(-2, 2, (2, contexts + targets, dx))
    process = GaussianProcess(kind(length_scale, scale), noise_std, NUGGET)
    y = process.sample(rng, x, outputs)
    task = Task(x[:, :contexts], y[:, :contexts], x[:, contexts:], y[:, contexts:])
    posterior = process.posterior(task)
    prediction = noise(rng, posterior)
    got = [
        posterior.marginal_log_likelihood(),
        posterior.joint_log_likelihood(),
        posterior.diagonal_kl(),
        posterior.kl(Normal(*prediction)),
    ]
    for b in range(2):
        variance = np.broadcast_to(process.noise_variance(), 2)[b]
        covariance = rounded.radial(kind, x[b], x[b], length_scale[b], scale[b])
        covariance = covariance + exact(np.diag(np.full(len(x[b]), variance)))
        mean, factor = rounded.posterior(covariance, y[b, :contexts], contexts)
        assert_within(posterior.mean[b], mean.value, tolerance(mean, np.float64))
        assert_within(posterior.factor[b], factor.value, tolerance(factor, np.float64))
        parameters = length_scale[b], scale[b]
        textbook = transcription.posterior(
            FORMULAS[kind], parameters, variance, x[b, :contexts], y[b, :contexts], x[b, contexts:]
        )
        bounds = rounded.figures(mean, factor, y[b, contexts:], *(p[b] for p in prediction))
        expected = transcription.figures(*textbook, y[b, contexts:], *(p[b] for p in prediction))
        for figure, bound, printed in zip(got, bounds, expected, strict=True):
            assert_within(figure[b], printed, tolerance(bound, np.float64) + 1e-45)  # the textbook has 50 digits


def test_scikit_learn_agrees():
    regression = pytest.importorskip("sklearn.gaussian_process")
    task, process, posterior = sampled(0, 1, kernel=EQ(0.3), noise_std=0.1, places=Places((10, 10), (8, 8)))
    model = regression.GaussianProcessRegressor(
        regression.kernels.RBF(0.3), alpha=process.noise_variance(), optimizer=None
    )
    model.fit(task.context_x[0], task.context_y[0])
    mean, covariance = model.predict(task.target_x[0], return_cov=True)
    covariance += process.noise_variance() * np.eye(8)
    # N = 18 points, condition 18/0.01 at most: each solution is off by about N u times that (Higham (2002), th. 10.4)
    bound = 18 * 1800 * np.finfo(float).eps
    assert_within(posterior.mean[0, :, 0], mean, bound)
    assert_within(posterior.factor[0] @ posterior.factor[0].T, covariance, bound)


@given(seeds, st.integers(1, 2))
def test_a_padded_batch_is_its_tasks_one_by_one(seed, outputs):
    """Figures of a ragged batch against those of each task alone: equal up to the order of sums."""
    task, process, posterior = sampled(seed, outputs=outputs)
    got = (
        posterior.marginal_log_likelihood(),
        posterior.joint_log_likelihood(),
        posterior.diagonal_kl(),
        posterior.kl(Normal(posterior.mean + 0.1, 0.7 * np.ones_like(posterior.mean))),
    )
    for b in range(task.batch):
        c, t = task.context_mask[b].sum(), task.target_mask[b].sum()
        alone = Task(*(a[b : b + 1, :n] for a, n in ((task.context_x, c), (task.context_y, c))), *(
            a[b : b + 1, :t] for a in (task.target_x, task.target_y)))  # fmt: skip
        kernel = EQ(process.kernel.length_scale[b], process.kernel.scale[b])
        own = GaussianProcess(kernel, process.noise_std[b]).posterior(alone)
        expected = (
            own.marginal_log_likelihood(),
            own.joint_log_likelihood(),
            own.diagonal_kl(),
            own.kl(Normal(own.mean + 0.1, 0.7 * np.ones_like(own.mean))),
        )
        # N = 13 points with a condition of at most N (1/0.02)²; what is divided by a variance again is off by as much
        bound = 13 * 13 * 2500**2 * np.finfo(float).eps
        for ours, theirs in zip(got, expected, strict=True):
            assert_within(ours[b], theirs[0], bound * (1 + np.abs(theirs[0])))


@given(seeds)
def test_what_masks_hide_has_no_part(seed):
    task, process, posterior = sampled(seed)
    other = process.posterior(spoiled(task))
    for name in ("mean", "factor", "y"):
        assert_same_bits(getattr(other, name), getattr(posterior, name))
    prediction = np.where(task.target_mask[..., None], posterior.mean, np.nan)
    std = np.where(task.target_mask[..., None], 0.5, np.nan)
    assert_same_bits(
        posterior.kl(Normal(prediction, std)), posterior.kl(Normal(posterior.mean, np.full_like(std, 0.5)))
    )


@given(seeds)
def test_without_contexts_the_posterior_is_the_prior(seed):
    task, process, posterior = sampled(seed, places=Places((0, 0), (1, 6)))
    assert not posterior.mean.any()
    assert_same_bits(posterior.factor, np.linalg.cholesky(process.covariance(task.target_x)))


def test_tasks_without_targets_have_figures_of_0():
    for places in (Places((3, 3), (0, 0)), Places((3, 3), (0, 0), ragged=True)):
        _, _, posterior = sampled(0, places=places)
        zeros = np.zeros(4)
        assert_same_bits(posterior.marginal_log_likelihood(), zeros)
        assert_same_bits(posterior.joint_log_likelihood(), zeros)
        assert_same_bits(posterior.kl(Normal(posterior.mean, np.ones_like(posterior.mean))), zeros)


@given(seeds)
def test_the_joint_likelihood_is_the_chain_of_marginals(seed):
    """log p(y_1, …, y_T | C) = Σ_t log p(y_t | C, y_1, …, y_{t−1}): each target becomes context for the next."""
    task, process, posterior = sampled(seed, places=Places((2, 5), (1, 5)), noise_std=0.1)
    x, y = np.concatenate([task.context_x, task.target_x], 1), np.concatenate([task.context_y, task.target_y], 1)
    contexts, points = task.context_x.shape[1], x.shape[1]
    chain = 0.0
    for t in range(contexts, points):
        one = process.posterior(Task(x[:, :t], y[:, :t], x[:, t : t + 1], y[:, t : t + 1]))
        chain = chain + one.marginal_log_likelihood()
    bound = points * points * 100**2 * np.finfo(float).eps  # condition N (1/0.1)², divided by a variance again
    assert_within(posterior.joint_log_likelihood() * (points - contexts), chain, bound * (1 + np.abs(chain)))


@given(seeds)
def test_the_kl_of_the_oracle_itself_is_0_and_of_its_marginals_the_diagonal_kl(seed):
    _, _, posterior = sampled(seed)
    assert_same_bits(posterior.kl(posterior.marginals()), posterior.diagonal_kl())
    itself = MultivariateNormal(posterior.mean[..., 0], posterior.factor)
    if posterior.present.all():
        assert_same_bits(posterior.kl(itself), np.zeros(4))
    assert (posterior.kl(itself) <= 1e-20).all()  # squares of rounding errors, where the factor is made anew
    assert (posterior.diagonal_kl() >= 0).all()


@given(seeds)
def test_no_independent_prediction_is_nearer_than_the_marginals(seed):
    rng = np.random.default_rng(seed)
    _, _, posterior = sampled(seed)
    other = Normal(*noise(rng, posterior))
    parts = np.where(posterior.present[..., None], kl_divergence(posterior.marginals(), other), 0).sum((1, 2))
    expected = posterior.diagonal_kl() + parts / posterior.targets
    assert_within(posterior.kl(other), expected, 8 * np.finfo(float).eps * expected)
    assert (posterior.kl(other) > posterior.diagonal_kl()).all()


@given(seeds, st.integers(1, 3))
def test_joint_predictions_with_several_outputs_are_the_blocks_of_independent_ones(seed, outputs):
    """A joint prediction with a diagonal factor says the same as a Normal, also where targets are missing."""
    rng = np.random.default_rng(seed)
    _, _, posterior = sampled(seed, outputs=outputs)
    mean, std = noise(rng, posterior)
    flat = mean.reshape(len(mean), -1), std.reshape(len(std), -1)
    factor = flat[1][..., None] * np.eye(flat[1].shape[-1])
    hidden = ~np.repeat(posterior.present, outputs, -1)
    joint = MultivariateNormal(np.where(hidden, np.nan, flat[0]), factor)
    expected = posterior.kl(Normal(mean, std))
    # ½ |T|² against Σ_tt/s_t² …: elements of T = L/s are at most 2 · √(1 + 0.3²/0.02²), squares 1e3, N of them
    assert_within(posterior.kl(joint), expected, 40 * 1e3 * np.finfo(float).eps * (1 + expected))


def test_the_kl_is_the_mean_of_its_estimates():
    """E log N(y; μ, Σ) − log q(y) over y from the oracle; 4000 draws, five standard errors."""
    rng = np.random.default_rng(0)
    task, process, posterior = sampled(5, 1, places=Places((3, 3), (4, 4)), outputs=2)
    mean, std = noise(rng, posterior)
    y = posterior.sample(rng, 4000)[:, 0]
    assert y.shape == (4000, 4, 2)
    repeated = [np.repeat(a, 4000, 0) for a in (task.context_x, task.context_y, task.target_x)]
    kernel = EQ(process.kernel.length_scale[0], process.kernel.scale[0])
    many = GaussianProcess(kernel, process.noise_std[0]).posterior(Task(*repeated, y))
    estimates = many.kl_estimate(Normal(mean, std).log_prob(y).sum((1, 2)))
    assert abs(estimates.mean() - posterior.kl(Normal(mean, std))[0]) < 5 * estimates.std() / np.sqrt(4000)
    assert (estimates < 0).any()  # a single one may be


def test_samples_have_the_moments_of_the_posterior():
    """20 000 draws: an element of the sample covariance is off by √((Σ_ii Σ_jj + Σ_ij²)/n); five of these."""
    _, _, posterior = sampled(1, 2, places=Places((3, 3), (4, 4)))
    n = 20_000
    y = posterior.sample(np.random.default_rng(0), n)[..., 0]  # (n, B, T)
    covariance = posterior.factor @ posterior.factor.swapaxes(1, 2)
    diagonal = np.einsum("btt->bt", covariance)
    r = y - posterior.mean[..., 0]
    assert (np.abs(r.mean(0)) < 5 * np.sqrt(diagonal / n)).all()
    spread = np.sqrt((diagonal[:, :, None] * diagonal[:, None] + covariance**2) / n)
    assert (np.abs(np.einsum("nbt,nbs->bts", r, r) / n - covariance) < 5 * spread).all()


def test_the_oracle_is_calibrated():
    """z = (y − μ)/σ over 4000 independent tasks: mean 0 ± 1/√n, mean square 1 ± √(2/n); five of these."""
    _, _, posterior = sampled(2, 4000, places=Places((0, 6), (1, 1), ragged=True))
    z = (posterior.y[..., 0] - posterior.mean[..., 0]) / posterior.std
    assert abs(z.mean()) < 5 / np.sqrt(4000)
    assert abs((z * z).mean() - 1) < 5 * np.sqrt(2 / 4000)


@given(seeds, st.sampled_from([0.05, 0.2, 5.0]))
def test_a_floor_lifts_small_deviations_and_leaves_the_others(seed, floor):
    task, _, posterior = sampled(seed)
    std = np.maximum(posterior.std, floor)[..., None]
    own = Normal(posterior.mean, std).log_prob(posterior.y)[..., 0]
    expected = np.where(task.target_mask, own, 0).sum(1) / posterior.targets
    assert_within(
        posterior.marginal_log_likelihood(floor=floor), expected, 16 * np.finfo(float).eps * np.abs(own).sum(1)
    )
    assert_same_bits(posterior.marginal_log_likelihood(floor=0.0), posterior.marginal_log_likelihood())


def test_predictions_of_models_are_taken_as_they_come():
    """Tensors and float32, against the same numbers in float64."""
    _, _, posterior = sampled(0)
    mean, std = (a.astype(np.float32) for a in noise(np.random.default_rng(0), posterior))
    expected = posterior.kl(Normal(mean.astype(float), std.astype(float)))
    assert expected.dtype == np.float64
    assert_same_bits(posterior.kl(Normal(Tensor(mean), Tensor(std))), expected)
    log_prob = Tensor(np.arange(4, dtype=np.float32))
    assert_same_bits(posterior.kl_estimate(log_prob), posterior.kl_estimate(np.arange(4.0)))


def test_ragged_lists_of_sets_become_a_task():
    rng = np.random.default_rng(0)
    sets = [rng.standard_normal((n, 1)) for n in (0, 3, 1)]
    x, mask = padded(sets)
    task = Task(x, np.sin(x), x[:, :2], x[:, :2], mask, mask[:, :2])
    posterior = GaussianProcess(EQ(1.0), 0.1).posterior(task)
    assert np.isfinite(posterior.joint_log_likelihood()).all()


def test_wrong_predictions_are_named():
    _, _, posterior = sampled(0, places=Places((3, 3), (4, 4)))
    with pytest.raises(ValueError, match=r"Posterior.kl: a Normal has shape \(4, 4\); it must be \(4, 4, 1\)"):
        posterior.kl(Normal(np.zeros((4, 4)), 1.0))
    with pytest.raises(ValueError, match=r"the mean of a MultivariateNormal has shape \(4, 5\); it must be \(4, 4\)"):
        posterior.kl(MultivariateNormal(np.zeros((4, 5)), np.eye(5)))
    with pytest.raises(TypeError, match="prediction is Categorical"):
        posterior.kl(Categorical(np.zeros(3)))
    with pytest.raises(ValueError, match=r"log_prob has shape \(4, 4\); it must be \(4,\)"):
        posterior.kl_estimate(np.zeros((4, 4)))


def by_mpmath(kind, parameters, noise_std, x, y, contexts):
    """(joint log-likelihood, means, deviations) of the targets, with 60 digits."""
    with mpmath.workdps(60):
        n = len(x)
        exactly = lambda v: mpmath.mpf(float(v))
        formula = FORMULAS[kind]
        k = mpmath.matrix(n, n)
        for i in range(n):
            for j in range(n):
                places = ([exactly(v) for v in x[i]], [exactly(v) for v in x[j]])
                k[i, j] = formula(*places, *map(exactly, parameters)) + (i == j) * exactly(noise_std) ** 2
        factor, z = mpmath.cholesky(k), []
        for i in range(n):
            z.append((exactly(y[i]) - sum(factor[i, j] * z[j] for j in range(i))) / factor[i, i])
        targets = range(contexts, n)
        terms = [-(z[i] ** 2) / 2 - mpmath.log(factor[i, i]) - mpmath.log(2 * mpmath.pi) / 2 for i in targets]
        means = [float(sum(factor[i, j] * z[j] for j in range(contexts))) for i in targets]
        stds = [float(mpmath.sqrt(sum(factor[i, j] ** 2 for j in range(contexts, i + 1)))) for i in targets]
        return float(sum(terms) / len(terms)), means, stds


@pytest.mark.parametrize("kind", FORMULAS, ids=lambda kind: kind.__name__)
@given(st.integers(0, 12), st.integers(1, 6), st.sampled_from([1e-4, 1e-6, 1e-8, 0.0]), seeds)
def test_little_noise_is_computed_as_it_is_asked_for_or_refused(kind, contexts, targets, noise_std, seed):
    """The values are no draws of the process, so that a deviation ten times too large would be seen in all figures."""
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(-2, 2, (1, contexts + targets, 1)), rng.normal(size=(1, contexts + targets, 1))
    parameters = rng.uniform(0.2, 0.6), rng.uniform(0.3, 1.0)
    process = GaussianProcess(kind(*parameters), noise_std)
    task = Task(x[:, :contexts], y[:, :contexts], x[:, contexts:], y[:, contexts:])
    try:
        posterior = process.posterior(task)
    except ValueError as refusal:
        assert "no digits" in str(refusal)  # noqa: PT017
        assert noise_std < 1e-6 or "these contexts lie" in str(refusal)  # noqa: PT017
        return
    figure, means, stds = by_mpmath(kind, parameters, noise_std, x[0], y[0, :, 0], contexts)
    np.testing.assert_allclose(posterior.joint_log_likelihood()[0], figure, rtol=1 / KEPT)
    np.testing.assert_allclose(posterior.std[0], stds, rtol=1 / KEPT)
    np.testing.assert_allclose(posterior.mean[0, :, 0], means, rtol=0, atol=np.abs(means).max() / KEPT)


@given(st.integers(2, 8), st.sampled_from([1e-5, 1e-7, 1e-9]), st.sampled_from([1e-3, 0.1, 2.0]), seeds)
def test_a_mean_is_off_by_no_more_than_a_deviation_or_refused(contexts, noise_std, apart, seed):
    """However far the contexts lie from what such a process gives."""
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(-apart, apart, (1, contexts + 2, 1)), rng.normal(size=(1, contexts + 2, 1))
    task = Task(x[:, :contexts], y[:, :contexts], x[:, contexts:], y[:, contexts:])
    try:
        posterior = GaussianProcess(EQ(1.0), noise_std).posterior(task)
    except ValueError as refusal:
        assert "no digits" in str(refusal)  # noqa: PT017
        return
    _, means, stds = by_mpmath(EQ, (1.0, 1.0), noise_std, x[0], y[0, :, 0], contexts)
    off = np.abs(posterior.mean[0, :, 0] - means)
    assert (off <= np.maximum(stds, 1e-12 * np.abs(means))).all(), (off, stds)


def test_how_far_contexts_lie_is_said_of_all_together():
    """Four that know nothing of each other, each 1e20 deviations away."""
    x, y = 100.0 * np.arange(5)[None, :, None], np.full((1, 5, 1), 1e20)
    with pytest.raises(ValueError, match=r"these contexts lie 2e\+20 standard deviations from the mean"):
        GaussianProcess(EQ(1.0)).posterior(Task(x[:, :4], y[:, :4], x[:, 4:], y[:, 4:]))


def test_what_cannot_be_computed_says_what_would_help():
    x = np.linspace(0, 1, 60)[None, :, None]
    task = Task(x[:, ::2], np.sin(x[:, ::2]), x[:, 1::2], np.sin(x[:, 1::2]))
    with pytest.raises(ValueError, match=r"noise_std is 0\.0, and of the covariance of 60 places .* nugget=1e-10"):
        GaussianProcess(EQ(0.5)).posterior(task)
    assert np.isfinite(GaussianProcess(EQ(0.5), nugget=NUGGET).posterior(task).joint_log_likelihood()).all()
    assert np.isfinite(GaussianProcess(EQ(0.5), 1e-5).posterior(task).joint_log_likelihood()).all()


def test_draws_with_little_noise_have_the_law_that_was_asked_for():
    """Differences at the same place are noise alone: their deviation is √2 σ, not √2 · 1e-5."""
    x = np.zeros((2000, 2, 1))
    y = GaussianProcess(EQ(0.5), 1e-6).sample(np.random.default_rng(0), x)
    assert (y[:, 0] - y[:, 1]).std() == pytest.approx(np.sqrt(2) * 1e-6, rel=5 / np.sqrt(4000))
