"""What is printed of a page is what it computes: the formula is read as a reader does, and computed in numbers."""

import inspect
import re
import sys

import numpy as np
import pytest

from refnp import layers
from refnp.formulas import chapters
from refnp.formulas.formula import formula
from refnp.formulas.lines import run_lines
from refnp.formulas.writing import LETTERS
from refnp.numbers.indexed.sizes import length_at
from refnp.verify.theorems import numbers_of
from tests.formulas.reading import Reader, computed

PAGES = [name for name in sorted(layers.__all__) if hasattr(getattr(layers, name), "page")]
NOT_READ = {  # what stands at places, and axes of two letters, which the reader does not know
    "adaptive_average_pool",
    "adaptive_max_pool",
    "average_pool",
    "convolution",
    "convolution_transpose",
    "cross_entropy",
    "group_norm",
    "instance_norm",
    "max_pool",
    "upsample",
}


@pytest.mark.parametrize("name", [name for name in PAGES if name not in NOT_READ])
def test_the_formula_is_what_the_page_computes(name):
    operation = getattr(layers, name)
    of = formula(operation)
    form, seed = of.run.form, 3
    arguments, options = numbers_of(form, seed, longest=3, least=2)
    arrays = arguments | {k: x for k, x in options.items() if isinstance(x, float)}
    sizes = sizes_of(form, arguments, options)
    results, _ = operation.page(*arguments.values(), **options)
    several = results if isinstance(results, tuple) else (results,)
    for found, y in zip(computed(of, arrays, sizes), several, strict=True):
        np.testing.assert_allclose(found.reshape(y.shape), y, rtol=1e-12, atol=1e-13)


def sizes_of(form, arguments, options):
    """The number that each letter is."""
    known = {name: value for name, value in options.items() if isinstance(value, int)}
    for name, x in form.arguments.items():
        for n, length in zip(x.shape if x is not None else (), np.shape(arguments[name]), strict=False):
            known[str(n)] = length
    return lambda n: length_at(n, known.__getitem__)


# ---- beside the equations of docstrings

SUBSCRIPTS = {"ᵢ": "_i", "ⱼ": "_j", "ₖ": "_k", "σ²": "v", "σ_y²": "v"}  # the variance is a name of its own
READ = {"layer_norm", "softmax"}  # whose docstring has an equation with indices


def parameters_of(name):
    """The names of what a function takes."""
    return inspect.signature(getattr(layers, name)).parameters


def equations_of(operation):
    """The equations with indices that stand in the docstrings of a page and its file: left sides and right sides."""
    text = f"{inspect.getdoc(operation)}\n{sys.modules[operation.__module__].__doc__}"
    for old, new in SUBSCRIPTS.items():
        text = text.replace(old, new)
    parts = [part.strip(" ,.") for line in text.splitlines() for part in re.split(r"   +|,  ", line)]
    parts = [part for part in parts if not re.search(r"[a-z]{5,}", part)]  # words
    return [part for part in parts if re.fullmatch(r"[^\W\d_][\u0302\u0304]?(?:_\w)? = [^`,]*", part)]


def read(operation):
    """What the docstring's equations give for the first row of a batch, and what the page gives; None if unreadable."""
    of = formula(operation)
    arguments, options = numbers_of(of.run.form, 5, longest=3, least=2)
    (name, _), *_ = of.results
    letter = of.letters.get(name, name)
    rows = {k: x[0] if str(of.shapes[k][0]) == "B" else x for k, x in arguments.items() if x is not None}
    rows |= {k: np.asarray(x) for k, x in options.items() if isinstance(x, float)}
    given = {of.letters.get(k, k): x for k, x in rows.items()}
    lengths = {k: list(x.shape) for k, x in given.items()}
    size = sizes_of(of.run.form, arguments, options)
    sizes = {str(n): size(n) for shape in of.shapes.values() for n in shape if not isinstance(n, int)}
    reader = Reader("\n".join(equations_of(operation)), given, sizes, lengths)
    if letter not in reader.equations:
        return None
    try:
        found = np.array([reader.value(letter, [k]) for k in range(np.shape(rows["x"])[-1])])
    except (AssertionError, KeyError, ValueError, IndexError, TypeError):
        return None
    return found, operation.page(*arguments.values(), **options)[0][0]


@pytest.mark.parametrize("name", [name for name in PAGES if name not in NOT_READ and "x" in parameters_of(name)])
def test_the_formula_is_the_equation_of_the_docstring_where_that_can_be_read(name):
    found = read(getattr(layers, name))
    assert (found is not None) == (name in READ)
    if found is not None:
        np.testing.assert_allclose(*found, rtol=1e-12, atol=1e-13)


# ---- in chapters


@pytest.mark.parametrize("path", sorted(chapters.COURSE.glob("*.md")), ids=lambda path: path.stem)
def test_the_formulas_of_a_chapter_are_those_of_its_pages(path):
    text = path.read_text(encoding="utf-8")
    assert chapters.brought_up_to_date(text) == text, "python -m refnp.formulas.chapters --write"


def test_pages_without_a_formula_lack_the_rule_that_is_said():
    shown = {}
    for path in chapters.COURSE.glob("*.md"):
        shown |= {name: page for name, page, _ in chapters.pages_of(path.read_text(encoding="utf-8"))}
    for name, rule in chapters.WITHOUT.items():
        with pytest.raises(TypeError, match=re.escape(rule)):
            formula(shown[name])


def test_a_letter_is_that_of_the_conventions():
    page = (chapters.COURSE.parent / "conventions.md").read_text(encoding="utf-8")
    table = page.partition("## Letters of formulas")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|$", table, re.M))
    assert rows == LETTERS


@pytest.mark.parametrize(("name", "results"), [("softmax", ["p"]), ("attention_with_weights", ["output", "used"])])
def test_results_have_the_names_of_the_page(name, results):
    assert list(run_lines(getattr(layers, name)).results) == results
