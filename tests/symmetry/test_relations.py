"""Arrays that follow from others: what draws show is said, kept, and restored by its formula."""

import itertools

import numpy as np
import pytest

from refnp.symmetry.constraints import Constraints


def rows(rng, n):
    return rng.normal(size=(n, 2))


def some(rng, n):
    """Rows of whole numbers, of which some are 0 as a whole."""
    return rng.integers(1, 9, (n, 2)) * (rng.random((n, 1)) < 0.5)


def mask(rng, n):
    return rng.random((n, n)) < 0.5


def present(rng, n):
    return rng.random(n) < 0.5


def differences(x):
    return x[:, None] - x[None]


FOLLOWS = {  # what is said of y, how x is drawn, and y from x
    "is True where x is not 0": (some, lambda x: x.any(-1)),
    "is True where x is 0": (some, lambda x: ~x.any(-1)),
    "is True where x is finite": (
        lambda rng, n: np.where(rng.random(n) < 0.5, np.nan, rng.normal(size=n)), lambda x: np.isfinite(x)),
    "is one-hot, the places are x": (lambda rng, n: rng.integers(0, 4, n), lambda x: np.eye(4)[x]),
    "is True where x is True at both places": (present, lambda x: x[:, None] & x),
    "is True where x is True": (present, lambda x: np.tile(x, (len(x), 1))),
    "is the number of entries of x other than 0": (mask, lambda x: x.sum(-1)),
    "is the length of axis 0 of x": (rows, lambda x: np.array(len(x))),
    "is equal to x": (rows, lambda x: x.copy()),
    "is the differences of the rows of x": (rows, differences),
    "is the differences of the rows of x, the other way round": (rows, lambda x: -differences(x)),
    "is the squared distances of the rows of x": (rows, lambda x: (differences(x) ** 2).sum(-1)),
    "is the distances of the rows of x": (rows, lambda x: np.sqrt((differences(x) ** 2).sum(-1))),
    "is the products of the rows of x": (rows, lambda x: x @ x.T),
    "is the order of x": (lambda rng, n: rng.normal(size=n), np.argsort),
    "is x in order": (lambda rng, n: rng.normal(size=n), np.sort),
    "is the running sum of x": (lambda rng, n: rng.normal(size=n), np.cumsum),
    "is the sum of x along its last axis": (rows, lambda x: x.sum(-1)),
}  # fmt: skip


@pytest.mark.parametrize("words", FOLLOWS)
def test_what_follows_is_said_and_made_anew(words):
    draw, formula = FOLLOWS[words]
    drawn = [draw(np.random.default_rng(seed), 4 + seed % 4) for seed in range(16)]
    kept = Constraints([{"x": x, "y": formula(x)} for x in drawn])
    assert f"y {words}" in kept.words()
    x, other = drawn[3], drawn[7]
    assert kept.hold({"x": x, "y": formula(x)})
    assert kept.hold({"x": None, "y": formula(x)})
    broken = {"x": x, "y": formula(other) if formula(x).shape else formula(other) + 1}
    assert not kept.hold(broken)
    made = kept.restored(broken)["y"]
    np.testing.assert_array_equal(made, formula(x))
    assert made.dtype == broken["y"].dtype
    kept.unlearn(broken)
    assert f"y {words}" not in kept.words()


CONDITIONS = {  # what is said of y, how both are drawn, and a y that breaks it
    "hides only zeros of x": (
        lambda rng, n: (lambda m: (m[:, None] * rng.integers(0, 4, (n, 2)) * 1.0, m))(present(rng, n)),
        lambda x, y: ~x.any(-1)),
    "is never less than x": (
        lambda rng, n: (lambda x: (x, x + rng.integers(0, 2, n) * rng.random(n)))(rng.normal(size=n)),
        lambda x, y: x - np.eye(len(x))[-1]),
    "points into axis 0 of x": (
        lambda rng, n: (rows(rng, n), rng.integers(0, n, 3)), lambda x, y: np.array([0, 0, len(x)])),
}  # fmt: skip


@pytest.mark.parametrize("words", CONDITIONS)
def test_what_two_arrays_keep_is_said_and_asked_for(words):
    _, breaking = CONDITIONS[words]
    x, y = drawn_of(words)[3]
    own = condition(words)
    assert own.holds({"x": x, "y": y})
    assert not own.holds({"x": x, "y": breaking(x, y)})


def drawn_of(words):
    draw, _ = CONDITIONS[words]
    return [draw(np.random.default_rng(seed), 4 + seed % 4) for seed in range(16)]


def condition(words):
    """The condition alone that all draws keep."""
    kept = Constraints([{"x": x, "y": y} for x, y in drawn_of(words)]).kept
    (own,) = [c for c in kept if f"{c.name} {c.words}" == f"y {words}"]
    return own


@pytest.mark.parametrize("words", CONDITIONS)
def test_of_what_two_arrays_keep_by_chance_nothing_is_said(words):
    """The same arrays, paired with those of other draws."""
    draw, _ = CONDITIONS[words]
    drawn = [draw(np.random.default_rng(seed), 6) for seed in range(16)]
    pairs = [{"x": x, "y": y} for (x, _), (_, y) in itertools.pairwise(drawn)]
    assert f"y {words}" not in Constraints(pairs).words()


def test_a_condition_says_nothing_of_other_shapes():
    own = condition("hides only zeros of x")
    assert own.holds({"x": np.ones((3, 2)), "y": np.zeros(2, bool)})
    assert not own.holds({"x": np.ones((2, 2)), "y": np.zeros(2, bool)})


def test_places_in_short_axes():
    own = condition("points into axis 0 of x")
    for length, place, holds in ((0, 0, True), (0, 1, False), (1, 0, True), (1, 1, False)):
        assert own.holds({"x": np.zeros((length, 2)), "y": np.array([0, place])}) == holds
