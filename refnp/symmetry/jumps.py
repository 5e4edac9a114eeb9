"""Does f jump near x, because a choice in it hangs on a rounding?

Where f sorts, takes the largest or the nearest, or asks for a sign, and two numbers are equal but for rounding, both
sides of a true claim may choose differently. Their difference is as large as the output, and no rounding error: f has a
jump there. It is found by its two sides. On a line from x to a point near it, at which f is another, the half with the
larger change is kept until it is some roundings long:

    a change that stays, between points that lie a few roundings apart, is a jump
    if f gives the same at both of them when it is called once more, and so has no state
    if f is smooth on both sides of it; rounding in a coarse precision inside f has many steps, on both sides too

The points are changed number by number, whole numbers as well, whatever all draws have in common.
"""

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from refnp.autograd import Array
from refnp.symmetry.claim import Refusal, cast
from refnp.symmetry.evaluation import BothSides
from refnp.symmetry.noise import STEPS, changed, direction, noise, span
from refnp.symmetry.vectors import Vector

OF_ORDER = 2.0**-10  # of the output: a smaller difference is compared with rounding alone
NEIGHBOURS = (2.0**-40, 2.0**-28, 2.0**-20)  # how far away another value of f is looked for, as a part of each number
DIRECTIONS = 3
HALVINGS = 60
KEPT = 0.125  # of the change must be left between neighbours, and of the discrepancy be explained
SIDES = (2.0**-9, 2.0**-13)  # how far f must be smooth on both sides
GAP = 2.0**-36  # between the sides, in which other choices may hang on roundings, too
ENOUGH_FOUND, ENOUGH_MISSED = 8, 4  # after so many jumps, or none in so many places, no more are looked for
SMOOTH = 2.0**-4  # of the jump may be noise there


@dataclass(frozen=True)
class Jump:
    """The two values of the number that jumps most, where it is, and whether it is near x or near g·x."""

    place: str
    before: float
    after: float
    moved: bool

    def __str__(self) -> str:
        where = "near the input moved" if self.moved else "near the input"
        return f"{where}, {self.place} is {self.before:.6g} on one side and {self.after:.6g} on the other"


class Jumps:
    """Looks for jumps, until it has seen enough to know that there are some, or none.

    `suspected` is whether both sides of a pair have been seen to differ by a part of the output in a coarser precision:
    then they are compared in it at every pair.
    """

    suspected = False

    def __init__(self) -> None:
        self.found, self.missed = 0, 0
        self.last: Jump | None = None

    def near(self, sides: BothSides, d: Array) -> Jump | None:
        """A jump near x or g·x, or the last that was found elsewhere, once there were enough of them."""
        if self.found >= ENOUGH_FOUND:
            return self.last
        if self.missed >= ENOUGH_MISSED * (1 + self.found):
            return None
        jump = jump_near(sides, d)
        self.found, self.missed = self.found + (jump is not None), self.missed + (jump is None)
        self.last = jump or self.last
        return jump


def jump_near(sides: BothSides, d: Array) -> Jump | None:
    """A jump of f near x or g·x as large as the discrepancy d, or nothing."""
    at = sides.at
    x = cast(at.input_in(0, at.finest), at.finest)
    size = float(np.max(np.abs(d[np.isfinite(d)]), initial=0))
    for moved, start in ((False, x), (True, cast(at.claim.action.act(sides.elements[0], x), at.finest))):
        for _ in range(DIRECTIONS):
            way = direction(start, at.rng, apart=True)
            if not way:
                return None
            point = lambda t, start=start, way=way: changed(start, t, way)
            value = lambda t, f=at.claim.at, point=point: Vector.of(f(point(t), at.finest))
            try:
                found = _on_line(value, size, functools.partial(value, f=at.claim.anew))
            except Refusal:
                continue
            if found is not None:
                return Jump(*found, moved)
    return None


def jump_of_roundings(sides: BothSides, relative: float) -> Jump | None:
    """Two values of f some roundings away from g·x that differ like both sides, or nothing.

    Where x cannot be perturbed, as one of whole numbers, g alone is, and f may choose alike a few times by chance.
    """
    at = sides.at
    for k in range(DIRECTIONS):
        moved = at.claim.action.act(sides.element(k), cast(at.input_in(0, at.finest), at.finest))
        inputs = at.line(moved, span(at.precisions.u))
        points = [(x, y) for x in inputs if (y := at.value(at.claim.at, x)) is not None]
        for (x, a), (other, b) in itertools.combinations(points, 2) if len(points) == len(inputs) else ():
            differ = a.form == b.form and KEPT * relative <= a.relative(a.minus(b), b, empty=0.0) < np.inf
            if differ and at.is_repeatable(x) and at.is_repeatable(other):
                return Jump(*_largest_change(a, b), moved=True)
    return None


def _on_line(
    value: Callable[[float], Vector], size: float, anew: Callable[[float], Vector]
) -> tuple[str, float, float] | None:
    """A jump of this size on the line, by its two sides; `anew` calls f again where it was called."""
    first = value(0.0)
    for reach in NEIGHBOURS:
        for low, high in ((0.0, reach), (-reach, 0.0)):
            a, b = value(low), value(high)
            change = _change(a, b)
            if change == 0 or change < KEPT * size:
                continue
            for _ in range(HALVINGS):
                if abs(high - low) <= 2.0**-62 + 2.0**-52 * abs(low) or _change(a, b) < KEPT * change:
                    break
                middle = (low + high) / 2
                m = value(middle)
                if _change(a, m) >= _change(m, b):
                    high, b = middle, m
                else:
                    low, a = middle, m
            left = min(_change(a, b), _change(anew(low), anew(high)))
            if left < KEPT * change or a.form != first.form:
                continue
            ends = ((low - GAP, -1), (high + GAP, 1))
            if any(all(_smooth(value, t, sign * r, left) for t, sign in ends) for r in SIDES):
                return _largest_change(a, b)
    return None


def _largest_change(a: Vector, b: Vector) -> tuple[str, float, float]:
    """Where two vectors differ most, and both numbers there."""
    at = int(np.argmax(np.abs(a.minus(b))))
    return a.place(at), float(a.values[at]), float(b.values[at])


def _change(a: Vector, b: Vector) -> float:
    """The largest finite difference; 0 where the forms differ."""
    if a.form != b.form:
        return 0.0
    d = a.minus(b)
    return float(np.max(np.abs(d[np.isfinite(d)]), initial=0))


def _smooth(value: Callable[[float], Vector], t: float, reach: float, size: float) -> bool:
    """Whether f has little noise on one side of t, of this length."""
    points = [value(t + reach * (1 + float(step)) / 2) for step in STEPS]
    if any(point.form != points[0].form for point in points):
        return False
    return float(np.max(noise([point.values for point in points]), initial=0)) <= SMOOTH * size
