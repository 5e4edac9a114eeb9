"""A whole model with one edit: which gives the answers that deviate, and which these inputs do not tell from the right.

The model of refnp is run once, and its operations are run again with one of them, or all of its name, as an edit has
them: a known mistake of the layer, another ε, activation, mask, layout or scale, positions from 1. Or it is run with
other parameters (left out, exchanged, transposed, tied), or with its norms elsewhere. What an edit does not change
keeps its numbers.
"""

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp import layers
from refnp.autograd.backward import tape_of
from refnp.autograd.tensor import Node, Tensor
from refnp.layers.module import Module
from refnp.numbers.rounding import WIDE, Rounded, tolerance
from refnp.verify.edits.edited import modules_in
from refnp.verify.layers import cases
from refnp.verify.mutants import mutants_of
from refnp.verify.propagation import error_of, local_errors

Arrays = Mapping[Any, Any]
Answers = dict[str, np.ndarray]
Operation = Callable[..., Any]
Ratio = Callable[[Answers, Answers], float]
PLACES, FAR = 8, 1e3  # elements at which answers are compared; beyond so many times the bound it does not matter
ACTIVATIONS: dict[str, Operation] = {
    "relu": layers.relu,
    "GELU by erf": functools.partial(layers.gelu, approximate="none"),
    "GELU by tanh": functools.partial(layers.gelu, approximate="tanh"),
    "SiLU": layers.silu,
    "sigmoid": layers.sigmoid,
    "the identity": lambda x: x,
}
WORDS = {"layout": ("half", "interleaved"), "norm": ("pre", "post")}  # options, and attributes of modules
EPSILON = ("0", "1e-12", "1e-8", "1e-6", "1e-5", "1e-3")  # those of the field
NAMED = 3  # edits that fit alike
FEW = 30  # known mistakes of a layer, of which pairs are tried
FACTORS = (1e-2, 1e2, 1e-4)  # of inputs and parameters, tried for those that show an edit


class Model:
    """A model of refnp as a function of arrays by name, its parameters and inputs, on a tape."""

    def __init__(
        self, like: Module, parameters: Sequence[str], answers: Callable[[Arrays], dict[str, Tensor]], dtype: str
    ):
        self.like, self.parameters, self.fresh, self.dtype = like, [*parameters], answers, dtype
        self.known: dict[int, tuple[Arrays, dict[str, Tensor]]] = {}

    def __call__(self, arrays: Arrays) -> dict[str, Tensor]:
        """The answers, which are kept."""
        if id(arrays) not in self.known:
            self.known[id(arrays)] = arrays, self.fresh(arrays)
        return self.known[id(arrays)][1]

    @contextlib.contextmanager
    def with_attribute(self, name: str, value: Any) -> Iterator[None]:
        """Within this block every module that has this attribute has this value of it."""
        before = [(module, vars(module)[name]) for module in modules_in(self.like) if name in vars(module)]
        if all(own == value for _, own in before):
            raise ValueError(f"no module has another {name}")
        try:
            for module, _ in before:
                vars(module)[name] = value
            yield
        finally:
            for module, own in before:
                vars(module)[name] = own

    def ratio(self, arrays: Arrays) -> Ratio:
        """The largest difference of two answers over the bound of the right one, where they differ most."""
        outputs = self(arrays)
        errors = {node: local_errors(node) for node in tape_of(list(outputs.values()))}

        @functools.cache
        def allowed(name: str, place: int) -> float:
            value = outputs[name].data.ravel()[place]
            return float(tolerance(Rounded(value, *error_of(outputs[name], place, errors)), self.dtype))

        def ratio(one: Answers, other: Answers) -> float:
            worst = 0.0
            for name in outputs:
                away = np.abs(one[name].astype(WIDE) - other[name]).ravel()
                for place in np.argsort(-np.where(np.isnan(away), np.inf, away), kind="stable")[:PLACES]:
                    if away[place] != 0:
                        worst = max(worst, float(away[place] / allowed(name, int(place))))
                    if not worst <= FAR:
                        return math.inf
            return worst

        return ratio


@dataclass(frozen=True)
class Edit:
    """What is said of an edited model, and its answers: a function of the model and the arrays.

    Those of an operation `alone`, and pairs, are tried where no other fits.
    """

    says: str
    answers: Callable[[Model, Arrays], Answers]
    alone: bool = False


# ---- edits


def edits_of(model: Model, arrays: Arrays) -> Iterator[Edit]:
    """Every edit of a model: all operations of a name, parameters, modules; then each operation alone, and pairs."""
    nodes = tape_of(list(model(arrays).values()))
    by_name: dict[str, list[int]] = {}
    for k, node in enumerate(nodes):
        by_name.setdefault(node.operation.__name__, []).append(k)
    alone = []
    for own_name, places in by_name.items():
        name = "rotation" if own_name == "turned" else own_name
        for says, operation in dict(operations_of(nodes[places[0]])).items():
            yield Edit(f"{says}, in {'every ' if len(places) > 1 else ''}{name}", of_operation(places, operation))
            calls = enumerate(places) if len(places) > 1 else ()
            where = f"{name} {{}} of {len(places)}"
            alone += [Edit(f"{says}, in {where.format(i + 1)}", of_operation([k], operation), True) for i, k in calls]
    for k, node in enumerate(nodes):
        for i, argument in enumerate(node.arguments or ()):
            if are_positions(argument):
                operation = with_argument(node.operation, i, argument + 1)
                yield Edit("positions were counted from 1", of_operation([k], operation))
    yield from of_parameters(arrays, model.parameters)
    for word, values in WORDS.items():
        for value in values:
            yield Edit(f"{word} were {value!r}", functools.partial(with_attribute, word, value))
    yield from alone
    for own_name, places in by_name.items():
        for says, operation in pairs_of(nodes[places[0]]):
            where = f"{says}, in {'every ' if len(places) > 1 else ''}{own_name}"
            yield Edit(where, of_operation(places, operation), alone=True)


def pairs_of(node: Node) -> Iterator[tuple[str, Operation]]:
    """Two known mistakes of a layer at once, if it has few."""
    known = {case.layer.name: case.layer for case in cases()}
    layer = known.get(node.operation.__name__)
    mutants = [mutant for mutant in mutants_of(layer) if not mutant.narrow] if layer else []
    for one, other in itertools.combinations(mutants if len(mutants) <= FEW else [], 2):
        if (both := one.together(other)) is not None:
            yield both.says, both.function


def operations_of(node: Node) -> Iterator[tuple[str, Operation]]:
    """What may stand in place of an operation."""
    known = {case.layer.name: case.layer for case in cases()}
    name, options = node.operation.__name__, node.options or {}
    if name in known:
        for mutant in mutants_of(known[name]):
            if not mutant.narrow:
                yield mutant.says, mutant.function
    if "eps" in options:
        for eps in EPSILON:
            yield f"ε were {eps}", with_option(node.operation, eps=float(eps))
    if name in ("relu", "gelu", "silu", "sigmoid"):
        for other, operation in ACTIVATIONS.items():
            yield f"it were {other}", lambda x, operation=operation, **_: operation(x)
    for word in WORDS.keys() & options.keys():
        for value in WORDS[word]:
            yield f"{word} were {value!r}", with_option(node.operation, **{word: value})
    if "sines" in options:
        yield "rotations were left out", lambda x, **_: x
        yield "rotations went the other way", with_option(node.operation, sines=-options["sines"])
    mask = options.get("mask")
    if mask is not None and np.ndim(mask) > 1:
        yield "the mask were left out", with_option(node.operation, mask=None)
        yield "the mask were inverted", with_option(node.operation, mask=~np.asarray(mask))
        for k, says in ((-1, "a query could not attend to itself"), (1, "a query could attend to the next key")):
            yield says, with_option(node.operation, mask=np.tril(np.ones(mask.shape, bool), k))


def are_positions(argument: Any) -> bool:
    """Whether an argument is 0, 1, 2, …"""
    whole = isinstance(argument, np.ndarray) and argument.dtype.kind == "i" and argument.size > 1
    return whole and bool((argument.ravel() == np.arange(argument.size)).all())


def of_parameters(arrays: Arrays, names: list[str]) -> Iterator[Edit]:
    """Parameters that are left out, transposed, exchanged, or tied."""
    biases = [name for name in names if name.endswith(("bias", "shift"))]
    square = [name for name in names if len(set(arrays[name].shape)) == 1 and arrays[name].ndim == 2]
    zero, turned = (lambda a: np.zeros_like(a)), (lambda a: a.T)
    for what, chosen, change in (("left out", biases, zero), ("transposed", square, turned)):
        if len(chosen) > 1:
            kind = "biases" if change is zero else "square weights"
            yield Edit(f"all {kind} were {what}", with_arrays({name: (name, change) for name in chosen}))
        for name in chosen:
            yield Edit(f"{name} were {what}", with_arrays({name: (name, change)}))
    same = lambda a: a
    for one, other in itertools.combinations(names, 2):
        ends = one.rpartition(".")[2] == other.rpartition(".")[2]
        siblings = ends and one.split(".")[:-2] == other.split(".")[:-2]
        if siblings and arrays[one].shape == arrays[other].shape:
            yield Edit(f"{one} and {other} were exchanged", with_arrays({one: (other, same), other: (one, same)}))
        if ends and arrays[one].ndim == 2 and arrays[one].shape == arrays[other].shape[::-1] and one.count(".") == 1:
            yield Edit(f"{other} were {one}, transposed", with_arrays({other: (one, turned)}))


# ---- edited models


def with_option(operation: Operation, **changed: Any) -> Operation:
    """An operation with other options."""
    return lambda *arguments, **options: operation(*arguments, **{**options, **changed})


def with_argument(operation: Operation, place: int, value: Any) -> Operation:
    """An operation with another argument."""
    return lambda *arguments, **options: operation(*arguments[:place], value, *arguments[place + 1 :], **options)


def of_operation(places: list[int], operation: Operation) -> Callable[[Model, Arrays], Answers]:
    """The model with another operation at some places."""

    def answers(model: Model, arrays: Arrays) -> Answers:
        outputs = model(arrays)
        chosen = {tape_of(list(outputs.values()))[k] for k in places}
        values: dict[Node, Any] = {}  # of what is another than before

        def value(tensor: Any) -> Any:
            found = values.get(tensor.node) if isinstance(tensor, Tensor) and tensor.node else None
            if found is None:
                return tensor.data if isinstance(tensor, Tensor) else tensor
            return found[tensor.slot] if isinstance(found, tuple) else found

        for node in tape_of(list(outputs.values())):
            arguments = node.arguments or ()
            if node in chosen or any(isinstance(a, Tensor) and a.node in values for a in arguments):
                made = operation if node in chosen else node.operation
                values[node] = made(*map(value, arguments), **(node.options or {}))
        return {name: np.asarray(value(output)) for name, output in outputs.items()}

    return answers


def with_arrays(changed: Mapping[str, tuple[str, Callable]]) -> Callable[[Model, Arrays], Answers]:
    """The model with other parameters: {name: (the name of another, what is done to it)}."""

    def answers(model: Model, arrays: Arrays) -> Answers:
        others = {name: np.asarray(change(arrays[of])) for name, (of, change) in changed.items()}
        return values_of(model.fresh({**arrays, **others}))

    return answers


def with_attribute(name: str, value: Any, model: Model, arrays: Arrays) -> Answers:
    """The model whose modules have another attribute."""
    with model.with_attribute(name, value):
        return values_of(model.fresh(arrays))


def values_of(outputs: Mapping[str, Tensor]) -> Answers:
    """The arrays of answers."""
    return {name: np.asarray(output.data) for name, output in outputs.items()}


# ---- what fits, and what is not seen


@dataclass(frozen=True)
class Fit:
    """An edit that gives what was answered, and the error over bound beside it."""

    says: str
    after: float


@dataclass(frozen=True)
class Unseen:
    """An edit that moves the answer by less than its bound, and inputs that show it; "" if none was found."""

    says: str
    moved: float
    shown_by: str

    def __str__(self) -> str:
        shown = f"{self.shown_by} show it" if self.shown_by else "no inputs that were tried show it"
        return f"{self.says}: that moves the answer by {self.moved:.2g} of its bound; {shown}"


def fitting(model: Model, arrays: Arrays, given: Answers) -> list[Fit]:
    """The edits that give what was answered, the nearest first; those of one operation alone where no other does."""
    found: list[Fit] = []
    ratio, right = model.ratio(arrays), model(arrays)
    if any(given[name].shape != output.shape for name, output in right.items()) or ratio(given, values_of(right)) <= 1:
        return []
    for edit in edits_of(model, arrays):
        if found and edit.alone:
            break
        answers = tried(edit, model, arrays)
        after = math.inf if answers is None else ratio(given, answers)
        if after <= 1 and all(f"{after:.2g}" != f"{other.after:.2g}" for other in found):  # the same by another name
            found.append(Fit(edit.says, after))
    return sorted(found, key=lambda fit: fit.after)[:NAMED]


def unseen(model: Model, arrays: Arrays) -> list[Unseen]:
    """The edits that these inputs do not tell from the right model, though they are another function."""
    right, ratio_at = values_of(model(arrays)), functools.cache(lambda k: model.ratio(others[k][1]))
    ratio = model.ratio(arrays)
    finer = np.finfo(model.dtype).eps / np.finfo(WIDE).eps  # less than its own rounding is no other function
    inputs = [name for name in arrays if name not in model.parameters]
    others = [(f"inputs times {f:g}", {n: a * f if n in inputs else a for n, a in arrays.items()}) for f in FACTORS]
    others = others if inputs else []
    others += [
        (f"parameters times {f:g}", {n: a if n in inputs else a * f for n, a in arrays.items()}) for f in FACTORS
    ]
    found = []
    for edit in itertools.takewhile(lambda edit: not edit.alone, edits_of(model, arrays)):
        answers = tried(edit, model, arrays)
        if answers is None or not (moved := ratio(answers, right)) <= 1:
            continue
        shown, differs = "", moved * finer > 1
        for k, (says, other) in enumerate(others):
            elsewhere, own = tried(edit, model, other), values_of(model(other))
            away = 0 if elsewhere is None else ratio_at(k)(elsewhere, own)
            differs = differs or away * finer > 1
            if away > 1:
                shown = says
                break
        if differs:
            found.append(Unseen(edit.says, moved, shown))
    return found


def tried(edit: Edit, model: Model, arrays: Arrays) -> Answers | None:
    """The answers of an edited model; None where it cannot be computed, or answers with other shapes."""
    right = model(arrays)
    try:
        answers = edit.answers(model, arrays)
    except Exception:  # an edit that fits no call
        return None
    fits = all(name in answers and answers[name].shape == output.shape for name, output in right.items())
    return {name: answer.astype(WIDE) for name, answer in answers.items()} if fits else None
