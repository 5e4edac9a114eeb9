"""Windows that slide along an axis: where they lie, what they read, and the three products that convolutions are.

On an axis, window p reads the places s p + d t − a for its taps t = 0 … k − 1: stride s, dilation d, and `before` = a
zeros in front. With samples b, groups g, channels c and o, one form T that is linear in each of x, w and y

    T = Σ y[b,g,o,p] · w[g,o,c,t] · x[b,g,c, s p + d t − a]        (x is 0 outside its length)

says everything: its derivative with respect to y is the convolution of x with w (`correlate`), with respect to x
the transposed convolution of y with w (`spread`), with respect to w the gradient of the weights (`correlate_pair`).
So each of the three is a gradient of the others, and there is no more to derive.

How: the windows are laid out as columns, block by block in the cache, and one matrix product per block does the rest.
Source: Dumoulin & Visin, A guide to convolution arithmetic, arXiv 1603.07285 (the relation of the two convolutions).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from refnp.autograd import blocks

BLOCK = 1 << 17  # numbers in a block of columns: it stays in a second-level cache, and calls cost little beside it
SMALL = (1 << 19) - 1  # multiplications in a matrix product that BLAS (OpenBLAS) still does on the thread that calls it


class Axis(NamedTuple):
    """One axis: windows at `positions` places of an input of `length`."""

    length: int
    positions: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    before: int = 0  # zeros in front of the input; negative: so many places are left out

    def span(self, windows: int) -> int:
        """How many places that many neighbouring windows reach over."""
        return (windows - 1) * self.stride + (self.kernel - 1) * self.dilation + 1

    def phases(self) -> Iterator[tuple[slice, slice, Axis]]:
        """The transposed walk, from y to x: (places of x, taps, axis) whose plain walks over y are together that walk.

        Place i = s q + r of x hears from y at p = (i + a − d t)/s, for the taps t where that is whole: every m-th tap
        from t₀ on, m = s / gcd(s, d). Tap t₀ + j m reads y at q + e − j d/gcd(s, d), with e = (r + a − d t₀)/s: a walk with
        stride 1 and the taps in reverse order.
        """
        common = math.gcd(self.stride, self.dilation)
        step, dilation = self.stride // common, self.dilation // common
        for r in range(min(self.stride, self.length)):
            offsets = (r + self.before - self.dilation * t for t in range(self.kernel))
            heard = [(t, offset // self.stride) for t, offset in enumerate(offsets) if offset % self.stride == 0]
            places = slice(r, None, self.stride)
            count = -(-(self.length - r) // self.stride)
            if heard:
                (first, e), (last, _) = heard[0], heard[-1]
                taps = slice(last, first - 1 if first else None, -step)
                yield places, taps, Axis(self.positions, count, len(heard), 1, dilation, (len(heard) - 1) * dilation - e)
            else:
                yield places, slice(0, 0), Axis(self.positions, count, 0)


Axes = tuple[Axis, ...]


def correlate(x: np.ndarray, weight: np.ndarray, axes: Axes, bias: np.ndarray | None = None) -> np.ndarray:
    """y[b,g,o,p] = Σ_{c,t} w[g,o,c,t] x[b,g,c, s p + d t − a] + bias[g,o].

    Shapes: x (B, G, C, *lengths), weight (G, O, C, *kernel), bias (G, O) → y (B, G, O, *positions).
    """
    groups, outs = weight.shape[:2]
    matrix = weight.reshape(groups, outs, math.prod(weight.shape[2:]))  # (G, O, C·k)
    dtype = np.result_type(x, weight) if bias is None else np.result_type(x, weight, bias)
    y = np.empty((len(x), groups, outs, math.prod(axis.positions for axis in axes)), dtype)
    pieces = cut(len(x), groups * matrix.shape[2], axes)

    def work(i: int) -> None:
        samples, rows, places = pieces[i]
        room = y[samples, :, :, places]
        multiply(matrix, columns(x[samples], axes, rows), room)
        if bias is not None:
            room += bias[..., None]

    each(work, len(pieces), matrix[0].size)
    return y.reshape(len(x), groups, outs, *(axis.positions for axis in axes))


def spread(y: np.ndarray, weight: np.ndarray, axes: Axes, bias: np.ndarray | None = None) -> np.ndarray:
    """x[b,g,c,i] = Σ_{o,p,t: s p + d t − a = i} w[g,o,c,t] y[b,g,o,p] + bias[g,c]: the adjoint of `correlate`.

    Each of the s phases of an axis is a correlation of y with every m-th tap, and nothing is added up in place.
    Shapes: y (B, G, O, *positions), weight (G, O, C, *kernel), bias (G, C) → x (B, G, C, *lengths).
    """
    turned = weight.swapaxes(1, 2)  # (G, C, O, *kernel)
    phases = list(itertools.product(*(axis.phases() for axis in axes)))
    x = None
    for phase in phases:
        places, taps, plain = zip(*phase, strict=True)
        part = correlate(y, turned[(..., *taps)], plain, bias)
        if len(phases) == 1:
            return part
        if x is None:
            x = np.empty((*part.shape[:3], *(axis.length for axis in axes)), part.dtype)
        x[(..., *places)] = part
    assert x is not None
    return x


def correlate_pair(x: np.ndarray, y: np.ndarray, axes: Axes) -> np.ndarray:
    """w[g,o,c,t] = Σ_{b,p} y[b,g,o,p] x[b,g,c, s p + d t − a].

    Shapes: x (B, G, C, *lengths), y (B, G, O, *positions) → w (G, O, C, *kernel).
    """
    groups, outs, ins = y.shape[1], y.shape[2], x.shape[2]
    height = ins * math.prod(axis.kernel for axis in axes)
    rows_of_y = y.reshape(len(y), groups, outs, math.prod(axis.positions for axis in axes))
    pieces = cut(len(x), groups * max(height, outs), axes)
    runs = [pieces[start::8] for start in range(min(8, len(pieces)))]  # eight sums, whatever the number of threads
    dtype = np.result_type(x, y)
    sums = np.zeros((max(1, len(runs)), groups, outs, height), dtype)

    def work(i: int) -> None:
        for samples, rows, places in runs[i]:
            unfolded = columns(x[samples], axes, rows)  # (b, G, C·k, P)
            room = np.empty((len(unfolded), groups, outs, height), dtype)
            multiply(rows_of_y[samples, :, :, places], unfolded.swapaxes(-1, -2), room)
            sums[i] += room.sum(0)

    each(work, len(runs), outs * height)
    return sums.sum(0).reshape(groups, outs, ins, *(axis.kernel for axis in axes))


def columns(x: np.ndarray, axes: Axes, rows: slice) -> np.ndarray:
    """The windows at `rows` of the first axis and everywhere on the others, each a column: (b, G, C·k, P).

    The windows are a view, in which neighbours share their numbers; giving it two axes for six makes the copy.
    """
    counts = (rows.stop - rows.start, *(axis.positions for axis in axes[1:]))
    starts = (rows.start * axes[0].stride - axes[0].before, *(-axis.before for axis in axes[1:]))
    x = read(x, starts, [axis.span(count) for axis, count in zip(axes, counts, strict=True)])
    kernel = tuple(axis.kernel for axis in axes)
    steps = x.strides[3:]
    by_tap = tuple(step * axis.dilation for step, axis in zip(steps, axes, strict=True))
    by_window = tuple(step * axis.stride for step, axis in zip(steps, axes, strict=True))
    windows = as_strided(x, x.shape[:3] + kernel + counts, x.strides[:3] + by_tap + by_window)
    return windows.reshape(*x.shape[:2], x.shape[2] * math.prod(kernel), math.prod(counts))


def read(x: np.ndarray, starts: tuple[int, ...], lengths: list[int]) -> np.ndarray:
    """x[..., start : start + length] along its last axes, with zeros where that is outside x."""
    first = [max(start, 0) for start in starts]
    last = [min(start + n, m) for start, n, m in zip(starts, lengths, x.shape[3:], strict=True)]
    inside = x[(..., *(slice(f, max(f, e)) for f, e in zip(first, last, strict=True)))]
    if inside.shape[3:] == tuple(lengths):
        return inside
    box = np.zeros((*x.shape[:3], *lengths), x.dtype)
    places = (slice(f - start, f - start + n) for f, start, n in zip(first, starts, inside.shape[3:], strict=True))
    box[(..., *places)] = inside
    return box


def cut(batch: int, height: int, axes: Axes) -> list[tuple[slice, slice, slice]]:
    """(samples, rows of the first axis, the same as places in the flattened axes): blocks of about BLOCK numbers.

    `height` numbers stand in a column. The cut depends on shapes alone, so results do not depend on threads.
    """
    width = math.prod(axis.positions for axis in axes[1:])
    per_row = max(1, height * width)
    rows = _even(axes[0].positions, max(1, BLOCK // per_row))
    samples = _even(batch, max(1, BLOCK // (per_row * max(1, axes[0].positions))))
    return [(b, r, slice(r.start * width, r.stop * width)) for b in samples for r in rows]


def _even(count: int, most: int) -> list[slice]:
    """0 … count − 1 in as few pieces of at most `most` as possible, of nearly equal lengths."""
    size = -(-count // -(-count // most)) if count else 1
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def multiply(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> None:
    """out = left @ right, in strips of columns so narrow that BLAS stays on this thread; threads of ours are busy."""
    wide = SMALL // max(1, left.shape[-2] * left.shape[-1]) // 8 * 8
    whole = right.shape[-1] // max(wide, 1) * wide
    if wide == 0 or wide >= right.shape[-1]:
        np.matmul(left, right, out=out)
        return
    np.matmul(left[..., None, :, :], _strips(right[..., :whole], wide), out=_strips(out[..., :whole], wide))
    if whole < right.shape[-1]:
        np.matmul(left, right[..., whole:], out=out[..., whole:])


def _strips(array: np.ndarray, wide: int) -> np.ndarray:
    """(..., N, S·wide) seen as (..., S, N, wide)."""
    return array.reshape(*array.shape[:-1], -1, wide).swapaxes(-2, -3)


def each(work: Callable[[int], None], count: int, weights: int) -> None:
    """work(0) … work(count − 1) on our threads, or, if the products are large, one by one with BLAS's threads in each."""
    if weights * 8 <= SMALL:
        blocks.run_all(work, count)
    else:
        for i in range(count):
            work(i)
