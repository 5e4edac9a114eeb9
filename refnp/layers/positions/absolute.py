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

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from refnp.autograd import take
from refnp.autograd.declaration import takes
from refnp.autograd.errors import OutOfRangeError
from refnp.autograd.primitives import integers, raw
from refnp.autograd.tensor import Array, ArrayLike, Parameter, Tensor
from refnp.layers.module import Module
from refnp.numbers import words
from refnp.numbers.arrays import floating
from refnp.numbers.kinds import is_kind
from refnp.numbers.sinusoids import sinusoids_of

NO_END = "a longer table, or SinusoidalPositions, which have no end"
SCALE = 0.02  # standard deviation of learned positions at the start, as in BERT, GPT-2 and ViT


@takes("places whole (...) → (..., D)", features="whole ≥ 1", base="≥ 1")
def sinusoidal(places: ArrayLike, features: int, *, base: float = 10000, dtype: DTypeLike = np.float64) -> Array:
    """P(p, 2k) = sin(p ω_k), P(p, 2k + 1) = cos(p ω_k), ω_k = base^(−2k/D). If D is odd, the last sine has no cosine.

    Shapes: integer places (...) → (..., D), right to a few units in the last place of 1 at any place: see `sinusoids`.
    Raises TypeError unless places are integers, ValueError for a base below 1 or no features.
    """
    sines, cosines = sinusoids(places, features, base=base, dtype=dtype)
    return in_turn(sines, cosines, features)


class SinusoidalPositions(Module):
    """x + P(places), sinusoidal with ω_k = base^(−2k/D), base ≥ 1; no parameters, any length.

    Permuting tokens changes what attention makes of them; so does shifting their places.
    Shapes: x (..., N, D), places integers (N,), or (..., N) where sequences differ; 0 to N − 1 if none are given.
    Raises TypeError unless places are integers, ValueError for shapes that do not fit or a base below 1.
    """

    @takes("", base="≥ 1")
    def __init__(self, *, base: float = 10000):
        self.base = base

    @takes("x (..., N, D), places whole (..., N)? → (..., N, D)")
    def __call__(self, x: ArrayLike, places: ArrayLike | None = None) -> Array | Tensor:
        tokens, at = _tokens_and_places("SinusoidalPositions", x, places)
        features = tokens.shape[-1]
        sines, cosines = words.sinusoids(raw(tokens), at, features, self.base)  # (..., K), (..., K)
        return tokens + in_turn(sines, cosines, features)


class LearnedPositions(Module):
    """x + P(places), P a table of `length` vectors drawn from N(0, 0.02²), as in BERT, GPT-2 and ViT.

    Shapes: x (..., N, D) with D = features, places integers (N,) or (..., N); 0 to N − 1 if none are given.
    Raises IndexError for a place that is not in the table, TypeError unless places are integers, ValueError for other
    features, shapes that do not fit, or a table without rows.
    """

    @takes("", length="whole ≥ 1", features="whole ≥ 1", rng="generator")
    def __init__(self, length: int, features: int, *, rng: np.random.Generator):
        self.weight = Parameter(rng.normal(0, SCALE, (length, features)))
        self.length, self.features = length, features

    @takes(
        "x (..., N, features) → (..., N, features)",
        places=f"whole < length (..., N)?, {NO_END}",
    )
    def __call__(self, x: ArrayLike, places: ArrayLike | None = None) -> Array | Tensor:
        tokens, at = _tokens_and_places("LearnedPositions", x, places)
        if places is None and not is_kind(raw(tokens)) and len(at) > self.length:
            raise OutOfRangeError(f"LearnedPositions: x has N = {len(at)}, and length is {self.length}; use {NO_END}")
        return tokens + take(self.weight, at)


def _tokens_and_places(name: str, x: ArrayLike, places: ArrayLike | None) -> tuple[Any, Array]:
    """x (..., N, D), and integers that broadcast to (..., N)."""
    tokens = x if isinstance(x, Tensor) else floating(x)
    n = tokens.shape[-2]
    places = words.arange(n) if places is None else integers(name, "places", places, signed=True)
    return tokens, places


@takes("places whole (...) → (..., K), (..., K)", features="whole ≥ 1", base="≥ 1")
def sinusoids(
    places: ArrayLike, features: int, *, base: float = 10000, dtype: DTypeLike = np.float64
) -> tuple[Array, Array]:
    """(sin(p ω_k), cos(p ω_k)) at integer places p, right to a few units in the last place of 1: `sinusoids_of`.

    Shapes: places (...) → two arrays (..., ⌈D/2⌉), computed in `dtype`, in float64 if it is less precise.
    Raises TypeError unless places are integers, ValueError for a base below 1 or no features.
    """
    return sinusoids_of(integers("sinusoids", "places", places, signed=True), features, base, dtype)


def in_turn(sines: Any, cosines: Any, features: int) -> Any:
    """sin, cos, sin, cos, … : two (..., K) → (..., D), without the last cosine if D is odd."""
    p = np.stack([sines, cosines], -1)  # (..., K, 2)
    return p.reshape(*sines.shape[:-1], sines.shape[-1] * 2)[..., :features]
