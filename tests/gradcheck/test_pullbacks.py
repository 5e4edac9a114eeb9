"""A pullback is linear, and leaves alone what is not its own, and what it has returned."""

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


NOT_LINEAR = {  # what is made of a cotangent, all of whose elements are between ½ and 1 where gradients are compared
    "clipped": lambda u: np.clip(u, -1, 1),
    "clipped far away": lambda u: np.clip(u, -1e6, 1e6),
    "by its norm": lambda u: u / np.maximum(np.linalg.norm(u), 10) * 10,
    "small ones left out": lambda u: np.where(np.abs(u) < 0.4, 0, u),
    "divided by itself": lambda u: u * (u / u),
    "0/0 at 0": lambda u: np.where(u == 0, np.nan, u),
}


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:divide by zero")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("what", NOT_LINEAR)
def test_a_pullback_is_linear(what, dtype):
    """Of cotangents of the usual size it may seem to be."""
    x, changed = X.astype(dtype), NOT_LINEAR[what]
    for g, slope in ((lambda x: x * x, 2 * x), (lambda x: (x * x).sum(), 2 * x)):
        report = compare(g, (x,), vjp=lambda _, x, g=g, slope=slope: (g(x), lambda u: (changed(u) * slope,)))
        assert report.disagrees
        assert "a pullback is linear in its cotangent" in report.fault
        assert check(g, (x,), vjp=lambda _, x, g=g, slope=slope: (g(x), lambda u: (u * slope,)))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("size", [2.0**-12, 1.0, 2.0**12])
def test_gradients_of_any_size_are_linear_within_the_range_of_their_numbers(dtype, size):
    """Cotangents that are large and small make none of them too large or small to be judged."""
    size = dtype(size) if dtype is np.float16 else dtype(size**10)
    x = np.array([0.5, -1.5, 2.0], dtype)
    f = lambda x: np.tanh(x) * x.dtype.type(size)
    report = compare(f, (x,), vjp=lambda _, x: (f(x), lambda u: (u * (1 - np.tanh(x) ** 2) * x.dtype.type(size),)))
    assert report.fault is None
    assert report.agrees


def test_two_parts_of_a_gradient_that_cancel_are_linear():
    """Those of a softmax that is nearly constant are 1e9 times as large as what is left of them."""
    w = 1e-9 * np.arange(4.0)
    f = lambda x: np.tanh(x @ np.ones((4, 4)) + x * w)
    x = np.array([0.1, 0.2, -0.1, 0.3])

    def vjp(_, x):
        y = f(x)
        return y, lambda u: ((u * (1 - y * y)) @ np.ones((4, 4)) + u * (1 - y * y) * w,)

    assert check(f, (x,), vjp=vjp, seed=3)


def test_gradients_and_values_that_are_no_real_numbers_are_named():
    for wrong, said in ((lambda u: u > 0, "bool"), (lambda u: u.astype(object), "object")):
        with pytest.raises(GradientError, match=rf"gives argument 0 \(x\) a gradient of {said}; it must be floating"):
            check(lambda x: 3 * x, (X,), vjp=lambda _, x, wrong=wrong: (3 * x, lambda u: (wrong(u),)))
    with pytest.raises(TypeError, match="f returns complex128; return its real and imaginary part as two arrays"):
        check(lambda x: 1j * x, (X,), vjp=lambda _, x: (1j * x, lambda u: (u,)))
