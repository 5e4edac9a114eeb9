"""Turns and mirrors of the plane, of coordinates and of pixels.

    Rotate:      (x, y) → R(θ) Mᵐ (x, y),   R(θ) = [[cos θ, −sin θ], [sin θ, cos θ]],   M = diag(1, −1)
    RotateGrid:  the same for an image, by quarters of a turn: what is at (row, column) goes to R Mᵐ (row, column)

The element is (turn, m): an angle, or a number of n-th turns, and whether the mirror comes first. Two make

    R(a) Mᵐ R(b) Mⁿ = R(a + (−1)ᵐ b) Mᵐ⁺ⁿ.

Quarter turns are exact; others are rounded, R(θ) in the dtype of the array, and so keep lengths only to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from refnp.symmetry.action import SMALL, Arrays, Named

Turn = tuple[float, int]
WANDER = 2.0**-49  # a few units in the last place of float64


@dataclass(frozen=True)
class Turns(Named):
    """What both actions have in common: the elements. `of` is n, or None for all angles; `mirror` adds reflections."""

    _: KW_ONLY
    of: int | None = None
    mirror: bool = False

    @property
    def group(self) -> Any:
        return ("turns", self.of)

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> Turn:
        mirrored = int(rng.integers(2)) if self.mirror else 0
        if self.of is not None:
            return int(rng.integers(self.of)), mirrored
        return float(np.float32(rng.uniform(-math.pi, math.pi))), mirrored

    def identity(self, arrays: Arrays) -> Turn:
        return 0, 0

    def compose(self, g: Turn, h: Turn) -> Turn:
        turn = g[0] + (-h[0] if g[1] else h[0])
        return (turn if self.of is None else int(turn) % self.of), (g[1] + h[1]) % 2

    def generators(self, arrays: Arrays) -> list[Turn]:
        turn: list[Turn] = [(1, 0)] if self.of != 1 else []
        return [*turn, (0, 1)] if self.mirror else turn

    def elements(self, arrays: Arrays) -> list[Turn] | None:
        if self.of is None or self.of * (1 + self.mirror) > SMALL:
            return None
        return [(k, m) for m in range(1 + self.mirror) for k in range(self.of)]

    def near(self, g: Turn, rng: np.random.Generator) -> Turn:
        return g if self.of is not None else (g[0] * (1 + WANDER * rng.uniform(-1, 1)), g[1])

    def simpler(self, g: Turn) -> Iterator[Turn]:
        """The mirror or the turn alone; one unit of turn; fewer digits."""
        turn, mirrored = g
        if mirrored and turn:
            yield from ((turn, 0), (0, 1))
        fewer = turn // 2 if self.of is not None else round(turn, 1)
        for k in dict.fromkeys((1, -1, int(turn), fewer)):
            if k and (len(f"{abs(k)!r}"), abs(k), k < 0) < (len(f"{abs(turn)!r}"), abs(turn), turn < 0):
                yield k, mirrored

    def written(self, g: Turn) -> str:
        turn = f"{g[0]:g} radians" if self.of is None else f"{g[0]}/{self.of} of a turn"
        return "mirror" if g == (0, 1) else ("mirror, then " if g[1] else "") + turn

    def __str__(self) -> str:
        angles = "any angle" if self.of is None else f"multiples of 1/{self.of} turn"
        return f"turns{' and mirrors' if self.mirror else ''} of {self.where()} by {angles}"


@dataclass(frozen=True)
class Rotate(Turns):
    """Turns about the origin of coordinates (..., 2) along `axis`: any angle, or with `of=n` multiples of 1/n turn.

    `mirror` adds reflections. Raises ValueError unless there are two coordinates.
    """

    _: KW_ONLY
    axis: int = -1

    def moved(self, g: Turn, name: str, array: np.ndarray) -> np.ndarray:
        if array.ndim == 0 or array.shape[self.axis] != 2:
            raise ValueError(f"Rotate: {name} has shape {array.shape}; axis {self.axis} must have two coordinates")
        x, y = np.moveaxis(array, self.axis, 0)
        cos, sin = self._cos_sin(g[0], array.dtype)
        y = -y if g[1] else y
        return np.stack([cos * x - sin * y, sin * x + cos * y], self.axis)

    def _cos_sin(self, turn: float, dtype: np.dtype) -> tuple[Any, Any]:
        if self.of is not None and int(turn) * 4 % self.of == 0:
            return [(1, 0), (0, 1), (-1, 0), (0, -1)][int(turn) * 4 // self.of % 4]
        if dtype.kind not in "fc":
            raise ValueError("Rotate: whole numbers can be turned by quarters only; use of=4")
        real = np.empty(0, dtype).real.dtype.type
        angle = real(turn) if self.of is None else 8 * np.arctan(real(1)) * int(turn) / self.of
        return np.cos(angle), np.sin(angle)


@dataclass(frozen=True)
class RotateGrid(Turns):
    """Quarter turns of images with rows and columns along `axes`; mirrors as well with `mirror`.

    The element means the same as that of Rotate(of=4) on coordinates (row, column) about the middle of the image.
    A quarter turn exchanges height and width.
    """

    _: KW_ONLY
    of: int = 4
    axes: tuple[int, int] = (-2, -1)

    def moved(self, g: Turn, name: str, array: np.ndarray) -> np.ndarray:
        if self.of != 4:
            raise ValueError(f"RotateGrid: of is {self.of}; a grid of pixels can be turned by quarters only, of=4")
        if array.ndim < 2:
            raise ValueError(f"RotateGrid: {name} has shape {array.shape}; it must have rows and columns")
        return np.rot90(np.flip(array, self.axes[1]) if g[1] else array, int(g[0]), self.axes)
