"""Cases of log densities and divergences."""

from __future__ import annotations

import numpy as np

from refnp.layers.distributions import Categorical, MultivariateNormal, Normal, kl_divergence
from refnp.verify import known
from refnp.verify.case import Case, Layer, normal, uniform
from refnp.verify.equations import densities, divergences


def normal_log_prob(y, mean, std):
    """log N(y; mean, std²), as the distribution gives it."""
    return Normal(mean, std).log_prob(y)


def normal_kl(mean_p, std_p, mean_q, std_q):
    """KL of two normal distributions."""
    return kl_divergence(Normal(mean_p, std_p), Normal(mean_q, std_q))


def multivariate_normal_log_prob(y, mean, factor):
    """log N(y; mean, L Lᵀ), as the distribution gives it."""
    return MultivariateNormal(mean, factor).log_prob(y)


def categorical_kl(logits_p, logits_q):
    """KL of two categorical distributions, from their logits."""
    return kl_divergence(Categorical(logits_p), Categorical(logits_q))


NORMAL = Layer("normal_log_prob", normal_log_prob, densities.normal_log_prob)
NORMAL_KL = Layer("normal_kl", normal_kl, divergences.normal_kl)
JOINT = Layer("multivariate_normal_log_prob", multivariate_normal_log_prob, densities.multivariate_normal_log_prob)
CATEGORICAL_KL = Layer("categorical_kl", categorical_kl, divergences.categorical_kl)


FAR_OFF, NEARLY_EQUAL = (known.CATEGORICAL_LOGITS,), (known.NORMAL_KL,)


def lower_triangular(n: int, *, least: float):
    """Factors with diagonals from `least` to 1, and anything below."""
    return lambda rng: np.tril(rng.standard_normal((n, n)) * 0.3, -1) + np.diag(rng.uniform(least, 1, n))


def cases() -> list[Case]:
    """All cases of this page."""
    std = uniform(9, low=0.3, high=2.0)
    means = {"mean_p": normal(9), "std_p": std, "mean_q": normal(9), "std_q": std}
    near = {"mean_p": [1.0], "std_p": [0.5], "mean_q": [1.0001], "std_q": [0.5001]}

    def joint(variant, n, batch, least):
        inputs = {"y": normal(batch, n), "mean": normal(n), "factor": lower_triangular(n, least=least)}
        return Case(JOINT, variant, inputs)

    return [
        Case(NORMAL, "ordinary", {"y": normal(9), "mean": normal(9), "std": std}),
        Case(NORMAL, "far from the mean", {"y": normal(9, scale=1e3), "mean": normal(9), "std": std}),
        Case(NORMAL, "small deviations", {"y": normal(9), "mean": normal(9), "std": uniform(9, low=1e-3, high=1e-2)}),
        Case(NORMAL_KL, "ordinary", means, known=NEARLY_EQUAL),
        Case(NORMAL_KL, "nearly equal", near, known=NEARLY_EQUAL),
        joint("ordinary", 5, 3, 0.3),
        joint("one dimension", 1, 3, 0.3),
        joint("poor condition", 6, 2, 0.01),
        Case(CATEGORICAL_KL, "ordinary", {"logits_p": normal(4, 7), "logits_q": normal(4, 7)}),
        Case(
            CATEGORICAL_KL,
            "mean 1e4",
            {"logits_p": normal(4, 7, shift=1e4), "logits_q": normal(4, 7, shift=-1e4)},
            known=FAR_OFF,
        ),
    ]
