"""The command `refnp`, also `python -m refnp`: what can be done without writing a program.

    refnp verify [--only PATTERN] [--json FILE …]      is refnp right, and who else is?
    refnp cases export DIR [--format npz …]            the cases as files, for programs in any language
    refnp judge MODULE:FUNCTION --as NAME              is a function of yours right, and if not, why?
    refnp judge DIR, refnp judge --run COMMAND         answers in files, or a program, in any language
    refnp claims [--only PATTERN] [--json FILE …]      which symmetries do its layers and models have?
    refnp prove [PAGE]                                 is a gradient the derivative of what is computed? a proof
    refnp derive PAGE                                  its formula, and its gradient step by step
    refnp train MODEL --task TASK [--steps N …]        train a neural process beside the exact posterior
    refnp sweep FILE [--status] [--table]              many of them, by several workers
    refnp evaluate CHECKPOINT [--json FILE …]          how good it is
    refnp plot CHECKPOINT [--out FILE …]               what it predicts
    refnp export CHECKPOINT FILE                       its weights alone
    refnp convert FILE --from SOURCE [--to CHECKPOINT] weights of another code base
    refnp figure NAME [--out FILE], refnp figure --all pictures of the texts, and the numbers they show
    refnp study [NAME]                                 a chapter of the course, its worked example run

Exit status: 0 all is well, 1 something deviates, 2 the command line is wrong, 130 stopped by Ctrl-C.

Each command is one entry of `COMMANDS`: a function of its options, its help, and the options themselves.
"""

import argparse
import importlib.util
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from refnp.kernels.process import tuned
from refnp.signals import ending
from refnp.version import __version__

WRONG, BROKEN, STOPPED = 2, 1, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (sys.argv by default) and return the exit status."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started this
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # as long as the process lives
        elif isinstance(stream, io.TextIOWrapper):  # a verdict is not lost for a letter that the terminal has not
            stream.reconfigure(errors="replace")
    top = parser()
    try:
        options = top.parse_args(argv)
    except SystemExit as stop:  # argparse has said why
        return int(stop.code or 0) if printed() else WRONG
    if options.version:
        return 0 if printed(f"refnp {__version__}\n") else WRONG
    if options.command is None:
        top.print_help(sys.stderr)
        return WRONG
    try:
        with ending(), tuned():
            status = COMMANDS[options.command].run(options)
        return status if printed() else WRONG
    except BrokenPipeError:  # whoever read our lines has gone, and so it was not finished
        printed()
        return WRONG
    except KeyboardInterrupt as stop:
        for note in getattr(stop, "__notes__", ()):
            print(f"refnp {options.command}: {note}", file=sys.stderr)
        return STOPPED
    except FloatingPointError as wrong:
        print(f"refnp {options.command}: {plain(wrong)}", *getattr(wrong, "__notes__", ()), sep="\n", file=sys.stderr)
        return BROKEN
    except (ValueError, OSError, MemoryError) as wrong:  # what wrong names, options and files end in
        if printed():
            print(f"refnp {options.command}: error: {plain(wrong)}", file=sys.stderr)
        return WRONG


def printed(text: str = "") -> bool:
    """Whether what was printed has arrived, this text too; if not, it is said why, and the rest goes nowhere."""
    try:
        print(text, end="", flush=True)
    except OSError as wrong:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(wrong, BrokenPipeError):
            print(f"refnp: error: {plain(wrong)}", file=sys.stderr)
        return False
    return True


def plain(text: object) -> str:
    """Lines that may hold names from files, without what controls a terminal; of an error of the system its words."""
    if isinstance(text, OSError) and text.strerror:
        text = text.strerror if text.filename is None else f"{text.strerror}: {text.filename!r}"
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in str(text))


# The commands; each imports only what it needs


def verify(options: argparse.Namespace) -> int:
    """Judge refnp and other frameworks; the exit status is 1 if anything deviates unexpectedly."""
    from refnp.verify.command import verify

    return verify(options)


def cases(options: argparse.Namespace) -> int:
    """List the cases, or write them to a folder."""
    from refnp.verify import exchange

    dtypes = ("float32", "float64") if options.dtype == "both" else (options.dtype,)
    if options.action == "list":
        print(*exchange.listing(options.only), sep="\n")
        return 0
    if options.folder is None:
        raise ValueError("export: name the folder to write, such as refnp cases export cases")
    try:
        written = exchange.export(
            options.folder,
            options.format,
            only=options.only,
            dtypes=dtypes,
            replace=options.replace,
            gradients=options.gradients,
        )
    except ImportError as missing:  # of the package that writes this format
        raise ValueError(str(missing)) from None
    print(f"{options.folder}: {written} cases, {options.format}, and manifest.json; docs/case_format.md describes them")
    return 0


def judge(options: argparse.Namespace) -> int:
    """Judge a function that is not refnp's; the exit status is 1 if it deviates."""
    from refnp.verify import shell

    return shell.run(options)


def claims(options: argparse.Namespace) -> int:
    """Hold every layer and model against every symmetry; the exit status is 1 if one is not as expected."""
    from refnp.claims import ledger

    return ledger.claims(options)


def prove(options: argparse.Namespace) -> int:
    """Prove the gradients of pages, or count what they cost; the exit status is 1 if one is wrong."""
    from refnp.verify import proofs

    if options.cost:
        from refnp.formulas import cost

        return cost.command(options.page)
    return proofs.prove(options.page, assumptions=options.assumptions, jobs=options.jobs, cluster=options.cluster)


def derive(options: argparse.Namespace) -> int:
    """Derive the gradient of a page; the exit status is 1 if it is not shown to be what is written."""
    from refnp.formulas import derivation

    return derivation.command(options.page)


def train(options: argparse.Namespace) -> int:
    """Train, or go on with a run that was stopped."""
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
        done = 0 if options.restart else training.steps_done(study, file)
        print(f"{options.model} on {options.task}, {training.plan(done, options.steps)}, kept in {file}", flush=True)
        history = training.loop.train(
            **study.arguments(options.steps), checkpoint=file, every=options.every, resume=not options.restart
        )
    except KeyboardInterrupt:
        print(f"\nrefnp train: stopped; the same command goes on from {file}", file=sys.stderr)
        raise
    print(f"{training.outcome(history)}, {time.perf_counter() - start:.1f} s")
    print(f"next: refnp evaluate {file}, refnp plot {file}")
    return 0


def sweep(options: argparse.Namespace) -> int:
    """Finish the runs of a file, or show how far they are or what came of them."""
    from refnp.studies import sweep

    given = {"jobs": options.jobs, "cluster": options.cluster}
    return sweep.sweep(options.file, **given, status=options.status, table=options.table, plot=options.plot)


def evaluate(options: argparse.Namespace) -> int:
    """Print the figures of a trained model, and write them as JSON with --json."""
    from refnp.studies import evaluation
    from refnp.studies.registry import sampler
    from refnp.studies.trained import check_other, open_trained
    from refnp.verify import report

    if options.json is not None:
        report.check_writable(Path(options.json))
    trained = open_trained(options.source, options.dtype)
    if options.json is not None:
        check_other(trained.file, options.json)
    task = options.task or trained.configuration["task"]
    tasks = sampler(task)
    print(f"{trained.title}\nevaluated on {task}, {options.tasks} tasks at each place, seed {options.seed}", flush=True)
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
        given = {name: getattr(options, name) for name in ("tasks", "seed", "shift", "autoregressive")}
        all_of_it = about | {"task": task} | given | {"figures": evaluation.as_json(places)}
        report.write(Path(options.json), json.dumps(all_of_it, indent=1, allow_nan=False))
    for table in evaluation.tables(places, options.shift):
        evaluation.show(table)
    return 0


def plot(options: argparse.Namespace) -> int:
    """Draw what a trained model predicts, into a file."""
    from refnp.studies import plotting
    from refnp.studies.trained import open_trained
    from refnp.verify import report

    file = Path(options.out or f"{Path(options.source).stem}.png")
    plotting.check_drawable(file)
    trained = open_trained(options.source)
    task = options.task or trained.configuration["task"]
    report.check_writable(file)
    contexts = tuple(options.contexts)
    plotting.plot(
        trained, task, file, contexts=contexts, samples=options.samples, seed=options.seed, shift=options.shift
    )
    print(f"{trained.title}\ndrawn on {task} in {file}")
    return 0


def export(options: argparse.Namespace) -> int:
    """Write the weights of a checkpoint alone."""
    from refnp.studies import trained

    print(f"{options.file}: {trained.export(options.source, options.file, options.dtype)} bytes")
    return 0


def convert(options: argparse.Namespace) -> int:
    """Write weights of another code base as a checkpoint."""
    from refnp.studies import conversion

    file, model = conversion.convert(
        options.file,
        options.source,
        options.to,
        model=options.model,
        task=options.task,
        options=parsed(options.option),
    )
    print(f"{model} of {options.source}, from {options.file}, in {file}")
    print(f"next: refnp evaluate {file}, refnp plot {file}")
    return 0


def figure(options: argparse.Namespace) -> int:
    """Draw one figure or all of them and print their numbers; list them if none is named."""
    from refnp import figures

    if options.name is None and not options.all:
        print(figures.listing())
        return 0
    if options.all and options.option:
        raise ValueError("figure: --option is one of a single figure; name it instead of --all")
    for name, file in figures.files(options.name, options.out, every=options.all, kind=options.format).items():
        given = parsed(options.option)
        try:
            drawn = figures.draw(name, **given)
        except ModuleNotFoundError as missing:
            raise ValueError(str(missing)) from None
        figures.save(drawn, file)
        print(f"{figures.text(name, drawn, given)}\n  drawn in {file}", flush=True)
    return 0


def study(options: argparse.Namespace) -> int:
    """Show a chapter of the course; list them if none is named."""
    from refnp import course

    if options.name is None:
        print(course.listing())
        return 0
    given = {"sections": options.section, "solutions": options.solutions, "pictures": options.pictures}
    return course.study(options.name, **given, plain=options.plain)


def parsed(pairs: Sequence[str]) -> dict[str, Any]:
    """["features=32", "covariance=cholesky"] → {"features": 32, "covariance": "cholesky"}: JSON, or else a word."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ValueError(f"--option {pair!r}: write NAME=VALUE, such as features=32")
        try:
            found[name.replace("-", "_")] = json.loads(value)
        except RecursionError:
            raise ValueError(f"--option {name}: its value is nested too deeply") from None
        except json.JSONDecodeError:
            found[name.replace("-", "_")] = value
    return found


def watched(steps: Iterable[Any]) -> Iterable[Any]:
    """The same steps, with a bar on a terminal where `rich` is installed."""
    if not sys.stderr.isatty() or importlib.util.find_spec("rich") is None:
        return steps
    from rich.console import Console
    from rich.progress import track

    return track(list(steps), description="", console=Console(stderr=True), transient=True)


# Their options and help


class Command(NamedTuple):
    """A command: what it does, its line in the list, its description, its options, and what its help ends with."""

    run: Callable[[argparse.Namespace], int]
    help: str
    about: str
    options: Sequence[tuple[str, dict[str, Any]]]
    more: Callable[[], str] | None = None  # called when the help is printed, since it imports registries


def option(name: str, metavar: str | tuple[str, ...] | None, help: str, **settings: Any) -> tuple[str, dict[str, Any]]:
    """An option, or a positional argument, as argparse's `add_argument` takes it."""
    return name, {"help": help, **settings} | ({} if metavar is None else {"metavar": metavar})


def flag(name: str, help: str) -> tuple[str, dict[str, Any]]:
    """An option without a value: True if it is there."""
    return option(name, None, help, action="store_true")


def several(name: str, metavar: str, help: str) -> tuple[str, dict[str, Any]]:
    """An option that may be repeated."""
    return option(name, metavar, f"{help}; may be repeated", action="append", default=[])


def count(text: str) -> int:
    """A whole number, at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number, at least 1")
    return int(text)


def statuses() -> str:
    """The exit statuses and verdicts of `refnp verify`."""
    return """\
exit status:
  0  refnp is right, and other frameworks deviate only where it is known
  1  something else deviates: refnp, or a framework where it is not known to
  2  wrong usage: an unknown option, a pattern that matches nothing, a file that cannot be written

verdicts: "within bound", "another convention" (right by another definition, which is named), "known defect" (shown with
its issue, never hidden), "deviates", "not judged" (no number has a finite bound), "skipped" (the
framework has no such function, or was recorded on other inputs).
In --json, a number that is not finite is null."""


def judging() -> str:
    """The exit statuses of `refnp judge`, and examples."""
    return """\
exit status:
  0  within bound everywhere, but for known defects that are excused and for other conventions
  1  something deviates
  2  wrong usage: a name that does not exist, a function that cannot be imported, or that no case can be asked of

examples:
  refnp judge --list attention
  refnp judge mypackage.layers:attention --as attention --gradients
  refnp judge layers.py:norm --as layer_norm --arguments gain=scale,shift=offset --options eps=1e-6
  refnp judge layers.py:gelu --as gelu --every bfloat16
  refnp judge --run './layers {in} {out}' --as softmax --format raw
  refnp judge cases/answers"""


def models_and_tasks() -> str:
    """The names that `refnp train` takes."""
    from refnp.studies.registry import listing

    return f"{listing()}\n\nexample:\n  refnp train convcnp --task eq --steps 200"


def weights() -> str:
    """The names of the weights that come with refnp."""
    from refnp.studies.trained import shipped

    return f"weights that come with refnp:\n  {'  '.join(shipped())}"


def all_figures() -> str:
    """The figures that there are."""
    from refnp.figures import listing

    return (
        f"{listing()}\n\nexamples:\n  refnp figure masks --out masks.svg\n"
        "  refnp figure transformer --option features=64 --option norm=pre"
    )


def all_chapters() -> str:
    """The chapters of the course."""
    from refnp.course import listing

    return f"{listing()}\n\nexamples:\n  refnp study softmax\n  refnp study attention --section gradient"


def sources() -> str:
    """The code bases whose weights `refnp convert` reads."""
    from refnp.studies.conversion import SOURCES

    return f"sources:\n  {'  '.join(SOURCES)}\n\nexample:\n  refnp convert ckpt.pt --from tnp-pytorch --to theirs.npz"


SOURCE = option(
    "source", "CHECKPOINT", "a checkpoint of refnp train, or the name of weights that come with refnp, such as convcnp"
)
SHARED = (
    option("--jobs", "N", "processes that share the work (default: one for each core, up to 4)", type=count),
    option("--cluster", "WHERE", "a Dask cluster that shares the work, tcp://host:8786, or local:N to start one here"),
)
REPORTED = (
    option("--json", "FILE", "also write the rows to FILE"),
    option("--html", "FILE", "also write them to FILE as a page to read and to search"),
)
OTHER_TASK = option("--task", "TASK", "another task than it was trained on")

COMMANDS = {
    "verify": Command(
        verify,
        "verify refnp, and judge other frameworks by it",
        """\
Verifies refnp's gradients against the complex step, the properties its layers must have, and, case by case, the
outputs and gradients of refnp and other frameworks against a reference in extended precision. An error is divided
by a bound derived from rounding; within the bound is 1 or less.

PyTorch is run live where it is installed; else, and for JAX, the answers that were recorded with this package
are judged (see --live).""",
        [
            *REPORTED,
            option(
                "--only",
                "PATTERN",
                "only what contains PATTERN in section/name, such as softmax, properties, frameworks/conv; or matches "
                "it, where it has wildcards (*, ?)",
            ),
            option(
                "--live",
                "NAMES",
                "which frameworks to run if they are installed, separated by commas, or none; others are judged as "
                "recorded (default: PyTorch; JAX takes a minute to compile)",
                default="PyTorch",
            ),
            *SHARED,
            option(
                "--reproduce",
                ("CASE", "FRAMEWORK"),
                "verify nothing, but print a short script that shows what that framework gets wrong in that case, "
                "with the framework alone: ready to be filed. The framework has to be installed",
                nargs=2,
            ),
        ],
        statuses,
    ),
    "cases": Command(
        cases,
        "list the cases, or write them as files",
        """\
Writes the cases by which frameworks are judged to a new folder, for programs in any language: inputs, options,
cotangent, the right outputs and gradients, what each element of an answer may be off by, the equation, and why the case
exists; with a manifest.""",
        [
            option("action", "ACTION", "export, or list: a line for each case", choices=("export", "list")),
            option("folder", "DIR", "the folder to write; it may be there if it is empty", nargs="?"),
            option(
                "--format",
                "FORMAT",
                "npz (default), safetensors, json, raw: a folder of plain arrays for each case; or onnx: a model "
                "and its data for each case that ONNX has an operator for",
                choices=("npz", "safetensors", "json", "raw", "onnx"),
                default="npz",
            ),
            option("--only", "PATTERN", "only cases whose names contain PATTERN, or match it, where it has wildcards"),
            option(
                "--dtype",
                "TYPE",
                "float32, float64 or both (default)",
                choices=("float32", "float64", "both"),
                default="both",
            ),
            flag("--replace", "replace the folder, answers and all, if it holds exported cases"),
            flag(
                "--gradients",
                "of whole models too, by names of data and parameters (seconds for each); other layers have them",
            ),
        ],
        lambda: (
            "examples:\n  refnp cases list --only attention\n  refnp cases export cases --format json --only softmax"
        ),
    ),
    "judge": Command(
        judge,
        "judge a function of your own, and name what is wrong with it",
        """\
Asks a function every case of the layer that it is meant to be, and holds each number of its answers against a bound
derived from rounding. What deviates is grouped by its cause. The framework (NumPy, PyTorch, JAX, …) is found out.""",
        [
            option(
                "what",
                "WHAT",
                "MODULE:FUNCTION, such as mypackage.layers:attention or layers.py:attention; or a folder of answers to "
                "exported cases, or of cases with answers in it",
                nargs="?",
            ),
            option("--as", "NAME", "what it is meant to be, such as attention; see --list", dest="name"),
            option("--list", "NAME", "all names, or all of one, and stop", nargs="?", const=""),
            flag("--gradients", "also judge gradients, by the framework's autodiff"),
            option("--vjp", "MODULE:FUNCTION", "judge gradients, by vjp(function, *arrays) → (output, pullback)"),
            option("--framework", "NAME", "of its arrays, where it is not found out: numpy, torch, jax, …"),
            option("--device", "NAME", "as the framework names it, such as cuda:0"),
            option("--arguments", "PAIRS", "what it calls its arguments: query=q,key=k"),
            option("--options", "PAIRS", "what it computes with: eps=1e-6"),
            option("--mask", "CONVENTION", "true_may_attend (default), true_is_hidden, additive"),
            option("--layout", "NAMES", "BHND, BNHD, NBD, channels_last, HWIO, out_in; several separated by commas"),
            several("--excused", "ISSUE", "a known defect that it may have"),
            option("--only", "PATTERN", "only cases whose names contain PATTERN, or match it with wildcards"),
            several("--skip", "PATTERN", "none of the cases that PATTERN matches"),
            option("--dtypes", "NAMES", "float32, float64 (default: both)"),
            option("--precision", "NAME", "where it rounds, such as bfloat16, in place of --dtypes"),
            option("--formats", "NAMES", "of single arguments, where they are others: gain=float32"),
            option(
                "--every",
                "FORMAT",
                "in place of the cases all numbers of a format, for a function of single numbers: bfloat16, float16, "
                "float8_e4m3fn, float8_e5m2, or float32, which takes minutes",
            ),
            option("--results", "FILE", "keeps what came of each part of float32; the same command goes on from there"),
            option("--cluster", "WHERE", "a Dask cluster that shares the parts of float32"),
            option("--cases", "DIR", "the exported folder that the answers are to (default: the folder above them)"),
            option("--run", "COMMAND", "judge a program, 'PROGRAM {in} {out}', run on each case", dest="run_program"),
            option("--format", "FORMAT", "of its cases: npz (default), safetensors, json, raw", default="npz"),
            option("--limit", "SECONDS", "that a program may take for a case (default: 10)", type=float, default=10.0),
            option(
                "--jobs",
                "N",
                "how many programs, or processes for float32, run at a time (default: 1)",
                type=count,
                default=1,
            ),
            option(
                "--seconds",
                "SECONDS",
                "of computing in which causes are looked for (default: 20); Ctrl-C ends the search as well",
                type=float,
                default=20.0,
            ),
            *REPORTED,
        ],
        judging,
    ),
    "claims": Command(
        claims,
        "hold every layer and model against every symmetry",
        """\
For every layer and model of refnp, and the weights that come with it: is it invariant or equivariant when the context,
the targets or the tokens are permuted, when everything is translated, rolled, reflected or scaled? What is expected
was written down first: exact, exact on a subgroup (which), approximate (at which rate), or broken. The search must find
just that.""",
        [
            option("--json", "FILE", "also write the rows to FILE"),
            option("--html", "FILE", "also write them to FILE as a page, with the counter-examples"),
            option(
                "--only",
                "PATTERN",
                "only what contains PATTERN in family/subject: symmetry, such as attention, 'targets permuted', "
                "vision; or matches it, where it has wildcards (*, ?)",
            ),
            *SHARED,
            flag(
                "--thorough",
                "more inputs for each row, some with structure, and smaller counter-examples; takes far longer",
            ),
        ],
        lambda: (
            """\
exit status:
  0  every row is as expected
  1  something is not: a symmetry that should be there is not, or one that should not be is
  2  wrong usage: a pattern that matches nothing, a file that cannot be written

In --json, a number that is not finite is null."""
        ),
    ),
    "prove": Command(
        prove,
        "prove that gradients are derivatives",
        """\
For every function of refnp that is a page (refnp/autograd/pages.py), or for one: the gradient that is written on it is
the derivative of what it computes, as an identity of expressions. For every size, by expressions of which it is proved
that their difference is 0; and at the sizes and on the branches of every case, by numbers of a finite field, but for a
chance of 1e-20.""",
        [
            option("page", "PAGE", "its name, such as softmax; all if none is given", nargs="?"),
            flag("--assumptions", "what each theorem for every size assumes"),
            flag(
                "--cost", "prove nothing: multiplications, exponentials … and numbers kept, as polynomials in the sizes"
            ),
            *SHARED,
        ],
        lambda: (
            """\
exit status:
  0  no gradient is wrong; what could not be proved is listed with its reason
  1  one is
  2  wrong usage: a name that is no page"""
        ),
    ),
    "derive": Command(
        derive,
        "derive the gradient of a page, step by step",
        """\
The formula that a page computes, its gradient derived from the lines of the page, the last one first, each with the
rules that it takes, and the lines of the VJP that is written there. With all names written out the two are the same
expression, for every size; what that assumes is printed, or what is missing.""",
        [option("page", "PAGE", "its name, such as layer_norm")],
        lambda: (
            """\
exit status:
  0  every gradient that is derived is what is written
  1  one is not shown to be: the rule that is missing, or the terms that are left, are said
  2  wrong usage: a name that is no page"""
        ),
    ),
    "train": Command(
        train,
        "train a neural process",
        """\
Trains a neural process and shows its loss, its log-likelihood per target, and by how much the exact posterior is
better on the same tasks (the oracle gap; there is none for the sawtooth). The same command goes on with a run that was
stopped, to the same bits.""",
        [
            option("model", "MODEL", "such as convcnp; all names are below"),
            option("--task", "TASK", "what to train on (default: eq)", default="eq"),
            option("--steps", "N", "in all (default: 10000)", type=count, default=10000),
            option("--seed", "S", "of weights and tasks (default: 0)", type=int, default=0),
            option("--dtype", "TYPE", "float32 (default) or float64", default="float32"),
            option("--batch", "B", "tasks in a step (default: 16)", type=count, default=16),
            option("--lr", "R", "the full learning rate (default: the model's)", type=float),
            option("--schedule", "NAME", "cosine (default) or constant", default="cosine"),
            option("--clip", "C", "longest gradient (default: 1; inf: any)", type=float, default=1.0),
            option("--checkpoint", "FILE", "where the run is kept (default: MODEL-TASK.npz, here)"),
            option("--every", "N", "steps between validations (default: 500)", type=count, default=500),
            flag("--restart", "replace the checkpoint instead of going on from it"),
            several("--option", "NAME=VALUE", "an option of the model, such as features=32"),
        ],
        models_and_tasks,
    ),
    "sweep": Command(
        sweep,
        "train models on tasks with seeds, each a run of its own",
        """\
Trains every model that FILE names on every task with every seed, as refnp train does, evaluates what is finished, and
prints a table: mean and standard deviation over the seeds beside the exact posterior and published figures. What was
stopped goes on, and what is finished is not run again.""",
        [
            option("file", "FILE", "models, tasks, seeds and steps, as TOML; docs/sweeps/ has one"),
            flag("--status", "how far each run is, and stop"),
            flag("--table", "the table of what is finished, and stop"),
            option("--plot", "OUT", "draw the validations of all runs so far over their steps into OUT, and stop"),
            *SHARED,
        ],
    ),
    "evaluate": Command(
        evaluate,
        "measure a trained neural process",
        """\
Measures a trained model on new tasks: marginal and joint log-likelihood and KL per target beside the exact posterior's,
the error of its mean, and how many targets its intervals hold; inside the range of training, shifted, and beyond the
range. Each figure with its standard error.""",
        [
            SOURCE,
            OTHER_TASK,
            option("--tasks", "N", "how many at each place (default: 1024)", type=count, default=1024),
            option("--seed", "S", "of the tasks (default: 0)", type=int, default=0),
            option("--shift", "X", "by how much to shift (default: 4)", type=float, default=4.0),
            option("--dtype", "TYPE", "(default: the weights')", choices=("float32", "float64")),
            flag("--autoregressive", "the joint likelihood by the chain rule, target after target"),
            option("--json", "FILE", "also write the figures to FILE"),
        ],
        weights,
    ),
    "plot": Command(
        plot,
        "draw what a trained neural process predicts",
        """\
Draws the mean, twice the standard deviation, samples, the context, and dashed the exact Gaussian process, or
the true function where it is known.""",
        [
            SOURCE,
            option("--out", "FILE", ".png, .svg or .pdf (default: CHECKPOINT.png, here)"),
            OTHER_TASK,
            option("--seed", "S", "of the functions and samples (default: 0)", type=int, default=0),
            option("--samples", "N", "in each panel (default: 3)", type=int, default=3),
            option("--contexts", "N", "in each panel (default: 3 8 20)", type=int, nargs="+", default=[3, 8, 20]),
            option("--shift", "X", "draw everything this far away (default: 0)", type=float, default=0.0),
        ],
        weights,
    ),
    "export": Command(
        export,
        "write the weights of a checkpoint alone",
        "Writes a slim file: the best weights and the configuration, for evaluate and plot.",
        [
            option("source", "CHECKPOINT", "of refnp train"),
            option("file", "FILE", "a .npz, with the best weights; no run goes on from it"),
            option(
                "--dtype", "TYPE", "float32 (default) or float16", choices=("float32", "float16"), default="float32"
            ),
        ],
    ),
    "convert": Command(
        convert,
        "take over weights of another code base",
        """\
Reads a file of weights of another code base, a state dict in .npz, .safetensors or, where PyTorch is installed, .pt,
and writes a checkpoint for evaluate and plot. Model and sizes are found from the arrays.""",
        [
            option("file", "FILE", "of weights: .npz, .safetensors, .pt"),
            option("--from", "SOURCE", "whose they are, such as tnp-pytorch", dest="source", required=True),
            option("--to", "CHECKPOINT", "the file to write (default: the name of FILE, .npz, here)"),
            option("--model", "MODEL", "where the arrays do not say it: tnpa has those of tnpd"),
            option("--task", "TASK", "what they were trained on (default: what the source trains on)"),
            several("--option", "NAME=VALUE", "an option of the model that no array says, such as heads=8"),
        ],
        sources,
    ),
    "figure": Command(
        figure,
        "draw a figure of the texts",
        """\
Draws a figure from what refnp computes, and prints the numbers that it shows; without a name, lists the figures. The
pictures are 900 pixels wide; the same version of matplotlib writes the same bytes.""",
        [
            option("name", "NAME", "of a figure, such as masks; all are below", nargs="?"),
            flag("--all", "draw all of them"),
            option("--out", "FILE", "a .png or .svg (default: NAME.png, here); with --all a folder (default: figures)"),
            several("--option", "NAME=VALUE", "the same of something else, such as another sentence or other sizes"),
            option("--format", "FORMAT", "with --all: png (default) or svg", choices=("png", "svg"), default="png"),
        ],
        all_figures,
    ),
    "study": Command(
        study,
        "read a chapter of the course",
        """\
Shows a chapter: its text, its examples, which run, and its code, which is read from the source; without a name, lists
the chapters. On a terminal page by page, elsewhere as plain text. Formulas are Unicode with pylatexenc and text has
colours with rich, both of the extra refnp[study]; without them they are LaTeX and plain.""",
        [
            option("name", "NAME", "of a chapter, such as softmax; all are below", nargs="?"),
            flag("--solutions", "the solutions of the exercises too"),
            option("--pictures", "DIR", "write the pictures into this folder"),
            several("--section", "WORDS", "only the section with these words in its heading, such as gradient"),
            flag("--plain", "no colours"),
        ],
        all_chapters,
    ),
}


class Parser(argparse.ArgumentParser):
    """A parser whose help ends with what `more` returns when it is printed."""

    more: Callable[[], str] | None = None

    def format_help(self) -> str:
        if self.more is not None:
            self.epilog = self.more()
        return super().format_help()


def parser() -> Parser:
    """The command line: the commands and their options."""
    top = Parser(prog="refnp", description="A NumPy-only reference for Transformers and Neural Processes.")
    top.add_argument("--version", action="store_true", help="print the version and stop")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, command in COMMANDS.items():
        layout = argparse.RawDescriptionHelpFormatter
        own = commands.add_parser(name, help=command.help, description=command.about, formatter_class=layout)
        own.more = command.more
        for argument, settings in command.options:
            own.add_argument(argument, **settings)
    return top
