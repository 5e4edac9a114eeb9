"""Where longdouble is float64 (Windows, Apple ARM) the checks are the same, but nothing wider confirms them."""

import importlib

import numpy as np
import pytest

from gradcheck import compare, longdouble
from gradcheck.precision import wider
from tests.gradcheck import claims
from tests.gradcheck.claims import value_of, vjp_of, wrong
from tests.gradcheck.test_first_order import ANALYTIC, OTHERS, arguments

MODULES = ("numerical", "flat", "first_order", "second_order", "checks", "table")


@pytest.fixture(autouse=True)
def platform_without(monkeypatch):
    def narrow(dtype):
        return wider(dtype) if np.dtype(dtype) == np.float32 else None

    for name in MODULES:
        monkeypatch.setattr(importlib.import_module(f"gradcheck.{name}"), "wider", narrow)


@pytest.mark.parametrize("claim", ANALYTIC + OTHERS)
@pytest.mark.parametrize("order", [1, 2])
def test_right_and_wrong_are_still_told_apart(claim, order):
    report = compare(value_of(claim), arguments(claim), vjp=vjp_of(claim), order=order)
    assert report.agrees, report
    assert "longdouble" not in report.precision
    assert any("longdouble is float64 on this platform" in remark for remark in report.remarks)
    off = wrong(claim, lambda g, u: [part * (1 + 1e-6) for part in g])
    linear = order == 2 and claim in (claims.relu, claims.maximum, claims.absolute)
    assert compare(value_of(claim), arguments(claim), vjp=vjp_of(off), order=order).agrees == linear


def test_a_gradient_of_pure_rounding_is_no_error_here_either():
    x = np.random.default_rng(0).normal(size=(3, 5))
    for dtype in (np.float32, np.float64):
        report = compare(value_of(claims.softmax_sum), (x.astype(dtype),), vjp=vjp_of(claims.softmax_sum))
        assert report.agrees, report


def test_kinks_are_still_found():
    report = compare(value_of(claims.relu), (np.array([0.0, 1.0, -1.0]),), vjp=vjp_of(claims.relu))
    assert [kink.index for kink in report.kinks] == [(0,)]


def test_longdouble_differences_say_that_they_cannot_be_had():
    with pytest.raises(ValueError, match=r"longdouble: np\.longdouble is float64 on this platform; use richardson"):
        longdouble(np.exp, np.ones(2), np.ones(2))


def standardised(x):
    centred = x - x.mean(-1, keepdims=True)
    scale = np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    return centred / scale, scale


@pytest.mark.parametrize("seed", range(10))
def test_digits_that_f_itself_loses_refute_nothing(seed):
    """The mean of 1e6 leaves ten digits of what is left: a right gradient is not judged, one that is off by more is."""

    def vjp(f, x, factor=1.0):
        y, s = standardised(x)
        of_mean = lambda g: g.mean(-1, keepdims=True)
        return y, lambda g: (factor * (g - of_mean(g) - y * of_mean(g * y)) / s,)

    x = np.random.default_rng(seed).normal(size=(3, 5)) + 1e6
    report = compare(lambda x: standardised(x)[0], (x,), vjp=vjp)
    assert not report.disagrees, report
    assert report.agrees or report.left_out
    off = compare(lambda x: standardised(x)[0], (x,), vjp=lambda f, x: vjp(f, x, 1 + 1e-6))
    assert off.disagrees
