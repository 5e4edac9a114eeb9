"""What else may be wrong in a line: an expression within a word, a name in all its places, a length that is one more.

in_sums(function, "rounded")    centred = x - rounded(rounded(x).mean(axes)),  …
around(function, "rounded")     centred = rounded(x - x.mean(axes)),  y = gain * rounded(unit) + shift,  …
renamed(function)               p_bar = bar * np.where(d < 0, -near, near) → bar * np.where(d < 0, -size, size)
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterator

from refnp.verify.edits.opened import Opened
from refnp.verify.edits.variants import (
    NO_ARRAYS,
    Edit,
    call,
    edited,
    expressions,
    is_one_number,
    names_before,
    places,
    plus,
    statements,
)

NUMBERS = (ast.BinOp, ast.Call, ast.UnaryOp, ast.Name)  # expressions that may be numbers
CONSTANTS = ("root", "constant", "logarithm")  # words whose value is a constant


def around(function: Callable, word: str) -> Iterator[tuple[str, Edit]]:
    """Of the value, every line that computes a number, and then every expression in one, as word(expression)."""
    inside: list[tuple[str, Edit]] = []
    for one, statement, path, node in expressions(function):
        if isinstance(node, NUMBERS) and path[-1][0] != "func":
            edit = edited(one, statement, path, call(word, node), of_pullback=False)
            target = getattr(statement, "targets", [node])[0]
            if len(path) == 1 and is_one_number(statement):
                yield ast.unparse(target), edit
            elif len(path) == 1 and isinstance(target, ast.Tuple):
                inside.append((", ".join(map(ast.unparse, target.elts)), edit))
            else:
                inside.append((ast.unparse(node), edit))
    yield from inside


def in_sums(function: Callable, word: str) -> Iterator[tuple[str, Edit]]:
    """Of the value, every sum and every sum of products, as word(sum), of terms that are word(x)."""
    for one, statement, path, node in expressions(function):
        new: ast.expr
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            new = ast.BinOp(call(word, node.left), node.op, call(word, node.right))
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("sum", "mean"):
            of = ast.Attribute(call(word, node.func.value), node.func.attr, ast.Load())  # type: ignore[attr-defined]
            new = ast.Call(of, node.args, node.keywords)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("einsum"):
            new = ast.Call(node.func, [node.args[0], *(call(word, a) for a in node.args[1:])], node.keywords)
        else:
            continue
        yield ast.unparse(node), edited(one, statement, path, call(word, new), of_pullback=False)


def renamed(function: Callable, *, of_pullback: bool) -> Iterator[Edit]:
    """A name that stands several times in a line is another one there; a length of the shape is one more or less."""
    for one in Opened.of(function).all():
        for statement, back in statements(one.tree):
            if back != of_pullback:
                continue
            found = list(places(statement))
            counts = Counter(node.id for _, node in found if isinstance(node, ast.Name))
            known = [name for name in names_before(one.tree, statement) if name not in NO_ARRAYS]
            for name, other in ((n, o) for n in counts if counts[n] > 1 and n in known for o in known if o != n):
                line = Renamed(name, other).visit(ast.parse(ast.unparse(statement)).body[0])
                yield Edit(one, statement, line, back)
            for path, node in found:
                if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith(".shape"):
                    for number in (1, -1):
                        yield edited(one, statement, path, plus(node, number), of_pullback=back)


class Renamed(ast.NodeTransformer):
    """What is read of a name is read of another."""

    def __init__(self, name: str, other: str):
        self.name, self.other = name, other

    def visit_Name(self, node: ast.Name) -> ast.Name:
        """The other name, where it is read."""
        is_it = node.id == self.name and isinstance(node.ctx, ast.Load)
        return ast.Name(self.other, node.ctx) if is_it else node


def is_constant(node: ast.AST) -> bool:
    """Whether an expression is a constant with a name or a word: root(2), HALF_LOG_TWO_PI."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in CONSTANTS
    return isinstance(node, ast.Name) and node.id.isupper()
