"""The neural processes and the tasks by name, with options that JSON can hold.

Options are the keyword arguments of the constructors, as far as they are numbers, names or lists of numbers. A model is
one line of `MODELS`, a task one of `TASKS`; the help of `refnp train`, the checks and the messages follow from these.
"""

import difflib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from refnp.autograd.errors import shown
from refnp.layers.set_convolution import GridOptions
from refnp.models.attentive import ANP, CANP
from refnp.models.bootstrap import BANP, BNP
from refnp.models.convcnp import ConvCNP
from refnp.models.convgnp import ConvGNP
from refnp.models.latent import LatentNP
from refnp.models.neural_process import CNP, NeuralProcess
from refnp.models.pseudo_tokens import PseudoTETNP, PseudoTNP
from refnp.models.te_tnp import TETNP
from refnp.models.tnp import TNPA, TNPD, TNPND
from refnp.tasks.gaussian_process import GaussianProcessTasks
from refnp.tasks.protocols import bruinsma, gordon, tnp
from refnp.tasks.sawtooth import SawtoothTasks

Sampler = GaussianProcessTasks | SawtoothTasks


@dataclass(frozen=True)
class Kind:
    """How a model is made, what it is in a few words, and the learning rate that suits it."""

    make: Callable[..., NeuralProcess]
    about: str
    learning_rate: float = 5e-4


MODELS = {
    "cnp": Kind(CNP, "conditional neural process: one vector for the context"),
    "canp": Kind(CANP, "attentive conditional neural process"),
    "convcnp": Kind(partial(ConvCNP.gordon, "xl"), "convolutional, with a U-Net (Gordon's XL)", 3e-3),
    "convcnp-simple": Kind(partial(ConvCNP.gordon, "simple"), "convolutional, 4 layers without strides", 3e-3),
    "convcnp-bruinsma": Kind(ConvCNP.bruinsma, "convolutional, with Bruinsma's U-Net", 1e-3),
    "convgnp": Kind(ConvGNP.bruinsma, "convolutional, a joint normal prediction", 1e-3),
    "np": Kind(LatentNP, "latent neural process"),
    "anp": Kind(ANP, "attentive latent neural process"),
    "bnp": Kind(BNP, "bootstrapping neural process: an ensemble of CNPs"),
    "banp": Kind(BANP, "bootstrapping attentive neural process"),
    "tetnp": Kind(TETNP, "translation equivariant Transformer neural process"),
    "pseudo-tnp": Kind(PseudoTNP, "Transformer neural process with pseudo-tokens"),
    "pseudo-tetnp": Kind(PseudoTETNP, "translation equivariant, with pseudo-tokens"),
    "tnpd": Kind(TNPD, "Transformer neural process, each target by itself"),
    "tnpa": Kind(TNPA, "Transformer neural process, target after target"),
    "tnpnd": Kind(TNPND, "Transformer neural process with a covariance"),
}
TASKS: dict[str, partial[Any]] = {
    "eq": partial(bruinsma, "eq"),
    "matern": partial(bruinsma, "matern"),
    "weakly-periodic": partial(bruinsma, "weakly_periodic"),
    "sawtooth": partial(bruinsma, "sawtooth"),
    "rbf": partial(tnp, "rbf"),
    "tnp-matern": partial(tnp, "matern"),
    "tnp-periodic": partial(tnp, "periodic"),
    "gordon-eq": partial(gordon, "eq"),
    "gordon-matern": partial(gordon, "matern"),
    "gordon-noisy-mixture": partial(gordon, "noisy_mixture"),
    "gordon-weakly-periodic": partial(gordon, "weakly_periodic"),
    "gordon-sawtooth": partial(gordon, "sawtooth"),
}
PROTOCOLS = {"Bruinsma (2022)": bruinsma, "TNP-pytorch": tnp, "Gordon et al. (2020)": gordon}

NOT_OPTIONS = (
    "dx",
    "dy",
    "context_dy",
    "rng",
    "grid",
)  # the first three are the task's, "rng" the seed's; for the last:
GRID = {"points_per_unit": 64.0, "margin": 0.1}  # options of a model with a grid, as fields of its GridOptions
KINDS: dict[type, tuple[str, Callable[[Any], bool]]] = {  # of options, by the default
    bool: ("true or false", lambda value: type(value) is bool),
    int: ("a whole number", lambda value: type(value) is int),
    float: ("a number", lambda value: type(value) in (int, float)),
    str: ("a word", lambda value: type(value) is str),
    type(None): ("a whole number or null", lambda value: value is None or type(value) is int),
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
    dtype: DTypeLike = np.float32,
    rng: np.random.Generator,
) -> NeuralProcess:
    """A new model with random weights. ValueError for an unknown name, or options that do not fit the model."""
    kind = named("model", name, MODELS)
    checked = {option: fitting(name, option, value) for option, value in options.items()}
    if on_grid := {option: checked.pop(option) for option in GRID if option in checked}:
        checked["grid"] = GridOptions(**on_grid)
    return kind.make(dx=dx, dy=dy, **checked, rng=rng).astype(dtype)


def options_of(name: str) -> dict[str, Any]:
    """The options of a model with their defaults, without those that are functions."""
    parameters = inspect.signature(named("model", name, MODELS).make).parameters
    defaults = {option: p.default for option, p in parameters.items() if option not in NOT_OPTIONS}
    defaults |= GRID if "grid" in parameters else {}
    return {option: default for option, default in defaults.items() if not callable(default)}


def fitting(name: str, option: str, value: Any) -> Any:
    """The value of an option, or ValueError unless the model has it and its default is of the same kind."""
    defaults = options_of(name)
    if option not in defaults:
        raise ValueError(f"{name}: {unknown('option', option, defaults)}")
    default = defaults[option]
    kind, fits = KINDS[type(default)]
    if not fits(value):
        raise ValueError(f"{name}: {option} is {shown(value)}; it must be {kind}, such as {json.dumps(default)}")
    return value


def sampler(name: str) -> Sampler:
    """The sampler of a task; ValueError for an unknown name."""
    return named("task", name, TASKS)()


def listing() -> str:
    """The models and tasks with what they are, as the help of `refnp train` shows them."""
    lines = ["models:", *(f"  {name:18}{kind.about}" for name, kind in MODELS.items()), "", "tasks:"]
    for about, protocol in PROTOCOLS.items():
        names = "  ".join(name for name, task in TASKS.items() if task.func is protocol)
        lines += [f"  {about}:", f"    {names}"]
    return "\n".join(lines)


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
