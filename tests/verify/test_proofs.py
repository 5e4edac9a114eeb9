"""Every gradient of every page is proved, in cases that are small enough; and a wrong one is told."""

import numpy as np
import pytest

from refnp import cli, layers, models
from refnp.autograd.declaration import Declaration
from refnp.autograd.primitives import primitive
from refnp.numbers.indexed.arrays import symbol
from refnp.numbers.indexed.proving import Theorem, drawing
from refnp.numbers.indexed.sizes import Size
from refnp.verify import proofs, theorems
from refnp.verify.case import Case, Layer

PAGES = [name for name, cases in proofs.listed().items() if any(map(proofs.is_asked, cases))]
LACKING = {  # what no random point reaches, or no rule
    "cholesky",  # (√x)² = x
    "cosine_attention",  # of rows of zeros
    "det",  # of rank N − 2
    "power",  # at p = 0
    "std",  # of equal numbers
}
FOR_EVERY_SIZE = {
    "adaptive_average_pool",
    "adaptive_max_pool",
    "additive_attention",
    "attention",
    "average_pool",
    "causal_attention",
    "convolution",
    "convolution_transpose",
    "cosine_attention",
    "cross_entropy",
    "cumsum",
    "decoder_layer",
    "embedding",
    "encoder_layer",
    "layer_norm",
    "linear",
    "linear_attention",
    "log_softmax",
    "matmul",
    "max_pool",
    "normal_kl",
    "rms_norm",
    "set_convolution",
    "softmax",
    "transformer",
    "window_attention",
}


@pytest.mark.parametrize("page", PAGES)
def test_every_gradient_of_a_page_is_proved(page, monkeypatch):
    """In every third case where there are many; `refnp prove` takes all."""
    cases = proofs.cases_of_page(page)
    monkeypatch.setattr(proofs, "pages", lambda: {page: cases if len(cases) < 12 else cases[::3]})
    found = list(proofs.rows(page))
    assert found
    for row in found:
        assert row.proved == row.cases > 0 or page in LACKING, row.not_proved
        if page in FOR_EVERY_SIZE:
            assert row.forms_proved == len(row.theorems) > 0, [t.missing for t in row.theorems.values()]


def test_a_wrong_gradient_is_told(monkeypatch, capsys):
    wrong = lambda x: None
    wrong.page = lambda x: (x * x, lambda y_bar: (y_bar * x,))
    case = Case(Layer("square", wrong, None), "of two", {"x": np.array([1.0, 2.0])})
    monkeypatch.setattr(proofs, "pages", lambda: {"square": [case]})
    assert proofs.prove() == 1
    assert "square/of two: wrong" in capsys.readouterr().out


def test_the_command_proves_a_page(capsys):
    assert cli.main(["prove", "softmax"]) == 0
    out = capsys.readouterr().out
    first, *_, last = out.splitlines()[1].split()
    assert (first, last) == ("softmax", "x")
    assert "3 of 3" in out
    assert "chance of 1e-20" in out
    assert "largest element" not in out
    assert cli.main(["prove", "softmax", "--assumptions"]) == 0
    assert "proved if" in capsys.readouterr().out
    assert cli.main(["prove", "nothing"]) == cli.WRONG


def test_a_theorem_that_is_false_at_some_size_is_an_error(monkeypatch):
    """As it would be if a rule were wrong: what is claimed to be proved is computed in the field."""
    function = lambda x: x * x
    function.takes = Declaration(function, "x (..., D) → (..., D)", {})
    wrong = lambda x: (x * x, lambda y_bar: (y_bar * x,))
    assert not theorems.proofs(wrong, function)["x"]["usual"]
    told = Theorem(True, (), "", 0.0)
    monkeypatch.setattr(theorems, "gradients", lambda page, arguments, **options: {"x": told})
    with pytest.raises(AssertionError, match="usual: proved for every size and false"):
        theorems.proofs(wrong, function)


def test_a_function_of_pages_is_proved_if_each_step_is_and_the_one_that_is_not_is_named():
    @primitive
    def cube(x):
        return x**3, lambda y_bar: (y_bar * 3 * x**2,)

    @primitive
    def wrong_cube(x):
        return x**3, lambda y_bar: (y_bar * 3 * x,)

    @primitive
    def without_rule(x):
        return np.arcsinh(x), lambda y_bar: (y_bar,)

    form = theorems.Form("usual", {"x": symbol("x", Size("N"))}, {})
    of = lambda step: theorems.chained(lambda x: layers.softmax(step(x)), form)["x"]
    assert of(cube).proved
    assert of(cube).rests_on == ("cube", "softmax")
    assert "wrong_cube" in of(wrong_cube).missing
    assert "no rule for arcsinh" in of(without_rule).missing


def test_a_deep_encoder_rests_on_the_same_theorems_as_a_shallow_one():
    d, h, k, n = (Size(name) for name in "DHKN")
    deep = models.Encoder(6, d * h, h, k, rng=drawing(d))
    form = theorems.Form("usual", {"x": symbol("x", n, d * h)}, {})
    theorems.chained(deep.layers[0], form)
    known = dict(theorems._steps)
    proof = theorems.chained(deep, form)["x"]
    assert proof.proved
    assert theorems._steps == known


def test_forms_are_with_and_without_what_may_be_left_out_and_each_choice():
    function = lambda x, bias=None, *, mask=None, eps=1e-5, kind="a": x
    options = {"mask": "boolean (..., D)?", "eps": "≥ 0", "kind": "a | b"}
    function.takes = Declaration(function, "x (..., D), bias (D) or ()? → (..., D)", options)
    names = [form.name for form in theorems.forms_of(function)]
    assert names == ["usual", "with bias", "with mask", "with all", "bias ()", "kind=b"]
    page = lambda x, bias=None, *, mask=None, eps=1e-5: (x, lambda x_bar: (x_bar, None))
    assert "kind=b" not in theorems.proofs(page, function)["x"]  # which the page does not know


def test_letters_that_a_function_wants_to_be_one_are():
    def function(x, y):
        return x + y

    function.takes = Declaration(function, "x (N, D), y (N, E) → (N, D)", {})
    arguments = theorems.forms_of(function)[0].arguments
    assert repr(arguments["x"].shape) == repr(arguments["y"].shape) == "(N, D)"


def test_forms_that_a_function_refuses_are_left_out():
    def function(x, y=None):
        if y is not None:
            raise ValueError("y")
        return x

    function.takes = Declaration(function, "x (N), y (N)? → (N)", {})
    assert [form.name for form in theorems.forms_of(function)] == ["usual"]


@pytest.mark.parametrize("page", ["cholesky", "det", "inv", "log_determinant", "slogdet", "solve"])
def test_a_form_made_of_a_case_has_letters_and_not_axes_of_1(page):
    """Of matrices of one number alone nothing would be proved."""
    (form,) = theorems.undeclared(proofs.cases_of_page(page))
    assert all(1 not in x.shape for x in form.arguments.values())
