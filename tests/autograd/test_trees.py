"""Nested dicts, lists and tuples as one thing."""

from typing import NamedTuple

import numpy as np
import pytest

from refnp.autograd import Tensor
from refnp.autograd.trees import is_differentiable, leaves_of, map_leaves, rebuilt


class Pair(NamedTuple):
    left: object
    right: object


TREE = {"b": [1, (2, 3)], "a": Pair({"x": 4}, []), "c": None}


def test_leaves_stand_in_the_order_of_writing():
    assert leaves_of(TREE) == [1, 2, 3, 4, None]
    assert leaves_of(5) == [5]
    assert leaves_of([]) == []


def test_map_keeps_nesting_and_types():
    doubled = map_leaves(lambda leaf: leaf and leaf * 2, TREE)
    assert doubled == {"b": [2, (4, 6)], "a": Pair({"x": 8}, []), "c": None}
    assert type(doubled["a"]) is Pair
    assert map_leaves(lambda a, b: a + b, {"x": 1, "y": [2]}, {"y": [20], "x": 10}) == {"x": 11, "y": [22]}


def test_rebuilt_is_the_inverse_of_leaves_of():
    assert rebuilt(TREE, leaves_of(TREE)) == TREE
    assert rebuilt(TREE, "abcde") == {"b": ["a", ("b", "c")], "a": Pair({"x": "d"}, []), "c": "e"}


@pytest.mark.parametrize("other", [{"x": 1}, {"x": 1, "y": 2, "z": 3}, [1, 2], 3])
def test_other_nesting_is_named(other):
    with pytest.raises(ValueError, match=r"nesting differs: a dict with keys \['x', 'y'\] is paired with"):
        map_leaves(max, {"x": 1, "y": 2}, other)


@pytest.mark.parametrize("other", [[1], (1, 2, 3), {"x": 1}, 3])
def test_other_lengths_are_named(other):
    with pytest.raises(ValueError, match="nesting differs: 2 branches are paired with"):
        map_leaves(max, [1, 2], other)


@pytest.mark.parametrize("leaf", [1.0, 1j, np.float32(1), np.ones(2), Tensor(1.0), np.ones(2, np.clongdouble)])
def test_numbers_with_a_gradient(leaf):
    assert is_differentiable(leaf)


@pytest.mark.parametrize(
    "leaf", [1, True, None, "x", np.ones(2, int), np.bool_(True), Tensor([1]), np.array(["x"]), max]
)
def test_constants(leaf):
    assert not is_differentiable(leaf)
