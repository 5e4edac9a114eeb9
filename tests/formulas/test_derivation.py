"""The gradient that is derived from the lines of a page is what its VJP gives; a wrong one is not."""

import numpy as np
import pytest

from refnp import cli, layers
from refnp.autograd.pages import page
from refnp.formulas.derivation import bar_of, derive, with_bars
from refnp.formulas.formula import writer_of, written
from refnp.formulas.writing import Text
from refnp.verify.theorems import numbers_of
from tests.formulas.reading import reader_of
from tests.formulas.test_formulas import sizes_of

DERIVED = ["attention", "attention_with_weights", "gelu", "layer_norm", "log_softmax", "mse", "rms_norm", "softmax"]


@pytest.mark.parametrize("name", DERIVED)
def test_what_is_derived_is_proved_to_be_what_is_written(name):
    found = derive(getattr(layers, name))
    assert found.theorems
    assert all(found.theorems.values()), found.text
    assert [step.name for step in found.steps][-len(found.theorems) :] == [bar_of(name) for name in found.theorems]


@pytest.mark.parametrize("name", ["attention", "gelu", "layer_norm", "mse", "softmax"])
def test_the_steps_that_are_printed_give_the_gradient(name):
    """They are read as a reader does, and computed in numbers, beside the page's VJP."""
    operation = getattr(layers, name)
    found = derive(operation)
    run = found.of.run
    arguments, options = numbers_of(run.form, 2, longest=3, least=2)
    y, vjp = operation.page(*arguments.values(), **options)
    y_bar = np.random.default_rng(0).normal(size=np.shape(y))
    writer = with_bars(writer_of(operation, run, Text()))
    known = {k: x for k, x in (arguments | options).items() if isinstance(x, (float, np.ndarray))}
    known[bar_of(found.of.results[0][0])] = y_bar
    steps = [" = ".join(sides) for step in found.steps for sides in written(writer, step.name, step.value)]
    text = "\n".join([found.of.text, *steps])
    reader = reader_of(text, writer.letters, writer.shapes, known, sizes_of(run.form, arguments, options))
    for (argument, x), right in zip(arguments.items(), vjp(y_bar), strict=True):
        if bar_of(argument) in {step.name for step in found.steps}:
            letter = writer.letters[bar_of(argument)]
            value = reader.array(letter, np.shape(x))
            summed = right.sum(tuple(range(np.ndim(right) - np.ndim(x))))
            np.testing.assert_allclose(value, summed, rtol=1e-11, atol=1e-12)


def test_a_step_names_the_rules_that_it_follows():
    lines = derive(layers.layer_norm).text.splitlines()
    (of_root,) = (line for line in lines if "x̂: linear" in line)
    assert of_root.endswith("s: √a′ = 1/(2√a), power 2")


@page("x (..., n) → (..., n)")
def wrong_square(x):
    """y = x², with a gradient that is half of what it should be."""
    y = x * x

    def vjp(y_bar):
        x_bar = y_bar * x
        return (x_bar,)

    return y, vjp


def test_a_wrong_vjp_is_not_what_is_derived():
    found = derive(wrong_square)
    assert not found.theorems["x"]
    assert "x̄: not shown to be the same: 1 terms are left" in found.text.replace("x\u0304", "x̄")
    assert "x̄_bi = 2 x_bi ȳ_bi" in found.text.replace("x\u0304", "x̄").replace("y\u0304", "ȳ")


def test_the_command(capsys):
    assert cli.main(["derive", "softmax"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("p_bi = exp(x_bi) / Σ_j exp(x_bj)\n")
    assert "derived and written are the same, for every size" in out
    assert cli.main(["derive", "cholesky"]) == 1
    assert "cholesky: not derived: cholesky declares no shapes" in capsys.readouterr().out
    assert cli.main(["derive", "nothing"]) == cli.WRONG
    assert "nothing is no page; " in capsys.readouterr().err
