"""A function of any framework beside a model of refnp: its answer, its gradients, its parameters after a step."""

import contextlib
import importlib.metadata
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from refnp.autograd.errors import closest
from refnp.layers.module import Module
from refnp.models.published.renaming import array_of
from refnp.numbers.rounding import WIDE, Rounded, exact, tolerance
from refnp.verify.causes.options import brief
from refnp.verify.causes.whole import Unseen
from refnp.verify.causes.whole_edits import LOSS, Model
from refnp.verify.frameworks import inspection
from refnp.verify.frameworks.native import NATIVES, NUMPY, Native
from refnp.verify.judge import WITHIN
from refnp.verify.layer_names import named_cases
from refnp.verify.layers import optimizers
from refnp.verify.model_report import END_TO_END, ModelReport, end_to_end, furthest, same_bits
from refnp.verify.propagation import Loss, NoBoundError, wide
from refnp.verify.report import number

PARTS = {  # what distributions call their parameters, in refnp, PyTorch and JAX's libraries
    "mean": "mean", "loc": "mean", "std": "std", "stddev": "std", "scale": "std", "factor": "factor",
    "covariance": "covariance", "covariance_matrix": "covariance",
}  # fmt: skip
JOINT = ("covariance", "factor")  # either says the other
PRECISIONS = ("float32", "float64")
NOTHING = 1e-6  # of the largest gradient, in which no digit is left
ELEMENTS = 4  # of a gradient that are judged: those that are furthest off; each needs a run of the model


@dataclass(frozen=True)
class Training:
    """What a program says of a step of training, by the names of the parameters of a model of refnp."""

    gradients: Mapping[str, Any]
    loss: Callable | None
    updated: Mapping[str, Any]
    optimizer: Any


def beside(
    report: ModelReport,
    function: Any,
    inputs: Any,
    like: Module,
    parameters: Mapping[str, Any] | None,
    training: Training,
    precision: str | None = None,
) -> None:
    """Judge what a function of any framework answers by what a model of refnp does, and add the rows to the report.

    In a `precision`, or in that of the answer.
    """
    values = {key: array_of(value) for key, value in by_key(inputs).items()}
    if report.dtype:  # that of the module
        values = {k: v.astype(report.dtype) if v.dtype.kind == "f" else v for k, v in values.items()}
    check_draws_nothing(like, values)
    native = native_of(function, by_key(inputs).values())
    native, answers = answers_of(function, native, values)
    _, again = answers_of(function, native, values)
    answers, training = apart(answers, training)
    dtype = precision or str(next(iter([*answers.values(), *map(array_of, training.gradients.values())])).dtype)
    if dtype not in PRECISIONS:
        raise ValueError(f"judge_model: the answer is in {dtype}; judged are float32 and float64")
    state = {**like.state_dict(), **{name: array_of(value) for name, value in (parameters or {}).items()}}
    run = Run(like, {name: value.astype(dtype) for name, value in state.items()}, values, dtype)
    arrays, loss = run.arrays(np.asarray), training.loss if any(a.shape == () for a in answers.values()) else None
    training = with_zeros(training, arrays)
    parts = lambda answer: named_parts(run.loss_of(answer, loss) if loss else answer)
    expected = parts(run.answer({key: wide(value) for key, value in arrays.items()}))
    common = [name for name in answers if name in expected]
    if common:
        report.not_judged |= {f"{END_TO_END}, {name}": "it is not answered" for name in left_out(expected, answers)}
    if others := [name for name in answers if common and name not in expected]:
        report.hints.append(f"{', '.join(others)} of the answer is not judged: that of like has none")
    if not common and not training.gradients:
        raise ValueError(f"judge_model: the answer has {', '.join(answers)}, that of like {', '.join(expected)}")
    report.who = report.who or f"{native.name} {version_of(native)}"
    report.dtype = report.dtype or dtype
    gradients = {name: array_of(g) for name, g in training.gradients.items() if name in arrays}

    def judged(leaves: Mapping[Any, Any]) -> dict[str, Any]:
        answer = run.answer(leaves)
        found = {name: part for name, part in parts(answer).items() if name in common}
        if not gradients:
            return found
        return found | {LOSS: found["output"] if loss else run.loss_of(answer, training.loss)}

    given = {name: answers[name] for name in common} | {f"gradient of {name}": g for name, g in gradients.items()}
    report.beside = Model(like, [*run.state], judged, dtype), arrays, given
    for name in common:
        try:
            row = end_to_end(type(like).__name__, report, name, answers[name], expected[name], dtype)
        except NoBoundError as lacking:
            report.not_judged[END_TO_END if len(common) == 1 else f"{END_TO_END}, {name}"] = str(lacking)
            continue
        if why := two_calls_differ(answers[name], again[name]):
            report.hints += [f"{name}: {why}"] if row.verdict == WITHIN else []
        elif dtype == "float64" and row.verdict != WITHIN:
            why = narrower_given({**values, **{name: array_of(value) for name, value in (parameters or {}).items()}})
        row = replace(row, why=row.why or why)
        report.judgements.append(row)
    if training.gradients or training.updated:
        trained(report, run, training)


@dataclass(frozen=True)
class Run:
    """A model of refnp with its parameters and inputs."""

    like: Module
    state: Mapping[str, np.ndarray]
    inputs: Mapping[Any, np.ndarray]
    dtype: str

    def arrays(self, made: Callable) -> dict[Any, Any]:
        """Parameters and inputs of floats, as they are in the judged precision."""
        floats = {key: value.astype(self.dtype) for key, value in self.inputs.items() if value.dtype.kind == "f"}
        return {key: made(value) for key, value in {**self.state, **floats}.items()}

    def answer(self, arrays: Mapping[Any, Any]) -> Any:
        """The answer for parameters and inputs."""
        model = self.like.bind({name: arrays[name] for name in self.state})
        return called(model, {key: arrays.get(key, value) for key, value in self.inputs.items()})

    def loss_of(self, answer: Any, loss: Callable | None) -> Any:
        """One number of the answer."""
        found = answer if loss is None else loss(answer)
        if getattr(found, "shape", None) != ():
            raise ValueError(
                f"judge_model: gradients of {'like' if loss is None else 'loss'} need one number, and it answers with "
                f"shape {getattr(found, 'shape', type(found).__name__)}; write loss=lambda answer: …"
            )
        return found


def apart(answers: dict[str, np.ndarray], training: Training) -> tuple[dict[str, np.ndarray], Training]:
    """What a program answers beside its output: "gradient.NAME" and "updated.NAME", as in files."""
    found: dict[str, dict[str, Any]] = {"gradient": {}, "updated": {}}
    for key in [key for key in answers if key.partition(".")[0] in found]:
        what, _, name = key.partition(".")
        found[what][name] = answers.pop(key)
    gradients, updated = {**found["gradient"], **training.gradients}, {**found["updated"], **training.updated}
    return answers, replace(training, gradients=gradients, updated=updated)


def left_out(expected: Collection[str], answers: Collection[str]) -> list[str]:
    """The parts of an answer that are not given, and do not follow: a covariance says its factor and deviations."""
    left = [name for name in expected if name not in answers]
    if set(JOINT) & set(answers):
        return [name for name in left if name not in (*JOINT, "std")]
    return [name for name in left if name != JOINT[1] or JOINT[0] not in left]


def with_zeros(training: Training, arrays: Mapping[Any, np.ndarray]) -> Training:
    """With 0 for a gradient that is None, as PyTorch has it where nothing came back, and no step that is None."""
    zero = lambda name: np.zeros_like(arrays[name]) if name in arrays else np.zeros(())
    gradients = {name: zero(name) if g is None else g for name, g in training.gradients.items()}
    return replace(training, gradients=gradients, updated={n: a for n, a in training.updated.items() if a is not None})


def trained(report: ModelReport, run: Run, training: Training) -> None:
    """Judge gradients, and parameters after a step, where they are furthest off."""
    arrays = run.arrays(np.asarray)
    for name in (*training.gradients, *training.updated):
        if name not in arrays:
            raise ValueError(f"judge_model: gradients name {name!r}{closest(name, list(map(str, arrays)))}")
    what, loss = type(run.like).__name__, Loss(lambda leaves: run.loss_of(run.answer(leaves), training.loss), arrays)
    step = stepped(training.optimizer)
    asked = [
        (f"gradient of {name}", name, array, lambda _, gradient: gradient) for name, array in training.gradients.items()
    ]
    asked += [(f"updated {name}", name, array, step) for name, array in training.updated.items()]
    for quantity, name, array, then in asked:
        right = then(arrays[name], exact(loss.gradients[name])).value
        bound = partial(bounded_after, loss, name, arrays[name], then)
        try:
            row = furthest(what, report, quantity, array_of(array), right, run.dtype, bound, count=ELEMENTS)
        except NoBoundError as lacking:
            report.not_judged[f"{END_TO_END}, {quantity}"] = str(lacking)
        else:
            report.judgements.append(row)
    if factor := times_the_right("gradients", training.gradients, loss.gradients, 1e-4):
        report.hints += factor
        if report.beside is not None:  # the gradients are explained
            model, own, given = report.beside
            report.beside = model, own, {n: a for n, a in given.items() if not n.startswith("gradient of ")}
    largest = max((np.abs(gradient).max(initial=0) for gradient in loss.gradients.values()), default=0)
    moved, steps = {}, {}
    for name, array in training.updated.items():
        gradient, before = loss.gradients[name], arrays[name].astype(WIDE)
        if np.shape(array_of(array)) == before.shape:
            told = np.abs(gradient) > NOTHING * largest  # where it is 0 on paper, Adam's step is that of rounding
            moved[name] = np.where(told, array_of(array) - before, 0)
            steps[name] = np.where(told, step(arrays[name], exact(gradient)).value - before, 0)
    report.hints += times_the_right("steps", moved, steps, 2e-2)  # beside ε they differ
    of_step = {name: loss.gradients[name] for name in training.updated}
    if of_step:
        report.unseen_in_step = partial(unseen_in_step, training.optimizer, arrays, of_step, run.dtype)
    for quantity, told in (("gradient of", training.gradients), ("updated", training.updated)):
        left = [name for name in run.state if name not in told] if told.keys() & run.state.keys() else []
        report.not_judged |= {f"{quantity} {name}": "it is not given" for name in left}


def times_the_right(what: str, given: Mapping[str, Any], right: Mapping[Any, np.ndarray], within: float) -> list[str]:
    """What is said where all arrays are the right ones times one number: of a sum in place of a mean, say."""
    pairs = [(np.asarray(array_of(a), float), right[name].astype(float)) for name, a in given.items()]
    if len(pairs) < 2 or any(a.shape != b.shape for a, b in pairs):
        return []
    one, other = (np.concatenate([a.ravel() for a in arrays]) for arrays in zip(*pairs, strict=True))
    factor = one @ other / max(other @ other, np.finfo(float).tiny)
    away = np.abs(one - factor * other).max() / max(np.abs(factor * other).max(), np.finfo(float).tiny)
    digits = 1 - int(np.log10(within))
    alike = away < within < abs(factor - 1)
    return [f"all {what} together are {factor:.{digits}g} times the right ones"] if alike else []


def bounded_after(loss: Loss, name: Any, parameter: np.ndarray, then: Callable, places: np.ndarray) -> Rounded:
    """The gradient, or the parameter after a step, with its bound at some places."""
    return then(parameter, loss.bounded(name, places))


def stepped(optimizer: Any, *, later: bool = False) -> Callable[[np.ndarray, Rounded], Rounded]:
    """The first step of an optimiser, by its name or (name, options), from a parameter and its gradient.

    Or a `later` one, where what is kept of the past is as large as the gradient.
    """
    name, options = optimizer if isinstance(optimizer, tuple) else (optimizer, {})
    equation = equation_of(name)
    places = inspect.signature(equation).parameters.values()
    known = [place.name for place in places if place.kind is place.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            raise ValueError(f"judge_model: optimizer {name!r} has no {option!r}; it is judged with {', '.join(known)}")
    kept = [place for place in places if place.kind is not place.KEYWORD_ONLY][2:]  # of the past, which is 0 at first
    kept = kept if later else [place for place in kept if place.default is place.empty]
    number = {"step": 2, **options} if later and "step" in known else options

    def step(parameter: np.ndarray, gradient: Rounded) -> Rounded:
        past = exact(np.abs(gradient.value) * later)
        return equation(exact(parameter), gradient, *[past] * len(kept), **number)[0]

    return step


@cache
def equation_of(optimizer: str) -> Callable:
    """The equation of a step of an optimiser, by its name."""
    layers = {
        case.layer.name: case.layer
        for case in optimizers.cases()
        if "parameter" in case.inputs and "_" not in case.layer.name
    }
    try:
        return layers[named_cases(optimizer)[0].layer.name].equation
    except (KeyError, ValueError):
        known = ", ".join(layers)
        raise ValueError(f"judge_model: optimizer {optimizer!r} is not judged; name one of {known}") from None


def unseen_in_step(
    optimizer: Any, arrays: Mapping[Any, np.ndarray], gradients: Mapping[Any, np.ndarray], dtype: str
) -> list[Unseen]:
    """What a first step does not tell, from nothing that is kept of the past: options, and how large gradients are."""
    name, options = optimizer if isinstance(optimizer, tuple) else (optimizer, {})
    parameters = inspect.signature(equation_of(name)).parameters.values()
    known = {p.name: options.get(p.name, p.default) for p in parameters if p.kind is p.KEYWORD_ONLY}
    others = {
        option: not value if isinstance(value, bool) else 0.9 * (value or 1.0)
        for option, value in known.items()
        if isinstance(value, (bool, float))
    }
    steps = {f"{option} were {brief(other)}": ({**options, option: other}, 1.0) for option, other in others.items()}
    steps["the gradients were clipped to half of themselves"] = (options, 0.5)

    def moved(says: str, times: float = 1.0, later: bool = False) -> float:
        """How far a change moves the step of gradients times a number, in units of its bound."""
        step, other = stepped(optimizer, later=later), stepped((name, steps[says][0]), later=later)
        away = []
        for key, gradient in gradients.items():
            right = step(arrays[key], exact(times * gradient))
            changed = other(arrays[key], exact(steps[says][1] * times * gradient))
            d = np.abs(changed.value - right.value)
            away.append(np.max(np.divide(d, tolerance(right, dtype), out=np.zeros_like(d), where=d != 0), initial=0))
        return float(max(away))

    def shown_by(says: str) -> str:
        found = {"gradients times 1e-6": moved(says, 1e-6), "later steps": moved(says, later=True)}
        return next((inputs for inputs, away in found.items() if away > 1), "")

    unseen = {says: own for says in steps if (own := moved(says)) <= 1}
    return [Unseen(f"{says}, in {name}", own, shown) for says, own in unseen.items() if (shown := shown_by(says))]


def answers_of(function: Any, native: Native, values: Mapping[Any, np.ndarray]) -> tuple[Native, dict[str, np.ndarray]]:
    """The answers of a function by name, as arrays, and the framework that they came in."""
    native, answer = first_answer(function, native, values)
    given = named_parts(answer)
    for name, part in given.items():
        if part is None:
            raise ValueError(f"judge_model: {name} of the answer is None; answer with an array")
        native = next((other for other in NATIVES.values() if other.name != "NumPy" and other.owns(part)), native)
    arrays = {name: np.asarray(native.numpy(part) if native.owns(part) else part) for name, part in given.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub":
            raise ValueError(f"judge_model: {name} of the answer is in {array.dtype}; judged are real numbers")
    return native, arrays


def first_answer(function: Any, native: Native, values: Mapping[Any, np.ndarray]) -> tuple[Native, Any]:
    """What a function answers, and of which framework it is: where it refuses arrays of NumPy, of one that it uses."""
    asked = lambda own: called(function, {key: own.array(value, None) for key, value in values.items()})
    try:
        return native, asked(native)
    except Exception:
        used = inspection.packages_of(function) if native is NUMPY else ()
        for other in NATIVES.values():
            if other.package in used and other is not native:
                with contextlib.suppress(Exception):
                    return other, asked(other)
        raise


def two_calls_differ(first: np.ndarray, second: np.ndarray) -> str:
    """What is said of a function that is none of its inputs; "" if two calls give the same bits."""
    if same_bits(first, second):
        return ""
    by = f" by up to {number(float(np.abs(first - second).max()))}" if first.shape == second.shape else " in shape"
    return f"not a function of its inputs: two calls differ{by}; is something dropped, drawn or not initialised?"


def narrower_given(arrays: Mapping[Any, np.ndarray]) -> str:
    """What is said of an answer in float64 of arrays in float32; "" if there are none."""
    low = [f"input {name}" if isinstance(name, int) else name for name, a in arrays.items() if a.dtype == np.float32]
    if not low:
        return ""
    return (
        f"the answer is in float64, and {low[0]}{' and others are' if low[1:] else ' is'} in float32: a float64 among "
        "the numbers, such as np.sqrt(2), makes it so; precision='float32' judges it as float32"
    )


def check_draws_nothing(like: Module, values: Mapping[Any, Any]) -> None:
    """ValueError if the model of refnp draws numbers in its call, unless their noise is among the inputs."""
    parameters = list(inspect.signature(type(like).__call__).parameters)[1:]
    if "epsilon" in parameters and "epsilon" not in values and parameters.index("epsilon") >= len(values):
        kind = type(like).__name__
        raise ValueError(
            f"judge_model: like is a {kind}, which draws at random; two draws differ, so give both the same noise: "
            f"inputs={{…, 'epsilon': array}}, whose shape {kind}.__call__ says"
        )


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


def native_of(function: Any, values: Iterable[Any]) -> Native:
    """The framework of a module or of its inputs; of any other function NumPy's, which JAX takes as well."""
    found = inspection.of_object(function)
    if found is not None and found is not inspection.REFNP:
        return found
    others = [native for native in NATIVES.values() if native is not NUMPY]
    return next((native for thing in values for native in others if native.owns(thing)), NUMPY)


def version_of(native: Native) -> str:
    """The version of a framework."""
    return importlib.metadata.version(native.package)


def named_parts(answer: Any) -> dict[str, Any]:
    """The arrays of an answer by name: mean, std and the like of a distribution, a dict as it is, or one output."""
    if isinstance(answer, Mapping):
        return {str(PARTS.get(name, name)): part for name, part in answer.items()}
    if hasattr(answer, "dtype") and hasattr(answer, "shape"):  # an array, which has methods called mean and std
        return {"output": answer}
    if isinstance(answer, (tuple, list)):
        names = ("mean", "std") if len(answer) == 2 else tuple(f"output {i}" for i in range(len(answer)))
        return dict(zip(names, answer, strict=True))
    found = {name: getattr(answer, own) for own, name in PARTS.items() if hasattr(answer, own)}
    found = {name: part() if callable(part) else part for name, part in found.items()}
    return found or {"output": answer}
