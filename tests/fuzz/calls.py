"""A call: which function, with which arguments, and how it ended."""

import contextlib
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.fuzz.shapes import Shape

ORDINARY = (1e-6, 1e6)  # the sizes of numbers with which nothing needs care
GENTLE = (1e-2, 10.0)  # and with which nothing overflows, exp and products included


class Violation(AssertionError):
    """A property that a call does not keep: its letter, and what came."""

    def __init__(self, letter: str, what: str):
        super().__init__(f"({letter}) {what}")
        self.letter, self.what = letter, what


@dataclass(frozen=True)
class Fresh:
    """An argument that is made anew for each call, such as a generator, and the code that makes it."""

    make: Callable[[], Any]
    code: str

    def __repr__(self) -> str:
        return self.code


@dataclass
class Call:
    """A call of a subject.

    arguments: by name; those of a constructor begin with a dot. layouts: how arrays lie in memory, "C" if not named.
    shapes: of the arguments that have any; result: its shape, if documented; lengths: of their letters.
    wrong: the argument that should not be so, and right: what it was, if that is known.
    """

    subject: Any
    arguments: dict[str, Any]
    layouts: dict[str, str] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)
    wrong: str | None = None
    right: Any = None
    result: Shape | None = None

    def with_(self, **changes: Any) -> "Call":
        return dataclasses.replace(self, **changes)

    def numbers(self) -> dict[str, np.ndarray]:
        """The arguments that are arrays of numbers to compute with, by name; of lists, all their arrays."""
        found = {}
        for name, value in self.arguments.items():
            for i, array in enumerate(value if type(value) is list else [value]):
                if isinstance(array, np.ndarray) and array.dtype.kind in "fc" and self.subject.is_number(name):
                    found[f"{name}[{i}]" if type(value) is list else name] = array
        return found

    @property
    def is_ordinary(self) -> bool:
        """Whether nothing about the arguments asks for care: neither wrong nor huge, tiny, half precision or NaN."""
        return self.lies_in(*ORDINARY)

    def lies_in(self, low: float, high: float) -> bool:
        """Whether all numbers that are not hidden are 0, where they may be, or of a size between low and high."""
        python = [
            v for name, v in self.arguments.items() if type(v) in (float, complex) and self.subject.is_number(name)
        ]
        if not all(v == 0 or low <= abs(v) <= high for v in python):  # of which NaN is none
            return False  # also for NaN
        return self.wrong is None and all(
            array.dtype != np.float16
            and np.isfinite(shown).all()
            and ((np.abs(shown) <= high) & ((np.abs(shown) >= low) | ((shown == 0) & may_be_zero))).all()
            for name, array in self.numbers().items()
            for may_be_zero in [self.subject.kind(name) not in ("positive", "nonzero")]
            for shown in [np.where(self.hidden(name), 1, array)]
        )

    def hidden(self, name: str) -> np.ndarray | bool:
        """Which elements of an argument a mask hides: those that no query, or nothing else, has a use for."""
        found: np.ndarray | bool = False
        for mask_name, hides in self.subject.masks.items():
            mask = self.arguments.get(mask_name)
            if name in hides and mask_name in self.shapes and name in self.shapes:
                with contextlib.suppress(ValueError, IndexError):  # shapes that do not belong together hide nothing
                    found = found | self._hidden_by(mask_name, mask, name)
        return found

    def length(self, letter: str) -> int:
        """The length of a letter, or the number that it is."""
        return int(letter) if letter.isdecimal() else self.lengths[letter]

    def _hidden_by(self, mask_name: str, mask: Any, name: str) -> np.ndarray | bool:
        array, own, of_mask = self.arguments[name], self.shapes[name].letters, self.shapes[mask_name].letters
        if not (isinstance(mask, np.ndarray) and mask.dtype == bool and isinstance(array, np.ndarray)):
            return False
        front = mask.shape[: max(mask.ndim - len(of_mask), 0)]
        whole = np.broadcast_shapes(front, array.shape[: array.ndim - len(own)])
        shown = np.broadcast_to(mask, (*whole, *map(self.length, of_mask)))
        shown = shown.any(tuple(i - len(of_mask) for i, letter in enumerate(of_mask) if letter not in own))
        shown = shown[(..., *(slice(None) if letter in of_mask else None for letter in own))]
        shown = shown.any(tuple(range(shown.ndim - array.ndim)))  # axes in front that the argument has not
        ones = tuple(i for i, n in enumerate(array.shape) if n == 1 != shown.shape[i])  # or has once for all
        return ~np.broadcast_to(shown.any(ones, keepdims=True), array.shape)
