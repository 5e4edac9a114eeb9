"""Random edits of the whole program beside its tests: is what an edit makes wrong found out?

    python -m tests.program_mutants 100 --seed 0         100 edits, and those that no test of theirs finds out
    python -m tests.program_mutants --only refnp/layers/softmax.py:40

An edit is of one operator, comparison, constant or slice. Its tests are those of its file: the files of tests that
have its name, those that import it, and of the laws that hold for all operations those of its functions; the first
that fails ends them, and so do SECONDS of them. Pages have more edits, and laws without pytest: tests/mutants.py.
"""

import argparse
import ast
import collections
import copy
import os
import pathlib
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[1]
OUT_OF_TIME = "out of time"
SECONDS = 120  # of the processor, for the tests of an edit
DATA = ("refnp/verify/layers/", "refnp/claims/", "refnp/figures/")  # cases, sentences and pictures: numbers of examples
LAWS = ("tests/test_every_operation.py", "tests/layers/test_transcriptions.py", "tests/test_declarations.py")
PAIRS = (
    (ast.Add, ast.Sub),
    (ast.Mult, ast.Div),
    (ast.And, ast.Or),
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.Eq, ast.NotEq),
    (ast.Is, ast.IsNot),
    (ast.In, ast.NotIn),
)
SWAPPED = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])}
SWAPPED |= {ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult, ast.Mod: ast.FloorDiv}


# ---- edits


def edits(tree):
    """(node, its text after the edit) of every edit of a file; annotations, texts and what decorates stay."""
    if isinstance(tree, ast.JoinedStr | ast.arg):
        return
    for node in edited(tree):
        yield tree, ast.unparse(node)
    for name, value in ast.iter_fields(tree):
        if name not in ("annotation", "returns", "decorator_list", "type_params"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from edits(child)


def edited(node):
    """An expression with one edit at its root, in every way."""
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPPED:
        yield changed(node, op=SWAPPED[type(node.op)]())
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield changed(node, ops=[SWAPPED[type(node.ops[0])]()])
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        value = node.value
        yield ast.Constant(not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else 2 * value)
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        for end in ("lower", "upper"):
            if getattr(node.slice, end) is not None:
                yield changed(node, slice=changed(node.slice, **{end: None}))


def changed(node, **fields):
    node = copy.copy(node)
    for name, value in fields.items():
        setattr(node, name, value)
    return node


def places(under):
    """(file, node, text after the edit) of every edit of the files whose path begins so."""
    for path in sorted(path for package in ("refnp", "gradcheck") for path in (ROOT / package).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(under.partition(":")[0]) and (under or not name.startswith(DATA)):
            for node, text in edits(ast.parse(path.read_text(encoding="utf-8"))):
                if ":" not in under or str(node.lineno) == under.partition(":")[2]:
                    yield name, node, text


def with_edit(source, node, text):
    """The text of a file with other text, in brackets, in the place of a node."""
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    before = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
    after = lines[node.end_lineno - 1][node.end_col_offset :] + b"".join(lines[node.end_lineno :])
    return (before + f"({text})".encode() + after).decode()


# ---- tests of an edit


def tests_of(file):
    """The words for pytest, one run after the other: files of tests by name, some by import, laws of its functions."""
    path, source = pathlib.PurePath(file), (ROOT / file).read_text(encoding="utf-8")
    name = path.parent.name if path.stem in ("__init__", "__main__") else path.stem
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    every = sorted((ROOT / "tests").rglob("test_*.py"))
    own = [test for test in every if re.match(rf"test_{name.removesuffix('s')}s?(_|\.)", test.name)]
    own.sort(key=lambda test: path.parent.name not in test.parts)
    package, _, last = module.rpartition(".")
    imports = re.compile(rf"\b{module}\b|^from {package} import .*\b{last}\b", re.M)
    using = [test for test in every if test not in own and imports.search(test.read_text(encoding="utf-8"))]
    if not own and not using:
        of_package = re.compile(rf"^from {package} import |^import {package}\b", re.M)
        own = [test for test in every if re.match(rf"test_{path.parent.name}(_|\.)", test.name)]
        using = [test for test in every if test not in own and of_package.search(test.read_text(encoding="utf-8"))]
    using.sort(key=lambda test: not {path.parent.name, path.parts[1]} & {*test.parts})
    for files in (own, using[:8]):
        if files:
            yield [test.relative_to(ROOT).as_posix() for test in files]
    functions = [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    public = [name for name in functions if not name.startswith("_")]
    if public and file.startswith(("refnp/autograd", "refnp/kernels", "refnp/layers")):
        yield [*LAWS, "-k", " or ".join(public)]


def found_out(copy_of, runs):
    """The first test that fails in a copy of the repository, "" if none does; OUT_OF_TIME if not all were asked."""
    options = ["-o", "addopts=", "--import-mode=importlib", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "ci", "PYTHONPATH": str(copy_of)}
    for words in runs:
        run = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *words],
            cwd=copy_of,
            env=environment,
            capture_output=True,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS)),
        )
        failed = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        if run.returncode < 0:
            return OUT_OF_TIME
        if failed or run.returncode not in (0, 5):
            return failed[0] if failed else f"exit status {run.returncode}"
    return ""


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.program_mutants")
    parser.add_argument("number", type=int, nargs="?", default=100, help="of edits (100)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", metavar="PATH[:LINE]", default="", help="files whose path begins so; a line of one")
    options = parser.parse_args()
    every = list(places(options.only))
    chosen = random.Random(options.seed).sample(every, min(options.number, len(every)))
    counts = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        copy_of = pathlib.Path(folder) / "refnp"
        left_out = shutil.ignore_patterns(".git", "build", "node_modules", "_site", "__pycache__", ".hypothesis")
        shutil.copytree(ROOT, copy_of, ignore=left_out)
        for file, node, text in chosen:
            source = (ROOT / file).read_text(encoding="utf-8")
            (copy_of / file).write_text(with_edit(source, node, text), encoding="utf-8")
            by = found_out(copy_of, tests_of(file))
            (copy_of / file).write_text(source, encoding="utf-8")
            counts[by if by == OUT_OF_TIME else "found out" if by else "lives"] += 1
            print(f"{file}:{node.lineno}  {ast.unparse(node)} → {text}  {by or 'LIVES'}", flush=True)
    print(", ".join(f"{number} {what}" for what, number in counts.items()))


if __name__ == "__main__":
    main()
