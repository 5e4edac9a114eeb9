"""docs/benchmarks.md from the measurements of all machines: `python -m benchmarks --page` measures this one first.

A machine's measurements are a file in benchmarks/measured/, named after its processor and its cores: when and with
which versions they were taken, its roofline, a row for each work item, how time and memory grow. A file may hold less:
"source" then says where its ratios come from. The page puts all machines side by side, and names every aim that was
missed with what the roofline of the machine allows.

    python -m benchmarks --again    the ratios once more, later: whether two runs agree
    python -m benchmarks.page       writes the page again from the files that are there
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
from typing import Any

from benchmarks import report, roofline
from benchmarks.growth import Growth
from benchmarks.report import three_digits
from benchmarks.timing import Work
from benchmarks.works import all_works
from refnp.files import renewed, write_whole

ROOT = pathlib.Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks" / "measured"
PAGE = ROOT / "docs" / "benchmarks.md"
PEER = "torch"

# machine, rows, and perhaps source, roofline, threads, growth, again (machine, rows and threads of a later run)
Measured = dict[str, Any]


def file_of(machine: dict[str, str]) -> pathlib.Path:
    """The file for measurements of that machine: its processor and how many threads were used."""
    name = f"{machine['processor']}, {machine['threads'].split()[0]} threads"
    return FOLDER / f"{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}.json"


def all_measured(folder: pathlib.Path = FOLDER) -> list[Measured]:
    """Of every machine, those with a roofline first, then by name."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    return sorted(found, key=lambda measured: "roofline" not in measured)


def keep_again(
    machine: dict[str, str], rows: list[report.Row], threads: list[dict], folder: pathlib.Path = FOLDER
) -> None:
    """Put what a later run found, rows and ratios to one thread, beside the first."""
    path = folder / file_of(machine).name
    kept = json.loads(path.read_text(encoding="utf-8"))
    kept["again"] = {"machine": machine, "rows": [dataclasses.asdict(row) for row in rows], "threads": threads}
    write_whole(path, f"{json.dumps(kept, indent=1, ensure_ascii=False)}\n".encode())


def write_page(page: pathlib.Path = PAGE, folder: pathlib.Path = FOLDER) -> None:
    """What stands between the marks of the page, made again."""
    write_whole(page, with_tables(page.read_text(encoding="utf-8"), all_measured(folder)).encode())


def with_tables(text: str, machines: list[Measured]) -> str:
    """The page's text with the tables of these machines between its marks."""
    return renewed(text, "measured", "\n" + "\n".join(tables(machines)) + "\n\n")


def tables(machines: list[Measured]) -> list[str]:
    """Machines, ratios, growth and missed aims, as lines of Markdown."""
    return [
        "### Machines\n",
        *machine_table(machines),
        "\n### Against PyTorch\n",
        "Milliseconds of refnp and of PyTorch, the median of their ratios, and its quartiles.\n",
        *ratio_table(machines),
        *again_table(machines),
        "\n### All threads against one\n",
        "The time of refnp with all threads over that with one, its own and the BLAS's, in turns in one process.\n",
        *thread_table(machines),
        "\n### Growth\n",
        "Each size in a fresh process with one thread, on float32; seconds of the processor; memory beyond the inputs; "
        "p of N^p fitted to the logarithms.\n",
        *growth_table(machines),
        "\n### Aims that were missed\n",
        *missed(machines),
    ]


def machine_table(machines: list[Measured]) -> list[str]:
    lines = table_head(["", *(title(m) for m in machines)])
    for field in ("date", "threads", "versions", "caution"):
        if any(field in m["machine"] for m in machines):
            lines.append(cells([field, *(m["machine"].get(field, "") for m in machines)]))
    lines.append(cells(["source", *(m.get("source", "`python -m benchmarks --page`") for m in machines)]))
    return (
        lines
        + [
            cells([label, *(rates_text(m.get("roofline"), kind, dtype, scale) for m in machines)])
            for label, kind, dtype, scale in (
                ("products float32, GFLOP/s", "products", "float32", 1e9),
                ("products float64, GFLOP/s", "products", "float64", 1e9),
                ("exponentials float32, 10⁹/s", "exponentials", "float32", 1e9),
                ("exponentials float64, 10⁹/s", "exponentials", "float64", 1e9),
                ("simple operations in the cache float32, 10⁹/s", "passes", "float32", 1e9),
                ("simple operations in the cache float64, 10⁹/s", "passes", "float64", 1e9),
                ("memory read and written, GB/s", "memory", None, 1e9),
                ("one call of NumPy, µs", "call", None, 1e-6),
            )
        ]
        + [cells(["numbers in an array from which threads pay", *(shortest_text(m.get("roofline")) for m in machines)])]
    )


def rates_text(measured: dict | None, kind: str, dtype: str | None, scale: float) -> str:
    """A rate on one thread and on all."""
    if not measured:
        return ""
    values = [rates[kind][dtype] if dtype else rates[kind] for rates in measured.values()]
    return " / ".join(three_digits(value / scale) for value in values[: 1 if kind == "call" else None])


def shortest_text(measured: dict | None) -> str:
    rates = list((measured or {}).values())
    return "" if not rates or "shortest" not in rates[-1] else str(rates[-1]["shortest"] or "never")


def thread_table(machines: list[Measured]) -> list[str]:
    """The time with all threads over that with one, for all work where it was measured; a later run has a column."""
    both = [(title(m) + name, run) for m in machines for name, run in (("", m), (", again", m.get("again", {})))]
    both = [(name, run) for name, run in both if run.get("threads")]
    lines = table_head(["work", "dtype", *(name for name, _ in both)])
    for work in works_with_peer():
        rows = [row_of(run, work, "threads") for _, run in both]
        if any(rows):
            texts = (f"{r['ratio']:.2f} ({r['low']:.2f}–{r['high']:.2f})" if r else "" for r in rows)
            lines.append(cells([work.name, work.dtype, *texts]))
    return lines


def ratio_table(machines: list[Measured]) -> list[str]:
    lines = table_head(["work", "dtype", "aim", *(title(m) for m in machines)])
    for work in works_with_peer():
        rows = [row_of(m, work) for m in machines]
        if any(rows):
            aim = work.aims.get(PEER)
            texts = (ratio_text(row) for row in rows)
            lines.append(cells([work.name, work.dtype, "" if aim is None else f"≤ {aim:.3g}", *texts]))
    return lines


def again_table(machines: list[Measured]) -> list[str]:
    """How many ratios of two runs of a machine have quartiles that meet, and the others; nothing without two runs."""
    lines = []
    for first in (m for m in machines if "again" in m):
        pairs = [(work, row_of(first, work), row_of(first["again"], work)) for work in works_with_peer()]
        both = [(work, one, other) for work, one, other in pairs if one and other]
        apart = [(w, one, two) for w, one, two in both if one["low"] > two["high"] or two["low"] > one["high"]]
        moved = [abs(two["ratio"] / one["ratio"] - 1) for _, one, two in apart]
        dates = [m["machine"]["date"] for m in (first, first["again"])]
        lines += [
            "\n### The same again\n",
            f"`python -m benchmarks --again` on {title(first)}, {' and '.join(dates)}: the quartiles of "
            f"{len(both) - len(apart)} of {len(both)} ratios meet"
            f"{f'; the others have moved by up to {100 * max(moved):.0f} %' if apart else ''}.\n",
        ]
        lines += table_head(["work", "dtype", *dates]) if apart else []
        for work, *rows in apart:
            texts = [f"{row['ratio']:.2f} ({row['low']:.2f}–{row['high']:.2f})" for row in rows]
            lines.append(cells([work.name, work.dtype, *texts]))
    return lines


def works_with_peer() -> list[Work]:
    return [work for work in all_works() if PEER in work.makers]


def row_of(measured: Measured, work: Work, table: str = "rows") -> dict | None:
    return next((r for r in measured[table] if (r["work"], r["dtype"]) == (work.name, work.dtype)), None)


def ratio_text(row: dict | None) -> str:
    """`32.6 / 28.9: **1.15** (1.14–1.16)`, or the ratio alone where no more is recorded."""
    if row is None:
        return ""
    ratio = f"**{row['ratio']:.2f}**"
    if "refnp_ms" not in row:
        return ratio
    times = " / ".join(three_digits(row[name]) for name in ("refnp_ms", "peer_ms"))
    text = f"{times}: {ratio} ({row['low']:.2f}–{row['high']:.2f})"
    return text + (f", {row['refnp_peak_mb']:.0f} / {row['peer_peak_mb']:.0f} MB" if row.get("refnp_peak_mb") else "")


def growth_table(machines: list[Measured]) -> list[str]:
    lines = table_head(["work", "machine", "N", "seconds", "MB", "time", "memory"])
    for measured in machines:
        for one in growths(measured):
            time, memory = one.exponents()
            lists = (
                ", ".join(map(str, one.sizes)),
                ", ".join(map(three_digits, one.seconds)),
                ", ".join(map(three_digits, one.megabytes)),
            )
            lines.append(cells([one.work, title(measured), *lists, f"N^{time:.2f}", f"N^{memory:.2f}"]))
    return lines


def growths(measured: Measured) -> list[Growth]:
    return [Growth(**one) for one in measured.get("growth", [])]


def missed(machines: list[Measured]) -> list[str]:
    """A line for each aim that a machine misses, with the reason; one line for all where no roofline is recorded."""
    found = []
    for measured in machines:
        misses = [(work, row) for work in works_with_peer() if (row := row_of(measured, work)) and is_missed(work, row)]
        whats = [f"{work.name} {work.dtype} {row['ratio']:.2f} (aim {work.aims[PEER]:.3g})" for work, row in misses]
        if "roofline" in measured:
            rates = list(measured["roofline"].values())[-1]
            reasons = [f"{what}. {reason(rates, *miss)}" for what, miss in zip(whats, misses, strict=True)]
            found += [f"- {title(measured)}: {text}" for text in reasons]
        elif misses:
            found.append(f"- {title(measured)}, of which no roofline is recorded: {', '.join(whats)}.")
        found += [f"- {title(measured)}: {miss}." for one in growths(measured) for miss in one.misses()]
    return found or ["None."]


def is_missed(work: Work, row: dict) -> bool:
    return PEER in work.aims and row["ratio"] > work.aims[PEER]


def reason(rates: dict, work: Work, row: dict) -> str:
    """What the rates of the machine say about a ratio."""
    parts = roofline.floor(work.needs, work.dtype, rates)
    if not parts:
        return "What it needs has not been counted."
    least, ours, theirs = sum(parts.values()), row["refnp_ms"], row["peer_ms"]
    listed = " + ".join(f"{kind} {three_digits(ms)}" for kind, ms in parts.items())
    text = f"Of {three_digits(ours)} ms this machine's best rates take {three_digits(least)} ({listed})"
    if least / theirs > work.aims[PEER]:
        return f"{text}: operation by operation NumPy cannot reach less than {least / theirs:.2f} of PyTorch's time."
    return f"{text}, {least / theirs:.2f} of PyTorch's time; the rest is further passes, copies and calls."


def title(measured: Measured) -> str:
    return measured["machine"]["processor"]


def table_head(names: list[str]) -> list[str]:
    return [cells(names), cells(["---"] * len(names))]


def cells(texts: list[str]) -> str:
    return "| " + " | ".join(texts) + " |"


if __name__ == "__main__":
    write_page()
