"""What can be asked of the tape: gradients, products with Jacobians and Hessians, the matrices themselves.

A function here takes arrays, or nested dicts, lists and tuples of arrays, and returns the same; what it does inside
with refnp's operations is differentiated. Integers, booleans, strings and None are constants.

Reverse mode (vjp) follows the tape. Forward mode (jvp) and second order (hvp) need no rules of their own: an analytic
program evaluated at x + i h v carries the derivative along v in its imaginary part,

    f(x + i h v) = f(x) + i h Df(x) v − ½ h² D²f(x)[v, v] − …,   so   Df(x) v = Im f(x + i h v) / h,

and with h = 10⁻¹⁰⁰ the next term is 10⁻²⁰⁰: no truncation, no cancellation. The same program run backward gives, in the
imaginary part of its gradient, the Hessian times v. Functions with kinks decide by the real part.
Source: Squire & Trapp, SIAM Rev. 40 (1998) 110; Martins, Sturdza & Alonso, ACM TOMS 29 (2003) 245.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.autograd.primitive import raw
from refnp.autograd.tensor import Tensor, gradients_of

STEP = 1e-100


def leaves_of(tree: Any) -> list:
    """The leaves of nested dicts, lists and tuples, in order."""
    if isinstance(tree, dict):
        return [leaf for key in tree for leaf in leaves_of(tree[key])]
    if isinstance(tree, (list, tuple)):
        return [leaf for branch in tree for leaf in leaves_of(branch)]
    return [tree]


def map_leaves(function: Callable, tree: Any, *others: Any) -> Any:
    """The same nesting with function(leaf, …) in place of each leaf; `others` must be nested alike."""
    if isinstance(tree, dict):
        return {key: map_leaves(function, tree[key], *(o[key] for o in others)) for key in tree}
    if isinstance(tree, (list, tuple)):
        branches = [map_leaves(function, *parts) for parts in zip(tree, *others, strict=True)]
        return type(tree)(*branches) if hasattr(tree, "_fields") else type(tree)(branches)
    return function(tree, *others)


def is_differentiable(leaf: Any) -> bool:
    """True for real and complex numbers and arrays of them; integers, booleans and None have no gradient."""
    return isinstance(leaf, (Tensor, np.ndarray, np.generic, float, complex)) and np.asarray(raw(leaf)).dtype.kind in "fc"


def vjp(function: Callable, *arguments: Any) -> tuple[Any, Callable]:
    """The value of `function` and its pullback: ȳ ↦ (x̄ for every argument), x̄ = Jᵀ ȳ.

    The pullback may be called any number of times. Constants have gradient None.
    Same convention as jax.vjp and torch.func.vjp.
    """
    tracked = map_leaves(lambda a: Tensor(raw(a), requires_grad=True) if is_differentiable(a) else a, arguments)
    result = function(*tracked)
    outputs = leaves_of(result)

    def pullback(cotangent: Any) -> tuple:
        bars = leaves_of(cotangent)
        if len(bars) != len(outputs):
            raise ValueError(f"vjp: the cotangent has {len(bars)} leaves, the result has {len(outputs)}")
        pairs = [(y, bar) for y, bar in zip(outputs, bars, strict=True) if isinstance(y, Tensor)]
        found = gradients_of([y for y, _ in pairs], [raw(bar) for _, bar in pairs], keep_tape=True)
        gradients = {id(leaf): gradient for leaf, gradient in found}

        def gradient_of(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return None
            return np.array(gradients[id(leaf)]) if id(leaf) in gradients else np.zeros(leaf.shape, leaf.dtype)

        return map_leaves(gradient_of, tracked)

    return map_leaves(raw, result), pullback


def value_and_grad(function: Callable, argnums: int | tuple[int, ...] = 0) -> Callable:
    """A function that returns `function`'s scalar value and its gradient with respect to some arguments.

    Raises ValueError when the result is not one scalar: use vjp or jacobian for those.
    """

    def evaluate(*arguments: Any) -> tuple:
        chosen = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        if any(not -len(arguments) <= k < len(arguments) for k in chosen):
            raise ValueError(f"grad: argnums {argnums} is out of range for {len(arguments)} arguments")

        def of_chosen(*values: Any) -> Any:
            full = list(arguments)
            for k, value in zip(chosen, values, strict=True):
                full[k] = value
            return function(*full)

        value, pullback = vjp(of_chosen, *(arguments[k] for k in chosen))
        if np.size(value) != 1 or isinstance(value, (dict, list, tuple)):
            raise ValueError(f"grad: the result has shape {np.shape(value)}, not one number; use vjp or jacobian")
        gradients = pullback(np.ones_like(value))
        return value, gradients[0] if isinstance(argnums, int) else gradients

    return evaluate


def grad(function: Callable, argnums: int | tuple[int, ...] = 0) -> Callable:
    """A function that returns the gradient of a scalar `function` with respect to some arguments."""
    evaluate = value_and_grad(function, argnums)
    return lambda *arguments: evaluate(*arguments)[1]


def stepped(leaf: Any, direction: Any) -> Any:
    """leaf + i h·direction, in the complex type of the leaf's precision (double for float32); constants stay."""
    if not is_differentiable(leaf) or direction is None:
        return leaf
    leaf, direction = np.asarray(raw(leaf)), np.asarray(raw(direction))
    if leaf.dtype.kind == "c":
        raise TypeError("jvp: arguments must be real; the complex step has used up the imaginary part")
    if leaf.shape != direction.shape:
        raise ValueError(f"jvp: a tangent has shape {direction.shape}, its argument {leaf.shape}")
    return leaf + (1j * STEP) * direction.astype(np.result_type(leaf, np.float64))


def imaginary(value: Any, like: np.dtype | None = None) -> Any:
    """Im(value)/h: the derivative that a complex step left in a result, 0 if it did not depend on the argument."""
    value = np.asarray(raw(value))
    derivative = value.imag / STEP if value.dtype.kind == "c" else np.zeros(value.shape, value.dtype)
    return derivative.astype(like) if like is not None else derivative


def jvp(function: Callable, primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    """The value y = f(x) and its derivative along `tangents`, ẏ = J ẋ, by one complex step.

    Same convention as jax.jvp; nesting of primals and tangents must agree. `function` must be analytic code.
    Raises TypeError for complex primals, ValueError where the shapes of a primal and its tangent differ.
    """
    value = map_leaves(raw, function(*primals))
    moved = function(*map_leaves(stepped, tuple(primals), tuple(tangents)))
    return value, map_leaves(lambda y, m: imaginary(m, np.asarray(y).dtype), value, moved)


def hvp(function: Callable, primals: tuple, tangents: tuple) -> tuple[tuple, tuple]:
    """The gradient g of a scalar function and the Hessian times a vector, H v, one per argument.

    The reverse pass of f at x + i h v: g(x + i h v) = g(x) + i h H v, exact to rounding.
    """
    moved = map_leaves(stepped, tuple(primals), tuple(tangents))
    value, pullback = vjp(function, *moved)
    if np.size(value) != 1 or isinstance(value, (dict, list, tuple)):
        raise ValueError(f"hvp: the result has shape {np.shape(value)}, not one number")
    gradients = pullback(np.ones_like(value))

    def split(primal: Any, gradient: Any, part: Callable) -> Any:
        return None if gradient is None else part(gradient).astype(np.asarray(raw(primal)).dtype)

    return (
        map_leaves(lambda p, g: split(p, g, np.real), tuple(primals), gradients),
        map_leaves(lambda p, g: split(p, g, imaginary), tuple(primals), gradients),
    )


def jacobian(function: Callable, argnum: int = 0) -> Callable:
    """A function that returns J_ij = ∂y_i/∂x_j, shape y.shape + x.shape, a row per element of y by its pullback."""

    def evaluate(*arguments: Any) -> np.ndarray:
        def of_one(x: Any) -> Any:
            return function(*arguments[:argnum], x, *arguments[argnum + 1 :])

        y, pullback = vjp(of_one, arguments[argnum])
        y, shape = np.asarray(y), np.shape(raw(arguments[argnum]))
        rows = np.zeros((y.size, *shape), np.result_type(y, raw(arguments[argnum])))
        for i in range(y.size):
            unit = np.zeros(y.size, y.dtype)
            unit[i] = 1
            rows[i] = pullback(unit.reshape(y.shape))[0]
        return rows.reshape(y.shape + shape)

    return evaluate


def hessian(function: Callable, argnum: int = 0) -> Callable:
    """A function that returns H_ij = ∂²y/∂x_i∂x_j of a scalar, shape x.shape + x.shape, a column per element of x."""

    def evaluate(*arguments: Any) -> np.ndarray:
        def of_one(x: Any) -> Any:
            return function(*arguments[:argnum], x, *arguments[argnum + 1 :])

        x = np.asarray(raw(arguments[argnum]))
        columns = np.zeros((x.size, *x.shape), x.dtype)
        for j in range(x.size):
            unit = np.zeros(x.size, x.dtype)
            unit[j] = 1
            columns[j] = hvp(of_one, (x,), (unit.reshape(x.shape),))[1][0]
        return np.moveaxis(columns.reshape(x.shape + x.shape), range(x.ndim), range(x.ndim, 2 * x.ndim))

    return evaluate
