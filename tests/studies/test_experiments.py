"""Growth and calibration: right where the answer is known; and the figures that are kept hold."""

import numpy as np
import pytest

from refnp.autograd.primitives import raw
from refnp.studies import calibration, growth
from refnp.studies.evaluation import plain
from refnp.studies.measured import kept, mean_and_error
from refnp.studies.registry import sampler
from refnp.studies.trained import open_trained, shipped
from refnp.tasks.protocols import tnp
from refnp.tasks.task import Task


def test_the_exact_posterior_that_is_counted_is_the_exact_posterior():
    x, y, target = growth.points(12)
    mean, factor = growth.exact(x, y, target)
    posterior = growth.PROCESS.posterior(Task(x, y, target, np.zeros_like(y)))
    assert np.abs(raw(mean) - posterior.mean).max() < 1e-12
    assert np.abs(raw(factor) - posterior.factor).max() < 1e-12


@pytest.mark.parametrize("name", [*growth.MODELS, growth.EXACT])
def test_counts_that_are_kept_are_those_counted(name):
    figures = kept("growth")[name]
    assert growth.counted(name) == {part: figures[part] for part in ("degree", "million multiply-adds")}
    assert abs(figures["exponent of time"] - figures["degree"]) < 0.7  # of time, whatever the machine


def test_a_count_at_many_points_is_what_counting_there_gives():
    for name in ("cnp", "tnpd", growth.EXACT):
        assert growth.at(growth.count(name), 24) == growth.count(name)(24)


def test_intervals_of_the_exact_posterior_hold_and_too_narrow_ones_do_not():
    """A model whose deviations are those of the exact posterior, times a factor."""
    tasks = tnp()
    task, posterior = tasks.sample_with_posterior(np.random.default_rng(0), 400)
    u = np.abs(task.target_y - posterior.mean)[..., 0] / posterior.std
    for factor, part in ((1.0, 90.0), (0.5, 58.9)):  # 2 Φ(1.645/2) − 1 of the second
        mean, error = mean_and_error(100 * (u < 1.6449 * factor).mean(1))
        assert abs(mean - part) < 4 * error


@pytest.mark.parametrize("name", ["cnp", "convcnp", "tnpd"])
def test_calibration_that_is_kept_holds_on_a_few_tasks(name):
    figures, model = kept("calibration")[name], open_trained(name).model
    tasks = sampler(figures["task"])
    for percent, (mean, error) in calibration.held(model, tasks, 64, seed=1).items():
        known, its_error = figures[f"{percent} %"]
        assert abs(mean - known) < 4 * np.hypot(error, its_error)
    assert calibration.misfit(model, tasks, 64, seed=1) == pytest.approx(figures["misfit"], rel=0.5)


def test_everything_shipped_is_in_the_tables():
    assert sorted(kept("calibration")) == shipped()
    for study in (growth, calibration):
        (table,) = study.tables(kept(study.__name__.rpartition(".")[2]))
        assert len(plain(table)) == len(table.rows) + 2
