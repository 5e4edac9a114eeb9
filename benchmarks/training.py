"""A training step in each framework: the loss, its gradients, Adam.

`arrays` are the weights by name, the same ones everywhere; gradients are compared in their order.
PyTorch has its own Adam. JAX's stands under the same `jit` as the rest. autograd and MyGrad have none: refnp's serves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.timing import Needs, Side

Arrays = dict[str, np.ndarray]
RATE = 1e-4  # small, so that hundreds of steps stay near where they began


@dataclass(frozen=True)
class Sizes:
    """Those of the papers' one-dimensional models."""

    layers: int = 6
    width: int = 64
    heads: int = 4
    hidden: int = 128
    batch: int = 16


def needs_of_layers(layers: int, sizes: Any, tokens: int, *, crossing: int = 0, words: int = 0) -> Needs:
    """What a step of so many Transformer layers takes at least; `crossing` of them attend to the encoder as well.

    Of width D, with a feed-forward of H: products 6 (4 D² + 2 D H) a token and 12 D a pair, one exponential a pair and
    head; operations on single numbers: LayerNorm 12, its sum 2, biases 4, ReLU 3 a number, softmax and its gradient 6 a
    pair and head; Adam 10 a parameter. `words`: a last map to so many logits, with their softmax.
    """
    many, width = sizes.batch * tokens, sizes.width
    attentions = layers + crossing
    parameters = attentions * 4 * width**2 + layers * 2 * width * sizes.hidden + width * words
    pairs = attentions * many * tokens * sizes.heads
    numbers = many * width * (18 * (layers + attentions)) + many * sizes.hidden * 4 * layers
    return Needs(
        products=6 * many * parameters + 12 * attentions * many * tokens * width,
        exponentials=pairs + many * words,
        passes=numbers + 6 * pairs + 6 * many * words + 10 * parameters,
    )


def by_refnp(loss: Callable[[], Any], parameters: list) -> Side:
    from refnp.layers.module import on_tape
    from refnp.training.optimizers import Adam

    adam = Adam(parameters, learning_rate=RATE)

    def recorded() -> Any:
        with on_tape():
            return loss()

    return _step(adam, recorded, lambda value: ([value.data], [p.grad for p in parameters]))


def by_torch(loss: Callable[[], Any], parameters: list, gradients: Callable[[], list[np.ndarray]]) -> Side:
    """`gradients` reads them from the parameters, in the shapes and the order of all frameworks."""
    import torch

    adam = torch.optim.Adam(parameters, lr=RATE)
    return _step(adam, loss, lambda value: ([value.detach().numpy()], gradients()))


def _step(adam: Any, loss: Callable[[], Any], result: Callable[[Any], tuple[list, list]]) -> Side:
    """The gradients of `loss()` and a step of Adam; `result` reads the loss and the gradients."""

    def backward() -> Any:
        adam.zero_grad()
        value = loss()
        value.backward()
        return value

    def run() -> None:
        backward()
        adam.step()

    return Side(run, lambda: result(backward()))


def by_jax(loss: Callable[[dict], Any], arrays: Arrays) -> Side:
    import jax
    import jax.numpy as jnp

    value_and_bars = jax.value_and_grad(loss)

    def adam(state: tuple) -> tuple:
        weights, means, squares, t = state
        value, bars = value_and_bars(weights)
        means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, bars)
        squares = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, squares, bars)
        rate, root = RATE / (1 - 0.9**t), (1 - 0.999**t) ** -0.5
        weights = jax.tree.map(lambda w, m, v: w - rate * m / (jnp.sqrt(v) * root + 1e-8), weights, means, squares)
        return (weights, means, squares, t + 1), value

    step = jax.jit(adam, donate_argnums=0)
    weights = {name: jnp.asarray(array) for name, array in arrays.items()}
    value, bars = jax.jit(value_and_bars)(weights)
    zeros = [{name: jnp.zeros_like(array) for name, array in weights.items()} for _ in range(2)]
    state = [(weights, *zeros, jnp.ones((), value.dtype))]

    def run() -> None:
        state[0], last = step(state[0])
        jax.block_until_ready((state[0], last))

    return Side(run, lambda: ([np.asarray(value)], [np.asarray(bars[name]) for name in arrays]))


def by_autograd(loss: Callable[[dict], Any], arrays: Arrays) -> Side:
    import autograd

    value_and_bars = autograd.value_and_grad(loss)

    def of(weights: Arrays) -> tuple:
        value, bars = value_and_bars(weights)
        return value, list(bars.values())

    return _with_adam(of, arrays)


def by_mygrad(loss: Callable[[dict], Any], arrays: Arrays) -> Side:
    import mygrad

    mygrad.turn_memory_guarding_off()  # as its documentation advises for speed

    def of(weights: Arrays) -> tuple:
        tensors = {name: mygrad.tensor(array, copy=False) for name, array in weights.items()}
        value = loss(tensors)
        value.backward()
        return value.data, [tensor.grad for tensor in tensors.values()]

    return _with_adam(of, arrays)


def _with_adam(value_and_bars: Callable[[Arrays], tuple], arrays: Arrays) -> Side:
    """With refnp's Adam, which moves the parameters' arrays in place."""
    from refnp.autograd import Parameter
    from refnp.training.optimizers import Adam

    parameters = {name: Parameter(array) for name, array in arrays.items()}
    weights = {name: parameter.data for name, parameter in parameters.items()}
    adam = Adam(parameters.values(), learning_rate=RATE)

    def run() -> None:
        _, bars = value_and_bars(weights)
        for parameter, bar in zip(parameters.values(), bars, strict=True):
            parameter.grad = bar
        adam.step()

    def result() -> tuple[list, list]:
        value, bars = value_and_bars(weights)
        return [np.asarray(value)], [np.asarray(bar) for bar in bars]

    return Side(run, result)
