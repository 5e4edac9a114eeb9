"""Actions that take entries of an axis to other places, or leave some out.

Permute   y_i = x_{g(i)},  g a permutation           tokens in another order; with axis=-1 features
Flip      y_i = x_{n − 1 − i}                        the other way round
Select    y_i = x_{g(i)},  g any list of places      some left out, some repeated
Repeat    y = x, then x_i for each copied place i    padding by copies
Prefix    y_i = x_i,  i < k                          what comes after is cut off
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from refnp.autograd import Array
from refnp.symmetry.actions import SMALL, Arrays, AxisAction, Indices, WithNeutral, are_whole, is_whole


class Reindexing(AxisAction):
    """y_i = x_{g(i)} along an axis: what permutations, selections and copies have in common."""

    moves_along_axes = True
    takes_all: ClassVar[bool] = False  # whether the element must name every place

    def moved(self, g: Indices, name: str, array: Array) -> Array:
        for axis in self.axes(name, array):
            n, needed = array.shape[axis], max(g, default=-1) + 1
            if n < needed or (self.takes_all and n > needed):
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
    """All orders of an axis, the same in every array that is named: Permute({"x": -2, "mask": (-2, -1)}).

    An element is a tuple with every place once, such as (1, 0, 2): what comes first, second and third.
    """

    group = "permutations"
    an_element = "every place once, such as (1, 0, 2)"
    takes_all = True

    def is_element(self, g: Indices) -> bool:
        return are_whole(g) and sorted(g) == list(range(len(g)))

    def inverse(self, g: Indices) -> Indices:
        return tuple(sorted(range(len(g)), key=g.__getitem__))

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
    """Lists of indices of an axis, with omissions and repetitions; none at all is tried where f takes that.

    An element is a tuple of places from 0, such as (2, 0, 0): what comes first, second and third. Selections are no
    group, because nothing restores what was left out, but they compose. Equivariance under them means that the output
    at an index depends on the input at that index alone: items of a batch do not interact.
    """

    group = "selections"
    an_element = "places from 0, such as (2, 0, 0)"

    def is_element(self, g: Indices) -> bool:
        return are_whole(g) and min(g, default=0) >= 0

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> Indices:
        n = self.length(arrays)
        return tuple(rng.integers(0, n, rng.integers(1, n + 2)).tolist()) if n else ()

    def generators(self, arrays: Arrays) -> list[Indices]:
        """Leave out each entry, exchange the first two, repeat the first; leave out all."""
        n = self.length(arrays)
        if n < 2:
            return [(0, 0), ()] if n else []
        return [*(tuple(j for j in range(n) if j != i) for i in range(n)), _exchange(n, 0, 1), (0, *range(n)), ()]

    def simpler(self, g: Indices) -> Iterator[Indices]:
        """One index alone, then one index fewer, then indices in order."""
        if len(g) > 1:
            yield from ((i,) for i in sorted(set(g)))
            yield from (g[:i] + g[i + 1 :] for i in range(len(g)))
        if list(g) != sorted(g):
            yield tuple(sorted(g))

    def describe(self, g: Indices) -> str:
        return f"places {list(g)}" if g else "no places"

    def __str__(self) -> str:
        return f"selections from {self.where()}"


@dataclass(frozen=True)
class Repeat(Reindexing):
    """Padding by copies: all entries of an axis as they are, and copies of some behind them.

    An element is a tuple with every place once, in order, and then the places that are copied: (0, 1, 2, 0, 0) appends
    two copies of the first of three. With `alike` all entries are copied, equally often: a mean does not see it, and a
    sum does. Copies are no group, because nothing takes them away. Invariance means that f is a function of the set of
    its items, as a maximum is; equivariance that copies get what the originals get.
    """

    _: KW_ONLY
    alike: bool = False

    group = "copies"
    an_element = "every place once, in order, and then those that are copied, such as (0, 1, 2, 0)"
    takes_all = True

    def is_element(self, g: Indices) -> bool:
        if not are_whole(g) or min(g, default=0) < 0:
            return False
        n = max(g, default=-1) + 1
        return list(g[:n]) == list(range(n)) and (not self.alike or list(g) == list(range(n)) * (len(g) // max(n, 1)))

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> Indices:
        n = self.length(arrays)
        if self.alike or not n:
            return tuple(range(n)) * int(rng.integers(1, 4))
        return (*range(n), *rng.integers(0, n, rng.integers(1, n + 2)).tolist())

    def generators(self, arrays: Arrays) -> list[Indices]:
        """The first once more, the last once more, the last three times more, and all once more."""
        n = self.length(arrays)
        every = tuple(range(n))
        if not n:
            return []
        return (
            [2 * every, 3 * every] if self.alike else [(*every, 0), (*every, n - 1), (*every, *3 * (n - 1,)), 2 * every]
        )

    def simpler(self, g: Indices) -> Iterator[Indices]:
        """One copy alone, then one copy fewer."""
        n = max(g, default=-1) + 1
        if self.alike:
            yield from (tuple(range(n)) * k for k in range(2, len(g) // max(n, 1)))
        elif len(g) > n + 1:
            yield from ((*g[:n], i) for i in sorted(set(g[n:])))
            yield from (g[:k] + g[k + 1 :] for k in range(n, len(g)))

    def identity_like(self, g: Indices) -> Indices:
        return tuple(range(max(g, default=-1) + 1))

    def describe(self, g: Indices) -> str:
        n = max(g, default=-1) + 1
        if self.alike:
            return f"every place {len(g) // max(n, 1)} times"
        return f"copies of places {list(g[n:])}" if len(g) > n else "no copies"

    def __str__(self) -> str:
        return f"{'equally many ' if self.alike else ''}copies of entries of {self.where()}"


@dataclass(frozen=True)
class Prefix(AxisAction):
    """What comes first along an axis: the first k entries are kept, the others cut off.

    An element is k, from 0 to the length of the axis; 0 is tried where f takes an axis without entries. Prefixes are no
    group. Equivariance means that what comes after an entry has no influence on its output, f(x[:k]) = f(x)[:k]: a
    causal model, whose decoding step by step gives what one pass over the whole gives. A mask is cut along both axes:
    Prefix({"x": -2, "mask": (-2, -1)}).
    """

    group = "prefixes"
    an_element = "how many entries are kept, such as 2"
    moves_along_axes = True

    def is_element(self, g: int) -> bool:
        return is_whole(g) and g >= 0

    def moved(self, g: int, name: str, array: Array) -> Array:
        for axis in self.axes(name, array):
            if g > array.shape[axis]:
                raise ValueError(f"Prefix: {name} has {array.shape[axis]} places along axis {axis}; {g} cannot be kept")
            array = array[(slice(None),) * (axis % array.ndim) + (slice(0, g),)]
        return array.copy()

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> int:
        n = self.length(arrays)
        return int(rng.integers(1, n + 1)) if n else 0

    def identity(self, arrays: Arrays) -> int:
        return self.length(arrays)

    def compose(self, g: int, h: int) -> int:
        return min(g, h)

    def generators(self, arrays: Arrays) -> list[int]:
        """None, one entry, half of them, all but one."""
        n = self.length(arrays)
        return sorted({0, 1, n // 2, n - 1} - {n}) if n else []

    def elements(self, arrays: Arrays) -> list[int] | None:
        n = self.length(arrays)
        return list(range(n + 1)) if n <= SMALL else None

    def fits(self, g: int, arrays: Arrays) -> bool:
        return g <= self.length(arrays)

    def simpler(self, g: int) -> Iterator[int]:
        yield from range(g)

    def describe(self, g: int) -> str:
        return f"the first {g}" if g else "none"

    def __str__(self) -> str:
        return f"prefixes of {self.where()}"


@dataclass(frozen=True)
class Flip(WithNeutral, AxisAction):
    """An axis the other way round, or as it is. An element is 1 or 0: whether it is turned round."""

    neutral = 0
    group = "flips"
    an_element = "1 to turn the axis round, or 0"
    moves_along_axes = True

    def is_element(self, g: int) -> bool:
        return is_whole(g) and g in (0, 1)

    def moved(self, g: int, name: str, array: Array) -> Array:
        return np.flip(array, self.axes(name, array)).copy() if g else array.copy()

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> int:
        return int(rng.integers(2))

    def compose(self, g: int, h: int) -> int:
        return (g + h) % 2

    def inverse(self, g: int) -> int:
        return g

    def generators(self, arrays: Arrays) -> list[int]:
        return [1]

    def elements(self, arrays: Arrays) -> list[int]:
        return [0, 1]

    def describe(self, g: int) -> str:
        return "the other way round" if g else "as it is"

    def __str__(self) -> str:
        return f"the other way round along {self.where()}"


def _exchange(n: int, i: int, j: int) -> Indices:
    """The permutation of n entries that exchanges i and j."""
    order = list(range(n))
    order[i], order[j] = j, i
    return tuple(order)
