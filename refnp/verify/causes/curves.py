"""The curve of a function of elements, the statistics of a norm, and jumps, as they are seen in what is answered."""

import functools
from collections.abc import Callable, Iterator

import numpy as np

from refnp.numbers.rounding import WIDE, tolerance
from refnp.verify.causes.answered import Answered
from refnp.verify.causes.matrices import (
    LITTLE,
    Ask,
    and_more,
    at_place,
    given_of,
    right_of,
    told_apart,
    with_arrays,
)
from refnp.verify.causes.options import defaults_of

GRID = np.linspace(-12, 12, 193)  # where the curve of a function of elements is asked
END = 9  # places at an end of the grid that are to lie on a line
GROWTHS = (2.0**-10, 2.0**-13)  # of an argument from one call to the next: where 8 bits are kept, and 11
CALLS, HALVED = 48, 14  # and how often the place of a jump is halved
FEWEST = 3  # jumps
ROUGH = 1 / 16  # of an error is more than a smooth one bends from one call to the next
LARGER, BEYOND = 64, 64  # times what is between jumps, and the bound of what is right
MOST = 128  # numbers of a norm's argument, each of which is moved


def of_curve(a: Answered, ask: Ask) -> Iterator[str]:
    """Where a function of elements jumps, or leaves the right one, and what it is beyond."""
    if len(a.problem.arrays) != 1:
        return
    (name, _), *_ = a.problem.arrays.items()
    x = a.policy.given(GRID)
    problem = with_arrays(a.problem, {name: x})
    right, one, back = (right_of(a, {name: v}) for v in (x, x[:1], x[::-1]))
    if right.shape != x.shape or one[0] != right[0] or (back[::-1] != right).any():
        return  # a function of rows
    given, one, back = (given_of(a, ask, {name: v}) for v in (x, x[:1], x[::-1]))
    near = tolerance(problem.bounds["output"], problem.dtype)
    if given.shape == right.shape and not (abs(given[:1] - one) <= near[:1]) & (abs(given - back[::-1]) <= near).all():
        return
    off = ~(np.abs(given - right) <= tolerance(problem.bounds["output"], problem.dtype))
    if given.shape != right.shape or not off.any():
        return
    if jumps := list(of_steps(a, ask)):
        yield from jumps
        return
    if off.all():
        k = int(np.nanargmax(np.abs(given - right)))
        at = f"{name} = {x[k]:.4g}: {', not '.join(told_apart(given[k], right[k]))}"
        yield f"the curve is another one everywhere, farthest at {at}"
    else:
        edges = np.flatnonzero(np.diff(np.concatenate([[False], off, [False]]).astype(int)))
        ends = [(x[i], x[j - 1]) for i, j in zip(edges[::2], edges[1::2], strict=True)]
        runs = [f"at {name} = {a:.4g}" if a == b else f"from {name} = {a:.4g} to {b:.4g}" for a, b in ends]
        rest = f" and at {len(runs) - 2} more places" if len(runs) > 2 else ""
        yield f"the curve leaves the right one {' and '.join(runs[:2])}{rest}"
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


def of_statistics(a: Answered, ask: Ask) -> Iterator[str]:
    """Of a norm, (x − m)/s: whether m and s are right, and which numbers count in them too much or too little."""
    arrays = a.problem.arrays
    if "gain" not in arrays or "eps" not in defaults_of(a.problem.case.layer) or arrays["x"].size > MOST:
        return
    fixed = {n: np.ones_like(v) if n == "gain" else np.zeros_like(v) for n, v in arrays.items() if n != "x"}
    x = arrays["x"]
    all_of = lambda x: {**arrays, **fixed, "x": x}
    both_of = lambda x: (given_of(a, ask, all_of(x)), right_of(a, all_of(x)))
    place = lambda k: tuple(int(n) for n in np.unravel_index(k, x.shape))
    moved = lambda k: np.where(np.arange(x.size).reshape(x.shape) == k, x + x.dtype.type(0.5), x)
    given, right = both_of(x)
    group = np.flatnonzero(
        (right_of(a, all_of(moved(0))) != right).ravel()
    )  # what shares statistics with the first number
    if len(group) < 3 or given.shape != right.shape:
        return
    statistics = lambda x, y: of_line(x.ravel()[group].astype(WIDE), y.ravel()[group])
    own, ought = statistics(x, given), statistics(x, right)
    if own is None or ought is None:
        return
    little = max(LITTLE, 4 * a.policy.stored.u)  # which the rounding of results may hide
    differs = [abs(o - r) > little * max(abs(r), abs(ought[1])) for o, r in zip(own, ought, strict=True)]
    for off, what, one, other in zip(differs, ("mean", "deviation"), own, ought, strict=True) if any(differs) else ():
        beside = f"{' where '.join(told_apart(one, other))} is right" if off else "right"
        yield f"of the row of {at_place('x', place(group[0]))} the {what} is {beside}"
    for off, what, i in zip(differs, ("mean", "deviation"), (0, 1), strict=True):
        lost = []
        for k in group if off else ():
            mine, true = (statistics(moved(k), y) for y in both_of(moved(k)))
            if mine and true and abs(mine[i] - own[i]) < LITTLE**2 < abs(true[i] - ought[i]):
                lost.append(place(k))
        if lost:
            yield f"{at_place('x', lost[0])} does not count in the {what}{and_more(lost)}"


def of_line(x: np.ndarray, y: np.ndarray) -> tuple[float, float] | None:
    """m and s of y = (x − m)/s; None if y is no such function."""
    slope, start, straight = line_through(x, y)
    return (-start / slope, 1 / slope) if straight and slope else None


def of_steps(a: Answered, ask: Ask) -> Iterator[str]:
    """Which element jumps, and how often, as all numbers of an argument grow by a part of themselves.

    Numbers that are stored in few bits do not grow by so little.
    """
    if a.policy.narrow:
        return
    for name, x in a.problem.arrays.items():
        for growth in GROWTHS if x.dtype.kind == "f" and x.size else ():
            error = functools.partial(error_at, a, ask, name)
            errors = np.array([error(1 + k * growth) for k in range(CALLS)])  # (calls, results)
            bends = np.abs(np.diff(errors, 2, axis=0))
            most = bends.max(0, initial=0)
            rough = (bends > most / 8).sum(0)
            between = (bends < most / LARGER).sum(0)
            stepped = (rough >= 2 * FEWEST) & (between >= CALLS // 2) & (most > BEYOND * a.allowed["output"].ravel())
            if not (stepped & np.isfinite(most)).any():
                continue
            k = int(np.argmax(np.where(stepped & np.isfinite(most), most, 0)))
            jumps = np.abs(np.diff(errors[:, k]))
            first = int(np.argmax(jumps))
            if is_jump(error, k, 1 + first * growth, growth, float(jumps[first])):
                place = at_place("output", tuple(map(int, np.unravel_index(k, a.right["output"].shape))))
                times = int((jumps > jumps[first] / 4).sum())
                yield (
                    f"as {name} grows by {100 * CALLS * growth:.1f} %, {place} jumps {times} times, "
                    f"by up to {jumps[first]:.2g}: by a condition, or something inside is rounded"
                )
                return


def is_rough(a: Answered, ask: Ask) -> bool:
    """Whether errors change by chance as an argument grows by little, as those of rounding do."""
    for name, x in a.problem.arrays.items():
        if x.dtype.kind == "f" and x.size:
            errors = np.array([error_at(a, ask, name, 1 + k * GROWTHS[-1]) for k in range(FEWEST + 2)])
            if (np.abs(np.diff(errors, 2, axis=0)).max(0) > ROUGH * np.abs(errors).max(0)).any():
                return True
    return False


def error_at(a: Answered, ask: Ask, name: str, factor: float) -> np.ndarray:
    """How far each result is from the right one, with an argument times a factor."""
    arrays = {**a.problem.arrays}
    arrays[name] = (arrays[name] * factor).astype(arrays[name].dtype)
    return (given_of(a, ask, arrays) - right_of(a, arrays)).ravel()


def is_jump(errors: Callable[[float], np.ndarray], k: int, low: float, growth: float, jump: float) -> bool:
    """Whether an element's error jumps in an interval: by as much in a part of it that is thousands of times less."""
    error = lambda factor: errors(factor)[k]
    left, right = error(low), error(low + growth)
    for _ in range(HALVED):
        growth /= 2
        middle = error(low + growth)
        if abs(middle - left) >= abs(right - middle):
            right = middle
        else:
            low, left = low + growth, middle
    return bool(abs(right - left) > jump / 2)
