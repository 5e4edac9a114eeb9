"""Coherence is the correlation of neighbours, and draws are of the law that is asked for."""

import numpy as np
import pytest

from refnp.autograd.primitives import raw
from refnp.models import CNP, TNPND, LatentNP
from refnp.studies.paths import LAWS, coherence, drawn, few_points, functions


def test_coherence_of_known_draws():
    rng = np.random.default_rng(0)
    shared, own = rng.normal(size=(4000, 1)), rng.normal(size=(4000, 6))
    assert coherence(shared + np.arange(6)) == pytest.approx(1)  # parallel
    assert abs(coherence(own)) < 5 / np.sqrt(4000 * 5)
    assert coherence(shared + own) == pytest.approx(0.5, abs=0.04)


@pytest.mark.parametrize("kind", [CNP, LatentNP])
@pytest.mark.parametrize("law", LAWS)
def test_draws_have_the_means_and_deviations_of_the_marginals(kind, law):
    """Of the chain rule this holds for the first target, which knows no other."""
    task, _ = few_points(2, targets=3)
    model = kind(hidden=16, rng=np.random.default_rng(0))
    y = drawn(model, task, np.random.default_rng(1), 2000, law)
    marginal = model.marginal(task)
    mean, std = raw(marginal.mean)[:, :1, 0], raw(marginal.std)[:, :1, 0]
    assert y.shape == (2000, 2, 3)
    assert (np.abs(y[..., :1].mean(0) - mean) < 5 * std / np.sqrt(2000)).all()
    assert (np.abs(y[..., :1].std(0) / std - 1) < 0.1).all()


def test_a_joint_distribution_of_its_own_is_drawn_from():
    task, _ = few_points(1, targets=3)
    model = TNPND(features=16, heads=2, hidden=16, layers=1, target_layers=1, rng=np.random.default_rng(0))
    y = drawn(model, task, np.random.default_rng(1), 4000)[:, 0]
    covariance = raw(model.joint_normal(task).covariance())[0]
    assert np.abs(np.cov(y.T) - covariance).max() < 0.1 * covariance.max()
    assert functions(model, task, np.random.default_rng(2), 3).shape == (3, 1, 3)


def test_the_exact_posterior_belongs_to_the_tasks():
    task, posterior = few_points(3)
    assert posterior.mean.shape == task.target_y.shape
    near = np.abs(task.target_y - posterior.mean) / posterior.std[..., None]
    assert near.max() < 5
