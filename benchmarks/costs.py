"""What pages cost, beside the time that their kernels take.

    python -m benchmarks.costs --write        renews that part of docs/benchmarks.md

Operations are counted on the page, as polynomials in its sizes (refnp/formulas/cost.py), times are those of
benchmarks/measured. A kernel may compute again on the way back what its page keeps.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from refnp import layers
from refnp.files import renewed
from refnp.formulas.cost import Cost, cost

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
MEASURED = ROOT / "benchmarks" / "measured" / "amd-epyc-2-threads.json"
ROWS = {"B": 8192, "n": 512}
HEADS = {"B": 8, "d": 64, "d_v": 64}
WORKS = {  # by their names in works.py: the page, and its sizes
    "softmax": (layers.softmax, ROWS),
    "LayerNorm": (layers.layer_norm, {"B": 8192, "D": 512}),
    "attention N=512": (layers.attention, HEADS | {"N": 512, "M": 512}),
    "attention N=2048": (layers.attention, HEADS | {"N": 2048, "M": 2048}),
}
KINDS = ("multiplications", "divisions", "exponentials")
HEAD = "| page | | as its sizes grow |\n|---|---|---|\n"
TIMES = "| work | multiplications | divisions | exponentials | numbers kept | float64, ms | 10⁹ multiplications/s |\n"


def table() -> str:
    """The polynomials, and what they are at the sizes that are measured."""
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))["rows"]
    known = {row["work"]: row for row in measured if row["dtype"] == "float64" and row["peer"] == "torch"}
    pages = {page.__name__: cost(page) for page, _ in WORKS.values()}
    lines = [HEAD.rstrip()]
    for name, found in pages.items():
        for what, counts in (("value", found.forward), ("gradient", found.gradient)):
            lines += [f"| `{name}` | {kind}, {what} | {found.text(counts[kind])} |" for kind in KINDS if kind in counts]
        lines.append(f"| `{name}` | numbers kept | {found.text(found.kept)} |")
    lines += ["", TIMES.rstrip(), "|---|---:|---:|---:|---:|---:|---:|"]
    for name, (page, sizes) in WORKS.items():
        found, milliseconds = pages[page.__name__], known[name]["refnp_ms"]
        counts = [together(found, kind, sizes) for kind in KINDS]
        shown = [f"{count / 1e6:.1f} · 10⁶" if count else "" for count in (*counts, found.at(found.kept, **sizes))]
        lines.append(f"| {name} | {' | '.join(shown)} | {milliseconds:.3g} | {counts[0] / milliseconds / 1e6:.3g} |")
    return "\n".join(lines) + "\n"


def together(found: Cost, kind: str, sizes: dict[str, int]) -> int:
    """How many operations of a kind value and gradients take."""
    both = (counts[kind] for counts in (found.forward, found.gradient) if kind in counts)
    return sum(found.at(count, **sizes) for count in both)


def brought_up_to_date(text: str) -> str:
    """The text of the page with the table as it is now."""
    return renewed(text, "costs", table())


if __name__ == "__main__":
    now = brought_up_to_date(PAGE.read_text(encoding="utf-8"))
    if "--write" in sys.argv:
        PAGE.write_text(now, encoding="utf-8")
    print(table())
