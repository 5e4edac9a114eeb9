"""What a function does, as lines of Python that do the same."""

from types import SimpleNamespace

import numpy as np
import pytest

from refnp.verify.tracing import Trace, bare, literal


def traced(function, *arrays, **options):
    """The lines of a function of NumPy and arrays x, y, …, and what they compute."""
    trace = Trace()
    names = "xyz"[: len(arrays)]
    values = [trace.named(name, array) for name, array in zip(names, arrays, strict=True)]
    statements, result = trace.lines(function(trace.named("np", np), *values, **options))
    source = "\n".join([f"def f({', '.join(names)}):", *(f"    {line}" for line in statements), f"    return {result}"])
    scope = {"np": np}
    exec(source, scope)
    np.testing.assert_array_equal(scope["f"](*arrays), function(np, *arrays, **options))
    return statements, result


X, Y = np.arange(6.0).reshape(2, 3), np.arange(3.0)


def test_what_is_used_once_is_written_where_it_is_used():
    assert traced(lambda np, x, y: np.exp(x - y).sum(0), X, Y) == ([], "np.exp((x - y)).sum(0)")


def test_what_is_used_again_gets_a_variable():
    statements, result = traced(lambda np, x: (lambda e: e / e.sum(-1, keepdims=True))(np.exp(x)), X)
    assert statements == ["v1 = np.exp(x)"]
    assert result == "v1 / v1.sum(-1, keepdims=True)"


def test_shapes_are_numbers_and_choose_the_way():
    assert traced(lambda np, x: x.T if x.ndim == 2 else x, X)[1] == "x.T"
    assert traced(lambda np, x: x.reshape(x.shape[::-1]), X)[1] == "x.reshape((3, 2))"


def test_indices_masks_and_numbers():
    assert traced(lambda np, x: x[..., :2, None] * 2 + 0.5, X)[1] == "(x[..., :2, None] * 2) + 0.5"
    assert traced(lambda np, x, mask: np.where(mask, 1 - x, -np.inf), X, mask=X > 2)[1] == (
        "np.where(np.array([[0, 0, 0], [1, 1, 1]], bool), (1 - x), -np.inf)"
    )


def test_what_is_assigned_and_called_for_its_effect_is_a_statement():
    class Module:
        def __call__(self, x):
            return self.weight * x

        def double(self):
            self.weight = self.weight * 2

    def use(framework, x):
        module = framework.Module()
        module.weight = x + 1
        module.double()
        return module(x)

    trace = Trace()
    result = use(trace.named("framework", SimpleNamespace(Module=Module)), trace.named("x", X))
    assert trace.lines(result) == (
        ["v1 = framework.Module()", "v1.weight = (x + 1)", "v1.double()"],
        "v1(x)",
    )


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.array([1.0, -0.25, 1e-30]), "[1, -0.25, 1e-30]"),
        (np.array([[np.nan, -np.inf]]), "[[np.nan, -np.inf]]"),
        (np.array(0.1, "float32"), "0.1"),
        (np.array([1e22, 123456.0]), "[1e+22, 123456]"),
    ],
)
def test_numbers_have_the_digits_they_need(array, text):
    assert literal(array) == text
    np.testing.assert_array_equal(np.array(eval(text), array.dtype), array)


@pytest.mark.parametrize(
    ("text", "inner"), [("(a + b)", "a + b"), ("(a) + (b)", "(a) + (b)"), ("(a, b)", "(a, b)"), ("f(a)", "f(a)")]
)
def test_parentheses_around_the_whole_go(text, inner):
    assert bare(text) == inner
