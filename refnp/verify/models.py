"""Is a whole model right, and if not, where does it begin to be wrong?   report = judge_model(module, inputs)

layer by layer   every layer inside its own inputs: by its equation in numbers that carry their rounding error, from the
                 arrays that really came in when the model ran, and from the cotangent that really came back. So what a
                 layer inherits is not held against it, and the first layer beyond its bound is where it begins.
end to end       the answer of the whole, beside that of the same model in refnp's operations in the widest precision:
                 within what the rounding of every operation can do to it (`refnp.verify.propagation`).
"""

import fnmatch
import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from refnp.autograd.errors import closest
from refnp.autograd.tensor import Tensor
from refnp.layers.module import Module
from refnp.numbers.precision import policy
from refnp.verify.asking import name_of, names
from refnp.verify.case import Convention, KnownDefect, Layer, quiet
from refnp.verify.frameworks.torch_modules import Part, Reading
from refnp.verify.frameworks.torch_run import Call, Run, checked, is_module, recorded
from refnp.verify.frameworks.torch_trace import NotTracedError, traced
from refnp.verify.judge import DEVIATES, KNOWN, Judgement, judged
from refnp.verify.judging import check_excused
from refnp.verify.layers import cases
from refnp.verify.like import PRECISIONS, Training, beside
from refnp.verify.model_report import END_TO_END, ModelReport, end_to_end, innermost, of_operations, path_of, same_bits
from refnp.verify.propagation import NoBoundError, wide


def judge_model(
    module: Any,
    inputs: Any,
    *,
    gradients: bool | Mapping[str, Any] = True,
    equations: Mapping[str, Any] | None = None,
    like: Module | None = None,
    parameters: Mapping[str, Any] | None = None,
    loss: Callable | None = None,
    updated: Mapping[str, Any] | None = None,
    optimizer: Any = "adam",
    precision: str | None = None,
    excused: Sequence[str] = (),
    waived: Sequence[str] = (),
) -> ModelReport:
    """Judge a model layer by layer, and end to end.

    module: a torch.nn.Module, in evaluation mode where it has dropout; or, with `like`, any function of arrays of any
        framework that refnp knows.
    inputs: an array or tensor, a tuple of them, or a dict by name; floats in the precision of the module.
    gradients: judge every layer's gradients as well, from drawn cotangents of the outputs. Or, with `like`, the
        gradients of a loss as the program computes them, by the names of `like`'s parameters and inputs.
    equations: what modules of your own compute, by path, or by a pattern such as "blocks.*.norm":
        the name of a layer of refnp, if the module takes its arguments in refnp's order and has its parameters so;
        a function of the inputs and then the parameters in operations of refnp, whose output alone is judged;
        (either, arguments, options) with arguments {"x": 0, "gain": "scale"}, each the number of an input or the name
        of a parameter, and options {"eps": 1e-6}; or None for what shall not be judged.
    like: the model of refnp that computes the same from the same inputs. Its answer in the widest precision is what the
        module's is judged by. The answer of a neural process is a distribution: an object with `mean` and `std` (or
        `stddev`), a dict of such names, or (mean, std).
    parameters: those of `like` by name; its own unless given, as `refnp.models.published` reads them from the module's.
    loss: a function of `like`'s answer in operations of refnp, the number whose gradients these are; the answer itself
        unless given. Where the program answers with one number and `like` does not, the number is judged as the loss.
    updated: parameters after one step of the optimizer from these gradients, by name.
    optimizer: "sgd", "adam", "adamw" or another optimiser that refnp judges, or (its name, {"learning_rate": 3e-4, …}).
    precision: where layers round, "bfloat16 in and out, float32 inside" and the like; every operation in the precision
        of the module's parameters unless given. The whole is judged in float32 and float64 alone: in that of the answer
        or, of a function beside `like`, in this one.
    excused: known defects of PyTorch by their names, such as "pytorch/pytorch#187806", that its own layers may have.
    waived: what may stay without a verdict, such as "end to end" in bfloat16, and the model still holds.

    Dropout, containers and reshapings round nothing and are passed through. A module of your own is passed through too,
    and its layers are judged; one with parameters of its own, or without layers, stands in the report as not judged.
    The function is called twice: where its answers differ the report says so. A model of refnp that draws needs its
    noise among the inputs.
    Raises TypeError for what is no torch.nn.Module; ValueError for a model that drops units at random, a precision or a
    known defect that there is not, an equation that fits no module or names no layer, and answers that have nothing in
    common with those of `like`.
    """
    check_excused(excused)
    if gradients == {}:
        raise ValueError("judge_model: gradients names none; write {name: array}, or gradients=False")
    if precision is not None:
        policy(precision)
    with quiet():
        if like is None or is_module(module):
            readers = readers_of(checked(module), equations or {})
            run = recorded(module, inputs, gradients=gradients is True, readers=readers)
            report = by_layers(run, type(module).__name__, precision or run.dtype, excused)
            if like is None:
                as_a_whole(report, run, module, inputs, readers)
        else:
            report = ModelReport(name_of(module), "", [])
        report.waived = tuple(waived)
        if like is not None:
            training = Training(gradients if isinstance(gradients, Mapping) else {}, loss, updated or {}, optimizer)
            beside(report, module, inputs, like, parameters, training, None if report.dtype else precision)
    check_waived(report)
    return report


def check_waived(report: ModelReport) -> None:
    """ValueError for a name in `waived` of which there is a verdict, or nothing at all."""
    for name in report.waived:
        if name not in report.not_judged:
            known = ", ".join(map(repr, report.not_judged)) or "nothing"
            raise ValueError(f"judge_model: waived names {name!r}; not judged is {known}")


def by_layers(run: Run, name: str, precision: str, excused: Sequence[str]) -> ModelReport:
    """Every layer of a module of PyTorch."""
    report = ModelReport(
        name, f"PyTorch {run.version}", [], dtype=run.dtype, calls=run.calls, not_judged=run.not_judged
    )
    hints: list[tuple[str, str]] = []
    for call in list(run.calls):
        if of_operations(call.layer):
            by_operations(report, call, precision)
            continue
        try:
            problem = call.problem(precision)
            right = problem.reference()
        except (TypeError, ValueError, IndexError) as refused:
            report.not_judged[call.path] = f"{call.kind}: it is given what {call.layer.name} does not take ({refused})"
            report.calls.remove(call)
            continue
        defects = defects_of(call.layer.name) if call.is_of_torch else ()
        known = [d for d in defects if isinstance(d, Convention) or any(names(e, d) for e in excused)]
        rows = judged(problem, call.answer, right, "PyTorch", run.version, known=known)
        if other := sorted(name for name in call.dtypes - {run.dtype} if "float" in name):
            why = f"numbers of {', '.join(other)} in a model in {run.dtype}"
            rows = [replace(row, why=row.why or why) if row.verdict == DEVIATES else row for row in rows]
        wrong = [row for row in rows if row.verdict == DEVIATES]
        seen = [d for d in defects if any(d.covers("PyTorch", row.dtype, row.quantity) for row in wrong)]
        hints += [(path_of(rows[0]), f"PyTorch's {call.layer.name} is known for {d.issue}: {d.why}") for d in seen]
        if wrong and not call.is_of_torch:
            meant = f"{call.kind} is judged as {call.layer.name}; if it means something else, say so in equations="
            hints.append((path_of(rows[0]), f"{call.path}: {meant}"))
        report.answers.append((problem, call.answer))
        report.judgements += rows
    inner = innermost({path_of(row) for row in report.deviations})
    report.hints = list(dict.fromkeys(hint for path, hint in hints if path in inner))
    return report


def by_operations(report: ModelReport, call: Call, precision: str) -> None:
    """The output of a module whose user says what it computes in operations of refnp, judged as a whole model is."""
    if precision not in PRECISIONS:
        report.not_judged[call.path] = f"operations of refnp are judged in {' and '.join(PRECISIONS)}, not {precision}"
        return
    right = call.layer.function(*map(wide, call.arrays.values()), **call.options)
    try:
        row = end_to_end(call.layer.name, report, "output", call.output, right, precision)
    except NoBoundError as why:
        report.not_judged[call.path] = str(why)
    else:
        report.judgements.append(replace(row, case=f"{call.layer.name}/{call.path}"))


@functools.cache
def defects_of(layer: str) -> tuple[KnownDefect, ...]:
    """What PyTorch is known for in the cases of a layer."""
    every = [d for case in cases() for d in case.known_defects if case.layer.name == layer and d.framework == "PyTorch"]
    return tuple(dict.fromkeys(every))


# ---- end to end


def as_a_whole(report: ModelReport, run: Run, module: Any, inputs: Any, readers: Mapping) -> None:
    """Judge the outputs of a module of PyTorch by the same in refnp's operations, or say why they are not judged.

    Those of the run with hooks, which passes through every layer; and those without gradients, if they are others.
    """
    if run.dtype not in PRECISIONS:
        report.not_judged[END_TO_END] = f"in {run.dtype} what each operation rounds does not add up to first order"
        return
    inferred, expected, lower = traced(module, inputs, readers)
    for i, (right, *both) in enumerate(zip(expected, run.outputs, inferred, strict=True)):
        name = "output" if len(expected) == 1 else f"output {i}"
        try:
            if isinstance(right, str):
                raise NotTracedError(right)
            given = {name: both[0]} | ({} if same_bits(*both) else {f"{name} without gradients": both[1]})
            for quantity, answer in given.items():
                rows = whole(type(module).__name__, report, quantity, answer, right)
                report.judgements += [
                    replace(row, why=row.why or lower) if row.verdict == DEVIATES else row for row in rows
                ]
        except (NotTracedError, NoBoundError) as why:
            report.not_judged[END_TO_END if name == "output" else f"{END_TO_END}, {name}"] = str(why)


def whole(what: str, report: ModelReport, quantity: str, given: np.ndarray, right: Tensor) -> list[Judgement]:
    """An output of the whole, and in a row of its own what PyTorch's fused encoder is known to leave at padding."""
    dropped = np.zeros(given.shape[:-1], bool)
    if quantity.endswith("without gradients") and given.shape == right.shape:
        dropped = ((given == 0) | np.isnan(given)).all(-1) & (right.data != 0).any(-1)
    row = end_to_end(what, report, quantity, given, right, report.dtype, but=dropped)
    if not dropped.any():
        return [row]
    (defect,) = [d for d in defects_of("encoder_fast_path") if d.issue == "pytorch/pytorch#190486"]
    one = (*np.argwhere(dropped)[0], 0)
    values = float(given[one]), float(right.data[one])
    known = replace(row, error_over_bound=math.inf, ulps=math.inf, verdict=KNOWN, issue=defect.issue, why=defect.why)
    return [row, replace(known, quantity=f"{quantity}, padding", claimed=values[0], right=values[1])]


def readers_of(paths: Sequence[str], equations: Mapping[str, Any]) -> dict[str, Callable | None]:
    """{path: reader} of the modules that a user says the equations of."""
    if not isinstance(equations, Mapping):
        raise ValueError(f"judge_model: equations is {equations!r}; write {{path: equation}}")
    found: dict[str, Callable | None] = {}
    for pattern, equation in equations.items():
        fitting = [path for path in paths if fnmatch.fnmatchcase(path, pattern)]
        if not fitting:
            some = ", ".join(path for path in paths[:8] if path)
            raise ValueError(f"judge_model: equations names {pattern!r}, and no module is called so; there are {some}")
        found |= dict.fromkeys(fitting, None if equation is None else reader_of(equation))
    return found


def reader_of(equation: Any) -> Callable:
    """A reader of modules that compute by a layer or a function: from it, or (it, arguments, options)."""
    what, arguments, options = (*equation, None, None)[:3] if isinstance(equation, tuple) else (equation, None, None)
    if isinstance(equation, tuple) and not 1 <= len(equation) <= 3:
        raise ValueError(f"judge_model: equations has {equation!r}; write (name, arguments, options)")
    layer = layer_of(what)
    names = argument_names(layer)
    check_names(layer, "argument", arguments, names)
    check_names(layer, "option", options, option_names(layer))

    def read(module: Any, *inputs: Any, **given: Any) -> Reading:
        values = dict(enumerate(inputs)) | given | dict(module.named_parameters())
        if arguments is None:
            own = [*names, *map(str, list(values)[len(names) :])][: len(values)]
            return Reading(layer, dict(zip(own, map(Part, values.values()), strict=True)), options or {})
        values |= dict(module.named_buffers())
        if missing := [own for own in arguments.values() if own not in values]:
            raise ValueError(
                f"judge_model: equations of {type(module).__name__} name {missing[0]!r}, neither the number of "
                f"an input nor a parameter; there are {', '.join(map(repr, values))}"
            )
        in_order = sorted(arguments, key=lambda name: names.index(name) if name in names else len(names))
        return Reading(layer, {name: Part(values[arguments[name]]) for name in in_order}, options or {})

    return read


def layer_of(what: Any) -> Layer:
    """The layer of refnp of this name or this function; of another function one whose equation is the function."""
    layers = {case.layer.name: case.layer for case in cases()}
    if isinstance(what, Layer):
        return what
    if callable(what):
        own = [layer for layer in layers.values() if layer.function is what]
        return own[0] if own else Layer(name_of(what), what, what)
    if what not in layers:
        raise ValueError(f"judge_model: equations names {what!r}; refnp has {', '.join(sorted(layers))}")
    return layers[what]


def argument_names(layer: Layer) -> list[str]:
    """The arrays of a layer by its equation, in order; those of *parameters have none."""
    places = inspect.signature(layer.equation).parameters.values()
    return [place.name for place in places if place.kind is place.POSITIONAL_OR_KEYWORD]


def option_names(layer: Layer) -> list[str]:
    """The options of a layer by its function."""
    return [place.name for place in inspect.signature(layer.function).parameters.values()]


def check_names(layer: Layer, what: str, given: Any, known: list[str]) -> None:
    """ValueError for an argument or option that the layer does not have, unless it takes any."""
    if not isinstance(given, Mapping | None):
        raise ValueError(f"judge_model: equations: {given!r} is no dict of {what}s of {layer.name}")
    places = inspect.signature(layer.function).parameters.values()
    if any(place.kind in (place.VAR_POSITIONAL, place.VAR_KEYWORD) for place in places):
        return
    for name in given or ():
        if name not in known:
            raise ValueError(f"judge_model: equations: {layer.name} has no {what} {name!r}{closest(name, known)}")
