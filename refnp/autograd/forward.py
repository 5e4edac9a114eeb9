"""Forward mode and second derivatives by the complex step: products with J, Hessians, and products with them.

No rules of their own are needed: an analytic program evaluated at x + i h v carries the derivative along v in its
imaginary part,

    f(x + i h v) = f(x) + i h Df(x) v − ½ h² D²f(x)[v, v] − …,   so   Df(x) v = Im f(x + i h v) / h,

and with h = 10⁻¹⁰⁰ the next term is 10⁻²⁰⁰: no truncation, no cancellation. The same program run backward gives, in the
imaginary part of its gradient, the Hessian times v. Functions with kinks decide by the real part.

The step is not believed unseen. An operation that is not refnp's is asked alone (analytic.py), and forward and reverse
mode must agree in one product with seeded u,

    ⟨u, J v⟩ = ⟨Jᵀ u, v⟩,      to half of the digits at least, which no wrong derivative does and rounding leaves.

Where they do not, x is a pole, a branch point or a kink, or infinite, or an operation is not analytic; then the program
runs again with dual numbers (duals.py), which keep the chain rule there; and if that does not agree either, the result
is refused.
Source: Squire & Trapp (1998); Martins, Sturdza & Alonso (2003).
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from refnp.autograd.analytic import STEP, near
from refnp.autograd.backward import tape_of
from refnp.autograd.derivatives import (
    Nested,
    Recorded,
    alone,
    of_units,
    refuse_no_floats,
    unit_of_scalar,
    values_of,
)
from refnp.autograd.primitives import is_own, raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor, result, stepping
from refnp.autograd.trees import is_differentiable, leaves_of, map_leaves, rebuilt
from refnp.numbers import duals


def jvp(function: Callable, primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    """The value y = f(x) and its derivative along `tangents`, ẏ = J ẋ, by one complex step.

    Same convention as jax.jvp; nesting of primals and tangents must agree, and None is the tangent of a constant.
    `function` gets Tensors, so that operators, methods and abs are refnp's. At poles, kinks and ±∞ the derivative is
    that of reverse mode.
    Raises TypeError for complex primals or results, for a whole number with a tangent, where no argument has floats,
    inside another derivative of the same values, and for a function whose forward and reverse mode disagree, as one
    that is not analytic (np.abs, .real, conj); ValueError where the nesting or the shapes of a primal and its tangent
    differ.
    """
    primals, tangents = tuple(primals), tuple(tangents)
    moved = _moved("jvp", primals, tangents)
    tape = None
    try:
        tape = Recorded("jvp", function, primals)
        value = tape.value()
    except Nested:  # of a function that takes a gradient itself
        value = map_leaves(raw, function(*map_leaves(_constant, primals)))
    if any(np.iscomplexobj(leaf) for leaf in leaves_of(value)):
        raise TypeError("jvp: the result is complex, but only a real function can be stepped")

    def derivative(arguments: tuple) -> Any:
        with stepping() as step:
            stepped_result = function(*map_leaves(_constant, arguments))
        if step.branched and not duals.in_use:
            return None
        return map_leaves(lambda y, m: imaginary(m, np.asarray(y).dtype), value, stepped_result)

    found = _if_possible(derivative, moved)
    if found is None or not _agree(tape, value, found, tangents, careful=False):
        with _dual_numbers():
            found = derivative(map_leaves(duals.wrapped, moved))
        if not _agree(tape, value, found, tangents, careful=True):
            raise _refusal("jvp", tape)
    return value, found


def hvp(function: Callable, primals: tuple, tangents: tuple) -> tuple[tuple, tuple]:
    """The gradient g of a scalar function and the Hessian times a vector, H v, one of each per argument.

    The reverse pass of f at x + i h v: g(x + i h v) = g(x) + i h H v, exact to rounding.
    Raises ValueError if the result is not one number, does not depend on the arguments, or a primal and its tangent
    differ in nesting or shape; TypeError for complex primals, a whole number with a tangent, inside another derivative
    of the same values, and for a function whose forward and reverse mode disagree.
    """
    primals, tangents = tuple(primals), tuple(tangents)
    moved = _moved("hvp", primals, tangents)
    return Gradient("hvp", function, primals).with_product(moved, tangents)


class Gradient:
    """The gradient of a scalar function at a point, and products of its Hessian with vectors."""

    def __init__(self, name: str, function: Callable, primals: tuple):
        self.name, self.function, self.primals = name, function, primals
        self.tape = Recorded(name, function, primals)
        unit = unit_of_scalar("hvp", self.tape.value())
        self.gradient = self.tape.pullback(unit)
        self.tape.refuse_constant()

    def with_product(self, moved: tuple, tangents: tuple) -> tuple[tuple, tuple]:
        """(g, H v), the second from the reverse pass at x + i h v."""
        slope, stepped_gradient = _if_possible(self.at, moved) or (None, ())
        if slope is None or not (is_finite(stepped_gradient) and self.isnear(slope, stepped_gradient, tangents)):
            with _dual_numbers():
                slope, stepped_gradient = self.at(map_leaves(duals.wrapped, moved))
            if not self.isnear(slope, stepped_gradient, tangents):
                raise _refusal(self.name, self.tape)

        def product(primal: Any, gradient: Any) -> Any:
            return None if gradient is None else imaginary(gradient, np.asarray(raw(primal)).dtype)

        return self.gradient, map_leaves(product, self.primals, stepped_gradient)

    def at(self, moved: tuple) -> tuple[Any, tuple]:
        """Df v and the gradient, at arguments that were moved by a complex step; None if it met a branch point."""
        with stepping() as step:
            tape = Recorded(self.name, self.function, moved)
            value = tape.value()
            slope, gradient = imaginary(value), tape.pullback(np.ones_like(value))
        return (None, ()) if step.branched and not duals.in_use else (slope, gradient)

    def isnear(self, slope: Any, gradient: tuple, tangents: tuple) -> bool:
        """Whether a stepped gradient has g as real part, and its value the slope ⟨g, v⟩."""
        pairs = [
            (np.real(b), a) for a, b in zip(leaves_of(self.gradient), leaves_of(gradient), strict=True) if a is not None
        ]
        half = _half([self.tape.value(), self.gradient])
        same = all(near(a, b, np.abs(b) + np.finfo(b.dtype).tiny ** 0.5, half) for a, b in pairs)
        expected, size = _product(self.gradient, tangents, half)
        return same and near(slope, expected, size, half)


def hessian(function: Callable, argnum: int = 0) -> Callable:
    """A function that returns H_ij = ∂²y/∂x_i∂x_j of a scalar, shape x.shape + x.shape, a row per element of x by hvp.

    For a nested argument, such a matrix for every pair of its leaves: the nesting of x, in each leaf that of x again.
    Raises ValueError if argnum is out of range or the result is not one number, and as hvp does.
    """

    def evaluate(*arguments: Any) -> Any:
        of_one, x = alone("hessian", function, arguments, argnum)
        gradient = Gradient("hessian", of_one, (x,))
        leaves = leaves_of(x)
        zeros = [np.zeros_like(raw(leaf)) if is_differentiable(leaf) else None for leaf in leaves]

        def rows(k: int) -> Any:
            def product(unit: Array) -> Any:
                tangents = (rebuilt(x, [*zeros[:k], unit, *zeros[k + 1 :]]),)
                return gradient.with_product(_moved("hessian", (x,), tangents), tangents)[1][0]

            return of_units(product, raw(leaves[k]), x) if is_differentiable(leaves[k]) else None

        return rebuilt(x, map(rows, range(len(leaves))))

    return evaluate


def _moved(name: str, primals: tuple, tangents: tuple) -> tuple:
    """x + i h v; TypeError for a whole number that has a tangent, and if there is nothing to differentiate."""

    def moved(leaf: Any, direction: Any) -> Any:
        if not is_differentiable(leaf) and direction is not None and np.any(raw(direction)):
            raise TypeError(f"{name}: an argument holds {leaf!r}, a constant, whose tangent is None; pass a float")
        return stepped(leaf, direction)

    found = map_leaves(moved, primals, tangents)
    refuse_no_floats(name, primals, 0 if len(primals) == 1 else "list")
    return found


def stepped(leaf: Any, direction: ArrayLike | None) -> Any:
    """leaf + i h·direction, in the complex type of the leaf's precision (double for float32); constants stay."""
    if not is_differentiable(leaf) or direction is None:
        return leaf
    leaf, direction = values_of("jvp", leaf), np.asarray(raw(direction))
    if leaf.dtype.kind == "c":
        raise TypeError("jvp: arguments must be real; the complex step has used up the imaginary part")
    if leaf.shape != direction.shape:
        raise ValueError(f"jvp: a tangent has shape {direction.shape}, its argument {leaf.shape}")
    return duals.joined(leaf, STEP * direction.astype(np.result_type(leaf, np.float64)))


def imaginary(value: ArrayLike, like: np.dtype | None = None) -> Array | np.generic:
    """Im(value)/h: the derivative that a complex step left in a result, 0 if it did not depend on the argument."""
    value = np.asarray(raw(value))
    derivative = value.imag / STEP if value.dtype.kind == "c" else np.zeros(value.shape, value.dtype)
    return derivative.astype(like) if like is not None else derivative


def _constant(leaf: Any) -> Any:
    """A float as a Tensor without history."""
    if isinstance(leaf, duals.Dual):
        return result(leaf)
    return Tensor(raw(leaf)) if is_differentiable(leaf) else leaf


def is_finite(arrays: Any) -> bool:
    """Whether no number is ±∞ or NaN."""
    return all(np.isfinite(np.asarray(a)).all() for a in leaves_of(arrays) if a is not None)


def _if_possible(stepped: Callable, moved: tuple) -> Any:
    """What a complex step gives; None where a function refuses it, as for a step that has grown to infinity."""
    try:
        return stepped(moved)
    except (TypeError, ValueError):
        return None


@contextlib.contextmanager
def _dual_numbers() -> Iterator[None]:
    duals.in_use += 1
    try:
        yield
    finally:
        duals.in_use -= 1


def _agree(tape: Recorded | None, value: Any, found: Any, tangents: tuple, *, careful: bool) -> bool:
    """Whether ⟨u, ẏ⟩ = ⟨Jᵀ u, v⟩ with seeded u, over the finite ẏ; without a tape, whether ẏ is finite.

    An ẏ that is not finite is believed of a careful run alone, and there Jᵀ u must not be finite either.
    """
    slopes = [np.asarray(leaf) for leaf in leaves_of(found)]
    finite = [np.isfinite(slope) for slope in slopes]
    if not careful and not all(mask.all() for mask in finite):
        return False
    if tape is None:
        return True
    rng = np.random.default_rng(0)
    weights = [rng.uniform(1, 2, slope.shape) * rng.choice([-1, 1], slope.shape) for slope in slopes]

    half = _half([value, tape.arguments])

    def right(chosen: list) -> tuple:
        bars = [np.where(mask, u, 0).astype(s.dtype) for mask, u, s in zip(chosen, weights, slopes, strict=True)]
        return _product(tape.pullback(rebuilt(value, bars)), tangents, half)

    left = [np.where(mask, u * s, 0) for mask, u, s in zip(finite, weights, slopes, strict=True)]
    expected, size = right(finite)
    size += sum(np.abs(terms).sum() for terms in left)
    if not near(sum(terms.sum() for terms in left), expected, size, half):
        return False
    return all(mask.all() for mask in finite) or not np.isfinite(right([~mask for mask in finite])[0])


@np.errstate(under="ignore")
def _product(gradients: tuple, tangents: tuple, half: float) -> tuple[Any, Any]:
    """⟨x̄, v⟩ and its size: that of its terms, half of the digits of the largest x̄ v, and the least normal numbers.

    An x̄ that is 0 on paper is a rounding of the largest, and what is below the normal numbers has fewer digits.
    """
    pairs = zip(leaves_of(gradients), leaves_of(tangents), strict=True)
    moved = [(np.asarray(g), np.asarray(raw(v))) for g, v in pairs if g is not None and v is not None]
    terms = [duals.product(g, v) for g, v in moved]
    largest = sum(np.abs(g[np.isfinite(g)]).max(initial=0) * np.abs(v).max(initial=0) for g, v in moved)
    least = sum(np.finfo(g.dtype).tiny * np.abs(v).sum() for g, v in moved)
    return sum(t.sum() for t in terms), sum(np.abs(t).sum() for t in terms) + half * largest + least


def _half(trees: list) -> float:
    """Half of the digits: √ε of the shortest type among the floats."""
    types = {np.asarray(raw(leaf)).dtype for leaf in leaves_of(trees) if is_differentiable(leaf)}
    return max((float(np.finfo(dtype).eps) for dtype in types), default=0.0) ** 0.5


def _refusal(name: str, tape: Recorded | None) -> TypeError:
    tensors = [y for y in tape.outputs if isinstance(y, Tensor)] if tape else []
    others = {node.operation.__name__ for node in tape_of(tensors) if not is_own(node.operation)}
    where = f"of {', '.join(sorted(others))} " if others else ""
    return TypeError(
        f"{name}: forward and reverse mode disagree: the function {where}is not analytic (np.abs, .real, conj), "
        "takes values off the tape, a gradient rule is wrong, or a number on the way is NaN or out of range; write it "
        "with refnp's operations, or use vjp or jacobian"
    )
