"""Log densities, a distribution function and an entropy, in the form in which textbooks print them."""

from __future__ import annotations

import numpy as np

from refnp.autograd.special import normal_of
from refnp.verify import rounding
from refnp.verify.equations.linear import sum_to
from refnp.verify.equations.losses import HALF_LOG_TWO_PI, gaussian_nll
from refnp.verify.equations.rows import log_softmax
from refnp.verify.rounding import Rounded, constant, where


def normal_log_prob(y, mean, std):
    """log p(y) = −½ z² − log σ − ½ log 2π, z = (y − μ)/σ."""
    value, pullback = gaussian_nll(mean, std, y, reduction="none")

    def negated(g):
        mean_bar, std_bar, y_bar = pullback(-g)
        return y_bar, mean_bar, std_bar

    return -value, negated


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
    value = (z * z * -0.5).sum(-1) - rounding.log(diagonal).sum(-1) - constant(n * HALF_LOG_TWO_PI.value)

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


def diagonal_of(matrices):
    """(..., N, N) → (..., N)."""
    return np.diagonal(matrices, axis1=-2, axis2=-1)
