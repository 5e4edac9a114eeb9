"""Symmetric positive definite matrices A = L Lᵀ, L lower triangular: the factor, systems of it, and log det A.

Element by element, L Lᵀ = A says L_ij = (A_ij − Σ_{m<j} L_im L_jm)/L_jj, column after column, and
L_jj² = A_jj − Σ_{m<j} L_jm². A system with L is solved row by row, x_i = (b_i − Σ_{m<i} L_im x_m)/L_ii.

Matrices are the last two axes; axes before them are a batch and broadcast.
Source: Higham (2002), §8.1, §10.1; Murray (2016), arXiv 1602.07527 (the gradient of L).
Transcription: tests/transcriptions/linalg.py.   On arrays of floats: refnp/kernels/triangular.py.
"""

import numpy as np

from refnp.kernels import triangular as kernels
from refnp.numbers.arrays import Array
from refnp.numbers.parts import Parts, part


@part
def solved(factor, b, *, transposed=False):
    """L⁻¹ B by substitution, or L⁻ᵀ B, from the last row; b (..., N, M). What is above the diagonal is not read."""
    if transposed:
        return np.flip(solved(np.flip(factor.mT, (-2, -1)), np.flip(b, -2)), -2)
    x = b[..., :0, :]  # the rows that are known
    for i in range(factor.shape[-1]):
        row = factor[..., i : i + 1, :i]
        x_i = (b[..., i : i + 1, :] - row @ x) / factor[..., i : i + 1, i : i + 1]  # (..., 1, M)
        x = joined(x, x_i, -2)
    return x


@part
def factor_of(a):
    """L with L Lᵀ = A, column by column; a (..., N, N) symmetric."""
    rows, factor = np.arange(a.shape[-1])[:, None], a[..., :0]  # the columns that are known
    for j in range(a.shape[-1]):
        rest = a[..., j : j + 1] - factor @ factor[..., j : j + 1, :].mT  # (..., N, 1)
        column = np.where(rows < j, 0, rest / np.sqrt(rest[..., j : j + 1, :]))  # (..., N, 1)
        factor = joined(factor, column, -1)
    return factor


def joined(x, y, axis):
    """x and y beside each other along an axis of a matrix; axes in front broadcast."""
    front = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return np.concatenate([np.broadcast_to(a, (*front, *a.shape[-2:])) for a in (x, y)], axis)


KERNELS: Parts = {solved: kernels.solved, factor_of: kernels.factor_of}


def refuse_triangle(a: Array) -> None:
    """ValueError for a matrix with numbers below its diagonal and nothing but 0 above: half of a covariance."""
    if not np.triu(a, 1).any() and np.tril(a, -1).any():
        raise ValueError("cholesky: a is lower triangular, as a factor is; pass the covariance, both of its halves")
