"""What convolutions and pools accept: shapes that belong together, whole strides, windows that fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from refnp.autograd.blocks import floating
from refnp.layers.windows import Axes, Axis

Whole = tuple[int, ...]


def checked(name: str, x: Any, weight: Any, bias: Any, groups: Any, *, transposed: bool = False) -> tuple:
    """x, weight and bias as floating arrays of one type; ValueError if they do not belong together.

    weight is (channels out, channels in/groups, *kernel), or `transposed` (channels in, channels out/groups, *kernel).
    """
    x, weight = floating(x), floating(weight)
    if weight.ndim < 3 or 0 in weight.shape:
        order = "in, out/groups" if transposed else "out, in/groups"
        raise ValueError(f"{name}: weight has shape {weight.shape}; it must be ({order}, *kernel), with no axis empty")
    if x.ndim != weight.ndim:
        raise ValueError(
            f"{name}: x has shape {x.shape}, weight {weight.shape}; x needs {weight.ndim} axes too, (B, C, *space)"
        )
    rows, others = weight.shape[:2]
    if isinstance(groups, bool) or not isinstance(groups, (int, np.integer)) or groups < 1 or rows % groups:
        raise ValueError(
            f"{name}: groups is {groups!r}; it must be a whole number that divides {rows}, weight's length"
        )
    ins, outs = (rows, others * groups) if transposed else (others * groups, rows)
    if x.shape[1] != ins:
        raise ValueError(
            f"{name}: x of shape {x.shape} has {x.shape[1]} channels; weight of shape {weight.shape} takes {ins} "
            f"with groups={groups}"
        )
    arrays = [x, weight]
    if bias is not None:
        arrays.append(floating(bias))
        if arrays[2].shape != (outs,):
            raise ValueError(
                f"{name}: bias has shape {arrays[2].shape}; it must be ({outs},), a number per output channel"
            )
    dtype = np.result_type(*arrays)
    arrays = [a.astype(dtype, copy=False) for a in arrays]
    return arrays[0], arrays[1], arrays[2] if bias is not None else None


def per_axis(name: str, argument: str, value: Any, count: int, least: int = 1) -> Whole:
    """One whole number for each axis, from one for all or a sequence of them."""
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,) * count
    if len(values) != count or not all(isinstance(v, (int, np.integer)) and v >= least for v in values):
        raise ValueError(
            f"{name}: {argument} is {value!r}; pass a whole number ≥ {least}, or one for each of {count} axes"
        )
    return tuple(int(v) for v in values)


def pairs(name: str, padding: Any, count: int) -> list[tuple[int, int]]:
    """(before, after) for each axis, from a whole number, or a list with a number or a pair for each axis."""
    values = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,) * count
    widths = [tuple(v) if isinstance(v, (tuple, list)) else (v, v) for v in values]
    whole = all(isinstance(w, (int, np.integer)) and w >= 0 for width in widths for w in width)
    if len(widths) != count or not whole or any(len(width) != 2 for width in widths):
        raise ValueError(
            f"{name}: padding is {padding!r}; pass a whole number ≥ 0, or a list with a number or a pair "
            f"(before, after) for each of {count} axes"
        )
    return [(int(before), int(after)) for before, after in widths]


def paddings(
    name: str, padding: Any, mode: str, lengths: Whole, kernel: Whole, stride: Whole, dilation: Whole
) -> list[tuple[int, int]]:
    """(before, after) for each axis; `padding` may also be "valid" or "same"; the mode must find its elements in x."""
    if padding == "same":
        reach = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        if any(s != 1 for s in stride):
            raise ValueError(f"{name}: padding 'same' needs stride 1, stride is {stride}; pass the padding as numbers")
        if any(r % 2 for r in reach):
            raise ValueError(
                f"{name}: padding 'same' finds no middle in kernel {kernel} with dilation {dilation}; "
                "use odd kernels, or pass a pair (before, after) for each axis"
            )
        widths = [(r // 2, r // 2) for r in reach]
    else:
        widths = pairs(name, 0 if padding == "valid" else padding, len(kernel))
    if mode not in ("zeros", "circular", "reflect", "replicate"):
        raise ValueError(f"{name}: padding_mode {mode!r} is unknown; use 'zeros', 'circular', 'reflect' or 'replicate'")
    for n, width in zip(lengths, widths, strict=True):
        most = {"circular": n, "reflect": n - 1, "replicate": max(width) if n else 0}.get(mode, max(width))
        if max(width) > max(most, 0):
            raise ValueError(
                f"{name}: {mode} padding {width} takes more than an axis of length {n} has; at most {max(most, 0)}"
            )
    return widths


def axes_of_convolution(
    lengths: Whole, kernel: Whole, stride: Whole, dilation: Whole, widths: list, name: str = "convolution"
) -> Axes:
    """Axes with as many windows as fit the padded lengths; ValueError where not even one does."""
    axes = []
    for n, k, s, d, (before, after) in zip(lengths, kernel, stride, dilation, widths, strict=True):
        reach = d * (k - 1) + 1
        if reach > n + before + after:
            raise ValueError(
                f"{name}: the kernel {kernel} with dilation {dilation} reaches over {reach} places, but x has lengths "
                f"{lengths}, {n + before + after} there with padding; pad more, or use a shorter kernel"
            )
        axes.append(Axis(n, (n + before + after - reach) // s + 1, k, s, d, before))
    return tuple(axes)


def axes_of_transpose(
    positions: Whole, kernel: Whole, stride: Any, dilation: Any, padding: Any, output_padding: Any
) -> Axes:
    """Axes with the given positions, and the length that a transposed convolution gives; ValueError if it is none."""
    name, count = "convolution_transpose", len(kernel)
    strides, dilations = per_axis(name, "stride", stride, count), per_axis(name, "dilation", dilation, count)
    extras = per_axis(name, "output_padding", output_padding, count, least=0)
    axes = []
    for p, k, s, d, (before, after), extra in zip(
        positions, kernel, strides, dilations, pairs(name, padding, count), extras, strict=True
    ):
        if extra >= max(s, d):
            raise ValueError(
                f"{name}: output_padding {extras} must be smaller than the stride {strides} or the dilation {dilations}"
            )
        length = (p - 1) * s - before - after + d * (k - 1) + 1 + extra
        if p < 1 or length < 1:
            raise ValueError(
                f"{name}: x with places {positions}, kernel {kernel} and padding {padding} leave an axis of length "
                f"{length}; pad less, or pass a longer x"
            )
        axes.append(Axis(length, p, k, s, d, before))
    return tuple(axes)


def kernel_of(name: str, kernel: Any, dimensions: int, channels_in: int, channels_out: int, groups: int) -> Whole:
    """The lengths of a module's kernel; ValueError for sizes that make no sense."""
    count = len(kernel) if isinstance(kernel, (tuple, list)) else dimensions
    if count < 1:
        raise ValueError(f"{name}: dimensions is {dimensions} and kernel {kernel!r}; there must be at least one axis")
    if min(channels_in, channels_out, groups) < 1 or channels_in % groups or channels_out % groups:
        raise ValueError(
            f"{name}: channels ({channels_in}, {channels_out}) must be positive and multiples of groups, {groups}"
        )
    return per_axis(name, "kernel", kernel, count)
