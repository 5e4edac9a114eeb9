"""Set convolution against its equation, complex steps and PyTorch; its symmetries, and what is none of them."""

import functools
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from refnp.autograd import Tensor, get_threads, set_threads, vjp
from refnp.layers.set_convolution import SetConvolution, set_convolution
from refnp.layers.set_convolution_kernels import eq, matern_32, matern_52
from refnp.verify import bounds
from refnp.verify.bounds_set_convolution import rounding
from refnp.verify.equations.set_convolution import set_convolution as equation
from tests.helpers import (
    assert_same_bits,
    assert_within,
    check,
    laid_out,
    layouts,
    normal,
    scales,
    seeds,
    unit_roundoff,
)
from tests.transcriptions import set_convolution as transcriptions

KERNELS = {eq: transcriptions.eq, matern_32: transcriptions.matern_32, matern_52: transcriptions.matern_52}
REAL = (np.float32, np.float64, np.longdouble)

lengths = st.one_of(st.integers(2, 6), st.integers(0, 6))
sizes = st.tuples(st.integers(1, 3), lengths, lengths, st.integers(0, 3), st.integers(1, 3))  # B, M, N, C, D


def sets(seed, size, dtype=np.float64, *, scale=1.0):
    """Targets (B, M, D), points (B, N, D) and what they carry (B, N, C)."""
    rng = np.random.default_rng(seed)
    b, m, n, c, d = size
    return tuple(normal(rng, shape, dtype, s) for shape, s in (((b, m, d), scale), ((b, n, d), scale), ((b, n, c), 1)))


def scales_of(seed, count, dtype=np.float64, *, scale=1.0):
    return (np.random.default_rng([seed, 1]).uniform(0.4, 1.2, count) * scale).astype(dtype)


def carried(y, mask=None, *, density=True):
    """v = [1, y], 0 where masked: what the bounds are given."""
    v = np.concatenate([np.ones_like(y[..., :1], shape=(*y.shape[:-1], int(density))), y], -1)
    return v if mask is None else np.where(mask[..., None], v, 0)


def one(array):
    return array.reshape(array.shape[1:])


@given(
    seeds, sizes, st.sampled_from(REAL), scales, layouts, st.sampled_from(list(KERNELS)), st.booleans(), st.booleans()
)
@example(0, (1, 0, 3, 1, 1), np.float64, 1.0, "C", eq, False, True)
@example(0, (2, 3, 0, 0, 2), np.float32, 1.0, "C", eq, True, True)
def test_value(seed, size, dtype, scale, layout, kernel, masked, density):
    x, points, y = (laid_out(a, layout) for a in sets(seed, size, dtype, scale=scale))
    mask = np.random.default_rng(seed).random(points.shape[:2]) < 0.6 if masked else None
    length_scale = scales_of(seed, size[3] + density, dtype, scale=scale)
    options = {"mask": mask, "kernel": kernel, "density": density}
    z = set_convolution(x, points, y, length_scale, **options)
    right = transcriptions.set_convolution(x, points, y, length_scale, **options | {"kernel": KERNELS[kernel]})
    bound = rounding(x, points, carried(y, mask, density=density), length_scale, unit_roundoff(dtype), kernel=kernel)
    assert z.dtype == dtype
    assert_within(z, right, 2 * bound + np.finfo(dtype).tiny)


def test_by_hand():
    z = set_convolution(np.array([[0.5]]), np.array([[0.0], [1.0]]), np.array([[2.0], [-1.0]]), 1.0)
    assert_within(z, [[2 * np.exp(-0.125), np.exp(-0.125)]], 4e-16)


@given(seeds, sizes, st.sampled_from(REAL[:2]), st.booleans(), st.sampled_from([1e-8, 1e-4]))
def test_value_and_gradients_within_the_bounds_of_running_error_analysis(seed, size, dtype, divide, eps):
    x, points, y = sets(seed, (1, *size[1:]), dtype)
    length_scale = scales_of(seed, size[3] + 1, dtype)
    z, pullback = vjp(functools.partial(set_convolution, divide=divide, eps=eps), x, points, y, length_scale)
    z_bar = normal(seed, z.shape, dtype)
    right, limits = textbook((one(x), one(points), one(y), length_scale), one(z_bar), dtype, divide=divide, eps=eps)
    for value, reference, limit in zip((one(z), *pullback(z_bar)), right, limits, strict=True):
        assert value.dtype == dtype
        assert_within(value.reshape(reference.shape), reference, 2 * limit)


def textbook(arrays, cotangent, dtype, **options):
    """Value and gradients of one set in longdouble, and the bounds on them in `dtype`."""
    limits = bounds.of(equation, arrays, cotangent, dtype=dtype, **options)
    y, pullback = equation(*map(bounds.exact, arrays), **options)
    return [r.value for r in (y, *pullback(bounds.exact(cotangent)))], limits


MASK = np.array([[True, False, True, True, False], [True, True, True, False, True]])


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"divide": True},
        {"mask": MASK, "divide": True},
        {"kernel": matern_32},
        {"kernel": matern_52},
        {"density": False},
    ],
    ids=["plain", "divided", "masked", "matern_32", "matern_52", "no density"],
)
def test_gradients(options, axes, order):
    arrays = sets(7, (2, 4, 5, 2, axes))
    for length_scale in (np.array(0.7), scales_of(7, 2 + options.get("density", True))):
        check(functools.partial(set_convolution, **options), (*arrays, length_scale), order=order)


def test_gradients_where_points_coincide():
    x = np.array([[0.0], [1.0]])
    for kernel in KERNELS:
        check(functools.partial(set_convolution, kernel=kernel), (x, x.copy(), np.ones((2, 1)), np.array(0.7)))


@pytest.mark.parametrize("divide", [False, True])
@pytest.mark.parametrize("axes", [1, 2])
def test_matches_torch(axes, divide):
    torch = pytest.importorskip("torch")
    arrays = (*map(one, sets(3, (1, 6, 9, 2, axes))), scales_of(3, 3))
    z_bar = normal(4, (6, 3))
    z, pullback = vjp(functools.partial(set_convolution, divide=divide), *arrays)
    x, points, y, scale = (torch.tensor(a, requires_grad=True) for a in arrays)
    square = ((x[:, None, None] - points[None, :, None]) / scale[:, None]).square().sum(-1)
    theirs = (torch.exp(-square / 2) * torch.cat([torch.ones(9, 1, dtype=y.dtype), y], 1)).sum(1)
    if divide:
        theirs = torch.cat([theirs[:, :1], theirs[:, 1:] / (theirs[:, :1] + 1e-8)], 1)
    theirs.backward(torch.tensor(z_bar))
    given = theirs.detach(), x.grad, points.grad, y.grad, scale.grad
    limits = bounds.of(equation, arrays, z_bar, divide=divide)
    for ours, other, limit in zip((z, *pullback(z_bar)), given, limits, strict=True):
        assert_within(ours, other.numpy(), 2 * limit)


# Symmetries


@given(seeds, sizes)
def test_order_of_the_points_does_not_matter(seed, size):
    x, points, y = sets(seed, size)
    order = np.random.default_rng(seed).permutation(points.shape[1])
    permuted = set_convolution(x, points[:, order], y[:, order], 0.6)
    assert_within(
        permuted, set_convolution(x, points, y, 0.6), 2 * rounding(x, points, carried(y), 0.6, unit_roundoff(float))
    )


@given(seeds, sizes, st.booleans(), st.integers(-512, 512))
def test_a_shift_that_rounds_nothing_changes_nothing(seed, size, divide, shift):
    x, points, y = (np.round(a * 1024) / 1024 for a in sets(seed, size))
    f = functools.partial(set_convolution, divide=divide)
    results = []
    for t in (0, shift / 8):
        z, pullback = vjp(f, x + t, points + t, y, 0.6)
        results.append((z, *pullback(normal(np.random.default_rng(seed), z.shape))[:3]))
    for moved, here in zip(*results, strict=True):
        assert_same_bits(moved, here)


@given(seeds, sizes, st.floats(-1e4, 1e4), st.sampled_from(REAL[:2]))
def test_any_shift_changes_no_more_than_the_rounding_of_positions_does(seed, size, shift, dtype):
    x, points, y = sets(seed, size, dtype)
    t, u = dtype(shift), unit_roundoff(dtype)
    bound = rounding(x, points, carried(y), 0.6, u) + rounding(x, points, carried(y), 0.6, u, shift=t)
    assert_within(
        set_convolution(x + t, points + t, y, 0.6), set_convolution(x, points, y, 0.6), 2 * bound + np.finfo(dtype).tiny
    )


@given(seeds, sizes)
def test_targets_are_asked_one_by_one(seed, size):
    x, points, y = sets(seed, size)
    single = [set_convolution(x[:, m : m + 1], points, y, 0.6) for m in range(x.shape[1])]
    together = set_convolution(x, points, y, 0.6)
    assert_within(
        np.concatenate([together[:, :0], *single], 1), together, 2 * rounding(x, points, carried(y), 0.6, 1.2e-16)
    )


def test_linear_in_y_and_additive_over_sets_but_not_when_divided():
    x, points, y = sets(5, (1, 6, 8, 2, 1))
    f = lambda y, n, **options: set_convolution(x, points[:, n], y[:, n], 0.6, **options)
    every, first, rest = slice(None), slice(0, 3), slice(3, None)
    bound = 4 * rounding(x, points, carried(y), 0.6, unit_roundoff(float))
    assert_within(f(2.5 * y, every)[..., 1:], 2.5 * f(y, every)[..., 1:], 2.5 * bound[..., 1:])
    assert_within(f(y, first) + f(y, rest), f(y, every), bound)
    apart = f(y, first, divide=True) + f(y, rest, divide=True) - f(y, every, divide=True)
    assert np.abs(apart[..., 1:]).max() > 0.1


def test_scaling_positions_is_no_symmetry_unless_the_length_scale_goes_along():
    x, points, y = sets(5, (1, 6, 8, 2, 2))
    here = set_convolution(x, points, y, 0.6)
    assert np.abs(set_convolution(2 * x, 2 * points, y, 0.6) - here).max() > 0.1
    assert_same_bits(set_convolution(2 * x, 2 * points, y, 1.2), here)


def test_turning_the_plane_is_a_symmetry_and_shearing_it_is_none():
    x, points, y = sets(5, (1, 6, 8, 2, 2))
    here = set_convolution(x, points, y, 0.6)
    quarter, shear = np.array([[0.0, 1.0], [-1.0, 0.0]]), np.array([[1.0, 1.0], [0.0, 1.0]])
    bound = 2 * rounding(x, points, carried(y), 0.6, unit_roundoff(float))
    assert_within(set_convolution(x @ quarter, points @ quarter, y, 0.6), here, bound)
    assert np.abs(set_convolution(x @ shear, points @ shear, y, 0.6) - here).max() > 0.1


def test_density_counts_points_and_tells_a_zero_from_nothing():
    x, points = np.array([[0.25]]), np.full((7, 1), 0.25)
    assert set_convolution(x, points, np.zeros((7, 1)), 0.1).tolist() == [[7.0, 0.0]]
    empty = np.zeros((0, 1))
    assert set_convolution(x, empty, empty, 0.1).tolist() == [[0.0, 0.0]]
    silent = set_convolution(x, points, np.zeros((7, 1)), 0.1, density=False)
    assert_same_bits(silent, set_convolution(x, empty, empty, 0.1, density=False))


def test_division_makes_a_mean():
    x, points, _ = sets(5, (1, 6, 8, 1, 1))
    z = set_convolution(x, points, np.full((1, 8, 1), 3.0), 0.6, divide=True)
    assert_within(z[..., 1], 3 * z[..., 0] / (z[..., 0] + 1e-8), 40 * unit_roundoff(float))


# Masks, empty sets, numbers that are hard to handle


@given(seeds, sizes, st.booleans())
def test_a_mask_is_a_shorter_set(seed, size, divide):
    x, points, y = sets(seed, (1, *size[1:]))
    mask = np.random.default_rng(seed).random(points.shape[:2]) < 0.5
    z, pullback = vjp(lambda *a: set_convolution(*a, 0.6, mask=mask, divide=divide), x, points, y)
    z_bar = normal(seed, z.shape)
    kept = mask[0]
    short, short_pullback = vjp(lambda *a: set_convolution(*a, 0.6, divide=divide), x, points[:, kept], y[:, kept])
    arrays = one(x), one(points)[kept], one(y)[kept], np.array(0.6)
    limits = [2 * limit for limit in bounds.of(equation, arrays, one(z_bar), divide=divide)]
    assert_within(one(z), one(short), limits[0])
    for ours, other, limit, chosen in zip(
        pullback(z_bar), short_pullback(z_bar), limits[1:4], (slice(None), kept, kept), strict=True
    ):
        assert_within(one(ours)[chosen], one(other), limit)
        if chosen is kept:
            assert not ours[:, ~kept].any()


@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("method", ["dense", "truncated"])
@pytest.mark.parametrize("divide", [False, True])
def test_what_is_masked_is_not_looked_at(junk, method, divide):
    x, points, y = sets(1, (2, 5, 6, 2, 1))
    mask = np.array([[True, True, False, True, False, True], [False] * 6])
    f = lambda *a: set_convolution(*a, 0.6, mask=mask, divide=divide, method=method)
    clean = vjp(f, x, points, y)
    spoilt = vjp(f, x, np.where(mask[..., None], points, junk), np.where(mask[..., None], y, junk))
    assert_same_bits(spoilt[0], clean[0])
    z_bar = normal(2, clean[0].shape)
    for ours, other in zip(spoilt[1](z_bar), clean[1](z_bar), strict=True):
        assert_same_bits(ours, other)
        assert np.isfinite(ours).all()
    assert not clean[0][1].any()


@pytest.mark.parametrize("method", ["dense", "truncated", "auto"])
@pytest.mark.parametrize(("targets", "points"), [(0, 3), (3, 0), (0, 0)])
def test_empty_sets(method, targets, points):
    arrays = sets(1, (2, targets, points, 2, 1))
    z, pullback = vjp(lambda *a: set_convolution(*a, divide=True, method=method), *arrays, np.array(0.5))
    assert z.shape == (2, targets, 3)
    assert not z.any()
    for gradient, array in zip(pullback(np.ones_like(z)), (*arrays, np.array(0.5)), strict=True):
        assert gradient.shape == array.shape
        assert not gradient.any()


@pytest.mark.parametrize("dtype", REAL[:2])
@pytest.mark.parametrize("divide", [False, True])
def test_no_finite_number_becomes_nan(dtype, divide):
    largest, least = np.finfo(dtype).max, np.finfo(dtype).tiny
    x = np.array([[0], [1], [-largest], [largest], [least], [1e9], [1e18]], dtype)
    y = np.arange(7, dtype=dtype)[:, None]
    for scale in (least, 1, 1e9, largest):
        z, pullback = vjp(functools.partial(set_convolution, divide=divide), x, x, y, np.array(scale, dtype))
        gradients = pullback(np.ones_like(z))
        assert np.isfinite(z).all()
        assert not any(np.isnan(g).any() for g in gradients)


def test_nan_is_passed_on_by_every_method():
    x, points, y = np.linspace(0, 40, 300)[:, None], np.linspace(0, 40, 300)[:, None], np.zeros((300, 1))
    y[7] = np.nan
    for method in ("auto", "dense"):
        assert np.isnan(set_convolution(x, points, y, 0.1, method=method)[:, 1]).all()


def test_leading_axes_broadcast_and_gradients_are_summed():
    x, points, y = sets(1, (3, 4, 5, 2, 2))
    grid = x[0]
    z, pullback = vjp(set_convolution, grid, points, y, 0.6)
    wide, wide_pullback = vjp(set_convolution, np.broadcast_to(grid, x.shape).copy(), points, y, 0.6)
    assert_same_bits(z, wide)
    assert_within(pullback(z)[0], wide_pullback(z)[0].sum(0), 1e-13)
    several = set_convolution(x.reshape(3, 1, 4, 2), points.reshape(3, 1, 5, 2), y[:, None], 0.6)
    assert_same_bits(several, set_convolution(x, points, y, 0.6)[:, None])


def test_arrays_in_arrays_out_and_integers_are_positions():
    x, points, y = np.arange(4)[:, None], np.arange(3)[:, None], np.ones((3, 1))
    z = set_convolution(x, points, y, 1)
    assert isinstance(z, np.ndarray)
    assert_same_bits(z, set_convolution(x.astype(float), points.astype(float), y, 1.0))
    assert isinstance(set_convolution(x, points, Tensor(y), 1), Tensor)


@pytest.mark.parametrize("method", ["dense", "truncated"])
def test_bits_do_not_depend_on_threads(method):
    x, points, y = (a[0] for a in sets(1, (1, 700, 900, 2, 1), scale=20))
    results, threads = [], get_threads()
    try:
        for count in (1, 3):
            set_threads(count)
            z, pullback = vjp(lambda *a: set_convolution(*a, 0.3, method=method), x, points, y)
            results.append((z, *pullback(z)))
    finally:
        set_threads(threads)
    for ours, other in zip(*results, strict=True):
        assert_same_bits(ours, other)


def test_memory_grows_with_points_and_not_with_pairs():
    x, points, y = (a[0] for a in sets(1, (1, 1000, 20000, 1, 2), np.float32))
    tracemalloc.start()
    z, pullback = vjp(lambda y: set_convolution(x, points, y, 0.3), y)
    pullback(z)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * len(x) * len(points) / 10


# Kernels, options, errors, the module


def test_a_kernel_of_ones_own():
    def rational(s):
        return 1 / (1 + s), lambda: -1 / (1 + s) ** 2

    arrays = (*sets(1, (2, 3, 4, 1, 2)), np.array(0.7))
    check(functools.partial(set_convolution, kernel=rational), arrays)
    with pytest.raises(TypeError, match="kernel must return"):
        set_convolution(*arrays, kernel=lambda s: np.exp(-s))


def test_the_kernels_slopes_are_their_derivatives():
    s = np.array([0.0, 1e-3, 0.5, 3.0, 50.0])
    for kernel in KERNELS:
        k, slope = kernel(s[1:] + 1e-100j)
        assert_within(k.imag * 1e100, slope().real, 1e-14 * np.abs(slope()))
        assert kernel(s)[0][0] == 1
        assert np.isfinite(kernel(s)[1]()).all()


X, POINTS, Y = np.zeros((4, 1)), np.zeros((5, 1)), np.zeros((5, 2))


@pytest.mark.parametrize(
    ("arrays", "options", "error", "message"),
    [
        ((X, POINTS, Y, -0.5), {}, ValueError, "length_scale is -0.5; it must be positive"),
        ((X, POINTS, Y, 0.0), {}, ValueError, "must be positive"),
        ((X, POINTS, Y, np.nan), {}, ValueError, "must be positive"),
        ((X, POINTS, Y, np.inf), {}, ValueError, "must be positive and finite"),
        ((X, POINTS, Y, np.array([1.0, 2.0, -1.0])), {}, ValueError, "must be positive"),
        ((X, POINTS, Y, np.ones(2)), {}, ValueError, r"length_scale has shape \(2,\); it must be one number or \(3,\)"),
        ((X, POINTS, Y, np.ones(3)), {"density": False}, ValueError, r"one number or \(2,\), for 2 channels"),
        ((X.astype("f"), POINTS.astype("f"), Y.astype("f"), 1e-50), {}, ValueError, "positive and finite .* float32"),
        ((X[:, 0], POINTS, Y, 1.0), {}, ValueError, r"target_x has shape \(4,\).*add a last axis"),
        ((X, POINTS[:, 0], Y, 1.0), {}, ValueError, r"context_x has shape \(5,\)"),
        ((X, POINTS, Y[:, 0], 1.0), {}, ValueError, r"context_y has shape \(5,\)"),
        ((np.zeros((4, 2)), POINTS, Y, 1.0), {}, ValueError, "target_x has 2 dimensions but context_x has 1"),
        ((np.zeros((4, 4)), np.zeros((5, 4)), Y, 1.0), {}, ValueError, "1 to 3 dimensions, not 4"),
        ((np.zeros((4, 0)), np.zeros((5, 0)), Y, 1.0), {}, ValueError, "1 to 3 dimensions, not 0"),
        ((X, POINTS, Y[:4], 1.0), {}, ValueError, "context_x has 5 points but context_y has 4"),
        ((np.zeros((2, 4, 1)), np.zeros((3, 5, 1)), Y, 1.0), {}, ValueError, "do not broadcast"),
        ((X, POINTS, Y, 1.0), {"mask": np.ones(5)}, TypeError, "mask is float64; it must be boolean"),
        (
            (X, POINTS, Y, 1.0),
            {"mask": np.ones(4, bool)},
            ValueError,
            r"mask has shape \(4,\); its last axis must have 5",
        ),
        ((X, POINTS, Y, 1.0), {"mask": np.ones((2, 5), bool), "kernel": "eq"}, TypeError, "kernel is 'eq'"),
        ((X, POINTS, Y, 1.0), {"divide": True, "density": False}, ValueError, "divide=True needs density=True"),
        ((X, POINTS, Y, 1.0), {"divide": True, "eps": 0.0}, ValueError, "eps is 0.0; it must be positive"),
        ((X, POINTS, Y, 1.0), {"method": "fast"}, ValueError, "method is 'fast'"),
        ((X, POINTS, Y, 1.0), {"method": "truncated", "kernel": matern_32}, ValueError, "needs the kernel eq"),
        ((np.zeros((4, 2)), np.zeros((5, 2)), Y, 1.0), {"method": "truncated"}, ValueError, "1 dimension, not 2"),
        ((X, POINTS, Y + np.inf, 1.0), {"method": "truncated"}, ValueError, "needs finite numbers"),
        ((np.array([["a"]]), POINTS, Y, 1.0), {}, TypeError, "target_x is <U1"),
    ],
)
def test_errors(arrays, options, error, message):
    with pytest.raises(error, match=message):
        set_convolution(*arrays, **options)


def test_module():
    x, points, y = sets(1, (2, 4, 5, 2, 1))
    layer = SetConvolution(2, 0.25, divide=True)
    assert {name: p.shape for name, p in layer.named_parameters()} == {"log_length_scale": (3,)}
    assert_within(layer(x, points, y).numpy(), set_convolution(x, points, y, 0.25, divide=True), 1e-13)
    check(lambda values: layer.bind(values)(x, points, y, mask=MASK), (layer.state_dict(),), order=2)
    assert SetConvolution(2, 0.25, shared=True).log_length_scale.shape == ()
    assert SetConvolution(2, 0.25, density=False)(x, points, y).shape == (2, 4, 2)
    single = [a.astype(np.float32) for a in (x, points, y)]
    assert layer.astype(np.float32)(*single).dtype == np.float32


def test_module_with_a_constant_length_scale():
    single = [a.astype(np.float32) for a in sets(1, (2, 4, 5, 2, 1))]
    layer = SetConvolution(2, [0.5, 0.25, 0.125], learnable=False)
    assert layer.parameters() == []
    assert layer(*single).dtype == np.float32


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((2, -1.0), {}, "SetConvolution: length_scale is -1.0; it must be positive"),
        ((2, np.ones(2)), {}, r"length_scale has shape \(2,\)"),
        ((2, np.ones(3)), {"shared": True}, "one number"),
        ((0, 1.0), {"density": False}, "channels is 0"),
        ((-1, 1.0), {}, "channels is -1"),
    ],
)
def test_module_errors(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        SetConvolution(*arguments, **options)
