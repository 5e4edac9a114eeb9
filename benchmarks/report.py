"""Rows of measurements, as a table, as Markdown, and as JSON."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import statistics
from typing import Any

from benchmarks.timing import Pairs, Work
from refnp.files import write_whole

COLUMNS = ("work", "dtype", "peer", "refnp ms", "peer ms", "ratio", "quartiles", "pairs", "aim", "peak MB: refnp, peer")
WIDTHS = (20, 7, 8, 9, 9, 7, 13, 5, 8, 20)


@dataclasses.dataclass(frozen=True)
class Row:
    """One work item against one peer: medians in milliseconds; the ratio refnp/peer with its quartiles."""

    work: str
    dtype: str
    threads: int
    peer: str
    refnp_ms: float
    peer_ms: float
    ratio: float
    low: float
    high: float
    pairs: int
    disagreement: float  # of the results, as a fraction of what rounding allows
    aim: float | None = None  # for the ratio, at most
    refnp_peak_mb: float | None = None
    peer_peak_mb: float | None = None
    aim_mb: float | None = None

    def misses(self) -> list[str]:
        """The aims that were not reached."""
        found = []
        if self.aim is not None and self.ratio > self.aim:
            found.append(f"{self.work} {self.dtype}: {self.ratio:.2f} × {self.peer}, aim {self.aim:.3g}")
        if self.aim_mb is not None and self.refnp_peak_mb is not None and self.refnp_peak_mb > self.aim_mb:
            found.append(f"{self.work} {self.dtype}: peak {self.refnp_peak_mb:.0f} MB, aim {self.aim_mb:.0f} MB")
        return found

    def cells(self) -> list[str]:
        peaks = [self.refnp_peak_mb, self.peer_peak_mb]
        return [
            self.work,
            self.dtype,
            self.peer,
            three_digits(self.refnp_ms),
            three_digits(self.peer_ms),
            f"{self.ratio:.3f}",
            f"{self.low:.3f}–{self.high:.3f}",
            str(self.pairs),
            "" if self.aim is None else f"≤ {self.aim:.3g}",
            ", ".join(f"{peak:.0f}" for peak in peaks if peak is not None),
        ]


def row_of(work: Work, peer: str, threads: int, pairs: Pairs, disagreement: float) -> Row:
    low, middle, high = pairs.quartiles()
    ours, theirs = (1e3 / work.units * statistics.median(times) for times in (pairs.first, pairs.second))
    aim = work.aims.get(peer)
    return Row(
        work.name, work.dtype, threads, peer, ours, theirs, middle, low, high, len(pairs.first), disagreement, aim
    )


def three_digits(number: float) -> str:
    """Three significant digits, and never an exponent."""
    places = 0 if number >= 100 else 1 if number >= 10 else 2 if number >= 1 else 3 if number >= 0.1 else 5
    return f"{number:.{places}f}"


def line(cells: list[str] | tuple[str, ...], *, markdown: bool) -> str:
    """One line of the table."""
    if markdown:
        return "| " + " | ".join(cells) + " |"
    aligned = (c.rjust(w) if 2 < i < 8 else c.ljust(w) for i, (c, w) in enumerate(zip(cells, WIDTHS, strict=True)))
    return "  ".join(aligned).rstrip()


def heading(machine: dict[str, str], *, markdown: bool) -> list[str]:
    """What stands above the rows."""
    lines = [f"- {name}: {value}" if markdown else f"{name:>9}  {value}" for name, value in machine.items()]
    lines += ["", line(COLUMNS, markdown=markdown)]
    if markdown:
        lines.append(line(["---:" if 2 < i < 8 else "---" for i in range(len(COLUMNS))], markdown=True))
    return lines


def summary(rows: list[Row]) -> list[str]:
    """How many aims were reached, and which were not."""
    aims = sum(row.aim is not None for row in rows) + sum(row.aim_mb is not None for row in rows)
    missed = [miss for row in rows for miss in row.misses()]
    return [f"{aims - len(missed)} of {aims} aims reached"] + [f"  not: {miss}" for miss in missed] if aims else []


def write_json(path: pathlib.Path, machine: dict[str, str], rows: list[Row], **more: Any) -> None:
    """All of it at once, or nothing; `more` stands beside."""
    found = {"machine": machine, **more, "rows": [dataclasses.asdict(row) for row in rows]}
    write_whole(path, f"{json.dumps(found, indent=1, ensure_ascii=False)}\n".encode())
