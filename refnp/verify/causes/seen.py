"""What a function is seen to do, where nothing fits: it is asked again, with one thing that is another.

Two calls with the same arguments are to agree. Attention tells its weights if values are the unit matrix, a norm its
statistics, a loss how often rows of a class count, a function of elements its curve; any function, and any walk back,
which numbers each of its results takes and how often.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from refnp.numbers.rounding import WIDE
from refnp.verify.causes.answered import Answered
from refnp.verify.causes.curves import of_curve, of_statistics, of_steps
from refnp.verify.causes.matrices import (
    ASKED,
    LITTLE,
    LOST,
    MOVES,
    Ask,
    and_more,
    at_place,
    given_of,
    moved_by,
    of_arguments,
    of_walk_back,
    other_arguments,
    output_of,
    right_of,
    spanned,
    spread,
    told_apart,
)

TRIED, FEW, SAID = 16, 2, 3  # cases, those of which many questions are asked, and sentences
LARGEST = 32  # score of a query and a key
ENOUGH = 4  # differences of scores that are to lie on a line
SEVERAL = 3  # keys of a query whose weights are all less by one factor


def seen(answered: Sequence[Answered], ask: Ask) -> str:
    """What is seen of a function in the smallest cases that tell something; "" if that is nothing."""
    sizes = {a: max((size_of(a.right[quantity]) for quantity in a.wrong), default=0.0) for a in answered}
    says_something = lambda a: sizes[a] > LITTLE**2 * np.median([*sizes.values()])  # beside digits that are lost there
    in_order = sorted(answered, key=lambda a: (-a.policy.stored.bits, not says_something(a), a.size))
    outputs = [a for a in in_order if "output" in a.wrong]
    gradients = [a for a in in_order if "output" not in a.wrong]
    for reading, cases in (*((reading, outputs) for reading in READINGS), (of_walk_back, gradients)):
        for a in cases[: TRIED if reading is not of_steps else FEW]:
            try:
                found = list(itertools.islice(reading(a, ask), SAID))
            except Exception:  # it does not take such values
                continue
            if found:
                several = len({each.problem.case.name for each in answered}) > 1
                told = "; ".join(found) + (f", seen in {a.problem.case.name}" if several else "")
                return told + elsewhere_told(reading, found, a, cases, ask)
    return ""


COUNTED = " times what is right"


def elsewhere_told(reading: Callable, found: list[str], a: Answered, cases: Sequence[Answered], ask: Ask) -> str:
    """The same words with another number, in a case of other lengths: "; every row counts 67 times …, in …"."""
    without_numbers = lambda text: re.sub(r"-?\d[\d.e+-]*", "0", text)
    shape_of = lambda a: [x.shape for x in a.problem.arrays.values()]
    for other in [b for b in cases if shape_of(b) != shape_of(a)][:TRIED] if COUNTED in found[0] else ():
        try:
            again = next(iter(reading(other, ask)), "")
        except Exception:  # it does not take such values
            continue
        if again and again != found[0] and without_numbers(again) == without_numbers(found[0]):
            return f"; {again}, seen in {other.problem.case.name}"
    return ""


def size_of(array: np.ndarray) -> float:
    """The largest finite number."""
    return float(np.abs(array[np.isfinite(array)]).max(initial=0))


def of_influence(a: Answered, ask: Ask) -> Iterator[str]:
    """Which numbers of its arguments the output takes that it should not, or the reverse."""
    for matrix in of_arguments(a, ask):
        yield from matrix.told()


def of_two_calls(a: Answered, ask: Ask) -> Iterator[str]:
    """Whether two calls with the same arguments differ: two in a row, or the one that was judged and another."""
    before, first, second = (output_of(answer) for answer in (a.answer, ask(a.problem), ask(a.problem)))
    same = lambda x, y: x.shape == y.shape and bool(((x == y) | (np.isnan(x) & np.isnan(y))).all())
    if not same(first, second) or not same(before, first):
        yield "two calls with the same arguments differ"


def of_attention(a: Answered, ask: Ask) -> Iterator[str]:
    """What sets the weights of an attention apart from the right ones, with the unit matrix as values."""
    if list(a.problem.arrays)[:3] != ["query", "key", "value"]:
        return
    value = a.problem.arrays["value"]
    unit = np.broadcast_to(np.eye(value.shape[-2], dtype=value.dtype), (*value.shape[:-1], value.shape[-2])).copy()
    arrays = {**a.problem.arrays, "value": unit}
    largest = [float(np.abs(arrays[name][np.isfinite(arrays[name])]).max(initial=0)) for name in ("query", "key")]
    while math.prod(largest) * math.sqrt(arrays["query"].shape[-1]) > LARGEST:  # else weights are 0 for that alone
        arrays["query"], largest[0] = arrays["query"] / 2, largest[0] / 2
    if right_of(a, {**arrays, "value": 0 * unit}).any():  # it has other values, such as kept ones, that are no weights
        return
    least = max(LITTLE, 4 * float(a.policy.stored.u))
    yield from of_weights(given_of(a, ask, arrays), right_of(a, arrays), least)


def of_sums(a: Answered, ask: Ask) -> Iterator[str]:
    """Of results that are shares of 1 along an axis, to what they sum, where that is another number."""
    axis, given, right = a.problem.case.options.get("axis", -1), np.asarray(a.answer["output"], WIDE), a.right["output"]
    if not isinstance(axis, int) or given.shape != right.shape or not right.ndim or not (right >= 0).all():
        return
    sums, ought = given.sum(axis), right.sum(axis)
    of_1 = lambda totals: bool((np.abs(totals - 1) <= LITTLE**2).all())
    always = of_1(ought) and all(of_1(right_of(a, other).sum(axis)) for other in other_arguments(a))
    off = np.abs(sums - ought) > LITTLE
    if right.shape[axis] > 1 and off.any() and always and np.isfinite(sums).all():
        yield f"results along axis {axis} sum to {spanned(sums[off], 3)}, not to 1"


def of_loss(a: Answered, ask: Ask) -> Iterator[str]:
    """Of a loss with classes, how often the rows of each class count, where that is not as often as is right."""
    arrays = dict(a.problem.arrays)
    (name, x), targets = next(iter(arrays.items())), a.problem.case.options.get("targets", arrays.get("targets"))
    if targets is None or np.shape(targets) not in (x.shape, x.shape[:-1]):
        return
    classes, soft = np.round(targets).astype(int), "targets" in arrays
    if not soft and (classes != targets).any():
        return
    places, elsewhere = list(np.ndindex(classes.shape)), other_arguments(a)[1][name]
    if len(places) > ASKED:
        return
    totals = lambda arrays: (given_of(a, ask, arrays).sum(), right_of(a, arrays).sum())

    def counted() -> tuple[np.ndarray, np.ndarray]:
        """How often each row counts, where it is moved, and what rounding may make of that."""
        counts, rounding = np.full((len(places), 2 * len(MOVES)), np.nan, WIDE), np.zeros(len(places))
        for of, start in enumerate((x, elsewhere)):
            before = totals({**arrays, name: start})
            hidden = 2 * a.allowed["output"].sum() + LOST * float(a.policy.stored.u) * abs(before[1])
            for (row, place), (move, (factor, more)) in itertools.product(enumerate(places), enumerate(MOVES)):
                moved = start.copy()
                moved[place] = moved_by(start[place], factor, more)
                own, ought = (one - other for one, other in zip(totals({**arrays, name: moved}), before, strict=True))
                rounding[row] = max(rounding[row], hidden / abs(ought) if ought else 0)
                is_asked = ought or np.isnan(own) or not own
                counts[row, of * len(MOVES) + move] = np.inf if not is_asked else own / ought if ought else np.nan
        return counts, rounding

    if soft:
        arrays["targets"] = classes.astype(arrays["targets"].dtype)
    counts, rounding = counted()
    if soft and not np.isfinite(counts).any(-1).all():  # they are shares of several classes
        arrays["targets"], classes = targets, np.zeros_like(classes)
        counts, rounding = counted()
    given = totals(arrays)[0]
    if unasked := [place for place, row in zip(places, counts, strict=True) if np.isinf(row).all()]:
        yield f"{at_place(name, unasked[0])} counts, and must not{and_more(unasked)}"
    count, steady = spread(np.where(np.isinf(counts), np.nan, counts))
    off = np.abs(count - 1) > LITTLE + rounding
    own = count[np.isfinite(counts).any(-1)]
    if len(own) and not own.any() and off.any():
        yield f"no row of {name} changes the loss, which stays {given:.4g}"
        return
    if len(own) > 1 and steady.all() and off.any() and np.ptp(own) <= LITTLE * np.abs(own).max():
        yield f"every row counts {told_apart(float(own[0]), 1.0)[0]} times what is right"
        return
    for k in np.unique(classes) if classes.any() and len(places) > 1 and steady.all() and off.any() else ():
        of_class = np.flatnonzero(classes.ravel() == k)
        own = count[of_class]
        if np.ptp(own) <= LITTLE * np.abs(own).max() and off[of_class].all():
            which = f"rows of class {k} count" if len(own) > 1 else f"row {of_class[0]}, of class {k}, counts"
            yield f"{which} {told_apart(float(own[0]), 1.0)[0]} times what is right"


def of_weights(weights: np.ndarray, right: np.ndarray, least: float = LITTLE) -> Iterator[str]:
    """What sets weights apart from the right ones: their sums, which keys are seen, how steeply they fall.

    A sum may be off by the `least`, the rounding of weights as they are stored.
    """
    if weights.shape != right.shape or not np.isfinite(weights).all():
        return
    sums, ought = weights.sum(-1), right.sum(-1)
    nothing = (ought == 0) & (sums > least)
    if nothing.any():
        yield f"weights of queries that see no key sum to {float(sums[nothing].max()):.3g}, not to 0"
    off = (ought != 0) & (np.abs(sums - ought) > least)
    if off.any():
        span = spanned(sums[off], 3)
        times = np.where(right > 0, weights, np.nan) / np.where(right > 0, right, 1)
        smallest, largest = (f(times, -1) for f in (np.nanmin, np.nanmax))
        alike = ((largest - smallest <= LITTLE * largest) & ((right > 0).sum(-1) >= SEVERAL))[off]
        fewer = " as if there were more keys" if 0 < sums[off].min() <= sums[off].max() < 1 and alike.all() else ""
        if np.abs(ought[off] - 1).max() <= LITTLE:
            yield f"weights do not sum to 1 but to {span}{',' if fewer else ''}{fewer}"
        else:  # some were dropped
            one, other = told_apart(float(sums[off][0]), float(ought[off][0]), 3)
            yield f"weights of a query sum to {one} where {other} is right"
    more, less = (weights > LITTLE) & (right == 0), (weights == 0) & (right > LITTLE)
    for pairs, says in ((more, "sees key {} (offset {}), which is hidden"), (less, "does not see key {} (offset {})")):
        if pairs.any():
            n, m = np.argwhere(pairs)[0][-2:]
            offsets = np.unique(np.argwhere(pairs)[:, -1] - np.argwhere(pairs)[:, -2])
            rest = f"; such offsets are {offsets[0]} to {offsets[-1]}" if len(offsets) > 1 else ""
            yield f"query {n} {says.format(m, m - n)}{rest}"
    if not nothing.any() and not off.any() and not more.any() and not less.any():
        yield from of_slope(weights, right)
        yield from of_offset(weights, right)


def of_slope(weights: np.ndarray, right: np.ndarray) -> Iterator[str]:
    """The slope of log-weights against the right ones, if they lie on a line."""
    both = (weights > 0) & (right > 0)
    differ = lambda a: np.where(both, np.log(np.where(both, a, 1)), 0)
    count = np.maximum(both.sum(-1, keepdims=True), 1)
    x, y = (np.where(both, v - v.sum(-1, keepdims=True) / count, 0) for v in map(differ, (right, weights)))
    if not (x * x).sum():
        return
    free = int(np.maximum(((np.abs(x) > LITTLE) & both).sum(-1) - 1, 0).sum())  # differences of scores
    slope = float((x * y).sum() / (x * x).sum())
    if free >= ENOUGH and abs(slope - 1) > LITTLE and np.abs(y - slope * x).max() < LITTLE * np.abs(y).max():
        yield f"log-weights are {told_apart(slope, 1.0)[0]} times what is right"


def of_offset(weights: np.ndarray, right: np.ndarray) -> Iterator[str]:
    """The offset at which alone keys count another number of times than is right, beside the others of their query."""
    n, m = weights.shape[-2:]
    times = np.where(right > 0, weights / np.where(right > 0, right, 1), np.nan)
    for offset in range(1 - n, m):
        own = np.eye(n, m, offset, dtype=bool)
        keys = np.where(own & (right > 0), times, 0).sum(-1).ravel()
        others = [row[~np.isnan(row)] for row in np.where(own, np.nan, times).reshape(-1, m)]
        beside = np.array([key / row[0] for key, row in zip(keys, others, strict=True) if key and row.size])
        alike = all(np.ptp(row) <= LITTLE * row.max() for row in others if row.size)
        if alike and len(beside) >= ENOUGH and np.ptp(beside) < LITTLE < abs(beside[0] - 1):
            times_right, _ = told_apart(float(beside[0]), 1.0)
            yield f"the key at offset {offset} counts {times_right} times what is right, beside the others"
            return


READINGS = (of_two_calls, of_attention, of_sums, of_loss, of_curve, of_statistics, of_influence, of_steps)
