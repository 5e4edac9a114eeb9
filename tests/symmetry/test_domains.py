"""What all draws have in common is kept: no counter-example leaves the domain, and what is wrong in it is found."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.symmetry import Permute, Select, equivariant, invariant, search
from refnp.symmetry.claim import FLOATS, cast
from refnp.symmetry.constraints import Constraints
from refnp.symmetry.inputs import KINDS, Domain
from tests.helpers import seeds
from tests.symmetry import functions as f
from tests.symmetry.domains import DOMAINS, FALSE, FEW, TRUE, probabilities, symmetric

SCALES = (1.0, 2.0**-10, 2.0**10)
SINGLE = np.dtype(np.float32)


@pytest.mark.parametrize("name", DOMAINS)
def test_every_input_that_is_tried_keeps_the_condition(name):
    draw, holds = DOMAINS[name]
    action = Permute(next(iter(draw(np.random.default_rng(0), n=2))), 0)
    domain = Domain(draw, FEW, action=action).learned(0, (1.0,))
    inputs = list(domain.inputs((np.dtype(float), SINGLE), SCALES, 40, 0, lambda x: x.sizes["n"] > 1))
    broken = [x for x in inputs if not holds(**x.arrays)]
    assert not broken, (broken[0].structure, broken[0].arrays, domain.constraints.words())
    assert len(inputs) > 20


@pytest.mark.parametrize("name", DOMAINS)
def test_counter_examples_keep_it_while_they_are_made_simple(name):
    """A function that is wrong everywhere."""
    draw, holds = DOMAINS[name]
    first = next(iter(draw(np.random.default_rng(0), n=2)))
    place = lambda **arrays: sum(np.sum(np.cos(np.arange(a.size) + a.ravel())) for a in arrays.values())
    verdict = search(invariant(place, Permute(first, 0)), draw, sizes=FEW)
    assert verdict.fails
    assert holds(**verdict.counterexample.inputs)


@given(st.sampled_from(sorted(DOMAINS)), st.sampled_from(KINDS), seeds, st.integers(1, 5), st.integers(0, 3))
def test_structure_keeps_it_or_is_not_imposed(name, kind, seed, n, turn):
    holds = DOMAINS[name][1]
    domain = _learned(name)
    x = domain.structured(np.random.default_rng(seed), {"n": n}, SINGLE, SCALES, kind, turn)
    if x is not None and domain.contains(x):
        assert holds(**x.arrays)
        assert x.structure == kind


@functools.cache
def _learned(name):
    draw = DOMAINS[name][0]
    return Domain(draw, FEW, action=Permute(next(iter(draw(np.random.default_rng(0), n=2))), 0)).learned(0, (1.0,))


@given(seeds, st.integers(2, 5))
def test_rules_are_restored_in_every_precision(seed, n):
    """Rows of sum 1 and symmetric matrices, rounded to float32, have no more than the roundings of each precision."""
    rules = Constraints([probabilities(np.random.default_rng(i), 1 + i % 5) for i in range(16)])
    rounded = cast(probabilities(np.random.default_rng(seed), n), SINGLE)
    for dtype in FLOATS:
        p = rules.restored(cast(rounded, dtype))["p"]
        assert p.dtype == dtype
        assert np.abs(p.astype(FLOATS[-1]).sum(-1) - 1).max() <= 8 * np.finfo(dtype).eps  # at most 7 roundings of 1
    rules = Constraints([symmetric(np.random.default_rng(i), 1 + i % 5) for i in range(16)])
    a = rules.restored({"a": np.random.default_rng(seed).normal(size=(n, n))})["a"]
    assert np.array_equal(a, a.T)


def test_random_numbers_keep_no_rule():
    """Of numbers, whole numbers, masks and times that are drawn freely only the range of whole numbers is one."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        samples = []
        for n in rng.integers(1, 9, 16):
            x, mask = rng.normal(size=(n, 3)), rng.random((n, n)) < 0.7
            samples.append({"x": x, "i": rng.integers(0, 30, n), "mask": mask, "v": rng.normal(size=n)})
        words = Constraints(samples).words()
        assert all(rule.startswith("i is whole numbers from") for rule in words), words


def test_a_rule_that_a_later_draw_breaks_is_dropped():
    rules = Constraints([{"x": np.abs(np.random.default_rng(i).normal(size=9))} for i in range(4)])
    assert rules.words() == ["x is positive"]
    rules.unlearn({"x": np.array([-1.0, 2.0])})
    assert not rules


@pytest.mark.parametrize("name", TRUE)
def test_true_claims_of_a_domain_hold(name):
    claim, draw = TRUE[name]
    search(claim, draw, sizes={"n": range(2, 6)}, count=30).require("holds")


@pytest.mark.parametrize("name", FALSE)
@pytest.mark.parametrize("seed", range(2))
def test_false_claims_are_found_with_every_seed(name, seed):
    claim, draw = FALSE[name]
    found = search(claim, draw, sizes=FEW, seed=seed).require("fails").counterexample
    assert found.sizes["n"] <= 3


def test_where_of_a_claim_and_of_a_search():
    absolute = invariant(lambda x: np.where(x > 0, x, x * np.arange(len(x))).sum(), Permute("x"), where=lambda x: x > 0)
    assert search(absolute, f.vector, sizes={"n": range(4)}).holds
    narrower = search(invariant(lambda x: x[0] ** 2, Permute("x"), where=lambda x: abs(x) <= 1), f.vector,
                      sizes={"n": range(1, 4)}, where=lambda x: abs(x) >= 0.5)  # fmt: skip
    assert all(0.5 <= number <= 1 for number in np.abs(narrower.counterexample.inputs["x"]))


def test_a_report_says_how_its_input_was_made():
    ties = invariant(lambda x: x.sum() + (x[0] if len(np.unique(x)) < len(x) else 0), Permute("x"))
    said = str(search(ties, f.vector, sizes={"n": range(5)}))
    assert "made by '" in said
    assert "', not by your draw; none of " in said
    assert "found at an input as your draw gives it" in str(search(invariant(lambda x: x[0], Permute("x")), f.vector,
                                                                   sizes={"n": range(1, 5)}))  # fmt: skip
    steps = lambda x: np.round(x / np.abs(x).max() * 127) / 127 * np.abs(x).max()  # 8 bits of the largest in the batch
    alone = equivariant(steps, Select("x", 0), Select(axis=0))
    said = str(search(alone, lambda rng, n: {"x": rng.normal(size=(n, 4))}, sizes={"n": [1, 2]}))
    assert "of 8 more as your draw gives them none refutes the claim, 5 are undecided" in said
    kept = search(invariant(np.linalg.eigvalsh, Permute({"a": (0, 1)})), symmetric, sizes=FEW)
    assert "kept as in all draws: a is symmetric in axes 0 and 1" in str(kept)
