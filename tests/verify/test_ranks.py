"""Functions of arrays of some numbers of axes alone, and with what they must be given: asked without a word."""

import re

import numpy as np
import pytest

from refnp import judge
from refnp.cli import main


def attend(q, k, v, mask):
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]).astype(q.dtype)
    s = np.where(mask, s, -1e30)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def of_heads(q, k, v, mask):
    _batch, _heads, _n, _d = q.shape
    return attend(q, k, v, mask)


def of_one(q, k, v, mask):
    if q.ndim != 2:
        raise ValueError("two axes, please")
    return attend(q, k, v, mask)


def test_a_mask_that_must_be_given_hides_nothing_where_a_case_has_none():
    report = judge("attention", attend)
    assert report.holds, str(report)
    assert "cases without mask are asked with True everywhere" in report.assumed
    assert {"attention/ordinary", "attention/saturated rows"} <= {row["case"] for row in report.rows}


def test_a_bias_that_must_be_given_is_zeros_where_a_case_has_none():
    report = judge("linear", lambda x, weight, bias: x @ weight + bias, gradients=False)
    assert report.holds, str(report)
    assert "cases without bias are asked with zeros" in report.assumed
    wrong = judge("linear", lambda x, weight, bias: x @ weight + bias + x.dtype.type(1e-3))
    assert not wrong.holds


def test_attention_of_batch_and_heads_is_asked_in_that_layout():
    report = judge("attention", of_heads)
    assert report.holds, str(report)
    assert report.assumed[-1] == "laid out as BHND, for it raises an error for arrays of other axes"
    assert len(report.rows) == len(judge("attention", attend).rows)
    wrong = judge("attention", lambda q, k, v, mask: of_heads(q, k, v, mask) * q.dtype.type(1.01))
    assert not wrong.holds
    assert wrong.assumed[-1].startswith("laid out as BHND") or "axes alone" in str(wrong)


def test_a_function_of_matrices_alone_is_asked_those_and_the_report_says_so():
    report = judge("attention", of_one)
    assert report.holds, str(report)
    (why,) = [why for why in report.skipped if "axes alone" in why]
    assert why == "of_one takes arrays of 2 axes alone, and raises ValueError: two axes, please for others"
    assert "attention/batch and heads" in report.skipped[why]
    assert not judge("attention", lambda q, k, v, mask: of_one(q, k, v, mask) * q.dtype.type(1.01)).holds


def test_an_error_in_some_cases_of_as_many_axes_is_a_deviation():
    def fragile(q, k, v, mask):
        if q.shape[-2] == 1:
            raise RuntimeError("one query")
        return attend(q, k, v, mask)

    report = judge("attention", fragile)
    assert not report.holds
    assert "RuntimeError: one query" in str(report)


def raising(x):
    return np.exp(x).missing


def test_what_always_raises_could_not_be_judged_and_the_place_is_said(capsys):
    said = "raising could not be judged: every call ends in AttributeError: .*"
    said += re.escape("of test_ranks.py, in raising: return np.exp(x).missing)")
    with pytest.raises(ValueError, match=said):
        judge("softmax", raising)
    assert main(["judge", f"{__file__}:raising", "--as", "softmax"]) == 2
    assert "could not be judged" in capsys.readouterr().err
