"""What a model says of each target by itself, and of all of them together: two questions, two likelihoods.

    by itself     q(y_t | x_t, C)                  the marginal likelihood: every model answers
    together      q(y_1 … y_T | x_1 … x_T, C)      the joint one: TNP-A, TNP-ND, latent models; others by the chain rule

The answers of a latent model are mixtures over draws of z. Its joint likelihood is the importance-weighted bound of
refnp/models/latent.py, a lower bound in expectation. What TNP-A says of a target by itself is what it says of the first
of its chain: every target is taken as the first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.primitives import raw
from refnp.layers.distributions import MultivariateNormal, Normal
from refnp.layers.mixtures import Mixture
from refnp.models.joint import Autoregressive
from refnp.models.latent import LatentModel
from refnp.models.neural_process import NeuralProcess
from refnp.models.tnp import TNPA, TNPD, TNPND, log_prob
from refnp.tasks.task import Task

DRAWS = 128  # of z, for the figures of latent models


def is_joint(model: NeuralProcess) -> bool:
    """Whether the model's loss is a joint likelihood of all targets (or a bound on it), and not a marginal one."""
    return isinstance(model, (TNPA, TNPND, LatentModel))


def sets(model: NeuralProcess, task: Task) -> tuple:
    """What a model is called with: context, targets, context mask. Hidden targets stand somewhere harmless."""
    return task.context_x, task.context_y, raw(model.targets(task)[0]), task.context_mask


def by_itself(model: NeuralProcess, task: Task, rng: np.random.Generator) -> Normal | Mixture:
    """q(y_t | x_t, C) of every target, elements (B, T, dy), in float64. `rng` draws z for latent models."""
    with ag.no_grad():
        if isinstance(model, TNPND):
            normal = covariant(model, task).marginals()
            shape = (*task.target_x.shape[:2], model.dy)
            return in_double(Normal(raw(normal.mean).reshape(shape), raw(normal.std).reshape(shape)))
        if isinstance(model, LatentModel):
            return Mixture(in_double(model(*sets(model, task), samples=DRAWS, rng=rng).components))
        if isinstance(model, TNPA):
            first: Any = model  # of the same weights; the first of a chain sees the context alone, as in TNP-D
            return in_double(TNPD.__call__(first, *sets(model, task)))
        return in_double(model(*sets(model, task)))


def in_double(normal: Normal) -> Normal:
    """The same numbers in float64, so that the sums that follow round no more."""
    return Normal(*(raw(parameter).astype(np.float64) for parameter in (normal.mean, normal.std)))


def covariant(model: TNPND, task: Task) -> MultivariateNormal:
    """What TNP-ND says of all targets that are present."""
    context_x, context_y, target_x, context_mask = sets(model, task)
    return model(context_x, context_y, target_x, context_mask, task.target_mask)


def together(model: NeuralProcess, task: Task, rng: np.random.Generator, *, autoregressive: bool) -> Any:
    """log q(y_1, …, y_T | C) of the present targets, (B,); None if the model has none.

    With `autoregressive` by the chain rule in the order of the targets, whatever the model has.
    """
    mask = task.target_present[..., None]  # (B, T, 1)
    with ag.no_grad():
        if autoregressive:
            found = Autoregressive(model)(*sets(model, task)).log_prob(task.target_y, mask=mask)
        elif isinstance(model, TNPA):
            found = model(*sets(model, task)).log_prob(task.target_y, mask=mask)
        elif isinstance(model, TNPND):
            found = log_prob(covariant(model, task), task.target_y, task.target_mask)
        elif isinstance(model, LatentModel):
            found = model.log_likelihood_bound(task, bound="importance_weighted", samples=DRAWS, rng=rng)
        else:
            return None
        return raw(found).astype(np.float64)
