"""Evaluation: how likely a model finds the truth, how far it is from the exact posterior, whether its intervals hold.

Per target, on new tasks inside the range of training, the same ones shifted, and beyond the range:

    marginal log-likelihood    (1/N) Σ_n log q(y_n | C)        beside the exact posterior's, and the difference
    joint log-likelihood       (1/N) log q(y_1, …, y_N | C)    likewise; another quantity, in a table of its own
    KL                         (1/N) KL(exact ‖ Π_n q(y_n | C)), at best the exact posterior's own diagonal KL, and of
                               the joint q, by formula for TNP-ND, else estimated by the difference of log-likelihoods
    RMSE                       of the mean
    coverage                   how many targets lie in the central 50, 90, 95 % of q(y_n | C)

The q are the model's own: its `marginal` and its `joint_log_prob`. Each figure is a mean over tasks with its standard
error. Numbers of points are drawn for each task, and not once for a batch as in training: tasks are distributed
as in training, but they are independent, which makes the error of the mean several times smaller. All places see the
same draws, so a shift that changes nothing changes no digit.
"""

import dataclasses
import importlib.util
import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from refnp import autograd as ag
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array
from refnp.layers.distributions import Normal
from refnp.layers.mixture import Mixture
from refnp.models.joint import Autoregressive
from refnp.models.neural_process import NeuralProcess
from refnp.studies.registry import Sampler
from refnp.tasks.gaussian_process import Posterior
from refnp.tasks.task import Task

PLACES = ("inside", "shifted", "beyond")
SHIFT = 4.0
COVERAGES = (50, 90, 95)
BATCH = 16  # tasks in a call of the model


class Figure(NamedTuple):
    """A mean and its standard error."""

    mean: float
    error: float


Figures = dict[str, Figure]


def evaluate(
    model: NeuralProcess,
    tasks: Sampler,
    *,
    count: int = 1024,
    seed: int = 0,
    shift: float = SHIFT,
    autoregressive: bool = False,
    watched: Callable[[Iterable], Iterable] = iter,
) -> dict[str, Figures]:
    """The figures at each of the `PLACES`, by name, on `count` tasks at each.

    shift: by how much the places of the shifted tasks are moved.
    autoregressive: the joint likelihood by the chain rule, in the order of the targets, also of models without one.
    watched: is given the batches to come, and may show how far it is.
    Raises ValueError for fewer than two tasks, which have no standard error, a negative seed or an infinite shift.
    """
    if count < 2:
        raise ValueError(f"evaluate: count is {count}; a standard error needs at least 2 tasks")
    if seed < 0 or not np.isfinite(shift):
        raise ValueError(f"evaluate: seed is {seed}, shift {shift}; they must be 0 or more, and finite")
    tasks, sizes = independent(tasks), [min(BATCH, count - done) for done in range(0, count, BATCH)]
    generators = {place: np.random.default_rng(seed).spawn(2) for place in PLACES}  # the same for all of them
    rows: dict[str, list[dict[str, Array]]] = {place: [] for place in PLACES}
    for place, size in watched([(place, size) for place in PLACES for size in sizes]):
        draws, latent = generators[place]
        task, posterior = drawn_at(place, tasks, draws, size, shift)
        rows[place].append(figures_on(model, task, posterior, latent, autoregressive))
    return {place: summary(found) for place, found in rows.items()}


def independent(tasks: Sampler) -> Sampler:
    """The same tasks with numbers of points drawn for each of them, and not once for a batch: see `Places`."""
    return dataclasses.replace(tasks, places=dataclasses.replace(tasks.places, ragged=True))


def drawn_at(
    place: str, tasks: Sampler, rng: np.random.Generator, batch: int, shift: float = SHIFT
) -> tuple[Task, Posterior | None]:
    """`batch` tasks at a place and their exact posterior, or None; the same generator draws the same functions.

    The exact posterior of shifted tasks is that of the tasks themselves, for all kernels here are stationary.
    """
    if place == "beyond":
        tasks = beyond(tasks)
    task, posterior = tasks.sample_with_posterior(rng, batch)
    return (task.shifted(shift) if place == "shifted" else task), posterior


def beyond(tasks: Sampler) -> Sampler:
    """The same tasks with targets next to the range of the contexts: as far to the right as that is wide."""
    low, high = np.asarray(tasks.places.context_range)
    places = dataclasses.replace(tasks.places, target_range=(high, high + (high - low)))
    return dataclasses.replace(tasks, places=places)


# The figures of a batch


def figures_on(
    model: NeuralProcess, task: Task, posterior: Posterior | None, rng: np.random.Generator, autoregressive: bool
) -> dict[str, Array]:
    """The figures of each task of a batch, (B,): sums over targets divided by their number."""
    own = task.astype(model.parameters()[0].dtype)
    each = by_itself(model, own, rng)
    joint = together(model, own, rng, autoregressive=autoregressive)
    targets = np.maximum(task.target_present.sum(-1), 1)  # (B,)
    log_p = raw(each.log_prob(task.target_y, mask=task.target_present[..., None]))  # (B, N, dy)
    found = {"marginal log-likelihood": log_p.sum((1, 2)) / targets}
    if joint is not None:
        found["joint log-likelihood"] = joint / targets
    found |= calibration(each, task)
    if posterior is not None:
        found |= exact_figures(found, posterior, task)
        if isinstance(each, Normal):
            found |= {"KL by itself": posterior.kl(each), "exact KL by itself": posterior.diagonal_kl()}
        with ag.no_grad():
            normal = None if autoregressive else model.joint_normal(own)
        if normal is not None:
            found["KL together"] = posterior.kl(normal)
        elif joint is not None:
            found["KL together"] = posterior.kl_estimate(joint)
    return found


def by_itself(model: NeuralProcess, task: Task, rng: np.random.Generator) -> Normal | Mixture:
    """q(y_n | x_n, C) of every target, elements (B, N, dy), in float64. `rng` draws z for latent models."""
    with ag.no_grad():
        found = model.marginal(task, rng=rng)
    return Mixture(in_double(found.components)) if isinstance(found, Mixture) else in_double(found)


def in_double(normal: Normal) -> Normal:
    """The same numbers in float64, so that the sums that follow round no more."""
    return Normal(*(raw(parameter).astype(np.float64) for parameter in (normal.mean, normal.std)))


def together(model: NeuralProcess, task: Task, rng: np.random.Generator, *, autoregressive: bool) -> Array | None:
    """log q(y_1, …, y_N | C) of the present targets, (B,); None of a model that is trained on each target alone.

    With `autoregressive` by the chain rule in the order of the targets, whatever the model has.
    """
    law = Autoregressive(model) if autoregressive else model
    if not law.joint_loss:
        return None
    with ag.no_grad():
        return raw(law.joint_log_prob(task, rng=rng)).astype(np.float64)


def calibration(each: Normal | Mixture, task: Task) -> dict[str, Array]:
    """The squared error of the mean, and the part of the targets in each central interval, (B,)."""
    below = raw(each.cdf(task.target_y))  # (B, N, dy)
    found = {"squared error": mean_of((task.target_y - raw(each.mean)) ** 2, task)}
    for percent in COVERAGES:
        found[f"coverage {percent} %"] = mean_of(np.abs(below - 0.5) <= percent / 200, task)
    return found


def exact_figures(found: dict[str, Array], posterior: Posterior, task: Task) -> dict[str, Array]:
    """The exact posterior's figures, and by how much its likelihoods are larger than those found."""
    exact = {
        "exact marginal log-likelihood": posterior.marginal_log_likelihood(),
        "exact joint log-likelihood": posterior.joint_log_likelihood(),
        "exact squared error": mean_of((task.target_y - posterior.mean) ** 2, task),
    }
    for kind in ("marginal", "joint"):
        if f"{kind} log-likelihood" in found:
            exact[f"{kind} gap"] = exact[f"exact {kind} log-likelihood"] - found[f"{kind} log-likelihood"]
    return exact


def mean_of(values: Array, task: Task) -> Array:
    """The mean of values (B, N, dy) over the targets present, (B,)."""
    mask = np.broadcast_to(task.target_present[..., None], values.shape)
    return np.where(mask, values, 0).sum((1, 2)) / np.maximum(mask.sum((1, 2)), 1)


def summary(batches: list[dict[str, Array]]) -> Figures:
    """Means over the tasks with their standard errors; roots of the squared errors."""
    found: Figures = {}
    for name in batches[0]:
        values = np.concatenate([batch[name] for batch in batches])
        mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
        if name.endswith("squared error"):
            root = mean**0.5
            found[name.replace("squared error", "RMSE")] = Figure(root, error / (2 * root) if root else 0.0)
        else:
            found[name] = Figure(mean, error)
    return found


# As JSON and as tables


def as_json(value: Any) -> Any:
    """Figures as JSON has them: {"mean": …, "error": …}, None for what is not finite."""
    if isinstance(value, Figure):
        return {name: part if np.isfinite(part) else None for name, part in value._asdict().items()}
    return {name: as_json(part) for name, part in value.items()}


class Table(NamedTuple):
    """A title, names of columns, and rows of cells, the first of which says where."""

    title: str
    heading: list[str]
    rows: list[list[str]]


COLUMNS = {  # of each table: what stands above a column, and the name of its figure
    "marginal log-likelihood per target": {
        "model": "marginal log-likelihood",
        "exact posterior": "exact marginal log-likelihood",
        "oracle gap": "marginal gap",
    },
    "joint log-likelihood per target": {
        "model": "joint log-likelihood",
        "exact posterior": "exact joint log-likelihood",
        "oracle gap": "joint gap",
    },
    "KL(exact posterior ‖ model) per target": {
        "each by itself": "KL by itself",
        "exact marginals": "exact KL by itself",
        "all together": "KL together",
    },
    "RMSE of the mean": {"model": "RMSE", "exact posterior": "exact RMSE"},
    "targets within the central interval": {f"{p} %": f"coverage {p} %" for p in COVERAGES},
}


def tables(places: dict[str, Figures], shift: float) -> list[Table]:
    """The figures, by place and name: marginal and joint likelihoods in tables of their own."""
    where = {"inside": "inside", "shifted": f"shifted by {shift:g}", "beyond": "beyond the range"}
    found = []
    for title, columns in COLUMNS.items():
        names = {column: name for column, name in columns.items() if name in places["inside"]}
        if any(not name.startswith("exact") for name in names.values()):
            rows = [[where[p], *(cell(name, f[name]) for name in names.values())] for p, f in places.items()]
            found.append(Table(title, ["", *names], rows))
    return found


def cell(name: str, figure: Figure) -> str:
    """A figure with its standard error; coverages in per cent."""
    if name.startswith("coverage"):
        return f"{100 * figure.mean:.1f} ± {100 * figure.error:.1f} %"
    return f"{figure.mean:.4f} ± {figure.error:.4f}"


def show(table: Table) -> None:
    """Print a table: drawn on a terminal where `rich` is installed, else in plain text."""
    if importlib.util.find_spec("rich") is None or not sys.stdout.isatty():
        print("\n".join(["", *plain(table)]))
        return
    from rich.console import Console
    from rich.table import Table as Drawn

    drawn = Drawn(title=table.title, title_justify="left")
    for i, name in enumerate(table.heading):
        drawn.add_column(name, justify="right" if i else "left", no_wrap=True)
    for row in table.rows:
        drawn.add_row(*row)
    Console().print(drawn)


def plain(table: Table) -> list[str]:
    """A table as lines of text, columns aligned to the right."""
    rows = [table.heading, *table.rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [table.title]
    for first, *others in rows:
        cells = [first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]
        lines.append(f"  {'  '.join(cells)}".rstrip())
    return lines
