"""`refnp.judge(…, every="bfloat16")`: a function of numbers asked every number of a format.

The numbers are one case of the layer, its bounds and causes those of any other case. All finite numbers have to be
right; at ±∞ and NaN an answer is right if it is the limit, which refnp gives, or what the equation gives there.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from refnp.numbers.precision import FORMATS, WIDE, Policy, policy
from refnp.numbers.rounding import ELEMENTARY, tolerance
from refnp.verify.asking import Asked
from refnp.verify.bounds import errors_over_bounds
from refnp.verify.case import Answer, Case, Layer, Problem, is_of_numbers, quiet
from refnp.verify.every.float32 import Part, about_of, everywhere_in, keep, kept, parts_of, together
from refnp.verify.every.numbers import NARROW, SPECIAL, Everywhere, everywhere, numbers_of
from refnp.verify.findings import Report
from refnp.verify.judge import DEVIATES, WITHIN, Judgement
from refnp.verify.made import known_of
from refnp.verify.report import number

EVERY = "every number"
SPECIALS = "infinities and NaN"
MOST_OF_PAIRS = 4  # digits of a format whose pairs are few
SEVERAL = 200  # numbers far apart: of all, of those near 1 and of each wrong range, in which causes are looked for
NEAR_1 = (2.0**-10, 2.0**8)  # where functions are neither flat nor straight


def precision_of(every: str, precision: str | None) -> str:
    """Where the function rounds; ValueError for a format or a precision that does not fit."""
    if every not in (*NARROW, "float32"):
        raise ValueError(f"every: there is no {every!r}; name {', '.join(NARROW)} or float32")
    named = precision or (every if every == "float32" else f"{every} in and out, float32 inside")
    if policy(named).stored.name != every:
        raise ValueError(f"every: precision={named!r} stores no {every}")
    return named


def cases_of_every(layer: Layer, listed: Sequence[Case], every: str) -> list[Case]:
    """The layer on all numbers of a format, in parts for float32; of two arguments on all pairs.

    What is known of frameworks in the `listed` cases is known in these too.
    Raises ValueError unless the layer is a function of single numbers.
    """
    names = list(listed[0].inputs)
    if not is_of_numbers(layer, len(names)):
        raise ValueError(f"every: {layer.name} is no function of single numbers, whose inputs can all be tried")
    if len(names) > 2 or (len(names) == 2 and FORMATS[every].bits > MOST_OF_PAIRS):
        raise ValueError(f"every: {layer.name} takes {len(names)} arguments; pairs can be tried in formats of 8 bits")
    known = known_of(layer, [case for case in listed if case.layer is layer])
    if every == "float32":
        return [replace(part, known_defects=known) for part in parts_of(layer, names[0])]
    numbers = numbers_of(every)
    given = [numbers] if len(names) == 1 else [np.repeat(numbers, len(numbers)), np.tile(numbers, len(numbers))]
    inputs, ones = dict(zip(names, given, strict=True)), np.ones(len(given[0]))
    return [Case(layer, EVERY, inputs, known_defects=known, cotangent=ones)]


def report_of_every(
    asked: Asked, name: str, dtypes: Sequence[str], every: str, results: str | Path | None = None
) -> Report:
    """The report with what came of all numbers, and of ±∞ and NaN; causes are looked for in some of the numbers."""
    if every == "float32":
        return report_of_parts(asked, name, None if results is None else Path(results))
    report = asked.report(name, dtypes)
    for problem, answer in report.answers:
        right, bounds = problem.reference(), problem.bounds
        for quantity in answer:
            given, allowed = np.asarray(answer[quantity]), tolerance(bounds[quantity], problem.dtype)
            if given.shape == right[quantity].shape:
                _, ratio = errors_over_bounds(given.astype(WIDE), right[quantity], allowed, problem.dtype)
                found = everywhere(quantity, every, [*problem.arrays.values()], given, right[quantity], ratio, allowed)
                report.every.append(found)
    with_causes(report, asked, asked.cases[0], dtypes)
    return report


def report_of_parts(asked: Asked, name: str, file: Path | None) -> Report:
    """The report on the parts of float32, of which those in the file are done."""
    (argument,) = asked.cases[0].inputs
    bfloat16 = numbers_of("bfloat16")
    case = replace(asked.cases[0], variant=EVERY, inputs={argument: bfloat16}, cotangent=np.ones(len(bfloat16)))
    report = asked.changed(cases=[some_of(case, ())]).report(name, ("float32",))
    about = about_of(report)
    done = {} if file is None else kept(file, about)
    by_quantity: dict[str, list[Everywhere]] = {}
    for part in asked.cases:
        if part.variant not in done:
            done[part.variant] = Part(part.variant, about, everywhere_in(asked, part))
            if file is not None:
                keep(file, done[part.variant])
        for one in done[part.variant].found:
            by_quantity.setdefault(one.quantity, []).append(one)
    report.every = [together(own) for own in by_quantity.values()]
    rows = {row.quantity: row for row in report.judgements}
    report.judgements = [row_of(one, rows[one.quantity]) for one in report.every]
    with_causes(report, asked, case, ("float32",))
    return report


def row_of(found: Everywhere, row: Judgement) -> Judgement:
    """A row of some of the numbers made one of all of them."""
    row = replace(row, size=found.count, without_bound=found.count - found.judged)
    worst = max(found.ranges, key=lambda one: one.ratio, default=None)
    if worst is None:
        return replace(row, verdict=WITHIN, ulps=found.units, error_over_bound=min(row.error_over_bound, 1.0))
    wrong = replace(row, verdict=DEVIATES, ulps=found.units, error_over_bound=worst.ratio)
    return replace(wrong, claimed=worst.given, right=worst.right)


def with_causes(report: Report, asked: Asked, case: Case, dtypes: Sequence[str]) -> None:
    """Add what comes of ±∞ and NaN; where the report does not hold, its answers become those to some of the numbers."""
    problem = report.answers[0][0] if report.answers else None
    if problem is None:
        return
    add_specials(report, asked, problem)
    if any(one.wrong for one in report.every):
        seen = asked.changed(cases=[some_of(case, report.every)]).report(report.name, dtypes)
        report.answers, report.problems = seen.answers, seen.problems


def some_of(case: Case, found: Sequence[Everywhere]) -> Case:
    """The case with some of its numbers, far apart; of one argument, also near 1, and of each range, ends and worst."""
    apart = lambda a: a[len(a) // SEVERAL // 2 :: max(1, len(a) // SEVERAL)]
    inputs = {name: apart(a) for name, a in case.inputs.items()}
    if len(inputs) == 1:
        ((name, every),) = case.inputs.items()
        size = np.abs(every)
        several = [inputs[name], apart(every[(size >= NEAR_1[0]) & (size <= NEAR_1[1])])]
        for part in (part for one in found for part in one.ranges):
            several += [apart(every[(every >= part.least) & (every <= part.most)])]
            several += [np.array([part.least, part.at, part.most], np.float32)]
        inputs = {name: np.unique(np.concatenate(several))}
    return replace(case, inputs=inputs, cotangent=np.ones(len(next(iter(inputs.values())))))


def add_specials(report: Report, asked: Asked, problem: Problem) -> None:
    """A row for ±∞ and NaN, which deviates if an answer is neither the limit nor what the equation gives."""
    count, form = len(problem.arrays), policy(problem.dtype).stored
    special = [x for x in SPECIAL if form.infinite or np.isnan(x)]
    grid = np.meshgrid(*[np.array([*special, *[1.0] * (count > 1)])] * count, indexing="ij")
    arrays = {name: a.ravel() for name, a in zip(problem.arrays, grid, strict=True)}
    case = replace(problem.case, variant=SPECIALS, inputs=arrays, cotangent=np.ones(grid[0].size))
    asked_there = case.problem(problem.dtype)
    with quiet():
        answer, _ = asked.answer(asked_there)
        rights = [asked_there.answer(np.float64), asked_there.answer(np.longdouble)]
        wrong = said_of(arrays, answer, rights, policy(problem.dtype))
    row = next(row for row in report.judgements if row.case == problem.case.name)
    common = (row.section, case.name, row.framework, row.version, row.dtype)
    if wrong:
        report.judgements.append(Judgement(*common, "output", np.inf, np.inf, DEVIATES, why="; ".join(wrong)))
    else:
        report.judgements.append(Judgement(*common, "output", 0.0, 0.0, WITHIN))


def said_of(arrays: dict[str, np.ndarray], answer: Answer, rights: Sequence[Answer], rounds: Policy) -> list[str]:
    """What is wrong at ±∞ and NaN, where the right number is what the format makes of it, or of one a little off."""
    found = []
    off = np.array([-1, 0, 1]) * ELEMENTARY * (rounds.stored if rounds.every else rounds.inside).u
    for quantity, given in answer.items():
        given = np.asarray(given, np.float64)
        near = [rounds.stored.rounded(np.asarray(right[quantity], WIDE) * (1 + x)) for right in rights for x in off]
        good = np.any([(given == right) | (np.isnan(given) & np.isnan(right)) for right in near], axis=0)
        for i in np.flatnonzero(~good):
            at = ", ".join(number(float(a[i])) for a in arrays.values())
            found.append(
                f"{quantity} at {at}: {number(float(given[i]))} where {number(float(rights[0][quantity][i]))} is right"
            )
    return found
