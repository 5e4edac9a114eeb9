"""Pooling and upsampling, from the table of windows that convolution uses."""

from __future__ import annotations

import math

import numpy as np

from refnp.verify.equations.convolution import gathered, pairs_of, per_axis, places_of, scattered, sources
from refnp.verify.rounding import Rounded, exact


def windows(x: Rounded, size, stride, padding) -> tuple[np.ndarray, tuple[int, ...]]:
    """The table (P, T) of positions in the flattened input, −1 outside, and the number of windows per axis."""
    axes = len(x.shape) - 2
    sizes = per_axis(size, axes)
    strides = sizes if stride is None else per_axis(stride, axes)
    walk = sizes, strides, (1,) * axes, pairs_of(padding, axes)
    places = places_of(x.shape[2:], *walk)
    return sources("zeros", x.shape[2:], places, *walk), places


def average_pool(x, *, size, stride=None, padding=0):
    """y[p] = (1/k) Σ_t x[source(p, t)], zeros outside counted;   x̄[i] = Σ of ȳ[p]/k over the windows of i."""
    table, places = windows(x, size, stride, padding)
    flat = x.reshape(*x.shape[:2], math.prod(x.shape[2:]))
    count = table.shape[1]
    y = (gathered(flat, table).sum((-1,)) / count).reshape(*x.shape[:2], *places)

    def pullback(g):
        share = (g.reshape(*x.shape[:2], len(table)) / count).moved(lambda a: np.repeat(a[..., None], count, -1))
        return (scattered(share, table, math.prod(x.shape[2:])).reshape(*x.shape),)

    return y, pullback


def max_pool(x, *, size, stride=None, padding=0):
    """y[p] = the largest x of window p;   ȳ[p] goes to it, the first among equals."""
    table, places = windows(x, size, stride, padding)
    flat = x.reshape(*x.shape[:2], math.prod(x.shape[2:]))
    under = np.where(table < 0, -np.inf, gathered(flat, table).value)  # (B, C, P, T)
    first = under.argmax(-1)[..., None]

    def pullback(g):
        at_first = np.arange(table.shape[1]) == first
        bar = Rounded(g.value.reshape(*x.shape[:2], len(table), 1) * at_first, np.zeros(at_first.shape))
        return (scattered(bar, table, math.prod(x.shape[2:])).reshape(*x.shape),)

    return exact(under.max(-1)).reshape(*x.shape[:2], *places), pullback


def upsample(x, *, factor):
    """y[i] = x[⌊i/f⌋];   x̄[j] = Σ of ȳ over the places of x[j]."""
    factors = per_axis(factor, len(x.shape) - 2)

    def repeated(a):
        for axis, f in enumerate(factors, start=2):
            a = np.repeat(a, f, axis)
        return a

    def pullback(g):
        split = [n for pair in zip(x.shape[2:], factors, strict=True) for n in pair]
        return (g.reshape(*x.shape[:2], *split).sum(tuple(range(3, 3 + 2 * len(factors), 2))),)

    return x.moved(repeated), pullback
