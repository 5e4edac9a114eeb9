"""Softmax: any row of numbers becomes a row of weights, positive and with sum 1.

    p_i = exp(x_i) / Σ_j exp(x_j)            log p_i = x_i − log Σ_j exp(x_j)

Adding a constant to a row changes nothing, so the row maximum is taken off first and no exponential overflows.
Source: Sivaraya (2023), eq. 3, Attention Notes 10-14, Transformer Notes;
stability: Blanchard, Higham & Higham, IMA J. Numer. Anal. 41 (2021) 2311.
"""

import numpy as np

from refnp.autograd.blocks import row_dot, row_sum, rowwise
from refnp.autograd.elementary import log1p_of
from refnp.autograd.primitives import primitive


@primitive
@rowwise
def softmax(x, *, out=None):
    """p_i = exp(x_i − m) / Σ_j exp(x_j − m) along `axis`, m the row maximum.

    Shapes: x (..., n, ...) → p of the same shape; option `axis` (an int or several, the last by default).
    A row of nothing but −∞ has nothing to choose from and gives 0, with gradient 0 (PyTorch and JAX: NaN).
    A row with NaN or +∞ gives NaN.   Raises ValueError if `axis` is out of range.

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
    """log p_i = (x_i − m) − log1p(r) along `axis`, with m the row maximum and r = Σ_{j≠L} exp(x_j − m).

    The largest element L adds exactly 1 to the sum of exponentials; kept apart, it does not drown the others, r:
    log_softmax([20, 0]) starts with −2.06e-9, where PyTorch gives 0.

    Shapes: x (..., n, ...) → log p of the same shape; option `axis`.   A row of nothing but −∞ gives −∞, gradient 0.
    Raises ValueError if `axis` is out of range.

    VJP: ∂(log p_i)/∂x_j = δ_ij − p_j, so x̄_i = ȳ_i − p_i Σ_j ȳ_j. For L, where p is near 1 and the two terms
    nearly cancel, the same with 1 − p_L = r/(1 + r): x̄_L = ȳ_L r/(1 + r) − p_L Σ_{j≠L} ȳ_j.
    """
    y = np.subtract(x, row_max(x), out=out)  # (R, n)
    if not x.size:
        return y, lambda y_bar: (y_bar,)
    p = np.exp(y)  # (R, n)
    largest = np.arange(len(y)), y.real.argmax(-1)
    rest, one = _set_apart(p, largest)
    nothing = one == 0  # (R,)   rows of −∞
    one[nothing] = 1
    y -= log1p_of(rest + (one - 1))[:, None]  # one = 1 + i h under the complex step
    total = one + rest  # (R,)
    p /= total[:, None]

    def vjp(y_bar):
        x_bar = y_bar.copy()  # (R, n)
        others, own = _set_apart(x_bar, largest)  # (R,)   Σ_{j≠L} ȳ_j and ȳ_L
        x_bar -= p * (others + own)[:, None]
        x_bar[largest] = own * (rest / total) - p[largest] * others
        x_bar[nothing] = 0
        return (x_bar,)

    return y, vjp


def masked_softmax(scores, mask=None):
    """Softmax along the last axis over what the mask allows; rows that allow nothing become 0.   For attention.

    Shapes: scores (..., N, M), mask boolean, True = counts → (..., N, M), in place unless the mask has more axes.
    Hidden scores may be anything but NaN.
    """
    if mask is None:
        scores -= row_max(scores)
        np.exp(scores, out=scores)
    else:  # arithmetic with a few numbers: np.where would take ten times as long
        shape = np.broadcast_shapes(scores.shape, mask.shape)
        scores = scores if scores.shape == shape else np.array(np.broadcast_to(scores, shape), order="C")
        keep = mask.astype(scores.real.dtype)  # 1 or 0
        scores -= row_max(np.minimum(scores.real, (keep - 0.5) * np.inf))
        if scores.dtype.kind == "c":
            np.exp(np.where(mask, scores, 0), out=scores)
        else:
            np.minimum(scores, 0, out=scores)  # so that no hidden score overflows; the others are ≤ 0 already
            np.exp(scores, out=scores)
        scores *= keep
    total = np.einsum("...m->...", scores)[..., None]  # (..., N, 1)
    scores /= np.where(total == 0, 1, total)
    return scores


def row_max(x):
    """The largest real part in each row, 0 for a row of −∞ or of nothing: what a softmax takes off first."""
    m = x.real.max(-1, keepdims=True, initial=-np.inf)  # (..., 1)
    return np.where(m == -np.inf, 0, m)


def _set_apart(x, place):
    """One element a row, and the sum of the others in its row; x is as before afterwards."""
    one = x[place]  # (R,)
    x[place] = 0
    others = row_sum(x)[:, 0]  # (R,)
    x[place] = one
    return others, one
