r"""Central differences, extrapolated to step 0, with an estimate of the error.

A central difference errs by even powers of its step only, and each column of the table removes the next of them:

    D(h) = (f(x + hv) − f(x − hv)) / 2h = f′(x)v + c₂h² + c₄h⁴ + …
    Tₖ₀ = D(h/2ᵏ)        Tₖⱼ = Tₖ,ⱼ₋₁ + (Tₖ,ⱼ₋₁ − Tₖ₋₁,ⱼ₋₁) / (4ʲ − 1)

A small step cancels digits (noise u|f|/h), a large one truncates. Ridders' rule chooses between them without knowing
either: every entry is compared with the two it came from, and the entry that moved least is the answer, element by
element of f. That movement, plus the rounding noise of f at that step, is the estimate of the error. Seven levels reach
1e-13 in float64 and 1e-16 in an x87 longdouble where f is smooth on the scale of the first step.

Where it is not, because f bends on a smaller scale or leaves its domain, all of the table is laid again with smaller
steps.

Sources: Richardson, Phil. Trans. A 210 (1911) 307; Ridders, Adv. Eng. Software 4 (1982) 75;
Higham (2002), §1.14, for the noise of a difference.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gradcheck.precision import roundoff


class Estimate(NamedTuple):
    """A numerical derivative and how far it may be from the true one, element by element."""

    value: np.ndarray
    error: np.ndarray

    @property
    def doubt(self) -> np.ndarray:
        """The relative error, and 1 where that is above 1e-3.

        Far out, where f no longer changes, a difference is small and so is its error; only relative to its value does
        it show that it knows nothing. Where every value is noise all are in full doubt, and the smallest noise is best.
        """
        with np.errstate(all="ignore"):
            relative = np.where(self.error == 0, 0.0, self.error / np.abs(self.value))
        return np.where(relative <= 1e-3, relative, 1.0)

    def or_better(self, other: "Estimate") -> "Estimate":
        """Element by element, the estimate with less doubt, or with the smaller error where both are in full doubt."""
        better = (other.doubt < self.doubt) | ((other.doubt == self.doubt) & (other.error < self.error))
        return self._replaced(other, better)

    def or_closer(self, closer: "Estimate") -> "Estimate":
        """The better of two estimates; where they contradict each other, that from smaller steps, if it knows anything.

        Steps that are too large deceive by far more than their error, for they leap over what f does in between.
        """
        contradict = np.abs(self.value - closer.value) > 10 * (self.error + closer.error)
        return self.or_better(closer)._replaced(closer, contradict & (closer.doubt < 1))

    def _replaced(self, other: "Estimate", where: np.ndarray) -> "Estimate":
        return Estimate(np.where(where, other.value, self.value), np.where(where, other.error, self.error))


def extrapolated(row: list, above: list, base: int) -> list:
    """Complete one row of a Richardson table from its first entry and the row above; `base` is 4 for a central
    difference (only even powers of h to remove), 2 for a one-sided one."""
    for j, entry in enumerate(above, start=1):
        row.append(row[-1] + (row[-1] - entry) / (base**j - 1))
    return row


def best_entry(rows: list[list], noise: list) -> Estimate:
    """Ridders' choice from a table: the entry that moved least from the two it was made of.

    The least of many movements may be small by luck, where noise is larger than it was taken for. So the best entries
    of three rows, which share but some of their noise, vouch for each other: their distances are part of the error.
    """
    of_rows = []
    for k in range(1, len(rows)):
        best = Estimate(rows[k][0], np.full(np.shape(rows[k][0]), np.inf))
        for j in range(1, k + 1):
            moved = np.maximum(np.abs(rows[k][j] - rows[k][j - 1]), np.abs(rows[k][j] - rows[k - 1][j - 1]))
            best = best.or_better(Estimate(rows[k][j], moved + noise[k]))
        of_rows.append(best)
    value, error, doubt = (np.stack(part) for part in zip(*((*e, e.doubt) for e in of_rows), strict=True))
    order = np.lexsort((error, doubt), axis=0)[:3]  # (3, m...)
    value, error = np.take_along_axis(value, order, axis=0), np.take_along_axis(error, order, axis=0)
    apart = np.abs(value - value[0])
    return Estimate(value[0], np.fmax(error[0], np.where(np.isfinite(apart), apart, 0.0).max(axis=0)))


def richardson(
    f: Callable,
    x: np.ndarray,
    v: np.ndarray,
    *,
    step: float = 0.125,
    levels: int = 7,
    rounds: int = 5,
    within: np.ndarray | float = 0.0,
) -> Estimate:
    """Directional derivative f′(x)v of a function of one array, by extrapolated central differences.

    Shapes: x and v (...), f: (...) → (m...) → Estimate(value (m...), error (m...)), all in the dtype of x. `v` should
    be as long as the scale on which f changes: the first step goes to x ± v/8. Each round costs 2·levels evaluations;
    most functions need one. `within` is the size of what cancels inside f, where that is known to be larger than f
    itself (1 for 1 − tanh²), so that its rounding is not taken for a value. An error of inf: no entry was finite.
    """
    u = roundoff(np.asarray(x).dtype)
    start = np.asarray(f(x))
    best = Estimate(np.full(start.shape, np.nan, start.dtype), np.full(start.shape, np.inf, start.dtype))
    for _ in range(rounds):
        rows: list[list] = []
        noise: list = []
        for _ in range(levels):
            plus, minus = np.asarray(f(x + step * v)), np.asarray(f(x - step * v))
            rows.append(extrapolated([(plus - minus) / (2 * step)], rows[-1] if rows else [], base=4))
            noise.append(u * (np.abs(plus) + np.abs(minus) + 2 * within) / step)
            step = step / 2
        best = best.or_closer(best_entry(rows, noise))
        # Smaller steps help only while it is truncation that spoils the table and not the noise.
        if np.all(best.error <= np.maximum(1e6 * u * np.abs(best.value), 16 * noise[-1])):
            break
    return best
