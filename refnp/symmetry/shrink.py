"""From a counter-example that was found to one that can be read: smaller, with a simpler element and simpler numbers.

    sizes      every size as small as possible, inputs drawn anew
    element    towards the identity, by the action's own steps
    numbers    whole arrays, then single numbers: to 0, to 1, to a whole number, to smaller ones, to a decimal

Each step is kept if the claim still fails there, in the same way and by no less than a thousandth of what it was: the
same judge decides as in the search.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from refnp.autograd import Array
from refnp.symmetry.actions import Action, Element
from refnp.symmetry.claim import Refusal
from refnp.symmetry.evaluation import Evaluations
from refnp.symmetry.inputs import Domain, Input
from refnp.symmetry.judge import Bound, Finding, judge

REDRAWN = 12  # inputs drawn at each smaller size
REDRAWN_WITH_STRUCTURE = 4  # the same for each kind, if the one that was found has structure
MOST_ELEMENTS = 24  # elements of a group that are tried at each
READABLE = 64  # arrays with more numbers are simplified only as a whole
SCALES = (1.0, 2.0**-10, 2.0**10)  # of inputs, unless others are asked for, and of items of very different scales
SIMPLIFIED = "simpler numbers"  # the structure of an input as drawn whose numbers were changed
LEAST_VIOLATION = 1e-3  # of the relative discrepancy that was found


@dataclass(frozen=True)
class Violation:
    """An input, an element, and what the judge found there; `anchored` if whole numbers and halves of them stay."""

    input: Input
    element: Element
    finding: Finding
    anchored: bool = False


@dataclass
class Shrinker:
    """Looks for simpler pairs at which the claim fails as it does at the one that was found.

    `evaluations` gives those of f at an input, for the judge, and raises Refusal if f does not take it. `budget` is how
    many inputs may still be judged.
    """

    action: Action
    domain: Domain
    bound: Bound | None
    evaluations: Callable[[Input], Evaluations]
    found: Violation
    seed: int
    budget: int = 1000

    def smallest(self) -> Violation:
        """The simplest that was found: sizes, then element and numbers in turn until nothing changes."""
        before = None
        while before is not self.found:
            before = self.found
            for name in self.found.input.sizes:
                self._reduce_size(name)
        before = None
        while before is not self.found:
            before = self.found
            while any(self._accept(self.found.input, [g]) for g in self.action.simpler(self.found.element)):
                pass
            for name in self.found.input.arrays:
                self._simplify_numbers(name)
        return self.found

    def _accept(self, x: Input, elements: list[Element]) -> bool:
        """Take the first element at which the claim fails on this input, if there is one."""
        if self.budget <= 0 or not self.domain.contains(x):
            return False
        self.budget -= 1
        try:
            at = self.evaluations(x)
        except Refusal:
            return False
        was = self.found.finding
        for g in elements:
            if self.action.fits(g, x.arrays) and not at.is_idle(g):
                finding = judge(at, g, self.bound)
                same = (finding.outcome, finding.kind) == ("violated", was.kind)
                if same and finding.relative >= max(LEAST_VIOLATION * min(was.relative, 1), was.noise):
                    self.found = replace(self.found, input=x, element=g, finding=replace(finding, noise=was.noise))
                    return True
        return False

    def _reduce_size(self, name: str) -> None:
        """One size, as small as the claim still fails for, the others kept."""
        x = self.found.input
        for n in sorted({n for n in self.domain.sizes[name] if n < x.sizes[name]}):
            kinds = len(self.domain.structures)
            for attempt in range(REDRAWN_WITH_STRUCTURE * kinds if x.structure else REDRAWN):
                rng = np.random.default_rng((self.seed, n, attempt))
                drawn = self._drawn(rng, {**x.sizes, name: n}, attempt)
                if drawn is not None and self._accept(drawn, some_elements(self.action, drawn, rng, MOST_ELEMENTS)):
                    return

    def _drawn(self, rng: np.random.Generator, sizes: dict[str, int], attempt: int) -> Input | None:
        """An input of other sizes like the one that was found: with its scales or without, with structure if it has."""
        x = self.found.input
        if x.structure and attempt % 4 < 3:
            others = self.domain.structures
            kind = x.structure if attempt % 4 < 2 else others[attempt // 4 % len(others)]
            return self.domain.structured(rng, sizes, x.dtype, SCALES, kind, attempt // 2)
        scales = {} if attempt % 2 == 0 else {array: (scale,) for array, scale in x.scales.items()}
        return self.domain.drawn(rng, sizes, x.dtype, scales)

    def _simplify_numbers(self, name: str) -> None:
        """Simpler numbers in one array, all of them at once if possible, then one by one."""
        array = self.found.input.arrays[name]
        if array is None:
            return
        any(self._replace(name, simpler) for simpler in _simpler(array))
        self._simplify_equal_numbers(name)
        for index in np.ndindex(array.shape) if array.size <= READABLE else ():
            while any(self._replace_number(name, index, number) for number in _simpler(self._array(name)[index])):
                pass

    def _simplify_equal_numbers(self, name: str) -> None:
        """Simpler numbers for all that are equal, so that they stay equal, in this array and in the others."""
        array = self.found.input.arrays[name]
        for number in np.unique(array[array == array]) if array.size <= READABLE else ():
            for simpler in _simpler(number):
                arrays = self.found.input.arrays
                changed = {
                    other: np.where(a == number, simpler, a).astype(a.dtype)
                    for other, a in arrays.items()
                    if a is not None and a.dtype == array.dtype and np.any(a == number)
                }
                easier = sum(map(effort, changed.values())) < sum(effort(arrays[other]) for other in changed)
                if easier and self._accept(self._simplified(changed), [self.found.element]):
                    break

    def _simplified(self, changed: dict[str, Array]) -> Input:
        """The input with these arrays, and what all draws have in common, if that is simpler still."""
        x = self.found.input
        arrays = {**x.arrays, **changed}
        restored = self.domain.constraints.restored(arrays) if self.domain.constraints else arrays
        names = [name for name, a in x.arrays.items() if a is not None]
        if sum(effort(restored[name]) for name in names) < sum(effort(x.arrays[name]) for name in names):
            arrays = restored
        return replace(x, arrays=arrays, structure=x.structure or SIMPLIFIED)

    def _array(self, name: str) -> Array:
        return self.found.input.arrays[name]

    def _replace_number(self, name: str, index: tuple[int, ...], number: Array) -> bool:
        changed = self._array(name).copy()
        changed[index] = number
        return self._replace(name, changed)

    def _replace(self, name: str, array: Array) -> bool:
        if effort(array) >= effort(self._array(name)):
            return False
        array = array + 0.0 if array.dtype.kind in "fc" else array  # no −0
        return self._accept(self._simplified({name: array}), [self.found.element])


def some_elements(action: Action, x: Input, rng: np.random.Generator, most: int) -> list[Element]:
    """All elements of a group with no more than `most`, otherwise its generators and three that are drawn."""
    every = action.elements(x.arrays)
    if every is not None and len(every) <= most:
        return every
    return [*action.generators(x.arrays), *(action.draw(rng, x.arrays) for _ in range(3))]


def effort(array: Array) -> float:
    """How hard an array is to read: the sum over its numbers. 0 and True, then 1, −1, whole numbers, decimals.

    Of numbers with as many digits the smaller is easier.
    """
    return sum(map(_effort, array.ravel().tolist()))


def _effort(number: Any) -> float:
    if isinstance(number, bool):
        return int(not number)
    if number in (0, 1, -1):
        return (0, 1, -1).index(number)
    text = repr(number)
    size = math.log1p(min(1e300, abs(number))) / 1000
    return len(text) + (5 if text.endswith(".0") or isinstance(number, int) else 20) + size


@np.errstate(all="ignore")
def _simpler(x: Array) -> list[Array]:
    """Zeros, ones, whole numbers, halves and tenths in place of an array or of one number in it.

    They are the nearest and those next on the side of 0; of a single number also parts of it, of a mask True.
    """
    if x.dtype.kind == "b":
        return [np.ones_like(x)]
    simpler = [np.zeros_like(x), np.ones_like(x)]
    if x.ndim == 0 and x.dtype.kind != "u":
        simpler.append(np.full_like(x, -1))
    smaller = (1.0, 0.5, 0.75, 0.875) if x.ndim == 0 else (1.0,)
    if x.dtype.kind in "fc":
        for parts in (1, 2, 10):
            simpler += [np.round(x * parts) / parts, *(_towards_zero(x * part * parts) / parts for part in smaller)]
    elif x.ndim == 0:
        simpler += [(x * part).astype(x.dtype) for part in smaller[1:]]
    return [y for y in simpler if np.isfinite(y).all() or not np.isfinite(x).all()]


def _towards_zero(x: Array) -> Array:
    """The whole numbers next to x on the side of 0, of both parts of a complex number."""
    return np.trunc(x.real) + 1j * np.trunc(x.imag) if x.dtype.kind == "c" else np.trunc(x)
