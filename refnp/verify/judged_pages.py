"""A page, or a function made of pages, as the equation by which its layer is judged."""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.autograd.derivatives import vjp
from refnp.autograd.primitives import raw
from refnp.numbers.arrays import sum_to
from refnp.numbers.parts import Parts, with_parts
from refnp.numbers.rounding import Rounded, constant, either
from refnp.verify.case import Layer


def by_page(
    operation: Callable,
    parts: Parts | None = None,
    *,
    without: tuple[str, ...] = (),
    by_name: tuple[str, ...] = (),
) -> Callable:
    """The page of an operation, or a function of pages: output, and a pullback with gradients of the arguments' shapes.

    Arguments that have no gradient stand `by_name` among the options; floats in arrays there are rounded once.
    `parts` stand in place of parts of the page: forms that give the same on paper and are as good, whose bound is the
    wider one (`either`). A page is never written for its bound. `without` are options that no case has, for other
    results than the first.
    """
    page: Callable = getattr(operation, "page", operation)
    form = page if parts is None else with_parts(page, parts, unless_others=True)

    def equation(*arguments: Any, **options: Any) -> tuple:
        is_float = lambda value: isinstance(value, np.ndarray) and value.dtype.kind == "f"
        given = {name: constant(value) if is_float(value) else value for name, value in options.items()}
        y, vjp = form(*arguments, **given)

        def pullback(y_bar: Any) -> tuple:
            bars = zip(vjp(y_bar), arguments, strict=False)
            return tuple(sum_to(bar, x.shape) for bar, x in bars if x is not None)

        return y, pullback

    equation.page = page  # type: ignore[attr-defined]
    equation.__doc__ = operation.__doc__
    equation.__signature__ = with_arrays(operation, without, by_name)  # type: ignore[attr-defined]
    return equation


def by_tape(function: Callable, parts: Parts | None = None, *, other_gradient: tuple[str, ...] = ()) -> Callable:
    """A function of operations, on a tape of the numbers that it is given: output, and a pullback.

    `parts` as in `by_page`. Options that ask for an `other_gradient` than the derivative have cases that are judged and
    not proved.
    """

    def on_tape(*arguments: Any, **options: Any) -> tuple:
        return vjp(lambda *given: function(*given, **options), *arguments)

    equation: Any = functools.wraps(function)(lambda *arguments, **options: form(*arguments, **options))
    form = on_tape if parts is None else with_parts(on_tape, parts, unless_others=True)
    equation.page, equation.other_gradient = on_tape, other_gradient
    on_tape.of, on_tape.other_gradient = function, other_gradient  # type: ignore[attr-defined]
    return equation


def of_page(
    operation: Callable,
    parts: Parts | None = None,
    *,
    name: str = "",
    without: tuple[str, ...] = (),
    by_name: tuple[str, ...] = (),
    **others: Any,
) -> Layer:
    """The layer of an operation, judged `by_page` and called as the operation is; `others` as `Layer` has them."""
    equation = by_page(operation, parts, without=without, by_name=by_name)
    return Layer(name or operation.__name__, operation, equation, **others)


def of_tape(
    function: Callable,
    parts: Parts | None = None,
    *,
    name: str = "",
    other_gradient: tuple[str, ...] = (),
    **others: Any,
) -> Layer:
    """The layer of a function, judged `by_tape` and called as the function is; `others` as `Layer` has them."""
    equation = by_tape(function, parts, other_gradient=other_gradient)
    return Layer(name or function.__name__, function, equation, **others)


@dataclass(frozen=True)
class Formula:
    """What is edited where a layer's own function has no lines for it, and how that is asked as the layer is."""

    func: Callable
    asked: Callable[[Callable], Callable]

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.asked(self.func)(*arguments, **options)


def on_rows(function: Callable, result: int | None = None) -> Callable:
    """A function of arrays that have an axis more, so that a number stays an array; or one of its results."""
    row = lambda x: raw(x)[None] if hasattr(raw(x), "dtype") else x  # a float64 would be a number of the formula

    def on_arrays(*arguments: Any, **options: Any) -> Any:
        found = function(*map(row, arguments), **{name: row(x) for name, x in options.items()})
        return (found if result is None else found[result])[0]

    return on_arrays


def of_value(name: str, function: Callable, parts: Parts | None = None, **others: Any) -> Layer:
    """The layer of a function of NumPy's words whose value alone is judged, on arrays and by itself on `Rounded`.

    `parts` as in `by_page`, `others` what frameworks call it.
    """
    form = function if parts is None else with_parts(function, parts)

    on_arrays = on_rows(function)

    def equation(*arguments: Any, **options: Any) -> tuple:
        return form(*arguments, **options), None

    for one in (on_arrays, equation):
        one.__doc__, one.__name__ = function.__doc__, function.__name__
        one.__signature__ = inspect.signature(function)  # type: ignore[union-attr]
    return Layer(name, on_arrays, equation, formula=Formula(function, on_rows), **others)


def worst_of(*equations: Callable) -> Callable:
    """The first of equations that are equal on paper, all correct: the bound of each number is that of the worst."""

    def equation(*arguments: Any, **options: Any) -> tuple:
        runs = [functools.cache(functools.partial(of, *arguments, **options)) for of in equations]

        def pullback(y_bar: Any) -> tuple:
            bars = [functools.cache(lambda run=run: run()[1](y_bar)) for run in runs]
            return tuple(worst([lambda of=of, i=i: of()[i] for of in bars]) for i in range(len(arguments)))

        return worst([lambda run=run: run()[0] for run in runs]), pullback

    return functools.update_wrapper(equation, equations[0])


def worst(forms: Sequence[Callable]) -> Any:
    """`either` of these; the first, of other kinds of numbers."""
    first = forms[0]()
    return either(*forms) if isinstance(first, Rounded) else first


def with_arrays(operation: Callable, without: tuple[str, ...], by_name: tuple[str, ...]) -> inspect.Signature:
    """The signature of an operation whose arguments are arrays in every case: a gain has no default of 1.

    What is declared to be an option has a name, whether it may be given by place or not.
    """
    options, given = {*(operation.takes.options if hasattr(operation, "takes") else ()), *by_name}, []
    for p in inspect.signature(operation).parameters.values():
        if p.name in options:
            p = p.replace(kind=p.KEYWORD_ONLY)
        elif p.kind is not p.KEYWORD_ONLY and p.default is not None:
            p = p.replace(default=p.empty)
        given.append(p)
    return inspect.Signature([p for p in sorted(given, key=lambda p: p.kind) if p.name not in without])
