"""The error function and its complement, which NumPy does not have.

    erf x = 2/√π ∫₀ˣ e^(−t²) dt          erfc x = 1 − erf x          Φ(x) = ½ erfc(−x/√2)

Three facts are used. e^(−x²) can be computed to the last digit. For x ≥ 0 erfc is e^(−x²) divided by a smooth
function, which a quotient of polynomials approximates, and erfc(−x) = 2 − erfc(x). Near 0, erf is its Taylor series.

Every function is a fixed sequence of array operations in the precision of its argument, float32, float64 or longdouble;
float16 is computed in float32, and rounded once.
Errors stay below 4 units in the last place (Φ 5, longdouble 6), in the tails too, until results become subnormal.
The differentiable operations stand in refnp/autograd/special.py.

Sources: NIST DLMF 7.2, 7.6, 7.8; Cody (1969), for rational functions in place of erfc;
Chiarella & Reichel (1968), for the trapezoidal rule.
"""

import functools
import itertools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from refnp.numbers.arrays import floating
from refnp.numbers.duals import Array, Dual

PI = np.longdouble("3.14159265358979323846264338327950288")
SQRT_PI = 1.7724538509055159
TWO_OVER_SQRT_PI = np.longdouble("1.12837916709551257389615890312154517")
TWO_OVER_SQRT_PI_LESS_1 = np.longdouble("0.128379167095512573896158903121545172")
SQRT_HALF = np.longdouble("0.707106781186547524400844362104849039")
ONE_OVER_SQRT_TWO_PI = np.longdouble("0.398942280401432677939946059934381868")

GAUSSIAN_VANISHES = 200.0  # from here on e^(−x²/2) is 0 in every precision: arguments beyond may be taken for 200
NEAR = 0.5  # up to here the Taylor series serves
SMALL = 1e-12  # an imaginary part up to here is infinitesimal: its square does not reach the last place

# The inverse Mills ratio m(a) = e^(−a²)/erfc(a) starts at 1 and tends to √π a:  m(a) = √π a + (1 − a P(a)/Q(a)),
# in float32 on [0, 9.5] with relative error 3.7e-8, in float64 on [0, 27] with 7.7e-18; beyond, erfc is subnormal or 0.
# Highest powers first; all are positive, so sums lose nothing. docs/derivations/erf_coefficients.py finds them again.
MILLS = {
    np.dtype(np.float32): (
        (0.0357916, 0.21316695, 0.545966, 0.6440747),
        (0.035797697, 0.2447017, 0.7653266, 1.2719055, 1.0),
    ),
    np.dtype(np.float64): (
        (1.4907112042067457e-05, 0.0003140150021538155, 0.0032338620418449425, 0.021115228554957406,
         0.09574296941308412, 0.3119057288515258, 0.7307153572435717, 1.1926490475172262, 1.243040382144746,
         0.6440746838100033),
        (1.4907112042166965e-05, 0.0003272260862114043, 0.0035238586111716193, 0.024224955811796473,
         0.11692178212476613, 0.41243502575255636, 1.0754829366873795, 2.0498323760101305, 2.745179642577918,
         2.354198922880189, 1.0),
    ),
}  # fmt: skip


def erf(x: ArrayLike) -> Array:
    """erf x in the dtype of x; integers become float64."""
    x, a, result = _dual("erf", x)
    gaussian = _gaussian(a)
    far = np.copysign(1 - _half_line(a, gaussian), x)
    value = np.where(a < NEAR, _taylor(np.clip(x, -NEAR, NEAR)), far)
    return result(value, lambda: two_over_sqrt_pi(a) * gaussian)


def erfc(x: ArrayLike) -> Array:
    """erfc x in the dtype of x; integers become float64."""
    x, a, result = _dual("erfc", x)
    gaussian = _gaussian(a)
    tail = _half_line(a, gaussian)
    tail -= 2 * (x < 0).astype(a.dtype)
    value = np.abs(tail, out=tail)  # on the left 2 − tail, rounded once
    return result(value, lambda: -two_over_sqrt_pi(a) * gaussian)


def normal_cdf(x: ArrayLike) -> tuple[Array, Array]:
    """Φ(x) and Φ'(x) = φ(x) = e^(−x²/2)/√(2π), the normal distribution and its density, with one exponential.

    In the left tail Φ is better here than ½ erfc(−x/√2): rounding x/√2 alone costs up to x² units in the last place.
    """
    x, a, result = _dual("normal", x)
    gaussian = _gaussian(a, 0.5)
    tail = _half_line(a * in_precision(a.dtype, SQRT_HALF), gaussian)
    tail *= 0.5
    tail -= (x > 0).astype(a.dtype)
    value = np.abs(tail, out=tail)  # on the right 1 − tail
    density = gaussian * in_precision(a.dtype, ONE_OVER_SQRT_TWO_PI)
    return result(value, lambda: density), result(density, lambda: -np.copysign(a, x) * density)


def gaussian(x: ArrayLike) -> Array:
    """e^(−x²) in the dtype of x, where np.exp(−x * x) would be wrong by up to x² units in the last place."""
    x, a, result = _dual("gaussian", x)
    gaussian = _gaussian(a)
    return result(gaussian, lambda: -2 * np.copysign(a, x) * gaussian)


def _dual(name: str, x: ArrayLike) -> tuple[Array, Array, Callable]:
    """Re x, its size |Re x|, at most GAUSSIAN_VANISHES, and `result(value, slope)`: the value at x from that at Re x.

    A complex a + ib is a dual number, for the complex step: b is infinitesimal, f(a + ib) = f(a) + ib f'(a).
    """
    x = floating(x)
    dtype = x.dtype
    if dtype.char not in "efdgFDG":
        raise TypeError(f"{name}: x is {dtype}; convert it to float16, float32, float64, longdouble or a complex type")
    x = x.astype(np.float32) if dtype == np.float16 else x
    is_dual = x.dtype.kind == "c"
    flat = np.atleast_1d(x)  # operations on arrays without axes give scalars, which `out=` cannot take
    if is_dual and not isinstance(x, Dual) and not ((np.abs(flat.imag) <= SMALL) | np.isnan(flat.real)).all():
        raise ValueError(
            f"{name}: x has an imaginary part of size {np.abs(flat.imag).max()}; complex x is for differentiation, "
            f"with imaginary parts up to {SMALL}: take a smaller step (1e-100), or x.real"
        )

    def result(value: Array, slope: Callable) -> Array:
        if is_dual:
            real, value = value, np.empty(x.shape or 1, x.dtype)
            value.real, value.imag = real, flat.imag * slope()
        return value.reshape(x.shape).astype(dtype, copy=False)

    a = np.abs(flat.real)
    if not (a.size and a.max() <= GAUSSIAN_VANISHES):  # to look takes a fifth of the time of clipping; NaN is clipped
        np.clip(a, 0, GAUSSIAN_VANISHES, out=a)
    return flat.real, a, result


def in_precision(dtype: np.dtype, constant: np.longdouble) -> float | np.longdouble:
    """The constant as a Python float, which leaves any dtype as it is; unless that dtype is longer."""
    return constant if dtype.char in "gG" else float(constant)


def two_over_sqrt_pi(x: Array) -> float | np.longdouble:
    """2/√π in the precision of x."""
    return in_precision(x.dtype, TWO_OVER_SQRT_PI)


def _gaussian(a: Array, scale: float = 1.0) -> Array:
    """exp(−scale · a²) to the last digit, for 0 ≤ a ≤ GAUSSIAN_VANISHES and scale a power of two.

    exp would magnify the rounding of a² to a² units in the last place. So float32 squares in float64, where the square
    of a float32 is exact. Others round a to a float32, h, to find what the square lacks: it is a² − fl(a²) =
    (h² − fl(a²)) + (a − h)(a + h), so small that e^(−δ) = 1 − δ.
    """
    if a.dtype == np.float32:
        square = np.multiply(a, a, dtype=np.float64)
        square *= -scale
        return np.exp(square, out=square).astype(np.float32)
    square = a * a
    h = a.astype(np.float32).astype(a.dtype)
    lacking = h * h
    lacking -= square
    lacking += (a - h) * (a + h)
    square *= -scale
    gaussian = np.exp(square, out=square)
    lacking *= scale
    lacking *= gaussian
    gaussian -= lacking
    return gaussian


def _half_line(a: Array, gaussian: Array) -> Array:
    """erfc a for 0 ≤ a ≤ GAUSSIAN_VANISHES, given e^(−a²)."""
    if a.dtype not in MILLS:
        return np.where(a < NEAR, 1 - _taylor(np.minimum(a, NEAR)), gaussian * _trapezoid(np.maximum(a, NEAR)))
    p, q = MILLS[a.dtype]
    ratio = _polynomial(p, a)
    ratio /= _polynomial(q, a)
    ratio *= a
    mills = np.subtract(1, ratio, out=ratio)
    mills += SQRT_PI * a
    return np.divide(gaussian, mills, out=mills)


def _polynomial(coefficients: tuple, x: Array) -> Array:
    """Horner's rule; the highest power first."""
    value = coefficients[0] * x
    for c in coefficients[1:-1]:
        value += c
        value *= x
    value += coefficients[-1]
    return value


def _taylor(x: Array) -> Array:
    """erf x = 2/√π Σₙ (−1)ⁿ x²ⁿ⁺¹ / (n! (2n+1)) for |x| ≤ NEAR, as x + x·(… − 1) so that roundings stay small."""
    value = _polynomial(_taylor_coefficients(x.dtype), x * x)
    value *= x
    value += x
    return value


@functools.cache
def _taylor_coefficients(dtype: np.dtype) -> tuple:
    """Those that reach the last place at NEAR, the highest power first; the last is 2/√π − 1."""
    terms = [TWO_OVER_SQRT_PI_LESS_1]
    for n in itertools.count(1):
        term = TWO_OVER_SQRT_PI / (math.factorial(n) * (2 * n + 1))
        if term * NEAR ** (2 * n) < np.finfo(dtype).eps / 16:
            return tuple(in_precision(dtype, c) for c in reversed(terms))
        terms.append((-1) ** n * term)
    raise AssertionError("not reached: the terms tend to 0")


def _trapezoid(a: Array) -> Array:
    """e^(a²) erfc a = a/π ∫ e^(−t²) / (a² + t²) dt over the whole line, for a ≥ NEAR, in any precision.

    The trapezoidal rule with step h errs by a mere e^(−(π/h)²) once the pole of the integrand at t = ia is paid for:
    it adds 2 e^(a²) / (e^(2πa/h) − 1), to be taken off. From a = π/h on that is too small to matter.
    """
    reach = math.sqrt(10 - math.log(np.finfo(a.dtype).eps))  # e^(−reach²) is far below the last place
    h = math.floor(64 * math.pi / reach) / 64  # a short number, so that (kh)² is exact
    total = np.zeros_like(a)
    for t in np.arange(h, reach, h, dtype=a.dtype)[::-1]:  # small terms first; t and −t give the same
        total += np.exp(-t * t) / (a * a + t * t)
    total += 0.5 / (a * a)
    b = np.minimum(a, reach)
    return 2 * h / PI * a * total - 2 * np.exp(b * b) / np.expm1(2 * PI / h * b)


def less_log1p(x: ArrayLike) -> Array:
    """x − log(1 + x): with s = x/(2 + x), log(1 + x) = 2 artanh s, so it is x s − 2 s³ (⅓ + s²/5 + …) near 0."""
    x = np.asarray(x)
    near = np.abs(x.real) < 0.5
    small = np.where(near, x, 0)
    s = small / (2 + small)  # |s| ≤ 1/3
    series = np.zeros_like(s)
    for k in range(41, 1, -2):  # 3⁻⁴¹ is below the last place of every precision
        series = series * (s * s) + 1 / s.real.dtype.type(k)
    return np.where(near, small * s - 2 * s * s * s * series, x - np.log1p(np.where(near, 0, x)))


def expm1_less(x: ArrayLike) -> Array:
    """e^x − 1 − x: x²/2! + x³/3! + … near 0."""
    x = np.asarray(x)
    near = np.abs(x.real) < 1
    small = np.where(near, x, 0)
    series = np.zeros_like(small)
    for k in range(22, 1, -1):  # 1/23! is below the last place of every precision
        series = (series * small + 1) / k
    return np.where(near, series * small * small, np.expm1(np.where(near, 0, x)) - x)
