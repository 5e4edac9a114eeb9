"""What PyTorch and JAX really answered: recorded by `python -m refnp.verify.record`, used where they are not installed.

One .npz file a framework, without pickles: the numbers of all answers end to end, one array for each precision, and
`index`, a JSON text that says where each answer stands, for which inputs (a checksum), and on which machine, with which
versions, on which day it was given.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from refnp.verify.case import Answer, Problem
from refnp.verify.frameworks import NotOfferedError

FOLDER = Path(__file__).parent
DTYPES = ("float32", "float64")


class Recording:
    """The answers of one framework: `facts` about how they came about, and `answer(problem)`."""

    def __init__(self, file: Path):
        with np.load(file, allow_pickle=False) as stored:
            self._numbers = {dtype: stored[dtype] for dtype in DTYPES}
            index = json.loads(str(stored["index"]))
        self.facts: dict[str, str] = index["facts"]
        self._entries: dict[str, dict] = index["entries"]

    @property
    def version(self) -> str:
        return f"{self.facts['version']} (recorded)"

    def answer(self, problem: Problem) -> Answer:
        """The recorded output and gradients; NotOfferedError if there are none, or they are of other inputs."""
        entry = self._entries.get(key_of(problem))
        if entry is None:
            raise NotOfferedError(f"{self.facts['framework']}: the recording has no such case; make it again")
        if "refused" in entry:
            raise NotOfferedError(entry["refused"])
        if entry["checksum"] != problem.checksum():
            raise NotOfferedError(f"{self.facts['framework']}: recorded from other inputs; make the recording again")
        return {name: self._array(**place) for name, place in entry["answer"].items()}

    def _array(self, dtype: str, start: int, shape: list[int]) -> np.ndarray:
        size = int(np.prod(shape, dtype=int))
        return self._numbers[dtype][start : start + size].reshape(shape)


def key_of(problem: Problem) -> str:
    """The name of a problem in a recording."""
    return f"{problem.case.name} in {problem.dtype}"


def write(file: Path, facts: Mapping[str, str], answers: Mapping[str, tuple[str, Any]]) -> None:
    """Store `answers`, by key the checksum and the answer, or the reason why there is none; whole or not at all."""
    numbers: dict[str, list[np.ndarray]] = {dtype: [] for dtype in DTYPES}
    filled = dict.fromkeys(DTYPES, 0)
    entries: dict[str, dict] = {}
    for key, (checksum, answer) in answers.items():
        if isinstance(answer, str):
            entries[key] = {"refused": answer}
            continue
        places = {}
        for name, array in answer.items():
            dtype = str(array.dtype)
            places[name] = {"dtype": dtype, "start": filled[dtype], "shape": list(array.shape)}
            numbers[dtype].append(array.ravel())
            filled[dtype] += array.size
        entries[key] = {"checksum": checksum, "answer": places}
    index = json.dumps({"facts": dict(facts), "entries": entries}, separators=(",", ":"))
    arrays = {dtype: np.concatenate([np.empty(0, dtype), *parts]) for dtype, parts in numbers.items()}
    with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".npz", delete=False) as beside:
        try:
            np.savez_compressed(beside, index=np.asarray(index), **arrays)  # type: ignore[arg-type]
        except BaseException:
            os.unlink(beside.name)
            raise
    os.chmod(beside.name, 0o644)
    os.replace(beside.name, file)
