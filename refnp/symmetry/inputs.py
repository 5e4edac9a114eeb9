"""Inputs to try: of many sizes, scales and precisions, from the user's own way of drawing them.

    draw(rng, n=…, m=…) → {"x": array, …}          sizes={"n": range(9), "m": range(5)}

The smallest and the largest sizes come first, one at a time, then any. Real numbers are multiplied by a scale, each
array by its own, and rounded to the dtype of the case, so that every precision above it sees the very same numbers.
Case i of a seed is always the same, whatever happened in the cases before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.symmetry.claim import DType, cast

Draw = Callable[..., Mapping[str, Any]]
Sizes = Mapping[str, Sequence[int]]
Scales = Sequence[float] | Mapping[str, Sequence[float]]

ATTEMPTS = 50  # inputs that are drawn to find one in the domain


@dataclass(frozen=True)
class Case:
    """One input: its sizes, the scale of each array, and the arrays, the real ones rounded to `dtype`."""

    sizes: dict[str, int]
    dtype: DType
    scales: dict[str, float]
    inputs: dict[str, Any]


@dataclass(frozen=True)
class Domain:
    """The inputs that a claim is about: how they are drawn, and `where`, called with the arrays, whether they count."""

    draw: Draw
    sizes: Sizes
    where: Callable[..., Any] | None = None

    def drawn(self, rng: np.random.Generator, sizes: Mapping[str, int], dtype: DType, scales: Scales = (1.0,)) -> Case:
        """An input of these sizes, each array times one of its scales. Raises TypeError if `draw` gives no mapping."""
        given = self.draw(rng, **sizes)
        if not isinstance(given, Mapping):
            raise TypeError(f"search: draw returns a {type(given).__name__}; it must return arrays by name, in a dict")
        factors = {}
        for name in given:
            choice = scales.get(name, (1.0,)) if isinstance(scales, Mapping) else scales
            factors[name] = float(rng.choice(np.asarray(choice)))
        inputs = {name: _scaled(array, factors[name]) for name, array in given.items()}
        return Case(dict(sizes), dtype, factors, cast(inputs, dtype))

    def contains(self, inputs: Mapping[str, Any]) -> bool:
        """Whether the claim is made about these inputs."""
        return self.where is None or bool(np.all(self.where(**inputs)))


def cases(domain: Domain, dtypes: Sequence[DType], scales: Scales, count: int, seed: int) -> Iterator[Case]:
    """`count` cases, less those for which no input in the domain was found in a few attempts.

    The sizes at the corners are drawn unscaled; of the others, half have a scale.
    """
    corners = list(_corners(domain.sizes))
    for i in range(count):
        rng = np.random.default_rng((seed, i))
        sizes = {name: int(rng.choice(np.asarray(values))) for name, values in domain.sizes.items()}
        if i < len(corners):
            sizes = corners[i]
        plain = i < len(corners) or rng.random() < 0.5
        for _ in range(ATTEMPTS):
            case = domain.drawn(rng, sizes, dtypes[i % len(dtypes)], (1.0,) if plain else scales)
            if domain.contains(case.inputs):
                yield case
                break


def _corners(sizes: Sizes) -> Iterator[dict[str, int]]:
    """All smallest; each one smallest beside middling ones; all next to smallest, each one; all largest. None twice."""
    ordered = {name: sorted(set(values)) for name, values in sizes.items()}
    middle = {name: values[len(values) // 2] for name, values in ordered.items()}
    least = {name: values[0] for name, values in ordered.items()}
    second = {name: values[min(1, len(values) - 1)] for name, values in ordered.items()}
    found = [least, *({**middle, name: least[name]} for name in sizes), second]
    found += [*({**middle, name: second[name]} for name in sizes), {name: v[-1] for name, v in ordered.items()}]
    for i, corner in enumerate(found):
        if corner not in found[:i]:
            yield corner


def _scaled(array: Any, factor: float) -> Any:
    if array is None or factor == 1:
        return array
    array = np.asarray(array)
    return array * array.dtype.type(factor) if array.dtype.kind in "fc" else array
