"""Which framework a function or a module belongs to, found out; and a module with parameters that are given to it.

What is defined in a framework's package is the framework's. Of any other function the code is read: which packages do
the names stand for that it uses? What remains open is tried: NumPy arrays first, then arrays of each framework that is
imported; the framework is the one that owns what comes back.
"""

import dataclasses
import dis
import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from refnp.autograd import Tensor, vjp
from refnp.layers.module import Module
from refnp.numbers.precision import in_own_type
from refnp.verify.frameworks import version_of as version_of_package
from refnp.verify.frameworks.native import NATIVES, NUMPY, Native, of_chosen, only_the_processor
from refnp.version import __version__

BELONGS_TO = {"jaxlib": "jax", "flax": "jax", "equinox": "jax"}  # packages whose arrays are another's
DEPTH = 3  # of the functions that are read: the function, those that it calls, those that these call


def run_refnp(
    function: Callable, arrays: Any, cotangent: np.ndarray | None, wanted: Any, device: str | None = None
) -> tuple[np.ndarray, list[np.ndarray]]:
    """By refnp's own tape; without gradients, on plain arrays."""
    chosen = list(wanted)
    if not chosen:
        return np.asarray(function(*map(np.array, arrays))), []
    output, pullback = vjp(of_chosen(function, arrays, chosen), *(arrays[index] for index in chosen))
    return np.asarray(output), [np.asarray(gradient) for gradient in pullback(cotangent)]


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
    """The framework whose package defines the class of a module or a compiled function; None for a plain function."""
    packages = {top(kind.__module__) for kind in type(function).__mro__}
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


# Modules, whose parameters are arguments of a case


def parameters_of(native: Native, module: Any) -> dict[str, tuple[int, ...]] | None:
    """The names and shapes of a module's parameters; None for what is no module, ValueError for one of another kind."""
    if native is REFNP or native.package in ("torch", "paddle"):
        if not hasattr(module, "named_parameters"):
            return None
        return {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}
    if native.package == "mlx" and hasattr(module, "parameters"):
        return {name: tuple(parameter.shape) for name, parameter in flat(module).items()}
    kept = any(hasattr(module, name) for name in ("trainable_variables", "trainable_weights", "parameters"))
    if kept or any(kind.__module__.partition(".")[0] in ("equinox", "flax") for kind in type(module).__mro__):
        raise ValueError(
            f"{type(module).__name__}: the parameters of modules of {native.name} cannot be set for a case; judge a "
            "function of all arguments, parameters among them, that calls the module with these"
        )
    return None


def forward_of(native: Native, module: Any) -> Callable:
    """What says which arguments a module takes."""
    return module.forward if native.package in ("torch", "paddle") else module


def with_parameters(
    native: Native, module: Any, dtype: str, device: str | None
) -> Callable[[Mapping[str, Any]], Callable]:
    """The function that gives the module other parameters, by name, for a call; PyTorch's buffers follow."""
    if native is REFNP:
        return lambda values: module.bind(values) if values else module
    if native.package == "torch":
        return lambda values: torch_bound(module, values, dtype, device)
    return lambda values: lambda *given, **options: called_with(native, module, values, given, options)


def torch_bound(module: Any, values: Mapping[str, Any], dtype: str, device: str | None) -> Callable:
    """A module of PyTorch with these parameters, and with copies of its buffers in the precision of the case."""
    import torch

    def copied(buffer: Any) -> Any:
        kind = getattr(torch, dtype) if buffer.is_floating_point() else buffer.dtype
        return buffer.to(device or "cpu", kind, copy=True)

    buffers = {name: copied(buffer) for name, buffer in module.named_buffers()}
    return lambda *given, **options: torch.func.functional_call(module, {**buffers, **values}, given, options)


def called_with(native: Native, module: Any, values: Mapping[str, Any], given: Any, options: Any) -> Any:
    """What a module of MLX or Paddle returns with these parameters, which it has for this call alone."""
    before = flat(module) if native.package == "mlx" else dict(module.named_parameters())
    before = {name: before[name] for name in values}
    put = put_mlx if native.package == "mlx" else put_paddle
    put(module, values)
    try:
        return module(*given, **options)
    finally:
        put(module, before)


def flat(module: Any) -> dict[str, Any]:
    """The parameters of a module of MLX by name."""
    from mlx.utils import tree_flatten

    return dict(tree_flatten(module.parameters()))


def put_mlx(module: Any, values: Mapping[str, Any]) -> None:
    """Put these parameters in."""
    from mlx.utils import tree_unflatten

    module.update(tree_unflatten(list(values.items())))


def put_paddle(module: Any, values: Mapping[str, Any]) -> None:
    """Put these parameters in, also tensors that are no parameters."""
    for name, value in values.items():
        *path, own = name.split(".")
        functools.reduce(getattr, path, module)._parameters[own] = value
