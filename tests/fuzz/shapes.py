"""The shapes of a row, which are written as in declarations, and with axes in front of two kinds.

A letter is a length, the same wherever it stands; a number is itself, `a·b` a product, the name of an option its value.
`*` at the front stands for axes that all arguments with it have alike, `...` for axes that broadcast with those, `*L`
for a run of axes, and `*l` for as many.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """The axes of one argument: `front` is "", "*" or "...", `letters` the others."""

    front: str
    letters: tuple[str, ...]
    optional: bool = False


def shape(inner: str, optional: bool = False) -> Shape:
    """The axes in a pair of brackets."""
    axes = [axis.strip() for axis in inner.split(",") if axis.strip()]
    front = axes.pop(0) if axes and axes[0] in ("*", "...") else ""
    return Shape(front, tuple(axes), optional)
