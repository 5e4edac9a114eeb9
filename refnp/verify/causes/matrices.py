"""What each result takes from each number of an argument, and where that is not what is right.

A function is asked again with one number moved, or for a gradient with one number of ȳ that is not 0, and the page is
asked the same: two matrices, a row for each number (or row of an argument), of which only what was seen is said.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from refnp.autograd import vjp
from refnp.numbers.rounding import WIDE
from refnp.verify.case import Answer, Problem
from refnp.verify.causes.answered import Answered

Ask = Callable[[Problem], Answer]
LITTLE = 1e-4  # a part of the largest below is none
ASKED = 64  # numbers or rows that are moved, one at a time
OF_COTANGENTS = 256  # numbers of ȳ that are 1, one at a time
MOVES = ((1.5, 0.25), (1.0, -0.0625))  # x → 1.5 x + .25, …: far and near
FEW = 2  # other arguments that a function is asked, to see whether a number has no influence there either
LOST = 16  # units in the last place of a result, by which it may be off where something inside is rounded too
Place = tuple[int, ...]
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Matrix:
    """How results change, and how they ought to, with each number of an argument.   Shapes: (moves, pieces, *results).

    `takes` names the argument and `gives` the result; `moved` is by how much each piece is, where that is a number.
    A change of a result by less than `hidden`, or `rounds` times what is right, may be its rounding. `given_stays` and
    `right_stays` say which results do not change with a piece at other arguments either: it may have no influence at
    these alone. So what counts c times what is right is to do so `again` at others.
    """

    takes: str
    gives: str
    pieces: Sequence[Place]
    given: np.ndarray
    right: np.ndarray
    moved: np.ndarray | None = None  # (moves, pieces)
    hidden: np.ndarray | float = 0.0  # (*results)
    rounds: float = 0.0
    given_stays: Callable[[Place], np.ndarray] = lambda piece: np.asarray(True)  # a piece → (*results)
    right_stays: Callable[[Place], np.ndarray] = lambda piece: np.asarray(True)
    again: Sequence[Callable[[Place], np.ndarray]] = ()  # of what is given and of what is right: a piece → (*results)

    def told(self) -> Iterator[str]:
        """What sets the given matrix apart from the right one."""
        most = max(float(np.abs(self.right).max(initial=0)), float(np.abs(self.given).max(initial=0)))
        sees, ought = (np.abs(m).max(0) > LITTLE * most for m in (self.given, self.right))  # (pieces, *results)
        ought &= np.abs(self.right).max(0) > self.hidden
        more = self.kept(sees & (self.right == 0).all(0), self.right_stays)
        less = self.kept(ought & (self.given == 0).all(0), self.given_stays)
        lost = [p for k, p in enumerate(self.pieces) if ought[k].any() and not (self.given[:, k] != 0).any()]
        lost = [p for p in lost if any(self.pieces[k] == p for k, *_ in less)]
        if instead := self.instead(more, less):
            yield instead
        elif lost:
            yield f"{self.named(lost[0])} has no influence on {self.gives}{where(lost, self.pieces)}{and_more(lost)}"
        for pairs, says in ((more, "depends on {}, and must not"), (less, "does not depend on {}")):
            own = [] if instead else [pair for pair in pairs if self.pieces[pair[0]] not in lost]
            if own:
                k, *at = own[0]
                yield f"{at_place(self.gives, tuple(at))} {says.format(self.named(self.pieces[k]))}{and_more(own)}"
        if not more and not less:
            found = [*self.quotients(ought), *self.differences(most)]
            yield from found or self.parts()

    def kept(self, pairs: np.ndarray, stays: Callable[[Place], np.ndarray]) -> list[Place]:
        """Pairs of a piece and a result, without those that other arguments contradict."""
        for k in np.flatnonzero(pairs.any(tuple(range(1, pairs.ndim)))):
            pairs[k] &= stays(self.pieces[int(k)])
        return [tuple(map(int, pair)) for pair in np.argwhere(pairs)]

    def instead(self, more: list[Place], less: list[Place]) -> str:
        """That each result which reads the wrong number reads one in place of another; "" if it is not so."""
        if not more or sorted(pair[1:] for pair in more) != sorted(pair[1:] for pair in less):
            return ""
        k, *at = min(more, key=lambda pair: pair[1:])
        pair = next(p for p, *place in less if place == at)
        one = self.named(self.pieces[k])
        other = self.named(self.pieces[pair])
        return f"{at_place(self.gives, tuple(at))} reads {one} where {other} is right{and_more(more)}"

    def quotients(self, ought: np.ndarray) -> Iterator[str]:
        """Numbers that count c times what is right, or results of which every part is c times what is right."""
        with np.errstate(all="ignore"):
            q = np.where(ought, self.given / np.where(self.right == 0, 1, self.right), np.nan)
        by_piece = q.swapaxes(0, 1).reshape(len(self.pieces), -1)
        by_result = q.reshape(q.shape[0] * q.shape[1], -1).T
        results = list(np.ndindex(q.shape[2:]))
        for rows, names, of in ((by_piece, self.pieces, self.takes), (by_result, results, self.gives)):
            c, steady = spread(rows)
            off = steady & (np.abs(c - 1) > LITTLE)
            chosen = [names[int(k)] for k in np.flatnonzero(off)]
            if steady.all() and chosen and len(names) > 1 and self.is_so_again(chosen[0], of, float(c[off][0])):
                span = spanned(c[off])
                counts = "counts" if names is self.pieces else "is"
                first = at_place(of, chosen[0])
                yield f"{first} {counts} {span} times what is right{where(chosen, names)}{and_more(chosen)}"
                return

    def is_so_again(self, place: Place, of: str, c: float) -> bool:
        """Whether a number, or a result, counts c times what is right at other arguments too, as far as it is known."""
        with contextlib.suppress(Exception):  # they are none of the function's
            for piece in (place,) if of == self.takes else self.pieces[:FEW] if self.again else ():
                given, right = (change(piece) for change in self.again)
                given, right = (x if of == self.takes else x[place] for x in (given, right))
                told = np.abs(right) > LITTLE * np.abs(right).max(initial=0)
                if (np.abs(given - c * right)[told] > abs(c - 1) / 8 * np.abs(right)[told]).any():
                    return False
        return True

    def parts(self) -> Iterator[str]:
        """Of what is linear, the result that takes most too much or too little of a number."""
        if self.moved is None or not self.moved.all():
            return
        moved = self.moved.reshape(*self.moved.shape, *(1,) * (self.given.ndim - 2))
        given, right = self.given / moved, self.right / moved
        most = max(float(np.abs(right).max(initial=0)), float(np.abs(given).max(initial=0)))
        rounded = (self.hidden + self.rounds * np.abs(self.right)) / np.abs(moved)
        least = np.maximum(LITTLE * most, rounded.max(0))  # (pieces, *results)
        linear = (np.ptp(given, axis=0) <= least) & (np.ptp(right, axis=0) <= least)
        off = np.abs(given[0] - right[0])
        off = np.where(linear & (off > least), off, 0)
        if linear.all() and off.any():
            k, *at = np.unravel_index(np.argmax(off), off.shape)
            place, which = at_place(self.gives, tuple(map(int, at))), self.named(self.pieces[int(k)])
            own, ought = told_apart(float(given[0][(k, *at)]), float(right[0][(k, *at)]))
            yield f"{place} takes {own} of {which} where {ought} is right{and_more(np.argwhere(off))}"

    def differences(self, most: float) -> Iterator[str]:
        """That each row of what is given differs by one number from what is right."""
        off = (self.given - self.right)[0]
        if off.ndim < 2 or off.shape[-1] < 3 or not (np.abs(off) > LITTLE * most).any():
            return
        if np.ptp(off, axis=-1).max() <= LITTLE * np.abs(off).max():
            yield f"each row of the {self.gives} is what is right and one number more"

    def named(self, piece: Place) -> str:
        """A number, or a row, of the argument."""
        return at_place(self.takes, piece)


def spread(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The middle of each row of numbers, and whether all that are none are that; 1 for a row of NaN alone."""
    none = np.isnan(q).all(-1)
    q = np.where(none[..., None], 1, q)
    low, high = np.nanmin(q, -1), np.nanmax(q, -1)
    middle = (low + high) / 2
    off = np.abs(middle - 1)
    apart = np.where(off > LITTLE, off / 64, np.inf)  # what is not 1 is told from it
    return middle, high - low <= np.minimum(LITTLE * np.maximum(np.abs(high), 1), apart)


def told_apart(one: float, other: float, least: int = 4) -> tuple[str, str]:
    """Two numbers in as many digits as tell them apart, or in some at least; −0 is 0."""
    for digits in range(least, 18):
        texts = f"{one + 0.0:.{digits}g}", f"{other + 0.0:.{digits}g}"
        if texts[0] != texts[1]:
            break
    return texts


def spanned(numbers: np.ndarray, digits: int = 4) -> str:
    """ "0.4 … 0.766", or one of them where they are about the same; none of which is written as 1."""
    low, high = float(numbers.min()), float(numbers.max())
    least, most = (told_apart(end, 1.0, digits)[0] for end in (low, high))
    return least if high - low <= LITTLE * abs(high) else f"{least} … {most}"


def where(chosen: Sequence[Place], every: Sequence[Place]) -> str:
    """ ", where axis −1 is 0": what some places have in common that no other has; "" if that is not so."""
    depth = len(every[0])
    for axis in range(depth if 1 < len(chosen) < len(every) else 0):
        index = {place[axis] for place in chosen}
        if len(index) == 1 and len(chosen) == sum(place[axis] in index for place in every):
            return f", as all where axis {axis} is {index.pop()}"
    return ""


def at_place(name: str, place: Place) -> str:
    """x[0, 3]; the name alone of one number."""
    return f"{name}{list(place)}" if place else name


def and_more(found: Sequence | np.ndarray) -> str:
    """How many more there are."""
    return f" (and {len(found) - 1} more)" if len(found) > 1 else ""


def with_arrays(problem: Problem, arrays: dict[str, np.ndarray], gradients: tuple[str, ...] = ()) -> Problem:
    """The problem of other arguments, of which the output alone is asked, unless gradients are."""
    case = replace(problem.case, gradients=gradients, inputs=arrays, made=False)  # its bounds are not those kept
    return Problem(case, problem.dtype, arrays, problem.rng)


def given_of(a: Answered, ask: Ask, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """What the function answers to other arguments."""
    return output_of(ask(with_arrays(a.problem, arrays)))


def right_of(a: Answered, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """What is right of other arguments, in the widest precision."""
    case = a.problem.case
    return np.asarray(case.layer.function(*(x.astype(WIDE) for x in arrays.values()), **case.options), WIDE)


def of_arguments(a: Answered, ask: Ask) -> Iterator[Matrix]:
    """How the output changes with each number of each argument, or with each row of a larger one."""
    arrays = a.problem.arrays
    before, result, others = output_of(ask(a.problem)), right_of(a, arrays), other_arguments(a)
    if before.shape != result.shape or not np.isfinite(before).all():
        return
    for name, x in arrays.items():
        pieces = list(np.ndindex(x.shape if x.size <= ASKED else x.shape[:-1]))
        if x.dtype.kind != "f" or not 1 < len(pieces) <= ASKED:
            continue
        own: list[Any] = [[], []]
        steps: list[Any] = []
        for factor, more in MOVES:
            steps.append([])
            for answers in own:
                answers.append([])
            for piece in pieces:
                moved = x.copy()
                moved[piece] = moved_by(x[piece], factor, more)
                steps[-1].append(moved[piece].astype(WIDE) - x[piece])
                with_it = {**arrays, name: moved}
                own[0][-1].append(given_of(a, ask, with_it) - before)
                own[1][-1].append(right_of(a, with_it) - result)
        given, right = map(np.array, own)
        by = np.array(steps) if len(pieces[0]) == x.ndim else None
        answers = functools.partial(given_of, a, ask), functools.partial(right_of, a)
        changes = [functools.partial(moved_in, name, of) for of in answers]
        elsewhere = [functools.partial(stays, *both) for both in zip(changes, (others[:FEW], others), strict=True)]
        again = [functools.partial(change, others[1]) for change in changes]
        rounds = LOST * float(a.policy.stored.u)  # also inside
        hidden = 2 * a.allowed["output"] + rounds * np.abs(result)
        yield Matrix(name, "output", pieces, given, right, by, hidden, rounds, elsewhere[0], elsewhere[1], again)


def other_arguments(a: Answered) -> list[dict[str, np.ndarray]]:
    """Arguments of the same shapes: the same numbers elsewhere, drawn ones, those of the other sign, smaller ones.

    What is positive, such as a deviation, is not drawn.
    """
    rng = np.random.default_rng(len(a.problem.arrays))
    elsewhere = lambda x: rng.permutation(x.ravel()).reshape(x.shape)
    changes: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
        elsewhere,
        lambda x: elsewhere(x) if (x > 0).all() else rng.standard_normal(x.shape),
        np.negative,
        lambda x: x / 64,
    )
    return [{n: change(x).astype(x.dtype) for n, x in a.problem.arrays.items()} for change in changes]


def stays(changes: Callable[[Arrays, Place], np.ndarray], points: Sequence[Arrays], piece: Place) -> np.ndarray:
    """Which results do not change with a piece, at any of these arguments that are taken."""
    never: Any = True
    for arrays in points:
        with contextlib.suppress(Exception):  # they are none of the function's, such as negative deviations
            change = changes(arrays, piece)
            never &= ~(np.isfinite(change) & (change != 0))
    return np.asarray(never)


def moved_in(name: str, of: Callable[[Arrays], np.ndarray], arrays: Arrays, piece: Place) -> np.ndarray:
    """How results change with a piece of an argument."""
    moved = arrays[name].copy()
    moved[piece] = moved_by(moved[piece], *MOVES[0])
    return of({**arrays, name: moved}) - of(arrays)


def entry(of: Callable[[Arrays, Place], Arrays], name: str, arrays: Arrays, place: Place) -> np.ndarray:
    """What a place of ȳ adds to the gradient of one argument."""
    return of(arrays, place)[name]


def wide(x: np.ndarray) -> np.ndarray:
    """The numbers in the widest precision."""
    return x.astype(WIDE)


def of_walk_back(a: Answered, ask: Ask) -> Iterator[str]:
    """What gradients take from each number of ȳ."""
    arrays, case, bar = a.problem.arrays, a.problem.case, a.problem.cotangent
    names = tuple(q.removeprefix("gradient of ") for q in a.wrong if q != "output")
    places = list(np.ndindex(bar.shape))
    if not names or not 1 <= len(places) <= OF_COTANGENTS:
        return

    def unit(place: Place) -> np.ndarray:
        found = np.zeros_like(bar)
        found[place] = 1
        return found

    def given_gradients(arrays: Arrays, place: Place) -> Arrays:
        problem = with_arrays(a.problem, dict(arrays), names)
        problem.cotangent = unit(place)
        answer = ask(problem)
        return {name: np.asarray(answer[f"gradient of {name}"], WIDE) for name in names}

    def right_gradients(arrays: Arrays, place: Place) -> Arrays:
        _, pullback = vjp(lambda *x: case.layer.function(*x, **case.options), *map(wide, arrays.values()))
        ought = dict(zip(arrays, pullback(wide(unit(place))), strict=True))
        return {name: np.asarray(ought[name], WIDE) for name in names}

    asked, right = ([of(arrays, place) for place in places] for of in (given_gradients, right_gradients))
    others = other_arguments(a)
    for name in names:
        given, true = (np.array([answer[name] for answer in answers]) for answers in (asked, right))
        if given.shape != true.shape or not np.isfinite(given).all():
            continue
        whole = np.tensordot(bar.astype(WIDE), given.reshape(*bar.shape, *given.shape[1:]), bar.ndim)
        told = np.asarray(a.answer[f"gradient of {name}"], WIDE)
        if np.abs(whole - told).max(initial=0) > LITTLE * np.abs(told).max(initial=0):
            yield f"the gradient of {name} is not linear in the incoming gradient ȳ"
            continue
        elsewhere = [
            functools.partial(stays, functools.partial(entry, of, name), points)
            for of, points in ((given_gradients, others[:FEW]), (right_gradients, others))
        ]
        by = np.ones((1, len(places)))
        stay = elsewhere[0], elsewhere[1]
        yield from Matrix("ȳ", f"gradient of {name}", places, given[None], true[None], by, 0.0, 0.0, *stay).told()


def moved_by(piece: np.ndarray, factor: float, more: float) -> np.ndarray:
    """A number, or a row, times a factor and more; not as much more in all, which a softmax does not see."""
    return factor * piece + more / (1 + np.arange(np.size(piece)).reshape(np.shape(piece)))


def output_of(answer: Answer) -> np.ndarray:
    """The output, in the widest precision."""
    return np.asarray(answer["output"], WIDE)
