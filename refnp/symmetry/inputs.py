"""Inputs to try: of many sizes, scales and precisions, from the user's own way of drawing them.

    draw(rng, n=…, m=…) → {"x": array, …}          sizes={"n": range(9), "m": range(5)}

The smallest and the largest sizes come first, one at a time, then any; half of them are small, powers of 2 or one
more, each in turn. Real numbers are multiplied by a scale, each array by its own, and rounded to the dtype of the
input, so that every finer precision computes with the same numbers. After each such input come two with structure:
repeated items, zeros and others (structure.py), in turn, first at large sizes. Input i of a seed is always the same,
whatever happened with the inputs before.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from refnp.autograd import ArrayLike
from refnp.symmetry.actions import Arrays
from refnp.symmetry.claim import DType, cast
from refnp.symmetry.structure import KINDS, Drawn, impose

Draw = Callable[..., Arrays]
Sizes = Mapping[str, Sequence[int]]
Scales = Sequence[float] | Mapping[str, Sequence[float]]

ATTEMPTS = 50  # inputs that are drawn to find one in the domain
ATTEMPTS_OF_A_KIND = 5  # of them with one kind of structure, then with the next


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


@dataclass(frozen=True)
class Domain:
    """The inputs that a claim is about: how they are drawn, and `where`, called with the arrays: is it one of them?

    `structures` are the kinds of structure that may be imposed.
    """

    draw: Draw
    sizes: Sizes
    where: Callable[..., ArrayLike] | None = None
    structures: Sequence[str] = KINDS

    def drawn(self, rng: np.random.Generator, sizes: Mapping[str, int], dtype: DType, scales: Scales = (1.0,)) -> Input:
        """An input of these sizes, each array times one of its scales. Raises TypeError if `draw` gives no mapping."""
        given = self.draw(rng, **sizes)
        if not isinstance(given, Mapping):
            raise TypeError(f"search: draw returns a {type(given).__name__}; it must return arrays by name, in a dict")
        factors: dict[str, float] = {}
        scaled: dict[str, Any] = {}
        for name, array in given.items():
            choice = scales.get(name, (1.0,)) if isinstance(scales, Mapping) else scales
            factors[name] = float(rng.choice(np.asarray(choice)))
            real = array is not None and factors[name] != 1 and np.asarray(array).dtype.kind in "fc"
            scaled[name] = np.asarray(array) * np.asarray(array).dtype.type(factors[name]) if real else array
        return Input(dict(sizes), dtype, factors, cast(scaled, dtype))

    def structured(
        self, rng: np.random.Generator, sizes: Mapping[str, int], dtype: DType, scales: Scales, kind: str, turn: int
    ) -> Input | None:
        """An input of these sizes on which structure of this kind is imposed; None if nothing can have it.

        `turn` is how often it was before.
        """
        x, again = (self.drawn(rng, sizes, dtype) for _ in range(2))
        by_name = {name: scales.get(name, (1.0,)) if isinstance(scales, Mapping) else scales for name in x.arrays}
        changed = impose(kind, Drawn(x.arrays, again.arrays, rng, list(sizes.values()), turn), by_name)
        return None if changed is None else replace(x, arrays=cast({**x.arrays, **changed}, dtype), structure=kind)

    def contains(self, arrays: Arrays) -> bool:
        """Whether the claim is made about these inputs."""
        return self.where is None or bool(np.all(self.where(**arrays)))

    def inputs(self, dtypes: Sequence[DType], scales: Scales, count: int, seed: int) -> Iterator[Input]:
        """`count` inputs, less those for which none in the domain was found in a few attempts.

        The extreme sizes are drawn unscaled; of the others as they are drawn, half have a scale.
        """
        extreme, special = _extreme_sizes(self.sizes), _special_sizes(self.sizes)
        kinds = list(np.random.default_rng(seed).permutation(np.asarray(self.structures)))
        order = {name: np.random.default_rng((seed, len(name))).permutation(values) for name, values in special.items()}
        structured = plain = 0
        for i in range(count):
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
                sizes = _large_sizes(self.sizes, rng, first < 2 * len(kinds))
            else:
                plain += i >= len(extreme)
            for attempt in range(ATTEMPTS):
                if first is not None and attempt < len(kinds) * ATTEMPTS_OF_A_KIND:
                    turn, number = divmod(first + attempt // ATTEMPTS_OF_A_KIND, len(kinds))
                    found = self.structured(rng, sizes, dtype, scales, str(kinds[number]), turn)
                else:
                    found = self.drawn(rng, sizes, dtype, (1.0,) if unscaled else scales)
                if found is not None and self.contains(found.arrays):
                    yield found
                    break


def _large_sizes(sizes: Sizes, rng: np.random.Generator, upper: bool) -> dict[str, int]:
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
