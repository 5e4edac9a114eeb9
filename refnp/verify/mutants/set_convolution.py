"""Mutants of set convolution: the kernel, the length scale, the density."""

import functools

import numpy as np

from refnp import autograd as ag
from refnp import layers
from refnp.autograd.primitives import raw
from refnp.layers.set_convolution import matern_32, matern_52
from refnp.verify.edits.edited import Named, named_edits
from refnp.verify.edits.traced import lifted


def matern(s, root, first, second):
    """(1 + first · a + second · a²) e^(−a) with a = √(root · s), which has a gradient at 0."""
    zero = raw(s).real == 0
    a = ag.where(zero, 0.0, ag.sqrt(ag.where(zero, 1.0, s) * root))
    return (1.0 + a * first + a * a * second) * ag.exp(-a)


S, SUMS, RATIO = "(d**2).sum(-1)[..., None] / length_scale**2", "(k * v[..., None, :, :]).sum(-2)", "divided(sums, eps)"


def kernel(form: str) -> tuple[str, str]:
    """Another kernel than is asked for."""
    return "kernel(s)", f"({form}, None)"


EQ, THREE_HALVES, FIVE_HALVES = "np.exp(s / -2)", "matern(s, 3.0, 1.0, 0.0)", "matern(s, 5.0, 1.0, 1 / 3)"
NOT_SQUARED: Named = {"the length scale were not squared": (S, S.replace("length_scale**2", "length_scale"))}
MATERN: dict = {
    (matern_32, "matern_32"): {
        "√3 were left out": kernel("matern(s, 1.0, 1.0, 0.0)"),
        "it were exp(−√3 |d|/ℓ)": kernel("matern(s, 3.0, 0.0, 0.0)"),
        "the kernel were EQ": kernel(EQ),
        "the kernel were Matérn-5/2": kernel(FIVE_HALVES),
    },
    (matern_52, "matern_52"): {
        "√5 were left out": kernel("matern(s, 1.0, 1.0, 1 / 3)"),
        "a²/3 were left out": kernel("matern(s, 5.0, 1.0, 0.0)"),
        "the kernel were EQ": kernel(EQ),
        "the kernel were Matérn-3/2": kernel(THREE_HALVES),
    },
}
WORDS = {"matern": lifted(matern), "root_of_two_pi": np.sqrt(2 * np.pi)}
MUTANTS = named_edits(
    layers.set_convolution,
    ("set_convolution",),
    {
        "½ were left out of the exponent": ("np.exp(s / -2)", "np.exp(-s)"),
        "the exponent were halved once more": ("np.exp(s / -2)", "np.exp(s / -4)"),
        **NOT_SQUARED,
        "distances were not squared": (S, "np.abs(d).sum(-1)[..., None] / length_scale"),
        "the first axis alone counted": (S, "(d**2)[..., :1] / length_scale**2"),
        "the kernel were divided by √(2π) ℓ": (SUMS, f"{SUMS} / (root_of_two_pi * length_scale) ** d.shape[-1]"),
        "the density were 0": ("np.ones_like(y.sum(-1, keepdims=True))", "np.zeros_like(y.sum(-1, keepdims=True))"),
        "values were not divided by the density": (RATIO, "(sums, None)"),
        "values were divided by the number of points": (
            RATIO,
            "(np.concatenate([sums[..., :1], sums[..., 1:] / d.shape[-2]], -1), None)",
        ),
        "ε were 1e-5": ("constant(eps)", "constant(1e-5)"),
        "ε were 1e-3": ("constant(eps)", "constant(1e-3)"),
        "the density were a constant in the gradient of what is divided by it": (
            "z[..., 1:] / shifted",
            "z[..., 1:] / held(shifted)",
        ),
        "places were constants in the gradient": (
            "differences(target_x, context_x, present)",
            "held(differences(target_x, context_x, present))",
        ),
    },
    words=WORDS,
) + [
    mutant
    for (of, name), own in MATERN.items()
    for mutant in named_edits(
        functools.partial(layers.set_convolution, kernel=of),
        (f"set_convolution, {name}",),
        own | NOT_SQUARED,
        words=WORDS,
    )
]
