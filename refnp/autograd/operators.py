"""What a Tensor can do: Python's operators and NumPy's method names, each one of the operations of this chapter.

Of an array and a Tensor, NumPy is called first: array − tensor calls np.subtract. Operators then give the
operation's result, a Tensor; every other function of NumPy is refused, since its result would have no history.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.autograd import elementary as e
from refnp.autograd import indexing, linalg, reductions, shapes, special, summation, systems
from refnp.autograd.backward import backward
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, Tensor

# these functions of NumPy read no values (shape to isrealobj), or call the method of a Tensor (transpose to squeeze)
_HARMLESS = {np.shape, np.ndim, np.size, np.result_type, np.iscomplexobj, np.isrealobj, np.transpose, np.swapaxes,
             np.squeeze}  # fmt: skip
_COMPARABLE = (Tensor, np.ndarray, np.generic, int, float, complex, list, tuple)


def _compared(comparison: np.ufunc) -> Callable:
    def compare(x: Any, y: Any) -> Array:
        """Compare values: a boolean array, without gradient. Complex values are ordered by their real parts."""
        if not (isinstance(x, _COMPARABLE) and isinstance(y, _COMPARABLE)):
            return NotImplemented
        x, y = np.asarray(raw(x)), np.asarray(raw(y))
        return comparison(x, y) if comparison in (np.equal, np.not_equal) else comparison(x.real, y.real)

    return compare


ARITHMETIC = {
    "add": (np.add, e.add),
    "sub": (np.subtract, e.subtract),
    "mul": (np.multiply, e.multiply),
    "truediv": (np.divide, e.divide),
    "pow": (np.power, e.power),
    "matmul": (np.matmul, linalg.matmul),
    "mod": (np.remainder, e.remainder),
}
_COMPARISONS = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
                "ge": np.greater_equal}  # fmt: skip
_OF_UFUNC = dict(ARITHMETIC.values()) | {ufunc: _compared(ufunc) for ufunc in _COMPARISONS.values()}


def _array_ufunc(self: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    """What `array − tensor` calls. Raises TypeError for what is no operator, and for results in given arrays."""
    if ufunc in _OF_UFUNC and method == "__call__" and not options:
        return _OF_UFUNC[ufunc](*inputs)
    raise _refusal(ufunc)


def _array_function(self: Tensor, function: Any, types: Any, arguments: tuple, options: dict) -> Any:
    """What np.sum(tensor) and other functions that are no ufuncs call. Raises TypeError for nearly all."""
    if function in _HARMLESS:
        return function._implementation(*arguments, **options)
    raise _refusal(function)


PAGES = (e, indexing, linalg, reductions, shapes, special, summation, systems)


def _refusal(function: Callable) -> TypeError:
    name = function.__name__
    own = {"amax": "max", "amin": "min", "fabs": "absolute", "around": "round", "ravel": "reshape"}.get(name, name)
    if any(hasattr(module, own) for module in PAGES):
        instead = f"use .numpy(), or refnp.autograd.{own}(...) to keep it"
    elif all(types.endswith("?") for types in getattr(function, "types", [""])):
        instead = "use .numpy(), for what is true or false has no gradient"
    else:
        instead = "refnp has no such operation: make one of it and its gradient, with refnp.autograd.primitive"
    return TypeError(f"np.{name} got a Tensor, whose history would be lost; {instead}")


def _missing(self: Tensor, name: str) -> Any:
    """What x.sort reads, a name of NumPy's arrays that a Tensor has not. Raises AttributeError with what to write."""
    if name.startswith("_") or not hasattr(np.ndarray, name):
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
    own = f", or refnp.autograd.{name}(x) to keep its history" if any(hasattr(m, name) for m in PAGES) else ""
    raise AttributeError(f"a Tensor has no {name}; use x.numpy().{name}{own}")


def _whole_quotient(x: Any, y: Any) -> Any:
    """x // y, in either order. Raises TypeError: it is no operation here."""
    raise _refusal(np.floor_divide)


def _reflected(operation: Callable) -> Callable:
    return lambda self, other: operation(other, self)


def _reshape(self: Tensor, *shape: Any) -> Tensor:
    """reshape(2, 3) or reshape((2, 3))."""
    return shapes.reshape(self, shape[0] if len(shape) == 1 else shape)


def _transpose(self: Tensor, *axes: Any) -> Tensor:
    """transpose(), transpose(1, 0) or transpose((1, 0))."""
    several = not axes or isinstance(axes[0], (int, np.integer))
    return shapes.transpose(self, (axes or None) if several else axes[0])


_NAMED_ALIKE = (reductions.sum, reductions.mean, reductions.max, reductions.min, reductions.prod, reductions.cumsum,
                reductions.cumprod, reductions.var, reductions.std, reductions.argmax, reductions.argmin,
                reductions.median, e.astype, e.round, e.clip, e.exp, e.log, e.sqrt, e.tanh, shapes.squeeze,
                shapes.swapaxes, indexing.take, linalg.diagonal, linalg.trace)  # fmt: skip
_METHODS = {operation.__name__: operation for operation in _NAMED_ALIKE} | {
    "backward": backward,
    "__array_ufunc__": _array_ufunc,
    "__array_function__": _array_function,
    "__neg__": e.negative,
    "__pos__": lambda self: self,
    "__abs__": e.absolute,
    "__getitem__": indexing.getitem,
    "reshape": _reshape,
    "dot": linalg.dot,
    "ravel": lambda self: shapes.reshape(self, -1),
    "flatten": lambda self: shapes.reshape(self, -1),
    "__getattr__": _missing,
    "__floordiv__": _whole_quotient,
    "__rfloordiv__": _whole_quotient,
    "transpose": _transpose,
    "T": property(shapes.transpose, doc="The axes in reverse order."),
}

for _name, _method in _METHODS.items():
    setattr(Tensor, _name, _method)
for _name, (_, _operation) in ARITHMETIC.items():
    setattr(Tensor, f"__{_name}__", _operation)
    setattr(Tensor, f"__r{_name}__", _reflected(_operation))
for _name, _ufunc in _COMPARISONS.items():
    setattr(Tensor, f"__{_name}__", _OF_UFUNC[_ufunc])
