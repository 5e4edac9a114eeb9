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
from refnp.layers.similarity import similarity_attention
from refnp.numbers.rounding import exact, tolerance
from tests.helpers import (
    assert_same_bits,
    assert_within,
    normal,
    real_dtypes,
    seeds,
    unit_roundoff,
)
from tests.layers.attention_problems import attend, equation, problems, qkv, rounded_output, shared
from tests.transcriptions import rows as printed

lengths = st.integers(1, 5)


# ---- the equation


@given(problems())
def test_weights_are_means_and_have_gradients(problem):
    """Weights ≥ 0, rows sum to 1 or, with nothing allowed, 0; the output is theirs; ⟨Ā, ·⟩ agrees with a softmax's."""
    arrays, mask = problem
    dtype = arrays[0].dtype
    output, weights = attend(*arrays, mask=mask, return_weights=True)
    right, right_weights = printed.batched_attention(*arrays[:3], mask, *arrays[3:])
    assert weights.dtype == dtype
    assert (weights >= 0).all()
    some = (
        np.ones(weights.shape, bool)
        if mask is None
        else np.broadcast_to(mask, np.broadcast_shapes(weights.shape, mask.shape))
    )
    total = weights.astype(np.longdouble).sum(-1)
    n_u = (weights.shape[-1] + 2) * unit_roundoff(dtype)
    assert_within(total, np.broadcast_to(some, weights.shape).any(-1).astype(float), n_u)
    if mask is not None:
        assert (np.broadcast_to(weights, some.shape)[~some] == 0).all()
    assert_within(output, right, tolerance(rounded_output(arrays, mask), dtype))
    eye = np.eye(arrays[1].shape[-2], dtype=dtype)  # the weights are the output for the unit matrix as values
    bound = tolerance(rounded_output([*arrays[:2], eye, *arrays[3:]], mask), dtype)
    assert_within(*np.broadcast_arrays(weights, right_weights), np.broadcast_to(bound, right_weights.shape))


@given(problems(dtypes=st.just(np.float64), scale=1.0), seeds)
def test_gradient_through_weights_and_output_together(problem, seed):
    """⟨ō, O⟩ + ⟨ā, A⟩ has the gradient of ⟨ō, A V⟩ + ⟨ā, A I⟩: attention on the values V and on the values I."""
    arrays, mask = problem
    (output, weights), pullback = ad.vjp(lambda *a: attend(*a, mask=mask, return_weights=True), *arrays)
    o_bar, a_bar = normal(seed, output.shape), normal(seed + 1, weights.shape)
    both = pullback((o_bar, a_bar))

    def of_eye(query, *others):  # with the axes in front that the weights have, for the mask may have them from V
        return attend(ad.broadcast_to(query, (*weights.shape[:-2], *query.shape[-2:])), *others, mask=mask)

    with_eye = [*arrays[:2], np.eye(arrays[1].shape[-2]), *arrays[3:]]
    through_output = ad.vjp(lambda *a: attend(*a, mask=mask), *arrays)[1](o_bar)
    through_weights = ad.vjp(of_eye, *with_eye)[1](a_bar)
    limits = equation(mask)(*map(exact, arrays))[1](exact(o_bar))
    limits_of_eye = equation(mask)(*map(exact, with_eye))[1](exact(a_bar))
    for i, bar in enumerate(both):
        expected, limit = through_output[i], limits[i]
        if i != 2:  # the weights do not depend on the value
            expected, limit = expected + through_weights[i], limit + limits_of_eye[i]
        assert_within(bar, expected, 2 * tolerance(limit, np.float64))


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


def test_single_query_is_the_case_of_one_row():
    """Attention Notes 10-14: similarities, softmax, convex combination, for one query and N pairs."""
    (query,), key, value = qkv(1, 5, 3, 2)
    scores = np.array([sum(k * query) for k in key]) / np.sqrt(3)
    alpha = printed.softmax(scores)
    assert (alpha >= 0).all()
    output = attention(query[None], key, value)
    assert output.shape == (1, 2)
    assert_within(output[0], alpha @ value, tolerance(rounded_output([query[None], key, value]), np.float64)[0])
    assert (output.min(0) >= value.min(0)).all()  # a mean lies among what it is of
    assert (output.max(0) <= value.max(0)).all()


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


def test_the_root_that_the_notes_drop_matters():
    query, key, value = (a.T for a in qkv(d=4))
    bound = tolerance(rounded_output([query.T, key.T, value.T]), np.float64).T
    with pytest.raises(AssertionError, match="beyond the bound"):
        assert_within(column_attention(query, key, value, scaled=False), column_attention(query, key, value), bound)


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


def ones(*shape):
    return np.ones(shape)


@pytest.mark.parametrize(
    ("arrays", "options", "error", "message"),
    [
        ((ones(2, 3), ones(4, 3), ones(4, 3)), {"method": "blocks", "return_weights": True}, ValueError,
         r"return_weights is True, .* use method='full'"),
        ((ones(2, 3), ones(4, 3), ones(4, 3)),
         {"method": "blocks", "similarity": "additive", "parameters": (ones(3, 1), ones(3, 1), ones(1))}, ValueError,
         r".* similarity is 'additive', .* use method='full'"),
    ],
)  # fmt: skip
def test_errors(arrays, options, error, message):
    form = grouped_attention if options.get("grouped_heads") else attention
    form = similarity_attention if {"similarity", "return_weights"} & options.keys() else form
    options = {name: option for name, option in options.items() if name != "grouped_heads"}
    with pytest.raises(error, match=rf"^(similarity_)?attention: {message}$"):
        form(*arrays, **options)
