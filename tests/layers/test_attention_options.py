"""Options of attention: softcap, sliding windows, additive masks, scores, dropout of weights; in every form."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.kernels import attention_blocks as page
from refnp.layers import MultiHeadAttention, masks
from refnp.layers.attention import attention, attention_with_weights, dropout_map
from refnp.layers.grouped_attention import grouped_attention
from refnp.layers.multi_head import merge_heads, split_heads
from refnp.layers.similarity import additive_scores, as_dot, similarity_attention
from refnp.layers.softmax import softmax
from refnp.numbers.parts import with_parts
from refnp.numbers.rounding import exact, tolerance
from refnp.verify.judged_pages import by_tape
from refnp.verify.layers import attention as equations
from tests.helpers import assert_same_bits, assert_within, check, normal, real_dtypes, seeds
from tests.layers.attention_problems import attend, qkv
from tests.layers.judges import assert_as_derived
from tests.layers.test_attention_blocks import blocks_of
from tests.transcriptions import rows as printed

METHODS = ["full", "blocks"]
lengths = st.integers(1, 7)


def generator():
    return np.random.default_rng(5)


# ---- softcap


@pytest.mark.parametrize("method", METHODS)
def test_a_softcap_of_saturated_rows_keeps_their_digits(method):
    """Scores near the cap have slopes near 0, and weights near 1: both are taken without a difference from 1."""
    query, key, value = np.array([[30.0]]), np.array([[2.0], [0.5], [-1.0]]), normal(0, (3, 2))
    arrays, bar = [query, key, value, np.array([[0.0, -40.0, 3.0]])], normal(1, (1, 2))
    found = ad.vjp(lambda *a: attention(*a, softcap=5.0, method=method), *arrays)[1](bar)
    uncancelled = by_tape(equations.of_similarity, {equations.weights_vjp: equations.in_any_form})
    expected = uncancelled(*map(exact, arrays), softcap=5.0)[1](exact(bar))
    for gradient, rounded in zip(found, expected, strict=True):
        assert_within(gradient, rounded.value, tolerance(rounded, np.float64))
        assert (tolerance(rounded, np.float64) < 1e-10 * np.abs(rounded.value)).all()


# ---- windows


def test_blocks_leave_out_what_a_window_hides():
    """Of 16 blocks the 7 on the diagonal and beside it."""
    arrays, mask = qkv(8, 8), masks.window(8, 8, 1, 0)
    with blocks_of(2, 2):
        with pytest.MonkeyPatch.context() as patch:
            calls = []
            real = page._scores
            patch.setattr(page, "_scores", lambda *a: calls.append(1) or real(*a))
            y = attention(*arrays, mask=mask, method="blocks")
        assert len(calls) == 7
    rounded = equations.attention(*map(exact, arrays), mask=mask)[0]
    assert_within(y, attention(*arrays, mask=mask), 2 * tolerance(rounded, np.float64))


def test_the_last_token_of_a_window_attends_to_so_many():
    """Mistral's window of 3 tokens; with a cache, the newest query is aligned with the newest key."""
    assert masks.window(5, 5, 2).sum(-1).tolist() == [1, 2, 3, 3, 3]
    assert masks.window(1, 5, 2, align="bottom_right").tolist() == [[False, False, True, True, True]]


# ---- dropout


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
@given(lengths, lengths, real_dtypes, st.booleans(), seeds)
def test_dropout(batch, method, n, m, dtype, masked, seed):
    """The equation and the transcription with the factors that were drawn, which are the same for every method."""
    arrays = [*qkv(n, m, 2, 3, batch, dtype, seed), normal(seed + 3, (*batch, n, m), dtype)]
    mask = np.random.default_rng(seed).random((n, m)) < 0.6 if masked else None
    with blocks_of(2, 3):
        shape = (*batch, n, m)
        factors = page.all_factors(page.dropout_factors(0.4, generator(), shape, np.dtype(dtype)), shape)
        drop = {dropout_map: lambda *_: lambda weights: weights * factors}
        equation = functools.partial(with_parts(equations.attention, drop), mask=mask)
        options = {"mask": mask, "dropout": 0.4}
        y, rounded = assert_as_derived(attend, equation, arrays, rng=generator(), method=method, **options)
        other, weights = attention_with_weights(*arrays, rng=generator(), **options)
    assert set(np.unique(factors)) <= {dtype(0), dtype(1 / (1 - np.longdouble(0.4)))}
    eye = np.broadcast_to(np.eye(m, dtype=dtype), (*batch, m, m))
    limit = tolerance(equation(*map(exact, [*arrays[:2], eye, arrays[3]]))[0], dtype)
    for at in np.ndindex(batch):
        right, right_weights = printed.attention(*(a[at] for a in arrays[:3]), mask, arrays[3][at], factors=factors[at])
        for found in (y, other):
            assert_within(found[at], right, tolerance(rounded, dtype)[at])
        assert_within(weights[at], right_weights, limit[at])


def test_dropout_draws_once_and_of_the_generator():
    """Another call, other draws; the same seed, the same; in 10⁵ draws a fraction p is dropped; none without one."""
    query, key, value = qkv(300, 400)
    rng = generator()
    weights = [attention_with_weights(query, key, value, dropout=0.25, rng=r)[1] for r in (rng, rng, generator())]
    assert (weights[0] != weights[1]).any()
    assert_same_bits(weights[0], weights[2])
    dropped = (weights[0] == 0).mean()
    assert abs(dropped - 0.25) < 5 * np.sqrt(0.25 * 0.75 / weights[0].size)
    for options in ({"dropout": 0.25}, {"dropout": 0.0, "rng": generator()}):
        assert_same_bits(attention(query, key, value, **options), attention(query, key, value))


# ---- other forms


@pytest.mark.parametrize("similarity", ["scaled_dot", "dot", "cosine", "additive"])
def test_similarities_take_the_options(similarity):
    """A softcap is c tanh(s/c) of their scores; dropped weights are 0 or divided by 1 − p."""
    query, key, value = qkv()
    parameters = tuple(normal(i, s) for i, s in enumerate([(2, 3), (2, 3), (3,)])) if similarity == "additive" else ()
    options = {"similarity": similarity, "parameters": parameters, "return_weights": True}
    if similarity == "additive":
        right = softmax(0.5 * np.tanh(additive_scores(query, key, *parameters) / 0.5)) @ value
    else:
        query, key, scale = as_dot(query, key, similarity, parameters)
        right = attention(query, key, value, scale=scale, softcap=0.5)
    output, weights = similarity_attention(*qkv(), softcap=0.5, **options)
    assert_same_bits(output, right)
    _, dropped = similarity_attention(*qkv(), softcap=0.5, dropout=0.5, rng=generator(), **options)
    assert_same_bits(dropped, np.where(dropped == 0, 0, 2 * weights))
    assert (dropped == 0).any()


def test_grouped_heads_and_multi_head_attention_take_the_options():
    query, key, value = normal(0, (4, 3, 2)), normal(1, (2, 5, 2)), normal(2, (2, 5, 2))
    options = {"softcap": 1.5, "dropout": 0.5}
    y, weights = grouped_attention(query, key, value, rng=generator(), return_weights=True, **options)
    repeated = attention_with_weights(
        query.reshape(2, 2, 3, 2), key[:, None], value[:, None], rng=generator(), **options
    )
    assert_same_bits(y, repeated[0].reshape(4, 3, 2))
    assert_same_bits(weights, repeated[1].reshape(4, 3, 5))
    assert (weights == 0).any()
    heads = MultiHeadAttention(6, 2, rng=np.random.default_rng(0), **options)
    x = normal(3, (2, 5, 6))
    plain = MultiHeadAttention(6, 2, softcap=1.5, rng=np.random.default_rng(0))
    assert_same_bits(heads(x), plain(x))
    y, weights = heads(x, rng=generator(), return_weights=True)
    assert (weights == 0).any()
    assert_same_bits(y, heads(x, rng=generator()))
    check(lambda x: heads(x, rng=generator()), [x])
    projected = (split_heads(linear(x), 2) for linear in (plain.query, plain.key, plain.value))
    assert_same_bits(plain(x), plain.output(merge_heads(attention(*projected, softcap=1.5))))
