"""A function of arrays, its value and its gradients, in each framework: y = f(x₁, …) and x̄ᵢ from a given ȳ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.timing import Side


def by_refnp(function: Callable, arrays: list[np.ndarray], bar: np.ndarray) -> Side:
    from refnp.autograd import Tensor

    return _by_backward(function, [Tensor(a, requires_grad=True) for a in arrays], bar, lambda y: y.data)


def by_torch(function: Callable, arrays: list[np.ndarray], bar: np.ndarray) -> Side:
    import torch

    leaves = [torch.from_numpy(a).requires_grad_() for a in arrays]
    return _by_backward(function, leaves, torch.from_numpy(bar), lambda y: y.detach().numpy())


def _by_backward(function: Callable, leaves: list, bar: Any, array_of: Callable[[Any], np.ndarray]) -> Side:
    """By leaves that keep their gradients, of which as of results `array_of` makes arrays."""

    def run() -> Any:
        for leaf in leaves:
            leaf.grad = None
        y = function(*leaves)
        y.backward(bar)
        return y

    return Side(run, lambda: ([array_of(run())], [np.asarray(leaf.grad) for leaf in leaves]))


def by_jax(function: Callable, arrays: list[np.ndarray], bar: np.ndarray) -> Side:
    """Value and gradients under one `jit`, both returned, so that neither is left out."""
    import jax

    @jax.jit
    def both(arguments: list, cotangent: Any) -> tuple:
        y, pullback = jax.vjp(function, *arguments)
        return y, pullback(cotangent)

    on_device = [jax.numpy.asarray(a) for a in arrays], jax.numpy.asarray(bar)
    return _returning(lambda: jax.block_until_ready(both(*on_device)))


def _returning(run: Callable[[], tuple]) -> Side:
    """By a program that returns the value and the gradients."""

    def result() -> tuple[list, list]:
        y, bars = run()
        return [np.asarray(y)], [np.asarray(b) for b in bars]

    return Side(run, result)


def by_autograd(function: Callable, arrays: list[np.ndarray], bar: np.ndarray) -> Side:
    from autograd import make_vjp

    of_one_argument = make_vjp(lambda arguments: function(*arguments))

    def run() -> tuple:
        pullback, y = of_one_argument(tuple(arrays))
        return y, pullback(bar)

    return _returning(run)


def by_mygrad(function: Callable, arrays: list[np.ndarray], bar: np.ndarray) -> Side:
    import mygrad

    mygrad.turn_memory_guarding_off()  # as its documentation advises for speed

    def run() -> tuple:
        leaves = [mygrad.tensor(a, copy=False) for a in arrays]
        y = function(*leaves)
        y.backward(bar)
        return y.data, [leaf.grad for leaf in leaves]

    return _returning(run)


BY = {"refnp": by_refnp, "torch": by_torch, "jax": by_jax, "autograd": by_autograd, "mygrad": by_mygrad}


def softmax_in_autograd(x: Any) -> Any:
    """With the row maximum as a constant, which saves its costly derivative: the result does not depend on it."""
    import autograd.numpy as anp
    from autograd.tracer import getval

    p = anp.exp(x - np.max(getval(x), -1, keepdims=True))
    return p / anp.sum(p, -1, keepdims=True)
