"""`refnp sweep FILE`: a table of runs of `refnp train`, each with a folder of its own, shared by several workers.

FILE is TOML:

    models = ["convcnp", "tnpd"]     every model is trained on every task with every seed
    tasks = ["eq"]
    seeds = [0, 1, 2]
    steps = 2000

    folder = "runs"                  beside FILE (default: the name of FILE without .toml)
    batch = 16                       and learning_rate, schedule, clip, dtype as of refnp train
    every = 500                      steps from one validation to the next
    evaluated = 256                  draws of a task on which a finished run is evaluated, the same for all
    also = ["matern"]                tasks on which each is evaluated beside its own
    places = ["inside", "shifted"]   where, as of refnp evaluate (default: inside)
    shown = ["KL by itself"]         figures in the table, by the names of refnp evaluate --json (default: SHOWN below)

    [options.convcnp]                of a model
    points_per_unit = 16

    [published.convcnp.eq]           figures to show beside one's own, at the first place or at each
    "KL by itself" = [0.41, 0.41]

A run that was stopped goes on where it was, to the same bits; one that is finished is not run again. Its folder has the
checkpoint and figures.json, of which the table is made, with the machine, the time since the run was last begun, and
the best validation, by which to choose one of several seeds before what they were evaluated on is seen.
"""

import functools
import itertools
import json
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from refnp.autograd.tensor import Array
from refnp.files import write_whole
from refnp.pieces import in_order, workers_for
from refnp.studies import evaluation, plotting, training
from refnp.studies.registry import MODELS, TASKS, named, sampler
from refnp.studies.trained import open_trained
from refnp.training.checkpoint import load
from refnp.version import processor

SHOWN = ("marginal log-likelihood", "joint log-likelihood", "KL by itself", "RMSE")
SETTINGS = ("batch", "learning_rate", "schedule", "clip", "dtype")


@dataclass(frozen=True)
class Run:
    """One run: what is trained, how long, on which tasks it is evaluated, and the folder of checkpoint and figures."""

    study: training.Study
    steps: int
    every: int
    evaluated: int
    tasks: Sequence[str]
    folder: str

    @property
    def name(self) -> str:
        """ "convcnp on eq, seed 0"."""
        return f"{self.study.model} on {self.study.task}, seed {self.study.seed}"

    @property
    def checkpoint(self) -> Path:
        """Where the run is kept."""
        return Path(self.folder) / "checkpoint.npz"

    @property
    def about(self) -> dict[str, Any]:
        """What its figures hang on."""
        evaluated = dict.fromkeys(self.tasks, self.evaluated)
        return {"configuration": self.study.configuration(), "steps": self.steps, "evaluated": evaluated}

    def figures(self) -> dict[str, Any] | None:
        """The figures of a finished run, by task and place, else None."""
        file = Path(self.folder) / "figures.json"
        found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        return found["figures"] if found.get("about") == self.about else None

    def complete(self) -> None:
        """Train to the end, or go on, and evaluate."""
        began = time.process_time()
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        training.run(self.study, steps=self.steps, checkpoint=str(self.checkpoint), every=self.every, show=False)
        trained = open_trained(self.checkpoint)
        figures = {task: evaluation.evaluate(trained.model, sampler(task), count=self.evaluated) for task in self.tasks}
        best = -float(load(self.checkpoint).history["validation"].min())  # a log-likelihood, of the weights evaluated
        made = {"on": processor(), "numpy": np.__version__, "processor seconds": round(time.process_time() - began)}
        found = {"about": self.about, "made": made, "validation": best, "figures": evaluation.as_json(figures)}
        write_whole(Path(self.folder) / "figures.json", (json.dumps(found) + "\n").encode())


@dataclass(frozen=True)
class Sweep:
    """What a file says; `published` are figures by model, task and name, one or a list in the order of `places`.

    Raises ValueError for what is unknown or missing.
    """

    models: Sequence[str]
    tasks: Sequence[str]
    seeds: Sequence[int]
    steps: int
    folder: str
    every: int = 500
    evaluated: int = 256
    also: Sequence[str] = ()
    places: Sequence[str] = ("inside",)
    shown: Sequence[str] = SHOWN
    settings: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    published: Mapping[str, Mapping[str, Mapping[str, float | Sequence[float]]]] = field(default_factory=dict)

    def runs(self) -> list[Run]:
        """All runs, seeds last."""
        found = []
        for model, task, seed in itertools.product(self.models, self.tasks, self.seeds):
            study = training.Study(model, task, options=self.options.get(model, {}), seed=seed, **self.settings)
            folder = str(Path(self.folder) / f"{model}-{task}" / f"seed-{seed}")
            tasks = (task, *self.also)
            found.append(Run(study, self.steps, self.every, self.evaluated, tasks, folder))
        return found


def opened(file: str | Path) -> Sweep:
    """The sweep in a file; ValueError for one that is no TOML, lacks something, or has what is unknown."""
    path = Path(file)
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as wrong:
        raise ValueError(f"{file} is no TOML: {wrong}") from wrong
    settings = {name: said.pop(name) for name in SETTINGS if name in said}
    names = set(Sweep.__dataclass_fields__) - {"settings"}
    if missing := [name for name in ("models", "tasks", "seeds", "steps") if name not in said]:
        raise ValueError(f"{file}: {', '.join(missing)} must be given")
    if unknown := sorted(set(said) - names):
        raise ValueError(f"{file}: there is no {unknown[0]!r}; name {', '.join(sorted(names | set(SETTINGS)))}")
    places = dict.fromkeys(evaluation.PLACES)
    for key, kind, known in (
        ("models", "model", MODELS),
        ("tasks", "task", TASKS),
        ("also", "task", TASKS),
        ("places", "place", places),
        ("shown", "figure", dict.fromkeys(SHOWN)),
    ):
        for name in said.get(key, ()):
            named(kind, name, known)
    said["folder"] = str(path.resolve().parent / said.get("folder", path.stem))  # workers may run elsewhere
    return Sweep(**said, settings=settings)


def completed(run: Run) -> str:
    """What came of a run, finished here."""
    run.complete()
    return run.name


def sweep(
    file: str, *, jobs: int | None, cluster: str | None, status: bool, table: bool, plot: str | None = None
) -> int:
    """Finish all runs of a file, or show how far they are, their table or their curves; 1 if one has failed."""
    found = opened(file)
    runs = found.runs()
    if status:
        print("\n".join(map(state, runs)))
        return 0
    if plot is not None:
        plotting.plot_curves(curves(found), Path(file).stem, Path(plot))
        print(f"drawn in {plot}")
        return 0
    if not table:
        left = [run for run in runs if run.figures() is None]
        print(f"{len(runs)} runs, of which {len(runs) - len(left)} are finished", flush=True)
        lost = functools.partial("{0.name}: not finished, the process died".format)
        workers = workers_for(len(left), jobs, cluster, few=2)
        for done in in_order(completed, left, workers, named=lambda run: run.name, lost=lost):
            print(done, flush=True)
    print("\n".join(["", *evaluation.plain(table_of(found))]))
    return int(any(run.figures() is None for run in runs))


def state(run: Run) -> str:
    """How far a run is, in a line."""
    if run.figures() is not None:
        return f"{run.name}: finished"
    return f"{run.name}: {training.steps_done(run.study, str(run.checkpoint))} of {run.steps} steps"


def curves(found: Sweep) -> dict[str, tuple[Array, Array]]:
    """Steps (S,) and validations (seeds, S) of every model and task, as far as all seeds that have begun have come."""
    by_name: dict[str, list[Mapping[str, Array]]] = {}
    for run in found.runs():
        if run.checkpoint.exists():
            by_name.setdefault(f"{run.study.model} on {run.study.task}", []).append(load(run.checkpoint).history)
    shown = {}
    for name, own in by_name.items():
        count = min(len(history.get("validation", ())) for history in own)
        shown[name] = own[0]["validation step"][:count], np.array([h["validation"][:count] for h in own])
    if not shown:
        raise ValueError("no run has a validation yet")
    return shown


def table_of(found: Sweep) -> evaluation.Table:
    """Mean ± standard deviation over the seeds that are finished, beside the exact posterior and what is published."""
    rows = []
    for model, task in itertools.product(found.models, found.tasks):
        own = [run.figures() for run in found.runs() if (run.study.model, run.study.task) == (model, task)]
        done = [figures for figures in own if figures is not None]
        for asked, place, name in itertools.product((task, *found.also), found.places, found.shown):
            here = [figures[asked][place] for figures in done]
            values = [figures[name]["mean"] for figures in here if name in figures]
            if values:
                exact = [figures[f"exact {name}"]["mean"] for figures in here if f"exact {name}" in figures]
                beside = [f"{np.mean(exact):.4f}" if exact else "", published_at(found, model, asked, name, place)]
                seeds = f"{len(values)} of {len(own)}"
                rows.append([f"{model} on {task}", asked, place, name, spread(values), *beside, seeds])
    heading = ["trained", "asked", "where", "", "mean ± deviation over seeds", "exact posterior", "published", "seeds"]
    return evaluation.Table(f"per target, on {found.evaluated} draws of a task", heading, rows)


def published_at(found: Sweep, model: str, task: str, name: str, place: str) -> str:
    """The published figure, or nothing."""
    said = found.published.get(model, {}).get(task, {}).get(name, ())
    each = said if isinstance(said, Sequence) else (said,)
    return next((f"{value:.2f}" for value, where in zip(each, found.places, strict=False) if where == place), "")


def spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation; of one value, itself."""
    deviation = f" ± {np.std(values, ddof=1):.4f}" if len(values) > 1 else ""
    return f"{np.mean(values):.4f}{deviation}"
