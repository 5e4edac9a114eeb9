"""Sines and cosines of multiples of an angle, right to the last digits at any place."""

import decimal
import functools
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from refnp.numbers.duals import Array

PI = decimal.Decimal("3.14159265358979323846264338327950288419716939937510582097494")


def sinusoids_of(places: Array, features: int, base: float, dtype: DTypeLike) -> tuple[Array, Array]:
    """(sin(p ω_k), cos(p ω_k)) at integer places p, with ω_k = base^(−2k/D) for k = 0, 1, … while 2k < D.

    Shapes: places (...) → two arrays (..., ⌈D/2⌉), computed in `dtype`, in float64 if it is less precise.

    A product p ω_k in floating point carries p times the rounding error of ω_k: at p = 10⁵ five digits are lost before
    the sine is taken. Here an angle is counted in turns, as an integer of 64 bits that overflows where the angle begins
    again: 2⁶⁴ is one turn. Its product with an integer place is exact, and so is the reduction, which is the overflow.
    A second integer holds the 64 bits of ω_k/2π that come after.
    Error, with u the unit roundoff of that precision and φ the angle brought to (−π, π]: 4u (|φ| + 21|p|/2⁶⁴) from the
    angle, and that of NumPy's sine. The first integer is rounded once, the second three times, their sum, 2π and the
    product once each: in turns t, 4u|t| and 4u|p|/2⁶⁴, for the second is below |p|/2⁶⁴; 8u|p|/2⁶⁴ to bring t to
    (−½, ½]; and the bits that are left out, |p|/2¹²⁸. So it is about 4πu at any place below 2⁵⁰, and at most
    (4 + 14)πu; but beside a φ that happens to be near 0 it may be large: |φ| = 3.5e-12 at p = 42 106 686 282, ω = 1.
    """
    p = places[..., None]  # (..., 1)
    high, low = _turns_per_step(features, base)
    wide: Any = np.result_type(np.zeros((), dtype).real.dtype, np.float64).type
    turns = (p * high).astype(wide) * wide(2.0**-64)  # (..., K)   from −1/2 to 1/2, as the product overflows
    turns += p.astype(wide) * (low.astype(wide) * wide(2.0**-128))
    angles = turns * (8 * np.arctan(wide(1)))  # (..., K)
    return np.sin(angles).astype(dtype), np.cos(angles).astype(dtype)


@functools.lru_cache(maxsize=64)
def _turns_per_step(features: int, base: float) -> tuple[Array, Array]:
    """ω_k/2π less whole turns, as a fraction of 2¹²⁸, in two integers of 64 bits for each k: (high, low)."""
    with decimal.localcontext(decimal.Context(prec=60)):  # more than 2 · 64 bits
        exact = decimal.Decimal(int(base) if base == int(base) else float(base))  # of NumPy's numbers too
        powers = [exact ** (decimal.Decimal(-2 * k) / features) for k in range((features + 1) // 2)]
        turns = [int(power / PI * 2**127) % 2**128 for power in powers]
    high = np.array([turn >> 64 for turn in turns], np.uint64).view(np.int64)
    low = np.array([turn & (1 << 64) - 1 for turn in turns], np.uint64)
    for array in (high, low):
        array.flags.writeable = False
    return high, low
