"""Rows that follow from what functions declare that they take: shapes, what arrays hold, options, masks."""

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from typing import Any

import numpy as np

from refnp.autograd.declaration import GIVEN, Declaration
from refnp.autograd.notation import DOMAINS, Argument, Option, Several
from refnp.autograd.notation import Shape as Written
from refnp.layers import gelu, relu
from refnp.layers.set_convolution import eq, matern_32, matern_52
from tests.fuzz.calls import Fresh
from tests.fuzz.drawing import Draw
from tests.fuzz.shapes import shape
from tests.fuzz.subjects import Row

HOLDS = {  # what an array holds: a kind of drawing.py
    "boolean": "mask",
    "floating": "floating",
    "whole": "place",
    "real": "constant",
    "nonnegative": "positive",
    "weights": "constant",
    "positive": "positive",
    "nonzero": "nonzero",
    "probability": "fraction",
    "triangular": "factor",
    "square": "definite",
    "definite": "definite",
}
VALUES = {
    "number": (1.0, 0.5, -2),
    "finite": (1, 0.5, 2.0),
    "positive": (1.0, 0.5, 2, 30.0),
    "≥ 0": (1e-5, 0.0, 1.0),
    "≥ 1": (10000, 2.5),
    "in [0, 1)": (0.0, 0.1, 0.5),
    "in [0, 1]": (0.1, 0.0, 1.0),
    "whole": (0, 1, -1, 5),
    "whole ≥ 0": (0, 1, 1, 3),
    "whole ≥ 1": (1, 1, 2, 3),
    "odd": (1, 3),
    "even": (2, 4),
    "1 or 2": (1, 2),
    "True or False": (False, True),
}
FUNCTIONS = {"kernel": (eq, matern_32, matern_52), "activation": (relu, gelu)}


def axis(draw: Draw) -> int:
    """An axis of the first argument, from the front or from the end."""
    n = max(np.ndim(next(iter(draw.arguments.values()), 0)), 1)
    return int(draw.rng.integers(-n, n))


def some_axes(draw: Draw) -> int | tuple[int, ...] | None:
    """An axis, several, or None for all."""
    n = np.ndim(next(iter(draw.arguments.values()), 0))
    several = tuple(int(a) for a in draw.rng.permutation(n)[: int(draw.rng.integers(n + 1))])
    return draw.of([None, several, axis(draw) if n else None])


OF_ARRAYS = {"an axis": axis, "axes": some_axes}  # options that are drawn behind the arrays


def reduced(arguments: Mapping[str, Any]) -> tuple[int, ...]:
    """The shape that NumPy's sum gives."""
    keepdims = arguments.get("keepdims", False)
    return np.sum(np.zeros(np.shape(arguments["x"])), arguments.get("axis"), keepdims=keepdims).shape


def generator(draw: Draw) -> Fresh:
    """A generator, made anew for each call."""
    seed = int(draw.rng.integers(10))
    return Fresh(lambda: np.random.default_rng(seed), f"np.random.default_rng({seed})")


def value_of(option: Option, draw: Draw) -> Any:
    """What an option may be: None, one of its names, a number of its domain, or several where there may be."""
    if option.domain is DOMAINS["generator"]:
        return generator(draw)
    if option.domain is DOMAINS["function"]:
        return draw.of(FUNCTIONS[option.name])
    if option.optional and draw.chance(0.3):
        return None
    if option.choices and (not isinstance(option, Several) or draw.chance(0.3)):
        return draw.of(option.choices)
    (domain,) = [name for name, domain in DOMAINS.items() if domain is option.domain]
    factor = draw.known.get(option.factor or "") or 1
    one = lambda: draw.of(VALUES[domain]) * factor if factor > 1 else draw.of(VALUES[domain])
    if not isinstance(option, Several) or (option.each and draw.chance(0.5)) or (option.each and not option.along):
        return one()
    if not option.each:
        count = option.least + int(draw.rng.integers(2))
    else:
        count = draw.rank(option.run) if option.run else len(draw.known[option.along])
    several = [(one(), one()) if option.pair and draw.chance(0.3) else one() for _ in range(count)]
    return tuple(None if option.gap and draw.chance(0.2) else value for value in several)


def row_of(target: Callable) -> Row | None:
    """The row of a function that declares what it takes, or of a class whose constructor and call do, or None."""
    is_class = inspect.isclass(target)
    made = getattr(target.__init__, "takes", None) if is_class else None  # type: ignore[misc]
    called = getattr(target.__call__ if is_class else target, "takes", None)
    if not isinstance(called, Declaration) or (is_class and made is None):
        return None
    options = {f".{name}": option for name, option in options_of(made).items()} if made else {}
    row = of_arguments(called.arguments, called.result, {*called.options, *(made.options if made else ())})
    if called.moved:  # the axes of the result are where those of the array are
        row = replace(row, result=lambda arguments: np.shape(arguments[called.moved]), returns=None)
    if "keepdims" in called.options:
        row = replace(row, result=reduced)
    raises = (IndexError,) if "IndexError" in (inspect.getdoc(target) or "") else ()
    return replace(
        row, options=options | options_of(called), moved=called.moved, raises=raises, bits=exact(called, made)
    )


def changed(declared: Row | None, given: Row | Mapping[str, Any]) -> Row | None:
    """The row that is given, or the one that is declared, with what is given in place of its own."""
    if isinstance(given, Row) or declared is None:
        return given if isinstance(given, Row) else None
    options = given.get("options", {})
    kept = {n: of for n, of in declared.options.items() if n.rstrip("?") not in {c.rstrip("?") for c in options}}
    return replace(declared, **{**given, "options": options | kept})


def options_of(declaration: Declaration) -> dict[str, Any]:
    """How each option is drawn, those last that are multiples of others."""
    options = sorted(
        declaration.options.values(), key=lambda option: bool(option.factor or getattr(option, "along", ""))
    )
    optional = declaration.defaults
    of = lambda o: OF_ARRAYS.get(o.text.removesuffix("?")) or functools.partial(value_of, o)
    return {f"{o.name}{'?' * (o.name in optional)}": of(o) for o in options}


def of_text(text: str, **more: Any) -> Row:
    """A row whose shapes are written as in declarations."""
    given, _, result = text.partition("→")
    found = of_arguments({name: Argument.of(name, of) for name, of in GIVEN.findall(given)}, result.strip())
    return replace(found, **more)


def of_arguments(arguments: dict[str, Argument], result: str, options: Set[str] = frozenset()) -> Row:
    """The shapes of arguments, what they hold, and the shape of the result where the letters of arguments say it."""
    firsts = {name: argument.shapes[0] for name, argument in arguments.items()}
    others = {name: [s for s in a.shapes[1:] if s.kind == firsts[name].kind] for name, a in arguments.items()}
    alike = [name for name, written in firsts.items() if written.broadcast and written.axes == (written.run,)]
    factors = {factor for written in firsts.values() for axis in written.axes for factor in (axis, *axis.split("·"))}
    known = {letter.lstrip("*") for letter in {*factors, *options, "1"}}
    wanted = shape(result[1:-1]) if re.fullmatch(r"\([^()]*\)", result) else None
    if wanted and (any(others.values()) or not {letter.lstrip("*") for letter in wanted.letters} <= known):
        wanted = None
    return Row(
        {name: drawn_as(written, arguments[name].optional) for name, written in firsts.items()},
        kinds={n: f"< {w.below}" if w.below else HOLDS.get(w.kind, "number") for n, w in firsts.items()},
        least={w.below: 1 for w in firsts.values() if w.below}
        | {a: n for w in firsts.values() for a, n in w.least.items()},
        masks={name: argument.hides for name, argument in arguments.items() if argument.hides},
        others={name: tuple(drawn_as(s, arguments[name].optional) for s in more) for name, more in others.items()},
        whole=tuple(name for name in alike if firsts[name].kind != "boolean"),
        returns=wanted,
    )


def drawn_as(written: Written, optional: bool) -> Any:
    """A shape as the fuzzer draws it: all axes of what broadcasts to a run are axes in front."""
    if written.broadcast and written.axes == (written.run,):
        return shape("...", optional)
    return shape(", ".join(("...",) * written.batch + written.axes), optional)


def exact(called: Declaration, made: Declaration | None) -> bool:
    """Whether the same bits come in every memory layout: no letter is summed over, and nothing is solved."""
    written = [argument.shapes[0] for argument in called.arguments.values()]
    if any(one.kind in ("triangular", "square", "definite") for one in written):
        return False
    axes = [factor for one in written for axis in one.axes for factor in axis.split("·") if axis[0] != "*"]
    kept = re.findall(r"\w+", called.result)
    return not any((made or axes.count(axis) > 1) and axis not in kept for axis in axes)
