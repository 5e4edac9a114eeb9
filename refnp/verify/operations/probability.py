"""Losses, densities, distributions and their divergences."""

from __future__ import annotations

import numpy as np

from refnp.layers.densities import (
    categorical_entropy,
    categorical_kl,
    multivariate_normal_kl,
    multivariate_normal_log_prob,
    normal_cdf,
    normal_kl,
)
from refnp.layers.distributions import Categorical, MultivariateNormal, Normal
from refnp.layers.losses import cross_entropy, gaussian_nll, mse
from refnp.verify.operations.operation import Operation


def operations(rng: np.random.Generator) -> list[Operation]:
    """Every loss with each of its options, and what the three distributions answer."""
    return _losses(rng) + _densities(rng) + _divergences(rng)


def _losses(rng):
    mean, y, std = rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), rng.uniform(0.5, 2, (3, 4))
    mask = np.arange(4) < np.array([4, 2, 0])[:, None]
    logits, targets, weights = rng.normal(size=(4, 5)), np.array([0, 2, 4, 4]), rng.uniform(0.5, 2, 5)

    def smoothed(name):
        options = {"label_smoothing": 0.2, "smoothing": name, "ignore_index": 2}
        return Operation(f"cross_entropy, {name}", lambda x: cross_entropy(x, targets, **options), (logits,))

    return [
        Operation("mse", lambda p, t: mse(p, t, mask=mask), (mean, y)),
        Operation("gaussian_nll", gaussian_nll, (mean, std, y)),
        Operation("gaussian_nll, mask", lambda *a: gaussian_nll(*a, mask=mask), (mean, std, y)),
        Operation("gaussian_nll, none", lambda *a: gaussian_nll(*a, reduction="none"), (mean, std[0], y)),
        Operation("cross_entropy", lambda x: cross_entropy(x, targets), (logits,)),
        Operation("cross_entropy, weights", lambda x: cross_entropy(x, targets, class_weights=weights), (logits,)),
        Operation("cross_entropy, none", lambda x: cross_entropy(x, targets, reduction="none"), (logits,)),
        smoothed("uniform"),
        smoothed("off_target"),
        smoothed("without_pad"),
    ]


def factors(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Lower triangular matrices with diagonals between 1 and 2."""
    return np.tril(rng.normal(size=(*shape, shape[-1])), -1) + np.eye(shape[-1]) * rng.uniform(1, 2, (*shape, 1))


def _densities(rng):
    y, mean, std = rng.normal(size=(2, 3)), rng.normal(size=(2, 3)), rng.uniform(0.5, 2, 3)
    factor, logits, classes = factors(rng, 2, 3), rng.normal(size=(2, 5)), np.array([1, 4])
    mask = np.array([[True, False, True], [False, True, True]])
    draw = np.random.default_rng

    def joint(answer):
        return lambda m, f: answer(MultivariateNormal(m, f))

    return [
        Operation("Normal.log_prob", lambda y, m, s: Normal(m, s).log_prob(y), (y, mean, std)),
        Operation("Normal.cdf", normal_cdf, (y, mean, std)),
        Operation("Normal.entropy", lambda s: Normal(mean, s).entropy(), (std,)),
        Operation("Normal.sample", lambda m, s: Normal(m, s).sample(draw(0), 2), (mean, std), order2=False),
        Operation("MultivariateNormal.log_prob", multivariate_normal_log_prob, (y, mean, factor)),
        Operation(
            "MultivariateNormal.log_prob, mask",
            lambda y, m, f: MultivariateNormal(m, f).log_prob(y, mask=mask),
            (y, mean, factor),
        ),
        Operation(
            "MultivariateNormal.marginals",
            lambda y, m, f: MultivariateNormal(m, f).marginals().log_prob(y),
            (y, mean, factor),
        ),
        Operation("MultivariateNormal.entropy", lambda f: MultivariateNormal(mean, f).entropy(), (factor,)),
        Operation("MultivariateNormal.sample", joint(lambda p: p.sample(draw(0), 2)), (mean, factor), order2=False),
        Operation("Categorical.log_prob", lambda x: Categorical(x).log_prob(classes), (logits,)),
        Operation("Categorical.entropy", categorical_entropy, (logits,)),
    ]


def _divergences(rng):
    means, stds = rng.normal(size=(2, 4)), rng.uniform(0.8, 1.6, (2, 4))
    joint = rng.normal(size=(2, 3)), factors(rng, 2, 3)
    logits = rng.normal(size=(2, 3, 5))
    return [
        Operation("KL, Normal", normal_kl, (means[0], stds[0], means[1], stds[1])),
        Operation("KL, Normal, nearly equal", normal_kl, (means[0], stds[0], means[0] + 1e-4, stds[0] * 1.0001)),
        Operation(
            "KL, MultivariateNormal", multivariate_normal_kl, (joint[0][0], joint[1][0], joint[0][1], joint[1][1])
        ),
        Operation("KL, Categorical", categorical_kl, (logits[0], logits[1])),
        Operation("KL, Categorical, nearly equal", categorical_kl, (logits[0], logits[0] + 1e-4 * logits[1])),
    ]
