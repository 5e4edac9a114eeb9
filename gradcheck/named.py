"""`python -m gradcheck mymodule:f`: the gradient of one function, found by its name.

    python -m gradcheck mymodule:layer --shapes 2,3 3,4 4        three arguments, drawn; "()" is a number
    python -m gradcheck models/net.py:Net                        a file

What is checked depends on what the name leads to: a `Claim`; a PyTorch module or autograd.Function; a function f beside
which the module has f_vjp, or, for f or f_forward, f_backward, by the conventions of `check` and `forward_backward`; or
a function of PyTorch, JAX or refnp, whose own gradient is taken. Arguments are f_args of the module, or else drawn.
"""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from gradcheck.adapters import Claim, forward_backward, torch
from gradcheck.checks import compare
from gradcheck.flat import leaves_of
from gradcheck.report import Report

USUAL = (2, 3)  # the shape of an argument, where none is given


def compare_named(
    target: str, shapes: Sequence[str] | None, digits: float, otherwise: Callable[[], Callable]
) -> Report:
    """The report on MODULE:NAME, with the vjp that `otherwise` gives where its gradient is not found by the name.

    Raises ValueError where there is no such thing, or it does not take the arguments.
    """
    module, name = found(target)
    value = module
    try:
        for part in name.split("."):
            value = getattr(value, part)
    except AttributeError:
        if not hasattr(module, f"{name}_forward"):
            raise ValueError(f"{target}: {module.__name__} has no {name}") from None
        value = getattr(module, f"{name}_forward")
    stem = name.removesuffix("_forward")
    given = getattr(module, f"{stem}_args", None)
    if shapes is None and given is not None:
        args = tuple(given() if callable(given) else given)
    else:
        args = drawn(value, shapes)
    try:
        claim = claim_of(value, module, stem, args, otherwise)
        return compare(claim, args, name=name, digits=digits)
    except Exception as refusal:
        if isinstance(refusal, AssertionError):
            raise
        sizes = ", ".join(str(np.shape(arg)) for arg in args)
        raise ValueError(
            f"{target}: {type(refusal).__name__} for arguments of shape {sizes}: {refusal}\ngive the shapes that it "
            f"takes, --shapes 2,3 3,4 4, or its arguments as {stem}_args in its module"
        ) from refusal


def found(target: str) -> tuple[ModuleType, str]:
    """The module, and the name in it, of MODULE:NAME or FILE.py:NAME."""
    where, _, name = target.rpartition(":")
    if not where or not name:
        raise ValueError(f"{target!r} is no MODULE:NAME, such as mymodule:f")
    if not where.endswith(".py"):
        sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(where), name
    spec = importlib.util.spec_from_file_location(Path(where).stem, where)
    if spec is None or spec.loader is None or not Path(where).is_file():
        raise ValueError(f"{where}: there is no such file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module, name


def drawn(value: Any, shapes: Sequence[str] | None) -> tuple:
    """Normal numbers in these shapes; by default in the usual one, for each argument that has to be given."""
    sizes = [USUAL] * _required(value) if shapes is None else [_shape(text) for text in shapes]
    rng = np.random.default_rng(0)
    return tuple(rng.normal(size=size) for size in sizes)


def _shape(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.strip("()").split(",") if part.strip())
    except ValueError:
        raise ValueError(f"--shapes: {text!r} is no shape, such as 2,3 or 4 or ()") from None


def _required(value: Any) -> int:
    """How many arguments must be given: to the function, or to forward, of a class of PyTorch without ctx."""
    forward = value.forward if hasattr(value, "forward") else value.f if isinstance(value, Claim) else value
    parameters = [p for p in inspect.signature(forward).parameters.values() if p.default is p.empty]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds for p in parameters) - (isinstance(value, type) and hasattr(value, "forward"))


def claim_of(value: Any, module: ModuleType, stem: str, args: tuple, otherwise: Callable[[], Callable]) -> Claim:
    """The function with the gradient that belongs to it."""
    library = sys.modules.get("torch")
    if isinstance(value, Claim):
        return value
    if library is not None and isinstance(value, type) and issubclass(value, library.nn.Module):
        value = value()
    if library is not None and (isinstance(value, (type, library.nn.Module))):
        return torch(value)
    if (vjp := getattr(module, f"{stem}_vjp", None)) is not None:
        return Claim(value, vjp)
    if (backward := getattr(module, f"{stem}_backward", None)) is not None:
        return forward_backward(value, backward)
    if library is not None and _takes_tensors(value, args):
        return torch(value)
    roots = {type(leaf).__module__.partition(".")[0] for _, leaf in leaves_of(value(*args))}
    return Claim(value, sys.modules["jax"].vjp if roots & {"jax", "jaxlib"} else otherwise())


def _takes_tensors(f: Callable, args: tuple) -> bool:
    """Whether f is a function of PyTorch's: one that answers tensors with tensors, but not arrays."""
    tensor = sys.modules["torch"].is_tensor
    try:
        return any(tensor(leaf) for _, leaf in leaves_of(f(*args)))
    except Exception:  # f may be any code
        return True
