"""A model of refnp with one edit: which edits there are, and what the edited model answers.

The model of refnp is run once, and its operations are run again with one of them, or all of its name, as an edit has
them: a known mistake of the layer, another ε, activation, mask, layout or scale, positions from 1; or with an argument
through which no gradient comes back. Or it is run with other parameters (left out, exchanged, transposed, tied), or
with its norms elsewhere. What an edit does not change keeps its numbers.
"""

import contextlib
import functools
import inspect
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp import layers
from refnp.autograd.backward import gradients_of, tape_of
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Node, Tensor
from refnp.layers.module import Module
from refnp.numbers.rounding import WIDE
from refnp.verify.edits.edited import modules_in
from refnp.verify.edits.mutant import with_argument
from refnp.verify.layers import cases
from refnp.verify.mutants import mutants_of
from refnp.verify.propagation import Loss, needs_gradient, wide

Arrays = Mapping[Any, Any]
Answers = dict[str, np.ndarray]
Operation = Callable[..., Any]
ACTIVATIONS: dict[str, Operation] = {
    "relu": layers.relu,
    "GELU by erf": functools.partial(layers.gelu, approximate="none"),
    "GELU by tanh": functools.partial(layers.gelu, approximate="tanh"),
    "SiLU": layers.silu,
    "sigmoid": layers.sigmoid,
    "the identity": lambda x: x,
}
WORDS: dict[str, tuple] = {  # options, and attributes of modules
    "layout": ("half", "interleaved"),
    "norm": ("pre", "post"),
    "base": (10_000, 500_000, 1_000_000),
}
EPSILON = ("0", "1e-12", "1e-8", "1e-6", "1e-5", "1e-3")  # those of the field
LOSS = "loss of gradients"  # the output whose gradients are judged


@dataclass(frozen=True)
class Taped:
    """What a model answers, with the tape behind it: its outputs, and the arrays that they come from."""

    outputs: Mapping[str, Tensor]
    leaves: Mapping[Any, Tensor]

    @functools.cached_property
    def answers(self) -> Answers:
        """The outputs as arrays."""
        return {name: np.asarray(y.data, WIDE) for name, y in self.outputs.items() if name != LOSS}

    @functools.cached_property
    def gradients(self) -> Answers:
        """The gradients of the loss, "gradient of NAME"; none where no loss is judged."""
        if LOSS not in self.outputs:
            return {}
        one = np.ones(self.outputs[LOSS].shape, WIDE)
        found = {id(leaf): bar for leaf, bar in gradients_of([self.outputs[LOSS]], [one], keep_tape=True)}
        return {f"gradient of {n}": found.get(id(leaf), np.zeros(leaf.shape, WIDE)) for n, leaf in self.leaves.items()}


class Model:
    """A model of refnp as a function of arrays by name, its parameters and inputs, on a tape; a loss is named LOSS."""

    def __init__(
        self, like: Module, parameters: Sequence[str], run: Callable[[Mapping], dict[str, Tensor]], dtype: str
    ):
        self.like, self.parameters, self.run, self.dtype = like, [*parameters], run, dtype
        self.known: dict[int, tuple[Arrays, Taped]] = {}

    def fresh(self, arrays: Arrays) -> Taped:
        """The answers for arrays, in the widest precision."""
        leaves = {name: wide(value) for name, value in arrays.items()}
        return Taped(self.run(leaves), leaves)

    def __call__(self, arrays: Arrays) -> Taped:
        """The answers, which are kept."""
        if id(arrays) not in self.known:
            self.known[id(arrays)] = arrays, self.fresh(arrays)
        return self.known[id(arrays)][1]

    def loss(self, arrays: Arrays) -> Loss:
        """The loss, with the bounds of its gradients."""
        return Loss(lambda leaves: self.run(leaves)[LOSS], arrays)

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


@dataclass(frozen=True)
class Edit:
    """What is said of an edited model, and the model: a function of the right one and the arrays.

    Those of some operations `alone`, and pairs, are tried where no other fits.
    """

    says: str
    run: Callable[[Model, Arrays], Taped]
    alone: bool = False


# ---- edits


def edits_of(model: Model, arrays: Arrays) -> Iterator[Edit]:
    """Every edit of a model: all operations of a name, parameters, modules; then some operations alone."""
    outputs, nodes = model(arrays).outputs, nodes_of(model(arrays))
    repeats = len(getattr(model.like, "layers", ()))
    alone = []
    for own_name, places in by_name(model(arrays)).items():
        name = "rotation" if own_name == "turned" else own_name
        node = nodes[places[0]]
        found = dict(operations_of(node)) | (dict(with_gradients_lost(node)) if LOSS in outputs else {})
        for says, operation in found.items():
            yield Edit(f"{says}, in {'every ' if len(places) > 1 else ''}{name}", of_operation(places, operation))
            for chosen in subsets(len(places), repeats):
                where = f"{says}, in {name} {' and '.join(str(i + 1) for i in chosen)} of {len(places)}"
                alone.append(Edit(where, of_operation([places[i] for i in chosen], operation), alone=True))
    for k, node in enumerate(nodes):
        for i, argument in enumerate(node.arguments or ()):
            if are_positions(argument):
                operation = with_argument(node.operation, i, lambda positions: positions + 1)
                yield Edit("positions were counted from 1", of_operation([k], operation))
    yield from of_parameters(arrays, model.parameters)
    for word, values in WORDS.items():
        for value in values:
            yield Edit(f"{word} were {value!r}", functools.partial(with_attribute, word, value))
    yield from alone


def pairs_of(model: Model, arrays: Arrays, near: Collection[str]) -> Iterator[Edit]:
    """Two known mistakes of a layer at once, of which one is among those that are `near` by itself."""
    known = {case.layer.name: case.layer for case in cases()}
    for name, places in by_name(model(arrays)).items():
        mutants = [mutant for mutant in mutants_of(known[name]) if not mutant.narrow] if name in known else []
        where = f"in {'every ' if len(places) > 1 else ''}{name}"
        for one, other in itertools.combinations(mutants, 2):
            if not {f"{one.says}, {where}", f"{other.says}, {where}"} & {*near}:
                continue
            if (both := one.together(other)) is not None:
                operation = nodes_of(model(arrays))[places[0]].operation
                yield Edit(f"{both.says}, {where}", of_operation(places, as_called(operation, both.function)), True)


def nodes_of(taped: Taped) -> list[Node]:
    """The operations in order."""
    return tape_of(list(taped.outputs.values()))


def by_name(taped: Taped) -> dict[str, list[int]]:
    """Which operations have which name."""
    found: dict[str, list[int]] = {}
    for k, node in enumerate(nodes_of(taped)):
        found.setdefault(node.operation.__name__, []).append(k)
    return found


def subsets(count: int, repeats: int) -> Iterator[list[int]]:
    """Some of so many operations: one alone, and one in each of so many equal layers."""
    if count > 1:
        yield from ([i] for i in range(count))
    step = count // repeats if 1 < repeats < count else 0
    last = step * (repeats - 1)
    if step > 1:
        yield from ([*range(i, i + last + 1, step)] for i in range(count - last))


def with_gradients_lost(node: Node) -> Iterator[tuple[str, Operation]]:
    """The operation with an argument through which no gradient comes back."""
    of_gradients = [i for i, argument in enumerate(node.arguments or ()) if needs_gradient(argument)]
    for i in of_gradients:
        place = f"argument {i + 1}" if len(of_gradients) > 1 else "it"
        yield f"no gradient came back through {place}", with_argument(node.operation, i, raw)


def operations_of(node: Node) -> Iterator[tuple[str, Operation]]:
    """What may stand in place of an operation."""
    known = {case.layer.name: case.layer for case in cases()}
    name, options = node.operation.__name__, node.options or {}
    if name in known:
        for mutant in mutants_of(known[name]):
            if not mutant.narrow:
                yield mutant.says, as_called(node.operation, mutant.function)
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
    if name == "attention" and are_grouped(*(np.shape(raw(a)) for a in (node.arguments or ())[:2])):
        yield "head h of the queries had head h mod G of G keys and values", in_turn(node.operation)
    mask = options.get("mask")
    if mask is not None and np.ndim(mask) > 1:
        yield "the mask were left out", with_option(node.operation, mask=None)
        yield "the mask were inverted", with_option(node.operation, mask=~np.asarray(mask))
        for k, says in ((-1, "a query could not attend to itself"), (1, "a query could attend to the next key")):
            yield says, with_option(node.operation, mask=np.tril(np.ones(mask.shape, bool), k))


def are_grouped(query: tuple[int, ...], key: tuple[int, ...]) -> bool:
    """Whether several heads of queries share each head of keys, which has an axis of length 1 for them."""
    several = len(query) == len(key) > 3 and query[-4] == key[-4]
    return several and min(query[-4:-2]) > 1 and key[-3] == 1


def in_turn(operation: Operation) -> Operation:
    """Attention in groups, of which the heads of keys are dealt out in turn to those of queries."""

    def call(query: Any, key: Any, value: Any, *bias: Any, **options: Any) -> Any:
        groups, each = query.shape[-4:-2]
        of_each = (np.arange(groups * each) % groups).reshape(groups, each)
        return operation(
            query, key[..., 0, :, :][..., of_each, :, :], value[..., 0, :, :][..., of_each, :, :], *bias, **options
        )

    return call


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


def as_called(operation: Operation, other: Operation) -> Operation:
    """Another function in place of an operation: it is given the options that say something, and not the defaults."""
    usual = {p.name: p.default for p in inspect.signature(operation).parameters.values()}

    def call(*arguments: Any, **options: Any) -> Any:
        plain = lambda value: value is None or isinstance(value, (bool, int, float, str))
        return other(
            *arguments, **{n: v for n, v in options.items() if not (plain(v) and v == usual.get(n, v is None))}
        )

    return call


def with_option(operation: Operation, **changed: Any) -> Operation:
    """An operation with other options."""
    return lambda *arguments, **options: operation(*arguments, **{**options, **changed})


def of_operation(places: list[int], operation: Operation) -> Callable[[Model, Arrays], Taped]:
    """The model with another operation at some places."""

    def run(model: Model, arrays: Arrays) -> Taped:
        right = model(arrays)
        nodes = tape_of(list(right.outputs.values()))
        chosen = {nodes[k] for k in places}
        values: dict[Node, Any] = {}  # of what is another than before

        def value(tensor: Any) -> Any:
            found = values.get(tensor.node) if isinstance(tensor, Tensor) and tensor.node else None
            if found is None:
                return tensor
            return found[tensor.slot] if isinstance(found, tuple) else found

        for node in nodes:
            arguments = node.arguments or ()
            if node in chosen or any(isinstance(a, Tensor) and a.node in values for a in arguments):
                made = operation if node in chosen else node.operation
                values[node] = made(*map(value, arguments), **(node.options or {}))
        return Taped({name: as_tensor(value(output)) for name, output in right.outputs.items()}, right.leaves)

    return run


def with_arrays(changed: Mapping[str, tuple[str, Callable]]) -> Callable[[Model, Arrays], Taped]:
    """The model with other parameters: {name: (the name of another, what is done to it)}."""

    def run(model: Model, arrays: Arrays) -> Taped:
        return model.fresh(
            {**arrays, **{name: np.asarray(change(arrays[of])) for name, (of, change) in changed.items()}}
        )

    return run


def with_attribute(name: str, value: Any, model: Model, arrays: Arrays) -> Taped:
    """The model whose modules have another attribute."""
    with model.with_attribute(name, value):
        return model.fresh(arrays)


def as_tensor(value: Any) -> Tensor:
    """A number that is on no tape is a constant."""
    return value if isinstance(value, Tensor) else Tensor(np.asarray(value), requires_grad=False)
