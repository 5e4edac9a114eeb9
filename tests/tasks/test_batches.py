"""Batches: every pair once, shifted by one, padded at the ends, and the same again from the same generator."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.tasks.sequences import batch_of, batches
from refnp.tasks.words import END, PAD, START
from tests.helpers import seeds

sequences = st.lists(st.integers(4, 9), max_size=6)
pair_lists = st.lists(st.tuples(sequences, sequences), min_size=1, max_size=20)


def rows(batch):
    """The pairs that are in a batch."""
    return [
        (tuple(source[source != PAD]), tuple(out[(out != PAD) & (out != END)]))
        for source, out in zip(batch.source, batch.target_out, strict=True)
    ]


def as_tuples(pairs):
    return [(tuple(source), tuple(target)) for source, target in pairs]


@given(pair_lists)
def test_a_batch_is_its_pairs(pairs):
    batch = batch_of(pairs)
    assert rows(batch) == as_tuples(pairs)
    longest = max(len(target) for _, target in pairs) + 1
    assert batch.source.shape == (len(pairs), max(len(source) for source, _ in pairs))
    assert batch.target_in.shape == batch.target_out.shape == (len(pairs), longest)
    assert len(batch) == len(pairs)
    for i, (source, target) in enumerate(pairs):
        assert list(batch.target_in[i]) == [START, *target] + [PAD] * (longest - len(target) - 1)
        assert list(batch.target_out[i]) == [*target, END] + [PAD] * (longest - len(target) - 1)
        assert batch.source_mask[i].sum() == len(source)
        assert batch.target_mask[i].sum() == len(target) + 1
        assert list(batch.source_mask[i]) == sorted(batch.source_mask[i], reverse=True)  # padding is at the end


@given(pair_lists)
def test_what_the_decoder_sees_is_what_it_said_before(pairs):
    batch = batch_of(pairs)
    seen, said = batch.target_in[:, 1:], batch.target_out[:, :-1]
    assert (batch.target_in[:, 0] == START).all()
    assert ((seen == said) | ((said == END) & (seen == PAD))).all()


def test_empty_sentences():
    batch = batch_of([([], []), ([5], [6, 7])])
    assert batch.source.tolist() == [[PAD], [5]]
    assert batch.target_in.tolist() == [[START, PAD, PAD], [START, 6, 7]]
    assert batch.target_out.tolist() == [[END, PAD, PAD], [6, 7, END]]
    assert batch_of([([], [])]).source.shape == (1, 0)


@given(pair_lists, st.integers(1, 7), seeds)
def test_an_epoch_holds_every_pair_once(pairs, size, seed):
    epoch = batches(pairs, size, np.random.default_rng(seed))
    assert sorted(row for batch in epoch for row in rows(batch)) == sorted(as_tuples(pairs))
    assert len(epoch) == -(-len(pairs) // size)
    assert all(1 <= len(batch) <= size for batch in epoch)


@given(pair_lists, st.integers(1, 7), seeds)
def test_a_generator_gives_the_same_epoch_again(pairs, size, seed):
    first, again = (batches(pairs, size, np.random.default_rng(seed)) for _ in range(2))
    for a, b in zip(first, again, strict=True):
        for name in ("source", "target_in", "target_out"):
            assert np.array_equal(getattr(a, name), getattr(b, name))


def test_epochs_differ_and_their_batches_too():
    pairs = [([4 + i], [4 + i]) for i in range(50)]
    rng = np.random.default_rng(0)
    first, second = (batches(pairs, 5, rng) for _ in range(2))
    assert [rows(batch) for batch in first] != [rows(batch) for batch in second]
    assert {frozenset(rows(batch)) for batch in first} != {frozenset(rows(batch)) for batch in second}


def test_little_is_padding():
    rng = np.random.default_rng(0)
    pairs = [([5] * n, [5] * n) for n in rng.integers(1, 11, 400)]
    by_length = batches(pairs, 20, rng)
    by_chance = [batch_of([pairs[i] for i in rows]) for rows in rng.permutation(400).reshape(20, 20)]
    wasted = [1 - np.mean(np.concatenate([b.target_mask.ravel() for b in epoch])) for epoch in (by_length, by_chance)]
    assert wasted[0] < 0.05 < 0.3 < wasted[1]
    lengths = [batch.source.shape[1] for batch in by_length]
    assert lengths != sorted(lengths)  # short ones do not come first


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: batch_of([]), ValueError, "there are no pairs"),
        (lambda: batch_of([([4.5], [5])]), TypeError, "a sequence is float64; pass integers"),
        (lambda: batch_of([(["je"], [5])]), TypeError, "a sequence is <U2"),
        (lambda: batch_of([([[4]], [5])]), ValueError, r"shape \(1, 1\)"),
        (lambda: batches([([4], [5])], 0, np.random.default_rng(0)), ValueError, "size is 0"),
    ],
)
def test_bad_arguments_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_no_pairs_are_no_batches():
    assert batches([], 4, np.random.default_rng(0)) == []
