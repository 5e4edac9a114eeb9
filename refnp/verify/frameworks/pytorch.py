"""PyTorch's own functions on refnp's cases, with its conventions turned into refnp's.

What differs: nn.Linear stores (out, in); masks of nn.MultiheadAttention and nn.TransformerEncoder are True where
attention is forbidden; is_causal is aligned top left; nn.functional.conv knows no padding mode but zeros.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.verify.case import Answer, Problem
from refnp.verify.frameworks import NotOfferedError

NAME = "PyTorch"


def installed() -> bool:
    return importlib.util.find_spec("torch") is not None


def version() -> str:
    """The version, with its build: "2.13.0+cpu". PyTorch is not imported for it."""
    return importlib.metadata.version("torch")


def answer(problem: Problem) -> Answer:
    """PyTorch's output and gradients, as arrays. Raises NotOfferedError if it has no such function."""
    import torch

    layer = problem.case.layer.name
    if layer not in LAYERS:
        raise NotOfferedError(f"PyTorch has no {layer}")
    quantities = problem.case.quantities
    inputs = {name: torch.from_numpy(array.copy()) for name, array in problem.arrays.items()}
    for name, tensor in inputs.items():
        tensor.requires_grad_(f"gradient of {name}" in quantities)
    with torch.set_grad_enabled(len(quantities) > 1):
        output = LAYERS[layer](*inputs.values(), **problem.case.options)
    found = {"output": output.detach().numpy()}
    if len(quantities) > 1:
        wanted = [inputs[quantity.removeprefix("gradient of ")] for quantity in quantities[1:]]
        cotangent = torch.from_numpy(problem.cotangent)
        gradients = torch.autograd.grad(output, wanted, cotangent, materialize_grads=True)
        found |= {q: g.detach().numpy() for q, g in zip(quantities[1:], gradients, strict=True)}
    return found


def functional(name: str) -> Callable:
    """torch.nn.functional.<name> as it is."""

    def call(*tensors: Any, **options: Any) -> Any:
        import torch

        return getattr(torch.nn.functional, name)(*tensors, **options)

    return call


def special(name: str) -> Callable:
    """torch.special.<name> as it is."""

    def call(x: Any) -> Any:
        import torch

        return getattr(torch.special, name)(x)

    return call


def leaky_relu(x, *, slope=0.01):
    return functional("leaky_relu")(x, negative_slope=slope)


def softmax(x, *, axis=-1):
    return x.softmax(axis)


def log_softmax(x, *, axis=-1):
    return x.log_softmax(axis)


def logsumexp(x, *, axis=-1):
    return x.logsumexp(axis)


def layer_norm(x, gain, shift, *, eps=1e-5):
    return functional("layer_norm")(x, gain.shape, gain, shift, eps)


def rms_norm(x, gain, *, eps):
    return functional("rms_norm")(x, gain.shape, gain, eps)


def linear(x, weight, bias=None):
    return functional("linear")(x, weight.T, bias)


def matmul(x, y):
    return x @ y


def embedding(table, *, tokens, scaled=False):
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
    import torch

    module = torch.nn.MultiheadAttention(query.shape[-1], heads, batch_first=True, dtype=query.dtype)
    forbidden = None if mask is None else ~torch.tensor(mask)
    if forbidden is not None and forbidden.ndim == 3:  # PyTorch wants a mask per head then
        forbidden = forbidden.repeat_interleave(heads, 0)
    options = {"attn_mask": forbidden, "need_weights": need_weights}
    return torch.func.functional_call(module, in_projection(*parameters), (query, key, value), options)[0]


def multi_head_with_weights(*tensors, **options):
    return multi_head(*tensors, need_weights=True, **options)


def encoder_fast_path(x, *parameters, heads, mask):
    """nn.TransformerEncoderLayer in evaluation and without gradients, which takes one fused path; the mask is of padding."""
    import torch

    *attention_parameters, gain_1, shift_1, w1, b1, w2, b2, gain_2, shift_2 = parameters
    layer = torch.nn.TransformerEncoderLayer(
        x.shape[-1], heads, w1.shape[1], dropout=0.0, batch_first=True, dtype=x.dtype
    )
    named = {f"self_attn.{name}": tensor for name, tensor in in_projection(*attention_parameters).items()}
    named |= {"norm1.weight": gain_1, "norm1.bias": shift_1, "norm2.weight": gain_2, "norm2.bias": shift_2}
    named |= {"linear1.weight": w1.T, "linear1.bias": b1, "linear2.weight": w2.T, "linear2.bias": b2}
    layer.load_state_dict(named)
    return layer.eval()(x, src_key_padding_mask=~torch.tensor(mask)[:, 0])


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
    return functional(f"conv_transpose{weight.ndim - 2}d")(x, weight, bias, **options)


def average_pool(x, *, size, **options):
    return functional(f"avg_pool{x.ndim - 2}d")(x, size, **options)


def max_pool(x, *, size, **options):
    return functional(f"max_pool{x.ndim - 2}d")(x, size, **options)


def upsample(x, *, factor):
    return functional("interpolate")(x, scale_factor=factor, mode="nearest")


def mse(prediction, target, *, reduction="mean"):
    return functional("mse_loss")(prediction, target, reduction=reduction)


def gaussian_nll(mean, std, y, *, reduction="mean"):
    """PyTorch takes the variance, and leaves out ½ log 2π unless asked for the full density."""
    return functional("gaussian_nll_loss")(mean, y, std * std, full=True, reduction=reduction)


def cross_entropy(logits, *, targets, ignore_index=None, class_weights=None, **options):
    import torch

    weight = None if class_weights is None else torch.tensor(class_weights, dtype=logits.dtype)
    ignored = -100 if ignore_index is None else ignore_index
    return functional("cross_entropy")(logits, torch.tensor(targets), weight, ignore_index=ignored, **options)


def normal_log_prob(y, mean, std):
    import torch

    return torch.distributions.Normal(mean, std).log_prob(y)


def normal_kl(mean_p, std_p, mean_q, std_q):
    from torch.distributions import Normal, kl_divergence

    return kl_divergence(Normal(mean_p, std_p), Normal(mean_q, std_q))


def multivariate_normal_log_prob(y, mean, factor):
    import torch

    return torch.distributions.MultivariateNormal(mean, scale_tril=factor).log_prob(y)


def categorical_kl(logits_p, logits_q):
    from torch.distributions import Categorical, kl_divergence

    return kl_divergence(Categorical(logits=logits_p), Categorical(logits=logits_q))


LAYERS: dict[str, Callable] = {
    "relu": functional("relu"),
    "leaky_relu": leaky_relu,
    "elu": functional("elu"),
    "sigmoid": functional("sigmoid"),
    "silu": functional("silu"),
    "softplus": functional("softplus"),
    "gelu": functional("gelu"),
    "erf": special("erf"),
    "erfc": special("erfc"),
    "softmax": softmax,
    "log_softmax": log_softmax,
    "logsumexp": logsumexp,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "linear": linear,
    "matmul": matmul,
    "embedding": embedding,
    "attention": attention,
    "causal_attention": causal_attention,
    "multi_head": multi_head,
    "multi_head_with_weights": multi_head_with_weights,
    "encoder_fast_path": encoder_fast_path,
    "convolution": convolution,
    "convolution_transpose": convolution_transpose,
    "average_pool": average_pool,
    "max_pool": max_pool,
    "upsample": upsample,
    "mse": mse,
    "gaussian_nll": gaussian_nll,
    "cross_entropy": cross_entropy,
    "normal_log_prob": normal_log_prob,
    "normal_kl": normal_kl,
    "multivariate_normal_log_prob": multivariate_normal_log_prob,
    "categorical_kl": categorical_kl,
}
