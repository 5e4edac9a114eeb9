"""Activations, element by element: y = f(x) and x̄ = ȳ f′(x)."""

from __future__ import annotations

import numpy as np

from refnp.autograd.special import SQRT_HALF
from refnp.verify import rounding
from refnp.verify.rounding import WIDE, Rounded, constant, where

TWICE_ROOT = constant(2 * np.sqrt(WIDE(2) / (4 * np.arctan(WIDE(1)))))  # 2 √(2/π)
ROOT_TWO_PI = constant(np.sqrt(8 * np.arctan(WIDE(1))))


def relu(x):
    """y = max(x, 0); slope 0 at the kink."""
    return where(x.value > 0, x, 0), lambda g: (where(x.value > 0, g, 0),)


def leaky_relu(x, *, slope=0.01):
    """y = x or a x; slope a at the kink."""
    below = constant(slope)
    return where(x.value > 0, x, x * below), lambda g: (where(x.value > 0, g, g * below),)


def elu(x, *, alpha=1.0):
    """y = x or α (eˣ − 1)."""
    below = where(x.value > 0, 0, x)

    def pullback(g):
        return (where(x.value > 0, g, g * rounding.exp(below) * alpha),)

    return where(x.value > 0, x, rounding.expm1(below) * alpha), pullback


def logistic(x):
    """σ(x) = 1/(1 + e^(−x)), or eˣ/(1 + eˣ) for negative x."""
    e = rounding.exp(where(x.value > 0, -x, x))
    return where(x.value > 0, 1, e) / (e + 1)


def sigmoid(x):
    """y = σ(x), y′ = σ(x) σ(−x)."""
    return logistic(x), lambda g: (g * (logistic(x) * logistic(-x)),)


def silu(x):
    """y = x σ(x), y′ = σ(x) + x σ(x) σ(−x)."""
    sigma = logistic(x)
    return x * sigma, lambda g: (g * (sigma + x * (sigma * logistic(-x))),)


def softplus(x):
    """y = max(x, 0) + log1p(e^(−|x|)), y′ = σ(x)."""
    e = rounding.exp(where(x.value > 0, -x, x))
    return where(x.value > 0, x, 0) + rounding.log1p(e), lambda g: (g * logistic(x),)


def gelu(x, *, approximate="none"):
    """y = x Φ(x), Φ(x) = ½ erfc(−x/√2), y′ = Φ(x) + x e^(−x²/2)/√(2π).

    tanh: y = x σ(2v), v = √(2/π)(x + 0.044715 x³), y′ = σ(2v) + 2 x v′ σ(2v) σ(−2v).
    """
    if approximate == "tanh":
        cube = constant(WIDE("0.044715"))
        twice_v = TWICE_ROOT * (x + cube * (x * x * x))
        twice_slope = TWICE_ROOT * (cube * (x * x) * 3 + 1)
        weight = logistic(twice_v)
        slope = weight + x * twice_slope * (weight * logistic(-twice_v))
    else:
        weight = rounding.erfc(-(x * constant(SQRT_HALF))) / 2
        slope = weight + x * (rounding.exp(-(x * x) / 2) / ROOT_TWO_PI)
    return x * weight, lambda g: (g * slope,)


def erf(x):
    """y = erf x, y′ = 2/√π e^(−x²)."""
    slope = constant(2 / np.sqrt(4 * np.arctan(WIDE(1)))) * rounding.exp(-(x * x))
    return rounding.erf(x), lambda g: (g * slope,)


def erfc(x):
    """y = erfc x, y′ = −2/√π e^(−x²)."""
    slope = constant(-2 / np.sqrt(4 * np.arctan(WIDE(1)))) * rounding.exp(-(x * x))
    return rounding.erfc(x), lambda g: (g * slope,)


__all__ = ["Rounded", "elu", "erf", "erfc", "gelu", "leaky_relu", "logistic", "relu", "sigmoid", "silu", "softplus"]
