"""Waves: the sines and cosines of positions, right to the last digits at any position.

    ω_k = base^(−2k/D)        sin(p ω_k), cos(p ω_k),   k = 0, 1, … while 2k < D

The slowest wave takes 2π·base steps to come round. A product p ω_k in floating point carries p times the rounding
error of ω_k: at p = 10⁵ five digits are gone before the sine is taken. Here an angle is counted in turns, as an integer
of 64 bits that wraps round where the angle does: 2⁶⁴ is one turn. Its product with an integer position is exact, and
so is the reduction, which is the overflow. A second integer holds the 64 bits of ω_k/2π that come after.

Source: Sivaraya (2023), eq. 1, Transformer Notes, "Positional Encoding"; Vaswani et al. (2017) §3.5.
"""

from __future__ import annotations

import decimal
import functools
from typing import Any

import numpy as np

DIGITS = 60  # more than 2 · 64 bits
PI = decimal.Decimal("3.14159265358979323846264338327950288419716939937510582097494")


def waves(places: Any, features: int, *, base: float = 10000, dtype: Any = np.float64) -> tuple[np.ndarray, np.ndarray]:
    """(sin(p ω_k), cos(p ω_k)) at integer places p.

    Shapes: places (...) → two arrays (..., ⌈D/2⌉), computed in `dtype`, in float64 if it is less precise.
    Error, with u the unit roundoff of that precision and φ the angle brought to (−π, π]: 4u|φ| from the angle, and
    that of NumPy's sine; no more at p = 2⁶² than at p = 1.
    Raises TypeError unless places are integers, ValueError for a base below 1 or no features.
    """
    places = np.asarray(places)
    if places.dtype.kind not in "iu" and places.size:  # an empty list is an array of floats
        raise TypeError(f"waves: places are {places.dtype}; pass integers")
    if features < 1 or not 1 <= base < np.inf:
        raise ValueError(f"waves: features {features} and base {base} must be at least 1, and finite")
    high, low = _turns_per_step(features, base)
    wide = np.result_type(np.zeros((), dtype).real.dtype, np.float64).type
    places = places.astype(np.int64)[..., None]  # (..., 1)
    turns = (places * high).astype(wide) * wide(2.0**-64)  # (..., K)   from −1/2 to 1/2: the product wraps round
    turns += places.astype(wide) * (low.astype(wide) * wide(2.0**-128))
    angles = turns * (8 * np.arctan(wide(1)))  # (..., K)
    return np.sin(angles).astype(dtype), np.cos(angles).astype(dtype)


@functools.lru_cache(maxsize=64)
def _turns_per_step(features: int, base: float) -> tuple[np.ndarray, np.ndarray]:
    """ω_k/2π as a fraction of 2¹²⁸, in two integers of 64 bits for each k: (high, low), high below 2⁶²."""
    with decimal.localcontext(decimal.Context(prec=DIGITS)):
        powers = [decimal.Decimal(base) ** (decimal.Decimal(-2 * k) / features) for k in range((features + 1) // 2)]
        turns = [int(power / PI * 2**127) for power in powers]
    high = np.array([turn >> 64 for turn in turns], np.int64)
    low = np.array([turn & (1 << 64) - 1 for turn in turns], np.uint64)
    for array in (high, low):
        array.flags.writeable = False
    return high, low
