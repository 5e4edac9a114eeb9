"""Arguments drawn from what a function declares that it takes, right ones and wrong ones."""

import itertools
import math

import numpy as np

from refnp import autograd, layers
from refnp.autograd.declaration import Declaration
from refnp.autograd.notation import Several, is_listed

PACKAGES = (autograd, layers)


def every():
    """{name: function} of all that is public and checks what it declares to take."""
    found = {}
    for package in PACKAGES:
        for name in package.__all__:
            thing = getattr(package, name)
            takes = getattr(thing, "takes", None)
            checks = isinstance(takes, Declaration) and (
                takes.checked is not None or (takes.takes_any_array and not takes.options)
            )
            if checks and not isinstance(thing, type):
                found[name] = thing
    return found


def constructors():
    """{name: class} of all public classes whose constructor declares what it takes."""
    found = {name: getattr(layers, name) for name in layers.__all__}
    return {n: thing for n, thing in found.items() if isinstance(thing, type) and hasattr(thing.__init__, "takes")}


def right_value(option):
    """A value that an option may have; in unequal ones where there may be several."""
    values = (*option.choices, 2, 3, 0.5, False, np.random.default_rng(0), np.sin)
    right = [value for value in values if option.domain.kind(value) and option.domain.holds(value)]
    return [*right, *right][: option.least] if getattr(option, "each", "one") == "" else right[0]


class Drawn:
    """Arguments of a call that fit: `arrays` by name, in the order of the declaration.

    Letters have lengths of their own, no two the same.
    """

    def __init__(self, declaration, rng, *, front=(), left_out=(), lengths=None, options=None):
        self.declaration, self.rng, self.front = declaration, rng, front
        needed = {name: option for name, option in declaration.options.items() if name not in declaration.defaults}
        self.options = {name: right_value(option) for name, option in needed.items()} | (options or {})
        self.lengths, primes = dict(lengths or {}), iter((5, 3, 7, 4, 6, 8, 9, 10))
        for argument in declaration.arguments.values():
            for shape in argument.shapes:
                for axis in "·".join(shape.axes).split("·") if shape.axes else ():
                    if not axis.isdigit() and axis not in (*self.lengths, *declaration.options):
                        n = next(primes)
                        run = (n,) if declaration.moved else (n, 2)
                        self.lengths[axis] = run if axis[0] == "*" else n
        wanted = {n: a for n, a in declaration.arguments.items() if n not in left_out}
        self.arrays = {name: self.array(argument) for name, argument in wanted.items()}

    def shape(self, written):
        """The lengths of a shape as it is written."""
        return written.lengths(self.declaration.defaults | self.options | self.lengths | {"...": self.front})

    def array(self, argument, shape=None):
        """Numbers of the kind that an argument holds."""
        shape = self.shape(argument.shapes[0]) if shape is None else shape
        kind = argument.shapes[0].kind
        if kind == "boolean":
            return self.rng.random(shape) < 0.7
        if kind == "whole":
            return self.rng.integers(0, 2, shape)
        if kind in ("positive", "nonnegative", "weights", "probability", "real"):
            return self.rng.uniform(0.1, 0.9, shape)
        if kind in ("triangular", "definite") and shape[-1:] == shape[-2:-1]:
            factor = np.tril(self.rng.normal(size=shape), -1) + np.eye(shape[-1])
            return factor if kind == "triangular" else factor @ factor.mT
        return self.rng.normal(size=shape)


WRONG = {  # numbers that an array cannot hold
    "positive": (0.0, -1.0, math.inf, math.nan),
    "nonnegative": (-1.0, math.nan),
    "weights": (-1.0, math.nan),
    "probability": (-0.5, 2.0, math.nan),
}


def wrong_numbers(drawn):
    """(name, a number that its array cannot hold, the arrays with that number in it and nothing hidden), for each."""
    shown = {name: np.ones_like(array) if array.dtype == bool else array for name, array in drawn.arrays.items()}
    for name, right in shown.items():
        first = drawn.declaration.arguments[name].shapes[0]
        for number in (-1, drawn.lengths[first.below]) if first.below else WRONG.get(first.kind, ()):
            wrong = np.array(right)
            wrong.flat[-1] = number
            yield name, number, shown | {name: wrong}


def wrong_arrays(drawn):
    """(name, an array in its place that does not fit, the kind of error), for each argument in every way."""
    for name, right in drawn.arrays.items():
        argument = drawn.declaration.arguments[name]
        yield name, np.full(np.shape(right), "a"), TypeError
        kinds = {shape.kind for shape in argument.shapes}
        if kinds <= {"boolean", "whole"}:
            yield name, np.ones(np.shape(right)), TypeError
        if kinds == {"floating"}:
            yield name, np.ones(np.shape(right), int), TypeError
        fixed = [shape for shape in argument.shapes if not any(axis[0] == "*" for axis in shape.axes)]
        if len(fixed) == len(argument.shapes) and not argument.broadcast:
            fewest = min(len(shape.axes) for shape in fixed)
            if fewest:
                yield name, drawn.array(argument, (1,) * (fewest - 1)), ValueError
            if not any(shape.batch for shape in fixed):
                yield name, drawn.array(argument, (1, *np.shape(right), 1, 1)), ValueError
        least = {letter for shape in argument.shapes for letter, n in shape.least.items() if n > 0}
        behind = itertools.takewhile(lambda axis: axis[0] != "*", reversed(argument.shapes[0].axes))
        for i, axis in enumerate(behind, 1):  # what stands in front of a run has no number of its own
            if axis in least:
                empty = list(right.shape)
                empty[-i] = 0
                yield name, drawn.array(argument, tuple(empty)), ValueError
            given = [drawn.declaration.arguments[other] for other in drawn.arrays]
            if sum(a.shapes[0].axes.count(axis) for a in given) > 1 and "·" not in axis:
                other = list(right.shape)
                other[-i] = math.prod(other) + 2  # no other length
                yield name, drawn.array(argument, tuple(other)), ValueError
    fronts = [n for n in drawn.arrays if drawn.declaration.arguments[n].shapes[0].batch]
    if len(fronts) > 1 and drawn.front:
        name = fronts[-1]
        shape = (drawn.front[0] + 5, *drawn.arrays[name].shape[1:])
        yield name, drawn.array(drawn.declaration.arguments[name], shape), ValueError


def wrong_options(declaration):
    """(name, a value that is not in its domain, the kind of error)."""
    for name, option in declaration.options.items():
        several = isinstance(option, Several)
        yield name, object(), TypeError
        if not option.optional:
            yield name, None, TypeError
        if option.choices:
            yield name, "other", ValueError
        if option.choices and not several:
            yield name, 3, TypeError
            continue
        for value in (-1, 0, 1, 1.5, math.inf, -math.inf, math.nan, True, "1", np.ones(2), 1j):
            if not option.domain.kind(value):
                if not (several and is_listed(value)) and not (option.choices and isinstance(value, str)):
                    yield name, value, TypeError
            elif several and not option.each:
                yield name, value, TypeError
            elif not option.domain.holds(value):
                yield name, value, ValueError
        if several:
            yield from ((name, wrong, error) for wrong, error in wrong_sequences(declaration, option))


def wrong_sequences(declaration, option):
    """(a sequence that an option may not be, the kind of error)."""
    one = next(value for value in (2, 3) if option.domain.holds(value))
    yield (one, "a"), TypeError
    if not option.gap:
        yield (one, None), TypeError
    yield (one, -1), ValueError
    yield ((one, one, one),), TypeError
    if option.least:
        yield (one,) * (option.least - 1), ValueError
    if option.along:
        yield (one,) * 7, ValueError


def called(function, arrays, options):
    """The function with arrays by place where they may be, and all else by name."""
    declaration = getattr(function, "takes", None)
    by_name = {name: array for name, array in arrays.items() if name in declaration.by_name}
    given = [array for name, array in arrays.items() if name not in by_name]
    return function(*given, **by_name, **options)
