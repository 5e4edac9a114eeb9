"""Convolutions forward and backward on arrays that no cache holds, and training steps of the networks of a ConvCNP.

The networks are those of networks.py, on 16 tasks of 320 places; the loss is the mean squared distance to a random target.
autograd's `convolve` has no strides and MyGrad's `conv_nd` no transpose, so the U-Net is not for them; on the large
arrays they would take half a minute a run, so those are not either.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import networks, training
from benchmarks.composed import differentiated_by_jax
from benchmarks.timing import Side, Work

LARGE = {  # shapes of x and of the weight; x has 17 MB in float32, and so has y
    "conv1d": ((16, 32, 8192), (32, 32, 5)),
    "conv2d": ((8, 32, 128, 128), (32, 32, 3, 3)),
}
NETWORKS = {
    "CNN step": (networks.cnn, networks.cnn_weights),
    "U-Net step": (networks.unet, networks.unet_weights),
}
BATCH, PLACES = 16, 320


def works(large: dict[str, tuple] | None = None, batch: int = BATCH, places: int = PLACES) -> list[Work]:
    found = []
    for dtype in ("float32", "float64"):
        for name, shapes in (large or LARGE).items():
            makers = {
                framework: lambda make=make, shapes=shapes, dtype=dtype: make(*large_arrays(shapes, dtype))
                for framework, make in {"refnp": large_in_refnp, "torch": large_in_torch, "jax": large_in_jax}.items()
            }
            (n, channels, *lengths), (_, _, *kernel) = shapes
            found.append(Work(name, dtype, makers, terms=n * math.prod(lengths) + channels * math.prod(kernel)))
        for name, (network, draw) in NETWORKS.items():
            steps = {"refnp": step_in_refnp, "torch": step_in_torch, "jax": step_in_jax}
            if network is networks.cnn:
                steps |= {"autograd": step_in_autograd, "mygrad": step_in_mygrad}
            makers = {
                framework: lambda make=make, network=network, draw=draw, dtype=dtype: make(
                    network, *problem(draw, batch, places, dtype)
                )
                for framework, make in steps.items()
            }
            layers = len(draw(np.random.default_rng(0))) // 2
            found.append(Work(name, dtype, makers, terms=layers * 64 * networks.KERNEL + batch * places))
    return found


def large_arrays(shapes: tuple, dtype: str) -> tuple[list[np.ndarray], np.ndarray]:
    """x, weight, bias; and the gradient of the result."""
    rng = np.random.default_rng(0)
    x, weight = (rng.normal(size=shape).astype(dtype) for shape in shapes)
    bar = rng.normal(size=(len(x), len(weight), *x.shape[2:])).astype(dtype)
    return [x, weight, rng.normal(size=len(weight)).astype(dtype)], bar


def large_in_refnp(arrays: list[np.ndarray], bar: np.ndarray) -> Side:
    from refnp.autograd import Tensor

    conv = networks.refnp_functions().conv
    leaves = [Tensor(a, requires_grad=True) for a in arrays]

    def run() -> Any:
        for leaf in leaves:
            leaf.grad = None
        y = conv(*leaves, 1)
        y.backward(bar)
        return y

    return Side(run, lambda: ([run().data], [leaf.grad for leaf in leaves]))


def large_in_torch(arrays: list[np.ndarray], bar: np.ndarray) -> Side:
    import torch

    conv = networks.torch_functions().conv
    leaves = [torch.from_numpy(a).requires_grad_() for a in arrays]
    cotangent = torch.from_numpy(bar)

    def run() -> Any:
        for leaf in leaves:
            leaf.grad = None
        y = conv(*leaves, 1)
        y.backward(cotangent)
        return y

    return Side(run, lambda: ([run().detach().numpy()], [leaf.grad.numpy() for leaf in leaves]))


def large_in_jax(arrays: list[np.ndarray], bar: np.ndarray) -> Side:
    conv = networks.jax_functions().conv
    return differentiated_by_jax(lambda x, weight, bias: conv(x, weight, bias, 1), arrays, bar)


def problem(draw: Callable, batch: int, places: int, dtype: str) -> tuple[dict, np.ndarray, np.ndarray]:
    """Weights by name; input and target (B, 8, L)."""
    rng = np.random.default_rng(0)
    x, target = rng.normal(size=(2, batch, 8, places)).astype(dtype)
    return {name: array.astype(dtype) for name, array in draw(rng).items()}, x, target


def distance(functions: networks.Functions, network: Callable, weights: dict, x: Any, target: Any) -> Any:
    """The loss."""
    difference = network(functions, weights, x) - target
    return functions.mean(difference * difference)


def step_in_refnp(network: Callable, arrays: dict, x: np.ndarray, target: np.ndarray) -> Side:
    from refnp.autograd import Parameter

    weights = {name: Parameter(array) for name, array in arrays.items()}
    functions = networks.refnp_functions()
    return training.by_refnp(lambda: distance(functions, network, weights, x, target), list(weights.values()))


def step_in_torch(network: Callable, arrays: dict, x: np.ndarray, target: np.ndarray) -> Side:
    import torch

    weights = {name: torch.nn.Parameter(torch.from_numpy(array)) for name, array in arrays.items()}
    functions, given = networks.torch_functions(), (torch.from_numpy(x), torch.from_numpy(target))
    leaves = list(weights.values())
    return training.by_torch(
        lambda: distance(functions, network, weights, *given), leaves, lambda: [leaf.grad.numpy() for leaf in leaves]
    )


def step_in_jax(network: Callable, arrays: dict, x: np.ndarray, target: np.ndarray) -> Side:
    functions = networks.jax_functions()
    return training.by_jax(lambda w: distance(functions, network, w, x, target), arrays)


def step_in_autograd(network: Callable, arrays: dict, x: np.ndarray, target: np.ndarray) -> Side:
    functions = networks.autograd_functions()
    return training.by_autograd(lambda w: distance(functions, network, w, x, target), arrays)


def step_in_mygrad(network: Callable, arrays: dict, x: np.ndarray, target: np.ndarray) -> Side:
    functions = networks.mygrad_functions()
    return training.by_mygrad(lambda w: distance(functions, network, w, x, target), arrays)
