"""T5 buckets and ALiBi slopes: published values, the formulas index by index, and attention with them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.layers import masks
from refnp.layers.positions.biases import ALiBi, T5Bias, alibi_slopes, t5_buckets
from refnp.layers.softmax import softmax
from tests.helpers import assert_same_bits, assert_within, generator, seeds, unit_roundoff
from tests.layers.positions.judges import at_random
from tests.transcriptions import positions as written

# ---- T5: buckets


def test_published_buckets():
    """32 buckets, distance 128, both directions: key before the query, itself, after it."""
    offsets = [-1, 0, 1, 7, 8, 16, 64, 90, 91, 1000, -8, -1000]
    np.testing.assert_array_equal(t5_buckets(offsets), [1, 0, 17, 23, 24, 26, 30, 30, 31, 31, 8, 15])
    assert t5_buckets(-1) == 1
    assert t5_buckets(-(2**63)) == 15  # which has no positive of its own
    assert t5_buckets(-100, max_distance=10**300) == 8


def test_published_causal_buckets():
    """All 32 look back: 16 one by one; and what comes after the query is in bucket 0 with it."""
    offsets = [5, 1, 0, -1, -15, -16, -17, -128, -1000]
    np.testing.assert_array_equal(t5_buckets(offsets, bidirectional=False), [0, 0, 0, 1, 15, 16, 16, 31, 31])


@given(st.integers(1, 20), st.integers(1, 300), st.booleans(), st.lists(st.integers(-500, 500), max_size=5))
def test_the_formula_with_fifty_digits(half, beyond, bidirectional, offsets):
    buckets = 4 * half if bidirectional else 2 * half
    options = {"buckets": buckets, "max_distance": half + beyond, "bidirectional": bidirectional}
    expected = [written.t5_bucket(offset, **options) for offset in offsets]
    np.testing.assert_array_equal(t5_buckets(np.array(offsets, int), **options), expected)


def test_logarithms_in_float32_agree_for_the_usual_numbers():
    """As transformers and mesh-tensorflow compute it: min(15, 8 + ⌊log(n/8)/log(128/8) · 8⌋) in float32."""
    n = np.arange(1, 5000, dtype=np.float32)
    far = 8 + (np.log(n / 8) / np.float32(math.log(16)) * 8).astype(np.int64)
    np.testing.assert_array_equal(t5_buckets(-np.arange(1, 5000)), np.where(n < 8, n, np.minimum(far, 15)))


def test_logarithms_in_floats_are_wrong_elsewhere():
    """5 buckets for 5 … 160 = 5 · 2⁵, so that bucket 6 begins at 10: log(2)/log(32) · 5 is 1, and less in floats."""
    assert 5 + int(math.log(10 / 5) / math.log(160 / 5) * 5) == 5
    options = {"buckets": 10, "max_distance": 160, "bidirectional": False}
    assert t5_buckets(-10, **options) == written.t5_bucket(-10, **options) == 6


@given(st.integers(1, 8).map(lambda k: 4 * k), st.integers(9, 200))
def test_buckets_grow_with_the_distance_and_are_all_in_use(buckets, max_distance):
    before = t5_buckets(-np.arange(max_distance + 1), buckets=buckets, max_distance=max_distance)
    after = t5_buckets(np.arange(max_distance + 1), buckets=buckets, max_distance=max_distance)
    assert (np.diff(before) >= 0).all()
    np.testing.assert_array_equal(after[1:], before[1:] + buckets // 2)
    assert before[-1] == buckets // 2 - 1


@pytest.mark.parametrize(
    "options",
    [{"buckets": 3}, {"buckets": 2}, {"buckets": 33}, {"max_distance": 8}, {"buckets": 1, "bidirectional": False}],
)
def test_impossible_buckets(options):
    said = r"\w+ is \d+, (buckets is \d+, )?bidirectional is \w+; pass (an even|2 or more|a larger)"
    with pytest.raises(ValueError, match=f"^t5_buckets: {said}"):
        t5_buckets([1], **options)
    with pytest.raises(ValueError, match=f"^T5Bias: {said}"):
        T5Bias(2, **options, rng=generator())


# ---- T5: attention


def t5(dtype=np.float64, seed=0, **options):
    return at_random(T5Bias(2, buckets=8, max_distance=6, **options, rng=generator()), seed).astype(dtype)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(-9, 9), st.booleans(), seeds)
def test_t5_scores_pair_by_pair(n, m, start, bidirectional, seed):
    """Along diagonals and gathered: the number of the pair's bucket, to the last bit."""
    scheme = t5(seed=seed, bidirectional=bidirectional)
    query, places = np.zeros((2, n, 3)), (start + np.arange(n), np.arange(m))
    s = scheme.scores(query, *places).numpy()
    assert s.shape == (2, n, m)
    for h, i, j in np.ndindex(s.shape):
        bucket = written.t5_bucket(int(places[1][j] - places[0][i]), 8, 6, bidirectional)
        assert s[h, i, j] == scheme.table.data[h, bucket]
    order = generator(seed).permutation(n)
    assert_same_bits(scheme.scores(query, places[0][order], places[1]).numpy(), s[:, order])


# ---- ALiBi


@pytest.mark.parametrize(
    ("heads", "exponents"),
    [
        (1, [8]),
        (2, [4, 8]),
        (8, [1, 2, 3, 4, 5, 6, 7, 8]),
        (16, [h / 2 for h in range(1, 17)]),
        (3, [4, 8, 2]),
        (6, [2, 4, 6, 8, 1, 3]),
        (12, [1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]),
    ],
)
def test_published_slopes(heads, exponents):
    """2^(−8h/H) for powers of two; for others those of the power below, then every other one of the power above."""
    assert_within(alibi_slopes(heads), np.exp2(-np.array(exponents, np.longdouble)), unit_roundoff(np.longdouble))


def test_the_plain_formula_for_12_heads_is_another_convention():
    assert np.abs(alibi_slopes(12) - 2.0 ** (-8 * np.arange(1, 13) / 12)).max() > 0.1


def test_causal_alibi_is_the_symmetric_one_under_a_causal_mask():
    """−m (i − j) for j ≤ i as in the paper; and m j, as in its code: a row's constant −m i changes no softmax.

    Slopes are powers of two and scores here small integers, so that all sums are exact.
    """
    run, mask = np.arange(6), masks.causal(6)
    query = generator().integers(-3, 3, (4, 6, 2)).astype(float)
    content = query @ query.swapaxes(-1, -2)
    slopes = alibi_slopes(4).astype(float)[:, None, None]
    ours = content + ALiBi(4).scores(query, run, run)
    paper, code = content - slopes * (run[:, None] - run), content + slopes * run
    np.testing.assert_array_equal(np.where(mask, ours, 0), np.where(mask, paper, 0))
    ours_seen, paper_seen, code_seen = (softmax(np.where(mask, s, -np.inf)) for s in (ours, paper, code))
    assert_same_bits(ours_seen, paper_seen)
    assert_same_bits(ours_seen, code_seen)
    assert not np.array_equal(ours, paper)  # without the mask they differ: the paper's would favour the future
