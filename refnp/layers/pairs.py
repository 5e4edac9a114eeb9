"""Pairs of places: numbers that belong to buckets of offsets, read for every pair, and added up again.

Query i has one number per bucket, x_ir; the pair (i, j) reads that of its bucket b(i, j). Never is there a vector per
pair, an array (N, M, D): vectors of buckets are multiplied before, or after.

    read:   y_ij = x_{i, b(i, j)}                 sum:   x_ir = Σ_{j: b(i, j) = r} y_ij

Each is the gradient of the other. Any buckets will do. But if places follow one another and a bucket is an offset
j − i, clipped at the ends of the table, then x is read along its diagonals, which memory already holds: in a matrix
whose rows are W long, the element W − 1 further on is the one below and to the left. That is the skewing of Huang et
al. (2018), Music Transformer, arXiv 1809.04281 §3.4, here with clipping and for any places.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refnp.autograd import reshape, take, vjp
from refnp.autograd.primitive import primitive


def read_buckets(x: Any, buckets: np.ndarray) -> Any:
    """y_ij = x_{i, b(i, j)}.

    Shapes: x (..., N, L), integers buckets (N, M) from 0 to L − 1 → (..., N, M).
    VJP: x̄_ir = Σ_{j: b(i, j) = r} ȳ_ij, which is `sum_buckets`.
    """
    *batch, queries, count = x.shape
    return take(reshape(x, (*batch, queries * count)), _flat(buckets, count), axis=-1)


@primitive
def sum_buckets(y, *, buckets, count):
    """x_ir = Σ_{j: b(i, j) = r} y_ij: the gradient of `read_buckets`, in the order of the keys.

    Shapes: y (..., N, M), integers buckets (N, M) from 0 to L − 1, count = L → (..., N, L).
    VJP: ȳ_ij = x̄_{i, b(i, j)}, which is `read_buckets`.
    """
    _, pullback = vjp(lambda x: read_buckets(x, buckets), np.zeros((*y.shape[:-1], count), y.dtype))

    def sum_vjp(x_bar):
        return (read_buckets(x_bar, buckets),)

    return pullback(y)[0], sum_vjp


def _flat(buckets: np.ndarray, count: int) -> np.ndarray:
    """Where bucket b(i, j) of row i stands among the N·L numbers of all rows."""
    return np.arange(len(buckets))[:, None] * count + buckets  # (N, M)


@primitive
def read_diagonals(x, *, shift, keys):
    """y_ij = x_{i, r} with r = j − i + shift, and the first or the last number of the row where r is beyond its ends.

    Shapes: x (..., N, L), keys = M → (..., N, M).
    VJP: x̄_ir = Σ_j ȳ_ij over the j with that r, which is `sum_diagonals`.
    """
    return _read(x, shift, keys), lambda y_bar: (_sum(y_bar, shift, x.shape[-1]),)


@primitive
def sum_diagonals(y, *, shift, count):
    """x_ir = Σ_j y_ij over the j with j − i + shift = r; all that is beyond the ends is added to the ends' sums.

    Shapes: y (..., N, M), count = L → (..., N, L).   VJP: `read_diagonals`.
    """
    return _sum(y, shift, count), lambda x_bar: (_read(x_bar, shift, y.shape[-1]),)


def _read(x, shift, keys):
    *batch, queries, count = x.shape
    band = np.empty((*batch, queries, queries + keys - 1), x.dtype)  # (..., N, W)
    begin, end, inside = _parts(band, shift, count)
    band[..., :begin], band[..., begin:end], band[..., end:] = x[..., :1], x[..., inside], x[..., -1:]
    return _diagonals(band, keys)


def _sum(y, shift, count):
    *batch, queries, keys = y.shape
    band = np.zeros((*batch, queries, queries + keys - 1), y.dtype)  # (..., N, W)
    _diagonals(band, keys)[...] = y
    begin, end, inside = _parts(band, shift, count)
    x = np.zeros((*batch, queries, count), y.dtype)
    x[..., inside] = band[..., begin:end]
    x[..., 0] += band[..., :begin].sum(-1)
    x[..., -1] += band[..., end:].sum(-1)
    return x


def _parts(band: np.ndarray, shift: int, count: int) -> tuple[int, int, slice]:
    """Column c of a band is r = c + first: where r reaches 0, where it reaches `count`, and which r stand between."""
    *_, queries, width = band.shape
    first = shift - (queries - 1)
    begin, end = (min(max(r - first, 0), width) for r in (0, count))
    return begin, end, slice(begin + first, end + first) if begin < end else slice(0, 0)


def _diagonals(band: np.ndarray, keys: int) -> np.ndarray:
    """The view y_ij = band_{i, j − i + N − 1}: a row down is a column back."""
    *_, queries, _ = band.shape
    *steps, down, right = band.strides
    start = band[..., queries - 1 :]
    shape = (*band.shape[:-2], queries, keys)
    return np.lib.stride_tricks.as_strided(start, shape, (*steps, down - right, right))


def is_run(places: np.ndarray) -> bool:
    """Whether places are n, n + 1, n + 2, …, at least one."""
    return places.ndim == 1 and len(places) > 0 and bool((places[1:] - places[:-1] == 1).all())


def check_places(name: str, places: Any, axes: int, tokens: int | None = None) -> np.ndarray:
    """Places as an array (N,), or (N, axes) where there are several; N must be `tokens` if that is given.

    Raises TypeError unless they are integers, ValueError for another shape.
    """
    places = np.asarray(places)
    if places.dtype.kind not in "iu" and places.size:  # an empty list is an array of floats
        raise TypeError(f"{name}: places are {places.dtype}; pass integers")
    if places.shape[1:] != ((axes,) if axes > 1 else ()) or not places.ndim:
        wanted = f"(tokens, {axes}), one row for each token" if axes > 1 else "(tokens,), one number for each token"
        raise ValueError(f"{name}: places have shape {places.shape}; they must be {wanted}")
    if tokens is not None and len(places) != tokens:
        raise ValueError(f"{name}: {len(places)} places for {tokens} tokens; there must be one for each")
    return places.astype(np.int64)
