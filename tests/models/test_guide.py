"""The script of the page about ConvCNP prints the figures that stand there."""

import contextlib
import io
import pathlib
import re

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "convcnp.md"


def test_convcnp():
    """The table of shifts: 4, 1000 and 2²⁰ in one row, then ½, a place and half a place."""
    text, printed = PAGE.read_text(encoding="utf-8"), io.StringIO()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "convcnp.md", "exec"), {})
    (table,) = re.findall(r"\| shift \|.*\n\|[-|]+\n((?:\|.*\n)+)", text)
    stated = [[float(cell) for cell in row.split("|")[2:4]] for row in table.splitlines()]
    found = [float(line.split()[-1]) for line in printed.getvalue().splitlines()]
    for column, differences in enumerate((found[:6], found[6:])):
        whole, expected = stated[0][column], [row[column] for row in stated[1:]]
        assert differences == [whole] * 3 + expected
