"""A U-Net that halves the length by a mean where a stride would take places off centre.

Source: neuralprocesses 0.2.7, coders/nn.py; Ronneberger, Fischer & Brox (2015), arXiv 1505.04597.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np

from refnp.autograd import concatenate
from refnp.autograd.declaration import takes
from refnp.autograd.tensor import Array, Tensor
from refnp.layers.activation import relu
from refnp.layers.convolution import Convolution
from refnp.layers.module import Module
from refnp.layers.pooling import average_pool
from refnp.layers.unet import UPSAMPLING, step_up
from refnp.layers.upsampling import upsample
from refnp.numbers.windows import Whole


class PooledUNet(Module):
    """The U-Net of neuralprocesses, which halves the length by a mean where a stride would take places off centre.

        down:  h_i = relu(pool(conv(h_{i−1}))) or relu(conv with stride 1 or 2)    h_0 = x
        up:    g_n = relu(up(h_n)),  g_i = relu(up([h_i, g_{i+1}]))                x is not joined
        y = W g_1 + b                                                             at every place

    Let ρ be 1 in x, k − 1 more after a convolution, and half of it, rounded up, after halving: how many places a number
    depends on, as far apart as its own. If odd, it stands on the middle one, and halving takes the mean of neighbours,
    which belongs between them; if even, it stands there already, and a stride takes every second. `UNet` only strides.

    Shapes: x (B, channels_in, *lengths) → y (B, channels_out, *lengths), lengths multiples of `total_stride`.
    channels: of the layers, one down and one up for each. kernel: odd, one for all layers or one for each; strides: 1
    or 2, likewise. upsampling: "transposed", transposed convolutions, or "nearest", copies and then a convolution.
    Raises TypeError or ValueError for options that do not fit; lengths that do not may give a shorter y or an error.
    """

    @takes(
        "",
        **dict.fromkeys(("channels_in", "channels_out", "dimensions"), "whole ≥ 1"),
        channels="whole ≥ 1, 1 or more",
        kernel="odd per layer of channels",
        strides="1 or 2 per layer of channels",
        upsampling=UPSAMPLING,
        rng="generator",
    )
    def __init__(
        self,
        channels_in: int,
        channels: Sequence[int],
        channels_out: int,
        *,
        kernel: int | Sequence[int] = 5,
        strides: int | Sequence[int] = 2,
        dimensions: int = 1,
        upsampling: str = "transposed",
        rng: np.random.Generator,
    ):
        kernels, self.strides = cast(Whole, kernel), cast(Whole, strides)
        self.upsampling, self.channels_out = upsampling, channels_out
        self.pooled = pooled_steps(kernels, self.strides)
        into = (channels_in, *channels[:-1])
        self.down = [
            Convolution(c, o, k, dimensions=dimensions, stride=1 if pool else s, padding=k // 2, rng=rng)
            for c, o, k, s, pool in zip(into, channels, kernels, self.strides, self.pooled, strict=True)
        ]
        doubled = (*(2 * c for c in channels[:-1]), channels[-1])  # all but the last step down are joined
        out_of = (channels[0], *channels[:-1])
        self.up = [
            step_up(c, o, k, s, dimensions, s > 1 and upsampling == "transposed", rng)
            for c, o, k, s in zip(doubled, out_of, kernels, self.strides, strict=True)
        ]
        self.last = Convolution(channels[0], channels_out, 1, dimensions=dimensions, rng=rng)

    @property
    def total_stride(self) -> int:
        """By how much the coarsest grid is coarser."""
        return 2 ** sum(s == 2 for s in self.strides)

    def __call__(self, x: Array | Tensor) -> Array | Tensor:
        skips = []
        for step, pool in zip(self.down, self.pooled, strict=True):
            x = step(x)
            x = relu(average_pool(x, 2) if pool else x)
            skips.append(x)
        for i in reversed(range(len(self.up))):
            joined = skips[i] if i == len(self.up) - 1 else concatenate([skips[i], x], axis=1)
            repeat = self.strides[i] == 2 and self.upsampling == "nearest"
            x = relu(self.up[i](upsample(joined, 2) if repeat else joined))
        return self.last(x)


def pooled_steps(kernels: Sequence[int], strides: Sequence[int]) -> tuple[bool, ...]:
    """Which steps down take a mean: those of stride 2 before which the length ρ is odd."""
    length, pooled = 1, []
    for k, s in zip(kernels, strides, strict=True):
        pooled.append(s == 2 and length % 2 == 1)
        length += k - 1
        if s == 2:
            length = (length + 1) // 2
    return tuple(pooled)
