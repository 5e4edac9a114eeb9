"""Products of matrices as the BLAS is fastest at them."""

import numpy as np

from refnp.numbers.arrays import Array
from refnp.numbers.kinds import Kind

# Multiplications of a product of two matrices up to which OpenBLAS takes its kernels for small matrices, which do not
# copy the factors first: .6 to .8 of the time with OpenBLAS 0.3.
SMALL_PRODUCT = 10**6


def product(x: Array, y: Array) -> Array:
    """X Y, as np.matmul; a batch of small matrices y that are transposed views is copied to C order first.

    With a transposed right factor the kernels for small matrices take half as much time again. A single row x, as of a
    token that is decoded, is a product with a vector: with a copy it takes three to six times as long.
    """
    if isinstance(y, Kind):
        return x @ y
    transposed = min(x.ndim, y.ndim - 1) > 1 and y.strides[-1] > y.itemsize  # and y has axes of a batch
    if transposed and x.shape[-2] > 1 and x.shape[-2] * y.shape[-2] * y.shape[-1] <= SMALL_PRODUCT:
        y = np.ascontiguousarray(y)
    return np.matmul(x, y)


def product_like(like: Array, x: Array, y: Array) -> Array:
    """X Y, in the order in memory that `like` has if its shape is the same: then heads are joined without a copy."""
    same = x.shape[:-2] == y.shape[:-2] == like.shape[:-2] and (x.shape[-2], y.shape[-1]) == like.shape[-2:]
    return np.matmul(x, y, out=np.empty_like(like, np.result_type(x, y)) if same else None)
