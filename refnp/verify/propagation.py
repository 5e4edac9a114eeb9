"""How far a whole model may be from the exact result: the rounding of each operation, as far as the result feels it.

A model is a chain of operations z_k = f_k(…). What operation k rounds, by itself and from exact arguments, is ε_k: it
is run on numbers that carry their rounding error. To first order the result y is then off by

    e_i = Σ_k Σ_j |∂y_i/∂z_kj| ε_kj

with the derivatives of the whole model, signs and cancellations included. A bound that is carried forward through every
operation instead, as in the equations of layers, multiplies absolute values layer by layer, and after a few layers says
nothing any more; this one does not grow with what the model contracts.

The model is run with refnp's own operations in the widest precision of the machine, on a tape. Any model of refnp is
bounded so, and any that is rewritten in refnp's operations, as `refnp.verify.models` does with those of PyTorch.
What is given is exact; a number of the formula, such as 1/√d or a table of sines, is rounded once.
Source: Higham (2002), §1.5 and §3.3.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from refnp.autograd.backward import gradients_of, tape_of
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Node, Tensor
from refnp.layers.set_convolution import set_convolution
from refnp.numbers import rounding
from refnp.numbers.rounding import ELEMENTARY, WIDE, Rounded, exact
from refnp.verify.layers import (
    engine,
    softmax,
)


class NoBoundError(Exception):
    """There is no bound on what an operation rounds; the message names it."""


def bounded(outputs: Sequence[Tensor], places: Sequence[np.ndarray] | None = None) -> list[Rounded]:
    """Each output, a Tensor with the tape behind it, with the bound on its error.

    `places` are indices into each flattened output; for the others the bound is NaN. One walk back is made for each.
    Raises NoBoundError for an operation without an equation.
    """
    errors = {node: local_errors(node) for node in tape_of(list(outputs))}
    found = []
    for k, output in enumerate(outputs):
        parts = np.full((2, output.size), np.nan, WIDE)  # relative to u, and what underflow loses
        for place in range(output.size) if places is None else places[k]:
            parts[:, place] = error_of(output, int(place), errors)
        found.append(Rounded(output.data, *(part.reshape(output.shape) for part in parts)))
    return found


def error_of(output: Tensor, place: int, errors: dict[Node, list]) -> np.ndarray:
    """Σ_k |∂y/∂z_k| ε_k of one element y of an output, and the same of what underflow loses."""
    if not output.requires_grad:
        return np.zeros(2, WIDE)
    one = np.zeros(output.size, output.dtype)
    one[place] = 1
    bars: dict[Node, list[np.ndarray]] = {}
    gradients_of([output], [one.reshape(output.shape)], keep_tape=True, record=bars)
    total = np.zeros(2, WIDE)
    for node, own in bars.items():
        for bar, (error, lost) in zip(own, errors[node], strict=False):
            size = np.abs(bar)
            total += [np.where(size == 0, 0, size * part).sum() for part in (error, lost)]
    return total


def wide(value: Any) -> Tensor:
    """An array that is given, as a leaf of a tape in the widest precision."""
    return Tensor(np.asarray(raw(value)), dtype=WIDE, requires_grad=True)


# ---- what an operation rounds


def local_errors(node: Node) -> list[tuple[np.ndarray, np.ndarray]]:
    """ε of every result of an operation from exact arguments, in units of u, and what underflow loses; [] if none."""
    if node.operation.__name__ in EXACT:
        return []
    results = result_of(node.operation, *map(argument_of, node.arguments or ()), **(node.options or {}))
    found = [*map(as_rounded, results if isinstance(results, tuple) else (results,))]
    rounds = any(result.error.any() or result.lost.any() for result in found)
    return [(result.error, result.lost) for result in found] if rounds else []


def result_of(operation: Callable, *arguments: Any, **options: Any) -> Any:
    """What an operation gives of rounded numbers: by its page, or by an equation. NoBoundError if it has neither."""
    try:
        return EQUATIONS.get(operation.__name__, operation)(*arguments, **options)
    except TypeError as lacking:
        raise NoBoundError(f"refnp.verify has no bound for {operation.__name__}") from lacking


def argument_of(value: Any) -> Any:
    """A Tensor is exact, a number of the formula is rounded once when it is written down; other things are as they are.

    Whole numbers are written down exactly.
    """
    if isinstance(value, Tensor):
        return exact(value.data)
    if isinstance(value, (float, np.ndarray, np.floating)) and np.asarray(value).dtype.kind == "f":
        numbers = np.asarray(value, WIDE)
        return Rounded(numbers, np.where(np.isfinite(numbers) & (numbers != np.rint(numbers)), np.abs(numbers), 0))
    return value


EXACT = {  # whose rules are not written for all kinds of numbers yet
    "absolute", "maximum", "minimum", "max", "min", "clip", "astype", "kept", "spoil",
}  # fmt: skip


def first(equation: Callable) -> Callable:
    """The value of an equation, without its pullback."""
    return lambda *arguments, **options: equation(*arguments, **options)[0]


def elementary(function: Callable) -> Callable:
    """A function that is trusted to 4 units in the last place, or one that IEEE 754 rounds correctly."""
    return lambda x, **_: function(x)


def of_value(operation: Callable) -> Callable:
    """A function of NumPy that is trusted to 4 units in the last place."""

    def rounded(x: Rounded, **_: Any) -> Rounded:
        value = operation(x.value)
        return Rounded(value, ELEMENTARY * np.abs(value))

    return rounded


def power(x: Rounded, exponent: Any) -> Rounded:
    """xᵖ to 4 units in the last place, and what the rounding of p does to it."""
    p = exponent if isinstance(exponent, Rounded) else exact(exponent)
    value = np.power(x.value, p.value)
    with np.errstate(all="ignore"):
        inherited = np.where(p.error == 0, 0, np.abs(value * np.log(np.abs(x.value))) * p.error)
    return Rounded(value, ELEMENTARY * np.abs(value) + inherited)


def along(equation: Callable) -> Callable:
    """A function of rows along one axis or several, of which the equation knows one."""

    def rounded(x: Rounded, *parameters: Any, axis: Any = -1, **options: Any) -> Rounded:
        axes = tuple(i % len(x.shape) for i in (axis if isinstance(axis, tuple) else (axis,)))
        last = tuple(range(-len(axes), 0))
        rows = x.moved(lambda a: np.moveaxis(a, axes, last))
        shape = rows.shape
        flat = lambda a: a.reshape(*shape[: -len(axes)], -1)
        given = [p.reshape(-1) if isinstance(p, Rounded) and p.shape else p for p in parameters]
        y = equation(rows.moved(flat), *map(as_rounded, given), **options)[0]
        return y.reshape(*shape).moved(lambda a: np.moveaxis(a, last, axes))

    return rounded


def logsumexp(x: Rounded, axis: Any = None, *, keepdims: bool = False) -> Rounded:
    """Along one axis, several or all, which are gone, or kept."""
    count = len(x.shape)
    axes = range(count) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    over = tuple(i % count for i in axes)
    rest = [i for i in range(count) if i not in over]
    rows = x.moved(lambda a: a.transpose(*rest, *over).reshape(*(a.shape[i] for i in rest), -1))
    y = softmax.logsumexp(rows)[0]
    return y.moved(lambda a: np.expand_dims(a, over)) if keepdims else y


def as_rounded(value: Any) -> Rounded:
    """A number of Python is exact: gains of 1, shifts of 0."""
    return value if isinstance(value, Rounded) else exact(value)


def cholesky(a: Rounded) -> Rounded:
    """A + ΔA = L Lᵀ with |ΔA| ≤ (n + 1) u |L||L|ᵀ, and so |ΔL| ≤ |L| tril(|L⁻¹||ΔA||L⁻ᵀ|) (Higham (2002), §10.1)."""
    factor = np.linalg.cholesky(a.value.astype(float)).astype(WIDE)
    size, inverse = np.abs(factor), np.abs(np.linalg.inv(factor.astype(float))).astype(WIDE)
    away = (a.shape[-1] + 1) * size @ size.swapaxes(-1, -2)
    return Rounded(factor, size @ np.tril(inverse @ away @ inverse.swapaxes(-1, -2)))


def set_convolved(targets: Any, points: Any, values: Any, length_scale: Any, **options: Any) -> Rounded:
    """A set convolution on a grid or off it, with what may be left out of it: pairs below u/M of the nearest."""
    z = set_convolution.page(targets, points, values, length_scale, **options)[0]
    return z.with_bound(z.error + 2 * max(1.0, float(np.abs(as_rounded(values).value).max(initial=0))), z.lost)


EQUATIONS: dict[str, Callable] = {
    "add": lambda x, y: as_rounded(x) + y,
    "subtract": lambda x, y: as_rounded(x) - y,
    "multiply": lambda x, y: as_rounded(x) * y,
    "divide": lambda x, y: as_rounded(x) / y,
    "power": power,
    "sqrt": rounding.sqrt,
    **{name: elementary(getattr(rounding, name)) for name in ("exp", "expm1", "log", "log1p", "tanh")},
    **{name: of_value(getattr(np, name)) for name in ("sin", "cos")},
    **{name: first(getattr(engine, name)) for name in ("sinh", "cosh", "arctan")},
    "logsumexp": logsumexp,
    "cholesky": cholesky,
    "set_convolution": set_convolved,
}
