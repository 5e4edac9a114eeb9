"""`check`: the verdict at one pair is that of the same judge, with the inputs that were given."""

import numpy as np
import pytest

from refnp.symmetry import Permute, Shift, Slide, Translate, check, equivariant, invariant
from tests.helpers import assert_same_bits
from tests.symmetry import functions as f

CUMULATIVE = equivariant(lambda x: x.cumsum(), Permute("x"), Permute(), name="cumsum")
X = np.array([0.3, 1.7, -2.0])


def test_a_claim_that_fails_at_a_pair():
    verdict = check(CUMULATIVE, {"x": X}, (1, 0, 2)).require("fails")
    found = verdict.counterexample
    assert_same_bits(found.inputs["x"], X)
    assert found.element == (1, 0, 2)
    assert_same_bits(found.given["output"], np.cumsum(X[[1, 0, 2]]))
    assert_same_bits(found.expected["output"], np.cumsum(X)[[1, 0, 2]])
    assert "one pair: order [1, 0, 2]; float64" in str(verdict)
    there = {}
    exec(found.code(), there)
    assert_same_bits(there["moved"]["x"], X[[1, 0, 2]])


def test_a_false_claim_may_hold_at_a_pair():
    even = invariant(lambda x: np.abs(x).cumsum(), Permute("x"))
    verdict = check(even, {"x": np.array([2.0, -2.0, 1.0])}, (1, 0, 2)).require("holds")
    assert verdict.counts.pairs == 1
    check(even, {"x": X}, (1, 0, 2)).require("fails")


@pytest.mark.parametrize("x", [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [-1.0, 0.0, 1.0], [5.0, 7.5, 10.0]])
def test_an_exact_tie_of_distances_is_no_rounding(x):
    """The middle number is equally far from both others: which of them is taken hangs on the order."""
    nearest = equivariant(f.nearest_other, Permute("x", 0), Permute(axis=0))
    low, middle, high = x
    check(nearest, {"x": np.array([[low], [middle], [high]])}, (2, 1, 0)).require("fails")
    check(nearest, {"x": np.array([[low], [middle], [high + 0.5]])}, (2, 1, 0)).require("holds")


def test_where_nothing_moves_nothing_is_said():
    assert "nothing was tested" in check(CUMULATIVE, {"x": X}, (0, 1, 2)).require("undecided").reason
    assert "f took no input" in check(invariant(np.linalg.inv, Permute("a", 0)), {"a": X}, (1, 0, 2)).reason


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.longdouble, np.int64, np.complex64])
def test_inputs_keep_their_dtype(dtype):
    x = np.array([1, 2, 4]).astype(dtype)
    check(invariant(lambda x: (x * x).sum(), Permute("x")), {"x": x}, (2, 0, 1)).require("holds")
    check(invariant(lambda x: x[..., 0], Permute("x")), {"x": x}, (2, 0, 1)).require("fails")


def test_every_option_is_used():
    moved = invariant(f.squared_distances, Translate(("x", "y")))
    inputs = {"x": np.array([[0.1, 0.2]]), "y": np.array([[1e3, -3.0]])}
    check(moved, inputs, (0.7, 5.0)).require("holds")
    check(moved, inputs, (0.7, 5.0), bound=lambda inputs, g, dtype: 0.0).require("fails")
    check(moved, inputs, (1e9, 5.0)).require("holds")
    check(moved, inputs, (1e9, 5.0), digits=17).require("undecided")
    inside = equivariant(lambda x: x - x[..., :1], Shift("x"), Shift(), border=1)
    check(inside, {"x": np.arange(1.0, 6) ** 2}, 1).require("fails")


def test_an_element_that_does_not_fit_is_said():
    content = {"x": X, "mask": np.array([True, True, False])}
    claim = equivariant(lambda x, mask: x * mask, Slide({"x": -1, "mask": -1}), Shift())
    check(claim, content, 1).require("holds")
    with pytest.raises(ValueError, match="check: shift by 2 cannot act on these inputs"):
        check(claim, content, 2)
    with pytest.raises(ValueError, match="x has 3 places along axis -1, the element needs 2"):
        check(CUMULATIVE, {"x": X}, (1, 0))


def test_inputs_that_a_claim_is_not_about_are_refused():
    claim = invariant(lambda x: np.abs(x).sum(), Permute("x"), where=lambda x: x > 0)
    assert check(claim, {"x": np.array([1.0, 2.0])}, (1, 0))
    with pytest.raises(ValueError, match="check: the claim is not about these inputs"):
        check(claim, {"x": np.array([-1.0, 2.0])}, (1, 0))
    with pytest.raises(ValueError, match=r"Permute: \(0, 0\) is no element of permutations of axis -1 of x; give "):
        check(claim, {"x": np.array([1.0, 2.0])}, (0, 0))
