"""How far a set convolution may be from the exact one: what rounding does, and what a truncation leaves out.

Rounding. In D dimensions s = |d|²/ℓ² takes D + 4 roundings on the way of each term: a subtraction and a division (the
square makes two of each), the square, D − 1 sums. The kernel turns the relative error of s into |s k′(s)| of its own,
and adds that of its evaluation, E; N products and sums are in the result. So, to first order in the unit roundoff u,

    |ẑ − z| ≤ u Σ_n |v_n| ((D + 4) |s k′(s)| + (N + E) k(s)).

For EQ |s k′| = k s/2, and E = 8: exp is trusted to 4 units in the last place. Bounds on gradients, and with the
division, come from running error analysis of the same equation in refnp/verify/equations/set_convolution.py.

Leaving out. `left_out` bounds the pairs that the truncated form does not look at (the derivation stands in
refnp/layers/set_convolution_1d.py), and the weights below the smallest normal number, which count as 0 in every form.

Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed. (2002), §3.1 and §3.3.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from refnp.layers.set_convolution_1d import reach
from refnp.layers.set_convolution_kernels import eq
from refnp.verify.rounding import ELEMENTARY, WIDE


def rounding(
    target_x: Any, context_x: Any, values: Any, length_scale: Any, u: Any, *, kernel: Any = eq, shift: Any = None
) -> np.ndarray:
    """The bound on the rounding error of Σ_n v_nc k(|x_m − x_n|²/ℓ_c²), to first order in u.

    Shapes: target_x (..., M, D), context_x (..., N, D), values v (..., N, C) with the density's ones among them (0
    where a point is masked), length_scale () or (C,) → (..., M, C).

    A `shift` (D,) is one that all positions have had. It rounded them, by u|x + t| each; if two together moved by δ, s
    changes by (2|d| + δ) δ/ℓ², and an EQ weight by about u (|t|/ℓ) (|d|/ℓ) of itself.
    """
    x, y, v = (np.asarray(a, WIDE) for a in (target_x, context_x, values))
    d = x[..., :, None, :] - y[..., None, :, :]  # (..., M, N, D)
    scales = np.broadcast_to(np.asarray(length_scale, WIDE), v.shape[-1:])  # (C,)
    errors = []
    for c, scale in enumerate(scales):
        s = ((d / scale) ** 2).sum(-1)  # (..., M, N)
        k, slope = kernel(s)
        slope = np.abs(slope())
        error = (d.shape[-1] + 4) * s * slope + (v.shape[-2] + evaluation(kernel, s)) * k
        if shift is not None:
            moved = np.abs(x + shift)[..., :, None, :] + np.abs(y + shift)[..., None, :, :]  # (..., M, N, D)
            error = error + slope * ((2 * np.abs(d) + u * moved) * moved).sum(-1) / scale**2
        errors.append((error @ np.abs(v[..., c, None]))[..., 0])
    return u * np.stack(errors, -1) if errors else np.zeros((*d.shape[:-2], 0), WIDE)


def evaluation(kernel: Any, s: np.ndarray) -> np.ndarray:
    """E: the relative error of k(s) for a given s, in units of u.

    EQ: that of exp. Matérn: a = √(3s) or √(5s) has 1.5u, which exp makes 1.5a; the polynomial in a has at most 6u,
    exp its own, and the product 1.
    """
    return np.full(s.shape, ELEMENTARY) if kernel is eq else ELEMENTARY + 7 + 1.5 * np.sqrt(5 * s)


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
