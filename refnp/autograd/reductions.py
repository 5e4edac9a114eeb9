"""Sums and their relatives: many elements in, fewer out.

`axis` is None (all axes), an int or a tuple; ValueError for one out of range or named twice. `keepdims` keeps the
reduced axes with length 1. In the VJPs of reductions ȳ is repeated along the reduced axes.
Elements are added as if x lay in C order, whatever its place in memory: the same values give the same bits.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.autograd.declaration import takes_unchecked
from refnp.autograd.elementary import log1p_of, steps_only, watched, where
from refnp.autograd.errors import explained
from refnp.autograd.indexing import getitem, take_along_axis
from refnp.autograd.primitives import NO_NUMBERS, primitive, raw, received
from refnp.autograd.shapes import reshape, transpose
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.kernels.blocks import in_float32
from refnp.kernels.triangular import times_power_of_two
from refnp.numbers.arrays import axes_last, floating, in_order, normalize_axes
from refnp.numbers.duals import Dual, as_array
from refnp.numbers.kinds import is_kind
from refnp.numbers.parts import part

Axis = int | tuple[int, ...] | None
OVER_AXES = {"axis": "axes?", "keepdims": "True or False"}


def _axes(name: str, axis: Axis, x: Array) -> tuple[int, ...]:
    return tuple(range(x.ndim)) if axis is None else normalize_axes(name, axis, x.ndim)


def _kept(y: Any, axes: tuple[int, ...], x: Array) -> Array:
    """A reduced array with the reduced axes of x as axes of length 1."""
    return as_array(y).reshape([1 if i in axes else n for i, n in enumerate(x.shape)])


def _reduced(y: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """y as it is, or without the reduced axes, which have length 1; without any axis left a scalar, as in NumPy."""
    return y if keepdims else np.squeeze(y, axes)[()]


def float16_in_float32(function: Callable) -> Callable:
    """float16 is computed in float32 and rounded once: a count of 65 520 is ∞ in float16, and a square of 256 too."""

    @functools.wraps(function)
    def of_any_type(x: Any, *axis: Any, **options: Any) -> tuple:
        x = as_array(x, order="C")
        if x.dtype.char != "e":
            return function(x, *axis, **options)
        return in_float32(function, x, *axis, **options)

    return of_any_type


@primitive
@takes_unchecked("x (...)", **OVER_AXES)
def sum(x, axis: Axis = None, *, keepdims=False):
    """y = Σ x over `axis`.   VJP: x̄_i = ȳ."""
    x = as_array(x, order="C")
    axes = _axes("sum", axis, x)
    return (
        x.sum(axes, keepdims=keepdims),
        lambda y_bar: (np.broadcast_to(_kept(y_bar, axes, x), x.shape),),
    )


@primitive
@takes_unchecked("x (...)", **OVER_AXES)
@float16_in_float32
def mean(x, axis: Axis = None, *, keepdims=False):
    """y = (1/n) Σ x over `axis`.   VJP: x̄_i = ȳ / n.   Raises ValueError for the mean of nothing."""
    x = as_array(x, order="C")
    axes = _axes("mean", axis, x)
    n = _count("mean", axes, x)
    return (
        x.sum(axes, keepdims=keepdims) / n,
        lambda y_bar: (np.broadcast_to(_kept(y_bar / n, axes, x), x.shape),),
    )


def _count(name: str, axes: tuple[int, ...], x: Array) -> int:
    n = math.prod(x.shape[i] for i in axes)
    if n == 0:
        raise ValueError(f"{name}: x of shape {x.shape} has no elements along axis {axes}; pass a longer array")
    return n


@primitive
@takes_unchecked("x (...)", **OVER_AXES, ddof="whole")
@float16_in_float32
def var(x, axis: Axis = None, *, ddof=0, keepdims=False):
    """y = (1/(n − d)) Σ (x − μ)² over `axis`, μ the mean and d = `ddof`: 0 for the population, 1 for a sample.

    In two passes, for E[x²] − E[x]² cancels; what rounding leaves of the mean is subtracted once more.
    VJP: x̄_i = 2 ȳ (x_i − μ)/(n − d), for Σ (x − μ) = 0 leaves nothing of the derivative of μ.
    Raises ValueError unless there are more than d numbers (NumPy, PyTorch: NaN or ∞), TypeError as `norm`.
    Source: Chan, Golub & LeVeque (1983).   Elsewhere: torch.var has d = 1 unless told otherwise.
    """
    centred, scale, axes, n = _centred("var", x, axis, ddof)
    y = (centred * centred).sum(axes, keepdims=True) / n
    return (
        _reduced(y * scale * scale, axes, keepdims),
        lambda y_bar: (_kept(2 * y_bar / n, axes, centred) * (centred * scale),),
    )


@primitive
@takes_unchecked("x (...)", **OVER_AXES, ddof="whole")
@float16_in_float32
def std(x, axis: Axis = None, *, ddof=0, keepdims=False):
    """y = √var(x), the standard deviation over `axis`; `ddof` as there.

    VJP: x̄_i = ȳ (x_i − μ)/((n − d) y), and 0 at the kink, where all x are equal (JAX: NaN).
    Raises ValueError unless there are more than d numbers, TypeError for complex x as `norm`.
    """
    centred, scale, axes, n = _centred("std", x, axis, ddof)
    y = np.sqrt((centred * centred).sum(axes, keepdims=True) / n)
    return (
        _reduced(y * scale, axes, keepdims),
        lambda y_bar: (_kept(y_bar, axes, centred) * direction(centred, y, n),),
    )


@part
def direction(x: Any, length: Any, n: int = 1) -> Any:
    """x/(n length), and 0 at the kink, where the length is 0."""
    zero = length.real == 0 if is_kind(length) else length == 0
    return np.where(zero, 0, (x / n if n != 1 else x) / np.where(zero, 1, length))


def _centred(name: str, x: Any, axis: Axis, ddof: int) -> tuple:
    """(x − μ)/s, s (a power of two, so that no square over- or underflows), the axes, and n − d."""
    x = steps_only(name, in_order(floating(x)))
    axes = _axes(name, axis, x)
    n = math.prod(x.shape[i] for i in axes)
    if not n > ddof:
        raise ValueError(f"{name}: x of shape {x.shape} has {n} numbers along axis {axes}, with ddof {ddof}; pass more")
    if is_kind(x):
        return x - x.sum(axes, keepdims=True) / n, 1, axes, n - ddof
    size = np.abs(x.real).max(axes, keepdims=True, initial=0)
    scale = np.ldexp(np.ones_like(size), np.frexp(np.where(np.isfinite(size), size, 1))[1] - 1)
    centred = x / scale
    for _ in range(2):
        centred = centred - centred.sum(axes, keepdims=True) / n
    return centred, scale, axes, n - ddof


@primitive
@takes_unchecked("x (...)", **OVER_AXES)
@float16_in_float32
def max(x, axis: Axis = None, *, keepdims=False):
    """y = max x over `axis` (NaN if there is one; of complex x by real parts, with the mean imaginary part of a tie).

    VJP: ȳ goes to the largest element, or NaN; of several in equal shares.   Raises ValueError for no elements.
    """
    return _extreme("max", x, axis, keepdims, largest=True)


@primitive
@takes_unchecked("x (...)", **OVER_AXES)
@float16_in_float32
def min(x, axis: Axis = None, *, keepdims=False):
    """y = min x over `axis` (NaN if there is one; of complex x by real parts, with the mean imaginary part of a tie).

    VJP: ȳ goes to the smallest element, or NaN; of several in equal shares.   Raises ValueError for no elements.
    """
    return _extreme("min", x, axis, keepdims, largest=False)


def _extreme(name: str, x: Any, axis: Axis, keepdims: bool, *, largest: bool) -> tuple:
    x = as_array(x)
    axes = _axes(name, axis, x)
    _count(name, axes, x)
    if is_kind(x):
        y = x.max(axes, keepdims=True) if largest else -(-x).max(axes, keepdims=True)
    else:
        y = (x.real.max if largest else x.real.min)(axes, keepdims=True)
    chosen = (x.real == y.real) | (x.real != x.real)  # a NaN is the largest and the smallest
    ties = chosen.sum(axes, keepdims=True).astype(x.real.dtype)
    if x.dtype.kind == "c":  # the real part is exact, the imaginary one shared like the gradient
        real, y = y, np.empty(y.shape, x.dtype)
        y.real, y.imag = real, (np.where(chosen, x.imag, 0) / ties).sum(axes, keepdims=True)
    return _reduced(y, axes, keepdims), lambda y_bar: (among_equals(chosen, ties, _kept(y_bar, axes, x)),)


@part
def among_equals(chosen, ties, y_bar):
    """ȳ in equal shares for those that are chosen, so many as there are `ties`; 0 for the others."""
    return np.where(chosen, y_bar / ties, 0)


@primitive
@takes_unchecked("x (...)", **OVER_AXES)
def prod(x, axis: Axis = None, *, keepdims=False):
    """y = Π x over `axis`.

    VJP: x̄_i = ȳ Π_{j≠i} x_j, as (product of all before i) · (product of all after i), which is right at zeros,
    where ȳ y / x_i would be 0/0. Products of some of the floats may be out of range.
    """
    x = as_array(x, order="C")
    axes = _axes("prod", axis, x)
    order, place = axes_last(axes, x.ndim)
    moved = x.transpose(order)
    rows = moved.reshape(*moved.shape[: x.ndim - len(axes)], math.prod(x.shape[i] for i in axes))  # (..., n)

    def vjp(y_bar):
        before, exponents = running_products(rows)  # (..., n + 1)
        after, further = (np.flip(a, -1) for a in running_products(np.flip(rows, -1)))  # (..., n + 1)
        in_place = lambda others: others.reshape(moved.shape).transpose(place)
        others = in_place(before[..., :-1] * after[..., 1:])
        return (times_power_of_two(_kept(y_bar, axes, x) * others, in_place(exponents[..., :-1] + further[..., 1:])),)

    y, left = watched(lambda: np.prod(x, axes, keepdims=keepdims))
    if left and is_of_floats(x):
        products, exponents = running_products(rows)
        y = _reduced(_kept(times_power_of_two(products[..., -1], exponents[..., -1]), axes, x), axes, keepdims)
    return y, vjp


def running_products(factors: Array) -> tuple[Array, Array]:
    """Π_{j<k} f_j for k = 0 … n as p and e of p 2ᵉ, where e is 0 unless floats leave their range on the way.

    Shapes: (..., n) → (..., n + 1), if they do of floats each with those `step` places before it, for 1, 2, 4, ….
    """
    one = np.prod(factors[..., :0], -1, keepdims=True)
    products, left = watched(lambda: np.concatenate([one, np.cumprod(factors, -1)], -1))
    exponents, step = np.zeros(products.shape, int), 1
    if not (left and is_of_floats(factors)):
        return products, exponents
    products = np.concatenate([one, factors], -1)
    while step < products.shape[-1]:
        products, own = np.frexp(products)
        exponents += own
        products[..., step:] *= products[..., :-step].copy()
        exponents[..., step:] += exponents[..., :-step].copy()
        step *= 2
    return products, exponents


def is_of_floats(x: Any) -> bool:
    """Whether it is an array of real floats."""
    return not is_kind(x) and not isinstance(x, Dual) and x.dtype.kind == "f"


@primitive
@takes_unchecked("x (...)", **OVER_AXES)
@float16_in_float32
def logsumexp(x, axis: Axis = None, *, keepdims=False):
    """y = log Σ exp(x_i) over `axis`, from the row maximum m: y = m + log Σ exp(x_i − m).

    The k largest elements add exactly k to the sum, the rest r: log(k + r) is taken as log k + log1p(r/k), which keeps
    the digits of r, and those of y where m = 0: logsumexp([0, −40]) is 4.2e-18.

    VJP: x̄_i = ȳ exp(x_i − y), the softmax of x.   A sum over nothing, or nothing but −∞, has value −∞ and gradient 0
    (PyTorch: NaN); with +∞ in it (and no NaN), +∞, whose gradient goes there.
    Source: Blanchard, Higham & Higham (2021).
    """
    x = in_order(floating(x))
    axes = _axes("logsumexp", axis, x)
    top = x.real.max(axes, keepdims=True, initial=-np.inf)
    largest = x.real == top
    infinite = np.abs(top) == np.inf
    with np.errstate(over="ignore", invalid="ignore"):
        e = np.exp(x - np.where(infinite, 0, top))
    if infinite.any():  # all the weight is on +∞, or there is none
        e = np.where(infinite, largest & (top > 0), e)
    logarithm, total = log_of_total(e, largest & (top > -np.inf), axes)
    y = np.where(infinite, top, top + logarithm)
    if y.dtype.kind == "c" and infinite.any():
        y.imag += np.where(infinite, (e.real / total.real * x.imag).sum(axes, keepdims=True), 0)
    return _reduced(y, axes, keepdims), lambda y_bar: (_kept(y_bar, axes, x) * (e / total),)


@part
def log_of_total(e: Any, ones: Array, axes: tuple[int, ...]) -> tuple:
    """log Σ e and Σ e over `axes`, from the rest beside the k that are 1; 0 and 1 where all e are 0."""
    k = np.maximum(ones.sum(axes, keepdims=True), 1).astype(e.dtype if is_kind(e) else e.real.dtype)
    rest = np.where(ones, e - 1, e).sum(axes, keepdims=True)
    return np.log(k) + log1p_of(rest / k), k + rest


@primitive
@takes_unchecked("x (...)", **OVER_AXES)
@float16_in_float32
def norm(x, axis: Axis = None, *, keepdims=False):
    """y = √(Σ x²) over `axis`, scaled by the largest element: no square overflows, nor underflows if it counts.

    VJP: x̄_i = ȳ x_i / y, and 0 at the kink x = 0 (JAX: NaN).   Raises TypeError for complex x, but for the steps of
    differentiation.
    """
    x = steps_only("norm", in_order(floating(x)))
    axes = _axes("norm", axis, x)
    scale: Any = 1
    if not is_kind(x):
        scale = np.abs(x.real).max(axes, keepdims=True, initial=0)
        scale = np.where((scale > 0) & np.isfinite(scale), scale, 1)
    unit = x / scale
    length = np.sqrt((unit * unit).sum(axes, keepdims=True))
    return _reduced(scale * length, axes, keepdims), lambda y_bar: (_kept(y_bar, axes, x) * direction(unit, length),)


@primitive
@takes_unchecked("x (...) → (...)", axis="an axis")
def cumsum(x, axis: int = -1):
    """y_i = Σ_{j≤i} x_j along one axis.   VJP: x̄_j = Σ_{i≥j} ȳ_i, the running sum from the other end."""
    x = as_array(x)
    (axis,) = normalize_axes("cumsum", axis, x.ndim)
    return np.cumsum(x, axis), lambda y_bar: (np.flip(np.cumsum(np.flip(y_bar, axis), axis), axis),)


@primitive
@takes_unchecked("x (...) → (...)", axis="an axis")
def cumprod(x, axis: int = -1):
    """y_i = Π_{j≤i} x_j along one axis.

    VJP: x̄_j = y_{j−1} r_j with r_j = Σ_{i≥j} ȳ_i Π_{j<k≤i} x_k, from the end: r_j = ȳ_j + x_{j+1} r_{j+1}.
    There is no division, so zeros are numbers like all others (ȳ y/x would be 0/0).
    """
    x = as_array(x)
    (axis,) = normalize_axes("cumprod", axis, x.ndim)
    factors = np.moveaxis(x, axis, -1)  # (..., N)

    def vjp(y_bar):
        bars = np.moveaxis(y_bar, axis, -1)  # (..., N)
        products, exponents = running_products(factors)  # (..., N + 1)
        rest = [bars[..., -1:]]  # of r, from the end
        for j in range(factors.shape[-1] - 2, -1, -1):
            rest.append(bars[..., j : j + 1] + factors[..., j + 1 : j + 2] * rest[-1])
        x_bar = times_power_of_two(products[..., :-1] * np.concatenate(rest[::-1], -1), exponents[..., :-1])
        return (np.moveaxis(x_bar, -1, axis),)

    y, left = watched(lambda: np.cumprod(x, axis))
    if left and is_of_floats(x):
        products, exponents = running_products(factors)
        y = np.moveaxis(times_power_of_two(products[..., 1:], exponents[..., 1:]), -1, axis)
    return y, vjp


@explained
@takes_unchecked("x (...)", axis="an axis?")
def sort(x: ArrayLike, axis: int | None = -1) -> Array | Tensor:
    """y = x in ascending order along one axis, by real parts, NaN last; `axis` None takes all elements, in C order.

    VJP: each ȳ goes to the element that stands there; of equal ones the order stays.
    """
    if axis is None:
        x, axis = reshape(x, -1), 0
    values = as_array(raw(x))
    (place,) = normalize_axes("sort", axis, values.ndim)
    return take_along_axis(x, np.argsort(np.asarray(values.real), place, kind="stable"), place)


@explained
@takes_unchecked("x (...)", **OVER_AXES)
def median(x: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> Array | Tensor:
    """The middle element of x in order over `axis`, or the mean of the middle two; NaN if there is one.

    VJP: ȳ goes to the middle element, or half to each of two, equal ones in their order in x; to the last NaN if any.
    Raises ValueError for no elements.
    """
    values = as_array(raw(x))
    axes = _axes("median", axis, values)
    n = _count("median", axes, values)
    kept = tuple(i for i in range(values.ndim) if i not in axes)
    lengths = [values.shape[i] for i in kept]
    ordered = sort(reshape(transpose(x, kept + axes), (*lengths, n)), -1)
    middle = mean(getitem(ordered, (..., slice((n - 1) // 2, n // 2 + 1))), -1)
    largest = getitem(ordered, (..., -1))
    y = where(np.isnan(raw(largest).real), largest, middle)
    return reshape(y, [1 if i in axes else m for i, m in enumerate(values.shape)]) if keepdims else y


@explained
@takes_unchecked("x (...)", axis="an axis?")
def argmax(x: ArrayLike, axis: int | None = None) -> Array | np.integer:
    """The first place of the largest (by real parts), or of NaN: integers, no gradient. ValueError for no elements."""
    return _place_of("argmax", np.argmax, x, axis)


@explained
@takes_unchecked("x (...)", axis="an axis?")
def argmin(x: ArrayLike, axis: int | None = None) -> Array | np.integer:
    """The first place of the smallest (by real parts), or of NaN: integers, no gradient. ValueError for no elements."""
    return _place_of("argmin", np.argmin, x, axis)


def _place_of(name: str, find: Callable, x: ArrayLike, axis: int | None) -> Array | np.integer:
    """NumPy's place; ValueError where there is none. `axis` None counts all elements, in C order."""
    if isinstance(axis, (tuple, list, np.ndarray)):
        raise TypeError(f"{name}: axis is {axis!r}; pass an integer, or None for all elements")
    values = as_array(received(raw(x), name, "x"))
    if values.dtype.char in NO_NUMBERS:
        raise TypeError(f"{name}: x is {values.dtype} ({type(x).__name__}); pass an array of numbers")
    values = values.real
    axes = _axes(name, axis, values)
    _count(name, axes, values)
    return find(values, None if axis is None else axes[0])
