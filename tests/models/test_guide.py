"""The scripts of the pages about models print what stands there."""

import contextlib
import io
import pathlib
import re

import pytest

GUIDE = pathlib.Path(__file__).parents[2] / "docs"


def printed(page):
    """The text of a page, and what its script prints."""
    text = (GUIDE / page).read_text(encoding="utf-8")
    (code,) = (code for code in re.findall(r"```python\n(.*?)```", text, re.S) if code.startswith("import numpy"))
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, page, "exec"), {})
    return text, output.getvalue()


def test_transformer_neural_processes():
    text, output = printed("tnp.md")
    assert f"```text\n{output}```" in text


@pytest.mark.parametrize("page", ["loading.md", "transformer.md"])
def test_each_script_is_followed_by_what_it_prints(page):
    text = (GUIDE / page).read_text(encoding="utf-8")
    pairs = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.S)
    assert len(pairs) == text.count("```python") >= 2
    for code, expected in pairs:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(code, page, "exec"), {})
        assert output.getvalue() == expected


def test_convcnp():
    """The table of shifts: 4, 1000 and 2²⁰ in one row, then ½, a place and half a place."""
    text, output = printed("convcnp.md")
    (table,) = re.findall(r"\| shift \|.*\n\|[-|]+\n((?:\|.*\n)+)", text)
    stated = [[float(cell) for cell in row.split("|")[2:4]] for row in table.splitlines()]
    found = [float(line.split()[-1]) for line in output.splitlines()]
    for column, differences in enumerate((found[:6], found[6:])):
        whole, expected = stated[0][column], [row[column] for row in stated[1:]]
        assert differences == [whole] * 3 + expected
