"""Tasks: what they accept, how they are cast and moved, and what is said about wrong ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.autograd import Tensor
from refnp.tasks.task import Task, padded
from tests.helpers import assert_same_bits, dtypes, normal, seeds


def arrays(seed=0, batch=2, contexts=3, targets=4, dx=1, dy=1, dtype=np.float64):
    """The four arrays of a task."""
    rng = np.random.default_rng(seed)
    shapes = [(batch, contexts, dx), (batch, contexts, dy), (batch, targets, dx), (batch, targets, dy)]
    names = ("context_x", "context_y", "target_x", "target_y")
    return {name: normal(rng, shape, dtype) for name, shape in zip(names, shapes, strict=True)}


sizes = st.fixed_dictionaries(
    {
        "batch": st.integers(0, 3),
        "contexts": st.integers(0, 3),
        "targets": st.integers(0, 3),
        "dx": st.integers(1, 3),
        "dy": st.integers(1, 2),
    }
)


@given(sizes, dtypes, seeds)
def test_a_task_holds_what_it_is_given(size, dtype, seed):
    given_arrays = arrays(seed, dtype=dtype, **size)
    task = Task(**given_arrays)
    assert (task.dtype, task.batch) == (dtype, size["batch"])
    for name, array in given_arrays.items():
        assert getattr(task, name) is array
    assert task.context_mask is None
    assert task.target_mask is None
    assert_same_bits(task.context_present, np.ones((size["batch"], size["contexts"]), bool))
    assert_same_bits(task.target_present, np.ones((size["batch"], size["targets"]), bool))


def test_integers_and_lists_become_float64():
    task = Task([[[1]]], [[[2]]], [[[3], [4]]], [[[5], [6]]], [[True]], [[True, False]])
    assert task.dtype == np.float64
    assert_same_bits(task.target_x, np.array([[[3.0], [4.0]]]))
    assert_same_bits(task.target_mask, np.array([[True, False]]))


def test_tensors_stay_tensors_with_their_history():
    leaves = {name: Tensor(array, requires_grad=True) for name, array in arrays().items()}
    mask = np.array([[True, True, False]] * 2)
    task = Task(**leaves, context_mask=mask)
    assert all(getattr(task, name) is leaf for name, leaf in leaves.items())
    assert (task.dtype, task.batch) == (np.float64, 2)
    assert_same_bits(task.context_present, mask)
    moved = task.shifted(1.0)[1:]
    assert moved.context_x.shape == (1, 3, 1)
    (moved.context_x.sum() + task[np.array([0])].target_y.sum()).backward()
    assert_same_bits(leaves["context_x"].grad, np.repeat([0.0, 1.0], 3).reshape(2, 3, 1))
    assert_same_bits(leaves["target_y"].grad, np.repeat([1.0, 0.0], 4).reshape(2, 4, 1))
    assert Task(**{name: Tensor(np.ones((1, 1, 1), int)) for name in leaves}).dtype == np.float64


def test_tensors_in_another_precision_keep_their_history():
    leaves = {name: Tensor(array, requires_grad=True) for name, array in arrays().items()}
    cast = Task(**leaves).astype(np.float32)
    assert cast.dtype == np.float32
    cast.target_x.sum().backward()
    assert_same_bits(leaves["target_x"].grad, np.ones((2, 4, 1)))


def test_what_is_wrong_in_tensors_is_named():
    given_arrays = arrays()
    for name, value, error, message in (
        ("context_y", np.full((2, 3, 1), np.nan), ValueError, r"context_y\[0, 0, 0\] is nan"),
        ("target_x", np.zeros((2, 4)), ValueError, r"target_x has shape \(2, 4\)"),
        ("context_x", np.zeros((2, 3, 1), np.float32), TypeError, "use one type for all"),
    ):
        with pytest.raises(error, match=f"Task: .*{message}"):
            Task(**given_arrays | {name: Tensor(value)})


def test_a_task_cannot_be_changed():
    with pytest.raises(AttributeError):
        Task(**arrays()).context_x = np.zeros((2, 3, 1))


@given(sizes, st.sampled_from([np.float32, np.float64, np.longdouble, np.complex128]), seeds)
def test_astype_casts_all_four(size, dtype, seed):
    task = Task(**arrays(seed, **size), context_mask=np.ones((size["batch"], size["contexts"]), bool))
    cast = task.astype(dtype)
    for name in ("context_x", "context_y", "target_x", "target_y"):
        assert_same_bits(getattr(cast, name), getattr(task, name).astype(dtype))
    assert cast.context_mask is task.context_mask


def test_some_of_the_tasks():
    mask = np.random.default_rng(0).random((5, 3)) < 0.5
    task = Task(**arrays(batch=5), context_mask=mask)
    for chosen in (slice(1, 3), np.array([4, 0]), mask[:, 0]):
        part = task[chosen]
        assert_same_bits(part.context_y, task.context_y[chosen])
        assert_same_bits(part.context_mask, mask[chosen])
        assert part.target_mask is None
    with pytest.raises(TypeError, match=r"Task: the index is 0; use a slice or an array, task\[i : i \+ 1\] for one"):
        task[0]


def test_astype_says_what_does_not_fit():
    task = Task(**arrays() | {"context_y": np.full((2, 3, 1), 1e300)})
    with pytest.raises(ValueError, match=r"context_y\[0, 0, 0\] is inf"):
        task.astype(np.float32)


@given(sizes, dtypes, seeds, st.sampled_from([-1000.0, 0.0, 4.0]))
def test_shifted_moves_contexts_and_targets_and_nothing_else(size, dtype, seed, by):
    task = Task(**arrays(seed, dtype=dtype, **size))
    moved = task.shifted(by)
    assert_same_bits(moved.context_x, task.context_x + dtype(by))
    assert_same_bits(moved.target_x, task.target_x + dtype(by))
    assert moved.context_y is task.context_y
    assert moved.target_y is task.target_y
    along = np.arange(size["dx"], dtype=float)  # another shift in each dimension
    assert_same_bits(task.shifted(along).target_x, task.target_x + along.astype(dtype))


def test_what_masks_hide_may_be_nan():
    mask = np.array([[True, False, True], [False, False, False]])
    hidden = np.where(mask[..., None], 1.0, np.nan)
    task = Task(hidden, hidden, hidden, hidden, mask, mask)
    assert np.isnan(task.shifted(1.0).astype(np.float32).context_x[~mask]).all()
    with pytest.raises(ValueError, match=r"target_x\[0, 1, 0\] is nan; .* set target_mask to False"):
        Task(hidden, hidden, hidden, hidden, mask)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"context_x": np.zeros((2, 3))}, ValueError, r"context_x has shape \(2, 3\); it must be \(tasks, points, dim"),
        ({"context_y": np.zeros((2, 5, 1))}, ValueError, "context_x has 3 points but context_y has 5; they must match"),
        ({"target_y": np.zeros((2, 5, 1))}, ValueError, "target_x has 4 points but target_y has 5"),
        ({"target_x": np.zeros((2, 4, 2))}, ValueError, "context_x has 1 dimensions but target_x has 2"),
        ({"target_y": np.zeros((2, 4, 2))}, ValueError, "context_y has 1 dimensions but target_y has 2"),
        ({"target_x": np.zeros((3, 4, 1))}, ValueError, "hold .*'target_x': 3.* tasks; the first axis"),
        ({"context_y": np.full((2, 3, 1), np.nan)}, ValueError, r"context_y\[0, 0, 0\] is nan; where points are pres"),
        ({"target_x": np.full((2, 4, 1), np.inf)}, ValueError, r"target_x\[0, 0, 0\] is inf"),
        ({"context_x": np.full((2, 3, 1), "a")}, TypeError, "context_x is <U1; pass an array of numbers"),
        ({"context_x": np.zeros((2, 3, 1), np.float32)}, TypeError, "use one type for all"),
        ({"context_mask": np.ones((2, 3))}, TypeError, "context_mask is float64; pass booleans, True = present"),
        ({"context_mask": np.ones((2, 4), bool)}, ValueError, r"mask has shape \(2, 4\); context_x asks for \(2, 3\)"),
        ({"target_mask": np.ones((2, 3), bool)}, ValueError, r"mask has shape \(2, 3\); target_x asks for \(2, 4\)"),
    ],
)
def test_wrong_tasks_are_named(change, error, message):
    with pytest.raises(error, match=f"Task: .*{message}"):
        Task(**arrays() | change)


def test_no_dimensions_are_an_error():
    with pytest.raises(ValueError, match="context_x and target_x have 0 dimensions"):
        Task(**arrays(dx=0))


@pytest.mark.parametrize("by", [np.zeros(2), np.zeros((2, 3, 1))])
def test_a_wrong_shift_is_named(by):
    with pytest.raises(ValueError, match=r"Task.shifted: by has shape .*; it must be one number or \(1,\)"):
        Task(**arrays()).shifted(by)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.integers(1, 3), seeds)
def test_padded_sets_stand_at_the_beginning(counts, dimensions, seed):
    rng = np.random.default_rng(seed)
    sets = [rng.standard_normal((n, dimensions)) for n in counts]
    array, mask = padded(sets)
    assert array.shape == (len(counts), max(counts), dimensions)
    for b, points in enumerate(sets):
        assert_same_bits(array[b, : counts[b]], points)
        assert not array[b, counts[b] :].any()
        assert_same_bits(mask[b], np.arange(max(counts)) < counts[b])
    longer, longer_mask = padded(sets, max(counts) + 2)
    assert_same_bits(longer[:, :-2], array)
    assert not longer_mask[:, -2:].any()


def test_wrong_sets_are_named():
    with pytest.raises(ValueError, match="padded: there are no sets"):
        padded([])
    with pytest.raises(ValueError, match=r"padded: sets have shapes \[\(2, 1\), \(2, 2\)\]"):
        padded([np.zeros((2, 1)), np.zeros((2, 2))])
    with pytest.raises(ValueError, match="padded: a set has 3 points, more than length 2"):
        padded([np.zeros((3, 1))], 2)
