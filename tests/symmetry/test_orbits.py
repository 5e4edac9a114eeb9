"""Inputs that the group makes special, and every kind of structure at the smallest sizes."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.symmetry import Flip, Negate, Permute, Roll, Rotate, RotateGrid, RotateSpace, Translate
from refnp.symmetry.inputs import KINDS, Domain
from refnp.symmetry.orbits import HIGHEST_ORDER, imposed, powers
from tests.helpers import seeds
from tests.symmetry import functions as f

MOVING = {
    "ring": (Roll("x"), (8,)),
    "order": (Permute("x", 0), (4, 2)),
    "turned round": (Flip("x"), (5,)),
    "image": (RotateGrid("x", mirror=True), (4, 4)),
}


@given(st.sampled_from(sorted(MOVING)), seeds)
def test_a_symmetric_input_is_left_as_it_is_by_more_than_the_identity(name, seed):
    action, shape = MOVING[name]
    rng = np.random.default_rng(seed)
    x = {"x": rng.normal(size=shape)}
    made = {**x, **imposed("a symmetric input", action, x, rng, 0)}
    every = action.elements(made)
    assert sum(np.array_equal(action.act(g, made)["x"], made["x"]) for g in every) > 1
    assert set(made["x"].ravel()) <= set(x["x"].ravel())


@pytest.mark.parametrize("n", [1, 2, HIGHEST_ORDER - 1, HIGHEST_ORDER, HIGHEST_ORDER + 1, 40])
def test_powers_end_before_x_comes_again_or_after_twelve(n):
    x = {"x": np.arange(n) + 0.5, "mask": None}
    found = [moved["x"].tolist() for moved in powers(Roll("x"), 1, x)]
    assert found == [np.roll(x["x"], k).tolist() for k in range(min(n, HIGHEST_ORDER))]


@given(seeds, st.integers(1, 4))
def test_an_opposite_input_is_its_own_negative_under_one_element(seed, half):
    rng = np.random.default_rng(seed)
    x = {"x": rng.normal(size=2 * half)}
    made = imposed("an opposite input", Roll("x"), x, rng, 0)
    if made:  # the element that was taken has an even order
        assert any(np.array_equal(np.roll(made["x"], k), -made["x"]) for k in range(2 * half))


@given(seeds, st.integers(3, 8))
def test_an_orbit_of_turns_is_a_regular_polygon(seed, n):
    rng = np.random.default_rng(seed)
    for action, d in ((Rotate("x"), 2), (RotateSpace("x"), 3)):
        made = imposed("an orbit", action, {"x": rng.normal(size=(n, d))}, rng, 0)["x"]
        sides = np.linalg.norm(made - np.roll(made, 1, axis=0), axis=-1)
        np.testing.assert_allclose(np.linalg.norm(made, axis=-1), np.linalg.norm(made[0]), rtol=1e-12)
        np.testing.assert_allclose(sides, sides[0], rtol=1e-9)


def test_orbits_of_signs_and_shifts():
    rng = np.random.default_rng(0)
    x = {"x": rng.normal(size=(4, 2)), "mass": rng.normal(size=4)}
    pairs = imposed("an orbit", Negate("x"), x, rng, 0)
    assert np.array_equal(pairs["x"][1], -pairs["x"][0])
    assert pairs["mass"][0] == pairs["mass"][1]  # the same item, moved
    spaced = imposed("an orbit", Translate("x"), x, rng, 0)["x"]
    np.testing.assert_allclose(np.diff(spaced, axis=0), np.diff(spaced, axis=0)[:1].repeat(3, 0))


@pytest.mark.parametrize("seed", range(3))
def test_every_kind_comes_at_each_of_the_two_smallest_sizes_that_move(seed):
    domain = Domain(f.rows, {"n": range(9)}, action=Permute("x", 0) * Negate("x"))
    inputs = domain.inputs((np.dtype(float),), (1.0, 2.0**10), 10, seed, lambda x: x.sizes["n"] > 1)
    found = Counter((x.structure, x.sizes["n"]) for x in inputs)
    for kind in KINDS:
        if kind != "a shared item":  # there is one array
            assert found[kind, 2] and found[kind, 3], kind  # noqa: PT018
