"""Cases of the Transformer: encoder layer, decoder layer, and both as stacks, with all their parameters' gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from refnp.layers.activations import gelu, relu
from refnp.layers.masks import causal, key_padding
from refnp.layers.module import Module
from refnp.models.transformer import Decoder, Encoder, EncoderDecoder
from refnp.models.transformer_layers import DecoderLayer, EncoderLayer
from refnp.verify.case import Case, Layer, normal
from refnp.verify.equations import transformer as equations

FEATURES, HEADS, HIDDEN = 6, 2, 8
SCALE = 0.2  # of parameters: worst-case bounds grow a hundredfold a layer, with 0.5 ten times faster
ACTIVATIONS: dict[str, Callable] = {"relu": relu, "gelu": gelu}


def new_encoder_layer(norm: str = "post", activation: str = "relu") -> EncoderLayer:
    """An encoder layer of the cases' size."""
    rng = np.random.default_rng(0)
    return EncoderLayer(FEATURES, HEADS, HIDDEN, norm=norm, activation=ACTIVATIONS[activation], rng=rng)


def new_decoder_layer(norm: str = "post", activation: str = "relu") -> DecoderLayer:
    """A decoder layer of the cases' size."""
    rng = np.random.default_rng(0)
    return DecoderLayer(FEATURES, HEADS, HIDDEN, norm=norm, activation=ACTIVATIONS[activation], rng=rng)


def new_transformer(layers: int = 1, norm: str = "post", activation: str = "relu") -> EncoderDecoder:
    """Two stacks of the cases' size, each with a LayerNorm after it."""
    rng, f = np.random.default_rng(0), ACTIVATIONS[activation]
    sizes = (layers, FEATURES, HEADS, HIDDEN)
    encoder = Encoder(*sizes, norm=norm, activation=f, final_norm=True, rng=rng)
    return EncoderDecoder(encoder, Decoder(*sizes, norm=norm, activation=f, final_norm=True, rng=rng))


def with_parameters(module: Module, parameters: Sequence[Any]) -> Module:
    """The module with `parameters` in the order of its names."""
    names = [name for name, _ in module.named_parameters()]
    return module.bind(dict(zip(names, parameters, strict=True)))


def encoder_layer(x, *parameters, heads, norm="post", activation="relu", mask=None):
    """refnp's EncoderLayer with the given parameters."""
    return with_parameters(new_encoder_layer(norm, activation), parameters)(x, mask=mask)


def decoder_layer(x, memory, *parameters, heads, norm="post", activation="relu", mask=None, memory_mask=None):
    """refnp's DecoderLayer with the given parameters."""
    layer = with_parameters(new_decoder_layer(norm, activation), parameters)
    return layer(x, memory, mask=mask, memory_mask=memory_mask)


def transformer(source, target, *parameters, heads, layers, norm="post", activation="relu", source_mask=None):
    """refnp's EncoderDecoder with the given parameters; padding of the source is hidden from both stacks."""
    model = with_parameters(new_transformer(layers, norm, activation), parameters)
    return model(source, target, source_mask=source_mask, memory_mask=source_mask)


ENCODER_LAYER = Layer("encoder_layer", encoder_layer, equations.encoder_layer)
ENCODER_FAST_PATH = Layer("encoder_fast_path", encoder_layer, equations.encoder_layer)
DECODER_LAYER = Layer("decoder_layer", decoder_layer, equations.decoder_layer)
TRANSFORMER = Layer("transformer", transformer, equations.transformer)


def parameters(module: Module, scale: float = SCALE) -> dict:
    """A draw for every parameter of a module, gains around 1."""
    return {
        name: normal(*parameter.shape, shift=1.0, scale=0.3)
        if name.endswith("gain")
        else normal(*parameter.shape, scale=scale)
        for name, parameter in module.named_parameters()
    }


def encoder_inputs(n: int = 4, scale: float = SCALE) -> dict:
    """Two sequences, and the parameters of an encoder layer."""
    return {"x": normal(2, n, FEATURES)} | parameters(new_encoder_layer(), scale)


def decoder_inputs(n: int = 4, m: int = 5, scale: float = SCALE) -> dict:
    """Two sequences, two memories, and the parameters of a decoder layer."""
    return {"x": normal(2, n, FEATURES), "memory": normal(2, m, FEATURES)} | parameters(new_decoder_layer(), scale)


def transformer_inputs(layers: int = 1, n: int = 3, m: int = 4) -> dict:
    """Two sources, two targets, and the parameters of both stacks."""
    sequences = {"source": normal(2, m, FEATURES), "target": normal(2, n, FEATURES)}
    return sequences | parameters(new_transformer(layers))


def cases() -> list[Case]:
    """All cases of this page."""
    heads = {"heads": HEADS}
    pre, causally = {"norm": "pre"}, {"mask": causal(4)}
    padding = {"mask": np.broadcast_to(key_padding(np.array([4, 2]), 4), (2, 4, 4))}
    memory = {"memory_mask": np.broadcast_to(key_padding(np.array([5, 2]), 5), (2, 4, 5))}
    source = {"source_mask": key_padding(np.array([4, 2]), 4)}
    one = heads | {"layers": 1}
    return [
        Case(ENCODER_LAYER, "post-norm, relu", encoder_inputs(), heads),
        Case(ENCODER_LAYER, "pre-norm, gelu", encoder_inputs(), heads | pre | {"activation": "gelu"}),
        Case(ENCODER_LAYER, "padding", encoder_inputs(), heads | padding),
        Case(ENCODER_LAYER, "causal, pre-norm", encoder_inputs(), heads | pre | causally),
        Case(ENCODER_LAYER, "one token", encoder_inputs(n=1), heads),
        Case(ENCODER_LAYER, "weights of 3", encoder_inputs(scale=3.0), heads),
        Case(ENCODER_FAST_PATH, "padding", encoder_inputs(), heads | padding, gradients=()),
        Case(DECODER_LAYER, "causal", decoder_inputs(), heads | causally),
        Case(DECODER_LAYER, "causal, padded memory", decoder_inputs(), heads | causally | memory),
        Case(DECODER_LAYER, "pre-norm, gelu", decoder_inputs(), heads | pre | causally | {"activation": "gelu"}),
        Case(DECODER_LAYER, "one token, memory of one", decoder_inputs(n=1, m=1), heads),
        Case(TRANSFORMER, "post-norm", transformer_inputs(), one),
        Case(TRANSFORMER, "padded source", transformer_inputs(), one | source),
        Case(TRANSFORMER, "pre-norm, gelu", transformer_inputs(), one | pre | {"activation": "gelu"}),
    ]
