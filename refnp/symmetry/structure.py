"""Structure that is imposed on inputs as they are drawn: what random numbers never have, and where code goes wrong.

    items     one repeated, all equal, one the opposite of another, one of another array, one of zeros, scaled each
    numbers   ties, some zeros, all zeros, ones, a constant, whole ones and halves, equal sizes, one sign
    order     sorted, reversed

What the group itself makes special is in orbits.py. The draw stays the user's: what all draws have in common is kept
(constraints.py). Only numbers that differ between two draws are touched, so fixed grids and constants stay as
they are, and so do zeros among other numbers, such as padding. An array in ascending order stays in it. Arrays
with numbers of one sign keep it, and whole numbers and booleans stay among the values that are drawn. Items are
repeated in all arrays that have them, along every axis: a mask follows its tokens. What is done to numbers is done to
all arrays, then to each alone, in turn.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from refnp.autograd import Array
from refnp.symmetry.constraints import Constraints

NEAR_HALF = 0.15  # of a half, and a number becomes one


class Drawn:
    """Arrays as they were drawn, which of their numbers are free to change, and a random generator for choices.

    `again` is a second draw, `lengths` those of axes that hold items, `turn` how often a kind was imposed before,
    `constraints` what all draws have in common.
    """

    def __init__(
        self,
        arrays: Mapping[str, Any],
        again: Mapping[str, Any],
        rng: np.random.Generator,
        lengths: Sequence[int] = (),
        turn: int = 0,
        constraints: Constraints | None = None,
    ):
        self.constraints = constraints
        self.rng, self.lengths, self.turn = rng, lengths, turn
        self.arrays = {name: np.asarray(a) for name, a in arrays.items() if a is not None}
        self.free: dict[str, Array] = {}
        self.values: dict[str, Array] = {}
        for name, a in self.arrays.items():
            other = None if again.get(name) is None else np.asarray(again[name])
            alike = other is not None and other.shape == a.shape
            free = a != other if alike else np.ones(a.shape, bool)
            if a.dtype.kind in "fc" and a.any():
                free &= a != 0
            pool = [a] if other is None else [a, other.astype(a.dtype)]
            self.values[name] = np.concatenate([each.ravel() for each in pool])
            self.free[name] = np.broadcast_to(False, a.shape) if self.is_ordered(name) else free
            if a.dtype.kind == "b":  # booleans of two draws are often equal
                self.free[name] = np.broadcast_to(bool(np.any(free)), a.shape)

    def is_ordered(self, name: str) -> bool:
        """Whether the array ascends: in all draws, or along an axis of at least 4, which is hardly chance."""
        if self.constraints is not None and self.constraints.names(name, "scending along axis"):
            return True
        a = self.arrays[name]
        if a.dtype.kind not in "iuf":
            return False
        return any(n >= 4 and bool(np.all(np.diff(a, axis=axis) > 0)) for axis, n in enumerate(a.shape))

    def may_be(self, name: str, number: float) -> bool:
        """Whether this number lies among those that are drawn; any real number, if they have both signs."""
        values = self.values[name]
        if values.dtype.kind == "c":
            return True
        least, most = values.min(), values.max()
        signed = values.dtype.kind == "f" and least < 0 < most
        return bool(signed or least <= number <= most)

    def replaced(self, name: str, numbers: Any) -> Array:
        """The array with these in place of the numbers that are free."""
        a = self.arrays[name]
        return np.where(self.free[name], numbers, a).astype(a.dtype)

    def different(self, found: Mapping[str, Array]) -> dict[str, Array] | None:
        """Those of the arrays that differ from what was drawn; None if there are none."""
        return {name: a for name, a in found.items() if not np.array_equal(a, self.arrays[name])} or None

    def one_of(self, name: str) -> Any:
        """One of the free numbers of the array."""
        return self.rng.choice(self.arrays[name][self.free[name]])

    def items(self, name: str) -> tuple[int, Array]:
        """An axis, every one in turn, and a copy of the array with that axis first."""
        a = self.arrays[name]
        axis = self.turn % a.ndim
        return axis, np.moveaxis(a.copy(), axis, 0)


def _filled(number: float) -> Callable[[Drawn, str], Any]:
    return lambda drawn, name: number if drawn.may_be(name, number) else None


def _ties(drawn: Drawn, name: str) -> Array:
    """Every number one of two that were drawn."""
    a, b = drawn.one_of(name), drawn.one_of(name)
    return np.where(drawn.rng.random(drawn.arrays[name].shape) < 0.5, a, b)


def _some_zeros(drawn: Drawn, name: str) -> Array | None:
    a = drawn.arrays[name]
    return np.where(drawn.rng.random(a.shape) < 0.5, 0, a) if drawn.may_be(name, 0) else None


def _zero_item(drawn: Drawn, name: str) -> Array | None:
    if not drawn.may_be(name, 0) or not drawn.arrays[name].ndim:
        return None
    axis, items = drawn.items(name)
    items[drawn.rng.integers(len(items))] = 0
    return np.moveaxis(items, 0, axis)


def _opposite(drawn: Drawn, name: str) -> Array | None:
    a = drawn.arrays[name]
    if not a.ndim or a.dtype.kind not in "fc" or not drawn.may_be(name, -np.abs(a).max()):
        return None
    axis, items = drawn.items(name)
    i, j = drawn.rng.permutation(len(items))[:2] if len(items) > 1 else (0, 0)
    items[i] = -items[j]
    return np.moveaxis(items, 0, axis)


def _whole(drawn: Drawn, name: str) -> Array | None:
    """Rounded, to halves what is near them; where all would be zero, the sign."""
    a = drawn.arrays[name]
    if a.dtype.kind != "f":
        return None
    middle = np.floor(a) + 0.5
    rounded = np.where(np.abs(a - middle) < NEAR_HALF, middle, np.rint(a) + 0.0)
    return np.sign(a) if not rounded.any() and drawn.may_be(name, 1) else rounded


def _positive(drawn: Drawn, name: str) -> Array | None:
    return np.abs(drawn.arrays[name]) if drawn.arrays[name].dtype.kind in "if" else None


def _negative(drawn: Drawn, name: str) -> Array | None:
    a = drawn.arrays[name]
    return -np.abs(a) if a.dtype.kind in "if" and drawn.may_be(name, -float(np.abs(a).max())) else None


def _equal_sizes(drawn: Drawn, name: str) -> Array | None:
    """Every number c or −c: rows of equal norm, which differ."""
    a = drawn.arrays[name]
    size = np.abs(drawn.one_of(name))
    return np.sign(a) * size if a.dtype.kind == "f" and drawn.may_be(name, -size) else None


def _in_order(step: int) -> Callable[[Drawn, str], Array | None]:
    def in_order(drawn: Drawn, name: str) -> Array | None:
        if not drawn.arrays[name].ndim:
            return None
        axis, items = drawn.items(name)
        return np.moveaxis(np.sort(items, 0)[::step], 0, axis)

    return in_order


NUMBERS: dict[str, Callable[[Drawn, str], Any]] = {
    "ties": _ties,
    "some zeros": _some_zeros,
    "a zero item": _zero_item,
    "zeros": _filled(0),
    "ones": _filled(1),
    "a constant": lambda drawn, name: drawn.one_of(name),
    "whole numbers and halves": _whole,
    "equal sizes": _equal_sizes,
    "positive": _positive,
    "negative": _negative,
    "sorted": _in_order(1),
    "reversed": _in_order(-1),
    "an opposite item": _opposite,
}
ITEMS = ("a repeated item", "equal items")
KINDS = (*ITEMS, "a shared item", "items of very different scales", *NUMBERS)


def impose(kind: str, drawn: Drawn, scales: Mapping[str, Sequence[float]]) -> dict[str, Array] | None:
    """The arrays that change with this structure, new; None if there are none. `scales` has those of each array."""
    if kind in ITEMS:
        found = _repeated(drawn, everywhere=kind == "equal items")
    elif kind == "a shared item":
        found = _shared(drawn)
    else:
        names = [name for name in drawn.arrays if drawn.free[name].any()]
        if names and drawn.turn:
            names = [names[(drawn.turn - 1) % len(names)]]
        found = {}
        for name in names:
            numbers = NUMBERS[kind](drawn, name) if kind in NUMBERS else _scaled(drawn, name, scales[name])
            if numbers is not None:
                found[name] = drawn.replaced(name, numbers)
    return drawn.different(found)


def _repeated(drawn: Drawn, everywhere: bool) -> dict[str, Array]:
    """One item at a second place, or at all, in all arrays and along all axes as long as one that is chosen."""
    free = [name for name in drawn.arrays if drawn.free[name].any()]
    axes = [(name, axis) for name in free for axis, n in enumerate(drawn.arrays[name].shape) if n > 1]
    lengths = sorted({drawn.arrays[name].shape[axis] for name, axis in axes})
    if not lengths:
        return {}
    items = [n for n in lengths if n in drawn.lengths] or lengths
    n = items[drawn.turn // 2 % len(items)]
    if drawn.turn % 2:  # along one axis of one array alone, features if there are
        features = [(name, axis) for name, axis in axes if drawn.arrays[name].shape[axis] not in items] or axes
        axes = [features[int(drawn.rng.integers(len(features)))]]
        n = drawn.arrays[axes[0][0]].shape[axes[0][1]]
    to, source = drawn.rng.permutation(n)[:2]
    places = np.full(n, source) if everywhere else np.where(np.arange(n) == to, source, np.arange(n))
    if any(map(drawn.is_ordered, drawn.arrays)):
        places = np.sort(places)
    found = dict(drawn.arrays)
    for name, axis in axes:
        if found[name].shape[axis] == n:
            found[name] = np.take(found[name], places, axis)
    return {
        name: np.where(drawn.free[name] | drawn.is_ordered(name), a, drawn.arrays[name]) for name, a in found.items()
    }


def _shared(drawn: Drawn) -> dict[str, Array]:
    """An item of one array in another that has items of the same shape: a target at a point of the context."""
    real = [name for name, a in drawn.arrays.items() if a.ndim and len(a) and a.dtype.kind in "fc"]
    pairs = [
        (one, other)
        for one in real
        for other in real
        if one != other and drawn.arrays[one].shape[1:] == drawn.arrays[other].shape[1:] and drawn.free[other].any()
    ]
    if not pairs:
        return {}
    one, other = pairs[int(drawn.rng.integers(len(pairs)))]
    changed = drawn.arrays[other].copy()
    changed[drawn.rng.integers(len(changed))] = drawn.rng.choice(drawn.arrays[one], axis=0)
    return {other: drawn.replaced(other, changed)}


def _scaled(drawn: Drawn, name: str, scales: Sequence[float]) -> Array | None:
    """Every item times one of the scales."""
    a = drawn.arrays[name]
    if a.dtype.kind not in "fc" or not a.ndim or len(a) < 2 or len(scales) < 2:
        return None
    factors = drawn.rng.choice(np.asarray(scales), len(a)).reshape(-1, *[1] * (a.ndim - 1))
    return a * factors
