"""Rotary positions (RoPE): queries and keys are rotated, each pair of features by angles that grow with the place.

    (a, b) at place p  →  (a cos pω_k − b sin pω_k,  a sin pω_k + b cos pω_k)        ω_k = 10000^(−2k/d)

The dot product of two rotated vectors depends on the difference of their angles alone, (R_n q)·(R_m k) = q·R_{m−n} k.
Each key is rotated by its own place, once, and so can be kept in a cache.

Which two features are the pair k is a convention: 2k and 2k + 1 (interleaved: the paper, GPT-J, LLaMA as published) or
k and k + d/2 (half: GPT-NeoX, and LLaMA as Hugging Face stores it, with permuted weights). One is the other with
features permuted: `half_order`. GPT-J and GPT-NeoX rotate the first features of a head only, and leave the others as
they are: then d above is the number of those that are rotated.

Source: Su et al. (2021), arXiv 2104.09864, eq. 34; a form of the relative positions of Sivaraya (2023) §1.2.
Words: layers/__init__.py.   Transcription: tests/transcriptions/positions.py.   Kernel: refnp/kernels/rotary.py.
"""

from typing import Any

import numpy as np

from refnp.autograd.declaration import takes
from refnp.autograd.pages import page
from refnp.autograd.primitives import integers, raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.kernels import rotary as kernels
from refnp.layers.positions.relative import RelativePositions
from refnp.numbers import words
from refnp.numbers.arrays import floating
from refnp.numbers.duals import as_array
from refnp.numbers.parts import part

LAYOUT = {"layout": "interleaved | half", "base": "≥ 1"}


@takes(
    "x (..., N, D ≥ 1) → (..., N, D)",
    places="whole (N) or whole (B, N)?",
    features="whole ≥ 1?",
    **dict.fromkeys(("sines", "cosines"), "real (*R, K)?"),
    **LAYOUT,
    needs="sines with cosines; places is given or sines is given, pass places, or sines and cosines;"
    "features is a multiple of 2 and features ≤ D if features is given, pass an even number, D or less;"
    "D is a multiple of 2 if not features is given, pass an even number of features, which come in pairs;"
    "K * 2 = (features or D) if sines is given, pass sines and cosines with a column for each pair of features",
)
def rotate(
    x: ArrayLike, *, places=None, layout="interleaved", base=10000, features=None, sines=None, cosines=None
) -> Array | Tensor:
    """y = x with each pair of features (a, b) of token n rotated by the angles p_n ω_k.

    Shapes: x (..., N, D) and integer places (N,) → (..., N, D); or x (B, ..., N, D) and places (B, N), a row for each
    sequence. The first d = `features` of a token are rotated and the others left as they are; all D of them by default.
    layout: "interleaved", pairs 2k and 2k + 1; "half", pairs k and k + d/2. ω_k = base^(−2k/d).
    sines, cosines: given in place of sin p ω_k and cos p ω_k, with d/2 columns: a row for each token, (N, d/2) or
    (B, N, d/2); or, with places, tables of which token n takes row p_n. They are arrays, without a gradient, and
    are brought to the dtype of x. They may be those of other frequencies or times a factor, as YaRN has them.

    VJP: x̄ = ȳ with −sin p_n ω_k for sin p_n ω_k, the transpose; a rotation's is its inverse, and ȳ is rotated back.
    Raises ValueError for an odd number of features or more than there are, another layout, base < 1, places or tables
    without one row for each token, a place that tables do not have, or neither; TypeError unless places are integers.
    Elsewhere: ONNX's RotaryEmbedding is `rotate` with its caches as tables, layout "half" where interleaved = 0 and
    features = rotary_embedding_dim.
    """
    x = x if isinstance(x, Tensor) else floating(x)
    tokens = raw(x)
    d = tokens.shape[-1] if features is None else features  # how many of the first features are rotated
    at = None if places is None else _of_tokens(tokens, _places("rotate", places), 0)  # (..., N)
    if at is not None and sines is None:
        sin, cos = words.sinusoids(tokens, at, d, base)  # (..., N, K), (..., N, K)
    else:
        sin, cos = (_table_rows(tokens, name, t, at) for name, t in (("sines", sines), ("cosines", cosines)))
    return turned(x, sines=sin, cosines=cos, layout=layout)


@page(
    "x (..., N, D) → (..., N, D)",
    sines="real (*R, K)",
    cosines="real (*R, K)",
    layout=LAYOUT["layout"],
    kernel=kernels.turned,
)
def turned(x, *, sines, cosines, layout="interleaved"):
    """Every pair of the first 2K features of x, a and b, becomes a cos − b sin and a sin + b cos.

    Shapes: x (..., N, D), sines and cosines (N, K) or for each sequence → (..., N, D).
    VJP: the transpose of each pair's map, and so x̄ = ȳ turned with −sin.
    """
    y = turned_by(x, sines, cosines, layout)  # (..., N, D)

    def vjp(y_bar):
        x_bar = turned_by(y_bar, -sines, cosines, layout)
        return (x_bar,)

    return y, vjp


@part
def turned_by(x, sin, cos, layout):
    """The two features of each pair, turned, each at its place, and the features after the first 2K as they are."""
    k = sin.shape[-1]
    pairs = (slice(k), slice(k, 2 * k)) if layout == "half" else (slice(0, 2 * k, 2), slice(1, 2 * k, 2))
    a, b = (x[..., features] for features in pairs)  # (..., N, K), (..., N, K)
    both = np.stack([a * cos - b * sin, a * sin + b * cos], -2 if layout == "half" else -1)
    turned = both.reshape(*x.shape[:-1], both.shape[-2] * both.shape[-1])
    return np.concatenate([turned, x[..., 2 * k :]], -1)


def _places(name: str, places: ArrayLike) -> Array:
    """Places (N,) or (B, N); TypeError unless they are integers."""
    return integers(name, "places", places, signed=True)


def _of_tokens(x: Array, rows: Array, columns: int, name: str = "places") -> Array:
    """Rows for the tokens of all sequences as they are, rows for each sequence with axes of 1 for what x has between.

    The last `columns` axes of the rows are columns.
    """
    tokens, shape = x.shape[-2], rows.shape[: rows.ndim - columns]
    if shape == (tokens,):
        return rows
    if x.ndim > 2 and shape == (len(x), tokens):
        return rows.reshape(len(x), *[1] * (x.ndim - 3), *rows.shape[1:])
    raise ValueError(
        f"rotate: {name} have shape {rows.shape} and x {x.shape}; pass one row for each token, (N, …), or (B, N, …) "
        "where x is (B, ..., N, D)"
    )


def _table_rows(x: Array, name: str, table: Any, at: Array | None) -> Array:
    """Given sines or cosines for every token: rows of a table at its place, or a row for each token."""
    table = as_array(table).astype(x.real.dtype, copy=False)
    if at is None:
        return _of_tokens(x, table, 1, name)
    if table.ndim != 2:
        raise ValueError(f"rotate: {name} have shape {table.shape}; with places pass a table (rows, columns)")
    outside = at[(at < 0) | (at >= len(table))]
    if outside.size:
        raise ValueError(f"rotate: place {outside.flat[0]} is not in {name} of {len(table)} rows; pass longer tables")
    return table[at]


def half_order(features: int) -> Array:
    """The order in which interleaved features, an even number, are laid out in halves: 0, 2, 4, …, 1, 3, 5, …

    rotate(x[..., order], layout="half") = rotate(x, layout="interleaved")[..., order], to the last bit; so a model of
    one layout becomes one of the other by permuting the columns of its query and key maps, head by head.
    """
    return np.arange(features).reshape(-1, 2).T.reshape(-1)


class Rotary(RelativePositions):
    """`rotate` for queries and keys, each at its own place; nothing to learn.

    layout: "interleaved" or "half". base: ω_k = base^(−2k/d). features: d, how many of the first features of each head
    are rotated, an even number; all of them by default (GPT-J: 64 of 256; GPT-NeoX: a quarter).
    Shifting all places changes nothing, to rounding. Permuting tokens does, and so does reversing their order.
    Raises ValueError for another layout, base < 1, an odd number of features or, when called, more than a head has.
    """

    @takes("", features="even?", **LAYOUT)
    def __init__(self, *, layout: str = "interleaved", base: float = 10000, features: int | None = None):
        self.layout, self.base, self.features = layout, base, features

    def rotated(self, x: Array | Tensor, places: ArrayLike) -> Array | Tensor:
        return rotate(x, places=raw(places), layout=self.layout, base=self.base, features=self.features)
