"""All 2³² numbers of float32, in parts: an answer in float64 first, and the bound only where that does not decide.

A bound is at least 2u|z| where the last operation rounds, which is 1 unit in the last place of z or more: an answer
within 1 unit of z needs no bound. z comes from refnp in float64, whose own error is at most 2⁻²⁹ of that bound, since
both are the same roundings in units of u; the 2⁻²⁰ that the test leaves out is more. All other answers are judged in
the widest precision, as those of any case are. Whether the last operation rounds is seen from the bounds on all
numbers of bfloat16, which are numbers of float32 too.
"""

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from refnp.numbers.precision import FORMATS, Array
from refnp.numbers.rounding import tolerance
from refnp.pieces import versions
from refnp.verify.asking import Asked
from refnp.verify.bounds import errors_over_bounds
from refnp.verify.case import Case, Layer, Problem, quiet
from refnp.verify.every.numbers import FINITE, MOST, Everywhere, Range, numbers_of, ranges_of, units_of
from refnp.verify.findings import Report

FORM = FORMATS["float32"]
PARTS = 64
BLOCK = 2**18
ENOUGH = 1 - 2.0**-20  # units in the last place that need no bound
EXPONENT = np.uint64(0x7FF0000000000000)  # of float64


def parts_of(layer: Layer, name: str) -> list[Case]:
    """A case for each part, of numbers whose bits follow one another."""
    size = 2**32 // PARTS
    drawn = lambda k: lambda rng: np.arange(k * size, (k + 1) * size, dtype=np.uint32).view(np.float32)
    return [Case(layer, part_name(k), {name: drawn(k)}) for k in range(PARTS)]


def part_name(k: int) -> str:
    """Of part k, counted from 0."""
    return f"every number, part {k + 1} of {PARTS}"


def everywhere_in(asked: Asked, case: Case) -> list[Everywhere]:
    """What came of each quantity on the finite numbers of a part."""
    ((name, draw),) = case.inputs.items()
    numbers = draw(None)
    found: dict[str, list[Everywhere]] = {}
    with quiet():
        enough = enough_of(asked, case, name)
        for start in range(0, len(numbers), BLOCK):
            x = numbers[start : start + BLOCK]
            if x[0] != x[0] or np.isinf(x[0]):  # from here on they are no numbers
                x = x[:0]
            x = x[np.isfinite(x)] if x.size and not np.isfinite(x[-1]) else x
            if x.size:
                for one in everywhere_in_block(asked, case, name, x, enough):
                    found.setdefault(one.quantity, []).append(one)
    return [together(parts) for parts in found.values()]


def enough_of(asked: Asked, case: Case, name: str) -> dict[str, float]:
    """By quantity, within how many units an answer needs no bound: 0 where a result may be without rounding."""
    problem = problem_of(asked, case, name, numbers_of("bfloat16"))
    right, found = problem.reference(), {}
    for quantity, rounded in problem.bounds.items():
        allowed, size = tolerance(rounded, "float32"), np.abs(right[quantity])
        found[quantity] = ENOUGH if (allowed >= 2 * FORM.u * size * ENOUGH)[np.isfinite(size)].all() else 0.0
    return found


def problem_of(asked: Asked, case: Case, name: str, x: Array) -> Problem:
    """The function on some numbers."""
    own = asked.adapted(replace(case, inputs={name: x}, cotangent=np.ones(len(x))))
    return Problem(own, "float32", {name: x}, np.random.default_rng(0))


def everywhere_in_block(
    asked: Asked, case: Case, name: str, x: Array, enough: Mapping[str, float]
) -> Iterator[Everywhere]:
    """What came of each quantity on a block of numbers."""
    problem = problem_of(asked, case, name, x)
    answer, _ = asked.answer(problem)
    near = problem.answer(np.float64)
    ratio = {quantity: np.zeros(len(x)) for quantity in answer}
    units, judged = {}, {}
    left = np.zeros(len(x), bool)
    for quantity, given in answer.items():
        right = near[quantity]
        unit = (right.view(np.uint64) & EXPONENT).view(np.float64)
        unit *= 2.0**-23
        np.maximum(unit, 2.0**-149, out=unit)
        error = np.subtract(given, right, dtype=np.float64)
        np.abs(error, out=error)
        error /= unit
        units[quantity], judged[quantity] = error, len(x)
        if not error.max() <= enough[quantity]:
            left |= ~(error <= enough[quantity]) & ~settled(np.asarray(given), right)
            error[~np.isfinite(error)] = 0  # the same infinity, or NaN where that is right, unless it is found below
    if left.any():
        places = np.flatnonzero(left)
        exactly = problem_of(asked, case, name, x[places])
        rights, bounds = exactly.reference(), exactly.bounds
        for quantity, given in answer.items():
            allowed = tolerance(bounds[quantity], "float32")
            own, value = np.asarray(given)[places], rights[quantity]
            error, over = errors_over_bounds(own.astype(np.longdouble), value, allowed, "float32")
            overflows = np.isinf(own) & (np.abs(value) + allowed > FORM.largest) & (np.sign(own) == np.sign(value))
            unknown = ~np.isfinite(allowed)
            ratio[quantity][places] = np.where(overflows | (unknown & np.isfinite(own)), 0, over)
            judged[quantity] -= int(unknown.sum())
            seen = units_of(error, value, FORM)
            units[quantity][places] = np.where(overflows | unknown, 0, np.where(np.isnan(seen), np.inf, seen))
    for quantity, given in answer.items():
        worst = int(units[quantity].argmax())
        wrong = int((ratio[quantity] > 1).sum())
        ranges = ranges_of(x, given, near[quantity], ratio[quantity], units[quantity]) if wrong else []
        largest, at = float(units[quantity][worst]), (float(x[worst]),)
        yield Everywhere(quantity, "float32", FINITE, len(x), judged[quantity], wrong, largest, at, ranges)


def settled(given: Array, right: Array) -> Array:
    """Where both are NaN, or the answer is the infinity of what is beyond every number of float32."""
    beyond = np.isinf(given) & (np.abs(right) > FORM.largest * (1 + 2.0**-24)) & (np.sign(given) == np.sign(right))
    return beyond | (np.isnan(given) & np.isnan(right))


def together(parts: list[Everywhere]) -> Everywhere:
    """One of several parts, in the order of their numbers."""
    worst = max(parts, key=lambda one: one.units)
    return replace(
        worst,
        count=sum(one.count for one in parts),
        judged=sum(one.judged for one in parts),
        wrong=sum(one.wrong for one in parts),
        ranges=joined([part for one in parts for part in one.ranges], sum(one.count for one in parts)),
    )


def joined(ranges: list[Range], count: int) -> list[Range]:
    """The ranges in rising order, the nearest of them as one until they are few."""
    rising = (replace(one, least=min(one.least, one.most), most=max(one.least, one.most)) for one in ranges)
    ranges = sorted(rising, key=lambda one: one.least)  # negative numbers are met in falling order
    place = lambda x: int(np.float32(abs(x)).view(np.uint32)) * (-1 if x < 0 else 1)
    while len(ranges) > MOST:
        gaps = [place(b.least) - place(a.most) for a, b in itertools.pairwise(ranges)]
        k = int(np.argmin(gaps))
        first, second = ranges[k : k + 2]
        worst = max(first, second, key=lambda one: one.ratio)
        ranges[k : k + 2] = [
            replace(
                worst,
                least=first.least,
                most=max(first.most, second.most),
                wrong=first.wrong + second.wrong,
                count=place(max(first.most, second.most)) - place(first.least) + 1,
            )
        ]
    return ranges


class Part(NamedTuple):
    """What came of one part, as it is kept in a file: of which function, by which versions, and the quantities."""

    name: str
    about: str
    found: list[Everywhere]


def kept(file: Path, about: str) -> dict[str, Part]:
    """The parts that a file has of a function; ValueError if it is of another function or of other versions."""
    found = {part.name: part for part in read(file)}
    for other in {part.about for part in found.values()} - {about}:
        raise ValueError(f"{file} has results of {other}, not of {about}; name another file, or delete it")
    return found


def read(file: Path) -> list[Part]:
    """The parts in a file; none if there is no such file."""
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []
    return [Part(row["name"], row["about"], [restored(**one) for one in row["found"]]) for row in rows]


def restored(at: list[float], ranges: list[dict], **others: Any) -> Everywhere:
    """What came of a part, from a file."""
    return Everywhere(at=tuple(at), ranges=[Range(**one) for one in ranges], **others)


def keep(file: Path, part: Part) -> None:
    """Add a part to a file, in a line of its own."""
    row = {"name": part.name, "about": part.about, "found": [asdict(one) for one in part.found]}
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(row) + "\n")


def about_of(report: Report) -> str:
    """What the results hang on: the function, its options, and versions."""
    return "; ".join([report.name, report.about, *report.assumed, versions()])
