"""Is a whole model right, and if not, where does it begin to be wrong?   report = judge_model(module, inputs)

Every layer is judged inside its own inputs: by its equation in numbers that carry their rounding error, from the arrays
that really came in when the model ran, and from the cotangent that really came back. So what a layer inherits is not
held against it, and the first layer beyond its bound is where the model begins to be wrong.
"""

import fnmatch
import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from refnp.verify.case import Answer, Layer, Problem
from refnp.verify.frameworks.torch_modules import Asked, Call, Part, Run, checked, recorded
from refnp.verify.judge import DEVIATES, Judgement, judged
from refnp.verify.layers import cases
from refnp.verify.report import exactly, number
from refnp.verify.rounding import judging_precision

PRECISIONS = ("float32", "float64")


@dataclass
class ModelReport:
    """What came of a model: a row for each output and gradient of each layer, in the order in which layers ended."""

    run: Run
    judgements: list[Judgement]
    answers: list[tuple[Problem, Answer]] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """True if no row is beyond its bound."""
        return all(row.verdict != DEVIATES for row in self.judgements)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A dict for each judgement, as `refnp verify --json` writes them."""
        return [row.as_json() for row in self.judgements]

    @property
    def not_judged(self) -> dict[str, str]:
        """{path: why} of modules that hold parameters or arithmetic of their own and have no equation."""
        return self.run.not_judged

    @property
    def first(self) -> str | None:
        """The path of the first layer beyond its bound; None if there is none."""
        return next((path_of(row) for row in self.judgements if row.verdict == DEVIATES), None)

    def require(self) -> None:
        """AssertionError with the text of the report unless it holds."""
        if not self.holds:
            raise AssertionError(str(self))

    def __str__(self) -> str:
        return "\n".join([*self._heading(), *self._deviations(), "", *self._table(), *self._not_judged()])

    def _heading(self) -> list[str]:
        kinds = f"{len(self.run.calls)} calls of layers in PyTorch {self.run.version}, {self.run.dtype}"
        return [f"{kinds}, judged against {judging_precision()}"]

    def _deviations(self) -> list[str]:
        beyond = [row for row in self.judgements if row.verdict == DEVIATES]
        if not beyond:
            return ["every layer is within its bound"]
        first = beyond[0]
        named = path_of(first)
        lines = [f"{named}: the first beyond its bound ({number(worst(beyond, named))}); what follows inherits it"]
        for row in beyond:
            text = f"  {path_of(row)}, {row.quantity}: {number(row.error_over_bound)} times its bound"
            if math.isfinite(row.claimed) and math.isfinite(row.right):
                claimed, right = exactly(row.claimed, row.right)
                text += f", {claimed} where {right} is right"
            lines.append(text + (f" ({row.why})" if row.why else ""))
        return lines

    def _table(self) -> list[str]:
        paths = dict.fromkeys(map(path_of, self.judgements))
        kinds = {call.path or "(the model)": call.kind for call in self.run.calls}
        width, kind_width = (max(map(len, names), default=0) for names in (paths, kinds.values()))
        lines = [f"{'layer':{width}}  {'':{kind_width}}  {'output':>8}  {'gradients':>9}"]
        for path in paths:
            own = [row for row in self.judgements if path_of(row) == path]
            output, gradients = (
                [r for r in own if (r.quantity == "output") == is_output] for is_output in (True, False)
            )
            cells = [number(max(r.error_over_bound for r in rows)) if rows else "" for rows in (output, gradients)]
            beyond = "  beyond its bound" if any(row.verdict == DEVIATES for row in own) else ""
            lines.append(f"{path:{width}}  {kinds.get(path, ''):{kind_width}}  {cells[0]:>8}  {cells[1]:>9}{beyond}")
        return lines

    def _not_judged(self) -> list[str]:
        return [f"not judged: {path or '(the model)'}: {why}" for path, why in self.not_judged.items()]


def path_of(row: Judgement) -> str:
    """The path of the layer that a row is about."""
    return row.case.partition("/")[2] or "(the model)"


def worst(rows: list[Judgement], path: str) -> float:
    """The largest error over bound of a layer."""
    return max(row.error_over_bound for row in rows if path_of(row) == path)


def judge_model(
    module: Any,
    inputs: Any,
    *,
    gradients: bool = True,
    equations: Mapping[str, Any] | None = None,
) -> ModelReport:
    """Judge a model of PyTorch layer by layer.

    module: a torch.nn.Module, in evaluation mode where it has dropout.
    inputs: an array or tensor, a tuple of them, or a dict by name; floats in the precision of the module.
    gradients: judge every layer's gradients as well, from drawn cotangents of the outputs.
    equations: what modules of your own compute, by path, or by a pattern such as "blocks.*.norm":
        the name of a layer of refnp, if the module takes its arguments in refnp's order and has its parameters so;
        (name, arguments, options) with arguments {"x": 0, "gain": "scale"}, each the number of an input or the name of
        a parameter, and options {"eps": 1e-6} of the layer; or None for what shall not be judged.

    Dropout, containers and reshapings round nothing and are passed through. A module of your own is passed through too,
    and its layers are judged; one with parameters of its own, or without layers, stands in the report as not judged.
    Raises TypeError for what is no torch.nn.Module, ValueError for a model that drops units at random, that computes in
    another precision than float32 or float64, and for an equation that fits no module or names no layer.
    """
    paths = checked(module)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = recorded(module, inputs, gradients=gradients, readers=readers_of(paths, equations or {}))
        if run.dtype not in PRECISIONS:
            raise ValueError(f"judge_model: module computes in {run.dtype}; judged are float32 and float64")
        found: list[Judgement] = []
        answers = []
        for call in run.calls:
            problem, rows = judged_call(call, run)
            answers.append((problem, call.answer))
            found += rows
    return ModelReport(run, found, answers)


def judged_call(call: Call, run: Run) -> tuple[Problem, list[Judgement]]:
    """The judgement of one call; a layer that computes in another precision than its model is told so."""
    problem = call.problem(run.dtype)
    rows = judged(problem, call.answer, problem.reference(), "PyTorch", run.version)
    if other := sorted(name for name in call.dtypes - {run.dtype} if name in PRECISIONS or "float" in name):
        why = f"numbers of {', '.join(other)} in a model in {run.dtype}"
        rows = [replace(row, why=row.why or why) if row.verdict == DEVIATES else row for row in rows]
    return problem, rows


def readers_of(paths: Sequence[str], equations: Mapping[str, Any]) -> dict[str, Callable | None]:
    """{path: reader} of the modules that a user says the equations of."""
    found: dict[str, Callable | None] = {}
    for pattern, equation in equations.items():
        fitting = [path for path in paths if fnmatch.fnmatchcase(path, pattern)]
        if not fitting:
            some = ", ".join(path for path in paths[:8] if path)
            raise ValueError(f"judge_model: equations names {pattern!r}, and no module is called so; there are {some}")
        found |= dict.fromkeys(fitting, None if equation is None else reader_of(equation))
    return found


def reader_of(equation: Any) -> Callable:
    """A reader of modules that compute by a layer of refnp, from its name, or (name, arguments, options)."""
    name, arguments, options = (*equation, {}, {})[:3] if isinstance(equation, tuple) else (equation, None, {})
    layer = layer_called(name)

    def read(module: Any, *inputs: Any, **given: Any) -> Asked:
        if arguments is None:
            values = dict(enumerate(inputs)) | given | dict(module.named_parameters())
            return Asked(layer, {argument: Part(value) for argument, value in named_by(layer, values).items()}, options)
        values = dict(enumerate(inputs)) | given | dict(module.named_parameters()) | dict(module.named_buffers())
        if missing := [own for own in arguments.values() if own not in values]:
            raise ValueError(
                f"judge_model: equations of {type(module).__name__} name {missing[0]!r}, neither the number of "
                f"an input nor a parameter; there are {', '.join(map(repr, values))}"
            )
        return Asked(layer, {argument: Part(values[own]) for argument, own in arguments.items()}, options)

    return read


def named_by(layer: Layer, values: Mapping[Any, Any]) -> dict[str, Any]:
    """Values under the names of the equation's arguments, in their order; those of *parameters have their own."""
    places = inspect.signature(layer.equation).parameters.values()
    names = [place.name for place in places if place.kind is place.POSITIONAL_OR_KEYWORD]
    own = [*names, *map(str, list(values)[len(names) :])][: len(values)]
    return dict(zip(own, values.values(), strict=True))


def layer_called(name: Any) -> Layer:
    """The layer of refnp of this name; ValueError that lists all."""
    layers = {case.layer.name: case.layer for case in cases()}
    if isinstance(name, Layer):
        return name
    if name not in layers:
        raise ValueError(f"judge_model: equations names {name!r}; refnp has {', '.join(sorted(layers))}")
    return layers[name]
