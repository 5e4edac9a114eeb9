"""The words that pages use beside NumPy's own.

A page is written with NumPy's functions: `np.exp`, `@`, `.sum`, `np.where`. An array of another kind (`Rounded`,
numbers of a finite field …) answers them itself: kinds.py. NumPy has no function for what stands here; a `word` is
asked for in the same way. refnp/layers/__init__.py says in a line each what those are that a reader finds most.

`x.real` decides between two forms of one function, and is never computed with; a comparison `x > 0` decides between two
functions.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.numbers import special
from refnp.numbers.duals import Array, plain
from refnp.numbers.kinds import ABOUT, Kind, word
from refnp.numbers.sinusoids import sinusoids_of
from refnp.numbers.summation import sum_of_products


class Constant:
    """A number of the formula, such as √(2/π) or ε: exact, until it stands beside an array, and then rounded once.

    `of(m)` is its value in a mathematics m that has `number`, `pi`, `sqrt`, `log`: `Wide`, or that of another kind.
    """

    __array_ufunc__ = None  # array * Constant asks Constant

    def __init__(self, of: Callable[[Any], Any]):
        self.of = of

    def like(self, x: Any) -> Any:
        """The number as x has it: of its kind and precision."""
        if isinstance(x, Kind):
            return x.constant(self)
        wide = self.of(Wide)
        if np.ndim(wide):
            return wide.astype(x.real.dtype)
        return wide if getattr(x, "dtype", np.dtype(float)).char in "gG" else float(wide)

    def __float__(self) -> float:
        return float(self.of(Wide))

    def __neg__(self) -> "Constant":
        return Constant(lambda m: -self.of(m))


class Wide:
    """The mathematics of the widest precision of the machine."""

    pi = special.PI
    dtype = np.longdouble
    number, sqrt, log = np.longdouble, np.sqrt, np.log


def constant(number: Any) -> Any:
    """An option, such as ε, as a number of the formula, or an array of such; a ratio of integers is constant(1) / 3."""
    if isinstance(number, np.ndarray):
        return Constant(lambda m: np.asarray(np.frompyfunc(m.number, 1, 1)(number)).astype(m.dtype))
    return number if isinstance(number, Constant) else Constant(lambda m: m.number(number))


pi: Any = Constant(lambda m: m.pi)


def root(number: Any) -> Any:
    """√c."""
    return Constant(lambda m: m.sqrt(constant(number).of(m)))


def logarithm(number: Any) -> Any:
    """log c."""
    return Constant(lambda m: m.log(constant(number).of(m)))


def _operation(of: Callable, *, reflected: bool = False) -> Callable:
    """c ∘ x for a constant c: a constant if x is a number, else in the kind of x."""

    def operate(self: Constant, other: Any) -> Any:
        if isinstance(other, (int, float, Constant)):
            x, y = (constant(other), self) if reflected else (self, constant(other))
            return Constant(lambda m: of(x.of(m), y.of(m)))
        return of(other, self.like(other)) if reflected else of(self.like(other), other)

    return operate


for _name in ("add", "sub", "mul", "truediv"):
    setattr(Constant, f"__{_name}__", _operation(getattr(operator, _name)))
    setattr(Constant, f"__r{_name}__", _operation(getattr(operator, _name), reflected=True))


@word
def peak(x: Any) -> Any:
    """The largest of each row, a number to take off: any other would do; 0 for a row of −∞, and for an empty one.

    Complex numbers keep their imaginary part, so that the largest less itself is 0 in both.
    Shapes: (..., n) → (..., 1).
    """
    if not x.shape[-1]:
        return np.zeros((*x.shape[:-1], 1), x.dtype)
    m = np.take_along_axis(x, x.real.argmax(-1)[..., None], -1)
    return np.where(m.real == -np.inf, 0, m)


@word
def largest(x: Any) -> Array:
    """Where the largest of each row stands, the first among equals: booleans.   Shapes: (..., n) → (..., n)."""
    return np.arange(x.shape[-1]) == x.real.argmax(-1)[..., None] if x.shape[-1] else np.zeros(x.shape, bool)


def nonzero(x: Any) -> Any:
    """x, and 1 in place of 0: for what is divided by."""
    return np.where(x.real == 0, 1, x)


@word
def everywhere(x: Any, *arrays: Any) -> Any:
    """x in the shape that the arrays broadcast to."""
    return np.broadcast_to(x, np.broadcast_shapes(*map(np.shape, arrays)))


ABOUT[everywhere] = everywhere.__wrapped__  # type: ignore[attr-defined]


@word
def arange(n: Any) -> Any:
    """0, 1, 2 … n − 1: the places on an axis of that length."""
    return np.arange(n)


@word
def full(shape: tuple, number: float) -> Any:
    """An array of this shape with one number everywhere."""
    return np.full(shape, number)


@word
def shares(e: Any) -> Any:
    """e_i / Σ_j e_j for each row of numbers that are not negative: weights with sum 1, or 0 where all are 0."""
    return e / nonzero(e.sum(-1, keepdims=True))


@word
def read_at(x: Any, places: Array) -> Any:
    """y_i = x_k with k = places_i; 0 where that is negative, which is no place.

    Shapes: x (..., n), places (*S) of integers → (..., *S).
    """
    zero = np.zeros((*x.shape[:-1], 1), x.dtype)
    return np.concatenate([x, zero], -1)[..., np.maximum(places, -1)]


@word
def added_at(x: Any, places: Array, length: int) -> Any:
    """y_k = Σ of the x_i with places_i = k, the adjoint of `read_at`; what has a negative place belongs nowhere.

    Shapes: x (..., *S), places (*S) of integers → (..., length).
    """
    front = x.shape[: x.ndim - places.ndim]
    y: Any = np.zeros((*front, length + 1), x.dtype)
    np.add.at(y, (..., np.maximum(places, -1).ravel()), plain(x).reshape(*front, places.size))  # type: ignore[arg-type]
    return y[..., :length]


@word
def einsum(subscripts: str, *operands: Any, optimize: bool = False) -> Any:
    """numpy.einsum, whose subscripts and results these are; 0 where an operand is empty.

    `optimize` lets NumPy take matrix products where it can.
    """
    return sum_of_products(subscripts, *operands, optimize=optimize)


@word
def sinusoids(x: Any, places: Array, features: int, base: float) -> tuple[Any, Any]:
    """sin p ω_k and cos p ω_k at whole places p, ω_k = base^(−2k/D), numbers of the formula as x has them.

    Shapes: places (...) → two (..., ⌈D/2⌉).
    """
    return sinusoids_of(places, features, base, x.real.dtype)


erf, erfc, normal_cdf = map(word, (special.erf, special.erfc, special.normal_cdf))
less_log1p, expm1_less = map(word, (special.less_log1p, special.expm1_less))  # with all their digits near 0
