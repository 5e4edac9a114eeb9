"""Embedding: rows of a table, what comes back to rows that were read twice, and tokens that are not in it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.layers.linear import Embedding, embedding
from refnp.numbers.rounding import exact, tolerance
from refnp.verify.layers import linear as equations
from tests.helpers import (
    COMPLEX,
    REAL,
    assert_same_bits,
    assert_within,
    check,
    laid_out,
    layouts,
    normal,
    real_dtypes,
    seeds,
    shapes,
)


@given(shapes(), st.integers(1, 4), st.integers(1, 5), st.booleans(), real_dtypes, layouts, seeds)
def test_value_and_gradient(shape, vocabulary, features, scaled, dtype, layout, seed):
    """X_n = E[token_n], times √D if scaled; Ē_v = Σ of X̄_n over all n with token_n = v. Most tokens repeat."""
    table = laid_out(normal(seed, (vocabulary, features), dtype), layout)
    tokens = np.random.default_rng(seed).integers(0, vocabulary, shape)
    x, pullback = ad.vjp(lambda table: embedding(tokens, table, scaled=scaled), table)
    rounded, rounded_pullback = ad.vjp(lambda table: embedding(tokens, table, scaled=scaled), exact(table))
    assert x.shape == (*shape, features)
    assert x.dtype == dtype
    expected = np.zeros(x.shape, np.longdouble)
    for n in np.ndindex(shape):
        expected[n] = table[tokens[n]].astype(np.longdouble) * (np.sqrt(np.longdouble(features)) if scaled else 1)
    assert_within(x, expected, tolerance(rounded, dtype) if scaled else 0)
    bar = normal(seed + 1, x.shape, dtype)
    (table_bar,), (bound,) = pullback(bar), rounded_pullback(exact(bar))
    assert table_bar.dtype == dtype
    assert_within(table_bar, bound.value, tolerance(bound, dtype))


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


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("dtype", REAL)
def test_derivatives(scaled, dtype):
    check(lambda table: embedding([[1, 0, 2], [2, 2, 5]], table, scaled=scaled), (normal(0, (6, 3), dtype),))


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_tables_stay_complex(dtype):
    x, pullback = ad.vjp(lambda table: embedding([0, 0], table, scaled=True), np.ones((2, 3), dtype))
    assert x.dtype == pullback(x)[0].dtype == dtype


@pytest.mark.parametrize("tokens", [np.zeros((2, 0), int), [], np.array([], np.uint8)])
def test_no_tokens(tokens):
    x, pullback = ad.vjp(lambda table: embedding(tokens, table), np.ones((3, 2)))
    assert x.shape == (*np.shape(tokens), 2)
    np.testing.assert_array_equal(pullback(x)[0], np.zeros((3, 2)))


def test_tokens_of_any_integer_type_and_tables_of_lists():
    table = [[1.0, 2.0], [3.0, 4.0]]
    for dtype in (np.int8, np.uint64, np.int64):
        assert_same_bits(embedding(np.array([1, 0], dtype), table), np.array([[3.0, 4.0], [1.0, 2.0]]))
    assert_same_bits(embedding(ad.Tensor([1]), table).reshape(-1), np.array([3.0, 4.0]))
    assert_same_bits(embedding(1, table), np.array([3.0, 4.0]))


def test_module_draws_normal_numbers_that_the_scaling_brings_back_to_1():
    """Mean square 1 without scaling, 1/D with it, and so 1 again in the result; to 5 standard deviations, √(2/n)."""
    for scaled in (False, True):
        module = Embedding(500, 64, scaled=scaled, rng=np.random.default_rng(0))
        assert [(name, p.shape) for name, p in module.named_parameters()] == [("weight", (500, 64))]
        rows = module(np.arange(500))
        assert abs((rows**2).mean() - 1) < 5 * np.sqrt(2 / rows.size)
        assert_same_bits(rows, embedding(np.arange(500), module.weight.data, scaled=scaled))
    assert abs((module.weight.data**2).mean() * 64 - 1) < 5 * np.sqrt(2 / rows.size)


def test_matches_torch():
    torch = pytest.importorskip("torch")
    tokens, table, bar = np.array([[1, 0, 1], [2, 1, 1]]), normal(0, (4, 3)), normal(1, (2, 3, 3))
    leaf = torch.tensor(table, requires_grad=True)
    result = torch.nn.functional.embedding(torch.tensor(tokens), leaf)
    result.backward(torch.tensor(bar))
    x, pullback = ad.vjp(lambda table: embedding(tokens, table), table)
    assert_same_bits(x, result.detach().numpy())
    (bound,) = equations.embedding(exact(table), tokens=tokens)[1](exact(bar))
    assert_within(pullback(bar)[0], leaf.grad.numpy(), 2 * tolerance(bound, np.float64))


@pytest.mark.parametrize(
    ("tokens", "table", "error", "message"),
    [
        ([0, 3], np.ones((3, 2)), IndexError, r"token 3 is not in a vocabulary of 3; use 0 to 2"),
        ([[0, 1], [-1, 2]], np.ones((3, 2)), IndexError, r"token -1 is not in a vocabulary of 3; use 0 to 2"),
        (np.array([2**63], np.uint64), np.ones((3, 2)), IndexError, r"token 9223372036854775808 is not in a .*"),
    ],
)
def test_errors(tokens, table, error, message):
    with pytest.raises(error, match=rf"^embedding: {message}$"):
        embedding(tokens, table)
