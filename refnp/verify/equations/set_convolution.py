"""Set convolution with the EQ kernel, all pairs at once."""

from __future__ import annotations

import numpy as np

from refnp.verify import rounding
from refnp.verify.rounding import Rounded, constant, contract, exact


def set_convolution(target_x, context_x, context_y, length_scale, *, divide=False, eps=1e-8):
    """z_m = Σ_n [1, y_n] exp(−s_mn/2), s = |x_m − x_n|²/ℓ²; with `divide`, all but the density ρ over ρ + ε.

    v̄_n = Σ_m z̄_m k;   x̄_m = −Σ_n w_mn (x_m − x_n)/ℓ² with w = Σ_c z̄_mc v_nc k, x̄_n = −x̄_m's terms;   ℓ̄ = Σ w s/ℓ.
    """
    steps = target_x[:, None, :] - context_x[None, :, :]  # (M, N, D)
    v = joined(exact(np.ones((context_y.shape[0], 1))), context_y)  # (N, C)
    square = length_scale * length_scale  # () or (C,)
    s = (steps * steps).sum((-1,))[..., None] / square  # (M, N, C), or (M, N, 1)
    k = rounding.exp(-s / 2).moved(lambda a: np.broadcast_to(a, (*a.shape[:2], v.shape[-1])))
    z = contract("mnc,nc->mc", k, v)
    room = z[:, :1] + constant(eps)
    means = z[:, 1:] / room

    def pullback(g):
        if divide:
            rest = g[:, 1:] / room
            density = g[:, :1] - (rest * means).sum((-1,), keepdims=True)
            g = joined(density, rest)
        pairs = (g[:, None, :] * v[None, :, :]) * k  # (M, N, C)   z̄ v k
        along = (pairs / square).sum((-1,))[..., None] * steps  # (M, N, D)
        scale_bar = pairs * s / length_scale
        axes = (0, 1) if length_scale.shape else (0, 1, 2)
        return -along.sum((1,)), along.sum((0,)), contract("mnc,mc->nc", k, g)[:, 1:], scale_bar.sum(axes)

    return (joined(z[:, :1], means) if divide else z), pullback


def joined(x, y):
    """x and y side by side along the last axis."""
    return Rounded(np.concatenate([x.value, y.value], -1), np.concatenate([x.error, y.error], -1))
