"""A group action: elements g that move arrays, such that moving twice is moving once by the product.

    act(g, act(h, x)) = act(g·h, x)        act(e, x) = x

An action says which named arrays it moves and how; the same element may act on inputs in one way and on the output in
another. A claim of equivariance pairs two such actions. `Trivial` moves nothing; `a * b` is both at once, its elements
are pairs. Actions are written here for permutations, shifts, translations, turns, signs and scales; a class with the
methods of `Action` is one more.

Permutations of an axis, and selections from it.

    Permute:  y_i = x_{g(i)},  g a permutation            tokens in another order; features renamed, with axis=-1
    Select:   y_i = x_{g(i)},  g any list of places       some left out, some taken twice

Selections are no group, for nothing brings back what was left out, but they compose. Equivariance under them says that
what happens at a place depends on that place alone: items of a batch, or targets, that are asked one by one.

Shifts of a sequence: round a ring, or along a line as far as the content fits.

    Roll:   y_i = x_{(i − k s) mod n}                   k any integer, s the step: shifts by multiples of s
    Slide:  the same, for those k only by which nothing that is present goes over the edge

On a ring shifts are a group with n / gcd(n, s) elements, and all are tried. A finite window of the line has no shifts
of its own; a claim about ℤ is one about content and a mask that travels with it, which is what `Slide` moves.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
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


Order = tuple[int, ...]


@dataclass(frozen=True)
class Permute(Placed):
    """All orders of an axis, the same in every array that is named: Permute({"x": -2, "mask": (-2, -1)})."""

    group = "permutations"

    def moved(self, g: Order, name: str, array: np.ndarray) -> np.ndarray:
        return _taken(self, g, name, array)

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> Order:
        return tuple(rng.permutation(self.length(arrays)).tolist())

    def identity(self, arrays: Arrays) -> Order:
        return tuple(range(self.length(arrays)))

    def compose(self, g: Order, h: Order) -> Order:
        return tuple(h[i] for i in g)

    def generators(self, arrays: Arrays) -> list[Order]:
        """The exchange of the first two, and the cycle: their products are all orders. And the reversal."""
        n = self.length(arrays)
        if n < 2:
            return []
        return [_exchanged(n, 0, 1), (*range(1, n), 0), tuple(range(n - 1, -1, -1))]

    def elements(self, arrays: Arrays) -> list[Order] | None:
        n = self.length(arrays)
        return list(itertools.permutations(range(n))) if n < SMALL and math.factorial(n) <= SMALL else None

    def simpler(self, g: Order) -> Iterator[Order]:
        """Exchanges of two places, those at the front first; then g with one more place left where it is."""
        n, astray = len(g), [i for i, j in enumerate(g) if i != j]
        pairs = itertools.combinations(range(n), 2) if n <= 6 else itertools.pairwise(range(n))
        for i, j in sorted(pairs, key=lambda pair: (sum(pair), pair)):
            if len(astray) > 2 or (sum(astray), astray) > (i + j, [i, j]):
                yield _exchanged(n, i, j)
        if len(astray) > 2:
            for i in astray:
                order = list(g)
                order[order.index(i)], order[i] = order[i], i
                yield tuple(order)

    def written(self, g: Order) -> str:
        return f"order {list(g)}"

    def __str__(self) -> str:
        return f"permutations of {self.where()}"


@dataclass(frozen=True)
class Select(Placed):
    """Lists of places of an axis, with omissions and repetitions; at least one place, if there are any."""

    group = "selections"

    def moved(self, g: Order, name: str, array: np.ndarray) -> np.ndarray:
        return _taken(self, g, name, array)

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> Order:
        n = self.length(arrays)
        return tuple(rng.integers(0, n, rng.integers(1, n + 2)).tolist()) if n else ()

    def identity(self, arrays: Arrays) -> Order:
        return tuple(range(self.length(arrays)))

    def compose(self, g: Order, h: Order) -> Order:
        return tuple(h[i] for i in g)

    def generators(self, arrays: Arrays) -> list[Order]:
        """Leave out each place, exchange the first two, take the first twice."""
        n = self.length(arrays)
        if not n:
            return []
        without = [tuple(j for j in range(n) if j != i) for i in range(n)] if n > 1 else []
        return [*without, *([_exchanged(n, 0, 1)] if n > 1 else []), (0, *range(n))]

    def simpler(self, g: Order) -> Iterator[Order]:
        """One place alone, then one place fewer, then places in order."""
        if len(g) > 1:
            yield from ((i,) for i in sorted(set(g)))
            yield from (g[:i] + g[i + 1 :] for i in range(len(g)))
        if list(g) != sorted(g):
            yield tuple(sorted(g))

    def written(self, g: Order) -> str:
        return f"places {list(g)}"

    def __str__(self) -> str:
        return f"selections from {self.where()}"


def _exchanged(n: int, i: int, j: int) -> Order:
    order = list(range(n))
    order[i], order[j] = j, i
    return tuple(order)


def _taken(action: Placed, g: Order, name: str, array: np.ndarray) -> np.ndarray:
    places = np.asarray(g, np.intp)
    for axis in action.axes(name, array):
        needed = len(g) if isinstance(action, Permute) else max(g, default=-1) + 1
        if array.shape[axis] != needed if isinstance(action, Permute) else array.shape[axis] < needed:
            raise ValueError(
                f"{type(action).__name__}: {name} has {array.shape[axis]} places along axis {axis}, "
                f"the element needs {needed}"
            )
        array = np.take(array, places, axis)
    return array


@dataclass(frozen=True)
class Roll(Placed):
    """Shifts round a ring by multiples of `step`; the element is the multiple k.

    Input and output may have steps of their own: a convolution with stride 2 takes Roll(step=2) to Roll(step=1).
    """

    _: KW_ONLY
    step: int = 1

    group = "shifts"

    def moved(self, g: int, name: str, array: np.ndarray) -> np.ndarray:
        axes = self.axes(name, array)
        return np.roll(array, (g * self.step,) * len(axes), axes)

    def order(self, arrays: Arrays) -> int:
        """How many different shifts there are, over all arrays together."""
        return math.lcm(*(n // math.gcd(n, self.step) for n in self.lengths(arrays).values() if n))

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> int:
        return int(rng.integers(0, self.order(arrays)))

    def identity(self, arrays: Arrays) -> int:
        return 0

    def compose(self, g: int, h: int) -> int:
        return g + h

    def generators(self, arrays: Arrays) -> list[int]:
        return [1] if self.order(arrays) > 1 else []

    def elements(self, arrays: Arrays) -> list[int] | None:
        order = self.order(arrays)
        return list(range(order)) if order <= SMALL else None

    def simpler(self, g: int) -> Iterator[int]:
        nearer = dict.fromkeys((1, -1, g // 2, g - 1 if g > 0 else g + 1))
        yield from (k for k in nearer if k and (abs(k), k < 0) < (abs(g), g < 0))

    def written(self, g: int) -> str:
        return f"shift by {g * self.step}"

    def __str__(self) -> str:
        multiples = "" if self.step == 1 else f" by multiples of {self.step}"
        return f"shifts on a ring{multiples}, {self.where()}"


@dataclass(frozen=True)
class Slide(Roll):
    """Shifts within a window, the content with its mask; `present` names the mask, True where there is content.

    The mask (..., N) must be among the arrays that move. What is behind the mask moves along and goes round.
    """

    _: KW_ONLY
    present: str = "mask"

    def elements(self, arrays: Arrays) -> list[int] | None:
        """All shifts that keep what is present inside: from first + k s ≥ 0 and last + k s < n."""
        if self.present not in arrays:
            raise ValueError(f"Slide: there is no array {self.present!r} that says what is present")
        mask = np.asarray(arrays[self.present])
        places = np.flatnonzero(mask.reshape(-1, mask.shape[-1]).any(0)) if mask.size else np.zeros(0, int)
        if not len(places):
            return [0]
        first, last = -(int(places[0]) // self.step), (mask.shape[-1] - 1 - int(places[-1])) // self.step
        return sorted(range(first, last + 1), key=lambda k: (abs(k), k < 0))

    def fits(self, g: int, arrays: Arrays) -> bool:
        return g in (self.elements(arrays) or [])

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> int:
        return int(rng.choice(self.elements(arrays) or [0]))

    def generators(self, arrays: Arrays) -> list[int]:
        return [k for k in self.elements(arrays) or [] if abs(k) == 1]

    def __str__(self) -> str:
        multiples = "" if self.step == 1 else f" by multiples of {self.step}"
        return f"shifts in the window of {self.present}{multiples}, {self.where()}"
