"""Kinks are found, named and left out: neither compared in silence nor counted as agreement."""

import numpy as np
import pytest

from gradcheck import GradientError, check, compare
from gradcheck.numerical import has_kink
from tests.gradcheck import claims
from tests.gradcheck.claims import value_of, vjp_of, wrong


def places(report):
    return [(kink.argument, *kink.index) for kink in report.kinks]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("claim", [claims.relu, claims.absolute])
def test_the_kink_at_zero_is_named_and_the_rest_compared(claim, order):
    x = np.array([[0.5, 0.0, -1.0], [2.0, -3.0, 0.0]])
    report = check(value_of(claim), (x,), vjp=vjp_of(claim), order=order)
    assert places(report) == [(0, 0, 1), (0, 1, 2)]
    assert report.elements + report.projected == 4 * (order if claim is claims.relu else 1)
    assert "kink: argument 0 at [0, 1], not compared" in str(report)


@pytest.mark.parametrize("subgradient", [0.0, 0.3, 0.5, 1.0, 7.0, np.nan])
def test_no_subgradient_is_compared(subgradient):
    def relu(x):
        return np.maximum(x, 0), lambda u: (u * np.where(x == 0, subgradient, x > 0),)

    assert check(value_of(relu), (np.array([0.0, 1.0]),), vjp=vjp_of(relu)).elements == 1


def test_ties_of_a_maximum_are_kinks_of_both_sides():
    x, y = np.array([1.0, 2.0, 3.0]), np.array([0.0, 2.0, 5.0])
    report = check(value_of(claims.maximum), (x, y), vjp=vjp_of(claims.maximum))
    assert places(report) == [(0, 1), (1, 1)]


def test_a_wrong_gradient_next_to_a_kink_is_still_caught():
    def spoil(g, u):
        g[0][2] *= 1 + 1e-9
        return g

    with pytest.raises(GradientError, match=r"at \[2\]"):
        check(value_of(claims.relu), (np.array([0.0, -1.0, 1.0]),), vjp=vjp_of(wrong(claims.relu, spoil)))


def test_nothing_but_kinks_is_no_agreement():
    report = compare(value_of(claims.relu), (np.zeros(3),), vjp=vjp_of(claims.relu))
    assert not report.agrees
    assert report.elements == 0
    with pytest.raises(GradientError, match="relu: nothing to compare, f has a kink at every element"):
        report.require()


def test_a_kink_among_many_elements_is_found():
    x = np.random.default_rng(0).normal(size=2000)
    x[[17, 1700]] = 0
    assert places(check(value_of(claims.relu), (x,), vjp=vjp_of(claims.relu))) == [(0, 17), (0, 1700)]


def test_a_kink_in_one_term_of_a_sum_is_found():
    def sum_of_moduli(x):
        return np.abs(x).sum(), lambda u: (u * np.sign(x),)

    x = np.random.default_rng(0).normal(size=200)
    x[77] = 0
    assert places(check(value_of(sum_of_moduli), (x,), vjp=vjp_of(sum_of_moduli))) == [(0, 77)]


@pytest.mark.parametrize("distance", [1e-3, 1e-5, 1e-7])
@pytest.mark.parametrize("claim", [claims.relu, claims.absolute])
def test_near_a_kink_there_is_a_derivative(claim, distance):
    report = compare(value_of(claim), (np.array([distance, -distance, 1.0]),), vjp=vjp_of(claim))
    assert report.agrees
    assert not report.kinks


def test_closer_than_steps_can_tell_it_counts_as_a_kink():
    assert places(check(value_of(claims.relu), (np.array([1e-13, 1.0]),), vjp=vjp_of(claims.relu))) == [(0, 0)]


def test_a_jump_and_the_edge_of_a_domain_are_kinks():
    x, v = np.array([1.0, 1.5]), np.ones(2)
    assert has_kink(np.floor, x, v).tolist() == [True, False]
    assert has_kink(np.arcsin, np.array([1.0, 0.5]), v).tolist() == [True, False]


@pytest.mark.parametrize("sharpness", [1, 1e2, 1e4, 1e6])
def test_a_sharp_bend_is_no_kink(sharpness):
    def bend(x):
        y = np.tanh(sharpness * x)
        return y, lambda u: (u * sharpness * (1 - y * y),)

    report = compare(value_of(bend), (np.array([0.1 / sharpness, 1.0]),), vjp=vjp_of(bend))
    assert not report.kinks
    assert report.agrees


def test_smooth_functions_have_none():
    rng = np.random.default_rng(3)
    for f in (np.exp, np.tanh, lambda x: x**3, lambda x: 0 * x, lambda x: np.ones_like(x)):
        for scale in (1e-6, 1.0, 1e3):
            assert not has_kink(f, rng.normal(size=20) * min(scale, 10), np.full(20, min(scale, 10))).any()
