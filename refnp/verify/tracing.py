"""What a function does, as lines of Python: it is called with `Traced` values, which do the work and note how.

    trace = Trace()
    x = trace.named("x", array)
    statements, result = trace.lines(adapter(trace.named("torch", torch), x))

A value that is used once is written where it is used; one that is used again gets a variable. What is no value of the
framework (a shape, a number, a string) is plain, and so control flow is that of the call that was traced.
"""

import operator
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

PLAIN = (bool, int, float, complex, str, type(None), np.generic)
FORMATS = {
    "add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "truediv": "({} / {})", "matmul": "({} @ {})",
    "pow": "({} ** {})", "and": "({} & {})", "or": "({} | {})",
    "lt": "({} < {})", "le": "({} <= {})", "gt": "({} > {})", "ge": "({} >= {})",
}  # fmt: skip


class Trace:
    """The values and statements of a call, in the order in which they came about."""

    def __init__(self) -> None:
        self.steps: list[Traced] = []

    def named(self, name: str, value: Any) -> "Traced":
        """A value that has a name in the lines already: an argument, or the framework itself."""
        return Traced(self, value, name, ())

    def made(self, value: Any, text: str, parts: tuple, *, acts: bool = False) -> Any:
        """The result of a step: plain if that is what it is, else traced. `text` has a place for each of `parts`.

        A step that `acts` is written even if nothing uses its result.
        """
        if value is None and acts:  # called for what it does
            self.steps.append(Traced(self, value, text, parts, acts))
        if isinstance(value, PLAIN):
            return value
        if isinstance(value, (tuple, list)) and all(isinstance(v, PLAIN) for v in value):
            return list(value) if isinstance(value, list) else tuple(value)
        if isinstance(value, Iterator):
            return list(value)
        found = Traced(self, value, text, parts, acts)
        self.steps.append(found)
        return found

    def lines(self, result: Any) -> tuple[list[str], str]:
        """The statements, and the expression for the result."""
        uses = {id(part): 1 for part in inside(result)}
        for step in reversed(self.steps):
            if id(step) in uses or _own(step)["acts"]:
                for part in inside(_own(step)["parts"]):
                    uses[id(part)] = uses.get(id(part), 0) + 1
        statements: list[str] = []
        variables = 0
        for step in self.steps:
            count = uses.get(id(step), 0)
            if count > 1:
                variables += 1
                statements.append(f"v{variables} = {bare(written(step))}")
                _own(step)["name"] = f"v{variables}"
            elif not count and _own(step)["acts"]:
                statements.append(bare(written(step)))
        return statements, bare(written(result))


class Traced:
    """A value of a framework and, as text with a place for each part, how it came about."""

    def __init__(self, trace: Trace, value: Any, text: str, parts: tuple, acts: bool = False):
        _own(self).update(trace=trace, value=value, text=text, parts=parts, acts=acts, name=None)

    def _step(self, value: Any, text: str, *parts: Any, acts: bool = False) -> Any:
        return _own(self)["trace"].made(value, text, (self, *parts), acts=acts)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._step(getattr(_own(self)["value"], name), f"{{}}.{name}")

    def __setattr__(self, name: str, given: Any) -> None:
        setattr(_own(self)["value"], name, plain(given))
        self._step(object(), f"{{}}.{name} = {{}}", given, acts=True)

    def __getitem__(self, index: Any) -> Any:
        return self._step(_own(self)["value"][plain(index)], "{}[{}]", Index(index))

    def __call__(self, *args: Any, **options: Any) -> Any:
        value = _own(self)["value"](*plain(args), **plain(options))
        places = ["{}"] * len(args) + [f"{name}={{}}" for name in options]
        return self._step(value, f"{{}}({', '.join(places)})", *args, *options.values(), acts=True)

    def __neg__(self) -> Any:
        return self._step(-_own(self)["value"], "(-{})")

    def __invert__(self) -> Any:
        return self._step(~_own(self)["value"], "(~{})")

    def __len__(self) -> int:
        return len(_own(self)["value"])

    def __iter__(self) -> Iterator:
        return (self[i] for i in range(len(self)))


class Index:
    """What stands in brackets: slices as they are written."""

    def __init__(self, index: Any):
        self.index = index


def _own(traced: Traced) -> dict:
    return object.__getattribute__(traced, "__dict__")


def _operation(name: str) -> tuple[Callable, Callable]:
    of = getattr(operator, f"{name}_" if name in ("and", "or") else name)

    def forward(self: Traced, other: Any) -> Any:
        return self._step(of(_own(self)["value"], plain(other)), FORMATS[name], other)

    def reflected(self: Traced, other: Any) -> Any:
        value = of(plain(other), _own(self)["value"])
        return _own(self)["trace"].made(value, FORMATS[name], (other, self))

    return forward, reflected


for _name in FORMATS:
    _forward, _reflected = _operation(_name)
    setattr(Traced, f"__{_name}__", _forward)
    setattr(Traced, f"__r{_name}__", _reflected)


def plain(value: Any) -> Any:
    """A value with everything in it that is traced replaced by what it stands for."""
    if isinstance(value, Traced):
        return _own(value)["value"]
    if isinstance(value, dict):
        return {name: plain(v) for name, v in value.items()}
    return type(value)(map(plain, value)) if type(value) in (tuple, list) else value


def inside(parts: Any) -> Iterator[Traced]:
    """Everything traced in nested tuples, lists and mappings."""
    if isinstance(parts, Traced):
        yield parts
    elif isinstance(parts, Index):
        yield from inside(parts.index)
    elif isinstance(parts, (tuple, list)):
        for part in parts:
            yield from inside(part)
    elif isinstance(parts, dict):
        yield from inside(list(parts.values()))


def written(value: Any) -> str:
    """A value as Python text: traced ones by their variable, or as they came about."""
    if isinstance(value, Traced):
        own = _own(value)
        return own["name"] or own["text"].format(*map(written, own["parts"]))
    if isinstance(value, Index):
        index = value.index
        return ", ".join(map(_place, index)) if isinstance(index, tuple) and index else _place(index)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name!r}: {written(v)}" for name, v in value.items()) + "}"
    if type(value) in (tuple, list):
        text = ", ".join(map(written, value))
        return f"[{text}]" if isinstance(value, list) else f"({text}{',' * (len(value) == 1)})"
    if isinstance(value, np.ndarray):
        kind = ", bool" if value.dtype == bool else ""
        return f"np.array({literal(value)}{kind})"
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return {np.inf: "np.inf", -np.inf: "-np.inf"}.get(value, "np.nan")
    return value.__name__ if isinstance(value, (type, types.FunctionType)) else repr(value)


def _place(index: Any) -> str:
    if index is Ellipsis:
        return "..."
    if isinstance(index, slice):
        ends = [index.start, index.stop] + ([] if index.step is None else [index.step])
        return ":".join("" if end is None else written(end) for end in ends)
    return written(index)


def literal(array: np.ndarray) -> str:
    """Nested lists of numbers, each in as few digits as tell it apart in its precision."""
    if array.ndim:
        return f"[{', '.join(map(literal, array))}]"
    if array.dtype.kind != "f":
        return repr(int(array))
    if not np.isfinite(array):
        return written(float(array))
    number: Any = array[()]
    text = np.format_float_positional(number, trim="-") if 1e-4 <= abs(array) < 1e6 or array == 0 else None
    return text or np.format_float_scientific(number, trim="-")


def bare(text: str) -> str:
    """Without parentheses that stand around the whole of an operation."""
    depth = 0
    for place, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if (depth == 0 and place < len(text) - 1) or (depth == 1 and character == ","):
            return text
    return text[1:-1]
