"""A group action: elements g that move arrays, such that moving twice is moving once by the product.

    act(g, act(h, x)) = act(g·h, x)        act(e, x) = x

An action says which named arrays it moves and how; the same element may act on inputs in one way and on the output in
another. A claim of equivariance pairs two such actions. `Trivial` moves nothing; `a * b` is both at once, its elements
are pairs. Actions are written here for permutations, shifts, translations, turns, signs and scales; a class with the
methods of `Action` is one more.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Arrays = Mapping[str, Any]  # name → array, or None for an argument that is left out
Axes = int | tuple[int, ...]
Names = str | Sequence[str] | Mapping[str, Axes] | None

SMALL = 120  # groups of up to 5! elements are searched through


class Action(ABC):
    """What a search needs to know of a group and of the way it moves arrays. Elements are plain Python values."""

    @property
    @abstractmethod
    def group(self) -> Any:
        """Names the kind of element: two actions with an equal `group` can be given the same element."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, arrays: Arrays) -> Any:
        """A random element that can act on `arrays`."""

    @abstractmethod
    def identity(self, arrays: Arrays) -> Any:
        """The element that leaves `arrays` as they are."""

    @abstractmethod
    def compose(self, g: Any, h: Any) -> Any:
        """g·h: first h, then g."""

    @abstractmethod
    def act(self, g: Any, arrays: Arrays) -> dict[str, Any]:
        """All of `arrays` again, those that the action moves moved by g, in their own dtype; nothing is overwritten."""

    @abstractmethod
    def over(self, names: Names) -> Action:
        """The same action on other arrays."""

    def simpler(self, g: Any) -> Iterable[Any]:
        """Elements nearer to the identity than g, the nearest first."""
        return ()

    def generators(self, arrays: Arrays) -> list[Any]:
        """A few elements whose products are the whole group, or as much of it as a search should not miss."""
        return []

    def elements(self, arrays: Arrays) -> list[Any] | None:
        """Every element of the group, if there are at most SMALL."""
        return None

    def fits(self, g: Any, arrays: Arrays) -> bool:
        """Whether g can act on these arrays; what it can act on may change with their values."""
        return True

    def near(self, g: Any, rng: np.random.Generator) -> Any:
        """An element a few roundings from g, where g is made of real numbers that are rounded when it acts."""
        return g

    def written(self, g: Any) -> str:
        """The element in words."""
        return repr(g)

    def __mul__(self, other: Action) -> Product:
        parts = [p.parts if isinstance(p, Product) else (p,) for p in (self, other)]
        return Product((*parts[0], *parts[1]))


@dataclass(frozen=True)
class Named(Action):
    """An action on the arrays named in `on`: one name, several, a mapping from names to axes, or None for all."""

    on: Names = None

    def over(self, names: Names) -> Named:
        return replace(self, on=names)

    @abstractmethod
    def moved(self, g: Any, name: str, array: np.ndarray) -> np.ndarray:
        """One array, moved."""

    def act(self, g: Any, arrays: Arrays) -> dict[str, Any]:
        return {**arrays, **{name: self.moved(g, name, array) for name, array in self.chosen(arrays)}}

    def chosen(self, arrays: Arrays) -> list[tuple[str, np.ndarray]]:
        """The arrays that move, by name. Raises ValueError for a name that is not there."""
        names = list(arrays) if self.on is None else [self.on] if isinstance(self.on, str) else list(self.on)
        for name in names:
            if name not in arrays:
                raise ValueError(f"{type(self).__name__}: there is no array {name!r}; there are {', '.join(arrays)}")
        return [(name, np.asarray(arrays[name])) for name in names if arrays[name] is not None]

    def where(self) -> str:
        """What moves, in words."""
        if self.on is None:
            return "everything"
        return self.on if isinstance(self.on, str) else " and ".join(self.on)


@dataclass(frozen=True)
class Placed(Named):
    """An action along an axis; `axis` may be several, all moved alike, and `on` may give each name its own."""

    axis: Axes = -1

    def axes(self, name: str, array: np.ndarray) -> tuple[int, ...]:
        """The axes of one array along which it moves. Raises ValueError for an axis that it has not."""
        axis = self.on[name] if isinstance(self.on, Mapping) else self.axis
        axes = (axis,) if isinstance(axis, int) else tuple(axis)
        for a in axes:
            if not -array.ndim <= a < array.ndim:
                raise ValueError(f"{type(self).__name__}: {name} has shape {array.shape}, and so no axis {a}")
        return axes

    def lengths(self, arrays: Arrays) -> dict[str, int]:
        """The length of the moved axis in each array. Raises ValueError if the axes of one differ."""
        found = {}
        for name, array in self.chosen(arrays):
            lengths = {array.shape[a] for a in self.axes(name, array)}
            if len(lengths) != 1:
                raise ValueError(
                    f"{type(self).__name__}: {name} has shape {array.shape}; its axes {self.axes(name, array)} move "
                    "alike and must be equally long"
                )
            found[name] = lengths.pop()
        return found

    def length(self, arrays: Arrays) -> int:
        """The one length of the moved axis. Raises ValueError if arrays differ in it, or none is there."""
        lengths = self.lengths(arrays)
        if len(set(lengths.values())) != 1:
            told = ", ".join(f"{name} has {n}" for name, n in lengths.items()) or "there is none"
            raise ValueError(f"{type(self).__name__}: arrays that move together must be equally long; {told}")
        return next(iter(lengths.values()))

    def where(self) -> str:
        if isinstance(self.on, Mapping):
            return " and ".join(f"{_axis(axis)} of {name}" for name, axis in self.on.items())
        return _axis(self.axis) + ("" if self.on is None else f" of {super().where()}")


def _axis(axis: Axes) -> str:
    return f"axis {axis}" if isinstance(axis, int) else f"axes {axis}"


@dataclass(frozen=True)
class Trivial(Action):
    """Moves nothing, whatever the element: equivariance with a trivial output action is invariance."""

    group = None

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> Any:
        return None

    def identity(self, arrays: Arrays) -> Any:
        return None

    def compose(self, g: Any, h: Any) -> Any:
        return None

    def act(self, g: Any, arrays: Arrays) -> dict[str, Any]:
        return dict(arrays)

    def over(self, names: Names) -> Trivial:
        return self

    def elements(self, arrays: Arrays) -> list[Any]:
        return [None]

    def written(self, g: Any) -> str:
        return "nothing"

    def __str__(self) -> str:
        return "nothing"


@dataclass(frozen=True)
class Product(Action):
    """Several actions at once; an element is a tuple with one of each. Those on the same array must commute."""

    parts: tuple[Action, ...]

    @property
    def group(self) -> tuple:
        return tuple(part.group for part in self.parts)

    def over(self, names: Names) -> Product:
        return Product(tuple(part.over(names) for part in self.parts))

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> tuple:
        return tuple(part.draw(rng, arrays) for part in self.parts)

    def identity(self, arrays: Arrays) -> tuple:
        return tuple(part.identity(arrays) for part in self.parts)

    def compose(self, g: tuple, h: tuple) -> tuple:
        return tuple(part.compose(a, b) for part, a, b in zip(self.parts, g, h, strict=True))

    def act(self, g: tuple, arrays: Arrays) -> dict[str, Any]:
        moved = dict(arrays)
        for part, element in zip(self.parts, g, strict=True):
            moved = part.act(element, moved)
        return moved

    def simpler(self, g: tuple) -> Iterator[tuple]:
        for i, part in enumerate(self.parts):
            for element in part.simpler(g[i]):
                yield (*g[:i], element, *g[i + 1 :])

    def generators(self, arrays: Arrays) -> list[tuple]:
        rest = self.identity(arrays)
        return [
            (*rest[:i], element, *rest[i + 1 :])
            for i, part in enumerate(self.parts)
            for element in part.generators(arrays)
        ]

    def elements(self, arrays: Arrays) -> list[tuple] | None:
        each: list[list] = []
        for part in self.parts:
            all_of_it = part.elements(arrays)
            if all_of_it is None:
                return None
            each.append(all_of_it)
        return list(itertools.product(*each)) if math.prod(map(len, each)) <= SMALL else None

    def fits(self, g: tuple, arrays: Arrays) -> bool:
        return all(part.fits(element, arrays) for part, element in zip(self.parts, g, strict=True))

    def near(self, g: tuple, rng: np.random.Generator) -> tuple:
        return tuple(part.near(element, rng) for part, element in zip(self.parts, g, strict=True))

    def written(self, g: tuple) -> str:
        return "; ".join(part.written(element) for part, element in zip(self.parts, g, strict=True))

    def __str__(self) -> str:
        return ", with ".join(map(str, self.parts))
