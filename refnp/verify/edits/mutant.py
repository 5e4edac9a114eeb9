"""What a mutant is, and what edits use beside what pages do: roundings, averaged gradients, and divisions by 0.

A mutant is a function with a line that is another (refnp/verify/edits), and two of one function are a mutant again.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from refnp.autograd import primitive
from refnp.numbers import words

_by_zero: ContextVar[bool] = ContextVar("by_zero", default=False)


@dataclass(frozen=True, eq=False)
class Mutant:
    """One known mistake in an equation: "ε stood outside the root".

    `function` takes the arguments and options of a layer's function of refnp, and its gradients are those of
    `refnp.vjp`: its own derivative, or for a mistake in the gradient alone the mistaken one. A mistake of rounding is
    `narrow`: it shows in the precision that is judged, and not in a wider one. What computes in a lower precision than
    that names it, `inside`, and is allowed what that precision is. What is `rounded` to a format at one place is to
    agree to the bit. Of two mistakes that are `mixed` one alone is of rounding. A walk back of which it is not known
    how it is formed may be one that `cancels`, and lose what is small beside ȳ. `where` is the line of a page, and what
    stands there in its place.
    """

    says: str
    template: Callable
    switches: Mapping[str, Any] = field(default_factory=dict)  # which edits of the template are made
    narrow: bool = False
    inside: str = ""
    where: str = ""
    rounded: str = ""
    cancels: bool = False
    mixed: bool = False

    @property
    def function(self) -> Callable:
        """The mistaken function."""
        return functools.partial(self.template, **self.switches)

    def together(self, other: "Mutant") -> "Mutant | None":
        """Both mistakes in one function; None where they are not of one family, or set the same switch."""
        if self.template is not other.template or self.switches.keys() & other.switches.keys():
            return None
        allows = getattr(self.template, "allows", None)  # what edits a page, whether both edits can be made
        if allows is not None and not allows((*self.switches, *other.switches)):
            return None
        says, switches = f"{self.says}, and {other.says}", {**self.switches, **other.switches}
        narrow, mixed = self.narrow or other.narrow, self.narrow != other.narrow
        return Mutant(says, self.template, switches, narrow, mixed=mixed)


def with_argument(function: Callable, i: int, change: Callable[[Any], Any]) -> Callable:
    """The function of which an argument is another."""
    return lambda *arrays, **options: function(*arrays[:i], change(arrays[i]), *arrays[i + 1 :], **options)


def nonzero(x: Any) -> Any:
    """x, and 1 in place of 0, as pages have it; within `dividing_by_zero` x itself, as code that does not ask."""
    return x if _by_zero.get() else words.nonzero(x)


@contextlib.contextmanager
def dividing_by_zero(wanted: bool) -> Iterator[None]:
    """Within this block edited pages divide by 0, if that is wanted."""
    token = _by_zero.set(wanted)
    try:
        yield
    finally:
        _by_zero.reset(token)


@primitive
def averaged(x, *, count):
    """x itself, y = x, with a part of its gradient.   VJP: x̄ = ȳ/count."""
    return +x, lambda y_bar: (y_bar / count,)


def rounded_to(x: np.ndarray, bits: int) -> np.ndarray:
    """x with `bits` bits of mantissa, ties to even: 8 for bfloat16, 11 for float16 and TF32."""
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits).astype(x.dtype)


@primitive
def stored(x, *, bits):
    """x as it comes back from an array of fewer bits.   VJP: x̄ = ȳ as it comes back."""
    return rounded_to(x, bits), lambda g: (rounded_to(g, bits),)


@primitive
def summed_in(x, axis, *, bits):
    """Σ x over axes, one term after another, each partial sum with `bits` bits of mantissa.   VJP: x̄ = ȳ."""
    total = x
    for one in axis if isinstance(axis, tuple) else (axis,):
        terms = np.moveaxis(total, one, 0)
        total = np.zeros(terms.shape[1:], x.dtype)
        for term in terms:
            total = rounded_to(total + term, bits)
        total = np.expand_dims(total, one)
    return total, lambda g: (g + np.zeros_like(x),)


@primitive
def root_of(x):
    """y = √x.   VJP: x̄ = ȳ/(2y) as it stands, NaN where both are 0, as automatic differentiation has it."""
    y = np.sqrt(x)

    def vjp(y_bar):
        with np.errstate(all="ignore"):
            return (y_bar / (2 * y),)

    return y, vjp
