"""What other frameworks really answered: `python -m refnp.verify.record` asks them; recordings are judged where they
are not installed.

    python -m refnp.verify.record                          all that are installed, the cases that are new or changed
    python -m refnp.verify.record PyTorch --only gelu      one framework, the cases with "gelu" in their names
    python -m refnp.verify.record --again                  every case again, with the versions that are installed

A recording is one .npz file for each framework, without pickles: the numbers of all answers end to end, one array for
each precision, the first bytes of all, then the second ones, …; and `index`, a JSON text in UTF-8 that says where each
answer stands, for which inputs (a checksum), and on which machine, with which versions, on which day it was given.
Nothing is judged here: a wrong answer is recorded as it came.
"""

import argparse
import datetime
import io
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from refnp.files import write_whole
from refnp.verify.case import Answer, Case, FailedError, NotOfferedError, Problem, quiet
from refnp.verify.frameworks import PACKAGES, Framework, framework_of, framework_with, installed
from refnp.verify.layers import cases_of_layers

FOLDER = Path(__file__).parent / "recorded"
RECORDED = "(recorded)"  # how the version of what was recorded ends
DTYPES = ("float32", "float64")
Entry = dict[str, Any]  # "refused", why; or "checksum" and "answer", or "failed", how; perhaps "facts" of its own


class Recording:
    """The answers of one framework: `facts` about how they came about, and `answer(problem)`."""

    def __init__(self, file: Path):
        with np.load(file, allow_pickle=False) as stored:
            self._numbers = {dtype: from_planes(stored[dtype], dtype) for dtype in DTYPES}
            index = json.loads(stored["index"].tobytes())
        self.facts: dict[str, str] = index["facts"]
        self._entries: dict[str, Entry] = index["entries"]

    @property
    def framework(self) -> Framework:
        """The framework as it was recorded, which its version says."""
        return framework_with(self.facts["framework"], f"{self.facts['version']} {RECORDED}", self.answer)

    def answer(self, problem: Problem) -> Answer:
        """The recorded output and gradients; NotOfferedError if there are none, or they are of other inputs.

        FailedError if the framework crashed then.
        """
        entry = self._entries.get(key_of(problem))
        if entry is None:
            raise NotOfferedError(f"{self.facts['framework']}: the recording has no such case; make it again")
        if "refused" in entry:
            raise NotOfferedError(entry["refused"])
        if entry["checksum"] != problem.checksum():
            raise NotOfferedError(f"{self.facts['framework']}: recorded from other inputs; make the recording again")
        if "failed" in entry:
            raise FailedError(entry["failed"])
        return self._arrays(entry)

    def entries(self) -> dict[str, Entry]:
        """All entries by key, with the arrays themselves, as `write` takes them."""
        return {
            key: entry | {"answer": self._arrays(entry)} if "answer" in entry else entry
            for key, entry in self._entries.items()
        }

    def _arrays(self, entry: Entry) -> Answer:
        return {name: self._array(**place) for name, place in entry["answer"].items()}

    def _array(self, dtype: str, start: int, shape: list[int]) -> np.ndarray:
        size = int(np.prod(shape, dtype=int))
        return self._numbers[dtype][start : start + size].reshape(shape)


def key_of(problem: Problem) -> str:
    """The name of a problem in a recording."""
    return f"{problem.case.name} in {problem.dtype}"


def write(file: Path, facts: Mapping[str, str], entries: Mapping[str, Entry]) -> None:
    """Store the entries, whole or not at all."""
    numbers: dict[str, list[np.ndarray]] = {dtype: [] for dtype in DTYPES}
    filled = dict.fromkeys(DTYPES, 0)
    placed: dict[str, Entry] = {}
    for key, entry in entries.items():
        placed[key] = dict(entry)
        if "answer" in entry:
            placed[key]["answer"] = places = {}
            for name, array in entry["answer"].items():
                dtype = str(array.dtype)
                places[name] = {"dtype": dtype, "start": filled[dtype], "shape": list(array.shape)}
                numbers[dtype].append(array.ravel())
                filled[dtype] += array.size
    index = json.dumps({"facts": dict(facts), "entries": placed}, separators=(",", ":"), ensure_ascii=False)
    arrays = {dtype: planes(np.concatenate([np.empty(0, dtype), *parts])) for dtype, parts in numbers.items()}
    content = io.BytesIO()
    np.savez_compressed(content, index=np.frombuffer(index.encode(), np.uint8), **arrays)  # type: ignore[arg-type]
    write_whole(file, content.getvalue())


def planes(numbers: np.ndarray) -> np.ndarray:
    """Numbers (n,) as bytes (itemsize, n): signs and exponents stand together, where they repeat and are compressed."""
    return np.ascontiguousarray(numbers.view(np.uint8).reshape(-1, numbers.itemsize).T)


def from_planes(stored: np.ndarray, dtype: str) -> np.ndarray:
    """The numbers again."""
    return np.ascontiguousarray(stored.T).reshape(-1).view(dtype)


def main(argv: Sequence[str] | None = None) -> int:
    """Record the frameworks that are named, all that are installed by default; exit status 2 if one is not."""
    parser = argparse.ArgumentParser(prog="python -m refnp.verify.record", description="Record what frameworks answer.")
    parser.add_argument("frameworks", nargs="*", metavar="FRAMEWORK", help=f"{', '.join(PACKAGES)} (what is installed)")
    parser.add_argument("--only", metavar="WORDS", default="", help="only cases with WORDS in their names")
    parser.add_argument("--again", action="store_true", help="also the cases that are recorded already")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where to write (in the package by default)")
    options = parser.parse_args(argv)
    chosen = options.frameworks or [name for name in PACKAGES if installed(name)]
    if unknown := set(chosen) - set(PACKAGES):
        parser.error(f"there is no framework {', '.join(sorted(unknown))}; name {' or '.join(PACKAGES)}")
    if missing := [name for name in chosen if not installed(name)]:
        parser.error(f"{', '.join(missing)} is not installed")
    named = [case for case in cases_of_layers() if options.only in case.name]
    for framework in map(framework_of, chosen):
        file = options.folder / f"{framework.name.lower()}.npz"
        try:
            count = record(framework, file, named, again=options.again)
        except ValueError as reason:
            parser.error(str(reason))
        who, size = f"{framework.name} {framework.version}", file.stat().st_size / 1e6
        print(f"{file}: {count} new answers of {who}, {size:.2f} MB")
    return 0


def record(framework: Framework, file: Path, named: Sequence[Case], *, again: bool = False) -> int:
    """Ask one framework for the named cases and store its answers among those of `file`; returns how many are new.

    Without `again` what is recorded from the same inputs is kept. Answers of cases that no longer exist are dropped.
    ValueError if answers of another version would stay beside the new ones: a recording is of one version.
    """
    facts = facts_of(framework)
    old = Recording(file) if file.exists() else None
    existing = {key_of(case.problem(dtype)) for case in cases_of_layers() for dtype in DTYPES}
    kept = {} if old is None else {key: entry for key, entry in old.entries().items() if key in existing}
    new: dict[str, Entry] = {}
    for problem in (framework.posed(case.problem(dtype)) for case in named for dtype in DTYPES):
        before = kept.get(key_of(problem), {})
        if again or before.get("checksum") != problem.checksum():
            entry = asked(framework, problem)
            if "answer" in entry or entry != before:  # a refusal or a failure may be the same as before
                new[key_of(problem)] = entry
    if old is not None and not new:
        return 0
    kept = {key: entry for key, entry in kept.items() if key not in new}
    if old is not None and any("answer" in entry for entry in kept.values()):
        if facts["version"] != old.facts["version"]:
            raise ValueError(
                f"{file.name} is of {framework.name} {old.facts['version']}, and {facts['version']} is installed: "
                "record every case --again, without --only"
            )
        different = {name: fact for name, fact in facts.items() if fact != old.facts.get(name)}
        new = {key: entry | ({"facts": different} if different else {}) for key, entry in new.items()}
        facts = old.facts
    write(file, facts, kept | new)
    return sum("answer" in entry for entry in new.values())


def asked(framework: Framework, problem: Problem) -> Entry:
    """What a framework answers, or why it does not."""
    with quiet():
        try:
            return {"checksum": problem.checksum(), "answer": framework.answer(problem)}
        except NotOfferedError as reason:
            return {"refused": str(reason)}
        except FailedError as failure:
            return {"checksum": problem.checksum(), "failed": str(failure)}


def facts_of(framework: Framework) -> dict[str, str]:
    """Who answers here and now: framework, versions, machine and day."""
    return {
        "framework": framework.name,
        "version": framework.version,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


if __name__ == "__main__":
    sys.exit(main())
