"""What a Tensor can do: Python's operators and NumPy's method names, each one of the operations of this chapter."""

from __future__ import annotations

import numpy as np

from refnp.autograd import elementary as e
from refnp.autograd import linalg, reductions, shapes
from refnp.autograd.backward import backward
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Tensor


def _reflected(operation):
    return lambda self, other: operation(other, self)


def _compared(comparison, *, ordering):
    def compare(self, other):
        """Compare values: a boolean array, without gradient. Complex values are ordered by their real parts."""
        if not isinstance(other, (Tensor, np.ndarray, np.generic, int, float, complex, list, tuple)):
            return NotImplemented
        x, y = self.data, np.asarray(raw(other))
        return comparison(x.real, y.real) if ordering else comparison(x, y)

    return compare


def _reshape(self, *shape):
    """reshape(2, 3) or reshape((2, 3))."""
    return shapes.reshape(self, shape[0] if len(shape) == 1 else shape)


def _transpose(self, *axes):
    """transpose(), transpose(1, 0) or transpose((1, 0))."""
    several = not axes or isinstance(axes[0], (int, np.integer))
    return shapes.transpose(self, (axes or None) if several else axes[0])


def _squeeze(self, axis=None):
    """The same elements without the axes of length 1, or without the one named."""
    return shapes.reshape(self, np.squeeze(self.data, axis).shape)


_METHODS = {
    "backward": backward,
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
    "__eq__": _compared(np.equal, ordering=False),
    "__ne__": _compared(np.not_equal, ordering=False),
    "__lt__": _compared(np.less, ordering=True),
    "__le__": _compared(np.less_equal, ordering=True),
    "__gt__": _compared(np.greater, ordering=True),
    "__ge__": _compared(np.greater_equal, ordering=True),
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
