"""Trained models in files: a checkpoint of `refnp train`, a slim one with the weights alone, or one shipped by name.

A slim file has the parameters of the best validation in float32, the configuration of the run, and under "trained" what
that validation said; about a quarter of the size, and no run can go on from it.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from refnp.models.neural_process import NeuralProcess
from refnp.studies.registry import build, sampler, unknown
from refnp.training import checkpoint as files
from refnp.training.checkpoint import Checkpoint

SHIPPED = Path(__file__).parent / "weights"


@dataclass(frozen=True)
class Trained:
    """A model with its weights, the file they are from, and what that says of the run."""

    model: NeuralProcess
    file: Path
    configuration: Mapping[str, Any]
    steps: int

    @property
    def title(self) -> str:
        """In a few words: what was trained on what, for how long."""
        about = self.configuration
        return f"{about['model']}, trained on {about['task']} for {self.steps} steps, seed {about['seed']}"


def shipped() -> list[str]:
    """The names of the weights that come with the package."""
    return sorted(file.stem for file in SHIPPED.glob("*.npz"))


def find(source: str | os.PathLike) -> Path:
    """The file that is meant: a path, or the name of shipped weights. FileNotFoundError that suggests names."""
    if os.path.isfile(source):
        return Path(source)
    if str(source) in shipped():
        return SHIPPED / f"{source}.npz"
    raise FileNotFoundError(f"{unknown('checkpoint', str(source), shipped())}, or give the file of a checkpoint")


def open_trained(source: str | os.PathLike, dtype: DTypeLike | None = None) -> Trained:
    """The trained model in a file, or shipped under a name; `dtype` is that of the weights unless given.

    Raises OSError if there is no such file, ValueError for one that is damaged, or is not of a model of `refnp train`.
    """
    file = find(source)
    stored = files.load(file)
    about = configured(file, stored)
    try:
        tasks = sampler(about["task"])
        dtype = np.result_type(*stored.weights.values()) if dtype is None else dtype
        dx, dy = tasks.places.dx, tasks.outputs
        model = build(about["model"], about["options"], dx=dx, dy=dy, dtype=dtype, rng=np.random.default_rng(0))
        model.load_state_dict(stored.weights)
    except (ValueError, TypeError, AttributeError) as wrong:
        raise ValueError(f"{file} does not fit this refnp: {wrong}") from wrong
    return Trained(model, file, about, stored.step)


def configured(file: Path, stored: Checkpoint) -> dict[str, Any]:
    """The configuration of a run of `refnp train`; ValueError for any other."""
    about = stored.configuration
    if not isinstance(about, dict) or not {"model", "task", "options", "seed"} <= about.keys() or not stored.weights:
        raise ValueError(
            f"{file} is no checkpoint of `refnp train`: its configuration is {about}; it must name model, task, options"
        )
    return about


def check_other(source: Path, target: str | os.PathLike) -> None:
    """ValueError if the file to be written is the checkpoint itself, which would be lost."""
    if os.path.exists(target) and os.path.samefile(source, target):
        raise ValueError(f"{target} is the checkpoint itself, which would be lost; give another file")


def slim(checkpoint: Checkpoint) -> Checkpoint:
    """The best parameters in float32, the configuration, and a summary of the history; no run goes on from it."""
    history = checkpoint.history
    summary = dict(checkpoint.configuration.get("trained", {}))
    if "validation" in history:
        best = int(np.argmin(history["validation"]))
        summary = {name: float(values[best]) for name, values in history.items() if name.startswith("validation")}
    return Checkpoint(
        {name: array.astype(np.float32) for name, array in checkpoint.weights.items()},
        checkpoint.configuration | {"trained": summary},
        checkpoint.step,
    )


def export(source: str | os.PathLike, target: str | os.PathLike) -> int:
    """Write the slim form of the checkpoint `source` to the file `target`; returns its size in bytes.

    Raises OSError if there is no such file or `target` cannot be written, ValueError for a file that is damaged, is not
    of a model of `refnp train`, or is `target` itself.
    """
    file = open_trained(source).file
    check_other(file, target)
    files.save(target, slim(files.load(file)))
    return os.path.getsize(target)
