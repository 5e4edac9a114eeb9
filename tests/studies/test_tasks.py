"""Tasks by name, and the places where they are evaluated."""

import numpy as np
import pytest

from refnp.studies.evaluation import SHIFT, beyond, drawn_at, independent
from refnp.studies.registry import TASKS, sampler
from refnp.tasks.gaussian_process import GaussianProcessTasks
from refnp.tasks.protocols import WHERE, bruinsma
from tests.helpers import assert_same_bits

every_task = pytest.mark.parametrize("name", TASKS)
PARTS = ("context_x", "context_y", "target_x", "target_y")


def rng():
    return np.random.default_rng(5)


@every_task
def test_draws_and_has_an_oracle_where_there_is_one(name):
    tasks = sampler(name)
    task, posterior = tasks.sample_with_posterior(rng(), 3)
    plain = tasks.sample(rng(), 3)
    for part in PARTS:
        assert_same_bits(getattr(task, part), getattr(plain, part))
    assert (tasks.places.dx, tasks.outputs) == (task.target_x.shape[-1], task.target_y.shape[-1]) == (1, 1)
    assert (posterior is None) == ("sawtooth" in name)
    if posterior is not None:
        assert_same_bits(posterior.y, task.target_y)


@every_task
def test_shifted_are_the_same_functions_elsewhere(name):
    tasks = sampler(name)
    (inside, exact), (moved, still) = (drawn_at(where, tasks, rng(), 3) for where in ("inside", "shifted"))
    for part in ("context_y", "target_y"):
        assert_same_bits(getattr(moved, part), getattr(inside, part))
    for part in ("context_x", "target_x"):
        assert_same_bits(getattr(moved, part), getattr(inside, part) + SHIFT)
    if exact is not None:
        assert_same_bits(still.mean, exact.mean)


@every_task
def test_kernels_are_stationary_so_the_posterior_may_be_kept(name):
    """Between places where a shift is exact, the kernel's matrix is the same to the bit."""
    tasks = sampler(name)
    if isinstance(tasks, GaussianProcessTasks):
        kernel = tasks.kernel.drawn(rng(), 2)
        x = rng().integers(-(2**20), 2**20, size=(2, 7, 1)) / 2**19
        assert_same_bits(kernel(x + SHIFT, x + SHIFT), kernel(x, x))


def test_independent_tasks_have_counts_of_their_own():
    task = independent(sampler("rbf")).sample(rng(), 30)
    contexts, targets = task.context_mask.sum(1), task.target_mask.sum(1)
    assert len(set(contexts)) > 10
    assert (contexts >= 3).all()
    assert (targets >= 3).all()
    assert (contexts + targets <= 49).all()


def test_beyond_is_what_the_protocol_says():
    tasks = beyond(sampler("eq"))
    assert tuple(map(float, tasks.places.target_range)) == WHERE["beyond"][1]
    ours, published = (t.sample(rng(), 2) for t in (tasks, bruinsma("eq", "beyond")))
    for part in PARTS:
        assert_same_bits(getattr(ours, part), getattr(published, part))


@every_task
def test_beyond_asks_outside_the_range_of_the_contexts(name):
    task, _ = drawn_at("beyond", sampler(name), rng(), 4)
    assert task.context_x.max(initial=-2.0) <= 2.0 <= task.target_x.min()


def test_an_unknown_name():
    with pytest.raises(ValueError, match="no task 'sawtoth'; did you mean sawtooth"):
        sampler("sawtoth")
