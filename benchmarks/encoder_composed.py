"""The encoder step's weights, and its text for the frameworks that look like NumPy: JAX, autograd and MyGrad."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.timing import Side

RATE = 1e-4  # small, so that hundreds of steps stay where they began
LINEAR = ("query", "key", "value", "output", "up", "down")


@dataclass(frozen=True)
class Sizes:
    layers: int = 6
    width: int = 64
    heads: int = 4
    hidden: int = 128
    batch: int = 16
    tokens: int = 50


def problem(sizes: Sizes, dtype: str) -> tuple[list[dict[str, np.ndarray]], np.ndarray, np.ndarray]:
    """Weights by name for every layer, tokens and target (B, N, D)."""
    rng = np.random.default_rng(0)
    shapes = {name: (sizes.width, sizes.width) for name in LINEAR}
    shapes |= {"up": (sizes.width, sizes.hidden), "down": (sizes.hidden, sizes.width)}

    def layer() -> dict[str, np.ndarray]:
        weights = {}
        for name, (n, m) in shapes.items():
            weights[name] = rng.uniform(-(n**-0.5), n**-0.5, (n, m)).astype(dtype)
            weights[name + "_bias"] = rng.uniform(-(n**-0.5), n**-0.5, m).astype(dtype)
        for name in ("gain1", "gain2"):
            weights[name] = np.ones(sizes.width, dtype)
        for name in ("shift1", "shift2"):
            weights[name] = np.zeros(sizes.width, dtype)
        return weights

    layers = [layer() for _ in range(sizes.layers)]
    x, target = rng.normal(size=(2, sizes.batch, sizes.tokens, sizes.width)).astype(dtype)
    return layers, x, target


def mean_square(xp: Any, softmax: Callable, layers: list[dict], x: Any, target: Any, heads: int) -> Any:
    """The loss, in the functions that NumPy and its differentiable likenesses share."""
    batch, tokens, width = x.shape

    def linear(x, name, w):
        return xp.matmul(x, w[name]) + w[name + "_bias"]

    def split(x):
        return xp.transpose(xp.reshape(x, (batch, tokens, heads, width // heads)), (0, 2, 1, 3))

    def norm(x, gain, shift):
        centred = x - xp.mean(x, -1, keepdims=True)
        return centred / xp.sqrt(xp.mean(centred * centred, -1, keepdims=True) + 1e-5) * gain + shift

    x = xp.reshape(x, (batch * tokens, width))  # so that linear maps are one product each
    for w in layers:
        q, k, v = (split(linear(x, name, w)) for name in LINEAR[:3])
        weights = softmax(xp.matmul(q, xp.transpose(k, (0, 1, 3, 2))) * (width // heads) ** -0.5)
        joined = xp.reshape(xp.transpose(xp.matmul(weights, v), (0, 2, 1, 3)), (batch * tokens, width))
        x = norm(x + linear(joined, "output", w), w["gain1"], w["shift1"])
        x = norm(x + linear(xp.maximum(linear(x, "up", w), 0), "down", w), w["gain2"], w["shift2"])
    distance = xp.reshape(x, (batch, tokens, width)) - target
    return xp.mean(distance * distance)


def in_jax(sizes: Sizes, dtype: str) -> Side:
    import jax
    import jax.numpy as jnp

    arrays, x, target = problem(sizes, dtype)
    loss = jax.value_and_grad(lambda w: mean_square(jnp, jax.nn.softmax, w, x, target, sizes.heads))

    def adam(state):
        weights, means, squares, t = state
        value, bars = loss(weights)
        means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, bars)
        squares = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, squares, bars)
        rate, root = RATE / (1 - 0.9**t), (1 - 0.999**t) ** -0.5
        weights = jax.tree.map(lambda w, m, v: w - rate * m / (jnp.sqrt(v) * root + 1e-8), weights, means, squares)
        return (weights, means, squares, t + 1), value

    step = jax.jit(adam, donate_argnums=0)
    layers = jax.tree.map(jnp.asarray, arrays)
    value, bars = jax.jit(loss)(layers)
    state = [(layers, jax.tree.map(jnp.zeros_like, layers), jax.tree.map(jnp.zeros_like, layers), jnp.ones((), dtype))]

    def run() -> None:
        state[0], loss_before = step(state[0])
        jax.block_until_ready((state[0], loss_before))

    return Side(run, lambda: ([np.asarray(value)], [np.asarray(bar[name]) for bar in bars for name in arrays[0]]))


def in_autograd(sizes: Sizes, dtype: str) -> Side:
    import autograd
    import autograd.numpy as anp

    layers, x, target = problem(sizes, dtype)
    loss = autograd.value_and_grad(lambda w: mean_square(anp, softmax_in_autograd, w, x, target, sizes.heads))
    return with_adam(layers, lambda: loss(layers))


def softmax_in_autograd(x: Any) -> Any:
    """With the row maximum as a constant, which saves its costly derivative: the result does not depend on it."""
    import autograd.numpy as anp
    from autograd.tracer import getval

    p = anp.exp(x - np.max(getval(x), -1, keepdims=True))
    return p / anp.sum(p, -1, keepdims=True)


def in_mygrad(sizes: Sizes, dtype: str) -> Side:
    import mygrad
    from mygrad.nnet.activations import softmax

    mygrad.turn_memory_guarding_off()  # as its documentation advises for speed
    layers, x, target = problem(sizes, dtype)

    def value_and_bars() -> Any:
        tensors = [{name: mygrad.tensor(array, copy=False) for name, array in w.items()} for w in layers]
        loss = mean_square(mygrad, softmax, tensors, x, target, sizes.heads)
        loss.backward()
        return loss.data, [{name: tensor.grad for name, tensor in w.items()} for w in tensors]

    return with_adam(layers, value_and_bars)


def with_adam(layers: list[dict], value_and_bars: Callable) -> Side:
    """A step with refnp's Adam, which moves the arrays of `layers` in place."""
    from refnp.autograd import Parameter
    from refnp.training.optimizers import Adam

    parameters = []
    for w in layers:
        for name, array in w.items():
            parameters.append(Parameter(array))
            w[name] = parameters[-1].data
    adam = Adam(parameters, learning_rate=RATE)

    def bars_in_order() -> tuple[Any, list]:
        value, bars = value_and_bars()
        return value, [bar[name] for bar in bars for name in layers[0]]

    def run() -> None:
        for parameter, bar in zip(parameters, bars_in_order()[1], strict=True):
            parameter.grad = bar
        adam.step()

    def result() -> tuple[list, list]:
        value, bars = bars_in_order()
        return [np.asarray(value)], list(map(np.asarray, bars))

    return Side(run, result)
