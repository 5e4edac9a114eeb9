"""Attention: its equation and gradients, conventions, shapes that broadcast, symmetries, and errors."""

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp
import refnp.autograd as ad
from refnp.kernels import attention as page
from refnp.layers.attention import attention, attention_with_weights, column_attention
from refnp.layers.grouped_attention import grouped_attention
from refnp.numbers.rounding import exact, tolerance
from tests.helpers import assert_same_bits, assert_within, normal, real_dtypes, seeds, unit_roundoff
from tests.layers.attention_problems import attend, equation, qkv, rounded_output, shared
from tests.transcriptions import rows as printed

lengths = st.integers(1, 5)


# ---- conventions


@pytest.mark.parametrize("method", ["full", "blocks", "page"])
def test_every_score_of_a_saturated_row_has_a_gradient_with_all_its_digits(method):
    """Also the largest, whose own formula, Ā_L − Σ Ā A, is a small difference of large numbers."""
    query, key, value, bias = np.zeros((5, 1)), np.zeros((6, 1)), normal(0, (6, 3)), normal(1, (5, 6), scale=20.0)
    bar = normal(2, (5, 3))
    with refnp.plain() if method == "page" else contextlib.nullcontext():
        options = {} if method == "page" else {"method": method}
        found = ad.vjp(lambda b: attention(query, key, value, b, **options), bias)[1](bar)[0]
    right = printed.attention_gradients(query, key, value, bar, bias=bias)[3]
    assert_within(found, right, 1e-13 * np.abs(right))


@pytest.mark.parametrize("scaled", [True, False])
@given(lengths, lengths, st.integers(1, 4), real_dtypes, seeds)
def test_columns_are_the_transpose_of_rows(scaled, n, m, d, dtype, seed):
    """V softmax(KᵀQ/√d), down the columns; the Attention Notes 10-15 and 10-16 print it without the root."""
    query, key, value = qkv(n, m, d, 2, dtype=dtype, seed=seed)
    similarity = "scaled_dot" if scaled else "dot"
    columns, pullback = ad.vjp(lambda *a: column_attention(*a, scaled=scaled), query.T, key.T, value.T)
    rows, rows_pullback = ad.vjp(lambda *a: attend(*a, similarity=similarity), query, key, value)
    rounded, rounded_pullback = equation(similarity=similarity)(*map(exact, (query, key, value)))
    bound = tolerance(rounded, dtype)
    assert_within(columns, rows.T, 2 * bound.T)
    assert_within(columns, printed.column_attention(query.T, key.T, value.T, scaled), bound.T)
    bar = normal(seed + 7, rows.shape, dtype)
    for ours, other, limit in zip(pullback(bar.T), rows_pullback(bar), rounded_pullback(exact(bar)), strict=True):
        assert_within(ours, other.T, 2 * tolerance(limit, dtype).T)


# ---- shapes


@given(st.integers(1, 3), st.integers(1, 3), lengths, lengths, st.booleans(), seeds)
def test_grouped_heads_are_repeated_keys(groups, per_group, n, m, masked, seed):
    """Each key head serves as many consecutive query heads; gradients of a key head add up over its queries."""
    heads, rng = groups * per_group, np.random.default_rng(seed)
    query, bias = normal(seed, (2, heads, n, 3)), normal(seed + 1, shared(rng, (2, heads, n, m)))
    key, value = normal(seed + 2, (2, groups, m, 3)), normal(seed + 3, (2, groups, m, 2))
    mask = rng.random(shared(rng, (2, heads, n, m))) < 0.6 if masked else None

    def grouped(query, key, value, bias):
        return grouped_attention(query, key, value, bias, mask=mask, return_weights=True)

    def repeated(query, key, value, bias):
        key, value = (ad.take(a, np.repeat(np.arange(groups), per_group), -3) for a in (key, value))
        return attention_with_weights(query, key, value, bias, mask=mask)

    (y, weights), pullback = ad.vjp(grouped, query, key, value, bias)
    (z, other_weights), other = ad.vjp(repeated, query, key, value, bias)
    full = [query, *(np.repeat(a, per_group, -3) for a in (key, value)), bias]
    rounded, rounded_pullback = equation(mask)(*map(exact, full))
    assert y.shape == (2, heads, n, 2)
    assert weights.shape == (2, heads, n, m)
    assert_within(y, z, 2 * tolerance(rounded, np.float64))
    assert_same_bits(weights, other_weights)
    bar = normal(seed + 4, y.shape)
    bars, others = (pull((bar, np.zeros_like(weights))) for pull in (pullback, other))
    limits = [tolerance(limit, np.float64) for limit in rounded_pullback(exact(bar))]
    limits[1:3] = [limit.reshape(2, groups, per_group, m, -1).sum(2) for limit in limits[1:3]]
    for a, b, limit in zip(bars, others, limits, strict=True):
        assert_within(a, b, 2 * limit + per_group * unit_roundoff(np.float64) * np.abs(b))


# ---- ways to compute


def test_long_sequences_are_taken_in_blocks_on_their_own(monkeypatch):
    arrays = qkv(6, 5)
    calls = []
    real = page.attention_in_blocks
    monkeypatch.setattr(page, "attention_in_blocks", lambda *a, **o: calls.append(1) or real(*a, **o))
    monkeypatch.setattr(page, "LONG", 29)
    bound = 2 * tolerance(rounded_output(arrays), np.float64)
    assert_within(attention(*arrays), attention(*arrays, method="full"), bound)
    assert len(calls) == 1
    attention(*arrays, method="blocks")
    assert len(calls) == 2
    attention_with_weights(*arrays)
    attention(arrays[0][:-1], *arrays[1:])
    monkeypatch.setattr(page, "LONG", 30)
    attention(*arrays)
    assert len(calls) == 2


# ---- errors
