"""Set convolution on arrays of floats: all pairs at once where they are few, otherwise those that count, in tiles.

For targets x_n, context points x_m that carry v_m = [1, y_m], and a length scale ℓ, one number that is linear in each
of h, k and v,

    T = Σ_nm h_n k(s_nm) v_m,        s_nm = |u_nm|²,   u_nm = (x_n − x_m)/ℓ

gives everything: its derivative with respect to h is the set convolution at the targets, that with respect to v the
same sum taken over n, which goes back to the context points. So each is the gradient of the other. Beside them there
are only ∂T/∂x and ∂T/∂ℓ. `Pairs` has these sums for all pairs, in a few lines. They are all there is for few pairs; for
many, and on a grid, set_convolution_near.py derives which pairs count and set_convolution_tiles.py sums them.

The page is refnp/layers/set_convolution.py, what is a `Grid` refnp/layers/grid.py.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from refnp.kernels.radial import eq
from refnp.kernels.set_convolution_near import TILE_BYTES, portions_of
from refnp.kernels.set_convolution_tiles import Tiles, Windows, ordered
from refnp.numbers.arrays import Array
from refnp.numbers.duals import as_array
from refnp.numbers.kinds import Kind
from refnp.numbers.summation import sum_of_products

FARTHEST = 1e9  # length scales beyond which a distance counts as this one, so that its square does not overflow


def set_convolution(target_x, context_x, context_y, length_scale, *, mask, kernel, density, divide, eps, method):
    """z_n = Σ_m [1, y_m] k(|x_n − x_m|²/ℓ²), in memory O(N + M); a gradient when it is asked for."""
    kernel = getattr(kernel, "on_arrays", kernel)
    onto, off = is_grid(target_x), is_grid(context_x)
    given = _beside_a_grid if onto or off else _anywhere
    x, points, y, present, batch, dtype = given(target_x, context_x, context_y, length_scale, mask)
    axis = 1 if off else -1  # of the channels of y
    flags = int(density)  # how many channels say that there is a point
    scales = checked_scales("set_convolution", length_scale, flags, y.shape[axis], dtype)  # (C,)
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


# Below: what extreme inputs need, and what is accepted.


def far_steps(x: Array, points: Array, scale: np.number) -> Array:
    """u = (x_n − x_m)/ℓ, (dx, B, N, M), at most FARTHEST on an axis, for points so far apart that u² overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        u = (x[..., :, None] - points[..., None, :]) / scale
        return np.where(np.abs(u) > FARTHEST, np.copysign(FARTHEST, u), u)


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
    if is_grid(x):
        return Windows(points, v, scales, x, True, eps)
    if is_grid(points):
        return Windows(x, v, scales, points, False, eps)
    few = len(x) * x.shape[1] * points.shape[1] * v.itemsize <= TILE_BYTES and method != "truncated"
    portions = None if few else portions_of(method, kernel, x, points, v, present, scales)
    if portions is not None:
        x, points, v = ordered(x, portions.target_order), *(ordered(a, portions.point_order) for a in (points, v))
    x, points = (np.ascontiguousarray(np.moveaxis(a, -1, 0), v.dtype) for a in (x, points))
    distinct, which = np.unique(scales, return_inverse=True)
    groups: list[tuple[Any, Any]] = [(scale, np.flatnonzero(which == i)) for i, scale in enumerate(distinct)]
    with np.errstate(over="ignore"):
        farthest = 2 * np.max([np.abs(a).max(initial=0) for a in (x, points)]) / distinct.min(initial=np.inf)
    groups = groups if len(groups) != 1 else [(distinct[0], slice(None))]
    pairs = Pairs(x, points, v, groups, kernel, not farthest < FARTHEST)
    return pairs if portions is None else Tiles(pairs, portions)


def _anywhere(target_x, context_x, context_y, length_scale, mask) -> tuple:
    """Targets (B, N, dx), points (B, M, dx), values (B, M, C), mask (B, M) or None, the axes in B, and the dtype."""
    arrays = [target_x, context_x, context_y]
    fronts = {a.shape[:-2] for a in arrays} | (set() if mask is None else {mask.shape[:-1]})
    batch = fronts.pop() if len(fronts) == 1 else np.broadcast_shapes(*fronts)
    arrays = [a if a.shape[:-2] == batch else np.broadcast_to(a, batch + a.shape[-2:]) for a in arrays]
    x, points, y = (a.reshape(math.prod(batch), *a.shape[-2:]) for a in arrays)
    if mask is not None:
        mask = np.broadcast_to(mask, batch + mask.shape[-1:]).reshape(len(x), mask.shape[-1])
    return x, points, y, mask, batch, np.result_type(x, points, y, length_scale)


def _beside_a_grid(target_x, context_x, context_y, length_scale, mask) -> tuple:
    """The same where targets or points are a `Grid`, which stays one; positions are distances from its first place."""
    onto = is_grid(target_x)
    grid, x = (target_x, context_x) if onto else (context_x, target_x)
    away = grid.distances(x, np.finfo(np.result_type(context_y, length_scale)).dtype)
    present = None if mask is None or mask.all() else mask
    x, points = (grid, away) if onto else (away, grid)
    return x, points, context_y, present, away.shape[:1], np.result_type(away, length_scale)


def is_grid(places: Any) -> bool:
    """Whether places are a `Grid`, and not an array."""
    return hasattr(places, "points_per_unit")


def check(target_x, context_x, context_y, length_scale, *, mask, kernel, density, divide, method, **_):
    """TypeError or ValueError for options that do not go together, ℓ that does not fit, and what a grid has not."""
    if divide and not density:
        raise ValueError("set_convolution: divide=True needs density=True; cut the density channel off afterwards")
    channels = context_y.shape[1 if is_grid(context_x) else -1]
    given = [a for a in (target_x, context_x, context_y, length_scale) if hasattr(a, "dtype")]
    dtype = np.result_type(np.float32, *(a.dtype for a in given if a.dtype.kind in "fc"))
    scale: Any = getattr(length_scale, "real", length_scale) if isinstance(length_scale, Kind) else length_scale
    if not isinstance(scale, Kind):  # unknown numbers have no value to check
        checked_scales("set_convolution", scale, int(density), channels, dtype)
    if not is_grid(target_x) and not is_grid(context_x):
        if target_x.shape[-1] > 3:
            raise ValueError(
                f"set_convolution: target_x has {target_x.shape[-1]} dimensions, along its last axis; it may have 3"
            )
        return
    kernel = getattr(kernel, "on_arrays", kernel)
    if kernel is not eq or method == "dense":
        raise ValueError(
            "set_convolution: beside a Grid the kernel is eq, and only pairs that count are summed; for all pairs, or "
            "another kernel, pass the places as points"
        )
    if mask is not None and not is_grid(target_x):
        raise ValueError("set_convolution: mask says which points are there; all places of a Grid are")


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
