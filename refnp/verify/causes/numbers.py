"""One number that is off: what is right times c, or plus c; an argument, or an option, times c.

c is found from one element, given its closed form if it has one, and holds if it explains all others.
"""

import functools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from refnp import autograd
from refnp.numbers.rounding import WIDE
from refnp.verify.case import Layer
from refnp.verify.causes.answered import Answered
from refnp.verify.causes.closed_forms import closed_form, is_closed, with_digits
from refnp.verify.causes.options import SYMBOLS, defaults_of, with_options
from refnp.verify.causes.pullbacks import of_pullbacks, scaled_gradients
from refnp.verify.edits.mutant import Mutant, with_argument

STARTS = ((1.0, 1.01), (0.5, 0.51), (2.0, 2.02), (-1.0, -1.01), (0.0, 1e-3))
STEPS = 14
TWICE = "2 times what is right"
LOW, HIGH = (*(10.0**-n for n in range(12, 0, -1)), 0.05, 1.0), (1.0, 6.0, 10.0, 20.0, 50.0, 100.0)  # usual bounds
MOST_WITHIN = 0.01  # of a number may be unknown
LEAST = 4  # elements that a number without a closed form is to explain


def of_outputs(layer: Layer, answered: Sequence[Answered]) -> Iterator[Mutant]:
    """The output times c, or plus c; an argument times c or plus c; an option that is c."""
    probe = best_probe(answered)
    if probe is None:
        return
    enough = enough_of(answered)
    for says, c in quotients(probe, "output", enough):
        yield Mutant(f"the output were {says}", with_output(layer, operator.mul, c))
    found = difference(probe)
    if found is not None and (enough or is_closed(found[0])):
        more = with_output(layer, operator.add, lambda arrays: found[1])
        yield Mutant(f"{with_digits(found[0])} were added to the output", more)
    for name, default in defaults_of(layer).items():
        value = probe.problem.case.options.get(name, default)
        if isinstance(value, float):
            for of, verb in ((operator.mul, "multiplied by {}"), (lambda value, c: c, "{}")):
                form = functools.partial(changed_option, layer, name, of)
                for says, number in solved(probe, form, enough, near=value if verb == "{}" else 1.0):
                    yield Mutant(f"{SYMBOLS.get(name, name)} were {verb.format(says)}", form(number))
    for i, name in enumerate(probe.problem.arrays):
        if probe.problem.arrays[name].dtype.kind != "f" or not is_differentiable(probe, name):
            continue
        for of, verb in ((operator.mul, "multiplied by {}"), (operator.add, "{} more")):
            form = functools.partial(changed_argument, layer, i, of)
            for says, number in solved(probe, form, enough):
                words = "of the other sign" if (says, verb) == ("−1", "multiplied by {}") else verb.format(says)
                yield Mutant(f"{name} were {words}", form(number))
        for words, bound, values in (("least", autograd.maximum, LOW), ("most", autograd.minimum, HIGH)):
            for end in values:
                yield Mutant(f"{name} were at {words} {end:g}", changed_argument(layer, i, bound, end))


def of_gradients(layer: Layer, answered: Sequence[Answered]) -> Iterator[Mutant]:
    """Gradients times c; those of another incoming gradient, of the Jacobian's diagonal, of another argument."""
    probe = best_probe(answered)
    if probe is None:
        return
    quantities = list(dict.fromkeys(q for a in answered for q in a.answer if q in a.wrong))
    which = quantities[0] if len(quantities) == 1 else "gradients"
    names = {q.removeprefix("gradient of ") for q in quantities}
    for says, c in quotients(probe, max(probe.wrong, key=lambda q: probe.answer[q].size), enough=True):
        words = "doubled" if says == TWICE else says
        yield Mutant(f"the {which} were {words}", scaled_gradients(layer, names, c), cancels=True)
    yield from of_pullbacks(layer, which, sorted(names))


def enough_of(answered: Sequence[Answered]) -> bool:
    """Whether there are elements enough to believe a number without a closed form."""
    return sum(int(beyond(a, q).sum()) for a in answered for q in a.answer) >= LEAST


def is_differentiable(a: Answered, name: str) -> bool:
    """Whether an argument is one of real numbers, and not a target or an index."""
    case = a.problem.case
    return case.gradients is None or name in case.gradients or not case.gradients


def best_probe(answered: Sequence[Answered]) -> Answered | None:
    """A small case with several finite elements that deviate, in the widest precision."""
    usable = [a for a in answered if any(beyond(a, q).any() for q in a.wrong)]
    several = [a for a in usable if max(int(beyond(a, q).sum()) for q in a.wrong) > 2] or usable
    return min(several, key=lambda a: (-a.policy.stored.bits, a.size), default=None)


def beyond(a: Answered, quantity: str) -> np.ndarray:
    """Where a quantity is finite, and beyond the bound of the right one."""
    given, right = np.asarray(a.answer[quantity], WIDE), a.right.get(quantity)
    if right is None or given.shape != right.shape:
        return np.zeros(0, bool)
    finite = np.isfinite(given) & np.isfinite(right)
    return finite & (np.abs(given - right) > a.allowed[quantity])


def sharpest(a: Answered, quantity: str) -> tuple[Any, Any, Any] | None:
    """Answer, right value and bound of the element that deviates whose bound is the smallest beside it."""
    where = beyond(a, quantity)
    given, right, allowed = np.asarray(a.answer[quantity], WIDE), a.right[quantity], a.allowed[quantity]
    where = where & (right != 0) if where.size else where
    if not where.any():
        return None
    part = np.where(where, allowed / np.abs(right), np.inf)
    k = np.unravel_index(np.argmin(part), part.shape)
    return given[k], right[k], allowed[k]


OfCase = Callable[[Sequence[np.ndarray]], float]


def quotients(a: Answered, quantity: str, enough: bool) -> Iterator[tuple[str, OfCase]]:
    """What the right value is multiplied by, as it is said, and as a function of the arrays of a case."""
    found = sharpest(a, quantity)
    if found is None:
        return
    given, right, allowed = found
    c, within = float(given / right), 4 * float(allowed / abs(right)) * max(1.0, abs(right / given) if given else 1.0)
    says, value = closed_form(c, within)
    if is_closed(says):
        yield times_in_words(says), lambda arrays: value
    for name, i, axis, n in lengths(a):
        for words, of in OF_LENGTH.items():
            if n > 1 and abs(of(n) - c) <= within * abs(c):
                where = f"the length of axis {axis} of {name}" if axis else "the number of rows"
                yield words.format(where), functools.partial(of_length, i=i, axis=axis, of=of)
    if not is_closed(says) and enough:
        yield f"{says} times what is right", lambda arrays: c


def times_in_words(says: str) -> str:
    """ "2 times what is right", "0", "of the other sign"."""
    plain = {"0": "left out, 0", "−1": "of the other sign", "½": "halved"}
    return plain.get(says, f"{with_digits(says)} times what is right")


OF_LENGTH: dict[str, Callable[[int], float]] = {
    "divided by {}": lambda n: 1 / n,
    "multiplied by {}": lambda n: n,
    "divided by the root of {}": lambda n: 1 / math.sqrt(n),
    "multiplied by the root of {}": lambda n: math.sqrt(n),
    "n/(n − 1) times what is right, n {}": lambda n: n / (n - 1),
    "(n − 1)/n times what is right, n {}": lambda n: (n - 1) / n,
    "√(n/(n − 1)) times what is right, n {}": lambda n: math.sqrt(n / (n - 1)),
    "√((n − 1)/n) times what is right, n {}": lambda n: math.sqrt((n - 1) / n),
}


def of_length(arrays: Sequence[np.ndarray], *, i: int, axis: int, of: Callable[[int], float]) -> float:
    """A function of the length of an axis, or of how many rows an argument stands beside."""
    return of(arrays[i].shape[axis] if axis else rows_beside(arrays, i))


def rows_beside(arrays: Sequence[np.ndarray], i: int) -> int:
    """How often an argument is repeated beside the largest."""
    return max(array.size for array in arrays) // max(arrays[i].size, 1)


def lengths(a: Answered) -> Iterator[tuple[str, int, int, int]]:
    """Name and place of each argument, and each of its axes from the end with its length; 0 is how often it repeats."""
    arrays = list(a.problem.arrays.values())
    yield from ((name, i, 0, rows_beside(arrays, i)) for i, name in enumerate(a.problem.arrays))
    for i, (name, array) in enumerate(a.problem.arrays.items()):
        for axis in range(-1, -array.ndim - 1, -1):
            yield name, i, axis, array.shape[axis]


def difference(a: Answered) -> tuple[str, float] | None:
    """What is added to the right output, if it is one number."""
    where = beyond(a, "output")
    if not where.any():
        return None
    given, right, allowed = (np.asarray(x, WIDE) for x in (a.answer["output"], a.right["output"], a.allowed["output"]))
    k = np.unravel_index(np.argmin(np.where(where, allowed, np.inf)), where.shape)
    c = float(given[k] - right[k])
    return closed_form(c, 2 * float(allowed[k]) / abs(c))


def with_output(layer: Layer, of: Callable, c: OfCase) -> Callable:
    """The layer's function, times c or plus c."""
    return lambda *arrays, **options: of(layer.function(*arrays, **options), c(arrays))


def changed_argument(layer: Layer, i: int, of: Callable, c: Any) -> Callable:
    """The layer's function of an argument times c, plus c, or no less or more than c."""
    return with_argument(layer.function, i, lambda x: of(x, c))


def changed_option(layer: Layer, name: str, of: Callable, c: Any) -> Callable:
    """The layer's function with an option times c, or c."""
    return with_options(layer, lambda options: {name: of(options[name], float(c))})


def solved(
    a: Answered, form: Callable[[Any], Callable], enough: bool, near: float = 1.0
) -> Iterator[tuple[str, float]]:
    """The c for which form(c) gives what is answered in one element, by secants from several starts."""
    where = beyond(a, "output")
    if not where.any():
        return
    given, right, allowed = (np.asarray(x, WIDE) for x in (a.answer["output"], a.right["output"], a.allowed["output"]))
    ratio = np.where(where, np.abs(given - right) / np.maximum(allowed, 1e-300), 0)
    k = np.unravel_index(np.argmax(ratio), ratio.shape)
    options = a.problem.case.options
    seen: list[float] = []
    at = lambda c: np.asarray(form(c)(*a.wide, **options), WIDE)[k] - given[k]
    for start in STARTS:
        try:
            found = root_of(at, start[0] * (near or 1.0), start[1] * (near or 1.0))
            if found is None or any(abs(found[0] - other) <= 1e-6 * abs(other) for other in seen):
                continue
            c, slope = found
            beside = [abs(at(c * (1 + way * MOST_WITHIN))) for way in (-2, 2)]
        except Exception:  # it cannot be computed with such a number
            continue
        seen.append(c)
        within = 4 * float(allowed[k]) / max(abs(slope * c), 1e-300)
        if within > MOST_WITHIN or not min(beside) > allowed[k]:
            continue  # one element does not tell it, or does not change with it by little
        says, value = closed_form(c, within)
        if is_closed(says) or enough:
            yield with_digits(says), value


def root_of(at: Callable[[Any], Any], c: float, other: float) -> tuple[float, float] | None:
    """Where a function is 0, and its slope there, by secants; None if none is found."""
    last, value = at(WIDE(other)), at(WIDE(c))
    x, y, slope = WIDE(other), WIDE(c), WIDE(0)
    for _ in range(STEPS):
        if y == x or value == last:
            break
        slope = (value - last) / (y - x)
        if not np.isfinite(slope) or slope == 0:
            return None
        x, last, y = y, value, y - value / slope
        value = at(y)
        if not np.isfinite(value) or abs(y) > 1e6:
            return None
    settled = abs(value) <= 1e-12 * abs(float(slope * y)) or y == x or value == last
    return (float(y), float(slope)) if settled and slope != 0 else None
