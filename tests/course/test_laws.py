"""What holds in every chapter: of the letters of its formulas, of its cells and of its solutions."""

import ast
import contextlib
import copy
import functools
import io
import re

import numpy as np
import pytest

from docs.site import chapters
from refnp import course
from refnp.course.myst import Cells, sections_of
from refnp.formulas import chapters as printed

CHAPTERS = chapters.names()
GREEK = """alpha beta gamma delta epsilon varepsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi varphi
chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega ell"""
ACCENTS = {"hat", "tilde", "dot", "vec"}  # with them it is another symbol; a bar is the cotangent of the same
EVERYWHERE = {"d", "e", r"\pi", "i", "j", "k"}  # a differential, Euler's number, π, indices
WORDS = r"\\(?:text|operatorname|mathrm|mathsf|mathtt|textbf|begin|end|tag)\*?\{[^{}]*\}"
TOKEN = re.compile(
    rf"\\(?P<accent>{'|'.join(ACCENTS)})(?![a-zA-Z])\s*\{{?\s*(?P<under>\\?[a-zA-Z]+?(?![a-zA-Z])|[a-zA-Z])"
    rf"|\\(?P<style>mathcal|mathbf|mathbb|boldsymbol)\s*\{{?\s*(?P<styled>[a-zA-Z0-9])"
    rf"|\\(?P<greek>{'|'.join(GREEK.split())})(?![a-zA-Z])|\\[a-zA-Z]+|O(?=\()|(?P<letter>[a-zA-Z])"
)


every_chapter = pytest.mark.parametrize("chapter", CHAPTERS)


# ---- letters


def letters(latex):
    """The letters of a formula, those with a hat or a style as others: {"x", "\\hat x", "\\mathcal N"}."""
    found = set()
    for token in TOKEN.finditer(re.sub(WORDS, " ", latex)):
        if token["accent"]:
            found.add(rf"\{token['accent']} {token['under']}")
        elif token["style"] and token["style"] != "mathbb":
            found.add(rf"\{token['style']} {token['styled']}")
        elif token["greek"]:
            found.add(rf"\{token['greek']}")
        elif token["letter"]:
            found.add(token["letter"])
    return found


def symbol_rows(text):
    """(The rows of a chapter's tables of symbols, the text without these tables)."""
    table = re.compile(r"^\| symbol \|.*\n\|[-| :]*\n((?:\|.*\n)+)", re.M)
    return [line for found in table.findall(text) for line in found.splitlines()], table.sub("", text)


def symbols(row):
    """The symbols that a row explains, those of its first cell, without indices: v_k of all k is v."""
    found = [" ".join(latex.split()) for latex in re.findall(r"\$([^$]+)\$", row.split("|")[1])]
    return [re.sub(r"_(?:[ijkmnt]|\{[ijkmnt]+\})$", "", symbol) for symbol in found]


def trouble_with_letters(text):
    """What is wrong with the table of symbols of a chapter's text, as sentences.

    Formulas that are printed from pages have the letters of docs/conventions.md, to which they lead.
    """
    rows, rest = symbol_rows(printed.BLOCK.sub("", text))
    listed = [symbol for row in rows for symbol in symbols(row)]
    first = {letter for symbol in listed for letter in letters(symbol)}
    declared = {letter for row in rows for latex in re.findall(r"\$([^$]+)\$", row) for letter in letters(latex)}
    used = {letter for latex, _ in chapters.formulas(rest) for letter in letters(latex)}
    found = [f"{letter} is in no row of the table of symbols" for letter in sorted(used - declared - EVERYWHERE)]
    found += [f"{letter} is in the table and in no formula" for letter in sorted(first - used)]
    found += [f"{symbol} is in two rows" for symbol in sorted({s for s in listed if listed.count(s) > 1})]
    if "e" in first:
        powers = [latex for latex, _ in chapters.formulas(rest) if re.search(r"(?<![a-zA-Z\\])e\s*\^", latex)]
        found += [f"e is in the table and also Euler's number: {latex}" for latex in powers]
    return found


@every_chapter
def test_every_letter_of_a_formula_is_in_the_table_of_symbols_and_none_in_two_rows(chapter):
    assert trouble_with_letters(chapters.text(chapter)) == []


SMALL = r"""
$$
\bar x = \hat y^\top e^{x} + \frac{d\mu}{dx} \qquad \text{for all}
$$

| symbol | shape | what it is |
|---|---|---|
| $x$, $\bar x$ | | a number |
| $\hat y$, $\mu$ | | others |

"""


@pytest.mark.parametrize(
    ("change", "trouble"),
    [
        (("", ""), []),
        ((r"\hat y^", "y^"), ["y is in no row of the table of symbols", r"\hat y is in the table and in no formula"]),
        ((r"d\mu", r"d\nu"), [r"\nu is in no row of the table of symbols", r"\mu is in the table and in no formula"]),
        (("| $x$, ", "| $x$ | | a number |\n| $x$ | | another |\n| "), ["x is in two rows"]),
        (("| $x$, ", "| $x_i$ | | a number |\n| $x$ | | another |\n| "), ["x is in two rows"]),
        (("| $x$, ", "| $x$, $e$, "), ["e is in the table and also Euler's number"]),
    ],
)
def test_a_letter_without_a_row_or_with_two_is_found(change, trouble):
    found = trouble_with_letters(SMALL.replace(*change))
    assert len(found) == len(trouble)
    assert all(line.startswith(start) for line, start in zip(found, trouble, strict=True))


# ---- cells


def run(cells, space, name):
    """What cells print, run in a namespace."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    with contextlib.redirect_stdout(io.StringIO()) as printed, np.printoptions(), np.errstate():
        try:
            for number, cell in enumerate(cells):
                exec(compile(cell, f"{name}.md, cell {number}", "exec"), space)
        finally:
            pyplot.close("all")
    return printed.getvalue()


def tagged_cells(text):
    """(Code, whether it is a solution) of a chapter's cells."""
    bodies = [body for _, kind, _, body in chapters.FENCE.findall(text) if kind == "code-cell"]
    return [(chapters.OPTIONS.sub("", body), "hide-cell" in body.split("\n")[0]) for body in bodies]


@functools.cache
def after(chapter):
    """(The names after all cells of a chapter, what they print), with other random numbers than those of the page."""
    made = np.random.default_rng
    space = {"__name__": "__main__"}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            np.random, "default_rng", lambda seed=None: made(seed + 1000 if isinstance(seed, int) else seed)
        )
        return space, run([cell for cell, _ in tagged_cells(chapters.text(chapter))], space, chapter)


@every_chapter
def test_no_assert_depends_on_the_seeds_that_were_chosen(chapter):
    """What a cell asserts of a draw is true of draws, not of one; exercises have at least two tests."""
    exercises = chapters.cells(chapters.sections(chapters.text(chapter))["Exercises"])
    assert sum(cell.count("assert") for cell in exercises) >= 2
    assert after(chapter)[1]


@every_chapter
def test_a_cell_can_be_run_again_after_the_others(chapter):
    """A name has one meaning on a page: else the cell finds another array under it. What `rng` draws is new."""
    space, _ = after(chapter)
    cells = tagged_cells(chapters.text(chapter))
    assert any(is_solution for _, is_solution in cells)
    for cell, is_solution in cells:
        if is_solution:
            assert re.search(r"\brng\b", cell), f"it draws nothing:\n{cell}"
            assert "default_rng" not in cell, f"it draws the same always:\n{cell}"
        run([cell], copy.copy(space), chapter)


def printed_words(cell):
    """The words of a cell's prints, without what is computed in them."""
    for node in ast.walk(ast.parse(cell)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            for argument in node.args:
                parts = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
                yield from (p.value for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str))


class Changed(ast.NodeTransformer):
    """Numbers that a cell types into arrays, up to a third larger."""

    def __init__(self, rng):
        self.rng, self.depth = rng, 0

    def visit_Call(self, node):
        is_array = ast.unparse(node.func) in ("np.array", "np.log", "Number")
        self.depth += is_array
        self.generic_visit(node)
        self.depth -= is_array
        return node

    def visit_Constant(self, node):
        is_number = self.depth and isinstance(node.value, float)
        return ast.Constant(node.value * self.rng.uniform(1, 4 / 3)) if is_number else node


@every_chapter
def test_a_worked_example_holds_for_other_numbers(chapter):
    """Its asserts, whose tolerances must not be those of numbers that are exact in binary."""
    example = chapters.sections(chapters.text(chapter))["A worked example"]
    change, space = Changed(np.random.default_rng(0)), copy.copy(after(chapter)[0])
    run([ast.unparse(change.visit(ast.parse(cell))) for cell, _ in tagged_cells(example)], space, chapter)


@every_chapter
def test_a_picture_of_what_is_random_or_trained_says_so(chapter):
    """Its words, if its cell draws numbers or trains: else a picture of random weights passes for what models do."""
    for _, kind, _, body in chapters.FENCE.findall(chapters.text(chapter)):
        if kind == "code-cell" and "plt.show()" in body and re.search(r"\brng\b|default_rng|\btrain(ed)?\(", body):
            (words,) = re.findall(r'alt: "([^"]*)"', body)
            assert re.search(r"\b(random|draws?|drawn|train\w*|untrained)\b", words), words


@every_chapter
def test_a_number_that_explains_another_is_computed(chapter):
    """Of another input "that is 1/8" would be false, were it typed."""
    for cell, _ in tagged_cells(chapters.text(chapter)):
        for words in printed_words(cell):
            assert not re.search(r"\b(that|right) is\b[^a-z]*\d", words), words


class Copier(course._Plain):
    """A page from which the cells are copied."""

    def __init__(self):
        super().__init__(100)
        self.copied = []

    def block(self, block, output):
        self.copied += [block.content] if block.kind == "cell" else []
        super().block(block, output)


class Idle(Cells):
    def run(self, code):
        return ""


@every_chapter
def test_code_copied_from_a_page_of_the_terminal_runs(chapter):
    """Of the whole page without solutions, and of the example alone."""
    pytest.importorskip("matplotlib")
    found = sections_of(course.chapter(chapter).read_text(encoding="utf-8"))
    for chosen in ({section.title for section in found}, {"A worked example"}):
        page, cells = Copier(), Cells()
        course._write(page, found, chosen, Idle(), solutions=False)
        for code in page.copied:
            shown = cells.run(code)
            assert not cells.failed, shown
