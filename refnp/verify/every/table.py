"""docs/every_input.md: `python -m refnp.verify.every.table --write`.

Every function of one number that refnp and others have, on every finite number of float16 and bfloat16: refnp's
kernel, its page alone, and the frameworks that are installed. Of float32 it shows the files of `refnp judge --every
float32 --results FILE` that it is given.
"""

import argparse
import functools
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from refnp.autograd.pages import plain
from refnp.files import write_whole
from refnp.numbers.precision import FORMATS, Array
from refnp.numbers.rounding import tolerance
from refnp.pieces import in_order, versions, workers_for
from refnp.verify.bounds import errors_over_bounds
from refnp.verify.case import FailedError, Layer, NotOfferedError, Problem, is_of_numbers, quiet
from refnp.verify.every.asking import cases_of_every, precision_of
from refnp.verify.every.float32 import PARTS, Part, read, together
from refnp.verify.every.numbers import Everywhere, everywhere, spaced
from refnp.verify.excuses import Given, excused_by
from refnp.verify.findings import first_line
from refnp.verify.frameworks import ask, inspection
from refnp.verify.layers import cases_to_ask
from refnp.verify.report import number
from refnp.version import processor

PAGE = Path(__file__).parents[3] / "docs" / "every_input.md"
FORMATS_SHOWN = ("float16", "bfloat16")
OTHERS = ("PyTorch", "JAX", "TensorFlow", "MLX")
HEAD = """\
# Every input

Made by `{command}` on {machine}; {versions}.

Functions of one number on all numbers of a format ([how](judging.md#every-number)): the largest error in units in the
last place and where it is, and in bold how many numbers are beyond their bound, that of a computation in float32 whose
result is rounded once to the format; in brackets how many are beyond the bound of one that rounds every operation to
the format, as code does that is written with several operations. Half a unit is the least that is possible. Where an
error is large and nothing is in bold, results below the smallest normal number became 0, which the bound allows. ∞: an
infinity, NaN or 0 where there should be a number. –: there is no such function, or not in this format. *page* is the
equation alone, and *refnp* what public functions run; both compute bfloat16 in float32, and are rounded once.
"""
FLOAT32 = """
## float32: 4 278 190 080 finite numbers

Each row is a command, whose file the command above takes, such as

    refnp judge torch:erf --as erf --every float32 --framework torch --results 'PyTorch erf.jsonl'
    refnp judge refnp.autograd:erf --as erf --every float32 --framework numpy --results 'refnp erf.jsonl'

| | largest error and where, in bold how many are beyond their bound |
|---|---|
"""


class Row(NamedTuple):
    """A function in a format: what came of each implementation, or why nothing did."""

    function: str
    format: str
    found: dict[str, Everywhere | str]
    stored: dict[str, int]  # how many are wrong even if every operation may round to the format
    known: dict[str, str]  # what is known of a framework, where its formula gives every number that is wrong


@functools.cache
def layers() -> dict[str, Layer]:
    """The functions of one number that some framework has, by name."""
    first = {case.layer.name: case.layer for case in reversed(cases_to_ask()) if len(case.inputs) == 1}
    has = lambda layer: (layer.torch or layer.jax) and not layer.whole and is_of_numbers(layer, 1)
    return {name: layer for name, layer in sorted(first.items()) if has(layer)}


def answers(problem: Problem, form: str) -> Iterator[tuple[str, Array | str]]:
    """What refnp's kernel, its page and each framework that is installed and has the function answer, or why not."""
    function, (x,) = problem.case.layer.function, problem.arrays.values()
    rounded = FORMATS[form].rounded
    yield "refnp", rounded(np.asarray(function(x), np.float64))
    with plain():
        yield "page", rounded(np.asarray(function(x), np.float64))
    for name in OTHERS:
        native = inspection.named(name)
        if importlib.util.find_spec(native.package) is not None:
            try:
                yield name, np.asarray(ask(native, problem)["output"]).astype(np.longdouble)
            except (NotOfferedError, FailedError, TypeError) as wrong:
                yield name, first_line(wrong)


def row_of(piece: tuple[str, str]) -> Row:
    """What came of a function in a format."""
    name, form = piece
    layer, precision = layers()[name], precision_of(form, None)
    (case,) = cases_of_every(layer, [case for case in cases_to_ask() if case.layer.name == name], form)
    problem = replace(case, gradients=()).problem(precision)
    found: dict[str, Everywhere | str] = {}
    stored: dict[str, int] = {}
    known: dict[str, str] = {}
    with quiet():
        right, allowed = problem.reference()["output"], tolerance(problem.textbook[0], precision)
        for who, given in answers(problem, form):
            if isinstance(given, str):
                found[who] = given
                continue
            _, ratio = errors_over_bounds(given, right, allowed, precision)
            found[who] = one = everywhere("output", form, [*problem.arrays.values()], given, right, ratio, allowed)
            if one.wrong:
                wider = tolerance(replace(case, gradients=()).problem(form).textbook[0], form)
                stored[who] = int((errors_over_bounds(given, right, wider, form)[1] > 1).sum())
                covering = [d for d in case.known_defects if d.covers(who, precision, "output") and d.has_formula]
                if defect := excused_by(covering, Given(problem, "output", given)):
                    known[who] = defect.why
    return Row(name, form, found, stored, known)


def cell(found: Everywhere | str | None, stored: int | None = None) -> str:
    """The largest error, where, and how many are wrong."""
    if not isinstance(found, Everywhere):
        return "–"
    error = "∞" if np.isinf(found.units) else number(found.units)
    beyond = f", **{spaced(found.wrong)}**" if found.wrong else ""
    beyond += "" if stored is None else f" ({spaced(stored)})"
    return f"{error} at {number(found.at[0])}{beyond}" if found.units else f"0{beyond}"


def page(rows: Sequence[Row], float32: Mapping[str, list[Part]], command: str) -> str:
    """The text of the page."""
    others = [who for who in OTHERS if any(who in row.found for row in rows)]
    installed = ", ".join([versions(), *(inspection.version_of(inspection.named(who)) for who in others)])
    text = HEAD.format(command=command, machine=processor(), versions=installed)
    who = ["refnp", "page", *others]
    for form in FORMATS_SHOWN:
        own = [row for row in rows if row.format == form]
        count = next((one.count for row in own for one in row.found.values() if isinstance(one, Everywhere)), 0)
        text += f"\n## {form}: {spaced(count)} finite numbers\n\n"
        text += f"| function | {' | '.join(who)} |\n|---|{'---|' * len(who)}\n"
        for row in own:
            text += (
                f"| {row.function} | {' | '.join(cell(row.found.get(each), row.stored.get(each)) for each in who)} |\n"
            )
    known = [(row, *one) for row in rows for one in row.known.items()]
    if known:
        text += "\n## What is known\n\nWhere a formula gives every number, within the formula's own bound:\n\n"
        text += "".join(f"- {who}, {row.function}, {row.format}: {why}\n" for row, who, why in known)
    if float32:
        text += FLOAT32
    for name, parts in sorted(float32.items(), key=lambda one: one[0].split()[::-1]):
        found = [one for part in parts for one in part.found]
        done = cell(together(found)) if len(parts) == PARTS else f"{len(parts)} of {PARTS} parts done"
        text += f"| {name} | {done} |\n"
    return text


def main(argv: Sequence[str] | None = None) -> int:
    """Make the page; with --write it is written."""
    parser = argparse.ArgumentParser(prog="python -m refnp.verify.every.table", description="All numbers, as a page.")
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE.name}")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes (default: one for each core, up to 4)")
    parser.add_argument("--only", metavar="NAME", help="only this function")
    parser.add_argument("--float32", nargs="*", default=[], metavar="FILE", help="results of all numbers of float32")
    options = parser.parse_args(argv)
    pieces = [(name, form) for name in layers() for form in FORMATS_SHOWN if options.only in (None, name)]
    rows = list(in_order(row_of, pieces, workers_for(len(pieces), options.jobs)))
    float32 = {Path(file).stem: read(Path(file)) for file in options.float32}
    text = page(rows, float32, "python -m refnp.verify.every.table --write" + " --float32 *.jsonl" * bool(float32))
    if options.write:
        write_whole(PAGE, text.encode())
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
