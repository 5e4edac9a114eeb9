"""`refnp verify`: all that is judged, piece by piece, so that progress can be shown.

gradients    every differentiable operation against the complex step (gradcheck's table)
properties   what must hold for every input, within rounding
frameworks   every case: refnp itself in float32 and float64, its reference against the textbook, PyTorch, JAX
"""

from __future__ import annotations

import fnmatch
import functools
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from gradcheck.precision import scaled
from gradcheck.table import table
from refnp.autograd import vjp
from refnp.verify.case import Answer, Case, Problem
from refnp.verify.cases import cases
from refnp.verify.frameworks import NotOfferedError, jax, pytorch
from refnp.verify.judge import DEVIATES, WITHIN, Row, failed, rows_of, skipped
from refnp.verify.operations import operations
from refnp.verify.operations.operation import Operation
from refnp.verify.properties import Property, properties
from refnp.verify.recorded import DTYPES, FOLDER, Recording
from refnp.version import __version__

ADAPTERS = {"PyTorch": pytorch, "JAX": jax}
DIGITS = 12.0  # asked of gradients in float64, as gradcheck asks


@dataclass(frozen=True)
class Framework:
    """Somebody who answers problems, live or from a recording."""

    name: str
    version: str
    answer: Callable[[Problem], Answer]


@dataclass(frozen=True)
class Piece:
    """One thing to verify: its section, its name, and the work, which yields rows."""

    section: str
    name: str
    work: Callable[[], list[Row]]

    def rows(self) -> list[Row]:
        """The rows, with warnings off: many inputs are meant to overflow, in refnp or in a framework."""
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return self.work()
            except Exception as failure:  # one broken layer must not hide the others
                return [failed(self.section, self.name, "refnp", __version__, "", failure)]


def frameworks(live: tuple[str, ...] = ("PyTorch",)) -> list[Framework]:
    """PyTorch and JAX: live where named in `live` and installed, else as recorded; without either, absent."""
    found = []
    for name, adapter in ADAPTERS.items():
        file = FOLDER / f"{name.lower()}.npz"
        if name in live and adapter.installed():
            found.append(Framework(name, adapter.version(), adapter.answer))
        elif file.exists():
            recording = Recording(file)
            found.append(Framework(name, recording.version, recording.answer))
    return found


def pieces(others: list[Framework], only: str | None = None) -> list[Piece]:
    """Everything to verify whose name, or section/name, contains `only` or matches it where it has wildcards."""
    version = __version__
    found = [Piece("gradients", o.name, functools.partial(gradient_rows, o, version)) for o in operations()]
    found += [Piece("properties", p.name, functools.partial(property_rows, p, version)) for p in properties()]
    found += [Piece("frameworks", c.name, functools.partial(case_rows, c, others, version)) for c in cases()]
    return [piece for piece in found if only is None or matches(f"{piece.section}/{piece.name}", only)]


def matches(name: str, pattern: str) -> bool:
    """Whether a name contains the pattern, or matches it where that has wildcards."""
    return pattern in name or fnmatch.fnmatchcase(name, pattern)


def gradient_rows(operation: Operation, version: str) -> list[Row]:
    """What gradcheck's table says of one operation; error over bound is 10 to the digits that are missing."""
    found = []
    for row in table([operation], vjp=vjp, digits=DIGITS):
        asked = scaled(getattr(operation, "digits", None) or DIGITS, np.dtype(row.dtype))
        ratio = 10 ** min(asked - row.digits, 300.0)
        found.append(
            Row(
                "gradients",
                row.name,
                "refnp",
                version,
                row.dtype,
                f"derivatives of order {row.order}",
                min(ratio, 1.0) if row.holds else max(ratio, math.nextafter(1, 2)),
                math.nan,
                WITHIN if row.holds else DEVIATES,
                why=row.note,
            )
        )
    return found


def property_rows(stated: Property, version: str) -> list[Row]:
    """One property in both precisions."""
    return [stated.row(dtype, version) for dtype in DTYPES]


def case_rows(case: Case, others: list[Framework], version: str) -> list[Row]:
    """refnp, its reference, and the others on one case, in both precisions."""
    found: list[Row] = []
    refused: dict[str, Row] = {}
    for dtype in DTYPES:
        problem = case.problem(dtype)
        reference = problem.reference()
        found += rows_of(problem, problem.answer(), reference, "refnp", version)
        if dtype == "float64":
            found += reference_rows(problem, reference, version)
        for other in others:
            try:
                found += rows_of(problem, other.answer(problem), reference, other.name, other.version)
            except NotOfferedError as reason:
                refused[other.name] = skipped(case, other.name, other.version, str(reason))
            except Exception as failure:  # whatever it is, it is no answer
                found.append(failed("frameworks", case.name, other.name, other.version, dtype, failure))
    return found + list(refused.values())


def reference_rows(problem: Problem, reference: Answer, version: str) -> list[Row]:
    """The reference against the textbook's equation, both in the widest precision."""
    textbook = {quantity: rounded.value for quantity, rounded in problem.bounds.items()}
    return rows_of(problem, reference, textbook, "refnp", version, dtype="longdouble")


def all_rows(work: list[Piece]) -> Iterator[tuple[Piece, list[Row]]]:
    """The rows of several pieces of work, one piece after the other."""
    for piece in work:
        yield piece, piece.rows()
