"""The lines of a page as they run, forward and back, each with the values that it gives names.

Python tells a tracer of every line before it runs and of every return. So the value of an assignment is read when the
next line of its function is reached. Functions of pages are opened where they are called, deeper by one, under their
name; lines of a loop are shown as they ran last. What stands elsewhere, NumPy and the words, is not opened.
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

from refnp.autograd.explanation.lines import equation_in
from refnp.numbers.words import Constant

SHAPES = re.compile(r"^\(.*?\)(, \(.*?\))*( {3}|$)")  # at the beginning of a comment: they are shown as they are


class PageLine(NamedTuple):
    """Code, its comment without shapes, what it gave, and how deep in calls of helpers it stands.

    The value is None for the name of a helper in front of its lines, for a line in front of its several results, and
    for what a helper hands back: that stands at the line that takes it.
    """

    code: str
    comment: str
    value: Any
    depth: int


class Statement(NamedTuple):
    """An assignment to `names`, or a return, without: its code, its comment, and the code that stands for each result.

    `titles` are of results that have code of their own; else of one result it is the code of all, and of several that
    stands in front of them. What is returned by its name has been shown, and has no title.
    """

    code: str
    comment: str
    names: tuple[str, ...]
    titles: tuple[str, ...]

    def lines(self, values: list, depth: int) -> list[PageLine]:
        """A line for each value that is a number."""
        numbers = list(map(number_of, values))
        comments = self.comment.split(", ")
        each = comments if len(comments) == max(len(self.names), len(self.titles)) else [self.comment] * len(numbers)
        if self.titles:
            found = zip(self.titles, each, numbers, strict=False)
            return [PageLine(title, comment, x, depth) for title, comment, x in found if title and x is not None]
        shown = [part for part in zip(self.names, each, numbers, strict=False) if part[-1] is not None]
        if len(shown) < 2:
            return [PageLine(self.code, self.comment, x, depth) for _, _, x in shown]
        several = [PageLine(name, comment if each is comments else "", x, depth + 1) for name, comment, x in shown]
        return [PageLine(self.code, "" if each is comments else self.comment, None, depth), *several]


def lines_of_page(form: Callable, arguments: tuple, options: dict, bars: list | None) -> tuple[list, list, Any, Any]:
    """The lines of a page forward and, given the gradients of its results, back; its results and its gradients."""
    forward, (value, vjp) = run_traced(form, arguments, options)
    if bars is None:
        return forward, [], value, None
    back, gradients = run_traced(vjp, tuple(bars), {})
    return forward, back, value, gradients


def run_traced(function: Callable, arguments: tuple, options: dict) -> tuple[list[PageLine], Any]:
    """The lines of pages that run in a call, in the order in which they end, and what the call returns."""
    found: dict[tuple[FrameType, int], list[PageLine]] = {}
    running: list[FrameType] = []
    waiting: dict[FrameType, int] = {}  # the line of a frame that has not given its value yet

    def note(frame: FrameType, returned: Any = None) -> None:
        """Keep what the line that ran last in this frame gave."""
        line = waiting.pop(frame, -1)
        statement = statements(frame.f_code).get(line)
        if statement is None:
            return
        if statement.names:
            values = [frame.f_locals.get(name) for name in statement.names]
        else:
            values = list(returned) if isinstance(returned, tuple) else [returned]
        found.pop((frame, line), None)  # in a loop the last turn counts
        found[frame, line] = statement.lines(values, running.index(frame))

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
        if len(running) > 1:
            found[frame, 0] = [PageLine(*called(frame.f_code), None, len(running) - 1)]
        return local

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        returned = function(*arguments, **options)
    finally:
        sys.settrace(before)
    with_lines = {frame for (frame, line), lines in found.items() if line and lines}
    steps = [one for (frame, line), lines in found.items() if line or frame in with_lines for one in lines]
    taken: dict[int, int] = {}  # where what a helper hands back stands, and how deep: at the line that takes it
    for i, step in reversed([*enumerate(steps)]):
        if taken.setdefault(id(step.value), step.depth) < step.depth and step.code.startswith("return "):
            steps[i] = step._replace(value=None)
    return steps, returned


def number_of(value: Any) -> Any:
    """An array, or a number, as it can be shown; None of anything else."""
    if isinstance(value, Constant):
        value = value.like(np.zeros(()))
    if not isinstance(value, (np.ndarray, np.number, float)):
        return None
    array = np.asarray(value)
    return array.astype(float) if array.dtype.hasobject else array  # a number of the formula beside another number


def called(code: CodeType) -> tuple[str, str]:
    """Whose lines follow, such as `softmax`, or `vjp of softmax`; and what that computes, in the words of its file."""
    owner, _, name = code.co_qualname.rpartition(".<locals>.")
    texts = [ast.get_docstring(function) for function in function_of(code)]
    return f"{name} of {owner}:" if owner else f"{name}:", equation_in((texts or [""])[0] or "")


@functools.cache
def function_of(code: CodeType) -> list:
    """The function of this code as Python reads it, if it is one with a name."""
    tree = ast.parse(textwrap.dedent("".join(inspect.getsourcelines(code)[0])))
    return [node for node in tree.body[:1] if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


@functools.cache
def is_of_a_page(code: CodeType) -> bool:
    """Whether code stands in a chapter with pages, and not in what is around all of them."""
    file = code.co_filename.replace("\\", "/")
    around = ("pages.py", "primitives.py", "declaration.py", "notation.py", "explanation/opening.py")
    return ("refnp/layers/" in file or "refnp/autograd/" in file) and not file.endswith(around)


@functools.cache
def statements(code: CodeType) -> dict[int, Statement]:
    """The assignments to names and the returns of a function, by the numbers of the lines on which they begin."""
    lines, start = inspect.getsourcelines(code)
    found = {}
    for function in function_of(code):
        inner = [node for node in ast.walk(function) if isinstance(node, ast.FunctionDef) and node is not function]
        elsewhere = {id(node) for one in inner for node in ast.walk(one)}
        for node in ast.walk(function):
            if id(node) in elsewhere or not isinstance(node, (ast.Assign, ast.Return)) or node.value is None:
                continue
            last = lines[(node.end_lineno or node.lineno) - 1]
            comment = SHAPES.sub("", last.partition("  # ")[2].strip())
            names, titles = results_of(node)
            found[start + node.lineno - 1] = Statement(ast.unparse(node), comment, names, titles)
    return found


def results_of(node: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names that get values, none for a return, and the code of each result that has its own."""
    each = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    if isinstance(node, ast.Return):
        shown = (ast.Name, ast.Starred)
        return (), tuple("" if isinstance(one, shown) else f"return {ast.unparse(one)}" for one in each)
    names = tuple(n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name))
    own = isinstance(node.targets[0], ast.Tuple) and len(names) == len(each) > 1
    return names, tuple(f"{name} = {ast.unparse(one)}" for name, one in zip(names, each, strict=False) if own)
