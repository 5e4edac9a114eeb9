"""softmax, log_softmax and the masked form: exact where others lose digits, 0 where there is nothing to choose from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.kernels.softmax import masked_softmax
from refnp.layers.softmax import log_softmax, softmax
from refnp.numbers.rounding import exact, tolerance
from refnp.verify.layers import softmax as equations
from tests.helpers import REAL, assert_same_bits, assert_within, normal, scales, seeds, shapes, unit_roundoff

BOTH = {"softmax": (softmax, equations.SOFTMAX.equation), "log_softmax": (log_softmax, equations.LOG_SOFTMAX.equation)}
both = pytest.mark.parametrize("name", BOTH)


# ---- softmax


@given(st.integers(-40, 40), seeds)
def test_shift_of_a_row_that_rounds_nothing_changes_no_bit(exponent, seed):
    x = np.random.default_rng(seed).integers(-(2**20), 2**20, (3, 6)) * 2.0**-18
    shift = 2.0 ** (exponent % 30) * np.array([[1.0], [-3.0], [0.5]])
    assert_same_bits(softmax(x + shift), softmax(x))
    assert_same_bits(log_softmax(x + shift), log_softmax(x))


@pytest.mark.parametrize("dtype", REAL)
def test_large_logits_do_not_overflow(dtype):
    largest = np.finfo(dtype).max / 4
    x = np.array([[largest, -largest, 0], [-largest, -largest, -largest], [1e4, 1e4, 0]], dtype)
    third = dtype(1) / dtype(3)
    assert_within(softmax(x), np.array([[1, 0, 0], [third] * 3, [0.5, 0.5, 0]], dtype), unit_roundoff(dtype))
    with np.errstate(over="ignore", invalid="ignore"):
        assert np.isnan(np.exp(x) / np.exp(x).sum(-1, keepdims=True)).any()  # what the maximum is taken off for


@both
def test_a_row_of_nothing_has_gradient_0(name):
    x = np.array([[-np.inf, -np.inf], [0.0, -np.inf], [np.log(3.0), 0.0]])
    y, pullback = ad.vjp(BOTH[name][0], x)
    expected = np.array([[0, 0], [1, 0], [0.75, 0.25]], np.longdouble)
    with np.errstate(divide="ignore"):
        expected = expected if name == "softmax" else np.log(expected)
    assert_within(y, expected, tolerance(BOTH[name][1](exact(x))[0], np.float64))
    (x_bar,) = pullback(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    np.testing.assert_array_equal(x_bar[0], 0)
    assert np.isfinite(x_bar).all()


@both
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_spoil_their_own_row(name, bad):
    x = np.array([[1.0, bad], [1.0, 2.0]])
    with np.errstate(invalid="ignore"):  # ∞ − ∞
        y = BOTH[name][0](x)
    assert np.isnan(y[0]).all()
    assert_same_bits(y[1], BOTH[name][0](x[1]))


# ---- the masked form


@given(shapes(axes=(2, 3)), st.sampled_from([np.float32, np.float64]), scales, seeds)
def test_masked_softmax_is_softmax_of_what_is_allowed(shape, dtype, scale, seed):
    """The same weights as with −∞ in the hidden places, whatever stands there, even ∞."""
    scores, mask = normal(seed, shape, dtype, scale), np.random.default_rng(seed).random(shape) < 0.6
    shown = np.where(mask, scores, -np.inf)
    bound = 2 * tolerance(equations.SOFTMAX.equation(exact(shown))[0], dtype)
    assert_within(masked_softmax(scores.copy(), mask), softmax(shown), bound)
    for rubbish in (np.inf, -np.inf, np.finfo(dtype).max):
        hidden = np.where(mask, scores, dtype(rubbish))
        p = masked_softmax(hidden, mask)
        assert_within(p, softmax(shown), bound)
        assert (p[~mask] == 0).all()
    assert_same_bits(masked_softmax(scores.copy()), masked_softmax(scores.copy(), np.ones(shape, bool)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("masked", [False, True])
def test_masked_softmax_is_the_plain_form_on_both_sides_of_its_reach(dtype, masked):
    """Rows whose maximum is not subtracted, since all are small, beside rows near and beyond overflow and underflow."""
    largest = float(np.log(np.finfo(dtype).max))
    ends = np.array([0, 0.249, -0.249, 0.251, -0.251, 0.9, -0.9, 3, -3])[:, None] * largest
    scores = (ends + normal(3, (len(ends), 6))).astype(dtype)
    mask = np.random.default_rng(3).random(scores.shape) < 0.7 if masked else None
    shown = scores if mask is None else np.where(mask, scores, -np.inf)
    p = masked_softmax(scores.copy(), mask)
    bound = 2 * tolerance(equations.SOFTMAX.equation(exact(shown))[0], dtype)
    assert_within(p, softmax(shown), bound)
    for i, row in enumerate(scores):  # whatever stands in other rows
        assert_same_bits(p[i], masked_softmax(row[None].copy(), None if mask is None else mask[i : i + 1])[0])
