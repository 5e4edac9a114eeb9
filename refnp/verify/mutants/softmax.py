"""Mutants of softmax, its logarithm, and the logarithm of a sum of exponentials."""

import math

import numpy as np

from refnp import autograd as ag
from refnp import layers
from refnp.autograd import primitive
from refnp.autograd.primitives import raw
from refnp.verify.mutants.mutant import Mistakes, family, held, summed_in


def exponentials(x, axis, *, largest=True, sum_bits=None, more=0.0, eps=0.0):
    """e_i = exp(x_i − m), Σ e_i, and m, the largest x, a constant; 0, 0 and 0 in a row of −∞."""
    m = np.max(raw(x).real, axis=axis, keepdims=True, initial=-np.inf)
    m = np.where(np.isfinite(m), m, 0) if largest else np.zeros_like(m)
    e = ag.exp(x - m)
    total = ag.sum(e, axis, keepdims=True) if sum_bits is None else summed_in(e, axis, bits=sum_bits)
    total = total + eps if eps else total
    return e, total + more * np.exp(-m) if more else total, m


@primitive
def with_short_gradient(x, *, axis=-1, largest=True):
    """p_i = e_i/Σ_j e_j; 0 in a row of −∞.   VJP: x̄ = p (p̄ − Σ p p̄) as it stands, which cancels where p is nearly 1."""
    p = np.asarray(weights(x, axis, largest=largest))
    return p, lambda g: (p * (g - (p * g).sum(axis, keepdims=True)),)


def weights(x, axis=-1, *, temperature=1.0, constant=False, short=False, **switches):
    """p_i = e_i/Σ_j e_j; 0 in a row of −∞."""
    x = x if temperature == 1 else x / temperature
    if short:
        return with_short_gradient(x, axis=axis, **switches)
    if not switches and not constant:
        return layers.softmax(x, axis=axis)
    e, total, _ = exponentials(x, axis, **switches)
    total = held(total) if constant else total
    return e / ag.where(raw(total).real == 0, 1.0, total)


def axis_of(x, axis, over):
    """The axis that is asked for, or another."""
    return {"": axis, "first": 0, "last": -1, "all": tuple(range(x.ndim))}[over]


def softmax(x, *, axis=-1, over="", form="", **switches):
    """p_i = exp(x_i)/Σ_j exp(x_j)."""
    axis = axis_of(x, axis, over)
    if form == "powers of 2":
        y = x * math.log2(math.e)
        return weights((y - np.max(raw(y).real, axis=axis, keepdims=True)) * math.log(2), axis)
    return weights(x, axis, **switches)


@primitive
def with_short_logarithm(x, *, axis):
    """y_i = log p_i.   VJP: x̄ = ȳ − p Σ ȳ as it stands, which cancels where p is nearly 1."""
    p = np.asarray(layers.softmax(x, axis=axis))
    return np.asarray(layers.log_softmax(x, axis=axis)), lambda g: (g - p * g.sum(axis, keepdims=True),)


def log_softmax(x, *, axis=-1, over="", form="", base=math.e, constant=False, short=False, **switches):
    """y_i = x_i − m − log Σ_j exp(x_j − m)."""
    axis = axis_of(x, axis, over)
    if form == "log of p":
        return ag.log(weights(x, axis))
    if form.startswith("log of the sum"):
        _, total, m = exponentials(x, axis)
        return x - (m + ag.log(total)) if form.endswith("first") else (x - m) - ag.log(total)
    if constant or switches:
        _, total, m = exponentials(x, axis, **switches)
        return x - m - ag.log(held(total) if constant else total)
    if short:
        return with_short_logarithm(x, axis=axis)
    y = layers.log_softmax(x, axis=axis)
    return y if base == math.e else y / math.log(base)


def logsumexp(x, *, axis=-1, over="", form="", base=math.e, **switches):
    """y = m + log Σ_j exp(x_j − m)."""
    axis = axis_of(x, axis, over)
    if form == "largest":
        return ag.max(x, axis)
    if form == "−∞ − −∞":
        m = np.max(raw(x).real, axis=axis, keepdims=True)
        return ag.squeeze(ag.log(ag.sum(ag.exp(x - m), axis, keepdims=True)) + m, axis)
    if switches:
        _, total, m = exponentials(x, axis, **switches)
        nothing = raw(total) == 0
        y = ag.squeeze(ag.where(nothing, -np.inf, ag.log(ag.where(nothing, 1.0, total)) + m), axis)
    else:
        y = ag.logsumexp(x, axis)
    return y - math.log(x.shape[axis]) if form == "mean" else y / math.log(base) if base != math.e else y


AXES: Mistakes = {
    "it went along the last axis, whatever is asked for": {"over": "last"},
    "it went along the first axis": {"over": "first"},
    "it went over the whole array": {"over": "all"},
}
NO_MAXIMUM: Mistakes = {"the maximum were not subtracted": {"largest": False}}
IN_BFLOAT16: Mistakes = {"the exponentials were added up in bfloat16": {"sum_bits": 8}}
POWERS_OF_2: Mistakes = {
    "x were multiplied by log₂ e for powers of 2 before the maximum was subtracted": {"form": "powers of 2"}
}
CANCELS: Mistakes = {  # a log p near 0 is lost
    "log Σ exp(x − m) were formed as it stands, with the largest term in the sum": {"form": "log of the sum"},
    "m + log Σ exp(x − m) were formed first, and subtracted from x": {"form": "log of the sum first"},
}
OF_NOTHING: Mistakes = {"−∞ were subtracted from −∞ where all are −∞": {"form": "−∞ − −∞"}}
EPSILON: Mistakes = {
    "1e-8 were added to the sum of exponentials": {"eps": 1e-8},
    "1e-12 were added to the sum of exponentials": {"eps": 1e-12},
}
SHORT: Mistakes = {
    "the gradient p (p̄ − Σ p p̄) were formed as it stands, which cancels where p is nearly 1": {"short": True}
}
SHORT_LOGARITHM: Mistakes = {
    "the gradient ȳ − p Σ ȳ were formed as it stands, which cancels where p is nearly 1": {"short": True}
}
ONE_MORE: Mistakes = {"1 were added to the sum of exponentials": {"more": 1.0}}
CONSTANT: Mistakes = {"the sum of exponentials were a constant in the gradient": {"constant": True}}
BASE: Mistakes = {
    "the logarithm were that of base 2": {"base": 2.0},
    "the logarithm were that of base 10": {"base": 10.0},
}
MUTANTS = [
    *family(
        softmax,
        ("softmax",),
        AXES | ONE_MORE | EPSILON | CONSTANT | {"logits were halved": {"temperature": 2.0}},
        narrow=NO_MAXIMUM | SHORT | IN_BFLOAT16 | POWERS_OF_2,
    ),
    *family(
        log_softmax,
        ("log_softmax",),
        AXES | ONE_MORE | CONSTANT | BASE,
        narrow=NO_MAXIMUM
        | IN_BFLOAT16
        | CANCELS
        | SHORT_LOGARITHM
        | {"it were the logarithm of the softmax": {"form": "log of p"}},
    ),
    *family(
        logsumexp,
        ("logsumexp",),
        {
            "the exponentials were averaged, not summed": {"form": "mean"},
            "it were the maximum": {"form": "largest"},
            **ONE_MORE,
            **BASE,
            **OF_NOTHING,
        },
        narrow=NO_MAXIMUM | IN_BFLOAT16,
    ),
]
