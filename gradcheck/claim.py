"""The gradient that somebody claims for a function, in the one form in which it is asked for.

    vjp(f, *args) → (value, pullback)        pullback(ȳ) → tuple of x̄ = Jᵀȳ, one for each argument, nested like it

This is `jax.vjp` and `torch.func.vjp`. A claim may be asked at other points and in other precisions than the arguments
came in, real and complex: that is how it is told from rounding, and how its second derivatives are taken.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcheck import trees
from gradcheck.flat import FlatFunction, Leaf
from gradcheck.precision import DType
from gradcheck.report import GradientError


class Claim:
    """The gradient that somebody claims: x̄ = F′(x)ᵀu, by `vjp(f, *args) → value, pullback` and pullback(u)."""

    def __init__(self, vjp: Callable, problem: FlatFunction):
        if not callable(vjp):
            raise TypeError(f"vjp is a {type(vjp).__name__}; pass a function vjp(f, *args) → (value, pullback)")
        self.vjp, self.problem = vjp, problem

    def gradient(self, u: np.ndarray, x: np.ndarray | None = None) -> np.ndarray:
        """x̄ (n,) for the cotangent u (m,), at the arguments as given or at x in the precision of x.

        Runs `vjp` anew each time, for a pullback need not survive its first call.
        """
        args = self.problem.args(x)
        with np.errstate(all=None if x is None else "ignore"):
            value, pullback = self.vjp(self.problem.f, *args)
            gradients = pullback(self.cotangent(value, u))
        if x is None:
            self._same_value(value)
        return self.joined(gradients, "vjp: the pullback")

    def computes_in(self, dtype: DType, u: np.ndarray) -> bool:
        """Whether the claimed gradient, at arguments of this dtype, comes in it."""
        try:
            return self.gradient(u, self.problem.x.astype(dtype)).dtype == dtype
        except Exception:  # whatever it raises on an unusual dtype, it is a no
            return False

    def cotangent(self, value: Any, u: np.ndarray) -> Any:
        """u in the containers, shapes and dtypes of the value; outputs that are not floating take None."""
        where = dict(self.problem.outputs)

        def new(path: trees.Path, leaf: Any) -> Any:
            if path not in where:
                return None
            output, part = np.asarray(leaf), u[where[path]]
            if output.size != part.size:
                raise GradientError(f"vjp: its value has shape {output.shape}, where f gives {part.size} numbers")
            return part.reshape(output.shape).astype(output.dtype)

        return trees.replace(value, new)

    def joined(self, gradients: Any, who: str) -> np.ndarray:
        """One gradient for each argument, nested as the arguments are, as one vector (n,)."""
        count = len(self.problem.given)
        if not isinstance(gradients, (tuple, list)) or len(gradients) != count:
            raise TypeError(
                f"{who} returns {_described(gradients)}; it must return a tuple with one gradient for each "
                f"of the arguments, {count}"
            )
        return np.concatenate([_part(gradients, leaf, who) for leaf in self.problem.leaves])

    def _same_value(self, value: Any) -> None:
        parts = [np.asarray(trees.at(value, path)).ravel() for path, _ in self.problem.outputs]
        apart = np.abs(np.concatenate(parts) - self.problem.y)
        if not np.all(apart <= self.problem.same(np.concatenate(parts))):
            worst = np.max(apart)
            raise GradientError(
                f"vjp: its value differs from that of f by up to {worst:.3g}; it differentiates "
                "another function, or at another point"
            )


def _part(gradients: Any, leaf: Leaf, who: str) -> np.ndarray:
    """The gradient of one array out of the nested gradients; None means that f does not depend on it."""
    try:
        found = trees.at(gradients, leaf.path)
    except (KeyError, IndexError, TypeError):
        raise GradientError(f"{who} gives no gradient for {leaf.place()}") from None
    if found is None:
        return np.zeros(leaf.stop - leaf.start, leaf.dtype)
    found = np.asarray(found)
    if found.shape != leaf.shape:
        raise GradientError(
            f"{who} gives {leaf.place()} a gradient of shape {found.shape}; it must have that of the "
            f"argument, {leaf.shape}"
        )
    return found.ravel()


def _described(value: Any) -> str:
    return f"a tuple of {len(value)}" if isinstance(value, (tuple, list)) else f"one {type(value).__name__}"
