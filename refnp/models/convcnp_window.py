"""Set convolutions between points anywhere and the places of a grid, in windows: who is near is found by counting.

With points n = 1 … N at x_n that carry v_n, places g_k of a grid, 1/p apart, that carry h_k, and a length scale ℓ for
each channel c, one number that is linear in each of v, w and h

    T = Σ_nkc v_nc w_nkc h_kc,        w_nkc = exp(−|g_k − x_n|²/2ℓ_c²)

says everything: its derivative with respect to h is what the points bring to the grid (`to_grid`), with respect to v
what the grid says at the points (`from_grid`). So each is a gradient of the other, and both share the rest,

    ∂T/∂x_n = Σ_kc v_nc w_nkc h_kc (g_k − x_n)/ℓ_c²        ∂T/∂ℓ_c = Σ_nk v_nc w_nkc h_kc |g_k − x_n|²/ℓ_c³.

On a grid nobody has to sort or search. Along each axis x_n lies nearest to place i_n, the rounded p x_n, d₀ away; what
counts are the places i_n − R … i_n + R. A place beyond has a weight of at most exp(−d₀²/2ℓ²) exp(−r²/2), where
R = ⌈√(¼ + (p r ℓ)²) − ½⌉, since (|j| − ½)² ≥ ¼ + (p r ℓ)² for all steps |j| > R. (For x_n beyond the edge even less.)

    from_grid:  exp(−r²/2) = u/K        all K places left out weigh less than one rounding of the nearest one
    to_grid:    exp(−r²/2) = u ε/N      all N points left out add less than u ε to a density that is divided by ε + it

The weights of several axes are products, so exponentials are taken along each axis only. Time is O(N (2R + 1)^D), not
O(N K), and memory that of what goes in and out.
Source: Sivaraya (2023), eq. 10 and 11. Between points anywhere: refnp/layers/set_convolutions/__init__.py.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from refnp.autograd.blocks import floating, run_all
from refnp.autograd.primitives import primitive
from refnp.layers.set_convolutions.kernels import decay, least_exponent

TAPS = 1 << 17  # numbers in a block of windows: a few such arrays stay in the cache of a core
RUNS = 4  # parts of the batch, each the work of one thread


@primitive
def from_grid(features, x, length_scale, *, points_per_unit):
    """f_nc = Σ_k h_kc exp(−|g_k − x_n|²/2ℓ_c²): the function that the features on a grid stand for, at any x.

    Shapes: features h (B, C, *lengths), x (B, N, D) as distances from the first place, in units of x, D = len(lengths),
    ℓ (C,) in units of x → f (B, N, C).
    VJP: h̄_k = Σ_n w_nk f̄_n; x̄ and ℓ̄ are the derivatives of T above with v = f̄.
    """
    h, x, scales = floating(features), floating(x), np.asarray(length_scale)
    unit = np.finfo(np.result_type(h, x, scales)).eps / 2
    windows = Windows.of(x, scales, h.shape[2:], points_per_unit, unit / max(1, math.prod(h.shape[2:])))
    f, _ = windows.gather(h)

    def vjp(f_bar):
        both = functools.cache(lambda: windows.scatter(f_bar, h))
        return lambda: both()[0], lambda: windows.pull(h, f_bar), lambda: both()[1]

    return f, vjp


@primitive
def to_grid(values, x, length_scale, *, lengths, points_per_unit, eps=1.0):
    """z_kc = Σ_n v_nc exp(−|g_k − x_n|²/2ℓ_c²): what points anywhere bring to the places of a grid.

    Shapes: values v (B, N, C), x (B, N, D) as distances from the first place, in units of x, ℓ (C,)
    → z (B, C, *lengths). `eps`: what will be added to a density before it divides; 1 where nothing is divided.
    VJP: v̄_n = Σ_k w_nk z̄_k; x̄ and ℓ̄ are the derivatives of T above with h = z̄.
    """
    v, x, scales = floating(values), floating(x), np.asarray(length_scale)
    unit = np.finfo(np.result_type(v, x, scales)).eps / 2
    windows = Windows.of(x, scales, lengths, points_per_unit, unit * min(eps, 1.0) / max(1, v.shape[1]))
    z, _ = windows.scatter(v)

    def vjp(z_bar):
        both = functools.cache(lambda: windows.gather(z_bar, v))
        return lambda: both()[0], lambda: windows.pull(z_bar, v), lambda: both()[1]

    return z, vjp


def half_width(length_scale: float, points_per_unit: float, least: float, dtype: Any) -> int:
    """R, how many places to each side of the nearest count, if weights below `least` do not."""
    exponent = max(math.log(least), least_exponent(dtype))  # weights below the latter are 0 anyway
    return math.ceil(math.hypot(0.5, math.sqrt(-2 * exponent) * length_scale * points_per_unit) - 0.5)


@dataclass(frozen=True)
class Windows:
    """The windows of points x (B, N, D) on a grid of `lengths`, `half` places to each side, length scales (C,)."""

    x: np.ndarray
    scales: np.ndarray
    lengths: tuple[int, ...]
    points_per_unit: float
    half: int

    @classmethod
    def of(cls, x, scales, lengths, points_per_unit, least) -> Windows:
        dtype = np.result_type(x, scales)
        half = half_width(float(scales.real.max(initial=0)), points_per_unit, float(least), dtype)
        half = min(half, max(lengths))
        return cls(x.astype(dtype, copy=False), scales.astype(dtype), tuple(lengths), points_per_unit, half)

    def gather(self, h: np.ndarray, v: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Σ_k w_nk h_k, (B, N, C), and if v is given ∂T/∂ℓ, (C,)."""
        view = self.seen(self.padded(h))
        f = np.zeros((*self.x.shape[:2], len(self.scales)), np.result_type(h, self.x, self.scales))  # (B, N, C)
        bars = np.zeros((RUNS, len(self.scales)), f.dtype if v is None else np.result_type(f, v))

        def work(run: int) -> None:
            for block in self.blocks(run):
                for taps, weight, square in block.outer():
                    seen = view[block.windows(taps)]  # (b, n, C, W)
                    if v is None:
                        f[block.own] += weight * np.einsum("bncw,bncw->bnc", seen, block.weights[-1])
                        continue
                    seen *= block.weights[-1]
                    f[block.own] += weight * seen.sum(-1)
                    seen *= (v[block.own] * weight)[..., None]
                    bars[run] += np.einsum("bncw,bnw->c", seen, block.squares(square))

        run_all(work, RUNS)
        return f, bars.sum(0) / self.scales**3

    def scatter(self, v: np.ndarray, h: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Σ_n w_nk v_n, (B, C, *lengths), and if h is given ∂T/∂ℓ, (C,)."""
        tasks, channels = len(v), len(self.scales)
        view = None if h is None else self.seen(self.padded(h))
        dtype = np.result_type(v, self.x, self.scales)
        rooms = np.zeros((channels, tasks, *(n + 2 * self.half for n in self.lengths)), dtype)
        bars = np.zeros((RUNS, channels), dtype if h is None else np.result_type(dtype, h))

        def work(run: int) -> None:
            for block in self.blocks(run):
                for taps, weight, square in block.outer():
                    parts = block.weights[-1] * (v[block.own] * weight)[..., None]  # (b, n, C, W)
                    places = block.places(taps, rooms.shape[2:], parts.shape[-1]).ravel()
                    for room, part in zip(rooms[:, block.sets], parts.transpose(2, 0, 1, 3), strict=True):
                        np.add.at(room.reshape(-1), places, part.ravel())
                    if view is not None:
                        parts *= view[block.windows(taps)]
                        bars[run] += np.einsum("bncw,bnw->c", parts, block.squares(square))

        run_all(work, RUNS)
        return np.ascontiguousarray(rooms[self.inner()].swapaxes(0, 1)), bars.sum(0) / self.scales**3

    def pull(self, h: np.ndarray, v: np.ndarray) -> np.ndarray:
        """∂T/∂x, (B, N, D)."""
        view = self.seen(self.padded(h))
        x_bar = np.zeros(self.x.shape, np.result_type(h, v, self.x, self.scales))  # (B, N, D)

        def work(run: int) -> None:
            for block in self.blocks(run):
                for taps, weight, _ in block.outer():
                    g = v[block.own] * weight / self.scales**2  # (b, n, C)
                    parts = np.einsum("bncw,bncw->bnw", view[block.windows(taps)] * g[..., None], block.weights[-1])
                    for d, away in enumerate(block.away(taps)):
                        x_bar[(*block.own, d)] += (parts * away).sum(-1)

        run_all(work, RUNS)
        return x_bar

    def padded(self, h: np.ndarray) -> np.ndarray:
        """(B, C, *lengths) with `half` zeros on every side."""
        room = np.zeros((*h.shape[:2], *(n + 2 * self.half for n in self.lengths)), h.dtype)
        room[self.inner()] = h
        return room

    def inner(self) -> Any:
        """Where the grid stands in a padded one."""
        return (..., *(slice(self.half, self.half + n) for n in self.lengths))

    def seen(self, padded: np.ndarray) -> np.ndarray:
        """A view of padded features, (B, *L, C, W): the window along the last axis that begins at each place."""
        task, channel, *steps = padded.strides
        shape = (len(padded), *padded.shape[2:-1], self.lengths[-1], padded.shape[1], 2 * self.half + 1)
        return as_strided(padded, shape, (task, *steps, channel, steps[-1]), writeable=False)

    def blocks(self, run: int) -> Iterator[Block]:
        """The points of one part of the batch, a cacheful of taps at a time."""
        tasks, points, _ = self.x.shape
        sets = slice(tasks * run // RUNS, tasks * (run + 1) // RUNS)
        numbers = (sets.stop - sets.start) * len(self.scales) * (2 * self.half + 1)
        step = max(1, TAPS // max(1, numbers))
        for first in range(0, points if numbers else 0, step):
            yield self.block(sets, slice(first, min(first + step, points)))

    def block(self, sets: slice, points: slice) -> Block:
        x = self.x[sets, points]  # (b, n, D)
        taps = (np.arange(-self.half, self.half + 1) / self.points_per_unit).astype(x.real.dtype)  # (W,)
        factor = -0.5 / (self.scales * self.scales)  # (C,)
        cells, steps, weights = [], [], []
        for d, length in enumerate(self.lengths):
            nearest = np.rint(x[..., d].real * self.points_per_unit)  # (b, n)
            nearest = np.fmin(np.fmax(nearest, 0), length - 1)  # NaN, which stands for no place, becomes 0
            offset = x[..., d] - (nearest / self.points_per_unit).astype(taps.dtype)  # (b, n)
            away = taps - offset[..., None]  # (b, n, W)
            cells.append(nearest.astype(np.intp))
            steps.append(away)
            weights.append(decay((away * away)[:, :, None] * factor[:, None]))  # (b, n, C, W)
        return Block(sets, points, cells, steps, weights)


@dataclass(frozen=True)
class Block:
    """Some points of some tasks. For each axis: the place where the padded window of a point begins, `cells` (b, n);
    `steps` d from the point to the places of its window, (b, n, W); `weights` exp(−d²/2ℓ²), (b, n, C, W).
    """

    sets: slice
    points: slice
    cells: list[np.ndarray]
    steps: list[np.ndarray]
    weights: list[np.ndarray]

    @property
    def own(self) -> tuple[slice, slice]:
        return self.sets, self.points

    def outer(self) -> Iterator[tuple[tuple[int, ...], Any, Any]]:
        """Every combination of taps on all axes but the last, with its weight (b, n, C) and |d|² (b, n), or 1 and 0."""
        for taps in np.ndindex(*(w.shape[-1] for w in self.weights[:-1])):
            weight: Any = 1
            square: Any = 0
            for tap, w, d in zip(taps, self.weights, self.steps, strict=False):
                weight, square = weight * w[..., tap], square + d[..., tap] ** 2
            yield taps, weight, square

    def squares(self, outer: Any) -> np.ndarray:
        """|d|² at every tap of the last axis, (b, n, W), if it is `outer` on the others."""
        return self.steps[-1] ** 2 + np.asarray(outer)[..., None]

    def away(self, taps: tuple[int, ...]) -> list[np.ndarray]:
        """d along each axis at the taps of the last axis, if it is at `taps` on the others: (b, n, W) or (b, n, 1)."""
        return [*(d[..., tap, None] for d, tap in zip(self.steps, taps, strict=False)), self.steps[-1]]

    def windows(self, taps: tuple[int, ...]) -> tuple:
        """The index of the windows at the given taps of the axes before the last, in what `Windows.seen` shows."""
        moved = [cell + tap for cell, tap in zip(self.cells, (*taps, 0), strict=True)]
        return (np.arange(self.sets.start, self.sets.stop)[:, None], *moved)

    def places(self, taps: tuple[int, ...], lengths: tuple[int, ...], width: int) -> np.ndarray:
        """Where these windows are in the flattened padded grids of these tasks, (b, n, W)."""
        place = np.arange(self.sets.stop - self.sets.start)[:, None]
        for cell, tap, n in zip(self.cells, (*taps, 0), lengths, strict=True):
            place = place * n + cell + tap
        return place[..., None] + np.arange(width)
