"""Claims are put into words, take results of any kind, and refuse actions that do not belong together."""

from collections import namedtuple

import numpy as np
import pytest

from refnp.autograd import Tensor
from refnp.layers.distributions import Normal
from refnp.symmetry import Negate, Permute, Roll, Rotate, Scale, Translate, Trivial, equivariant, invariant
from refnp.symmetry.claim import RECENT, Refusal, arrays_of, dtype_name
from refnp.symmetry.vectors import Vector
from tests.symmetry import functions as f
from tests.symmetry.functions import search

SIZES = {"n": range(1, 6)}
Pair = namedtuple("Pair", "low high")


def predict(x):
    """A normal distribution for each point, which depends on all of them."""
    return Normal(x - x.mean(0), np.exp(x * x).sum(0) + np.abs(x))


@pytest.mark.parametrize("read", [("mean", "std"), "std", lambda d: {"mean": d.mean, "variance": d.std**2}])
def test_distributions_are_compared_by_what_is_read(read):
    verdict = search(
        equivariant(predict, Permute("x", 0), Permute(axis=0), read=read), f.rows, sizes=SIZES, scales=(1,)
    )
    assert verdict.holds
    skewed = lambda x: Normal(x.cumsum(0), np.exp(x))
    verdict = search(equivariant(skewed, Permute("x", 0), Permute(axis=0), read=read), f.rows, sizes=SIZES, scales=(1,))
    assert verdict.fails == (read != "std")  # the deviation of each point is its own


def test_without_read_a_distribution_is_no_array():
    with pytest.raises(TypeError, match=r"returns a Normal; pass read=, the names of the attributes to compare"):
        search(invariant(predict, Permute("x", 0)), f.rows, sizes=SIZES)


@pytest.mark.parametrize(
    ("result", "names"),
    [
        (np.ones(2), {"output": (2,)}),
        (3.0, {"output": ()}),
        (Tensor([1.0]), {"output": (1,)}),
        ((np.ones(2), 1), {"0": (2,), "1": ()}),
        (Pair(np.ones(1), np.ones(2)), {"low": (1,), "high": (2,)}),
        ({"a": np.ones(1), 2: Tensor([[1.0]])}, {"a": (1,), "2": (1, 1)}),
        (
            {"a": {"b": np.ones(2), "c": None}, "d": [np.ones(1), (3.0, np.ones(2))]},
            {"a.b": (2,), "d[0]": (1,), "d[1][0]": (), "d[1][1]": (2,)},
        ),
        (
            (np.ones(2), {"state": Pair(np.ones(1), [Tensor([1.0])])}),
            {"0": (2,), "1.state.low": (1,), "1.state.high[0]": (1,)},
        ),
        ({"a": [1.0, 2, True], "none": [], "empty": {}}, {"a": (3,)}),
        ((np.ones(1), None), {"0": (1,)}),
    ],
)
def test_results_of_every_kind_become_named_arrays(result, names):
    assert {name: a.shape for name, a in arrays_of(result).items()} == names


@pytest.mark.parametrize(
    ("result", "error", "message"),
    [
        (None, TypeError, "returns a NoneType"),
        ({"a": {"b": "text"}}, TypeError, "returns a str; pass read="),
        ({"a.b": np.ones(1), "a": {"b": np.ones(1)}}, ValueError, "two arrays named 'a.b'"),
    ],
)
def test_results_that_are_no_arrays_are_said(result, error, message):
    with pytest.raises(error, match=message):
        arrays_of(result)


def test_parts_of_a_nested_result_move_by_name():
    nested = lambda x: {"tokens": [x * x], "pooled": {"mean": x.mean(0)}, "weights": None}
    search(equivariant(nested, Permute("x", 0), Permute("tokens[0]", 0)), f.rows, sizes=SIZES).require("holds")
    verdict = search(equivariant(nested, Permute("x", 0), Permute("pooled.mean")), f.rows, sizes={"n": (3,)})
    assert verdict.counterexample.reason.startswith(("tokens[0][", "pooled.mean["))


def test_outputs_may_move_by_name():
    both = lambda x: {"sorted": np.sort(x), "shifted": x - x.mean()}
    claim = equivariant(both, Permute("x"), Permute("shifted"))
    assert search(claim, f.vector, sizes=SIZES).holds
    assert search(equivariant(both, Permute("x"), Permute()), f.vector, sizes=SIZES).fails


def test_differences_know_infinities_and_nan():
    a, b = (
        Vector.of({"x": np.array(v)})
        for v in ([1.0, np.inf, np.nan, np.inf, np.nan, 2], [3.0, np.inf, np.nan, 1, 1, 2])
    )
    assert a.minus(b).tolist() == [-2, 0, 0, np.inf, np.inf, 0]
    assert a.relative(a.minus(b), b) == np.inf
    assert not Vector.of({"x": np.array([True])}).rounded.any()
    assert Vector.of({"x": np.array([1 + 2j])}).values.tolist() == [1, 2]


def test_on_names_the_inputs_of_an_action_that_names_none():
    draw = lambda rng, n: {"x": rng.normal(size=(n, 2)), "y": rng.normal(size=(n, 2))}
    claim = invariant(f.squared_distances, Translate(), on=("x", "y"))
    assert search(claim, draw, sizes=SIZES).holds
    assert search(invariant(f.squared_distances, Translate(), on="x"), draw, sizes=SIZES).fails
    torus = invariant(lambda x: x.sum(), Roll(axis=0) * Roll(axis=1), on="x")
    assert search(torus, f.rows, sizes=SIZES).holds


def test_two_sets_in_any_order_at_once():
    draw = lambda rng, n, m: {
        "x": rng.normal(size=(n, 2)),
        "y": rng.normal(size=(m, 2)),
        "mask": rng.random((n, m)) < 0.7,
    }
    scores = lambda x, y, mask: np.exp(-f.squared_distances(x, y)) * mask
    sets = Permute({"x": 0, "mask": 0}) * Permute({"y": 0, "mask": 1})
    sizes = {"n": range(4), "m": range(5)}
    rows_and_columns = equivariant(scores, sets, Permute(axis=0) * Permute(axis=1))
    verdict = search(rows_and_columns, draw, sizes=sizes).require("holds")
    assert verdict.counts.exhausted > verdict.counts.inputs // 2
    search(equivariant(scores, sets, Permute(axis=0) * Trivial()), draw, sizes=sizes).require("fails")
    best = lambda x, y, mask: (scores(x, y, mask) + np.arange(len(y))).max(1)  # prefers later keys
    found = search(
        equivariant(best, sets, Permute(axis=0) * Trivial()), draw, sizes={"n": (3,), "m": (3,)}
    ).counterexample
    assert found.element[0] == (0, 1, 2)  # the order of the queries is not needed
    assert found.element[1] != (0, 1, 2)


def test_an_argument_may_be_left_out():
    draw = lambda rng, n: {"x": rng.normal(size=(n, 2)), "mask": None if n % 2 else np.tri(n, dtype=bool)}
    claim = equivariant(f.self_attention, Permute({"x": 0, "mask": (0, 1)}), Permute(axis=0))
    assert search(claim, draw, sizes=SIZES).holds
    assert search(equivariant(f.self_attention, Permute("x", 0), Permute(axis=0)), draw, sizes={"n": (1, 3, 5)}).holds


@pytest.mark.parametrize(
    ("action", "out"),
    [
        (Permute("x"), Roll()),
        (Permute("x"), Permute() * Negate()),
        (Permute("x") * Negate("x"), Permute()),
        (Permute("x") * Negate("x"), Negate() * Permute()),
        (Rotate("x", of=4), Rotate()),
        (Translate("x"), Translate(step=1)),
        (Scale("x"), Scale(binary=True)),
    ],
    ids=str,
)
def test_actions_of_other_groups_do_not_go_together(action, out):
    with pytest.raises(ValueError, match="cannot take the elements of the input action"):
        equivariant(lambda x: x, action, out)


def test_claims_in_words():
    def encoder(x):
        return x

    assert str(invariant(encoder, Negate("x"))) == "encoder is invariant under change of sign of x"
    claim = equivariant(lambda x: x, Permute("x") * Negate("x"), Permute() * Trivial())
    assert str(claim) == (
        "f is equivariant: permutations of axis -1 of x, with change of sign of x; "
        "on the output permutations of axis -1, with nothing"
    )
    assert str(invariant(encoder, Negate("x"), name="the layer")).startswith("the layer is")


def test_f_is_not_called_again_for_what_it_was_just_given():
    calls = []

    def twice(x):
        calls.append(x.dtype)
        if x[0] > 8:
            raise ValueError("too large")
        return 2 * x

    claim = invariant(twice, Permute("x", 0))
    x = np.array([1.0, 2.0])
    for _ in range(2):
        np.testing.assert_array_equal(claim.at({"x": x}, np.float64)["output"], [2, 4])
        np.testing.assert_array_equal(claim.at({"x": -x}, np.float64)["output"], [-2, -4])
        claim.at({"x": x}, np.float32)
        with pytest.raises(Refusal, match="too large"):
            claim.at({"x": 9 * x}, np.float64)
    assert len(calls) == 4
    claim.anew({"x": x}, np.float64)
    assert len(calls) == 5
    for n in range(2 * RECENT):
        claim.at({"x": x - n}, np.float64)
    assert len(claim.recent) == RECENT


def test_longdouble_is_named_only_where_it_is_wider(monkeypatch):
    assert dtype_name(np.float64) == "float64"
    monkeypatch.setattr("refnp.symmetry.claim.WIDE", np.dtype(np.float64))  # as on Windows
    assert dtype_name(np.float64) == "float64"
