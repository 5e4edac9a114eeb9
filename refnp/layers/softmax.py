"""Softmax: any row of numbers becomes a row of weights, positive and with sum 1.

    p_i = exp(x_i) / Σ_j exp(x_j)            log p_i = x_i − log Σ_j exp(x_j)

Adding a constant to a row changes nothing, so the row maximum is taken off first and no exponential overflows.
Source: S002 eq. 3, S003 10-14, S004; stability: Blanchard, Higham & Higham, IMA J. Numer. Anal. 41 (2021) 2311.
"""

import numpy as np

from refnp.autograd.blocks import row_dot, row_sum, rowwise
from refnp.autograd.elementwise import log1p_of
from refnp.autograd.primitive import primitive


@primitive
@rowwise
def softmax(x, *, out=None):
    """p_i = exp(x_i − m) / Σ_j exp(x_j − m) along `axis`, m the row maximum.

    Shapes: x (..., n, ...) → p of the same shape; option `axis` (an int or several, the last by default).
    A row of nothing but −∞ has nothing to choose from and gives 0, with gradient 0 (PyTorch and JAX: NaN).
    Raises ValueError if `axis` is out of range.

    VJP: ∂p_i/∂x_j = p_i δ_ij − p_i p_j, the symmetric matrix diag(p) − p pᵀ, so

        x̄_i = p_i (p̄_i − Σ_j p̄_j p_j)
    """
    p = np.subtract(x, row_max(x), out=out)  # (R, n)
    np.exp(p, out=p)
    total = row_sum(p)  # (R, 1)
    p /= np.where(total == 0, 1, total)

    def vjp(p_bar):
        x_bar = p_bar - row_dot(p_bar, p)  # (R, n)
        x_bar *= p
        return (x_bar,)

    return p, vjp


@primitive
@rowwise
def log_softmax(x, *, out=None):
    """log p_i = (x_i − m) − log Σ_j exp(x_j − m) along `axis`, m the row maximum.

    The largest element adds exactly 1 to the sum; log1p of the rest keeps every digit of a log p near 0:
    log_softmax([20, 0]) starts with −2.06e-9, where PyTorch gives 0.

    Shapes: x (..., n, ...) → log p of the same shape; option `axis`.   A row of nothing but −∞ gives −∞, gradient 0.
    Raises ValueError if `axis` is out of range.

    VJP: ∂(log p_i)/∂x_j = δ_ij − p_j, so x̄_i = ȳ_i − p_i Σ_j ȳ_j, and 0 where the whole row is −∞.
    """
    y = np.subtract(x, row_max(x), out=out)  # (R, n)
    p = np.exp(y)  # (R, n)
    rest = sum_minus_one(p, y)  # (R, 1)
    y -= log1p_of(rest)
    p /= 1 + rest

    def vjp(y_bar):
        x_bar = p * row_sum(y_bar)  # (R, n)
        np.subtract(y_bar, x_bar, out=x_bar)
        nothing = row_max(p) == 0  # (R, 1)
        if nothing.any():
            x_bar[nothing[:, 0]] = 0
        return (x_bar,)

    return y, vjp


def row_max(x):
    """The largest real part in each row, 0 for a row of −∞ or of nothing: what a softmax takes off first."""
    m = (x.real if x.dtype.kind == "c" else x).max(-1, keepdims=True, initial=-np.inf)  # (R, 1)
    return np.where(m == -np.inf, 0, m)


def sum_minus_one(p, shifted):
    """(Σ_j p_j) − 1 for p = exp(shifted), without rounding the small terms against the largest, which is 1.

    Shapes: p, shifted (R, n), the row maximum of `shifted` being 0 → (R, 1); 0 for a row of −∞.
    """
    if not p.size:
        return np.zeros_like(p[:, :1])
    largest = np.arange(len(p)), (shifted.real if shifted.dtype.kind == "c" else shifted).argmax(-1)
    one = p[largest]  # (R,)   1, or 1 + i h under the complex step, or 0 in a row of −∞
    p[largest] = 0
    rest = row_sum(p)  # (R, 1)
    p[largest] = one
    return rest + np.where(one == 0, 0, one - 1)[:, None]
