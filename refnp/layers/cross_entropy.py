"""Cross-entropy: minus the logarithm of the probability that a prediction gives to what was observed.

    cross_entropy   −Σ_c w_c q_c log p_c,   p = softmax(logits), q the target

Words: layers/__init__.py.
Transcription: tests/transcriptions/probability.py.   Kernel: refnp/kernels/cross_entropy.py.
Source: Szegedy et al. (2016).
"""

import numpy as np

from refnp.autograd.pages import page
from refnp.kernels import cross_entropy as kernels
from refnp.layers.loss import REDUCTION, reduced, times
from refnp.layers.softmax import log_softmax
from refnp.numbers.parts import part
from refnp.numbers.words import arange, constant


@page(
    "logits (..., V ≥ 1), targets whole < V except ignore_index (...) or probability (..., V) → () or (...)",
    ignore_index="whole?",
    label_smoothing="in [0, 1)",
    smoothing="uniform | off_target | without_pad",
    class_weights="weights (V)?",
    **REDUCTION,
    needs="not ignore_index is given and smoothing = uniform if targets = probability, leave these options out, "
    "or pass numbers of classes as targets;"
    "V ≥ 2 if smoothing = off_target, pass logits of 2 or more classes;"
    "V ≥ 3 if smoothing = without_pad, pass logits of 3 or more classes;"
    "ignore_index is given and 0 ≤ ignore_index < V if smoothing = without_pad, pass the padding class, "
    "0 to V − 1, as ignore_index",
    kernel=kernels.cross_entropy,
)
def cross_entropy(
    logits,
    targets,
    *,
    ignore_index=None,
    label_smoothing=0.0,
    smoothing="uniform",
    class_weights=None,
    reduction="mean",
):
    """Cross-entropy of the target y of each row with p = softmax(logits), ℓ = −Σ_c w_c q_c log p_c.

    Without smoothing q is 1 at y and 0 elsewhere. With ε = `label_smoothing` a part of it is given to the V classes, in
    one of three ways, which `smoothing` names:

        "uniform"       q_y = 1 − ε + ε/V, ε/V elsewhere       PyTorch, Keras, optax
        "off_target"    q_y = 1 − ε, ε/(V − 1) elsewhere       tensor2tensor, fairseq
        "without_pad"   q_y = 1 − ε, ε/(V − 2) elsewhere, 0 for the padding class, which is `ignore_index`
                                                               OpenNMT-py 2, the Annotated Transformer

    Floating targets (..., V) are q itself, the probabilities of the classes in each row, as a teacher or soft labels
    give them; that they sum to 1 is not checked. "uniform" smoothing makes (1 − ε) q + ε/V of them.
    A row whose class is `ignore_index` does not count: no loss and no gradient, whatever its logits; there is none of
    it beside probabilities.

    Shapes: logits (..., V), classes last since rows are tokens (PyTorch has them second); targets (...) integers, or
    (..., V) floats; class_weights w (V,) → a number, or (...) for reduction="none".
    "mean" divides by Σ_n w_{y_n} over the rows that count, a weighted mean as in PyTorch (Keras: by their number), and
    is 0 where none does; with targets that are probabilities by the number of rows, as in PyTorch.
    A logit of −∞ gives its class probability 0: a loss of +∞ if w_c q_c is not 0 there, no effect on ℓ and x̄ if it is.
    Raises TypeError for targets that are neither integers nor floats, ValueError for a class out of range (naming it),
    a probability outside [0, 1], shapes that do not fit, weights that are negative or not finite, ε outside [0, 1), too
    few classes for the way of smoothing, or an option that probabilities do not have.
    VJP: with ∂(log p_c)/∂x_i = δ_ci − p_i and Q = Σ_c w_c q_c,

        x̄_i = ℓ̄ (Q p_i − w_i q_i)        q̄_i = −ℓ̄ w_i log p_i (times 1 − ε)

    x̄ is the gradient of `log_softmax`, which keeps the digits of p_y − 1 as p_y → 1.

    Source: Szegedy et al. (2016), §7; Vaswani et al. (2017) §5.4.
    """
    weights = 1 if class_weights is None else class_weights  # w
    epsilon, classes, of_classes = constant(label_smoothing), logits.shape[-1], targets.ndim < logits.ndim
    if of_classes:
        hit = targets[..., None] == arange(classes)  # (..., V)
        present = targets != ignore_index  # (...)   which rows count
        own, other = smoothed(classes, epsilon, smoothing)  # q_y, and q_c of every other class
        q = np.where(hit, own.like(logits), other.like(logits))  # (..., V)   rounded as logits are
        q = np.where(~hit & (arange(classes) == ignore_index), 0, q) if smoothing == "without_pad" else q
        count = np.where(hit & present[..., None], weights, 0).sum()
    else:
        present = np.ones(targets.shape[:-1], bool)  # (...)
        q, count = (1 - epsilon) * targets + epsilon / classes, present.size  # (..., V), ()
    a = q if class_weights is None else weights * q  # (..., V)   w_c q_c
    log_p, log_p_vjp = log_softmax.page(np.where(present[..., None], logits, 0))  # (..., V)
    rows = -times(a, log_p).sum(-1)  # (...)   −Σ_c a_c log p_c, in which 0 · ∞ is 0
    loss, share = reduced(rows, present, reduction, count)  # their mean, Σ or all; and from ℓ̄ to the gradient of each

    def vjp(loss_bar):
        bar = share(loss_bar)[..., None]  # (..., 1)   ℓ̄, over the count in a mean, 0 for a row that does not count
        (x_bar,) = log_p_vjp(-(bar * a))  # (..., V)
        q_bar = None if of_classes else -(bar * (1 - epsilon) * weights * log_p)  # (..., V)
        return x_bar, q_bar

    return loss, vjp


@part
def smoothed(classes, epsilon, smoothing):
    """The part q_c of the target's class, and of every other."""
    if smoothing == "uniform":
        return 1 - epsilon + epsilon / classes, epsilon / classes
    return 1 - epsilon, epsilon / max(classes - (2 if smoothing == "without_pad" else 1), 1)
