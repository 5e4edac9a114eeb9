"""Softmax on arrays of floats: in blocks of rows, and under masks in place.

The pages are refnp/layers/softmax.py and, for what is masked, refnp/layers/attention.py.
Source: Blanchard, Higham & Higham (2021) (when no maximum need be subtracted).
"""

import functools
import math

import numpy as np

from refnp.kernels.blocks import result_block, row_dot, row_sum, rowwise
from refnp.numbers.arrays import Array
from refnp.numbers.summation import sum_of_products

# Up to which |x| no maximum need be subtracted: a quarter of what exp can take.
REACH = {np.dtype(dtype): np.log(np.finfo(dtype).max) / 4 for dtype in "efd"}


@rowwise
def softmax(x):
    """p_i = exp(x_i − m) / Σ_j exp(x_j − m) of rows (R, n)."""
    if not x.size:
        return x, lambda p_bar: (p_bar,)
    largest = row_argmax(x)  # where L stands in each row
    p = np.subtract(x, largest_of(x, largest), out=result_block())  # (R, n)   x − m
    np.exp(p, out=p)
    total = nonzero(row_sum(p))  # (R, 1)
    p /= total
    sure = total < 2  # (R, 1)   p_L = 1/total

    def vjp(p_bar):
        x_bar = p_bar
        if sure.any():
            x_bar = p_bar - np.where(sure, p_bar[largest][:, None], 0)  # (R, n)   r
        mean = row_dot(x_bar, p)  # (R, 1)   Σ_j r_j p_j
        if not np.isfinite(np.vdot(mean, mean)):  # what has weight 0 has gradient 0, whatever p̄ is
            x_bar = np.where(p == 0, 0, x_bar)
            mean = row_dot(x_bar, p)
        x_bar = np.subtract(x_bar, mean, out=result_block(p_bar.dtype))  # (R, n)
        x_bar *= p
        return (x_bar,)

    return p, vjp


@rowwise
def log_softmax(x):
    """log p_i = (x_i − m) − log1p(r) of rows (R, n), r = Σ_{j≠L} exp(x_j − m)."""
    if not x.size:
        return x, lambda y_bar: (y_bar,)
    largest = row_argmax(x)  # where L stands in each row
    y = np.subtract(x, largest_of(x, largest), out=result_block())  # (R, n)   x − m
    p = np.exp(y)  # (R, n)
    rest, one = sum_of_others(p, largest)  # (R,), (R,)   r, and 1 (0 in a row of −∞, NaN in one with ∞)
    nothing = one == 0  # (R,)
    one[nothing] = 1
    y -= np.log1p(rest + (one - 1))[:, None]
    total = one + rest  # (R,)
    p /= total[:, None]

    def vjp(y_bar):
        x_bar = y_bar.copy()  # (R, n)
        others, own = sum_of_others(x_bar, largest)  # (R,), (R,)   Σ_{j≠L} ȳ_j, ȳ_L
        x_bar -= p * (others + own)[:, None]
        x_bar[largest] = own * (rest / total) - p[largest] * others
        x_bar[nothing] = 0
        return (x_bar,)

    return y, vjp


def masked_softmax(scores: Array, mask: Array | None = None) -> Array:
    """Softmax along the last axis over what the mask allows; a row that may attend to nothing becomes 0.

    Shapes: scores (..., N, M), mask boolean, True = may attend → (..., N, M), in place unless the mask has more axes.
    Masked scores may be anything but NaN.
    """
    least = scores
    if mask is not None:  # arithmetic with a few numbers: np.where would take ten times as long
        scores = with_axes_of(mask, scores)
        bound = (mask.astype(least.dtype) - 0.5) * np.inf  # ∞ where seen, −∞ where hidden
        least = np.maximum(scores, -bound)  # ∞ where hidden
        np.minimum(scores, bound, out=scores)  # −∞ where hidden
    m = shift_of(scores, least)
    if m is not None:
        scores -= m
    np.exp(scores, out=scores)
    total = sum_of_products("...m->...", scores)[..., None]  # (..., N, 1)
    scores /= np.where(total == 0, 1, total)
    return scores


def with_axes_of(mask: Array, scores: Array) -> Array:
    """The scores themselves, or in C order repeated along the axes that the mask has and they have not."""
    shape = np.broadcast_shapes(scores.shape, mask.shape)
    return scores if scores.shape == shape else np.array(np.broadcast_to(scores, shape), order="C")


def balance(s_bar: Array, a: Array) -> None:
    """Where a weight A_L is more than ½, take its gradient from the others, in place: S̄_L = −Σ_{m≠L} S̄_m.

    The rows of S̄ = A ∘ (Ā − Σ_m Ā_m A_m) sum to 0. As A_L → 1, Ā_L − Σ_m Ā_m A_m becomes a small difference of large
    numbers, while the other S̄_m keep their digits.   Shapes: (..., N, M).
    """
    largest = more_than_half(a)
    if largest[0].size:
        s_bar[largest] = 0
        s_bar[largest] = -row_sum(s_bar[largest[:-1]])[:, 0]


def more_than_half(p: Array) -> tuple[Array, ...]:
    """Where weights of more than ½ stand, at most one in a row, as an index of p."""
    return np.unravel_index(np.flatnonzero(p > 0.5), p.shape)


def shift_of(x: Array, least: Array) -> Array | None:
    """What to subtract from each row before exp, (..., 1): its maximum m, or 0 if its |x| are small or all x are −∞.

    exp(x)/Σ exp(x) is as accurate without m, if no exponential is near overflow or underflow: Blanchard, Higham &
    Higham (2021). So maxima of rows are taken, which costs more than the exponentials, only if a number is beyond a
    quarter of what exp can take; else there is None. The bits of a row depend on that row alone.
    `least` is x, but ∞ where x is hidden and −∞ for that reason.
    """
    if not x.size:
        return None
    reach = reach_of(x.dtype, x.shape[-1])
    if -reach <= least.min() and x.max() <= reach:
        return None
    m = x.max(-1, keepdims=True)
    near = (m <= reach) & (-reach <= least.min(-1, keepdims=True))
    return np.where(near | (m == -np.inf), 0, m)


@functools.lru_cache
def reach_of(dtype: np.dtype, count: int) -> np.floating:
    """Up to which |x| no maximum need be subtracted in rows of `count`: REACH, or less if the sum might overflow.

    Only float16 has rows so long, of a thousand numbers and more.
    """
    return min(REACH[dtype], 4 * REACH[dtype] - math.log(4 * count))


def row_argmax(x: Array) -> tuple[Array, Array]:
    """Where the largest of each row (R, n) stands, as an index of x."""
    return np.arange(len(x)), x.argmax(-1)


def largest_of(x: Array, largest: tuple) -> Array:
    """x at `row_argmax`, (R, 1); 0 in a row of −∞: what a softmax subtracts first."""
    m = x[largest][:, None]
    return np.where(m == -np.inf, 0, m)


def nonzero(total: Array) -> Array:
    """`total` as a divisor: 1 in place of the 0 of a row of −∞, so that its weights are 0 and not NaN."""
    return np.where(total == 0, 1, total)


def sum_of_others(x: Array, place: tuple) -> tuple[Array, Array]:
    """The sum of each row without one element, and that element; x is the same afterwards."""
    one = x[place]  # (R,)
    x[place] = 0
    others = row_sum(x)[:, 0]  # (R,)
    x[place] = one
    return others, one
