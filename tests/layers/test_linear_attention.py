"""Linear attention: its equation, sums taken first or last, masks, and what the softmax adds."""

import numpy as np
import pytest

import refnp.autograd as ad
from refnp.layers import attention, linear_attention


def test_the_rank_of_the_weights_is_that_of_the_features():
    """Six tokens with two features each: the softmax tells all six apart, products of features but two directions."""
    tokens = np.stack([np.cos(np.arange(6)), np.sin(np.arange(6))], -1)
    assert np.linalg.matrix_rank(linear_attention(10 * tokens, 10 * tokens, np.eye(6))) == 2
    assert np.linalg.matrix_rank(attention(10 * tokens, 10 * tokens, np.eye(6))) == 6


def test_only_the_softmax_can_copy():
    """With long queries each token gets its own value from the softmax; from products of features it never does."""
    tokens = np.stack([np.cos(np.arange(6)), np.sin(np.arange(6))], -1)
    for length in (1e3, 1e6):
        assert np.abs(attention(length * tokens, tokens, np.eye(6)) - np.eye(6)).max() < 1e-9
        assert np.abs(linear_attention(length * tokens, tokens, np.eye(6)) - np.eye(6)).max() > 0.5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_that_vanish_have_finite_gradients(dtype):
    """Products of features down to 0 and below the smallest normal number, beside values of 1e3."""
    x = np.linspace(-800, 0, 41, dtype=dtype)[:, None]
    y, pullback = ad.vjp(linear_attention, x, x - 10, np.full((41, 1), 1e3, dtype))
    assert np.isfinite(y).all()
    assert y[-1] == pytest.approx(1e3)
    assert all(np.isfinite(bar).all() for bar in pullback(np.full((41, 1), 1e3, dtype)))


@pytest.mark.parametrize("hidden", [np.nan, np.inf])
@pytest.mark.parametrize(
    "options", [{"key_mask": np.zeros(4, bool)}, {"key_mask": np.arange(4) > 0, "causal": True}, {}]
)
def test_a_query_that_may_attend_to_nothing_gets_nothing(hidden, options):
    """Whatever is in it; the first of the causal ones sees the first key alone, which is hidden."""
    query, keys = np.ones((4, 2)), np.ones((4, 3))[: 4 if options else 0]
    query[0] = hidden
    y, pullback = ad.vjp(lambda q, k, v: linear_attention(q, k, v, **options), query, keys[:, :2], keys)
    assert y[0].tolist() == [0, 0, 0]
    query_bar, *_ = pullback(np.ones((4, 3)))
    assert query_bar[0].tolist() == [0, 0]
