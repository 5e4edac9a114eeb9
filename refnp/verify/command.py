"""The command `refnp verify`: what it does with its options, and what it shows meanwhile.

On a terminal, and if `rich` is installed, it shows a progress bar and a table; otherwise a line for each check.
"""

import argparse
import functools
import importlib.util
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from refnp.numbers.rounding import judging_precision
from refnp.pieces import HERE, Workers, in_order, workers_for
from refnp.verify import reproduce
from refnp.verify.frameworks import PACKAGES
from refnp.verify.html import page
from refnp.verify.judge import (
    CONVENTION,
    DEVIATES,
    Check,
    Judgement,
    checks,
    failed,
    frameworks,
)
from refnp.verify.report import as_json, by_layer, check_writable, deviations, known_defects, line, summary, write
from refnp.version import __version__

Judged = tuple[Check, list[Judgement]]


def verify(options: argparse.Namespace) -> int:
    """Judge everything that is asked for; the exit status is 1 if anything deviates unexpectedly."""
    if options.reproduce is not None:
        print(reproduce.script(*options.reproduce), end="")
        return 0
    start = time.perf_counter()
    print(f"refnp {__version__} verify: the reference is {judging_precision()}", flush=True)
    try:
        live = chosen_live(options.live)
        for file in (options.json, options.html):
            if file is not None:
                check_writable(Path(file))
        others = frameworks(live)
        work = checks(others, options.only)
        if not work:
            raise ValueError(f"--only: nothing is called {options.only!r}; try softmax, properties or frameworks/conv*")
    except (ValueError, OSError) as wrong:
        print(f"refnp verify: error: {wrong}", file=sys.stderr)
        return 2
    print("other frameworks: " + (", ".join(f"{f.name} {f.version}" for f in others) or "none"), flush=True)
    workers = workers_for(len(work), options.jobs, options.cluster)
    rows = list(shown(done(work, workers, live, options.only), len(work)))
    if on_terminal():
        show_table(rows)
    if options.json is not None:
        write(Path(options.json), as_json(rows))
    sections = {
        "other conventions": known_defects(rows, CONVENTION),
        "known defects": known_defects(rows),
        "DEVIATIONS": deviations(rows),
    }
    texts = ["\n".join([title, *(f"  {line}" for line in lines)]) for title, lines in sections.items() if lines]
    texts.append("\n".join(summary(rows, judging_precision(), time.perf_counter() - start)))
    print("", *texts, sep="\n\n" if len(texts) > 1 else "\n")
    if options.html is not None:
        write(Path(options.html), page(rows, title=f"refnp {__version__} verify", summary=["\n\n".join(texts)]))
    return int(any(row.verdict == DEVIATES for row in rows))


def chosen_live(names: str) -> tuple[str, ...]:
    """The frameworks that are named, whatever their capitals; ValueError for one that does not exist."""
    by_name = {name.lower(): name for name in PACKAGES}
    given = [name.strip().lower() for name in names.split(",")]
    if given == ["none"]:
        return ()
    if unknown := [name for name in given if name not in by_name]:
        raise ValueError(f"--live: there is no framework {unknown[0]!r}; name {', '.join(PACKAGES)} or none")
    return tuple(by_name[name] for name in given)


def on_terminal() -> bool:
    """True where a bar and a table can be drawn."""
    return sys.stdout.isatty() and importlib.util.find_spec("rich") is not None


def done(work: list[Check], workers: Workers, live: tuple[str, ...], only: str | None) -> Iterator[Judged]:
    """Each check with its rows, in the order of the work, computed here or by several workers."""
    rows = (lambda n: work[n].run()) if workers == HERE else functools.partial(rows_of, live, only)
    named, lost = (lambda n: f"{work[n].section}/{work[n].name}"), (lambda n: died(work[n]))
    yield from zip(work, in_order(rows, range(len(work)), workers, named=named, lost=lost), strict=True)


@functools.cache
def work_of(live: tuple[str, ...], only: str | None) -> list[Check]:
    """All checks that are asked for, the same list in every process that shares them."""
    return checks(frameworks(live), only)


def rows_of(live: tuple[str, ...], only: str | None, number: int) -> list[Judgement]:
    """The rows of one check of that list."""
    return work_of(live, only)[number].run()


def died(check: Check) -> list[Judgement]:
    """The judgement where the process did not live to tell: a framework may end it."""
    why = RuntimeError("the process that judged it died")
    return [failed(check.section, check.name, "refnp", __version__, "", why)]


def shown(judged: Iterable[Judged], count: int) -> Iterator[Judgement]:
    """Show what is judged as it comes: with a bar on a terminal, else as a line for each check under its section."""
    if on_terminal():
        yield from with_bar(judged, count)
        return
    section = ""
    for check, rows in judged:
        if check.section != section:
            section = check.section
            print(f"\n{section}, the worst error over its bound", flush=True)
        print("  " + line(check, rows), flush=True)
        yield from rows


def with_bar(judged: Iterable[Judged], count: int) -> Iterator[Judgement]:
    """A bar that says what is being verified; above it a line for whatever deviates."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description:60.60}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns) as progress:
        task = progress.add_task("", total=count)
        for check, rows in judged:
            progress.update(task, advance=1, description=f"{check.section}/{check.name}")
            if any(row.verdict == DEVIATES for row in rows):
                progress.console.print("  " + line(check, rows), style="red", highlight=False, markup=False)
            yield from rows


def show_table(rows: list[Judgement]) -> None:
    """The layers, one a line: the worst error over its bound, and what is beyond."""
    from rich.console import Console
    from rich.table import Table

    heading, *lines = by_layer(rows)
    table = Table(*heading, title="the worst error over its bound", title_justify="left")
    for cells in lines:
        table.add_row(*cells, style="red" if DEVIATES in " ".join(cells) else "")
    Console().print(table)
