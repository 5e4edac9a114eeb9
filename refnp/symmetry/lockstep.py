"""A function computed twice in lockstep, on its input and on the moved input, so that depth costs nothing.

Every operation is computed on both. Where its two results are proved to be the same, or one to be the other with axes
in another order, an array of new unknown numbers takes its place in both: what is proved of any numbers holds for
these. So the expressions stay as small as those of one operation, and a model of any depth is proved step by step.
"""

import itertools
import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.numbers.indexed.arrays import Condition, Indexed, mask, symbol
from refnp.numbers.indexed.expressions import assume
from refnp.numbers.indexed.proving import permuted, same
from refnp.numbers.kinds import Kind

NAME = "π"  # of the bijection
_count = itertools.count()


class Both(Kind):
    """What is computed from the input, `plain`, and from the moved input, `moved`; `axis` is the size that moves."""

    __slots__ = ("axis", "moved", "plain")
    of_others = True
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, plain: Any, moved: Any, axis: str):
        self.plain, self.moved, self.axis = plain, moved, axis

    def _own(self, function: Any) -> Callable:
        return lambda *arguments, **options: step(function, arguments, options)

    def __getattr__(self, name: str) -> Any:
        """An attribute: of arrays both have theirs, of a method it is a step."""
        found = getattr(self.plain, name)
        if isinstance(found, Kind):
            return step(lambda x: getattr(x, name), (self,), {})
        if callable(found):
            return lambda *arguments, **options: step(
                lambda x, *rest, **more: getattr(x, name)(*rest, **more), (self, *arguments), options
            )
        return found

    def __getitem__(self, key: Any) -> Any:
        return step(operator.getitem, (self, key), {})

    def __len__(self) -> int:
        return len(self.plain)

    def __bool__(self) -> bool:
        one, other = bool(self.plain), bool(self.moved)
        if one != other:
            raise TypeError("a branch that goes one way for the input and another for the moved input")
        return one

    def constant(self, number: Any) -> Any:
        return self.plain.constant(number)


def step(function: Callable, arguments: tuple, options: dict[str, Any]) -> Any:
    """One operation, on both."""
    pairs = list(_pairs((*arguments, *options.values())))
    one, other = (
        function(*_side(arguments, side), **dict(zip(options, _side(tuple(options.values()), side), strict=True)))
        for side in ("plain", "moved")
    )
    return settled(one, other, pairs[0].axis)


def _pairs(values: Any) -> Any:
    for value in values:
        if isinstance(value, Both):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _pairs(value)


def _side(value: Any, side: str) -> Any:
    if isinstance(value, Both):
        return getattr(value, side)
    if type(value) in (list, tuple):
        return type(value)(_side(one, side) for one in value)
    return value


def settled(one: Any, other: Any, axis: str) -> Any:
    """Two results: new unknown numbers in their place, where it is proved how one follows from the other."""
    if isinstance(one, tuple):
        return tuple(settled(a, b, axis) for a, b in zip(one, other, strict=True))
    if not isinstance(one, Kind):
        if not np.array_equal(one, other):
            raise TypeError("something is one for the input and another for the moved input")
        return one
    if not isinstance(one, Indexed):
        return Both(one, other, axis)
    if one.seen is not None:
        return Both(one, other, axis)
    moving = [k for k, size in enumerate(one.shape) if repr(size) == axis]
    for axes in itertools.chain.from_iterable(itertools.combinations(moving, n) for n in range(len(moving), -1, -1)):
        proof = same(lambda axes=axes: _moved(one, axes), lambda: other)  # type: ignore[misc]
        if proof:
            for assumption in proof.assumptions:
                assume("in a step", re.sub(r"\bh\d+", "h", assumption))  # h for any number on the way
            made = mask if isinstance(one, Condition) else symbol
            new = made(f"h{next(_count)}", *one.shape)
            return Both(new, _moved(new, axes), axis)
    return Both(one, other, axis)


def _moved(x: Indexed, axes: Any) -> Any:
    for axis in axes:
        x = permuted(x, axis, NAME)
    return x


def _operator(of: Callable, reflected: bool = False) -> Callable:
    """An operator as a step."""
    return (lambda x, y: step(of, (y, x), {})) if reflected else (lambda x, y: step(of, (x, y), {}))


for _name in ("add", "sub", "mul", "truediv", "matmul", "pow", "and_", "or_"):
    _of = getattr(operator, _name)
    setattr(Both, f"__{_name.strip('_')}__", _operator(_of))
    setattr(Both, f"__r{_name.strip('_')}__", _operator(_of, reflected=True))
for _name in ("gt", "ge", "lt", "le", "eq", "ne"):
    setattr(Both, f"__{_name}__", _operator(getattr(operator, _name)))
for _name in ("neg", "invert"):
    _of = getattr(operator, _name)
    setattr(Both, f"__{_name}__", lambda x, of=_of: step(of, (x,), {}))
