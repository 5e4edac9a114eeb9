"""Pooling on arrays of floats: a loop over the taps t of a window, for each one strided slice of x, on several threads.

Adaptive pooling goes axis by axis, for a window is a rectangle. A place i lies in the windows from ⌊i P/n⌋ to
⌈(i + 1) P/n⌉: what windows are with P and n exchanged, so the gradient of the mean is one more sum over such windows.
The pages are refnp/layers/pooling.py.
"""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from refnp.kernels.blocks import block_numbers, run_all
from refnp.kernels.convolution_products import even, read
from refnp.numbers.arrays import Array, in_order
from refnp.numbers.windows import Axes, Whole, axes_of_pool, sizes_of


def average_pool(x, size, *, stride, padding, ceil_mode, count_include_pad):
    """y[p] = (1/k) Σ_t x[s p + t − a]."""
    axes = axes_of_pool("average_pool", x.shape[2:], size, stride, padding, ceil_mode=ceil_mode)
    count = number_of_places(axes, ceil_mode, count_include_pad)
    count = count if isinstance(count, int) else count.astype(x.dtype)

    def forward(x, y):
        y[...] = 0
        for tap in taps(padded(x, axes, 0.0), axes):
            y += tap
        y /= count

    def backward(x, y, y_bar, x_bar):
        share = y_bar / count
        for tap in taps(x_bar, axes):
            tap += share

    return pooled(x, axes, forward, backward)


def max_pool(x, size, *, stride, padding, dilation, ceil_mode, return_indices):
    """y[p] = max_t x[s p + d t − a]; ȳ[p] goes to the first place of the largest number."""
    axes = axes_of_pool("max_pool", x.shape[2:], size, stride, padding, dilation, ceil_mode=ceil_mode)

    def forward(x, y):
        y[...] = -np.inf
        for tap in taps(padded(x, axes, -np.inf), axes):
            np.maximum(y, tap, out=y)

    def backward(x, y, y_bar, x_bar):
        for tap, here in zip(taps(x_bar, axes), largest(x, y, axes), strict=True):
            tap += np.where(here, y_bar, 0)

    y, vjp = pooled(x, axes, forward, backward)
    return ((y, indices_of(x, y, axes)) if return_indices else y), vjp


def number_of_places(axes: Axes, ceil_mode: bool, count_include_pad: bool) -> int | Array:
    """k, by which the sum over a window is divided: a number, or (*positions) where windows differ."""
    if count_include_pad and not ceil_mode:
        return math.prod(axis.kernel for axis in axes)
    counts = []
    for axis in axes:
        starts = np.arange(axis.positions) * axis.stride - axis.before
        begin, end = (-axis.before, axis.length + axis.after) if count_include_pad else (0, axis.length)
        counts.append(np.minimum(starts + axis.kernel, end) - np.maximum(starts, begin))
    return functools.reduce(np.multiply, np.ix_(*counts))


def padded(x: Array, axes: Axes, fill: float) -> Array:
    """The places that windows read, from the first of the first to the last of the last."""
    return read(x, tuple(-axis.before for axis in axes), tuple(axis.span(axis.positions) for axis in axes), fill)


def taps(padded: Array, axes: Axes) -> Iterator[Array]:
    """For each tap t, what it reads in all windows: the view padded[s p + d t]."""
    reaches = [(axis.positions - 1) * axis.stride + 1 for axis in axes]
    for tap in np.ndindex(*(axis.kernel for axis in axes)):
        firsts = [t * axis.dilation for t, axis in zip(tap, axes, strict=True)]
        walk = zip(firsts, reaches, axes, strict=True)
        yield padded[(slice(None), slice(None), *(slice(f, f + reach, axis.stride) for f, reach, axis in walk))]


def largest(x: Array, y: Array, axes: Axes) -> Iterator[Array]:
    """For each tap, the windows whose largest number y stands there for the first time: (B, C, *positions)."""
    undecided = np.ones(y.shape, bool)
    unknown = taps(padded(np.isnan(x), axes, False), axes) if np.isnan(y.max(initial=0)) else None
    for source in taps(padded(x, axes, np.nan), axes):  # padding is equal to nothing, not even to −∞
        here = source == y
        if unknown is not None:  # the first NaN of a window with NaN
            here |= np.isnan(y) & next(unknown)
        here &= undecided
        undecided &= ~here
        yield here


def indices_of(x: Array, y: Array, axes: Axes) -> Array:
    """Where the largest number of each window stands, as a place in x[b, c] flattened."""
    places = np.arange(math.prod(x.shape[2:])).reshape(1, 1, *x.shape[2:])
    indices = np.zeros(y.shape, np.int64)
    for at, here in zip(taps(padded(places, axes, -1), axes), largest(x, y, axes), strict=True):
        np.copyto(indices, at, where=here)
    return indices


def pooled(x: Array, axes: Axes, forward: Callable, backward: Callable) -> tuple[Array, Callable]:
    """The value and VJP of a pool, in parts that fit in the cache, on several threads.

    forward(x, y) writes the part y; backward(x, y, y_bar, x_bar) adds to zeros x_bar, which has the places of padding.
    """
    y = np.empty((*x.shape[:2], *(axis.positions for axis in axes)), x.dtype)
    batch, channels = y.shape[:2]
    most = block_numbers(y.dtype) // max(1, math.prod(y.shape[2:]))
    parts = [(b, c) for b in even(batch, most // max(1, channels)) for c in even(channels, most)]
    padded = [max(axis.before + axis.length, axis.span(axis.positions)) for axis in axes]
    inner: Any = (..., *(slice(axis.before, axis.before + axis.length) for axis in axes))
    run_all(lambda i: forward(x[parts[i]], y[parts[i]]), len(parts))

    def vjp(y_bar, *_):
        x_bar = np.empty(x.shape, y_bar.dtype)

        def work(i):
            whole = np.zeros((*x[parts[i]].shape[:2], *padded), y_bar.dtype)
            backward(x[parts[i]], y[parts[i]], y_bar[parts[i]], whole)
            x_bar[parts[i]] = whole[inner]

        run_all(work, len(parts))
        return (x_bar,)

    return y, vjp


def adaptive_average_pool(x, size):
    """y[p] = the mean of x[i] over ⌊p n/P⌋ ≤ i < ⌈(p + 1) n/P⌉ on each axis."""
    lengths = x.shape[2:]
    sizes = sizes_of("adaptive_average_pool", lengths, size)
    counts = [np.subtract(*runs_of(n, p)[::-1]) for n, p in zip(lengths, sizes, strict=True)]
    count = functools.reduce(np.multiply, np.ix_(*counts)).astype(x.dtype)  # (*size)
    return sums_of_runs(x, sizes) / count, lambda y_bar: (sums_of_runs(y_bar / count, lengths),)


def adaptive_max_pool(x, size, *, return_indices):
    """y[p] = the largest x[i] with ⌊p n/P⌋ ≤ i < ⌈(p + 1) n/P⌉ on each axis.

    From the last axis to the first: so it is the first among equals in the order of the places.
    """
    lengths = x.shape[2:]
    sizes = sizes_of("adaptive_max_pool", lengths, size)
    y, indices = x, np.broadcast_to(np.arange(math.prod(lengths)).reshape(lengths), x.shape)
    for axis, count in reversed([*enumerate(sizes, start=2)]):
        seen, _ = windows_last(y, axis, count)
        first = seen.argmax(-1)[..., None] if count else np.empty((*seen.shape[:-1], 0), int)
        chosen = [np.take_along_axis(w, first, -1) for w in (seen, windows_last(indices, axis, count)[0])]
        y, indices = (np.moveaxis(w.reshape(w.shape[:-1]), -1, axis) for w in chosen)

    def vjp(y_bar, *_):
        rows, count = math.prod(x.shape[:2]), math.prod(sizes)
        x_bar = np.zeros((rows, math.prod(lengths)), y_bar.dtype)
        np.add.at(x_bar, (np.arange(rows)[:, None], indices.reshape(rows, count)), y_bar.reshape(rows, count))
        return (x_bar.reshape(x.shape),)

    y, indices = in_order(y), in_order(indices)
    return (y, indices) if return_indices else y, vjp


def runs_of(length: int, count: int) -> tuple[Array, Array]:
    """Where `count` windows over an axis start, and where they end: ⌊p n/P⌋ and ⌈(p + 1) n/P⌉."""
    p = np.arange(count)
    return p * length // count, -(-(p + 1) * length // count)


def windows_last(x: Array, axis: int, count: int) -> tuple[Array, Array]:
    """x with its windows along an axis in place of it, and their places at the end; and where these are repetitions.

    Shorter windows are filled with their last place.
    """
    starts, ends = runs_of(x.shape[axis], count)
    at = starts[:, None] + np.arange(np.max(ends - starts, initial=0))
    return np.moveaxis(x, axis, -1).take(np.minimum(at, ends[:, None] - 1), -1), at >= ends[:, None]


def sums_of_runs(x: Array, sizes: Whole) -> Array:
    """The sum over each window."""
    for axis, count in enumerate(sizes, start=2):
        seen, repeated = windows_last(x, axis, count)
        seen[..., repeated] = 0
        x = np.moveaxis(seen.sum(-1), -1, axis)
    return in_order(x)
