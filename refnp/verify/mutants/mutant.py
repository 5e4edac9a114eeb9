"""What a mutant is, and the pieces that the mutants of all families are made of.

A family is one equation, written with switches: `layer_norm(x, gain, shift, *, eps=1e-5, ddof=0, outside=False, …)`.
With every switch as it stands there the equation is right; a mutant sets one of them. So two mutants of a family are
a mutant again, which makes both mistakes.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd import primitive
from refnp.autograd.primitives import raw


@dataclass(frozen=True, eq=False)
class Mutant:
    """One known mistake in an equation: "ε stood outside the root".

    `function` takes the arguments and options of the function of refnp in `layers`, and its gradients are those of
    `refnp.vjp`: its own derivative, or for a mistake in the gradient alone the mistaken one. A mistake of rounding is
    `narrow`: it shows in the precision that is judged, and not in a wider one. What computes in a lower precision than
    that names it, `inside`, and is allowed what that precision is. What is `rounded` to a format at one place is to
    agree to the bit. A walk back of which it is not known how it is formed may be one that `cancels`, and lose what is
    small beside ȳ. `where` is the line of a page, and what stands there in its place.
    """

    says: str
    layers: tuple[str, ...]
    template: Callable
    switches: Mapping[str, Any] = field(default_factory=dict)
    narrow: bool = False
    inside: str = ""
    where: str = ""
    rounded: str = ""
    cancels: bool = False

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
        shared = tuple(name for name in self.layers if name in other.layers)
        says, switches = f"{self.says}, and {other.says}", {**self.switches, **other.switches}
        return Mutant(says, shared, self.template, switches, self.narrow or other.narrow)


Mistakes = dict[str, dict[str, Any]]  # what each says, and the switches that it sets


def family(
    template: Callable, layers: tuple[str, ...], mistakes: Mistakes, *, narrow: Mistakes | None = None
) -> list[Mutant]:
    """The mutants of one template; `narrow` are those of rounding."""
    wide = [Mutant(says, layers, template, switches) for says, switches in mistakes.items()]
    return wide + [Mutant(says, layers, template, switches, narrow=True) for says, switches in (narrow or {}).items()]


def held(x: Any) -> Any:
    """x as a constant: no gradient flows through it."""
    return x.detach() if isinstance(x, ag.Tensor) else x


@primitive
def through(x, *, bar):
    """x itself, y = x, with a gradient of another's choice.   VJP: x̄ = bar(ȳ)."""
    return x + 0 * x.real, lambda g: (bar(g),)


def shared(parameter: Any, shape: tuple[int, ...], gradient: str = "sum") -> Any:
    """A parameter, broadcast. Its gradient is the sum over what it was broadcast to, or the mean, or the last alone."""
    wide = ag.broadcast_to(parameter, shape)
    if gradient == "sum":
        return wide
    count = max(np.size(raw(wide)) // max(np.size(raw(parameter)), 1), 1)
    if gradient == "mean":
        return through(wide, bar=lambda g: g / count)
    kept = np.zeros(shape, bool)
    kept[tuple(slice(-1, None) if was != now else slice(None) for was, now in _lengths(parameter, shape))] = True
    return through(wide, bar=lambda g: np.where(kept, g, 0))


def _lengths(parameter: Any, shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """The length of each axis before and after broadcasting."""
    own = np.shape(raw(parameter))
    return list(zip((0,) * (len(shape) - len(own)) + own, shape, strict=True))


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
