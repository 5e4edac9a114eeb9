r"""Kinks: points where a function has one slope to the left and another to the right, and so no derivative.

    f′₊(x)v = lim (f(x + hv) − f(x))/h        f′₋(x)v = lim (f(x) − f(x − hv))/h        (h ↓ 0)

relu and |x| at 0 and the maximum of equal numbers have them. Any number between the two slopes is called a subgradient
there, and every framework picks its own; to compare one with a difference, which gives the mean, would mean nothing.

Each slope is extrapolated by a Richardson table of its own (one-sided differences err by all powers of h, so its base
is 2) and comes with an error; a kink is a difference of slopes far beyond both errors. A jump of f is a slope of
infinity, the edge of its domain one of nan. What looks like a kink from afar is looked at again, twice, from 1000 times
closer, for a smooth function may bend sharply; so only a kink within 1e-9 of the size of x counts as one *at* x.
"""

from collections.abc import Callable

import numpy as np

from gradcheck.directions import Direction, along
from gradcheck.flat import FlatFunction
from gradcheck.precision import DType, roundoff
from gradcheck.richardson import Estimate, best_entry, extrapolated

MOST = 64  # after so many single kinks, what else seems to have one is left out without a closer look


def one_sided(
    f: Callable, x: np.ndarray, v: np.ndarray, *, step: float = 2.0**-8, levels: int = 5
) -> tuple[Estimate, Estimate]:
    """The slopes of f along v to the left and to the right of x, each with its error; 2·levels + 1 evaluations.

    Shapes: x and v (...), f: (...) → (m...) → two Estimates of (m...). Computed in the dtype of x. Where f jumps, the
    value is ±inf; where it has no finite values on one side, nan.
    """
    u, here = roundoff(np.asarray(x).dtype), np.asarray(f(x))
    tables: tuple[list, list] = [], []
    noise, steps = [], [step / 2**k for k in range(levels)]
    for h in steps:
        for rows, sign in zip(tables, (-1, 1), strict=True):
            slope = (np.asarray(f(x + sign * h * v)) - here) / (sign * h)
            rows.append(extrapolated([slope], rows[-1] if rows else [], base=2))
        noise.append(8 * u * np.abs(here) / h)
    estimates = []
    for rows in tables:
        rises = np.array([np.abs(row[0]) * h for row, h in zip(rows, steps, strict=True)])
        jumps = (rises[-1] > 0.5 * rises.max(axis=0)) & (rises[-1] > 1e4 * u * np.abs(here))
        best = best_entry(rows, noise)
        estimates.append(Estimate(np.where(jumps, np.copysign(np.inf, rows[-1][0]), best.value), best.error))
    return estimates[0], estimates[1]


def has_kink(f: Callable, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Where (m...) the outputs of f have a kink, a jump or an end of their domain at x along v."""
    found, before = np.asarray(True), np.asarray(np.inf)
    for step in (2.0**-8, 2.0**-18, 2.0**-28):
        with np.errstate(all="ignore"):
            left, right = one_sided(f, x, v, step=step)
            gap, steep = np.abs(right.value - left.value), np.abs(right.value) + np.abs(left.value)
            usual = np.mean(steep[np.isfinite(steep)]) if np.isfinite(steep).any() else 0.0
            error = 10 * (left.error + right.error)
            blind = (error > 0.1 * before) & np.isfinite(before)  # nothing new can be seen from so close
        found = found & ((gap > error + 1e-7 * (steep + usual)) | ~np.isfinite(gap) | blind)
        before = gap
        if not found.any():
            break
    return found


def find_kinks(problem: FlatFunction, precision: DType, rng: np.random.Generator) -> np.ndarray:
    """The elements of x at which F has a kink, in order.

    Random directions through halves of halves, down to single elements: a smooth function is done after one direction
    for each array, k kinks among n elements take about 2k log₂ n. A kink that no single axis crosses is not found.
    """
    x = problem.x.astype(precision)
    found: list[int] = []

    def search(direction: Direction) -> None:
        if not has_kink(problem, x, direction.vector(x.size)).any():
            return
        if len(direction.support) == 1 or len(found) >= MOST:
            found.extend(int(j) for j in direction.support)
        else:
            for half in direction.halves():
                search(half)

    for leaf in problem.leaves:
        if leaf.stop > leaf.start:
            search(along(problem, np.arange(leaf.start, leaf.stop), rng))
    return np.array(sorted(found), dtype=np.intp)
