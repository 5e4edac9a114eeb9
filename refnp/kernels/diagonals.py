"""Reading along the diagonals of rows, and adding up along them, on arrays of floats: no place for each pair.

In a matrix whose rows are W long, the element W − 1 further on is the one below and to the left. That is the skewing of
Huang et al. (2018), arXiv 1809.04281 §3.4, with clipping. The pages are refnp/layers/positions/relative.py.
"""

import numpy as np

from refnp.numbers.arrays import Array


def read_diagonals(x, *, shift, keys):
    """y_nm = x_{n, r} with r = m − n + shift, clipped at the ends of the row."""
    return read(x, shift, keys), lambda y_bar: (added(y_bar, shift, x.shape[-1]),)


def sum_diagonals(y, *, shift, count):
    """x_nr = Σ_m y_nm over the m with m − n + shift = r, clipped at the ends of the row."""
    return added(y, shift, count), lambda x_bar: (read(x_bar, shift, y.shape[-1]),)


def read(x, shift, keys):
    """What `read_diagonals` gives."""
    *batch, queries, count = x.shape
    band = np.empty((*batch, queries, queries + keys - 1), x.dtype)  # (..., N, W)
    begin, end, inside = parts(band, shift, count)
    band[..., :begin], band[..., begin:end], band[..., end:] = x[..., :1], x[..., inside], x[..., -1:]
    return diagonals(band, keys)


def added(y, shift, count):
    """What `sum_diagonals` gives."""
    *batch, queries, keys = y.shape
    band = np.zeros((*batch, queries, queries + keys - 1), y.dtype)  # (..., N, W)
    diagonals(band, keys)[...] = y
    begin, end, inside = parts(band, shift, count)
    x = np.zeros((*batch, queries, count), y.dtype)
    x[..., inside] = band[..., begin:end]
    x[..., 0] += band[..., :begin].sum(-1)
    x[..., -1] += band[..., end:].sum(-1)
    return x


def parts(band: Array, shift: int, count: int) -> tuple[int, int, slice]:
    """Column c of a band is r = c + first: where r reaches 0, where it reaches `count`, and which r stand between."""
    *_, queries, width = band.shape
    first = shift - (queries - 1)
    begin, end = (min(max(r - first, 0), width) for r in (0, count))
    return begin, end, slice(begin + first, end + first) if begin < end else slice(0, 0)


def diagonals(band: Array, keys: int) -> Array:
    """The view y_nm = band_{n, m − n + N − 1}: a row down is a column back."""
    *_, queries, _ = band.shape
    *steps, down, right = band.strides
    start = band[..., queries - 1 :]
    shape = (*band.shape[:-2], queries, keys)
    return np.lib.stride_tricks.as_strided(start, shape, (*steps, down - right, right))
