"""Set convolution: a set of points becomes a function that has a value at any x.

    SetConv({x_m, y_m})(x) = Σ_m [1, y_m]ᵀ K(x − x_m)

The 1 in front makes a *density channel*, which tells "a 0 was observed" from "nothing was". A sum over a set has no
order, and K depends on differences only: the layer is invariant under permutations of the set and equivariant under
translations.

K is a function of the squared distance in length scales, s = |d|²/ℓ²: refnp/layers/radial.py.

Source: Sivaraya (2023), eq. 10, which leaves K open, and §4.2.1; Gordon et al. (2020), arXiv 1910.13556, eq. 2 and §4.
Elsewhere: Gordon et al. divide the other channels by density + 1e-8 (`divide=True`), neuralprocesses by density + 1e-4
and only where asked to; both have the EQ kernel, the first a length scale for each channel, the other one for all.
Words: layers/__init__.py.
Transcription: tests/transcriptions/set_convolution.py.   Kernel: refnp/kernels/set_convolution.py.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.autograd import Parameter, exp
from refnp.autograd.declaration import takes, takes_unchecked
from refnp.autograd.pages import page
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.kernels import set_convolution as kernels
from refnp.kernels.set_convolution import checked_scales
from refnp.layers.grid import Grid, GridOptions
from refnp.layers.module import Module
from refnp.layers.radial import eq, matern_32, matern_52
from refnp.numbers.parts import part
from refnp.numbers.words import constant


@page(
    "target_x (..., N, dx ≥ 1), context_x (..., M, dx), context_y (..., M, C), length_scale positive () or (S) "
    "→ (..., N, S); "
    "target_x grid (B, *L, dx), context_x (B, M, dx), context_y (B, M, C), length_scale positive () or (S), "
    "mask boolean (B, M)?; "
    "target_x (B, N, dx), context_x grid (B, *L, dx), context_y (B, C, *L), length_scale positive () or (S)",
    {"kernel": "function"},
    kernel=kernels.set_convolution,
    check=kernels.check,
    mask="boolean (..., M)? hides (context_x, context_y), True where there is a point",
    density="True or False",
    divide="True or False",
    eps="positive",
    method="auto | dense | truncated",
)
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
    """z_n = Σ_m [1, y_m] k(|x_n − x_m|²/ℓ²): at each target the points around it, weighted by how near they are.

    Shapes: target_x (..., N, dx), context_x (..., M, dx), context_y (..., M, C), with dx = 1 to 3 and leading axes that
    broadcast → z (..., N, C + 1), the density first.
    Targets or context may be a `Grid` instead; values on it have channels first, as convolutions take them:
    grid, context_x (B, M, dx), context_y (B, M, C) → z (B, C + 1, *lengths);
    target_x (B, N, dx), grid, context_y (B, C, *lengths) → z (B, N, C + 1).
    Positions beside a grid may be more precise than values: their distances from it have the precision of the values.

    length_scale: ℓ, in units of x, one number or one for each channel of the result, (C + 1,).
    mask: booleans (..., M), True where there is a point: sets of different sizes in one batch. What is masked has no
    influence, NaN or infinity included, and gets gradient 0. An empty set gives 0.
    kernel: `eq`, `matern_32`, `matern_52` (refnp/layers/radial.py), or a function of s = |d|²/ℓ² that returns k(s) and
    a function without arguments for the slope k′(s).
    density: with False there is no density channel: z has C channels, ℓ (C,).
    divide: divide the other channels by density + `eps`, so that sums become weighted means.
    method: "dense" takes all pairs; "truncated" (1-D, EQ) those near enough to count, in time O(N + M) where one side
    is a grid, equal to rounding; "auto" the faster one. Beside a `Grid` it is always those that count.
    Both are derived in refnp/kernels/set_convolution_near.py. Memory is O(N + M). float16 is computed in float32. The
    page has all pairs, whatever the method.

    Raises ValueError for shapes that do not fit, dx over 3, ℓ that is not positive and finite, `divide` without
    `density`, an eps that is not positive and finite, a `method` that cannot be, and beside a grid for other kernels
    than `eq`; TypeError for a mask that is not boolean, a kernel not callable, or two grids.

    VJP, with v_m = [1, y_m] and h the gradient of the sums before they are divided (ȳ without that of the density):

        ȳ_m = Σ_n k(s_nm) h_n                             x̄_n = Σ_m g_nm,   x̄_m = −Σ_n g_nm
        ℓ̄_c = −(2/ℓ) Σ_nm h_nc v_mc s k′(s)               g_nm = (2/ℓ²) (Σ_c h_nc v_mc) k′(s) (x_n − x_m)

    (each channel with its own ℓ). Division q_c = z_c/(ρ + ε), ρ = z_0: h_c = q̄_c/(ρ + ε),
    h_0 = ρ̄ − Σ_c q̄_c q_c/(ρ + ε).
    """
    present = True if mask is None else mask[..., None]  # True, or booleans (..., M, 1)
    y = channels_last(context_y, context_x)  # (..., M, dy)
    ones = np.ones_like(y.sum(-1, keepdims=True))  # (..., M, 1)   there is a point
    v = np.where(present, np.concatenate([ones, y], -1) if density else y, 0)  # (..., M, C)
    d = differences(target_x, context_x, present)  # (..., N, M, dx)   x_n − x_m
    s = (d**2).sum(-1)[..., None] / length_scale**2  # (..., N, M, S)   S = C, or 1 for one ℓ
    k, slope = kernel(s)  # (..., N, M, S)   k(s), and the function that gives k′(s)
    sums = (k * v[..., None, :, :]).sum(-2)  # (..., N, C)
    z, divided_vjp = divided(sums, eps) if divide else (sums, lambda bar: bar)

    def vjp(z_bar):
        h = divided_vjp(channels_last(z_bar, target_x))  # (..., N, C)
        v_bar = np.where(present, (k * h[..., :, None, :]).sum(-3), 0)  # (..., M, C)
        s_bar = h[..., :, None, :] * v[..., None, :, :] * slope()  # (..., N, M, C)
        d_bar = (s_bar / length_scale**2).sum(-1)[..., None] * d * 2  # (..., N, M, dx)
        y_bar = channels_first(v_bar[..., int(density) :], context_x)
        scale_bar = s_bar * s * -2 / length_scale  # (..., N, M, C)   the walk back sums over n and m
        target_bar, context_bar = d_bar.sum(-2), -d_bar.sum(-3)  # (..., N, dx), (..., M, dx)
        return target_bar, context_bar, y_bar, scale_bar

    return channels_first(z, target_x), vjp


@part
def differences(target_x, context_x, present):
    """x_n − x_m (..., N, M, dx); of points x and places (s + k)/p of a grid as (p x − s − k)/p.

    p x − s is how far a point is from the first place, in steps of the grid: `Grid.steps`.
    """
    grid = target_x if isinstance(target_x, Grid) else context_x if isinstance(context_x, Grid) else None
    if grid is not None:
        target_x, context_x = grid.steps(target_x), grid.steps(context_x)
    d = target_x[..., :, None, :] - np.where(present, context_x, 0)[..., None, :, :]
    return d if grid is None else d / constant(grid.points_per_unit)


@part
def divided(z, eps):
    """[ρ, z_c/(ρ + ε)] of sums z (..., N, C) with the density ρ in front, and its VJP."""
    shifted = z[..., :1] + constant(eps)  # (..., N, 1)
    means = z[..., 1:] / shifted

    def vjp(bar):
        rest = bar[..., 1:] / shifted
        density_bar = bar[..., :1] - (rest * means).sum(-1, keepdims=True)
        z_bar = np.concatenate([density_bar, rest], -1)
        return z_bar

    return np.concatenate([z[..., :1], means], -1), vjp


def channels_last(y, places):
    """Values (B, C, *L) on a grid as rows (B, M, C); those of points as they are."""
    if not isinstance(places, Grid):
        return y
    return y.reshape(*y.shape[:2], places.size).swapaxes(1, 2)


def channels_first(rows, places):
    """Rows (B, N, C) of a grid as (B, C, *L); those of points as they are."""
    if not isinstance(places, Grid):
        return rows
    return rows.swapaxes(1, 2).reshape(len(rows), rows.shape[-1], *places.lengths)


class SetConvolution(Module):
    """`set_convolution` with length scales of its own: exp of `log_length_scale`, so that they stay positive.

    channels: C, those of `context_y`.
    length_scale: ℓ at first, in units of x: one number, or one for each channel of the result.
    learnable: with False the length scale is frozen: stored with the model, in the precision of the values when used,
        without gradient. shared: one length scale for all channels together.
    density, divide, eps, kernel, and when called `mask` and `method`: those of the function.
    Raises ValueError for a length scale that is not positive and finite or has another shape, and without any channel.
    """

    @takes(
        "",
        channels="whole ≥ 0",
        **dict.fromkeys(("learnable", "shared", "density", "divide"), "True or False"),
        eps="positive",
        kernel="function",
        needs="channels > 0 or density, pass 1 or more channels, or density=True",
    )
    def __init__(
        self,
        channels: int,
        length_scale: ArrayLike,
        *,
        learnable: bool = True,
        shared: bool = False,
        density: bool = True,
        divide: bool = False,
        eps: float = 1e-8,
        kernel: Callable = eq,
    ):
        scales = checked_scales("SetConvolution", length_scale, int(density), channels, np.dtype(float))
        if shared and np.ndim(length_scale):
            raise ValueError("SetConvolution: shared=True needs one number for length_scale")
        start = np.log(scales[0] if shared else scales)
        self.log_length_scale = Parameter(start, trainable=learnable)
        self.learnable = learnable
        self.options: dict[str, Any] = {"density": density, "divide": divide, "eps": eps, "kernel": kernel}

    @takes_unchecked(
        "target_x (..., N, dx), context_x (..., M, dx), context_y (..., M, channels) → (..., N, S)",
        mask="boolean (..., M)? hides (context_x, context_y)",
    )
    def __call__(
        self,
        target_x: ArrayLike | Grid,
        context_x: ArrayLike | Grid,
        context_y: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        method: str = "auto",
    ) -> Array | Tensor:
        scale = self.length_scale(context_y)
        return set_convolution(target_x, context_x, context_y, scale, mask=mask, method=method, **self.options)

    def length_scale(self, context_y: ArrayLike) -> Array | Tensor:
        """ℓ; a frozen one in the precision of the values, unless `bind` has put in its place what has a gradient."""
        log_scale = self.log_length_scale
        if self.learnable or log_scale.dtype.kind == "c" or getattr(log_scale, "requires_grad", False):
            return exp(log_scale)
        values = np.asarray(raw(context_y))
        return np.exp(raw(log_scale)).astype(values.real.dtype if values.dtype.kind in "fc" else float)


__all__ = ["Grid", "GridOptions", "SetConvolution", "eq", "matern_32", "matern_52", "set_convolution"]


def __dir__() -> list[str]:
    return __all__
