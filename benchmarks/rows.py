"""Functions of rows and of elements, forward and backward, on arrays that no cache holds: softmax, LayerNorm, GELU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.composed import differentiated_by_autograd, differentiated_by_jax, differentiated_by_mygrad
from benchmarks.timing import Side, Work

ROWS, FEATURES = 8192, 512  # 17 MB in float32; input, output and both gradients are 67 MB


def works(rows: int = ROWS, features: int = FEATURES) -> list[Work]:
    return [
        Work(
            f"{name} {rows}×{features}",
            dtype,
            {
                framework: lambda make=make, name=name, dtype=dtype: make(name, *inputs(name, rows, features, dtype))
                for framework, make in MAKERS.items()
                if (name, framework) not in ABSENT
            },
            terms=8 * features + (rows if name == "layer_norm" else 0),
        )
        for name in ("softmax", "layer_norm", "gelu", "gelu tanh")
        for dtype in ("float32", "float64")
    ]


def inputs(name: str, rows: int, features: int, dtype: str) -> tuple[list[np.ndarray], np.ndarray]:
    """The arguments, x (R, D) first, and the gradient of the result, (R, D)."""
    rng = np.random.default_rng(0)
    x, bar = rng.normal(size=(2, rows, features)).astype(dtype)
    shared = [rng.normal(size=features).astype(dtype) for _ in range(2)] if name == "layer_norm" else []
    return [x, *shared], bar


def in_refnp(name: str, arrays: list[np.ndarray], bar: np.ndarray) -> Side:
    from refnp.autograd import Tensor
    from refnp.layers.activations import gelu
    from refnp.layers.layer_norm import layer_norm
    from refnp.layers.softmax import softmax

    functions = {
        "softmax": softmax,
        "layer_norm": layer_norm,
        "gelu": gelu,
        "gelu tanh": lambda x: gelu(x, approximate="tanh"),
    }
    leaves = [Tensor(a, requires_grad=True) for a in arrays]

    def run() -> Any:
        for leaf in leaves:
            leaf.grad = None
        y = functions[name](*leaves)
        y.backward(bar)
        return y

    return Side(run, lambda: ([run().data], [leaf.grad for leaf in leaves]))


def in_torch(name: str, arrays: list[np.ndarray], bar: np.ndarray) -> Side:
    import torch
    from torch.nn import functional as F

    functions: dict[str, Callable] = {
        "softmax": lambda x: F.softmax(x, -1),
        "layer_norm": lambda x, gain, shift: F.layer_norm(x, gain.shape, gain, shift),
        "gelu": F.gelu,
        "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    }
    leaves = [torch.from_numpy(a).requires_grad_() for a in arrays]
    cotangent = torch.from_numpy(bar)

    def run() -> Any:
        for leaf in leaves:
            leaf.grad = None
        y = functions[name](*leaves)
        y.backward(cotangent)
        return y

    return Side(run, lambda: ([run().detach().numpy()], [leaf.grad.numpy() for leaf in leaves]))


def in_jax(name: str, arrays: list[np.ndarray], bar: np.ndarray) -> Side:
    import jax
    import jax.numpy as jnp

    functions: dict[str, Callable] = {
        "softmax": jax.nn.softmax,
        "layer_norm": layer_norm_in(jnp),
        "gelu": lambda x: jax.nn.gelu(x, approximate=False),
        "gelu tanh": jax.nn.gelu,
    }
    return differentiated_by_jax(functions[name], arrays, bar)


def in_autograd(name: str, arrays: list[np.ndarray], bar: np.ndarray) -> Side:
    import autograd.numpy as anp
    from autograd.scipy.special import erf

    from benchmarks.composed import softmax_in_autograd

    functions: dict[str, Callable] = {
        "softmax": softmax_in_autograd,
        "layer_norm": layer_norm_in(anp),
        "gelu": lambda x: 0.5 * x * (1 + erf(x * 0.5**0.5)),
        "gelu tanh": gelu_tanh_in(anp),
    }
    return differentiated_by_autograd(functions[name], arrays, bar)


def in_mygrad(name: str, arrays: list[np.ndarray], bar: np.ndarray) -> Side:
    import mygrad
    from mygrad.nnet.activations import softmax

    functions: dict[str, Callable] = {
        "softmax": softmax,
        "layer_norm": layer_norm_in(mygrad),
        "gelu tanh": gelu_tanh_in(mygrad),
    }
    return differentiated_by_mygrad(functions[name], arrays, bar)


def layer_norm_in(xp: Any) -> Callable:
    """LayerNorm in the functions of a likeness of NumPy."""

    def layer_norm(x, gain, shift):
        centred = x - xp.mean(x, -1, keepdims=True)
        return centred / xp.sqrt(xp.mean(centred * centred, -1, keepdims=True) + 1e-5) * gain + shift

    return layer_norm


def gelu_tanh_in(xp: Any) -> Callable:
    """x · ½ (1 + tanh √(2/π) (x + 0.044715 x³)) in the functions of a likeness of NumPy."""
    factor = (2 / np.pi) ** 0.5

    def gelu(x):
        return 0.5 * x * (1 + xp.tanh(float(factor) * (x + 0.044715 * (x * x * x))))

    return gelu


MAKERS = {"refnp": in_refnp, "torch": in_torch, "jax": in_jax, "autograd": in_autograd, "mygrad": in_mygrad}
ABSENT = {("gelu", "mygrad")}  # it has no erf
