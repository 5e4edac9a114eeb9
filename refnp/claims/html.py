"""The ledger as one page of HTML that needs nothing beside it: rows to search, counter-examples to unfold, pictures.

A picture shows the discrepancy against the size of a shift, both axes with their numbers; where it is 0 the shift is
exact. Beside it, what refining did.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby

from refnp.claims.decision import Found
from refnp.claims.row import APPROXIMATE, BROKEN, EXACT, EXPECTATIONS, ON_SUBGROUP, UNDECIDED
from refnp.verify.html import document, table_of
from refnp.verify.report import number

COLUMNS = ["subject", "symmetry", "found", "discrepancy", "rounding allows", "pairs", "reason"]
CLASSES = {EXACT: "exact", ON_SUBGROUP: "part", APPROXIMATE: "part", BROKEN: "broken", UNDECIDED: "broken"}
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 460, 170, 62, 28, 12  # of a picture, in pixels
OWN_STYLE = """
.exact td.found { color: #1a7f37 } .part td.found { color: #9a6700 } .wrong { background: var(--deviates) }
svg { background: var(--block); border-radius: 4px } svg text { font: 11px system-ui, sans-serif; fill: var(--text) }
td details pre { max-width: 60rem }
"""


def page(rows: Sequence[tuple[str, Found]], *, title: str, summary: Sequence[str]) -> str:
    """The whole page of (family, row) pairs: the summary, then a table for each family; what is wrong comes first."""
    counts = Counter(one.verdict for _, one in rows)
    verdicts = ", ".join(f"{counts[v]} {v}" for v in (*EXPECTATIONS, UNDECIDED) if counts[v])
    families = [(name, [one for _, one in own]) for name, own in groupby(rows, lambda row: row[0])]
    families.sort(key=lambda family: all(one.right for one in family[1]))
    above = [
        f"<pre>{escape(chr(10).join(summary))}</pre>",
        f"<p>{len(rows)} rows: {escape(verdicts)}. Discrepancies are |f(g·x) − g·f(x)| over the output.</p>",
    ]
    below = [section(name, own) for name, own in families]
    return document(title, above, below, words="ConvCNP translated broken", style=OWN_STYLE)


def section(name: str, rows: Sequence[Found]) -> str:
    """The rows of one family."""
    wrong = sum(not one.right for one in rows)
    told = f", {wrong} not as expected" if wrong else ""
    title = f"<b>{escape(name)}</b> {len(rows)} rows{told}"
    return table_of(name, title, COLUMNS, [*map(line, rows)], is_open=bool(wrong))


def line(one: Found) -> str:
    """One row of the table, with its counter-example, its picture and its remark folded in."""
    verdict = f"{one.verdict}: {one.subgroup}" if one.subgroup else one.verdict
    if not one.right:
        subgroup = f": {one.expected_subgroup}" if one.expected_subgroup else ""
        verdict += f" (expected {one.expected}{subgroup})"
    texts = [one.subject, one.symmetry]
    cells = "".join(f"<td>{escape(text)}</td>" for text in texts) + f'<td class="found">{escape(verdict)}</td>'
    cells += f'<td class="number">{number(one.discrepancy)}</td><td class="number">{number(one.bound)}</td>'
    cells += f'<td class="number">{one.pairs}</td><td>{escape(one.reason)}{"".join(more(one))}</td>'
    return f'<tr class="{CLASSES[one.verdict]}{"" if one.right else " wrong"}">{cells}</tr>'


def more(one: Found) -> list[str]:
    """What stands under the reason: remark, refinement, picture, counter-example in words and as code."""
    parts = [f"<p>{escape(one.remark)}</p>"] if one.remark else []
    if one.levels:
        parts.append(f"<p>{escape(refined(one))}</p>")
    if any(one.shifts.values()):
        parts.append(unfolded("discrepancy against shift", picture(one.shifts), one.verdict == APPROXIMATE))
    if one.counterexample:
        parts.append(unfolded("counter-example", f"<pre>{escape(one.counterexample)}</pre>"))
    if one.code:
        parts.append(unfolded("counter-example as code", f"<pre>{escape(one.code)}</pre>"))
    return parts


def unfolded(title: str, inside: str, is_open: bool = False) -> str:
    """A block behind its title."""
    return f"<details{' open' if is_open else ''}><summary>{escape(title)}</summary>{inside}</details>"


def refined(one: Found) -> str:
    """What refining did, in words: "1/ε: 1e+02 3e-03, 1e+03 3e-04; rate 1"."""
    levels = ", ".join(f"{level:g} → {size:.1e}" for level, size in one.levels.items())
    return f"{one.finer}: {levels}; rate {one.rate:.2g}"


def picture(shifts: Mapping[float, float]) -> str:
    """An SVG of discrepancies against shifts: logarithmic upwards, exact ones on the line at the bottom."""
    positive = [size for size in shifts.values() if 0 < size < math.inf]
    low, high = math.floor(math.log10(min(positive))) - 1, math.ceil(math.log10(max(positive)))
    last = max(map(abs, shifts)) or 1.0
    across = lambda shift: LEFT + (WIDTH - LEFT - 12) * abs(shift) / last

    def upwards(size: float) -> float:
        part = (math.log10(size) - low) / (high - low) if size else 0.0
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * min(1.0, max(0.0, part))

    points = " ".join(f"{across(shift):.1f},{upwards(size):.1f}" for shift, size in shifts.items())
    dots = "".join(
        f'<circle cx="{across(shift):.1f}" cy="{upwards(size):.1f}" r="{2.5 if size else 4}"'
        f' fill="{"#1f77b4" if size else "#1a7f37"}"><title>shift {shift:g}: {number(size)}</title></circle>'
        for shift, size in shifts.items()
    )
    every = max(1, -(-(high - low) // 4))
    ticks = "".join(
        f'<text x="{LEFT - 8}" y="{upwards(10.0**power) + 4:.1f}" text-anchor="end">1e{power}</text>'
        for power in range(high, low, -every)
    )
    ticks += f'<text x="{LEFT - 8}" y="{upwards(0) + 4:.1f}" text-anchor="end">exact</text>'
    numbers = "".join(
        f'<text x="{across(last * i / 5):.1f}" y="{HEIGHT - 8}" text-anchor="middle">{last * i / 5:g}</text>'
        for i in range(6)
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="discrepancy against shift, from 0 to {last:g}">'
        f'<line x1="{LEFT}" x2="{WIDTH - 12}" y1="{upwards(0)}" y2="{upwards(0)}" stroke="#888"/>'
        f'<polyline points="{points}" fill="none" stroke="#1f77b4"/>{dots}{ticks}{numbers}</svg>'
    )
