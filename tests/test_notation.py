"""One notation: every letter of a shape, in comments and docstrings, stands in a table of docs/conventions.md."""

import ast
import pathlib
import re

from tests.helpers import of_every
from tests.shape_comments import _as_expression, comments_of

ROOT = pathlib.Path(__file__).parents[1]
CONVENTIONS = (ROOT / "docs" / "conventions.md").read_text(encoding="utf-8")
PAGES = sorted((ROOT / "refnp").rglob("*.py"))
every_page = of_every(PAGES)


def table(heading):
    """The rows of the table in docs/conventions.md whose head begins with this word."""
    (rows,) = re.findall(rf"^\| {heading} \|.*\n\|[-| ]+\n((?:\|.*\n)*)", CONVENTIONS, re.M)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows.splitlines()]


def letters_everywhere():
    return {letter for row in table("letter") for letter in row[0].split(", ")}


def letters_of(page):
    """The letters of this file alone."""
    path = page.relative_to(ROOT).as_posix()
    rows = [row for row in table("file") if f"`{path}`" in row[0]]
    return {letter for row in rows for letter in re.findall(r"`([\w']+)`", row[1])}


def names_in(item):
    """The letters of one axis that need a table: of "H·D" two; of "2", "*lengths", "n" and "features" none."""
    tree = None if item == "..." or item.startswith("*") else _as_expression(item)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} if tree else set()
    return {re.sub("_$", "'", name) for name in names if name[0].isupper() or name in ("dx", "dy")}


def shapes_of(text, letters):
    """Parentheses that are shapes: several axes, or one with a comma; one is a known letter or "..."."""
    for group in re.findall(r"(?<![\w)\]])\(([^()]*,[^()]*)\)", text):
        items = [item.strip() for item in group.split(",")]
        items = items if items[-1] else items[:-1]
        axes = [item == "..." or item.startswith("*") or _as_expression(item) is not None for item in items]
        if items and all(axes) and (letters | {"..."}) & set(items):
            yield items


def docstrings(page):
    tree = ast.parse(page.read_text(encoding="utf-8"))
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    return "\n\n".join(ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds))


@every_page
def test_letters_of_comments(page):
    known = letters_everywhere() | letters_of(page)
    comments = {comment for found in comments_of(str(page)).values() for comment in found}
    wrong = {
        f"line {comment.line}: {name}"
        for comment in comments
        for shape in comment.shapes
        for item in shape
        for name in names_in(item) - known
    }
    assert sorted(wrong) == []


@every_page
def test_letters_of_docstrings(page):
    known = letters_everywhere() | letters_of(page)
    found = shapes_of(docstrings(page), letters_everywhere())
    assert [f"({', '.join(items)})" for items in found if set().union(*map(names_in, items)) - known] == []


def test_the_table_of_files_is_true():
    """Each file exists, and each of its letters is used in one of the files of the row."""
    for files, letters in table("file"):
        paths = [ROOT / path for path in re.findall(r"`(.*?)`", files)]
        text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
        for letter in re.findall(r"`([\w']+)`", letters):
            assert re.search(rf"[(, *·]{letter}(?![\w'])", text), f"{letter} is not used in {files}"


def test_shapes_are_found_in_sentences():
    text = "Shapes: x (B, N, dx), mask (N,) → (..., D), f(B, N), a point (x, y), N(μ, Σ), (S, 2 dy), (h·d, *lengths)"
    found = list(shapes_of(text, {"B", "N", "D", "S"}))
    assert found == [["B", "N", "dx"], ["N"], ["...", "D"], ["S", "2 dy"]]
    assert names_in("H·D") == {"H", "D"}
    assert names_in("H'") == {"H'"}
    assert names_in("features") == names_in("2") == names_in("*lengths") == names_in("n") == set()
