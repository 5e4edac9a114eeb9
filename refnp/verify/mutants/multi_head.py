"""Mutants of multi-head attention and of the layers of the Transformer: maps, heads, norms, residuals."""

import numpy as np

from refnp import autograd as ag
from refnp import layers
from refnp.verify.layers.multi_head import maps_of
from refnp.verify.layers.transformer import cut_stacks
from refnp.verify.layers.transformer_layers import DECODER_PARTS, ENCODER_PARTS, parts_of
from refnp.verify.mutants import attention as of_attention
from refnp.verify.mutants.linear import linear
from refnp.verify.mutants.mutant import Mistakes, family
from refnp.verify.mutants.normalization import affine as scaled
from refnp.verify.mutants.normalization import standardized


def split(x, heads, dealt=False):
    """(..., N, H d) → (..., H, N, d); `dealt`: feature f belongs to head f mod H."""
    if dealt:
        return ag.swapaxes(ag.swapaxes(ag.reshape(x, (*x.shape[:-1], -1, heads)), -1, -2), -2, -3)
    return ag.swapaxes(ag.reshape(x, (*x.shape[:-1], heads, -1)), -2, -3)


def joined(x, ordered=True):
    """(..., H, N, d) → (..., N, H d); without the exchange of H and N if not `ordered`."""
    x = ag.swapaxes(x, -2, -3) if ordered else x
    shape = (*x.shape[:-2], -1) if ordered else (*x.shape[:-3], x.shape[-2], -1)
    return ag.reshape(x, shape)


def over_heads(array, per_head):
    """A mask or bias (..., N, M) for all heads → (..., 1, N, M)."""
    return array if array is None or per_head or array.ndim < 3 else array[..., None, :, :]


def multi_head(
    query,
    key,
    value,
    *parameters,
    heads,
    mask=None,
    bias=None,
    per_head=False,
    exchanged=(),
    transposed=(),
    unbiased=(),
    dealt=False,
    ordered=True,
    gradient="sum",
    **switches,
):
    """O = concat_h attention(Q W_q, K W_k, V W_v)_h W_o, plus biases."""
    maps = maps_of(parameters)
    if exchanged:
        first, other = exchanged
        maps[first], maps[other] = maps[other], maps[first]
    project = lambda x, i: linear(x, *maps[i], transposed=i in transposed, biased=i not in unbiased, gradient=gradient)
    projected = [split(project(x, i), heads, dealt) for i, x in enumerate((query, key, value))]
    mask, bias = over_heads(mask, per_head), over_heads(bias, per_head)
    query, key, value = projected
    return project(joined(of_attention.attention(query, key, value, bias, mask=mask, **switches), ordered), 3)


def biased_multi_head(query, key, value, bias, *parameters, **options):
    """The same with the bias among the arguments."""
    return multi_head(query, key, value, *parameters, bias=bias, **options)


def normed(x, affine, of_norm):
    """LayerNorm with gain and shift, or with a gain alone."""
    unit = standardized(x, (x.ndim - 1,), 1e-5, **of_norm)
    return scaled(unit, *affine, *(() if len(affine) == 2 else (None,)))


def around(x, sublayer, affine, norm, *, of_norm, residual=True, swapped=False):
    """post: LayerNorm(x + f(x)); pre: x + f(LayerNorm(x))."""
    norm = {"post": "pre", "pre": "post"}[norm] if swapped else norm
    if norm == "pre":
        y = sublayer(normed(x, affine, of_norm))
        return x + y if residual else y
    y = sublayer(x)
    return normed(x + y if residual else y, affine, of_norm)


def feed_forward(x, maps, activation, *, form="", unbiased=False):
    """f(x W + b) W' + b'."""
    first, second = parts_of(maps, 2, 2)
    if form == "other":
        activation = {"relu": "gelu", "gelu": "relu"}[activation]
    hidden = linear(x, *first, biased=not unbiased)
    if form == "no":
        return linear(hidden, *second)
    bend = layers.relu if activation == "relu" else layers.gelu
    hidden = layers.gelu(hidden, approximate="tanh") if form == "tanh" else bend(hidden)
    return linear(hidden, *second, biased=not unbiased)


def encoder_layer(
    x,
    *parameters,
    heads,
    norm="post",
    activation="relu",
    mask=None,
    bias=None,
    per_head=False,
    of_heads=None,
    of_norm=None,
    of_hidden=None,
    **of_layer,
):
    """x ← around(self-attention), x ← around(feed-forward)."""
    attention, norm_1, maps, norm_2 = parts_of(parameters, *ENCODER_PARTS)
    options = {"heads": heads, "mask": mask, "bias": bias, "per_head": per_head, **(of_heads or {})}
    of_layer = {"of_norm": of_norm or {}, **of_layer}
    x = around(x, lambda x: multi_head(x, x, x, *attention, **options), norm_1, norm, **of_layer)
    return around(x, lambda x: feed_forward(x, maps, activation, **(of_hidden or {})), norm_2, norm, **of_layer)


def biased_encoder_layer(x, bias, *parameters, **options):
    """The same with the bias among the arguments."""
    return encoder_layer(x, *parameters, bias=bias, **options)


def decoder_layer(
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
    of_heads=None,
    of_norm=None,
    of_hidden=None,
    self_first=True,
    **of_layer,
):
    """x ← around(self-attention), around(attention to the memory), around(feed-forward)."""
    own, norm_1, other, norm_2, maps, norm_3 = parts_of(parameters, *DECODER_PARTS)
    options = {"heads": heads, "per_head": per_head, **(of_heads or {})}
    of_layer = {"of_norm": of_norm or {}, **of_layer}
    to_itself = lambda x: multi_head(x, x, x, *own, mask=mask, bias=bias, **options)
    to_memory = lambda x: multi_head(x, memory, memory, *other, mask=memory_mask, bias=memory_bias, **options)
    steps = [(to_itself, norm_1), (to_memory, norm_2)]
    for sublayer, affine in steps if self_first else steps[::-1]:
        x = around(x, sublayer, affine, norm, **of_layer)
    return around(x, lambda x: feed_forward(x, maps, activation, **(of_hidden or {})), norm_3, norm, **of_layer)


def biased_decoder_layer(x, memory, bias, memory_bias, *parameters, **options):
    """The same with both biases among the arguments."""
    return decoder_layer(x, memory, *parameters, bias=bias, memory_bias=memory_bias, **options)


def transformer(
    source, target, *parameters, heads, layers, norm="post", activation="relu", source_mask=None, causal=True,
    final=True, masked=True, of_norm=None, early=False, self_first=True, **of_layer
):  # fmt: skip
    """Encoder and decoder of `layers` layers each, a LayerNorm after either."""
    encoder, encoder_norm, decoder, decoder_norm = cut_stacks(parameters, layers)
    options = {"heads": heads, "norm": norm, "activation": activation, "of_norm": of_norm, **of_layer}
    hidden = source_mask if masked else None
    memory, y = source, target
    for own in encoder:
        memory = encoder_layer(memory, *own, mask=hidden, **options)
    memory = normed(memory, encoder_norm, of_norm or {}) if final else memory
    mask = np.tri(target.shape[-2], dtype=bool) if causal != early else None
    for own in decoder:
        y = decoder_layer(y, memory, *own, mask=mask, memory_mask=source_mask, self_first=self_first, **options)
    return normed(y, decoder_norm, of_norm or {}) if final else y


SCALES: Mistakes = {**of_attention.SCALES, **of_attention.HEADS}
MAPS: Mistakes = {
    "the weights of query, key, value and output were transposed": {"transposed": (0, 1, 2, 3)},
    "the weight of the output were transposed": {"transposed": (3,)},
    "the maps of query and key were exchanged": {"exchanged": (0, 1)},
    "the maps of key and value were exchanged": {"exchanged": (1, 2)},
    "feature f belonged to head f mod H": {"dealt": True},
    "heads and places were not exchanged before heads were joined": {"ordered": False},
}
BIASES: Mistakes = {
    "the biases of the maps were left out": {"unbiased": (0, 1, 2, 3)},
    "the bias of the output were left out": {"unbiased": (3,)},
    "the gradients of the maps' biases were averaged over rows, not summed": {"gradient": "mean"},
}
MASKS: Mistakes = {
    says: switches for says, switches in of_attention.MASKS.items() if "masks" in switches or "masking" in switches
}
OF_HEADS = SCALES | of_attention.SOFTMAX | MAPS | BIASES | MASKS
WITH_WEIGHTS: Mistakes = {
    says: of_attention.EMPTY[says] for says in of_attention.EMPTY if says.startswith("a query that may attend")
}
BIASED = SCALES | MAPS | of_attention.BIASES
INSIDE: Mistakes = {
    **{says: {"of_heads": SCALES[says]} for says in SCALES},
    **{says: {"of_heads": MAPS[says]} for says in MAPS if "transposed" in says or "feature" in says},
    "the LayerNorms' ε were 1e-6": {"of_norm": {"own_eps": 1e-6}},
    "the LayerNorms' ε were 1e-12": {"of_norm": {"own_eps": 1e-12}},
    "the LayerNorms' ε stood outside the root": {"of_norm": {"place": "outside"}},
    "the LayerNorms divided the variance by n − 1": {"of_norm": {"ddof": 1}},
    "the LayerNorms were before the sublayers, or after them, where they should be the other": {"swapped": True},
    "the residuals were left out": {"residual": False},
    "the other activation were taken, relu or gelu": {"of_hidden": {"form": "other"}},
    "there were no activation": {"of_hidden": {"form": "no"}},
}
TANH: Mistakes = {"gelu were that of tanh": {"of_hidden": {"form": "tanh"}}}
ORDER: Mistakes = {"attention to the memory came before that to x itself": {"self_first": False}}
INVERTED: Mistakes = {
    says: {"of_heads": of_attention.MASKS[says]} for says in ("the mask were inverted", "the mask were left out")
}
STACKS: Mistakes = {
    "the LayerNorms after the stacks were left out": {"final": False},
    "the causal mask were left out, or there without being asked for": {"early": True},
    "padding of the source were not hidden from the encoder": {"masked": False},
}
DEALT: Mistakes = {"feature f belonged to head f mod H": {"dealt": True}}
OF_WIDTHS: Mistakes = {
    **{says: switches for says, switches in SCALES.items() if switches.get("scale") != "√M"},
    **BIASES,
    **DEALT,
}
MUTANTS = [
    *family(multi_head, ("multi_head",), OF_HEADS, narrow=of_attention.ROUNDED),
    *family(multi_head, ("multi_head_with_weights",), OF_HEADS | WITH_WEIGHTS),
    *family(multi_head, ("multi_head_additive_mask",), SCALES | MASKS | WITH_WEIGHTS),
    *family(multi_head, ("multi_head_widths",), OF_WIDTHS),
    *family(biased_multi_head, ("multi_head_biased",), BIASED),
    *family(encoder_layer, ("encoder_layer", "encoder_fast_path"), INSIDE),
    *family(encoder_layer, ("encoder_layer",), TANH | INVERTED),
    *family(biased_encoder_layer, ("encoder_layer_biased",), INSIDE),
    *family(decoder_layer, ("decoder_layer",), INSIDE | TANH | ORDER | INVERTED),
    *family(transformer, ("transformer",), INSIDE | ORDER | STACKS),
    *family(biased_decoder_layer, ("decoder_layer_biased",), INSIDE | ORDER),
]
