"""Mutants of activations: other forms and other constants."""

import math

import numpy as np

from refnp import autograd as ag
from refnp import layers
from refnp.autograd import primitive
from refnp.autograd.primitives import raw
from refnp.verify.mutants.mutant import Mistakes, family


def gelu(x, *, approximate="none", other=False, cancels=False, form="", factor=None):
    """y = x Φ(x), or its approximation with tanh."""
    if other:
        approximate = "none" if approximate == "tanh" else "tanh"
    if cancels:
        inner = x + 0.044715 * x * x * x
        last = ag.tanh(math.sqrt(2 / math.pi) * inner) if approximate == "tanh" else ag.erf(x / math.sqrt(2))
        return x * 0.5 * (1.0 + last)
    if form == "sigmoid":
        return x * layers.sigmoid(1.702 * x)
    if form == "silu":
        return layers.silu(x)
    if form == "erf of x":
        return x * 0.5 * (1.0 + ag.erf(x))
    if factor is not None:  # in front of x³, 0.044715 in the paper
        return x * layers.sigmoid(2 * math.sqrt(2 / math.pi) * (x + factor * x * x * x))
    return layers.gelu(x, approximate=approximate)


def relu(x, *, ceiling=None, leak=0.0):
    """y = max(x, 0)."""
    y = layers.relu(x) if not leak else layers.leaky_relu(x, slope=leak)
    return y if ceiling is None else ag.minimum(y, ceiling)


def leaky_relu(x, *, slope=0.01, own_slope=None, added=False):
    """y = x or a x."""
    slope = slope if own_slope is None else own_slope
    return layers.relu(x) + slope * x if added else layers.leaky_relu(x, slope=slope)


def elu(x, *, alpha=1.0, own_alpha=None, form=""):
    """y = x or α (eˣ − 1)."""
    alpha = alpha if own_alpha is None else own_alpha
    below = ag.minimum(x, 0.0)
    if form == "scaled":  # SELU
        return 1.0507009873554805 * layers.elu(x, alpha=1.6732632423543772)
    if form == "celu":
        return ag.where(raw(x).real > 0, x, alpha * ag.expm1(below / alpha))
    if form == "exp":
        return ag.where(raw(x).real > 0, x, alpha * ag.exp(below))
    if form == "cancels":
        return ag.where(raw(x).real > 0, x, alpha * (ag.exp(below) - 1.0))
    return layers.elu(x, alpha=alpha)


def sigmoid(x, *, form="", scale=1.0):
    """y = 1/(1 + e^(−x))."""
    if form == "hard":
        return ag.clip(x / 6.0 + 0.5, 0.0, 1.0)
    if form == "e^x/(1 + e^x)":
        e = ag.exp(x)
        return e / (1.0 + e)
    if form == "tanh":
        return ag.tanh(x)
    if form == "1 + tanh":
        return (1.0 + ag.tanh(x / 2.0)) * 0.5
    if form == "y":
        return gradient_with(x, form="σ")
    return layers.sigmoid(scale * x)


@primitive
def gradient_with(x, *, form):
    """y = σ(x) with a gradient that forgets a factor.   VJP: x̄ = ȳ σ(x)."""
    y = layers.sigmoid(x)
    return y, lambda g: (g * y,)


def silu(x, *, form="", scale=1.0):
    """y = x σ(x)."""
    if form == "hard":
        return x * ag.clip(x / 6.0 + 0.5, 0.0, 1.0)
    if form == "gelu":
        return layers.gelu(x)
    if form == "1 + tanh":
        return x * sigmoid(x, form=form)
    if form == "constant":
        return x * np.asarray(layers.sigmoid(raw(x)))
    return x * layers.sigmoid(scale * x) if scale != 1 else layers.silu(x)


def softplus(x, *, beta=1.0, threshold=None, own_beta=None, own_threshold=None, form=""):
    """y = log(1 + e^(βx))/β."""
    beta = beta if own_beta is None else own_beta
    threshold = threshold if own_threshold is None else own_threshold
    if form == "not divided":
        return beta * layers.softplus(x, beta=beta, threshold=threshold)
    if form == "log of 1 + exp":
        return ag.log(1.0 + ag.exp(beta * x)) / beta
    if form == "threshold of x":
        return ag.where(raw(x).real > (math.inf if threshold is None else threshold), x, layers.softplus(x, beta=beta))
    return layers.softplus(x, beta=beta, threshold=threshold)


GELU: Mistakes = {
    "tanh were in place of erf, or erf in place of tanh": {"other": True},
    "it were x σ(1.702 x)": {"form": "sigmoid"},
    "it were x σ(x), the SiLU": {"form": "silu"},
    "it were ½ x (1 + erf(x)), without √2": {"form": "erf of x"},
    "0.0447 stood in front of x³, not 0.044715": {"factor": 0.0447},
}
RELU: Mistakes = {
    "numbers above 6 were cut off": {"ceiling": 6.0},
    "numbers below 0 were multiplied by 0.01": {"leak": 0.01},
}
LEAKY: Mistakes = {
    "the slope were 0.01, whatever is asked for": {"own_slope": 0.01},
    "the slope were 0.2": {"own_slope": 0.2},
    "the slope were 0.3": {"own_slope": 0.3},
    "it were max(x, 0) + a x": {"added": True},
}
ELU: Mistakes = {
    "α were 1, whatever is asked for": {"own_alpha": 1.0},
    "it were SELU": {"form": "scaled"},
    "it were CELU, α (e^(x/α) − 1)": {"form": "celu"},
    "it were α eˣ below 0": {"form": "exp"},
}
SIGMOID: Mistakes = {
    "it were the hard sigmoid, x/6 + ½ between 0 and 1": {"form": "hard"},
    "it were tanh x": {"form": "tanh"},
    "the gradient lacked the factor 1 − σ": {"form": "y"},
    "it were σ(1.702 x)": {"scale": 1.702},
}
SILU: Mistakes = {
    "it were x times the hard sigmoid": {"form": "hard"},
    "it were the GELU": {"form": "gelu"},
    "σ(x) were a constant in the gradient": {"form": "constant"},
    "it were x σ(1.702 x)": {"scale": 1.702},
}
SOFTPLUS: Mistakes = {
    "β were 1, whatever is asked for": {"own_beta": 1.0},
    "the result were not divided by β": {"form": "not divided"},
    "it were x above 20, without being asked for": {"own_threshold": 20.0},
    "x were compared with the threshold, not βx": {"form": "threshold of x"},
    "there were no threshold": {"own_threshold": math.inf},
}
CANCELS: Mistakes = {"1 + erf or 1 + tanh were formed as it stands, and cancelled on the left": {"cancels": True}}
HALF_OF_TANH: Mistakes = {"σ(x) were ½ (1 + tanh(x/2)), which cancels on the left": {"form": "1 + tanh"}}
MUTANTS = [
    *family(gelu, ("gelu",), GELU, narrow=CANCELS),
    *family(relu, ("relu",), RELU),
    *family(leaky_relu, ("leaky_relu",), LEAKY),
    *family(elu, ("elu",), ELU, narrow={"eˣ − 1 were formed by subtraction": {"form": "cancels"}}),
    *family(
        sigmoid,
        ("sigmoid",),
        SIGMOID,
        narrow=HALF_OF_TANH | {"eˣ/(1 + eˣ) were formed, which overflows": {"form": "e^x/(1 + e^x)"}},
    ),
    *family(silu, ("silu",), SILU, narrow=HALF_OF_TANH),
    *family(
        softplus,
        ("softplus",),
        SOFTPLUS,
        narrow={"log(1 + e^(βx)) were formed as it stands": {"form": "log of 1 + exp"}},
    ),
]
