"""Relative positions: what the places of a query and a key add to attention.

    S_nm = q_n·k_m / √d + s_nm        z_n = Σ_m α_nm v_m + t_n        (α = softmax of S over the keys)

q and k may be rotated first, each by its own place; s and t depend on the places of the pair. A scheme is a subclass of
`RelativePositions` that overrides what it needs: here Shaw's, on other pages biases (T5, ALiBi), rotations (RoPE), and
images (iRPE).

Source: Sivaraya (2023) §1.2, "to achieve translation equivariance": in which sense, see docs/positions.md.
Transcription: tests/transcriptions/positions.py.
"""

import numpy as np

from refnp.autograd import matmul, reshape, swapaxes, take, vjp
from refnp.autograd.declaration import takes
from refnp.autograd.primitives import integers, primitive, raw
from refnp.autograd.tensor import Array, ArrayLike, Parameter, Tensor
from refnp.layers.dot_product_attention import one_over_root
from refnp.layers.module import Module
from refnp.layers.positions.absolute import SCALE


class RelativePositions(Module):
    """What pairs of places add to attention; this one adds nothing.

    `places` are integers (N,), or (N, 2) rows and columns of an image; those of queries and of keys may differ.
    `adds_values` says whether `values` gives anything: if so, it needs the weights of attention.
    """

    adds_values = False
    axes = 1  # numbers that make a place

    def rotated(self, x: Array | Tensor, places: ArrayLike) -> Array | Tensor:
        """Queries or keys in heads, x (..., H, N, d) at N places, rotated each by its own place."""
        return x

    def scores(self, query: Array | Tensor, query_places: ArrayLike, key_places: ArrayLike) -> Array | Tensor | None:
        """s, added to the scaled scores: of query (..., H, N, d), what broadcasts to (..., H, N, M); or None."""
        return None

    def values(self, weights: Array | Tensor, query_places: ArrayLike, key_places: ArrayLike) -> Array | Tensor | None:
        """t, added to each head's output: of weights (..., H, N, M), an array (..., H, N, d_v); or None."""
        return None

    def checked(
        self, query_places: ArrayLike, key_places: ArrayLike, queries: int | None = None, keys: int | None = None
    ) -> tuple[Array, Array]:
        """Both places as arrays, one for each of so many queries and keys; TypeError or ValueError if they are not."""
        name = type(self).__name__
        return check_places(name, query_places, self.axes, queries), check_places(name, key_places, self.axes, keys)


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
        self.distance, self.adds_values = distance, values

    def scores(self, query: Array | Tensor, query_places: ArrayLike, key_places: ArrayLike) -> Array | Tensor:
        check_width("Shaw", query, self.key)
        queries, keys = self.checked(query_places, key_places, query.shape[-2])
        x = matmul(query, swapaxes(self.key, -1, -2)) * one_over_root(raw(query))  # (..., N, 2k+1)
        if is_run(queries) and is_run(keys):
            return read_diagonals(x, shift=self._shift(queries, keys), keys=len(keys))
        return read_buckets(x, self.offsets(queries, keys))

    def values(self, weights: Array | Tensor, query_places: ArrayLike, key_places: ArrayLike) -> Array | Tensor | None:
        if self.value is None:
            return None
        queries, keys = self.checked(query_places, key_places, *weights.shape[-2:])
        count = self.value.shape[-2]
        if is_run(queries) and is_run(keys):
            x = sum_diagonals(weights, shift=self._shift(queries, keys), count=count)
        else:
            x = sum_buckets(weights, buckets=self.offsets(queries, keys), count=count)  # (..., N, 2k+1)
        return matmul(x, self.value)

    def offsets(self, query_places: Array, key_places: Array) -> Array:
        """clip(m − n, −k, k) + k for every pair, (N, M): which row of the tables it is."""
        return np.clip(key_places - query_places[:, None], -self.distance, self.distance) + self.distance

    def _shift(self, query_places: Array, key_places: Array) -> int:
        """The row of the tables, before clipping, that belongs to the first query and the first key."""
        return int(key_places[0] - query_places[0]) + self.distance


def check_width(name: str, query: Array | Tensor, table: Array | Tensor) -> None:
    """ValueError unless queries (..., H, N, d) have as many features as a table's vectors, (L, d) or (H, L, d)."""
    if query.shape[-1] != table.shape[-1]:
        raise ValueError(
            f"{name}: a query has {query.shape[-1]} features but the vectors of places {table.shape[-1]}; "
            "width must be that of one head"
        )
    if len(table.shape) > 2:
        check_heads(name, query, table.shape[0])


def check_heads(name: str, query: Array | Tensor, heads: int) -> None:
    """ValueError unless queries (..., H, N, d) have as many heads as the scheme."""
    if query.ndim < 3 or query.shape[-3] != heads:
        raise ValueError(f"{name}: positions are for {heads} heads, but queries (..., heads, N, d) are {query.shape}")


def check_places(name: str, places: ArrayLike, axes: int, tokens: int | None = None) -> Array:
    """Places as an array (N,), or (N, axes) where there are several; N must be `tokens` if that is given.

    Raises TypeError unless they are integers, ValueError for another shape.
    """
    places = integers(name, "places", places, signed=True)
    if places.shape[1:] != ((axes,) if axes > 1 else ()) or not places.ndim:
        wanted = f"(tokens, {axes}), one row for each token" if axes > 1 else "(tokens,), one number for each token"
        raise ValueError(f"{name}: places have shape {places.shape}; they must be {wanted}")
    if tokens is not None and len(places) != tokens:
        raise ValueError(f"{name}: {len(places)} places for {tokens} tokens; there must be one for each")
    return places


# ---- buckets of offsets: query n has one number for each bucket, x_nr, and the pair (n, m) reads that of its bucket
#
# Vectors of buckets are multiplied before, or after, so that there is never a vector for each pair, an array (N, M, D).


def read_buckets(x: Array | Tensor, buckets: Array) -> Array | Tensor:
    """y_nm = x_{n, b(n, m)}.

    Shapes: x (..., N, L), integers buckets (N, M) from 0 to L − 1 → (..., N, M).
    VJP: x̄_nr = Σ_{m: b(n, m) = r} ȳ_nm, which is `sum_buckets`.
    """
    *batch, queries, count = x.shape
    flat = np.arange(queries)[:, None] * count + buckets  # (N, M)   the place among the N·L numbers of all rows
    return take(reshape(x, (*batch, queries * count)), flat, axis=-1)


@primitive
def sum_buckets(y, *, buckets, count):
    """x_nr = Σ_{m: b(n, m) = r} y_nm: the gradient of `read_buckets`, in the order of the keys.

    Shapes: y (..., N, M), integers buckets (N, M) from 0 to L − 1, count = L → (..., N, L).
    VJP: ȳ_nm = x̄_{n, b(n, m)}, which is `read_buckets`.
    """
    _, pullback = vjp(lambda x: read_buckets(x, buckets), np.zeros((*y.shape[:-1], count), y.dtype))
    return pullback(y)[0], lambda x_bar: (read_buckets(x_bar, buckets),)


@primitive
def read_diagonals(x, *, shift, keys):
    """y_nm = x_{n, r} with r = m − n + shift, and the first or the last number of the row where r is beyond its ends.

    `read_buckets` if places follow one another and a bucket is an offset m − n, clipped at the ends of the table: x is
    read along its diagonals, which are views, for in a matrix whose rows are W long, the element W − 1 further on is
    the one below and to the left. That is the skewing of Huang et al. (2018), arXiv 1809.04281 §3.4, with
    clipping.
    Shapes: x (..., N, L), keys = M → (..., N, M).
    VJP: x̄_nr = Σ_m ȳ_nm over the m with that r, which is `sum_diagonals`.
    """
    *batch, queries, count = x.shape
    band = np.empty((*batch, queries, queries + keys - 1), x.dtype)  # (..., N, W)
    begin, end, inside = _parts(band, shift, count)
    band[..., :begin], band[..., begin:end], band[..., end:] = x[..., :1], x[..., inside], x[..., -1:]
    return _diagonals(band, keys), lambda y_bar: (sum_diagonals(y_bar, shift=shift, count=count),)


@primitive
def sum_diagonals(y, *, shift, count):
    """x_nr = Σ_m y_nm over the m with m − n + shift = r; all that is beyond the ends is added to the ends' sums.

    Shapes: y (..., N, M), count = L → (..., N, L).   VJP: `read_diagonals`.
    """
    *batch, queries, keys = y.shape
    band = np.zeros((*batch, queries, queries + keys - 1), y.dtype)  # (..., N, W)
    _diagonals(band, keys)[...] = y
    begin, end, inside = _parts(band, shift, count)
    x = np.zeros((*batch, queries, count), y.dtype)
    x[..., inside] = band[..., begin:end]
    x[..., 0] += band[..., :begin].sum(-1)
    x[..., -1] += band[..., end:].sum(-1)
    return x, lambda x_bar: (read_diagonals(x_bar, shift=shift, keys=keys),)


def _parts(band: Array, shift: int, count: int) -> tuple[int, int, slice]:
    """Column c of a band is r = c + first: where r reaches 0, where it reaches `count`, and which r stand between."""
    *_, queries, width = band.shape
    first = shift - (queries - 1)
    begin, end = (min(max(r - first, 0), width) for r in (0, count))
    return begin, end, slice(begin + first, end + first) if begin < end else slice(0, 0)


def _diagonals(band: Array, keys: int) -> Array:
    """The view y_nm = band_{n, m − n + N − 1}: a row down is a column back."""
    *_, queries, _ = band.shape
    *steps, down, right = band.strides
    start = band[..., queries - 1 :]
    shape = (*band.shape[:-2], queries, keys)
    return np.lib.stride_tricks.as_strided(start, shape, (*steps, down - right, right))


def is_run(places: Array) -> bool:
    """Whether places are n, n + 1, n + 2, …, at least one."""
    return places.ndim == 1 and len(places) > 0 and bool((places[1:] - places[:-1] == 1).all())
