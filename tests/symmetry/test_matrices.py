"""Rotations in any dimension and matrix groups of one's own: what they do, true claims, false ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.symmetry import MatrixGroup, RotateSpace, Trivial, equivariant, invariant, search
from refnp.symmetry.claim import FLOATS
from tests.helpers import assert_within, seeds, unit_roundoff
from tests.symmetry.functions import squared_distances
from tests.symmetry.test_actions import FOUR, boost
from tests.symmetry.test_false_claims import refuted
from tests.symmetry.true_claims import SCALES, cosine

DIMENSIONS = {"n": range(1, 4), "d": (1, 2, 3, 5)}
SPACE, IN_SPACE = RotateSpace("x", mirror=True), {"n": range(1, 4), "d": (3,)}


def points(rng, n, d):
    return {"x": rng.normal(size=(n, d)), "y": rng.normal(size=(n, d))}


def plane(rng, n):
    return points(rng, n, 2)


def matrix_of(action, g, d, dtype=np.float64):
    return action.act(g, {"x": np.eye(d, dtype=dtype)})["x"].T


@given(seeds, st.integers(0, 7), st.sampled_from(FLOATS))
def test_what_is_drawn_is_orthogonal_to_rounding_and_has_its_determinant(seed, d, dtype):
    """Each turn rounds a column, of length 1, by 8 u at most: two products, their sum, cos and sin; R'R twice that."""
    g = SPACE.draw(np.random.default_rng(seed), {"x": np.zeros((2, d))})
    matrix = matrix_of(SPACE, g, d, dtype)
    assert_within(matrix.T @ matrix, np.eye(d), 16 * (len(g[0]) + d) * unit_roundoff(dtype))
    if d:
        assert round(np.linalg.det(matrix.astype(float))) == (-1 if g[1] else 1)


def test_what_is_drawn_differs_in_every_number():
    """No plane and no direction is left out: over some draws every entry of the matrix takes both signs and more."""
    action = RotateSpace("x")
    x = {"x": np.zeros((1, 5))}
    drawn = np.array([matrix_of(action, action.draw(np.random.default_rng(seed), x), 5) for seed in range(200)])
    assert (drawn.min(0) < -0.2).all()
    assert (drawn.max(0) > 0.2).all()


def test_quarter_turns_are_exact_and_others_are_rounded_in_the_precision_of_the_array():
    quarter = (((0, 2, 0.25),), 1)
    assert SPACE.act(quarter, {"x": np.array([[1, 2, 3]])})["x"].tolist() == [[-3, 2, -1]]
    sixteenth = (((0, 1, 1 / 16),), 0)
    for dtype in FLOATS:
        cos = SPACE.act(sixteenth, {"x": np.array([1, 0], dtype)})["x"][0]
        assert abs(cos - np.sqrt(2 + np.sqrt(dtype.type(2))) / 2) <= 2 * unit_roundoff(dtype)
    with pytest.raises(ValueError, match=r"whole numbers can be turned by quarters only, not by 0\.0625 of a turn"):
        SPACE.act(sixteenth, {"x": np.array([1, 0])})


def test_two_axes_turn_like_a_covariance():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 3))
    action = RotateSpace({"x": -1, "c": (-2, -1)}, mirror=True)
    g = action.draw(rng, {"x": x, "c": x.T @ x})
    moved = action.act(g, {"x": x, "c": x.T @ x})
    assert_within(moved["x"].T @ moved["x"], moved["c"], 200 * unit_roundoff(float) * np.abs(x.T @ x).max())


@pytest.mark.parametrize("mirror", [False, True])
def test_distances_and_moments_know_no_direction(mirror):
    turn = {"mirror": mirror}
    distances = lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1)
    search(invariant(distances, RotateSpace(("x", "y"), **turn)), points, sizes=DIMENSIONS, count=16).require("holds")
    covariance = lambda x, y: x.T @ y
    both = RotateSpace(("x", "y"), **turn), RotateSpace(axis=(-2, -1), **turn)
    search(equivariant(covariance, *both), points, sizes=DIMENSIONS, count=16).require("holds")
    volume = lambda x, y: np.linalg.det(x[:1].T @ y[:1] + np.eye(x.shape[1], dtype=x.dtype))
    search(invariant(volume, RotateSpace(("x", "y"), **turn)), points, sizes=DIMENSIONS, count=16).require("holds")


def test_a_cross_product_changes_its_sign_in_a_mirror():
    cross, both = (lambda x, y: np.cross(x, y)), RotateSpace(("x", "y"), mirror=True)
    search(equivariant(cross, both, RotateSpace(pseudo=True)), points, sizes=IN_SPACE, count=16).require("holds")
    found = refuted(equivariant(cross, both, RotateSpace()), points, IN_SPACE)
    assert found.element == ((), 1)  # the reflection alone
    assert found.sizes == {"n": 1, "d": 3}
    turned = equivariant(cross, RotateSpace(("x", "y")), RotateSpace())
    search(turned, points, sizes=IN_SPACE, count=16).require("holds")
    triple = lambda x, y: (np.cross(x, y) * (x + y)[::-1]).sum()
    signed = equivariant(triple, both, RotateSpace(axis=(), pseudo=True))
    search(signed, points, sizes={"n": (2, 3), "d": (3,)}, count=8).require("holds")


BOTH = RotateSpace(("x", "y"), mirror=True)
BOOSTS = MatrixGroup(("x", "y"), matrices=boost, sample=lambda rng: rng.uniform(-2, 2))
ROUND_BADLY = {  # true claims, of functions that lose digits
    "distances": (invariant(squared_distances, BOTH), points, DIMENSIONS),
    "kernel": (invariant(lambda x, y: np.exp(-8 * squared_distances(x, y)), BOTH), points, DIMENSIONS),
    "singular values": (invariant(lambda x, y: np.linalg.svd(x, compute_uv=False), SPACE), points, DIMENSIONS),
    "one-pass variance": (invariant(lambda x, y: (x * x).mean() - (x.mean(0) ** 2).mean(), SPACE), points, DIMENSIONS),
    "cosine": (invariant(cosine, BOTH), points, DIMENSIONS),
    "cross product": (equivariant(lambda x, y: np.cross(x, y), BOTH, RotateSpace(pseudo=True)), points, IN_SPACE),
    "interval": (invariant(lambda x, y: (x - y)[:, 0] ** 2 - (x - y)[:, 1] ** 2, BOOSTS), plane, {"n": range(1, 4)}),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ROUND_BADLY)
def test_true_claims_are_not_refuted_however_badly_they_round(name, seed):
    claim, draw, sizes = ROUND_BADLY[name]
    search(claim, draw, sizes=sizes, scales=SCALES, count=12, seed=seed).require("holds")


def test_a_single_coordinate_has_one_reflection():
    assert SPACE.elements({"x": np.zeros((4, 1))}) == [((), 0), ((), 1)]
    assert RotateSpace("x").elements({"x": np.zeros((4, 1))}) == [((), 0)]
    assert SPACE.elements({"x": np.zeros((4, 0))}) == [((), 0)]
    assert SPACE.elements({"x": np.zeros((4, 2))}) is None


@pytest.mark.parametrize("seed", range(3))
def test_what_depends_on_one_direction_is_found_with_a_quarter_turn(seed):
    norm = lambda x, y: np.sqrt((x * x).sum(-1))
    search(invariant(norm, RotateSpace("x")), points, sizes=DIMENSIONS, count=16, seed=seed).require("holds")
    weighted = lambda x, y: norm(x, y) + 1e-9 * np.abs(x[..., -1])
    found = refuted(invariant(weighted, RotateSpace("x")), points, {"n": range(1, 4), "d": (2, 3, 5)}, seed=seed)
    assert found.sizes == {"n": 1, "d": 2}
    assert found.element == (((0, 1, 0.25),), 0)
    assert sorted(map(abs, found.inputs["x"].ravel())) == [0, 1]


def test_in_many_dimensions_few_turns_are_tried_and_any_coordinate_is_still_found():
    many = {"x": np.zeros((1, 40))}
    planes = {turns[0][:2] for turns, _ in RotateSpace("x").generators(many)}
    assert len(planes) == 8
    assert {(0, 1), (38, 39)} <= planes
    for coordinate in (0, 17, 39):
        single = lambda x, y, coordinate=coordinate: x[:, coordinate] ** 2
        found = refuted(invariant(single, SPACE), points, {"n": (1, 2), "d": (40,)}, count=8)
        assert found.sizes["n"] == 1
        assert len(found.element[0]) == 1
    norm = lambda x, y: (x * x).sum(-1)
    search(invariant(norm, SPACE), points, sizes={"n": (1, 2), "d": (40,)}, count=8).require("holds")


def test_what_quarters_do_not_show_is_found_with_another_turn():
    """The sum of fourth powers knows the axes, but not their order or sign."""
    found = refuted(invariant(lambda x, y: (x**4).sum(), SPACE), points, IN_SPACE)
    ((turn,), mirrored) = found.element
    assert turn == (0, 1, 0.125)
    assert not mirrored


def third_of_a_turn(dtype):
    c, s = dtype.type(-1) / 2, np.sqrt(dtype.type(3)) / 2
    return np.array([[c, -s], [s, c]])


class TestMatrixGroup:
    def test_areas_are_invariant_under_whole_matrices_of_determinant_one(self):
        area = lambda x, y: x[:, 0] * y[:, 1] - x[:, 1] * y[:, 0]
        shears = MatrixGroup(("x", "y"), matrices=[[[1, 1], [0, 1]], [[0, -1], [1, 0]]])
        search(invariant(area, shears), plane, sizes={"n": range(1, 4)}).require("holds")
        doubled = MatrixGroup(("x", "y"), matrices=[[[1, 1], [0, 1]], [[0, -1], [2, 0]]])
        found = refuted(invariant(area, doubled), plane, {"n": range(1, 4)})
        assert found.element == (1,)
        assert found.sizes == {"n": 1}

    def test_boosts_keep_the_interval(self):
        boosts = MatrixGroup(("x", "y"), matrices=boost, sample=lambda rng: rng.uniform(-2, 2))
        interval = lambda x, y: (x - y)[:, 0] ** 2 - (x - y)[:, 1] ** 2
        search(invariant(interval, boosts), plane, sizes={"n": range(1, 4)}, count=16).require("holds")
        found = refuted(invariant(lambda x, y: (x - y)[:, 0], boosts), plane, {"n": range(1, 4)})
        assert len(found.element) == 1
        assert abs(found.element[0]) in (0.125, 0.25, 0.5, 1, 2)
        assert found.description.startswith("matrix ")

    def test_the_output_moves_in_another_representation(self):
        """z → z² doubles angles; a quarter turn and a reflection of the plane, and what they make of the squares."""
        square = lambda x, y: np.stack([x[:, 0] ** 2 - x[:, 1] ** 2, 2 * x[:, 0] * x[:, 1]], -1)
        quarter, mirror, half = [[0, -1], [1, 0]], [[1, 0], [0, -1]], [[-1, 0], [0, -1]]
        action = MatrixGroup("x", matrices=[quarter, mirror])
        verdict = search(equivariant(square, action, MatrixGroup(matrices=[half, mirror])), plane, sizes={"n": (1, 2)})
        verdict.require("holds")
        assert verdict.counts.exhausted == verdict.counts.inputs  # all eight elements
        refuted(equivariant(square, action, MatrixGroup(matrices=[quarter, mirror])), plane, {"n": (1, 2)})

    def test_matrices_that_are_rounded_are_functions_of_the_dtype(self):
        """A third of a turn has √3 in it: as float64 numbers it is no third of a turn in longdouble."""
        square = lambda x, y: (x * x).sum(-1)
        cube = lambda x, y: x[:, 0] ** 3 - 3 * x[:, 0] * x[:, 1] ** 2
        exact = MatrixGroup("x", matrices=[third_of_a_turn])
        rounded = MatrixGroup("x", matrices=[third_of_a_turn(np.dtype(float))])
        for f in (square, cube):
            verdict = search(invariant(f, exact), plane, sizes={"n": (1, 2)}, count=16).require("holds")
            assert verdict.counts.exhausted == verdict.counts.inputs  # three elements
        if len(FLOATS) > 2:
            verdict = search(invariant(square, rounded), plane, sizes={"n": (1, 2)}, count=16).require("holds")
            assert verdict.precision == "its float64 constants"

    def test_whole_groups_and_their_order(self):
        quarter, mirror = np.array([[0, -1], [1, 0]]), np.array([[1, 0], [0, -1]])
        x = {"x": np.zeros((1, 2))}
        words = MatrixGroup("x", matrices=[quarter, mirror]).elements(x)
        assert len(words) == 8
        assert words[0] == ()
        assert max(map(len, words)) == 3
        powers = [np.linalg.matrix_power(quarter, k) for k in range(4)]
        assert sorted(MatrixGroup("x", matrices=powers).elements(x)) == [(), (1,), (2,), (3,)]  # a list of all
        assert MatrixGroup("x", matrices=[[[1, 1], [0, 1]]]).elements(x) is None
        assert MatrixGroup("x", matrices=[[[0.5, 0], [0, 0.5]]]).elements(x) is None
        assert len(MatrixGroup("x", matrices=[third_of_a_turn]).elements(x)) == 3

    def test_whole_numbers_and_complex_ones(self):
        action = MatrixGroup("x", matrices=[[[0.0, -1], [1, 0]], [[0.5, 0], [0, 1]], [[1j, 0], [0, 1]]])
        assert action.act((0,), {"x": np.array([1, 2])})["x"].tolist() == [-2, 1]
        assert action.act((2, 0), {"x": np.array([1, 2j])})["x"].tolist() == [2, 1]
        for letter, x in ((1, np.array([1, 2])), (2, np.array([1.0, 2])), (0, np.array([True, False]))):
            with pytest.raises(ValueError, match="cannot be multiplied by a matrix of"):
                action.act((letter,), {"x": x})

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: MatrixGroup("x"), "there are no matrices"),
            (lambda: MatrixGroup("x", matrices=[[[1, 2]]]), r"the matrices have shapes \[\(1, 2\)\]; they must all be"),
            (lambda: MatrixGroup("x", matrices=[np.eye(2), np.eye(3)]), "they must all be"),
            (lambda: MatrixGroup("x", matrices=[np.eye(2) * np.nan]), "a NaN or an infinity"),
            (lambda: MatrixGroup("x", matrices=boost), "matrices=function and sample=function together"),
            (lambda: MatrixGroup("x", matrices=[np.eye(2)], sample=lambda rng: 1.0), "and sample=function together"),
            (
                lambda: equivariant(np.sum, MatrixGroup("x", matrices=FOUR), MatrixGroup(matrices=FOUR[:1])),
                "cannot take the elements of the input action",
            ),
            (lambda: MatrixGroup("x", matrices=[np.eye(3)]).act((0,), {"x": np.ones(2)}), "must have 3 coordinates"),
            (lambda: RotateSpace("x").act((((0, 3, 0.25),), 0), {"x": np.ones(2)}), "needs 4 along axis -1"),
            (lambda: RotateSpace("x").act(((), 1), {"x": np.ones(2, bool)}), "is bool and has no sign"),
        ],
    )
    def test_what_is_no_matrix_group_is_said(self, make, message):
        with pytest.raises(ValueError, match=message):
            make()


def test_in_words():
    assert str(RotateSpace("x", mirror=True)) == "rotations and reflections of axis -1 of x about the origin"
    assert str(RotateSpace(pseudo=True)) == "rotations of axis -1 about the origin, with the sign of reflections"
    assert SPACE.describe((((0, 2, 0.25), (1, 2, -0.5)), 1)) == (
        "coordinate 0 mirrored, then -0.5 of a turn from coordinate 1 to 2, then 0.25 of a turn from coordinate 0 to 2"
    )
    assert SPACE.describe(((), 0)) == "no turn"
    group = MatrixGroup("x", matrices=[np.eye(2), -np.eye(2)])
    assert str(equivariant(lambda x: x, group, Trivial(), name="f")) == (
        "f is invariant under products of 2 matrices on axis -1 of x"
    )
    assert [group.describe(g) for g in ((), (1,), (0, 1))] == ["no matrix", "matrix 1", "product of matrices 0, 1"]
