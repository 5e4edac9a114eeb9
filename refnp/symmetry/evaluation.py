"""The two sides of a claim, f(g·x) and g·f(x), at an input and at inputs beside it, in two precisions.

Beside means: every real number other by some part of itself, from 16 roundings of the coarser precision at the first
such input to 2⁻²⁰ at the last, then as many at 2⁻²⁰; `k` counts them, and k = 0 is x itself. (A place that moved far is
rounded so coarsely that small changes do not reach it.) An element that is made of real numbers varies as well, by
roundings. All inputs are numbers of the coarser precision, so that both see the same. A `Site` keeps what belongs to x
for all elements, a `Pair` what belongs to one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.symmetry.actions import Arrays
from refnp.symmetry.claim import WIDE, Claim, DType, Ladder, Refusal, cast, roundoff

Key = tuple[int, DType]


@dataclass(frozen=True)
class Vector:
    """Arrays one after the other, in the widest precision, complex numbers as two; `form` says where each one lies.

    `rounded` is True for numbers that rounding reaches: not for whole numbers and booleans.
    """

    form: tuple[tuple[str, tuple[int, ...]], ...]
    ends: tuple[int, ...]
    values: np.ndarray
    rounded: np.ndarray

    @staticmethod
    def of(arrays: Mapping[str, np.ndarray]) -> Vector:
        parts = {
            name: np.stack([a.real, a.imag], -1).ravel() if a.dtype.kind == "c" else a.ravel()
            for name, a in sorted(arrays.items())
        }
        values = np.concatenate([np.zeros(0, WIDE), *parts.values()], dtype=WIDE, casting="unsafe")
        rounded = np.concatenate([np.zeros(0, bool), *(np.full(a.shape, a.dtype.kind == "f") for a in parts.values())])
        ends = tuple(np.cumsum([a.size for a in parts.values()]).tolist())
        return Vector(tuple((name, arrays[name].shape) for name in parts), ends, values, rounded)

    def minus(self, other: Vector) -> np.ndarray:
        """The differences; 0 for equal infinities and two NaNs, infinite where only one of two numbers is finite."""
        a, b = self.values, other.values
        with np.errstate(all="ignore"):
            d = a - b
        odd = ~np.isfinite(d)
        if odd.any():
            same = (a == b) | (np.isnan(a) & np.isnan(b))
            d = np.where(odd, np.where(same, 0, np.inf), d)
        return d

    def over_size(self, d: np.ndarray, other: Vector, *, empty: float = np.inf) -> float:
        """The largest |d| in units of the largest finite number in its array, on either side.

        Where an array has no finite number but 0, that of a d other than 0 is `empty`.
        """
        worst, start = 0.0, 0
        for end in self.ends:
            top = max(_largest(self.values[start:end]), _largest(other.values[start:end]))
            if end > start and (gap := float(np.max(np.abs(d[start:end])))) > 0:
                worst = max(worst, gap / top if top else empty)
            start = end
        return worst

    def spread(self, d: np.ndarray, other: Vector) -> np.ndarray:
        """For every number of this vector the largest |d| in the array of the same name of `other`, to which d belongs.

        Arrays that `other` lacks get 0."""
        most, start = {}, 0
        for (name, _), end in zip(other.form, other.ends, strict=True):
            most[name] = np.max(np.abs(d[start:end]), initial=0)
            start = end
        starts = (0, *self.ends[:-1])
        return np.concatenate(
            [np.zeros(0, WIDE)]
            + [
                np.full(end - start, most.get(name, 0))
                for (name, _), start, end in zip(self.form, starts, self.ends, strict=False)
            ]
        )

    @property
    def says_nothing(self) -> bool:
        """No number in it is finite and other than 0."""
        return not np.any(np.isfinite(self.values) & (self.values != 0))


def _largest(values: np.ndarray) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size else 0.0


FAR = 2.0**-20  # about 16 roundings of float32


class Site:
    """An input, and inputs beside it, with what f gives for them. Raises Refusal if f does not take it."""

    def __init__(self, claim: Claim, ladder: Ladder, inputs: Arrays, rng: np.random.Generator, samples: int):
        self.claim, self.ladder, self.rng, self.samples = claim, ladder, rng, samples
        first = 16 * roundoff(ladder.below or ladder.top)
        far = max(first, FAR)
        self.steps = [0.0, *np.geomspace(first, far, samples).tolist(), *([far] * samples)]
        self.inputs = [cast(inputs, ladder.below or ladder.top)]
        self.results: dict[Key, dict[str, np.ndarray]] = {}
        self.here(0, ladder.top)

    def here(self, k: int, dtype: DType) -> dict[str, np.ndarray]:
        """f at the k-th input."""
        if (k, dtype) not in self.results:
            self.results[k, dtype] = self.claim.at(self.input(k), dtype)
        return self.results[k, dtype]

    def input(self, k: int) -> dict[str, Any]:
        """x, or the k-th input beside it."""
        while len(self.inputs) <= k:
            step = self.steps[len(self.inputs)]
            self.inputs.append({name: self._beside(array, step) for name, array in self.inputs[0].items()})
        return self.inputs[k]

    def _beside(self, array: Any, step: float) -> Any:
        if array is None or array.dtype.kind not in "fc":
            return array
        with np.errstate(all="ignore"):
            return (array * (1 + step * self.rng.uniform(-1, 1, array.shape))).astype(array.dtype)

    def moves_nothing(self, g: Any) -> bool:
        """Whether g leaves the input and the result as they are."""
        there = self.claim.action.act(g, self.inputs[0])
        result = self.here(0, self.ladder.top)
        return equal(there, self.inputs[0]) and equal(self.claim.action_out.act(g, result), result)

    @property
    def varies(self) -> bool:
        """Whether the inputs beside x are other inputs: there are real numbers other than 0."""
        return not equal(self.input(self.samples), self.inputs[0])

    def unheard(self) -> float:
        """The largest change of the input, as a part of it, that f does not notice although it notices larger ones.

        It is 0 if it notices the smallest, and about 2⁻²⁴ if it rounds to float32 inside. Raises Refusal as f does.
        """
        first = Vector.of(self.here(0, self.ladder.top))
        for k in range(1, self.samples + 1) if self.varies else ():
            beside = Vector.of(self.here(k, self.ladder.top))
            if beside.form != first.form or np.any(beside.minus(first)):
                return self.steps[k - 1]
        return 0.0

    @property
    def says_nothing(self) -> bool:
        """Whether f gives no number but 0 here."""
        return Vector.of(self.here(0, self.ladder.top)).says_nothing


class Pair:
    """Both sides for one element, as vectors."""

    def __init__(self, site: Site, g: Any):
        self.site, self.elements = site, [g]
        self.top, self.below, self.law = site.ladder.top, site.ladder.below, site.ladder.law
        self.lefts: dict[Key, Vector] = {}
        self.rights: dict[Key, Vector] = {}

    def element(self, k: int) -> Any:
        """g, or the k-th beside it."""
        while len(self.elements) <= k:
            self.elements.append(self.site.claim.action.near(self.elements[0], self.site.rng))
        return self.elements[k]

    def left(self, k: int, dtype: DType) -> Vector:
        """f(g·x). Raises Refusal as f does."""
        if (k, dtype) not in self.lefts:
            claim = self.site.claim
            there = claim.action.act(self.element(k), cast(self.site.input(k), dtype))
            self.lefts[k, dtype] = Vector.of(claim.at(there, dtype))
        return self.lefts[k, dtype]

    def right(self, k: int, dtype: DType) -> Vector:
        """g·f(x). Raises Refusal as f does."""
        if (k, dtype) not in self.rights:
            moved = self.site.claim.action_out.act(self.element(k), self.site.here(k, dtype))
            self.rights[k, dtype] = Vector.of(moved)
        return self.rights[k, dtype]

    def noises(self) -> Iterator[np.ndarray]:
        """What rounding leaves in the finest precision: at g·f(x), at f(g·x), then at inputs beside x."""
        for k in range(self.site.samples + 1):
            for side in (self.right, self.left):
                if self.below is not None:
                    yield apart(side, (k, self.top), (k, self.below)) * self.law
                elif k == 1:
                    yield apart(side, (k, self.top), (0, self.top))

    def noise_elsewhere(self) -> np.ndarray:
        """What rounding leaves at other elements, its largest in each array; for where x has nothing to vary."""
        output, most = self.right(0, self.top), np.zeros(1, WIDE)
        if self.below is None:
            return most
        for _ in range(self.site.samples):
            other = Pair(self.site, self.site.claim.action.draw(self.site.rng, self.site.inputs[0]))
            try:
                fine, coarse = other.left(0, self.top), other.left(0, self.below)
            except Refusal:
                continue
            if fine.form == coarse.form:
                d = fine.minus(coarse)
                most = np.maximum(most, output.spread(np.where(np.isfinite(d), d, 0), fine) * self.law)
        return most

    def wander(self, d: np.ndarray, last: int) -> np.ndarray:
        """The most that the discrepancy changes from d, at x, to the first inputs beside it; inf if f refuses one."""
        most = np.zeros_like(d)
        for k in range(1, last + 1):
            try:
                left, right = self.left(k, self.top), self.right(k, self.top)
            except Refusal:
                return np.full_like(d, np.inf)
            if left.form != right.form or left.values.size != d.size:
                return np.full_like(d, np.inf)
            beside = left.minus(right)
            with np.errstate(invalid="ignore"):
                most = np.maximum(most, np.where(beside == d, 0, np.abs(beside - d)))
        return most

    def is_deaf(self) -> bool:
        """Whether both sides have the same bits at all inputs beside x: nothing varies there, or f does not hear it."""
        sides, beside = (self.left, self.right), range(1, self.site.samples + 1)
        return not any(np.any(apart(side, (k, self.top), (0, self.top))) for side in sides for k in beside)

    def is_exact(self) -> bool:
        """Whether the moved input and both sides have the same bits in both precisions."""
        if self.below is None:
            return self.site.ladder.u == 0
        act, x = self.site.claim.action.act, self.site.input(0)
        moved = [act(self.elements[0], cast(x, dtype)) for dtype in (self.top, self.below)]
        sides = (self.left, self.right)
        return equal(*moved) and not any(np.any(apart(side, (0, self.top), (0, self.below))) for side in sides)


def apart(side: Callable[[int, DType], Vector], one: Key, other: Key) -> np.ndarray:
    """How far a side is from itself at another input or in another precision; 0 where that cannot be said."""
    try:
        a, b = side(*one), side(*other)
    except Refusal:
        return np.zeros(1, WIDE)
    if a.form != b.form:
        return np.zeros(1, WIDE)
    d = np.abs(a.minus(b))
    return np.where(np.isfinite(d), d, 0)


def equal(a: Arrays, b: Arrays) -> bool:
    """Equal arrays under equal names; NaN equals NaN."""

    def same(x: Any, y: Any) -> bool:
        if x is None or y is None:
            return x is y
        return x.shape == y.shape and bool(np.all((x == y) | ((x != x) & (y != y))))

    return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
