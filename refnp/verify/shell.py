"""`refnp judge`: what its words mean, and the list of all that can be judged.

refnp judge mypackage.layers:attention --as attention     a function; also my_layers.py:attention
refnp judge cases/answers                                 a folder of answers to exported cases
refnp judge --run './layers {in} {out}' --as attention    a program in any language
refnp judge --list [NAME]                                 what can be named, or one of them in full
"""

import argparse
import functools
import importlib
import importlib.util
import inspect
import json
import os
import re
import sys
import textwrap
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

from refnp.pieces import in_order, workers_for
from refnp.verify.calling import defaults
from refnp.verify.case import Case, Layer
from refnp.verify.conventions import LAYOUTS, MASKS, changes
from refnp.verify.every.float32 import PARTS, Part, about_of, keep, part_name
from refnp.verify.exchange import judge_folder, judge_program
from refnp.verify.findings import Report, first_line
from refnp.verify.html import page
from refnp.verify.judging import judge
from refnp.verify.layer_names import named_cases
from refnp.verify.layers import cases_to_ask
from refnp.verify.record import DTYPES
from refnp.verify.report import as_json, check_writable, write
from refnp.verify.signatures import CALLED


def run(options: argparse.Namespace) -> int:
    """Judge what the command line names; 1 if anything deviates, ValueError for what cannot be judged."""
    if options.list is not None:
        print(listing() if not options.list else in_full(options.list))
        return 0
    for file in (options.json, options.html):
        if file is not None:
            check_writable(Path(file))
    report = report_of(options)
    report.seconds, report.told = options.seconds, on_line if sys.stderr.isatty() else None
    text = str(report)
    if report.told is not None:
        on_line("")
    print(text)
    if options.json is not None:
        write(Path(options.json), as_json(report.judgements, report.causes))
    if options.html is not None:
        write(Path(options.html), page(report.judgements, title=f"refnp judge: {report.name}", summary=[text]))
    return int(not report.holds)


def on_line(what: str) -> None:
    """What is being tried, on a line of the terminal that the next takes the place of."""
    about = f"looking for causes: {what}; Ctrl-C keeps what is found" if what else ""
    print(f"\r{about:110}\r", end="", file=sys.stderr, flush=True)


def report_of(options: argparse.Namespace) -> Report:
    """The judgement that is asked for: of a program, of a folder of answers, or of a function."""
    if options.run_program is not None:
        return of_program(options)
    if options.what is not None and (options.cases is not None or Path(options.what).is_dir()):
        check_of_functions(options, f"the folder {options.what}")
        return judge_folder(
            options.what, options.cases, only=options.only, skip=options.skip, excused=excused_of(options)
        )
    if options.what is None:
        raise ValueError("name a function, such as mypackage.layers:attention --as attention, or see --list")
    if options.name is None and ":" not in options.what:
        raise ValueError(f"there is no folder {options.what}; or name a function, MODULE:FUNCTION, and --as NAME")
    if options.name is None:
        raise ValueError(f"say what {options.what} is: --as NAME, such as --as attention; --list has the names")
    if options.every == "float32" and (options.results or options.jobs > 1 or options.cluster):
        options.results = options.results or f"{options.name}-float32.jsonl"
        compute_parts(options)
    return of_function(options, results=options.results)


def of_function(options: argparse.Namespace, **others: Any) -> Report:
    """The judgement of a function."""
    given = {"only": options.only, "every": options.every} | others
    return judge(
        options.name,
        function_of(options.what),
        gradients=options.gradients,
        vjp=None if options.vjp is None else function_of(options.vjp),
        framework=options.framework,
        device=options.device,
        arguments=pairs(options.arguments, "--arguments"),
        options={name: value_of(text) for name, text in pairs(options.options, "--options").items()},
        layout=words(options.layout) or None,
        mask=options.mask,
        excused=excused_of(options),
        skip=options.skip,
        dtypes=words(options.dtypes) or DTYPES,
        precision=options.precision,
        formats=pairs(options.formats, "--formats"),
        **given,
    )


def compute_parts(options: argparse.Namespace) -> None:
    """The parts of float32 that the file of --results lacks, by several workers, a line for each that is done."""
    file = Path(options.results)
    rows = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    done = {json.loads(row)["name"] for row in rows}
    left = [part_name(k) for k in range(PARTS) if part_name(k) not in done]
    workers = workers_for(len(left), options.jobs, options.cluster, few=2)
    for part in in_order(functools.partial(part_of, options), left, workers):
        keep(file, part)
        print(f"{part.name}: {'; '.join(one.lines[0] for one in part.found) or 'no finite number'}", flush=True)


def part_of(options: argparse.Namespace, name: str) -> Part:
    """What came of one part of float32."""
    report = of_function(options, only=f"*{name}", results=None)
    return Part(name, about_of(report), report.every)


def of_program(options: argparse.Namespace) -> Report:
    """The judgement of the program of --run."""
    if options.what is not None:
        raise ValueError(f"--run runs a program; {options.what} cannot be judged at the same time")
    check_of_functions(options, "a program")
    return judge_program(
        options.run_program,
        options.name,
        layout=options.format,
        limit=options.limit,
        jobs=options.jobs,
        only=options.only,
        skip=options.skip,
        excused=excused_of(options),
        dtypes=words(options.dtypes) or DTYPES,
    )


def check_of_functions(options: argparse.Namespace, judged: str) -> None:
    """ValueError for an option that says how a function is called, beside what is no function."""
    of_values = ("arguments", "options", "mask", "layout", "precision", "formats", "every")
    for name in ("gradients", "vjp", "framework", "device", *of_values):
        if getattr(options, name):
            raise ValueError(f"--{name} is of functions; {judged} follows docs/case_format.md, gradients if it has any")


def excused_of(options: argparse.Namespace) -> list[str]:
    """The known defects of --excused."""
    return [issue.strip() for issue in options.excused]


def function_of(path: str) -> Callable:
    """What "package.module:name" or "file.py:name" stands for, imported from where the command is run as well."""
    place, colon, name = path.rpartition(":")
    if not colon or not place or not name:
        raise ValueError(f"{path!r}: write MODULE:FUNCTION, such as mypackage.layers:attention or layers.py:attention")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = from_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except (Exception, SystemExit) as wrong:  # whatever a user's module stumbles over
        raise ValueError(f"{place} cannot be imported: {type(wrong).__name__}: {first_line(wrong)}") from wrong
    try:
        return attrgetter(name)(module)
    except AttributeError as wrong:
        raise ValueError(f"{place} has no {name}: {wrong}") from wrong


def from_file(path: Path) -> Any:
    """The module in a file."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module


def pairs(text: str | None, option: str) -> dict[str, str]:
    """ "query=q,key=k" → {"query": "q", "key": "k"}."""
    found = {}
    for pair in words(text):
        name, equals, value = pair.partition("=")
        if not equals or not name or not value:
            raise ValueError(f"{option} {text!r}: write NAME=VALUE, several separated by commas")
        found[name.strip()] = value.strip()
    return found


def words(text: str | None) -> list[str]:
    """What stands between commas."""
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def value_of(text: str) -> Any:
    """A number, a truth value, or else a word."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


# The list


def listing() -> str:
    """Every name with its arguments, its number of cases, and what PyTorch and JAX call it."""
    lines = [f"{'NAME':26} {'CASES':>5}  ARGUMENTS"]
    for layer, own in by_layer().items():
        lines.append(f"{layer:26} {len(own):5}  {', '.join(signature_of(own))}")
    about = "refnp judge --list NAME says more of one of them. Other spellings are understood: LayerNorm, nn.LayerNorm."
    return "\n".join([*lines, "", about])


def by_layer() -> dict[str, list[Case]]:
    """The cases of every layer, by its name."""
    found: dict[str, list[Case]] = {}
    for case in cases_to_ask():
        found.setdefault(case.layer.name, []).append(case)
    return dict(sorted(found.items()))


def signature_of(own: list[Case]) -> list[str]:
    """The arguments of a layer's cases; in brackets those that not every case has, after * the options."""
    arrays = list(dict.fromkeys(name for case in own for name in case.inputs))
    shown = arrays if len(arrays) <= 6 else [*arrays[:3], "…", arrays[-1]]
    always = [name for name in arrays if all(name in case.inputs for case in own)]
    options = list(dict.fromkeys(name for case in own for name in case.options))
    texts = [name if name in always or name == "…" else f"[{name}]" for name in shown]
    return texts + ([f"*, {', '.join(options)}"] if options else [])


def in_full(name: str) -> str:
    """One layer: arguments with their shapes, options, conventions, names elsewhere, cases, known defects."""
    own = named_cases(name)
    layer = own[0].layer
    same = [case for case in own if case.layer.name == layer.name]
    lines = [f"{layer.name}({', '.join(signature_of(same))})", *described(layer)]
    lines += ["", "arguments, in the first case that has them:"]
    for argument in dict.fromkeys(name for case in same for name in case.inputs):
        case = next(case for case in same if argument in case.inputs)
        shape = case.problem("float64").arrays[argument].shape
        lines.append(f"  {argument:26} {shape!s:18} {also_called(argument)}".rstrip())
    if options := dict.fromkeys(name for case in own for name in case.options):
        lines += ["", "options:"]
        for option in options:
            usual = [repr(value) for case in own[:1] for n, value in defaults(case).items() if n == option]
            lines.append(f"  {option:26} {'default ' + usual[0] if usual else '':18} {also_called(option)}".rstrip())
            if of := domain_of(layer, option):
                lines.append(f"  {'':26} {of}")
    lines += ["", "elsewhere:", *elsewhere(layer)]
    if any(option.endswith("mask") for option in options or ()):
        lines.append(f"  masks: True = may attend; mask= turns them round: {', '.join(MASKS)}")
    if turned := [name for name in LAYOUTS if any(changes(name, case) for case in same)]:
        lines.append(f"  layouts: layout= turns them round: {', '.join(turned)}")
    lines += ["", f"{len(own)} cases:"]
    lines += textwrap.wrap("; ".join(case.name for case in own), 110, initial_indent="  ", subsequent_indent="  ")
    if issues := dict.fromkeys(f"{d.framework}: {d.issue}" for case in own for d in case.known_defects):
        lines += ["", "known defects:", *(f"  {issue}" for issue in issues)]
    return "\n".join(lines)


def described(layer: Layer) -> list[str]:
    """The first lines of refnp's function, or of the equation where that has none, and the shapes that it takes."""
    text = inspect.getdoc(layer.function) or inspect.getdoc(layer.equation) or ""
    first = text.split("\n\n")[0]
    written = re.search(r"^Shapes: .*(?:\n(?!\n|[A-Z]).*)*", text, re.M)
    takes = getattr(layer.function, "takes", None)
    shapes = f"Takes: {takes.shapes}" if takes else written.group() if written else ""
    found = [first] if first and "lambda" not in first else []
    found += [as_one.group()] if (as_one := re.search(r"^As one array: .*", text, re.M)) else []
    return [f"  {line}" for part in [*found, shapes] if part for line in part.split("\n")]


def domain_of(layer: Layer, option: str) -> str:
    """What refnp's function declares that an option may be."""
    takes = getattr(layer.function, "takes", None)
    return takes.options[option].text if takes and option in takes.options else ""


def also_called(argument: str) -> str:
    """What frameworks call an argument."""
    return f"also {', '.join(CALLED[argument])}" if argument in CALLED else ""


def elsewhere(layer: Layer) -> list[str]:
    """What PyTorch and JAX call the layer."""
    found = []
    for framework, theirs, package in (("PyTorch", layer.torch, "torch"), ("JAX", layer.jax, "jax")):
        if theirs is None:
            found.append(f"  {framework}: no such function")
        elif isinstance(theirs, str):
            found.append(f"  {framework}: {package}.{theirs}")
        else:
            names = re.findall(rf"\b{package}\.[\w.]+", source_of(theirs))
            called = [name for name in dict.fromkeys(names) if name.rpartition(".")[2] not in ("tensor", "where", "nn")]
            found.append(f"  {framework}: {', '.join(called) or 'a method of its arrays'}, with an adapter")
    return found


def source_of(function: Any) -> str:
    """The code of an adapter."""
    try:
        return inspect.getsource(getattr(function, "func", function))
    except (OSError, TypeError):
        return ""
