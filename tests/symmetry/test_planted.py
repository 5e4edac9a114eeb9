"""What is wrong only for repeated items, zeros and the like is found, with the smallest counter-example; progress."""

import io

import numpy as np
import pytest

from refnp import progress
from refnp.symmetry import Permute, equivariant, invariant
from refnp.symmetry import search as full_search
from refnp.symmetry.structure import KINDS, NUMBERS, Drawn, impose
from tests.helpers import Terminal
from tests.symmetry import functions as f
from tests.symmetry.functions import search
from tests.symmetry.planted import PLANTS, SIZES

SCALES = {"x": (1.0, 2.0**10), "y": (1.0,), "mask": (1.0,), "i": (1.0,)}


@pytest.mark.parametrize("name", PLANTS)
def test_what_is_planted_is_found(name):
    plant = PLANTS[name]
    verdict = full_search(plant.claim, plant.draw, sizes=plant.sizes or SIZES)
    assert verdict.fails, str(verdict)
    assert verdict.counterexample.sizes == plant.least


def test_without_structure_it_is_not():
    """Two rows of random numbers are never equal."""
    plant = PLANTS["repeated rows"]
    verdict = full_search(plant.claim, plant.draw, sizes=SIZES, structures=())
    assert verdict.holds
    assert "with " not in verdict.sense
    told = full_search(invariant(lambda x: np.sin(x).sum(0), Permute("x", 0)), plant.draw, sizes=SIZES).sense
    assert "; with a repeated item, equal items, items of very different scales, ties, some zeros" in told
    with pytest.raises(ValueError, match="there is no structure 'spirals'; there are a repeated item, equal items"):
        search(plant.claim, plant.draw, sizes=SIZES, structures=("spirals",))


def test_where_is_respected():
    plant = PLANTS["exact zeros"]
    assert search(plant.claim, plant.draw, sizes=SIZES, where=lambda x: x != 0, count=40).holds


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("turn", range(3))
def test_only_what_is_drawn_at_random_changes(kind, turn):
    """Fixed grids, zeros among other numbers, arrays in order, the sign of positive numbers, whole numbers' range."""

    def draw(rng):
        support = np.array([True, True, True, False, False])
        return {
            "grid": np.linspace(0, 1, 5),
            "times": np.sort(rng.uniform(0, 9, 5)),
            "positive": rng.uniform(2, 3, (5, 2)),
            "padded": np.where(support, rng.normal(size=5), 0),
            "ids": rng.integers(3, 9, 5),
            "none": None,
        }

    for seed in range(20):
        rng = np.random.default_rng((seed, turn))
        arrays = draw(rng)
        drawn = Drawn(arrays, draw(rng), rng, (5,), turn)
        changed = impose(kind, drawn, dict.fromkeys(arrays, (1.0, 2.0))) or {}
        found = {**arrays, **changed}
        assert np.array_equal(found["grid"], arrays["grid"])
        assert np.all(np.diff(found["times"]) >= 0)
        assert np.all(found["positive"] > 0)
        assert not found["padded"][3:].any()
        assert set(found["ids"]) <= set(range(3, 9))
        assert found["ids"].dtype == arrays["ids"].dtype


def test_each_kind_does_what_it_says():
    rng = np.random.default_rng(0)
    draw = lambda: {"x": rng.normal(size=(4, 3))}
    made = {kind: impose(kind, Drawn(draw(), draw(), rng, (4,)), SCALES)["x"] for kind in (*NUMBERS, *KINDS[:2])}
    assert len(np.unique(made["a repeated item"], axis=0)) == 3
    assert len(np.unique(made["equal items"], axis=0)) == 1
    assert len(np.unique(made["ties"])) <= 2
    assert 0 < np.sum(made["some zeros"] == 0) < 12
    assert np.any(~made["a zero item"].any(1))
    assert not made["zeros"].any()
    assert np.all(made["ones"] == 1)
    assert np.ptp(made["a constant"]) == 0
    halves = 2 * made["whole numbers and halves"]
    assert np.array_equal(halves, np.rint(halves))
    assert np.all(made["positive"] > 0)
    assert np.all(made["negative"] < 0)
    assert np.all(np.diff(made["sorted"], axis=0) > 0)
    assert np.all(np.diff(made["reversed"], axis=0) < 0)
    assert any(np.array_equal(a, -b) for a in made["an opposite item"] for b in made["an opposite item"])


def test_a_mask_follows_its_tokens():
    rng = np.random.default_rng(0)
    draw = lambda: f.masked(rng, 5)
    arrays = draw()
    found = {**arrays, **impose("a repeated item", Drawn(arrays, draw(), rng, (5,)), SCALES)}
    same = [(i, j) for i in range(5) for j in range(i) if np.array_equal(found["x"][i], found["x"][j])]
    assert len(same) == 1
    assert np.array_equal(found["mask"][same[0][0]], found["mask"][same[0][1]])


def test_singular_matrices_that_are_refused_by_chance_refute_nothing():
    """Elimination finds a singular matrix singular, or not, as its rounding errors fall."""
    draw = lambda rng, n: {"a": rng.normal(size=(n, n))}
    claim = equivariant(np.linalg.inv, Permute("a", 0), Permute())
    for seed in range(3):
        assert not full_search(claim, draw, sizes={"n": range(1, 6)}, seed=seed).fails


def test_nan_is_called_nan():
    verdict = full_search(PLANTS["NaN for a row of zeros"].claim, f.rows, sizes={"n": range(5), "m": (2,)})
    assert verdict.fails
    assert "NaN on one side only" in verdict.counterexample.reason
    everywhere = lambda x: [np.full(2, np.nan), x.sum()]
    agrees = search(invariant(everywhere, Permute("x")), f.vector, sizes={"n": range(5)})
    assert agrees.holds
    assert agrees.counts.nan == agrees.counts.pairs
    assert f"f gave NaN at {agrees.counts.nan} pairs, on both sides in the same places, which agrees" in agrees.reason
    nothing = search(invariant(lambda x: np.full(2, np.nan), Permute("x")), f.vector, sizes={"n": range(5)})
    assert nothing.outcome == "undecided"
    assert "f gave only NaN" in nothing.reason


@pytest.mark.parametrize(
    ("stream", "after", "shown"), [(Terminal, 0, True), (Terminal, 60, False), (io.StringIO, 0, False)]
)
def test_progress_is_shown_on_a_terminal_after_a_while(monkeypatch, stream, after, shown):
    written = stream()
    monkeypatch.setattr("sys.stderr", written)
    monkeypatch.setattr(progress, "AFTER", after)
    monkeypatch.setattr(progress, "EVERY", 0)
    search(invariant(lambda x: x.cumsum(), Permute("x")), f.vector, sizes={"n": range(5)})
    text = written.getvalue()
    assert bool(text) == shown
    if shown:
        assert " of 16 inputs, " in text
        assert "more inputs to make it simpler" in text
        assert text.endswith("\r" + " " * (len(text.split("\r")[-2])) + "\r")
