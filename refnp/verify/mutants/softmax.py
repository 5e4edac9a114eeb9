"""Mutants of softmax, its logarithm, and the logarithm of a sum of exponentials."""

import math

import numpy as np

from refnp import autograd as ag
from refnp import layers
from refnp.autograd.primitives import raw
from refnp.numbers.words import logarithm, nonzero
from refnp.verify.edits.edited import Named, named_edits
from refnp.verify.edits.traced import lifted
from refnp.verify.mutants.mutant import Mistakes, family, held, summed_in


def exponentials(x, axis, *, largest=True, sum_bits=None, more=0.0, eps=0.0):
    """e_i = exp(x_i − m), Σ e_i, and m, the largest x, a constant; 0, 0 and 0 in a row of −∞."""
    m = np.max(raw(x).real, axis=axis, keepdims=True, initial=-np.inf)
    m = np.where(np.isfinite(m), m, 0) if largest else np.zeros_like(m)
    e = ag.exp(x - m)
    total = ag.sum(e, axis, keepdims=True) if sum_bits is None else summed_in(e, axis, bits=sum_bits)
    total = total + eps if eps else total
    return e, total + more * np.exp(-m) if more else total, m


def weights(x, axis=-1, *, constant=False, **switches):
    """p_i = e_i/Σ_j e_j; 0 in a row of −∞."""
    if not switches and not constant:
        return layers.softmax(x, axis=axis)
    e, total, _ = exponentials(x, axis, **switches)
    total = held(total) if constant else total
    return e / ag.where(raw(total).real == 0, 1.0, total)


def axis_of(x, axis, over):
    """The axis that is asked for, or another."""
    return {"": axis, "first": 0, "last": -1, "all": tuple(range(x.ndim))}[over]


def log_softmax(x, *, axis=-1, form="log of the sum"):
    """y_i = x_i − m − log Σ_j exp(x_j − m), as others form it."""
    if form == "log of p":
        return ag.log(weights(x, axis))
    _, total, m = exponentials(x, axis)
    return x - (m + ag.log(total)) if form.endswith("first") else (x - m) - ag.log(total)


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


NO_MAXIMUM: Mistakes = {"the maximum were not subtracted": {"largest": False}}
IN_BFLOAT16: Mistakes = {"the exponentials were added up in bfloat16": {"sum_bits": 8}}
CANCELS: Mistakes = {  # a log p near 0 is lost
    "log Σ exp(x − m) were formed as it stands, with the largest term in the sum": {"form": "log of the sum"},
    "m + log Σ exp(x − m) were formed first, and subtracted from x": {"form": "log of the sum first"},
}
EPSILON: Mistakes = {
    "1e-8 were added to the sum of exponentials": {"eps": 1e-8},
    "1e-12 were added to the sum of exponentials": {"eps": 1e-12},
}
ONE_MORE: Mistakes = {"1 were added to the sum of exponentials": {"more": 1.0}}
OF_LOGSUMEXP: Mistakes = {
    "the exponentials were averaged, not summed": {"form": "mean"},
    "it were the maximum": {"form": "largest"},
    **ONE_MORE,
    "the logarithm were that of base 2": {"base": 2.0},
    "the logarithm were that of base 10": {"base": 10.0},
    "−∞ were subtracted from −∞ where all are −∞": {"form": "−∞ − −∞"},
}
SUM, SHARES, LOG_P = "e.sum(-1, keepdims=True)", "shares(e)", "shifted - np.log1p(rest)"
WORDS = {"summed_in": lifted(summed_in), "logarithm": logarithm}
OF_SOFTMAX: Named = {
    "1 were added to the sum of exponentials": (SHARES, f"e / nonzero({SUM} + np.exp(-peak(x)))"),
    "1e-8 were added to the sum of exponentials": (SUM, f"{SUM} + 1e-8"),
    "1e-12 were added to the sum of exponentials": (SUM, f"{SUM} + 1e-12"),
    "the sum of exponentials were a constant in the gradient": (SUM, f"held({SUM})"),
    "logits were halved": ("x - peak(x)", "(x - peak(x)) / 2"),
}
OF_LOG_SOFTMAX: Named = {
    "1 were added to the sum of exponentials": ("np.log1p(rest)", "np.log1p(rest + np.exp(-peak(x)))"),
    "the sum of exponentials were a constant in the gradient": ("np.log1p(rest)", "held(np.log1p(rest))"),
    "the logarithm were that of base 2": (LOG_P, f"({LOG_P}) / logarithm(2)"),
    "the logarithm were that of base 10": (LOG_P, f"({LOG_P}) / logarithm(10)"),
}
MUTANTS = [
    *named_edits(
        layers.softmax,
        ("softmax",),
        OF_SOFTMAX,
        narrow={
            "the maximum were not subtracted": ("x - peak(x)", "x"),
            "x were multiplied by log₂ e for powers of 2 before the maximum was subtracted": (
                "x - peak(x)",
                "(x * log2e - peak(x * log2e)) * log2",
            ),
        },
        narrow_of_vjp={
            "the gradient p (p̄ − Σ p p̄) were formed as it stands, which cancels where p is nearly 1": (
                "softmax_vjp(p, p_bar)",
                "p * (p_bar - (p * p_bar).sum(-1, keepdims=True))",
            )
        },
        in_bfloat16={"the exponentials were added up in bfloat16": (SUM, "summed_in(e, -1, bits=8)")},
        words={**WORDS, "log2e": math.log2(math.e), "log2": math.log(2), "nonzero": nonzero},
    ),
    *named_edits(
        layers.log_softmax,
        ("log_softmax",),
        OF_LOG_SOFTMAX,
        narrow={
            "the maximum were not subtracted": (LOG_P, "x - np.log(np.exp(x).sum(-1, keepdims=True))"),
            "log Σ exp(x − m) were formed as it stands, with the largest term in the sum": (
                LOG_P,
                f"shifted - np.log({SUM})",
            ),
            "m + log Σ exp(x − m) were formed first, and subtracted from x": (LOG_P, f"x - (peak(x) + np.log({SUM}))"),
            "it were the logarithm of the softmax": (LOG_P, f"np.log(e / {SUM})"),
        },
        narrow_of_vjp={
            "the gradient ȳ − p Σ ȳ were formed as it stands, which cancels where p is nearly 1": (
                "(np.where(nothing, 0, x_bar),)",
                "(y_bar - p * y_bar.sum(-1, keepdims=True),)",
            )
        },
        in_bfloat16={
            "the exponentials were added up in bfloat16": (LOG_P, "shifted - np.log(summed_in(e, -1, bits=8))")
        },
        words=WORDS,
    ),
    *family(logsumexp, ("logsumexp",), OF_LOGSUMEXP, narrow=NO_MAXIMUM | IN_BFLOAT16),
]
