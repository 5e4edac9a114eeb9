"""Similarities: dot, scaled dot, cosine, general and additive, one by one and as what attention makes of them."""

import numpy as np
import pytest

import refnp.autograd as ad
from refnp.kernels.attention import one_over_root
from refnp.layers.similarity import additive_scores, as_dot, similarity_attention, unit_rows
from refnp.numbers.rounding import WIDE
from tests.helpers import COMPLEX, REAL, assert_within


def scores(name, query, key, given_parameters):
    """S (N, M) as refnp computes it."""
    if name == "additive":
        return additive_scores(query, key, *given_parameters)
    q, k, scale = as_dot(query, key, name, given_parameters)
    return ad.matmul(q * (one_over_root(query) if scale is None else scale), ad.swapaxes(k, -1, -2))


# ---- one by one


@pytest.mark.parametrize("dtype", [*REAL, *COMPLEX])
def test_cosine_with_a_row_of_zeros_is_0_and_so_is_its_gradient(dtype):
    x = np.array([[0, 0], [3, 4]], dtype)
    y, pullback = ad.vjp(unit_rows, x)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y[0], 0)
    np.testing.assert_array_equal(pullback(np.ones_like(y))[0][0], 0)
    if np.dtype(dtype).kind != "c":
        _, forward = ad.jvp(unit_rows, (x,), (np.ones_like(x),))
        np.testing.assert_array_equal(forward[0], 0)
        np.testing.assert_array_equal(scores("cosine", x, x, ())[0], 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cosine_of_rows_whose_squares_overflow_or_vanish(dtype):
    info = np.finfo(dtype)
    rows = np.array([[3, 4], [-4, 3]], dtype) * np.array([[info.max / 8], [info.tiny]], dtype)
    u = info.eps / 2
    assert_within(unit_rows(rows), np.array([[0.6, 0.8], [-0.8, 0.6]], WIDE), 8 * u)


# ---- errors


@pytest.mark.parametrize(
    ("name", "d_key", "shapes", "message"),
    [
        ("scaled_dot", 3, [(3, 3)], r"attention: similarity 'scaled_dot' takes 0 parameters; got 1"),
        ("general", 4, [], r"attention: similarity 'general' takes 1 parameters; got 0"),
        ("additive", 4, [(3, 5), (4, 5)], r"attention: similarity 'additive' takes 3 parameters; got 2"),
    ],
)
def test_errors(name, d_key, shapes, message):
    query, key = np.ones((2, 3)), np.ones((4, d_key))
    given_parameters = tuple(map(np.ones, shapes))
    with pytest.raises(ValueError, match=rf"^{message}$"):
        similarity_attention(query, key, key, similarity=name, parameters=given_parameters)
