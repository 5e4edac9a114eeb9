"""Arrays as rules need them: of a floating type, in C order, summed to a shape, with axes as numbers from 0."""

import functools
import itertools
import math
from typing import Any

import numpy as np

from refnp.numbers.duals import Array, as_array
from refnp.numbers.summation import column_sum


def floating(x: Any) -> Array:
    """As an array of a floating type: integers and booleans become float64, everything else stays."""
    x = as_array(x)
    return x.astype(np.float64) if x.dtype.kind in "biu" else x


def in_order(x: Any) -> Any:
    """An array in C order, a scalar as it is. In other layouts NumPy's sums, exp, log, … round differently.

    One number with a negative stride is in order for NumPy, and yet its cosh rounds differently.
    """
    if not isinstance(x, (np.ndarray, tuple)):
        return x
    x = np.asanyarray(x, order="C")
    return x.copy() if x.size == 1 and min(x.strides, default=0) < 0 else x


def copy_in_place_of(x: Array) -> Array:
    """A copy with the same distances between its numbers in memory, unless some of them are one and the same.

    Raises TypeError for objects, which new memory does not hold yet.
    """
    if x.dtype.hasobject:
        raise TypeError(f"the array is {x.dtype}; pass numbers or booleans")
    steps = [(n - 1) * stride for n, stride in zip(x.shape, x.strides, strict=True)]
    if 0 in [step for n, step in zip(x.shape, steps, strict=True) if n > 1] or not x.size:
        return x.copy()
    memory = np.empty(sum(map(abs, steps)) + x.itemsize, np.uint8)
    y = np.ndarray(x.shape, x.dtype, memory.data, -sum(step for step in steps if step < 0), x.strides)
    y[...] = x
    return y.view(type(x))


def sum_to(array: Any, shape: tuple[int, ...]) -> Any:
    """Sum over the axes that broadcasting `shape` to `array.shape` repeated: the adjoint of broadcasting.

    In C order, since the bits of a NumPy sum depend on how its array lies in memory. Over the axes in front of a row,
    as a bias is added to every row, it is a product of the BLAS.
    """
    array = as_array(array)
    extra = array.ndim - len(shape)
    if array.shape == shape or extra < 0:
        return array
    array = as_array(array, order="C")
    if shape and array.shape[extra:] == shape and type(array) is np.ndarray and array.dtype.char in "fd":
        return column_sum(array.reshape(math.prod(array.shape[:extra]), math.prod(shape))).reshape(shape)
    repeated = tuple(extra + i for i, n in enumerate(shape) if n != array.shape[extra + i] and n == 1)
    array = array.sum(tuple(range(extra)) + repeated, keepdims=True)
    return array.reshape(array.shape[extra:])


def broadcast_shapes(*shapes: tuple) -> tuple:
    """As numpy.broadcast_shapes; lengths may also be letters, each of which stands beside itself or 1."""
    if shapes and shapes.count(shapes[0]) == len(shapes):
        return shapes[0]
    if all(isinstance(n, (int, np.integer)) for shape in shapes for n in shape):
        return np.broadcast_shapes(*shapes)
    found: list[Any] = []
    for lengths in itertools.zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1):
        wide = [n for n in lengths if not (isinstance(n, int) and n == 1)] or [1]
        if any(n != wide[0] for n in wide):
            raise ValueError(f"shapes {' and '.join(map(str, shapes))} do not broadcast")
        found.insert(0, wide[0])
    return tuple(found)


def fits(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether an array of `shape` broadcasts to exactly the shape `target`."""
    try:
        return broadcast_shapes(shape, target) == target
    except ValueError:
        return False


def normalize_axes(name: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """Axes as a tuple of numbers from 0; ValueError if one is out of range or named twice, TypeError for others."""
    if type(axis) is int and -ndim <= axis < ndim:  # nearly always
        return (axis % ndim,)
    axes = (axis,) if np.ndim(axis) == 0 else tuple(axis)
    if not all(isinstance(a, (int, np.integer)) for a in axes):
        raise TypeError(f"{name}: axis is {axis!r}; pass an integer or several")
    if any(not -ndim <= a < ndim for a in axes):
        raise ValueError(f"{name}: axis {axis} is out of range for an array with {ndim} axes")
    axes = tuple(int(a) % ndim for a in axes)
    if len(set(axes)) < len(axes):
        raise ValueError(f"{name}: axis {axis} names an axis twice")
    return axes


@functools.cache
def axes_last(axes: tuple[int, ...], ndim: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The order of `ndim` axes in which `axes` come last, and where each axis stands in it."""
    order = tuple(i for i in range(ndim) if i not in axes) + axes
    return order, tuple(sorted(range(ndim), key=order.__getitem__))


def larger(x: np.ndarray) -> np.ndarray:
    """Each number of x twice along every axis, and the last one three times."""
    for axis, n in enumerate(x.shape):
        x = np.repeat(x, np.where(np.arange(n) < n - 1, 2, 3), axis)
    return x


def within(x: np.ndarray) -> tuple[slice, ...]:
    """Where `larger(x)` holds the numbers of x."""
    return tuple(slice(1, 2 * n, 2) for n in x.shape)
