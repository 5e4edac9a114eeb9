"""Arithmetic, elementary functions and choices, element by element.

`x̄`, `ȳ`, `z̄` stand for the gradients of x, y, z. All arguments broadcast; the result has the broadcast shape, and
`primitive` sums gradients over the broadcast axes.

Arithmetic and elementary functions are analytic, so the complex step is exact for them. Choices (absolute, maximum,
minimum, where, clip) are not: an element that was not chosen gets gradient 0, and each function says which of the
possible gradients it takes at its kink. Complex values are compared by their real parts, so that the complex step,
which moves an argument off the real line, makes the choice of the real argument.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.autograd.declaration import takes_unchecked
from refnp.autograd.errors import explained
from refnp.autograd.primitives import primitive, raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor, branch_point_at_0
from refnp.kernels.blocks import elementwise, result_block
from refnp.numbers.arrays import floating, in_order
from refnp.numbers.duals import Cotangent, Dual, as_array, joined, product
from refnp.numbers.kinds import is_kind, kind_of
from refnp.numbers.parts import part
from refnp.numbers.words import nonzero


@primitive
@takes_unchecked("x (...), y (...) → (...)")
def add(x, y):
    """z = x + y.   VJP: x̄ = z̄, ȳ = z̄."""
    return np.add(x, y), lambda z_bar: (z_bar, z_bar)


@primitive
@takes_unchecked("x (...), y (...) → (...)")
def subtract(x, y):
    """z = x − y.   VJP: x̄ = z̄, ȳ = −z̄."""
    return np.subtract(x, y), lambda z_bar: (z_bar, lambda: -z_bar)


@primitive
@takes_unchecked("x (...), y (...) → (...)")
def multiply(x, y):
    """z = x y.   VJP: x̄ = z̄ y, ȳ = z̄ x."""
    return np.multiply(x, y), lambda z_bar: (lambda: z_bar * y, lambda: z_bar * x)


@primitive
@takes_unchecked("x (...), y nonzero (...) → (...)")
def divide(x, y):
    """z = x / y.   VJP: x̄ = z̄ / y, ȳ = −z̄ z / y."""
    z = np.true_divide(x, y)
    y = as_array(y) if isinstance(y, tuple) else y

    def y_bar(z_bar):
        first, left = watched(lambda: z_bar / y)  # where z̄/y over- or underflows z̄ z may not
        with np.errstate(over="ignore"):
            bar = -first * z
            return bar if is_kind(bar) else _quotient_instead(bar, first, z_bar, y, z, left)

    return z, lambda z_bar: (lambda: z_bar / y, lambda: y_bar(z_bar))


def watched(work: Callable) -> tuple[Any, bool]:
    """What it computes, and whether a number on the way has left the range of floats."""
    flags: list[Any] = []
    with np.errstate(over="call", under="call", call=lambda *flag: flags.append(flag)):
        return work(), bool(flags)


def _quotient_instead(bar: Any, first: Any, z_bar: Any, y: Any, z: Any, left: bool) -> Any:
    """ȳ = −z̄ z/y by other quotients, where z̄/y over- or underflows, or y is infinite."""
    if left:
        bar = np.where(np.isinf(first) | ((first == 0) & (z_bar != 0)), -z_bar * z / y, bar)
    if isinstance(z_bar, Cotangent) and np.isinf(y).any():  # z̄/∞ = 0 is no z̄ = 0, which hides a z that is NaN
        bar = np.where(np.isinf(y), -z_bar * (z / y), bar)
    return bar


@primitive
@takes_unchecked("x (...) → (...)")
def negative(x):
    """y = −x.   VJP: x̄ = −ȳ."""
    return np.negative(x), lambda y_bar: (-y_bar,)


@primitive
@takes_unchecked("x positive (...), exponent (...) → (...)")
def power(x, exponent):
    """y = x^p.   VJP: x̄ = ȳ p x^(p−1) (0 where p = 0), p̄ = ȳ y log x.

    Exponents 2 and 3 given as Python numbers are computed as products, much faster; a cube is then rounded twice.
    At x = 0: p̄ is 0 for p ≥ 0, where 0^p does not change (or jumps, at p = 0), and −∞ · ȳ for p < 0, where y is ∞.
    A negative x has real powers for whole p only; others are NaN, with NumPy's warning. For whole p too p̄ is NaN.
    Raises ValueError for an integer p beyond the floating-point numbers, and for negative integer powers of integers.
    """
    x, exponent = in_order(x), in_order(exponent)
    if type(exponent) is int and abs(exponent) > MOST:
        raise ValueError(f"power: exponent has {exponent.bit_length()} binary digits; pass a number below 1.8e308")
    if not _is_product(exponent):
        branch_point_at_0(x)
    y = _whole_power(x, exponent)
    y = np.positive(x) if y is x else y

    def x_bar(y_bar):
        with np.errstate(over="ignore"):
            slope = np.where(np.real(exponent) == 0, 0, exponent * _whole_power(x, exponent - 1.0))
            bar = y_bar * slope
            plain = _is_product(exponent) or is_kind(bar)
            return bar if plain else _instead(bar, slope, y_bar, x, y, exponent)

    def exponent_bar(y_bar):
        base = as_array(x, None if isinstance(x, np.ndarray) else y.dtype)  # log 2 in longdouble, if y is
        constant = _is_zero(y) | (_is_zero(base) & (np.real(exponent) >= 0))
        return y_bar * np.where(constant, 1, y) * np.log(np.where(constant, 1, base))

    return y, lambda y_bar: (lambda: x_bar(y_bar), lambda: exponent_bar(y_bar))


def _is_zero(x: Any) -> Any:
    return np.equal(x.real if is_kind(x) else x, 0)


MOST = int(np.finfo(np.float64).max)


def _is_product(exponent: Any) -> bool:
    return type(exponent) in (int, float) and exponent in (1, 2, 3)


def _instead(bar: Array, slope: Array, y_bar: Array, x: Any, y: Array, exponent: Any) -> Array:
    """x̄ as ȳ y p/x where the slope p x^(p−1) over- or underflows though ȳ times it does not: x = 1e-200, ȳ = 1e-300."""
    beyond = ((slope == 0) | np.isinf(slope)) & (exponent != 0) & (np.not_equal(x, 0) & np.isfinite(x) & (y_bar != 0))
    return np.where(beyond, y_bar * y * exponent / np.where(beyond, x, 1), bar) if beyond.any() else bar


def _whole_power(x: Any, exponent: Any) -> Any:
    if type(exponent) in (int, float):  # a NumPy scalar is of these too, but has a dtype that counts
        if exponent == 1:
            return x
        if exponent == 2:
            return x * x
        if exponent == 3:
            return x * x * x
    return np.power(x, exponent)


@primitive
@takes_unchecked("x (...) → (...)")
@elementwise
def exp(x):
    """y = eˣ.   VJP: x̄ = ȳ y."""
    y = np.exp(x, out=result_block())
    return y, lambda y_bar: (y_bar * y,)


@primitive
@takes_unchecked("x (...) → (...)")
@elementwise
def expm1(x):
    """y = eˣ − 1, accurate near 0.   VJP: x̄ = ȳ eˣ."""
    y = np.expm1(x, out=result_block())
    return y, lambda y_bar: (y_bar * np.exp(x),)


@primitive
@takes_unchecked("x positive (...) → (...)")
def log(x):
    """y = log x.   VJP: x̄ = ȳ / x."""
    x = in_order(x)
    return np.log(x), lambda y_bar: (y_bar / x,)


@primitive
def log1p(x):
    """y = log(1 + x), accurate near 0.   VJP: x̄ = ȳ / (1 + x)."""
    return log1p_of(x), lambda y_bar: (y_bar / (1 + x),)


def log1p_of(x: Any) -> Array:
    """log(1 + x). NumPy's own, for complex x = a + ib, loses digits near 0, so there

    log |1 + x| = log1p(a) + ½ log1p(b²/(1 + a)²).
    """
    x = in_order(as_array(x))
    if x.dtype.kind != "c" or isinstance(x, Dual):
        return np.log1p(x)
    near = (x.real > -0.5) & (np.abs(x.imag) < 1)
    a, b = np.where(near, x.real, 0), np.where(near, x.imag, 0)
    y = np.empty(x.shape, x.dtype)
    y.real = np.where(near, np.log1p(a) + np.log1p((b / (1 + a)) ** 2) / 2, np.log(np.where(near, 1, 1 + x)).real)
    y.imag = np.arctan2(x.imag, 1 + x.real)
    return y


@primitive
@takes_unchecked("x positive (...) → (...)")
def sqrt(x):
    """y = √x.   VJP: x̄ = ȳ / (2y), infinite at x = 0."""
    branch_point_at_0(x)
    y = np.sqrt(x)
    return y, lambda y_bar: (y_bar / (y + y),)


@primitive
@takes_unchecked("x (...) → (...)")
@elementwise
def tanh(x):
    """y = tanh x.   VJP: x̄ = ȳ (1 − y²) = ȳ 4e/(1 + e)², e = exp(−2|x|).

    The second form keeps all digits in the tails, where y rounds to ±1 and 1 − y² to 0.
    """

    y = np.tanh(x, out=result_block())
    return y, lambda y_bar: (y_bar * tanh_slope(x, y),)


@part
def tanh_slope(x: Any, y: Any) -> Any:
    """4e/(1 + e)², e = exp(−2|x|), of y = tanh x."""
    e = np.exp(-2 * (np.where(x.real < 0, -x, x) if x.dtype.kind == "c" else np.abs(x)))
    bottom = 1 + e
    e /= bottom
    e /= bottom
    e *= 4
    return e


@primitive
@takes_unchecked("x (...) → (...)")
def sin(x):
    """y = sin x (radians).   VJP: x̄ = ȳ cos x."""
    x = in_order(floating(x))
    return np.sin(x), lambda y_bar: (y_bar * np.cos(x),)


@primitive
@takes_unchecked("x (...) → (...)")
def cos(x):
    """y = cos x (radians).   VJP: x̄ = −ȳ sin x."""
    x = in_order(floating(x))
    return np.cos(x), lambda y_bar: (-y_bar * np.sin(x),)


@primitive
@takes_unchecked("x (...) → (...)")
def sinh(x):
    """y = sinh x = (eˣ − e^(−x))/2, accurate near 0.   VJP: x̄ = ȳ cosh x."""
    x = in_order(floating(x))
    return np.sinh(x), lambda y_bar: (y_bar * np.cosh(x),)


@primitive
@takes_unchecked("x (...) → (...)")
def cosh(x):
    """y = cosh x = (eˣ + e^(−x))/2.   VJP: x̄ = ȳ sinh x."""
    x = in_order(floating(x))
    return np.cosh(x), lambda y_bar: (y_bar * np.sinh(x),)


@primitive
@takes_unchecked("x (...) → (...)")
def arctan(x):
    """y = arctan x, in radians, between −π/2 and π/2.   VJP: x̄ = ȳ / (1 + x²)."""
    x = in_order(floating(x))

    def vjp(y_bar):
        with np.errstate(over="ignore"):  # of x², where the slope is 0
            return (y_bar / (1 + x * x),)

    return np.arctan(x), vjp


@primitive
@takes_unchecked("y (...), x (...) → (...)")
def arctan2(y, x):
    """z = the angle of the point (x, y), in radians, between −π and π: arctan(y/x) where x > 0.

    VJP: ȳ = z̄ x/r², x̄ = −z̄ y/r², r² = x² + y²; and 0 at the origin, where there is no angle (JAX: NaN).
    """
    if kind_of((y, x)) is not None:
        square = x * x + y * y
        return np.arctan2(y, x), lambda z_bar: (z_bar * x / nonzero(square), -(z_bar * y / nonzero(square)))
    numbers = [isinstance(a, (int, float)) for a in (y, x)]  # Python's have no precision of their own
    dtype = np.result_type(*(a if number else as_array(a) for a, number in zip((y, x), numbers, strict=True)))
    y, x = (as_array(a, dtype) if number else a for a, number in zip((y, x), numbers, strict=True))
    y, x = in_order(floating(y)), in_order(floating(x))
    length = np.sqrt(x * x + y * y) if "c" in (x.dtype.kind, y.dtype.kind) else np.hypot(x, y)
    flat = (length == 0) | np.isinf(length.real)  # both slopes are 0
    divisor = np.where(flat, 1, length)
    cos, sin = np.where(flat, 0, x / divisor), np.where(flat, 0, y / divisor)
    z = np.asarray(np.arctan2(np.real(y), np.real(x)))
    if np.iscomplexobj(length):
        slope = (cos.real * np.imag(y) - sin.real * np.imag(x)) / divisor.real
        z = joined(z, slope, length.dtype)
    return z, lambda z_bar: (lambda: z_bar * (cos / divisor), lambda: -z_bar * (sin / divisor))


@primitive
@takes_unchecked("x (...), y nonzero (...) → (...)")
def remainder(x, y):
    """z = x − y ⌊x/y⌋, between 0 and y; NaN for y = 0, of integers 0.   VJP: x̄ = z̄, ȳ = −z̄ ⌊x/y⌋, jumps left out."""
    with np.errstate(divide="ignore", invalid="ignore"):  # by 0: NaN, and 0 of integers
        whole = np.floor_divide(np.real(x), np.real(y))
        is_complex = np.iscomplexobj(x) or np.iscomplexobj(y)
        z = as_array(np.remainder(np.real(x) if is_complex else x, np.real(y) if is_complex else y))
        if is_complex:
            z = joined(z, np.imag(x) - product(whole, np.imag(y)), np.result_type(x, y))
    return z, lambda z_bar: (z_bar, lambda: -z_bar * whole)


@explained
@takes_unchecked("x (...) → (...)")
def floor(x: ArrayLike) -> Array | Tensor:
    """⌊x⌋ (of the real part), in the floating type of x: a constant, without gradient, which between jumps is 0."""
    values = _numbers("floor", x)
    return _like(np.floor(values.real).astype(values.dtype), x)


@explained
@takes_unchecked("x (...) → (...)", decimals="whole")
@np.errstate(under="ignore")
def round(x: ArrayLike, decimals: int = 0) -> Array | Tensor:
    """x rounded to so many decimals, halves to even (the real part), in the floating type of x, without gradient."""
    values = _numbers("round", x)
    return _like(np.round(values.real, decimals).astype(values.dtype), x)


def _numbers(name: str, x: Any) -> Array:
    """The values, of a floating type; TypeError for what is no numbers."""
    values = floating(raw(x))
    if values.dtype.kind not in "fc":
        raise TypeError(f"{name}: x is {values.dtype}; pass an array of numbers")
    return values


def _like(value: Any, x: Any) -> Any:
    """A constant Tensor of a Tensor, an array of an array."""
    return Tensor(value) if isinstance(x, Tensor) else value


@primitive
def astype(x, dtype):
    """y = x in another precision, rounded.   VJP: x̄ = ȳ in the precision of x.

    A complex x stays complex, in the precision of `dtype`: its imaginary part is the complex step's derivative.
    Raises TypeError unless `dtype` is a floating type: integers have no gradient, take them from `x.numpy()`.
    """
    dtype = np.dtype(dtype)
    if dtype.kind not in "fc":
        raise TypeError(f"astype: dtype is {dtype}, which has no gradient; pass a floating type, or use x.numpy()")
    x = as_array(x)
    if is_kind(x):
        return x, lambda y_bar: (y_bar,)
    if x.dtype.kind == "c" and dtype.kind == "f":
        dtype = np.result_type(np.complex64, dtype)
    return x.astype(dtype), lambda y_bar: (y_bar,)


STEPS = 1e-12  # the largest imaginary part that is taken for a step of differentiation


def steps_only(name: str, x: Any) -> Any:
    """x; TypeError if it is complex and no step: |z| has no derivative as a function of a complex number."""
    if np.iscomplexobj(x) and not isinstance(x, Dual) and np.abs(np.imag(x)).max(initial=0) > STEPS:
        raise TypeError(
            f"{name}: x has an imaginary part of size {np.abs(np.imag(x)).max():.3g}; complex x is for "
            f"differentiation, with parts up to {STEPS}: use NumPy's function of x.numpy(), or one of its parts"
        )
    return x


@primitive
@takes_unchecked("x (...) → (...)")
def absolute(x):
    """y = |x|.   VJP: x̄ = ȳ sign x, 0 at the kink 0.

    A complex x is a step of differentiation, continued from the real line, ±x.   Raises TypeError for other complex x.
    """
    x = steps_only("absolute", x)
    sign = np.sign(np.real(x))
    return x * sign, lambda y_bar: (with_sign(y_bar, sign),)


@part
def with_sign(y_bar, sign):
    """ȳ times the slope of |x|, which is the sign of x, and 0 at the kink."""
    return y_bar * sign


@primitive
@takes_unchecked("x (...), y (...) → (...)")
def maximum(x, y):
    """z = max(x, y), NaN if either is.   VJP: z̄ goes to the larger, or a NaN, of two to x; at a tie half to each."""
    return _pick(x, y, np.greater(x, y))


@primitive
@takes_unchecked("x (...), y (...) → (...)")
def minimum(x, y):
    """z = min(x, y), NaN if either is.   VJP: z̄ goes to the smaller, or a NaN, of two to x; at a tie half to each."""
    return _pick(x, y, np.less(x, y))


def _pick(x: Any, y: Any, first: Array) -> tuple:
    """x where `first` holds, else y; a NaN in either is kept."""
    tie = np.equal(np.real(x), np.real(y))
    first = first | np.isnan(np.real(x))
    z = np.where(first, x, y)
    if z.dtype.kind == "c":  # the complex step, too, takes half of each at a tie
        z.imag = np.where(tie, np.imag(x) * 0.5 + np.imag(y) * 0.5, z.imag)

    def vjp(z_bar):
        return (
            lambda: half_at_tie(tie, z_bar, np.where(first, z_bar, 0)),
            lambda: half_at_tie(tie, z_bar, np.where(first, 0, z_bar)),
        )

    return z, vjp


@part
def half_at_tie(tie, z_bar, chosen):
    """Half of z̄ where two numbers are equal, and what is chosen elsewhere."""
    return np.where(tie, z_bar * 0.5, chosen)


@primitive
@takes_unchecked("x (...), y (...) → (...)", condition="boolean (...) hides (x)")
def where(condition, x, y):
    """z = x where the condition holds, else y.   VJP: x̄ = z̄ where it holds, else 0; ȳ the other way round.

    Raises TypeError if the condition is not boolean.
    """
    condition = as_array(condition)
    if condition.dtype != bool:
        raise TypeError(f"where: condition is {condition.dtype}; pass booleans, for example x > 0")

    def vjp(z_bar):
        return None, lambda: np.where(condition, z_bar, 0), lambda: np.where(condition, 0, z_bar)

    return np.where(condition, x, y), vjp


@primitive
def clip(x, low=None, high=None):
    """y = min(max(x, low), high), as NumPy defines it: `high` where low > high, NaN where one of the three is NaN.

    VJP: x̄ = ȳ where low ≤ x ≤ high, or where x alone is NaN; elsewhere ȳ goes to the bound that y is.
    Raises ValueError if neither bound is given.
    """
    if low is None and high is None:
        raise ValueError("clip: neither low nor high is given; pass at least one")
    below = above = np.False_
    y = x
    if low is not None:
        below = np.less(x, low) | np.isnan(np.real(low))
        y = np.where(below, low, x)
    if high is not None:
        above = np.greater(y, high) | np.isnan(np.real(high))
        y = np.where(above, high, y)
        below = ~above & below

    def vjp(y_bar):
        return (
            lambda: np.where(below | above, 0, y_bar),
            lambda: np.where(below, y_bar, 0),
            lambda: np.where(above, y_bar, 0),
        )

    return y, vjp
