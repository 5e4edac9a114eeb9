"""Grids for functions of x: evenly spaced places around the data, numbered by whole numbers.

    place k of a task lies at (s + k)/p,   k = 0, 1, …, L − 1        p places per unit, s the number of its first place

A grid begins at a multiple of m places and its length is a multiple of m, where m is the total stride of the network
that will work on it: s = m ⌊(⌊p min x⌋ − margin)/m⌋. All of this is integer arithmetic on the cells ⌊p x⌋ in which the
data lie. So if the data move by m n places, s moves by m n and nothing else changes: neither L, nor where a point lies
within the grid, x − s/p. Everything that comes after depends on these distances only.
With p a power of two, neither p x nor s/p is rounded. With another p both are: distances move by a rounding of x, and a
point that is a rounding away from the edge of its cell may get over it.
Rounding half to even, or beginning at min x − margin as such, does not have that property.

Every task of a batch has a grid of its own, wherever it lies; all have the length of the longest.
Source: Sivaraya (2023) §4.2 and eq. 11 leave the grid open; Gordon et al. (2020), §4, begin at min x − 0.1.
Transcription: `grid_of` in tests/transcriptions/convcnp.py.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from refnp.autograd.declaration import takes
from refnp.autograd.errors import explained
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array
from refnp.numbers.words import constant

FARTHEST_CELL = 2.0**52  # cells from 0, beyond which whole numbers in float64 cannot tell neighbours apart


@explained
@dataclass(frozen=True)
class Grid:
    """A grid for each of B tasks: `start` (B, dx) whole numbers, `lengths` (dx of them), `points_per_unit`.

    Grids around data have whole numbers for `start` unless `stretched`; one that is given may have any.
    """

    start: Array
    lengths: tuple[int, ...]
    points_per_unit: float

    @property
    def shape(self) -> tuple[int, ...]:
        """That of an array of its places, (B, *lengths, dx)."""
        tasks, dimensions = self.start.shape
        return tasks, *self.lengths, dimensions

    @property
    def size(self) -> int:
        """The number of places of one task."""
        return math.prod(self.lengths)

    def holding(self, name: str, sets: Sequence[tuple[Any, Array | None]]) -> "Grid":
        """This grid of one task for each of the tasks in `sets`, pairs of positions (B, N, dx) and mask (B, N) or None.

        `name` is who asks, for errors. Raises ValueError for a position beyond its ends; NaN passes.
        """
        low, high = extent(sets)  # (B, dx)
        some = np.any(
            [np.ones(x.shape[:2], bool).any(1) if mask is None else mask.any(1) for x, mask in sets], 0
        )  # (B,)
        first = np.asarray(self.start, np.float64) / self.points_per_unit  # (1, dx)
        last = first + (np.array(self.lengths) - 1) / self.points_per_unit
        if (some[:, None] & ((low < first) | (high > last))).any():
            ends = " × ".join(f"[{a:g}, {b:g}]" for a, b in zip(first[0], last[0], strict=True))
            raise ValueError(
                f"{name}: x reaches from {low.min():g} to {high.max():g}, beyond the grid that was given, {ends}; "
                "give a longer one, or GridOptions, which make it around the data"
            )
        return Grid(np.repeat(np.asarray(self.start), len(low), 0), self.lengths, self.points_per_unit)

    def steps(self, x: Any) -> Any:
        """How many steps of the grid a point x (B, N, dx) is from the first place of its task: p x − s.

        Those of the grid itself are whole numbers, (L, dx) for L places.
        """
        if x is self:
            return np.stack(np.meshgrid(*map(np.arange, self.lengths), indexing="ij"), -1).reshape(self.size, -1)
        return x * constant(self.points_per_unit) - np.asarray(self.start)[:, None]

    def distances(self, x: Array, dtype: DTypeLike) -> Array:
        """Floats x (B, N, dx) as distances from the first place of their task, x − s/p.

        The difference is formed in the precision of x, where it is exact or nearly so, and only then rounded to
        `dtype`: positions may be more precise than the values. (Complex x keeps its own.)
        """
        origin = (self.start / self.points_per_unit).astype(x.real.dtype)[:, None]  # (B, 1, dx)
        away = x - origin  # (B, N, dx)
        return away.astype(dtype, copy=False) if away.dtype.kind == "f" else away


@takes("", points_per_unit="positive", margin="≥ 0", max_points="whole ≥ 1", stretched="True or False")
@dataclass(frozen=True)
class GridOptions:
    """How fine a grid is, and how far it reaches.

    points_per_unit: places per unit of x. margin: how far it goes beyond the data, in units of x.
    max_points: the most places that the grid of a task may have.
    stretched: the grid of Gordon et al.'s code, one for all tasks, if dx = 1: it reaches from min(x, −2) − margin to
        max(x, 2) + margin, both places of it, and so its places are a little further apart or nearer than 1/p.
    Raises ValueError unless points_per_unit is positive, margin not negative, both finite, and max_points ≥ 1.
    """

    points_per_unit: float = 64
    margin: float = 0.1
    max_points: int = 1 << 20
    stretched: bool = False

    def around(
        self, name: str, sets: Sequence[tuple[Any, Array | None]], *, multiple: int = 1, bytes_per_point: int = 8
    ) -> Grid:
        """The grid that holds all `sets`, pairs of positions (B, N, dx) and mask (B, N) or None, with the margin.

        It is a multiple of `multiple` places long, and begins at one unless stretched. A task without any point gets a
        grid around 0. `name` is who asks, for errors.
        Raises ValueError if a task needs more than `max_points` places, saying how much memory that would take
        (`bytes_per_point` each); and for NaN, or so far from 0 that places cannot be told apart.
        """
        low, high = extent(sets)
        with np.errstate(over="ignore"):
            cells = np.floor(np.stack([low, high]) * self.points_per_unit)  # (2, B, dx)
        if not (np.abs(cells) < FARTHEST_CELL).all():
            raise ValueError(
                f"{name}: x reaches from {low.min():.3g} to {high.max():.3g}, too far from 0 to tell places "
                f"1/{self.points_per_unit:g} apart; subtract a common offset"
            )
        margin = math.ceil(self.margin * self.points_per_unit)
        first, last = cells.astype(np.int64)
        start = (first - margin) // multiple  # (B, dx)   in blocks of `multiple` places
        stop = (last + 1 + margin) // multiple + 1  # (B, dx)
        lengths = tuple(int(n) * multiple for n in (stop - start).max(0, initial=1))
        grid = Grid(start * multiple, lengths, self.points_per_unit)
        if self.stretched:
            grid = self.from_end_to_end(low, high, multiple)
        if grid.size > self.max_points:
            memory = grid.size * bytes_per_point * max(len(low), 1) / 2**30
            raise ValueError(
                f"{name}: a grid around x from {low.min():.6g} to {high.max():.6g} needs {grid.size} points, about "
                f"{memory:.3g} GiB for {len(low)} tasks; the limit is max_points={self.max_points}. Predict far "
                f"targets in calls of their own, lower points_per_unit ({self.points_per_unit:g}) or raise max_points"
            )
        return grid

    def from_end_to_end(self, low: Array, high: Array, multiple: int) -> Grid:
        """A multiple of `multiple` places, the first and the last on the ends of all tasks, which are (B, 1)."""
        if low.shape[1] != 1:
            raise ValueError(f"GridOptions: stretched grids have one axis, and x has {low.shape[1]}")
        begin, end = min(low.min(initial=-2.0), -2.0) - self.margin, max(high.max(initial=2.0), 2.0) + self.margin
        count = math.ceil(self.points_per_unit * (end - begin) / multiple) * multiple
        spaced = (count - 1) / (end - begin)
        return Grid(np.full((len(low), 1), begin * spaced), (count,), spaced)


def extent(sets: Sequence[tuple[Any, Array | None]]) -> tuple[Array, Array]:
    """The least and the largest position of each task along each axis, over all sets, 0 if none: (B, dx) each."""
    lows, highs = [], []
    for x, mask in sets:
        x = raw(x).real.astype(np.float64)
        hidden = np.zeros(x.shape[:2], bool) if mask is None else ~mask
        lows.append(np.where(hidden[..., None], np.inf, x).min(1, initial=np.inf))
        highs.append(np.where(hidden[..., None], -np.inf, x).max(1, initial=-np.inf))
    low, high = np.min(lows, 0), np.max(highs, 0)  # (B, dx)
    empty = low > high
    return np.where(empty, 0.0, low), np.where(empty, 0.0, high)


def first_present(sets: Sequence[tuple[Array, Array]]) -> Array:
    """For each task the first position present in one of the sets (B, N, dx) with masks (B, N); 0 if none is."""
    x, present = (np.concatenate(parts, 1) for parts in zip(*sets, strict=True))
    first = present.argmax(1)[:, None]  # (B, 1)
    found = np.take_along_axis(x, first[..., None], 1)  # (B, 1, dx)
    return np.where(np.take_along_axis(present, first, 1)[..., None], found, 0)
