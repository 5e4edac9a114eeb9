"""A claim that fails ends in what holds near it; and what a function keeps is found unasked."""

import functools

import numpy as np
import pytest

from refnp.symmetry import Negate, Permute, Prefix, Repeat, Roll, Rotate, Scale, Translate
from refnp.symmetry.audits import audit
from refnp.symmetry.claim import equivariant, invariant
from refnp.symmetry.neighbours import no_zeros
from refnp.symmetry.searches import search
from tests.symmetry import functions as f
from tests.symmetry.domains import rows, symmetric, vector

FEW = {"n": range(1, 6)}
SQUARE = lambda rng, n: {"a": rng.normal(size=(n, n))}
NEAR = {
    "mask moves too, along axes 0 and 1": (equivariant(f.self_attention, Permute("x", 0), Permute(axis=0)), f.masked),
    "a moves along axes 0 and 1": (invariant(np.linalg.eigvalsh, Permute("a", 0)), symmetric),
    "y moves too": (invariant(f.squared_distances, Translate("x")), f.plane),
    "the output moves by the inverse": (equivariant(np.flip, Roll("m"), Roll()), lambda rng, n: {
        "m": rng.normal(size=n)}),
    "the output does not move": (equivariant(lambda x: x.sum(0), Permute("x", 0), Permute()), lambda rng, n: {
        "x": rng.normal(size=(n, n))}),
    "the output moves along axis 0": (invariant(lambda x: x * x, Permute("x", 0)), rows),
    "the output moves, too": (invariant(lambda x: x**3, Negate("x")), vector),
    "the output changes its sign for odd elements": (invariant(lambda a: np.abs(a).max() * np.linalg.det(a),
                                                               Permute("a", 0)), SQUARE),
    "results 0 and 1 are exchanged for odd elements": (invariant(lambda x: (x.max(), -x.min()), Negate("x")), vector),
    "the two entries along axis 0 of output are exchanged for odd elements": (
        invariant(lambda x: np.array([x.max(), -x.min()]), Negate("x")), vector),
    "axis 1 of x moves instead": (invariant(lambda x: x.sum(1), Permute("x", 0)), lambda rng, n: {
        "x": rng.normal(size=(n, n + 1))}),
    "shifts are by multiples of 2 steps": (invariant(lambda x: x[::2].sum(), Roll("x")), lambda rng, n: {
        "x": rng.normal(size=2 * n)}),
    "turns are by multiples of 1/4 turn": (invariant(lambda x: np.abs(x).sum(), Rotate("x")), rows),
    "entries are shifted round only": (invariant(lambda x: (x * np.roll(x, 1)).sum(), Permute("x")), lambda rng, n: {
        "x": rng.normal(size=n + 3)}),
    "the order is turned round only": (invariant(lambda x: (x[1:] * x[:-1]).sum(), Permute("x")), vector),
    "all entries are copied equally often": (invariant(lambda x: x.mean(0), Repeat("x", 0)), rows),
    "no two numbers of an array are equal": (
        equivariant(lambda x: np.where(np.arange(len(x)) == np.argmax(x), x, 0), Permute("x"), Permute()), vector),
    "no number is 0": (invariant(lambda x: x.sum() + (x[0] == 0) * len(x), Permute("x")), vector),
    "n is 2 or 4": (invariant(lambda x: x.sum() + len(x) % 2 * x[0] ** 2, Permute("x")), vector),
}  # fmt: skip


@pytest.mark.parametrize("words", NEAR)
def test_what_holds_near_a_claim_that_fails_is_said(words):
    claim, draw = NEAR[words]
    verdict = search(claim, draw, sizes=FEW, count=24)
    assert verdict.fails
    assert any(near.startswith(words) for near in verdict.holds_if), verdict.holds_if
    assert f"  holds if {words}" in str(verdict)


def saturated(most):
    """A sum in order that never leaves ±most: not the same in another order, from two numbers on."""
    return lambda x: functools.reduce(lambda a, b: np.clip(a + b, -most, most), x, x.dtype.type(0))


def first_is_special(above):
    return lambda x: x + (x > above) * (np.arange(len(x)) == 0)


RARE = {
    "2": invariant(saturated(2), Permute("x")),
    "3": invariant(saturated(3), Permute("x")),
    "6": invariant(saturated(6), Permute("x")),
    "above 3": equivariant(first_is_special(3), Permute("x"), Permute()),
    "above 6": equivariant(first_is_special(6), Permute("x"), Permute()),
}


@pytest.mark.parametrize("name", RARE)
def test_what_holds_near_a_claim_does_not_contradict_its_counter_example(name):
    """These fail at rare inputs, of all sizes from 2 on and for all orders: nothing near them holds."""
    verdict = search(RARE[name], vector, sizes={"n": range(6)})
    assert verdict.counterexample.sizes == {"n": 2}
    assert verdict.holds_if == ()


SMALL = {  # wrong at every input, but seen only at small ones, or at one size
    "no number is 0": (equivariant(lambda x: x + 1e-20, Scale("x"), Scale()), vector, no_zeros),
    "m moves too": (
        equivariant(lambda x, m: x * m if len(x) != 4 else x * m[0], Permute("x", 0), Permute(axis=0)),
        lambda rng, n: {"x": rng.normal(size=n), "m": rng.normal(size=n)},
        None,
    ),
}


@pytest.mark.parametrize("words", SMALL)
def test_what_a_search_as_long_refutes_is_not_said_to_hold(words):
    claim, draw, where = SMALL[words]
    verdict = search(claim, draw, sizes={"n": range(1, 7)})
    assert verdict.fails
    assert not any(near.startswith(words) for near in verdict.holds_if)
    if where is not None:
        assert search(claim, draw, sizes={"n": range(1, 7)}, where=where).fails


@pytest.mark.parametrize("features", [1, 2, 4])
def test_ties_of_distances_need_no_equal_numbers(features):
    """What refutes the claim has equals or zeros, and is moved to where there are none, and among more items."""
    claim = equivariant(f.nearest_other, Permute("x", 0), Permute(axis=0))
    verdict = search(claim, lambda rng, n: {"x": rng.normal(size=(n, features))}, sizes={"n": range(2, 6)})
    assert verdict.fails
    assert verdict.holds_if == ("n is 2 (a search of 80 inputs)",)


def test_nothing_is_said_where_nothing_near_holds():
    placed = search(invariant(lambda x: x[0] ** 2 + x.sum() * x[-1] ** 3, Permute("x")), vector, sizes=FEW)
    assert placed.fails
    assert placed.holds_if == ()
    assert search(invariant(np.sum, Permute("a"), name="sum"), SQUARE, sizes=FEW).holds_if == ()


def softmax_attention(query, key, value):
    s = query @ key.T
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ value


def test_an_audit_finds_what_attention_keeps():
    draw = lambda rng, n, m: {
        "query": rng.normal(size=(n, 3)), "key": rng.normal(size=(m, 3)), "value": rng.normal(size=(m, 2))}  # fmt: skip
    found = audit(softmax_attention, draw, sizes={"n": range(1, 5), "m": range(1, 6)})
    table = {row.moved: (row.permutations, row.selections) for row in found.rows}
    assert table["query axis 0"] == ("moves: output axis 0", "moves: output axis 0")
    assert table["key axis 0, value axis 0"] == ("stays", "neither")
    assert table["query axis 1, key axis 1"] == ("stays", "neither")
    assert table["value axis 1"] == ("moves: output axis 1", "moves: output axis 1")
    assert table["key axis 0"] == table["value axis 0"] == table["key axis 1"] == ("neither", "neither")
    lines = str(found).splitlines()
    assert lines[0] == "what softmax_attention keeps, n = 1 to 4; m = 1 to 5; 16 inputs or more each"
    assert len(lines) == 2 + len(found.rows)
    assert all(v.fails for v in next(row for row in found.rows if row.moved == "key axis 0").verdicts.values())


def test_an_audit_of_a_matrix_takes_both_axes_together():
    found = audit(np.linalg.eigvalsh, symmetric, sizes=FEW)
    assert {row.moved: row.permutations for row in found.rows} == {
        "a axis 0": "neither", "a axis 1": "neither", "a axes 0 and 1": "stays"}  # fmt: skip
    with pytest.raises(ValueError, match="audit: f took none of the inputs that were drawn; TypeError"):
        audit(lambda y: y, symmetric, sizes=FEW)


def test_decoding_step_by_step_equals_the_full_pass():
    def causal(x, reach=0):
        s = x @ x.T
        s = np.where(np.tri(len(x), k=reach, dtype=bool), s, -np.inf)
        e = np.exp(s - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ x

    search(equivariant(causal, Prefix("x", 0), Prefix(axis=0)), rows, sizes=FEW).require("holds")
    looks_ahead = lambda x: causal(x, reach=1)
    found = search(equivariant(looks_ahead, Prefix("x", 0), Prefix(axis=0)), rows, sizes=FEW).counterexample
    assert (found.sizes, found.element) == ({"n": 2}, 1)


def test_padding_by_copies():
    largest, mean = (lambda x: x.max(0)), (lambda x: x.mean(0))
    assert search(invariant(largest, Repeat("x", 0)), rows, sizes=FEW)
    assert search(invariant(mean, Repeat("x", 0, alike=True)), rows, sizes=FEW)
    assert search(invariant(lambda x: x.sum(0), Repeat("x", 0, alike=True)), rows, sizes=FEW).fails
    found = search(invariant(mean, Repeat("x", 0)), rows, sizes=FEW).counterexample
    assert found.element in ((0, 1, 0), (0, 1, 1))


def test_inputs_of_another_place_alone_are_no_search():
    """Where all pads are 0 no search without zeros moves anything, and far from there the clip is all that is seen."""
    clipped = lambda x, pad: np.clip(np.concatenate([x, pad]).mean(0), -1, 1)
    draw = lambda rng, n, m: {"x": rng.normal(size=(n, 2)), "pad": np.zeros((m, 2))}
    claim, sizes = invariant(clipped, Prefix("pad", axis=0)), {"n": range(1, 4), "m": range(3)}
    for seed in range(3):
        verdict = search(claim, draw, sizes=sizes, seed=seed)
        assert verdict.fails
        assert "no number is 0" not in str(verdict)
