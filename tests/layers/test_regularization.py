"""Dropout: which numbers are dropped, what becomes of the others, and that evaluation is without it."""

import numpy as np
import pytest

from refnp.layers.regularization import dropout
from tests.helpers import REAL, assert_same_bits, normal


def test_without_a_generator_nothing_happens():
    x = normal(0, (3, 4))
    assert dropout(x, 0.5) is x
    assert dropout(x, 0.0, np.random.default_rng(0)) is x


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_each_number_is_dropped_or_enlarged(dtype, rate):
    """By 1/(1 − p), which is rounded once to the type; and one rounding of the product."""
    x = normal(0, (40, 50), dtype)
    y = dropout(x, rate, np.random.default_rng(1))
    assert y.dtype == dtype
    kept = y != 0
    assert_same_bits(y[kept], x[kept] * dtype(1 / (1 - np.longdouble(rate))))
    assert_same_bits(np.abs(y[~kept]), np.zeros((~kept).sum(), dtype))


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_the_fraction_that_is_dropped(rate):
    """Of n = 10⁶ draws, within five standard deviations √(p(1 − p)/n): false once in 1.7 million seeds."""
    y = dropout(np.ones(10**6), rate, np.random.default_rng(2))
    assert abs((y == 0).mean() - rate) < 5 * (rate * (1 - rate) / 1e6) ** 0.5


def test_precisions_drop_the_same():
    drops = [dropout(np.ones((9, 9), t), 0.5, np.random.default_rng(3)) == 0 for t in REAL]
    assert_same_bits(drops[0], drops[1])
    assert_same_bits(drops[0], drops[2])


def test_a_rate_that_is_1_in_single_precision():
    """1 − 1e-9 rounds to 1 in float32: all is dropped, and nothing divides by zero."""
    np.testing.assert_array_equal(dropout(np.ones(9, np.float32), 1 - 1e-9, np.random.default_rng(0)), 0)


def test_a_draw_that_is_the_rate_is_kept():
    """So that a rate of 0 would keep all."""
    drawn = np.random.default_rng(0).random(9, dtype=np.float32)
    np.testing.assert_array_equal(dropout(np.ones(9), float(drawn[3]), np.random.default_rng(0)) > 0, drawn >= drawn[3])
