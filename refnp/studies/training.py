"""`refnp train`: one of the models on one of the tasks, beside the exact posterior where there is one.

Progress and history have, beside the loss,

    log-likelihood    per target, as the model was trained: marginal, joint, or a bound on the joint one
    oracle gap        the exact posterior's, of the same kind, on the same tasks, minus the model's: 0 is perfect

A checkpoint's configuration holds the names, the options and all that makes the run what it is but its length. So the
same command goes on with a run that was stopped, to the same bits, and `refnp evaluate` needs nothing else.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from refnp.autograd import Tensor, no_grad
from refnp.autograd.errors import shown
from refnp.models.neural_process import NeuralProcess
from refnp.studies.registry import MODELS, TASKS, Sampler, build, fitting, named, sampler
from refnp.tasks.gaussian_process import Posterior
from refnp.training import loop
from refnp.training.checkpoint import Arrays, load
from refnp.training.optimizers import Adam
from refnp.training.schedules import constant, cosine

SCHEDULES = ("cosine", "constant")
DTYPES = ("float32", "float64")
VALIDATION_BATCH, VALIDATION_BATCHES = 16, 16  # tasks in a batch, and batches


@dataclass(frozen=True)
class Study:
    """What is trained on what, and how. A learning rate of None is the one that suits the model; a `clip` of inf clips
    nothing.

    Raises ValueError for names that are unknown, options that do not fit, numbers that are not positive.
    """

    model: str
    task: str
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    dtype: str = "float32"
    batch: int = 16
    learning_rate: float | None = None
    schedule: str = "cosine"
    clip: float = 1.0

    def __post_init__(self):
        named("task", self.task, TASKS)
        for option, value in self.options.items():
            fitting(self.model, option, value)
        named("schedule", self.schedule, dict.fromkeys(SCHEDULES))
        named("dtype", self.dtype, dict.fromkeys(DTYPES))
        for what, value in (("batch", self.batch), ("learning rate", self.full_rate), ("clip", self.clip)):
            if not value > 0:
                raise ValueError(f"{what} is {value}; it must be positive")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; it must be 0 or more")

    def configuration(self) -> dict[str, Any]:
        """As a checkpoint has it: what JSON gives back."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        clip = self.clip if math.isfinite(self.clip) else None
        text = json.dumps(values | {"options": dict(self.options), "learning_rate": self.full_rate, "clip": clip})
        return json.loads(text)

    @property
    def full_rate(self) -> float:
        """The learning rate that schedules start from."""
        suited = named("model", self.model, MODELS).learning_rate
        return suited if self.learning_rate is None else self.learning_rate

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of a step: a short warm-up, then constant, or half a cosine down to 0 after `steps`."""
        if self.schedule == "constant":
            return constant(step, self.full_rate, warmup=100)
        return cosine(step, self.full_rate, steps, warmup=min(500, steps // 20))

    def new(self) -> tuple[NeuralProcess, Sampler, np.random.Generator]:
        """The model before training, its tasks, and the generator of the run."""
        tasks = sampler(self.task)
        first, second = np.random.default_rng(self.seed).spawn(2)
        dx, dy = tasks.places.dx, tasks.outputs
        return build(self.model, self.options, dx=dx, dy=dy, dtype=self.dtype, rng=first), tasks, second

    def arguments(self, steps: int) -> dict[str, Any]:
        """What `refnp.training.train` needs to do this in so many steps: model, loss, optimizer and settings.

        Validations are on 256 tasks, always the same ones.   Raises ValueError for options that the model refuses when
        it is called.
        """
        model, tasks, rng = self.new()

        def loss(model, rng):
            task, posterior = tasks.sample_with_posterior(rng, self.batch)
            try:
                value = model.loss(task.astype(self.dtype), rng=rng)
            except (ValueError, OverflowError) as wrong:  # the options are all right, and so are the tasks
                raise FloatingPointError(f"the training has diverged, try a smaller learning rate: {wrong}") from wrong
            return value, figures(model, value, posterior)

        def validate(model, rng):
            rows = []
            for _ in range(VALIDATION_BATCHES):
                task, posterior = tasks.sample_with_posterior(rng, VALIDATION_BATCH)
                rows.append(figures(model, model.loss(task.astype(self.dtype), rng=rng), posterior))
            means = {name: np.mean([row[name] for row in rows]) for name in rows[0]}
            return -means.pop("log-likelihood"), means

        with no_grad():
            first = np.random.default_rng(0)  # what options do not allow is said before a file is written
            model.loss(tasks.sample(first, 1).astype(self.dtype), rng=first)
        return {
            "model": model,
            "loss": loss,
            "optimizer": Adam(model.parameters(), learning_rate=self.full_rate),
            "steps": steps,
            "rng": rng,
            "schedule": lambda step: self.rate(step, steps),
            "clip": self.clip,
            "validate": validate,
            "configuration": self.configuration(),
        }


def run(
    study: Study, *, steps: int, checkpoint: str, every: int = 500, resume: bool = True, show: bool = True
) -> Arrays:
    """Train, or go on with the training in the file `checkpoint`; returns the history.

    A validation comes every `every` steps. Ctrl-C stops between two steps, writes the checkpoint and raises
    KeyboardInterrupt. Raises FloatingPointError if the training diverges, ValueError for a checkpoint of another run,
    OSError where it cannot be written.
    """
    return loop.train(**study.arguments(steps), checkpoint=checkpoint, every=every, resume=resume, show=show)


def figures(model: NeuralProcess, loss: Tensor, posterior: Posterior | None) -> dict[str, float]:
    """The figures of the history that belong to a loss."""
    found = {"log-likelihood": -loss.item()}
    if posterior is not None and model.objective == "targets":  # else the loss is of other points than the posterior's
        exact = posterior.joint_log_likelihood() if model.joint_loss else posterior.marginal_log_likelihood()
        of_all = (exact * posterior.targets).sum() / posterior.targets.sum()
        found["oracle gap"] = float(of_all) - found["log-likelihood"]
    return found


def steps_done(study: Study, checkpoint: str) -> int:
    """How many steps the run in `checkpoint` has behind it, 0 if there is no such file.

    Raises ValueError that names the differences if it is another run.
    """
    if not os.path.exists(checkpoint):
        return 0
    stored = load(checkpoint)
    was, this = stored.configuration, study.configuration()
    differences = [
        f"{name} {shown(was.get(name))} there, {shown(this[name])} here" for name in this if was.get(name) != this[name]
    ]
    if differences or not stored.optimizer_name:
        why = "; ".join(differences) or "a trained model without the state of its run"
        raise ValueError(f"{checkpoint} is another run: {why}. Give another --checkpoint, or --restart to replace it")
    return stored.step


def plan(done: int, steps: int) -> str:
    """What a run will do, in words."""
    if done >= steps:
        return f"all {done} steps are done"
    return f"steps {done + 1} to {steps}"


def outcome(history: Arrays) -> str:
    """What came of it, in words: the last validation."""
    text = f"{len(history['loss'])} steps: log-likelihood {-history['validation'][-1]:.4f} per target"
    gap = history.get("validation oracle gap")
    return text if gap is None else f"{text}, oracle gap {gap[-1]:.4f}"
