"""What each layer is in ONNX: an operator, or a small graph of operators.

`OPERATORS` has, under the name of a layer, the name of an operator that takes the same arguments and attributes of the
same names, or a function of the graph and the arguments that adds nodes and returns what the last one puts out, as the
adapters on the pages of the layers do for PyTorch and JAX. Float options have their defaults in its signature, for ONNX
stores attributes in float32: `refnp.verify.frameworks.onnx` rounds them, and the bound is that of the rounded ones.
Where ONNX has no operator, there is a graph if it is what exporters of models write; a graph that would lose digits by
itself (erfc as 1 − erf) judges no runtime, and is left out.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.verify.case import NotOfferedError
from refnp.verify.frameworks.shared import biased, from_multi_head, softplus_by, without
from refnp.verify.layers.convolution import pairs_of, per_axis, same
from refnp.verify.layers.multi_head import maps_of
from refnp.verify.layers.transformer import cut_stacks
from refnp.verify.layers.transformer_layers import DECODER_PARTS, ENCODER_PARTS, parts_of

# Functions of elements, rows and matrices


def var(graph, x, ddof=0):
    """Σ (x − mean)²/(n − d)."""
    centred = x - graph.ReduceMean(x, graph.integers([-1]), keepdims=1, since=18)
    return graph.ReduceSumSquare(centred, graph.integers([-1]), keepdims=0, since=18) / float(x.shape[-1] - ddof)


def along_rows(operator: str) -> Callable:
    """An operator that takes elements of rows by their places."""

    def adapter(graph, x, updates=None, *, indices, mode=None):
        places = graph.given("indices", np.array(indices))
        if updates is None:
            return graph.add(operator, x, places, axis=-1)
        return graph.add(operator, x, places, updates, axis=-1, reduction={"add": "add", "put": "none"}[mode or "add"])

    return adapter


def diagonal(graph, x, offset=0):
    """The elements by their places."""
    rows, columns = x.shape
    first = max(-offset, 0)
    places = [(i, i + offset) for i in range(first, min(rows, columns - offset))]
    return graph.GatherND(x, graph.given("indices", np.array(places)))


def positive_features(graph, x):
    """x + 1 for x > 0, else eˣ."""
    return graph.Where(graph.Greater(x, graph.constant(0.0)), x + 1.0, graph.Exp(graph.Min(x, graph.constant(0.0))))


# Norms


def layer_norm(graph, x, gain, shift=None, eps=1e-5):
    """`stash_type` is the precision of the mean and the variance, float32 unless told."""
    return graph.LayerNormalization(x, gain, shift, axis=-1, epsilon=eps, stash_type=graph.precision)


def with_a_place(graph, operator: Callable, x):
    """An operator that wants a place, for x (B, C) without one."""
    if len(x.shape) > 2:
        return operator(x)
    return graph.reshaped(operator(graph.reshaped(x, *x.shape, 1)), *x.shape)


def group_norm(graph, x, gain, shift, groups, eps=1e-5):
    """Gain and shift of each channel, since opset 21."""
    options = {"num_groups": groups, "epsilon": eps, "stash_type": graph.precision, "since": 21}
    return with_a_place(graph, lambda x: graph.GroupNormalization(x, gain, shift, **options), x)


def batch_norm(graph, x, gain, shift, mean=None, variance=None, eps=1e-5):
    """Statistics of the batch in training mode, where those that are given are only updated."""
    if mean is not None:
        return graph.BatchNormalization(x, gain, shift, mean, variance, epsilon=eps)
    zeros, ones = (graph.constant(np.full(gain.shape, value)) for value in (0.0, 1.0))
    return graph.BatchNormalization(
        x, gain, shift, zeros, ones, epsilon=eps, training_mode=1, outputs=("y", "mean", "variance")
    )[0]


# Linear maps


def linear(graph, x, weight, bias=None):
    """Gemm of a matrix, MatMul and Add of anything else."""
    if len(x.shape) == 2 and bias is not None:
        return graph.Gemm(x, weight, bias)
    y = graph.MatMul(x, weight)
    return y if bias is None else y + bias


def embedding(graph, table, tokens, scaled=False):
    """Rows of the table; ONNX knows no factor √D."""
    rows = graph.Gather(table, graph.given("tokens", tokens), axis=0)
    return rows * math.sqrt(table.shape[1]) if scaled else rows


# Attention


def attention(
    graph, query, key, value, bias=None, *, mask=None, similarity="scaled_dot", softcap=None, window=None, causal=False
):
    """Attention of (B, H, N, d): axes in front are added, and taken off again."""
    four = lambda x: x if len(x.shape) == 4 else graph.reshaped(x, *[1] * (4 - len(x.shape)), *x.shape)
    added = added_to_scores(graph, bias, mask, lambda shape: (*[1] * (4 - len(shape)), *shape))
    options = attention_options(similarity, softcap, window, causal)
    mixed = graph.Attention(*map(four, (query, key, value)), added, **options)
    shape = (*query.shape[:-1], value.shape[-1])
    return mixed if len(shape) == 4 else graph.reshaped(mixed, *shape)


def attention_options(similarity="scaled_dot", softcap=None, window=None, causal=False):
    """Since opset 24 softcap comes before the mask, and since opset 25 there are windows."""
    options: dict[str, Any] = {"since": 24 if window is None else 25, "is_causal": int(causal)}
    if similarity == "dot":
        options["scale"] = 1.0
    if softcap is not None:
        options["softcap"] = softcap
    if window is not None:
        options |= {"left_window_size": window[0], "right_window_size": window[1]}
    return options


def added_to_scores(graph, bias, mask, four):
    """The mask as it is, True = may attend, as in refnp; a bias; or the bias, −∞ where the mask hides, as in PyTorch.

    `four` makes of their shapes one that broadcasts to (B, H, N, M).
    """
    if mask is not None:
        mask = graph.given("mask", np.asarray(mask).reshape(four(np.shape(mask))))
    if bias is not None and four(bias.shape) != bias.shape:
        bias = graph.reshaped(bias, *four(bias.shape))
    if bias is None or mask is None:
        return mask if bias is None else bias
    return graph.Where(mask, bias, graph.constant(-math.inf))


def cosine_attention(graph, query, key, value, *, mask=None):
    """Rows of length 1 by LpNormalization, where a row of zeros stays one since opset 22."""
    query, key = (graph.LpNormalization(x, axis=-1, p=2, since=22) for x in (query, key))
    return attention(graph, query, key, value, mask=mask, similarity="dot")


def rotated(graph, x, *, places, layout="interleaved", base=10000, features=None):
    """RotaryEmbedding of (B, H, N, D), with tables of cosines and sines for each place."""
    if graph.dtype == np.float64:
        raise NotOfferedError("ONNX: RotaryEmbedding has no float64")
    shape = (1,) * (4 - len(x.shape)) + x.shape
    half = (features or shape[-1]) // 2
    angles = np.asarray(places, np.longdouble)[:, None] * np.longdouble(base) ** (
        -np.arange(half) / np.longdouble(half)
    )
    tables = [
        graph.given(name, of(angles).astype(graph.dtype)) for name, of in (("cosines", np.cos), ("sines", np.sin))
    ]
    order = graph.given("order", np.broadcast_to(np.arange(len(places)), (shape[0], len(places))))
    options = {"interleaved": int(layout == "interleaved"), "rotary_embedding_dim": 0 if features is None else features}
    turned = graph.RotaryEmbedding(graph.reshaped(x, *shape), *tables, order, **options)
    return graph.reshaped(turned, *x.shape)


def rotary_attention(graph, query, key, value, *, mask=None, layout="interleaved"):
    """Attention of queries and keys that are rotated by their places."""
    query, key = (rotated(graph, x, places=range(x.shape[-2]), layout=layout) for x in (query, key))
    return attention(graph, query, key, value, mask=mask)


def linear_attention(graph, query, key, value, *, key_mask=None, causal=False):
    """A′ V/r, A′ = φ(Q) φ(K)ᵀ where it is allowed, r its sums over the keys."""
    n, m, zero = query.shape[-2], key.shape[-2], graph.constant(0.0)
    if key_mask is not None:
        shown = graph.given("mask", np.asarray(key_mask)[..., None])
        key, value = graph.Where(shown, key, zero), graph.Where(shown, value, zero)
    allowed = np.tri(n, m, dtype=bool) if causal else np.ones((n, m), bool)
    if key_mask is not None:
        allowed = allowed & np.asarray(key_mask)[..., None, :]
    axes = range(len(key.shape))
    turned = graph.Transpose(positive_features(graph, key), perm=[*axes[:-2], axes[-1], axes[-2]])
    a = graph.MatMul(positive_features(graph, query), turned)
    if not allowed.all():
        a = graph.Where(graph.given("allowed", allowed), a, zero)
    return graph.MatMul(a, value) / graph.ReduceSum(a, graph.integers([-1]), keepdims=1)


def attention_scores(graph, query, key, bias=None, *, mask=None, softcap=None):
    """The last output of Attention; in mode 2 the scores after softcap, mask and bias."""
    shape = (query.shape[-2], key.shape[-2])
    query, key = (graph.reshaped(x, 1, 1, *x.shape) for x in (query, key))
    added = added_to_scores(graph, bias, mask, lambda shape: (1, 1, *shape))
    options = attention_options(softcap=softcap) | {"qk_matmul_output_mode": 2}
    *_, scores = graph.Attention(query, key, key, added, **options, outputs=("mixed", "", "", "scores"))
    return graph.reshaped(scores, *shape)


def multi_head(graph, query, key, value, *parameters, heads, mask=None, bias=None, per_head=False):
    """Four linear maps around Attention, which splits the heads of (B, N, H d) by itself."""
    *maps, output = maps_of(parameters)
    split = [linear(graph, x, *own) for x, own in zip((query, key, value), maps, strict=True)]

    def of_heads(shape):
        return shape if len(shape) != 3 else (1, *shape) if per_head else (shape[0], 1, *shape[1:])

    if mask is not None:
        mask = np.broadcast_to(mask, (*np.shape(mask)[:-2], query.shape[-2], key.shape[-2]))
    added = added_to_scores(graph, bias, mask, of_heads)
    mixed = graph.Attention(*split, added, q_num_heads=heads, kv_num_heads=heads, **attention_options())
    return linear(graph, mixed, *output)


# Convolutions, pools, upsampling


def edges(pairs) -> list[int]:
    """Pairs (before, after) as ONNX writes them: all that stand before, then all that stand after."""
    return [int(before) for before, _ in pairs] + [int(after) for _, after in pairs]


def with_a_batch(graph, operator: Callable, x, weight):
    """An operator for x without a batch: of a batch of one, which is taken off again."""
    if len(x.shape) == len(weight.shape):
        return operator(x)
    return graph.Squeeze(operator(graph.reshaped(x, 1, *x.shape)), graph.integers([0]))


def convolution(graph, x, weight, bias=None, *, stride=1, dilation=1, groups=1, padding=0, padding_mode="zeros"):
    """Conv pads with zeros; other paddings are a Pad in front of it."""
    axes = len(weight.shape) - 2
    dilations = per_axis(dilation, axes)
    pairs = same(weight.shape[2:], dilations) if padding == "same" else pairs_of(padding, axes)
    options = {"strides": per_axis(stride, axes), "dilations": dilations, "group": groups}

    def of_batch(x):
        if padding_mode == "zeros":
            return graph.Conv(x, weight, bias, pads=edges(pairs), **options)
        mode = {"circular": "wrap", "reflect": "reflect", "replicate": "edge"}[padding_mode]
        widths = graph.integers(edges([(0, 0), (0, 0), *pairs]))
        return graph.Conv(graph.Pad(x, widths, mode=mode, since=19), weight, bias, **options)

    return with_a_batch(graph, of_batch, x, weight)


def convolution_transpose(graph, x, weight, bias=None, *, stride=1, dilation=1, groups=1, padding=0, output_padding=0):
    """ConvTranspose names its options as refnp does."""
    axes = len(weight.shape) - 2
    options = {
        "strides": per_axis(stride, axes),
        "dilations": per_axis(dilation, axes),
        "group": groups,
        "pads": edges(pairs_of(padding, axes)),
        "output_padding": per_axis(output_padding, axes),
    }
    return with_a_batch(graph, lambda x: graph.ConvTranspose(x, weight, bias, **options), x, weight)


def pool(operator: str) -> Callable:
    """AveragePool or MaxPool; without a stride, windows stand side by side."""

    def adapter(graph, x, *, size, stride=None, padding=0, dilation=None, ceil_mode=False, count_include_pad=True):
        axes = len(x.shape) - 2
        sizes = per_axis(size, axes)
        options: dict[str, Any] = {
            "kernel_shape": sizes,
            "strides": sizes if stride is None else per_axis(stride, axes),
        }
        options |= {"pads": edges(pairs_of(padding, axes)), "ceil_mode": int(ceil_mode)}
        if operator == "AveragePool":
            options["count_include_pad"] = int(count_include_pad)
        if dilation is not None:
            options["dilations"] = per_axis(dilation, axes)
        return graph.add(operator, x, **options, since=22 if ceil_mode else None)

    return adapter


def adaptive_pool(kind: str) -> Callable:
    """A pool over everything, or over windows of one length side by side."""

    def adapter(graph, x, *, size):
        lengths = x.shape[2:]
        sizes = per_axis(size, len(lengths))
        if set(sizes) == {1}:
            return graph.add(f"Global{kind}", x)
        if any(n % p for n, p in zip(lengths, sizes, strict=True)):
            raise NotOfferedError(f"ONNX: {kind} has windows of one length, adaptive ones of several")
        windows = [n // p for n, p in zip(lengths, sizes, strict=True)]
        return graph.add(kind, x, kernel_shape=windows, strides=windows)

    return adapter


def upsample(graph, x, *, factor=None, size=None, mode="nearest", align_corners=False):
    """Resize, by sizes or by factors, which it stores in float32."""
    axes = len(x.shape) - 2
    place, rounding = {
        "nearest": ("asymmetric", "floor"),
        "nearest-exact": ("half_pixel", "round_prefer_ceil"),
        "linear": ("align_corners" if align_corners else "half_pixel", None),
    }[mode]
    options = {"mode": mode.partition("-")[0], "coordinate_transformation_mode": place}
    if rounding is not None:
        options["nearest_mode"] = rounding
    if size is None:
        scales = graph.constant([1, 1, *per_axis(factor, axes)], "float32")
        return graph.Resize(x, None, scales, **options, since=19)
    sizes = graph.integers([*x.shape[:2], *per_axis(size, axes)])
    return graph.Resize(x, None, None, sizes, **options, since=19)


def set_convolution(graph, target_x, context_x, context_y, length_scale, *, divide=False, eps=1e-8, **more):
    """Σ_m [1, y_m] exp(−|x_n − x_m|²/2ℓ²): differences of all pairs, and a sum over the points."""
    if more or len(target_x.shape) > 2:
        raise NotOfferedError("ONNX: the graph of set_convolution is of one set, with its density")
    targets, points, axes = target_x.shape[0], context_x.shape[0], target_x.shape[1]
    steps = graph.reshaped(target_x, targets, 1, axes) - graph.reshaped(context_x, 1, points, axes)
    square = graph.ReduceSumSquare(steps, graph.integers([-1]), keepdims=1, since=18) / (length_scale * length_scale)
    kernel = graph.Exp(square * -0.5)  # (N, M, 1), or (N, M, C)
    ones = graph.constant(np.ones((points, 1)))
    values = graph.reshaped(graph.Concat(ones, context_y, axis=-1), 1, points, 1 + context_y.shape[1])
    z = graph.ReduceSum(kernel * values, graph.integers([1]), keepdims=0)
    if not divide:
        return z
    density = graph.Slice(z, graph.integers([0]), graph.integers([1]), graph.integers([-1]))
    rest = graph.Slice(z, graph.integers([1]), graph.integers([1 + context_y.shape[1]]), graph.integers([-1]))
    return graph.Concat(density, rest / (density + eps), axis=-1)


# Losses


def reduced(graph, terms, reduction):
    """All of them, their sum, or their mean."""
    if reduction == "none":
        return terms
    return graph.add({"sum": "ReduceSum", "mean": "ReduceMean"}[reduction], terms, keepdims=0, since=18)


def mse(graph, prediction, target, reduction="mean"):
    """(p − t)²."""
    difference = prediction - target
    return reduced(graph, difference * difference, reduction)


def huber(graph, prediction, target, delta=1.0, reduction="mean"):
    """c (|d| − c/2), c = min(|d|, δ)."""
    size = graph.Abs(prediction - target)
    bounded = graph.Min(size, graph.constant(delta))
    return reduced(graph, bounded * (size - bounded * 0.5), reduction)


def binary_cross_entropy(graph, logits, targets, positive_weight=1.0, reduction="mean"):
    """w t log(1 + e^(−x)) + (1 − t) log(1 + eˣ), by Softplus."""
    no = (graph.constant(1.0) - targets) * graph.Softplus(logits)
    return reduced(graph, targets * positive_weight * graph.Softplus(graph.Neg(logits)) + no, reduction)


def gaussian_nll(graph, mean, std, y, reduction="mean"):
    """½ z² + log σ + ½ log 2π."""
    z = (y - mean) / std
    return reduced(graph, z * z * 0.5 + (graph.Log(std) + 0.5 * math.log(2 * math.pi)), reduction)


@without("ONNX: SoftmaxCrossEntropyLoss has no label smoothing", label_smoothing=0.0)
def cross_entropy(graph, logits, *, targets, ignore_index=None, class_weights=None, reduction="mean"):
    """SoftmaxCrossEntropyLoss."""
    weights = None if class_weights is None else graph.constant(class_weights)
    ignored = {} if ignore_index is None else {"ignore_index": ignore_index}
    labels = graph.given("targets", targets)
    return graph.SoftmaxCrossEntropyLoss(logits, labels, weights, reduction=reduction, **ignored)


@without("ONNX: LogSoftmax has neither label smoothing nor class weights", label_smoothing=0.0, class_weights=None)
def cross_entropy_of_probabilities(graph, logits, targets, *, reduction="mean"):
    """−Σ q log p by LogSoftmax."""
    parts = targets * graph.LogSoftmax(logits, axis=-1)
    return reduced(graph, graph.Neg(graph.ReduceSum(parts, graph.integers([-1]), keepdims=0)), reduction)


# Transformers


def around(graph, x, sublayer, affine, order, eps):
    """post: LayerNorm(x + f(x)); pre: x + f(LayerNorm(x))."""
    if order == "post":
        return normalised(graph, x + sublayer(x), affine, eps)
    return x + sublayer(normalised(graph, x, affine, eps))


def normalised(graph, x, affine, eps):
    """LayerNorm with gain and shift, or with a gain alone."""
    return layer_norm(graph, x, affine[0], affine[1] if len(affine) > 1 else None, eps)


def feed_forward(graph, parameters, activation) -> Callable:
    """Two linear maps with an activation between."""
    first, second = parts_of(parameters, 2, 2)
    return lambda x: linear(graph, graph.add(activation.capitalize(), linear(graph, x, *first)), *second)


def encoder_layer(graph, x, *parameters, norm="post", activation="relu", eps=1e-5, **options):
    """Self-attention and a feed-forward network."""
    own, norm_1, maps, norm_2 = parts_of(parameters, *ENCODER_PARTS)
    y = around(graph, x, lambda x: multi_head(graph, x, x, x, *own, **options), norm_1, norm, eps)
    return around(graph, y, feed_forward(graph, maps, activation), norm_2, norm, eps)


def decoder_layer(graph, x, memory, *parameters, norm="post", activation="relu", eps=1e-5, **given):
    """The same with attention to the memory between."""
    own, norm_1, other, norm_2, maps, norm_3 = parts_of(parameters, *DECODER_PARTS)
    of_memory = {name: given.pop(f"memory_{name}", None) for name in ("mask", "bias")}
    options = given | of_memory
    y = around(graph, x, lambda x: multi_head(graph, x, x, x, *own, **given), norm_1, norm, eps)
    y = around(graph, y, lambda x: multi_head(graph, x, memory, memory, *other, **options), norm_2, norm, eps)
    return around(graph, y, feed_forward(graph, maps, activation), norm_3, norm, eps)


def transformer(graph, source, target, *parameters, heads, layers, eps=1e-5, source_mask=None, causal=True, **options):
    """Two stacks with a LayerNorm after each."""
    encoder, encoder_norm, decoder, decoder_norm = cut_stacks(parameters, layers)
    options |= {"heads": heads, "eps": eps}
    memory, y = source, target
    for own in encoder:
        memory = encoder_layer(graph, memory, *own, mask=source_mask, **options)
    memory = normalised(graph, memory, encoder_norm, eps)
    masks = {"mask": np.tri(target.shape[-2], dtype=bool) if causal else None, "memory_mask": source_mask}
    for own in decoder:
        y = decoder_layer(graph, y, memory, *own, **masks, **options)
    return normalised(graph, y, decoder_norm, eps)


OPERATORS: dict[str, str | Callable[..., Any]] = {
    **{name: name.capitalize() for name in ("sinh", "cosh", "erf", "det", "gelu", "relu", "sigmoid", "softmax")},
    "arctan": "Atan",
    "silu": "Swish",  # x σ(x), since opset 24; a runtime that does not know it takes this graph
    "log_softmax": "LogSoftmax",
    "matmul": "MatMul",
    "var": var,
    "std": lambda graph, x, ddof=0: graph.Sqrt(var(graph, x, ddof)),
    "cumprod": lambda graph, x: graph.CumProd(x, graph.integers(-1)),
    "take_along_axis": along_rows("GatherElements"),
    "scatter": along_rows("ScatterElements"),
    "tril": lambda graph, x, offset=0: graph.Trilu(x, graph.integers(offset), upper=0),
    "triu": lambda graph, x, offset=0: graph.Trilu(x, graph.integers(offset), upper=1),
    "diagonal": diagonal,
    "leaky_relu": lambda graph, x, slope=0.01: graph.LeakyRelu(x, alpha=slope),
    "elu": lambda graph, x, alpha=1.0: graph.Elu(x, alpha=alpha),
    "softplus": softplus_by("ONNX", "Softplus"),
    "logsumexp": lambda graph, x, axis=-1: graph.ReduceLogSumExp(x, graph.integers([axis]), keepdims=0, since=18),
    "positive_features": positive_features,
    "linear_attention": linear_attention,
    "layer_norm": layer_norm,
    "rms_norm": lambda graph, x, gain, eps=1e-5: graph.RMSNormalization(
        x, gain, axis=-1, epsilon=eps, stash_type=graph.precision
    ),
    "group_norm": group_norm,
    "instance_norm": lambda graph, *arrays, eps=1e-5: graph.InstanceNormalization(*arrays, epsilon=eps),
    **dict.fromkeys(("batch_norm", "batch_norm of statistics"), batch_norm),
    "linear": linear,
    "embedding": embedding,
    **dict.fromkeys(("attention", "softcap_attention", "softcap_attention_output"), attention),
    "window_attention": lambda graph, *arrays, before, after: attention(graph, *arrays, window=(before, after)),
    "causal_attention": lambda graph, *arrays: attention(graph, *arrays, causal=True),  # top left: there is no cache
    "attention_scores": attention_scores,
    "cosine_attention": cosine_attention,
    "general_attention": lambda graph, query, key, value, weight, mask=None: attention(
        graph, graph.MatMul(query, weight), key, value, mask=mask, similarity="dot"
    ),
    "rotate": rotated,
    "rotary_attention": rotary_attention,
    "learned_positions": lambda graph, x, weight, places: (
        x + graph.Gather(weight, graph.given("places", places), axis=0)
    ),
    **from_multi_head(multi_head, lambda graph, array, query: graph.given("bias", array.astype(graph.dtype))),
    "multi_head_with_weights": multi_head,
    "convolution": convolution,
    "convolution_transpose": convolution_transpose,
    "average_pool": pool("AveragePool"),
    "max_pool": pool("MaxPool"),
    "adaptive_average_pool": adaptive_pool("AveragePool"),
    "adaptive_max_pool": adaptive_pool("MaxPool"),
    "upsample": upsample,
    "set_convolution": set_convolution,
    "mse": mse,
    "huber": huber,
    "binary_cross_entropy": binary_cross_entropy,
    "cross_entropy of probabilities": cross_entropy_of_probabilities,
    "gaussian_nll": gaussian_nll,
    "normal_log_prob": lambda graph, y, mean, std: graph.Neg(gaussian_nll(graph, mean, std, y, "none")),
    "cross_entropy": cross_entropy,
    **dict.fromkeys(("encoder_layer", "encoder_fast_path", "encoder_layer_widths"), encoder_layer),
    "encoder_layer_biased": biased(encoder_layer, 1, "bias"),
    **dict.fromkeys(("decoder_layer", "decoder_layer_widths"), decoder_layer),
    "decoder_layer_biased": biased(decoder_layer, 2, "bias", "memory_bias"),
    "transformer": transformer,
}
