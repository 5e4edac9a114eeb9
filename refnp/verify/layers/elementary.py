"""Functions of elements, one by one: exp and log, sines, roots and powers, arithmetic, and choices between two numbers.

`refnp verify` has the layers that are made of them; here is what `refnp.judge` asks of one that stands alone. Cases are
at the places where a function that is right elsewhere is wrong: log1p and expm1 next to 0, log next to 1, sines of many
turns, a remainder of multiples, powers of 0, NaN in one of two numbers.
"""

from dataclasses import replace

import numpy as np

import refnp.autograd as ad
from refnp.autograd.primitives import raw
from refnp.numbers import rounding
from refnp.numbers.rounding import exact, where
from refnp.verify.case import Case, KnownDefect, Layer, normal, uniform
from refnp.verify.layers.activations import TANH
from refnp.verify.layers.engine import AROUND_ZERO
from refnp.verify.layers.linear import summed_to


def exp(x):
    """y = eˣ, x̄ = ȳ y."""
    y = rounding.exp(x)
    return y, lambda g: (g * y,)


def expm1(x):
    """y = eˣ − 1, x̄ = ȳ eˣ."""
    return rounding.expm1(x), lambda g: (g * rounding.exp(x),)


def printed_expm1(x):
    """x̄ = ȳ (y + 1), of which nothing is left where eˣ − 1 rounds to −1."""
    y = rounding.expm1(x)
    return y, lambda g: (g * (y + 1),)


def log(x):
    """y = log x, x̄ = ȳ/x."""
    return rounding.log(x), lambda g: (g / x,)


def log1p(x):
    """y = log(1 + x), x̄ = ȳ/(1 + x)."""
    return rounding.log1p(x), lambda g: (g / (x + 1),)


def sqrt(x):
    """y = √x, x̄ = ȳ/2y."""
    y = rounding.sqrt(x)
    return y, lambda g: (g / (y * 2),)


def sin(x):
    """y = sin x, x̄ = ȳ cos x."""
    return sine(x), lambda g: (g * cosine(x),)


def cos(x):
    """y = cos x, x̄ = −ȳ sin x."""
    return cosine(x), lambda g: (-(g * sine(x)),)


def sine(x):
    """sin x, whose slope is no steeper than |cos x| + δ."""
    return rounding.function(np.sin(x.value), np.minimum(np.abs(np.cos(x.value)) + x.off, 1), x)


def cosine(x):
    """cos x, whose slope is no steeper than |sin x| + δ."""
    return rounding.function(np.cos(x.value), np.minimum(np.abs(np.sin(x.value)) + x.off, 1), x)


def absolute(x):
    """y = |x|, x̄ = ȳ sign x, 0 at 0."""
    sign = exact(np.sign(x.value))
    return x.moved(np.abs), lambda g: (g * sign,)


def negative(x):
    """y = −x, x̄ = −ȳ."""
    return -x, lambda g: (-g,)


def add(x, y):
    """z = x + y, x̄ = ȳ = z̄."""
    return x + y, lambda g: summed_to((g, g), x, y)


def subtract(x, y):
    """z = x − y, x̄ = z̄, ȳ = −z̄."""
    return x - y, lambda g: summed_to((g, -g), x, y)


def multiply(x, y):
    """z = x y, x̄ = z̄ y, ȳ = z̄ x."""
    return x * y, lambda g: summed_to((g * y, g * x), x, y)


def divide(x, y):
    """z = x/y, x̄ = z̄/y, ȳ = −z̄ z/y."""
    z = x / y
    return z, lambda g: summed_to((g / y, -(g * z / y)), x, y)


def power(x, exponent):
    """z = xᵖ, x̄ = z̄ p xᵖ⁻¹ (0 where p = 0), p̄ = z̄ z log x."""
    z = powered(x, exponent)

    def pullback(g):
        slope = where(exponent.value == 0, 0, exponent * powered(x, exponent - 1))
        positive = where(x.value > 0, x, 1)
        return summed_to((g * slope, g * z * rounding.log(positive)), x, exponent)

    return z, pullback


def powered(x, exponent):
    """xᵖ of a number that is given; what p is off goes on through xᵖ log x."""
    with np.errstate(all="ignore"):
        z = x.value**exponent.value
        size = np.abs(np.log(np.where(x.value == 0, 1, np.abs(x.value))))
    return rounding.function(z, np.abs(z) * size * np.exp(size * exponent.off), exponent)


def arctan2(ordinate, abscissa):
    """z = the angle of (x, y), ȳ = z̄ x/r², x̄ = −z̄ y/r², r² = x² + y²."""
    y, x = ordinate, abscissa
    square = x * x + y * y
    z = rounding.function(np.arctan2(y.value, x.value), np.abs(x.value) / square.value, y)
    return z, lambda g: summed_to((g * x / square, -(g * y / square)), y, x)


def remainder(x, y):
    """z = x − y ⌊x/y⌋, x̄ = z̄, ȳ = −z̄ ⌊x/y⌋: exact but for one rounding where the signs differ."""
    whole = exact(np.floor_divide(x.value, y.value))
    z = rounding.function(np.remainder(x.value, y.value), 1, x, units=1)
    return z, lambda g: summed_to((g, -(g * whole)), x, y)


def maximum(x, y):
    """z = max(x, y), NaN if either is; z̄ goes to the larger."""
    return larger(x, y, np.maximum, x.value > y.value)


def minimum(x, y):
    """z = min(x, y), NaN if either is; z̄ goes to the smaller."""
    return larger(x, y, np.minimum, x.value < y.value)


def larger(x, y, choose, first):
    """The one that is chosen, x where it is `first`; half of z̄ for each where they are equal."""
    share = exact(np.where(x.value == y.value, 0.5, first))
    return rounding.arranged(choose, x, y), lambda g: summed_to((g * share, g * (1 - share)), x, y)


def clip(x, *, low, high):
    """y = min(max(x, low), high), x̄ = ȳ between the bounds, else 0."""
    inside = (x.value >= low) & (x.value <= high)
    return where(inside, x, np.clip(x.value, low, high)), lambda g: (where(inside, g, 0),)


def where_equation(x, y, *, condition):
    """z = x where the condition holds, else y; z̄ goes to the one that was taken."""
    condition = np.asarray(condition, bool)
    return where(condition, x, y), lambda g: summed_to((where(condition, g, 0), where(condition, 0, g)), x, y)


def same(name: str, function, equation, torch: str | None = None) -> Layer:
    """A function that PyTorch and JAX have by the same name, or PyTorch by another."""
    return Layer(name, function, equation, torch=torch or name, jax=f"numpy.{name}")


EXP = same("exp", ad.exp, exp)
EXPM1 = same("expm1", ad.expm1, expm1)
LOG = same("log", ad.log, log)
LOG1P = same("log1p", ad.log1p, log1p)
SQRT = same("sqrt", ad.sqrt, sqrt)
SIN = same("sin", ad.sin, sin)
COS = same("cos", ad.cos, cos)
ABSOLUTE = same("absolute", ad.absolute, absolute)
NEGATIVE = same("negative", ad.negative, negative)
ADD = same("add", ad.add, add)
SUBTRACT = same("subtract", ad.subtract, subtract)
MULTIPLY = same("multiply", ad.multiply, multiply)
DIVIDE = same("divide", ad.divide, divide)
POWER = same("power", ad.power, power, torch="pow")
ARCTAN2 = same("arctan2", ad.arctan2, arctan2)
REMAINDER = same("remainder", ad.remainder, remainder)
MAXIMUM = same("maximum", ad.maximum, maximum)
MINIMUM = same("minimum", ad.minimum, minimum)
CLIP = Layer(
    "clip",
    lambda x, *, low, high: ad.clip(x, low, high),
    clip,
    torch=lambda torch, x, *, low, high: torch.clamp(x, low, high),
    jax=lambda jax, x, *, low, high: jax.numpy.clip(x, low, high),
)
WHERE = Layer(
    "where",
    lambda x, y, *, condition: ad.where(raw(condition), x, y),
    where_equation,
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
        Case(ABSOLUTE, "around zero", {"x": AROUND_ZERO}, gradients=()),  # whose gradient at 0 is a convention
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
    special = {"x": np.array([np.nan, 1.0, np.inf, -np.inf, -1.0]), "y": np.array([1.0, np.nan, 2.0, 2.0, -2.0])}
    condition = {"condition": np.add.outer(np.arange(4), np.arange(5)) % 3 == 0}
    found = [Case(layer, "ordinary", pairs) for layer in (MAXIMUM, MINIMUM)]
    found += [Case(layer, "nan and infinity", special, gradients=()) for layer in (MAXIMUM, MINIMUM)]
    return [
        *found,
        Case(CLIP, "ordinary", {"x": normal(4, 5)}, bounds),
        Case(CLIP, "nan and infinity", {"x": np.array([np.nan, np.inf, -np.inf, 0.0])}, bounds, gradients=()),
        Case(WHERE, "ordinary", pairs, condition),
        Case(WHERE, "nan in what is not taken", {"x": np.array([1.0, np.nan]), "y": np.array([np.nan, 2.0])},
             {"condition": np.array([True, False])}),
    ]  # fmt: skip
