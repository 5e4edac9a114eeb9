"""Whole matrices of derivatives, row by row: for small functions, for looking at, and for tests.

jacobian: J_ij = ∂y_i/∂x_j, row i the pullback of the i-th unit vector
hessian: H_ij = ∂²y/∂x_i∂x_j, row i the product of H with the i-th unit vector (H is symmetric)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.autograd.derivatives import hvp, vjp
from refnp.autograd.primitive import raw
from refnp.autograd.trees import is_differentiable, leaves_of, map_leaves, rebuilt


def jacobian(function: Callable, argnum: int = 0) -> Callable:
    """A function that returns J_ij = ∂y_i/∂x_j, shape y.shape + x.shape, a row per element of y by its pullback.

    For nested results and arguments, such a matrix for every pair: the nesting of y, in each leaf that of x.
    Raises ValueError if argnum is out of range.
    """

    def evaluate(*arguments: Any) -> Any:
        of_one, x = _alone(function, arguments, argnum)
        y, pullback = vjp(of_one, x)
        outputs = [np.asarray(leaf) for leaf in leaves_of(y)]

        def rows(k: int) -> Any:
            bars = [np.zeros_like(output) for output in outputs]
            gradients = []
            for i in range(outputs[k].size):
                bars[k].flat[i] = 1
                gradients.append(pullback(bars)[0])
                bars[k].flat[i] = 0
            return _stacked(gradients, x, outputs[k].shape)

        return rebuilt(y, map(rows, range(len(outputs))))

    return evaluate


def hessian(function: Callable, argnum: int = 0) -> Callable:
    """A function that returns H_ij = ∂²y/∂x_i∂x_j of a scalar, shape x.shape + x.shape, a row per element of x by hvp.

    For a nested argument, such a matrix for every pair of its leaves: the nesting of x, in each leaf that of x again.
    Raises ValueError if argnum is out of range or the result is not one number.
    """

    def evaluate(*arguments: Any) -> Any:
        of_one, x = _alone(function, arguments, argnum)
        leaves = leaves_of(x)

        def rows(k: int) -> Any:
            if not is_differentiable(leaves[k]):
                return None
            units = [np.zeros_like(raw(leaf)) if is_differentiable(leaf) else None for leaf in leaves]
            unit = units[k] = np.zeros_like(raw(leaves[k]))
            products = []
            for i in range(unit.size):
                unit.flat[i] = 1
                products.append(hvp(of_one, (x,), (rebuilt(x, units),))[1][0])
                unit.flat[i] = 0
            return _stacked(products, x, unit.shape)

        return rebuilt(x, map(rows, range(len(leaves))))

    return evaluate


def _alone(function: Callable, arguments: tuple, argnum: int) -> tuple[Callable, Any]:
    """The function of one argument, the others held, and that argument."""
    if not -len(arguments) <= argnum < len(arguments):
        raise ValueError(f"argnum {argnum} is out of range for {len(arguments)} arguments")
    before, x, after = arguments[:argnum], arguments[argnum], arguments[argnum:][1:]
    return lambda value: function(*before, value, *after), x


def _stacked(trees: list, like: Any, shape: tuple[int, ...]) -> Any:
    """Trees of gradients, one per element of an array of `shape`, as one tree of arrays with its axes in front."""

    def stack(leaf: Any, *parts: Any) -> Any:
        if not is_differentiable(leaf):
            return None
        leaf = np.asarray(raw(leaf))
        return np.array(parts, None if parts else leaf.dtype).reshape(shape + leaf.shape)

    return map_leaves(stack, like, *trees)
