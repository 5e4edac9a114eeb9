"""Embedding: rows of a table, what comes back to rows that were read twice, and tokens that are not in it."""

import numpy as np

import refnp.autograd as ad
from refnp.layers.linear import Embedding, embedding
from tests.helpers import (
    assert_same_bits,
    normal,
)


def test_a_row_read_three_times_gets_three_gradients_and_others_none():
    _, pullback = ad.vjp(lambda table: embedding([[2, 0, 2], [2, 0, 1]], table), np.zeros((5, 2)))
    bar = np.arange(12.0).reshape(2, 3, 2)
    (table_bar,) = pullback(bar)
    np.testing.assert_array_equal(
        table_bar, [bar[0, 1] + bar[1, 1], bar[1, 2], bar[0, 0] + bar[0, 2] + bar[1, 0], [0, 0], [0, 0]]
    )


def test_it_is_the_product_with_one_hot_rows():
    tokens, table = np.array([3, 1, 1, 0]), normal(0, (4, 3))
    assert_same_bits(embedding(tokens, table), np.eye(4)[tokens] @ table)


def test_module_draws_normal_numbers_that_the_scaling_brings_back_to_1():
    """Mean square 1 without scaling, 1/D with it, and so 1 again in the result; to 5 standard deviations, √(2/n)."""
    for scaled in (False, True):
        module = Embedding(500, 64, scaled=scaled, rng=np.random.default_rng(0))
        assert [(name, p.shape) for name, p in module.named_parameters()] == [("weight", (500, 64))]
        rows = module(np.arange(500))
        assert abs((rows**2).mean() - 1) < 5 * np.sqrt(2 / rows.size)
        assert_same_bits(rows, embedding(np.arange(500), module.weight.data, scaled=scaled))
    assert abs((module.weight.data**2).mean() * 64 - 1) < 5 * np.sqrt(2 / rows.size)
