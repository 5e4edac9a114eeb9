"""Whether an operation that is not refnp's carries a complex step: its value, and its rule as well.

np.abs, np.var, .real and conj take |z| or lose the imaginary part, and say nothing. Beside larger terms the whole
derivative may seem right; so each operation that is not refnp's is compared alone, when the step comes to it:

    ⟨u, J v⟩ = ⟨Jᵀu, v⟩                               with seeded u, of the value
    ⟨t, Im (Jᵀu)(x + i h v)/h⟩ = ⟨t, D(Jᵀu) v⟩         with seeded t, of the rule, where a second derivative is taken

The right side of the second line is a difference of Jᵀu at real numbers beside x. Both hold to half of the digits at
least, or something is not analytic. Where numbers are not finite nothing is said.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.numbers.duals import plain

STEP = 1e-100
LOST = 1e-200  # a derivative below this is less than the smallest number once it is multiplied by the step
APART = (1e-5, 1e-7)  # of the numbers: how far the points of a difference lie from x; a kink may lie between them
OF_DIFFERENCES = 1e-4  # of the terms: what they agree to at least


def near(a: Any, b: Any, size: Any, half: float) -> bool:
    """Whether a and b differ by at most `half` times `size`, or are the same ∞ or NaN."""
    a, b, size = np.asarray(a), np.asarray(b), np.asarray(size)
    with np.errstate(invalid="ignore", under="ignore"):
        close = np.abs(a - b) <= half * size + LOST
    return bool((close & np.isfinite(b) | (a == b) | (np.isnan(a) & np.isnan(b))).all())


def refuse_what_is_not(function: Callable, arrays: list, options: dict, value: Any, vjp: Callable, again: bool) -> None:
    """TypeError that names the function if its value, or if a derivative is taken `again` its rule, is not analytic."""
    moved = [k for k, array in enumerate(arrays) if np.iscomplexobj(array)]
    if not moved:
        return
    rng = np.random.default_rng(0)
    values = [np.asarray(plain(y)) for y in (value if isinstance(value, tuple) else (value,))]
    bars = [rng.uniform(1, 2, y.shape) * rng.choice([-1, 1], y.shape) for y in values]
    tangents = [np.asarray(plain(arrays[k])).imag / STEP for k in moved]

    def gradients(rule: Callable) -> list:
        found = rule(*bars)
        found = [found[k]() if callable(found[k]) else found[k] for k in moved]
        return [np.broadcast_to(plain(g), np.shape(v)) for g, v in zip(found, tangents, strict=True)]

    with np.errstate(all="ignore"):
        slopes = gradients(vjp)
        left = np.concatenate([(u * np.imag(y)).ravel() / STEP for u, y in zip(bars, values, strict=True)])
        right = np.concatenate([(np.real(g) * v).ravel() for g, v in zip(slopes, tangents, strict=True)])
        size = np.abs(left).sum() + np.abs(right).sum()
        if np.isfinite(size) and not near(left.sum(), right.sum(), size, np.finfo(left.dtype).eps ** 0.5):
            raise TypeError(f"{function.__name__}: {_REMEDY.format('its value')}")
        if not again:
            return
        stepped = np.concatenate([np.imag(g).ravel() / STEP for g in slopes])
        for apart in APART:
            ends = []
            for side in (-1, 1):
                at = [np.real(plain(a)) if np.iscomplexobj(a) else a for a in arrays]
                for k, v in zip(moved, tangents, strict=True):
                    at[k] = at[k] + side * apart * v
                found = gradients(function(*at, **options)[1])
                ends.append(np.concatenate([np.real(g).ravel() for g in found]))
            difference = (ends[1] - ends[0]) / (2 * apart)
            noise = 64 * np.finfo(difference.dtype).eps * np.abs(ends).sum() / apart
            size = OF_DIFFERENCES * (np.abs(stepped).sum() + np.abs(difference).sum()) + noise
            if not np.isfinite(size) or np.abs(stepped - difference).max(initial=0.0) <= size:
                return
        raise TypeError(f"{function.__name__}: {_REMEDY.format('its rule')}")


_REMEDY = (
    "not analytic, or its rule is wrong; a complex step through {} gives another derivative (np.abs, np.var, .real, "
    "conj); write it with refnp's operations, or use vjp or jacobian"
)
