"""Attention of several heads: their maps, masks and biases for all heads or for each, keys and values of other widths.

Parameters come as a flat sequence, four weights and biases in the order of NAMES, or four weights where there are no
biases.
"""

import functools
import math
import operator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from refnp import layers
from refnp.layers.masks import causal, key_padding
from refnp.numbers.indexed.proving import drawing
from refnp.numbers.parts import part
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
from refnp.verify.layers.attention import IN_ANY_FORM, IN_FLOAT32, attending, jax_attention


def split_heads(x, heads):
    """(..., N, H d) → (..., H, N, d)."""
    return x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads).swapaxes(-2, -3)


def join_heads(x):
    """(..., H, N, d) → (..., N, H d)."""
    x = x.swapaxes(-2, -3)
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


def repeated(layer, places):
    """The layer of fewer arguments, of which the i-th argument is number places[i]; what follows them stays as it is.

    Self-attention is attention with places (0, 0, 0): the gradient of its one argument is the sum of three.
    """
    count = max(places) + 1

    def in_full(arguments):
        return *(arguments[place] for place in places), *arguments[count:]

    def equation(*arguments, **options):
        y, pullback = layer.equation(*in_full(arguments), **options)

        def summed(g):
            bars = pullback(g)
            own = [[bar for bar, place in zip(bars, places, strict=False) if place == i] for i in range(count)]
            return *(functools.reduce(operator.add, parts) for parts in own), *bars[len(places) :]

        return y, summed

    return replace(layer, function=lambda *a, **options: layer.function(*in_full(a), **options), equation=equation)


def maps_of(parameters):
    """Four linear maps, (W, b) each, or (W,) where there are no biases."""
    own = len(parameters) // 4
    return [parameters[i : i + own] for i in range(0, 4 * own, own)]


def over_heads(x):
    """(..., N, M) → (..., 1, N, M)."""
    return x.reshape(*x.shape[:-2], 1, *x.shape[-2:]) if len(x.shape) > 2 else x


SHARED_NAMES = tuple(f"{part}_{map_}_projection" for map_ in ("query", "key", "value") for part in ("weight", "bias"))
NAMES = tuple(f"{part}_{map_}" for map_ in ("query", "key", "value", "output") for part in ("weight", "bias"))


TOKENS = "query (..., N, D), key (..., M, E), value (..., M, F)"
MAPS = (
    "weight_query (D, H·d), bias_query (H·d), weight_key (E, H·d), bias_key (H·d), weight_value (F, H·e), "
    "bias_value (H·e), weight_output (H·e, G), bias_output (G)"
)
WEIGHTS = "weight_query (D, H·d), weight_key (E, H·d), weight_value (F, H·e), weight_output (H·e, G)"
FOR_ALL, FOR_EACH = "mask boolean (B, N, M)", "mask boolean (B, H, N, M), per_head = True"
SHARED = (
    "weight_query (P, H·P), bias_query (H·P), weight_key (P, H·P), bias_key (H·P), weight_value (R, H·R), "
    "bias_value (H·R), weight_output (H·R, G), bias_output (G), weight_query_projection (D, P), "
    "bias_query_projection (P), weight_key_projection (E, P), bias_key_projection (P), weight_value_projection (F, R), "
    "bias_value_projection (R)"
)


def refnp_multi_head(query, key, value, *parameters, heads, mask=None, bias=None, per_head=False):
    """O = concat_h attention(Q W_q, K W_k, V W_v)_h W_o, plus what biases of the maps there are: MultiHeadAttention.

    Weights and biases come in the order of NAMES. Mask and bias (..., N, M) serve all heads, per_head (..., H, N, M).
    """
    module = new_multi_head(heads, *maps_of(parameters))
    return bound(module, parameters)(query, key, value, mask=mask, bias=bias, per_head=per_head)


def refnp_biased_multi_head(query, key, value, bias, *parameters, heads, mask=None, per_head=False):
    """Multi-head attention with a bias that is added to the scores and has a gradient."""
    return refnp_multi_head(query, key, value, *parameters, heads=heads, mask=mask, bias=bias, per_head=per_head)


multi_head = by_tape(refnp_multi_head, IN_ANY_FORM)
biased_multi_head = by_tape(refnp_biased_multi_head, IN_ANY_FORM)


def refnp_additive_mask(query, key, value, *parameters, mask, **options):
    """The same with a bias of −∞ in place of a mask."""
    bias = np.where(mask, 0.0, -np.inf).astype(query.dtype)
    return refnp_multi_head(query, key, value, *parameters, bias=bias, **options)


def refnp_shared_multi_head(query, key, value, *parameters, heads, **options):
    """refnp's MultiHeadAttention with key_width and value_width."""
    own = len(parameters) // 7
    widths = {"key_width": parameters[0].shape[0], "value_width": parameters[2 * own].shape[0]}
    first = parameters[4 * own :: own]
    module = layers.MultiHeadAttention(
        first[0].shape[0],
        heads,
        key_features=first[1].shape[0],
        value_features=first[2].shape[0],
        **widths,
        output_features=parameters[3 * own].shape[1],
        bias=own > 1,
        rng=drawing(*parameters[0].shape),
    )
    return bound(module, parameters)(query, key, value, **options)


shared_multi_head = by_tape(refnp_shared_multi_head, IN_ANY_FORM)


def new_multi_head(heads, query, key, value, output):
    """A MultiHeadAttention for maps of these widths."""
    return layers.MultiHeadAttention(
        query[0].shape[0],
        heads,
        key_features=key[0].shape[0],
        value_features=value[0].shape[0],
        head_features=query[0].shape[1] // heads,
        head_value_features=value[0].shape[1] // heads,
        output_features=output[0].shape[1],
        bias=len(query) > 1,
        rng=drawing(*query[0].shape),
    )


@part
def bound(module, parameters):
    """The module with `parameters` in the order of its names."""
    names = [name for name, _ in module.named_parameters()]
    return module.bind(dict(zip(names, parameters, strict=True)))


def shapes_of(module) -> str:
    """The shapes of its parameters, as `Layer.shapes` writes them."""
    return ", ".join(f"{name} ({', '.join(map(str, p.shape))})" for name, p in module.named_parameters())


def torch_parameters(torch, *parameters) -> list:
    """The parameters of refnp's MultiHeadAttention as PyTorch keeps them, all transposed.

    The input maps are one (3D, D) matrix, or three where keys or values have other widths.
    """
    *maps, output = maps_of(parameters)
    weights = [own[0].T for own in maps]
    joined = [torch.cat(weights)] if len({w.shape for w in weights}) == 1 else weights
    biases = [torch.cat([own[1] for own in maps])] if len(output) > 1 else []
    return [*joined, *biases, output[0].T, *output[1:]]


def with_values(module, values) -> dict:
    """The parameters of a module of PyTorch by name, from values in its own order."""
    return dict(zip([name for name, _ in module.named_parameters()], values, strict=True))


def forbidden(torch, mask, heads):
    """refnp's mask with True and False exchanged, (N, M), or (B·H, N, M) if there is one for a sequence or head."""
    if mask is None:
        return None
    exchanged = ~torch.tensor(mask)
    if exchanged.ndim == 4:
        return exchanged.flatten(0, 1)
    return exchanged.repeat_interleave(heads, 0) if exchanged.ndim == 3 else exchanged


def additive(torch, mask, bias, heads, per_head):
    """What PyTorch adds to scores, (N, M) or (B·H, N, M): the bias, and −∞ where the mask hides."""
    added = torch.zeros((), dtype=bias.dtype) if mask is None else torch.where(torch.tensor(mask), 0.0, -math.inf)
    added = added.to(bias.dtype) + bias
    if per_head:
        added = added.expand(*added.shape[: 4 - added.ndim], *added.shape)
        return added.reshape(-1, *added.shape[-2:])
    return added.repeat_interleave(heads, 0) if added.ndim == 3 else added


def torch_multi_head(
    torch, query, key, value, *parameters, heads, mask=None, bias=None, per_head=False, need_weights=False
):
    """nn.MultiheadAttention with refnp's parameters; its mask is True where attention is forbidden."""
    maps = maps_of(parameters)
    widths = {"kdim": maps[1][0].shape[0], "vdim": maps[2][0].shape[0], "bias": len(maps[0]) > 1}
    module = torch.nn.MultiheadAttention(query.shape[-1], heads, **widths, batch_first=True, dtype=query.dtype)
    hidden = forbidden(torch, mask, heads) if bias is None else additive(torch, mask, bias, heads, per_head)
    options = {"attn_mask": hidden, "need_weights": need_weights}
    values = with_values(module, torch_parameters(torch, *parameters))
    return torch.func.functional_call(module, values, (query, key, value), options)[0]


def torch_biased_multi_head(torch, query, key, value, bias, *parameters, **options):
    """The same with an additive mask that has a gradient."""
    return torch_multi_head(torch, query, key, value, *parameters, bias=bias, **options)


def torch_additive_mask(torch, query, key, value, *parameters, mask, **options):
    """The same with −∞ where the mask hides."""
    bias = torch.where(torch.tensor(mask), 0.0, -math.inf).to(query.dtype)
    return torch_multi_head(torch, query, key, value, *parameters, bias=bias, **options)


def jax_multi_head(jax, query, key, value, *parameters, heads, mask=None, bias=None, per_head=False):
    """Four products and dot_product_attention, as flax puts them together."""
    *maps, output = maps_of(parameters)
    projected = [projection(x, *own) for x, own in zip((query, key, value), maps, strict=True)]
    query, key, value = (split_heads(y, heads) for y in projected)
    bias, mask = (a if a is None or per_head else over_heads(a) for a in (bias, mask))
    return projection(join_heads(jax_attention(jax, query, key, value, bias, mask=mask)), *output)


def jax_biased_multi_head(jax, query, key, value, bias, *parameters, **options):
    """Multi-head attention with a bias that is added to the scores and has a gradient."""
    return jax_multi_head(jax, query, key, value, *parameters, bias=bias, **options)


def projection(x, weight, bias=0):
    """x W + b."""
    return x @ weight + bias


MULTI_HEAD = Layer(
    "multi_head",
    refnp_multi_head,
    multi_head,
    torch=torch_multi_head,
    names=("MultiHeadAttention", "split_heads", "merge_heads"),
    shapes={
        "usual": f"{TOKENS}, {MAPS}; heads = H",
        "no biases of maps": f"{TOKENS}, {WEIGHTS}; heads = H",
        "with mask": f"{TOKENS}, {MAPS}; heads = H, {FOR_ALL}",
        "mask of each head": f"{TOKENS}, {MAPS}; heads = H, {FOR_EACH}",
    },
)

OTHER_WIDTHS = Layer(
    "multi_head_widths",
    refnp_multi_head,
    multi_head,
    jax=jax_multi_head,
    names=("MultiHeadAttention",),
    shapes=MULTI_HEAD.shapes,
)
WITH_WEIGHTS = Layer(
    "multi_head_with_weights",
    refnp_multi_head,
    multi_head,
    torch=partial(torch_multi_head, need_weights=True),  # another path
    names=("MultiHeadAttention",),
    shapes=MULTI_HEAD.shapes,
)

SHARED_MAPS = Layer(
    "multi_head_shared",
    refnp_shared_multi_head,
    shared_multi_head,
    names=("MultiHeadAttention",),
    shapes={"usual": f"{TOKENS}, {SHARED}; heads = H"},
)  # eq. 6 as printed, which no framework has

BIASED_MULTI_HEAD = Layer(
    "multi_head_biased",
    refnp_biased_multi_head,
    biased_multi_head,
    torch=torch_biased_multi_head,
    jax=jax_biased_multi_head,
    names=("MultiHeadAttention",),
    shapes={
        "usual": f"{TOKENS}, bias (B, N, M), {MAPS}; heads = H",
        "no biases of maps": f"{TOKENS}, bias (B, N, M), {WEIGHTS}; heads = H",
        "mask of each head": f"{TOKENS}, bias (B, H, N, M), {MAPS}; heads = H, {FOR_EACH}",
    },
)

ADDITIVE_MASK = Layer(
    "multi_head_additive_mask",
    refnp_additive_mask,
    multi_head,
    torch=torch_additive_mask,
    names=("MultiHeadAttention",),
    shapes={
        "with mask": f"{TOKENS}, {MAPS}; heads = H, {FOR_ALL}",
        "mask of each head": f"{TOKENS}, {MAPS}; heads = H, {FOR_EACH}",
    },
)

MHA_MASKED_ROW = KnownDefect(
    "PyTorch",
    "pytorch/pytorch#160064",
    "nn.MultiheadAttention with need_weights=True: NaN where a row may attend to nothing",
    parts=attending(no_keys="nan"),
)


def heads_inputs(*, n=4, m=5, features=6, scale=0.5, biases=True, widths=(None, None), inner=(None, None), out=None):
    """Two sequences of queries, of keys and of values, and the four maps; without `biases`, their weights alone.

    `widths` are those of keys and values, `inner` those of all queries and of all values in heads, `out` of the result.
    """
    d_key, d_value, d, d_v, out = (features if width is None else width for width in (*widths, *inner, out))
    found = {"query": normal(2, n, features), "key": normal(2, m, d_key), "value": normal(2, m, d_value)}
    shapes = {"query": (features, d), "key": (d_key, d), "value": (d_value, d_v), "output": (d_v, out)}
    for name in NAMES:
        part, role = name.split("_")
        if part == "weight" or biases:
            found[name] = normal(*(shapes[role] if part == "weight" else shapes[role][1:]), scale=scale)
    return found


def shared_inputs(*, heads=2, d_k=5, d_v=3, biases=True, out=6):
    """`heads_inputs` of d_k and d_v features, square maps in each head, and what makes them of 6, 4 and 7 features."""
    found = heads_inputs(features=d_k, widths=(d_k, d_v), inner=(heads * d_k, heads * d_v), out=out, biases=biases)
    features = {"query": 6, "key": 4, "value": 7}
    found |= {role: normal(2, n, features[role]) for role, n in (("query", 4), ("key", 5), ("value", 5))}
    for name in SHARED_NAMES:
        part, role = name.removesuffix("_projection").split("_")
        width = d_v if role == "value" else d_k
        if part == "weight" or biases:
            found[name] = normal(*((features[role], width) if part == "weight" else (width,)), scale=0.5)
    return found


def with_bias(variant: str, inputs: dict, shape: tuple[int, ...], heads: int = 2, **options: Any) -> Case:
    """A case with a bias after query, key and value."""
    first = {name: inputs[name] for name in ("query", "key", "value")}
    drawn = first | {"bias": normal(*shape)} | inputs
    return Case(BIASED_MULTI_HEAD, variant, drawn, {"heads": heads, **options}, IN_FLOAT32)


def cases() -> list[Case]:
    """Heads, masks and large logits; first the case that was made to show a defect."""
    padded = key_padding(np.array([5, 2]), 5)
    one_row = np.arange(4)[:, None] != np.full(4, 1)
    hidden: dict[str, Any] = {"mask": np.broadcast_to(padded, (2, 4, 5))}
    each = np.random.default_rng(0).random((2, 2, 4, 5)) < 0.6
    each[..., 0] = True
    of_each_head = {"heads": 2, "mask": each, "per_head": True}
    return [
        Case(WITH_WEIGHTS, "fully masked row", heads_inputs(m=4), {"heads": 2, "mask": one_row}, (MHA_MASKED_ROW,)),
        Case(MULTI_HEAD, "two heads", heads_inputs(), {"heads": 2}),
        Case(MULTI_HEAD, "one head", heads_inputs(), {"heads": 1}),
        Case(MULTI_HEAD, "heads of one feature", heads_inputs(), {"heads": 6}),
        Case(MULTI_HEAD, "padding", heads_inputs(), {"heads": 2, "mask": np.broadcast_to(padded, (2, 4, 5))}),
        Case(MULTI_HEAD, "causal", heads_inputs(m=4), {"heads": 3, "mask": causal(4)}),
        Case(MULTI_HEAD, "large logits", heads_inputs(scale=4.0), {"heads": 2}),
        Case(WITH_WEIGHTS, "two heads", heads_inputs(), {"heads": 2}),
        Case(WITH_WEIGHTS, "padding", heads_inputs(), {"heads": 2, "mask": np.broadcast_to(padded, (2, 4, 5))}),
        Case(WITH_WEIGHTS, "mask of each head", heads_inputs(), of_each_head),
        Case(MULTI_HEAD, "mask of each head", heads_inputs(), of_each_head),
        Case(MULTI_HEAD, "no biases of maps", heads_inputs(biases=False), {"heads": 2}),
        Case(MULTI_HEAD, "keys and values of other widths", heads_inputs(widths=(4, 7)), {"heads": 3}),
        Case(
            MULTI_HEAD,
            "keys of another width, no biases of maps, padding",
            heads_inputs(widths=(4, None), biases=False),
            {"heads": 2, "mask": np.broadcast_to(padded, (2, 4, 5))},
        ),
        Case(OTHER_WIDTHS, "of heads and of the result", heads_inputs(inner=(10, 4), out=3), {"heads": 2}),
        Case(OTHER_WIDTHS, "wide heads", heads_inputs(inner=(10, 10), out=3), {"heads": 2, **hidden}, IN_FLOAT32),
        Case(SHARED_MAPS, "three heads", shared_inputs(heads=3), {"heads": 3}),
        Case(SHARED_MAPS, "no biases of maps, padding", shared_inputs(biases=False), {"heads": 2, **hidden}),
        with_bias("for all", heads_inputs(), (4, 5)),
        with_bias("for each sequence, padding", heads_inputs(), (2, 4, 5), **hidden),
        with_bias("for each head", heads_inputs(), (2, 3, 4, 5), heads=3, per_head=True),
        with_bias("and a mask for each head", heads_inputs(), (2, 2, 4, 5), mask=each, per_head=True),
        with_bias("no biases of maps, values of another width", heads_inputs(biases=False, widths=(None, 3)), (4, 5)),
        Case(ADDITIVE_MASK, "causal", heads_inputs(m=4), {"heads": 2, "mask": causal(4)}),
        Case(ADDITIVE_MASK, "for each head", heads_inputs(), of_each_head),
        Case(ADDITIVE_MASK, "fully masked row", heads_inputs(m=4), {"heads": 2, "mask": one_row}),
    ]


WITHOUT = (
    Without("equation", ("KeyValueCache",), "it computes nothing: it keeps keys and values of MultiHeadAttention"),
    Without("gradient inputs", ("KeyValueCache",), "it serves decoding, which takes no gradient"),
)


def gradient_inputs() -> list[GradientInputs]:
    """Self-attention; widths of all kinds, a mask and a bias for each head; and maps that heads share."""
    rng = np.random.default_rng(0)
    rows, heads = rng.normal(size=(3, 4)), layers.MultiHeadAttention(4, 2, rng=rng)
    widths: dict[str, Any] = {"key_features": 3, "value_features": 2, "head_features": 3, "head_value_features": 1}
    wide = layers.MultiHeadAttention(4, 2, **widths, output_features=5, bias=False, rng=rng)
    arrays = [rng.normal(size=shape) for shape in ((2, 3, 4), (2, 4, 3), (2, 4, 2), (2, 3, 4))]
    shared = layers.MultiHeadAttention(4, 3, key_width=2, value_width=3, rng=rng)
    mask = rng.random((2, 2, 3, 4)) < 0.7

    def biased(query, key, value, bias, parameters):
        return wide.bind(parameters)(query, key, value, bias=bias, mask=mask, per_head=True)

    return [
        module_gradient("MultiHeadAttention", heads, rows, names=MULTI_HEAD.names),
        gradient_of("MultiHeadAttention, widths, of each head", biased, *arrays, wide.state_dict()),
        module_gradient("MultiHeadAttention, maps that heads share", shared, rows),
    ]
