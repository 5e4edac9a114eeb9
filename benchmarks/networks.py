"""The CNN and the U-Net of a ConvCNP, once, and the functions that each framework gives to them.

CNN      channels 8-16-32-16-8, kernel 5, ReLU between                               (SimpleConv of Gordon et al.)
U-Net    six convolutions of stride 2, channels 8-8-16-16-32-32-64, and six transposed ones back to 8. After the
         first of them, each also takes the features of its length on the way down           (UNet of Gordon et al.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

KERNEL = 5
CNN = ((8, 16), (16, 32), (32, 16), (16, 8))  # channels in and out
DOWN = ((8, 8), (8, 16), (16, 16), (16, 32), (32, 32), (32, 64))
UP = ((64, 32), (64, 32), (64, 16), (32, 16), (32, 8), (16, 8))


def absent(*arguments: Any) -> Any:
    """Stands for what a framework lacks."""
    raise TypeError("this framework has no such function")


@dataclass(frozen=True)
class Functions:
    """`conv(x, weight, bias, stride)` keeps the length or divides it, weight (O, C, *kernel); `up(x, weight, bias)`
    doubles it, weight (C, O, k); `join` puts two arrays together along their channels."""

    conv: Callable
    relu: Callable
    mean: Callable
    up: Callable = absent
    join: Callable = absent


def cnn_weights(rng: np.random.Generator) -> dict[str, np.ndarray]:
    weights: dict[str, np.ndarray] = {}
    for i, (ins, outs) in enumerate(CNN):
        weights |= drawn(rng, f"{i}", ins, outs, (outs, ins, KERNEL))
    return weights


def unet_weights(rng: np.random.Generator) -> dict[str, np.ndarray]:
    weights: dict[str, np.ndarray] = {}
    for i, (ins, outs) in enumerate(DOWN):
        weights |= drawn(rng, f"down{i}", ins, outs, (outs, ins, KERNEL))
    for i, (ins, outs) in enumerate(UP):
        weights |= drawn(rng, f"up{i}", ins, outs, (ins, outs, KERNEL))
    return weights


def drawn(rng: np.random.Generator, name: str, ins: int, outs: int, shape: tuple) -> dict[str, np.ndarray]:
    bound = (ins * KERNEL) ** -0.5
    return {name: rng.uniform(-bound, bound, shape), name + ".bias": rng.uniform(-bound, bound, outs)}


def cnn(f: Functions, w: dict, x: Any) -> Any:
    """x (B, 8, L) → (B, 8, L)."""
    for i in range(len(CNN)):
        x = f.conv(x, w[f"{i}"], w[f"{i}.bias"], 1)
        x = f.relu(x) if i + 1 < len(CNN) else x
    return x


def unet(f: Functions, w: dict, x: Any) -> Any:
    """x (B, 8, L) → (B, 8, L), L a multiple of 64."""
    seen = []
    for i in range(len(DOWN)):
        x = f.relu(f.conv(x, w[f"down{i}"], w[f"down{i}.bias"], 2))
        seen.append(x)
    for i in range(len(UP)):
        x = f.up(f.join(x, seen[-1 - i]) if i else x, w[f"up{i}"], w[f"up{i}.bias"])
        x = f.relu(x) if i + 1 < len(UP) else x
    return x


def refnp_functions() -> Functions:
    from refnp.autograd import concatenate, mean
    from refnp.layers.activation import relu
    from refnp.layers.convolution import convolution, convolution_transpose

    return Functions(
        conv=lambda x, w, b, stride: convolution(x, w, b, stride=stride, padding=w.shape[-1] // 2),
        up=lambda x, w, b: convolution_transpose(x, w, b, stride=2, padding=2, output_padding=1),
        relu=relu,
        join=lambda x, y: concatenate([x, y], axis=1),
        mean=mean,
    )


def torch_functions() -> Functions:
    import torch
    from torch.nn import functional as F

    def conv(x, w, b, stride):
        convolve = F.conv1d if x.ndim == 3 else F.conv2d
        return convolve(x, w, b, stride=stride, padding=w.shape[-1] // 2)

    return Functions(
        conv=conv,
        up=lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2, padding=2, output_padding=1),
        relu=F.relu,
        join=lambda x, y: torch.cat([x, y], 1),
        mean=torch.mean,
    )


def jax_functions() -> Functions:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def conv(x, w, b, stride):
        spaces = x.ndim - 2
        half = w.shape[-1] // 2
        y = lax.conv_general_dilated(x, w, (stride,) * spaces, [(half, half)] * spaces)
        return y + b.reshape(-1, *[1] * spaces)

    def up(x, w, b):  # kernel 5, stride 2: zeros between the places, and the kernel turned round
        w = jnp.flip(w, 2).swapaxes(0, 1)
        return lax.conv_general_dilated(x, w, (1,), [(2, 3)], lhs_dilation=(2,)) + b[:, None]

    return Functions(conv=conv, up=up, relu=jax.nn.relu, join=lambda x, y: jnp.concatenate([x, y], 1), mean=jnp.mean)


def autograd_functions() -> Functions:
    import autograd.numpy as anp
    from autograd.scipy.signal import convolve

    def conv(x, w, b, stride):  # a true convolution: the kernel is turned round first
        assert stride == 1
        half = w.shape[-1] // 2
        padded = anp.pad(x, ((0, 0), (0, 0), (half, half)), "constant")
        return convolve(padded, w[:, :, ::-1], axes=([2], [2]), dot_axes=([1], [1]), mode="valid") + b[:, None]

    return Functions(conv=conv, relu=lambda x: anp.maximum(x, 0), mean=anp.mean)


def mygrad_functions() -> Functions:
    import mygrad
    from mygrad.nnet.layers import conv_nd

    def conv(x, w, b, stride):
        y = conv_nd(x, w, stride=stride, padding=w.shape[-1] // 2)
        return y + b.reshape(-1, *[1] * (x.ndim - 2))

    return Functions(conv=conv, relu=lambda x: mygrad.maximum(x, 0), mean=mygrad.mean)


FUNCTIONS = {
    "refnp": refnp_functions,
    "torch": torch_functions,
    "jax": jax_functions,
    "autograd": autograd_functions,
    "mygrad": mygrad_functions,
}
