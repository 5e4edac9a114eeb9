"""What explains an answer that is beyond its bound: the formula of a known defect or of another convention.

An excuse explains its own numbers. An answer is excused if it is within the bound of a formula
(`refnp.verify.case.KnownDefect`), and never by a framework's name alone. `recorded/seen.json` holds the answers whose
every number has to be the one that was seen, {framework: {"case in dtype: quantity": fingerprint}}: where no formula is
known, nothing else is excused; and where a formula allows an element a hundredth of itself and more, because all its
digits are lost, a recorded answer has to be the one that was seen. seen.py makes the file.
"""

import functools
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from refnp.autograd.elementary import half_at_tie, with_sign
from refnp.autograd.primitives import raw
from refnp.autograd.reductions import among_equals
from refnp.layers.pooling import to_the_first
from refnp.numbers.precision import policy
from refnp.numbers.rounding import Rounded, at_kink, between, tolerance, where
from refnp.verify.bounds import deviation, errors_over_bounds
from refnp.verify.case import Convention, KnownDefect, Problem
from refnp.verify.layers.pooling import shared
from refnp.verify.record import FOLDER, RECORDED, key_of


def with_both_slopes(chosen: Rounded, x: Rounded, y: Rounded, same: np.ndarray) -> Rounded:
    """Anything between x and y where a comparison was of equal numbers."""
    return where(same, between(x, y), chosen)


def any_sign(y_bar: Rounded, sign: Any) -> Rounded:
    """From −ȳ to ȳ where the sign is 0."""
    return where(raw(sign) == 0, between(y_bar, -y_bar), y_bar * sign)


def any_share(chosen: Any, ties: Any, y_bar: Rounded) -> Rounded:
    """Some of ȳ for each of several that are chosen."""
    return where(raw(chosen) & (raw(ties) > 1), between(y_bar, 0 * y_bar), among_equals(chosen, ties, y_bar))


def any_half(tie: Any, z_bar: Rounded, chosen: Rounded) -> Rounded:
    """Some of z̄ where two numbers are equal."""
    return where(raw(tie), between(z_bar, 0 * z_bar), chosen)


SUBGRADIENT = Convention(
    "",
    "another subgradient at a kink",
    "where a function has a kink its gradient may be anything between the slopes at both sides",
    parts={at_kink: with_both_slopes, with_sign: any_sign},
)
OF_EQUALS = Convention(
    "",
    "another subgradient of equals",
    "the gradient of the largest may go to any of equals, or to several: together they have all of it",
    parts={to_the_first: shared, among_equals: any_share, half_at_tie: any_half},
)
SEEN = FOLDER / "seen.json"
SUMS = 8  # in which a share of a gradient is rounded
VAIN, MANY = 6, 200  # times that a formula explained nothing, and numbers of a case where it is not tried again
CHANGE = 0.01  # of an element of a recorded answer, which is to be found


@dataclass(frozen=True)
class Given:
    """An array of an answer: which quantity it is, what it was computed in, and by which version of a framework."""

    problem: Problem
    quantity: str
    array: np.ndarray
    computed_in: str = ""  # the precision of the problem unless told
    version: str = ""
    answer: Mapping[str, np.ndarray] = field(default_factory=dict)  # with the other quantities, where they are known

    @property
    def dtype(self) -> str:
        """The precision that it was computed in."""
        return self.computed_in or self.problem.dtype

    @property
    def tolerance(self) -> np.ndarray:
        """What rounding may do to the right array."""
        return tolerance(self.problem.bounds[self.quantity], self.dtype)

    def by(self, defect: KnownDefect) -> tuple[np.ndarray, np.ndarray] | None:
        """What the formula of a defect gives, and what an answer may be off from it; None if it is not of this case.

        It refuses its arguments or options, or gives another shape.
        """
        try:
            value, allowed = defect.bounds(self.problem, self.dtype)[self.quantity]
        except (TypeError, ValueError):
            return None
        return (value, allowed) if value.shape == self.array.shape else None


def excused_by(known: Sequence[KnownDefect], given: Given, vain: Counter[str] | None = None) -> KnownDefect | None:
    """The first convention that the numbers follow, or known defect; None where nothing explains them.

    In `vain` it is counted how often a formula explained nothing; one that did so VAIN times is not computed for cases
    of many numbers.
    """
    of_all = () if given.quantity == "output" else (SUBGRADIENT, OF_EQUALS)
    first = (*sorted(known, key=lambda defect: not isinstance(defect, Convention)), *of_all)
    return explaining(first, given, vain)


def explaining(defects: Sequence[KnownDefect], given: Given, vain: Counter[str] | None = None) -> KnownDefect | None:
    """The first that explains the numbers."""
    vain = Counter() if vain is None else vain
    many = sum(array.size for array in given.problem.arrays.values()) > MANY
    for defect in defects:
        if many and vain[defect.issue] >= VAIN:
            continue
        if excuses(defect, given):
            vain[defect.issue] = -sys.maxsize
            return defect
        vain[defect.issue] += 1
    return None


def excuses(defect: KnownDefect, given: Given) -> bool:
    """Whether the answer is what the formula of the defect gives; or what was seen, where the formula does not say."""
    if defect.fails:
        return False
    key = f"{key_of(given.problem)}: {given.quantity}"
    seen = fingerprints().get(defect.of or defect.framework, {}).get(key, "")
    if not defect.has_formula:
        return seen == fingerprint(given.array)
    if seen and given.version.endswith(RECORDED) and seen != fingerprint(given.array):
        return False
    return by_formula(defect, given)


def by_formula(defect: KnownDefect, given: Given) -> bool:
    """Whether every element is within the bound of the formula; where that is infinite it says nothing.

    An element of which nothing is known without the defect either, such as one that overflows, needs no explanation,
    and one that is right needs none where the formula says nothing.
    """
    if (found := given.by(defect)) is None or (defect is OF_EQUALS and not is_whole(given)):
        return False
    value, allowed = found
    allowed = np.where(np.isfinite(value), allowed, 0)
    own = given.tolerance
    silent = np.isfinite(own) & ~np.isfinite(allowed)
    if silent.any():
        right = given.problem.reference()[given.quantity]
        if (errors_over_bounds(given.array, right, own, given.dtype)[1][silent] > 1).any():
            return False
    return deviation(given.array, value, allowed, defect.computed_in or given.dtype)[0] <= 1


def is_whole(given: Given) -> bool:
    """Whether all gradients sum to what they should, if all are known: moved together, equals stay equal.

    Each may have taken part in a few sums more than what goes to the first alone.
    """
    bounds, right = given.problem.bounds, given.problem.reference()
    names = [f"gradient of {name}" for name in given.problem.arrays]
    answer = {given.quantity: given.array, **given.answer}
    if any(name not in answer or name not in bounds or answer[name].shape != right[name].shape for name in names):
        return True
    total = lambda of: sum(np.sum(of(name), dtype=np.longdouble) for name in names)
    off = abs(total(answer.get) - total(right.get))
    terms = total(lambda name: np.abs(answer[name]) + np.abs(right[name]))
    allowed = total(lambda name: tolerance(bounds[name], given.dtype))
    return bool(off <= allowed + SUMS * policy(given.dtype).stored.u * terms)


@functools.cache
def fingerprints() -> dict[str, dict[str, str]]:
    """What stands in the file."""
    return json.loads(SEEN.read_text(encoding="utf-8")) if SEEN.exists() else {}


def fingerprint(given: np.ndarray) -> str:
    """Of the type, shape and numbers of an array, where a NaN is a NaN and −0 is 0."""
    given = np.asarray(given)
    plain = np.where(np.isnan(given), np.nan, given).astype(given.dtype) + given.dtype.type(0)
    return hashlib.sha256(f"{given.dtype}{given.shape}".encode() + plain.tobytes()).hexdigest()[:16]


def contradicts(defect: KnownDefect, given: Given) -> bool:
    """Whether no number that the formula makes another than is right is as the formula has it."""
    if (found := given.by(defect)) is None:
        return False
    value, allowed = found
    right = given.problem.reference()[given.quantity]
    differs, away = (
        errors_over_bounds(a, value, bound, given.dtype)[1] > 1
        for a, bound in ((right, given.tolerance + allowed), (given.array, allowed))
    )
    return bool(differs.any() and away[differs].all())


def says_little(defect: KnownDefect, given: Given) -> bool:
    """Whether the formula would excuse the answer, too, if one of its elements were a hundredth of itself larger."""
    if (found := given.by(defect)) is None:
        return False
    (value, allowed), array = found, given.array
    changed = (array * (1 + sign * CHANGE) for sign in (-1, 1))
    return any((np.isfinite(array) & (array != 0) & (np.abs(c - value) <= allowed)).any() for c in changed)


def is_to_be_seen(known: Sequence[KnownDefect], framework: str, given: Given) -> bool:
    """Whether no formula of what is known explains a recorded answer; or one that says little."""
    where = framework, given.dtype, given.quantity, given.problem.case.name
    covering = [d for d in known if d.covers(*where) and not d.fails]
    formulas = [d for d in covering if d.has_formula and by_formula(d, given)]
    if not formulas:
        return any(not defect.has_formula for defect in covering)
    return any(says_little(defect, given) for defect in formulas)
