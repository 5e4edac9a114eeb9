"""An edited page as an operation, and known mistakes as named edits.

outside = "np.sqrt(_v + constant(eps))", "np.sqrt(_v) + constant(eps)"
named_edits(layers.layer_norm, ("layer_norm",), {"ε stood outside the root": outside})
"""

import ast
import copy
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from refnp.autograd import primitive
from refnp.autograd.pages import along_axes
from refnp.verify.edits.opened import Opened
from refnp.verify.edits.patterns import Rewriting
from refnp.verify.edits.traced import Traced, held, tensor_of
from refnp.verify.mutants.mutant import Mutant

Form = Callable[..., tuple]
Rewrite = tuple[str, str]  # what stands on the page, and what in its place
Named = dict[str, Rewrite | list[Rewrite]]  # by what each says


def count_of(x: Any, axes: Any = -1) -> int:
    """How many numbers stand along an axis or several; all without one."""
    axes = range(x.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
    return math.prod(x.shape[axis] for axis in axes)


KNOWN_WORDS = {"held": held, "count_of": count_of}


def form_of(operation: Callable, function: Callable) -> Callable:
    """A function in place of an operation's page, about the axes that it is asked for."""
    return along_axes(function) if operation.takes.moved else function  # type: ignore[attr-defined]


def on_tape(form: Form) -> Callable:
    """The value of an edited page, which the engine differentiates."""

    def function(*arrays: Any, **options: Any) -> Any:
        if all(isinstance(a, np.ndarray) and a.ndim for a in arrays):  # what has no axes becomes a Python number
            return form(*arrays, **options)[0]
        return tensor_of(form(*map(Traced, arrays), **options)[0])

    return function


def with_its_vjp(form: Form) -> Callable:
    """An edited page with the VJP that stands on it."""

    @primitive
    def function(*arrays, **options):
        return form(*arrays, **options)

    return function


class EditedPage:
    """The page of an operation, of which some edits of a table are made: template(*arrays, **edits, **options)."""

    def __init__(self, operation: Callable, words: Mapping[str, Any]):
        self.operation, self.words = operation, {**KNOWN_WORDS, **words}
        self.made: dict[tuple[str, ...], Callable] = {}
        self.edits: dict[str, tuple[list[Rewrite], bool]] = {}
        self.lines: dict[str, str] = {}

    def __call__(self, *arrays: Any, **options: Any) -> Any:
        chosen = tuple(name for name in self.edits if name in options)
        given = {name: value for name, value in options.items() if name not in chosen}
        if chosen not in self.made:
            self.made[chosen] = self.function(chosen)
        return self.made[chosen](*arrays, **given)

    def function(self, chosen: tuple[str, ...]) -> Callable:
        """The page with these edits."""
        if not chosen:
            return self.operation
        form = form_of(self.operation, Opened.of(self.operation).compiled(self.trees(chosen), self.words))
        of_pullback = [self.edits[name][1] for name in chosen]
        return with_its_vjp(form) if all(of_pullback) else on_tape(form)

    def allows(self, chosen: tuple[str, ...]) -> bool:
        """Whether these edits can be made at once."""
        try:
            return len({self.edits[name][1] for name in chosen}) == 1 and bool(self.trees(chosen))
        except ValueError:
            return False

    def trees(self, chosen: tuple[str, ...]) -> dict[Callable, ast.FunctionDef]:
        """The functions of the page that are edited; ValueError for an edit of what does not stand there."""
        trees: dict[Callable, ast.FunctionDef] = {}
        for name in chosen:
            rewrites, of_pullback = self.edits[name]
            for pattern, form in rewrites:
                done = False
                for one in Opened.of(self.operation).all():
                    edit = Rewriting(pattern, form, of_pullback=of_pullback)
                    tree: Any = edit.visit(copy.deepcopy(trees.get(one.function, one.tree)))
                    if edit.count:
                        trees[one.function], done = tree, True
                        before, after = edit.lines[0]
                        line = f"{one.file}:{one.line(before)}  {ast.unparse(before)} → {ast.unparse(after)}"
                        self.lines.setdefault(name, line)
                        break
                if not done:
                    raise ValueError(f"{self.operation.__name__}: {name}: nothing on the page is {pattern}")
        return trees


def named_edits(
    operation: Callable,
    layers: tuple[str, ...],
    edits: Named,
    *,
    of_vjp: Named | None = None,
    narrow: Named | None = None,
    narrow_of_vjp: Named | None = None,
    in_bfloat16: Named | None = None,
    words: Mapping[str, Any] | None = None,
) -> list[Mutant]:
    """Known mistakes of a page, as edits of its lines.

    Those `of_vjp` stand in the VJP; `narrow` are those of rounding, `in_bfloat16` those whose sums are. `words` are
    what edits may use beside what the page does.
    """
    template, found = EditedPage(operation, words or {}), []
    kinds: tuple[tuple[Named | None, bool, dict[str, Any]], ...] = (
        (edits, False, {}),
        (of_vjp, True, {}),
        (narrow, False, {"narrow": True}),
        (narrow_of_vjp, True, {"narrow": True}),
        (in_bfloat16, False, {"rounded": "bfloat16"}),
    )
    for table, of_pullback, kind in kinds:
        for says, rewrites in (table or {}).items():
            template.edits[says] = [rewrites] if isinstance(rewrites, tuple) else list(rewrites), of_pullback
            found.append(Mutant(says, layers, template, {says: True}, **kind))
    return found


def line_of(mutant: Mutant) -> str:
    """Which line of a page is another in a mistake; "" where it is no edit of one."""
    if mutant.where or not isinstance(mutant.template, EditedPage):
        return mutant.where
    mutant.template.trees(tuple(mutant.switches))
    return "; ".join(mutant.template.lines[name] for name in mutant.switches)
