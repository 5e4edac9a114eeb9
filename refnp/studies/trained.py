"""Trained models in files: a checkpoint of `refnp train`, a slim one with the weights alone, or one shipped by name.

A slim file has the parameters of the best validation in float32 or float16, the configuration of the run, and under
"trained" what that validation said; about a quarter of the size or an eighth, and no run can go on from it. A model
computes in float32 with what is stored in float16, as the weights are that come with the package.
"""

import math
import os
import reprlib
from collections.abc import Iterator, Mapping
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
        if "converted" in about:
            return f"{about['model']}, converted from {about['converted']['source']}, {about['converted']['file']}"
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
    if Path(source).suffix:  # the name of a file, to which no name is near
        raise FileNotFoundError(f"there is no file {str(source)!r}; the shipped weights are {', '.join(shipped())}")
    raise FileNotFoundError(f"{unknown('checkpoint', str(source), shipped())}, or give the file of a checkpoint")


def open_trained(source: str | os.PathLike, dtype: DTypeLike | None = None) -> Trained:
    """The trained model in a file, or shipped under a name, in float32 or what is wider in the file, or in `dtype`.

    Raises OSError if there is no such file, ValueError for one that is damaged, or is not of a model of `refnp train`.
    """
    file = find(source)
    stored = files.load(file)
    about = configured(file, stored)
    try:
        tasks = sampler(about["task"])
        dtypes = {array.dtype for array in (*stored.parameters.values(), *stored.weights.values())}
        if not_real := sorted(str(one) for one in dtypes if one.kind != "f"):
            raise ValueError(f"its parameters are {', '.join(not_real)}; they must be real numbers")
        dtype = np.result_type(np.float32, *stored.weights.values()) if dtype is None else dtype
        dx, dy = tasks.places.dx, tasks.outputs
        require_room(about["options"], stored.weights)
        model = build(about["model"], about["options"], dx=dx, dy=dy, dtype=dtype, rng=Measured(stored.weights))
        model.load_state_dict(stored.weights)
    except (ValueError, TypeError, OverflowError) as wrong:
        raise ValueError(
            f"{file} does not fit this refnp: {wrong} (model {about['model']!r}, task {about['task']!r}, "
            f"options {_short(about['options'])}); use an older copy of the file, or the refnp that wrote it"
        ) from wrong
    return Trained(model, file, about, stored.step)


CONFIGURED: dict[str, tuple[type, str]] = {
    "model": (str, "a name"),
    "task": (str, "a name"),
    "options": (dict, "names with values"),
    "seed": (int, "a whole number"),
}
ALSO: dict[str, tuple[type, str]] = {  # what may stand there besides
    "trained": (dict, "names with numbers"),
    "converted": (dict, "the names of a source and of a file"),
}


def configured(file: Path, stored: Checkpoint) -> dict[str, Any]:
    """The configuration of a run of `refnp train`; ValueError for any other, which names what is missing or wrong."""
    about = stored.configuration
    wrong = [f"{name} is missing" for name in CONFIGURED if name not in about]
    for name, (kind, words) in (CONFIGURED | ALSO).items():
        if name in about and type(about[name]) is not kind:
            wrong.append(f"{name} is {_short(about[name])}, not {words}")
    if not stored.weights:
        wrong.append("there are no parameters")
    if wrong:
        raise ValueError(
            f"{file} is no checkpoint of `refnp train`: in its configuration {'; '.join(wrong)}; use a file that "
            "`refnp train` or `refnp export` has written"
        )
    return about


def _short(value: Any) -> str:
    """A value in a message: every option, but no long list."""
    short = reprlib.Repr()
    short.maxdict = 100
    return short.repr(value)


FEW = 1 << 20  # a megabyte or a few: so much may be asked for before the names and shapes are compared


def require_room(options: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> None:
    """ValueError for an option larger than the number of all stored numbers, which no width or depth can be.

    It comes before `Measured`, for what is made without drawing: a list of 10¹² sizes, or a LayerNorm's ones.
    """
    stored = sum(array.size for array in weights.values())
    for name, value in options.items():
        for number in numbers_in(value):
            if abs(number) > max(stored, FEW):
                raise ValueError(f"{name} is {number}, and the stored parameters are {stored} numbers in all")


def numbers_in(value: Any) -> Iterator[int]:
    """The whole numbers of an option: itself, or those of a list."""
    values = value if isinstance(value, (list, tuple)) else [value]
    return (number for number in values if type(number) is int)


class Measured(np.random.Generator):
    """A generator for a model whose weights come from a file: it draws as many numbers as that has, or `FEW`.

    All weights are drawn from the generator that a model is given, each with its shape. So a configuration that asks
    for far more than the file has is refused, with the shape, before there is memory for it.
    """

    def __init__(self, weights: Mapping[str, np.ndarray]):
        super().__init__(np.random.PCG64(0))
        self.stored = sum(array.size for array in weights.values())
        self.left = max(self.stored, FEW)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return super().normal(loc, scale, self._counted(size))

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        return super().uniform(low, high, self._counted(size))

    def _counted(self, size: Any) -> Any:
        shape = () if size is None else (int(size),) if np.ndim(size) == 0 else tuple(map(int, size))
        self.left -= math.prod(shape)
        if self.left < 0:
            raise ValueError(f"a parameter would have shape {shape}, the stored ones are {self.stored} numbers in all")
        return size


def check_other(source: Path, target: str | os.PathLike) -> None:
    """ValueError if the file to be written is the checkpoint itself, which would be lost."""
    if os.path.exists(target) and os.path.samefile(source, target):
        raise ValueError(f"{target} is the checkpoint itself, which would be lost; give another file")


def slim(checkpoint: Checkpoint, dtype: DTypeLike = np.float32) -> Checkpoint:
    """The best parameters as `dtype`, the configuration, and a summary of the history; no run goes on from it."""
    history = checkpoint.history
    summary = dict(checkpoint.configuration.get("trained", {}))
    if "validation" in history:
        best = int(np.argmin(history["validation"]))
        summary = {name: float(values[best]) for name, values in history.items() if name.startswith("validation")}
    return Checkpoint(
        {name: stored_as(dtype, name, array) for name, array in checkpoint.weights.items()},
        checkpoint.configuration | {"trained": summary},
        checkpoint.step,
    )


def stored_as(dtype: DTypeLike, name: str, array: np.ndarray) -> np.ndarray:
    """The array rounded to a type; ValueError for a number that is too large for it."""
    with np.errstate(over="ignore"):
        rounded = array.astype(dtype)
    if not np.isfinite(rounded).all():
        raise ValueError(
            f"export: {name} holds {array[~np.isfinite(rounded)][0]}, too large for {rounded.dtype}; use float32"
        )
    return rounded


def export(source: str | os.PathLike, target: str | os.PathLike, dtype: DTypeLike = np.float32) -> int:
    """Write the slim form of the checkpoint `source` to the file `target`; returns its size in bytes.

    dtype: float32, or float16, which rounds each weight by at most 2⁻¹¹ of it, or 2⁻²⁵.
    Raises OSError if there is no such file or `target` cannot be written, ValueError for a file that is damaged, is not
    of a model of `refnp train`, or is `target` itself, and for weights of 65 520 or more, which float16 does not hold.
    """
    file = open_trained(source).file
    check_other(file, target)
    files.save(target, slim(files.load(file), dtype))
    return os.path.getsize(target)
