"""How the pairs of a set convolution are summed: in pieces that fit the cache, on several threads.

The weights are never all there at once; backward computes them again. So memory is O(N + M), and time is that of the
exponentials. Work is cut into runs, each done by one thread from beginning to end; how it is cut depends on shapes and
positions alone. Each target belongs to one run; the context points have a sum for each run, and those are added up in
the order of the runs: the bits do not depend on the number of threads.

`Tiles` has the three sums of `Pairs` (set_convolution.py) for points anywhere, `Windows` where targets or context
are places of a `Grid` (refnp/layers/grid.py). Which pairs count: set_convolution_near.py.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from refnp.kernels.blocks import run_all
from refnp.kernels.radial import decay
from refnp.kernels.set_convolution_near import Block, Portions, half_width
from refnp.numbers.arrays import Array
from refnp.numbers.summation import sum_of_products

MOST_RUNS = 8  # runs that blocks of pairs are dealt into, at most
TILE_NUMBERS = 1 << 16  # pairs in a tile: a few such arrays stay in the cache of a core
WINDOW_RUNS = 4  # runs of windows on a grid, each a part of the batch
WINDOW_NUMBERS = 1 << 17  # numbers in a block of windows: a few such arrays stay in the cache of a core


class Tiles:
    """The sums of `pairs`, a `Pairs` whose targets and points stand in the orders of `portions`, over its blocks.

    Results stand in the order in which targets and points came.
    """

    def __init__(self, pairs: Any, portions: Portions):
        self.pairs, self.runs = pairs, runs_of(portions.blocks)
        self.target_order, self.point_order = portions.target_order, portions.point_order

    def convolved(self) -> Array:
        """z (B, N, C)."""
        z = np.zeros((*self.pairs.x.shape[1:], self.pairs.v.shape[-1]), self.pairs.v.dtype)

        def add(_: int, tile: Block, part: Any) -> None:
            z[tile.sets, tile.targets] += part.convolved()

        self._for_every_tile(add)
        return restored(z, self.target_order)

    def channel_gradients(self, h: Array) -> tuple[Array, Array]:
        """v̄ (B, M, C) and ℓ̄ (C,)."""
        h, v = ordered(h, self.target_order), self.pairs.v
        v_bars = [np.zeros(v.shape, h.dtype) for _ in self.runs]
        scale_bars = np.zeros((len(self.runs), v.shape[-1]), h.dtype)

        def add(i: int, tile: Block, part: Any) -> None:
            v_bar, scale_bar = part.channel_gradients(h[tile.sets, tile.targets])
            v_bars[i][tile.sets, tile.points] += v_bar
            scale_bars[i] += scale_bar

        self._for_every_tile(add)
        return restored(sum(v_bars, np.zeros(v.shape, h.dtype)), self.point_order), scale_bars.sum(0)

    def position_gradients(self, h: Array) -> tuple[Array, Array]:
        """x̄ (B, N, dx), and that of the context points, (B, M, dx)."""
        h, dx = ordered(h, self.target_order), len(self.pairs.x)
        x_bar, none = (np.zeros((*a.shape[:2], dx), h.dtype) for a in (h, self.pairs.v))
        point_bars = [np.zeros_like(none) for _ in self.runs]

        def add(i: int, tile: Block, part: Any) -> None:
            of_targets, of_points = part.position_gradients(h[tile.sets, tile.targets])
            x_bar[tile.sets, tile.targets] += of_targets
            point_bars[i][tile.sets, tile.points] += of_points

        self._for_every_tile(add)
        return restored(x_bar, self.target_order), restored(sum(point_bars, none), self.point_order)

    def _for_every_tile(self, add: Callable[[int, Block, Any], None]) -> None:
        """add(run, tile, its pairs) for the tiles of all runs, each run on one thread."""

        def work(i: int) -> None:
            for block in self.runs[i]:
                for tile in block.tiles(TILE_NUMBERS):
                    add(i, tile, self.pairs.part(*tile))

        blocks = [block.pairs for run in self.runs for block in run]
        numbers = min(sum(blocks) / max(len(blocks), 1), TILE_NUMBERS)
        run_all(work, len(self.runs), numbers * self.pairs.x.itemsize)


def runs_of(blocks: list[Block]) -> list[list[Block]]:
    """The blocks in order, dealt into at most MOST_RUNS runs of about as many pairs."""
    pairs = sum(block.pairs for block in blocks)
    runs: list[list[Block]] = [[] for _ in range(MOST_RUNS)]
    before = 0
    for block in blocks:
        runs[before * MOST_RUNS // pairs].append(block)
        before += block.pairs
    return [run for run in runs if run]


def ordered(array: Array, order: Array | None) -> Array:
    """The rows of each set, (B, M, C), in the given order (B, M), if there is one."""
    return array if order is None else np.take_along_axis(array, order[..., None], 1)


def restored(array: Array, order: Array | None) -> Array:
    """The rows put back where `ordered` took them from."""
    if order is None:
        return array
    result = np.empty_like(array)
    np.put_along_axis(result, order[..., None], array, 1)
    return result


class Rows(NamedTuple):
    """One row, along the last axis, of the windows of some points.

    points: which, slices of (B, N). begins: for each the task and the place on every axis where the row begins, (b, n).
    steps: from the point to the row's places along each axis, (b, n, W), or (b, n, 1) on the axes before the last.
    weights: of the last axis, (b, n, C, W); outer: those of the other axes multiplied, (b, n, C), or 1.
    """

    points: tuple[slice, slice]
    begins: tuple[Array, ...]
    steps: list[Array]
    weights: Array
    outer: Any

    def squares(self) -> Array:
        """|d|² at every place of the row, (b, n, W); on one axis in float64 at least, for many of them are added up."""
        return self.steps[-1] ** 2 + np.asarray(sum(step**2 for step in self.steps[:-1]))


class Windows:
    """The three sums where one side is a grid: `onto` it from points x (B, M, dx), or from it to points x (B, N, dx).

    Of the grid, the windows of R places to each side of a point's nearest place are summed. x are distances from the
    first place; v is (B, M, C), or (B, C, *lengths) on the grid; `eps` is added to a density before it divides, else 1.
    The weights of several axes are products, so exponentials are taken along each axis only. Time is
    O(N (2R + 1)^dx), and memory that of what goes in and out.

    With w_nk the weight of point n and place k, and T = Σ_nkc v_nc w_nkc h_kc: `gather` is ∂T/∂v, `scatter` ∂T/∂h, each
    with ∂T/∂ℓ = Σ_nk v_nc w_nkc h_kc |g_k − x_n|²/ℓ_c³ if asked for, and `pull` is
    ∂T/∂x_n = Σ_kc v_nc w_nkc h_kc (g_k − x_n)/ℓ_c².
    """

    def __init__(self, x: Array, v: Array, scales: Array, grid: Any, onto: bool, eps: float):
        dtype = np.result_type(x, scales)
        self.x, self.scales, self.v, self.onto = x.astype(dtype, copy=False), scales.astype(dtype, copy=False), v, onto
        self.lengths, self.points_per_unit = grid.lengths, grid.points_per_unit
        unit = np.finfo(np.result_type(v, dtype)).eps / 2
        least = unit * min(eps, 1.0) / max(1, x.shape[1]) if onto else unit / max(1, grid.size)
        half = half_width(float(scales.max(initial=0)), grid.points_per_unit, float(least), dtype)
        self.half = min(half, max(grid.lengths))

    def convolved(self) -> Array:
        """z: (B, C, *lengths) on the grid, or (B, N, C)."""
        return (self.scatter if self.onto else self.gather)(self.v)[0]

    def channel_gradients(self, h: Array) -> tuple[Array, Array]:
        """v̄, of the shape of v, and ℓ̄ (C,)."""
        return (self.gather if self.onto else self.scatter)(h, self.v)

    def position_gradients(self, h: Array) -> tuple[Array | None, Array | None]:
        """x̄ for targets and for context points; None for the grid, which stays where it is."""
        return (None, self.pull(h, self.v)) if self.onto else (self.pull(self.v, h), None)

    def gather(self, h: Array, v: Array | None = None) -> tuple[Array, Array]:
        """Σ_k w_nk h_k, (B, N, C), and if v is given ∂T/∂ℓ, (C,)."""
        view = self._view(h)
        f = np.zeros((*self.x.shape[:2], len(self.scales)), np.result_type(h, self.x, self.scales))  # (B, N, C)
        bars = np.zeros((WINDOW_RUNS, len(self.scales)), f.dtype if v is None else np.result_type(f, v))

        def work(run: int) -> None:
            for row in self._rows(run):
                parts = view[row.begins]  # (b, n, C, W)
                if v is None:
                    f[row.points] += row.outer * sum_of_products("bncw,bncw->bnc", parts, row.weights)
                    continue
                parts *= row.weights
                f[row.points] += row.outer * parts.sum(-1)
                parts *= (v[row.points] * row.outer)[..., None]
                bars[run] += sum_of_products("bncw,bnw->c", parts, row.squares())

        run_all(work, WINDOW_RUNS, self._size())
        return f, bars.sum(0) / self.scales**3

    def scatter(self, v: Array, h: Array | None = None) -> tuple[Array, Array]:
        """Σ_n w_nk v_n, (B, C, *lengths), and if h is given ∂T/∂ℓ, (C,)."""
        view = None if h is None else self._view(h)
        dtype = np.result_type(v, self.x, self.scales)
        padded = [n + 2 * self.half for n in self.lengths]
        sums = np.zeros((len(self.scales), len(v), *padded), dtype)  # (C, B, *padded lengths)
        bars = np.zeros((WINDOW_RUNS, len(self.scales)), dtype if h is None else np.result_type(dtype, h))

        def work(run: int) -> None:
            for row in self._rows(run):
                sets = row.points[0]
                parts = row.weights * (v[row.points] * row.outer)[..., None]  # (b, n, C, W)
                places = row.begins[0] - sets.start
                for begin, n in zip(row.begins[1:], padded, strict=True):
                    places = places * n + begin
                places = (places[..., None] + np.arange(parts.shape[-1])).ravel()
                for into, part in zip(sums[:, sets], parts.transpose(2, 0, 1, 3), strict=True):
                    np.add.at(into.reshape(-1), places, part.ravel())
                if view is not None:
                    parts *= view[row.begins]
                    bars[run] += sum_of_products("bncw,bnw->c", parts, row.squares())

        run_all(work, WINDOW_RUNS, self._size())
        return np.ascontiguousarray(sums[self._inner()].swapaxes(0, 1)), bars.sum(0) / self.scales**3

    def pull(self, h: Array, v: Array) -> Array:
        """∂T/∂x, (B, N, dx)."""
        view = self._view(h)
        x_bar = np.zeros(self.x.shape, np.result_type(h, v, self.x, self.scales))  # (B, N, dx)

        def work(run: int) -> None:
            for row in self._rows(run):
                g = v[row.points] * row.outer / self.scales**2  # (b, n, C)
                parts = sum_of_products("bncw,bncw->bnw", view[row.begins] * g[..., None], row.weights)
                for d, step in enumerate(row.steps):
                    x_bar[(*row.points, d)] += (parts * step).sum(-1)

        run_all(work, WINDOW_RUNS, self._size())
        return x_bar

    def _size(self) -> int:
        """Bytes of an array of weights: of those of a run, or of a block of it if that has more."""
        tasks, points, _ = self.x.shape
        numbers = -(-tasks // WINDOW_RUNS) * points * len(self.scales) * (2 * self.half + 1)
        return min(WINDOW_NUMBERS, numbers) * self.x.itemsize

    def _inner(self) -> tuple:
        """Where the grid stands in one with `half` more places on every side."""
        return (..., *(slice(self.half, self.half + n) for n in self.lengths))

    def _view(self, h: Array) -> Array:
        """h (B, C, *lengths) padded with zeros, as (B, *lengths, C, W): the window that begins at each place."""
        padded = np.zeros((*h.shape[:2], *(n + 2 * self.half for n in self.lengths)), h.dtype)
        padded[self._inner()] = h
        task, channel, *steps = padded.strides
        shape = (len(padded), *padded.shape[2:-1], self.lengths[-1], padded.shape[1], 2 * self.half + 1)
        return as_strided(padded, shape, (task, *steps, channel, steps[-1]), writeable=False)

    def _rows(self, run: int) -> Iterator[Rows]:
        """The windows of one part of the batch, a cacheful of points at a time, row by row along the last axis."""
        tasks, points, _ = self.x.shape
        sets = slice(tasks * run // WINDOW_RUNS, tasks * (run + 1) // WINDOW_RUNS)
        numbers = (sets.stop - sets.start) * len(self.scales) * (2 * self.half + 1)
        step = max(1, WINDOW_NUMBERS // max(1, numbers))
        for first in range(0, points if numbers else 0, step):
            own = (sets, slice(first, min(first + step, points)))
            along = [self._along(d, self.x[(*own, d)]) for d in range(len(self.lengths))]
            begins, steps, weights = zip(*along, strict=True)
            tasks_here = np.arange(sets.start, sets.stop)[:, None]
            for taps in np.ndindex(*(w.shape[-1] for w in weights[:-1])):
                outer: Any = 1
                for tap, w in zip(taps, weights, strict=False):
                    outer = outer * w[..., tap]
                moved = [begin + tap for begin, tap in zip(begins, (*taps, 0), strict=True)]
                away = [*(d[..., tap, None] for d, tap in zip(steps, taps, strict=False)), steps[-1]]
                yield Rows(own, (tasks_here, *moved), away, weights[-1], outer)

    def _along(self, axis: int, x: Array) -> tuple[Array, Array, Array]:
        """On one axis, for points x (b, n): where the padded window begins, (b, n), the steps d from x to its places,
        (b, n, W), and the weights exp(−d²/2ℓ²), (b, n, C, W).
        """
        taps = (np.arange(-self.half, self.half + 1) / self.points_per_unit).astype(x.dtype)  # (W,)
        nearest = np.rint(x * self.points_per_unit)  # (b, n)
        nearest = np.fmin(np.fmax(nearest, 0), self.lengths[axis] - 1)  # NaN, which stands for no place, becomes 0
        offset = x - (nearest / self.points_per_unit).astype(taps.dtype)  # (b, n)
        steps = taps - offset[..., None]  # (b, n, W)
        factor = -0.5 / (self.scales * self.scales)  # (C,)
        return nearest.astype(np.intp), steps, decay((steps * steps)[:, :, None] * factor[:, None])
