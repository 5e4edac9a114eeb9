"""Densities and entropies behind the distributions, each one primitive with its gradient.

    Φ(z)                                       the normal distribution function, z = (y − μ)/σ
    −½ |z|² − Σ_i log L_ii − (N/2) log 2π      the log density of many normal numbers at once, z = L⁻¹ (y − μ)
    −Σ_c p_c log p_c                           the entropy of one class of V

The log density of a normal number and of a class are losses, with another sign: `gaussian_nll` and `cross_entropy`.
Source: Rasmussen & Williams (2006), A.2; Murray, arXiv 1602.07527, for the gradient of L.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refnp.autograd.blocks import floating
from refnp.autograd.linalg import solve_lower
from refnp.autograd.primitives import primitive
from refnp.autograd.special import normal_of
from refnp.layers.counted import check_positive, common_shape, numbers, product
from refnp.layers.losses import HALF_LOG_TWO_PI
from refnp.layers.softmaxes import log_softmax


@primitive
def normal_cdf(y, mean, std):
    """The probability Φ(z) that a normal number is at most y, z = (y − μ)/σ; it keeps its digits where it is nearly 0.

    Shapes: all broadcast, one of them to the shape of all → that shape.
    Raises ValueError for shapes that do not fit or a std that is not positive and finite.
    VJP, with φ(z) = exp(−½ z²)/√2π:   ȳ = Φ̄ φ/σ,   μ̄ = −ȳ,   σ̄ = −z ȳ.
    """
    common_shape("normal_cdf", y=y, mean=mean, std=std)
    y, mean, std = numbers(y, mean, std)
    check_positive("normal_cdf", "std", std)
    z = np.asarray((y - mean) / std)
    value, density = normal_of(z)

    def vjp(bar):
        y_bar = product(bar, density / std)
        return y_bar, lambda: -y_bar, lambda: -product(y_bar, z)

    return value, vjp


@primitive
def multivariate_normal_log_prob(y, mean, factor):
    """ℓ = −½ |z|² − Σ_i log L_ii − (N/2) log 2π with z = L⁻¹ (y − μ): all N numbers of y at once.

    Shapes: y and mean (..., N), lower triangular L (..., N, N), of which nothing above the diagonal is read → (...).
    Raises ValueError for shapes that do not fit or a diagonal of L that is not positive and finite.
    VJP, with w = L⁻ᵀ z, from dz = L⁻¹ (dy − dμ − dL z):

        ȳ = −ℓ̄ w        μ̄ = ℓ̄ w        L̄ = ℓ̄ (tril(w zᵀ) − diag(1/L_ii))
    """
    mean, factor = mean_and_factor("multivariate_normal_log_prob", mean, factor)
    y, diagonal = floating(y), diagonal_of(factor)  # (..., N)
    common_shape("multivariate_normal_log_prob", y=y, mean=mean, diagonal=diagonal)
    z = solve_vectors(factor, y - mean)  # (..., N)
    constant = z.shape[-1] * HALF_LOG_TWO_PI
    value = -0.5 * (z * z).sum(-1) - np.log(diagonal).sum(-1) - constant.astype(z.real.dtype)

    def vjp(bar):
        y_bar = -product(bar[..., None], solve_vectors(factor, z, transposed=True))  # (..., N)

        def factor_bar():
            if factor.ndim > 2:
                outer, total = y_bar[..., :, None] * z[..., None, :], bar[..., None]
            else:  # one factor for all: the sum over them is a matrix product
                rows = bar.size, z.shape[-1]
                outer, total = y_bar.reshape(rows).T @ z.reshape(rows), bar.sum()
            on_diagonal = np.eye(z.shape[-1], dtype=bool)
            return -np.tril(outer) - np.where(on_diagonal, (total / diagonal)[..., None], 0)

        return y_bar, lambda: -y_bar, factor_bar

    return value, vjp


@primitive
def categorical_entropy(logits):
    """H = −Σ_c p_c log p_c of p = softmax(logits); a class with p_c = 0 adds 0.

    Shapes: logits (..., V), classes last → H (...).
    Raises ValueError without a class, or for a row of logits that are all −∞.
    VJP: x̄_c = −H̄ p_c (log p_c + H), and 0 where p_c = 0.
    """
    log_p = log_probabilities("categorical_entropy", logits)  # (..., V)
    p = np.exp(log_p)  # (..., V)
    log_p = np.where(p == 0, 0, log_p)
    value = -(p * log_p).sum(-1)  # (...)

    def vjp(bar):
        return (-bar[..., None] * (p * (log_p + value[..., None])),)

    return value, vjp


def solve_vectors(factor, r, *, transposed=False):
    """L⁻¹ r, or L⁻ᵀ r, for vectors r (..., N); if all have the same factor (N, N), side by side as one matrix."""
    if factor.ndim > 2:
        return solve_lower(factor, r[..., None], transposed=transposed)[..., 0]
    columns = np.moveaxis(r, -1, 0).reshape(r.shape[-1], r.size // max(r.shape[-1], 1))
    return np.moveaxis(solve_lower(factor, columns, transposed=transposed).reshape(r.shape[-1:] + r.shape[:-1]), 0, -1)


def mean_and_factor(name: str, mean: Any, factor: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean (..., N) and lower triangular factor (..., N, N) in floating numbers, or ValueError."""
    mean, factor = floating(mean), floating(factor)
    if not mean.ndim or factor.shape[-2:] != (mean.shape[-1], mean.shape[-1]):
        raise ValueError(
            f"{name}: mean has shape {mean.shape} and the factor {factor.shape}; they must be (..., N) and (..., N, N)"
        )
    check_positive(name, "the diagonal of the factor", diagonal_of(factor))
    return mean, np.tril(factor)


def check_logits(name: str, logits: Any) -> np.ndarray:
    """Logits as an array; ValueError without a class, or for a row in which none is possible."""
    logits = floating(logits)
    if not logits.ndim or not logits.shape[-1]:
        raise ValueError(f"{name}: logits have shape {logits.shape}; the last axis must hold the classes")
    nothing = np.isneginf(logits.real).all(-1)
    if nothing.any():
        place = [int(i) for i in np.argwhere(nothing)[0]]
        raise ValueError(f"{name}: the logits{place or ''} are all −∞; at least one class must be possible")
    return logits


def log_probabilities(name: str, logits: Any) -> np.ndarray:
    """log p (..., V) of logits that `check_logits` accepts."""
    return log_softmax(check_logits(name, logits))


def diagonal_of(matrices: np.ndarray) -> np.ndarray:
    """(..., N, N) → (..., N)."""
    return np.diagonal(matrices, axis1=-2, axis2=-1)
