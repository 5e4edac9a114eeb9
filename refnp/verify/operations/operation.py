"""An operation on view: what it is called, the function, and small inputs on which its gradient is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Operation:
    """A differentiable function and arguments for it.

    `analytic` is False where the complex step is not allowed (no function of refnp so far); `order2` is False where a
    second derivative makes no sense (the function is linear or piecewise linear). A `model` is made of operations that
    stand in the table themselves, and is checked once: in float64, first order.
    """

    name: str
    function: Callable
    args: tuple
    analytic: bool = True
    order2: bool = True
    model: bool = False
