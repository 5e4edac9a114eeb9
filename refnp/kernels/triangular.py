"""Triangular systems and Cholesky factors on arrays of floats: by halves, and LAPACK's.

The pages are refnp/autograd/triangular.py.
"""

import numpy as np

from refnp.numbers.arrays import Array

LAPACK_TYPES = "fd"


def solved(factor: Array, b: Array, *, transposed: bool = False) -> Array:
    """L⁻¹ B or L⁻ᵀ B. If all columns of a batch have the same factor (N, N), they stand side by side as one matrix."""
    if factor.ndim > 2 or b.ndim == 2 or not b.size:
        return solve_lower(factor, b, transposed=transposed)
    columns = np.moveaxis(b, -2, 0)  # (N, ..., K)
    x = solve_lower(factor, columns.reshape(len(columns), columns[0].size), transposed=transposed)
    return np.moveaxis(x.reshape(columns.shape), 0, -2)


def solve_lower(factor: Array, b: Array, *, transposed: bool = False, leaf: int = 32) -> Array:
    """Substitution in halves: solve the first half, move it to the right side in one product, solve the second."""
    n = factor.shape[-1]
    if n > leaf:
        one, two = slice(0, n // 2), slice(n // 2, n)
        corner = factor[..., two, one]
        if transposed:
            one, two, corner = two, one, corner.swapaxes(-1, -2)
        first = solve_lower(factor[..., one, one], b[..., one, :], transposed=transposed)
        second = solve_lower(factor[..., two, two], b[..., two, :] - corner @ first, transposed=transposed)
        return np.concatenate([second, first] if transposed else [first, second], -2)
    batch = np.broadcast_shapes(factor.shape[:-2], b.shape[:-2])
    x = np.array(np.broadcast_to(b, batch + b.shape[-2:], subok=True), np.result_type(factor, b), subok=True)
    for i in reversed(range(n)) if transposed else range(n):
        known = slice(i + 1, n) if transposed else slice(0, i)
        row = factor[..., known, i] if transposed else factor[..., i, known]
        x[..., i, :] -= (row[..., None, :] @ x[..., known, :])[..., 0, :]
        x[..., i, :] /= factor[..., i, i, None]
    return x


def factor_of(a: Array) -> Array:
    """L with L Lᵀ = A by LAPACK; NaN in a matrix that is not positive definite."""
    try:
        return np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        return np.full(a.shape, np.nan, a.dtype)
