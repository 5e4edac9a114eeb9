"""An expression in place of another, as a table of known mistakes writes it: np.sqrt(_v), where _v is anything."""

import ast
import copy


def rewritten(node: ast.AST, pattern: str, form: str) -> ast.expr | None:
    """What a form makes of an expression that a pattern fits, in which _x is anything; None if it does not fit."""
    found: dict[str, ast.AST] = {}
    if not fits(ast.parse(pattern, mode="eval").body, node, found):
        return None
    return Filled(found).visit(ast.parse(form, mode="eval").body)


def fits(pattern: ast.AST, node: ast.AST, found: dict[str, ast.AST]) -> bool:
    """Whether an expression is that of a pattern; what its letters stand for is written down."""
    if isinstance(pattern, ast.Name) and pattern.id[0] == "_":
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
        self.count, self.depth = 0, 0
        self.lines: list[tuple[ast.stmt, ast.stmt]] = []  # before and after

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.depth += 1
        found = self.generic_visit(node)
        self.depth -= 1
        return found

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and self.of_pullback == (self.depth > 1):
            new = rewritten(node, self.pattern, self.form)
            if new is not None:
                self.count += 1
                return new
        if isinstance(node, (ast.Assign, ast.Return)):
            before, count = copy.deepcopy(node), self.count
            after = self.generic_visit(node)
            if self.count > count:
                self.lines.append((before, after))  # type: ignore[arg-type]
            return after
        return super().visit(node)
