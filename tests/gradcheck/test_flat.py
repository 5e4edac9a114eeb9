"""Nested arguments: every leaf has one path, and replacing leaves changes nothing else."""

from collections import namedtuple

import pytest

from gradcheck.flat import branch_at, leaves_of, path_code, replace_leaves

Pair = namedtuple("Pair", "left right")
TREE = {"a": [1, (2, 3)], "b": Pair(4, {"c": None}), "d": ()}


def test_every_leaf_has_the_path_that_leads_to_it():
    found = list(leaves_of(TREE))
    assert [leaf for _, leaf in found] == [1, 2, 3, 4, None]
    assert all(branch_at(TREE, path) is leaf for path, leaf in found)


def test_replacing_keeps_the_containers():
    doubled = replace_leaves(TREE, {path: 2 * leaf for path, leaf in leaves_of(TREE) if leaf})
    assert doubled == {"a": [2, (4, 6)], "b": Pair(8, {"c": None}), "d": ()}
    assert isinstance(doubled["b"], Pair)
    assert TREE["a"][0] == 1


def test_a_single_leaf_is_a_tree():
    assert list(leaves_of(5)) == [((), 5)]
    assert replace_leaves(5, {(): 6}) == 6


def test_a_path_is_written_as_python_would():
    assert path_code(("weight", 2)) == "['weight'][2]"


@pytest.mark.parametrize("path", [("x",), ("a", 5), ("a", 0, 0)])
def test_a_path_that_leads_nowhere_raises(path):
    with pytest.raises((KeyError, IndexError, TypeError)):
        branch_at(TREE, path)
