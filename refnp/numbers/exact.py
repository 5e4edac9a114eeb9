"""Numbers with as many digits as are asked for, on which the equations of `refnp.verify.layers` can be evaluated.

An equation in `Rounded` numbers calculates with whatever NumPy can calculate with. With `Number`s its value is exact,
and gradcheck takes the derivative of that, to judge a gradient element by element (`gradcheck.exact`). What an equation
knows to the digits of longdouble alone, such as π, is as good as exact beside float64.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np


class Number:
    """A number of mpmath that NumPy's functions know: np.exp of an array of objects asks each of them for its `exp`.

    It calculates with Python's and NumPy's numbers, which are taken for exact, in the precision of mpmath's context.
    """

    __slots__ = ("mpf",)

    def __init__(self, mpf: Any):
        self.mpf = mpf

    def other(self, value: Any) -> Any:
        """Another number as mpmath has it; NotImplemented for an array, which takes its elements one by one."""
        if isinstance(value, Number):
            return value.mpf
        if isinstance(value, (int, float, np.integer, np.bool)):
            return self.mpf.context.mpf(value if isinstance(value, float) else int(value))
        if isinstance(value, np.floating):
            if not np.isfinite(value):
                return self.mpf.context.mpf(float(value))
            numerator, denominator = value.as_integer_ratio()
            return self.mpf.context.mpf(numerator) / denominator
        return NotImplemented

    @property
    def real(self) -> "Number":
        """The number itself."""
        return self

    def __neg__(self) -> "Number":
        return Number(-self.mpf)

    def __abs__(self) -> "Number":
        return Number(abs(self.mpf))

    def __float__(self) -> float:
        return float(self.mpf)

    def __repr__(self) -> str:
        return f"Number({self.mpf})"

    def __hash__(self) -> int:
        return hash(self.mpf)


def _with_another(of: Callable) -> tuple[Callable, Callable]:
    """x ∘ y, and y ∘ x for a y that is no Number."""

    def forward(self: Number, value: Any) -> Any:
        if type(value) is Number:  # most often
            return Number(of(self.mpf, value.mpf))
        other = self.other(value)
        return other if other is NotImplemented else Number(of(self.mpf, other))

    def reflected(self: Number, value: Any) -> Any:
        other = self.other(value)
        return other if other is NotImplemented else Number(of(other, self.mpf))

    return forward, reflected


def _comparison(of: Callable) -> Callable:
    """Whether x is less than y, and the like."""

    def compare(self: Number, value: Any) -> Any:
        other = self.other(value)
        return other if other is NotImplemented else of(self.mpf, other)

    return compare


def _alone(name: str) -> Callable:
    """A function of mpmath as a method."""
    return lambda self: Number(getattr(self.mpf.context, name)(self.mpf))


for _name in ("add", "sub", "mul", "truediv", "pow"):
    _forward, _reflected = _with_another(getattr(operator, _name))
    setattr(Number, f"__{_name}__", _forward)
    setattr(Number, f"__r{_name}__", _reflected)
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Number, f"__{_name}__", _comparison(getattr(operator, _name)))
OF_ONE = ("exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "sinh", "cosh", "tanh", "erf", "erfc", "ncdf", "npdf")
for _name in OF_ONE:
    setattr(Number, _name, _alone(_name))
Number.arctan = _alone("atan")  # type: ignore[attr-defined]  # where NumPy has another name


def each(name: str, values: np.ndarray) -> np.ndarray:
    """A function of mpmath of every `Number` of an array."""
    return np.frompyfunc(operator.methodcaller(name), 1, 1)(values)


def as_numbers(values: np.ndarray) -> np.ndarray:
    """An array of objects, some of them `Number`s, with all of them such; without any, in the widest precision."""
    types = {type(value) for value in values.flat}
    if Number not in types:
        return values.astype(np.longdouble)
    if types == {Number}:
        return values
    one = next(value for value in values.flat if type(value) is Number)
    return np.frompyfunc(lambda value: value if type(value) is Number else Number(one.other(value)), 1, 1)(values)
