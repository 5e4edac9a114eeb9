"""The neural processes by name, with options that JSON can hold: from what a command line or a checkpoint says.

    cnp canp            one vector for the context; attention beside it            marginal likelihood
    np anp              the same with a latent vector                              a bound on the joint one
    tnpd tnpa tnpnd     Transformers: diagonal, autoregressive, with covariance    marginal, joint, joint
    convcnp …           convolutions on a grid                                     marginal
    tetnp               a Transformer of differences of places                     marginal

Options are the keyword arguments of the constructors, as far as they are numbers, names or lists of numbers.

The tasks by name, and where they are asked: inside the range of training, shifted, and beyond it.

eq matern weakly-periodic sawtooth          Bruinsma's protocol
rbf tnp-matern tnp-periodic                 TNP-pytorch's
gordon-…                                    Gordon et al.'s

inside      as in training
shifted     the same tasks, x + 4 for contexts and targets: the same functions elsewhere
beyond      contexts inside, targets next to it: x_t in (2, 6) for contexts in (−2, 2)

Names that people type: found, or refused with the ones that are close.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.models.attentive import ANP, CANP
from refnp.models.convcnp import ConvCNP
from refnp.models.latent import LatentNP
from refnp.models.neural_process import CNP, NeuralProcess
from refnp.models.te_tnp import TETNP
from refnp.models.tnp import TNPA, TNPD, TNPND
from refnp.tasks.gaussian_process import GaussianProcessTasks, Posterior
from refnp.tasks.protocols import bruinsma, gordon, tnp
from refnp.tasks.sawtooth import SawtoothTasks
from refnp.tasks.task import Task


def convcnp(
    dx: int = 1, dy: int = 1, *, points_per_unit: float = 64.0, margin: float = 0.1, rng: np.random.Generator
) -> ConvCNP:
    """The ConvCNP of Gordon et al. with a U-Net of 12 layers ("XL"): 50 612 parameters for dx = dy = 1."""
    return ConvCNP.gordon("xl", dx=dx, dy=dy, points_per_unit=points_per_unit, margin=margin, rng=rng)


def convcnp_simple(
    dx: int = 1, dy: int = 1, *, points_per_unit: float = 64.0, margin: float = 0.1, rng: np.random.Generator
) -> ConvCNP:
    """The same with 4 layers of convolution: 6 532 parameters."""
    return ConvCNP.gordon("simple", dx=dx, dy=dy, points_per_unit=points_per_unit, margin=margin, rng=rng)


def convcnp_bruinsma(
    dx: int = 1,
    dy: int = 1,
    *,
    channels: Sequence[int] = (64,) * 6,
    points_per_unit: float = 64.0,
    margin: float = 0.1,
    upsampling: str = "transposed",
    divide: bool = True,
    rng: np.random.Generator,
) -> ConvCNP:
    """The ConvCNP of neuralprocesses, a U-Net with means: 329 220 parameters."""
    return ConvCNP.neuralprocesses(
        channels,
        dx=dx,
        dy=dy,
        points_per_unit=points_per_unit,
        margin=margin,
        upsampling=upsampling,
        divide=divide,
        rng=rng,
    )


@dataclass(frozen=True)
class Kind:
    """How a model is made, what it is in a few words, and the learning rate that suits it."""

    make: Callable[..., NeuralProcess]
    about: str
    learning_rate: float


MODELS = {
    "cnp": Kind(CNP, "conditional neural process", 5e-4),
    "canp": Kind(CANP, "attentive conditional neural process", 5e-4),
    "np": Kind(LatentNP, "latent neural process", 5e-4),
    "anp": Kind(ANP, "attentive latent neural process", 5e-4),
    "tnpd": Kind(TNPD, "Transformer neural process, each target by itself", 5e-4),
    "tnpa": Kind(TNPA, "Transformer neural process, target after target", 5e-4),
    "tnpnd": Kind(TNPND, "Transformer neural process with a covariance", 5e-4),
    "convcnp": Kind(convcnp, "convolutional, with a U-Net (Gordon's XL)", 3e-3),
    "convcnp-simple": Kind(convcnp_simple, "convolutional, 4 layers without strides", 3e-3),
    "convcnp-bruinsma": Kind(convcnp_bruinsma, "convolutional, with the U-Net of neuralprocesses", 1e-3),
    "tetnp": Kind(TETNP, "translation equivariant Transformer neural process", 5e-4),
}
NOT_OPTIONS = ("dx", "dy", "rng")  # the first two are the task's, the last the seed's
KINDS: dict[type, tuple[str, Callable[[Any], bool]]] = {  # of options, by the default
    bool: ("true or false", lambda value: type(value) is bool),
    int: ("a whole number", lambda value: type(value) is int),
    float: ("a number", lambda value: type(value) in (int, float)),
    str: ("a word", lambda value: type(value) is str),
    tuple: (
        "a list of whole numbers",
        lambda value: type(value) in (list, tuple) and all(type(n) is int for n in value),
    ),
}


def build(
    name: str,
    options: Mapping[str, Any],
    *,
    dx: int = 1,
    dy: int = 1,
    dtype: Any = np.float32,
    rng: np.random.Generator,
) -> NeuralProcess:
    """A new model with random weights. ValueError for an unknown name, or options that do not fit the model."""
    kind = named("model", name, MODELS)
    checked = {option: fitting(name, option, value) for option, value in options.items()}
    return kind.make(dx=dx, dy=dy, **checked, rng=rng).astype(dtype)


def options_of(name: str) -> dict[str, Any]:
    """The options of a model with their defaults, without those that are functions."""
    parameters = inspect.signature(named("model", name, MODELS).make).parameters
    defaults = {option: p.default for option, p in parameters.items() if option not in NOT_OPTIONS}
    return {option: default for option, default in defaults.items() if not callable(default)}


def fitting(name: str, option: str, value: Any) -> Any:
    """The value of an option, or ValueError unless the model has it and its default is of the same kind."""
    defaults = options_of(name)
    if option not in defaults:
        raise ValueError(f"{name}: {unknown('option', option, defaults)}")
    default = defaults[option]
    kind, fits = KINDS[type(default)]
    if not fits(value):
        raise ValueError(f"{name}: {option} is {value!r}; it must be {kind}, such as {json.dumps(default)}")
    return value


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


def named(what: str, name: str, things: Mapping[str, Any]) -> Any:
    """things[name], or ValueError that suggests the names close to it and lists all."""
    if name not in things:
        raise ValueError(unknown(what, name, things))
    return things[name]


def unknown(what: str, name: str, names: Iterable[str]) -> str:
    """A message: there is no such thing, did you mean …; and all there is."""
    names = list(names)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    meant = f"; did you mean {' or '.join(close)}?" if close else "."
    return f"there is no {what} {name!r}{meant} There are {', '.join(names) or 'none'}"
