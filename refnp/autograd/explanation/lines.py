"""The lines of an explanation: one for each leaf and each result on the tape, or one for each call of a module."""

import dataclasses
import inspect
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from refnp.autograd.backward import tape_of
from refnp.autograd.explanation.previews import number
from refnp.autograd.summation import einsum_equation
from refnp.autograd.tensor import Array, Call, Node, Parameter, Tensor

Place = tuple[int, int]  # the key of a value: the id of its node and which of the node's results it is
SEVERAL = 4  # names of operations in one line
SMALL = 4  # numbers of a constant that stand in the call itself


@dataclasses.dataclass
class Line:
    """A value of the tape: what made it, from what, and what it is."""

    number: str
    title: str  # "attention(1, 2, 3)", "parameter"
    shape: tuple[int, ...]
    dtype: np.dtype
    value: Array | None  # None for a result that nothing uses
    place: Place
    equation: str = ""
    masks: dict[str, Array] = dataclasses.field(default_factory=dict)
    inputs: list[str] = dataclasses.field(default_factory=list)  # numbers of lines
    node: Node | None = None  # in the line of its first result
    call: Call | None = None  # the innermost module that made it
    gradient: Array | None = None
    count: str = ""  # of a folded line: "15 operations, 96 parameters"

    @property
    def is_leaf(self) -> bool:
        return not self.title.endswith(")")


def lines_of(tensor: Tensor) -> list[Line]:
    """A line for every leaf that needs a gradient, before its first use, and for every result, in the order of making.

    A tensor without a tape is a line by itself.
    """
    nodes = tape_of([tensor])
    used = [a for node in nodes for a in node.arguments or () if isinstance(a, Tensor)]
    tensors = {place_of(t): t for t in (*used, tensor)}
    numbers: dict[Place, str] = {}
    lines: list[Line] = []
    count = itertools.count(1)

    def add_leaf(leaf: Tensor, call: Call | None = None) -> None:
        place = place_of(leaf)
        numbers[place] = str(next(count))
        kind = "parameter" if isinstance(leaf, Parameter) else "leaf" if leaf.requires_grad else "constant"
        lines.append(Line(numbers[place], kind, leaf.shape, leaf.dtype, leaf.data, place, call=call))

    for node in nodes:
        for argument in node.arguments or ():
            if isinstance(argument, Tensor) and argument.requires_grad and place_of(argument) not in numbers:
                add_leaf(argument, node.call)
        first = str(next(count))
        for slot, output in enumerate(node.outputs):
            place = id(node), slot
            numbers[place] = f"{first}.{slot}" if len(node.outputs) > 1 else first
            value = tensors[place].data if place in tensors else None
            shape, dtype = output or (tensors[place].shape, tensors[place].dtype)
            line = Line(numbers[place], "", shape, np.dtype(dtype), value, place, call=node.call)
            if slot == 0:
                line.node, line.title, line.masks = node, *_call(node, numbers)
                line.equation = equation_of(node.operation, node.options)
            else:
                line.title = f"(result {slot + 1})"
            line.inputs = _inputs(node, numbers)
            lines.append(line)
    if not nodes:
        add_leaf(tensor)
    return lines


def place_of(tensor: Tensor) -> Place:
    """The key of a value: its node and which of the node's results it is, or the leaf itself."""
    return (id(tensor), 0) if tensor.node is None else (id(tensor.node), tensor.slot)


def _inputs(node: Node, numbers: dict[Place, str]) -> list[str]:
    places = [place_of(a) for a in node.arguments or () if isinstance(a, Tensor)]
    return list(dict.fromkeys(numbers[place] for place in places if place in numbers))


def _call(node: Node, numbers: dict[Place, str]) -> tuple[str, dict[str, Array]]:
    """ "attention(1, 2, 3, mask, scale=0.5)" and the masks by name; options at their defaults are left out."""
    name = node.operation.__name__.lstrip("_")
    if node.arguments is None or node.options is None:
        return f"{name}(…, freed by backward)", {}
    parts = [_argument(a, numbers) for a in node.arguments]
    while parts and parts[-1] == "None":
        parts.pop()
    masks = {}
    if name == "einsum":
        return f"einsum({', '.join(parts)})", {}
    parameters = inspect.signature(node.operation).parameters
    for option, value in node.options.items():
        default = parameters[option].default if option in parameters else inspect.Parameter.empty
        if value is default or (np.ndim(value) == 0 and value == default):
            continue
        if isinstance(value, np.ndarray) and value.dtype == bool and value.ndim:
            masks[option] = value
            parts.append(option)
        else:
            parts.append(f"{option}={_argument(value, numbers)}")
    return f"{name}({', '.join(parts)})", masks


def _argument(value: Any, numbers: dict[Place, str]) -> str:
    """An argument or option as text: the number of its line, or what it is."""
    if isinstance(value, Tensor):
        return numbers[place_of(value)] if place_of(value) in numbers else _argument(value.data, numbers)
    if isinstance(value, (np.ndarray, np.generic)):
        if not value.ndim:
            return number(value.item() if value.dtype.kind in "biu" else value)
        short = value.ndim == 1 and value.size <= SMALL
        return f"[{' '.join(map(number, value.tolist()))}]" if short else f"constant {value.shape}"
    if isinstance(value, slice):
        ends = [("" if end is None else str(end)) for end in (value.start, value.stop)]
        return ":".join([*ends, str(value.step)] if value.step is not None else ends)
    if isinstance(value, tuple):
        inner = ", ".join(_argument(v, numbers) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if value is Ellipsis:
        return "..."
    if isinstance(value, np.random.Generator):
        return "Generator"
    return value.__name__ if callable(value) and hasattr(value, "__name__") else repr(value)


# ---- equations

REMARK = (
    r" \((?![^()]*[=·−+/^²√ΣΠ∘])[^()]*[a-z]{4}[^()]*\)"  # words in brackets, as "(for complex x, the largest part)"
)


def equation_of(operation: Callable, options: dict | None = None) -> str:
    """The equation in an operation's docstring; that of an einsum is written from its `options`."""
    if options and operation.__name__ == "_einsum":
        return einsum_equation(options["inputs"], options["result"])
    return equation_in(inspect.getdoc(operation) or "")


def equation_in(text: str) -> str:
    """The equation in a docstring: the first sentence that has an '=', up to a colon or semicolon.

    Only a colon outside of brackets ends it, and no semicolon before "or". It stands before the VJP, in the first
    paragraph or in the block under it. Without an '=' there it is the first sentence.
    """
    paragraphs = re.split(r"\n\s*\n", re.split(r"\b(?:VJP|Shapes):|\bVJP\b", text)[0])
    while len(paragraphs) > 1 and not re.search(r"[.;]\s*$", paragraphs[0]):  # an equation in a block of its own
        paragraphs[:2] = [" ".join(paragraphs[:2])]
    plain = " ".join(re.sub(REMARK, "", paragraphs[0]).split())
    sentences = _pieces(plain, (". ",))
    chosen = next((s for s in sentences if "=" in s), "")
    clauses = _pieces(chosen, (": ", "; "), unless="or ")
    return (next((c for c in clauses if "=" in c), "") or sentences[0]).rstrip(".,:; ")


def _pieces(text: str, ends: Sequence[str], unless: str = "\0") -> list[str]:
    """The text cut after each of the `ends` that stands outside of brackets, but for where `unless` follows."""
    pieces, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "([{⌊⌈") - (letter in ")]}⌋⌉")
        end = text[i : i + 2]
        if depth <= 0 and end in ends and not text.startswith(unless, i + 2):
            pieces.append(text[start:i].strip())
            start = i + 2
    return [*pieces, text[start:].strip()]


# ---- folding by modules


def depth_of(lines: list[Line]) -> int:
    """How many calls of modules are inside each other, at most."""
    return max((len(_calls(line.call)) for line in lines), default=0)


def folded(lines: list[Line], depth: int, root: Any = None) -> list[Line]:
    """One line for each call of a module, `depth` calls deep, and one for operations that follow each other beside
    them.

    Its numbers are those of its first and last operation, its value is the last one; parameters are left out. Calls
    that no other surrounds are named by their place in the module `root`.
    """
    names = _Names(root)

    def key(line: Line) -> Any:
        calls = _calls(line.call)
        return tuple(map(id, calls[:depth])), line.is_leaf and (len(calls) < depth or not calls)

    kept = [line for line in lines if line.title != "parameter"]
    result = []
    for _, run in itertools.groupby(kept, key):
        members = list(run)
        calls = _calls(members[-1].call)[:depth]
        if len(members) == 1 or members[-1].is_leaf:
            result += [dataclasses.replace(line, title=names.path(calls) + line.title) for line in members]
        else:
            result.append(_fold(members, calls, len(calls) == depth, lines, names))
    return result


def _fold(members: list[Line], calls: list[Call], whole: bool, lines: list[Line], names: "_Names") -> Line:
    """The line of a call (`whole`), or of operations that follow each other inside `calls` or beside all."""
    own = {line.number for line in members}
    made = [line for line in members if line.node is not None]
    places = {a for line in made for a in line.inputs} - own
    parameters = {line.number: line for line in lines if line.title == "parameter"}
    inputs = [line.number for line in lines if line.number in places and line.number not in parameters]
    used = [line for number, line in parameters.items() if number in places]
    last = members[-1]
    operations = list(dict.fromkeys(line.title.partition("(")[0] for line in made))
    if len(operations) > SEVERAL:
        operations[SEVERAL - 1 : -1] = ["…"]
    title = names.path(calls) + ("" if whole else ", ".join(operations))
    weights = f", {sum(p.value.size for p in used if p.value is not None)} parameters" if used else ""
    count = f"{len(made)} operation{'s' if len(made) > 1 else ''}{weights}" if whole else ""
    title = f"{title.rstrip(': ')}({', '.join(inputs)})"
    first = made[0].number.partition(".")[0]
    place = last.number if first == last.number.partition(".")[0] else f"{first}–{last.number}"
    return dataclasses.replace(
        last, number=place, title=title, equation="", count=count, masks={}, inputs=inputs, node=None
    )


def _calls(call: Call | None) -> list[Call]:
    """The calls around a line, the outermost first."""
    found: list[Call] = []
    while call is not None:
        found.append(call)
        call = call.inside
    return found[::-1]


class _Names:
    """The names of calls by attributes: "TNPA.layers.0.attention: ", nothing beside all modules."""

    def __init__(self, root: Any):
        self.root = root

    def path(self, calls: Sequence[Call]) -> str:
        if not calls:
            return ""
        modules = [call.module for call in calls]
        if self.root is not None and modules[0] is not self.root and _attribute(self.root, modules[0]) is not None:
            modules.insert(0, self.root)
        path = type(modules[0]).__name__
        for outer, inner in itertools.pairwise(modules):
            path += f".{_attribute(outer, inner) or type(inner).__name__}"
        return f"{path}: "


def _attribute(outer: Any, inner: Any) -> str | None:
    """The name of a module inside another, "layers.0"; None if it has none there."""
    waiting: list[tuple[str, Any]] = list(vars(outer).items())
    for name, value in waiting:
        if value is inner:
            return name
        if isinstance(value, (list, tuple)):
            waiting += [(f"{name}.{i}", item) for i, item in enumerate(value)]
        elif isinstance(value, dict):
            waiting += [(f"{name}.{key}", item) for key, item in value.items()]
        elif hasattr(value, "named_parameters"):
            waiting += [(f"{name}.{key}", item) for key, item in vars(value).items()]
    return None
