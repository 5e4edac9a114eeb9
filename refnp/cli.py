"""The command `refnp`, also `python -m refnp`: what can be done without writing a program.

    refnp verify [--only PATTERN] [--json FILE]        is refnp right, and who else is?
    refnp train MODEL --task TASK [--steps N …]        train a neural process beside the exact posterior
    refnp evaluate CHECKPOINT [--json FILE …]          how good it is
    refnp plot CHECKPOINT [--out FILE …]               what it predicts
    refnp export CHECKPOINT FILE                       its weights alone

Exit status: 0 all is well, 1 something deviates, 2 the command line is wrong, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

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


TRAIN = """\
Trains a neural process and shows its loss, its log-likelihood per target, and by how much the exact posterior is
better on the same tasks (the oracle gap; there is none for the sawtooth). The same command goes on with a run that was
stopped, to the same bits."""

NAMES = """\
models:
  cnp  canp  np  anp                             one vector for the context, with attention, and latent
  tnpd  tnpa  tnpnd                              Transformers: diagonal, autoregressive, with a covariance
  convcnp  convcnp-simple  convcnp-bruinsma      convolutions on a grid
  tetnp                                          a translation equivariant Transformer

tasks:
  eq  matern  weakly-periodic  sawtooth          Bruinsma's protocol
  rbf  tnp-matern  tnp-periodic                  TNP-pytorch's
  gordon-eq  gordon-matern  gordon-noisy-mixture  gordon-weakly-periodic  gordon-sawtooth

example:
  refnp train convcnp --task eq --steps 200"""

SOURCE = "a checkpoint of refnp train, or the name of weights that come with refnp, such as convcnp"

EVALUATE = """\
Measures a trained model on new tasks: marginal and joint log-likelihood and KL per target beside the exact posterior's,
the error of its mean, and how many targets its intervals hold; inside the range of training, shifted, and beyond the
range. Each figure with its standard error."""

PLOT = """\
Draws the mean, twice the standard deviation, samples, the context, and dashed the exact Gaussian process, or
the true function where it is known."""

EXPORT = "Writes a slim file: the best weights in float32 and the configuration, for evaluate and plot."


def parser() -> argparse.ArgumentParser:
    """The command line: the commands and their options."""
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
    add_train(commands)
    add_trained(commands)
    return top


def add_train(commands: Any) -> None:
    """`refnp train`."""
    train = commands.add_parser(
        "train",
        help="train a neural process",
        description=TRAIN,
        epilog=NAMES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    train.add_argument("model", metavar="MODEL", help="such as convcnp; all names are below")
    train.add_argument("--task", metavar="TASK", default="eq", help="what to train on (default: eq)")
    train.add_argument("--steps", metavar="N", type=count, default=10000, help="in all (default: 10000)")
    train.add_argument("--seed", metavar="S", type=int, default=0, help="of weights and tasks (default: 0)")
    train.add_argument("--dtype", metavar="TYPE", default="float32", help="float32 (default) or float64")
    train.add_argument("--batch", metavar="B", type=count, default=16, help="tasks in a step (default: 16)")
    train.add_argument("--lr", metavar="R", type=float, help="the full learning rate (default: the model's)")
    train.add_argument("--schedule", metavar="NAME", default="cosine", help="cosine (default) or constant")
    train.add_argument("--clip", metavar="C", type=float, default=1.0, help="longest gradient (default: 1; inf: any)")
    train.add_argument("--checkpoint", metavar="FILE", help="where the run is kept (default: MODEL-TASK.npz, here)")
    train.add_argument("--every", metavar="N", type=count, default=500, help="steps between validations (default: 500)")
    train.add_argument("--restart", action="store_true", help="replace the checkpoint instead of going on from it")
    train.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an option of the model, such as features=32; may be repeated",
    )


def add_trained(commands: Any) -> None:
    """`refnp evaluate`, `plot` and `export`: what is done with trained weights."""
    evaluate = commands.add_parser("evaluate", help="measure a trained neural process", description=EVALUATE)
    evaluate.add_argument("source", metavar="CHECKPOINT", help=SOURCE)
    evaluate.add_argument("--task", metavar="TASK", help="another task than it was trained on")
    evaluate.add_argument(
        "--tasks", metavar="N", type=count, default=1024, help="how many at each place (default: 1024)"
    )
    evaluate.add_argument("--seed", metavar="S", type=int, default=0, help="of the tasks (default: 0)")
    evaluate.add_argument("--shift", metavar="X", type=float, default=4.0, help="by how much to shift (default: 4)")
    evaluate.add_argument("--dtype", metavar="TYPE", choices=("float32", "float64"), help="(default: the weights')")
    evaluate.add_argument(
        "--autoregressive", action="store_true", help="the joint likelihood by the chain rule, target after target"
    )
    evaluate.add_argument("--json", metavar="FILE", help="also write the figures to FILE")
    plot = commands.add_parser("plot", help="draw what a trained neural process predicts", description=PLOT)
    plot.add_argument("source", metavar="CHECKPOINT", help=SOURCE)
    plot.add_argument("--out", metavar="FILE", help=".png, .svg or .pdf (default: CHECKPOINT.png, here)")
    plot.add_argument("--task", metavar="TASK", help="another task than it was trained on")
    plot.add_argument("--seed", metavar="S", type=int, default=0, help="of the functions and samples (default: 0)")
    plot.add_argument("--samples", metavar="N", type=int, default=3, help="in each panel (default: 3)")
    plot.add_argument(
        "--contexts", metavar="N", type=int, nargs="+", default=[3, 8, 20], help="in each panel (default: 3 8 20)"
    )
    plot.add_argument(
        "--shift", metavar="X", type=float, default=0.0, help="draw everything this far away (default: 0)"
    )
    export = commands.add_parser("export", help="write the weights of a checkpoint alone", description=EXPORT)
    export.add_argument("source", metavar="CHECKPOINT", help="of refnp train")
    export.add_argument("file", metavar="FILE", help="a .npz, with the best weights in float32; no run goes on from it")


def count(text: str) -> int:
    """A whole number, at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number, at least 1")
    return int(text)


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
    if options.command is None:
        top.print_help(sys.stderr)
        return 2
    try:
        return run(options)
    except BrokenPipeError:  # whoever read our lines has gone, and so it was not finished
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
    except KeyboardInterrupt:
        return 130


def run(options: argparse.Namespace) -> int:
    """Run the command that was chosen; only what it needs is imported."""
    if options.command == "verify":
        from refnp.verify.report import verify

        return verify(options)
    from refnp.studies import command

    return getattr(command, options.command)(options)
