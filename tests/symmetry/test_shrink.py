"""Counter-examples are looked for at smaller inputs that are like the one that was found."""

from collections import Counter

import numpy as np
import pytest

from refnp.symmetry import Negate, Permute, Scale, equivariant, search
from refnp.symmetry.inputs import KINDS, Domain
from refnp.symmetry.judge import Finding
from refnp.symmetry.shrink import Shrinker, Violation, _simpler, effort
from tests.symmetry import functions as f

DOMAIN = Domain(f.rows, {"n": range(9)}, action=Permute("x", 0) * Negate("x"))


def smaller(x, attempts):
    """Inputs of four items that are tried in place of x."""
    shrinker = Shrinker(DOMAIN.action, DOMAIN, None, None, Violation(x, None, Finding("violated")), seed=0)
    drawn = (shrinker._drawn(np.random.default_rng(k), {"n": 4}, k) for k in range(attempts))
    return [x for x in drawn if x is not None]


@pytest.mark.parametrize("kind", ["zeros", "an orbit"])
def test_with_structure_half_have_it_a_quarter_another_and_a_quarter_none(kind):
    x = DOMAIN.structured(np.random.default_rng(0), {"n": 6}, np.dtype(np.float32), (1.0,), kind, 0)
    attempts = 4 * len(KINDS)
    found = Counter(x.structure for x in smaller(x, attempts))
    assert found[""] == attempts // 4
    assert abs(found[kind] - attempts // 2) <= 1
    assert set(found) >= {*KINDS} - {"a shared item"}  # there is one array
    assert {x.dtype for x in smaller(x, 8)} == {np.dtype(np.float32)}


def test_without_structure_half_have_its_scale():
    x = DOMAIN.drawn(np.random.default_rng(0), {"n": 6}, np.dtype(float), {"x": (8.0,)})
    found = smaller(x, 12)
    assert Counter((x.structure, x.scales["x"]) for x in found) == {("", 1.0): 6, ("", 8.0): 6}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("above", [2, 3, 6])
def test_numbers_become_smaller_until_what_is_wrong_is_gone(above, seed):
    """What is found at 399 is as wrong at the first whole number above a threshold."""
    first = lambda x: x + (x > above) * (np.arange(len(x)) == 0)
    found = search(equivariant(first, Permute("x"), Permute()), f.vector, sizes={"n": range(6)}, seed=seed)
    assert sorted(found.counterexample.inputs["x"]) == [0, above + 1]


def test_numbers_are_rounded_towards_zero_where_the_claim_is_about_no_larger_ones():
    claim = equivariant(lambda x: np.clip(x, -3, 3), Scale("x"), Scale(), where=lambda x: np.abs(x) < 1)
    (number,) = search(claim, f.vector, sizes={"n": (1,)}, dtypes=(float,)).counterexample.inputs["x"]
    assert number == round(number, 1)
    assert 0 < abs(number) < 1


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan, 3e38])
def test_what_is_not_finite_is_no_simpler_number(number):
    x = np.array(number, np.float32)
    assert all(np.isfinite(y) for y in _simpler(x)) == np.isfinite(x)
    assert effort(np.array([0.0, number])) > effort(np.array([0.0, 1.0]))
