"""Losses and densities of the normal distribution."""

from __future__ import annotations

import numpy as np

from refnp.verify import rounding
from refnp.verify.equations.rows import log_softmax
from refnp.verify.rounding import WIDE, constant, where

HALF_LOG_TWO_PI = constant(np.log(8 * np.arctan(WIDE(1))) / 2)


def reduced(terms, reduction, divisor=None):
    """The terms, their sum, or their sum divided by their number; and what the gradient of each is."""
    if reduction == "none":
        return terms, lambda g: g
    divisor = 1 if reduction == "sum" else int(np.prod(terms.shape)) if divisor is None else divisor
    value = terms.sum() / divisor

    def spread(g):
        return (g / divisor).moved(lambda a: np.broadcast_to(a, terms.shape))

    return value, spread


def mse(prediction, target, *, reduction="mean"):
    """ℓ = (p − t)²;   p̄ = 2 ℓ̄ (p − t), t̄ = −p̄."""
    difference = prediction - target
    value, spread = reduced(difference * difference, reduction)

    def pullback(g):
        bar = spread(g) * difference * 2
        return bar, -bar

    return value, pullback


def gaussian_nll(mean, std, y, *, reduction="mean"):
    """ℓ = ½ z² + log σ + ½ log 2π, z = (y − μ)/σ;   ȳ = ℓ̄ z/σ = −μ̄, σ̄ = ℓ̄ (1 − z²)/σ."""
    z = (y - mean) / std
    value, spread = reduced(z * z / 2 + rounding.log(std) + HALF_LOG_TWO_PI, reduction)

    def pullback(g):
        y_bar = spread(g) * (z / std)
        return -y_bar, spread(g) * ((1 - z * z) / std), y_bar

    return value, pullback


def cross_entropy(logits, *, targets, ignore_index=None, label_smoothing=0.0, class_weights=None, reduction="mean"):
    """ℓ = −Σ_c w_c q_c log p_c, q = 1 − ε at the target plus ε/V everywhere; x̄ by the pullback of log p.

    The mean divides by Σ w_target over the rows that count.
    """
    classes = logits.shape[-1]
    counts = np.asarray(targets != ignore_index)
    target = np.where(counts, targets, 0)[..., None] == np.arange(classes)
    weights = np.ones(classes) if class_weights is None else np.asarray(class_weights)
    epsilon = constant(label_smoothing)
    q = where(target, 1 - epsilon, 0) + epsilon / classes if label_smoothing else rounding.exact(target)
    q = q * where(counts[..., None], weights, 0)
    log_p, log_p_pullback = log_softmax(logits)
    terms = -(q * where(q.value == 0, 0, log_p)).sum(-1)
    value, spread = reduced(terms, reduction, (target * weights * counts[..., None]).sum())

    def pullback(g):
        return log_p_pullback(-(q * spread(g).moved(lambda a: a[..., None])))

    return value, pullback
