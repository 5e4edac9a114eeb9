"""Which precision a computation is done in, and how many digits can be asked of it.

    u = half the distance from 1 to the next number        float32 6e-8, float64 1.1e-16, longdouble (x87) 5.4e-20

`np.longdouble` is wider than float64 on x86 Linux and macOS (64 bits of fraction), and on some ARM systems (113);
on Windows and Apple ARM it *is* float64. `wider` tells, and reports name the precision that was used.
Source: Higham (2002), chapter 2.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

Array = np.ndarray
DType = np.dtype[Any]
SAFETY = 64  # the factor on rounding errors: about as many as the steps of a layer leave in a result


def roundoff(dtype: DTypeLike) -> float:
    """The unit roundoff u of a real or complex floating dtype."""
    return float(np.finfo(np.dtype(dtype)).eps) / 2


def wider(dtype: DTypeLike) -> DType | None:
    """The next wider real precision, or None where this machine has none."""
    for candidate in (np.dtype(np.float64), np.dtype(np.longdouble)):
        if roundoff(candidate) < roundoff(dtype):
            return candidate
    return None


def working(dtype: DTypeLike) -> DType:
    """The real precision to differentiate in: at least float64, because float32 rounds too coarsely to judge by."""
    return np.result_type(dtype, np.float64)


def complex_of(dtype: DTypeLike) -> DType:
    """The complex dtype with parts of this precision."""
    return np.result_type(dtype, np.complex64)


def dtype_name(dtype: DTypeLike) -> str:
    """The name of a dtype, the same on every platform: float64, longdouble (not float128), complex128, clongdouble."""
    dtype = np.dtype(dtype)
    if roundoff(dtype) < roundoff(np.float64):
        return "clongdouble" if dtype.kind == "c" else "longdouble"
    return dtype.name


def scaled(digits: float, dtype: DTypeLike) -> float:
    """Digits asked in `dtype`, when `digits` are asked in float64: the same share of the digits that there are.

    Twelve of float64's 15.65 digits are 5.3 of float32's 6.92, and 14.5 of the 18.96 of an x87 longdouble.
    """
    return digits * math.log10(np.finfo(np.dtype(dtype)).eps) / math.log10(np.finfo(np.float64).eps)
