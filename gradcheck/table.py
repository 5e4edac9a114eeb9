"""The table of a library's differentiable operations: for each, in each dtype and order, the digits its gradient has.

An operation is any object with the attributes

    name: str        function: callable        args: tuple of arrays, nested or not
    analytic: bool   whether it computes with complex numbers, so that the complex step can be taken
    order2: bool     optional, whether to take second derivatives; True if it is not there
    digits: float    optional, a bar of its own
    model: bool      optional; a whole model, made of operations that have rows of their own: float64, first order only

and the library's claim is one `vjp(f, *args) → (value, pullback)` for all of them.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gradcheck.checks import compare
from gradcheck.flat import Path, replace_leaves
from gradcheck.precision import dtype_name, wider

Operation = Any  # with the attributes above


@dataclass(frozen=True)
class Row:
    """One operation in one dtype and order: whether its bar `holds`, and a `note` on why not or on kinks left out."""

    name: str
    dtype: str
    order: int
    method: str
    elements: int
    digits: float
    holds: bool
    note: str = ""

    def public(self) -> dict[str, Any]:
        """What the JSON file says of it."""
        return {key: value for key, value in asdict(self).items() if key not in ("holds", "note")}


def table(operations: Iterable[Operation], *, vjp: Callable, digits: float = 12.0, seed: int = 0) -> Iterator[Row]:
    """Check every operation and yield its rows, as soon as each is computed.

    In float64 the first and (where `order2`) the second order, in float32 and longdouble the first; of a `model` the
    first of these alone. `digits` is the bar in float64; the others are asked for the same share of their digits. An
    analytic operation must reach it by the complex step; one that is not must agree up to the error of differences. An
    operation that raises is a row without digits, not an end.
    """
    for operation in operations:
        bar = getattr(operation, "digits", None) or digits
        yield _row(operation, np.dtype(np.float64), 1, vjp, bar, seed)
        if getattr(operation, "model", False):
            continue
        if getattr(operation, "order2", True):
            yield _row(operation, np.dtype(np.float64), 2, vjp, bar, seed)
        yield _row(operation, np.dtype(np.float32), 1, vjp, bar, seed)
        if wider(np.float64) is not None:
            yield _row(operation, np.dtype(np.longdouble), 1, vjp, bar, seed)


def _row(operation: Operation, dtype: np.dtype, order: int, vjp: Callable, bar: float, seed: int) -> Row:
    method = "complex_step" if operation.analytic else "auto"
    try:
        report = compare(
            operation.function,
            cast(operation.args, dtype),
            vjp=vjp,
            order=order,
            digits=bar,
            method=method,
            seed=seed,
            name=operation.name,
        )
    except Exception as failure:  # one broken operation must not hide the others
        said = f"{type(failure).__name__}: {failure}".splitlines()[0]
        return Row(operation.name, dtype_name(dtype), order, "none", 0, 0.0, False, said)
    holds = report.agrees and (report.digits >= report.asked or not operation.analytic)
    notes = [f"{len(report.kinks)} kinks left out"] if report.kinks else []
    if not holds and (worst := report.worst) is not None:
        notes.insert(0, f"{worst.place}: claimed {worst.claimed}, {worst.by} {worst.numeric}")
    digits, note = round(report.digits, 2), "; ".join(notes)
    return Row(operation.name, dtype_name(dtype), order, report.method, report.elements, digits, holds, note)


def cast(args: tuple, dtype: np.dtype) -> tuple:
    """The same arguments with every floating array in `dtype`."""

    def new(_: Path, leaf: Any) -> Any:
        if isinstance(leaf, (np.ndarray, np.generic, float)) and np.asarray(leaf).dtype.kind == "f":
            return np.asarray(leaf).astype(dtype)
        return leaf

    return replace_leaves(args, new)


def heading(width: int) -> str:
    """The heading of the printed table, for names of up to `width` characters."""
    return f"{'operation':{width}}  {'dtype':10}  order  {'method':22}  elements  digits"


def line(row: Row, width: int) -> str:
    """One row of the printed table, under its heading."""
    mark = "" if row.holds else "  BELOW THE BAR"
    note = f"  ({row.note})" if row.note else ""
    return (
        f"{row.name:{width}}  {row.dtype:10}  {row.order:5}  {row.method:22}  {row.elements:8}  {row.digits:6.1f}"
        f"{mark}{note}"
    )


def summary(rows: list[Row]) -> str:
    """The last line: how many rows and derivatives, the least digits in float64, how many are below their bar."""
    double = [row for row in rows if row.dtype == "float64"]
    if not double:
        return "nothing was checked"
    least = min(double, key=lambda row: row.digits)
    below = sum(not row.holds for row in rows)
    bars = f"{below} below the bar" if below else "every bar holds"
    return (
        f"{len(rows)} rows, {sum(row.elements for row in rows)} derivatives; least in float64: {least.digits:.1f} "
        f"digits ({least.name}, order {least.order}); {bars}"
    )
