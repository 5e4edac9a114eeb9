"""Modules in which a method is another."""

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from refnp.layers.module import Module
from refnp.verify.layers.multi_head import bound

Methods = dict[type, dict[str, Callable]]  # those that are edited, by their class and name


def class_and(pattern: str) -> tuple[str, str]:
    """("Residual", "x + _y") of "Residual: x + _y", and ("", …) where there is no class."""
    found = re.fullmatch(r"([A-Z]\w+): (.*)", pattern)
    return (found[1], found[2]) if found else ("", pattern)


@functools.cache
def class_named(name: str) -> type:
    """A class of refnp's modules."""
    waiting = [Module]
    for one in waiting:
        if one.__name__ == name:
            return one
        waiting += one.__subclasses__()
    raise ValueError(f"no module of refnp is a {name}")


def bound_with(methods: Methods, module: Module, parameters: Any) -> Module:
    """A module with these parameters, and other methods in some of its parts."""
    found = bound(module, parameters)
    for one in modules_in(found):
        for owner, own in methods.items():
            if isinstance(one, owner):
                one.__class__ = type(type(one).__name__, (type(one),), dict(own))
    return found


def modules_in(value: Any) -> Iterator[Module]:
    """A module, and those that it is made of."""
    if isinstance(value, Module):
        yield value
        value = vars(value)
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from modules_in(part)
