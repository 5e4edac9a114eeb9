"""Figures as tables: drawn with `rich` where it is installed, in plain text otherwise."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass

from refnp.studies.evaluation import COVERAGES, Figure, Figures


@dataclass(frozen=True)
class Table:
    """A title, names of columns, and rows of cells, the first of which says where."""

    title: str
    heading: list[str]
    rows: list[list[str]]


def tables(places: dict[str, Figures], shift: float) -> list[Table]:
    """The figures, by place and name: marginal and joint likelihoods in tables of their own."""
    titles = {"inside": "inside", "shifted": f"shifted by {shift:g}", "beyond": "beyond the range"}
    layouts = [
        (
            f"{kind} log-likelihood per target",
            {
                "model": f"{kind} log-likelihood",
                "exact posterior": f"exact {kind} log-likelihood",
                "oracle gap": f"{kind} gap",
            },
        )
        for kind in ("marginal", "joint")
    ]
    layouts += [
        (
            "KL(exact posterior ‖ model) per target",
            {"each by itself": "KL by itself", "exact marginals": "exact KL by itself", "all together": "KL together"},
        ),
        ("RMSE of the mean", {"model": "RMSE", "exact posterior": "exact RMSE"}),
        ("targets within the central interval", {f"{p} %": f"coverage {p} %" for p in COVERAGES}),
    ]
    found = []
    for title, columns in layouts:
        there = {column: name for column, name in columns.items() if name in places["inside"]}
        if any(not name.startswith("exact") for name in there.values()):
            rows = [
                [titles[place], *(cell(name, figures[name]) for name in there.values())]
                for place, figures in places.items()
            ]
            found.append(Table(title, ["", *there], rows))
    return found


def cell(name: str, figure: Figure) -> str:
    """A figure with its standard error; coverages in per cent."""
    if name.startswith("coverage"):
        return f"{100 * figure.mean:.1f} ± {100 * figure.error:.1f} %"
    return f"{figure.mean:.4f} ± {figure.error:.4f}"


def show(table: Table) -> None:
    """Print a table."""
    if importlib.util.find_spec("rich") is not None and sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table as Drawn

        drawn = Drawn(title=table.title, title_justify="left")
        for i, name in enumerate(table.heading):
            drawn.add_column(name, justify="right" if i else "left", no_wrap=True)
        for row in table.rows:
            drawn.add_row(*row)
        Console().print(drawn)
    else:
        print("\n".join(["", *plain(table)]))


def plain(table: Table) -> list[str]:
    """A table as lines of text, columns aligned to the right."""
    rows = [table.heading, *table.rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.heading))]
    lines = [
        "  ".join(
            text.ljust(width) if i == 0 else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return [table.title, *(f"  {line}".rstrip() for line in lines)]
