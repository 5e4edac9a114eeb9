"""The table of a library's differentiable operations: for each, in each dtype and order, the digits its gradient has.

An operation is any object with the attributes

    name: str        function: callable        args: tuple of arrays, nested or not
    analytic: bool   whether it computes with complex numbers, so that the complex step can be taken
    order2: bool     optional, whether to take second derivatives; True if it is not there
    digits: float    optional, a bar of its own
    model: bool      optional; a whole model, made of operations that have rows of their own: float64, first order only,
                     and where it has ten arrays or more by projections of each array alone, which cover every element
                     (`gradcheck.first_order` says how surely)
    equation: Any    optional; where it is not None, the arguments are hard ones, and every element of the gradient is
                     counted by its own digits, against the `exact` of the operation: an Exact, or None where there are
                     no numbers of arbitrary precision, and then no rows

and the library's claim is one `vjp(f, *args) → (value, pullback)` for all of them.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from gradcheck.checks import compare
from gradcheck.exact import EXACT
from gradcheck.flat import leaves_of, replace_leaves
from gradcheck.precision import dtype_name, wider

Operation = Any  # with the attributes above
MANY = 10  # arrays of a model whose elements are compared in projections alone


@dataclass(frozen=True)
class Row:
    """One operation in one dtype and order: whether its bar `holds`, and a `note` on why not, on kinks and what was
    left out."""

    name: str
    dtype: str
    order: int
    method: str
    elements: int
    digits: float
    holds: bool
    note: str = ""
    projected: int = 0  # derivatives that were compared in projections, beside the `elements` one by one

    def public(self) -> dict[str, Any]:
        """What the JSON file says of it."""
        return {key: value for key, value in asdict(self).items() if key not in ("holds", "note")}

    @property
    def derivatives(self) -> int:
        """How many derivatives were compared, in whatever way."""
        return self.elements + self.projected


def table(operations: Iterable[Operation], *, vjp: Callable, digits: float = 12.0, seed: int = 0) -> Iterator[Row]:
    """Check every operation and yield its rows, as soon as each is computed.

    In float64 the first and (where `order2`) the second order, in float32 and longdouble the first; of a `model` the
    first of these alone; element by element in float64 and float32, first order. `digits` is the bar in float64; the
    others are asked for the same share of their digits. An analytic operation must reach it by the complex step; one
    that is not must agree up to the error of differences. An operation that raises is a row without digits, not an end.
    """
    for operation in operations:
        of: dict[str, Any] = {"vjp": vjp, "digits": getattr(operation, "digits", None) or digits, "seed": seed}
        if getattr(operation, "equation", None) is not None:
            if operation.exact is not None:
                exact = replace(operation.exact, columns={})  # where both precisions hold the same numbers
                yield _row(operation, np.float64, exact=exact, **of)
                yield _row(operation, np.float32, exact=exact, **of)
            continue
        yield _row(operation, np.float64, **of)
        if getattr(operation, "model", False):
            continue
        if getattr(operation, "order2", True):
            yield _row(operation, np.float64, order=2, **of)
        yield _row(operation, np.float32, **of)
        if wider(np.float64) is not None:
            yield _row(operation, np.longdouble, **of)


def _row(operation: Operation, dtype: DTypeLike, *, order: int = 1, **options: Any) -> Row:
    """The row of one comparison; `options` are those of `compare`."""
    try:
        report = compare(
            operation.function,
            cast(operation.args, dtype),
            order=order,
            method="complex_step" if operation.analytic else "auto",
            name=operation.name,
            **options,
            max_elements=0 if getattr(operation, "model", False) and len([*leaves_of(operation.args)]) >= MANY else 40,
        )
    except Exception as failure:  # one broken operation must not hide the others
        message = f"{type(failure).__name__}: {failure}".splitlines()[0]
        return Row(operation.name, dtype_name(dtype), order, "none", 0, 0.0, False, message)
    coarse = order == 2 and wider(np.float64) is None  # differences of first derivatives, and nothing makes them finer
    holds = report.agrees and (report.digits >= report.asked or not operation.analytic or coarse)
    notes = [f"{len(report.kinks)} kinks"] if report.kinks else []
    notes += [f"{report.left_out} left out"] if report.left_out else []
    if not holds:
        notes[:0] = [str(found) for found in (report.fault, report.worst) if found is not None]
    found = round(report.digits, 2)
    if not report.elements and report.projected:
        notes.append(f"{report.projected} in projections")
    return Row(
        operation.name, dtype_name(dtype), order, report.method, report.elements, found, holds, "; ".join(notes),
        report.projected,
    )  # fmt: skip


def cast(args: tuple, dtype: DTypeLike) -> tuple:
    """The same arguments with every floating array in `dtype`."""
    new = {
        path: np.asarray(leaf).astype(dtype)
        for path, leaf in leaves_of(args)
        if isinstance(leaf, (np.ndarray, np.generic, float)) and np.asarray(leaf).dtype.kind == "f"
    }
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
    exact = min((row for row in double if row.method == EXACT), key=lambda row: row.digits, default=None)
    below = sum(not row.holds for row in rows)
    bars = f"{below} below the bar" if below else "every bar holds"
    return (
        f"{len(rows)} rows, {sum(row.derivatives for row in rows)} derivatives; least in float64: {least.digits:.1f} "
        f"digits ({least.name}, order {least.order}); "
        + (f"element by element {exact.digits:.1f} ({exact.name}); " if exact else "")
        + bars
    )
