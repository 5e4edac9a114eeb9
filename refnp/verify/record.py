"""Run PyTorch and JAX on every case and store what they answer: `python -m refnp.verify.record [PyTorch] [JAX]`.

Nothing is judged here: a wrong answer is recorded as it came. Takes a minute or two, most of it JAX compiling.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np

from refnp.verify import recorded
from refnp.verify.cases import cases
from refnp.verify.frameworks import NotOfferedError, jax, pytorch

ADAPTERS = {"PyTorch": pytorch, "JAX": jax}


def main(argv: Sequence[str] | None = None) -> int:
    """Record the frameworks that are named, all by default; exit status 2 if one is not installed."""
    parser = argparse.ArgumentParser(prog="python -m refnp.verify.record", description="Record what frameworks answer.")
    parser.add_argument("frameworks", nargs="*", metavar="FRAMEWORK", help="PyTorch, JAX (both by default)")
    parser.add_argument(
        "--folder", type=Path, default=recorded.FOLDER, help="where to write (in the package by default)"
    )
    options = parser.parse_args(argv)
    chosen = options.frameworks or list(ADAPTERS)
    if unknown := set(chosen) - set(ADAPTERS):
        parser.error(f"there is no adapter for {', '.join(sorted(unknown))}; name {' or '.join(ADAPTERS)}")
    if missing := [name for name in chosen if not ADAPTERS[name].installed()]:
        parser.error(f"{', '.join(missing)} is not installed")
    for name in chosen:
        file = options.folder / f"{name.lower()}.npz"
        count = record(ADAPTERS[name], file)
        print(f"{file}: {count} answers of {name} {ADAPTERS[name].version()}, {file.stat().st_size / 1e6:.2f} MB")
    return 0


def record(adapter: ModuleType, file: Path) -> int:
    """Store the answers of one framework; returns how many."""
    answers = {}
    for case in cases():
        for dtype in recorded.DTYPES:
            problem = case.problem(dtype)
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # some inputs are meant to overflow
                try:
                    answers[recorded.key_of(problem)] = (problem.checksum(), adapter.answer(problem))
                except NotOfferedError as reason:
                    answers[recorded.key_of(problem)] = ("", str(reason))
    facts = {
        "framework": adapter.NAME,
        "version": adapter.version(),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    recorded.write(file, facts, answers)
    return sum(not isinstance(answer, str) for _, answer in answers.values())


if __name__ == "__main__":
    sys.exit(main())
