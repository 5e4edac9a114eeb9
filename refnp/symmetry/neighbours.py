"""Of a claim that fails: which claims near it hold?

    other arrays move too, along the axes that are as long           a mask with its tokens, both axes of a matrix
    the output moves otherwise: not at all, by the inverse, along another axis, with its sign, two results exchanged
    another axis of the input
    fewer elements: even shifts, quarter turns, no reflections, circular shifts only
    fewer inputs: no ties, no zeros, these sizes only

Each is asked at the counter-example that is printed and at the input from which it was made; if it is not about them,
at these shifted and mirrored, or among more items. Then, if it survives, by a search like the one that refuted the
claim: the same inputs, as far as it is about them. Reports end with those that hold there: that is a search of so many
inputs, and no more.
"""

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from refnp.autograd import Array
from refnp.symmetry.actions import SMALL, Action, Arrays, AxisAction, Element, NamedAction, Product, Trivial
from refnp.symmetry.claim import Claim, DType, Refusal
from refnp.symmetry.geometry import Negate, Rotate, Rotations, Scale, Translate
from refnp.symmetry.inputs import Domain, Input, Scales
from refnp.symmetry.inverse import Inverse
from refnp.symmetry.places import Flip, Permute, Repeat
from refnp.symmetry.shifts import Roll, in_steps
from refnp.symmetry.shrink import some_elements
from refnp.symmetry.trials import Trials

AT_A_SIZE = 8  # inputs of a short search at one size
MOST = 3  # neighbours that are told
MOST_SIZES = 16  # values of a size that are asked one by one
SHAPES = 3  # draws that show which axes are equally long
MULTIPLES, TURNS = (2, 3, 4, 8), (4, 2, 3, 6)

Change = Callable[[Action], Action | None]


@dataclass(frozen=True)
class OnOdd(Inverse):
    """Moves the output by `then`, and changes it for odd elements of `action`: exchanges, mirrors, −1."""

    then: Action = field(default_factory=Trivial)
    changed: Callable[[dict[str, Any]], dict[str, Any]] = dict

    def act(self, g: Element, arrays: Arrays) -> dict[str, Any]:
        moved = self.then.act(g, arrays)
        return self.changed(moved) if is_odd(self.action, g) else moved

    def moved_masks(self, g: Element, masks: Mapping[str, Array]) -> dict[str, Array]:
        return self.then.moved_masks(g, masks)

    def moved_axes(self, name: str, array: Array) -> tuple[int, ...]:
        return self.then.moved_axes(name, array)

    def __str__(self) -> str:
        return f"{self.then}, and a change for odd elements"


def is_odd(action: Action, g: Element) -> bool:
    """Whether an element is odd: a permutation of odd sign, a reflection, an odd shift, −1."""
    if isinstance(action, Product):
        return sum(is_odd(part, element) for part, element in zip(action.parts, g, strict=True)) % 2 == 1
    if isinstance(action, Permute):
        return sum(g[i] > g[j] for i, j in itertools.combinations(range(len(g)), 2)) % 2 == 1
    if isinstance(action, Rotations):
        return g[1] == 1
    if isinstance(action, Negate):
        return g == -1
    return isinstance(action, (Roll, Flip)) and g % 2 == 1


@dataclass(frozen=True)
class Near:
    """A claim near the one that fails, or the same for fewer inputs, and under which condition it is made."""

    words: str
    claim: Claim
    domain: Domain
    is_largest: bool = False  # those that follow are about parts of it


class Neighbours:
    """Looks for claims that hold near one that fails at `refuting` pairs, by searches of `count` inputs.

    `options` are those of `Trials`, the others those of the search.
    """

    def __init__(
        self,
        claim: Claim,
        domain: Domain,
        refuting: Sequence[tuple[Input, Element]],
        dtypes: Sequence[DType],
        scales: Scales,
        count: int,
        options: Mapping[str, Any],
    ):
        self.claim, self.domain, self.refuting, self.dtypes, self.options = claim, domain, refuting, dtypes, options
        self.scales, self.count = scales, count
        self.against: Input | None = None  # the last input that refuted a claim
        self.samples: list[dict[str, Any]] = [x.arrays for x, _ in refuting]
        for i in range(SHAPES):
            rng = np.random.default_rng((options["seed"], 2**31 + 3, i))
            sizes = {
                name: int(rng.choice(np.sort(values)[len(values) // 2 :])) for name, values in domain.sizes.items()
            }
            self.samples.append(domain.drawn(rng, sizes, np.dtype(np.float64)).arrays)
        self.outputs: list[dict[str, Array]] = []
        for sample in self.samples:
            try:
                self.outputs.append(claim.at(sample, np.float64))
            except Refusal:
                self.outputs.append({})

    def __call__(self) -> list[str]:
        """The conditions under which the claim was found to hold, a few of them."""
        found: list[str] = []
        for near in (*self._claims(), *self._inputs()):
            if self._holds(near, self.count):
                found.append(f"{near.words} (a search of {self.count} inputs)" if not found else near.words)
                if len(found) == MOST or near.is_largest:
                    return found
        return found or self._sizes()

    def _holds(self, near: Near, count: int) -> bool:
        """Whether a search of so many inputs finds the claim to hold; False for one that means nothing."""
        first, trials = (Trials(near.claim, near.domain, **self.options) for _ in range(2))
        self.against = None
        try:
            for x, g in self.refuting:
                for asked in filter(near.domain.contains, self._alike(x, near.domain)):
                    if first.violation(asked, self._elements(near, asked, g)) is not None:
                        return False
            for x in near.domain.inputs(self.dtypes, self.scales, count, self.options["seed"], trials.moves):
                if trials.violation(x) is not None or trials.not_repeatable:
                    self.against = x
                    return False
        except (ValueError, TypeError, IndexError):
            return False
        return trials.verdict("", None).holds

    def _alike(self, x: Input, domain: Domain) -> Iterator[Input]:
        """The input, or others of its kind for a domain that does not have it: elsewhere, or among more items."""
        if all(n in domain.sizes.get(name, (n,)) for name, n in x.sizes.items()):
            yield from (x,) if domain.contains(x) else elsewhere(x)
            return
        larger = {name: [m for m in values if m >= x.sizes[name]] for name, values in domain.sizes.items()}
        for far in (1, 64) if all(larger.values()) else ():
            rng = np.random.default_rng((self.options["seed"], 2**31 + 4, far))
            drawn = domain.drawn(rng, {name: min(values) for name, values in larger.items()}, np.dtype(np.float64))
            found = {n: far * a if is_real(a) else a for n, a in drawn.arrays.items()}
            for name, a in found.items():
                part = np.asarray(x.arrays[name])
                if is_real(a) and part.ndim == a.ndim:
                    a[tuple(map(slice, part.shape))] = part[tuple(map(slice, a.shape))]
            yield replace(drawn, arrays=found)

    def _elements(self, near: Near, x: Input, g: Element) -> list[Element]:
        """Elements of a claim nearby, for an input that refutes the claim itself with g: g, if it can act, and more."""
        action = near.claim.action
        found = some_elements(action, x, np.random.default_rng(0), SMALL)
        with contextlib.suppress(ValueError, TypeError, IndexError):
            if action.group == self.claim.action.group and action.is_element(g):
                action.act(g, x.arrays)
                return [g, *found]
        return found

    def _claims(self) -> Iterator[Near]:
        claim = self.claim
        of = lambda words, action, out: Near(words, replace(claim, action=action, action_out=out), self.domain)
        for words, action in self._others_moved():
            yield of(words, action, claim.action_out)
        for words, out in self._outputs_moved():
            yield of(words, claim.action, out)
        for words, action in self._other_axes():
            yield of(words, action, claim.action_out)
        for words, change in fewer_elements():
            fewer, fewer_out = changed(claim.action, change), changed(claim.action_out, change)
            if fewer is not None and fewer_out is not None and str(fewer) != str(claim.action):
                yield replace(of(words, fewer, fewer_out), is_largest=True)

    def _parts(self) -> Iterator[tuple[NamedAction, Callable[[Action], Action]]]:
        """The parts of the action that name arrays, and how the whole is made again with another part."""
        action = self.claim.action
        parts = action.parts if isinstance(action, Product) else (action,)
        for i, part in enumerate(parts):
            if isinstance(part, NamedAction):
                with_part = lambda other, i=i: (
                    Product((*parts[:i], other, *parts[i + 1 :])) if len(parts) > 1 else other
                )
                yield part, with_part

    def _others_moved(self) -> Iterator[tuple[str, Action]]:
        """Arrays that do not move, or axes of one that does, as long as what moves."""
        for part, whole in self._parts():
            moving = [name for name, _ in part.chosen(self.samples[0])]
            if isinstance(part, AxisAction):
                axes = {name: part.axes(name, np.asarray(self.samples[0][name])) for name in moving}
                name, axis = next((name, each[0]) for name, each in axes.items())
                lengths = [np.shape(sample[name])[axis] for sample in self.samples]
                further = self._axes_of(self.samples, lengths, axes)
                for more in [{pair[0]: (pair[1],)} for pair in further] + [_by_name(further)] * (len(further) > 1):
                    together = {**axes, **{n: (*axes.get(n, ()), *each) for n, each in more.items()}}
                    words = " and ".join(
                        f"{n} moves {'too, ' if n not in axes else ''}along {_axes(together[n])}" for n in more
                    )
                    yield words, whole(part.over({n: _axes_or_one(each) for n, each in together.items()}))
            elif isinstance(part, (Translate, Rotations, Negate, Scale)):
                others = [
                    n for n, a in self.samples[0].items() if a is not None and n not in moving and a.dtype.kind in "fc"
                ]
                for names in [[n] for n in others] + [others] * (len(others) > 1):
                    yield f"{' and '.join(names)} moves too", whole(part.over((*moving, *names)))

    def _axes_of(
        self, samples: Sequence[Mapping[str, Any]], lengths: Sequence[int], axes: Mapping[str, tuple[int, ...]]
    ) -> list[tuple[str, int]]:
        """Axes of arrays that are as long in all samples, but for those that are given."""
        found = []
        for name, a in samples[0].items():
            for axis in range(np.ndim(a)) if a is not None else ():
                known = {k % np.ndim(a) for k in axes.get(name, ())}
                shapes = [np.shape(sample[name]) for sample in samples if name in sample]
                same = [len(s) > axis and s[axis] == n for s, n in zip(shapes, lengths, strict=False)]
                if all(same) and axis not in known:
                    found.append((name, axis))
        return found

    def _outputs_moved(self) -> Iterator[tuple[str, Action]]:
        """The output moves otherwise."""
        claim, out = self.claim, self.claim.action_out
        if not isinstance(out, Trivial):
            yield "the output does not move", Trivial()
            yield "the output moves by the inverse", Inverse(out)
        part = next((part for part, _ in self._parts()), None)
        if isinstance(claim.action, Product) or part is None:
            return
        if isinstance(part, AxisAction):
            name, array = part.chosen(self.samples[0])[0]
            axis = part.axes(name, array)[0]
            lengths = [np.shape(sample[name])[axis] for sample in self.samples]
            mine = (
                {} if isinstance(out, Trivial) else {n: tuple(out.moved_axes(n, a)) for n, a in self.outputs[0].items()}
            )
            for name, axis in self._axes_of(self.outputs, lengths, mine) if all(self.outputs) else ():
                what = "the output" if name == "output" else f"{name} of the output"
                yield f"{what} moves along axis {axis}", replace(part, on={name: axis})
        elif isinstance(out, Trivial):
            yield "the output moves, too", part.over(None)
        negated = lambda arrays: {n: -a if a.dtype.kind in "iufc" else a for n, a in arrays.items()}
        yield "the output changes its sign for odd elements", OnOdd(claim.action, out, negated)
        names = list(self.outputs[0])
        for one, other in itertools.combinations(names, 2):
            if all(o and o[one].shape == o[other].shape for o in self.outputs):
                exchanged = lambda arrays, a=one, b=other: {**arrays, a: arrays[b], b: arrays[a]}
                yield f"results {one} and {other} are exchanged for odd elements", OnOdd(claim.action, out, exchanged)
        for name in names:
            for axis in range(self.outputs[0][name].ndim):
                if all(o and o[name].ndim > axis and o[name].shape[axis] == 2 for o in self.outputs):
                    flipped = lambda arrays, n=name, axis=axis: {**arrays, n: np.flip(arrays[n], axis)}
                    words = f"the two entries along axis {axis} of {name} are exchanged for odd elements"
                    yield words, OnOdd(claim.action, out, flipped)

    def _other_axes(self) -> Iterator[tuple[str, Action]]:
        """Another axis of an array that moves alone."""
        for part, whole in self._parts():
            chosen = part.chosen(self.samples[0])
            if isinstance(part, AxisAction) and len(chosen) == 1:
                ((name, array),) = chosen
                known = {axis % array.ndim for axis in part.axes(name, array)}
                for axis in range(array.ndim):
                    if {axis} != known:
                        yield f"axis {axis} of {name} moves instead", whole(part.over({name: axis}))

    def _inputs(self) -> Iterator[Near]:
        """The same claim about fewer inputs."""
        for words, where in (("no two numbers of an array are equal", no_ties), ("no number is 0", no_zeros)):
            asked = self.domain.where
            both = where if asked is None else (lambda asked=asked, where=where, **x: where(**x) and np.all(asked(**x)))
            yield Near(words, self.claim, replace(self.domain, where=both))

    def _sizes(self) -> list[str]:
        """At which values of a size the claim holds, if at some only."""
        found = []
        for name, values in self.domain.sizes.items():
            ordered = sorted(set(values))[:MOST_SIZES]
            at = lambda sizes, name=name: Near(
                "", self.claim, replace(self.domain, sizes={**self.domain.sizes, name: sizes})
            )
            holding = [n for n in ordered if len(ordered) > 1 and self._holds(at((n,)), min(AT_A_SIZE, self.count))]
            if len(holding) == len(ordered):
                continue
            while holding and not self._holds(at(tuple(holding)), self.count):
                holding = [n for n in holding if self.against is not None and n != self.against.sizes[name]]
            if holding:
                found.append(f"{name} is {_or(holding)} (a search of {self.count} inputs)")
        return found


def fewer_elements() -> Iterator[tuple[str, Change]]:
    """Changes of an action to one of a part of its group, in words."""
    for k in MULTIPLES:
        yield f"shifts are by multiples of {k} steps", functools.partial(_by_steps, k)
    yield "there are no reflections", _without_reflections
    for n in TURNS:
        yield f"turns are by multiples of 1/{n} turn", functools.partial(_by_turns, n)
    yield "entries are shifted round only", lambda a: Roll(a.on, a.axis) if type(a) is Permute else None
    yield "the order is turned round only", lambda a: Flip(a.on, a.axis) if type(a) is Permute else None
    yield "all entries are copied equally often", lambda a: replace(a, alike=True) if isinstance(a, Repeat) else None


def _by_steps(k: int, a: Action) -> Action | None:
    return in_steps(a, k) if getattr(a, "step", None) else None


def _without_reflections(a: Any) -> Action | None:
    return replace(a, mirror=False) if getattr(a, "mirror", False) else None


def _by_turns(n: int, a: Action) -> Action | None:
    if isinstance(a, Rotate) and (a.of is None or (a.of > n and a.of % n == 0)):
        return replace(a, of=n, mirror=False)
    return None


def changed(action: Action, change: Change) -> Action | None:
    """An action of fewer elements; None if it, or a part of it, has none such."""
    if isinstance(action, Trivial):
        return action
    if isinstance(action, Product):
        parts = [changed(part, change) for part in action.parts]
        return (
            None if any(part is None for part in parts) else Product(tuple(part for part in parts if part is not None))
        )
    if isinstance(action, Inverse):
        inner = changed(action.action, change)
        return None if inner is None else replace(action, action=inner)
    return change(action)


def elsewhere(x: Input) -> Iterator[Input]:
    """The input shifted, and items mirrored in an oblique plane, too: equally far from each other, without 0 or equals.

    All is by whole numbers, so what was exact still is.
    """

    def mirrored(a: Array, power: int) -> Array:
        if a.ndim < 2 or not power:
            return a
        across = (np.arange(1, a.shape[-1] + 1) ** power + 1).astype(a.dtype)
        return (across @ across) * a - 2 * (a @ across)[..., None] * across

    for power, by in itertools.product((0, 1, 2), (2, 7, -11)):
        steps = lambda a, by=by: (by * (1 + 9 * np.arange(a.shape[-1] if a.ndim > 1 else 1))).astype(a.dtype)
        moved = {n: mirrored(a, power) + steps(a) if is_real(a) else a for n, a in x.arrays.items()}
        yield replace(x, arrays=moved)


def is_real(a: Any) -> bool:
    """Whether it is an array of real or complex numbers."""
    return a is not None and np.asarray(a).dtype.kind in "fc"


def no_ties(**inputs: Any) -> bool:
    """Whether no two real numbers of one array are equal."""
    return all(len(np.unique(a)) == np.size(a) for a in inputs.values() if is_real(a))


def no_zeros(**inputs: Any) -> bool:
    """Whether no real number is 0."""
    return all(np.all(np.asarray(a) != 0) for a in inputs.values() if is_real(a))


def _by_name(pairs: Sequence[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(axis for other, axis in pairs if other == name) for name, _ in pairs}


def _axes_or_one(axes: tuple[int, ...]) -> int | tuple[int, ...]:
    return axes[0] if len(axes) == 1 else axes


def _axes(axes: tuple[int, ...]) -> str:
    return f"axis {axes[0]}" if len(axes) == 1 else "axes " + " and ".join(map(str, axes))


def _or(numbers: Sequence[int]) -> str:
    """Sizes in words: even, odd, up to, or one by one."""
    parts = [str(n) for n in numbers]
    return " or ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
