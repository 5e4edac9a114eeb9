"""All numbers of a format, and the ranges in which a function is wrong on them."""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from refnp.numbers.precision import FORMATS, WIDE, Array, Format
from refnp.verify.report import exactly, number

NARROW = ("float8_e4m3fn", "float8_e5m2", "float16", "bfloat16")  # whose numbers are few: up to 65 280
FINITE = "finite numbers"
SPECIAL = (np.inf, -np.inf, np.nan)
MOST = 6  # ranges that are told apart


@functools.cache
def numbers_of(name: str) -> Array:
    """All finite numbers of a format, −0 among them, in rising order, as float32.   Shapes: → (n,)."""
    form = FORMATS[name]
    digits = np.arange(2 ** (form.bits - 1))  # behind the leading one
    top = math.frexp(form.largest)[1] - 1
    smallest = np.ldexp(1.0, form.least - form.bits + 1)
    normal = [np.ldexp(1.0 + digits / len(digits), e) for e in range(form.least, top + 1)]
    positive = np.concatenate([digits * smallest, *normal])
    positive = positive[positive <= form.largest].astype(np.float32)
    both = np.concatenate([-positive[::-1], positive])
    both.flags.writeable = False
    return both


def units_of(error: Array, right: Array, form: Format) -> Array:
    """Errors in units in the last place of what is right.   Shapes: (…), (…) → (…)."""
    with np.errstate(all="ignore"):
        size = np.clip(np.where(np.isfinite(right), np.abs(right), 1), 2.0**form.least, form.largest)
        return error / (2 * form.u * np.exp2(np.floor(np.log2(size))))


@dataclass(frozen=True)
class Range:
    """Wrong numbers that stand together: from where to where, how many of how many, and the worst of them."""

    least: float
    most: float
    wrong: int
    count: int
    at: float
    given: float
    right: float
    ratio: float
    units: float

    def __str__(self) -> str:
        given, right = exactly(self.given, self.right)
        size = f", {number(self.ratio)} times its bound" if math.isfinite(self.ratio) else ""
        if self.count == 1:
            return f"at {number(self.at)}: {given} where {right} is right{size}"
        span = f"from {number(self.least)} to {number(self.most)}: {self.wrong} of {self.count}"
        return f"{span}, the worst at {number(self.at)}: {given} where {right} is right{size}"


def runs_of(wrong: Array) -> Iterator[tuple[int, int]]:
    """Where wrong numbers stand, as [first, last]; the widest gaps between them divide them into `MOST` at most."""
    places = np.flatnonzero(wrong)
    gaps = np.diff(places)
    cuts = np.sort(np.argsort(-gaps, kind="stable")[: MOST - 1])
    cuts = cuts[gaps[cuts] > 1]
    for part in np.split(places, cuts + 1):
        if part.size:
            yield int(part[0]), int(part[-1])


def ranges_of(x: Array, given: Array, right: Array, ratio: Array, units: Array) -> list[Range]:
    """The ranges of x, in rising order, in which the error is more than its bound."""
    found = []
    for first, last in runs_of(ratio > 1):
        part = slice(first, last + 1)
        worst = first + int(ratio[part].argmax())
        values = (float(a[worst]) for a in (x, given, right, ratio, units))
        wrong = int((ratio[part] > 1).sum())
        found.append(Range(float(x[first]), float(x[last]), wrong, last + 1 - first, *values))
    return found


def spaced(n: int) -> str:
    """65 280."""
    return f"{n:,}".replace(",", " ")


@dataclass(frozen=True)
class Everywhere:
    """What came of one quantity on all numbers: how many, how many are judged and wrong, and the largest error."""

    quantity: str
    format: str
    inputs: str  # "finite numbers", "pairs of finite numbers"
    count: int
    judged: int  # of which a bound is known
    wrong: int
    units: float  # the largest error, in units in the last place
    at: Sequence[float]  # where
    ranges: Sequence[Range] = ()

    @property
    def lines(self) -> list[str]:
        """What a report says of it."""
        all_of_them = f"{spaced(self.count)} {self.inputs} of {self.format}"
        unknown = self.count - self.judged
        beside = f"; {spaced(unknown)} have no bound and are not judged" if unknown else ""
        where = ", ".join(map(number, self.at))
        error = f"largest error {number(self.units)} units in the last place, at {where}"
        if not self.wrong:
            holds = f"holds on all {all_of_them}" if not unknown else f"holds on {spaced(self.judged)} of {all_of_them}"
            return [f"{self.quantity}: {holds}{beside}; {error}"]
        head = f"{self.quantity}: wrong on {spaced(self.wrong)} of {all_of_them}{beside}; {error}"
        return [head, *(f"  {one}" for one in self.ranges)]


def everywhere(
    quantity: str, format: str, arrays: Sequence[Array], given: Array, right: Array, ratio: Array, allowed: Array
) -> Everywhere:
    """What came of one quantity, from errors over bounds.   Shapes: all (n,)."""
    with np.errstate(all="ignore"):
        error = np.where(ratio == 0, 0, np.abs(np.asarray(given, WIDE) - np.asarray(right, WIDE)))
    known = np.isfinite(allowed) & ~np.isnan(right)
    units = units_of(error, np.asarray(right, WIDE), FORMATS[format])
    units = np.where(known, np.where(np.isnan(units), np.inf, units), -1)
    worst = int(units.argmax())
    one = len(arrays) == 1
    return Everywhere(
        quantity,
        format,
        FINITE if one else "pairs of finite numbers",
        len(right),
        int((np.isfinite(allowed) | (ratio > 1)).sum()),
        int((ratio > 1).sum()),
        float(units[worst]),
        tuple(float(x[worst]) for x in arrays),
        ranges_of(arrays[0], given, right, ratio, units) if one else _pairs(arrays, given, right, ratio, units),
    )


def _pairs(arrays: Sequence[Array], given: Array, right: Array, ratio: Array, units: Array) -> list[Range]:
    """Of pairs the worst alone."""
    worst = int(ratio.argmax())
    if not ratio[worst] > 1:
        return []
    values = (float(a[worst]) for a in (arrays[0], given, right, ratio, units))
    return [Range(float(arrays[0][worst]), float(arrays[0][worst]), int((ratio > 1).sum()), 1, *values)]
