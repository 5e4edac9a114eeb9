"""Seeded directions to differentiate along: single elements, and random sums over many.

A weight of a random direction is ± a number from [½, 1). None is near 0, so no single element can hide behind a small
weight; no two are alike, so the kink of max(x, y) at a tie is crossed. They have 20 binary digits, and so are exact in
float32, and x + hv is exact in longdouble. They are never all ones: along those, the gradients of softmax and
LayerNorm vanish, and an error proportional to the gradient would pass.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gradcheck.flat import FlatFunction


def random_weights(count: int, rng: np.random.Generator) -> np.ndarray:
    """`count` numbers of random sign and size in [½, 1), multiples of 2⁻²⁰."""
    sizes = rng.integers(2**19, 2**20, count) / 2.0**20
    return np.where(rng.integers(0, 2, count) == 1, sizes, -sizes)


@dataclass(frozen=True)
class Direction:
    """Σ weightⱼ eⱼ over the elements j of x in `support`. Weights include the size of the element (a power of two),
    so that one step along a direction is as long as x itself."""

    support: np.ndarray
    weights: np.ndarray

    def vector(self, n: int) -> np.ndarray:
        v = np.zeros(n)
        v[self.support] = self.weights
        return v

    def halves(self) -> tuple["Direction", "Direction"]:
        middle = len(self.support) // 2
        return (
            Direction(self.support[:middle], self.weights[:middle]),
            Direction(self.support[middle:], self.weights[middle:]),
        )


def along(problem: FlatFunction, support: np.ndarray, rng: np.random.Generator) -> Direction:
    """A random direction over the elements in `support`."""
    return Direction(support, random_weights(len(support), rng) * problem.size[support])


@dataclass(frozen=True)
class Effort:
    """How much is drawn: elements compared one by one in each array, projections for the rest, cotangents."""

    max_elements: int
    projections: int
    cotangents: int


def covering(
    problem: FlatFunction, excluded: np.ndarray, effort: Effort, rng: np.random.Generator
) -> Iterator[Direction]:
    """Directions that cover every element of x that is not excluded.

    Of each array: a seeded sample of `max_elements` elements one by one (all, where there are no more; fewer where
    there are more than ten arrays, so that a model of many parameters costs no more than ten arrays), and the rest
    dealt at random into `projections` groups, each with one random direction.
    """
    each = max(4, min(effort.max_elements, 10 * effort.max_elements // len(problem.leaves)))
    for leaf in problem.leaves:
        shuffled = rng.permutation(np.setdiff1d(np.arange(leaf.start, leaf.stop), excluded))
        for j in np.sort(shuffled[:each]):
            yield Direction(np.array([j]), problem.size[j : j + 1])
        rest = shuffled[each:]
        groups = min(effort.projections, -(-len(rest) // each))
        for group in np.array_split(rest, groups) if groups else []:
            yield along(problem, np.sort(group), rng)
