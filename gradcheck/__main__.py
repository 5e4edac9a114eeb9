"""`python -m gradcheck`: the digits of every differentiable primitive and layer of refnp, as a table.

`python -m gradcheck mymodule:f` checks one function instead (`gradcheck.named`).

Exit status 0 when every bar holds, 1 when one does not, 2 when it cannot be checked as asked.
No other module of gradcheck imports refnp.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from gradcheck.named import compare_named
from gradcheck.report import GradientError
from gradcheck.table import Operation, Row, heading, line, summary, table


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m gradcheck",
        description="Check the gradients of refnp, operation "
        "by operation, against numerical derivatives, and print the digits they agree on.",
    )
    parser.add_argument(
        "function", metavar="MODULE:NAME", nargs="?", help="check this function, module or class instead of refnp"
    )
    parser.add_argument("--shapes", metavar="SHAPE", nargs="+", help="of its arguments: 2,3 3,4 4")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the rows to FILE")
    parser.add_argument(
        "--only",
        metavar="PATTERN",
        help="only operations whose name contains PATTERN, or matches it where it has wildcards (*, ?)",
    )
    parser.add_argument("--digits", type=float, default=12.0, help="the bar in float64 (default 12)")
    parser.add_argument(
        "--jobs", metavar="N", type=int, help="processes that share the work (default: one for each core, up to 4)"
    )
    options = parser.parse_args(argv)
    if not 0 < options.digits <= 16:
        parser.error(f"--digits is {options.digits:g}; float64 has between 0 and 16")
    if options.jobs is not None and options.jobs < 1:
        parser.error(f"--jobs is {options.jobs}; it must be at least 1")
    if options.json is not None and (options.json.is_dir() or not options.json.absolute().parent.is_dir()):
        parser.error(f"--json: {options.json} cannot be written; name a file in a folder that exists")
    if options.function is not None:
        return check_one(parser, options)
    if options.shapes is not None:
        parser.error("--shapes belong to a function, MODULE:NAME")
    try:
        prepare(options.only or "")
    except ImportError as missing:
        parser.error(f"refnp cannot be imported ({missing}); this table is of refnp, gradcheck.check needs no refnp")
    chosen = [operation for operation, _ in _chosen]
    if not chosen:
        parser.error(f"--only: no operation is called {options.only!r}")

    start, width = time.perf_counter(), max(len("operation"), *(len(operation.name) for operation in chosen))
    if without := sum(o.equation is not None and o.exact is None for o in chosen):
        print(f"{without} operations are left out: their elements are counted one by one, for which mpmath is missing")
    print(heading(width))
    rows = []
    for row in rows_of_all(options):
        rows.append(row)
        print(line(row, width), flush=True)
    print(f"{summary(rows)}; {time.perf_counter() - start:.1f} s")
    if options.json is not None:
        write_json(options.json, rows)
    return 0 if all(row.holds for row in rows) else 1


def check_one(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Check MODULE:NAME and print the report."""
    try:
        report = compare_named(options.function, options.shapes, options.digits, vjp_of_refnp)
    except GradientError as wrong:
        print(f"{options.function}: DISAGREES: {wrong}")
        return 1
    except (ValueError, ImportError) as refusal:
        parser.error(str(refusal))
    print(report)
    return 0 if report else 1


def vjp_of_refnp() -> Callable:
    """The gradient of a function that is written with refnp's operations."""
    from refnp.autograd import vjp

    return vjp


_chosen: list[tuple[Operation, Callable]] = []  # with refnp's vjp; of this process, or of one that shares its work


def prepare(pattern: str) -> None:
    """Choose the operations of refnp whose name contains the pattern, or matches it."""
    from refnp.autograd import vjp
    from refnp.verify.layers import gradient_inputs

    _chosen[:] = [(o, vjp) for o in gradient_inputs() if pattern in o.name or fnmatchcase(o.name, pattern)]


def rows_of(number: int, digits: float) -> list[Row]:
    """The rows of one of these operations."""
    operation, vjp = _chosen[number]
    return list(table([operation], vjp=vjp, digits=digits))


def rows_of_all(options: argparse.Namespace) -> Iterator[Row]:
    """The rows of all of them in their order, computed here or by several processes."""
    from gradcheck import __main__ as importable  # by other processes; this module may be called "__main__"
    from refnp.verify.processes import in_order, jobs_for

    numbers, here = range(len(_chosen)), partial(rows_of, digits=options.digits)
    found: Iterable[list[Row]] = map(here, numbers)
    if (jobs := jobs_for(len(_chosen), options.jobs)) > 1:
        start = partial(importable.prepare, options.only or "")
        there = partial(importable.rows_of, digits=options.digits)
        found = in_order(there, numbers, jobs, start=start, here=here, lost=died)
    for rows in found:
        yield from rows


def died(number: int) -> list[Row]:
    """The row of an operation that ended its process."""
    return [Row(_chosen[number][0].name, "float64", 1, "none", 0, 0.0, False, "its process died")]


def write_json(file: Path, rows: Sequence[Row]) -> None:
    """Write {"rows": […]} whole or not at all."""
    from refnp.verify.record import write_whole

    text = json.dumps({"rows": [row.public() for row in rows]}, indent=1)
    write_whole(file, f"{text}\n".encode())


if __name__ == "__main__":
    sys.exit(main())
