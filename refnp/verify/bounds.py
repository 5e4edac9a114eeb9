"""How far a correct implementation may be from the exact result: bounds derived from rounding, none tuned by hand.

`of` gives the bound on the output and on every gradient of any equation in `refnp.verify.layers`, by running error
analysis (`refnp.numbers.rounding`, where it stands what is assumed); it is what `refnp verify` judges by. There are no
closed forms beside it: those in print leave out what correct implementations do, such as exp with an error of 4 units,
sums in sequence, or what underflows. `left_out` bounds what the truncated form of a set convolution leaves out, which
adds to rounding.

Element by element in units in the last place, even a good result is thousands of units off where terms cancel; so ulps
are reported, and bounds judge. A fixed tolerance is too wide for some inputs and too narrow for others.

Sources: Higham (2002), ch. 2 to 4; Blanchard, Higham & Higham (2021) (softmax).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from refnp.autograd.tensor import ArrayLike
from refnp.kernels.set_convolution_near import reach
from refnp.numbers.precision import policy
from refnp.numbers.rounding import WIDE, arithmetic, exact, tolerance


def unit_roundoff(dtype: DTypeLike) -> np.longdouble:
    """u, half the distance from 1 to the next number: 6e-8 in float32, 1.1e-16 in float64."""
    return WIDE(np.finfo(dtype).eps) / 2


def of(
    equation: Callable,
    arrays: Sequence[np.ndarray],
    cotangent: ArrayLike | None = None,
    *,
    dtype: DTypeLike | None = None,
    blocked: bool = False,
    **options: Any,
) -> tuple[np.ndarray, ...]:
    """The bound on the output of an equation and, given a cotangent, on the gradient of every argument.

    Computation in `dtype` (that of the first array unless told), inputs taken for exact; `blocked` for implementations
    that add up the rows of a mean in blocks, as refnp does, or else in any order. Shapes: those of the results.
    """
    dtype = np.asarray(arrays[0]).dtype if dtype is None else dtype
    judged = arithmetic(dtype, blocked=blocked)
    y, pullback = equation(*(exact(array, judged) for array in arrays), **options)
    results = (y,) if cotangent is None else (y, *pullback(exact(cotangent, judged)))
    return tuple(tolerance(result, dtype) for result in results)


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


def deviation(
    given: np.ndarray, right: np.ndarray, allowed: np.ndarray, dtype: DTypeLike
) -> tuple[float, float, tuple[np.intp, ...] | None]:
    """The worst error over bound, the worst error in units in the last place, and the index of the first.

    NaN for a NaN is right, and so is an infinity for the same one; any other NaN or infinity is infinitely wrong. In
    formats narrower than float32 an infinite bound says that a number left the format's range: then anything is right.
    """
    form = policy(dtype).stored
    given, right = np.asarray(given, WIDE), np.asarray(right, WIDE)
    if not right.size:
        return 0.0, 0.0, None
    error, ratio = errors_over_bounds(given, right, allowed, dtype)
    with np.errstate(all="ignore"):
        size = np.clip(np.where(np.isfinite(right), np.abs(right), 1), 2.0**form.least, form.largest)
        unit = 2 * form.u * np.exp2(np.floor(np.log2(size)))
        ulps = error / unit
    worst = np.unravel_index(ratio.argmax(), ratio.shape)
    return float(ratio[worst]), float(ulps.max()), worst


def has_bound(right: np.ndarray, allowed: np.ndarray, largest: float, dtype: DTypeLike) -> np.ndarray:
    """Whether each element is judged: not if any number up to the `largest` that is given or right is within its bound.

    NaN or an infinity that is right is to be met, but for formats narrower than float32, where an infinite bound covers
    these too.
    """
    return (allowed <= largest) | (~np.isfinite(right) & (not policy(dtype).narrow))


def errors_over_bounds(
    given: np.ndarray, right: np.ndarray, allowed: np.ndarray, dtype: DTypeLike
) -> tuple[np.ndarray, np.ndarray]:
    """The error of each element, and the error over its bound, as `deviation` counts them."""
    with np.errstate(all="ignore"):
        error = np.abs(given - right)
        finite = np.isfinite(error).all()
        if not finite:
            same = (given == right) | (np.isnan(given) & np.isnan(right))
            error = np.where(same, 0, np.where(np.isnan(error), np.inf, error))
        ratio = np.where(error == 0, 0, error / allowed)
        if not finite:
            ratio = np.where(np.isnan(ratio), np.inf, ratio)  # inf/inf: the bound is no excuse for an infinity
        return error, np.where(np.isinf(allowed), 0, ratio) if policy(dtype).narrow else ratio


def rounding_of(right: np.ndarray, wide: np.ndarray) -> np.ndarray:
    """What was lost when the reference was rounded to `wide`; nothing where it is not finite."""
    finite = np.isfinite(right) & np.isfinite(wide)
    return np.where(finite, np.abs(np.where(finite, right, 0) - np.where(finite, wide, 0)), 0)


def upwards(bound: np.ndarray) -> np.ndarray:
    """A bound in float64, never smaller than it was."""
    near = bound.astype(np.float64)
    return np.where(near < bound, np.nextafter(near, np.inf), near)
