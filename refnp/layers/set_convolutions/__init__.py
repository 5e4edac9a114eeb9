"""Set convolution: a set of points becomes a function that has a value at any x.

    SetConv({x_m, y_m})(x) = Σ_m [1, y_m]ᵀ K(x − x_m)

The 1 in front makes a *density channel*, which tells "a 0 was observed" from "nothing was". A sum over a set has no
order, and K depends on differences only: the layer is invariant under permutations of the set and equivariant under
translations.

For targets x_n, context points x_m that carry v_m = [1, y_m], and a length scale ℓ, one number that is linear in each
of h, k and v,

    T = Σ_nm h_n k(s_nm) v_m,        s_nm = |u_nm|²,   u_nm = (x_n − x_m)/ℓ

gives everything: its derivative with respect to h is the set convolution at the targets, that with respect to v the
same sum taken over n, which goes back to the context points. So each is the gradient of the other. Beside them there
are only ∂T/∂x and ∂T/∂ℓ. `Pairs` has these sums for all pairs, in a few lines. They are all there is for few pairs; for
many, and on a grid, near.py derives which pairs count and tiles.py sums them.

Source: Sivaraya (2023), eq. 10 and §4.2.1; Gordon et al. (2020), arXiv 1910.13556, eq. 2 and §4.
Elsewhere: Gordon et al. divide the other channels by density + 1e-8 (`divide=True`), neuralprocesses by density + 1e-4
and only where asked to; both give the EQ kernel, each learns a length scale for each channel or one for all.
Transcription: tests/transcriptions/set_convolution.py.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike

from refnp.autograd import Parameter, exp
from refnp.autograd.declaration import takes
from refnp.autograd.primitives import primitive, raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.layers.module import Module
from refnp.layers.set_convolutions.grid import Grid, GridOptions
from refnp.layers.set_convolutions.kernels import eq, matern_32, matern_52
from refnp.layers.set_convolutions.near import TILE_BYTES, portions_of
from refnp.layers.set_convolutions.tiles import Tiles, Windows, ordered
from refnp.numbers.arrays import floating
from refnp.numbers.duals import as_array
from refnp.numbers.summation import sum_of_products

FARTHEST = 1e9  # length scales beyond which a distance counts as this one, so that its square does not overflow


@primitive
@takes(
    "target_x (..., N, dx ≥ 1), context_x (..., M, dx), context_y (..., M, C), length_scale positive () or (S) "
    "→ (..., N, S); "
    "target_x grid (B, *L, dx), context_x (B, M, dx), context_y (B, M, C), length_scale positive () or (S), "
    "mask boolean (B, M)?; "
    "target_x (B, N, dx), context_x grid (B, *L, dx), context_y (B, C, *L), length_scale positive () or (S)",
    mask="boolean (..., M)? hides (context_x, context_y), True where there is a point",
    kernel="function",
    **dict.fromkeys(("density", "divide"), "True or False"),
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
    Targets or context may be a `Grid` instead, a function on which has its channels first, as convolutions take them:
    grid, context_x (B, M, dx), context_y (B, M, C) → z (B, C + 1, *lengths);
    target_x (B, N, dx), grid, context_y (B, C, *lengths) → z (B, N, C + 1).
    Positions beside a grid may be more precise than values: their distances from it have the precision of the values.

    length_scale: ℓ, in units of x, one number or one for each channel of the result, (C + 1,).
    mask: booleans (..., M), True where there is a point: sets of different sizes in one batch. What is masked has no
    influence, NaN or infinity included, and gets gradient 0. An empty set gives 0.
    kernel: `eq`, `matern_32`, `matern_52` of refnp.layers.set_convolutions, or a function of s = |d|²/ℓ² that returns
    k(s) and a function without arguments for the slope k′(s).
    density: with False there is no density channel: z has C channels, ℓ (C,).
    divide: divide the other channels by density + `eps`, which makes weighted means of sums.
    method: "dense" takes all pairs; "truncated" (1-D, EQ) those near enough to count, in time O(N + M) where one side
    is a grid, equal to rounding; "auto" the faster one. Beside a `Grid` it is always those that count.
    Both are derived in refnp/layers/set_convolutions/near.py. Memory is O(N + M). float16 is computed in float32.

    Raises ValueError for shapes that do not fit, dx over 3, ℓ that is not positive and finite, `divide` without
    `density`, an eps that is not positive and finite, a `method` that cannot be, and beside a grid for other kernels
    than `eq`; TypeError for a mask that is not boolean, a kernel not callable, or two grids.

    VJP, with v_m = [1, y_m] and h the gradient of what is divided:

        ȳ_m = Σ_n k(s_nm) h_n                             x̄_n = Σ_m g_nm,   x̄_m = −Σ_n g_nm
        ℓ̄_c = −(2/ℓ) Σ_nm h_nc v_mc s k′(s)               g_nm = (2/ℓ²) (Σ_c h_nc v_mc) k′(s) (x_n − x_m)

    (each channel with its own ℓ). Division q_c = z_c/(ρ + ε), ρ = z_0: h_c = q̄_c/(ρ + ε),
    h_0 = ρ̄ − Σ_c q̄_c q_c/(ρ + ε).
    """
    if divide and not density:
        raise ValueError("set_convolution: divide=True needs density=True; cut the density channel off afterwards")
    onto, off = isinstance(target_x, Grid), isinstance(context_x, Grid)
    checked = _beside_a_grid if onto or off else _anywhere
    x, points, y, present, batch, dtype = checked(target_x, context_x, context_y, length_scale, mask, kernel, method)
    axis = 1 if off else -1  # of the channels of y
    flags = int(density)  # how many channels say that there is a point
    wide = np.dtype(np.float32) if dtype == np.float16 else dtype  # in which squares and ε are representable
    scales = checked_scales("set_convolution", length_scale, flags, y.shape[axis], wide)  # (C,)
    ones = np.ones((len(y), flags, *y.shape[2:]) if off else (*y.shape[:-1], flags), y.dtype)
    v = np.ascontiguousarray(np.concatenate([ones, y], axis, dtype=np.result_type(y, scales)))
    if present is not None:
        points, v = (np.where(present[..., None], a, 0) for a in (points, v))

    pairs: Any = _pairs(x, points, v, present, scales, kernel, method, eps if divide else 1.0)
    z = pairs.convolved()
    result, undivided = _divided(z, eps, 1 if onto else -1) if divide else (z, lambda bar: bar)

    def vjp(z_bar):
        h = undivided(z_bar.reshape(z.shape))
        h = as_array(h, np.result_type(h, v), order="C")
        channels = functools.cache(lambda: pairs.channel_gradients(h))
        positions = functools.cache(lambda: pairs.position_gradients(h))

        def of_points(gradient):
            gradient = gradient if present is None else np.where(present[..., None], gradient, 0)
            return gradient.reshape(*batch, *gradient.shape[1:])

        return (
            lambda: positions()[0].reshape(*batch, *x.shape[1:]),
            lambda: of_points(positions()[1]),
            lambda: of_points(np.split(channels()[0], [flags], axis)[1]),
            lambda: channels()[1] if np.ndim(length_scale) else channels()[1].sum(),
        )

    return result.reshape(*batch, *result.shape[1:]).astype(np.result_type(y, dtype), copy=False), vjp


class Pairs(NamedTuple):
    """All pairs of targets x (dx, B, N) and context points (dx, B, M) with v (B, M, C), as the equations have them.

    `scales` holds (ℓ, its channels): channels with one length scale share their weights and one matrix product.
    `far`: some distance may exceed FARTHEST.
    """

    x: Array
    points: Array
    v: Array
    scales: list[tuple[Any, Any]]
    kernel: Callable
    far: bool

    def convolved(self) -> Array:
        """∂T/∂h: z_n = Σ_m k(s_nm) v_m, (B, N, C)."""
        z = np.empty((*self.x.shape[1:], self.v.shape[-1]), self.v.dtype)
        for scale, c in self.scales:
            _, _, k, _ = self.weights(scale)
            z[..., c] = k @ self.v[..., c]
        return z

    def channel_gradients(self, h: Array) -> tuple[Array, Array]:
        """∂T/∂v: v̄_m = Σ_n k(s_nm) h_n, (B, M, C), and from ds/dℓ = −2s/ℓ for each channel c, (C,),

        ∂T/∂ℓ_c = −(2/ℓ) Σ_n h_nc Σ_m s_nm k′(s_nm) v_mc.
        """
        v_bar, scale_bar = np.empty(self.v.shape, h.dtype), np.empty(self.v.shape[-1:], h.dtype)
        for scale, c in self.scales:
            _, s, k, slope = self.weights(scale)
            v_bar[..., c] = k.swapaxes(-1, -2) @ h[..., c]
            s *= slope()
            scale_bar[c] = sum_of_products("bnc,bnc->c", h[..., c], s @ self.v[..., c]) * (-2 / scale)
        return v_bar, scale_bar

    def position_gradients(self, h: Array) -> tuple[Array, Array]:
        """∂T/∂x_n = Σ_m g_nm, (B, N, dx), and ∂T/∂x_m = −Σ_n g_nm, (B, M, dx), from ds/dx_n = 2u/ℓ = −ds/dx_m:

        g_nm = (2/ℓ) (Σ_c h_nc v_mc) k′(s_nm) u_nm.
        """
        x_bar, points_bar = (np.zeros((*a.shape[1:], len(a)), h.dtype) for a in (self.x, self.points))
        for scale, c in self.scales:
            u, _, _, slope = self.weights(scale)
            g = h[..., c] @ self.v[..., c].swapaxes(-1, -2)  # (B, N, M)
            g *= slope()
            for d, along in enumerate(u):
                x_bar[..., d] += sum_of_products("bnm,bnm->bn", g, along) * (2 / scale)
                points_bar[..., d] += sum_of_products("bnm,bnm->bm", g, along) * (-2 / scale)
        return x_bar, points_bar

    def weights(self, scale: np.number) -> tuple[Array, Array, Array, Callable]:
        """u (dx, B, N, M), s (B, N, M), k(s), and the function for the slope k′(s), for one length scale.

        From differences, for |x_n|² + |x_m|² − 2 x_n·x_m cancels, and a common shift would not drop out exactly.
        """
        if self.far:
            u = far_steps(self.x, self.points, scale)
        else:
            u = self.x[..., :, None] - self.points[..., None, :]
            u /= scale
        s = u[0] * u[0]
        for along in u[1:]:
            s += along * along
        found = self.kernel(s)
        if not isinstance(found, tuple) or len(found) != 2 or not callable(found[1]):
            raise TypeError("set_convolution: kernel must return (k(s), function for the slope k′(s)); see `eq`")
        return u, s, *found

    def part(self, sets: slice, targets: slice, points: slice) -> Self:
        """Some of the pairs."""
        x, there, v = self.x[:, sets, targets], self.points[:, sets, points], self.v[sets, points]
        return type(self)(x, there, v, self.scales, self.kernel, self.far)


class SetConvolution(Module):
    """`set_convolution` with length scales of its own: exp of `log_length_scale`, so that they stay positive.

    channels: C, those of `context_y`.
    length_scale: ℓ at first, in units of x: one number, or one for each channel of the result.
    learnable: with False the length scale is frozen: stored with the model, in the precision of the values when used,
        without gradient. shared: one length scale for all channels together.
    density: with False there is no density channel. divide: divide the other channels by density + `eps`.
    kernel: `eq`, `matern_32`, `matern_52`, or a function s = |d|²/ℓ² → (k(s), function for the slope k′(s)).
    When called: `mask` (..., M) is True where there is a point; `method` is "auto", "dense" or "truncated".
    Raises ValueError for a length scale that is not positive and finite or has another shape, and without any channel.
    """

    @takes(
        "",
        channels="whole ≥ 0",
        **dict.fromkeys(("learnable", "shared", "density", "divide"), "True or False"),
        eps="positive",
        kernel="function",
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
        if not channels + density:
            raise ValueError(f"SetConvolution: channels is {channels}; there must be one, or the density")
        scales = checked_scales("SetConvolution", length_scale, int(density), channels, np.dtype(float))
        if shared and np.ndim(length_scale):
            raise ValueError("SetConvolution: shared=True needs one number for length_scale")
        start = np.log(scales[0] if shared else scales)
        self.log_length_scale = Parameter(start, trainable=learnable)
        self.learnable = learnable
        self.options: dict[str, Any] = {"density": density, "divide": divide, "eps": eps, "kernel": kernel}

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


# Below: what extreme inputs need, and what is accepted.


def far_steps(x: Array, points: Array, scale: np.number) -> Array:
    """u = (x_n − x_m)/ℓ, (dx, B, N, M), at most FARTHEST on an axis, for points so far apart that u² overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        u = (x[..., :, None] - points[..., None, :]) / scale
        return np.where(np.abs(u.real) > FARTHEST, np.copysign(FARTHEST, u.real), u)


def _divided(z: Array, eps: float, axis: int) -> tuple[Array, Callable]:
    """[ρ, z_c/(ρ + ε)] along the axis of the channels, and its VJP."""
    density, sums = np.split(z, [1], axis)
    divisor = density + eps
    means = sums / divisor

    def undivided(bar: Array) -> Array:
        density_bar, means_bar = np.split(bar, [1], axis)
        sums_bar = means_bar / divisor
        return np.concatenate([density_bar - (sums_bar * means).sum(axis, keepdims=True), sums_bar], axis)

    return np.concatenate([density, means], axis), undivided


def _pairs(x, points, v, present, scales, kernel, method, eps) -> Pairs | Tiles | Windows:
    """The sums over pairs of x (B, N, dx) and points (B, M, dx): all at once if they are few, otherwise in tiles; in
    windows if x or points are a `Grid`.
    """
    if isinstance(x, Grid):
        return Windows(points, v, scales, x, True, eps)
    if isinstance(points, Grid):
        return Windows(x, v, scales, points, False, eps)
    few = len(x) * x.shape[1] * points.shape[1] * v.itemsize <= TILE_BYTES and method != "truncated"
    portions = None if few else portions_of(method, kernel, x, points, v, present, scales)
    if portions is not None:
        x, points, v = ordered(x, portions.target_order), *(ordered(a, portions.point_order) for a in (points, v))
    x, points = (np.ascontiguousarray(np.moveaxis(a, -1, 0), v.dtype) for a in (x, points))
    distinct, which = np.unique(scales, return_inverse=True)
    groups: list[tuple[Any, Any]] = [(scale, np.flatnonzero(which == i)) for i, scale in enumerate(distinct)]
    with np.errstate(over="ignore"):
        farthest = 2 * np.max([np.abs(a.real).max(initial=0) for a in (x, points)]) / distinct.real.min(initial=np.inf)
    groups = groups if len(groups) != 1 else [(distinct[0], slice(None))]
    pairs = Pairs(x, points, v, groups, kernel, not farthest < FARTHEST)
    return pairs if portions is None else Tiles(pairs, portions)


def _anywhere(target_x, context_x, context_y, length_scale, mask, kernel, method) -> tuple:
    """Targets (B, N, dx), points (B, M, dx), values (B, M, C), mask (B, M) or None, the axes in B, and the dtype."""
    arrays = [a if a.dtype.kind in "fc" else floating(a) for a in (target_x, context_x, context_y)]
    dimensions = arrays[0].shape[-1]
    if dimensions > 3:
        raise ValueError(f"set_convolution: target_x has {dimensions} dimensions, along its last axis; it may have 3")
    fronts = {a.shape[:-2] for a in arrays} | (set() if mask is None else {mask.shape[:-1]})
    batch = fronts.pop() if len(fronts) == 1 else np.broadcast_shapes(*fronts)
    arrays = [a if a.shape[:-2] == batch else np.broadcast_to(a, batch + a.shape[-2:]) for a in arrays]
    x, points, y = (a.reshape(math.prod(batch), *a.shape[-2:]) for a in arrays)
    if mask is not None:
        mask = np.broadcast_to(mask, batch + mask.shape[-1:]).reshape(len(x), mask.shape[-1])
    return x, points, y, mask, batch, np.result_type(x, points, y, length_scale)


def _beside_a_grid(target_x, context_x, context_y, length_scale, mask, kernel, method) -> tuple:
    """The same where targets or points are a `Grid`, which stays one; positions are distances from its first place."""
    onto = isinstance(target_x, Grid)
    if kernel is not eq or method == "dense":
        raise ValueError(
            "set_convolution: beside a Grid the kernel is eq, and only pairs that count are summed; for all pairs, or "
            "another kernel, pass the places as points"
        )
    if mask is not None and not onto:
        raise ValueError("set_convolution: mask says which points are there; all places of a Grid are")
    grid, x = (target_x, context_x) if onto else (context_x, target_x)
    x, y = floating(x), floating(context_y)
    away = grid.distances(x, np.finfo(np.result_type(y, length_scale)).dtype)
    present = None if mask is None or mask.all() else mask
    x, points = (grid, away) if onto else (away, grid)
    return x, points, y, present, away.shape[:1], np.result_type(away, length_scale)


def checked_scales(name: str, length_scale: ArrayLike, flags: int, channels: int, dtype: DTypeLike) -> Array:
    """One length scale for each channel of the result, (flags + channels,) in `dtype`; flags is 1 with density or 0."""
    given = np.asarray(length_scale)
    if given.dtype.kind == "c" and np.dtype(dtype).kind != "c":
        raise TypeError(f"{name}: length_scale is {given}; beside real numbers it must be real")
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


__all__ = ["Grid", "GridOptions", "SetConvolution", "eq", "matern_32", "matern_52", "set_convolution"]


def __dir__() -> list[str]:
    return __all__
