"""Convolution and its transpose on arrays of floats, by the three products of convolution_products.py.

A gradient is computed when it is asked for. The pages are refnp/layers/convolution.py.
"""

import math

import numpy as np

from refnp.kernels.convolution_products import correlate, correlate_transposed, weight_products
from refnp.numbers.arrays import Array, in_order
from refnp.numbers.windows import Axis, Pairs, axes_of_convolution, axes_of_transpose, pairs_of, windows


def convolution(x, weight, bias=None, *, stride, dilation, padding, groups, padding_mode):
    """y[b,o,p] = Σ_{c,t} w[o,c,t] x[b,c, s p + d t − a] + β[o]."""
    x, weight, bias = of_one_type(x, weight, bias)
    kernel = weight.shape[2:]
    pairs = pairs_of(padding, x.shape[2:], kernel, stride, dilation, padding_mode)
    if padding_mode != "zeros":
        x = padded(x, pairs, padding_mode)
    beside = pairs if padding_mode == "zeros" else ((0, 0),) * len(kernel)
    axes = axes_of_convolution(x.shape[2:], kernel, stride, dilation, beside)
    x_groups = by_group(x, groups)  # (B, G, C/G, *lengths)
    w_groups = by_group(weight, groups, 0)  # (G, O/G, C/G, *kernel)
    y = correlate(x_groups, w_groups, axes, None if bias is None else by_group(bias, groups, 0))

    def vjp(y_bar):
        y_bar = in_order(y_bar)
        y_groups = by_group(y_bar, groups)  # (B, G, O/G, *positions)

        def x_bar():
            bar = correlate_transposed(y_groups, w_groups, axes).reshape(x.shape)
            return bar if padding_mode == "zeros" else folded(bar, pairs, padding_mode)

        return (
            x_bar,
            lambda: weight_products(x_groups, y_groups, axes).reshape(weight.shape),
            lambda: per_channel(y_bar),
        )

    return y.reshape(len(x), len(weight), *y.shape[3:]), vjp


def convolution_transpose(x, weight, bias=None, *, stride, dilation, padding, output_padding, groups):
    """y[b,o,i] = Σ_{c,p,t: s p + d t − a = i} w[c,o,t] x[b,c,p] + β[o]."""
    x, weight, bias = of_one_type(x, weight, bias)
    axes = axes_of_transpose(x.shape[2:], weight.shape[2:], stride, dilation, padding, output_padding)
    x_groups = by_group(x, groups)  # (B, G, C/G, *positions)
    w_groups = by_group(weight, groups, 0)  # (G, C/G, O/G, *kernel)
    y = correlate_transposed(x_groups, w_groups, axes, None if bias is None else by_group(bias, groups, 0))

    def vjp(y_bar):
        y_bar = in_order(y_bar)
        y_groups = by_group(y_bar, groups)  # (B, G, O/G, *lengths)
        return (
            lambda: correlate(y_groups, w_groups, axes).reshape(x.shape),
            lambda: weight_products(y_groups, x_groups, axes).reshape(weight.shape),
            lambda: per_channel(y_bar),
        )

    return y.reshape(len(x), groups * weight.shape[1], *y.shape[3:]), vjp


def of_one_type(*given: Array | None) -> list:
    """Arrays as floats of one type, in C order."""
    dtype = np.result_type(*(a for a in given if a is not None))
    return [None if a is None else np.asarray(a, dtype, order="C") for a in given]


def by_group(x: Array, groups: int, axis: int = 1) -> Array:
    """The axis of channels as two, (G, C/G): x (B, C, *lengths) seen as (B, G, C/G, *lengths)."""
    return x.reshape(*x.shape[:axis], groups, x.shape[axis] // groups, *x.shape[axis + 1 :])


def per_channel(y_bar: Array) -> Array:
    """Σ over samples and places, (B, O, *positions) → (O,)."""
    return y_bar.reshape(*y_bar.shape[:2], math.prod(y_bar.shape[2:])).sum(-1).sum(0)


def padded(x: Array, pairs: Pairs, mode: str) -> Array:
    """x (B, C, *lengths) made longer on both sides of each axis: by itself once more, or its last places."""
    for i, (before, after) in enumerate(pairs, 2):
        n = x.shape[i]
        x = x.take(windows((Axis(n, n + before + after, 1, before=before),), mode)[:, 0], i)
    return x


def folded(x_bar: Array, pairs: Pairs, mode: str) -> Array:
    """The adjoint of `padded`: what stands in the padding is added to the places that it repeats."""
    for axis, (before, after) in enumerate(pairs, 2):
        n = x_bar.shape[axis] - before - after
        sources = windows((Axis(n, n + before + after, 1, before=before),), mode)[:, 0]
        rows = x_bar.swapaxes(0, axis)
        inside = rows[before : before + n].copy()
        for i in (*range(before), *range(before + n, len(rows))):
            inside[sources[i]] += rows[i]
        x_bar = inside.swapaxes(0, axis)
    return np.ascontiguousarray(x_bar)
