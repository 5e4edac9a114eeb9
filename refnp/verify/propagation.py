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
from refnp.numbers.rounding import WIDE, Rounded, exact


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


EXACT = {"kept", "spoil"}  # whose rules are not written for all kinds of numbers yet


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
    "cholesky": cholesky,
    "set_convolution": set_convolved,
}
