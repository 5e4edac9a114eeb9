"""Inputs that the group itself makes special: where frames are not unique, and choices tie.

    a symmetric input      g·x = x      periodic signals, images that are their own mirror image
    an opposite input      g·x = −x     signals whose second half is the negative of the first
    an orbit               items p, g·p, g²·p …: regular polygons, evenly spaced points, p and −p, mirror images

g is an element of small order, if the action has any. The first two are made where entries change their places along an
axis, by the least of all numbers that g brings to one place, so that they are numbers of the draw.
"""

import functools
from typing import Any

import numpy as np

from refnp.autograd import Array
from refnp.symmetry.actions import Action, Arrays, Element, Product

ORBITS = ("a symmetric input", "an opposite input", "an orbit")
HIGHEST_ORDER = 12  # elements that come to the identity later, or never, are taken so many times
CANDIDATES = 6  # elements, of which the one of the lowest order is taken


def moves(action: Action, g: Element, arrays: Arrays) -> bool:
    """Whether g changes any of the arrays."""
    moved = action.act(g, arrays)
    return any(not _equal(np.asarray(a), moved[name]) for name, a in arrays.items() if a is not None)


def powers(action: Action, g: Element, arrays: Arrays) -> list[dict[str, Any]]:
    """x, g·x, g²·x …, until x comes again; x alone where g changes shapes."""
    found = [dict(arrays)]
    for _ in range(HIGHEST_ORDER - 1):
        further = action.act(g, found[-1])
        if any(a is not None and np.shape(a) != further[name].shape for name, a in arrays.items()):
            return found[:1]
        if not any(a is not None and not _near(np.asarray(a), further[name]) for name, a in arrays.items()):
            break
        found.append(further)
    return found


def of_low_order(
    action: Action, arrays: Arrays, rng: np.random.Generator, order: int, *, along_axes: bool = False
) -> Element | None:
    """An element that moves the arrays, of low order if it is found; turns are of this order. None if nothing moves.

    Of several actions one moves, one that changes values if it can be, or with `along_axes` one that moves along axes.
    """
    if isinstance(action, Product):
        found = action.identity(arrays)
        parts = rng.permutation(len(action.parts)).tolist()
        for i in sorted(parts, key=lambda i: action.parts[i].moves_along_axes != along_axes):
            g = of_low_order(action.parts[i], arrays, rng, order)
            if g is not None:
                return (*found[:i], g, *found[i + 1 :])
        return None
    chosen = action.of_order(order, rng, arrays)
    if chosen is None:
        every = action.elements(arrays) or [*action.generators(arrays), action.draw(rng, arrays)]
        some = [every[i] for i in rng.permutation(len(every))[:CANDIDATES]]
        moving = [g for g in some if moves(action, g, arrays)]
        chosen = min(moving, key=lambda g: len(powers(action, g, arrays)), default=None)
    return chosen if chosen is not None and moves(action, chosen, arrays) else None


def imposed(kind: str, action: Action, arrays: Arrays, rng: np.random.Generator, turn: int) -> dict[str, Array]:
    """The arrays of which one of ORBITS is made, those that change; `turn` is how often it was before."""
    present = {name: np.asarray(a) for name, a in arrays.items() if a is not None}
    if kind == "an orbit":
        return _orbit(action, present, arrays, rng, turn)
    if not action.moves_along_axes:
        return {}
    g = of_low_order(action, arrays, rng, 2, along_axes=True)
    if g is None:
        return {}
    each = powers(action, g, arrays)
    if kind == "a symmetric input":
        return {name: _least([x[name] for x in each]) for name, a in present.items() if a.dtype.kind != "c"}
    if len(each) % 2:
        return {}
    half = each[len(each) // 2]  # moved by an element of order 2, so that the opposite is exact
    real = {name: a for name, a in present.items() if a.dtype.kind in "fc" and not _equal(a, half[name])}
    return {name: (a - half[name]) / 2 for name, a in real.items()}


def _least(arrays: list[Array]) -> Array:
    return functools.reduce(np.minimum, arrays)


def _orbit(action: Action, present: Any, arrays: Arrays, rng: np.random.Generator, turn: int) -> dict[str, Array]:
    """Items k = g^k · item 0 along an axis, in all arrays that are as long; a few orbits one after the other."""
    axes = [(name, axis) for name, a in present.items() for axis, n in enumerate(a.shape) if n > 1]
    if not axes:
        return {}
    lengths = sorted({present[name].shape[axis] for name, axis in axes}, reverse=True)
    n = lengths[turn % len(lengths)]
    order = n if turn % 3 < 2 and n <= HIGHEST_ORDER else int(rng.integers(2, 5))
    g = of_low_order(action, arrays, rng, order)
    if g is None:
        return {}
    each = powers(action, g, arrays)
    found = {}
    for name, a in present.items():
        axis = next((axis for axis, length in enumerate(a.shape) if length == n), None)
        if axis is None:
            continue
        items = [np.take(each[k % len(each)][name], k // len(each), axis) for k in range(n)]
        found[name] = np.stack(items, axis).astype(a.dtype)
    return found


def _equal(a: Array, b: Array) -> bool:
    return a.shape == b.shape and bool(np.all((a == b) | (a != a)))


def _near(a: Array, b: Array) -> bool:
    """Equal but for some roundings of what acted often."""
    if a.shape != b.shape or a.dtype.kind not in "fc":
        return _equal(a, b)
    return bool(np.all(np.abs(a - b) <= 64 * np.finfo(a.dtype).eps * np.max(np.abs(a), initial=0)))
