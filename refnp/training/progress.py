"""What a run has recorded, and what it shows: the history, and the progress.

The history holds figures by name, a row for every step and a row for every validation:

    of steps          "loss", "rate", "norm" with clipping, and the other figures that the loss returned
    of validations    "validation step", "validation", and "validation NAME" for its other figures

A figure that a row lacks is NaN there. A figure is better when it is smaller.

Progress is a bar on a terminal where `rich` is installed, else a plain line now and then:

    step 1200/5000   loss 0.4312   rate 0.0003   validation 0.4471 (best 0.4406 at 1100)   38.1 steps/s

It goes to standard error, so that results on standard output can be piped. Where that is no terminal there are whole
lines without control characters: after 1, 2, 4, … seconds, from then on two a minute, and one at the end.
"""

import contextlib
import importlib.util
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, ArrayLike

History = dict[str, list[float]]

OWN = ("loss", "rate", "norm")
RECENT = 100  # steps that the figures shown are means of


def value_and_figures(who: str, given: Any) -> tuple[Any, dict[str, float]]:
    """What a loss or a validation returned, `value` or (value, {name: figure}), as a value and its figures.

    Raises ValueError for a figure with a name that is the history's own, TypeError for one that is no number.
    """
    paired = isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], Mapping)
    value, figures = given if paired else (given, {})
    for name in figures:
        if name in OWN or name.startswith("validation"):
            raise ValueError(
                f"train: {who} returned a figure called {name!r}, which the history has; choose another name"
            )
    return value, {name: number(f"{who}'s figure {name!r}", value) for name, value in figures.items()}


def number(what: str, value: ArrayLike) -> float:
    """A number, or an array or Tensor with one element, as a Python float; TypeError that says `what` is none."""
    array = np.asarray(raw(value))
    if array.size != 1 or array.dtype.kind not in "biuf":
        shape = f" of shape {array.shape}" if array.ndim else ""
        raise TypeError(f"train: {what} is a {type(value).__name__}{shape}; it must be one real number")
    return float(array.item())


def record(history: History, row: Mapping[str, float]) -> None:
    """Append a row, of a step if it has a "loss", else of a validation."""
    of_step = "loss" in row
    rows = len(history.get("loss" if of_step else "validation", []))
    for name, value in row.items():
        if name not in history:
            history[name] = [math.nan] * rows
        history[name].append(value)
    for name, column in history.items():
        if len(column) == rows and name.startswith("validation") != of_step:
            column.append(math.nan)


def arrays_of(history: History) -> dict[str, Array]:
    """The columns as arrays of float64."""
    return {name: np.array(column, np.float64) for name, column in history.items()}


def since_best(history: History) -> int:
    """How many validations there were since the best one, the first of equals."""
    values = history["validation"]
    return len(values) - 1 - values.index(min(values))


def describe(history: History) -> str:
    """In words: means over the latest steps, the rate, the last validation and the best."""
    words = []
    for name, values in history.items():
        if name == "validation":
            best = len(values) - 1 - since_best(history)
            where = f"(best {figure(values[best])} at {history['validation step'][best]:.0f})"
            words.append(f"validation {figure(values[-1])} {where}")
        elif name == "rate":
            words.append(f"rate {values[-1]:.2g}")
        elif name.startswith("validation") and name != "validation step":
            words.append(f"{name} {figure(values[-1])}")
        elif name != "validation step":
            latest = [value for value in values[-RECENT:] if not math.isnan(value)]
            words += [f"{name} {figure(sum(latest) / len(latest))}"] if latest else []
    return "   ".join(words)


def figure(value: float) -> str:
    """A number in few characters: 0.4312, 3.2e-05, 1.235e+04."""
    return f"{value:.4f}" if 1e-3 <= abs(value) < 1e3 or value == 0 else f"{value:.4g}"


# Progress

LONGEST = 30.0  # seconds between two lines
FRAME = 0.5  # seconds between two pictures of the bar


@contextlib.contextmanager
def progress(done: int, steps: int, show: bool) -> Iterator[Callable[[History], None]]:
    """Yield `tell(history)`, to be called after every step from `done` + 1 to `steps`, which shows what is due."""
    if not show or sys.stderr is None:
        yield lambda history: None
        return
    with_bar = sys.stderr.isatty() and importlib.util.find_spec("rich") is not None
    start = time.monotonic()
    wait, longest, due = (FRAME, FRAME, start) if with_bar else (1.0, LONGEST, start + 1.0)
    shown, history = done, History()

    with _bar(done, steps) if with_bar else contextlib.nullcontext(_line(steps)) as draw:

        def draw_latest() -> None:
            nonlocal shown
            shown = len(history["loss"])
            speed = (shown - done) / max(time.monotonic() - start, 1e-9)
            draw(shown, f"{describe(history)}   {speed:.3g} steps/s")

        def tell(now: History) -> None:
            nonlocal history, wait, due
            history = now
            if time.monotonic() >= due:
                draw_latest()
                wait = min(2 * wait, longest)
                due = time.monotonic() + wait

        try:
            yield tell
        finally:
            if history and len(history["loss"]) > shown:
                draw_latest()


Draw = Callable[[int, str], None]  # (step, figures in words)


def _line(steps: int) -> Draw:
    def draw(step: int, figures: str) -> None:
        with contextlib.suppress(OSError):  # a reader that has gone does not stop the training
            print(f"step {step}/{steps}   {figures}", file=sys.stderr, flush=True)

    return draw


@contextlib.contextmanager
def _bar(done: int, steps: int) -> Iterator[Draw]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

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
        yield lambda step, figures: bar.update(task, completed=step, figures=figures, refresh=True)
