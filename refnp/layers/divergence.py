"""Kullback-Leibler divergences, E_p[log p − log q] ≥ 0, of normal numbers and of classes.

Written as in the textbooks, a divergence is a difference of nearly equal numbers when p and q are
close: of the order δ², lost where δ² falls below the rounding error of 1. Here every one is a sum of terms that are
never negative, made of

    g(t) = t − log(1 + t) ≥ 0        φ(δ) = e^δ − 1 − δ ≥ 0

of which no digit is lost near 0: small divergences keep theirs, and none is negative.
Source: Kullback & Leibler (1951); Rasmussen & Williams (2006), A.23.
Words: layers/__init__.py.   Transcription: tests/transcriptions/probability.py.   Kernel: refnp/kernels/triangular.py.
"""

import functools

import numpy as np

from refnp.autograd.pages import page
from refnp.autograd.triangular import KERNELS, solved
from refnp.layers.density import refuse_factors, refuse_impossible
from refnp.layers.softmax import log_softmax, softmax_vjp
from refnp.numbers.parts import part
from refnp.numbers.words import expm1_less, largest, less_log1p


@page("mean_p to (*S), std_p positive to (*S), mean_q to (*S), std_q positive to (*S) → (*S)")
def normal_kl(mean_p, std_p, mean_q, std_q):
    """Divergence of normal distributions by elements: ½ d² + h(t) with d = (μ_p − μ_q)/σ_q, t = (σ_p − σ_q)/σ_q and

        h(t) = ½ ((1 + t)² − 1) − log(1 + t) = ½ t² + g(t)

    Shapes: all broadcast, one of them to the shape of all → that shape.
    Raises ValueError for shapes that do not fit or a standard deviation that is not positive and finite.
    VJP, with h'(t) = t (2 + t)/(1 + t):

        μ̄_p = k̄ d/σ_q,   μ̄_q = −μ̄_p,   σ̄_p = k̄ t (2 + t)/σ_p,   σ̄_q = −k̄ (d² + t (2 + t))/σ_q
    """
    d, t = (mean_p - mean_q) / std_q, (std_p - std_q) / std_q  # (*S)
    value = d * d / 2 + ratio_excess(t, std_p, std_q)  # (*S)

    def vjp(bar):
        mean_bar, growth = bar * (d / std_q), t * (2 + t)  # (*S)   growth is (σ_p² − σ_q²)/σ_q²
        std_p_bar, std_q_bar = bar * (growth / std_p), -(bar * ((d * d + growth) / std_q))  # (*S)
        return mean_bar, std_p_bar, -mean_bar, std_q_bar

    return value, vjp


@page(
    "mean_p (..., N), factor_p triangular (..., N, N), mean_q (..., N), factor_q triangular (..., N, N) → (...)",
    kernel=KERNELS,
    check=lambda mean_p, factor_p, mean_q, factor_q: refuse_factors("multivariate_normal_kl", factor_p, factor_q),
)
def multivariate_normal_kl(mean_p, factor_p, mean_q, factor_q):
    """Divergence of multivariate normal distributions, of covariances L_p L_pᵀ and L_q L_qᵀ:

        KL = ½ |d|² + ½ Σ_{i>j} T_ij² + Σ_i h(T_ii),    d = L_q⁻¹ (μ_p − μ_q),    T = L_q⁻¹ (L_p − L_q)

    with h as in `normal_kl`: I + T is the factor of p in coordinates where q is a standard normal distribution.
    Shapes: means (..., N), lower triangular L (..., N, N), of which nothing above the diagonal is read → KL (...).
    Raises ValueError for shapes that do not fit, a diagonal that is not positive and finite, or a covariance for L.
    VJP, with T̄_ij = k̄ T_ij below and T̄_ii = k̄ h'(T_ii) on the diagonal, and w = L_q⁻ᵀ d:

        μ̄_p = k̄ w,  μ̄_q = −k̄ w,  L̄_p = tril(L_q⁻ᵀ T̄),  L̄_q = −tril(L_q⁻ᵀ T̄ (I + T)ᵀ + k̄ w dᵀ)
    """
    on_diagonal = np.eye(mean_p.shape[-1], dtype=bool)  # (N, N)
    lower_p, lower_q = np.tril(factor_p), np.tril(factor_q)  # (..., N, N)
    own_p, own_q = (np.diagonal(a, axis1=-2, axis2=-1) for a in (factor_p, factor_q))  # (..., N)
    d = solved(lower_q, (mean_p - mean_q)[..., None])[..., 0]  # (..., N)
    moved = solved(lower_q, lower_p - lower_q)  # (..., N, N)   T
    t, below = np.diagonal(moved, axis1=-2, axis2=-1), np.tril(moved, -1)
    value = ((d * d).sum(-1) + (below * below).sum((-2, -1))) / 2 + ratio_excess(t, own_p, own_q).sum(-1)

    def vjp(bar):
        ratio = own_p / own_q  # (..., N)   1 + t
        slope = np.where(on_diagonal, (t + t / ratio)[..., None], below)  # (..., N, N)   h'(t) = t (2 + t)/(1 + t)
        w = bar[..., None] * solved(lower_q, d[..., None], transposed=True)[..., 0]  # (..., N)
        moved_bar = solved(lower_q, bar[..., None, None] * slope, transposed=True)  # (..., N, N)
        both = moved_bar @ np.where(on_diagonal, ratio[..., None], below).mT + w[..., None] * d[..., None, :]
        p_bar, q_bar = np.tril(moved_bar), -np.tril(both)  # (..., N, N)
        return w, p_bar, -w, q_bar

    return value, vjp


@page("logits_p (..., V ≥ 1), logits_q (..., V) → (...)", check=functools.partial(refuse_impossible, "categorical_kl"))
def categorical_kl(logits_p, logits_q):
    """Divergence of categorical distributions, Σ_c p_c (log p_c − log q_c).

    It is Σ_c p_c φ(δ_c) with δ_c = log q_c − log p_c, for Σ p_c (e^δ_c − 1) = Σ (q_c − p_c) = 0. A class with logit −∞
    in p adds q_c, its part of that sum; one with logit −∞ only in q makes the divergence +∞.
    Shapes: logits (..., V) each, classes last → KL (...).
    Raises ValueError if the numbers of classes differ, there is none, or none is possible in a row.
    VJP, for logits a of p and b of q: ā_c = −k̄ p_c (δ_c + KL), b̄_c = k̄ (q_c − p_c) = k̄ p_c (e^δ_c − 1). As in
    `categorical_entropy`, ā is the softmax's VJP of b − a. Where the divergence is +∞, ā is 0.
    """
    (log_p, _), (log_q, _) = log_softmax.page(logits_p), log_softmax.page(logits_q)  # (..., V)
    p, q = np.exp(log_p), np.exp(log_q)  # (..., V)
    possible = log_p.real != -np.inf
    delta = log_ratio(logits_p, logits_q, log_p, log_q)  # (..., V)   δ
    near = np.abs(delta.real) < 1
    small = np.where(near, delta, 0)
    terms = np.where(near, p * expm1_less(small), q - p - p * np.where(near, 0, delta))
    terms = np.where(delta.real == -np.inf, np.inf, terms)  # p > 0 even where its exponential underflows
    value = np.where(possible, terms, q).sum(-1)  # (...)
    infinite = (value.real == np.inf)[..., None]  # (..., 1)

    def vjp(bar):
        gap = less_likeliest(np.where(infinite, 0, logits_q), logits_p, p)  # (..., V)   b − a
        a_bar = -(bar[..., None] * np.where(infinite, 0, softmax_vjp(p, gap)))
        b_bar = bar[..., None] * np.where(near & possible, p * np.expm1(small), q - p)
        return a_bar, b_bar

    return value, vjp


@part
def ratio_excess(t, a, b):
    """h(t) = ½ t² + t − log(1 + t) for 1 + t = a/b; log(1 + t) = log a − log b where a/b may be out of range."""
    near = np.abs(t.real) < 0.5
    difference = np.log(a) - np.log(b)
    logarithm = np.where(np.abs(difference.real) > 64, difference, np.log(a / b))
    return t * t / 2 + np.where(near, less_log1p(np.where(near, t, 0)), t - logarithm)


@part
def log_ratio(a, b, log_p, log_q):
    """δ = log q − log p of two rows of logits, 0 where a logit of p is −∞.

    In a row where the differences c = b − a vary little, so does δ, and log q − log p would lose its digits. There
    Σ q = 1 says q_i = p_i exp(c_i)/Σ_j p_j exp(c_j), and δ = c − log(1 + Σ_j p_j (e^c_j − 1)) loses none.
    """
    possible = log_p.real != -np.inf  # (..., V)
    delta = np.where(possible, log_q - np.where(possible, log_p, 0), 0)
    c = np.where(possible, b - np.where(possible, a, 0), 0)
    c = c - at_likeliest(c, log_p)  # a constant in all logits changes nothing
    near = (np.abs(c.real) < 1).all(-1, keepdims=True) & (possible | (log_q.real == -np.inf)).all(-1, keepdims=True)
    c = np.where(near, c, 0)
    rest = (np.exp(log_p) * np.expm1(c)).sum(-1, keepdims=True)  # (..., 1)
    return np.where(near & possible, c - np.log1p(rest), delta)


@part
def less_likeliest(b, a, p):
    """b − a (..., V) less its value at the largest p of the row, in the order that rounds less; 0 where a is −∞."""
    b, a = (np.where(a.real == -np.inf, 0, x) for x in (b, a))
    within, across = (b - at_likeliest(b, p), a - at_likeliest(a, p)), (b - a, at_likeliest(b - a, p))
    first, second = (np.abs(x.real) + np.abs(y.real) for x, y in (within, across))
    return np.where(first <= second, within[0] - within[1], across[0] - across[1])


def at_likeliest(x, p):
    """x (..., 1) where p is the largest of its row."""
    return np.where(largest(p.real), x, 0).sum(-1, keepdims=True)
