"""What a mask hides reaches no result, whatever its bits: it is set apart in front of attention.

A weight of 0 times NaN is NaN, and so is 0 times a product that overflows, forward and backward. So where a number is
hidden or not finite, and might do harm, attention gets 0 in its place, and NaN or infinity are added to the rows of the
results that depend on it. Arrays may be of any floating type, complex ones of the complex step too.
"""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.kernels.process import one_blas_thread
from refnp.numbers.arrays import Array, copy_in_place_of, floating, sum_to
from refnp.numbers.words import Kind

SMALL = 1 << 12  # numbers: the BLAS takes an inner product of so many on one thread anyway


def set_apart(form: Callable) -> Callable:
    """A form of attention, (query, key, value, bias, mask, …) → (results, vjp), whatever the mask hides.

    The steps are those of the form itself, of arrays that lie in memory as those given: what follows rounds alike.
    """

    @functools.wraps(form)
    def apart(query: Any, key: Any, value: Any, bias: Any = None, *, mask: Any = None, **options: Any) -> tuple:
        query, key, value = map(floating, (query, key, value))
        given = query, key, value, bias
        if mask is None or moderate(*given) or not hides_harm(query, key, value, bias, mask):
            return form(*given, mask=mask, **options)
        places, reached, shown, amounts = shields(query, key, value, bias, mask)
        finite = (None if a is None else only(a, at, used) for a, at, used in zip(given, places, reached, strict=True))
        found, vjp = form(*finite, mask=shown, **options)

        def gradient(bar: Any, argument: Array, at: Array) -> Array:
            return only(sum_to(bar() if callable(bar) else bar, argument.shape), at)

        def apart_vjp(*bars: Array) -> tuple:
            gradients = vjp(*map(spoilt_gradient, bars, amounts))
            return tuple(
                None if argument is None else functools.partial(gradient, bar, argument, at)
                for bar, argument, at in zip(gradients, given, reached, strict=True)
            )

        several = isinstance(found, tuple)
        return tuple(map(spoilt, found, amounts)) if several else spoilt(found, amounts[0]), apart_vjp

    return apart


def set_apart_without_value(form: Callable) -> Callable:
    """`set_apart` for a form of query, key and bias alone."""

    def with_value(query: Any, key: Any, value: Any, bias: Any, **options: Any) -> tuple:
        found, vjp = form(query, key, bias, **options)

        def with_value_vjp(bar: Array) -> tuple:
            query_bar, key_bar, bias_bar = vjp(bar)
            return query_bar, key_bar, np.zeros_like(value), bias_bar

        return found, with_value_vjp

    @functools.wraps(form)
    def apart(query: Any, key: Any, bias: Any = None, **options: Any) -> tuple:
        nothing = np.zeros((*key.shape[:-1], 1), floating(key).dtype)
        found, vjp = set_apart(with_value)(query, key, nothing, bias, **options)

        def apart_vjp(bar: Array) -> tuple:
            query_bar, key_bar, _, bias_bar = vjp(bar)
            return query_bar, key_bar, bias_bar

        return found, apart_vjp

    return apart


def idle_set_apart(form: Callable) -> Callable:
    """A form of linear attention, (query, key, value, key_mask, causal) → (results, vjp), whatever stands in queries
    that may attend to nothing.
    """

    @functools.wraps(form)
    def apart(query: Any, key: Any, value: Any, *, key_mask: Any = None, causal: bool = False) -> tuple:
        seen: Array = np.ones(key.shape[-2], bool) if key_mask is None else key_mask
        reads = np.asarray(np.logical_or.accumulate(seen, -1) if causal else seen.any(-1, keepdims=True))
        query = query if reads.all() else np.where(reads[..., None], query, 0)
        return form(query, key, value, key_mask=key_mask, causal=causal)

    return apart


def all_finite(*arrays: Array | None) -> bool:
    """True if no array holds NaN or infinity; None is no array."""
    return all(np.isfinite(a).all() for a in arrays if a is not None)


def moderate(*arrays: Any) -> bool:
    """True if Σ |x|² is finite for every array: no NaN, no infinity, and no inner product of two rows that overflows.

    Of other kinds of numbers nothing is set apart: they are all moderate.

    For |x·y| ≤ |x| |y| (Cauchy and Schwarz). It costs less than `all_finite`. On one thread, for those of the BLAS,
    which large arrays wake, go on taking time from the blocks that are computed next.
    """
    given = [a for a in arrays if a is not None and not isinstance(a, Kind)]
    large = any(x.size > SMALL for x in given)
    with one_blas_thread() if large else contextlib.nullcontext():
        return all(np.vdot(x, x).real < np.inf for x in given)


def hides_harm(query: Array, key: Array, value: Array, bias: Array | None, mask: Array) -> bool:
    """True if anything is not finite, or if what no query may attend to is not 0: asked where not all is `moderate`."""
    if not all_finite(query, key, value, bias):
        return True
    used = uses(mask, query, key, value)
    hidden = [(a, ~np.broadcast_to(u, a.shape[:-1])) for a, u in zip((query, key, value), used, strict=True)]
    if bias is not None:
        hidden.append((bias, ~np.broadcast_to(used_elements(mask, bias.shape), bias.shape)))
    return any((array[where_hidden] != 0).any() for array, where_hidden in hidden)


def shields(query: Array, key: Array, value: Array, bias: Array | None, mask: Array) -> tuple:
    """(places, reached, mask, (spoilt, lost)): which numbers of query, key, value and bias to keep, and what spoils.

    Not kept are rows of query, key and value that nothing depends on, rows of query and key that are not finite, such
    elements of value, and elements of bias that are hidden or not finite. `reached` are those that something depends
    on, finite or not: they have a gradient, NaN where an output is. What has bias −∞, and so weight 0, is hidden by the
    new mask. `lost` (..., N, 1) is NaN for a query that may attend to something, if itself, a key or a bias there is
    not finite. `spoilt` (..., N, d_v) is that, and what is not finite among the values it may attend to, added
    up: ∞, −∞ or NaN.
    """
    bad_query, bad_key = (~np.isfinite(a).all(-1) for a in (query, key))  # (..., N), (..., M)
    mask = np.broadcast_to(mask, np.broadcast_shapes(mask.shape, (bad_query.shape[-1], bad_key.shape[-1])))
    bad = bad_query[..., :, None] | bad_key[..., None, :]  # (..., N, M)
    shown, bias_used = mask, None
    if bias is not None:
        b = bias.real
        bad, shown = bad | ~(b < np.inf), laid_as(mask, mask & (b != -np.inf))
        bias_used = used_elements(mask, b.shape)
    v = value.real  # (..., M, d_v)
    lost = np.where((mask & bad).any(-1, keepdims=True), np.nan, 0).astype(v.dtype)  # (..., N, 1)
    spoilt = lost
    with np.errstate(invalid="ignore"):  # ∞ − ∞
        for amount, found in ((np.inf, v == np.inf), (-np.inf, v == -np.inf), (np.nan, np.isnan(v))):
            spoilt = spoilt + np.where(mask @ found, amount, 0).astype(v.dtype)  # (..., N, d_v)
    reached = *(used[..., None] for used in uses(shown, query, key, value)), bias_used
    finite = ~bad_query[..., None], ~bad_key[..., None], np.isfinite(v), None if bias is None else np.isfinite(b)
    places = tuple(used if used is None else used & good for used, good in zip(reached, finite, strict=True))
    return places, reached, shown, (spoilt, lost)


def laid_as(mask: Array, other: Array) -> Array:
    """Another mask, with its numbers in memory as those of `mask` lie: NumPy's choice follows the arrays it gets."""
    if other.shape != mask.shape:
        return other
    copy = copy_in_place_of(mask)
    copy[...] = other
    return copy


def uses(mask: Array, query: Any, key: Any, value: Any) -> tuple[Array, Array, Array]:
    """Which rows of query, key and value the mask lets take part in anything: (..., N), (..., M), (..., M)."""
    mask = np.broadcast_to(mask, np.broadcast_shapes(mask.shape, (query.shape[-2], key.shape[-2])))
    queries, keys = np.asarray(mask.any(-1)), np.asarray(mask.any(-2))
    return (
        used_elements(queries, query.shape[:-1]),
        used_elements(keys, key.shape[:-1]),
        used_elements(keys, value.shape[:-1]),
    )


def used_elements(mask: Array, shape: tuple[int, ...]) -> Array:
    """Which elements of an array of `shape`, which broadcasts against the mask, the mask shows anywhere."""
    used = np.asarray(mask.any(tuple(range(max(mask.ndim - len(shape), 0)))))
    shared = tuple(i for i in range(-used.ndim, 0) if shape[i] == 1)
    return np.asarray(used.any(shared, keepdims=True)) if shared else used


def only(x: Array, places: Array, reached: Array | None = None) -> Array:
    """x where `places` are True, 0 elsewhere, as it lies in memory: in another layout products round otherwise.

    What is `reached` and yet not kept is 1: the gradient of an output that is NaN is 0 · NaN, and so 0, beside a 0.
    """
    if places.all():
        return x
    return replaced(replaced(x, ~places, 0), ~places & (False if reached is None else reached), 1)


def replaced(x: Array, places: Array, number: float) -> Array:
    """x with a number at some places, as x lies in memory."""
    if isinstance(x, Kind):
        return np.where(places, number, x)
    y = copy_in_place_of(x)
    np.copyto(y, number, where=places)
    return y


def spoilt(x: Array, amount: Array) -> Array:
    """x + amount, where amount is 0, or else ∞, −∞ or NaN; in the precision of x, and as it lies in memory."""
    if isinstance(x, Kind):
        return np.where(amount != 0, amount, x)
    y = copy_in_place_of(x)
    np.add(y, amount, out=y, where=amount != 0)
    return y


def spoilt_gradient(y_bar: Array, amount: Array) -> Array:
    """x̄ of `spoilt`: ȳ where amount is 0, elsewhere ȳ · NaN: what does not count has ȳ = 0 and no gradient."""
    return replaced(y_bar, (amount != 0) & (y_bar != 0), np.nan)
