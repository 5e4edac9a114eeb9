"""How long causes are looked for: seconds of computing, after which, or after Ctrl-C, what was found is kept."""

import contextlib
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field

SECONDS = 20.0  # of computing, unless told
OF_SEARCH = 0.75  # of them at most for mistakes, and the rest to see what the function does


class OutOfTime(KeyboardInterrupt):
    """The seconds are over; like Ctrl-C it is no error of what is computed meanwhile."""


@dataclass
class Clock:
    """What is being tried, since when, and until when; `told` is called with it once a second.

    `broken` are the stages that ended in an error, with what it says.
    """

    seconds: float | None = None
    told: Callable[[str], None] | None = None
    stage: str = ""
    share: float = OF_SEARCH
    start: float = field(default_factory=time.process_time)
    heard: float = 1.0
    broken: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def unless_broken(self) -> Iterator[None]:
        """Within this block an error ends what is being tried, and nothing else."""
        try:
            yield
        except Exception as failure:
            self.broken.append(f"{self.stage}: {type(failure).__name__}: {failure}")

    def tick(self) -> None:
        """OutOfTime if the seconds are over."""
        spent = time.process_time() - self.start
        if self.told is not None and spent > self.heard:
            self.heard = spent + 1
            self.told(f"{self.stage}, {spent:.0f} s of computing")
        if self.seconds is not None and spent > self.share * self.seconds:
            raise OutOfTime


_clock: ContextVar[Clock | None] = ContextVar("clock", default=None)


@contextlib.contextmanager
def running(clock: Clock) -> Iterator[None]:
    """Within this block every hypothesis that is tried ends when the seconds of the clock are over."""
    token = _clock.set(clock)
    try:
        yield
    finally:
        _clock.reset(token)


def tick() -> None:
    """OutOfTime if a clock is running whose seconds are over."""
    clock = _clock.get()
    if clock is not None:
        clock.tick()
