"""Grids that move with the data: what they hold, how shifts move them, and what they refuse."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.layers.grid import Grid, GridOptions, extent, first_present
from tests.helpers import assert_same_bits, seeds
from tests.transcriptions.convcnp import grid_of

multiples = st.sampled_from([1, 2, 6, 64])
densities = st.sampled_from([1, 4, 64, 0.5, 10, 3.7])


def points(seed, *, tasks=2, axes=1, scale=2.0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-scale, scale, (tasks, rng.integers(1, 6), axes))


def around(x, mask=None, *, points_per_unit=4, margin=0.1, multiple=4, max_points=1 << 20):
    return GridOptions(points_per_unit, margin, max_points).around("here", [(x, mask)], multiple=multiple)


@given(seeds, densities, multiples, st.sampled_from([0.0, 0.1, 1.3]), st.integers(1, 3))
def test_a_grid_is_as_small_as_it_can_be(seed, density, multiple, margin, axes):
    """The transcription counts in fractions; float64 rounds p x, which moves a point that is next to a cell's edge."""
    x = np.round(points(seed, axes=axes) * 64) / 64
    density = density if density in (1, 4, 64, 0.5) else 4
    grid = around(x, points_per_unit=density, margin=margin, multiple=multiple, max_points=2**62)
    starts, lengths = grid_of(x, density, math.ceil(margin * density), multiple)
    assert grid.start.tolist() == starts
    assert list(grid.lengths) == lengths


@given(seeds, densities, multiples, st.sampled_from([0.0, 0.1, 1.3]))
def test_a_grid_holds_all_points_and_the_margin(seed, density, multiple, margin):
    x = points(seed)
    grid = around(x, points_per_unit=density, margin=margin, multiple=multiple)
    assert (grid.start % multiple == 0).all()
    assert all(n % multiple == 0 for n in grid.lengths)
    away = grid.distances(x, np.float64)
    rounding = 2**-48  # of p x, at most a few units in the last place of 2
    assert (away >= margin - rounding).all()
    assert (away <= (grid.lengths[0] - 1) / density - margin + rounding).all()


@given(seeds, multiples, st.sampled_from([1, 4, 64]), st.integers(-(2**20), 2**20), st.integers(1, 2))
def test_a_shift_by_whole_blocks_moves_the_start_and_nothing_else(seed, multiple, density, blocks, axes):
    x = np.round(points(seed, axes=axes) * 2**16) / 2**16
    shift = blocks * multiple / density
    here, there = (around(a, points_per_unit=density, multiple=multiple) for a in (x, x + shift))
    assert there.lengths == here.lengths
    assert (there.start == here.start + blocks * multiple).all()
    assert_same_bits(there.distances(x + shift, np.float64), here.distances(x, np.float64))


def test_a_shift_by_less_than_a_block_moves_the_points_within_the_grid():
    x = np.array([[[0.25], [1.0]]])
    here, there = around(x), around(x + 0.25)
    assert (here.start == there.start).all()
    assert_same_bits(there.distances(x + 0.25, np.float64), here.distances(x, np.float64) + 0.25)


def test_each_task_has_a_grid_of_its_own_and_all_the_same_length():
    x = np.array([[[0.0], [0.5]], [[1e6], [1e6 + 3]]])
    grid = around(x)
    alone = [around(task[None]) for task in x]
    assert grid.start.ravel().tolist() == [a.start.item() for a in alone] == [-4, 4_000_000 - 4]
    assert grid.lengths == max(a.lengths for a in alone)


def test_what_a_mask_hides_does_not_count():
    x = np.array([[[0.0], [0.5], [np.nan], [1e9]]])
    mask = np.array([[True, True, False, False]])
    grid, without = around(x, mask), around(x[:, :2])
    assert (grid.start, grid.lengths) == (without.start, without.lengths)


def test_a_task_without_points_has_a_grid_around_0():
    grid = around(np.zeros((2, 0, 2)))
    assert grid.start.tolist() == [[-4, -4]] * 2
    assert grid.lengths == (8, 8)
    assert extent([(np.ones((1, 3, 1)), np.zeros((1, 3), bool))]) == (0, 0)


def test_no_tasks():
    grid = around(np.zeros((0, 3, 2)))
    assert (grid.start.shape, grid.lengths) == ((0, 2), (4, 4))
    assert grid.distances(np.zeros((0, 3, 2)), np.float64).shape == (0, 3, 2)


def test_positions_may_be_more_precise_than_the_numbers_computed_with():
    x = np.array([[[2.0**30 + 1 / 3]]])
    away = around(x).distances(x, np.float32)
    exact = Fraction(float(x.item())) - 2**30
    assert away.dtype == np.float32
    assert abs(Fraction(float(away.item() % 1)) - exact) <= Fraction(2**-25)  # a rounding of less than 1 to float32
    assert np.float32(x.item()) - np.float32(2.0**30) == 0  # which is what rounding first would give


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.longdouble, np.complex128])
def test_distances_in_any_precision(dtype):
    x = np.array([[[0.25], [1.5]]], dtype)
    away = around(x).distances(x, dtype)
    assert away.dtype == dtype
    assert away.ravel().tolist() == [0.25, 1.5]


def test_too_many_places_are_refused_with_what_they_would_cost():
    x = np.zeros((3, 2, 1))
    x[1, 1] = 1e6
    with pytest.raises(
        ValueError, match=r"here: a grid around x from 0 to 1e\+06 needs 4000008 points, about 0.0894 GiB"
    ):
        around(x)
    assert around(x, max_points=4000008).size == 4000008
    with pytest.raises(
        ValueError, match=r"max_points=4000007.*Predict far targets.*lower points_per_unit \(4\) or raise"
    ):
        around(x, max_points=4000007)


@pytest.mark.parametrize("far", [1e16, -1e300, 1.7e308])
def test_positions_beyond_the_precision_of_places_are_refused(far):
    with pytest.raises(ValueError, match="too far from 0 to tell places 1/4 apart; subtract a common offset"):
        around(np.full((1, 1, 1), far))


def test_rounding_half_to_even_would_not_move_with_the_data():
    """The mistake that this page warns of: in blocks of 4 places, half-way starts go to even blocks."""
    x = np.array([0.5, 1.5, 2.5])  # one block apart; (4 x)/4 is half-way between blocks each time
    rounded = np.rint(x * 4 / 4) * 4
    assert rounded.tolist() == [0, 8, 8]
    assert np.diff([around(a.reshape(1, 1, 1), margin=0).start.item() for a in x]).tolist() == [4, 4]


def test_one_of_the_points_of_each_task():
    x, present = np.array([[[np.nan], [2.0]], [[np.nan], [3.0]]]), np.array([[False, True], [False, False]])
    others = np.array([[[5.0]], [[6.0]]]), np.array([[True], [False]])
    assert first_present(((x, present), others)).tolist() == [[[2.0]], [[0.0]]]
    assert first_present((others, (x, present))).tolist() == [[[5.0]], [[0.0]]]


def test_size():
    assert Grid(np.zeros((1, 2), int), (3, 5), 1.0).size == 15
