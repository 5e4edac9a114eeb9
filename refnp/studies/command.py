"""What `refnp train`, `evaluate`, `plot` and `export` do with their options, and what they print."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

WRONG, BROKEN, STOPPED = 2, 1, 130
REFUSED = (ValueError, OSError, MemoryError)  # what wrong names, options and files end in


def train(options: argparse.Namespace) -> int:
    """Train, or go on; the exit status is 1 for numbers that are not finite, 2 for wrong usage, 130 after Ctrl-C."""
    from refnp.studies import training

    start, file = time.perf_counter(), options.checkpoint or f"{options.model}-{options.task}.npz"
    try:
        study = training.Study(
            options.model,
            options.task,
            options=parsed(options.option),
            seed=options.seed,
            dtype=options.dtype,
            batch=options.batch,
            learning_rate=options.lr,
            schedule=options.schedule,
            clip=options.clip,
        )
        done = training.steps_done(study, file) if not options.restart else 0
        print(f"{options.model} on {options.task}, {training.plan(done, options.steps)}, kept in {file}", flush=True)
        history = training.run(
            study, steps=options.steps, checkpoint=file, every=options.every, resume=not options.restart
        )
    except KeyboardInterrupt:
        print(f"\nrefnp train: stopped; the same command goes on from {file}", file=sys.stderr)
        return STOPPED
    except FloatingPointError as wrong:
        print(f"refnp train: {wrong}", *getattr(wrong, "__notes__", ()), sep="\n", file=sys.stderr)
        return BROKEN
    except REFUSED as wrong:
        return refused("train", wrong)
    print(f"{training.outcome(history)}, {time.perf_counter() - start:.1f} s")
    print(f"next: refnp evaluate {file}, refnp plot {file}")
    return 0


def evaluate(options: argparse.Namespace) -> int:
    """Print the figures of a trained model, and write them as JSON if asked; the exit status is 2 for wrong usage."""
    from refnp.studies import evaluation
    from refnp.studies.registry import sampler
    from refnp.studies.trained import check_other, open_trained

    try:
        check_writable(options.json)
        trained = open_trained(options.source, options.dtype)
        if options.json is not None:
            check_other(trained.file, options.json)
        task = options.task or trained.configuration["task"]
        tasks = sampler(task)
        print(
            f"{trained.title}\nevaluated on {task}, {options.tasks} tasks at each place, seed {options.seed}",
            flush=True,
        )
        places = evaluation.evaluate(
            trained.model,
            tasks,
            count=options.tasks,
            seed=options.seed,
            shift=options.shift,
            autoregressive=options.autoregressive,
            watched=watched,
        )
        if options.json is not None:
            about = {"checkpoint": str(trained.file), "steps": trained.steps, "configuration": trained.configuration}
            asked = {name: getattr(options, name) for name in ("tasks", "seed", "shift", "autoregressive")}
            write_json(options.json, about | {"task": task} | asked | {"figures": evaluation.as_json(places)})
    except REFUSED as wrong:
        return refused("evaluate", wrong)
    for table in evaluation.tables(places, options.shift):
        evaluation.show(table)
    return 0


def plot(options: argparse.Namespace) -> int:
    """Draw what a trained model predicts, into a file; the exit status is 2 for wrong usage, or without matplotlib."""
    from refnp.studies.trained import open_trained

    try:
        if importlib.util.find_spec("matplotlib") is None:
            raise ValueError("plots need matplotlib; python -m pip install 'refnp[study]'")
        from refnp.studies import plotting

        trained = open_trained(options.source)
        task = options.task or trained.configuration["task"]
        file = options.out or f"{Path(options.source).stem}.png"
        check_writable(file)
        plotting.plot(
            trained,
            task,
            file,
            contexts=tuple(options.contexts),
            samples=options.samples,
            seed=options.seed,
            shift=options.shift,
        )
    except REFUSED as wrong:
        return refused("plot", wrong)
    print(f"{trained.title}\ndrawn on {task} in {file}")
    return 0


def export(options: argparse.Namespace) -> int:
    """Write the weights of a checkpoint alone; the exit status is 2 for wrong usage."""
    from refnp.studies.trained import export

    try:
        size = export(options.source, options.file)
    except REFUSED as wrong:
        return refused("export", wrong)
    print(f"{options.file}: {size} bytes")
    return 0


def parsed(pairs: Sequence[str]) -> dict[str, Any]:
    """["features=32", "covariance=cholesky"] → {"features": 32, "covariance": "cholesky"}: JSON, or else a word."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ValueError(f"--option {pair!r}: write NAME=VALUE, such as features=32")
        try:
            found[name.replace("-", "_")] = json.loads(value)
        except json.JSONDecodeError:
            found[name.replace("-", "_")] = value
    return found


def refused(command: str, wrong: Exception) -> int:
    """Say what is wrong, in one paragraph, and return the exit status of wrong usage."""
    print(f"refnp {command}: error: {wrong}", file=sys.stderr)
    return WRONG


def watched(steps: Iterable[Any]) -> Iterable[Any]:
    """The same steps, with a bar on a terminal where `rich` is installed."""
    if not sys.stderr.isatty() or importlib.util.find_spec("rich") is None:
        return steps
    from rich.console import Console
    from rich.progress import track

    return track(list(steps), description="", console=Console(stderr=True), transient=True)


def check_writable(file: str | None) -> None:
    """OSError unless the file, if any, can be written, before any work is done."""
    from refnp.verify import report

    if file is not None:
        try:
            report.check_writable(Path(file))
        except FileNotFoundError as wrong:  # names a file that was only tried
            raise FileNotFoundError(f"{file} cannot be written: {wrong.strerror}") from wrong


def write_json(file: str, value: Any) -> None:
    """Write a value as JSON, whole or not at all."""
    partial = f"{file}.{os.getpid()}.partial"
    with open(partial, "w", encoding="utf-8") as beside:
        beside.write(json.dumps(value, indent=1, allow_nan=False) + "\n")
    os.replace(partial, file)
