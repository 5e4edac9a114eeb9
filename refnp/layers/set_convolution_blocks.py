"""Which pairs of a target and a point a set convolution looks at, and in what portions.

A `Block` is some targets of some sets with the points that they look at. It is worked on in tiles, pieces of it small
enough for the cache. Blocks are dealt into runs, each the work of one thread. How they are dealt depends on them alone,
and not on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

TILE = 1 << 16  # bytes for a number per pair of a tile: the system takes larger arrays back each time they are freed
PAIRS = TILE // 8  # pairs in a tile of float64
RUNS = 8  # runs at most


class Block(NamedTuple):
    """Some targets of some sets, and the points they look at: slices of the axes B, M and N."""

    sets: slice
    targets: slice
    points: slice

    @property
    def pairs(self) -> int:
        return math.prod(part.stop - part.start for part in self)

    def tiles(self, pairs: int) -> Iterator[Block]:
        """The block in pieces of about so many pairs, along the points."""
        first, last = self.points.start, self.points.stop
        step = max(1, pairs * (last - first) // max(self.pairs, 1))
        for start in range(first, last, step):
            yield self._replace(points=slice(start, min(start + step, last)))


def all_in_order(targets: np.ndarray, points: np.ndarray) -> tuple[list[Block], None, None]:
    """Blocks of all pairs of targets (B, M, D) and points (B, N, D), which stay in the order in which they came."""
    (sets, many), few = targets.shape[:2], points.shape[1]
    if not sets * many * few:
        return [], None, None
    height = min(many, max(1, PAIRS // min(few, 256)))  # targets in a block
    deep = max(1, PAIRS // (height * few)) if height == many else 1  # sets in a block, where sets are small
    blocks = [
        Block(slice(b, min(b + deep, sets)), slice(m, min(m + height, many)), slice(0, few))
        for b in range(0, sets, deep)
        for m in range(0, many, height)
    ]
    return blocks, None, None


def runs_of(blocks: list[Block]) -> list[list[Block]]:
    """The blocks in order, dealt into at most RUNS runs of about as many pairs."""
    total = sum(block.pairs for block in blocks)
    runs: list[list[Block]] = [[] for _ in range(RUNS)]
    before = 0
    for block in blocks:
        runs[before * RUNS // total].append(block)
        before += block.pairs
    return [run for run in runs if run]
