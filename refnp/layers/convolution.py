"""Convolution: every place of the output sees the same small window of the input, through the same weights.

    y[b, o, p] = Σ_c Σ_t w[o, c, t] x[b, c, s p + d t − a] + β[o]        stride s, dilation d, padding a

In one, two, three or more dimensions; p, t, s, d, a then have a number for each. The kernel is not turned round (what
signal processing calls cross-correlation), as in every framework of machine learning. Channels come first.
Shifting x by s places shifts y by one, away from the edges: the equivariance that ConvCNP builds on.

Without its bias, y is linear in x. The transposed convolution is the transpose of that linear map: it turns the
gradient of y into that of x, and short signals into long ones. The code of one is the gradient of the other.
Source: Sivaraya (2023) §4.2-4.3 (the CNN of eq. 11); LeCun et al., Proc. IEEE 86 (1998) 2278; arXiv 1603.07285, ch. 4.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np

from refnp.autograd import pad
from refnp.autograd.primitives import primitive
from refnp.autograd.tensor import Parameter
from refnp.layers.convolution_checks import (
    axes_of_convolution,
    axes_of_transpose,
    checked,
    kernel_of,
    paddings,
    per_axis,
)
from refnp.layers.module import Module
from refnp.layers.windows import correlate, correlate_pair, spread

pad_rule = inspect.unwrap(pad)  # pad as it is written: array → (value, vjp)


@primitive
def convolution(x, weight, bias=None, *, stride=1, dilation=1, groups=1, padding=0, padding_mode="zeros"):
    """y[b,o,p] = Σ_{c,t} w[o,c,t] x[b,c, s p + d t − a] + β[o], at every place p where the window fits the padded x.

    Shapes: x (B, C, *lengths), weight (O, C/groups, *kernel), bias (O,) or None → y (B, O, *positions), with
    positions = ⌊(length + padding before and after − d (k − 1) − 1)/s⌋ + 1 on each axis.

    stride, dilation: an integer, or one per axis. groups: equal parts of the channels, that do not see each other.
    padding: an integer; a list with an integer or a pair (before, after) for each axis; "valid", none; or "same",
    d (k − 1)/2 on both sides, which keeps the length. padding_mode: "zeros", "circular", "reflect" or "replicate".
    Raises ValueError naming the argument that does not fit; if the kernel is longer than the padded x; for "same" if
    d (k − 1) is odd or the stride is not 1, where PyTorch and TensorFlow differ.

    VJP: y is linear in x and in w, so the gradients are the adjoint maps, given in windows.py:

        x̄[b,c,i] = Σ_{o,p,t: s p + d t − a = i} w[o,c,t] ȳ[b,o,p]        the transposed convolution of ȳ
        w̄[o,c,t] = Σ_{b,p} ȳ[b,o,p] x[b,c, s p + d t − a]                β̄[o] = Σ_{b,p} ȳ[b,o,p]

    and for x then the adjoint of the padding.   Elsewhere: JAX and Keras put channels last unless told otherwise.
    """
    x, weight, bias = checked("convolution", x, weight, bias, groups)
    kernel = weight.shape[2:]
    stride = per_axis("convolution", "stride", stride, len(kernel))
    dilation = per_axis("convolution", "dilation", dilation, len(kernel))
    widths = paddings("convolution", padding, padding_mode, x.shape[2:], kernel, stride, dilation)
    if padding_mode != "zeros":
        x, unpad = pad_rule(x, [(0, 0), (0, 0), *widths], mode=padding_mode)
        widths = [(0, 0)] * len(kernel)
    axes = axes_of_convolution(x.shape[2:], kernel, stride, dilation, widths)
    x_groups = by_group(x, groups)  # (B, G, C/G, *lengths)
    w_groups = weight.reshape(groups, -1, *weight.shape[1:])  # (G, O/G, C/G, *kernel)
    y = correlate(x_groups, w_groups, axes, None if bias is None else bias.reshape(groups, -1))

    def vjp(y_bar):
        y_groups = by_group(y_bar, groups)  # (B, G, O/G, *positions)

        def x_bar():
            bar = spread(y_groups, w_groups, axes).reshape(x.shape)
            return bar if padding_mode == "zeros" else unpad(bar)[0]

        return x_bar, lambda: correlate_pair(x_groups, y_groups, axes).reshape(weight.shape), lambda: per_channel(y_bar)

    return y.reshape(len(x), len(weight), *y.shape[3:]), vjp


@primitive
def convolution_transpose(x, weight, bias=None, *, stride=1, dilation=1, groups=1, padding=0, output_padding=0):
    """y[b,o,i] = Σ_{c,p,t: s p + d t − a = i} w[c,o,t] x[b,c,p] + β[o]: each x[p] paints w on y, at every s-th place.

    Shapes: x (B, C, *positions), weight (C, O/groups, *kernel), bias (O,) or None → y (B, O, *lengths), with
    length = (positions − 1) s − (padding before and after) + d (k − 1) + 1 + output_padding.

    Padding makes y shorter, as it made x longer in the convolution. A convolution with stride s gives the same number
    of positions for s lengths; output_padding, from 0 to s − 1, says which of them is meant.
    Raises ValueError naming the argument that does not fit; if nothing is left of y; for an output_padding that is
    smaller neither than the stride nor than the dilation (as PyTorch).

    VJP: the map from x to y is the transpose of a convolution's, so the gradient of x is that convolution of ȳ,

        x̄[b,c,p] = Σ_{o,t} w[c,o,t] ȳ[b,o, s p + d t − a]
        w̄[c,o,t] = Σ_{b,p} x[b,c,p] ȳ[b,o, s p + d t − a]                β̄[o] = Σ_{b,i} ȳ[b,o,i]

    Where k is not a multiple of s > 1, neighbouring places of y are sums of different numbers of terms, which shows as
    a checkerboard; UNet has an alternative.   Source: Odena, Dumoulin & Olah, Distill (2016), distill.00003.
    """
    x, weight, bias = checked("convolution_transpose", x, weight, bias, groups, transposed=True)
    axes = axes_of_transpose(x.shape[2:], weight.shape[2:], stride, dilation, padding, output_padding)
    x_groups = by_group(x, groups)  # (B, G, C/G, *positions)
    w_groups = weight.reshape(groups, -1, *weight.shape[1:])  # (G, C/G, O/G, *kernel)
    y = spread(x_groups, w_groups, axes, None if bias is None else bias.reshape(groups, -1))

    def vjp(y_bar):
        y_groups = by_group(y_bar, groups)  # (B, G, O/G, *lengths)
        return (
            lambda: correlate(y_groups, w_groups, axes).reshape(x.shape),
            lambda: correlate_pair(y_groups, x_groups, axes).reshape(weight.shape),
            lambda: per_channel(y_bar),
        )

    return y.reshape(len(x), groups * weight.shape[1], *y.shape[3:]), vjp


def by_group(x: np.ndarray, groups: int) -> np.ndarray:
    """(B, C, *lengths) seen as (B, G, C/G, *lengths)."""
    return x.reshape(len(x), groups, x.shape[1] // groups, *x.shape[2:])


def per_channel(y_bar: np.ndarray) -> np.ndarray:
    """Σ over samples and places, (B, O, *positions) → (O,)."""
    return y_bar.reshape(*y_bar.shape[:2], math.prod(y_bar.shape[2:])).sum(-1).sum(0)


class Convolution(Module):
    """`convolution` with its own weight (channels_out, channels_in/groups, *kernel) and bias (channels_out,).

    `kernel` is a length for all `dimensions`, or a tuple with one length for each. Weight and bias are drawn from
    U(−a, a), a = 1/√(terms of an output) = 1/√(channels_in/groups · Π kernel), as torch.nn.Conv does.
    Raises ValueError for sizes that are not positive, or channels that `groups` does not divide.
    """

    def __init__(
        self,
        channels_in: int,
        channels_out: int,
        kernel: int | tuple[int, ...],
        *,
        dimensions: int = 1,
        stride: int | tuple[int, ...] = 1,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        padding: Any = 0,
        padding_mode: str = "zeros",
        bias: bool = True,
        rng: np.random.Generator,
    ):
        lengths = kernel_of("Convolution", kernel, dimensions, channels_in, channels_out, groups)
        bound = (channels_in // groups * math.prod(lengths)) ** -0.5
        self.weight = Parameter(rng.uniform(-bound, bound, (channels_out, channels_in // groups, *lengths)))
        self.bias = Parameter(rng.uniform(-bound, bound, channels_out)) if bias else None
        self.stride, self.dilation, self.groups = stride, dilation, groups
        self.padding, self.padding_mode = padding, padding_mode

    def __call__(self, x):
        return convolution(
            x,
            self.weight,
            self.bias,
            stride=self.stride,
            dilation=self.dilation,
            groups=self.groups,
            padding=self.padding,
            padding_mode=self.padding_mode,
        )


class ConvolutionTranspose(Module):
    """`convolution_transpose` with its own weight (channels_in, channels_out/groups, *kernel) and bias (channels_out,).

    Weight and bias are drawn from U(−a, a), a = 1/√(channels_out/groups · Π kernel), as torch.nn.ConvTranspose does:
    that counts the terms in an output of the convolution of which this is the transpose.
    Raises ValueError as `Convolution`.
    """

    def __init__(
        self,
        channels_in: int,
        channels_out: int,
        kernel: int | tuple[int, ...],
        *,
        dimensions: int = 1,
        stride: int | tuple[int, ...] = 1,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        padding: Any = 0,
        output_padding: int | tuple[int, ...] = 0,
        bias: bool = True,
        rng: np.random.Generator,
    ):
        lengths = kernel_of("ConvolutionTranspose", kernel, dimensions, channels_in, channels_out, groups)
        bound = (channels_out // groups * math.prod(lengths)) ** -0.5
        self.weight = Parameter(rng.uniform(-bound, bound, (channels_in, channels_out // groups, *lengths)))
        self.bias = Parameter(rng.uniform(-bound, bound, channels_out)) if bias else None
        self.stride, self.dilation, self.groups = stride, dilation, groups
        self.padding, self.output_padding = padding, output_padding

    def __call__(self, x):
        return convolution_transpose(
            x,
            self.weight,
            self.bias,
            stride=self.stride,
            dilation=self.dilation,
            groups=self.groups,
            padding=self.padding,
            output_padding=self.output_padding,
        )
