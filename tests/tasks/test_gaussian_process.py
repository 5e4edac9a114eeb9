"""Gaussian processes: samples with the right moments, noise where there should be some and nowhere else, and fast."""

import timeit

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.layers.distributions import Normal
from refnp.tasks.gaussian_process import NUGGET, GaussianProcess, GaussianProcessTasks
from refnp.tasks.kernels import EQ, Choice, Matern12, Matern32, Matern52, Periodic, weakly_periodic
from refnp.tasks.task import Places, Task
from tests.helpers import assert_same_bits, seeds

KERNELS = [EQ(0.3, 0.7), Matern12(0.3), Matern32(0.4), Matern52(0.25), Periodic(0.25, 0.6), weakly_periodic()]
KERNELS += [EQ(1.0) + EQ(0.25), EQ(0.5) * Matern12(1.0)]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)


@every_kernel
@pytest.mark.parametrize("noise_std", [0.0, 0.3])
def test_samples_have_the_moments_of_the_process(kernel, noise_std):
    """20 000 tasks at the same places: an element of the sample covariance is off by √((K_ii K_jj + K_ij²)/n)."""
    rng = np.random.default_rng(0)
    n, x = 20_000, rng.uniform(-2, 2, (1, 4, 2))
    process = GaussianProcess(kernel, noise_std)
    y = process.sample(rng, np.repeat(x, n, 0))[..., 0]
    covariance = kernel(x, x)[0] + noise_std**2 * np.eye(4)
    variance = np.diagonal(covariance)
    assert (np.abs(y.mean(0)) < 5 * np.sqrt(variance / n)).all()
    assert (np.abs(y.T @ y / n - covariance) < 5 * np.sqrt((np.outer(variance, variance) + covariance**2) / n)).all()


def test_every_task_has_hyper_parameters_of_its_own():
    """One far pair of places for each of 4000 tasks: the square of y over its own variance has mean 1 ± √(2/n)."""
    rng = np.random.default_rng(0)
    tasks = GaussianProcessTasks(EQ((0.1, 0.6), (0.1, 1.0)), (0.01, 0.5), Places((1, 1), (1, 1)))
    task, process = tasks.sample_with_process(rng, 4000)
    scale, noise = process.kernel.scale, process.noise_std
    for values, (low, high) in ((scale, (0.1, 1.0)), (noise, (0.01, 0.5)), (process.kernel.length_scale, (0.1, 0.6))):
        assert values.shape == (4000,)
        assert (values >= low).all()
        assert (values <= high).all()
        assert abs(values.mean() - (low + high) / 2) < 5 * (high - low) / np.sqrt(12 * 4000)
    z = task.target_y[:, 0, 0] / np.sqrt(scale**2 + noise**2)
    assert abs((z * z).mean() - 1) < 5 * np.sqrt(2 / 4000)


def test_a_choice_of_kernels_gives_each_task_its_own():
    tasks = GaussianProcessTasks(Choice((EQ(0.25), Matern12(0.25))), 0.1, Places((3, 3), (4, 4)))
    task, process = tasks.sample_with_process(np.random.default_rng(0), 8)
    figures = process.posterior(task).joint_log_likelihood()
    assert {0, 1} == set(process.kernel.chosen.tolist())
    for kernel, which in ((EQ(0.25), 0), (Matern12(0.25), 1)):
        alone = GaussianProcess(kernel, 0.1).posterior(task).joint_log_likelihood()
        mine = process.kernel.chosen == which
        assert_same_bits(figures[mine], alone[mine])


@given(seeds, st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_a_seed_gives_the_same_bits_and_both_ways_to_sample_agree(seed, dx, outputs, ragged):
    places = Places((0, 4), (1, 4), dx=dx, ragged=ragged)
    tasks = GaussianProcessTasks(EQ((0.2, 0.5)), (0.0, 0.1), places, outputs)
    task = tasks.sample(np.random.default_rng(seed), 3)
    assert task.dtype == np.float64
    assert task.target_y.shape[2] == outputs
    assert task.target_x.shape[2] == dx
    other, _ = tasks.sample_with_process(np.random.default_rng(seed), 3)
    for name in ("context_x", "context_y", "target_x", "target_y"):
        assert_same_bits(getattr(task, name), getattr(other, name))


def test_outputs_are_independent_functions():
    """Correlation of 20 000 pairs of independent numbers: 0 ± 1/√n."""
    tasks = GaussianProcessTasks(EQ(1.0), 0.0, Places((0, 0), (1, 1)), outputs=2)
    y = tasks.sample(np.random.default_rng(0), 20_000).target_y[:, 0]
    assert abs(np.corrcoef(y.T)[0, 1]) < 5 / np.sqrt(20_000)


def test_noise_stays_as_it_is_unless_a_nugget_is_asked_for():
    for noise in (0.02, 1e-6, 0.0):
        assert GaussianProcess(EQ(0.25, 2.0), noise).noise_variance() == noise**2
    assert GaussianProcess(EQ(0.25, 2.0), nugget=NUGGET).noise_variance() == NUGGET * 4.0
    per_task = GaussianProcess(EQ(0.25, np.array([1.0, 3.0])), np.array([0.1, 0.0]), NUGGET)
    assert_same_bits(per_task.noise_variance(), np.array([0.1**2, NUGGET * 9.0]))


def test_tasks_without_noise_have_a_nugget_that_their_process_tells_and_no_others():
    for noise, nugget in ((0.0, NUGGET), (1e-6, 0.0), ((0.0, 0.1), 0.0)):
        tasks = GaussianProcessTasks(EQ(0.25), noise, Places((2, 2), (2, 2)))
        assert tasks.sample_with_process(np.random.default_rng(0), 3)[1].nugget == nugget


@every_kernel
@pytest.mark.parametrize("places", ["spread", "equal", "near"])
def test_without_noise_300_points_have_a_factor_wherever_they_lie(kernel, places):
    rng = np.random.default_rng(0)
    x = {
        "spread": rng.uniform(-2, 2, (1, 300, 1)),
        "equal": np.zeros((1, 300, 1)),
        "near": rng.normal(0, 1e-9, (1, 300, 1)),
    }
    y = GaussianProcess(kernel).sample(rng, x[places])
    assert np.isfinite(y).all()
    if places == "equal":  # one value: 300 numbers of rounding, each √(300 u k(0, 0)) at most
        assert y.std() < 2 * np.sqrt(300 * 2.0**-53 * kernel.variance())


def test_places_in_float32_are_no_less_exact():
    x = np.random.default_rng(0).uniform(-2, 2, (1, 100, 1)).astype(np.float32)
    narrow, wide = (
        GaussianProcess(EQ(0.25)).sample(np.random.default_rng(1), places) for places in (x, x.astype(float))
    )
    assert_same_bits(narrow, wide)


def test_without_the_nugget_there_is_no_factor():
    x = np.random.default_rng(0).uniform(-2, 2, (1, 100, 1))
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(EQ(0.25)(x, x))


def test_the_oracle_without_noise_is_the_same_for_tasks_in_float32():
    """Rounding x and y to float32 moves y by less than 1e-6, a tenth of what the nugget does: figures move little."""
    tasks = GaussianProcessTasks(EQ(0.25), 0.0, Places((20, 20), (10, 10)))
    task, process = tasks.sample_with_process(np.random.default_rng(0), 64)
    wide, narrow = (process.posterior(task.astype(dtype)) for dtype in (np.float64, np.float32))
    assert narrow.mean.dtype == np.float64
    assert abs(wide.marginal_log_likelihood().mean() - narrow.marginal_log_likelihood().mean()) < 0.05
    assert abs(wide.diagonal_kl().mean() - narrow.diagonal_kl().mean()) < 0.05


def test_contexts_are_hit_where_there_is_no_noise():
    """Asked at the contexts, the oracle repeats them, to a few standard deviations of the nugget."""
    tasks = GaussianProcessTasks(Matern32(0.25), 0.0, Places((5, 5), (1, 1)))
    task, process = tasks.sample_with_process(np.random.default_rng(0), 8)
    posterior = process.posterior(Task(task.context_x, task.context_y, task.context_x, task.context_y))
    assert np.abs(posterior.mean - task.context_y).max() < 5 * np.sqrt(2 * NUGGET)
    assert posterior.std.max() < 2 * np.sqrt(NUGGET)
    assert np.isfinite(posterior.kl(Normal(task.context_y, np.full_like(task.context_y, 0.1)))).all()


def test_a_batch_of_16_tasks_of_50_points_costs_less_than_5_ms():
    tasks = GaussianProcessTasks(Matern52((0.1, 0.6), (0.1, 1.0)), 0.02, Places((25, 25), (25, 25)))
    rng = np.random.default_rng(0)
    assert min(timeit.repeat(lambda: tasks.sample(rng, 16), number=1, repeat=30)) < 5e-3


def test_wrong_arguments_are_named():
    rng, places = np.random.default_rng(0), Places((1, 1), (1, 1))
    with pytest.raises(ValueError, match=r"GaussianProcess: noise_std is -0\.1; it must be at least 0 and finite"):
        GaussianProcess(EQ(1.0), -0.1)
    with pytest.raises(ValueError, match=r"GaussianProcess: noise_std is the range \(0.0, 1.0\); draw a number"):
        GaussianProcess(EQ(1.0), (0.0, 1.0))
    two = np.zeros((2, 4, 1))
    for kernel, name in (
        (EQ(np.ones(3)), "EQ: length_scale"),
        (Periodic(1.0, 1.0, np.ones(3)), "Periodic: scale"),
        (Choice((EQ(1.0),), np.zeros(3, int)), "Choice: chosen"),
    ):
        with pytest.raises(ValueError, match=f"{name} is given for 3 tasks but x holds 2; they must match"):
            GaussianProcess(kernel).sample(rng, two)
    with pytest.raises(ValueError, match=r"noise_std has shape \(3,\) but x holds 2 tasks; it must be a number"):
        GaussianProcess(EQ(1.0), np.ones(3)).sample(rng, two)
    with pytest.raises(ValueError, match="kernel: x has 1 dimensions but z has 2; they must match"):
        EQ(1.0)(two, np.zeros((2, 4, 2)))
    with pytest.raises(ValueError, match="EQ: length_scale is the range"):
        GaussianProcess(EQ((0.1, 0.2))).sample(rng, two)
    with pytest.raises(TypeError, match=r"GaussianProcess\.sample: rng is NoneType"):
        GaussianProcess(EQ(1.0)).sample(None, two)
    with pytest.raises(ValueError, match="outputs is 0; there must be at least one"):
        GaussianProcessTasks(EQ(1.0), 0.0, places, outputs=0)
    with pytest.raises(ValueError, match="GaussianProcessTasks: noise_std is nan"):
        GaussianProcessTasks(EQ(1.0), float("nan"), places)
    with pytest.raises(TypeError, match="GaussianProcessTasks: rng is int"):
        GaussianProcessTasks(EQ(1.0), 0.0, places).sample(0, 4)
