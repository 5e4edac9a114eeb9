"""What a function is seen to do, where nothing fits: it is asked again, with one thing that is another.

Two calls with the same arguments are to agree. Attention tells its weights if values are the unit matrix. Any function
tells which numbers each of its outputs depends on: it is asked with one number of an argument moved, or one row.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from refnp.numbers.rounding import WIDE
from refnp.verify.case import Answer, Layer, Problem
from refnp.verify.causes.answered import Answered

Ask = Callable[[Problem], Answer]
LITTLE = 1e-4  # a weight below is none, and a change of an output beside the largest
ASKED = 64  # numbers or rows that are moved, one at a time


def seen(layer: Layer, answered: Sequence[Answered], ask: Ask) -> str:
    """What is seen of a function in the smallest cases that tell something; "" if that is nothing."""
    of_attention = list(answered[0].problem.arrays)[:3] == ["query", "key", "value"]
    for a in answered[:5]:
        try:
            found = list(of_two_calls(a, ask))
            if not found and of_attention:
                found = list(of_weights(*weights_of(layer, a, ask)))
            if found := found or list(itertools.islice(of_influence(layer, a, ask), 2)):
                return "; ".join(found)
        except Exception:  # it does not take such values
            continue
    return ""


def of_two_calls(a: Answered, ask: Ask) -> Iterator[str]:
    """Whether two calls with the same arguments differ."""
    first, second = (np.asarray(ask(a.problem)["output"], WIDE) for _ in range(2))
    if first.shape != second.shape or not ((first == second) | (np.isnan(first) & np.isnan(second))).all():
        yield "two calls with the same arguments differ"


def of_influence(layer: Layer, a: Answered, ask: Ask) -> Iterator[str]:
    """Which numbers of an argument, or rows of a larger one, have no influence where they should, or the reverse."""
    arrays, options = a.problem.arrays, a.problem.case.options
    right_of = lambda given: np.asarray(layer.function(*(x.astype(WIDE) for x in given.values()), **options), WIDE)
    before, right = np.asarray(ask(a.problem)["output"], WIDE), right_of(arrays)
    if before.shape != right.shape or not np.isfinite(before).all():
        return
    for name, x in arrays.items():
        pieces = list(np.ndindex(x.shape if x.size <= ASKED else x.shape[:-1]))
        if x.dtype.kind != "f" or not 1 < len(pieces) <= ASKED:
            continue
        lost, more, less = [], [], []
        for piece in pieces:
            moved = x.copy()
            moved[piece] = 1.5 * x[piece] + 0.25
            given = {**arrays, name: moved}
            own = np.abs(np.asarray(ask(with_arrays(a.problem, given))["output"], WIDE) - before)
            ought = np.abs(right_of(given) - right)
            sees, should = own > LITTLE * max(1, np.abs(before).max(initial=0)), ought > LITTLE
            if should.any() and not own.any():
                lost.append(piece)
            more += [(at, piece) for at in map(tuple, np.argwhere(sees & (ought == 0)).tolist())]
            less += [(at, piece) for at in map(tuple, np.argwhere((own == 0) & should).tolist()) if own.any()]
        if lost:
            yield f"{at_place(name, lost[0])} has no influence{and_more(lost)}"
        for pairs, says in ((more, "depends on {}, and must not"), (less, "does not depend on {}")):
            if pairs:
                at, piece = pairs[0]
                yield f"{at_place('output', at)} {says.format(at_place(name, piece))}{and_more(pairs)}"


def at_place(name: str, place: tuple) -> str:
    """x[0, 3]; the name alone of one number."""
    return f"{name}{list(place)}" if place else name


def and_more(found: list) -> str:
    """How many more there are."""
    return f" (and {len(found) - 1} more)" if len(found) > 1 else ""


def with_arrays(problem: Problem, arrays: dict[str, np.ndarray]) -> Problem:
    """The problem of other arguments, of which the output alone is asked."""
    case = replace(problem.case, gradients=(), inputs=arrays)
    return Problem(case, problem.dtype, arrays, problem.rng)


def weights_of(layer: Layer, a: Answered, ask: Ask) -> tuple[np.ndarray, np.ndarray]:
    """The weights that an attention gives each key, and the right ones.   Shapes: (..., N, M)."""
    value = a.problem.arrays["value"]
    unit = np.broadcast_to(np.eye(value.shape[-2], dtype=value.dtype), (*value.shape[:-1], value.shape[-2])).copy()
    arrays, options = {**a.problem.arrays, "value": unit}, a.problem.case.options
    right = np.asarray(layer.function(*(x.astype(WIDE) for x in arrays.values()), **options), WIDE)
    return np.asarray(ask(with_arrays(a.problem, arrays))["output"], WIDE), right


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
