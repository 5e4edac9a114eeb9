"""Arrays in which 0 · anything is 0, and whose complex numbers are dual numbers.

A gradient that is 0 contributes 0, even where the derivative is infinite; so does a derivative that is 0, whatever
comes back to it. Floating-point numbers say 0 · ∞ = NaN. The walk back therefore begins with ordinary arrays,
which are fast; if a NaN arrives, it is done once more with `Cotangent` arrays, in which

    0 · x = 0,   0 / x = 0,   x / ±∞ = 0        for every x, ±∞ and NaN too,

in products of elements, of matrices and in Einstein sums alike. What is NaN then is so for another reason.

The complex step f(x + i h v) has no derivative to show where f has a pole, a branch point or a kink, or where x is
infinite: √(i h) is no multiple of h. There the same program is run with `Dual` arrays: the real part is the value, as
always, and the imaginary part a derivative along v, for which the chain rule is taken step by step,

    Im √x = Im x / (2 √Re x),   Im (x y) = Re x Im y + Re y Im x,   …

with the products above. Decisions are taken by real parts. Functions that are not in the table are NumPy's own.
Source: Griewank & Walther (2008), ch. 3 (dual numbers).
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.numbers.kinds import Kind

Array = np.ndarray
in_use = 0  # how many programs run with Dual arrays now


class Dual(np.ndarray):
    """An array whose imaginary part is a derivative."""

    @property
    def imag(self) -> Any:
        """The derivative: 0 times anything is 0."""
        return np.asarray(self).imag.view(Cotangent)

    @imag.setter
    def imag(self, value: Any) -> None:
        np.asarray(self).imag = value

    def __getitem__(self, index: Any) -> Any:
        return wrapped(super().__getitem__(index), type(self))  # one element is an array, too

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        kind = Cotangent if any(isinstance(x, Cotangent) for x in inputs) else Dual
        arrays = [plain(x) for x in inputs]
        complex_ones = any(np.iscomplexobj(a) for a in arrays)
        with np.errstate(divide="ignore", invalid="ignore"):
            value: Any
            if ufunc in DECISIONS:
                arrays = [a.real if np.iscomplexobj(a) else a for a in arrays]
                value = getattr(ufunc, method)(*arrays, **options)
            elif method == "__call__" and ufunc in LINEAR_IN_EACH and (complex_ones or kind is Cotangent):
                value = _linear_in_each(functools.partial(ufunc, **options), in_one_type(arrays), kind)
            elif method == "__call__" and ufunc is np.divide and (complex_ones or kind is Cotangent):
                x, y = in_one_type(arrays)
                value = _quotient(x, y, kind)
            elif method == "__call__" and ufunc in SLOPES and complex_ones:
                value = _of_slopes(ufunc, arrays)
            elif method in ("reduce", "accumulate") and ufunc is np.multiply and (complex_ones or kind is Cotangent):
                value = _products_along(arrays[0], kind, reduced=method == "reduce", **options)
            elif method == "at":
                return getattr(ufunc, method)(*arrays, **options)
            else:
                target = {} if out is None else {"out": tuple(map(plain, out))}
                value, out = getattr(ufunc, method)(*arrays, **target, **options), None
        if out is not None:
            plain(out[0])[...] = value
            value = out[0]
        return wrapped(value, kind)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        kind = Cotangent if Cotangent in types else Dual
        if function.__name__ == "einsum":
            subscripts, *operands = arguments
            of = functools.partial(function, subscripts, **options)
            return wrapped(_linear_in_each(of, [plain(x) for x in operands], kind), kind)
        if function in LINEAR_IN_EACH:
            of = functools.partial(function, **dict(zip(("axes",), arguments[2:], strict=False)), **options)
            return wrapped(_linear_in_each(of, [plain(x) for x in arguments[:2]], kind), kind)
        return wrapped(super().__array_function__(function, types, arguments, options), kind)


class Cotangent(Dual):
    """A gradient on its way back: 0 times anything is 0."""


def in_one_type(factors: list) -> list:
    """Python's numbers as arrays in the precision of what stands beside them: they have none of their own."""
    if not any(type(x) in (int, float) for x in factors):
        return factors
    dtype = np.zeros(0, np.result_type(*factors)).real.dtype
    return [np.asarray(x, dtype) if type(x) in (int, float) else x for x in factors]


def plain(x: Any) -> Any:
    """The ordinary array of a Dual; anything else as it is."""
    return x.view(np.ndarray) if isinstance(x, Dual) else x


def as_array(x: Any, dtype: Any = None, order: Any = None) -> Any:
    """np.asarray, which leaves a Dual one, and arrays of other kinds of numbers as they are."""
    if x.__class__ is np.ndarray and dtype is None and (order is None or x.flags.c_contiguous):
        return x
    if isinstance(x, Kind):
        return x
    array = np.asarray(x, dtype, order)
    return array.view(type(x)) if isinstance(x, Dual) else array


def wrapped(value: Any, kind: type = Dual) -> Any:
    """Floating arrays as arrays of that kind, in a list or tuple too; anything else as it is."""
    if isinstance(value, (tuple, list)):
        return type(value)(wrapped(v, kind) for v in value)
    if isinstance(value, (np.ndarray, np.inexact)) and value.dtype.kind in "fc":
        return np.asarray(value).view(kind)
    return value


def has_nan(arrays: list[Array]) -> bool:
    """Whether one of them holds a NaN: the sum of all squares is NaN then and only then, and takes one pass."""
    with np.errstate(over="ignore", under="ignore"):
        return bool(np.isnan(sum(map(_square, arrays)))) and any(np.isnan(array).any() for array in arrays)


def _square(array: Array) -> Any:
    """Σ |x|²; of a type for which the BLAS has no product, a number that is NaN if one of x is."""
    flat = array.ravel()
    if flat.dtype.char in "fd":
        return flat.dot(flat)
    return np.vdot(flat, flat).real if flat.dtype.char in "FD" else np.max(flat.real + flat.imag, initial=0)


def product(x: Any, y: Any) -> Array:
    """x y, element by element, and 0 where one of them is 0."""
    z = np.asarray(np.multiply(x, y))
    lost = np.isnan(z)
    return np.where(lost & (np.equal(x, 0) | np.equal(y, 0)), 0, z) if lost.any() else z


def infinite_part(x: Array) -> Array:
    """±1 where x is ±∞, else 0; of the real and of the imaginary part."""
    if x.dtype.kind == "c":
        return joined(infinite_part(x.real), infinite_part(x.imag), x.dtype)
    return np.where(np.isinf(x), np.sign(x), 0).astype(x.dtype)


def times_infinity(x: Array) -> Array:
    """x · ∞, and 0 where x is 0; of the real and of the imaginary part."""
    x = np.asarray(x)
    if x.dtype.kind == "c":
        return joined(times_infinity(x.real), times_infinity(x.imag), x.dtype)
    return product(x, np.asarray(np.inf, x.dtype))


def quotient(x: Any, y: Any) -> Array:
    """x / y, and 0 where x is 0 or y infinite."""
    z = np.asarray(np.true_divide(x, y))
    lost = np.isnan(z)
    return np.where(lost & (np.equal(x, 0) | np.isinf(y)), 0, z) if lost.any() else z


def _sum_of_products(of: Callable, arrays: list) -> Array:
    """of(x, y, …), a sum of products of real elements, one of each array; without the products that have a factor 0.

    Where it is NaN, the terms are counted: those with a NaN, and those that are infinite, with their signs.
    """
    z = np.asarray(of(*arrays))
    lost = np.isnan(z)
    if not lost.any():
        return z
    finite = [np.where(np.isfinite(a), a, 0) for a in arrays]
    sizes = [(np.asarray(a) != 0).astype(float) for a in arrays]
    numbers = [np.where(np.isnan(a), 0, s) for a, s in zip(arrays, sizes, strict=True)]
    ordinary = [np.where(np.isfinite(a), s, 0) for a, s in zip(arrays, sizes, strict=True)]
    signs = [np.where(np.isnan(a), 0, np.sign(a)).astype(float) for a in arrays]
    undefined = of(*sizes) - of(*numbers)
    infinite = of(*numbers) - of(*ordinary)
    signed = of(*signs) - of(*(s * o for s, o in zip(signs, ordinary, strict=True)))
    found = np.where(infinite == 0, of(*finite), np.where(np.abs(signed) == infinite, signed * np.inf, np.nan))
    return np.where(lost & (undefined == 0), found, z).astype(z.dtype)


def _linear_in_each(of: functools.partial, arrays: list, kind: type) -> Array:
    """A function that is linear in each of its arguments, of dual numbers: the rule of the product."""

    def terms(*factors: Array) -> Array:
        return product(*factors) if of.func is np.multiply else _sum_of_products(of, list(factors))

    values = [a.real if np.iscomplexobj(a) else np.asarray(a) for a in arrays]
    value = terms(*values) if kind is Cotangent else np.asarray(of(*values))
    if not any(np.iscomplexobj(a) for a in arrays):
        return value if kind is Cotangent else np.asarray(of(*arrays))
    slopes = [terms(*values[:k], a.imag, *values[k + 1 :]) for k, a in enumerate(arrays) if np.iscomplexobj(a)]
    return joined(value, sum(slopes[1:], slopes[0]), np.result_type(*arrays))


def _quotient(x: Any, y: Any, kind: type) -> Array:
    """z = x / y with ż = (ẋ − z ẏ)/y."""
    real = [a.real if np.iscomplexobj(a) else np.asarray(a) for a in (x, y)]
    value = quotient(*real) if kind is Cotangent else np.asarray(np.true_divide(*real))
    if not np.iscomplexobj(x) and not np.iscomplexobj(y):
        return value
    top = quotient(np.imag(x), real[1]) - product(value, quotient(np.imag(y), real[1]))
    return joined(value, top, np.result_type(x, y))


def joined(value: Array, slope: Array, dtype: Any = None) -> Array:
    """value + i slope, part by part."""
    value, slope = np.broadcast_arrays(value, slope)
    out = np.empty(value.shape, dtype or np.result_type(value, slope, np.complex64))
    out.real, out.imag = value, slope
    return out


def _of_slopes(ufunc: np.ufunc, arrays: list) -> Array:
    """y = f(x, …) with ẏ = Σ ẋ ∂f/∂x."""
    values = [a.real if np.iscomplexobj(a) else np.asarray(a) for a in arrays]
    y = np.asarray(ufunc(*values))
    with np.errstate(over="ignore"):
        slopes = SLOPES[ufunc](y, *values)
    total = np.zeros(y.shape, y.dtype)
    for array, slope in zip(arrays, slopes, strict=True):
        if np.iscomplexobj(array):
            total = total + product(array.imag, slope)
    return joined(y, total, np.result_type(*arrays))


def _products_along(x: Array, kind: type, *, reduced: bool, axis: Any = 0, keepdims: bool = False, **_: Any) -> Array:
    """Products along axes, one factor after the other."""
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    for a in axes:
        lines = np.moveaxis(wrapped(x, kind), a, 0)
        steps = [lines[0] if len(lines) else wrapped(np.ones(lines.shape[1:], x.dtype), kind)]
        for line in lines[1:]:
            steps.append(steps[-1] * line)
        x = plain(np.moveaxis(np.stack(steps[-1:] if reduced else steps), 0, a))
    gone = tuple(a % x.ndim for a in axes)
    return x if keepdims or not reduced else x.reshape([n for i, n in enumerate(x.shape) if i not in gone])


def _power_slopes(y: Array, x: Array, p: Array) -> tuple:
    """∂(x^p)/∂x = p x^(p−1), 0 where p = 0; ∂(x^p)/∂p = y log x, 0 where x = 0 and p ≥ 0."""
    constant = (y == 0) | ((x == 0) & (p >= 0))
    return product(p, np.power(x, p - 1.0)), np.where(constant, 0, y * np.log(np.where(constant, 1, x)))


def _chosen(first: Array, tie: Array) -> tuple:
    half = np.where(tie, 0.5, first)
    return half, 1 - half


LINEAR_IN_EACH = {np.multiply, np.matmul, np.vecdot, np.dot, np.inner, np.vdot, np.tensordot}
DECISIONS = {np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal, np.isnan, np.isinf,
             np.isfinite, np.signbit, np.logical_and, np.logical_or, np.logical_not}  # fmt: skip
SLOPES: dict[np.ufunc, Callable] = {
    np.absolute: lambda y, x: (np.sign(x),),
    np.conjugate: lambda y, x: (np.ones_like(x),),
    np.sign: lambda y, x: (np.zeros_like(x),),
    np.square: lambda y, x: (2 * x,),
    np.reciprocal: lambda y, x: (-y * y,),
    np.sqrt: lambda y, x: (0.5 / y,),
    np.exp: lambda y, x: (y,),
    np.expm1: lambda y, x: (np.exp(x),),
    np.log: lambda y, x: (1 / x,),
    np.log2: lambda y, x: (1 / (x * np.log(2.0)),),
    np.log10: lambda y, x: (1 / (x * np.log(10.0)),),
    np.log1p: lambda y, x: (1 / (1 + x),),
    np.sin: lambda y, x: (np.cos(x),),
    np.cos: lambda y, x: (-np.sin(x),),
    np.tan: lambda y, x: (1 + y * y,),
    np.sinh: lambda y, x: (np.cosh(x),),
    np.cosh: lambda y, x: (np.sinh(x),),
    np.tanh: lambda y, x: (np.cosh(x) ** -2.0,),
    np.arcsin: lambda y, x: (1 / np.sqrt(1 - x * x),),
    np.arccos: lambda y, x: (-1 / np.sqrt(1 - x * x),),
    np.arctan: lambda y, x: (1 / (1 + x * x),),
    np.power: _power_slopes,
    np.maximum: lambda y, a, b: _chosen((a > b) | np.isnan(a), a == b),
    np.minimum: lambda y, a, b: _chosen((a < b) | np.isnan(a), a == b),
}
