"""The three products that convolutions are, on arrays of floats, block by block in the cache.

On an axis, window p reads the places s p + d t − a for its taps t = 0 … k − 1: stride s, dilation d, and `before` = a
zeros in front (refnp/numbers/windows.py). With samples b, groups g, channels c and o, one number that is linear in each
of x, w and y

    T = Σ y[b,g,o,p] · w[g,o,c,t] · x[b,g,c, s p + d t − a]        (x is 0 outside its length)

gives everything: its derivative with respect to y is the convolution of x with w (`correlate`), with respect to x
the transposed convolution of y with w (`correlate_transposed`), with respect to w the gradient of the weights
(`weight_products`). So each of the three is a gradient of the others.

How: the windows are laid out as columns, block by block in the cache, and one matrix product per block does the rest.
For samples of many places `correlate_by_tap` and `add_weight_products_by_tap`, at the end, do the same faster.
Source: Dumoulin & Visin (2016), arXiv 1603.07285 (how the two convolutions are related).
"""

import itertools
import math
from collections.abc import Iterator

import numpy as np
from numpy.lib.stride_tricks import as_strided

from refnp.kernels.blocks import MULTIPLICATIONS, run_all
from refnp.kernels.products import SMALL_PRODUCT
from refnp.numbers.arrays import Array
from refnp.numbers.windows import Axes, Axis

COLUMN_BYTES = 1 << 20  # in a block of columns: they stay in a second-level cache, and calls cost little in comparison
MANY = 256  # places of a sample, from which on it is multiplied by itself; fewer are put together with other samples'


def correlate(x: Array, weight: Array, axes: Axes, bias: Array | None = None) -> Array:
    """y[b,g,o,p] = Σ_{c,t} w[g,o,c,t] x[b,g,c, s p + d t − a] + bias[g,o].

    Shapes: x (B, G, C, *lengths), weight (G, O, C, *kernel), bias (G, O) → y (B, G, O, *positions).
    """
    groups, outs = weight.shape[:2]
    matrix = weight.reshape(groups, outs, math.prod(weight.shape[2:]))  # (G, O, C·k)
    positions = [axis.positions for axis in axes]
    y = np.empty((len(x), groups, outs, math.prod(positions)), np.result_type(x, weight))
    taps = taps_in_place(weight, axes) if weight.size and y.shape[3] >= MANY else 0
    numbers = matrix.shape[2] // taps + outs if taps else max(outs, matrix.shape[2])  # that a column takes
    pieces = pieces_of(len(x), groups * numbers * x.itemsize, axes)
    calls = len(x) * -(-y.shape[3] // CHUNK) if taps else len(pieces)

    def work(i: int) -> None:
        samples, rows, places = pieces[i]
        into = y[samples, :, :, places]  # (b, G, O, P)
        if taps:
            correlate_by_tap(x[samples], weight, axes, rows, taps, bias, into)
            return
        product = np.matmul(matrix, columns(x[samples], axes, rows))  # (G, O, b·P)
        product = product.reshape(groups, outs, len(into), into.shape[3]).transpose(2, 0, 1, 3)  # (b, G, O, P)
        np.add(product, 0 if bias is None else bias[..., None], out=into)

    run_all(work, len(pieces), size_of_a_call(matrix.size * (y.size // max(y.shape[1] * y.shape[2], 1)), calls))
    return y.reshape(len(x), groups, outs, *positions)


def correlate_transposed(y: Array, weight: Array, axes: Axes, bias: Array | None = None) -> Array:
    """x[b,g,c,i] = Σ_{o,p,t: s p + d t − a = i} w[g,o,c,t] y[b,g,o,p] + bias[g,c], the adjoint of `correlate`.

    Every s-th place of x is a correlation of y with every m-th tap; so nothing is scattered or added in place.
    Shapes: y (B, G, O, *positions), weight (G, O, C, *kernel), bias (G, C) → x (B, G, C, *lengths).
    """
    turned = weight.swapaxes(1, 2)  # (G, C, O, *kernel)
    if all(axis.stride == 1 and axis.length for axis in axes):
        _, taps, walk = zip(*(next(phases(axis)) for axis in axes), strict=True)
        return correlate(y, turned[(..., *taps)], walk, bias)
    x = np.empty((*y.shape[:2], turned.shape[1], *(axis.length for axis in axes)), np.result_type(y, weight))
    for parts in itertools.product(*(phases(axis) for axis in axes)):
        places, taps, walk = zip(*parts, strict=True)
        x[(..., *places)] = correlate(y, turned[(..., *taps)], walk, bias)
    return x


def weight_products(x: Array, y: Array, axes: Axes) -> Array:
    """w[g,o,c,t] = Σ_{b,p} y[b,g,o,p] x[b,g,c, s p + d t − a], what a gradient of the weights is.

    Shapes: x (B, G, C, *lengths), y (B, G, O, *positions) → w (G, O, C, *kernel).
    """
    groups, ins, outs = *x.shape[1:3], y.shape[2]
    kernel = tuple(axis.kernel for axis in axes)
    height = ins * math.prod(kernel)
    y = y.reshape(*y.shape[:3], math.prod(axis.positions for axis in axes))
    taps = axes[0].kernel if axes[0].stride == 1 and y.shape[3] >= MANY else 1
    numbers = height // taps + outs if taps > 1 else max(outs, height)  # that a column takes
    pieces = pieces_of(len(x), groups * numbers * x.itemsize, axes)
    calls = len(x) * -(-y.shape[3] // CHUNK) if taps > 1 else len(pieces)
    runs = [pieces[i::8] for i in range(min(8, len(pieces)))]  # eight sums, whatever the number of threads
    sums = np.zeros((len(runs), groups, taps, height // taps, outs), np.result_type(x, y))

    def work(i: int) -> None:
        for samples, rows, places in runs[i]:
            if taps > 1:
                add_weight_products_by_tap(x[samples], y[samples, :, :, places], axes, rows, sums[i])
                continue
            unfolded = columns(x[samples], axes, rows)  # (G, C·k, b·P)
            across = y[samples, :, :, places].transpose(1, 2, 0, 3)  # (G, O, b, P)
            across = across.reshape(groups, outs, unfolded.shape[2])  # (G, O, b·P)
            # the other way round, float32 takes 1.3 times as long
            sums[i, :, 0] += np.matmul(unfolded, across.swapaxes(1, 2))

    run_all(work, len(runs), size_of_a_call(height * y.size, calls))
    found = sums.sum(0).reshape(groups, taps, ins, math.prod(kernel) // taps, outs)
    return found.transpose(0, 4, 2, 1, 3).reshape(groups, outs, ins, *kernel)


def columns(x: Array, axes: Axes, rows: slice) -> Array:
    """The windows at `rows` of the first axis and everywhere on the others, each a column: (G, C·k, b·P).

    The windows are a view, in which neighbours share their numbers; laying them out in a matrix makes the copy.
    """
    kernel = math.prod(axis.kernel for axis in axes)
    places = (rows.stop - rows.start) * math.prod(axis.positions for axis in axes[1:])
    size = x.shape[1], x.shape[2] * kernel, len(x) * places
    if not kernel:
        return np.empty(size, x.dtype)
    windows, n = windows_of(x, axes, rows), len(axes)
    return windows.transpose(*range(1, n + 3), 0, *range(n + 3, 2 * n + 3)).reshape(size)


def windows_of(x: Array, axes: Axes, rows: slice) -> Array:
    """The windows at `rows` of the first axis and everywhere on the others, (b, G, C, *kernel, *places), as a view."""
    counts = (rows.stop - rows.start, *(axis.positions for axis in axes[1:]))
    starts = (rows.start * axes[0].stride - axes[0].before, *(-axis.before for axis in axes[1:]))
    x = read(x, starts, tuple(axis.span(n) for axis, n in zip(axes, counts, strict=True)))
    steps = x.strides[3:]
    by_tap = (step * axis.dilation for step, axis in zip(steps, axes, strict=True))
    by_window = (step * axis.stride for step, axis in zip(steps, axes, strict=True))
    shape = (*x.shape[:3], *(axis.kernel for axis in axes), *counts)
    return as_strided(x, shape, (*x.strides[:3], *by_tap, *by_window), subok=True)


def read(x: Array, starts: tuple[int, ...], lengths: tuple[int, ...], fill: float = 0.0) -> Array:
    """x[..., start : start + length] along the last axes, with `fill` where that is outside x."""
    outer = (slice(None),) * (x.ndim - len(lengths))
    sizes = x.shape[len(outer) :]
    begins = [min(max(start, 0), m) for start, m in zip(starts, sizes, strict=True)]
    ends = [min(start + n, m) for start, n, m in zip(starts, lengths, sizes, strict=True)]
    inside = x[(*outer, *(slice(begin, max(begin, end)) for begin, end in zip(begins, ends, strict=True)))]
    kept = inside.shape[len(outer) :]
    if kept == lengths:
        return inside
    box = np.full_like(x, fill, shape=(*x.shape[: len(outer)], *lengths))
    if inside.size:
        box[(*outer, *(slice(b - s, b - s + n) for b, s, n in zip(begins, starts, kept, strict=True)))] = inside
    return box


def pieces_of(batch: int, size: int, axes: Axes) -> list[tuple[slice, slice, slice]]:
    """(samples, rows of the first axis, the same as places of the flattened axes): pieces of the work.

    `size` is that of a column in bytes; a piece is about COLUMN_BYTES of them, or twice as much of one sample, where
    neighbouring pieces read some rows twice. It depends on shapes and types alone, so results do not depend on the
    number of threads.
    """
    most, width = COLUMN_BYTES // max(1, size), math.prod(axis.positions for axis in axes[1:])
    rows = even(axes[0].positions, 2 * most // max(1, width))
    samples = even(batch, most // max(1, width * axes[0].positions))
    return [(b, r, slice(r.start * width, r.stop * width)) for b in samples for r in rows]


def even(count: int, most: int) -> list[slice]:
    """0 … count − 1 in as few runs of at most `most` (but one at least) as possible, of nearly equal lengths."""
    size = -(-count // -(-count // max(1, most))) if count else 1
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def phases(axis: Axis) -> Iterator[tuple[slice, slice, Axis]]:
    """The transposed correlation with a stride, as correlations with stride 1: (places of x, taps of w, axis) for each.

    Place i = s q + r of x gets y at p = (i + a − d t)/s, for the taps t where that is whole: every m-th tap from t₀ on,
    m = s/gcd(s, d). Tap t₀ + j m reads y at q + e − j d/gcd(s, d), with e = (r + a − d t₀)/s: windows with stride 1 and
    the taps in reverse order. There is one such correlation for each remainder r = 0 … s − 1.
    """
    common = math.gcd(axis.stride, axis.dilation)
    step, dilation = axis.stride // common, axis.dilation // common
    for r in range(min(axis.stride, axis.length)):
        places = slice(r, None, axis.stride)
        count = -(-(axis.length - r) // axis.stride)
        distances = [r + axis.before - axis.dilation * t for t in range(axis.kernel)]
        used = [t for t, distance in enumerate(distances) if distance % axis.stride == 0]
        if used:
            taps = slice(used[-1], used[0] - 1 if used[0] else None, -step)
            before = (len(used) - 1) * dilation - distances[used[0]] // axis.stride
            yield places, taps, Axis(axis.positions, count, len(used), 1, dilation, before)
        else:
            yield places, slice(0, 0), Axis(axis.positions, count, 0)


# Below: the same products for samples of many places, in seven to nine tenths of the time. With stride 1 the
# windows of one tap of the first axis are those of the next, moved by a row: all taps find their columns in the same
# matrix, from another place on. So only the taps of the other axes are laid out, and in one dimension nothing is. There
# is then a product for each tap, and their sum. What follows was measured with OpenBLAS 0.3 on an AMD EPYC; two threads
# took .6 to .8 of the time of one where `size_of_a_call` lets them, and up to twice the time elsewhere.

CHUNK = 512  # columns of a product, unless it has too many multiplications: its result stays in the first cache
MOST_ALONE = 1 << 24  # multiplications that one thread does sooner than a second one wakes to help
RESULTS = 1 << 17  # numbers of the products of a call, of several samples if one has fewer: half a megabyte or one
HIGH = 32  # rows of a matrix from which on a product for each tap pays; with fewer, all taps are laid out


def size_of_a_call(multiplications: int, calls: int) -> float:
    """What `run_all` decides by whether threads pay, for so many multiplications in so many calls of NumPy."""
    return multiplications / calls / MULTIPLICATIONS if multiplications > MOST_ALONE else 0


def taps_in_place(weight: Array, axes: Axes) -> int:
    """How many products `correlate_by_tap` is to sum: one for each tap of the first axis, or one for all."""
    rows = weight[0, 0].size // axes[0].kernel
    return axes[0].kernel if axes[0].stride == 1 and rows >= HIGH else 1


def correlate_by_tap(
    x: Array, weight: Array, axes: Axes, rows: slice, taps: int, bias: Array | None, into: Array
) -> None:
    """The work of `correlate` on one piece, written to `into` (b, G, O, P): Σ of a product for each tap, plus bias."""
    groups, outs = weight.shape[:2]
    matrices = weight.reshape(groups, outs, weight.shape[2], taps, -1)  # (G, O, C, taps, other taps)
    matrices = matrices.transpose(0, 3, 1, 2, 4).reshape(groups, taps, outs, -1)
    views = columns_by_tap(x, axes, rows, taps)
    small = SMALL_PRODUCT // (outs * matrices.shape[3])
    chunks = even(into.shape[3], min(CHUNK, small) if small >= CHUNK // 4 else CHUNK)
    few = even(len(x), RESULTS // max(1, groups * taps * outs * min(CHUNK, into.shape[3])))
    for samples, chunk in itertools.product(few, chunks):
        y, view = into[samples, ..., chunk], views[samples, ..., chunk]
        if taps == 1:
            np.matmul(matrices[:, 0], view[:, :, 0], out=y)
            continue
        products = np.matmul(matrices, view)  # (b, G, taps, O, n)
        for tap in range(1, taps - 1):
            products[:, :, 0] += products[:, :, tap]
        np.add(products[:, :, 0], products[:, :, -1], out=y)
    if bias is not None:
        into += bias[..., None]


def add_weight_products_by_tap(x: Array, y: Array, axes: Axes, rows: slice, into: Array) -> None:
    """The work of `weight_products` on one piece, added to `into` (G, taps, C·k, O)."""
    views = columns_by_tap(x, axes, rows, into.shape[1])
    across = y[:, :, None].swapaxes(-1, -2)  # (b, G, 1, P, O)
    small = into.shape[2] * into.shape[3] * CHUNK <= SMALL_PRODUCT
    few = even(len(x), RESULTS // max(1, into.size))
    for samples, chunk in itertools.product(few, even(y.shape[3], CHUNK if small else y.shape[3])):
        into += np.matmul(views[samples, ..., chunk], across[samples, ..., chunk, :]).sum(0)


def columns_by_tap(x: Array, axes: Axes, rows: slice, taps: int) -> Array:
    """(b, G, taps, C·k, P): the columns for each tap of the first axis, a view of one matrix; or all taps as one."""
    first, *others = axes
    count, width = rows.stop - rows.start, math.prod(axis.positions for axis in others)
    if taps > 1:  # a matrix of every row that a tap reads
        count += (taps - 1) * first.dilation
        axes, rows = (Axis(first.length, count, 1, before=first.before - rows.start), *others), slice(0, count)
    height = x.shape[2] * math.prod(axis.kernel for axis in axes)
    matrix = windows_of(x, axes, rows).reshape(*x.shape[:2], height, count * width)
    sample, group, row, place = matrix.strides
    shape = (*x.shape[:2], taps, height, (count - (taps - 1) * first.dilation) * width)
    return as_strided(matrix, shape, (sample, group, first.dilation * width * place, row, place), subok=True)
