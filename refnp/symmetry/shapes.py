"""Shapes of arguments as they are written, "x (n, d), mask boolean (n, m)", and arrays of unknown numbers of them."""

import functools
import math
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

from refnp.autograd.notation import ARGUMENT, SHAPE, Argument
from refnp.numbers.indexed.arrays import Indexed, Places, mask, symbol
from refnp.numbers.indexed.sizes import Size, product_of, sum_of

GIVEN = re.compile(rf"([\w.]+) ({SHAPE})")
NUMBERS = ("", "positive", "real", "floating")  # what may be written in front of a shape


def as_written(
    shapes: str, length: Callable[[str], Any], least: float = math.inf
) -> Iterator[tuple[str, str, list[Any], Any]]:
    """The name of each argument, of what kind its numbers are, its shape, and how many places `whole < n` are.

    `length` is that of a letter, and of numbers of at `least` this. ValueError for what cannot be read.
    """
    is_number = lambda name: name.isdigit() and int(name) < least
    letter = lambda name: int(name) if is_number(name) else length(name)
    product = lambda axis: product_of([letter(factor) for factor in axis.split("·")])
    joined = lambda axis: sum_of([product(part) for part in axis.split("+")]) if "+" in axis else product(axis)
    size = lambda axis: functools.reduce(operator.add, map(joined, axis.split(" + ")))
    given = GIVEN.findall(shapes)
    if not given:
        raise ValueError(f"prove: shapes is {shapes!r}; write the shape of each argument: 'x (n, d), y (n, d)'")
    for name, text in given:
        argument = Argument.of(name, text) if ARGUMENT.fullmatch(text) else None
        written = argument.shapes[0] if argument else None
        if written is None or written.run or written.kind not in (*NUMBERS, "boolean", "whole"):
            raise ValueError(
                f"prove: {name} is {text!r}; write a shape such as (b, n, d), boolean before that of a mask"
            )
        axes = [size("B")] if written.batch else []
        places = size(written.below or "positions") if written.kind == "whole" else None
        yield name, written.kind, [*axes, *map(size, written.axes)], places


def unknown_arrays(shapes: str, least: float = math.inf) -> dict[str, Indexed]:
    """Arrays of unknown numbers of the shapes that are written. ValueError for what cannot be read.

    `whole < n (m)` are places on an axis of n. Lengths that are numbers of at `least` this are letters too.
    """
    sizes: dict[str, Size] = {}
    found: dict[str, Indexed] = {}
    for name, kind, axes, places in as_written(shapes, lambda name: sizes.setdefault(name, Size(name)), least):
        if kind == "whole":
            found[name] = Places(name, axes, places)
        else:
            found[name] = (mask if kind == "boolean" else symbol)(name, *axes)
    return found
