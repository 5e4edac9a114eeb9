"""The measure of agreement: digits, what they are relative to, and when rounding explains a difference."""

from dataclasses import replace

import numpy as np
import pytest

from gradcheck.agreement import Comparison, digits_of, judge

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
NOTHING_WIDER = lambda rows: None
ROUNDING = lambda rows: (np.array([[[0.0]], [[1.0]]]) + np.zeros((len(rows), 1)), np.zeros((2, len(rows), 1)))
STEADY = lambda rows: (np.ones((2, len(rows), 1)), np.zeros((2, len(rows), 1)))  # the same at both points


def comparison(claimed, numeric, terms=1.0, natural=1.0, error=0.0, dtype=F64):
    arrays = np.broadcast_arrays(
        *(np.atleast_2d(np.asarray(a, float)) for a in (claimed, numeric, terms, natural, error))
    )
    return Comparison(dtype, *arrays)


@pytest.mark.parametrize(
    ("difference", "digits"), [(1e-5, 5), (1e-13, 13), (0, 17), (1e-40, 17), (1, 0), (1e5, 0), (np.nan, 0), (np.inf, 0)]
)
def test_digits(difference, digits):
    assert digits_of(np.array(difference), np.array(1.0), F64) == pytest.approx(digits)


def test_digits_are_relative_to_the_terms():
    assert digits_of(np.array(1e-20), np.array(1e-15), F64) == pytest.approx(5)
    assert digits_of(np.array(1e-20), np.array(0.0), F64) == 0


def test_enough_digits_pass():
    assert judge(comparison([1, 1], [1, 1 + 1e-13]), 12, NOTHING_WIDER).passed.all()
    assert judge(comparison([1, 1], [1, 1 + 1e-11]), 12, NOTHING_WIDER).passed.tolist() == [[True, False]]


def test_nan_and_infinity_never_pass():
    for bad in (np.nan, np.inf):
        for c in (comparison(bad, 1), comparison(1, bad, error=np.inf), comparison(bad, bad)):
            assert not judge(c, 12, lambda rows, c=c: (c, NOTHING_WIDER, ROUNDING)).passed.any()


def test_differences_within_a_small_error_pass_as_far_as_they_go():
    verdict = judge(comparison(1, 1 + 1e-9, error=1e-9), 12, NOTHING_WIDER)
    assert verdict.passed.all()
    assert verdict.limited.sum() == 1
    assert verdict.digits[0, 0] == pytest.approx(9)


def test_a_derivative_with_a_large_error_is_no_evidence():
    verdict = judge(comparison([1, 1, 1], [1.1, 20, 1], error=[1, 1, np.inf]), 12, NOTHING_WIDER)
    assert verdict.passed.tolist() == [[False, False, True]]
    assert verdict.unknown.tolist() == [[True, False, False]]
    assert verdict.failed.tolist() == [[False, True, False]]


def test_a_coarse_function_is_asked_for_two_digits_of_the_terms_themselves():
    noise = float(np.finfo(F32).eps) / 2
    for size, passes in ((1.0, True), (1e-4, False)):  # an error of 1e-5 is five digits of the one, one of the other
        given = comparison(size, size + 2e-5, terms=size, error=1e-5)
        verdict = judge(replace(given, noise=np.array([noise])), 12, NOTHING_WIDER)
        assert (bool(verdict.passed.all()), bool(verdict.unknown.all())) == (passes, not passes)
    wrong = replace(comparison(1, 1.1, error=1e-5), noise=np.array([noise]))
    assert judge(wrong, 12, NOTHING_WIDER).failed.all()


def test_without_a_wider_precision_a_rounding_of_f_is_allowed():
    assert judge(comparison(1e-16, -1e-16, terms=1e-16), 12, NOTHING_WIDER).passed.all()
    assert not judge(comparison(1e-14, -1e-14, terms=1e-14), 12, NOTHING_WIDER).passed.any()


@pytest.mark.parametrize(("beside", "rounding"), [(ROUNDING, True), (STEADY, False)])
def test_what_vanishes_in_a_wider_precision_was_rounding_if_it_changes_beside_x(beside, rounding):
    narrow = comparison(1e-3, -1e-3, terms=1e-3, dtype=F32)
    wide = comparison(1e-12, -1e-12, terms=1e-12)
    verdict = judge(narrow, 5, lambda rows: (wide, NOTHING_WIDER, beside))
    assert verdict.passed.all() == verdict.rounding.all() == rounding
    assert verdict.steady.all() == (not rounding)


def test_a_difference_of_some_roundings_of_f_was_rounding_even_where_it_does_not_change():
    narrow, wide = comparison(1e-8, -1e-8, terms=1e-8, dtype=F32), comparison(1e-17, -1e-17, terms=1e-17)
    assert judge(narrow, 5, lambda rows: (wide, NOTHING_WIDER, STEADY)).rounding.all()


def test_what_stays_in_a_wider_precision_is_an_error():
    narrow = comparison(1.01e-8, 1e-8, terms=1e-8, dtype=F32)
    wide = comparison(1.01e-8, 1e-8, terms=1e-8)
    assert not judge(narrow, 5, lambda rows: (wide, NOTHING_WIDER, ROUNDING)).passed.any()


def test_only_the_rows_that_fall_short_are_repeated():
    asked = []

    def again(rows):
        asked.append(rows)
        return None

    judge(comparison([[1.0], [1.0], [1.0]], [[1.0], [1.1], [1.0]]), 12, again)
    assert asked == [[1]]
