"""Derivatives: gradients, Jacobians and Hessians, and products with them.

A function here takes arrays, or nested dicts, lists and tuples of arrays, and returns the same; what it does inside
with refnp's operations is differentiated. Integers, booleans, strings and None are constants.

Reverse mode (vjp) follows the tape. Forward mode (jvp) and second order (hvp) need no rules of their own: an analytic
program evaluated at x + i h v carries the derivative along v in its imaginary part,

    f(x + i h v) = f(x) + i h Df(x) v − ½ h² D²f(x)[v, v] − …,   so   Df(x) v = Im f(x + i h v) / h,

and with h = 10⁻¹⁰⁰ the next term is 10⁻²⁰⁰: no truncation, no cancellation. The same program run backward gives, in the
imaginary part of its gradient, the Hessian times v. Functions with kinks decide by the real part.
Source: Squire & Trapp (1998); Martins, Sturdza & Alonso (2003).

One reverse pass inside another would lose gradients, as would a complex step inside another; both are refused. Second
derivatives are hvp and hessian, or jvp of grad.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.autograd.backward import gradients_of, tape_of
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.autograd.trees import is_differentiable, leaves_of, map_leaves, rebuilt

STEP = 1e-100


class Variable(Tensor):
    """A leaf that `vjp` made. Meeting one in another derivative means that derivatives are nested."""

    __slots__ = ()


def vjp(function: Callable, *arguments: Any) -> tuple[Any, Callable]:
    """The value of `function` and its pullback: ȳ ↦ (x̄ for every argument), x̄ = Jᵀ ȳ.

    The pullback may be called any number of times. Constants have gradient None.
    Raises TypeError inside another vjp or grad that differentiates the same values; the pullback raises ValueError
    for a cotangent of another nesting or shape than the result.
    Same convention as jax.vjp and torch.func.vjp.
    """

    def variable(leaf: Any) -> Any:
        return Variable(_values("vjp", leaf), requires_grad=True) if is_differentiable(leaf) else leaf

    tracked = map_leaves(variable, arguments)
    result = function(*tracked)
    outputs = leaves_of(result)
    own = {id(leaf) for leaf in leaves_of(tracked)}

    def pullback(cotangent: Any) -> tuple:
        bars = leaves_of(cotangent)
        if len(bars) != len(outputs):
            raise ValueError(f"vjp: the cotangent has {len(bars)} leaves, the result has {len(outputs)}")
        pairs = [(y, bar) for y, bar in zip(outputs, bars, strict=True) if isinstance(y, Tensor)]
        found = gradients_of([y for y, _ in pairs], [bar for _, bar in pairs], keep_tape=True)
        _refuse_nesting("vjp", [leaf for leaf, _ in found if id(leaf) not in own])
        gradients = {id(leaf): gradient for leaf, gradient in found}

        def gradient_of(leaf: Any) -> Any:
            if not isinstance(leaf, Variable):
                return None
            return gradients[id(leaf)] if id(leaf) in gradients else np.zeros(leaf.shape, leaf.dtype)

        return map_leaves(gradient_of, tracked)

    return map_leaves(raw, result), pullback


def _values(name: str, leaf: Any) -> Array:
    if isinstance(leaf, Tensor):
        _refuse_nesting(name, [leaf])
    return np.asarray(raw(leaf))


def _refuse_nesting(name: str, leaves: list[Tensor]) -> None:
    if any(leaf.requires_grad and (leaf.node is not None or isinstance(leaf, Variable)) for leaf in leaves):
        raise TypeError(
            f"{name}: a value here is already being differentiated, and no gradient would flow back through {name}; "
            "for second derivatives use hvp, hessian or jvp of grad, for a constant pass x.detach()"
        )


def value_and_grad(function: Callable, argnums: int | tuple[int, ...] = 0) -> Callable:
    """A function that returns `function`'s scalar value and its gradient with respect to some arguments.

    Raises ValueError when the result is not one number (use vjp or jacobian for those) or argnums are out of range,
    TypeError when an argument has nothing to differentiate.
    """
    single = isinstance(argnums, (int, np.integer))
    chosen: tuple = (argnums,) if isinstance(argnums, (int, np.integer)) else tuple(argnums)

    def evaluate(*arguments: Any) -> tuple:
        places = [k % len(arguments) for k in chosen if -len(arguments) <= k < len(arguments)]
        if len(set(places)) < len(chosen):
            raise ValueError(f"grad: argnums {argnums} must name different ones of {len(arguments)} arguments")
        for k in places:
            if not any(map(is_differentiable, leaves_of(arguments[k]))):
                raise TypeError(f"grad: argument {k} ({type(arguments[k]).__name__}) has no floats to differentiate")

        def of_chosen(*values: Any) -> Any:
            full = list(arguments)
            for k, value in zip(places, values, strict=True):
                full[k] = value
            return function(*full)

        value, pullback = vjp(of_chosen, *(arguments[k] for k in places))
        gradients = pullback(_unit_of_scalar("grad", value))
        return value, gradients[0] if single else gradients

    return evaluate


def _unit_of_scalar(name: str, value: Any) -> Array:
    if isinstance(value, (dict, list, tuple)) or np.size(value) != 1 or np.asarray(value).dtype.kind not in "biufc":
        shape = f"of shape {np.shape(value)}" if isinstance(value, np.ndarray) else type(value).__name__
        raise ValueError(f"{name}: the result is {shape}, not one number; use vjp or jacobian")
    return np.ones_like(value)


def grad(function: Callable, argnums: int | tuple[int, ...] = 0) -> Callable:
    """A function that returns the gradient of a scalar `function` with respect to some arguments.

    Raises ValueError when the result is not one number (use vjp or jacobian for those) or argnums are out of range,
    TypeError when an argument has nothing to differentiate.
    """
    evaluate = value_and_grad(function, argnums)
    return lambda *arguments: evaluate(*arguments)[1]


def stepped(leaf: Any, direction: ArrayLike | None) -> Any:
    """leaf + i h·direction, in the complex type of the leaf's precision (double for float32); constants stay."""
    if not is_differentiable(leaf) or direction is None:
        return leaf
    leaf, direction = _values("jvp", leaf), np.asarray(raw(direction))
    if leaf.dtype.kind == "c":
        raise TypeError("jvp: arguments must be real; the complex step has used up the imaginary part")
    if leaf.shape != direction.shape:
        raise ValueError(f"jvp: a tangent has shape {direction.shape}, its argument {leaf.shape}")
    return np.asarray(leaf + (1j * STEP) * direction.astype(np.result_type(leaf, np.float64)))


def imaginary(value: ArrayLike, like: np.dtype | None = None) -> Array | np.generic:
    """Im(value)/h: the derivative that a complex step left in a result, 0 if it did not depend on the argument."""
    value = np.asarray(raw(value))
    derivative = value.imag / STEP if value.dtype.kind == "c" else np.zeros(value.shape, value.dtype)
    return derivative.astype(like) if like is not None else derivative


def jvp(function: Callable, primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    """The value y = f(x) and its derivative along `tangents`, ẏ = J ẋ, by one complex step.

    Same convention as jax.jvp; nesting of primals and tangents must agree. `function` must be analytic code, as all
    of refnp is; it gets Tensors, so that operators, methods and abs are refnp's.
    Raises TypeError for complex primals or results, or inside another derivative of the same values; ValueError where
    the nesting or the shapes of a primal and its tangent differ.
    """

    def wrapped(leaf: Any) -> Any:
        return Tensor(raw(leaf)) if is_differentiable(leaf) else leaf

    moved = map_leaves(wrapped, map_leaves(stepped, tuple(primals), tuple(tangents)))
    result = function(*map_leaves(wrapped, tuple(primals)))
    tensors = [leaf for leaf in leaves_of(result) if isinstance(leaf, Tensor)]
    _refuse_nesting("jvp", [a for node in tape_of(tensors) for a in node.arguments or () if isinstance(a, Variable)])
    value = map_leaves(raw, result)
    if any(np.iscomplexobj(leaf) for leaf in leaves_of(value)):
        raise TypeError("jvp: the result is complex, but only a real function can be stepped")
    return value, map_leaves(lambda y, m: imaginary(m, np.asarray(y).dtype), value, function(*moved))


def hvp(function: Callable, primals: tuple, tangents: tuple) -> tuple[tuple, tuple]:
    """The gradient g of a scalar function and the Hessian times a vector, H v, one of each per argument.

    The reverse pass of f at x + i h v: g(x + i h v) = g(x) + i h H v, exact to rounding.
    Raises ValueError if the result is not one number or a primal and its tangent differ in nesting or shape, TypeError
    for complex primals or inside another derivative of the same values.
    """
    value, pullback = vjp(function, *map_leaves(stepped, tuple(primals), tuple(tangents)))
    gradients = pullback(_unit_of_scalar("hvp", value))

    def part(of: Callable) -> tuple:
        def split(primal: Any, gradient: Any) -> Any:
            return None if gradient is None else np.asarray(of(gradient)).astype(np.asarray(raw(primal)).dtype)

        return map_leaves(split, tuple(primals), gradients)

    return part(np.real), part(imaginary)


def jacobian(function: Callable, argnum: int = 0) -> Callable:
    """A function that returns J_ij = ∂y_i/∂x_j, shape y.shape + x.shape, a row per element of y by its pullback.

    For nested results and arguments, such a matrix for every pair: the nesting of y, in each leaf that of x.
    Raises ValueError if argnum is out of range.
    """

    def evaluate(*arguments: Any) -> Any:
        of_one, x = _alone(function, arguments, argnum)
        y, pullback = vjp(of_one, x)
        outputs = [np.asarray(leaf) for leaf in leaves_of(y)]
        zeros = [np.zeros_like(output) for output in outputs]

        def rows(k: int) -> Any:
            return _of_units(lambda unit: pullback([*zeros[:k], unit, *zeros[k + 1 :]])[0], outputs[k], x)

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
        zeros = [np.zeros_like(raw(leaf)) if is_differentiable(leaf) else None for leaf in leaves]

        def rows(k: int) -> Any:
            def product(unit: Array) -> Any:
                return hvp(of_one, (x,), (rebuilt(x, [*zeros[:k], unit, *zeros[k + 1 :]]),))[1][0]

            return _of_units(product, raw(leaves[k]), x) if is_differentiable(leaves[k]) else None

        return rebuilt(x, map(rows, range(len(leaves))))

    return evaluate


def _alone(function: Callable, arguments: tuple, argnum: int) -> tuple[Callable, Any]:
    """The function of one argument, the others held, and that argument."""
    if not -len(arguments) <= argnum < len(arguments):
        raise ValueError(f"argnum {argnum} is out of range for {len(arguments)} arguments")
    before, x, after = arguments[:argnum], arguments[argnum], arguments[argnum:][1:]
    return lambda value: function(*before, value, *after), x


def _of_units(product: Callable, like: Array, x: Any) -> Any:
    """product(e_i), nested as x, for every unit vector e_i in the shape of `like`: its axes first, in each leaf."""
    unit, rows = np.zeros_like(like), []
    for i in range(unit.size):
        unit.flat[i] = 1
        rows.append(product(unit))
        unit.flat[i] = 0

    def stack(leaf: Any, *parts: Any) -> Any:
        if not is_differentiable(leaf):
            return None
        leaf = np.asarray(raw(leaf))
        return np.array(parts, None if parts else leaf.dtype).reshape(unit.shape + leaf.shape)

    return map_leaves(stack, x, *rows)
