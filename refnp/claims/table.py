"""docs/ledger.md, and the tables of symmetries in other pages: `python -m refnp.claims.table --write`.

Every row is decided first. A table of another page stands between marks of its name;
TABLES says what its lines and columns are.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from refnp.claims import neural_processes, positions
from refnp.claims.decision import Found
from refnp.claims.ledger import decided, in_words, rows
from refnp.claims.row import APPROXIMATE, BROKEN, EXACT, EXPECTATIONS, ON_SUBGROUP
from refnp.files import renewed, write_whole
from refnp.layers.positions.images import METHODS
from refnp.pieces import workers_for
from refnp.verify.report import number

DOCS = Path(__file__).parents[2] / "docs"
PAGE = "ledger.md"
HEAD = """\
# The ledger of symmetries

Made by `python -m refnp.claims.table --write`; [a test](../tests/claims/test_table.py) holds it to what is expected
and found. `refnp claims` decides the same rows, `--only` some of them, `--json` and
`--html` write them, `--thorough` tries more.

What is expected of a subject was written down first, as data: [layers](../refnp/claims/layers.py),
[convolutions](../refnp/claims/convolutions.py), [positions](../refnp/claims/positions.py), [Transformers and image
classifiers](../refnp/claims/transformers.py), [neural processes](../refnp/claims/neural_processes.py), [shipped
weights](../refnp/claims/shipped.py). Then the search of [symmetry.md](symmetry.md) looks for what contradicts it, and
`refnp claims` fails if a row comes out otherwise, in either direction: a symmetry that should not be there and is, is
as wrong as one that should be there and is not.

- **exact**: f(g·x) = g·f(x) for every element g; what is left is rounding.
- **exact, proved**: also a theorem, for every size of its sets and any weights. Not proved is not wrong: a rule is
  missing ([proofs.md](proofs.md#claims-row-by-row)).
- **exact on** a subgroup: on that one, and each larger one that could be has a counter-example.
- **approximate**: there are counter-examples, but the discrepancy falls as something is refined; the rate is the
  slope of log discrepancy against log refinement.
- **broken**: there is a counter-example; `refnp claims --html` shows each.

The discrepancy is |f(g·x) − g·f(x)| over the output, the largest of all pairs, or that of the counter-example; beside
it what rounding could leave there. All weights but the shipped ones are random, and every model is small: a symmetry
is a matter of how a model is built. Inputs are drawn in float32 and float64, and judged in longdouble where the
machine has one; shipped weights are judged in float64.

{counts}

Which shifts a function of your own respects: `refnp.symmetry.find_subgroup`
([symmetry.md](symmetry.md#putting-a-claim)).
"""
LINES = "| subject | symmetry | | discrepancy | rounding allows | pairs | why |\n|---|---|---|---|---|---|---|"


@dataclass(frozen=True)
class Table:
    """A table of another page: which, and the subjects and symmetries by what they are called there."""

    page: str
    subjects: Mapping[str, str]
    symmetries: Mapping[str, str]
    across: bool = False  # subjects are the columns


def alike(names: Sequence[str]) -> dict[str, str]:
    """Names that are called the same in a table."""
    return {name: name for name in names}


KEPT = [
    "context permuted",
    "context permuted, its mask not",
    "targets permuted",
    "hidden points changed",
    "everything translated",
    "context given k times",
    "targets left out or repeated",
]
TABLES = {
    "positions": Table(
        "positions.md", {name: f"self-attention, {name}" for name in positions.SCHEMES}, alike(list(positions.COLUMNS))
    ),
    "positions in images": Table(
        "positions.md",
        {name: f"self-attention in images, {name}" for name in METHODS},
        alike(list(positions.IMAGE_COLUMNS)),
    ),
    "vision": Table(
        "vision.md",
        {
            "none": "image classifier of pixels, none",
            "learned, one for each token": "image classifier of pixels, learned",
            **{f"iRPE {method}": f"image classifier of pixels, {method}" for method in METHODS},
        },
        {
            "pixels in another order": "pixels permuted",
            "turned by a quarter, mirrored": "turned and mirrored",
            "content moved, with a mask that moves along": "content moved with its mask",
            "moved in the bare window": "content moved in the bare window",
        },
    ),
    "neural processes": Table(
        "neural_processes.md",
        alike(["CNP", "CNP, a sum for the mean", "NP", "CANP", "AttnCNP", "ANP", "BNP", "BANP"]),
        alike(KEPT),
        across=True,
    ),
    "chain rule": Table(
        "neural_processes.md",
        {"one order": neural_processes.ONE_ORDER, "all orders": neural_processes.EVERY_ORDER},
        {
            "context permuted": "context permuted: joint likelihood",
            "targets permuted": "targets permuted: joint likelihood",
            "everything translated": "everything translated: joint likelihood",
        },
    ),
    "tnp": Table(
        "tnp.md",
        alike(
            [
                "TNP-D",
                "TNP-A",
                "TNP-ND, low rank",
                "TNP-ND, Cholesky",
                "TE-TNP",
                "TE-TNP, places move",
                "PseudoTNP, induced",
                "PseudoTNP, perceiver",
                "PseudoTE-TNP",
            ]
        ),
        {
            "order of the context": "context permuted",
            "order of the targets": "targets permuted",
            "joint likelihood, order of the targets": "targets permuted: joint likelihood",
            "other targets beside it": "targets left out or repeated",
            "shifts of all x": "everything translated",
        },
    ),
    "convcnp": Table(
        "convcnp.md",
        alike([neural_processes.PLAIN, neural_processes.U_NET, neural_processes.ON_ONE, "ConvGNP"]),
        {
            "context permuted": "context permuted",
            "targets permuted": "targets permuted",
            "shifts by places of the grid": "everything translated on the grid",
            "shifts by any vector": "everything translated",
            "other targets beside it": "targets left out or repeated",
            "reflection": "reflection",
        },
    ),
}


def cell(one: Found | None) -> str:
    """A verdict in a few words: "yes", "no, 0.44", "multiples of 4", "nearly, 1.1e-03"; "–" where there is no row."""
    if one is None:
        return "–"
    if one.verdict in (APPROXIMATE, BROKEN):
        return f"{'no' if one.verdict == BROKEN else 'nearly'}, {number(one.discrepancy)}"
    return {EXACT: "yes", ON_SUBGROUP: one.subgroup}.get(one.verdict, one.verdict)


def drawn(table: Table, by_name: Mapping[tuple[str, str], Found]) -> str:
    """The lines of a table."""
    cells = [[cell(by_name.get((s, m))) for m in table.symmetries.values()] for s in table.subjects.values()]
    left, top = list(table.subjects), list(table.symmetries)
    if table.across:
        cells, left, top = [list(column) for column in zip(*cells, strict=True)], top, left
    lines = [["", *top], ["---"] * (len(top) + 1), *([name, *own] for name, own in zip(left, cells, strict=True))]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).replace("| --- ", "|---").replace("--- |", "---|")


def with_tables(text: str, page: str, by_name: Mapping[tuple[str, str], Found]) -> str:
    """The text of a page with its tables renewed."""
    for name, table in TABLES.items():
        text = renewed(text, name, drawn(table, by_name)) if table.page == page else text
    return text


def ledger(found: Sequence[tuple[str, Found]]) -> str:
    """The text of docs/ledger.md."""
    verdicts = [one.verdict for _, one in found]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in EXPECTATIONS)
    pairs = sum(one.pairs for _, one in found)
    text = HEAD.format(counts=f"{len(found)} rows: {counts}; {pairs} pairs of an input and an element.")
    before: tuple[str, str] = ("", "")
    for family, one in found:
        if family != before[0]:
            text += f"\n## {family[0].upper()}{family[1:]}\n\n{LINES}\n"
        subject = "" if (family, one.subject) == before else one.subject
        verdict = in_words(one.verdict, one.subgroup if one.verdict == ON_SUBGROUP else "")
        verdict += f", rate {one.rate:.2g} in {one.finer}" if one.verdict == APPROXIMATE else ""
        verdict += ", proved" if one.proved else ""
        numbers = f"{number(one.discrepancy)} | {number(one.bound)} | {one.pairs}"
        text += f"| {subject} | {one.symmetry} | {verdict} | {numbers} | {one.reason} |\n"
        before = family, one.subject
    return text


def main(argv: Sequence[str] | None = None) -> int:
    """Decide every row and make the pages; with --write they are written. 1 if a row is not as expected."""
    parser = argparse.ArgumentParser(prog="python -m refnp.claims.table", description="The ledger as pages.")
    parser.add_argument("--write", action="store_true", help="write docs/ledger.md and the tables of other pages")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes (default: one for each core, up to 4)")
    options = parser.parse_args(argv)
    work = rows()
    found = list(decided(work, workers=workers_for(len(work), options.jobs)))
    wrong = [one.name for one in found if not one.right]
    print(*(f"not as expected: {name}" for name in wrong), sep="\n", end="\n" if wrong else "")
    texts = {PAGE: ledger([(family, one) for (family, _), one in zip(work, found, strict=True)])}
    by_name = {(one.subject, one.symmetry): one for one in found}
    for page in dict.fromkeys(table.page for table in TABLES.values()):
        texts[page] = with_tables((DOCS / page).read_text(encoding="utf-8"), page, by_name)
    for page, text in texts.items():
        if options.write:
            write_whole(DOCS / page, text.encode())
        print(f"docs/{page}: {'written' if options.write else 'made'}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
