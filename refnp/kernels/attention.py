"""Attention on arrays of floats: all scores at once, or in blocks (refnp/kernels/attention_blocks.py).

The pages are refnp/layers/attention.py. What kernels promise beside them: pairs that the mask hides do no harm where
products overflow, memory is O(N + M) in blocks, and bits do not depend on the number of threads.
"""

from typing import Any

import numpy as np

from refnp.kernels.attention_blocks import all_factors, attention_in_blocks, capped, dropout_factors, row_sums
from refnp.kernels.hidden import moderate
from refnp.kernels.products import product, product_like
from refnp.kernels.softmax import balance, masked_softmax, with_axes_of
from refnp.numbers.arrays import Array, broadcast_shapes, floating, sum_to

LONG = 1 << 16  # scores of one head; above this many the blocked form takes less time, and far less memory


def attention(query, key, value, bias=None, *, mask, scale, softcap, dropout, rng, method):
    """O = A V, by the method "full", "blocks", or "auto": blocks for more than 2¹⁶ scores a head."""
    query, key, value = map(floating, (query, key, value))
    shape = shape_of_scores(query, key, value)
    scale = scale_of(scale, query)
    q = query * scale  # (..., N, d)
    factors = dropout_factors(dropout, rng, shape, q.dtype)
    if method == "blocks" or (method == "auto" and shape[-2] * shape[-1] > LONG):
        return attention_in_blocks(q, key, value, bias, mask, scale, softcap, factors)
    output, _, vjp = from_all_scores(q, key, value, bias, mask, scale, softcap, factors)
    return output, vjp


def attention_with_weights(query, key, value, bias=None, *, mask, scale, softcap, dropout, rng):
    """(O, A), from all scores at once."""
    query, key, value = map(floating, (query, key, value))
    scale = scale_of(scale, query)
    factors = dropout_factors(dropout, rng, shape_of_scores(query, key, value), query.dtype)
    output, weights, vjp = from_all_scores(query * scale, key, value, bias, mask, scale, softcap, factors)
    return (output, weights), vjp


def from_all_scores(q, key, value, bias, mask, scale, softcap, factors):
    """O, the weights that the values get, and the VJP of both; q = scale · Q.

    Since Σ_m Ā_nm A_nm = Σ_e Ō_ne O_ne, the row sums of the softmax's VJP need no N × M product.
    """
    huge = mask is not None and not moderate(q, key, value, bias)
    scores, slope = capped(zero_where_hidden(product(q, key.swapaxes(-1, -2)), mask, huge), softcap)  # (..., N, M)
    if bias is not None:
        scores = scores + bias
    a = masked_softmax(scores, mask)  # (..., N, M)
    kept = None if factors is None else all_factors(factors, shape_of_scores(q, key, value))  # (..., N, M)
    used = a if kept is None else a * kept  # (..., N, M)
    output = product_like(q, used, value)  # (..., N, d_v)

    def vjp(o_bar, weights_bar=None):
        a_bar = product(o_bar, value.swapaxes(-1, -2))  # (..., N, M)
        a_bar = sum_to(a_bar if kept is None else a_bar * kept, a.shape)
        s_bar = zero_where_hidden(a_bar, mask, huge, o_bar)
        s_bar -= sum_to(row_sums(o_bar, output), (*a.shape[:-1], 1))
        if weights_bar is not None:
            s_bar += sum_to(weights_bar if kept is None else weights_bar * kept, a.shape)
            s_bar -= sum_to(row_sums(weights_bar, used), (*a.shape[:-1], 1))
        s_bar *= a
        balance(s_bar, a)
        qk_bar = s_bar if slope is None else s_bar * slope
        return (
            lambda: product_like(q, qk_bar, key) * scale,  # called if the gradient is needed
            lambda: product_like(key, qk_bar.swapaxes(-1, -2), q),
            lambda: product_like(value, used.swapaxes(-1, -2), o_bar),
            lambda: s_bar if mask is None else s_bar + 0,  # a hidden −0 becomes 0
        )

    return output, used, vjp


def one_over_root(query: Array) -> np.floating:
    """1/√d, d the number of features of a query, in the precision of the query."""
    return 1 / np.sqrt(np.asarray(query.shape[-1], query.real.dtype))


def scale_of(scale: float | None, query: Array) -> np.floating:
    """The scale in the precision of the query, 1/√d for None."""
    return one_over_root(query) if scale is None else query.dtype.type(scale)


def vanishes(below: Array) -> Array:
    """Where φ(q)·z of linear attention is so small that gradients, divided by it, would overflow."""
    return np.abs(below) < np.finfo(below.dtype).tiny / np.finfo(below.dtype).eps


def shape_of_scores(query: Any, key: Any, value: Any) -> tuple[int, ...]:
    """(..., N, M), the axes in front those of all three, broadcast."""
    batch = broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    return (*batch, query.shape[-2], key.shape[-2])


def zero_where_hidden(pairs: Array, mask: Array | None, huge: bool, *factors: Array) -> Array:
    """Products for pairs (..., N, M), with 0 for those that the mask hides if factors are so huge that they may be ∞.

    Elsewhere what is hidden does no harm: a weight of 0 times a finite number is 0. In place unless the mask has more
    axes.
    """
    if mask is not None and (huge or not moderate(*factors)):
        pairs = with_axes_of(mask, pairs)
        np.copyto(pairs, 0, where=~mask)
    return pairs
