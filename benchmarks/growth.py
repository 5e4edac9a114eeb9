"""How time and memory grow with the number of points, where they must not explode: each size in a fresh process.

    attention          one head of 64 features, float32, forward and backward: time N², memory N
    SetConv            N points onto a grid of 1024 places, forward and backward: time N, memory N
    SetConv, N places  N points onto N places at the same density, 64 of each per unit: time N, memory N

The exponent p of N^p is fitted to the logarithms by least squares.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks import attention, differentiated, sets
from benchmarks.timing import Side, Work


@dataclasses.dataclass(frozen=True)
class Growth:
    """Sizes with the seconds and the megabytes beyond the inputs that each took, and what is wanted of them."""

    work: str
    sizes: list[int]
    seconds: list[float]
    megabytes: list[float]
    time_aim: float  # exponent, at most
    memory_aim: float  # exponent, at most
    peak_aim: float | None  # megabytes at the largest size, at most

    def exponents(self) -> tuple[float, float]:
        """Of time and of memory."""
        return exponent(self.sizes, self.seconds), exponent(self.sizes, self.megabytes)

    def misses(self) -> list[str]:
        """The aims that were not reached."""
        found = []
        for kind, power, aim in zip(
            ("time", "memory"), self.exponents(), (self.time_aim, self.memory_aim), strict=True
        ):
            if power > aim:
                found.append(f"{self.work}: {kind} grows like N^{power:.2f}, aim {aim:.3g}")
        if self.peak_aim is not None and self.megabytes[-1] > self.peak_aim:
            found.append(f"{self.work}: {self.megabytes[-1]:.0f} MB at N = {self.sizes[-1]}, aim {self.peak_aim:.0f}")
        return found


@dataclasses.dataclass(frozen=True)
class Series:
    """One work item at several sizes, ascending; `make(n)` is its side in refnp."""

    work: str
    sizes: tuple[int, ...]
    make: Callable[[int], Side]
    time_aim: float
    memory_aim: float
    peak_aim: float | None = None


def exponent(sizes: Sequence[int], amounts: Sequence[float]) -> float:
    """p for which amount ≈ c · size^p, by least squares of the logarithms."""
    x, y = np.log(sizes), np.log(amounts)
    x = x - x.mean()
    return float(x @ y / (x @ x))


def series() -> list[Series]:
    """A tenth above the power is left for noise; memory may grow more slowly, by what is there at any size."""
    return [
        Series("attention, 1 head, forward and backward", (4096, 16_384, 65_536), one_head, 2.1, 1.1, 400),
        Series("SetConv onto 1024 places", (10_000, 100_000, 1_000_000), onto_grid, 1.1, 1.1),
        Series("SetConv onto N places", (10_000, 100_000, 1_000_000), onto_as_many, 1.1, 1.1),
    ]


def works() -> list[Work]:
    """One work item for each size, for the worker that runs it."""
    return [
        Work(name_of(one, n), "float32", {"refnp": lambda one=one, n=n: one.make(n)}, terms=n)
        for one in series()
        for n in one.sizes
    ]


def name_of(one: Series, n: int) -> str:
    return f"{one.work}: N={n}"


def one_head(n: int) -> Side:
    """Drawn in float32: memory that a wider draw had left free would be taken again, and the peak look lower."""
    rng = np.random.default_rng(0)
    *arrays, bar = (rng.standard_normal((1, 1, n, attention.FEATURES), np.float32) for _ in range(4))
    return differentiated.by_refnp(attention.refnp_function(), arrays, bar)


def onto_grid(n: int) -> Side:
    return sets.side("refnp", n, sets.PLACES, "float32")


def onto_as_many(n: int) -> Side:
    """The density of points is that of places."""
    return sets.side("refnp", n, n, "float32")


def measured(one: Series, measure: Callable[[str], tuple[float, float]]) -> Growth:
    """`measure(name)` gives seconds and megabytes of the work of that name."""
    found = [measure(name_of(one, n)) for n in one.sizes]
    seconds, megabytes = (list(column) for column in zip(*found, strict=True))
    if not all(math.isfinite(a) and a > 0 for a in (*seconds, *megabytes)):
        raise ValueError(f"{one.work}: seconds {seconds} and megabytes {megabytes} must all be above 0")
    return Growth(one.work, list(one.sizes), seconds, megabytes, one.time_aim, one.memory_aim, one.peak_aim)
