"""Pooling: the places of the largest against index loops, by hand, at ties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.autograd import vjp
from refnp.layers.pooling import adaptive_average_pool, adaptive_max_pool, average_pool, max_pool
from tests.helpers import REAL, assert_same_bits, laid_out, layouts, normal, seeds
from tests.transcriptions import convolution as transcriptions


def draw(seed, dimensions):
    """A shape, and options: windows of every size, stride and padding that fit, with ⌊…⌋ and with ⌈…⌉."""
    rng = np.random.default_rng(seed)
    size, stride = (tuple(map(int, rng.integers(1, 4, dimensions))) for _ in range(2))
    widths = [(int(rng.integers(0, k)), int(rng.integers(0, k))) for k in size]
    lengths = [max(1, k - sum(w)) + int(rng.integers(0, 5)) for k, w in zip(size, widths, strict=True)]
    options = {"stride": stride, "padding": widths, "ceil_mode": bool(rng.integers(2))}
    return (int(rng.integers(0, 3)), int(rng.integers(1, 3)), *lengths), size, options


@given(seeds, st.integers(1, 3), st.sampled_from(REAL), layouts, st.booleans(), st.integers(1, 3))
def test_maximum(seed, dimensions, dtype, layout, ties, dilation):
    shape, size, options = draw(seed, dimensions)
    places = {"stride": options["stride"], "widths": options["padding"], "ceil": options["ceil_mode"]}
    if dilation > 1:  # windows that hold a place of x whatever the padding
        options |= {"dilation": dilation, "padding": 0}
        places |= {"dilation": (dilation,) * dimensions, "widths": [(0, 0)] * dimensions}
        shape = (*shape[:2], *(n + dilation * k for n, k in zip(shape[2:], size, strict=True)))
    x = normal(seed, shape, dtype)
    x = laid_out(np.round(x) if ties else x, layout)
    y, pullback = vjp(lambda a: max_pool(a, size, **options), x)
    y_bar = laid_out(np.random.default_rng(seed).integers(-9, 9, y.shape).astype(dtype), layout)
    *right, indices = transcriptions.pool(x, y_bar, size=size, largest=True, **places)
    for value, exact in zip((y, pullback(y_bar)[0]), right, strict=True):
        assert value.dtype == dtype
        assert np.array_equal(value, exact)  # nothing is rounded: a choice, and sums of small integers
    also, found = max_pool(x, size, **options, return_indices=True)
    assert_same_bits(also, y)
    assert {place: found[place] for place in np.ndindex(*found.shape)} == indices
    assert found.dtype == np.int64


@given(seeds, st.integers(1, 3), st.sampled_from(REAL), layouts, st.booleans())
def test_adaptive_maximum(seed, dimensions, dtype, layout, ties):
    rng = np.random.default_rng(seed)
    shape, size = (2, 1, *rng.integers(1, 7, dimensions)), tuple(map(int, rng.integers(1, 8, dimensions)))
    x = normal(seed, shape, dtype)
    x = laid_out(np.round(x) if ties else x, layout)
    y, pullback = vjp(lambda a: adaptive_max_pool(a, size), x)
    y_bar = laid_out(rng.integers(-9, 9, y.shape).astype(dtype), layout)
    *right, indices = transcriptions.adaptive_pool(x, y_bar, size=size, largest=True)
    for value, exact in zip((y, pullback(y_bar)[0]), right, strict=True):
        assert value.dtype == dtype
        assert np.array_equal(value, exact)
    also, found = adaptive_max_pool(x, size, return_indices=True)
    assert_same_bits(also, y)
    assert {place: found[place] for place in np.ndindex(*found.shape)} == indices


def test_at_a_tie_the_first_has_the_gradient():
    x = np.zeros((1, 1, 2, 2))
    assert vjp(lambda a: max_pool(a, 2), x)[1](np.ones((1, 1, 1, 1)))[0].tolist() == [[[[1, 0], [0, 0]]]]
    assert max_pool(np.array([[[1 + 3j, 2 + 1j]]]), 2).tolist() == [[[2 + 1j]]]  # complex: the largest real part


@pytest.mark.parametrize("pool", [max_pool, adaptive_max_pool])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_nan_is_passed_on_by_the_maximum_and_its_gradient_goes_to_the_first(pool, dtype):
    x = np.array([[[1.0, np.nan, np.nan, 2.0, 3.0, 2.0]]], dtype)
    y, indices = pool(x, 3 if pool is max_pool else 2, return_indices=True)
    assert np.isnan(y).tolist() == [[[True, False]]]
    assert indices.tolist() == [[[1, 4]]]
    _, pullback = vjp(lambda a: pool(a, 3 if pool is max_pool else 2), x)
    assert pullback(np.ones((1, 1, 2), dtype))[0].tolist() == [[[0, 1, 0, 0, 1, 0]]]


def test_where_all_is_minus_infinity_padding_is_not_the_largest():
    x = np.full((1, 1, 3), -np.inf)
    y, indices = max_pool(x, 2, padding=1, return_indices=True)
    assert y.tolist() == [[[-np.inf, -np.inf]]]
    assert indices.tolist() == [[[0, 1]]]
    assert vjp(lambda a: max_pool(a, 2, padding=1), x)[1](np.ones((1, 1, 2)))[0].tolist() == [[[1, 1, 0]]]


@pytest.mark.parametrize("pool", [average_pool, max_pool, adaptive_average_pool, adaptive_max_pool])
def test_without_a_size_python_says_what_is_missing(pool):
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'size'"):
        pool(np.ones((1, 1, 4)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: max_pool(np.ones((1, 1, 1)), 2, stride=1, padding=1, dilation=2),
         "max_pool: a window of size 2 with dilation 2 reads nothing but padding on an axis of length 1; pad less"),
        (lambda: max_pool(np.ones((1, 1, 1)), 4, stride=2, ceil_mode=True),
         r"max_pool: size \(4,\) with dilation \(1,\) reaches over 4 .* and stride \(2,\) lets ceil_mode add fewer"),
        (lambda: adaptive_max_pool(np.ones((1, 1, 0)), 2), r"adaptive_max_pool: x has lengths \(0,\); an axis"),
        (lambda: max_pool(np.ones((1, 1, 4)), 5), r"max_pool: size \(5,\) .* reaches over 5 places, but x has"),
        (lambda: max_pool(np.ones((1, 1, 4)), 2, padding=2), r"padding \(\(2, 2\),\) makes windows .* of nothing but"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
