"""Choosing, element by element, among values: absolute, maximum, minimum, where, clip.

What was not chosen gets gradient 0. Where the choice changes sides there is a kink: each function says which of the
possible gradients it takes there. Complex values are compared by their real parts, so that the complex step, which
moves an argument off the real line, sees the choice that was made on it. All arguments broadcast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refnp.autograd.primitive import primitive


@primitive
def absolute(x):
    """y = |x|; for complex x the continuation of |x| from the real line, ±x.   VJP: x̄ = ȳ sign x, 0 at the kink 0."""
    sign = np.sign(np.real(x))

    def vjp(y_bar):
        return (y_bar * sign,)

    return x * sign, vjp


@primitive
def maximum(x, y):
    """z = max(x, y), NaN if either is.   VJP: z̄ goes to the larger; at a tie, the kink, half to each."""
    return _pick(x, y, np.greater(np.real(x), np.real(y)))


@primitive
def minimum(x, y):
    """z = min(x, y), NaN if either is.   VJP: z̄ goes to the smaller; at a tie, the kink, half to each."""
    return _pick(x, y, np.less(np.real(x), np.real(y)))


def _pick(x: Any, y: Any, first: np.ndarray) -> tuple:
    """x where `first` holds, else y; a NaN in either is kept."""
    tie = np.equal(np.real(x), np.real(y))
    first = first | np.isnan(x)
    z = np.where(first, x, y)
    if z.dtype.kind == "c":  # the complex step, too, takes half of each at a tie
        z.imag = np.where(tie, np.imag(x) * 0.5 + np.imag(y) * 0.5, z.imag)

    def vjp(z_bar):
        half = z_bar * 0.5
        return (
            lambda: np.where(tie, half, np.where(first, z_bar, 0)),
            lambda: np.where(tie, half, np.where(first, 0, z_bar)),
        )

    return z, vjp


@primitive
def where(condition, x, y):
    """z = x where the condition holds, else y.   VJP: x̄ = z̄ where it holds, else 0; ȳ the other way round.

    Raises TypeError if the condition is not boolean.
    """
    condition = np.asarray(condition)
    if condition.dtype != bool:
        raise TypeError(f"where: condition is {condition.dtype}; pass booleans, for example x > 0")

    def vjp(z_bar):
        return None, lambda: np.where(condition, z_bar, 0), lambda: np.where(condition, 0, z_bar)

    return np.where(condition, x, y), vjp


@primitive
def clip(x, low=None, high=None):
    """y = min(max(x, low), high).

    VJP: x̄ = ȳ where low ≤ x ≤ high, low̄ = ȳ where x < low, high̄ = ȳ where x > high, each 0 elsewhere.
    Raises ValueError if neither bound is given or low > high somewhere.
    """
    if low is None and high is None:
        raise ValueError("clip: neither low nor high is given; pass at least one")
    if low is not None and high is not None and np.any(np.greater(np.real(low), np.real(high))):
        raise ValueError("clip: low is greater than high somewhere; exchange them")
    below = np.False_ if low is None else np.less(np.real(x), np.real(low))
    above = np.False_ if high is None else np.greater(np.real(x), np.real(high))
    y = x if low is None else np.where(below, low, x)
    y = y if high is None else np.where(above, high, y)

    def vjp(y_bar):
        return (
            lambda: np.where(below | above, 0, y_bar),
            lambda: np.where(below, y_bar, 0),
            lambda: np.where(above, y_bar, 0),
        )

    return y, vjp
