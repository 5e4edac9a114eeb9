"""The curve of a function of elements, and the statistics of a norm, as they are seen in what a function answers."""

from collections.abc import Iterator

import numpy as np

from refnp.numbers.rounding import WIDE, tolerance
from refnp.verify.case import Layer
from refnp.verify.causes.answered import Answered
from refnp.verify.causes.matrices import LITTLE, Ask, and_more, at_place, output_of, with_arrays
from refnp.verify.causes.options import defaults_of

GRID = np.linspace(-12, 12, 193)  # where the curve of a function of elements is asked
END = 9  # places at an end of the grid that are to lie on a line
MOST = 128  # numbers of a norm's argument, each of which is moved


def of_curve(layer: Layer, a: Answered, ask: Ask) -> Iterator[str]:
    """Where a function of elements leaves the right one, and what it is beyond."""
    if len(a.problem.arrays) != 1:
        return
    (name, _), *_ = a.problem.arrays.items()
    x = GRID.astype(a.policy.dtype)
    problem = with_arrays(a.problem, {name: x})
    right, one = (np.asarray(layer.function(v.astype(WIDE), **problem.case.options), WIDE) for v in (x, x[:1]))
    if right.shape != x.shape or one[0] != right[0]:
        return  # a function of rows
    given = output_of(ask(problem))
    off = ~(np.abs(given - right) <= tolerance(problem.bounds["output"], problem.dtype))
    if given.shape != right.shape or not off.any():
        return
    if off.all():
        k = int(np.nanargmax(np.abs(given - right)))
        at = f"{name} = {x[k]:.4g}: {given[k]:.4g}, not {right[k]:.4g}"
        yield f"the curve is another one everywhere, farthest at {at}"
    else:
        edges = np.flatnonzero(np.diff(np.concatenate([[False], off, [False]]).astype(int)))
        runs = [f"{x[i]:.4g} to {x[j - 1]:.4g}" for i, j in zip(edges[::2], edges[1::2], strict=True)]
        rest = f" and in {len(runs) - 2} more stretches" if len(runs) > 2 else ""
        yield f"the curve leaves the right one from {name} = {' and from '.join(runs[:2])}{rest}"
    for end, chosen in ((f"below {x[END]:.3g}", slice(None, END)), (f"above {x[-END - 1]:.3g}", slice(-END, None))):
        slope, start, straight = line_through(x[chosen].astype(WIDE), given[chosen])
        if off[chosen].all() and straight:
            yield f"{end} it is {'' if abs(slope) < LITTLE else f'{slope:.4g} {name} + '}{start:.4g}"


def line_through(x: np.ndarray, y: np.ndarray) -> tuple[float, float, bool]:
    """Slope and start of a line, and whether all numbers lie on it."""
    away = x - x.mean()
    slope = float((away * y).sum() / (away * away).sum())
    start = float(y.mean() - slope * x.mean())
    return slope, start, bool(np.abs(slope * x + start - y).max() <= LITTLE * max(float(np.abs(y).max()), LITTLE))


def of_statistics(layer: Layer, a: Answered, ask: Ask) -> Iterator[str]:
    """Of a norm, (x − m)/s: whether m and s are right, and which numbers count in them too much or too little."""
    arrays, options = a.problem.arrays, a.problem.case.options
    if "gain" not in arrays or "eps" not in defaults_of(layer) or arrays["x"].size > MOST:
        return
    fixed = {n: np.ones_like(v) if n == "gain" else np.zeros_like(v) for n, v in arrays.items() if n != "x"}
    x = arrays["x"]
    all_of = lambda x: {**arrays, **fixed, "x": x}
    right_of = lambda x: np.asarray(layer.function(*(v.astype(WIDE) for v in all_of(x).values()), **options), WIDE)
    given_of = lambda x: output_of(ask(with_arrays(a.problem, all_of(x))))
    place = lambda k: tuple(int(n) for n in np.unravel_index(k, x.shape))
    moved = lambda k: np.where(np.arange(x.size).reshape(x.shape) == k, x + x.dtype.type(0.5), x)
    right, given = right_of(x), given_of(x)
    group = np.flatnonzero((right_of(moved(0)) != right).ravel())  # what shares statistics with the first number
    if len(group) < 3 or given.shape != right.shape:
        return
    statistics = lambda x, y: of_line(x.ravel()[group].astype(WIDE), y.ravel()[group])
    own, ought = statistics(x, given), statistics(x, right)
    if own is None or ought is None:
        return
    differs = [abs(o - r) > LITTLE * max(abs(r), abs(ought[1])) for o, r in zip(own, ought, strict=True)]
    for off, what, one, other in zip(differs, ("mean", "deviation"), own, ought, strict=True) if any(differs) else ():
        beside = f"{one:.4g} where {other:.4g} is right" if off else "right"
        yield f"of the row of {at_place('x', place(group[0]))} the {what} is {beside}"
    for off, what, i in zip(differs, ("mean", "deviation"), (0, 1), strict=True):
        lost = []
        for k in group if off else ():
            mine, true = statistics(moved(k), given_of(moved(k))), statistics(moved(k), right_of(moved(k)))
            if mine and true and abs(mine[i] - own[i]) < LITTLE**2 < abs(true[i] - ought[i]):
                lost.append(place(k))
        if lost:
            yield f"{at_place('x', lost[0])} does not count in the {what}{and_more(lost)}"


def of_line(x: np.ndarray, y: np.ndarray) -> tuple[float, float] | None:
    """m and s of y = (x − m)/s; None if y is no such function."""
    slope, start, straight = line_through(x, y)
    return (-start / slope, 1 / slope) if straight and slope else None
