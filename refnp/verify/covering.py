"""Covering arrays: few rows of values of several factors, in which every value stands, and every two of options."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

TRIES = 60  # rows that are drawn for a value, before it is given up
FEW = 16  # combinations of options, of which none is left out

Row = tuple[tuple[int, int], ...]  # (factor, place of its value) of some factors


@dataclass(frozen=True)
class Factor:
    """Something that varies from case to case, with its values, the default first: an `option`, a `length`, or else.

    Every two values of options stand in a row, and those of others that are `paired` as well. Values that stand
    `alone`, whose places are behind the others, stand only in rows that are wanted.
    """

    name: str
    values: tuple
    option: bool = False
    length: bool = False
    paired: bool = False
    alone: tuple = ()

    def value(self, place: int) -> Any:
        """The value at a place."""
        return (*self.values, *self.alone)[place]


def covering(
    factors: Sequence[Factor], wanted: set[Row], draw: Callable[[list[int]], bool], rng: np.random.Generator
) -> None:
    """Draw rows of places of values, such that every value stands in one; what is in no row is given up.

    First stand the rows that are `wanted`, in which the rest is at its default, if they can be drawn so. Then every
    value of an option stands alone in one, and so do every two of them, the first beside the default of each; every
    other value in one in which options have their defaults; and every two of options in one, all of them together
    where these are few.
    """
    optional = [i for i, factor in enumerate(factors) if factor.option]
    paired = [i for i, factor in enumerate(factors) if factor.option or factor.paired]
    places = {i: [(i, a) for a in range(len(factor.values))] for i, factor in enumerate(factors)}
    alone: set[Row] = {(one,) for i in optional for one in places[i]}
    alone |= {((i, 1), (j, 1)) for i, j in itertools.combinations(optional, 2)}
    for seed in ((), *sorted(wanted | alone)):
        row = whole(seed, factors)
        if not draw(row) and seed not in alone:
            cover({seed}, factors, draw, rng)
    cover({(one,) for i in places if i not in optional for one in places[i]}, factors, draw, rng, at_default=optional)
    if math.prod(len(places[i]) for i in optional) <= FEW:
        cover(set(itertools.product(*(places[i] for i in optional))), factors, draw, rng)
    pairs = itertools.combinations(paired, 2)
    cover({pair for i, j in pairs for pair in itertools.product(places[i], places[j])}, factors, draw, rng)


def whole(seed: Row, factors: Sequence[Factor], *, small: bool = False) -> list[int]:
    """The row with these values, and all others at their defaults, or lengths `small`, at the value behind 1."""
    chosen = dict(seed)
    return [chosen.get(i, 2 if small and factor.length else 0) for i, factor in enumerate(factors)]


def cover(
    wanted: set[Row],
    factors: Sequence[Factor],
    draw: Callable[[list[int]], bool],
    rng: np.random.Generator,
    at_default: Sequence[int] = (),
) -> None:
    """Draw rows until all that is wanted stood in one; of TRIES drawn ones the one in which most of it stands.

    Half of all values are defaults.
    """
    wanted -= of_row([0] * len(factors))
    sizes = [len(factor.values) for factor in factors]
    while wanted:
        seed = min(wanted, key=lambda one: (-len(one), one))
        drawn = rng.integers(sizes, size=(TRIES, len(factors)))
        drawn[rng.random(drawn.shape) < 0.5] = 0
        drawn[:, at_default] = 0
        for i, a in seed:
            drawn[:, i] = a
        rows = sorted(drawn.tolist(), key=lambda row: -len(wanted & of_row(row)))
        rows += [whole(seed, factors), whole(seed, factors, small=True)]
        best = next((row for row in rows if draw(row)), None)
        wanted -= {seed} | (of_row(best) if best else set())


def of_row(row: list[int]) -> set[Row]:
    """The values, and the pairs of values, that stand in a row."""
    single = list(enumerate(row))
    found: set[Row] = {(one,) for one in single}
    return found | set(itertools.combinations(single, 2))
