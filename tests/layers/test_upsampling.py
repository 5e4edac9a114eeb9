"""Upsampling: against fractions place by place and PyTorch, by hand, and as the transpose of average pooling."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.autograd import vjp
from refnp.layers.pooling import average_pool
from refnp.layers.upsampling import upsample
from tests.helpers import assert_same_bits, laid_out, layouts, seeds

FORMS = [("nearest", False), ("nearest-exact", False), ("linear", False), ("linear", True)]


def test_a_factor_is_meant_as_it_is_written():
    """1.4 in floating point is less than 7/5: ⌊5 · 1.4⌋ is 7 all the same, and place 7 of 11 for 5 is that of x[5]."""
    x = np.arange(10.0).reshape(1, 1, 10)
    assert upsample(x[..., :5], 1.4).shape == (1, 1, 7)
    assert upsample(x, 2.2)[0, 0, 11] == 5
    assert upsample(x[..., :5], np.float32(1.4)).shape == (1, 1, 7)


def test_large_coordinates_lose_no_digit_of_the_weights():
    """In float32, λ from c_i = 0.3 · 10⁴ in floating point has four digits less."""
    n = 4097
    x = np.zeros((1, 1, n), np.float32)
    x[..., 4000] = 1
    y = upsample(x, size=13 * (n - 1) // 4 + 1, mode="linear", align_corners=True)[0, 0]  # c_i = 4 i/13
    assert y[13_001] == np.float32(1 - 4 / 13)


@pytest.mark.parametrize(("mode", "corners"), FORMS)
def test_what_has_no_weight_is_not_read(mode, corners):
    """Infinity stays where it is: places that take nothing of it are finite, and so are their gradients."""
    x = np.array([[[1.0, 2.0, np.inf, 4.0, 5.0]]])
    y, pullback = vjp(lambda a: upsample(a, size=9, mode=mode, align_corners=corners), x)
    weights = np.array([pullback(row.reshape(1, 1, 9))[0][0, 0] for row in np.eye(9)])
    assert np.array_equal(np.isinf(y[0, 0]), weights[:, 2] > 0)
    assert not np.isnan(y).any()
    y_bar = np.ones((1, 1, 9))
    y_bar[..., 4] = np.inf
    assert not np.isnan(pullback(y_bar)[0]).any()


@given(seeds, st.integers(1, 3), st.integers(1, 3), layouts)
def test_is_the_transpose_of_average_pooling_but_for_the_mean(seed, dimensions, spare, layout):
    rng = np.random.default_rng(seed)
    shape, factor = (2, 1, *rng.integers(1, 4, dimensions)), tuple(map(int, rng.integers(1, 4, dimensions)))
    x = laid_out(rng.integers(-99, 99, shape).astype(float) * np.prod(factor), layout)
    y, pullback = vjp(lambda a: upsample(a, factor), x)
    assert_same_bits(average_pool(y, factor), x)
    other, pool_pullback = vjp(lambda a: average_pool(a, factor), y)
    assert_same_bits(pool_pullback(other * np.prod(factor))[0], y)
    assert_same_bits(pullback(y)[0], x * np.prod(factor))
    sizes = tuple(f * n for f, n in zip(factor, shape[2:], strict=True))
    assert_same_bits(upsample(x, size=sizes), y)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: upsample(x, 0.1), r"factor \(0.1,\) leaves nothing of x with lengths \(4,\); pass a larger one"),
        (lambda x: upsample(x[..., :0], size=2), r"x has lengths \(0,\); an axis of length 0 has nothing to repeat"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=f"^upsample: {message}"):
        call(np.ones((1, 1, 4)))
