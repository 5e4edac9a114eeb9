"""Embedding: rows of a table, what comes back to rows that were read twice, and tokens that are not in it."""

import numpy as np

from refnp.layers.linear import Embedding, embedding
from tests.helpers import assert_same_bits


def test_module_draws_normal_numbers_that_the_scaling_brings_back_to_1():
    """Mean square 1 without scaling, 1/D with it, and so 1 again in the result; to 5 standard deviations, √(2/n)."""
    for scaled in (False, True):
        module = Embedding(500, 64, scaled=scaled, rng=np.random.default_rng(0))
        assert [(name, p.shape) for name, p in module.named_parameters()] == [("weight", (500, 64))]
        rows = module(np.arange(500))
        assert abs((rows**2).mean() - 1) < 5 * np.sqrt(2 / rows.size)
        assert_same_bits(rows, embedding(np.arange(500), module.weight.data, scaled=scaled))
    assert abs((module.weight.data**2).mean() * 64 - 1) < 5 * np.sqrt(2 / rows.size)
