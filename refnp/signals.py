"""Ctrl-C, and what schedulers and lost connections send: SIGTERM and SIGHUP.

By default the last two end a process where it stands, with nothing cleaned up. Within `interruptible` a training goes
on to the end of its step; within `ending` they end a block as an exception does.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

SENT = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]  # Windows has no SIGHUP


class Ended(BaseException):
    """A signal ends the process, which cleans up on the way out."""


def end(number: int, frame: Any) -> None:
    """Raise Ended; the second signal ends the process at once."""
    signal.signal(number, signal.SIG_DFL)
    raise Ended(number)


def is_main() -> bool:
    """Whether this is the thread that signals come to."""
    return threading.current_thread() is threading.main_thread()


def as_they_are(*meanings: Any) -> dict[int, Any]:
    """What SIGTERM and SIGHUP do now, those that do one of these; none where this is not the main thread."""
    return {number: now for number in SENT if is_main() and (now := signal.getsignal(number)) in meanings}


@contextlib.contextmanager
def ending() -> Iterator[None]:
    """Within this block SIGTERM and SIGHUP raise an exception; at its end the process ends by the signal that came.

    What waits for the end of a block then happens: files that are half written and programs that run do not stay. A
    signal that does not end the process by default stays as it is, and so do all in another thread than the main one.
    """
    before = as_they_are(signal.SIG_DFL)
    for number in before:
        signal.signal(number, end)
    try:
        yield
    except Ended as ended:
        if ended.args[0] in before:
            signal.raise_signal(ended.args[0])
        raise
    finally:
        for number, meaning in before.items():
            signal.signal(number, meaning)


@contextlib.contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether Ctrl-C was pressed, or SIGTERM or SIGHUP came; within, the first does no more.

    So a run stops between two steps: anywhere else half of the parameters would have moved. The second Ctrl-C raises
    KeyboardInterrupt at once, and the second signal ends the process. At the end of the block a signal that came does
    what it would have done. A signal that does not mean what it does by default stays as it is, and so do all where
    this is not the main thread.
    """
    came: list[int] = []
    before = as_they_are(signal.SIG_DFL, end)
    if is_main() and signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        before[signal.SIGINT] = signal.default_int_handler

    def note(number: int, frame: Any) -> None:
        came.append(number)
        if len(came) > 1:
            again(number)

    def again(number: int) -> None:
        signal.signal(number, before[number])
        signal.raise_signal(number)

    for number in before:
        signal.signal(number, note)
    try:
        yield lambda: bool(came)
    finally:
        for number, meaning in before.items():
            signal.signal(number, meaning)
        if came and came[0] != signal.SIGINT:
            again(came[0])
