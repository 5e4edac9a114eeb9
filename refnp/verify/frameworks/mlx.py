"""MLX: what each layer is called there, and what it is known for. Images and signals have their channels last there."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.layers.upsampling import coordinates
from refnp.numbers import rounding
from refnp.numbers.words import peak
from refnp.verify.case import KnownDefect, NotOfferedError, beside
from refnp.verify.frameworks.shared import (
    four_axes,
    from_attention,
    from_multi_head,
    from_rows,
    over_channels,
    rows_of,
    softplus_by,
    walk,
    without,
)
from refnp.verify.layers.activations import GELU_TANH_TAIL, PRINTED_SIGMOID, printed_elu, printed_gelu
from refnp.verify.layers.attention import JAX_MASKED_NAN, JAX_MASKED_ROW, attending
from refnp.verify.layers.convolution import per_axis
from refnp.verify.layers.engine import divided_std
from refnp.verify.layers.losses import OF_PROBABILITIES, printed_binary_cross_entropy
from refnp.verify.layers.multi_head import maps_of
from refnp.verify.layers.pooling import centred
from refnp.verify.layers.softmax import JAX_LOG_SOFTMAX, PRINTED_LOGARITHM, SOFTMAX_VJP, printed_logsumexp


def last(x: Any) -> Any:
    """(B, C, *lengths) → (B, *lengths, C)."""
    return x.moveaxis(1, -1)


def first(x: Any) -> Any:
    """(B, *lengths, C) → (B, C, *lengths)."""
    return x.moveaxis(-1, 1)


def scatter(mlx, x, updates, *, indices, mode="add"):
    """`x.at[…].add` and put_along_axis."""
    indices = mlx.core.array(np.array(indices))
    if mode == "put":
        return mlx.core.put_along_axis(x, indices, updates, axis=-1)
    return x.at[mlx.core.arange(len(indices))[:, None], indices].add(updates)


def of_module(module: Any, gain: Any, shift: Any) -> Callable:
    """A normalization with its weight and bias."""
    module.weight, module.bias = gain, shift
    return lambda x: first(module(last(x)))


def group_norm(mlx, x, gain, shift, *, groups, eps=1e-5):
    """nn.GroupNorm groups neighbouring channels only if it is asked to be PyTorch's."""
    return of_module(mlx.nn.GroupNorm(groups, len(gain), eps, pytorch_compatible=True), gain, shift)(x)


def instance_norm(mlx, x, gain, shift, *, eps=1e-5):
    """nn.InstanceNorm."""
    return of_module(mlx.nn.InstanceNorm(len(gain), eps, affine=True), gain, shift)(x)


def batch_norm(mlx, x, gain, shift, mean=None, variance=None, *, eps=1e-5):
    """nn.BatchNorm in training, or with given statistics in evaluation."""
    module = mlx.nn.BatchNorm(len(gain), eps)
    if mean is not None:
        module.running_mean, module.running_var = mean, variance
        module.eval()
    return of_module(module, gain, shift)(x)


def linear(mlx, x, weight, bias=None):
    """nn.Linear, which keeps the transpose."""
    module = mlx.nn.Linear(*weight.shape, bias=bias is not None)
    module.weight = weight.T
    if bias is not None:
        module.bias = bias
    return module(x)


def rows(mlx, table, tokens):
    """nn.Embedding."""
    module = mlx.nn.Embedding(*table.shape)
    module.weight = table
    return module(mlx.core.array(tokens))


def added(mlx, bias, mask):
    """A mask of booleans as it is; a bias, with −∞ where the mask hides."""
    allowed = None if mask is None else mlx.core.array(np.array(mask))
    if bias is None or allowed is None:
        return allowed if bias is None else bias
    return mlx.core.where(allowed, bias, mlx.core.array(-math.inf, bias.dtype))


def attention(mlx, query, key, value, bias=None, *, mask=None, similarity="scaled_dot"):
    """fast.scaled_dot_product_attention takes one mask of (B, H, N, M): a bias with −∞ where the mask hides."""
    allowed = added(mlx, bias, mask)
    if max(query.ndim, 3 if allowed is None else allowed.ndim) > 4:
        raise NotOfferedError("MLX: scaled_dot_product_attention takes four axes")
    if allowed is not None and query.ndim == 3 and allowed.ndim == 3:
        allowed = allowed[None]
    scale = query.shape[-1] ** -0.5 if similarity == "scaled_dot" else 1.0
    mixed = mlx.core.fast.scaled_dot_product_attention(*four_axes(query, key, value), scale=scale, mask=allowed)
    return mixed.reshape(*query.shape[:-1], value.shape[-1])


def causal_attention(mlx, query, key, value):
    """mask="causal" is aligned bottom right, so with other lengths than refnp's the mask is an array."""
    n, m = query.shape[-2], key.shape[-2]
    mask = "causal" if n == m else mlx.core.array(np.tri(n, m, dtype=bool))
    arrays = four_axes(query, key, value)
    return mlx.core.fast.scaled_dot_product_attention(*arrays, scale=query.shape[-1] ** -0.5, mask=mask)[0, 0]


def rotate(mlx, x, *, places, layout="interleaved", base=10000, features=None):
    """fast.rope has places one after the other."""
    if list(places) != list(range(places[0], places[0] + len(places))):
        raise NotOfferedError("MLX: rope takes places one after the other")
    options = {"traditional": layout == "interleaved", "base": base, "scale": 1.0, "offset": int(places[0])}
    return mlx.core.fast.rope(x, features or x.shape[-1], **options)


def rotary_attention(mlx, query, key, value, *, mask=None, layout="interleaved"):
    """Queries and keys through fast.rope."""
    query, key = (rotate(mlx, x, places=range(x.shape[-2]), layout=layout) for x in (query, key))
    return attention(mlx, query, key, value, mask=mask)


def alibi_attention(mlx, query, key, value, *, mask=None):
    """nn.ALiBi's matrix is added to the scores."""
    sizes = query.shape[-2], key.shape[-2], query.shape[-3]
    bias = mlx.nn.ALiBi.create_alibi_matrix(*sizes, dtype=query.dtype)
    return attention(mlx, query, key, value, bias.reshape(bias.shape[4 - query.ndim :]), mask=mask)


def multi_head(mlx, query, key, value, *parameters, heads, mask=None, bias=None, per_head=False):
    """nn.MultiHeadAttention with refnp's parameters."""
    maps = maps_of(parameters)
    (_, inner), (_, values), (_, out) = (maps[i][0].shape for i in (0, 2, 3))
    widths = [own[0].shape[0] for own in maps[:3]]
    module = mlx.nn.MultiHeadAttention(inner, heads, *widths, values, out, bias=len(maps[0]) > 1)
    for part, own in zip(("query_proj", "key_proj", "value_proj", "out_proj"), maps, strict=True):
        module[part].weight = own[0].T
        if len(own) > 1:
            module[part].bias = own[1]
    allowed = added(mlx, bias, mask)
    if allowed is not None and allowed.ndim == 3:
        allowed = allowed[None] if per_head else allowed[:, None]
    return module(query, key, value, mask=allowed)


def convolution(mlx, x, weight, bias=None, *, stride=1, dilation=1, groups=1, padding=0, padding_mode="zeros"):
    """conv_general takes the padding before and after; other padding than zeros goes first."""
    batch = "MLX: conv_general takes a batch"
    axes, strides, dilations, pairs = walk(x, weight, stride, dilation, padding, batch)
    x = last(x)
    if padding_mode != "zeros":
        if padding_mode == "circular":
            raise NotOfferedError("MLX: pad does not wrap around")
        mode = {"reflect": "reflect", "replicate": "edge"}[padding_mode]
        x, pairs = mlx.core.pad(x, [(0, 0), *pairs, (0, 0)], mode=mode), [(0, 0)] * axes
    edges = tuple(list(side) for side in zip(*pairs, strict=True))
    options = {"stride": strides, "kernel_dilation": dilations, "groups": groups}
    y = first(mlx.core.conv_general(x, last(weight), padding=edges, **options))
    return y if bias is None else y + over_channels(bias, axes)


@without("MLX: conv_transpose takes a batch, and knows no groups", groups=1)
def convolution_transpose(mlx, x, weight, bias=None, *, stride=1, dilation=1, padding=0, output_padding=0):
    """conv_transpose1d to 3d, whose weight is (C_out, *kernel, C_in)."""
    axes, *_ = walk(x, weight, stride, dilation, 0, "MLX: conv_transpose takes a batch, and knows no groups")
    of_axes = lambda n: per_axis(n, axes) if axes > 1 else per_axis(n, axes)[0]
    options = [of_axes(n) for n in (stride, padding, dilation, output_padding)]
    function = getattr(mlx.core, f"conv_transpose{axes}d")
    y = first(function(last(x), weight.swapaxes(0, 1).moveaxis(1, -1), *options))
    return y if bias is None else y + over_channels(bias, axes)


def pool(kind: str) -> Callable:
    """nn.AvgPool1d to MaxPool3d."""
    lacks = "MLX: pooling knows neither dilation nor ceil_mode, and counts all padding"

    @without(lacks, dilation=1, ceil_mode=False, count_include_pad=True)
    def pooled(mlx, x, *, size, stride=None, padding=0):
        return first(getattr(mlx.nn, f"{kind}Pool{x.ndim - 2}d")(size, stride, padding)(last(x)))

    return pooled


def upsample(mlx, x, *, factor=None, size=None, mode="nearest", align_corners=False):
    """nn.Upsample takes factors, and its nearest place for others than whole ones is neither of refnp's."""
    if size is not None:
        if any(p % n for p, n in zip(per_axis(size, x.ndim - 2), x.shape[2:], strict=True)):
            raise NotOfferedError("MLX: Upsample takes a factor, not a size")
        factor = tuple(p / n for p, n in zip(per_axis(size, x.ndim - 2), x.shape[2:], strict=True))
    if mode != "linear" and any(f != int(f) for f in per_axis(factor, x.ndim - 2)):
        raise NotOfferedError("MLX: Upsample's nearest place for such a factor is one of its own")
    mode = "linear" if mode == "linear" else "nearest"
    return first(mlx.nn.Upsample(factor, mode=mode, align_corners=align_corners)(last(x)))


@without("MLX: cross_entropy ignores no target and has no weights for classes", ignore_index=None, class_weights=None)
def cross_entropy(mlx, logits, *, targets, **options):
    """nn.losses.cross_entropy has weights for rows, none for classes."""
    return mlx.nn.losses.cross_entropy(logits, mlx.core.array(targets), **{"reduction": "mean"} | options)


@without("MLX: cross_entropy has no weights for classes", class_weights=None)
def cross_entropy_of_probabilities(mlx, logits, targets, **options):
    """The same function takes both kinds of targets."""
    return mlx.nn.losses.cross_entropy(logits, targets, **{"reduction": "mean"} | options)


@without("MLX: binary_cross_entropy has no weight for positive targets", positive_weight=1.0)
def binary_cross_entropy(mlx, logits, targets, *, reduction="mean"):
    """nn.losses.binary_cross_entropy takes logits unless told otherwise."""
    return mlx.nn.losses.binary_cross_entropy(logits, targets, reduction=reduction)


def gaussian_nll(mlx, mean, std, y, *, reduction="mean"):
    """MLX takes the variance, and leaves out ½ log 2π unless asked for the full density."""
    mean, std = (mlx.core.broadcast_to(x, y.shape) for x in (mean, std))
    return mlx.nn.losses.gaussian_nll_loss(mean, y, std * std, full=True, reduction=reduction)


FUNCTIONS: dict[str, str | Callable] = {
    **{name: f"core.{name}" for name in ("erf", "sinh", "cosh", "arctan", "softmax", "logsumexp", "matmul")},
    **{name: f"core.linalg.{name}" for name in ("solve", "inv", "det")},
    **{name: f"nn.{name}" for name in ("relu", "elu", "sigmoid", "silu", "log_softmax")},
    "mse": "nn.losses.mse_loss",
    "var": lambda mlx, x, ddof=0: mlx.core.var(x, axis=-1, ddof=ddof),
    "std": lambda mlx, x, ddof=0: mlx.core.std(x, axis=-1, ddof=ddof),
    "cumprod": lambda mlx, x: mlx.core.cumprod(x, axis=-1),
    "take_along_axis": lambda mlx, x, indices: mlx.core.take_along_axis(x, mlx.core.array(np.array(indices)), axis=-1),
    "scatter": scatter,
    "tril": lambda mlx, x, offset=0: mlx.core.tril(x, offset),
    "triu": lambda mlx, x, offset=0: mlx.core.triu(x, offset),
    "diagonal": lambda mlx, x, offset=0: mlx.core.diagonal(x, offset),
    "slogdet": lambda mlx, a: mlx.core.linalg.slogdet(a)[1],
    "leaky_relu": lambda mlx, x, slope=0.01: mlx.nn.leaky_relu(x, slope),
    "softplus": softplus_by("MLX", "nn.softplus"),
    "gelu": lambda mlx, x, approximate="none": mlx.nn.gelu_approx(x) if approximate == "tanh" else mlx.nn.gelu(x),
    "layer_norm": lambda mlx, x, gain, shift, eps=1e-5: mlx.core.fast.layer_norm(x, gain, shift, eps),
    "rms_norm": lambda mlx, x, gain, eps: mlx.core.fast.rms_norm(x, gain, eps),
    "group_norm": group_norm,
    "instance_norm": instance_norm,
    **dict.fromkeys(("batch_norm", "batch_norm of statistics"), batch_norm),
    "linear": linear,
    **from_rows(rows),
    **from_attention(attention, lambda mlx, table, places: table[:, mlx.core.array(places)]),
    "causal_attention": causal_attention,
    "rotate": rotate,
    "rotary_attention": rotary_attention,
    "alibi_attention": alibi_attention,
    **from_multi_head(multi_head, lambda mlx, array, q: mlx.core.array(array.astype("float32")).astype(q.dtype)),
    "convolution": convolution,
    "convolution_transpose": convolution_transpose,
    "average_pool": pool("Avg"),
    "max_pool": pool("Max"),
    "upsample": upsample,
    "huber": lambda mlx, *arrays, delta=1.0, reduction="mean": mlx.nn.losses.huber_loss(*arrays, delta, reduction),
    "gaussian_nll": gaussian_nll,
    "cross_entropy": cross_entropy,
    "cross_entropy of probabilities": cross_entropy_of_probabilities,
    "binary_cross_entropy": binary_cross_entropy,
}


def exp_by_powers(x):
    """2^(x log₂ e), the product rounded: off by |x| u beside."""
    z = rounding.exp(x)
    return rounding.Rounded(
        z.value, z.error + np.where(z.value == 0, 0, np.abs(z.value * x.value)), z.lost, z.arithmetic
    )


def shifted_targets(logits, targets, **options):
    """The gradient of the targets is −ℓ̄ (x − m), without log Σ exp(x − m)."""
    y, pullback = OF_PROBABILITIES.equation(logits, targets, **options)
    share = logits.value.size // logits.shape[-1] if options.get("reduction", "mean") == "mean" else 1

    def pulled(g):
        bar = g[..., None] if g.shape else g
        return pullback(g)[0], -(bar / share * (logits - peak(logits)))

    return y, pulled


BY_POWERS = {rounding.exp: exp_by_powers}
defect, convention, also = rows_of("MLX")
OF_EXP = "elu/*, sigmoid/*, silu/*, softplus/*, gelu/*, softmax/*, log_softmax/*, logsumexp/*, erf/*, *cross_entropy*"
OF_ATTENTION = (
    "attention/*, causal_attention/*, window_attention/*, general_attention/*, rotary_attention/*, alibi_attention/*, "
    "t5_attention/*, multi_head*"
)
OWN: tuple[KnownDefect, ...] = (
    also("attention/*", JAX_MASKED_NAN, dtypes=("float32",)),
    convention("NaN behind a mask comes through",
        "the gradient of fast.scaled_dot_product_attention multiplies masked values by 0: NaN and infinity stay",
        "attention/*", "gradient of key", dtypes="float32", parts=attending(hidden="added")),
    also("attention/*", JAX_MASKED_ROW, dtypes=("float32",)),
    convention("a row with −∞ for every key is NaN",
        "fast.scaled_dot_product_attention with an additive mask: softmax of a row of −∞ is 0/0",
        "multi_head_additive_mask/*", dtypes="float32", parts=attending(no_keys="nan")),
    convention("linear places lie around the middle",
        "Upsample by a factor f that leaves n f unwhole takes places that lie evenly around the middle of x, and not "
        "(i + ½)/f − ½",
        "upsample/*", parts={coordinates: centred}),
    defect("ml-explore/mlx#3047",
        "exp, sin, cos, erf, sigmoid and logaddexp of float64, and softmax and logsumexp, have the digits of "
        "float32: exp is off by 2e-7, and is 0 below −88",
        OF_EXP, dtypes="float64", computed_in="float32", parts=BY_POWERS),
    defect("float64: fast.layer_norm and rms_norm in float32",
        "fast.layer_norm and fast.rms_norm of float64 are computed in float32",
        "layer_norm/*, rms_norm/*, group_norm/*, instance_norm/*", dtypes="float64", computed_in="float32"),
    defect("scaled_dot_product_attention: float32 softmax",
        "fast.scaled_dot_product_attention takes its softmax in float32, also of float64, as documented",
        OF_ATTENTION, dtypes="float64", computed_in="float32"),
    defect("float64: fast.rope in float32", "fast.rope of float64 is computed in float32",
        "rotate/*", dtypes="float64", computed_in="float32"),
    defect("float64: convolution in float32",
        "conv1d to conv3d of float64 with stride 1 are computed in float32; with strides they refuse float64",
        "convolution/*, convolution_transpose/*", dtypes="float64", computed_in="float32"),
    defect("float64: Upsample in float32",
        "Upsample takes the places between which it interpolates in float32, also of float64",
        "upsample/*linear*", dtypes="float64", computed_in="float32"),
    defect("erf: 0 near 0",
        "erf of float32 is 0 for |x| below 1e-8 and has lost half its digits at 1e-4, where 2x/√π is right",
        "erf/*", "output", off_by=2.0**-22),
    defect("ml-explore/mlx#1341", "exp of float32 is off by 2e-6 at −60: the rounding of x/log 2 is magnified",
        "elu/far left, sigmoid/far left, silu/far left, softplus/far left, binary_cross_entropy/none", parts=BY_POWERS),
    defect("elu: exp(x) - 1", "elu as exp(x) − 1: it cancels near 0",
        "elu/around zero", "output", equation=printed_elu),
    defect("gelu: 1 + erf", "gelu as x/2 (1 + erf): no digit is left in the left tail",
        "gelu/at -5*, gelu/far left", equation=printed_gelu),
    also("gelu/tanh*", GELU_TANH_TAIL),
    defect("sigmoid: gradient by 1 - σ", "its gradient forms 1 − σ with σ rounded to 1",
        "sigmoid/far right, silu/*", parts=PRINTED_SIGMOID),
    also("softmax/*", SOFTMAX_VJP),
    also("log_softmax/*", JAX_LOG_SOFTMAX, quantities=()),
    defect("logsumexp of -inf: NaN gradient", "logsumexp of −inf alone: its gradient is NaN",
        "logsumexp/-inf alone", equation=printed_logsumexp),
    defect("std: gradient 0/0", "std's gradient divides by std: NaN where all numbers are equal",
        "std/equal numbers", equation=divided_std),
    defect("linalg.solve: no gradient", "the VJP of linalg.solve raises: gather_axis has none for indices",
        "solve/*", fails=True),
    defect("linalg.inv: no gradient", "the VJP of linalg.inv raises: not implemented for Inverse", "inv/*", fails=True),
    defect("linalg.det: no gradient beyond 3 by 3",
        "the VJP of linalg.det and slogdet raises for larger matrices: not implemented for LUF",
        "det/ordinary, slogdet/ordinary", fails=True),
    defect("binary cross-entropy: logaddexp(0, x) - x t",
        "where a prediction is sure and right logaddexp(0, x) − x t cancels, and its gradient is σ(x) − t",
        "binary_cross_entropy/*", equation=printed_binary_cross_entropy),
    defect("binary cross-entropy: logaddexp(0, x) - x t",
        "its gradient takes exp(x − logaddexp(0, x)), and a small one is lost",
        "binary_cross_entropy/none, binary_cross_entropy/tails? no", "gradient of logits"),
    defect("cross_entropy: logsumexp - score",
        "log Σ exp − z_t of the shifted logits: a loss near 0, and its gradient, become 0",
        "cross_entropy/*", parts=PRINTED_LOGARITHM),
    defect("cross_entropy: gradient of probabilities",
        "log Σ exp − Σ q z takes Σ q for 1, with the maximum subtracted from z as a constant: the gradient of q is "
        "off by log Σ exp(z − max)",
        "cross_entropy of probabilities/*", "gradient of targets", equation=shifted_targets),
)  # fmt: skip
IN_FLOAT32 = {known.issue: known for known in OWN if known.computed_in}


def issues(*starts: str) -> list[KnownDefect]:
    """What is known by names that begin so."""
    return [known for known in OWN if known.issue.startswith(starts) and not known.computed_in]


KNOWN: tuple[KnownDefect, ...] = (
    *OWN,
    *beside(
        IN_FLOAT32["ml-explore/mlx#3047"],
        *issues("elu", "gelu", "sigmoid", "softmax", "log_softmax", "logsumexp", "binary", "cross_entropy", "erf"),
    ),
    *beside(IN_FLOAT32["scaled_dot_product_attention: float32 softmax"], *issues("NaN", "a fully", "a row")),
    *beside(IN_FLOAT32["float64: Upsample in float32"], *issues("linear places")),
    *beside(issues("ml-explore/mlx#1341")[0], *issues("binary")),
)
