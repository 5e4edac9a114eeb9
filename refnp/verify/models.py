"""Is a whole model right, and if not, where does it begin to be wrong?   report = judge_model(module, inputs)

layer by layer   every layer inside its own inputs: by its equation in numbers that carry their rounding error, from the
                 arrays that really came in when the model ran, and from the cotangent that really came back. So what a
                 layer inherits is not held against it, and the first layer beyond its bound is where it begins.
end to end       the answer of the whole, beside that of the same model in refnp's operations in the widest precision:
                 within what the rounding of every operation can do to it (`refnp.verify.propagation`).
"""

import fnmatch
import functools
import importlib.metadata
import inspect
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from refnp.autograd.tensor import Tensor
from refnp.layers.module import Module
from refnp.models.published.renaming import array_of
from refnp.numbers.precision import policy
from refnp.numbers.rounding import ASSUMED, WIDE, judging_precision, tolerance
from refnp.verify.asking import name_of, names
from refnp.verify.bounds import deviation
from refnp.verify.case import Convention, KnownDefect, Layer
from refnp.verify.causes import Cause
from refnp.verify.findings import Report, causes_of, excused_lines
from refnp.verify.frameworks.native import NATIVES, Native
from refnp.verify.frameworks.torch_modules import Part, Reading
from refnp.verify.frameworks.torch_run import Call, Run, checked, is_module, recorded
from refnp.verify.frameworks.torch_trace import NotTracedError, traced
from refnp.verify.judge import DEVIATES, KNOWN, WITHIN, Judgement, judged
from refnp.verify.judging import check_excused
from refnp.verify.layer_names import closest
from refnp.verify.layers import cases
from refnp.verify.propagation import NoBoundError, bounded, wide
from refnp.verify.report import exactly, number

END_TO_END = "end to end"
HOLDS, NOT_JUDGED = "holds", "not judged"
PLACES = 16  # elements of an output that are judged end to end: those that are furthest off
PARTS = {  # what distributions call their parameters, in refnp, PyTorch and JAX's libraries
    "mean": "mean", "loc": "mean", "std": "std", "stddev": "std", "scale": "std", "factor": "factor",
    "covariance": "covariance", "covariance_matrix": "covariance",
}  # fmt: skip
PRECISIONS = ("float32", "float64")


@dataclass
class ModelReport(Report):
    """What came of a model: a row for each output and gradient of each layer, in the order in which layers ended, and
    at the end those of the whole. `not_judged` is {path: why} of what has no equation, `waived` what of it is accepted.
    """

    dtype: str = ""
    calls: list[Call] = field(default_factory=list)
    not_judged: dict[str, str] = field(default_factory=dict)
    waived: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """ "holds", "deviates", or "not judged": nothing is beyond its bound, and the whole was not judged.

        A layer that is not judged by itself is judged with the whole.
        """
        if self.deviations:
            return DEVIATES
        open_ends = [path for path in self.not_judged if path.startswith(END_TO_END) and path not in self.waived]
        return NOT_JUDGED if open_ends or not self.judgements else HOLDS

    @property
    def holds(self) -> bool:
        """Whether the whole is judged, unless that is waived, and nothing deviates."""
        return self.verdict == HOLDS

    @property
    def first(self) -> str | None:
        """The path of the first layer beyond its bound; None if there is none."""
        return next((path_of(row) for row in self.judgements if row.verdict == DEVIATES), None)

    @functools.cached_property
    def causes(self) -> list[Cause]:
        """The rows of layers that deviate, grouped by cause, the most rows first; a layer inside another says why."""
        inner = innermost({path_of(row) for row in self.deviations}) - {END_TO_END}
        with_equations = [call for call in self.calls if not of_operations(call.layer)]
        answers = [call.spread(*answered) for call, answered in zip(with_equations, self.answers, strict=True)]
        named = {(problem.case.name, quantity) for problem, answer in answers for quantity in answer}
        rows = [row for row in self.judgements if path_of(row) in inner and (row.case, row.quantity) in named]
        return causes_of(Report(self.name, self.who, rows, answers), of_one=False)

    def __str__(self) -> str:
        assumed = ["the bounds assume:", *(f"    {words}" for words in ASSUMED)]
        return "\n".join([*self._heading(), *self._deviations(), "", *self._table(), *self._not_judged(), *assumed])

    def _heading(self) -> list[str]:
        layers = f", {len(self.calls)} calls of layers" if self.calls else ""
        return [f"{self.name} in {self.who}, {self.dtype}{layers}, judged against {judging_precision()}"]

    def _deviations(self) -> list[str]:
        if not self.deviations:
            within = "everything that is judged is within its bound" if self.judgements else "nothing is judged"
            return [within, *([] if self.verdict == HOLDS else ["the whole is not judged: nothing says that it holds"])]
        named = path_of(self.deviations[0])
        after = "; what follows inherits it"
        if named == END_TO_END:
            after = "; no layer is beyond its own, so it is what stands between them" if self.calls else ""
        lines = [f"{named}: the first beyond its bound ({number(self.deviations[0].error_over_bound)}){after}"]
        for cause in self.causes if self.calls else ():
            paths = ", ".join(dict.fromkeys(case.partition("/")[2] for case, *_ in cause.rows))
            falls = "" if math.isnan(cause.after) else f" (error over bound falls to {number(cause.after)})"
            lines += [f"  {cause.says}{falls}: {paths}"] if cause.says else []
        for row in self.deviations:
            text = f"  {path_of(row)}, {row.quantity}: {number(row.error_over_bound)} times its bound"
            if math.isfinite(row.claimed) and math.isfinite(row.right):
                claimed, right = exactly(row.claimed, row.right)
                text += f", {claimed} where {right} is right"
            lines.append(text + (f" ({row.why})" if row.why and path_of(row) == END_TO_END else ""))
        return lines

    def _table(self) -> list[str]:
        paths = dict.fromkeys(map(path_of, self.judgements))
        kinds = {call.path or "(the model)": call.kind for call in self.calls}
        width, kind_width = (max(map(len, names), default=0) for names in (paths, kinds.values()))
        lines = [f"{'layer':{width}}  {'':{kind_width}}  {'output':>8}  {'gradients':>9}"]
        for path in paths:
            own = [row for row in self.judgements if path_of(row) == path]
            gradients = [row for row in own if row.quantity.startswith("gradient of ")]
            output = [row for row in own if row not in gradients]
            cells = [number(max(r.error_over_bound for r in rows)) if rows else "" for rows in (output, gradients)]
            beyond = "  beyond its bound" if any(row.verdict == DEVIATES for row in own) else ""
            lines.append(f"{path:{width}}  {kinds.get(path, ''):{kind_width}}  {cells[0]:>8}  {cells[1]:>9}{beyond}")
        return lines

    def _not_judged(self) -> list[str]:
        alone = lambda path: "not judged" if path.startswith(END_TO_END) else "not judged by itself"
        lines = [f"{alone(path)}: {path or '(the model)'}: {why}" for path, why in self.not_judged.items()]
        return [f"hint: {hint}" for hint in self.hints] + excused_lines(self) + lines


def path_of(row: Judgement) -> str:
    """The path of the layer that a row is about."""
    return row.case.partition("/")[2] or "(the model)"


def judge_model(
    module: Any,
    inputs: Any,
    *,
    gradients: bool = True,
    equations: Mapping[str, Any] | None = None,
    like: Module | None = None,
    parameters: Mapping[str, Any] | None = None,
    precision: str | None = None,
    excused: Sequence[str] = (),
    waived: Sequence[str] = (),
) -> ModelReport:
    """Judge a model layer by layer, and end to end.

    module: a torch.nn.Module, in evaluation mode where it has dropout; or, with `like`, any function of arrays of any
        framework that refnp knows.
    inputs: an array or tensor, a tuple of them, or a dict by name; floats in the precision of the module.
    gradients: judge every layer's gradients as well, from drawn cotangents of the outputs.
    equations: what modules of your own compute, by path, or by a pattern such as "blocks.*.norm":
        the name of a layer of refnp, if the module takes its arguments in refnp's order and has its parameters so;
        a function of the inputs and then the parameters in operations of refnp, whose output alone is judged;
        (either, arguments, options) with arguments {"x": 0, "gain": "scale"}, each the number of an input or the name
        of a parameter, and options {"eps": 1e-6}; or None for what shall not be judged.
    like: the model of refnp that computes the same from the same inputs. Its answer in the widest precision is what the
        module's is judged by. The answer of a neural process is a distribution: an object with `mean` and `std` (or
        `stddev`), a dict of such names, or (mean, std).
    parameters: those of `like` by name; its own unless given, as `refnp.models.published` reads them from the module's.
    precision: where layers round, "bfloat16 in and out, float32 inside" and the like; every operation in the precision
        of the module's parameters unless given. The whole is judged in float32 and float64 alone.
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
    if precision is not None:
        policy(precision)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if like is None or is_module(module):
            readers = readers_of(checked(module), equations or {})
            run = recorded(module, inputs, gradients=gradients, readers=readers)
            report = by_layers(run, type(module).__name__, precision or run.dtype, excused)
            if like is None:
                as_a_whole(report, run, module, inputs, readers)
        else:
            report = ModelReport(name_of(module), "", [])
        report.waived = tuple(waived)
        if like is not None:
            beside(report, module, inputs, like, parameters)
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


def innermost(paths: set[str]) -> set[str]:
    """The paths of layers that contain no other."""
    return {path for path in paths if not any(other.startswith(f"{path}.") for other in paths)}


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


def same_bits(first: np.ndarray, second: np.ndarray) -> bool:
    """Equal arrays, NaN for NaN."""
    return first.shape == second.shape and np.array_equal(first, second, equal_nan=True)


def beside(report: ModelReport, function: Any, inputs: Any, like: Module, parameters: Mapping[str, Any] | None) -> None:
    """Judge what a function of any framework answers by what a model of refnp does, and add the rows to the report."""
    values = {key: array_of(value) for key, value in by_key(inputs).items()}
    if report.dtype:  # that of the module
        values = {k: v.astype(report.dtype) if v.dtype.kind == "f" else v for k, v in values.items()}
    check_draws_nothing(like, values)
    native = native_of(function, by_key(inputs).values())
    native, answers = answers_of(function, native, values)
    _, again = answers_of(function, native, values)
    dtype = str(next(iter(answers.values())).dtype)
    if dtype not in PRECISIONS:
        raise ValueError(f"judge_model: the answer is in {dtype}; judged are float32 and float64")
    state = {**like.state_dict(), **{name: array_of(value) for name, value in (parameters or {}).items()}}
    model = like.bind({name: wide(value.astype(dtype)) for name, value in state.items()})
    expected = named_parts(called(model, {key: as_leaf(value, dtype) for key, value in values.items()}))
    common = [name for name in answers if name in expected]
    if not common:
        raise ValueError(f"judge_model: the answer has {', '.join(answers)}, that of like {', '.join(expected)}")
    report.who = report.who or f"{native.name} {version_of(native)}"
    report.dtype = report.dtype or dtype
    for name in common:
        try:
            row = end_to_end(type(like).__name__, report, name, answers[name], expected[name], dtype)
        except NoBoundError as lacking:
            report.not_judged[END_TO_END if len(common) == 1 else f"{END_TO_END}, {name}"] = str(lacking)
            continue
        if why := two_calls_differ(answers[name], again[name]):
            report.hints += [f"{name}: {why}"] if row.verdict == WITHIN else []
            row = replace(row, why=why)
        report.judgements.append(row)


def answers_of(function: Any, native: Native, values: Mapping[Any, np.ndarray]) -> tuple[Native, dict[str, np.ndarray]]:
    """The answers of a function by name, as arrays, and the framework that they came in."""
    given = named_parts(called(function, {key: native.array(value, None) for key, value in values.items()}))
    for part in given.values():
        native = next((other for other in NATIVES.values() if other.name != "NumPy" and other.owns(part)), native)
    return native, {name: np.asarray(native.numpy(part) if native.owns(part) else part) for name, part in given.items()}


def two_calls_differ(first: np.ndarray, second: np.ndarray) -> str:
    """What is said of a function that is none of its inputs; "" if two calls give the same bits."""
    if same_bits(first, second):
        return ""
    by = f" by up to {number(float(np.abs(first - second).max()))}" if first.shape == second.shape else " in shape"
    return f"not a function of its inputs: two calls differ{by}; is something dropped, drawn or not initialised?"


def check_draws_nothing(like: Module, values: Mapping[Any, Any]) -> None:
    """ValueError if the model of refnp draws numbers in its call, unless their noise is among the inputs."""
    parameters = list(inspect.signature(type(like).__call__).parameters)[1:]
    if "epsilon" in parameters and "epsilon" not in values and parameters.index("epsilon") >= len(values):
        kind = type(like).__name__
        raise ValueError(
            f"judge_model: like is a {kind}, which draws at random; two draws differ, so give both the same noise: "
            f"inputs={{…, 'epsilon': array}}, whose shape {kind}.__call__ says"
        )


def end_to_end(
    what: str, report: ModelReport, quantity: str, given: np.ndarray, right: Tensor, dtype: str, but: Any = False
) -> Judgement:
    """One output of the whole model, at the places where it is furthest off, `but` some rows."""
    framework, _, version = report.who.partition(" ")
    common = ("frameworks", f"{what}/{END_TO_END}", framework, version, dtype, quantity)
    if given.shape != right.shape:
        why = f"shape {given.shape} where {right.shape} is right"
        return Judgement(*common, math.inf, math.inf, DEVIATES, why=why)
    error = np.abs(given.astype(WIDE) - right.data)
    error = np.where(np.asarray(but)[..., None], -1, np.where(np.isnan(error), np.inf, error)).ravel()
    places = np.argsort(-error, kind="stable")[:PLACES]
    places = places[error[places] >= 0]
    (rounded,) = bounded([right], [places])
    allowed = tolerance(rounded, dtype).ravel()[places]
    ratio, ulps, worst = deviation(given.ravel()[places], rounded.value.ravel()[places], allowed, dtype)
    if ratio <= 1:
        return Judgement(*common, ratio, ulps, WITHIN)
    at = places[worst[0]] if worst else 0
    return Judgement(*common, ratio, ulps, DEVIATES, "", float(given.ravel()[at]), float(rounded.value.ravel()[at]))


def by_key(inputs: Any) -> dict[Any, Any]:
    """Inputs by position or by name."""
    if isinstance(inputs, Mapping):
        return dict(inputs)
    return dict(enumerate(inputs if isinstance(inputs, (tuple, list)) else (inputs,)))


def called(function: Callable, values: Mapping[Any, Any]) -> Any:
    """A function of inputs by position and by name."""
    return function(
        *(value for key, value in values.items() if isinstance(key, int)),
        **{key: value for key, value in values.items() if not isinstance(key, int)},
    )


def as_leaf(value: np.ndarray, dtype: str) -> Any:
    """An input of the model of refnp: floats as they are in the judged precision, others unchanged."""
    return wide(value.astype(dtype)) if value.dtype.kind == "f" else value


def native_of(function: Any, values: Iterable[Any]) -> Native:
    """The framework of a module or of its inputs; of a function of NumPy arrays, which JAX takes as well, NumPy."""
    for thing in (function, *values):
        for native in NATIVES.values():
            if native.name != "NumPy" and native.owns(thing):
                return native
    return NATIVES["NumPy"]


def version_of(native: Native) -> str:
    """The version of a framework."""
    return importlib.metadata.version(native.package)


def named_parts(answer: Any) -> dict[str, Any]:
    """The arrays of an answer by name: mean, std and the like of a distribution, a dict as it is, or one output."""
    if isinstance(answer, Mapping):
        return dict(answer)
    if hasattr(answer, "dtype") and hasattr(answer, "shape"):  # an array, which has methods called mean and std
        return {"output": answer}
    if isinstance(answer, (tuple, list)):
        names = ("mean", "std") if len(answer) == 2 else tuple(f"output {i}" for i in range(len(answer)))
        return dict(zip(names, answer, strict=True))
    found = {name: getattr(answer, own) for own, name in PARTS.items() if hasattr(answer, own)}
    found = {name: part() if callable(part) else part for name, part in found.items()}
    return found or {"output": answer}


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


def of_operations(layer: Layer) -> bool:
    """Whether a user said it in operations of refnp, and there is no equation in numbers that carry their error."""
    return layer.equation is layer.function


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
