"""What holds within a block of a program: a context variable has a value, operations are noted.

with noting() as notes:          the operations of NumPy, and the words, that pages are made of, in their order
    softmax.page(x)
"""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


@contextlib.contextmanager
def within(variable: contextvars.ContextVar[Any], value: T) -> Iterator[T]:
    """Within this block, which is given the value too, the variable has it."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


class Note(NamedTuple):
    """An operation of NumPy or a word, its arguments and its result."""

    function: Any
    arguments: tuple
    result: Any


_notes = contextvars.ContextVar[list[Note] | None]("notes", default=None)


def noting() -> contextlib.AbstractContextManager[list[Note]]:
    """Within this block operations are noted, in their order; what one is made of is part of it."""
    return within(_notes, list[Note]())


def noted(function: Any, of: Callable) -> Callable:
    """What a function is for arrays of a kind, which notes its calls."""

    @functools.wraps(of)
    def computed(*arguments: Any, **options: Any) -> Any:
        notes = _notes.get()
        if notes is None:
            return of(*arguments, **options)
        with within(_notes, None):
            result = of(*arguments, **options)
        notes.append(Note(function, arguments, result))
        return result

    return computed
