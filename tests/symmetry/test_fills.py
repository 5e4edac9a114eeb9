"""How large a fill is that f puts in place of what a mask hides says nothing of the numbers beside it."""

import numpy as np
import pytest

from refnp.symmetry import Permute, check, equivariant, invariant
from tests.symmetry.functions import search, vector

FILLS = {
    "-1e9": lambda dtype: -1e9,
    "-1e20": lambda dtype: -1e20,
    "1e21/3": lambda dtype: 1e21 / 3,
    "float32's least": lambda dtype: np.finfo(np.float32).min,
    "the least of the dtype": lambda dtype: np.finfo(dtype).min,
}
HIDDEN = lambda rng, n: {"x": rng.normal(size=n), "mask": np.arange(n) > 0}
WHOLE = lambda rng, n: {"x": rng.integers(0, 7, n), "mask": np.arange(n) > 0}
MOVED = Permute({"x": 0, "mask": 0}), Permute(axis=0)
TABLE = np.random.default_rng(0).normal(size=7)


def filled(x, mask, fill, leak):
    """A softmax of which the i-th weight is 1 + leak·i times as large, where it is not hidden."""
    e = np.exp(x)
    return np.where(mask, e / e.sum() * (1 + leak * np.arange(len(x))).astype(x.dtype), x.dtype.type(fill))


@pytest.mark.parametrize("fill", FILLS)
def test_beside_a_fill_a_violation_is_seen_and_what_holds_holds_to_as_many_digits(fill):
    claim = lambda leak: equivariant(lambda x, mask: filled(x, mask, FILLS[fill](x.dtype), leak), *MOVED)
    for leak in (0.1, 1e-6):
        assert search(claim(leak), HIDDEN, sizes={"n": range(2, 6)}, count=30).fails
    verdict = search(claim(0), HIDDEN, sizes={"n": range(2, 6)}, count=30).require()
    assert verdict.counts.unresolved < verdict.counts.pairs / 20  # at zeros alone, which are the same everywhere
    assert verdict.resolution < 1e-12


@pytest.mark.parametrize("inside", ["float32", "float64"])
def test_beside_a_fill_in_one_precision(inside):
    claim = lambda leak: equivariant(
        lambda x, mask: filled(x.astype(inside), mask, -1e30, leak).astype(x.dtype), *MOVED
    )
    options = {"sizes": {"n": range(2, 6)}, "count": 30, "inner_precision": inside}
    assert search(claim(1e-3), HIDDEN, **options).fails
    verdict = search(claim(0), HIDDEN, **options).require()
    assert verdict.resolution > np.finfo(inside).eps


def test_beside_a_fill_where_inputs_are_whole_numbers():
    of_ids = lambda leak: lambda x, mask: filled(TABLE[x], mask, -1e30, leak)
    claim = lambda leak: equivariant(of_ids(leak), *MOVED)
    search(claim(0), WHOLE, sizes={"n": range(3, 6)}, count=30).require()
    assert search(claim(0.1), WHOLE, sizes={"n": range(3, 6)}, count=30).fails


def test_the_discrepancy_is_told_over_numbers_that_are_no_fill():
    first = invariant(lambda x: np.concatenate([[x.dtype.type(1e21)], x[:1]]), Permute("x", 0))
    for x in ([0.0, 1.0], [0.5, 1.0]):
        found = check(first, {"x": np.array(x)}, (1, 0)).counterexample
        assert found.relative["float64"] == abs(x[0] - x[1])


def test_where_all_numbers_stay_as_they_are_they_are_judged_by_themselves():
    """Signs: they change at no input nearby, and the largest of them is the size of all."""
    signs = lambda bias: equivariant(lambda x: np.sign(x) + bias * (np.arange(len(x)) == 0), Permute("x"), Permute())
    search(signs(0), vector, sizes={"n": range(1, 5)}, count=12).require()
    at = {"x": np.array([1.0, 2.0])}
    assert check(signs(0), at, (1, 0)).resolution > 0
    assert check(signs(0.25), at, (1, 0)).counterexample.relative["float64"] == 0.2
