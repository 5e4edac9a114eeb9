"""What a function returns, as arrays with names; and two such results as vectors that can be subtracted.

An array is called "output", dicts keep their keys, tuples and lists are numbered. Of other objects, distributions say,
`read` tells what is to be compared: the names of attributes, ("mean", "std"), or a function that gives arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.symmetry.precision import WIDE

Read = Callable[[Any], Any] | Sequence[str] | None


def arrays_of(result: Any, read: Read = None) -> dict[str, np.ndarray]:
    """The arrays of a result by name. Raises TypeError for what is no array, with the remedy."""
    if callable(read):
        result = read(result)
    elif read is not None:
        result = {name: getattr(result, name) for name in ([read] if isinstance(read, str) else read)}
    if isinstance(result, Mapping):
        return {str(key): _array(value) for key, value in result.items()}
    if hasattr(result, "_fields"):
        return {name: _array(value) for name, value in zip(result._fields, result, strict=True)}
    if isinstance(result, (tuple, list)):
        return {str(i): _array(value) for i, value in enumerate(result)}
    return {"output": _array(result)}


def _array(value: Any) -> np.ndarray:
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    if array.dtype.kind not in "biufc":
        raise TypeError(
            f"the function returns a {type(value).__name__}; pass read=, the names of the attributes to compare, such "
            'as read=("mean", "std"), or a function that gives arrays'
        )
    return array


@dataclass(frozen=True)
class Vector:
    """Arrays one after the other, in the widest precision, complex numbers as two; `form` says where each one lies.

    `rounded` is True for numbers that rounding reaches: not for whole numbers and booleans.
    """

    form: tuple[tuple[str, tuple[int, ...]], ...]
    ends: tuple[int, ...]
    values: np.ndarray
    rounded: np.ndarray

    @staticmethod
    def of(arrays: Mapping[str, np.ndarray]) -> Vector:
        parts = {
            name: np.stack([a.real, a.imag], -1).ravel() if a.dtype.kind == "c" else a.ravel()
            for name, a in sorted(arrays.items())
        }
        values = np.concatenate([np.zeros(0, WIDE), *parts.values()], dtype=WIDE, casting="unsafe")
        rounded = np.concatenate([np.zeros(0, bool), *(np.full(a.shape, a.dtype.kind == "f") for a in parts.values())])
        ends = tuple(np.cumsum([a.size for a in parts.values()]).tolist())
        return Vector(tuple((name, arrays[name].shape) for name in parts), ends, values, rounded)

    def minus(self, other: Vector) -> np.ndarray:
        """The differences; 0 for equal infinities and two NaNs, infinite where only one of two numbers is finite."""
        a, b = self.values, other.values
        with np.errstate(all="ignore"):
            d = a - b
        odd = ~np.isfinite(d)
        if odd.any():
            same = (a == b) | (np.isnan(a) & np.isnan(b))
            d = np.where(odd, np.where(same, 0, np.inf), d)
        return d

    def over_size(self, d: np.ndarray, other: Vector, *, empty: float = np.inf) -> float:
        """The largest |d| in units of the largest finite number in its array, on either side.

        Where an array has no finite number but 0, that of a d other than 0 is `empty`.
        """
        worst, start = 0.0, 0
        for end in self.ends:
            top = max(_largest(self.values[start:end]), _largest(other.values[start:end]))
            if end > start and (gap := float(np.max(np.abs(d[start:end])))) > 0:
                worst = max(worst, gap / top if top else empty)
            start = end
        return worst

    def spread(self, d: np.ndarray, other: Vector) -> np.ndarray:
        """For every number of this vector the largest |d| in the array of the same name of `other`, to which d belongs.

        Arrays that `other` lacks get 0."""
        most, start = {}, 0
        for (name, _), end in zip(other.form, other.ends, strict=True):
            most[name] = np.max(np.abs(d[start:end]), initial=0)
            start = end
        starts = (0, *self.ends[:-1])
        return np.concatenate(
            [np.zeros(0, WIDE)]
            + [
                np.full(end - start, most.get(name, 0))
                for (name, _), start, end in zip(self.form, starts, self.ends, strict=False)
            ]
        )

    @property
    def says_nothing(self) -> bool:
        """No number in it is finite and other than 0."""
        return not np.any(np.isfinite(self.values) & (self.values != 0))


def _largest(values: np.ndarray) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size else 0.0
