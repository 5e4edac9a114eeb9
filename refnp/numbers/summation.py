"""Einstein sums of arrays, where an operand may be empty.

All code calls np.einsum here and nowhere else, for NumPy 2.4 writes beyond the end of an array when an operand is
empty. Its reproduction stands in docs/conventions.md.
"""

from typing import Any

import numpy as np

Array = np.ndarray
BLAS_TYPES = "fdFD"  # types of which NumPy gives matrix products to the BLAS
MATRICES = "...nd,...dm->...nm"
LARGE = 1 << 20  # products, from which on two more passes over the factors cost less than they save


def sum_of_products(subscripts: str, *operands: Array, optimize: bool = False) -> Any:
    """numpy.einsum, whose subscripts and results these are; with an operand without elements zeros, by definition.

    `optimize` lets NumPy take matrix products where it can.
    """
    for operand in operands:
        if not operand.size:
            return _sum_of_nothing(subscripts, operands)
    return np.einsum(subscripts, *operands, optimize=optimize)


def column_sum(x: Array) -> Array:
    """Σ_i x_ij for each column, (R, n) → (n,). A product of the BLAS takes a third of the time of einsum."""
    return np.ones(len(x), x.dtype) @ x if x.dtype.char in BLAS_TYPES else sum_of_products("ij->j", x)


def most_of_products(subscripts: str, x: Array, y: Array) -> Any:
    """Σ x·y of numbers that are not negative, or a little more, never less: what a bound needs.

    Large matrices are multiplied in float64, which has a BLAS. A term is rounded with x, with y and at most d times in
    a sum of d, in any order, fused or not: what comes is at least (1 − u)^(d + 2) Σ x·y, with u = 2⁻⁵³, where nothing
    leaves the range. Source: Higham (2002), §3.1.
    """
    if subscripts == MATRICES and x.size * y.shape[-1] >= LARGE and _far_from_range(x) and _far_from_range(y):
        return (x.astype(float) @ y.astype(float)) * x.dtype.type(1 + (x.shape[-1] + 3) * np.finfo(float).eps)
    return sum_of_products(subscripts, x, y)


def _far_from_range(x: Array) -> bool:
    """Whether products of such numbers, but 0, neither overflow nor underflow in float64, sums of them included."""
    return bool(x.size and x.max() < 2.0**500 and x.min(where=x > 0, initial=1) > 2.0**-500)


def _sum_of_nothing(subscripts: str, operands: tuple[Array, ...]) -> Any:
    """Zeros in the shape and dtype of the result, which NumPy itself finds, from small arrays with elements.

    1 stays 1 in their shapes, since it broadcasts, and every other length has a number from 2 on in its place.
    """
    lengths = sorted({n for operand in operands for n in operand.shape} - {1})
    number = {1: 1} | {n: k for k, n in enumerate(lengths, start=2)}
    stand_ins = [np.zeros([number[n] for n in operand.shape], operand.dtype) for operand in operands]
    found = np.einsum(subscripts, *stand_ins)
    length = {k: n for n, k in number.items()}
    return np.zeros([length[k] for k in found.shape], found.dtype)[()]
