"""The layers of PyTorch under refnp's names and conventions, as functions of tensors; `refnp.verify.frameworks.pytorch`
calls them. What a name of `torch` is used for beyond its own conventions is said beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from refnp.verify.frameworks import NotOfferedError


def functional(name: str) -> Callable:
    """torch.nn.functional.<name> as it is."""

    def call(*tensors: Any, **options: Any) -> Any:
        import torch

        if not hasattr(torch.nn.functional, name):
            raise NotOfferedError(f"PyTorch {torch.__version__} has no nn.functional.{name}")
        return getattr(torch.nn.functional, name)(*tensors, **options)

    return call


def special(name: str) -> Callable:
    """torch.special.<name> as it is."""

    def call(x: Any) -> Any:
        import torch

        return getattr(torch.special, name)(x)

    return call


def leaky_relu(x, *, slope=0.01):
    """functional.leaky_relu."""
    return functional("leaky_relu")(x, negative_slope=slope)


def softmax(x, *, axis=-1):
    """Tensor.softmax."""
    return x.softmax(axis)


def log_softmax(x, *, axis=-1):
    """Tensor.log_softmax."""
    return x.log_softmax(axis)


def logsumexp(x, *, axis=-1):
    """Tensor.logsumexp."""
    return x.logsumexp(axis)


def layer_norm(x, gain, shift, *, eps=1e-5):
    """functional.layer_norm over the last axis."""
    return functional("layer_norm")(x, gain.shape, gain, shift, eps)


def rms_norm(x, gain, *, eps):
    """functional.rms_norm over the last axis."""
    return functional("rms_norm")(x, gain.shape, gain, eps)


def linear(x, weight, bias=None):
    """functional.linear, which wants the weight transposed."""
    return functional("linear")(x, weight.T, bias)


def matmul(x, y):
    """x @ y."""
    return x @ y


def embedding(table, *, tokens, scaled=False):
    """functional.embedding, times √D if scaled."""

    import torch

    rows = functional("embedding")(torch.tensor(tokens), table)
    return rows * math.sqrt(table.shape[1]) if scaled else rows


def attention(query, key, value, bias=None, *, mask=None, similarity="scaled_dot"):
    """A bias goes in as a float mask, as scaled_dot_product_attention wants it; with a mask, −∞ where it hides."""
    import torch

    allowed = None if mask is None else torch.tensor(mask)
    if bias is not None:
        allowed = bias if allowed is None else torch.where(allowed, bias, -math.inf)
    scale = None if similarity == "scaled_dot" else 1.0
    return functional("scaled_dot_product_attention")(query, key, value, attn_mask=allowed, scale=scale)


def causal_attention(query, key, value):
    """scaled_dot_product_attention with is_causal, aligned top left."""
    return functional("scaled_dot_product_attention")(query, key, value, is_causal=True)


def in_projection(wq, bq, wk, bk, wv, bv, wo, bo) -> dict:
    """The parameters of refnp's MultiHeadAttention under PyTorch's names: one (3D, D) matrix, transposed."""
    import torch

    return {
        "in_proj_weight": torch.cat([wq.T, wk.T, wv.T]),
        "in_proj_bias": torch.cat([bq, bk, bv]),
        "out_proj.weight": wo.T,
        "out_proj.bias": bo,
    }


def multi_head(query, key, value, *parameters, heads, mask=None, need_weights=False):
    """nn.MultiheadAttention with refnp's parameters and its mask turned round."""

    import torch

    module = torch.nn.MultiheadAttention(query.shape[-1], heads, batch_first=True, dtype=query.dtype)
    forbidden = None if mask is None else ~torch.tensor(mask)
    if forbidden is not None and forbidden.ndim == 3:  # PyTorch wants a mask per head then
        forbidden = forbidden.repeat_interleave(heads, 0)
    options = {"attn_mask": forbidden, "need_weights": need_weights}
    return torch.func.functional_call(module, in_projection(*parameters), (query, key, value), options)[0]


def multi_head_with_weights(*tensors, **options):
    """The same with need_weights=True, which takes another path."""
    return multi_head(*tensors, need_weights=True, **options)


def convolution(x, weight, bias=None, *, padding=0, padding_mode="zeros", **options):
    """Padding as numbers goes to torch.nn.functional.conv; pairs and modes are padded first, as torch.nn.Conv does."""
    axes = weight.ndim - 2
    widths = padding if isinstance(padding, (list, tuple)) else [padding] * axes
    pairs = [width if isinstance(width, tuple) else (width, width) for width in widths]
    if padding_mode != "zeros" or isinstance(padding, list):
        flat = [width for pair in reversed(pairs) for width in pair]
        x = functional("pad")(x, flat, mode="constant" if padding_mode == "zeros" else padding_mode)
        padding = 0
    return functional(f"conv{axes}d")(x, weight, bias, padding=padding, **options)


def convolution_transpose(x, weight, bias=None, **options):
    """functional.conv_transpose1d, 2d or 3d."""
    return functional(f"conv_transpose{weight.ndim - 2}d")(x, weight, bias, **options)


def average_pool(x, *, size, **options):
    """functional.avg_pool1d, 2d or 3d."""
    return functional(f"avg_pool{x.ndim - 2}d")(x, size, **options)


def max_pool(x, *, size, **options):
    """functional.max_pool1d, 2d or 3d."""
    return functional(f"max_pool{x.ndim - 2}d")(x, size, **options)


def upsample(x, *, factor):
    """functional.interpolate, nearest."""
    return functional("interpolate")(x, scale_factor=factor, mode="nearest")


def mse(prediction, target, *, reduction="mean"):
    """functional.mse_loss."""
    return functional("mse_loss")(prediction, target, reduction=reduction)


def gaussian_nll(mean, std, y, *, reduction="mean"):
    """PyTorch takes the variance, and leaves out ½ log 2π unless asked for the full density."""
    return functional("gaussian_nll_loss")(mean, y, std * std, full=True, reduction=reduction)


def cross_entropy(logits, *, targets, ignore_index=None, class_weights=None, **options):
    """functional.cross_entropy; -100 is its way to ignore nothing that occurs."""

    import torch

    weight = None if class_weights is None else torch.tensor(class_weights, dtype=logits.dtype)
    ignored = -100 if ignore_index is None else ignore_index
    return functional("cross_entropy")(logits, torch.tensor(targets), weight, ignore_index=ignored, **options)


def normal_log_prob(y, mean, std):
    """distributions.Normal.log_prob."""

    import torch

    return torch.distributions.Normal(mean, std).log_prob(y)


def normal_kl(mean_p, std_p, mean_q, std_q):
    """distributions.kl_divergence of two Normals."""

    from torch.distributions import Normal, kl_divergence

    return kl_divergence(Normal(mean_p, std_p), Normal(mean_q, std_q))


def multivariate_normal_log_prob(y, mean, factor):
    """distributions.MultivariateNormal.log_prob from a Cholesky factor."""

    import torch

    return torch.distributions.MultivariateNormal(mean, scale_tril=factor).log_prob(y)


def categorical_kl(logits_p, logits_q):
    """distributions.kl_divergence of two Categoricals."""

    from torch.distributions import Categorical, kl_divergence

    return kl_divergence(Categorical(logits=logits_p), Categorical(logits=logits_q))
