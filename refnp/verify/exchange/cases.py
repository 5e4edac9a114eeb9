"""What a case holds when it is a file, and `export`, which writes a folder of cases with a manifest.

    CASES/manifest.json                          what is in the folder, with the SHA-256 of every file
    CASES/attention.mask.float32.npz             a case in one precision: a header in JSON, and arrays by name
    CASES/answers/attention.mask.float32.npz     where a program puts its answer

Arrays are called by their role, a point, and their name:

    input.x, option.mask       arguments of the layer, and options that are arrays
    cotangent                  ȳ, where gradients are asked for
    reference.output           right, computed in the widest precision and rounded once to that of the case
    reference.gradient.x       likewise; quantities are "output" and "gradient.x" for each x with a gradient
    wide.output, …             the same rounded once to float64, where that is wider than the case
    bound.output, …            what |answer − wide| may be, element by element, in float64
"""

import contextlib
import hashlib
import inspect
import re
import shutil
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from dataclasses import replace as dataclass_with
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from refnp import layers
from refnp.files import exchanged, has_locks, held
from refnp.numbers.rounding import ASSUMED, WIDE, judging_precision, tolerance
from refnp.verify.bounds import rounding_of, upwards
from refnp.verify.case import Case, Problem
from refnp.verify.exchange.formats import FORMATS, Arrays, as_text, number, read_plain, strict_json
from refnp.verify.frameworks import onnx
from refnp.verify.judge import matches
from refnp.verify.layers import cases
from refnp.verify.propagation import NoBoundError
from refnp.verify.record import DTYPES
from refnp.version import __version__

VERSION = 1  # of the layout of folders and files; a program may refuse any other
MANIFEST = "manifest.json"
LONGEST = 120  # letters of a variant in the name of a file
MANIFEST_LIMIT = 1 << 26  # bytes
ANSWERS = "answers"
PARTIAL = ".partial"
ONNX = "onnx"  # the layout of ONNX's own node tests: a model and its data, instead of arrays by name
LAYOUTS = (*FORMATS, ONNX)
UNWORDED = re.compile(r"[^a-z0-9+-]+")
Header = dict[str, Any]


def export(
    folder: str | Path,
    layout: str = "npz",
    *,
    only: str | None = None,
    dtypes: Sequence[str] = DTYPES,
    replace: bool = False,
    gradients: bool = False,
) -> int:
    """Write the cases whose names contain `only`, or match it, to a new folder, whole or not at all; how many.

    `layout` is one of LAYOUTS. The same cases give the same bytes. Raises ValueError for a pattern that matches
    nothing, FileExistsError for a folder that is not empty, unless `replace` says so and it holds exported cases,
    ImportError for a layout whose package is not installed.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"refnp.verify.exchange.export: layout is {layout!r}; choose one of {', '.join(LAYOUTS)}")
    problems = chosen_problems(only, dtypes)
    if gradients:
        problems = [with_gradients(problem) for problem in problems]
    with whole_folder(Path(folder), replace=replace) as beside:
        return write_cases(beside, problems, layout)


def chosen_problems(only: str | None = None, dtypes: Sequence[str] = DTYPES) -> list[Problem]:
    """The cases that a pattern chooses, in these precisions; ValueError if there are none."""
    chosen = [case for case in cases() if only is None or matches(case.name, only)]
    if not chosen:
        raise ValueError(f"no case is called {only!r}; refnp cases list shows their names")
    if unknown := [dtype for dtype in dtypes if dtype not in DTYPES]:
        raise ValueError(f"there are no cases in {unknown[0]!r}; choose {' or '.join(DTYPES)}")
    return [case.problem(dtype) for case in chosen for dtype in dtypes]


def with_gradients(problem: Problem) -> Problem:
    """A whole model with the gradients of its data and parameters, where every operation on the way has a bound."""
    if not problem.case.layer.whole:
        return problem
    asked = dataclass_with(problem.case, gradients=None).problem(problem.dtype)
    try:
        asked.bounds  # noqa: B018  # which are kept
    except NoBoundError:
        return problem
    return asked


def listing(only: str | None = None) -> Iterator[str]:
    """A line for each case: its name, and its arguments and options with their shapes."""
    for problem in chosen_problems(only, DTYPES[:1]):
        parts = [f"{name} {_shape(array)}" for name, array in problem.arrays.items()]
        parts += [
            f"{name}={_shape(value) if isinstance(value, np.ndarray) else value}"
            for name, value in problem.case.options.items()
        ]
        yield f"{problem.case.name:48}  {', '.join(parts)}"


def _shape(array: np.ndarray) -> str:
    return f"({', '.join(map(str, array.shape))})"


def id_of(case: Case, dtype: str) -> str:
    """The name of a case's file, of ASCII letters, digits, "_", "+" and "-": "attention.fully_masked_row.float32"."""
    words = [UNWORDED.sub("_", part.lower()).strip("_") for part in (case.layer.name, case.variant)]
    if len(words[1]) > LONGEST:  # a name of a file has 255 bytes at most
        words[1] = f"{words[1][:LONGEST]}_{hashlib.sha256(case.variant.encode()).hexdigest()[:8]}"
    return ".".join((*words, dtype))


def ids_of(problems: Iterable[Problem]) -> dict[str, Problem]:
    """Problems by the names of their files; ValueError if two would have one name."""
    found: dict[str, Problem] = {}
    for problem in problems:
        name = id_of(problem.case, problem.dtype)
        if name in found:
            raise ValueError(f"{found[name].case.name!r} and {problem.case.name!r} would share the file {name}")
        found[name] = problem
    return found


def in_files(quantity: str) -> str:
    """A quantity as arrays are called: "gradient of x" is "gradient.x"."""
    return quantity.replace("gradient of ", "gradient.", 1)


def header_of(problem: Problem) -> Header:
    """What a case says of itself beside its arrays, in plain values."""
    case = problem.case
    return {
        "format": "refnp case",
        "version": VERSION,
        "id": id_of(case, problem.dtype),
        "case": case.name,
        "layer": case.layer.name,
        "dtype": problem.dtype,
        "equation": equation_of(case),
        "why": why_of(case),
        "arguments": list(problem.arrays),
        "options": {name: plain(value, name) for name, value in (defaults_of(case) | dict(case.options)).items()},
        "quantities": [in_files(quantity) for quantity in case.quantities],
    }


def equation_of(case: Case) -> str:
    """The equation of the case's layer: what its function in `Rounded` numbers says, or else refnp's own."""
    named = [getattr(layers, name, None) for name in (*case.layer.names, case.layer.name)]
    functions = [case.layer.equation, *(function for function in named if function is not None)]
    while isinstance(functions[0], partial):
        functions[0] = functions[0].func
    return next(filter(None, map(inspect.getdoc, functions)), "")


def defaults_of(case: Case) -> dict[str, Any]:
    """The options that a case leaves as they are: those of its equation that refnp's function takes, but for None."""
    found: dict[str, Any] = {}
    taken = inspect.signature(case.layer.function).parameters
    any_name = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values())
    function: Any = case.layer.equation
    while function is not None:
        for name, parameter in inspect.signature(function, follow_wrapped=False).parameters.items():
            value, is_option = parameter.default, (any_name or name in taken) and name not in case.inputs
            if is_option and value is not inspect.Parameter.empty and value is not None:
                found.setdefault(name, value.__name__ if callable(value) else value)
        function = getattr(function, "__wrapped__", None)
    return found


def why_of(case: Case) -> str:
    """Why the case exists: its variant, and what frameworks are known to get wrong in it."""
    known = [f"{defect.framework}: {defect.why} ({defect.issue})." for defect in case.known_defects]
    return " ".join([f"{case.variant}.", *known])


def plain(value: Any, name: str) -> Any:
    """An option as JSON has it: an array is named, a number that is not finite is a text."""
    if isinstance(value, np.ndarray):
        return {"array": f"option.{name}"}
    if isinstance(value, np.generic):
        value = value.item()
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {key: plain(part, name) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part, name) for part in value]
    if isinstance(value, float):
        return number(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    raise TypeError(f"option {name} is {value!r}, which no file can state; give it as numbers, texts or an array")


def inputs_of(problem: Problem) -> Arrays:
    """The arrays that a program is given, by role and name."""
    found = {f"input.{name}": array for name, array in problem.arrays.items()}
    found |= {f"option.{k}": v for k, v in problem.case.options.items() if isinstance(v, np.ndarray)}
    if len(problem.case.quantities) > 1:
        found["cotangent"] = problem.cotangent
    return found


def arrays_of(problem: Problem) -> Arrays:
    """All arrays of a case by role and name."""
    found = inputs_of(problem)
    reference = problem.reference()
    for quantity, rounded in problem.bounds.items():
        name, right = in_files(quantity), np.asarray(reference[quantity], WIDE)
        wide = right.astype(np.float64)
        found[f"reference.{name}"] = right.astype(problem.dtype)
        if problem.dtype != "float64":
            found[f"wide.{name}"] = wide
        found[f"bound.{name}"] = upwards(tolerance(rounded, problem.dtype) + rounding_of(right, wide))
    return found


def write_cases(folder: Path, problems: Iterable[Problem], layout: str) -> int:
    """Write cases and their manifest to an empty folder; how many."""
    named = dict(sorted(ids_of(problems).items()))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some inputs are meant to overflow
        entries = write_models(folder, named) if layout == ONNX else write_arrays(folder, named, layout)
    (folder / MANIFEST).write_bytes(as_text(manifest_of(layout, entries)))
    return len(entries)


def write_arrays(folder: Path, problems: Mapping[str, Problem], layout: str) -> list[Header]:
    """Write cases as arrays with a header; what the manifest says of them."""
    entries = []
    for name, problem in problems.items():
        contents = FORMATS[layout].files(name, header_of(problem), arrays_of(problem))
        for path, content in contents.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_bytes(content)
        entries.append(entry_of(problem, contents))
    return entries


def write_models(folder: Path, problems: Mapping[str, Problem]) -> list[Header]:
    """Write cases as ONNX models, those that ONNX has an operator for; what the manifest says of them."""
    onnx.export(folder, problems)
    entries = []
    for name, problem in problems.items():
        files = sorted(path for path in (folder / name).rglob("*") if path.is_file())
        if files:
            contents = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
            entries.append(entry_of(onnx.posed(problem), contents))
    return entries


def entry_of(problem: Problem, contents: Mapping[str, bytes]) -> Header:
    """What the manifest says of a case and its files."""
    header = header_of(problem)
    files = {
        path: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for path, content in contents.items()
    }
    kept = ("id", "case", "layer", "dtype", "quantities")
    return {key: header[key] for key in kept} | {"inputs": problem.checksum(), "files": files}


def manifest_of(layout: str, entries: list[Header]) -> Header:
    """What an exported folder says of itself."""
    return {
        "format": "refnp cases",
        "version": VERSION,
        "refnp": __version__,
        "reference": judging_precision(),
        "assumed": list(ASSUMED),
        "layout": layout,
        "cases": entries,
    }


def is_export(folder: Path) -> bool:
    """Whether a folder holds exported cases, and perhaps answers, and nothing else."""
    try:
        found = strict_json(read_plain(folder / MANIFEST, MANIFEST_LIMIT))
        files = [path for entry in found["cases"] for path in entry["files"]]
        known = {MANIFEST, ANSWERS, *(path.partition("/")[0] for path in files)}
        return found["format"] == "refnp cases" and all(path.name in known for path in folder.iterdir())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


@contextlib.contextmanager
def whole_folder(folder: Path, *, replace: bool) -> Iterator[Path]:
    """A folder to fill beside `folder`, which takes its name when it is complete, and vanishes if it is not.

    Where the system can exchange names (Linux) there is at each moment one of the two; elsewhere a process that is
    killed between two renames leaves the old one in a folder beside, from which the next export takes it back. What
    killed processes have left, .NAME.….partial, is deleted. BlockingIOError if another process writes this folder.
    """
    folder = folder.absolute()
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"{folder} cannot be written: there is no folder {folder.parent}")
    with held(folder):
        if has_locks():
            remove_left_folders(folder)
        taken = folder.is_symlink() or (folder.exists() and not (folder.is_dir() and not any(folder.iterdir())))
        if taken and not (replace and folder.is_dir() and not folder.is_symlink() and is_export(folder)):
            remedy = "it holds no exported cases, or more than these, so name another"
            raise FileExistsError(
                f"{folder} is there and not an empty folder; {remedy if replace else 'name another, or say --replace'}"
            )
        parent, prefix, suffix = folder.parent, f".{folder.name}.", PARTIAL
        with tempfile.TemporaryDirectory(prefix=prefix, suffix=suffix, dir=parent) as space:
            beside, old = Path(space, "new"), Path(space, "old")
            beside.mkdir()
            yield beside
            if folder.exists():
                if exchanged(beside, folder):
                    return
                folder.rename(old)
            try:
                beside.rename(folder)
            except BaseException:
                if old.exists():
                    old.rename(folder)
                raise


def remove_left_folders(folder: Path) -> None:
    """Delete what exports of this folder have left that were killed, but for an old folder that has lost its name."""
    for left in folder.parent.iterdir():
        if left.name.startswith(f".{folder.name}.") and left.name.endswith(PARTIAL):
            if (left / "old").exists() and not folder.exists():
                (left / "old").rename(folder)
            shutil.rmtree(left, ignore_errors=True)
