"""Densities, losses and divergences once more, in numbers that carry their rounding error: value, gradient, and bounds.

Every function takes `Rounded` numbers and returns (y, pullback), pullback(ȳ) one gradient per argument, in the form of
the textbook where that is stable, and in the one that cancels least where it is not. The error of y is the bound by
which an implementation is judged: |computed − exact| ≤ u·error to first order (`refnp.verify.rounding`). Options are
those of the layers; `mask` and `targets` are plain arrays.
"""

from __future__ import annotations

import numpy as np

from refnp.autograd.special import normal_of
from refnp.layers.losses import HALF_LOG_TWO_PI
from refnp.verify import rounding
from refnp.verify.equations.linear import sum_to
from refnp.verify.equations.rows import log_softmax
from refnp.verify.rounding import Rounded, constant, contract, exact, where


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
    value, spread = reduced(z * z * 0.5 + (rounding.log(std) + constant(HALF_LOG_TWO_PI)), counts, reduction)

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


def normal_cdf(y, mean, std):
    """Φ(z), ȳ = Φ̄ φ/σ, μ̄ = −ȳ, σ̄ = −z ȳ."""
    z = (y - mean) / std
    phi = normal_of(z.value)[1]
    density = rounding.function(phi, -z.value * phi, z)

    def pullback(g):
        y_bar = g * (density / std)
        return sum_to(y_bar, y.shape), sum_to(-y_bar, mean.shape), sum_to(-(y_bar * z), std.shape)

    return rounding.function(normal_of(z.value)[0], phi, z), pullback


def multivariate_normal_log_prob(y, mean, factor):
    """ℓ = −½ |z|² − Σ log L_ii − (N/2) log 2π, ȳ = −ℓ̄ w, μ̄ = ℓ̄ w, L̄ = ℓ̄ (tril(w zᵀ) − diag(1/L_ii)), w = L⁻ᵀ z."""
    n = y.shape[-1]
    diagonal = factor.moved(diagonal_of)
    z = solve(factor, (y - mean)[..., None])[..., 0]
    value = (z * z * -0.5).sum(-1) - rounding.log(diagonal).sum(-1) - constant(n * HALF_LOG_TWO_PI)

    def pullback(g):
        w = solve(factor, z[..., None], transposed=True)[..., 0] * g[..., None]
        outer = (w[..., :, None] * z[..., None, :]).moved(np.tril)
        factor_bar = outer - where(np.eye(n, dtype=bool), (g[..., None] / diagonal)[..., None], 0)
        return sum_to(-w, y.shape), sum_to(w, mean.shape), sum_to(factor_bar, factor.shape)

    return value, pullback


def categorical_entropy(logits):
    """H = −Σ p log p, x̄ = −H̄ p (log p + H)."""
    log_p, _ = log_softmax(logits)
    p = rounding.exp(log_p)
    log_p = where(p.value == 0, 0, log_p)
    value = -(p * log_p).sum(-1)
    return value, lambda g: (-(g[..., None] * (p * (log_p + value[..., None]))),)


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


def solve(factor, b, *, transposed=False):
    """L⁻¹ B or L⁻ᵀ B by substitution; the sum in each row in any order."""
    n = factor.shape[-1]
    done: dict[int, Rounded] = {}
    for i in reversed(range(n)) if transposed else range(n):
        row = [factor[..., j, i] if transposed else factor[..., i, j] for j in done]
        total = b[..., i, :]
        size = np.abs(total.value)
        for coefficient, x in zip(row, done.values(), strict=True):
            product = coefficient[..., None] * x
            size = size + np.abs(product.value)
            total = Rounded(total.value - product.value, total.error + product.error)
        done[i] = Rounded(total.value, total.error + len(row) * size) / factor[..., i, i, None]
    if not done:
        return b
    ordered = [done[i] for i in range(n)]
    return Rounded(*(np.stack(np.broadcast_arrays(*part), -2) for part in (
        [x.value for x in ordered], [x.error for x in ordered])))  # fmt: skip


def reduced(terms, counts, reduction, divisor=None):
    """Mean, sum or all of the terms that count, and the gradient of each of them."""
    divisor = exact(counts.sum()) if divisor is None else divisor
    divisor = divisor if reduction == "mean" and divisor.value > 0 else exact(1)
    terms = where(counts, terms, 0)
    value = terms if reduction == "none" else terms.sum() / divisor
    return value, lambda g: where(counts, g if reduction == "none" else g / divisor, 0)


def diagonal_of(matrices):
    """(..., N, N) → (..., N)."""
    return np.diagonal(matrices, axis1=-2, axis2=-1)
