"""Losses: squared error, Gaussian likelihood and cross-entropy. Options are those of the layers."""

from __future__ import annotations

import numpy as np

from refnp.verify import rounding
from refnp.verify.equations.linear import sum_to
from refnp.verify.equations.rows import log_softmax
from refnp.verify.rounding import WIDE, constant, exact, where

HALF_LOG_TWO_PI = constant(np.log(8 * np.arctan(WIDE(1))) / 2)


def reduced(terms, counts, reduction, divisor=None):
    """All of the terms that count, their sum, or that divided by their number; and what the gradient of each is."""
    divisor = exact(counts.sum()) if divisor is None else divisor
    divisor = divisor if reduction == "mean" and divisor.value > 0 else exact(1)
    terms = where(counts, terms, 0)
    value = terms if reduction == "none" else terms.sum() / divisor
    return value, lambda g: where(counts, g if reduction == "none" else g / divisor, 0)


def mse(prediction, target, *, mask=None, reduction="mean"):
    """ℓ = (p − t)², p̄ = 2 ℓ̄ (p − t), t̄ = −p̄."""
    counts = np.broadcast_to(True if mask is None else mask, np.broadcast_shapes(prediction.shape, target.shape))
    difference = where(counts, prediction, 0) - where(counts, target, 0)
    value, spread = reduced(difference * difference, counts, reduction)

    def pullback(g):
        bar = spread(g) * difference * 2
        return sum_to(bar, prediction.shape), sum_to(-bar, target.shape)

    return value, pullback


def gaussian_nll(mean, std, y, *, mask=None, reduction="mean"):
    """ℓ = ½ z² + log σ + ½ log 2π, ȳ = ℓ̄ z/σ, μ̄ = −ȳ, σ̄ = ℓ̄ (1 − z)(1 + z)/σ."""
    shape = np.broadcast_shapes(mean.shape, std.shape, y.shape)
    counts = np.broadcast_to(True if mask is None else mask, shape)
    shapes = mean.shape, std.shape, y.shape
    mean, std, y = where(counts, mean, 0), where(counts, std, 1), where(counts, y, 0)
    z = (y - mean) / std
    value, spread = reduced(z * z * 0.5 + (rounding.log(std) + HALF_LOG_TWO_PI), counts, reduction)

    def pullback(g):
        y_bar = spread(g) * (z / std)
        std_bar = spread(g) * ((1 - z) * (1 + z) / std)
        return tuple(sum_to(bar, s) for bar, s in zip((-y_bar, std_bar, y_bar), shapes, strict=True))

    return value, pullback


def cross_entropy(
    logits,
    *,
    targets,
    ignore_index=None,
    label_smoothing=0.0,
    smoothing="uniform",
    class_weights=None,
    reduction="mean",
):
    """ℓ = −Σ_c w_c q_c log p_c, q smoothed or not; x̄ by the pullback of log p, and where q is smoothed ℓ̄ (Q p − w q).

    Q = Σ_c w_c q_c. The mean divides by Σ w_target over the rows that count.
    """
    classes, counts = logits.shape[-1], np.asarray(targets != ignore_index)
    targets = np.where(counts, targets, 0)
    hit = targets[..., None] == np.arange(classes)  # (..., V)
    own, off = shares(classes, label_smoothing, smoothing, ignore_index)
    weights = None if class_weights is None else constant(class_weights)
    if weights is not None:
        own, off = own * weights, off * weights
    q = where(hit, own, off)  # (..., V)   w q
    log_p, log_p_pullback = log_softmax(where(counts[..., None], logits, 0))
    parts = q * where(q.value == 0, 0, log_p)
    terms = -(where(hit, parts, 0).sum(-1, depth=0) + where(hit, 0, parts).sum(-1))
    divisor = None if weights is None else where(counts, weights[targets], 0).sum()
    value, spread = reduced(terms, counts, reduction, divisor)

    def pullback(g):
        bar = spread(g)[..., None]
        (x_bar,) = log_p_pullback(-(q * bar))
        smoothed = bar * (q.sum(-1, keepdims=True) * rounding.exp(log_p) - q)
        return (where(hit | (q.value == 0), x_bar, smoothed),)

    return value, pullback


def shares(classes, epsilon, smoothing, padding):
    """(V,) twice: the part q_c of every class if it is the target, and if it is not."""
    if not epsilon:
        return exact(np.ones(classes)), exact(np.zeros(classes))
    epsilon = constant(epsilon)
    if smoothing == "uniform":
        each = epsilon / classes
        return 1 - epsilon + each + np.zeros(classes), each + np.zeros(classes)
    without_pad = smoothing == "without_pad"
    each = epsilon / (classes - 2 if without_pad else classes - 1)
    gets_none = (np.arange(classes) == padding) & without_pad
    return 1 - epsilon + np.zeros(classes), where(gets_none, 0, each)
