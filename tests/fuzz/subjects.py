"""What is called: every public name of the chapters, with its row, or with what is known of its arguments' names."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import numpy as np

import gradcheck
from refnp import autograd, layers, models, symmetry
from refnp.autograd.primitives import raw
from refnp.layers import Module, masks
from tests.fuzz.calls import Call, Fresh
from tests.fuzz.drawing import NOT_NUMBERS, Draw
from tests.fuzz.shapes import Shape

FINDS = 40  # draws, until arguments are what they need of each other
CHAPTERS: tuple[ModuleType, ...] = (autograd, layers, masks, models, gradcheck, symmetry)


@dataclass(frozen=True)
class Row:
    """How a function is called.

    shapes: of its arrays; others: those that an array may have instead. whole: arrays of which
        one has all axes in front. moved: the array whose last axes stand at `axis`. returns: the shape of the result.
    kinds: what the arrays hold, "number" or by name if not given.
    options: what an option may be: values to choose from, or a function of the Draw. numbers: those that are arrays of
        numbers, or lists of them. least: of letters. masks: what each hides, by the letters if not given.
    result: the shape of the result as a function of the arguments, where no letters say it.
    call: what is called, if not the name itself.
    bits: False where a matrix product may round differently in another memory layout.
    dtype: False where the result need not have the precision of the arguments.
    finite: False where ordinary numbers may have no value, or no slope. gradient: False where there are none to check.
    types: False where wrong types are those of another function, which is called with them.
    names: other names by which its messages may call it. raises: exceptions, besides TypeError and ValueError, that its
        documentation has.
    often: how often it is drawn.
    """

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    least: Mapping[str, int] = field(default_factory=dict)
    masks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    result: Callable[[dict[str, Any]], tuple[int, ...]] | None = None
    call: Callable[..., Any] | None = None
    bits: bool = True
    dtype: bool = True
    finite: bool = True
    gradient: bool = True
    types: bool = True
    names: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    raises: tuple[type[Exception], ...] = ()
    often: float = 1.0
    others: Mapping[str, tuple[Shape, ...]] = field(default_factory=dict)
    whole: tuple[str, ...] = ()
    moved: str = ""
    returns: Shape | None = None


class Unknown(KeyError):
    """A public name of which too little is known to call it; the message says what to add."""


class Subject:
    """One thing to call: a function, a method, or a module that is made and called."""

    def __init__(self, name: str, home: str, target: Callable, row: Row):
        self.name, self.home, self.row, self.target = name, home, row, target
        self.shapes, self.result = {**row.shapes}, row.returns
        self.masks = row.masks or {
            mask: tuple(
                name for name, shape in self.shapes.items() if _covers(self.shapes[mask], shape) and name != mask
            )
            for mask in self.shapes
            if self.kind(mask) == "mask"
        }

    def kind(self, name: str) -> str:
        """What an argument holds."""
        return self.row.kinds.get(name, "number")

    def is_number(self, name: str) -> bool:
        """Whether an argument is an array of numbers to compute with."""
        kind = self.kind(name)
        return (name in self.shapes and kind not in NOT_NUMBERS and kind[0] != "<") or name in self.row.numbers

    def is_array(self, name: str) -> bool:
        """Whether an argument is an array, of numbers or of anything else."""
        return name in self.shapes or name in self.row.numbers

    def required(self) -> set[str]:
        """The arguments that cannot be left out."""
        optional = {name for name, shape in self.shapes.items() if shape.optional}
        return ({*self.shapes} - optional) | {name for name in self.row.options if not name.endswith("?")}

    def draw(self, rng: np.random.Generator, front: int | None = None) -> Call:
        """A call with valid inputs, or nearly so; what arguments need of each other mostly holds."""
        declared = getattr(self.target, "takes", None)
        call = self.drawn(rng, front)
        for _ in range(FINDS if getattr(declared, "needs", ()) and self.row.call is None else 0):
            with contextlib.suppress(TypeError, ValueError):
                declared.check(call.arguments)
                break
            call = self.drawn(rng, front)
        return call

    def drawn(self, rng: np.random.Generator, front: int | None = None) -> Call:
        """A call whose lengths and options are those of its letters."""
        draw = Draw(rng, dict(self.row.least), front)
        shapes: dict[str, Shape] = {}
        after = {name for name, of in self.row.options.items() if inspect.isfunction(of)}  # which look at arrays
        declared = {name: of for name, of in self.row.options.items() if name not in after}
        options = {name: self.option(name, of, draw) for name, of in declared.items()}
        full = draw.of(self.row.whole) if self.row.whole else ""
        for name, shape in self.shapes.items():
            if not (shape.optional and draw.chance(0.5)):
                written = draw.of((shape, shape, *self.row.others.get(name, ())))
                shapes[name] = draw.expanded(replace(written, front="*") if name == full else written)
                draw.arguments[name] = draw.array(self.kind(name), shapes[name])
        if self.row.moved:
            draw.arguments |= moved(self.row.moved, draw)
        draw.arguments |= {name.rstrip("?"): value for name, value in options.items() if value is not Ellipsis}
        for name, of in self.row.options.items():
            if name in after and (value := self.option(name, of, draw)) is not Ellipsis:
                draw.arguments[name.rstrip("?")] = value
        result = None if self.result is None else draw.expanded(self.result)
        for letter in result.letters if result else ():
            draw.length(letter)
        return Call(self, draw.arguments, {}, shapes, draw.lengths, result=result)

    def option(self, name: str, of: Any, draw: Draw) -> Any:
        """What an option is; ... where it is left at its default."""
        plain = name.strip(".?")
        if name.endswith("?") and draw.chance(0.5):
            of_class = name[0] == "." and self.row.call is None
            parameters = inspect.signature(self.target.__init__ if of_class else self.target).parameters  # type: ignore[misc]
            if plain in parameters:
                draw.known[plain] = parameters[plain].default
            return ...
        draw.known[plain] = value = of(draw) if callable(of) else draw.of(of)
        return value

    def made(self, arguments: Mapping[str, Any]) -> tuple[Callable, dict[str, np.ndarray]]:
        """What is called, with its parameters in the precision of the arguments: the function itself, or a module."""
        if not inspect.isclass(self.target) or self.row.call is not None:
            return self.row.call or self.target, {}
        module = self.target(**{name[1:]: fresh(value) for name, value in arguments.items() if name.startswith(".")})
        if not isinstance(module, Module):
            return module, {}
        floats = [np.asarray(raw(a)).dtype for a in arguments.values() if isinstance(a, (np.ndarray, autograd.Tensor))]
        if floats := [dtype for dtype in floats if dtype.kind in "fc"]:
            module.astype(np.result_type(*floats))
        return module, module.state_dict()

    def __call__(self, arguments: Mapping[str, Any], parameters: Mapping[str, Any] | None = None) -> Any:
        """The result for these arguments, with other values of a module's parameters if they are given."""
        thing, own = self.made({name: raw(value) for name, value in arguments.items()} if parameters else arguments)
        if own and parameters:
            thing = thing.bind(parameters)
        given = {name: fresh(value) for name, value in arguments.items() if not name.startswith(".") or self.row.call}
        return thing(**{name.lstrip("."): value for name, value in given.items()})


def fresh(value: Any) -> Any:
    return value.make() if isinstance(value, Fresh) else value


def moved(name: str, draw: Draw) -> dict[str, Any]:
    """The array with the last axes, those of its run, at other places, and where these are; now and then as it is."""
    x = draw.arguments[name]
    count = draw.ranks.popitem()[1]
    if count == 1 and draw.chance(0.5):
        return {}
    axes = tuple(int(i) - x.ndim * draw.chance(0.5) for i in draw.rng.permutation(x.ndim)[:count])
    return {name: np.moveaxis(x, range(-count, 0), axes), "axis": axes if count > 1 else axes[0]}


def _covers(mask: Shape, shape: Shape) -> bool:
    """Whether what a mask hides is hidden in an argument: it has the mask's last letter, or neither has any."""
    return mask.letters[-1] in shape.letters if mask.letters else not shape.letters and bool(shape.front)


def row_of(name: str, target: Callable) -> Row:
    """The row of a name: what it declares, with what rows.py has in its place; Unknown if there is neither."""
    from tests.fuzz import declarations
    from tests.fuzz.rows import ROWS

    row = declarations.changed(declarations.row_of(target), ROWS.get(name, {}))
    if row is None:
        raise Unknown(
            f"{name} does not declare what it takes: write so (refnp/autograd/declaration.py), add a row to ROWS of "
            "tests/fuzz/rows.py, or to WITHOUT why it is not called"
        )
    return row


@functools.cache
def subjects() -> dict[str, Subject]:
    """All that is called, by name; what is not known how to call is left out, and named by `unknown`."""
    found = {}
    for name, home, target in public():
        with contextlib.suppress(Unknown):
            found[name] = Subject(name, home, target, row_of(name, target))
    return found


def unknown() -> list[str]:
    """What to add for the public names that are not known how to call."""
    found = []
    for name, _, target in public():
        try:
            row_of(name, target)
        except Unknown as lacking:
            found.append(str(lacking))
    return found


def public() -> list[tuple[str, str, Callable]]:
    """(name, module it is imported from, thing) of all that is public, without what WITHOUT has a reason for."""
    from tests.fuzz.rows import METHODS, WITHOUT

    found = []
    for chapter in CHAPTERS:
        for name in chapter.__all__:
            thing = getattr(chapter, name)
            if callable(thing) and name not in WITHOUT:
                found.append((name, chapter.__name__, thing))
    known = {name for name, _, _ in found}
    return found + [(name, home, target) for name, (home, target) in METHODS.items() if name not in known]
