"""A narrower precision at one place: arguments, results, or one line of the page rounded to another format.

A rounding is deterministic: the answer agrees to the bit, or within a unit of the format where both were near a tie.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd import primitive
from refnp.numbers.precision import FORMATS, Format
from refnp.verify.case import Layer
from refnp.verify.causes.answered import Answered
from refnp.verify.causes.numbers import best_probe
from refnp.verify.causes.page_edits import is_run, lines_run, of_partial, subject
from refnp.verify.edits.around import around, in_sums
from refnp.verify.edits.edited import edited_function
from refnp.verify.edits.mutant import Mutant
from refnp.verify.edits.traced import lifted
from refnp.verify.edits.variants import Edit

LETTER = "rounded"
FLOAT32 = 23  # bits of its mantissa
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
    arguments = max((list(a.problem.arrays) for a in answered), key=len)
    every = tuple(range(len(arguments)))
    for form in formats_below(answered):
        if all(form.bits >= a.policy.stored.bits for a in answered):
            continue  # they are stored so
        kinds: dict[str, tuple[tuple[int, ...], bool]] = {}
        kinds |= {which: (every if inputs else (), results) for which, (inputs, results) in WHICH.items()}
        kinds |= {name: ((i,), False) for i, name in enumerate(arguments) if len(arguments) > 1}
        for which, (chosen, results) in kinds.items():
            function = stored_function(layer, form, inputs=chosen, results=results)
            yield Mutant(f"{which} were stored in {form.name}", function, rounded=form.name)


def stored_function(layer: Layer, form: Format, *, inputs: Collection[int], results: bool) -> Callable:
    """The layer's function with some arguments, results or both rounded."""

    def function(*arrays: Any, **options: Any) -> Any:
        given = [rounded_in(x, form=form) if i in inputs else x for i, x in enumerate(arrays)]
        y = layer.function(*given, **options)
        return rounded_in(y, form=form) if results else y

    return function


def of_lines(layer: Layer, answered: Sequence[Answered]) -> Iterator[Mutant]:
    """The layer with one expression of a line rounded, of those that are run: what a line assigns, then its parts."""
    if (function := subject(layer)) is None or (probe := best_probe(answered)) is None:
        return
    lines, forms = lines_run(function, probe), formats_below(answered)
    for what, edit in around(of_partial(function), LETTER):
        if is_run(edit.opened, edit.line, lines):
            in_format = of_any_format(function, edit)
            for form in forms:
                says, where = f"{what} were rounded to {form.name}", edit.where.replace(LETTER, f"in_{form.name}")
                yield Mutant(says, in_format(form), rounded=form.name, where=where)


@primitive
def near_float32(x, *, call):
    """x as it is stored in float32, and up to four units off, as sums are in other orders.   VJP: x̄ = ȳ.

    Each `call` has another order. Equal numbers stay equal, and so do the sums of equal rows; what float32 holds
    stays as it is.
    """
    if np.finfo(x.dtype).nmant <= FLOAT32:
        return +x, lambda y_bar: (y_bar,)
    bits = x.astype(np.float64).view(np.uint64)
    mixed = (bits ^ np.uint64(call * 0x9E3779B97F4A7C15 % 2**64)) * np.uint64(0x9E3779B97F4A7C15)  # Knuth's hash
    steps = (mixed >> np.uint64(11)) * 2.0**-50 - 4  # from −4 to 4
    near = x.astype(np.float32).astype(x.dtype)
    return np.where(near == x, x, near * (1 + steps * 2.0**-FLOAT32)), lambda y_bar: (y_bar,)


def of_places(layer: Layer, answered: Sequence[Answered]) -> Iterator[Mutant]:
    """The layer with one sum, in any order, or another expression computed in float32, where the case is wider."""
    wide = [a for a in answered if a.policy.stored.bits > FLOAT32 + 1]
    own = subject(layer)
    if len(wide) < len(answered) or own is None or (probe := best_probe(answered)) is None:
        return
    lines = lines_run(own, probe)
    function, seen = of_partial(own), set()
    for what, edit in (*in_sums(function, LETTER), *around(function, LETTER)):
        if what not in seen and is_run(edit.opened, edit.line, lines):
            seen.add(what)
            mistaken, where = in_any_order(own, edit), edit.where.replace(LETTER, "in_float32")
            yield Mutant(f"{what} were computed in float32", mistaken, narrow=True, where=where)


def in_any_order(function: Callable, edit: Edit) -> Callable:
    """The edited function, which rounds otherwise in each call."""
    calls = [0]
    words = {LETTER: lifted(lambda x: near_float32(x, call=calls[0]))}
    mistaken = edited_function(function, {edit.opened.function: edit.tree}, words, back=False)

    def once_more(*arrays: Any, **options: Any) -> Any:
        calls[0] += 1
        return mistaken(*arrays, **options)

    return once_more


def of_any_format(function: Callable, edit: Edit) -> Callable[[Format], Callable]:
    """The edited function with a rounding to a format: one function, of the format that was asked for last."""
    chosen: list[Format] = []
    rounded_one = lifted(lambda x: rounded_forward(x, form=chosen[-1]))

    def rounded_all(x: Any) -> Any:
        return (
            tuple(one if callable(one) else rounded_one(one) for one in x) if isinstance(x, tuple) else rounded_one(x)
        )

    words = {LETTER: rounded_all}
    mistaken = edited_function(function, {edit.opened.function: edit.tree}, words, back=False)

    def in_format(form: Format) -> Callable:
        def rounded(*arrays: Any, **options: Any) -> Any:
            chosen[:] = [form]
            return mistaken(*arrays, **options)

        return rounded

    return in_format


# ---- everything inside


def in_float32(*arrays, function, everything, **options):
    """The function of arrays brought to float32; its result, and the gradients, brought back."""
    return ag.astype(function(*(ag.astype(a, np.float32) for a in arrays), **options), arrays[0].dtype)


EVERYTHING, SOMETHING = "everything inside were float32", "something inside were rounded to float32"


def of_precision(layer: Layer) -> list[Mutant]:
    """All that is inside, which shows in the results, or something."""
    own = {"function": layer.function}
    return [
        Mutant(says, in_float32, {**own, "everything": says == EVERYTHING}, narrow=True, inside="float32")
        for says in (EVERYTHING, SOMETHING)
    ]
