"""The stacks of the Transformer, with biases and without, with the causal mask and without, and the whole model."""

import functools
import operator
from typing import Any

import numpy as np

from refnp import layers, models
from refnp.layers.masks import key_padding
from refnp.verify.case import Case, GradientInputs, Layer, Without, generator, gradient_of, module_gradient, normal
from refnp.verify.layers.multi_head import bound, with_values
from refnp.verify.layers.transformer_layers import (
    ACTIVATIONS,
    DECODER_PARTS,
    ENCODER_PARTS,
    FEATURES,
    HEADS,
    HIDDEN,
    chain,
    decoder_layer,
    decoder_values,
    encoder_layer,
    encoder_values,
    hidden_units,
    norm_of,
    parameters,
    parts_of,
    torch_options,
)


def transformer(
    source, target, *parameters, heads, layers, norm="post", activation="relu", eps=1e-5, source_mask=None, causal=True
):
    """Encoder and decoder of `layers` layers each, a LayerNorm after either; under the causal mask if `causal`.

    `source_mask` (B, 1, M) hides padding of the source from the encoder and from the decoder.
    """
    encoder, encoder_norm, decoder, decoder_norm = cut_stacks(parameters, layers)
    n, m = target.shape[-2], source.shape[-2]
    hidden = None if source_mask is None else np.broadcast_to(source_mask, (len(source_mask), m, m))
    memory_mask = None if source_mask is None else np.broadcast_to(source_mask, (len(source_mask), n, m))
    options = {"heads": heads, "norm": norm, "activation": activation, "eps": eps}
    masks = {"mask": np.tri(n, dtype=bool) if causal else None, "memory_mask": memory_mask}
    memory, memory_pullback = chain(
        *(lambda x, own=own: encoder_layer(x, *own, **options, mask=hidden) for own in encoder),
        lambda x: norm_of(x, encoder_norm, eps),
    )(source)
    y, output_pullback = chain(
        *(lambda x, own=own: decoder_layer(x, memory, *own, **options, **masks) for own in decoder),
        lambda x: norm_of(x, decoder_norm, eps),
    )(target)

    def pullback(g):
        target_bar, *bars = output_pullback(g)
        *by_layer, norm_bars = parts_of(bars, *[1 + len(decoder[0])] * layers, len(decoder_norm))
        decoder_bars = [bar for _, *own in by_layer for bar in own]
        memory_bar = functools.reduce(operator.add, [own[0] for own in by_layer])
        source_bar, *encoder_bars = memory_pullback(memory_bar)
        return source_bar, target_bar, *encoder_bars, *decoder_bars, *norm_bars

    return y, pullback


def cut_stacks(parameters, layers):
    """The parameters of each encoder layer, of the LayerNorm after them, of each decoder layer, and of theirs."""
    of_encoder, of_decoder = [sum(ENCODER_PARTS)] * layers, [sum(DECODER_PARTS)] * layers
    parts = parts_of(parameters, *of_encoder, 2, *of_decoder, 2)
    return parts[:layers], parts[layers], parts[layers + 1 : -1], parts[-1]


def new_stacks(
    count: int = 1,
    norm: str = "post",
    activation: str = "relu",
    causal: bool = True,
    bias: bool = True,
    eps: float = 1e-5,
) -> models.EncoderDecoder:
    """Two stacks of the cases' size, each with a LayerNorm after it."""
    options: dict[str, Any] = {"norm": norm, "activation": ACTIVATIONS[activation], "final_norm": True, "bias": bias}
    options |= {"rng": np.random.default_rng(0), "eps": eps}
    sizes = (count, FEATURES, HEADS, HIDDEN)
    return models.EncoderDecoder(models.Encoder(*sizes, **options), models.Decoder(*sizes, causal=causal, **options))


def refnp_transformer(
    source, target, *parameters, heads, layers, norm="post", activation="relu", eps=1e-5, source_mask=None, causal=True
):
    """refnp's EncoderDecoder with the given parameters; padding of the source is hidden from both stacks."""
    biases = 2 * len(parameters) > sum(ENCODER_PARTS + DECODER_PARTS) * layers + 4
    model = bound(new_stacks(layers, norm, activation, causal, biases, eps), parameters)
    return model(source, target, source_mask=source_mask, memory_mask=source_mask)


def torch_transformer(
    torch, source, target, *parameters, heads, layers, norm="post", activation="relu", source_mask=None, causal=True
):
    """nn.Transformer with a causal target mask, or none, and key padding of the source."""
    encoder, encoder_norm, decoder, decoder_norm = cut_stacks(parameters, layers)
    hidden, biases = hidden_units(encoder[0], ENCODER_PARTS)
    options = torch_options(source, norm, activation, biases)
    model = torch.nn.Transformer(source.shape[-1], heads, layers, layers, hidden, **options)
    encoders = [value for own in encoder for value in encoder_values(torch, own)]
    decoders = [value for own in decoder for value in decoder_values(torch, own)]
    values = with_values(model, [*encoders, *encoder_norm, *decoders, *decoder_norm])
    padding = None if source_mask is None else ~torch.tensor(source_mask)[:, 0]
    n = target.shape[-2]
    masks = {
        "tgt_mask": ~torch.ones(n, n, dtype=torch.bool).tril() if causal else None,
        "src_key_padding_mask": padding,
        "memory_key_padding_mask": padding,
    }
    return torch.func.functional_call(model, values, (source, target), masks)


TRANSFORMER = Layer(
    "transformer",
    refnp_transformer,
    transformer,
    torch=torch_transformer,
    names=("Encoder", "Decoder", "EncoderDecoder"),
)


def transformer_inputs(layers: int = 1, n: int = 3, m: int = 4, bias: bool = True) -> dict:
    """Two sources, two targets, and the parameters of both stacks."""
    sequences = {"source": normal(2, m, FEATURES), "target": normal(2, n, FEATURES)}
    return sequences | parameters(new_stacks(layers, bias=bias))


def cases() -> list[Case]:
    """Both stacks, with all parameters."""
    one, pre = {"heads": HEADS, "layers": 1}, {"norm": "pre", "activation": "gelu"}
    source, open_ = {"source_mask": key_padding(np.array([4, 2]), 4)}, {"causal": False}
    return [
        Case(TRANSFORMER, "post-norm", transformer_inputs(), one),
        Case(TRANSFORMER, "padded source", transformer_inputs(), one | source),
        Case(TRANSFORMER, "pre-norm, gelu", transformer_inputs(), one | pre),
        Case(TRANSFORMER, "no biases", transformer_inputs(bias=False), one),
        Case(TRANSFORMER, "no biases, pre-norm, gelu", transformer_inputs(bias=False), one | pre),
        Case(TRANSFORMER, "not causal", transformer_inputs(), one | open_),
        Case(TRANSFORMER, "not causal, pre-norm, padded source", transformer_inputs(), one | open_ | pre | source),
    ]


WITHOUT = (
    Without("equation", ("Transformer",), "embeddings, the stacks and a linear map; tests/models/test_transformer.py"),
    Without(
        "equation",
        ("greedy", "beam_search", "log_probability"),
        "they decide by the Transformer's numbers; the last adds",
    ),
    Without("gradient inputs", ("greedy", "beam_search", "log_probability"), "words have no gradient"),
)


def gradient_inputs(seed: int = 0) -> list[GradientInputs]:
    """Stacks; the whole model from tokens to its loss."""
    rng = generator(seed, skip=558)
    source, target = rng.normal(size=(1, 3, 4)), rng.normal(size=(1, 2, 4))
    sizes: Any = (1, 4, 2, 5)
    options: Any = {"norm": "pre", "activation": layers.gelu, "rng": rng}
    stacks = models.EncoderDecoder(models.Encoder(*sizes, **options), models.Decoder(*sizes, **options))
    small: dict[str, Any] = {"features": 4, "heads": 2, "hidden": 5, "encoder_layers": 1, "decoder_layers": 1}
    words, translation, following = np.array([[3, 1, 2, 0]]), np.array([[1, 4, 3]]), np.array([[4, 3, 2]])

    def loss(name, tied):
        model = models.Transformer(5, 5, **small, activation=layers.gelu, dropout=0.2, tied=tied, rng=rng)

        def function(parameters):
            logits = model.bind(parameters)(words, translation, source_mask=words > 0, rng=np.random.default_rng(0))
            return layers.cross_entropy(logits, following, label_smoothing=0.1)

        return gradient_of(name, function, model.state_dict(), names=("Transformer", "Embedding"))

    return [
        module_gradient("EncoderDecoder", stacks, source, target, names=("EncoderDecoder", "Decoder")),
        module_gradient("Encoder", stacks.encoder, source),
        loss("Transformer, tied none, loss", "none"),
        loss("Transformer, tied all, loss", "all"),
    ]
