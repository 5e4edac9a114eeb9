"""Module: a function with parameters.

A module is an object with `__call__` whose attributes are Parameters, other modules, or lists, tuples and dicts of
these. Names are the paths to them, "layers.0.attention.query.weight", in the order in which they were assigned.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refnp.autograd import Parameter


class Module:
    """Base of everything with parameters. A subclass assigns them in `__init__` and computes in `__call__`."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        raise TypeError(f"{type(self).__name__} has no __call__; a module must define what it computes")

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """(path, Parameter) pairs in the order of assignment; a parameter that is shared comes once."""
        seen: set[int] = set()
        for name, parameter in _walk("", vars(self)):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                yield name, parameter

    def parameters(self) -> list[Parameter]:
        """All parameters, in the order of `named_parameters`."""
        return [parameter for _, parameter in self.named_parameters()]

    def zero_grad(self) -> None:
        """Forget the gradients of earlier backward passes."""
        for parameter in self.parameters():
            parameter.grad = None

    def state_dict(self) -> dict[str, np.ndarray]:
        """A copy of every parameter's array, by name."""
        return {name: parameter.data.copy() for name, parameter in self.named_parameters()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Set every parameter from `state`, in the parameter's own dtype; all of them, or none if anything is wrong.

        Raises ValueError that lists missing and unexpected names, wrong shapes, and values that are not numbers.
        """
        own = dict(self.named_parameters())
        wrong = [f"missing {name}" for name in own if name not in state]
        wrong += [f"unexpected {name}" for name in state if name not in own]
        arrays = {name: np.asarray(value) for name, value in state.items() if name in own}
        for name, array in arrays.items():
            if array.dtype.kind not in "biufc":
                wrong.append(f"{name} is {array.dtype}, not numbers")
            elif array.dtype.kind == "c" and own[name].dtype.kind != "c":
                wrong.append(f"{name} is complex, the parameter is {own[name].dtype}")
            elif array.shape != own[name].shape:
                wrong.append(f"{name} has shape {array.shape}, not {own[name].shape}")
        if wrong:
            raise ValueError(f"load_state_dict: nothing was loaded into {type(self).__name__}: " + "; ".join(wrong))
        for name, array in arrays.items():
            own[name].data = np.array(array, own[name].dtype)

    def bind(self, values: Mapping[str, Any]) -> Module:
        """A copy of the module that computes with `values`, arrays or Tensors by name, in place of its parameters.

        `lambda values: loss(module.bind(values)(x))` is a function of the parameters, for `grad`, `hvp` and the like.
        Raises ValueError unless the names are exactly the parameters'.
        """
        own = [name for name, _ in self.named_parameters()]
        if set(own) != set(values):
            raise ValueError(f"bind: {type(self).__name__} has parameters {own}, values are named {list(values)}")
        new = {id(parameter): values[name] for name, parameter in self.named_parameters()}
        return _substituted(self, new)

    def astype(self, dtype: Any) -> Module:
        """Change every parameter to another floating type, in place; gradients are dropped. Returns the module."""
        dtype = np.dtype(dtype)
        if dtype.kind not in "fc":
            raise TypeError(f"astype: {dtype} is not a floating type; use float32, float64 or longdouble")
        for parameter in self.parameters():
            parameter.data, parameter.grad = parameter.data.astype(dtype), None
        return self


def _walk(path: str, value: Any) -> Iterator[tuple[str, Parameter]]:
    if isinstance(value, Parameter):
        yield path, value
        return
    if isinstance(value, Module):
        value = vars(value)
    elif isinstance(value, (list, tuple)):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _walk(f"{path}.{key}" if path else str(key), item)


def _substituted(value: Any, new: dict[int, Any]) -> Any:
    if isinstance(value, Parameter):
        return new[id(value)]
    if isinstance(value, Module):
        twin = copy.copy(value)
        vars(twin).update({key: _substituted(item, new) for key, item in vars(value).items()})
        return twin
    if isinstance(value, (list, tuple)):
        return type(value)(_substituted(item, new) for item in value)
    if isinstance(value, dict):
        return {key: _substituted(item, new) for key, item in value.items()}
    return value
