"""Pooling: one number for each window, the mean of what it holds or the largest of it.

    average:  y[p] = (1/k) Σ_t x[s p + d t − a]        maximum:  y[p] = max_t x[s p + d t − a]

Each channel for itself; k is the number of places in a window, over all axes. Channels come first, (B, C, *lengths).
The work is a loop over the taps t, the places in a window: for each, one strided slice of the input.

Adaptive pooling is told how many windows there shall be, P for an axis of length n: window p goes from ⌊p n/P⌋ to
⌈(p + 1) n/P⌉, without the end. Windows are as long as needed, share places where P does not divide n, and leave none
out. A place i lies in the windows from ⌊i P/n⌋ to ⌈(i + 1) P/n⌉: the same with P and n exchanged, which is why
the gradient of the mean is one more sum over such windows.
Transcription: tests/transcriptions/convolution.py.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from refnp.autograd.declaration import takes
from refnp.autograd.errors import explained
from refnp.autograd.primitives import primitive, raw
from refnp.autograd.tensor import Array, ArrayLike
from refnp.kernels.blocks import block_numbers, run_all
from refnp.kernels.convolution_products import even, read
from refnp.layers.convolution import PADDING
from refnp.numbers.arrays import floating, in_order
from refnp.numbers.windows import Axes, Axis, Whole, axes_of_convolution

WINDOWS = {"size": "whole ≥ 1 per axis of L", "stride": "whole ≥ 1 per axis of L?", "padding": PADDING}
COUNT = "whole ≥ 0 or None per axis of L"
MOST_AXES = 8  # of space: a window of 3 places on each of 18 axes would be a loop over 387 million places


@primitive
@takes(
    "x (B, C, *L ≥ 1) or (C, *L ≥ 1) → (B, C, *P)",
    **WINDOWS,
    ceil_mode="True or False",
    count_include_pad="True or False",
)
def average_pool(x, size, *, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """y[p] = (1/k) Σ_t x[s p + t − a], the mean over windows.

    Shapes: x (B, C, *lengths) → y (B, C, *positions), positions = ⌊(length + padding − size)/stride⌋ + 1 on each axis;
    also (C, *lengths) → (C, *positions), if `size` is a tuple: its length says how many axes of space there are.
    size, stride: a whole number or one per axis; the stride is the size unless given. padding: a number, or a list with
    a number or a pair (before, after) per axis.
    ceil_mode: ⌈…⌉ in place of ⌊…⌋, so that no place at the end is left out; but every window starts in x or in the
    padding before it. count_include_pad: the zeros of the padding count, k is the size of the window (as PyTorch and
    flax have it); with False k is the number of places of x in it (Keras). What a window has beyond the padding, with
    ceil_mode, never counts.
    Raises ValueError for sizes that do not fit x, padding by a whole window or more, or an axis of length 0; TypeError
    for sizes that are no integers and flags that are not True or False.

    VJP: x̄[i] = Σ_{p,t: s p + t − a = i} ȳ[p]/k[p].
    """
    x, outer, axes = _windows("average_pool", x, size, stride, padding, (1,) * len(size), ceil_mode)
    count = _number_of_places(axes, padding, ceil_mode, count_include_pad)
    count = count if isinstance(count, int) else count.astype(x.real.dtype)

    def forward(x, y):
        y[...] = 0
        for tap in _taps(_padded(x, axes, 0.0), axes):
            y += tap
        y /= count

    def backward(x, y, y_bar, x_bar):
        share = y_bar / count
        for tap in _taps(x_bar, axes):
            tap += share

    return _pooled(x, outer, axes, forward, backward)


@takes(
    "x (B, C, *L ≥ 1) or (C, *L ≥ 1) → (B, C, *P)",
    **WINDOWS,
    dilation="whole ≥ 1 per axis of L",
    **dict.fromkeys(("ceil_mode", "return_indices"), "True or False"),
)
def max_pool(
    x: ArrayLike,
    size: int | Sequence[int],
    *,
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """y[p] = max_t x[s p + d t − a], the largest number in each window; padding is never the largest.

    Shapes: x (B, C, *lengths) → y (B, C, *positions), positions = ⌊(length + padding − d (size − 1) − 1)/s⌋ + 1 on each
    axis; also (C, *lengths) → (C, *positions), if `size` is a tuple: its length says how many axes of space there are.
    size, stride, dilation: a whole number or one per axis; the stride is the size unless given. padding: a number, or a
    list with a number or a pair (before, after) per axis. ceil_mode: ⌈…⌉ in place of ⌊…⌋, so that no place at the end
    is left out; but every window starts in x or in the padding before it.
    return_indices: return (y, indices), where indices, integers of the shape of y, say where each number came from, as
    the place in x[b, c] flattened. Among equals it is the first; if there are NaN, the first NaN (PyTorch: the last).
    For complex x the number with the largest real part.
    Raises ValueError for sizes that do not fit x, padding by a whole window or more, an axis of length 0, or a window
    that holds no place, as dilation may leave one; TypeError for sizes that are no integers and flags that are not True
    or False.

    VJP: ȳ[p] goes to the place that indices[p] says; at the kink, among equals, to the first (as PyTorch; JAX too).
    """
    options = {"stride": stride, "padding": padding, "dilation": dilation, "ceil_mode": ceil_mode}
    y = max_over_windows(x, size, **options)
    return (y, _max_pool_indices(raw(x), raw(y), size, **options)) if return_indices else y


@primitive
def max_over_windows(x, size, *, stride, padding, dilation, ceil_mode):
    """y[p] = max_t x[s p + d t − a]: `max_pool`.   VJP: ȳ[p] goes to the first place of the largest number."""
    x, outer, axes = _windows("max_pool", x, size, stride, padding, dilation, ceil_mode)
    _check_no_window_is_empty("max_pool", axes)

    def forward(x, y):
        y[...] = -np.inf
        for tap in _taps(_padded(x, axes, -np.inf), axes):
            if x.dtype.kind == "c":
                np.copyto(y, tap, where=(tap.real > y.real) | np.isnan(tap.real) & ~np.isnan(y.real))
            else:
                np.maximum(y, tap, out=y)

    def backward(x, y, y_bar, x_bar):
        for tap, here in zip(_taps(x_bar, axes), _largest(x, y, axes), strict=True):
            tap += np.where(here, y_bar, 0)

    return _pooled(x, outer, axes, forward, backward)


@primitive
@takes("x (B, C, *L) or (C, *L) → (B, C, *size)", size=COUNT)
def adaptive_average_pool(x, size):
    """y[p] = the mean of x[i] over ⌊p n/P⌋ ≤ i < ⌈(p + 1) n/P⌉ on each axis: as many windows as `size` says.

    Shapes: x (B, C, *lengths) → y (B, C, *size); also (C, *lengths) → (C, *size), if `size` is a tuple.
    size: a whole number for all axes, or one for each, P; None there keeps a length.
    Raises TypeError for a size that is no integer, ValueError for one below 0, or an axis without places unless its
    size is 0.

    VJP: x̄[i] = Σ of ȳ[p]/k[p] over the windows p that hold i, those with ⌊i P/n⌋ ≤ p < ⌈(i + 1) P/n⌉.
    Elsewhere: PyTorch the same.
    """
    x, sizes = _adaptive("adaptive_average_pool", x, size)
    lengths = x.shape[x.ndim - len(sizes) :]
    counts = [np.subtract(*_runs(n, p)[::-1]) for n, p in zip(lengths, sizes, strict=True)]
    count = functools.reduce(np.multiply, np.ix_(*counts)).astype(x.real.dtype)  # (*size)
    return _sums_of_runs(x, sizes) / count, lambda y_bar: (_sums_of_runs(y_bar / count, lengths),)


@explained
@takes("x (B, C, *L) or (C, *L) → (B, C, *size)", size=COUNT, return_indices="True or False")
def adaptive_max_pool(x: ArrayLike, size: int | Sequence[int | None], *, return_indices: bool = False) -> Any:
    """y[p] = the largest x[i] with ⌊p n/P⌋ ≤ i < ⌈(p + 1) n/P⌉ on each axis: as many windows as `size` says.

    Shapes: x (B, C, *lengths) → y (B, C, *size); also (C, *lengths) → (C, *size), if `size` is a tuple.
    size: a whole number for all axes, or one for each, P; None there keeps a length. return_indices: return
    (y, indices), as `max_pool` does: the places in x[b, c] flattened, the first among equals. For complex x the number
    with the largest real part.
    Raises TypeError for a size that is no integer, ValueError for one below 0, or an axis without places unless its
    size is 0.

    VJP: ȳ[p] goes to the place that indices[p] says.
    Elsewhere: PyTorch the same.
    """
    y = max_over_runs(x, size)
    return (y, _largest_of_runs(*_adaptive("adaptive_max_pool", raw(x), size))[1]) if return_indices else y


@primitive
def max_over_runs(x, size):
    """y[p] = the largest x[i] with ⌊p n/P⌋ ≤ i < ⌈(p + 1) n/P⌉: `adaptive_max_pool`.   VJP: ȳ[p] goes to its place."""
    x, sizes = _adaptive("adaptive_max_pool", x, size)
    y, indices = _largest_of_runs(x, sizes)

    def vjp(y_bar):
        first = x.ndim - len(sizes)
        rows, windows = math.prod(x.shape[:first]), math.prod(sizes)
        x_bar = np.zeros((rows, math.prod(x.shape[first:])), y_bar.dtype)
        at = np.arange(rows)[:, None], indices.reshape(rows, windows)
        np.add.at(x_bar, at, y_bar.reshape(rows, windows))
        return (x_bar.reshape(x.shape),)

    return y, vjp


# Below: windows of one size.


def _windows(
    name: str, x: Any, size: Whole, stride: Whole | None, padding: Any, dilation: Whole, ceil_mode: bool
) -> tuple[Array, tuple[int, ...], Axes]:
    """x as (B, C, *lengths), its shape before the axes of space, and these axes."""
    x, count = floating(x), len(size)
    outer, lengths = x.shape[:-count], x.shape[-count:]
    if count > MOST_AXES:
        raise ValueError(f"{name}: x has shape {x.shape}, {count} axes of space; it may have {MOST_AXES}")
    if any(max(width) >= k for width, k in zip(padding, size, strict=True)):
        raise ValueError(f"{name}: padding {padding} makes windows of size {size} of nothing but padding; pad less")
    x = x if len(outer) == 2 else x[None]
    make = _axes_in_ceil_mode if ceil_mode else axes_of_convolution
    return x, outer, make(lengths, size, size if stride is None else stride, dilation, padding, name)


def _axes_in_ceil_mode(lengths: Whole, sizes: Whole, strides: Whole, dilations: Whole, widths: Any, name: str) -> Axes:
    """⌈(n + padding − d (k − 1) − 1)/s⌉ + 1 windows, less one if the last would start after x and what is before it."""
    axes = []
    for n, k, s, d, (before, after) in zip(lengths, sizes, strides, dilations, widths, strict=True):
        reach = d * (k - 1) + 1
        count = -(-(n + before + after - reach) // s) + 1
        if count < 1:
            raise ValueError(
                f"{name}: size {sizes} with dilation {dilations} reaches over {reach} places, but x has lengths "
                f"{lengths}, {n + before + after} there with padding, and stride {strides} lets ceil_mode add fewer; "
                "pad more, or use a smaller size"
            )
        axes.append(Axis(n, count - ((count - 1) * s >= n + before), k, s, d, before))
    return tuple(axes)


def _places_of_x(axis: Any) -> Array:
    """How many places of x each window holds on an axis: (positions,)."""
    at = np.arange(axis.positions)[:, None] * axis.stride + np.arange(axis.kernel) * axis.dilation - axis.before
    return ((at >= 0) & (at < axis.length)).sum(1)


def _check_no_window_is_empty(name: str, axes: Axes) -> None:
    """ValueError for a window without a place of x: only with dilation can there be one."""
    for axis in axes:
        if axis.dilation > 1 and not _places_of_x(axis).all():
            raise ValueError(
                f"{name}: a window of size {axis.kernel} with dilation {axis.dilation} reads nothing but padding on an "
                f"axis of length {axis.length}; pad less, or pass a longer x"
            )


def _number_of_places(axes: Axes, widths: Any, ceil_mode: bool, count_include_pad: bool) -> int | Array:
    """k, by which the sum over a window is divided: a number, or (*positions) where windows differ."""
    if count_include_pad and not ceil_mode:
        return math.prod(axis.kernel for axis in axes)
    counts = []
    for axis, (before, after) in zip(axes, widths, strict=True):
        starts = np.arange(axis.positions) * axis.stride  # counted from the first place of the padding
        padded = np.minimum(axis.kernel, before + axis.length + after - starts)
        counts.append(padded if count_include_pad else _places_of_x(axis))
    return functools.reduce(np.multiply, np.ix_(*counts))


def _padded(x: Array, axes: Axes, fill: float) -> Array:
    """The places that windows read, from the first of the first to the last of the last."""
    return read(x, tuple(-axis.before for axis in axes), tuple(axis.span(axis.positions) for axis in axes), fill)


def _taps(padded: Array, axes: Axes) -> Iterator[Array]:
    """For each tap t, what it reads in all windows: the view padded[s p + d t]."""
    reaches = [(axis.positions - 1) * axis.stride + 1 for axis in axes]
    for tap in np.ndindex(*(axis.kernel for axis in axes)):
        firsts = [t * axis.dilation for t, axis in zip(tap, axes, strict=True)]
        walk = zip(firsts, reaches, axes, strict=True)
        yield padded[(slice(None), slice(None), *(slice(f, f + reach, axis.stride) for f, reach, axis in walk))]


def _largest(x: Array, y: Array, axes: Axes) -> Iterator[Array]:
    """For each tap, the windows whose largest number y stands there for the first time: (B, C, *positions)."""
    undecided = np.ones(y.shape, bool)
    wanted = y.real
    unknown = _taps(_padded(np.isnan(x.real), axes, False), axes) if np.isnan(wanted.max(initial=0)) else None
    for source in _taps(_padded(x, axes, np.nan), axes):  # padding is equal to nothing, not even to −∞
        here = source.real == wanted
        if unknown is not None:  # the first NaN of a window with NaN
            here |= np.isnan(wanted) & next(unknown)
        here &= undecided
        undecided &= ~here
        yield here


def _max_pool_indices(x: Any, y: Array, size: Any, **options: Any) -> Array:
    """Where the largest number of each window stands, as a place in x[b, c] flattened."""
    x, _, axes = _windows("max_pool", x, size, **options)
    places = np.arange(math.prod(x.shape[2:])).reshape(1, 1, *x.shape[2:])
    indices = np.zeros((*x.shape[:2], *(axis.positions for axis in axes)), np.int64)
    largest = _largest(x, y.reshape(indices.shape), axes)
    for at, here in zip(_taps(_padded(places, axes, -1), axes), largest, strict=True):
        np.copyto(indices, at, where=here)
    return indices.reshape(y.shape)


def _pooled(x: Array, outer: tuple, axes: Axes, forward: Callable, backward: Callable) -> tuple[Array, Callable]:
    """The value and VJP of a pool, in parts that fit in the cache, on several threads.

    forward(x, y) writes the part y; backward(x, y, y_bar, x_bar) adds to zeros x_bar, which has the places of padding.
    x is (B, C, *lengths), with B = 1 if there is no batch; `outer` is what the shapes of y and x̄ begin with.
    """
    y = np.empty((*x.shape[:2], *(axis.positions for axis in axes)), x.dtype)
    batch, channels = y.shape[:2]
    most = block_numbers(y.dtype) // max(1, math.prod(y.shape[2:]))
    parts = [(b, c) for b in even(batch, most // max(1, channels)) for c in even(channels, most)]
    padded = [max(axis.before + axis.length, axis.span(axis.positions)) for axis in axes]
    inner: Any = (..., *(slice(axis.before, axis.before + axis.length) for axis in axes))
    run_all(lambda i: forward(x[parts[i]], y[parts[i]]), len(parts))

    def vjp(y_bar):
        x_bar = np.empty(x.shape, y_bar.dtype)
        y_bar = y_bar.reshape(y.shape)

        def work(i):
            whole = np.zeros((*x[parts[i]].shape[:2], *padded), y_bar.dtype)
            backward(x[parts[i]], y[parts[i]], y_bar[parts[i]], whole)
            x_bar[parts[i]] = whole[inner]

        run_all(work, len(parts))
        return (x_bar.reshape(*outer, *x.shape[2:]),)

    return y.reshape(*outer, *y.shape[2:]), vjp


# Below: as many windows as are wanted.


def _adaptive(name: str, x: Any, size: Any) -> tuple[Array, tuple[int, ...]]:
    """x, and the number of windows on each of its axes of space."""
    x = floating(x)
    lengths = x.shape[-len(size) :]
    sizes = tuple(n if s is None else s for s, n in zip(size, lengths, strict=True))
    if any(s and not n for s, n in zip(sizes, lengths, strict=True)):
        raise ValueError(f"{name}: x has shape {x.shape}; an axis of length 0 has no windows, and size is {size}")
    return x, sizes


def _runs(length: int, count: int) -> tuple[Array, Array]:
    """Where `count` windows over an axis start, and where they end: ⌊p n/P⌋ and ⌈(p + 1) n/P⌉."""
    p = np.arange(count)
    return p * length // count, -(-(p + 1) * length // count)


def _windows_last(x: Array, axis: int, count: int) -> tuple[Array, Array]:
    """x with its windows along an axis in place of it, and their places at the end; and where these are repetitions.

    Shorter windows are filled with their last place.
    """
    starts, ends = _runs(x.shape[axis], count)
    at = starts[:, None] + np.arange(np.max(ends - starts, initial=0))
    return np.moveaxis(x, axis, -1).take(np.minimum(at, ends[:, None] - 1), -1), at >= ends[:, None]


def _sums_of_runs(x: Array, sizes: tuple[int, ...]) -> Array:
    """The sum over each window, axis by axis: a window is a rectangle."""
    for axis, count in zip(range(x.ndim - len(sizes), x.ndim), sizes, strict=True):
        windows, repeated = _windows_last(x, axis, count)
        windows[..., repeated] = 0
        x = np.moveaxis(windows.sum(-1), -1, axis)
    return in_order(x)


def _largest_of_runs(x: Array, sizes: tuple[int, ...]) -> tuple[Array, Array]:
    """The largest number of each window and its place in the flattened lengths, axis by axis.

    From the last axis to the first: so it is the first among equals in the order of the places.
    """
    places = np.arange(math.prod(x.shape[-len(sizes) :])).reshape(x.shape[-len(sizes) :])
    y, indices = x, np.broadcast_to(places, x.shape)
    for axis, count in reversed([*zip(range(x.ndim - len(sizes), x.ndim), sizes, strict=True)]):
        windows, _ = _windows_last(y, axis, count)
        first = windows.real.argmax(-1)[..., None] if count else np.empty((*windows.shape[:-1], 0), int)
        chosen = [np.take_along_axis(w, first, -1) for w in (windows, _windows_last(indices, axis, count)[0])]
        y, indices = (np.moveaxis(w.reshape(w.shape[:-1]), -1, axis) for w in chosen)
    return in_order(y), in_order(indices)
