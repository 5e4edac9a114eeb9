"""Rows: softmax and its logarithm, the logarithm of a sum of exponentials, and the two normalisations."""

from __future__ import annotations

import numpy as np

from refnp.verify import rounding
from refnp.verify.rounding import Rounded, constant, where


def along_last(equation):
    """Let an equation about the last axis be asked along any other: `axis`, an int."""

    def along(x, *others, axis=-1, **options):
        y, pullback = equation(x.swapaxes(axis, -1), *others, **options)

        def swapped(g):
            x_bar, *bars = pullback(g.swapaxes(axis, -1))
            return x_bar.swapaxes(axis, -1), *bars

        return y.swapaxes(axis, -1), swapped

    return along


def from_maximum(x):
    """x − m with m the row maximum (0 if that is −∞). −∞ itself is exact: it stands for weight 0."""
    m = x.value.max(-1, keepdims=True, initial=-np.inf)
    shifted = x - np.where(np.isneginf(m), 0, m)
    return Rounded(shifted.value, np.where(np.isneginf(shifted.value), 0, shifted.error))


def weights(x):
    """p_i = exp(x_i − m) / Σ_j exp(x_j − m); 0 in a row of −∞."""
    e = rounding.exp(from_maximum(x))
    total = e.sum(-1, keepdims=True)
    return e / where(total.value == 0, 1, total)


@along_last
def softmax(x):
    """p as above, x̄_i = p_i (p̄_i − Σ_j p̄_j p_j)."""
    p = weights(x)
    return p, lambda g: (p * (g - (g * p).sum(-1, keepdims=True)),)


def rest_of_sum(shifted):
    """Σ_j exp(shifted_j) without the first largest term, which is exp(0) = 1; and where that one stands."""
    largest = np.arange(shifted.shape[-1]) == shifted.value.argmax(-1)[..., None]
    return where(largest, 0, rounding.exp(shifted)).sum(-1, keepdims=True), largest


@along_last
def log_softmax(x):
    """y_i = (x_i − m) − log1p(rest).

    x̄_i = ȳ_i − p_i Σ_j ȳ_j = ȳ_i (1 − p_i) − p_i Σ_{j≠i} ȳ_j, where 1 − p of the largest is rest/(1 + rest).
    """
    shifted = from_maximum(x)
    rest, largest = rest_of_sum(shifted)
    p = rounding.exp(shifted) / (rest + 1)
    complement = where(largest, rest / (rest + 1), 1 - p)
    finite = np.isfinite(shifted.value)
    nothing = ~finite.any(-1, keepdims=True)
    y = where(finite, where(finite, shifted, 0) - rounding.log1p(rest), -np.inf)

    def pullback(g):
        n = g.shape[-1]
        others = rounding.contract("...j,ji->...i", g, 1 - np.eye(n)) if n else g
        return (where(nothing, 0, g * complement - p * others),)

    return y, pullback


@along_last
def logsumexp_kept(x):
    """y = m + log Σ exp(x_i − m), x̄_i = ȳ exp(x_i − y) = ȳ p_i; −∞ and 0 for a row of −∞."""
    m = x.value.max(-1, keepdims=True, initial=-np.inf)
    total = rounding.exp(from_maximum(x)).sum(-1, keepdims=True)
    nothing = total.value == 0
    y = where(nothing, -np.inf, rounding.log(where(nothing, 1, total)) + np.where(nothing, 0, m))
    return y, lambda g: (weights(x) * g,)


def logsumexp(x, *, axis=-1):
    """The same without the axis that was summed over."""
    y, pullback = logsumexp_kept(x, axis=axis)
    return y.moved(lambda a: a.squeeze(axis)), lambda g: pullback(g.moved(lambda a: np.expand_dims(a, axis)))


def per_feature(g, parameter):
    """Σ over all axes but the last, for a parameter of one number per feature; over all axes for a single number."""
    return g.sum(tuple(range(len(g.shape) - 1)) if parameter.shape else None)


@along_last
def layer_norm(x, gain, shift, *, eps=1e-5):
    """x̂ = (x − μ)/s, s = √(σ² + ε), y = γ x̂ + β.

    x̄ = (ŷ − mean ŷ − x̂ mean(ŷ x̂))/s with ŷ = γ ȳ;   γ̄ = Σ ȳ x̂, β̄ = Σ ȳ over rows.   Means add up in blocks.
    The mean over one element is that element, and x − μ is 0 without error.
    """
    centred = x - x.row_mean() if x.shape[-1] > 1 else rounding.exact(np.zeros(x.shape))
    s = rounding.sqrt((centred * centred).row_mean() + constant(eps))
    unit = where(s.value == 0, 0, centred / where(s.value == 0, 1, s))

    def pullback(g):
        u_bar = g * gain
        x_bar = (u_bar - u_bar.row_mean() - unit * (u_bar * unit).row_mean()) / where(s.value == 0, 1, s)
        return x_bar, per_feature(g * unit, gain), per_feature(g, shift)

    return unit * gain + shift, pullback


@along_last
def rms_norm(x, gain, *, eps=1e-5):
    """x̂ = x/s, s = √(mean x² + ε), y = γ x̂;   x̄ = (ŷ − x̂ mean(ŷ x̂))/s with ŷ = γ ȳ, γ̄ = Σ ȳ x̂ over rows."""
    s = rounding.sqrt((x * x).row_mean() + constant(eps))
    unit = x / s

    def pullback(g):
        u_bar = g * gain
        return (u_bar - unit * (u_bar * unit).row_mean()) / s, per_feature(g * unit, gain)

    return unit * gain, pullback
