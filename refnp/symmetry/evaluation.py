"""Both sides of a claim, f(g·x) and g·f(x), at an input x and at perturbations of it, in two precisions.

The k-th perturbation changes every real number by a random part of itself: at most 16 roundings of the coarser
precision for k = 1 and 2⁻²⁰ for k = 8, in equal ratios between, then 2⁻²⁰ again for as many more. (A point that was
translated far is rounded so coarsely that smaller changes do not reach f.) Numbers that are equal stay equal, and 0
stays 0, so that what is wrong with repeated items stays wrong. k = 0 is x itself. An element made of real
numbers is perturbed as well, by roundings. All inputs are numbers of the coarser precision, so that both precisions
compute with the same ones; but what all draws have in common is restored in each precision (constraints.py), so that
rows of sum 1 have it in longdouble, too. `Evaluations` keeps what belongs to x for all elements, `BothSides` what
belongs to one.
"""

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from refnp.autograd import Array
from refnp.symmetry.actions import Arrays, Element, Trivial
from refnp.symmetry.claim import WIDE, Claim, DType, Precisions, Refusal, cast, roundoff
from refnp.symmetry.constraints import Constraints
from refnp.symmetry.noise import (
    INSIDE,
    LINES,
    changed,
    direction,
    factors,
    is_half,
    least_of,
    lengths,
    line,
    noise,
    ray,
    span,
)
from refnp.symmetry.vectors import Vector

Key = tuple[int, DType]  # the number of a perturbation, and a precision
LARGEST_PERTURBATION = 2.0**-20  # about 16 roundings of float32
LONG_STEP = 2.0**20  # roundings, over which what is smooth changes as much more, and what jumps does not
FEW_MORE = 3  # perturbations at which errors and shapes must differ as well
LARGEST = 2.0**-5  # where f is said to compute in half precision


class Evaluations:
    """f at an input and at perturbations of it, each evaluated once. Raises Refusal if f does not take the input.

    output(k, dtype) is f at the k-th perturbation, as arrays by name.
    `finest` is the precision in which the claim is judged, `coarser` the next one or None if there is only one, `ratio`
    by how much rounding shrinks from `coarser` to `finest`: the ratio of their unit roundoffs, 2⁻¹¹ for x87.
    With `anchored`, perturbations leave whole numbers and halves of them as they are: for what is wrong with ones.
    `constraints` are what all draws have in common.
    """

    def __init__(
        self,
        claim: Claim,
        precisions: Precisions,
        inputs: Arrays,
        rng: np.random.Generator,
        perturbations: int,
        anchored: bool = False,
        constraints: Constraints | None = None,
    ):
        kept = constraints is not None and bool(constraints) and constraints.hold(inputs)
        self.anchored, self.constraints = anchored, constraints if kept else None
        self.constants = 0  # at how many pairs constants of float64 in f were seen
        self.claim, self.precisions, self.rng, self.perturbations = claim, precisions, rng, perturbations
        self.finest = precisions.dtypes[-1]
        self.coarser = precisions.dtypes[-2] if len(precisions.dtypes) > 1 else None
        self.ratio = 1.0 if self.coarser is None else precisions.u / roundoff(self.coarser)
        coarse = self.coarser or self.finest
        first = min(16 * max(roundoff(coarse), precisions.u), LARGEST)
        last = max(first, LARGEST_PERTURBATION)
        self.sizes = [0.0, *np.geomspace(first, last, perturbations).tolist(), *([last] * perturbations)]
        self.inputs = [self.restored(cast(inputs, coarse))]
        self.input_in = functools.cache(self._input_in)
        self.output = functools.cache(lambda k, dtype: claim.at(self.input_in(k, dtype), dtype))
        self.along = functools.cache(self._along)
        self.noise = functools.cache(self._noise)
        self.apart = functools.cache(lambda reach: self.at_all(self.ray(self.input_in(0, self.finest), reach)))
        self.output(0, self.finest)

    def input(self, k: int) -> dict[str, Any]:
        """x, or its k-th perturbation."""
        while len(self.inputs) <= k:
            size, x = self.sizes[len(self.inputs)], self.inputs[0]
            parts = factors(x, lambda n: self.rng.uniform(-1, 1, n), anchored=self.anchored)
            self.inputs.append(self.restored(changed(x, size, parts)))
        return self.inputs[k]

    def _input_in(self, k: int, dtype: DType) -> dict[str, Any]:
        """x, or its k-th perturbation, in one precision."""
        return self.input(k) if self.constraints is None else self.restored(cast(self.input(k), dtype))

    def restored(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """The arrays with what all draws have in common, if x has it."""
        return arrays if self.constraints is None else self.constraints.restored(arrays)

    def _along(self, reach: float, i: int) -> list[dict[str, Array]]:
        """f at the points of the i-th line through x of this reach. Raises Refusal if f does not take one of them."""
        return [self.claim.at(x, self.finest) for x in self.line(self.input_in(0, self.finest), reach)]

    def line(self, inputs: Arrays, reach: float) -> list[dict[str, Any]]:
        """The inputs at the points of a random line, in the finest precision."""
        return self.as_all_draws(inputs, line(cast(inputs, self.finest), reach, self.rng, anchored=self.anchored))

    def ray(self, inputs: Arrays, reach: float) -> list[dict[str, Any]]:
        """The inputs at the points of a random ray, in the finest precision: zeros and equal numbers move apart."""
        return self.as_all_draws(inputs, ray(cast(inputs, self.finest), reach, self.rng))

    def as_all_draws(self, inputs: Arrays, points: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Points near the inputs, with what all draws have in common, if the inputs have it."""
        if self.constraints is None or not self.constraints.hold(inputs):
            return points
        return [self.constraints.restored(point) for point in points]

    def at_all(self, points: list[dict[str, Any]]) -> list[dict[str, Array] | None]:
        """f at these points, None where it refuses one."""
        found: list[dict[str, Array] | None] = []
        for point in points:
            try:
                found.append(self.claim.at(point, self.finest))
            except Refusal:
                found.append(None)
        return found

    @functools.cached_property
    def first(self) -> Vector:
        """f at x in the finest precision."""
        found = Vector.of(self.output(0, self.finest))
        return found if self.elsewhere is None else found.with_fixed(found.values == Vector.of(self.elsewhere).values)

    @functools.cached_property
    def fixes(self) -> bool:
        """Whether f gives numbers other than 0 at x that it gives at another x, too."""
        return bool(np.any(self.first.fixed & (self.first.values != 0)))

    @functools.cached_property
    def elsewhere(self) -> dict[str, Array] | None:
        """f at another x, with the same masks, zeros and signs; None where f takes none, or gives other shapes."""
        x, y = self.input_in(0, self.finest), self.output(0, self.finest)
        for other in (other for other in self._others() if not equal(other, x)):
            with contextlib.suppress(Refusal):
                found = self.claim.at(other, self.finest)
                if found.keys() == y.keys() and all(found[name].shape == y[name].shape for name in y):
                    return found
        return None

    def _others(self) -> Iterator[dict[str, Any]]:
        """x with every real number smaller, so that what is saturated changes too; then by 1 to 3 % another.

        Without real numbers, whole ones but 0 and 1 change places.
        """
        (rng,) = self.rng.spawn(1)
        x = cast(self.input_in(0, self.finest), self.finest)
        way = direction(x, rng)
        for scale in (2.0**-11, 1.0) if way else ():
            yield self.restored(changed(x, 1, {name: scale * (1 + LARGEST * part) - 1 for name, part in way.items()}))
        whole = {name: a for name, a in x.items() if a is not None and a.dtype.kind in "iu" and np.any(a > 1)}
        if whole and not way:
            yield self.restored(
                {**x, **{name: rng.permutation(a.ravel()).reshape(a.shape) for name, a in whole.items()}}
            )

    def noise_relative(self, reach: float) -> dict[str, float]:
        """The least noise of f along a few lines through x, over the size of the output, for each array of it."""
        first = self.first
        return least_of([first.relative_by_array(self.noise(reach, i), first) for i in range(LINES)])

    def _noise(self, reach: float, i: int) -> Array:
        """The noise of each number of f along the i-th line through x."""
        return noise_of(lambda: map(Vector.of, self.along(reach, i)), self.first)

    def is_idle(self, g: Element) -> bool:
        """Whether g leaves the input and the output as they are, or nothing of the output is compared.

        Or it leaves nothing of an array, and f does not take that.
        """
        x, y = self.inputs[0], self.output(0, self.finest)
        masks = self.claim.compared(g, y)
        if masks and not any(mask.any() for mask in masks.values()):
            return True
        moved = self.claim.action.act(g, x)
        if any(a is not None and a.size and not moved[name].size for name, a in x.items()):
            return self.value(self.claim.at, cast(moved, self.finest)) is None
        return equal(moved, x) and equal(self.claim.action_out.act(g, y), y)

    @functools.cached_property
    def is_zero(self) -> bool:
        """Whether f gives no finite number but 0 at x."""
        return not np.any(self.first.sizes)

    def has_anchors(self) -> bool:
        """Whether there are real numbers other than 0 which `anchored` would keep."""
        real = [a for a in self.inputs[0].values() if a is not None and a.dtype.kind in "fc"]
        return any(np.any(is_half(a) & (a != 0) & np.isfinite(a)) for a in real)

    @functools.cached_property
    def gives_nan(self) -> bool:
        """Whether f gives NaN somewhere at x."""
        return bool(np.any(np.isnan(self.first.values)))

    def is_repeatable(self, x: Arrays | None = None) -> bool:
        """Whether f, called again at x or at another input, gives the same to at least half of the digits."""
        again = self.value(self.claim.anew, self.input_in(0, self.finest) if x is None else x)
        first = self.first if x is None else self.value(self.claim.at, x)
        if first is None or again is None:
            return first is again
        return first.form == again.form and first.relative(again.minus(first), again) <= self.precisions.u**0.5

    def value(self, f: Callable[[Arrays, DType], dict[str, Array]], x: Arrays) -> Vector | None:
        """f at an input; None if it refuses it."""
        with contextlib.suppress(Refusal):
            return Vector.of(f(x, self.finest))
        return None

    def perturbations_differ(self) -> bool:
        """Whether the perturbations of x differ from it: there are real numbers other than 0, or what is anchored."""
        if self.constraints is not None:
            return not equal(self.input(self.perturbations), self.inputs[0])
        real = [a[np.isfinite(a)] for a in self.inputs[0].values() if a is not None and a.dtype.kind in "fc"]
        return any(np.any(~is_half(a) if self.anchored else a != 0) for a in real)

    def insensitivity(self) -> float:
        """The largest relative perturbation of x that leaves f as it is although larger ones do not.

        It is 0 if f changes with the smallest, about 2⁻²⁴ if f rounds to float32 inside, at least 2⁻²⁰ if it rounds to
        half precision, and 0 if f refuses one, or never changes.
        """
        first = self.first
        try:
            for k in range(1, self.perturbations + 1) if self.perturbations_differ() else ():
                if self._changes(first, [self.output(k, self.finest)]):
                    return self.sizes[k - 1]
            if first.rounded.any() and self.perturbations_differ():
                return self.sizes[-1] if self._changes(first, self.along(max(INSIDE.values()), 0)) else 0.0
        except Refusal:
            pass
        return 0.0

    def _changes(self, first: Vector, others: Iterable[dict[str, Array]]) -> bool:
        vectors = map(Vector.of, others)
        return any(other.form != first.form or bool(np.any(other.minus(first))) for other in vectors)


class BothSides:
    """f(g·x) and g·f(x) for one element, as vectors, at x and its perturbations, each computed once.

    left(k, dtype) is f(g·x) at the k-th perturbation, right(k, dtype) is g·f(x). Both raise Refusal if f does not take
    the input.
    """

    def __init__(self, at: Evaluations, g: Element):
        self.at, self.elements = at, [g]
        self.left = functools.cache(lambda k, dtype: self._with_fixed(self._left, k, dtype))
        self.right = functools.cache(lambda k, dtype: self._with_fixed(self._right, k, dtype))

    @functools.cached_property
    def fixed(self) -> Array | np.bool_:
        """Which numbers are the same on both sides, and in g·f where x is another."""
        left, right = self._left(0, self.at.finest), self._right(0, self.at.finest)
        if not self.at.fixes or left.form != right.form or left.values.size != right.values.size:
            return np.False_
        elsewhere = Vector.of(self.at.claim.right(self.elements[0], self.at.elsewhere or {}))
        return (left.values == right.values) & (elsewhere.values == right.values)

    def element(self, k: int) -> Element:
        """g, or its k-th perturbation."""
        while len(self.elements) <= k:
            self.elements.append(self.at.claim.action.perturbed(self.elements[0], self.at.rng))
        return self.elements[k]

    def _left(self, k: int, dtype: DType) -> Vector:
        x, y = cast(self.at.input_in(k, dtype), dtype), self.at.output(k, dtype)
        return Vector.of(self.at.claim.left(self.element(k), x, y, dtype))

    def _right(self, k: int, dtype: DType) -> Vector:
        return Vector.of(self.at.claim.right(self.element(k), self.at.output(k, dtype)))

    def _with_fixed(self, side: Callable[[int, DType], Vector], k: int, dtype: DType) -> Vector:
        """A side, which knows at x itself what is fixed: discrepancies are compared with its sizes there."""
        found = side(k, dtype)
        return found.with_fixed(self.fixed) if k == 0 and self.at.fixes else found

    def discrepancy(self, dtype: DType) -> float:
        """|f(g·x) − g·f(x)| over the size of the output, computed in one precision; infinite where f refuses."""
        try:
            left, right = self.left(0, dtype), self.right(0, dtype)
        except Refusal:
            return np.inf
        return left.relative(left.minus(right), right) if left.form == right.form else np.inf

    def right_noise(self, reach: float, i: int) -> Array:
        """The noise of g·f along the i-th line through x."""
        if isinstance(self.at.claim.action_out, Trivial) and self.at.claim.border is None:
            return self.at.noise(reach, i)
        act = lambda y: Vector.of(self.at.claim.right(self.elements[0], y))
        return noise_of(lambda: map(act, self.at.along(reach, i)), self.right(0, self.at.finest))

    def left_noise(self, reach: float) -> Array:
        """The noise of f along a line through g·x."""
        at = self.at
        values = lambda: [Vector.of(at.claim.at(x, at.finest)) for x in at.line(self.moved, reach)]
        return noise_of(values, self.left(0, at.finest))

    def change_by_roundings(self, u: float) -> Array:
        """How much the numbers of both sides change where those of x, and of g·x, change by u of themselves.

        So much is left by a constant that was rounded to u and stands beside x. What jumps changes by no more in longer
        steps, and is not counted.
        """
        at, g = self.at, self.elements[0]
        act = lambda x, dtype: at.claim.right(g, at.claim.at(x, dtype))
        sides = ((self.right, act, at.input_in(0, at.finest)), (self.left, at.claim.at, self.moved))
        (rng,) = at.rng.spawn(1)
        most = np.zeros(1, WIDE)
        for side, f, x in sides:
            first, way, least = side(0, at.finest), direction(x, rng), np.full(1, np.inf, WIDE)
            for step in (u, LONG_STEP * u):
                points = (at.value(f, changed(cast(x, at.finest), sign * step, way)) for sign in (1, -1))
                d = [np.abs(y.minus(first)) for y in points if y is not None and y.form == first.form]
                least = np.minimum(least, np.max(d, 0) * (u / step) if d else 0)
            most = np.maximum(most, np.where(np.isfinite(least), least, 0))
        return most

    def noise_apart(self, reach: float) -> Array:
        """The noise of both sides along a ray from x and one from g·x, where zeros and equal numbers move apart."""
        at, g = self.at, self.elements[0]
        sides = {
            self.right: [None if y is None else Vector.of(at.claim.right(g, y)) for y in at.apart(reach)],
            self.left: [None if y is None else Vector.of(y) for y in at.at_all(at.ray(self.moved, reach))],
        }
        return np.maximum(*(noise_among(points, side(0, at.finest)) for side, points in sides.items()))

    @property
    def moved(self) -> dict[str, Any]:
        """g·x in the finest precision."""
        return self.at.claim.action.act(self.elements[0], cast(self.at.input_in(0, self.at.finest), self.at.finest))

    def noise_nearby(self) -> Array:
        """The noise of f near x and near g·x, where whole numbers are changed as well; 0 where f refuses a point.

        It is that of lines that do not go through x: where f jumps at whole numbers, it jumps there alone.
        """
        near = line(cast(self.at.inputs[0], self.at.finest), LARGEST_PERTURBATION, self.at.rng)[0]
        first, most = self.right(0, self.at.finest), np.zeros(1, WIDE)
        for points in self.near_points(near):
            if None not in points:
                found = noise_of(functools.partial(iter, points), first)
                most = np.maximum(most, np.where(np.isfinite(found), found, 0))
        return most

    def has_no_digit(self) -> bool:
        """Whether f changes by more than half of itself between points that some roundings of x lie apart.

        Or takes some of them and refuses others. Whole numbers are changed too. So it is with the inverse of a matrix
        that is singular but for rounding.
        """
        x = cast(self.at.inputs[0], self.at.finest)
        near = self.near_points(x)
        starts = itertools.product(lengths(self.at.precisions.u), (x, self.moved))
        rays = ([self.at.value(self.at.claim.at, p) for p in self.at.ray(start, reach)] for reach, start in starts)
        for points in itertools.chain(near, rays):
            for a, b in itertools.pairwise(points):
                if a is None or b is None:
                    if a is not b:
                        return True
                elif a.form == b.form and a.relative(a.minus(b), b, empty=0.0) > 0.5:
                    return True
        return False

    def near_points(self, x: dict[str, Array]) -> list[list[Vector | None]]:
        """f along a line of some roundings through x, and along one through g·x; None where f refuses a point."""
        starts, reach = (x, self.at.claim.action.act(self.elements[0], x)), span(self.at.precisions.u)
        return [[self.at.value(self.at.claim.at, p) for p in line(start, reach, self.at.rng)] for start in starts]

    def are_repeatable(self) -> bool:
        """Whether f, called again at x and at g·x, gives the same."""
        x = cast(self.at.input_in(0, self.at.finest), self.at.finest)
        return self.at.is_repeatable() and self.at.is_repeatable(self.at.claim.action.act(self.elements[0], x))

    def differ_steadily(self, kind: str) -> bool:
        """Whether at perturbations too f refuses the moved input alone, or the two sides have different shapes."""
        for k in range(1, FEW_MORE + 1):
            try:
                right = self.right(k, self.at.finest)
            except Refusal:
                return False
            try:
                left = self.left(k, self.at.finest)
            except Refusal:
                if kind == "raises":
                    continue
                return False
            if kind == "raises" or left.form == right.form:
                return False
        return True

    def moves_whole_numbers(self) -> bool:
        """Whether g changes an array of whole numbers, such as positions, which cannot be perturbed."""
        x = self.at.inputs[0]
        moved = self.at.claim.action.act(self.elements[0], x)
        return any(a is not None and a.dtype.kind in "iu" and not same(a, moved[name]) for name, a in x.items())

    def rounding_error_at_other_elements(self) -> Array:
        """The largest rounding error in each array, at elements drawn at random; where perturbations change nothing."""
        at, output, most = self.at, self.right(0, self.at.finest), np.zeros(1, WIDE)
        for _ in range(at.perturbations):
            other = BothSides(at, at.claim.action.draw(at.rng, at.inputs[0]))
            try:
                coarse, fine = (other.left(0, dtype) for dtype in at.precisions.dtypes[-2:])
            except Refusal:
                continue
            if fine.form == coarse.form:
                d = fine.minus(coarse)
                d = np.where(np.isfinite(d) & ~fine.fixed, d, 0)
                most = np.maximum(most, output.largest_by_array(d, fine) * at.ratio)
        return most

    def change_of_discrepancy(self, d: Array, last: int) -> Array:
        """The most that the discrepancy changes from d, at x, to the `last` first perturbations; inf if f refuses."""
        most = np.zeros_like(d)
        for k in range(1, last + 1):
            try:
                left, right = self.left(k, self.at.finest), self.right(k, self.at.finest)
            except Refusal:
                return np.full_like(d, np.inf)
            if left.form != right.form or left.values.size != d.size:
                return np.full_like(d, np.inf)
            perturbed = left.minus(right)
            with np.errstate(invalid="ignore"):
                most = np.maximum(most, np.where(perturbed == d, 0, np.abs(perturbed - d)))
        return most

    def is_insensitive(self) -> bool:
        """Whether both sides have the same bits at all perturbations: x has nothing to perturb, or f rounds it away."""
        keys = [(k, self.at.finest) for k in range(1, self.at.perturbations + 1)]
        return not any(
            np.any(change(side, key, (0, self.at.finest))) for side in (self.left, self.right) for key in keys
        )

    def is_exact(self) -> bool:
        """Whether the moved input and both sides have the same bits in both precisions, so that nothing was rounded."""
        if self.at.coarser is None:
            return self.at.precisions.u == 0
        dtypes = (self.at.finest, self.at.coarser)
        inputs = [cast(self.at.input_in(0, dtype), dtype) for dtype in dtypes]
        moved = [self.at.claim.action.act(self.elements[0], x) for x in inputs]
        keys = [(0, dtype) for dtype in dtypes]
        return equal(*moved) and not any(np.any(change(side, *keys)) for side in (self.left, self.right))


def noise_of(values: Callable[[], Iterable[Vector]], first: Vector) -> Array:
    """The noise of each number of vectors along a line; infinite if f refuses one or they are not of one form."""
    try:
        found = list(values())
    except Refusal:
        return np.full_like(first.values, np.inf)
    if any(vector.form != first.form or vector.values.size != first.values.size for vector in found):
        return np.full_like(first.values, np.inf)
    return noise([vector.values for vector in found])


def noise_among(points: list[Vector | None], first: Vector) -> Array:
    """The noise of each number of vectors along a ray; infinite if f refuses some points of it, or changes its form.

    It is 0 where f refuses all of them, or gives another form at all: then they tell nothing of `first`.
    """
    alike = [point for point in points if point is not None and point.form == first.form]
    alike = [point for point in alike if point.values.size == first.values.size]
    if len(alike) < len(points):
        return np.full_like(first.values, np.inf if alike else 0)
    return noise([point.values for point in alike])


def change(side: Callable[[int, DType], Vector], one: Key, other: Key) -> Array:
    """|difference| of a side between two perturbations or precisions; 0 where f refuses one, or it is not finite."""
    d = np.zeros(1, WIDE)
    try:
        a, b = side(*one), side(*other)
    except Refusal:
        return d
    if a.form == b.form:
        d = np.abs(a.minus(b))
    return np.where(np.isfinite(d), d, 0)


def equal(a: Arrays, b: Arrays) -> bool:
    """Equal arrays under equal names."""
    return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)


def same(x: Any, y: Any) -> bool:
    """Whether two arrays are equal; NaN equals NaN, None equals None."""
    if x is None or y is None:
        return x is y
    return x.shape == y.shape and bool(np.all((x == y) | ((x != x) & (y != y))))
