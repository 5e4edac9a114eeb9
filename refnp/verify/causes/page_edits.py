"""The layer's page with one line edited, or with one number c in it: which gives what was answered."""

import ast
import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from refnp.numbers.rounding import WIDE
from refnp.verify.case import Layer
from refnp.verify.causes.answered import Answered
from refnp.verify.causes.numbers import best_probe, enough_of, solved
from refnp.verify.edits.edited import KNOWN_WORDS, Form, form_of, on_tape, with_its_vjp
from refnp.verify.edits.opened import Opened
from refnp.verify.edits.variants import Edit, edited, edits_of, is_one_number, places, statements
from refnp.verify.mutants.mutant import Mutant

BESIDE = ("np.sqrt", "np.log", "np.log1p")  # what c may be added to the argument of


def has_page(layer: Layer) -> bool:
    """Whether the layer's function is a page."""
    return hasattr(layer.function, "page")


def of_outputs(layer: Layer, answered: Sequence[Answered]) -> Iterator[Mutant]:
    """The page with an edit of a line that its output comes from."""
    probe = best_probe(answered)
    if not has_page(layer) or probe is None:
        return
    for edit in edits(layer.function, of_pullback=False):
        if edit.narrow or is_near(probe, form_with(layer.function, edit)):
            yield mutant_with(layer.name, layer.function, edit)


def of_gradients(layer: Layer, answered: Sequence[Answered]) -> Iterator[Mutant]:
    """The page with an edit of a line of its VJP; then with a number that is held constant."""
    if not has_page(layer):
        return
    for edit in edits(layer.function, of_pullback=True):
        yield mutant_with(layer.name, layer.function, edit, back=True)
    for edit in edits(layer.function, of_pullback=False):
        if "held(" in edit.after:
            yield mutant_with(layer.name, layer.function, edit)


def numbers_of_outputs(layer: Layer, answered: Sequence[Answered]) -> Iterator[Mutant]:
    """The page with c added beside a sum, a root or a logarithm, or with a line times c."""
    probe = best_probe(answered)
    if not has_page(layer) or probe is None:
        return
    for says, where, form in with_number(layer.function):
        for c, value in solved(probe, functools.partial(value_with, form), enough_of(answered)):
            yield Mutant(says.format(c), (layer.name,), on_tape(form(value)), where=where.replace("_c", c))


@functools.cache
def edits(operation: Callable, *, of_pullback: bool) -> list[Edit]:
    """Every edit of a page, or of its VJP."""
    opened = Opened.of(operation)
    only_back = opened.only_back()
    every = (edit for one in opened.all() for edit in edits_of(one))
    return [edit for edit in every if (edit.of_pullback or edit.opened.function in only_back) == of_pullback]


@functools.cache
def form_with(operation: Callable, edit: Edit) -> Form:
    """The page with an edit."""
    form = Opened.of(operation).compiled({edit.opened.function: edit.tree}, KNOWN_WORDS)
    return form_of(operation, form)


@functools.cache
def mutant_with(name: str, operation: Callable, edit: Edit, *, back: bool = False) -> Mutant:
    """The page with an edit as a mistake of a layer, always the same one."""
    form = form_with(operation, edit)
    return Mutant(edit.says, (name,), (with_its_vjp if back else on_tape)(form), narrow=edit.narrow, where=edit.where)


def with_number(operation: Callable) -> Iterator[tuple[str, str, Callable[[float], Form]]]:
    """What it says, the line, and the page as a function of c."""
    opened, letter = Opened.of(operation), ast.Name("_c", ast.Load())
    for one in opened.all():
        for statement, of_pullback in statements(one.tree):
            for path, node in () if of_pullback or not is_one_number(statement) else places(statement):
                name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
                if name in BESIDE:
                    spot, into = (*path, ("args", 0)), node.args[0]  # type: ignore[attr-defined]
                elif name.endswith((".sum", ".mean")) or name == "np.exp":
                    spot, into = path, node
                elif name == "nonzero" and isinstance(node.args[0], ast.Name):  # type: ignore[attr-defined]
                    spot, into = (*path, ("args", 0)), node.args[0]  # type: ignore[attr-defined]
                elif len(path) == 1:  # all that the line computes
                    spot, into = path, node
                else:
                    continue
                for op, says in ((ast.Add(), "{} were added to"), (ast.Mult(), "{} were multiplied by")):
                    edit = edited(one, statement, spot, ast.BinOp(into, op, letter), of_pullback=False)
                    what = ast.unparse(into)
                    text = f"{says} {what}" if isinstance(op, ast.Add) else f"{what} were multiplied by {{}}"
                    yield text, edit.where, of_number(operation, opened, one, edit)


def of_number(operation: Callable, opened: Opened, one: Opened, edit: Edit) -> Callable[[float], Form]:
    """The edited page as a function of c."""

    def form(c: float) -> Form:
        words = {**KNOWN_WORDS, "_c": c}
        return form_of(operation, opened.compiled({one.function: edit.tree}, words))

    return form


def value_with(form: Callable[[float], Form], c: float) -> Callable:
    """The value alone, of arrays, for a number."""
    page = form(c)
    return lambda *arrays, **options: page(*arrays, **options)[0]


def is_near(probe: Answered, form: Form) -> bool:
    """Whether an edit gives about what was answered, where the right value is another."""
    try:
        value = np.asarray(form(*probe.wide, **probe.problem.case.options)[0], WIDE)
        return probe.is_near("output", value)
    except Exception:  # an edit that cannot be computed
        return False
