"""Translations: every place moves by the same vector.

    x_n → x_n + t            t any vector, or k s with whole numbers k and a step s

The element is t, or k where there is a step. Adding rounds: in precision u a place moves by t up to u|x + t|, which is
why a translation-equivariant function is so only up to rounding even if it looks at differences alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np

from refnp.symmetry.action import Arrays, Named

Vector = tuple[float, ...]


@dataclass(frozen=True)
class Translate(Named):
    """Adds a vector to arrays of places.

    Places are (..., D) with the coordinates along `axis`; with axis=None every number is a coordinate on one line,
    integer positions (N,) for example. `step`, a number or one for each coordinate, allows its multiples only.
    `reach` is how far to go, in units of the places, or of the step.
    Raises ValueError when whole numbers are to be moved by a fraction.
    """

    axis: int | None = -1
    _: KW_ONLY
    step: float | Sequence[float] | None = None
    reach: float = 8.0

    @property
    def group(self) -> str:
        return "translations" if self.step is None else "multiples"

    def dimension(self, arrays: Arrays) -> int:
        """How many coordinates a place has. Raises ValueError if arrays differ in that."""
        if self.axis is None:
            return 1
        found = {name: np.shape(array)[self.axis] for name, array in self.chosen(arrays)}
        if len(set(found.values())) != 1:
            raise ValueError(f"Translate: coordinates along axis {self.axis} must be equally many; there are {found}")
        return next(iter(found.values()))

    def moved(self, g: Vector, name: str, array: np.ndarray) -> np.ndarray:
        if array.dtype.kind in "fc":
            t = np.asarray(g, array.dtype)
            t = t if self.step is None else t * np.asarray(self.step, array.dtype)
        else:
            t = np.asarray(g) * (1 if self.step is None else np.asarray(self.step))
            if np.any(t != np.rint(t)):
                raise ValueError(f"Translate: {name} holds whole numbers; give a whole step, such as step=1")
            t = t.astype(array.dtype)
        if self.axis is None:
            return array + t[0]
        if array.shape[self.axis] != len(t):
            raise ValueError(f"Translate: {name} has shape {array.shape}; axis {self.axis} must have {len(t)} numbers")
        return np.moveaxis(np.moveaxis(array, self.axis, -1) + t, -1, self.axis)

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> Vector:
        """Whole numbers, eighths, and numbers with all the digits of float32, as often each."""
        t = rng.uniform(-self.reach, self.reach, self.dimension(arrays))
        kind = rng.integers(3)
        if self.step is not None or kind == 0:
            return tuple(int(k) if self.step is not None else float(k) for k in np.rint(t))
        return tuple((np.rint(8 * t) / 8 if kind == 1 else t.astype(np.float32)).tolist())

    def identity(self, arrays: Arrays) -> Vector:
        return (0,) * self.dimension(arrays)

    def compose(self, g: Vector, h: Vector) -> Vector:
        return tuple(a + b for a, b in zip(g, h, strict=True))

    def generators(self, arrays: Arrays) -> list[Vector]:
        """One unit along each axis."""
        n = self.dimension(arrays)
        return [tuple(int(i == j) for j in range(n)) for i in range(n)]

    def simpler(self, g: Vector) -> Iterator[Vector]:
        """One coordinate to 0, to 1, to half of it, to a whole number, to a tenth."""
        for i, t in enumerate(g):
            for k in dict.fromkeys((0, 1, -1, int(t / 2), int(t), int(10 * t) / 10)):
                if (abs(k), k < 0) < (abs(t), t < 0) and (any(g[:i]) or any(g[i + 1 :]) or k):
                    yield (*g[:i], k, *g[i + 1 :])

    def written(self, g: Vector) -> str:
        t = g if self.step is None else (np.asarray(g) * np.asarray(self.step)).tolist()
        return "translation by " + (f"{t[0]:g}" if len(t) == 1 else "(" + ", ".join(f"{c:g}" for c in t) + ")")

    def __str__(self) -> str:
        by = "any vector" if self.step is None else f"multiples of {self.step}"
        return f"translations of {self.where()} by {by} (tried up to {self.reach:g})"
