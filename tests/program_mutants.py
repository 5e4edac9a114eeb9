"""Random edits of the whole program beside the tests that reach them: is what an edit makes wrong found out?

    python -m tests.program_mutants --reach          run all tests once, and keep which lines each of them reaches
    python -m tests.program_mutants 100 --seed 0     100 edits, and those that no test finds out
    python -m tests.program_mutants --only refnp/layers/softmax.py:40

An edit is of one operator, comparison, constant or slice. Its tests are those that reach its lines, or any line of its
file if it is read when the file is imported; the fastest are asked first, of each function before any is asked with
other parameters. The first that fails ends them, and so do SECONDS of them. Pages have more edits, and laws without
pytest: tests/mutants.py. `--reach` needs `pip install pytest-cov`.
"""

import argparse
import ast
import collections
import copy
import functools
import math
import os
import pathlib
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from xml.etree import ElementTree

ROOT = pathlib.Path(__file__).parents[1]
OUT_OF_TIME = "out of time"
SECONDS = 120  # of the processor, for the tests of an edit
DATA = ("refnp/verify/layers/", "refnp/claims/", "refnp/figures/")  # cases, sentences and pictures: numbers of examples
REACH = ROOT / "build" / "reach"
MOST = 1000  # tests of an edit
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


def keep_reach():
    """Run all tests with what they reach, and how long each takes, written into REACH."""
    REACH.mkdir(parents=True, exist_ok=True)
    words = ["--cov=refnp", "--cov=gradcheck", "--cov-context=test", "--cov-report="]
    words += [f"--junitxml={REACH / 'times.xml'}", "tests"]
    environment = {**os.environ, "COVERAGE_FILE": str(REACH / "coverage")}
    subprocess.run([sys.executable, "-m", "pytest", "-q", *words], cwd=ROOT, env=environment)


@functools.cache
def seconds():
    """{test: how long it takes}; for ever, where it does not pass."""
    cases = [*ElementTree.parse(REACH / "times.xml").iter("testcase")]
    name = lambda case: f"{case.get('classname').replace('.', '/')}.py::{case.get('name')}"
    passes = lambda case: case.find("failure") is None and case.find("error") is None
    return {name(case): float(case.get("time")) if passes(case) else math.inf for case in cases}


@functools.cache
def reached(file):
    """{line: the tests that reach it} of a file."""
    import coverage

    data = coverage.CoverageData(str(REACH / "coverage"))
    data.read()
    paths = [path for path in data.measured_files() if path.endswith(f"/{file}")]
    lines = data.contexts_by_lineno(paths[0]) if paths else {}
    return {line: {test.rpartition("|")[0] for test in tests if test} for line, tests in lines.items()}


def tests_of(file, node):
    """The tests of an edit in the order in which they are asked, the first of each function before the others."""
    lines = reached(file)
    of_node = set().union(*(lines.get(line, set()) for line in range(node.lineno, node.end_lineno + 1)))
    takes = lambda test: seconds().get(test, 0)
    tests = sorted((test for test in of_node or set().union(*lines.values()) if takes(test) < math.inf), key=takes)
    first = {test.partition("[")[0]: test for test in reversed(tests)}.values()
    return [*sorted(first, key=tests.index), *(test for test in tests if test not in {*first})][:MOST]


def found_out(copy_of, tests):
    """The first test that fails in a copy of the repository, "" if none does; OUT_OF_TIME if not all were asked."""
    if not tests:
        return ""
    options = ["-o", "addopts=", "--import-mode=importlib", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
    (copy_of / "asked").write_text("\n".join(tests), encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "@asked"],
        cwd=copy_of,
        env={**os.environ, "HYPOTHESIS_PROFILE": "ci", "PYTHONPATH": str(copy_of)},
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS)),
    )
    if gone := re.findall(r"(?m)^ERROR: not found: .*?/(tests/.*)$", run.stderr):  # their parameters have other names
        return found_out(copy_of, [test for test in tests if test not in gone])
    failed = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if run.returncode < 0:
        return OUT_OF_TIME
    return failed[0] if failed else "" if run.returncode == 0 else f"exit status {run.returncode}"


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.program_mutants")
    parser.add_argument("number", type=int, nargs="?", default=100, help="of edits (100)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reach", action="store_true", help="run all tests, and keep which lines each of them reaches")
    parser.add_argument("--only", metavar="PATH[:LINE]", default="", help="files whose path begins so; a line of one")
    options = parser.parse_args()
    if options.reach:
        return keep_reach()
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
            by = found_out(copy_of, tests_of(file, node))
            (copy_of / file).write_text(source, encoding="utf-8")
            counts[by if by == OUT_OF_TIME else "found out" if by else "lives"] += 1
            print(f"{file}:{node.lineno}  {ast.unparse(node)} → {text}  {by or 'LIVES'}", flush=True)
    print(", ".join(f"{number} {what}" for what, number in counts.items()))


if __name__ == "__main__":
    main()
