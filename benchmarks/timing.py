"""How two programs are compared on a machine whose speed drifts: in turns, A B A B …, a ratio per pair.

A ratio of two neighbours in time is free of what slowed both; the median of the ratios is free of what slowed one of
them now and then, and their quartiles say how much to believe it.

Threads that wait must be let go to sleep between turns. OpenBLAS's workers (and OpenMP's, for a shorter time) go on
spinning for some 25 ms after their work is done, in case there is more. In one process with a peer they take a core
from it: on two cores PyTorch's encoder step took twice its time right after a NumPy product, and NumPy 1.7 times its
own right after a PyTorch step. After 50 ms of rest each took what it takes in a process of its own. OMP_WAIT_POLICY is
left alone: PASSIVE would make PyTorch half as fast.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Arrays = Sequence[np.ndarray]

REST = 0.05  # seconds of silence before every turn, until the other side's threads sleep
TURN = 0.03  # a turn lasts at least so long, whatever the work


@dataclass(frozen=True)
class Side:
    """A work item in one framework, ready to run: inputs made, code compiled.

    `run` does the work once and returns when it is done. `result` returns the values and the gradients that all
    frameworks must agree on, as two lists of NumPy arrays in a fixed order; it is called before anything is timed.
    """

    run: Callable[[], Any]
    result: Callable[[], tuple[Arrays, Arrays]]


@dataclass(frozen=True)
class Work:
    """What is measured: a name, a dtype, and for every framework a function that makes its `Side`.

    `terms` is the longest chain of additions behind a number of the result; rounding lets frameworks differ by about
    terms · u of the largest value or gradient (Higham 2002, §3.1).
    `times` says how often `run` does the smallest unit that is reported (a small operation, 1000 times).
    """

    name: str
    dtype: str
    makers: dict[str, Callable[[], Side]]
    terms: int
    times: int = 1
    memory: str = ""  # the job of memory.py that measures the peak, if any
    options: dict[str, int] = field(default_factory=dict)  # of that job


@dataclass(frozen=True)
class Pairs:
    """Seconds per run on both sides, pair by pair."""

    first: list[float]
    second: list[float]

    @property
    def ratios(self) -> list[float]:
        return [a / b for a, b in zip(self.first, self.second, strict=True)]

    def quartiles(self) -> tuple[float, float, float]:
        """Lower quartile, median and upper quartile of the ratios."""
        if len(self.ratios) == 1:
            return self.ratios[0], self.ratios[0], self.ratios[0]
        low, middle, high = statistics.quantiles(self.ratios, n=4, method="inclusive")
        return low, middle, high


def disagreement(ours: Side, theirs: Side, work: Work) -> float:
    """The largest difference of results, as a fraction of what rounding allows; ValueError if above 1.

    An array is measured by its own largest number, or by a hundredth of the largest of its kind: a gradient that
    vanishes in theory, as that of a key's bias, is rounding alone.
    """
    unit = np.finfo(work.dtype).eps / 2
    worst = 0.0
    for kind, mine, other in zip(("value", "gradient"), ours.result(), theirs.result(), strict=True):
        sizes = [float(np.abs(a).max(initial=0)) for a in mine]
        for i, (a, b) in enumerate(zip(mine, other, strict=True)):
            size = max(sizes[i], max(sizes) / 100)
            if a.shape != b.shape:
                raise ValueError(f"{work.name}: {kind} {i} has shape {a.shape} in refnp and {b.shape} in the peer")
            error = np.abs(a.astype(np.float64) - b).max(initial=0)
            if not error <= work.terms * unit * size:
                raise ValueError(f"{work.name}, {work.dtype}: {kind} {i} differs by {error:.1e} of {size:.1e}")
            worst = max(worst, float(error / (work.terms * unit * size)) if error else 0.0)
    return worst


def alternate(first: Side, second: Side, *, seconds: float, least: int = 5, most: int = 25) -> Pairs:
    """Run both in turns for about `seconds`: at least `least` pairs (3 if a pair takes longer than all of `seconds`).

    Every turn begins with a rest and, for short work, one run that does not count: it wakes the threads and fills
    the caches. The first turn of each side is a warm-up. Garbage collection stays on, as in a training loop.
    """
    counts = [runs_in_a_turn(side) for side in (first, second)]
    times: tuple[list[float], list[float]] = ([], [])
    start = time.perf_counter()
    while True:
        for side, count, spent in zip((first, second), counts, times, strict=True):
            spent.append(turn(side, count))
        done, elapsed = len(times[0]), time.perf_counter() - start
        enough = min(least, 3) if elapsed / done > seconds / 3 else least
        if done >= most or (done >= enough and elapsed >= seconds):
            return Pairs(*times)


def runs_in_a_turn(side: Side) -> int:
    """How many runs fill a turn; finding out warms up."""
    side.run()
    time.sleep(REST)
    once = timed(side.run, 1)
    if once < TURN / 4:
        once = min(timed(side.run, 1) for _ in range(3))
    return max(1, math.ceil(TURN / max(once, 1e-7)))


def turn(side: Side, count: int) -> float:
    """Seconds per run, after a rest, and warm unless the run is so long that waking up is nothing beside it."""
    time.sleep(REST)
    once = timed(side.run, 1)
    return once if once > 8 * TURN else timed(side.run, count) / count


def timed(run: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        run()
    return time.perf_counter() - start
