"""Every function is exact element by element, or as exact as its inputs determine; the page that says so is true."""

import doctest
import re

import mpmath
import numpy as np
import pytest

import refnp.autograd
import refnp.layers
from refnp.autograd import primitive
from refnp.files import between_marks
from refnp.numbers.rounding import exact
from refnp.verify import layers as pages
from refnp.verify.case import Case, Layer
from refnp.verify.layers import softmax
from tests import exactness
from tests.hard_cases import ELSEWHERE, formula, hard_cases, operation
from tests.verify.test_completeness import snake_case

CASES = [*pages.cases_of_layers(), *hard_cases()]  # whole models are judged by what their operations round
OF_LAYERS = [case.layer.name for page in pages.LAYERS for case in getattr(page, "cases", list)()]
JUDGED = [*OF_LAYERS, *(case.layer.name for case in hard_cases())]  # a model is made of layers
TEXT = exactness.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", dict.fromkeys(JUDGED))
def test_every_element_is_exact_or_explained(name):
    for case in CASES:
        if case.layer.name == name and exactness.fits(case, "float64"):
            for worst in exactness.judged(case.problem("float64")).values():
                assert worst.holds, worst


def rows():
    """The cells of every row of the table."""
    table = between_marks(TEXT, "functions")[1]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_the_table_has_every_function():
    right = [f"`{name}`" for name in dict.fromkeys(case.layer.name for case in CASES)]
    assert [name for name, *_ in rows()] == right, "python -m tests.exactness --write --missing makes it"


def test_every_entry_of_the_table_is_small_or_explained():
    for name, *cells in rows():
        for dtype, (value, gradients, condition, ratio) in (("float64", cells[:4]), ("float32", cells[5:9])):
            errors = [float(cell) for cell in (value, gradients) if cell]
            if max(errors, default=0) > 1.05 * exactness.bar(dtype):
                assert float(ratio) <= exactness.SAFETY, name
                assert float(condition) > 1, name


def test_every_public_function_has_a_row_or_a_reason():
    found = {name for case in CASES for name in (case.layer.name, *case.layer.names)}
    elsewhere = [name for names in ELSEWHERE.values() for name in names.split()]
    public = {
        name
        for chapter in (refnp.autograd, refnp.layers)
        for name in chapter.__all__
        if callable(getattr(chapter, name))
    }
    missing = {name for name in public - set(elsewhere) if not {name, snake_case(name)} & found}
    assert missing == set(), "add a case to tests/hard_cases.py, or the reason there"
    assert set(elsewhere) - public == set()


def test_the_examples_of_the_page_are_true():
    result = doctest.DocTestRunner().run(doctest.DocTestParser().get_doctest(TEXT, {}, "exactness.md", None, 0))
    assert (result.failed, result.attempted > 5) == (0, True)


def test_the_gradient_of_the_page_has_these_digits():
    digits = re.search(r"p₀ p₁ = ([\d.e−-]+),", TEXT).group(1)
    with mpmath.workdps(50):
        small = mpmath.exp(-40) / (1 + mpmath.exp(-40)) ** 2
        assert abs(mpmath.mpf(digits) / small - 1) < mpmath.mpf(10) ** -14


@primitive
def textbook(x):
    """Softmax with the gradient that loses the largest component."""
    p = np.exp(x - x.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    return p, lambda p_bar: (p * (p_bar - (p_bar * p).sum(-1, keepdims=True)),)


def test_a_lost_component_is_seen_and_not_explained():
    case = Case(
        Layer("textbook", textbook, softmax.SOFTMAX.equation), "", {"x": np.array([0.0, -40.0])}, cotangent=[1.0, 0.0]
    )
    found = exactness.judged(case.problem("float64"))
    assert found["output"].holds
    assert not found["gradients"].holds
    assert found["gradients"].error == pytest.approx(1)
    assert "FAILS" in str(found["gradients"])


@pytest.mark.parametrize("change", [1 + 1e-10, np.nan, np.inf])
def test_a_wrong_element_is_seen(change):
    spoiled = lambda x: refnp.autograd.multiply(x, np.array([1.0, change, 1.0]))
    case = operation("spoiled", spoiled, lambda x: x, "", np.array([1.0, 2.0, 3.0]))
    found = exactness.judged(case.problem("float64"))
    assert not found["output"].holds
    assert not found["gradients"].holds


def test_the_condition_is_that_of_the_textbook():
    """z = x − y: κ = √(x² + y²)/|x − y|, to the accuracy of eight random movements."""
    x, y = np.array([1.0, 3.0]), np.array([1 - 1e-9, 1.0])
    case = operation("subtract", refnp.autograd.subtract, np.subtract, "", x, y)
    with mpmath.workdps(exactness.DIGITS):
        found = exactness.Exactly(case.problem("float64")).conditions["output"]
    np.testing.assert_allclose(found, np.hypot(x, y) / np.abs(x - y), rtol=0.5)


def test_differences_of_a_formula_are_its_gradient():
    cube = formula(lambda x: x * x * x)
    with mpmath.workdps(exactness.DIGITS):
        x = exactness.objects(np.array([1e-300, -2.0, 0.0]))
        _, pullback = cube(exact(x))
        (slopes,) = pullback(exact(exactness.objects(np.ones(3))))
        for slope, at in zip(slopes.value, x, strict=True):
            assert abs(slope.mpf - 3 * at.mpf**2) <= mpmath.mpf(10) ** -300 * abs(at.mpf) ** 2 + mpmath.mpf(10) ** -390


def test_the_command_prints_and_fails(capsys, monkeypatch):
    assert exactness.main(["--only", "tanh"]) == 0
    printed = capsys.readouterr().out
    assert "tanh/hard, saturated, float64, output" in printed
    assert "all are small or explained" in printed
    monkeypatch.setattr(exactness, "bar", lambda dtype: 1e-30)
    monkeypatch.setattr(exactness, "SAFETY", 0)
    assert exactness.main(["--only", "tanh"]) == 1


def test_the_command_writes_lines_in_order(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    stale, tanh = "| `gone` | 1 |", "| `tanh` | old |"
    marks = "<!-- functions: begin -->\n", "<!-- functions: end -->\n"
    page.write_text(f"before\n{marks[0]}{stale}\n{tanh}\n{marks[1]}after\n", encoding="utf-8")
    monkeypatch.setattr(exactness, "PAGE", page)
    monkeypatch.setattr(exactness, "functions", lambda: ["sin", "tanh", "absolute"])
    assert exactness.main(["--missing", "--only", "s", "--write"]) == 0
    assert list(exactness.table()) == ["sin", "tanh", "absolute"]
    assert exactness.table()["tanh"] == tanh
    assert page.read_text(encoding="utf-8").startswith("before\n")
    assert page.read_text(encoding="utf-8").endswith("after\n")
    assert exactness.main(["--only", "tanh", "--write"]) == 0
    assert exactness.table()["tanh"] != tanh
