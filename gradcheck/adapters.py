"""Gradients as they are written by hand and in PyTorch, in the form that `check` takes.

    check(forward_backward(affine_forward, affine_backward), (x, w, b))
    check(torch(layer), (x,))                                        # its input and its parameters
    check(torch(Function), (x, w))                                   # torch.autograd.Function

Each gives a `Claim`, the function of arrays together with its gradient: f, vjp = torch(layer) has both.
"""

import copy
import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gradcheck.flat import leaves_of, replace_leaves
from gradcheck.report import GradientError

REMEDIES = {
    "torch": "module.double() and float64 tensors, without .float() inside",
    "jax": 'jax.config.update("jax_enable_x64", True) before the first array is made',
    "": "casting every constant and weight to np.float64, without .astype(np.float32) inside",
}


class Claim(NamedTuple):
    """A function of arrays, `f(*args)`, and the gradient that is claimed for it, `vjp(f, *args)`.

    `prepare` makes the arguments of f from those that `check` and `compare` are given.
    """

    f: Callable
    vjp: Callable
    prepare: Callable[[tuple], tuple] = tuple


class OfLibrary(Claim):
    """The claim of a library: also its Hessian-vector product, and `only(argnums)`, which differentiates no others."""

    hvp: Callable
    only: Callable[[Collection[int]], Claim]


@dataclass(frozen=True)
class Option:
    """An argument that is handed over as it is, a copy each time, and not differentiated."""

    value: Any


def forward_backward(forward: Callable, backward: Callable) -> Claim:
    """The claim of a layer written by hand as two functions, as courses teach it.

        forward(*args) → (out, cache)        backward(dout, cache) → gradients
        layer.forward(*args) → out           layer.backward(dout) → gradients, of what the layer keeps

    backward returns a gradient for each argument, or for each floating array, in their order; a single one need not be
    in a tuple; or a dict, with the gradient of argument x under "dx" or "x". Dicts and Python's own numbers among the
    arguments are options: they are not differentiated. Raises TypeError and GradientError for what is neither.
    """

    keeps = len(inspect.signature(backward).parameters) == 1 if callable(backward) else False

    def f(*args: Any) -> Any:
        return forward(*_opened(args)) if keeps else _out_and_cache(forward, _opened(args))[0]

    def vjp(_: Callable, *args: Any) -> tuple[Any, Callable]:
        args = _opened(args)
        if keeps:
            return forward(*args), lambda u: _in_order(backward(u), forward, args)
        out, cache = _out_and_cache(forward, args)
        return out, lambda u: _in_order(backward(u, cache), forward, args)

    return Claim(_named(f, forward), vjp, lambda args: tuple(Option(a) if _is_option(a) else a for a in args))


def _is_option(arg: Any) -> bool:
    return isinstance(arg, (Mapping, float, int))


def _opened(args: tuple) -> tuple:
    return tuple(copy.deepcopy(arg.value) if isinstance(arg, Option) else arg for arg in args)


def _out_and_cache(forward: Callable, args: tuple) -> tuple[Any, Any]:
    found = forward(*args)
    if not isinstance(found, tuple) or len(found) != 2:
        said = f"a tuple of {len(found)}" if isinstance(found, tuple) else f"one {type(found).__name__}"
        raise TypeError(f"forward returns {said}; it must return (out, cache), where out may be a tuple of arrays")
    return found


def _in_order(gradients: Any, forward: Callable, args: tuple) -> tuple:
    """One gradient for each argument, None for those that have none."""
    floating = [i for i, arg in enumerate(args) if _is_floating(arg) and not _is_option(arg)]
    if isinstance(gradients, Mapping):
        names = list(inspect.signature(forward).parameters)[: len(args)]
        given = {name: gradients[key] for name in names for key in (name, f"d{name}") if key in gradients}
        if missing := [names[i] for i in floating if names[i] not in given]:
            raise GradientError(f"backward gives no gradient for {missing[0]}; its keys are {', '.join(gradients)}")
        return tuple(given.get(name) for name in names)
    found = list(gradients) if isinstance(gradients, (tuple, list)) else [gradients]
    if len(found) == len(args):
        return tuple(found)
    if len(found) != len(floating):
        raise GradientError(
            f"backward returns {len(found)} gradients; it must return one for each of the {len(floating)} floating "
            f"arrays, or of all {len(args)} arguments"
        )
    at = dict(zip(floating, found, strict=True))
    return tuple(at.get(i) for i in range(len(args)))


def _is_floating(leaf: Any) -> bool:
    return isinstance(leaf, (np.ndarray, np.generic, float)) and np.asarray(leaf).dtype.kind in "fc"


def torch(function: Any, argnums: Collection[int] | None = None) -> Claim:
    """The claim of PyTorch's autograd for a module, a torch.autograd.Function, or any function of tensors.

    Arguments are arrays or tensors, of which those of `argnums` require a gradient, all unless told; `check` tells its
    own. A module's parameters are checked too, as further arguments, in the dtype that is asked for; its buffers are
    copied, so that it is left as it is. A Function may be of the older kind, without `setup_context`, which torch.func
    refuses. At order 2 it is autograd's own second derivative. Raises TypeError for what is not callable.
    """
    import torch as library

    call: Callable
    if isinstance(function, type) and issubclass(function, library.autograd.Function):
        call = function.apply  # type: ignore[attr-defined]
    elif isinstance(function, library.nn.Module):
        call = functools.partial(_of_module, function)
    elif callable(function):
        call = function
    else:
        raise TypeError(f"torch: it is a {type(function).__name__}; pass a module, a Function or a function of tensors")

    def f(*args: Any) -> Any:
        with library.no_grad():
            return _arrays(call(*_tensors(args)))

    def recorded(args: tuple) -> tuple[Any, dict, Any]:
        """The arguments as tensors, those that require a gradient by their paths, and the value."""
        tensors = _tensors(args)
        wanted = {path: t.requires_grad_() for path, t in leaves_of(tensors)
                  if library.is_tensor(t) and t.is_floating_point()
                  and (argnums is None or path[0] in argnums)}  # fmt: skip
        return tensors, wanted, call(*_cloned(tensors))

    def gradients(values: Any, cotangents: Any, wanted: dict, **options: bool) -> dict:
        """The gradient of everything that requires one, None where none comes back."""
        given = dict(leaves_of(cotangents))
        pairs = [(y, library.as_tensor(given[path])) for path, y in leaves_of(values)
                 if library.is_tensor(y) and y.requires_grad and given.get(path) is not None]  # fmt: skip
        if not pairs:
            return dict.fromkeys(wanted)
        outputs, bars = zip(*pairs, strict=True)
        found = library.autograd.grad(outputs, [*wanted.values()], bars, **options)
        return dict(zip(wanted, found, strict=True))

    def like(tensors: Any, found: dict) -> tuple:
        """Containers as the arguments are, with what was found in their places, and None elsewhere."""
        return tuple(_arrays(replace_leaves(tensors, {path: found.get(path) for path, _ in leaves_of(tensors)})))

    def vjp(_: Callable, *args: Any) -> tuple[Any, Callable]:
        tensors, wanted, value = recorded(args)
        again = {"allow_unused": True, "retain_graph": True}
        return _arrays(value), lambda u: like(tensors, gradients(value, u, wanted, **again))

    def hvp(_: Callable, args: tuple, tangents: Any, cotangent: Any) -> tuple:
        tensors, wanted, value = recorded(args)
        bars = {path: u.clone().requires_grad_() for path, u in leaves_of(_tensors(cotangent)) if library.is_tensor(u)}
        first = gradients(value, replace_leaves(cotangent, bars), wanted, allow_unused=True, create_graph=True)
        if any(node.name().endswith("::Error") for node in _behind(first.values())):  # where ȳ has a gradient
            raise RuntimeError("the rule is marked with @once_differentiable")
        return like(tensors, gradients(replace_leaves(tensors, first), tangents, wanted, allow_unused=True))

    claim = OfLibrary(_named(f, function), vjp, functools.partial(_with_parameters, function))
    claim.hvp, claim.only = hvp, functools.partial(torch, function)
    return claim


def _behind(tensors: Iterable) -> set:
    """The nodes of PyTorch's tape from which tensors come."""
    seen: set = set()
    left = [tensor.grad_fn for tensor in tensors if tensor is not None]
    while left:
        node = left.pop()
        if node is not None and node not in seen:
            seen.add(node)
            left += [before for before, _ in node.next_functions]
    return seen


def _with_parameters(function: Any, args: tuple) -> tuple:
    """Arrays for tensors; and, for a module, its parameters after them, in the dtype of the floating ones."""
    args = _arrays(args)
    if isinstance(function, type) or not hasattr(function, "named_parameters"):
        return args
    dtypes = [np.asarray(leaf).dtype for _, leaf in leaves_of(args) if _is_floating(leaf)]
    parameters = {name: p.detach().cpu().numpy().copy() for name, p in function.named_parameters()}
    if dtypes:
        parameters = {name: p.astype(np.result_type(*dtypes)) for name, p in parameters.items()}
    return (*args, parameters)


def _of_module(module: Any, *args: Any) -> Any:
    """module(*inputs), with the parameters in the last argument, and buffers of their dtype."""
    import torch as library

    *inputs, parameters = args
    dtype = next(iter(parameters.values())).dtype if parameters else None
    buffers = {name: b.clone().to(dtype) if b.is_floating_point() and dtype else b.clone()
               for name, b in module.named_buffers()}  # fmt: skip
    return library.func.functional_call(module, (parameters, buffers), tuple(inputs))


def _tensors(tree: Any) -> Any:
    """The same containers with a tensor for each array; it shares the array's memory."""
    import torch as library

    return replace_leaves(tree, {path: library.as_tensor(leaf) for path, leaf in leaves_of(tree)
                                 if isinstance(leaf, (np.ndarray, np.generic, float))})  # fmt: skip


def _cloned(tensors: Any) -> Any:
    """The same containers with a tensor computed from each, into which an operation may write."""
    return replace_leaves(tensors, {path: leaf.clone() for path, leaf in leaves_of(tensors) if hasattr(leaf, "clone")})


def _arrays(tree: Any) -> Any:
    """The same containers with an array for each tensor; it shares the tensor's memory."""
    return replace_leaves(tree, {path: leaf.detach().cpu().numpy() for path, leaf in leaves_of(tree)
                                 if hasattr(leaf, "detach")})  # fmt: skip


def _named(f: Callable, after: Any) -> Callable:
    f.__name__ = str(getattr(after, "__name__", type(after).__name__))
    return functools.wraps(after)(f) if inspect.isfunction(after) else f


def arguments(f: Any, args: Any, vjp: Callable | None, argnums: Any) -> tuple[Any, Any, Callable | None, Any]:
    """f, args and vjp as they were given, and no hvp; for a Claim its own, and the arguments it prepares."""
    if not isinstance(f, Claim):
        return f, args, vjp, None
    if isinstance(f, OfLibrary) and argnums is not None:
        f = f.only({argnums} if isinstance(argnums, int) else set(argnums))
    prepared = f.prepare(tuple(args)) if isinstance(args, (tuple, list)) else args
    return f.f, prepared, vjp or f.vjp, f.hvp if isinstance(f, OfLibrary) and not vjp else None


def remedy(*functions: Any) -> str:
    """How to compute in float64, in the library that these functions are of or mention."""
    roots = {root for function in functions for root in _libraries(function)}
    return next((how for name, how in REMEDIES.items() if name in roots), REMEDIES[""])


def _libraries(function: Any, depth: int = 3) -> Iterator[str]:
    """The packages that a function is defined in, and those of the objects that it refers to."""
    yield (getattr(function, "__module__", None) or type(function).__module__).partition(".")[0]
    yield type(function).__module__.partition(".")[0].removesuffix("lib")  # jaxlib
    if inspect.ismodule(function):
        yield function.__name__.partition(".")[0]
    if inspect.isfunction(function) and depth:
        names = inspect.getclosurevars(function)
        for value in (*names.nonlocals.values(), *names.globals.values()):
            yield from _libraries(value, depth - 1)
