"""Sizes that are letters, and axes of such sizes: broadcast, split, joined, and read by slices.

A size is N, a product H·D of an axis that may be split, or a sum N + M of axes one behind the other.
"""

import itertools
import math
import numbers
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from refnp.numbers.indexed.expressions import Expression, assume, atom, number
from refnp.numbers.indexed.indices import REVERSED, moved
from refnp.numbers.indexed.terms import Index, NoRule, canonical, fresh
from refnp.numbers.kinds import Kind

Shape = tuple[Any, ...]
Reader = Callable[[tuple], tuple]  # from the indices of an array to those of the one that it is made of


class Size(Kind):
    """The length of an axis: a letter, or a `product` or `sum` of sizes. Any whole number from `least` on.

    What is `computed` of sizes, such as the number of windows, is a letter of its own, whose name says how it came to
    be. A `difference` is any whole number unless it is the length of an axis. `made` is how it is computed,
    and of which sizes.
    """

    __slots__ = ("least", "made", "name", "parts", "way")
    shape: tuple = ()
    ndim = 0

    def __init__(
        self, name: str = "", way: str = "letter", parts: Sequence["Size | int"] = (), least: float = 1, made: Any = ()
    ):
        self.name, self.way, self.parts = name, way, tuple(parts)
        self.made = made or ((math.prod if way == "product" else sum, self.parts) if parts else ())
        own = [least_of(part) for part in self.parts]
        self.least = least if not own else math.prod(own) if way == "product" else sum(own)

    def number(self) -> Expression:
        """The size as a number to compute with."""
        if self.way == "difference":
            return atom("x", f"#{self.name}", ())
        if self.least < 1:
            assume("of sizes", f"{self.name} ≥ 1")
        if not self.parts:
            return atom("#", self.name)
        found = as_number(self.parts[0])
        for part in self.parts[1:]:
            found = found * as_number(part) if self.way == "product" else found + as_number(part)
        return found

    def __mul__(self, other: Any) -> Any:
        return product_of((self, other)) if isinstance(other, (Size, int)) else NotImplemented

    def __rmul__(self, other: Any) -> Any:
        return product_of((other, self)) if isinstance(other, (Size, int)) else NotImplemented

    def __floordiv__(self, other: Any) -> Any:
        """A factor of a product, where the other one is the rest of it."""
        left = list(factors(self))
        for factor in factors(other):
            if not any(is_alike(factor, own) for own in left):
                name = f"⌊{bracketed(self)}/{bracketed(other, '·')}⌋"
                return Size(name, "computed", least=0, made=(lambda n: operator.floordiv(*n), (self, other)))
            left.remove(next(own for own in left if is_alike(factor, own)))
        return product_of(left)

    def __mod__(self, other: Any) -> Any:
        """0 for a factor of a product."""
        if "⌊" not in str(self // other):
            return 0
        name = f"{bracketed(self)} mod {bracketed(other)}"
        return Size(name, "difference", least=0, made=(lambda n: operator.mod(*n), (self, other)))

    def __add__(self, other: Any) -> Any:
        return _computed(self, "+", other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return 0 if is_alike(self, other) else _computed(self, "−", other)

    def __rsub__(self, other: Any) -> Any:
        return _computed(other, "−", self)

    def __neg__(self) -> "Size":
        return Size(f"−({self})", "difference", least=-math.inf, made=(lambda n: -n[0], (self,)))

    def __eq__(self, other: Any) -> bool:
        other = as_whole(other)
        if not isinstance(other, (Size, int)):
            return False if isinstance(other, numbers.Real) else NotImplemented
        if is_same(self, other):
            return True
        return False if isinstance(other, int) and other < self.least else self._taken_not_to_be("=", other)

    def __hash__(self) -> int:
        """Refused: a set or a dictionary compares hashes before numbers, so that its answer would assume nothing."""
        raise NoRule(f"no rule for {self}, a size, in a set or as a key; compare it with ==")

    def __gt__(self, other: Any) -> bool:
        return self._is(">", other)

    def __ge__(self, other: Any) -> bool:
        return self._is("≥", other)

    def __lt__(self, other: Any) -> bool:
        return self._is("<", other)

    def __le__(self, other: Any) -> bool:
        return self._is("≤", other)

    def _is(self, sign: str, other: Any) -> bool:
        """Whether it is known to be so; else it is taken not to be so, as an assumption."""
        other = as_whole(other)
        if isinstance(other, Size):
            return sign in "≥≤" if is_same(self, other) else self._taken_not_to_be(sign, other)
        if not isinstance(other, numbers.Real):
            return NotImplemented
        of_least = ORDERS[sign](self.least, other)
        if not math.isfinite(other):
            return ORDERS[sign](0, other)
        return of_least if of_least == (sign in ">≥") else self._taken_not_to_be(sign, other)

    def _taken_not_to_be(self, sign: str, other: Any) -> bool:
        assume("of sizes", Asked(sign, self, other))
        return False

    def __bool__(self) -> bool:
        return self != 0

    def __index__(self) -> int:
        raise NoRule(f"no rule for {self}, a size, where Python needs a number, as in range, np.ones and np.arange")

    __int__ = __float__ = __index__

    def __repr__(self) -> str:
        if self.name:
            return self.name
        return "·".join(map(bracketed, self.parts)) if self.way == "product" else "+".join(map(str, self.parts))


ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, ">": operator.gt, "≥": operator.ge, "<": operator.lt, "≤": operator.le,
}  # fmt: skip


class Asked(str):
    """That what is asked of sizes, to be in an order, is taken not to be so: in words, and with the sizes."""

    order: Callable[[Any, Any], bool]
    one: Size
    other: Any

    def __new__(cls, sign: str, one: Size, other: Any) -> "Asked":
        found = super().__new__(cls, f"{one} ≠ {other}" if sign == "=" else f"not {one} {sign} {other}")
        found.order, found.one, found.other = ORDERS[sign], one, other
        return found

    def __reduce__(self) -> tuple:
        """To another process or a file go the words alone."""
        return str, (str(self),)

    def difference(self, lengths: Mapping[str, int]) -> Any:
        """The one less the other, where letters are these lengths."""
        return length_at(self.one, among(lengths)) - length_at(self.other, among(lengths))

    def is_so(self, lengths: Mapping[str, int]) -> bool:
        """Whether what is asked is so there."""
        return self.order(self.difference(lengths), 0)

    def letters(self) -> set[str]:
        """The letters that it is about."""
        return letters_in(self.one) | letters_in(self.other)


def length_at(size: Any, length: Callable[[str], int]) -> Any:
    """The number that a size is, from the lengths of its letters."""
    if not isinstance(size, Size):
        return size
    if not size.made:
        return length(size.name)
    of, sizes = size.made
    return of([length_at(n, length) for n in sizes])


def among(lengths: Mapping[str, int]) -> Callable[[str], int]:
    """The length of a letter: of one that has none here, as a number is its own, and else 2."""
    return lambda name: lengths.get(name, int(name) if name.isdigit() else 2)


def letters_in(size: Any) -> set[str]:
    """The letters of which a size is made."""
    if not isinstance(size, Size):
        return set()
    return set().union(*map(letters_in, size.made[1])) if size.made else {size.name}


def as_whole(x: Any) -> Any:
    """A number that is whole as a Python integer; anything else as it is."""
    is_number = isinstance(x, numbers.Real) and math.isfinite(x)
    return int(x) if is_number and x == int(x) else x


def bracketed(size: Any, *others: str) -> str:
    """A size as it is written within another, so that no two are written alike."""
    text = str(size)
    return f"({text})" if any(sign in text for sign in (" ", "+", *others)) else text


def _computed(one: Any, sign: str, other: Any) -> Any:
    """A size of which no more is known than how it is computed."""
    if not all(isinstance(n, (Size, int)) for n in (one, other)):
        return NotImplemented
    if isinstance(other, int) and other == 0:
        return one
    if isinstance(one, int) and one == 0 and sign == "+":
        return other
    name = f"{one} {sign} {bracketed(other)}"
    if sign == "−":
        return Size(name, "difference", least=-math.inf, made=(lambda n: operator.sub(*n), (one, other)))
    return Size(name, "computed", least=least_of(one) + least_of(other), made=(sum, (one, other)))


def least_of(size: Size | int) -> float:
    """The least number that a size may be."""
    return size.least if isinstance(size, Size) else size


def sum_of(sizes: Sequence[Any]) -> Any:
    """The length of axes one behind the other."""
    every = [piece for size in sizes for piece in pieces(size) if not is_number(piece, 0)]
    if len(every) == 1:
        return every[0]
    return sum(every) if all(isinstance(piece, int) for piece in every) else Size("", "sum", every)


def as_number(size: Size | int) -> Expression:
    """A size as a number to compute with."""
    return size.number() if isinstance(size, Size) else number(size)


def factors(size: Size | int) -> tuple:
    """The sizes of which it is the product, in order."""
    if isinstance(size, Size) and size.way == "product":
        return size.parts
    return () if isinstance(size, int) and size == 1 else (size,)


def pieces(size: Size | int) -> tuple:
    """The sizes of which it is the sum, in order."""
    return size.parts if isinstance(size, Size) and size.way == "sum" else (size,)


def product_of(sizes: Sequence[Any]) -> Any:
    """The product, 1 of none."""
    every = [factor for size in sizes for factor in factors(size)]
    if len(every) < 2:
        return every[0] if every else 1
    if all(isinstance(factor, int) for factor in every):
        return every[0] * product_of(every[1:])
    return Size("", "product", every)


def is_same(one: Size | int, other: Size | int) -> bool:
    """Whether two sizes are the same whatever the letters stand for."""
    return not canonical(as_number(one) - as_number(other))


def is_alike(one: Any, other: Any) -> bool:
    """Whether two axes have the same size, split in the same way: the same indices."""
    return repr(one) == repr(other)


def indices(size: Size | int) -> Iterator[tuple[Index, list[tuple[str, str]]]]:
    """The indices of an axis, with the letters in them: one for a letter, one for each piece of a sum."""
    if isinstance(size, int):
        yield from ((k, []) for k in range(size))
    elif not size.parts:
        letter = fresh()
        yield letter, [(letter, size.name)]
    elif size.way == "product":
        for parts in itertools.product(*(list(indices(part)) for part in size.parts)):
            yield ("pair", *(i for i, _ in parts)), [pair for _, letters in parts for pair in letters]
    else:
        for k, part in enumerate(size.parts):
            yield from ((("part", k, i), letters) for i, letters in indices(part))


def places(shape: Sequence[Size | int]) -> Iterator[tuple[tuple[Index, ...], list[tuple[str, str]]]]:
    """The indices of an array, with the letters in them: more than one where axes are made of pieces."""
    for choice in itertools.product(*(list(indices(size)) for size in shape)):
        yield tuple(i for i, _ in choice), [pair for _, letters in choice for pair in letters]


# Axes


def is_one(size: Any) -> bool:
    """Whether an axis has length 1 as a number; a letter may be 1 and is not it."""
    return isinstance(size, int) and size == 1


def listed(axis: Any, ndim: int) -> list[int]:
    """Axes as a list of numbers from 0; all for None."""
    given = range(ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    if any(not -ndim <= a < ndim for a in given) or len({a % ndim for a in given}) < len(given):
        raise NoRule(f"axes {axis} of an array of {ndim} axes")
    return sorted(a % ndim for a in given)


def broadcast(*shapes: Shape) -> Shape:
    """The shape of what is computed of arrays of these shapes; a letter stands beside itself or 1."""
    found: list[Any] = []
    for n in range(1, max(map(len, shapes), default=0) + 1):
        wide = [s[-n] for s in shapes if len(s) >= n and not is_one(s[-n])]
        if not all(is_alike(size, wide[0]) for size in wide):
            raise NoRule(f"arrays of shapes {' and '.join(map(str, shapes))} do not fit")
        found.insert(0, wide[0] if wide else 1)
    return tuple(found)


def reshaped(shape: Shape, given: tuple) -> tuple[Shape, Reader]:
    """The shape that is asked for, in which the factors of axes stand in the same order."""
    wanted = list(given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given)
    own = [factor for size in shape for factor in factors(size)]
    for k, n in enumerate(wanted):
        if isinstance(n, int) and n == -1:
            wanted[k] = product_of(own) // product_of(wanted[:k] + wanted[k + 1 :])
    other = [factor for size in wanted for factor in factors(size)]
    runs = _matched(own, other)
    if runs is None:
        raise NoRule(f"reshape from {shape} to {tuple(wanted)}: axes are not split as they were joined")
    return tuple(wanted), lambda i: _joined(_renumbered(_split(i, wanted), runs), shape)


Run = tuple[list, list]  # factors of one shape, and those of another that are as many numbers


def _matched(own: list, other: list) -> list[Run] | None:
    """Factors that stand for each other: the same letter, or numbers with the same product."""
    runs: list[Run] = []
    left, right = list(own), list(other)
    while left and right:
        if is_alike(left[0], right[0]):
            runs.append(([left.pop(0)], [right.pop(0)]))
            continue
        one, two = [left.pop(0)], [right.pop(0)]
        while all(isinstance(n, int) for n in one + two) and math.prod(one) != math.prod(two) and (left or right):
            short, more = (one, left) if math.prod(one) < math.prod(two) else (two, right)
            if not more:
                return None
            short.append(more.pop(0))
        if not all(isinstance(n, int) for n in one + two) or math.prod(one) != math.prod(two):
            return None
        runs.append((one, two))
    return None if left or right else runs


def _renumbered(i: list[Index], runs: list[Run]) -> list[Index]:
    """Indices of the first shape's factors from those of the second's."""
    found: list[Index] = []
    rest = list(i)
    for own, other in runs:
        given, rest = rest[: len(other)], rest[len(other) :]
        if len(own) == len(other) == 1:
            found += given
            continue
        place = 0
        for k, n in zip(given, other, strict=True):
            place = place * n + k
        found += [int(k) for k in np.unravel_index(place, own)]
    return found


def read(shape: Shape, key: Any) -> tuple[Shape, Reader]:
    """The shape of array[key] for slices and new axes, and the indices in the array of those in the result."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if not any(k is Ellipsis for k in keys):
        keys.append(Ellipsis)
    dots = next(n for n, k in enumerate(keys) if k is Ellipsis)
    missing = len(shape) - sum(k is not None and k is not Ellipsis for k in keys)
    keys[dots : dots + 1] = [slice(None)] * missing
    kept: list[Any] = []
    readers: list[Callable[[tuple], Index]] = []
    for k in keys:
        if k is None:
            kept.append(1)
        elif isinstance(k, int):
            readers.append(_always(_entry(shape[len(readers)], k)))
        elif isinstance(k, slice):
            length, of = _slice(shape[len(readers)], k)
            readers.append(_along(len(kept), of))
            kept.append(length)
        else:
            raise NoRule(f"an index that is a {type(k).__name__}")
    return tuple(kept), lambda i: tuple(reader(i) for reader in readers)


def _always(k: Index) -> Callable[[tuple], Index]:
    return lambda i: k


def _along(axis: int, of: Callable[[Index], Index]) -> Callable[[tuple], Index]:
    return lambda i: of(i[axis])


def _split(i: Sequence[Index], shape: Sequence[Any]) -> list[Index]:
    """The indices of the factors of axes."""
    found: list[Index] = []
    for k, size in zip(i, shape, strict=True):
        count = len(factors(size))
        if count > 1 and not (isinstance(k, tuple) and k[0] == "pair"):
            raise NoRule("an index of a joined axis that is no pair")
        found += [] if not count else [k] if count == 1 else list(k[1:])
    return found


def _joined(i: list[Index], shape: Sequence[Any]) -> tuple[Index, ...]:
    """The indices of axes from those of their factors."""
    left, found = iter(i), []
    for size in shape:
        own = [next(left) for _ in factors(size)]
        found.append(0 if not own else own[0] if len(own) == 1 else ("pair", *own))
    return tuple(found)


def reversal(size: Any) -> Callable[[Index], Index]:
    """The index N − 1 − i of each i."""
    if isinstance(size, int):
        return lambda i: size - 1 - i
    if size.parts:
        raise NoRule(f"an axis of size {size} read backwards")
    return lambda i: moved("π", f"{REVERSED}{size}", i)


def counted(k: Index, what: str) -> int:
    """An index that must be a number, as each entry of the axis is another expression."""
    if not isinstance(k, int):
        raise NoRule(f"no rule for {what} at an unknown place")
    return k


def _entry(size: Any, k: int) -> Index:
    """One entry of an axis: of a letter the first or the last, as it is at least 1."""
    if isinstance(size, int):
        return k % size
    of = pieces(size)
    end = k < 0
    for n, piece in reversed([*enumerate(of)]) if end else enumerate(of):
        if k in (0, -1) and len(of) > 1:
            return ("part", n, _entry(piece, k))
        if k in (0, -1):
            parts = factors(piece)
            if len(parts) > 1:
                return ("pair", *(_entry(factor, k) for factor in parts))
            return k % piece if isinstance(piece, int) else 0 if k == 0 else reversal(piece)(0)
        if not isinstance(piece, int):
            break
        if -piece <= k < piece:
            return ("part", n, k % piece)
        k += piece if end else -piece
    raise NoRule(f"entry {k} of an axis of size {size}")


def _slice(size: Any, k: slice) -> tuple[Any, Callable[[Index], Index]]:
    """The length of a slice, and the index in the whole of an index in it."""
    start = None if is_number(k.start, 0) else k.start
    stop = None if isinstance(k.stop, Size) and is_same(k.stop, size) else k.stop
    step = None if is_number(k.step, 1) else k.step
    if start is stop is step is None:
        return size, lambda i: i
    if start is stop is None and is_number(step, -1):
        return size, reversal(size)
    if isinstance(size, int) and all(n is None or isinstance(n, int) for n in (start, stop, step)):
        inside = range(size)[slice(start, stop, step)]
        return len(inside), lambda i: inside[i]
    if isinstance(start, Size) and is_same(start, size):
        return 0, _none
    found = _of_pieces(size, start, stop) if step is None else None
    found = found or _of_product(size, start, stop, step)
    if (found is None and step is None and (start is None and is_number(stop, 1))) or (start == -1 and stop is None):
        found = 1, lambda i: _entry(size, 0 if start is None else -1)
    if found is None:
        raise NoRule(f"no rule for a slice {k.start}:{k.stop}:{k.step} of an axis of size {size}")
    return found


Slice = tuple[Any, Callable[[Index], Index]] | None


def _of_pieces(size: Any, start: Any, stop: Any) -> Slice:
    """Some pieces of an axis that is several, one behind the other."""
    of = pieces(size)
    first, last = _cut(of, start, 0), _cut(of, stop, len(of))
    if len(of) == 1 or first is None or last is None or first >= last:
        return None
    if last - first == 1:
        return of[first], lambda i: ("part", first, i)
    return sum_of(of[first:last]), lambda i: ("part", i[1] + first, i[2])


def _of_product(size: Any, start: Any, stop: Any, step: Any) -> Slice:
    """Of pairs (i, m) every one with the same m, of pairs (m, i) those with the same m."""
    of = factors(size)
    if len(of) != 2:
        return None
    if isinstance(of[1], int) and step == of[1] and stop is None:
        return of[0], lambda i: ("pair", i, start or 0)
    if isinstance(of[0], int) and step is None:
        cuts = [0, *(of[1] * m for m in range(1, of[0])), size]
        first = next((m for m, cut in enumerate(cuts) if is_same(cut, start or 0)), None)
        if first is not None and is_same(cuts[first + 1], stop or size):
            return of[1], lambda i: ("pair", first, i)
    return None


def _none(i: Index) -> Index:
    raise NoRule("an entry of an axis that has none")


def is_number(x: Any, number: int) -> bool:
    """Whether x is this number."""
    return isinstance(x, int) and x == number


def _cut(of: tuple, place: Any, default: int) -> int | None:
    """The number of pieces in front of a place, counted from the end if it is negative; None for one inside of one."""
    if place is None:
        return default
    counts = [sum_of(of[:n]) if n else 0 for n in range(len(of) + 1)]
    if isinstance(place, int) and place < 0:
        counts, place = [sum_of(of[n:]) if n < len(of) else 0 for n in range(len(of) + 1)], -place
    return next((n for n, count in enumerate(counts) if is_alike(count, place)), None)
