"""The protocols of the papers: what is drawn, and the oracle's rows, against the figures that were published.

A published row averages 48 000 tasks (TNP: 3000 batches of 16) or 4096 (Bruinsma: 256 batches of 16). A batch shares
its counts, so the row's standard error is that of its batches: .012 for TNP-pytorch's diagonal rows, .008 for others,
.004 to .015 for Bruinsma's, as measured with batches of this sampler. Here counts are drawn for each task (`ragged`):
the same mean, for every task weighs the same, and a small error from few tasks. Where E log p has a formula given
places and hyper-parameters, the entropy, it is used in place of draws of y.
"""

import dataclasses
import math

import numpy as np
import pytest

from refnp.tasks.kernels import EQ, Matern52, Periodic, Product, Sum
from refnp.tasks.protocols import bruinsma, gordon, tnp


def ragged(sampler):
    return dataclasses.replace(sampler, places=dataclasses.replace(sampler.places, ragged=True))


def figures(sampler, tasks, floor=0.0):
    """Expected marginal and joint log-likelihoods, the marginal one floored, and the diagonal KL: (4, tasks)."""
    rng, rows = np.random.default_rng(0), []
    for _ in range(0, tasks, 50):
        task, process = ragged(sampler).sample_with_process(rng, 50)
        posterior = process.posterior(task)
        std = posterior.std
        floored = np.maximum(std, floor)
        # E log N(y; μ, max(σ, f)²) over y ~ N(μ, σ²)
        each = -np.log(np.stack([std, floored])) - 0.5 * math.log(2 * math.pi)
        each -= 0.5 * (std / np.stack([std, floored])) ** 2
        marginal, with_floor = np.where(task.target_mask, each, 0).sum(-1) / posterior.targets
        lost = posterior.diagonal_kl()
        rows.append(np.stack([marginal, marginal + lost, with_floor, lost]))
    return np.concatenate(rows, 1)


def assert_agrees(values, published, error):
    """The mean of values within three standard errors, theirs and ours together, of what was published."""
    own = values.std() / math.sqrt(len(values))
    assert own < 2 * error  # enough tasks to decide
    assert abs(values.mean() - published) <= 3 * math.hypot(own, error), f"{values.mean():.4f} ± {own:.4f}, {published}"


@pytest.mark.parametrize(
    ("kernel", "diagonal", "joint", "floored"),
    [("rbf", 1.520, 1.804, 0.958), ("matern", 1.118, 1.385, 0.756), ("periodic", 1.169, 1.482, 0.752)],
)
def test_the_oracle_of_tnp(kernel, diagonal, joint, floored):
    marginal, together, with_floor, _ = figures(tnp(kernel), 2000, floor=0.1)
    assert_agrees(marginal, diagonal, 0.012)
    assert_agrees(together, joint, 0.008)
    assert_agrees(with_floor, floored, 0.008)


@pytest.mark.parametrize(
    ("kernel", "inside", "error", "beyond"),
    [("eq", 0.40, 0.0155, 0.95), ("matern", 0.40, 0.0125, 0.84), ("weakly_periodic", 0.38, 0.007, 0.59)],
)
def test_the_diagonal_kl_of_bruinsma(kernel, inside, error, beyond):
    """Published with two digits (an error of .003 more), from draws of y: those add .003 beyond the range."""
    assert_agrees(figures(bruinsma(kernel), 1000)[3], inside, math.hypot(error, 0.003))
    assert_agrees(figures(bruinsma(kernel, "beyond"), 300)[3], beyond, math.hypot(0.003, 0.003))


@pytest.mark.parametrize("kernel", ["eq", "weakly_periodic"])
def test_shifted_tasks_have_the_same_oracle(kernel):
    """The same draws from (2, 6) in place of (−2, 2): the same figures up to the rounding of x + 4."""
    inside, shifted = (figures(bruinsma(kernel, where), 50)[3] for where in ("inside", "shifted"))
    assert np.abs(inside - shifted).max() < 1e-10


def counts(sampler, batches=400, batch=2):
    """The set of all (N_c, N_t) drawn, each shared by a batch; tasks themselves are not."""
    rng, seen = np.random.default_rng(0), set()
    for _ in range(batches):
        task = sampler.places.task(rng, batch, lambda x: x[..., :1])
        assert task.context_mask is None
        assert task.target_mask is None
        seen.add((task.context_x.shape[1], task.target_x.shape[1]))
    contexts, targets = (np.array(n) for n in zip(*seen, strict=True))
    return contexts, targets


def test_the_counts_of_tnp():
    contexts, targets = counts(tnp(), 2000)
    assert set(contexts.tolist()) == set(range(3, 47))
    assert targets.min() == 3
    assert (contexts + targets).max() == 49
    assert targets.max() >= 44


def test_the_counts_of_gordon():
    for kernel, most in (("eq", 50), ("weakly_periodic", 50), ("sawtooth", 100)):
        contexts, targets = counts(gordon(kernel), 1500)
        assert (contexts.min(), contexts.max(), targets.min(), targets.max()) == (3, most, 3, most)


def test_the_counts_of_bruinsma():
    for kernel, most, number in (("eq", 30, 50), ("sawtooth", 75, 100)):
        contexts, targets = counts(bruinsma(kernel), 1000)
        assert set(contexts.tolist()) == set(range(most + 1))
        assert set(targets.tolist()) == {number}
    contexts, targets = counts(bruinsma("eq", dx=2), 1000)
    assert (contexts.min(), contexts.max(), set(targets.tolist())) == (0, 60, {100})


@pytest.mark.parametrize(
    ("where", "context", "target"),
    [("inside", (-2, 2), (-2, 2)), ("shifted", (2, 6), (2, 6)), ("beyond", (-2, 2), (2, 6))],
)
@pytest.mark.parametrize("kernel", ["eq", "sawtooth"])
def test_the_ranges_of_bruinsma(kernel, where, context, target):
    rng = np.random.default_rng(0)
    tasks = [bruinsma(kernel, where).sample(rng, 16) for _ in range(20)]
    for name, (low, high) in (("context_x", context), ("target_x", target)):
        x = np.concatenate([getattr(task, name).ravel() for task in tasks])
        assert low <= x.min() < low + 0.01
        assert high - 0.01 < x.max() <= high


def test_the_hyper_parameters_are_the_published_ones():
    assert_parts(tnp("rbf").kernel, EQ, length_scale=(0.1, 0.6), scale=(0.1, 1.0))
    assert_parts(tnp("matern").kernel, Matern52, length_scale=(0.1, 0.6), scale=(0.1, 1.0))
    assert_parts(tnp("periodic").kernel, Periodic, period=(0.1, 0.5), length_scale=(0.1, 0.6), scale=(0.1, 1.0))
    assert tnp().noise_std == 0.02
    for protocol, dx, noise in ((gordon, None, 0.0), (bruinsma, 1, 0.05), (bruinsma, 2, 0.05)):
        factor = math.sqrt(dx or 1)
        arguments = {} if dx is None else {"dx": dx}
        assert_parts(protocol("eq", **arguments).kernel, EQ, length_scale=0.25 * factor, scale=1.0)
        assert_parts(protocol("matern", **arguments).kernel, Matern52, length_scale=0.25 * factor, scale=1.0)
        product = protocol("weakly_periodic", **arguments).kernel
        assert isinstance(product, Product)
        assert_parts(product.kernels[0], EQ, length_scale=0.5 * factor, scale=1.0)
        assert_parts(product.kernels[1], Periodic, period=0.25 * factor, length_scale=factor, scale=1.0)
        assert protocol("eq", **arguments).noise_std ** 2 == pytest.approx(noise)
    mixture = gordon("noisy_mixture")
    assert isinstance(mixture.kernel, Sum)
    assert [kernel.length_scale for kernel in mixture.kernel.kernels] == [1.0, 0.25]
    assert mixture.noise_std**2 == pytest.approx(0.001)
    sawtooth = gordon("sawtooth")
    assert (sawtooth.frequency, sawtooth.shift, sawtooth.terms, sawtooth.directions) == (
        (3, 5),
        (-5, 5),
        (10, 20),
        False,
    )
    sawtooth = bruinsma("sawtooth")
    assert (sawtooth.frequency, sawtooth.shift, sawtooth.terms, sawtooth.directions) == ((2, 4), None, None, True)


def assert_parts(kernel, kind, **fields):
    assert type(kernel) is kind
    assert {name: getattr(kernel, name) for name in fields} == fields


def test_without_noise_the_oracle_is_finite_and_knows_much():
    for kernel in ("eq", "matern", "weakly_periodic"):
        task, process = ragged(gordon(kernel)).sample_with_process(np.random.default_rng(0), 64)
        posterior = process.posterior(task)
        assert np.isfinite(posterior.joint_log_likelihood()).all()
        assert posterior.joint_log_likelihood().mean() > posterior.marginal_log_likelihood().mean()


def test_unknown_names_are_named():
    with pytest.raises(ValueError, match="tnp: kernel is 'eq'; use one of rbf, matern, periodic"):
        tnp("eq")
    with pytest.raises(ValueError, match=r"gordon: kernel is 'rbf'; use one of eq, .*, sawtooth"):
        gordon("rbf")
    with pytest.raises(ValueError, match="bruinsma: kernel is 'rbf'; use one of eq, matern, weakly_periodic, sawtooth"):
        bruinsma("rbf")
    with pytest.raises(ValueError, match="bruinsma: where is 'outside'; use one of inside, shifted, beyond"):
        bruinsma("eq", "outside")
