"""`refnp verify`: all that is judged, check by check, so that progress can be shown.

gradients    every differentiable function against the complex step (gradcheck's table)
properties   what must hold for every input, within rounding
frameworks   every case: refnp itself in float32 and float64, its reference against the textbook, PyTorch, JAX
"""

from __future__ import annotations

import fnmatch
import functools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradcheck.precision import scaled
from gradcheck.table import table
from refnp.autograd import vjp
from refnp.verify.case import Answer, Case, GradientInputs, NotOfferedError, Problem
from refnp.verify.judge import DEVIATES, WITHIN, Judgement, failed, judged, skipped
from refnp.verify.layers import cases, gradient_inputs
from refnp.verify.properties import Property, properties
from refnp.verify.record import ADAPTERS, DTYPES, FOLDER, Recording
from refnp.version import __version__

DIGITS = 12.0  # asked of gradients in float64, as gradcheck asks


@dataclass(frozen=True)
class Framework:
    """A framework that answers problems, live or from a recording."""

    name: str
    version: str
    answer: Callable[[Problem], Answer]


@dataclass(frozen=True)
class Check:
    """One thing to verify: its section, its name, and the work, which yields judgements."""

    section: str
    name: str
    work: Callable[[], list[Judgement]]

    def run(self) -> list[Judgement]:
        """Do the work, with warnings off: many inputs are meant to overflow, in refnp or in a framework."""
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


def checks(others: list[Framework], only: str | None = None) -> list[Check]:
    """Everything to verify whose name, or section/name, contains `only` or matches it where it has wildcards."""
    found = [Check("gradients", i.name, functools.partial(gradient_judgements, i)) for i in gradient_inputs()]
    found += [Check("properties", p.name, functools.partial(property_judgements, p)) for p in properties()]
    found += [Check("frameworks", c.name, functools.partial(case_judgements, c, others)) for c in cases()]
    return [check for check in found if only is None or matches(f"{check.section}/{check.name}", only)]


def matches(name: str, pattern: str) -> bool:
    """Whether a name contains the pattern, or matches it where that has wildcards."""
    return pattern in name or fnmatch.fnmatchcase(name, pattern)


def gradient_judgements(inputs: GradientInputs) -> list[Judgement]:
    """What gradcheck's table says of one function; error over bound is 10 to the digits that are missing."""
    found = []
    for row in table([inputs], vjp=vjp, digits=DIGITS):
        missing = 10 ** min(scaled(DIGITS, np.dtype(row.dtype)) - row.digits, 300.0)
        ratio = min(missing, 1.0) if row.holds else max(missing, math.nextafter(1, 2))
        verdict = WITHIN if row.holds else DEVIATES
        quantity = f"derivatives of order {row.order}"
        common = ("gradients", row.name, "refnp", __version__, row.dtype, quantity)
        found.append(Judgement(*common, ratio, math.nan, verdict, why=row.note))
    return found


def property_judgements(stated: Property) -> list[Judgement]:
    """One property in both precisions."""
    return [stated.judged(dtype, __version__) for dtype in DTYPES]


def case_judgements(case: Case, others: list[Framework]) -> list[Judgement]:
    """refnp, its reference, and the others on one case, in both precisions."""
    found: list[Judgement] = []
    refused: dict[str, Judgement] = {}
    for dtype in DTYPES:
        problem = case.problem(dtype)
        reference = problem.reference()
        found += judged(problem, problem.answer(), reference, "refnp", __version__)
        if dtype == "float64":  # the reference against the textbook's equation, both in the widest precision
            textbook = {quantity: rounded.value for quantity, rounded in problem.bounds.items()}
            found += judged(problem, reference, textbook, "refnp", __version__, dtype="longdouble")
        for other in others:
            try:
                found += judged(problem, other.answer(problem), reference, other.name, other.version)
            except NotOfferedError as reason:
                refused[other.name] = skipped(case, other.name, other.version, str(reason))
            except Exception as failure:  # whatever it is, it is no answer
                found.append(failed("frameworks", case.name, other.name, other.version, dtype, failure))
    return found + list(refused.values())
