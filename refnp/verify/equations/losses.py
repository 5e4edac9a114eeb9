"""Losses: squared error, Gaussian likelihood and cross-entropy. Options are those of the layers."""

from __future__ import annotations

import numpy as np

from refnp.verify import rounding
from refnp.verify.equations.linear import sum_to
from refnp.verify.equations.rows import log_softmax
from refnp.verify.rounding import WIDE, constant, contract, exact, where

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
    """ℓ = −Σ_c w_c q_c log p_c, x̄_i = ℓ̄ (Q p_i − w_i q_i) with Q = Σ_c w_c q_c; at the target Q p − w q =
    w q (p − 1) + (Q − w q) p."""
    classes = logits.shape[-1]
    targets = np.asarray(targets)
    counts = np.ones(targets.shape, bool) if ignore_index is None else targets != ignore_index
    y = np.where(counts, targets, 0).reshape(-1)
    rows = where(counts[..., None], logits, 0).reshape(y.size, classes)
    weights = constant(np.ones(classes) if class_weights is None else class_weights)
    each = (
        constant(label_smoothing)
        / {"uniform": classes, "off_target": classes - 1, "without_pad": classes - 2}[smoothing]
    )
    own = weights * (1 - constant(label_smoothing) + (each if smoothing == "uniform" else 0))  # (V,)
    off = weights * each * (1.0 if smoothing != "without_pad" else np.arange(classes) != ignore_index)  # (V,)
    others = contract("cv,v->c", 1 - np.eye(classes), off)  # (V,)

    log_p, _ = log_softmax(rows)
    hit = np.arange(classes) == y[:, None]  # (R, V)
    missed = where(hit | (off.value == 0), 0, log_p)
    log_hit = where(hit, log_p, 0).sum(-1, depth=0)
    terms = -(own[y] * where(own[y].value == 0, 0, log_hit) + contract("rv,v->r", missed, off))
    divisor = where(counts.reshape(-1), weights[y], 0).sum()
    value, spread = reduced(terms.moved(lambda a: a.reshape(targets.shape)), counts, reduction, divisor)

    def pullback(g):
        p = rounding.exp(log_p)
        at_hit = (own[y] * rounding.expm1(log_hit))[:, None] + others[y][:, None] * p
        slope = where(hit, at_hit, (own + others)[y][:, None] * p - off)
        bar = spread(g) + np.zeros(targets.shape)
        return ((slope * bar.reshape(-1, 1)).moved(lambda a: a.reshape(logits.shape)),)

    return value, pullback
