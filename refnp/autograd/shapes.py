"""Moving elements: other shapes, joins and cuts, padding.

Nothing is computed: the gradient of an element goes back to the place from which it was read. Where a place was read
several times (repeats, pads) its gradients are added up, in a fixed order. An axis out of range is a ValueError.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from refnp.autograd.declaration import takes_unchecked
from refnp.autograd.indexing import add_at, put_back
from refnp.autograd.primitives import integers, of_several, primitive, raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.numbers.arrays import normalize_axes
from refnp.numbers.duals import as_array
from refnp.numbers.windows import repeated


@primitive
def reshape(x, shape):
    """y = x with another shape, elements in C order; one length may be −1.   VJP: x̄ = ȳ in the shape of x.

    Raises ValueError if `shape` has not as many elements as x.
    """
    x = as_array(x)
    try:
        y = x.reshape(shape)
    except ValueError:
        raise ValueError(f"reshape: x of shape {x.shape} has {x.size} elements; they do not fill {shape}") from None

    return y, lambda y_bar: (y_bar.reshape(x.shape),)


@primitive
def transpose(x, axes=None):
    """y = x with its axes in another order (reversed if none is given).   VJP: x̄ = ȳ in the order of before.

    Raises ValueError unless every axis is named once.
    """
    x = as_array(x)
    axes = tuple(range(x.ndim))[::-1] if axes is None else normalize_axes("transpose", axes, x.ndim)
    if len(axes) != x.ndim:
        raise ValueError(f"transpose: axes {axes} do not name all {x.ndim} axes of x; name each once")

    return x.transpose(axes), lambda y_bar: (y_bar.transpose(np.argsort(axes)),)


@primitive
@takes_unchecked("x (...)", first="an axis", second="an axis")
def swapaxes(x, first, second):
    """y = x with two axes exchanged.   VJP: x̄ = ȳ with the same two exchanged."""
    x = as_array(x)
    for axis in (first, second):
        normalize_axes("swapaxes", axis, x.ndim)

    return x.swapaxes(first, second), lambda y_bar: (y_bar.swapaxes(first, second),)


@primitive
def broadcast_to(x, shape):
    """y = x repeated to `shape` (a read-only view).   VJP: x̄ = ȳ summed over the repeats, by the machinery.

    Raises ValueError if x does not broadcast to `shape`.
    """
    try:
        y = np.broadcast_to(x, shape)
    except ValueError:
        raise ValueError(f"broadcast_to: x of shape {np.shape(x)} does not broadcast to {shape}") from None

    return y, lambda y_bar: (y_bar,)


@primitive
@takes_unchecked("x (...)", axis="axes")
def expand_dims(x, axis):
    """y = x with new axes of length 1, at the places `axis` (an int or several) of the result.   VJP: x̄ = ȳ without.

    Raises ValueError for a place out of range or named twice.
    """
    x = as_array(x)
    count = 1 if np.ndim(axis) == 0 else len(axis)
    axes = normalize_axes("expand_dims", axis, x.ndim + count)
    return np.expand_dims(x, axes), lambda y_bar: (y_bar.reshape(x.shape),)


@primitive
@takes_unchecked("x (...)", axis="axes?")
def squeeze(x, axis=None):
    """y = x without its axes of length 1, or without those named by `axis`.   VJP: x̄ = ȳ in the shape of x.

    Raises ValueError for a named axis that has another length.
    """
    x = as_array(x)
    ones = tuple(i for i, n in enumerate(x.shape) if n == 1)
    axes = ones if axis is None else normalize_axes("squeeze", axis, x.ndim)
    if any(x.shape[i] != 1 for i in axes):
        raise ValueError(f"squeeze: axis is {axis!r} and x has shape {x.shape}; only axes of length 1 can be left out")
    return np.squeeze(x, axes), lambda y_bar: (y_bar.reshape(x.shape),)


@primitive
@takes_unchecked("x (...) → (...)", axis="axes?")
def flip(x, axis=None):
    """y = x read backwards along `axis` (an int or several; all by default).   VJP: x̄ = ȳ read backwards."""
    x = as_array(x)
    axes = tuple(range(x.ndim)) if axis is None else normalize_axes("flip", axis, x.ndim)
    return np.flip(x, axes), lambda y_bar: (np.flip(y_bar, axes),)


@primitive
@takes_unchecked("x (...) → (...)", shift="whole", axis="axes?")
def roll(x, shift, axis=None):
    """y_{i+s} = x_i on a ring: x moved by `shift` along `axis`, or along its elements in C order if there is none.

    VJP: x̄ = ȳ rolled by −s.   One shift for all axes, or one for each; ValueError if not, TypeError unless integers.
    """
    shift = integers("roll", "shift", shift, signed=True)
    if axis is not None:
        axis = normalize_axes("roll", axis, np.ndim(x))
        if np.ndim(shift) and np.size(shift) != 1 and np.size(shift) != len(axis):
            raise ValueError(f"roll: shift is {shift} and axis {axis}; pass one shift, or one for each axis")
    return np.roll(x, shift, axis), lambda y_bar: (np.roll(y_bar, np.negative(shift), axis),)


def concatenate(arrays: Sequence[ArrayLike], axis: int = 0) -> Array | Tensor:
    """y = arrays joined along an existing axis.   VJP: each gets its piece of ȳ.

    Shapes: (..., n_k, ...) → (..., Σ_k n_k, ...).
    Raises ValueError if there is no array, or if shapes differ elsewhere than along `axis`, TypeError for no list.
    """
    if not _several("concatenate", arrays):
        raise ValueError("concatenate: no arrays were given; pass at least one")
    return _concatenate(*arrays, axis=axis)


def _several(name: str, arrays: Sequence[ArrayLike]) -> int:
    """How many arrays there are; TypeError if it is no sequence, which one array would be taken for."""
    if not isinstance(arrays, (list, tuple, np.ndarray, Tensor)) or getattr(arrays, "ndim", 1) == 0:
        raise TypeError(f"{name}: arrays is a {type(arrays).__name__}; pass a list of arrays")
    return len(arrays)


@primitive
def _concatenate(*arrays, axis):
    """y = arrays joined along `axis`."""
    arrays = tuple(as_array(a) for a in arrays)
    (axis,) = normalize_axes("concatenate", axis, arrays[0].ndim)
    across = [(a.shape[:axis], a.shape[axis + 1 :]) for a in arrays]
    if across.count(across[0]) < len(across):
        shapes = ", ".join(str(a.shape) for a in arrays)
        raise ValueError(f"concatenate: shapes {shapes} may differ along axis {axis} only")
    ends = np.cumsum([a.shape[axis] for a in arrays])
    return np.concatenate(arrays, axis), lambda y_bar: tuple(np.split(y_bar, ends[:-1], axis))


def stack(arrays: Sequence[ArrayLike], axis: int = 0) -> Array | Tensor:
    """y = arrays of one shape joined along a new axis.   VJP: each gets its slice of ȳ.

    Raises ValueError if there is no array or the shapes differ, TypeError for what is no list of arrays.
    """
    if not _several("stack", arrays):
        raise ValueError("stack: no arrays were given; pass at least one")
    shapes = [np.shape(raw(a)) for a in arrays]
    if shapes.count(shapes[0]) < len(shapes):
        raise ValueError(f"stack: shapes {sorted(set(shapes))} differ; all must be the same")
    return _stack(*arrays, axis=axis)


@primitive
def _stack(*arrays, axis):
    """y = arrays joined along a new axis."""
    (axis,) = normalize_axes("stack", axis, np.ndim(arrays[0]) + 1)
    y = np.stack(arrays, axis)
    return y, lambda y_bar: tuple(np.moveaxis(y_bar, axis, 0)[i] for i in range(y.shape[axis]))


def hstack(arrays: Sequence[ArrayLike]) -> Array | Tensor:
    """y = arrays joined side by side: along axis 1, vectors end to end, as numpy.hstack."""
    _several("hstack", arrays)
    parts = [reshape(a, -1) if np.ndim(raw(a)) == 0 else a for a in arrays]
    return concatenate(parts, 0 if parts and np.ndim(raw(parts[0])) == 1 else 1)


def vstack(arrays: Sequence[ArrayLike]) -> Array | Tensor:
    """y = arrays joined one below the other: along axis 0, vectors as rows, as numpy.vstack."""
    _several("vstack", arrays)
    return concatenate([reshape(a, (1, -1)) if np.ndim(raw(a)) < 2 else a for a in arrays], 0)


@of_several
@primitive
def split(x, sections, axis=-1):
    """y = x cut along `axis` (the last by default) into `sections` equal parts, or at the given places; a tuple.

    Negative places count from the end.   VJP: x̄ = the gradients of the parts, joined.
    Raises ValueError if equal parts do not fit, or if places do not ascend from 0 to the length of the axis.
    """
    x = as_array(x)
    (axis,) = normalize_axes("split", axis, x.ndim)
    length = x.shape[axis]
    if isinstance(sections, (int, np.integer)):
        if sections < 1 or length % sections:
            raise ValueError(f"split: axis {axis} of length {length} does not divide into {sections} equal parts")
    else:
        places = [0, *(int(p) + length * (p < 0) for p in sections), length]
        if sorted(places) != places:
            raise ValueError(f"split: places {[*map(int, sections)]} do not ascend along an axis of length {length}")
    return tuple(np.split(x, sections, axis)), lambda *part_bars: (np.concatenate(part_bars, axis),)


@primitive
def pad(x, widths, *, mode="zeros", value=0.0):
    """y_i = x_{source(i)}: x made longer at both ends of its axes; `widths` has a pair (before, after) per axis.

    mode "zeros" (or `value`, of this mode alone), "circular" (a ring), "reflect" (a mirror on the last element),
    "replicate" (the last element again).   VJP: x̄_j = Σ_{i: source(i) = j} ȳ_i.
    Raises TypeError if widths are not integers, ValueError if they are negative or not a pair per axis, for an unknown
    mode, or for more padding than the mode can find elements for.
    """
    x = as_array(x)
    widths = _pad_widths(widths, x.ndim)
    if mode == "zeros":
        inner = tuple(slice(before, before + n) for (before, _), n in zip(widths, x.shape, strict=True))
        longer = tuple(b + n + a for (b, a), n in zip(widths, x.shape, strict=True))
        y = put_back(x, inner, longer)
        if value or np.signbit(np.real(value)):  # −0 is not what put_back leaves
            y = np.where(put_back(np.ones(x.shape, bool), inner, longer), y, value)
        return y, lambda y_bar: (y_bar[inner],)

    sources = [_pad_source(mode, n, before, after) for (before, after), n in zip(widths, x.shape, strict=True)]
    y = x[np.ix_(*sources)]

    def vjp(y_bar):
        for axis, ((before, after), source) in enumerate(zip(widths, sources, strict=True)):
            if before or after:
                y_bar = add_at(y_bar, source, x.shape[axis], axis)
        return (y_bar,)

    return y, vjp


def _pad_widths(widths: Any, ndim: int) -> list[tuple[int, int]]:
    widths = integers("pad", "widths", widths, signed=True)
    if widths.shape != (ndim, 2) and widths.size + ndim:
        raise ValueError(f"pad: widths has shape {widths.shape}, not {(ndim, 2)}; give a pair (before, after) per axis")
    pairs = [(int(before), int(after)) for before, after in widths]
    if any(w < 0 for pair in pairs for w in pair):
        raise ValueError(f"pad: widths {pairs} are negative somewhere; slice x to make it shorter")
    return pairs


def _pad_source(mode: str, n: int, before: int, after: int) -> Array:
    """The element of an axis of length n that each place of the padded axis repeats."""
    longest = {"circular": n, "reflect": max(n - 1, 0), "replicate": before + after if n else 0}.get(mode)
    if longest is None:
        raise ValueError(f"pad: mode {mode!r} is unknown; use 'zeros', 'circular', 'reflect' or 'replicate'")
    if before > longest or after > longest:
        raise ValueError(
            f"pad: {mode} padding by ({before}, {after}) needs an axis longer than {n}; at most {longest} fit"
        )
    return repeated(np.arange(-before, n + after), n, mode)
