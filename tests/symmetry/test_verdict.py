"""Verdicts and counter-examples can be read, run and required."""

import numpy as np
import pytest

from refnp.symmetry import Counts, Permute, Roll, Select, SymmetryError, Verdict, equivariant, invariant, search
from refnp.symmetry.claim import FLOATS
from refnp.symmetry.shrink import effort
from refnp.symmetry.verdict import array_code, in_a_row
from tests.helpers import assert_same_bits
from tests.symmetry import functions as f

CUMULATIVE = equivariant(lambda x: x.cumsum(), Permute("x"), Permute(), name="cumsum")


@pytest.fixture(scope="module")
def refuted():
    return search(CUMULATIVE, f.vector, sizes={"n": range(6)})


@pytest.mark.skipif(len(FLOATS) < 3, reason="printed with a longdouble that is wider than float64")
def test_the_report_of_a_claim_that_fails(refuted):
    assert (
        str(refuted)
        == """\
cumsum is equivariant: permutations of axis -1 of x; on the output permutations of axis -1: FAILS
  tried on n = 0, 1 and 2; numbers of double and single precision; inputs times 1, 2^-10, 2^10; seed 0
  3 inputs, for 3 of them every element of the group; 1 pairs of input and element, 3 more that moved nothing
  counter-example with n = 2, order [1, 0], computed in float64
      inputs = {
          "x": np.array([0., 1.]),
      }
      moved: x = np.array([1., 0.])
      f(inputs moved): np.array([1., 1.])
      f(inputs) moved: np.array([1., 0.])
      output[1]: 1 against 0
      discrepancy over the output: float64 1.0e+00, longdouble 1.0e+00
      found at an input as your draw gives it"""
    )


def test_a_counter_example_is_given_as_found_unless_time_is_spent_on_it():
    sizes = {"n": (5,)}
    found, simple = (search(CUMULATIVE, f.vector, sizes=sizes, simplify=n).counterexample for n in (0, 1000))
    assert set(simple.inputs["x"]) <= {0, 1, -1}
    assert not set(found.inputs["x"]) & {0, 1, -1}
    assert found.relative["float64"] > 1e-3


def test_the_counter_example_can_be_run(refuted):
    there = {}
    exec(refuted.counterexample.code(), there)
    assert_same_bits(np.cumsum(there["moved"]["x"]), there["given"]["output"])
    assert_same_bits(np.cumsum(there["inputs"]["x"])[[1, 0]], there["expected"]["output"])
    assert not np.array_equal(there["given"]["output"], there["expected"]["output"])


def test_the_report_of_a_claim_that_holds():
    claim = equivariant(f.ring_convolution, Roll("x"), Roll())
    verdict = search(claim, f.signal, sizes={"n": range(1, 6)})
    lines = str(verdict).splitlines()
    assert lines[0].endswith("axis -1 of x; on the output shifts on a ring, axis -1: HOLDS")
    assert lines[2].startswith(
        f"  {verdict.counts.inputs} inputs, for {verdict.counts.inputs} of them every element of "
    )
    assert lines[3].startswith("  largest discrepancy over the output: ")
    assert "would have been seen" in lines[4]
    assert verdict.counts.exhausted == verdict.counts.inputs > 80  # those with structure at the smallest sizes besides
    assert verdict.digits > 15


def test_what_is_computed_in_float32_alone_is_said_not_to_be_judged():
    only = lambda x: x + (1e-3 * x.cumsum(0) if x.dtype == np.float32 else 0)
    said = [str(search(equivariant(of, Permute("x"), Permute()), f.vector, sizes={"n": (3,)})) for of in (only, np.exp)]
    assert ["what f computes in float32 alone is not judged" in text for text in said] == [True, False]


def test_a_verdict_is_required(refuted):
    assert refuted.require("fails") is refuted
    assert refuted.fails
    assert not refuted.holds
    assert not refuted  # as in `assert search(…)`
    assert search(equivariant(np.sort, Permute("a"), Permute(), name="sort"), lambda rng, n: {"a": rng.normal(size=n)},
                  sizes={"n": (1,)}).outcome == "undecided"  # fmt: skip
    with pytest.raises(SymmetryError, match="counter-example with n = 2"):
        refuted.require()


@pytest.mark.parametrize(
    "array",
    [
        np.array([[1.0, np.nan], [-np.inf, 0.1]]),
        np.arange(3),
        np.array([True, False]),
        np.array([1 / 3], np.float32),
        np.array([1, 2], np.int8),
        np.array([1j, -0.5]),
        np.longdouble(1) / np.array([3, 7], np.longdouble),
        np.zeros((0, 3), np.float32),
        np.zeros((2, 0), bool),
        np.array(2.5),
        np.array(np.nan),
        np.array(3, np.int16),
        np.linspace(0, 1, 300).reshape(100, 3),
    ],
    ids=lambda array: f"{array.dtype} {array.shape}",
)
def test_arrays_are_written_as_the_code_that_makes_them(array):
    assert_same_bits(np.asarray(eval(array_code(array), {"np": np})), array)
    assert array_code(None) == "None"


def test_large_arrays_are_not_printed():
    draw = lambda rng, n: {"x": rng.normal(size=n), "weights": rng.normal(size=1000)}
    order = equivariant(lambda x, weights: x.cumsum(), Permute("x"), Permute())
    found = search(order, draw, sizes={"n": range(4)}).counterexample
    assert "weights" not in str(found)
    assert "weights" in found.code()


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.float32, np.complex64])
def test_numbers_of_every_kind_are_made_simple(dtype):
    draw = lambda rng, n: {"x": rng.integers(0, 9, n).astype(dtype)}
    found = search(CUMULATIVE, draw, sizes={"n": range(5)}, scales=(1,)).counterexample
    assert_same_bits(found.inputs["x"], np.array([0, 1], found.inputs["x"].dtype))


def test_simple_numbers_are_easier_to_read():
    simple = [0.0, 1.0, -1.0, 2.0, 20.0, 0.5, 0.25, 0.123456]
    efforts = [effort(np.array([number])) for number in simple]
    assert efforts == sorted(efforts)
    assert len(set(efforts[:5])) == 5
    assert effort(np.array([True])) < effort(np.array([False]))
    assert effort(np.array([0.5, 0.0])) < effort(np.array([0.5, 1.0]))


@pytest.mark.parametrize(("outcome", "truth"), [("holds", True), ("fails", False), ("undecided", False)])
def test_a_verdict_is_true_only_where_the_claim_was_found_to_hold(outcome, truth):
    assert bool(Verdict(outcome, "f is even", "one pair", "", Counts(), 0.0, {}, 0.0)) is truth


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([5, 9, 13], "5, 9 and 13"),
        (range(6), "0 to 5"),
        ([0, 1, 2], "0, 1 and 2"),
        ([1, 2, 3, 4, 8, 16, 17], "1 to 4, 8, 16 and 17"),
        ([7], "7"),
        ([], ""),
    ],
)
def test_sizes_are_told_as_they_were_tried(numbers, text):
    assert in_a_row(numbers) == text


def test_only_sizes_that_were_tried_are_told():
    total = equivariant(lambda x: x * x, Select("x"), Select())
    assert "n = 5, 9 and 13;" in str(search(total, f.vector, sizes={"n": [5, 9, 13]}, count=12, structures=()))


def with_padding(ids, x):
    """A sum of rows, of which those of id 0 are the first: it depends on the order where there is one."""
    return np.where(ids[:, None] == 0, x[:1], x).sum(0)


@pytest.mark.parametrize(("least", "outcome"), [(0, "fails"), (1, "proved")])
def test_what_a_proof_assumes_of_numbers_is_asked_of_those_that_are_drawn(least, outcome):
    claim = invariant(with_padding, Permute({"ids": 0, "x": 0}))
    draw = lambda rng, n: {"ids": rng.integers(least, 3, size=n), "x": rng.normal(size=(n, 2))}
    verdict = search(claim, draw, sizes={"n": range(1, 5)}, count=24, shapes="ids (n), x (n, d)", structures=())
    assert verdict.outcome == outcome
    assert "ids[i] ≠ 0" in str(verdict)
    assert ("found nothing against it" in str(verdict)) == verdict.holds
