"""A line of the layer's page, or of a function that uses pages, edited, or with one number c in it.

Lines that are not run where the answers deviate are left alone: they give nothing there.
"""

import ast
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from refnp.autograd.pages import plain
from refnp.numbers.rounding import WIDE
from refnp.verify.case import Layer
from refnp.verify.causes.answered import Answered
from refnp.verify.causes.clock import tick
from refnp.verify.causes.numbers import best_probe, enough_of, solved
from refnp.verify.causes.values import answer_of, furthest
from refnp.verify.edits.around import around, is_constant, renamed
from refnp.verify.edits.edited import KNOWN_WORDS, edited_function, is_operation
from refnp.verify.edits.mutant import Mutant
from refnp.verify.edits.opened import Opened
from refnp.verify.edits.variants import Edit, edited, edits_of, expressions, is_one_number
from refnp.verify.judged_pages import Formula
from refnp.verify.layers.multi_head import bound

FIRST, MOST_LEFT = 4, 0.7  # edits that are the first of two, and the part of the error that these may leave
BESIDE = ("sqrt", "log", "log1p")  # what c may be added to the argument of
Lines = frozenset[tuple[str, int]]  # of a file, with its path


def of_outputs(layer: Layer, answered: Sequence[Answered]) -> Iterator[Mutant]:
    """The layer with an edit of a line that its output comes from."""
    probe, function = best_probe(answered), subject(layer)
    if function is None or probe is None:
        return
    lines = lines_run(function, probe)
    for edit in edits_and_names(function, of_pullback=False):
        run = is_run(edit.opened, edit.line, lines)
        if run and (edit.narrow or is_near(probe, function_with(function, edit))):
            yield mutant_with(function, edit)


def of_gradients(layer: Layer, answered: Sequence[Answered]) -> Iterator[Mutant]:
    """The layer with an edit of a line of a VJP; then with a number that is held constant."""
    function = subject(layer)
    if function is None:
        return
    lines = lines_run(function, answered[0])
    for edit in edits_and_names(function, of_pullback=True):
        if is_run(edit.opened, edit.line, lines):
            yield mutant_with(function, edit, back=True)
    for what, edit in around(of_partial(function), "held"):
        if is_run(edit.opened, edit.line, lines):
            yield replace(mutant_with(function, edit), says=f"{what} were a constant in the gradient")


def pairs_of_outputs(layer: Layer, answered: Sequence[Answered]) -> Iterator[Mutant]:
    """The layer with edits of two lines, of which the first alone takes away most of the error."""
    probe, function = best_probe(answered), subject(layer)
    if function is None or probe is None or not enough_of(answered):
        return
    lines = lines_run(function, probe)
    every = [
        e for e in edits_and_names(function, of_pullback=False) if not e.narrow and is_run(e.opened, e.line, lines)
    ]
    parts = {edit: part for edit in every if (part := left_of(probe, function_with(function, edit))) is not None}
    for one in sorted(parts, key=parts.__getitem__)[:FIRST]:
        for other in parts if parts[one] < MOST_LEFT else ():
            if other.line is not one.line and is_near(probe, function_with(function, one, other)):
                yield mutant_with(function, one, other)


def numbers_of_outputs(layer: Layer, answered: Sequence[Answered]) -> Iterator[Mutant]:
    """The layer with c added beside a sum, a root or a logarithm, or with a line times c."""
    probe, function = best_probe(answered), subject(layer)
    if function is None or probe is None:
        return
    for says, edit in with_number(function, lines_run(function, probe)):
        for c, value in solved(probe, of_any_number(function, edit), enough_of(answered)):
            mistaken, where = of_any_number(function, edit)(value), edit.where.replace("_c()", c)
            yield Mutant(says.format(c), mistaken, where=where)


def subject(layer: Layer) -> Callable | None:
    """What is edited: the layer's formula or function, or that of the layer whose function it is."""
    if layer.formula is not None and can_be_read(of_partial(layer.formula)):
        return layer.formula
    own = layer.function
    if layer.inner is not None and not can_be_opened(own):
        own = Formula(layer.inner[0].function, layer.inner[1])
    judges_itself = getattr(getattr(layer.equation, "page", None), "of", None) is own and can_be_read(own)
    return own if can_be_opened(own) or judges_itself else None


@functools.cache
def can_be_read(function: Callable) -> bool:
    """Whether the source of a function is there, and it makes no module."""
    try:
        return all(one.function is not bound for one in Opened.of(function).all())
    except (OSError, TypeError, AssertionError, SyntaxError, ValueError):  # without source, or with no `def`
        return False


@functools.cache
def can_be_opened(function: Callable) -> bool:
    """Whether the source of a function is there to be edited, and is an operation or uses a page."""
    try:
        opened = Opened.of(of_partial(function))
        return is_operation(of_partial(function)) or any(one.operation for one in opened.all())
    except (OSError, TypeError, AssertionError, SyntaxError):  # without source, or with no `def`
        return False


def of_partial(function: Callable) -> Callable:
    """The function of which some arguments are given, or which is asked in another way."""
    return function.func if isinstance(function, (functools.partial, Formula)) else function


def lines_run(function: Callable, a: Answered) -> Lines:
    """The lines of a function, and of what it uses, that are run for a case, forward and back."""
    found: set[tuple[str, int]] = set()
    files = {one.path for one in Opened.of(of_partial(function)).all()}

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        found.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with plain():
            answer_of(a.problem, function, WIDE)
    finally:
        sys.settrace(before)
    return frozenset(found)


def is_run(opened: Opened, line: ast.stmt, lines: Lines) -> bool:
    """Whether a statement of a function is among lines that are run."""
    first = opened.line(line)
    last = first + (line.end_lineno or line.lineno) - line.lineno
    return any((opened.path, number) in lines for number in range(first, last + 1))


@functools.cache
def edits(function: Callable, *, of_pullback: bool) -> list[Edit]:
    """Every edit of a page, or of a function that uses pages, or of their VJPs."""
    opened = Opened.of(of_partial(function))
    only_back = opened.only_back()
    every = (edit for one in opened.all() for edit in edits_of(one))
    return [edit for edit in every if (edit.of_pullback or edit.opened.function in only_back) == of_pullback]


@functools.cache
def edits_and_names(function: Callable, *, of_pullback: bool) -> list[Edit]:
    """The same, with names that are others in all of a line."""
    return [*edits(function, of_pullback=of_pullback), *renamed(of_partial(function), of_pullback=of_pullback)]


@functools.cache
def function_with(function: Callable, *several: Edit, back: bool = False) -> Callable:
    """The function with an edit, or several of different lines, always the same one."""
    trees: dict[Callable, ast.FunctionDef] = {}
    for edit in several:
        trees[edit.opened.function] = edit.in_tree(trees.get(edit.opened.function, edit.opened.tree))
    return edited_function(function, trees, KNOWN_WORDS, back=back)


@functools.cache
def mutant_with(function: Callable, *several: Edit, back: bool = False) -> Mutant:
    """The same, as a mistake."""
    says, where = ", and ".join(edit.says for edit in several), "; ".join(edit.where for edit in several)
    mistaken = function_with(function, *several, back=back)
    return Mutant(says, mistaken, narrow=several[0].narrow, where=where)


def with_number(function: Callable, lines: Lines) -> Iterator[tuple[str, Edit]]:
    """What it says, and an edit with the number c, of the lines that are run."""
    letter = ast.Call(ast.Name("_c", ast.Load()), [], [])
    for one, statement, path, node in expressions(of_partial(function)):
        if not is_one_number(statement) or not is_run(one, statement, lines):
            continue
        name = getattr(node, "operation", "") or getattr(getattr(node, "func", None), "attr", "")
        if name in BESIDE or (name == "nonzero" and isinstance(node.args[0], ast.Name)):  # type: ignore[attr-defined]
            path, node = (*path, ("args", 0)), node.args[0]  # type: ignore[attr-defined]
        elif name not in ("sum", "mean", "exp") and len(path) > 1 and not is_constant(node):
            continue  # neither a sum, nor all that the line computes, nor a constant
        what = ast.unparse(node)
        for op, says in ((ast.Add(), f"{{}} were added to {what}"), (ast.Mult(), f"{what} were multiplied by {{}}")):
            yield says, edited(one, statement, path, ast.BinOp(node, op, letter), of_pullback=False)


def of_any_number(function: Callable, edit: Edit) -> Callable[[float], Callable]:
    """The edited function with a number c: one function, of the c that was asked for last."""
    number: list[float] = [0.0]
    words = {**KNOWN_WORDS, "_c": lambda: number[0]}
    mistaken = edited_function(function, {edit.opened.function: edit.tree}, words, back=False)

    def with_c(c: float) -> Callable:
        number[0] = c
        return mistaken

    return with_c


def left_of(probe: Answered, function: Callable) -> float | None:
    """The part of the largest error that an edit leaves; None for one that changes nothing, or cannot be computed."""
    try:
        given, value, right = np.asarray(probe.answer["output"], WIDE), value_of(probe, function), probe.right["output"]
    except Exception:  # an edit that cannot be computed
        return None
    return furthest(given, value) / furthest(given, right) if furthest(value, right) else None


def is_near(probe: Answered, function: Callable) -> bool:
    """Whether an edit gives about what was answered, where the right value is another."""
    try:
        return probe.is_near("output", value_of(probe, function))
    except Exception:  # an edit that cannot be computed
        return False


def value_of(probe: Answered, function: Callable) -> np.ndarray:
    """The output that an edit gives."""
    tick()
    return np.asarray(answer_of(probe.problem, function, WIDE, probe.wide, gradients=False)["output"], WIDE)
