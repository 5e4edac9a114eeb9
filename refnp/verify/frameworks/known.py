"""The rows of a table of what a framework is known for: a name, why, the cases in which it shows, its formula."""

from collections.abc import Callable
from functools import partial
from typing import Any

from refnp.verify.case import Convention, KnownDefect

Names = str | tuple[str, ...]  # between commas, or a tuple where a name has a comma


def names(given: Names) -> tuple[str, ...]:
    """Names between commas as a tuple."""
    return given if isinstance(given, tuple) else tuple(part.strip() for part in given.split(",") if part)


def row(
    kind: type, framework: str, issue: str, why: str, cases: Names, quantities: str = "", dtypes: str = "", **more: Any
) -> Any:
    """A known defect or a convention; `more` are fields of a `KnownDefect` that say what makes it."""
    return kind(framework, issue, why, names(quantities), names(dtypes), names(cases), **more)


def rows_of(framework: str) -> tuple[Callable[..., KnownDefect], Callable[..., Convention]]:
    """`defect` and `convention`, which make the rows of a framework."""
    return partial(row, KnownDefect, framework), partial(row, Convention, framework)
