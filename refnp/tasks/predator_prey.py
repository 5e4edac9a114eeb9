"""Predators and prey: stochastic Lotka-Volterra equations to train on, the lynx and hare of Hudson Bay to predict.

    dx = x (α − β y) dt + σ x^(1/6) dW₁         prey: grows by itself, is eaten
    dy = y (γ x − δ) dt + σ y^(1/6) dW₂         predators: starve by themselves, grow by eating

The power 1/6 lets noise matter most where populations are small and keeps them from dying out. Every task has its own
coefficients, drawn uniformly, starts ten years before what is observed, and is multiplied by a scale. This is the
stochastic differential equation of Bruinsma's experiments (not Gillespie's jump process, which counts animals one by
one). A step of Euler and Maruyama,

    x ← |x exp((α − β y) dt) + σ x^(1/6) √dt ε₁|        y ← |y exp((γ x − δ) dt) + σ y^(1/6) √dt ε₂|

multiplies by the growth at a fixed size of the other population, where the published code has 1 + (α − β y) dt: the
same as dt → 0, but it cannot diverge, however long the step. A population that falls below 0 is reflected.

The real series is the number of pelts, in thousands, that the Hudson's Bay Company collected each year: a public
record (Hewitt (1921); Odum (1953)).   Source: Bruinsma (2022), and neuralprocesses for the numbers below.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from refnp.autograd.tensor import Array
from refnp.tasks.task import Task, check_draw, check_sizes

COEFFICIENTS = {"alpha": (0.2, 0.8), "beta": (0.04, 0.08), "delta": (0.8, 1.2), "gamma": (0.04, 0.08)}
SIGMA, START, SCALE = (0.5, 10.0), (5.0, 100.0), (1.0, 5.0)
WARM_UP, YEARS = 10.0, 100.0

FIRST_YEAR = 1900
HARE = (
    30.0, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22.0, 25.4, 27.1,
    40.3, 57.0, 76.6, 52.3, 19.5, 11.2, 7.6, 14.6, 16.2, 24.7,
)  # fmt: skip
LYNX = (
    4.0, 6.1, 9.8, 35.2, 59.4, 41.7, 19.0, 13.0, 8.3, 9.1, 7.4,
    8.0, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8, 9.7, 10.1, 8.6,
)  # fmt: skip


def lynx_hare() -> tuple[Array, Array]:
    """The years 1900 to 1920, (21,), and thousands of pelts of hare and lynx, (21, 2): prey first."""
    return FIRST_YEAR + np.arange(float(len(HARE))), np.stack([HARE, LYNX], -1)


class LotkaVolterra(NamedTuple):
    """Coefficients of B worlds: α, β, δ, γ and σ, each a number or (B,)."""

    alpha: Array
    beta: Array
    delta: Array
    gamma: Array
    sigma: Array

    @classmethod
    def drawn(cls, rng: np.random.Generator, batch: int) -> "LotkaVolterra":
        """Coefficients of `batch` worlds, uniform in `COEFFICIENTS` and `SIGMA`."""
        return cls(*(rng.uniform(*bounds, size=batch) for bounds in (*COEFFICIENTS.values(), SIGMA)))

    def walk(self, state: Array, dt: float, noise: Array) -> Array:
        """The state (2, B), prey first, after n steps of length dt with standard normal `noise` ε (n, 2, B)."""
        one = np.ones(state.shape[1])
        alone = dt * np.stack([self.alpha * one, -self.delta * one])  # (2, B)
        together = dt * np.stack([-self.beta * one, self.gamma * one])  # (2, B)
        for kicks in self.sigma * np.sqrt(dt) * noise:
            state = np.abs(state * np.exp(alone + together * state[::-1]) + state ** (1 / 6) * kicks)
        return state


def simulate(rng: np.random.Generator, times: Array, batch: int, *, steps: int = 5000) -> Array:
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

    mode: "interpolation", some of the times at random are targets; "forecasting", all after a moment; "random", one of
        the two by the toss of a coin.
    data: bounds (low, high) of the number of times, uniform and shared by the batch, as published.
    targets: bounds of the number of targets for interpolation.
    forecast: the range of the moment for forecasting, uniform.
    steps: of the simulation, in which nearly all the time is spent. The published 5000 are 8 days each; 2200 of 18 days
        give nearly the same law. Many worlds at once are cheap: sample(rng, 1024), then task[:16], …

    Elsewhere: the published third mode, one population from the other, needs outputs that are missing one by one, which
    a `Task` does not have.
    """

    mode: str = "random"
    data: tuple[int, int] = (150, 250)
    targets: tuple[int, int] = (100, 100)
    forecast: tuple[float, float] = (25.0, 75.0)
    unit: float = 1.0
    steps: int = 5000

    def __post_init__(self):
        _check("PredatorPreyTasks", self.mode, self.targets)
        check_sizes("PredatorPreyTasks", "data", self.data)
        if self.targets[1] > self.data[0]:
            raise ValueError(f"PredatorPreyTasks: targets {self.targets} may be more than there are data, {self.data}")

    def sample(self, rng: np.random.Generator, batch: int) -> Task:
        """`batch` tasks in float64, dx = 1, dy = 2."""
        check_draw("PredatorPreyTasks", rng, batch)
        times = np.sort(rng.uniform(0, YEARS, size=rng.integers(*self.data, endpoint=True)))
        targets = _targets(rng, self.mode, times, batch, self.targets, self.forecast)
        return _task(times, simulate(rng, times, batch, steps=self.steps) / self.unit, targets)


@dataclass(frozen=True, eq=False)
class LynxHareTasks:
    """Tasks from the real series: x is the year since 1900, y thousands of pelts, hare and lynx, divided by `unit`.

    mode: "interpolation", some years at random are targets, other ones in every task; "forecasting", all from a year
        on; "random", one of the two by the toss of a coin.
    targets: bounds (low, high) of the number of targets for interpolation.
    forecast: the range of the year for forecasting, in years since 1900, uniform.
    """

    mode: str = "interpolation"
    targets: tuple[int, int] = (1, 20)
    forecast: tuple[float, float] = (10.0, 19.0)
    unit: float = 1.0

    def __post_init__(self):
        _check("LynxHareTasks", self.mode, self.targets)
        if self.targets[1] > len(HARE):
            raise ValueError(f"LynxHareTasks: targets {self.targets} are more than the {len(HARE)} years")

    def sample(self, rng: np.random.Generator, batch: int) -> Task:
        """`batch` tasks in float64, dx = 1, dy = 2; all of them have as many targets."""
        check_draw("LynxHareTasks", rng, batch)
        years, pelts = lynx_hare()
        times = years - FIRST_YEAR
        targets = _targets(rng, self.mode, times, batch, self.targets, self.forecast)
        return _task(times, np.tile(pelts / self.unit, (batch, 1, 1)), targets)


def _targets(
    rng: np.random.Generator, mode: str, times: Array, batch: int, sizes: tuple[int, int], forecast: tuple[float, float]
) -> Array:
    """Which times are targets, (B, N) booleans, equally many in each task."""
    if mode == "random":
        mode = ("interpolation", "forecasting")[rng.integers(2)]
    if mode == "forecasting":
        return np.tile(times >= rng.uniform(*forecast), (batch, 1))
    first = np.arange(len(times)) < rng.integers(*sizes, endpoint=True)
    return rng.permuted(np.tile(first, (batch, 1)), axis=1)


def _task(times: Array, y: Array, targets: Array) -> Task:
    """Tasks from y (B, N, 2) at times (N,): those in `targets` (B, N) are targets, the others context."""

    def part(chosen: Array) -> tuple[Array, Array]:
        shape = (len(y), int(chosen[0].sum()))
        return np.broadcast_to(times, chosen.shape)[chosen].reshape(*shape, 1), y[chosen].reshape(*shape, 2)

    return Task(*part(~targets), *part(targets))


def _check(name: str, mode: str, targets: tuple[int, int]) -> None:
    if mode not in ("interpolation", "forecasting", "random"):
        raise ValueError(f"{name}: mode is {mode!r}; use 'interpolation', 'forecasting' or 'random'")
    check_sizes(name, "targets", targets)
