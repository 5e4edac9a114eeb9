"""How far a correct implementation may be from the exact result: bounds derived from rounding, none tuned by hand.

Two kinds. The closed forms below are the classical first-order bounds on outputs, one for each of the main layers,
with u the unit roundoff of the precision that is judged. `of` gives the bound on the output and on every gradient of
any equation in `refnp.verify.equations`, by running error analysis; it is what `refnp verify` judges by. The tests
compare both.

Element by element in units in the last place, even a good result is thousands of units off where terms cancel; so ulps
are reported, and bounds judge. A fixed tolerance is too wide for some inputs and too narrow for others.

Sources: Higham (2002), ch. 3 and 4; Blanchard, Higham & Higham (2021) (softmax); Hallman & Ipsen (2023), arXiv
2107.01604, and Ipsen & Zhou (2020), arXiv 1906.10465 (sums).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from refnp.verify.rounding import WIDE, exact, tolerance


def unit_roundoff(dtype: Any) -> Any:
    """u, half the distance from 1 to the next number: 6e-8 in float32, 1.1e-16 in float64."""
    return WIDE(np.finfo(dtype).eps) / 2


def of(
    equation: Callable, arrays: Sequence[np.ndarray], cotangent: Any = None, *, dtype: Any = None, **options: Any
) -> tuple[np.ndarray, ...]:
    """The bound on the output of an equation and, given a cotangent, on the gradient of every argument.

    Computation in `dtype` (that of the first array unless told), inputs taken for exact. Shapes: those of the results.
    """
    dtype = np.asarray(arrays[0]).dtype if dtype is None else dtype
    y, pullback = equation(*map(exact, arrays), **options)
    results = (y,) if cotangent is None else (y, *pullback(exact(cotangent)))
    return tuple(tolerance(result, dtype) for result in results)


def softmax(x: Any, u: Any) -> np.ndarray:
    """p u (|x − m| + E_p|x − m| + n + 4) along the last axis, plus the smallest subnormal number.

    exp magnifies the rounding of x − m by |x − m|; the sum inherits the weighted mean of that and adds n − 1 roundings.
    Source: Blanchard, Higham & Higham (2021), §4.
    """
    p, away, mean_away = _weights(x)
    return p * u * (away + mean_away + p.shape[-1] + 4) + _subnormal(u)


def log_softmax(x: Any, u: Any) -> np.ndarray:
    """2 u (|x − m| + |log s| + E_p|x − m| + log₂ n + 4) along the last axis, s the sum of exponentials.

    Absolute, as for every implementation that takes the logarithm of s; of a log p near 0 it asks nothing.
    """
    p, away, mean_away = _weights(x)
    log_sum = -np.log(p.max(-1, keepdims=True))
    return 2 * u * (away + log_sum + mean_away + np.log2(p.shape[-1]) + 4)


def layer_norm(x: Any, u: Any, gain: Any = 1.0, shift: Any = 0.0, *, eps: float = 1e-5) -> np.ndarray:
    """u (k (log₂ n + 2) + (4 + log₂ n + k) |x̂|), k = max|x|/σ, times |γ|, and the roundings of γ x̂ + β.

    The mean is known to u log₂ n of the largest |x|, and so are all differences from it.
    """
    x = np.asarray(x, WIDE)
    centred = x - x.mean(-1, keepdims=True)
    sigma = np.sqrt((centred * centred).mean(-1, keepdims=True) + WIDE(eps))
    unit, k, levels = np.abs(centred / sigma), np.abs(x).max(-1, keepdims=True) / sigma, np.log2(x.shape[-1])
    return u * ((k * (levels + 2) + (6 + levels + k) * unit) * np.abs(gain) + np.abs(shift))


def attention(query: Any, key: Any, value: Any, u: Any, *, mask: Any = None, bias: Any = 0.0) -> np.ndarray:
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


def permuted_keys(query: Any, key: Any, value: Any, u: Any, **options: Any) -> np.ndarray:
    """Between two orders of the same keys: each is within the attention bound of the exact result."""
    return 2 * attention(query, key, value, u, **options)


def product(magnitude: Any, terms: int, u: Any) -> np.ndarray:
    """N u (|w|∗|x| + |b|) for a matrix product or a convolution, N = terms per output + 1.

    `magnitude` is the same product of the absolute values. Source: Higham (2002), eq. 3.5.
    """
    return (terms + 1) * u * np.asarray(magnitude, WIDE)


def reordered_sum(x: Any, u: Any, axis: int = -1) -> np.ndarray:
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
