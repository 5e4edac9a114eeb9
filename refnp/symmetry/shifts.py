"""Shifts of entries along an axis: on a ring, of content in a window, and of what a window shows of a line.

Roll      y_i = x_{(i − k s) mod n}                 k any integer, s the step: circular shifts by multiples of s
Slide     the same, for those k only by which no entry that is present passes the edge
Shift     the same, for functions of a window: what passes the edge is not compared
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np

from refnp.autograd import Array
from refnp.symmetry.actions import SMALL, Action, Arrays, AxisAction, Product, Trivial, WithNeutral, is_whole


@dataclass(frozen=True)
class Roll(WithNeutral, AxisAction):
    """Circular shifts by multiples of `step`; an element is the multiple k, any whole number.

    They are a group with n / gcd(n, step) elements. Input and output may have steps of their own: a convolution with
    stride 2 takes Roll(step=2) to Roll(step=1).
    """

    _: KW_ONLY
    step: int = 1

    neutral = 0
    group = "shifts"
    an_element = "a whole number of steps, such as 1 or -2"
    moves_along_axes = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_whole(self.step) or not self.step:
            raise ValueError(f"Roll: step is {self.step!r}; it must be a whole number other than 0")

    def is_element(self, g: int) -> bool:
        return is_whole(g)

    def inverse(self, g: int) -> int:
        return -g

    def moved(self, g: int, name: str, array: Array) -> Array:
        axes = self.axes(name, array)
        return np.roll(array, (g * self.step,) * len(axes), axes)

    def order(self, arrays: Arrays) -> int:
        """How many different shifts there are, over all arrays together."""
        return math.lcm(*(n // math.gcd(n, self.step) for n in self.lengths(arrays).values() if n))

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> int:
        return int(rng.integers(0, self.order(arrays)))

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

    def describe(self, g: int) -> str:
        return f"shift by {g * self.step}"

    def __str__(self) -> str:
        return f"shifts {self.domain()}{'' if self.step == 1 else f' by multiples of {self.step}'}, {self.where()}"

    def domain(self) -> str:
        """On what entries are shifted, in words."""
        return "on a ring"


@dataclass(frozen=True)
class Slide(Roll):
    """Shifts of content within a window, together with its mask: what a claim about shifts of ℤ means on n entries.

    An element is a whole number of steps by which nothing that is present passes the edge.
    `present` names the mask (..., N), True where there is content; it must be among the arrays that move. Allowed are
    the shifts by which nothing that is present passes the edge; what is behind the mask moves along and goes round.
    """

    _: KW_ONLY
    present: str = "mask"

    def elements(self, arrays: Arrays) -> list[int]:
        """All shifts that keep what is present inside: from first + k s ≥ 0 and last + k s < n."""
        if self.present not in arrays:
            raise ValueError(f"Slide: there is no array {self.present!r} that says what is present")
        mask = np.asarray(arrays[self.present])
        indices = np.flatnonzero(mask.reshape(-1, mask.shape[-1]).any(0)) if mask.size else np.zeros(0, int)
        if not len(indices):
            return [0]
        first, last = -(int(indices[0]) // self.step), (mask.shape[-1] - 1 - int(indices[-1])) // self.step
        return sorted(range(first, last + 1), key=lambda k: (abs(k), k < 0))

    def fits(self, g: int, arrays: Arrays) -> bool:
        return g in self.elements(arrays)

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> int:
        return int(rng.choice(self.elements(arrays)))

    def generators(self, arrays: Arrays) -> list[int]:
        return [k for k in self.elements(arrays) if abs(k) == 1]

    def domain(self) -> str:
        return f"in the window of {self.present}"


@dataclass(frozen=True)
class Shift(Roll):
    """Shifts of ℤ, of which n entries are seen: what passes an edge comes in at the other, and is not compared.

    For claims about the interior of an output, `border=`: a function of a window of entries, or of pixels, whose output
    near the edges depends on what is outside. An element is a whole number of steps; allowed are the shifts that leave
    at least one entry inside.
    """

    has_edges = True

    def moved_masks(self, g: int, masks: Mapping[str, Array]) -> dict[str, Array]:
        """What came in at the other edge is False."""
        moved = self.act(g, masks)
        for name, mask in self.chosen(moved):
            mask, by = mask.copy(), g * self.step
            for axis in self.axes(name, mask):
                along = np.moveaxis(mask, axis, 0)
                along[: max(0, by)] = along[len(along) + min(0, by) if -by < len(along) else 0 :] = False
            moved[name] = mask
        return moved

    def elements(self, arrays: Arrays) -> list[int] | None:
        least = min(self.lengths(arrays).values(), default=0)
        most = max(0, (least - 1) // self.step)
        return sorted(range(-most, most + 1), key=lambda k: (abs(k), k < 0)) if 2 * most < SMALL else None

    def order(self, arrays: Arrays) -> int:
        least = min(self.lengths(arrays).values(), default=0)
        return 1 + 2 * max(0, (least - 1) // self.step)

    def fits(self, g: int, arrays: Arrays) -> bool:
        return 2 * abs(g) < self.order(arrays)

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> int:
        most = self.order(arrays) // 2
        return int(rng.integers(-most, most + 1))

    def generators(self, arrays: Arrays) -> list[int]:
        return [1, -1] if self.order(arrays) > 1 else []

    def domain(self) -> str:
        return "in a window"


def in_steps(action: Action, multiple: int) -> Action:
    """The same shifts by multiples of `multiple` steps only. Raises ValueError for an action without a step."""
    if isinstance(action, Trivial):
        return action
    if isinstance(action, Product):
        return Product(tuple(in_steps(part, multiple) for part in action.parts))
    step = getattr(action, "step", None)
    if step is None:
        raise ValueError(
            f"find_subgroup: {action} has no step; give one whose multiples are asked about, such as "
            'Roll("x", step=1) or Translate("x", step=1 / 64)'
        )
    larger = step * multiple if isinstance(step, (int, float)) else tuple(s * multiple for s in step)
    return replace(action, step=larger)  # type: ignore[type-var]
