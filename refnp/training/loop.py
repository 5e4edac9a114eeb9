"""The training loop: draw, differentiate, clip, step; now and then validate, and write down where we are.

    for s = 1, 2, …:    L = loss(model, rng)    g = ∂L/∂θ    g ← g · min(1, c/‖g‖)    θ ← optimizer(θ, g, schedule(s))

One generator draws everything: batches, dropout, noise. With the parameters, the optimiser and the history it is the
whole state of a run, and a checkpoint holds it; so a run that was killed at any moment and started again gives the
same bits as one that ran through.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from refnp.autograd import Parameter, Tensor, no_grad
from refnp.layers.module import Module, on_tape
from refnp.training import checkpoint as files
from refnp.training.checkpoint import Arrays, Checkpoint, state_of
from refnp.training.optimizers import Optimizer, clip_gradients, not_negative
from refnp.training.progress import History, answer, arrays_of, interruptible, number, progress, record, since_best

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
    validate(model, rng) → a figure to make small, or (figure, {…}); asked every `every` steps and after the last,
        without a tape, and each time with a new generator of the same seed: all validations see the same draws, and
        the training does not notice. The best parameters so far are kept in the checkpoint.
    patience: stop after so many validations without a better one. Whenever it is given (inf: never stop early), the
        model ends with its best parameters, else with its last.
    checkpoint: a file, written at once, every `save_seconds` seconds, at the end, and on Ctrl-C. If it exists and
        `resume`, the run goes on from there; one that has ended returns at once, and with more `steps` is continued.
        `configuration`, which JSON can hold, says what the model is (its class by default), and must not have changed.
    show: progress on standard error.

    The history has a row for every step, "loss" and "rate", "norm" with clip, and the figures by name (NaN where a
    step gave none); and one for every validation, "validation step", "validation", "validation NAME".

    Ctrl-C stops between two steps, writes the checkpoint and raises KeyboardInterrupt; a second one at once.
    Raises FloatingPointError if the loss, a validation (NaN), a gradient (with clip) or a parameter to be saved is not
    finite, and leaves the last checkpoint, which is good. ValueError and TypeError for wrong arguments and for a
    checkpoint of another run, OSError where it cannot be written.
    """
    named = _parameters(model, optimizer)
    _check(steps, rng, clip, validate, every, patience, save_seconds)
    about = {"model": type(model).__name__} if configuration is None else dict(configuration)
    history: History = {"loss": []}
    best: Arrays = {}
    saved = -1  # the step that the file holds

    def save() -> None:
        nonlocal saved
        if checkpoint is not None and saved < (step := len(history["loss"])):
            _require_finite(named, step)
            files.save(checkpoint, _captured(named, optimizer, rng, history, best, about))
            saved = step

    if checkpoint is not None and resume and os.path.exists(checkpoint):
        history, best = _resumed(checkpoint, model, optimizer, rng, about)
        saved = len(history["loss"])
    save()
    clock = time.monotonic()
    try:
        with interruptible() as interrupted, progress(len(history["loss"]), steps, show) as tell:
            while (
                (step := len(history["loss"]) + 1) <= steps and not _given_up(history, patience) and not interrupted()
            ):
                if schedule is not None:
                    optimizer.learning_rate = not_negative("train", f"schedule({step})", schedule(step))
                record(history, _step(named, model, loss, optimizer, rng, clip, step))
                if validate is not None and (step % every == 0 or step == steps):
                    record(history, _validation(model, validate, step))
                    if since_best(history) == 0:
                        best = model.state_dict()
                tell(history)
                if time.monotonic() - clock >= save_seconds:
                    save()
                    clock = time.monotonic()
            _require_finite(named, len(history["loss"]))
            save()
            if interrupted():
                raise KeyboardInterrupt(f"train: stopped after step {len(history['loss'])}")
    except (FloatingPointError, KeyboardInterrupt) as stop:
        if checkpoint is not None:
            stop.add_note(f"The checkpoint {os.fspath(checkpoint)} holds the run after step {saved}.")
        raise
    if patience is not None and best:
        files.fill(model, best)
    return arrays_of(history)


def _step(
    named: Mapping[str, Parameter],
    model: Module,
    loss: Loss,
    optimizer: Optimizer,
    rng: np.random.Generator,
    clip: float | None,
    step: int,
) -> dict[str, float]:
    """One step downhill; the figures of its row in the history."""
    for parameter in named.values():
        parameter.grad = None
    with on_tape():
        value, figures = answer("loss", loss(model, rng))
    if not isinstance(value, Tensor):
        raise TypeError(f"train: loss returned a {type(value).__name__}; it must return a Tensor with one element")
    row = {"loss": number("the loss", value), **figures}
    if not math.isfinite(row["loss"]):
        _require_finite(named, step - 1)
        raise FloatingPointError(f"train: the loss of step {step} is {row['loss']}, though all parameters are finite")
    value.backward()
    if clip is not None:
        try:
            row["norm"] = float(clip_gradients(named, clip))
        except FloatingPointError as wrong:
            raise FloatingPointError(f"train: step {step}: {wrong}") from None
    optimizer.step()
    return row | {"rate": optimizer.learning_rate}


def _validation(model: Module, validate: Loss, step: int) -> dict[str, float]:
    """A row of the history from `validate`, asked with draws of its own, the same every time."""
    with no_grad():
        value, figures = answer("validate", validate(model, np.random.default_rng(list(b"validation"))))
    row = {"validation step": step, "validation": number("the validation", value)}
    if math.isnan(row["validation"]):
        raise FloatingPointError(f"train: the validation after step {step} is nan")
    return row | {f"validation {name}": figure for name, figure in figures.items()}


def _given_up(history: History, patience: float | None) -> bool:
    return patience is not None and "validation" in history and since_best(history) >= patience


def _captured(
    named: Mapping[str, Parameter],
    optimizer: Optimizer,
    rng: np.random.Generator,
    history: History,
    best: Arrays,
    about: dict[str, Any],
) -> Checkpoint:
    return Checkpoint(
        parameters={name: parameter.data for name, parameter in named.items()},
        configuration=about,
        step=len(history["loss"]),
        generator=state_of(rng),
        optimizer_name=type(optimizer).__name__,
        optimizer=optimizer.state_dict(),
        best=best,
        history=arrays_of(history),
    )


def _resumed(
    path: str | os.PathLike, model: Module, optimizer: Optimizer, rng: np.random.Generator, about: dict[str, Any]
) -> tuple[History, Arrays]:
    """Put everything where the checkpoint was written; its history and its best parameters."""
    stored = files.load(path)
    about = json.loads(json.dumps(about))  # as it comes out of a file: tuples are lists
    if stored.configuration != about:
        raise ValueError(
            f"train: {path} is the checkpoint of another model, {stored.configuration}, and this is {about}; "
            "give another file, or resume=False to replace it"
        )
    if stored.optimizer_name and len(stored.history.get("loss", ())) != stored.step:
        raise ValueError(f"train: {path} was not written by train: its history does not have {stored.step} steps")
    files.restore(stored, model, optimizer, rng)
    return {name: array.tolist() for name, array in stored.history.items()}, stored.best


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


def _require_finite(named: Mapping[str, Parameter], step: int) -> None:
    for name, parameter in named.items():
        if not np.isfinite(parameter.data).all():
            raise FloatingPointError(
                f"train: the parameter {name} is not finite after step {step}; try a smaller learning rate, or clip"
            )


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
