"""Relative positions: what the places of a query and a key add to attention.

    S_ij = q_i·k_j / √d + s_ij        z_i = Σ_j α_ij v_j + t_i        (α = softmax of S over the keys)

q and k may be turned first, each by its own place; s and t depend on the places of the pair. A scheme is a subclass of
`RelativePositions` that overrides what it needs: here Shaw's, on other pages biases (T5, ALiBi), rotations (RoPE), and
images (iRPE).

Source: Sivaraya (2023) §1.2, "to achieve translation equivariance": in which sense, see docs/positions.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refnp.autograd import Parameter, matmul, swapaxes
from refnp.autograd.primitive import raw
from refnp.layers.module import Module
from refnp.layers.pairs import check_places, is_run, read_buckets, read_diagonals, sum_buckets, sum_diagonals
from refnp.layers.similarity import one_over_root

SCALE = 0.02  # standard deviation of learned positions at the start, as in BERT, GPT-2 and ViT


class RelativePositions(Module):
    """What pairs of places add to attention; this one adds nothing.

    `places` are integers (N,), or (N, 2) rows and columns of an image; those of queries and of keys may differ.
    `adds_values` says whether `values` gives anything: if so, it needs the weights of attention.
    """

    adds_values = False

    def rotated(self, x: Any, places: Any) -> Any:
        """Queries or keys in heads, x (..., H, N, d) at N places, turned each by its own place."""
        return x

    def scores(self, query: Any, query_places: Any, key_places: Any) -> Any:
        """s, added to the scaled scores: of query (..., H, N, d), what broadcasts to (..., H, N, M); or None."""
        return None

    def values(self, weights: Any, query_places: Any, key_places: Any) -> Any:
        """t, added to each head's output: of weights (..., H, N, M), an array (..., H, N, d_v); or None."""
        return None


class Shaw(RelativePositions):
    """A learned vector for each offset of a key from its query, clipped at ±k, added to keys and to values.

        s_ij = q_i·a_{clip(j − i, −k, k)} / √d            t_i = Σ_j α_ij b_{clip(j − i, −k, k)}

    Shapes: width = d, distance = k, and one table of vectors (2k+1, d) for all heads, as in the paper; with `heads` one
    for each, (H, 2k+1, d). `values=False` leaves t out.
    A query is multiplied by all 2k + 1 vectors, and each pair reads its number; weights are added up by offset, then
    multiplied. So the memory is that of the scores, not N·M·d. Any integer places will do; runs of them are fastest.
    Shifting all places changes no bit. Permuting tokens does, and so does reversing their order; but with k = 0 all
    offsets are alike, and the order does not matter.
    Raises ValueError for a width below 1 or a distance below 0.

    Source: Sivaraya (2023) §1.2; Shaw, Uszkoreit & Vaswani, arXiv 1803.02155, eq. 3 to 5.
    """

    def __init__(
        self, width: int, distance: int, *, heads: int | None = None, values: bool = True, rng: np.random.Generator
    ):
        if width < 1 or distance < 0:
            raise ValueError(f"Shaw: width {width} must be at least 1, distance {distance} at least 0")
        shape = (*(() if heads is None else (heads,)), 2 * distance + 1, width)
        self.key = Parameter(rng.normal(0, SCALE, shape))
        self.value = Parameter(rng.normal(0, SCALE, shape)) if values else None
        self.distance, self.adds_values = distance, values

    def scores(self, query: Any, query_places: Any, key_places: Any) -> Any:
        check_width("Shaw", query, self.key)
        query_places, key_places = _places(query_places, key_places, query.shape[-2], None)
        x = matmul(query, swapaxes(self.key, -1, -2)) * one_over_root(raw(query))  # (..., N, 2k+1)
        if is_run(query_places) and is_run(key_places):
            return read_diagonals(x, shift=self._shift(query_places, key_places), keys=len(key_places))
        return read_buckets(x, self.offsets(query_places, key_places))

    def values(self, weights: Any, query_places: Any, key_places: Any) -> Any:
        if self.value is None:
            return None
        query_places, key_places = _places(query_places, key_places, *weights.shape[-2:])
        count = self.value.shape[-2]
        if is_run(query_places) and is_run(key_places):
            x = sum_diagonals(weights, shift=self._shift(query_places, key_places), count=count)
        else:
            x = sum_buckets(weights, buckets=self.offsets(query_places, key_places), count=count)  # (..., N, 2k+1)
        return matmul(x, self.value)

    def offsets(self, query_places: np.ndarray, key_places: np.ndarray) -> np.ndarray:
        """clip(j − i, −k, k) + k for every pair, (N, M): which row of the tables it is."""
        offsets = key_places - query_places[:, None]
        return np.clip(offsets, -self.distance, self.distance) + self.distance

    def _shift(self, query_places: np.ndarray, key_places: np.ndarray) -> int:
        """The row of the tables, before clipping, that belongs to the first query and the first key."""
        return int(key_places[0] - query_places[0]) + self.distance


def _places(queries: Any, keys: Any, query_tokens: int, key_tokens: int | None) -> tuple[np.ndarray, np.ndarray]:
    return check_places("Shaw", queries, 1, query_tokens), check_places("Shaw", keys, 1, key_tokens)


def check_width(name: str, query: Any, table: Any) -> None:
    """ValueError unless queries (..., H, N, d) have as many features as a table's vectors, (L, d) or (H, L, d)."""
    if query.shape[-1] != table.shape[-1]:
        raise ValueError(
            f"{name}: a query has {query.shape[-1]} features but the vectors of places {table.shape[-1]}; "
            "width must be that of one head"
        )
    if len(table.shape) > 2:
        check_heads(name, query, table.shape[0])


def check_heads(name: str, query: Any, heads: int) -> None:
    """ValueError unless queries (..., H, N, d) have as many heads as the scheme."""
    if query.ndim < 3 or query.shape[-3] != heads:
        raise ValueError(f"{name}: positions are for {heads} heads, but queries (..., heads, N, d) are {query.shape}")
