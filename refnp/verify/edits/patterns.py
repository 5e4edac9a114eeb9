"""An expression in place of another, as a table of known mistakes writes it: np.sqrt(_v), where _v is anything.

"mask =" stands for an argument, of which the form is made before anything is computed.
"""

import ast
import copy
import functools
import re
from collections.abc import Callable
from typing import Any

from refnp.verify.edits.opened import is_pullback


@functools.cache
def expression(text: str) -> ast.expr:
    """A pattern or a form as syntax, which is shared and stays as it is."""
    return ast.parse(text, mode="eval").body


def rewritten(node: ast.AST, pattern: str, form: str) -> ast.expr | None:
    """What a form makes of an expression that a pattern fits, in which _x is anything; None if it does not fit."""
    found: dict[str, ast.AST] = {}
    if not fits(expression(pattern), node, found):
        return None
    return changed(expression(form), lambda part: found.get(part.id) if isinstance(part, ast.Name) else None)


def changed(node: Any, change: Callable[[Any], Any]) -> Any:
    """A piece of syntax in which what is changed, where that is not None, is another; what stays is shared."""
    new = change(node)
    if new is not None:
        return new
    found = node
    for field, value in ast.iter_fields(node):
        if isinstance(value, list):
            parts = [changed(one, change) if isinstance(one, ast.AST) else one for one in value]
            same = all(one is part for one, part in zip(value, parts, strict=True))
        elif isinstance(value, ast.AST):
            parts = changed(value, change)
            same = parts is value
        else:
            continue
        if not same:
            found = copy.copy(node) if found is node else found
            setattr(found, field, parts)
    return found


def fits(pattern: ast.AST, node: ast.AST, found: dict[str, ast.AST]) -> bool:
    """Whether an expression is that of a pattern; what its letters stand for is written down."""
    if isinstance(pattern, ast.Name) and re.fullmatch("_[a-z]{1,3}", pattern.id):
        known = found.setdefault(pattern.id, node)
        return ast.dump(known) == ast.dump(node)
    if type(pattern) is not type(node):
        return False
    for field, value in ast.iter_fields(pattern):
        other = getattr(node, field)
        if field == "ctx" or field == "kind":
            continue
        if isinstance(value, list):
            if len(value) != len(other) or not all(fits(a, b, found) for a, b in zip(value, other, strict=True)):
                return False
        elif isinstance(value, ast.AST):
            if not isinstance(other, ast.AST) or not fits(value, other, found):
                return False
        elif value != other:
            return False
    return True


def argument_of(pattern: str) -> str:
    """The argument "mask" that the pattern "mask =" stands for; "" for an expression."""
    return pattern.removesuffix(" =") if pattern.endswith(" =") else ""


def stands_in(pattern: str, tree: ast.FunctionDef) -> bool:
    """Whether a function has what a pattern stands for."""
    if name := argument_of(pattern):
        return name in (a.arg for a in ast.walk(tree.args) if isinstance(a, ast.arg))
    return any(fits(expression(pattern), node, {}) for node in ast.walk(tree) if isinstance(node, ast.expr))


class Rewriting:
    """Every expression that a pattern fits in another form; `lines` are what changed, before and after.

    Those of the VJP alone, or those outside of it.
    """

    def __init__(self, pattern: str, form: str, *, of_pullback: bool):
        self.pattern, self.form, self.of_pullback = pattern, form, of_pullback
        self.lines: list[tuple[ast.AST, ast.AST]] = []  # of a condition, that alone

    def of_argument(self, tree: ast.FunctionDef) -> ast.FunctionDef:
        """The function with the form in place of its argument."""
        name = argument_of(self.pattern)
        before, after = (ast.parse(f"{name} = {value}").body[0] for value in (name, self.form))
        before.lineno = tree.lineno
        self.lines.append((before, after))
        found = copy.copy(tree)
        found.body = [after, *tree.body]
        return found

    def of_function(self, tree: ast.FunctionDef) -> ast.FunctionDef:
        """The function with the form in place of every expression that the pattern fits."""
        return self._of(tree, of_pullback=False)

    def _of(self, node: ast.stmt, *, of_pullback: bool) -> Any:
        def change(part: Any) -> Any:
            if isinstance(part, ast.stmt) and part is not node:
                return self._of(part, of_pullback=of_pullback or is_pullback(part))
            if not isinstance(part, ast.expr) or self.of_pullback != of_pullback:
                return None
            new = changed(part, lambda one: rewritten(one, self.pattern, self.form))
            if new is not part:
                self.lines.append((part, new))
            return new

        count = len(self.lines)
        found = changed(node, change)
        if not hasattr(node, "body") and len(self.lines) > count:
            self.lines[count:] = [(node, found)]
        return found
