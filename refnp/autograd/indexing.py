"""Reading by place, and its adjoint, adding by place.

What is read from a place goes back to it as a gradient; where a place was read several times, its gradients are added
up, in a fixed order. Writing by place is the other way round: `scatter`.
"""

import math
from typing import Any

import numpy as np

from refnp.autograd.primitives import integers, primitive, raw
from refnp.autograd.tensor import Array
from refnp.numbers.arrays import broadcast_shapes, normalize_axes
from refnp.numbers.duals import as_array, plain
from refnp.numbers.kinds import Kind, is_kind
from refnp.numbers.words import added_at, arange


@primitive
def getitem(x, index):
    """y = x[index]; slices, integers, None, Ellipsis, boolean masks and integer lists, arrays or Tensors, as in NumPy.

    VJP: x̄ = zeros with ȳ added at `index`, for each time that it was read.   Raises IndexError where NumPy does.
    """
    x = as_array(x)
    index = tuple(map(_place, index)) if isinstance(index, tuple) else _place(index)
    try:
        y = x[index]
    except IndexError as error:
        raise IndexError(f"getitem: {error}") from None

    return y, lambda y_bar: (put_back(y_bar, index, x.shape),)


def put_back(y_bar: Any, index: Any, shape: tuple[int, ...]) -> Any:
    """x̄ of that shape with ȳ added at `index`, and 0 elsewhere: what goes back through y = x[index]."""
    if isinstance(y_bar, Kind):
        size = math.prod(shape)
        places = arange(size).reshape(shape)[index]
        return added_at(y_bar, places, size).reshape(shape)
    x_bar = np.zeros(shape, y_bar.dtype)
    places = index if isinstance(index, tuple) else (index,)
    if any(isinstance(place, np.ndarray) and place.dtype != bool for place in places):
        np.add.at(x_bar, index, plain(y_bar))  # where one was read several times
    else:
        x_bar[index] = y_bar
    return x_bar


def _place(index: Any) -> Any:
    """One item of an index: slices and the like as they are, nested lists, tuples and Tensors as arrays."""
    if index is None or index is Ellipsis or isinstance(index, (slice, int, np.integer)):
        return index
    index = as_array(raw(index))
    if index.dtype == np.uint64:  # beyond int64 NumPy would count from the end
        return integers("getitem", "index", index, signed=True)
    return index if index.size else index.astype(bool if index.dtype == bool else int)  # [] is an array of floats


@primitive
def take(x, indices, axis=0):
    """y = x at integer `indices` along one axis: rows of a table, the lookup of embeddings.

    Shapes: x (V, ...), indices (N, ...) → y (N, ..., ...) for axis 0.
    VJP: x̄_v = Σ_{n: indices_n = v} ȳ_n, where −1 is V − 1, and so on.
    Raises TypeError if the indices are not integers, IndexError if one is outside −V … V − 1.
    """
    x, indices = as_array(x), integers("take", "indices", indices)
    (axis,) = normalize_axes("take", axis, x.ndim)
    length = x.shape[axis]
    if not is_kind(indices) and indices.size and not (-length <= indices.min() and indices.max() < length):
        bad = indices[(indices < -length) | (indices >= length)].flat[0]
        raise IndexError(f"take: index {bad} is outside axis {axis} of length {length}; use 0 to {length - 1}")

    def vjp(y_bar):
        rows = y_bar.reshape((*x.shape[:axis], indices.size, *x.shape[axis + 1 :]))
        return (add_at(rows, indices.reshape(-1) % max(length, 1), length, axis),)

    return np.take(x, indices, axis), vjp


@primitive
def take_along_axis(x, indices, axis=-1):
    """y[…, j, …] = x[…, i, …] with i = indices[…, j, …]: for every line of x along one axis, places of its own.

    Shapes: x (..., N, ...), indices (..., k, ...), as many axes, whose others broadcast → y (..., k, ...).
    VJP: x̄ = zeros with ȳ added at the places, once for each time that one was read.
    Raises TypeError if the indices are not integers, IndexError if one is outside −N … N − 1, ValueError for shapes.
    """
    x, indices, places = _lines("take_along_axis", x, indices, axis)
    return x[places], lambda y_bar: (put_back(y_bar, places, x.shape),)


@primitive
def scatter(x, indices, updates, axis=-1, *, mode="add"):
    """y = x with `updates` u at places along one axis, for every line of x its own: the opposite of `take_along_axis`.

        "add"   y[…, i, …] = x[…, i, …] + Σ u[…, j, …] over the j with indices[…, j, …] = i
        "put"   y[…, i, …] = u[…, j, …] if indices[…, j, …] = i, else x[…, i, …]

    Shapes: x (..., N, ...), indices (..., k, ...), whose others broadcast, updates to these places → y (..., N, ...).
    VJP: ū = ȳ at the places; x̄ = ȳ for "add", for "put" 0 at the places.
    Raises TypeError if the indices are not integers, IndexError if one is outside −N … N − 1, ValueError for shapes, an
    unknown mode, or a place that "put" names twice (NumPy takes the last one, PyTorch any).
    """
    x, indices, places = _lines("scatter", x, indices, axis)
    shape = broadcast_shapes(*(np.shape(p) for p in places))
    if mode not in ("add", "put"):
        raise ValueError(f"scatter: mode is {mode!r}; use 'add' or 'put'")
    if not broadcast_shapes(np.shape(updates), shape) == shape:
        raise ValueError(f"scatter: updates have shape {np.shape(updates)}; they must broadcast to {shape}")
    updates = np.broadcast_to(as_array(updates, np.result_type(x, updates)), shape)
    if mode == "add":
        own = np.arange(x.size).reshape(x.shape)
        terms = np.concatenate([x.reshape(x.size), updates.reshape(updates.size)])  # one sum, which begins with x
        y = added_at(terms, np.concatenate([own.reshape(x.size), own[places].reshape(updates.size)]), x.size)
        return y.reshape(x.shape), lambda y_bar: (y_bar, None, lambda: y_bar[places])
    count = put_back(np.ones(shape, int), places, x.shape)
    if (count > 1).any():
        raise ValueError(
            f"scatter: indices name place {np.argwhere(count > 1)[0].tolist()} twice; 'put' takes each once"
        )
    y = np.where(count > 0, put_back(updates, places, x.shape), x)
    return y, lambda y_bar: (np.where(count > 0, 0, y_bar), None, lambda: y_bar[places])


def _lines(name: str, x: Any, indices: Any, axis: int) -> tuple[Array, Array, tuple]:
    """x, the indices, and the index of x that reads them line by line."""
    x, indices = as_array(x), integers(name, "indices", indices)
    (axis,) = normalize_axes(name, axis, x.ndim)
    n = x.shape[axis]
    if indices.ndim != x.ndim:
        raise ValueError(f"{name}: indices have shape {indices.shape}, x {x.shape}; they must have as many axes")
    others = [1 if i == axis else m for i, m in enumerate(x.shape)]
    try:
        broadcast_shapes(tuple(others), indices.shape)
    except ValueError:
        raise ValueError(
            f"{name}: indices have shape {indices.shape}, x {x.shape}; all lengths but that of axis={axis} must agree"
        ) from None
    if not is_kind(indices) and indices.size and not (-n <= indices.min() and indices.max() < n):
        bad = indices[(indices < -n) | (indices >= n)].flat[0]
        raise IndexError(f"{name}: index {bad} is outside an axis of length {n}; use 0 to {n - 1}")
    along = lambda i: tuple(slice(None) if k == i else None for k in range(x.ndim))
    grid = [arange(m)[along(i)] for i, m in enumerate(x.shape)]
    return x, indices, (*grid[:axis], indices, *grid[axis + 1 :])


def add_at(values: Array, places: Array, length: int, axis: int) -> Array:
    """out[places[n]] += values[n] along an axis of `length`, in a fixed order: sort by place, then sum each run."""
    if isinstance(values, Kind):
        return np.moveaxis(added_at(np.moveaxis(values, axis, -1), places, length), -1, axis)
    out = np.zeros((*values.shape[:axis], length, *values.shape[axis + 1 :]), values.dtype)
    if values.size:
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        runs = np.add.reduceat(np.take(values, order, axis), starts, axis)
        out[(slice(None),) * axis + (ordered[starts],)] = runs
    return out
