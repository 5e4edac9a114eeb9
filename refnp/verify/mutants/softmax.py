"""Mutants of softmax, its logarithm, and the logarithm of a sum of exponentials."""

import math

import numpy as np

from refnp import autograd as ag
from refnp import layers
from refnp.autograd.primitives import raw
from refnp.numbers.words import logarithm, nonzero
from refnp.verify.edits.edited import Named, named_edits
from refnp.verify.edits.mutant import summed_in
from refnp.verify.edits.traced import lifted
from refnp.verify.layers.softmax import sum_in_log


def log_of_sum(x, axis, *, largest=True, bits=None, more=0.0, guarded=True):
    """m + log Σ exp(x_i − m), m the largest x, a constant; −∞ in a row of −∞ if that is `guarded`."""
    m = np.max(raw(x).real, axis=axis, keepdims=True, initial=-np.inf)
    m = np.where(np.isfinite(m) | (not guarded), m, 0) if largest else np.zeros_like(m)
    e = ag.exp(x - m)
    total = ag.sum(e, axis, keepdims=True) if bits is None else summed_in(e, axis, bits=bits)
    total = total + more * np.exp(-m) if more else total
    nothing = (raw(total) == 0) & guarded
    y = ag.log(ag.where(nothing, 1.0, total)) + m
    return ag.squeeze(ag.where(nothing, -np.inf, y), axis)


LOG_SUM = "autograd.logsumexp(x, axis)"
OF_LOGSUMEXP: Named = {
    "the exponentials were averaged, not summed": (LOG_SUM, f"{LOG_SUM} - np.log(x.shape[axis])"),
    "it were the maximum": (LOG_SUM, "autograd.max(x, axis)"),
    "1 were added to the sum of exponentials": (LOG_SUM, "log_of_sum(x, axis, more=1.0)"),
    "the logarithm were that of base 2": (LOG_SUM, f"{LOG_SUM} / np.log(2)"),
    "the logarithm were that of base 10": (LOG_SUM, f"{LOG_SUM} / np.log(10)"),
    "−∞ were subtracted from −∞ where all are −∞": (LOG_SUM, "log_of_sum(x, axis, guarded=False)"),
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
OF_LOGARITHM: Named = {  # a log p near 0 is lost
    "log Σ exp(x − m) were formed as it stands, with the largest term in the sum": (LOG_P, f"shifted - np.log({SUM})"),
    "m + log Σ exp(x − m) were formed first, and subtracted from x": (LOG_P, f"x - (peak(x) + np.log({SUM}))"),
    "it were the logarithm of the softmax": (LOG_P, f"np.log(e / {SUM})"),
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
            **OF_LOGARITHM,
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
    *named_edits(
        sum_in_log,
        ("logsumexp",),
        OF_LOGSUMEXP,
        narrow={
            "the maximum were not subtracted": (LOG_SUM, "log_of_sum(x, axis, largest=False)"),
            "the exponentials were added up in bfloat16": (LOG_SUM, "log_of_sum(x, axis, bits=8)"),
        },
        words={"log_of_sum": log_of_sum},
    ),
]
