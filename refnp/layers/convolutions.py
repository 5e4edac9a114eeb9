"""Convolution: every place of the output is a sum over a small window of the input, with the same weights everywhere.

    y[b, o, p] = Σ_c Σ_t w[o, c, t] x[b, c, s p + d t − a] + β[o]        stride s, dilation d, padding a

In one, two, three or more dimensions; p, t, s, d, a then have a number for each. The kernel is not turned round (what
signal processing calls cross-correlation), as in every framework of machine learning. Channels come first.
Shifting x by s places shifts y by one, away from the edges: the equivariance that ConvCNP builds on.

Without its bias, y is linear in x. The transposed convolution is the transpose of that linear map: it turns the
gradient of y into that of x, and short signals into long ones. Each is the gradient of the other.
Source: Sivaraya (2023) §4.2-4.3 (the CNN of eq. 11); LeCun et al. (1998); Dumoulin & Visin (2016), arXiv 1603.07285,
ch. 4.
Transcription: tests/transcriptions/convolution.py.
"""

import inspect
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from refnp.autograd import pad
from refnp.autograd.declaration import takes
from refnp.autograd.primitives import primitive
from refnp.autograd.tensor import Array, ArrayLike, Parameter, Tensor
from refnp.layers.convolution_products import Axes, Axis, correlate, correlate_transposed, weight_products
from refnp.layers.module import Module
from refnp.numbers.arrays import floating, in_order

Whole = tuple[int, ...]
SHAPES = "x (B, groups·c, *L) or (groups·c, *L), weight (groups·o, c ≥ 1, *l ≥ 1), bias (groups·o)? → (B, groups·o, *P)"
PADDING = "whole ≥ 0 or (before, after) per axis of L"
OPTIONS = {"stride": "whole ≥ 1 per axis of L", "dilation": "whole ≥ 1 per axis of L", "groups": "whole ≥ 1"}
MODE = {"padding": f"valid | same | {PADDING}", "padding_mode": "zeros | circular | reflect | replicate"}
TRANSPOSED = {"padding": PADDING, "output_padding": "whole ≥ 0 per axis of L"}
MODULE = {  # of those that hold weights
    **dict.fromkeys(("channels_in", "channels_out"), "whole ≥ 1, a multiple of groups"),
    "kernel": "whole ≥ 1 per axis",
    "dimensions": "whole ≥ 1",
    "bias": "True or False",
    "rng": "generator",
}

pad_rule = inspect.unwrap(pad)  # pad as it is written: array → (value, vjp)


@primitive
@takes(SHAPES, **OPTIONS | MODE)
def convolution(x, weight, bias=None, *, stride=1, dilation=1, groups=1, padding=0, padding_mode="zeros"):
    """y[b,o,p] = Σ_{c,t} w[o,c,t] x[b,c, s p + d t − a] + β[o], at every place p where the window fits the padded x.

    Shapes: x (B, C, *lengths), weight (O, C/groups, *kernel), bias (O,) or None → y (B, O, *positions), with
    positions = ⌊(length + padding before and after − d (k − 1) − 1)/s⌋ + 1 on each axis. Without a batch, if x has one
    axis less than weight: x (C, *lengths) → y (O, *positions).

    stride, dilation: an integer, or one per axis. groups: equal parts of the channels, each convolved by itself.
    padding: an integer; a list with an integer or a pair (before, after) for each axis; "valid", none; or "same",
    which keeps the length: d (k − 1) in all, half of it on both sides, and if it is odd one more after x than before it
    (as PyTorch, JAX and TensorFlow). padding_mode: "zeros", "circular", "reflect" or "replicate".
    Raises TypeError or ValueError naming the argument that does not fit; ValueError if the kernel is longer than the
    padded x; for "same" if the stride is not 1: there PyTorch refuses too, and JAX and TensorFlow pad so that
    ⌈length/s⌉ positions come out.

    VJP: y is linear in x and in w, so the gradients are the adjoint maps, those of convolution_products.py:

        x̄[b,c,i] = Σ_{o,p,t: s p + d t − a = i} w[o,c,t] ȳ[b,o,p]        the transposed convolution of ȳ
        w̄[o,c,t] = Σ_{b,p} ȳ[b,o,p] x[b,c, s p + d t − a]                β̄[o] = Σ_{b,p} ȳ[b,o,p]

    and for x then the adjoint of the padding.   Elsewhere: JAX and Keras put channels last unless told otherwise.
    """
    x, weight, bias, batch = of_one_type(x, weight, bias)
    kernel, given = weight.shape[2:], (*batch, *x.shape[1:])
    widths = widths_of(padding, padding_mode, x.shape[2:], kernel, stride, dilation)
    if padding_mode != "zeros":
        x, unpad = pad_rule(x, [(0, 0), (0, 0), *widths], mode=padding_mode)
        widths = [(0, 0)] * len(kernel)
    axes = axes_of_convolution(x.shape[2:], kernel, stride, dilation, widths)
    x_groups = by_group(x, groups)  # (B, G, C/G, *lengths)
    w_groups = weight.reshape(groups, -1, *weight.shape[1:])  # (G, O/G, C/G, *kernel)
    y = correlate(x_groups, w_groups, axes, None if bias is None else bias.reshape(groups, -1))

    def vjp(y_bar):
        y_bar = in_order(y_bar).reshape(len(x), len(weight), *y.shape[3:])
        y_groups = by_group(y_bar, groups)  # (B, G, O/G, *positions)

        def x_bar():
            bar = correlate_transposed(y_groups, w_groups, axes).reshape(x.shape)
            return (bar if padding_mode == "zeros" else unpad(bar)[0]).reshape(given)

        return (
            x_bar,
            lambda: weight_products(x_groups, y_groups, axes).reshape(weight.shape),
            lambda: per_channel(y_bar),
        )

    return y.reshape(*batch, len(weight), *y.shape[3:]), vjp


@primitive
@takes(
    "x (B, groups·c, *L ≥ 1) or (groups·c, *L ≥ 1), weight (groups·c, o ≥ 1, *l ≥ 1), bias (groups·o)? "
    "→ (B, groups·o, *P)",
    **OPTIONS | TRANSPOSED,
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

    Where k is not a multiple of s > 1, neighbouring places of y are sums of different numbers of terms, which shows as
    a checkerboard; UNet has an alternative.   Source: Odena, Dumoulin & Olah (2016).
    """
    x, weight, bias, batch = of_one_type(x, weight, bias)
    axes = axes_of_transpose(x.shape[2:], weight.shape[2:], stride, dilation, padding, output_padding)
    x_groups = by_group(x, groups)  # (B, G, C/G, *positions)
    w_groups = weight.reshape(groups, -1, *weight.shape[1:])  # (G, C/G, O/G, *kernel)
    y = correlate_transposed(x_groups, w_groups, axes, None if bias is None else bias.reshape(groups, -1))
    outs = groups * weight.shape[1]

    def vjp(y_bar):
        y_bar = in_order(y_bar).reshape(len(x), outs, *y.shape[3:])
        y_groups = by_group(y_bar, groups)  # (B, G, O/G, *lengths)
        return (
            lambda: correlate(y_groups, w_groups, axes).reshape(*batch, *x.shape[1:]),
            lambda: weight_products(y_groups, x_groups, axes).reshape(weight.shape),
            lambda: per_channel(y_bar),
        )

    return y.reshape(*batch, outs, *y.shape[3:]), vjp


def by_group(x: Array, groups: int) -> Array:
    """(B, C, *lengths) seen as (B, G, C/G, *lengths)."""
    return x.reshape(len(x), groups, x.shape[1] // groups, *x.shape[2:])


def per_channel(y_bar: Array) -> Array:
    """Σ over samples and places, (B, O, *positions) → (O,)."""
    return y_bar.reshape(*y_bar.shape[:2], math.prod(y_bar.shape[2:])).sum(-1).sum(0)


def of_any_rank(options: dict[str, str]) -> dict[str, str]:
    """Options per axis of L as a module has them, which does not know L yet."""
    return {name: text.removesuffix(" of L") for name, text in options.items()}


class Convolution(Module):
    """`convolution` with its own weight (channels_out, channels_in/groups, *kernel) and bias (channels_out,).

    kernel: a length for all `dimensions`, or a tuple with one length for each. bias: with False there is none.
    stride, dilation: an integer, or one per axis. groups: equal parts of the channels, each convolved by itself.
    padding: an integer; a list with an integer or a pair (before, after) for each axis; "valid", none; or "same", which
    keeps the length, for an even kernel with one place more after x than before it. padding_mode: "zeros", "circular",
    "reflect" or "replicate". x may come without a batch.
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

    def __call__(self, x: ArrayLike) -> Array | Tensor:
        return convolution(x, self.weight, self.bias, **self.options)


class ConvolutionTranspose(Module):
    """`convolution_transpose` with its own weight (channels_in, channels_out/groups, *kernel) and bias (channels_out,).

    kernel: a length for all `dimensions`, or a tuple with one length for each. bias: with False there is none.
    stride, dilation: an integer, or one per axis. groups: equal parts of the channels, each convolved by itself.
    padding: an integer, or a list with an integer or a pair (before, after) for each axis, by which the result is
    shorter. output_padding: an integer, or one per axis, by which it is longer at its end,
    below the stride or the dilation. x may come without a batch.
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

    def __call__(self, x: ArrayLike) -> Array | Tensor:
        return convolution_transpose(x, self.weight, self.bias, **self.options)


# Below: arrays of one type, and axes.


def of_one_type(x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None) -> tuple:
    """x, weight and bias as floats of one type, x with a batch, of 1 if there is none, and the shape of the batch."""
    given = [None if a is None else floating(a) for a in (x, weight, bias)]
    dtype = np.result_type(*(a for a in given if a is not None))
    arrays: Any = [None if a is None else np.asarray(a, dtype, order="C") for a in given]
    signals, maps, _ = arrays
    batch = signals.shape[: signals.ndim - maps.ndim + 1]
    return signals if batch else signals[None], *arrays[1:], batch


def widths_of(padding: Any, mode: str, lengths: Whole, kernel: Whole, stride: Whole, dilation: Whole) -> Any:
    """The pair (before, after) of each axis; ValueError where the mode does not find its elements in x."""
    widths = padding
    if padding == "valid":
        widths = ((0, 0),) * len(kernel)
    if padding == "same":
        if any(s != 1 for s in stride):
            raise ValueError(
                f"convolution: padding 'same' needs stride 1, stride is {stride}; pass the padding as numbers"
            )
        reach = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        widths = [(r // 2, r - r // 2) for r in reach]
    for n, width in zip(lengths, widths, strict=True) if mode != "zeros" else ():
        most = {"circular": n, "reflect": n - 1, "replicate": max(width) if n else 0}[mode]
        if max(width) > max(most, 0):
            raise ValueError(
                f"convolution: {mode} padding {width} takes more than an axis of length {n} has; at most {max(most, 0)}"
            )
    return widths


def axes_of_convolution(
    lengths: Whole, kernel: Whole, stride: Whole, dilation: Whole, widths: Any, name: str = "convolution"
) -> Axes:
    """Axes with as many windows as fit the padded lengths; ValueError where not even one does."""
    axes, what = [], "size" if name.endswith("pool") else "the kernel"
    for n, k, s, d, (before, after) in zip(lengths, kernel, stride, dilation, widths, strict=True):
        reach = d * (k - 1) + 1
        if reach > n + before + after:
            raise ValueError(
                f"{name}: {what} {kernel} with dilation {dilation} reaches over {reach} places, but x has lengths "
                f"{lengths}, {n + before + after} there with padding; pad more, or use a shorter kernel"
            )
        axes.append(Axis(n, (n + before + after - reach) // s + 1, k, s, d, before))
    return tuple(axes)


def axes_of_transpose(
    positions: Whole, kernel: Whole, stride: Whole, dilation: Whole, padding: Sequence, output_padding: Whole
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
                f"convolution_transpose: x with places {positions}, kernel {kernel} and padding {padding} leave an "
                f"axis of length {length}; pad less, or pass a longer x"
            )
        axes.append(Axis(length, p, k, s, d, before))
    return tuple(axes)
