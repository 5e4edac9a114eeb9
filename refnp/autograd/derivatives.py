"""Derivatives by the walk back along the tape: gradients, Jacobians, and products with Jᵀ.

A function here takes arrays, or nested dicts, lists and tuples of arrays, and returns the same; what it does inside
with refnp's operations is differentiated. Integers, booleans, strings and None are constants. The tape is written for
it, inside `no_grad` too.

A reverse pass inside another that differentiates the same values would lose gradients, as would a complex step inside
another; both are refused. Second derivatives are hvp and hessian, or jvp of grad: forward.py.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from refnp.autograd.backward import back_through, gradients_of, starting_cotangent, tape_of
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, Node, Tensor, recorded
from refnp.autograd.trees import is_differentiable, leaves_of, map_leaves, rebuilt
from refnp.numbers.arrays import copy_in_place_of
from refnp.numbers.duals import Dual
from refnp.numbers.kinds import Kind, kind_of


class Variable(Tensor):
    """A leaf that `vjp` made. Meeting one in another derivative means that derivatives are nested."""

    __slots__ = ()


class Nested(TypeError):
    """One derivative was asked for inside another."""


def vjp(function: Callable, *arguments: Any) -> tuple[Any, Callable]:
    """The value of `function` and its pullback: ȳ ↦ (x̄ for every argument), x̄ = Jᵀ ȳ.

    The pullback may be called any number of times. Constants have gradient None. The arguments and the value are
    copied: both may be changed afterwards. What the function takes from elsewhere is shared, and must stay as it is.
    Raises TypeError inside another vjp or grad that differentiates the same values; the pullback raises ValueError
    for a cotangent with another number of leaves than the result, or a leaf of another shape.
    Of other kinds of numbers (refnp.numbers) likewise, if all that is differentiated is of one kind.
    Same convention as jax.vjp and torch.func.vjp.
    """
    if kind_of(arguments) is not None:
        return vjp_of_numbers(function, *arguments)
    tape = Recorded("vjp", function, arguments, copied=True)
    return map_leaves(lambda y: copy_in_place_of(y.data) if isinstance(y, Tensor) else y, tape.result), tape.pullback


def vjp_of_numbers(function: Callable, *arguments: Any) -> tuple[Any, Callable]:
    """`vjp` of a function of other kinds of numbers, which knows no 0 · ∞ and no nesting."""
    variable: Any = functools.partial(Variable, requires_grad=True)
    leaves = [variable(a) if isinstance(a, Kind) else a for a in arguments]
    y = recorded(function, *leaves)

    def pullback(y_bar: Any) -> tuple:
        sums: dict[Any, Any] = {}  # by node, or leaf, and which of its results

        def add(x: Tensor, bar: Any) -> None:
            key = x.node or x, x.slot
            sums[key] = sums[key] + bar if key in sums else bar

        add(y, y_bar)
        for node in reversed(tape_of([y])):
            bars = [sums.pop((node, k), None) for k in range(len(node.outputs))]
            if any(bar is not None for bar in bars):
                given = [np.zeros(*node.outputs[k]) if bar is None else bar for k, bar in enumerate(bars)]
                for x, bar in back_through(node, given):
                    add(x, bar)
        found = lambda x: sums[x, 0] if (x, 0) in sums else np.zeros(x.shape)
        return tuple(found(x) if isinstance(x, Variable) else None for x in leaves)

    return raw(y), pullback


class Recorded:
    """One run of a function, and the walk back to its arguments."""

    def __init__(self, name: str, function: Callable, arguments: tuple, *, copied: bool = False):
        def variable(leaf: Any) -> Any:
            if not is_differentiable(leaf):
                return leaf
            array = values_of(name, leaf)
            tensor = Variable(copy_in_place_of(array) if copied else array, requires_grad=True)
            tensor.data = array if isinstance(array, Dual) else tensor.data
            return tensor

        self.name = name
        self.arguments = map_leaves(variable, arguments)
        self.result = recorded(function, *self.arguments)
        self.outputs = leaves_of(self.result)
        self.own = {id(leaf) for leaf in leaves_of(self.arguments) if isinstance(leaf, Variable)}
        self.reached = not self.own  # whether a walk back came to an argument, or there is none to come to

    def value(self) -> Any:
        """The result in arrays."""
        return map_leaves(raw, self.result)

    def pullback(self, cotangent: Any) -> tuple:
        """x̄ = Jᵀ ȳ of every argument, 0 for one that the result does not depend on."""
        bars = leaves_of(cotangent)
        if len(bars) != len(self.outputs):
            raise ValueError(f"{self.name}: the cotangent has {len(bars)} leaves, the result has {len(self.outputs)}")
        pairs = [(y, bar) for y, bar in zip(self.outputs, bars, strict=True) if isinstance(y, Tensor)]
        found = gradients_of([y for y, _ in pairs], [bar for _, bar in pairs], keep_tape=True)
        refuse_nesting(self.name, [leaf for leaf, _ in found if id(leaf) not in self.own])
        gradients = {id(leaf): gradient for leaf, gradient in found}
        self.reached = self.reached or not self.own.isdisjoint(gradients)

        def gradient_of(leaf: Any) -> Any:
            if not isinstance(leaf, Variable):
                return None
            return gradients[id(leaf)] if id(leaf) in gradients else np.zeros(leaf.shape, leaf.dtype)

        return map_leaves(gradient_of, self.arguments)

    def refuse_constant(self) -> None:
        """ValueError if no walk back has reached an argument."""
        if not self.reached:
            raise ValueError(
                f"{self.name}: the result does not depend on what is differentiated, so its derivative is 0; if it "
                "should, look for .numpy(), .detach(), no_grad, a comparison or a whole number on the way"
            )


def values_of(name: str, leaf: Any) -> Array:
    """The array of an argument; TypeError if another derivative is being taken at it."""
    if isinstance(leaf, Tensor):
        refuse_nesting(name, [leaf])
        leaf = leaf.data
    return leaf if isinstance(leaf, Dual) else np.asarray(leaf)


def refuse_nesting(name: str, leaves: list[Tensor]) -> None:
    """TypeError if one of them belongs to another derivative."""
    if any(leaf.requires_grad and (leaf.node is not None or isinstance(leaf, Variable)) for leaf in leaves):
        raise Nested(
            f"{name}: a value here is already being differentiated, and no gradient would flow back through {name}; "
            "for second derivatives use hvp, hessian or jvp of grad, for a constant pass x.detach()"
        )


def refuse_no_floats(name: str, argument: Any, which: Any) -> None:
    """TypeError if an argument has nothing to differentiate."""
    if not any(map(is_differentiable, leaves_of(argument))):
        raise TypeError(f"{name}: argument {which} ({type(argument).__name__}) has no floats to differentiate")


def value_and_grad(function: Callable, argnums: int | tuple[int, ...] = 0) -> Callable:
    """A function that returns `function`'s scalar value and its gradient with respect to some arguments.

    Raises ValueError when the result is not one number (use vjp or jacobian for those), when it does not depend on
    what is differentiated, or argnums are out of range or equal; TypeError when one has nothing to differentiate.
    """
    single = isinstance(argnums, (int, np.integer))
    chosen: tuple = (argnums,) if isinstance(argnums, (int, np.integer)) else tuple(argnums)

    def evaluate(*arguments: Any) -> tuple:
        places = [k % len(arguments) for k in chosen if -len(arguments) <= k < len(arguments)]
        if len(set(places)) < len(chosen):
            raise ValueError(f"grad: argnums {argnums} must name different ones of {len(arguments)} arguments")
        for k in places:
            refuse_no_floats("grad", arguments[k], k)

        def of_chosen(*values: Any) -> Any:
            full = list(arguments)
            for k, value in zip(places, values, strict=True):
                full[k] = value
            return function(*full)

        tape = Recorded("grad", of_chosen, tuple(arguments[k] for k in places))
        value = tape.value()
        gradients = tape.pullback(unit_of_scalar("grad", value))
        tape.refuse_constant()
        return value, gradients[0] if single else gradients

    return evaluate


def unit_of_scalar(name: str, value: Any) -> Array:
    """1 in the shape of a result; ValueError unless that is one number."""
    if isinstance(value, (dict, list, tuple)) or np.size(value) != 1 or np.asarray(value).dtype.kind not in "biufc":
        shape = f"of shape {np.shape(value)}" if isinstance(value, np.ndarray) else type(value).__name__
        raise ValueError(f"{name}: the result is {shape}, not one number; use vjp or jacobian")
    return np.ones_like(value)


def grad(function: Callable, argnums: int | tuple[int, ...] = 0) -> Callable:
    """A function that returns the gradient of a scalar `function` with respect to some arguments.

    Raises ValueError when the result is not one number (use vjp or jacobian for those), when it does not depend on
    what is differentiated, or argnums are out of range or equal; TypeError when one has nothing to differentiate.
    """
    evaluate = value_and_grad(function, argnums)
    return lambda *arguments: evaluate(*arguments)[1]


def jacobian(function: Callable, argnum: int = 0) -> Callable:
    """A function that returns J_ij = ∂y_i/∂x_j, shape y.shape + x.shape, a row per element of y by its pullback.

    For nested results and arguments, such a matrix for every pair: the nesting of y, in each leaf that of x.
    Raises ValueError if argnum is out of range or a result with elements does not depend on that argument, TypeError if
    it has nothing to differentiate.
    """

    def evaluate(*arguments: Any) -> Any:
        of_one, x = alone("jacobian", function, arguments, argnum)
        tape = Recorded("jacobian", of_one, (x,))
        y = tape.value()
        outputs = [np.asarray(leaf) for leaf in leaves_of(y)]
        zeros = [np.zeros_like(output) for output in outputs]

        def rows(k: int) -> Any:
            return of_units(lambda unit: tape.pullback([*zeros[:k], unit, *zeros[k + 1 :]])[0], outputs[k], x)

        matrices = [rows(k) for k in range(len(outputs))]
        if any(output.size for output in outputs):
            tape.refuse_constant()
        return rebuilt(y, matrices)

    return evaluate


def gradients(result: Tensor, tensors: Sequence[Tensor]) -> list[Array]:
    """The gradients of a scalar result with respect to intermediate values, or leaves: an array for each Tensor.

    `gradients(loss, [logits, hidden])`, of what was computed before; the tape stays, and no `.grad` changes.
    Raises TypeError for what is no Tensor, ValueError if the result is not one number or does not depend on one of
    them, RuntimeError if nothing behind it needs a gradient or the tape was freed.
    """
    for place, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"gradients: item {place} is a {type(tensor).__name__}; pass Tensors")
    if not isinstance(result, Tensor):
        raise TypeError(f"gradients: result is a {type(result).__name__}; pass a Tensor, computed from Tensors")
    bars: dict[Node, list[Array]] = {}
    leaves = gradients_of([result], [starting_cotangent(result)], keep_tape=True, record=bars)
    of_leaf = {id(leaf): gradient for leaf, gradient in leaves}
    found = []
    for place, tensor in enumerate(tensors):
        bar = bars[tensor.node][tensor.slot] if tensor.node in bars else of_leaf.get(id(tensor))
        if bar is None:
            raise ValueError(f"gradients: the result does not depend on item {place}, of shape {tensor.shape}")
        found.append(bar.copy())
    return found


def alone(name: str, function: Callable, arguments: tuple, argnum: int) -> tuple[Callable, Any]:
    """The function of one argument, the others held, and that argument."""
    if not -len(arguments) <= argnum < len(arguments):
        raise ValueError(f"argnum {argnum} is out of range for {len(arguments)} arguments")
    refuse_no_floats(name, arguments[argnum], argnum)
    before, x, after = arguments[:argnum], arguments[argnum], arguments[argnum:][1:]
    return lambda value: function(*before, value, *after), x


def of_units(product: Callable, like: Array, x: Any) -> Any:
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
