"""The layers of the Transformer, post-norm and pre-norm, with biases and without, masks for all heads or for each.

Parameters come as a flat sequence, in the order of refnp's modules: of an attention the four weights and biases, of a
LayerNorm gain and shift, of a feed-forward network two weights and biases; without biases, weights and gains alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from refnp import layers, models
from refnp.layers.masks import causal, key_padding
from refnp.numbers.indexed.proving import drawing
from refnp.numbers.indexed.sizes import Size
from refnp.verify.case import (
    Case,
    GradientInputs,
    KnownDefect,
    Layer,
    Without,
    gradient_of,
    module_gradient,
    normal,
)
from refnp.verify.judged_pages import by_tape
from refnp.verify.layers.attention import IN_ANY_FORM, attending
from refnp.verify.layers.multi_head import (
    additive,
    bound,
    forbidden,
    maps_of,
    shapes_of,
    torch_parameters,
    with_values,
)

ENCODER_PARTS = 8, 2, 4, 2  # parameters of an encoder layer: attention, LayerNorm, feed-forward network, LayerNorm
DECODER_PARTS = 8, 2, 8, 2, 4, 2  # of a decoder layer: the same, with attention to the memory between


def parts_of(parameters, *lengths):
    """Consecutive parts of the given lengths, or of half these lengths where there are no biases."""
    ends = np.cumsum(lengths)
    if ends[-1] == 2 * len(parameters):
        lengths, ends = tuple(length // 2 for length in lengths), ends // 2
    if ends[-1] != len(parameters):
        raise ValueError(f"there are {len(parameters)} parameters, not {ends[-1]}")
    return [parameters[end - length : end] for end, length in zip(ends, lengths, strict=True)]


ACTIVATIONS = {"relu": layers.relu, "gelu": layers.gelu}
FEATURES, HEADS, HIDDEN = 6, 2, 8
SCALE = 0.2  # of parameters: worst-case bounds grow a hundredfold a layer, with 0.5 ten times faster


def new_layer(
    kind: Callable, norm: str = "post", activation: str = "relu", **options: Any
) -> models.EncoderLayer | models.DecoderLayer:
    """An EncoderLayer or DecoderLayer of the cases' size."""
    rng = np.random.default_rng(0)
    return kind(FEATURES, HEADS, HIDDEN, norm=norm, activation=ACTIVATIONS[activation], **options, rng=rng)


def layer_of(kind: Callable, parameters: Sequence, parts: Sequence[int], heads: int, norm, activation, **options):
    """An EncoderLayer or DecoderLayer with these parameters, whose shapes say how wide it is."""
    attention, *_, maps, _ = parts_of(parameters, *parts)
    query, _, value, _ = maps_of(attention)
    sizes: Any = query[0].shape[0], heads, maps[0].shape[1]
    widths = {"head_features": query[0].shape[1] // heads, "head_value_features": value[0].shape[1] // heads}
    options |= {"norm": norm, "activation": ACTIVATIONS[activation], "bias": len(query) > 1, **widths}
    return bound(kind(*sizes, **options, rng=drawing(*sizes)), parameters)


def refnp_encoder_layer(x, *parameters, heads, norm="post", activation="relu", eps=1e-5, **pairs):
    """x ← around(self-attention), x ← around(feed-forward), Sivaraya (2023) §1.5: EncoderLayer with these parameters.

    Around f, post: LayerNorm(x + f(x)); pre: x + f(LayerNorm(x)). Feed-forward: a(x W_0 + b_0) W_1 + b_1.
    """
    layer = layer_of(models.EncoderLayer, parameters, ENCODER_PARTS, heads, norm, activation, eps=eps)
    return layer(x, **pairs)


def refnp_biased_encoder_layer(x, bias, *parameters, **options):
    """x ← around(self-attention), x ← around(feed-forward), with a bias on the scores among the arguments."""
    return refnp_encoder_layer(x, *parameters, bias=bias, **options)


def refnp_decoder_layer(x, memory, *parameters, heads, norm="post", activation="relu", eps=1e-5, **pairs):
    """x ← around(self-attention), around(attention to the memory), around(feed-forward), Sivaraya (2023) §1.6.

    Around f, post: LayerNorm(x + f(x)); pre: x + f(LayerNorm(x)). Feed-forward: a(x W_0 + b_0) W_1 + b_1.
    """
    options = {"eps": eps, "memory_features": memory.shape[-1]}
    layer = layer_of(models.DecoderLayer, parameters, DECODER_PARTS, heads, norm, activation, **options)
    return layer(x, memory, **pairs)


def refnp_biased_decoder_layer(x, memory, bias, memory_bias, *parameters, **options):
    """x ← around(self-attention), around(attention to the memory), around(feed-forward), with two biases.

    They are added to the scores of the self-attention and to those of the attention to the memory.
    """
    return refnp_decoder_layer(x, memory, *parameters, bias=bias, memory_bias=memory_bias, **options)


encoder_layer = by_tape(refnp_encoder_layer, IN_ANY_FORM)
biased_encoder_layer = by_tape(refnp_biased_encoder_layer, IN_ANY_FORM)
decoder_layer = by_tape(refnp_decoder_layer, IN_ANY_FORM)
biased_decoder_layer = by_tape(refnp_biased_decoder_layer, IN_ANY_FORM)


def encoder_values(torch, parameters) -> list:
    """Parameters of refnp's EncoderLayer in its order → in that of nn.TransformerEncoderLayer."""
    attention, norm_1, maps, norm_2 = parts_of(parameters, *ENCODER_PARTS)
    return [*torch_parameters(torch, *attention), *turned(maps), *norm_1, *norm_2]


def decoder_values(torch, parameters) -> list:
    """Parameters of refnp's DecoderLayer in its order → in that of nn.TransformerDecoderLayer."""
    own, norm_1, other, norm_2, maps, norm_3 = parts_of(parameters, *DECODER_PARTS)
    attentions = [value for attention in (own, other) for value in torch_parameters(torch, *attention)]
    return [*attentions, *turned(maps), *norm_1, *norm_2, *norm_3]


def turned(maps) -> list:
    """Linear maps as PyTorch has them: weights transposed, biases as they are."""
    return [value.T if value.ndim == 2 else value for value in maps]


def torch_options(x, norm: str, activation: str, bias: bool = True) -> dict:
    """What all of PyTorch's modules are made with. They are left in training mode, without dropout: no fast path."""
    first = norm == "pre"
    options = {"dropout": 0.0, "activation": activation, "norm_first": first, "batch_first": True, "dtype": x.dtype}
    return options | {"bias": bias}


def hidden_units(parameters, parts) -> tuple[int, bool]:
    """The width of the feed-forward network, and whether there are biases."""
    maps = parts_of(parameters, *parts)[-2]
    return maps[0].shape[1], len(maps) == 4


def torch_encoder_layer(
    torch, x, *parameters, heads, norm="post", activation="relu", mask=None, bias=None, per_head=False
):
    """nn.TransformerEncoderLayer."""
    values = encoder_values(torch, parameters)
    hidden, biases = hidden_units(parameters, ENCODER_PARTS)
    layer = torch.nn.TransformerEncoderLayer(x.shape[-1], heads, hidden, **torch_options(x, norm, activation, biases))
    seen = forbidden(torch, mask, heads) if bias is None else additive(torch, mask, bias, heads, per_head)
    return torch.func.functional_call(layer, with_values(layer, values), (x,), {"src_mask": seen})


def torch_biased_encoder_layer(torch, x, bias, *parameters, **options):
    """The same with an additive mask that has a gradient."""
    return torch_encoder_layer(torch, x, *parameters, bias=bias, **options)


def torch_encoder_fast_path(torch, x, *parameters, heads, mask):
    """nn.TransformerEncoderLayer in evaluation, without gradients: one fused path. The mask is one of padding."""
    hidden = parameters[10].shape[1]
    layer = torch.nn.TransformerEncoderLayer(x.shape[-1], heads, hidden, **torch_options(x, "post", "relu"))
    layer.load_state_dict(with_values(layer, encoder_values(torch, parameters)))
    return layer.eval()(x, src_key_padding_mask=~torch.tensor(mask)[:, 0])


def torch_decoder_layer(
    torch,
    x,
    memory,
    *parameters,
    heads,
    norm="post",
    activation="relu",
    mask=None,
    memory_mask=None,
    bias=None,
    memory_bias=None,
    per_head=False,
):
    """nn.TransformerDecoderLayer."""
    values = decoder_values(torch, parameters)
    hidden, biases = hidden_units(parameters, DECODER_PARTS)
    layer = torch.nn.TransformerDecoderLayer(x.shape[-1], heads, hidden, **torch_options(x, norm, activation, biases))
    seen = {}
    for name, own, added in (("tgt_mask", mask, bias), ("memory_mask", memory_mask, memory_bias)):
        seen[name] = forbidden(torch, own, heads) if added is None else additive(torch, own, added, heads, per_head)
    return torch.func.functional_call(layer, with_values(layer, values), (x, memory), seen)


def torch_biased_decoder_layer(torch, x, memory, bias, memory_bias, *parameters, **options):
    """The same with two additive masks that have gradients."""
    return torch_decoder_layer(torch, x, memory, *parameters, bias=bias, memory_bias=memory_bias, **options)


D, H, K, E = (Size(name) for name in "DHKE")  # width, heads, hidden units, width of the memory
LETTERS: dict[str, Any] = {"head_features": Size("d"), "head_value_features": Size("e"), "rng": drawing(D)}


def layer_shapes(arguments: str, kind: Callable, forms: dict[str, str], **options: Any) -> dict[str, str]:
    """`Layer.shapes` of a layer made of letters: the arguments, its parameters, and options in each of the forms."""
    of = lambda bias: shapes_of(kind(D, H, K, **LETTERS, bias=bias, **options))
    return {
        form: f"{arguments}, {of(form != 'no biases of maps')}; heads = H{other and ', '}{other}"
        for form, other in forms.items()
    }


PRE = "norm = 'pre', activation = 'gelu'"
FORMS = {"usual": "", "no biases of maps": PRE}
MASK, MASKS = "mask boolean (B, N, N)", "mask boolean (B, N, N), memory_mask boolean (B, N, M)"
OF_HEADS = "per_head = True, mask boolean (B, H, N, N)"
ENCODED, DECODED = "x (..., N, D)", "x (..., N, D), memory (..., M, E)"
BIAS, BIASES = "bias (B, N, N)", "bias (B, N, N), memory_bias (B, N, M)"
ENCODER_SHAPES, BIASED_ENCODER_SHAPES = (
    layer_shapes(given, models.EncoderLayer, FORMS | {"with mask": MASK} | forms)
    for given, forms in ((ENCODED, {"mask of each head": OF_HEADS}), (f"{ENCODED}, {BIAS}", {}))
)
DECODER_SHAPES, BIASED_DECODER_SHAPES = (
    layer_shapes(given, models.DecoderLayer, FORMS | {"with masks": MASKS} | forms, memory_features=E)
    for given, forms in (
        (DECODED, {"masks of each head": f"{OF_HEADS}, memory_mask boolean (B, H, N, M)"}),
        (f"{DECODED}, {BIASES}", {}),
    )
)

ENCODER_LAYER = Layer(
    "encoder_layer", refnp_encoder_layer, encoder_layer, torch=torch_encoder_layer, shapes=ENCODER_SHAPES
)
ENCODER_FAST_PATH = Layer(
    "encoder_fast_path", refnp_encoder_layer, encoder_layer, torch=torch_encoder_fast_path, names=("EncoderLayer",)
)
DECODER_LAYER = Layer(
    "decoder_layer", refnp_decoder_layer, decoder_layer, torch=torch_decoder_layer, shapes=DECODER_SHAPES
)
OTHER_ENCODER_LAYER = replace(
    ENCODER_LAYER, name="encoder_layer_widths", torch=None, names=("EncoderLayer",)
)  # of heads of other widths
OTHER_DECODER_LAYER = replace(
    DECODER_LAYER, name="decoder_layer_widths", torch=None, names=("DecoderLayer",)
)  # of a memory of another width
BIASED_ENCODER_LAYER = Layer(
    "encoder_layer_biased",
    refnp_biased_encoder_layer,
    biased_encoder_layer,
    torch=torch_biased_encoder_layer,
    names=("EncoderLayer",),
    shapes=BIASED_ENCODER_SHAPES,
)
BIASED_DECODER_LAYER = Layer(
    "decoder_layer_biased",
    refnp_biased_decoder_layer,
    biased_decoder_layer,
    torch=torch_biased_decoder_layer,
    names=("DecoderLayer",),
    shapes=BIASED_DECODER_SHAPES,
)
PADDING_IN_FAST_PATH = KnownDefect(
    "PyTorch",
    "pytorch/pytorch#190486",
    "nn.TransformerEncoderLayer's fast path: NaN for a sequence of padding; 0 otherwise",
    parts=attending(no_keys="nan"),
)


def parameters(module: layers.Module, scale: float = SCALE) -> dict:
    """A draw for every parameter of a module, gains around 1."""
    return {
        name: normal(*parameter.shape, shift=1.0, scale=0.3)
        if name.endswith("gain")
        else normal(*parameter.shape, scale=scale)
        for name, parameter in module.named_parameters()
    }


def encoder_inputs(n: int = 4, scale: float = SCALE, **options: Any) -> dict:
    """Two sequences, and the parameters of an encoder layer."""
    return {"x": normal(2, n, FEATURES)} | parameters(new_layer(models.EncoderLayer, **options), scale)


def decoder_inputs(
    n: int = 4, m: int = 5, scale: float = SCALE, memory_features: int = FEATURES, **options: Any
) -> dict:
    """Two sequences, two memories, and the parameters of a decoder layer."""
    layer = new_layer(models.DecoderLayer, memory_features=memory_features, **options)
    return {"x": normal(2, n, FEATURES), "memory": normal(2, m, memory_features)} | parameters(layer, scale)


def with_biases(inputs: dict, **biases: Any) -> dict:
    """The inputs with biases after the sequences."""
    sequences = {name: inputs[name] for name in ("x", "memory") if name in inputs}
    return sequences | biases | inputs


def cases() -> list[Case]:
    """Both layers, with all parameters; first the case that was made to show a defect."""
    heads = {"heads": HEADS}
    pre, causally = {"norm": "pre"}, {"mask": causal(4)}
    padding = {"mask": np.broadcast_to(key_padding(np.array([4, 2]), 4), (2, 4, 4))}
    memory = {"memory_mask": np.broadcast_to(key_padding(np.array([5, 2]), 5), (2, 4, 5))}
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
        *option_cases(),
    ]


def option_cases() -> list[Case]:
    """No biases, masks and biases of each head, heads and memories of other widths."""
    heads, pre = {"heads": HEADS}, {"norm": "pre", "activation": "gelu"}
    shown = np.random.default_rng(0).random((2, HEADS, 4, 5)) < 0.6
    shown[..., 0] = True
    each, of_memory = {"per_head": True, "mask": shown[..., :4]}, {"memory_mask": shown}
    padding = {"mask": np.broadcast_to(key_padding(np.array([4, 2]), 4), (2, 4, 4))}
    no_biases, widths = {"bias": False}, {"head_features": 5, "head_value_features": 2}
    both = {"bias": normal(2, HEADS, 4, 4), "memory_bias": normal(2, HEADS, 4, 5)}
    return [
        Case(ENCODER_LAYER, "no biases", encoder_inputs(**no_biases), heads),
        Case(ENCODER_LAYER, "no biases, pre-norm, gelu, padding", encoder_inputs(**no_biases), heads | pre | padding),
        Case(ENCODER_LAYER, "mask of each head", encoder_inputs(), heads | each),
        Case(ENCODER_LAYER, "mask of each head, pre-norm", encoder_inputs(), heads | pre | each),
        Case(OTHER_ENCODER_LAYER, "of heads", encoder_inputs(**widths), heads),
        Case(BIASED_ENCODER_LAYER, "for all", with_biases(encoder_inputs(), bias=normal(4, 4)), heads),
        Case(
            BIASED_ENCODER_LAYER,
            "for each sequence, padding, pre-norm",
            with_biases(encoder_inputs(), bias=normal(2, 4, 4)),
            heads | pre | padding,
        ),
        Case(
            BIASED_ENCODER_LAYER,
            "for each head with its mask, no biases of maps",
            with_biases(encoder_inputs(**no_biases), bias=normal(2, HEADS, 4, 4)),
            heads | each,
        ),
        Case(DECODER_LAYER, "no biases, causal", decoder_inputs(**no_biases), heads | {"mask": causal(4)}),
        Case(DECODER_LAYER, "no biases, pre-norm, gelu", decoder_inputs(**no_biases), heads | pre),
        Case(DECODER_LAYER, "masks of each head", decoder_inputs(), heads | each | of_memory),
        Case(OTHER_DECODER_LAYER, "of the memory", decoder_inputs(memory_features=3), heads),
        Case(
            BIASED_DECODER_LAYER,
            "for all",
            with_biases(decoder_inputs(), bias=normal(4, 4), memory_bias=normal(4, 5)),
            heads | {"mask": causal(4)},
        ),
        Case(BIASED_DECODER_LAYER, "for each head", with_biases(decoder_inputs(), **both), heads | {"per_head": True}),
        Case(
            BIASED_DECODER_LAYER,
            "for each head with its masks, pre-norm, no biases of maps",
            with_biases(decoder_inputs(**no_biases), **both),
            heads | pre | each | of_memory,
        ),
    ]


WITHOUT = (
    Without("equation", ("dropout",), "its values are drawn; tests/layers/test_regularization.py counts them"),
    Without("transcription", ("dropout",), "its values are drawn; tests/layers/test_regularization.py counts them"),
)


def gradient_inputs() -> list[GradientInputs]:
    """Encoder and decoder layers, post-norm and pre-norm, with dropout, with biases of scores."""
    rng = np.random.default_rng(0)
    x, memory = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 5, 4))
    mask, memory_mask = key_padding(np.array([3, 2]), 3), key_padding(np.array([5, 3]), 5)
    encoder = models.EncoderLayer(4, 2, 6, activation=layers.gelu, rng=rng)
    pre = models.EncoderLayer(4, 2, 6, norm="pre", activation=layers.gelu, dropout=0.3, rng=rng)
    decoder = models.DecoderLayer(4, 2, 6, activation=layers.gelu, rng=rng)

    def in_training(x, parameters):
        return pre.bind(parameters)(x, rng=np.random.default_rng(0))  # the same numbers are dropped every time

    of_heads, of_memory = rng.normal(size=(2, 2, 3, 3)), rng.normal(size=(2, 3, 5))
    plain = models.EncoderLayer(4, 2, 6, activation=layers.gelu, bias=False, head_features=3, rng=rng)
    narrow = models.DecoderLayer(4, 2, 6, memory_features=3, activation=layers.gelu, bias=False, rng=rng)
    narrow_memory = rng.normal(size=(2, 5, 3))

    def biased(x, bias, parameters):
        return plain.bind(parameters)(x, bias=bias, per_head=True, mask=mask[:, None])

    def biased_decoder(x, memory, memory_bias, parameters):
        return narrow.bind(parameters)(x, memory, memory_bias=memory_bias, memory_mask=memory_mask)

    return [
        gradient_of("dropout", lambda x: layers.dropout(x, 0.4, np.random.default_rng(0)), x),
        module_gradient("EncoderLayer", encoder, x, mask=mask),
        gradient_of("EncoderLayer, pre-norm, dropout", in_training, x, pre.state_dict()),
        module_gradient("DecoderLayer", decoder, x, memory, memory_mask=memory_mask),
        gradient_of("EncoderLayer, bias of each head", biased, x, of_heads, plain.state_dict()),
        gradient_of("DecoderLayer, biased", biased_decoder, x, narrow_memory, of_memory, narrow.state_dict()),
    ]
