"""Known mistakes: a table of edits of lines, each with the sentence that says what answers are then as if."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from refnp.verify.case import Layer
from refnp.verify.edits.edited import EditedPage
from refnp.verify.edits.mutant import Mutant
from refnp.verify.mutants.subjects import PAGES, SUBJECTS
from refnp.verify.mutants.words import WORDS

KINDS = ("", "VJP", "rounding", "VJP, rounding", "bfloat16")
TABLE = Path(__file__).with_name("table.md")


@dataclass
class Row:
    """A mistake of the table: what it says, its edits, of what kind it is, and of which layers."""

    says: str
    rewrites: list[tuple[str, str]]
    kind: str
    layers: list[str]


def rows_of(text: str) -> list[Row]:
    """The rows of a table in Markdown; one without a sentence is another edit of the row above."""
    found: list[Row] = []
    for line in text.splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) != 5 or not cells[1].startswith("`"):
            continue
        says, before, after, kind, names = cells
        if says:
            found.append(Row(says, [], kind, names.split("; ")))
        found[-1].rewrites.append((before.strip("`"), after.strip("`")))
    return found


def made_of(rows: list[Row]) -> dict[str, list[Mutant]]:
    """The mistakes of a table, by layer: those of the equation first, then of gradients, then of rounding."""
    pages = {name: EditedPage(function, WORDS, PAGES.get(name, ())) for name, function in SUBJECTS.items()}
    found: dict[str, list[Mutant]] = {}
    for row in sorted(rows, key=lambda row: KINDS.index(row.kind)):
        for name in row.layers:
            pages[name].edits[row.says] = row.rewrites, "VJP" in row.kind
            narrow, rounded = "rounding" in row.kind, "bfloat16" if "bfloat16" in row.kind else ""
            mutant = Mutant(row.says, pages[name], {row.says: True}, narrow, rounded=rounded)
            found.setdefault(name, []).append(mutant)
    return found


ROWS = rows_of(TABLE.read_text(encoding="utf-8"))
MUTANTS = made_of(ROWS)


def mutants_of(layer: Layer) -> list[Mutant]:
    """Every mutant of a layer, the simplest first."""
    own = MUTANTS.get(layer.name, [])
    if layer.inner is None:
        return own
    base, turned = layer.inner
    return own + [replace(mutant, template=turned(mutant.template)) for mutant in MUTANTS.get(base.name, [])]


__all__ = ["MUTANTS", "Mutant", "mutants_of"]


def __dir__() -> list[str]:
    return __all__
