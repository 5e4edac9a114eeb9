"""Cross-entropy on arrays of floats: in blocks of rows, whose logits stay in the cache.

The page is `cross_entropy` of refnp/layers/cross_entropy.py.
"""

import numpy as np

from refnp.kernels.blocks import block_numbers, run_all, slices
from refnp.kernels.softmax import log_softmax
from refnp.numbers.arrays import in_order
from refnp.numbers.summation import sum_of_products


def cross_entropy(logits, targets, *, ignore_index, label_smoothing, smoothing, class_weights, reduction):
    """ℓ = −Σ_c w_c q_c log p_c of rows with the classes `targets`, and x̄_i = ℓ̄ (Q p_i − w_i q_i).

    At the target it is ℓ̄ (w_y q_y (p_y − 1) + (Q − w_y q_y) p_y), where p_y − 1 = expm1(log p_y) keeps its digits.
    Of probabilities the page is as fast.
    """
    if targets.ndim == logits.ndim:
        return None
    x = in_order(logits if logits.dtype.kind == "f" else logits.astype(float))
    weights = np.ones(x.shape[-1], x.dtype) if class_weights is None else class_weights.astype(x.dtype)
    present = np.asarray(targets != ignore_index).reshape(-1)  # (R,)
    y = np.where(present, targets.reshape(-1), 0).astype(np.intp)  # (R,)
    own, other = shares(x, ignore_index, label_smoothing, smoothing)
    terms, rows_vjp = in_blocks(x.reshape(y.size, x.shape[-1]), y, present, weights * own, weights * other)
    count = np.where(present, weights[y], 0).sum()
    divisor = count if reduction == "mean" and count > 0 else 1

    def vjp(loss_bar):
        bar = loss_bar.reshape(-1) if reduction == "none" else np.broadcast_to(loss_bar / divisor, terms.shape)
        return rows_vjp(np.where(present, bar, 0)).reshape(x.shape), None

    return (terms.reshape(targets.shape) if reduction == "none" else terms.sum() / divisor), vjp


def shares(x, pad, epsilon, smoothing):
    """q of the target, a number, and q (V,) of each class where it is not the target."""
    classes, epsilon = x.shape[-1], x.dtype.type(epsilon)
    each = epsilon / max(classes - {"uniform": 0, "off_target": 1, "without_pad": 2}[smoothing], 1)
    other = np.where((smoothing == "without_pad") & (np.arange(classes) == pad), 0, each)
    return (1 - epsilon + each if smoothing == "uniform" else 1 - epsilon), other


def rows(x, y, present, own, off, others):
    """Losses (R,) of rows of logits x (R, V) with targets y (R,), and their VJP.

    own, off and others (V,), for each class c: w_c q_c if c is the target, if it is not, and Σ_{i≠c} off_i.
    Rows that are not present are read as 0.
    """
    x = x if present.all() else np.where(present[:, None], x, 0)
    hit = np.arange(len(x)), y
    log_p, _ = log_softmax(x)  # (R, V)
    log_hit = log_p[hit]  # (R,)
    own, others = np.where(present, own[y], 0), others[y]  # (R,)
    terms = -own * np.where(own == 0, 0, log_hit)
    if off.any():
        miss = np.where(off == 0, 0, log_p)  # (R, V)   0 · (−∞) is nothing here
        miss[hit] = 0
        terms -= np.where(present, sum_of_products("rv,v->r", miss, off), 0)

    def vjp(bar):
        p = np.exp(log_p)  # (R, V)
        x_bar = p * (own + others)[:, None] - off  # (R, V)
        x_bar[hit] = own * np.expm1(log_hit) + others * p[hit]
        if np.isneginf(log_hit).any():
            x_bar[~p.any(-1)] = 0  # of a row of nothing but −∞, as that of its log_softmax
        x_bar *= bar[:, None]
        return x_bar

    return terms, vjp


def in_blocks(x, y, present, own, off):
    """`rows` block by block on threads: the logits of a block stay in the cache."""
    blocks = slices(len(x), max(1, block_numbers(x.dtype) // x.shape[1]))
    others, terms, vjps = sum_of_others(off), np.empty(len(x), x.dtype), [None] * len(blocks)

    def forward(i):
        b = blocks[i]
        terms[b], vjps[i] = rows(x[b], y[b], present[b], own, off, others)

    run_all(forward, len(blocks))

    def vjp(bar):
        x_bar = np.empty(x.shape, np.result_type(bar, x))

        def backward(i):
            x_bar[blocks[i]] = vjps[i](bar[blocks[i]])

        run_all(backward, len(blocks))
        return x_bar

    return terms, vjp


def sum_of_others(a):
    """Σ_{c≠i} a_c for each i, without subtraction."""
    before, after = np.zeros_like(a), np.zeros_like(a)
    np.cumsum(a[:-1], out=before[1:])
    np.cumsum(a[:0:-1], out=after[-2::-1])
    return before + after
