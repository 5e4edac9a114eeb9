"""Convolution: every place of the output is a sum over a small window of the input, with the same weights everywhere.

    y[b, o, p] = Σ_c Σ_t w[o, c, t] x[b, c, s p + d t − a] + β[o]        stride s, dilation d, padding a

In one, two, three or more dimensions; p, t, s, d, a then have a number for each. The kernel is not turned round (what
signal processing calls cross-correlation), as in every framework of machine learning. Channels come first.
Shifting x by s places shifts y by one, away from the edges: the equivariance that ConvCNP builds on.

Without its bias, y is linear in x. The transposed convolution is the transpose of that linear map: it turns the
gradient of y into that of x, and short signals into long ones. Each is the gradient of the other.
Source: Sivaraya (2023) §4.2-4.3 (the CNN of eq. 11); LeCun et al. (1998); Dumoulin & Visin (2016), arXiv 1603.07285,
ch. 4.
Words: layers/__init__.py.   Transcription: tests/transcriptions/convolution.py.   Kernel: refnp/kernels/convolution.py.
"""

import math
from typing import Any

import numpy as np

from refnp.autograd.declaration import takes, takes_unchecked
from refnp.autograd.pages import page
from refnp.autograd.tensor import Array, ArrayLike, Parameter, Tensor
from refnp.kernels import convolution as kernels
from refnp.layers.module import Module
from refnp.numbers.parts import part
from refnp.numbers.windows import axes_of_convolution, axes_of_transpose, pairs_of, windows
from refnp.numbers.words import added_at, einsum, read_at

SHAPES = "x (B, groups·c, *L) or (groups·c, *L), weight (groups·o, c ≥ 1, *l ≥ 1), bias (groups·o)? → (B, groups·o, *P)"
PADDING = "whole ≥ 0 or (before, after) per axis of L"
OPTIONS: dict[str, Any] = {
    "stride": "whole ≥ 1 per axis of L",
    "dilation": "whole ≥ 1 per axis of L",
    "groups": "whole ≥ 1",
}
MODE: dict[str, Any] = {
    "padding": f"valid | same | {PADDING}",
    "padding_mode": "zeros | circular | reflect | replicate",
}
TRANSPOSED: dict[str, Any] = {"padding": PADDING, "output_padding": "whole ≥ 0 per axis of L"}
MODULE = {  # of those that hold weights
    **dict.fromkeys(("channels_in", "channels_out"), "whole ≥ 1, a multiple of groups"),
    "kernel": "whole ≥ 1 per axis",
    "dimensions": "whole ≥ 1",
    "bias": "True or False",
    "rng": "generator",
}


@page(SHAPES, **OPTIONS | MODE, kernel=kernels.convolution)
def convolution(x, weight, bias=None, *, stride=1, dilation=1, groups=1, padding=0, padding_mode="zeros"):
    """y[b,o,p] = Σ_{c,t} w[o,c,t] x[b,c, s p + d t − a] + β[o], at every place p where the window fits the padded x.

    Shapes: x (B, C, *lengths), weight (O, C/groups, *kernel), bias (O,) or None → y (B, O, *positions), with
    positions = ⌊(length + padding before and after − d (k − 1) − 1)/s⌋ + 1 on each axis. Without a batch, if x has one
    axis less than weight: x (C, *lengths) → y (O, *positions).

    stride, dilation: an integer, or one per axis. groups: equal parts of the channels, each convolved by itself.
    padding: an integer; a list with an integer or a pair (before, after) for each axis; "valid", none; or "same",
    which keeps the length: d (k − 1) in all, half of it on both sides, and if it is odd one more after x than before it
    (as PyTorch, JAX and TensorFlow). padding_mode: "zeros", "circular" (x once more), "reflect" (its mirror image on
    the last place) or "replicate" (the last place). Raises TypeError or ValueError naming what does not fit; ValueError
    if the kernel is longer than the padded x, for circular padding longer than x or reflect longer than x less a place,
    and for "same" with s > 1, as PyTorch does; there JAX and TensorFlow pad so that ⌈length/s⌉ positions come out.

    VJP: y is linear in x and in w, so the gradients are the adjoint maps:

        x̄[b,c,i] = Σ_{o,p,t: s p + d t − a = i} w[o,c,t] ȳ[b,o,p]        the transposed convolution of ȳ
        w̄[o,c,t] = Σ_{b,p} ȳ[b,o,p] x[b,c, s p + d t − a]                β̄[o] = Σ_{b,p} ȳ[b,o,p]

    and for x then the adjoint of the padding.   Elsewhere: flax and Keras put channels last, jax.lax first.
    """
    (batch, _, *lengths), (outs, ins, *kernel) = x.shape, weight.shape
    pairs = pairs_of(padding, lengths, kernel, stride, dilation, padding_mode)  # before and after, of each axis
    axes = axes_of_convolution(lengths, kernel, stride, dilation, pairs)  # lengths and positions, s, d and a of each
    places, n = windows(axes, padding_mode), math.prod(lengths)  # (P, T), ()   s p + d t − a, negative if padding
    seen = read_at(x.reshape(batch, groups, ins, n), places)  # (B, G, C, P, T)   x[b, c, s p + d t − a]
    w = weight.reshape(groups, outs // groups, ins, places.shape[1])  # (G, O, C, T)
    y = einsum("bgcpt,goct->bgop", seen, w).reshape(batch, outs, *(axis.positions for axis in axes))
    if bias is not None:
        y = y + by_channel(bias, y)

    def vjp(y_bar):
        rows = y_bar.reshape(batch, groups, outs // groups, places.shape[0])  # (B, G, O, P)
        seen_bar = einsum("bgop,goct->bgcpt", rows, w)  # (B, G, C, P, T)
        x_bar = added_at(seen_bar, places, n).reshape(x.shape)
        w_bar = einsum("bgop,bgcpt->goct", rows, seen).reshape(weight.shape)
        bias_bar = rows.sum((0, 3)).reshape(outs)
        return x_bar, w_bar, bias_bar

    return y, vjp


@page(
    "x (B, groups·c, *L ≥ 1) or (groups·c, *L ≥ 1), weight (groups·c, o ≥ 1, *l ≥ 1), bias (groups·o)? "
    "→ (B, groups·o, *P)",
    **OPTIONS | TRANSPOSED,
    kernel=kernels.convolution_transpose,
)
def convolution_transpose(x, weight, bias=None, *, stride=1, dilation=1, groups=1, padding=0, output_padding=0):
    """y[b,o,i] = Σ_{c,p,t: s p + d t − a = i} w[c,o,t] x[b,c,p] + β[o]: each x[p] adds w to y, at every s-th place.

    Shapes: x (B, C, *positions), weight (C, O/groups, *kernel), bias (O,) or None → y (B, O, *lengths), with
    length = (positions − 1) s − (padding before and after) + d (k − 1) + 1 + output_padding. Without a batch, if x has
    one axis less than weight: x (C, *positions) → y (O, *lengths).

    Padding makes y shorter, as it made x longer in the convolution. A convolution with stride s gives the same number
    of positions for s lengths; output_padding, from 0 to s − 1, says which of them is meant.
    Raises TypeError or ValueError naming the argument that does not fit; ValueError if nothing is left of y; for an
    output_padding that is smaller neither than the stride nor than the dilation (as PyTorch).

    VJP: the map from x to y is the transpose of a convolution's, so the gradient of x is that convolution of ȳ,

        x̄[b,c,p] = Σ_{o,t} w[c,o,t] ȳ[b,o, s p + d t − a]
        w̄[c,o,t] = Σ_{b,p} x[b,c,p] ȳ[b,o, s p + d t − a]                β̄[o] = Σ_{b,i} ȳ[b,o,i]

    Where k is not a multiple of s > 1, neighbouring places of y are sums of different numbers of terms, which may show
    as a checkerboard; UNet has an alternative.   Source: Odena, Dumoulin & Olah (2016).
    """
    (batch, ins, *positions), (_, outs, *kernel) = x.shape, weight.shape
    axes = axes_of_transpose(positions, kernel, stride, dilation, padding, output_padding)  # of y as of x above
    lengths = [axis.length for axis in axes]
    places, n = windows(axes), math.prod(lengths)  # (P, T), ()   s p + d t − a
    rows = x.reshape(batch, groups, ins // groups, places.shape[0])  # (B, G, C, P)
    w = weight.reshape(groups, ins // groups, outs, places.shape[1])  # (G, C, O, T)
    y = added_at(einsum("bgcp,gcot->bgopt", rows, w), places, n).reshape(batch, groups * outs, *lengths)
    if bias is not None:
        y = y + by_channel(bias, y)

    def vjp(y_bar):
        seen_bar = read_at(y_bar.reshape(batch, groups, outs, n), places)  # (B, G, O, P, T)   ȳ[b, o, s p + d t − a]
        x_bar = einsum("bgopt,gcot->bgcp", seen_bar, w).reshape(x.shape)
        w_bar = einsum("bgcp,bgopt->gcot", rows, seen_bar).reshape(weight.shape)
        bias_bar = y_bar.sum((0, *range(2, y_bar.ndim)))
        return x_bar, w_bar, bias_bar

    return y, vjp


@part
def by_channel(b, y):
    """b (C) beside y (B, C, *lengths): (C, 1, …)."""
    return b.reshape(b.shape[0], *[1] * (y.ndim - 2))


def of_any_rank(options: dict[str, str]) -> dict[str, str]:
    """Options per axis of L as a module has them, which does not know L yet."""
    return {name: text.removesuffix(" of L") for name, text in options.items()}


class Convolution(Module):
    """`convolution` with its own weight (channels_out, channels_in/groups, *kernel) and bias (channels_out,).

    kernel: a length for all `dimensions`, or a tuple of lengths, one for each axis of L. bias: with False none.
    All other options are the function's. x may come without a batch.
    Weight and bias are drawn from U(−a, a), a = 1/√(terms of an output) = 1/√(channels_in/groups · Π kernel), as
    torch.nn.Conv does.
    Raises TypeError unless sizes are integers, ValueError unless they are positive and `groups` divides the channels.
    """

    @takes("", **MODULE | of_any_rank(OPTIONS | MODE))
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
        lengths = kernel if isinstance(kernel, tuple) else (kernel,) * dimensions
        bound = (channels_in // groups * math.prod(lengths)) ** -0.5
        self.weight = Parameter(rng.uniform(-bound, bound, (channels_out, channels_in // groups, *lengths)))
        self.bias = Parameter(rng.uniform(-bound, bound, channels_out)) if bias else None
        self.options: dict[str, Any] = {"stride": stride, "dilation": dilation, "groups": groups}
        self.options |= {"padding": padding, "padding_mode": padding_mode}

    @takes_unchecked("x (B, channels_in, *L) → (B, channels_out, *P)")
    def __call__(self, x: ArrayLike) -> Array | Tensor:
        return convolution(x, self.weight, self.bias, **self.options)


class ConvolutionTranspose(Module):
    """`convolution_transpose` with its own weight (channels_in, channels_out/groups, *kernel) and bias (channels_out,).

    kernel: a length for all `dimensions`, or a tuple of lengths, one for each axis of L. bias: with False none.
    All other options are the function's. x may come without a batch.
    Weight and bias are drawn from U(−a, a), a = 1/√(channels_out/groups · Π kernel), as torch.nn.ConvTranspose does:
    that counts the terms in an output of the convolution of which this is the transpose.
    Raises TypeError unless sizes are integers, ValueError unless they are positive and `groups` divides the channels.
    """

    @takes("", **MODULE | of_any_rank(OPTIONS | TRANSPOSED))
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
        lengths = kernel if isinstance(kernel, tuple) else (kernel,) * dimensions
        bound = (channels_out // groups * math.prod(lengths)) ** -0.5
        self.weight = Parameter(rng.uniform(-bound, bound, (channels_in, channels_out // groups, *lengths)))
        self.bias = Parameter(rng.uniform(-bound, bound, channels_out)) if bias else None
        self.options: dict[str, Any] = {"stride": stride, "dilation": dilation, "groups": groups}
        self.options |= {"padding": padding, "output_padding": output_padding}

    @takes_unchecked("x (B, channels_in, *L) → (B, channels_out, *P)")
    def __call__(self, x: ArrayLike) -> Array | Tensor:
        return convolution_transpose(x, self.weight, self.bias, **self.options)
