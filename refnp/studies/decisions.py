"""Decisions one after the other: where to ask next, with the predictions of a model in place of the truth.

    python -m refnp.studies.decisions [--write]

Functions are RBF functions of TNP-pytorch's protocol, on which the models were trained; what is observed has its noise.

    optimisation    100 places, 12 observations after a first one at random, each where the expected improvement over
                    the best observation is largest: E max(y − best, 0) = σ (u Φ(u) + φ(u)), u = (μ − best)/σ
    bandit          20 arms, 30 rounds; in each a value is drawn for every arm from its prediction, and the arm with
                    the largest is chosen (Thompson sampling)

Regret is what the best place gives less what was found: of the best observation so far in the first, of every round on
average in the second; in per cent of the range of the function. Each figure is a mean over the same functions for
all, with its standard error.
Source: Thompson (1933); Jones, Schonlau & Welch (1998); as judges of neural processes: Nguyen & Grover (2022) §5.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from refnp.autograd import no_grad
from refnp.autograd.primitives import raw
from refnp.autograd.special import erf
from refnp.autograd.tensor import Array
from refnp.models.neural_process import NeuralProcess
from refnp.studies.evaluation import Table
from refnp.studies.measured import Rows, command, mean_and_error, table
from refnp.studies.trained import open_trained, shipped
from refnp.tasks.gaussian_process import NUGGET, GaussianProcess
from refnp.tasks.protocols import tnp
from refnp.tasks.task import Task

FUNCTIONS, TOGETHER = 512, 32  # in all, and in a call of a model
PLACES, OBSERVATIONS = 100, 12
ARMS, ROUNDS = 20, 30
EXACT, RANDOM = "exact posterior", "at random"
Law = Callable[[Array, Array, Array], tuple[Array, Array]]  # x, y, target x → mean and deviation, (B, N)


class Functions(NamedTuple):
    """Functions on a grid: places (B, N), values without noise (B, N), and the processes they came from."""

    x: Array
    values: Array
    process: GaussianProcess


def functions(count: int, places: int, seed: int = 0) -> Functions:
    """New RBF functions at evenly spaced places from −2 to 2."""
    rng = np.random.default_rng(seed)
    process = GaussianProcess(tnp().kernel.drawn(rng, count), 0.02)
    x = np.repeat(np.linspace(-2, 2, places)[None], count, 0)
    values = GaussianProcess(process.kernel, nugget=NUGGET).sample(rng, x[..., None])[..., 0]
    return Functions(x, values, process)


def law_of(model: NeuralProcess) -> Law:
    """Mean and deviation of the model's marginals."""
    dtype = model.parameters()[0].dtype

    def law(x, y, target):
        parts = []
        for i in range(0, len(x), TOGETHER):
            some = as_task(*(a[i : i + TOGETHER] for a in (x, y, target))).astype(dtype)
            with no_grad():
                found = model.marginal(some)
            parts.append((raw(found.mean)[..., 0], raw(found.std)[..., 0]))
        mean, std = (np.concatenate(part).astype(float) for part in zip(*parts, strict=True))
        return mean, std

    return law


def exact(process: GaussianProcess) -> Law:
    """Those of the exact posterior."""

    def law(x, y, target):
        posterior = process.posterior(as_task(x, y, target))
        return posterior.mean[..., 0], posterior.std

    return law


def as_task(x: Array, y: Array, target: Array) -> Task:
    """Places and values (B, M), and places (B, N), as a task."""
    return Task(x[..., None], y[..., None], target[..., None], np.zeros((*target.shape, 1)))


def expected_improvement(mean: Array, std: Array, best: Array) -> Array:
    """σ (u Φ(u) + φ(u)) for u = (μ − best)/σ."""
    u = (mean - best) / std
    return std * (u * 0.5 * (1 + erf(u / np.sqrt(2))) + np.exp(-u * u / 2) / np.sqrt(2 * np.pi))


def regret(given: Functions, law: Law | None, rounds: int, *, bandit: bool, seed: int = 1) -> Array:
    """The regret of each function, (B,), in per cent of its range: see above. A law of None chooses at random."""
    choice, noise = np.random.default_rng(seed).spawn(2)
    rows, span = np.arange(len(given.x)), np.ptp(given.values, 1)
    asked = choice.integers(given.x.shape[1], size=(len(rows), 1))  # (B, M)
    y = given.values[rows[:, None], asked] + 0.02 * noise.standard_normal(asked.shape)
    for _ in range(rounds - bandit):
        drawn = choice.standard_normal(given.x.shape)
        if law is None:
            merit = drawn
        else:
            mean, std = law(given.x[rows[:, None], asked], y, given.x)
            merit = mean + std * drawn if bandit else expected_improvement(mean, std, y.max(1, keepdims=True))
        following = merit.argmax(1)[:, None]
        asked = np.concatenate([asked, following], 1)
        found = given.values[rows[:, None], following] + 0.02 * noise.standard_normal(following.shape)
        y = np.concatenate([y, found], 1)
    lost = given.values.max(1, keepdims=True) - given.values[rows[:, None], asked]  # (B, M)
    return 100 * (lost.mean(1) if bandit else lost.min(1)) / span


def both(law: Callable[[Functions], Law | None], count: int = FUNCTIONS) -> dict[str, list[float]]:
    """Mean regret in optimisation and in the bandit, with standard errors."""
    on_line, arms = functions(count, PLACES), functions(count, ARMS, seed=2)
    return {
        "optimisation": mean_and_error(regret(on_line, law(on_line), OBSERVATIONS, bandit=False)),
        "bandit": mean_and_error(regret(arms, law(arms), ROUNDS, bandit=True)),
    }


def names() -> list[str]:
    """The shipped weights that were trained on RBF functions."""
    return [name for name in shipped() if open_trained(name).configuration["task"] == "rbf"]


def measure() -> Rows:
    """All of them, the exact posterior, and choices at random."""
    rows: Rows = {}
    for name in names():
        model = open_trained(name).model
        rows[name] = both(lambda given, model=model: law_of(model))  # type: ignore[misc]
    rows[EXACT] = both(lambda given: exact(given.process))
    rows[RANDOM] = both(lambda given: None)
    return rows


def tables(rows: Rows) -> list[Table]:
    """Regret in both."""
    return [table("regret in per cent of a function's range", "", {"optimisation": ".2f", "bandit": ".2f"}, rows)]


if __name__ == "__main__":
    command("decisions", measure, tables)
