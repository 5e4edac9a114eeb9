"""Keras 3: what each layer is called there, and what it is known for, with TensorFlow behind it."""

import math
from collections.abc import Callable

import numpy as np

from refnp.verify.case import KnownDefect, NotOfferedError
from refnp.verify.frameworks.known import rows_of
from refnp.verify.frameworks.tensorflow import divided_by_n, known_kernels
from refnp.verify.layers.attention import attending
from refnp.verify.layers.convolution import pairs_of, per_axis, same
from refnp.verify.layers.multi_head import maps_of
from refnp.verify.layers.positions import t5_buckets


def softplus(keras, x, *, beta=1.0, threshold=None):
    """ops.softplus has neither; β is in front of x and under the result."""
    if threshold is not None:
        raise NotOfferedError("Keras: softplus has no threshold")
    return keras.ops.softplus(x) if beta == 1 else keras.ops.softplus(beta * x) / beta


def attention(keras, query, key, value, bias=None, *, mask=None, similarity="scaled_dot", is_causal=False):
    """ops.dot_product_attention takes the heads before the features: (..., H, N, d) becomes (B, N, H, d)."""
    if max(len(query.shape), 0 if mask is None else np.ndim(mask)) > 4:
        raise NotOfferedError("Keras: dot_product_attention takes four axes")
    ops = keras.ops
    whole = lambda a: ops.reshape(a, (1,) * (4 - len(a.shape)) + tuple(a.shape))
    arrays = [ops.swapaxes(whole(a), 1, 2) for a in (query, key, value)]
    masks = [None if m is None else whole(ops.convert_to_tensor(m)) for m in (bias, mask)]
    scale = None if similarity == "scaled_dot" else 1.0
    mixed = ops.dot_product_attention(*arrays, *masks, scale=scale, is_causal=is_causal)
    return ops.reshape(ops.swapaxes(mixed, 1, 2), (*query.shape[:-1], value.shape[-1]))


def general_attention(keras, query, key, value, weight, *, mask=None):
    """Attention of q W."""
    return attention(keras, keras.ops.matmul(query, weight), key, value, mask=mask, similarity="dot")


def additive_attention(keras, query, key, value, query_weight, key_weight, vector, *, mask=None):
    """layers.AdditiveAttention has v, and neither W_q nor W_k; its mask is of keys alone."""
    if mask is not None or len(query.shape) != 3:
        raise NotOfferedError("Keras: AdditiveAttention takes a batch, and no mask of pairs")
    q, k = keras.ops.matmul(query, query_weight), keras.ops.matmul(key, key_weight)
    layer = keras.layers.AdditiveAttention(use_scale=True, dtype=query.dtype)
    layer.build([q.shape, value.shape, k.shape])
    layer.scale._value = vector
    return layer([q, value, k])


def t5_attention(keras, query, key, value, table, *, bidirectional=True, mask=None):
    """The table's numbers are added to the scores, which are not divided by √d."""
    bias = keras.ops.take(table, t5_buckets(query, key, bidirectional), axis=1)
    return attention(keras, query, key, value, bias, mask=mask, similarity="dot")


def window_attention(keras, query, key, value, *, before, after):
    """There is no window but a mask."""
    ones = np.ones((query.shape[-2], key.shape[-2]), bool)
    return attention(keras, query, key, value, mask=np.triu(np.tril(ones, after), -before))


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


def convolution(keras, x, weight, bias=None, *, stride=1, dilation=1, groups=1, padding=0, padding_mode="zeros"):
    """ops.conv with its channels last; whatever padding goes first."""
    axes, ops = len(weight.shape) - 2, keras.ops
    if groups > 1 or len(x.shape) == axes + 1:
        raise NotOfferedError("Keras: ops.conv takes a batch; TensorFlow's groups have no gradient on a processor")
    if padding_mode in ("circular", "replicate"):
        raise NotOfferedError(f"Keras: ops.pad with TensorFlow knows no mode {padding_mode}")
    strides, dilations = per_axis(stride, axes), per_axis(dilation, axes)
    if max(strides) > 1 and max(dilations) > 1:
        raise NotOfferedError("Keras: a stride or a dilation, not both")
    pairs = same(weight.shape[2:], dilations) if padding == "same" else pairs_of(padding, axes)
    mode = "constant" if padding_mode == "zeros" else "reflect"
    padded = ops.pad(ops.moveaxis(x, 1, -1), [(0, 0), *pairs, (0, 0)], mode)
    kernel = ops.transpose(weight, (*range(2, axes + 2), 1, 0))
    options = {"strides": strides, "dilation_rate": dilations, "data_format": "channels_last"}
    y = ops.moveaxis(ops.conv(padded, kernel, padding="valid", **options), -1, 1)
    return y if bias is None else y + ops.reshape(bias, (-1, *[1] * axes))


def pool(kind: str) -> Callable:
    """ops.average_pool and ops.max_pool, with no padding or "same"."""

    def pooled(keras, x, *, size, stride=None, padding=0, dilation=1, ceil_mode=False, count_include_pad=True):
        if padding != 0 or dilation != 1 or ceil_mode:
            raise NotOfferedError(f"Keras: {kind} knows neither padding by numbers, nor dilation, nor ceil_mode")
        strides = size if stride is None else stride
        function = getattr(keras.ops, kind)
        y = function(keras.ops.moveaxis(x, 1, -1), size, strides, padding="valid", data_format="channels_last")
        return keras.ops.moveaxis(y, -1, 1)

    return pooled


def cross_entropy(
    keras, logits, *, targets, ignore_index=None, class_weights=None, label_smoothing=0.0, reduction="mean"
):
    """losses.SparseCategoricalCrossentropy of logits."""
    if class_weights is not None or label_smoothing:
        raise NotOfferedError("Keras: SparseCategoricalCrossentropy has no such options")
    reduce = {"mean": "mean", "sum": "sum", "none": None}[reduction]
    loss = keras.losses.SparseCategoricalCrossentropy(True, ignore_index, reduction=reduce, dtype=logits.dtype)
    if ignore_index is not None:
        raise NotOfferedError("Keras: ignored rows count in the mean")
    return loss(np.array(targets), logits)


def cross_entropy_of_probabilities(
    keras, logits, targets, *, class_weights=None, label_smoothing=0.0, reduction="mean"
):
    """losses.CategoricalCrossentropy of logits."""
    if class_weights is not None:
        raise NotOfferedError("Keras: CategoricalCrossentropy has no weights for classes")
    reduce = {"mean": "mean", "sum": "sum", "none": None}[reduction]
    options = {"label_smoothing": label_smoothing, "reduction": reduce, "dtype": logits.dtype}
    return keras.losses.CategoricalCrossentropy(True, **options)(targets, logits)


def binary_cross_entropy(keras, logits, targets, *, positive_weight=1.0, reduction="mean"):
    """ops.binary_crossentropy of logits, element by element."""
    if positive_weight != 1:
        raise NotOfferedError("Keras: binary_crossentropy has no weight for positive targets")
    return reduced(keras, keras.ops.binary_crossentropy(targets, logits, from_logits=True), reduction)


def reduced(keras, rows, reduction: str):
    """The mean, the sum, or every element."""
    return rows if reduction == "none" else getattr(keras.ops, reduction)(rows)


def embedding(keras, table, *, tokens, scaled=False):
    """ops.take, as layers.Embedding does."""
    return keras.ops.take(table, np.array(tokens), axis=0) * (math.sqrt(table.shape[1]) if scaled else 1)


def over_channels(axes_of: Callable) -> Callable:
    """ops.moments and ops.batch_normalization, as layers.BatchNormalization puts them together."""

    def adapter(keras, x, gain, shift, *, eps=1e-5):
        ops, axes = keras.ops, axes_of(len(x.shape))
        mean, variance = ops.moments(x, axes=axes, keepdims=True)
        wide = lambda a: ops.reshape(a, (-1, *[1] * (len(x.shape) - 2)))
        return (x - mean) * ops.rsqrt(variance + eps) * wide(gain) + wide(shift)

    return adapter


def batch_norm_of_statistics(keras, x, gain, shift, mean, variance, *, eps=1e-5):
    """ops.batch_normalization over the axis of channels."""
    return keras.ops.batch_normalization(x, mean, variance, 1, shift, gain, eps)


FUNCTIONS: dict[str, str | Callable] = {
    "erf": "ops.erf",
    "erfc": "ops.erfc",
    "sinh": "ops.sinh",
    "cosh": "ops.cosh",
    "arctan": "ops.arctan",
    "var": divided_by_n("Keras", "ops.var"),
    "std": divided_by_n("Keras", "ops.std"),
    "cumprod": lambda keras, x: keras.ops.cumprod(x, -1),
    "take_along_axis": lambda keras, x, indices: keras.ops.take_along_axis(x, np.array(indices), -1),
    "solve": "ops.solve",
    "inv": "ops.inv",
    "det": "ops.det",
    "slogdet": lambda keras, a: keras.ops.slogdet(a)[1],
    "tril": lambda keras, x, offset=0: keras.ops.tril(x, offset),
    "triu": lambda keras, x, offset=0: keras.ops.triu(x, offset),
    "diagonal": lambda keras, x, offset=0: keras.ops.diagonal(x, offset),
    "relu": "ops.relu",
    "leaky_relu": lambda keras, x, slope=0.01: keras.ops.leaky_relu(x, slope),
    "elu": "ops.elu",
    "sigmoid": "ops.sigmoid",
    "silu": "ops.silu",
    "softplus": softplus,
    "gelu": lambda keras, x, approximate="none": keras.ops.gelu(x, approximate == "tanh"),
    "softmax": "ops.softmax",
    "log_softmax": "ops.log_softmax",
    "logsumexp": "ops.logsumexp",
    "layer_norm": lambda keras, x, gain, shift, eps=1e-5: keras.ops.layer_normalization(x, gain, shift, epsilon=eps),
    "rms_norm": lambda keras, x, gain, eps: keras.ops.rms_normalization(x, gain, epsilon=eps),
    "instance_norm": over_channels(lambda axes: list(range(2, axes))),
    "batch_norm": over_channels(lambda axes: [0, *range(2, axes)]),
    "batch_norm of statistics": batch_norm_of_statistics,
    "linear": lambda keras, x, weight, bias=None: keras.ops.matmul(x, weight) + (0 if bias is None else bias),
    "matmul": "ops.matmul",
    "embedding": embedding,
    "attention": attention,
    "general_attention": general_attention,
    "additive_attention": additive_attention,
    "learned_positions": lambda keras, x, weight, places: x + embedding(keras, weight, tokens=places),
    "t5_attention": t5_attention,
    "causal_attention": lambda keras, *arrays: attention(keras, *arrays, is_causal=True),
    "window_attention": window_attention,
    "multi_head": multi_head,
    "multi_head_widths": multi_head,
    "convolution": convolution,
    "average_pool": pool("average_pool"),
    "max_pool": pool("max_pool"),
    "binary_cross_entropy": binary_cross_entropy,
    "cross_entropy": cross_entropy,
    "cross_entropy of probabilities": cross_entropy_of_probabilities,
}
_, convention = rows_of("Keras")
KNOWN: tuple[KnownDefect, ...] = (
    convention("NaN behind a mask comes through",
        "dot_product_attention multiplies masked values by 0: NaN and infinity stay",
        "attention/*", parts=attending(hidden="selected")),
    convention("a fully masked row gives the mean of all values",
        "dot_product_attention: a query that may attend to nothing gets the mean of all values, not 0",
        "attention/*", parts=attending(no_keys="mean")),
    *known_kernels("Keras"),
)  # fmt: skip
