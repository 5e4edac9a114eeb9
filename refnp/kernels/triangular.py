"""Triangular systems by halves, LAPACK's Cholesky factor, and elimination with pivots by panels of columns, on arrays.

The pages are refnp/autograd/triangular.py and systems.py.
"""

import math
from typing import Any

import numpy as np

from refnp.numbers.arrays import Array

PANEL = 32  # columns that are eliminated one by one, before a matrix product does it for all others


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


def eliminated(a: Array) -> tuple[Array, Array, Array, Array]:
    """L, U, the order of rows and its sign; of complex numbers the pivot is the one with the largest |Re z| + |Im z|.

    The work is done in place, a panel of columns after the other.   Source: Higham (2002), ch. 9 and §13.2 (in blocks).
    """
    n, batch = a.shape[-1], a.shape[:-2]
    lu = np.array(a, order="C").reshape(math.prod(batch), n, n)
    order = np.tile(np.arange(n), (len(lu), 1))
    sign = np.ones(len(lu), a.real.dtype)
    matrices = np.arange(len(lu))
    for start in range(0, n, PANEL):
        stop = min(start + PANEL, n)
        for k in range(start, stop):
            pivot = k + size_of(lu[:, k:, k]).argmax(-1)  # (B,)
            for rows in (lu, order):
                rows[matrices, k], rows[matrices, pivot] = rows[matrices, pivot], rows[matrices, k]
            sign[pivot != k] *= -1
            below, divisor = lu[:, k + 1 :, k], lu[:, k, k, None]
            below /= np.where(divisor == 0, 1, divisor)  # then all below is 0 as well
            lu[:, k + 1 :, k + 1 : stop] -= below[:, :, None] * lu[:, k, None, k + 1 : stop]
        if stop < n:
            lower = np.tril(lu[:, start:stop, start:stop], -1) + np.eye(stop - start, dtype=lu.dtype)
            lu[:, start:stop, stop:] = solve_lower(lower, lu[:, start:stop, stop:])
            lu[:, stop:, stop:] -= lu[:, stop:, start:stop] @ lu[:, start:stop, stop:]
    lu = lu.reshape(*batch, n, n)
    return np.tril(lu, -1) + np.eye(n, dtype=lu.dtype), np.triu(lu), order.reshape(*batch, n), sign.reshape(batch)


def product_of(x: Array, factors: Array) -> Array:
    """x Π_k f_k for factors (..., n), as f · 2ᵉ with f about 1: the product of many may be out of range on its way."""
    exponents = np.frexp(size_of(factors))[1]  # (..., n)
    factors, exponent = times_power_of_two(factors, -exponents), exponents.sum(-1)
    product = np.ones_like(exponent, factors.dtype)
    for k in range(factors.shape[-1]):
        product = product * factors[..., k]
        own = np.frexp(size_of(product))[1]
        product, exponent = times_power_of_two(product, -own), exponent + own
    return times_power_of_two(x * product, exponent)


def size_of(x: Array) -> Array:
    """|x|, of a complex number |Re x| + |Im x|."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


def times_power_of_two(x: Any, exponent: Any) -> Array:
    """x · 2ᵉ, rounded only where the result is out of range."""
    if not np.any(exponent):
        return x
    if x.dtype.kind != "c":
        return np.ldexp(x, exponent)
    y = np.empty(np.broadcast_shapes(x.shape, np.shape(exponent)), x.dtype)
    y.real, y.imag = np.ldexp(x.real, exponent), np.ldexp(x.imag, exponent)
    return y
