"""A line on the terminal that says how far something has come, once it takes more than two seconds."""

import sys
import time
from types import TracebackType
from typing import Self

AFTER = 2.0  # seconds, before anything is written
EVERY = 0.2  # seconds between two lines


class Progress:
    """Writes to stderr, if that is a terminal, and clears its line at the end: `with Progress() as p: p.show("…")`."""

    def __enter__(self) -> Self:
        self.start = self.last = time.monotonic()
        self.shown = 0
        return self

    def show(self, text: str) -> None:
        """Replace the line, if two seconds have passed and the last one was written a while ago."""
        now = time.monotonic()
        if now - self.start < AFTER or now - self.last < EVERY or not sys.stderr.isatty():
            return
        line = f"{text}, {now - self.start:.0f} s"
        sys.stderr.write("\r" + line.ljust(self.shown))
        sys.stderr.flush()
        self.last, self.shown = now, len(line)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.shown:
            sys.stderr.write("\r" + " " * self.shown + "\r")
            sys.stderr.flush()
