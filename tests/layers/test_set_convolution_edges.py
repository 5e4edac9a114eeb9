"""Set convolution on masked, empty, huge and misshapen input; its threads and its memory."""

import functools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.autograd import vjp
from refnp.layers.set_convolution import SetConvolution, matern_32, set_convolution
from refnp.verify import bounds
from refnp.verify.layers.set_convolution import SET_CONVOLUTION
from tests.helpers import assert_same_bits, assert_within, normal, seeds
from tests.layers.sets import one, sets, sizes


@given(seeds, sizes, st.booleans())
def test_a_mask_is_a_shorter_set(seed, size, divide):
    x, points, y = sets(seed, (1, *size[1:]))
    mask = np.random.default_rng(seed).random(points.shape[:2]) < 0.5
    z, pullback = vjp(lambda *a: set_convolution(*a, 0.6, mask=mask, divide=divide), x, points, y)
    z_bar = normal(seed, z.shape)
    kept = mask[0]
    short, short_pullback = vjp(lambda *a: set_convolution(*a, 0.6, divide=divide), x, points[:, kept], y[:, kept])
    arrays = one(x), one(points)[kept], one(y)[kept], np.array(0.6)
    limits = [2 * limit for limit in bounds.of(SET_CONVOLUTION.equation, arrays, one(z_bar), divide=divide)]
    assert_within(one(z), one(short), limits[0])
    for ours, other, limit, chosen in zip(
        pullback(z_bar), short_pullback(z_bar), limits[1:4], (slice(None), kept, kept), strict=True
    ):
        assert_within(one(ours)[chosen], one(other), limit)
        if chosen is kept:
            assert not ours[:, ~kept].any()


@pytest.mark.parametrize("scale", [1e-30, 1e-4, 1.0, 1e3, 1e5])
@pytest.mark.parametrize("options", [{}, {"divide": True}, {"density": False}, {"kernel": matern_32}])
def test_float16_is_float32_rounded(options, scale):
    """Neither the square of 300, nor ε = 1e-8, nor a length scale of 1e5 is a float16."""
    wide = np.float32
    x, points, y = (a.astype(np.float16) for a in sets(1, (2, 5, 6, 2, 1)))
    x, points = x * np.float16(300), points * np.float16(300)
    f = lambda *a: set_convolution(*a, scale, **options)
    z, pullback = vjp(f, x, points, y)
    expected, wide_pullback = vjp(f, *(a.astype(wide) for a in (x, points, y)))
    assert_same_bits(z, expected.astype(np.float16))
    z_bar = normal(2, z.shape, np.float16)
    with np.errstate(over="ignore"):
        for ours, other in zip(pullback(z_bar), wide_pullback(z_bar.astype(wide)), strict=True):
            assert_same_bits(ours, other.astype(np.float16))
            assert not np.isnan(ours).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
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


def test_memory_grows_with_points_and_not_with_pairs():
    x, points, y = (a[0] for a in sets(1, (1, 1000, 20000, 1, 2), np.float32))
    tracemalloc.start()
    z, pullback = vjp(lambda y: set_convolution(x, points, y, 0.3), y)
    pullback(z)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * len(x) * len(points) / 10


X, POINTS, Y = np.zeros((4, 1)), np.zeros((5, 1)), np.zeros((5, 2))


@pytest.mark.parametrize(
    ("arrays", "options", "error", "message"),
    [
        ((X, POINTS, Y, -0.5), {}, ValueError, "length_scale holds -0.5; it must be positive"),
        ((X, POINTS, Y, np.inf), {}, ValueError, "must be positive and finite"),
        ((X, POINTS, Y, np.ones(2)), {}, ValueError, r"length_scale has shape \(2,\); it must be one number or \(3,\)"),
        ((X, POINTS, Y, np.ones(3)), {"density": False}, ValueError, r"one number or \(2,\), for 2 channels"),
        ((X.astype("f"), POINTS.astype("f"), Y.astype("f"), 1e-50), {}, ValueError, "positive and finite .* float32"),
        ((np.zeros((4, 4)), np.zeros((5, 4)), Y, 1.0), {}, ValueError, "target_x has 4 dimensions, .* it may have 3"),
        ((X, POINTS, Y, 1.0), {"divide": True, "density": False}, ValueError, "divide=True needs density=True"),
        ((X, POINTS, Y, 1.0), {"method": "truncated", "kernel": matern_32}, ValueError, "needs the kernel eq"),
        ((np.zeros((4, 2)), np.zeros((5, 2)), Y, 1.0), {"method": "truncated"}, ValueError, "1 dimension, not 2"),
        ((X, POINTS, Y + np.inf, 1.0), {"method": "truncated"}, ValueError, "needs finite numbers"),
    ],
)
def test_errors(arrays, options, error, message):
    with pytest.raises(error, match=message):
        set_convolution(*arrays, **options)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((2, -1.0), {}, "SetConvolution: length_scale is -1.0; it must be positive"),
        ((2, np.ones(2)), {}, r"length_scale has shape \(2,\)"),
        ((2, np.ones(3)), {"shared": True}, "one number"),
        ((0, 1.0), {"density": False}, "channels is 0"),
    ],
)
def test_module_errors(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        SetConvolution(*arguments, **options)
