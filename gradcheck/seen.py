"""What is seen of a gradient that is wrong: one factor, 0, or no use of the cotangent.

Rows are the directions along which claim and numerical derivative were compared, each within one array of the
arguments, columns the cotangents. Only what all of them show is said.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from gradcheck.precision import Array

SAME = 1e-5  # relative differences below this are none
LARGEST = 1000  # denominator of a factor that is written as a fraction


def seen(places: Sequence[str], claimed: Array, numeric: Array, failed: Array) -> Iterator[str]:
    """A sentence for each array whose claimed gradient is wrong; `places` are the arrays of the rows.

    Shapes: claimed and numeric (rows, K); failed (rows,), which do not agree.
    """
    for name in dict.fromkeys(place for place, wrong in zip(places, failed, strict=True) if wrong):
        own = np.array([place == name for place in places])
        if says := of_array(claimed[own], numeric[own]):
            yield f"the claimed gradient of {name} {says}"


def of_array(claimed: Array, numeric: Array) -> str:
    """What one array's claimed gradient is of the numerical one, or of itself for other cotangents."""
    if not np.isfinite(claimed).all() or not np.isfinite(numeric).all() or claimed.size < 2:
        return ""
    if not claimed.any():
        return "is 0 everywhere"
    large = np.abs(numeric) > SAME * np.abs(numeric).max(initial=0)
    if not large.any():
        return ""
    unit = numeric / np.abs(numeric).max()  # squares of numbers of 1e200 overflow
    c = float((claimed * unit).sum() / (numeric * unit).sum())
    if abs(c - 1) > SAME and np.abs(claimed - c * numeric).max() <= SAME * np.abs(claimed).max():
        return f"is {in_words(c)} times what is right"
    if claimed.shape[1] > 1 and np.ptp(claimed, axis=1).max() <= SAME * np.abs(claimed).max() < np.ptp(numeric):
        return "is the same for every cotangent: the incoming gradient is ignored"
    return ""


def in_words(c: float) -> str:
    """2, 1/3, -1; or the digits of a factor that is no such fraction."""
    fraction = Fraction(c).limit_denominator(LARGEST)
    return str(fraction) if abs(float(fraction) - c) <= SAME * abs(c) else f"{c:.6g}"
