"""What was answered to a case, and whether a mistake explains it.

A mistake explains a quantity if its value is there beyond the bound of the right one, and the answer within its own;
and if every other quantity of the case that it changes is explained as well.

The bound of a mistake's value has two parts. The first is that of the right value, larger where the mistake's is. The
second covers what its own formula loses: it is computed in the precision of the case, with inputs moved by half a unit
in the last place, several times, and SPREAD times the largest difference is allowed.
"""

import functools
import itertools
import math
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from refnp.numbers.precision import FORMATS, Format, Policy, policy
from refnp.numbers.rounding import WIDE, tolerance
from refnp.verify.bounds import errors_over_bounds
from refnp.verify.case import Answer, Problem, is_of_numbers
from refnp.verify.causes.clock import tick
from refnp.verify.causes.values import along_rows, answer_of, distances, furthest
from refnp.verify.edits.mutant import Mutant, dividing_by_zero

SPREAD, SAMPLES, NARROW_SAMPLES = 8, 6, 8
NEAR = 0.1  # of the error that is to be explained may be left where the mistake's own rounding is worth measuring
EXACT = 0.85  # of the elements a rounding is to give exactly; others were near a tie
KEPT = 1000  # numbers in the arguments of a case of which what mistakes give is kept
FAR = 100  # times the error that is seen of a mistake's rounding, and it is not worth measuring more often

Row = tuple[str, str, str]  # case, dtype, quantity


@dataclass(frozen=True, eq=False)
class Answered:
    """A problem with the answer that was given and the right one."""

    problem: Problem
    answer: Answer
    known: dict[tuple[Mutant, bool, bool], Answer] = field(default_factory=dict, repr=False)  # what mistakes give

    @functools.cached_property
    def policy(self) -> Policy:
        """Where the answer may round."""
        return policy(self.problem.dtype)

    @property
    def computed_in(self) -> str:
        """The type of the numbers that are computed with."""
        inside = self.policy.inside
        return self.policy.dtype if self.policy.every or inside.bits <= FORMATS["float32"].bits else inside.name

    @property
    def is_of_numbers(self) -> bool:
        """Whether numbers of a result have nothing to do with each other."""
        return is_of_numbers(self.problem.case.layer, len(self.problem.arrays))

    @functools.cached_property
    def right(self) -> Answer:
        """The right answer, in the widest precision, of what was answered."""
        found = answer_of(self.problem, self.problem.case.layer.function, WIDE, gradients=self._has_gradients)
        return {q: value for q, value in found.items() if q in self.answer}

    @property
    def _has_gradients(self) -> bool:
        """Whether there are any in the answer: often there are none."""
        return any(q != "output" for q in self.answer)

    @functools.cached_property
    def divides_by_zero(self) -> bool:
        """Whether NaN is in the answer where a number is right: what a mistake divides by may be 0, then."""
        pairs = ((np.asarray(self.answer[q]), right) for q, right in self.right.items())
        return any(a.shape == right.shape and bool((np.isnan(a) & ~np.isnan(right)).any()) for a, right in pairs)

    @functools.cached_property
    def wide(self) -> list[np.ndarray]:
        """The inputs in the widest precision."""
        return [array.astype(WIDE) for array in self.problem.arrays.values()]

    @functools.cached_property
    def allowed(self) -> dict[str, np.ndarray]:
        """What rounding may do to the right answer."""
        return {q: tolerance(rounded, self.problem.dtype) for q, rounded in self.problem.bounds.items()}

    @functools.cached_property
    def wrong(self) -> dict[str, float]:
        """Error over bound of the quantities that deviate."""
        ratios = {q: self.ratio(self.answer[q], right, self.allowed[q]) for q, right in self.right.items()}
        return {q: ratio for q, ratio in ratios.items() if ratio > 1}

    @functools.cached_property
    def rows(self) -> set[Row]:
        """One for each quantity."""
        return {self.row(q) for q in self.answer}

    @property
    def size(self) -> int:
        """How many numbers there are to compute with."""
        return sum(array.size for array in self.problem.arrays.values())

    def values(self, function: Callable, dtype: Any, arrays: Sequence[np.ndarray] | None = None) -> Answer:
        """What a mistaken function answers of what was answered."""
        with dividing_by_zero(self.divides_by_zero):
            found = answer_of(self.problem, function, dtype, arrays, gradients=self._has_gradients)
        return {q: value for q, value in found.items() if q in self.answer}

    def output_of(self, mutant: Mutant) -> np.ndarray:
        """The output alone that a mistake gives in the widest precision."""
        with dividing_by_zero(self.divides_by_zero):
            return np.asarray(mutant.function(*self.wide, **self.problem.case.options))

    def wide_values(self, mutant: Mutant) -> Answer:
        """What a mistake gives in the widest precision, which is kept of small cases."""
        key = mutant, self._has_gradients, self.divides_by_zero
        if key not in self.known:
            if self.size > KEPT:
                self.known.clear()
            with dividing_by_zero(self.divides_by_zero):
                self.known[key] = answer_of(self.problem, mutant.function, WIDE, gradients=self._has_gradients)
        return {q: value for q, value in self.known[key].items() if q in self.answer}

    def ratio(self, given: np.ndarray, value: np.ndarray, allowed: np.ndarray) -> float:
        """The worst error over bound; infinite for another shape. Where anything is allowed, NaN is right as well."""
        if np.shape(given) != np.shape(value):
            return math.inf
        if np.isinf(allowed).any():
            given = np.where(np.isinf(allowed), value, given)
        given, value = np.asarray(given, WIDE), np.asarray(value, WIDE)
        return float(errors_over_bounds(given, value, allowed, self.problem.dtype)[1].max(initial=0))

    def only(self, quantities: Collection[str]) -> "Answered":
        """The same of these quantities alone."""
        kept = tuple(q for q in self.answer if q in quantities)
        if kept not in self._parts:
            self._parts[kept] = Answered(self.problem, {q: self.answer[q] for q in kept}, self.known)
        return self._parts[kept]

    @functools.cached_property
    def _parts(self) -> dict[tuple, "Answered"]:
        return {tuple(self.answer): self}

    @functools.cached_property
    def is_misshapen(self) -> bool:
        """Whether the output has another shape than is right."""
        return "output" in self.answer and np.shape(self.answer["output"]) != self.right["output"].shape

    def shaped(self, mutant: Mutant) -> float | None:
        """Error over bound of an output of another shape that a mistake gives; None of one that it does not give.

        The bound is the largest of the right output, or 512 u of the largest number.
        """
        try:
            value = self.output_of(mutant)
            least = 512 * self.policy.stored.u * np.abs(value[np.isfinite(value)]).max(initial=1e-300)
            allowed = self.allowed["output"].max(initial=least)
            after = float(furthest(np.asarray(self.answer["output"], WIDE), value) / allowed)
            return after if after <= 1 and value.shape != self.right["output"].shape else None
        except Exception:  # it cannot be asked this
            return None

    def tells(self, quantity: str) -> bool:
        """Whether a quantity that deviates tells a mistake from others: it has finite numbers, wrong or right."""
        return bool(np.isfinite(self.answer[quantity]).any())

    def agrees(self, mutant: Mutant) -> bool | None:
        """Whether what is right here may be so with a mistake; None where it ends in an error here."""
        try:
            if mutant.rounded:
                return self._to_the_bit(mutant, wrong_or_right=True) != {}
            if mutant.narrow and self._is_lost_by(mutant):
                return False
            if mutant.narrow and not mutant.mixed:
                return True
            values = self.wide_values(mutant)
            changed = [q for q in self.changed(values) if q not in self.wrong]
            allowed = {q: self._enlarged(q, values[q]) for q in changed}
            beyond = lambda: max((self.ratio(self.answer[q], values[q], allowed[q]) for q in changed), default=0.0)
            if beyond() <= 1:
                return True
            spread = self._spread(mutant, values, SAMPLES)
            allowed = {q: a + spread[q] for q, a in allowed.items()}
            return beyond() <= 1
        except Exception:
            return None

    def contradicts(self, mutant: Mutant) -> bool:
        """Whether what is right here cannot be so with a mistake."""
        return self.agrees(mutant) is False

    def _is_lost_by(self, mutant: Mutant) -> bool:
        """Whether a mistake, however its inputs round, gives what is far from right, or not finite, where this is."""
        given = {q: np.asarray(value, WIDE) for q, value in self.answer.items() if q not in self.wrong}
        beyond = {q: np.isfinite(value) for q, value in given.items()}
        for arrays in itertools.chain([None], self._moved(mutant, NARROW_SAMPLES)):
            found = self.values(mutant.function, self.computed_in, arrays)
            for q in beyond.keys() & found.keys():
                beyond[q] &= ~(distances(np.asarray(found[q], WIDE), self.right[q]) <= FAR * self.allowed[q])
            if not any(where.any() for where in beyond.values()):
                return False
        return True

    def is_changed_by(self, mutant: Mutant) -> bool:
        """Whether right answers here would not be so with a mistake."""
        try:
            return bool(self.changed(self.values(mutant.function, self.computed_in if mutant.narrow else WIDE)))
        except Exception:  # it cannot be asked this
            return False

    def is_changed_by_itself(self, mutant: Mutant) -> bool:
        """Whether a mistake changes what is right where pages divide by no 0, in any precision, or cannot be asked."""
        try:
            for dtype in (WIDE, self.computed_in):
                found = answer_of(self.problem, mutant.function, dtype, gradients=self._has_gradients)
                if self.changed({q: value for q, value in found.items() if q in self.answer}):
                    return True
            return False
        except Exception:
            return True

    def is_nearer(self, mutant: Mutant) -> bool:
        """Whether the answer is less far from what a mistake gives than from what is right, if that is known."""
        try:
            values = self.wide_values(mutant)
        except Exception:  # it cannot be asked this
            return False
        ratios = {q: self.ratio(self.answer[q], values[q], self.allowed[q]) for q in self.wrong if q in values}
        return all(ratio < self.wrong[q] or math.isinf(self.wrong[q]) for q, ratio in ratios.items())

    def tells_from_right(self, mutant: Mutant) -> bool:
        """Whether what a mistake gives is far from what is right, beside ȳ."""
        try:
            values = self.wide_values(mutant)
        except Exception:  # it cannot be asked this
            return False
        least = 10 * FAR * self.policy.stored.u * np.abs(self.problem.cotangent).max(initial=0)
        return any(furthest(values[q], self.right[q]) > least for q in values)

    def ratios(self, mutant: Mutant) -> dict[str, float] | None:
        """{quantity: error over the bound} of a mistake of rounding; None where it cannot be asked."""
        try:
            values = self.values(mutant.function, self.computed_in)
            spread = self._spread(mutant, values, NARROW_SAMPLES)
            return {q: self.ratio(self.answer[q], v, self._enlarged(q, v) + spread[q]) for q, v in values.items()}
        except Exception:
            return None

    def explained(self, mutant: Mutant, *, loosely: bool = False, known: bool = False) -> dict[str, float] | None:
        """{quantity: error over the mutant's bound} if the mutant gives all that it changes, else {}.

        `loosely`: a mistake of rounding may have been made with sums in another order, and lose SPREAD times as much in
        any element of a row. `known`: other cases show that
        it was made, and so it explains numbers of which its rounding leaves nothing. None if it changes nothing here,
        or cannot be asked this, for its shapes or its options.
        """
        tick()
        try:
            if mutant.rounded:
                return self._to_the_bit(mutant, known=known)
            return self._narrowly(mutant, loosely, known) if mutant.narrow else self._widely(mutant)
        except Exception:
            return None

    def row(self, quantity: str) -> Row:
        """The row of a quantity."""
        return self.problem.case.name, self.problem.dtype, quantity

    def changed(self, values: Answer) -> list[str]:
        """The quantities of which the right value is not these."""
        return [q for q in values if self.ratio(values[q], self.right[q], self.allowed[q]) > 1]

    def _widely(self, mutant: Mutant) -> dict[str, float] | None:
        if "output" in self.answer:
            output = {"output": self.output_of(mutant)}
            if self.changed(output) and not self.is_near("output", output["output"]):
                return {}  # its gradients need not be computed
        values = self.wide_values(mutant)
        changed = self.changed(values)
        if not changed:
            return None
        if not any(q in self.wrong for q in changed):
            return {}
        allowed = {q: self._enlarged(q, values[q]) for q in changed}
        if mutant.cancels:
            lost = 32 * self.policy.stored.u * np.abs(self.problem.cotangent).max(initial=0)
            allowed = {q: a + lost for q, a in allowed.items()}
            return {q: r for q in changed if (r := self.ratio(self.answer[q], values[q], allowed[q])) <= 1}
        found = {q: self.ratio(self.answer[q], values[q], allowed[q]) for q in changed}
        if max(found.values()) > 1 and all(self.is_near(q, values[q]) for q in changed):
            spread = self._spread(mutant, values, SAMPLES)
            found = {q: self.ratio(self.answer[q], values[q], allowed[q] + spread[q]) for q in changed}
            if any(self.ratio(self.right[q], values[q], allowed[q] + spread[q]) <= 1 for q in changed):
                return {}  # its own rounding hides what it changes
        if max(found.values()) > 1:
            return {}
        return found if any(self._tells(q, allowed[q]) for q in changed) else None

    def _to_the_bit(
        self, mutant: Mutant, *, wrong_or_right: bool = False, known: bool = False
    ) -> dict[str, float] | None:
        """Of a rounding: the answer is what it gives, but for a few elements, which are a unit of its format off.

        Of the elements that differ from what is right, and of those that the rounding moves, nearly all are to be as
        the rounding has them. Where other cases show that it was made, a sum of many, by itself, may be a unit of its
        format off: some terms were near a tie.
        """
        form, stored, of_numbers = FORMATS[mutant.rounded], self.policy.stored, self.is_of_numbers
        values = self.values(mutant.function, self.computed_in)
        beyond = any((np.isfinite(a) & (np.abs(a) > form.largest)).any() for a in self.problem.arrays.values())
        found = {}
        for q in values if wrong_or_right else self.wrong:
            value, right, given = np.asarray(values[q], WIDE), self.right[q], np.asarray(self.answer[q], WIDE)
            if beyond:  # what becomes of infinity is no evidence
                value = np.where(np.isfinite(given), value, given)
            if self.policy.narrow:
                value, right = stored.rounded(value), stored.rounded(right)
                near = distances(given, value) == 0
                differ, moved = distances(given, right) > 0, distances(value, right) > 0
            else:
                near = distances(given, value) <= self._enlarged(q, value)
                near &= np.isfinite(value) | ~np.isfinite(given)
                differ, moved = (distances(a, right) > self.allowed[q] for a in (given, value))
            if not moved.any():
                if differ.any():
                    return {}
                continue
            size = np.abs(np.where(np.isfinite(value), value, 0))
            most = size.max(-1, keepdims=True, initial=0) if value.ndim and not of_numbers else size
            of_format = self.allowed[q] * max(form.u / stored.u, 1) if self.allowed[q].shape == value.shape else 0
            within = distances(given, value) <= np.maximum(4 * max(form.u, stored.u) * most + form.lost, of_format)
            if known and near.size == 1 and (2 * distances(given, value) < distances(given, right)).all():
                near = near | within
            if not (near | within).all() or near.sum() < EXACT * near.size:
                return {}
            large = [told & np.isfinite(a) & (a != 0) for told, a in ((differ, given), (moved, value))]  # 0 says little
            if any((near & told).sum() < EXACT * told.sum() for told in (differ, moved, *large)):
                return {}
            found[q] = float((~near).mean()) if near.size else 0.0
        return found or None

    def _narrowly(self, mutant: Mutant, loosely: bool, known: bool) -> dict[str, float] | None:
        if mutant.inside and policy(mutant.inside).stored.u <= self._inside:
            return None
        if mutant.switches.get("everything") and not self._is_stored_in(FORMATS[mutant.inside]):
            return None
        values = self.values(mutant.function, self.computed_in)
        changed = set(self.changed(values))
        if not (changed or known or mutant.inside):
            return None
        if not all(self._large_enough(q, value, self.answer[q]) for q, value in values.items()):
            return {} if changed else None
        if not known and changed and not any(self._large_enough(q, self.answer[q], values[q]) for q in changed):
            return {}  # so small an error has another cause
        if mutant.inside and self._inside == self.policy.stored.u and max(self.wrong.values(), default=0.0) < FAR:
            return {}
        spread = self._spread(mutant, values, NARROW_SAMPLES, unknown=np.inf if loosely else 0)
        allowed = {q: self._enlarged(q, value) + spread[q] for q, value in values.items()}
        if mutant.inside:
            allowed = {q: a + tolerance(self.problem.bounds[q], mutant.inside) for q, a in allowed.items()}
        changed |= {q for q in values if q in self.wrong and not (allowed[q] <= self.allowed[q]).all()}
        found = {q: self.ratio(self.answer[q], values[q], allowed[q]) for q in changed}
        if found and loosely and max(found.values()) > 1:
            exact = self.values(mutant.function, WIDE)
            lost = {q: spread[q] + SPREAD * np.abs(values[q] - exact[q]) for q in changed}
            of_rows = (lambda lost, _: lost) if self.is_of_numbers else along_rows
            allowed |= {q: allowed[q] + of_rows(lost[q], values[q]) for q in changed}
            found = {q: self.ratio(self.answer[q], values[q], allowed[q]) for q in changed}
            if not known and not any(self._tells(q, allowed[q]) for q in found):
                return None
        return None if not found else found if max(found.values()) <= 1 else {}

    def _tells(self, quantity: str, allowed: np.ndarray) -> bool:
        """Whether an answer is wrong somewhere where not everything is allowed."""
        allowed_of_right = np.where(np.isinf(allowed), np.inf, self.allowed[quantity])
        return self.ratio(self.answer[quantity], self.right[quantity], allowed_of_right) > 1

    def _is_stored_in(self, form: Format) -> bool:
        """Whether all that was answered is a number of a format."""
        return all(not distances(np.asarray(value, WIDE), form.rounded(value)).any() for value in self.answer.values())

    def _enlarged(self, quantity: str, value: np.ndarray) -> np.ndarray:
        """The bound of the right value, or the same part of the mutant's where that is larger: from 4 to 512 u of it.

        4 u of the format that is computed in, which may be wider than that in which results are stored.

        Of inputs that hold NaN or infinity, what is not finite by a mistake is no evidence against it.
        """
        allowed, size, u = self.allowed[quantity], np.abs(value), self.policy.stored.u
        if allowed.shape != size.shape:
            return 4 * u * size
        part = np.nan_to_num(allowed / np.abs(self.right[quantity]), nan=0, posinf=0)
        other = ~np.isfinite(value) & (distances(np.asarray(self.answer[quantity], WIDE), value) > 0)
        if all(np.isfinite(array).all() for array in self.problem.arrays.values()):
            other = np.zeros_like(other)
        return np.where(other, np.inf, np.fmax(allowed, np.clip(part, 4 * self._inside, 512 * u) * size))

    def is_near(self, quantity: str, value: np.ndarray) -> bool:
        """Whether what the mutant leaves of the error, beyond rounding, is a small part of it."""
        given = np.asarray(self.answer[quantity], WIDE)
        if given.shape != value.shape or given.shape != self.right[quantity].shape:
            return False
        away = distances(given, value)
        rest = float(np.where(away > self.allowed[quantity], away, 0).max(initial=0))
        error = furthest(given, self.right[quantity])
        return rest <= NEAR * error if math.isfinite(error) else math.isfinite(rest)

    def _large_enough(self, quantity: str, value: np.ndarray, other: np.ndarray) -> bool:
        """Whether the error of a value is of the size of another's, or larger: not FAR smaller."""
        right, most = self.right[quantity], float(self.allowed[quantity].max(initial=0))
        own, error = (furthest(np.asarray(a, WIDE), right) for a in (value, other))
        return not error > FAR * max(own, most)

    def _moved(self, mutant: Mutant, samples: int) -> Iterator[list[np.ndarray]]:
        """Inputs moved by half a unit in the last place, first, unless it is known of a mistake, as they are."""
        dtype, u = self.computed_in, policy(mutant.inside).stored.u if mutant.inside else self._inside
        rng = np.random.default_rng(zlib.crc32(self.problem.case.name.encode()))
        for sample in range(int(mutant.narrow), samples):  # what is narrow was computed of inputs as they are
            step = float(u) if sample else 0.0
            ways = [(a, rng.choice([-1.0, 0.0, 1.0], a.shape)) for a in self.problem.arrays.values()]
            yield [np.where(np.isfinite(a), a + a * (step * way), a).astype(dtype) for a, way in ways]

    @property
    def _inside(self) -> float:
        """Half a unit in the last place of the numbers that are computed with."""
        return self.policy.stored.u if self.policy.every else self.policy.inside.u

    def _spread(self, mutant: Mutant, values: Answer, samples: int, *, unknown: float = 0.0) -> dict[str, np.ndarray]:
        """SPREAD times the largest difference of values in the precision of the case, for inputs moved by u/2.

        `unknown` where there is none: one of the values is not finite.
        """
        most = {q: np.zeros(np.shape(value), WIDE) for q, value in values.items()}
        for arrays in self._moved(mutant, samples):
            found = self.values(mutant.function, self.computed_in, arrays)
            for q, value in values.items():
                same = (found[q] == value) | (np.isnan(found[q]) & np.isnan(value))
                difference = np.where(same, 0, np.abs(found[q].astype(WIDE) - value))
                most[q] = np.maximum(most[q], np.where(np.isfinite(difference), difference, unknown))
        return {q: SPREAD * difference for q, difference in most.items()}
