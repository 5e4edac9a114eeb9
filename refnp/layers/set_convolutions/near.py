"""In one dimension a set convolution needs its neighbours only: the truncated form.

exp(−d²/2ℓ²) falls so fast that most pairs of a target and a point add nothing that a rounding would not swallow.
Let d₀ be the distance from a target to its nearest point, w₀ = exp(−d₀²/2ℓ²) the weight of that one, N the number of
points and u the unit roundoff. With

    h² = d₀² + r²ℓ²,        r² = 2 log(N/u)

a point further away than h has a weight below exp(−h²/2ℓ²) = w₀ u/N, so that all such points together have

    Σ_far w_n ≤ u w₀ ≤ u Σ_n w_n        and        |Σ_far y_n w_n| ≤ u w₀ max|y_n|.

Without them the density is right to one rounding of itself, even where it is 1e-200. (A cut at a fixed rℓ would leave
nothing there, and a quotient of nothing.) In float64 r is 8.6 for one point and 9.8 for 100 000, in float32 5.8 and
7.5. Beyond h = r₀ℓ, 37.6 and 13.1, weights underflow and are 0 in the dense form too.
Gradients have factors |d|/ℓ² or d²/ℓ³ besides, at most h/ℓ² or h²/ℓ³: see `left_out` in refnp/verify/bounds.py.

Cost: once sorted, the points that a target needs are neighbours in memory. They lie in two intervals, d₀ to h away on
either side, neither longer than rℓ. On a grid with g places in a length rℓ a point therefore meets about 2g of them
(up to r₀/r times as many where it is the only one around): O(N + G) pairs for N points and G places. The sort is beside
it, linear where positions come sorted. Where both sides are dense, the pairs that count are many, and all are computed.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from refnp.layers.set_convolutions.kernels import eq, least_exponent
from refnp.layers.set_convolutions.tiles import Block

MANY = 1 << 16  # pairs in a set, fewer than which are not worth sorting
SMALL = 1 << 13  # pairs that cost about as much as the calls to handle a block of them
TALL = 512  # targets in a block at most
WASTE = 1.5  # pairs looked at, for one that is needed


class Neighbours(NamedTuple):
    """The blocks of pairs that matter, once targets and points stand in the orders (B, M) and (B, N) that ascend."""

    blocks: list[Block]
    target_order: np.ndarray
    point_order: np.ndarray


def choose(method, kernel, targets, points, values, present, scales) -> Neighbours | None:
    """The neighbours to look at, or None where all pairs are: as `method` says, or as takes less time.

    Shapes: targets (B, M, D), points (B, N, D), values (B, N, C), present (B, N) or None, scales (C,).
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
        return None
    x, y, scale = targets[..., 0].real, points[..., 0].real, np.max(scales.real, initial=0)
    if method == "auto" and not is_spread_out(x, y, scale, scales.dtype):
        return None
    near = neighbours(x, y, present, scale, scales.dtype)
    return near if method == "truncated" or pays(near) else None


def is_moderate(positions: np.ndarray) -> bool:
    """Whether positions are finite, and sums of a few of them too."""
    return bool(np.abs(positions.real).max(initial=0) < np.finfo(positions.dtype).max / 8)


def is_spread_out(targets: np.ndarray, points: np.ndarray, scale: Any, dtype: Any) -> bool:
    """Whether it is worth looking for neighbours: there are many pairs, and most are far apart."""
    if targets.shape[1] * points.shape[1] < MANY or not targets.size:
        return False
    low, high = min(targets.min(), points.min()), max(targets.max(), points.max())
    return bool(high - low > 4 * reach(points.shape[1], dtype)[0] * scale)


def pays(near: Neighbours) -> bool:
    """Whether sorting and many small blocks take less time than all pairs."""
    (sets, targets), points = near.target_order.shape, near.point_order.shape[1]
    looked_at = sum(block.pairs + SMALL for block in near.blocks)
    return looked_at + 32 * sets * (targets + points) < sets * targets * points


def neighbours(targets: np.ndarray, points: np.ndarray, present: Any, scale: Any, dtype: Any) -> Neighbours:
    """Which pairs of targets (B, M) and points (B, N) matter, for weights in `dtype`; `scale` is the largest ℓ.

    Positions are real and finite; `present` (B, N) says which points are there, or is None.
    Everything is decided by distances from the first target: a shift of all positions without rounding changes nothing.
    """
    wide = np.result_type(np.finfo(dtype).dtype, np.float64)
    targets, points = targets.astype(wide), points.astype(wide)
    if present is not None:
        points = np.where(present, points, np.inf)  # to the end, and out of sight
    target_order, point_order = np.argsort(targets, 1, kind="stable"), np.argsort(points, 1, kind="stable")
    counts = np.full(len(points), points.shape[1]) if present is None else present.sum(1)
    blocks: list[Block] = []
    for b, count in enumerate(counts.tolist()):
        if count and targets.shape[1]:
            t, p = targets[b, target_order[b]], points[b, point_order[b, :count]]
            blocks += blocks_of(b, *windows(t - t[0], p - t[0], wide.type(scale), dtype))
    return Neighbours(blocks, target_order, point_order)


def reach(count: int, dtype: Any) -> tuple[float, float]:
    """r with exp(−r²/2) = u/N, and r₀ with exp(−r₀²/2) = 0, for numbers of `dtype`; r is r₀ at most."""
    vanishing = math.sqrt(-2 * least_exponent(dtype))
    near = math.sqrt(2 * math.log(2 * max(count, 1) / float(np.finfo(dtype).eps)))
    return min(near, vanishing), vanishing


def windows(targets: np.ndarray, points: np.ndarray, scale: Any, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """The first point that target m needs and the first after it that it does not: (M,) and (M,), neither descending.

    Shapes: targets (M,) and points (N,), both ascending, N ≥ 1.
    """
    near, vanishing = reach(len(points), dtype)
    after = np.searchsorted(points, targets)  # (M,)
    walled = np.concatenate([[-np.inf], points, [np.inf]])
    nearest = np.minimum(targets - walled[after], walled[after + 1] - targets)  # (M,)   d₀
    half = np.minimum(np.hypot(nearest, near * scale), vanishing * scale)  # (M,)   h
    span = max(targets[-1], points[-1]) - min(targets[0], points[0])
    half += 8 * np.finfo(targets.dtype).eps * (span + half)  # positions here are rounded distances
    first = np.searchsorted(points, targets - half, "left")  # (M,)
    last = np.searchsorted(points, targets + half, "right")  # (M,)
    return np.minimum.accumulate(first[::-1])[::-1], np.maximum.accumulate(last)


def blocks_of(b: int, first: np.ndarray, last: np.ndarray) -> list[Block]:
    """Blocks of set b that hold the windows first_m … last_m of all targets m, and not much else.

    The targets are halved until a block looks at few pairs in vain, or is small anyway.
    """
    needed = np.concatenate([[0], np.cumsum(last - first)]).tolist()
    firsts, lasts = first.tolist(), last.tolist()
    blocks = []
    waiting = [(0, len(firsts))]
    while waiting:
        start, stop = waiting.pop()
        points = slice(firsts[start], lasts[stop - 1])
        pairs = (stop - start) * (points.stop - points.start)
        if stop - start > 1 and (pairs > max(SMALL, WASTE * (needed[stop] - needed[start])) or stop - start > TALL):
            middle = (start + stop) // 2
            waiting += [(middle, stop), (start, middle)]
        elif pairs > 0:
            blocks.append(Block(slice(b, b + 1), slice(start, stop), points))
    return blocks
