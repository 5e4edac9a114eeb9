"""What should be refused: an argument of another type, another shape, or another size than it can have."""

from typing import Any

import numpy as np

from tests.fuzz.calls import Call
from tests.fuzz.drawing import Draw

NO_ARRAYS: list[Any] = [
    "text", b"bytes", {}, {"a": 1}, set(), object(), len, 10**400, -(2**70), [[1.0], [1.0, 2.0]], ["a"], [None], None,
    np.array(["a", "b"]), np.array([1.5, None], object), np.array([10**30, 1]), np.array(["2020-01-01"], "M8[D]"),
    np.zeros((1,) * 12), np.array([b"x"]), np.zeros(3, [("a", "f8")]), (), [], np.zeros(()), float("nan"), True,
]  # fmt: skip
NO_OPTIONS: list[Any] = [
    "nonsense", b"x", None, -1, 0, 7, 1.5, -0.5, float("nan"), float("inf"), 10**30, -(10**30), (), (1, 1), [0.5], {},
    object(), np.array([1.5]), np.array(["a"]), np.zeros((2, 2)), True, 1j, np.float64(2.5), np.int8(3), "",
]  # fmt: skip
COUNTS = (-1, 0, 1.5, float("nan"), None, "3", (), [2], 1j, np.array([1.5]))  # what asks for no memory


def spoilt(call: Call, draw: Draw) -> Call:
    """The call with one argument that should not be as it is."""
    name = draw.of(list(call.arguments))
    value = call.arguments[name]
    if isinstance(value, np.ndarray) and draw.chance(0.5):
        other = reshaped(value, draw)
    elif isinstance(value, np.ndarray):
        other = draw.of(NO_ARRAYS)
    elif name.startswith(".") or name in (
        "heads",
        "features",
        "queries",
        "keys",
        "rows",
        "columns",
        "contexts",
        "longest",
        "beams",
        "targets",
        "count",
        "shape",
        "factor",
        "size",
        "widths",
    ):
        other = draw.of(COUNTS)
    else:
        other = draw.of(NO_OPTIONS)
    return call.with_(arguments=call.arguments | {name: other}, layouts={}, wrong=name, right=value)


def reshaped(x: np.ndarray, draw: Draw) -> np.ndarray:
    """The array with an axis more or less, or one of another length, or all in another order."""
    way = int(draw.rng.integers(5))
    if way == 0:
        return x[None]
    if way == 1:
        return x[..., None]
    if x.ndim and way == 2:
        return x.sum(0) if x.dtype.kind in "fc" else x.max(0, initial=0) if x.dtype.kind != "b" else x.any(0)
    if x.ndim and way == 3:
        axis = int(draw.rng.integers(x.ndim))
        return np.concatenate(
            [x, np.take(x, [0], axis) if x.shape[axis] else np.ones_like(x, shape=_one(x.shape, axis))], axis
        )
    return x.T if x.ndim > 1 else np.stack([x, x])


def _one(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return tuple(1 if i == axis else n for i, n in enumerate(shape))
