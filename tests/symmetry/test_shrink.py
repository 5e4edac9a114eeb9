"""Counter-examples are looked for at smaller inputs that are like the one that was found."""

from collections import Counter

import numpy as np
import pytest

from refnp.symmetry import Negate, Permute
from refnp.symmetry.inputs import KINDS, Domain
from refnp.symmetry.judge import Finding
from refnp.symmetry.shrink import Shrinker, Violation
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
