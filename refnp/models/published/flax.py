"""Weights from flax: parameters of linen's and nnx's modules under refnp's names, and back. flax is not needed.

    published.flax.load(attention, variables["params"])               linen: module.init(key, x)
    published.flax.load(attention, nnx.state(module, nnx.Param))      nnx
    variables = {"params": published.flax.save(attention)}
    nnx.update(module, nnx.restore_int_paths(published.flax.save(attention)))

    flax.linen, flax.nnx                               refnp                 arrays there
    Dense, Linear                                      Linear                kernel (in, out), bias
    LayerNorm, RMSNorm, GroupNorm                      the same              scale, bias
    BatchNorm                                          BatchNorm             scale, bias, mean, var
    Embed                                              Embedding             embedding
    Conv                                               Convolution           kernel (*lengths, in/groups, out), bias
    ConvTranspose                                      ConvolutionTranspose  kernel (*lengths, in, out), from its end
    MultiHeadDotProductAttention, MultiHeadAttention   MultiHeadAttention    query, key, value: kernel (in, heads, d),
                                                                             bias (heads, d); out: (heads, d_v, out)

Other modules have refnp's names, as they have in nnx, whose names are attributes; an MLP's maps are Dense_0, Dense_1, …
with `linen`. For other names there: `NAMES.extended("my model", parts={Encoder: {"layers.*": "encoderblock_*"}})`.

What no parameters say must be right as well: LayerNorm's ε is 1e-6 there, `eps=1e-6` here; gelu is the tanh form;
signals and images are channels last, padding of Conv is "SAME". ConvTranspose has transpose_kernel=False, so that its
kernel stands the other way round.
linen keeps mean and var of BatchNorm under "batch_stats": give both as one mapping; momentum there is 1 minus ours.
Source: flax 0.12, flax/linen and flax/nnx.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from refnp.autograd.tensor import Parameter
from refnp.layers.convolution import Convolution, ConvolutionTranspose
from refnp.layers.group_norm import BatchNorm, GroupNorm
from refnp.layers.layer_norm import LayerNorm, RMSNorm
from refnp.layers.linear import MLP, Embedding, Linear
from refnp.layers.module import Module
from refnp.layers.multi_head import MultiHeadAttention
from refnp.models.published import torch
from refnp.models.published.renaming import Entry, Names, same


def of_linear(module: Linear) -> list[Entry]:
    """Of Dense and Linear, which keep W as it is here."""
    return same("kernel", module.weight) + same("bias", module.bias)


def of_norm(module: Any) -> list[Entry]:
    """Of LayerNorm, RMSNorm and GroupNorm."""
    return torch.of_norm(module, "scale")


def of_batch_norm(module: BatchNorm) -> list[Entry]:
    """Of BatchNorm, the running statistics included."""
    return [*of_norm(module), *same("mean", module.running_mean), *same("var", module.running_variance)]


def of_embedding(module: Embedding) -> list[Entry]:
    """Of Embed."""
    return same("embedding", module.weight)


def of_convolution(module: Convolution) -> list[Entry]:
    """Of Conv: channels last."""
    kernel = Entry("kernel", (module.weight,), channels_last, lambda a: (channels_first(a),))
    return [kernel, *same("bias", module.bias)]


def of_transpose(module: ConvolutionTranspose) -> list[Entry]:
    """Of ConvTranspose: channels last, those of the input before those of the output, each axis from its end."""
    if module.options["groups"] != 1:
        raise ValueError(f"published.flax: ConvTranspose has one group, not {module.options['groups']}")
    join = lambda a: turned(channels_last(a.swapaxes(0, 1)))
    split = lambda a: (channels_first(turned(a)).swapaxes(0, 1),)
    return [Entry("kernel", (module.weight,), join, split), *same("bias", module.bias)]


def channels_last(weight: np.ndarray) -> np.ndarray:
    """(out, in, *lengths) → (*lengths, in, out)."""
    return np.moveaxis(weight, (1, 0), (-2, -1))


def channels_first(kernel: np.ndarray) -> np.ndarray:
    """(*lengths, in, out) → (out, in, *lengths)."""
    return np.moveaxis(kernel, (-2, -1), (1, 0))


def turned(kernel: np.ndarray) -> np.ndarray:
    """(*lengths, in, out) with every axis of lengths from its end."""
    return np.flip(kernel, tuple(range(kernel.ndim - 2)))


def of_attention(module: MultiHeadAttention) -> list[Entry]:
    """Of MultiHeadDotProductAttention and MultiHeadAttention: an axis for the heads."""
    torch.check_maps("published.flax", module)
    maps = {"query": module.query, "key": module.key, "value": module.value}
    found = []
    for name, own in maps.items():
        heads = module.heads if name == "query" else module.key_heads
        found += with_heads(f"{name}.kernel", own.weight, (own.weight.shape[0], heads, -1))
        found += with_heads(f"{name}.bias", own.bias, (heads, -1))
    output = module.output
    found += with_heads("out.kernel", output.weight, (module.heads, -1, output.weight.shape[1]))
    return found + same("out.bias", output.bias)


def with_heads(name: str, parameter: Parameter | None, shape: tuple[int, ...]) -> list[Entry]:
    """The array there has a shape of its own."""
    if parameter is None:
        return []
    own = parameter.shape
    return [Entry(name, (parameter,), lambda a: a.reshape(shape), lambda a: (a.reshape(own),))]


NAMES = Names(
    "published.flax",
    layouts={
        Linear: of_linear,
        **dict.fromkeys((LayerNorm, RMSNorm, GroupNorm), of_norm),
        BatchNorm: of_batch_norm,
        Embedding: of_embedding,
        Convolution: of_convolution,
        ConvolutionTranspose: of_transpose,
        MultiHeadAttention: of_attention,
    },
    parts={},
    nested=True,
)
LINEN = NAMES.extended("published.flax, linen", parts={MLP: {"layers.*": "Dense_*"}})


def load(model: Module, state: Mapping[Any, Any], *, linen: bool = False) -> None:
    """Set every parameter of a model from flax's, mappings of mappings of arrays or variables; all of them, or none.

    `state` is what stands under "params", or has that name alone. `linen`: the maps of an MLP are Dense_0, Dense_1, …
    Raises ValueError that lists the names that are missing, left over or misshapen.
    """
    if list(state) == ["params"]:
        state = state["params"]
    (LINEN if linen else NAMES).load(model, state)


def save(model: Module, *, linen: bool = False) -> dict[str, Any]:
    """The parameters of a model as flax names them and lays them out, copies, in mappings of mappings."""
    return (LINEN if linen else NAMES).save(model)
