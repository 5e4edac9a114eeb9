"""Kullback-Leibler divergences, as sums of terms that are never negative: nearly equal distributions keep their digits.

As textbooks print them, log(σ_q/σ_p) + … − ½ or Σ p (log p − log q), they are of the order δ² and lost below u.
"""

from __future__ import annotations

import numpy as np

from refnp.verify import rounding
from refnp.verify.equations.densities import diagonal_of, solve
from refnp.verify.equations.linear import sum_to
from refnp.verify.equations.rows import log_softmax
from refnp.verify.rounding import contract, where


def normal_kl(mean_p, std_p, mean_q, std_q):
    """½ d² + h(t), d = (μ_p − μ_q)/σ_q, t = (σ_p − σ_q)/σ_q;  d/σ_q, t (2 + t)/σ_p, −d/σ_q, −(d² + t (2 + t))/σ_q."""
    d = (mean_p - mean_q) / std_q
    t = (std_p - std_q) / std_q
    value = d * d * 0.5 + ratio_excess(t, std_p / std_q)

    def pullback(g):
        mean_bar, spread = g * (d / std_q), t * (t + 2)
        bars = mean_bar, g * (spread / std_p), -mean_bar, -(g * ((d * d + spread) / std_q))
        shapes = mean_p.shape, std_p.shape, mean_q.shape, std_q.shape
        return tuple(sum_to(bar, shape) for bar, shape in zip(bars, shapes, strict=True))

    return value, pullback


def multivariate_normal_kl(mean_p, factor_p, mean_q, factor_q):
    """½ |d|² + ½ Σ_{i>j} T_ij² + Σ h(T_ii), d = L_q⁻¹ (μ_p − μ_q), T = L_q⁻¹ (L_p − L_q)."""
    n = mean_p.shape[-1]
    identity = np.eye(n, dtype=bool)
    factor_p, factor_q = factor_p.moved(np.tril), factor_q.moved(np.tril)
    d = solve(factor_q, (mean_p - mean_q)[..., None])[..., 0]
    moved = solve(factor_q, factor_p - factor_q)
    t, below = moved.moved(diagonal_of), moved.moved(lambda a: np.tril(a, -1))
    ratio = factor_p.moved(diagonal_of) / factor_q.moved(diagonal_of)
    squares = (d * d).sum(-1) + (below * below).sum((-2, -1))
    value = squares * 0.5 + ratio_excess(t, ratio).sum(-1)

    def pullback(g):
        slope = where(identity, (t + t / ratio)[..., None], below)
        w = solve(factor_q, d[..., None], transposed=True)[..., 0] * g[..., None]
        p_bar = solve(factor_q, slope * g[..., None, None], transposed=True)
        q_bar = contract("...ij,...kj->...ik", p_bar, where(identity, ratio[..., None], below))
        q_bar = q_bar + w[..., :, None] * d[..., None, :]
        bars = w, p_bar.moved(np.tril), -w, -q_bar.moved(np.tril)
        shapes = mean_p.shape, factor_p.shape, mean_q.shape, factor_q.shape
        return tuple(sum_to(bar, shape) for bar, shape in zip(bars, shapes, strict=True))

    return value, pullback


def categorical_kl(logits_p, logits_q):
    """Σ p φ(δ), δ = log q − log p;  ā = −k̄ p (δ + KL), b̄ = k̄ (q − p) = k̄ p (e^δ − 1)."""
    (log_p, _), (log_q, _) = log_softmax(logits_p), log_softmax(logits_q)
    p, q = rounding.exp(log_p), rounding.exp(log_q)
    delta = log_ratio(logits_p, logits_q, log_p, log_q)
    near = np.abs(delta.value) < 1
    small = where(near, delta, 0)
    phi = rounding.function(series(small.value, 2), np.expm1(small.value), small)
    value = where(near, p * phi, q - p - p * delta).sum(-1) + where(log_p.value == -np.inf, q, 0).sum(-1)

    def pullback(g):
        q_bar = where(near & (log_p.value != -np.inf), p * rounding.expm1(small), q - p) * g[..., None]
        p_bar = -(p * (delta + value[..., None]) * g[..., None])
        return sum_to(p_bar, logits_p.shape), sum_to(q_bar, logits_q.shape)

    return value, pullback


def log_ratio(a, b, log_p, log_q):
    """δ = log q − log p, or c − log(1 + Σ p (e^c − 1)) with c = b − a less a constant, whichever is less in error."""
    possible = log_p.value != -np.inf
    delta = where(possible, log_q - where(possible, log_p, 0), 0)
    c = where(possible, b - where(possible, a, 0), 0)
    likeliest = np.broadcast_to(log_p.value.argmax(-1)[..., None], (*c.shape[:-1], 1))
    c = c - c.moved(lambda x: np.take_along_axis(x, likeliest, -1))
    near = (np.abs(c.value) < 1).all(-1, keepdims=True) & (possible | (log_q.value == -np.inf)).all(-1, keepdims=True)
    c = where(near, c, 0)
    return where(
        near & possible, c - rounding.log1p((rounding.exp(log_p) * rounding.expm1(c)).sum(-1, keepdims=True)), delta
    )


def ratio_excess(t, ratio):
    """h(t) = ½ t² + t − log(1 + t), 1 + t = ratio: a series for |t| < ½, trusted to 4 units in the last place."""
    near = np.abs(t.value) < 0.5
    small = where(near, t, 0)
    x = small.value
    powers = sum((-x) ** k / k for k in range(120, 1, -1))  # t − log(1 + t) = t²/2 − t³/3 + …
    series_near = rounding.function(x * x / 2 + powers, x + x / (1 + x), small)
    far = t * t * 0.5 + (t - rounding.log(where(near, 1, ratio)))
    return where(near, series_near, far)


def series(x, first):
    """Σ_{k ≥ first} x^k / k!, for |x| < 1."""
    total, term = np.zeros_like(x), np.ones_like(x)
    for k in range(1, 26):
        term = term * x / k
        total = total + (term if k >= first else 0)
    return total
