"""Other shapes for the same elements: nothing is computed, so every gradient is moved back the way its element came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from refnp.autograd.blocks import normalize_axes
from refnp.autograd.primitive import primitive, raw


@primitive
def reshape(x, shape):
    """y = x with another shape, elements in C order; one length may be −1.   VJP: x̄ = ȳ in the shape of x.

    Raises ValueError if `shape` has not as many elements as x.
    """
    x = np.asarray(x)
    try:
        y = x.reshape(shape)
    except ValueError:
        raise ValueError(f"reshape: x of shape {x.shape} has {x.size} elements; they do not fill {shape}") from None

    def vjp(y_bar):
        return (y_bar.reshape(x.shape),)

    return y, vjp


@primitive
def transpose(x, axes=None):
    """y = x with its axes in another order (reversed if none is given).   VJP: x̄ = ȳ in the order of before.

    Raises ValueError unless every axis is named once.
    """
    x = np.asarray(x)
    axes = tuple(range(x.ndim))[::-1] if axes is None else normalize_axes("transpose", axes, x.ndim)
    if len(axes) != x.ndim:
        raise ValueError(f"transpose: axes {axes} do not name all {x.ndim} axes of x; name each once")

    def vjp(y_bar):
        return (y_bar.transpose(np.argsort(axes)),)

    return x.transpose(axes), vjp


@primitive
def swapaxes(x, first, second):
    """y = x with two axes exchanged.   VJP: x̄ = ȳ with the same two exchanged."""
    x = np.asarray(x)
    for axis in (first, second):
        normalize_axes("swapaxes", axis, x.ndim)

    def vjp(y_bar):
        return (y_bar.swapaxes(first, second),)

    return x.swapaxes(first, second), vjp


@primitive
def broadcast_to(x, shape):
    """y = x repeated to `shape` (a read-only view).   VJP: x̄ = ȳ summed over the repeats, by the machinery.

    Raises ValueError if x does not broadcast to `shape`.
    """
    try:
        y = np.broadcast_to(x, shape)
    except ValueError:
        raise ValueError(f"broadcast_to: x of shape {np.shape(x)} does not broadcast to {shape}") from None

    def vjp(y_bar):
        return (y_bar,)

    return y, vjp


@primitive
def flip(x, axis=None):
    """y = x read backwards along `axis` (an int or several; all by default).   VJP: x̄ = ȳ read backwards."""
    x = np.asarray(x)
    axes = tuple(range(x.ndim)) if axis is None else normalize_axes("flip", axis, x.ndim)

    def vjp(y_bar):
        return (np.flip(y_bar, axes),)

    return np.flip(x, axes), vjp


@primitive
def roll(x, shift, axis=None):
    """y_{i+s} = x_i on a ring: x moved by `shift` along `axis`, or along its elements in C order if there is none.

    VJP: x̄ = ȳ rolled by −s.
    """
    if axis is not None:
        axis = normalize_axes("roll", axis, np.ndim(x))

    def vjp(y_bar):
        return (np.roll(y_bar, np.negative(shift), axis),)

    return np.roll(x, shift, axis), vjp


def concatenate(arrays: Sequence, axis: int = 0) -> Any:
    """y = arrays joined along an existing axis.   VJP: each gets its piece of ȳ.

    Shapes: (..., n_k, ...) → (..., Σ_k n_k, ...).
    Raises ValueError if there is no array, or if shapes differ elsewhere than along `axis`.
    """
    if not len(arrays):
        raise ValueError("concatenate: no arrays were given; pass at least one")
    return _concatenate(*arrays, axis=axis)


@primitive
def _concatenate(*arrays, axis):
    """y = arrays joined along `axis`."""
    arrays = tuple(np.asarray(a) for a in arrays)
    (axis,) = normalize_axes("concatenate", axis, arrays[0].ndim)
    for a in arrays[1:]:
        if a.ndim != arrays[0].ndim or a.shape[:axis] + a.shape[axis + 1 :] != (
            arrays[0].shape[:axis] + arrays[0].shape[axis + 1 :]
        ):
            shapes = ", ".join(str(a.shape) for a in arrays)
            raise ValueError(f"concatenate: shapes {shapes} may differ along axis {axis} only")
    ends = np.cumsum([a.shape[axis] for a in arrays])

    def vjp(y_bar):
        return tuple(np.split(y_bar, ends[:-1], axis))

    return np.concatenate(arrays, axis), vjp


def stack(arrays: Sequence, axis: int = 0) -> Any:
    """y = arrays of one shape joined along a new axis.   VJP: each gets its slice of ȳ.

    Raises ValueError if there is no array or the shapes differ.
    """
    if not len(arrays):
        raise ValueError("stack: no arrays were given; pass at least one")
    shapes = {np.shape(raw(a)) for a in arrays}
    if len(shapes) > 1:
        raise ValueError(f"stack: shapes {sorted(shapes)} differ; all must be the same")
    return _stack(*arrays, axis=axis)


@primitive
def _stack(*arrays, axis):
    """y = arrays joined along a new axis."""
    (axis,) = normalize_axes("stack", axis, np.ndim(arrays[0]) + 1)
    y = np.stack(arrays, axis)

    def vjp(y_bar):
        return tuple(np.moveaxis(y_bar, axis, 0))

    return y, vjp


@primitive
def split(x, sections, axis=-1):
    """y = x cut along `axis` (the last by default) into `sections` equal parts, or at the given places; a tuple.

    VJP: x̄ = the gradients of the parts, joined.
    Raises ValueError if equal parts do not fit, or if places do not ascend from 0 to the length of the axis.
    """
    x = np.asarray(x)
    (axis,) = normalize_axes("split", axis, x.ndim)
    length = x.shape[axis]
    if isinstance(sections, (int, np.integer)):
        if sections < 1 or length % sections:
            raise ValueError(f"split: axis {axis} of length {length} does not divide into {sections} equal parts")
    else:
        places = [0, *(int(p) + length * (p < 0) for p in sections), length]
        if sorted(places) != places:
            raise ValueError(f"split: places {[*map(int, sections)]} do not ascend along an axis of length {length}")

    def vjp(*part_bars):
        return (np.concatenate(part_bars, axis),)

    return tuple(np.split(x, sections, axis)), vjp
