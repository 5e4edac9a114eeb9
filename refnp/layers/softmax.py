"""Softmax: a row of numbers becomes a row of weights, none negative and with sum 1.

    p_i = exp(x_i) / Σ_j exp(x_j)            log p_i = x_i − log Σ_j exp(x_j)

Adding a constant to a row changes nothing, so the row maximum m is subtracted first and no exponential overflows.
Source: Sivaraya (2023), eq. 3, Attention Notes 10-14, Transformer Notes;
stability: Blanchard, Higham & Higham (2021).
Words: layers/__init__.py.   Transcription: tests/transcriptions/rows.py.   Kernel: refnp/kernels/softmax.py.
"""

import numpy as np

from refnp.autograd.pages import page
from refnp.kernels import softmax as kernels
from refnp.numbers.parts import part
from refnp.numbers.words import largest, peak, shares


@page("x (..., *n) → (..., *n)", axis="axes of x", kernel=kernels.softmax)
def softmax(x):
    """p_i = exp(x_i − m) / Σ_j exp(x_j − m) along `axis` (an int or several), m the row maximum.

    Shapes: x (..., n, ...) → p of the same shape.
    A row of nothing but −∞ has no element to choose and gives 0, with gradient 0 (PyTorch and JAX: NaN).
    A row with NaN or +∞ gives NaN.   Raises ValueError if `axis` is out of range or named twice, TypeError for no int.

    VJP: ∂p_i/∂x_j = p_i δ_ij − p_i p_j, the symmetric matrix diag(p) − p pᵀ, so

        x̄_i = p_i (r_i − Σ_j r_j p_j)        r = p̄, or p̄ − p̄_L where the largest weight p_L is more than ½

    A constant in p̄ changes nothing. But as p_L → 1, p̄_L − Σ_j p̄_j p_j loses the digits that −Σ_{j≠L} r_j p_j keeps.
    """
    e = np.exp(x - peak(x))  # (..., n)   exp(x_i − m)
    p = shares(e)  # (..., n)   e_i / Σ_j e_j

    def vjp(p_bar):
        x_bar = softmax_vjp(p, p_bar)
        return (x_bar,)

    return p, vjp


@part
def softmax_vjp(p, p_bar):
    """x̄_i = p_i (r_i − Σ_j r_j p_j) of weights p (..., n): see `softmax`."""
    sure = largest(p.real) & (p.real > 0.5)  # (..., n)   where p_L stands, if it is more than ½
    own = np.where(sure, p_bar, 0).sum(-1, keepdims=True)  # (..., 1)   p̄_L, or 0
    r = np.where(sure, 0, p_bar - own)  # (..., n)
    return p * (r - (r * p).sum(-1, keepdims=True))


@page("x (..., *n) → (..., *n)", axis="axes of x", kernel=kernels.log_softmax)
def log_softmax(x):
    """log p_i = (x_i − m) − log1p(r) along `axis` (an int or several), m the row maximum, r = Σ_{j≠L} exp(x_j − m).

    L is the largest element: its exponential is 1, and log1p(r) keeps the digits of a small r that 1 + r loses, so
    log_softmax([20, 0]) starts with −2.06e-9, where PyTorch in float32 gives 0.

    Shapes: x (..., n, ...) → log p of the same shape.   A row of nothing but −∞ gives −∞, with gradient 0, one with NaN
    or +∞ gives NaN.   Raises what `softmax` raises.

    VJP: ∂(log p_i)/∂x_j = δ_ij − p_j, so x̄_i = ȳ_i − p_i Σ_j ȳ_j. For L, where p is near 1 and the two terms
    nearly cancel, the same with 1 − p_L = r/(1 + r): x̄_L = ȳ_L r/(1 + r) − p_L Σ_{j≠L} ȳ_j.
    """
    top = largest(x.real)  # (..., n)   where L stands
    nothing = x.real.max(-1, keepdims=True, initial=-np.inf) == -np.inf  # (..., 1)   a row of −∞
    shifted = x - peak(x)  # (..., n)   x − m
    e = np.exp(shifted)  # (..., n)
    others = np.where(top, 0, e).sum(-1, keepdims=True)  # (..., 1)   r
    rest = np.where(top & ~nothing, np.expm1(shifted), 0).sum(-1, keepdims=True) + others  # (..., 1)   Σ exp − 1
    y = shifted - np.log1p(rest)  # (..., n)
    p = e / (1 + rest)  # (..., n)

    def vjp(y_bar):
        own = np.where(top, y_bar, 0).sum(-1, keepdims=True)  # (..., 1)   ȳ_L
        of_others = np.where(top, 0, y_bar).sum(-1, keepdims=True)  # (..., 1)   Σ_{j≠L} ȳ_j
        of_largest = own * (others / (1 + rest)) - p * of_others  # (..., n)   x̄_L
        x_bar = np.where(top, of_largest, y_bar - p * (own + of_others))  # (..., n)
        x_bar = np.where(nothing, 0, x_bar)
        return (x_bar,)

    return y, vjp
