"""A report as one page of HTML that needs nothing beside it: a summary, then the rows of each layer, to be searched."""

import math
from collections import Counter
from collections.abc import Sequence
from html import escape
from itertools import groupby

from refnp.verify.judge import CONVENTION, DEVIATES, KNOWN, SKIPPED, WITHIN, Judgement
from refnp.verify.report import exactly, number

COLUMNS = ["case", "framework", "version", "precision", "quantity", "error/bound", "ulps", "verdict"]
COLUMNS += ["came", "right", "why"]
CLASSES = {WITHIN: "within", CONVENTION: "convention", KNOWN: "known", DEVIATES: "deviates", SKIPPED: "skipped"}
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem; color: #222 }
pre { white-space: pre-wrap; background: #f6f6f6; padding: 1rem; border-radius: 4px }
table { border-collapse: collapse; width: 100%; font-size: 13px; margin: .5rem 0 1rem }
th, td { text-align: left; padding: .2rem .6rem; border-bottom: 1px solid #ddd; vertical-align: top }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap }
tr.deviates { background: #fde2e0 } tr.known { background: #fdf3d6 } tr.convention { background: #e4eefb }
tr.skipped { color: #777 } summary { cursor: pointer; padding: .2rem 0 } input { font: inherit; width: 24rem }
"""
SCRIPT = """
document.getElementById('find').addEventListener('input', event => {
  const words = event.target.value.toLowerCase().split(' ').filter(word => word)
  for (const layer of document.querySelectorAll('details')) {
    let any = false
    for (const row of layer.querySelectorAll('tbody tr')) {
      const text = row.textContent.toLowerCase()
      row.hidden = !words.every(word => text.includes(word))
      any = any || !row.hidden
    }
    layer.hidden = !any
    layer.open = any && words.length > 0 || layer.dataset.open === 'yes' && !words.length
  }
})
"""


def page(rows: Sequence[Judgement], *, title: str, summary: Sequence[str] = ()) -> str:
    """The whole page: the lines of the summary, how many rows have which verdict, and a table for each layer.

    Layers in which something deviates come first, and are open.
    """
    counts = Counter(row.verdict for row in rows)
    verdicts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in CLASSES if counts[verdict])
    in_order = sorted(rows, key=layer_of)
    layers = [(name, list(own)) for name, own in groupby(in_order, layer_of)]
    layers.sort(key=lambda layer: not any(row.verdict == DEVIATES for row in layer[1]))
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            *([f"<pre>{escape(chr(10).join(summary))}</pre>"] if summary else []),
            f"<p>{len(rows)} rows: {escape(verdicts)}</p>",
            '<p><input id="find" type="search" placeholder="words in a row: gelu deviates float32" '
            'aria-label="words in a row"></p>',
            *(section(name, own) for name, own in layers),
            f"<script>{SCRIPT}</script></body></html>",
        ]
    )


def layer_of(row: Judgement) -> str:
    """The layer of a row, or its section where it has none."""
    return row.case.partition("/")[0] if "/" in row.case else row.section


def section(name: str, rows: Sequence[Judgement]) -> str:
    """The rows of one layer."""
    counts = Counter(row.verdict for row in rows if row.verdict != WITHIN)
    others = "".join(f", {count} {verdict}" for verdict, count in counts.items())
    is_open = ' open data-open="yes"' if counts[DEVIATES] else ""
    heading = "".join(f"<th>{escape(column)}</th>" for column in COLUMNS)
    return (
        f"<details{is_open}><summary><b>{escape(name)}</b> {len(rows)} rows{escape(others)}</summary>"
        f"<table><thead><tr>{heading}</tr></thead><tbody>{''.join(map(line, rows))}</tbody></table></details>"
    )


def line(row: Judgement) -> str:
    """One row of the table."""
    came, right = ("", "") if math.isnan(row.claimed) and math.isnan(row.right) else exactly(row.claimed, row.right)
    ratio, ulps = ("" if math.isnan(value) else number(value) for value in (row.error_over_bound, row.ulps))
    why = ": ".join(text for text in (row.issue, row.why) if text)
    texts = [row.case, row.framework, row.version, row.dtype, row.quantity]
    cells = "".join(f"<td>{escape(text)}</td>" for text in texts)
    cells += f'<td class="number">{ratio}</td><td class="number">{ulps}</td><td>{escape(row.verdict)}</td>'
    cells += f'<td class="number">{came}</td><td class="number">{right}</td><td>{escape(why)}</td>'
    return f'<tr class="{CLASSES[row.verdict]}">{cells}</tr>'
