"""What a run shows while it trains: a bar on a terminal where `rich` is installed, else a plain line now and then.

    step 1200/5000   loss 0.4312   rate 0.0003   validation 0.4471 (best 0.4406 at 1100)   38.1 steps/s

It goes to standard error, so that results on standard output can be piped. Where that is no terminal there are whole
lines without control characters: after 1, 2, 4, … seconds, from then on two a minute, and one at the end.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import time
from collections.abc import Callable, Iterator

from refnp.training.history import History, describe

Tell = Callable[[History], None]

LONGEST = 30.0  # seconds between two lines
FRAME = 0.5  # seconds between two pictures of the bar


@contextlib.contextmanager
def progress(done: int, steps: int, show: bool) -> Iterator[Tell]:
    """Yield `tell(history)`, to be called after every step from `done` + 1 to `steps`, which shows what is due."""
    if not show or sys.stderr is None:
        yield lambda history: None
        return
    fancy = sys.stderr.isatty() and importlib.util.find_spec("rich") is not None
    with _bar(done, steps) if fancy else _lines(done, steps) as tell:
        yield tell


@contextlib.contextmanager
def _lines(done: int, steps: int) -> Iterator[Tell]:
    start = time.monotonic()
    wait, due = 1.0, start + 1.0
    shown, latest = done, done
    history: History = {}

    def line() -> None:
        nonlocal shown
        speed = (latest - done) / max(time.monotonic() - start, 1e-9)
        text = f"step {latest}/{steps}   {describe(history)}   {speed:.3g} steps/s"
        with contextlib.suppress(OSError):  # a reader that has gone does not stop the training
            print(text, file=sys.stderr, flush=True)
        shown = latest

    def tell(now: History) -> None:
        nonlocal history, latest, wait, due
        history, latest = now, len(now["loss"])
        if time.monotonic() >= due:
            line()
            wait = min(2 * wait, LONGEST)
            due = time.monotonic() + wait

    try:
        yield tell
    finally:
        if latest > shown:
            line()


@contextlib.contextmanager
def _bar(done: int, steps: int) -> Iterator[Tell]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    due = 0.0
    history: History = {}
    start = time.monotonic()
    width = len(f"step {steps}/{steps}")
    columns = (
        TextColumn("step {task.completed}/{task.total}", table_column=Column(min_width=width)),
        BarColumn(12, table_column=Column(min_width=12)),
        TimeRemainingColumn(table_column=Column(min_width=7)),
        TextColumn("{task.fields[figures]}", markup=False, table_column=Column(ratio=1)),  # wraps where it is narrow
    )
    # no thread that draws beside the training: it would wait for the interpreter, and the training for it
    with Progress(*columns, console=Console(stderr=True), auto_refresh=False, expand=True) as bar:
        task = bar.add_task("", total=steps, completed=done, figures="")

        def draw() -> None:
            latest = len(history["loss"])
            speed = (latest - done) / max(time.monotonic() - start, 1e-9)
            bar.update(task, completed=latest, figures=f"{describe(history)}   {speed:.3g} steps/s", refresh=True)

        def tell(now: History) -> None:
            nonlocal history, due
            history = now
            if time.monotonic() >= due:
                draw()
                due = time.monotonic() + FRAME

        try:
            yield tell
        finally:
            if history:
                draw()
