"""Shape comments, `scores = q @ k.swapaxes(-1, -2)  # (B, H, N, M)`, held against the arrays that pass.

    with ShapeComments() as comments:
        attention(query, key, value)

While the block runs, every line of refnp that ends in such a comment is looked at when it is done: the array that the
assigned name then holds (or that is returned) must have that shape. On leaving, AssertionError names every comment that
was wrong. `comments.seen` are the (file, line) of those that were held against an array.

A letter or name stands for one length within one call of a function. A number is itself, "..." any number of axes, at
the front only, and `h*d`, `D+1` or `2N` are computed once their letters are known. Several shapes, "(B, N), (B, M)",
belong to the several names or values on the left; a single one to all of them. None and lists have no shape.
"""

import ast
import functools
import io
import re
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path

import refnp

ROOT = Path(refnp.__file__).parent
GROUP = re.compile(r"\(([^()]*)\)\s*(?:,|and|or)?\s*")
NAME = re.compile(r"[^\W\d]\w*'?")


@dataclass(frozen=True)
class Comment:
    """One comment: the lines of its statement, what it speaks about, and the shapes it states."""

    first: int
    last: int
    line: int
    targets: tuple[str, ...] | None  # expressions to look at; None for the value of a return
    shapes: tuple[tuple[str, ...], ...]


def shapes_in(text):
    """The shapes at the start of a comment: "# (B, N), (N,)  remarks" → (("B", "N"), ("N",)); () if there are none."""
    text, shapes = text.lstrip("#").strip(), []
    while group := GROUP.match(text):
        items = [item.strip() for item in group[1].split(",")]
        if len(items) == 1 and items[0]:  # "(radians)" is a remark; a shape of one axis is "(n,)"
            break
        items = items if items[-1] else items[:-1]
        if not all(item == "..." or _as_expression(item) is not None for item in items) or "..." in items[1:]:
            break
        shapes.append(tuple(items))
        text = text[group.end() :]
    return tuple(shapes)


@functools.cache
def _as_expression(item):
    """`2N`, `h·d`, `D+1` as an expression in Python, or None if the text is no such thing."""
    item = re.sub(r"(?<=\d)\s*(?=[^\W\d])", "*", item.replace("·", "*").replace("−", "-").replace("'", "_"))
    try:
        tree = ast.parse(item, mode="eval")
    except SyntaxError:
        return None
    allowed = (ast.Expression, ast.BinOp, ast.Name, ast.Load, ast.Constant, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv)
    return tree if all(isinstance(node, allowed) for node in ast.walk(tree)) else None


def mismatch(shape, items, lengths):
    """What is wrong with `shape`, or None. `lengths` are the letters known so far; it learns new ones."""
    given = ", ".join(items) + ("," if len(items) == 1 else "")
    end = shape
    if items[:1] == ("...",):
        items = items[1:]
        end = shape[max(len(shape) - len(items), 0) :]
    if len(end) != len(items):
        return f"has shape {shape}, not ({given})"
    for item, length in zip(items, end, strict=True):
        tree = _as_expression(item)
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        if isinstance(tree.body, ast.Name) and tree.body.id not in lengths:
            lengths[tree.body.id] = length
        elif names <= lengths.keys():
            expected = eval(compile(tree, "shape", "eval"), {"__builtins__": {}}, dict(lengths))
            if expected != length:
                known = ", ".join(f"{name} = {lengths[name]}" for name in sorted(names))
                return f"has shape {shape}, not ({given})" + (f" with {known}" if known else "")
    return None


@functools.cache
def comments_of(path):
    """The shape comments of a file, by every line of their statements."""
    return comments_in(Path(path).read_text(encoding="utf-8"))


def comments_in(source):
    """The shape comments of a source text, by every line of their statements."""
    kinds = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return)
    statements = [node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]
    found = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        shapes = shapes_in(token.string) if token.type == tokenize.COMMENT else ()
        if not shapes:
            continue
        line = token.start[0]
        around = [node for node in statements if node.lineno <= line <= node.end_lineno]
        if not around:
            continue
        node = min(around, key=lambda node: node.end_lineno - node.lineno)
        targets = _targets(node)
        if targets == ():
            continue
        comment = Comment(node.lineno, node.end_lineno, line, targets, shapes)
        for covered in range(comment.first, comment.last + 1):
            found.setdefault(covered, []).append(comment)
    return found


def _targets(node):
    """What a statement assigns, as expressions to evaluate; None for a return, () for parts of arrays."""
    if isinstance(node, ast.Return):
        return None
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    return tuple(ast.unparse(part) for part in parts if isinstance(part, (ast.Name, ast.Attribute)))


class ShapeComments:
    """A context in which the shape comments of the files under `root` are checked, in the current thread."""

    def __init__(self, root=ROOT):
        self.root = str(root)
        self.seen = set()
        self.wrong = []

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, kind, error, traceback):
        sys.settrace(self._before)
        if self.wrong and kind is None:
            raise AssertionError("these shape comments are not true:\n" + "\n".join(dict.fromkeys(self.wrong)))

    def _trace(self, frame, event, value):
        path = frame.f_code.co_filename
        within = frame.f_code.co_name.startswith("<")  # a comprehension or lambda shares its line with a statement
        if event != "call" or within or not path.startswith(self.root) or not comments_of(path):
            return None
        lengths, pending = {}, []

        def step(frame, event, value):
            nonlocal pending
            if event == "exception":
                pending = []
                return step
            if event == "return" or not any(c.first <= frame.f_lineno <= c.last for c in pending):
                for comment in pending:
                    self._hold(comment, frame, value if event == "return" else None, lengths)
                pending = []
            if event == "line":
                pending = comments_of(path).get(frame.f_lineno, [])
            return step

        return step

    def _hold(self, comment, frame, returned, lengths):
        path = frame.f_code.co_filename
        if comment.targets is None:
            values = returned if isinstance(returned, tuple) and len(comment.shapes) > 1 else (returned,)
            named = [("the result", value) for value in values]
        else:
            named = [(name, eval(name, frame.f_globals, frame.f_locals)) for name in comment.targets]
        shapes = comment.shapes if len(comment.shapes) == len(named) else comment.shapes[:1] * len(named)
        for (name, value), items in zip(named, shapes, strict=True):
            shape = () if isinstance(value, (int, float, complex)) else getattr(value, "shape", None)
            if shape is None:
                continue
            self.seen.add((path, comment.line))
            if problem := mismatch(tuple(shape), items, lengths):
                self.wrong.append(f"{path}:{comment.line}: {name} {problem}")
