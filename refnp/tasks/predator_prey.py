"""Predators and prey: stochastic Lotka-Volterra equations to train on, the lynx and hare of Hudson Bay to predict.

    dx = x (α − β y) dt + σ x^(1/6) dW₁         prey: grows by itself, is eaten
    dy = y (γ x − δ) dt + σ y^(1/6) dW₂         predators: starve by themselves, grow by eating

The power 1/6 lets noise matter most where populations are small and keeps them from dying out. Every task has its own
coefficients, drawn uniformly, starts ten years before what is observed, and is multiplied by a scale. This is the
stochastic differential equation of Bruinsma's experiments (not Gillespie's jump process, which counts animals one by
one). A step of Euler and Maruyama,

    x ← |x exp((α − β y) dt) + σ x^(1/6) √dt ε₁|        y ← |y exp((γ x − δ) dt) + σ y^(1/6) √dt ε₂|

has the growth of a frozen world as a factor, where the published code has 1 + (α − β y) dt: the same as dt → 0, but it
cannot overshoot into an explosion, however long the step. A population that falls below 0 is reflected.

The real series is the number of pelts, in thousands, that the Hudson's Bay Company collected each year: a public
record (Hewitt (1921); Odum (1953)).   Source: Bruinsma (2022), and neuralprocesses for the numbers below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from refnp.tasks.task import Task, check_draw, check_sizes

COEFFICIENTS = {"alpha": (0.2, 0.8), "beta": (0.04, 0.08), "delta": (0.8, 1.2), "gamma": (0.04, 0.08)}
SIGMA, START, SCALE = (0.5, 10.0), (5.0, 100.0), (1.0, 5.0)
WARM_UP, YEARS = 10.0, 100.0

YEAR_HARE_LYNX = (
    (1900, 30.0, 4.0),
    (1901, 47.2, 6.1),
    (1902, 70.2, 9.8),
    (1903, 77.4, 35.2),
    (1904, 36.3, 59.4),
    (1905, 20.6, 41.7),
    (1906, 18.1, 19.0),
    (1907, 21.4, 13.0),
    (1908, 22.0, 8.3),
    (1909, 25.4, 9.1),
    (1910, 27.1, 7.4),
    (1911, 40.3, 8.0),
    (1912, 57.0, 12.3),
    (1913, 76.6, 19.5),
    (1914, 52.3, 45.7),
    (1915, 19.5, 51.1),
    (1916, 11.2, 29.7),
    (1917, 7.6, 15.8),
    (1918, 14.6, 9.7),
    (1919, 16.2, 10.1),
    (1920, 24.7, 8.6),
)


def lynx_hare() -> tuple[np.ndarray, np.ndarray]:
    """The years 1900 to 1920, (21,), and thousands of pelts of hare and lynx, (21, 2): prey first."""
    table = np.array(YEAR_HARE_LYNX)
    return table[:, 0], table[:, 1:]


class LotkaVolterra(NamedTuple):
    """Coefficients of B worlds: α, β, δ, γ and σ, each a number or (B,)."""

    alpha: np.ndarray
    beta: np.ndarray
    delta: np.ndarray
    gamma: np.ndarray
    sigma: np.ndarray

    @classmethod
    def drawn(cls, rng: np.random.Generator, batch: int) -> LotkaVolterra:
        """Coefficients of `batch` worlds, uniform in `COEFFICIENTS` and `SIGMA`."""
        return cls(*(rng.uniform(*bounds, size=batch) for bounds in (*COEFFICIENTS.values(), SIGMA)))

    def walk(self, state: np.ndarray, dt: float, noise: np.ndarray) -> np.ndarray:
        """The state (2, B), prey first, after n steps of length dt with standard normal `noise` ε (n, 2, B)."""
        one = np.ones(state.shape[1])
        alone = dt * np.stack([self.alpha * one, -self.delta * one])  # (2, B)
        together = dt * np.stack([-self.beta * one, self.gamma * one])  # (2, B)
        for kicks in self.sigma * np.sqrt(dt) * noise:
            state = np.abs(state * np.exp(alone + together * state[::-1]) + state ** (1 / 6) * kicks)
        return state


def simulate(rng: np.random.Generator, times: np.ndarray, batch: int, *, steps: int = 5000) -> np.ndarray:
    """Populations of `batch` worlds at `times` (N,), the same for all, in years 0 to 100: (B, N, 2), prey first.

    `steps` are taken from year −10 to year 100, so the default is 8 days long; a time that falls between two steps has
    the later one. Raises ValueError for times outside.
    """
    times = np.asarray(times, np.float64)
    if times.size and not (times.min() >= 0 and times.max() <= YEARS):
        raise ValueError(f"simulate: times are {times.min()} to {times.max()}; they must lie in 0 … {YEARS:g}")
    dt = (WARM_UP + YEARS) / steps
    world = LotkaVolterra.drawn(rng, batch)
    scale = rng.uniform(*SCALE, size=batch)
    state = rng.uniform(*START, size=(2, batch))
    when = np.minimum(np.ceil((times + WARM_UP) / dt).astype(int), steps)
    path, done = np.empty((len(times), 2, batch)), 0
    for place in np.argsort(when, kind="stable"):
        state = world.walk(state, dt, rng.standard_normal((when[place] - done, 2, batch)))
        path[place], done = state, when[place]
    return (path * scale).transpose(2, 0, 1)  # (B, N, 2)


@dataclass(frozen=True, eq=False)
class PredatorPreyTasks:
    """Tasks from simulated worlds: x is the year in 0 … 100, y the two populations, prey first, divided by `unit`.

    `data` (low, high) counts the times, uniform and shared by the batch, as published. Of these, "interpolation" asks
    for `targets` (low, high) at random; "forecasting" for all after a moment in `forecast`, uniform; "random" tosses a
    coin between the two. (The published third, one population from the other, needs outputs that are missing one by
    one, which a `Task` cannot say.) Nearly all the time goes into the `steps`, the published 5000 of 8 days;
    2200 of 18 days give nearly the same law. Many worlds at once are cheap: sample(rng, 1024), then task[:16], …
    """

    mode: str = "random"
    data: tuple[int, int] = (150, 250)
    targets: tuple[int, int] = (100, 100)
    forecast: tuple[float, float] = (25.0, 75.0)
    unit: float = 1.0
    steps: int = 5000

    def __post_init__(self):
        _check_mode("PredatorPreyTasks", self.mode)
        check_sizes("PredatorPreyTasks", "data", self.data)
        check_sizes("PredatorPreyTasks", "targets", self.targets)
        if self.targets[1] > self.data[0]:
            raise ValueError(f"PredatorPreyTasks: targets {self.targets} may be more than there are data, {self.data}")

    def sample(self, rng: np.random.Generator, batch: int) -> Task:
        """`batch` tasks in float64, dx = 1, dy = 2."""
        check_draw("PredatorPreyTasks", rng, batch)
        times = np.sort(rng.uniform(0, YEARS, size=rng.integers(*self.data, endpoint=True)))
        asked = _asked(rng, self.mode, times, batch, self.targets, self.forecast)
        return _task(times, simulate(rng, times, batch, steps=self.steps) / self.unit, asked)


@dataclass(frozen=True, eq=False)
class LynxHareTasks:
    """Tasks from the real series: x is the year since 1900, y thousands of pelts, hare and lynx, divided by `unit`.

    "interpolation" asks for `targets` (low, high) years at random, other years in every task; "forecasting" for all
    from a year on, uniform in `forecast` (years since 1900).
    """

    mode: str = "interpolation"
    targets: tuple[int, int] = (1, 20)
    forecast: tuple[float, float] = (10.0, 19.0)
    unit: float = 1.0

    def __post_init__(self):
        _check_mode("LynxHareTasks", self.mode)
        check_sizes("LynxHareTasks", "targets", self.targets)
        if self.targets[1] > len(YEAR_HARE_LYNX):
            raise ValueError(f"LynxHareTasks: targets {self.targets} are more than the {len(YEAR_HARE_LYNX)} years")

    def sample(self, rng: np.random.Generator, batch: int) -> Task:
        """`batch` tasks in float64, dx = 1, dy = 2; all of them ask for as many years."""
        check_draw("LynxHareTasks", rng, batch)
        years, pelts = lynx_hare()
        times = years - years[0]
        asked = _asked(rng, self.mode, times, batch, self.targets, self.forecast)
        return _task(times, np.tile(pelts / self.unit, (batch, 1, 1)), asked)


def _asked(
    rng: np.random.Generator,
    mode: str,
    times: np.ndarray,
    batch: int,
    targets: tuple[int, int],
    forecast: tuple[float, float],
) -> np.ndarray:
    """Which times are targets, (B, N) booleans, equally many in each task."""
    if mode == "random":
        mode = ("interpolation", "forecasting")[rng.integers(2)]
    if mode == "forecasting":
        return np.tile(times >= rng.uniform(*forecast), (batch, 1))
    first = np.arange(len(times)) < rng.integers(*targets, endpoint=True)
    return rng.permuted(np.tile(first, (batch, 1)), axis=1)


def _task(times: np.ndarray, y: np.ndarray, asked: np.ndarray) -> Task:
    """Tasks from y (B, N, 2) at times (N,): those `asked` (B, N) are targets, the others context."""

    def part(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        shape = (len(y), int(chosen[0].sum()))
        return np.broadcast_to(times, chosen.shape)[chosen].reshape(*shape, 1), y[chosen].reshape(*shape, 2)

    return Task(*part(~asked), *part(asked))


def _check_mode(name: str, mode: str) -> None:
    if mode not in ("interpolation", "forecasting", "random"):
        raise ValueError(f"{name}: mode is {mode!r}; use 'interpolation', 'forecasting' or 'random'")
