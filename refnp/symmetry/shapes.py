"""Shapes of arguments as they are written, "x (n, d), mask boolean (n, m)", arrays of unknown numbers and drawn ones.

A proof sees a function go one way. A function that asks what it is given, whether a size is even, or an array is one of
NumPy's, or whole, may go another way for the arrays with which it is used. Where numbers contradict it, nothing is
proved (`contradiction`).
"""

import functools
import math
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np

from refnp.autograd.notation import ARGUMENT, SHAPE, Argument
from refnp.numbers.indexed.arrays import Indexed, Places, mask, symbol
from refnp.numbers.indexed.sizes import Size, product_of, sum_of

GIVEN = re.compile(rf"([\w.]+) ({SHAPE})")
LENGTHS = (1, 2, 3, 4, 5, 8, 9, 16, 17)
LARGEST = 20_000  # numbers of an array
GROSS = 1e-3  # of the largest number: rounding is smaller
Sides = Callable[[dict[str, Any], np.random.Generator], tuple[Mapping[str, Any], Mapping[str, Any]]]
NUMBERS = ("", "positive", "real", "floating")  # what may be written in front of a shape


def as_written(
    shapes: str, length: Callable[[str], Any], least: float = math.inf
) -> Iterator[tuple[str, str, list[Any], Any]]:
    """The name of each argument, of what kind its numbers are, its shape, and how many places `whole < n` are.

    `length` is that of a letter, and of numbers of at `least` this. ValueError for what cannot be read.
    """
    if re.search(r"[(,·+] *0+\b", shapes):
        raise ValueError(f"prove: shapes is {shapes!r}; a proof is about sizes of at least 1")
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


# ---- beside numbers


def contradiction(shapes: str, sides: Sides, asked: Collection[int] = ()) -> str:
    """Sizes at which the two `sides` of what is proved differ, in words; "" if none were found.

    Each letter is also one of those `asked`. They are computed of arrays of numbers, with a generator for what else is
    drawn; where that raises an error, nothing is known.
    """
    rng = np.random.default_rng(0)
    for sizes, arrays in instances(shapes, rng, asked):
        try:
            with np.errstate(all="ignore"):
                one, other = sides(arrays, rng)
                differ = list(one) != list(other) or any(map(grossly_differ, one.values(), other.values()))
        except Exception:  # the sides may be any code, which need not take these arrays
            continue
        if differ:
            lengths = ", ".join(f"{name} = {length}" for name, length in sizes.items())
            return f"numbers contradict it{lengths and ', with '}{lengths}"
    return ""


def lengths_of(shapes: str) -> list[str]:
    """The letters of shapes that are written."""
    letters: dict[str, None] = {}
    list(as_written(shapes, lambda name: letters.setdefault(name) or 1))
    return [*letters]


def instances(
    shapes: str, rng: np.random.Generator, asked: Collection[int] = ()
) -> Iterator[tuple[dict[str, int], dict[str, Any]]]:
    """Lengths for the letters, each of which has all of LENGTHS that are not too large, and arrays of such shapes.

    Then each is one of those `asked`, beside short ones.
    """
    letters = lengths_of(shapes)
    rows = [*zip(*(rng.permutation(LENGTHS).tolist() for _ in letters), strict=True)] if letters else [()]
    short = LENGTHS[1:4]
    rows += [
        tuple(n if name == letter else short[i % 3] for i, name in enumerate(letters))
        for n in sorted({n for n in asked if n > 0} - {*LENGTHS})
        for letter in letters
    ]
    for row in rows:
        for most in (LARGEST, *reversed(LENGTHS)):
            sizes = {name: min(length, most) for name, length in zip(letters, row, strict=True)}
            written = list(as_written(shapes, sizes.__getitem__))
            if all(math.prod(shape) <= LARGEST for _, _, shape, _ in written):
                break
        yield sizes, {name: drawn(kind, shape, places, rng) for name, kind, shape, places in written}


def drawn(kind: str, shape: list[int], places: int, rng: np.random.Generator) -> np.ndarray:
    """Random numbers of this kind."""
    if kind == "whole":
        return rng.integers(0, places, shape)
    if kind == "boolean":
        return rng.random(shape) < 0.7
    return rng.uniform(0.5, 2, shape) if kind == "positive" else rng.normal(size=shape)


def another(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Other numbers of the same kind."""
    if x.dtype.kind == "f":
        return x * rng.uniform(0.5, 2, x.shape)
    return ~x if x.dtype == bool else rng.permuted(x)


def grossly_differ(x: Any, y: Any) -> bool:
    """Whether two arrays differ in shape, or by more than rounding where both are finite."""
    x, y = np.asarray(x), np.asarray(y)
    if x.shape != y.shape:
        return True
    finite = np.isfinite(x) & np.isfinite(y)
    x, y = x[finite].astype(complex), y[finite].astype(complex)
    return bool(np.any(np.abs(x - y) > GROSS * max(np.abs(x).max(initial=0), np.abs(y).max(initial=0))))
