"""Damaged files, read by every reader: python -m tests.fuzz.readers --count N --seed S [--only NAME]

A good file is changed as bytes, cut, with pieces gone, repeated or exchanged; or inside: entries of an archive whose
checksums are made right again, and values in JSON. Whatever comes, a reader gives what it reads or one error of its
own kind, whose first line can be shown on a terminal, within a time and in memory that the size of the file bounds.
"""

import argparse
import io
import json
import sys
import tempfile
import time
import tracemalloc
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from refnp.cli import parsed
from refnp.layers import Linear
from refnp.models.published import safetensors
from refnp.studies import conversion, sweep, trained
from refnp.studies.registry import build
from refnp.tasks.translation import read_pairs
from refnp.training import checkpoint
from refnp.verify.exchange import export
from refnp.verify.exchange.answers import read_answer, read_manifest
from refnp.verify.exchange.formats import FORMATS, NoAnswerError

NUMBERS = (0, 1, 127, 255, 1 << 15, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1)
VALUES = (None, True, -1, 0, 1e308, 10**30, "", "\x1b[2J", "NaN", [], {}, [[[[]]]], {"x": 1}, "x" * 5000, [0] * 500)
TEXTS = (b"9" * 30, b"-1", b"1e400", b"'O'", b"'<U99'", b"[", b"{", b'"', b"NaN", b"\x1b[2J", b"\0", b"\xff\xfe", b"\n")
HEADER = {"version": 1, "id": "", "layer": "", "dtype": "", "quantities": [], "options": {}}
SECONDS = 10.0  # for a file of some thousand bytes
MEMORY = 1 << 25, 80  # bytes: what a reader may take, and how many times the size of the file beside it


@dataclass(frozen=True)
class Reader:
    """A good file, by its name and bytes, what reads it, and the errors that may come."""

    name: str
    content: bytes
    read: Callable[[Path], Any]
    errors: tuple[type[Exception], ...] = (ValueError, OSError)


def readers(folder: Path) -> dict[str, Reader]:
    """Every reader of files, by its name; those of packages that are installed."""
    rng = np.random.default_rng(0)
    expected = {"output": rng.normal(size=(3, 4)).astype(np.float32), "gradient.x": rng.normal(size=4)}
    found = {}
    for layout, form in FORMATS.items():
        try:
            files = form.files("case", HEADER, expected)
        except ImportError:
            continue
        if layout == "raw":
            read = lambda path: FORMATS["raw"].read(path.parent, expected)
            found["answer raw"] = Reader("answers/output.bin", files["case/output.bin"], read)
            continue
        (content,) = files.values()
        if layout == "npz":
            content = saved(expected)
        if layout == "json":
            content = json.dumps(json.loads(content)["arrays"]).encode()
        read = lambda path: read_answer(path.parent, path.stem, expected)
        found[f"answer {layout}"] = Reader(f"case{form.suffix}", content, read, (ValueError, NoAnswerError))
    export(folder / "cases", only="relu/ordinary")
    manifest = (folder / "cases" / "manifest.json").read_bytes()
    found["manifest"] = Reader("manifest.json", manifest, lambda path: read_manifest(path.parent))
    model = Linear(3, 2, rng=rng)
    state = {f"decoder.{name}": array for name, array in model.state_dict().items()}
    about = {"model": "cnp", "task": "eq", "options": {}, "seed": 0}
    checkpoint.save(folder / "run.npz", checkpoint.Checkpoint(state, about, 3, checkpoint.state_of(rng), "Adam"))
    found["checkpoint"] = Reader("run.npz", (folder / "run.npz").read_bytes(), checkpoint.load)
    about = {"model": "cnp", "task": "eq", "options": {"hidden": 4}, "seed": 0}
    small = build("cnp", about["options"], dx=1, dy=1, dtype=np.float32, rng=rng)
    checkpoint.save(folder / "cnp.npz", checkpoint.Checkpoint(small.state_dict(), about))
    found["trained model"] = Reader("cnp.npz", (folder / "cnp.npz").read_bytes(), trained.open_trained)
    small = build("tnpd", {"features": 8, "layers": 1, "heads": 2}, dx=1, dy=1, dtype=np.float32, rng=rng)
    state = conversion.SOURCES["tnp-pytorch"].names.save(small)
    converted: Any = lambda path: conversion.convert(path, "tnp-pytorch", path.with_name("converted.out"))
    found["weights npz"] = Reader("weights.npz", saved(state), converted)
    try:
        safetensors.write(folder / "weights.safetensors", state)
        content = (folder / "weights.safetensors").read_bytes()
        found["weights safetensors"] = Reader("weights.safetensors", content, converted)
    except ImportError:
        pass
    try:
        import torch

        tensors = {name: torch.from_numpy(array) for name, array in state.items()}
        torch.save(tensors, folder / "weights.pt")
        found["weights pt"] = Reader("weights.pt", (folder / "weights.pt").read_bytes(), converted)
    except ImportError:
        pass
    found["sentences"] = Reader("pairs.tsv", b"good day\tbonjour\r\nice\tla glace\n" * 9, read_pairs)
    runs = b'models = ["cnp", "convcnp"]\ntasks = ["eq"]\nseeds = [0, 1]\nsteps = 5\n[options.cnp]\nfeatures = 8\n'
    found["sweep"] = Reader("runs.toml", runs, sweep.opened)
    option = b'features={"a": [1, 2.5, true], "b": null}'
    found["option"] = Reader("option.txt", option, lambda path: parsed([path.read_bytes().decode(errors="replace")]))
    return found


def saved(arrays: dict[str, np.ndarray]) -> bytes:
    """A .npz file."""
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    return content.getvalue()


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """The file with one to four changes, inside its archive or its JSON where it has these, or anywhere."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        inside = rng.random() < 0.6
        if inside and content[:2] == b"PK":
            content = rearchived(content, rng)
        elif inside and content[:1] in (b"{", b"["):
            content = in_json(content, rng)
        else:
            content = in_bytes(content, rng)
    return content


def in_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    """One change anywhere: a bit, a number, a cut, a piece that is gone, repeated or exchanged, or a text."""
    if not content:
        return content
    start, end = sorted(int(n) for n in rng.integers(0, len(content) + 1, 2))
    end = min(end, start + 64) if rng.random() < 0.7 else end
    size, order = int(rng.choice([1, 2, 4, 8])), "little" if rng.random() < 0.8 else "big"
    number = (NUMBERS[rng.integers(len(NUMBERS))] % (1 << 8 * size)).to_bytes(size, order)  # type: ignore[arg-type]
    place = min(start, len(content) - 1)
    return [
        lambda: content[:place] + bytes([content[place] ^ 1 << int(rng.integers(8))]) + content[place + 1 :],
        lambda: content[:place] + number + content[place + size :],
        lambda: content[:start],
        lambda: content[:start] + content[end:],
        lambda: content[:end] + content[start:],
        lambda: content[:start] + TEXTS[rng.integers(len(TEXTS))] + content[end if rng.random() < 0.5 else start :],
        lambda: content[end:] + content[:start],
    ][rng.integers(7)]()


def rearchived(content: bytes, rng: np.random.Generator) -> bytes:
    """An archive with one entry changed, gone, there twice, renamed or compressed, its checksums right."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = [(name, archive.read(name)) for name in archive.namelist()]
    except Exception:
        return in_bytes(content, rng)
    if not entries:
        return content
    k = int(rng.integers(len(entries)))
    name, data = entries[k]
    kind, packed = rng.integers(6), zipfile.ZIP_STORED
    if kind == 0:
        del entries[k]
    elif kind == 1:
        entries.append((name, entries[int(rng.integers(len(entries)))][1]))
    elif kind == 2:
        entries[k] = ("../" * int(rng.integers(3)) + str(rng.choice([name[:-1], "\x1b[31m.npy", "format.npy"])), data)
    elif kind == 3:
        entries[k], packed = (name, data + bytes(1 << 20)), zipfile.ZIP_DEFLATED
    else:
        entries[k] = (name, in_bytes(data, rng))
    made = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(made, "w", packed) as archive:
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, data in entries:
            archive.writestr(name, data)
    return made.getvalue()


def in_json(content: bytes, rng: np.random.Generator) -> bytes:
    """A JSON text with one value, anywhere in it, replaced, gone, or called something else."""
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError):
        return in_bytes(content, rng)
    node: Any = tree
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return content
        key = keys[rng.integers(len(keys))]
        if isinstance(node[key], (dict, list)) and node[key] and rng.random() < 0.7:
            node = node[key]
            continue
        value = VALUES[rng.integers(len(VALUES))]
        if rng.random() < 0.2:
            del node[key]
        elif isinstance(node, dict) and rng.random() < 0.2:
            node[str(value)] = node.pop(key)
        else:
            node[key] = value
        return json.dumps(tree).encode()


def fault(reader: Reader, content: bytes, folder: Path) -> str:
    """What is wrong with how a file was read; nothing where it was read, or refused as it must be: then `refused`."""
    path = folder / reader.name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    began = time.perf_counter()
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            reader.read(path)
        said = "read"
    except reader.errors as wrong:
        said = "refused"
        if not str(wrong).strip():
            return f"{type(wrong).__name__} without a word"
        if type(wrong) not in (*reader.errors, FileNotFoundError) and not isinstance(wrong, reader.errors[0]):
            return f"{type(wrong).__name__}: {wrong}"
    except BaseException as wrong:
        if isinstance(wrong, KeyboardInterrupt):
            raise
        return f"{type(wrong).__name__}: {str(wrong)[:200]}"
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    if (seconds := time.perf_counter() - began) > SECONDS:
        return f"{seconds:.1f} s for {len(content)} bytes"
    if peak > MEMORY[0] + MEMORY[1] * len(content):
        return f"{peak} bytes of memory for {len(content)}"
    return said


def run(count: int, seed: int = 0, only: str = "") -> tuple[Counter, dict[str, tuple[str, bytes]]]:
    """(name, "read" or "refused" or "wrong"): how many; and of each reader the first thing that is wrong."""
    counts: Counter = Counter()
    wrong: dict[str, tuple[str, bytes]] = {}
    with tempfile.TemporaryDirectory() as space:
        found = {name: reader for name, reader in readers(Path(space)).items() if only in name}
        for name, reader in found.items():
            folder = Path(space, name.replace(" ", "_"))
            folder.mkdir()
            assert fault(reader, reader.content, folder) == "read", f"{name}: the good file is not read"
            for number in range(count):
                rng = np.random.default_rng([seed, number])
                content = damaged(reader.content, rng)
                how = fault(reader, content, folder)
                if how not in ("read", "refused"):
                    wrong.setdefault(f"{name}: {how.splitlines()[0]}", (f"seed {seed}, number {number}", content))
                    how = "wrong"
                counts[name, how] += 1
    return counts, wrong


def main() -> int:
    """Print how many files each reader read and refused, and what it did else; the exit status is 1 if it did."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.readers", description="Damaged files for every reader.")
    parser.add_argument("--count", type=int, default=10_000, help="files for each reader (default: 10000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", metavar="NAME", help="only readers whose names contain NAME")
    options = parser.parse_args()
    began = time.perf_counter()
    counts, wrong = run(options.count, options.seed, options.only)
    for what, (where, _) in wrong.items():
        print(f"{what} ({where})")
    for name in dict.fromkeys(name for name, _ in counts):
        print(f"{name:22}" + "".join(f"{counts[name, how]:8} {how}" for how in ("read", "refused", "wrong")))
    print(f"{counts.total()} files, seed {options.seed}, {time.perf_counter() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
