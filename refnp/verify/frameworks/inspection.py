"""Which framework a function or a module belongs to, found out.

What is defined in a framework's package is the framework's. Of any other function the code is read: which packages do
the names stand for that it uses? What remains open is tried: NumPy arrays first, then arrays of each framework that is
imported; the framework is the one that owns what comes back.
"""

import dataclasses
import dis
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from refnp.autograd import Tensor, vjp
from refnp.layers.module import Module
from refnp.numbers.precision import in_own_type
from refnp.verify.frameworks import version_of as version_of_package
from refnp.verify.frameworks.native import NATIVES, NUMPY, TINYGRAD, Answer, Native, Question, only_the_processor
from refnp.version import __version__

BELONGS_TO = {"jaxlib": "jax", "flax": "jax", "equinox": "jax"}  # packages whose arrays are another's
DEPTH = 3  # of the functions that are read: the function, those that it calls, those that these call


def run_refnp(asked: Question) -> Answer:
    """By refnp's own tape; without gradients, on plain arrays."""
    if not asked.wanted:
        return np.asarray(asked.function(*map(np.array, asked.arrays))), []
    output, pullback = vjp(asked.of_chosen(asked.arrays), *asked.chosen(asked.arrays))
    gradients = pullback(asked.cotangent) if asked.has_gradients(output) else ()
    return np.asarray(output), [np.asarray(gradient) for gradient in gradients]


def array_of(x: np.ndarray, device: str | None = None) -> np.ndarray:
    """A copy; refnp computes with NumPy's arrays."""
    only_the_processor("refnp", device)
    return np.array(in_own_type(x))


def tensor_of(x: np.ndarray, device: str | None = None) -> Any:
    """On the tape, if it is of numbers that can have a gradient."""
    return Tensor(x) if x.dtype.kind in "fc" else x


REFNP = Native("refnp", "refnp", array_of, np.asarray, lambda thing: isinstance(thing, (Tensor, Module)), run_refnp)
TENSORS = dataclasses.replace(REFNP, array=tensor_of)


def everyone() -> dict[str, Native]:
    """All frameworks by name, refnp among them."""
    return {**NATIVES, REFNP.name: REFNP}


def named(name: str) -> Native:
    """A framework by its name or its package, whatever the capitals; ValueError if there is none."""
    for native in everyone().values():
        if name.lower() in (native.name.lower(), native.package.lower()):
            return native
    raise ValueError(f"framework={name!r}: there is no such framework; name {', '.join(everyone())}")


def version_of(native: Native) -> str:
    """ "PyTorch 2.13.0+cpu"."""
    if native is REFNP:
        return f"refnp {__version__}"
    return f"{native.name} {version_of_package(native.package)}"


def found_out(function: Callable, attempt: Callable[[Native], Any]) -> Native:
    """The framework of a function; `attempt(native)` calls it with arrays of that framework.

    The first is taken whose arrays go in and come out; if there is none, the owner of what comes out otherwise.
    """
    packages = packages_of(function)
    candidates = [native for native in everyone().values() if native.package in packages and native is not NUMPY]
    imported = [native for native in NATIVES.values() if native.package in sys.modules and native is not NUMPY]
    owners = []
    for native in dict.fromkeys([*candidates, NUMPY, *imported]):
        try:
            output = attempt(native)
        except Exception:  # it is no function of this framework's arrays
            continue
        if native.owns(output):
            return native
        owners += [other for other in everyone().values() if other.owns(output)] or [native]
    return [*owners, *candidates, NUMPY][0]


def packages_of(function: Any) -> set[str]:
    """The packages that a callable comes from, or that its code uses."""
    return {top(part) for part in parts(function, DEPTH)}


def of_object(function: Any) -> Native | None:
    """The framework whose package defines the class of a module or a compiled function; None for a plain function.

    Modules of tinygrad are of any class, and have its modules or tensors as attributes, or in lists.
    """
    packages = {top(kind.__module__) for kind in type(function).__mro__}
    inside = [] if inspect.isroutine(function) else [*getattr(function, "__dict__", {}).values()]
    inside += [part for value in inside if isinstance(value, (list, tuple)) for part in value]
    packages |= {TINYGRAD.package} if any(map(TINYGRAD.owns, inside)) else set()
    return next((native for native in everyone().values() if native.package in packages), None)


def top(name: Any) -> str:
    """ "jax.numpy" → "jax"."""
    package = str(name).partition(".")[0]
    return BELONGS_TO.get(package, package)


def parts(function: Any, depth: int) -> Iterator[str]:
    """The modules that stand behind a callable: its own, and those of what its code names."""
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "__func__", function)
    function = getattr(function, "__wrapped__", function)
    yield from (getattr(function, "__module__", None) or "",)
    code = getattr(function, "__code__", None) or getattr(vars(type(function)).get("__call__"), "__code__", None)
    if not isinstance(code, CodeType) or not depth:
        return
    for value in values_of(function, code):
        if isinstance(value, ModuleType):
            yield value.__name__
        elif callable(value):
            yield from parts(value, depth - 1 if top(getattr(value, "__module__", "")) != "refnp" else 0)
    yield from imported_by(code)


def values_of(function: Any, code: CodeType) -> Iterator[Any]:
    """What the names in a function's code stand for."""
    known = getattr(function, "__globals__", None) or getattr(vars(type(function)).get("__call__"), "__globals__", {})
    yield from (known[name] for name in names_in(code) if name in known)
    for cell in getattr(function, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue


def names_in(code: CodeType) -> Iterator[str]:
    """The names in a piece of code, and in the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


def imported_by(code: CodeType) -> Iterator[str]:
    """The modules that a piece of code imports itself."""
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            yield str(step.argval)
