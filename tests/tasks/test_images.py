"""Images as functions: positions, which pixels are known and which are targets, the same tasks as sets and grids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.tasks.images import ImageTasks, pixel_positions
from tests.helpers import assert_same_bits, seeds


def coordinates(number=3, colours=None, height=4, width=5):
    """Images whose pixels all differ: 1000 · image + 100 · colour + its place, row after row."""
    place = np.arange(height * width).reshape(height, width)
    images = 1000 * np.arange(number)[:, None, None] + place
    return images if colours is None else images[:, None] + 100 * np.arange(colours)[:, None, None]


def test_positions_are_rows_and_columns_from_minus_one_to_one():
    positions = pixel_positions(2, 3)
    assert positions.tolist() == [[-1, -1], [-1, 0], [-1, 1], [1, -1], [1, 0], [1, 1]]
    assert pixel_positions(1, 2).tolist() == [[0, -1], [0, 1]]
    height, width = 4, 5
    for i, j in np.ndindex(height, width):
        row, column = pixel_positions(height, width)[i * width + j]
        assert (row, column) == pytest.approx((2 * i / (height - 1) - 1, 2 * j / (width - 1) - 1), abs=1e-15)


@given(seeds, st.sampled_from([None, 1, 3]), st.booleans(), st.sampled_from([None, (0, 4), (2, 12)]))
def test_every_point_is_a_pixel_of_its_image(seed, colours, ragged, target):
    images = coordinates(colours=colours)
    tasks = ImageTasks(images, context=(0, 8), target=target, ragged=ragged)
    task = tasks.sample(np.random.default_rng(seed), 3)
    positions = pixel_positions(4, 5)
    assert task.context_y.shape[2] == (colours or 1)
    for b in range(3):
        seen = []
        for x, y, present in (
            (task.context_x[b], task.context_y[b], task.context_present[b]),
            (task.target_x[b], task.target_y[b], task.target_present[b]),
        ):
            places = (y[present, 0] % 1000).astype(int)
            assert_same_bits(x[present], positions[places])
            for c in range(colours or 1):
                assert_same_bits(y[present, c], y[present, 0] + 100 * c)
            assert len(set(places.tolist())) == len(places)
            assert not y[~present].any()
            seen.append(places.tolist())
        everywhere = np.concatenate(
            [task.context_y[b][task.context_present[b]], task.target_y[b][task.target_present[b]]]
        )
        assert len(np.unique(everywhere[:, 0] // 1000)) <= 1  # of one image
        if target is None:
            assert seen[1] == list(range(20))
        else:
            assert not set(seen[0]) & set(seen[1])
            assert target[0] <= len(seen[1]) <= target[1]


@given(seeds, st.booleans(), st.sampled_from([None, (2, 12)]))
def test_the_grid_shows_the_same_tasks(seed, ragged, target):
    tasks = ImageTasks(coordinates(colours=2), context=(0, 8), target=target, ragged=ragged)
    task = tasks.sample(np.random.default_rng(seed), 3)
    images, known = tasks.sample_grid(np.random.default_rng(seed), 3)
    assert (images.shape, known.shape) == ((3, 2, 4, 5), (3, 1, 4, 5))
    for b in range(3):
        values = images[b].reshape(2, -1).T
        mine = task.context_y[b][task.context_present[b]]
        order = np.argsort(mine[:, 0])
        assert_same_bits(mine[order], values[known[b].ravel()])
        if target is None:
            assert_same_bits(task.target_y[b], values)


def test_pixels_are_known_equally_often():
    """5 of 20 pixels in each of 4000 tasks: each known 1000 times ± √(4000 · ¼ · ¾); five of these."""
    _, known = ImageTasks(coordinates(), context=(5, 5)).sample_grid(np.random.default_rng(0), 4000)
    assert (known.sum((1, 2, 3)) == 5).all()
    assert np.abs(known.sum(0) - 1000).max() < 5 * np.sqrt(750)


def test_a_total_leaves_less_for_targets():
    tasks = ImageTasks(coordinates(), context=(3, 9), target=(3, 20), total=12, ragged=True)
    task = tasks.sample(np.random.default_rng(0), 500)
    both = task.context_mask.sum(1) + task.target_mask.sum(1)
    assert both.max() == 12
    assert task.target_mask.sum(1).min() == 3


def test_wrong_images_are_named():
    with pytest.raises(ValueError, match=r"ImageTasks: images have shape \(4, 5\); they must be \(M, H, W\)"):
        ImageTasks(np.zeros((4, 5)), context=(1, 2))
    with pytest.raises(ValueError, match="images hold NaN or infinity"):
        ImageTasks(np.full((1, 2, 2), np.nan), context=(1, 2))
    with pytest.raises(ValueError, match="5 known pixels and 0 targets are more than 4"):
        ImageTasks(np.zeros((1, 2, 2)), context=(1, 5))
    with pytest.raises(ValueError, match="3 known pixels and 2 targets are more than 4"):
        ImageTasks(np.zeros((1, 2, 2)), context=(1, 3), target=(2, 2))
    with pytest.raises(ValueError, match=r"ImageTasks: context is \(2, 1\)"):
        ImageTasks(np.zeros((1, 2, 2)), context=(2, 1))
    with pytest.raises(ValueError, match="ImageTasks: batch is 0"):
        ImageTasks(np.zeros((1, 2, 2)), context=(1, 2)).sample(np.random.default_rng(0), 0)
