"""The command `refnp`, also `python -m refnp`: what can be done without writing a program.

    refnp verify [--only PATTERN] [--json FILE]        is refnp right, and who else is?

Exit status: 0 all is well, 1 something deviates, 2 the command line is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from refnp.version import __version__

VERIFY = """\
Verifies refnp's gradients against the complex step, the properties its layers must have, and, case by case, the
outputs and gradients of refnp and other frameworks against a reference in extended precision. An error is divided
by a bound derived from rounding; within the bound is 1 or less.

PyTorch is asked live where it is installed; else, and for JAX, the answers that were recorded with this package
are judged (see --live)."""

STATUS = """\
exit status:
  0  refnp is right, and other frameworks deviate only where it is known
  1  something else deviates: refnp, or a framework where it is not known to
  2  wrong usage: an unknown option, a pattern that matches nothing, a file that cannot be written

verdicts: "within bound", "known defect" (shown with its issue, never hidden), "deviates", "skipped" (the framework has
no such function, or was recorded on other inputs). In --json, a number that is not finite is null."""


def parser() -> argparse.ArgumentParser:
    """The command line: `verify` and its options."""
    top = argparse.ArgumentParser(
        prog="refnp", description="A NumPy-only reference for Transformers and Neural Processes."
    )
    top.add_argument("--version", action="store_true", help="print the version and stop")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    verify = commands.add_parser(
        "verify",
        help="verify refnp, and judge other frameworks by it",
        description=VERIFY,
        epilog=STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verify.add_argument("--json", metavar="FILE", help="also write the rows to FILE")
    verify.add_argument(
        "--only",
        metavar="PATTERN",
        help="only what contains PATTERN in section/name, such as softmax, properties, frameworks/conv; or matches it, "
        "where it has wildcards (*, ?)",
    )
    verify.add_argument(
        "--live",
        metavar="NAMES",
        default="PyTorch",
        help="which frameworks to run if they are installed, separated by commas, or none; others are judged as "
        "recorded (default: PyTorch; JAX takes a minute to compile)",
    )
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (sys.argv by default) and return the exit status."""
    top = parser()
    try:
        options = top.parse_args(argv)
    except SystemExit as stop:  # argparse has said why
        return int(stop.code or 0)
    if options.version:
        print(f"refnp {__version__}")
        return 0
    if options.command == "verify":
        from refnp.verify.command import verify

        try:
            return verify(options)
        except BrokenPipeError:  # whoever read our lines has gone, and so it was not finished
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 2
    top.print_help(sys.stderr)
    return 2
