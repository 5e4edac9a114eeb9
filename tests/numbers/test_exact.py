"""Numbers of arbitrary precision, and the equations of the layers on them."""

import builtins

import mpmath
import numpy as np
import pytest

import gradcheck
from refnp import layers
from refnp.autograd import vjp
from refnp.numbers import rounding
from refnp.numbers.exact import Number, as_numbers
from refnp.verify.case import exact_gradient, exactly
from refnp.verify.layers import LAYERS, attention, gradient_inputs

HARD = [inputs for inputs in gradient_inputs() if inputs.equation is not None]


def of(*values):
    return np.array([Number(mpmath.mpf(v)) for v in values], object)


def test_numbers_calculate_with_those_of_python_and_numpy():
    a = of(2, 3)
    wide = np.array([1.5, -np.inf], np.longdouble)
    for x, y in ((a, wide), (wide, a), (a, a), (a, 2), (2.5, a), (a, np.float32(0.5))):
        for operation in (np.add, np.subtract, np.multiply, np.true_divide):
            given = operation(x, y)
            right = operation(np.asarray(x, float), np.asarray(y, float))
            assert {type(v) for v in given} == {Number}
            assert np.array_equal(given.astype(float), right)
        for operation in (np.less, np.greater_equal, np.equal):
            assert np.array_equal(operation(x, y), operation(np.asarray(x, float), np.asarray(y, float)))
    assert np.array_equal((a**2).astype(float), [4, 9])
    assert np.array_equal(np.abs(-a).astype(float), [2, 3])


def test_functions_of_numpy_have_as_many_digits_as_the_context():
    with mpmath.workdps(50):
        for name in ("exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tanh"):
            (given,) = getattr(np, name)(of("0.7"))
            assert given.mpf == getattr(mpmath, name)(mpmath.mpf("0.7"))


def test_arrays_are_of_one_kind():
    mixed = np.array([Number(mpmath.mpf(1)), np.longdouble(-np.inf), 2, 0.5], object)
    assert [type(v) for v in as_numbers(mixed)] == [Number] * 4
    assert as_numbers(np.array([0, 1], object)).dtype == np.longdouble


def test_an_equation_is_exact_on_them():
    with mpmath.workdps(60):
        value = layers.softmax.page(rounding.exact(of(0, -40)))[0].value
        right = mpmath.exp(-40) / (1 + mpmath.exp(-40))
        assert abs(value[1].mpf / right - 1) < mpmath.mpf(10) ** -58


def test_every_page_can_be_evaluated_on_them():
    """Every equation that has cases, on the first of them: it is the value of the equation in longdouble."""
    for page in LAYERS:
        first = {case.layer.name: case for case in reversed(getattr(page, "cases", list)()) if not case.known_defects}
        for case in first.values():
            problem = case.problem("float64")
            arrays = [as_objects(array) for array in problem.arrays.values()]
            with mpmath.workdps(40):
                value = case.layer.equation(*map(rounding.exact, arrays), **case.options)[0].value
            right, allowed = problem.textbook[0].value, rounding.tolerance(problem.textbook[0], np.float64)
            assert np.all(np.abs(value.astype(np.longdouble) - right) <= allowed), case.name


def as_objects(array):
    found = np.empty(array.shape, object)
    for place, value in np.ndenumerate(array):
        found[place] = Number(mpmath.mpf(float(value)))
    return found


@pytest.mark.parametrize("inputs", HARD, ids=lambda inputs: inputs.name)
def test_hard_gradients_have_twelve_digits_element_by_element(inputs):
    report = gradcheck.check(inputs.function, inputs.args, vjp=vjp, exact=inputs.exact, name=inputs.name)
    assert report.element_wise


def test_an_equation_of_another_function_is_refused():
    x = np.array([0.5, 1.0])
    with pytest.raises(ValueError, match="the equation differs from f"):
        gradcheck.check(layers.softmax, (x,), vjp=vjp, exact=exactly(layers.log_softmax.page))


def test_without_mpmath_there_are_no_such_rows(monkeypatch):
    find = builtins.__import__

    def without(name, *rest):
        if name == "mpmath":
            raise ImportError(name)
        return find(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    inputs = exact_gradient("attention", layers.attention, attention.attention, *np.ones((3, 2, 2)))
    assert inputs.exact is None
    assert not inputs.is_judged
