"""A tape carries any kind of number: values with their bounds, and gradients that are proved."""

import numpy as np
import pytest

import refnp.autograd as ag
from refnp import layers
from refnp.numbers.field import Field, drawn
from refnp.numbers.proving import vjp_is_derivative
from refnp.numbers.rounding import Rounded, arithmetic, exact, tolerance

WEIGHTS = np.random.default_rng(0).normal(size=(4, 4))
PLACES = np.array([[0, 2], [3, 3], [1, 0], [2, 2]])
FUNCTIONS = {
    "linear, softmax": lambda x: layers.softmax(ag.linear(x, x, x[0])),
    "einsum of three": lambda x: ag.einsum("ij,jk,kl->il", x, x, x),
    "einsum of one": lambda x: ag.einsum("ij->j", x),
    "diagonal by einsum": lambda x: ag.einsum("ii->i", x),
    "trace": lambda x: ag.trace(x * x),
    "outer": lambda x: ag.outer(x[0], x[1]),
    "diag": lambda x: ag.diag(x[0], -1) @ ag.pad(x, ((1, 0), (1, 0))),
    "triangles": lambda x: ag.tril(x) @ ag.triu(x, 1),
    "rows twice": lambda x: x[[0, 0, 2]] * x[1:],
    "take": lambda x: ag.take(x, PLACES, 1),
    "take_along_axis": lambda x: ag.take_along_axis(x, PLACES),
    "scatter, add": lambda x: ag.scatter(x, PLACES, x[:, :2] * x[:, 1:3]),
    "scatter, put": lambda x: ag.scatter(x, PLACES[:1], x[:1, :2], mode="put"),
    "pads": lambda x: ag.pad(x, ((1, 2), (0, 3)), mode="reflect") @ ag.pad(x, ((0, 3), (1, 1)), value=2.0),
    "joins": lambda x: ag.concatenate([ag.stack([x, ag.flip(x)])[1], ag.roll(x, 1, 0)], 1),
    "split": lambda x: ag.split(x, [1, 3], 0)[1],
    "elementary": lambda x: ag.exp(ag.sin(x)) + ag.log1p(x * x) * ag.arctan(ag.expm1(x)) - ag.tanh(ag.sinh(ag.cos(x))),
    "roots and quotients": lambda x: ag.sqrt(x * x + 1) / ag.cosh(x) + ag.log(ag.absolute(x)) * ag.erf(x) * ag.erfc(-x),
    "powers": lambda x: ag.power(ag.absolute(x), x) + x**3 - ag.power(x, -2) + ag.power(ag.absolute(x), 2.5),
    "angles and remainders": lambda x: ag.arctan2(x, x[0]) + ag.remainder(x, ag.absolute(x[1])),
    "choices": lambda x: ag.maximum(x, x[0] + 0.1) * ag.clip(x, -0.5, 0.7) + ag.minimum(x, 0.2) * ag.astype(x, float),
    "sums": lambda x: ag.sum(x, 0) + ag.mean(x, -1) * ag.var(x, 1, ddof=1) + ag.std(x) * ag.norm(x, 0, keepdims=True),
    "products": lambda x: ag.prod(x, (0, 1)) * ag.cumprod(x, 0) + ag.cumsum(x * x, 1),
    "extremes": lambda x: ag.max(x, (0, 1)) * ag.min(x, 0) + ag.median(x, 1) + ag.sort(x, 0),
    "logsumexp": lambda x: ag.logsumexp(x * x, -1) + ag.logsumexp(x, None, keepdims=True),
    "shapes": lambda x: ag.squeeze(ag.expand_dims(ag.swapaxes(ag.reshape(x, (2, 8)), 0, 1), 0)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_are_those_of_arrays_within_the_bound(name):
    judged = arithmetic(np.float32)
    x = WEIGHTS.astype(np.float32)
    y, pullback = ag.vjp(FUNCTIONS[name], x)
    y_bar = np.cos(np.arange(y.size)).reshape(y.shape).astype(np.float32)
    rounded, rounded_pullback = ag.vjp(FUNCTIONS[name], exact(x, judged))
    pairs = [(y, rounded), (*pullback(y_bar), *rounded_pullback(exact(y_bar, judged)))]
    for found, right in pairs:
        assert isinstance(right, Rounded)
        assert (np.abs(found - right.value) <= tolerance(right, np.float32)).all()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_proved_on_the_tape(name):
    assert vjp_is_derivative(lambda x: ag.vjp(FUNCTIONS[name], x), [WEIGHTS]).holds


def test_a_wrong_gradient_on_the_tape_is_refuted():
    @ag.primitive
    def tripled(x):
        return x * 3, lambda y_bar: (y_bar * 2,)

    assert vjp_is_derivative(lambda x: ag.vjp(lambda x: tripled(x) @ x, x), [WEIGHTS]).holds is False


def test_what_the_result_does_not_depend_on_has_gradient_zero():
    x, y = (drawn(np.random.default_rng(0), WEIGHTS) for _ in range(2))
    _, pullback = ag.vjp(lambda x, y: x @ x, x, y)
    x_bar, y_bar = pullback(Field(np.ones((4, 4), int)))
    assert isinstance(x_bar, Field)
    assert not y_bar.any()


def test_a_product_and_a_number_are_one_sum_in_any_order():
    judged = arithmetic(np.float32)
    x, w = exact(np.full((1, 1000), 1e-3), judged), exact(np.ones((1000, 1)), judged)
    bias = np.float32(1e4)
    begun = bias
    for _ in range(1000):  # as a product of matrices that begins with the bias does
        begun = np.float32(begun + np.float32(1e-3))
    y = x @ w + exact(np.array([bias]), judged)
    assert abs(float(begun) - float(y.value[0, 0])) <= tolerance(y, np.float32)[0, 0]
