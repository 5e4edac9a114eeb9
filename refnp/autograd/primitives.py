"""How a NumPy function and its gradient become an operation on Tensors.

A primitive is written as one function of arrays that returns its value and its VJP:

    @primitive
    def multiply(x, y):
        def vjp(z_bar):
            return z_bar * y, z_bar * x  # one gradient per array argument, in their order
        return x * y, vjp

The machinery does the rest, once and for all: it unwraps Tensors, writes the node, sums gradients over broadcast
axes, brings them to the argument's dtype. A rule may give, instead of a gradient, a function without arguments that
computes it; it is called only if somebody needs that gradient. None stands for "no gradient". What a rule is given it
leaves unchanged; what it gives it gives away: the walk back may add to that array in place, so a rule returns a new
array or a view of the gradient it was given, never one that it keeps.

Arrays in, array out, and no tape; if any argument is a Tensor, so is the result. A primitive with several results
returns a tuple of values, and its VJP takes one gradient for each.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.autograd.tensor import Node, Tensor, is_recording


def primitive(function: Callable) -> Callable:
    """Make `function(*arrays, **options) → (value, vjp)` an operation on arrays and Tensors.

    Arrays may be passed by position or by name; lists become arrays, Python scalars stay as they are (so that
    they do not change the dtype), None means absent. What follows `*` in the signature is an option, never an array.
    Raises TypeError if an option is a Tensor, whose gradient would be lost.
    """
    names = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    defaults = {p.name: p.default for p in inspect.signature(function).parameters.values()}

    @functools.wraps(function)
    def operation(*arguments: Any, **options: Any) -> Any:
        if options:
            arguments = _by_position(arguments, options, names, defaults)
            for name, option in options.items():
                if isinstance(option, Tensor):
                    raise TypeError(f"{function.__name__}: {name} is an option, not an array; no Tensor fits there")
        any_tensor = needs_gradient = False
        arrays = []
        for argument in arguments:
            if isinstance(argument, Tensor):
                any_tensor = True
                needs_gradient |= argument.requires_grad
                argument = argument.data
            elif isinstance(argument, list):
                argument = np.asarray(argument)
            arrays.append(argument)
        value, vjp = function(*arrays, **options)
        if not any_tensor:
            return value
        if isinstance(value, tuple):
            node = None
            if needs_gradient and is_recording():
                node = Node(operation, arguments, [(np.shape(v), v.dtype) for v in value], vjp)
            return tuple(Tensor.result(v, node, slot) for slot, v in enumerate(value))
        if needs_gradient and is_recording():
            value = np.asarray(value)
            return Tensor.result(value, Node(operation, arguments, [(value.shape, value.dtype)], vjp))
        return Tensor.result(value)

    return operation


def _by_position(arguments: tuple, options: dict, names: list[str], defaults: dict) -> tuple:
    """Move array arguments that were passed by name to their places, filling gaps with defaults."""
    given = [i for i, name in enumerate(names) if name in options]
    if not given or len(arguments) > len(names):
        return arguments
    places = list(arguments)
    for i in range(len(places), given[-1] + 1):
        if names[i] in options:
            places.append(options.pop(names[i]))
        elif defaults[names[i]] is inspect.Parameter.empty:
            break  # Python's own message about the missing argument is the best one
        else:
            places.append(defaults[names[i]])
    return tuple(places)


def raw(value: Any) -> Any:
    """The array of a Tensor; anything else as it is. For code that needs values but no gradient."""
    return value.data if isinstance(value, Tensor) else value


def ratio(numerator: np.ndarray, denominator: Any) -> np.ndarray:
    """numerator / denominator, and 0 wherever the numerator is 0.

    A branch that `where` did not take gets cotangent 0, and must contribute 0 even where its derivative is infinite.
    """
    shape = np.broadcast_shapes(np.shape(numerator), np.shape(denominator))
    out = np.zeros(shape, np.result_type(numerator, denominator))
    with np.errstate(divide="ignore", invalid="ignore"):  # a gradient that is infinite is infinite
        return np.divide(numerator, denominator, out=out, where=numerator != 0)
