"""Keras 3: what each layer is called there, and what it is known for, with TensorFlow behind it."""

from collections.abc import Callable

import numpy as np

from refnp.verify.case import KnownDefect, NotOfferedError
from refnp.verify.frameworks.shared import (
    four_axes,
    from_attention,
    from_rows,
    over_channels,
    rows_of,
    softplus_by,
    without,
)
from refnp.verify.frameworks.tensorflow import convolution_by, divided_by_n, known_kernels, pool_by
from refnp.verify.layers.attention import JAX_MASKED_NAN, JAX_MASKED_ROW
from refnp.verify.layers.multi_head import maps_of


def attention(keras, query, key, value, bias=None, *, mask=None, similarity="scaled_dot", is_causal=False):
    """ops.dot_product_attention takes the heads before the features: (..., H, N, d) becomes (B, N, H, d)."""
    if max(len(query.shape), 0 if mask is None else np.ndim(mask)) > 4:
        raise NotOfferedError("Keras: dot_product_attention takes four axes")
    ops = keras.ops
    arrays = [ops.swapaxes(a, 1, 2) for a in four_axes(query, key, value)]
    masks = four_axes(bias, None if mask is None else ops.convert_to_tensor(mask))
    scale = None if similarity == "scaled_dot" else 1.0
    mixed = ops.dot_product_attention(*arrays, *masks, scale=scale, is_causal=is_causal)
    return ops.reshape(ops.swapaxes(mixed, 1, 2), (*query.shape[:-1], value.shape[-1]))


def additive_attention(keras, query, key, value, query_weight, key_weight, vector, *, mask=None):
    """layers.AdditiveAttention has v, and neither W_q nor W_k; its mask is of keys alone."""
    if mask is not None or len(query.shape) != 3:
        raise NotOfferedError("Keras: AdditiveAttention takes a batch, and no mask of pairs")
    q, k = keras.ops.matmul(query, query_weight), keras.ops.matmul(key, key_weight)
    layer = keras.layers.AdditiveAttention(use_scale=True, dtype=query.dtype)
    layer.build([q.shape, value.shape, k.shape])
    layer.scale._value = vector
    return layer([q, value, k])


def multi_head(keras, query, key, value, *parameters, heads, mask=None, per_head=False):
    """layers.MultiHeadAttention, whose maps have an axis for heads."""
    maps, ops = maps_of(parameters), keras.ops
    d, d_v, out = maps[0][0].shape[1] // heads, maps[2][0].shape[1] // heads, maps[3][0].shape[1]
    biases = len(maps[0]) > 1
    layer = keras.layers.MultiHeadAttention(
        heads, d, d_v, use_bias=biases, output_shape=out, dtype=query.dtype, flash_attention=False
    )
    layer.build(query.shape, value.shape, key.shape)
    parts = (layer.query_dense, layer.key_dense, layer.value_dense)
    for part, (weight, *bias) in zip(parts, maps[:3], strict=True):
        part.kernel._value = ops.reshape(weight, part.kernel.shape)
        if bias:
            part.bias._value = ops.reshape(bias[0], part.bias.shape)
    layer.output_dense.kernel._value = ops.reshape(maps[3][0], layer.output_dense.kernel.shape)
    if biases:
        layer.output_dense.bias._value = maps[3][1]
    seen = None if mask is None else np.array(mask)
    if seen is not None and seen.ndim == 3 and per_head:
        seen = seen[None]
    return layer(query, value, key=key, attention_mask=seen)


def convolved(keras, x, pairs, padding_mode, weight, strides, dilations):
    """ops.conv."""
    ops, mode = keras.ops, "constant" if padding_mode == "zeros" else "reflect"
    padded = ops.pad(ops.moveaxis(x, 1, -1), pairs, mode)
    kernel = ops.transpose(weight, (*range(2, len(strides) + 2), 1, 0))
    options = {"strides": strides, "dilation_rate": dilations, "data_format": "channels_last"}
    return ops.moveaxis(ops.conv(padded, kernel, padding="valid", **options), -1, 1)


def pool(kind: str) -> Callable:
    """ops.average_pool and ops.max_pool."""

    def pooled(keras, x, sizes, strides):
        function, options = getattr(keras.ops, kind), {"padding": "valid", "data_format": "channels_last"}
        y = function(keras.ops.moveaxis(x, 1, -1), tuple(sizes), tuple(strides), **options)
        return keras.ops.moveaxis(y, -1, 1)

    return pool_by("Keras", kind, pooled)


REDUCTIONS = {"mean": "mean", "sum": "sum", "none": None}


@without("Keras: ignored rows count in the mean", ignore_index=None)
@without("Keras: SparseCategoricalCrossentropy has no such options", class_weights=None, label_smoothing=0.0)
def cross_entropy(keras, logits, *, targets, reduction="mean"):
    """losses.SparseCategoricalCrossentropy of logits."""
    options = {"reduction": REDUCTIONS[reduction], "dtype": logits.dtype}
    return keras.losses.SparseCategoricalCrossentropy(True, None, **options)(np.array(targets), logits)


@without("Keras: CategoricalCrossentropy has no weights for classes", class_weights=None)
def cross_entropy_of_probabilities(keras, logits, targets, *, label_smoothing=0.0, reduction="mean"):
    """losses.CategoricalCrossentropy of logits."""
    options = {"label_smoothing": label_smoothing, "reduction": REDUCTIONS[reduction], "dtype": logits.dtype}
    return keras.losses.CategoricalCrossentropy(True, **options)(targets, logits)


@without("Keras: binary_crossentropy has no weight for positive targets", positive_weight=1.0)
def binary_cross_entropy(keras, logits, targets, *, reduction="mean"):
    """ops.binary_crossentropy of logits, element by element."""
    return reduced(keras, keras.ops.binary_crossentropy(targets, logits, from_logits=True), reduction)


def reduced(keras, rows, reduction: str):
    """The mean, the sum, or every element."""
    return rows if reduction == "none" else getattr(keras.ops, reduction)(rows)


def normalized(axes_of: Callable) -> Callable:
    """ops.moments and ops.batch_normalization, as layers.BatchNormalization puts them together."""

    def adapter(keras, x, gain, shift, *, eps=1e-5):
        mean, variance = keras.ops.moments(x, axes=axes_of(len(x.shape)), keepdims=True)
        gain, shift = (over_channels(a, len(x.shape) - 2) for a in (gain, shift))
        return (x - mean) * keras.ops.rsqrt(variance + eps) * gain + shift

    return adapter


def batch_norm_of_statistics(keras, x, gain, shift, mean, variance, *, eps=1e-5):
    """ops.batch_normalization over the axis of channels."""
    return keras.ops.batch_normalization(x, mean, variance, 1, shift, gain, eps)


BATCH = "ops.conv takes a batch; TensorFlow's groups have no gradient on a processor"
OPS = ("erf", "erfc", "sinh", "cosh", "arctan", "solve", "inv", "det", "relu", "elu", "sigmoid", "silu", "softmax")
FUNCTIONS: dict[str, str | Callable] = {
    **{name: f"ops.{name}" for name in (*OPS, "log_softmax", "logsumexp", "matmul")},
    "var": divided_by_n("Keras", "ops.var"),
    "std": divided_by_n("Keras", "ops.std"),
    "cumprod": lambda keras, x: keras.ops.cumprod(x, -1),
    "take_along_axis": lambda keras, x, indices: keras.ops.take_along_axis(x, np.array(indices), -1),
    "slogdet": lambda keras, a: keras.ops.slogdet(a)[1],
    "tril": lambda keras, x, offset=0: keras.ops.tril(x, offset),
    "triu": lambda keras, x, offset=0: keras.ops.triu(x, offset),
    "diagonal": lambda keras, x, offset=0: keras.ops.diagonal(x, offset),
    "leaky_relu": lambda keras, x, slope=0.01: keras.ops.leaky_relu(x, slope),
    "softplus": softplus_by("Keras", "ops.softplus"),
    "gelu": lambda keras, x, approximate="none": keras.ops.gelu(x, approximate == "tanh"),
    "layer_norm": lambda keras, x, gain, shift, eps=1e-5: keras.ops.layer_normalization(x, gain, shift, epsilon=eps),
    "rms_norm": lambda keras, x, gain, eps: keras.ops.rms_normalization(x, gain, epsilon=eps),
    "instance_norm": normalized(lambda axes: list(range(2, axes))),
    "batch_norm": normalized(lambda axes: [0, *range(2, axes)]),
    "batch_norm of statistics": batch_norm_of_statistics,
    "linear": lambda keras, x, weight, bias=None: keras.ops.matmul(x, weight) + (0 if bias is None else bias),
    **from_rows(lambda keras, table, tokens: keras.ops.take(table, tokens, axis=0)),
    **from_attention(
        attention,
        lambda keras, table, places: keras.ops.take(table, places, axis=1),
        lambda keras, x, weight: keras.ops.matmul(x, weight),
    ),
    "additive_attention": additive_attention,
    "causal_attention": lambda keras, *arrays: attention(keras, *arrays, is_causal=True),
    **dict.fromkeys(("multi_head", "multi_head_widths"), multi_head),
    "convolution": convolution_by(
        "Keras", BATCH, "ops.pad with TensorFlow", "a stride or a dilation, not both", convolved
    ),
    "average_pool": pool("average_pool"),
    "max_pool": pool("max_pool"),
    "binary_cross_entropy": binary_cross_entropy,
    "cross_entropy": cross_entropy,
    "cross_entropy of probabilities": cross_entropy_of_probabilities,
}
_, _, also = rows_of("Keras")
KNOWN: tuple[KnownDefect, ...] = (
    also("attention/*", JAX_MASKED_NAN),
    also("attention/*", JAX_MASKED_ROW),
    *known_kernels("Keras"),
)
