"""`refnp claims`: every layer and model of refnp against every symmetry, beside what is expected of it.

A row is decided by itself (decision.py), here or in one of several processes. The exit status is 1 if a row is not as
expected, in either direction.
"""

import argparse
import functools
import json
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from refnp.claims import convolutions, html, layers, neural_processes, positions, shipped, transformers
from refnp.claims.decision import Found, decide
from refnp.claims.row import EXACT, EXPECTATIONS, UNDECIDED, Row
from refnp.pieces import HERE, Workers, in_order, workers_for
from refnp.verify.judge import matches
from refnp.verify.report import check_writable, number, write
from refnp.version import __version__

FAMILIES: Mapping[str, Sequence[Row]] = {
    "layers": layers.ROWS,
    "convolutions": convolutions.ROWS,
    "positions": positions.ROWS,
    "transformers": transformers.ROWS,
    "vision": transformers.IMAGES,
    "neural processes": neural_processes.ROWS,
    "shipped weights": shipped.ROWS,
}


def by_subject(own: Iterable[Row]) -> list[Row]:
    """The rows of one subject together, subjects in the order of their first rows."""
    found: dict[str, list[Row]] = {}
    for row in own:
        found.setdefault(row.subject, []).append(row)
    return [row for rows in found.values() for row in rows]


def rows(only: str | None = None) -> list[tuple[str, Row]]:
    """(family, row) of every row whose "family/subject: symmetry" contains `only`, or matches its wildcards."""
    every = [(family, row) for family, own in FAMILIES.items() for row in by_subject(own)]
    return [(family, row) for family, row in every if only is None or matches(f"{family}/{row.name}", only)]


def claims(options: argparse.Namespace) -> int:
    """Decide all that is asked for, print it and write it; 1 if anything is not as expected."""
    start = time.perf_counter()
    for file in (options.json, options.html):
        if file is not None:
            check_writable(Path(file))
    work = rows(options.only)
    if not work:
        raise ValueError(f"--only: no row is called {options.only!r}; try attention, permuted or convolutions/*roll")
    workers = workers_for(len(work), options.jobs, options.cluster)
    print(f"refnp {__version__} claims: {len(work)} rows", flush=True)
    found = list(shown(work, decided(work, options.only, options.thorough, options.html is not None, workers)))
    if options.json is not None:
        write(Path(options.json), as_json(found))
    for one in found:
        if not one.right:
            print(f"\n{explanation(one)}")
    told = summary(found, time.perf_counter() - start)
    print("", *told, sep="\n")
    if options.html is not None:
        families = [family for family, _ in work]
        together = list(zip(families, found, strict=True))
        write(Path(options.html), html.page(together, title=f"refnp {__version__} claims", summary=told))
    return int(not all(one.right for one in found))


def decided(
    work: Sequence[tuple[str, Row]],
    only: str | None = None,
    thorough: bool = False,
    simplify: bool = False,
    workers: Workers = HERE,
) -> Iterator[Found]:
    """What is found of each row, in their order, here or by several workers; `simplify` as `decide` has it."""
    own = functools.partial(decided_row, only, thorough, simplify)
    named, given_up = (lambda n: work[n][1].name), (lambda n: lost(work[n][1]))
    return in_order(own, range(len(work)), workers, named=named, lost=given_up)


def decided_row(only: str | None, thorough: bool, simplify: bool, n: int) -> Found:
    """What is found of one row of those that are asked for."""
    return decide(rows(only)[n][1], thorough=thorough, simplify=simplify)


def lost(row: Row) -> Found:
    """Where the process ended before it could tell."""
    why = "the process that tried it died"
    return Found(row.subject, row.symmetry, row.expected, row.subgroup, row.reason, remark=why)


def shown(work: Sequence[tuple[str, Row]], found: Iterable[Found]) -> Iterator[Found]:
    """Print a line for each row as it comes, under its family and subject."""
    family = subject = ""
    for (own, _), one in zip(work, found, strict=True):
        if own != family:
            family = own
            print(f"\n{family}: discrepancy over the output, what rounding allows, pairs tried", flush=True)
        if one.subject != subject:
            subject = one.subject
            print(f"  {subject}", flush=True)
        print(f"    {line(one)}", flush=True)
        yield one


def line(one: Found) -> str:
    """One row: the symmetry, what was found, the numbers, and the reason or what was expected instead."""
    numbers = f"{number(one.discrepancy):>8} {number(one.bound):>8} {one.pairs:6}"
    why = one.reason if one.right else f"EXPECTED {in_words(one.expected, one.expected_subgroup)}"
    told = in_words(one.verdict, one.subgroup) + (", PROVED for every size" if one.proved else "")
    return f"{one.symmetry:34.34} {told:42.42} {numbers}  {why}"


def in_words(verdict: str, subgroup: str) -> str:
    """A verdict with its subgroup."""
    return f"exact on {subgroup}" if verdict == "exact on a subgroup" else verdict


def explanation(one: Found) -> str:
    """A row that is not as expected: both, and the counter-example or the remark."""
    told = f"{one.name}: expected {in_words(one.expected, one.expected_subgroup)}, "
    told += f"found {in_words(one.verdict, one.subgroup)}"
    return "\n".join([told, *(f"  {text}" for text in (one.remark, *one.counterexample.splitlines()) if text)])


def summary(found: Sequence[Found], seconds: float) -> list[str]:
    """How many rows and pairs there were, how it came out, the worst ratio of what is exact, and how long it took."""
    verdicts = Counter(one.verdict for one in found)
    wrong = sum(not one.right for one in found)
    worst = max((one.ratio for one in found if not one.counterexample and math.isfinite(one.ratio)), default=0.0)
    lines = [f"{len(found)} rows, {sum(one.pairs for one in found)} pairs, in {seconds:.1f} s"]
    lines += [f"    {verdicts[v]:5} {v}" for v in (*EXPECTATIONS, UNDECIDED) if verdicts[v]]
    exact, proved = (sum(of(one) for one in found) for of in (lambda one: one.verdict == EXACT, lambda one: one.proved))
    lines.append(f"{proved} of {exact} that are exact are proved for every size")
    lines.append(f"worst discrepancy over its bound where a symmetry is exact: {number(worst)}")
    return [*lines, f"{wrong} not as expected" if wrong else "all as expected"]


TOLD = (
    *("subject", "symmetry", "expected", "verdict", "subgroup", "discrepancy", "bound", "pairs", "reason"),
    *("proved", "assumes", "missing"),
)


def as_json(found: Iterable[Found]) -> str:
    """{"rows": […]} in strict JSON; a number that is not finite is null."""
    finite = lambda value: None if isinstance(value, float) and not math.isfinite(value) else value
    told = [{name: finite(getattr(one, name)) for name in TOLD} for one in found]
    return json.dumps({"rows": told}, indent=1, allow_nan=False)
