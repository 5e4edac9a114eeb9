"""What `set_convolution` accepts: shapes that fit, boolean masks, positive length scales; and errors about the rest."""

from __future__ import annotations

from typing import Any

import numpy as np

from refnp.autograd.blocks import floating
from refnp.autograd.primitives import raw

NAME = "set_convolution"


def checked_points(target_x: Any, context_x: Any, context_y: Any, mask: Any) -> tuple:
    """Targets (B, M, D), points (B, N, D), their values (B, N, C), mask (B, N) or None, and the axes in B."""
    x, points, y = floating(target_x), floating(context_x), floating(context_y)
    for name, array, last in (
        ("target_x", x, "dimensions"),
        ("context_x", points, "dimensions"),
        ("context_y", y, "channels"),
    ):
        if array.dtype.kind not in "fc":
            raise TypeError(f"{NAME}: {name} is {array.dtype}; pass numbers")
        if array.ndim < 2:
            raise ValueError(
                f"{NAME}: {name} has shape {array.shape}; it must be (..., points, {last}): add a last axis"
            )
    if x.shape[-1] != points.shape[-1]:
        raise ValueError(
            f"{NAME}: target_x has {x.shape[-1]} dimensions but context_x has {points.shape[-1]}; they must match"
        )
    if not 1 <= x.shape[-1] <= 3:
        raise ValueError(
            f"{NAME}: target_x has shape {x.shape}; the last axis holds 1 to 3 dimensions, not {x.shape[-1]}"
        )
    if points.shape[-2] != y.shape[-2]:
        raise ValueError(
            f"{NAME}: context_x has {points.shape[-2]} points but context_y has {y.shape[-2]}; they must match"
        )
    present = None if mask is None else np.asarray(raw(mask))
    if present is not None and present.dtype != bool:
        raise TypeError(f"{NAME}: mask is {present.dtype}; it must be boolean, True where there is a point")
    if present is not None and present.shape[-1:] != (points.shape[-2],):
        raise ValueError(f"{NAME}: mask has shape {present.shape}; its last axis must have {points.shape[-2]} points")
    sets = [a.shape[:-2] for a in (x, points, y)] + ([] if present is None else [present.shape[:-1]])
    try:
        batch = np.broadcast_shapes(*sets)
    except ValueError:
        raise ValueError(
            f"{NAME}: the leading axes of target_x, context_x, context_y and mask, {sets}, do not broadcast"
        ) from None

    def flat(array: np.ndarray, axes: int) -> np.ndarray:
        own = array.shape[array.ndim - axes :]
        return np.broadcast_to(array, batch + own).reshape(int(np.prod(batch, dtype=int)), *own)

    return flat(x, 2), flat(points, 2), flat(y, 2), None if present is None else flat(present, 1), batch


def checked_scales(name: str, length_scale: Any, flags: int, channels: int, dtype: Any) -> np.ndarray:
    """One length scale for each channel of the result, (flags + channels,) in `dtype`; flags is 1 with density or 0."""
    given = np.asarray(length_scale)
    count = flags + channels
    if given.shape not in ((), (count,)):
        parts = f"{channels} channels and the density" if flags else f"{channels} channels"
        raise ValueError(
            f"{name}: length_scale has shape {given.shape}; it must be one number or ({count},), for {parts}"
        )
    with np.errstate(over="ignore", under="ignore"):
        scales = given.astype(dtype)
    least = np.finfo(dtype).tiny
    if not (np.isfinite(scales).all() and (scales.real >= least).all()):
        raise ValueError(
            f"{name}: length_scale is {given}; it must be positive and finite (at least {least:.2g} in {scales.dtype})"
        )
    return np.broadcast_to(scales, (count,))
