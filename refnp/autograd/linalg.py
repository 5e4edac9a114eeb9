"""Products of matrices and tensors, triangles and diagonals.

Matrices are the last two axes; axes before them are a batch and broadcast. Rows are vectors, matrices multiply from
the right: y = x W.   Source of the VJPs: Giles (2008); Murray (2016), arXiv 1602.07527.
"""

import math
from typing import Any

import numpy as np

from refnp.autograd.declaration import takes, takes_unchecked
from refnp.autograd.elementary import multiply
from refnp.autograd.errors import explained
from refnp.autograd.indexing import getitem, put_back
from refnp.autograd.primitives import primitive, raw
from refnp.autograd.shapes import expand_dims, pad, reshape
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.kernels.products import product
from refnp.numbers.arrays import broadcast_shapes, in_order
from refnp.numbers.duals import as_array
from refnp.numbers.words import arange


@primitive
@takes_unchecked("x (..., N, K), y (..., K, M) → (..., N, M)")
def matmul(x, y):
    """Z = X Y.

    Shapes: x (..., N, K), y (..., K, M) → z (..., N, M); a vector (K,) is a row on the left, a column on the right.
    VJP: X̄ = Z̄ Yᵀ, Ȳ = Xᵀ Z̄.   A single matrix y is multiplied with all rows of x in one product.
    Raises ValueError if the inner lengths differ, an argument has no axes, or batch axes do not broadcast.
    """
    x, y = as_array(x), as_array(y)
    if not x.ndim or not y.ndim or x.shape[-1] != y.shape[-2 if y.ndim > 1 else 0]:
        raise ValueError(f"matmul: x of shape {x.shape} and y of shape {y.shape} have no matching inner axes")
    if y.ndim <= 2 and x.ndim != 1:
        return _rows_times_matrix(x, y)
    try:
        broadcast_shapes(x.shape[:-2], y.shape[:-2])
    except ValueError:
        raise ValueError(f"matmul: the batch axes of x {x.shape} and y {y.shape} do not broadcast") from None
    left = x[None, :] if x.ndim == 1 else x
    right = y[:, None] if y.ndim == 1 else y

    def vjp(z_bar):
        if y.ndim == 1:
            z_bar = np.expand_dims(z_bar, -1)
        if x.ndim == 1:
            z_bar = np.expand_dims(z_bar, -2)

        def x_bar():
            bar = product(z_bar, right.swapaxes(-1, -2))
            return bar.sum(-2) if x.ndim == 1 else bar

        def y_bar():
            bar = np.matmul(left.swapaxes(-1, -2), z_bar)
            return bar.sum(-1) if y.ndim == 1 else bar

        return x_bar, y_bar

    return np.matmul(x, y), vjp  # as @ of arrays: to the bit


def _rows_times_matrix(x: Array, w: Array) -> tuple:
    """x (..., K) with w (K, M) or (K,): all rows in one product, which a batched one is slower than."""
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    z = (rows @ w).reshape(x.shape[:-1] + w.shape[1:])

    def vjp(z_bar):
        bars = z_bar.reshape(rows.shape[0], *w.shape[1:])  # one for each row: (R, M) or (R,)
        if w.ndim == 1:
            return lambda: (bars[:, None] * w).reshape(x.shape), lambda: bars @ rows
        return lambda: (bars @ w.mT).reshape(x.shape), lambda: rows.mT @ bars

    return z, vjp


@primitive
@takes_unchecked("x (..., N, D), weight (D, M), bias (M)? → (..., N, M)")
def linear(x, weight, bias=None):
    """y = x W + b: every row of x through one affine map.

    Shapes: x (..., D), weight (D, M), bias (M,) or None → y (..., M).
    VJP: x̄ = ȳ Wᵀ, W̄ = xᵀ ȳ (rows summed), b̄ = Σ_rows ȳ.
    Raises ValueError naming the argument whose shape does not fit.
    Elsewhere: torch.nn.Linear stores the transpose, (out, in).   Source: Sivaraya (2023) §1.3.
    """
    x, weight = as_array(x), as_array(weight)
    if weight.ndim != 2:
        raise ValueError(f"linear: weight has shape {weight.shape}; it must be a matrix (features in, features out)")
    if not x.ndim or x.shape[-1] != weight.shape[0]:
        raise ValueError(f"linear: x of shape {x.shape} needs {weight.shape[0]} features last, as weight has rows")
    if bias is not None and np.shape(bias) != weight.shape[1:]:
        raise ValueError(
            f"linear: bias has shape {np.shape(bias)}; it must be {weight.shape[1:]}, as weight has columns"
        )
    xw, product_vjp = _rows_times_matrix(x, weight)
    y = xw if bias is None else xw + bias

    def vjp(y_bar):
        return *product_vjp(y_bar), y_bar  # which the walk back sums over rows

    return y, vjp


@primitive
@takes_unchecked("x (..., N), y (..., M) → (..., N, M)")
def outer(x, y):
    """Z_ij = x_i y_j.

    Shapes: x (..., N), y (..., M) → z (..., N, M).   VJP: x̄ = Z̄ y, ȳ = Z̄ᵀ x.
    Raises ValueError if an argument has no axes, or batch axes do not broadcast.
    """
    x, y = as_array(x), as_array(y)
    if not x.ndim or not y.ndim:
        raise ValueError(f"outer: x has shape {x.shape} and y {y.shape}; each needs an axis, the vectors")

    def vjp(z_bar):
        return (z_bar * y[..., None, :]).sum(-1), (z_bar * x[..., :, None]).sum(-2)

    return x[..., :, None] * y[..., None, :], vjp


@explained
def dot(x: ArrayLike, y: ArrayLike) -> Array | Tensor:
    """x y: of numbers the product, of vectors Σ x_i y_i, of matrices X Y, as numpy.dot.

    Raises ValueError for a batch of matrices y, which NumPy pairs with every row of a matrix x, or lengths that differ.
    """
    if not np.ndim(raw(x)) or not np.ndim(raw(y)):
        return multiply(x, y)
    if np.ndim(raw(x)) > 1 and np.ndim(raw(y)) > 2:
        raise ValueError(f"dot: y has shape {np.shape(raw(y))}; use matmul for batches, or einsum for all pairs")
    return matmul(x, y)


@primitive
@takes_unchecked("x (..., N, M) → (...)")
def trace(x):
    """y = Σ_i X_ii over the last two axes.

    Shapes: x (..., N, M) → y (...).   VJP: X̄ = ȳ I.   Raises ValueError for fewer than two axes.
    """
    x = in_order(_matrices("trace", x))
    own = arange(x.shape[-2])[:, None] == arange(x.shape[-1])  # (N, M)
    return np.diagonal(x, 0, -2, -1).sum(-1), lambda y_bar: (np.where(own, y_bar[..., None, None], 0),)


@primitive
@takes_unchecked("x (..., N, M) → (..., length)", offset="whole")
def diagonal(x, offset=0):
    """y_i = X_{i, i+k} over the last two axes, k = `offset`: above the main diagonal for k > 0, below for k < 0.

    Shapes: x (..., N, M) → y (..., length).   VJP: X̄ = ȳ on that diagonal, 0 elsewhere.
    Raises ValueError for fewer than two axes, TypeError unless `offset` is whole. (numpy.diagonal: the first two axes.)
    """
    x = _matrices("diagonal", x)
    if not isinstance(offset, (int, np.integer)) or isinstance(offset, bool):
        raise TypeError(f"diagonal: offset is {offset!r}; it must be a whole number")
    i = np.arange(min(x.shape[-2] + min(offset, 0), x.shape[-1] - max(offset, 0)))
    index = (..., i - min(offset, 0), i + max(offset, 0))
    return x[index], lambda y_bar: (put_back(y_bar, index, x.shape),)


@takes("x (N) or (..., N, M) → (N + |k|, N + |k|) or (..., length)", offset="whole")
def diag(x: ArrayLike, offset: int = 0) -> Array | Tensor:
    """The matrix with x on its k-th diagonal, k = `offset`, and 0 elsewhere; of a matrix that diagonal: numpy.diag.

    Shapes: x (N,) → y (N + |k|, N + |k|); x (..., N, M) → y (..., length).   Raises ValueError for a number.
    """
    if np.ndim(raw(x)) != 1:
        return diagonal(x, offset)
    n = len(raw(x))
    longer = pad(expand_dims(x, 1), ((0, 0), (0, n)))  # (n, n + 1)   read in rows of n, x_i stands in column i
    square = reshape(getitem(reshape(longer, -1), slice(n * n)), (n, n))
    above, below = max(offset, 0), max(-offset, 0)
    return pad(square, ((below, above), (above, below)))


@primitive
@takes_unchecked("x (..., N, M) → (..., N, M)", offset="whole")
def tril(x, offset=0):
    """Y_ij = X_ij for j ≤ i + k, else 0, over the last two axes, k = `offset`: the lower triangle.

    VJP: X̄ = the lower triangle of Ȳ. What is above is not read.   Raises ValueError for fewer than two axes.
    """
    x = _matrices("tril", x)
    return np.tril(x, offset), lambda y_bar: (np.tril(y_bar, offset),)


@primitive
@takes_unchecked("x (..., N, M) → (..., N, M)", offset="whole")
def triu(x, offset=0):
    """Y_ij = X_ij for j ≥ i + k, else 0, over the last two axes, k = `offset`: the upper triangle.

    VJP: X̄ = the upper triangle of Ȳ. What is below is not read.   Raises ValueError for fewer than two axes.
    """
    x = _matrices("triu", x)
    return np.triu(x, offset), lambda y_bar: (np.triu(y_bar, offset),)


def _matrices(name: str, x: Any) -> Any:
    x = as_array(x)
    if x.ndim < 2:
        raise ValueError(f"{name}: x has shape {x.shape}; it needs two axes")
    return x
