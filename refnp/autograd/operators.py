"""What a Tensor can do: Python's operators and NumPy's method names, each one of the operations of this chapter."""

from __future__ import annotations

import numpy as np

from refnp.autograd import elementwise as e
from refnp.autograd import linalg, reductions, shapes
from refnp.autograd.primitive import raw
from refnp.autograd.tensor import Tensor


def _reflected(operation):
    return lambda self, other: operation(other, self)


def _compared(comparison):
    def compare(self, other):
        """Compare values: a boolean array, without gradient."""
        return comparison(self.data, raw(other))

    return compare


_METHODS = {
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
    "__eq__": _compared(np.equal),
    "__ne__": _compared(np.not_equal),
    "__lt__": _compared(np.less),
    "__le__": _compared(np.less_equal),
    "__gt__": _compared(np.greater),
    "__ge__": _compared(np.greater_equal),
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
    "reshape": lambda self, *shape: shapes.reshape(self, shape[0] if len(shape) == 1 else shape),
    "transpose": lambda self, *axes: shapes.transpose(self, (axes[0] if len(axes) == 1 else axes) or None),
    "T": property(shapes.transpose, doc="The axes in reverse order."),
}

for _name, _method in _METHODS.items():
    setattr(Tensor, _name, _method)
