"""A report as one page of HTML that needs nothing beside it: a summary, then the rows of each layer, to be searched."""

import math
from collections import Counter
from collections.abc import Sequence
from html import escape
from itertools import groupby

from refnp.verify.judge import BEYOND, CONVENTION, DEVIATES, KNOWN, NOT_JUDGED, SKIPPED, WITHIN, Judgement
from refnp.verify.report import by_layer, exactly, layer_of, number

LONG = 60  # lines of text
COLUMNS = ["case", "framework", "version", "precision", "quantity", "error/bound", "ulps", "verdict"]
COLUMNS += ["came", "right", "why"]
CLASSES = {WITHIN: "within", CONVENTION: "convention", KNOWN: "known", DEVIATES: "deviates"}
CLASSES |= dict.fromkeys((SKIPPED, NOT_JUDGED), "skipped")
STYLE = """
:root { color-scheme: light dark; --text: #222; --page: #fff; --block: #f6f6f6; --line: #ddd; --quiet: #777;
  --deviates: #fde2e0; --known: #fdf3d6; --convention: #e4eefb }
@media (prefers-color-scheme: dark) {
  :root { --text: #ddd; --page: #16181c; --block: #212429; --line: #3a3e45; --quiet: #8b8f96;
    --deviates: #5c2320; --known: #4a3d16; --convention: #1f3553 }
}
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem;
  color: var(--text); background: var(--page) }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--block); padding: 1rem; border-radius: 4px }
.wide { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-size: 13px; margin: .5rem 0 1rem }
th, td { text-align: left; padding: .2rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap } a { color: inherit }
.deviates { background: var(--deviates) } .known { background: var(--known) }
.convention { background: var(--convention) }
.skipped { color: var(--quiet) } summary { cursor: pointer; padding: .2rem 0 } input { font: inherit; width: 24rem }
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
    """The whole page: the summary, how many rows have which verdict, a table of layers and frameworks, and the rows.

    Layers in which something deviates come first, and are open.
    """
    counts = Counter(row.verdict for row in rows)
    verdicts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in CLASSES if counts[verdict])
    in_order = sorted(rows, key=layer_of)
    layers = [(name, list(own)) for name, own in groupby(in_order, layer_of)]
    layers.sort(key=lambda layer: not any(row.verdict == DEVIATES for row in layer[1]))
    above = [in_words(summary), f"<p>{len(rows)} rows: {escape(verdicts)}</p>"]
    below = [overview(rows), *(section(name, own) for name, own in layers)]
    return document(title, above, below, words="gelu deviates float32")


def document(title: str, above: Sequence[str], below: Sequence[str], *, words: str, style: str = "") -> str:
    """A page with what stands above and below the field in which rows are looked for, by `words` such as these."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f"<title>{escape(title)}</title><style>{STYLE}{style}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            *above,
            f'<p><input id="find" type="search" placeholder="words in a row: {words}" aria-label="words in a row"></p>',
            *below,
            f"<script>{SCRIPT}</script></body></html>",
        ]
    )


def table_of(name: str, title: str, columns: Sequence[str], rows: Sequence[str], *, is_open: bool) -> str:
    """Rows behind their title, to be found in the page by the name."""
    heading = "".join(f"<th>{escape(column)}</th>" for column in columns)
    unfolded = ' open data-open="yes"' if is_open else ""
    return (
        f'<details id="{anchor(name)}"{unfolded}>'
        f"<summary>{title}</summary>"
        f'<div class="wide"><table><thead><tr>{heading}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></details>"
    )


def in_words(summary: Sequence[str]) -> str:
    """The text of the report; if it is longer than a screen, behind its heading."""
    text = "\n".join(summary)
    block = f"<pre>{escape(text)}</pre>" if summary else ""
    return f"<details><summary><b>in words</b></summary>{block}</details>" if text.count("\n") > LONG else block


def overview(rows: Sequence[Judgement]) -> str:
    """Layers by frameworks: the worst error within its bound, and what is not; a layer's name leads to its rows."""
    heading, *lines = by_layer(rows)
    body = []
    for name, count, *cells in lines:
        own = "".join(f'<td class="{worst_of(cell)}">{escape(cell)}</td>' for cell in cells)
        body.append(f'<tr><td><a href="#{anchor(f"layer {name}")}">{escape(name)}</a></td><td>{count}</td>{own}</tr>')
    title = "<b>layers and frameworks</b>, the worst error within its bound, and what is beyond it"
    return table_of("overview", title, heading, body, is_open=True)


def worst_of(cell: str) -> str:
    """The class of a cell by the worst verdict that it names."""
    return next((CLASSES[verdict] for verdict in BEYOND if verdict in cell), "")


def anchor(name: str) -> str:
    """What rows are found by in the page."""
    return escape(name.replace(" ", "-"))


def section(name: str, rows: Sequence[Judgement]) -> str:
    """The rows of one layer."""
    counts = Counter(row.verdict for row in rows if row.verdict != WITHIN)
    others = "".join(f", {count} {verdict}" for verdict, count in counts.items())
    title = f"<b>{escape(name)}</b> {len(rows)} rows{escape(others)}"
    return table_of(f"layer {name}", title, COLUMNS, [*map(line, rows)], is_open=bool(counts[DEVIATES]))


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
