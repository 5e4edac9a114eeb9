"""The report of `refnp verify`: a line for each check, a summary to read, and as JSON a row for each judgement."""

import argparse
import itertools
import json
import math
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from platform import platform
from typing import Any

import numpy as np

from refnp.files import write_whole
from refnp.numbers.rounding import ASSUMED, judging_precision
from refnp.verify.judge import (
    BEYOND,
    CONVENTION,
    DEVIATES,
    KNOWN,
    NOT_JUDGED,
    SKIPPED,
    WITHIN,
    Check,
    Judgement,
)
from refnp.version import __version__

WIDTH = 52
WORDS = {
    WITHIN: "",
    CONVENTION: " another convention",
    KNOWN: " known defect",
    DEVIATES: " DEVIATES",
    NOT_JUDGED: ", not judged",
}


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


def came(row: Judgement) -> str:
    """ "0.1 where 0.2 is right", the worst element of a row; "" where there were no numbers to compare."""
    if math.isnan(row.claimed) and math.isnan(row.right):
        return ""
    return "{} where {} is right".format(*exactly(row.claimed, row.right))


def line(check: Check, rows: list[Judgement]) -> str:
    """One line for one check: for each framework the worst error over its bound, and a word where it is above 1."""
    parts = []
    for name in dict.fromkeys(row.framework for row in rows):
        own = [row for row in rows if row.framework == name]
        worst = max(own, key=lambda row: (row.verdict in BEYOND, ratio_of(row)))
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
            text += f", {numbers}" if (numbers := came(row)) else ""
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
    judged = len(rows) - verdicts[SKIPPED] - verdicts[NOT_JUDGED]
    by: dict[str, set[str]] = {}
    for row in rows:
        if row.section == "frameworks" and row.verdict != SKIPPED:
            by.setdefault(f"{row.framework} {row.version}", set()).add(row.case)
    lines = [f"{judged} rows judged against {precision}, in {seconds:.1f} s"]
    lines += [f"    {count:5} {verdict}" for verdict, count in verdicts.items()]
    lines += [f"    {len(names):5} cases of {who}" for who, names in by.items()]
    return [*lines, "the bounds assume:", *(f"    {words}" for words in ASSUMED)]


def as_json(rows: Iterable[Judgement], causes: Iterable[Any] | None = None) -> str:
    """{"judge": {…}, "rows": […], "causes": […]} in strict JSON, causes where they are given.

    "judge" says who judged: refnp's version and NumPy's, the precision of the reference, the platform. A number that is
    not finite is null: a NaN or infinity where there should be none (any verdict beyond the bound), or nothing to
    measure (ulps of gradients, everything of "skipped").
    """
    judge = {"refnp": __version__, "numpy": np.__version__, "reference": judging_precision(), "platform": platform()}
    found: dict[str, Any] = {"judge": judge, "rows": [row.as_json() for row in rows]}
    if causes is not None:
        found["causes"] = [cause.as_json() for cause in causes]
    return json.dumps(found, indent=1, allow_nan=False)


def shown_or_written(prog: str, about: str, file: Path, text: Callable[[], str], argv: Sequence[str] | None) -> int:
    """A command that prints a text, or with --write writes it to a file."""
    parser = argparse.ArgumentParser(prog=f"python -m {prog}", description=about)
    parser.add_argument("--write", action="store_true", help=f"write {file.name} and not the terminal")
    if parser.parse_args(argv).write:
        write_whole(file, text().encode())
    else:
        print(text(), end="")
    return 0


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
