"""Convolutions, their transposes, pooling, and the networks made of them."""

from __future__ import annotations

import numpy as np

from refnp.layers.activations import silu
from refnp.layers.convolutions import convolution, convolution_transpose
from refnp.layers.pooling import average_pool, max_pool, upsample
from refnp.layers.unet import SimpleCNN, UNet
from refnp.verify.operations.operation import Operation
from refnp.verify.operations.rows import with_parameters


def operations(rng: np.random.Generator) -> list[Operation]:
    """Every option in one, two or three dimensions."""
    return _convolutions(rng) + _transposes(rng) + _pools(rng) + _networks(rng)


def _convolutions(rng):
    line, image, volume = (rng.normal(size=(2, 4, *space)) for space in ((7,), (5, 6), (3, 4, 3)))
    along, flat, solid = (rng.normal(size=(6, 2, *kernel)) for kernel in ((3,), (3, 2), (2, 3, 2)))
    whole, bias = rng.normal(size=(6, 4, 3)), rng.normal(size=6)
    return [
        Operation("convolution", convolution, (line, whole, bias)),
        Operation("convolution, same", lambda *a: convolution(*a, padding="same"), (line, whole, bias)),
        *(
            Operation(
                f"convolution, {mode}", lambda *a, m=mode: convolution(*a, padding=2, padding_mode=m), (line, whole)
            )
            for mode in ("circular", "reflect", "replicate")
        ),
        Operation(
            "convolution, 1-D, all options",
            lambda *a: convolution(*a, stride=2, dilation=2, groups=2, padding=[(1, 3)]),
            (line, along, bias),
        ),
        Operation(
            "convolution, 2-D, all options",
            lambda *a: convolution(*a, stride=(2, 3), dilation=(1, 2), groups=2, padding=(1, 2)),
            (image, flat, bias),
        ),
        Operation(
            "convolution, 3-D", lambda *a: convolution(*a, groups=2, padding=1, stride=(1, 2, 3)), (volume, solid, bias)
        ),
    ]


def _transposes(rng):
    line, image = rng.normal(size=(2, 4, 4)), rng.normal(size=(2, 4, 2, 3))
    along, flat, bias = rng.normal(size=(4, 3, 5)), rng.normal(size=(4, 3, 3, 2)), rng.normal(size=6)
    return [
        Operation(
            "convolution_transpose",
            lambda *a: convolution_transpose(*a, stride=2, padding=2, output_padding=1),
            (line, along, bias[:3]),
        ),
        Operation(
            "convolution_transpose, 2-D, all options",
            lambda *a: convolution_transpose(
                *a, stride=(2, 3), dilation=(3, 2), groups=2, padding=1, output_padding=(1, 2)
            ),
            (image, flat, bias),
        ),
    ]


def _pools(rng):
    x = rng.permutation(2 * 2 * 5 * 6).reshape(2, 2, 5, 6) / 7 - 8.0  # no two alike
    return [
        Operation("average_pool", lambda x: average_pool(x, 2), (x,), order2=False),
        Operation("average_pool, padded", lambda x: average_pool(x, 3, stride=2, padding=1), (x,), order2=False),
        Operation("max_pool", lambda x: max_pool(x, 2), (x,), order2=False),
        Operation("max_pool, padded", lambda x: max_pool(x, 3, stride=2, padding=1), (x,), order2=False),
        Operation("upsample", lambda x: upsample(x, (2, 3)), (x,), order2=False),
    ]


def _networks(rng):
    cnn = SimpleCNN((2, 3, 2), kernel=3, activation=silu, rng=rng)
    unets = {
        name: UNet(2, (3, 4), kernel=3, upsampling=name, channels_out=1, activation=silu, rng=rng)
        for name in ("transposed", "nearest")
    }
    line = rng.normal(size=(2, 2, 8))
    return [
        Operation("SimpleCNN", with_parameters(cnn), (line, cnn.state_dict())),
        *(Operation(f"UNet, {name}", with_parameters(u), (line, u.state_dict())) for name, u in unets.items()),
    ]
