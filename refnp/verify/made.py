"""Cases that are made from what a function declares that it takes, and are written down nowhere.

First options have their defaults, and what may be left out is left out: all lengths differ; all are 1; each is once 1,
once 2, and once past the blocks of any kernel and no multiple of one; axes in front are none, one and two; and numbers
have each of STRUCTURES. Then every two values of options, masks and arrays that may be left out stand together in a
case. What a mask hides are some, the first and the last ones, and all from one.

refnp itself is held on these cases (tests/verify/test_made.py). Of those who are judged it is not asked yet what no
convention of theirs says: how many axes in front they take, and where.
"""

import inspect
import itertools
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.autograd.declaration import Declaration
from refnp.autograd.notation import Argument, Option, Shape
from refnp.verify.case import Case, Layer

DIFFERENT = (7, 5, 11, 6, 13, 9, 3, 4, 8)  # lengths, one for each letter
LONG = (100, 37)  # past a block of 64, and of 32: of the first letter that is past a block, and of the others
RUNS = ((7,), (1,), (2,), (100,), (3, 5))
MOST = 20_000  # numbers of a case
TRIES = 60  # rows that are drawn for a value, before it is given up
FRONTS = ((), (3,), (2, 3))
TRIED = {  # values of options beside the default
    "≥ 0": (1e-3, 0.1),
    "≥ 1": (2.5, 500.0),
    "positive": (0.7, 30.0),
    "finite": (0.3, 2.0),
    "number": (0.3, 2.0),
    "in [0, 1)": (0.1, 0.5),
    "in [0, 1]": (0.1, 1.0),
    "whole": (0,),
    "whole ≥ 1": (1, 2, 3),
    "True or False": (True, False),
}
HIDDEN = ("some are hidden", "the first two are hidden", "the last ones are hidden", "all are hidden from one")
STRUCTURES = {  # the numbers of the i-th array, from normal ones
    "normal": lambda x, i: x,
    "equal rows": lambda x, i: x[..., :1, :] + 0 * x if x.ndim > 1 else x,
    "a row of zeros": lambda x, i: np.where(np.arange(x.shape[-2])[:, None] == 0, 0, x) if x.ndim > 1 else x,
    "mean 1000": lambda x, i: x + 1000,
    "far apart": lambda x, i: 30 * x,
    "far below": lambda x, i: 300 * np.abs(x) * (-1) ** i,  # products of two neighbours are large and negative
    "tiny": lambda x, i: 1e-3 * x,
}


@dataclass(frozen=True)
class Factor:
    """Something that varies from case to case, with its values; an `option` has a default, which comes first."""

    name: str
    values: tuple
    option: bool = False


def made_cases(layer: Layer, listed: list[Case]) -> list[Case]:
    """The cases that follow from the declaration of a layer's function; none where it has none.

    What is known of frameworks in the `listed` cases is known in these too.
    """
    declaration = getattr(layer.function, "takes", None)
    if not isinstance(declaration, Declaration) or layer.whole:
        return []
    known = tuple({id(defect): defect for case in listed for defect in case.known_defects}.values())
    rng = np.random.default_rng(zlib.crc32(layer.name.encode()))
    return [
        Case(layer, f"made: {said}", inputs, given, known, tuple(n for n, x in inputs.items() if x.dtype.kind == "f"))
        for said, inputs, given in Maker(layer, declaration).cases(rng)
    ]


class Maker:
    """Makes the arguments of a layer's equation: inputs by place, and options, arrays among them, by name."""

    def __init__(self, layer: Layer, declaration: Declaration):
        self.layer, self.declaration = layer, declaration
        parameters = inspect.signature(layer.equation).parameters.values()
        by_name = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
        self.required = {p.name for p in parameters if p.default is p.empty}
        self.inputs = [a for name, a in declaration.arguments.items() if name in {p.name for p in parameters} - by_name]
        self.arrays = [a for name, a in declaration.arguments.items() if name in by_name]
        self.options = [o for name, o in declaration.options.items() if name in by_name and tried(o, declaration)]

    def shape_of(self, argument: Argument) -> Shape:
        """Of shapes that an argument may have, the first one that holds what it is here: inputs differentiate."""
        fits = lambda shape: argument not in self.inputs or shape.kind not in ("whole", "boolean")
        return next(filter(fits, argument.shapes))

    def factors(self) -> Iterator[Factor]:
        """What varies."""
        taken = [*self.inputs, *self.arrays]
        axes = [axis for argument in taken for axis in self.shape_of(argument).axes]
        letters = list(dict.fromkeys(factor for axis in axes for factor in axis.split("·")))
        letters = [a for a in letters if not a.isdigit() and a not in self.declaration.options]
        own, long = iter(DIFFERENT), iter((LONG[0], *[LONG[1]] * len(letters)))
        for letter in reversed(letters):
            runs = RUNS[:-1] if self.declaration.moved else RUNS
            yield Factor(letter, runs if letter[0] == "*" else (next(own), 1, 2, next(long)))
        if any(self.shape_of(argument).batch for argument in taken):
            yield Factor("...", FRONTS)
        for argument in taken:
            if argument.optional and argument.name not in self.required:
                of = HIDDEN if argument.shapes[0].kind == "boolean" else (True,)
                yield Factor(argument.name, (False, *of), option=True)
        for option in self.options:
            values = self.layer.tried.get(option.name, tried(option, self.declaration))
            yield Factor(option.name, values, option=True)
        yield Factor("structure", tuple(STRUCTURES))

    def cases(self, rng: np.random.Generator) -> Iterator[tuple[str, dict, dict]]:
        """(what is particular, inputs, options) of each case."""
        factors = list(self.factors())
        drawn: dict[str, tuple[dict, dict]] = {}

        def draw(row: list[int]) -> bool:
            """Whether these values make a case: not too large, not refused, and not the same everywhere."""
            chosen = {factor.name: factor.values[i] for factor, i in zip(factors, row, strict=True)}
            words = [said_of(factor, i) for factor, i in zip(factors, row, strict=True)]
            said = ", ".join(filter(None, words)) or "all lengths differ"
            if said not in drawn:
                inputs, options = self.drawn(chosen, rng)
                if not self.says_something(inputs, options):
                    return False
                drawn[said] = inputs, options
            return True

        covering(factors, draw, rng)
        for said, arguments in drawn.items():
            yield said, *arguments

    def says_something(self, inputs: dict, options: dict) -> bool:
        """Whether refnp computes it, and not the same number everywhere from more than one."""
        if sum(array.size for array in inputs.values()) > MOST:
            return False
        try:
            with np.errstate(all="ignore"):
                y = np.asarray(self.layer.function(*inputs.values(), **options))
        except (ValueError, TypeError):
            return False
        return y.size <= MOST and (y.size == 1 or bool((y != y.flat[0]).any()))

    def drawn(self, chosen: Mapping[str, Any], rng: np.random.Generator) -> tuple[dict, dict]:
        """Inputs and options of a case."""
        options = {option.name: chosen[option.name] for option in self.options}
        of_defaults = {n: d for n, d in self.declaration.defaults.items() if n in self.declaration.options}
        known = {**of_defaults, **options, **chosen}
        number = itertools.count()
        found: tuple[dict, dict] = {}, {}
        for place, arguments in zip(found, (self.inputs, self.arrays), strict=True):
            for argument in arguments:
                if chosen.get(argument.name, True):
                    place[argument.name] = self.array(argument, known, next(number), rng)
        changed = {n: option for n, option in options.items() if option != self.declaration.defaults.get(n)}
        return found[0], found[1] | changed

    def array(self, argument: Argument, known: Mapping[str, Any], i: int, rng: np.random.Generator) -> np.ndarray:
        """Numbers as an argument holds them, of the structure that was chosen."""
        written = self.shape_of(argument)
        shape = lengths(written, known)
        if written.kind == "boolean":
            return mask_of(shape, known[argument.name], rng)
        if written.kind == "whole":
            return np.asarray(rng.integers(0, max(known[written.below], 1) if written.below else 1000, shape))
        if written.kind in ("positive", "nonnegative", "real"):  # real: weights, in which no gradient is taken
            return rng.uniform(0.3, 2.0, shape)
        if written.kind == "probability":
            return rng.uniform(0.05, 0.95, shape)
        return np.asarray(STRUCTURES[known["structure"]](rng.normal(size=shape), i))


def tried(option: Option, declaration: Declaration) -> tuple:
    """The default of an option, and the values that are tried beside it; none for generators and functions."""
    default = (declaration.defaults[option.name],) if option.name in declaration.defaults else ()
    values = option.choices or TRIED.get(option.text.removesuffix("?"), ())
    return tuple(dict.fromkeys((*default, *values))) if values else ()


def lengths(written: Shape, known: Mapping[str, Any]) -> tuple[int, ...]:
    """The shape, with the lengths that were chosen."""
    found = tuple(known["..."]) if written.batch else ()
    for axis in written.axes:
        if axis[0] == "*":
            found += known[axis]
        else:
            found += (int(np.prod([int(known.get(factor, factor)) for factor in axis.split("·")])),)
    return found


def mask_of(shape: tuple[int, ...], how: str, rng: np.random.Generator) -> np.ndarray:
    """True where something is seen; along the last axis, and in the second row nothing if "all are hidden from one"."""
    mask = rng.random(shape) < 0.7
    if not shape:
        return mask
    if how == HIDDEN[1]:
        mask[..., :2], mask[..., 2:] = False, True
    elif how == HIDDEN[2]:
        mask[..., :], mask[..., -max(shape[-1] // 3, 1) :] = True, False
    elif how == HIDDEN[3] and len(shape) > 1:
        mask[..., shape[-2] // 2, :] = False
    return mask


def said_of(factor: Factor, i: int) -> str:
    """What is particular about a value; nothing about the first one."""
    value = factor.values[i]
    if i == 0:
        return ""
    if value is True:
        return factor.name
    if isinstance(value, str) and value in (*HIDDEN, *STRUCTURES):
        return value
    return f"{factor.name.lstrip('*')} = {value!r}" if factor.name != "..." else f"{value} in front"


def covering(factors: list[Factor], draw: Callable[[list[int]], bool], rng: np.random.Generator) -> None:
    """Draw rows of places of values, such that every value stands in one; what is in no row is given up.

    First options have their defaults, and all lengths but the batch's are once 1; then every two values of options
    stand in a row.
    """
    others = ("...", "structure", "B")
    lengths = [i for i, factor in enumerate(factors) if factor.name not in others and not factor.option]
    optional = [i for i, factor in enumerate(factors) if factor.option]
    draw([0] * len(factors))
    for structure in (0, [*STRUCTURES].index("mean 1000")):
        draw([structure if f.name == "structure" else int(i in lengths) for i, f in enumerate(factors)])
    single: set[tuple] = {((i, a),) for i, f in enumerate(factors) if i not in optional for a in range(len(f.values))}
    cover(single, factors, draw, rng, at_default=optional)
    wanted: set[tuple] = {((i, a),) for i in optional for a in range(len(factors[i].values))}
    for i, j in itertools.combinations(optional, 2):
        places = itertools.product(range(len(factors[i].values)), range(len(factors[j].values)))
        wanted |= {((i, a), (j, b)) for a, b in places}
    cover(wanted, factors, draw, rng)


def cover(wanted: set, factors: list[Factor], draw: Callable, rng: np.random.Generator, at_default: Any = ()) -> None:
    """Draw rows until all that is wanted stood in one; of TRIES drawn ones the one in which most of it stands."""
    wanted -= of_row([0] * len(factors))
    while wanted:
        seed = min(wanted, key=lambda one: (-len(one), one))
        rows = [[int(rng.integers(len(factor.values))) for factor in factors] for _ in range(TRIES)]
        for row in rows:
            for i, a in (*((i, 0) for i in at_default), *seed):
                row[i] = a
        rows.sort(key=lambda row: -len(wanted & of_row(row)))
        best = next((row for row in rows if draw(row)), None)
        wanted -= {seed} if best is None else of_row(best)


def of_row(row: list[int]) -> set[tuple]:
    """The values, and the pairs of values, that stand in a row."""
    single = list(enumerate(row))
    found: set[tuple] = {(one,) for one in single}
    return found | set(itertools.combinations(single, 2))
