"""What `refnp verify` does with its options, and what it shows meanwhile: a progress bar on a terminal (if `rich` is
installed), plain lines otherwise."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from refnp.verify import report
from refnp.verify.judge import DEVIATES, Row
from refnp.verify.rounding import judging_precision
from refnp.verify.run import ADAPTERS, Piece, all_rows, frameworks, pieces
from refnp.version import __version__


def verify(options: argparse.Namespace) -> int:
    """Judge everything that is asked for; the exit status is 1 if anything deviates unexpectedly."""
    start = time.perf_counter()
    print(f"refnp {__version__} verify: the reference is {judging_precision()}", flush=True)
    try:
        live = chosen_live(options.live)
        if options.json is not None:
            report.check_writable(Path(options.json))
        others = frameworks(live)
        work = pieces(others, options.only)
        if not work:
            raise ValueError(f"--only: nothing is called {options.only!r}; try softmax, properties or frameworks/conv*")
    except (ValueError, OSError) as wrong:
        print(f"refnp verify: error: {wrong}", file=sys.stderr)
        return 2
    print("beside refnp: " + (", ".join(f"{f.name} {f.version}" for f in others) or "nobody"), flush=True)
    rows = [row for _, found in shown(work) for row in found]
    if on_terminal():
        show_table(rows)
    if options.json is not None:
        report.write_json(Path(options.json), rows)
    for title, lines in (("known defects", report.known_defects(rows)), ("DEVIATIONS", report.deviations(rows))):
        if lines:
            print(f"\n{title}\n" + "\n".join(f"  {line}" for line in lines))
    print("\n" + "\n".join(report.summary(rows, judging_precision(), time.perf_counter() - start)))
    return int(any(row.verdict == DEVIATES for row in rows))


def chosen_live(names: str) -> tuple[str, ...]:
    """The adapters that are named, whatever their capitals; ValueError for one that does not exist."""
    by_name = {name.lower(): name for name in ADAPTERS}
    given = [name.strip().lower() for name in names.split(",")]
    if given == ["none"]:
        return ()
    if unknown := [name for name in given if name not in by_name]:
        raise ValueError(f"--live: there is no adapter for {unknown[0]!r}; name {', '.join(ADAPTERS)} or none")
    return tuple(by_name[name] for name in given)


def on_terminal() -> bool:
    """True where a bar and a table can be drawn."""
    return sys.stdout.isatty() and importlib.util.find_spec("rich") is not None


def shown(work: list[Piece]) -> Iterator[tuple[Piece, list[Row]]]:
    """Do the work and show it: with a bar on a terminal, else as a line for each piece under its section."""
    if on_terminal():
        yield from with_bar(work)
        return
    section = ""
    for piece, rows in all_rows(work):
        if piece.section != section:
            section = piece.section
            print(f"\n{section}, the worst error over its bound", flush=True)
        print("  " + report.line(piece, rows), flush=True)
        yield piece, rows


def with_bar(work: list[Piece]) -> Iterator[tuple[Piece, list[Row]]]:
    """A bar that says what is being verified; above it a line for whatever deviates."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description:60.60}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns) as progress:
        task = progress.add_task("", total=len(work))
        for piece, rows in all_rows(work):
            progress.update(task, advance=1, description=f"{piece.section}/{piece.name}")
            if any(row.verdict == DEVIATES for row in rows):
                progress.console.print("  " + report.line(piece, rows), style="red", highlight=False, markup=False)
            yield piece, rows


def show_table(rows: list[Row]) -> None:
    """The layers, one a line: the worst error over its bound, and what is beyond."""
    from rich.console import Console
    from rich.table import Table

    heading, *lines = report.by_layer(rows)
    table = Table(*heading, title="the worst error over its bound", title_justify="left")
    for line in lines:
        table.add_row(*line, style="red" if DEVIATES in " ".join(line) else "")
    Console().print(table)
