"""Divergence and entropy of rows of probabilities, where `categorical_kl` and `categorical_entropy` take logits.

For `refnp.judge` alone.
"""

import numpy as np

from refnp import autograd as ag
from refnp.autograd.primitives import raw
from refnp.verify import rounding
from refnp.verify.case import Case, Layer
from refnp.verify.layers.losses import probabilities
from refnp.verify.rounding import either, where


def kl_of_probabilities(probabilities_p, probabilities_q):
    """KL(p ‖ q) = Σ p (log p − log q), where a class with p = 0 counts nothing.

    Shapes: probabilities_p (..., V), probabilities_q (..., V) → (...).
    """
    counts = raw(probabilities_p) > 0
    p, q = (ag.where(counts, of, 1.0) for of in (probabilities_p, probabilities_q))
    return ag.sum(ag.where(counts, p * (ag.log(p) - ag.log(q)), 0.0), -1)


def kl_equation(probabilities_p, probabilities_q):
    """Σ p log(p/q), p̄ = k̄ (log(p/q) + 1), q̄ = −k̄ p/q; both 0 where p is."""
    counts = probabilities_p.value > 0
    p, q = (where(counts, of, 1) for of in (probabilities_p, probabilities_q))
    difference = either(lambda: rounding.log(p / q), lambda: rounding.log(p) - rounding.log(q))

    def pullback(g):
        g = g[..., None]
        return where(counts, g * (difference + 1), 0), where(counts, -(g * p / q), 0)

    return where(counts, p * difference, 0).sum(-1), pullback


def entropy_of_probabilities(probabilities):
    """H(p) = −Σ p log p, where a class with p = 0 counts nothing.   Shapes: probabilities (..., V) → (...)."""
    counts = raw(probabilities) > 0
    p = ag.where(counts, probabilities, 1.0)
    return -ag.sum(p * ag.log(p), -1)


def entropy_equation(probabilities):
    """−Σ p log p, p̄ = −h̄ (log p + 1); 0 where p is."""
    counts = probabilities.value > 0
    p = where(counts, probabilities, 1)
    log_p = rounding.log(p)
    return -((p * log_p).sum(-1)), lambda g: (where(counts, -(g[..., None] * (log_p + 1)), 0),)


KL = Layer("categorical_kl of probabilities", kl_of_probabilities, kl_equation)
ENTROPY = Layer("categorical_entropy of probabilities", entropy_of_probabilities, entropy_equation)


def cases() -> list[Case]:
    """Ordinary rows, nearly equal ones, classes that cannot be, and certain ones."""
    own, other = {"probabilities_p": probabilities(4, 6)}, {"probabilities_q": probabilities(4, 6)}
    zeros = np.array([[0.5, 0.5, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.25, 0.25, 0.5]])
    even = np.full((3, 4), 0.25)
    return [
        Case(KL, "ordinary", own | other),
        Case(KL, "classes that cannot be", {"probabilities_p": zeros, "probabilities_q": even}),
        Case(KL, "certain of another class", {"probabilities_p": zeros[1:2], "probabilities_q": zeros[:1]}),
        Case(ENTROPY, "ordinary", {"probabilities": probabilities(4, 6)}),
        Case(ENTROPY, "classes that cannot be", {"probabilities": zeros}),
    ]
