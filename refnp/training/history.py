"""The history of a run: figures by name, a row for every step and a row for every validation.

    of steps          "loss", "rate", "norm" with clipping, and what the loss told besides
    of validations    "validation step", "validation", and "validation NAME" for what was told besides

A figure that a row lacks is NaN there. A figure is better when it is smaller.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from refnp.autograd.primitives import raw

History = dict[str, list[float]]

OWN = ("loss", "rate", "norm")
RECENT = 100  # steps that the figures shown are means of


def answer(who: str, given: Any) -> tuple[Any, dict[str, float]]:
    """What a loss or a validation returned, `value` or (value, {name: figure}), as the pair.

    Raises ValueError for a figure with a name that is the history's own.
    """
    paired = isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], Mapping)
    value, figures = given if paired else (given, {})
    for name in figures:
        if name in OWN or name.startswith("validation"):
            raise ValueError(
                f"train: {who} returned a figure called {name!r}, which the history has; choose another name"
            )
    return value, {name: number(f"{who}'s figure {name!r}", value) for name, value in figures.items()}


def number(what: str, value: Any) -> float:
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


def arrays_of(history: History) -> dict[str, np.ndarray]:
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
