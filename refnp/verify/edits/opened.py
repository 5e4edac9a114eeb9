"""A page as syntax: its source and that of every page, part and word that it uses, and any of them compiled again.

opened = Opened.of(layer_norm)                       the page, and `standardized`, which it uses
opened.compiled({standardized: tree})                the page that uses another `standardized`
"""

import ast
import functools
import inspect
import pathlib
import textwrap
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

OPENED_WORDS = ("shares",)  # what has lines of its own to be wrong in


class Opened:
    """A function of a page, with those that it uses by the names it has for them."""

    def __init__(self, function: Callable, path: tuple[str, ...] = ()):
        self.function = inspect.unwrap(function)
        self.name, self.path = self.function.__name__, (*path, self.function.__name__)
        lines, self.first = inspect.getsourcelines(self.function)
        self.file = pathlib.Path(inspect.getfile(self.function)).name
        (tree,) = ast.parse(textwrap.dedent("".join(lines))).body
        assert isinstance(tree, ast.FunctionDef)
        tree.decorator_list = []
        self.tree = tree
        self.used = {name: Opened(of, self.path) for name, of in used_by(self.function, tree, self.path)}

    @classmethod
    @functools.cache
    def of(cls, operation: Callable) -> "Opened":
        """The page of an operation."""
        return cls(operation.page)  # type: ignore[attr-defined]

    def only_back(self) -> set[Callable]:
        """The functions that the VJP alone uses."""
        forward: set[Callable] = set()
        waiting = [self]
        while waiting:
            one = waiting.pop()
            if one.function not in forward:
                forward.add(one.function)
                inner = [
                    node for node in ast.walk(one.tree) if isinstance(node, ast.FunctionDef) and node is not one.tree
                ]
                back = {id(node) for each in inner for node in ast.walk(each)}
                names = {n.id for n in ast.walk(one.tree) if isinstance(n, ast.Name) and id(n) not in back}
                waiting += [used for name, used in one.used.items() if name in names]
        return {one.function for one in self.all()} - forward

    def line(self, node: ast.AST) -> int:
        """The line of its file in which a piece of it stands."""
        return self.first + node.lineno - 1  # type: ignore[attr-defined]

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
        scope = {**self.function.__globals__, **words}
        for name, one in self.used.items():
            if any(each.function in trees for each in one.all()):
                built = one.compiled(trees, words)
                is_page = hasattr(self.function.__globals__[name], "page")
                scope[name] = SimpleNamespace(page=built) if is_page else built
        tree = trees.get(self.function, self.tree)
        exec(code_of(tree, self.file), scope)  # its own source, or an edit of it
        return scope[self.name]


def code_of(tree: ast.FunctionDef, file: str) -> Any:
    """A function as code."""
    return compile(ast.fix_missing_locations(ast.Module([tree], [])), file, "exec")


def used_by(function: Callable, tree: ast.AST, path: tuple[str, ...]) -> Iterator[tuple[str, Callable]]:
    """The pages, parts and words that a function uses, by the names it has for them."""
    for name in dict.fromkeys(node.id for node in ast.walk(tree) if isinstance(node, ast.Name)):
        value: Any = function.__globals__.get(name)
        if hasattr(value, "page"):
            value = value.page
        elif not is_part(value):
            continue
        if inspect.unwrap(value).__name__ not in path:
            yield name, value


def is_part(value: Any) -> bool:
    """Whether a value is a part of refnp's pages, or a word with lines of its own."""
    if not inspect.isfunction(value) or not value.__module__.startswith("refnp."):
        return False
    in_words = value.__module__ == "refnp.numbers.words"
    return (
        value.__name__ in OPENED_WORDS if in_words else value.__module__.startswith(("refnp.layers", "refnp.autograd"))
    )
