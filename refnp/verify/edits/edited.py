"""An edited page as an operation, and a page of which the edits of a table are made."""

import ast
import contextlib
import functools
import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd import primitive, vjp
from refnp.autograd.declaration import Declaration
from refnp.autograd.pages import along_axes, of_each_axis, plain
from refnp.layers.module import Module
from refnp.numbers.parts import with_parts
from refnp.verify.edits.mutant import Mutant, nonzero
from refnp.verify.edits.opened import Opened
from refnp.verify.edits.patterns import Rewriting, argument_of, stands_in
from refnp.verify.edits.traced import held, tensor_of, traced
from refnp.verify.judged_pages import Formula
from refnp.verify.layers.multi_head import bound

Form = Callable[..., tuple]
Methods = dict[type, dict[str, Callable]]  # those that are edited, by their class and name
Rewrite = tuple[str, str]  # what stands on the page, and what in its place
Line = tuple[Opened, ast.AST, ast.AST]  # a line of a function before and after all edits


def count_of(x: Any, axes: Any = -1) -> int:
    """How many numbers stand along an axis or several; all without one."""
    axes = range(x.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
    return math.prod(x.shape[axis] for axis in axes)


def without_last(x: Any) -> Any:
    """x with 0 in the last place of its rows."""
    return x * (np.arange(x.shape[-1]) < x.shape[-1] - 1)


NO_OWNERS: Mapping[Callable, type] = MappingProxyType({})
KNOWN_WORDS = {"held": held, "count_of": count_of, "without_last": without_last, "nonzero": nonzero, "ag": ag}


def is_operation(function: Callable) -> bool:
    """Whether a function is an operation, made of a page or of another rule."""
    return hasattr(function, "rule")


def form_of(operation: Callable, function: Callable) -> Callable:
    """A function in place of an operation's page, about the axes that it is asked for."""
    if not hasattr(operation, "page"):
        return function
    declaration: Declaration = operation.takes  # type: ignore[attr-defined]
    return along_axes(function) if declaration.moved else of_each_axis(function, declaration)


def on_tape(form: Form) -> Callable:
    """The value of an edited page, which the engine differentiates."""

    def function(*arrays: Any, **options: Any) -> Any:
        if all(isinstance(a, np.ndarray) and a.ndim for a in arrays):  # what has no axes becomes a Python number
            return form(*arrays, **options)[0]
        return tensor_of(form(*map(traced, arrays), **options)[0])

    return function


def with_its_vjp(form: Form) -> Callable:
    """An edited page with the VJP that stands on it."""

    @primitive
    def function(*arrays, **options):
        return form(*arrays, **options)

    return function


def with_its_derivative(form: Form) -> Form:
    """An edited page with the derivative of what it computes, which is computed when it is asked for."""

    def page(*arrays: Any, **options: Any) -> tuple:
        value = functools.partial(on_tape(form), **options)
        return form(*arrays, **options)[0], lambda *bars: vjp(value, *arrays)[1](*bars)

    return page


def edited_function(
    function: Callable,
    trees: Mapping[Callable, ast.FunctionDef],
    words: Mapping[str, Any],
    *,
    back: bool,
    pages: Iterable[Callable] = (),
    owners: Mapping[Callable, type] = NO_OWNERS,
) -> Callable:
    """A function, or an operation, with other trees for some of what it uses; with the VJPs that stand there if `back`.

    `pages` are operations that it uses through modules, and `owners` the classes of methods among the trees.
    """
    if isinstance(function, functools.partial):
        own = edited_function(function.func, trees, words, back=back)
        return functools.partial(own, *function.args, **function.keywords)
    if isinstance(function, Formula):
        return function.asked(edited_function(function.func, trees, words, back=back))
    opened, forms = Opened.of(function), {}
    if is_operation(function):
        form = form_of(function, opened.compiled(trees, words))
        return with_its_vjp(form) if back else on_tape(form)
    for page in dict.fromkeys((*pages, *(one.operation for one in opened.all() if one.operation))):
        if Opened.of(page).reaches(trees):
            form = form_of(page, Opened.of(page).compiled(trees, words))
            forms[page] = form if back else with_its_derivative(form)
    methods: Methods = {}
    for method, owner in owners.items():
        if method in trees:
            methods.setdefault(owner, {})[method.__name__] = Opened.of(method).compiled(trees, words)
    own = opened.compiled(trees, words) if opened.reaches(trees) else function
    return using(own, forms, methods) if forms or methods else own


def using(function: Callable, forms: Mapping[Callable, Form], methods: Methods) -> Callable:
    """A function that computes with other pages of some operations, and with modules of other methods."""
    parts = {operation.page: form for operation, form in forms.items()}  # type: ignore[attr-defined]
    own = with_parts(function, {**parts, bound: functools.partial(bound_with, methods)})

    def plainly(*arrays: Any, **options: Any) -> Any:
        with plain() if forms else contextlib.nullcontext():
            return own(*arrays, **options)

    return plainly


class EditedPage:
    """A function of which some edits of a table are made: template(*arrays, **edits, **options).

    It is an operation, whose page is edited, or one that uses such, and others that are called on the way are `pages`.
    Before the colon of "Residual: x + _y" stands a class, in whose methods it is looked for.
    """

    def __init__(self, operation: Callable, words: Mapping[str, Any], pages: tuple[Callable, ...] = ()):
        self.given = operation.keywords if isinstance(operation, functools.partial) else {}
        self.asked = operation.asked if isinstance(operation, Formula) else lambda function: function
        self.operation = operation.func if isinstance(operation, (functools.partial, Formula)) else operation
        self.words, self.pages = {**KNOWN_WORDS, **words}, pages
        self.made: dict[tuple[str, ...], Callable] = {}
        self.edits: dict[str, tuple[list[Rewrite], bool]] = {}
        self.owners: dict[Callable, type] = {}  # of methods that are edited
        self.places: dict[tuple[str, str], list[Opened]] = {}  # of patterns

    def __call__(self, *arrays: Any, **options: Any) -> Any:
        chosen = tuple(name for name in self.edits if name in options)
        given = {**self.given, **{name: value for name, value in options.items() if name not in chosen}}
        if chosen not in self.made:
            self.made[chosen] = self.function(chosen)
        return self.made[chosen](*arrays, **given)

    def function(self, chosen: tuple[str, ...]) -> Callable:
        """The page with these edits."""
        if not chosen:
            return self.asked(self.operation)
        trees, back = self.trees(chosen), all(self.edits[name][1] for name in chosen)
        own = edited_function(self.operation, trees, self.words, back=back, pages=self.pages, owners=self.owners)
        return self.asked(own)

    @functools.cached_property
    def functions(self) -> list[Opened]:
        """Where an edit may be, in the order in which its pattern is looked for."""
        return [one for function in (self.operation, *self.pages) for one in Opened.of(function).all()]

    def places_of(self, of_class: str, pattern: str) -> list[Opened]:
        """The functions in which something may be what a pattern stands for."""
        if (of_class, pattern) not in self.places:
            where = self.methods_of(of_class) if of_class else self.functions
            self.places[of_class, pattern] = [one for one in where if stands_in(pattern, one.tree)]
        return self.places[of_class, pattern]

    def methods_of(self, name: str) -> list[Opened]:
        """The methods of a class of refnp's, by its name."""
        owner = class_named(name)
        functions = [inspect.unwrap(m) for m in vars(owner).values() if inspect.isfunction(m)]
        found = [Opened.of(f) for f in functions if not f.__code__.co_freevars]
        self.owners |= {one.function: owner for one in found}
        return found

    def allows(self, chosen: tuple[str, ...]) -> bool:
        """Whether these edits can be made at once."""
        try:
            return len({self.edits[name][1] for name in chosen}) == 1 and bool(self.trees(chosen))
        except ValueError:
            return False

    def trees(self, chosen: tuple[str, ...]) -> dict[Callable, ast.FunctionDef]:
        """The functions of the page that are edited; ValueError for an edit of what does not stand there."""
        return self.trees_and_lines(chosen)[0]

    def trees_and_lines(self, chosen: tuple[str, ...]) -> tuple[dict[Callable, ast.FunctionDef], list[Line]]:
        """The same, and the lines that are others."""
        trees: dict[Callable, ast.FunctionDef] = {}
        lines: list[Line] = []
        for name in chosen:
            rewrites, of_pullback = self.edits[name]
            for pattern, form in rewrites:
                done = False
                of_class, pattern = class_and(pattern)
                for one in self.places_of(of_class, pattern):
                    edit = Rewriting(pattern, form, of_pullback=of_pullback)
                    tree = trees.get(one.function, one.tree)
                    tree = edit.of_argument(tree) if argument_of(pattern) else edit.of_function(tree)
                    if edit.lines:
                        trees[one.function], done = tree, True
                        before, after = edit.lines[0]
                        i = next((i for i, line in enumerate(lines) if line[2] is before), len(lines))
                        lines[i : i + 1] = [(one, lines[i][1] if i < len(lines) else before, after)]
                        if not of_class:
                            break
                if not done:
                    raise ValueError(f"{self.operation.__name__}: {name}: nothing on the page is {pattern}")
        return trees, lines


def line_of(mutant: Mutant) -> str:
    """Which line of a page is another in a mistake; "" where it is no edit of one."""
    if mutant.where or not isinstance(mutant.template, EditedPage):
        return mutant.where
    lines = mutant.template.trees_and_lines(tuple(mutant.switches))[1]
    words = (f"{one.file}:{one.line(old)}  {ast.unparse(old)} → {ast.unparse(new)}" for one, old, new in lines)
    return "; ".join(dict.fromkeys(words))


# ---- modules of which a method is another


def class_and(pattern: str) -> tuple[str, str]:
    """("Residual", "x + _y") of "Residual: x + _y", and ("", …) where there is no class."""
    found = re.fullmatch(r"([A-Z]\w+): (.*)", pattern)
    return (found[1], found[2]) if found else ("", pattern)


@functools.cache
def class_named(name: str) -> type:
    """A class of refnp's modules."""
    waiting = [Module]
    for one in waiting:
        if one.__name__ == name:
            return one
        waiting += one.__subclasses__()
    raise ValueError(f"no module of refnp is a {name}")


def bound_with(methods: Methods, module: Module, parameters: Any) -> Module:
    """A module with these parameters, and other methods in some of its parts."""
    found = bound(module, parameters)
    for one in modules_in(found):
        for owner, own in methods.items():
            if isinstance(one, owner):
                one.__class__ = type(type(one).__name__, (type(one),), dict(own))
    return found


def modules_in(value: Any) -> Iterator[Module]:
    """A module, and those that it is made of."""
    if isinstance(value, Module):
        yield value
        value = vars(value)
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from modules_in(part)
