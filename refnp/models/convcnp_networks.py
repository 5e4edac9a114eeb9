"""The U-Net of neuralprocesses, which halves the length by a mean where a stride would look at places off centre.

    down:  h_i = relu(pool(conv(h_{i−1}))) or relu(conv with stride 2)         h_0 = x
    up:    g_n = relu(up(h_n)),  g_i = relu(up([h_i, g_{i+1}]))                [ , ] joins channels; x is not joined
    y = W g_1 + b                                                             at every place

Let ρ be the length of what a number has seen so far. If it is odd, the number has a place, the middle one, and halving
takes the mean of two neighbours, which belongs half way between them; if even, it already lies between two places, and
a stride takes every second. `UNet` of refnp/layers/unet.py, after Gordon et al., takes strides only, and joins x.

Source: Bruinsma, github.com/wesselb/neuralprocesses 0.2.7, coders/nn.py; that package has weights of published models.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from refnp.autograd import concatenate
from refnp.layers.activations import relu
from refnp.layers.convolution import Convolution, ConvolutionTranspose
from refnp.layers.module import Module
from refnp.layers.pooling import average_pool, upsample
from refnp.layers.unet import SimpleCNN, UNet


class PooledUNet(Module):
    """The U-Net above, with a layer down and one up for each of `channels`.

    Shapes: x (B, channels_in, *lengths) → y (B, channels_out, *lengths), lengths multiples of `total_stride`.
    kernel: odd, one for all layers or one for each; strides: 1 or 2, likewise. upsampling: "transposed" or "nearest".
    Raises ValueError for options that do not fit; the convolutions do for lengths that do not.
    """

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
        channels = tuple(channels)
        kernels = _for_each("kernel", kernel, len(channels))
        self.strides = _for_each("strides", strides, len(channels))
        if not channels or any(k % 2 == 0 for k in kernels) or any(s not in (1, 2) for s in self.strides):
            raise ValueError(
                f"PooledUNet: channels {channels}, kernel {kernels} and strides {self.strides} do not fit; there must "
                "be a layer, kernels must be odd, strides 1 or 2"
            )
        if upsampling not in ("transposed", "nearest"):
            raise ValueError(f"PooledUNet: upsampling {upsampling!r} is unknown; use 'transposed' or 'nearest'")
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
            self._step_up(c, o, k, s, dimensions, rng)
            for c, o, k, s in zip(doubled, out_of, kernels, self.strides, strict=True)
        ]
        self.last = Convolution(channels[0], channels_out, 1, dimensions=dimensions, rng=rng)

    def _step_up(self, c: int, o: int, k: int, s: int, dimensions: int, rng: np.random.Generator) -> Module:
        if s == 1 or self.upsampling == "nearest":
            return Convolution(c, o, k, dimensions=dimensions, padding="same", rng=rng)
        return ConvolutionTranspose(c, o, k, dimensions=dimensions, stride=2, padding=k // 2, output_padding=1, rng=rng)

    @property
    def total_stride(self) -> int:
        """By how much the coarsest grid is coarser."""
        return 2 ** sum(s == 2 for s in self.strides)

    def __call__(self, x):
        seen = []
        for step, pool in zip(self.down, self.pooled, strict=True):
            x = step(x)
            x = relu(average_pool(x, 2) if pool else x)
            seen.append(x)
        for i in reversed(range(len(self.up))):
            joined = seen[i] if i == len(self.up) - 1 else concatenate([seen[i], x], axis=1)
            repeat = self.strides[i] == 2 and self.upsampling == "nearest"
            x = relu(self.up[i](upsample(joined, 2) if repeat else joined))
        return self.last(x)


def pooled_steps(kernels: Sequence[int], strides: Sequence[int]) -> tuple[bool, ...]:
    """Which steps down take a mean: those of stride 2 after which the length ρ that was seen before is odd."""
    seen, pooled = 1, []
    for k, s in zip(kernels, strides, strict=True):
        pooled.append(s == 2 and seen % 2 == 1)
        seen += k - 1
        if s == 2:
            seen = (seen + 1) // 2
    return tuple(pooled)


def _for_each(name: str, value: int | Sequence[int], count: int) -> tuple[int, ...]:
    values = (value,) * count if isinstance(value, (int, np.integer)) else tuple(value)
    if len(values) != count:
        raise ValueError(f"PooledUNet: {name} is {values}; it must be one number or {count}, one for each layer")
    return values


Network = SimpleCNN | UNet | PooledUNet  # or anything that keeps lengths and says its `total_stride` and `channels_out`
