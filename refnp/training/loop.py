"""The training loop: draw, differentiate, clip, step; now and then validate, and save.

    for s = 1, 2, …:    L = loss(model, rng)    g = ∂L/∂θ    g ← g · min(1, c/‖g‖)    θ ← optimizer(θ, g, schedule(s))

One generator draws everything: batches, dropout, noise. With the parameters, the optimiser and the history it is the
whole state of a run, and a checkpoint holds it; so a run that was killed at any moment and started again gives the
same bits as one that ran through.
"""

import contextlib
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from refnp.autograd import Parameter, Tensor, no_grad
from refnp.files import held
from refnp.kernels.process import tuned
from refnp.layers.module import Module, on_tape
from refnp.signals import interruptible
from refnp.training import checkpoint as files
from refnp.training.checkpoint import Arrays, Checkpoint, state_of
from refnp.training.optimizers import Optimizer, clip_gradients, not_negative
from refnp.training.progress import (
    History,
    arrays_of,
    number,
    progress,
    record,
    since_best,
    value_and_figures,
)

VALIDATION = list(b"validation")  # the seed of all validations
Loss = Callable[[Any, np.random.Generator], Any]  # (model, rng) → value, or (value, {name: figure})


def train(
    model: Module,
    loss: Loss,
    optimizer: Optimizer,
    *,
    steps: int,
    rng: np.random.Generator,
    schedule: Callable[[int], float] | None = None,
    clip: float | None = None,
    validate: Loss | None = None,
    every: int = 100,
    patience: float | None = None,
    checkpoint: str | os.PathLike | None = None,
    save_seconds: float = 60.0,
    configuration: Mapping[str, Any] | None = None,
    resume: bool = True,
    show: bool = True,
) -> Arrays:
    """Train `model` in place until `steps` steps are done; returns the history, arrays by name.

    loss(model, rng) → a scalar Tensor, or (Tensor, {"name": figure, …}); it draws its batch from `rng`, the only
        generator of the run. Figures are recorded and shown beside the loss.
    schedule(step) → the learning rate, steps from 1; without it the optimiser's own stays.
    clip: the largest norm of all gradients together (`clip_gradients`); inf only measures it.
    validate(model, rng) → a figure to make small, or (figure, {…}); called every `every` steps and after the last,
        without a tape, and each time with a new generator of the same seed: all validations see the same draws, and
        they do not change the training. The best parameters so far are kept in the checkpoint.
    patience: stop after so many validations without a better one. Whenever it is given (inf: never stop early), the
        model ends with its best parameters, else with its last.
    checkpoint: a file, written at once, every `save_seconds` seconds, at the end, and on Ctrl-C. If it exists and
        `resume`, the run goes on from there; one that has ended returns at once, and with more `steps` is continued.
        `configuration`, which JSON can hold, says what the model is (its class by default), and must not have changed.
    show: progress on standard error.

    The history has a row for every step, "loss" and "rate", "norm" with clip, and the figures by name (NaN where a
    step gave none); and one for every validation, "validation step", "validation", "validation NAME".

    Ctrl-C stops between two steps, writes the checkpoint and raises KeyboardInterrupt; a second one at once. SIGTERM
    and SIGHUP, which schedulers send, end the process after the same. While a run lasts, another one that would write
    its checkpoint raises BlockingIOError.
    Raises FloatingPointError if the loss, a validation (NaN), a gradient (with clip) or a parameter to be saved is not
    finite, and leaves the last checkpoint, which is good. ValueError and TypeError for wrong arguments and for a
    checkpoint of another run, OSError where it cannot be written.
    """
    _check(steps, rng, clip, validate, every, patience, save_seconds)
    alone = contextlib.nullcontext() if checkpoint is None else held(checkpoint)
    with (
        interruptible() as interrupted,
        alone,
        tuned(),
        Run(model, optimizer, rng, checkpoint, configuration, resume) as run,
        progress(run.steps, steps, show) as tell,
    ):
        while run.steps < steps and not run.out_of(patience) and not interrupted():
            step = run.steps + 1
            if schedule is not None:
                optimizer.learning_rate = not_negative("train", f"schedule({step})", schedule(step))
            for parameter in run.parameters.values():
                parameter.grad = None
            with on_tape():
                value, row = run.checked(loss(model, rng))
            value.backward()
            if clip is not None:
                row["norm"] = run.clip(clip)
            optimizer.step()
            record(run.history, row | {"rate": optimizer.learning_rate})
            if validate is not None and (step % every == 0 or step == steps):
                with no_grad():
                    run.validated(validate(model, np.random.default_rng(VALIDATION)))
            tell(run.history)
            if time.monotonic() - run.clock >= save_seconds:
                run.save()
        run.require_finite()
        run.save()
        if interrupted():
            raise KeyboardInterrupt(f"train: stopped after step {run.steps}")
    if patience is not None and run.best:
        files.fill(model, run.best)
    return arrays_of(run.history)


class Run:
    """The state of a training between two steps, and its file: model, optimiser, generator, history, best parameters.

    Made from the file if it exists and `resume`, and saved at once. Inside `with run:`, a FloatingPointError and a
    KeyboardInterrupt get a note that says which step the file holds.
    """

    def __init__(
        self,
        model: Module,
        optimizer: Optimizer,
        rng: np.random.Generator,
        file: str | os.PathLike | None,
        configuration: Mapping[str, Any] | None,
        resume: bool,
    ):
        self.model, self.optimizer, self.rng, self.file = model, optimizer, rng, file
        self.parameters = _parameters(model, optimizer)
        self.configuration = {"model": type(model).__name__} if configuration is None else dict(configuration)
        self.history: History = {"loss": []}
        self.best: Arrays = {}
        self.saved = -1  # the step that the file holds
        if file is not None and resume and os.path.exists(file):
            self._resume(file)
        self.save()

    @property
    def steps(self) -> int:
        """How many steps are done."""
        return len(self.history["loss"])

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, (FloatingPointError, KeyboardInterrupt)) and self.file is not None:
            error.add_note(f"The checkpoint {os.fspath(self.file)} holds the run after step {self.saved}.")

    def checked(self, given: Any) -> tuple[Tensor, dict[str, float]]:
        """What the loss returned as a Tensor and the row of the history; FloatingPointError unless it is finite."""
        value, figures = value_and_figures("loss", given)
        if not isinstance(value, Tensor):
            raise TypeError(f"train: loss returned a {type(value).__name__}; it must return a Tensor with one element")
        row = {"loss": number("the loss", value), **figures}
        if not math.isfinite(row["loss"]):
            self.require_finite()
            step = self.steps + 1
            raise FloatingPointError(
                f"train: the loss of step {step} is {row['loss']}, though all parameters are finite"
            )
        return value, row

    def clip(self, norm: float) -> float:
        """`clip_gradients` of all parameters; a gradient that is not finite is reported with its step."""
        try:
            return float(clip_gradients(self.parameters, norm))
        except FloatingPointError as wrong:
            raise FloatingPointError(f"train: step {self.steps + 1}: {wrong}") from None

    def validated(self, given: Any) -> None:
        """Record what a validation returned, and keep the parameters if it is the best so far."""
        value, figures = value_and_figures("validate", given)
        row = {"validation step": self.steps, "validation": number("the validation", value)}
        if math.isnan(row["validation"]):
            raise FloatingPointError(f"train: the validation after step {self.steps} is nan")
        record(self.history, row | {f"validation {name}": figure for name, figure in figures.items()})
        if since_best(self.history) == 0:
            self.best = self.model.state_dict()

    def out_of(self, patience: float | None) -> bool:
        """Whether there were `patience` validations since the best one."""
        return patience is not None and "validation" in self.history and since_best(self.history) >= patience

    def require_finite(self) -> None:
        """FloatingPointError that names the first parameter that is not finite."""
        for name, parameter in self.parameters.items():
            if not np.isfinite(parameter.data).all():
                raise FloatingPointError(
                    f"train: the parameter {name} is not finite after step {self.steps}; "
                    "try a smaller learning rate, or clip"
                )

    def save(self) -> None:
        """Write the file, if there is one and it does not hold this step."""
        if self.file is not None and self.saved != self.steps:
            self.require_finite()
            run = Checkpoint(
                parameters={name: parameter.data for name, parameter in self.parameters.items()},
                configuration=self.configuration,
                step=self.steps,
                generator=state_of(self.rng),
                optimizer_name=type(self.optimizer).__name__,
                optimizer=self.optimizer.state_dict(),
                best=self.best,
                history=arrays_of(self.history),
            )
            files.save(self.file, run)
            self.saved = self.steps
        self.clock = time.monotonic()

    def _resume(self, file: str | os.PathLike) -> None:
        """Put everything where the file was written."""
        stored = files.load(file)
        this = json.loads(json.dumps(self.configuration))  # as it comes out of a file: tuples are lists
        if stored.configuration != this:
            raise ValueError(
                f"train: {file} is the checkpoint of another model, {stored.configuration}, and this is {this}; "
                "give another file, or resume=False to replace it"
            )
        if stored.optimizer_name and len(stored.history.get("loss", ())) != stored.step:
            raise ValueError(f"train: {file} was not written by train: its history does not have {stored.step} steps")
        for kind in (False, True):  # rows of steps, and of validations
            lengths = {len(rows) for name, rows in stored.history.items() if name.startswith("validation") is kind}
            if len(lengths) > 1:
                raise ValueError(f"train: {file} was not written by train: its history has rows of {sorted(lengths)}")
        files.restore(stored, self.model, self.optimizer, self.rng)
        self.history = {name: array.tolist() for name, array in stored.history.items()}
        self.best, self.saved = stored.best, self.steps


def _parameters(model: Module, optimizer: Optimizer) -> dict[str, Parameter]:
    """The model's parameters by name; ValueError if the optimiser moves others."""
    named = dict(model.named_parameters())
    own = {id(parameter) for parameter in named.values()}
    if strangers := [i for i, parameter in enumerate(optimizer.parameters) if id(parameter) not in own]:
        raise ValueError(
            f"train: optimizer.parameters[{strangers[0]}] is no parameter of the {type(model).__name__}; "
            "make the optimiser from model.parameters()"
        )
    return named


def _check(
    steps: int, rng: Any, clip: float | None, validate: Any, every: int, patience: float | None, save_seconds: float
) -> None:
    """Whatever can be seen to be wrong before the first step."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"train: rng is a {type(rng).__name__}; pass np.random.default_rng(seed)")
    for name, count in (("steps", steps), ("every", every)):
        if not isinstance(count, (int, np.integer)) or count < 1:
            raise ValueError(f"train: {name} is {count!r}; it must be a whole number, at least 1")
    for name, limit in (("clip", clip), ("patience", patience)):
        if limit is not None and not limit > 0:
            raise ValueError(f"train: {name} is {limit}; it must be positive, or None")
    if not save_seconds >= 0:
        raise ValueError(f"train: save_seconds is {save_seconds}; it must be 0 or more seconds")
    if patience is not None and validate is None:
        raise ValueError("train: patience counts validations; pass validate too")
