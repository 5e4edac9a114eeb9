"""Rotations of pairs of features on arrays of floats: on long rows, of which NumPy is fast.

The page is refnp/layers/positions/rotary.py.
"""

import numpy as np

from refnp.numbers.arrays import Array, in_order


def turned(x, *, sines, cosines, layout):
    """Every pair (a, b) of the first features becomes (a cos − b sin, a sin + b cos)."""
    return of_first(x, sines, cosines, layout), lambda y_bar: (of_first(y_bar, -sines, cosines, layout),)


def of_first(x, sin, cos, layout):
    """x with its first features turned, as many as sines and cosines are for."""
    d = 2 * sin.shape[-1]
    if d == x.shape[-1]:
        return of_all(x, sin, cos, layout)
    y = np.array(x, order="C")
    y[..., :d] = of_all(x[..., :d], sin, cos, layout)
    return y


def of_all(x, sin, cos, layout):
    """x ∘ (cos, cos) + x' ∘ (−sin, sin), where x' has the two features of each pair exchanged: long rows are fast."""
    x = in_order(x)
    partner, cosines, sines = np.empty_like(x), *np.empty((2, *sin.shape[:-1], x.shape[-1]), sin.dtype)  # (..., N, d)
    (a, b), (at_a, at_b) = pairs_of(x, layout), pairs_of(partner, layout)  # (..., N, K)
    at_a[...], at_b[...] = b, a
    for whole, parts in ((cosines, (cos, cos)), (sines, (-sin, sin))):
        for half, part in zip(pairs_of(whole, layout), parts, strict=True):
            half[...] = part
    partner *= sines
    partner += x * cosines
    return partner


def pairs_of(x: Array, layout: str) -> tuple[Array, Array]:
    """The first and the second features of all pairs, as views."""
    half = x.shape[-1] // 2
    return (x[..., :half], x[..., half:]) if layout == "half" else (x[..., 0::2], x[..., 1::2])
