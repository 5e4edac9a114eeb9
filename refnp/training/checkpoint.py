"""Checkpoints: all that a run needs to go on as if it had never stopped, in one file that is there whole or not at all.

The file is a .npz, a zip of .npy arrays, and holds numbers and text only: `numpy.load(path, allow_pickle=False)`.

    format             the version of this layout
    contents           JSON: the names of all other entries
    configuration      JSON: what the model is, such as {"model": "ConvCNP", "options": {"channels": 16}}
    step               the number of steps done
    generator          JSON: the state of the generator that batches, dropout and all else are drawn from
    optimizer_name     the class of the optimiser
    parameters/NAME    the model's arrays                    optimizer/NAME    the optimiser's
    best/NAME          those of the best validation          history/NAME      figures of every step, or validation

It is written to a file beside it, brought to the disk (fsync), and only then given its name (rename, which is atomic):
whenever the machine stops, there is the old checkpoint or the new one. Zip keeps a CRC-32 of every array, and all are
checked before anything is read; of the list of arrays it keeps none, so `contents` does. How many bytes an array says
it has is compared with those that are there before memory is asked for.

The generator's state is that of the bit generator, and of the seed sequence behind it, which counts the children that
`rng.spawn` has given; NumPy keeps the one apart from the other.
"""

import io
import json
import math
import os
import reprlib
import zipfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np

from refnp.autograd.tensor import Array
from refnp.files import write_whole
from refnp.layers.module import Module
from refnp.training.optimizers import Optimizer

FORMAT = 1
MOST_STEPS = 2**63
GROUPS = ("parameters", "optimizer", "best", "history")
Arrays = dict[str, Array]


@dataclass
class Checkpoint:
    """A run between two steps. With `parameters` and a `configuration` alone it is a trained model."""

    parameters: Arrays
    configuration: dict[str, Any] = field(default_factory=dict)
    step: int = 0
    generator: str = ""
    optimizer_name: str = ""
    optimizer: Arrays = field(default_factory=dict)
    best: Arrays = field(default_factory=dict)
    history: Arrays = field(default_factory=dict)

    @property
    def weights(self) -> Arrays:
        """The parameters to use: those of the best validation, if there was one."""
        return self.best or self.parameters


def save(path: str | os.PathLike, checkpoint: Checkpoint) -> None:
    """Write a checkpoint to `path`, whole or not at all; what stood there stays until then.

    Raises OSError that says what the system says (no space, no permission, no such folder); TypeError for a
    configuration that is not a dict that JSON can hold and for arrays that are not numbers; ValueError for parameters
    that are not finite, an optimiser's arrays with NaN, and a step that is not a whole number from 0. An exception and
    Ctrl-C leave no other file behind. What a process that was killed was writing, `path`.….partial, goes when the
    checkpoint is next written.
    """
    if not isinstance(checkpoint.configuration, dict):
        raise TypeError(f"save: configuration is {_short(checkpoint.configuration)}; it must be a dict, such as {{}}")
    try:
        arrays: Arrays = {
            "configuration": np.array(json.dumps(checkpoint.configuration)),
            "step": _whole(np.array(checkpoint.step)),
            "generator": np.array(checkpoint.generator),
            "optimizer_name": np.array(checkpoint.optimizer_name),
        }
        for group in GROUPS:
            for name, value in getattr(checkpoint, group).items():
                arrays[f"{group}/{name}"] = _numbers(group, name, np.asarray(value))
    except ValueError as wrong:
        raise ValueError(f"save: nothing was written: {wrong}") from wrong
    content = io.BytesIO()
    head = {"format": np.array(FORMAT), "contents": np.array(json.dumps(list(arrays)))}
    np.savez(content, **head, **arrays)  # type: ignore[arg-type]
    try:
        write_whole(path, content.getbuffer(), synced=True)
    except OSError as wrong:
        why = f"save: {wrong.strerror or wrong}; the checkpoint was not written, what was there before still is"
        raise OSError(wrong.errno, why, os.path.realpath(path)) from wrong


def _numbers(group: str, name: str, array: Array) -> Array:
    """The array, which must be numbers: all finite in parameters, none NaN in an optimiser's; history may be as it is.

    (A second moment that overflowed to infinity only stops its parameter; NaN would spoil it at the next step.)
    """
    if array.dtype.kind not in "biufc":
        raise TypeError(f"checkpoint: {group}/{name} is {array.dtype}, not numbers")
    if group == "history" and (array.ndim != 1 or array.dtype.kind == "c"):
        raise ValueError(f"history/{name} is {array.dtype} {array.shape}; it must be real numbers, one for each step")
    allowed = {"history": lambda x: np.ones(x.shape, bool), "optimizer": lambda x: ~np.isnan(x)}
    fine = allowed.get(group, np.isfinite)(array)
    if not fine.all():
        first = tuple(int(i) for i in np.argwhere(~fine)[0])
        of = f"{np.count_nonzero(~fine)} of {array.size} numbers, the first at {list(first)}" if first else "it"
        raise ValueError(f"{group}/{name} must be finite, and is {array[first]} ({of})")
    return array


def _whole(array: Array) -> Array:
    if array.shape or array.dtype.kind not in "iu" or not 0 <= array < MOST_STEPS:
        raise ValueError(f"step is {_short(array)}; it must be a whole number from 0, below {MOST_STEPS}")
    return array


def _short(value: Any) -> str:
    """A value in a message, whatever its size."""
    return reprlib.repr(value.tolist() if isinstance(value, np.ndarray) else value)


def load(path: str | os.PathLike) -> Checkpoint:
    """Read a checkpoint; every byte is checked first.

    Raises OSError if there is no such file, ValueError for one that is cut short, damaged, of a newer refnp, or
    something else: the message names the entry, what it is, and what it must be.
    """
    with open(path, "rb") as file:
        arrays = _arrays(path, file)
    version = arrays.pop("format", None)
    if version is None:
        raise ValueError(f"load: {path} is not a checkpoint of refnp: it has no entry 'format', but {list(arrays)[:5]}")
    if version.shape or version.dtype.kind not in "iu" or not 1 <= version <= FORMAT:
        raise ValueError(
            f"load: {path} has format {version}; this refnp reads up to {FORMAT}: install the newer one that wrote it"
        )
    try:
        return _checkpoint(arrays)
    except (ValueError, TypeError) as wrong:
        raise ValueError(f"load: {path} was not written by save: {wrong}; use an older copy") from wrong


def _checkpoint(arrays: Arrays) -> Checkpoint:
    """What the entries of a file say; ValueError or TypeError for the first that save does not write so."""
    contents = _json(arrays, "contents")
    if not isinstance(contents, list) or not all(isinstance(name, str) for name in contents):
        raise ValueError(f"contents is {_short(contents)}; it must be a list of names")
    if differing := sorted(set(contents) ^ set(arrays)):
        raise ValueError(f"entries are missing, or are not in its contents: {_short(differing)}")
    configuration = _json(arrays, "configuration")
    if not isinstance(configuration, dict):
        raise ValueError(f"configuration is {_short(configuration)}; it must be names with values, such as {{}}")
    step = int(_whole(_entry(arrays, "step")))
    generator, optimizer_name = _text(arrays, "generator"), _text(arrays, "optimizer_name")
    groups: dict[str, Arrays] = {group: {} for group in GROUPS}
    for key, array in arrays.items():
        group, _, name = key.partition("/")
        if group not in groups:
            raise ValueError(f"it has an entry {key}, which is none of {', '.join(f'{g}/NAME' for g in GROUPS)}")
        groups[group][name] = _numbers(group, name, array)
    return Checkpoint(
        configuration=configuration, step=step, generator=generator, optimizer_name=optimizer_name, **groups
    )


def _entry(arrays: Arrays, name: str) -> Array:
    """Take an entry out of the arrays."""
    if name not in arrays:
        raise ValueError(f"the entry {name} is missing")
    return arrays.pop(name)


def _text(arrays: Arrays, name: str) -> str:
    array = _entry(arrays, name)
    if array.shape or array.dtype.kind != "U":
        raise ValueError(f"{name} is {_short(array)}; it must be text")
    return array.item()


def _json(arrays: Arrays, name: str) -> Any:
    text = _text(arrays, name)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise ValueError(f"{name} is {_short(text)}, which is no JSON ({wrong})") from wrong


def _arrays(path: str | os.PathLike, file: BinaryIO) -> Arrays:
    if file.read(2) != b"PK":
        raise ValueError(f"load: {path} is not a checkpoint: it does not begin as a .npz file does")
    try:
        return npz(file)
    except Exception as wrong:  # whatever zipfile and NumPy stumble over: there are a dozen kinds
        raise ValueError(f"load: {path} is cut short or damaged ({wrong}); use an older copy") from wrong


def npz(file: BinaryIO, folded: int = 0) -> Arrays:
    """The arrays of a .npz file, none of them a pickle, all bytes checked before memory is asked for.

    What is compressed may be `folded` times as large as the file, and is refused if that is 0. Raises ValueError, and
    whatever zipfile and NumPy raise for files that are damaged.
    """
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        packed = [entry.filename for entry in entries if entry.compress_type != zipfile.ZIP_STORED]
        if packed and not folded:  # save never does, and it may unfold to any size
            raise ValueError(f"{packed[0]} is compressed")
        if packed and sum(entry.file_size for entry in entries) > folded * file.seek(0, os.SEEK_END):
            raise ValueError(f"it unfolds to more than {folded} times its bytes")
        if twice := [name for name, count in Counter(archive.namelist()).items() if count > 1]:
            raise ValueError(f"{twice[0]} is there twice")
        if (name := archive.testzip()) is not None:
            raise ValueError(f"the contents of {name} have changed")
        for entry in entries:
            _require_all_bytes(archive, entry)
    file.seek(0)
    with np.load(file, allow_pickle=False) as stored:
        return {name: np.asarray(stored[name]) for name in stored.files}


def _require_all_bytes(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    """ValueError if an array says that it is larger than its entry, before NumPy asks for memory for it."""
    with archive.open(entry) as file:
        if file.read(6) != np.lib.format.MAGIC_PREFIX:  # what is no array is not read as one
            return
        file.seek(0)
        second = np.lib.format.read_magic(file) > (1, 0)
        read = np.lib.format.read_array_header_2_0 if second else np.lib.format.read_array_header_1_0
        shape, _, dtype = read(file)
        there = entry.file_size - file.tell()
    if not dtype.hasobject and math.prod(shape) * dtype.itemsize != there:
        raise ValueError(f"{entry.filename} says it is {dtype} {shape}, and has {there} bytes")


def restore(checkpoint: Checkpoint, model: Module, optimizer: Optimizer, rng: np.random.Generator) -> None:
    """Put model, optimiser and generator into the state of the checkpoint, to the bit: all of them, or none.

    Arrays are filled in place, so that they lie in memory as before; the bits of NumPy's sums depend on it.
    Raises ValueError that lists what does not fit: names, shapes, dtypes, the kinds of optimiser and generator.
    """
    if not checkpoint.optimizer_name:
        raise ValueError(
            "restore: this is a trained model, not a run to go on with; use model.load_state_dict(checkpoint.weights)"
        )
    own = {name: parameter.data for name, parameter in model.named_parameters()}
    wrong = _differences("parameter", own, checkpoint.parameters)
    if checkpoint.best:
        wrong += _differences("best parameter", own, checkpoint.best)
    if checkpoint.optimizer_name != type(optimizer).__name__:
        wrong.append(f"the optimiser was {checkpoint.optimizer_name}, this is {type(optimizer).__name__}")
    else:
        wrong += _differences("optimiser's", optimizer.state_dict(), checkpoint.optimizer)
    if wrong:
        more = f"; and {len(wrong) - 8} more" if len(wrong) > 8 else ""
        raise ValueError(
            "restore: nothing was loaded, the checkpoint is of another run: " + "; ".join(wrong[:8]) + more
        )
    set_state(rng, checkpoint.generator)  # the last that can fail changes nothing if it does
    optimizer.load_state_dict(checkpoint.optimizer)
    fill(model, checkpoint.parameters)


def fill(model: Module, arrays: Mapping[str, Array]) -> None:
    """Copy `arrays` into the model's own, in place."""
    for name, parameter in model.named_parameters():
        parameter.data[...] = arrays[name]


def _differences(kind: str, own: Mapping[str, Array], stored: Mapping[str, Array]) -> list[str]:
    """How two sets of arrays differ in names, shapes and dtypes, in words."""
    found = [f"{kind} {name} is missing" for name in own if name not in stored]
    found += [f"{kind} {name} is not wanted here" for name in stored if name not in own]
    for name in own.keys() & stored.keys():
        is_, was = own[name], stored[name]
        if (is_.shape, is_.dtype) != (was.shape, was.dtype):
            found.append(f"{kind} {name} was {was.dtype} {was.shape}, this is {is_.dtype} {is_.shape}")
    return found


def state_of(rng: np.random.Generator) -> str:
    """All that decides what `rng` draws next and what it spawns, as JSON."""
    bits: Any = rng.bit_generator
    seed = bits.seed_seq
    state = {"bits": bits.state, "seed": seed.state if isinstance(seed, np.random.SeedSequence) else None}
    return json.dumps(state, default=lambda array: array.tolist())


def set_state(rng: np.random.Generator, text: str) -> None:
    """Put `rng` into the state that `state_of` gave, so that it draws the same; it changes only if all is well.

    Raises ValueError for a state of another kind of bit generator, or for what is no state.
    """
    bits: Any = rng.bit_generator
    kind = type(bits)
    try:
        state: dict[str, Any] = json.loads(text)
        stored = state["bits"]["bit_generator"]
        if stored == kind.__name__:
            seed = state["seed"]
            if seed is not None and not (4 <= seed.get("pool_size", 4) <= 64 and len(seed.get("spawn_key", ())) <= 64):
                raise ValueError("its seed would take hours")  # NumPy mixes each number with each, where Ctrl-C waits
            whole = state["bits"], bits.seed_seq if seed is None else np.random.SeedSequence(**seed)
            kind(0).__setstate__(whole)  # raises here, on another generator
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as wrong:
        raise ValueError(f"set_state: this is no state of a generator: {wrong!r}") from wrong
    if stored != kind.__name__:
        raise ValueError(f"set_state: the state is of a {stored}, the generator is a {kind.__name__}; make one alike")
    bits.__setstate__(whole)
