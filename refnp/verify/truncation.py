"""How much the truncated form of a set convolution leaves out: the bound beside that of rounding.

What rounding does is in refnp/verify/equations/set_convolution.py. The truncated form does not look at far pairs (the
derivation stands in refnp/layers/set_convolutions/near.py), and weights below the smallest normal number count as 0 in
every form.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from refnp.layers.set_convolutions.near import reach
from refnp.verify.rounding import WIDE


class LeftOut(NamedTuple):
    """Bounds for what is missing in z (B, M, C) and in the gradients of targets, points, values and length scales."""

    z: np.ndarray
    targets: np.ndarray
    points: np.ndarray
    values: np.ndarray
    scales: np.ndarray


def left_out(
    target_x: Any,
    context_x: Any,
    values: Any,
    length_scale: Any,
    z_bar: Any,
    *,
    present: Any,
    dtype: Any,
    truncated: bool,
) -> LeftOut:
    """What is missing in a computation in `dtype` with the EQ kernel: small weights, and far pairs if `truncated`.

    Shapes: target_x (B, M, D), context_x (B, N, D), values (B, N, C), length_scale (C,), present (B, N), and the
    gradient of z, z_bar (B, M, C). Pairs are left out beyond h² = d₀² + r²ℓ², where w ≤ w₀ u/N; small weights are below
    e times the smallest normal number, beyond r₀ℓ. A pair gives w|d|/ℓ² or w d²/ℓ³ to a gradient, which fall with |d|
    as w does where d² ≥ 2ℓ², and so are no larger than at h or at r₀ℓ.
    """
    info = np.finfo(dtype)
    x, y, v, z_bar = (np.asarray(a, WIDE) for a in (target_x, context_x, values, z_bar))
    scales = np.broadcast_to(np.asarray(length_scale, WIDE), v.shape[-1:])  # (C,)
    d = np.sqrt(((x[:, :, None] - y[:, None]) ** 2).sum(-1))  # (B, M, N)
    nearest = np.where(present[:, None, :], d, np.inf).min(-1, keepdims=True, initial=np.inf)  # (B, M, 1)
    s = (nearest / scales) ** 2  # (B, M, C)
    counts = np.maximum(present.sum(1), 1)[:, None, None]  # (B, 1, 1)   N
    near = np.array([reach(n, dtype)[0] for n in counts.ravel()], WIDE).reshape(counts.shape)  # (B, 1, 1)   r
    vanishing = WIDE(reach(1, dtype)[1])
    far = np.exp(-s / 2) * (WIDE(info.eps) / 2 / counts if truncated else 0)  # (B, M, C)   w₀ u/N
    edge = np.sqrt(np.minimum(s + near**2, vanishing**2))  # (B, M, C)   h/ℓ

    def missing(power: int) -> np.ndarray:
        """The largest w (|d|/ℓ)^power of a missing pair, for each target and channel."""
        return far * edge**power + np.e * WIDE(info.tiny) * vanishing**power

    size, bars = np.abs(v), np.abs(z_bar)  # (B, N, C), (B, M, C)
    total = size.sum(1, keepdims=True)  # (B, 1, C)
    return LeftOut(
        missing(0) * total,
        (bars * missing(1) * total / scales).sum(-1, keepdims=True),
        ((bars * missing(1) / scales).sum(1, keepdims=True) * size).sum(-1, keepdims=True),
        np.broadcast_to((bars * missing(0)).sum(1, keepdims=True), v.shape),
        (bars * missing(2) * total).sum((0, 1)) / scales,
    )
