"""How shapes and options are written where a function declares what it takes: `takes`, in declaration.py.

    query (..., N, d ≥ 1), key (..., M, d), bias floating to (..., N, M)?, gain (D) or ()

A letter is the length of an axis, of both where it stands twice. `...` are axes in front, which broadcast between
arguments; `*L` is a run of axes, none or several, and `*l` one of as many; `d ≥ 1` says that an axis may not be empty;
`groups·c` is a product of an option and a letter, or of two letters. `to (…)` says that an array broadcasts to that
shape; where that is all that is said of a run, as in `p to (*S), t to (*S)`, it is the shape of one of them. `or` says
that an array has one of two shapes, `?` that it may be left out. A word in front says what an array holds, a key of
KINDS, and `whole < V` that it holds integers from 0 to V − 1, `whole < V except pad` or the option `pad`. `hides (key,
value)` behind a mask says that what those hold where nothing is seen of them has no influence, NaN neither. What stands
behind a comma is said beside it in errors. Where `grid (B, *L, d)` may stand for an array, what holds then follows
behind a semicolon, for all arguments once more.

An option is written as names between `|`, of which it must be one, or as a key of DOMAINS; `?` means that None is
allowed. It may be `a multiple of` another option, and there may be several of it, which come to the function as a
tuple:

    whole ≥ 1 per axis of L                      one for each axis of the run *L, which then has an axis, or one for all
    whole ≥ 0 or (before, after) per axis of L   or a pair in place of one; `or None` likewise
    whole ≥ 1 per step of down                   one for each that the option `down` has, or one for all
    whole ≥ 1 per axis                           one, or as many as one likes
    whole ≥ 1, 2 or more                         a sequence

What names stand in front of it, as in `same | whole ≥ 0 per axis of L`, it may be as a whole.
"""

import functools
import math
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.numbers.kinds import Kind

KINDS = {  # what an array holds: kinds of NumPy's dtypes, and what to pass in place of others
    "": ("biufc", "pass an array of numbers"),
    "real": ("biuf", "pass real numbers"),
    "positive": ("biufc", "pass an array of numbers"),
    "nonzero": ("biufc", "pass an array of numbers"),
    "nonnegative": ("biufc", "pass an array of numbers"),
    "weights": ("biuf", "pass real numbers"),  # not negative
    "probability": ("biufc", "pass an array of numbers"),
    "logarithm": ("biufc", "pass an array of numbers"),  # of a positive number
    "triangular": ("biufc", "pass an array of numbers"),  # what is above the diagonal is not read
    "square": ("biufc", "pass an array of numbers"),  # any square matrix; well conditioned where it is made
    "definite": ("biufc", "pass an array of numbers"),  # symmetric and positive definite
    "floating": ("fc", "pass floats"),
    "boolean": ("b", "pass booleans"),
    "whole": ("iu", "pass integers"),
    "grid": ("G", "pass a Grid"),
}
SHAPE = r"[^(),|]*\([^)]*\)"
HIDES = r"(?: hides \((?P<hides>[^)]*)\))?"
ARGUMENT = re.compile(rf"(?P<shapes>{SHAPE}(?: or {SHAPE})*)(?P<optional>\?)?{HIDES}(?P<remark>,.*)?")
OPTION = re.compile(
    r"(?P<names>.*\| )?(?P<domain>[^|]*?)(?P<pair> or \(before, after\))?(?P<gap> or None)?"
    r"(?: per (?P<each>\w+)(?: of (?P<of>\w+))?|, (?P<least>\d+) or more)?(?:, a multiple of (?P<factor>\w+))?"
)


class Domain(typing.NamedTuple):
    """What an option may be: its type and its range, as tests, and both in words."""

    kind: Callable[[Any], bool]
    holds: Callable[[Any], bool]
    words: str


def is_number(value: Any) -> bool:
    """Whether it is one real number; an unknown one, of another kind, for all that is known."""
    return isinstance(value, (int, float, np.integer, np.floating, Kind)) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """Whether it is one integer; an unknown one, of another kind, for all that is known."""
    return isinstance(value, (int, np.integer, Kind)) and not isinstance(value, bool)


def is_axis_or_several(value: Any) -> bool:
    """Whether it is the number of an axis, or a tuple of such."""
    return is_whole(value) or (isinstance(value, tuple) and all(map(is_whole, value)))


def is_generator(value: Any) -> bool:
    """Whether random numbers can be drawn from it."""
    return isinstance(value, np.random.Generator)


def is_boolean(value: Any) -> bool:
    """Whether it is True or False."""
    return isinstance(value, (bool, np.bool_))


def is_listed(value: Any) -> bool:
    """Whether it is several values, in a list, a tuple or an array."""
    return isinstance(value, (tuple, list)) or (
        isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes)) and np.ndim(value) > 0
    )


def anything(value: Any) -> bool:
    """True."""
    return True


DOMAINS = {
    "number": Domain(is_number, anything, "a number"),
    "finite": Domain(is_number, np.isfinite, "a finite number"),
    "positive": Domain(is_number, lambda value: 0 < value < np.inf, "positive and finite"),
    "≥ 0": Domain(is_number, lambda value: 0 <= value < np.inf, "0 or positive, and finite"),
    "≥ 1": Domain(is_number, lambda value: 1 <= value < np.inf, "1 or more, and finite"),
    "in [0, 1)": Domain(is_number, lambda value: 0 <= value < 1, "in [0, 1)"),
    "in [0, 1]": Domain(is_number, lambda value: 0 <= value <= 1, "in [0, 1]"),
    "whole": Domain(is_whole, anything, "a whole number"),
    "whole ≥ 0": Domain(is_whole, lambda value: value >= 0, "a whole number, 0 or more"),
    "whole ≥ 1": Domain(is_whole, lambda value: value >= 1, "a whole number, 1 or more"),
    "odd": Domain(is_whole, lambda value: value >= 1 and value % 2 == 1, "an odd number, 1 or more"),
    "even": Domain(is_whole, lambda value: value >= 2 and value % 2 == 0, "an even number, 2 or more"),
    "1 or 2": Domain(is_whole, lambda value: value in (1, 2), "1 or 2"),
    "an axis": Domain(is_whole, anything, "an axis, a whole number"),
    "axes": Domain(is_axis_or_several, anything, "an axis, or a tuple of axes"),
    "True or False": Domain(is_boolean, anything, "True or False"),
    "generator": Domain(is_generator, anything, "a generator, such as np.random.default_rng(0)"),
    "function": Domain(callable, anything, "a function"),
}


@dataclass(frozen=True)
class Shape:
    """A shape as it is written: whether axes stand in front, and the axes, of which one may be a run (`*L`).

    `kind` is what the array holds, integers below the length `below` if that is given, or the option `excepted`;
    `broadcast` says that it broadcasts to the shape.
    """

    kind: str
    below: str
    excepted: str
    broadcast: bool
    batch: bool
    axes: tuple[str, ...]
    least: Mapping[str, int]  # the least length of axes that are written "d ≥ 1"

    @classmethod
    def of(cls, text: str) -> "Shape":
        """From the words and the axes in parentheses."""
        front, _, inside = text.rstrip(")").partition("(")
        front, _, below = front.partition("<")
        below, _, excepted = below.partition(" except ")
        words = [*front.split(), *below.split()[1:], *excepted.split()[1:]]
        kind = " ".join(word for word in words if word != "to")
        written = [axis.strip() for axis in inside.split(",") if axis.strip()]
        batch = written[:1] == ["..."]
        pairs = [[part.strip() for part in axis.split("≥")] for axis in written[batch:]]
        least = {axis: int(n) for axis, *bounds in pairs for n in bounds}
        bound, but = ((text.split() or [""])[0] for text in (below, excepted))
        return cls(kind, bound, but, "to" in words, batch, tuple(axis for axis, *_ in pairs), least)

    @property
    def run(self) -> str:
        """The run among its axes; nothing if there is none."""
        return next((axis for axis in self.axes if axis[0] == "*"), "")

    def __str__(self) -> str:
        shown = ", ".join(("...",) * self.batch + self.axes)
        return f"({shown},)" if len(self.axes) == 1 and not self.batch and shown[0] != "*" else f"({shown})"

    def lengths(self, known: Mapping[str, Any]) -> tuple[int, ...]:
        """The shape of an array, where the letters, "..." and runs have known lengths."""
        found = tuple(known["..."]) if self.batch else ()
        for axis in self.axes:
            if axis[0] == "*":
                found += known[axis]
            else:
                found += (math.prod(int(known.get(factor, factor)) for factor in axis.split("·")),)
        return found

    def split(self, shape: tuple[int, ...], run: int | None = None) -> tuple[tuple, list[tuple[str, Any]]] | None:
        """The axes in front, and each other axis with its length, a tuple for a run; None for too few or too many.

        `run` is how many axes the run has, if it is not all there are.
        """
        place = self.axes.index(self.run) if self.run else None
        fixed = len(self.axes) - (place is not None)
        if place is None:
            run = 0
        elif run is None:
            run = max(len(shape) - fixed, 0)
        front = len(shape) - fixed - run
        if front < 0 or (front and not self.batch):
            return None
        lengths: list[Any] = list(shape[front:])
        if place is not None:
            lengths[place : place + run] = [tuple(lengths[place : place + run])]
        return shape[:front], list(zip(self.axes, lengths, strict=True))


@dataclass(frozen=True)
class Argument:
    """An array: its shape or shapes, whether it may be left out, a remark, and of a mask what it `hides`."""

    name: str
    shapes: tuple[Shape, ...]
    optional: bool
    remark: str
    hides: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, text: str) -> "Argument":
        """From what is written behind the name; ValueError for what is not written so."""
        found = ARGUMENT.fullmatch(text.strip())
        shapes = tuple(map(Shape.of, found["shapes"].split(" or "))) if found else ()
        if found is None or any(shape.kind not in KINDS for shape in shapes):
            kinds = ", ".join(filter(None, KINDS))
            raise ValueError(f"takes: {name} is {text!r}; write a shape in parentheses, in front of it one of {kinds}")
        hides = tuple(re.findall(r"\w+", found["hides"] or ""))
        return cls(name, shapes, bool(found["optional"]), found["remark"] or "", hides)

    @property
    def broadcast(self) -> bool:
        """Whether it broadcasts to its shape."""
        return self.shapes[0].broadcast

    @property
    def below(self) -> str:
        """The length below which its integers are; nothing if there is none."""
        return next((shape.below for shape in self.shapes if shape.below), "")

    @property
    def excepted(self) -> str:
        """The option that its integers may be besides."""
        return next((shape.excepted for shape in self.shapes if shape.excepted), "")

    @property
    def kinds(self) -> str:
        """The kinds of numbers that it may hold."""
        return "".join(KINDS[shape.kind][0] for shape in self.shapes)

    @property
    def is_discrete(self) -> bool:
        """Whether it holds integers or booleans, whatever its shape."""
        return all(shape.kind in ("whole", "boolean") for shape in self.shapes)

    @property
    def may_be_discrete(self) -> bool:
        """Whether it may hold integers or booleans, which are no other numbers."""
        return any(shape.kind in ("whole", "boolean") for shape in self.shapes)

    @functools.cached_property
    def may_be_number(self) -> bool:
        """Whether one number alone may stand for it."""
        return any(shape.axes == () and not shape.batch for shape in self.shapes)

    @property
    def has_product(self) -> bool:
        """Whether an axis is a product of letters."""
        return any("·" in axis for shape in self.shapes for axis in shape.axes)

    @property
    def run(self) -> str:
        """The run whose number of axes follows from those that it has."""
        return self.shapes[0].run if len(self.shapes) == 1 and not self.shapes[0].batch else ""

    @property
    def shape(self) -> str:
        """Its shape, or shapes, as they are written."""
        return " or ".join(map(str, self.shapes))

    def __str__(self) -> str:
        but = lambda s: f" except {s.excepted}" if s.excepted else ""
        words = lambda s: (s.kind, f"< {s.below}{but(s)}" if s.below else "", "to" if s.broadcast else "", str(s))
        shapes = (" ".join(filter(None, words(shape))) for shape in self.shapes)
        hides = f" hides ({', '.join(self.hides)})" if self.hides else ""
        return f"{self.name} {' or '.join(shapes)}{'?' * self.optional}{hides}"


@dataclass(frozen=True)
class Option:
    """An option: the names it may be, or else its domain, whether it may be None, and what it is a multiple of."""

    name: str
    text: str
    choices: tuple[str, ...]
    domain: Domain
    optional: bool
    factor: str | None

    @classmethod
    def of(cls, name: str, text: str) -> "Option":
        """From what is written; ValueError for what is not written so."""
        plain, optional = text.removesuffix("?"), text.endswith("?")
        found = OPTION.fullmatch(plain)
        if found and found["domain"] in DOMAINS:
            domain, factor = DOMAINS[found["domain"]], found["factor"]
            choices = tuple(choice.strip() for choice in (found["names"] or "").split("|")[:-1])
            if found["each"] or found["least"]:
                number = found["each"] or "", found["of"] or "", int(found["least"] or 1)
                also = bool(found["pair"]), bool(found["gap"])
                return Several(name, text, choices, domain, optional, factor, *number, *also)
            if not choices:
                return cls(name, text, (), domain, optional, factor)
        if "|" not in plain:
            raise ValueError(f"takes: {name} is {text!r}; write names between |, or one of {', '.join(DOMAINS)}")
        choices = tuple(choice.strip() for choice in plain.split("|"))
        words = f"{', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}"
        domain = Domain(lambda value: isinstance(value, str), lambda value: value in choices, words)
        return cls(name, text, choices, domain, optional, None)

    def check(self, function: str, value: Any) -> None:
        """TypeError or ValueError that says what it must be, if it is not."""
        if value is None and self.optional:
            return
        is_kind = self.domain.kind(value)
        if is_kind and self.domain.holds(value):
            return
        error, must = ValueError if is_kind else TypeError, "use" if self.choices else "it must be"
        otherwise = ", or None" if self.optional else ""
        raise error(f"{function}: {self.name} is {value!r}; {must} {self.domain.words}{otherwise}")


@dataclass(frozen=True)
class Several(Option):
    """An option of which there is one for `each` axis of a run, or item of another option, or else a sequence.

    `along` is the run, without its star, or the other option; `least` is how long a sequence is at least. In place of
    one there may stand a `pair`, or None for a `gap`.
    """

    each: str
    along: str
    least: int
    pair: bool
    gap: bool

    @property
    def run(self) -> str:
        """The run of which it has one per axis, as it is written in shapes; nothing if there is none."""
        return f"*{self.along}" if self.each == "axis" and self.along else ""

    def check(self, function: str, value: Any) -> None:
        """TypeError or ValueError that says what it must be, if it is not, however many there are."""
        self.spread(function, value, None)

    def spread(self, function: str, value: Any, count: int | None) -> Any:
        """A tuple with one for each of `count`, if that is known; TypeError or ValueError that says what is right."""
        if (value is None and self.optional) or (type(value) is str and value in self.choices):
            return value
        if type(value) is int and count is not None and self.domain.holds(value):
            return ((value, value) if self.pair else value,) * count
        listed = is_listed(value)
        given = tuple(value) if listed else (value,)
        numbers = [number for one in given for number in (one if self._is_pair(one) else (one,))]
        numbers = [number for number in numbers if not (self.gap and listed and number is None)]
        named = isinstance(value, str) and bool(self.choices)
        is_kind = named or (all(map(self.domain.kind, numbers)) and bool(listed or self.each))
        right = is_kind and not named and all(map(self.domain.holds, numbers))
        if not right or (listed and not self.least <= len(given) == (len(given) if count is None else count)):
            raise (ValueError if is_kind else TypeError)(f"{function}: {self.name} is {value!r}; {self._must(count)}")
        if not listed:
            if count is None:
                return value
            given *= count
        if self.pair:
            return tuple(tuple(map(int, one if self._is_pair(one) else (one, one))) for one in given)
        return tuple(int(one) if isinstance(one, np.integer) else one for one in given)

    def _is_pair(self, one: Any) -> bool:
        return self.pair and is_listed(one) and len(one) == 2

    def _must(self, count: int | None) -> str:
        if not self.each:
            return f"it must be a sequence of {self.least} or more, each {self.domain.words}"
        one = f"one{' or a pair (before, after)' * self.pair}{' or None' * self.gap} for each {self.each}"
        words = [*map(repr, self.choices), self.domain.words, *(["None"] * self.optional)]
        return f"it must be {', '.join(words)}, or {one}{'' if count is None else f', {count} in all'}"
