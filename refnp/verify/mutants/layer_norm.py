"""Mutants of LayerNorm and RMSNorm."""

import numpy as np

from refnp import layers
from refnp.numbers.words import constant
from refnp.verify.edits.edited import Named, named_edits
from refnp.verify.edits.mutant import summed_in
from refnp.verify.edits.traced import lifted

MEAN, SQUARES = "_v.mean(_a, keepdims=True)", "(_v ** 2).mean(_a, keepdims=True)"
WITH_EPS = f"{SQUARES} + constant(eps)"
ROOT, CENTRED = f"np.sqrt({SQUARES} + constant(eps))", "x - x.mean(_a, keepdims=True)"
ONE_PASS = "(x * x).mean(_a, keepdims=True) - x.mean(_a, keepdims=True) * x.mean(_a, keepdims=True)"

SIZE: Named = {
    "ε stood outside the root": (ROOT, f"np.sqrt({SQUARES}) + constant(eps)"),
    "the variance were at least ε, and not ε added to it": (
        f"{SQUARES} + constant(eps)",
        f"np.maximum({SQUARES}, eps)",
    ),
    "the root were left out, and x − μ divided by the variance": (ROOT, WITH_EPS),
    "the variance were divided by n − 1": (
        SQUARES,
        "(_v ** 2).sum(_a, keepdims=True) / max(count_of(x, _a) - 1, 1)",
    ),
    "the deviation were a constant in the gradient": (ROOT, f"held({ROOT})"),
}
EPSILON = ("0", "1e-12", "1e-8", "1e-6", "1e-3")
SIZE |= {f"ε were {eps}": (WITH_EPS, f"{SQUARES} + constant({eps})") for eps in EPSILON}
SIZE["ε were 1e-5, whatever is asked for"] = WITH_EPS, f"{SQUARES} + constant(1e-5)"
CENTRE: Named = {
    "the mean were not subtracted": (CENTRED, "x"),
    "the mean were a constant in the gradient": (CENTRED, "x - held(x.mean(_a, keepdims=True))"),
    "mean and deviation were constants in the gradient": [
        (CENTRED, "x - held(x.mean(_a, keepdims=True))"),
        (ROOT, f"held({ROOT})"),
    ],
}
IN_ONE_PASS: Named = {
    "the variance were taken in one pass, E[x²] − E[x]²": ("(centred ** 2).mean(_a, keepdims=True)", ONE_PASS),
    "the variance were taken in one pass, E[x²] − E[x]², and 0 where that is below 0": (
        "(centred ** 2).mean(_a, keepdims=True)",
        f"np.maximum({ONE_PASS}, 0)",
    ),
}
GAIN: Named = {
    "the gain were left out": ("gain * unit", "unit"),
    "the gain were 1 + γ": ("gain * unit", "(1 + gain) * unit"),
}
AXES: Named = {
    "statistics were taken over the first axis": (MEAN, "_v.mean(0, keepdims=True)"),
    "statistics were taken over the whole array": (MEAN, "_v.mean(None, keepdims=True)"),
}
IN_BFLOAT16: Named = {"means were added up in bfloat16": (MEAN, "summed_in(_v, -1, bits=8) / _v.shape[-1]")}
AVERAGED = "the gradient of gain and shift were averaged over rows, not summed"
LAST = "the gradient of gain and shift were that of the last row alone"
FOLDED = "x γ/σ + (β − μ γ/σ) were formed, which cancels"


def folded(x, gain, shift, eps):
    """γ x̂ + β as x s + (β − μ s), s = γ/σ."""
    mean = x.mean(-1, keepdims=True)
    scale = gain / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + constant(eps))
    return x * scale + (shift - mean * scale)


def rows(y_bar):
    """How many rows there are."""
    return max(y_bar.size // max(y_bar.shape[-1], 1), 1)


def last(bar):
    """The last row alone, and 0 in others."""
    kept = np.zeros(bar.shape, bool)
    kept[(*(slice(-1, None),) * (bar.ndim - 1), slice(None))] = True
    return np.where(kept, bar, 0)


WORDS = {"summed_in": lifted(summed_in), "folded": folded, "rows": rows, "last": last}
MUTANTS = [
    *named_edits(
        layers.layer_norm,
        ("layer_norm",),
        {
            **SIZE,
            **GAIN,
            "the shift were left out": ("_y + shift", "_y"),
            "the gain multiplied the shift too, γ (x̂ + β)": ("gain * unit + shift", "gain * (unit + shift)"),
            **CENTRE,
            **AXES,
            "statistics were taken over all but the first axis": (
                MEAN,
                "_v.mean(tuple(range(1, x.ndim)), keepdims=True)",
            ),
        },
        of_vjp={
            AVERAGED: ("(x_bar, _g, y_bar)", "(x_bar, _g / rows(y_bar), y_bar / rows(y_bar))"),
            LAST: ("(x_bar, _g, y_bar)", "(x_bar, last(_g), last(y_bar))"),
        },
        narrow={
            **IN_ONE_PASS,
            FOLDED: ("gain * unit + shift", "folded(x, gain, shift, eps)"),
        },
        in_bfloat16=IN_BFLOAT16,
        words=WORDS,
    ),
    *named_edits(
        layers.rms_norm,
        ("rms_norm",),
        {
            **SIZE,
            **GAIN,
            **AXES,
            "the mean were subtracted": [
                ("(x ** 2).mean(-1, keepdims=True)", "((x - x.mean(-1, keepdims=True)) ** 2).mean(-1, keepdims=True)"),
                ("x / nonzero(scale)", "(x - x.mean(-1, keepdims=True)) / nonzero(scale)"),
            ],
        },
        of_vjp={AVERAGED: ("y_bar * unit", "y_bar * unit / rows(y_bar)"), LAST: ("y_bar * unit", "last(y_bar * unit)")},
        in_bfloat16=IN_BFLOAT16,
        words=WORDS,
    ),
]
