"""What is drawn for every task: numbers, how many points, and where they lie.

A number is fixed (0.25), drawn for each task from a range ((0.1, 0.6), a tuple: uniform), or given for each task (an
array (B,)). Counts are drawn once for the whole batch, as published protocols do, or for each task: then the sets are
ragged, and masks say what is present.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.tasks.task import Task


def check_rng(name: str, rng: Any) -> None:
    """TypeError unless `rng` is a numpy.random.Generator."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"{name}: rng is {type(rng).__name__}; pass numpy.random.default_rng(seed)")


def check_draw(name: str, rng: Any, batch: Any) -> None:
    """What samplers are given: TypeError unless a generator and an integer, ValueError if that is less than 1."""
    check_rng(name, rng)
    if not isinstance(batch, (int, np.integer)) or isinstance(batch, bool):
        raise TypeError(f"{name}: batch is {batch!r}; pass an integer, the number of tasks")
    if batch < 1:
        raise ValueError(f"{name}: batch is {batch}; draw at least one task")


def check_hyper_parameter(name: str, argument: str, value: Any, *, at_least: float | None = None) -> None:
    """ValueError unless a number, a range (low, high) or an array (B,) is finite and positive, or ≥ `at_least`."""
    values = np.asarray(value)
    if values.dtype.kind not in "iuf" or values.ndim > 1:
        raise ValueError(f"{name}: {argument} is {value!r}; pass a number, a range (low, high), or an array (B,)")
    allowed = values > 0 if at_least is None else values >= at_least
    if not (allowed & np.isfinite(values)).all():
        sign = {None: "positive and ", -math.inf: ""}.get(at_least, f"at least {at_least} and ")
        raise ValueError(f"{name}: {argument} is {value}; it must be {sign}finite")
    if isinstance(value, tuple) and (len(value) != 2 or value[0] > value[1]):
        raise ValueError(f"{name}: {argument} is {value}; a range is (low, high) with low ≤ high")


def number(rng: np.random.Generator, value: Any, batch: int) -> Any:
    """A range (low, high) becomes `batch` numbers, uniform in it; anything else stays as it is."""
    if not isinstance(value, tuple):
        return value
    low, high = value
    return rng.uniform(low, high, size=batch)


def check_counts(name: str, argument: str, bounds: tuple[int, int]) -> None:
    """ValueError unless `bounds` are two integers, 0 ≤ low ≤ high."""
    if len(bounds) != 2 or not all(isinstance(n, (int, np.integer)) for n in bounds) or not 0 <= bounds[0] <= bounds[1]:
        raise ValueError(f"{name}: {argument} is {bounds}; it must be (low, high), integers with 0 ≤ low ≤ high")


def count(rng: np.random.Generator, low: int, high: Any, batch: int, *, ragged: bool) -> np.ndarray:
    """(B,) integers from low to high, a number or (B,): one for each task if `ragged`, else one for all."""
    if ragged:
        return rng.integers(low, high, size=batch, endpoint=True)
    return np.full(batch, rng.integers(low, np.min(high), endpoint=True))


def present(counts: np.ndarray, *, ragged: bool) -> np.ndarray | None:
    """The mask (B, max count) of sets of these sizes; None if they are not ragged, for then all is present."""
    return np.arange(counts.max()) < counts[:, None] if ragged else None


@dataclass(frozen=True)
class Places:
    """How many context and target points, and where: uniform between `low` and `high` of their ranges.

    `context` and `target` bound the counts (low, high), both included; with `total`, contexts are drawn first and there
    are at most total − N_c targets. `target_range` is `context_range` unless given. A range is (low, high), each a
    number or (dx,) numbers. With `ragged`, every task has counts of its own.
    Raises ValueError for bounds out of order, or a `total` that leaves too few targets.
    """

    context: tuple[int, int]
    target: tuple[int, int]
    context_range: tuple[Any, Any] = (-2.0, 2.0)
    target_range: tuple[Any, Any] | None = None
    total: int | None = None
    dx: int = 1
    ragged: bool = False

    def __post_init__(self):
        check_counts("Places", "context", self.context)
        check_counts("Places", "target", self.target)
        if self.total is not None and self.total < self.context[1] + self.target[0]:
            raise ValueError(
                f"Places: total {self.total} leaves less than {self.target[0]} targets beside {self.context[1]} "
                "contexts; raise it, or lower the bounds"
            )
        if self.dx < 1:
            raise ValueError(f"Places: dx is {self.dx}; there must be at least one input")
        for argument in ("context_range", "target_range"):
            bounds = getattr(self, argument)
            if bounds is not None:
                self._check_range(argument, bounds)

    def _check_range(self, argument: str, bounds: tuple[Any, Any]) -> None:
        wrong = len(bounds) != 2 or any(np.shape(b) not in ((), (self.dx,)) for b in bounds)
        if wrong or not (np.isfinite(bounds[0]) & np.isfinite(bounds[1]) & np.less_equal(*bounds)).all():
            raise ValueError(
                f"Places: {argument} is {bounds}; it must be (low, high) with low ≤ high, numbers or {self.dx} numbers"
            )

    def task(self, rng: np.random.Generator, batch: int, function: Callable[[np.ndarray], np.ndarray]) -> Task:
        """Tasks whose values are function(x), which gets contexts and targets together: (B, C + T, dx) → (…, dy).

        C and T are the largest counts drawn. What masks hide is drawn too, and then replaced by 0.
        """
        contexts = count(rng, *self.context, batch, ragged=self.ragged)
        most = self.target[1] if self.total is None else np.minimum(self.target[1], self.total - contexts)
        targets = count(rng, self.target[0], most, batch, ragged=self.ragged)
        context_x = rng.uniform(*self.context_range, size=(batch, contexts.max(), self.dx))
        target_range = self.context_range if self.target_range is None else self.target_range
        target_x = rng.uniform(*target_range, size=(batch, targets.max(), self.dx))
        y = function(np.concatenate([context_x, target_x], 1))  # (B, C + T, dy)
        context_mask, target_mask = (present(counts, ragged=self.ragged) for counts in (contexts, targets))
        context_x, context_y = hidden(context_mask, context_x, y[:, : context_x.shape[1]])
        target_x, target_y = hidden(target_mask, target_x, y[:, context_x.shape[1] :])
        return Task(context_x, context_y, target_x, target_y, context_mask, target_mask)


def hidden(mask: np.ndarray | None, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Arrays (B, N, …) with zeros where the mask (B, N) is False."""
    return arrays if mask is None else tuple(np.where(mask[..., None], array, 0) for array in arrays)
