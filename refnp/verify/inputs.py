"""Inputs of a layer as they are given: arrays of any framework, by refnp's names."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from refnp.autograd.tensor import Array
from refnp.verify.asking import real
from refnp.verify.case import Layer
from refnp.verify.findings import first_line
from refnp.verify.frameworks.native import NATIVES, NUMPY

Inputs = Mapping[str, Any] | Sequence[Any]


def taken_by(layer: Layer) -> set[tuple[str, ...]]:
    """The inputs of a layer by its equation, with and without those that may be left out; none if it takes any."""
    places = inspect.signature(layer.equation).parameters.values()
    if any(place.kind is place.VAR_POSITIONAL for place in places):
        return set()
    arrays = [place for place in places if place.kind is place.POSITIONAL_OR_KEYWORD]
    least = sum(place.default is place.empty for place in arrays)
    return {tuple(place.name for place in arrays[:count]) for count in range(max(least, 1), len(arrays) + 1)}


def inputs_by_name(function: str, layer: str, inputs: Inputs, known: list[tuple[str, ...]]) -> dict[str, Array]:
    """The inputs as arrays by refnp's names, in the layer's order."""
    listed = " or ".join(f"({', '.join(names)})" for names in known)
    if not isinstance(inputs, Mapping | list | tuple):
        raise ValueError(f"{function}: inputs: give a dict or a tuple of arrays; those of {layer} are {listed}")
    array_of = lambda name, given: real_of(function, f"inputs: {name}", given)
    if isinstance(inputs, Mapping):
        for names in known:
            if set(names) == set(inputs):
                return {name: array_of(name, inputs[name]) for name in names}
        raise ValueError(f"{function}: inputs are ({', '.join(inputs)}); those of {layer} are {listed}")
    for names in known:
        if len(names) == len(inputs):
            return {name: array_of(name, array) for name, array in zip(names, inputs, strict=True)}
    raise ValueError(f"{function}: there are {len(inputs)} inputs; those of {layer} are {listed}")


def real_of(function: str, what: str, x: Any) -> Array:
    """An array of any framework as NumPy's; ValueError for what are no real numbers."""
    native = next((native for native in NATIVES.values() if native.owns(x)), NUMPY)
    try:
        return real(native.numpy(x))
    except (TypeError, ValueError) as wrong:
        raise ValueError(f"{function}: {what}: {first_line(wrong)}; give an array of real numbers") from wrong
