"""A choice that hangs on a rounding is a jump, whatever else it looks like; and rounding is no jump."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refnp.symmetry import Permute, RotateSpace, check, equivariant, invariant, search
from tests.helpers import seeds
from tests.symmetry import functions as f
from tests.symmetry.mixed_precision import MIXED
from tests.symmetry.true_claims import NOISE

WORDS = "f jumps here: a choice (sort, largest, nearest, sign) hangs on a rounding, at "


def helix(n, phase):
    t = np.arange(n)
    return np.stack([np.cos(0.3 * t + phase), np.sin(0.3 * t + phase), 0.05 * t], -1)


def to_neighbours(x):
    d = ((x[:, None] - x[None]) ** 2).sum(-1)
    r = x[np.argsort(d, 1, kind="stable")[:, 1:4]] - x[:, None]
    return x + (r * np.exp(-(r**2).sum(-1, keepdims=True))).sum(1)


def test_nearest_neighbours_of_evenly_spaced_points_jump():
    draw = lambda rng, n: {"x": helix(n, rng.uniform(0, 6))}
    verdict = search(equivariant(to_neighbours, RotateSpace("x"), RotateSpace()), draw, sizes={"n": range(5, 9)},
                     structures=(), count=30)  # fmt: skip
    said = str(verdict)
    assert WORDS in said
    assert " on one side and " in said
    assert "float32" not in said  # nothing in f is
    assert not verdict.fails
    assert 0 < verdict.counts.jumps < verdict.counts.pairs


def test_where_most_pairs_jump_nothing_holds():
    """0.1, 0.2 … in tenths: their sum in another order is a whole number, or a rounding less."""
    tenths = lambda rng, n: {"x": rng.integers(1, 10, n) / 10}
    verdict = search(invariant(lambda x: np.floor(x.sum() * 10), Permute("x")), tenths, sizes={"n": range(3, 9)},
                     structures=(), scales=(1,), dtypes=(float,), count=40)  # fmt: skip
    assert not verdict.fails
    assert WORDS in str(verdict)
    assert "float32 inside" not in str(verdict)
    assert verdict.holds == (2 * verdict.counts.jumps <= verdict.counts.pairs)


@given(seeds, st.sampled_from([np.less, np.less_equal]), st.integers(1, 3))
@settings(max_examples=6)
def test_a_threshold_that_distances_of_whole_numbers_meet_is_no_violation(seed, below, reach):
    """The points stay what all draws have in common, whole numbers in order, so that rotations alone are perturbed."""
    draw = lambda rng, n: {"x": np.stack([np.arange(n) * 1.0, np.zeros(n)], -1)}
    within = lambda x: below(((x[:, None] - x) ** 2).sum(-1), reach**2).sum()
    verdict = search(invariant(within, RotateSpace("x")), draw, sizes={"n": range(2, 7)}, structures=(), seed=seed,
                     count=30)  # fmt: skip
    assert not verdict.fails


@given(seeds, st.integers(2, 5))
def test_a_jump_has_two_sides(seed, n):
    """A step at a number that both sides miss by a rounding: sums in two orders."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    orders = [rng.permutation(n) for _ in range(8)]
    sums = [x[order].cumsum()[-1] for order in orders]
    low = int(np.argmin(sums))
    differing = [i for i, total in enumerate(sums) if total > sums[low]]
    if not differing:
        return
    step = sums[differing[0]]
    f = lambda x: 1.0 * (x.cumsum()[-1] >= step) + 1
    g = np.argsort(orders[low])[orders[differing[0]]]
    verdict = check(invariant(f, Permute("x")), {"x": x[orders[low]]}, tuple(g.tolist()), inner_precision=None)
    assert not verdict.fails


@pytest.mark.parametrize("name", [*MIXED, *NOISE])
def test_rounding_is_no_jump(name):
    """Functions that are coarser inside, and those that are nothing but rounding."""
    claim, draw, sizes = (MIXED | NOISE)[name]
    assert not search(claim, draw, sizes=sizes, count=8).counts.jumps


def test_a_tie_that_is_exact_is_no_jump():
    larger = lambda x: x[0] if abs(x[0]) >= abs(x[1]) else x[1]
    assert check(invariant(larger, Permute("x")), {"x": np.array([1.0, -1.0])}, (1, 0)).fails
    assert search(invariant(larger, Permute("x")), f.vector, sizes={"n": (2,)}).fails


@pytest.mark.parametrize("every", [7, 23, 97])
def test_a_function_with_a_state_does_not_jump(every):
    """It doubles its result at some calls: called again at the same input it gives something else."""
    called = []

    def counts(x):
        called.append(x)
        return x * (1 + (len(called) % every == 0))

    verdict = search(equivariant(counts, Permute("x", 0), Permute(axis=0)), f.rows, sizes={"n": range(6)})
    assert verdict.outcome == "undecided"
    assert "f gives different results for the same input" in verdict.reason
    assert verdict.counts.jumps == 0
