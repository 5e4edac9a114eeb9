"""PyTorch's own functions on refnp's cases, with its conventions turned into refnp's.

What differs: nn.Linear stores (out, in); masks of nn.MultiheadAttention and nn.TransformerEncoder are True where
attention is forbidden; is_causal is aligned top left; nn.functional.conv knows no padding mode but zeros.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable

from refnp.verify.case import Answer, Problem
from refnp.verify.frameworks import NotOfferedError
from refnp.verify.frameworks import pytorch_layers as layers
from refnp.verify.frameworks import pytorch_transformer as transformer

NAME = "PyTorch"


def installed() -> bool:
    """True if PyTorch can be imported."""
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
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # cases are small: on a busy machine threads would wait for each other most of the time
    try:
        return computed(problem)
    finally:
        torch.set_num_threads(threads)


def computed(problem: Problem) -> Answer:
    """Forward and, if the case asks for gradients, backward."""
    import torch

    quantities = problem.case.quantities
    inputs = {name: torch.from_numpy(array.copy()) for name, array in problem.arrays.items()}
    for name, tensor in inputs.items():
        tensor.requires_grad_(f"gradient of {name}" in quantities)
    with torch.set_grad_enabled(len(quantities) > 1):
        output = LAYERS[problem.case.layer.name](*inputs.values(), **problem.case.options)
    found = {"output": output.detach().numpy()}
    if len(quantities) > 1:
        wanted = [inputs[quantity.removeprefix("gradient of ")] for quantity in quantities[1:]]
        cotangent = torch.from_numpy(problem.cotangent)
        gradients = torch.autograd.grad(output, wanted, cotangent, materialize_grads=True)
        found |= {q: g.detach().numpy() for q, g in zip(quantities[1:], gradients, strict=True)}
    return found


LAYERS: dict[str, Callable] = {
    "relu": layers.functional("relu"),
    "leaky_relu": layers.leaky_relu,
    "elu": layers.functional("elu"),
    "sigmoid": layers.functional("sigmoid"),
    "silu": layers.functional("silu"),
    "softplus": layers.functional("softplus"),
    "gelu": layers.functional("gelu"),
    "erf": layers.special("erf"),
    "erfc": layers.special("erfc"),
    "softmax": layers.softmax,
    "log_softmax": layers.log_softmax,
    "logsumexp": layers.logsumexp,
    "layer_norm": layers.layer_norm,
    "rms_norm": layers.rms_norm,
    "linear": layers.linear,
    "matmul": layers.matmul,
    "embedding": layers.embedding,
    "attention": layers.attention,
    "causal_attention": layers.causal_attention,
    "multi_head": layers.multi_head,
    "multi_head_with_weights": layers.multi_head_with_weights,
    "encoder_layer": transformer.encoder_layer,
    "encoder_fast_path": transformer.encoder_fast_path,
    "decoder_layer": transformer.decoder_layer,
    "transformer": transformer.transformer,
    "convolution": layers.convolution,
    "convolution_transpose": layers.convolution_transpose,
    "average_pool": layers.average_pool,
    "max_pool": layers.max_pool,
    "upsample": layers.upsample,
    "mse": layers.mse,
    "gaussian_nll": layers.gaussian_nll,
    "cross_entropy": layers.cross_entropy,
    "normal_log_prob": layers.normal_log_prob,
    "normal_kl": layers.normal_kl,
    "multivariate_normal_log_prob": layers.multivariate_normal_log_prob,
    "categorical_kl": layers.categorical_kl,
}
