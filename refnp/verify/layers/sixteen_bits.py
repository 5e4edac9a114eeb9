"""What frameworks compute in formats of 16 bits by other formulas than elsewhere, found by trying every number.

Their functions of single numbers are known for it by `Layer.known`; docs/every_input.md says how many numbers each
formula explains.
"""

import functools

import numpy as np

from refnp.layers.activation import logistic, logistic_slope
from refnp.numbers import rounding
from refnp.numbers.precision import FORMATS
from refnp.numbers.rounding import Rounded, overflowing, where
from refnp.numbers.words import constant, pi, root
from refnp.verify.case import KnownDefect

COEFFICIENTS = tuple(
    constant(a) / 1_000_000_000 for a in (254_829_592, -284_496_736, 1_421_413_741, -1_453_152_027, 1_061_405_429)
)


def erf_of_five_terms(x):
    """±(1 − (a₁t + … + a₅t⁵) exp(−x²)) with t = 1/(1 + p|x|): Abramowitz and Stegun 7.1.26."""
    size = where(x.value < 0, -x, x)
    t = 1 / (size * (constant(3_275_911) / 10_000_000) + 1)
    terms = 0 * t
    for a in reversed(COEFFICIENTS):
        terms = terms * t + a
    bell = rounding.exp(-(x * x))
    y = 1 - terms * t * bell
    return where(x.value < 0, -y, y), lambda g: (g * (bell * 2 / root(pi)),)


def hyperbolic_of_large(x, *, odd):
    """(eˣ ± e⁻ˣ)/2, infinite where eˣ overflows."""
    up, down = overflowing(rounding.exp(x)), overflowing(rounding.exp(-x))
    own, other = (up - down, up + down) if odd else (up + down, up - down)
    return own / 2, lambda g: (g * (other / 2),)


def gelu_of_large(x, *, approximate="none"):
    """x (1 + erf(x/√2)) ½, infinite where x (1 + erf) overflows; of the form with erf alone."""
    if approximate != "none":
        raise ValueError(f"approximate is {approximate!r}, of which nothing is known")
    weight = rounding.erf(x * root(constant(1) / 2)) + 1
    density = rounding.exp(-(x * x) / 2) / root(2 * pi)
    return overflowing(x * weight) / 2, lambda g: (g * (weight / 2 + x * density),)


def quotient_logistic(x):
    """1/(1 + e⁻ˣ), 0 where e⁻ˣ overflows."""
    return 1 / (overflowing(rounding.exp(-x)) + 1)


def expm1_by_tanh(x):
    """(eˣ + 1) tanh(x/2), and eˣ − 1 where |x| is more than ½."""
    e = rounding.exp(x)
    y = where(np.abs(x.value) > 0.5, e - 1, (e + 1) * rounding.tanh(x / 2))
    return y, lambda g: (g * (y + 1),)


def elu_by_tanh(x, *, alpha=1.0):
    """x, and α times that below 0."""
    below, _ = expm1_by_tanh(where(x.value > 0, 0, x))
    return where(x.value > 0, x, below * alpha), lambda g: (where(x.value > 0, g, g * (below + 1) * alpha),)


def floor_of_normal(x):
    """⌊x⌋ of what is a normal number of float32, else 0."""
    tiny = np.abs(x.value) < 2.0 ** FORMATS["float32"].least
    return Rounded(np.where(tiny, 0, np.floor(x.value)), 0, 0, x.arithmetic), None


def of_outputs(framework: str, issue: str, why: str, dtypes: str, **formula) -> tuple[KnownDefect, ...]:
    """A known defect of outputs in these formats."""
    return (KnownDefect(framework, issue, why, ("output",), tuple(dtypes.split()), **formula),)


HALF = "float16 bfloat16"
ERF = of_outputs(
    "PyTorch",
    "erf in 16 bits: five terms",
    "erf of 16-bit formats is Abramowitz and Stegun's 7.1.26, off by up to 4e-7, which near 0 is more than erf itself",
    HALF,
    equation=erf_of_five_terms,
)
SINH, COSH = (
    of_outputs(
        "PyTorch",
        "sinh, cosh: overflow of exp",
        "sinh and cosh of 16-bit formats are infinite where eˣ overflows, and eˣ/2 does not",
        HALF,
        equation=functools.partial(hyperbolic_of_large, odd=odd),
    )
    for odd in (True, False)
)
GELU = of_outputs(
    "PyTorch",
    "gelu: overflow of x (1 + erf)",
    "gelu forms x (1 + erf) before it halves: infinite from 1.7e38 on; and 1 + erf cancels in the left tail",
    f"float32 {HALF}",
    equation=gelu_of_large,
)
SIGMOID = of_outputs(  # of SiLU as well, which takes it
    "JAX",
    "sigmoid in float16: overflow of exp",
    "sigmoid takes 1/(1 + e⁻ˣ) in float16, where e⁻ˣ overflows from −11.1 on: it is 0 there",
    "float16",
    computed_in="float16",
    parts={logistic: quotient_logistic, logistic_slope: lambda x: quotient_logistic(x) * quotient_logistic(-x)},
)
EXPM1, ELU = (
    of_outputs(
        "JAX",
        "expm1 in float16: tanh",
        "expm1 takes (eˣ + 1) tanh(x/2) in float16, every step rounded",
        "float16",
        computed_in="float16",
        equation=equation,
    )
    for equation in (expm1_by_tanh, elu_by_tanh)
)
FLOOR = of_outputs(
    "JAX",
    "floor of subnormal numbers",
    "floor takes what is less than the smallest normal number for 0: 0 where −1 is right",
    "float32 bfloat16",
    equation=floor_of_normal,
)
