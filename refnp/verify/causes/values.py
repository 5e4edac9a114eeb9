"""What a function answers to a case, and how far two answers are from each other."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from refnp.autograd import vjp
from refnp.verify.case import Answer, Problem


def distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """|x − y|: 0 between the same infinities or two NaN, infinite to what is not finite."""
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    return np.nan_to_num(np.where(same, 0, np.abs(x - y)), nan=np.inf, posinf=np.inf)


def along_rows(lost: np.ndarray, value: np.ndarray) -> np.ndarray:
    """The largest of each row; ∞ in a row of which rounding may leave nothing."""
    if not lost.ndim or not lost.size:
        return lost
    most = np.where(np.isnan(lost), np.inf, lost).max(-1, keepdims=True)
    size = np.abs(np.where(np.isfinite(value), value, 0)).max(-1, keepdims=True)
    return np.broadcast_to(np.where(most < size, most, np.inf), lost.shape)


def furthest(x: np.ndarray, y: np.ndarray) -> float:
    """The largest difference; none between the same infinities or two NaN, an infinite one to what is not finite."""
    if x.shape != y.shape:
        return math.inf
    return float(distances(x, y).max(initial=0))


def answer_of(
    problem: Problem,
    function: Callable,
    dtype: Any,
    arrays: Sequence[np.ndarray] | None = None,
    *,
    gradients: bool = True,
) -> Answer:
    """Output and gradients of a function of the problem's arrays and options, computed in `dtype`."""
    arrays = [a.astype(dtype) for a in (problem.arrays.values() if arrays is None else arrays)]
    applied = lambda *given: function(*given, **problem.case.options)
    if not gradients or len(problem.case.quantities) == 1:
        return {"output": np.asarray(applied(*arrays))}
    output, pullback = vjp(applied, *arrays)
    output = np.asarray(output)
    if output.shape != problem.cotangent.shape:  # there is no gradient to compare
        return {"output": output}
    return problem.selected(output, lambda: pullback(problem.cotangent.astype(dtype)))
