"""Multiplication: of everything by −1, or by a positive number.

Negate:  x → −x                  f odd:  f(−x) = −f(x)         f even:  f(−x) = f(x)
Scale:   x → sᵖ x,  s > 0        f homogeneous of degree p:  f(s x) = sᵖ f(x)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass

import numpy as np

from refnp.symmetry.action import Arrays, Named


@dataclass(frozen=True)
class Negate(Named):
    """The group {1, −1}; the element is the sign."""

    group = "signs"

    def moved(self, g: int, name: str, array: np.ndarray) -> np.ndarray:
        if array.dtype.kind == "b":
            raise ValueError(f"Negate: {name} is boolean and has no sign; name the arrays that have one")
        return array.copy() if g == 1 else -array

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> int:
        return int(rng.choice((1, -1)))

    def identity(self, arrays: Arrays) -> int:
        return 1

    def compose(self, g: int, h: int) -> int:
        return g * h

    def generators(self, arrays: Arrays) -> list[int]:
        return [-1]

    def elements(self, arrays: Arrays) -> list[int]:
        return [1, -1]

    def written(self, g: int) -> str:
        return f"sign {g:+d}"

    def __str__(self) -> str:
        return f"change of sign of {self.where()}"


@dataclass(frozen=True)
class Scale(Named):
    """Positive numbers s that multiply by sᵖ, p = `power`; tried from 1/reach to reach.

    With `binary` s is a power of 2, whose product rounds nothing. Whole numbers cannot be scaled: ValueError.
    """

    power: float = 1
    _: KW_ONLY
    reach: float = 1024.0
    binary: bool = False

    @property
    def group(self) -> str:
        return "powers of 2" if self.binary else "positive numbers"

    def moved(self, g: float, name: str, array: np.ndarray) -> np.ndarray:
        if array.dtype.kind not in "fc":
            raise ValueError(f"Scale: {name} is {array.dtype} and cannot be scaled; name the arrays that can")
        return array * np.asarray(g, array.dtype) ** self.power

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> float:
        exponent = math.log2(self.reach) * rng.uniform(-1, 1)
        return float(2.0 ** round(exponent) if self.binary else np.float32(2.0**exponent))

    def identity(self, arrays: Arrays) -> float:
        return 1.0

    def compose(self, g: float, h: float) -> float:
        return g * h

    def generators(self, arrays: Arrays) -> list[float]:
        return [2.0] if self.binary else [2.0, 3.0]

    def simpler(self, g: float) -> Iterator[float]:
        """Twice, half, three times, then powers of 4."""
        powers = [4.0**k for k in range(1, 1 + int(abs(math.log2(g)) // 2))]
        simple = [2.0, 0.5, *([] if self.binary else [3.0]), *powers, *(1 / s for s in powers)]
        yield from (s for s in simple if (abs(math.log2(s)), s < 1, s) < (abs(math.log2(g)), g < 1, g))

    def written(self, g: float) -> str:
        return f"factor {g:g}" + ("" if self.power == 1 else f" to the power {self.power:g}")

    def __str__(self) -> str:
        kind = "powers of 2" if self.binary else "positive numbers"
        power = "" if self.power == 1 else f" to the power {self.power:g}"
        return f"multiplication of {self.where()} by {kind}{power} (tried up to {self.reach:g})"
