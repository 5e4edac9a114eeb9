"""The chapters of the course: their form, their formulas, links and pictures; tests/course/test_laws.py runs them."""

import inspect
import re

import pytest

from docs.site import build, chapters, sources
from docs.site.formulas import mathml

WRITTEN = sorted(path.stem for path in chapters.COURSE.glob("*.md") if path.stem not in chapters.NO_CHAPTERS)
ORDER = chapters.names()
EQUATIONS = (build.DOCS / "equations.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d+) \| (.*) \|$", EQUATIONS, re.M)


def test_the_index_lists_every_chapter():
    assert sorted(set(WRITTEN) - set(ORDER)) == []
    assert len(set(ORDER)) == len(ORDER)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_chapter_has_the_sections_of_all(name):
    text = chapters.text(name)
    assert text.startswith(chapters.FRONT_MATTER + "\n# ")
    found = list(chapters.sections(text))[1:]
    assert len(found) == len(chapters.SECTIONS)
    for heading, allowed in zip(found, chapters.SECTIONS, strict=True):
        assert heading == allowed or heading in allowed


@pytest.mark.parametrize("name", WRITTEN)
def test_a_chapter_leads_to_its_equation_its_code_and_its_test_in_one_click(name):
    text = chapters.text(name)
    parts = chapters.sections(text)
    assert "](../equations.md)" in parts[""]
    assert any(target.startswith(("refnp/", "gradcheck/")) for target in chapters.links(parts["The whole code"]))
    assert any(
        target.startswith("tests/") and "#test_" in target for target in chapters.links(parts["How it is tested"])
    )


@pytest.mark.parametrize("name", WRITTEN)
def test_the_lines_that_a_chapter_links_to_exist(name):
    for target in chapters.links(chapters.text(name)):
        assert sources.address(target).startswith("_source/")


@pytest.mark.parametrize("name", WRITTEN)
def test_a_chapter_builds_on_those_before_it(name):
    head = chapters.sections(chapters.text(name))[""]
    sentence = re.search(r"Before (?:it|this): (.*?)\.(?:\s|$)", head, re.S)
    before = re.findall(r"\]\((\w+)\.md\)", sentence[1]) if sentence else []
    assert before or name == ORDER[0]
    assert all(ORDER.index(other) < ORDER.index(name) for other in before), before


@pytest.mark.parametrize("name", WRITTEN)
def test_every_formula_becomes_mathml(name):
    pytest.importorskip("math_core")
    found = chapters.formulas(chapters.text(name))
    assert found
    for latex, display in found:
        assert "<math" in mathml(latex, display=display)


@pytest.mark.parametrize("name", WRITTEN)
def test_included_lines_are_there(name):
    """literalinclude takes an object by its name and lines of it by their text; so it cannot show others unnoticed."""
    for _, kind, path, body in chapters.FENCE.findall(chapters.text(name)):
        if kind == "literalinclude":
            options = dict(re.findall(r"^:([\w-]+): *(.*)$", body, re.M))
            assert "lines" not in options, "lines move; give their text"
            file = (chapters.COURSE / path.strip()).resolve().relative_to(build.ROOT.resolve()).as_posix()
            lines = (build.ROOT / file).read_text(encoding="utf-8").splitlines(keepends=True)
            if "pyobject" in options:
                assert options["pyobject"] in sources.names(file)
                lines = inspect.getblock(lines[sources.names(file)[options["pyobject"]] - 1 :])
            for key in ("start-at", "start-after", "end-at", "end-before"):  # each in what the ones before it left
                wanted = options.get(key, "").strip("\"'")
                place = next((i for i, line in enumerate(lines) if wanted in line), None)
                assert place is not None, f"{file}, {options.get('pyobject', 'whole')}: {key} {wanted!r} is not there"
                lines = lines[: place + 1] if key == "end-at" and wanted else lines[place:] if "start" in key else lines


@pytest.mark.parametrize("name", WRITTEN)
def test_a_picture_has_words_for_those_who_cannot_see_it(name):
    pictures = [body for _, kind, _, body in chapters.FENCE.findall(chapters.text(name)) if "plt.show()" in body]
    assert pictures
    for body in pictures:
        assert re.search(r'^:mystnb: \{image: \{alt: "[^"]* [^"]*"\}\}$', body, re.M), body


@pytest.mark.parametrize(("row", "cells"), ROWS, ids=[row for row, _ in ROWS])
def test_an_equation_leads_to_its_chapter_and_that_to_it(row, cells):
    """From the equation's row to its chapter, and from there to a line of the source and to a test."""
    found = re.findall(r"\]\(course/(\w+)\.md\)", cells)
    assert found, "docs/equations.md: this row has no chapter"
    for name in found:
        assert name in WRITTEN
        targets = chapters.links(chapters.text(name))
        assert any(target.startswith(("refnp/", "gradcheck/")) for target in targets)
        assert any(target.startswith("tests/") for target in targets)
        assert all(sources.address(target) for target in targets)
    assert any(int(row) in chapters.rows(chapters.text(name)) for name in found), "no chapter names this row"


def test_there_are_31_rows():
    assert [int(row) for row, _ in ROWS] == list(range(1, 32))
