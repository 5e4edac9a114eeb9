"""Cases that are made from what a function declares that it takes, and are written down nowhere.

First options have their defaults, and what may be left out is left out: all lengths differ; all are 1, and all but one;
each is once 1, once 2, past the blocks of any kernel and no multiple of one, and a multiple of most; axes in front are
none, one and two, and a long one; and numbers have each of STRUCTURES, and those of a domain stand at its ENDS. Then
every two values of options, masks and arrays that may be left out stand together in a case. What a mask hides are some,
the first and the last ones, and all from one; and what is hidden is NaN, infinity or large. What no function takes so,
or is too large, is left out.

refnp itself is held on these cases (tests/verify/test_made.py). Others may refuse some, with axes in front of theirs
or lengths that they do not take: what they say is reported, and is no wrong answer.
"""

import contextlib
import functools
import inspect
import itertools
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from refnp.autograd import vjp
from refnp.autograd.declaration import Declaration
from refnp.autograd.notation import DOMAINS, Argument, Option, Several, Shape
from refnp.verify.case import Case, Convention, KnownDefect, Layer
from refnp.verify.covering import Factor, Row, covering
from refnp.verify.layers import cases_of_layers

DIFFERENT = (7, 5, 11, 6, 13, 9, 3, 4, 8)  # lengths, one for each letter
LONG = (67, 1027)  # past blocks of 64 and of 1024, and multiples of none
BLOCK = 128  # a multiple of most blocks, the rest at its default
LONGEST = 8195  # of which sums in 8 bits lose most, also block by block
EVEN = 3  # is added to long ones where a function wants even lengths
RUNS = ((6, 9), (1,), (2,), (67,), (1027,), (7,))
KERNELS = ((2, 3, 2), (1, 1, 1), (3, 1, 2), (5, 4, 3))  # as many of each as the run beside it has axes
UNEQUAL = {  # values of options of which there is one per axis
    DOMAINS["whole ≥ 0"]: (1, (1, 0, 2)),
    DOMAINS["whole ≥ 1"]: (2, (2, 1, 3)),
    DOMAINS["positive"]: (2, (2, 3, 1), (1.25, 0.75, 1.5)),  # neither whole nor a ratio of the lengths
}
PAIRS = ((1, 0), (0, 2), (2, 1))
TURNED = ((0, 1), (2, 0), (1, 2))  # what is larger behind
MOST = 32_000  # numbers of a case
FRONTS = ((), (3,), (2, 3))
OF_ELEMENTS = ((7,), (), (1,), *((n,) for n in LONG), (3, 5))  # where each number is for itself
TRIED = {  # values of options beside the default
    "≥ 0": (1e-3, 0.1),
    "≥ 1": (2.5, 500.0),
    "positive": (0.7, 30.0),
    "finite": (0.3, 2.0),
    "number": (0.3, 2.0, -0.5),
    "in [0, 1)": (0.1, 0.5),
    "in [0, 1]": (0.1, 1.0),
    "whole": (0, -1),
    "whole ≥ 0": (3, 0, 1),
    "whole ≥ 1": (1, 2, 3),
    "True or False": (True, False),
}
SPREAD = {  # ordinary numbers of a kind
    **dict.fromkeys(("positive", "nonnegative", "weights"), (0.3, 2.0)),
    "real": (0.3, 2.0),  # weights, in which no gradient is taken
    "probability": (0.05, 0.95),
    "logarithm": (-1.2, 0.7),
}
HIDDEN = ("some are hidden", "the first ones are hidden", "the last ones are hidden", "all are hidden from one")
HARM = {"infinity is hidden": np.inf, "1e30 is hidden": 1e30}  # and NaN, in each argument for itself
STRUCTURES = {  # the numbers of the i-th array, from normal ones
    "normal": lambda x, i: x,
    "equal rows": lambda x, i: x[..., :1, :] + 0 * x if x.ndim > 1 else x,
    "coincident": lambda x, i: x,  # with rows of the first array of such rows: places of context and targets
    "a row of zeros": lambda x, i: np.where(np.arange(x.shape[-2])[:, None] == 0, 0, x) if x.ndim > 1 else x,
    "mean 1000": lambda x, i: x + 1000,
    "far apart": lambda x, i: 30 * x,
    "far below": lambda x, i: 300 * (1 + np.abs(x)) * (-1) ** i,  # products of two neighbours are large and negative
    "tiny": lambda x, i: 1e-3 * x,
    "large": lambda x, i: 1e3 ** (-1) ** i * x,  # squares are beyond float16; products with the next array are not
    "huge": lambda x, i: 1e6 ** (-1) ** i * x,  # so are numbers
}
AT = "at the ends"
ENDS: dict[str, dict[str, tuple[float, ...]]] = {  # what half of the numbers of a kind are; no result is infinite
    "near the ends": {
        **dict.fromkeys(("positive", "nonnegative", "weights"), (1e-8, 1e-3, 1e3)),
        "probability": (1e-9, 1e-4, 1 - 1e-6),
        "logarithm": (-18.0, -7.0, 7.0),
    },
    AT: {"nonnegative": (0.0,), "weights": (0.0,), "probability": (0.0, 1.0)},  # which has a gradient on one side alone
}
LAST = {  # behind every block
    "the last is far above": lambda x, i: x + 1000 * (np.arange(x.shape[-1]) == x.shape[-1] - 1) if x.ndim else x,
    "values fall in the middle": lambda x, i: x + 4 * (i > 1) * (np.arange(x.shape[-2]) < x.shape[-2] / 2)[:, None],
}


def made_cases(layer: Layer, listed: list[Case], takes: Callable[[str], bool] = lambda name: True) -> list[Case]:
    """The cases that follow from the declaration of a layer's function; none where it has none.

    Options vary that the function who is asked `takes`. The name of a case says all of it, its numbers too.
    What is known of frameworks in the `listed` cases is known in these too, if it is known what makes it.
    """
    declaration = getattr(layer.function, "takes", None)
    if not isinstance(declaration, Declaration) or layer.whole:
        return []
    known = known_of(layer, listed)
    made = drawn_for(layer, declaration, frozenset(filter(takes, (*declaration.arguments, *declaration.options))))
    of_values = listed and not any(len(case.quantities) > 1 for case in listed)  # no gradient is judged of any
    ends = {name for name, argument in declaration.arguments.items() if argument.shapes[0].kind in ENDS[AT]}

    def differentiated(said: str, inputs: Mapping[str, np.ndarray]) -> tuple[str, ...]:
        """The inputs whose gradients are judged: of the longest rows none, for all that they would take."""
        if any(LONGEST in x.shape for x in inputs.values()):
            return ()
        without = ends if AT in said else ()
        return tuple(name for name, x in inputs.items() if x.dtype.kind == "f" and name not in without)

    return [
        Case(
            layer,
            f"made: {said}",
            inputs,
            options,
            known,
            () if of_values else differentiated(said, inputs),
            made=True,
        )
        for said, inputs, options in made
    ]


@functools.cache
def drawn_for(layer: Layer, declaration: Declaration, taken: frozenset[str]) -> list[tuple[str, dict, dict]]:
    """What is particular to each case, its inputs and its options, for a function that takes these names; made once."""
    return list(Maker(layer, declaration, taken).cases())


def known_of(layer: Layer, listed: Iterable[Case]) -> tuple[KnownDefect, ...]:
    """What is known of frameworks in any case of the layer: of itself, and what makes it of the `listed` cases."""
    every = {id(defect): defect for case in listed for defect in case.known_defects} | conventions_of_parts()
    return layer.known + tuple(replace(defect, cases=()) for defect in every.values() if defect.has_formula)


def with_conventions(listed: list[Case]) -> list[Case]:
    """The cases, in each of which every convention is known that is in any case of its layer."""
    layers = {id(case.layer): case.layer for case in listed if not case.layer.whole}
    known = {key: known_of(layer, [c for c in listed if c.layer is layer]) for key, layer in layers.items()}
    found = []
    for case in listed:
        stated = {defect.issue for defect in case.known_defects}
        others = [d for d in known.get(id(case.layer), ()) if isinstance(d, Convention) and d.issue not in stated]
        found.append(replace(case, known_defects=(*case.known_defects, *others)))
    return found


@functools.cache
def conventions_of_parts() -> dict[int, KnownDefect]:
    """What others mean by a part, such as attention of a query that sees nothing, in every layer that is made of it."""
    every = (defect for case in cases_of_layers() for defect in case.known_defects)
    return {id(defect): defect for defect in every if isinstance(defect, Convention) and defect.parts}


class Maker:
    """Makes the arguments of a layer's equation: inputs by place, and options, arrays among them, by name."""

    def __init__(self, layer: Layer, declaration: Declaration, taken: frozenset[str]):
        self.layer, self.declaration, self.taken = layer, declaration, taken
        parameters = inspect.signature(layer.equation).parameters.values()
        by_name = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
        self.required = {p.name for p in parameters if p.default is p.empty}
        self.inputs = [a for name, a in declaration.arguments.items() if name in {p.name for p in parameters} - by_name]
        self.arrays = [a for name, a in declaration.arguments.items() if name in by_name and self.may_be(name)]
        options = [option for name, option in declaration.options.items() if name in by_name and self.may_be(name)]
        self.options = [option for option in options if tried(option, declaration)]
        self.tied: dict[str, str] = {}
        self.even: set[str] = set()
        self.tied = self.tied_letters()
        self.even = {letter for letter in self.plain_letters() if not self.is_drawn({letter: LONG[0]})}

    def may_be(self, name: str) -> bool:
        """Whether an argument stands in cases: the function that is asked takes it, or it may not be left out.

        Nothing is `tried` of one that is left out always.
        """
        return (name in self.taken and self.layer.tried.get(name) != ()) or name in self.required

    def shape_of(self, argument: Argument, chosen: Any = True) -> Shape:
        """Of shapes that an argument may have, the one that is chosen, as it is written.

        Else the first one that holds what it is here: inputs differentiate.
        """
        fits = lambda shape: argument not in self.inputs or shape.kind not in ("whole", "boolean")
        return next((shape for shape in argument.shapes if str(shape) == chosen), next(filter(fits, argument.shapes)))

    def factors(self) -> Iterator[Factor]:
        """What varies."""
        taken = [*self.inputs, *self.arrays]
        axes = [axis for argument in taken for axis in self.shape_of(argument).axes]
        letters = list(dict.fromkeys(factor for axis in axes for factor in axis.split("·")))
        letters = [a for a in letters if not a.isdigit() and a not in self.declaration.options]
        own = iter(DIFFERENT)
        for letter in reversed([letter for letter in letters if letter not in self.tied]):
            longest = (LONGEST,) if letter in self.layer.tried.get("longest", ()) or len(letters) == 1 else ()
            runs: tuple = (RUNS[-1], *RUNS[1:-1], *((n,) for n in longest)) if self.declaration.moved else RUNS
            runs = KERNELS if letter != letter.upper() in letters else runs
            long = (n + EVEN * (letter in self.even) for n in (*LONG, *longest))
            values = runs if letter[0] == "*" else (next(own), 1, 2, *long)
            values = self.layer.tried.get(letter, values)
            block = (BLOCK,) if letter[0] == "*" else BLOCK
            yield Factor(letter, values, length=True, alone=(block,) if max(values) > block else ())
        if any(self.shape_of(argument).batch for argument in taken):
            fronts = self.layer.tried.get("...", FRONTS if letters else OF_ELEMENTS)
            many = ((LONG[1] if letters else BLOCK,),) if any(fronts) else ()
            yield Factor("...", fronts, paired=bool(letters), alone=many)
        for argument in taken:
            if argument.optional and argument.name not in self.required and self.may_be(argument.name):
                harm = (*(f"NaN is hidden in {name}" for name in argument.hides), *(HARM if argument.hides else ()))
                of = (*HIDDEN, *harm) if argument.shapes[0].kind == "boolean" else (True,)
                yield Factor(argument.name, self.layer.tried.get(argument.name, (False, *of)), option=True)
        for option in self.options:
            values = self.layer.tried.get(option.name, tried(option, self.declaration))
            yield Factor(option.name, values, option=True)
        of_rows, of_values = LAST
        along = (of_rows,) if len(letters) == 1 else (of_values,) if "longest" in self.layer.tried else ()
        kinds = {self.shape_of(argument).kind for argument in taken}
        structures = STRUCTURES if kinds - SPREAD.keys() - {"whole", "boolean"} else ("normal",)
        ends = [name for name, values in ENDS.items() if kinds & values.keys()]
        yield Factor("structure", self.layer.tried.get("structure", (*structures, *ends)), alone=along)

    def wanted(self, factors: Sequence[Factor]) -> Iterator[Row]:
        """Each length past every block, alone and with others, or of a block; all 1, and all but one, near 0 and far.

        Each end of a domain stands beside defaults. Arrays that may be left out stand in two cases of one shape, so
        that the first is not kept, and are long too.
        """
        lengths = [i for i, factor in enumerate(factors) if factor.length]
        structure = {name: (len(factors) - 1, i) for i, name in enumerate(factors[-1].values)}
        near = {name: structure.get(name, structure["normal"]) for name in ("mean 1000", "tiny")}
        front = [(i, 1) for i, factor in enumerate(factors) if factor.name == "..." and len(factor.values) > 1]
        if front and len(lengths) == 1 and "a row of zeros" in structure:  # by default there is but one row
            yield (*front, structure["a row of zeros"])
        yield from ((structure[name],) for name in ENDS if name in structure)
        for left in (None, *lengths):
            yield (*((i, 1) for i in lengths if i != left), *front, near["mean 1000"])
        yield (*((i, 1) for i in lengths), structure["normal"])
        yield tuple((i, 3) for i in lengths)
        for i, factor in enumerate(factors):
            if i in lengths:
                yield from (((i, a),) for a in (3, 4)[: len(factor.values) - 3])  # past blocks
                for place in (place for place, n in enumerate(factor.values) if n in (LONGEST, (LONGEST,))):
                    longest = *((j, 1) for j in lengths if j != i), (i, place)
                    yield longest
                    if factors[-1].alone:
                        yield *longest, (len(factors) - 1, len(factors[-1].values))
            if factor.alone and (factor.name != "structure" or len(lengths) == 1):
                last = [(j, len(factors[j].values) - 1) for j in lengths if factor.name == "structure"]
                yield (*last, (i, len(factor.values)))
            if HIDDEN[1] in factor.values:
                seen = self.declaration.arguments[factor.name].shapes[0].axes[-1]
                hidden = (i, factor.values.index(HIDDEN[1]))
                yield from (((j, a), hidden) for j in lengths for a in (3, 4) if factors[j].name == seen)
            if factor.name in self.declaration.arguments and any(value is True for value in factor.values):
                given = (i, factor.values.index(True))
                kind = self.declaration.arguments[factor.name].shapes[0].kind
                yield from ((given, place) for name, place in structure.items() if kind in ENDS.get(name, ()))
                yield given, near["tiny"]
                own = "·".join(self.shape_of(self.declaration.arguments[factor.name]).axes).split("·")
                yield from (((j, a), given) for j in lengths for a in (3, 4) if factors[j].name in own)

    def plain_letters(self) -> list[str]:
        """Letters of one axis each."""
        return [factor.name for factor in self.factors() if type(factor.values[0]) is int and not factor.option]

    def is_drawn(self, changed: Mapping[str, Any]) -> bool:
        """Whether refnp computes a case that has defaults but for this."""
        base: dict[str, Any] = {factor.name: factor.values[0] for factor in self.factors()}
        return self.computed(*self.drawn({**base, **changed}, np.random.default_rng(0))) is not None

    def tied_letters(self) -> dict[str, str]:
        """{letter: the one whose length it must have}, which functions ask for and declarations do not say."""
        pairs = itertools.combinations(self.plain_letters(), 2)
        for tied in ({}, *({one: other} for one, other in pairs)):
            self.tied = tied
            if self.is_drawn({}):
                return self.tied
        return {}

    def cases(self) -> Iterator[tuple[str, dict, dict]]:
        """(what is particular, inputs, options) of each case."""
        factors = list(self.factors())
        drawn: dict[str, tuple[dict, dict] | None] = {}

        def draw(row: list[int]) -> bool:
            """Whether these values make a case: not too large, not refused, and not the same everywhere."""
            chosen = {factor.name: factor.value(i) for factor, i in zip(factors, row, strict=True)}
            words = [said_of(factor, i) for factor, i in zip(factors, row, strict=True)]
            said = ", ".join(filter(None, words)) or "all lengths differ"
            if self.size(chosen) > MOST:
                return False
            if said not in drawn:
                rng = np.random.default_rng(zlib.crc32(f"{self.layer.name}/{said}".encode()))
                inputs, options = self.drawn(chosen, rng)
                says = self.says_something(inputs, options, finite=chosen["structure"] in ENDS)
                drawn[said] = (inputs, options) if says else None
            return drawn[said] is not None

        covering(factors, set(self.wanted(factors)), draw, np.random.default_rng(0))
        for said, arguments in drawn.items():
            if arguments is not None:
                yield said, *arguments

    def known(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """The lengths of all letters, and the options."""
        defaults = {n: d for n, d in self.declaration.defaults.items() if n in self.declaration.options}
        items = {"B": chosen["..."][0] if chosen.get("...") else 0}  # of (B, N) beside (..., N, D)
        found = {**items, **defaults, **chosen, **{letter: chosen[other] for letter, other in self.tied.items()}}
        for letter, run in found.items():
            if letter[0] == "*" and letter != letter.upper() in found:
                found[letter] = run[: len(found[letter.upper()])]
        for option in self.options:
            if isinstance(option, Several) and isinstance(found[option.name], tuple) and option.run in found:
                found[option.name] = found[option.name][: len(found[option.run])]
        return found

    def size(self, chosen: Mapping[str, Any]) -> int:
        """How many numbers the inputs of a case hold; more than MOST if two axes are past every block."""
        usual = {name: values[0] for name, values in self.layer.tried.items() if values}
        past = (LONG[1], LONG[1] + EVEN, RUNS[4], LONGEST, (LONGEST,))
        longest = [value for name, value in chosen.items() if value in past and value != usual.get(name)]
        known = self.known(chosen)
        count = sum(math.prod(self.shape_of(argument).lengths(known)) for argument in self.inputs)
        return count if len(longest) < 2 else MOST + count

    def computed(self, inputs: dict, options: dict) -> np.ndarray | None:
        """What refnp gives; None if it refuses."""
        with contextlib.suppress(ValueError, TypeError), np.errstate(all="ignore"):
            return np.asarray(self.layer.function(*inputs.values(), **options))
        return None

    def says_something(self, inputs: dict, options: dict, *, finite: bool = False) -> bool:
        """Whether refnp computes it, and not the same number everywhere; of a single one, whether it can change.

        What float32 does not hold is no answer.
        """
        y = self.computed(inputs, options)
        if y is None or not 0 < y.size <= MOST or (finite and not np.isfinite(y).all()):
            return False
        if (large := np.abs(y) > np.finfo(np.float32).max).any():
            wide = {name: x.astype(np.longdouble) if x.dtype.kind == "f" else x for name, x in inputs.items()}
            if np.isfinite(self.computed(wide, options)[large]).any():  # type: ignore[index]
                return False
        if y.size > 1:
            return bool((y != y.flat[0]).any())
        with np.errstate(all="ignore"):
            _, pullback = vjp(lambda *arrays: self.layer.function(*arrays, **options), *inputs.values())
            return any(np.any(x_bar) for x_bar in pullback(np.ones(y.shape)))

    def drawn(self, chosen: Mapping[str, Any], rng: np.random.Generator) -> tuple[dict, dict]:
        """Inputs and options of a case."""
        known = self.known(chosen)
        options = {option.name: known[option.name] for option in self.options}
        number = itertools.count()
        found: tuple[dict, dict] = {}, {}
        for place, arguments in zip(found, (self.inputs, self.arrays), strict=True):
            for argument in arguments:
                if chosen.get(argument.name, not argument.optional or argument.name in self.required):
                    place[argument.name] = self.array(argument, known, next(number), rng)
        if chosen["structure"] == "coincident":
            free = [argument for argument in self.inputs if self.shape_of(argument).kind not in SPREAD]
            coincide([found[0][argument.name] for argument in free if argument.name in found[0]])
        for mask in (argument for argument in self.arrays if argument.hides and argument.name in found[1]):
            for name, array in found[0].items():
                harm = harm_of(chosen[mask.name], name) if name in mask.hides else None
                if harm is not None:
                    written = self.shape_of(self.declaration.arguments[name])
                    seen = seen_of(written, mask.shapes[0], found[1][mask.name])
                    found[0][name] = np.where(seen, array, harm)
        changed = {n: option for n, option in options.items() if option != self.declaration.defaults.get(n)}
        return found[0], found[1] | changed

    def array(self, argument: Argument, known: Mapping[str, Any], i: int, rng: np.random.Generator) -> np.ndarray:
        """Numbers as an argument holds them, of the structure that was chosen."""
        written = self.shape_of(argument, known.get(argument.name))
        shape = written.lengths(known)
        if written.kind == "boolean":
            return mask_of(shape, known.get(argument.name, HIDDEN[0]), rng)
        if written.kind == "whole":
            count = max(known[written.below], 1) if written.below else 1000
            found = rng.integers(0, count, shape)
            found.flat[:1], found.flat[1:2] = 0, count - 1  # the first and the last place occur
            if known.get(written.excepted) is not None:
                found.flat[2::3] = known[written.excepted]
            return found
        if written.kind in SPREAD:
            spread = rng.uniform(*SPREAD[written.kind], shape)
            ends = ENDS.get(known["structure"], {}).get(written.kind)
            return spread if ends is None else np.where(rng.random(shape) < 0.5, spread, rng.choice(ends, shape))
        structure = (STRUCTURES | LAST).get(known["structure"], STRUCTURES["normal"])
        found = np.asarray(structure(rng.normal(size=shape), i))
        if written.kind == "square":
            found = well_conditioned(found)
            most = np.abs(found).max(-1, keepdims=True, initial=0)  # so that determinants are in range
            return found / most if shape[-1] > 1 else found
        if written.kind == "definite":
            return well_conditioned(found + found.mT)
        return well_conditioned(found) if written.kind == "triangular" else found


def well_conditioned(matrix: np.ndarray) -> np.ndarray:
    """With a diagonal as large as its row and its column together, and 1 where both are zeros.

    So L X = B is as exact by every method: random factors have inverses that grow exponentially with their size, and
    elimination that exchanges rows, which is right too, has other errors than substitution.
    """
    size = np.abs(matrix)
    both = size.sum(-1) + size.sum(-2)  # (..., N)
    return np.where(np.eye(matrix.shape[-1], dtype=bool), np.where(both > 0, both, 1)[..., None], matrix)


def coincide(arrays: Sequence[np.ndarray]) -> None:
    """Rows of the first array stand in the others that have such rows."""
    first, *others = [array for array in arrays if array.ndim > 1] or [np.zeros((1, 1))]
    for array in others:
        if (array.shape[:-2], array.shape[-1]) == (first.shape[:-2], first.shape[-1]):
            n = min(array.shape[-2], first.shape[-2])
            array[..., :n, :] = first[..., :n, :]


def tried(option: Option, declaration: Declaration) -> tuple:
    """The default of an option, and the values that are tried beside it; none for generators and functions."""
    default = (declaration.defaults[option.name],) if option.name in declaration.defaults else ()
    values = option.choices or TRIED.get(option.text.removesuffix("?"), ())
    if isinstance(option, Several):
        one = UNEQUAL.get(option.domain, ())
        values = (*one, *((PAIRS, TURNED) if option.pair else ()), *option.choices)
    return tuple(dict.fromkeys((*default, *values))) if values else ()


def mask_of(shape: tuple[int, ...], how: str, rng: np.random.Generator) -> np.ndarray:
    """True where something is seen; along the last axis, and in the second row nothing if "all are hidden from one"."""
    mask = np.asarray(rng.random(shape) < 0.7)
    if not shape:
        return mask
    if how not in HIDDEN:
        mask[..., :2], mask[..., -1] = False, True
    elif how == HIDDEN[1]:
        mask[..., :], mask[..., : max(shape[-1] // 2, 2)] = True, False  # past the first block, of a long row
    elif how == HIDDEN[2]:
        mask[..., :], mask[..., -max(shape[-1] // 3, 1) :] = True, False
    elif how == HIDDEN[3] and len(shape) > 1:
        mask[..., shape[-2] // 2, :] = False
    return mask


def harm_of(how: str, argument: str) -> float | None:
    """What is hidden in an argument; None for numbers as they are."""
    return np.nan if how == f"NaN is hidden in {argument}" else HARM.get(how)


def seen_of(written: Shape, of_mask: Shape, mask: np.ndarray) -> np.ndarray:
    """Where something is seen of an array of the written shape, under a mask: it broadcasts to the array."""
    if written.axes == of_mask.axes:
        return mask
    gone = tuple(i - len(of_mask.axes) for i, axis in enumerate(of_mask.axes) if axis not in written.axes)
    seen = np.asarray(mask.any(gone))
    behind = [i - len(written.axes) for i, axis in enumerate(written.axes) if axis not in of_mask.axes]
    return np.expand_dims(seen, behind)


def said_of(factor: Factor, i: int) -> str:
    """What is particular about a value; nothing about the first one."""
    value = factor.value(i)
    if i == 0:
        return ""
    if value is True:
        return factor.name
    if isinstance(value, str) and (" hidden" in value or value in STRUCTURES | LAST | ENDS):
        return value
    return f"{factor.name.lstrip('*')} = {value!r}" if factor.name != "..." else f"{value} in front"
