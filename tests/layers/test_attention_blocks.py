"""Attention in blocks: the full form to rounding at every border, the same bits on any threads, and little memory."""

import contextlib
import tracemalloc
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.kernels import attention_blocks as page
from refnp.kernels.softmax import REACH
from refnp.layers import masks
from refnp.layers.attention import attention
from refnp.numbers.rounding import exact, tolerance
from tests.helpers import REAL, assert_within, normal, seeds
from tests.layers.attention_problems import equation, problems, qkv, rounded_output
from tests.layers.judges import assert_as_derived

sizes = st.integers(1, 4)
KERNELS = (np.float32, np.float64)  # longdouble takes the page


@contextlib.contextmanager
def blocks_of(queries, keys):
    """Blocks so small that a handful of tokens fills several."""
    with (
        mock.patch.object(page, "QUERY_BLOCK", queries),
        mock.patch.object(page, "KEY_BLOCK", keys),
    ):
        yield


def in_blocks(query, key, value, bias=None, **options):
    """attention in blocks with the bias among the arrays."""
    return attention(query, key, value, bias=bias, method="blocks", **options)


def in_full(query, key, value, bias=None, **options):
    return attention(query, key, value, bias=bias, method="full", **options)


@given(problems(lengths=(1, 9)), sizes, sizes)
def test_value_and_every_gradient(problem, queries, keys):
    arrays, mask = problem
    with blocks_of(queries, keys):
        assert_as_derived(in_blocks, equation(mask), arrays, mask=mask)


# ---- masks


@given(problems(lengths=(1, 9), with_mask=True), sizes, sizes)
def test_rows_of_nothing_and_blocks_of_nothing(problem, queries, keys):
    """Whole stretches hidden: 0 where nothing is allowed, and else what the full form gives."""
    arrays, mask = problem
    leading = np.broadcast_shapes(*(a.shape[:-2] for a in arrays[:3]))
    mask = np.broadcast_to(mask, (*leading, arrays[0].shape[-2], arrays[1].shape[-2])).copy()
    mask[..., : mask.shape[-1] // 2] = mask[..., :1, :] = False
    with blocks_of(queries, keys):
        y, pullback = ad.vjp(lambda *a: in_blocks(*a, mask=mask), *arrays)
        bars = pullback(np.ones_like(y))
    assert (y[~mask.any(-1)] == 0).all()
    assert all(np.isfinite(bar).all() for bar in bars)
    assert_within(y, in_full(*arrays, mask=mask), 2 * tolerance(rounded_output(arrays, mask), y.dtype))


def test_hidden_blocks_are_not_computed():
    """Under a causal mask, 10 of 16 blocks are; forward and backward."""
    arrays = qkv(8, 8)
    with (
        blocks_of(2, 2),
        mock.patch.object(page, "_scores", wraps=page._scores) as scores,
    ):
        y, pullback = ad.vjp(lambda *a: in_blocks(*a, mask=masks.causal(8)), *arrays)
        assert scores.call_count == 10
        pullback(y)
        assert scores.call_count == 20


@pytest.mark.parametrize(
    "values", [[0, 0, 800, 800], [800, -800, 0, 801], [-np.inf, -np.inf, 1, 2], [-1e30, 1e30, 0, 1]]
)
def test_the_maximum_may_come_in_any_block(values):
    """What was added up is brought to the new maximum; nothing overflows, and hidden beginnings do no harm."""
    bias = np.array([values, values[::-1]], float)
    query, key, value = np.zeros((2, 1)), np.zeros((4, 1)), normal(0, (4, 3))
    limits = rounded_output([query, key, value, bias])
    for keys in (1, 2, 3):
        with blocks_of(1, keys):
            y, pullback = ad.vjp(in_blocks, query, key, value, bias)
            assert all(np.isfinite(bar).all() for bar in pullback(np.ones_like(y)))
        assert_within(y, limits.value, tolerance(limits, np.float64))


@pytest.mark.parametrize("form", [in_full, in_blocks])
@given(seeds)
def test_large_scores_that_are_exact_lose_nothing(form, seed):
    """Scores 16384 + s with s of a few bits are exact in float32, and so is their distance from the maximum: output
    and gradient are as good as those of s. (With the logarithm of the sum added to 16384, 11 bits would be lost.)"""
    rng = np.random.default_rng(seed)
    small = (rng.integers(-1024, 1024, (3, 6)) / 256).astype(np.float32)
    query, key, value = np.zeros((3, 1), np.float32), np.zeros((6, 1), np.float32), normal(seed, (6, 2), np.float32)
    rounded, rounded_pullback = equation()(*map(exact, (query, key, value, small)))
    with blocks_of(2, 4):
        y, pullback = ad.vjp(form, query, key, value, small + np.float32(16384))
        bar = normal(seed + 1, y.shape, np.float32)
        _, _, value_bar, bias_bar = pullback(bar)
    limits = rounded_pullback(exact(bar))
    assert_within(y, rounded.value, tolerance(rounded, np.float32))
    assert_within(value_bar, limits[2].value, tolerance(limits[2], np.float32))
    assert_within(bias_bar, limits[3].value, tolerance(limits[3], np.float32))


# ---- threads and memory


@pytest.mark.parametrize("dtype", KERNELS)
@pytest.mark.parametrize(("size", "found"), [(0, [True] * 4), (0.8, [False] * 4), (2, [])])
def test_a_maximum_only_where_it_is_needed(monkeypatch, size, found, dtype):
    """Small scores need none; where a weight is more than ½ it is taken after all, and large scores are not tried.

    Two blocks of queries in two heads. The bounds of values and gradients hold in each case.
    """
    q, k, v = qkv(6, 9, 3, batch=(2,), dtype=dtype)
    q, k = q / 100, k / 100
    q[..., 0] += size * REACH[np.dtype(dtype)] * 3**0.5  # the score of the first key, in units of what is small
    k[:, 0, 0] += 1
    tried, real = [], page._softmax_of_small
    monkeypatch.setattr(page, "_softmax_of_small", lambda *a: tried.append(real(*a)) or tried[-1])
    with blocks_of(3, 4):
        in_blocks(q, k, v)
        assert [one is not None for one in tried] == found
        assert_as_derived(in_blocks, equation(None), [q, k, v], mask=None)


@pytest.mark.parametrize("dtype", [*KERNELS, np.float16])
def test_sums_of_large_values_do_not_overflow(dtype):
    """Scores so small that exp(s) needs no maximum, but exp(s) v does. Exact, for all exp(s − m) are 1."""
    q, k = np.full((3, 1), 0.8 * REACH[np.dtype(dtype)], dtype), np.ones((8, 1), dtype)
    v = np.full((8, 2), np.ldexp(dtype(1), np.finfo(dtype).maxexp - 5), dtype)
    with blocks_of(2, 4):
        np.testing.assert_array_equal(in_blocks(q, k, v, scale=1), v[:3])


@pytest.mark.parametrize("score", [-0.8, 0.8])
@pytest.mark.parametrize("dtype", KERNELS)
def test_products_of_tiny_values_and_gradients_do_not_underflow(dtype, score):
    """exp(s) v of small scores, and the gradient divided by Σ exp(s) of large ones. Exact, for all exp(s − m) are 1."""
    q, k = np.full((4, 1), score * REACH[np.dtype(dtype)], dtype), np.ones((8, 1), dtype)
    v = np.full((8, 2), np.ldexp(dtype(1), np.finfo(dtype).minexp + 3), dtype)
    with blocks_of(2, 4):
        y, pullback = ad.vjp(lambda v: in_blocks(q, k, v, scale=1), v)
        np.testing.assert_array_equal(y, v[:4])
        np.testing.assert_array_equal(pullback(y)[0], v / 2)


@pytest.mark.parametrize("form", [in_blocks, in_full])
def test_sums_of_many_exponentials_do_not_overflow(form):
    """Exact in float16, for the sum of 8192 equal weights is a power of two."""
    q, k, v = np.full((3, 1), 2.5, np.float16), np.ones((8192, 1), np.float16), np.ones((8192, 2), np.float16)
    np.testing.assert_array_equal(form(q, k, v, scale=1), v[:3])


def test_queries_whose_squares_overflow_and_keys_of_0():
    q, k, v = np.full((3, 2), 1e30, np.float32), np.zeros((8, 2), np.float32), np.ones((8, 2), np.float32)
    np.testing.assert_array_equal(in_blocks(q, k, v), v[:3])


def peak(form, n):
    """Bytes that forward and backward of a sequence of n tokens allocate at most, beyond their arguments."""
    arrays = qkv(n, n, 16, 16)
    tracemalloc.start()
    try:
        y, pullback = ad.vjp(form, *arrays)
        pullback(y)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_grows_with_the_length_not_with_its_square():
    """The full form holds all N M scores, more than once; in blocks there are a few rows per token and a few blocks."""
    n, threads = 2048, ad.get_threads()
    scores, tokens = 8 * n * n, 8 * n * 16
    block = 8 * page.QUERY_BLOCK * page.KEY_BLOCK
    try:
        ad.set_threads(1)
        assert peak(in_blocks, n) < 12 * tokens + 4 * block < scores / 4
        assert peak(in_blocks, 2 * n) < 12 * 2 * tokens + 4 * block
    finally:
        ad.set_threads(threads)
    assert peak(in_full, n // 2) > scores / 4


@pytest.mark.parametrize("dtype", REAL)
def test_blocks_of_their_own_size(dtype):
    """Not patched: N and M a little more than one block (but in longdouble, which no BLAS multiplies, M alone)."""
    n, m = page.QUERY_BLOCK + 3 if dtype != np.longdouble else 3, page.KEY_BLOCK + 5
    arrays = qkv(n, m, 4, 2, dtype=dtype)
    y = attention(*arrays, scale=dtype(0.5), method="blocks")
    assert_within(y, in_full(*arrays), 2 * tolerance(rounded_output(arrays), dtype))
