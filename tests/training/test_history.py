"""Histories: rows of steps and of validations side by side, and what they look like in words."""

import numpy as np
import pytest

from refnp.training.progress import arrays_of, describe, figure, record, since_best, value_and_figures


def history_of(*rows):
    history = {"loss": []}
    for row in rows:
        record(history, row)
    return history


def validation(step, value, **more):
    return {"validation step": step, "validation": value, **more}


def test_rows_of_two_kinds_do_not_mix():
    history = history_of(
        {"loss": 3.0, "rate": 0.1}, {"loss": 2.0, "rate": 0.2}, validation(2, 5.0), {"loss": 1.0, "rate": 0.3}
    )
    arrays = arrays_of(history)
    assert {name: a.tolist() for name, a in arrays.items()} == {
        "loss": [3.0, 2.0, 1.0],
        "rate": [0.1, 0.2, 0.3],
        "validation step": [2.0],
        "validation": [5.0],
    }
    assert all(a.dtype == np.float64 for a in arrays.values())


def test_a_figure_that_a_row_lacks_is_nan():
    history = history_of(
        {"loss": 1.0, "early": 1.0},
        validation(1, 1.0),
        {"loss": 2.0, "late": 2.0},
        validation(2, 2.0, **{"validation gap": 7.0}),
    )
    np.testing.assert_equal(history["early"], [1.0, np.nan])
    np.testing.assert_equal(history["late"], [np.nan, 2.0])
    np.testing.assert_equal(history["validation gap"], [np.nan, 7.0])
    assert {len(column) for column in history.values()} == {2}


@pytest.mark.parametrize(
    ("values", "since"), [([1.0], 0), ([2.0, 1.0], 0), ([1.0, 2.0], 1), ([1.0, 1.0, 1.0], 2), ([3.0, 1.0, np.inf], 1)]
)
def test_since_best_counts_from_the_first_of_equals(values, since):
    assert since_best(history_of(*(validation(i, value) for i, value in enumerate(values)))) == since


def test_answers_are_a_value_or_a_pair():
    assert value_and_figures("loss", 3) == (3, {})
    assert value_and_figures("loss", (3, {"gap": np.float32(0.5)})) == (3, {"gap": 0.5})
    assert value_and_figures("loss", (3, 4)) == ((3, 4), {})  # no figures: the caller says what is wrong
    for name in ("loss", "rate", "norm", "validation", "validation gap"):
        with pytest.raises(ValueError, match=f"loss returned a figure called '{name}', which the history has"):
            value_and_figures("loss", (1, {name: 0.0}))


def test_in_words():
    rows = [{"loss": float(i), "gap": 0.5, "rate": 3e-4} for i in range(200)]
    text = describe(history_of(*rows, validation(100, 0.25), validation(200, 0.5, **{"validation gap": 1e-5})))
    assert text == (
        "loss 149.5000   gap 0.5000   rate 0.0003   validation 0.5000 (best 0.2500 at 100)   validation gap 1e-05"
    )
    assert describe(history_of({"loss": 1.0, "gap": np.nan})) == "loss 1.0000"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0000"),
        (0.43123, "0.4312"),
        (-1.5, "-1.5000"),
        (3.21e-5, "3.21e-05"),
        (12345.6, "1.235e+04"),
        (np.inf, "inf"),
    ],
)
def test_figures(value, text):
    assert figure(value) == text
