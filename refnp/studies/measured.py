"""Figures of experiments that take minutes, kept as JSON in refnp/studies/measured/, beside their command.

    python -m refnp.studies.growth --write          python -m refnp.studies.calibration --write
    python -m refnp.studies.decisions --write       each runs the whole experiment and writes its file

docs/claims.md shows the tables; tests run the same functions on a few tasks and compare.
"""

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from refnp.studies.evaluation import Table, plain
from refnp.verify.record import write_whole

FOLDER = Path(__file__).parent / "measured"
Rows = dict[str, dict[str, Any]]  # by the subject, and by what is measured of it


def kept(name: str) -> Rows:
    """The figures of an experiment, by subject and by name."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["rows"]


def keep(name: str, rows: Mapping[str, Mapping[str, Any]]) -> Path:
    """Write the figures of an experiment, and the command that made them."""
    content = {"command": f"python -m refnp.studies.{name} --write", "rows": rows}
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / f"{name}.json"
    write_whole(file, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
    return file


def mean_and_error(values: Any) -> list[float]:
    """The mean of independent values and its standard error."""
    values = [float(value) for value in values]
    mean = math.fsum(values) / len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return [mean, math.sqrt(variance / len(values))]


def table(title: str, first: str, columns: Mapping[str, str], rows: Mapping[str, Mapping[str, Any]]) -> Table:
    """Some of the figures as a table: columns with the format of their numbers; pairs are a mean and its error."""
    found = []
    for subject, figures in rows.items():
        found.append([subject, *(cell(figures.get(column), form) for column, form in columns.items())])
    return Table(title, [first, *columns], found)


def cell(value: Any, form: str) -> str:
    """A number in the format given, a pair as mean ± error, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ± ".join(format(part, form) for part in value)
    return format(value, form)


def command(name: str, measure: Callable[[], Rows], tables: Callable[[Rows], list[Table]]) -> None:
    """Measure, print the tables, and with --write keep the figures."""
    rows = measure()
    for one in tables(rows):
        print("\n".join(["", *plain(one)]))
    if "--write" in sys.argv[1:]:
        print(f"\nwritten to {keep(name, rows)}")
