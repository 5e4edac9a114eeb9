"""Parts of equations that others form in another way: log Σ exp for log1p of the rest, 1 − σ(x) for σ(−x).

    @part
    def weights(x): …                                softmax, as every equation of attention takes it
    with_parts(equation, {weights: clamped})         the same equation with another softmax, its pullback included

So a known defect of one function says what every layer made of it gives.
"""

import functools
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from refnp.numbers.within import within

Parts = Mapping[Callable, Callable]
_others: ContextVar[Parts] = ContextVar("others", default=MappingProxyType({}))


def part(function: Callable) -> Callable:
    """A function that `with_parts` may exchange. Inside of what stands in its place it is itself."""

    @functools.wraps(function)
    def called(*arguments: Any, **options: Any) -> Any:
        others = _others.get()
        if called not in others:
            return function(*arguments, **options)
        own = {known: other for known, other in others.items() if known is not called}
        return with_parts(others[called], own)(*arguments, **options)

    return called


def with_parts(equation: Callable, parts: Parts, *, unless_others: bool = False) -> Callable:
    """The equation with other parts, and its pullback, if it returns one, likewise.

    These parts alone; with `unless_others` those beside, and before, that stand in their place already.
    """

    def call(function: Callable, *arguments: Any, **options: Any) -> Any:
        with within(_others, {**parts, **_others.get()} if unless_others else parts):
            return function(*arguments, **options)

    def with_others(*arguments: Any, **options: Any) -> Any:
        found = call(equation, *arguments, **options)
        if isinstance(found, tuple) and len(found) == 2 and callable(found[1]):
            return found[0], functools.partial(call, found[1])
        return found

    return with_others
