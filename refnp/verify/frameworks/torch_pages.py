"""Which page of refnp repeats which operation of PyTorch, and what its arguments are called there.

    PAGES        {operation: (page, the page's names of the operation's arguments in their order)}; "_" is none
    MOVED        operations that only move numbers, or put given ones between
    DECIDED      operations whose results are given, or moved by rounding in whole steps: taken as the model made them

The names are those of `torch.ops.aten`, which every function of `torch` and `torch.nn.functional` comes down to. What
stands in none of the tables is repeated by the steps that PyTorch itself takes it apart into.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp import layers


class NotTracedError(Exception):
    """What the model does cannot be repeated; the message says why."""


def scaled(x: Any, factor: float) -> Any:
    """factor · x."""
    return x if factor == 1 else x * float(factor)


def quotient(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    """x / y."""
    if rounding_mode is not None:
        raise NotTracedError("a quotient that is rounded to whole numbers")
    return ag.divide(x, y)


def added_product(term: Any, x: Any, y: Any, beta: float = 1, alpha: float = 1) -> Any:
    """β · term + α · x y."""
    return scaled(term, beta) + scaled(ag.matmul(x, y), alpha)


def variance(x: Any, axis: Any = None, correction: Any = None, keepdims: bool = False) -> Any:
    """Σ (x − μ)²/(n − correction)."""
    away = x - ag.mean(x, axis=axis, keepdims=True)
    axes = range(x.ndim) if axis is None else axis
    count = math.prod(x.shape[i] for i in axes) - (1 if correction is None else correction)
    return ag.sum(away * away, axis=axis, keepdims=keepdims) / float(count)


def length(x: Any, order: float = 2, axis: Any = None, keepdims: bool = False) -> Any:
    """‖x‖ of order 2, 1 or ∞."""
    size = ag.absolute(x)
    if order == 2:
        return ag.norm(x, axis=axis, keepdims=keepdims)
    if order in (1, math.inf):
        return (ag.sum if order == 1 else ag.max)(size, axis=axis, keepdims=keepdims)
    return ag.power(ag.sum(ag.power(size, float(order)), axis=axis, keepdims=keepdims), 1 / float(order))


def distances(x: Any, y: Any, order: float = 2, mode: Any = None) -> Any:
    """‖x_i − y_j‖."""
    if order == 2 and mode != 2 and max(x.shape[-2], y.shape[-2]) > 25:
        raise NotTracedError("cdist of more than 25 points expands |x − y|², which cancels")
    return length(x[..., :, None, :] - y[..., None, :, :], order, -1)


def normalised(x: Any, shape: Any, gain: Any = 1.0, shift: Any = 0.0, eps: float = 1e-5) -> Any:
    """LayerNorm over the last axes."""
    return layers.layer_norm(x, gain, shift, axis=tuple(range(-len(shape), 0)), eps=eps)


def root_normalised(x: Any, shape: Any, gain: Any = 1.0, eps: float | None = None) -> Any:
    """RMSNorm over the last axes."""
    if eps is None:
        raise NotTracedError("rms_norm without eps, which then depends on the precision")
    return layers.rms_norm(x, gain, axis=tuple(range(-len(shape), 0)), eps=eps)


def batch_normalised(
    x: Any, gain: Any = 1.0, shift: Any = 0.0, mean: Any = None, variance: Any = None, kept: Any = True, eps: float = 0
) -> Any:
    """By the statistics of the batch where it trains, else by those that were kept."""
    return layers.batch_norm(x, gain, shift, *((None, None) if kept else (mean, variance)), eps=eps)


def convolved(
    x: Any, weight: Any, bias: Any = None, *, transposed: bool = False, output_padding: Any = 0, **options: Any
) -> Any:
    """A convolution, or its adjoint."""
    if transposed:
        return layers.convolution_transpose(x, weight, bias, output_padding=output_padding, **options)
    return layers.convolution(x, weight, bias, **options)


def average_pooled(x: Any, size: Any, divisor: Any = None, **walk: Any) -> Any:
    """The mean of each window."""
    if divisor is not None:
        raise NotTracedError("avg_pool with divisor_override")
    return layers.average_pool(x, size, **walk)


def added_along(x: Any, axis: int, indices: Any, terms: Any, alpha: float = 1) -> Any:
    """x with terms added at places along an axis: index_add, whose places are those of every line, and scatter_add."""
    own, axis = np.arange(x.size).reshape(x.shape), axis % max(x.ndim, 1)
    if indices.ndim != x.ndim:
        return written(x, np.take(own, indices, axis), scaled(terms, alpha), "add")
    lines = np.ogrid[tuple(map(slice, indices.shape))]
    places = own[(*lines[:axis], indices, *lines[axis + 1 :])]
    return written(x, places, scaled(terms[tuple(map(slice, indices.shape))], alpha), "add")


def put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """x[indices] = values, or += values."""
    index = tuple(slice(None) if one is None else one for one in indices)
    places = np.arange(x.size).reshape(x.shape)[index]
    return written(x, places, ag.broadcast_to(values, places.shape), "add" if accumulate else "put")


def written(x: Any, places: np.ndarray, values: Any, mode: str) -> Any:
    """x with values written, or added, at its places."""
    flat = ag.scatter(ag.reshape(x, -1), places.ravel(), ag.reshape(values, -1), mode=mode)
    return ag.reshape(flat, x.shape)


def products_of_groups(x: Any, weights: Any, ends: Any = None) -> Any:
    """The rows of each group by the weight of the group."""
    if ends is None or x.ndim != 2:
        raise NotTracedError("_grouped_mm of other shapes than rows in groups")
    starts = [0, *ends[:-1]]
    groups = zip(starts, ends, strict=True)
    return ag.concatenate([ag.matmul(x[i:j], weights[k]) for k, (i, j) in enumerate(groups)])


def triangular(a: Any, b: Any, upper: bool, left: bool, unit: bool) -> Any:
    """L⁻¹ b."""
    if upper or unit or not left:
        raise NotTracedError("solve_triangular of other matrices than lower ones on the left")
    return ag.triangular_solve(a, b)


def complex_product(x: Any, y: Any) -> Any:
    """(a + ib)(c + id); the last axis holds both parts."""
    a, b, c, d = x[..., 0], x[..., 1], y[..., 0], y[..., 1]
    return ag.stack([a * c - b * d, a * d + b * c], -1)


POOLED = "x size stride padding dilation ceil_mode"
PAGES: dict[str, tuple[Callable, str]] = {
    **{name: (getattr(ag, name), "x") for name in ("exp", "expm1", "log", "log1p", "sqrt", "tanh", "sin", "cos")},
    **{name: (getattr(ag, name), "x") for name in ("sinh", "cosh", "erf", "erfc")},
    **{name: (getattr(layers, name), "x") for name in ("sigmoid", "silu", "relu")},
    "neg": (ag.negative, "x"),
    "abs": (ag.absolute, "x"),
    "atan": (ag.arctan, "x"),
    "square": (lambda x: x * x, "x"),
    "reciprocal": (lambda x: 1 / x, "x"),
    "rsqrt": (lambda x: 1 / ag.sqrt(x), "x"),
    "exp2": (lambda x: ag.exp(x * np.log(np.longdouble(2))), "x"),
    "log2": (lambda x: ag.log(x) / np.log(np.longdouble(2)), "x"),
    "log10": (lambda x: ag.log(x) / np.log(np.longdouble(10)), "x"),
    "add": (lambda x, y, alpha=1: ag.add(x, scaled(y, alpha)), "x y alpha"),
    "sub": (lambda x, y, alpha=1: ag.subtract(x, scaled(y, alpha)), "x y alpha"),
    "rsub": (lambda x, y, alpha=1: ag.subtract(y, scaled(x, alpha)), "x y alpha"),
    "mul": (ag.multiply, "x y"),
    "div": (quotient, "x y rounding_mode"),
    "pow": (ag.power, "x exponent"),
    **{name: (getattr(ag, name), "x y") for name in ("maximum", "minimum", "remainder")},
    "tan": (lambda x: ag.sin(x) / ag.cos(x), "x"),
    "hypot": (lambda x, y: ag.sqrt(x * x + y * y), "x y"),
    "atan2": (ag.arctan2, "y x"),
    **dict.fromkeys(("clamp", "hardtanh"), (ag.clip, "x low high")),
    "clamp_min": (ag.clip, "x low"),
    "clamp_max": (ag.clip, "x high"),
    **dict.fromkeys(("mm", "bmm", "mv", "dot"), (ag.matmul, "x y _")),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), (added_product, "term x y beta alpha")),
    **{name: (getattr(ag, name), "x axis keepdims _") for name in ("sum", "mean", "prod")},
    "amax": (ag.max, "x axis keepdims"),
    "amin": (ag.min, "x axis keepdims"),
    "logsumexp": (ag.logsumexp, "x axis keepdims"),
    "var": (variance, "x axis correction keepdims"),
    "std": (lambda x, **axes: ag.sqrt(variance(x, **axes)), "x axis correction keepdims"),
    "linalg_vector_norm": (length, "x order axis keepdims _"),
    "_cdist_forward": (distances, "x y order mode"),
    "cumsum": (ag.cumsum, "x axis _"),
    "cumprod": (ag.cumprod, "x axis _"),
    **dict.fromkeys(("_softmax", "_safe_softmax"), (layers.softmax, "x axis _")),
    "_log_softmax": (layers.log_softmax, "x axis _"),
    "gelu": (layers.gelu, "x approximate"),
    "leaky_relu": (layers.leaky_relu, "x slope"),
    "softplus": (layers.softplus, "x beta threshold"),
    "native_layer_norm": (normalised, "x shape gain shift eps"),
    "_fused_rms_norm": (root_normalised, "x shape gain eps"),
    "native_group_norm": (layers.group_norm, "x gain shift _ _ _ groups eps"),
    "native_batch_norm": (batch_normalised, "x gain shift mean variance kept _ eps"),
    "convolution": (convolved, "x weight bias stride padding dilation transposed output_padding groups"),
    **dict.fromkeys(
        ("max_pool1d", "max_pool2d_with_indices", "max_pool3d_with_indices"), (layers.max_pool, POOLED)
    ),
    **dict.fromkeys(
        ("avg_pool2d", "avg_pool3d"), (average_pooled, "x size stride padding ceil_mode count_include_pad divisor")
    ),
    **dict.fromkeys(("_adaptive_avg_pool2d", "_adaptive_avg_pool3d"), (layers.adaptive_average_pool, "x size")),
    **dict.fromkeys(("adaptive_max_pool2d", "adaptive_max_pool3d"), (layers.adaptive_max_pool, "x size")),
    **dict.fromkeys(("scatter_add", "index_add"), (added_along, "x axis indices terms alpha")),
    **dict.fromkeys(("index_put", "_unsafe_index_put", "_index_put_impl"), (put, "x indices values accumulate _")),
    # another type rounds, which is an error of the model and not of refnp's
    **dict.fromkeys(("_to_copy", "convert_element_type"), (lambda x: x, "x _ _ _ _ _ _")),
    "_grouped_mm": (products_of_groups, "x weights ends"),
    "max": (ag.max, "x"),
    "min": (ag.min, "x"),
    "linalg_cholesky_ex": (ag.cholesky, "a _ _"),
    "linalg_solve_triangular": (triangular, "a b upper left unit"),
    "_linalg_det": (ag.det, "a"),
    "_linalg_solve_ex": (ag.solve, "a b _ _"),
    "linalg_inv_ex": (ag.inv, "a _"),
    "complex mul": (complex_product, "x y"),
    "complex add": (ag.add, "x y _"),
    "complex sub": (ag.subtract, "x y _"),
    "polar": (lambda r, t: ag.stack([r * ag.cos(t), r * ag.sin(t)], -1), "r t"),
    "complex": (lambda a, b: ag.stack([a, b], -1), "a b"),
}  # fmt: skip
CHOSEN = {  # of the elements along an axis, whose places are the second result
    "topk": "x _ axis _ _", "sort": "x axis _", "max": "x axis keepdims", "min": "x axis keepdims",
    "median": "x axis keepdims", "kthvalue": "x _ axis keepdims", "mode": "x axis keepdims", "cummax": "x axis",
    "cummin": "x axis",
}  # fmt: skip
MOVED = {
    "clone", "copy", "cat", "stack", "index", "_unsafe_index", "index_select", "gather", "take", "repeat", "roll",
    "flip", "rot90", "tril", "triu", "masked_select", "embedding", "constant_pad_nd", "reflection_pad1d",
    "reflection_pad2d", "replication_pad1d", "replication_pad2d", "im2col", "pixel_shuffle", "pixel_unshuffle",
    "channel_shuffle", "where", "masked_fill", "masked_scatter", "scatter", "index_fill", "index_copy",
    "select_scatter", "slice_scatter", "diagonal_scatter", "diag_embed", "fill", "zero", "split_with_sizes_copy",
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
}  # fmt: skip
DECIDED = {
    "floor", "ceil", "round", "trunc", "sign", "sgn", "heaviside", "full_like", "new_full",
}  # fmt: skip
VALUES = {"self", "other", "src", "source", "tensors", "tensor", "value", "values", "input", "weight"}  # that are moved
