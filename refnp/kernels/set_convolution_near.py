"""Which pairs of a target and a context point count in a set convolution with the EQ kernel.

exp(−d²/2ℓ²) falls so fast that most pairs add less than a rounding. Let u be the unit roundoff.

Between points anywhere, in one dimension. Let d₀ be the distance from a target to its nearest context point,
w₀ = exp(−d₀²/2ℓ²) the weight of that one, M the number of points. With

    h² = d₀² + r²ℓ²,        r² = 2 log(M/u)

a point further away than h has a weight below exp(−h²/2ℓ²) = w₀ u/M, so that all such points together have

    Σ_far w_m ≤ u w₀ ≤ u Σ_m w_m        and        |Σ_far y_m w_m| ≤ u w₀ max|y_m|.

Without them the density is right to one rounding of itself, even where it is 1e-200. (A cut at a fixed rℓ would leave
no point there, and 0/0.) In float64 r is 8.6 for one point and 9.8 for 100 000, in float32 5.8 and 7.5. Beyond
h = r₀ℓ, 37.6 and 13.1, weights underflow and are 0 in the dense sum too. Gradients have factors |d|/ℓ² or d²/ℓ³
besides, at most h/ℓ² or h²/ℓ³: see `left_out` in refnp/verify/bounds.py.

Time: once sorted, the points that a target needs are neighbours in memory. They lie in two intervals, d₀ to h away on
either side, neither longer than rℓ. Beside a grid with g places in a length rℓ a point is needed by about 2g of them
(up to r₀/r times as many where it is the only one around): O(N + M) pairs. Sorting takes O(N log N + M log M), linear
time where positions are sorted already. Where both sides are dense, most pairs count, and all are computed.

On a `Grid`, in any number of dimensions, no one has to sort or search. Along each axis x lies nearest to place i, the
rounded p x, d₀ away (p places per unit); what counts are the places i − R … i + R. A place beyond has a weight of at
most exp(−d₀²/2ℓ²) exp(−r²/2), where R = ⌈√(¼ + (p r ℓ)²) − ½⌉, since (|j| − ½)² ≥ ¼ + (p r ℓ)² for all steps |j| > R.
(For x beyond the edge even less.) Where one computes

    from K places of a grid:    exp(−r²/2) = u/K      all K places left out weigh less than one rounding of the nearest
    to a grid, from M points:   exp(−r²/2) = u ε/M    all M points left out add less than u ε to a density

with ε what is added to the density before it divides, and 1 if it does not: then a density below 1 is right to u, and
not to u times itself as above.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple, Self

import numpy as np

from refnp.kernels.radial import eq, least_exponent
from refnp.numbers.arrays import Array

TILE_BYTES = 1 << 16  # for a number per pair of a tile: the system takes larger arrays back each time they are freed
TILE_PAIRS = TILE_BYTES // 8  # pairs in a tile of float64
MANY_PAIRS = 1 << 16  # pairs in a set, fewer than which are not worth sorting
SMALL_BLOCK = 1 << 13  # pairs that take about as long as the calls to handle a block of them
TALLEST = 512  # targets in a block at most
WASTE = 1.5  # pairs computed, for one that is needed


class Block(NamedTuple):
    """Some targets of some sets, and the context points they need: slices of the axes B, N and M."""

    sets: slice
    targets: slice
    points: slice

    @property
    def pairs(self) -> int:
        """How many pairs it has."""
        return math.prod(part.stop - part.start for part in self)

    def tiles(self, pairs: int) -> Iterator[Self]:
        """The block in pieces of about so many pairs, along the points."""
        first, last = self.points.start, self.points.stop
        step = max(1, pairs * (last - first) // max(self.pairs, 1))
        for start in range(first, last, step):
            yield self._replace(points=slice(start, min(start + step, last)))


class Portions(NamedTuple):
    """The blocks of pairs that count, once targets and points stand in the given orders, (B, N) and (B, M), or as they
    came where these are None.
    """

    blocks: list[Block]
    target_order: Array | None = None
    point_order: Array | None = None


def portions_of(
    method: str, kernel: Callable, targets: Array, points: Array, values: Array, present: Array | None, scales: Array
) -> Portions:
    """The pairs to compute, as `method` says, or whichever take less time.

    Shapes: targets (B, N, dx), points (B, M, dx), values (B, M, C), present (B, M) or None, scales (C,).
    Raises ValueError for method "truncated" where there is no such form.
    """
    obstacle = None
    if kernel is not eq:
        obstacle = "needs the kernel eq"
    elif targets.shape[-1] != 1:
        obstacle = f"needs positions of 1 dimension, not {targets.shape[-1]}"
    elif not (is_moderate(targets) and is_moderate(points) and np.isfinite(values).all()):
        obstacle = "needs finite numbers"  # NaN must reach as far as it does in the dense form
    if method == "truncated" and obstacle:
        raise ValueError(f"set_convolution: method='truncated' {obstacle}; use method='dense'")
    if method == "dense" or obstacle:
        return all_pairs(targets, points)
    x, y, scale = targets[..., 0], points[..., 0], np.max(scales, initial=0)
    if method == "auto" and not is_wide(x, y, scale, scales.dtype):
        return all_pairs(targets, points)
    near = neighbours(x, y, present, scale, scales.dtype)
    return near if method == "truncated" or pays(near) else all_pairs(targets, points)


def all_pairs(targets: Array, points: Array) -> Portions:
    """Blocks of all pairs of targets (B, N, dx) and points (B, M, dx), in the order in which they came."""
    (sets, many), few = targets.shape[:2], points.shape[1]
    if not sets * many * few:
        return Portions([])
    height = min(many, max(1, TILE_PAIRS // min(few, 256)))  # targets in a block
    deep = max(1, TILE_PAIRS // (height * few)) if height == many else 1  # sets in a block, where sets are small
    return Portions(
        [
            Block(slice(b, min(b + deep, sets)), slice(n, min(n + height, many)), slice(0, few))
            for b in range(0, sets, deep)
            for n in range(0, many, height)
        ]
    )


def is_moderate(positions: Array) -> bool:
    """Whether positions are finite, and sums of a few of them too."""
    return bool(np.abs(positions).max(initial=0) < np.finfo(positions.dtype).max / 8)


def is_wide(targets: Array, points: Array, scale: np.floating, dtype: np.dtype | type) -> bool:
    """Whether it is worth searching for neighbours: there are many pairs, and most are far apart."""
    if targets.shape[1] * points.shape[1] < MANY_PAIRS or not targets.size:
        return False
    low, high = min(targets.min(), points.min()), max(targets.max(), points.max())
    return bool(high - low > 4 * reach(points.shape[1], dtype)[0] * scale)


def pays(near: Portions) -> bool:
    """Whether sorting and many small blocks take less time than all pairs."""
    (sets, targets), points = near.target_order.shape, near.point_order.shape[1]  # type: ignore[union-attr]
    computed = sum(block.pairs + SMALL_BLOCK for block in near.blocks)
    return computed + 32 * sets * (targets + points) < sets * targets * points


def neighbours(
    targets: Array, points: Array, present: Array | None, scale: np.floating, dtype: np.dtype | type
) -> Portions:
    """Which pairs of targets (B, N) and points (B, M) count, for weights in `dtype`; `scale` is the largest ℓ.

    Positions are finite; `present` (B, M) says which points are there, or is None.
    Everything is decided by distances from the first target: a shift of all positions without rounding changes nothing.
    """
    wide = np.result_type(np.finfo(dtype).dtype, np.float64)
    targets, points = targets.astype(wide), points.astype(wide)
    if present is not None:
        points = np.where(present, points, np.inf)  # to the end of the order
    target_order, point_order = np.argsort(targets, 1, kind="stable"), np.argsort(points, 1, kind="stable")
    counts = np.full(len(points), points.shape[1]) if present is None else present.sum(1)
    blocks: list[Block] = []
    for b, count in enumerate(counts.tolist()):
        if count and targets.shape[1]:
            t, p = targets[b, target_order[b]], points[b, point_order[b, :count]]
            blocks += blocks_of(b, *windows(t - t[0], p - t[0], wide.type(scale), dtype))
    return Portions(blocks, target_order, point_order)


def reach(count: int, dtype: np.dtype | type) -> tuple[float, float]:
    """r with exp(−r²/2) = u/M, and r₀ with exp(−r₀²/2) = 0, for numbers of `dtype`; r is r₀ at most."""
    vanishing = math.sqrt(-2 * least_exponent(dtype))
    near = math.sqrt(2 * math.log(2 * max(count, 1) / float(np.finfo(dtype).eps)))
    return min(near, vanishing), vanishing


def windows(targets: Array, points: Array, scale: np.floating, dtype: np.dtype | type) -> tuple[Array, Array]:
    """The first point that target n needs and the first after it that it does not: (N,) and (N,), neither descending.

    Shapes: targets (N,) and points (M,), both ascending, M ≥ 1.
    """
    near, vanishing = reach(len(points), dtype)
    after = np.searchsorted(points, targets)  # (N,)
    walled = np.concatenate([[-np.inf], points, [np.inf]])
    nearest = np.minimum(targets - walled[after], walled[after + 1] - targets)  # (N,)   d₀
    half = np.minimum(np.hypot(nearest, near * scale), vanishing * scale)  # (N,)   h
    span = max(targets[-1], points[-1]) - min(targets[0], points[0])
    half += 8 * np.finfo(targets.dtype).eps * (span + half)  # positions here are rounded distances
    first = np.searchsorted(points, targets - half, "left")  # (N,)
    last = np.searchsorted(points, targets + half, "right")  # (N,)
    return np.minimum.accumulate(first[::-1])[::-1], np.maximum.accumulate(last)


def blocks_of(b: int, first: Array, last: Array) -> list[Block]:
    """Blocks of set b that hold the windows first_n … last_n of all targets n, and not much else.

    The targets are halved until few of a block's pairs are not needed, or the block is small anyway.
    """
    needed = np.concatenate([[0], np.cumsum(last - first)]).tolist()
    firsts, lasts = first.tolist(), last.tolist()
    blocks = []
    waiting = [(0, len(firsts))]
    while waiting:
        start, stop = waiting.pop()
        block = Block(slice(b, b + 1), slice(start, stop), slice(firsts[start], lasts[stop - 1]))
        most = max(SMALL_BLOCK, WASTE * (needed[stop] - needed[start]))
        if stop - start > 1 and (block.pairs > most or stop - start > TALLEST):
            middle = (start + stop) // 2
            waiting += [(middle, stop), (start, middle)]
        elif block.pairs > 0:
            blocks.append(block)
    return blocks


def half_width(length_scale: float, points_per_unit: float, least: float, dtype: np.dtype | type) -> int:
    """R, how many places to each side of the nearest count, if weights below `least` do not."""
    exponent = max(math.log(least), least_exponent(dtype))  # weights below the latter are 0 anyway
    return math.ceil(math.hypot(0.5, math.sqrt(-2 * exponent) * length_scale * points_per_unit) - 0.5)
