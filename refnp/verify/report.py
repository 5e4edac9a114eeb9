"""`refnp verify`: what it does with its options, what it shows meanwhile, and its report at the end.

On a terminal, and if `rich` is installed, it shows a progress bar and a table; otherwise a line for each check. The
report has a summary to read, and as JSON a row for each judgement.
"""

import argparse
import functools
import importlib.util
import itertools
import json
import math
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from refnp.numbers.rounding import ASSUMED, judging_precision
from refnp.verify import reproduce
from refnp.verify.frameworks import PACKAGES
from refnp.verify.judge import (
    CONVENTION,
    DEVIATES,
    KNOWN,
    SKIPPED,
    WITHIN,
    Check,
    Judgement,
    checks,
    failed,
    frameworks,
)
from refnp.verify.processes import in_order, jobs_for
from refnp.verify.record import write_whole
from refnp.version import __version__

WIDTH = 52
Judged = tuple[Check, list[Judgement]]
WORDS = {WITHIN: "", CONVENTION: " another convention", KNOWN: " known defect", DEVIATES: " DEVIATES"}


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
    jobs = jobs_for(len(work), options.jobs)
    rows = list(shown(done(work, jobs, live, options.only), len(work)))
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
        from refnp.verify.html import page  # which shows rows in the words of this page

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


def done(work: list[Check], jobs: int, live: tuple[str, ...], only: str | None) -> Iterator[Judged]:
    """Each check with its rows, in the order of the work, computed here or by `jobs` processes."""
    if jobs == 1:
        yield from ((check, check.run()) for check in work)
        return
    start = functools.partial(prepare, live, only)
    found = in_order(
        rows_of, range(len(work)), jobs, start=start, here=lambda n: work[n].run(), lost=lambda n: died(work[n])
    )
    yield from zip(work, found, strict=True)


def died(check: Check) -> list[Judgement]:
    """The judgement where the process did not live to tell: a framework may end it."""
    why = RuntimeError("the process that judged it died")
    return [failed(check.section, check.name, "refnp", __version__, "", why)]


_prepared: list[Check] = []  # of a process that shares the work


def prepare(live: tuple[str, ...], only: str | None) -> None:
    """Begin in a process that shares the work: make the same list of it."""
    _prepared[:] = checks(frameworks(live), only)


def rows_of(number: int) -> list[Judgement]:
    """The rows of one check of that list."""
    return _prepared[number].run()


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
    for line in lines:
        table.add_row(*line, style="red" if DEVIATES in " ".join(line) else "")
    Console().print(table)


def number(value: float) -> str:
    """A number in few characters; what is not finite has a name."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return f"{value:.2g}" if 1e-2 <= abs(value) < 1e4 or value == 0 else f"{value:.1e}"


def exactly(claimed: float, right: float) -> tuple[str, str]:
    """A claimed and a right value, with one digit more than it takes to see the difference."""
    several = [(f"{claimed:.{digits}g}", f"{right:.{digits}g}") for digits in range(2, 18)]
    for shorter, texts in itertools.pairwise(several):
        if shorter[0] != shorter[1] and texts[0] != texts[1]:
            break
    return texts


def line(check: Check, rows: list[Judgement]) -> str:
    """One line for one check: for each framework the worst error over its bound, and a word where it is above 1."""
    parts = []
    for name in dict.fromkeys(row.framework for row in rows):
        own = [row for row in rows if row.framework == name]
        worst = max(own, key=lambda row: (row.verdict in (CONVENTION, KNOWN, DEVIATES), ratio_of(row)))
        word = WORDS.get(worst.verdict)
        if word is not None:
            parts.append(f"{name} {number(worst.error_over_bound)}{word}")
    return f"{check.name:{WIDTH}.{WIDTH}}  {'   '.join(parts)}"


def ratio_of(row: Judgement) -> float:
    """Error over bound, to find the worst; −1 where there was nothing to compare."""
    return -1.0 if math.isnan(row.error_over_bound) else row.error_over_bound


def by_layer(rows: Sequence[Judgement]) -> list[list[str]]:
    """A table: a heading, then for each layer how many cases, and for each framework the worst error within its bound
    and what is not."""
    names = list(dict.fromkeys(row.framework for row in rows))
    lines = [["", "cases", *names]]
    for layer in dict.fromkeys(map(layer_of, rows)):
        own = [row for row in rows if layer_of(row) == layer]
        cells = []
        for name in names:
            judged = [row for row in own if row.framework == name and row.verdict != SKIPPED]
            within = [row.error_over_bound for row in judged if row.verdict == WITHIN]
            counts = Counter(row.verdict for row in judged if row.verdict != WITHIN)
            parts = [number(max(within))] if within else []
            cells.append(", ".join(parts + [f"{count} {verdict}" for verdict, count in counts.items()]))
        lines.append([layer, str(len({row.case for row in own})), *cells])
    return lines


def layer_of(row: Judgement) -> str:
    """The layer a row belongs to."""
    return row.case.partition("/")[0] if row.section == "frameworks" else row.section


def deviations(rows: Iterable[Judgement]) -> list[str]:
    """Every row that deviates and should not, with what came and what is right."""
    found = []
    for row in rows:
        if row.verdict == DEVIATES:
            text = f"{row.case}: {row.framework} {row.version}, {row.dtype}, {row.quantity}: "
            text += f"{number(row.error_over_bound)} times its bound"
            if not (math.isnan(row.claimed) and math.isnan(row.right)):
                claimed, right = exactly(row.claimed, row.right)
                text += f", {claimed} where {right} is right"
            found.append(text + (f" ({row.why})" if row.why else ""))
    return found


def known_defects(rows: Iterable[Judgement], verdict: str = KNOWN) -> list[str]:
    """One paragraph for each known defect or convention that shows: its name or report, what it is, an example."""
    examples: dict[tuple[str, str], Judgement] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for row in rows:
        if row.verdict == verdict:
            key = row.framework, row.issue
            counts[key] += 1
            examples.setdefault(key, row)
    found = []
    for key, row in examples.items():
        claimed, right = exactly(row.claimed, row.right)
        found.append(
            f"{row.framework}  {row.issue}\n    {row.why}\n"
            f"    {row.case}, {row.dtype}, {row.quantity}: {claimed}, right is {right}"
            f"  ({counts[key]} row{'s' if counts[key] > 1 else ''})"
        )
    return found


def summary(rows: list[Judgement], precision: str, seconds: float) -> list[str]:
    """What was judged, by what, how it came out, and how long it took."""
    verdicts = Counter(row.verdict for row in rows)
    judged = len(rows) - verdicts[SKIPPED]
    by: dict[str, set[str]] = {}
    for row in rows:
        if row.section == "frameworks" and row.verdict != SKIPPED:
            by.setdefault(f"{row.framework} {row.version}", set()).add(row.case)
    lines = [f"{judged} rows judged against {precision}, in {seconds:.1f} s"]
    lines += [f"    {count:5} {verdict}" for verdict, count in verdicts.items()]
    lines += [f"    {len(names):5} cases of {who}" for who, names in by.items()]
    return [*lines, "the bounds assume:", *(f"    {words}" for words in ASSUMED)]


def as_json(rows: Iterable[Judgement]) -> str:
    """{"rows": […]} in strict JSON. A number that is not finite is null: a NaN or infinity where there should be
    none (any verdict beyond the bound), or nothing to measure (ulps of gradients, everything of "skipped")."""
    return json.dumps({"rows": [row.as_json() for row in rows]}, indent=1, allow_nan=False)


def check_writable(file: Path) -> None:
    """OSError unless `file` can be written, before any work is done."""
    if file.is_dir():
        raise IsADirectoryError(f"{file} is a folder")
    try:
        with tempfile.NamedTemporaryFile(dir=file.absolute().parent):
            pass
    except FileNotFoundError as wrong:  # which names a file that was only tried
        raise FileNotFoundError(f"{file} cannot be written: {wrong.strerror}") from wrong
    if file.exists() and not os.access(file, os.W_OK):
        raise PermissionError(f"{file} is read-only")


def write(file: Path, text: str) -> None:
    """Write a text and a line end, whole or not at all."""
    write_whole(file, f"{text}\n".encode())
