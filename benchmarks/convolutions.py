"""Convolutions forward and backward on arrays that no cache holds, and training steps of the networks of a ConvCNP.

The networks are those of networks.py, on 16 tasks of 320 places; the loss is the mean squared distance to a random
target. autograd's `convolve` has no strides and MyGrad's `conv_nd` no transpose, so they have no U-Net; on the large
arrays they would take seconds a run, so they are left out there too.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import differentiated, networks, training
from benchmarks.timing import Needs, Side, Work

LARGE = {  # shapes of x and of the weight; x has 17 MB in float32, and so has y
    "conv1d": ((16, 32, 8192), (32, 32, 5)),
    "conv2d": ((8, 32, 128, 128), (32, 32, 3, 3)),
}
NETWORKS = {
    "CNN step": (networks.cnn, networks.cnn_weights),
    "U-Net step": (networks.unet, networks.unet_weights),
}
BATCH, PLACES = 16, 320
AIMS = {"conv1d": 1.2, "conv2d": 1.2, "CNN step": 1.2, "U-Net step": 1.0}


def works(large: dict[str, tuple] | None = None, batch: int = BATCH, places: int = PLACES) -> list[Work]:
    found = []
    for dtype in ("float32", "float64"):
        for name, (x, weight) in (large or LARGE).items():
            makers = {
                framework: functools.partial(large_side, framework, x, weight, dtype)
                for framework in ("refnp", "torch", "jax")
            }
            terms = x[0] * math.prod(x[2:]) + math.prod(weight[1:])
            everywhere = x[0] * math.prod(x[2:])
            needs = dataclasses.replace(needs_of(weight, everywhere), numbers=3 * everywhere * sum(weight[:2]))
            found.append(Work(name, dtype, makers, terms, aims={"torch": AIMS[name]}, needs=needs))
        for name, (network, draw) in NETWORKS.items():
            makers = {
                framework: functools.partial(step_side, make, network, draw, batch, places, dtype)
                for framework, make in STEPS.items()
                if network is networks.cnn or framework not in ("autograd", "mygrad")
            }
            layers = len(draw(np.random.default_rng(0))) // 2
            terms = layers * 64 * networks.KERNEL + batch * places
            shapes = {name: array.shape for name, array in draw(np.random.default_rng(0)).items()}
            needs = needs_of_network(shapes, batch, places)
            found.append(Work(name, dtype, makers, terms, aims={"torch": AIMS[name]}, needs=needs))
    return found


def needs_of(weight: tuple[int, ...], places: int) -> Needs:
    """What a convolution takes at least, with its gradients for x, weight (channels, channels, *kernel) and bias.

    Each weight is used at every place of the shorter side, three times. Matrix products need windows that are laid out:
    those of all taps; or those of the axes after the first, with a product for each tap of the first, and these are
    added, which a weight's gradient does without. The bias is added, and its gradient summed.
    """
    outs, ins, *kernel = weight
    taps, others = math.prod(kernel), math.prod(kernel[1:])

    def laid_out(read: int, made: int) -> int:
        return min(read * taps, read * others + made * (kernel[0] - 1))

    few = min(outs, ins)
    passes = laid_out(ins, outs) + laid_out(outs, ins) + few * others + 2 * few
    return Needs(products=6 * places * math.prod(weight), passes=places * passes)


def needs_of_network(shapes: dict[str, tuple[int, ...]], batch: int, places: int) -> Needs:
    """The layers of a CNN or a U-Net, whose weights have these shapes by name.

    2 operations a number for ReLU and its gradient, and 10 a parameter for Adam.
    """
    products, passes, length = 0.0, 0.0, places
    for name, shape in shapes.items():
        passes += 10 * math.prod(shape)
        if len(shape) > 1:
            length //= 2 if name.startswith("down") else 1
            layer = needs_of(shape, batch * length)
            length *= 2 if name.startswith("up") else 1
            products, passes = products + layer.products, passes + layer.passes
            passes += 2 * batch * length * shape[1 if name.startswith("up") else 0]
    return Needs(products=products, passes=passes)


def large_side(framework: str, x_shape: tuple, weight_shape: tuple, dtype: str) -> Side:
    """One convolution of x with a weight and a bias, differentiated with respect to all three."""
    rng = np.random.default_rng(0)
    x, weight = (rng.normal(size=shape).astype(dtype) for shape in (x_shape, weight_shape))
    bias = rng.normal(size=len(weight)).astype(dtype)
    bar = rng.normal(size=(len(x), len(weight), *x.shape[2:])).astype(dtype)
    conv = networks.FUNCTIONS[framework]().conv
    return differentiated.BY[framework](lambda *leaves: conv(*leaves, 1), [x, weight, bias], bar)


def step_side(make: Callable, network: Callable, draw: Callable, batch: int, places: int, dtype: str) -> Side:
    """A step of `network` from weights by name, with input and target (B, 8, L)."""
    rng = np.random.default_rng(0)
    x, target = rng.normal(size=(2, batch, 8, places)).astype(dtype)
    return make(network, {name: array.astype(dtype) for name, array in draw(rng).items()}, x, target)


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


STEPS = {
    "refnp": step_in_refnp,
    "torch": step_in_torch,
    "jax": step_in_jax,
    "autograd": step_in_autograd,
    "mygrad": step_in_mygrad,
}
