"""The tape as text."""

import io
import sys

import numpy as np
import pytest

import refnp.autograd as ad
from refnp.autograd import Parameter, Tensor
from refnp.autograd.explanation import equation_of, explain
from refnp.layers.softmaxes import softmax


def described(*arguments, **options):
    file = io.StringIO()
    assert explain(*arguments, **options, file=file) is None
    return file.getvalue().removesuffix("\n")


def lines(*arguments, **options):
    return [" ".join(line.split()) for line in described(*arguments, **options).split("\n")]


def example():
    x = Tensor([3.0, 4.0], requires_grad=True)
    return x, (x * x).sum()


def test_the_example_of_the_page_is_what_is_printed(capsys):
    _, y = example()
    explain(y, gradients=True)
    printed = capsys.readouterr().out.rstrip("\n").split("\n")
    text = sys.modules[explain.__module__].__doc__
    expected = [line.removeprefix("    ") for line in text.split("\n\n")[2].split("\n")]
    assert printed == expected


def test_it_can_be_written_anywhere(capsys):
    _, y = example()
    explain(y)
    assert capsys.readouterr().out == described(y) + "\n"


def test_lines_name_operation_arguments_shape_values_and_equation():
    w = Parameter(np.arange(6.0).reshape(3, 2))
    x = np.ones((4, 3), np.float32)
    y = ad.tanh(Tensor(x) @ w + 0.5)
    assert lines(y) == [
        "1 parameter (3, 2) float64 0. 1. 2. 3. …",
        "2 matmul(constant (4, 3), 1) (4, 2) float64 6. 9. 6. 9. … Z = X Y",
        "3 add(2, 0.5) (4, 2) float64 6.5 9.5 6.5 9.5 … z = x + y",
        "4 tanh(3) (4, 2) float64 1. 1. 1. 1. … y = tanh x",
    ]


def test_several_results_have_numbers_of_their_own():
    x = Tensor(np.arange(4.0), requires_grad=True)
    a, _ = ad.split(x, 2)
    text = lines(ad.concatenate([a, a * 2]))
    assert text[1] == "2.0 split(1, 2) (2,) float64 0. 1. y = x cut along `axis` into `sections` equal parts"
    assert text[2] == "2.1 (2,) float64 not used"
    assert text[3].startswith("3 multiply(2.0, 2)")
    assert text[4].startswith("4 concatenate(2.0, 3)")


def test_gradients_are_those_of_backward_and_leave_no_trace():
    x, y = example()
    assert lines(y, gradients=True)[1] == "gradient 6. 8."
    assert lines(y, gradients=True, cotangent=10.0)[1] == "gradient 60. 80."
    assert x.grad is None
    y.backward()
    assert x.grad.tolist() == [6, 8]


def test_a_freed_tape_says_so():
    _, y = example()
    y.backward()
    assert lines(y) == ["1 sum(…), freed by backward () float64 25. y = Σ x over `axis`"]
    with pytest.raises(RuntimeError, match="used by an earlier backward"):
        described(y, gradients=True)


def test_leaves_and_constants():
    assert lines(Tensor([1.0, 2.0], requires_grad=True)) == ["1 leaf (2,) float64 1. 2."]
    assert lines(Tensor(2.0)) == ["1 constant () float64 2."]
    assert lines(Tensor(3.0, requires_grad=True), gradients=True)[1] == "gradient 1."


def test_what_cannot_be_explained():
    with pytest.raises(TypeError, match="explain: ndarray has no tape; pass a Tensor"):
        explain(np.ones(2))
    with pytest.raises(ValueError, match="needs a cotangent of that shape"):
        described(Tensor([1.0, 2.0], requires_grad=True), gradients=True)
    with pytest.raises(RuntimeError, match="nothing behind this tensor needs a gradient"):
        described(Tensor(1.0), gradients=True)


def test_columns_are_aligned_and_cut():
    x = Tensor(np.ones((2, 3)), requires_grad=True)
    y = softmax(x[(slice(None, None, None), np.array([0, 1, 2]), None)].swapaxes(1, 2) * np.pi, axis=-1)
    text = described(y).split("\n")
    assert all("float64" in line for line in text)
    column = text[0].index("(2, 3) float64")
    assert all(line[column - 2 : column + 3] == "  (2," for line in text)
    assert any("…" in line for line in text)


@pytest.mark.parametrize(
    ("operation", "equation"),
    [
        (ad.add, "z = x + y"),
        (ad.max, "y = max x over `axis`"),
        (ad.clip, "y = min(max(x, low), high)"),
        (ad.sin, "y = sin x"),
        (ad.where, "z = x where the condition holds, else y"),
        (ad.logsumexp, "y = log Σ exp(x_i) over `axis`"),
        (ad.trace, "y = Σ_i X_ii over the last two axes"),
        (softmax, "p_i = exp(x_i − m) / Σ_j exp(x_j − m) along `axis`"),
    ],
)
def test_equations_come_from_docstrings(operation, equation):
    assert equation_of(operation) == equation


def test_an_operation_without_an_equation_shows_its_first_sentence():
    @ad.primitive
    def shuffle(x):
        """Put the elements in another order. Nobody knows which.

        VJP: x̄ = ȳ put back.
        """
        return x, lambda y_bar: (y_bar,)

    @ad.primitive
    def silent(x):
        return x, lambda y_bar: (y_bar,)

    assert equation_of(shuffle) == "Put the elements in another order"
    assert equation_of(silent) == ""
