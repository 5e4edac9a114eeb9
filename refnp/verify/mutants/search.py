"""The cause, named: which mutants give the answers that deviate.

A mutant explains a row (a quantity of a case, in one precision) if its value is there beyond the bound of the right
one, and the answer within its own; and if in that case every other quantity that it changes is explained as well. Of
the mutants that explain rows of a layer the one with most rows is named first, of equal ones that which is contradicted
by fewest cases that are right, then the simplest; then the same again for the rows that are left. What no mutant
explains, one of rounding may with sums in another order, or two at once.

The bound of a mutant's value has two parts. The first is that of the right value, larger where the mutant's is. The
second covers what the mutant's own formula loses: it is computed in the precision of the case, with inputs moved by
half a unit in the last place, several times, and SPREAD times the largest difference is allowed.
"""

import functools
import itertools
import math
import warnings
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from refnp.autograd import vjp
from refnp.numbers.precision import Policy, policy
from refnp.numbers.rounding import WIDE, tolerance
from refnp.verify.bounds import errors_over_bounds
from refnp.verify.case import Answer, Layer, Problem
from refnp.verify.judge import DEVIATES
from refnp.verify.mutants.general import of_gradients
from refnp.verify.mutants.mutant import Mutant

SPREAD, SAMPLES, NARROW_SAMPLES = 8, 3, 8
NEAR = 0.1  # of the error that is to be explained may be left where the mutant's own rounding is worth measuring
FAR = 100  # times the error that is seen of a mutant's rounding, and it is not worth measuring more often
GIVEN_UP = 6  # cases that a mutant changes and does not explain, before it explains any
FIRST = 4  # cases, the smallest, that every mutant is tried on before any is on all


Row = tuple[str, str, str]  # case, dtype, quantity


@dataclass(frozen=True)
class Cause:
    """What the rows of one layer have in common: the answers are as if `says`. "" if no mutant gives them.

    `before` and `after` are the largest error over bound of these rows, against the right value and the mutant's.
    `others` are mutants that no row tells from the first. `pattern` says what else is known of the rows.
    """

    says: str
    rows: tuple
    before: float
    after: float
    layer: str = ""
    others: tuple[str, ...] = ()
    pattern: str = ""

    def __str__(self) -> str:
        count = f"{len(self.rows)} row{'' if len(self.rows) == 1 else 's'}"
        where = f", {self.pattern}" if self.pattern else ""
        if not self.says:
            return f"{self.layer}: no known mistake fits {count} (error over bound {short(self.before)}){where}"
        fits = ", or ".join(f"as if {says}" for says in (self.says, *self.others))
        falls = f"error over bound falls from {short(self.before)} to {short(self.after)}"
        return f"{self.layer}: {fits} ({falls}; {count}{where})"


def short(ratio: float) -> str:
    """An error over bound in three digits."""
    return "inf" if math.isinf(ratio) else f"{ratio:.3g}"


@dataclass(frozen=True, eq=False)
class Answered:
    """A problem with the answer that was given and the right one."""

    problem: Problem
    answer: Answer

    @functools.cached_property
    def policy(self) -> Policy:
        """Where the answer may round."""
        return policy(self.problem.dtype)

    @functools.cached_property
    def right(self) -> Answer:
        """The right answer, in the widest precision, of what was answered."""
        return self.values(self.problem.case.layer.function, WIDE)

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
        """What a function answers of what was answered: often an output without gradients."""
        found = answer_of(self.problem, function, dtype, arrays, gradients=len(self.answer) > 1)
        return {q: value for q, value in found.items() if q in self.answer}

    def ratio(self, given: np.ndarray, value: np.ndarray, allowed: np.ndarray) -> float:
        """The worst error over bound; infinite for another shape. Where anything is allowed, NaN is right as well."""
        if np.shape(given) != np.shape(value):
            return math.inf
        if np.isinf(allowed).any():
            given = np.where(np.isinf(allowed), value, given)
        given, value = np.asarray(given, WIDE), np.asarray(value, WIDE)
        return float(errors_over_bounds(given, value, allowed, self.problem.dtype)[1].max(initial=0))

    def explained(self, mutant: Mutant, *, loosely: bool = False, known: bool = False) -> dict[str, float] | None:
        """{quantity: error over the mutant's bound} if the mutant gives all that it changes, else {}.

        `loosely`: a mistake of rounding may have been made with sums in another order, and lose SPREAD times as much in
        any element of a row. `known`: other cases show that
        it was made, and so it explains numbers of which its rounding leaves nothing. None if it changes nothing here,
        or cannot be asked this, for its shapes or its options.
        """
        try:
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
        output = {"output": np.asarray(mutant.function(*self.wide, **self.problem.case.options))}
        if self.changed(output) and not self._near("output", output["output"]):
            return {}  # its gradients need not be computed
        values = self.values(mutant.function, WIDE)
        changed = self.changed(values)
        if not changed:
            return None
        if not any(q in self.wrong for q in changed):
            return {}
        allowed = {q: self._enlarged(q, values[q]) for q in changed}
        found = {q: self.ratio(self.answer[q], values[q], allowed[q]) for q in changed}
        if max(found.values()) > 1 and all(self._near(q, values[q]) for q in changed):
            spread = self._spread(mutant, values, SAMPLES)
            found = {q: self.ratio(self.answer[q], values[q], allowed[q] + spread[q]) for q in changed}
            if any(self.ratio(self.right[q], values[q], allowed[q] + spread[q]) <= 1 for q in changed):
                return {}  # its own rounding hides what it changes
        return found if max(found.values()) <= 1 else {}

    def _narrowly(self, mutant: Mutant, loosely: bool, known: bool) -> dict[str, float] | None:
        if mutant.inside and policy(mutant.inside).stored.u <= self.policy.stored.u:
            return None
        values = self.values(mutant.function, self.policy.dtype)
        changed = set(self.changed(values))
        if not (changed or known or mutant.inside):
            return None
        if not all(self._large_enough(q, value, self.answer[q]) for q, value in values.items()):
            return {} if changed else None
        spread = self._spread(mutant, values, NARROW_SAMPLES, unknown=np.inf if loosely else 0)
        allowed = {q: self._enlarged(q, value) + spread[q] for q, value in values.items()}
        if mutant.inside:
            allowed = {q: a + tolerance(self.problem.bounds[q], mutant.inside) for q, a in allowed.items()}
            if not any(self._large_enough(q, self.answer[q], values[q]) for q in changed):
                return {}  # so small an error has another cause
        changed |= {q for q in values if q in self.wrong and not (allowed[q] <= self.allowed[q]).all()}
        found = {q: self.ratio(self.answer[q], values[q], allowed[q]) for q in changed}
        if found and loosely and max(found.values()) > 1:
            exact = self.values(mutant.function, WIDE)
            lost = {q: spread[q] + SPREAD * np.abs(values[q] - exact[q]) for q in changed}
            allowed |= {q: allowed[q] + _along_rows(lost[q], values[q]) for q in changed}
            found = {q: self.ratio(self.answer[q], values[q], allowed[q]) for q in changed}
            if not known and not any(self._tells(q, allowed[q]) for q in found):
                return None
        return None if not found else found if max(found.values()) <= 1 else {}

    def _tells(self, quantity: str, allowed: np.ndarray) -> bool:
        """Whether an answer is wrong somewhere where not everything is allowed."""
        allowed_of_right = np.where(np.isinf(allowed), np.inf, self.allowed[quantity])
        return self.ratio(self.answer[quantity], self.right[quantity], allowed_of_right) > 1

    def _enlarged(self, quantity: str, value: np.ndarray) -> np.ndarray:
        """The bound of the right value, or the same part of the mutant's where that is larger: from 4 to 64 u of it."""
        allowed, size, u = self.allowed[quantity], np.abs(value), self.policy.stored.u
        if allowed.shape != size.shape:
            return 4 * u * size
        part = np.nan_to_num(allowed / np.abs(self.right[quantity]), nan=0, posinf=0)
        return np.fmax(allowed, np.clip(part, 4 * u, 64 * u) * size)

    def _near(self, quantity: str, value: np.ndarray) -> bool:
        """Whether what the mutant leaves of the error is a small part of it."""
        given = np.asarray(self.answer[quantity], WIDE)
        if given.shape != value.shape:
            return False
        rest, error = (_furthest(given, v) for v in (value, self.right[quantity]))
        return rest <= NEAR * error if math.isfinite(error) else math.isfinite(rest)

    def _large_enough(self, quantity: str, value: np.ndarray, other: np.ndarray) -> bool:
        """Whether the error of a value is of the size of another's, or larger: not FAR smaller."""
        right, most = self.right[quantity], float(self.allowed[quantity].max(initial=0))
        own, error = (_furthest(np.asarray(a, WIDE), right) for a in (value, other))
        return not error > FAR * max(own, most)

    def _spread(self, mutant: Mutant, values: Answer, samples: int, *, unknown: float = 0.0) -> dict[str, np.ndarray]:
        """SPREAD times the largest difference of values in the precision of the case, for inputs moved by u/2.

        `unknown` where there is none: one of the values is not finite.
        """
        dtype, u = self.policy.dtype, policy(mutant.inside or self.policy).stored.u
        rng = np.random.default_rng(zlib.crc32(self.problem.case.name.encode()))
        most = {q: np.zeros(np.shape(value), WIDE) for q, value in values.items()}
        for sample in range(int(mutant.narrow), samples):  # those of a mutant of rounding are of inputs as they are
            step = float(u) if sample else 0.0
            moved = [a + a * (step * rng.choice([-1.0, 0.0, 1.0], a.shape)) for a in self.problem.arrays.values()]
            found = self.values(mutant.function, dtype, [a.astype(dtype) for a in moved])
            for q, value in values.items():
                same = (found[q] == value) | (np.isnan(found[q]) & np.isnan(value))
                difference = np.where(same, 0, np.abs(found[q].astype(WIDE) - value))
                most[q] = np.maximum(most[q], np.where(np.isfinite(difference), difference, unknown))
        return {q: SPREAD * difference for q, difference in most.items()}


def _along_rows(lost: np.ndarray, value: np.ndarray) -> np.ndarray:
    """The largest of each row; ∞ in a row of which rounding may leave nothing."""
    if not lost.ndim or not lost.size:
        return lost
    most = np.where(np.isnan(lost), np.inf, lost).max(-1, keepdims=True)
    size = np.abs(np.where(np.isfinite(value), value, 0)).max(-1, keepdims=True)
    return np.broadcast_to(np.where(most < size, most, np.inf), lost.shape)


def _furthest(x: np.ndarray, y: np.ndarray) -> float:
    """The largest difference; none between the same infinities or two NaN, an infinite one to what is not finite."""
    if x.shape != y.shape:
        return math.inf
    difference = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0, np.abs(x - y))
    return float(np.nan_to_num(difference, nan=np.inf, posinf=np.inf).max(initial=0))


def answer_of(
    problem: Problem,
    function: Callable,
    dtype: Any,
    arrays: Sequence[np.ndarray] | None = None,
    *,
    gradients: bool = True,
) -> Answer:
    """Output and gradients of a function of the problem's arrays and options, computed in `dtype`."""
    arrays = [a.astype(dtype) for a in (problem.arrays.values() if arrays is None else arrays)]
    applied = lambda *given: function(*given, **problem.case.options)
    if not gradients or len(problem.case.quantities) == 1:
        return {"output": np.asarray(applied(*arrays))}
    output, pullback = vjp(applied, *arrays)
    output = np.asarray(output)
    if output.shape != problem.cotangent.shape:  # there is no gradient to compare
        return {"output": output}
    return problem.selected(output, lambda: pullback(problem.cotangent.astype(dtype)))


def causes_among(
    mutants_of: Callable[[Layer], list[Mutant]], answers: Iterable[tuple[Problem, Answer]], rows: Iterable[Any]
) -> list[Cause]:
    """What explains the rows that deviate: known mistakes, and for the rest that there is none that fits.

    `rows` are those of a report, `Judgement`s or the mappings of `--json`; those that do not deviate are left out.
    """
    wrong = {_row_of(row) for row in rows if _get(row, "verdict") == DEVIATES}
    by_layer: dict[str, list[Answered]] = {}
    for problem, answer in answers:
        by_layer.setdefault(problem.case.layer.name, []).append(Answered(problem, answer))
    found = []
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for answered in by_layer.values():
            own = wrong & {row for a in answered for row in a.rows}
            if own:
                found += _of_layer(answered, own, mutants_of(answered[0].problem.case.layer))
    return found


def _get(row: Any, name: str) -> Any:
    return row[name] if isinstance(row, dict) else getattr(row, name)


def _row_of(row: Any) -> Row:
    return _get(row, "case"), _get(row, "dtype"), _get(row, "quantity")


@dataclass
class Explanation:
    """A mutant with the rows that it explains: {row: error over its bound}."""

    mutant: Mutant
    rows: dict[Row, float]
    simplicity: int
    loosely: bool = False
    contradictions: int = 0


def _of_layer(answered: list[Answered], wrong: set[Row], mutants: list[Mutant]) -> list[Cause]:
    """The causes of a layer's rows that deviate, and a cause without a name for those that none explains.

    A mistake of rounding that leaves rows unexplained, and explains no more than half, may fit by chance.
    """
    deviating = sorted((a for a in answered if a.rows & wrong), key=lambda a: a.size)
    before = {row: a.wrong.get(row[2], math.inf) for a in deviating for row in a.rows & wrong}
    chosen, left = _best_cover(mutants, deviating, wrong, [a for a in answered if not a.rows & wrong])
    kept = [e for e in chosen if not (left and e[0].mutant.narrow and 2 * len(e[0].rows) <= len(before))]
    found = [_cause(group, before, answered) for group in kept]
    rest = set(before) - {row for cause in found for row in cause.rows}
    if rest:
        worst = max(before[row] for row in rest)
        layer = answered[0].problem.case.layer.name
        found.append(Cause("", _sorted(rest), worst, worst, layer, (), _pattern(rest, answered)))
    return found


def _best_cover(
    mutants: list[Mutant], deviating: list[Answered], wrong: set[Row], right: list[Answered]
) -> tuple[list[list[Explanation]], set[Row]]:
    """Explanations that cover the rows, and the rows that are left.

    As long as rows are left, more is tried: mistakes of rounding with sums in another order, gradients of a wrong
    factor, two mistakes at once.
    """
    every = {row for a in deviating for row in a.rows & wrong}
    cover = lambda explanations: _cover(explanations, every, deviating, right)
    found = _singles(mutants, deviating, wrong)
    best = cover(found)
    if best[1]:
        narrow = [mutant for mutant in mutants if mutant.narrow and not mutant.inside]
        found = found + _singles(narrow, deviating, wrong, loosely=True)
        best = min(best, cover(found), key=_worth)
    if (best[1] or len(best[0]) > 1) and any(row[2] != "output" for row in every):
        most = max((a.problem for a in deviating), key=lambda p: len(p.arrays))
        found = found + _singles(of_gradients(most.case.layer, list(most.arrays)), deviating, wrong)
        best = min(best, cover(found), key=_worth)
    if best[1]:
        pairs = _pairs(mutants, [a for a in deviating if a.rows & best[1]], deviating, wrong)
        best = min(best, cover(pairs + found), key=_worth)
    return best


def _worth(covered: tuple[list, set[Row]]) -> tuple[int, int]:
    """Less left is better, and then fewer mistakes."""
    return len(covered[1]), len(covered[0])


def _sorted(rows: Iterable[Row]) -> tuple[Row, ...]:
    return tuple(sorted(rows))


def _singles(
    mutants: list[Mutant], deviating: list[Answered], wrong: set[Row], *, loosely: bool = False
) -> list[Explanation]:
    """What each mutant explains; only those that explain everything, if the smallest cases find such."""
    first, rest = deviating[:FIRST], deviating[FIRST:]
    own = wrong & {row for a in first for row in a.rows}
    found = [_explanation(Explanation(m, {}, i, loosely), first, wrong) for i, m in enumerate(mutants)]
    promising = [e for e in found if e.rows.keys() == own]
    for e in promising:
        _explanation(e, rest, wrong)
    if all_of_it := [e for e in promising if e.rows.keys() == wrong]:
        return all_of_it
    for e in found:
        if e not in promising:
            _explanation(e, rest, wrong)
    return [e for e in found if e.rows]


def _explanation(e: Explanation, deviating: list[Answered], wrong: set[Row]) -> Explanation:
    """The explanation with what its mutant explains of these cases too."""
    failures = 0
    for a in deviating:
        found = a.explained(e.mutant, loosely=e.loosely)
        e.rows |= {row: after for q, after in (found or {}).items() if (row := a.row(q)) in wrong}
        failures += found == {}
        if failures == GIVEN_UP and not e.rows:
            break
    return e


def _pairs(
    mutants: list[Mutant], left: list[Answered], deviating: list[Answered], wrong: set[Row]
) -> list[Explanation]:
    """The pairs that explain something of a small case that is left, or of a larger one, with all that they explain.

    Only those of which each alone changes something in that case.
    """
    found = []
    tried = tuple(dict.fromkeys((left[0], left[len(left) // 3], left[2 * len(left) // 3])))
    changed = {id(mutant): {a for a in tried if _changes(a, mutant)} for mutant in mutants}
    both = ((i, one, other) for i, (one, other) in enumerate(itertools.combinations(mutants, 2)))
    for i, one, other in both:
        in_both, pair = changed[id(one)] & changed[id(other)], one.together(other)
        if pair is not None and any(a.explained(pair) for a in tried if a in in_both):
            found.append(_explanation(Explanation(pair, {}, len(mutants) + i), deviating, wrong))
    return [e for e in found if e.rows]


def _cover(
    explanations: list[Explanation], rows: set[Row], deviating: list[Answered], right: list[Answered]
) -> tuple[list[list[Explanation]], set[Row]]:
    """Groups of explanations that no row tells apart, those with most rows first; and the rows that none explains."""
    left, chosen = set(rows), []
    while left:
        most = max((len(left & e.rows.keys()) for e in explanations), default=0)
        if not most:
            break
        best = [e for e in explanations if len(left & e.rows.keys()) == most]
        best = [e for e in best if not e.mutant.inside] or best  # a value that fits says more than a precision
        if len(best) > 1:
            for e in best:
                e.contradictions = sum(_changes(a, e.mutant) for a in right)
            fewest = min(e.contradictions for e in best)
            best = [e for e in best if e.contradictions == fewest]
        best.sort(key=lambda e: (len(e.mutant.switches), e.simplicity))
        simplest = len(best[0].mutant.switches)
        own = best[0].rows.keys()
        group = [e for e in best if e.rows.keys() == own and len(e.mutant.switches) == simplest]
        chosen.append(group)
        left = _absorbed(group, deviating, left - own)
    return chosen, left


def _absorbed(group: list[Explanation], deviating: list[Answered], left: set[Row]) -> set[Row]:
    """What is left when the rows that the rounding of a chosen mutant explains are counted to it."""
    mutant = group[0].mutant
    narrow = replace(mutant, narrow=True)
    for a in deviating:
        found = a.explained(narrow, loosely=mutant.narrow, known=True) if a.rows & left else {}
        absorbed = {a.row(q): after for q, after in (found or {}).items()}
        for e in group:
            e.rows |= {row: after for row, after in absorbed.items() if row in left}
        left = left - absorbed.keys()
    return left


def _changes(a: Answered, mutant: Mutant) -> bool:
    """Whether right answers to a case would not be so with this mutant."""
    try:
        return bool(a.changed(a.values(mutant.function, a.policy.dtype if mutant.narrow else WIDE)))
    except Exception:  # it cannot be asked this
        return False


def _cause(group: list[Explanation], before: dict[Row, float], answered: list[Answered]) -> Cause:
    best, *others = group
    rows = _sorted(best.rows)
    return Cause(
        best.mutant.says,
        rows,
        max(before[row] for row in rows),
        max(best.rows.values()),
        answered[0].problem.case.layer.name,
        tuple(dict.fromkeys(e.mutant.says for e in others if e.mutant.says != best.mutant.says)),
    )


def _pattern(rows: set[Row], answered: list[Answered]) -> str:
    """What sets these rows apart from those that are right: a precision, outputs or gradients, a kind of input."""
    every = {row for a in answered for row in a.rows}
    fine = every - rows
    outputs = lambda chosen: {row[2] == "output" for row in chosen}
    names = {a.problem.case.name: a.problem for a in answered}
    found = []
    if len(types := {row[1] for row in rows}) == 1 < len({row[1] for row in every}):
        found.append(f"in {next(iter(types))} alone")
    if outputs(rows) == {True} and False in outputs(every):
        found.append("outputs alone")
    if outputs(rows) == {False} and True in outputs(fine):
        quantities = {row[2] for row in rows}
        found.append(next(iter(quantities)) + " alone" if len(quantities) == 1 else "gradients alone")
    for says, holds in PATTERNS:
        if all(holds(names[row[0]]) for row in rows) and not any(holds(names[row[0]]) for row in fine):
            found.append(says)
    if len(cases := {row[0] for row in rows}) == 1 < len(names):
        found.append(f"in the case {next(iter(cases))} alone")
    return ", ".join(found)


def _hides_a_row(problem: Problem) -> bool:
    mask = problem.case.options.get("mask")
    return mask is not None and not np.asarray(mask).any(-1).all()


PATTERNS: tuple[tuple[str, Callable[[Problem], bool]], ...] = (
    ("only where a query may attend to nothing", _hides_a_row),
    ("only under a mask", lambda p: p.case.options.get("mask") is not None),
    ("only where an axis is 512 long or more", lambda p: any(n >= 512 for a in p.arrays.values() for n in a.shape)),
    ("only where an axis has one element", lambda p: any(1 in a.shape for a in p.arrays.values())),
    ("only where an axis is empty", lambda p: any(0 in a.shape for a in p.arrays.values())),
    ("only for inputs that are not finite", lambda p: not all(np.isfinite(a).all() for a in p.arrays.values())),
    ("only for inputs larger than 1000", lambda p: any(np.abs(a).max(initial=0) > 1000 for a in p.arrays.values())),
)  # fmt: skip
