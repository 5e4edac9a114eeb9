"""JAX's own functions on refnp's cases, with its conventions turned into refnp's.

What differs: jax.nn.gelu is the tanh form unless told otherwise; jax.nn.dot_product_attention wants the heads before
the features, (B, N, H, d), and keys and values of one width. Layers that JAX leaves to other libraries (multi-head
attention, set convolution, …) are not judged; layer norm is `jax.nn.standardize`, gain and shift applied outside.
float64 is switched on for these calls alone.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.verify.case import Answer, Problem
from refnp.verify.equations.convolution import pairs_of, per_axis
from refnp.verify.frameworks import NotOfferedError

NAME = "JAX"


def installed() -> bool:
    """True if JAX can be imported."""
    return importlib.util.find_spec("jax") is not None


def version() -> str:
    """The version; JAX is not imported for it."""
    return importlib.metadata.version("jax")


def answer(problem: Problem) -> Answer:
    """JAX's output and gradients, as arrays. Raises NotOfferedError if it has no such function."""
    import jax

    layer = problem.case.layer.name
    if layer not in LAYERS:
        raise NotOfferedError(f"JAX has no {layer}")

    @jax.jit
    def run(arrays: list, cotangent: Any) -> Any:
        output, pullback = jax.vjp(lambda *given: LAYERS[layer](*given, **problem.case.options), *arrays)
        return output, pullback(cotangent)

    with jax.enable_x64(True):
        output, bars = run(list(problem.arrays.values()), problem.cotangent)
    found = {"output": np.asarray(output)}
    gradients = dict(zip(problem.arrays, bars, strict=True))
    names = [quantity.removeprefix("gradient of ") for quantity in problem.case.quantities[1:]]
    return found | {f"gradient of {name}": np.asarray(gradients[name]) for name in names}


def nn(name: str) -> Callable:
    """jax.nn.<name> as it is."""

    def call(*arrays: Any, **options: Any) -> Any:
        import jax

        return getattr(jax.nn, name)(*arrays, **options)

    return call


def special(name: str) -> Callable:
    """jax.scipy.special.<name> as it is."""

    def call(x: Any) -> Any:
        import jax

        return getattr(jax.scipy.special, name)(x)

    return call


def leaky_relu(x, *, slope=0.01):
    """jax.nn.leaky_relu."""
    return nn("leaky_relu")(x, negative_slope=slope)


def gelu(x, *, approximate="none"):
    """jax.nn.gelu, told which form is meant: its default is the tanh form."""
    return nn("gelu")(x, approximate=approximate == "tanh")


def layer_norm(x, gain, shift, *, eps=1e-5):
    """jax.nn.standardize, with gain and shift applied as flax does."""
    return nn("standardize")(x, epsilon=eps) * gain + shift


def linear(x, weight, bias=None):
    """x @ weight + bias."""
    y = x @ weight
    return y if bias is None else y + bias


def matmul(x, y):
    """x @ y."""
    return x @ y


def embedding(table, *, tokens, scaled=False):
    """jax.numpy.take of rows."""

    import jax.numpy as jnp

    rows = jnp.take(table, np.asarray(tokens), axis=0)
    return rows * math.sqrt(table.shape[1]) if scaled else rows


def attention(query, key, value, bias=None, *, mask=None, similarity="scaled_dot", is_causal=False):
    """(..., H, N, d) as (B, N, H, d), the order that dot_product_attention wants."""
    if value.shape[-1] != key.shape[-1]:
        raise NotOfferedError("JAX: dot_product_attention wants values as wide as keys")
    if query.ndim > 4 or not query.ndim == key.ndim == value.ndim or query.shape[:-2] != key.shape[:-2]:
        raise NotOfferedError("JAX: dot_product_attention does not broadcast over axes in front")
    arrays = [a.reshape((1,) * (4 - a.ndim) + a.shape).swapaxes(1, 2) for a in (query, key, value)]
    masks = [None if m is None else m.reshape((1,) * (4 - m.ndim) + m.shape) for m in (bias, mask)]
    scale = None if similarity == "scaled_dot" else 1.0
    mixed = nn("dot_product_attention")(*arrays, *masks, scale=scale, is_causal=is_causal)
    return mixed.swapaxes(1, 2).reshape(*query.shape[:-1], value.shape[-1])


def causal_attention(query, key, value):
    """`attention` with is_causal."""
    return attention(query, key, value, is_causal=True)


def convolution(x, weight, bias=None, *, stride=1, dilation=1, groups=1, padding=0, padding_mode="zeros"):
    """jax.lax.conv_general_dilated, channels first; for modes other than zeros, jax.numpy.pad goes first."""
    import jax

    axes = weight.ndim - 2
    stride, dilation, pairs = per_axis(stride, axes), per_axis(dilation, axes), pairs_of(padding, axes)
    if padding_mode != "zeros":
        mode = {"circular": "wrap", "reflect": "reflect", "replicate": "edge"}[padding_mode]
        x, pairs = jax.numpy.pad(x, [(0, 0), (0, 0), *pairs], mode=mode), [(0, 0)] * axes
    options = {"rhs_dilation": dilation, "feature_group_count": groups}
    y = jax.lax.conv_general_dilated(x, weight, stride, pairs, **options)
    return y if bias is None else y + bias.reshape(-1, *[1] * axes)


def convolution_transpose(x, weight, bias=None, *, stride=1, dilation=1, groups=1, padding=0, output_padding=0):
    """jax.lax.conv_transpose, whose padding is that of the walk over the stretched input: d (k − 1) − a."""
    import jax

    if groups > 1:
        raise NotOfferedError("JAX: conv_transpose knows no groups")
    axes = weight.ndim - 2
    stride, dilation, extra = per_axis(stride, axes), per_axis(dilation, axes), per_axis(output_padding, axes)
    reach = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    padded = zip(reach, pairs_of(padding, axes), extra, strict=True)
    pairs = [(r - before, r - after + e) for r, (before, after), e in padded]
    names = ("NC" + "DHW"[-axes:], "OI" + "DHW"[-axes:], "NC" + "DHW"[-axes:])
    y = jax.lax.conv_transpose(
        x, weight, stride, pairs, rhs_dilation=dilation, dimension_numbers=names, transpose_kernel=True
    )
    return y if bias is None else y + bias.reshape(-1, *[1] * axes)


def average_pool(x, *, size, stride=None, padding=0):
    """Sums over windows, divided by their size."""

    import jax

    total, count = window_reduction(x, 0.0, jax.lax.add, size, stride, padding)
    return total / count


def max_pool(x, *, size, stride=None, padding=0):
    """Maxima over windows, with −∞ around."""

    import jax

    return window_reduction(x, -math.inf, jax.lax.max, size, stride, padding)[0]


def window_reduction(x, start, combine, size, stride, padding):
    """jax.lax.reduce_window over the axes of space, and the number of elements in a window."""
    import jax

    axes = x.ndim - 2
    sizes = per_axis(size, axes)
    strides = sizes if stride is None else per_axis(stride, axes)
    pairs = [(0, 0), (0, 0), *pairs_of(padding, axes)]
    return jax.lax.reduce_window(x, start, combine, (1, 1, *sizes), (1, 1, *strides), pairs), math.prod(sizes)


def normal_log_prob(y, mean, std):
    """jax.scipy.stats.norm.logpdf."""

    import jax

    return jax.scipy.stats.norm.logpdf(y, mean, std)


LAYERS: dict[str, Callable] = {
    "relu": nn("relu"),
    "leaky_relu": leaky_relu,
    "elu": nn("elu"),
    "sigmoid": nn("sigmoid"),
    "silu": nn("silu"),
    "softplus": nn("softplus"),
    "gelu": gelu,
    "erf": special("erf"),
    "erfc": special("erfc"),
    "softmax": nn("softmax"),
    "log_softmax": nn("log_softmax"),
    "logsumexp": nn("logsumexp"),
    "layer_norm": layer_norm,
    "linear": linear,
    "matmul": matmul,
    "embedding": embedding,
    "attention": attention,
    "causal_attention": causal_attention,
    "convolution": convolution,
    "convolution_transpose": convolution_transpose,
    "average_pool": average_pool,
    "max_pool": max_pool,
    "normal_log_prob": normal_log_prob,
}
