"""Grids for functions of x: evenly spaced places around the data, numbered by whole numbers.

    place k of a task lies at (s + k)/p,   k = 0, 1, …, L − 1        p places per unit, s the number of its first place

A grid begins at a multiple of m places and its length is a multiple of m, where m is the total stride of the network
that will work on it: s = m ⌊(⌊p min x⌋ − margin)/m⌋. All of this is integer arithmetic on the cells ⌊p x⌋ in which the
data lie. So if the data move by m n places, s moves by m n and nothing else changes: neither L, nor where a point lies
within the grid, x − s/p. Everything that comes after sees these distances only.
With p a power of two, neither p x nor s/p is rounded. With another p both are: distances move by a rounding of x, and a
point that is a rounding away from the edge of its cell may get over it.
Rounding half to even, or beginning at min x − margin as such, does not have that property.

Every task of a batch has a grid of its own, wherever it lies; all have the length of the longest.
Source: Sivaraya (2023) §4.2 and eq. 11 leave the grid open; Gordon et al. (2020), §4, begin at min x − 0.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.autograd.primitives import raw

MOST = 2.0**52  # cells from 0, beyond which whole numbers in float64 cannot tell neighbours apart


@dataclass(frozen=True)
class Grid:
    """A grid for each of B tasks: `start` (B, D) whole numbers, `lengths` (D of them), `points_per_unit`."""

    start: np.ndarray
    lengths: tuple[int, ...]
    points_per_unit: float

    @property
    def size(self) -> int:
        """The number of places of one task."""
        return math.prod(self.lengths)

    def distances(self, x: Any, dtype: Any) -> Any:
        """x (B, N, D) as distances from the first place of its task, x − s/p.

        The difference is formed in the precision of x, where it is exact or nearly so, and only then rounded to
        `dtype`: positions may be more precise than the values. (A Tensor, or complex x, keeps its own.)
        """
        origin = (self.start / self.points_per_unit).astype(raw(x).real.dtype)[:, None]  # (B, 1, D)
        away = x - origin  # (B, N, D)
        return away.astype(dtype, copy=False) if isinstance(away, np.ndarray) and away.dtype.kind == "f" else away


def grid_around(
    name: str,
    sets: Sequence[tuple[Any, np.ndarray | None]],
    *,
    points_per_unit: float,
    margin: float,
    multiple: int,
    max_points: int,
    bytes_per_point: int,
) -> Grid:
    """The grid that holds all `sets`, pairs of positions (B, N, D) and mask (B, N) or None, with `margin` around each.

    A task without any point gets a grid around 0.
    Raises ValueError if a task needs more than `max_points` places, saying how much memory that would take
    (`bytes_per_point` each); and where places so far from 0 cannot be told apart.
    """
    low, high = extent(sets)
    with np.errstate(over="ignore"):
        first, last = np.floor(low * points_per_unit), np.floor(high * points_per_unit)  # (B, D), (B, D)
    if not (np.abs([first, last]) < MOST).all():
        raise ValueError(
            f"{name}: x reaches from {low.min():.3g} to {high.max():.3g}, too far from 0 to tell places "
            f"1/{points_per_unit:g} apart; subtract a common offset"
        )
    room = math.ceil(margin * points_per_unit)
    start = (first.astype(np.int64) - room) // multiple  # (B, D)   in blocks of `multiple` places
    stop = (last.astype(np.int64) + 1 + room) // multiple + 1  # (B, D)
    lengths = tuple(int(n) * multiple for n in (stop - start).max(0, initial=1))
    size = math.prod(lengths)
    if size > max_points:
        memory = size * bytes_per_point * max(len(low), 1) / 2**30
        raise ValueError(
            f"{name}: a grid around x from {low.min():.6g} to {high.max():.6g} needs {size} points, about {memory:.3g} "
            f"GiB for {len(low)} tasks; the limit is max_points={max_points}. Predict far targets in calls of their "
            f"own, lower points_per_unit ({points_per_unit:g}) or raise max_points"
        )
    return Grid(start * multiple, lengths, points_per_unit)


def extent(sets: Sequence[tuple[Any, np.ndarray | None]]) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest position of each task along each axis, over all sets: (B, D) and (B, D) in float64."""
    lows, highs = [], []
    for x, mask in sets:
        x = raw(x).real.astype(np.float64)
        hidden = np.zeros(x.shape[:2], bool) if mask is None else ~mask
        lows.append(np.where(hidden[..., None], np.inf, x).min(1, initial=np.inf))
        highs.append(np.where(hidden[..., None], -np.inf, x).max(1, initial=-np.inf))
    low, high = np.min(lows, 0), np.max(highs, 0)  # (B, D)
    nothing = low > high
    return np.where(nothing, 0.0, low), np.where(nothing, 0.0, high)


def one_of(sets: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """For each task the first position that is present in one of the sets (B, N, D) with masks (B, N); 0 if none is."""
    x, present = (np.concatenate(parts, 1) for parts in zip(*sets, strict=True))
    first = present.argmax(1)[:, None]  # (B, 1)
    found = np.take_along_axis(x, first[..., None], 1)  # (B, 1, D)
    return np.where(np.take_along_axis(present, first, 1)[..., None], found, 0)
