"""TensorFlow: what each layer is called there, and what it is known for. Images have their channels last there."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np

from refnp.verify.case import KnownDefect, NotOfferedError, beside
from refnp.verify.frameworks.shared import from_rows, over_channels, rows_of, softplus_by, walk, without
from refnp.verify.layers.activations import GELU_TANH_TAIL, PRINTED_SIGMOID, printed_elu
from refnp.verify.layers.convolution import per_axis
from refnp.verify.layers.engine import divided_cumprod, divided_std
from refnp.verify.layers.normalization import FOLDED
from refnp.verify.layers.softmax import JAX_LOG_SOFTMAX, PRINTED_LOGARITHM, SOFTMAX_VJP, printed_logsumexp

LAYOUTS = {1: "NWC", 2: "NHWC", 3: "NDHWC"}


def last(tf, x):
    """(B, C, *lengths) → (B, *lengths, C)."""
    return tf.transpose(x, [0, *range(2, len(x.shape)), 1])


def first(tf, x):
    """(B, *lengths, C) → (B, C, *lengths)."""
    return tf.transpose(x, [0, len(x.shape) - 1, *range(1, len(x.shape) - 1)])


def divided_by_n(framework: str, path: str) -> Callable:
    """A variance or deviation of rows that knows no other divisor than N."""
    return without(f"{framework}: {path} divides by N", ddof=0)(lambda module, x: attrgetter(path)(module)(x, -1))


def scatter(tf, x, updates, *, indices, mode="add"):
    """tensor_scatter_nd_add and tensor_scatter_nd_update take places as pairs."""
    rows = np.broadcast_to(np.arange(len(indices))[:, None], np.shape(indices))
    places = np.stack([rows, np.array(indices)], -1)
    return (tf.tensor_scatter_nd_add if mode == "add" else tf.tensor_scatter_nd_update)(x, places, updates)


def normalized(axes_of: Callable) -> Callable:
    """nn.moments over axes and nn.batch_normalization, as tf's own layers put them together."""

    def adapter(tf, x, gain, shift, *, eps=1e-5):
        mean, variance = tf.nn.moments(x, axes_of(len(x.shape)), keepdims=True)
        gain, shift = (over_channels(a, len(x.shape) - 2) for a in (gain, shift))
        return tf.nn.batch_normalization(x, mean, variance, shift, gain, eps)

    return adapter


def layer_norm(tf, x, gain, shift, *, eps=1e-5):
    """The same over the last axis."""
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, shift, gain, eps)


def batch_norm_of_statistics(tf, x, gain, shift, mean, variance, *, eps=1e-5):
    """nn.batch_normalization with given statistics."""
    mean, variance, shift, gain = (over_channels(a, len(x.shape) - 2) for a in (mean, variance, shift, gain))
    return tf.nn.batch_normalization(x, mean, variance, shift, gain, eps)


def convolution_by(framework: str, batch: str, pads: str, both: str, convolved: Callable) -> Callable:
    """A convolution without groups, with its channels last; whatever padding goes first.

    `convolved(module, x, pairs, mode, kernel, strides, dilations)` puts so many places before and after each axis, and
    convolves without padding. The three texts say what is not offered.
    """

    def convolution(module, x, weight, bias=None, *, stride=1, dilation=1, padding=0, padding_mode="zeros"):
        axes, strides, dilations, pairs = walk(x, weight, stride, dilation, padding, f"{framework}: {batch}")
        if padding_mode in ("circular", "replicate"):
            raise NotOfferedError(f"{framework}: {pads} knows no mode {padding_mode}")
        if max(strides) > 1 and max(dilations) > 1:
            raise NotOfferedError(f"{framework}: {both}")
        y = convolved(module, x, [(0, 0), *pairs, (0, 0)], padding_mode, weight, strides, dilations)
        return y if bias is None else y + over_channels(bias, axes)

    return without(f"{framework}: {batch}", groups=1)(convolution)


def convolved(tf, x, pairs, padding_mode, weight, strides, dilations):
    """nn.convolution."""
    axes = len(strides)
    padded = tf.pad(last(tf, x), list(map(list, pairs)), "CONSTANT" if padding_mode == "zeros" else "REFLECT")
    kernel = tf.transpose(weight, [*range(2, axes + 2), 1, 0])
    options = {"dilations": list(dilations), "data_format": LAYOUTS[axes]}
    return first(tf, tf.nn.convolution(padded, kernel, list(strides), "VALID", **options))


def pool_by(framework: str, kind: str, pooled: Callable[[Any, Any, list, list], Any]) -> Callable:
    """Pooling without padding, of windows and steps for each axis."""

    def pool(module, x, *, size, stride=None):
        sizes = list(per_axis(size, len(x.shape) - 2))
        return pooled(module, x, sizes, sizes if stride is None else list(per_axis(stride, len(sizes))))

    why = f"{framework}: {kind} knows neither padding by numbers, nor dilation, nor ceil_mode"
    others = without(why, padding=0, dilation=1, ceil_mode=False)(pool)
    return lambda module, x, count_include_pad=True, **options: others(module, x, **options)  # where there is none


def pool(kind: str) -> Callable:
    """nn.avg_pool and nn.max_pool."""

    def pooled(tf, x, sizes, strides):
        layout = LAYOUTS[len(sizes)]
        return first(tf, getattr(tf.nn, kind)(last(tf, x), sizes, strides, "VALID", data_format=layout))

    return pool_by("TensorFlow", kind, pooled)


LACKS = {"ignore_index": None, "class_weights": None, "label_smoothing": 0.0}


@without("TensorFlow: sparse_softmax_cross_entropy_with_logits has no such options", **LACKS)
def cross_entropy(tf, logits, *, targets, reduction="mean"):
    """nn.sparse_softmax_cross_entropy_with_logits, a number for each row."""
    rows = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=np.array(targets), logits=logits)
    return reduced(tf, rows, reduction)


@without("TensorFlow: softmax_cross_entropy_with_logits has no such options", **LACKS)
def cross_entropy_of_probabilities(tf, logits, targets, *, reduction="mean"):
    """nn.softmax_cross_entropy_with_logits."""
    return reduced(tf, tf.nn.softmax_cross_entropy_with_logits(labels=targets, logits=logits), reduction)


def binary_cross_entropy(tf, logits, targets, *, positive_weight=1.0, reduction="mean"):
    """nn.sigmoid_cross_entropy_with_logits, or the weighted one."""
    if positive_weight == 1:
        rows = tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits)
    else:
        rows = tf.nn.weighted_cross_entropy_with_logits(labels=targets, logits=logits, pos_weight=positive_weight)
    return reduced(tf, rows, reduction)


def reduced(tf, rows, reduction: str):
    """The mean, the sum, or every row."""
    return {"mean": tf.reduce_mean, "sum": tf.reduce_sum, "none": tf.identity}[reduction](rows)


BATCH = "nn.convolution takes a batch; groups have no gradient on a processor"
STEPS = "nn.convolution has a stride or a dilation, not both"
FUNCTIONS: dict[str, str | Callable] = {
    **{name: f"math.{name}" for name in ("erf", "erfc", "sinh", "cosh", "sigmoid")},
    **{name: f"linalg.{name}" for name in ("solve", "inv", "det")},
    **{name: f"nn.{name}" for name in ("relu", "silu", "softmax", "log_softmax")},
    "arctan": "math.atan",
    "logsumexp": "math.reduce_logsumexp",
    "matmul": "matmul",
    "var": divided_by_n("TensorFlow", "math.reduce_variance"),
    "std": divided_by_n("TensorFlow", "math.reduce_std"),
    "cumprod": lambda tf, x: tf.math.cumprod(x, -1),
    "take_along_axis": lambda tf, x, indices: tf.gather(x, np.array(indices), axis=-1, batch_dims=1),
    "scatter": scatter,
    "slogdet": lambda tf, a: tf.linalg.slogdet(a)[1],
    "cholesky_solve": lambda tf, factor, b: tf.linalg.cholesky_solve(tf.linalg.band_part(factor, -1, 0), b),
    "diagonal": lambda tf, x, offset=0: tf.linalg.diag_part(x, k=offset),
    "leaky_relu": lambda tf, x, slope=0.01: tf.nn.leaky_relu(x, slope),
    "elu": without("TensorFlow: nn.elu has no α", alpha=1.0)(lambda tf, x: tf.nn.elu(x)),
    "softplus": softplus_by("TensorFlow", "math.softplus"),
    "gelu": lambda tf, x, approximate="none": tf.nn.gelu(x, approximate == "tanh"),
    "layer_norm": layer_norm,
    "instance_norm": normalized(lambda axes: list(range(2, axes))),
    "batch_norm": normalized(lambda axes: [0, *range(2, axes)]),
    "batch_norm of statistics": batch_norm_of_statistics,
    "linear": lambda tf, x, weight, bias=None: tf.matmul(x, weight) if bias is None else tf.matmul(x, weight) + bias,
    **from_rows(lambda tf, table, tokens: tf.nn.embedding_lookup(table, tokens)),
    "convolution": convolution_by("TensorFlow", BATCH, "pad", STEPS, convolved),
    "average_pool": pool("avg_pool"),
    "max_pool": pool("max_pool"),
    "binary_cross_entropy": binary_cross_entropy,
    "cross_entropy": cross_entropy,
    "cross_entropy of probabilities": cross_entropy_of_probabilities,
}


def known_kernels(framework: str) -> tuple[KnownDefect, ...]:
    """What TensorFlow's own functions are known for, under the name of whoever calls them."""
    defect, _, also = rows_of(framework)
    known = (
        defect("float64: constants in float32",
            "√2 of gelu, α of leaky_relu and 1/√d of attention in heads are rounded to float32, also for float64",
            "gelu/*, leaky_relu/*, multi_head*, attention/*", dtypes="float64", computed_in="float32"),
        defect("cumprod: gradient at a zero",
            "cumprod's gradient divides by x, and takes 0 where x is 0, where it is the product of the others",
            "cumprod/zeros", "gradient of x", equation=divided_cumprod),
        defect("det: no gradient if singular",
            "det's gradient inverts the matrix, and raises for a singular one, whose cofactors are a gradient",
            "det/singular*", fails=True),
        defect("std: gradient 0/0", "std's gradient divides by std: NaN where all numbers are equal",
            "std/equal numbers", equation=divided_std),
        defect("elu: exp(x) - 1", "elu as exp(x) − 1, and its gradient as y + 1: both cancel",
            "elu/*", equation=printed_elu),
        defect("sigmoid: gradient by 1 - σ",
            "sigmoid's gradient forms 1 − σ with σ rounded to 1: nothing left in the right tail",
            "sigmoid/far right, silu/far right", "gradient of x", parts=PRINTED_SIGMOID),
        also("gelu/tanh*", GELU_TANH_TAIL),
        also("log_softmax/*", JAX_LOG_SOFTMAX, quantities=()),
        also("softmax/*", SOFTMAX_VJP),
        defect("logsumexp of -inf: NaN gradient", "its gradient is NaN for −inf alone",
            "logsumexp/-inf alone", equation=printed_logsumexp),
        defect("batch_normalization: x s + (β - μ s)",
            "where ε is far above the variance, or x far from 0, x γ/s + (β − μ γ/s) cancels",
            "layer_norm/*, batch_norm/*, instance_norm/*", parts=FOLDED),
        defect("cross entropy: log of the sum", "log Σ exp − z_t: a loss near 0, and its gradients, become 0",
            "cross_entropy/*, cross_entropy of probabilities/*", parts=PRINTED_LOGARITHM),
    )  # fmt: skip
    constants, *_ = known
    return (*known, *beside(constants, *(other for other in known if other.issue.startswith("gelu"))))


KNOWN: tuple[KnownDefect, ...] = known_kernels("TensorFlow")
