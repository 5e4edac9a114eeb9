"""Absolute positions: a vector for each place, added to the token that stands there.

    X_n = E_n + P(p_n)

    sinusoidal:   P(p, 2k) = sin(p ω_k)      P(p, 2k + 1) = cos(p ω_k)      ω_k = 10000^(−2k/D)
    learned:      P(p) = row p of a table

Attention alone does not depend on the order of its tokens; this is the simplest way to make it. The Gram matrix P Pᵀ of
the sinusoidal one is Toeplitz, P(p + s) = P(p) R_s with one rotation R_s for all p, and |P(p)|² = D/2 (all for even D):
but what attention makes of the sum still depends on where the tokens stand, see docs/positions.md.

Source: Sivaraya (2023), eq. 1 and 2; Transformer Notes, where i counts pairs. The first two drafts of Sivaraya (2023),
eq. 1, exchange position and dimension; tests keep their form and show what breaks. Vaswani et al. (2017) §3.5; learned:
Gehring et al. (2017), arXiv 1705.03122 §3.1.
Elsewhere: tensor2tensor puts all sines before all cosines, and divides by D/2 − 1 in the exponent.
Transcription: tests/transcriptions/positions.py.
"""

import decimal
import functools
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from refnp.autograd import take
from refnp.autograd.declaration import takes
from refnp.autograd.errors import explained
from refnp.autograd.primitives import integers, raw
from refnp.autograd.tensor import Array, ArrayLike, Parameter, Tensor
from refnp.layers.module import Module
from refnp.numbers.arrays import floating

SCALE = 0.02  # standard deviation of learned positions at the start, as in BERT, GPT-2 and ViT
PI = decimal.Decimal("3.14159265358979323846264338327950288419716939937510582097494")


@explained
@takes("places whole (...) → (..., D)", features="whole ≥ 1", base="≥ 1")
def sinusoidal(places: ArrayLike, features: int, *, base: float = 10000, dtype: DTypeLike = np.float64) -> Array:
    """P(p, 2k) = sin(p ω_k), P(p, 2k + 1) = cos(p ω_k), ω_k = base^(−2k/D). If D is odd, the last sine has no cosine.

    Shapes: integer places (...) → (..., D), right to a few units in the last place of 1 at any place: see `sinusoids`.
    Raises TypeError unless places are integers, ValueError for a base below 1 or no features.
    """
    sines, cosines = sinusoids(places, features, base=base, dtype=dtype)  # (..., K), (..., K)
    p = np.empty((*sines.shape[:-1], features), sines.dtype)  # (..., D)
    p[..., 0::2] = sines
    p[..., 1::2] = cosines[..., : features // 2]
    return p


class SinusoidalPositions(Module):
    """x + P(places), sinusoidal with ω_k = base^(−2k/D); no parameters, and any length.

    Permuting tokens changes what attention makes of them; so does shifting their places.
    Shapes: x (..., N, D), places integers (N,), or (..., N) where sequences differ; 0 to N − 1 if none are given.
    Raises TypeError unless places are integers, ValueError for shapes that do not fit.
    """

    @takes("", base="≥ 1")
    def __init__(self, *, base: float = 10000):
        self.base = base

    @takes("x (..., N, D), places whole (..., N)? → (..., N, D)")
    def __call__(self, x: ArrayLike, places: ArrayLike | None = None) -> Array | Tensor:
        tokens, at = _tokens_and_places("SinusoidalPositions", x, places)
        return tokens + sinusoidal(at, tokens.shape[-1], base=self.base, dtype=raw(tokens).real.dtype)


class LearnedPositions(Module):
    """x + P(places), P a table of `length` vectors drawn from N(0, 0.02²), as in BERT, GPT-2 and ViT.

    Shapes: x (..., N, D) with D = features, places integers (N,) or (..., N); 0 to N − 1 if none are given.
    Raises IndexError for a place that is not in the table, TypeError unless places are integers, ValueError for other
    features, shapes that do not fit, or a table without rows.
    """

    @takes("", length="whole ≥ 1", features="whole ≥ 1", rng="generator")
    def __init__(self, length: int, features: int, *, rng: np.random.Generator):
        self.weight = Parameter(rng.normal(0, SCALE, (length, features)))

    @takes("x (..., N, D), places whole (..., N)? → (..., N, D)")
    def __call__(self, x: ArrayLike, places: ArrayLike | None = None) -> Array | Tensor:
        tokens, at = _tokens_and_places("LearnedPositions", x, places)
        length, features = self.weight.shape
        if tokens.shape[-1] != features:
            raise ValueError(
                f"LearnedPositions: x has {tokens.shape[-1]} features, the table {features}; they must match"
            )
        outside = at[(at < 0) | (at >= length)]
        if outside.size:
            raise IndexError(
                f"LearnedPositions: place {outside.flat[0]} is not in a table of {length}; use 0 to {length - 1}, a "
                "longer table, or SinusoidalPositions, which have no end"
            )
        return tokens + take(self.weight, at)


def _tokens_and_places(name: str, x: ArrayLike, places: ArrayLike | None) -> tuple[Any, Array]:
    """x (..., N, D), and integers that broadcast to (..., N)."""
    tokens = x if isinstance(x, Tensor) else floating(x)
    n = tokens.shape[-2]
    places = np.arange(n) if places is None else integers(name, "places", places, signed=True)
    return tokens, places


# ---- sines and cosines, right to the last digits at any place


@takes("places whole (...) → (..., K), (..., K)", features="whole ≥ 1", base="≥ 1")
def sinusoids(
    places: ArrayLike, features: int, *, base: float = 10000, dtype: DTypeLike = np.float64
) -> tuple[Array, Array]:
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
    Raises TypeError unless places are integers, ValueError for a base below 1 or no features.
    """
    p = integers("sinusoids", "places", places, signed=True)[..., None]  # (..., 1)
    high, low = _turns_per_step(features, base)
    wide = np.result_type(np.zeros((), dtype).real.dtype, np.float64).type
    turns = (p * high).astype(wide) * wide(2.0**-64)  # (..., K)   from −1/2 to 1/2, as the product overflows
    turns += p.astype(wide) * (low.astype(wide) * wide(2.0**-128))
    angles = turns * (8 * np.arctan(wide(1)))  # (..., K)
    return np.sin(angles).astype(dtype), np.cos(angles).astype(dtype)


@functools.lru_cache(maxsize=64)
def _turns_per_step(features: int, base: float) -> tuple[Array, Array]:
    """ω_k/2π as a fraction of 2¹²⁸, in two integers of 64 bits for each k: (high, low), high below 2⁶²."""
    with decimal.localcontext(decimal.Context(prec=60)):  # more than 2 · 64 bits
        powers = [decimal.Decimal(base) ** (decimal.Decimal(-2 * k) / features) for k in range((features + 1) // 2)]
        turns = [int(power / PI * 2**127) for power in powers]
    high = np.array([turn >> 64 for turn in turns], np.int64)
    low = np.array([turn & (1 << 64) - 1 for turn in turns], np.uint64)
    for array in (high, low):
        array.flags.writeable = False
    return high, low
