"""Upsampling on arrays of floats: numbers are repeated, or read at a few places with weights that are rounded once.

The coordinates c_i are computed as fractions, so that λ is right to the last digit however far from the first place it
is; and what has weight 0 is not read, so infinity stays where it is. The page is refnp/layers/upsampling.py.
"""

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from refnp.numbers.arrays import Array
from refnp.numbers.windows import resampled


def upsample(x, factor=None, *, size, mode, align_corners):
    """y[i] = x[⌊i/f⌋], or y[i] = (1 − λ) x[j] + λ x[j + 1]."""
    if mode != "linear" and factor is not None and all(type(f) is int for f in factor):  # the same, without fractions
        return repeated(x, factor)
    positions, steps = resampled(x.shape[2:], factor, size)
    if mode != "linear" and all(step.numerator == 1 for step in steps):
        return repeated(x, [step.denominator for step in steps])
    tables = [table(mode, align_corners, *one) for one in zip(x.shape[2:], positions, steps, strict=True)]
    y = x
    for axis, (forward, _) in enumerate(tables, start=2):
        y = combined(y, axis, forward)

    def vjp(y_bar):
        for axis, (_, backward) in enumerate(tables, start=2):
            y_bar = combined(y_bar, axis, backward)
        return (y_bar,)

    return y, vjp


def repeated(x: Array, factors: Sequence[int]) -> tuple:
    """Every number repeated by whole factors along the axes of space, and the VJP."""
    y = x
    for axis, f in enumerate(factors, start=2):
        y = np.repeat(y, f, axis)

    def vjp(y_bar):
        split = [n for pair in zip(x.shape[2:], factors, strict=True) for n in pair]
        repeats = np.ascontiguousarray(y_bar).reshape(*x.shape[:2], *split)
        return (repeats.sum(tuple(range(3, repeats.ndim, 2))),)

    return y, vjp


class Weights(NamedTuple):
    """y[i] = Σ_t weight[t, i] x[source[t, i]] over the taps t that `used` has: a matrix with few numbers in a row."""

    source: Array
    weight: Array
    used: Array


def combined(x: Array, axis: int, weights: Weights) -> Array:
    """The matrix of the weights times x, along one axis. What has weight 0 is not read."""
    along = (slice(None), *[None] * (x.ndim - axis - 1))
    y = np.zeros((*x.shape[:axis], weights.source.shape[1], *x.shape[axis + 1 :]), x.dtype)
    for source, weight, used in zip(*weights, strict=True):
        tap = x.take(source, axis)
        tap *= weight.astype(x.dtype)[along]
        np.add(y, tap, out=y, where=True if used.all() else used[along])
    return y


@functools.lru_cache(maxsize=64)
def table(mode: str, align_corners: bool, length: int, count: int, step: Fraction) -> tuple[Weights, Weights]:
    """The weights w_ij of `count` places on an axis of `length`, and their transpose."""
    entries: list[tuple[int, int, Fraction]] = []  # i, j and w_ij
    for i in range(count):
        c = coordinate(mode, align_corners, length, count, step, i)
        j = math.floor(c)
        entries += [(i, j + k, w) for k, w in ((0, 1 - (c - j)), (1, c - j)) if w]
    targets, sources = (np.array([entry[k] for entry in entries], int) for k in range(2))
    weights = np.array([wide(w) for _, _, w in entries], np.longdouble)
    return by_row(targets, sources, weights, count), by_row(sources, targets, weights, length)


def coordinate(mode: str, align_corners: bool, length: int, count: int, step: Fraction, i: int) -> Fraction:
    """c_i, where on the axis of x place i of y is; a whole number for both kinds of nearest."""
    half = Fraction(1, 2)
    if mode == "nearest":
        return Fraction(min(math.floor(i * step), length - 1))
    if mode == "nearest-exact":
        return Fraction(min(math.floor((i + half) * step), length - 1))
    if align_corners:
        return Fraction(i * (length - 1), max(count - 1, 1))
    return min(max((i + half) * step - half, Fraction(0)), Fraction(length - 1))


def wide(w: Fraction) -> np.longdouble:
    """A fraction in the widest precision, rounded once: its first digits and its next."""
    first = float(w)
    return np.longdouble(first) + np.longdouble(float(w - Fraction(first)))


def by_row(rows: Array, sources: Array, weights: Array, count: int) -> Weights:
    """The entries (row, source, weight) of a matrix as one array for each tap; what a row lacks is not used."""
    order = np.argsort(rows, kind="stable")
    rows, sources, weights = rows[order], sources[order], weights[order]
    filled = np.bincount(rows, minlength=count)
    tap = np.arange(len(rows)) - np.repeat(np.cumsum(filled) - filled, filled)  # how many came before in its row
    shape = np.max(filled, initial=0), count
    found = Weights(np.zeros(shape, int), np.ones(shape, np.longdouble), np.zeros(shape, bool))
    for array, values in zip(found, (sources, weights, True), strict=True):
        array[tap, rows] = values
        array.flags.writeable = False
    return found
