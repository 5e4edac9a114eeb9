"""`refnp study`: chapters read from their files, their code from the source, their cells run."""

import io
import re
import sys
import tomllib
from pathlib import Path

import pytest

from refnp import cli, course
from refnp.course import formulas, myst
from refnp.course.myst import Cells, included, sections_of
from refnp.course.statements import Statements

ROOT = Path(__file__).parents[2]
HEADINGS = ["Why", "The equation", "The whole code", "A worked example"]
SOURCE = """import numpy as np


@np.errstate(over="ignore")
def softmax(x):
    e = np.exp(x)
    total = e.sum()
    p = e / total
    return p


class Norm:
    def __call__(self, x):
        return x
"""
SMALL = """---
kernelspec: {display_name: Python 3}
---

# A *small* idea

[Row 1](../equations.md) of the equations.

## Why

Because $x$.

```{code-cell} python
:tags: [hide-input]
:mystnb: {image: {alt: "Two stripes."}}
a = 2
print("not shown")
```

## The equation

$$
y = x
$$

| symbol | what |
|---|---|
| x | a number |

## The gradient, step by step

::::{grid} 1 1 2 2
:::{grid-item}
**1.** A step.
:::
:::{grid-item}
```{literalinclude} ../../refnp/layers/page.py
:pyobject: softmax
:start-at: "total = e"
:end-at: "p = e"
:dedent:
```
:::
::::

## The whole code

{source}`refnp/layers/page.py#softmax` and {source}`the test <tests/layers/test_softmax.py#x>`.

```{literalinclude} ../../refnp/layers/page.py
:pyobject: Norm
```

## A worked example

```{code-cell} python
print("twice:", a * 2)
a + 1
```

## Exercises

:::{dropdown} Solution
It is *folded*.
:::

```{code-cell} python
:tags: [hide-cell]
assert a == 2
```
"""


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A package with one page, whose code chapters include."""
    page = tmp_path / "refnp" / "layers" / "page.py"
    page.parent.mkdir(parents=True)
    page.write_text(SOURCE, encoding="utf-8")
    monkeypatch.setattr(myst, "PACKAGE", tmp_path / "refnp")
    return "../../refnp/layers/page.py"


@pytest.fixture
def folder(source, tmp_path, monkeypatch):
    (tmp_path / "small.md").write_text(SMALL, encoding="utf-8")
    (tmp_path / "other.md").write_text("# Another\n", encoding="utf-8")
    (tmp_path / "index.md").write_text("# Course\n\n```{toctree}\nsmall\nother\nmissing\n```\n", encoding="utf-8")
    monkeypatch.setattr(course, "FOLDERS", (tmp_path / "no", tmp_path))
    return tmp_path


# ---- the command


def test_chapters_are_listed_in_the_order_of_the_course(folder, capsys):
    assert cli.main(["study"]) == 0
    assert capsys.readouterr().out.split("\n")[:3] == [
        "chapters, in the order of the course:",
        "  small  A *small* idea",
        "  other  Another",
    ]


def test_a_chapter_is_shown_without_solutions(folder, capsys):
    assert cli.main(["study", "small"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("A small idea\n============\n\nRow 1 of the equations.\n\nWhy\n")
    assert "    y = x\n" in shown
    assert "symbol  what\nx       a number\n" in shown
    assert (
        "  refnp/layers/page.py Norm:\n    class Norm:\n        def __call__(self, x):\n            return x\n" in shown
    )
    assert "  | twice: 4\n  | 3\n" in shown
    assert "[Two stripes.]\n\n  | not shown\n" in shown, "a picture is its words, and what its cell printed"
    assert '    a = 2\n\n    print("twice:", a * 2)\n' in shown, "what the example needs of the cell that is hidden"
    for absent in ("folded", "assert", "**"):
        assert absent not in shown
    assert "Solutions are shown with --solutions.\n" in shown


def test_sections_and_solutions_can_be_asked_for(folder, capsys):
    assert cli.main(["study", "small", "--section", "GRADIENT", "--section", "why"]) == 0
    shown = capsys.readouterr().out
    assert "  refnp/layers/page.py softmax:\n    total = e.sum()\n    p = e / total\n" in shown
    assert "  | not shown\n" in shown
    assert "twice" not in shown
    assert cli.main(["study", "small", "--solutions"]) == 0
    shown = capsys.readouterr().out
    assert "--solutions" not in shown
    for part in (
        "Because x.",
        "1. A step.",
        "twice: 4",
        "Solution",
        "It is folded.",
        "    assert a == 2\n",
        "`tests/layers/test_so",
    ):
        assert part in shown


def test_names_that_there_are_not_name_the_nearest(folder, capsys):
    assert cli.main(["study", "smal"]) == cli.WRONG
    assert "there is no chapter 'smal'; did you mean 'small'?" in capsys.readouterr().err
    assert cli.main(["study", "small", "--section", "history"]) == cli.WRONG
    assert "small has no section 'history'; its sections are Why, The equation," in capsys.readouterr().err


def test_a_cell_that_fails_makes_status_1(folder, capsys):
    text = SMALL.replace("a + 1", "assert a == 3, 'a is 2'")
    (folder / "small.md").write_text(text, encoding="utf-8")
    assert cli.main(["study", "small"]) == cli.BROKEN
    assert "  | twice: 4\n  | AssertionError: a is 2\n" in capsys.readouterr().out


def test_cells_do_not_change_how_numbers_are_printed_afterwards(folder, capsys):
    import numpy as np

    before = np.get_printoptions()
    text = SMALL.replace("a + 1", "import numpy as np; np.set_printoptions(precision=1)")
    (folder / "small.md").write_text(text, encoding="utf-8")
    cli.main(["study", "small"])
    assert np.get_printoptions() == before


def test_on_a_terminal_it_goes_through_the_pager_in_colours(folder, monkeypatch):
    pytest.importorskip("rich")
    pages = []
    monkeypatch.setattr(course.pydoc, "pager", pages.append)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert course.study("small", solutions=True) == 0
    assert course.study("small", plain=True) == 0
    coloured, plain = pages
    assert "\x1b[" in coloured
    assert "twice: 4" in coloured
    assert "\x1b[" not in plain


def test_a_star_of_a_formula_is_no_emphasis(monkeypatch):
    """In colours Markdown is read once more: p_* and q_* there would lose their stars."""
    pytest.importorskip("rich")
    pytest.importorskip("pylatexenc")
    for page in (course._Coloured(100), course._Plain(100)):
        page.block(
            myst.Block("text", "A *word*, $p_* q_*$ and $w^*$; `a * b * c`.\n\n| s |\n|---|\n| $\\lvert x \\rvert$ |"),
            "",
        )
        shown = re.sub(r"\x1b\[[0-9;]*m", "", page.text())
        assert "A word, p_∗ q_∗ and w∗; " in shown
        assert "a * b * c" in shown


def test_the_help_lists_the_chapters(folder, capsys):
    assert cli.main(["study", "--help"]) == 0
    assert "small  A *small* idea" in capsys.readouterr().out


def test_chapters_are_data_of_the_package():
    """Where it is installed they are in refnp/course/chapters; in a checkout docs/course has them."""
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    assert targets["wheel"]["force-include"] == {"docs/course": "refnp/course/chapters"}
    assert course.FOLDERS == (ROOT / "refnp/course/chapters", ROOT / "docs/course")


def test_without_chapters_it_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(course, "FOLDERS", (tmp_path / "no",))
    assert cli.main(["study"]) == cli.WRONG
    assert "the chapters are not there" in capsys.readouterr().err


# ---- chapters


@pytest.mark.parametrize("name", course.chapters())
def test_every_chapter_of_the_course_can_be_read(name):
    """Its headings, and all code that it shows, which is found in the source."""
    sections = sections_of(course.chapter(name).read_text(encoding="utf-8"))
    titles = [section.title for section in sections]
    assert [title for title in titles if title in HEADINGS] == [t for t in titles if t in HEADINGS]
    assert set(HEADINGS) <= set(titles)
    kinds = [block.kind for section in sections for block in section.blocks]
    assert {"text", "formula", "code", "cell"} == set(kinds)
    assert not any("```" in block.content for section in sections for block in section.blocks if block.kind == "text")


def test_included_code_is_what_the_options_say(source):
    whole = included(source, {"pyobject": "softmax"}).content.split("\n")
    assert whole[:2] == ['@np.errstate(over="ignore")', "def softmax(x):"]
    assert whole[-1] == "    return p"
    at = {"pyobject": "softmax", "start-at": "np.exp(", "end-at": "p = e"}
    lines = ["e = np.exp(x)", "total = e.sum()", "p = e / total"]
    assert included(source, at).content == "\n".join("    " + line for line in lines)
    assert included(source, at | {"dedent": ""}).content == "\n".join(lines)
    inside = {"pyobject": "softmax", "start-after": "np.exp(", "end-before": "p = e", "dedent": ""}
    assert included(source, inside).content == lines[1]
    same = {"pyobject": "softmax", "start-at": "p = e", "end-at": "p = e", "dedent": ""}
    assert included(source, same).content == lines[2]
    method = included(source, {"pyobject": "Norm.__call__", "dedent": ""})
    assert method[:3] == ("code", "def __call__(self, x):\n    return x", "refnp/layers/page.py Norm.__call__")
    assert included(source, {}).content == SOURCE.rstrip("\n")


def test_code_that_is_gone_is_an_error(source):
    with pytest.raises(ValueError, match=r"page\.py has no hardmax, which the chapter shows"):
        included(source, {"pyobject": "hardmax"})
    with pytest.raises(ValueError, match=r"'abc', which the chapter shows, is no longer in refnp/layers/page\.py"):
        included(source, {"pyobject": "softmax", "start-at": "abc"})
    with pytest.raises(ValueError, match="a code-cell of the chapter is not closed by ```"):
        sections_of("# A\n```{code-cell} python\na = 1\n")


def test_files_that_are_not_installed_are_named(monkeypatch):
    monkeypatch.setattr(myst, "PACKAGE", Path("/nowhere/refnp"))
    block = included("../../tests/transcriptions/rows.py", {"pyobject": "softmax"})
    assert block[:2] == ("text", "(tests/transcriptions/rows.py stands in the repository)")


# ---- cells


def test_cells_share_their_names_and_print_as_a_notebook_does():
    cells = Cells()
    assert cells.run("x = 3\nx") == "3"
    assert cells.run("print(x)\nx + 1\nx + 2") == "3\n5"
    assert cells.run("x = 4") == ""
    assert not cells.failed
    assert cells.run("print(1)\n1 / 0\nprint(2)") == "1\nZeroDivisionError: division by zero"
    assert cells.run("undefined") == "NameError: name 'undefined' is not defined"
    assert cells.run("import no_such_package") == "ModuleNotFoundError: No module named 'no_such_package'"
    assert cells.failed


def test_pictures_are_counted():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    cells = Cells()
    assert cells.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()") == "[a picture, on the site]"
    assert cells.run("for _ in range(2): plt.figure()") == "[a picture, on the site]\n[a picture, on the site]"
    assert pyplot.get_fignums() == []


def test_pictures_are_written_into_a_folder(folder, tmp_path, capsys):
    pytest.importorskip("matplotlib.pyplot")
    drawn = SMALL.replace("a = 2\n", "a = 2\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\n")
    (folder / "small.md").write_text(drawn, encoding="utf-8")
    assert cli.main(["study", "small", "--pictures", str(tmp_path / "new")]) == 0
    file = tmp_path / "new" / "small-1.png"
    assert f"[a picture: {file}]" in capsys.readouterr().out
    assert file.read_bytes().startswith(b"\x89PNG")


# ---- what is copied from a page


HIDDEN = """import numpy as np
size = 3
def double(x):
    return size * x / halves() / 3
def halves():
    return 0.5
@staticmethod
def other(x):
    return unknown(x)
np.set_printoptions(precision=2)
values = [1.0]
values[0] = 4.0
values.append(7.0)
lonely = 5
"""


def test_a_cell_is_preceded_by_the_statements_that_it_needs():
    """Names bound, names that those need, and changes of their objects; each once, and nothing else."""
    hidden = Statements()
    hidden.add(HIDDEN)
    first = hidden.needed("y = double(4)")
    assert first == "size = 3\ndef double(x):\n    return size * x / halves() / 3\ndef halves():\n    return 0.5"
    assert hidden.needed("print(double(size), y)") == ""
    names = {}
    exec(hidden.needed("assert values[0] + values[1] == 11"), names)
    assert names["values"] == [4.0, 7.0]
    assert hidden.needed("np.ones(3)") == "import numpy as np\nnp.set_printoptions(precision=2)"
    assert hidden.needed("lonely = 6\nlonely") == hidden.needed("lonely") == "", "a name that the cell binds itself"
    assert hidden.needed("other") == "@staticmethod\ndef other(x):\n    return unknown(x)"
    hidden.add("size = 4")
    assert hidden.needed("double(4)") == "", "what a function used when it was shown"
    assert hidden.needed("size") == "size = 4", "bound again where it is not seen"


# ---- prose


REMAINS = {
    "a command of LaTeX": r"\\[a-zA-Z]+",
    "a dollar": r"\$",
    "a star of emphasis": r"(?<![\w\s)(])\*|\*\*|(?<!\S)\*(?=\w)",
    "a picture's mark": r"!\[|(?m:^!\w)|\]\(",
    "a fence": r":::|```",
    "a role": r"\{[a-z:-]+\}`",
    "a mark of places": "[\ue000-\ue003]",
    "a superscript star": r"\^[*∗]",
}


@pytest.mark.parametrize("name", course.chapters())
def test_no_mark_of_the_files_form_remains_in_the_prose(name):
    pytest.importorskip("pylatexenc")
    page = course._Plain(100)
    for section in sections_of(course.chapter(name).read_text(encoding="utf-8")):
        page.heading(section.title, 2)
        for block in section.blocks:
            if block.kind in ("text", "formula"):
                page.block(block, "")
    shown = re.sub(r"`[^`]*`", "", page.text())
    for what, pattern in REMAINS.items():
        assert not (found := re.search(f".*(?:{pattern}).*", shown)), f"{what}: {found[0]}"


@pytest.mark.parametrize("name", course.chapters())
def test_a_table_has_as_many_columns_as_its_head(name):
    """A stroke of a formula, |x|, is no border."""
    pytest.importorskip("pylatexenc")
    for section in sections_of(course.chapter(name).read_text(encoding="utf-8")):
        for block in section.blocks:
            for table in re.findall(r"(?:^\|.*\n?)+", block.content if block.kind == "text" else "", re.M):
                counts = [
                    len(course._cells(line)) for line in course._inline(table, formulas.readable).split("\n") if line
                ]
                assert len(set(counts)) == 1, table


def test_without_matplotlib_the_rest_of_a_cell_runs(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    cells = Cells()
    shown = cells.run("import matplotlib.pyplot as plt\nimport math\nplt.plot([1])\nprint(math.floor(2.5))")
    assert shown == "2\n[needs matplotlib: python -m pip install 'refnp[study]']"
    assert not cells.failed
    assert cells.run("math.floor(3.5)") == "3"


# ---- formulas

LATEX = [
    (r"p_i = \frac{e^{x_i}}{\sum_j e^{x_j}}", "pᵢ = e^(xᵢ)/(∑ⱼ e^(xⱼ))"),
    (r"\bar x_i = p_i \left(\bar p_i - \sum_{j} \bar p_j p_j\right)", "x̄ᵢ = pᵢ (p̄ᵢ − ∑ⱼ p̄ⱼ pⱼ)"),
    (r"\frac{\partial p_i}{\partial x_j}", "∂pᵢ/∂xⱼ"),
    (r"\frac{a + b}{2 N^2}", "(a + b)/(2 N²)"),
    (r"\frac{1}{2N^2}", "1/(2N²)"),
    (r"\tfrac12 x", "½ x"),
    (r"\hat x = \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}}", "x̂ = (x − μ)/(√(σ² + ε))"),
    (r"x \in \mathbb{R}^{B \times N}", "x ∈ ℝ^(B × N)"),
    (r"\operatorname{diag}(p) - p\,p^\top", "diag(p) − p pᵀ"),
    (r"a \log x + \exp(x)", "a log x + exp(x)"),
    (r"\begin{pmatrix} \cos s & -\sin s \\ 3 & 4 \end{pmatrix}", "[cos s, −sin s; 3, 4]"),
    (r"p(y \mid x)", "p(y | x)"),
    (r"p(y\mid x)", "p(y | x)"),
    (r"w^* + w_* * k", "w∗ + w_∗ ∗ k"),
    (r"\big( x \!+ y \big)^{\!\top}", "(x + y)ᵀ"),
    (r"\begin{aligned} a &= b \\ &= c \end{aligned}", "a = b\n= c"),
    (r"\begin{cases} x & \text{if seen} \\ 0 & \text{else} \end{cases}", "{ x, if seen; 0, else"),
    (r"\underbrace{a + b}_{\text{both}}", "a + b [both]"),
    (r"w_{oct} x_{k+1}^2", "w_oct xₖ₊₁²"),
    (r"\lvert x \rvert \ne \lfloor p \rfloor", "|x| ≠ ⌊p⌋"),
    (r"\text{up-sampling}", "up-sampling"),
    (r"e^{-x}", "e⁻ˣ"),
    (r"a \bmod b + \unheardof", "a mod b + unheardof"),
]


@pytest.mark.parametrize(("latex", "text"), LATEX)
def test_formulas_become_unicode(latex, text):
    pytest.importorskip("pylatexenc")
    import unicodedata

    assert formulas.readable(latex) == unicodedata.normalize("NFC", text)


def test_no_formula_of_the_course_keeps_a_command():
    pytest.importorskip("pylatexenc")
    for name in course.chapters():
        for section in sections_of(course.chapter(name).read_text(encoding="utf-8")):
            for block in section.blocks:
                if block.kind == "formula":
                    assert "\\" not in formulas.readable(block.content), (name, block.content)


def test_without_pylatexenc_formulas_stay(monkeypatch):
    monkeypatch.setattr(formulas.importlib.util, "find_spec", lambda name: None)
    assert formulas.readable(r" \frac{a}{b} ") == r"\frac{a}{b}"


def test_without_pylatexenc_it_says_what_would_show_unicode(folder, monkeypatch, capsys):
    monkeypatch.setattr(course.importlib.util, "find_spec", lambda name: None)
    assert cli.main(["study", "small"]) == 0
    assert "python -m pip install 'refnp[study]'" in capsys.readouterr().err


def test_brackets_of_fractions_keep_the_value():
    """Of random fractions of sums, products and powers: what is written, read as Python, has the same value."""
    pytest.importorskip("pylatexenc")
    import random

    def drawn(depth):
        kind = random.choice("abcd" if depth else "a")
        if kind == "a":
            number = str(random.randint(1, 9))
            return number, number
        (x, p), (y, q) = drawn(depth - 1), drawn(depth - 1)
        if kind == "b":
            return rf"\frac{{{x}}}{{{y}}}", f"(({p})/({q}))"
        if kind == "c":
            return f"({x} + {y})", f"({p}+{q})"
        return rf"{x} \cdot {y}", f"({p})*({q})"

    random.seed(0)
    for _ in range(200):
        latex, python = drawn(3)
        text = formulas.readable(latex).replace("·", "*").replace("½", "(1/2)")
        for fraction, value in (("⅓", "(1/3)"), ("¼", "(1/4)"), ("¾", "(3/4)")):
            text = text.replace(fraction, value)
        assert eval(text) == pytest.approx(eval(python), rel=1e-12), latex


def test_the_stream_may_be_anything(folder, monkeypatch):
    written = io.StringIO()
    monkeypatch.setattr(sys, "stdout", written)
    assert course.study("small") == 0
    assert "twice: 4" in written.getvalue()
