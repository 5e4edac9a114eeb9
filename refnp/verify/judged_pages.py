"""A page as the equation by which its layer is judged."""

import inspect
from collections.abc import Callable
from typing import Any

from refnp.numbers.parts import Parts, with_parts
from refnp.numbers.rounding import Rounded


def by_page(operation: Callable, parts: Parts | None = None) -> Callable:
    """The page of an operation: output, and a pullback with gradients of the shapes of the arguments.

    `parts` stand in place of parts of the page: forms that give the same on paper and are as good, whose bound is the
    wider one (`either`). A page is never written for its bound.
    """
    form = operation.page if parts is None else with_parts(operation.page, parts, unless_others=True)  # type: ignore[attr-defined]

    def equation(*arguments: Any, **options: Any) -> tuple:
        y, vjp = form(*arguments, **options)

        def pullback(y_bar: Any) -> tuple:
            return tuple(summed_to(bar, x.shape) for bar, x in zip(vjp(y_bar), arguments, strict=False))

        return y, pullback

    equation.__doc__ = operation.__doc__
    equation.__signature__ = with_arrays(inspect.signature(operation))  # type: ignore[attr-defined]
    return equation


def with_arrays(signature: inspect.Signature) -> inspect.Signature:
    """The signature of an operation whose arguments are arrays in every case: a gain has no default of 1."""
    given = [
        p if p.kind is p.KEYWORD_ONLY or p.default is None else p.replace(default=p.empty)
        for p in signature.parameters.values()
    ]
    return signature.replace(parameters=given)


def summed_to(bar: Rounded, shape: tuple[int, ...]) -> Rounded:
    """A gradient summed over all axes along which an argument of this shape was broadcast, in one sum."""
    extra = bar.ndim - len(shape)
    repeated = tuple(extra + i for i, n in enumerate(shape) if n == 1 != bar.shape[extra + i])
    if not extra and not repeated:
        return bar
    return bar.sum((*range(extra), *repeated), keepdims=True).reshape(shape)
