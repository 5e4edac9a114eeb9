"""Sums between points and a grid: against index loops with derived bounds, and PyTorch; blocks, threads, edges."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.autograd.primitives import primitive
from refnp.kernels.set_convolution_near import half_width
from refnp.kernels.set_convolution_tiles import Windows
from refnp.layers.set_convolution import Grid, eq, matern_32, set_convolution
from refnp.verify import bounds
from refnp.verify.layers.set_convolution import SET_CONVOLUTION
from tests.helpers import assert_same_bits, assert_within, normal, seeds, unit_roundoff
from tests.transcriptions import convcnp as transcriptions

DENSITY = 4.0
LENGTHS = {1: (24,), 2: (4, 9), 3: (2, 3, 2)}  # windows end within the first, and the second is no square
real = st.sampled_from([np.float32, np.float64, np.longdouble])
axes = st.integers(1, 3)
widths = st.sampled_from([0.02, 0.3, 3.0])  # length scales far below the spacing, about it, as long as the grid


def problem(seed, axes, dtype, width, *, points=3):
    """Features (B, C, *lengths), values (B, N, C), positions (B, N, dx) within the grid, length scales (C,)."""
    rng = np.random.default_rng(seed)
    lengths = LENGTHS[axes]
    x = rng.uniform(0, (np.array(lengths) - 1) / DENSITY, (2, points, axes)).astype(dtype)
    scales = (rng.uniform(0.5, 1.5, 2) * width).astype(dtype)
    return normal(rng, (2, 2, *lengths), dtype), normal(rng, (2, points, 2), dtype), x, scales


def from_grid(h, x, scales):
    """The set convolution from the places of grids that begin at 0."""
    grid = Grid(np.zeros((len(h), x.shape[-1]), int), h.shape[2:], DENSITY)
    return set_convolution(x, grid, h, scales, density=False)


def to_grid(v, x, scales, *, lengths):
    """The set convolution at those places."""
    grid = Grid(np.zeros((len(v), x.shape[-1]), int), lengths, DENSITY)
    return set_convolution(grid, x, v, scales, density=False)


@primitive
def to_grid_before_division(v, x, scales, *, lengths, eps):
    """The sums that will be divided by a density + eps, and their gradients."""
    grid = Grid(np.zeros((len(v), x.shape[-1]), int), lengths, DENSITY)
    sums = Windows(x, v, scales, grid, True, eps)
    return sums.convolved(), lambda bar: (
        sums.channel_gradients(bar)[0],
        sums.position_gradients(bar)[1],
        sums.channel_gradients(bar)[1],
    )


def places(lengths, dtype):
    along = np.meshgrid(*(np.arange(n) for n in lengths), indexing="ij")
    return (np.stack([a.ravel() for a in along], -1) / DENSITY).astype(dtype)


def rows(h):
    """(B, C, *lengths) → (B, K, C)."""
    return h.reshape(*h.shape[:2], -1).swapaxes(1, 2)


def limits(h, v, x, scales, cut):
    """Bounds on f, x̄, z, ℓ̄ of T = Σ v w h: rounding, and all pairs whose weight is below `cut` (B, N, 1, C).

    With v for cotangent, the set convolution from the places to the points has them all: z is its gradient of h.
    Its equation has one exponential for all axes; a product of D of them has D − 1 more of 4 ulps, and roundings.
    """
    axes, dtype = x.shape[-1], v.dtype
    grid = np.broadcast_to(places(h.shape[2:], dtype), (len(x), h[0, 0].size, axes))
    f, x_bar, _, z, scales_bar = bounds.of(SET_CONVOLUTION.equation, (x, grid, rows(h), scales), v, density=False)
    wide = np.longdouble
    squares = ((x[:, :, None].astype(wide) - grid[:, None]) ** 2).sum(-1)[..., None]  # (B, N, K, 1)
    w = np.exp(-squares / (2 * scales.astype(wide) ** 2))  # (B, N, K, C)
    least = 3 * np.finfo(dtype).tiny  # weights below e times the smallest normal number count as 0
    w = np.where(w <= np.maximum(cut(w), least), w, 0) * (1 + 1e-6)
    size, bar = np.abs(rows(h))[:, None], np.abs(v)[:, :, None]
    lost_scales = (w * size * bar * squares).sum((0, 1, 2)) / scales**3
    lost_x = (w * size * bar * np.sqrt(squares) / scales**2).sum((2, 3))[..., None]
    lost = (w * size).sum(2), lost_x, (w * bar).sum(1), lost_scales
    return [axes * limit + left for limit, left in zip((f, x_bar, z, scales_bar), lost, strict=True)]


def below_the_nearest(w):
    """What `from_grid` may leave out: u/K of the nearest place's weight."""
    return w.max(2, keepdims=True) * unit_roundoff(np.float64) / w.shape[2]


@given(seeds, axes, real, widths, st.sampled_from([1.0, 1e-8]), st.sampled_from([0, 1, 3]))
@example(0, 1, np.float32, 0.02, 1.0, 3)
def test_values_and_gradients(seed, axes, dtype, width, eps, points):
    h, v, x, scales = problem(seed, axes, dtype, width, points=points)
    lengths, starts, u = h.shape[2:], np.zeros((2, axes)), unit_roundoff(dtype)
    f, from_bars = ad.vjp(from_grid, h, x, scales)
    z, to_bars = ad.vjp(lambda *a: to_grid_before_division(*a, lengths=lengths, eps=eps), v, x, scales)
    f_right = transcriptions.from_grid(h, x, scales, starts, DENSITY)
    z_right = transcriptions.to_grid(v, x, scales, starts, lengths, DENSITY)
    x_right, scales_right = transcriptions.slopes(h, v, x, scales, DENSITY)
    of_from = limits(h, v, x, scales, lambda w: w.max(2, keepdims=True) * u / w.shape[2])
    of_to = limits(h, v, x, scales, lambda w: u * eps / max(points, 1))
    for results, bound in (((f, *from_bars(v)), of_from), ((to_bars(h)[0], z, *to_bars(h)[1:]), of_to)):
        assert all(result.dtype == dtype for result in results)
        for result, right, limit in zip(
            (results[0], results[2], rows(results[1]), results[3]),
            (f_right, x_right, rows(z_right), scales_right),
            bound,
            strict=True,
        ):
            assert_within(result, right, limit)


def test_one_is_the_adjoint_of_the_other():
    h, v, x, scales = problem(1, 2, np.float64, 0.3)
    f = from_grid(h, x, scales)
    z = to_grid(v, x, scales, lengths=h.shape[2:])
    size = np.abs(h).sum() * np.abs(v).sum()
    assert abs((f * v).sum() - (z * h).sum()) <= 2**-48 * size


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [0.05, 0.5, 4.0])
def test_no_place_that_counts_is_left_out_and_few_others_are_summed(dtype, width):
    """R is the smallest whole number for which places beyond it weigh too little, relative to the nearest."""
    least = 1e-9
    half = half_width(width, DENSITY, least, dtype)
    relative = lambda j: np.exp(-((abs(j) - 0.5) ** 2 - 0.25) / (2 * (width * DENSITY) ** 2))  # x_n half-way between
    assert relative(half + 1) <= least * (1 + 1e-12)
    assert half == 0 or relative(half) > least * (1 - 1e-12)


def test_a_window_that_were_narrower_would_be_noticed(monkeypatch):
    h, v, x, scales = problem(0, 1, np.float64, 0.3)
    right = transcriptions.from_grid(h, x, scales, np.zeros((2, 1)), DENSITY)
    limit = limits(h, v, x, scales, below_the_nearest)[0]
    monkeypatch.setattr("refnp.kernels.set_convolution_tiles.half_width", lambda *arguments: 5)
    with pytest.raises(AssertionError, match="beyond the bound"):
        assert_within(from_grid(h, x, scales), right, limit)


def test_points_outside_the_grid_are_near_its_edge():
    h, v, _, scales = problem(0, 1, np.float64, 0.3)
    x = np.array([[[-3.0], [-0.4], [6.25]]] * 2)
    f = from_grid(h, x, scales)
    right = transcriptions.from_grid(h, x, scales, np.zeros((2, 1)), DENSITY)
    assert_within(f, right, limits(h, v, x, scales, below_the_nearest)[0])
    assert (f != 0).all()


def test_each_point_and_each_task_by_itself():
    """Blocks change nothing: any part of the points, in any order, gives the same bits."""
    h, _, x, scales = problem(2, 2, np.float64, 0.1, points=50)
    together = from_grid(h, x, scales)
    assert_same_bits(from_grid(h, x[:, ::-1], scales), together[:, ::-1])
    assert_same_bits(from_grid(h[1:], x[1:, 7:9], scales), together[1:, 7:9])


def test_nan_reaches_its_own_point_only():
    h, _, x, scales = problem(2, 1, np.float64, 0.1)
    x[0, 1] = np.nan
    f = from_grid(h, x, scales)
    assert np.isnan(f).any(-1).tolist() == [[False, True, False], [False] * 3]


# ---- one function, to a grid and from it


@given(seeds, axes, real, st.booleans(), st.booleans())
def test_a_grid_is_the_same_as_its_places(seed, axes, dtype, onto, divide):
    """Values and gradients, with density, division and a mask: each way within its bound of the equation.

    On the grid there are as many exponentials as axes. A pair left out has a weight below u eps/M, and adds less than
    that times d²/ℓ³ < 2⁸/ℓ to any gradient; eps/ℓ is 1/30.
    """
    h, v, x, _ = problem(seed, axes, dtype, 0.3)
    grid, points = Grid(np.zeros((2, axes), int), h.shape[2:], DENSITY), places(h.shape[2:], dtype)
    mask = np.random.default_rng(seed).random(x.shape[:2]) < 0.7 if onto else None
    scale, options = dtype(0.3), {"divide": divide, "eps": 1e-2}
    if onto:
        z, pullback = ad.vjp(lambda *a: set_convolution(grid, *a, mask=mask, **options), x, v, scale)
        right, other = ad.vjp(lambda *a: set_convolution(points, *a, mask=mask, **options), x, v, scale)
        right_bar = normal(seed, right.shape, dtype)
        bar = np.ascontiguousarray(right_bar.swapaxes(1, 2)).reshape(z.shape)
        found = rows(z), *pullback(bar)
        pairs = np.broadcast_to(points, (2, *points.shape)), x, v, scale
    else:
        z, pullback = ad.vjp(lambda *a: set_convolution(a[0], grid, *a[1:], **options), x, h, scale)
        right, other = ad.vjp(lambda *a: set_convolution(a[0], points, *a[1:], **options), x, rows(h), scale)
        bar = right_bar = normal(seed, right.shape, dtype)
        x_bar, h_bar, scale_bar = pullback(bar)
        found = z, x_bar, rows(h_bar), scale_bar
        pairs = x, np.broadcast_to(points, (2, *points.shape)), rows(h), scale
    z_limit, *limits_of_bars = bounds.of(SET_CONVOLUTION.equation, pairs, right_bar, mask=mask, **options)
    limits_of_bars = limits_of_bars[1:] if onto else [limits_of_bars[i] for i in (0, 2, 3)]
    most = max(np.abs(a).max(initial=0) for a in (pairs[2], right_bar))
    left_out = 2**8 / 30 * unit_roundoff(dtype) * len(points) * max(1, most) ** 2
    for result, reference, limit in zip(found, (right, *other(right_bar)), (z_limit, *limits_of_bars), strict=True):
        assert result.dtype == dtype
        assert_within(result, reference, (axes + 1) * limit + left_out)


def test_a_grid_far_away_and_positions_more_precise_than_values():
    h, v, x, _ = problem(3, 1, np.float32, 0.3)
    near, far = (Grid(np.full((2, 1), start), (24,), DENSITY) for start in (0, 2**32))
    x = np.round(x * 1024) / np.float32(1024)
    there = x.astype(np.float64) + 2**30
    assert_same_bits(set_convolution(far, there, v, 0.3), set_convolution(near, x, v, 0.3))
    assert_same_bits(set_convolution(there, far, h, 0.3), set_convolution(x, near, h, 0.3))


def test_what_a_mask_hides_beside_a_grid():
    _, v, x, _ = problem(3, 2, np.float64, 0.3)
    grid, mask = Grid(np.zeros((2, 2), int), (4, 9), DENSITY), np.array([[True, False, True], [False] * 3])
    hide = lambda a, junk: np.where(mask[..., None], a, junk)
    clean, spoilt = (
        ad.vjp(lambda x, v: set_convolution(grid, x, v, 0.3, mask=mask, divide=True), hide(x, junk), hide(v, junk))
        for junk in (0.0, np.nan)
    )
    assert_same_bits(spoilt[0], clean[0])
    assert not clean[0][1].any()
    for ours, other in zip(spoilt[1](clean[0]), clean[1](clean[0]), strict=True):
        assert_same_bits(ours, other)
        assert not ours[~mask].any()


def test_errors_beside_a_grid():
    grid = Grid(np.zeros((2, 1), int), (8,), DENSITY)
    x, y, h = np.zeros((2, 3, 1)), np.zeros((2, 3, 2)), np.zeros((2, 2, 8))
    for arguments, options, error, message in (
        ((grid, grid, h, 1.0), {}, TypeError, r"target_x is Grid\(.*; pass an array of numbers"),
        ((grid, x, y, 1.0), {"kernel": matern_32}, ValueError, "beside a Grid the kernel is eq"),
        ((grid, x, y, 1.0), {"kernel": eq, "method": "dense"}, ValueError, "only pairs that count"),
        ((grid, x[:1], y, 1.0), {}, ValueError, r"context_x has shape \(1, 3, 1\); .* and target_x has B = 2"),
        ((x[..., [0, 0]], grid, h, 1.0), {}, ValueError, r"target_x has shape \(2, 3, 2\); .* context_x has dx = 1"),
        ((grid, x, y[:, 1:], 1.0), {}, ValueError, r"context_y has shape \(2, 2, 2\); .* and context_x has M = 3"),
        ((x, grid, h[..., 1:], 1.0), {}, ValueError, r"shape \(2, 2, 7\); .* and context_x has L = \(8,\)"),
        ((x, grid, h, 1.0), {"mask": np.ones((2, 3), bool)}, ValueError, "all places of a Grid are"),
        ((grid, x, y, 1.0), {"mask": np.ones((1, 3), bool)}, ValueError, r"mask has shape \(1, 3\); .* has B = 2"),
        ((grid, x, y, np.ones(2)), {}, ValueError, "length_scale has shape"),
    ):
        with pytest.raises(error, match=message):
            set_convolution(*arguments, **options)
