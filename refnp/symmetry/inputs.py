"""Inputs to try: of many sizes, scales and precisions, from the user's own way of drawing them.

    draw(rng, n=…, m=…) → {"x": array, …}          sizes={"n": range(9), "m": range(5)}

The smallest and the largest sizes come first, one at a time, then random ones. Real numbers are multiplied by a scale,
each array by its own, and rounded to the dtype of the input, so that every finer precision computes with the same
numbers. Input i of a seed is always the same, whatever happened with the inputs before.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.autograd import ArrayLike
from refnp.symmetry.actions import Arrays
from refnp.symmetry.claim import DType, cast

Draw = Callable[..., Arrays]
Sizes = Mapping[str, Sequence[int]]
Scales = Sequence[float] | Mapping[str, Sequence[float]]

ATTEMPTS = 50  # inputs that are drawn to find one in the domain


@dataclass(frozen=True)
class Input:
    """One input: its sizes, the scale of each array, and the arrays, the real ones rounded to `dtype`."""

    sizes: dict[str, int]
    dtype: DType
    scales: dict[str, float]
    arrays: dict[str, Any]


@dataclass(frozen=True)
class Domain:
    """The inputs that a claim is about: how they are drawn, and `where`, called with the arrays: is it one of them?"""

    draw: Draw
    sizes: Sizes
    where: Callable[..., ArrayLike] | None = None

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

    def contains(self, arrays: Arrays) -> bool:
        """Whether the claim is made about these inputs."""
        return self.where is None or bool(np.all(self.where(**arrays)))

    def inputs(self, dtypes: Sequence[DType], scales: Scales, count: int, seed: int) -> Iterator[Input]:
        """`count` inputs, less those for which none in the domain was found in a few attempts.

        The extreme sizes are drawn unscaled; of the others, half have a scale.
        """
        extreme = _extreme_sizes(self.sizes)
        for i in range(count):
            rng = np.random.default_rng((seed, i))
            sizes = {name: int(rng.choice(np.asarray(values))) for name, values in self.sizes.items()}
            sizes = extreme[i] if i < len(extreme) else sizes
            unscaled = i < len(extreme) or rng.random() < 0.5
            for _ in range(ATTEMPTS):
                found = self.drawn(rng, sizes, dtypes[i % len(dtypes)], (1.0,) if unscaled else scales)
                if self.contains(found.arrays):
                    yield found
                    break


def _extreme_sizes(sizes: Sizes) -> list[dict[str, int]]:
    """All smallest; each smallest with the others middling; the same for the next to smallest; all largest."""
    ordered = {name: sorted(set(values)) for name, values in sizes.items()}
    middle = {name: values[len(values) // 2] for name, values in ordered.items()}
    found = []
    for least in (0, 1):
        smallest = {name: values[min(least, len(values) - 1)] for name, values in ordered.items()}
        found += [smallest, *({**middle, name: smallest[name]} for name in sizes)]
    found.append({name: values[-1] for name, values in ordered.items()})
    return [sizes for i, sizes in enumerate(found) if sizes not in found[:i]]
