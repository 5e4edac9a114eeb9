"""What is false is caught, with the smallest counter-example there is."""

import numpy as np
import pytest

from refnp.layers import softmax
from refnp.symmetry import Negate, Permute, Prefix, Roll, Rotate, Scale, Select, Slide, Translate, Trivial
from refnp.symmetry.claim import equivariant, invariant
from tests.symmetry import functions as f
from tests.symmetry.functions import search


def refuted(claim, draw, sizes, **options):
    """The counter-example of a claim that must fail; it must be one, in float64, by hand."""
    verdict = search(claim, draw, sizes=sizes, **options)
    assert verdict.fails, str(verdict)
    found = verdict.counterexample
    moved = claim.action.act(found.element, found.inputs)
    given, expected = (
        claim.f(**moved),
        claim.action_out.act(found.element, {"output": claim.f(**found.inputs)})["output"],
    )
    assert np.any(np.asarray(given) != np.asarray(expected))
    return found


def test_sinusoidal_positions_break_permutation_with_two_tokens_of_zeros():
    claim = equivariant(f.sinusoidal_attention, Permute("x", 0), Permute(axis=0))
    found = refuted(claim, f.rows, {"n": range(7), "m": (1, 2, 3)})
    assert found.sizes == {"n": 2, "m": 1}
    assert found.element == (1, 0)
    assert not found.inputs["x"].any()


def test_zero_padding_breaks_the_shifts_of_a_ring():
    found = refuted(equivariant(f.padded_convolution, Roll("x"), Roll()), f.signal, {"n": range(1, 12)})
    assert found.sizes == {"n": 2}  # a ring of one has no shifts
    assert found.element == 1
    assert sorted(found.inputs["x"].ravel()) == [0, 1]


def test_a_unet_is_not_equivariant_to_less_than_its_stride():
    found = refuted(equivariant(f.ring_unet, Roll("x"), Roll()), f.signal, {"n": (4, 8, 12)})
    assert found.sizes == {"n": 4}
    assert found.element == 1
    found = refuted(equivariant(f.ring_unet, Roll("x", step=2), Roll(step=2)), f.signal, {"n": (4, 8, 12)})
    assert found.element == 1  # once two


def test_what_mixes_the_batch_is_seen_when_items_are_taken_out():
    mixed = lambda x: x - x.max(0)
    assert search(equivariant(mixed, Permute("x", 0), Permute(axis=0)), f.rows, sizes={"n": range(1, 5)}).holds
    found = refuted(equivariant(mixed, Select("x", 0), Select(axis=0)), f.rows, {"n": range(1, 5), "m": (1, 2)})
    assert found.sizes == {"n": 2, "m": 1}
    assert len(found.element) == 1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [1e-3, 1e-6, 1e-9, 1e-12])
def test_subtle_violations_are_caught(size, seed):
    """The first token counts for a little more than it should."""

    def biased(x):
        y = x.sum(0)
        return y * (1 + size * np.tanh(x[0])) if len(x) else y

    found = refuted(invariant(biased, Permute("x", 0)), f.rows, {"n": range(6), "m": (1, 2)}, seed=seed)
    assert found.sizes == {"n": 2, "m": 1}
    assert 1e-3 * size < found.relative["float64"] < size
    assert list(found.relative.values())[-1] == pytest.approx(found.relative["float64"], rel=0.1)  # does not shrink


def test_wrong_for_four_or_more_only():
    claim = invariant(lambda x: x.sum() if len(x) < 4 else x[1:].sum(), Permute("x"))
    found = refuted(claim, f.vector, {"n": range(9)})
    assert found.sizes == {"n": 4}
    assert sorted(found.inputs["x"]) == [0, 0, 0, 1]


def test_wrong_for_negative_numbers_only():
    claim = equivariant(lambda x: np.where(x < 0, x * x, x), Scale("x"), Scale())
    found = refuted(claim, f.vector, {"n": range(4)})
    assert found.inputs["x"].tolist() == [-1]
    assert found.element == 2


def test_wrong_at_zero_points_only():
    found = refuted(invariant(lambda x: x.mean() if len(x) else len(x) + 1.0, Select("x")), f.vector, {"n": range(4)})
    assert found.sizes == {"n": 1}
    assert found.element == ()


def test_a_mask_must_travel_with_its_tokens():
    wrong = equivariant(f.self_attention, Permute("x", 0), Permute(axis=0))
    found = refuted(wrong, f.masked, {"n": range(6)})
    assert found.sizes == {"n": 2}
    right = equivariant(f.self_attention, Permute({"x": 0, "mask": (0, 1)}), Permute(axis=0))
    assert search(right, f.masked, sizes={"n": range(6)}).holds


def test_content_that_slides_with_its_mask_and_a_sum_that_depends_on_places():
    def draw(rng, n):
        present = np.zeros(n, bool)
        present[1 : 1 + rng.integers(0, n)] = True
        return {"x": rng.normal(size=n), "mask": present}

    action, total = Slide({"x": 0, "mask": 0}), lambda x, mask: np.where(mask, x, 0).sum()
    assert search(invariant(total, action), draw, sizes={"n": range(1, 8)}).holds
    placed = lambda x, mask: np.where(mask, x * np.arange(len(x)), 0).sum()
    found = refuted(invariant(placed, action), draw, {"n": range(1, 8)})
    assert found.sizes == {"n": 2}
    assert found.element == -1  # the only shift there is room for


@pytest.mark.parametrize(
    ("function", "action", "out"),
    [
        (lambda x, y: f.squared_distances(x, y), Translate("x"), Trivial()),
        (lambda x, y: np.abs(x).sum(), Rotate("x"), Trivial()),
        (lambda x, y: x[:, 0] * y[:, 1] - x[:, 1] * y[:, 0], Rotate(("x", "y"), of=4, mirror=True), Trivial()),
        (lambda x, y: f.squared_distances(x, y), Scale(("x", "y")), Scale()),
        (lambda x, y: np.tanh(x) + x * x, Negate("x"), Negate()),
        (lambda x, y: softmax(x @ y.T), Translate("x"), Trivial()),
        (lambda x, y: x.mean(0), Translate("x"), Trivial()),
        (lambda x, y: x.cumsum(0), Permute("x", 0), Permute(axis=0)),
    ],
    ids=["one of two moves", "1-norm", "mirror", "degree 2", "not odd", "scores", "mean moves", "cumsum"],
)
def test_many_kinds(function, action, out):
    found = refuted(equivariant(function, action, out), f.plane, {"n": range(1, 6)})
    assert found.sizes["n"] <= 2
    used = np.concatenate([a.ravel() for a in found.inputs.values()])
    assert set(used.tolist()) <= {-1.0, 0.0, 1.0}


def test_shapes_that_differ_and_errors_on_one_side_are_violations():
    short = search(invariant(lambda x: x[x > 0], Negate("x")), f.vector, sizes={"n": range(4)})
    assert short.counterexample.sizes == {"n": 1}
    assert short.counterexample.reason in ("output (1,) against output (0,)", "output (0,) against output (1,)")

    def fussy(x):
        if len(x) and x[0] < 0:
            raise ArithmeticError("negative")
        return x.sum()

    found = search(invariant(fussy, Negate("x")), f.vector, sizes={"n": range(4)}).counterexample
    assert found.reason == "f takes the input, but not moved: ArithmeticError: negative"
    assert found.inputs["x"].tolist() == [1]
    assert found.given == {}


def test_infinities_and_nan_that_move_are_violations_and_those_that_agree_are_none():
    first = lambda x: np.where(np.arange(len(x)) == 0, np.nan, x)
    found = search(equivariant(first, Permute("x"), Permute()), f.vector, sizes={"n": range(5)}).counterexample
    assert found.sizes == {"n": 2}
    assert search(invariant(lambda x: [np.inf, np.nan, x.sum()], Permute("x")), f.vector, sizes={"n": range(5)}).holds


def test_whole_numbers_are_compared_exactly():
    claim = invariant(lambda x: np.argmax(x), Permute("x"))
    found = refuted(claim, lambda rng, n: {"x": rng.integers(0, 3, n)}, {"n": range(1, 5)})
    assert found.sizes == {"n": 2}
    assert sorted(found.inputs["x"].tolist()) == [0, 1]
    ties = equivariant(lambda x: np.arange(len(x)) == np.argmax(x), Permute("x"), Permute())
    found = refuted(ties, lambda rng, n: {"x": rng.integers(0, 3, n)}, {"n": range(1, 5)})
    assert found.inputs["x"].tolist() == [0, 0]  # equal, and the first is chosen


def test_a_violation_in_a_small_output_is_seen_next_to_a_large_one():
    """One output is 1e12 times the other; the small one is wrong by a part in a thousand."""
    claim = invariant(lambda x: {"large": 1e12 * x.sum(), "small": x.sum() + 1e-3 * x[0]}, Permute("x"))
    assert search(claim, f.vector, sizes={"n": range(1, 5)}).counterexample.sizes == {"n": 2}
    together = invariant(lambda x: np.stack([1e12 * x.sum(), x.sum() + 1e-3 * x[0]]), Permute("x"))
    assert search(together, f.vector, sizes={"n": range(1, 5)}).fails


def test_where_a_claim_is_not_made_nothing_is_sought():
    claim = equivariant(lambda x: np.abs(x), Scale("x") * Negate("x"), Scale() * Negate())
    assert search(claim, f.vector, sizes={"n": range(4)}).fails
    positive = equivariant(lambda x: np.abs(x), Scale("x"), Scale())
    assert search(positive, f.vector, sizes={"n": range(4)}, where=lambda x: x > 0).holds
    biased = invariant(lambda x: x.sum() / x[0], Permute("x"))
    found = refuted(biased, f.vector, {"n": range(1, 5)}, where=lambda x: x > 2.0)
    assert np.all(found.inputs["x"] > 2)


@pytest.mark.parametrize("action", [Prefix("pad", 0), Select("pad", 0)])
def test_no_padding_at_all_is_tried(action):
    padded = lambda x, pad: x.sum() / (1 + (len(pad) > 0))
    draw = lambda rng, n, m: {"x": rng.normal(size=n), "pad": np.zeros((m, 2))}
    found = refuted(invariant(padded, action), draw, {"n": range(1, 4), "m": range(4)})
    assert found.element in (0, ())
    needs_one = lambda x, pad: x.sum() + 0 * pad.max()  # which refuses none
    assert search(invariant(needs_one, action), draw, sizes={"n": range(1, 4), "m": range(4)}).holds


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("f", [lambda x: np.round(x), lambda x: np.floor(x + 0.5)])
def test_rounding_is_tried_at_halves(f, seed):
    odd = equivariant(f, Negate("x"), Negate())
    shifted = equivariant(f, Translate("x", axis=None, step=1.0), Translate(axis=None, step=1.0))
    draw = lambda rng, n: {"x": rng.normal(size=n)}
    assert any(search(claim, draw, sizes={"n": range(1, 4)}, seed=seed).fails for claim in (odd, shifted))


def test_a_function_of_numpy_needs_no_names():
    draw = lambda rng, n: {"x": rng.normal(size=n)}
    assert search(equivariant(np.sin, Negate("x"), Negate()), draw, sizes={"n": range(3)}).holds
    assert search(invariant(np.cos, Negate("x")), draw, sizes={"n": range(3)}).holds
    assert search(invariant(np.sin, Negate("x")), draw, sizes={"n": range(3)}).fails
