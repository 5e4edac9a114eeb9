"""Inputs to try: of many sizes, scales and precisions, from the user's own way of drawing them.

    draw(rng, n=…, m=…) → {"x": array, …}          sizes={"n": range(9), "m": range(5)}

The smallest and the largest sizes come first, one at a time. Then come inputs with every kind of structure
(structure.py, orbits.py) at each of the two smallest sizes at which the group moves anything. Then any sizes; half of
them are small, powers of 2 or one more, each in turn. Real numbers are multiplied by a scale, each array by its own,
and rounded to the dtype of the input, so that every finer precision computes with the same numbers. After each such
input come two with structure in turn, first at large sizes.

What all draws have in common (constraints.py) is kept in all of them. Input i of a seed is always the same, whatever
happened with the inputs before.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from refnp.autograd import ArrayLike
from refnp.symmetry.actions import Action, Arrays
from refnp.symmetry.claim import DType, cast
from refnp.symmetry.constraints import Constraints
from refnp.symmetry.orbits import ORBITS, imposed
from refnp.symmetry.structure import KINDS as WITHOUT_ORBITS
from refnp.symmetry.structure import Drawn, impose

Draw = Callable[..., Arrays]
Sizes = Mapping[str, Sequence[int]]
Scales = Sequence[float] | Mapping[str, Sequence[float]]
Moves = Callable[["Input"], bool]

KINDS = (*WITHOUT_ORBITS, *ORBITS)
ATTEMPTS = 50  # inputs that are drawn to find one in the domain
ATTEMPTS_OF_A_KIND = 5  # of them with one kind of structure, then with the next
SAMPLES = 16  # draws that show what all have in common
LEARN, SMALLEST = 2**31, 2**31 + 1  # streams of the seed
SMALL_SIZES = 2  # with every kind of structure
LEVELS = 6  # sizes, the smallest first, among which those two are looked for


@dataclass(frozen=True)
class Input:
    """One input: its sizes, the scale of each array, and the arrays, the real ones rounded to `dtype`.

    `structure` is the kind that was imposed, "" for an input as it was drawn.
    """

    sizes: dict[str, int]
    dtype: DType
    scales: dict[str, float]
    arrays: dict[str, Any]
    structure: str = ""

    @property
    def as_drawn(self) -> bool:
        """Whether the draw gives it, but for the dtype."""
        return not self.structure and all(scale == 1 for scale in self.scales.values())


@dataclass(frozen=True)
class Domain:
    """The inputs that a claim is about: how they are drawn, and `where`, called with the arrays: is it one of them?

    `structures` are the kinds of structure that may be imposed, `action` is what orbits are made of, `constraints` what
    all draws have in common.
    """

    draw: Draw
    sizes: Sizes
    where: Callable[..., ArrayLike] | None = None
    structures: Sequence[str] = KINDS
    action: Action | None = None
    constraints: Constraints = field(default_factory=lambda: Constraints(()))

    def learned(self, seed: int, scales: Scales) -> "Domain":
        """The same with what some draws, times these scales, have in common, most of them of large sizes."""
        rng = np.random.default_rng((seed, LEARN))
        sizes = [large_sizes(self.sizes, rng, i % 4 < 2) for i in range(SAMPLES)]
        samples = [
            self._times(rng, self._given(rng, each), scales if i % 2 else (1.0,))[0] for i, each in enumerate(sizes)
        ]
        return replace(self, constraints=Constraints(samples))

    def _given(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> Arrays:
        check_sizes(self.draw, sizes)
        given = self.draw(rng, **sizes)
        if not isinstance(given, Mapping):
            raise TypeError(f"search: draw returns a {type(given).__name__}; it must return arrays by name, in a dict")
        for name, a in given.items():
            if a is not None and np.asarray(a).dtype.kind not in "biufc":
                raise TypeError(
                    f"search: draw gives {name} as an array of {np.asarray(a).dtype.name}; an action moves arrays of "
                    "numbers or booleans, such as whole numbers in place of words"
                )
        return given

    def drawn(self, rng: np.random.Generator, sizes: Mapping[str, int], dtype: DType, scales: Scales = (1.0,)) -> Input:
        """An input of these sizes, each array times one of its scales, but for those whose rules forbid it.

        Raises TypeError if `draw` gives no mapping.
        """
        given = self._given(rng, sizes)
        scaled, factors = self._times(rng, given, scales)
        if not self.constraints:
            return Input(dict(sizes), dtype, factors, cast(scaled, dtype))
        if any(factor != 1 for factor in factors.values()):
            scaled = self.constraints.restored(scaled)
            if not self.constraints.hold(scaled):
                factors, scaled = dict.fromkeys(factors, 1.0), dict(given)
        elif not self.constraints.hold(scaled):
            self.constraints.unlearn(scaled)
        return Input(dict(sizes), dtype, factors, self.constraints.restored(cast(scaled, dtype)))

    def _times(
        self, rng: np.random.Generator, given: Arrays, scales: Scales
    ) -> tuple[dict[str, Any], dict[str, float]]:
        """The arrays, the real ones times one of their scales, and the scales."""
        factors: dict[str, float] = {}
        scaled: dict[str, Any] = {}
        for name, array in given.items():
            choice = scales.get(name, (1.0,)) if isinstance(scales, Mapping) else scales
            factors[name] = float(rng.choice(np.asarray(choice)))
            a = None if array is None else np.asarray(array)
            scaled[name] = a * a.dtype.type(factors[name]) if a is not None and a.dtype.kind in "fc" else a
        return scaled, factors

    def structured(
        self, rng: np.random.Generator, sizes: Mapping[str, int], dtype: DType, scales: Scales, kind: str, turn: int
    ) -> Input | None:
        """An input of these sizes on which structure of this kind is imposed; None if nothing can have it.

        `turn` is how often it was before.
        """
        x, again = (self.drawn(rng, sizes, dtype) for _ in range(2))
        by_name = {name: scales.get(name, (1.0,)) if isinstance(scales, Mapping) else scales for name in x.arrays}
        drawn = Drawn(x.arrays, again.arrays, rng, list(sizes.values()), turn, self.constraints)
        if kind not in ORBITS:
            changed = impose(kind, drawn, by_name)
        elif self.action is None:
            return None
        else:
            made = imposed(kind, self.action, x.arrays, rng, turn)
            changed = drawn.different({name: drawn.replaced(name, a) for name, a in made.items()})
        if changed is None:
            return None
        arrays = self.constraints.restored(cast({**x.arrays, **changed}, dtype))
        return replace(x, arrays=arrays, structure=kind)

    def contains(self, x: Input) -> bool:
        """Whether the claim is made about this input: as drawn, or with what all draws have in common."""
        if not x.as_drawn and self.constraints and not self.constraints.hold(x.arrays):
            return False
        return self.where is None or bool(np.all(self.where(**x.arrays)))

    def inputs(
        self, dtypes: Sequence[DType], scales: Scales, count: int, seed: int, moves: Moves | None = None
    ) -> Iterator[Input]:
        """`count` inputs, less those for which none in the domain was found in a few attempts, and small ones besides.

        The extreme sizes are drawn unscaled; of the others as they are drawn, half have a scale. `moves` says whether
        the group moves anything of an input; with it, every kind of structure is imposed at the two smallest sizes.
        """
        extreme, special = _extreme_sizes(self.sizes), _special_sizes(self.sizes)
        kinds = list(np.random.default_rng(seed).permutation(np.asarray(self.structures)))
        order = {name: np.random.default_rng((seed, len(name))).permutation(values) for name, values in special.items()}
        structured = plain = 0
        for i in range(count):
            if i == len(extreme) and moves is not None:
                yield from self._smallest(dtypes, scales, seed, moves)
            rng = np.random.default_rng((seed, i))
            sizes = {name: int(rng.choice(np.asarray(values))) for name, values in self.sizes.items()}
            if i < len(extreme):
                sizes = extreme[i]
            elif plain % 2 == 0:
                sizes = {name: int(values[plain // 2 % len(values)]) for name, values in order.items()}
            dtype = dtypes[(i if i < len(extreme) else i + i // 3) % len(dtypes)]
            unscaled = i < len(extreme) or rng.random() < 0.5
            first = structured if kinds and i >= len(extreme) and (i - len(extreme)) % 3 else None
            if first is not None:
                structured += 1
                sizes = large_sizes(self.sizes, rng, first < 2 * len(kinds))
            else:
                plain += i >= len(extreme)
            for attempt in range(ATTEMPTS):
                if first is not None and attempt < len(kinds) * ATTEMPTS_OF_A_KIND:
                    turn, number = divmod(first + attempt // ATTEMPTS_OF_A_KIND, len(kinds))
                    found = self.structured(rng, sizes, dtype, scales, str(kinds[number]), turn)
                else:
                    found = self.drawn(rng, sizes, dtype, (1.0,) if unscaled else scales)
                if found is not None and self.contains(found):
                    if first is not None:  # kinds that cannot be had here are passed
                        structured += min(attempt // ATTEMPTS_OF_A_KIND, len(kinds) - 1)
                    yield found
                    break

    def _smallest(self, dtypes: Sequence[DType], scales: Scales, seed: int, moves: Moves) -> Iterator[Input]:
        """Inputs with every kind of structure at each of the two smallest sizes at which the group moves anything."""
        ordered = {name: sorted(set(values)) for name, values in self.sizes.items()}
        levels = max(map(len, ordered.values()), default=1)
        found = 0
        for level in range(min(levels, LEVELS) if self.structures else 0):
            sizes = {name: values[min(level, len(values) - 1)] for name, values in ordered.items()}
            rng = np.random.default_rng((seed, SMALLEST, level))
            if not moves(self.drawn(rng, sizes, dtypes[0])):
                continue
            for number, kind in enumerate(self.structures):
                for attempt in range(ATTEMPTS_OF_A_KIND):
                    dtype = dtypes[(number + found) % len(dtypes)]
                    x = self.structured(rng, sizes, dtype, scales, kind, found + attempt)
                    if x is not None and self.contains(x):
                        yield x
                        break
            found += 1
            if found == SMALL_SIZES:
                return


def check_sizes(draw: Draw, sizes: Mapping[str, Any]) -> None:
    """TypeError for a `draw` that cannot be called with these sizes, with those that it lacks or does not take."""
    try:
        others = list(inspect.signature(draw).parameters.values())[1:]
    except (TypeError, ValueError):  # of what is not written in Python, it is not known
        return
    known = {p.name for p in others if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
    needed = [p.name for p in others if p.name in known and p.default is p.empty]
    if lacking := [name for name in needed if name not in sizes]:
        given = ", ".join(f'"{name}": range(6)' for name in lacking)
        raise TypeError(f"search: draw takes {' and '.join(lacking)}; say which values: sizes={{{given}}}")
    open_ended = any(p.kind == p.VAR_KEYWORD for p in others)
    if unknown := [name for name in sizes if name not in known and not open_ended]:
        raise TypeError(f"search: draw takes no {' and no '.join(unknown)}, which sizes gives")


def large_sizes(sizes: Sizes, rng: np.random.Generator, upper: bool) -> dict[str, int]:
    """Sizes of the upper third, or any, the larger ones more often."""
    found = {}
    for name, values in sizes.items():
        ordered = np.sort(np.asarray(values))
        found[name] = int(rng.choice(ordered[len(ordered) * 2 // 3 :] if upper else ordered))
        found[name] = max(found[name], int(rng.choice(ordered)))
    return found


def _special_sizes(sizes: Sizes) -> dict[str, list[int]]:
    """Of each size the values up to 2, the powers of 2 and one more than these, as far as they are allowed."""
    found = {}
    for name, values in sizes.items():
        chosen = [n for n in values if n <= 2 or (n & (n - 1)) == 0 or ((n - 1) & (n - 2)) == 0]
        found[name] = chosen or list(values)
    return found


def _extreme_sizes(sizes: Sizes) -> list[dict[str, int]]:
    """All smallest; each smallest with the others middling; the same for the next two above; all largest."""
    ordered = {name: sorted(set(values)) for name, values in sizes.items()}
    middle = {name: values[len(values) // 2] for name, values in ordered.items()}
    found = []
    for least in (0, 1, 2):
        smallest = {name: values[min(least, len(values) - 1)] for name, values in ordered.items()}
        found += [smallest, *({**middle, name: smallest[name]} for name in sizes)]
    found.append({name: values[-1] for name, values in ordered.items()})
    return [sizes for i, sizes in enumerate(found) if sizes not in found[:i]]
