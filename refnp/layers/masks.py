"""Masks: who may attend to whom.

A mask is a boolean array that broadcasts to (..., N, M), queries by keys. **True = may attend**, everywhere in refnp.
A query that may attend to nothing gets 0. Masks are combined with & and |, or with `combine`. What a mask hides
reaches no result, whatever its bits: see `apart_from_hidden`.

Source: Sivaraya (2023) §1.6, eq. 7 (its −∞ above the diagonal is False here).
Elsewhere: True = may attend in PyTorch's scaled_dot_product_attention, ONNX, flax, Keras; True = masked out in
torch.nn.MultiheadAttention and nn.Transformer.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.autograd.declaration import takes
from refnp.autograd.errors import explained
from refnp.autograd.primitives import integers, primitive, raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.kernels.hidden import hides_harm, moderate, only, shields, spoilt, spoilt_gradient, used_elements
from refnp.layers.masked_reductions import broadcast_shape
from refnp.numbers.duals import as_array
from refnp.numbers.kinds import kind_of
from refnp.numbers.words import arange

__all__ = ["blocks", "causal", "combine", "key_padding", "window"]  # what follows them is for the pages of attention

ALIGN = {"align": "top_left | bottom_right"}


@takes("→ (N, M)", queries="whole ≥ 0", keys="whole ≥ 0?", **ALIGN)
def causal(queries: int, keys: int | None = None, *, align: str = "top_left") -> Array:
    """Each query attends to keys up to its own place: (N, M) booleans, lower triangular.

    With unequal lengths, which key is a query's own place is a convention: `align="top_left"` lets query n attend to
    keys m ≤ n (PyTorch's is_causal, ONNX 24), "bottom_right" m ≤ n + M − N, so that the last attends to all
    (flash-attention; decoding with a cache, ONNX 24 too if it is given past keys), and the first N − M queries nothing
    if there are more of them than keys.
    Raises ValueError for negative lengths or another `align`, TypeError for a length that is not an integer.
    """
    return window(queries, keys, align=align)


@takes("→ (N, M)", queries="whole ≥ 0", **dict.fromkeys(("keys", "before", "after"), "whole ≥ 0?"), **ALIGN)
def window(
    queries: int,
    keys: int | None = None,
    before: int | None = None,
    after: int | None = 0,
    *,
    align: str = "top_left",
) -> Array:
    """A sliding window: each query attends to `before` keys before its own place, to that, and to `after` keys behind.

    (N, M) booleans, True where n − before ≤ m ≤ n + after; None leaves that side open, so that window(N) is `causal`.
    Mistral's window of W tokens is before=W − 1. `align` says which key is a query's own place, as in `causal`:
    "top_left" m = n, "bottom_right" m = n + M − N. Attention in blocks leaves out what the window hides.
    Raises ValueError for a negative number or another `align`, TypeError for a number that is not an integer.
    Source: Beltagy, Peters & Cohan (2020), arXiv 2004.05150; Jiang et al. (2023), arXiv 2310.06825.
    Elsewhere: flash-attention's window_size and JAX's local_window_size are (before, after).
    """
    keys = queries if keys is None else keys
    offset = keys - queries if align == "bottom_right" else 0
    own, place = arange(queries)[:, None] + offset, arange(keys)  # (N, 1), (M,)
    if before is None:
        return np.ones((queries, keys), bool) if after is None else place <= own + after
    return own - before <= place if after is None else (own - before <= place) & (place <= own + after)


@takes("lengths whole (...) → (..., 1, M)", keys="whole ≥ 0")
def key_padding(lengths: ArrayLike, keys: int) -> Array:
    """Sequence b has `lengths[b]` real keys, the rest is padding: (B, 1, M) booleans for every query alike.

    Raises TypeError unless lengths and `keys` are integers, ValueError if one is negative or a length exceeds `keys`.
    """
    lengths = integers("key_padding", "lengths", lengths)
    if lengths.size and (lengths.min() < 0 or lengths.max() > keys):
        raise ValueError(f"key_padding: lengths {lengths.min()} … {lengths.max()} must lie in 0 … keys = {keys}")
    return arange(keys) < lengths[..., None, None]


@takes("query_segments (..., N), key_segments (..., M)? → (..., N, M)")
def blocks(query_segments: ArrayLike, key_segments: ArrayLike | None = None) -> Array:
    """A query attends to the keys of its own segment only, as when several sequences are packed into one.

    Shapes: segment numbers (..., N) and (..., M) (the queries' again by default) → (..., N, M).
    Raises ValueError for a single number in place of a sequence and if axes in front do not broadcast.
    """
    query_segments = np.asarray(query_segments)
    key_segments = query_segments if key_segments is None else np.asarray(key_segments)
    return query_segments[..., :, None] == key_segments[..., None, :]


@explained
def combine(*masks: ArrayLike | None) -> Array | None:
    """What all masks allow; None allows everything, and is returned if there is no mask.

    Raises TypeError unless masks are boolean, ValueError unless their shapes broadcast.
    """
    given = [as_array(mask) for mask in masks if mask is not None]
    for mask in given:
        if mask.dtype != bool:
            raise TypeError(f"combine: a mask is {mask.dtype}; pass booleans, True = may attend")
    broadcast_shape("combine", **{f"mask {i}": mask.shape for i, mask in enumerate(given)})
    return functools.reduce(np.logical_and, given) if given else None


# ---- what a mask hides


def apart_from_hidden(
    attend: Callable,
    query: Array | Tensor,
    key: Array | Tensor,
    value: Array | Tensor,
    bias: Array | Tensor | None,
    mask: Array | None,
) -> Any:
    """attend(query, key, value, bias, mask=mask), an output or (output, weights), whatever the mask hides.

    It acts if there is a mask, and a number that is hidden or not finite and might do harm: a weight of 0 times NaN is
    NaN, and so is 0 times a product that overflows, forward and backward. So `attend` gets 0 in its place, and NaN or
    infinity are added to the rows of the results that depend on it.
    """
    q, k, v, b = (raw(a) for a in (query, key, value, bias))
    if mask is None or kind_of((q, k, v)) is not None or moderate(q, k, v, b) or not hides_harm(q, k, v, b, mask):
        return attend(query, key, value, bias, mask=mask)
    *arrays, mask, amounts = shielded(query, key, value, bias, mask)
    found = attend(*arrays, mask=mask)
    return tuple(map(spoil, found, amounts)) if isinstance(found, tuple) else spoil(found, amounts[0])


def shielded(
    query: Array | Tensor, key: Array | Tensor, value: Array | Tensor, bias: Array | Tensor | None, mask: Array
) -> tuple:
    """(query, key, value, bias, mask, (spoilt, lost)): zeros stand in the first four outside of their `shields`."""
    places, reached, mask, amounts = shields(raw(query), raw(key), raw(value), raw(bias), mask)
    given = zip((query, key, value, bias), places, reached, strict=True)
    return *(None if a is None else kept(a, shown, used) for a, shown, used in given), mask, amounts


def without_unread(mask: ArrayLike | None, x: Any, *, per_head: bool = False) -> Any:
    """Tokens x (..., M, D) with 0 in rows that no query may attend to under the mask (..., N, M), or (..., H, N, M).

    For what is computed of keys and values before there are scores, projections and norms: the gradient of a weight is
    a sum over all rows, and 0 times NaN is NaN. It acts if x is not `moderate`. What is no mask of x is left to checks.
    """
    if mask is None or not isinstance(x, (np.ndarray, Tensor)) or x.dtype.kind not in "fc" or moderate(raw(x)):
        return x
    mask = np.atleast_2d(mask)
    if mask.dtype != bool or x.ndim < 2 or mask.shape[-1] not in (1, x.shape[-2]):
        return x
    read = np.asarray(mask.any((-3, -2) if per_head and mask.ndim > 2 else -2))
    return kept(x, used_elements(read, x.shape[:-1])[..., None])


@primitive
def kept(x, places, reached=None):
    """x where `places` are True, elsewhere 0, or 1 where `reached`, as it lies in memory.

    VJP: x̄ = ȳ where x is kept or `reached`, 0 elsewhere.
    """
    has_gradient = places if reached is None else reached
    return only(x, places, reached), lambda y_bar: (only(y_bar, has_gradient), None, None)


@primitive
def spoil(x, amount):
    """y = x + amount, where amount is 0, or else ∞, −∞ or NaN; in the precision of x, and as it lies in memory.

    VJP: x̄ = ȳ where amount is 0, elsewhere ȳ · NaN: what does not count has ȳ = 0 and no gradient.
    """
    return spoilt(x, amount), lambda y_bar: (spoilt_gradient(y_bar, amount), None)
