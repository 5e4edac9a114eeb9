"""How two programs are compared on a machine whose speed drifts: in turns, A B A B …, a ratio per pair.

A ratio of two neighbours in time is free of what slowed both; the median of the ratios is free of what slowed one of
them now and then, and their quartiles say how certain it is.

Each framework lives in a process of its own (worker.py): whether large arrays come from memory that the process already
has or page by page from the system depends on everything it allocated before. PyTorch's softmax of 8192 × 512 numbers
of float64 takes 26 to 34 ms in a process that has done nothing else, and 8 ms in some that have. So every work item
begins in fresh processes; and since processes differ besides, the pairs come from three of each side.

Threads that wait must be let go to sleep between turns. The workers of OpenBLAS (and OpenMP's, for a shorter time) go
on spinning for some 25 ms after their work is done, in case there is more, and occupy a processor of the other side
(refnp has them sleep sooner, see blocks.py): on two cores PyTorch's encoder step took twice its time right after a
NumPy product, and NumPy 1.7 times its own right after a PyTorch step. After 50 ms of rest each took what it takes
alone. OMP_WAIT_POLICY is left as it is: PASSIVE makes PyTorch half as fast. While other programs use the machine,
spinning costs both sides far more than those programs take.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Arrays = Sequence[np.ndarray]
Clock = Callable[[int], float]  # runs the work so many times; the seconds that took

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
class Needs:
    """What the equations of a work item take at least, for one of its units.

    products: floating-point operations of matrix products. exponentials. passes: other operations on single numbers.
    numbers: those read from or written to memory. calls: of NumPy.
    This is for an implementation that goes over arrays operation by operation; see roofline.py.
    """

    products: float = 0
    exponentials: float = 0
    passes: float = 0
    numbers: float = 0
    calls: float = 0


@dataclass(frozen=True)
class Work:
    """What is measured: a name, a dtype, and for every framework a function that makes its `Side`.

    `terms` is the longest chain of additions behind a number of the result; rounding lets frameworks differ by about
    terms · u of the largest value or gradient (Higham (2002), §3.1).
    `units` says how many of the things that are reported one run does (1000 small operations).
    `memory` asks for the peak of memory as well.
    `aims` are what refnp wants to reach: ratios by peer, and megabytes for "memory". `needs`: what one run takes.
    """

    name: str
    dtype: str
    makers: Mapping[str, Callable[[], Side]]
    terms: int
    units: int = 1
    memory: bool = False
    aims: dict[str, float] = field(default_factory=dict)
    needs: Needs = Needs()


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


def disagreement(mine: tuple[Arrays, Arrays], other: tuple[Arrays, Arrays], work: Work) -> float:
    """The largest difference of two results, as a fraction of what rounding allows; ValueError if above 1.

    An array is measured by its own largest number, or by a hundredth of the largest of its kind: a gradient that
    vanishes in theory, as that of a key's bias, is rounding alone.
    """
    unit = float(np.finfo(work.dtype).eps) / 2
    worst: float = 0.0
    for kind, ours, theirs in zip(("value", "gradient"), mine, other, strict=True):
        sizes = [float(np.abs(a).max(initial=0)) for a in ours]
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            if a.shape != b.shape:
                raise ValueError(f"{kind} {i} has shape {a.shape} in refnp and {b.shape} in the peer")
            size = max(sizes[i], max(sizes) / 100)
            error = float(np.abs(np.subtract(a, b, dtype=np.float64)).max(initial=0))
            if not error <= work.terms * unit * size:
                raise ValueError(f"{kind} {i} differs by {error:.1e} of {size:.1e}, which rounding does not explain")
            worst = max(worst, error / float(work.terms * unit * size) if error else 0.0)
    return worst


def alternate(first: Clock, second: Clock, *, seconds: float, least: int = 5, most: int = 25) -> Pairs:
    """Run both in turns for about `seconds`: at least `least` pairs, or a third as many where they are long.

    Every turn begins with a rest and, unless the work is long, one run that does not count: it wakes the threads and
    fills the caches. Garbage collection stays on, as in a training loop.
    """
    clocks = (first, second)
    counts = [runs_in_a_turn(clock) for clock in clocks]
    times: tuple[list[float], list[float]] = ([], [])
    start = time.perf_counter()
    while True:
        for clock, count, spent in zip(clocks, counts, times, strict=True):
            spent.append(turn(clock, count))
        done, elapsed = len(times[0]), time.perf_counter() - start
        enough = math.ceil(least / 3) if elapsed / done > max(seconds / 3, 1) else least
        if done >= most or (done >= enough and elapsed >= seconds):
            return Pairs(*times)


def runs_in_a_turn(clock: Clock) -> int:
    """How many runs fill a turn; finding out warms up."""
    once = clock(1)
    if once > 8 * TURN:
        return 1
    time.sleep(REST)
    once = clock(1)
    if once < TURN:
        once = min(clock(1) for _ in range(3))
    return max(1, math.ceil(TURN / max(once, 1e-7)))


def turn(clock: Clock, count: int) -> float:
    """Seconds per run, after a rest, and warm unless the run is so long that waking up is nothing beside it."""
    time.sleep(REST)
    once = clock(1)
    return once if once > 8 * TURN else clock(count) / count


def clock_of(side: Side) -> Clock:
    """The clock of a side in this process."""

    def seconds(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            side.run()
        return time.perf_counter() - start

    return seconds
