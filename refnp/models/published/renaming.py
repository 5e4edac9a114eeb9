"""Between refnp's names and those of another code base, in both directions.

    names = Names("published.torch", parts=PARTS, layouts=LAYOUTS)
    names.load(model, state)          every parameter of the model, from arrays or tensors under their names there
    state = names.save(model)         the same arrays back

A code base is described by two tables. `layouts` says for kinds of modules that hold parameters what the arrays are
called there and how they lie: the Linear map of PyTorch is `weight`, (out, in), and `bias`. `parts` says for kinds of
modules that are made of others what their parts are called: in a TransformerEncoderLayer `attention` is `self_attn`.
What is in neither table has refnp's name, and its array lies as it does here. So the names of a whole model follow from
those of its modules, and the model says which arrays there must be, of which shapes.

State dicts are mappings of arrays, or mappings of mappings; a framework's tensors are read as well, also those with a
gradient, on any device, and bfloat16, which becomes float32. No framework is imported.

`renamed` is for tables of the other kind, which need no model: rules that turn names there into names here.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Parameter
from refnp.layers.module import Module

State = dict[str, np.ndarray]


# ---- a model's names


@dataclass(frozen=True)
class Entry:
    """An array there: its name, the parameters here that it holds, `join` to make it of them and `split` to undo it.

    It may hold none: of what nothing uses there the shape alone is checked, if it is given at all.
    """

    name: str
    parameters: tuple[Parameter, ...]
    join: Callable[..., np.ndarray]
    split: Callable[[np.ndarray], tuple[np.ndarray, ...]]

    @property
    def array(self) -> np.ndarray:
        """The array as it is there, a copy."""
        return np.array(self.join(*(parameter.data for parameter in self.parameters)), order="C")


def same(name: str, parameter: Parameter | None) -> list[Entry]:
    """The array lies there as it does here; none if there is no such parameter."""
    return [] if parameter is None else [Entry(name, (parameter,), lambda a: a, lambda a: (a,))]


def transposed(name: str, parameter: Parameter | None) -> list[Entry]:
    """A matrix whose rows are columns there."""
    return [] if parameter is None else [Entry(name, (parameter,), np.transpose, lambda a: (a.T,))]


Layout = Callable[[Any], list[Entry]]
Parts = Mapping[str, str | Callable[..., str]]


class Names:
    """What a code base calls the parameters of a model, and how it lays them out.

    source: whose names they are, as errors say it.
    layouts: {kind of module: a function of the module that gives its entries}; of several kinds the nearest counts.
    parts: {kind of module: {beginning of a name in it: what it is there}}, or a function of the module that gives the
        inner mapping. Beginnings end with a part of a name; "*" stands for a number, which is put in place of the "*"
        there, or given to a function: {"layers.*": lambda i: f"{2 * i}"}. The longest beginning counts, "" there drops
        it. Inner modules come first: a beginning is written as they are called there.
    nested: whether state dicts are mappings of mappings there; "." separates the names otherwise. Both are read.
    """

    def __init__(
        self,
        source: str,
        *,
        layouts: Mapping[type, Layout],
        parts: Mapping[type, Parts | Callable[[Any], Parts]],
        nested: bool = False,
    ):
        self.source, self.layouts, self.parts, self.nested = source, dict(layouts), dict(parts), nested

    def extended(
        self,
        source: str,
        *,
        layouts: Mapping[type, Layout] | None = None,
        parts: Mapping[type, Parts | Callable[[Any], Parts]] | None = None,
    ) -> Self:
        """The names of another code base that is built on this one: with more kinds, or other names for some."""
        layouts, parts = self.layouts | dict(layouts or {}), self.parts | dict(parts or {})
        return type(self)(source, layouts=layouts, parts=parts, nested=self.nested)

    def save(self, model: Module) -> dict[str, Any]:
        """A copy of every parameter under its name there, laid out as it is there.

        Raises ValueError if two arrays have one name there, or a module has no counterpart.
        """
        state = {name: entry.array for name, entry in self.entries(model).items()}
        return unflattened(state) if self.nested else state

    def load(self, model: Module, state: Mapping[str, Any]) -> None:
        """Set every parameter from `state`, in the parameter's own dtype; all of them, or none if anything is wrong.

        Raises ValueError that lists all names that are missing, left over or misshapen, and values that are not
        numbers, each as it is called there; TypeError if the state is no mapping.
        """
        if not hasattr(state, "items"):
            raise TypeError(
                f"{self.source}: state is a {type(state).__name__}; pass a mapping of names to arrays, a state_dict"
            )
        entries, given = self.entries(model), flattened(state)
        missing = [name for name, entry in entries.items() if name not in given and entry.parameters]
        left_over = [name for name in given if name not in entries]
        wrong = [f"missing {', '.join(missing)}"] if missing else []
        wrong += [f"left over {', '.join(left_over)}"] if left_over else []
        arrays: dict[str, np.ndarray] = {}
        for name in (name for name in entries if name in given):
            try:
                arrays[name] = array_of(given[name])
            except (TypeError, ValueError):
                wrong.append(f"{name} is a {type(given[name]).__name__} that makes no array")
            else:
                wrong += misfit(name, arrays[name], entries[name])
        values: dict[int, tuple[str, Parameter, np.ndarray]] = {}
        for name, array in () if wrong else arrays.items():
            for parameter, value in zip(entries[name].parameters, entries[name].split(array), strict=True):
                before, _, known = values.setdefault(id(parameter), (name, parameter, value))
                if not np.array_equal(known, value, equal_nan=True):
                    wrong.append(f"{before} and {name} differ, which are one parameter here")
        if wrong:
            raise ValueError(
                f"{self.source}: nothing was loaded into {type(model).__name__}: {'; '.join(wrong)}. "
                "save(model) shows every name and shape that it reads"
            )
        for _, parameter, value in values.values():
            parameter.data = np.array(value, parameter.dtype, order="C")

    def entries(self, model: Module) -> dict[str, Entry]:
        """Every array of the model by its name there.   Raises ValueError if two have the same."""
        found: dict[str, Entry] = {}
        for entry in self._entries(model):
            if entry.name in found:
                raise ValueError(f"{self.source}: {type(model).__name__} has two arrays named {entry.name} there")
            found[entry.name] = entry
        return found

    def _entries(self, value: Any) -> list[Entry]:
        if isinstance(value, Parameter):
            return same("", value)
        layout, parts = nearest(self.layouts, value), nearest(self.parts, value)
        found = list(layout(value)) if layout else []
        known = {id(parameter) for entry in found for parameter in entry.parameters}
        for key, part in parts_of(value):
            for entry in self._entries(part):
                if not known.intersection(map(id, entry.parameters)):
                    found.append(replace(entry, name=f"{key}.{entry.name}".rstrip(".")))
        if callable(parts):
            parts = parts(value)
        return [replace(entry, name=put(entry.name, parts)) for entry in found] if parts else found


def nearest(table: Mapping[type, Any], value: Any) -> Any:
    """The row of a table for the class of a value, or for the nearest class that it is derived from."""
    return next((table[kind] for kind in type(value).__mro__ if kind in table), None)


def parts_of(value: Any) -> Iterable[tuple[Any, Any]]:
    """What a module, list, tuple or dict is made of, by name or number."""
    if isinstance(value, Module):
        return vars(value).items()
    if isinstance(value, (list, tuple)):
        return enumerate(value)
    return value.items() if isinstance(value, Mapping) else ()


def put(name: str, parts: Parts) -> str:
    """The name with its longest beginning among `parts` replaced."""
    for beginning in sorted(parts, key=lambda key: (-key.count("."), key)):
        found = re.match(re.escape(beginning).replace(r"\*", r"(\d+)") + r"(?=\.|$)", name)
        if found:
            there, numbers = parts[beginning], found.groups()
            if callable(there):
                there = there(*map(int, numbers))
            for number in numbers:
                there = there.replace("*", number, 1)
            return f"{there}{name[found.end() :]}".strip(".")
    return name


def misfit(name: str, array: np.ndarray, entry: Entry) -> list[str]:
    """What is wrong with an array in the place of an entry, or nothing."""
    wanted = entry.array
    if array.dtype.kind not in "biufc":
        return [f"{name} is {array.dtype}, not numbers"]
    if array.dtype.kind == "c" and wanted.dtype.kind != "c":
        return [f"{name} is complex, the parameter is {wanted.dtype}"]
    return [] if array.shape == wanted.shape else [f"{name} has shape {array.shape}, not {wanted.shape}"]


# ---- states


def array_of(value: Any) -> np.ndarray:
    """An array, a Tensor, or a framework's tensor as an array: without its gradient, from any device.

    bfloat16, which NumPy has not, becomes float32, which is exact.
    """
    value = raw(value)
    if hasattr(value, "detach"):  # PyTorch
        value = value.detach().cpu()
        value = value.float() if "bfloat16" in str(value.dtype) else value
        return value.resolve_conj().resolve_neg().numpy()
    if hasattr(value, "get_value"):  # flax keeps arrays in variables
        value = value.get_value()
    array = np.asarray(value if isinstance(value, np.ndarray) else getattr(value, "value", value))
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def flattened(state: Mapping[Any, Any], before: str = "") -> dict[str, Any]:
    """Mappings of mappings as one, their names joined by "."."""
    found: dict[str, Any] = {}
    for key, value in state.items():
        inner = flattened(value, f"{before}{key}.") if isinstance(value, Mapping) else {f"{before}{key}": value}
        found |= inner
    return found


def unflattened(state: Mapping[str, Any]) -> dict[str, Any]:
    """Names with "." as mappings of mappings."""
    found: dict[str, Any] = {}
    for name, value in state.items():
        *path, last = name.split(".")
        inner = found
        for key in path:
            inner = inner.setdefault(key, {})
        inner[last] = value
    return found


# ---- without a model: rules from names there to names here

Rule = tuple[str, str | Callable[[re.Match], str]]


def renamed(state: Mapping[str, Any], rules: Iterable[Rule], *, no_place: str = "") -> State:
    """All arrays under their names here: on each name the rules act in their order, then matrices are transposed.

    A name that no rule changes has no place here. It stays, and `load_state_dict` names it, with all that is missing;
    if `no_place` is given, ValueError with that message, in which {} are all such names.
    """
    found, rules, lost = {}, tuple(rules), []
    for there, value in state.items():
        name = there
        for pattern, replacement in rules:
            name = re.sub(pattern, replacement, name)
        if name == there:
            lost.append(there)
        array = array_of(value)
        found[name] = array.T if array.ndim == 2 else array
    if no_place and lost:
        raise ValueError(no_place.format(", ".join(lost)))
    return found


def layer(path: str) -> Callable[[re.Match], str]:
    """A layer of an MLP: activations are numbered too, so that layer i is number 2 i there."""
    return lambda found: f"{path}.layers.{int(found[1]) // 2}."


def part(state: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The entries under `prefix`, without it."""
    return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
