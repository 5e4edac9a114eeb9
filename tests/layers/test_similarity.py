"""Similarities: dot, scaled dot, cosine, general and additive, one by one and as what attention makes of them."""

import numpy as np
import pytest

import refnp.autograd as ad
from refnp.kernels.attention import one_over_root
from refnp.layers.attention import attention
from refnp.layers.similarity import (
    additive_scores,
    as_dot,
    similarity_attention,
    unit_rows,
)
from refnp.numbers.rounding import WIDE
from tests.helpers import COMPLEX, REAL, assert_same_bits, assert_within, normal

SIMILARITIES = similarity_attention.takes.options["similarity"].choices


def parameters(name, d_query, d_key, dtype=np.float64, seed=9, hidden=4):
    shapes = {"general": [(d_query, d_key)], "additive": [(d_query, hidden), (d_key, hidden), (hidden,)]}.get(name, [])
    return tuple(normal(seed + i, shape, dtype) for i, shape in enumerate(shapes))


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


def test_general_with_the_unit_matrix_is_the_dot_product():
    query, key = normal(0, (3, 4)), normal(1, (5, 4))
    assert_same_bits(scores("general", query, key, (np.eye(4),)), scores("dot", query, key, ()))


def test_scaled_dot_of_4_features_is_half_the_dot_product():
    query, key = normal(0, (3, 4)), normal(1, (5, 4))
    assert_same_bits(scores("scaled_dot", query, key, ()), scores("dot", query, key, ()) / 2)
    assert not np.array_equal(attention(query, key, key), attention(query, key, key, scale=1))


def test_additive_scores_are_bounded_by_the_sum_of_v():
    query, key = 1e3 * normal(0, (3, 2)), 1e3 * normal(1, (4, 2))
    given_parameters = parameters("additive", 2, 2)
    vector = given_parameters[2]
    assert (np.abs(additive_scores(query, key, *given_parameters)) <= np.abs(vector).sum() * (1 + 2.0**-50)).all()


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
