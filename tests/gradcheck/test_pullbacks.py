"""A pullback leaves alone what is not its own, and what it has returned."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcheck import GradientError, check, compare

X = np.array([[1.0, -2.0, 0.5], [3.0, -0.25, 2.0]])
W = np.array([0.5, -1.5, 2.0])


def f(x, w):
    return np.tanh(x * w), (x * w).sum()


def right(x, w, y):
    def gradients(u):
        tanh_bar, sum_bar = np.array(u[0]), np.array(u[1])
        z_bar = tanh_bar * (1 - y[0] ** 2) + sum_bar
        return z_bar * w, (z_bar * x).sum(0)

    return gradients


def writing(what, how):
    """A vjp with the right gradients, whose pullback changes `what` after it has made them."""
    store = [np.zeros_like(X), np.zeros_like(W)]

    def vjp(_, x, w):
        value = f(x, w)
        value = (value[0], np.array(value[1]))
        gradients = right(x.copy(), w.copy(), (value[0].copy(), value[1].copy()))

        def pullback(u):
            found = gradients(u)
            if what == "returned":
                for kept, new in zip(store, found, strict=True):
                    kept[...] = new
                return tuple(store)
            changed = {"x": x, "w": w, "cotangent": u[0], "scalar cotangent": u[1], "value": value[0]}[what]
            how(changed)
            return found

        return value, pullback

    return vjp


def negate(array):
    array *= -1


def clear_one(array):
    array[(0,) * array.ndim] = 0


def add(array):
    array += 1e-12


SAID = {
    "x": r"writes into argument 0 \(x\)",
    "w": r"writes into argument 1 \(w\)",
    "cotangent": r"writes into its cotangent \[0\]",
    "scalar cotangent": r"writes into its cotangent \[1\]",
    "value": r"writes into the value \[0\]",
    "returned": r"returns gradient \[0\], which a later call changes",
}


@given(what=st.sampled_from(sorted(SAID)), how=st.sampled_from([negate, clear_one, add]), order=st.sampled_from([1, 2]))
def test_what_it_writes_into_is_named(what, how, order):
    """Although its gradients are right: whoever uses them, or the arrays, later finds other numbers there."""
    report = compare(f, (X, W), vjp=writing(what, how), order=order)
    assert (report.agrees, report.disagrees) == (False, True)
    assert re.search(rf"^f: DISAGREES: the pullback {SAID[what]}", str(report))
    with pytest.raises(GradientError, match=f"^f: the pullback {SAID[what]}"):
        report.require()


def test_the_usual_slip_of_a_relu():
    def vjp(_, x):
        def pullback(u):
            u[x <= 0] = 0
            return (u,)

        return np.maximum(x, 0), pullback

    with pytest.raises(GradientError, match="writes into its cotangent; let it work on a copy"):
        check(lambda x: np.maximum(x, 0), (np.array([1.0, -2.0]),), vjp=vjp)


def test_sharing_without_writing_is_right():
    def vjp(_, x, y):
        value = x + y
        return value, lambda u: (u, u)  # the cotangent itself, twice

    assert check(lambda x, y: x + y, (X, X + 1), vjp=vjp)
    assert check(lambda x: x, (X,), vjp=lambda _, x: (x, lambda u: (u,)))


def test_a_pullback_may_keep_its_own_arrays():
    def vjp(_, x):
        state = np.zeros_like(x)

        def pullback(u):
            nonlocal state
            state = state + u
            return (2 * x * u,)

        return x * x, pullback

    assert check(lambda x: x * x, (X,), vjp=vjp)


@pytest.mark.parametrize("of_calls", [lambda n: n, lambda n: 1.0 if n == 1 else -1.0, lambda n: 1 + 1e-4 * n])
def test_a_pullback_gives_the_same_again(of_calls):
    """What adds to a gradient that it keeps gives the right one at its first call alone."""

    def vjp(_, x, w):
        value, calls = f(x, w), []

        def pullback(u):
            calls.append(u)
            return tuple(g * of_calls(len(calls)) / of_calls(1) for g in right(x, w, value)(u))

        return value, pullback

    assert "another gradient for the same cotangent" in str(compare(f, (X, W), vjp=vjp))
    assert not compare(f, (X, W), vjp=vjp)
