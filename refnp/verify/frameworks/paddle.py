"""PaddlePaddle: what each layer is called there, and what it is known for. Its names are mostly PyTorch's."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from refnp import layers
from refnp.autograd.pages import along_axes
from refnp.layers.softmax import softmax_vjp
from refnp.numbers import rounding
from refnp.numbers.rounding import where
from refnp.numbers.words import peak
from refnp.verify.case import KnownDefect, NotOfferedError
from refnp.verify.frameworks.shared import (
    biased,
    four_axes,
    from_attention,
    from_multi_head,
    from_rows,
    rows_of,
    walk,
    without,
)
from refnp.verify.layers.activations import (
    GELU_TANH_TAIL,
    PRINTED_SIGMOID,
    SOFTPLUS_THRESHOLD,
    printed_elu,
    printed_gelu,
    printed_softplus,
)
from refnp.verify.layers.attention import attending
from refnp.verify.layers.convolution import per_axis
from refnp.verify.layers.distributions import NORMAL_KL_CANCELS, STUDENT_T_GAMMAS, printed_categorical_kl
from refnp.verify.layers.engine import divided_std
from refnp.verify.layers.linear import without_gradient
from refnp.verify.layers.losses import BINARY, GAUSSIAN_NLL, OF_PROBABILITIES, printed_binary_cross_entropy
from refnp.verify.layers.matrices import DET
from refnp.verify.layers.multi_head import maps_of
from refnp.verify.layers.normalization import ONE_PASS
from refnp.verify.layers.pooling import SAME_LENGTH
from refnp.verify.layers.softmax import LOGSUMEXP_VJP, logsumexp_from_maximum, printed_pullback
from refnp.verify.layers.transformer_layers import DECODER_PARTS, ENCODER_PARTS, parts_of


def softplus(paddle, x, *, beta=1.0, threshold=20.0):
    """Linear above a threshold, as in PyTorch."""
    return paddle.nn.functional.softplus(x, beta, 20.0 if threshold is None else threshold)


def scatter(paddle, x, updates, *, indices, mode="add"):
    """put_along_axis adds or assigns."""
    reduce = "add" if mode == "add" else "assign"
    return paddle.put_along_axis(x, paddle.to_tensor(np.array(indices)), updates, 1, reduce=reduce, broadcast=False)


def batch_norm(paddle, x, gain, shift, mean=None, variance=None, *, eps=1e-5):
    """Statistics of the batch, or given ones."""
    given = (paddle.zeros_like(gain), paddle.ones_like(gain)) if mean is None else (mean, variance)
    options = {"training": mean is None, "epsilon": eps, "data_format": "NCL" if x.ndim == 3 else "NCHW"}
    return paddle.nn.functional.batch_norm(x, *given, gain, shift, **options)


def group_norm(paddle, x, gain, shift, *, groups, eps=1e-5):
    """The axes of space have a name."""
    if x.ndim == 2:
        raise NotOfferedError("Paddle: group_norm wants an axis of space")
    layout = {3: "NCL", 4: "NCHW", 5: "NCDHW"}[x.ndim]
    return paddle.nn.functional.group_norm(x, groups, eps, gain, shift, layout)


def added(paddle, bias, mask):
    """A mask of booleans as it is; a bias, with −∞ where the mask hides."""
    allowed = None if mask is None else paddle.to_tensor(np.array(mask))
    if bias is None or allowed is None:
        return allowed if bias is None else bias
    return paddle.where(allowed, bias, paddle.full([], -math.inf, bias.dtype))


def attention(paddle, query, key, value, bias=None, *, mask=None, similarity="scaled_dot", is_causal=False):
    """scaled_dot_product_attention takes the heads before the features: (..., H, N, d) becomes (B, N, H, d)."""
    if max(query.ndim, 0 if mask is None else np.ndim(mask)) > 4:
        raise NotOfferedError("Paddle: scaled_dot_product_attention takes four axes")
    arrays = [a.transpose([0, 2, 1, 3]) for a in four_axes(query, key, value)]
    options = {"is_causal": is_causal, "scale": None if similarity == "scaled_dot" else 1.0}
    (allowed,) = four_axes(added(paddle, bias, mask))
    mixed = paddle.nn.functional.scaled_dot_product_attention(*arrays, allowed, **options)
    return mixed.transpose([0, 2, 1, 3]).reshape([*query.shape[:-1], value.shape[-1]])


def put(module: Any, weight: Any, bias: Any = None) -> None:
    """Put tensors in place of the parameters of a layer, so that they may have gradients of their own.

    nn.Linear keeps (in, out), as refnp.
    """
    for name, value in (("weight", weight), ("bias", bias)):
        module._parameters.pop(name, None)
        setattr(module, name, value)


def seen(paddle, mask, bias, per_head):
    """What is given to nn.MultiHeadAttention as its mask, (B, H, N, M): True where attention is allowed, or a bias."""
    allowed = added(paddle, bias, mask)
    if allowed is not None and allowed.ndim == 3:
        allowed = allowed.unsqueeze(0 if per_head else 1)
    return allowed


def fill_heads(module: Any, parameters) -> Any:
    """nn.MultiHeadAttention with refnp's parameters."""
    for part, own in zip(("q_proj", "k_proj", "v_proj", "out_proj"), maps_of(parameters), strict=True):
        put(getattr(module, part), *own)
    return module


def multi_head(paddle, query, key, value, *parameters, heads, mask=None, bias=None, per_head=False, weights=False):
    """nn.MultiHeadAttention."""
    maps = maps_of(parameters)
    features, inner = maps[0][0].shape
    if any(width != features for width in (inner, maps[2][0].shape[1], maps[3][0].shape[1])):
        raise NotOfferedError("Paddle: nn.MultiHeadAttention has one width for heads and result")
    widths = {
        "kdim": maps[1][0].shape[0],
        "vdim": maps[2][0].shape[0],
        "bias_attr": None if len(maps[0]) > 1 else False,
    }
    module = paddle.nn.MultiHeadAttention(features, heads, need_weights=weights, **widths)
    found = fill_heads(module, parameters)(query, key, value, seen(paddle, mask, bias, per_head))
    return found[0] if weights else found


def filled(
    kind: Any, attentions: dict[str, Any], maps: Any, norms: Any, *sizes: int, norm: str, activation: str
) -> Any:
    """nn.TransformerEncoderLayer or nn.TransformerDecoderLayer with refnp's parameters."""
    if len(maps) < 4:
        raise NotOfferedError("Paddle: a layer without biases has LayerNorms with shifts")
    layer = kind(*sizes, maps[0].shape[1], dropout=0.0, activation=activation, normalize_before=norm == "pre")
    for name, own in attentions.items():
        fill_heads(getattr(layer, name), own)
    put(layer.linear1, *maps[:2])
    put(layer.linear2, *maps[2:])
    for number, norm_parameters in enumerate(norms, 1):
        put(getattr(layer, f"norm{number}"), *norm_parameters)
    return layer


def encoder_layer(paddle, x, *parameters, heads, norm="post", activation="relu", mask=None, bias=None, per_head=False):
    """nn.TransformerEncoderLayer."""
    own, norm_1, maps, norm_2 = parts_of(parameters, *ENCODER_PARTS)
    kind, norms = paddle.nn.TransformerEncoderLayer, (norm_1, norm_2)
    layer = filled(kind, {"self_attn": own}, maps, norms, x.shape[-1], heads, norm=norm, activation=activation)
    return layer(x, seen(paddle, mask, bias, per_head))


def decoder_layer(paddle, x, memory, *parameters, heads, norm="post", activation="relu", per_head=False, **given):
    """nn.TransformerDecoderLayer."""
    own, norm_1, other, norm_2, maps, norm_3 = parts_of(parameters, *DECODER_PARTS)
    kind, attentions = paddle.nn.TransformerDecoderLayer, {"self_attn": own, "cross_attn": other}
    norms = (norm_1, norm_2, norm_3)
    layer = filled(kind, attentions, maps, norms, x.shape[-1], heads, norm=norm, activation=activation)
    pairs = (("mask", "bias"), ("memory_mask", "memory_bias"))
    return layer(x, memory, *(seen(paddle, given.get(mask), given.get(bias), per_head) for mask, bias in pairs))


def convolution(paddle, x, weight, bias=None, *, stride=1, dilation=1, groups=1, padding=0, padding_mode="zeros"):
    """nn.functional.conv1d to conv3d; other padding than zeros goes first."""
    functional, batch = paddle.nn.functional, "Paddle: convolutions take a batch"
    axes, _, _, pairs = walk(x, weight, stride, dilation, padding, batch)
    if padding_mode != "zeros":
        flat = [width for pair in reversed(pairs) for width in pair]
        layout = ("NCL", "NCHW", "NCDHW")[axes - 1]
        x, pairs = functional.pad(x, flat, padding_mode, data_format=layout), [(0, 0)] * axes
    edges = [width for pair in pairs for width in pair]
    options = {"stride": stride, "padding": edges, "dilation": dilation, "groups": groups}
    return getattr(functional, f"conv{axes}d")(x, weight, bias, **options)


def convolution_transpose(paddle, x, weight, bias=None, **options):
    """nn.functional.conv1d_transpose to conv3d_transpose."""
    axes, *_ = walk(x, weight, 1, 1, 0, "Paddle: convolutions take a batch")
    return getattr(paddle.nn.functional, f"conv{axes}d_transpose")(x, weight, bias, **options)


def average_pool(paddle, x, *, size, count_include_pad=True, **options):
    """Padding counts unless it is `exclusive`."""
    function = getattr(paddle.nn.functional, f"avg_pool{x.ndim - 2}d")
    return function(x, size, exclusive=not count_include_pad, **options)


@without("Paddle: pooling knows no dilation", dilation=1)
def max_pool(paddle, x, *, size, **options):
    """nn.functional.max_pool1d to max_pool3d."""
    return getattr(paddle.nn.functional, f"max_pool{x.ndim - 2}d")(x, size, **options)


def adaptive_pool(kind: str) -> Callable:
    """nn.functional.adaptive_avg_pool1d to adaptive_max_pool3d."""
    return lambda paddle, x, size: getattr(paddle.nn.functional, f"adaptive_{kind}_pool{x.ndim - 2}d")(x, size)


def upsample(paddle, x, *, factor=None, size=None, mode="nearest", align_corners=False):
    """interpolate, by the number of dimensions."""
    axes = x.ndim - 2
    if mode == "nearest-exact" or (mode == "nearest" and axes != 2):
        raise NotOfferedError("Paddle: interpolate has nearest of images alone, and no nearest-exact")
    name = ("linear", "bilinear", "trilinear")[axes - 1] if mode == "linear" else mode
    layout = ("NCW", "NCHW", "NCDHW")[axes - 1]
    size = None if size is None else list(per_axis(size, axes))
    factor = None if factor is None else list(per_axis(factor, axes))
    return paddle.nn.functional.interpolate(x, size, factor, name, align_corners, data_format=layout)


def cross_entropy(paddle, logits, *, targets, ignore_index=None, class_weights=None, **options):
    """In Paddle, -100 is the target to ignore unless another is named."""
    weight = None if class_weights is None else paddle.to_tensor(class_weights, dtype=logits.dtype)
    options |= {"weight": weight, "ignore_index": -100 if ignore_index is None else ignore_index}
    loss = paddle.nn.functional.cross_entropy(logits, paddle.to_tensor(np.array(targets)), **options)
    return without_classes(loss, logits)


def without_classes(loss, logits):
    """A loss without the axis of classes, which stays where labels are smoothed."""
    return loss.squeeze(-1) if loss.ndim == logits.ndim else loss


CLASSES = "Paddle: weights of classes are averaged over otherwise where targets are probabilities"


@without(CLASSES, class_weights=None)
def cross_entropy_of_probabilities(paddle, logits, targets, **options):
    """The same function, told that targets are probabilities."""
    loss = paddle.nn.functional.cross_entropy(logits, targets, soft_label=True, **options)
    return without_classes(loss, logits)


def binary_cross_entropy(paddle, logits, targets, *, positive_weight=1.0, reduction="mean"):
    """pos_weight is a tensor."""
    weight = None if positive_weight == 1 else paddle.to_tensor([positive_weight], dtype=logits.dtype)
    function = paddle.nn.functional.binary_cross_entropy_with_logits
    return function(logits, targets, reduction=reduction, pos_weight=weight)


def gaussian_nll(paddle, mean, std, y, *, reduction="mean"):
    """Paddle takes the variance, and leaves out ½ log 2π unless asked for the full density."""
    return paddle.nn.functional.gaussian_nll_loss(mean, y, std * std, full=True, reduction=reduction)


def multivariate_normal(paddle, y, mean, factor):
    """distribution.MultivariateNormal."""
    return paddle.distribution.MultivariateNormal(mean, scale_tril=factor).log_prob(y)


def divergence(kind: str) -> Callable:
    """distribution.kl_divergence of two distributions, whose parameters stand one after the other."""

    def between(paddle, *parameters):
        half, of = len(parameters) // 2, getattr(paddle.distribution, kind)
        return paddle.distribution.kl_divergence(of(*parameters[:half]), of(*parameters[half:]))

    return between


FUNCTIONS: dict[str, str | Callable] = {
    **{name: name for name in ("erf", "sinh", "cosh", "logsumexp", "matmul")},
    **{name: f"linalg.{name}" for name in ("solve", "inv", "det")},
    **{f"{name}": f"nn.functional.{name}" for name in ("relu", "elu", "sigmoid", "silu", "softmax", "log_softmax")},
    "arctan": "atan",
    "linear": "nn.functional.linear",
    "mse": "nn.functional.mse_loss",
    "huber": "nn.functional.smooth_l1_loss",
    "var": lambda paddle, x, ddof=0: paddle.var(x, -1, unbiased=bool(ddof)),
    "std": lambda paddle, x, ddof=0: paddle.std(x, -1, unbiased=bool(ddof)),
    "cumprod": lambda paddle, x: paddle.cumprod(x, dim=-1),
    "take_along_axis": lambda paddle, x, indices: paddle.take_along_axis(x, paddle.to_tensor(np.array(indices)), 1),
    "scatter": scatter,
    "tril": lambda paddle, x, offset=0: paddle.tril(x, offset),
    "triu": lambda paddle, x, offset=0: paddle.triu(x, offset),
    "diagonal": lambda paddle, x, offset=0: paddle.diagonal(x, offset),
    "slogdet": lambda paddle, a: paddle.linalg.slogdet(a)[1],
    "cholesky_solve": lambda paddle, factor, b: paddle.linalg.cholesky_solve(b, paddle.tril(factor)),
    "leaky_relu": lambda paddle, x, slope=0.01: paddle.nn.functional.leaky_relu(x, slope),
    "softplus": softplus,
    "gelu": lambda paddle, x, approximate="none": paddle.nn.functional.gelu(x, approximate == "tanh"),
    "layer_norm": lambda paddle, x, g, b, eps=1e-5: paddle.nn.functional.layer_norm(x, g.shape, g, b, eps),
    "rms_norm": lambda paddle, x, gain, eps: paddle.nn.functional.rms_norm(x, gain.shape, gain, eps)[0],
    "group_norm": group_norm,
    "instance_norm": lambda paddle, x, gain, shift, eps=1e-5: paddle.nn.functional.instance_norm(
        x, weight=gain, bias=shift, eps=eps
    ),
    **dict.fromkeys(("batch_norm", "batch_norm of statistics"), batch_norm),
    **from_rows(lambda paddle, table, tokens: paddle.nn.functional.embedding(paddle.to_tensor(tokens), table)),
    **from_attention(attention, lambda paddle, table, places: table[:, paddle.to_tensor(places)]),
    "causal_attention": lambda paddle, *arrays: attention(paddle, *arrays, is_causal=True),
    **from_multi_head(multi_head, lambda paddle, array, query: paddle.to_tensor(array, dtype=query.dtype)),
    "multi_head_with_weights": lambda paddle, *arrays, **options: multi_head(paddle, *arrays, weights=True, **options),
    "encoder_layer": encoder_layer,
    "encoder_layer_biased": biased(encoder_layer, 1, "bias"),
    "decoder_layer": decoder_layer,
    "decoder_layer_biased": biased(decoder_layer, 2, "bias", "memory_bias"),
    "convolution": convolution,
    "convolution_transpose": convolution_transpose,
    "average_pool": average_pool,
    "max_pool": max_pool,
    "adaptive_average_pool": adaptive_pool("avg"),
    "adaptive_max_pool": adaptive_pool("max"),
    "upsample": upsample,
    "gaussian_nll": gaussian_nll,
    "cross_entropy": cross_entropy,
    "cross_entropy of probabilities": cross_entropy_of_probabilities,
    "binary_cross_entropy": binary_cross_entropy,
    "normal_log_prob": lambda paddle, y, mean, std: paddle.distribution.Normal(mean, std).log_prob(y),
    "student_t_log_prob": lambda paddle, y, *parameters: paddle.distribution.StudentT(*parameters).log_prob(y),
    "multivariate_normal_log_prob": multivariate_normal,
    "normal_kl": divergence("Normal"),
    "categorical_entropy": lambda paddle, logits: paddle.distribution.Categorical(logits).entropy(),
    "categorical_kl": lambda paddle, p, q: divergence("Categorical")(paddle, p, q).squeeze(-1),
}


LEAST = -64.0


def raised(x):
    """x − m, at least −64, also where that is −∞."""
    shifted = x - peak(x)
    return where(shifted.value < LEAST, LEAST, shifted)


@along_axes
def raised_softmax(x):
    """Softmax of x − m raised to −64."""
    e = rounding.exp(raised(x))
    p = e / e.sum(-1, keepdims=True)
    return p, lambda g: (softmax_vjp(p, g),)


@along_axes
def raised_log_softmax(x):
    """y = s − log Σ eˢ with s = x − m raised to −64; x̄ = ȳ − e^y Σ ȳ."""
    shifted = raised(x)
    y = shifted - rounding.log(rounding.exp(shifted).sum(-1, keepdims=True))
    return y, lambda g: (g - rounding.exp(y) * g.sum(-1, keepdims=True),)


def lost_at_zero(logits, targets, **options):
    """The gradient of a logit of 0 is σ − t − 1."""
    y, pullback = printed_binary_cross_entropy(logits, targets, **options)

    def pulled(g):
        x_bar, t_bar = pullback(g)
        share = g if options.get("reduction") == "none" else g / logits.value.size
        return where(logits.value == 0, x_bar - share, x_bar), t_bar

    return y, pulled


RAISED = {
    layers.softmax.page: raised_softmax,
    layers.log_softmax.page: raised_log_softmax,
    softmax_vjp: printed_pullback,
    **attending(hidden="added"),
}
defect, convention, also = rows_of("Paddle")
OF_SOFTMAX = "softmax/*, log_softmax/*, *attention/*, multi_head*, *coder_layer*, *cross_entropy*/logits 100, "
OF_SOFTMAX += "cross_entropy of prob*/logits 100, cross_entropy/confident*, cross_entropy/512*, categorical_entropy/*"
KNOWN: tuple[KnownDefect, ...] = (
    convention("NaN behind a mask comes through",
        "scaled_dot_product_attention adds −∞ to the scores of masked keys, and multiplies their values by 0",
        "attention/*", parts=attending(hidden="added")),
    convention("a row with −∞ for every key is NaN",
        "a query that may attend to nothing gets NaN: −∞ is added to all its scores, and their softmax is 0/0",
        "attention/*, multi_head_additive_mask/*", parts=attending(no_keys="nan")),
    convention("a mask adds −1e9",
        "nn.MultiheadAttention adds −1e9 to the scores that a mask of booleans hides: a query that may attend to "
        "nothing attends to all keys, by scores that float32 rounds to multiples of 64",
        "multi_head_with_weights/*", parts=attending(no_keys=-1e9)),
    convention("a mask adds −1e9",
        "nn.MultiheadAttention adds −1e9 to the scores that a mask of booleans hides: scores below 32 are lost in "
        "float32, and a query that may attend to nothing gets the mean of all values",
        "multi_head_with_weights/*", dtypes="float32", parts=attending(no_keys="mean")),
    also("softplus/*", SOFTPLUS_THRESHOLD),
    also("upsample/*factor 1.125", SAME_LENGTH),
    defect("PaddlePaddle/Paddle#4366",
        "softmax and log_softmax raise x − max to −64: log_softmax([0, −300]) is −64, and a key that is masked by −∞ "
        "keeps the weight 1.6e-28, so that infinity in its value and gradients come through",
        OF_SOFTMAX, parts=RAISED),
    defect("binary_cross_entropy_with_logits: gradient at 0",
        "at a logit of exactly 0 the gradient is σ − t − 1, where σ − t is right: −½ in place of ½ for t = 0 (since "
        "PaddlePaddle/Paddle#64253); and where a prediction is sure and right log1p(e^−|x|) is lost",
        "binary_cross_entropy/tails*", "output, gradient of logits", equation=lost_at_zero),
    defect("losses: no gradient of targets",
        "binary_cross_entropy_with_logits gives its targets the gradient 0, where probabilities have one",
        "binary_cross_entropy/*", "gradient of targets", equation=without_gradient(BINARY.equation, 1)),
    defect("losses: no gradient of targets",
        "cross_entropy gives its targets the gradient 0, where probabilities have one",
        "cross_entropy of probabilities/*", "gradient of targets",
        equation=without_gradient(OF_PROBABILITIES.equation, 1)),
    defect("gaussian_nll_loss: no gradient of the variance",
        "gaussian_nll_loss clips the variance under no_grad, and so its gradient is 0: a model that predicts its "
        "variance learns nothing",
        "gaussian_nll/*", "gradient of std", equation=without_gradient(GAUSSIAN_NLL.equation, 1)),
    defect("cross_entropy: smoothing with weights",
        "with label_smoothing and weights of classes every row is multiplied by Σ_c w_c q_c, where the loss is −Σ_c "
        "w_c q_c log p_c",
        "cross_entropy/smoothing and weights"),
    defect("float64: constants in float32",
        "ε of the norms, δ of huber, 1/size of pools, the places of interpolate and label smoothing are rounded to "
        "float32, also for float64",
        "*_norm*/*, average_pool/*, adaptive_average_pool/*, upsample/*, huber/*, cross_entropy/*, *coder_layer*",
        dtypes="float64", computed_in="float32"),
    defect("average_pool, max_pool: ceil_mode",
        "with ceil_mode and padding the last window may lie in the padding alone: there is one place too many",
        "average_pool/2-D? ceil mode? padded, max_pool/2-D? ceil mode? padded"),
    defect("std: gradient 0/0", "std's gradient divides by std: NaN where all numbers are equal",
        "std/equal numbers", equation=divided_std),
    defect("det: gradient 0 if singular",
        "det's gradient takes det A⁻ᵀ, and 0 for a singular matrix; its cofactors are 0 only below rank N − 1",
        "det/singular*", equation=without_gradient(DET.equation, 0)),
    defect("elu: exp(x) - 1", "elu as exp(x) − 1, and its gradient as y + α: both cancel",
        "elu/*", equation=printed_elu),
    defect("sigmoid: gradient by 1 - σ",
        "sigmoid's gradient forms 1 − σ with σ rounded to 1: nothing left in the right tail",
        "sigmoid/far right", parts=PRINTED_SIGMOID),
    defect("softplus: log(1 + exp)",
        "softplus as log(1 + exp(βx))/β: nothing is left of eˣ below −16 in float32; log1p keeps it",
        "softplus/far left, softplus/beta*", equation=printed_softplus),
    defect("gelu: 1 + erf", "gelu as x/2 (1 + erf): no digit is left in the left tail",
        "gelu/at -5*, gelu/far left", equation=printed_gelu),
    also("gelu/tanh*", GELU_TANH_TAIL),
    defect("logsumexp of -inf: NaN", "logsumexp of −inf alone is NaN, where −inf is right, and so its gradient",
        "logsumexp/-inf alone", equation=logsumexp_from_maximum),
    also("logsumexp/*", LOGSUMEXP_VJP),
    defect("group_norm: one-pass variance",
        "group_norm takes the variance as E[x²] − E[x]², which cancels where the mean is large",
        "group_norm/*mean*", parts=ONE_PASS),
    also("student_t_log_prob/*", STUDENT_T_GAMMAS),
    defect("PaddlePaddle/Paddle#4366", "kl_divergence of Categorical is NaN or −∞ where a class cannot be",
        "categorical_kl/classes*", "output"),
    defect("PaddlePaddle/Paddle#4366",
        "kl_divergence of Categorical takes the logarithms of its own softmax: Σ p (log p − log q) cancels",
        "categorical_kl/*", equation=printed_categorical_kl),
    also("normal_kl/*", NORMAL_KL_CANCELS),
)  # fmt: skip
