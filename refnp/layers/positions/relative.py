"""Relative positions: what the places of a query and a key add to attention.

    S_nm = q_n·k_m / √d + s_nm        z_n = Σ_m α_nm v_m + t_n        (α = softmax of S over the keys)

q and k may be rotated first, each by its own place; s and t depend on the places of the pair. A scheme is a subclass of
`RelativePositions` that overrides what it needs: here Shaw's, on other pages biases (T5, ALiBi), rotations (RoPE), and
images (iRPE).

Source: Sivaraya (2023) §1.2, "to achieve translation equivariance": in which sense, see docs/positions.md.
Words: layers/__init__.py.   Transcription: tests/transcriptions/positions.py.
"""

from typing import Any

import numpy as np

from refnp.autograd import matmul, swapaxes
from refnp.autograd.declaration import takes
from refnp.autograd.pages import page
from refnp.autograd.primitives import integers, raw
from refnp.autograd.tensor import Array, ArrayLike, Parameter, Tensor
from refnp.kernels import diagonals as kernels
from refnp.layers.module import Module
from refnp.layers.positions.absolute import SCALE
from refnp.numbers.kinds import is_kind, word
from refnp.numbers.words import added_at, arange, root

PLACES = "query_places whole (N, *place), key_places whole (M, *place)"


class RelativePositions(Module):
    """What pairs of places add to attention; this one adds nothing.

    `places` are integers (N,), or (N, 2) rows and columns of an image, then `place` is (2,); those of queries and of
    keys may differ.
    `adds_values` says whether `values` gives anything: if so, it needs the weights of attention.
    """

    adds_values = False
    place: tuple[int, ...] = ()  # the axes that a place has

    def rotated(self, x: Array | Tensor, places: ArrayLike) -> Array | Tensor:
        """Queries or keys in heads, x (..., H, N, d) at N places, rotated each by its own place."""
        return x

    def scores(self, query: Array | Tensor, query_places: ArrayLike, key_places: ArrayLike) -> Array | Tensor | None:
        """s, added to the scaled scores: of query (..., H, N, d), what broadcasts to (..., H, N, M); or None."""
        return None

    def values(self, weights: Array | Tensor, query_places: ArrayLike, key_places: ArrayLike) -> Array | Tensor | None:
        """t, added to each head's output: of weights (..., H, N, M), an array (..., H, N, d_v); or None."""
        return None


def signed(query_places: ArrayLike, key_places: ArrayLike) -> tuple[Array, Array]:
    """Both as arrays of int64, whose differences have a sign."""
    return integers("places", "query_places", query_places, signed=True), integers(
        "places", "key_places", key_places, signed=True
    )


class Shaw(RelativePositions):
    """A learned vector for each offset of a key from its query, clipped at ±k, added to keys and to values.

        s_nm = q_n·a_{clip(m − n, −k, k)} / √d            t_n = Σ_m α_nm b_{clip(m − n, −k, k)}

    Shapes: width = d, distance = k, and one table of vectors (2k+1, d) for all heads, as in the paper; with `heads` one
    for each, (H, 2k+1, d). `values=False` leaves t out.
    A query is multiplied by all 2k + 1 vectors, and each pair reads its number; weights are added up by offset, then
    multiplied. So the memory is that of the scores, not N·M·d. Any integer places will do; runs of them are fastest.
    Shifting all places changes no bit. Permuting tokens does, and so does reversing their order; but with k = 0 all
    offsets are alike, and the order does not matter.
    Raises ValueError for a width below 1 or a distance below 0; when called, for places or widths that do not fit.

    Source: Sivaraya (2023) §1.2; Shaw, Uszkoreit & Vaswani (2018), arXiv 1803.02155, eq. 3 to 5.
    """

    @takes("", width="whole ≥ 1", distance="whole ≥ 0", heads="whole ≥ 1?", values="True or False", rng="generator")
    def __init__(
        self, width: int, distance: int, *, heads: int | None = None, values: bool = True, rng: np.random.Generator
    ):
        shape = (*(() if heads is None else (heads,)), 2 * distance + 1, width)
        self.key = Parameter(rng.normal(0, SCALE, shape))
        self.value = Parameter(rng.normal(0, SCALE, shape)) if values else None
        self.distance, self.adds_values, self.width, self.each_head = distance, values, width, shape[:-2]

    @takes(f"query (..., *each_head, N, width), {PLACES} → (..., N, M)")
    def scores(self, query: Array | Tensor, query_places: ArrayLike, key_places: ArrayLike) -> Array | Tensor:
        queries, keys = signed(query_places, key_places)
        x = matmul(query, swapaxes(self.key, -1, -2)) * one_over_root(query)  # (..., N, 2k+1)
        if is_run(queries) and is_run(keys):
            return read_diagonals(x, shift=self._shift(queries, keys), keys=len(keys))
        return read_buckets(x, buckets=self.offsets(queries, keys))

    @takes(f"weights (..., N, M), {PLACES} → (..., N, d)")
    def values(self, weights: Array | Tensor, query_places: ArrayLike, key_places: ArrayLike) -> Array | Tensor | None:
        if self.value is None:
            return None
        queries, keys = signed(query_places, key_places)
        count = self.value.shape[-2]
        if is_run(queries) and is_run(keys):
            x = sum_diagonals(weights, shift=self._shift(queries, keys), count=count)
        else:
            x = sum_buckets(weights, buckets=self.offsets(queries, keys), count=count)  # (..., N, 2k+1)
        return matmul(x, self.value)

    def offsets(self, query_places: Array, key_places: Array) -> Array:
        """clip(m − n, −k, k) + k for every pair, (N, M): which row of the tables it is."""
        return shaw_rows(key_places - query_places[:, None], self.distance)

    def _shift(self, query_places: Array, key_places: Array) -> int:
        """The row of the tables, before clipping, that belongs to the first query and the first key."""
        return int(key_places[0] - query_places[0]) + self.distance


@word
def shaw_rows(offsets: Array, distance: int) -> Array:
    """clip(m − n, −k, k) + k of offsets m − n."""
    return np.clip(offsets, -distance, distance) + distance


# ---- buckets of offsets: query n has one number for each bucket, x_nr, and the pair (n, m) reads that of its bucket
#
# Vectors of buckets are multiplied before, or after, so that there is never a vector for each pair, an array (N, M, D).


@page("x (..., N, L) → (..., N, M)", buckets="whole (N, M)")
def read_buckets(x, *, buckets):
    """y_nm = x_{n, b(n, m)}.

    Shapes: x (..., N, L), integers buckets (N, M) from 0 to L − 1 → (..., N, M).
    VJP: x̄_nr = Σ_{m: b(n, m) = r} ȳ_nm, which is `sum_buckets`.
    """
    y = read(x, buckets)  # (..., N, M)

    def vjp(y_bar):
        x_bar = added(y_bar, buckets, x.shape[-1])  # (..., N, L)
        return (x_bar,)

    return y, vjp


@page("y (..., N, M) → (..., N, L)", buckets="whole (N, M)", count="whole ≥ 0")
def sum_buckets(y, *, buckets, count):
    """x_nr = Σ_{m: b(n, m) = r} y_nm: the gradient of `read_buckets`.

    Shapes: y (..., N, M), integers buckets (N, M) from 0 to L − 1, count = L → (..., N, L).
    VJP: ȳ_nm = x̄_{n, b(n, m)}, which is `read_buckets`.
    """
    x = added(y, buckets, count)  # (..., N, L)

    def vjp(x_bar):
        y_bar = read(x_bar, buckets)  # (..., N, M)
        return (y_bar,)

    return x, vjp


@page("x (..., N, L) → (..., N, M)", shift="whole", keys="whole ≥ 0", kernel=kernels.read_diagonals)
def read_diagonals(x, *, shift, keys):
    """y_nm = x_{n, r} with r = m − n + shift, and the first or the last number of the row where r is beyond its ends.

    `read_buckets` if places follow one another and a bucket is an offset m − n, clipped at the ends of the table.
    Shapes: x (..., N, L), keys = M → (..., N, M).
    VJP: x̄_nr = Σ_m ȳ_nm over the m with that r, which is `sum_diagonals`.
    """
    buckets = clipped(x.shape[-2], keys, x.shape[-1], shift)  # (N, M)
    y = read(x, buckets)  # (..., N, M)

    def vjp(y_bar):
        x_bar = added(y_bar, buckets, x.shape[-1])  # (..., N, L)
        return (x_bar,)

    return y, vjp


@page("y (..., N, M) → (..., N, L)", shift="whole", count="whole ≥ 1", kernel=kernels.sum_diagonals)
def sum_diagonals(y, *, shift, count):
    """x_nr = Σ_m y_nm over the m with m − n + shift = r; all that is beyond the ends is added to the ends' sums.

    Shapes: y (..., N, M), count = L → (..., N, L).   VJP: `read_diagonals`.
    """
    buckets = clipped(y.shape[-2], y.shape[-1], count, shift)  # (N, M)
    x = added(y, buckets, count)  # (..., N, L)

    def vjp(x_bar):
        y_bar = read(x_bar, buckets)  # (..., N, M)
        return (y_bar,)

    return x, vjp


def read(x, buckets):
    """y_nm = x_{n, b(n, m)}."""
    return x[..., arange(buckets.shape[0])[:, None], buckets]


def added(y, buckets, count):
    """x_nr = Σ_{m: b(n, m) = r} y_nm."""
    n = buckets.shape[0]
    places = arange(n * count).reshape(n, count)[arange(n)[:, None], buckets]  # (N, M)   among the N·L of all rows
    return added_at(y, places, n * count).reshape(*y.shape[:-1], count)


def clipped(queries, keys, count, shift):
    """clip(m − n + shift, 0, L − 1), (N, M)."""
    return np.clip(np.arange(keys) - np.arange(queries)[:, None] + shift, 0, count - 1)


def one_over_root(query: Array | Tensor) -> Any:
    """1/√d, of queries (..., d), as they have it."""
    return (1 / root(query.shape[-1])).like(raw(query))


def is_run(places: Array) -> bool:
    """Whether places are n, n + 1, n + 2, …, at least one."""
    return not is_kind(places) and places.ndim == 1 and len(places) > 0 and bool((places[1:] - places[:-1] == 1).all())
