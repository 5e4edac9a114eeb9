"""Pooling and its opposite: one number for each window, and every number repeated over a window.

    average:  y[p] = (1/k) Σ_t x[s p + t − a]      maximum:  y[p] = max_t x[s p + t − a]      upsample:  y[i] = x[⌊i/f⌋]

Each channel for itself; k is the number of places in a window, over all axes. Channels come first, (B, C, *lengths).
The work is a loop over the taps t, the places in a window: for each, one strided slice of the input.
Transcription: tests/transcriptions/convolution.py.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from refnp.autograd.blocks import BLOCK, floating, run_all
from refnp.autograd.primitives import primitive
from refnp.autograd.tensor import Array
from refnp.layers.convolution_products import Axes, even, read
from refnp.layers.convolutions import axes_of_convolution, pairs, per_axis


@primitive
def average_pool(x, size, *, stride=None, padding=0):
    """y[p] = (1/k) Σ_t x[s p + t − a], the mean over windows.

    Shapes: x (B, C, *lengths) → y (B, C, *positions), positions = ⌊(length + padding − size)/stride⌋ + 1 on each axis.
    size, stride: a whole number or one per axis; the stride is the size unless given. padding: a number, or a list with
    a number or a pair (before, after) per axis; its zeros count, as in PyTorch and flax, not as in Keras.
    Raises ValueError for sizes that do not fit x, or padding by a whole window or more.

    VJP: x̄[i] = (1/k) Σ_{p,t: s p + t − a = i} ȳ[p].
    """
    x, axes = _windows("average_pool", x, size, stride, padding)
    count = math.prod(axis.kernel for axis in axes)

    def forward(x, y):
        y[...] = 0
        for tap in _taps(_padded(x, axes, 0.0), axes):
            y += tap
        y /= count

    def backward(x, y, y_bar, x_bar):
        share = y_bar / count
        for tap in _taps(x_bar, axes):
            tap += share

    return _pooled(x, axes, forward, backward)


@primitive
def max_pool(x, size, *, stride=None, padding=0):
    """y[p] = max_t x[s p + t − a], the largest number in each window; padding is never the largest.

    Shapes: x (B, C, *lengths) → y (B, C, *positions), positions = ⌊(length + padding − size)/stride⌋ + 1 on each axis.
    size, stride: a whole number or one per axis; the stride is the size unless given. padding: a number, or a list with
    a number or a pair (before, after) per axis. For complex x the number with the largest real part.
    Raises ValueError for sizes that do not fit x, or padding by a whole window or more.

    VJP: ȳ[p] goes to the largest number of window p; among equals, the kink, to the first (as PyTorch; JAX too).
    """
    x, axes = _windows("max_pool", x, size, stride, padding)

    def forward(x, y):
        y[...] = -np.inf
        for tap in _taps(_padded(x, axes, -np.inf), axes):
            if x.dtype.kind == "c":
                np.copyto(y, tap, where=tap.real > y.real)
            else:
                np.maximum(y, tap, out=y)

    def backward(x, y, y_bar, x_bar):
        undecided = np.ones(y.shape, bool)  # windows whose largest number has not come yet
        for tap, source in zip(_taps(x_bar, axes), _taps(_padded(x, axes, -np.inf), axes), strict=True):
            here = undecided & (source.real == y.real)
            tap += np.where(here, y_bar, 0)
            undecided &= ~here

    return _pooled(x, axes, forward, backward)


@primitive
def upsample(x, factor):
    """y[i] = x[⌊i/f⌋]: every number repeated f times along each axis (nearest neighbour).

    Shapes: x (B, C, *lengths) → y (B, C, *(length · f)); factor a whole number or one per axis.
    VJP: x̄[j] = Σ of ȳ over the f places of x[j]; so it undoes average_pool's 1/k, and is its transpose up to that.
    Raises ValueError for a factor below 1, or an x without axes of space.
    """
    x = _spatial("upsample", x)
    factors = per_axis("upsample", "factor", factor, x.ndim - 2)
    y = x
    for axis, f in enumerate(factors, start=2):
        y = np.repeat(y, f, axis)

    def vjp(y_bar):
        split = [n for pair in zip(x.shape[2:], factors, strict=True) for n in pair]
        return (y_bar.reshape(*x.shape[:2], *split).sum(tuple(range(3, 3 + 2 * len(factors), 2))),)

    return y, vjp


def _spatial(name: str, x: Any) -> Array:
    x = floating(x)
    if x.ndim < 3:
        raise ValueError(f"{name}: x has shape {x.shape}; it must be (B, C, *space), with at least one axis of space")
    return x


def _windows(name: str, x: Any, size: Any, stride: Any, padding: Any) -> tuple[Array, Axes]:
    x = _spatial(name, x)
    count = x.ndim - 2
    sizes = per_axis(name, "size", size, count)
    strides = sizes if stride is None else per_axis(name, "stride", stride, count)
    widths = pairs(name, padding, count)
    if any(max(width) >= k for width, k in zip(widths, sizes, strict=True)):
        raise ValueError(f"{name}: padding {padding} makes windows of size {sizes} of nothing but padding; pad less")
    return x, axes_of_convolution(x.shape[2:], sizes, strides, (1,) * count, widths, name)


def _padded(x: Array, axes: Axes, fill: float) -> Array:
    """The places that windows read, from the first of the first to the last of the last."""
    return read(x, tuple(-axis.before for axis in axes), tuple(axis.span(axis.positions) for axis in axes), fill)


def _taps(padded: Array, axes: Axes) -> Iterator[Array]:
    """For each tap t, what it reads in all windows: the view padded[s p + t]."""
    for tap in np.ndindex(*(axis.kernel for axis in axes)):
        lasts = [t + (axis.positions - 1) * axis.stride for t, axis in zip(tap, axes, strict=True)]
        places = [slice(t, last + 1, axis.stride) for t, last, axis in zip(tap, lasts, axes, strict=True)]
        yield padded[(slice(None), slice(None), *places)]


def _pooled(x: Array, axes: Axes, forward: Callable, backward: Callable) -> tuple[Array, Callable]:
    """The value and VJP of a pool, in parts that fit in the cache, on several threads.

    forward(x, y) writes the part y; backward(x, y, y_bar, x_bar) adds to zeros x_bar, which has the places of padding.
    """
    y = np.empty((*x.shape[:2], *(axis.positions for axis in axes)), x.dtype)
    batch, channels = y.shape[:2]
    most = BLOCK // max(1, math.prod(y.shape[2:]))
    parts = [(b, c) for b in even(batch, most // max(1, channels)) for c in even(channels, most)]
    padded = [max(axis.before + axis.length, axis.span(axis.positions)) for axis in axes]
    inner: Any = (..., *(slice(axis.before, axis.before + axis.length) for axis in axes))
    run_all(lambda i: forward(x[parts[i]], y[parts[i]]), len(parts))

    def vjp(y_bar):
        x_bar = np.empty(x.shape, y_bar.dtype)

        def work(i):
            whole = np.zeros((*x[parts[i]].shape[:2], *padded), y_bar.dtype)
            backward(x[parts[i]], y[parts[i]], y_bar[parts[i]], whole)
            x_bar[parts[i]] = whole[inner]

        run_all(work, len(parts))
        return (x_bar,)

    return y, vjp
