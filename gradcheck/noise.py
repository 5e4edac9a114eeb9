r"""How irregular the values of f are: what rounding does to them, from the dtype that comes back and from neighbours.

A function of float64 arguments may compute in float32, or form a small difference of large numbers. Its values then
scatter by more than a rounding of float64, and a difference quotient of step h errs by as much, over h. Values at 17
points x + tⱼδv show it, once at equal distances and once at distances that grow. In their third differences

    Δ³f = Σᵢ wᵢ f(x + tᵢδv) = O(δ³ f‴) + noise of size √20 σ,   wᵢ ∝ 1 / Πₖ (tᵢ − tₖ), four points, Σ|wᵢ| = 8

a smooth function leaves δ³, and noise of standard deviation σ stays. At equal distances w is (−1, 3, −3, 1), exactly;
but there all steps may be whole roundings, so that nothing scatters. A single kink or jump enlarges up to four of them;
so the fifth largest of 14 is taken, which is 4σ. What falls as the points move together was the function, what stays is
noise. Where f does not move at all, because its arithmetic cannot tell such points apart, wider ones show stairs: it
moves, stands, and moves.

Source: Moré & Wild (2011) for noise from difference tables.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from gradcheck.precision import SAFETY, Array, roundoff

EVEN = np.arange(-8.0, 9.0)  # t, the places of the points
GROWING = np.sign(EVEN) * np.abs(EVEN) ** 1.25
SPACING = 2.0**-18  # of the points at first, as a part of x: δ³ is 6e-17
WIDER = (2.0**-15, 2.0**-12, 2.0**-9, 2.0**-6)  # each shows stairs of one to eight spacings
FAR = 0.11  # where the noise is measured once more, for values of another size
CLOSER = 1 / 261.3  # by which points that scatter move together
CLOSEST = 2.0**-50
KINK = 4  # third differences that a single kink or jump may enlarge
STAYS = 1 / 16  # noise keeps at least so much of its size as points move together; a smooth f keeps 6e-8, a kink 4e-3


class _Neighbours(NamedTuple):
    """What values at equally spaced points show of each output, all (m...).

    scatter    the fifth largest of |Δ³f|; `moves`, whether f does between many neighbours
    stair      the height of a stair, 0 where there are none; size, of the largest value
    """

    scatter: Array
    moves: Array
    stair: Array
    size: Array

    def or_more(self, other: "_Neighbours") -> "_Neighbours":
        """What either of them shows."""
        return _Neighbours(*(np.maximum(*both) for both in zip(self, other, strict=True)))


class Noise(NamedTuple):
    """How far rounding moves a value y of f: `relative` · |y|, and `absolute` at least, where terms cancel; (m...)."""

    relative: Array | float
    absolute: Array | float

    def at(self, y: Array) -> Array:
        """How far rounding moves these values."""
        return np.maximum(self.relative * np.abs(y), self.absolute)

    def is_coarse(self, precision: DTypeLike) -> bool:
        """Whether it is more than the steps of a computation in this precision leave."""
        return bool(np.any(np.asarray(self.relative) > SAFETY * roundoff(precision)))


def noise_of(f: Callable[[Array], Array], x: Array, v: Array, within: Array | float = 0.0) -> Noise:
    """The noise of f near x along v: at least a rounding in the dtype that comes back.

    Shapes: x and v (...), f: (...) → (m...) → (m...). v should be as long as x, or as the scale on which f changes.
    `within` is how large the numbers are that f adds up, where it is known: a rounding of these is no coarse one.
    35 evaluations; more where f bends sharply, does not move, or has more noise than its dtype.
    """
    here = np.asarray(f(x))
    u = max(roundoff(here.dtype), roundoff(np.asarray(x).dtype))
    absolute, size = _noise_at(f, x, v, u)
    if not np.any(coarse := absolute > SAFETY * u * np.maximum(size, within)):
        return Noise(u, absolute)
    there, size = _noise_at(f, x + FAR * v, v, u)
    return Noise(np.where(coarse & (size > 0), np.maximum(u, there / np.where(size > 0, size, 1)), u), absolute)


def _noise_at(f: Callable[[Array], Array], x: Array, v: Array, u: float) -> tuple[Array, Array]:
    """The noise of f at x, and the size of its values there, both (m...)."""
    spacing = SPACING
    near = _neighbours(f, x, v, spacing)
    size, clean = near.size, near.scatter <= SAFETY * u * near.size
    noise = np.maximum(u * size, np.maximum(near.stair, np.where(clean, near.scatter, 0)))
    still = ~near.moves & (near.stair == 0)
    for wide in WIDER if np.any(still) else ():
        stair = _neighbours(f, x, v, wide).stair
        noise, still = np.where(still, np.maximum(noise, stair), noise), still & (stair == 0)
    pending = near.moves & ~clean
    while np.any(pending) and spacing > CLOSEST:
        spacing *= CLOSER
        closer = _neighbours(f, x, v, spacing)
        stays = ~closer.moves | (closer.scatter >= STAYS * near.scatter)
        if np.any(pending & stays & closer.moves):  # or both are longer than what f does in between
            closest = _neighbours(f, x, v, CLOSEST)
            stays &= ~closest.moves | (closest.scatter >= STAYS * near.scatter)
        settled = pending & (stays | (closer.scatter <= SAFETY * u * closer.size))
        found = np.where(stays, np.maximum(near.scatter, closer.scatter), closer.scatter)
        noise = np.where(settled, np.maximum(noise, found), noise)
        near, pending = closer, pending & ~settled
    noise = np.where(pending, np.maximum(noise, near.scatter), noise)
    if np.any(told := ~still & (size > 0)) and np.any(still):  # saturated: its arithmetic is that of the others
        noise = np.where(still, np.maximum(noise, np.median(noise[told] / size[told]) * size), noise)
    return noise, size


def _neighbours(f: Callable[[Array], Array], x: Array, v: Array, spacing: float) -> _Neighbours:
    """What points at equal distances show, or at growing ones."""
    return _points(f, x, v, spacing * EVEN).or_more(_points(f, x, v, spacing * GROWING))


def _points(f: Callable[[Array], Array], x: Array, v: Array, places: Array) -> _Neighbours:
    with np.errstate(all="ignore"):
        values = np.stack([np.asarray(f(x + t * v)) for t in places])
        values = values.astype(np.result_type(values.dtype, np.float64))
        size = np.where(np.isfinite(values), np.abs(values), 0).max(axis=0)
        steps, third = np.abs(np.diff(values, axis=0)), np.abs(_third_differences(values, places))
        third = np.where(third <= 16 * roundoff(values.dtype) * size, 0, third)  # the sum's own rounding
    known = np.isfinite(third)  # not beside a pole, or outside the domain
    scatter = np.sort(np.where(known, third, np.inf), axis=0)[-1 - KINK]
    some = np.isfinite(scatter)
    rough = third != 0
    places = rough[0] + (rough[1:] & ~rough[:-1]).sum(axis=0)  # one for a kink or jump of a straight line
    scatter = np.where((scatter == 0) & (places > 1), np.where(known, third, 0).max(axis=0), scatter)
    moving = steps != 0
    changes = (moving[1:] != moving[:-1]).sum(axis=0)
    is_stairs = some & (changes >= 3)  # one for a kink, two for a jump
    largest_step = np.where(np.isfinite(steps), steps, 0).max(axis=0)
    return _Neighbours(
        np.where(some, scatter, 0.0),
        some & (moving.mean(axis=0) > 0.25),  # at a kink it may be flat on one side
        np.where(is_stairs, largest_step, 0.0),
        size,
    )


def _third_differences(values: Array, places: Array) -> Array:
    """Σᵢ wᵢ f(tᵢ) of each four neighbours, (14, m...) of values (17, m...)."""
    fours = np.lib.stride_tricks.sliding_window_view(places.astype(values.dtype), 4)  # (14, 4)
    apart = fours[:, :, None] - fours[:, None, :] + np.eye(4)
    weights = 1 / apart.prod(axis=-1)
    weights *= 8 / np.abs(weights).sum(axis=-1, keepdims=True)
    return sum(weights[:, i].reshape(-1, *[1] * (values.ndim - 1)) * values[i : len(values) - 3 + i] for i in range(4))
