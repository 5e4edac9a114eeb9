"""The arrays of one result as one vector, in the widest precision."""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from refnp.autograd import Array
from refnp.symmetry.claim import WIDE


@dataclass(frozen=True)
class Vector:
    """Arrays one after the other, in the widest precision, complex numbers as two.

    `form` has the name and shape of each array, `parts` where it lies. `rounded` is True for real and complex numbers,
    False for whole numbers and booleans, which do not round. `fixed` are numbers that f gives whatever its input is,
    such as −1e20 where a mask hides something: how large they are says nothing of the others.
    """

    form: tuple[tuple[str, tuple[int, ...]], ...]
    parts: tuple[slice, ...]
    values: Array
    rounded: Array
    fixed: Array | np.bool_ = np.False_

    @staticmethod
    def of(arrays: Mapping[str, Array]) -> "Vector":
        if len(arrays) == 1:
            ((name, a),) = arrays.items()
            if a.dtype.kind != "c":  # the common case, in fewer steps
                values = a.astype(WIDE).ravel()
                return Vector(
                    ((name, a.shape),), (slice(0, a.size),), values, np.full(values.shape, a.dtype.kind == "f")
                )
        flat = {
            name: np.stack([a.real, a.imag], -1).ravel() if a.dtype.kind == "c" else a.ravel()
            for name, a in sorted(arrays.items())
        }
        values = np.concatenate([np.zeros(0, WIDE), *flat.values()], dtype=WIDE, casting="unsafe")
        rounded = np.concatenate([np.zeros(0, bool), *(np.full(a.shape, a.dtype.kind == "f") for a in flat.values())])
        ends = np.cumsum([a.size for a in flat.values()]).tolist()
        parts = tuple(slice(end - a.size, end) for a, end in zip(flat.values(), map(int, ends), strict=True))
        return Vector(tuple((name, arrays[name].shape) for name in flat), parts, values, rounded)

    def minus(self, other: "Vector") -> Array:
        """The differences; 0 for equal infinities and two NaNs, infinite where only one of two numbers is finite."""
        a, b = self.values, other.values
        with np.errstate(all="ignore"):
            d = a - b
        undefined = ~np.isfinite(d)
        if undefined.any():
            same = (a == b) | (np.isnan(a) & np.isnan(b))
            d = np.where(undefined, np.where(same, 0, np.inf), d)
        return d

    def with_fixed(self, fixed: Array | np.bool_) -> "Vector":
        """The same, of which these numbers are fixed, if there are as many of them, or none is."""
        return replace(self, fixed=fixed) if np.shape(fixed) == self.values.shape else self

    @functools.cached_property
    def sizes(self) -> Array:
        """How large each number is: as the largest finite one of its array that is not fixed, or as itself if larger.

        Where all of an array are fixed, as the largest of them.
        """
        found = np.where(np.isfinite(self.values), np.abs(self.values), 0)
        free = np.where(self.fixed, -1, found) if np.ndim(self.fixed) else found
        for part in self.parts:
            most = np.max(free[part], initial=-1)
            found[part] = np.maximum(found[part], np.max(found[part], initial=0) if most < 0 else most)
        return found

    def relative(self, d: Array, other: "Vector", *, empty: float = np.inf) -> float:
        """The largest |d| over the size of its number, on either side.

        Where an array has no finite number but 0, that of a d other than 0 is `empty`.
        """
        return max(self.relative_by_array(d, other, empty=empty).values(), default=0.0)

    def relative_by_array(self, d: Array, other: "Vector", *, empty: float = np.inf) -> dict[str, float]:
        """The same for each array, by its name."""
        found = {}
        for (name, _), part in zip(self.form, self.parts, strict=True):
            size = np.abs(d[part])
            largest = np.max(size, initial=0)
            if largest > 0:
                own = np.maximum(self.sizes[part], other.sizes[part])
                with np.errstate(all="ignore"):
                    largest = np.max(np.where(size > 0, np.where(own > 0, size / own, empty), 0))
            found[name] = float(largest) if largest > 0 else 0.0
        return found

    def place(self, at: int) -> str:
        """The name and index of one of the numbers: output[0, 2]."""
        name, shape, part = next(
            (name, shape, part) for (name, shape), part in zip(self.form, self.parts, strict=True) if at < part.stop
        )
        per = (part.stop - part.start) // max(1, math.prod(shape))  # two for a complex number
        index = list(map(int, np.unravel_index((at - part.start) // per, shape)))
        return f"{name}{index if shape else ''}"

    def spread(self, of_arrays: Mapping[str, float]) -> Array:
        """For every number what is given for its array, 0 for an array of which nothing is."""
        found = np.zeros(self.values.shape, WIDE)
        for (name, _), part in zip(self.form, self.parts, strict=True):
            found[part] = of_arrays.get(name, 0)
        return found

    def largest_by_array(self, d: Array, other: "Vector") -> Array:
        """For every number of this vector the largest |d| in the array of the same name of `other`, to which d belongs.

        Arrays that `other` lacks get 0.
        """
        most = {
            name: np.max(np.abs(d[part]), initial=0) for (name, _), part in zip(other.form, other.parts, strict=True)
        }
        return self.spread(most)
