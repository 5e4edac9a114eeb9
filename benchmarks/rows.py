"""Functions of rows and of elements, forward and backward, on arrays that no cache holds: softmax, LayerNorm, GELU."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import differentiated
from benchmarks.timing import Needs, Side, Work

ROWS, FEATURES = 8192, 512  # 17 MB in float32: with its value and both gradients, 67 MB
NAMES = ("softmax", "LayerNorm", "GELU", "GELU tanh")
AIMS = {"softmax": 1.5, "LayerNorm": 1.5, "GELU": 2.0, "GELU tanh": 1.2}
NEEDS = {  # for each number of x; memory: x, y, ȳ and x̄ once, and what is kept for the way back, written and read
    "softmax": {"exponentials": 1, "passes": 3 + 3, "numbers": 5},  # max, sum, ÷; ȳ·p, sum, difference
    "LayerNorm": {"passes": 5 + 7, "numbers": 6},  # two sums, −, ×, +; γȳ, three sums, β̄, two steps
    "GELU": {"exponentials": 1, "passes": 18 + 2, "numbers": 6},  # two polynomials, ÷, tail, density; slope
    "GELU tanh": {"exponentials": 1, "passes": 13 + 1, "numbers": 6},
}


def works(rows: int = ROWS, features: int = FEATURES) -> list[Work]:
    return [
        Work(
            name,
            dtype,
            {
                framework: functools.partial(side, framework, name, rows, features, dtype)
                for framework in FUNCTIONS
                if (name, framework) != ("GELU", "mygrad")  # it has no erf
            },
            terms=8 * features + (rows if name == "LayerNorm" else 0),
            aims={"torch": AIMS[name]},
            needs=Needs(**{kind: count * rows * features for kind, count in NEEDS[name].items()}),
        )
        for name in NAMES
        for dtype in ("float32", "float64")
    ]


def side(framework: str, name: str, rows: int, features: int, dtype: str) -> Side:
    """Of x (R, D), and with LayerNorm of gain and shift (D,), with a gradient (R, D) of the result."""
    rng = np.random.default_rng(0)
    x, bar = rng.normal(size=(2, rows, features)).astype(dtype)
    shared = [rng.normal(size=features).astype(dtype) for _ in range(2)] if name == "LayerNorm" else []
    return differentiated.BY[framework](FUNCTIONS[framework]()[name], [x, *shared], bar)


def refnp_functions() -> dict[str, Callable]:
    from refnp.layers.activation import gelu
    from refnp.layers.layer_norm import layer_norm
    from refnp.layers.softmax import softmax

    return dict(zip(NAMES, (softmax, layer_norm, gelu, lambda x: gelu(x, approximate="tanh")), strict=True))


def torch_functions() -> dict[str, Callable]:
    from torch.nn import functional as F

    return {
        "softmax": lambda x: F.softmax(x, -1),
        "LayerNorm": lambda x, gain, shift: F.layer_norm(x, gain.shape, gain, shift),
        "GELU": F.gelu,
        "GELU tanh": lambda x: F.gelu(x, approximate="tanh"),
    }


def jax_functions() -> dict[str, Callable]:
    import jax

    return {
        "softmax": jax.nn.softmax,
        "LayerNorm": layer_norm_in(jax.numpy),
        "GELU": lambda x: jax.nn.gelu(x, approximate=False),
        "GELU tanh": jax.nn.gelu,
    }


def autograd_functions() -> dict[str, Callable]:
    import autograd.numpy as anp
    from autograd.scipy.special import erf

    return {
        "softmax": differentiated.softmax_in_autograd,
        "LayerNorm": layer_norm_in(anp),
        "GELU": lambda x: 0.5 * x * (1 + erf(x * 0.5**0.5)),
        "GELU tanh": gelu_tanh_in(anp),
    }


def mygrad_functions() -> dict[str, Callable]:
    import mygrad
    from mygrad.nnet.activations import softmax

    return {"softmax": softmax, "LayerNorm": layer_norm_in(mygrad), "GELU tanh": gelu_tanh_in(mygrad)}


def layer_norm_in(xp: Any) -> Callable:
    """LayerNorm in the functions of a module with NumPy's names."""

    def layer_norm(x, gain, shift):
        centred = x - xp.mean(x, -1, keepdims=True)
        return centred / xp.sqrt(xp.mean(centred * centred, -1, keepdims=True) + 1e-5) * gain + shift

    return layer_norm


def gelu_tanh_in(xp: Any) -> Callable:
    """½ x (1 + tanh √(2/π) (x + 0.044715 x³)) in the functions of a module with NumPy's names."""
    factor = (2 / np.pi) ** 0.5
    return lambda x: 0.5 * x * (1 + xp.tanh(factor * (x + 0.044715 * (x * x * x))))


FUNCTIONS = {
    "refnp": refnp_functions,
    "torch": torch_functions,
    "jax": jax_functions,
    "autograd": autograd_functions,
    "mygrad": mygrad_functions,
}
