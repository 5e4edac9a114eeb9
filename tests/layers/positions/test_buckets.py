"""Pairs: reading by bucket and along diagonals, against loops; their gradients, which are one another; memory."""

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.autograd.pages import plain
from refnp.layers.positions.relative import is_run, read_buckets, read_diagonals, sum_buckets, sum_diagonals
from tests.helpers import (
    assert_same_bits,
    assert_within,
    dtypes,
    laid_out,
    layouts,
    normal,
    seeds,
    shapes,
    unit_roundoff,
)

lengths = st.integers(1, 5)
batches = shapes(axes=(0, 2), longest=2)


def diagonal_buckets(n, m, count, shift):
    """clip(j − i + shift, 0, L − 1), pair by pair."""
    return np.array([[min(max(j - i + shift, 0), count - 1) for j in range(m)] for i in range(n)]).reshape(n, m)


def read(x, buckets):
    """y_ij = x_{i, b(i, j)}, pair by pair."""
    y = np.zeros((*x.shape[:-1], buckets.shape[1]), x.dtype)
    for i, j in np.ndindex(buckets.shape):
        y[..., i, j] = x[..., i, buckets[i, j]]
    return y


def added(y, buckets, count):
    """(Σ_{j: b(i, j) = r} y_ij, the largest error of that sum): in the widest precision, and (M − 1) u Σ|y|."""
    wide = np.clongdouble if y.dtype.kind == "c" else np.longdouble
    x, size = np.zeros((*y.shape[:-1], count), wide), np.zeros((*y.shape[:-1], count), np.longdouble)
    for i, j in np.ndindex(buckets.shape):
        x[..., i, buckets[i, j]] += y[..., i, j]
        size[..., i, buckets[i, j]] += np.abs(y[..., i, j])
    return x, 2 * max(y.shape[-1] - 1, 0) * unit_roundoff(y.real.dtype) * size


@given(batches, st.integers(0, 5), st.integers(0, 5), lengths, dtypes, layouts, seeds)
def test_any_buckets(batch, n, m, count, dtype, layout, seed):
    buckets = np.random.default_rng(seed).integers(0, count, (n, m))
    x, y = (
        laid_out(normal(seed, (*batch, n, count), dtype), layout),
        laid_out(normal(seed, (*batch, n, m), dtype), layout),
    )
    assert_same_bits(read_buckets(x, buckets=buckets), read(x, buckets))
    value = sum_buckets(y, buckets=buckets, count=count)
    assert value.dtype == dtype
    assert_within(value, *added(y, buckets, count))


@given(batches, lengths, lengths, lengths, st.integers(-12, 12), dtypes, layouts, seeds)
def test_diagonals_are_buckets(batch, n, m, count, shift, dtype, layout, seed):
    """Reading gives the very numbers; adding up differs in the order of the sum."""
    buckets = diagonal_buckets(n, m, count, shift)
    x, y = (
        laid_out(normal(seed, (*batch, n, count), dtype), layout),
        laid_out(normal(seed, (*batch, n, m), dtype), layout),
    )
    assert_same_bits(read_diagonals(x, shift=shift, keys=m), read(x, buckets))
    value = sum_diagonals(y, shift=shift, count=count)
    assert value.dtype == dtype
    assert_within(value, *added(y, buckets, count))


@given(batches, lengths, lengths, lengths, st.integers(-12, 12), seeds)
def test_page_and_kernel_of_diagonals(batch, n, m, count, shift, seed):
    """Whole numbers, whose sums are exact: the same bits."""
    x, y = (np.rint(9 * normal(seed + i, (*batch, n, length))) for i, length in enumerate((count, m)))
    found = [read_diagonals(x, shift=shift, keys=m), sum_diagonals(y, shift=shift, count=count)]
    with plain():
        of_page = [read_diagonals(x, shift=shift, keys=m), sum_diagonals(y, shift=shift, count=count)]
    for one, other in zip(found, of_page, strict=True):
        np.testing.assert_array_equal(one, other)


@given(lengths, lengths, lengths, st.integers(-6, 6), seeds)
def test_reading_and_adding_up_are_adjoint(n, m, count, shift, seed):
    """⟨y, read x⟩ = ⟨sum y, x⟩, which integers make exact."""
    rng = np.random.default_rng(seed)
    x, y = rng.integers(-9, 9, (2, n, count)).astype(float), rng.integers(-9, 9, (2, n, m)).astype(float)
    expected = (y * read_diagonals(x, shift=shift, keys=m)).sum()
    assert (sum_diagonals(y, shift=shift, count=count) * x).sum() == expected
    _, pullback = ad.vjp(lambda x: read_diagonals(x, shift=shift, keys=m), x)
    assert_same_bits(pullback(y)[0], sum_diagonals(y, shift=shift, count=count))


def test_memory_is_that_of_the_scores():
    """Vectors of 64 for all pairs would be 64 times the scores. Allowed are 8 times: a band of twice their size along
    diagonals; with buckets places, their order, and numbers in that order."""
    n, scores = 512, 512 * 512 * 8
    x, y, buckets = normal(0, (n, 33)), normal(1, (n, n)), diagonal_buckets(n, n, 33, 16)
    for work in (
        lambda: read_diagonals(x, shift=16, keys=n),
        lambda: sum_diagonals(y, shift=16, count=33),
        lambda: sum_buckets(y, buckets=buckets, count=33),
        lambda: read_buckets(x, buckets=buckets),
    ):
        tracemalloc.start()
        work()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 8 * scores


def test_runs():
    assert is_run(np.array([4, 5, 6]))
    assert is_run(np.array([-7]))
    assert not is_run(np.array([], int))
    assert not is_run(np.array([0, 2, 3]))
    assert not is_run(np.array([2, 1, 0]))
    assert not is_run(np.array([[0, 1]]))
