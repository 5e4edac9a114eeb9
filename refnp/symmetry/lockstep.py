"""A function computed twice in lockstep, on its input and on the moved input, so that depth costs nothing.

Every operation is computed on both. Where its two results are proved to be the same, or one to be the other with axes
moved as the group moves them, an array of new unknown numbers takes its place in both: what is proved of any numbers
holds for these. So the expressions stay as small as those of one operation, and a model of any depth is proved step by
step.
"""

import itertools
import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.numbers.indexed.arrays import Indexed, Indicator, Places, symbol
from refnp.numbers.indexed.expressions import Expression, assume
from refnp.numbers.indexed.functions import is_zero
from refnp.numbers.indexed.proving import same
from refnp.numbers.indexed.sizes import Size, is_alike, pieces, places
from refnp.numbers.indexed.terms import NoRule, assuming, spend
from refnp.numbers.kinds import Kind

Mover = Callable[[Indexed, int], Indexed]  # what the element of the group does along an axis that it moves
Way = tuple[Any, Mover | None]
_count = itertools.count()
OF_A_STEP = 3_000  # products formed for one way in which a result may follow from the other


class Both(Kind):
    """What is computed from the input, `plain`, and from the moved input, `moved`.

    `way` is the size of the axes that move, and how one of them is moved; None where none are.
    """

    __slots__ = ("moved", "plain", "way")
    of_others = True
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, plain: Any, moved: Any, way: Way):
        self.plain, self.moved, self.way = plain, moved, way

    @property
    def dtype(self) -> Any:  # type: ignore[override]
        """As its arrays have it."""
        return self.plain.dtype

    def _own(self, function: Any) -> Callable:
        return lambda *arguments, **options: step(function, arguments, options)

    def __getattr__(self, name: str) -> Any:
        """An attribute: of arrays both have theirs, of a method it is a step; in numbers, as of a shape, they agree."""
        found = getattr(self.plain, name)
        if name == "shape":
            return tuple(settled(n, m, self.way) for n, m in zip(found, self.moved.shape, strict=True))
        if isinstance(found, Kind):
            return step(lambda x: getattr(x, name), (self,), {})
        if callable(found):
            return lambda *arguments, **options: step(
                lambda x, *rest, **more: getattr(x, name)(*rest, **more), (self, *arguments), options
            )
        if repr(found) != repr(getattr(self.moved, name)):
            raise NoRule(f"{name} is {found} for the input and another for the moved input")
        return found

    def __getitem__(self, key: Any) -> Any:
        return step(operator.getitem, (self, key), {})

    def __iter__(self) -> Any:
        return (self[k] for k in range(len(self)))

    def __len__(self) -> int:
        if len(self.plain) != len(self.moved):
            raise NoRule("len of an array that is longer for the moved input; take its shape")
        return len(self.plain)

    def __bool__(self) -> bool:
        one, other = bool(self.plain), bool(self.moved)
        if one != other:
            raise TypeError("a branch that goes one way for the input and another for the moved input")
        return one

    def constant(self, number: Any) -> Any:
        return self.plain.constant(number)


class Lengths(Both):
    """The length of an axis, which is another for the moved input."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{self.plain}, or {self.moved} of the moved input"

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(repr(self))


def step(function: Callable, arguments: tuple, options: dict[str, Any]) -> Any:
    """One operation, on both."""
    pairs = list(_pairs((*arguments, *options.values())))
    one, other = (
        function(*_side(arguments, side), **dict(zip(options, _side(tuple(options.values()), side), strict=True)))
        for side in ("plain", "moved")
    )
    return settled(one, other, pairs[0].way)


def _pairs(values: Any) -> Any:
    for value in values:
        if isinstance(value, Both):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _pairs(value)
        elif isinstance(value, slice):
            yield from _pairs((value.start, value.stop, value.step))


def _side(value: Any, side: str) -> Any:
    if isinstance(value, Both):
        return getattr(value, side)
    if type(value) in (list, tuple):
        return type(value)(_side(one, side) for one in value)
    if isinstance(value, slice):
        return slice(*_side((value.start, value.stop, value.step), side))
    return value


def settled(one: Any, other: Any, way: Way) -> Any:
    """Two results: new unknown numbers in their place, where it is proved how one follows from the other."""
    if isinstance(one, (tuple, list)):
        return type(one)(settled(a, b, way) for a, b in zip(one, other, strict=True))
    if not isinstance(one, Kind):
        if not np.array_equal(one, other):
            raise TypeError("something is one for the input and another for the moved input")
        return one
    if isinstance(one, Size) and isinstance(other, Size):
        return one if is_alike(one, other) else Lengths(one, other, way)
    if not isinstance(one, Indexed) or isinstance(one, (Indicator, Places)) or one.seen is not None:
        return Both(one, other, way)
    size, _ = way
    moving = [k for k, n in enumerate(one.shape) if any(is_alike(piece, size) for piece in (n, *pieces(n)))]
    for axes in itertools.chain.from_iterable(itertools.combinations(moving, n) for n in range(len(moving), -1, -1)):
        with assuming() as own:
            own.most = OF_A_STEP
            proof = same(lambda axes=axes: _moved(one, axes, way), lambda: other)  # type: ignore[misc]
        spend(own.products)
        if proof:
            for assumption in proof.assumptions:
                assume("in a step", re.sub(r"\bh\d+", "h", assumption))  # h for any number on the way
            new = unknown_like(one)
            return Both(new, _moved(new, axes, way), way)
    return Both(one, other, way)


def unknown_like(x: Indexed) -> Indexed:
    """An array of new unknown numbers, with 0 in the pieces in which x has nothing else, as what a mask hides."""
    new = symbol(f"h{next(_count)}", *x.shape)
    if all(len(pieces(n)) == 1 for n in x.shape):
        return new
    piece = lambda i: tuple(k[1] if isinstance(k, tuple) and k[0] == "part" else None for k in i)
    zero = {piece(i) for i, _ in places(x.shape)} - {piece(i) for i, _ in places(x.shape) if not is_zero(x.at(i))}
    return Indexed(x.shape, lambda i: Expression() if piece(i) in zero else new.at(i)) if zero else new


def _moved(x: Indexed, axes: Any, way: Way) -> Any:
    for axis in axes:
        x = way[1](x, axis)  # type: ignore[misc]
    return x


def _operator(of: Callable, reflected: bool = False) -> Callable:
    """An operator as a step."""
    return (lambda x, y: step(of, (y, x), {})) if reflected else (lambda x, y: step(of, (x, y), {}))


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "matmul", "pow", "and_", "or_"):
    _of = getattr(operator, _name)
    setattr(Both, f"__{_name.strip('_')}__", _operator(_of))
    setattr(Both, f"__r{_name.strip('_')}__", _operator(_of, reflected=True))
for _name in ("gt", "ge", "lt", "le", "eq", "ne"):
    setattr(Both, f"__{_name}__", _operator(getattr(operator, _name)))
for _name in ("neg", "invert"):
    _of = getattr(operator, _name)
    setattr(Both, f"__{_name}__", lambda x, of=_of: step(of, (x,), {}))
