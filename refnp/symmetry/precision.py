"""The precisions that a function can be asked in, and the unit roundoff of each.

    u = half the distance from 1 to the next number        float32 6.0e-8, float64 1.1e-16, longdouble (x87) 5.4e-20

Where longdouble is no wider than float64 (Windows, some ARM) it is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

DType = np.dtype[Any]
WIDE = np.dtype(np.longdouble)
FLOATS: tuple[DType, ...] = (np.dtype(np.float32), np.dtype(np.float64)) + (
    (WIDE,) if np.finfo(WIDE).eps < np.finfo(np.float64).eps else ()
)


def roundoff(dtype: Any) -> float:
    """u of a real or complex floating dtype; 0 for whole numbers and booleans, which do not round."""
    return float(np.finfo(dtype).eps) / 2 if np.dtype(dtype).kind in "fc" else 0.0


def real(dtype: Any) -> DType:
    """The dtype of the real part."""
    return np.empty(0, dtype).real.dtype


def called(dtype: Any) -> str:
    """The name of a dtype, the same on every platform."""
    return "longdouble" if np.dtype(dtype) == WIDE and WIDE in FLOATS else np.dtype(dtype).name


def cast(arrays: Mapping[str, Any], dtype: Any) -> dict[str, Any]:
    """Copies of the arrays, real and complex ones in this precision, all others as they are."""

    def one(array: Any) -> Any:
        if array is None:
            return None
        array = np.array(array)
        return (
            array.astype(np.result_type(dtype, np.complex64) if array.dtype.kind == "c" else dtype)
            if (array.dtype.kind in "fc")
            else array
        )

    return {name: one(array) for name, array in arrays.items()}
