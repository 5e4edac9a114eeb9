"""Are the cases of the judge enough? Faults that any kernel may have, made from declarations, and what case sees them.

    python -m tests.adequacy                 every layer: how many faults some case sees, and those that none sees
    python -m tests.adequacy linear --table  each fault of a layer, and the first case that sees it

A fault is a wrong form of refnp's function: what lies behind the last whole block is left out, an option is not looked
at, the length of one axis is taken for another's. It is seen by a case whose answer is beyond its bound. A fault that
changes no answer of WILD other draws is none, and two whose answers to all of them are the same are one: what is not
looked at, and what is not looked at beside an option without which it has no meaning. Two faults are told apart by a
case in which their answers differ.
"""

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from refnp.autograd import vjp
from refnp.autograd.notation import Several, Shape
from refnp.numbers.rounding import tolerance
from refnp.verify.case import Case, Layer, Problem
from refnp.verify.covering import Factor
from refnp.verify.layers import LAYERS, cases_of, elementary, products
from refnp.verify.made import LONG, Maker, made_cases
from refnp.verify.mutants import Mutant, mutants_of

BLOCKS = tuple(2**k for k in range(1, 11))
WILD = 60
Values = dict[str, Any]  # arguments and options of a call, by name
Run = Callable[[Values], np.ndarray]


class Fault(NamedTuple):
    """What it says, and the wrong answer: `wrong(run, values)`, where `run` is what is right."""

    says: str
    wrong: Callable[[Run, Values], np.ndarray]


@dataclass(frozen=True)
class Asked:
    """A layer that declares what it takes, and the cases that the judge asks of it."""

    layer: Layer
    cases: list[Case]

    def run(self, values: Values) -> np.ndarray:
        """refnp's answer."""
        given = dict(values)
        inputs = [given.pop(name) for name in self.names if name in given]
        with np.errstate(all="ignore"):
            return np.asarray(self.layer.function(*inputs, **given))

    @cached_property
    def names(self) -> list[str]:
        """The arguments by place."""
        return list(dict.fromkeys(name for case in self.cases for name in case.inputs))

    @cached_property
    def maker(self) -> Maker:
        """What draws cases."""
        takes = self.layer.function.takes
        return Maker(self.layer, takes, frozenset({*takes.arguments, *takes.options}))

    @cached_property
    def asked(self) -> list[tuple[str, Values, np.ndarray, np.ndarray]]:
        """(name, values, right answer, how far off it may be) of each case, in float64."""
        found = []
        for case in self.cases:
            problem = case.problem("float64")
            with np.errstate(all="ignore"):
                bound = problem.bounds["output"]
                allowed = np.nan_to_num(np.asarray(tolerance(bound, "float64")), nan=np.inf)
            found.append((case.name, problem.arrays | dict(case.options), np.asarray(bound.value), allowed))
        return found

    def written(self, name: str) -> Shape | None:
        """The shape of an argument as it is declared."""
        argument = self.layer.function.takes.arguments.get(name)
        return None if argument is None else self.maker.shape_of(argument)

    def axis_of(self, name: str, letter: str) -> int | None:
        """Which axis of an argument, from the end, has the length of a letter; the last one of a run."""
        written = self.written(name)
        if written is None or letter not in written.axes:
            return None
        behind = written.axes[written.axes.index(letter) + 1 :]
        return None if any(axis[0] == "*" for axis in behind) else -1 - len(behind)

    def length(self, values: Values, letter: str) -> int:
        """The length of a letter; 0 where nothing has it."""
        for name, value in values.items():
            axis = self.axis_of(name, letter)
            if axis is not None and isinstance(value, np.ndarray) and value.ndim >= -axis:
                return value.shape[axis]
        return 0

    def resized(self, values: Values, letter: str, n: int) -> Values:
        """The values with the first n along a letter, or with zeros up to n."""
        found = dict(values)
        tied = [other for other, one in self.maker.tied.items() if one == letter]
        for name, of in itertools.product(values, (letter, *tied)):
            axis, value = self.axis_of(name, of), found[name]
            if axis is not None and isinstance(value, np.ndarray) and value.ndim >= -axis and value.shape[axis] > 1:
                found[name] = cut(value, axis, n)
        return found


def cut(x: np.ndarray, axis: int, n: int) -> np.ndarray:
    """The first n along an axis, with zeros where there are fewer."""
    kept = np.moveaxis(x, axis, -1)[..., :n]
    more = np.zeros((*kept.shape[:-1], n - kept.shape[-1]), x.dtype)
    return np.moveaxis(np.concatenate([kept, more], -1), -1, axis)


def fitted(y: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An answer of another size, cut or filled up to the shape."""
    if y.ndim != len(shape):
        return y
    for axis, n in enumerate(shape):
        y = cut(y, axis, n)
    return y


def faults(asked: Asked) -> Iterator[Fault]:
    """Every fault that a kernel of this layer may have."""
    takes = asked.layer.function.takes
    written = [asked.written(name) or Shape.of("()") for name in takes.arguments]
    letters = [a for a in dict.fromkeys(a for shape in written for a in shape.axes) if a not in asked.maker.tied]
    for letter, b in itertools.product(letters, BLOCKS):
        yield Fault(f"behind the last whole block of {b} along {letter} nothing is read", tail(asked, letter, b))
        yield Fault(f"zeros up to a multiple of {b} along {letter} are counted", padded(asked, letter, b))
    for one, other in itertools.permutations(letters, 2):
        yield Fault(f"{other} is taken for {one} where it is less", exchanged(asked, one, other))
    for option in asked.maker.options:
        yield Fault(f"{option.name} is not looked at", without(option.name))
    for option in asked.maker.options:
        if isinstance(option, Several):
            yield Fault(f"{option.name} of the first axis is taken for all", of_the_first_axis(option.name))
    optional = [option.name for option in asked.maker.options] + [a.name for a in asked.maker.arrays if a.optional]
    varied = [name for name in optional if name not in asked.maker.required]
    for one, other in itertools.permutations(varied, 2):
        yield Fault(f"{other} is not looked at beside {one}", without(other, beside=one))
    for argument in (*asked.maker.inputs, *asked.maker.arrays):
        if argument.optional and argument.name not in asked.maker.required:
            yield Fault(f"{argument.name} is not looked at", without(argument.name))
            yield Fault(f"{argument.name} is not looked at if there is a batch", without(argument.name, batch=asked))
            yield Fault(f"{argument.name} of the first call of these shapes is kept", kept(argument.name))
        for hidden in argument.hides:
            yield Fault(f"what {argument.name} hides of {hidden} is multiplied by 0", leaking(hidden))
    yield Fault("of a batch of single tokens only the first is computed", first_alone)
    yield Fault("only the first of a batch is computed", lambda run, values: first_of(run(values), 1))


def tail(asked: Asked, letter: str, b: int) -> Callable[[Run, Values], np.ndarray]:
    """Whole blocks alone are read, where there is one."""

    def wrong(run: Run, values: Values) -> np.ndarray:
        n, right = asked.length(values, letter), run(values)
        return right if n < b else fitted(run(asked.resized(values, letter, n // b * b)), right.shape)

    return wrong


def padded(asked: Asked, letter: str, b: int) -> Callable[[Run, Values], np.ndarray]:
    """The last block is filled up with zeros, and they count."""

    def wrong(run: Run, values: Values) -> np.ndarray:
        n = asked.length(values, letter)
        return fitted(run(asked.resized(values, letter, -(-n // b) * b)), run(values).shape)

    return wrong


def exchanged(asked: Asked, one: str, other: str) -> Callable[[Run, Values], np.ndarray]:
    """The length of another letter is taken, if it is less."""

    def wrong(run: Run, values: Values) -> np.ndarray:
        n = min(asked.length(values, one), asked.length(values, other))
        return fitted(run(asked.resized(values, one, n)), run(values).shape)

    return wrong


def without(name: str, *, beside: str = "", batch: Asked | None = None) -> Callable[[Run, Values], np.ndarray]:
    """A value is left out: always, if there is another one beside it, or if the first argument has axes in front."""

    def wrong(run: Run, values: Values) -> np.ndarray:
        first = next(iter(values))
        written = None if batch is None else batch.written(first)
        if (beside and beside not in values) or (written and np.ndim(values[first]) <= len(written.axes)):
            return run(values)
        return run({n: value for n, value in values.items() if n != name})

    return wrong


def of_the_first_axis(name: str) -> Callable[[Run, Values], np.ndarray]:
    """An option that is one per axis is the same for all."""

    def wrong(run: Run, values: Values) -> np.ndarray:
        given = values.get(name)
        return run({**values, name: given[:1] * len(given)} if isinstance(given, tuple) else values)

    return wrong


def kept(name: str) -> Callable[[Run, Values], np.ndarray]:
    """An array is the one of an earlier call with the same shapes."""
    first: dict[Any, np.ndarray] = {}

    def wrong(run: Run, values: Values) -> np.ndarray:
        if name not in values:
            return run(values)
        key = tuple(sorted((n, np.shape(value)) for n, value in values.items()))
        return run({**values, name: first.setdefault(key, values[name])})

    return wrong


def leaking(name: str) -> Callable[[Run, Values], np.ndarray]:
    """NaN and infinity times 0 are NaN."""

    def wrong(run: Run, values: Values) -> np.ndarray:
        y = run(values)
        return y if name not in values or np.isfinite(values[name]).all() else y * np.nan

    return wrong


def first_alone(run: Run, values: Values) -> np.ndarray:
    """If there is one token, the rest of the batch is 0."""
    y = run(values)
    return first_of(y, 1) if y.ndim > 1 and y.shape[-2] == 1 else y


def first_of(y: np.ndarray, n: int) -> np.ndarray:
    """The first n of an answer with an axis in front, and 0."""
    return np.where(np.arange(len(y)).reshape(-1, *[1] * (y.ndim - 1)) < n, y, 0) if y.ndim > 1 else y


def answer(fault: Fault, asked: Asked, values: Values) -> np.ndarray | None:
    """The wrong answer; None if there is none, which is seen by everybody."""
    try:
        return fault.wrong(asked.run, values)
    except (ValueError, TypeError, IndexError, np.linalg.LinAlgError):
        return None


def is_seen(got: np.ndarray | None, right: np.ndarray, allowed: np.ndarray) -> bool:
    """Whether the answer is beyond what rounding allows."""
    if got is None or got.shape != right.shape:
        return True
    with np.errstate(all="ignore"):
        both = np.isnan(got) & np.isnan(right) | (got == right)
        return bool((~both & ~(np.abs(got - right) <= allowed)).any())


def differ(asked: Asked, fault: Fault, other: Fault | None = None) -> bool:
    """Whether two faults, or a fault and what is right, have different answers to one of many other draws."""
    factors: list[Factor] = list(asked.maker.factors())
    rng = np.random.default_rng(1)
    for _ in range(WILD):
        chosen = {factor.name: factor.values[rng.integers(len(factor.values))] for factor in factors}
        if asked.maker.size(chosen) > 20 * max(LONG):
            continue
        inputs, options = asked.maker.drawn(chosen, rng)
        right, values = asked.maker.computed(inputs, options), inputs | options
        if right is not None:
            with np.errstate(all="ignore"):
                wanted = right if other is None else answer(other, asked, values)
                got, allowed = answer(fault, asked, values), 1e-9 * np.max(np.abs(right), initial=0)
                if (wanted is None) != (got is None) or (wanted is not None and is_seen(got, wanted, allowed)):
                    return True
    return False


class Row(NamedTuple):
    """A fault, the first case that sees it ("" if none does), and its answers as a mark that is its own.

    A mistake that is planted has no `fault`.
    """

    says: str
    case: str
    mark: tuple
    fault: Fault | None = None


def table(asked: Asked) -> list[Row]:
    """Each fault of a layer that is one, and each planted mistake."""
    found = []
    for fault in faults(asked):
        answers = [answer(fault, asked, values) for _, values, _, _ in asked.asked]
        pairs = zip(asked.asked, answers, strict=True)
        case = next((name for (name, _, right, allowed), got in pairs if is_seen(got, right, allowed)), "")
        if case or differ(asked, fault):
            marks = tuple(fault.says if got is None else np.round(got, 6).tobytes() for got in answers)
            found.append(Row(fault.says, case, marks, fault))
    found += rows_of_gradients(asked)
    seen = {mutant.says: seen_by(mutant, asked.cases) for mutant in mutants_of(asked.layer)}
    return found + [Row(says, case, (says,)) for says, case in seen.items() if case is not None]


def rows_of_gradients(asked: Asked) -> list[Row]:
    """The fault of a parameter's gradient that what lies behind the last whole block of the first axis is not added."""
    seen: dict[str, str] = {}
    for case in asked.cases:
        problem = case.problem("float64")
        with np.errstate(all="ignore"):
            output, pullback = vjp(
                lambda *xs, case=case: asked.layer.function(*xs, **case.options), *problem.arrays.values()
            )
            n = len(output) if output.ndim else 0
            for b in (b for b in BLOCKS if n > b and n % b):
                lost = np.where(np.arange(n).reshape(-1, *[1] * (output.ndim - 1)) < n // b * b, problem.cotangent, 0)
                for name, got in zip(problem.arrays, pullback(lost), strict=True):
                    written, quantity = asked.written(name), f"gradient of {name}"
                    if quantity not in problem.bounds or written is None or written.batch or written.kind:
                        continue
                    bound = problem.bounds[quantity]
                    says = f"behind the last whole block of {b} rows nothing is added to the gradient of {name}"
                    if is_seen(got, np.asarray(bound.value), tolerance(bound, "float64")) and not seen.get(says):
                        seen[says] = case.name
                    if np.any(got != np.asarray(bound.value, got.dtype)):
                        seen.setdefault(says, "")
    return [Row(says, case, (says,)) for says, case in seen.items()]


def seen_by(mutant: Mutant, cases: list[Case]) -> str | None:
    """The first case whose output or gradients a planted mistake puts beyond their bounds; None if it changes none."""
    changes = False
    for case, dtype in itertools.product(cases, ("float64", "float32")):
        problem = case.problem(dtype)
        try:
            with np.errstate(all="ignore"):
                wrong, right = answer_of(mutant.function, problem), answer_of(case.layer.function, problem)
                changes = changes or any(not np.array_equal(wrong[q], right[q], equal_nan=True) for q in right)
                bounds = ((q, np.asarray(b.value), tolerance(b, dtype)) for q, b in problem.bounds.items())
                if any(is_seen(wrong[q], value, allowed) for q, value, allowed in bounds):
                    return case.name
        except Exception:  # a mistake that fails is seen
            return case.name
    return "" if changes else None


def answer_of(function: Callable, problem: Problem) -> dict[str, np.ndarray]:
    """Output and gradients."""
    output, pullback = vjp(lambda *xs: function(*xs, **problem.case.options), *problem.arrays.values())
    return problem.selected(np.asarray(output), lambda: pullback(problem.cotangent))


def alike(asked: Asked, rows: list[Row]) -> list[tuple[str, str]]:
    """Two faults of different kinds that no case tells apart, and that are not one."""
    kinds: dict[tuple, Row] = {}
    without_numbers = lambda says: " ".join(word for word in says.split() if not word.isdigit())
    found = []
    for row in rows:
        first = kinds.setdefault(row.mark, row)
        if not row.case or without_numbers(first.says) == without_numbers(row.says):
            continue
        if None in (row.fault, first.fault) or differ(asked, row.fault, first.fault):
            found.append((first.says, row.says))
    return found


def every(*names: str) -> Iterator[Asked]:
    """Every layer that declares what it takes, with all its cases; or those of these names."""
    listed: dict[str, list[Case]] = {}
    for case in (case for page in (*LAYERS, elementary, products) for case in cases_of(page)):
        listed.setdefault(case.layer.name, []).append(case)
    for name in names or listed:
        if made := made_cases(listed[name][0].layer, listed[name]):
            yield Asked(listed[name][0].layer, listed[name] + made)


def main() -> int:
    """The table; 1 if a fault is not seen."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("layers", nargs="*", help="names of layers; all if none is named")
    parser.add_argument("--table", action="store_true", help="each fault, and the first case that sees it")
    options = parser.parse_args()
    total = unseen = 0
    for asked in every(*options.layers):
        rows = table(asked)
        missed = [row.says for row in rows if not row.case]
        total, unseen = total + len(rows), unseen + len(missed)
        print(
            f"{asked.layer.name}: {len(asked.cases)} cases see {len(rows) - len(missed)} of {len(rows)} faults",
            flush=True,
        )
        print(*(f"    not seen: {says}" for says in missed), sep="\n", end="\n" * bool(missed))
        pairs = alike(asked, rows)
        print(*(f"    alike: {one}; {other}" for one, other in pairs), sep="\n", end="\n" * bool(pairs))
        if options.table:
            print(*(f"    {row.says}: {row.case or 'not seen'}" for row in rows), sep="\n")
    print(f"{unseen} of {total} faults are seen by no case")
    return int(unseen > 0)


if __name__ == "__main__":
    sys.exit(main())
