"""Which operations a page is made of: those that run within `noting()` are noted, with what they took and gave."""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class Note(NamedTuple):
    """An operation of NumPy or a word, its arguments and its result."""

    function: Any
    arguments: tuple
    result: Any


_notes = contextvars.ContextVar[list[Note] | None]("notes", default=None)


@contextlib.contextmanager
def noting() -> Iterator[list[Note]]:
    """Within this block operations are noted, in their order; what one is made of is part of it."""
    notes: list[Note] = []
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


def noted(function: Any, of: Callable) -> Callable:
    """What a function is for these arrays, which notes its calls."""

    @functools.wraps(of)
    def computed(*arguments: Any, **options: Any) -> Any:
        notes = _notes.get()
        if notes is None:
            return of(*arguments, **options)
        token = _notes.set(None)
        try:
            result = of(*arguments, **options)
        finally:
            _notes.reset(token)
        notes.append(Note(function, arguments, result))
        return result

    return computed
