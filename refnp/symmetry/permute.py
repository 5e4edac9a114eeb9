"""Permutations of an axis, and selections from it.

    Permute:  y_i = x_{g(i)},  g a permutation            tokens in another order; features renamed, with axis=-1
    Select:   y_i = x_{g(i)},  g any list of places       some left out, some taken twice

Selections are no group, for nothing brings back what was left out, but they compose. Equivariance under them says that
what happens at a place depends on that place alone: items of a batch, or targets, that are asked one by one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from refnp.symmetry.action import SMALL, Arrays, Placed

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
