"""A page, or a function made of pages, as the equation by which its layer is judged."""

import inspect
from collections.abc import Callable
from typing import Any

from refnp.autograd.derivatives import vjp
from refnp.numbers.arrays import sum_to
from refnp.numbers.parts import Parts, with_parts


def by_page(operation: Callable, parts: Parts | None = None) -> Callable:
    """The page of an operation: output, and a pullback with gradients of the shapes of the arguments.

    `parts` stand in place of parts of the page: forms that give the same on paper and are as good, whose bound is the
    wider one (`either`). A page is never written for its bound.
    """
    form = operation.page if parts is None else with_parts(operation.page, parts, unless_others=True)  # type: ignore[attr-defined]

    def equation(*arguments: Any, **options: Any) -> tuple:
        y, vjp = form(*arguments, **options)

        def pullback(y_bar: Any) -> tuple:
            return tuple(sum_to(bar, x.shape) for bar, x in zip(vjp(y_bar), arguments, strict=False))

        return y, pullback

    equation.__doc__ = operation.__doc__
    equation.__signature__ = with_arrays(inspect.signature(operation))  # type: ignore[attr-defined]
    return equation


def by_tape(function: Callable, *, other_gradient: tuple[str, ...] = ()) -> Callable:
    """A function of operations, on a tape of the numbers that it is given: output, and a pullback.

    Options that ask for an `other_gradient` than the derivative have cases that are judged and not proved.
    """

    def equation(*arguments: Any, **options: Any) -> tuple:
        return vjp(lambda *given: function(*given, **options), *arguments)

    equation.other_gradient = other_gradient  # type: ignore[attr-defined]
    equation.__doc__ = function.__doc__
    equation.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return equation


def with_arrays(signature: inspect.Signature) -> inspect.Signature:
    """The signature of an operation whose arguments are arrays in every case: a gain has no default of 1."""
    given = [
        p if p.kind is p.KEYWORD_ONLY or p.default is None else p.replace(default=p.empty)
        for p in signature.parameters.values()
    ]
    return signature.replace(parameters=given)
