"""Arrays whose sizes are letters: functions from indices to expressions, on which pages are run.

    x = symbol("x", B, D)            an array of unknown real numbers
    softmax.page(x)[0].at(("b", "i"))    exp(x[b,i]) (Σ_j exp(x[b,j]))^-1

An array knows where its entries are −∞ (`seen` is 1 where they are not); what has no rule for −∞ refuses it. A
product knows its `factors`, by each of which another array is divided: (a b)^-1 = a^-1 b^-1 is not multiplied out. A
comparison gives a `Condition`, an array of numbers that are 0 or 1 and otherwise unknown: what is proved holds
whichever they are. NumPy's functions for these arrays stand in operations.py.
"""

import contextlib
import contextvars
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from refnp.numbers.indexed import sizes as axes
from refnp.numbers.indexed.expressions import (
    Expression,
    assume,
    atom,
    function,
    is_count,
    is_whole,
    number,
    power,
    substituted,
)
from refnp.numbers.indexed.functions import largest_at, without_scale
from refnp.numbers.indexed.indices import abstracted, index
from refnp.numbers.indexed.sizes import Size, as_number, indices, is_number, places, product_of
from refnp.numbers.indexed.terms import Assumptions, Index, NoRule, also, assuming, fresh
from refnp.numbers.within import within
from refnp.numbers.words import Constant, Kind

At = Callable[[tuple], Expression]


_formed = contextvars.ContextVar[dict[str, tuple] | None]("formed", default=None)


def forming() -> contextlib.AbstractContextManager[dict[str, tuple]]:
    """Within this block the shapes of all arrays that are made are noted, by their text."""
    return within(_formed, {})


class Indexed(Kind):
    """An array: its shape, of sizes and whole numbers, and the expression at given indices."""

    __slots__ = ("_at", "_known", "factors", "seen", "shape")
    __hash__ = None  # type: ignore[assignment]
    __add__: Any  # operations.py gives what stands beside an operator
    __radd__: Any
    __sub__: Any
    __rsub__: Any
    __mul__: Any
    __rmul__: Any
    __truediv__: Any
    __rtruediv__: Any
    __matmul__: Any
    __rmatmul__: Any
    __neg__: Any

    def __init__(self, shape: Sequence[Any], at: At, seen: "Condition | None" = None, factors: tuple = ()):
        self.shape, self._at, self.seen, self.factors = tuple(shape), at, seen, factors
        self._known: dict[str, tuple[list[str], Expression, Assumptions]] = {}
        if (formed := _formed.get()) is not None:
            formed[repr(self.shape)] = self.shape

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: product_of(self.shape))
    mT = property(lambda self: self.swapaxes(-1, -2))
    T = property(lambda self: self.transpose())

    @property
    def real(self) -> "Real":
        """What decides, and is not computed with."""
        return Real(self)

    def at(self, indices: Sequence[Index]) -> Expression:
        """The expression at these indices; it is worked out once for letters, which are then replaced."""
        leaves: list[Index] = []

        def skeleton(i: Index) -> Index:
            if isinstance(i, tuple) and i[0] in ("pair", "part"):
                first = 1 if i[0] == "pair" else 2
                return (*i[:first], *map(skeleton, i[first:]))
            if isinstance(i, int):
                return i
            leaves.append(i)
            return f"t{len(leaves)}"

        form = tuple(map(skeleton, indices))
        if repr(form) not in self._known:
            names = [fresh() for _ in leaves]
            with assuming() as own:
                found = self._at(_filled(form, names))
            self._known[repr(form)] = names, found, own
        names, found, own = self._known[repr(form)]
        also(own)
        return substituted(found, dict(zip(names, leaves, strict=True))) if names else found

    def constant(self, number: Constant) -> Any:
        return lift(number)

    def like(self, x: Any) -> "Indexed":
        """As a constant has it."""
        return self

    def astype(self, dtype: Any, **_: Any) -> "Indexed":
        """Real numbers have no type; of booleans, and of places, whole numbers are the same."""
        kind = np.dtype(dtype).kind
        if kind == "b":
            return truth(self)
        if kind in "iu" and not self.is_whole():
            raise NoRule("real numbers made whole")
        return Indicator(self.shape, self.at) if isinstance(self, Condition) else self

    def is_whole(self) -> bool:
        """Whether its numbers are known to be whole."""
        every = (self.at(i) for i, _ in places(self.shape))
        return isinstance(self, Places) or all(is_whole(e) or is_count(e) for e in every)

    def copy(self) -> "Indexed":
        """Nothing changes an array."""
        return self

    def __iter__(self) -> Iterator["Indexed"]:
        return (self[k] for k in range(len(self)))

    def __len__(self) -> int:
        if not isinstance(self.shape[0], int):
            raise NoRule(f"len of an array of {self.shape[0]} rows; take its shape")
        return self.shape[0]

    def __bool__(self) -> bool:
        """Of a number that is known. Of one condition, or its opposite, it is taken that it holds, as an assumption."""
        known = self.at(()) if self.shape == () and self.seen is None else None
        if known is not None and set(known) <= {((), ())}:
            return bool(known)
        if known is not None and isinstance(self, Condition) and len(known - number(len(known) - 1)) == 1:
            assume("= 1", known)
            return True
        raise NoRule("a branch that hangs on the value of an array")

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise NoRule("numbers are asked of an array of unknown ones")

    __int__ = __index__ = __float__ = __complex__ = __array__

    def __pow__(self, p: Any) -> "Indexed":
        if isinstance(p, Indexed):
            raise NoRule("a power that is an array")
        if isinstance(p, int) and p >= 1:
            return Indexed(self.shape, lambda i: power(finite(self).at(i), p), None, (self,) * p)
        return Indexed(self.shape, lambda i: power(finite(self).at(i), Fraction(p)))

    def swapaxes(self, one: int, other: int) -> "Indexed":
        order = list(range(self.ndim))
        order[one], order[other] = order[other], order[one]
        return self.transpose(order)

    def transpose(self, *axes: Any) -> "Indexed":
        given = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
        order = [a % self.ndim for a in given] or list(reversed(range(self.ndim)))
        return self.moved([self.shape[k] for k in order], lambda i: tuple(i[order.index(k)] for k in range(self.ndim)))

    def moved(self, shape: Sequence[Any], of: Callable[[tuple], tuple]) -> Any:
        """The array whose entry at i is that of this one at of(i)."""
        seen = None if self.seen is None else self.seen.moved(shape, of)
        return type(self)(shape, lambda i: self.at(of(i)), seen)

    def sum(self, axis: Any = None, keepdims: bool = False) -> "Indexed":
        over = axes.listed(axis, self.ndim)
        kept = [k for k in range(self.ndim) if keepdims or k not in over]
        x = finite(self)

        def at(i: tuple) -> Expression:
            found = Expression()
            for j, letters in places([self.shape[k] for k in over]):
                index = dict(zip(kept, i, strict=True)) | dict(zip(over, j, strict=True))
                found = found + x.at([index[k] for k in range(self.ndim)]).summed(letters)
            return found

        return Indexed([1 if k in over else self.shape[k] for k in kept], at)

    def mean(self, axis: Any = None, keepdims: bool = False) -> "Indexed":
        count = product_of([self.shape[k] for k in axes.listed(axis, self.ndim)])
        return self.sum(axis, keepdims) / count

    def max(self, axis: Any = None, keepdims: bool = False, initial: Any = None) -> "Indexed":
        """The entry at the place of the largest."""
        if initial not in (None, -np.inf):
            raise NoRule("max with a number beside the entries")
        over = axes.listed(axis, self.ndim)
        if len(over) > 1:
            front = [k for k in range(self.ndim) if k not in over]
            shape = [self.shape[k] for k in front]
            as_one = self.transpose([*front, *over]).reshape(*shape, product_of([self.shape[k] for k in over]))
            kept = [1 if k in over else n for k, n in enumerate(self.shape)]
            return as_one.max(-1).reshape(*kept) if keepdims else as_one.max(-1)
        axis = over[0]
        parts = self.parts(axis)
        if len(parts) > 1 or isinstance(self.shape[axis], int):
            largest = functools.reduce(larger, (largest_of_part(x, axis) for x in parts))[0]
            return largest if keepdims else largest.squeeze(axis)
        last = self.swapaxes(axis, -1)
        top = place_of(last)
        rows = last.ndim - 1
        found = Indexed((*last.shape[:-1], 1), lambda i: last.at((*i[:rows], top(i[:rows])))).swapaxes(axis, -1)
        return found if keepdims else found.squeeze(axis)

    def parts(self, axis: int) -> "list[Indexed]":
        """What stands in each piece of an axis, or at each of its places if its length is a number."""
        size, before = self.shape[axis], (slice(None),) * axis
        if isinstance(size, int):
            return [self[(*before, slice(k, k + 1))] for k in range(size)]
        pieces = axes.pieces(size)
        shapes = [(*self.shape[:axis], piece, *self.shape[axis + 1 :]) for piece in pieces]
        if len(pieces) == 1:
            return [self]
        into = lambda n: lambda i: (*i[:axis], ("part", n, i[axis]), *i[axis + 1 :])
        return [self.moved(shape, into(n)) for n, shape in enumerate(shapes)]

    def squeeze(self, axis: Any = None) -> "Indexed":
        ones = [k for k, n in enumerate(self.shape) if axes.is_one(n)]
        gone = ones if axis is None else axes.listed(axis, self.ndim)
        if not set(gone) <= set(ones):
            raise NoRule("squeeze of an axis that may be longer than 1")
        kept = [k for k in range(self.ndim) if k not in gone]
        of = lambda i: tuple(dict(zip(kept, i, strict=True)).get(k, 0) for k in range(self.ndim))
        return self.moved([self.shape[k] for k in kept], of)

    def cumsum(self, axis: Any = -1) -> "Indexed":
        """Σ_j [j ≤ i] x_j."""
        k = axis % self.ndim
        own, every = every_place(self.shape[k]), every_place(self.shape[k])
        upto = ~(own[None, :] > every[:, None])  # (i, j)
        x = finite(self).swapaxes(k, -1)
        return (x[..., None, :] * upto).sum(-1).swapaxes(k, -1)

    def flip(self, axis: Any = None) -> "Indexed":
        """Read backwards."""
        over = axes.listed(axis, self.ndim)
        readers: list[Any] = [axes.reversal(n) if k in over else (lambda j: j) for k, n in enumerate(self.shape)]
        return self.moved(self.shape, lambda i: tuple(back(j) for back, j in zip(readers, i, strict=True)))

    def reshape(self, *shape: Any) -> "Indexed":
        """Axes that are products may be split, and axes that stand beside each other made one."""
        return self.moved(*axes.reshaped(self.shape, shape))

    def __getitem__(self, key: Any) -> Any:
        if any(isinstance(k, Indexed) for k in (key if isinstance(key, tuple) else (key,))):
            return self._read_places(key if isinstance(key, tuple) else (key,))
        return self.moved(*axes.read(self.shape, key))

    def _read_places(self, key: tuple) -> Any:
        """x[…, p, q]: the entries at places, which stand together in arrays p, q … of their own."""
        if not any(k is Ellipsis for k in key):
            key = (*key, Ellipsis)
        dots = next(n for n, k in enumerate(key) if k is Ellipsis)
        key = (*key[:dots], *[slice(None)] * (self.ndim - len(key) + 1), *key[dots + 1 :])
        at = [n for n, k in enumerate(key) if isinstance(k, Indexed)]
        first, last = at[0], at[-1] + 1
        if any(not isinstance(k, Places) and k != slice(None) for k in key) or len(at) < last - first:
            raise NoRule("no rule for an index of places and other things")
        known = [of_places(k, n) for k, n in zip(key[first:last], self.shape[first:last], strict=True)]
        own = axes.broadcast(*(k.shape for k in known))

        def read(i: tuple) -> tuple:
            at = i[first : first + len(own)]
            return *i[:first], *(k.place(spread_index(k, at)) for k in known), *i[first + len(own) :]

        return self.moved((*self.shape[:first], *own, *self.shape[last:]), read)


class Indicator(Indexed):
    """An array of numbers that are 0 or 1."""

    __slots__ = ()


class Condition(Indicator):
    """An array of booleans."""

    __slots__ = ()
    dtype = np.dtype(bool)

    def __and__(self, other: Any) -> "Condition":
        other = boolean(other)
        shape = axes.broadcast(self.shape, other.shape)
        return Condition(shape, lambda i: spread(self, i) * spread(other, i))

    def __or__(self, other: Any) -> "Condition":
        return ~(~self & ~boolean(other))

    def __invert__(self) -> "Condition":
        return condition(1 - self)

    __rand__, __ror__ = __and__, __or__

    def any(self, axis: Any = None, keepdims: bool = False) -> "Condition":
        """Whether one of them is 1: whether their number is above 0."""
        return Real(self.sum(axis, keepdims)) > 0

    def all(self, axis: Any = None, keepdims: bool = False) -> "Condition":
        """Whether none of them is 0."""
        return ~((~self).any(axis, keepdims))


class Real(Kind):
    """The real part of an array, which decides: it is compared, and its largest is found, but nothing is computed."""

    __slots__ = ("x",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, x: Indexed):
        self.x = x

    shape = property(lambda self: self.x.shape)
    ndim = property(lambda self: self.x.ndim)
    real = property(lambda self: self)

    def __add__(self, other: "Real") -> "Real":
        return Real(self.x + other.x)

    def max(self, axis: Any = None, keepdims: bool = False, initial: Any = None) -> "Real":
        return Real(self.x.max(axis, keepdims, initial))

    def __gt__(self, other: Any) -> Condition:
        return compared(self.x, other)

    def __lt__(self, other: Any) -> Condition:
        return compared(other, self.x)

    def __ge__(self, other: Any) -> Condition:
        return ~compared(other, self.x)

    def __le__(self, other: Any) -> Condition:
        return ~compared(self.x, other)

    def __eq__(self, other: Any) -> Condition:  # type: ignore[override]
        return equals(self.x, other)

    def __ne__(self, other: Any) -> Condition:  # type: ignore[override]
        return ~equals(self.x, other)

    def __getattr__(self, name: str) -> Any:
        raise NoRule(f"{name} of a real part, which only decides")


class Places(Indexed):
    """Integers: places on an axis of `length`, as tokens are; some of them may be none, where windows reach beyond it.

    `place` is the index at given indices, `there` 1 where there is one. Of the rest nothing is known.
    """

    __slots__ = ("_of", "length", "name", "some")
    dtype = np.dtype(np.intp)

    def __init__(self, name: str, shape: Sequence[Any], length: Any, *, some: bool = False, of: Any = None):
        super().__init__(shape, self._number)
        self.name, self.length, self.some = name, length, some
        self._of = of or (lambda i: i)

    def place(self, i: Sequence[Index]) -> Index:
        """The index that stands at these."""
        if self.name == EVERY:
            return self._of(tuple(i))[-1]
        (axis, letters), *others = indices(self.length)
        if others:
            raise NoRule(f"places on an axis of size {self.length}")
        return index(
            axis, {letter: ("at", f"{self.name} {k}", *self._of(tuple(i))) for k, (letter, _) in enumerate(letters)}
        )

    def _number(self, i: tuple) -> Expression:
        if self.some:
            raise NoRule("the number of a place where there may be none")
        return atom("x", f"#{self.length}", (self.place(i),))

    def there(self, i: Sequence[Index]) -> Expression:
        """1 where there is a place."""
        return atom("m", f"{self.name} is one", tuple(self._of(tuple(i)))) if self.some else number(1)

    def moved(self, shape: Sequence[Any], of: Callable[[tuple], tuple]) -> "Places":
        """The places that stand at of(i)."""
        return Places(self.name, shape, self.length, some=self.some, of=lambda i: self._of(of(i)))

    def __add__(self, other: Any) -> Any:
        return self if is_number(other, 0) else super().__add__(other)

    def __mod__(self, length: Any) -> "Places":
        return of_places(self, length)

    def __ge__(self, least: Any) -> Any:
        return Condition(self.shape, self.there) if self.some and is_number(least, 0) else super().__ge__(least)  # type: ignore[misc]

    def __gt__(self, other: Any) -> Any:
        if not self.some:
            return super().__gt__(other)  # type: ignore[misc]
        return Condition(self.shape, lambda i: atom("m", f"{self.name} > {other}", tuple(self._of(tuple(i)))))

    def __ne__(self, other: Any) -> Any:
        return Condition(self.shape, lambda i: number(1)) if other is None else super().__ne__(other)


EVERY = "every"  # of the places that stand on an axis in order


def every_place(n: Any) -> Places:
    """0, 1, 2 … on an axis of that length."""
    return Places(EVERY, (n,), n)


def of_places(places: Any, length: Any) -> Places:
    """The places, which must be those of an axis of that length."""
    if not isinstance(places, Places) or not axes.is_alike(places.length, length):
        own = f"places on an axis of {places.length}" if isinstance(places, Places) else "numbers that are no places"
        raise NoRule(f"no rule for {own} as an index of an axis of {length}")
    return places


def number_of(x: Any) -> Indexed:
    """What is compared."""
    return x.x if isinstance(x, Real) else lift(x)


def compared(x: Any, y: Any) -> Condition:
    """[x > y], where neither is −∞; an unknown 0 or 1 for each entry. Every number is between −∞ and ∞."""
    for one, other, sign in ((x, y, 1), (y, x, -1)):
        if isinstance(one, float) and math.isinf(one):
            return condition(finite(number_of(other)) * 0 + int(one * sign > 0))
    difference = number_of(x) - number_of(y)
    return Condition(difference.shape, lambda i: function(">0", difference.at(i)))


def equals(x: Any, y: Any) -> Condition:
    """[x = y]: where they are −∞ that is known; else it is taken that they differ, unless they are the same."""
    for one, other in ((x, y), (y, x)):
        if isinstance(one, float) and one == math.inf:
            return condition(finite(number_of(other)) * 0)
    x, y = number_of(x), number_of(y)
    for one, other in ((x, y), (y, x)):
        if one.seen is not None and one.shape == () and not one.seen.at(()):
            return ~other.seen if other.seen is not None else condition(finite(other) * 0)
    difference = finite(x) - finite(y)
    return Condition(difference.shape, lambda i: function("=0", difference.at(i)))


def condition(x: Any) -> Condition:
    """An array of which it is known that its numbers are 0 or 1."""
    x = lift(x)
    return x if isinstance(x, Condition) else Condition(x.shape, x.at)


def boolean(x: Any) -> Condition:
    """An array of booleans; NoRule for one of numbers, which have bits."""
    x = lift(x)
    if not isinstance(x, Condition):
        raise NoRule("bits of numbers")
    return x


def truth(x: Any) -> Condition:
    """Which entries are not 0."""
    x = lift(x)
    return x if isinstance(x, Condition) else ~equals(x, 0)


def finite(x: Indexed) -> Indexed:
    """The array, of which no entry may be −∞."""
    if x.seen is not None:
        raise NoRule("an entry may be −∞")
    return x


def place_of(x: Indexed) -> Callable[[Sequence[Index]], Index]:
    """Where the largest of each row stands, from the indices of the row; of those that are not −∞."""
    if not isinstance(x.shape[-1], Size) or len(axes.pieces(x.shape[-1])) > 1:
        raise NoRule(f"the largest along an axis of size {x.shape[-1]}")
    if x.seen is not None:
        assume("not all −∞", "no row is nothing but −∞")
    of = measure(x)

    def top(row: Sequence[Index]) -> Index:
        (axis, letters), *_ = indices(x.shape[-1])
        return largest_at(axis, letters, of.at((*row, axis)))

    return top


def spread(x: Indexed, i: tuple) -> Expression:
    """The entry of an array at the indices of one that it is broadcast to."""
    return x.at(spread_index(x, i))


def spread_index(x: Indexed, i: tuple) -> list[Index]:
    """The indices in an array of those in one that it is broadcast to."""
    return [0 if axes.is_one(n) else k for n, k in zip(x.shape, i[len(i) - x.ndim :], strict=True)]


def measure(x: Indexed) -> Indexed:
    """What is larger where x is: itself, or exp(x) where an entry may be −∞, which is 0 there."""
    return x if x.seen is None else x.seen * Indexed(x.shape, lambda i: function("exp", x.at(i)))


def largest_of_part(x: Indexed, axis: int) -> tuple[Indexed, Indexed]:
    """The largest along an axis, where that is no −∞, and its measure."""
    if not axes.is_one(x.shape[axis]):
        return x.max(axis, keepdims=True), measure(x).max(axis, keepdims=True)
    if x.seen is not None:
        assume("not all −∞", "no row is nothing but −∞")
    return Indexed(x.shape, x.at), measure(x)


def is_larger(x: Indexed, y: Indexed) -> Condition:
    """[x > y] of two measures, as one unknown 0 or 1, whatever conditions there are in them."""
    difference = finite(x) - finite(y)
    assume("one largest", "the largest elements of two parts of a row differ")

    def at(i: tuple) -> Expression:
        name, leaves = abstracted("above 0", without_scale(difference.at(i)))
        return atom("m", name, tuple(leaves))

    return Condition(difference.shape, at)


def larger(one: tuple, other: tuple) -> tuple[Indexed, Indexed]:
    """Of two numbers with their measures the one that has the larger."""
    first = is_larger(one[1], other[1])
    return one[0] * first + other[0] * ~first, one[1] * first + other[1] * ~first


def symbol(name: str, *shape: Any) -> Indexed:
    """An array of unknown real numbers."""
    return Indexed(shape, lambda i: atom("x", name, tuple(i)))


def mask(name: str, *shape: Any) -> Condition:
    """An array of unknown booleans."""
    return Condition(shape, lambda i: atom("m", name, tuple(i)))


def any_numbers() -> contextlib.AbstractContextManager[Any]:
    """Within this block arrays of floats stand for any of their shape, equal ones for the same.

    Lengths of LETTERED or more are letters, too.
    """
    return within(_fixed, {})


_fixed = contextvars.ContextVar[dict | None]("fixed", default=None)  # the names of such arrays
LETTERED = 4


def lift(x: Any) -> Indexed:
    """Numbers, sizes, constants and small arrays as indexed ones."""
    if isinstance(x, Indexed):
        return x
    if isinstance(x, Real):
        raise NoRule("a real part only decides, and is not computed with")
    if isinstance(x, Constant):
        return lift(x.of(Mathematics))
    if isinstance(x, Size):
        return Indexed((), lambda i: as_number(x))
    if isinstance(x, np.ndarray) and x.ndim:
        fixed = _fixed.get()
        if fixed is not None and x.dtype.kind == "f" and max(x.shape) >= LETTERED and np.isfinite(x).all():
            name = fixed.setdefault((x.shape, x.tobytes()), f"array {len(fixed) + 1}")
            return symbol(name, *(Size(str(n)) if n >= LETTERED else n for n in x.shape))
        made = Condition if x.dtype == bool else Indexed
        return made(x.shape, lambda i: lift(x[i].item()).at(()))
    if isinstance(x, (bool, np.bool)):
        return Condition((), lambda i: number(int(x)))
    if isinstance(x, float) and x == -math.inf:
        return Indexed((), lambda i: Expression(), Condition((), lambda i: Expression()))
    if isinstance(x, (int, float, Fraction, np.generic, np.ndarray)) and math.isfinite(x):
        plain = x.item() if isinstance(x, (np.generic, np.ndarray)) else x
        value = Fraction(*plain.as_integer_ratio()) if isinstance(plain, np.longdouble) else Fraction(plain)
        return Indexed((), lambda i: number(value))
    raise NoRule(f"{x!r} is no number of an expression")


class Mathematics:
    """What a formula may ask of constants."""

    pi = Indexed((), lambda i: atom("c", "π"))
    number = staticmethod(lift)

    @staticmethod
    def sqrt(x: Indexed) -> Indexed:
        return x ** Fraction(1, 2)

    @staticmethod
    def log(x: Indexed) -> Indexed:
        return Indexed((), lambda i: function("log", x.at(i)))


def _filled(form: Any, names: list[str]) -> Any:
    """The form of indices with names for its letters, in order."""
    left = iter(names)

    def of(i: Any) -> Any:
        return tuple(map(of, i)) if isinstance(i, tuple) else next(left) if str(i)[:1] == "t" else i

    return of(form)
