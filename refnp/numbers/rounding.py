"""Functions of `Rounded` numbers, what they are for NumPy, and the tolerance that follows from a number's error.

`refnp.numbers.rounded` says what a Rounded is. Equations take everything from here.
"""

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refnp.numbers import special, words
from refnp.numbers.arithmetic import ASSUMED, Arithmetic, arithmetic, blocked_depth, judging_precision
from refnp.numbers.exact import each
from refnp.numbers.kinds import OF_ARRAYS, ORDER, moving, with_operators
from refnp.numbers.parts import part
from refnp.numbers.precision import WIDE, policy
from refnp.numbers.rounded import (
    Doubt,
    Rounded,
    arranged,
    constant,
    contract,
    exact,
    growth,
    inverse,
    judged_of,
    kind,
    matmul,
    number,
    stored,
    times,
    unknown_where,
    without_error,
)
from refnp.numbers.sinusoids import sinusoids_of
from refnp.numbers.summation import sum_of_products

__all__ = [
    "ASSUMED",
    "ELEMENTARY",
    "WIDE",
    "Arithmetic",
    "Doubt",
    "Rounded",
    "arithmetic",
    "arranged",
    "blocked_depth",
    "constant",
    "contract",
    "exact",
    "judging_precision",
]
ELEMENTARY = 8  # error of exp, log, … in units of u


def tolerance(rounded: Rounded, precision: Any) -> np.ndarray:
    """The error that is allowed: that of a computation in `precision`, that of the reference, and what underflows.

    `precision` is a floating-point type or a policy. Twice what the textbook's own sequence of roundings allows: an
    equal formula may take a few roundings more. A result below the smallest normal number may be flushed to 0, as XLA
    does on CPUs. Where only the result is stored in a narrower format, it is rounded once more.
    """
    form, judged = policy(precision), arithmetic(precision)
    u = judged.u + np.finfo(WIDE).eps / 2
    allowed = 2 * (u * rounded.error + judged.smallest * (rounded.lost + 0.5))
    if not form.every and form.stored.bits < form.inside.bits:
        size = np.abs(rounded.value) + allowed
        allowed = np.where(size > form.stored.largest, np.inf, allowed + form.stored.u * size + form.stored.lost)
    return np.where(np.isnan(allowed), np.inf, allowed)  # where nothing is known, nothing is judged


def scatter(x: Rounded, places: np.ndarray, length: int) -> Rounded:
    """y_k = Σ x_i over the i with places_i = k, along the first axis: adds up repeats, in any order."""
    return x.scattered(places, length)


def either(*forms: Callable[[], Rounded]) -> Rounded:
    """One number in several forms that are equal on paper and all correct: its bound is that of the worst of them.

    The value is that of the first; an implementation computes one of them.
    """
    first = forms[0]()
    return type(first).chosen(first, forms)


def where(
    condition: ArrayLike, x: Rounded | ArrayLike, y: Rounded | ArrayLike, *, doubtful: ArrayLike = False
) -> Rounded:
    """x where the condition holds, else y. Where it is `doubtful`, and rounding may decide, the error covers both."""
    if isinstance(condition, Doubt):
        chosen = where(condition.value, x, y, doubtful=condition.doubtful)
        return at_kink(chosen, number(x), number(y), condition.same) if condition.same.any() else chosen
    x, y = number(x), number(y)
    chosen, judged = arranged(lambda a, b: np.where(condition, a, b), x, y), judged_of(x, y)
    if judged is None or not np.any(doubtful):
        return chosen
    other = arranged(lambda a, b: np.where(condition, b, a), x, y)
    error = np.abs(chosen.value - other.value) / judged.u + other.error
    return Rounded(
        chosen.value,
        np.where(doubtful, np.maximum(chosen.error, error), chosen.error),
        np.where(doubtful, np.maximum(chosen.lost, other.lost), chosen.lost),
        judged,
    )


def no_farther(x: Rounded, farthest: np.ndarray, roundings: int) -> Rounded:
    """x where it is known to be no farther off than so, but for so many roundings of a number near 1."""
    judged = x.arithmetic
    if judged is None:
        return x
    most = farthest / judged.u + roundings * (1 + judged.stored)
    beyond = ~(x.off <= most * judged.u)  # also where nothing is known of the error
    return Rounded(x.value, np.where(beyond, most, x.error), np.where(beyond, 0, x.lost), judged)


def overflowing(x: Rounded) -> Rounded:
    """x as it is stored: ±∞ beyond the largest number of the arithmetic; where none is told, (2 − 2u)/½η."""
    judged = x.arithmetic
    if judged is None:
        return x
    beyond = np.abs(x.value) > np.minimum(judged.largest, (2 - 2 * judged.u) * 2 / judged.smallest)
    return where(beyond, np.sign(x.value) * np.inf, x)


@part
def at_kink(chosen: Rounded, x: Rounded, y: Rounded, same: np.ndarray) -> Rounded:
    """What was chosen of x and y, by a comparison of equal numbers where these are the `same`."""
    return chosen


def between(x: Rounded | ArrayLike, y: Rounded | ArrayLike) -> Rounded:
    """Anything from x to y: the middle, and an error that makes the tolerance half of what lies between them."""
    x, y = number(x), number(y)
    judged = judged_of(x, y)
    middle, half = (x.value + y.value) / 2, np.abs(x.value - y.value) / 2
    width = half / (2 * judged.u) if judged is not None else np.where(half == 0, 0, np.inf)
    return Rounded(middle, np.maximum(x.error, y.error) + width, np.maximum(x.lost, y.lost), judged)


def function(value: np.ndarray, slope: Any, x: Rounded, *, units: int = ELEMENTARY) -> Rounded:
    """z = f(x), with what is inherited, and an error of its own of `units` u: 4 units in the last place.

    `slope` is the largest |f′| within x.off of x; of first order, f′(x).
    """
    return x.applied(value, slope, units)


def _nearer(x: Rounded) -> np.ndarray:
    """The number within x.off of x that is nearest to 0: where a slope that falls away from 0 is steepest."""
    return np.maximum(np.abs(x.value) - x.off, 0)


def _exp_slope(x: Rounded, z: np.ndarray) -> np.ndarray:
    """(e^(x + δ) − eˣ)/δ ≥ |eʸ − eˣ|/|y − x| for all y within δ of x; below z (1 + δ) while δ < 1."""
    if x.arithmetic is None:
        return z
    off = x.off
    slope = times(z, 1 + off)
    large = (off > 1) & np.isfinite(off)
    if large.any():
        slope = np.where(large, (np.exp(x.value + np.where(large, off, 0)) - z) / np.where(large, off, 1), slope)
    return slope


@part
def exp(x: Rounded) -> Rounded:
    """eˣ: e_z = z e_x + 8z."""
    z = np.exp(x.value)
    if without_error(x):
        return exact(z)
    hidden = np.isneginf(x.value)
    if not hidden.any():
        return function(z, _exp_slope(x, z), x)
    shown = where(hidden, 0, x)  # −∞ is what a mask adds, and has no error
    return where(hidden, 0, function(np.where(hidden, 1, z), _exp_slope(shown, z), shown))


def sqrt(x: Rounded, *, signed: bool = False) -> Rounded:
    """Rounded correctly everywhere (IEEE 754), and so to 1u. |√y − √x| is |y − x|/(√y + √x), and at most √|y − x|.

    Nothing is known of the root of a difference, which is `signed`, if rounding may make it negative.
    """
    z = np.sqrt(x.value)
    if without_error(x):
        return exact(z)
    least = z + np.sqrt(np.maximum(x.value - x.off, 0))
    least = np.maximum(least, np.sqrt(x.off))
    root = function(z, 1 / np.where(least == 0, 1, least), x, units=1)
    if signed and np.any(x.off > x.value):
        root.error = unknown_where(x.off > x.value, root.error)
    return root


def normal_cdf(z: Rounded) -> tuple[Rounded, Rounded]:
    """Φ(z) and φ(z), the normal distribution and its density, whose slope is −z φ(z)."""
    if without_error(z):
        return exact(each("ncdf", z.value)), exact(each("npdf", z.value))
    value, density = special.normal_cdf(z.value)
    _, steepest = special.normal_cdf(_nearer(z))
    return function(value, steepest, z), function(density, (np.abs(z.value) + z.off) * steepest, z)


def smooth(of: Callable, slope: Callable, exactly: Callable | None = None) -> Callable[[Rounded], Rounded]:
    """A function of one number, with its largest slope within x.off of x; `exactly` is it in arbitrary precision."""

    def function_of(x: Rounded) -> Rounded:
        if without_error(x):
            return exact((exactly or of)(x.value))
        return function(of(x.value), slope(x), x)

    return function_of


def _gaussian(x: Rounded) -> Any:
    """2/√π e^(−x²), the slope of erf and erfc, where it is steepest."""
    return special.TWO_OVER_SQRT_PI * special.gaussian(_nearer(x))


def _steeper_end(slope: Callable) -> Callable:
    """The slope of a convex function at that end of x ± x.off where it is steeper."""
    return lambda x: np.maximum(*(np.abs(slope(end)) for end in (x.value - x.off, x.value + x.off)))


def _slope_of_less_log1p(x: np.ndarray) -> np.ndarray:
    """x/(1 + x), for x from −1 on."""
    x = np.maximum(x, 0 * x - 1)
    with np.errstate(all="ignore"):
        return x / (1 + x)


expm1 = smooth(np.expm1, lambda x: _exp_slope(x, np.exp(x.value)))
log = smooth(np.log, lambda x: inverse(x.value, x.off))  # e_z = e_x/x + 8|z|
log1p = smooth(np.log1p, lambda x: inverse(1 + x.value, x.off))
tanh = smooth(np.tanh, lambda x: 1 - np.tanh(_nearer(x)) ** 2)
erf = smooth(special.erf, _gaussian, lambda x: each("erf", x))
erfc = smooth(special.erfc, _gaussian, lambda x: each("erfc", x))
less_log1p = smooth(special.less_log1p, _steeper_end(_slope_of_less_log1p), lambda x: x - np.log1p(x))
expm1_less = smooth(special.expm1_less, _steeper_end(np.expm1), lambda x: np.expm1(x) - x)


def absolute(x: Rounded) -> Rounded:
    """|x|, which rounds nothing."""
    return where(x.value < 0, -x, x)


def peak(x: Rounded) -> np.ndarray:
    """The largest of each row, as a number without error: any would do."""
    m = x.value.max(-1, keepdims=True, initial=-np.inf)
    return np.where(m == -np.inf, 0, m)


def largest(x: Rounded) -> Doubt:
    """Where the largest of each row stands; in doubt where rounding may decide."""
    possible = x.value + x.off >= (x.value - x.off).max(-1, keepdims=True)
    doubtful = possible & (possible & (x.off > 0)).any(-1, keepdims=True)
    return Doubt(words.largest(x.value), doubtful)


def shares(e: Rounded) -> Rounded:
    """e_i / Σ_j e_j, from 0 to 1 for all that is finite; of one number alone 1, but for two roundings."""
    total = e.sum(-1, keepdims=True)
    p = e / where(total.value == 0, 1, total)
    if without_error(p):
        return p
    known = np.isfinite(e.off).all(-1, keepdims=True) & np.isfinite(e.value).all(-1, keepdims=True)
    roundings = e.shape[-1] + 1  # of a sum of n terms, and of a quotient
    p = no_farther(p, np.where(known, np.maximum(p.value, 1 - p.value), np.inf), roundings)
    alone = ~e.is_exact_zero & (e.is_exact_zero.sum(-1, keepdims=True) == e.shape[-1] - 1) & known
    return where(alone, p.with_bound(2 * p.value), p)


def added_at(x: Rounded, places: np.ndarray, length: int) -> Rounded:
    """Σ of the elements of each place; a negative one is nowhere."""
    front = x.shape[: x.ndim - places.ndim]
    rows = x.reshape(math.prod(front), places.size).transpose()
    found = scatter(rows, np.maximum(places, -1).ravel() % (length + 1), length + 1)[:length]
    return found.transpose().reshape(*front, length)


def sinusoids(x: Rounded, places: np.ndarray, features: int, base: float) -> tuple[Rounded, Rounded]:
    """sin and cos of p ω_k: 4π from the angle, brought to (−π, π], and 8|y| from the function."""
    sines, cosines = (Rounded(y, 4 * np.pi + 8 * np.abs(y)) for y in sinusoids_of(places, features, base, WIDE))
    return sines, cosines


def cumulative_sum(x: Rounded, axis: int) -> Rounded:
    """Σ of all up to each place, in any order: i additions on the way to place i."""
    if type(x) is not Rounded:
        return one_after_the_other(operator.add, x, axis)
    value = np.cumsum(x.value, axis)
    if without_error(x):
        return exact(value)
    count = np.arange(x.shape[axis]).reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
    error = np.cumsum(x.error, axis) + growth(count, x.arithmetic) * np.cumsum(np.abs(x.value) + x.off, axis)
    return stored(value, error, np.cumsum(x.lost, axis) + count, judged_of(x))


def cumulative_product(x: Rounded, axis: int) -> Rounded:
    """Π of all up to each place."""
    return one_after_the_other(operator.mul, x, axis)


def one_after_the_other(of: Callable, x: Rounded, axis: int) -> Rounded:
    """The first along an axis, the first with the second, that with the third …"""
    lines = x.moved(lambda a: np.moveaxis(a, axis, 0))
    found = [*itertools.accumulate((lines[i : i + 1] for i in range(len(lines))), of)] or [lines]
    return arranged(lambda *parts: np.moveaxis(np.concatenate(parts), 0, axis), *found)


def product_over(x: Rounded, axis: Any = None, keepdims: bool = False) -> Rounded:
    """Π over axes."""
    axes = x._axes(axis)
    rest = [i for i in range(x.ndim) if i not in axes]
    front = [x.shape[i] for i in rest]
    rows = x.transpose(*rest, *axes).reshape(*front, math.prod(x.shape[i] for i in axes))
    found = cumulative_product(rows, -1)[..., -1] if rows.shape[-1] else exact(np.ones(front), x.arithmetic)
    return found.reshape([1 if i in axes else n for i, n in enumerate(x.shape)]) if keepdims else found


def power(x: Any, exponent: Any) -> Rounded:
    """xᵖ: products if p is a whole number of the formula, else a function of both."""
    if isinstance(exponent, int) and exponent > 0:
        return x**exponent
    x, p = number(x), number(exponent)
    z = x.value**p.value
    if without_error(x, p):
        return exact(z)
    size = np.abs(z)
    rate = np.abs(np.log(np.where(x.value == 0, 1, np.abs(x.value))))
    slope = times(np.abs(p.value) * size, inverse(np.abs(x.value), x.off))
    return function_of_two(z, x, slope, p, size * rate * np.exp(rate * p.off))


def arctan2(y: Any, x: Any) -> Rounded:
    """The angle of (x, y), with slopes x/r² and y/r²."""
    y, x = number(y), number(x)
    z = np.arctan2(y.value, x.value)
    nearest = inverse(np.sqrt(x.value * x.value + y.value * y.value), y.off + x.off)
    of_y, of_x = (times(np.abs(a.value) + a.off, nearest * nearest) for a in (x, y))
    return function_of_two(z, y, of_y, x, of_x)


def remainder(x: Any, y: Any) -> Rounded:
    """x − y ⌊x/y⌋, rounded once."""
    x, y = number(x), number(y)
    z, whole = np.remainder(x.value, y.value), np.floor_divide(x.value, y.value)
    return function_of_two(z, x, 1, y, np.abs(whole), units=1)


def function_of_two(value: Any, x: Rounded, of_x: Any, y: Rounded, of_y: Any, *, units: int = ELEMENTARY) -> Rounded:
    """z = f(x, y), with the largest |∂f/∂x| and |∂f/∂y|."""
    if kind(x, y) is not Rounded:
        return (x if type(x) is not Rounded else y).applied(value, 1, units)
    error, lost = (times(of_x, a) + times(of_y, b) for a, b in ((x.error, y.error), (x.lost, y.lost)))
    return function(value, 1, Rounded(value, error, lost, judged_of(x, y)), units=units)


def einsum(subscripts: str, *operands: Any, optimize: bool = False) -> Rounded:
    """Of two operands one sum of products, of one its own sum, of more one after the other."""
    given, result = subscripts.replace(" ", "").split("->")
    first, *letters = given.split(",")
    if not letters:
        front, once = "..." * ("..." in first), "".join(dict.fromkeys(first.replace("...", "")))
        rows = operands[0].moved(lambda a: sum_of_products(f"{first}->{front}{once}", a))
        gone = tuple(i - len(once) for i, letter in enumerate(once) if letter not in result)
        left = "".join(letter for letter in once if letter in result)
        return (rows.sum(gone) if gone else rows).moved(lambda a: sum_of_products(f"{front}{left}->{result}", a))
    total, *rest = operands
    for k, x in enumerate(rest):
        needed = result + "".join(letters[k + 1 :])
        both = result if k == len(rest) - 1 else "".join(c for c in dict.fromkeys(first + letters[k]) if c in needed)
        total, first = contract(f"{first},{letters[k]}->{both}", total, x), both
    return total


def _of_two(of: Callable, reflected: str) -> Callable:
    """x ∘ y, where either may be an array."""
    return lambda x, y: of(x, y) if isinstance(x, Rounded) else getattr(y, reflected)(x)


def _joining(join: Callable) -> Callable:
    """A function that makes one array of several."""
    return lambda parts, axis=0: arranged(lambda *arrays: join(arrays, axis), *map(number, parts))


FUNCTIONS: dict[Any, Callable] = OF_ARRAYS | {
    np.add: _of_two(operator.add, "__radd__"),
    np.subtract: _of_two(operator.sub, "__rsub__"),
    np.multiply: _of_two(operator.mul, "__rmul__"),
    np.true_divide: _of_two(operator.truediv, "__rtruediv__"),
    np.power: power,
    np.arctan2: arctan2,
    np.remainder: remainder,
    np.square: lambda x: x * x,
    np.negative: operator.neg,
    np.matmul: matmul,
    words.einsum: einsum,
    np.maximum: lambda x, y: where(number(x).compared(np.greater, y), x, y),
    np.minimum: lambda x, y: where(number(x).compared(np.less, y), x, y),
    np.isnan: lambda x: x.value != x.value,  # of objects as well
    np.isfinite: lambda x: np.isfinite(np.asarray(x.value, np.longdouble)),
    np.where: where,
    np.absolute: absolute,
    np.exp: exp,
    np.expm1: expm1,
    np.log: log,
    np.log1p: log1p,
    np.sqrt: sqrt,
    np.tanh: tanh,
    np.sin: smooth(np.sin, lambda x: np.minimum(np.abs(np.cos(x.value)) + x.off, 1)),
    np.cos: smooth(np.cos, lambda x: np.minimum(np.abs(np.sin(x.value)) + x.off, 1)),
    np.sinh: smooth(np.sinh, lambda x: np.cosh(np.abs(x.value) + x.off)),
    np.cosh: smooth(np.cosh, lambda x: np.sinh(np.abs(x.value) + x.off)),
    np.arctan: smooth(np.arctan, lambda x: 1 / (1 + _nearer(x) ** 2)),
    np.cumsum: cumulative_sum,
    np.cumprod: cumulative_product,
    np.prod: product_over,
    np.concatenate: _joining(np.concatenate),
    np.stack: _joining(np.stack),
    np.ones_like: lambda x: exact(np.ones(x.shape), x.arithmetic),
    np.zeros_like: lambda x: exact(np.zeros(x.shape), x.arithmetic),
    np.full_like: lambda x, value: exact(np.full(x.shape, float(value)), x.arithmetic),
    words.peak: peak,
    words.largest: largest,
    words.shares: shares,
    words.read_at: lambda x, places: x.moved(lambda a: words.read_at(a, places)),
    words.added_at: added_at,
    words.sinusoids: sinusoids,
    words.erf: erf,
    words.erfc: erfc,
    words.normal_cdf: normal_cdf,
    words.less_log1p: less_log1p,
    words.expm1_less: expm1_less,
}
FUNCTIONS |= moving(np.pad, np.tril, np.triu)
FUNCTIONS |= {ufunc: lambda x, y, of=ufunc: number(x).compared(of, y) for ufunc in ORDER.values()}
Rounded.functions, Doubt.functions = FUNCTIONS, {np.where: where}
with_operators(Rounded, ORDER)
