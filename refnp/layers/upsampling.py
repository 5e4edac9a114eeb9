"""Upsampling: more places along each axis, each a copy of one place of x, or between two of them.

    nearest:        y[i] = x[⌊i n/P⌋]                                       P places from n
    nearest-exact:  y[i] = x[⌊(i + ½) n/P⌋]
    linear:         y[i] = (1 − λ) x[j] + λ x[j + 1]                        j = ⌊c_i⌋, λ = c_i − j

    c_i = (i + ½) n/P − ½, brought to 0 … n − 1        align_corners=False: places are cells, and the ends of x and of y
                                                       are the outer edges of the first and of the last cell
    c_i = i (n − 1)/(P − 1)                            align_corners=True: places are points, and the first and the last
                                                       of y are those of x

On several axes at once linear is bilinear, trilinear and so on: it is done along one axis after the other. With a
factor f in place of a size, P = ⌊n f⌋ and 1/f stands for n/P (but not with align_corners), which differs where n f is
no whole number.

The coordinates c_i are computed as fractions, so that ⌊c_i⌋ is right and λ is rounded once.
Elsewhere: PyTorch's interpolate has the same options and equations, in floating point: λ then errs by c_i units of
rounding; and it copies an axis whose length stays the same, whatever the factor. jax.image.resize is nearest-exact, and
linear with align_corners=False; with a smaller size it averages, unless antialias=False. jax.image.scale_and_translate
can say the others.
Transcription: tests/transcriptions/upsampling.py.
"""

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from refnp.autograd.declaration import takes
from refnp.autograd.primitives import primitive
from refnp.autograd.tensor import Array
from refnp.numbers.arrays import floating


@primitive
@takes(
    "x (B, C, *L) or (C, *L) → (B, C, *P)",
    factor="positive per axis of L?",
    size="whole ≥ 1 per axis of L?",
    mode="nearest | nearest-exact | linear",
    align_corners="True or False",
)
def upsample(x, factor=None, *, size=None, mode="nearest", align_corners=False):
    """y[i] = x[⌊i/f⌋], every number repeated f times along each axis; or y[i] = (1 − λ) x[j] + λ x[j + 1], between two.

    Shapes: x (B, C, *lengths) → y (B, C, *positions), positions = ⌊length · factor⌋ or `size`; also (C, *lengths) →
    (C, *positions), if factor or size is a tuple: its length says how many axes of space there are.
    factor: a number for all axes, or one for each, whole or not. size: in place of it the lengths of y, a whole number
    or one for each axis. Both may be smaller than before: then places are left out, and nothing is averaged.
    mode: "nearest", "nearest-exact" or "linear", over all axes of space (bilinear on two, trilinear on three).
    align_corners: with "linear", whether the first and last places are kept or the outer edges of cells; the equations
    are at the top of this file.
    Raises ValueError unless there is one of factor and size, for one that leaves no place, for another mode, and for
    align_corners without "linear"; TypeError for what is no number, or an align_corners that is not True or False.

    VJP: x̄[j] = Σ_i w_ij ȳ[i], where y[i] = Σ_j w_ij x[j]: the transpose. For whole factors and "nearest" the sum of ȳ
    over the f places of x[j]; so it undoes average_pool's 1/k, and is its transpose up to that.
    """
    if (factor is None) == (size is None):
        raise ValueError(f"upsample: factor is {factor} and size {size}; pass one of them")
    x, count = floating(x), len(size if factor is None else factor)
    lengths = x.shape[x.ndim - count :]
    if align_corners and mode != "linear":
        raise ValueError(f"upsample: align_corners is for mode 'linear', and mode is {mode!r}; leave it out")
    if mode != "linear" and size is None and all(type(f) is int for f in factor):  # the same, without fractions
        return _repeated(x, factor)
    positions, steps = _positions(lengths, factor, size)
    if mode != "linear" and all(step.numerator == 1 for step in steps):
        return _repeated(x, [step.denominator for step in steps])
    tables = [_table(mode, align_corners, *one) for one in zip(lengths, positions, steps, strict=True)]
    y = x
    for axis, (forward, _) in enumerate(tables, start=x.ndim - count):
        y = _combined(y, axis, forward)

    def vjp(y_bar):
        for axis, (_, backward) in enumerate(tables, start=x.ndim - count):
            y_bar = _combined(y_bar, axis, backward)
        return (y_bar,)

    return y, vjp


def _repeated(x: Array, factors: Sequence[int]) -> tuple[Array, Any]:
    """Every number repeated by whole factors along the last axes, and the VJP."""
    first = x.ndim - len(factors)
    y = x
    for axis, f in enumerate(factors, start=first):
        y = np.repeat(y, f, axis)

    def vjp(y_bar):
        split = [n for pair in zip(x.shape[first:], factors, strict=True) for n in pair]
        repeats = np.ascontiguousarray(y_bar).reshape(*x.shape[:first], *split)
        return (repeats.sum(tuple(range(first + 1, repeats.ndim, 2))),)

    return y, vjp


class Weights(NamedTuple):
    """y[i] = Σ_t weight[t, i] x[source[t, i]] over the taps t that `used` has: a matrix with few numbers in a row."""

    source: Array
    weight: Array
    used: Array


def _combined(x: Array, axis: int, weights: Weights) -> Array:
    """The matrix of the weights times x, along one axis. What has weight 0 is not read."""
    along = (slice(None), *[None] * (x.ndim - axis - 1))
    y = np.zeros((*x.shape[:axis], weights.source.shape[1], *x.shape[axis + 1 :]), x.dtype)
    for source, weight, used in zip(*weights, strict=True):
        tap = x.take(source, axis)
        tap *= weight.astype(x.real.dtype)[along]
        np.add(y, tap, out=y, where=True if used.all() else used[along])
    return y


@functools.lru_cache(maxsize=64)
def _table(mode: str, align_corners: bool, length: int, count: int, step: Fraction) -> tuple[Weights, Weights]:
    """The weights w_ij of `count` places on an axis of `length`, and their transpose."""
    entries: list[tuple[int, int, Fraction]] = []  # i, j and w_ij
    for i in range(count):
        c = _coordinate(mode, align_corners, length, count, step, i)
        j = math.floor(c)
        entries += [(i, j + k, w) for k, w in ((0, 1 - (c - j)), (1, c - j)) if w]
    targets, sources = (np.array([entry[k] for entry in entries], int) for k in range(2))
    weights = np.array([_wide(w) for _, _, w in entries], np.longdouble)
    return _by_row(targets, sources, weights, count), _by_row(sources, targets, weights, length)


def _coordinate(mode: str, align_corners: bool, length: int, count: int, step: Fraction, i: int) -> Fraction:
    """c_i, where on the axis of x place i of y is; a whole number for both kinds of nearest."""
    half = Fraction(1, 2)
    if mode == "nearest":
        return Fraction(min(math.floor(i * step), length - 1))
    if mode == "nearest-exact":
        return Fraction(min(math.floor((i + half) * step), length - 1))
    if align_corners:
        return Fraction(i * (length - 1), max(count - 1, 1))
    return min(max((i + half) * step - half, Fraction(0)), Fraction(length - 1))


def _wide(w: Fraction) -> np.longdouble:
    """A fraction in the widest precision, rounded once: its first digits and its next."""
    first = float(w)
    return np.longdouble(first) + np.longdouble(float(w - Fraction(first)))


def _by_row(rows: Array, sources: Array, weights: Array, count: int) -> Weights:
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


def _positions(lengths: tuple[int, ...], factor: Any, size: Any) -> tuple[tuple[int, ...], list[Fraction]]:
    """How many places y has on each axis, and how far apart they are on the axis of x."""
    if factor is None:
        if 0 in lengths:
            raise ValueError(f"upsample: x has lengths {lengths}; an axis of length 0 has nothing to repeat")
        return size, [Fraction(n, p) for n, p in zip(lengths, size, strict=True)]
    positions = tuple(math.floor(n * float(str(f))) for n, f in zip(lengths, factor, strict=True))
    if any(n and not p for n, p in zip(lengths, positions, strict=True)):
        raise ValueError(
            f"upsample: factor {factor} leaves nothing of x with lengths {lengths}; pass a larger one, or size"
        )
    return positions, [1 / Fraction(str(f)) for f in factor]  # 1.4 is meant as 7/5
