"""Group actions: elements g that move arrays, such that moving twice is moving once by the product.

    act(g, act(h, x)) = act(g·h, x)        act(e, x) = x

An action names the arrays it moves; the others stay. The same element may act on the inputs of a function in one way
and on its output in another: a claim of equivariance pairs two such actions. `Trivial` moves nothing; `a * b` is both
at once, and its elements are pairs; `Inverse(a)` moves by g⁻¹. This file says what an action is. Permutations,
selections, prefixes, copies and flips are in places.py, shifts in shifts.py, those that change values in geometry.py
and matrices.py. An action of your own is a class with the methods of `Action`.
"""

import functools
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from refnp.autograd import Array, ArrayLike

Arrays = Mapping[str, ArrayLike | None]  # by name; None for an argument that is left out
Element = Any  # of a group: a tuple, an angle, a sign, whatever plain Python value the action chooses
Axes = int | tuple[int, ...]
Names = str | Sequence[str] | Mapping[str, Axes] | None
Indices = tuple[int, ...]

SMALL = 120  # a search tries every element of groups up to this size, 5!


class Action(ABC):
    """A group and the way it moves arrays. Elements are plain Python values; `an_element` says which, in words."""

    an_element: ClassVar[str] = "one that the action draws"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "act" in vars(cls) and not cls.__module__.startswith("refnp."):
            cls.act = _checked(cls.act)  # type: ignore[method-assign]

    @property
    @abstractmethod
    def group(self) -> Any:
        """Names the kind of element: two actions with an equal `group` can be given the same element."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, arrays: Arrays) -> Element:
        """A random element that can act on `arrays`."""

    @abstractmethod
    def identity(self, arrays: Arrays) -> Element:
        """The element that leaves `arrays` as they are."""

    @abstractmethod
    def compose(self, g: Element, h: Element) -> Element:
        """g·h: first h, then g."""

    @abstractmethod
    def act(self, g: Element, arrays: Arrays) -> dict[str, Any]:
        """All of `arrays`, those that the action names moved by g, in their own dtype; nothing is overwritten."""

    @abstractmethod
    def over(self, names: Names) -> "Action":
        """The same action on other arrays."""

    def simpler(self, g: Element) -> Iterable[Element]:
        """Elements nearer to the identity than g, the nearest first: what a counter-example is simplified by."""
        return ()

    def generators(self, arrays: Arrays) -> list[Element]:
        """A few elements whose products are the whole group, or the part of it that every search must try."""
        return []

    def elements(self, arrays: Arrays) -> list[Element] | None:
        """Every element of the group, or None if there are more than SMALL."""
        return None

    def is_element(self, g: Element) -> bool:
        """Whether g is of the kind that `an_element` describes; an action of your own need not say."""
        return True

    def refuse_others(self, g: Element) -> None:
        """Raises ValueError, with what an element is, for what is none."""
        if not self.is_element(g):
            raise ValueError(f"{type(self).__name__}: {g!r} is no element of {self}; give {self.an_element}")

    def fits(self, g: Element, arrays: Arrays) -> bool:
        """Whether g can act on these arrays, where that depends on their values."""
        return True

    def of_order(self, order: int, rng: np.random.Generator, arrays: Arrays) -> Element | None:
        """An element that gives the identity when taken `order` times, where one is known; otherwise None."""
        return None

    def inverse(self, g: Element) -> Element | None:
        """The element that undoes g, or None where there is none or it is not known."""
        return None

    def perturbed(self, g: Element, rng: np.random.Generator) -> Element:
        """g changed by a few roundings, where it is made of real numbers; otherwise g itself."""
        return g

    def identity_like(self, g: Element) -> Element:
        """The identity for the arrays on which g acts, where g tells what it is; otherwise g itself."""
        return g

    @property
    def has_edges(self) -> bool:
        """Whether entries can pass an edge, so that they are not compared: those of `Shift`."""
        return False

    @property
    def moves_along_axes(self) -> bool:
        """Whether `moved_axes` gives axes."""
        return False

    def moved_axes(self, name: str, array: Array) -> tuple[int, ...]:
        """The axes of one array along which entries change their places; none if only values change."""
        return ()

    def moved_masks(self, g: Element, masks: Mapping[str, Array]) -> dict[str, Array]:
        """Booleans that say something of each entry, moved as the entries are; False for what passed an edge."""
        return dict(masks)

    def describe(self, g: Element) -> str:
        """The element in words."""
        return repr(g)

    def __mul__(self, other: "Action") -> "Product":
        parts = [p.parts if isinstance(p, Product) else (p,) for p in (self, other)]
        return Product((*parts[0], *parts[1]))


class WithNeutral(Action):
    """An action whose identity is the same element for all arrays, `neutral`."""

    neutral: ClassVar[Element]

    def identity(self, arrays: Arrays) -> Element:
        return self.neutral

    def identity_like(self, g: Element) -> Element:
        return self.neutral


@dataclass(frozen=True)
class Trivial(Action):
    """Moves nothing, whatever the element: equivariance with a trivial output action is invariance."""

    group = None
    an_element = "anything"

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> None:
        return None

    def identity(self, arrays: Arrays) -> None:
        return None

    def compose(self, g: Element, h: Element) -> None:
        return None

    def inverse(self, g: Element) -> Element:
        return g

    def act(self, g: Element, arrays: Arrays) -> dict[str, Any]:
        return dict(arrays)

    def over(self, names: Names) -> Self:
        return self

    def elements(self, arrays: Arrays) -> list[Element]:
        return [None]

    def describe(self, g: Element) -> str:
        return "nothing"

    def __str__(self) -> str:
        return "nothing"


@dataclass(frozen=True)
class Product(Action):
    """Several actions at once; an element is a tuple with one of each. Those on the same array must commute."""

    parts: tuple[Action, ...]

    @property
    def an_element(self) -> str:  # type: ignore[override]
        return "a tuple with " + "; ".join(part.an_element for part in self.parts)

    def is_element(self, g: Element) -> bool:
        if not isinstance(g, (tuple, list)) or len(g) != len(self.parts):
            return False
        return all(part.is_element(element) for part, element in zip(self.parts, g, strict=True))

    def inverse(self, g: tuple) -> tuple | None:
        each = [part.inverse(element) for part, element in zip(self.parts, g, strict=True)]
        known = all(h is not None or isinstance(part, Trivial) for part, h in zip(self.parts, each, strict=True))
        return tuple(each) if known else None

    @property
    def group(self) -> tuple:
        return tuple(part.group for part in self.parts)

    def over(self, names: Names) -> "Product":
        return Product(tuple(part.over(names) for part in self.parts))

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> tuple:
        return tuple(part.draw(rng, arrays) for part in self.parts)

    def identity(self, arrays: Arrays) -> tuple:
        return tuple(part.identity(arrays) for part in self.parts)

    def compose(self, g: tuple, h: tuple) -> tuple:
        return tuple(part.compose(a, b) for part, a, b in zip(self.parts, g, h, strict=True))

    def act(self, g: tuple, arrays: Arrays) -> dict[str, Any]:
        if not isinstance(g, (tuple, list)) or len(g) != len(self.parts):
            self.refuse_others(g)
        moved = dict(arrays)
        for part, element in zip(self.parts, g, strict=True):
            moved = part.act(element, moved)
        return moved

    def simpler(self, g: tuple) -> Iterator[tuple]:
        """One part left out, then one part made simpler."""
        rest = self.identity_like(g)
        yield from ((*g[:i], rest[i], *g[i + 1 :]) for i in range(len(g)) if rest[i] != g[i])
        for i, part in enumerate(self.parts):
            for element in part.simpler(g[i]):
                yield (*g[:i], element, *g[i + 1 :])

    def generators(self, arrays: Arrays) -> list[tuple]:
        e = self.identity(arrays)
        return [(*e[:i], g, *e[i + 1 :]) for i, part in enumerate(self.parts) for g in part.generators(arrays)]

    def elements(self, arrays: Arrays) -> list[tuple] | None:
        lists = [part.elements(arrays) for part in self.parts]
        known = [elements for elements in lists if elements is not None]
        small = len(known) == len(lists) and math.prod(map(len, known)) <= SMALL
        return list(itertools.product(*known)) if small else None

    def fits(self, g: tuple, arrays: Arrays) -> bool:
        return all(part.fits(element, arrays) for part, element in zip(self.parts, g, strict=True))

    def perturbed(self, g: tuple, rng: np.random.Generator) -> tuple:
        return tuple(part.perturbed(element, rng) for part, element in zip(self.parts, g, strict=True))

    def identity_like(self, g: tuple) -> tuple:
        return tuple(part.identity_like(element) for part, element in zip(self.parts, g, strict=True))

    @property
    def has_edges(self) -> bool:
        return any(part.has_edges for part in self.parts)

    @property
    def moves_along_axes(self) -> bool:
        return any(part.moves_along_axes for part in self.parts)

    def moved_axes(self, name: str, array: Array) -> tuple[int, ...]:
        return tuple(dict.fromkeys(axis for part in self.parts for axis in part.moved_axes(name, array)))

    def moved_masks(self, g: tuple, masks: Mapping[str, Array]) -> dict[str, Array]:
        moved = dict(masks)
        for part, element in zip(self.parts, g, strict=True):
            moved = part.moved_masks(element, moved)
        return moved

    def describe(self, g: tuple) -> str:
        return "; ".join(part.describe(element) for part, element in zip(self.parts, g, strict=True))

    def __str__(self) -> str:
        return ", with ".join(map(str, self.parts))


@dataclass(frozen=True)
class NamedAction(Action):
    """An action on the arrays named in `on`: one name, several, a mapping from names to axes, or None for all."""

    on: Names = None

    def over(self, names: Names) -> Self:
        return replace(self, on=names)

    @abstractmethod
    def moved(self, g: Element, name: str, array: Array) -> Array:
        """One array, moved."""

    def act(self, g: Element, arrays: Arrays) -> dict[str, Any]:
        self.refuse_others(g)
        return {**arrays, **{name: self.moved(g, name, array) for name, array in self.chosen(arrays)}}

    def chosen(self, arrays: Arrays) -> list[tuple[str, Array]]:
        """The arrays that move, by name. Raises ValueError for a name that is not there."""
        return [(name, np.asarray(arrays[name])) for name in self.chosen_names(arrays) if arrays[name] is not None]

    def chosen_names(self, arrays: Mapping[str, Any]) -> list[str]:
        """The names of what moves. Raises ValueError for one that is not there."""
        names = list(arrays) if self.on is None else [self.on] if isinstance(self.on, str) else list(self.on)
        for name in names:
            if name not in arrays:
                raise ValueError(f"{type(self).__name__}: there is no array {name!r}; there are {', '.join(arrays)}")
        return names

    def refuse_axis(self, name: str, shape: Sequence[Any], axis: int) -> None:
        """Raises ValueError for an axis that an array of this shape has not."""
        if not -len(shape) <= axis < len(shape):
            raise ValueError(f"{type(self).__name__}: {name} has shape {shape}, and so no axis {axis}")

    def names(self, name: str) -> bool:
        """Whether an array of this name moves."""
        return self.on is None or name in ([self.on] if isinstance(self.on, str) else self.on)

    def where(self) -> str:
        """What moves, in words."""
        if self.on is None:
            return "everything"
        return self.on if isinstance(self.on, str) else " and ".join(self.on)


@dataclass(frozen=True)
class AxisAction(NamedAction):
    """An action along an axis; `axis` may be several, all moved alike, and `on` may give each name its own."""

    axis: Axes = -1

    def __post_init__(self) -> None:
        for axis in (self.axis, *(self.on.values() if isinstance(self.on, Mapping) else ())):
            if not is_whole(axis) and not are_whole(axis):
                raise TypeError(f"{type(self).__name__}: axis is {axis!r}; it must be a whole number, or several")

    def axes(self, name: str, array: Array) -> tuple[int, ...]:
        """The axes of one array along which it moves. Raises ValueError for an axis that it has not."""
        axis = self.on[name] if isinstance(self.on, Mapping) else self.axis
        axes = (axis,) if isinstance(axis, int) else tuple(axis)
        for a in axes:
            self.refuse_axis(name, array.shape, a)
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

    def moved_axes(self, name: str, array: Array) -> tuple[int, ...]:
        return self.axes(name, array) if self.moves_along_axes and self.names(name) else ()

    def moved_masks(self, g: Element, masks: Mapping[str, Array]) -> dict[str, Array]:
        return self.act(g, masks) if self.moves_along_axes else dict(masks)

    def where(self) -> str:
        if isinstance(self.on, Mapping):
            return " and ".join(f"{_axis(axis)} of {name}" for name, axis in self.on.items())
        return _axis(self.axis) + ("" if self.on is None else f" of {super().where()}")


def _axis(axis: Axes) -> str:
    return f"axis {axis}" if isinstance(axis, int) else f"axes {axis}"


def _checked(act: Callable[..., Any]) -> Callable[..., Any]:
    """`act` of an action of one's own. Raises TypeError unless it gives all arrays, ValueError if it overwrites one."""

    @functools.wraps(act)
    def checked(self: Action, g: Element, arrays: Arrays) -> dict[str, Any]:
        name = f"{type(self).__name__}.act"
        before = {key: None if a is None else np.array(a) for key, a in arrays.items()}
        found = act(self, g, arrays)
        if not isinstance(found, Mapping) or found.keys() != before.keys():
            given = list(found) if isinstance(found, Mapping) else type(found).__name__
            raise TypeError(f"{name}: it gives {given} for {g!r}; return all of {list(before)}, those that stay too")
        for key, a in before.items():
            if a is not None and not np.array_equal(a, np.asarray(arrays[key]), equal_nan=a.dtype.kind in "fc"):
                raise ValueError(f"{name}: it overwrites {key}; change a copy of it and return that")
        return dict(found)

    return checked


def is_whole(number: Any) -> bool:
    """Whether it is a whole number, of Python or NumPy, and no truth value."""
    return isinstance(number, (int, np.integer)) and not isinstance(number, bool)


def are_whole(numbers: Any) -> bool:
    """Whether it is a list, tuple or array of whole numbers."""
    if isinstance(numbers, np.ndarray):
        return numbers.ndim == 1 and numbers.dtype.kind in "iu"
    return isinstance(numbers, (tuple, list)) and all(type(n) is int or is_whole(n) for n in numbers)


def is_real(number: Any) -> bool:
    """Whether it is a finite real number."""
    return (is_whole(number) or isinstance(number, (float, np.floating))) and bool(np.isfinite(number))
