"""Rotary positions (RoPE): queries and keys are rotated, each pair of features by angles that grow with the place.

    (a, b) at place p  →  (a cos pω_k − b sin pω_k,  a sin pω_k + b cos pω_k)        ω_k = 10000^(−2k/d)

The dot product of two rotated vectors depends on the difference of their angles alone, (R_n q)·(R_m k) = q·R_{m−n} k.
Each key is rotated by its own place, once, and so can be kept in a cache.

Which two features are the pair k is a convention: 2k and 2k + 1 (interleaved: the paper, GPT-J, LLaMA as published) or
k and k + d/2 (half: GPT-NeoX, and LLaMA as Hugging Face stores it, with permuted weights). One is the other with
features permuted: `half_order`.

Source: Su et al. (2021), arXiv 2104.09864, eq. 34; a form of the relative positions of Sivaraya (2023) §1.2.
Transcription: tests/transcriptions/positions.py.
"""

import numpy as np

from refnp.autograd.blocks import in_order
from refnp.autograd.primitives import primitive, raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.layers.positions.absolute import sinusoids
from refnp.layers.positions.relative import RelativePositions, check_places

LAYOUTS = ("interleaved", "half")


@primitive
def rotate(x, *, places, layout="interleaved", base=10000):
    """y = x with each pair of features (a, b) of token n rotated by the angles p_n ω_k.

    Shapes: x (..., N, d) with d even, integer places (N,) → (..., N, d).
    VJP: x̄ = ȳ rotated back, by −p_n ω_k: a rotation's transpose is its inverse.
    Raises ValueError for an odd d, another layout, or places that are not one for each token; TypeError unless these
    are integers.
    """
    x = np.asarray(x)
    if layout not in LAYOUTS:
        raise ValueError(f"rotate: layout is {layout!r}; use 'interleaved' or 'half'")
    if x.ndim < 2 or x.shape[-1] % 2 or not x.shape[-1]:
        raise ValueError(f"rotate: x has shape {x.shape}; it must be (..., tokens, features), features in pairs")
    places = check_places("rotate", places, 1, x.shape[-2])  # (N,)
    sin, cos = sinusoids(places, x.shape[-1], base=base, dtype=x.real.dtype)  # (N, K), (N, K)
    return _rotated(x, sin, cos, layout), lambda y_bar: (_rotated(y_bar, -sin, cos, layout),)


def _rotated(x, sin, cos, layout):
    """x ∘ (cos, cos) + x' ∘ (−sin, sin), where x' has the two features of each pair exchanged: long rows are fast."""
    x = in_order(x)
    partner, cosines, sines = np.empty_like(x), *np.empty((2, len(sin), x.shape[-1]), sin.dtype)  # (..., N, d)
    (a, b), (at_a, at_b) = _pairs(x, layout), _pairs(partner, layout)  # (..., N, K)
    at_a[...], at_b[...] = b, a
    for whole, parts in ((cosines, (cos, cos)), (sines, (-sin, sin))):
        for half, part in zip(_pairs(whole, layout), parts, strict=True):
            half[...] = part
    partner *= sines
    partner += x * cosines
    return partner


def _pairs(x: Array, layout: str) -> tuple[Array, Array]:
    """The first and the second features of all pairs, as views."""
    half = x.shape[-1] // 2
    return (x[..., :half], x[..., half:]) if layout == "half" else (x[..., 0::2], x[..., 1::2])


def half_order(features: int) -> Array:
    """The order in which interleaved features are laid out in halves: 0, 2, 4, …, 1, 3, 5, …

    rotate(x[..., order], layout="half") = rotate(x, layout="interleaved")[..., order], to the last bit; so a model of
    one layout becomes one of the other by permuting the columns of its query and key maps, head by head.
    """
    return np.arange(features).reshape(-1, 2).T.reshape(-1)


class Rotary(RelativePositions):
    """`rotate` for queries and keys, each at its own place; nothing to learn, the head's width must be even.

    Shifting all places changes nothing, to rounding. Permuting tokens does, and so does reversing their order.
    """

    def __init__(self, *, layout: str = "interleaved", base: float = 10000):
        if layout not in LAYOUTS:
            raise ValueError(f"Rotary: layout is {layout!r}; use 'interleaved' or 'half'")
        self.layout, self.base = layout, base

    def rotated(self, x: Array | Tensor, places: ArrayLike) -> Array | Tensor:
        return rotate(x, places=raw(places), layout=self.layout, base=self.base)
