"""Convolutional networks on a grid: a plain stack, and a U-Net, whose coarser grids reach far in a few layers.

    down:  h₀ = x,   h_i = φ(conv_i(h_{i−1}))                       each step divides the length by its stride
    up:    g₀ = h_n,  g_j = [h_{n−j}, φ(up_j(g_{j−1}))]              each step multiplies it again; [ , ] joins channels

Every step up is joined with what came down to the same length, the input last: nothing fine is lost on the way.
Between edges, shifting the input by the product of the strides, `total_stride`, shifts the output by as much; by
other shifts it does not. ConvCNP must anchor its grid accordingly.

Source: Ronneberger, Fischer & Brox (2015), arXiv 1505.04597; Sivaraya (2023) §4.2-4.3; sizes: Gordon et al. (2020),
arXiv 1910.13556, app. C.   Another U-Net: refnp/layers/pooled_unet.py.
Transcription: tests/transcriptions/convcnp.py.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from refnp.autograd import concatenate
from refnp.autograd.declaration import takes
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, Tensor
from refnp.layers.activation import relu
from refnp.layers.convolution import MODE, Convolution, ConvolutionTranspose
from refnp.layers.module import Module
from refnp.layers.upsampling import upsample
from refnp.numbers.windows import Whole

UPSAMPLING = "transposed | nearest"


class SimpleCNN(Module):
    """Convolutions with padding "same" from channels[0] through channels[1] … to the last, an activation between them.

    Shapes: x (B, channels[0], *lengths) → y (B, channels[-1], *lengths). Gordon et al.: (8, 16, 32, 16, 8), kernel 5.
    Raises TypeError unless sizes are integers, ValueError for fewer than two channels, an even kernel, another padding.
    """

    total_stride = 1

    @takes(
        "",
        channels="whole ≥ 1, 2 or more",
        kernel="odd",
        dimensions="whole ≥ 1",
        activation="function",
        padding_mode=MODE["padding_mode"],
        rng="generator",
    )
    def __init__(
        self,
        channels: Sequence[int],
        *,
        kernel: int = 5,
        dimensions: int = 1,
        activation: Callable = relu,
        padding_mode: str = "zeros",
        rng: np.random.Generator,
    ):
        self.layers = [
            Convolution(c, o, kernel, dimensions=dimensions, padding="same", padding_mode=padding_mode, rng=rng)
            for c, o in itertools.pairwise(channels)
        ]
        self.channels_out = channels[-1]
        self.kernel, self.activation = kernel, activation

    @property
    def receptive_field(self) -> int:
        """Length of the stretch of input that one output depends on."""
        return len(self.layers) * (self.kernel - 1) + 1

    def __call__(self, x: Array | Tensor) -> Array | Tensor:
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)


class UNet(Module):
    """A U-Net with a strided convolution for every number in `down`, and as many steps `up`.

    Shapes: x (B, channels_in, *lengths) → y (B, C, *lengths), C = up[-1] + channels_in, the last step joined with the
    input; or C = channels_out if given, by one more convolution, with kernel 1 and no activation.

    down: channels after each step. up: likewise, (…, down[1], down[0], down[0]) unless given. kernel, stride: a whole
    number, or one for each step down; steps up use the same, in reverse order.
    upsampling: "transposed" for transposed convolutions, which can leave checkerboards where the kernel is no multiple
    of the stride; "nearest" repeats every number and then convolves with padding "same" (kernel odd), which does not.
    The U-Net of ConvCNP-XL (Gordon et al.) is UNet(8, (8, 16, 16, 32, 32, 64)): 50 520 parameters, total stride 64.

    Raises TypeError unless sizes are integers, ValueError where they do not fit; when called, for lengths that are 0 or
    that `total_stride` does not divide.
    """

    @takes(
        "",
        channels_in="whole ≥ 1",
        down="whole ≥ 1, 1 or more",
        up="whole ≥ 1 per step of down?",
        **dict.fromkeys(("kernel", "stride"), "whole ≥ 1 per step of down"),
        dimensions="whole ≥ 1",
        upsampling=UPSAMPLING,
        channels_out="whole ≥ 1?",
        activation="function",
        rng="generator",
    )
    def __init__(
        self,
        channels_in: int,
        down: Sequence[int],
        up: Sequence[int] | None = None,
        *,
        kernel: int | Sequence[int] = 5,
        stride: int | Sequence[int] = 2,
        dimensions: int = 1,
        upsampling: str = "transposed",
        channels_out: int | None = None,
        activation: Callable = relu,
        rng: np.random.Generator,
    ):
        up = (*down[-2::-1], *down[:1]) if up is None else up
        self.channels_in, self.dimensions = channels_in, dimensions
        self.upsampling, self.activation = upsampling, activation
        self.kernels, self.strides = cast(Whole, kernel), cast(Whole, stride)
        for k, s in zip(self.kernels, self.strides, strict=True):
            _check_step(k, s, upsampling)

        sources = (channels_in, *down)
        steps = list(zip(sources[:-1], down, self.kernels, self.strides, strict=True))
        self.down = [
            Convolution(c, o, k, dimensions=dimensions, stride=s, padding=_margin(k, s), rng=rng)
            for c, o, k, s in steps
        ]
        self.up: list[Module] = []
        channels = down[-1]
        for (skip, _, k, s), o in zip(reversed(steps), up, strict=True):
            self.up.append(step_up(channels, o, k, s, dimensions, upsampling == "transposed", rng))
            channels = o + skip
        self.last, self.channels_out = None, channels
        if channels_out is not None:
            self.last = Convolution(channels, channels_out, 1, dimensions=dimensions, rng=rng)
            self.channels_out = channels_out

    @property
    def total_stride(self) -> int:
        """By how much the coarsest grid is coarser; lengths must be multiples of it."""
        return math.prod(self.strides)

    @property
    def receptive_field(self) -> int:
        """Length, along an axis, of the stretch of input that an output depends on, the longest of all outputs.

        Found by following the ends of the stretch back through the steps, for each place modulo total_stride.
        """
        return max(last - first + 1 for first, last in map(self._stretch, range(self.total_stride)))

    def _stretch(self, place: int) -> tuple[int, int]:
        first = last = place
        for k, s in zip(self.kernels, self.strides, strict=True):  # up, from the finest step to the coarsest
            if self.upsampling == "nearest":
                first, last = (first - k // 2) // s, (last + k // 2) // s
            else:  # from the places p with 0 ≤ i + a − s p < k
                first, last = -((k - 1 - first - _margin(k, s)) // s), (last + _margin(k, s)) // s
        for k, s in zip(reversed(self.kernels), reversed(self.strides), strict=True):  # down, from the coarsest
            first, last = first * s - _margin(k, s), last * s - _margin(k, s) + k - 1
        return min(first, place), max(last, place)

    @takes("x (B, channels_in, *L) → (B, C, *L)")
    def __call__(self, x: Array | Tensor) -> Array | Tensor:
        self._check_input(np.shape(raw(x)))
        skips = []
        for step in self.down:
            skips.append(x)
            x = self.activation(step(x))
        for layer, s in zip(self.up, reversed(self.strides), strict=True):
            x = layer(upsample(x, s) if self.upsampling == "nearest" else x)
            x = concatenate([skips.pop(), self.activation(x)], axis=1)
        return x if self.last is None else self.last(x)

    def _check_input(self, shape: tuple[int, ...]) -> None:
        total = self.total_stride
        if len(shape) != self.dimensions + 2:
            raise ValueError(f"UNet: x has shape {shape}; it must be (B, C, *lengths), {self.dimensions} of them")
        if any(n % total or not n for n in shape[2:]):
            longer = tuple(max(1, -(-n // total)) * total for n in shape[2:])
            raise ValueError(
                f"UNet: x has lengths {shape[2:]}, not multiples of total_stride {total}; pad it to {longer}"
            )


def step_up(c: int, o: int, k: int, s: int, dimensions: int, transposed: bool, rng: np.random.Generator) -> Module:
    """From c to o channels, n places becoming n s; or if not `transposed` a convolution that keeps the length."""
    if not transposed:
        return Convolution(c, o, k, dimensions=dimensions, padding="same", rng=rng)
    a = _margin(k, s)
    extra = s + 2 * a - k
    return ConvolutionTranspose(c, o, k, dimensions=dimensions, stride=s, padding=a, output_padding=extra, rng=rng)


def _margin(k: int, s: int) -> int:
    """Padding by which a convolution with kernel k ≥ s and stride s turns n s places into n."""
    return -(-(k - s) // 2)


def _check_step(k: int, s: int, upsampling: str) -> None:
    if k < s:
        raise ValueError(
            f"UNet: kernel {k} is shorter than stride {s}, which skips places; pass a kernel of at least {s}"
        )
    if k % 2 == 0 and (s == 1 or upsampling == "nearest"):
        raise ValueError(f"UNet: kernel {k} with stride {s} and {upsampling} upsampling must be odd; pass {k + 1}")
