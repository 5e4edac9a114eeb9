"""What a function is seen to do, where nothing fits: attention tells its weights if values are the unit matrix."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from refnp.numbers.rounding import WIDE
from refnp.verify.case import Answer, Layer, Problem
from refnp.verify.causes.answered import Answered

Ask = Callable[[Problem], Answer]
LITTLE = 1e-4  # a weight below is none


def seen(layer: Layer, answered: Sequence[Answered], ask: Ask) -> str:
    """What is seen of a function in the smallest cases that tell something; "" if that is nothing."""
    for a in answered[:5]:
        given = list(a.problem.arrays)
        if given[:3] != ["query", "key", "value"]:
            return ""
        try:
            if found := "; ".join(of_weights(*weights_of(layer, a, ask))):
                return found
        except Exception:  # it does not take such values
            continue
    return ""


def weights_of(layer: Layer, a: Answered, ask: Ask) -> tuple[np.ndarray, np.ndarray]:
    """The weights that an attention gives each key, and the right ones.   Shapes: (..., N, M)."""
    value = a.problem.arrays["value"]
    unit = np.broadcast_to(np.eye(value.shape[-2], dtype=value.dtype), (*value.shape[:-1], value.shape[-2])).copy()
    arrays = {**a.problem.arrays, "value": unit}
    case = replace(a.problem.case, gradients=(), inputs={**a.problem.case.inputs, "value": unit})
    problem = Problem(case, a.problem.dtype, arrays, a.problem.rng)
    right = np.asarray(layer.function(*(x.astype(WIDE) for x in arrays.values()), **case.options), WIDE)
    return np.asarray(ask(problem)["output"], WIDE), right


def of_weights(weights: np.ndarray, right: np.ndarray) -> Iterator[str]:
    """What sets weights apart from the right ones: their sums, which keys are seen, how steeply they fall."""
    if weights.shape != right.shape or not np.isfinite(weights).all():
        return
    sums, ought = weights.sum(-1), right.sum(-1)
    off = np.abs(sums - ought) > LITTLE
    if off.any():
        low, high = float(sums[off].min()), float(sums[off].max())
        span = f"{low:.3g}" if high - low < LITTLE else f"{low:.3g} … {high:.3g}"
        fewer = " as if there were more keys" if high < 1 else ""
        yield f"weights do not sum to 1 but to {span}{',' if fewer else ''}{fewer}"
    more, less = (weights > LITTLE) & (right == 0), (weights < LITTLE**2) & (right > LITTLE)
    for pairs, says in ((more, "sees key {} (offset {}), which is hidden"), (less, "does not see key {} (offset {})")):
        if pairs.any():
            n, m = np.argwhere(pairs)[0][-2:]
            offsets = np.unique(np.argwhere(pairs)[:, -1] - np.argwhere(pairs)[:, -2])
            rest = f"; such offsets are {offsets[0]} to {offsets[-1]}" if len(offsets) > 1 else ""
            yield f"query {n} {says.format(m, m - n)}{rest}"
    if not off.any() and not more.any() and not less.any():
        yield from of_slope(weights, right)


def of_slope(weights: np.ndarray, right: np.ndarray) -> Iterator[str]:
    """The slope of log-weights against the right ones, if they lie on a line."""
    both = (weights > 0) & (right > 0)
    differ = lambda a: np.where(both, np.log(np.where(both, a, 1)), 0)
    count = np.maximum(both.sum(-1, keepdims=True), 1)
    x, y = (np.where(both, v - v.sum(-1, keepdims=True) / count, 0) for v in map(differ, (right, weights)))
    if not (x * x).sum():
        return
    slope = float((x * y).sum() / (x * x).sum())
    if abs(slope - 1) > LITTLE and np.abs(y - slope * x).max() < LITTLE * np.abs(y).max():
        yield f"log-weights are {slope:.4g} times what is right"
