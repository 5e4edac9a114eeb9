"""Masks: who may attend to whom.

A mask is a boolean array that broadcasts to (..., N, M), queries by keys. **True = may attend**, everywhere in refnp.
A query that may attend to nothing gets 0. Masks are combined with & and |, or with `combine`. What a mask hides
reaches no result, whatever its bits: see `apart_from_hidden`.

Source: Sivaraya (2023) §1.6, eq. 7 (its −∞ above the diagonal is False here).
Elsewhere: True = may attend in PyTorch's scaled_dot_product_attention, ONNX, flax, Keras; True = masked out in
torch.nn.MultiheadAttention and nn.Transformer.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.autograd.declaration import takes
from refnp.autograd.errors import explained
from refnp.autograd.primitives import integers, primitive, raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.kernels.process import one_blas_thread
from refnp.numbers.arrays import copy_in_place_of, sum_to

__all__ = ["blocks", "causal", "combine", "key_padding", "window"]  # what follows them is for the pages of attention

ALIGN = {"align": "top_left | bottom_right"}
SMALL = 1 << 12  # numbers: the BLAS takes an inner product of so many on one thread anyway


@explained
@takes("→ (N, M)", queries="whole ≥ 0", keys="whole ≥ 0?", **ALIGN)
def causal(queries: int, keys: int | None = None, *, align: str = "top_left") -> Array:
    """Each query attends to keys up to its own place: (N, M) booleans, lower triangular.

    With unequal lengths, which key is a query's own place is a convention: `align="top_left"` lets query n attend to
    keys m ≤ n (PyTorch's is_causal, ONNX 24), "bottom_right" m ≤ n + M − N, so that the last attends to all
    (flash-attention; decoding with a cache, ONNX 24 too if it is given past keys), and the first N − M queries nothing
    if there are more of them than keys.
    Raises ValueError for negative lengths or another `align`.
    """
    keys = queries if keys is None else keys
    offset = keys - queries if align == "bottom_right" else 0
    return np.tri(queries, keys, offset, dtype=bool)


@explained
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
    own, place = np.arange(queries)[:, None] + offset, np.arange(keys)
    allowed = np.ones((queries, keys), bool)
    if before is not None:
        allowed &= own - before <= place
    if after is not None:
        allowed &= place <= own + after
    return allowed


@explained
@takes("lengths whole (...) → (..., 1, M)", keys="whole ≥ 0")
def key_padding(lengths: ArrayLike, keys: int) -> Array:
    """Sequence b has `lengths[b]` real keys, the rest is padding: (B, 1, M) booleans for every query alike.

    Raises TypeError unless lengths are integers, ValueError if one is negative or more than `keys`.
    """
    lengths = integers("key_padding", "lengths", lengths)
    if lengths.size and (lengths.min() < 0 or lengths.max() > keys):
        raise ValueError(f"key_padding: lengths {lengths.min()} … {lengths.max()} must lie in 0 … {keys}")
    return np.arange(keys) < lengths[..., None, None]


@explained
@takes("query_segments (..., N), key_segments (..., M)? → (..., N, M)")
def blocks(query_segments: ArrayLike, key_segments: ArrayLike | None = None) -> Array:
    """A query attends to the keys of its own segment only, as when several sequences are packed into one.

    Shapes: segment numbers (..., N) and (..., M) (the queries' again by default) → (..., N, M).
    Raises ValueError for a single number in place of a sequence.
    """
    query_segments = np.asarray(query_segments)
    key_segments = query_segments if key_segments is None else np.asarray(key_segments)
    return query_segments[..., :, None] == key_segments[..., None, :]


@explained
def combine(*masks: ArrayLike | None) -> Array | None:
    """What all masks allow; None allows everything.

    Raises TypeError unless masks are boolean, ValueError unless their shapes broadcast.
    """
    given = [np.asarray(mask) for mask in masks if mask is not None]
    for mask in given:
        if mask.dtype != bool:
            raise TypeError(f"combine: a mask is {mask.dtype}; pass booleans, True = may attend")
    try:
        return functools.reduce(np.logical_and, given) if given else None
    except ValueError:
        shapes = ", ".join(str(mask.shape) for mask in given)
        raise ValueError(f"combine: masks of shapes {shapes} do not broadcast") from None


def check_mask(name: str, mask: ArrayLike | None, shape: tuple[int, ...], hint: str = "") -> Array | None:
    """The mask as an array, or TypeError unless boolean, ValueError unless it broadcasts to `shape` (..., N, M)."""
    if mask is None:
        return None
    mask = np.asarray(mask)
    if mask.dtype != bool:
        raise TypeError(f"{name}: mask is {mask.dtype}; pass booleans, True = may attend{hint}")
    if not fits(mask.shape, shape):
        raise ValueError(f"{name}: mask has shape {mask.shape}; it must broadcast to (..., queries, keys) = {shape}")
    return mask


def fits(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether an array of `shape` broadcasts to exactly the shape `target`."""
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


# ---- what a mask hides


def all_finite(*arrays: ArrayLike | None) -> bool:
    """True if no array holds NaN or infinity; None is no array."""
    return all(np.isfinite(raw(a)).all() for a in arrays if a is not None)


def moderate(*arrays: ArrayLike | None) -> bool:
    """True if Σ |x|² is finite for every array: no NaN, no infinity, and no inner product of two rows that overflows.

    For |x·y| ≤ |x| |y| (Cauchy and Schwarz). It costs less than `all_finite`. On one thread, for those of the BLAS,
    which large arrays wake, go on taking time from the blocks that are computed next.
    """
    given = [raw(a) for a in arrays if a is not None]
    large = any(x.size > SMALL for x in given)
    with one_blas_thread() if large else contextlib.nullcontext():
        return all(np.isfinite(np.vdot(x, x)) for x in given)


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
    if mask is None or moderate(query, key, value, bias) or not hides_harm(query, key, value, bias, mask):
        return attend(query, key, value, bias, mask=mask)
    *arrays, mask, amounts = shielded(query, key, value, bias, mask)
    found = attend(*arrays, mask=mask)
    return tuple(map(spoil, found, amounts)) if isinstance(found, tuple) else spoil(found, amounts[0])


def shielded_form(
    form: Callable, query: Array, key: Array, value: Array, bias: Array | None, mask: Array, options: dict
) -> tuple[Any, Callable]:
    """(value, vjp) of a primitive, a form of attention, whatever the mask hides: `apart_from_hidden` off the tape.

    The steps are those of the form itself, of arrays that lie in memory as those given: what follows rounds alike.
    """
    given = query, key, value, bias
    places, mask, amounts = shields(*given, mask)
    finite = (None if a is None else kept(a, at) for a, at in zip(given, places, strict=True))
    found, vjp = inspect.unwrap(form)(*finite, mask=mask, **options)

    def gradient(bar: Any, argument: Array, at: Array) -> Array:
        return kept(sum_to(bar() if callable(bar) else bar, argument.shape), at)

    def shielded_vjp(*bars: Array) -> tuple:
        gradients = vjp(*map(spoilt_gradient, bars, amounts))
        return tuple(
            None if argument is None else functools.partial(gradient, bar, argument, at)
            for bar, argument, at in zip(gradients, given, places, strict=True)
        )

    return tuple(map(spoil, found, amounts)) if isinstance(found, tuple) else spoil(found, amounts[0]), shielded_vjp


def hides_harm(
    query: Array | Tensor, key: Array | Tensor, value: Array | Tensor, bias: Array | Tensor | None, mask: Array
) -> bool:
    """True if anything is not finite, or if what no query may attend to is not 0: asked where not all is `moderate`."""
    if not all_finite(query, key, value, bias):
        return True
    used = uses(mask, query, key, value)
    hidden = [(raw(a), ~np.broadcast_to(u, a.shape[:-1])) for a, u in zip((query, key, value), used, strict=True)]
    if bias is not None:
        hidden.append((raw(bias), ~np.broadcast_to(used_elements(mask, bias.shape), bias.shape)))
    return any((array[where_hidden] != 0).any() for array, where_hidden in hidden)


def shielded(
    query: Array | Tensor, key: Array | Tensor, value: Array | Tensor, bias: Array | Tensor | None, mask: Array
) -> tuple:
    """(query, key, value, bias, mask, (spoilt, lost)): zeros stand in the first four outside of their `shields`."""
    places, mask, amounts = shields(raw(query), raw(key), raw(value), raw(bias), mask)
    given = zip((query, key, value, bias), places, strict=True)
    return *(None if a is None else kept(a, shown) for a, shown in given), mask, amounts


def shields(query: Array, key: Array, value: Array, bias: Array | None, mask: Array) -> tuple:
    """(places, mask, (spoilt, lost)): which numbers of query, key, value and bias to keep, and what to `spoil` with.

    Not kept are rows of query, key and value that nothing depends on, rows of query and key that are not finite, such
    elements of value, and elements of bias that are hidden or not finite; what has bias −∞, and so weight 0, is hidden
    by the new mask. `lost` (..., N, 1) is NaN for a query that may attend to something, if itself, a key or a bias
    there is not finite. `spoilt` (..., N, d_v) is that, and what is not finite among the values it may attend to, added
    up: ∞, −∞ or NaN.
    """
    bad_query, bad_key = (~np.isfinite(a).all(-1) for a in (query, key))  # (..., N), (..., M)
    mask = np.broadcast_to(mask, np.broadcast_shapes(mask.shape, (bad_query.shape[-1], bad_key.shape[-1])))
    bad = bad_query[..., :, None] | bad_key[..., None, :]  # (..., N, M)
    shown, bias_kept = mask, None
    if bias is not None:
        b = bias.real
        bad, shown = bad | ~(b < np.inf), mask & (b != -np.inf)
        bias_kept = used_elements(mask, b.shape) & np.isfinite(b)
    v = value.real  # (..., M, d_v)
    lost = np.where((mask & bad).any(-1, keepdims=True), np.nan, 0).astype(v.dtype)  # (..., N, 1)
    spoilt = lost
    with np.errstate(invalid="ignore"):  # ∞ − ∞
        for amount, found in ((np.inf, v == np.inf), (-np.inf, v == -np.inf), (np.nan, np.isnan(v))):
            spoilt = spoilt + np.where(mask @ found, amount, 0).astype(v.dtype)  # (..., N, d_v)
    query_used, key_used, value_used = (used[..., None] for used in uses(shown, query, key, value))
    places = query_used & ~bad_query[..., None], key_used & ~bad_key[..., None], value_used & np.isfinite(v), bias_kept
    return places, shown, (spoilt, lost)


def uses(mask: Array, query: Any, key: Any, value: Any) -> tuple[Array, Array, Array]:
    """Which rows of query, key and value the mask lets take part in anything: (..., N), (..., M), (..., M)."""
    mask = np.broadcast_to(mask, np.broadcast_shapes(mask.shape, (query.shape[-2], key.shape[-2])))
    queries, keys = np.asarray(mask.any(-1)), np.asarray(mask.any(-2))
    return (
        used_elements(queries, query.shape[:-1]),
        used_elements(keys, key.shape[:-1]),
        used_elements(keys, value.shape[:-1]),
    )


def without_unread(mask: ArrayLike | None, x: Any, *, per_head: bool = False) -> Any:
    """Tokens x (..., M, D) with 0 in rows that no query may attend to under the mask (..., N, M), or (..., H, N, M).

    For what is computed of keys and values before there are scores, projections and norms: the gradient of a weight is
    a sum over all rows, and 0 times NaN is NaN. It acts if x is not `moderate`. What is no mask of x is left to checks.
    """
    if mask is None or not isinstance(x, (np.ndarray, Tensor)) or x.dtype.kind not in "fc" or moderate(x):
        return x
    mask = np.atleast_2d(mask)
    if mask.dtype != bool or x.ndim < 2 or mask.shape[-1] not in (1, x.shape[-2]):
        return x
    read = np.asarray(mask.any((-3, -2) if per_head and mask.ndim > 2 else -2))
    return kept(x, used_elements(read, x.shape[:-1])[..., None])


def used_elements(mask: Array, shape: tuple[int, ...]) -> Array:
    """Which elements of an array of `shape`, which broadcasts against the mask, the mask shows anywhere."""
    used = np.asarray(mask.any(tuple(range(max(mask.ndim - len(shape), 0)))))
    shared = tuple(i for i in range(-used.ndim, 0) if shape[i] == 1)
    return np.asarray(used.any(shared, keepdims=True)) if shared else used


@primitive
def kept(x, places):
    """x where `places` are True, 0 elsewhere, as it lies in memory: matrix products round differently in other layouts.

    VJP: x̄ = ȳ there, 0 elsewhere.
    """
    if places.all():
        return x, lambda y_bar: (y_bar, None)
    return replaced(x, ~places, 0), lambda y_bar: (replaced(y_bar, ~places, 0), None)


def replaced(x: Array, places: Array, number: float) -> Array:
    """x with a number at some places, as x lies in memory."""
    y = copy_in_place_of(x)
    np.copyto(y, number, where=places)
    return y


@primitive
def spoil(x, amount):
    """y = x + amount, where amount is 0, or else ∞, −∞ or NaN; in the precision of x, and as it lies in memory.

    VJP: x̄ = ȳ where amount is 0, elsewhere ȳ · NaN: what does not count has ȳ = 0 and no gradient.
    """
    y = copy_in_place_of(x)
    np.add(y, amount, out=y, where=amount != 0)
    return y, lambda y_bar: (spoilt_gradient(y_bar, amount), None)


def spoilt_gradient(y_bar: Array, amount: Array) -> Array:
    """The gradient x̄ of `spoil`."""
    return replaced(y_bar, (amount != 0) & (y_bar != 0), np.nan)
