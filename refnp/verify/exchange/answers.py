"""The verdicts on a folder of answers.

A folder of answers has, for each case of an exported folder, a file of the same name, in any of the four layouts:
NAME.npz, NAME.safetensors, NAME.json, or a folder NAME of .bin files. The output must be there; of the gradients all or
none; nothing else. NAME.json may instead say {"skipped": "why"}. refnp judges by its own numbers, not by those of the
exported files; the manifest tells it which cases were asked, and that they still have the inputs that refnp's have.
"""

import dataclasses
import hashlib
import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from refnp.numbers.rounding import judging_precision
from refnp.verify.asking import excusing
from refnp.verify.case import Answer, Case, Problem
from refnp.verify.exchange.cases import (
    ANSWERS,
    MANIFEST,
    MANIFEST_LIMIT,
    ONNX,
    VERSION,
    id_of,
    in_files,
    with_gradients,
)
from refnp.verify.exchange.formats import (
    FORMATS,
    Arrays,
    Faults,
    NoAnswerError,
    UnreadableError,
    printable,
    read_plain,
    strict_json,
)
from refnp.verify.findings import Report
from refnp.verify.frameworks.onnx import posed
from refnp.verify.judge import DEVIATES, SKIPPED, Judgement, judged, matches
from refnp.verify.judging import check_excused
from refnp.verify.layer_names import cases_named, catalogue
from refnp.verify.record import DTYPES

SHOWN = 50  # names that answer no case
Outcome = tuple[list[Judgement], Answer | None]  # the rows of one case, and its answer where there is one to judge


@dataclass(frozen=True)
class Manifest:
    """What an exported folder says of its cases: {id: {"case", "dtype", "inputs", "files"}}."""

    folder: Path
    layout: str
    cases: Mapping[str, Mapping[str, Any]]


def judge_folder(
    answers: str | Path,
    cases: str | Path | None = None,
    *,
    only: str | None = None,
    skip: Sequence[str] = (),
    excused: Sequence[str] = (),
    name: str | None = None,
) -> Report:
    """The verdicts on every answer in a folder, each quantity of each case a row.

    `cases` is the exported folder that was answered; by default the folder above, or `answers` is itself one, and the
    answers lie in its folder answers. `only` and `skip` choose cases by name; `excused` are known defects that the
    answers may show; `name` says who answered. Raises ValueError where no cases are found, or none is answered,
    rightly or wrongly.
    """
    check_excused(excused)
    who = name or Path(answers).name
    rows, given = judged_folder(answers, cases, only=only, skip=skip, excused=excused, who=who)
    return report_of(f"the folder {answers}", who, rows, given)


def report_of(title: str, who: str, rows: list[Judgement], given: list[tuple[Problem, Answer]]) -> Report:
    """A report of these rows; ValueError if all are skipped."""
    if all(row.verdict == SKIPPED for row in rows):
        reasons = Counter(row.why for row in rows).items()
        raise ValueError(f"{title}: nothing to judge, " + "; ".join(f"{why} ({count})" for why, count in reasons))
    named = [dataclasses.replace(row, framework=who) for row in rows]
    dtypes = " and ".join(dict.fromkeys(row.dtype for row in rows if row.dtype))
    about = f"{who}, {dtypes}, against {judging_precision()}"
    return Report(title, who, named, given, about=about)


def judged_folder(
    answers: str | Path,
    cases: str | Path | None = None,
    *,
    only: str | None = None,
    skip: Sequence[str] = (),
    excused: Sequence[str] = (),
    who: str = "",
) -> tuple[list[Judgement], list[tuple[Problem, Answer]]]:
    """The rows of a folder of answers, and the answers that were judged."""
    folder, manifest = found_cases(Path(answers), None if cases is None else Path(cases))
    chosen = {name: entry for name, entry in manifest.cases.items() if only is None or matches(entry["case"], only)}
    chosen = {name: entry for name, entry in chosen.items() if not any(matches(entry["case"], p) for p in skip)}
    if not chosen:
        raise ValueError(f"no case in {manifest.folder} is left by only={only!r}, skip={tuple(skip)!r}")
    rows, given = [], []
    layers = {entry["case"].partition("/")[0] for entry in chosen.values()} & catalogue().keys()
    known = {case.name: case for case in cases_named(*sorted(layers))} if layers else {}
    for name, entry in sorted(chosen.items()):
        problem = problem_of(name, entry, known, manifest.layout)
        changed = "" if problem is None else changed_file(manifest.folder, entry["files"])
        if problem is None or changed:
            others = "exported from other inputs than this refnp has"
            why = f"{changed} is not as it was exported" if changed else others
            rows.append(row_of(entry["case"], entry["dtype"], "output", SKIPPED, f"{why}; export the cases again"))
            continue
        judgements, answer = judge_one(problem, lambda *asked: read_answer(folder, *asked), name, who, excused)
        rows += judgements
        if answer is not None:
            given.append((problem, answer))
    rows += [row_of(path, "", "", SKIPPED, why) for path, why in extra(folder, manifest)]
    return rows, given


def found_cases(answers: Path, cases: Path | None) -> tuple[Path, Manifest]:
    """The folder of answers, and the manifest of the cases that they answer."""
    if not answers.is_dir():
        raise FileNotFoundError(f"{answers} is no folder")
    if cases is None and (answers / MANIFEST).exists():
        return answers / ANSWERS, read_manifest(answers)
    if cases is None and not (answers.absolute().parent / MANIFEST).exists():
        raise ValueError(f"{answers} does not say which cases it answers; name the exported folder with --cases")
    return answers, read_manifest(answers.absolute().parent if cases is None else cases)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an exported folder; ValueError for one that is none, or of another version."""
    try:
        found = strict_json(read_plain(folder / MANIFEST, MANIFEST_LIMIT))
        if found["format"] != "refnp cases":
            raise ValueError(f"its format is {found['format']!r}")
        if type(found["version"]) is not int or found["version"] != VERSION:
            raise ValueError(f"its version is {found['version']!r}, not {VERSION}; export the cases again")
        entries = {entry["id"]: entry for entry in found["cases"] if is_entry(entry)}
        if len(entries) != len(found["cases"]):
            raise ValueError("a case in it lacks its id, case, dtype, inputs or files, or is there twice")
        return Manifest(folder, str(found["layout"]), entries)
    except (ValueError, KeyError, TypeError) as wrong:
        raise ValueError(f"{folder / MANIFEST} is no manifest of exported cases: {wrong}") from None


def problem_of(name: str, entry: Mapping[str, Any], known: Mapping[str, Case], layout: str) -> Problem | None:
    """refnp's own problem of this name, None if there is none with these inputs."""
    case, dtype = known.get(entry["case"]), entry.get("dtype")
    if case is None or dtype not in DTYPES or id_of(case, dtype) != name:
        return None
    problem = case.problem(dtype) if layout != ONNX else posed(case.problem(dtype))
    if len(entry.get("quantities", ())) > len(case.quantities):
        problem = with_gradients(problem)
    return problem if problem.checksum() == entry.get("inputs") else None


def is_entry(entry: Any) -> bool:
    """Whether something is what a manifest says of a case."""
    texts = all(isinstance(entry[key], str) for key in ("id", "case", "dtype", "inputs"))
    return texts and all(
        isinstance(path, str) and "\0" not in path and type(file["bytes"]) is int and isinstance(file["sha256"], str)
        for path, file in dict(entry["files"]).items()
    )


def judge_one(
    problem: Problem,
    answered: Callable[[str, Arrays], tuple[Arrays, Faults]],
    name: str,
    who: str,
    excused: Sequence[str],
) -> Outcome:
    """The rows of one case; `answered(name, expected)` gives its answer, or says why there is none."""
    one_row = lambda verdict, why: ([row_of(problem.case.name, problem.dtype, "output", verdict, why)], None)
    try:
        arrays, faults = answered(name, expected_of(problem))
    except NoAnswerError as reason:
        return one_row(SKIPPED, str(reason))
    except UnreadableError as wrong:
        return one_row(DEVIATES, str(wrong))
    except Exception as failure:  # whatever it is, it is no answer
        return one_row(DEVIATES, f"cannot be read: {type(failure).__name__}: {failure}")
    return judge_arrays(problem, arrays, faults, who, excused)


def changed_file(folder: Path, files: Mapping[str, Any]) -> str:
    """The first file of a case that has other bytes than the manifest says; one that is gone tells nothing."""
    for path, stored in files.items():
        file = folder / path
        if Path(path).is_absolute() or ".." in Path(path).parts or not os.path.lexists(file):
            continue
        try:
            content = read_plain(file, stored["bytes"])
        except UnreadableError:
            return path
        if hashlib.sha256(content).hexdigest() != stored["sha256"]:
            return path
    return ""


def expected_of(problem: Problem) -> Arrays:
    """What an answer must have: arrays of the right dtype and shape by name, with numbers of no meaning."""
    shapes = {"output": problem.textbook[0].shape}
    for quantity in problem.case.quantities[1:]:
        shapes[in_files(quantity)] = problem.arrays[quantity.removeprefix("gradient of ")].shape
    return {name: np.empty(shape, problem.dtype) for name, shape in shapes.items()}


def read_answer(folder: Path, name: str, expected: Arrays) -> tuple[Arrays, Faults]:
    """The arrays of an answer, and what is wrong with others, from the one file that it has."""
    present = {folder / f"{name}{form.suffix}": form for form in FORMATS.values()}
    paths = [path for path in present if path.is_symlink() or path.exists()]
    if not paths:
        raise UnreadableError("no answer")
    if len(paths) > 1:
        raise UnreadableError(f"answered twice: {' and '.join(path.name for path in paths)}")
    return present[paths[0]].read(paths[0], expected)


def judge_arrays(problem: Problem, arrays: Arrays, faults: Faults, who: str, excused: Sequence[str]) -> Outcome:
    """The rows of arrays that were read; an array that is wrong or missing deviates, gradients may be left out."""
    named = {in_files(quantity): quantity for quantity in problem.case.quantities}
    answer = {named[name]: array for name, array in arrays.items()}
    instead = {named.get(name, name): (DEVIATES, why) for name, why in faults.items()}
    missing = [quantity for quantity in named.values() if quantity not in answer and quantity not in instead]
    no_gradients = len(named) > 1 and missing == problem.case.quantities[1:]
    instead |= dict.fromkeys(missing, (SKIPPED, "no gradients") if no_gradients else (DEVIATES, "missing"))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = problem.reference()
        known = excusing(problem.case.known_defects, excused, who)
        rows = judged(problem, {**reference, **answer}, reference, who, "", known=known)
    found = [row for row in rows if row.quantity not in instead]
    found += [row_of(problem.case.name, problem.dtype, quantity, *what) for quantity, what in instead.items()]
    return found, answer if "output" in answer else None


def row_of(case: str, dtype: str, quantity: str, verdict: str, why: str) -> Judgement:
    """A row without numbers; its texts may have come from outside."""
    size = math.inf if verdict == DEVIATES else math.nan
    names = (printable(case), "", "", printable(dtype), printable(quantity))
    return Judgement("frameworks", *names, size, size, verdict, why=printable(why))


def extra(folder: Path, manifest: Manifest) -> list[tuple[str, str]]:
    """Names in a folder of answers that answer no case, the first of them, and why they are shown."""
    known = {f"{name}{form.suffix}" for name in manifest.cases for form in FORMATS.values()}
    names = sorted(path.name for path in folder.iterdir() if path.name not in known) if folder.is_dir() else []
    shown = [(name, "no case has this name") for name in names[:SHOWN]]
    return shown + ([("…", f"and {len(names) - SHOWN} more")] if len(names) > SHOWN else [])
