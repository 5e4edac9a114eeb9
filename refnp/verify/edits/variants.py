"""Every edit of one place of a page: what each line might have been.

An operator is another, an operand is left out, doubled, squared, rooted or reciprocal; a factor or a sum is one more or
less; a mean is a sum or divides by n − 1; a reduction goes along another axis; what stands inside a root or a logarithm
stands outside; the argument of a function stands alone; a condition is inverted, not strict, or asks nothing; a number
is held constant for the gradient; a name is another one; a line is left out.
"""

import ast
import copy
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from refnp.verify.edits.opened import Opened, is_pullback
from refnp.verify.edits.patterns import rewritten

NO_ARRAYS = ("eps", "axis", "axes", "groups", "items", "channels")  # names of options and lengths
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div)
FUNCTIONS = {  # what is taken for what
    "exp": "expm1", "expm1": "exp", "log": "log1p", "log1p": "log", "tanh": "arctan", "maximum": "minimum",
    "minimum": "maximum", "sin": "cos", "cos": "sin", "tril": "triu", "triu": "tril",
}  # fmt: skip
COMPARED = {
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
}
SAME_ON_PAPER = {  # function: the form of it that loses digits
    "np.expm1(_x)": "np.exp(_x) - 1",
    "np.log1p(_x)": "np.log(1 + _x)",
    "erfc(_x)": "1 - erf(_x)",
    "logistic(-_x)": "1 - logistic(_x)",
}


@dataclass(frozen=True, eq=False)
class Edit:
    """One line of a page, a statement of the function that is `opened`, and what it might have been.

    `of_pullback` is an edit in its VJP, `narrow` one that is the same on paper.
    """

    opened: Opened
    line: ast.stmt
    other: ast.stmt
    of_pullback: bool
    narrow: bool = False

    @property
    def tree(self) -> ast.FunctionDef:
        """The function with the other line."""
        return self.in_tree(self.opened.tree)

    def in_tree(self, tree: ast.FunctionDef) -> ast.FunctionDef:
        """The function, of which other lines may be others too, with this one."""
        return exchanged(tree, self.line, ast.fix_missing_locations(self.other))

    @functools.cached_property
    def after(self) -> str:
        """The other line."""
        return ast.unparse(self.other)

    @property
    def where(self) -> str:
        """ "layer_norm.py:64  y = gain * unit + shift → y = gain * unit - shift"."""
        return f"{self.opened.file}:{self.opened.line(self.line)}  {text_of(self.line)} → {self.after}"

    @property
    def says(self) -> str:
        """ "y were gain * unit - shift", "1 + a were returned by kernel"."""
        target, equals, value = self.after.partition(" = ")
        returned = f"{self.after.removeprefix('return ')} were returned by {self.opened.tree.name}"
        return f"{target} were {value}" if equals else returned


@functools.cache
def text_of(line: ast.stmt) -> str:
    """A line as it is written."""
    return ast.unparse(line)


def edits_of(opened: Opened) -> Iterator[Edit]:
    """Every edit of a function."""
    for statement, of_pullback in statements(opened.tree):
        names = names_before(opened.tree, statement)
        for path, node in places(statement):
            for new, narrow in variants(node, names):
                yield edited(opened, statement, path, new, of_pullback=of_pullback, narrow=narrow)


def statements(tree: ast.FunctionDef) -> list[tuple[ast.stmt, bool]]:
    """The lines of a function that compute something, with whether each belongs to its VJP."""
    found: list[tuple[ast.stmt, bool]] = []

    def visit(body: list[ast.stmt], inside: bool) -> None:
        for one in body:
            if isinstance(one, ast.FunctionDef):
                visit(one.body, inside or is_pullback(one))
            elif isinstance(one, (ast.For, ast.If, ast.While)):
                visit([*one.body, *one.orelse], inside)
            elif isinstance(one, ast.Assign) or (isinstance(one, ast.Return) and (inside or not _names_a_vjp(one))):
                found.append((one, inside))

    visit(tree.body, False)
    return found


def _names_a_vjp(node: ast.Return) -> bool:
    """Whether it is `return y, vjp`, where y is a name."""
    value = node.value
    return isinstance(value, ast.Tuple) and all(isinstance(part, ast.Name) for part in value.elts)


def is_one_number(statement: ast.stmt) -> bool:
    """Whether a line computes one array that rounding may change: no tuple and no condition."""
    value = getattr(statement, "value", None)
    targets = getattr(statement, "targets", [])
    return not any(isinstance(t, ast.Tuple) for t in targets) and not isinstance(
        value, (ast.Tuple, ast.Compare, ast.BoolOp, ast.Constant)
    )


def places(statement: ast.stmt) -> Iterator[tuple[tuple, ast.expr]]:
    """The expressions of a statement, each with the way to it."""

    def visit(node: ast.AST, path: tuple) -> Iterator[tuple[tuple, ast.expr]]:
        for field, value in ast.iter_fields(node):
            if field in ("targets", "ctx", "op", "ops", "keywords", "slice"):
                continue
            for i, child in enumerate(value) if isinstance(value, list) else ((None, value),):
                if isinstance(child, ast.expr):
                    yield (*path, (field, i)), child
                    if not compares_words(child):
                        yield from visit(child, (*path, (field, i)))

    yield from visit(statement, ())


def compares_words(node: ast.expr) -> bool:
    """Whether it is a comparison with a word, such as reduction == "mean", which no other name is compared with."""
    both = (node.left, *node.comparators) if isinstance(node, ast.Compare) else ()
    return any(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in both)


def expressions(function: Callable) -> Iterator[tuple[Opened, ast.stmt, tuple, ast.expr]]:
    """The expressions that the value of a function comes from, with the statement and the way to each."""
    for opened in Opened.of(function).all():
        for statement, of_pullback in statements(opened.tree):
            for path, node in places(statement) if not of_pullback else ():
                yield opened, statement, path, node


def edited(
    opened: Opened, statement: ast.stmt, path: tuple, new: ast.expr, *, of_pullback: bool, narrow: bool = False
) -> Edit:
    """The function with another expression at one place."""
    return Edit(opened, statement, replaced(statement, path, new), of_pullback, narrow)


def exchanged(node: Any, line: ast.stmt, other: ast.stmt) -> Any:
    """A function in which a line is another; what does not change is shared."""
    for field in ("body", "orelse"):
        lines = getattr(node, field, [])
        for i, one in enumerate(lines if isinstance(lines, list) else []):
            new = other if one is line else exchanged(one, line, other)
            if new is not one:
                found = copy.copy(node)
                setattr(found, field, [*lines[:i], new, *lines[i + 1 :]])
                return found
    return node


def replaced(node: Any, path: tuple, new: ast.expr) -> Any:
    """A piece of syntax with another expression at the end of a path; what does not change is shared."""
    if not path:
        return new
    (field, i), *rest = path
    value, found = getattr(node, field), copy.copy(node)
    one = replaced(value if i is None else value[i], tuple(rest), new)
    setattr(found, field, one if i is None else [*value[:i], one, *value[i + 1 :]])
    return found


def names_before(tree: ast.FunctionDef, statement: ast.stmt) -> list[str]:
    """The names that are known where a statement stands: arguments, and what lines before it assign."""
    arguments = [a.arg for a in (*tree.args.args, *tree.args.kwonlyargs)]
    assigned = [
        name.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and node.lineno < statement.lineno
        for target in node.targets
        for name in ast.walk(target)
        if isinstance(name, ast.Name)
    ]
    inside = [
        a.arg
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node is not tree
        for a in node.args.args
    ]
    return list(dict.fromkeys((*arguments, *assigned, *inside)))


def variants(node: ast.expr, names: list[str]) -> Iterator[tuple[ast.expr, bool]]:
    """What an expression might have been; and whether that is the same on paper."""
    for one in (_of_operation, _of_call, _of_reduction, _of_rest):
        for new in one(node):
            yield new, False
    if isinstance(node, ast.Name) and node.id in names:
        for other in names:
            if other != node.id and other not in NO_ARRAYS and node.id not in NO_ARRAYS:
                yield ast.Name(other, ast.Load()), False
                yield ast.BinOp(node, ast.Mult(), ast.Name(other, ast.Load())), False
        yield ast.BinOp(node, ast.Pow(), ast.Constant(2)), False
    for pattern, form in SAME_ON_PAPER.items():
        same = rewritten(node, pattern, form)
        if same is not None:
            yield same, True


def _of_operation(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, OPERATORS):
            by_one = isinstance(node.right, ast.Constant) and node.right.value == 1
            for op in (ast.Add, ast.Sub) if by_one else OPERATORS:  # x · 1 and x/1 are x, which is below
                if not isinstance(node.op, op):
                    yield ast.BinOp(node.left, op(), node.right)
            if isinstance(node.op, (ast.Sub, ast.Div)):
                yield ast.BinOp(node.right, node.op, node.left)
            if isinstance(node.op, (ast.Mult, ast.Div)):
                yield ast.BinOp(node.left, node.op, ast.BinOp(node.right, ast.Pow(), ast.Constant(2)))
                yield ast.BinOp(node.left, node.op, call("np.sqrt", node.right))
            for one in (1, -1):
                if isinstance(node.op, ast.Mult):
                    yield ast.BinOp(node.left, node.op, plus(node.right, one))
                    yield ast.BinOp(plus(node.left, one), node.op, node.right)
                if isinstance(node.op, ast.Add) and not isinstance(node.right, ast.Constant):
                    yield ast.BinOp(node.left, node.op, plus(node.right, one))
            if isinstance(node.op, (ast.Add, ast.Sub)):
                for factor in (0.5, 2):
                    yield ast.BinOp(node.left, node.op, ast.BinOp(ast.Constant(factor), ast.Mult(), node.right))
        if not isinstance(node.op, ast.MatMult):
            yield node.left
            if not isinstance(node.op, ast.Pow):
                yield node.right
        if isinstance(node.op, ast.FloorDiv):  # the whole number above
            yield ast.UnaryOp(ast.USub(), ast.BinOp(ast.UnaryOp(ast.USub(), node.left), node.op, node.right))
        if isinstance(node.op, ast.MatMult):
            yield ast.BinOp(node.left, node.op, ast.Attribute(node.right, "mT", ast.Load()))
            yield ast.BinOp(ast.Attribute(node.left, "mT", ast.Load()), node.op, node.right)
        for inner in (node.left, node.right):  # a (b + c) for a b + c, and the reverse
            if isinstance(node.op, ast.Add) and isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mult):
                other = node.right if inner is node.left else node.left
                yield ast.BinOp(inner.left, ast.Mult(), ast.BinOp(inner.right, ast.Add(), other))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node.operand


def _of_call(node: ast.expr) -> Iterator[ast.expr]:
    if not isinstance(node, ast.Call) or not node.args or isinstance(node.args[0], ast.Starred):
        return  # what is starred is no expression by itself
    name, first, short = ast.unparse(node.func), node.args[0], getattr(node, "operation", "")
    if short in FUNCTIONS:
        taken = name.removesuffix(short) + FUNCTIONS[short]
        yield ast.Call(ast.parse(taken, mode="eval").body, node.args, node.keywords)
    is_sum = isinstance(first, ast.BinOp) and isinstance(first.op, (ast.Add, ast.Sub))
    if short in ("sqrt", "log", "exp") and is_sum:
        yield ast.BinOp(call(name, first.left), first.op, first.right)  # type: ignore[attr-defined]
    if short == "where" and len(node.args) == 3:
        condition, one, other = node.args
        yield ast.Call(node.func, [condition, other, one], node.keywords)
        yield one
        yield other
        return
    of_one = isinstance(node.func, ast.Name) and len(node.args) == 1
    known = short in ("nonzero", "root", "sqrt", *FUNCTIONS) or name in ("max", "min")
    if of_one or known or (name.startswith("np.") and short != "where"):
        yield first


def _of_reduction(node: ast.expr) -> Iterator[ast.expr]:
    kind = getattr(node, "operation", "")
    if not isinstance(node, ast.Call) or not (kind or isinstance(node.func, ast.Attribute)):
        return
    if kind:  # mean(x, -1)
        value, given = node.args[0] if node.args else None, node.args[1:]
        function = ast.unparse(node.func).removesuffix(kind)
        again = lambda of, args, x=value: ast.Call(call(function + of).func, [x, *args], node.keywords)
    else:  # x.mean(-1)
        value, kind, given = node.func.value, node.func.attr, node.args  # type: ignore[attr-defined]
        again = lambda of, args, x=value: ast.Call(ast.Attribute(x, of, ast.Load()), args, node.keywords)
    if kind not in ("mean", "sum", "max") or value is None:
        return
    for other in ("mean", "sum", "max"):
        if other != kind:
            yield again(other, given)
    if given:
        for axis in (-2, 0):
            yield again(kind, [ast.Constant(axis)])
        yield again(kind, [ast.Constant(None)])
        yield again(kind, [ast.parse("tuple(range(1, x.ndim))", mode="eval").body])
    count = call("count_of", value, *given[:1])
    if kind != "max":
        yield again(kind, given, call("without_last", value))
    if kind == "mean":
        less = ast.BinOp(count, ast.Div(), call("max", ast.BinOp(count, ast.Sub(), ast.Constant(1)), ast.Constant(1)))
        yield ast.BinOp(node, ast.Mult(), less)
        yield ast.BinOp(ast.Constant(0), ast.Mult(), node)
    yield call("held", node)


def _of_rest(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.IfExp):  # what is taken whatever the condition is
        yield node.body
        yield node.orelse
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED:
        for op in COMPARED[type(node.ops[0])]:
            yield ast.Compare(node.left, [op()], node.comparators)
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        for value in dict.fromkeys((0, 0.5, 1, 2, -node.value, node.value + 1, node.value - 1)):
            if value != node.value:
                yield ast.Constant(value)
    if isinstance(node, ast.Subscript) and ast.unparse(node).endswith(("shape[-1]", "shape[-2]")):
        yield ast.parse(ast.unparse(node)[:-2] + ("2]" if ast.unparse(node)[-2] == "1" else "1]"), mode="eval").body


def call(name: str, *arguments: ast.expr) -> ast.Call:
    """A call by its name."""
    return ast.Call(ast.parse(name, mode="eval").body, list(arguments), [])


def plus(node: ast.expr, number: int) -> ast.BinOp:
    """number + node."""
    return ast.BinOp(ast.Constant(number), ast.Add(), node)
