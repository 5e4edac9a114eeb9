"""Arrays as the Python that makes them."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from refnp.symmetry.precision import WIDE

PLAIN = {np.dtype(np.float64), np.dtype(np.int64), np.dtype(bool)}  # what np.array makes of Python numbers


def array_code(array: Any, indent: int = 0) -> str:
    """`np.array([[0., 1.]])`: evaluates to the same array, dtype and all digits included."""
    if array is None:
        return "None"
    array = np.asarray(array)
    if not array.size:
        return f"np.zeros({array.shape}, {_dtype(array.dtype)})"
    if array.ndim == 0 and array.dtype in PLAIN:
        return _names(repr(array.item()))
    wide = array.dtype == WIDE and array.dtype not in PLAIN
    body = np.array2string(
        array.astype(str) if wide else array,
        separator=", ",
        prefix=" " * (indent + len("np.array(")),
        threshold=sys.maxsize,
        floatmode="unique",
        max_line_width=120,
    )
    dtype = "" if array.dtype in PLAIN else f", {_dtype(array.dtype)}"
    return f"np.array({_names(body)}{dtype})"


def dict_code(name: str, arrays: Mapping[str, Any]) -> str:
    """`name = {"x": np.array(…), …}`, a line or more for each array."""
    lines = [f'    "{key}": {array_code(array, 6 + len(key))},' for key, array in arrays.items()]
    return "\n".join([f"{name} = {{", *lines, "}"])


def _dtype(dtype: Any) -> str:
    if dtype.kind == "b":
        return "bool"
    return "np.longdouble" if dtype == WIDE and dtype not in PLAIN else f"np.{dtype.name}"


def _names(text: str) -> str:
    return re.sub(r"(?<!['\w.])(nan|inf)\b", r"np.\1", text)
