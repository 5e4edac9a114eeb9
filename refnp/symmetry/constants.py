"""The precision of the numbers that a function holds: tables in its closure, weights of its module.

A cosine that was rounded to float32 is no cosine: what it leaves of a symmetry is a steady discrepancy of 3e-8 in every
precision, and no sign of a mistake. A copy in float32 of finer numbers that are held as well is none: a model that was
once called in float32 may keep one.
"""

import functools
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

MOST = 2000  # objects that are asked for what they hold


def held_in_float32(f: Any) -> bool:
    """Whether f holds numbers in float32 that are no copies: in its closure, defaults, globals or attributes."""
    held = list(_all_held(f))
    single = [a for a in held if _precision(a) == "float32"]
    if not single:
        return False
    finer = [b for b in map(_array, (b for b in held if _precision(b) == "float64")) if (b != b.astype("f")).any()]
    copies = {(b.shape, b.astype("f").tobytes()) for b in finer}
    return any((a.shape, a.tobytes()) not in copies for a in map(_array, single))


def _precision(value: Any) -> str:
    """ "float32" for an array of any framework that has it, "float64" likewise, "" for all else."""
    name = str(getattr(value, "dtype", ""))
    return name[-7:] if name.endswith(("float32", "float64")) else ""


def _array(value: Any) -> Any:
    """A framework's array, as one of NumPy."""
    for method in ("detach", "cpu", "numpy"):
        value = getattr(value, method, lambda value=value: value)()
    return np.asarray(value)


def _all_held(f: Any) -> Iterator[Any]:
    """f and what it refers to, at any depth."""
    waiting, seen = [f], {id(f): f}
    while waiting and len(seen) < MOST:
        value = waiting.pop(0)
        yield value
        for inside in _held(value):
            if id(inside) not in seen and not isinstance(inside, (type, types.ModuleType, str, int, float)):
                seen[id(inside)] = inside
                waiting.append(inside)


def _held(value: Any) -> Iterator[Any]:
    """What a function, an object or a container refers to."""
    if isinstance(value, types.FunctionType):
        yield from (cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType())
        yield from (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        yield from (value.__globals__.get(name) for name in value.__code__.co_names)
    elif isinstance(value, types.MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, functools.partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, (list, tuple, set)):
        yield from value
    else:
        yield from (getattr(value, "__wrapped__", None), *getattr(value, "__dict__", {}).values())
