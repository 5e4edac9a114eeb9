"""Arithmetic and elementary functions, element by element.

Each line of a rule is the derivative a student learns at school; broadcasting is undone by the machinery.
`x̄`, `ȳ`, `z̄` stand for the gradients of x, y, z. All arguments broadcast; the result has the broadcast shape.
Smooth functions are analytic code, exact under the complex step. maximum, minimum, clip, abs and relu have kinks:
there each says which of the possible gradients it takes, and for complex values it decides by the real part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refnp.autograd.blocks import elementwise
from refnp.autograd.primitive import primitive, ratio


@primitive
def add(x, y):
    """z = x + y.   VJP: x̄ = z̄, ȳ = z̄."""

    def vjp(z_bar):
        return z_bar, z_bar

    return x + y, vjp


@primitive
def subtract(x, y):
    """z = x − y.   VJP: x̄ = z̄, ȳ = −z̄."""

    def vjp(z_bar):
        return z_bar, lambda: -z_bar

    return x - y, vjp


@primitive
def multiply(x, y):
    """z = x y.   VJP: x̄ = z̄ y, ȳ = z̄ x."""

    def vjp(z_bar):
        return lambda: z_bar * y, lambda: z_bar * x

    return x * y, vjp


@primitive
def divide(x, y):
    """z = x / y.   VJP: x̄ = z̄ / y, ȳ = −z̄ z / y.   Where z̄ = 0 both are 0, even at y = 0."""
    z = np.true_divide(x, y)

    def vjp(z_bar):
        return lambda: ratio(z_bar, y), lambda: -ratio(z_bar, y) * np.where(z_bar == 0, 0, z)

    return z, vjp


@primitive
def negative(x):
    """y = −x.   VJP: x̄ = −ȳ."""

    def vjp(y_bar):
        return (-y_bar,)

    return np.negative(x), vjp


@primitive
def power(x, exponent):
    """y = x^p.   VJP: x̄ = ȳ p x^(p−1), p̄ = ȳ y log x (0 where x = 0).

    Exponents 2 and 3 given as Python numbers are computed as products, which is exact to an ulp and much faster.
    """
    y = _whole_power(x, exponent)

    def x_bar(y_bar):
        if isinstance(exponent, (int, float)) and exponent == 0:
            return np.zeros_like(y_bar)
        with np.errstate(divide="ignore"):
            slope = exponent * _whole_power(x, exponent - 1)
        return y_bar * np.where((y_bar == 0) | (exponent == 0), 0, slope)

    def exponent_bar(y_bar):
        at_zero = np.asarray(x) == 0
        return y_bar * y * np.log(np.where(at_zero, 1, x))

    def vjp(y_bar):
        return lambda: x_bar(y_bar), lambda: exponent_bar(y_bar)

    return y, vjp


def _whole_power(x: Any, exponent: Any) -> Any:
    if isinstance(exponent, (int, float)):
        if exponent == 1:
            return x
        if exponent == 2:
            return x * x
        if exponent == 3:
            return x * x * x
    return np.power(x, exponent)


@primitive
@elementwise
def exp(x, *, out=None):
    """y = eˣ.   VJP: x̄ = ȳ y."""
    y = np.exp(x, out=out)

    def vjp(y_bar):
        return (y_bar * y,)

    return y, vjp


@primitive
@elementwise
def expm1(x, *, out=None):
    """y = eˣ − 1, accurate near 0.   VJP: x̄ = ȳ (y + 1)."""
    y = np.expm1(x, out=out)

    def vjp(y_bar):
        return (y_bar * np.exp(x),)

    return y, vjp


@primitive
def log(x):
    """y = log x.   VJP: x̄ = ȳ / x, and 0 where ȳ = 0 (so that `where(x > 0, log(x), 0)` has gradient 0 at 0)."""

    def vjp(y_bar):
        return (ratio(y_bar, x),)

    return np.log(x), vjp


@primitive
def log1p(x):
    """y = log(1 + x), accurate near 0.   VJP: x̄ = ȳ / (1 + x)."""

    def vjp(y_bar):
        return (ratio(y_bar, 1 + x),)

    return log1p_of(x), vjp


def log1p_of(x: Any) -> Any:
    """log(1 + x). For complex x the real part is ½ log1p(2a + a² + b²), where NumPy's own loses digits near 0."""
    x = np.asarray(x)
    if x.dtype.kind != "c":
        return np.log1p(x)
    y = np.empty_like(x)
    y.real = np.log1p(x.real) + np.log1p((x.imag / (1 + x.real)) ** 2) / 2
    y.imag = np.arctan2(x.imag, 1 + x.real)
    return y


@primitive
def sqrt(x):
    """y = √x.   VJP: x̄ = ȳ / (2y), and 0 where ȳ = 0 (at x = 0 the derivative is infinite)."""
    y = np.sqrt(x)

    def vjp(y_bar):
        return (ratio(y_bar, y + y),)

    return y, vjp


@primitive
@elementwise
def tanh(x, *, out=None):
    """y = tanh x.   VJP: x̄ = ȳ (1 − y²), written as ȳ (1 − y)(1 + y), which keeps its digits as y → ±1."""
    y = np.tanh(x, out=out)

    def vjp(y_bar):
        x_bar = 1 - y
        x_bar *= 1 + y
        x_bar *= y_bar
        return (x_bar,)

    return y, vjp


@primitive
def sin(x):
    """y = sin x (radians).   VJP: x̄ = ȳ cos x."""

    def vjp(y_bar):
        return (y_bar * np.cos(x),)

    return np.sin(x), vjp


@primitive
def cos(x):
    """y = cos x (radians).   VJP: x̄ = −ȳ sin x."""

    def vjp(y_bar):
        return (-y_bar * np.sin(x),)

    return np.cos(x), vjp


@primitive
def absolute(x):
    """y = |x|; for complex x the continuation of |x| from the real line, ±x.   VJP: x̄ = ȳ sign x, 0 at the kink 0."""
    sign = np.sign(np.real(x))

    def vjp(y_bar):
        return (y_bar * sign,)

    return x * sign, vjp


@primitive
def maximum(x, y):
    """z = max(x, y).   VJP: z̄ goes to the larger; at a tie, the kink, half to each."""
    return _pick(x, y, np.greater(np.real(x), np.real(y)))


@primitive
def minimum(x, y):
    """z = min(x, y).   VJP: z̄ goes to the smaller; at a tie, the kink, half to each."""
    return _pick(x, y, np.less(np.real(x), np.real(y)))


def _pick(x, y, first):
    """x where `first` holds, else y; a NaN in either is kept."""
    tie = np.equal(np.real(x), np.real(y))

    def vjp(z_bar):
        half = z_bar * 0.5
        return lambda: np.where(tie, half, np.where(first, z_bar, 0)), lambda: np.where(
            tie, half, np.where(first, 0, z_bar)
        )

    return np.where(first | np.isnan(x), x, y), vjp


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
    """y = min(max(x, low), high).   VJP: x̄ = ȳ where low ≤ x ≤ high, else 0; the bounds are constants.

    Raises ValueError if neither bound is given or low > high somewhere.
    """
    if low is None and high is None:
        raise ValueError("clip: neither low nor high is given; pass at least one")
    if low is not None and high is not None and np.any(np.greater(low, high)):
        raise ValueError("clip: low is greater than high somewhere; exchange them")
    low, high = -np.inf if low is None else low, np.inf if high is None else high
    real = np.real(x)
    below, above = real < low, real > high
    bounded = np.where(below, low, np.where(above, high, 0)).astype(np.result_type(x))

    def vjp(y_bar):
        return (np.where(below | above, 0, y_bar),)

    return np.where(below | above, bounded, x), vjp
