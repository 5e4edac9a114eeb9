"""Functions of other frameworks as callables on NumPy arrays by name, in any precision that they have.

    f = in_torch(torch.nn.MultiheadAttention(4, 2), call=lambda m, x: m(x, x, x)[0])
    f(x=array), f.in_precision(np.float64)(x=array)           what a claim asks for

PyTorch and JAX are imported inside functions only. `in_words` says of an error of theirs what to do about it.
"""

import contextlib
import copy
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

NO_BFLOAT16 = (
    "which NumPy has not; give float32, as `in_torch` and `in_jax` do, or in a function of your own `.float()` in "
    "PyTorch, `.astype(jnp.float32)` in JAX"
)
WRAPPED = "in_torch(module) and in_jax(function) take arrays, in the precision of the input"
REMEDIES = (  # a part of the message, and what to do
    ("requires grad", "compute it under torch.no_grad(), which in_torch(module) does, or give .detach().numpy()"),
    ("must be tensor, not numpy", f"it takes tensors, and the claim gives NumPy arrays: {WRAPPED}"),
    ("got (numpy.ndarray", f"it takes tensors, and the claim gives NumPy arrays: {WRAPPED}"),
    ("to have the same dtype", f"weights and input differ in precision: {WRAPPED}, and cast the weights"),
    ("must have the same dtype", f"weights and input differ in precision: {WRAPPED}, and cast the weights"),
    ("should be the same", f"weights and input differ in dtype or device: {WRAPPED}, and move the weights with them"),
    ("scalar types: long, int", "it takes whole numbers, such as token ids: let `draw` give integers"),
    ("bfloat16", f"it is bfloat16, {NO_BFLOAT16}"),
    ("convert cuda", "it is on another device: give .cpu().numpy(), as in_torch does"),
    ("traced array", "NumPy is called inside of jit or grad: write this part with jax.numpy, or leave out jit"),
    ("type numpy.longdouble", "PyTorch has float32 and float64, no longdouble"),
)


def in_words(error: Exception) -> str:
    """The first line of an error, and what to do about it where it is one of a framework that is known."""
    text = str(error)
    first_line = (text.splitlines() or [""])[0]
    remedies = (remedy for part, remedy in REMEDIES if part in text.lower())
    remedy = next(remedies, "")
    return f"{first_line}  [{remedy}]" if remedy else first_line


class InFramework:
    """A function of a framework that takes and gives NumPy arrays; `in_torch` and `in_jax` make them.

    f(x=…)                       in the precision of the real arguments, or in f's own if there are none
    f.in_precision(dtype)(x=…)   in this one, weights included
    """

    def __init__(self, name: str, run: Callable[..., Any], cast: Callable[[DTypeLike | None], Any]):
        self.__name__ = name
        self._run, self._cast = run, functools.cache(cast)

    def in_precision(self, dtype: DTypeLike | None) -> Callable[..., Any]:
        """f with weights of this dtype, whose real arguments are cast to it; None for those that f has."""
        model = self._cast(None if dtype is None else np.dtype(dtype).name)
        return lambda **arrays: self._run(model, dtype, arrays)

    def __call__(self, **arrays: ArrayLike | None) -> Any:
        real = [np.asarray(a).dtype for a in arrays.values() if a is not None and np.asarray(a).dtype.kind in "fc"]
        return self.in_precision(np.empty(0, np.result_type(*real)).real.dtype if real else None)(**arrays)


def in_torch(
    module: Callable[..., Any],
    *,
    call: Callable[..., Any] | None = None,
    train: bool = False,
    seed: int = 0,
    device: Any = None,
) -> InFramework:
    """A PyTorch module, or a function of tensors, as a callable on NumPy arrays by name.

        equivariant(in_torch(nn.Conv1d(1, 2, 3)), Shift("x"), Shift(), border=1)
        in_torch(attention, call=lambda module, x: module(x, x, x)[0])

    call     (module, **tensors) → the result. By default the module itself, which gets its arguments by name where
             its `forward` has parameters of the names of the arrays, and in order where it has none of them
    train    False: `module.eval()`, without dropout, with the averages of batch norms. True: `module.train()`
    seed     of PyTorch's random numbers, set anew for every call, so that dropout drops the same numbers each time
    device   where to compute; the module's own by default. Results come back to NumPy in any case

    A copy of the module is made, as it is now, and for each precision one with weights and buffers in it: float32 and
    float64, and float16 where asked. Nothing is recorded for gradients. A bfloat16 result becomes float32. PyTorch's
    switches (TF32 on GPUs, deterministic algorithms) stay as they are.
    Raises TypeError for longdouble, and for names of which `forward` has some and not others; ValueError for a module
    that cannot be copied, or whose lazy parameters are not there yet.
    """
    import torch

    is_module = isinstance(module, torch.nn.Module)
    original = _copied(module) if isinstance(module, torch.nn.Module) else module
    forward = original.forward if isinstance(original, torch.nn.Module) else original
    if device is None and isinstance(original, torch.nn.Module):
        device = next((p.device for p in [*original.parameters(), *original.buffers()]), None)
    device = torch.device("cpu" if device is None else device)

    def cast(dtype):
        if dtype not in (None, "float16", "float32", "float64"):
            raise TypeError(f"in_torch: PyTorch has float32 and float64, no {dtype}")
        if not is_module:
            return original
        model: Any = copy.deepcopy(original)
        model = model.to(device).train(train)
        return model if dtype is None else model.to(getattr(torch, dtype))

    def tensor(array, dtype):
        return torch.from_numpy(_in_dtype(array, dtype)).to(device)

    def run(model, dtype, arrays):
        tensors = {name: None if a is None else tensor(a, dtype) for name, a in arrays.items()}
        model = copy.deepcopy(model) if train and is_module else model  # training changes averages
        with torch.no_grad(), torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.default_generator.manual_seed(seed)  # torch.manual_seed formats a stack trace for each kind of device
            if device.type == "cuda":
                torch.cuda.manual_seed(seed)
            result = called("in_torch", model, forward, tensors) if call is None else call(model, **tensors)
            return _each(result, torch.Tensor, from_torch)

    def from_torch(tensor):
        tensor = tensor.detach().cpu().resolve_conj()
        return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()

    return InFramework(_name(module), run, cast)


def in_jax(
    function: Callable[..., Any],
    *,
    params: Any = None,
    call: Callable[..., Any] | None = None,
    key: str | None = None,
    seed: int = 0,
    device: Any = None,
) -> InFramework:
    """A function of JAX arrays as a callable on NumPy arrays by name.

        equivariant(in_jax(jax.nn.dot_product_attention), Permute({"key": 0, "value": 0}), Trivial())
        in_jax(model.apply, params=variables)        Flax: the weights are the first argument

    params   a tree of weights that is the first argument, or None if there is none
    call     (function, **arrays) → the result, `params` being filled in. By default the function itself, which gets
             its arguments by name where it has parameters of the names of the arrays, and in order where it has none
    key      the name of an argument that takes a random key, which is made from `seed` for every call
    device   where to compute; JAX's default if None

    Computed with 64-bit numbers switched on for the call, since JAX gives float32 for float64 otherwise. `params`, and
    the function itself where it is a tree of weights (Equinox), are cast to the precision; weights that a function has
    from elsewhere are not. A bfloat16 result becomes float32. The precision of matrix products on GPUs and TPUs
    (`jax_default_matmul_precision`) stays as it is.
    Raises TypeError for longdouble, and for names of which the function has some and not others.
    """
    import jax
    import jax.experimental

    x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64

    def cast(dtype):
        if dtype not in (None, "float16", "float32", "float64"):
            raise TypeError(f"in_jax: JAX has float32 and float64, no {dtype}")

        def leaf(weight):
            real = hasattr(weight, "dtype") and jax.numpy.issubdtype(weight.dtype, jax.numpy.floating)
            return weight.astype(dtype) if real and dtype is not None else weight

        with x64(True):
            return jax.tree.map(leaf, (function, params))

    def run(model, dtype, arrays):
        with x64(True), jax.default_device(device) if device is not None else contextlib.nullcontext():
            given = {name: None if a is None else jax.numpy.asarray(_in_dtype(a, dtype)) for name, a in arrays.items()}
            f, weights = model
            names = f if params is None else functools.partial(f, weights)
            if key is not None:
                names = functools.partial(names, **{key: jax.random.key(seed)})
            result = called("in_jax", names, names, given) if call is None else call(names, **given)
            return _each(result, jax.Array, from_jax)

    def from_jax(array):
        array = np.asarray(array)
        return array.astype(np.float32) if array.dtype.name == "bfloat16" else array

    return InFramework(_name(function), run, cast)


def _copied(module: Any) -> Any:
    """A copy of a module of PyTorch. Raises ValueError where one cannot be made that computes the same."""
    from torch.nn.parameter import is_lazy

    name = type(module).__name__
    if any(map(is_lazy, [*module.parameters(), *module.buffers()])):
        raise ValueError(f"in_torch: {name} has lazy parameters without values; call it once, so that they are made")
    try:
        return copy.deepcopy(module)
    except RuntimeError as error:
        raise ValueError(
            f"in_torch: {name} cannot be copied, because it keeps a tensor that was computed with gradients (an "
            "attribute that `forward` sets, or old weight norms); delete it, or call the module under torch.no_grad()"
        ) from error


def called(who: str, f: Callable[..., Any], forward: Callable[..., Any], arrays: Mapping[str, Any]) -> Any:
    """f of the arrays: by name if `forward` has parameters of all these names, in order if it has none of them."""
    try:
        parameters = inspect.signature(forward).parameters
    except (TypeError, ValueError):  # a builtin does not tell
        return f(*arrays.values())
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()) or set(arrays) <= set(parameters):
        return f(**arrays)
    if set(arrays) & set(parameters):
        unknown = ", ".join(name for name in arrays if name not in parameters)
        raise TypeError(
            f"{who}: the function has no argument {unknown}; it has {', '.join(parameters)}. Name the arrays of `draw` "
            "as the function does, or pass call=lambda f, …: f(…)"
        )
    return f(*arrays.values())


def _in_dtype(array: ArrayLike, dtype: DTypeLike | None) -> np.ndarray:
    """A writable copy, row by row in memory; real numbers in this dtype, complex ones in the matching one."""
    array = np.array(array, order="C")
    if dtype is None or array.dtype.kind not in "fc":
        return array
    return array.astype(np.result_type(dtype, np.complex64) if array.dtype.kind == "c" else dtype)


def _each(result: Any, kind: type, to_array: Callable[[Any], np.ndarray]) -> Any:
    """A result with arrays in place of those of the framework, in dicts, lists and tuples too."""
    if isinstance(result, kind):
        return to_array(result)
    if isinstance(result, Mapping):
        return {name: _each(value, kind, to_array) for name, value in result.items()}
    if isinstance(result, (tuple, list)):
        entries = [_each(value, kind, to_array) for value in result]
        return type(result)(*entries) if hasattr(result, "_fields") else type(result)(entries)
    return result


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
