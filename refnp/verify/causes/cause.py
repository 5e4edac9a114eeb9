"""What rows have in common: the answers are as if something, or no mistake fits and there is a pattern."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.verify.case import Problem
from refnp.verify.causes.answered import Answered, Row


@dataclass(frozen=True)
class Cause:
    """What the rows of one layer have in common: the answers are as if `says`. "" if no mistake gives them.

    `before` and `after` are the largest error over bound of these rows, against the right value and the mistaken one.
    `others` are mistakes that no row tells from the first. `pattern` says what else is known of the rows, `where` which
    line of a page is another, and `seen` what the function is seen to do, if no mistake fits.
    """

    says: str
    rows: tuple
    before: float
    after: float
    layer: str = ""
    others: tuple[str, ...] = ()
    pattern: str = ""
    where: str = ""
    seen: str = ""

    def as_json(self) -> dict[str, Any]:
        """What is said and of which rows."""
        texts = {name: getattr(self, name) for name in ("says", "others", "where", "pattern", "seen")}
        return {**texts, "rows": [list(row) for row in self.rows]}

    def __str__(self) -> str:
        count = f"{len(self.rows)} row{'' if len(self.rows) == 1 else 's'}"
        where = f", {self.pattern}" if self.pattern else ""
        if not self.says:
            what = f"{self.seen}; " if self.seen else ""
            return f"{self.layer}: {what}no known mistake fits {count} (error over bound {short(self.before)}){where}"
        if math.isnan(self.after):  # what was wrong before there were numbers, or what is known of a framework
            return f"{self.layer}: {self.says} ({count}{where})"
        fits = ", or ".join(f"as if {says.removeprefix('as if ')}" for says in (self.says, *self.others))
        falls = f"error over bound falls from {short(self.before)} to {short(self.after)}"
        return f"{self.layer}: {fits} ({falls}; {count}{where})"


def short(ratio: float) -> str:
    """An error over bound in three digits."""
    return "inf" if math.isinf(ratio) else f"{ratio:.3g}"


def fits_some(rows: Iterable[Row], left: Iterable[Row]) -> str:
    """How many rows of how many are explained, and some that are not; "" where none is left."""
    rows, left = sorted(rows), sorted(left)
    if not left:
        return ""
    named = "; ".join(", ".join(row) for row in left[:2])
    rest = f" and {len(left) - 2} more" if len(left) > 2 else ""
    return f"fits {len(rows)} of {len(rows) + len(left)} rows, and not {named}{rest}"


def pattern(rows: set[Row], answered: list[Answered]) -> str:
    """What sets these rows apart from those that are right: a precision, outputs or gradients, a kind of input."""
    every = {row for a in answered for row in a.rows}
    fine = every - rows
    outputs = lambda chosen: {row[2] == "output" for row in chosen}
    names = {a.problem.case.name: a.problem for a in answered}
    found = []
    if len(types := {row[1] for row in rows}) == 1 < len({row[1] for row in every}):
        found.append(f"in {next(iter(types))} alone")
    if outputs(rows) == {True} and False in outputs(every):
        found.append("outputs alone")
    if outputs(rows) == {False} and True in outputs(fine):
        quantities = {row[2] for row in rows}
        found.append(next(iter(quantities)) + " alone" if len(quantities) == 1 else "gradients alone")
    given = {a.row(q): value for a in answered for q, value in a.answer.items()}
    if all(np.isnan(given[row]).all() for row in rows if row in given):
        found.append("where every number is NaN")
    for says, holds in PATTERNS:
        if fine and all(holds(names[row[0]]) for row in rows) and not any(holds(names[row[0]]) for row in fine):
            found.append(says)
    for which, part in (("an axis", slice(None)), ("the last axis", slice(-1, None))):
        length = lambda row, part=part: max(
            (n for x in names[row[0]].arrays.values() for n in x.shape[part]), default=0
        )
        if fine and (most := max(map(length, fine))) < min(map(length, rows)):
            found.append(f"only where {which} is longer than {most}")
            break
    if len(cases := {row[0] for row in rows}) == 1 < len(names):
        found.append(f"in the case {next(iter(cases))} alone")
    return ", ".join(found)


def _hides_a_row(problem: Problem) -> bool:
    mask = problem.case.options.get("mask")
    return mask is not None and not np.asarray(mask).any(-1).all()


PATTERNS: tuple[tuple[str, Callable[[Problem], bool]], ...] = (
    ("only where a query may attend to nothing", _hides_a_row),
    ("only under a mask", lambda p: p.case.options.get("mask") is not None),
    ("only where an axis has one element", lambda p: any(1 in a.shape for a in p.arrays.values())),
    ("only where an axis is empty", lambda p: any(0 in a.shape for a in p.arrays.values())),
    ("only for inputs that are not finite", lambda p: not all(np.isfinite(a).all() for a in p.arrays.values())),
    ("only for inputs larger than 1000", lambda p: any(np.abs(a).max(initial=0) > 1000 for a in p.arrays.values())),
)  # fmt: skip
