"""The tasks by name, and where they are asked: inside the range of training, shifted, and beyond it.

eq matern weakly-periodic sawtooth          Bruinsma's protocol
rbf tnp-matern tnp-periodic                 TNP-pytorch's
gordon-…                                    Gordon et al.'s

inside      as in training
shifted     the same tasks, x + 4 for contexts and targets: the same functions elsewhere
beyond      contexts inside, targets next to it: x_t in (2, 6) for contexts in (−2, 2)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.studies.names import named
from refnp.tasks.gaussian_process import GaussianProcessTasks
from refnp.tasks.posterior import Posterior
from refnp.tasks.protocols import bruinsma, gordon, tnp
from refnp.tasks.sawtooth import SawtoothTasks
from refnp.tasks.task import Task

Sampler = GaussianProcessTasks | SawtoothTasks

TASKS: dict[str, Callable[[], Sampler]] = {
    "eq": lambda: bruinsma("eq"),
    "matern": lambda: bruinsma("matern"),
    "weakly-periodic": lambda: bruinsma("weakly_periodic"),
    "sawtooth": lambda: bruinsma("sawtooth"),
    "rbf": lambda: tnp("rbf"),
    "tnp-matern": lambda: tnp("matern"),
    "tnp-periodic": lambda: tnp("periodic"),
    "gordon-eq": lambda: gordon("eq"),
    "gordon-matern": lambda: gordon("matern"),
    "gordon-noisy-mixture": lambda: gordon("noisy_mixture"),
    "gordon-weakly-periodic": lambda: gordon("weakly_periodic"),
    "gordon-sawtooth": lambda: gordon("sawtooth"),
}
SHIFT = 4.0


def sampler(name: str) -> Sampler:
    """The sampler of a task; ValueError for an unknown name."""
    return named("task", name, TASKS)()


def dimensions(tasks: Sampler) -> tuple[int, int]:
    """(dx, dy) of a task."""
    return tasks.places.dx, getattr(tasks, "outputs", 1)


def drawn(tasks: Sampler, rng: np.random.Generator, batch: int) -> tuple[Task, Posterior | None]:
    """`batch` tasks and their exact posterior; None where the functions come from no Gaussian process."""
    if not isinstance(tasks, GaussianProcessTasks):
        return tasks.sample(rng, batch), None
    task, process = tasks.sample_with_process(rng, batch)
    return task, process.posterior(task)


def drawn_at(tasks: Sampler, where: str, rng: np.random.Generator, batch: int, shift: float = SHIFT) -> Any:
    """The same as `drawn`, "inside", "shifted" or "beyond": the same generator draws the same functions.

    The exact posterior of shifted tasks is that of the tasks themselves, for all kernels here are stationary.
    """
    if where == "beyond":
        tasks = beyond(tasks)
    task, posterior = drawn(tasks, rng, batch)
    return (task.shifted(shift) if where == "shifted" else task), posterior


def independent(tasks: Sampler) -> Sampler:
    """The same tasks with counts of points drawn for each of them, and not once for a batch: see `Places`."""
    return dataclasses.replace(tasks, places=dataclasses.replace(tasks.places, ragged=True))


def beyond(tasks: Sampler) -> Sampler:
    """The same tasks with targets next to the range of the contexts: as far to the right as that is wide."""
    low, high = np.asarray(tasks.places.context_range)
    places = dataclasses.replace(tasks.places, target_range=(high, high + (high - low)))
    return dataclasses.replace(tasks, places=places)
