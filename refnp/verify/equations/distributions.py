"""Log densities and divergences, in the form in which textbooks print them."""

from __future__ import annotations

import numpy as np

from refnp.verify import rounding
from refnp.verify.equations.losses import HALF_LOG_TWO_PI, gaussian_nll
from refnp.verify.equations.rows import log_softmax
from refnp.verify.rounding import Rounded, contract


def normal_log_prob(y, mean, std):
    """log p(y) = −½ z² − log σ − ½ log 2π, z = (y − μ)/σ."""
    value, pullback = gaussian_nll(mean, std, y, reduction="none")

    def negated(g):
        mean_bar, std_bar, y_bar = pullback(-g)
        return y_bar, mean_bar, std_bar

    return -value, negated


def normal_kl(mean_p, std_p, mean_q, std_q):
    """KL = log(σ_q/σ_p) + (σ_p² + (μ_p − μ_q)²)/(2 σ_q²) − ½.

    With d = (μ_p − μ_q)/σ_q and r = σ_p/σ_q:   μ̄_p = d/σ_q = −μ̄_q,   σ̄_p = (r² − 1)/σ_p,   σ̄_q = −(d² + r² − 1)/σ_q.
    """
    d, r = (mean_p - mean_q) / std_q, std_p / std_q
    value = (d * d + r * r - 1) / 2 - rounding.log(r)

    def pullback(g):
        mean_bar = g * (d / std_q)
        return mean_bar, g * ((r * r - 1) / std_p), -mean_bar, -(g * ((d * d + r * r - 1) / std_q))

    return value, pullback


def multivariate_normal_log_prob(y, mean, factor):
    """log p(y) = −½ |z|² − Σ_i log L_ii − N ½ log 2π, z = L⁻¹ (y − μ), by substitution.

    With w = L⁻ᵀ z:   ȳ = −w, μ̄ = w, L̄ = tril(w zᵀ) − diag(1/L_ii).   Shapes: y (B, N), mean (N,), factor (N, N).
    """
    n = factor.shape[-1]
    z = substituted(factor, (y - mean).swapaxes(0, 1))  # (N, B)
    diagonal = factor.moved(np.diagonal)
    value = -((z * z).sum((0,)) / 2) - rounding.log(diagonal).sum((0,)) - HALF_LOG_TWO_PI * n

    def pullback(g):
        flipped = factor.moved(lambda a: a.T[::-1, ::-1])  # Lᵀ, upper triangular, is lower triangular read backwards
        w = substituted(flipped, z[::-1])[::-1] * g  # (N, B)
        own = rounding.exact(np.eye(n)) / diagonal * g.sum()
        return -w.swapaxes(0, 1), w.sum((1,)), (contract("ib,jb->ij", w, z) - own) * np.tri(n)

    return value, pullback


def substituted(factor: Rounded, b: Rounded) -> Rounded:
    """L⁻¹ B, row after row: x_i = (b_i − Σ_{j<i} L_ij x_j)/L_ii."""
    rows: list[Rounded] = []
    for i in range(factor.shape[0]):
        known = b[i]
        for j, x in enumerate(rows):
            known = known - factor[i, j] * x
        rows.append(known / factor[i, i])
    return Rounded(np.stack([x.value for x in rows]), np.stack([x.error for x in rows]))


def categorical_kl(logits_p, logits_q):
    """KL = Σ_c p_c (log p_c − log q_c);   ā = k̄ p (log p − log q − KL), b̄ = k̄ (q − p)."""
    log_p, log_q = log_softmax(logits_p)[0], log_softmax(logits_q)[0]
    p, q = rounding.exp(log_p), rounding.exp(log_q)
    value = (p * (log_p - log_q)).sum((-1,))

    def pullback(g):
        g = g.moved(lambda a: a[..., None])
        return g * (p * (log_p - log_q - value.moved(lambda a: a[..., None]))), g * (q - p)

    return value, pullback
