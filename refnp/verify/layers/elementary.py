"""Functions of elements, one by one: exp and log, sines, roots and powers, arithmetic, and choices between two numbers.

`refnp verify` has the layers that are made of them; here is what `refnp.judge` asks of one that stands alone. Cases are
at the places where a function that is right elsewhere is wrong: log1p and expm1 next to 0, log next to 1, sines of many
turns, a remainder of multiples, powers of 0, NaN in one of two numbers.
"""

from dataclasses import replace

import numpy as np

import refnp.autograd as ad
from refnp.autograd.declaration import takes_unchecked
from refnp.autograd.primitives import raw
from refnp.numbers import rounding
from refnp.verify.case import Case, KnownDefect, Layer, normal, uniform
from refnp.verify.judged_pages import of_tape
from refnp.verify.layers import sixteen_bits
from refnp.verify.layers.activations import TANH
from refnp.verify.layers.engine import AROUND_ZERO


def printed_expm1(x):
    """x̄ = ȳ (y + 1), of which nothing is left where eˣ − 1 rounds to −1."""
    y = rounding.expm1(x)
    return y, lambda g: (g * (y + 1),)


def same(name: str, function, torch: str | None = None) -> Layer:
    """A function that PyTorch and JAX have by the same name, or PyTorch by another."""
    return of_tape(function, name=name, torch=torch or name, jax=f"numpy.{name}")


@takes_unchecked("ordinate (...), abscissa (...) → (...)")
def arctan2(ordinate, abscissa):
    """z = the angle of the point (x, y)."""
    return ad.arctan2(ordinate, abscissa)


@takes_unchecked("x (...) → (...)", low="finite", high="finite")
def clip(x, *, low, high):
    """y = min(max(x, low), high)."""
    return ad.clip(x, low, high)


def chosen(x, y, *, condition):
    """z = x where the condition holds, else y."""
    return ad.where(raw(condition), x, y)


EXP = same("exp", ad.exp)
EXPM1 = replace(same("expm1", ad.expm1), known=sixteen_bits.EXPM1)
LOG = same("log", ad.log)
LOG1P = same("log1p", ad.log1p)
SQRT = same("sqrt", ad.sqrt)
SIN = same("sin", ad.sin)
COS = same("cos", ad.cos)
ABSOLUTE = same("absolute", ad.absolute)
NEGATIVE = same("negative", ad.negative)
ADD = same("add", ad.add)
SUBTRACT = same("subtract", ad.subtract)
MULTIPLY = same("multiply", ad.multiply)
DIVIDE = same("divide", ad.divide)
POWER = same("power", ad.power, torch="pow")
ARCTAN2 = same("arctan2", arctan2)
REMAINDER = same("remainder", ad.remainder)
MAXIMUM = same("maximum", ad.maximum)
MINIMUM = same("minimum", ad.minimum)
CLIP = of_tape(
    clip,
    torch=lambda torch, x, *, low, high: torch.clamp(x, low, high),
    jax=lambda jax, x, *, low, high: jax.numpy.clip(x, low, high),
    tried={"low": (-0.5, 0.3), "high": (0.75, 0.2)},  # where low > high, high
)
WHERE = of_tape(
    chosen,
    name="where",
    torch=lambda torch, x, y, *, condition: torch.where(torch.tensor(condition), x, y),
    jax=lambda jax, x, y, *, condition: jax.numpy.where(condition, x, y),
)
EXPM1_VJP = KnownDefect(
    "PyTorch",
    "expm1: gradient y + 1",
    "expm1's gradient is expm1(x) + 1: it cancels, nothing left in the left tail",
    ("gradient of x",),
    equation=printed_expm1,
)
JAX_EXPM1_VJP = replace(EXPM1_VJP, framework="JAX")
AROUND_ONE = 1 + np.array([-1e-1, -1e-3, -1e-6, 1e-6, 1e-3, 1e-1])
TURNS = np.concatenate([-np.geomspace(4, 1e5, 20), np.geomspace(4, 1e5, 20)])


def cases() -> list[Case]:
    """Each function on ordinary numbers, and where it is easily wrong."""
    return [*_of_one(), *_of_two(), *_choices()]


def _of_one():
    ordinary, positive = {"x": uniform(6, 9, low=-3, high=3)}, {"x": uniform(6, 9, low=0.1, high=5)}
    found = [Case(layer, "ordinary", ordinary) for layer in (TANH, EXP, EXPM1, SIN, COS, ABSOLUTE, NEGATIVE)]
    found += [Case(layer, "ordinary", positive) for layer in (LOG, LOG1P, SQRT)]
    found += [Case(layer, "around zero", {"x": AROUND_ZERO}) for layer in (TANH, EXP, EXPM1, LOG1P, SIN, COS)]
    magnitudes = {"x": np.geomspace(1e-30, 1e30, 30)}
    found += [Case(layer, "from 1e-30 to 1e30", magnitudes) for layer in (LOG, SQRT)]
    found += [Case(layer, "many turns", {"x": TURNS}) for layer in (SIN, COS)]
    return [
        *found,
        Case(ABSOLUTE, "around zero", {"x": AROUND_ZERO}),
        Case(TANH, "saturated", {"x": np.array([-40.0, -19.0, -9.0, 9.0, 19.0, 40.0])}, gradients=()),
        Case(EXP, "from e^-80 to e^80", {"x": np.linspace(-80, 80, 32)}),
        Case(EXPM1, "far left and right", {"x": np.linspace(-80, 80, 32)}, {}, (EXPM1_VJP, JAX_EXPM1_VJP)),
        Case(LOG, "around one", {"x": AROUND_ONE}),
        Case(LOG, "of 0", {"x": np.array([0.0, 1.0])}, gradients=()),
        Case(LOG1P, "far right, and near -1", {"x": np.array([-0.999, -0.9, 1e3, 1e6, 1e12, 1e30])}),
        Case(SQRT, "of 0", {"x": np.array([0.0, 4.0])}, gradients=()),
    ]


def _of_two():
    pairs, row = {"x": normal(4, 5), "y": normal(4, 5)}, {"x": normal(4, 5), "y": normal(5)}
    divisors = {"x": normal(4, 5), "y": uniform(4, 5, low=0.3, high=2)}
    found = [Case(layer, "ordinary", pairs) for layer in (ADD, SUBTRACT, MULTIPLY)]
    found += [Case(layer, "a row for all", row) for layer in (ADD, SUBTRACT, MULTIPLY)]
    points = {"ordinate": normal(4, 5), "abscissa": normal(4, 5)}
    turned = {"ordinate": np.array([0.0, 1.0, 0.0, -1.0, 1e-20, -1e-20]), "abscissa": np.array([1.0, 0, -1, 0, -1, -1])}
    whole = {"x": np.array([-1.5, -0.5, 0.5, 2.0]), "exponent": np.array([2.0, 3.0, -1.0, -2.0])}
    multiples = {"x": np.array([6.0, -6.0, 7.0, -7.0, 0.0, -1e-3, 1e6]), "y": np.array([3.0, 3, 3, 3, 3, 3, 0.7])}
    return [
        *found,
        Case(DIVIDE, "ordinary", divisors),
        Case(DIVIDE, "a row for all", divisors | {"y": uniform(5, low=-2, high=-0.3)}),
        Case(POWER, "ordinary", {"x": uniform(4, 5, low=0.2, high=3), "exponent": normal(4, 5)}),
        Case(POWER, "one exponent", {"x": uniform(4, 5, low=0.2, high=3), "exponent": np.array(2.5)}),
        Case(POWER, "whole powers of negative numbers", whole, gradients=("x",)),
        Case(POWER, "of 0", {"x": np.zeros(3), "exponent": np.array([0.0, 1.0, 2.0])}, gradients=()),
        Case(POWER, "of 10", {"x": np.full(13, 10.0), "exponent": np.linspace(-30, 30, 13)}),
        Case(ARCTAN2, "ordinary", points),
        Case(ARCTAN2, "all around", turned),
        Case(REMAINDER, "ordinary", {"x": normal(4, 5, scale=5), "y": uniform(4, 5, low=0.6, high=2)}),
        Case(REMAINDER, "negative divisors", {"x": normal(4, 5, scale=5), "y": uniform(4, 5, low=-2, high=-0.6)}),
        Case(REMAINDER, "multiples, and far away", multiples, gradients=()),
    ]


def _choices():
    pairs, bounds = {"x": normal(4, 5), "y": normal(4, 5)}, {"low": -0.5, "high": 0.75}
    equal = {"x": np.array([1.0, 2.0, 0.0, 3.0]), "y": np.array([1.0, 1.0, 0.0, 4.0])}
    special = {"x": np.array([np.nan, 1.0, np.inf, -np.inf, -1.0]), "y": np.array([1.0, np.nan, 2.0, 2.0, -2.0])}
    condition = {"condition": np.add.outer(np.arange(4), np.arange(5)) % 3 == 0}
    found = [Case(layer, "ordinary", pairs) for layer in (MAXIMUM, MINIMUM)]
    found += [Case(layer, "equal numbers", equal) for layer in (MAXIMUM, MINIMUM)]
    found += [Case(layer, "nan and infinity", special, gradients=()) for layer in (MAXIMUM, MINIMUM)]
    return [
        *found,
        Case(CLIP, "ordinary", {"x": normal(4, 5)}, bounds),
        Case(CLIP, "nan and infinity", {"x": np.array([np.nan, np.inf, -np.inf, 0.0])}, bounds, gradients=()),
        Case(WHERE, "ordinary", pairs, condition),
        Case(WHERE, "nan in what is not taken", {"x": np.array([1.0, np.nan]), "y": np.array([np.nan, 2.0])},
             {"condition": np.array([True, False])}),
    ]  # fmt: skip
