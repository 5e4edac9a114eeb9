"""Einstein sums of arrays, where an operand may be empty.

All code calls np.einsum here and nowhere else, for NumPy 2.4 writes beyond the end of an array when an operand is
empty. Its reproduction stands in docs/conventions.md.
"""

from typing import Any

import numpy as np

Array = np.ndarray


def sum_of_products(subscripts: str, *operands: Array, optimize: bool = False) -> Any:
    """numpy.einsum, whose subscripts and results these are; with an operand without elements zeros, by definition.

    `optimize` lets NumPy take matrix products where it can.
    """
    for operand in operands:
        if not operand.size:
            return _sum_of_nothing(subscripts, operands)
    return np.einsum(subscripts, *operands, optimize=optimize)


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
