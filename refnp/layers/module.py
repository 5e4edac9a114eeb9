"""Module: a function with parameters.

A module is an object with `__call__` whose attributes are Parameters, other modules, or lists, tuples and dicts of
these. Names are the paths to them, "layers.0.attention.query.weight", in the order in which they were assigned.

Modules follow the rule of functions: arrays in, arrays out, with no tape. If any argument is a Tensor, so is the
result, and parameters get gradients: `module(Tensor(x))` is how a module is trained. The outermost call decides for all
modules inside it. In the loss that `refnp.training.train` is given, and in `loss` of models, all are on the tape.
"""

import contextlib
import contextvars
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike

from refnp.autograd import Parameter, Tensor
from refnp.autograd.declaration import F
from refnp.autograd.errors import ACCIDENTS, explain, explained
from refnp.autograd.primitives import is_own, raw
from refnp.autograd.tensor import Call, is_recording, off_tape
from refnp.autograd.trees import leaves_of

VARIABLE = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD  # *sizes, **options
_on_tape = contextvars.ContextVar("on_tape", default=False)


@contextlib.contextmanager
def on_tape() -> Iterator[None]:
    """Within this block, or a function decorated with `@on_tape()`, modules write a tape whatever they are given."""
    token = _on_tape.set(True)
    try:
        yield
    finally:
        _on_tape.reset(token)


def arrays_in_arrays_out(method: Callable) -> Callable:
    """A method of a module that uses the tape only if an argument is a Tensor, or inside a call that uses it.

    Errors of refnp's modules name the argument that is wrong; those of other modules stay what they are. An underflow
    is none, whatever NumPy is told to raise.
    """

    @functools.wraps(method)
    def call(module: "Module", *arguments: Any, **options: Any) -> Any:
        try:
            if module._is_bound or _on_tape.get():
                with Call(module):
                    return method(module, *arguments, **options)
            if any(isinstance(leaf, Tensor) for leaf in leaves_of([arguments, options])):
                with on_tape(), Call(module):
                    return method(module, *arguments, **options)
            value = call(module.without_tape(), *arguments, **options)
            if is_recording():
                off_tape.add(leaves_of(value), module)
            return value
        except ACCIDENTS as error:
            if is_own(method):
                explain(method, (module, *arguments), options, error)
            raise

    return call


def options_of(*parts: Callable, without: Sequence[str] = (), only: Sequence[str] = ()) -> Callable[[F], F]:
    """A constructor whose `**options` go to parts of the module: it takes those of the parts, but some, or only some.

    So does a class method that makes a module, or a function that hands options on. Its other options, if there is no
    part, are those of a subclass alone.
    """

    def marked(function: F) -> F:
        function.of_parts = [  # type: ignore[attr-defined]
            p
            for part in parts
            for p in inspect.signature(part).parameters.values()
            if _is_option(p) and (p.name in only if only else p.name not in without)
        ]
        if function.__name__ == "__init__":
            return function
        function.__signature__ = _signature([function])  # type: ignore[attr-defined]
        takes = function.__signature__.parameters  # type: ignore[attr-defined]

        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            for name in options:
                if name not in takes:
                    raise TypeError(f"{function.__qualname__}() got an unexpected keyword argument {name!r}")
            return function(*arguments, **options)

        return call if without or only else function  # type: ignore[return-value]

    return marked


def taken(part: Callable, options: dict[str, Any]) -> dict[str, Any]:
    """Those of the options that `part` takes, which `options` has no more."""
    return {name: options.pop(name) for name in inspect.signature(part).parameters if name in options}


def _signature(functions: list[Callable]) -> inspect.Signature:
    """What the first takes: where a function has `**options` or `*sizes`, those of the next one, or of parts, too."""
    found: list[inspect.Parameter] = []
    options = positions = True
    for function in functions:
        own = [*inspect.signature(function).parameters.values()]
        found += [p for p in own if (options if _is_option(p) else positions)]
        found += getattr(function, "of_parts", ())
        kinds = {p.kind for p in own}
        options, positions = options and VARIABLE[1] in kinds, positions and VARIABLE[0] in kinds
    first = {p.name: p for p in reversed(found) if p.kind not in VARIABLE}  # of two with one name, the first
    in_order = [first.pop(p.name) for p in found if p.name in first]
    in_order.sort(key=lambda p: (p.kind, _is_option(p) and p.default is p.empty))
    return inspect.Signature(in_order, return_annotation=inspect.signature(functions[0]).return_annotation)


def _of_constructors(cls: type) -> inspect.Signature:
    """What a module is made of: the signature of its constructor, without self."""
    constructors = [vars(base)["__init__"] for base in cls.__mro__[:-1] if "__init__" in vars(base)]
    parameters = [*_signature(constructors).parameters.values()] if constructors else []
    return inspect.Signature(parameters[1:])


class _OfClass:
    """The signature of a class, which its modules do not have: theirs is that of `__call__`."""

    def __init__(self, signature: inspect.Signature):
        self.signature = signature

    def __get__(self, module: Any, cls: type) -> inspect.Signature:
        if module is not None:
            raise AttributeError("__signature__")
        return self.signature


def _is_option(parameter: inspect.Parameter) -> bool:
    return parameter.kind is parameter.KEYWORD_ONLY


class Module:
    """Base of everything with parameters. A subclass assigns them in `__init__` and computes in `__call__`.

    `**options` of a constructor are those of the class it extends, or `options_of` a part.
    """

    _is_bound = False  # True in copies that compute with other values, arrays or Tensors, than their own parameters

    def __init_subclass__(cls) -> None:
        cls.__signature__ = _OfClass(_of_constructors(cls))  # type: ignore[attr-defined]
        if "__init__" in vars(cls) and is_own(cls):
            cls.__init__ = explained(cls.__init__)  # type: ignore[method-assign]
        if "__call__" in vars(cls):
            cls.__call__ = arrays_in_arrays_out(cls.__call__)  # type: ignore[method-assign]

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        raise TypeError(f"{type(self).__name__} has no __call__; a module must define what it computes")

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """(path, Parameter) pairs in the order of assignment, frozen ones too; a shared one once, by its first name.

        Raises ValueError if two different parameters have the same name.
        """
        seen: set[int] = set()
        names: set[str] = set()
        for name, parameter in _walk("", vars(self), []):
            if id(parameter) in seen:
                continue
            if name in names:
                raise ValueError(f"{type(self).__name__} has two parameters named {name}; give a dict other keys")
            seen.add(id(parameter))
            names.add(name)
            yield name, parameter

    def parameters(self) -> list[Parameter]:
        """The parameters that are trained, all but the frozen ones, in the order of `named_parameters`."""
        return [parameter for _, parameter in self.named_parameters() if parameter.requires_grad]

    def zero_grad(self) -> None:
        """Forget the gradients of earlier backward passes, of `parameters()`: frozen ones keep theirs."""
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
        arrays = {name: np.asarray(raw(value)) for name, value in state.items() if name in own}
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

    def bind(self, values: Mapping[str, Any]) -> Self:
        """A copy of the module that computes with `values`, arrays or Tensors by name, in place of its parameters.

        `lambda values: loss(module.bind(values)(x))` is a function of the parameters, for `grad`, `hvp` and the like.
        Raises ValueError unless names and shapes are exactly the parameters'.
        """
        own = dict(self.named_parameters())
        if set(own) != set(values):
            raise ValueError(f"bind: {type(self).__name__} has parameters {[*own]}, values are named {[*values]}")
        for name, parameter in own.items():
            if np.shape(raw(values[name])) != parameter.shape:
                raise ValueError(f"bind: {name} has shape {np.shape(raw(values[name]))}, not {parameter.shape}")
        new = {id(parameter): values[name] for name, parameter in own.items()}
        return _substituted(self, new)

    def without_tape(self) -> Self:
        """A copy that computes with the parameters' arrays: arrays in, arrays out, sooner than through Tensors."""
        return _substituted(self, {id(parameter): parameter.data for _, parameter in self.named_parameters()})

    @np.errstate(under="ignore")
    def astype(self, dtype: DTypeLike) -> Self:
        """Change every parameter to another floating type (else TypeError), in place; drop gradients; return self."""
        dtype = np.dtype(dtype)
        if dtype.kind not in "fc":
            raise TypeError(f"astype: {dtype} is not a floating type; use float32, float64 or longdouble")
        for _, parameter in self.named_parameters():
            parameter.data, parameter.grad = parameter.data.astype(dtype), None
        return self


def _walk(path: str, value: Any, found: list[tuple[str, Parameter]]) -> list[tuple[str, Parameter]]:
    """`found`, with every Parameter below `value` and its path, in the order of assignment."""
    if isinstance(value, Parameter):
        found.append((path, value))
    elif isinstance(value, (dict, list, tuple, Module)):
        if isinstance(value, Module):
            value = vars(value)
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            _walk(f"{path}.{key}" if path else str(key), item, found)
    return found


def _substituted(value: Any, new: dict[int, Any]) -> Any:
    """The same nesting of modules, dicts, lists and tuples with `new[id(parameter)]` in place of each Parameter."""
    if isinstance(value, Parameter):
        return new[id(value)]
    if isinstance(value, Module):
        twin = type(value).__new__(type(value))
        vars(twin).update({name: _substituted(item, new) for name, item in vars(value).items()}, _is_bound=True)
        return twin
    if isinstance(value, dict):
        return {key: _substituted(item, new) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_substituted(item, new) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value
