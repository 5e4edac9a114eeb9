"""`python -m refnp.claims.sentences [NAME ...] [--write]`: what is found for each claim, and docs/claims.md."""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from refnp.claims.sentences import PAGES
from refnp.claims.sentences.register import EMPTY, NOT_DECIDED, Finding, Sentence, consistent
from refnp.studies import calibration, decisions, growth
from refnp.studies.measured import kept
from refnp.verify.record import write_whole

DOCS = Path(__file__).parents[3] / "docs"
TEST = "../tests/claims/test_sentences.py"
ROWS_OF = {page: [row for row in vars(page).values() if isinstance(row, Sentence)] for page in PAGES}
ROWS = {row.name: row for rows in ROWS_OF.values() for row in rows}


@cache
def found(name: str) -> tuple[Finding, ...]:
    """The findings of a row."""
    return tuple(ROWS[name].measure())


def report(row: Sentence) -> list[str]:
    """A row and its findings as lines of text."""
    lines = [f"{row.name}: {row.claim}", f"  {verdict(row)}"]
    return lines + [f"  {one.kind:8}{'' if one.met else 'NOT AS EXPECTED: '}{one.text}" for one in found(row.name)]


def verdict(row: Sentence) -> str:
    """The verdict in words."""
    return f"{row.verdict}{':' if row.says and row.verdict != 'true if' else ''} {row.says}".strip()


def places(row: Sentence) -> str:
    """The sections that say it, a text once."""
    texts: dict[str, list[str]] = {}
    for text, section in row.where:
        texts.setdefault(text, []).append(f"§{section}" if section[0].isdigit() and "-" not in section else section)
    return "; ".join(f"{text} {', '.join(sections)}" for text, sections in texts.items())


def cells(row: Sentence) -> list[str]:
    """A row of the table of docs/claims.md."""
    findings = "; ".join(f"**{one.kind}** {one.text}" for one in found(row.name))
    tests = [f"[{Path(path).name}](../{path})" for path in (test.partition("::")[0] for test in row.tests)]
    return [f"`{row.name}`", row.claim, places(row), verdict(row), findings, "<br>".join(tests)]


def table(heading: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [heading, ["---"] * len(heading), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page() -> str:
    """docs/claims.md."""
    counts = Counter(row.verdict for row in ROWS.values())
    said = ", ".join(f"{counts[kind]} {kind.replace('true if', 'true under a condition')}" for kind in counts)
    parts = [part.format(count=len(ROWS), said=said, test=TEST) for part in BEGIN]
    heading = ["row", "claim", "said in", "verdict", "measured", "other tests"]
    for one in PAGES:
        title = (one.__doc__ or "").partition("\n")[0].removeprefix("What the texts say of ").rstrip(".")
        parts += [f"## {title[0].upper()}{title[1:]}", table(heading, [cells(row) for row in ROWS_OF[one]])]
    parts += experiments()
    undecided = [[f"{text} §{section}", f'"{words}"', why] for text, section, words, why in NOT_DECIDED]
    parts += ["## What no experiment decides", table(["said in", "words", "why"], undecided)]
    empty = [[f"{text} {section}", why] for (text, section), why in EMPTY.items()]
    parts += ["Sections without a claim:", table(["section", "why"], empty)]
    return "\n\n".join(parts) + "\n"


def experiments() -> list[str]:
    """The tables of what takes minutes, with the commands that made them."""
    parts = ["## Experiments"]
    for study, words in EXPERIMENTS.items():
        name = study.__name__.rpartition(".")[2]
        heading, rows = study.tables(kept(name))[0][1:]
        made = f"`python -m refnp.studies.{name} --write` measures it ([{name}.py](../refnp/studies/{name}.py))."
        parts += [f"{words} {made}", table(heading, rows)]
    return parts


EXPERIMENTS: dict[Any, str] = {
    growth: "**Cost.** M context points, M targets; multiply-adds are counted, and are a polynomial of this degree in "
    "M, their number that for M = 1000. Times are processor times of one core of one machine.",
    calibration: "**Calibration.** Shipped weights on new tasks: the part of the targets in central intervals, in per "
    "cent; RMSE at a task's own context points over the exact posterior's, the median (misfit); the part in the 90 % "
    "interval on functions that were never trained on. ± is the standard error over tasks; models differ in width "
    "and steps ([results](results.md)), and each was trained once.",
    decisions: "**Decisions.** Regret in Bayesian optimisation and in a bandit, with predictions of shipped weights, "
    "in per cent of a function's range; the same 512 functions for all. ± is the standard error over functions; "
    "models differ in width and steps ([results](results.md)), and each was trained once.",
}
BEGIN = (
    "# Every claim of the texts",
    "Made by `python -m refnp.claims.sentences --write`; do not edit.",
    "The [texts](sources.md) that refnp follows have equations, which [equations.md](equations.md) lists, and "
    "sentences between them.\n"
    "Each row is a claim of these sentences: {count} in all, {said}. `python -m refnp.claims.sentences NAME` measures "
    "a row again, within seconds;\n"
    "[test_sentences.py]({test}) holds all of them, with `-k NAME` one.",
    "**holds**: the claim was measured where it should be true. **fails**: it was measured where it is not true.\n"
    "**control**: what makes it true is taken away, or a wrong formula is mended, and the finding turns round.\n"
    'A verdict "true" has no failure, "true if" has both, "false" failures only; each row is decided in two '
    "directions. Random weights and inputs come from seeds.\n"
    '"not reproduced" has failures only as well, but they are of trained models, one training run of each: what was '
    "asked stands beside it, and other sizes or tasks may answer otherwise.",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print rows, or write the page; 1 if a row is not met."""
    options = argparse.ArgumentParser(prog="python -m refnp.claims.sentences", description=__doc__.splitlines()[0])
    options.add_argument("names", nargs="*", metavar="NAME", help=f"rows: {', '.join(ROWS)}")
    options.add_argument("--write", action="store_true", help="write docs/claims.md")
    chosen = options.parse_args(arguments)
    unknown = [name for name in chosen.names if name not in ROWS]
    if unknown:
        options.error(f"there is no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    for name in chosen.names or ROWS:
        print("\n".join(report(ROWS[name])), flush=True)
    wrong = [name for name in chosen.names or ROWS if consistent(ROWS[name], list(found(name)))]
    if chosen.write:
        write_whole(DOCS / "claims.md", page().encode())
    if wrong:
        print(f"not met: {', '.join(wrong)}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
