"""Mutants of activations: other forms and other constants."""

import numpy as np

from refnp import layers
from refnp.numbers.words import erf, pi, root
from refnp.verify.edits.edited import named_edits

HARD, HALF_OF_TANH = "np.minimum(np.maximum(x / 6 + 0.5, 0), 1)", "(1 + np.tanh(x / 2)) / 2"
BELOW, POSITIVE = "a * np.expm1(below)", "np.where(x > 0, x, {})"


def one_plus_erf(x):
    """½ (1 + erf(x/√2)), which is Φ(x)."""
    return 0.5 * (1 + erf(x / root(2)))


def one_plus_tanh(x):
    """½ (1 + tanh u), which is σ(2u)."""
    return 0.5 * (1 + np.tanh(root(2 / pi) * (x + 0.044715 * x * x * x)))


MUTANTS = [
    *named_edits(
        layers.gelu,
        ("gelu",),
        {
            "tanh were in place of erf, or erf in place of tanh": ("_t if _is else _n", "_n if _is else _t"),
            "it were x σ(1.702 x)": ("x * weight", "x * logistic(1.702 * x)"),
            "it were x σ(x), the SiLU": ("x * weight", "x * logistic(x)"),
            "it were ½ x (1 + erf(x)), without √2": ("x * weight", "x * (1 + erf(x)) / 2"),
            "0.0447 stood in front of x³, not 0.044715": ("constant(44715) / 1000000", "constant(447) / 10000"),
            "Φ(x) were a constant in the gradient": ("x * weight", "x * held(weight)"),
        },
        narrow={
            "1 + erf or 1 + tanh were formed as it stands, and cancelled on the left": [
                ("of_tanh(x)", "(one_plus_tanh(x), 0)"),
                ("of_normal(x)", "(one_plus_erf(x), 0)"),
            ]
        },
        words={"erf": erf, "one_plus_erf": one_plus_erf, "one_plus_tanh": one_plus_tanh},
    ),
    *named_edits(
        layers.relu,
        ("relu",),
        {
            "numbers above 6 were cut off": ("np.where(x <= 0, 0, x)", "np.minimum(np.where(x <= 0, 0, x), 6)"),
            "numbers below 0 were multiplied by 0.01": ("np.where(x <= 0, 0, x)", "np.where(x <= 0, 0.01 * x, x)"),
        },
    ),
    *named_edits(
        layers.leaky_relu,
        ("leaky_relu",),
        {
            "the slope were 0.01, whatever is asked for": ("constant(slope)", "constant(0.01)"),
            "the slope were 0.2": ("constant(slope)", "constant(0.2)"),
            "the slope were 0.3": ("constant(slope)", "constant(0.3)"),
            "it were max(x, 0) + a x": (POSITIVE.format("a * x"), POSITIVE.format("0") + " + a * x"),
        },
    ),
    *named_edits(
        layers.elu,
        ("elu",),
        {
            "α were 1, whatever is asked for": ("constant(alpha)", "constant(1)"),
            "it were SELU": (POSITIVE.format(BELOW), f"selu * {POSITIVE.format('alpha_of_selu * np.expm1(below)')}"),
            "it were CELU, α (e^(x/α) − 1)": (BELOW, "a * np.expm1(below / a)"),
            "it were α eˣ below 0": (BELOW, "a * np.exp(below)"),
        },
        narrow={"eˣ − 1 were formed by subtraction": ("np.expm1(below)", "np.exp(below) - 1")},
        words={"selu": 1.0507009873554805, "alpha_of_selu": 1.6732632423543772},
    ),
    *named_edits(
        layers.sigmoid,
        ("sigmoid",),
        {
            "it were the hard sigmoid, x/6 + ½ between 0 and 1": ("logistic(x)", HARD),
            "it were tanh x": ("logistic(x)", "np.tanh(x)"),
            "it were σ(1.702 x)": ("logistic(x)", "logistic(1.702 * x)"),
        },
        of_vjp={"the gradient lacked the factor 1 − σ": ("logistic_slope(x)", "y")},
        narrow={
            "σ(x) were ½ (1 + tanh(x/2)), which cancels on the left": ("logistic(x)", HALF_OF_TANH),
            "eˣ/(1 + eˣ) were formed, which overflows": ("logistic(x)", "np.exp(x) / (1 + np.exp(x))"),
        },
        narrow_of_vjp={
            "σ (1 − σ) were formed in the gradient, which cancels where σ is nearly 1": (
                "logistic_slope(x)",
                "y * (1 - y)",
            )
        },
    ),
    *named_edits(
        layers.silu,
        ("silu",),
        {
            "it were x times the hard sigmoid": ("logistic(x)", HARD),
            "it were the GELU": ("x * weight", "x * erfc(-x / root(2)) / 2"),
            "σ(x) were a constant in the gradient": ("x * weight", "x * held(weight)"),
            "it were x σ(1.702 x)": ("logistic(x)", "logistic(1.702 * x)"),
        },
        narrow={"σ(x) were ½ (1 + tanh(x/2)), which cancels on the left": ("logistic(x)", HALF_OF_TANH)},
    ),
    *named_edits(
        layers.softplus,
        ("softplus",),
        {
            "β were 1, whatever is asked for": ("constant(beta)", "constant(1)"),
            "the result were not divided by β": [
                ("rest if _one else rest / b", "rest"),
                ("np.where(x.real > 0, x, 0)", "np.where(x.real > 0, scaled, 0)"),
                ("np.where(scaled > limit, x, y)", "np.where(scaled > limit, scaled, y)"),
            ],
            "it were x above 20, without being asked for": ("np.inf if threshold is None else threshold", "20.0"),
            "x were compared with the threshold, not βx": ("scaled > limit", "x > limit"),
            "there were no threshold": ("np.inf if threshold is None else threshold", "np.inf"),
        },
        narrow={
            "log(1 + e^(βx)) were formed as it stands": (
                "np.where(scaled > limit, x, y)",
                "np.log(1 + np.exp(scaled)) / b",
            )
        },
    ),
]
