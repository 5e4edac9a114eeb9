"""A function as syntax: its source and that of every page, part and word that it uses, and any of them compiled again.

opened = Opened.of(layer_norm)                       the page, and `standardized`, which it uses
opened.compiled({standardized: tree})                the page that uses another `standardized`
"""

import ast
import functools
import inspect
import pathlib
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from refnp import autograd
from refnp.numbers import words

OPENED_WORDS = ("shares",)  # what has lines of its own to be wrong in
COMPILED = 256  # functions whose code is kept: all that a page uses, and an edit of one
OPENED = ("refnp.layers", "refnp.models", "refnp.autograd", "refnp.training.steps", "refnp.verify.layers")


class Opened:
    """A function of a page, with those that it uses by the names it has for them."""

    def __init__(self, function: Callable, above: tuple[Callable, ...] = ()):
        self.operation = function if hasattr(function, "page") else None
        self.function = inspect.unwrap(getattr(function, "page", function))
        self.name, self.path = self.function.__name__, inspect.getfile(self.function)
        lines, self.first = inspect.getsourcelines(self.function)
        self.file = pathlib.Path(self.path).name
        (tree,) = ast.parse(textwrap.dedent("".join(lines))).body
        assert isinstance(tree, ast.FunctionDef)
        tree.decorator_list = []
        tree = with_pullback(tree)
        tree.body = tree.body[ast.get_docstring(tree, clean=False) is not None :]
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                node.operation = operation_of(self.function, node)  # type: ignore[attr-defined]
        self.tree = tree
        above = (*above, self.function)
        self.used = {name: Opened(of, above) for name, of in used_by(self.function, tree, above)}

    @classmethod
    @functools.cache
    def of(cls, function: Callable) -> "Opened":
        """The page of an operation, or a function that uses such."""
        return cls(function)

    def only_back(self) -> set[Callable]:
        """The functions that the VJP alone uses."""
        forward: set[Callable] = set()
        waiting = [self]
        while waiting:
            one = waiting.pop()
            if one.function not in forward:
                forward.add(one.function)
                inner = [node for node in ast.walk(one.tree) if node is not one.tree and is_pullback(node)]
                back = {id(node) for each in inner for node in ast.walk(each)}
                names = {ast.unparse(n) for n in ast.walk(one.tree) if is_name(n) and id(n) not in back}
                waiting += [used for name, used in one.used.items() if name in names]
        return {one.function for one in self.all()} - forward

    def line(self, node: ast.AST) -> int:
        """The line of its file in which a piece of it stands."""
        return self.first + node.lineno - 1  # type: ignore[attr-defined]

    def reaches(self, functions: Mapping[Callable, Any]) -> bool:
        """Whether one of these functions is this, or is used by it."""
        return not self.reached.isdisjoint(functions)

    @functools.cached_property
    def reached(self) -> frozenset[Callable]:
        """This function, and all that it uses, as they are written."""
        return frozenset(one.function for one in self.all())

    def all(self) -> Iterator["Opened"]:
        """This function, and all that it uses, each once."""
        seen: dict[Callable, Opened] = {}
        waiting = [self]
        while waiting:
            one = waiting.pop(0)
            if seen.setdefault(one.function, one) is one:
                yield one
                waiting += one.used.values()

    def compiled(self, trees: Mapping[Callable, ast.FunctionDef], words: Mapping[str, Any]) -> Callable:
        """The function with other trees for some of those that it uses; `words` are what these may also say."""
        closed = inspect.getclosurevars(self.function).nonlocals if self.function.__closure__ else {}
        scope = {**self.function.__globals__, **closed, **words}
        for name, one in self.used.items():
            if one.reaches(trees):
                built = one.compiled(trees, words)
                module, dot, own = name.rpartition(".")
                known = valued(self.function, name)
                value: Any = WithPage(known, built) if hasattr(known, "page") else built
                scope[module or own] = Beside(scope[module], {own: value}) if dot else value
        tree = trees.get(self.function, self.tree)
        exec(code_of(tree, self.file), scope)  # its own source, or an edit of it
        return scope[self.name]


def is_pullback(node: ast.AST) -> bool:
    """Whether a function within a page is given gradients: vjp(y_bar)."""
    if not isinstance(node, ast.FunctionDef):
        return False
    names = [a.arg for a in (*node.args.args, *filter(None, [node.args.vararg]))]
    return bool(names) and names[0].endswith(("bar", "bars"))


def with_pullback(tree: ast.FunctionDef) -> ast.FunctionDef:
    """A function whose last line is `return y, vjp` where it was `return y, lambda y_bar: …`."""
    value = getattr(tree.body[-1], "value", None)
    if not (isinstance(value, ast.Tuple) and isinstance(value.elts[-1], ast.Lambda)):
        return tree
    back, last = value.elts[-1], tree.body[-1]
    walk_back: ast.stmt = ast.FunctionDef("vjp", back.args, [ast.Return(back.body)], [])
    outcome = ast.Return(ast.Tuple([*value.elts[:-1], ast.Name("vjp", ast.Load())], ast.Load()))
    new = [ast.fix_missing_locations(ast.copy_location(one, last)) for one in (walk_back, outcome)]
    for node in ast.walk(walk_back):
        if hasattr(node, "lineno"):
            node.lineno, node.end_lineno = last.lineno, last.end_lineno  # type: ignore[attr-defined]
    tree.body[-1:] = new
    return tree


@functools.lru_cache(maxsize=COMPILED)
def code_of(tree: ast.FunctionDef, file: str) -> Any:
    """A function as code. Of an edit that indexes a number, say, Python warns; that it raises is what is found out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        return compile(ast.Module([tree], []), file, "exec")


class WithPage:
    """An operation of which another page is used by others; called by itself it has its own."""

    def __init__(self, operation: Callable, page: Callable):
        self.operation, self.page = operation, page

    def __call__(self, *arrays: Any, **options: Any) -> Any:
        return self.operation(*arrays, **options)


class Beside:
    """A module in which some names are others."""

    def __init__(self, module: Any, others: dict[str, Any]):
        self.__dict__.update(others)
        self.module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)


def valued(function: Callable, name: str) -> Any:
    """What a name, or a name of a module of refnp's, is in a function; None where it is unknown."""
    module, _, own = name.rpartition(".")
    value = function.__globals__.get(module or own)
    return getattr(value, own, None) if module and inspect.ismodule(value) else None if module else value


def used_by(function: Callable, tree: ast.AST, above: tuple[Callable, ...]) -> Iterator[tuple[str, Callable]]:
    """The pages, parts and words that a function uses, by the names it has for them, but for those that use it."""
    for name in dict.fromkeys(ast.unparse(node) for node in ast.walk(tree) if is_name(node)):
        value: Any = valued(function, name)
        if not (hasattr(value, "page") or is_part(value)):
            continue
        if inspect.unwrap(getattr(value, "page", value)) not in above:
            yield name, value


def operation_of(function: Callable, node: ast.Call) -> str:
    """The name of what is called, if it is NumPy's, an operation of the engine or a word: "exp"; else nothing."""
    name = ast.unparse(node.func)
    value, short = valued(function, name), name.rpartition(".")[-1]
    known = (getattr(module, short, None) for module in (np, autograd, words))
    return short if value is not None and any(one is value for one in known) else ""


def is_name(node: ast.AST) -> bool:
    """Whether it is a name, or one of a module: layers.attention."""
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name))


def is_part(value: Any) -> bool:
    """Whether a value is a part of refnp's pages, or a word with lines of its own."""
    if not inspect.isfunction(value) or not value.__module__.startswith("refnp."):
        return False
    in_words = value.__module__ == "refnp.numbers.words"
    return value.__name__ in OPENED_WORDS if in_words else value.__module__.startswith(OPENED)
