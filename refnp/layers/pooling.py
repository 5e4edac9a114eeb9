"""Pooling: one number for each window, the mean of what it holds or the largest of it.

    average:  y[p] = (1/k) Σ_t x[s p + d t − a]        maximum:  y[p] = max_t x[s p + d t − a]

Each channel for itself; k is the number of places in a window, over all axes. Channels come first, (B, C, *lengths).

Adaptive pooling is told how many windows there shall be, P for an axis of length n: window p goes from ⌊p n/P⌋ to
⌈(p + 1) n/P⌉, without the end. Windows are as long as needed, share places where P does not divide n, and leave none
out.
Words: layers/__init__.py.   Transcription: tests/transcriptions/convolution.py.   Kernel: refnp/kernels/pooling.py.
"""

import math
from typing import Any

import numpy as np

from refnp.autograd.pages import page
from refnp.kernels import pooling as kernels
from refnp.layers.convolution import PADDING
from refnp.numbers.parts import part
from refnp.numbers.windows import BEYOND, axes_of_pool, filled, runs, sizes_of, windows
from refnp.numbers.words import added_at, largest, read_at

WINDOWS: dict[str, Any] = {
    "size": "whole ≥ 1 per axis of L",
    "stride": "whole ≥ 1 per axis of L?",
    "padding": PADDING,
    "ceil_mode": "True or False",
}
COUNT = "whole ≥ 0 or None per axis of L"


@page(
    "x (B, C, *L ≥ 1) or (C, *L ≥ 1) → (B, C, *P)",
    **WINDOWS,
    count_include_pad="True or False",
    kernel=kernels.average_pool,
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
    Raises ValueError for sizes that do not fit x, padding by a whole window or more, an axis of length 0, or more than
    8 axes of space; TypeError for sizes that are no integers and flags that are not True or False.

    VJP: x̄[i] = Σ_{p,t: s p + t − a = i} ȳ[p]/k[p].
    """
    axes = axes_of_pool("average_pool", x.shape[2:], size, stride, padding, ceil_mode=ceil_mode)
    places = windows(axes)  # (P, T)
    count = (places > BEYOND if count_include_pad else places >= 0).sum(-1)  # (P,)   k
    y, vjp = mean_of(x, places, count, tuple(axis.positions for axis in axes))
    return y, vjp


@page(
    "x (B, C, *L ≥ 1) or (C, *L ≥ 1) → (B, C, *P)",
    **WINDOWS,
    dilation="whole ≥ 1 per axis of L",
    return_indices="True or False",
    kernel=kernels.max_pool,
)
def max_pool(x, size, *, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """y[p] = max_t x[s p + d t − a], the largest number in each window; padding is never the largest.

    Shapes: x (B, C, *lengths) → y (B, C, *positions), positions = ⌊(length + padding − d (size − 1) − 1)/s⌋ + 1 on each
    axis; also (C, *lengths) → (C, *positions), if `size` is a tuple: its length says how many axes of space there are.
    size, stride, padding, ceil_mode: as in `average_pool`. dilation: a whole number or one per axis.
    return_indices: return (y, indices), where indices, integers of the shape of y, say where each number came from, as
    the place in x[b, c] flattened. Among equals it is the first; if there are NaN, the first NaN (PyTorch: the last).
    For complex x the number with the largest real part.
    Raises ValueError for a window that holds no place, as dilation may leave one, and what `average_pool` raises.

    VJP: ȳ[p] goes to the place that indices[p] says; at the kink, among equals, to the first (as PyTorch; JAX too).
    """
    axes = axes_of_pool("max_pool", x.shape[2:], size, stride, padding, dilation, ceil_mode=ceil_mode)
    places = windows(axes)  # (P, T)
    y, indices, vjp = largest_of(x, places, tuple(axis.positions for axis in axes))
    return (y, indices) if return_indices else y, vjp


@page("x (B, C, *L) or (C, *L) → (B, C, *size)", size=COUNT, kernel=kernels.adaptive_average_pool)
def adaptive_average_pool(x, size):
    """y[p] = the mean of x[i] over ⌊p n/P⌋ ≤ i < ⌈(p + 1) n/P⌉ on each axis: as many windows as `size` says.

    Shapes: x (B, C, *lengths) → y (B, C, *size); also (C, *lengths) → (C, *size), if `size` is a tuple.
    size: a whole number for all axes, or one for each, P; None there keeps a length.
    Raises TypeError for a size that is no integer, ValueError for one below 0, or an axis without places unless its
    size is 0.

    VJP: x̄[i] = Σ of ȳ[p]/k[p] over the windows p that hold i, those with ⌊i P/n⌋ ≤ p < ⌈(i + 1) P/n⌉.
    Elsewhere: PyTorch the same.
    """
    sizes = sizes_of("adaptive_average_pool", x.shape[2:], size)
    places = runs(x.shape[2:], sizes)  # (P, T)
    y, vjp = mean_of(x, places, (places >= 0).sum(-1), sizes)
    return y, vjp


@page(
    "x (B, C, *L) or (C, *L) → (B, C, *size)",
    size=COUNT,
    return_indices="True or False",
    kernel=kernels.adaptive_max_pool,
)
def adaptive_max_pool(x, size, *, return_indices=False):
    """y[p] = the largest x[i] with ⌊p n/P⌋ ≤ i < ⌈(p + 1) n/P⌉ on each axis: as many windows as `size` says.

    Shapes: x (B, C, *lengths) → y (B, C, *size); also (C, *lengths) → (C, *size), if `size` is a tuple.
    size, and what is raised: as in `adaptive_average_pool`. return_indices: return (y, indices), as `max_pool` does.

    VJP: ȳ[p] goes to the place that indices[p] says.
    Elsewhere: PyTorch the same.
    """
    sizes = sizes_of("adaptive_max_pool", x.shape[2:], size)
    y, indices, vjp = largest_of(x, runs(x.shape[2:], sizes), sizes)
    return (y, indices) if return_indices else y, vjp


@part
def mean_of(x, places, count, positions):
    """The sum of what each window of `places` (P, T) sees over its `count` (P,), as (B, C, *positions), and the VJP."""
    n = math.prod(x.shape[2:])
    seen = read_at(x.reshape(*x.shape[:2], n), places)  # (B, C, P, T)
    y = (seen.sum(-1) / count).reshape(*x.shape[:2], *positions)

    def vjp(y_bar):
        share = y_bar.reshape(*x.shape[:2], places.shape[0]) / count  # (B, C, P)
        seen_bar = np.broadcast_to(share[..., None], seen.shape)  # (B, C, P, T)
        x_bar = added_at(seen_bar, places, n).reshape(x.shape)
        return (x_bar,)

    return y, vjp


@part
def largest_of(x, places, positions):
    """The largest number that each window of `places` (P, T) sees, as (B, C, *positions), its place, and the VJP."""
    n, places = math.prod(x.shape[2:]), filled(places)
    seen = read_at(x.reshape(*x.shape[:2], n), places)  # (B, C, P, T)
    y = seen.max(-1).reshape(*x.shape[:2], *positions)
    indices = np.where(largest(seen.real), places, 0).sum(-1).reshape(y.shape)

    def vjp(y_bar, indices_bar=None):
        seen_bar = to_the_first(seen, y_bar.reshape(*x.shape[:2], places.shape[0], 1))  # (B, C, P, T)
        x_bar = added_at(seen_bar, places, n).reshape(x.shape)
        return (x_bar,)

    return y, indices, vjp


@part
def to_the_first(seen, y_bar):
    """ȳ of each window for the largest number that it sees, the first among equals; 0 for the others."""
    return np.where(largest(seen), y_bar, 0)
