"""The Transformer's layers, stacks and loss, with the gradients of all their parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from refnp.layers.activations import gelu
from refnp.layers.losses import cross_entropy
from refnp.layers.masks import key_padding
from refnp.layers.regularization import dropout
from refnp.models.transformer import Decoder, Encoder, EncoderDecoder, Transformer
from refnp.models.transformer_layers import DecoderLayer, EncoderLayer
from refnp.verify.operations.operation import Operation
from refnp.verify.operations.rows import with_parameters


def operations(rng: np.random.Generator) -> list[Operation]:
    """Encoder and decoder layers, post-norm and pre-norm; stacks; the whole model from tokens to its loss."""
    return _layers(rng) + _models(rng)


def _layers(rng):
    x, memory = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 5, 4))
    mask, memory_mask = key_padding(np.array([3, 2]), 3), key_padding(np.array([5, 3]), 5)
    encoder = EncoderLayer(4, 2, 6, activation=gelu, rng=rng)
    pre = EncoderLayer(4, 2, 6, norm="pre", activation=gelu, dropout=0.3, rng=rng)
    decoder = DecoderLayer(4, 2, 6, activation=gelu, rng=rng)

    def padded(x, parameters):
        return encoder.bind(parameters)(x, mask=mask)

    def in_training(x, parameters):
        return pre.bind(parameters)(x, rng=np.random.default_rng(0))  # the same numbers are dropped every time

    def decode(x, memory, parameters):
        return decoder.bind(parameters)(x, memory, memory_mask=memory_mask)

    return [
        Operation("dropout", lambda x: dropout(x, 0.4, np.random.default_rng(0)), (x,)),
        Operation("EncoderLayer", padded, (x, encoder.state_dict())),
        Operation("EncoderLayer, pre-norm, dropout", in_training, (x, pre.state_dict())),
        Operation("DecoderLayer", decode, (x, memory, decoder.state_dict())),
    ]


def _models(rng):
    source, target = rng.normal(size=(1, 3, 4)), rng.normal(size=(1, 2, 4))
    sizes, options = (1, 4, 2, 5), {"norm": "pre", "activation": gelu, "rng": rng}
    stacks = EncoderDecoder(Encoder(*sizes, **options), Decoder(*sizes, **options))
    small: dict[str, Any] = {"features": 4, "heads": 2, "hidden": 5, "encoder_layers": 1, "decoder_layers": 1}
    words, translation, following = np.array([[3, 1, 2, 0]]), np.array([[1, 4, 3]]), np.array([[4, 3, 2]])
    models = {
        tied: Transformer(5, 5, **small, activation=gelu, dropout=0.2, tied=tied, rng=rng) for tied in ("none", "all")
    }

    def loss_of(model):
        def loss(parameters):
            logits = model.bind(parameters)(words, translation, source_mask=words > 0, rng=np.random.default_rng(0))
            return cross_entropy(logits, following, label_smoothing=0.1)

        return loss

    return [
        Operation("EncoderDecoder", lambda s, t, p: stacks.bind(p)(s, t), (source, target, stacks.state_dict())),
        Operation("Encoder", with_parameters(stacks.encoder), (source, stacks.encoder.state_dict())),
        *(
            Operation(f"Transformer, tied {tied}, loss", loss_of(model), (model.state_dict(),))
            for tied, model in models.items()
        ),
    ]
