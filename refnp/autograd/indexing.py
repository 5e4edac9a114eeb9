"""Reading elements by their places: getitem, take, and pad, which reads beyond the ends.

Nothing is computed. Every gradient goes back to the place it was read from, and where a place was read several times
(repeated indices, reflecting pads) what comes back is added up, in a fixed order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refnp.autograd.blocks import normalize_axes
from refnp.autograd.primitive import primitive, raw


@primitive
def pad(x, widths, *, mode="zeros", value=0.0):
    """y_i = x_{source(i)}: x made longer at both ends of its axes; `widths` has a pair (before, after) per axis.

    mode "zeros" (or `value`), "circular" (a ring), "reflect" (a mirror on the last element), "replicate" (the last
    element again).   VJP: x̄_j = Σ_{i: source(i) = j} ȳ_i.
    Raises TypeError if widths are not integers, ValueError if they are negative or not a pair per axis, for an unknown
    mode, or for more padding than the mode can find elements for.
    """
    x = np.asarray(x)
    widths = _pad_widths(widths, x.ndim)
    if mode == "zeros":
        inner = tuple(slice(before, before + n) for (before, _), n in zip(widths, x.shape, strict=True))
        y = np.full([b + n + a for (b, a), n in zip(widths, x.shape, strict=True)], value, x.dtype)
        y[inner] = x
        return y, lambda y_bar: (y_bar[inner],)

    sources = [_pad_source(mode, n, before, after) for (before, after), n in zip(widths, x.shape, strict=True)]
    y = x[np.ix_(*sources)]

    def vjp(y_bar):
        for axis, ((before, after), source) in enumerate(zip(widths, sources, strict=True)):
            if before or after:
                y_bar = _add_at(y_bar, source, x.shape[axis], axis)
        return (y_bar,)

    return y, vjp


def _pad_widths(widths: Any, ndim: int) -> list[tuple[int, int]]:
    widths = np.asarray(widths)
    if widths.size and widths.dtype.kind not in "iu":
        raise TypeError(f"pad: widths are {widths.dtype}; pass integers")
    if widths.shape != (ndim, 2) and widths.size + ndim:
        raise ValueError(f"pad: widths has shape {widths.shape}, not {(ndim, 2)}; give a pair (before, after) per axis")
    pairs = [(int(before), int(after)) for before, after in widths]
    if any(w < 0 for pair in pairs for w in pair):
        raise ValueError(f"pad: widths {pairs} are negative somewhere; slice x to make it shorter")
    return pairs


def _pad_source(mode: str, n: int, before: int, after: int) -> np.ndarray:
    """Which element of an axis of length n stands at each place of the padded axis."""
    i = np.arange(-before, n + after)
    longest = {"circular": n, "reflect": max(n - 1, 0), "replicate": before + after if n else 0}.get(mode)
    if longest is None:
        raise ValueError(f"pad: mode {mode!r} is unknown; use 'zeros', 'circular', 'reflect' or 'replicate'")
    if before > longest or after > longest:
        raise ValueError(
            f"pad: {mode} padding by ({before}, {after}) needs an axis longer than {n}; at most {longest} fit"
        )
    if mode == "circular":
        return i % n if n else i
    if mode == "reflect":
        return n - 1 - np.abs(n - 1 - np.abs(i)) if n else i
    return np.clip(i, 0, n - 1)


@primitive
def getitem(x, index):
    """y = x[index]; slices, integers, None, Ellipsis, boolean masks and integer arrays or Tensors, as in NumPy.

    VJP: x̄ = zeros with ȳ added at `index`; an element that was read k times gets k contributions.
    """
    x = np.asarray(x)
    index = tuple(map(_place, index)) if isinstance(index, tuple) else _place(index)
    places = index if isinstance(index, tuple) else (index,)
    repeats = any(isinstance(p, np.ndarray) and p.dtype != bool for p in places)

    def vjp(y_bar):
        x_bar = np.zeros(x.shape, y_bar.dtype)
        if repeats:
            np.add.at(x_bar, index, y_bar)
        else:
            x_bar[index] = y_bar
        return (x_bar,)

    return x[index], vjp


def _place(index: Any) -> Any:
    """One item of an index: slices and the like as they are, nested lists, tuples and Tensors as arrays."""
    if index is None or index is Ellipsis or isinstance(index, (slice, int, np.integer)):
        return index
    index = np.asarray(raw(index))
    return index if index.size else index.astype(bool if index.dtype == bool else int)  # [] is an array of floats


@primitive
def take(x, indices, axis=0):
    """y = x at integer `indices` along one axis: rows of a table, the lookup of embeddings.

    Shapes: x (V, ...), indices (N, ...) → y (N, ..., ...) for axis 0.
    VJP: x̄_v = Σ_{n: indices_n = v} ȳ_n.
    Raises TypeError if the indices are not integers, IndexError if one is outside −V … V − 1.
    """
    x, indices = np.asarray(x), np.asarray(indices)
    (axis,) = normalize_axes("take", axis, x.ndim)
    if not indices.size:
        indices = indices.astype(int)  # [] is an array of floats
    if indices.dtype.kind not in "iu":
        raise TypeError(f"take: indices are {indices.dtype}; pass integers")
    length = x.shape[axis]
    if indices.size and not (-length <= indices.min() and indices.max() < length):
        bad = indices[(indices < -length) | (indices >= length)].flat[0]
        raise IndexError(f"take: index {bad} is outside a table of {length} rows; use 0 to {length - 1}")

    def vjp(y_bar):
        rows = y_bar.reshape((*x.shape[:axis], indices.size, *x.shape[axis + 1 :]))
        return (_add_at(rows, indices.reshape(-1) % max(length, 1), length, axis),)

    return np.take(x, indices, axis), vjp


def _add_at(values: np.ndarray, places: np.ndarray, length: int, axis: int) -> np.ndarray:
    """out[places[n]] += values[n] along an axis of `length`, in a fixed order: sort by place, then sum each run."""
    out = np.zeros((*values.shape[:axis], length, *values.shape[axis + 1 :]), values.dtype)
    if values.size:
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        runs = np.add.reduceat(np.take(values, order, axis), starts, axis)
        out[(slice(None),) * axis + (ordered[starts],)] = runs
    return out
