"""Masks: who may attend to whom.

A mask is a boolean array that broadcasts to (..., N, M), queries by keys. **True = may attend**, everywhere in refnp.
A query that may attend to nothing gets 0. Masks are combined with & and |, or with `combine`.

Source: S002 §1.6, eq. 7 (its −∞ above the diagonal is False here).
Elsewhere: True = may attend in PyTorch's scaled_dot_product_attention, ONNX, flax, Keras; True = masked out in
torch.nn.MultiheadAttention and nn.Transformer.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def causal(queries: int, keys: int | None = None, *, align: str = "top_left") -> np.ndarray:
    """Each query attends to keys up to its own place: (N, M) booleans, lower triangular.

    With fewer queries than keys, which key is a query's own place is a convention: `align="top_left"` lets query i see
    keys j ≤ i (PyTorch's is_causal), "bottom_right" j ≤ i + M − N, so that the last query sees all (ONNX opset 24,
    flash-attention, decoding with a cache).
    Raises ValueError for negative lengths or another `align`.
    """
    keys = queries if keys is None else keys
    if queries < 0 or keys < 0:
        raise ValueError(f"causal: lengths ({queries}, {keys}) must not be negative")
    if align not in ("top_left", "bottom_right"):
        raise ValueError(f"causal: align is {align!r}; use 'top_left' or 'bottom_right'")
    offset = keys - queries if align == "bottom_right" else 0
    return np.tri(queries, keys, offset, dtype=bool)


def key_padding(lengths: Any, keys: int) -> np.ndarray:
    """Sequence b has `lengths[b]` real keys, the rest is padding: (B, 1, M) booleans for every query alike.

    Raises TypeError unless lengths are integers, ValueError if one is negative or more than `keys`.
    """
    lengths = np.asarray(lengths)
    if lengths.dtype.kind not in "iu":
        raise TypeError(f"key_padding: lengths are {lengths.dtype}; pass integers, one per sequence")
    if lengths.size and (lengths.min() < 0 or lengths.max() > keys):
        raise ValueError(f"key_padding: lengths {lengths.min()} … {lengths.max()} must lie in 0 … {keys}")
    return np.arange(keys) < lengths[..., None, None]


def blocks(query_segments: Any, key_segments: Any = None) -> np.ndarray:
    """Queries attend to the keys of their own segment only, as when several sequences are packed into one.

    Shapes: segment numbers (..., N) and (..., M) (the queries' again by default) → (..., N, M).
    """
    query_segments = np.asarray(query_segments)
    key_segments = query_segments if key_segments is None else np.asarray(key_segments)
    return query_segments[..., :, None] == key_segments[..., None, :]


def combine(*masks: Any) -> np.ndarray | None:
    """What all masks allow; None allows everything.   Raises TypeError unless masks are boolean."""
    given = [np.asarray(mask) for mask in masks if mask is not None]
    for mask in given:
        if mask.dtype != bool:
            raise TypeError(f"combine: a mask is {mask.dtype}; pass booleans, True = may attend")
    if not given:
        return None
    result = given[0]
    for mask in given[1:]:
        result = result & mask
    return result


def check_mask(name: str, mask: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """The mask as an array, or TypeError unless boolean, ValueError unless it broadcasts to `shape` (..., N, M)."""
    if mask is None:
        return None
    mask = np.asarray(mask)
    if mask.dtype != bool:
        raise TypeError(f"{name}: mask is {mask.dtype}; pass booleans, True = may attend")
    try:
        fits = np.broadcast_shapes(mask.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"{name}: mask has shape {mask.shape}; it must broadcast to (..., queries, keys) = {shape}")
    return mask
