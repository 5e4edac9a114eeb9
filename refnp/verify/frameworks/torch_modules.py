"""What a module of torch.nn computes, in refnp's words: which `Layer`, of what, with which options.

`READERS` says it for each kind of module, and how its arrays lie there. A class that is derived from one of them is
read as that one: it claims to compute the same.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from refnp.verify.case import Layer
from refnp.verify.layers import activations, convolution, linear, multi_head, normalization, pooling, softmax
from refnp.verify.layers import transformer_layers as transformer
from refnp.verify.layers.multi_head import repeated

Turned = Callable[[np.ndarray], np.ndarray]  # how an array, or its gradient, is laid out in refnp


class NoEquationError(Exception):
    """The options of a layer are none that refnp has; the message says which."""


@dataclass(frozen=True)
class Part:
    """One argument of a layer: a tensor, or an array that is no parameter, and how refnp lays it out."""

    tensor: Any
    turned: Turned = lambda array: array


@dataclass(frozen=True)
class Reading:
    """A call of a module as refnp makes it: which layer, of what, with which options, how the output is laid out."""

    layer: Layer
    parts: Mapping[str, Part]
    options: Mapping[str, Any] = field(default_factory=dict)
    turned: Turned = lambda array: array
    without_gradient: tuple[str, ...] = ()
    first: tuple[Layer, tuple[int, ...]] | None = None  # as in `Call`


def read_linear(module: Any, x: Any) -> Reading:
    """The weight is (out, in) there."""
    return Reading(linear.LINEAR, {"x": Part(x), "weight": Part(module.weight, np.transpose), **bias_of(module)})


def bias_of(module: Any, name: str = "bias") -> dict[str, Part]:
    """The bias, if there is one."""
    return {} if module.bias is None else {name: Part(module.bias)}


def affine(module: Any, count: int, turned: Turned = np.ravel) -> dict[str, Part]:
    """Gain and shift; 1 and 0 where a module has none."""
    gain, shift = (getattr(module, name, None) for name in ("weight", "bias"))
    return {
        "gain": Part(np.ones(count)) if gain is None else Part(gain, turned),
        "shift": Part(np.zeros(count)) if shift is None else Part(shift, turned),
    }


def over_last(layer: Layer, module: Any, x: Any, eps: float, *names: str) -> Reading:
    """A norm over the last axes, which are one axis here."""
    axes, count = len(module.normalized_shape), math.prod(module.normalized_shape)
    rows = lambda a: a.reshape(*a.shape[:-axes], count)
    own = affine(module, count)
    return Reading(layer, {"x": Part(x, rows), **{name: own[name] for name in names}}, {"eps": eps}, turned=rows)


def read_layer_norm(module: Any, x: Any) -> Reading:
    """With gain and shift."""
    return over_last(normalization.LAYER_NORM, module, x, module.eps, "gain", "shift")


def read_rms_norm(module: Any, x: Any) -> Reading:
    """With a gain; without an ε it is the roundoff of the precision."""
    import torch

    eps = torch.finfo(x.dtype).eps if module.eps is None else module.eps
    return over_last(normalization.RMS_NORM, module, x, eps, "gain")


def read_group_norm(module: Any, x: Any) -> Reading:
    """Over groups of channels."""
    options = {"groups": module.num_groups, "eps": module.eps}
    return Reading(normalization.GROUP_NORM, {"x": Part(x), **affine(module, module.num_channels)}, options)


def read_batch_norm(module: Any, x: Any) -> Reading:
    """By the statistics of the batch, or by those that were kept."""
    parts = {"x": Part(x), **affine(module, module.num_features)}
    if module.training or module.running_mean is None:
        return Reading(normalization.BATCH_NORM, parts, {"eps": module.eps})
    parts |= {"mean": Part(module.running_mean), "variance": Part(module.running_var)}
    return Reading(normalization.WITH_STATISTICS, parts, {"eps": module.eps}, without_gradient=("mean", "variance"))


def read_instance_norm(module: Any, x: Any) -> Reading:
    """By the statistics of the input."""
    if module.running_mean is not None and not module.training:
        raise NoEquationError("statistics that were kept (track_running_stats=True)")
    turned = batched(x, len(x.shape) == spatial(module) + 1)
    parts = {"x": Part(x, turned), **affine(module, module.num_features)}
    return Reading(normalization.INSTANCE_NORM, parts, {"eps": module.eps}, turned=turned)


def spatial(module: Any) -> int:
    """The axes of space of a "Conv2d", by its name."""
    return next(int(kind.__name__[-2]) for kind in type(module).__mro__ if kind.__name__[-1:] == "d")


def batched(x: Any, alone: bool) -> Turned:
    """With an axis of the batch in front, if an item comes alone."""
    return (lambda a: a[None]) if alone else (lambda a: a)


def read_embedding(module: Any, tokens: Any) -> Reading:
    """The gradient leaves the row of the padding out, and is not judged where there is one."""
    if module.max_norm is not None or module.scale_grad_by_freq:
        raise NoEquationError("max_norm or scale_grad_by_freq")
    without = () if module.padding_idx is None else ("table",)
    options = {"tokens": tokens.detach().cpu().numpy()}
    return Reading(linear.EMBEDDING, {"table": Part(module.weight)}, options, without_gradient=without)


def elementwise(layer: Layer, **options: str) -> Callable[[Any, Any], Reading]:
    """An activation whose options, {refnp's name: theirs}, stand in the module."""
    return lambda module, x: Reading(
        layer, {"x": Part(x)}, {name: getattr(module, own) for name, own in options.items()}
    )


def along_axis(layer: Layer) -> Callable[[Any, Any], Reading]:
    """A softmax along `dim`."""

    def read(module: Any, x: Any) -> Reading:
        if module.dim is None:
            raise NoEquationError("dim=None, an axis that depends on the shape; name it")
        return Reading(layer, {"x": Part(x)}, {"axis": module.dim})

    return read


def read_convolution(module: Any, x: Any) -> Reading:
    """Weights lie as they do here."""
    options = {name: getattr(module, name) for name in ("stride", "dilation", "groups", "padding_mode")}
    options["padding"] = 0 if module.padding == "valid" else module.padding
    return Reading(convolution.CONVOLUTION, {"x": Part(x), "weight": Part(module.weight), **bias_of(module)}, options)


def read_convolution_transpose(module: Any, x: Any, output_size: Any = None) -> Reading:
    """The adjoint."""
    if output_size is not None:
        raise NoEquationError("output_size")
    names = ("stride", "dilation", "groups", "padding", "output_padding")
    options = {name: getattr(module, name) for name in names}
    return Reading(convolution.TRANSPOSED, {"x": Part(x), "weight": Part(module.weight), **bias_of(module)}, options)


def windows(layer: Layer, *names: str) -> Callable[[Any, Any], Reading]:
    """A pooling whose windows are said by these attributes."""
    refnp_names = {"kernel_size": "size", "output_size": "size"}

    def read(module: Any, x: Any) -> Reading:
        if getattr(module, "return_indices", False) or getattr(module, "divisor_override", None):
            raise NoEquationError("return_indices or divisor_override")
        turned = batched(x, len(x.shape) == spatial(module) + 1)
        options = {refnp_names.get(name, name): getattr(module, name) for name in names}
        if isinstance(options["size"], (tuple, list)) and None in options["size"]:
            raise NoEquationError("output_size with None")
        return Reading(layer, {"x": Part(x, turned)}, options, turned=turned)

    return read


def read_multi_head(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> Reading:
    """Four linear maps; the same tensor as query, key and value has one gradient."""
    if module.bias_k is not None or module.add_zero_attn:
        raise NoEquationError("add_bias_kv or add_zero_attn")
    across = lambda a: a if module.batch_first or a.ndim == 2 else a.swapaxes(0, 1)
    n, m = (across(a).shape[-2] for a in (query, key))
    batch = None if query.ndim == 2 else across(query).shape[0]
    mask, bias, per_head = pairs(module.num_heads, batch, n, m, attn_mask, key_padding_mask)
    options = {"heads": module.num_heads, "mask": mask, "per_head": per_head}
    parts = {"query": Part(query, across), "key": Part(key, across), "value": Part(value, across)}
    base, without = multi_head.MULTI_HEAD, tuple[str, ...]()
    if bias is not None:
        base, parts, without = multi_head.BIASED_MULTI_HEAD, parts | {"bias": Part(bias)}, ("bias",)
    layer, parts, first = once(base, parts)
    return Reading(layer, parts | maps_of(module), options, across, without, first)


def once(layer: Layer, parts: dict[str, Part]) -> tuple[Layer, dict[str, Part], tuple | None]:
    """The layer of distinct tensors: those that are given twice are one argument, whose gradient is the sum.

    Third what they were: the layer of all, and the places of its arguments among the distinct ones.
    """
    first: dict[int, int] = {}
    places = [first.setdefault(id(part.tensor), len(first)) for part in parts.values()]
    if len(first) == len(places):
        return layer, parts, None
    names = [[name for name, place in zip(parts, places, strict=True) if place == i] for i in range(len(first))]
    distinct = {" = ".join(together): parts[together[0]] for together in names}
    return repeated(layer, tuple(places)), distinct, (layer, tuple(places))


def pairs(heads: int, batch: int | None, n: int, m: int, attn_mask: Any, padding: Any) -> tuple[Any, Any, bool]:
    """Who may attend to whom, what is added to scores, and whether it is said of each head.

    PyTorch's masks are True where a query may not attend, or are numbers that are added, −∞ where it may not.
    """
    hidden, added = np.zeros((n, m), bool), None  # type: tuple[np.ndarray, np.ndarray | None]
    for given, turned in ((attn_mask, lambda a: a), (padding, lambda a: a[..., None, :])):
        if given is None:
            continue
        values = turned(given.detach().cpu().numpy())
        if values.ndim == 3 and batch is not None and len(values) == batch * heads != batch:
            values = values.reshape(batch, heads, n, m)
        hidden, values = same_rank(hidden, values)
        if values.dtype == bool:
            hidden = hidden | values
            continue
        hidden = hidden | np.isneginf(values)
        numbers = np.where(np.isneginf(values), 0, values)
        if numbers.any():
            added = numbers if added is None else np.add(*same_rank(added, numbers))
    per_head = hidden.ndim == 4 or (added is not None and added.ndim == 4)
    if per_head and added is not None:
        hidden, added = same_rank(hidden, added)
    return ~hidden if hidden.any() else None, added, per_head


def same_rank(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(B, N, M) beside (B, H, N, M) is (B, 1, N, M)."""
    if {first.ndim, second.ndim} == {3, 4}:
        first, second = (a[:, None] if a.ndim == 3 else a for a in (first, second))
    return first, second


def maps_of(module: Any, prefix: str = "") -> dict[str, Part]:
    """The four weights and biases of a MultiheadAttention, (W, b) of query, key, value and output."""
    width, found = module.embed_dim, {}
    for i, role in enumerate(("query", "key", "value")):
        if module.in_proj_weight is not None:
            found[f"weight_{role}"] = Part(module.in_proj_weight, rows_of(i, width, np.transpose))
        else:
            found[f"weight_{role}"] = Part(getattr(module, f"{role[0]}_proj_weight"), np.transpose)
        if module.in_proj_bias is not None:
            found[f"bias_{role}"] = Part(module.in_proj_bias, rows_of(i, width, np.array))
    found["weight_output"] = Part(module.out_proj.weight, np.transpose)
    found |= bias_of(module.out_proj, "bias_output")
    return {f"{prefix}{name}": part for name, part in found.items()}


def rows_of(i: int, width: int, turned: Turned) -> Turned:
    """The i-th of the maps that lie below each other."""
    return lambda a: turned(a[i * width : (i + 1) * width])


def options_of_layer(module: Any, norms: list) -> dict[str, Any]:
    """Heads, norm, activation and ε of an encoder or decoder layer."""
    names = {"relu": "relu", "gelu": "gelu", "ReLU": "relu", "GELU": "gelu"}
    function = module.activation
    activation = names.get(getattr(function, "__name__", type(function).__name__))
    if activation is None or getattr(function, "approximate", "none") != "none":
        raise NoEquationError(f"activation {function!r}")
    if len({norm.eps for norm in norms}) > 1:
        raise NoEquationError("an ε of each LayerNorm")
    norm = "pre" if module.norm_first else "post"
    return {"heads": module.self_attn.num_heads, "norm": norm, "activation": activation, "eps": norms[0].eps}


def of_norm(module: Any, name: str) -> dict[str, Part]:
    """Gain, and shift if there is one."""
    shift = {} if module.bias is None else {f"{name}.shift": Part(module.bias)}
    return {f"{name}.gain": Part(module.weight)} | shift


def of_map(module: Any, name: str) -> dict[str, Part]:
    """Weight, and bias if there is one."""
    return {f"{name}.weight": Part(module.weight, np.transpose)} | bias_of(module, f"{name}.bias")


def read_encoder_layer(
    module: Any, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False
) -> Reading:
    """An encoder layer as a whole."""
    across = lambda a: a if module.self_attn.batch_first or a.ndim == 2 else a.swapaxes(0, 1)
    batch, n = (None if src.ndim == 2 else across(src).shape[0]), across(src).shape[-2]
    mask, bias, per_head = pairs(module.self_attn.num_heads, batch, n, n, src_mask, src_key_padding_mask)
    if bias is not None:
        raise NoEquationError("numbers added to scores")
    parts = {"x": Part(src, across), **maps_of(module.self_attn, "attention."), **of_norm(module.norm1, "norm1")}
    parts |= of_map(module.linear1, "linear1") | of_map(module.linear2, "linear2") | of_norm(module.norm2, "norm2")
    options = options_of_layer(module, [module.norm1, module.norm2]) | {"mask": mask, "per_head": per_head}
    return Reading(transformer.ENCODER_LAYER, parts, options, turned=across)


def read_decoder_layer(
    module: Any,
    tgt: Any,
    memory: Any,
    tgt_mask: Any = None,
    memory_mask: Any = None,
    tgt_key_padding_mask: Any = None,
    memory_key_padding_mask: Any = None,
    tgt_is_causal: bool = False,
    memory_is_causal: bool = False,
) -> Reading:
    """A decoder layer as a whole."""
    across = lambda a: a if module.self_attn.batch_first or a.ndim == 2 else a.swapaxes(0, 1)
    x, keys, heads = across(tgt), across(memory), module.self_attn.num_heads
    batch = None if x.ndim == 2 else x.shape[0]
    own = pairs(heads, batch, x.shape[-2], x.shape[-2], tgt_mask, tgt_key_padding_mask)
    other = pairs(heads, batch, x.shape[-2], keys.shape[-2], memory_mask, memory_key_padding_mask)
    if own[1] is not None or other[1] is not None or own[2] != other[2]:
        raise NoEquationError("numbers added to scores, or masks of each head")
    norms = [module.norm1, module.norm2, module.norm3]
    parts = {"x": Part(tgt, across), "memory": Part(memory, across)}
    parts |= maps_of(module.self_attn, "attention.") | of_norm(norms[0], "norm1")
    parts |= maps_of(module.multihead_attn, "memory_attention.") | of_norm(norms[1], "norm2")
    parts |= of_map(module.linear1, "linear1") | of_map(module.linear2, "linear2") | of_norm(norms[2], "norm3")
    options = options_of_layer(module, norms) | {"mask": own[0], "memory_mask": other[0], "per_head": own[2]}
    return Reading(transformer.DECODER_LAYER, parts, options, turned=across)


def of_axes(name: str, read: Callable[..., Reading]) -> dict[str, Callable[..., Reading]]:
    """A reader of Conv1d, Conv2d and Conv3d."""
    return {f"{name}{axes}d": read for axes in (1, 2, 3)}


WINDOWS = ("kernel_size", "stride", "padding")
READERS: dict[str, Callable[..., Reading]] = {
    "Linear": read_linear,
    "LayerNorm": read_layer_norm,
    "RMSNorm": read_rms_norm,
    "GroupNorm": read_group_norm,
    **of_axes("BatchNorm", read_batch_norm),
    **of_axes("InstanceNorm", read_instance_norm),
    "Embedding": read_embedding,
    "ReLU": elementwise(activations.RELU),
    "LeakyReLU": elementwise(activations.LEAKY_RELU, slope="negative_slope"),
    "ELU": elementwise(activations.ELU, alpha="alpha"),
    "Sigmoid": elementwise(activations.SIGMOID),
    "SiLU": elementwise(activations.SILU),
    "Softplus": elementwise(activations.SOFTPLUS, beta="beta", threshold="threshold"),
    "GELU": elementwise(activations.GELU, approximate="approximate"),
    "Tanh": elementwise(activations.TANH),
    "Softmax": along_axis(softmax.SOFTMAX),
    "LogSoftmax": along_axis(softmax.LOG_SOFTMAX),
    **of_axes("Conv", read_convolution),
    **of_axes("ConvTranspose", read_convolution_transpose),
    **of_axes("MaxPool", windows(pooling.MAXIMUM, *WINDOWS, "dilation", "ceil_mode")),
    **of_axes("AvgPool", windows(pooling.AVERAGE, *WINDOWS, "ceil_mode", "count_include_pad")),
    **of_axes("AdaptiveAvgPool", windows(pooling.ADAPTIVE_AVERAGE, "output_size")),
    **of_axes("AdaptiveMaxPool", windows(pooling.ADAPTIVE_MAXIMUM, "output_size")),
    "MultiheadAttention": read_multi_head,
    "TransformerEncoderLayer": read_encoder_layer,
    "TransformerDecoderLayer": read_decoder_layer,
}
DROPOUTS = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout")
PASSED = (  # they round nothing themselves
    *DROPOUTS, "Identity", "Flatten", "Unflatten", "Sequential", "ModuleList", "ModuleDict",
    "TransformerEncoder", "TransformerDecoder", "Transformer",
)  # fmt: skip


def kind_of(module: Any) -> str | None:
    """The kind of torch.nn that a module is, or is derived from; None for others."""
    for kind in type(module).__mro__:
        if kind.__module__.startswith("torch.nn.") and (kind.__name__ in READERS or kind.__name__ in PASSED):
            return kind.__name__
    return None
