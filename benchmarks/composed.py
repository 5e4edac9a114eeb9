"""A function of arrays and its gradients by the frameworks that look like NumPy: JAX under `jit`, autograd, MyGrad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.timing import Side


def differentiated_by_jax(function: Callable, arrays: list[np.ndarray], bar: np.ndarray) -> Side:
    """Value and gradients under one `jit`, both returned, so that neither is left out."""
    import jax

    @jax.jit
    def both(arguments: list, cotangent: Any) -> tuple:
        y, pullback = jax.vjp(function, *arguments)
        return y, pullback(cotangent)

    on_device = [jax.numpy.asarray(a) for a in arrays], jax.numpy.asarray(bar)

    def result() -> tuple[list, list]:
        y, bars = both(*on_device)
        return [np.asarray(y)], [np.asarray(b) for b in bars]

    return Side(lambda: jax.block_until_ready(both(*on_device)), result)


def differentiated_by_autograd(function: Callable, arrays: list[np.ndarray], bar: np.ndarray) -> Side:
    from autograd import make_vjp

    of_one_argument = make_vjp(lambda arguments: function(*arguments))

    def run() -> tuple:
        pullback, y = of_one_argument(tuple(arrays))
        return y, pullback(bar)

    def result() -> tuple[list, list]:
        y, bars = run()
        return [y], list(bars)

    return Side(run, result)


def differentiated_by_mygrad(function: Callable, arrays: list[np.ndarray], bar: np.ndarray) -> Side:
    import mygrad

    mygrad.turn_memory_guarding_off()  # as its documentation advises for speed

    def run() -> tuple:
        leaves = [mygrad.tensor(a, copy=False) for a in arrays]
        y = function(*leaves)
        y.backward(bar)
        return y.data, [leaf.grad for leaf in leaves]

    def result() -> tuple[list, list]:
        y, bars = run()
        return [y], bars

    return Side(run, result)


def softmax_in_autograd(x: Any) -> Any:
    """With the row maximum as a constant, which saves its costly derivative: the result does not depend on it."""
    import autograd.numpy as anp
    from autograd.tracer import getval

    p = anp.exp(x - np.max(getval(x), -1, keepdims=True))
    return p / anp.sum(p, -1, keepdims=True)
