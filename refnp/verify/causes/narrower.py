"""A narrower precision at one place: arguments, results, or one line of the page rounded to another format.

A rounding is deterministic: the answer agrees to the bit, or within a unit of the format where both were near a tie.
"""

import ast
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd import primitive
from refnp.numbers.precision import FORMATS, Format
from refnp.verify.case import Layer
from refnp.verify.causes.answered import Answered
from refnp.verify.causes.numbers import best_probe
from refnp.verify.causes.page_edits import can_be_opened, is_run, lines_run, of_partial
from refnp.verify.edits.edited import edited_function
from refnp.verify.edits.mutant import Mutant
from refnp.verify.edits.opened import Opened
from refnp.verify.edits.traced import lifted
from refnp.verify.edits.variants import Edit, call, edited, is_one_number, statements

NARROWER = ("bfloat16", "float16", "tf32", "float8_e4m3fn", "float8_e5m2", "float32")
WHICH = {
    "inputs, output and gradients": (True, True),
    "output and gradients": (False, True),
    "inputs and gradients": (True, False),
}


@primitive
def rounded_in(x, *, form):
    """x as it is stored in a format.   VJP: x̄ = ȳ as it is stored."""
    return form.rounded(x).astype(x.dtype), lambda y_bar: (form.rounded(y_bar).astype(y_bar.dtype),)


@primitive
def rounded_forward(x, *, form):
    """x as it is stored in a format.   VJP: x̄ = ȳ."""
    return form.rounded(x).astype(x.dtype), lambda y_bar: (y_bar,)


def formats_below(answered: Sequence[Answered]) -> list[Format]:
    """The formats that are narrower than that of some case that deviates."""
    most = max(a.policy.stored.bits if not a.policy.narrow else a.policy.inside.bits for a in answered)
    return [FORMATS[name] for name in NARROWER if FORMATS[name].bits < most]


def of_storage(layer: Layer, answered: Sequence[Answered]) -> Iterator[Mutant]:
    """The layer with arguments, results or both in a narrower format."""
    for form in formats_below(answered):
        if all(form.bits >= a.policy.stored.bits for a in answered):
            continue  # they are stored so
        for which, (inputs, results) in WHICH.items():
            function = stored_function(layer, form, inputs=inputs, results=results)
            yield Mutant(f"{which} were stored in {form.name}", (layer.name,), function, rounded=form.name)


def stored_function(layer: Layer, form: Format, *, inputs: bool, results: bool) -> Callable:
    """The layer's function with arguments, results or both rounded."""

    def function(*arrays: Any, **options: Any) -> Any:
        given = [rounded_in(x, form=form) if inputs else x for x in arrays]
        y = layer.function(*given, **options)
        return rounded_in(y, form=form) if results else y

    return function


def of_lines(layer: Layer, answered: Sequence[Answered]) -> Iterator[Mutant]:
    """The layer with one line rounded, of those that are run."""
    if not can_be_opened(layer.function) or (probe := best_probe(answered)) is None:
        return
    lines = lines_run(layer.function, probe)
    for form in formats_below(answered):
        for says, edit in rounded_lines(layer.function, form.name):
            if is_run(edit.opened, edit.line, lines):
                words = {f"in_{form.name}": functools.partial(lifted(rounded_forward), form=form)}
                function = edited_function(layer.function, {edit.opened.function: edit.tree}, words, back=False)
                yield Mutant(says, (layer.name,), function, rounded=form.name, where=edit.where)


def rounded_lines(function: Callable, name: str) -> Iterator[tuple[str, Edit]]:
    """What is said, and the edit, for each line that assigns a number."""
    for one in Opened.of(of_partial(function)).all():
        for statement, of_pullback in statements(one.tree):
            if of_pullback or not is_one_number(statement):
                continue
            value = statement.value  # type: ignore[attr-defined]
            edit = edited(one, statement, (("value", None),), call(f"in_{name}", value), of_pullback=False)
            target = ast.unparse(statement.targets[0]) if isinstance(statement, ast.Assign) else ast.unparse(value)
            yield f"{target} were rounded to {name}", edit


# ---- everything inside


def in_float32(*arrays, function, everything, **options):
    """The function of arrays brought to float32; its result, and the gradients, brought back."""
    return ag.astype(function(*(ag.astype(a, np.float32) for a in arrays), **options), arrays[0].dtype)


EVERYTHING, SOMETHING = "everything inside were float32", "something inside were rounded to float32"
NAMES = [
    EVERYTHING,
    SOMETHING,
    "options such as ε were rounded to float32",
    "inputs, output and gradients were stored in bfloat16, float16, … or some of them",
    "the gradient of x were 2 times what is right, or divided by the length of an axis, or of another ȳ",
]


def of_precision(layer: Layer) -> list[Mutant]:
    """All that is inside, which shows in the results, or something."""
    own = {"function": layer.function}
    return [
        Mutant(
            says, (layer.name,), in_float32, {**own, "everything": says == EVERYTHING}, narrow=True, inside="float32"
        )
        for says in (EVERYTHING, SOMETHING)
    ]
