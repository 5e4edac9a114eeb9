"""The verdict on an array: ratios, ulps, what counts as equal, what is known, and what the JSON says."""

import json
import math

import numpy as np
import pytest

from refnp.layers.layer_norm import layer_norm
from refnp.numbers import implementations
from refnp.numbers.implementations import Implementation, compute
from refnp.numbers.rounding import exact
from refnp.verify.bounds import deviation
from refnp.verify.case import Case, Convention, KnownDefect, Layer
from refnp.verify.judge import CONVENTION, DEVIATES, KNOWN, WITHIN, Judgement, judged
from refnp.verify.layers import normalization


def square(x):
    return x * x, lambda g: (g * x * 2,)


SQUARE = Layer("square", lambda x: x * x, square)


def case(**options):
    return Case(SQUARE, "of numbers", {"x": np.array([1.0, 3.0, -0.3])}, **options)


def judged_case(answer, *, dtype="float64", **options):
    problem = case(**options).problem(dtype)
    reference = problem.reference()
    return judged(problem, reference | answer(reference), reference, "Other", "1.0")


def test_refnp_is_within_the_bound():
    problem = case().problem("float32")
    rows = judged(problem, problem.answer(), problem.reference(), "refnp", "1")
    assert [row.verdict for row in rows] == [WITHIN, WITHIN]
    assert [row.quantity for row in rows] == ["output", "gradient of x"]
    assert all(0 <= row.error_over_bound <= 1 for row in rows)
    assert rows[0].ulps <= 0.5


def test_an_error_of_a_few_units_deviates_and_shows_both_values():
    rows = judged_case(lambda right: {"output": right["output"].astype(float) * np.array([1, 1 + 1e-14, 1])})
    assert rows[0].verdict == DEVIATES
    assert rows[0].right == 9
    assert rows[0].claimed == pytest.approx(9, rel=1e-13)
    assert 30 < rows[0].ulps < 60
    assert rows[1].verdict == WITHIN


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_infinitely_wrong(wrong):
    rows = judged_case(lambda right: {"output": np.array([1.0, wrong, 0.09])})
    assert rows[0].verdict == DEVIATES
    assert rows[0].error_over_bound == math.inf


def test_nan_for_nan_and_infinity_for_infinity_are_right():
    right = np.array([np.nan, np.inf, -np.inf, 1.0])
    assert deviation(right, right, np.zeros(4), "float64")[0] == 0
    assert deviation(-right, right, np.ones(4), "float64")[0] == math.inf


def test_an_exact_operation_is_allowed_no_error():
    assert deviation(np.array([1.0]), np.array([1.0]), np.zeros(1), "float32")[:2] == (0, 0)
    assert deviation(np.array([1.0000001]), np.array([1.0]), np.zeros(1), "float32")[0] == math.inf


def test_nothing_to_compare_is_right():
    assert deviation(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros((0, 3)), "float32") == (0.0, 0.0, None)


def test_another_shape_deviates():
    rows = judged_case(lambda right: {"output": right["output"][:2]})
    assert rows[0].verdict == DEVIATES
    assert "shape (2,)" in rows[0].why


def twice_square(x):
    y, pullback = square(x)
    return y * 2, lambda g: tuple(bar * 2 for bar in pullback(g))


def thrice_square(x):
    y, pullback = square(x)
    return y * 3, lambda g: tuple(bar * 3 for bar in pullback(g))


def known_for(framework="Other", *where, equation=twice_square, **options):
    return KnownDefect(framework, "them#1", "bad", *where, equation=equation, **options)


@pytest.mark.parametrize(
    ("defect", "verdict"),
    [
        (known_for(), KNOWN),
        (known_for("Other", ("output",), ("float64",)), KNOWN),
        (known_for("Another"), DEVIATES),
        (known_for("Other", ("gradient of x",)), DEVIATES),
        (known_for("Other", (), ("float32",)), DEVIATES),
        (known_for("Other", cases=("square/*",)), KNOWN),
        (known_for("Other", cases=("cube/*", "square")), DEVIATES),
    ],
)
def test_a_defect_is_known_where_it_is_said_to_be_and_nowhere_else(defect, verdict):
    row = judged_case(lambda right: {"output": right["output"] * 2}, known_defects=(defect,))[0]
    assert row.verdict == verdict
    assert row.issue == ("them#1" if verdict == KNOWN else "")


TWICE = Convention("Other", "twice", "everything is doubled", equation=twice_square)


def test_another_convention_is_judged_by_its_own_bound():
    """Within the bound of its equation it is the convention; a little beyond, it deviates."""
    rows = judged_case(lambda right: {q: array * 2 for q, array in right.items()}, known_defects=(TWICE,))
    assert [(row.verdict, row.issue, row.why) for row in rows] == [(CONVENTION, "twice", "everything is doubled")] * 2
    assert all(row.error_over_bound > 1e4 for row in rows)
    rows = judged_case(lambda right: {"output": right["output"] * (2 + 1e-14)}, known_defects=(TWICE,))
    assert [(row.verdict, row.issue) for row in rows] == [(DEVIATES, ""), (WITHIN, "")]


def test_a_convention_stands_before_a_defect_and_each_explains_its_own_numbers():
    both = (known_for(), known_for(equation=thrice_square), TWICE)
    for factor, verdict in ((2, CONVENTION), (3, KNOWN), (4, DEVIATES)):
        rows = judged_case(lambda right, factor=factor: {"output": right["output"] * factor}, known_defects=both)
        assert rows[0].verdict == verdict


def test_what_a_framework_is_known_for_may_stand_beside_the_case():
    problem = case().problem("float64")
    reference = problem.reference()
    row = judged(problem, reference | {"output": reference["output"] * 2}, reference, "Other", "1", known=(TWICE,))[0]
    assert row.verdict == CONVENTION


def test_a_known_defect_that_no_longer_shows_is_within_the_bound():
    rows = judged_case(lambda right: {}, known_defects=(KnownDefect("Other", "them#1", "bad"),))
    assert [(row.verdict, row.issue) for row in rows] == [(WITHIN, ""), (WITHIN, "")]


def test_json_has_ten_fields_and_no_nan():
    row = Judgement(
        "frameworks", "a/b", "Other", "1", "float32", "output", math.inf, math.nan, DEVIATES, claimed=math.nan
    )
    fields = row.as_json()
    assert list(fields) == [
        "section", "case", "framework", "version", "dtype", "quantity", "error_over_bound", "ulps", "verdict", "issue",
    ]  # fmt: skip
    assert fields["error_over_bound"] is None
    assert fields["ulps"] is None
    json.dumps(fields, allow_nan=False)


def test_inputs_are_the_same_every_time_and_differ_by_case():
    first, again = case().problem("float32"), case().problem("float32")
    assert first.checksum() == again.checksum()
    assert first.checksum() != case().problem("float64").checksum()
    assert (
        first.checksum() != Case(SQUARE, "of numbers", {"x": np.array([1.0, 3.0, -0.4])}).problem("float32").checksum()
    )
    other = Case(SQUARE, "of other numbers", case().inputs).problem("float32")
    assert not np.array_equal(first.cotangent, other.cotangent)


def test_a_given_cotangent_is_used():
    problem = case(cotangent=[1.0, 0.0, 0.0]).problem("float64")
    assert problem.answer()["gradient of x"].tolist() == [2.0, 0.0, 0.0]


def test_without_gradients_there_is_only_the_output():
    problem = case(gradients=()).problem("float64")
    assert list(problem.bounds) == list(problem.answer()) == ["output"]


def test_the_textbook_is_independent_of_the_function():
    """A wrong function is seen, since value and bound come from the equation."""
    wrong = Case(Layer("square", lambda x: x * x * x, square), "of numbers", case().inputs)
    problem = wrong.problem("float64")
    textbook = {quantity: rounded.value for quantity, rounded in problem.bounds.items()}
    assert {row.verdict for row in judged(problem, problem.answer(), textbook, "refnp", "1")} == {DEVIATES}
    assert (exact(1.0).error == 0).all()


def test_what_is_right_for_sums_in_sequence_alone_says_so():
    """The same answer is beyond the bound of refnp, which adds up rows in blocks, and within that of others."""
    x = np.full((1, 4096), 0.1)
    layer = Layer("layer_norm", layer_norm, normalization.LAYER_NORM.equation)
    problem = Case(layer, "a long row", {"x": x, "gain": 1.0, "shift": 0.0}, gradients=()).problem("float32")
    reference = problem.reference()
    in_sequence = Implementation("", np.float32, implementations.in_sequence)
    equation = lambda *given: (normalization.LAYER_NORM.equation(*given)[0], None)
    (output,) = compute(equation, in_sequence, list(problem.arrays.values()))
    (other,) = judged(problem, {"output": output}, reference, "Other", "1")
    (own,) = judged(problem, {"output": output}, reference, "refnp", "1")
    (blocks,) = judged(problem, problem.answer(), reference, "Other", "1")
    assert (other.verdict, own.verdict, blocks.verdict) == (WITHIN, DEVIATES, WITHIN)
    assert other.why == f"right for sums in sequence, {own.error_over_bound:.3g} times what sums in blocks may be off"
    assert own.error_over_bound > 2
    assert blocks.why == ""
