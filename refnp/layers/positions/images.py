"""Relative positions in images (iRPE): learned numbers or vectors for the offset Δ = p_n − p_m of two places on a grid.

    bias:         s_nm = r_{I(Δ)} / √d             contextual:   s_nm = q_n·r_{I(Δ)} / √d
    on values:    t_n = Σ_m α_nm r'_{I(Δ)}

Offsets share buckets, the more the further away: g counts up to α one by one, then by logarithm, and never beyond β.

    g(x) = sign(x) min(β, [|x|])  if |x| ≤ α,  else  sign(x) min(β, [α + (β − α) ln(|x|/α)/ln(γ/α)])

where [·] rounds, halves to even, and what is left of min(β, ·) is its whole part (the paper has no min in the first
case, where it is needed if α rounds to more than β).

Four ways to choose the bucket I(Δ), the first two without direction:

    euclidean   g(|Δ|)                    product   (g(Δ_row), g(Δ_column)), a bucket for each pair of indices
    quantised   g(rank of |Δ|)            cross     r = r^row_{g(Δ_row)} + r^column_{g(Δ_column)}, two tables

Distances between places of a grid are 0, 1, √2, 2, √5, …; the rank of one is its number in that list, so that (1, 0)
and (1, 1), which round to the same distance, stay apart.

Source: Wu et al. (2021), arXiv 2107.14222 §4 (g is eq. 18), named in Sivaraya (2023) §1.2. Their code differs in
places: it adds biases without 1/√d, rounds |Δ| before g, and takes |Δ|² where the paper has the rank.
Transcription: tests/transcriptions/positions.py.
"""

import functools
import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from refnp.autograd import matmul, swapaxes, take
from refnp.autograd.declaration import takes
from refnp.autograd.tensor import Array, ArrayLike, Parameter, Tensor
from refnp.layers.positions.relative import (
    PLACES,
    SCALE,
    RelativePositions,
    one_over_root,
    read_buckets,
    signed,
    sum_buckets,
)

METHODS = ("euclidean", "quantised", "cross", "product")


INCREASING = "alpha ≤ beta, pass a beta that is alpha or more; alpha < gamma, pass a gamma above alpha"


@takes("", **dict.fromkeys(("alpha", "beta", "gamma"), "positive"), needs=INCREASING)
def piecewise_index(x: ArrayLike, *, alpha: float, beta: float, gamma: float) -> Array:
    """g(x): real numbers to integers from −⌊β⌋ to ⌊β⌋, see above.

    Shapes: (...) → (...).   Raises ValueError unless 0 < α ≤ β and α < γ, and for NaN.
    """
    if np.isnan(x).any():
        raise ValueError("piecewise_index: x holds NaN; a distance is a number")
    size = np.abs(np.asarray(x, np.float64))
    far = alpha + (beta - alpha) * np.log(np.maximum(size, alpha) / alpha) / math.log(gamma / alpha)
    index = np.minimum(beta, np.rint(np.where(size <= alpha, size, far)))
    return (np.sign(x) * np.floor(index)).astype(np.int64)


def ranks(squares: Array, axes: int) -> Array:
    """The number of each squared distance among all that a grid has, 0, 1, 2, 4, 5, 8, … with two axes.

    Shapes: integers (...) → (...).
    """
    side = np.arange(math.isqrt(int(squares.max(initial=0))) + 1) ** 2
    levels = np.zeros(1, np.int64)
    for _ in range(axes):
        levels = np.unique(levels[:, None] + side)
    return np.searchsorted(levels, squares)


@takes("→ (T, 2)", **dict.fromkeys(("rows", "columns", "leading"), "whole ≥ 0"))
def image_places(rows: int, columns: int, *, leading: int = 0) -> Array:
    """(row, column) of every patch, row by row, after `leading` tokens without a place, whose rows are 0.

    Shapes: (leading + rows · columns, 2) integers.   Raises ValueError for a number below 0.
    """
    grid = np.indices((rows, columns)).reshape(2, -1).T
    return np.concatenate([np.zeros((leading, 2), grid.dtype), grid])


class ImagePositions(RelativePositions):
    """iRPE in one of its modes and methods, for places (N, 2), or (N,) with axes=1.

    `mode` "contextual" needs width = d, the width of a head, "bias" does not; `values=True` adds the term on values.
    Tables serve all heads unless `heads` is given; then each has its own. α, β, γ are in units of the grid.
    The first `leading` queries and keys have no place (a class token); what stands for it in `places` does not matter,
    and their pairs share one bucket of their own, the last.
    Shapes: B buckets make tables (B,) or (H, B) for biases, (B, d) or (H, B, d) for vectors; "cross" has one table for
    each axis. With L = 2⌊β⌋ + 1, B is L^axes for "product", L for "cross", ⌊β⌋ + 1 for others, 1 more if `leading`.
    Shifting all places changes no bit. Methods without direction keep the motions of the grid as well, reflections and
    quarter turns, the other two do not; no method keeps permutations.
    Raises ValueError for no such mode or method, a missing width, impossible α, β, γ, or places that do not fit.
    """

    @takes(
        "",
        **dict.fromkeys(("width", "heads"), "whole ≥ 1?"),
        mode="bias | contextual",
        method=" | ".join(METHODS),
        axes="whole ≥ 1",
        **dict.fromkeys(("alpha", "beta", "gamma"), "positive"),
        leading="whole ≥ 0",
        values="True or False",
        rng="generator",
        needs=f"{INCREASING}; width is given if mode = contextual or values, pass the width of one head",
    )
    def __init__(
        self,
        width: int | None = None,
        *,
        mode: str = "contextual",
        method: str = "product",
        axes: int = 2,
        heads: int | None = None,
        alpha: float = 1.9,
        beta: float = 3.8,
        gamma: float = 15.2,
        leading: int = 0,
        values: bool = False,
        rng: np.random.Generator,
    ):
        self.mode, self.method, self.axes, self.leading, self.adds_values = mode, method, axes, leading, values
        self.beta, self.gamma, self.place = beta, gamma, (axes,) if axes > 1 else ()
        self._index = functools.partial(piecewise_index, alpha=alpha, beta=beta, gamma=gamma)
        side = 2 * math.floor(beta) + 1
        self.count = {"product": side**axes, "cross": side}.get(method, side // 2 + 1) + (leading > 0)
        tables = axes if method == "cross" else 1
        self.each_head = () if heads is None else (heads,)
        self.width = None if mode == "bias" else width
        shape = (*self.each_head, self.count)
        vectors = (*shape, width)
        of_keys = shape if mode == "bias" else vectors
        self.keys = [Parameter(rng.normal(0, SCALE, of_keys)) for _ in range(tables)]
        self.value_tables = [Parameter(rng.normal(0, SCALE, vectors)) for _ in range(tables if values else 0)]

    @takes(f"query (..., *each_head, N, width), {PLACES} → (..., N, M)")
    def scores(self, query: Array | Tensor, query_places: ArrayLike, key_places: ArrayLike) -> Array | Tensor:
        buckets = self.buckets(query_places, key_places)
        return _added(self._scores(query, table, b) for table, b in zip(self.keys, buckets, strict=True))

    def _scores(self, query: Any, table: Any, buckets: Array) -> Any:
        scale = one_over_root(query)
        if self.mode == "bias":
            return take(table * scale, buckets, axis=-1)  # (..., N, M)
        return read_buckets(matmul(query, swapaxes(table, -1, -2)) * scale, buckets=buckets)  # (..., N, M)

    @takes(f"weights (..., N, M), {PLACES} → (..., N, d)")
    def values(self, weights: Array | Tensor, query_places: ArrayLike, key_places: ArrayLike) -> Array | Tensor | None:
        if not self.adds_values:
            return None
        buckets = self.buckets(query_places, key_places)
        return _added(
            matmul(sum_buckets(weights, buckets=b, count=self.count), table)
            for table, b in zip(self.value_tables, buckets, strict=True)
        )

    def buckets(self, query_places: ArrayLike, key_places: ArrayLike) -> list[Array]:
        """The bucket of every pair, (N, M), one array for each table."""
        queries, keys = signed(query_places, key_places)
        n, m, first = len(queries), len(keys), self.leading
        queries, keys = (p[first:].reshape(-1, self.axes) for p in (queries, keys))
        arrays = []
        for buckets in self._of_offsets(queries[:, None] - keys):
            arrays.append(np.full((n, m), self.count - 1))
            arrays[-1][first:, first:] = buckets
        return arrays

    def _of_offsets(self, offsets: Array) -> list[Array]:
        """The buckets of offsets (N, M, axes) between places."""
        if self.method in ("euclidean", "quantised"):
            squares = (offsets * offsets).sum(-1)  # (N, M)
            if self.method == "euclidean":
                return [self._index(np.sqrt(squares))]
            end = math.ceil(self.gamma) ** 2  # ranks are no less than distances, and from γ on all indices are ⌊β⌋
            return [self._index(ranks(np.minimum(squares, end), self.axes))]
        furthest = math.floor(self.beta)
        indices = [self._index(offsets[..., axis]) + furthest for axis in range(self.axes)]
        if self.method == "cross":
            return indices
        side = 2 * furthest + 1
        return [_added(index * side**power for power, index in enumerate(reversed(indices)))]


def _added(parts: Iterable) -> Any:
    return functools.reduce(operator.add, parts)
