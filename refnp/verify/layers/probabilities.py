"""Divergence and entropy of probabilities, where `categorical_kl` and `categorical_entropy` take logits; mixtures.

For `refnp.judge` alone.
"""

import numpy as np

from refnp import autograd as ag
from refnp import layers
from refnp.autograd.declaration import takes_unchecked
from refnp.autograd.primitives import raw
from refnp.verify.case import Case, normal, uniform
from refnp.verify.judged_pages import of_tape
from refnp.verify.layers.losses import probabilities


def kl_of_probabilities(probabilities_p, probabilities_q):
    """KL(p ‖ q) = Σ p (log p − log q), where a class with p = 0 counts nothing.

    Shapes: probabilities_p (..., V), probabilities_q (..., V) → (...).
    """
    counts = raw(probabilities_p) > 0
    p, q = (ag.where(counts, of, 1.0) for of in (probabilities_p, probabilities_q))
    return ag.sum(ag.where(counts, p * (ag.log(p) - ag.log(q)), 0.0), -1)


def entropy_of_probabilities(probabilities):
    """H(p) = −Σ p log p, where a class with p = 0 counts nothing.   Shapes: probabilities (..., V) → (...)."""
    counts = raw(probabilities) > 0
    p = ag.where(counts, probabilities, 1.0)
    return -ag.sum(p * ag.log(p), -1)


@takes_unchecked("y (...), logits (..., K), mean (..., K), std positive (..., K) → (...)")
def mixture_log_prob(y, logits, mean, std):
    """log p(y) = log Σ_k π_k N(y; μ_k, σ_k²), π = softmax(logits): a mixture of normal distributions.

    Shapes: y (...), logits (..., K), mean (..., K), std (..., K) → (...).
    """
    parts = layers.Normal(mean, std).log_prob(ag.expand_dims(y, -1))
    return ag.logsumexp(layers.log_softmax(logits) + parts, -1)


MIXTURE = of_tape(mixture_log_prob)
KL = of_tape(kl_of_probabilities, name="categorical_kl of probabilities")
ENTROPY = of_tape(entropy_of_probabilities, name="categorical_entropy of probabilities")


def cases() -> list[Case]:
    """Ordinary rows, nearly equal ones, classes that cannot be, and certain ones."""
    own, other = {"probabilities_p": probabilities(4, 6)}, {"probabilities_q": probabilities(4, 6)}
    zeros = np.array([[0.5, 0.5, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.25, 0.25, 0.5]])
    even = np.full((3, 4), 0.25)
    mixture = {"y": normal(5)} | of_components(3)
    far = mixture | {"mean": normal(5, 3, scale=30.0), "std": uniform(5, 3, low=0.1, high=0.5)}
    return [
        Case(MIXTURE, "ordinary", mixture),
        Case(MIXTURE, "far from every component", far),
        Case(MIXTURE, "one component", {"y": normal(5)} | of_components(1)),
        Case(KL, "ordinary", own | other),
        Case(KL, "classes that cannot be", {"probabilities_p": zeros, "probabilities_q": even}),
        Case(KL, "certain of another class", {"probabilities_p": zeros[1:2], "probabilities_q": zeros[:1]}),
        Case(ENTROPY, "ordinary", {"probabilities": probabilities(4, 6)}),
        Case(ENTROPY, "classes that cannot be", {"probabilities": zeros}),
    ]


def of_components(k: int) -> dict:
    """Logits, means and deviations of k components."""
    return {"logits": normal(5, k), "mean": normal(5, k), "std": uniform(5, k, low=0.3, high=2.0)}
