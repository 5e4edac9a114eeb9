"""docs/frameworks.md, from the recordings: `python -m refnp.verify.table --write`.

A table of frameworks and layers; then, for each framework, what it is known for, with an example, the command that
prints a script for it, and where it was reported. Nothing is run but refnp: the answers are those that were recorded.
"""

import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from refnp.verify.case import quiet
from refnp.verify.judge import BEYOND, CONVENTION, DEVIATES, KNOWN, WITHIN, Judgement, case_judgements, frameworks
from refnp.verify.layers import cases_of_layers
from refnp.verify.report import came, layer_of, ratio_of, shown_or_written
from refnp.verify.reproduce import LANGUAGES

PAGE = Path(__file__).parents[2] / "docs" / "frameworks.md"
REPORT = re.compile(r"([\w.-]+/[\w.-]+)#(\d+)")
HEAD = """\
# Other frameworks

Made by `python -m refnp.verify.table --write` from the recorded answers;
[a test](../tests/verify/test_record.py) holds it to them. How a verdict comes about stands in [verify.md](verify.md).

{versions}

A row is one output or gradient of one case in one precision. ✓: all rows are within the bound of rounding; **3 d**:
three rows show a known defect; **2 c**: two follow another convention; **1 !**: one deviates, and it is not known why;
–: the framework has no such function, or it was not recorded.
"""
KNOWN_HEAD = """
## {name}

| | what, and an example | rows | reported |
|---|---|---|---|
"""
SCRIPTS = """
`refnp verify --reproduce CASE {name}` prints a short script that shows it with {name} alone (it has to be installed),
such as `refnp verify --reproduce "{case}" {name}`; the case of every row stands in it.
"""


def recorded_rows() -> list[Judgement]:
    """Every recorded answer, judged."""
    others = frameworks(live=())
    with quiet():
        rows = [row for case in cases_of_layers() for row in case_judgements(case, others)]
    return [row for row in rows if row.framework != "refnp"]


def page(rows: Sequence[Judgement]) -> str:
    """The text of the page."""
    versions = {row.framework: row.version.removesuffix(" (recorded)") for row in rows}
    text = HEAD.format(versions=", ".join(f"{name} {version}" for name, version in versions.items()) + ".")
    text += "\n" + "\n".join(layer_lines(rows, list(versions))) + "\n"
    for name in versions:
        lines = known_lines([row for row in rows if row.framework == name])
        if lines:
            text += KNOWN_HEAD.format(name=name) + "\n".join(lines) + "\n"
            if name in LANGUAGES:
                first = next(row for row in rows if row.framework == name and row.verdict in (KNOWN, CONVENTION))
                text += SCRIPTS.format(name=name, case=first.case)
    return text


def layer_lines(rows: Sequence[Judgement], names: list[str]) -> list[str]:
    """The table of layers."""
    lines = [f"| | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    found: dict[str, dict[str, Counter]] = {}
    for row in rows:
        found.setdefault(layer_of(row), {}).setdefault(row.framework, Counter())[row.verdict] += 1
    return lines + [
        f"| {layer} | {' | '.join(cell(own.get(name, Counter())) for name in names)} |" for layer, own in found.items()
    ]


def cell(verdicts: Counter) -> str:
    """How the rows of a layer came out, in few characters."""
    letters = {DEVIATES: "!", KNOWN: "d", CONVENTION: "c"}
    parts = [f"{verdicts[verdict]} {letter}" for verdict, letter in letters.items() if verdicts[verdict]]
    return ", ".join(parts) or ("✓" if verdicts[WITHIN] else "–")


def known_lines(rows: Sequence[Judgement]) -> list[str]:
    """A line for each defect and convention that shows, defects first."""
    by_issue: dict[tuple[str, str], list[Judgement]] = {}
    for row in rows:
        if row.verdict in BEYOND:
            by_issue.setdefault((row.verdict, row.issue), []).append(row)
    order = sorted(by_issue, key=lambda key: BEYOND.index(key[0]))
    return [known_line(*key, by_issue[key]) for key in order]


def known_line(verdict: str, issue: str, rows: list[Judgement]) -> str:
    """What it is, an example, how many rows show it, and the report."""
    worst = max(rows, key=lambda row: (not np.isnan(row.claimed) or not np.isnan(row.right), ratio_of(row)))
    example = f"`{worst.case}`, {worst.dtype}, {worst.quantity}"
    example += f": {numbers}" if (numbers := came(worst)) else ""
    kind = {CONVENTION: "convention", KNOWN: "defect", DEVIATES: "**deviates**"}[verdict]
    what = f"{worst.why or 'not known why'} ({issue})" if issue and not REPORT.search(issue) else worst.why
    texts = [text.replace("|", "\\|") for text in (what or "", example)]
    reports = dict.fromkeys(REPORT.findall(f"{issue} {worst.why}"))
    links = ", ".join(f"[{r}#{n}](https://github.com/{r}/issues/{n})" for r, n in reports)
    reported = links or ("–" if verdict == CONVENTION else "no report found")
    return f"| {kind} | {texts[0]}. {texts[1]} | {len(rows)} | {reported} |"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the page, or write it."""
    text = lambda: page(recorded_rows())
    return shown_or_written("refnp.verify.table", "Write docs/frameworks.md.", PAGE, text, argv)


if __name__ == "__main__":
    sys.exit(main())
