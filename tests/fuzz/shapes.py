"""The shapes of a row: "query (..., N, d), key (..., M, d), mask? (..., N, M) -> (..., N, d)".

A letter is a length, the same wherever it stands; a number is itself, `a·b` a product, the name of an option its value.
`*` at the front stands for axes that all arguments with it have alike, `...` for axes that broadcast with those, `*L`
for a run of axes, and `*l` for as many. `?` marks what may be left out.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """The axes of one argument: `front` is "", "*" or "...", `letters` the others."""

    front: str
    letters: tuple[str, ...]
    optional: bool = False


def parsed(text: str) -> tuple[dict[str, Shape], Shape | None]:
    """The shapes of the arguments, and of the result if it is given."""
    given, _, result = text.partition("->")
    arguments = {name: shape(inner, bool(mark)) for name, mark, inner in re.findall(r"(\w+)(\??) \(([^)]*)\)", given)}
    return arguments, shape(result.strip()[1:-1]) if result else None


def shape(inner: str, optional: bool = False) -> Shape:
    """The axes in a pair of brackets."""
    axes = [axis.strip() for axis in inner.split(",") if axis.strip()]
    front = axes.pop(0) if axes and axes[0] in ("*", "...") else ""
    return Shape(front, tuple(axes), optional)
