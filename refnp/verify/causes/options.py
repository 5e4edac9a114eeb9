"""The layer's own options and arguments, at other values than were asked for.

An option that is a name is each of the others, also in place of one of them alone, one that is true is false, a number
is another one of those that are usual, a whole number one more or less; whatever is asked for, it is what it is unless
told. Two options, or two arguments of one shape, are exchanged. An argument is shifted or flipped, an index is another,
of an axis that is summed over some places are left out, and the axes of the output are laid out otherwise.
"""

import functools
import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.notation import DOMAINS, Option, is_boolean, is_number, is_whole
from refnp.verify.case import Layer
from refnp.verify.causes.answered import Answered
from refnp.verify.edits.mutant import Mutant, with_argument

SMALL = (0.0, 1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)  # ε of the field
SYMBOLS = {"eps": "ε", "alpha": "α", "delta": "δ"}
LEFT_OUT = object()
ALWAYS = ", whatever is asked for"
LAID_OUT: dict[str, Callable[[Any], Any]] = {
    "the last two axes of the output were exchanged": lambda y: ag.swapaxes(y, -1, -2),
    "the first two axes of the output were exchanged": lambda y: ag.swapaxes(y, 0, 1),
    "the output were in one row": lambda y: ag.reshape(y, -1),
    "axes of length 1 were left out of the output": ag.squeeze,
}
AXES: dict[str, Callable[[Any], Any]] = {
    f"it went along the last axis{ALWAYS}": lambda _: -1,
    "it went along the first axis": lambda _: 0,
    "it went over the whole array": lambda _: "all",
}


def of_outputs(layer: Layer, answered: Sequence[Answered]) -> Iterator[Mutant]:
    """The layer with an option at another value, two options exchanged, or two arguments."""
    defaults = defaults_of(layer)
    names = list(dict.fromkeys((*defaults, *(n for a in answered for n in a.problem.case.options))))
    for name in names:
        values = [a.problem.case.options.get(name, defaults.get(name)) for a in answered]
        for says, change in changes_of(layer, name, values, defaults.get(name, LEFT_OUT)):
            yield Mutant(says, with_option(layer, name, change))
    if any(isinstance(value, float) for value in defaults.values()):
        yield Mutant("options such as ε were rounded to float32", with_options(layer, through_float32))
    for one, other in itertools.combinations(names, 2):
        if any(one in a.problem.case.options and other in a.problem.case.options for a in answered):
            says = f"{one} and {other} were exchanged"
            yield Mutant(says, with_options(layer, functools.partial(exchanged, one, other)))
    yield from of_moved(layer, answered)
    yield from of_indices(layer)
    yield from of_axes(layer)
    arguments = list(answered[0].problem.arrays)
    for i, j in itertools.combinations(range(len(arguments)), 2):
        if all(same_shape(a, i, j) for a in answered):
            says = f"{arguments[i]} and {arguments[j]} were exchanged"
            yield Mutant(says, with_exchanged_arguments(layer, i, j))
    for says, lay_out in LAID_OUT.items():
        yield Mutant(says, lambda *arrays, of=lay_out, **given: of(layer.function(*arrays, **given)))


def defaults_of(layer: Layer) -> dict[str, Any]:
    """The options of a layer's function, and what they are unless told."""
    try:
        parameters = inspect.signature(layer.function).parameters.values()
    except ValueError:
        return {}
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is not p.empty}


def changes_of(layer: Layer, name: str, values: list[Any], default: Any) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """What an option might have been in place of its values: what it says, and the function from one to the other."""
    symbol, declared = SYMBOLS.get(name, name), getattr(layer.function, "takes", None)
    option: Option | None = declared.options.get(name) if declared is not None else None
    constant = lambda value: lambda _: value
    if name == "axis":
        yield from AXES.items()
        yield "it went over the whole array unless axis is given", lambda axis: "all" if equal(axis, default) else axis
        return
    always = [] if default is LEFT_OUT else [default]
    always += [flag for flag in (True, False) if any(map(is_boolean, values)) and default is not flag]
    for one in always:
        if any(not equal(value, one) for value in values):
            yield f"{symbol} were {brief(one)}{ALWAYS}", constant(one)
    if option is not None:
        for choice in option.choices:
            yield f"{symbol} were {choice!r}", constant(choice)
        for asked, choice in itertools.permutations(option.choices, 2):
            instead = lambda value, asked=asked, choice=choice: choice if equal(value, asked) else value
            yield f"{symbol} were {choice!r} where {asked!r} is asked for", instead
    if any(map(is_boolean, values)):
        yield f"{symbol} were the opposite", lambda value: not value if is_boolean(value) else value
    if any(is_whole(value) for value in values):
        for step, words in ((1, "one more"), (-1, "one less")):
            yield f"{symbol} were {words}, {symbol} {'+' if step > 0 else '−'} 1", shifted(step)
    elif any(is_number(value) for value in values) and (option is None or option.domain is DOMAINS["≥ 0"]):
        for small in SMALL:
            yield f"{symbol} were {brief(small)}", constant(small)
    if any(isinstance(value, tuple) for value in values):
        yield f"{symbol} were in the other order", lambda value: value[::-1] if isinstance(value, tuple) else value


def brief(value: Any) -> str:
    """1e-6, and not 1e-06; what is no float as it is written."""
    return f"{value:g}".replace("e-0", "e-") if isinstance(value, float) else repr(value)


def shifted(step: int) -> Callable[[Any], Any]:
    """A whole number one more or less; None stays."""
    return lambda value: value + step if is_whole(value) else value


def equal(value: Any, other: Any) -> bool:
    """Whether two values of an option are the same."""
    return bool(np.array_equal(value, other)) if value is not None and other is not None else value is other


def same_shape(a: Answered, i: int, j: int) -> bool:
    """Whether two arguments of a case have one shape."""
    arrays = list(a.problem.arrays.values())
    return j < len(arrays) and arrays[i].shape == arrays[j].shape


def with_options(layer: Layer, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable:
    """The layer's function with those options that `change` makes of all that it has, defaults among them."""
    defaults = defaults_of(layer)
    return lambda *arrays, **given: layer.function(*arrays, **{**given, **change({**defaults, **given})})


def through_float32(options: dict[str, Any]) -> dict[str, Any]:
    """Options, such as ε, that went through float32."""
    return {name: float(np.float32(value)) for name, value in options.items() if isinstance(value, float)}


def exchanged(one: str, other: str, options: dict[str, Any]) -> dict[str, Any]:
    """Two options, each with the value of the other."""
    return {one: options.get(other), other: options.get(one)}


def with_option(layer: Layer, name: str, change: Callable[[Any], Any]) -> Callable:
    """The layer's function with an option changed."""

    def changed(*arrays: Any, **given: Any) -> Any:
        of_all = lambda value: tuple(range(arrays[0].ndim)) if name == "axis" and value == "all" else value
        return with_options(layer, lambda o: {name: of_all(change(o.get(name)))})(*arrays, **given)

    return changed


def with_exchanged_arguments(layer: Layer, i: int, j: int) -> Callable:
    """The layer's function with two arguments exchanged."""

    def exchanged(*arrays: Any, **given: Any) -> Any:
        order = list(arrays)
        order[i], order[j] = order[j], order[i]
        return layer.function(*order, **given)

    return exchanged


MOVED: dict[str, Callable[[Any], Any]] = {
    "shifted by one place, the first come last": lambda x: ag.roll(x, -1, -1),
    "shifted by one place, the last come first": lambda x: ag.roll(x, 1, -1),
    "in reversed order": lambda x: ag.flip(x, -1),
}
INDEX: dict[str, Callable[[Any, int], Any]] = {
    "one more": lambda index, n: (index + 1) % n,
    "one less": lambda index, n: (index - 1) % n,
    "at most the last but one": lambda index, n: np.minimum(index, max(n - 2, 0)),
    "counted from the end": lambda index, n: n - 1 - index,
}
FIRST, BLOCKS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 32, 64, 100, 128, 256, 512, 1024), (2, 4, 8, 16, 32, 64, 128, 256)


def first(c: int, n: int) -> slice:
    """The first c of n places."""
    return slice(0, min(c, n))


def whole_blocks(b: int, n: int) -> slice:
    """The places of n that fill blocks of b; all where there are fewer."""
    return slice(0, n // b * b or n)


READ: dict[str, Callable[[int], slice]] = {
    "all but the last": lambda n: slice(0, max(n - 1, 1)),
    "all but the first": lambda n: slice(min(1, n - 1), n),
    **{f"the first {c}": functools.partial(first, c) for c in FIRST},
    **{f"whole blocks of {b}": functools.partial(whole_blocks, b) for b in BLOCKS},
}


def of_moved(layer: Layer, answered: Sequence[Answered]) -> Iterator[Mutant]:
    """The layer with an argument shifted or flipped along its last axis."""
    for i, (name, x) in enumerate(answered[0].problem.arrays.items()):
        for says, move in MOVED.items() if x.dtype.kind == "f" and x.ndim else ():
            yield Mutant(f"{name} were {says}", with_argument(layer.function, i, move))


def of_indices(layer: Layer) -> Iterator[Mutant]:
    """The layer with another index of the rows, or places, of an argument."""
    for name, argument in arguments_of(layer).items():
        for letter in {shape.below for shape in argument.shapes if shape.below}:
            for says, change in INDEX.items():
                function = functools.partial(with_index, layer, name, letter, change)
                yield Mutant(f"{name} were {says}", function)


def arguments_of(layer: Layer) -> dict[str, Any]:
    """What is declared of the arguments of a layer's function, by their names."""
    declared = getattr(layer.function, "takes", None)
    return {} if declared is None else declared.arguments


def given_to(layer: Layer, arrays: Sequence[Any], options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by their names, those that are given as options too."""
    names = list(inspect.signature(layer.function).parameters)
    declared = arguments_of(layer)
    return dict(zip(names, arrays, strict=False)) | {n: v for n, v in options.items() if n in declared}


def axis_of(argument: Any, value: Any, letter: str) -> int | None:
    """Which axis of an argument a letter is, counted from the end; None if it has none."""
    for shape in argument.shapes if value is not None else ():
        if letter in shape.axes and len(shape.axes) <= np.ndim(value):
            return int(shape.axes.index(letter) - len(shape.axes))
    return None


def with_index(layer: Layer, name: str, letter: str, change: Callable, *arrays: Any, **options: Any) -> Any:
    """The layer's function with an index changed, which is below the length of a letter's axis."""
    declared, given = arguments_of(layer), given_to(layer, arrays, options)
    lengths = [
        np.shape(v)[axis]
        for other, v in given.items()
        if other in declared and (axis := axis_of(declared[other], v, letter)) is not None
    ]
    given[name] = change(np.asarray(given[name]), lengths[0])
    return called(layer, given, len(arrays), options)


def called(layer: Layer, given: dict[str, Any], places: int, options: dict[str, Any]) -> Any:
    """The layer's function of arguments by their names, the first by their places."""
    named = {name: value for name, value in given.items() if name in options}
    return layer.function(*list(given.values())[:places], **{**options, **named})


def of_axes(layer: Layer) -> Iterator[Mutant]:
    """The layer of which along an axis that is summed over, and that no result has, some places alone are read."""
    declared = getattr(layer.function, "takes", None)
    if declared is None:
        return
    result = set(re.findall(r"\w+", declared.result))
    letters: dict[str, list[str]] = {}
    for name, argument in declared.arguments.items():
        for letter in dict.fromkeys(letter for shape in argument.shapes for letter in shape.axes):
            letters.setdefault(letter, []).append(name)
    for letter, names in letters.items():
        is_summed = letter.isidentifier() and letter not in result and len(names) > 1
        of = f"of the {letter} places of {' and '.join(names[:2])}"
        for says, read in READ.items() if is_summed else ():
            function = functools.partial(with_places, layer, letter, read)
            yield Mutant(f"{of} {says} alone were read", function)


def with_places(layer: Layer, letter: str, read: Callable[[int], slice], *arrays: Any, **options: Any) -> Any:
    """The layer's function of arguments of which along an axis some places alone are left."""
    declared, given = arguments_of(layer), given_to(layer, arrays, options)
    for name, value in given.items():
        axis = axis_of(declared[name], value, letter) if name in declared else None
        n = 1 if axis is None else np.shape(value)[axis]
        if n > 1:
            given[name] = value[(..., read(n), *(slice(None),) * (-1 - (axis or 0)))]
    return called(layer, given, len(arrays), options)
