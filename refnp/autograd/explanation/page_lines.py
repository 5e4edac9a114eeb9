"""The lines of a page as they run, forward and back, each with the value that it gives a name.

Python tells a tracer of every line before it runs and of every return. So the value of an assignment is read when the
next line of its function is reached. Functions of the same file are opened where they are called, deeper by one; lines
of a loop are shown as they ran last. What stands elsewhere, NumPy and the words, is not opened.
"""

import ast
import functools
import inspect
import re
import sys
import textwrap
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

SHAPES = re.compile(r"\(.*?\)(, \(.*?\))*( {3}|$)")  # at the beginning of a comment: they are shown as they are


class PageLine(NamedTuple):
    """A line of code, its comment without shapes, what it gave, and how deep in calls of helpers it stands."""

    code: str
    comment: str
    value: Any
    depth: int


class Statement(NamedTuple):
    """An assignment to names, or a return: the text of its code and its comment."""

    code: str
    comment: str
    names: tuple[str, ...]  # none for a return
    is_return: bool


def lines_of_page(form: Callable, arguments: tuple, options: dict, bars: list | None) -> tuple[list, list, Any, Any]:
    """The lines of a page forward and, given the gradients of its results, back; its results and its gradients."""
    forward, (value, vjp) = run_traced(form, arguments, options)
    if bars is None:
        return forward, [], value, None
    back, gradients = run_traced(vjp, tuple(bars), {})
    return forward, back, value, gradients


def run_traced(function: Callable, arguments: tuple, options: dict) -> tuple[list[PageLine], Any]:
    """The lines of pages that run in a call, in the order in which they end, and what the call returns."""
    found: dict[tuple[FrameType, int], PageLine] = {}
    running: list[FrameType] = []
    waiting: dict[FrameType, int] = {}  # the line of a frame that has not given its value yet

    def note(frame: FrameType, value: Any = None) -> None:
        """Keep what the line that ran last in this frame gave."""
        line = waiting.pop(frame, -1)
        statement = statements(frame.f_code).get(line)
        if statement is None:
            return
        if not statement.is_return:
            values = [frame.f_locals[name] for name in statement.names if name in frame.f_locals]
            numbers = [one for one in values if is_number(one)]  # and not the function of a gradient beside it
            value = numbers[0] if len(numbers) == 1 else None
        if is_number(value):
            found.pop((frame, line), None)  # in a loop the last turn counts
            found[frame, line] = PageLine(statement.code, statement.comment, np.asarray(value), running.index(frame))

    def local(frame: FrameType, event: str, value: Any) -> Callable:
        note(frame, value if event == "return" else None)
        if event == "line":
            waiting[frame] = frame.f_lineno
        elif event == "return":
            running.remove(frame)
        return local

    def trace(frame: FrameType, event: str, _: Any) -> Callable | None:
        if not is_of_a_page(frame.f_code):
            return None
        running.append(frame)
        return local

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        returned = function(*arguments, **options)
    finally:
        sys.settrace(before)
    return list(found.values()), returned


def is_number(value: Any) -> bool:
    """Whether a value is an array or a number, and so can be shown."""
    return isinstance(value, (np.ndarray, np.number, float)) and np.asarray(value).dtype.kind in "fciub"


@functools.cache
def is_of_a_page(code: CodeType) -> bool:
    """Whether code stands in a chapter with pages, and not in what is around all of them."""
    file = code.co_filename.replace("\\", "/")
    around = ("pages.py", "primitives.py", "declaration.py", "notation.py")
    return ("refnp/layers/" in file or "refnp/autograd/" in file) and not file.endswith(around)


@functools.cache
def statements(code: CodeType) -> dict[int, Statement]:
    """The assignments to names and the returns of a function, by the numbers of the lines on which they begin."""
    lines, start = inspect.getsourcelines(code)
    (function,) = ast.parse(textwrap.dedent("".join(lines))).body
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return {}
    inner = [node for node in ast.walk(function) if isinstance(node, ast.FunctionDef) and node is not function]
    elsewhere = {id(node) for one in inner for node in ast.walk(one)}
    found = {}
    for node in ast.walk(function):
        if id(node) in elsewhere or not isinstance(node, (ast.Assign, ast.Return)) or node.value is None:
            continue
        names: tuple[str, ...] = ()
        if isinstance(node, ast.Assign):
            names = tuple(n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name))
        last = lines[(node.end_lineno or node.lineno) - 1]
        comment = SHAPES.sub("", last.partition("  # ")[2].strip())
        found[start + node.lineno - 1] = Statement(ast.unparse(node), comment, names, isinstance(node, ast.Return))
    return found
