"""Set convolution: a set of points becomes a function that can be asked anywhere.

    SetConv({x_n, y_n})(x) = Σ_n [1, y_n]ᵀ K(x − x_n)

The 1 in front makes a *density channel*, which tells "a 0 was observed" from "nothing was". A sum over a set knows no
order, and K knows only differences: the layer is invariant under permutations of the set and equivariant under
translations.

Source: Sivaraya (2023), eq. 10 and §4.2.1; Gordon et al. (2020), eq. 2 and §4.
Elsewhere: Gordon et al. divide the other channels by density + 1e-8 (`divide=True`), neuralprocesses by density + 1e-4
and only where asked to; both give the EQ kernel, each learns a length scale for each channel or one for all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.autograd import Parameter, exp
from refnp.autograd.blocks import floating
from refnp.autograd.primitives import primitive, raw
from refnp.layers.module import Module
from refnp.layers.set_convolutions.kernels import eq
from refnp.layers.set_convolutions.near import choose
from refnp.layers.set_convolutions.tiles import Pairs, all_in_order


@primitive
def set_convolution(
    target_x,
    context_x,
    context_y,
    length_scale,
    *,
    mask=None,
    kernel=eq,
    density=True,
    divide=False,
    eps=1e-8,
    method="auto",
):
    """z_m = Σ_n [1, y_n] k(|x_m − x_n|²/ℓ²): at each target, the points around it, weighted by how near they are.

    Shapes: target_x (..., M, D), context_x (..., N, D), context_y (..., N, C), with D = 1 to 3 and leading axes that
    broadcast; length_scale ℓ, in units of x, one number or one for each channel of the result, (C + 1,)
    → z (..., M, C + 1), the density first. With `density=False` there is no such channel: (..., M, C), ℓ (C,).
    `mask` (..., N), True where there is a point: sets of different sizes in one batch. What is masked is not
    looked at, NaN or infinity included, and gets gradient 0. An empty set gives 0.
    `divide` divides the other channels by density + `eps`, which makes of sums weighted means.
    `kernel`: see refnp/layers/set_convolutions/kernels.py.
    `method`: "dense" takes all pairs; "truncated" (1-D, EQ) those near enough to count, in time O(N + M) where one side
    is a grid, equal to rounding: refnp/layers/set_convolutions/near.py; "auto" the faster one. Memory is O(N + M).

    Raises ValueError for shapes that do not fit, D over 3, ℓ that is not positive and finite, `divide` without
    `density`, eps ≤ 0, or a `method` that cannot be; TypeError for a mask that is not boolean or a kernel not callable.

    VJP, with v_n = [1, y_n], s = |x_m − x_n|²/ℓ² and z̄ what is left of the gradient before the division:

        ȳ_n = Σ_m k(s) z̄_m                              x̄_m = Σ_n g_mn,   x̄_n = −Σ_m g_mn
        ℓ̄_c = −(2/ℓ) Σ_mn z̄_mc v_nc s k′(s)             g_mn = (2/ℓ²) (Σ_c z̄_mc v_nc) k′(s) (x_m − x_n)

    (each channel with its own ℓ). Division q_c = z_c/(ρ + ε), ρ = z_0: z̄_c = q̄_c/(ρ + ε),
    ρ̄ gains −Σ_c q̄_c q_c/(ρ + ε).
    """
    x, points, y, present, batch = checked_points(target_x, context_x, context_y, mask)
    dtype = np.result_type(x, points, y, length_scale)
    flags = 1 if density else 0  # how many channels say that there is a point
    scales = checked_scales("set_convolution", length_scale, flags, y.shape[-1], dtype)  # (C,)
    _check_options(kernel, density, divide, eps, method)
    values = np.concatenate([np.ones((*y.shape[:-1], flags), dtype), y], -1, dtype=dtype)  # (B, N, C)
    if present is not None:
        points, values = (np.where(present[..., None], a, 0) for a in (points, values))
    near = choose(method, kernel, x, points, values, present, scales)
    pairs = Pairs.of(x, points, values, scales, kernel, *(near or all_in_order(x, points)))
    z = pairs.convolved()  # (B, M, C)
    result, undivided = _divided(z, eps) if divide else (z, lambda bar: bar)

    def vjp(z_bar):
        bar = undivided(z_bar.reshape(z.shape))
        channels = functools.cache(lambda: pairs.channel_gradients(bar))
        positions = functools.cache(lambda: pairs.position_gradients(bar))

        def of_points(gradient):
            gradient = gradient if present is None else np.where(present[..., None], gradient, 0)
            return gradient.reshape(*batch, *gradient.shape[1:])

        return (
            lambda: positions()[0].reshape(*batch, *x.shape[1:]),
            lambda: of_points(positions()[1]),
            lambda: of_points(channels()[0][..., flags:]),
            lambda: channels()[1].sum() if not np.ndim(length_scale) else channels()[1],
        )

    return result.reshape(*batch, *result.shape[1:]), vjp


def _divided(z: np.ndarray, eps: float) -> tuple[np.ndarray, Callable]:
    """[ρ, z_c/(ρ + ε)] and its VJP."""
    room = z[..., :1] + eps
    means = z[..., 1:] / room

    def undivided(bar: np.ndarray) -> np.ndarray:
        z_bar = bar[..., 1:] / room
        density_bar = bar[..., :1] - (z_bar * means).sum(-1, keepdims=True)
        return np.concatenate([density_bar, z_bar], -1)

    return np.concatenate([z[..., :1], means], -1), undivided


def _check_options(kernel: Any, density: Any, divide: Any, eps: float, method: str) -> None:
    if not callable(kernel):
        raise TypeError(f"set_convolution: kernel is {kernel!r}; pass a function like set_convolution_kernels.eq")
    if divide and not density:
        raise ValueError("set_convolution: divide=True needs density=True; cut the density channel off afterwards")
    if divide and not eps > 0:
        raise ValueError(f"set_convolution: eps is {eps}; it must be positive, for an empty set has density 0")
    if method not in ("auto", "dense", "truncated"):
        raise ValueError(f"set_convolution: method is {method!r}; use 'auto', 'dense' or 'truncated'")


class SetConvolution(Module):
    """`set_convolution` with length scales of its own: exp of `log_length_scale`, so that they stay positive.

    One for each of the channels of the result, all `length_scale` at first, or with `shared=True` one for all together.
    With `learnable=False` it is a constant and no parameter.
    """

    def __init__(
        self,
        channels: int,
        length_scale: Any,
        *,
        learnable: bool = True,
        shared: bool = False,
        density: bool = True,
        divide: bool = False,
        eps: float = 1e-8,
        kernel: Callable = eq,
    ):
        if channels < 0 or not channels + density:
            raise ValueError(f"SetConvolution: channels is {channels}; there must be one, or the density")
        scales = checked_scales("SetConvolution", length_scale, int(density), channels, np.dtype(float))
        if shared and np.ndim(length_scale):
            raise ValueError("SetConvolution: shared=True needs one number for length_scale")
        start = np.log(scales[0] if shared else scales)
        self.log_length_scale = Parameter(start) if learnable else start
        self.learnable = learnable
        self.density, self.divide, self.eps, self.kernel = bool(density), divide, eps, kernel

    def __call__(self, target_x, context_x, context_y, *, mask=None, method="auto"):
        log_scale = self.log_length_scale
        if not self.learnable:
            log_scale = log_scale.astype(floating(raw(context_x)).real.dtype)
        return set_convolution(
            target_x,
            context_x,
            context_y,
            exp(log_scale),
            mask=mask,
            kernel=self.kernel,
            density=self.density,
            divide=self.divide,
            eps=self.eps,
            method=method,
        )


def checked_points(target_x: Any, context_x: Any, context_y: Any, mask: Any) -> tuple:
    """Targets (B, M, D), points (B, N, D), their values (B, N, C), mask (B, N) or None, and the axes in B."""
    x, points, y = floating(target_x), floating(context_x), floating(context_y)
    for name, array, last in (
        ("target_x", x, "dimensions"),
        ("context_x", points, "dimensions"),
        ("context_y", y, "channels"),
    ):
        if array.dtype.kind not in "fc":
            raise TypeError(f"set_convolution: {name} is {array.dtype}; pass numbers")
        if array.ndim < 2:
            raise ValueError(
                f"set_convolution: {name} has shape {array.shape}; it must be (..., points, {last}): add a last axis"
            )
    if x.shape[-1] != points.shape[-1]:
        raise ValueError(
            f"set_convolution: target_x has {x.shape[-1]} dimensions but context_x has {points.shape[-1]}; "
            "they must match"
        )
    if not 1 <= x.shape[-1] <= 3:
        raise ValueError(
            f"set_convolution: target_x has shape {x.shape}; the last axis holds 1 to 3 dimensions, not {x.shape[-1]}"
        )
    if points.shape[-2] != y.shape[-2]:
        raise ValueError(
            f"set_convolution: context_x has {points.shape[-2]} points but context_y has {y.shape[-2]}; they must match"
        )
    present = None if mask is None else np.asarray(raw(mask))
    if present is not None and present.dtype != bool:
        raise TypeError(f"set_convolution: mask is {present.dtype}; it must be boolean, True where there is a point")
    if present is not None and present.shape[-1:] != (points.shape[-2],):
        raise ValueError(
            f"set_convolution: mask has shape {present.shape}; its last axis must have {points.shape[-2]} points"
        )
    sets = [a.shape[:-2] for a in (x, points, y)] + ([] if present is None else [present.shape[:-1]])
    try:
        batch = np.broadcast_shapes(*sets)
    except ValueError:
        raise ValueError(
            f"set_convolution: the leading axes of target_x, context_x, context_y and mask, {sets}, do not broadcast"
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


__all__ = ["SetConvolution", "set_convolution"]


def __dir__() -> list[str]:
    return __all__
