"""The layers of the Transformer and their stacks, post-norm and pre-norm.

Parameters come as a flat sequence, in the order of refnp's modules: of an attention the four weights and biases, of a
LayerNorm gain and shift, of a feed-forward network two weights and biases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from refnp import layers, models
from refnp.layers.masks import causal, key_padding
from refnp.verify.case import Case, GradientInputs, KnownDefect, Layer, Without, gradient_of, module_gradient, normal
from refnp.verify.layers.activations import gelu, relu
from refnp.verify.layers.attention import forbidden, multi_head, torch_parameters, with_values
from refnp.verify.layers.linear import linear
from refnp.verify.layers.normalization import layer_norm

ENCODER_PARAMETERS = 8 + 2 + 4 + 2  # parameters of a layer
DECODER_PARAMETERS = 8 + 2 + 8 + 2 + 4 + 2


def around(sublayer: Callable, x: Any, affine: Any, norm: str, eps: float = 1e-5) -> tuple[Any, Callable]:
    """post: LayerNorm(x + f(x)); pre: x + f(LayerNorm(x)).   pullback(ȳ) = x̄, γ̄, β̄, and what f's pullback adds."""
    gain, shift = affine
    if norm == "post":
        y, sublayer_pullback = sublayer(x)
        z, norm_pullback = layer_norm(x + y, gain, shift, eps=eps)

        def post_pullback(g):
            sum_bar, gain_bar, shift_bar = norm_pullback(g)
            x_bar, *rest = sublayer_pullback(sum_bar)
            return sum_bar + x_bar, gain_bar, shift_bar, rest

        return z, post_pullback
    unit, norm_pullback = layer_norm(x, gain, shift, eps=eps)
    y, sublayer_pullback = sublayer(unit)

    def pullback(g):
        unit_bar, *rest = sublayer_pullback(g)
        x_bar, gain_bar, shift_bar = norm_pullback(unit_bar)
        return g + x_bar, gain_bar, shift_bar, rest

    return x + y, pullback


def self_attention(parameters, heads, mask):
    """x ↦ MHA(x, x, x), its x̄ the sum of those of query, key and value."""

    def sublayer(x):
        y, pullback = multi_head(x, x, x, *parameters, heads=heads, mask=mask)

        def summed(g):
            query_bar, key_bar, value_bar, *rest = pullback(g)
            return query_bar + key_bar + value_bar, *rest

        return y, summed

    return sublayer


def attention_to(memory, parameters, heads, mask):
    """x ↦ MHA(x, memory, memory); the first of what its pullback adds is that of the memory."""

    def sublayer(x):
        y, pullback = multi_head(x, memory, memory, *parameters, heads=heads, mask=mask)

        def summed(g):
            query_bar, key_bar, value_bar, *rest = pullback(g)
            return query_bar, key_bar + value_bar, *rest

        return y, summed

    return sublayer


def feed_forward(parameters, activation):
    """x ↦ f(x W + b) W' + b'."""
    w1, b1, w2, b2 = parameters

    def sublayer(x):
        inner, inner_pullback = linear(x, w1, b1)
        hidden, activation_pullback = {"relu": relu, "gelu": gelu}[activation](inner)
        y, outer_pullback = linear(hidden, w2, b2)

        def pullback(g):
            hidden_bar, w2_bar, b2_bar = outer_pullback(g)
            x_bar, w1_bar, b1_bar = inner_pullback(*activation_pullback(hidden_bar))
            return x_bar, w1_bar, b1_bar, w2_bar, b2_bar

        return y, pullback

    return sublayer


def encoder_layer(x, *parameters, heads, norm="post", activation="relu", eps=1e-5, mask=None):
    """x ← around(self-attention), x ← around(feed-forward), Sivaraya (2023) §1.5."""
    attention, norm_1, maps, norm_2 = cut(parameters, 8, 2, 4, 2)
    x, first = around(self_attention(attention, heads, mask), x, norm_1, norm, eps)
    x, second = around(feed_forward(maps, activation), x, norm_2, norm, eps)

    def pullback(g):
        x_bar, *norm_2_bars, maps_bars = second(g)
        x_bar, *norm_1_bars, attention_bars = first(x_bar)
        return x_bar, *attention_bars, *norm_1_bars, *maps_bars, *norm_2_bars

    return x, pullback


def decoder_layer(x, memory, *parameters, heads, norm="post", activation="relu", mask=None, memory_mask=None):
    """x ← around(self-attention), around(attention to the memory), around(feed-forward), Sivaraya (2023) §1.6."""
    own, norm_1, other, norm_2, maps, norm_3 = cut(parameters, 8, 2, 8, 2, 4, 2)
    x, first = around(self_attention(own, heads, mask), x, norm_1, norm)
    x, second = around(attention_to(memory, other, heads, memory_mask), x, norm_2, norm)
    x, third = around(feed_forward(maps, activation), x, norm_3, norm)

    def pullback(g):
        x_bar, *norm_3_bars, maps_bars = third(g)
        x_bar, *norm_2_bars, (memory_bar, *other_bars) = second(x_bar)
        x_bar, *norm_1_bars, own_bars = first(x_bar)
        bars = (*own_bars, *norm_1_bars, *other_bars, *norm_2_bars, *maps_bars, *norm_3_bars)
        return x_bar, memory_bar, *bars

    return x, pullback


def transformer(source, target, *parameters, heads, layers, norm="post", activation="relu", source_mask=None):
    """Encoder and decoder of `layers` layers each, a LayerNorm after either; the causal mask in the decoder.

    `source_mask` (B, 1, M) hides padding of the source from the encoder and from the decoder.
    """
    sizes = ENCODER_PARAMETERS * layers, 2, DECODER_PARAMETERS * layers, 2
    encoder, encoder_norm, decoder, decoder_norm = cut(parameters, *sizes)
    options = {"heads": heads, "norm": norm, "activation": activation}
    n, m = target.shape[-2], source.shape[-2]
    hidden = None if source_mask is None else np.broadcast_to(source_mask, (len(source_mask), m, m))
    memory_mask = None if source_mask is None else np.broadcast_to(source_mask, (len(source_mask), n, m))
    x, encoder_pullbacks = source, []
    for own in cut(encoder, *[ENCODER_PARAMETERS] * layers):
        x, pull = encoder_layer(x, *own, **options, mask=hidden)
        encoder_pullbacks.append(pull)
    memory, memory_pullback = layer_norm(x, *encoder_norm)
    x, decoder_pullbacks = target, []
    for own in cut(decoder, *[DECODER_PARAMETERS] * layers):
        x, pull = decoder_layer(x, memory, *own, **options, mask=np.tri(n, dtype=bool), memory_mask=memory_mask)
        decoder_pullbacks.append(pull)
    y, output_pullback = layer_norm(x, *decoder_norm)

    def pullback(g):
        x_bar, *decoder_norm_bars = output_pullback(g)
        decoder_bars: list[Any] = []
        memory_bar = None
        for pull in reversed(decoder_pullbacks):
            x_bar, own_memory_bar, *bars = pull(x_bar)
            memory_bar = own_memory_bar if memory_bar is None else memory_bar + own_memory_bar
            decoder_bars = bars + decoder_bars
        target_bar = x_bar
        x_bar, *encoder_norm_bars = memory_pullback(memory_bar)
        encoder_bars: list[Any] = []
        for pull in reversed(encoder_pullbacks):
            x_bar, *bars = pull(x_bar)
            encoder_bars = bars + encoder_bars
        return x_bar, target_bar, *encoder_bars, *encoder_norm_bars, *decoder_bars, *decoder_norm_bars

    return y, pullback


def cut(parameters, *lengths):
    """Consecutive parts of the given lengths."""
    ends = np.cumsum(lengths)
    if ends[-1] != len(parameters):
        raise ValueError(f"there are {len(parameters)} parameters, not {ends[-1]}")
    return [parameters[end - length : end] for end, length in zip(ends, lengths, strict=True)]


# The same in refnp


FEATURES, HEADS, HIDDEN = 6, 2, 8
SCALE = 0.2  # of parameters: worst-case bounds grow a hundredfold a layer, with 0.5 ten times faster
ACTIVATIONS: dict[str, Callable] = {"relu": layers.relu, "gelu": layers.gelu}


def new_layer(kind: Callable, norm: str = "post", activation: str = "relu") -> Any:
    """An EncoderLayer or DecoderLayer of the cases' size."""
    rng = np.random.default_rng(0)
    return kind(FEATURES, HEADS, HIDDEN, norm=norm, activation=ACTIVATIONS[activation], rng=rng)


def new_stacks(count: int = 1, norm: str = "post", activation: str = "relu") -> Any:
    """Two stacks of the cases' size, each with a LayerNorm after it."""
    rng = np.random.default_rng(0)
    options: dict[str, Any] = {"norm": norm, "activation": ACTIVATIONS[activation], "final_norm": True, "rng": rng}
    sizes = (count, FEATURES, HEADS, HIDDEN)
    return models.EncoderDecoder(models.Encoder(*sizes, **options), models.Decoder(*sizes, **options))


def bound(module, parameters):
    """The module with `parameters` in the order of its names."""
    names = [name for name, _ in module.named_parameters()]
    return module.bind(dict(zip(names, parameters, strict=True)))


def refnp_encoder_layer(x, *parameters, heads, norm="post", activation="relu", mask=None):
    """refnp's EncoderLayer with the given parameters."""
    return bound(new_layer(models.EncoderLayer, norm, activation), parameters)(x, mask=mask)


def refnp_decoder_layer(x, memory, *parameters, heads, norm="post", activation="relu", mask=None, memory_mask=None):
    """refnp's DecoderLayer with the given parameters."""
    layer = bound(new_layer(models.DecoderLayer, norm, activation), parameters)
    return layer(x, memory, mask=mask, memory_mask=memory_mask)


def refnp_transformer(source, target, *parameters, heads, layers, norm="post", activation="relu", source_mask=None):
    """refnp's EncoderDecoder with the given parameters; padding of the source is hidden from both stacks."""
    model = bound(new_stacks(layers, norm, activation), parameters)
    return model(source, target, source_mask=source_mask, memory_mask=source_mask)


# The same in PyTorch


def encoder_values(torch, parameters) -> list:
    """Parameters of refnp's EncoderLayer in its order → in that of nn.TransformerEncoderLayer."""
    attention, norm_1, (w1, b1, w2, b2), norm_2 = cut(parameters, 8, 2, 4, 2)
    return [*torch_parameters(torch, *attention), w1.T, b1, w2.T, b2, *norm_1, *norm_2]


def decoder_values(torch, parameters) -> list:
    """Parameters of refnp's DecoderLayer in its order → in that of nn.TransformerDecoderLayer."""
    own, norm_1, other, norm_2, (w1, b1, w2, b2), norm_3 = cut(parameters, 8, 2, 8, 2, 4, 2)
    attentions = [*torch_parameters(torch, *own), *torch_parameters(torch, *other)]
    return [*attentions, w1.T, b1, w2.T, b2, *norm_1, *norm_2, *norm_3]


def torch_options(x, norm: str, activation: str) -> dict:
    """What all of PyTorch's modules are made with. They are left in training mode, without dropout: no fast path."""
    first = norm == "pre"
    return {"dropout": 0.0, "activation": activation, "norm_first": first, "batch_first": True, "dtype": x.dtype}


def torch_encoder_layer(torch, x, *parameters, heads, norm="post", activation="relu", mask=None):
    """nn.TransformerEncoderLayer."""
    hidden = parameters[10].shape[1]
    layer = torch.nn.TransformerEncoderLayer(x.shape[-1], heads, hidden, **torch_options(x, norm, activation))
    values = with_values(layer, encoder_values(torch, parameters))
    return torch.func.functional_call(layer, values, (x,), {"src_mask": forbidden(torch, mask, heads)})


def torch_encoder_fast_path(torch, x, *parameters, heads, mask):
    """nn.TransformerEncoderLayer in evaluation, without gradients: one fused path. The mask is one of padding."""
    hidden = parameters[10].shape[1]
    layer = torch.nn.TransformerEncoderLayer(x.shape[-1], heads, hidden, **torch_options(x, "post", "relu"))
    layer.load_state_dict(with_values(layer, encoder_values(torch, parameters)))
    return layer.eval()(x, src_key_padding_mask=~torch.tensor(mask)[:, 0])


def torch_decoder_layer(
    torch, x, memory, *parameters, heads, norm="post", activation="relu", mask=None, memory_mask=None
):
    """nn.TransformerDecoderLayer."""
    hidden = parameters[20].shape[1]
    layer = torch.nn.TransformerDecoderLayer(x.shape[-1], heads, hidden, **torch_options(x, norm, activation))
    values = with_values(layer, decoder_values(torch, parameters))
    masks = {"tgt_mask": forbidden(torch, mask, heads), "memory_mask": forbidden(torch, memory_mask, heads)}
    return torch.func.functional_call(layer, values, (x, memory), masks)


def torch_transformer(
    torch, source, target, *parameters, heads, layers, norm="post", activation="relu", source_mask=None
):
    """nn.Transformer with a causal target mask and key padding of the source."""
    options = torch_options(source, norm, activation)
    model = torch.nn.Transformer(source.shape[-1], heads, layers, layers, parameters[10].shape[1], **options)
    sizes = ENCODER_PARAMETERS * layers, 2, DECODER_PARAMETERS * layers, 2
    encoder, encoder_norm, decoder, decoder_norm = cut(parameters, *sizes)
    encoders = [v for own in cut(encoder, *[ENCODER_PARAMETERS] * layers) for v in encoder_values(torch, own)]
    decoders = [v for own in cut(decoder, *[DECODER_PARAMETERS] * layers) for v in decoder_values(torch, own)]
    values = with_values(model, [*encoders, *encoder_norm, *decoders, *decoder_norm])
    padding = None if source_mask is None else ~torch.tensor(source_mask)[:, 0]
    masks = {
        "tgt_mask": ~torch.ones(target.shape[-2], target.shape[-2], dtype=torch.bool).tril(),
        "src_key_padding_mask": padding,
        "memory_key_padding_mask": padding,
    }
    return torch.func.functional_call(model, values, (source, target), masks)


ENCODER_LAYER = Layer("encoder_layer", refnp_encoder_layer, encoder_layer, torch=torch_encoder_layer)
ENCODER_FAST_PATH = Layer(
    "encoder_fast_path", refnp_encoder_layer, encoder_layer, torch=torch_encoder_fast_path, names=("EncoderLayer",)
)
DECODER_LAYER = Layer("decoder_layer", refnp_decoder_layer, decoder_layer, torch=torch_decoder_layer)
TRANSFORMER = Layer(
    "transformer",
    refnp_transformer,
    transformer,
    torch=torch_transformer,
    names=("Encoder", "Decoder", "EncoderDecoder"),
)


# Known defects


PADDING_IN_FAST_PATH = KnownDefect(
    "PyTorch",
    "pytorch/pytorch#190486",
    "nn.TransformerEncoderLayer's fast path: NaN for a sequence of padding; 0 otherwise",
)


def parameters(module: Any, scale: float = SCALE) -> dict:
    """A draw for every parameter of a module, gains around 1."""
    return {
        name: normal(*parameter.shape, shift=1.0, scale=0.3)
        if name.endswith("gain")
        else normal(*parameter.shape, scale=scale)
        for name, parameter in module.named_parameters()
    }


def encoder_inputs(n: int = 4, scale: float = SCALE) -> dict:
    """Two sequences, and the parameters of an encoder layer."""
    return {"x": normal(2, n, FEATURES)} | parameters(new_layer(models.EncoderLayer), scale)


def decoder_inputs(n: int = 4, m: int = 5, scale: float = SCALE) -> dict:
    """Two sequences, two memories, and the parameters of a decoder layer."""
    return {"x": normal(2, n, FEATURES), "memory": normal(2, m, FEATURES)} | parameters(
        new_layer(models.DecoderLayer), scale
    )


def transformer_inputs(layers: int = 1, n: int = 3, m: int = 4) -> dict:
    """Two sources, two targets, and the parameters of both stacks."""
    sequences = {"source": normal(2, m, FEATURES), "target": normal(2, n, FEATURES)}
    return sequences | parameters(new_stacks(layers))


def cases() -> list[Case]:
    """The layers and both stacks, with all parameters; first the case that was made to show a defect."""
    heads = {"heads": HEADS}
    pre, causally = {"norm": "pre"}, {"mask": causal(4)}
    padding = {"mask": np.broadcast_to(key_padding(np.array([4, 2]), 4), (2, 4, 4))}
    memory = {"memory_mask": np.broadcast_to(key_padding(np.array([5, 2]), 5), (2, 4, 5))}
    source = {"source_mask": key_padding(np.array([4, 2]), 4)}
    one = heads | {"layers": 1}
    return [
        Case(
            ENCODER_FAST_PATH,
            "a sequence of padding",
            encoder_inputs(),
            heads | {"mask": np.array([[[True] * 4], [[False] * 4]])},
            (PADDING_IN_FAST_PATH,),
            gradients=(),
        ),
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


WITHOUT = (
    Without("equation", ("Transformer",), "embeddings, the stacks and a linear map; tests/models/test_transformer.py"),
    Without("equation", ("dropout",), "its values are drawn; tests/layers/test_regularization.py counts them"),
    Without("transcription", ("dropout",), "its values are drawn; tests/layers/test_regularization.py counts them"),
    Without(
        "equation",
        ("greedy", "beam_search", "log_probability"),
        "they decide by the Transformer's numbers; the last adds",
    ),
    Without("gradient inputs", ("greedy", "beam_search", "log_probability"), "words have no gradient"),
)


def gradient_inputs(seed: int = 0) -> list[GradientInputs]:
    """Encoder and decoder layers, post-norm and pre-norm; stacks; the whole model from tokens to its loss."""
    rng = np.random.default_rng(seed)
    return _layers(rng) + _models(rng)


def _layers(rng):
    x, memory = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 5, 4))
    mask, memory_mask = key_padding(np.array([3, 2]), 3), key_padding(np.array([5, 3]), 5)
    encoder = models.EncoderLayer(4, 2, 6, activation=layers.gelu, rng=rng)
    pre = models.EncoderLayer(4, 2, 6, norm="pre", activation=layers.gelu, dropout=0.3, rng=rng)
    decoder = models.DecoderLayer(4, 2, 6, activation=layers.gelu, rng=rng)

    def in_training(x, parameters):
        return pre.bind(parameters)(x, rng=np.random.default_rng(0))  # the same numbers are dropped every time

    return [
        gradient_of("dropout", lambda x: layers.dropout(x, 0.4, np.random.default_rng(0)), x),
        module_gradient("EncoderLayer", encoder, x, mask=mask),
        gradient_of("EncoderLayer, pre-norm, dropout", in_training, x, pre.state_dict()),
        module_gradient("DecoderLayer", decoder, x, memory, memory_mask=memory_mask),
    ]


def _models(rng):
    source, target = rng.normal(size=(1, 3, 4)), rng.normal(size=(1, 2, 4))
    sizes, options = (1, 4, 2, 5), {"norm": "pre", "activation": layers.gelu, "rng": rng}
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
