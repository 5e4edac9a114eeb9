"""Shifts of a sequence: round a ring, or along a line as far as the content fits.

    Roll:   y_i = x_{(i − k s) mod n}                   k any integer, s the step: shifts by multiples of s
    Slide:  the same, for those k only by which nothing that is present goes over the edge

On a ring shifts are a group with n / gcd(n, s) elements, and all are tried. A finite window of the line has no shifts
of its own; a claim about ℤ is one about content and a mask that travels with it, which is what `Slide` moves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass

import numpy as np

from refnp.symmetry.action import SMALL, Arrays, Placed


@dataclass(frozen=True)
class Roll(Placed):
    """Shifts round a ring by multiples of `step`; the element is the multiple k.

    Input and output may have steps of their own: a convolution with stride 2 takes Roll(step=2) to Roll(step=1).
    """

    _: KW_ONLY
    step: int = 1

    group = "shifts"

    def moved(self, g: int, name: str, array: np.ndarray) -> np.ndarray:
        axes = self.axes(name, array)
        return np.roll(array, (g * self.step,) * len(axes), axes)

    def order(self, arrays: Arrays) -> int:
        """How many different shifts there are, over all arrays together."""
        return math.lcm(*(n // math.gcd(n, self.step) for n in self.lengths(arrays).values() if n))

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> int:
        return int(rng.integers(0, self.order(arrays)))

    def identity(self, arrays: Arrays) -> int:
        return 0

    def compose(self, g: int, h: int) -> int:
        return g + h

    def generators(self, arrays: Arrays) -> list[int]:
        return [1] if self.order(arrays) > 1 else []

    def elements(self, arrays: Arrays) -> list[int] | None:
        order = self.order(arrays)
        return list(range(order)) if order <= SMALL else None

    def simpler(self, g: int) -> Iterator[int]:
        nearer = dict.fromkeys((1, -1, g // 2, g - 1 if g > 0 else g + 1))
        yield from (k for k in nearer if k and (abs(k), k < 0) < (abs(g), g < 0))

    def written(self, g: int) -> str:
        return f"shift by {g * self.step}"

    def __str__(self) -> str:
        multiples = "" if self.step == 1 else f" by multiples of {self.step}"
        return f"shifts on a ring{multiples}, {self.where()}"


@dataclass(frozen=True)
class Slide(Roll):
    """Shifts within a window, the content with its mask; `present` names the mask, True where there is content.

    The mask (..., N) must be among the arrays that move. What is behind the mask moves along and goes round.
    """

    _: KW_ONLY
    present: str = "mask"

    def elements(self, arrays: Arrays) -> list[int] | None:
        """All shifts that keep what is present inside: from first + k s ≥ 0 and last + k s < n."""
        if self.present not in arrays:
            raise ValueError(f"Slide: there is no array {self.present!r} that says what is present")
        mask = np.asarray(arrays[self.present])
        places = np.flatnonzero(mask.reshape(-1, mask.shape[-1]).any(0)) if mask.size else np.zeros(0, int)
        if not len(places):
            return [0]
        first, last = -(int(places[0]) // self.step), (mask.shape[-1] - 1 - int(places[-1])) // self.step
        return sorted(range(first, last + 1), key=lambda k: (abs(k), k < 0))

    def fits(self, g: int, arrays: Arrays) -> bool:
        return g in (self.elements(arrays) or [])

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> int:
        return int(rng.choice(self.elements(arrays) or [0]))

    def generators(self, arrays: Arrays) -> list[int]:
        return [k for k in self.elements(arrays) or [] if abs(k) == 1]

    def __str__(self) -> str:
        multiples = "" if self.step == 1 else f" by multiples of {self.step}"
        return f"shifts in the window of {self.present}{multiples}, {self.where()}"
