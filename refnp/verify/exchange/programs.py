"""The verdict on a program, which is run on each case.

    refnp judge --run './attention {in} {out}' --as attention --format raw

Of one layer, listed cases are asked and those that follow from what it declares (refnp.verify.made). For each case the
words of the command are the program and its arguments, no shell between, where {in} is the file of the case (the
folder, in raw) and {out} that of the answer. The program ends with status 0 when it has answered, with 77 and a line on
its standard error when it has no such function; anything else deviates, and so does taking too long. Another status in
a case that follows from declarations is told, as an error of a function is, and is no wrong answer.
"""

import contextlib
import io
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np

from refnp.models.published.renaming import array_of
from refnp.progress import Progress
from refnp.signals import ending
from refnp.verify.case import Answer, Problem
from refnp.verify.causes.clock import SECONDS, OutOfTime
from refnp.verify.exchange.answers import Outcome, expected_of, judge_one, read_answer, report_of
from refnp.verify.exchange.cases import MANIFEST, chosen_problems, header_of, ids_of, in_files, inputs_of, write_cases
from refnp.verify.exchange.formats import FORMATS, Arrays, Faults, NoAnswerError, UnreadableError, printable
from refnp.verify.findings import ENDS, Report
from refnp.verify.judge import matches
from refnp.verify.judging import check_excused, chosen_dtypes
from refnp.verify.layer_names import named_cases
from refnp.verify.made import made_cases
from refnp.verify.propagation import NoBoundError
from refnp.verify.record import DTYPES

NOT_OFFERED = 77  # the exit status of a program that has no such function, as in GNU's test suites
FAILED = "exit status"
KEPT = 4096  # bytes of the standard error, of which the first line is shown
PAUSE = 0.0005  # seconds before a program is asked once more whether it has ended


def judge_program(
    command: str,
    name: str | None = None,
    *,
    layout: str = "npz",
    limit: float = 10.0,
    jobs: int = 1,
    only: str | None = None,
    skip: Sequence[str] = (),
    excused: Sequence[str] = (),
    dtypes: Sequence[str] = DTYPES,
) -> Report:
    """Run a program on every case of the layer `name`, or of all, and judge what it answers.

    `command` has {in} and {out} among its words; a case may take `limit` seconds, and `jobs` run at a time. `layout`
    is one of FORMATS. `only` and `skip` choose cases by name, `excused` are known defects that it may have. Raises
    ValueError for a command that cannot be run, and where no case is answered.
    """
    words = checked(command)
    check_excused(excused)
    if layout not in FORMATS:
        raise ValueError(f"judge_program: layout is {layout!r}; choose one of {', '.join(FORMATS)}")
    if not limit > 0:
        raise ValueError(f"judge_program: limit is {limit}; give the seconds that a case may take, more than 0")
    problems = ids_of(problems_of(name, only, skip, dtypes))
    who = Path(words[0]).name
    with tempfile.TemporaryDirectory(prefix="refnp-") as space:
        folder, answers = Path(space, "cases"), Path(space, "answers")
        folder.mkdir()
        answers.mkdir()
        write_cases(folder, problems.values(), layout)
        (folder / MANIFEST).unlink()

        stopped = threading.Event()

        def answered(name: str, expected: Arrays) -> tuple[Arrays, Faults]:
            return ran(words, layout, limit, folder, answers, name, expected, stopped)

        def outcome(name: str) -> Outcome:
            return judge_one(problems[name], answered, name, who, excused)

        asked = f"cases of {name}" if name else "cases of all layers, and --as asks those of one"
        with ending(), Progress() as told, ThreadPoolExecutor(jobs) as pool:
            try:
                found = [pool.submit(outcome, one) for one in problems]
                while (state := wait(found, timeout=1)).not_done:  # a signal just before a wait is noticed after it
                    told.show(f"{who} has answered {len(state.done)} of {len(found)} {asked}")
                outcomes = [one.result() for one in found]
            finally:  # after Ctrl-C, or a signal: the programs that run are ended, before the pool waits for them
                stopped.set()
    given = [(problem, answer) for problem, (_, answer) in zip(problems.values(), outcomes, strict=True) if answer]
    rows = [row for found, _ in outcomes for row in found]
    made = {problem.case.name for problem in problems.values() if problem.case.made}
    is_refused = lambda row: row.case in made and row.why.startswith(FAILED)
    report = report_of(name or "all that refnp has", who, [row for row in rows if not is_refused(row)], given)
    for row in filter(is_refused, rows):
        report.skipped.setdefault(f"{ENDS} {row.why}", []).append(row.case)
    report.problems, report.ask = [*problems.values()], as_function(words, layout, limit)
    return report


def as_function(words: list[str], layout: str, limit: float) -> Callable[[Problem], Answer]:
    """The program as a function of any problem, to see what it does; OutOfTime after SECONDS of running it."""
    spent = 0.0

    def ask(problem: Problem) -> Answer:
        nonlocal spent
        if spent > SECONDS:
            raise OutOfTime
        start, form, expected = time.monotonic(), FORMATS[layout], expected_of(problem)
        with tempfile.TemporaryDirectory(prefix="refnp-") as space:
            contents = form.files("case", header_of(problem), inputs_of(problem))
            answers, faults = called(words, layout, limit, contents, "case", expected, Path(space))
        spent += time.monotonic() - start
        if faults or "output" not in answers:
            raise UnreadableError(f"{faults or 'no output'}")
        named = {in_files(quantity): quantity for quantity in problem.case.quantities}
        return {named[name]: array for name, array in answers.items()}

    return ask


def called(
    words: list[str],
    layout: str,
    limit: float,
    contents: Mapping[str, bytes],
    name: str,
    expected: Arrays,
    space: Path,
) -> tuple[Arrays, Faults]:
    """What a program answers to the files of one case, in an empty folder of its own."""
    given, out = space / "given", space / "answer"
    for path, content in contents.items():
        (given / path).parent.mkdir(parents=True, exist_ok=True)
        (given / path).write_bytes(content)
    out.mkdir()
    return ran(words, layout, limit, given, out, name, expected)


def ran(
    words: list[str],
    layout: str,
    limit: float,
    given: Path,
    out: Path,
    name: str,
    expected: Arrays,
    stopped: threading.Event | None = None,
) -> tuple[Arrays, Faults]:
    """What a program answers to the case of this name in a folder, read from the folder where it puts its answers."""
    suffix = FORMATS[layout].suffix
    answer = out / f"{name}{suffix}"
    if not suffix:
        answer.mkdir()
    run(filled(words, given / f"{name}{suffix}", answer), limit, stopped)
    return read_answer(out, name, expected)


def program(
    command: str,
    answers: Mapping[str, tuple[int, ...]],
    *,
    parameters: Mapping[str, Any] | None = None,
    also: Mapping[str, Any] | None = None,
    layout: str = "npz",
    limit: float = 60.0,
) -> Callable[..., dict[str, np.ndarray]]:
    """A program as a function of arrays, for `judge_model(function, inputs, like=model)`: it is run on every call.

    command: the words, among them {in}, the file of the arrays (the folder, in raw), and {out}, that of the answer.
    answers: the shape of each array that it answers with: "output", and where it has them "gradient.NAME" and
        "updated.NAME" of parameters.
    parameters, also: arrays that it is given beside the inputs: "parameter.NAME", and "input.NAME" as inputs are.
    layout: one of FORMATS. limit: the seconds that a call may take.
    Answers have the precision of the parameters, or of the inputs where there are none. Raises ValueError for a command
    or layout that there is not; when called, for a program that fails, or an array that is missing or another.
    """
    if layout not in FORMATS:
        raise ValueError(f"program: layout is {layout!r}; choose one of {', '.join(FORMATS)}")
    words, form = checked(command, "program: command"), FORMATS[layout]

    def function(*inputs: Any, **named: Any) -> dict[str, np.ndarray]:
        values = {str(i): value for i, value in enumerate(inputs)} | named | dict(also or {})
        arrays = {f"input.{name}": array_of(value) for name, value in values.items()}
        arrays |= {f"parameter.{name}": array_of(value) for name, value in (parameters or {}).items()}
        dtype = next((a.dtype for a in reversed(arrays.values()) if a.dtype.kind == "f"), np.dtype("float32"))
        header = {
            "version": 1,
            "id": "call",
            "layer": "model",
            "dtype": str(dtype),
            "quantities": [*answers],
            "options": {},
        }
        expected = {name: np.empty(shape, dtype) for name, shape in answers.items()}
        with tempfile.TemporaryDirectory(prefix="refnp-") as space:
            contents = form.files("call", header, arrays)
            found, faults = called(words, layout, limit, contents, "call", expected, Path(space))
        faults |= {name: "missing" for name in answers if name not in found and name not in faults}
        if faults:
            raise UnreadableError("; ".join(f"{name}: {why}" for name, why in faults.items()))
        return found

    function.__name__ = Path(words[0]).name
    return function


def checked(command: str, option: str = "--run") -> list[str]:
    """The words of a command; ValueError for one that is no command, naming the option that has it."""
    try:
        words = shlex.split(command) if os.sep == "/" else [w.strip('"') for w in shlex.split(command, posix=False)]
    except ValueError as wrong:
        raise ValueError(f"{option} {command!r}: {wrong}") from None
    for place in ("{in}", "{out}"):
        if not any(place in word for word in words):
            raise ValueError(f"{option} {command!r}: there is no {place}; write 'PROGRAM {{in}} {{out}}'")
    if shutil.which(words[0]) is None:
        raise ValueError(f"{option} {command!r}: there is no program {words[0]}")
    return words


def problems_of(name: str | None, only: str | None, skip: Sequence[str], dtypes: Sequence[str]) -> list[Problem]:
    """The cases of a layer, by any of its names, with those that follow from what it declares; or the listed of all."""
    if name is None:
        cases = [problem.case for problem in chosen_problems(only, DTYPES[:1])]
    else:
        listed = named_cases(name)
        layer = listed[0].layer
        cases = [*listed, *made_cases(layer, [case for case in listed if case.layer is layer])]
    is_chosen = lambda case: only is None or matches(case.name, only)
    cases = [case for case in cases if is_chosen(case) and not any(matches(case.name, pattern) for pattern in skip)]
    problems = [case.problem(dtype) for case in cases for dtype in chosen_dtypes(dtypes)]
    chosen = [problem for problem in problems if not problem.case.made or is_computed(problem)]
    if not chosen:
        raise ValueError(f"no case of {name} is left by only={only!r}, skip={tuple(skip)!r}; see refnp cases list")
    return chosen


def is_computed(problem: Problem) -> bool:
    """Whether refnp computes a case, and what rounding may leave of it, and a file can hold its options."""
    try:
        return bool(problem.bounds) and bool(header_of(problem))
    except (NoBoundError, TypeError, ValueError):
        return False


def filled(words: list[str], given: Path, out: Path) -> list[str]:
    """The words of a command with the paths in their places."""
    return [word.replace("{in}", str(given)).replace("{out}", str(out)) for word in words]


def run(words: list[str], limit: float, stopped: threading.Event | None = None) -> None:
    """Run a program to its end, and end with it whatever it has started; UnreadableError unless it ends well.

    NoAnswerError for status 77. It is ended when `limit` seconds are over or `stopped` is set, with all of its process
    group; where there are no groups (Windows), alone.
    """
    none, heard = subprocess.DEVNULL, hasattr(os, "set_blocking")  # what Windows has from Python 3.12 on
    try:
        process = subprocess.Popen(
            words, stdin=none, stdout=none, stderr=subprocess.PIPE if heard else none, start_new_session=True
        )
    except OSError as wrong:
        raise UnreadableError(f"cannot be run: {wrong.strerror}") from None
    end, pause, said = time.monotonic() + limit, PAUSE, b""
    with process.stderr or io.BytesIO() as pipe:
        try:
            if heard:
                os.set_blocking(pipe.fileno(), False)
            while process.poll() is None and time.monotonic() < end and not (stopped and stopped.is_set()):
                came = pipe.read(1 << 20) or b""  # also what is not kept, so that the program never waits
                said, pause = (said + came)[:KEPT], PAUSE if came else min(2 * pause, 0.02)
                time.sleep(pause)
            status = process.poll()
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # nothing of its group is left
                os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
            process.wait()
        message = first_line(said + (pipe.read(KEPT) or b""))
    if status is None:
        raise UnreadableError(f"no answer within {limit:g} s, and stopped")
    if status == NOT_OFFERED:
        raise NoAnswerError(message or "the program says so (status 77)")
    if status:
        ended = f"{FAILED} {status}" if status > 0 else f"ended by signal {-status} ({_name_of(-status)})"
        raise UnreadableError(f"{ended}{': ' if message else ''}{message}")


def first_line(text: bytes) -> str:
    """The first line of what a program said that is not empty, what cannot be printed replaced."""
    lines = (line.strip() for line in text.decode(errors="replace").splitlines())
    return printable(next((line for line in lines if line), ""))[:200]


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "of no name"
