"""What is drawn: counts within their bounds and as often, places within their ranges, masks that fit."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.tasks.task import Places, check_draw, check_hyper_parameter, drawn_number, drawn_sizes, size_mask, zeroed
from tests.helpers import assert_same_bits, seeds


def first_input(x):
    return x[..., :1]


@given(seeds, st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(1, 3), st.booleans())
def test_counts_places_and_masks_fit_together(seed, low, more, targets, dx, ragged):
    places = Places((low, low + more), (0, targets), (-1.0, 1.0), (2.0, 3.0), dx=dx, ragged=ragged)
    task = places.task(np.random.default_rng(seed), 4, first_input)
    assert task.context_x.shape == (4, task.context_y.shape[1], dx)
    assert low <= task.context_x.shape[1] <= low + more
    assert task.target_x.shape[1] <= targets
    assert (np.abs(task.context_x) <= 1).all()
    assert ((task.target_x >= 2) & (task.target_x <= 3))[task.target_present].all()
    assert_same_bits(task.target_y, task.target_x[..., :1])
    assert (task.context_mask is None) == (task.target_mask is None) == (not ragged)
    if ragged:
        counts = task.context_mask.sum(1)
        assert counts.max() == task.context_mask.shape[1]  # no longer than needed
        assert (counts >= low).all()
        assert_same_bits(task.context_mask, size_mask(counts, ragged=True))
        for array, mask in ((task.context_x, task.context_mask), (task.target_y, task.target_mask)):
            assert not array[~mask].any()


@pytest.mark.parametrize("ragged", [False, True])
def test_counts_are_uniform_and_targets_leave_room(ragged):
    """N_c ∈ {3 … 46} each with probability 1/44, then N_t ∈ {3 … 49 − N_c}: 50 expected, within 5 √50."""
    rng = np.random.default_rng(0)
    drawn = np.zeros((50, 50), int)
    for _ in range(2200 if not ragged else 1):
        batch = 1 if not ragged else 2200
        contexts = drawn_sizes(rng, 3, 46, batch, ragged=ragged)
        targets = drawn_sizes(rng, 3, 49 - contexts, batch, ragged=ragged)
        np.add.at(drawn, (contexts, targets), 1)
    by_contexts = drawn.sum(1)
    assert not by_contexts[[0, 1, 2, 47, 48, 49]].any()
    assert np.abs(by_contexts[3:47] - 50).max() < 5 * math.sqrt(50)
    sums = np.add.outer(np.arange(50), np.arange(50))
    assert not drawn[sums > 49].any()
    assert not drawn[:, :3].any()
    expected = sum(np.where((np.arange(50) >= 3) & (np.arange(50) <= 49 - c), 50 / (47 - c), 0) for c in range(3, 47))
    assert (np.abs(drawn.sum(0) - expected) <= 5 * np.sqrt(expected) + 1e-9).all()


def test_shared_counts_are_the_same_in_a_batch():
    counts = drawn_sizes(np.random.default_rng(0), 0, 100, 16, ragged=False)
    assert counts.shape == (16,)
    assert len(set(counts.tolist())) == 1
    assert len(set(drawn_sizes(np.random.default_rng(0), 0, 100, 16, ragged=True).tolist())) > 1


def test_places_are_uniform():
    """Mean and mean square of U(−2, 2) are 0 ± 1.155/√n and 4/3 ± 1.19/√n; five of these."""
    places = Places((50, 50), (50, 50), ragged=False, dx=2)
    x = np.concatenate(
        [getattr(places.task(np.random.default_rng(0), 100, first_input), f"{k}_x") for k in ("context", "target")]
    )
    assert abs(x.mean()) < 5 * 1.155 / math.sqrt(x.size)
    assert abs((x * x).mean() - 4 / 3) < 5 * 1.19 / math.sqrt(x.size)


def test_numbers_are_fixed_or_drawn():
    rng = np.random.default_rng(0)
    assert drawn_number(rng, 0.25, 3) == 0.25
    given_array = np.arange(3.0)
    assert drawn_number(rng, given_array, 3) is given_array
    assert_same_bits(drawn_number(rng, (1.0, 2.0), 3), np.random.default_rng(0).uniform(1, 2, 3))


def test_hidden_hides_nan():
    mask = np.array([[True, False]])
    (x,) = zeroed(mask, np.array([[[1.0], [np.nan]]]))
    assert_same_bits(x, np.array([[[1.0], [0.0]]]))
    (x,) = zeroed(None, x)
    assert_same_bits(x, np.array([[[1.0], [0.0]]]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"context": (3, 2)}, r"context is \(3, 2\); it must be \(low, high\), integers with 0 ≤ low ≤ high"),
        ({"context": (-1, 2)}, r"context is \(-1, 2\)"),
        ({"target": (1.0, 2.0)}, r"target is \(1.0, 2.0\)"),
        ({"total": 5}, "total 5 leaves less than 3 targets beside 3 contexts"),
        ({"dx": 0}, "dx is 0; there must be at least one input"),
        ({"context_range": (2.0, -2.0)}, r"context_range is \(2.0, -2.0\); it must be \(low, high\) with low ≤ high"),
        ({"target_range": (0.0, math.inf)}, "target_range is"),
        ({"context_range": (np.zeros(3), np.ones(3))}, "context_range is .* numbers or 1 numbers"),
    ],
)
def test_wrong_places_are_named(arguments, message):
    with pytest.raises(ValueError, match=f"Places: {message}"):
        Places(**{"context": (1, 3), "target": (3, 4)} | arguments)


def test_wrong_draws_are_named():
    rng = np.random.default_rng(0)
    with pytest.raises(TypeError, match=r"name: rng is int; pass numpy.random.default_rng\(seed\)"):
        check_draw("name", 0, 1)
    for batch in (1.0, True, "1"):
        with pytest.raises(TypeError, match=r"name: batch is .*; pass an integer"):
            check_draw("name", rng, batch)
    with pytest.raises(ValueError, match="name: batch is 0; draw at least one task"):
        check_draw("name", rng, 0)
    with pytest.raises(ValueError, match="name: scale is -1; it must be at least 0 and finite"):
        check_hyper_parameter("name", "scale", -1, at_least=0)
    with pytest.raises(ValueError, match="name: shift is inf; it must be finite"):
        check_hyper_parameter("name", "shift", math.inf, at_least=-math.inf)
    with pytest.raises(ValueError, match=r"name: scale is \(1, 2, 3\); a range is \(low, high\)"):
        check_hyper_parameter("name", "scale", (1, 2, 3))
