"""How far a correct implementation may be from the exact result: bounds derived from rounding, none tuned by hand.

Two kinds. The closed forms below are the classical first-order bounds on outputs, one for each of the main layers,
with u the unit roundoff of the precision that is judged. `of` gives the bound on the output and on every gradient of
any equation in `refnp.verify.layers`, by running error analysis; it is what `refnp verify` judges by. The tests
compare both. `left_out` bounds what the truncated form of a set convolution leaves out, which adds to rounding.

Element by element in units in the last place, even a good result is thousands of units off where terms cancel; so ulps
are reported, and bounds judge. A fixed tolerance is too wide for some inputs and too narrow for others.

Sources: Higham (2002), ch. 3 and 4; Blanchard, Higham & Higham (2021) (softmax); Hallman & Ipsen (2023), arXiv
2107.01604, and Ipsen & Zhou (2020), arXiv 1906.10465 (sums).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from refnp.autograd.tensor import ArrayLike
from refnp.layers.set_convolutions.near import reach
from refnp.verify.rounding import WIDE, arithmetic, exact, tolerance


def unit_roundoff(dtype: DTypeLike) -> np.longdouble:
    """u, half the distance from 1 to the next number: 6e-8 in float32, 1.1e-16 in float64."""
    return WIDE(np.finfo(dtype).eps) / 2


def of(
    equation: Callable,
    arrays: Sequence[np.ndarray],
    cotangent: ArrayLike | None = None,
    *,
    dtype: DTypeLike | None = None,
    **options: Any,
) -> tuple[np.ndarray, ...]:
    """The bound on the output of an equation and, given a cotangent, on the gradient of every argument.

    Computation in `dtype` (that of the first array unless told), inputs taken for exact. Shapes: those of the results.
    """
    dtype = np.asarray(arrays[0]).dtype if dtype is None else dtype
    judged = arithmetic(dtype)
    y, pullback = equation(*(exact(array, judged) for array in arrays), **options)
    results = (y,) if cotangent is None else (y, *pullback(exact(cotangent, judged)))
    return tuple(tolerance(result, dtype) for result in results)


def softmax(x: ArrayLike, u: np.floating) -> np.ndarray:
    """p u (|x − m| + E_p|x − m| + n + 4) along the last axis, plus the smallest subnormal number.

    exp magnifies the rounding of x − m by |x − m|; the sum inherits the weighted mean of that and adds n − 1 roundings.
    Source: Blanchard, Higham & Higham (2021), §4.
    """
    p, away, mean_away = _weights(x)
    return p * u * (away + mean_away + p.shape[-1] + 4) + _subnormal(u)


def log_softmax(x: ArrayLike, u: np.floating) -> np.ndarray:
    """2 u (|x − m| + |log s| + E_p|x − m| + log₂ n + 4) along the last axis, s the sum of exponentials.

    Absolute, as for every implementation that takes the logarithm of s; a log p near 0 may lose every digit.
    """
    p, away, mean_away = _weights(x)
    log_sum = -np.log(p.max(-1, keepdims=True))
    return 2 * u * (away + log_sum + mean_away + np.log2(p.shape[-1]) + 4)


def layer_norm(
    x: ArrayLike, u: np.floating, gain: ArrayLike = 1.0, shift: ArrayLike = 0.0, *, eps: float = 1e-5
) -> np.ndarray:
    """u (k (log₂ n + 2) + (4 + log₂ n + k) |x̂|), k = max|x|/σ, times |γ|, and the roundings of γ x̂ + β.

    The mean is known to u log₂ n of the largest |x|, and so are all differences from it.
    """
    x = np.asarray(x, WIDE)
    centred = x - x.mean(-1, keepdims=True)
    sigma = np.sqrt((centred * centred).mean(-1, keepdims=True) + WIDE(eps))
    unit, k, levels = np.abs(centred / sigma), np.abs(x).max(-1, keepdims=True) / sigma, np.log2(x.shape[-1])
    return u * ((k * (levels + 2) + (6 + levels + k) * unit) * np.abs(gain) + np.abs(shift))


def attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    u: np.floating,
    *,
    mask: ArrayLike | None = None,
    bias: ArrayLike = 0.0,
) -> np.ndarray:
    """2 max_j dS_ij · P|V| + u (2 M + 4) · P|V|, where dS = u ((d + 3)|Q||K|ᵀ/√d + |S − m| + |bias|).

    dS is the error of the scores before the exponential; M is the number of keys. 0 where no key is allowed.
    """
    q, k, v, bias = (np.asarray(a, WIDE) for a in (query, key, value, bias))
    root, d, m = np.sqrt(WIDE(q.shape[-1])), q.shape[-1], k.shape[-2]
    k_transposed = k.swapaxes(-1, -2)
    scores = q @ k_transposed / root + bias
    scores = scores if mask is None else np.where(mask, scores, -np.inf)
    p, away, _ = _weights(scores)
    error = u * ((d + 3) * np.abs(q) @ np.abs(k_transposed) / root + away + np.abs(bias))
    worst = np.where(p > 0, error, 0).max(-1, keepdims=True, initial=0)
    return (2 * worst + u * (2 * m + 4)) * (p @ np.abs(v))


def product(magnitude: ArrayLike, terms: int, u: np.floating) -> np.ndarray:
    """N u (|w|∗|x| + |b|) for a matrix product or a convolution, N = terms per output + 1.

    `magnitude` is the same product of the absolute values. Source: Higham (2002), eq. 3.5.
    """
    return (terms + 1) * u * np.asarray(magnitude, WIDE)


def reordered_sum(x: ArrayLike, u: np.floating, axis: int = -1) -> np.ndarray:
    """2 (n − 1) u Σ|x| between a sum of n numbers and the same sum in another order."""
    x = np.asarray(x, WIDE)
    return 2 * (x.shape[axis] - 1) * u * np.abs(x).sum(axis)


def _weights(x: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Softmax p along the last axis, |x − m| (0 where p is), and its mean under p. Rows of −∞ have p = 0."""
    x = np.asarray(x, WIDE)
    m = x.max(-1, keepdims=True, initial=-np.inf)
    shifted = x - np.where(np.isneginf(m), 0, m)
    e = np.exp(shifted)
    total = e.sum(-1, keepdims=True)
    p = e / np.where(total == 0, 1, total)
    away = np.where(p > 0, np.abs(shifted), 0)
    return p, away, (p * away).sum(-1, keepdims=True)


def _subnormal(u: Any) -> Any:
    return np.finfo(np.float32 if u > 1e-10 else np.float64).smallest_subnormal


class LeftOut(NamedTuple):
    """Bounds for what is missing in z (B, N, C) and in the gradients of targets, points, values and length scales."""

    z: np.ndarray
    targets: np.ndarray
    points: np.ndarray
    values: np.ndarray
    scales: np.ndarray


def left_out(
    target_x: ArrayLike,
    context_x: ArrayLike,
    values: ArrayLike,
    length_scale: ArrayLike,
    z_bar: ArrayLike,
    *,
    present: np.ndarray,
    dtype: np.dtype | type,
    truncated: bool,
) -> LeftOut:
    """What is missing in a computation in `dtype` with the EQ kernel: small weights, and far pairs if `truncated`.

    Shapes: target_x (B, N, dx), context_x (B, M, dx), values (B, M, C), length_scale (C,), present (B, M), and the
    gradient of z, z_bar (B, N, C). Pairs are left out beyond h² = d₀² + r²ℓ², where w ≤ w₀ u/M; small weights are below
    e times the smallest normal number, beyond r₀ℓ. A pair gives w|d|/ℓ² or w d²/ℓ³ to a gradient, which fall with |d|
    as w does where d² ≥ 2ℓ², and so are no larger than at h or at r₀ℓ.
    """
    info = np.finfo(dtype)
    x, y, v, z_bar = (np.asarray(a, WIDE) for a in (target_x, context_x, values, z_bar))
    scales = np.broadcast_to(np.asarray(length_scale, WIDE), v.shape[-1:])  # (C,)
    d = np.sqrt(((x[:, :, None] - y[:, None]) ** 2).sum(-1))  # (B, N, M)
    nearest = np.where(present[:, None, :], d, np.inf).min(-1, keepdims=True, initial=np.inf)  # (B, N, 1)
    s = (nearest / scales) ** 2  # (B, N, C)
    sizes = np.maximum(present.sum(1), 1)[:, None, None]  # (B, 1, 1)   M
    near = np.array([reach(n, dtype)[0] for n in sizes.ravel()], WIDE).reshape(sizes.shape)  # (B, 1, 1)   r
    vanishing = WIDE(reach(1, dtype)[1])
    far = np.exp(-s / 2) * (WIDE(info.eps) / 2 / sizes if truncated else 0)  # (B, N, C)   w₀ u/M
    edge = np.sqrt(np.minimum(s + near**2, vanishing**2))  # (B, N, C)   h/ℓ

    def missing(power: int) -> np.ndarray:
        """The largest w (|d|/ℓ)^power of a missing pair, for each target and channel."""
        return far * edge**power + np.e * WIDE(info.tiny) * vanishing**power

    size, bars = np.abs(v), np.abs(z_bar)  # (B, M, C), (B, N, C)
    total = size.sum(1, keepdims=True)  # (B, 1, C)
    return LeftOut(
        missing(0) * total,
        (bars * missing(1) * total / scales).sum(-1, keepdims=True),
        ((bars * missing(1) / scales).sum(1, keepdims=True) * size).sum(-1, keepdims=True),
        np.broadcast_to((bars * missing(0)).sum(1, keepdims=True), v.shape),
        (bars * missing(2) * total).sum((0, 1)) / scales,
    )
