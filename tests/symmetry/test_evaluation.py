"""What the evaluations of f at an input and at perturbations of it promise."""

import numpy as np
import pytest

from refnp.symmetry import Permute, invariant
from refnp.symmetry.evaluation import Evaluations, equal

INPUTS = {
    "numbers": {"x": np.array([0.5, -1.5])},
    "a mask that is left out": {"x": np.array([0.5, -1.5]), "mask": None},
    "zeros": {"x": np.zeros(3)},
    "ones": {"x": np.ones(3)},
    "infinities and zeros": {"x": np.array([np.inf, 0.0, -np.inf, np.nan])},
    "complex numbers": {"x": np.array([1j, 0])},
    "whole numbers": {"x": np.arange(3), "mask": np.array([True, False])},
    "nothing": {"x": np.zeros(0)},
    "one array of two": {"x": np.arange(3), "y": np.array(0.25)},
}


@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize("name", INPUTS)
def test_perturbations_differ_where_it_is_said(name, anchored):
    """Asked before there are any: of numbers other than 0, or than whole ones, which `anchored` keeps."""
    claim = invariant(lambda **arrays: np.ones(2), Permute("x"))
    x = INPUTS[name]
    at = Evaluations(claim, claim.precisions(x), x, np.random.default_rng(0), 2, anchored)
    assert at.perturbations_differ() == (not equal(at.input(2), at.input(0)))


def test_arrays_are_the_same_where_both_are_left_out():
    nothing, numbers = {"mask": None}, {"mask": np.array([np.nan, 1.0])}
    assert equal(nothing, nothing)
    assert equal(numbers, {"mask": np.array([np.nan, 1.0])})
    assert not equal(nothing, numbers)
    assert not equal(numbers, nothing)
