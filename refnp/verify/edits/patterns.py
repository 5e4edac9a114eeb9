"""An expression in place of another, as a table of known mistakes writes it: np.sqrt(_v), where _v is anything.

"mask =" stands for an argument, of which the form is made before anything is computed.
"""

import ast
import copy
import re

from refnp.verify.edits.opened import is_pullback


def rewritten(node: ast.AST, pattern: str, form: str) -> ast.expr | None:
    """What a form makes of an expression that a pattern fits, in which _x is anything; None if it does not fit."""
    found: dict[str, ast.AST] = {}
    if not fits(ast.parse(pattern, mode="eval").body, node, found):
        return None
    return Filled(found).visit(ast.parse(form, mode="eval").body)


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
    expression = ast.parse(pattern, mode="eval").body
    return any(fits(expression, node, {}) for node in ast.walk(tree) if isinstance(node, ast.expr))


class Filled(ast.NodeTransformer):
    """A form with what its letters stand for."""

    def __init__(self, found: dict[str, ast.AST]):
        self.found = found

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return copy.deepcopy(self.found.get(node.id, node))


class Rewriting(ast.NodeTransformer):
    """Every expression that a pattern fits in another form; `count` says how many there were.

    Those of the VJP alone, or those outside of it.
    """

    def __init__(self, pattern: str, form: str, *, of_pullback: bool):
        self.pattern, self.form, self.of_pullback = pattern, form, of_pullback
        self.count, self.depth, self.within, self.inside = 0, 0, False, False
        self.lines: list[tuple[ast.AST, ast.AST]] = []  # before and after; of a condition, that alone

    def of_argument(self, tree: ast.FunctionDef) -> ast.FunctionDef:
        """The function with the form in place of its argument."""
        name = argument_of(self.pattern)
        before, after = (ast.parse(f"{name} = {value}").body[0] for value in (name, self.form))
        before.lineno, self.count = tree.lineno, 1
        self.lines.append((before, after))
        tree.body.insert(0, after)
        return tree

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        inside, self.within = self.within and is_pullback(node), True
        self.depth += inside
        found = self.generic_visit(node)
        self.depth -= inside
        return found

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and self.of_pullback == (self.depth > 0):
            new = rewritten(node, self.pattern, self.form)
            if new is not None:
                self.count += 1
                if not self.inside:
                    self.lines.append((node, new))
                return new
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            before, count, self.inside = copy.deepcopy(node), self.count, True
            after, self.inside = self.generic_visit(node), False
            if self.count > count:
                self.lines.append((before, after))
            return after
        return super().visit(node)
