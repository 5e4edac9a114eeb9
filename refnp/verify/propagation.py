"""How far a whole model, and its gradients, may be from the exact result: what each operation rounds, as it arrives.

A model is a chain of operations z_k = f_k(…). What operation k rounds, by itself and from exact arguments, is ε_k: it
is run on numbers that carry their rounding error. To first order the result y is then off by

    e_i = Σ_k Σ_j |∂y_i/∂z_kj| ε_kj

with the derivatives of the whole model, signs and cancellations included. A bound that is carried forward through every
operation instead, as in the equations of layers, multiplies absolute values layer by layer, and after a few layers says
nothing any more; this one does not grow with what the model contracts.

The model is run with refnp's own operations in the widest precision of the machine, on a tape. Any model of refnp is
bounded so, and any that is rewritten in refnp's operations, as `refnp.verify.models` does with those of PyTorch.
What is given is exact; a number of the formula, such as 1/√d or a table of sines, is rounded once.

A program that computes a loss L and its gradients carries z_k = f_k(…) forward and z̄_k back. Forward, operation k
rounds by ε_k; back, its rule rounds what it passes to an argument a by ε̄_ka, from exact numbers both. To first order
the gradient g of a parameter along a direction v is then off by

    Σ_k |d z̄_k| ε_k + Σ_ka |d a| ε̄_ka,        d · the derivative along v

for ∂(v·g)/∂z_k is the derivative of z̄_k along v, and what is passed to a is multiplied by ∂a/∂(parameters) v. Both
come from one run forward and back at parameters that were moved by a complex step along v, in all digits; of an
element of g, v is its unit vector. A step of an optimiser is its page, on gradients that carry this error.
Source: Higham (2002), §1.5 and §3.3; Griewank & Walther (2008), ch. 3 and 5.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.backward import gradients_of, tape_of
from refnp.autograd.derivatives import vjp
from refnp.autograd.forward import STEP
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Node, Tensor, stepping
from refnp.layers.set_convolution import set_convolution
from refnp.numbers.parts import with_parts
from refnp.numbers.rounding import WIDE, Rounded, exact

walked_back = with_parts(gradients_of, {})  # slopes are those of the operations, whatever gradient an excuse would take


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
    walked_back([output], [one.reshape(output.shape)], keep_tape=True, record=bars)
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


# ---- gradients


class Loss:
    """A loss as a function of arrays of floats: its value, its gradients, and the bounds of their elements."""

    def __init__(self, run: Callable[[Mapping[Any, Tensor]], Tensor], arrays: Mapping[Any, np.ndarray]):
        self.run = run
        self.leaves = {name: wide(value) for name, value in arrays.items()}
        self.loss = run(self.leaves)
        self.bars: dict[Node, list] = {}
        found = walked_back([self.loss], [np.ones(self.loss.shape, WIDE)], keep_tape=True, record=self.bars)
        by_leaf = {id(leaf): gradient for leaf, gradient in found}
        self.gradients = {n: by_leaf.get(id(leaf), np.zeros(leaf.shape, WIDE)) for n, leaf in self.leaves.items()}
        self.nodes = [node for node in tape_of([self.loss]) if node in self.bars]
        self.forward: list[list] | None = None
        self.back: list[list] = []

    def bounded(self, name: Any, places: np.ndarray) -> Rounded:
        """The gradient of a parameter with the bound on its error at some places of it flattened; NaN elsewhere.

        Raises NoBoundError for an operation without an equation.
        """
        if self.forward is None:
            uses = self.uses()
            self.back = [passed_back(node, self.bars[node], uses) for node in self.nodes]
            self.forward = list(map(local_errors, self.nodes))
        gradient = self.gradients[name]
        parts = np.full((2, gradient.size), np.nan, WIDE)
        for place in places:
            parts[:, place] = self.error_along(name, int(place))
        error, lost = (part.reshape(gradient.shape) for part in parts)
        return Rounded(gradient, error, lost)

    def uses(self) -> dict[Any, int]:
        """How many gradients are added up for every result and leaf."""
        counts: dict[Any, int] = {}
        for node in self.nodes:
            for argument in tensors_of(node):
                counts[key_of(argument)] = counts.get(key_of(argument), 0) + 1
        return counts

    def error_along(self, name: Any, place: int) -> np.ndarray:
        """The error of one element of a gradient in units of u, and what underflow loses."""
        unit = np.zeros(self.leaves[name].size, np.clongdouble)
        unit[place] = 1j * WIDE(STEP)
        numbers = {n: leaf.data.astype(np.clongdouble) for n, leaf in self.leaves.items()}
        numbers[name] += unit.reshape(numbers[name].shape)
        moved = {n: Tensor(number, requires_grad=True) for n, number in numbers.items()}
        with stepping():
            loss = self.run(moved)
            bars: dict[Node, list] = {}
            walked_back([loss], [np.ones(loss.shape, loss.dtype)], keep_tape=True, record=bars)
        nodes = [node for node in tape_of([loss]) if node in bars]
        total = np.zeros(2, WIDE)
        for k, node in enumerate(nodes):
            pairs = zip(bars[node], self.forward[k], strict=False)  # type: ignore[index]
            terms = [*pairs, *zip((a.data for a in tensors_of(node)), self.back[k], strict=True)]
            for slope, own in terms:
                size = np.abs(np.imag(slope)) / WIDE(STEP)
                if size.any():
                    total += [np.where(size == 0, 0, size * part).sum() for part in own]
        return total


def passed_back(node: Node, bars: list, uses: Mapping[Any, int]) -> list[tuple[np.ndarray, np.ndarray]]:
    """What a rule rounds in the gradient of every argument, and adding it to those of other uses."""
    if node.operation.__name__ in EQUATIONS:
        raise NoBoundError(f"refnp.verify has no bound for the gradient of {node.operation.__name__}")
    tensors = tensors_of(node)

    def of_tensors(*given: Any) -> Any:
        left = iter(given)
        values = [next(left) if needs_gradient(a) else argument_of(a) for a in node.arguments or ()]
        y = result_of(node.operation, *values, **(node.options or {}))
        several = zip(y, bars, strict=False) if isinstance(y, tuple) else ()  # as one number, with these gradients
        return functools.reduce(ag.add, [ag.sum(one * exact(bar)) for one, bar in several]) if several else y

    y, pullback = vjp(of_tensors, *(exact(tensor.data) for tensor in tensors))
    y_bar = exact(bars[0] if len(bars) == 1 else np.ones(y.shape))
    found = []
    for tensor, bar in zip(tensors, pullback(y_bar), strict=True):
        bar = bar if isinstance(bar, Rounded) else exact(bar)
        others = uses[key_of(tensor)] - 1
        found.append((bar.error + others * np.abs(bar.value), bar.lost + others))
    return found


def tensors_of(node: Node) -> list[Tensor]:
    """The arguments of an operation that have gradients."""
    return [a for a in node.arguments or () if needs_gradient(a)]


def needs_gradient(argument: Any) -> bool:
    """Whether an argument of an operation has a gradient."""
    return isinstance(argument, Tensor) and argument.requires_grad


def key_of(tensor: Tensor) -> Any:
    """A result of a node, or a leaf."""
    return (tensor.node, tensor.slot) if tensor.node is not None else id(tensor)
