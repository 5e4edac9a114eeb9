"""From a counter-example that was found to one that can be read: smaller, with a simpler element and simpler numbers.

    sizes      every size as small as it goes, inputs drawn anew
    element    towards the identity, by the action's own steps
    numbers    whole arrays, then single numbers: to 0, to 1, to a whole number, to a decimal

Each step is kept if the claim still fails there, in the same way and by no less than a thousandth of what it was: the
same judge decides as in the search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from refnp.symmetry.actions import Action
from refnp.symmetry.claim import Refusal
from refnp.symmetry.inputs import Case, Domain
from refnp.symmetry.judge import Finding, Judge

REDRAWN = 12  # inputs drawn at each smaller size
MOST_ELEMENTS = 24  # elements of a group that are tried at each
BUDGET = 1000  # inputs that are judged in all
READABLE = 64  # arrays with more numbers are simplified only as a whole
SAME = 1e-3


@dataclass(frozen=True)
class Found:
    """An input, an element, and what the judge said of them."""

    case: Case
    element: Any
    finding: Finding


class Shrinker:
    """Looks for simpler pairs at which the claim fails as it does at the one that was found."""

    def __init__(self, action: Action, domain: Domain, judge: Callable[[Case], Judge], found: Found, seed: int):
        self.action, self.domain, self.judge, self.found, self.seed = action, domain, judge, found, seed
        self.left = BUDGET

    def smallest(self) -> Found:
        """The simplest that was found: sizes, then element and numbers in turn until nothing changes."""
        before = None
        while before is not self.found:
            before = self.found
            for name in self.found.case.sizes:
                self._smaller(name)
        before = None
        while before is not self.found:
            before = self.found
            while any(self._accept(self.found.case, [g]) for g in self.action.simpler(self.found.element)):
                pass
            for name in self.found.case.inputs:
                self._numbers(name)
        return self.found

    def _accept(self, case: Case, elements: list[Any]) -> bool:
        """Take the first element at which the claim fails on this input, if there is one."""
        if self.left <= 0 or not self.domain.contains(case.inputs):
            return False
        self.left -= 1
        try:
            judge = self.judge(case)
        except Refusal:
            return False
        for element in elements:
            if not self.action.fits(element, case.inputs) or judge.site.moves_nothing(element):
                continue
            finding, was = judge(element), self.found.finding
            same = finding.outcome == "violated" and finding.kind == was.kind
            if same and finding.relative >= SAME * min(was.relative, 1):
                self.found = Found(case, element, finding)
                return True
        return False

    def _smaller(self, name: str) -> None:
        """One size, as small as the claim still fails for, the others kept."""
        case = self.found.case
        for n in sorted({n for n in self.domain.sizes[name] if n < case.sizes[name]}):
            for attempt in range(REDRAWN):
                rng = np.random.default_rng((self.seed, n, attempt))
                scales = {} if attempt % 2 == 0 else {array: (scale,) for array, scale in case.scales.items()}
                drawn = self.domain.drawn(rng, {**case.sizes, name: n}, case.dtype, scales)
                if self._accept(drawn, few_elements(self.action, drawn, rng, MOST_ELEMENTS)):
                    return

    def _numbers(self, name: str) -> None:
        """Simpler numbers in one array, all of them at once if that can be, then one by one."""
        if self.found.case.inputs[name] is None:
            return
        any(self._put(name, simpler) for simpler in _simpler_arrays(self.found.case.inputs[name]))
        if self.found.case.inputs[name].size > READABLE:
            return
        for place in np.ndindex(self.found.case.inputs[name].shape):
            array = self.found.case.inputs[name]
            any(self._put(name, _with(array, place, number)) for number in _simpler_numbers(array[place]))

    def _put(self, name: str, array: np.ndarray) -> bool:
        case = self.found.case
        if effort(array) >= effort(case.inputs[name]):
            return False
        array = array + 0.0 if array.dtype.kind in "fc" else array  # no −0
        return self._accept(replace(case, inputs={**case.inputs, name: array}), [self.found.element])


def few_elements(action: Action, case: Case, rng: np.random.Generator, most: int) -> list[Any]:
    """All elements of a group with no more than `most`, otherwise its generators and three that are drawn."""
    every = action.elements(case.inputs)
    if every is not None and len(every) <= most:
        return every
    return [*action.generators(case.inputs), *(action.draw(rng, case.inputs) for _ in range(3))]


def effort(array: np.ndarray) -> int:
    """How hard an array is to read: the sum over its numbers. 0 and True, then 1, −1, whole numbers, decimals."""
    return sum(map(_effort, array.ravel().tolist()))


def _effort(number: Any) -> int:
    if isinstance(number, bool):
        return int(not number)
    if number in (0, 1, -1):
        return (0, 1, -1).index(number)
    text = repr(number)
    return len(text) + (5 if text.endswith(".0") or isinstance(number, int) else 20)


def _simpler_arrays(array: np.ndarray) -> Iterator[np.ndarray]:
    """The whole array at once: zeros, ones, whole numbers, tenths; masks True everywhere."""
    if array.dtype.kind != "b":
        yield np.zeros_like(array)
    yield np.ones_like(array)
    if array.dtype.kind in "fc":
        yield np.round(array)
        yield np.round(array, 1)


def _simpler_numbers(number: Any) -> list[Any]:
    if number.dtype.kind == "b":
        return [True]
    return [0, 1, -1, *([np.round(number), np.round(number, 1)] if number.dtype.kind in "fc" else [number // 2])]


def _with(array: np.ndarray, place: tuple[int, ...], number: Any) -> np.ndarray:
    changed = array.copy()
    changed[place] = number
    return changed
