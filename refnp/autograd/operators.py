"""What a Tensor can do: Python's operators and NumPy's method names, each one of the operations of this chapter.

Where an array meets a Tensor, NumPy is asked first: array − tensor calls np.subtract. Operators then give the
operation's result, a Tensor; every other function of NumPy is refused, since its result would have no history.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.autograd import elementary as e
from refnp.autograd import linalg, reductions, shapes, special
from refnp.autograd.backward import backward
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, Tensor

# these functions of NumPy read no values (shape to isrealobj), or call the method of a Tensor (transpose to squeeze)
_HARMLESS = {np.shape, np.ndim, np.size, np.result_type, np.iscomplexobj, np.isrealobj, np.transpose, np.swapaxes,
             np.squeeze}  # fmt: skip

_COMPARABLE = (Tensor, np.ndarray, np.generic, int, float, complex, list, tuple)


def _reflected(operation: Callable) -> Callable:
    return lambda self, other: operation(other, self)


def _compared(comparison: np.ufunc) -> Callable:
    def compare(x: Any, y: Any) -> Array:
        """Compare values: a boolean array, without gradient. Complex values are ordered by their real parts."""
        if not (isinstance(x, _COMPARABLE) and isinstance(y, _COMPARABLE)):
            return NotImplemented
        x, y = np.asarray(raw(x)), np.asarray(raw(y))
        return comparison(x, y) if comparison in (np.equal, np.not_equal) else comparison(x.real, y.real)

    return compare


_COMPARED = {
    name: _compared(getattr(np, name))
    for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
}
_UFUNCS = {np.add: e.add, np.subtract: e.subtract, np.multiply: e.multiply, np.divide: e.divide, np.power: e.power,
           np.matmul: linalg.matmul} | {getattr(np, name): compare for name, compare in _COMPARED.items()}  # fmt: skip


def _array_ufunc(self: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    """What `array − tensor` calls. Raises TypeError for what is no operator, and for results in given arrays."""
    if ufunc in _UFUNCS and method == "__call__" and not options:
        return _UFUNCS[ufunc](*inputs)
    raise _refusal(ufunc.__name__)


def _array_function(self: Tensor, function: Callable, types: Any, arguments: tuple, options: dict) -> Any:
    """What np.sum(tensor) and other functions that are no ufuncs call. Raises TypeError for nearly all."""
    if function in _HARMLESS:
        return function._implementation(*arguments, **options)  # type: ignore[attr-defined]
    raise _refusal(function.__name__)


def _refusal(name: str) -> TypeError:
    ours = any(hasattr(page, name) for page in (e, reductions, shapes, linalg, special))
    instead = f", or refnp.autograd.{name}" if ours else ""
    return TypeError(f"np.{name} got a Tensor, whose history would be lost; use .numpy(){instead}")


def _reshape(self: Tensor, *shape: Any) -> Tensor:
    """reshape(2, 3) or reshape((2, 3))."""
    return shapes.reshape(self, shape[0] if len(shape) == 1 else shape)


def _transpose(self: Tensor, *axes: Any) -> Tensor:
    """transpose(), transpose(1, 0) or transpose((1, 0))."""
    several = not axes or isinstance(axes[0], (int, np.integer))
    return shapes.transpose(self, (axes or None) if several else axes[0])


def _squeeze(self: Tensor, axis: Any = None) -> Tensor:
    """The same elements without the axes of length 1, or without the one named."""
    return shapes.reshape(self, np.squeeze(self.data, axis).shape)


_METHODS = {
    "backward": backward,
    "__array_ufunc__": _array_ufunc,
    "__array_function__": _array_function,
    "__add__": e.add,
    "__radd__": _reflected(e.add),
    "__sub__": e.subtract,
    "__rsub__": _reflected(e.subtract),
    "__mul__": e.multiply,
    "__rmul__": _reflected(e.multiply),
    "__truediv__": e.divide,
    "__rtruediv__": _reflected(e.divide),
    "__pow__": e.power,
    "__rpow__": _reflected(e.power),
    "__matmul__": linalg.matmul,
    "__rmatmul__": _reflected(linalg.matmul),
    "__neg__": e.negative,
    "__pos__": lambda self: self,
    "__abs__": e.absolute,
    "__getitem__": shapes.getitem,
    "__eq__": _COMPARED["equal"],
    "__ne__": _COMPARED["not_equal"],
    "__lt__": _COMPARED["less"],
    "__le__": _COMPARED["less_equal"],
    "__gt__": _COMPARED["greater"],
    "__ge__": _COMPARED["greater_equal"],
    "sum": reductions.sum,
    "mean": reductions.mean,
    "max": reductions.max,
    "min": reductions.min,
    "prod": reductions.prod,
    "cumsum": reductions.cumsum,
    "clip": e.clip,
    "exp": e.exp,
    "log": e.log,
    "sqrt": e.sqrt,
    "tanh": e.tanh,
    "swapaxes": shapes.swapaxes,
    "take": shapes.take,
    "trace": linalg.trace,
    "argmax": lambda self, axis=None: self.data.real.argmax(axis),
    "argmin": lambda self, axis=None: self.data.real.argmin(axis),
    "reshape": _reshape,
    "ravel": lambda self: shapes.reshape(self, -1),
    "squeeze": _squeeze,
    "transpose": _transpose,
    "T": property(shapes.transpose, doc="The axes in reverse order."),
}

for _name, _method in _METHODS.items():
    setattr(Tensor, _name, _method)
