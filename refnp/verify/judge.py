"""What is judged, and the verdict: how far each array is from the reference, in units of what rounding allows.

gradients    every differentiable function against the complex step (gradcheck's table)
properties   what must hold for every input, within rounding, on drawn ones
frameworks   every case: refnp itself in float32 and float64, its reference against the textbook, PyTorch, JAX
"""

import fnmatch
import functools
import math
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck.precision import scaled
from gradcheck.table import table
from refnp.autograd import vjp
from refnp.numbers.rounding import tolerance
from refnp.verify.bounds import deviation, has_bound, unit_roundoff
from refnp.verify.case import (
    Answer,
    Case,
    Convention,
    FailedError,
    GradientInputs,
    KnownDefect,
    NotOfferedError,
    Problem,
    quiet,
)
from refnp.verify.excuses import Given, excused_by
from refnp.verify.frameworks import PACKAGES, Framework, framework_of, installed
from refnp.verify.layers import cases, gradient_inputs
from refnp.verify.properties import Property, properties
from refnp.verify.record import DTYPES, FOLDER, Recording
from refnp.version import __version__

DIGITS = 12.0  # asked of gradients in float64, as gradcheck asks
WITHIN, CONVENTION, KNOWN = "within bound", "another convention", "known defect"
DEVIATES, SKIPPED, NOT_JUDGED = "deviates", "skipped", "not judged"
BEYOND = (DEVIATES, KNOWN, CONVENTION)  # its bound
Key = tuple[str, str, str]  # the case, the precision and the quantity of a row


@dataclass(frozen=True)
class Judgement:
    """The verdict on one quantity of one case, a row of the report. The first ten fields are what `--json` writes."""

    section: str
    case: str
    framework: str
    version: str
    dtype: str
    quantity: str
    error_over_bound: float
    ulps: float
    verdict: str
    issue: str = ""
    claimed: float = math.nan  # the worst element as it was given, and as it should be
    right: float = math.nan
    why: str = ""
    size: int = 0  # how many numbers the array has,
    without_bound: int = 0  # and how many of them are not judged

    @property
    def key(self) -> Key:
        """What names a row in a report."""
        return self.case, self.dtype, self.quantity

    def as_json(self) -> dict[str, Any]:
        """Plain values; a number that is not finite (a NaN where there should be none, nothing to compare) is null."""
        names = list(Judgement.__dataclass_fields__)[:10]
        values = {name: getattr(self, name) for name in names}
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}


def judged(
    problem: Problem,
    answer: Answer,
    reference: Answer,
    framework: str,
    version: str,
    *,
    dtype: str = "",
    known: Sequence[KnownDefect] = (),
    vain: Counter[str] | None = None,
) -> list[Judgement]:
    """Judge the output and each gradient of `answer`, computed in `dtype` (by default the problem's).

    What the framework is known for stands in the case, and in `known`; `vain` counts what explained nothing.
    refnp adds up the rows of its means in blocks, and is judged as such; others may add in any order.
    """
    case, dtype, found = problem.case, dtype or problem.dtype, []
    for quantity, rounded in (problem.blocked_bounds if framework == "refnp" else problem.bounds).items():
        given, right = np.asarray(answer[quantity]), np.asarray(reference[quantity])
        common = ("frameworks", case.name, framework, version, dtype, quantity)
        named = [d for d in (*case.known_defects, *known) if d.covers(framework, dtype, quantity, case.name)]
        asked = Given(problem, quantity, given, dtype, version, answer)
        if given.shape != right.shape:
            verdict, issue, why = verdict_of(excused_by(named, asked, vain))
            why = why or f"shape {given.shape} where {right.shape} is right"
            found.append(Judgement(*common, math.inf, math.inf, verdict, issue, why=why))
            if quantity == "output":  # no cotangent fits it
                break
            continue
        allowed = tolerance(rounded, problem.precision(quantity) if case.formats else dtype)
        ratio, ulps, worst = deviation(given, right, allowed, dtype)
        if ratio <= 1:
            largest = problem.largest(quantity, right)
            unknown = int(np.sum(~has_bound(right, allowed, largest, dtype)))
            verdict, ratio = (NOT_JUDGED, math.nan) if unknown == right.size > 0 else (WITHIN, ratio)
            why = beyond_blocks(problem, quantity, given, right)
            row = Judgement(*common, ratio, ulps, verdict, why=why, size=right.size, without_bound=unknown)
            found.append(row)
            continue
        verdict, issue, why = verdict_of(excused_by(named, asked, vain))
        found.append(Judgement(*common, ratio, ulps, verdict, issue, float(given[worst]), float(right[worst]), why))
    return found


def verdict_of(defect: KnownDefect | None) -> tuple[str, str, str]:
    """Verdict, issue and reason by what excuses a deviation."""
    if defect is None:
        return DEVIATES, "", ""
    return CONVENTION if isinstance(defect, Convention) else KNOWN, defect.issue, defect.why


def crashed(problem: Problem, other: Framework, failure: FailedError) -> Judgement:
    """The judgement of a framework that crashed on a problem, or took too long."""
    case = problem.case
    common = ("frameworks", case.name, other.name, other.version, problem.dtype, "output", math.inf, math.inf)
    for defect in (*case.known_defects, *other.known_defects):
        if defect.fails and defect.covers(other.name, problem.dtype, "output", case.name):
            return Judgement(*common, KNOWN, defect.issue, why=defect.why)
    return Judgement(*common, DEVIATES, why=str(failure))


def asked_as(posed: Callable[[Problem], Problem], problem: Problem, reference: Answer) -> tuple[Problem, Answer]:
    """The problem as some frameworks are asked it, and its reference: the one given, unless options are others."""
    asked = posed(problem)
    return asked, reference if asked.case.options is problem.case.options else asked.reference()


def beyond_blocks(problem: Problem, quantity: str, given: np.ndarray, right: np.ndarray) -> str:
    """A remark on what is right in some order of summation, and not in refnp's; "" where there is none."""
    any_order, blocks = (tolerance(b[quantity], problem.dtype) for b in (problem.bounds, problem.blocked_bounds))
    if np.array_equal(any_order, blocks, equal_nan=True):
        return ""
    ratio, _, _ = deviation(given, right, blocks, problem.dtype)
    return f"right for sums in sequence, {ratio:.3g} times what sums in blocks may be off" if ratio > 1 else ""


def failed(section: str, name: str, framework: str, version: str, dtype: str, failure: Exception) -> Judgement:
    """The judgement of something that raised where it should have answered."""
    why = f"{type(failure).__name__}: {failure}".splitlines()[0]
    return Judgement(section, name, framework, version, dtype, "output", math.inf, math.inf, DEVIATES, why=why)


def skipped(case: Case, framework: str, version: str, why: str) -> Judgement:
    """The judgement of a case for which a framework has no function."""
    return Judgement("frameworks", case.name, framework, version, "", "", math.nan, math.nan, SKIPPED, why=why)


@dataclass(frozen=True)
class Check:
    """One thing to verify: its section, its name, and the work, which yields judgements."""

    section: str
    name: str
    work: Callable[[], list[Judgement]]

    def run(self) -> list[Judgement]:
        """Do the work, with warnings off: many inputs are meant to overflow, in refnp or in a framework."""
        with quiet():
            try:
                return self.work()
            except Exception as failure:  # one broken layer must not hide the others
                return [failed(self.section, self.name, "refnp", __version__, "", failure)]


def frameworks(live: tuple[str, ...] = ("PyTorch",)) -> list[Framework]:
    """PyTorch and JAX: live where named in `live` and installed, else as recorded; without either, absent."""
    found = []
    for name in PACKAGES:
        if name in live and installed(name):
            found.append(framework_of(name))
        elif (file := FOLDER / f"{name.lower()}.npz").exists():
            found.append(Recording(file).framework)
    return found


def checks(others: list[Framework], only: str | None = None) -> list[Check]:
    """Everything to verify whose name, or section/name, contains `only` or matches it where it has wildcards."""
    found = [
        Check("gradients", i.name, functools.partial(gradient_judgements, i)) for i in gradient_inputs() if i.is_judged
    ]
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
        quantity = "derivatives, element by element" if inputs.equation else f"derivatives of order {row.order}"
        common = ("gradients", row.name, "refnp", __version__, row.dtype, quantity)
        found.append(Judgement(*common, ratio, math.nan, verdict, why=row.note))
    return found


def property_judgements(stated: Property) -> list[Judgement]:
    """One property in both precisions, on inputs drawn by its name."""
    found = []
    for dtype in DTYPES:
        rng = np.random.default_rng(zlib.crc32(stated.name.encode()))
        given, right, allowed = stated.measure(rng, np.dtype(dtype).type, unit_roundoff(dtype))
        ratio, ulps, worst = deviation(given, right, allowed, dtype)
        common = ("properties", stated.name, "refnp", __version__, dtype, "output", ratio, ulps)
        if ratio <= 1:
            found.append(Judgement(*common, WITHIN))
        else:
            found.append(Judgement(*common, DEVIATES, "", float(given[worst]), float(right[worst])))
    return found


def case_judgements(case: Case, others: list[Framework]) -> list[Judgement]:
    """refnp, its reference, and the others on one case, in both precisions."""
    found: list[Judgement] = []
    refused: dict[str, Judgement] = {}
    others = [] if case.layer.whole else others
    for dtype in DTYPES:
        problem = case.problem(dtype)
        reference = problem.reference()
        found += judged(problem, problem.answer(), reference, "refnp", __version__)
        if dtype == "float64" and not case.layer.whole:
            # the reference against the textbook's equation, both in the widest precision
            textbook = {quantity: rounded.value for quantity, rounded in problem.bounds.items()}
            found += judged(problem, reference, textbook, "refnp", __version__, dtype="longdouble")
        posed: dict[Callable, tuple[Problem, Answer]] = {}
        for other in others:
            try:
                if other.posed not in posed:
                    posed[other.posed] = asked_as(other.posed, problem, reference)
                asked, right = posed[other.posed]
                answer = other.answer(asked)
                found += judged(asked, answer, right, other.name, other.version, known=other.known_defects)
            except NotOfferedError as reason:
                refused[other.name] = skipped(case, other.name, other.version, str(reason))
            except FailedError as failure:
                found.append(crashed(problem, other, failure))
            except Exception as failure:  # whatever it is, it is no answer
                found.append(failed("frameworks", case.name, other.name, other.version, dtype, failure))
    return found + list(refused.values())
