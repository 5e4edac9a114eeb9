"""Rules that one array keeps in all draws: in words, whether an array keeps it, and the nearest array that does.

A rule is made of what all samples of an array show, if chance would hardly show it.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from refnp.autograd import Array
from refnp.symmetry.relations import close

Holds = Callable[[Array], bool]
Restored = Callable[[Array], Array]
CHANCE = 24  # numbers or pairs with one sign or order are taken for a rule: 2⁻²⁴ by chance
UNLIKELY = 1e-7  # what chance may have of numbers that often come
FEW = 12  # different values are few, where each comes eight times
LEAST_OF_EACH = 8
ORTHOGONAL_STEPS = 8  # of Newton's iteration, each doubles the digits

Rules = Iterator[tuple[str, Holds, Restored | None]]


def values(arrays: Sequence[Array]) -> Rules:
    """Few values, whole numbers, signs, ranges and orders."""
    every = np.concatenate([a.ravel() for a in arrays])
    every = every[np.isfinite(every)] if every.dtype.kind == "f" else every
    yield from orders(arrays)
    if not every.size or every.dtype.kind == "b":
        return
    different = np.unique(every)
    if len(different) <= FEW and every.size >= LEAST_OF_EACH * len(different):
        nearest = lambda a: np.where(np.isfinite(a), different[np.abs(a[..., None] - different).argmin(-1)], a)
        numbers = ", ".join(f"{value:g}" for value in different)
        yield f"is one of {numbers}", lambda a: bool(np.all(np.isin(a, different) | (a != a))), nearest
        return
    least, most = every.min(), every.max()
    if every.dtype.kind in "iu" or (np.all(every == np.rint(every)) and every.size >= CHANCE):
        words = f"is whole numbers from {least:g} to {most:g}"
        whole = lambda a: bool(np.all((a != a) | ((a == np.rint(a)) & (a >= least) & (a <= most))))
        yield words, whole, None if every.dtype.kind in "iu" else np.rint
        return
    if every.size < CHANCE or every.dtype.kind == "u":
        return
    for sign, word in ((1, "positive"), (-1, "negative")):
        if np.all(sign * every > 0):
            yield f"is {word}", _signed(sign, True), None
        elif np.all(sign * every >= 0):
            yield f"is never {'negative' if sign > 0 else 'positive'}", _signed(sign, False), None
    largest = np.abs(every).max()
    if 0.875 < largest <= 1 and np.sum(np.abs(every) > 0.5) >= CHANCE // 3:
        yield f"lies between {'0' if least >= 0 else '-1'} and 1", lambda a: not np.any(np.abs(a) > 1), None


def orders(arrays: Sequence[Array]) -> Rules:
    """Ascending or descending along an axis; the numbers from 0 to n − 1 in any order."""
    if arrays[0].dtype.kind not in "iufb":
        return
    for axis in range(arrays[0].ndim):
        steps = [np.diff(a.astype(np.int64) if a.dtype.kind in "bu" else a, axis=axis).ravel() for a in arrays]
        together = np.concatenate(steps)
        enough = LEAST_OF_EACH if arrays[0].dtype.kind == "b" else CHANCE  # a mask has a step a row, up or down
        if together.size < CHANCE or np.count_nonzero(together) < enough:
            continue
        for sign, word in ((1, "ascending"), (-1, "descending")):
            if np.all(sign * together >= 0):
                strictly = bool(np.all(together != 0))
                yield f"is {word} along axis {axis}", _ordered(axis, sign, strictly), None
        if arrays[0].dtype.kind in "iu":
            order = lambda a, axis=axis: bool(
                np.all(
                    np.sort(a, axis) == np.moveaxis(np.arange(a.shape[axis])[(...,) + (None,) * (a.ndim - 1)], 0, axis)
                )
            )
            if all(map(order, arrays)):
                yield f"has each number from 0 once along axis {axis}", order, None


def _signed(sign: int, strictly: bool) -> Holds:
    return lambda a: not np.any(sign * a <= 0 if strictly else sign * a < 0)


def _ordered(axis: int, sign: int, strictly: bool) -> Holds:
    def holds(a: Array) -> bool:
        steps = sign * np.diff(a.astype(np.int64) if a.dtype.kind in "bu" else a, axis=axis)
        return bool(np.all(steps > 0 if strictly else steps >= 0))

    return holds


def along_axes(arrays: Sequence[Array]) -> Rules:
    """The same sum, norm, largest or least number along an axis, or of all numbers."""
    ndim, every = arrays[0].ndim, np.concatenate([a.ravel() for a in arrays])
    few = len(np.unique(every)) <= FEW  # of few values the largest is often the same
    for axis in [*range(ndim), *([tuple(range(ndim))] if ndim > 1 else [])]:
        where = f"along axis {axis}" if isinstance(axis, int) else "of all its numbers"
        for what, measure, back in MEASURES:
            if (few or arrays[0].dtype.kind == "c") and what in ("largest number", "least number"):
                continue
            value = _common_value(arrays, axis, measure)
            if value is not None:
                constant, zeros = value
                yield (
                    f"has {what} {constant:.6g} {where}",
                    _measured(axis, measure, constant, zeros),
                    _with(back, axis, constant),
                )


def _with(function: Callable[..., Array], *arguments: Any) -> Restored:
    return lambda a: function(a, *arguments)


def _rows(a: Array, axis: Any, measure: Any) -> tuple[Array, Array, float]:
    """A measure of every row, which rows are nothing but 0, and the size of what was added up."""
    absolute = np.abs(a)
    return measure(a, axis), ~np.any(a != 0, axis=axis), float(np.max(absolute.sum(axis), initial=0))


def _common_value(arrays: Sequence[Array], axis: Any, measure: Any) -> tuple[float, bool] | None:
    """The value that a measure has for all rows but those of zeros, and whether there are such; None if it differs."""
    found, zeros, rows, most = None, False, 0, 0.0
    lengths = set()
    for a in arrays:
        if not a.size or not np.isfinite(a).all():
            continue
        values, empty, size = _rows(a, axis, measure)
        values, zeros = np.asarray(values)[~empty], zeros or bool(np.any(empty))
        lengths.add(a.size if isinstance(axis, tuple) else a.shape[axis])
        if not values.size:
            continue
        found, most = values.ravel()[0] if found is None else found, max(most, size)
        if not close(values, np.full_like(values, found), size):
            return None
        rows += values.size
    if found is None or rows < LEAST_OF_EACH or max(lengths, default=0) < 2 or np.imag(found):
        return None
    constant = float(np.real(found))
    nice = float(f"{constant:.6g}")  # of a round number all digits are known
    few = np.finfo(arrays[0].dtype).eps ** 0.5
    if abs(constant) <= few * most:
        nice = 0.0
    return (nice if abs(constant - nice) <= few * max(abs(nice), most) else constant), zeros


def _measured(axis: Any, measure: Any, constant: float, zeros: bool) -> Holds:
    def holds(a: Array) -> bool:
        if not a.size or not np.isfinite(a).all():
            return True
        values, empty, size = _rows(a, axis, measure)
        values, empty = np.atleast_1d(values), np.atleast_1d(empty)
        if not zeros and constant and empty.any():
            return False
        values = values[~empty]
        return close(values, np.full_like(values, constant), max(size, abs(constant)))

    return holds


def _sum_restored(a: Array, axis: Any, constant: float) -> Array:
    total = a.sum(axis, keepdims=True)
    if constant:
        return np.where(total != 0, a * (constant / np.where(total != 0, total, 1)), a)
    there = a != 0
    return a - np.where(there, total / np.maximum(there.sum(axis, keepdims=True), 1), 0)


def _scaled_to(measure: Callable[..., Array]) -> Callable[[Array, Any, float], Array | Any]:
    def back(a: Array, axis: Any, constant: float) -> Array:
        size = measure(a, axis, keepdims=True)
        return np.where(size != 0, a * (constant / np.where(size != 0, size, 1)), a)

    return back


def _norm(a: Array, axis: Any, keepdims: bool = False) -> Array:
    return np.sqrt((a * a.conj()).real.sum(axis, keepdims=keepdims))


def _most(a: Array, axis: Any, keepdims: bool = False) -> Array:
    return a.max(axis, keepdims=keepdims)


MEASURES: tuple[tuple[str, Any, Any], ...] = (
    ("sum", lambda a, axis: a.sum(axis), _sum_restored),
    ("norm", _norm, _scaled_to(_norm)),
    ("largest number", _most, lambda a, axis, c: _scaled_to(_most)(a, axis, c) if c else a),
    ("least number", lambda a, axis: a.min(axis), lambda a, axis, c: a),
)


def matrices(arrays: Sequence[Array]) -> Rules:
    """What square matrices have: symmetry, a diagonal, a triangle of zeros, positive eigenvalues; orthogonal rows."""
    ndim, kind = arrays[0].ndim, arrays[0].dtype.kind
    for i, j in itertools.combinations(range(ndim), 2):
        if not all(a.shape[i] == a.shape[j] for a in arrays) or max(a.shape[i] for a in arrays) < 2:
            continue
        symmetric = False
        for words, back in SYMMETRIES.items():
            if (words == "Hermitian" and kind != "c") or (words == "antisymmetric" and kind in "bu"):
                continue
            same = lambda a, i=i, j=j, back=back: close(a, back(a, i, j).astype(a.dtype))
            if all(map(same, arrays)) and _unlikely(arrays, None, sum(a.size for a in arrays) // 4):
                symmetric = symmetric or words != "antisymmetric"
                yield f"is {words} in axes {i} and {j}", same, _with(back, i, j)
        yield from _diagonals(arrays, i, j)
        for words, cut in (("above", np.triu), ("below", np.tril)):
            empty = lambda a, i=i, j=j, cut=cut: (
                not np.any(cut(np.moveaxis(a, (i, j), (-2, -1)), 1 if cut is np.triu else -1))
            )
            n = [a.shape[i] for a in arrays]
            if all(map(empty, arrays)) and _unlikely(arrays, 0, sum(k * (k - 1) // 2 for k in n)):
                yield f"is 0 {words} the diagonal of axes {i} and {j}", empty, None
        if symmetric and kind in "fc" and (i, j) == (ndim - 2, ndim - 1) and all(map(_positive_definite, arrays)):
            yield "is positive definite", _positive_definite, None
    if kind in "fc" and ndim >= 2:
        yield from _orthogonal(arrays)


SYMMETRIES: dict[str, Callable[[Array, int, int], Array]] = {
    "symmetric": lambda a, i, j: a | a.swapaxes(i, j) if a.dtype.kind == "b" else (a + a.swapaxes(i, j)) / 2,
    "antisymmetric": lambda a, i, j: (a - a.swapaxes(i, j)) / 2,
    "Hermitian": lambda a, i, j: (a + a.swapaxes(i, j).conj()) / 2,
}


def _unlikely(arrays: Sequence[Array], number: Any, count: int) -> bool:
    """Whether so many numbers would hardly all be this one by chance; or be equal to another, if it is None."""
    together = np.concatenate([a.ravel() for a in arrays])
    if number is None:
        _, times = np.unique(together, return_counts=True)
        share = float(((times / together.size) ** 2).sum())
    else:
        share = float(np.mean(together == number))
    return share**count < UNLIKELY


def _diagonals(arrays: Sequence[Array], i: int, j: int) -> Rules:
    """One constant on the diagonal of two axes."""
    every = np.concatenate([np.diagonal(a, axis1=i, axis2=j).ravel() for a in arrays])
    if (
        every.size < LEAST_OF_EACH
        or not np.isfinite(every).all()
        or not close(every, np.full_like(every, every[0]), 1.0)
    ):
        return
    constant = every[0]
    if not _unlikely(arrays, constant, every.size):
        return

    def restored(a: Array) -> Array:
        a = a.copy()
        moved, k = np.moveaxis(a, (i, j), (0, 1)), np.arange(a.shape[i])
        moved[k, k] = constant
        return a

    yield (
        f"has {constant:g} on the diagonal of axes {i} and {j}",
        lambda a: close(np.diagonal(a, axis1=i, axis2=j), constant.astype(a.dtype), 1.0),
        restored,
    )


def _positive_definite(a: Array) -> bool:
    if not np.isfinite(a).all():
        return False
    values = np.linalg.eigvalsh(a.astype(complex if a.dtype.kind == "c" else float))
    return bool(np.all(values[..., :1] > np.finfo(float).eps ** 0.5 * values[..., -1:]))


def _orthogonal(arrays: Sequence[Array]) -> Rules:
    """Rows or columns of the last two axes that are orthonormal, and the sign of the determinant."""
    for across, words in ((False, "rows"), (True, "columns")):
        turned = (lambda a: a.swapaxes(-1, -2)) if across else (lambda a: a)
        holds = lambda a, turned=turned: _orthonormal(turned(a))
        if max(min(a.shape[-2:]) for a in arrays) >= 2 and all(map(holds, arrays)):
            yield f"has orthonormal {words}", holds, _turned_back(turned)
            if all(a.shape[-1] == a.shape[-2] for a in arrays):
                for sign, what in ((1, "is a rotation"), (-1, "is a reflection")):
                    turns = lambda a, sign=sign: not np.any(sign * np.linalg.det(a.astype(float)) < 0)
                    if arrays[0].dtype.kind == "f" and all(map(turns, arrays)) and len(arrays) >= LEAST_OF_EACH:
                        yield what, turns, None
            return


def _orthonormal(a: Array) -> bool:
    product = a @ a.swapaxes(-1, -2).conj()
    return close(product, np.broadcast_to(np.eye(a.shape[-2]), product.shape).astype(a.dtype), 1.0)


def _turned_back(turned: Restored) -> Restored:
    return lambda a: turned(_made_orthonormal(turned(a)))


def _made_orthonormal(a: Array) -> Array:
    """Newton's iteration to the nearest orthonormal rows, X ← (3 − X Xᴴ) X/2; the array itself, if too far away."""
    start = a
    for _ in range(ORTHOGONAL_STEPS):
        a = (3 * np.eye(a.shape[-2], dtype=a.real.dtype) - a @ a.swapaxes(-1, -2).conj()) @ a / 2
    return a if np.isfinite(a).all() and _orthonormal(a) else start


def masks(arrays: Sequence[Array]) -> Rules:
    """At least one True, or the same number of them, along an axis."""
    share = float(np.mean(np.concatenate([a.ravel() for a in arrays])))
    for axis in range(arrays[0].ndim):
        rows = [(a.shape[axis], a.sum(axis).ravel()) for a in arrays if a.size]
        counts = np.concatenate([count for _, count in rows]) if rows else np.zeros(0)
        if not counts.size:
            continue
        least = int(counts.min())
        if counts.size >= CHANCE and np.all(counts == least) and least and len({n for n, _ in rows}) > 1:
            yield f"has {least} True along axis {axis}", _has_true(axis, least), None
        elif least > 0 and np.exp(-sum((1 - share) ** n * count.size for n, count in rows)) < UNLIKELY:
            yield f"has a True along axis {axis}", _has_true(axis, None), None


def _has_true(axis: int, number: int | None) -> Holds:
    return lambda a: bool(np.all(a.any(axis) if number is None else a.sum(axis) == number))
