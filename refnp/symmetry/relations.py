"""Arrays that follow from others in every draw: masks of what is there, numbers of entries, distances, one-hot rows.

    name = formula(source)        such as  mask = (x ≠ 0),  length = number of rows of x,  d = |x_i − x_j|

A relation is kept if it was so in all draws; it is restored by the formula. Two conditions are only asked for: an array
is 0 where a mask is False, and an index is smaller than what it points into.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.autograd import Array

Formula = Callable[[Array], Array]
ENOUGH = 24  # numbers in order by pairs, or indices below a length
UNLIKELY = 1e-7  # what chance may have of zeros behind a mask


@dataclass(frozen=True)
class Constraint:
    """What an array keeps in all draws, in words: alone, or as it follows from another array, `source`.

    `condition` is asked of the array, or of source and array. `formula` makes of the one or the other the array that
    keeps it, the nearest one of an array alone; None where it can only be asked for.
    """

    name: str
    words: str
    condition: Callable[..., bool]
    formula: Formula | None = None
    source: str | None = None

    def holds(self, arrays: Mapping[str, Any]) -> bool:
        """Whether the arrays keep it; it says nothing of one that is left out."""
        read = [arrays.get(name) for name in (self.source, self.name) if name is not None]
        return any(a is None for a in read) or bool(self.condition(*map(np.asarray, read)))

    def restored(self, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arrays with this one made anew in its own dtype, if the formula gives its shape."""
        array, given = arrays.get(self.name), arrays.get(self.source or self.name)
        if self.formula is None or array is None or given is None:
            return arrays
        found = self.formula(np.asarray(given))
        return {**arrays, self.name: found.astype(array.dtype)} if found.shape == array.shape else arrays


def _differences(x: Array) -> Array:
    return x[..., :, None, :] - x[..., None, :, :]


def _squared(x: Array) -> Array:
    return (_differences(x) ** 2).sum(-1)


def _trailing(a: Array, kept: int) -> tuple[int, ...]:
    return tuple(range(kept, a.ndim))


def _length(axis: int) -> Formula:
    return lambda a: np.asarray(a.shape[axis])


def _below_length(axis: int) -> Callable[[Array, Array], bool]:
    return lambda a, k: not np.any(k >= max(a.shape[axis], 1))


def _formulas(x: Array, y: Array) -> Iterator[tuple[str, Formula]]:
    """What could give y from x, by their dtypes and shapes."""
    kept = y.ndim
    if y.dtype.kind == "b" or (y.dtype.kind in "iuf" and np.isin(y, (0, 1)).all()):
        if kept <= x.ndim and x.shape[:kept] == y.shape and x.dtype.kind in "iufcb":
            yield "is True where {} is not 0", lambda a: np.any(a != 0, axis=_trailing(a, kept))
            yield "is True where {} is 0", lambda a: ~np.any(a != 0, axis=_trailing(a, kept))
            yield "is True where {} is finite", lambda a: np.all(np.isfinite(a), axis=_trailing(a, kept))
        if x.dtype.kind in "iu" and y.ndim == x.ndim + 1 and y.shape[:-1] == x.shape:
            width = y.shape[-1]
            yield "is one-hot, the places are {}", lambda a: a[..., None] == np.arange(width)
        if x.dtype.kind == "b" and y.shape == (*x.shape, x.shape[-1] if x.ndim else 0):
            yield "is True where {} is True at both places", lambda a: a[..., :, None] & a[..., None, :]
            yield "is True where {} is True", lambda a: np.broadcast_to(a[..., None, :], (*a.shape, a.shape[-1]))
    if y.dtype.kind in "iuf":
        if x.dtype.kind in "iub" and x.ndim == y.ndim + 1 and x.shape[:-1] == y.shape:
            yield "is the number of entries of {} other than 0", lambda a: (a != 0).sum(-1)
        for axis in range(x.ndim) if y.ndim == 0 else ():
            yield f"is the length of axis {axis} of {{}}", _length(axis)
    if x.shape == y.shape and x.dtype.kind == y.dtype.kind:
        yield "is equal to {}", lambda a: a
    if x.dtype.kind in "iuf" and y.dtype.kind in "iuf" and x.ndim >= 2:
        rows = x.shape[-2]
        if y.shape == (*x.shape[:-2], rows, rows, x.shape[-1]):
            yield "is the differences of the rows of {}", _differences
            yield "is the differences of the rows of {}, the other way round", lambda a: -_differences(a)
        if y.shape == (*x.shape[:-2], rows, rows):
            yield "is the squared distances of the rows of {}", _squared
            yield "is the distances of the rows of {}", lambda a: np.sqrt(_squared(a))
            yield "is the products of the rows of {}", lambda a: a @ a.swapaxes(-1, -2)
    if x.ndim == y.ndim == 1 and x.dtype.kind in "iuf" and y.dtype.kind in "iuf":
        yield "is the order of {}", lambda a: np.argsort(a, kind="stable")
        yield "is {} in order", np.sort
        yield "is the running sum of {}", np.cumsum
    if x.ndim >= 1 and y.ndim == x.ndim - 1 and x.dtype.kind in "iufb" and y.dtype.kind in "iuf":
        yield "is the sum of {} along its last axis", lambda a: a.sum(-1)


def _conditions(x: Array, y: Array) -> Iterator[tuple[str, Callable[[Array, Array], bool]]]:
    """What could be so of both."""
    if y.dtype.kind == "b" and y.ndim <= x.ndim and x.shape[: y.ndim] == y.shape and x.dtype.kind != "b":
        hidden = lambda a, m: a.shape[: m.ndim] != m.shape or not np.any(a[~m])
        yield "hides only zeros of {}", hidden
    if x.shape == y.shape and x.dtype.kind in "iuf" and y.dtype.kind in "iuf":
        yield "is never less than {}", lambda a, b: a.shape != b.shape or not np.any(b < a)
    if y.dtype.kind in "iu":
        for axis in range(x.ndim):
            yield f"points into axis {axis} of {{}}", _below_length(axis)


def close(a: Array, b: Array | float, size: float | None = None) -> bool:
    """Whether arrays agree to half of their digits, relative to the largest number."""
    precision = np.result_type(a, b) if isinstance(b, np.ndarray) else a.dtype
    u = float(np.finfo(precision).eps) if precision.kind in "fc" else 0.0
    d = np.abs(np.subtract(a, b, dtype=np.result_type(precision, float)))
    largest = float(np.max(np.abs(a), initial=0)) if size is None else size
    return bool(np.all(d <= u**0.5 * largest)) if u else not d.any()


def relations(samples: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[Constraint]:
    """The relations that all samples keep, no array following from two."""
    found: list[Constraint] = []
    given: set[str] = set()
    if not samples:
        return found
    arrays = [{name: np.asarray(sample[name]) for name in names} for sample in samples]
    largest = max(arrays, key=lambda sample: sum(a.size for a in sample.values()))
    for source in names:
        for name in names:
            if name == source or source in given or name in given:
                continue
            for words, formula in _formulas(largest[source], largest[name]):
                condition = _equality(formula)
                if _always(arrays, source, name, condition) and _changes(arrays, name):
                    found.append(Constraint(name, words.format(source), condition, formula, source))
                    given.add(name)
                    break
    for source in names:
        for name in names:
            if name != source and name not in given:
                for words, condition in _conditions(largest[source], largest[name]):
                    if _always(arrays, source, name, condition) and _told(arrays, source, name, words):
                        found.append(Constraint(name, words.format(source), condition, source=source))
    return found


def _equality(formula: Formula) -> Callable[[Array, Array], bool]:
    def condition(x: Array, y: Array) -> bool:
        made = np.asarray(formula(x))
        if made.shape != y.shape:
            return False
        if made.dtype.kind == "b" or y.dtype.kind == "b":
            return bool(np.all(made == y))
        return close(y, made.astype(np.result_type(made, y)), float(np.max(np.abs(made), initial=0)))

    return condition


def _always(arrays: Sequence[Mapping[str, Array]], source: str, name: str, condition: Any) -> bool:
    try:
        with np.errstate(all="ignore"):
            return all(condition(sample[source], sample[name]) for sample in arrays)
    except (ValueError, IndexError, TypeError):
        return False


def _changes(arrays: Sequence[Mapping[str, Array]], name: str) -> bool:
    """Whether an array differs between samples, so that it can follow from another."""
    first = arrays[0][name]
    return not all(np.array_equal(a[name], first) for a in arrays)


def _told(arrays: Sequence[Mapping[str, Array]], source: str, name: str, words: str) -> bool:
    """Whether chance would hardly have it: some is hidden, or so many numbers are in order or below a length."""
    if not _changes(arrays, name):
        return False
    if words.startswith("hides"):
        hidden = sum(int(np.sum(~sample[name])) for sample in arrays)
        together = np.concatenate([sample[source].ravel() for sample in arrays])
        return float(np.mean(together == 0)) ** hidden < UNLIKELY
    if words.startswith("points"):
        axis = int(words.split("axis ")[1].split(" ")[0])
        lengths = {sample[source].shape[axis] for sample in arrays}
        near = any(s[name].size and 2 * s[name].max() >= s[source].shape[axis] > 1 for s in arrays)
        return len(lengths) > 1 and near and sum(sample[name].size for sample in arrays) >= ENOUGH
    each, other = (np.concatenate([sample[key].ravel() for sample in arrays]) for key in (name, source))
    share = float(np.searchsorted(np.sort(other), each, "right").mean()) / max(1, other.size)
    return share**each.size < UNLIKELY
