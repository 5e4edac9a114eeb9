"""Mutants of losses: what is averaged over, smoothing, weights, and constants."""

import math

import numpy as np

from refnp import autograd as ag
from refnp import layers
from refnp.autograd.primitives import raw
from refnp.verify.mutants.mutant import Mistakes, family
from refnp.verify.mutants.softmax import CANCELS
from refnp.verify.mutants.softmax import log_softmax as naive_log_softmax


def reduced(terms, reduction, *, own="", mask=None, divisor=None):
    """All terms, their sum, or their mean over those that count; or another of the three."""
    if own == "swapped":
        reduction = {"mean": "sum", "sum": "mean", "none": "none"}[reduction]
    count = np.size(raw(terms)) if mask is None or own == "all" else max(int(np.sum(mask)), 1)
    if own == "rows":
        count = max(terms.shape[0], 1)
    terms = terms if mask is None else ag.where(mask, terms, 0.0)
    if reduction == "none":
        return terms
    total = ag.sum(terms)
    return total if reduction == "sum" else total / (count if divisor is None else divisor)


def mse(prediction, target, *, reduction="mean", half=False, power=2, root=False, own=""):
    """(p − t)²."""
    difference = prediction - target
    terms = ag.absolute(difference) if power == 1 else difference * difference
    y = reduced(terms / 2 if half else terms, reduction, own=own)
    return ag.sqrt(y) if root else y


def huber(prediction, target, *, delta=1.0, reduction="mean", own_delta=None, divided=False, doubled=False, own=""):
    """½ d² up to δ, δ (|d| − ½ δ) from there."""
    delta = delta if own_delta is None else own_delta
    size = ag.absolute(prediction - target)
    bounded = ag.minimum(size, delta)
    terms = bounded * (size - bounded * 0.5)
    terms = terms / delta if divided else terms * 2 if doubled else terms
    return reduced(terms, reduction, own=own)


def gaussian_nll(mean, std, y, *, reduction="mean", spread="deviation", constant=0.5, half=0.5, log=1.0, own=""):
    """½ z² + log σ + ½ log 2π, z = (y − μ)/σ."""
    sigma = {
        "deviation": lambda s: s,
        "variance": ag.sqrt,
        "logarithm of the deviation": ag.exp,
        "logarithm of the variance": lambda s: ag.exp(s / 2),
        "squared plus": lambda s: ag.sqrt(s * s + 1e-6),
    }[spread](std)
    z = (y - mean) / sigma
    return reduced(z * z * half + log * ag.log(sigma) + constant * math.log(2 * math.pi), reduction, own=own)


def binary_cross_entropy(logits, targets, *, positive_weight=1.0, reduction="mean", weighted="yes", form="", own=""):
    """w t log(1 + e^(−x)) + (1 − t) log(1 + eˣ)."""
    x, t, weight = logits, targets, positive_weight
    terms_of = lambda x, t, w: layers.binary_cross_entropy(x, t, positive_weight=w, reduction="none")
    if form == "of probabilities":
        p = layers.sigmoid(x)
        terms = -(weight * t * ag.log(p) + (1.0 - t) * ag.log(1.0 - p))
    elif form == "square":
        terms = (layers.sigmoid(x) - t) * (layers.sigmoid(x) - t)
    elif form == "exchanged" or weighted == "no":
        terms = terms_of(-x, t if form == "exchanged" else 1.0 - t, weight)
    else:
        own_weight, factor = {"yes": (weight, 1.0), "both": (1.0, weight), "none": (1.0, 1.0)}[weighted]
        terms = terms_of(x, t, own_weight) * factor
    return reduced(terms, reduction, own=own)


def smoothed(hit, epsilon, *, spread):
    """The part of every class: 1 − ε for the target and the rest for all, or for the others."""
    classes = hit.shape[-1]
    if not epsilon:
        return hit.astype(float)
    if spread == "others":
        return np.where(hit, 1 - epsilon, epsilon / max(classes - 1, 1))
    if spread == "added":
        return hit + epsilon / classes
    if spread == "none":
        return hit.astype(float)
    return np.where(hit, 1 - epsilon + epsilon / classes, epsilon / classes)


def cross_entropy(
    logits,
    *,
    targets,
    ignore_index=None,
    label_smoothing=0.0,
    class_weights=None,
    reduction="mean",
    spread="all",
    own="",
    counted=False,
    form="log_softmax",
    weighted="classes",
    averaged="weights",
):
    """−Σ_c w_c q_c log p_c, its mean over Σ w_target of the rows that count."""
    classes, targets = logits.shape[-1], np.asarray(targets)
    mask = np.ones(targets.shape, bool) if ignore_index is None or counted else targets != ignore_index
    hit = np.where(mask, targets, 0)[..., None] == np.arange(classes)
    q = smoothed(hit, label_smoothing, spread=spread)
    weights = np.ones(classes) if class_weights is None or weighted == "none" else np.asarray(class_weights)
    wq = q * (weights if weighted != "of the target" else weights[np.where(mask, targets, 0)][..., None])
    terms = -ag.sum(log_p_of(logits, form, wq), -1)
    if class_weights is None or averaged == "rows":
        divisor = None
    else:
        divisor = float(np.sum(np.where(mask, weights[np.where(mask, targets, 0)], 0)))
    return reduced(terms, reduction, own=own, mask=mask, divisor=divisor)


def log_p_of(logits, form, q):
    """q log p, 0 where q is 0."""
    if form == "of probabilities":  # the softmax forgotten: logits taken for probabilities' logarithms
        log_p = logits
    elif form == "softmax twice":
        log_p = layers.log_softmax(layers.softmax(logits))
    elif form.startswith("log of the sum"):
        log_p = naive_log_softmax(logits, form=form)
    elif form == "log of p":
        log_p = ag.log(layers.softmax(logits))
    elif form == "clipped":
        log_p = ag.log(ag.clip(layers.softmax(logits), 1e-7, 1.0))
    elif form == "p + 1e-8":
        log_p = ag.log(layers.softmax(logits) + 1e-8)
    else:
        log_p = layers.log_softmax(logits)
    return ag.where(q == 0, 0.0, q.astype(raw(logits).dtype) * log_p)


def of_probabilities(
    logits,
    targets,
    *,
    label_smoothing=0.0,
    class_weights=None,
    reduction="mean",
    spread="all",
    weighted=True,
    own="",
    form="",
):
    """−Σ_c w_c q_c log p_c of probabilities q, smoothed."""
    classes = logits.shape[-1]
    weights = np.ones(classes) if class_weights is None or not weighted else np.asarray(class_weights)
    kept = 1 - label_smoothing
    uniform = {"all": label_smoothing / classes, "others": label_smoothing / (classes - 1), "none": 0.0}[spread]
    q = targets * (kept if spread != "none" else 1.0) + uniform
    if form == "hard":
        q = (raw(targets) == raw(targets).max(-1, keepdims=True)).astype(raw(logits).dtype)
    if form == "divergence":
        q_log_q = ag.sum(weights * q * ag.log(q), -1)
        return reduced(q_log_q - ag.sum(weights * q * layers.log_softmax(logits), -1), reduction, own=own)
    return reduced(-ag.sum(weights * q * layers.log_softmax(logits), -1), reduction, own=own)


OTHER: Mistakes = {"the mean were a sum, and the sum a mean": {"own": "swapped"}}
OF_ROWS: Mistakes = {"the sum were divided by the number of rows alone": {"own": "rows"}}
MSE: Mistakes = {
    "it were half of it, ½ (p − t)²": {"half": True},
    "it were |p − t|": {"power": 1},
    "the root were taken of it": {"root": True},
}
HUBER: Mistakes = {
    "δ were 1, whatever is asked for": {"own_delta": 1.0},
    "it were divided by δ, as in smooth L1": {"divided": True},
    "it were twice as large, without ½": {"doubled": True},
}
GAUSSIAN: Mistakes = {
    "the deviation were taken for the variance": {"spread": "variance"},
    "the deviation were taken for the logarithm of the deviation": {"spread": "logarithm of the deviation"},
    "the deviation were taken for the logarithm of the variance": {"spread": "logarithm of the variance"},
    "½ log 2π were left out": {"constant": 0.0},
    "log 2π were not halved": {"constant": 1.0},
    "½ were left out before z²": {"half": 1.0},
    "log σ were halved": {"log": 0.5},
    "log σ were doubled": {"log": 2.0},
    "log σ were left out": {"log": 0.0},
    "1e-6 were added to the variance": {"spread": "squared plus"},
}
BINARY: Mistakes = {
    "the weight stood before the other term": {"weighted": "no"},
    "the weight stood before both terms": {"weighted": "both"},
    "the weight were left out": {"weighted": "none"},
    "yes and no were exchanged": {"form": "exchanged"},
    "it were (σ(x) − t)²": {"form": "square"},
}
SMOOTHING: Mistakes = {
    "ε were spread over the other C − 1 classes": {"spread": "others"},
    "ε/C were added, and nothing taken from the target": {"spread": "added"},
    "there were no smoothing": {"spread": "none"},
}
COUNTS: Mistakes = {
    "the mean were over all rows, ignored ones too": {"own": "all"},
    "ignored rows counted like others": {"counted": True},
}
WEIGHTS: Mistakes = {
    "class weights were left out": {"weighted": "none"},
    "the weight of the target multiplied all terms of its row": {"weighted": "of the target"},
    "the mean were over rows, and not over their weights": {"averaged": "rows"},
}
FORMS: Mistakes = {
    "logits were taken for log p": {"form": "of probabilities"},
    "the softmax were taken twice": {"form": "softmax twice"},
    "probabilities below 1e-7 were cut off": {"form": "clipped"},
    "1e-8 were added to probabilities": {"form": "p + 1e-8"},
}
OF_Q: Mistakes = {
    "the likeliest class alone counted": {"form": "hard"},
    "the entropy of the targets were subtracted": {"form": "divergence"},
    "there were no smoothing": {"spread": "none"},
    "ε were spread over C − 1 classes": {"spread": "others"},
    "class weights were left out": {"weighted": False},
}
MUTANTS = [
    *family(mse, ("mse",), MSE | OTHER | OF_ROWS),
    *family(huber, ("huber",), HUBER | OTHER | OF_ROWS),
    *family(gaussian_nll, ("gaussian_nll",), GAUSSIAN | OTHER),
    *family(
        binary_cross_entropy,
        ("binary_cross_entropy",),
        BINARY | OTHER | OF_ROWS,
        narrow={"the logarithm were taken of probabilities": {"form": "of probabilities"}},
    ),
    *family(
        cross_entropy,
        ("cross_entropy",),
        SMOOTHING | COUNTS | WEIGHTS | FORMS | OTHER,
        narrow=CANCELS | {"it were the logarithm of the softmax": {"form": "log of p"}},
    ),
    *family(of_probabilities, ("cross_entropy of probabilities",), OF_Q | OTHER),
]
