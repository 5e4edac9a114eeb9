"""Group actions: elements g that move arrays, such that moving twice is moving once by the product.

    act(g, act(h, x)) = act(g·h, x)        act(e, x) = x

An action names the arrays it moves; the others stay. The same element may act on the inputs of a function in one way
and on its output in another: a claim of equivariance pairs two such actions. `Trivial` moves nothing; `a * b` is both
at once, and its elements are pairs. This file has what an action is, and those that move entries along an axis:

    Permute   y_i = x_{g(i)},  g a permutation          tokens in another order; with axis=-1 features
    Select    y_i = x_{g(i)},  g any list of indices    some left out, some repeated
    Roll      y_i = x_{(i − k s) mod n}                 k any integer, s the step: circular shifts by multiples of s
    Slide     the same, for those k only by which no entry that is present passes the edge
    Shift     the same, for functions of a window: what passes the edge is not compared

geometry.py has those that change values. An action of your own is a class with the methods of `Action`.
"""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np

from refnp.autograd import Array, ArrayLike

Arrays = Mapping[str, ArrayLike | None]  # by name; None for an argument that is left out
Element = Any  # of a group: a tuple, an angle, a sign, whatever plain Python value the action chooses
Axes = int | tuple[int, ...]
Names = str | Sequence[str] | Mapping[str, Axes] | None
Indices = tuple[int, ...]

SMALL = 120  # a search tries every element of groups up to this size, 5!


class Action(ABC):
    """A group and the way it moves arrays. Elements are plain Python values."""

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

    def fits(self, g: Element, arrays: Arrays) -> bool:
        """Whether g can act on these arrays, where that depends on their values."""
        return True

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


@dataclass(frozen=True)
class Trivial(Action):
    """Moves nothing, whatever the element: equivariance with a trivial output action is invariance."""

    group = None

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> None:
        return None

    def identity(self, arrays: Arrays) -> None:
        return None

    def compose(self, g: Element, h: Element) -> None:
        return None

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
        return {**arrays, **{name: self.moved(g, name, array) for name, array in self.chosen(arrays)}}

    def chosen(self, arrays: Arrays) -> list[tuple[str, Array]]:
        """The arrays that move, by name. Raises ValueError for a name that is not there."""
        names = list(arrays) if self.on is None else [self.on] if isinstance(self.on, str) else list(self.on)
        for name in names:
            if name not in arrays:
                raise ValueError(f"{type(self).__name__}: there is no array {name!r}; there are {', '.join(arrays)}")
        return [(name, np.asarray(arrays[name])) for name in names if arrays[name] is not None]

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

    def axes(self, name: str, array: Array) -> tuple[int, ...]:
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


class Reindexing(AxisAction):
    """y_i = x_{g(i)} along an axis: what permutations and selections have in common."""

    moves_along_axes = True

    def moved(self, g: Indices, name: str, array: Array) -> Array:
        for axis in self.axes(name, array):
            n, needed = array.shape[axis], max(g, default=-1) + 1
            if n < needed or (isinstance(self, Permute) and n > needed):
                raise ValueError(
                    f"{type(self).__name__}: {name} has {n} places along axis {axis}, the element needs {needed}"
                )
            array = np.take(array, np.asarray(g, np.intp), axis)
        return array

    def identity(self, arrays: Arrays) -> Indices:
        return tuple(range(self.length(arrays)))

    def compose(self, g: Indices, h: Indices) -> Indices:
        return tuple(h[i] for i in g)


@dataclass(frozen=True)
class Permute(Reindexing):
    """All orders of an axis, the same in every array that is named: Permute({"x": -2, "mask": (-2, -1)})."""

    group = "permutations"

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> Indices:
        return tuple(rng.permutation(self.length(arrays)).tolist())

    def generators(self, arrays: Arrays) -> list[Indices]:
        """The exchange of the first two and the cycle, whose products are all orders; and the reversal."""
        n = self.length(arrays)
        return [_exchange(n, 0, 1), (*range(1, n), 0), tuple(range(n - 1, -1, -1))] if n >= 2 else []

    def elements(self, arrays: Arrays) -> list[Indices] | None:
        n = self.length(arrays)
        return list(itertools.permutations(range(n))) if n < SMALL and math.factorial(n) <= SMALL else None

    def simpler(self, g: Indices) -> Iterator[Indices]:
        """Exchanges of two entries, those at the front first; then g with one more entry left where it is."""
        n, displaced = len(g), [i for i, j in enumerate(g) if i != j]
        pairs = itertools.combinations(range(n), 2) if n <= 6 else itertools.pairwise(range(n))
        for i, j in sorted(pairs, key=lambda pair: (sum(pair), pair)):
            if len(displaced) > 2 or (sum(displaced), displaced) > (i + j, [i, j]):
                yield _exchange(n, i, j)
        if len(displaced) > 2:
            for i in displaced:
                order = list(g)
                order[order.index(i)], order[i] = order[i], i
                yield tuple(order)

    def identity_like(self, g: Indices) -> Indices:
        return tuple(range(len(g)))

    def describe(self, g: Indices) -> str:
        return f"order {list(g)}"

    def __str__(self) -> str:
        return f"permutations of {self.where()}"


@dataclass(frozen=True)
class Select(Reindexing):
    """Lists of indices of an axis, with omissions and repetitions; at least one index, if there are any.

    Selections are no group, because nothing restores what was left out, but they compose. Equivariance under them
    means that the output at an index depends on the input at that index alone: items of a batch do not interact.
    """

    group = "selections"

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> Indices:
        n = self.length(arrays)
        return tuple(rng.integers(0, n, rng.integers(1, n + 2)).tolist()) if n else ()

    def generators(self, arrays: Arrays) -> list[Indices]:
        """Leave out each entry, exchange the first two, repeat the first."""
        n = self.length(arrays)
        if n < 2:
            return [(0, 0)] if n else []
        return [*(tuple(j for j in range(n) if j != i) for i in range(n)), _exchange(n, 0, 1), (0, *range(n))]

    def simpler(self, g: Indices) -> Iterator[Indices]:
        """One index alone, then one index fewer, then indices in order."""
        if len(g) > 1:
            yield from ((i,) for i in sorted(set(g)))
            yield from (g[:i] + g[i + 1 :] for i in range(len(g)))
        if list(g) != sorted(g):
            yield tuple(sorted(g))

    def describe(self, g: Indices) -> str:
        return f"places {list(g)}"

    def __str__(self) -> str:
        return f"selections from {self.where()}"


def _exchange(n: int, i: int, j: int) -> Indices:
    """The permutation of n entries that exchanges i and j."""
    order = list(range(n))
    order[i], order[j] = j, i
    return tuple(order)


@dataclass(frozen=True)
class Roll(AxisAction):
    """Circular shifts by multiples of `step`; the element is the multiple k.

    They are a group with n / gcd(n, step) elements. Input and output may have steps of their own: a convolution with
    stride 2 takes Roll(step=2) to Roll(step=1).
    """

    _: KW_ONLY
    step: int = 1

    group = "shifts"
    moves_along_axes = True

    def moved(self, g: int, name: str, array: Array) -> Array:
        axes = self.axes(name, array)
        return np.roll(array, (g * self.step,) * len(axes), axes)

    def order(self, arrays: Arrays) -> int:
        """How many different shifts there are, over all arrays together."""
        return math.lcm(*(n // math.gcd(n, self.step) for n in self.lengths(arrays).values() if n))

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> int:
        return int(rng.integers(0, self.order(arrays)))

    def identity(self, arrays: Arrays) -> int:
        return 0

    def identity_like(self, g: int) -> int:
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

    def describe(self, g: int) -> str:
        return f"shift by {g * self.step}"

    def __str__(self) -> str:
        return f"shifts {self.domain()}{'' if self.step == 1 else f' by multiples of {self.step}'}, {self.where()}"

    def domain(self) -> str:
        """On what entries are shifted, in words."""
        return "on a ring"


@dataclass(frozen=True)
class Slide(Roll):
    """Shifts of content within a window, together with its mask: what a claim about shifts of ℤ means on n entries.

    `present` names the mask (..., N), True where there is content; it must be among the arrays that move. Allowed are
    the shifts by which nothing that is present passes the edge; what is behind the mask moves along and goes round.
    """

    _: KW_ONLY
    present: str = "mask"

    def elements(self, arrays: Arrays) -> list[int]:
        """All shifts that keep what is present inside: from first + k s ≥ 0 and last + k s < n."""
        if self.present not in arrays:
            raise ValueError(f"Slide: there is no array {self.present!r} that says what is present")
        mask = np.asarray(arrays[self.present])
        indices = np.flatnonzero(mask.reshape(-1, mask.shape[-1]).any(0)) if mask.size else np.zeros(0, int)
        if not len(indices):
            return [0]
        first, last = -(int(indices[0]) // self.step), (mask.shape[-1] - 1 - int(indices[-1])) // self.step
        return sorted(range(first, last + 1), key=lambda k: (abs(k), k < 0))

    def fits(self, g: int, arrays: Arrays) -> bool:
        return g in self.elements(arrays)

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> int:
        return int(rng.choice(self.elements(arrays)))

    def generators(self, arrays: Arrays) -> list[int]:
        return [k for k in self.elements(arrays) if abs(k) == 1]

    def domain(self) -> str:
        return f"in the window of {self.present}"


@dataclass(frozen=True)
class Shift(Roll):
    """Shifts of ℤ, of which n entries are seen: what passes an edge comes in at the other, and is not compared.

    For claims about the interior of an output, `border=`: a function of a window of entries, or of pixels, whose output
    near the edges depends on what is outside. Allowed are the shifts that leave at least one entry inside.
    """

    has_edges = True

    def moved_masks(self, g: int, masks: Mapping[str, Array]) -> dict[str, Array]:
        """What came in at the other edge is False."""
        moved = self.act(g, masks)
        for name, mask in self.chosen(moved):
            mask, by = mask.copy(), g * self.step
            for axis in self.axes(name, mask):
                along = np.moveaxis(mask, axis, 0)
                along[: max(0, by)] = along[len(along) + min(0, by) if -by < len(along) else 0 :] = False
            moved[name] = mask
        return moved

    def elements(self, arrays: Arrays) -> list[int] | None:
        least = min(self.lengths(arrays).values(), default=0)
        most = max(0, (least - 1) // self.step)
        return sorted(range(-most, most + 1), key=lambda k: (abs(k), k < 0)) if 2 * most < SMALL else None

    def order(self, arrays: Arrays) -> int:
        least = min(self.lengths(arrays).values(), default=0)
        return 1 + 2 * max(0, (least - 1) // self.step)

    def fits(self, g: int, arrays: Arrays) -> bool:
        return 2 * abs(g) < self.order(arrays)

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> int:
        most = self.order(arrays) // 2
        return int(rng.integers(-most, most + 1))

    def generators(self, arrays: Arrays) -> list[int]:
        return [1, -1] if self.order(arrays) > 1 else []

    def domain(self) -> str:
        return "in a window"
