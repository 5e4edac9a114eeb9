"""A function of many nested arrays, seen as F: ℝⁿ → ℝᵐ.

Every method of this package differentiates a function of one vector. Here the arguments to be differentiated are laid
end to end into x, the outputs likewise into y = F(x), and numbers are traced back to the argument and index they came
from. Floating arrays are differentiated; integers, booleans, strings and None are constants and reach f as they are.
"""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck import trees
from gradcheck.precision import DType, roundoff, wider, working


@dataclass(frozen=True)
class Leaf:
    """One differentiated array: where it stands among the arguments (`path`) and in x (`start` to `stop`)."""

    path: trees.Path
    parameter: str | None
    shape: tuple[int, ...]
    dtype: DType
    start: int
    stop: int

    def place(self, index: tuple[int, ...] | None = None) -> str:
        """argument 0 (x) at [2, 3], or args[0]['weight'][2, 3] (params) where the argument holds several arrays."""
        at = f"[{', '.join(map(str, index))}]" if index else ""
        parameter = f" ({self.parameter})" if self.parameter else ""
        if len(self.path) == 1:
            return f"argument {self.path[0]}{parameter}" + (f" at {at}" if at else "")
        return f"args{trees.written(self.path)}{at}{parameter}"


class FlatFunction:
    """f(*args) as a function of the vector x of its floating arguments, in whatever precision x comes in.

    Attributes: x (n,) in the widest dtype of the arguments; y (m,) the value there; size (n,) the scale on which each
    element may be moved (the root mean square of its array, to a power of two); dtype, the coarsest of the arguments',
    which sets what can be asked. Raises TypeError and ValueError for arguments that cannot be differentiated.
    """

    def __init__(self, f: Callable, args: Iterable, argnums: int | Iterable[int] | None = None):
        if isinstance(args, np.ndarray) or not isinstance(args, (tuple, list)):
            raise TypeError(f"args is a {type(args).__name__}; pass a tuple of arguments, (x,) for a single one")
        self.f = f
        self.given = tuple(args)
        self.leaves = self._differentiated(argnums)
        parts = [np.asarray(trees.at(self.given, leaf.path)).ravel() for leaf in self.leaves]
        self.x = np.concatenate(parts)
        self.dtype = max((leaf.dtype for leaf in self.leaves), key=roundoff)
        self.size = np.concatenate([np.full(part.size, _scale(part)) for part in parts])
        self.outputs: list[tuple[trees.Path, slice]] = []
        self.y = self._flattened(f(*self.args()))
        again = self._flattened(f(*self.args()))
        if not np.all(np.isfinite(self.y)):
            raise ValueError(f"args: f is not finite there ({self._bad_output()}); choose a point where it is")
        if not np.all(np.abs(again - self.y) <= self.same(again)):
            raise ValueError("f gives two different values at one point; fix its seed, or drop its state, to check it")
        self.within = self._size_within()

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """F(x), all arguments in the dtype of x. A step may leave the domain of f: that is nan, not a warning."""
        with np.errstate(all="ignore"):
            y = self._flattened(self.f(*self.args(x)))
        if y.shape != self.y.shape:
            raise ValueError(f"f gives {y.size} numbers at a point near args where it gave {self.y.size} at args")
        return y

    def same(self, y: np.ndarray) -> float:
        """How far y may be from F(x) and still be that value, computed another way: half the digits of the coarser."""
        return float(np.sqrt(max(roundoff(self.y.dtype), roundoff(y.dtype))) * np.max(np.abs(self.y), initial=0.0))

    def args(self, x: np.ndarray | None = None) -> tuple:
        """The arguments with x in place of the differentiated arrays, or as given; copies, for f may write in them."""
        where = {leaf.path: leaf for leaf in self.leaves}

        def new(path: trees.Path, value: Any) -> Any:
            if path not in where:
                return value
            leaf = where[path]
            if x is None:
                return np.array(value, leaf.dtype)
            return x[leaf.start : leaf.stop].reshape(leaf.shape).copy()

        return trees.replace(self.given, new)

    def tangents(self, v: np.ndarray) -> tuple:
        """A direction (n,) in the containers, shapes and dtypes of the arguments, None beside every constant."""
        where = {leaf.path: leaf for leaf in self.leaves}

        def new(path: trees.Path, _: Any) -> Any:
            leaf = where.get(path)
            return None if leaf is None else v[leaf.start : leaf.stop].reshape(leaf.shape).astype(leaf.dtype)

        return trees.replace(self.given, new)

    def computes_in(self, dtype: DType) -> bool:
        """Whether f, given arguments of this dtype, answers in it. PyTorch refuses longdouble, JAX narrows it."""
        try:
            return self(self.x.astype(dtype)).dtype == dtype
        except Exception:  # whatever f raises on an unusual dtype, it is a no
            return False

    def leaf_of(self, element: int) -> tuple[Leaf, tuple[int, ...]]:
        """The array that element `element` of x belongs to, and its index there."""
        leaf = next(leaf for leaf in self.leaves if element < leaf.stop)
        return leaf, tuple(int(i) for i in np.unravel_index(element - leaf.start, leaf.shape))

    def _differentiated(self, argnums: int | Iterable[int] | None) -> list[Leaf]:
        wanted = range(len(self.given)) if argnums is None else {argnums} if isinstance(argnums, int) else set(argnums)
        if not set(wanted) <= set(range(len(self.given))):
            raise ValueError(f"argnums is {argnums!r} but there are {len(self.given)} arguments, counted from 0")
        names = _parameters(self.f, len(self.given))
        found: list[Leaf] = []
        for path, value in trees.leaves(self.given):
            if path[0] not in wanted or isinstance(value, (str, bytes)) or callable(value):
                continue
            dtype = np.asarray(value).dtype
            if dtype.kind == "c":
                raise TypeError(f"args{trees.written(path)} is {dtype}; pass its real and imaginary part as two arrays")
            if dtype.kind == "f":
                start = found[-1].stop if found else 0
                stop = start + np.size(value)
                found.append(Leaf(path, names[path[0]], np.shape(value), dtype, start, stop))
        if not found or found[-1].stop == 0:
            raise ValueError("args hold no floating number to differentiate; integers and booleans are constants")
        return found

    def _size_within(self) -> np.ndarray:
        """How large (m,) the numbers are that f adds up: as large as y, or larger where they cancelled.

        The rounding error of y, which a wider precision shows, is u times their size.
        """
        size, wide = np.abs(self.y).astype(working(self.y.dtype)), wider(self.y.dtype)
        if wide is None or not self.computes_in(wide):
            return size
        return np.maximum(size, np.abs(self.y - self(self.x.astype(wide))) / roundoff(self.y.dtype)).astype(size.dtype)

    def _flattened(self, value: Any) -> np.ndarray:
        floating = [(path, a) for path, leaf in trees.leaves(value) if (a := np.asarray(leaf)).dtype.kind in "fc"]
        if not floating:
            raise TypeError(
                f"f returns {type(value).__name__} with no floating array in it; return arrays, or adapt f to NumPy"
            )
        if not self.outputs:
            stops = np.cumsum([a.size for _, a in floating])
            self.outputs = [(p, slice(int(s) - a.size, int(s))) for (p, a), s in zip(floating, stops, strict=True)]
        return np.concatenate([a.ravel() for _, a in floating])

    def _bad_output(self) -> str:
        first = int(np.argmin(np.isfinite(self.y)))
        return f"{self.y[first]} among its values"


def _scale(part: np.ndarray) -> float:
    """The size of an array's elements, to a power of two; 1 for an array of zeros."""
    largest = float(np.max(np.abs(part), initial=0.0))
    if not np.isfinite(largest):
        raise ValueError("args hold nan or infinity among the numbers to differentiate; choose a finite point")
    if largest == 0:
        return 1.0
    mean_square = float(np.mean(np.square(part / largest, dtype=np.float64)))
    return float(2.0 ** np.round(np.log2(largest * np.sqrt(mean_square))))


def _parameters(f: Callable, count: int) -> list[str | None]:
    """The names of the first positional parameters of f, None where it has no signature or takes *args."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [names[i] if i < len(names) else None for i in range(count)]
