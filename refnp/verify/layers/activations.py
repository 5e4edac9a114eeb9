"""Activations, element by element: y = f(x) and x̄ = ȳ f′(x)."""

from dataclasses import replace

import numpy as np

from refnp import layers
from refnp.autograd.elementary import tanh, tanh_slope
from refnp.layers.activation import log_of_one_more, logistic, logistic_slope
from refnp.numbers import rounding
from refnp.numbers.rounding import Rounded, either, overflowing, where
from refnp.numbers.words import constant, pi, root
from refnp.verify.case import (
    Case,
    Convention,
    GradientInputs,
    KnownDefect,
    Layer,
    NotOfferedError,
    exact_gradient,
    uniform,
)
from refnp.verify.judged_pages import by_page, of_page, of_tape
from refnp.verify.layers import sixteen_bits
from refnp.verify.layers.engine import AROUND_ZERO

TWICE_ROOT = 2 * root(2 / pi)
CUBE = constant(44_715) / 1_000_000


def log_of_one_more_in_any_form(x, scaled, beta):
    """Or all of it divided by β; or as printed, which rounds more often, where e^(βx) is no large number."""
    rest = lambda: rounding.log1p(rounding.exp(where(scaled.value > 0, -scaled, scaled)))
    whole = lambda: (where(scaled.value > 0, scaled, 0) + rest()) / constant(beta)
    small = lambda: rounding.log1p(rounding.exp(where(scaled.value > 20, 0, scaled))) / constant(beta)
    return either(lambda: log_of_one_more(x, scaled, beta), whole, lambda: where(scaled.value > 20, whole(), small()))


def slope_or_printed(x, y):
    """Of tanh: 4e/(1 + e)², or 1 − y², which cancels where y is near 1."""
    return either(lambda: tanh_slope(x, y), lambda: 1 - y * y)


def printed_gelu(x, *, approximate="none"):
    """y = x/2 (1 + erf(x/√2)), y′ = ½ (1 + erf) + x φ(x); or with t = tanh u, y′ = ½ (1 + t) + ½ x (1 − t²) u′."""
    if approximate == "tanh":
        t = rounding.tanh(TWICE_ROOT * (x + CUBE * (x * x * x)) / 2)
        slope = TWICE_ROOT * (CUBE * (x * x) * 3 + 1) / 2
        weight = (t + 1) / 2
        return x * weight, lambda g: (g * (weight + x * (1 - t * t) * slope / 2),)
    weight = (rounding.erf(x * root(constant(1) / 2)) + 1) / 2
    density = rounding.exp(-(x * x) / 2) / root(2 * pi)
    return x * weight, lambda g: (g * (weight + x * density),)


def printed_elu(x, *, alpha=1.0):
    """y = α (eˣ − 1) and y′ = y + α below 0."""
    below = (rounding.exp(where(x.value > 0, 0, x)) - 1) * alpha
    return where(x.value > 0, x, below), lambda g: (where(x.value > 0, g, g * (below + alpha)),)


def printed_slope(x):
    """σ′ = σ (1 − σ)."""
    sigma = logistic(x)
    return sigma * (1 - sigma)


def printed_softplus(x, *, beta=1.0, threshold=None):
    """y = log(1 + e^(βx))/β, y′ = exp(βx − βy)."""
    z = x if beta == 1 else x * constant(beta)
    above = z.value > (np.inf if threshold is None else threshold)
    z = where(above, 0, z)
    e = overflowing(rounding.exp(z))
    inner = either(lambda: rounding.log(e + 1), lambda: rounding.log1p(e))
    y = where(above, x, inner if beta == 1 else inner / constant(beta))
    return y, lambda g: (where(above, g, g * rounding.exp(z - inner)),)


def coarse_logistic(x, *, absolute, least=-np.inf):
    """σ(x) with an absolute error, by a quotient of polynomials; and 0 below `least`."""
    sigma = logistic(x)
    u = 1 if sigma.arithmetic is None else sigma.arithmetic.u
    return where(x.value < least, 0, Rounded(sigma.value, sigma.error + absolute / u, sigma.lost, sigma.arithmetic))


def logistic_by_complement(x):
    """1 − σ(−x) to the left of 0."""
    return where(x.value < 0, 1 - logistic(where(x.value < 0, -x, x)), logistic(x))


def logarithm_of_one_more(x):
    """log(1 + eˣ): ∞ where eˣ overflows."""
    return rounding.log(overflowing(rounding.exp(x)) + 1)


def erf_form(x, *, approximate="none"):
    """The gelu with erf, whatever is asked for."""
    return printed_gelu(x)


def jax_softplus(jax, x, *, beta=1.0, threshold=None):
    """jax.nn.softplus has neither; β is in front of x and under the result."""
    if threshold is not None:
        raise NotOfferedError("JAX: softplus has no threshold")
    return jax.nn.softplus(x) if beta == 1 else jax.nn.softplus(beta * x) / beta


RELU = of_page(layers.relu, torch="nn.functional.relu", jax="nn.relu")
LEAKY_RELU = of_page(
    layers.leaky_relu,
    torch=lambda torch, x, slope=0.01: torch.nn.functional.leaky_relu(x, negative_slope=slope),
    jax=lambda jax, x, slope=0.01: jax.nn.leaky_relu(x, negative_slope=slope),
)
ELU = of_page(layers.elu, torch="nn.functional.elu", jax="nn.elu", known=sixteen_bits.ELU)
SIGMOID = of_page(layers.sigmoid, torch="nn.functional.sigmoid", jax="nn.sigmoid", known=sixteen_bits.SIGMOID)
TANH = of_tape(tanh, {tanh_slope: slope_or_printed}, torch="tanh", jax="numpy.tanh")
SILU = of_page(layers.silu, torch="nn.functional.silu", jax="nn.silu", known=sixteen_bits.SIGMOID)
SOFTPLUS = of_page(
    layers.softplus,
    {log_of_one_more: log_of_one_more_in_any_form},
    torch="nn.functional.softplus",
    jax=jax_softplus,
)
GELU = of_page(
    layers.gelu,
    torch="nn.functional.gelu",
    jax=lambda jax, x, approximate="none": jax.nn.gelu(x, approximate=approximate == "tanh"),  # tanh unless told
    known=sixteen_bits.GELU,
)
LAYERS = (RELU, LEAKY_RELU, ELU, SIGMOID, SILU, SOFTPLUS, GELU)
TAILS = np.array([-9.0, -5.0, -0.5, -1e-8, 1e-8, 0.5, 6.0, 9.0])


GELU_TAIL = KnownDefect(
    "PyTorch",
    "pytorch/pytorch#187806",
    "gelu as x/2 (1 + erf): 1 + erf cancels, no digit is left in the left tail",
    equation=printed_gelu,
)
GELU_TANH_TAIL = KnownDefect(
    "PyTorch",
    "gelu tanh: 1 + tanh cancels",
    "gelu(tanh) as x/2 (1 + tanh): no digit is left in the left tail; x σ(2u) keeps all",
    equation=printed_gelu,
)
JAX_GELU_TANH_TAIL = replace(GELU_TANH_TAIL, framework="JAX")
JAX_ELU_VJP = KnownDefect(
    "JAX",
    "jax-ml/jax#39795",
    "elu's gradient is expm1(x) + 1: it cancels, nothing left in the left tail",
    ("gradient of x",),
    equation=printed_elu,
)
JAX_SOFTPLUS_VJP = KnownDefect(
    "JAX",
    "softplus: gradient exp(x - y)",
    "softplus' gradient exp(x − y) takes y rounded",
    ("gradient of x",),
    equation=printed_softplus,
)
PRINTED_SIGMOID = {logistic_slope: printed_slope}
SIGMOID_VJP = KnownDefect(
    "PyTorch",
    "pytorch/pytorch#195681",
    "sigmoid's gradient forms 1 − σ with σ rounded to 1: nothing left in the right tail",
    ("gradient of x",),
    parts=PRINTED_SIGMOID,
)
JAX_SIGMOID_VJP = KnownDefect(
    "JAX",
    "jax-ml/jax#40385",
    "sigmoid's gradient forms 1 − σ with σ rounded to 1",
    ("gradient of x",),
    parts=PRINTED_SIGMOID,
)
SILU_VJP = KnownDefect(
    "PyTorch",
    "silu: gradient by 1 - sigmoid",
    "silu's gradient multiplies the rounding of 1 − σ by x",
    ("gradient of x",),
    parts=PRINTED_SIGMOID,
)
JAX_SILU_VJP = KnownDefect(
    "JAX",
    "jax-ml/jax#40385",
    "silu's gradient forms 1 − σ, and multiplies its rounding by x",
    ("gradient of x",),
    parts=PRINTED_SIGMOID,
)
SOFTPLUS_THRESHOLD = Convention(
    "PyTorch",
    "softplus is linear above 20",
    "softplus is x above threshold=20, as documented; log1p(e^−x) is 2e-9 there",
    options={"threshold": 20.0},
)
GELU_TANH_VJP = KnownDefect(
    "PyTorch",
    "gelu tanh: gradient by 1 - tanh^2",
    "gelu(tanh)'s gradient forms 1 − tanh² by subtraction",
    ("gradient of x",),
    equation=printed_gelu,
)
JAX_GELU_TANH_VJP = replace(GELU_TANH_VJP, framework="JAX")
AT_FAR_LEFT = {
    "gelu": (GELU_TAIL,),
    "gelu, tanh": (GELU_TANH_TAIL, JAX_GELU_TANH_TAIL),
    "elu": (JAX_ELU_VJP,),
    "softplus": (JAX_SOFTPLUS_VJP,),
}
AT_FAR_RIGHT = {
    "sigmoid": (SIGMOID_VJP, JAX_SIGMOID_VJP),
    "silu": (SILU_VJP, JAX_SILU_VJP),
    "softplus": (SOFTPLUS_THRESHOLD, JAX_SOFTPLUS_VJP),
    "gelu, tanh": (GELU_TANH_VJP, JAX_GELU_TANH_VJP),
}
FAR_LEFT = -np.geomspace(4.0, 80.0, 24)
FAR_RIGHT = np.geomspace(4.0, 80.0, 24)


def cases() -> list[Case]:
    """Every activation where it bends and where it no longer does, and its options."""
    x = {"x": uniform(31, low=-4, high=4)}
    return [
        Case(GELU, "at -5 and -8", {"x": np.array([-5.0, -8.0])}, {}, (GELU_TAIL,)),
        *(case for layer in LAYERS for case in four_ranges(layer)),
        *four_ranges(GELU, approximate="tanh"),
        Case(LEAKY_RELU, "slope 0.2", x, {"slope": 0.2}),
        Case(ELU, "alpha 0.5", x, {"alpha": 0.5}, (JAX_ELU_VJP,)),
        Case(SOFTPLUS, "beta 2.5", x, {"beta": 2.5}, (JAX_SOFTPLUS_VJP,)),
        Case(SOFTPLUS, "beta 0.3", x, {"beta": 0.3}),
        Case(SOFTPLUS, "threshold 20, far right", {"x": FAR_RIGHT}, {"threshold": 20.0}),
        Case(SOFTPLUS, "beta 2, threshold 3", x, {"beta": 2.0, "threshold": 3.0}),
    ]


def four_ranges(layer: Layer, **options: str) -> list[Case]:
    """Where an activation bends, and where it no longer does."""
    name = ", ".join([layer.name, *options.values()])
    prefix = "".join(f"{value}, " for value in options.values())
    low = -1.5 if layer.name == "gelu" else -3  # further left the case is one of the tail
    not_at_zero = layer.name == "leaky_relu"  # there JAX takes the other slope
    near = AROUND_ZERO[AROUND_ZERO != 0] if not_at_zero else AROUND_ZERO
    return [
        Case(layer, f"{prefix}ordinary", {"x": uniform(6, 9, low=low, high=3)}, options),
        Case(layer, f"{prefix}around zero", {"x": near}, options),
        Case(layer, f"{prefix}far left", {"x": FAR_LEFT}, options, AT_FAR_LEFT.get(name, ())),
        Case(layer, f"{prefix}far right", {"x": FAR_RIGHT}, options, AT_FAR_RIGHT.get(name, ())),
    ]


def gradient_inputs() -> list[GradientInputs]:
    """Every activation in its tails."""
    return [
        *(exact_gradient(f"{l.name}, tails", l.function, l.equation, TAILS) for l in LAYERS),
        exact_gradient("gelu, tanh, tails", layers.gelu, by_page(layers.gelu), TAILS, approximate="tanh"),
    ]
