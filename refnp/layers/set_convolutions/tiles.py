"""The sums of a set convolution and of its gradients, over pairs of a target m and a context point n:

    z_m = Σ_n k(s_mn) v_n,        s_mn = |u_mn|²,   u_mn = (x_m − x_n)/ℓ

The weights k(s_mn) are never all there at once. Pairs are taken in tiles of a few targets by a few points, small enough
for the cache; backward computes them again. So memory is O(M + N), and time is that of the exponentials.
A `Block` is some targets of some sets with the points that they need; blocks are dealt into runs, each the work of one
thread, and how depends on them alone. A run alone writes its targets, and has sums of its own for
the points, which are added up in the order of the runs: the bits do not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from refnp.autograd.blocks import run_all

TILE = 1 << 16  # bytes for a number per pair of a tile: the system takes larger arrays back each time they are freed
PAIRS = TILE // 8  # pairs in a tile of float64
RUNS = 8  # runs at most
FAR = 1e9  # length scales beyond which a distance counts as this one, so that squares of it do not overflow


@dataclass(frozen=True)
class Pairs:
    """Targets (D, B, M) and points (D, B, N) in D dimensions, what the points carry, values (B, N, C), and the kernel.

    `scales` holds pairs (length scale, its channels): channels with one length scale share their weights and one matrix
    product. A point that is not there has zeros for values. `far` says that some distance may exceed FAR.
    Inside, targets and points stand in the orders (B, M) and (B, N) that `blocks` go by (None: as they came); what goes
    in and out stands in the order in which they came.
    """

    targets: np.ndarray
    points: np.ndarray
    values: np.ndarray
    scales: list[tuple[Any, Any]]
    kernel: Callable
    far: bool
    blocks: list[Block]
    target_order: np.ndarray | None
    point_order: np.ndarray | None

    @classmethod
    def of(cls, targets, points, values, scales, kernel, blocks, target_order, point_order) -> Pairs:
        """From targets (B, M, D), points (B, N, D), values (B, N, C), and a length scale per channel, scales (C,)."""
        dtype = values.dtype
        distinct, which = np.unique(scales, return_inverse=True)
        groups = [(scale, np.flatnonzero(which == i)) for i, scale in enumerate(distinct)]
        largest = [np.abs(a.real).max(initial=0) for a in (targets, points)]
        with np.errstate(over="ignore"):
            near = all(2 * size / scale.real < FAR for size in largest for scale in distinct)
        return cls(
            np.ascontiguousarray(np.moveaxis(ordered(targets, target_order), -1, 0), dtype),
            np.ascontiguousarray(np.moveaxis(ordered(points, point_order), -1, 0), dtype),
            ordered(values, point_order),
            groups if len(groups) != 1 else [(distinct[0], slice(None))],
            kernel,
            not near,
            blocks,
            target_order,
            point_order,
        )

    def convolved(self) -> np.ndarray:
        """z_m = Σ_n k(s_mn) v_n, shape (B, M, C)."""
        runs = runs_of(self.blocks)
        z = np.zeros((*self.targets.shape[1:], self.values.shape[-1]), self.values.dtype)  # (B, M, C)

        def work(i: int) -> None:
            for tile, scale, channels in self._parts(runs[i]):
                k, _ = self._weights(squared(self._steps(tile, scale)))
                z[tile.sets, tile.targets, channels] += k @ self.values[tile.sets, tile.points, channels]

        run_all(work, len(runs))
        return restored(z, self.target_order)

    def channel_gradients(self, z_bar: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """v̄_n = Σ_m k(s_mn) z̄_m, shape (B, N, C); and, from ds/dℓ = −2s/ℓ, for each channel c, shape (C,)

        ℓ̄_c = −(2/ℓ) Σ_m z̄_mc Σ_n s_mn k′(s_mn) v_nc.
        """
        z_bar = self._incoming(z_bar)
        runs = runs_of(self.blocks)
        sums = [RunSum(run, z_bar.shape[-1], z_bar.dtype) for run in runs]
        scale_bars = np.zeros((len(runs), z_bar.shape[-1]), z_bar.dtype)

        def work(i: int) -> None:
            for tile, scale, channels in self._parts(runs[i]):
                s = squared(self._steps(tile, scale))  # (b, t, n)
                k, slope = self._weights(s)
                bar = z_bar[tile.sets, tile.targets, channels]  # (b, t, c)
                sums[i].add(tile, channels, k.swapaxes(-1, -2) @ bar)
                s *= slope()
                along = s @ self.values[tile.sets, tile.points, channels]  # (b, t, c)
                scale_bars[i, channels] += np.einsum("btc,btc->c", bar, along) * (-2 / scale)

        run_all(work, len(runs))
        v_bar = total(sums, self.values.shape, z_bar.dtype)
        return restored(v_bar, self.point_order), scale_bars.sum(0)

    def position_gradients(self, z_bar: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """x̄_m = Σ_n g_mn, shape (B, M, D), and x̄_n = −Σ_m g_mn, shape (B, N, D): with ds/dx_m = 2u/ℓ = −ds/dx_n,

        g_mn = (2/ℓ) (Σ_c z̄_mc v_nc) k′(s_mn) u_mn.
        """
        z_bar = self._incoming(z_bar)
        runs = runs_of(self.blocks)
        axes, dtype = len(self.targets), z_bar.dtype
        target_bar = np.zeros((*z_bar.shape[:2], axes), dtype)  # (B, M, D)
        sums = [RunSum(run, axes, dtype) for run in runs]

        def work(i: int) -> None:
            for tile, scale, channels in self._parts(runs[i]):
                steps = self._steps(tile, scale)
                _, slope = self._weights(squared(steps))
                bar = z_bar[tile.sets, tile.targets, channels]  # (b, t, c)
                g = bar @ self.values[tile.sets, tile.points, channels].swapaxes(-1, -2)  # (b, t, n)
                g *= slope()
                for d, u in enumerate(steps):
                    target_bar[tile.sets, tile.targets, d] += np.einsum("btn,btn->bt", g, u) * (2 / scale)
                    sums[i].add(tile, d, np.einsum("btn,btn->bn", g, u) * (-2 / scale))

        run_all(work, len(runs))
        point_bar = total(sums, (*self.values.shape[:2], axes), dtype)
        return restored(target_bar, self.target_order), restored(point_bar, self.point_order)

    def _incoming(self, z_bar: np.ndarray) -> np.ndarray:
        """A gradient (B, M, C) in the order of the targets, and in a dtype that holds the products with it."""
        return ordered(z_bar.astype(np.result_type(z_bar, self.values), copy=False), self.target_order)

    def _parts(self, run: list[Block]) -> Iterator[tuple[Block, Any, Any]]:
        """Tile by tile, and for each tile every length scale with its channels."""
        for block in run:
            for tile in block.tiles(TILE // self.values.itemsize):
                for scale, channels in self.scales:
                    yield tile, scale, channels

    def _steps(self, tile: Block, scale: Any) -> list[np.ndarray]:
        """u = (x_m − x_n)/ℓ along each of the D axes: arrays (b, t, n).

        From differences, for |x_m|² + |x_n|² − 2 x_m·x_n cancels, and a common shift would not drop out exactly.
        """
        steps = []
        with np.errstate(over="ignore", invalid="ignore") if self.far else np.errstate():
            for x, y in zip(self.targets, self.points, strict=True):
                u = x[tile.sets, tile.targets, None] - y[tile.sets, None, tile.points]
                u /= scale
                steps.append(np.where(np.abs(u.real) > FAR, np.copysign(FAR, u.real), u) if self.far else u)
        return steps

    def _weights(self, s: np.ndarray) -> tuple[np.ndarray, Callable]:
        found = self.kernel(s)
        if not isinstance(found, tuple) or len(found) != 2 or not callable(found[1]):
            raise TypeError("set_convolution: kernel must return (k(s), function for the slope k′(s)); see `eq`")
        return found


class RunSum:
    """What one run adds up for its points: (sets, points, channels) of the part of them that the run looks at."""

    def __init__(self, run: list[Block], channels: int, dtype: Any):
        self.sets = slice(run[0].sets.start, run[-1].sets.stop)
        self.points = slice(min(b.points.start for b in run), max(b.points.stop for b in run))
        shape = (self.sets.stop - self.sets.start, self.points.stop - self.points.start, channels)
        self.array = np.zeros(shape, dtype)

    def add(self, tile: Block, channels: Any, part: np.ndarray) -> None:
        own = shifted(tile.sets, self.sets.start), shifted(tile.points, self.points.start), channels
        self.array[own] += part


def total(parts: list[RunSum], shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """The sums of all runs, in their order."""
    result = np.zeros(shape, dtype)
    for part in parts:
        result[part.sets, part.points] += part.array
    return result


def shifted(part: slice, start: int) -> slice:
    """The same elements, counted from `start` instead of from 0."""
    return slice(part.start - start, part.stop - start)


def squared(steps: list[np.ndarray]) -> np.ndarray:
    """s = Σ_d u_d², at least 0 where the u are real."""
    s = steps[0] * steps[0]
    for u in steps[1:]:
        s += u * u
    return s


def ordered(array: np.ndarray, order: np.ndarray | None) -> np.ndarray:
    """The rows of each set, (B, N, C), in the given order (B, N), if there is one."""
    return array if order is None else np.take_along_axis(array, order[..., None], 1)


def restored(array: np.ndarray, order: np.ndarray | None) -> np.ndarray:
    """The rows put back where `ordered` took them from."""
    if order is None:
        return array
    result = np.empty_like(array)
    np.put_along_axis(result, order[..., None], array, 1)
    return result


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
