"""Windows that slide along the axes of a signal: where they lie, and which place each of them reads at each tap.

On an axis, window p reads the places s p + d t − a for its taps t = 0 … k − 1: stride s, dilation d, and a = `before`
places of padding in front. Several axes make a window of Π k taps at each of Π P positions.

    places = windows(axes)                   (P, T) integers: which number of the flattened signal stands under a tap
    read_at(x, places)                       (..., n) → (..., P, T): what the windows see, 0 in the padding
    added_at(under, places, n)               (..., P, T) → (..., n): the adjoint, which adds up what one number gave
    places = runs(lengths, sizes)            likewise, for as many windows as are wanted, of neighbouring places

`read_at` and `added_at` are words of pages (refnp/numbers/words.py).
Source: Dumoulin & Visin (2016), arXiv 1603.07285.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from refnp.numbers.duals import Array
from refnp.numbers.kinds import word

Whole = Sequence[int]
Pairs = Sequence[tuple[int, int]]
MOST_AXES = 8  # of space in pooling: a window of 3 places on each of 18 axes would read 387 million places
PADDING, BEYOND = -1, -2  # no place of the signal: one of the padding on both sides of it, or one farther out


class Axis(NamedTuple):
    """One axis: windows at `positions` places of an input of `length`."""

    length: int
    positions: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    before: int = 0  # places of padding in front of the input; negative: so many places of it are left out
    after: int = 0

    def span(self, windows: int) -> int:
        """How many places that many neighbouring windows reach over."""
        return (windows - 1) * self.stride + (self.kernel - 1) * self.dilation + 1


Axes = tuple[Axis, ...]


@word
def windows(axes: Axes, mode: str = "zeros") -> Array:
    """(P, T): the place of the flattened signal that each window reads at each tap; PADDING or BEYOND if there is none.

    mode: what stands in the padding: "zeros", nothing; "circular", the signal once more; "reflect", its mirror image
    on the last place; "replicate", its last place again.
    """
    found, outside = np.zeros((1, 1), np.intp), np.zeros((1, 1), np.intp)  # (P, T)   over the axes so far
    for axis in axes:
        at = np.arange(axis.positions)[:, None] * axis.stride + np.arange(axis.kernel) * axis.dilation - axis.before
        n, counts = axis.length, (len(found) * axis.positions, found.shape[1] * axis.kernel)
        none = np.zeros_like(at)
        if mode == "zeros":
            none = np.where(at >= n + axis.after, BEYOND, np.where((at < 0) | (at >= n), PADDING, 0))
        found = (found[:, None, :, None] * n + repeated(at, n, mode)[:, None, :]).reshape(counts)
        outside = np.minimum(outside[:, None, :, None], none[:, None, :]).reshape(counts)
    return np.where(outside < 0, outside, found)


@word
def runs(lengths: Whole, sizes: Whole) -> Array:
    """(P, T): the places ⌊p n/P⌋ ≤ i < ⌈(p + 1) n/P⌉ of the flattened signal for window p; BEYOND to fill up."""
    found = np.zeros((1, 1), np.intp)
    for n, count in zip(lengths, sizes, strict=True):
        p = np.arange(count)[:, None]
        starts, ends = (p * n // count, -(-(p + 1) * n // count)) if count else (p, p)
        at = starts + np.arange(np.max(ends - starts, initial=1))
        at = np.where(at < ends, at, BEYOND)
        above, shape = found[:, None, :, None], (len(found) * count, found.shape[1] * at.shape[1])
        found = np.where((above < 0) | (at[:, None, :] < 0), BEYOND, above * n + at[:, None, :]).reshape(shape)
    return found


@word
def filled(places: Array) -> Array:
    """Windows (P, T) in which the first place stands where there is none: their largest number stays the same."""
    beyond = np.iinfo(places.dtype).max
    return np.where(places < 0, np.where(places < 0, beyond, places).min(-1, keepdims=True), places)


def repeated(at: Array, n: int, mode: str) -> Array:
    """The place of a signal of n places that each place of the padded one repeats."""
    if mode == "circular" and n:
        return at % n
    if mode == "reflect" and n:
        return n - 1 - np.abs(n - 1 - np.abs(at))
    return np.clip(at, 0, max(n - 1, 0))


def pairs_of(padding: str | Pairs, lengths: Whole, kernel: Whole, stride: Whole, dilation: Whole, mode: str) -> Pairs:
    """The pair (before, after) of each axis; ValueError where the mode does not find its elements in x."""
    if padding == "valid":
        return ((0, 0),) * len(kernel)
    if padding == "same":
        if any(s != 1 for s in stride):
            raise ValueError(
                f"convolution: padding 'same' needs stride 1, stride is {stride}; pass the padding as numbers"
            )
        reach = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        padding = [(r // 2, r - r // 2) for r in reach]
    assert not isinstance(padding, str)
    for n, width in zip(lengths, padding, strict=True) if mode != "zeros" else ():
        most = max({"circular": n, "reflect": n - 1, "replicate": max(width) if n else 0}[mode], 0)
        if max(width) > most:
            raise ValueError(
                f"convolution: {mode} padding {width} takes more than an axis of length {n} has; at most {most}"
            )
    return padding


def axes_of_convolution(
    lengths: Whole, kernel: Whole, stride: Whole, dilation: Whole, padding: Pairs, name: str = "convolution"
) -> Axes:
    """Axes with as many windows as fit the padded lengths; ValueError where not even one does."""
    axes, what = [], "size" if name.endswith("pool") else "the kernel"
    for n, k, s, d, (before, after) in zip(lengths, kernel, stride, dilation, padding, strict=True):
        reach = d * (k - 1) + 1
        if reach > n + before + after:
            raise ValueError(
                f"{name}: {what} {tuple(kernel)} with dilation {dilation} reaches over {reach} places, but x has "
                f"lengths {tuple(lengths)}, {n + before + after} there with padding; pad more, or use a shorter kernel"
            )
        axes.append(Axis(n, (n + before + after - reach) // s + 1, k, s, d, before, after))
    return tuple(axes)


def axes_of_transpose(
    positions: Whole, kernel: Whole, stride: Whole, dilation: Whole, padding: Pairs, output_padding: Whole
) -> Axes:
    """Axes with the given positions, and the length that a transposed convolution gives; ValueError if it is none."""
    axes = []
    for p, k, s, d, (before, after), extra in zip(
        positions, kernel, stride, dilation, padding, output_padding, strict=True
    ):
        if extra >= max(s, d):
            raise ValueError(
                f"convolution_transpose: output_padding {output_padding} must be smaller than the stride {stride} or "
                f"the dilation {dilation}"
            )
        length = (p - 1) * s - before - after + d * (k - 1) + 1 + extra
        if length < 1:
            raise ValueError(
                f"convolution_transpose: x with places {tuple(positions)}, kernel {tuple(kernel)} and padding "
                f"{padding} leave an axis of length {length}; pad less, or pass a longer x"
            )
        axes.append(Axis(length, p, k, s, d, before, after))
    return tuple(axes)


def axes_of_pool(
    name: str,
    lengths: Whole,
    size: Whole,
    stride: Whole | None,
    padding: Pairs,
    dilation: Whole | None = None,
    *,
    ceil_mode: bool,
) -> Axes:
    """Axes with as many windows as fit, or in ceil mode as many as start in x or in the padding before it.

    ValueError where not even one fits, and for windows of nothing but padding.
    """
    count, stride, dilation = len(size), stride or size, dilation or (1,) * len(size)
    if count > MOST_AXES:
        raise ValueError(f"{name}: x has lengths {tuple(lengths)}, {count} axes of space; it may have {MOST_AXES}")
    if any(max(width) >= k for width, k in zip(padding, size, strict=True)):
        raise ValueError(f"{name}: padding {padding} makes windows of size {size} of nothing but padding; pad less")
    make = axes_in_ceil_mode if ceil_mode else axes_of_convolution
    axes = make(lengths, size, stride, dilation, padding, name)
    for axis in axes:
        if axis.dilation > 1 and (windows((axis,)) < 0).all(-1).any():
            raise ValueError(
                f"{name}: a window of size {axis.kernel} with dilation {axis.dilation} reads nothing but padding on an "
                f"axis of length {axis.length}; pad less, or pass a longer x"
            )
    return axes


def axes_in_ceil_mode(
    lengths: Whole, sizes: Whole, strides: Whole, dilations: Whole, padding: Pairs, name: str
) -> Axes:
    """⌈(n + padding − d (k − 1) − 1)/s⌉ + 1 windows, less one if the last would start after x and what is before it."""
    axes = []
    for n, k, s, d, (before, after) in zip(lengths, sizes, strides, dilations, padding, strict=True):
        reach = d * (k - 1) + 1
        count = -(-(n + before + after - reach) // s) + 1
        if count < 1:
            raise ValueError(
                f"{name}: size {sizes} with dilation {dilations} reaches over {reach} places, but x has lengths "
                f"{tuple(lengths)}, {n + before + after} there with padding, and stride {strides} lets ceil_mode add "
                "fewer; pad more, or use a smaller size"
            )
        axes.append(Axis(n, count - ((count - 1) * s >= n + before), k, s, d, before, after))
    return tuple(axes)


def sizes_of(name: str, lengths: Whole, size: Sequence[int | None]) -> tuple[int, ...]:
    """How many windows there are to be on each axis; ValueError where there is nothing that they could hold."""
    sizes = tuple(n if s is None else s for s, n in zip(size, lengths, strict=True))
    if any(s and not n for s, n in zip(sizes, lengths, strict=True)):
        raise ValueError(
            f"{name}: x has lengths {tuple(lengths)}; an axis of length 0 has no windows, and size is {size}"
        )
    return sizes


def resampled(lengths: Whole, factor: Sequence[float] | None, size: Whole | None) -> tuple[Whole, list[Fraction]]:
    """How many places there are to be on each axis, and how far apart they are on that of the signal.

    ValueError unless there are some, and something to take them from. A factor is meant as it is written, 1.4 as 7/5.
    """
    if factor is None:
        assert size is not None
        if 0 in lengths:
            raise ValueError(f"upsample: x has lengths {tuple(lengths)}; an axis of length 0 has nothing to repeat")
        return size, [Fraction(n, p) for n, p in zip(lengths, size, strict=True)]
    positions = tuple(math.floor(n * float(str(f))) for n, f in zip(lengths, factor, strict=True))
    if any(n and not p for n, p in zip(lengths, positions, strict=True)):
        raise ValueError(
            f"upsample: factor {factor} leaves nothing of x with lengths {tuple(lengths)}; pass a larger one, or size"
        )
    return positions, [1 / Fraction(str(f)) for f in factor]
