"""Masks: the equation of Sivaraya (2023), eq. 7, which places are True, and what keeps hidden NaN from results."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.kernels import hidden
from refnp.layers import masks
from refnp.layers.masks import shielded, spoil
from refnp.layers.softmax import softmax
from refnp.numbers.arrays import fits
from refnp.numbers.rounding import exact, tolerance
from refnp.verify.layers import softmax as equations
from tests.helpers import assert_within, check, laid_out, normal, seeds
from tests.transcriptions import rows as printed

lengths = st.integers(0, 6)


@given(lengths, lengths)
def test_causal(queries, keys):
    top_left, bottom_right = masks.causal(queries, keys), masks.causal(queries, keys, align="bottom_right")
    assert top_left.shape == bottom_right.shape == (queries, keys)
    assert top_left.dtype == bottom_right.dtype == bool
    for i in range(queries):
        for j in range(keys):
            assert top_left[i, j] == (j <= i)
            assert bottom_right[i, j] == (j <= i + keys - queries)
    if queries and keys:
        assert bottom_right[-1].all()
    np.testing.assert_array_equal(masks.causal(queries), masks.causal(queries, queries, align="bottom_right"))


@pytest.mark.parametrize("before", [None, 0, 2])
@pytest.mark.parametrize("after", [None, 0, 2])
def test_window(before, after):
    mask = masks.window(4, 5, before, after)
    for n, m in np.ndindex(4, 5):
        assert mask[n, m] == ((before is None or n - before <= m) and (after is None or m <= n + after))


@given(st.lists(lengths, max_size=4), st.integers(6, 8))
def test_key_padding(real, keys):
    mask = masks.key_padding(np.array(real, int), keys)
    assert mask.shape == (len(real), 1, keys)
    for b, length in enumerate(real):
        assert mask[b, 0].tolist() == [True] * length + [False] * (keys - length)


def test_key_padding_of_batches_of_batches_and_of_one_sequence():
    assert masks.key_padding([[1, 2], [3, 0], [2, 2]], 4).shape == (3, 2, 1, 4)
    np.testing.assert_array_equal(masks.key_padding(2, 3), [[True, True, False]])


@given(st.lists(st.integers(0, 2), max_size=5), st.lists(st.integers(0, 2), max_size=5))
def test_blocks(query_segments, key_segments):
    mask = masks.blocks(query_segments, key_segments)
    assert mask.shape == (len(query_segments), len(key_segments))
    for i, j in np.ndindex(mask.shape):
        assert mask[i, j] == (query_segments[i] == key_segments[j])
    np.testing.assert_array_equal(masks.blocks(key_segments), masks.blocks(key_segments, key_segments))


def test_blocks_of_a_batch():
    mask = masks.blocks([[0, 0, 1], [0, 1, 1]])
    np.testing.assert_array_equal(mask[0], [[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    np.testing.assert_array_equal(mask[1], [[1, 0, 0], [0, 1, 1], [0, 1, 1]])


@given(seeds)
def test_combine_is_and(seed):
    rng = np.random.default_rng(seed)
    a, b, c = rng.random((2, 3, 4)) < 0.5, rng.random((3, 4)) < 0.5, rng.random((2, 1, 4)) < 0.5
    np.testing.assert_array_equal(masks.combine(a, None, b, c), a & b & c)
    np.testing.assert_array_equal(masks.combine(a), a)
    assert masks.combine() is masks.combine(None, None) is None


# ---- Sivaraya (2023), eq. 7

SCORES = np.array([[0.2, 0.3, 0.5, 0.1], [0.1, 0.2, 0.7, 0.0], [0.3, 0.4, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]])
RIGHT = [[1, 0, 0, 0], [0.4750, 0.5250, 0, 0], [0.3322, 0.3672, 0.3006, 0], [0.2138, 0.2363, 0.2612, 0.2887]]
AS_PRINTED = [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.4759, 0.3092, 0.2148, 0], [0.2824, 0.3072, 0.3333, 0.0771]]


def test_equation_7_has_these_rows():
    shown = np.where(masks.causal(4), SCORES, -np.inf)
    p = softmax(shown)
    assert_within(p, printed.softmax(shown), tolerance(equations.SOFTMAX.equation(exact(shown))[0], np.float64))
    half_a_digit = 0.5e-4
    assert_within(p, np.array(RIGHT), half_a_digit + 1e-15)


@pytest.mark.parametrize("row", [1, 2, 3])
def test_equation_7_does_not_have_the_rows_that_are_printed(row):
    shown = np.where(masks.causal(4), SCORES, -np.inf)
    with pytest.raises(AssertionError, match="beyond the bound"):
        assert_within(softmax(shown)[row], np.array(AS_PRINTED[row]), 0.5e-4 + 1e-15)


# ---- the shield

QUERY, KEY, VALUE = normal(0, (3, 2)), normal(1, (4, 2)), normal(2, (4, 5))
MASK = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]], bool)


def test_all_finite():
    assert hidden.all_finite(QUERY, None, KEY, np.ones(2, np.complex128))
    for bad in (np.nan, np.inf, -np.inf, complex(0, np.nan)):
        assert not hidden.all_finite(QUERY, np.array([1, bad]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.longdouble, np.complex128])
def test_moderate(dtype):
    """Numbers whose squares, and so whose inner products, are finite."""
    largest = np.sqrt(np.finfo(dtype).max)
    assert hidden.moderate(np.full(3, largest / 2, dtype), None, np.ones((2, 0), dtype))
    for bad in (np.nan, np.inf, -np.inf, 2 * largest):
        assert not hidden.moderate(QUERY, np.array([1, bad], dtype))
        assert not hidden.moderate(np.array([[bad], [0]], dtype)[:, ::-1])


def test_shield_puts_zeros_where_no_query_looks():
    *arrays, mask, (spoilt, lost) = shielded(QUERY, KEY, VALUE, None, MASK)
    np.testing.assert_array_equal(mask, MASK)
    used = np.array([1, 1, 0])[:, None], np.array([1, 1, 1, 0])[:, None], np.array([1, 1, 1, 0])[:, None]
    for shield, array, rows in zip(arrays, (QUERY, KEY, VALUE), used, strict=False):
        np.testing.assert_array_equal(shield, array * rows)
    assert arrays[3] is None
    np.testing.assert_array_equal(spoilt, np.zeros((3, 5)))
    np.testing.assert_array_equal(lost, np.zeros((3, 1)))


def test_what_heads_and_sequences_share_is_used_if_one_of_them_uses_it():
    mask = np.zeros((2, 3, 4, 5), bool)
    mask[1, 2, 0, 3] = True
    places = {(5,): (3,), (4, 5): (0, 3), (3, 1, 5): (2, 0, 3), (2, 1, 1, 1): (1, 0, 0, 0)}
    for shape, place in places.items():
        assert np.argwhere(hidden.used_elements(mask, shape)).tolist() == [list(place)]
    queries, keys, values = hidden.uses(
        mask[0, 0] | mask[1, 2], QUERY[:1].repeat(4, 0)[None], np.ones((5, 2)), np.ones((2, 5, 2))
    )
    assert np.argwhere(queries).tolist() == [[0]]
    assert np.argwhere(keys).tolist() == np.argwhere(values).tolist() == [[3]]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_queries_that_may_attend_to_a_bad_key_are_lost(bad):
    key = KEY.copy()
    key[2, 0] = bad
    query, key, *_, (spoilt, lost) = shielded(QUERY, key, VALUE, None, MASK)
    np.testing.assert_array_equal(query, QUERY * [[1], [1], [0]])
    np.testing.assert_array_equal(key[2], 1)  # seen, and so no 0, beside which a gradient that is NaN would be 0
    np.testing.assert_array_equal(lost, [[0], [np.nan], [0]])
    np.testing.assert_array_equal(spoilt, np.broadcast_to(lost, (3, 5)))


def test_a_bad_query_is_lost_unless_it_attends_to_nothing():
    query = np.full((3, 2), np.nan)
    query, *_, (_, lost) = shielded(query, KEY, VALUE, None, MASK)
    np.testing.assert_array_equal(query, [[1, 1], [1, 1], [0, 0]])
    np.testing.assert_array_equal(lost, [[np.nan], [np.nan], [0]])


def test_values_that_are_not_finite_add_up_feature_by_feature():
    value = VALUE.copy()
    value[0, :3] = np.inf, -np.inf, np.nan
    value[2, :4] = -np.inf, -np.inf, 1, np.inf
    value[3] = np.nan  # no query may attend to it
    _, _, value, _, _, (spoilt, lost) = shielded(QUERY, KEY, value, None, MASK)
    assert np.isfinite(value).all()
    np.testing.assert_array_equal(
        spoilt, [[np.inf, -np.inf, np.nan, 0, 0], [np.nan, -np.inf, np.nan, np.inf, 0], [0, 0, 0, 0, 0]]
    )
    np.testing.assert_array_equal(lost, 0)


def test_hidden_bias_has_no_effect_and_minus_infinity_is_weight_0():
    bias = np.array([[0, -np.inf, np.nan, np.inf], [np.nan, 1, 2, np.inf], [np.nan, np.inf, -np.inf, 0]])
    *_, finite, mask, (_, lost) = shielded(QUERY, KEY, VALUE, bias, MASK)
    np.testing.assert_array_equal(finite, np.where(MASK, np.where(np.isfinite(bias), bias, 1), 0))
    np.testing.assert_array_equal(mask, MASK & (bias != -np.inf))
    np.testing.assert_array_equal(lost, [[0], [np.nan], [0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.longdouble, np.complex128])
def test_spoil_adds_and_keeps_gradients_0_where_cotangents_are(dtype):
    amount = np.array([0, np.inf, -np.inf, np.nan, np.nan], dtype).real
    y, pullback = ad.vjp(lambda x: spoil(x, amount), np.ones(5, dtype))
    assert y.dtype == dtype
    np.testing.assert_array_equal(y.real, [1, np.inf, -np.inf, np.nan, np.nan])
    bar = np.array([2, 0, 3, 4, 0], dtype)
    np.testing.assert_array_equal(pullback(bar)[0].real, [2, 0, np.nan, np.nan, 0])
    check(lambda x: spoil(x, np.zeros(3)), (normal(0, 3),))


@pytest.mark.parametrize("layout", ["C", "F", "read-only", "strided", "reversed"])
def test_kept_keeps_the_layout(layout):
    x, places = laid_out(normal(0, (3, 4)), layout), np.array([[True], [False], [True]])
    y, pullback = ad.vjp(lambda x: masks.kept(x, places), x)
    np.testing.assert_array_equal(y, np.where(places, x, 0))
    assert y.strides == x.strides
    np.testing.assert_array_equal(pullback(np.ones((3, 4)))[0], np.broadcast_to(places, (3, 4)))
    assert masks.kept(x, np.ones((3, 1), bool)) is x
    check(lambda x: masks.kept(x, places), (normal(0, (3, 4)),))
    row = np.broadcast_to(np.arange(4.0), (3, 4))  # its rows are one and the same in memory
    np.testing.assert_array_equal(masks.kept(row, places), np.where(places, row, 0))


# ---- checks


@pytest.mark.parametrize(
    ("shape", "target", "answer"),
    [((), (2, 3), True), ((3,), (2, 3), True), ((2, 1), (2, 3), True), ((2,), (2, 3), False),
     ((1, 2, 3), (2, 3), False), ((2, 3), (1, 3), False), ((0,), (2, 0), True)],
)  # fmt: skip
def test_fits(shape, target, answer):
    assert fits(shape, target) is answer


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: masks.key_padding([1, 3], 2), ValueError, r"key_padding: lengths 1 … 3 must lie in 0 … keys = 2"),
        (lambda: masks.key_padding([-1], 2), ValueError, r"key_padding: lengths -1 … -1 must lie in 0 … keys = 2"),
        (lambda: masks.combine([True], [1]), TypeError, r"combine: a mask is int64; pass booleans, True = may attend"),
        (lambda: masks.combine(np.ones((2, 3), bool), None, np.ones(4, bool)), ValueError,
         r"combine: the shapes of mask 0 \(2, 3\), mask 1 \(4,\) do not broadcast; make them agree"),
    ],
)  # fmt: skip
def test_errors(call, error, message):
    with pytest.raises(error, match=rf"^{message}$"):
        call()
