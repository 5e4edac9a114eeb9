"""Calibration of the shipped models: whether intervals hold what they promise, and whether the context is reproduced.

    python -m refnp.studies.calibration [--write]

    50 %, 90 %, 95 %     the part of new targets in these central intervals, on the task that was trained on
    misfit               RMSE of the prediction at a task's own context points over that of the exact posterior, the
                         median over tasks: 1 is as near as the data allow, more is underfitting
    Matérn, periodic     the part in the 90 % interval on functions of other kernels, never trained on: overconfident
                         if it is far below 90 %

Counts of points are drawn for each task, as `refnp evaluate` does.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from refnp.models.neural_process import NeuralProcess
from refnp.studies.evaluation import BATCH, COVERAGES, Table, by_itself, calibration, independent, mean_of
from refnp.studies.measured import Rows, command, mean_and_error, table
from refnp.studies.registry import Sampler, sampler
from refnp.studies.trained import open_trained, shipped
from refnp.tasks.gaussian_process import GaussianProcessTasks
from refnp.tasks.task import Task

TASKS = 512
ELSEWHERE = {"90 % Matérn": "tnp-matern", "90 % periodic": "tnp-periodic"}  # for models of the task rbf


def at_context(task: Task) -> Task:
    """The same task, asked about its own context points."""
    return replace(task, target_x=task.context_x, target_y=task.context_y, target_mask=task.context_present)


def held(model: NeuralProcess, tasks: Sampler, count: int = TASKS, seed: int = 0) -> dict[int, list[float]]:
    """The part of the targets in each central interval, in per cent: means over tasks with their standard errors."""
    draws, latent = np.random.default_rng(seed).spawn(2)
    inside: dict[int, list[float]] = {percent: [] for percent in COVERAGES}
    for _ in range(count // BATCH):
        task = independent(tasks).sample(draws, BATCH)
        found = calibration(by_itself(model, own(model, task), latent), task)
        for percent in COVERAGES:
            inside[percent] += list(100 * found[f"coverage {percent} %"])
    return {percent: mean_and_error(values) for percent, values in inside.items()}


def own(model: NeuralProcess, task: Task) -> Task:
    """The task in the model's precision."""
    return task.astype(model.parameters()[0].dtype)


def misfit(model: NeuralProcess, tasks: GaussianProcessTasks, count: int = TASKS, seed: int = 0) -> float:
    """RMSE at a task's own context points over the exact posterior's, the median over tasks."""
    draws, latent = np.random.default_rng(seed).spawn(2)
    ratios = []
    for _ in range(count // BATCH):
        task, process = independent(tasks).sample_with_process(draws, BATCH)  # type: ignore[union-attr]
        again = at_context(task)
        mean = np.asarray(by_itself(model, own(model, again), latent).mean)
        of_model = mean_of((mean - again.target_y) ** 2, again)
        of_exact = mean_of((process.posterior(again).mean - again.target_y) ** 2, again)
        some = again.target_present.any(-1)
        ratios += list(np.sqrt(of_model[some] / of_exact[some]))
    return float(np.median(ratios))


def of(name: str, count: int = TASKS) -> dict[str, Any]:
    """The figures of shipped weights."""
    trained = open_trained(name)
    model, task = trained.model, trained.configuration["task"]
    tasks = sampler(task)
    found: dict[str, Any] = {"task": task}
    found |= {f"{percent} %": figure for percent, figure in held(model, tasks, count).items()}
    if isinstance(tasks, GaussianProcessTasks):
        found["misfit"] = misfit(model, tasks, count)
    if task == "rbf":
        found |= {column: held(model, sampler(other), count)[90] for column, other in ELSEWHERE.items()}
    return found


def measure() -> Rows:
    """All shipped weights."""
    return {name: of(name) for name in shipped()}


def tables(rows: Rows) -> list[Table]:
    """Intervals and misfit."""
    columns = {"task": "s", **{f"{percent} %": ".1f" for percent in COVERAGES}, "misfit": ".2f"}
    columns |= dict.fromkeys(ELSEWHERE, ".1f")
    return [table("targets in central intervals, in per cent; misfit at the context points", "", columns, rows)]


if __name__ == "__main__":
    command("calibration", measure, tables)
