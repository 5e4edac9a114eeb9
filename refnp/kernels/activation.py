"""Activations on arrays of floats: in blocks, with one exponential, and at infinite arguments their limits.

The pages are refnp/layers/activation.py, where the equations and their gradients stand.
"""

import math

import numpy as np

from refnp.kernels.blocks import elementwise, result_block
from refnp.numbers.special import normal_cdf

VANISHES = 12_000.0  # from here on e^(−x) is 0
MODERATE = 80.0  # up to here e^x neither over- nor underflows
ROOT = math.sqrt(8 / math.pi)
CUBIC = 0.044715


@elementwise
def relu(x):
    """y = max(x, 0)."""
    # clip takes a third of the time of np.maximum(x, 0), whose loop for a single number is not vectorised
    y = np.clip(x, 0, np.inf, out=result_block())

    def vjp(y_bar):
        slope = y > 0
        if np.isnan(y.max(initial=0)):
            slope = np.where(np.isnan(y), np.nan, slope)
        return (y_bar * slope,)

    return y, vjp


@elementwise
def leaky_relu(x, *, slope):
    """y = x for x > 0, else a x."""
    factor = np.where(x > 0, 1, slope).astype(x.dtype)
    factor = np.where(np.isnan(x), np.nan, factor)
    return np.multiply(x, factor, out=result_block()), lambda y_bar: (y_bar * factor,)


@elementwise
def sigmoid(x):
    """y = σ(x)."""
    y, slope = sigmoid_of(x)
    return y, lambda y_bar: (sloped(y_bar, slope),)


@elementwise
def softplus(x, *, beta, threshold):
    """y = log(1 + e^(βx))/β; x where βx is above the threshold."""
    positive = x > 0
    with np.errstate(over="ignore"):
        scaled = x if beta == 1 else x * beta
    rest = np.log1p(np.exp(np.where(positive, -scaled, scaled)))
    y = np.where(positive, x, 0) + (rest if beta == 1 else rest / beta)
    if threshold is None:
        return y, lambda y_bar: (y_bar * sigmoid_of(scaled)[0],)
    linear = scaled > threshold
    return np.where(linear, x, y), lambda y_bar: (y_bar * np.where(linear, 1, sigmoid_of(scaled)[0]),)


@elementwise
def silu(x):
    """y = x σ(x)."""
    sigma, slope = sigmoid_of(x)
    slope *= x if is_moderate(x) else np.clip(x, -VANISHES, VANISHES)
    slope += sigma
    return weighted(x, sigma), lambda y_bar: (sloped(y_bar, slope),)


@elementwise
def gelu(x, *, approximate):
    """y = x Φ(x), or x σ(2u)."""
    near = x if is_moderate(x) else np.clip(x, -VANISHES, VANISHES)  # beyond, x² may overflow
    if approximate == "none":
        weight, slope = normal_cdf(x)
        slope *= near
    else:
        square = near * near
        double_u = square * (ROOT * CUBIC)
        double_u += ROOT
        double_u *= near
        weight, slope = sigmoid_of(double_u)
        square *= 3 * ROOT * CUBIC
        square += ROOT
        square *= near
        slope *= square
    slope += weight
    return weighted(x, weight), lambda y_bar: (sloped(y_bar, slope),)


def weighted(x, weight):
    """x · weight, for a weight that is 0 left of −VANISHES: 0 there, at −∞ too, where 0 · ∞ would be NaN."""
    if is_moderate(x):
        return np.multiply(x, weight, out=result_block())
    y = np.maximum(x, -VANISHES, out=result_block())
    y *= weight
    return y


def sloped(y_bar, slope):
    """x̄ = ȳ f'(x), written where it belongs."""
    return np.multiply(y_bar, slope, out=result_block(np.result_type(y_bar, slope)))


def is_moderate(x):
    """Whether all x are so small that neither x² nor e^x nor e^(−x) over- or underflows.

    This is for speed alone: to find the largest and the smallest takes a fifth of the care that other x need.
    """
    return bool(x.size) and bool(x.min() > -MODERATE and x.max() < MODERATE)


def sigmoid_of(x):
    """σ(x) and σ'(x) = σ(x) σ(−x), both with full relative precision in both tails: with e = e^(−|x|),

    σ = 1/(1 + e) or e/(1 + e),   σ' = e/(1 + e)².

    Where e^(−x) does not overflow, it may stand for e on both sides, and σ is 1/(1 + e).
    """
    if is_moderate(x):
        e = np.negative(x)
        np.exp(e, out=e)
        bottom = e + 1
        sigma = 1 / bottom
    else:
        e = np.exp(-np.abs(x))
        bottom = 1 + e
        sigma = np.maximum(e, x > 0) / bottom  # np.where takes ten times as long as arithmetic
    e /= bottom
    e /= bottom
    return sigma, e
