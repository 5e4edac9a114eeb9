"""`python -m gradcheck`: the digits of every differentiable primitive and layer of refnp, as a table.

`python -m gradcheck mymodule:f` checks one function instead (`gradcheck.named`).

Exit status 0 when every bar holds, 1 when one does not, 2 when it cannot be checked as asked.
No other module of gradcheck imports refnp.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache, partial
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
        chosen = chosen_of(options.only or "")
    except ImportError as missing:
        parser.error(f"refnp cannot be imported ({missing}); this table is of refnp, gradcheck.check needs no refnp")
    if not chosen:
        parser.error(f"--only: no operation is called {options.only!r}")

    start, width = time.perf_counter(), max(len("operation"), *(len(operation.name) for operation in chosen))
    if without := sum(o.equation is not None and o.exact is None for o in chosen):
        print(f"{without} operations are left out: their elements are counted one by one, for which mpmath is missing")
    print(heading(width))
    rows = []
    for row in rows_of_all(chosen, options):
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


def chosen_of(pattern: str) -> list[Operation]:
    """The operations of refnp whose name contains the pattern, or matches it; ImportError without refnp."""
    vjp_of_refnp()
    from refnp.verify.layers import gradient_inputs

    return [o for o in gradient_inputs() if pattern in o.name or fnmatchcase(o.name, pattern)]


def rows_of(operation: Operation, digits: float) -> list[Row]:
    """The rows of one of these operations."""
    return list(table([operation], vjp=vjp_of_refnp(), digits=digits))


def rows_there(pattern: str, digits: float, number: int) -> list[Row]:
    """The same by number, in a process that shares the work."""
    return rows_of(_chosen_there(pattern)[number], digits)


_chosen_there = cache(chosen_of)


def rows_of_all(chosen: Sequence[Operation], options: argparse.Namespace) -> Iterator[Row]:
    """The rows of all of them in their order, computed here or by several processes."""
    from gradcheck import __main__ as importable  # by other processes; this module may be called "__main__"
    from refnp.pieces import in_order, workers_for

    workers, name = workers_for(len(chosen), options.jobs), lambda n: chosen[n].name
    there = partial(importable.rows_there, options.only or "", options.digits)
    rows = there if workers.processes > 1 else lambda n: rows_of(chosen[n], options.digits)
    for found in in_order(rows, range(len(chosen)), workers, named=name, lost=lambda n: died(name(n))):
        yield from found


def died(name: str) -> list[Row]:
    """The row of an operation that ended its process."""
    return [Row(name, "float64", 1, "none", 0, 0.0, False, "its process died")]


def write_json(file: Path, rows: Sequence[Row]) -> None:
    """Write {"rows": […]} whole or not at all."""
    from refnp.verify.record import write_whole

    text = json.dumps({"rows": [row.public() for row in rows]}, indent=1)
    write_whole(file, f"{text}\n".encode())


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # whoever read the lines has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(2)
