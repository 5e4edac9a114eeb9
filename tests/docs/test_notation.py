"""The Unicode notation of docstrings becomes LaTeX where it is sure, and stays text elsewhere."""

import functools
import re

import pytest

from docs.site import api, notation

SURE = [
    ("y = x σ(x)", r"y = x \, \sigma (x)"),
    ("½ z²", r"\tfrac12 \, z^{2}"),
    ("x̄ = ȳ/s", r"\bar{x} = \frac{\bar{y}}{s}"),
    ("(x − μ)/√(σ² + ε)", r"\frac{x - \mu}{\sqrt{\sigma^{2} + \varepsilon}}"),
    ("Σ_{c,t} w[o,c,t]", r"\sum_{c , t} \, w [o , c , t]"),
    ("e^(−x)", r"e^{- x}"),
    ("L⁻¹ (y − μ)", r"L^{- 1} \, (y - \mu)"),
    ("softmax(Q Kᵀ / √d) V", r"\operatorname{softmax} (Q \, K^{\top} / \sqrt{d}) \, V"),
    ("μ̄_c = −Σ_bl x̄", r"\bar{\mu}_{c} = - \sum_{b l} \, \bar{x}"),
    ("(σ²)̄_c", r"\overline{(\sigma^{2})}_{c}"),
    ("∂y_i/∂x_j", None),
    ("1e-3", r"1 \cdot 10^{-3}"),
]
UNSURE = ["σ √2π", "running mean r", "x = table[h]", "f(x", "x +", "a // b", "= = x", "μ_#", "y = `slope` x", ""]


@pytest.mark.parametrize(("text", "expected"), SURE)
def test_what_is_sure(text, expected):
    made = notation.latex(text)
    assert expected is None or made == expected


@pytest.mark.parametrize("text", UNSURE)
def test_what_is_not_sure(text):
    with pytest.raises(ValueError, match=r"not sure|no formula"):
        notation.latex(text)


def test_a_fraction_needs_single_factors_that_touch():
    """2/3x may be two thirds of x or 2/(3x), and a / b c may be either too: there the stroke stays."""
    assert notation.latex("a/b") == r"\frac{a}{b}"
    assert notation.latex("2/3x") == "2 / 3 x"
    assert notation.latex("a / b c") == r"a / b \, c"
    assert notation.latex("a/b/c") == "a / b / c", "(a/b)/c"
    assert notation.latex("(a + b)/(c)(d)").count(r"\frac") == 0


def test_formulas_among_words():
    found = notation.pieces("y = x for x > 0, else α (eˣ − 1), a scale; see N")
    assert [kind for kind, _ in found] == ["formula", "words", "formula", "words", "formula", "words"]
    assert [piece for kind, piece in found if kind == "words"] == [" for ", ", else ", ", a scale; see N"]
    assert notation.pieces("with a σ of") == [("words", "with a "), ("formula", r"\sigma"), ("words", " of")]
    assert notation.pieces("I am a sentence.") == [("words", "I am a sentence.")]


def test_columns_of_a_line():
    columns = notation.line("    A = Q Kᵀ        O = A V      the output")
    assert [column[0][0] for column in columns] == ["formula", "formula", "words"]
    assert notation.line("    only words here") is None
    assert notation.line("") is None


@functools.cache
def blocks():
    """The lines of equations of the API, which are the indented lines of docstrings."""
    found = []
    for text in api.pages().values():
        for title, block in re.findall(r"(^#+ [^\n]*\n\n)?^```text\n(.*?)^```$", text, re.M | re.S):
            if not title:
                found += (line for line in block.splitlines() if "=" in line and not re.search(r"[`\"#]", line))
    return found


def test_most_equations_of_the_api_are_typeset():
    """Of the lines with an equals sign; the rest are programs, settings and equations with words in them."""
    found = [notation.line(line) is not None for line in blocks()]
    assert len(found) > 100
    assert sum(found) / len(found) > 0.7


def test_every_equation_of_the_api_becomes_mathml():
    math_core = pytest.importorskip("math_core")
    convert = math_core.LatexToMathML().convert_with_local_state
    for line in blocks():
        for column in notation.line(line) or ():
            for kind, piece in column:
                if kind == "formula":
                    assert "<math" in convert(piece, displaystyle=False)
