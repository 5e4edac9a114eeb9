"""Modules of frameworks, whose parameters are arguments of a case: their names, and a call with others in their place.

KINDS["torch"].named(module)                          {name: array}; None for what is no module
KINDS["torch"].bound(module, values, dtype, device)   the module with these parameters, as a function
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from refnp.layers.module import Module
from refnp.verify.frameworks.inspection import REFNP
from refnp.verify.frameworks.native import Native, made_by

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Kind:
    """How the modules of a framework name their parameters, and compute with others; see above."""

    named: Callable[[Any], dict[str, Any] | None]
    bound: Callable[[Any, Values, str, str | None], Callable]
    forward: Callable[[Any], Callable] = lambda module: module  # what says which arguments it takes


def parameters_of(native: Native, module: Any) -> dict[str, tuple[int, ...]] | None:
    """The names and shapes of a module's parameters; None for what is no module, ValueError for one of another kind."""
    found = KINDS[native.package].named(module) if native.package in KINDS else None
    if found is not None:
        return {name: tuple(parameter.shape) for name, parameter in found.items()}
    linen = native.package == "jax" and hasattr(module, "apply")
    if linen or any(hasattr(module, name) for name in ("trainable_variables", "trainable_weights")):
        raise ValueError(
            f"{type(module).__name__}: the parameters of such modules of {native.name} cannot be set for a case; judge "
            "a function of all arguments, parameters among them, that calls the module with these, for flax.linen "
            'lambda x, weight, bias: module.apply({"params": {"kernel": weight, "bias": bias}}, x)'
        )
    return None


def forward_of(native: Native, module: Any) -> Callable:
    """What says which arguments a module takes."""
    return KINDS[native.package].forward(module) if native.package in KINDS else module


def with_parameters(native: Native, module: Any, dtype: str, device: str | None) -> Callable[[Values], Callable]:
    """The function that gives the module other parameters, by name, for a call; PyTorch's buffers follow."""
    return lambda values: KINDS[native.package].bound(module, values, dtype, device)


def kept(module: Any) -> dict[str, Any] | None:
    """The parameters of a module that lists them."""
    return dict(module.named_parameters()) if hasattr(module, "named_parameters") else None


def for_one_call(named: Callable[[Any], dict[str, Any] | None], put: Callable[[Any, Values], None]) -> Callable:
    """What binds a module that can only be changed: it has the parameters for a call alone."""

    def bound(module: Any, values: Values, dtype: str, device: str | None) -> Callable:
        def call(*given: Any, **options: Any) -> Any:
            before = {name: own for name, own in (named(module) or {}).items() if name in values}
            put(module, values)
            try:
                return module(*given, **options)
            finally:
                put(module, before)

        return call

    return bound


# refnp, PyTorch


def refnp_bound(module: Module, values: Values, dtype: str, device: str | None) -> Callable:
    """A copy with these parameters."""
    return module.bind(values) if values else module


def torch_bound(module: Any, values: Values, dtype: str, device: str | None) -> Callable:
    """A module of PyTorch with these parameters, and with copies of its buffers in the precision of the case."""
    import torch

    def copied(buffer: Any) -> Any:
        kind = getattr(torch, dtype) if buffer.is_floating_point() else buffer.dtype
        return buffer.to(device or "cpu", kind, copy=True)

    buffers = {name: copied(buffer) for name, buffer in module.named_buffers()}
    return lambda *given, **options: torch.func.functional_call(module, {**buffers, **values}, given, options)


# JAX: flax.nnx and Equinox, whose modules are trees of arrays


def jax_named(module: Any) -> dict[str, Any] | None:
    """The arrays of floats by the names of attributes that lead to them; None for flax.linen's, which have none."""
    import jax

    if not made_by("flax", "equinox")(module) or hasattr(module, "apply"):
        return None
    leaves, _ = jax.tree_util.tree_flatten_with_path(module)
    return {name_of(path): leaf for path, leaf in leaves if is_parameter(leaf)}


def is_parameter(leaf: Any) -> bool:
    """Whether a leaf is an array of floats."""
    return hasattr(leaf, "shape") and getattr(leaf, "dtype", None) is not None and "float" in str(leaf.dtype)


def name_of(path: Any) -> str:
    """ "layers.0.weight", without the variable of nnx in which the array is."""
    import jax

    return jax.tree_util.keystr(path, simple=True, separator=".").removesuffix(".value")


def jax_bound(module: Any, values: Values, dtype: str, device: str | None) -> Callable:
    """The same tree with other arrays."""
    import jax

    leaves, tree = jax.tree_util.tree_flatten_with_path(module)
    return tree.unflatten([values.get(name_of(path), leaf) for path, leaf in leaves])


def acts_on_one(module: Any) -> bool:
    """Whether a module is of one item, and axes in front are for `jax.vmap`, as modules of Equinox are."""
    return made_by("equinox")(module)


def over_items(call: Callable, axes: int) -> Callable:
    """A function of items with so many axes, of which there are several along axes in front of the first array."""
    import jax

    def of_all(*given: Any, **options: Any) -> Any:
        every: dict[Any, Any] = {**dict(enumerate(given)), **options}
        arrays = {key: a for key, a in every.items() if hasattr(a, "shape")}
        first = next(iter(arrays.values()))
        front = first.shape[: first.ndim - axes]
        several = [key for key, array in arrays.items() if array.shape[: len(front)] == front]  # others all items share

        def of_one(*own: Any) -> Any:
            chosen = every | dict(zip(several, own, strict=True))
            return call(*(chosen[i] for i in range(len(given))), **{name: chosen[name] for name in options})

        for _ in front:
            of_one = jax.vmap(of_one)
        return of_one(*(arrays[key] for key in several))

    return of_all


# MLX, Paddle, tinygrad


def mlx_named(module: Any) -> dict[str, Any] | None:
    """The parameters by name."""
    from mlx.utils import tree_flatten

    return dict(tree_flatten(module.parameters())) if hasattr(module, "parameters") else None


def put_mlx(module: Any, values: Values) -> None:
    """Put these parameters in."""
    from mlx.utils import tree_unflatten

    module.update(tree_unflatten(list(values.items())))


def put_paddle(module: Any, values: Values) -> None:
    """Put these parameters in, also tensors that are no parameters."""
    for name, value in values.items():
        *path, own = name.split(".")
        functools.reduce(getattr, path, module)._parameters[own] = value


def tinygrad_named(module: Any) -> dict[str, Any] | None:
    """The tensors of an object by the names of attributes that lead to them."""
    from tinygrad.nn.state import get_state_dict

    return None if inspect.isroutine(module) else get_state_dict(module)


def put_tinygrad(module: Any, values: Values) -> None:
    """Put these tensors in."""
    for name, value in values.items():
        *path, own = name.split(".")
        owner = functools.reduce(part_of, path, module)
        if isinstance(owner, list):
            owner[int(own)] = value
        elif isinstance(owner, dict):
            owner[own] = value
        else:
            setattr(owner, own, value)


def part_of(owner: Any, name: str) -> Any:
    """What stands under a name in an object, a dict, a list or a tuple."""
    if isinstance(owner, (list, tuple)):
        return owner[int(name)]
    return owner[name] if isinstance(owner, dict) else getattr(owner, name)


KINDS = {
    REFNP.package: Kind(kept, refnp_bound),
    "torch": Kind(kept, torch_bound, lambda module: module.forward),
    "jax": Kind(jax_named, jax_bound),
    "mlx": Kind(mlx_named, for_one_call(mlx_named, put_mlx)),
    "paddle": Kind(kept, for_one_call(kept, put_paddle), lambda module: module.forward),
    "tinygrad": Kind(tinygrad_named, for_one_call(tinygrad_named, put_tinygrad)),
}
