"""Shapes of arguments as they are written, "x (n, d), mask boolean (n, m)", arrays of unknown numbers and drawn ones.

A proof sees a function go one way. A function that asks what it is given, whether a size is even, or an array is one of
NumPy's, or whole, may go another way for the arrays with which it is used. Where numbers contradict it, nothing is
proved (`contradiction`), by the rule of a search: rounding contradicts nothing, however small the result.
"""

import contextlib
import functools
import itertools
import math
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from refnp.autograd.notation import ARGUMENT, SHAPE, Argument
from refnp.numbers.indexed.arrays import Indexed, Places, mask, symbol
from refnp.numbers.indexed.sizes import Asked, Size, among, length_at, product_of, sum_of
from refnp.symmetry.actions import Arrays, Element, NamedAction
from refnp.symmetry.claim import Claim, DType, Precisions, roundoff
from refnp.symmetry.evaluation import Evaluations
from refnp.symmetry.judge import judge
from refnp.symmetry.jumps import Jumps
from refnp.symmetry.trials import PERTURBATIONS

GIVEN = re.compile(rf"([\w.]+) ({SHAPE})")
LENGTHS = (*range(1, 11), 16, 17)
LONG = 1025  # a length beside short ones
SHORT = (1, 12, 4)  # the lengths of the others beside a long one, for so many letters
SCALES = (1.0, 1 / 32, 1e4)  # of the numbers that are tried
SCALED = 4  # the first lengths, at which other scales than 1 are tried beside it
EACH, TIMES = 3, 4  # lengths at which what f asks is so, and how often they are tried
GIVEN_AT_MOST, FORMED_AT_MOST = 20_000, 4_000_000  # numbers of an array
FEW_ROUNDINGS = 64 * 2.0**-53  # of the largest number given or computed: what differs by more is judged
DOUBLE = np.dtype(np.float64)
Instance = Callable[[dict[str, Any], np.random.Generator], tuple[Claim, dict[str, Any], Element]]
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


class Instances(NamedTuple):
    """Which lengths are tried: those of the letters of `shapes`, and what f asks of them.

    numbers  that each letter is one of besides
    orders   that f asks about, which are so at some of the lengths
    formed   the shapes that f makes: where one is too large, the lengths are not tried
    """

    shapes: str
    numbers: Collection[int] = ()
    orders: Collection[Asked] = ()
    formed: Collection[tuple] = ()

    def lengths(self, rng: np.random.Generator) -> Iterator[dict[str, int]]:
        """All of LENGTHS for each letter; then one of them is long; then what f asks is so, several times."""
        letters = lengths_of(self.shapes)
        rows = zip(*(rng.permutation(LENGTHS).tolist() for _ in letters), strict=True) if letters else [()]
        every = [dict(zip(letters, row, strict=True)) for row in rows]
        special = [{letter: n} for n in sorted(n for n in self.numbers if n > 0) for letter in letters]
        special += [at for order in self.orders for at in met(order, letters)]
        long = [{letter: LONG} for letter in letters]
        every += [dict.fromkeys(letters, 2) | at for at in long + special * TIMES]
        for sizes in every:
            while not self._fit(sizes) and max(sizes.values()) <= max(LENGTHS):
                largest = max(sizes, key=lambda name: sizes[name])
                sizes = {**sizes, largest: sizes[largest] - 1}
            if self._fit(sizes):
                yield sizes

    def _fit(self, sizes: Mapping[str, int]) -> bool:
        """Whether no array is too large to be computed."""
        given = (shape for _, _, shape, _ in as_written(self.shapes, sizes.__getitem__))
        made = ([length_at(n, among(sizes)) for n in shape] for shape in self.formed)
        return all(math.prod(shape) <= GIVEN_AT_MOST for shape in given) and all(
            math.prod(shape) <= FORMED_AT_MOST for shape in made
        )

    def arrays(self, sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Drawn arrays of these sizes."""
        written = as_written(self.shapes, sizes.__getitem__)
        return {name: drawn(kind, shape, places, rng) for name, kind, shape, places in written}


def met(order: Asked, letters: list[str]) -> Iterator[dict[str, int]]:
    """Some lengths at which what f asks is so: of each letter a long one beside short ones."""
    own = [letter for letter in letters if letter in order.letters()]
    short = range(1, SHORT[min(len(own), len(SHORT)) - 1] + 1)
    for letter in own:
        others = [other for other in own if other != letter]
        beside = (dict(zip(others, choice, strict=True)) for choice in itertools.product(short, repeat=len(others)))
        found = (at for rest in beside if (at := _first_met(order, letter, rest)))
        yield from itertools.islice(found, EACH)


def _first_met(order: Asked, letter: str, rest: dict[str, int]) -> dict[str, int] | None:
    """Lengths beside these at which it is so: the first, or those where the two that are compared are about equal."""
    low, high = 1, GIVEN_AT_MOST
    of = lambda n: order.difference({**rest, letter: n})
    with contextlib.suppress(ZeroDivisionError):
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if (of(middle) > 0) == (of(low) > 0) else (low, middle)
        tried = (*LENGTHS, low - 1, low, high, high + 1)
        return next(({**rest, letter: n} for n in tried if n > 0 and order.is_so({**rest, letter: n})), None)
    return None


def contradiction(instances: Instances, instance: Instance) -> tuple[str, str]:
    """Sizes at which what is proved fails, in words, "" if none were found; what is not known.

    `instance` makes of arrays of numbers, with a generator for what else is drawn, the claim that is proved, its inputs
    and an element; where it raises an error, or f does, nothing is known. The claim fails, too, if at all sizes one
    side alone is no number at some place, whatever the numbers are.
    """
    refused: str | None = ""
    rng = np.random.default_rng(0)
    undefined: list[tuple[int, str]] = []
    is_defined = False
    for k, sizes in enumerate(instances.lengths(rng)):
        at = "".join(f", {name} = {length}" for name, length in sizes.items()).replace(",", ", with", 1)
        try:
            arrays = instances.arrays(sizes, rng)
            for scale in (1.0, SCALES[1 + k % 2]) if k < SCALED else (1.0,):
                if is_refuted(*instance({name: _scaled(x, scale) for name, x in arrays.items()}, rng)):
                    return f"numbers contradict it{at}{f', and numbers about {scale:g}' if scale != 1 else ''}", ""
            refused = None
            if not is_defined and max(sizes.values(), default=1) <= max(LENGTHS):
                place = undefined_place(instances, sizes, instance)
                undefined += [(sum(sizes.values()), f"{place}, whatever the numbers are{at}")] if place else []
                is_defined = place == "" and min(sizes.values(), default=2) > 1
        except Exception as error:  # f may be any code, which need not take these arrays
            refused = None if refused is None else refused or str(error) or type(error).__name__
            continue
    if undefined and not is_defined:
        return f"numbers contradict it: {min(undefined)[1]}", ""
    return "", f"it takes arrays of numbers; none was taken of those that were tried: {refused}" if refused else ""


def is_refuted(claim: Claim, x: dict[str, Any], g: Element) -> bool:
    """Whether the claim fails at this input and element in float64, in value or shape, by the rule of a search.

    What is infinite or NaN is no matter of real arithmetic; where numbers become too large or too small on the way, the
    claim must fail in the finest precision, too, in which they do not. Raises Refusal where f raises anything.
    """
    left, right, flags = both_sides(claim, x, g, DOUBLE)
    given = max((np.abs(a).max(initial=0) for a in x.values() if a.dtype.kind == "f"), default=0.0)
    if list(left) == list(right) and all(nearly_equal(left[name], right[name], given) for name in left):
        return False
    every = claim.precisions(x)
    double = Precisions(tuple(t for t in every.dtypes if t.itemsize <= DOUBLE.itemsize) or (DOUBLE,), roundoff(DOUBLE))
    if flags and both_sides(claim, x, g, every.dtypes[-1])[-1]:
        return False
    for precisions in (double, every) if flags else (double,):
        for jumps in (None, Jumps()):  # the quick question first
            at = Evaluations(claim, precisions, x, np.random.default_rng(0), PERTURBATIONS)
            if jumps is None and not at.is_repeatable():
                return True
            found = judge(at, g, jumps=jumps)
            if found.outcome != "violated" or found.kind not in ("value", "shape"):
                return False
    return True


def both_sides(claim: Claim, x: dict[str, Any], g: Element, dtype: DType) -> tuple[dict, dict, list[str]]:
    """f(g·x) and g·f(x) in this precision, and whether numbers become too large or too small on the way."""
    flags: list[str] = []

    def noting(**arrays: Any) -> Any:
        with np.errstate(all="ignore", over="call", under="call", call=lambda kind, _: flags.append(kind)):
            return claim.f(**arrays)

    of = replace(claim, f=noting)
    outputs = of.at(x, dtype)
    return of.left(g, x, outputs, dtype), of.right(g, outputs), flags


def nearly_equal(x: np.ndarray, y: np.ndarray, given: float) -> bool:
    """Whether two arrays are of one shape, and differ where both are finite by a few roundings of their largest number.

    Or of the largest that was `given`: what is 0 but for rounding has no size of its own.
    """
    if x.shape != y.shape:
        return False
    finite = np.isfinite(x) & np.isfinite(y)
    x, y = x[finite].astype(complex), y[finite].astype(complex)
    return bool(np.all(np.abs(x - y) <= FEW_ROUNDINGS * max(given, np.abs(x).max(initial=0), np.abs(y).max(initial=0))))


def undefined_place(instances: Instances, sizes: Mapping[str, int], instance: Instance) -> str | None:
    """A place at which one side alone is no number for all numbers that are tried, in words; "" if there is none.

    Or both sides are none at all places. None where nothing is known: where both are none at some, or some numbers
    became too large or too small.
    """
    rng = np.random.default_rng(0)
    known: tuple[Mapping[str, Any], ...] = ()
    alone: Any = True
    is_number: Any = None  # whether either side is one anywhere
    for scale, sign in (*itertools.product(SCALES, (None, 1, -1)),) * 2:
        arrays = {name: _scaled(x, scale, sign) for name, x in instances.arrays(sizes, rng).items()}
        claim, x, g = instance(arrays, np.random.default_rng(0))  # the same element of the group each time
        one, other, flags = both_sides(claim, x, g, DOUBLE)
        known = one, other
        if flags:
            continue
        finite = [np.concatenate([np.isfinite(x).ravel() for x in side.values()]) for side in (one, other)]
        alone, is_number = alone & (finite[0] != finite[1]), bool(is_number or np.any(finite) or not finite[0].size)
        if is_number and not alone.any():
            return "" if np.any(finite, 0).all() else None
    if is_number is False:
        return "neither side has a number"
    if not np.ndim(alone):
        return None
    left = int(np.argmax(alone))
    for name, x in known[0].items():
        if left < np.size(x):
            i = np.unravel_index(left, np.shape(x))
            values = [np.asarray(side[name])[i] for side in known]
            value = next((v for v in values if not np.isfinite(v)), np.nan)
            return f"one side alone is {value} at {name}{[int(k) for k in i]}"
        left -= np.size(x)
    return None


def _scaled(x: np.ndarray, scale: float, sign: int | None = None) -> np.ndarray:
    """Numbers that are larger or smaller, and all of one sign if there is one; what are no floats stay."""
    return x if x.dtype.kind != "f" else scale * (x if sign is None else sign * np.abs(x))


def lengths_of(shapes: str) -> list[str]:
    """The letters of shapes that are written."""
    letters: dict[str, None] = {}
    list(as_written(shapes, lambda name: letters.setdefault(name) or 1))
    return [*letters]


def drawn(kind: str, shape: list[int], places: int, rng: np.random.Generator) -> np.ndarray:
    """Random numbers of this kind."""
    if kind == "whole":
        return rng.integers(0, places, shape)
    if kind == "boolean":
        return rng.random(shape) < 0.7
    return rng.uniform(0.5, 2, shape) if kind == "positive" else rng.normal(size=shape)


@dataclass(frozen=True)
class Exchange(NamedAction):
    """Other arrays in place of those that it names; an element is these arrays by name."""

    group = "exchanges"

    def draw(self, rng: np.random.Generator, arrays: Arrays) -> dict[str, Any]:
        """Other numbers of the same kind."""
        return {name: another(x, rng) for name, x in self.chosen(arrays)}

    def identity(self, arrays: Arrays) -> dict[str, Any]:
        return dict(self.chosen(arrays))

    def compose(self, g: dict[str, Any], h: dict[str, Any]) -> dict[str, Any]:
        return g

    def moved(self, g: dict[str, Any], name: str, array: np.ndarray) -> np.ndarray:
        return g[name].astype(array.dtype)


def another(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Other numbers of the same kind."""
    if x.dtype.kind == "f":
        return x * rng.uniform(0.5, 2, x.shape)
    return ~x if x.dtype == bool else rng.permuted(x)
