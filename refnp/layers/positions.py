"""Absolute positions: a vector for each place, added to the token that stands there.

    X_n = E_n + P(p_n)

    sinusoidal:   P(p, 2k) = sin(p ω_k)      P(p, 2k + 1) = cos(p ω_k)      ω_k = 10000^(−2k/D)
    learned:      P(p) = row p of a table

Attention alone does not see the order of its tokens; this is the simplest way to show it. The Gram matrix P Pᵀ of the
sinusoidal one is Toeplitz, P(p + s) = P(p) R_s with one rotation R_s for all p, and |P(p)|² = D/2 (all for even D): but
what attention makes of the sum still depends on where the tokens stand, see docs/positions.md.

Source: Sivaraya (2023), eq. 1 and 2; Transformer Notes, where i counts pairs. The first two drafts of Sivaraya (2023),
eq. 1, exchange position and dimension; tests keep
their form and show what breaks. Vaswani et al. (2017) §3.5; learned: Gehring et al., arXiv 1705.03122 §3.1.
Elsewhere: tensor2tensor puts all sines before all cosines, and divides by D/2 − 1 in the exponent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refnp.autograd import Parameter, Tensor, take
from refnp.autograd.blocks import floating
from refnp.autograd.primitive import raw
from refnp.layers.masks import fits
from refnp.layers.module import Module
from refnp.layers.waves import waves


def sinusoidal(places: Any, features: int, *, base: float = 10000, dtype: Any = np.float64) -> np.ndarray:
    """P(p, 2k) = sin(p ω_k), P(p, 2k + 1) = cos(p ω_k), ω_k = base^(−2k/D). If D is odd, the last sine has no cosine.

    Shapes: integer places (...) → (..., D), right to a few units in the last place of 1 at any place: see `waves`.
    Raises TypeError unless places are integers, ValueError for a base below 1 or no features.
    """
    sines, cosines = waves(places, features, base=base, dtype=dtype)  # (..., K), (..., K)
    p = np.empty((*sines.shape[:-1], features), sines.dtype)  # (..., D)
    p[..., 0::2] = sines
    p[..., 1::2] = cosines[..., : features // 2]
    return p


class SinusoidalPositions(Module):
    """x + P(places), sinusoidal; no parameters, and any length.

    Permuting tokens changes what attention makes of them; so does shifting their places.
    Shapes: x (..., N, D), places integers (N,), or (..., N) where sequences differ; 0 to N − 1 if none are given.
    """

    def __init__(self, *, base: float = 10000):
        self.base = base

    def __call__(self, x: Any, places: Any = None) -> Any:
        x, places = _tokens_and_places("SinusoidalPositions", x, places)
        return x + sinusoidal(places, x.shape[-1], base=self.base, dtype=raw(x).real.dtype)


class LearnedPositions(Module):
    """x + P(places), P a table of `length` vectors drawn from N(0, 0.02²), as in BERT, GPT-2 and ViT.

    Shapes: as `SinusoidalPositions`, with D = features.
    Raises IndexError for a place that is not in the table, ValueError for other features or a table without rows.
    """

    def __init__(self, length: int, features: int, *, rng: np.random.Generator):
        if length < 1 or features < 1:
            raise ValueError(f"LearnedPositions: length {length} and features {features} must be positive")
        self.weight = Parameter(rng.normal(0, 0.02, (length, features)))

    def __call__(self, x: Any, places: Any = None) -> Any:
        x, places = _tokens_and_places("LearnedPositions", x, places)
        length, features = self.weight.shape
        if x.shape[-1] != features:
            raise ValueError(f"LearnedPositions: x has {x.shape[-1]} features, the table {features}; they must match")
        if places.size and (places.min() < 0 or places.max() >= length):
            bad = places[(places < 0) | (places >= length)].flat[0]
            raise IndexError(
                f"LearnedPositions: place {bad} is not in a table of {length}; use 0 to {length - 1}, a longer table, "
                "or SinusoidalPositions, which have no end"
            )
        return x + take(self.weight, places)


def _tokens_and_places(name: str, x: Any, places: Any) -> tuple[Any, np.ndarray]:
    """x (..., N, D), and integers that broadcast to (..., N)."""
    x = x if isinstance(x, Tensor) else floating(x)
    if x.ndim < 2:
        raise ValueError(f"{name}: x has shape {x.shape}; it must be (..., tokens, features)")
    places = np.arange(x.shape[-2]) if places is None else np.asarray(raw(places))
    if places.dtype.kind not in "iu" and places.size:  # an empty list is an array of floats
        raise TypeError(f"{name}: places are {places.dtype}; pass integers")
    if places.shape[-1:] != x.shape[-2:-1] or not fits(places.shape, x.shape[:-1]):
        raise ValueError(
            f"{name}: places have shape {places.shape}; they must be (..., {x.shape[-2]}), as x is {x.shape}"
        )
    return x, places.astype(np.int64)
