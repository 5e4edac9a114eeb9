"""Losses: how badly a prediction fits what was observed, as one number to make small.

    mse                    (p − t)²
    huber                  ½ d² for |d| ≤ δ, else δ |d| − ½ δ²,          d = p − t
    gaussian_nll           ½ z² + log σ + ½ log 2π,                      z = (y − μ)/σ
    binary_cross_entropy   −w t log σ(x) − (1 − t) log σ(−x),            σ the sigmoid, x a logit

Cross-entropy over classes is in cross_entropy.py.
`reduction` is "mean" over all that counts, "sum", or "none" for one loss an element or row. What does not count, under
a mask or an ignored index, has loss 0 and gradient 0 whatever stands there, NaN included; if nothing counts, so has the
whole (PyTorch: NaN). ℓ̄ in a VJP is that of an element: of the mean of n, 1/n of the whole's; 0 if it does not count.
Words: layers/__init__.py.   Transcription: tests/transcriptions/probability.py.
Source: Sivaraya (2023) §3.2 eq. 8 and 9 (Gaussian conditionals); Huber (1964).
"""

from typing import Any

import numpy as np

from refnp.autograd.pages import page
from refnp.numbers.parts import part
from refnp.numbers.words import constant, everywhere, logarithm, pi

HALF_LOG_TWO_PI = logarithm(2 * pi) / 2
REDUCTION: Any = {"reduction": "mean | sum | none"}


def counting(arguments: str) -> Any:
    """The options of a loss of elements: a mask of these arguments, and how elements are reduced."""
    return {"mask": f"boolean to (*S)? hides ({arguments}), True = counts", **REDUCTION}


@page("prediction to (*S), target to (*S) → () or (*S)", **counting("prediction, target"))
def mse(prediction, target, *, mask=None, reduction="mean"):
    """Squared error ℓ = (p − t)².

    Shapes: prediction and target broadcast, one of them to the shape of all; `mask` too, True = counts → a number, or
    that shape for reduction="none". "mean" divides by the number of elements that count.
    Raises ValueError for shapes that do not fit or an unknown reduction, TypeError for a mask that is not boolean.
    VJP: p̄ = 2 ℓ̄ (p − t), t̄ = −p̄.
    """
    present = counts(mask, prediction, target)  # (*S)
    difference = np.where(present, prediction - target, 0)  # (*S)   p − t
    loss, share = reduced(difference * difference, present, reduction)

    def vjp(loss_bar):
        p_bar = 2 * share(loss_bar) * difference  # (*S)
        return p_bar, -p_bar

    return loss, vjp


@page("prediction to (*S), target to (*S) → () or (*S)", delta="positive", **counting("prediction, target"))
def huber(prediction, target, *, delta=1.0, mask=None, reduction="mean"):
    """ℓ = ½ d² for |d| ≤ δ and δ |d| − ½ δ² beyond, d = p − t: squared near 0, proportional to |d| far off.

    Shapes, mask and reduction as in `mse`. δ is a number, in units of the target; the loss is written c (|d| − ½ c),
    with c = min(|d|, δ).
    Raises ValueError for a δ that is not positive and finite, TypeError for no number, and what `mse` raises.
    VJP: p̄ = ℓ̄ max(−δ, min(d, δ)), t̄ = −p̄. The slope has no jump; its own slope has, at |d| = δ.
    Source: Huber (1964).
    Elsewhere: PyTorch's smooth_l1_loss with beta = δ is this divided by δ.
    """
    present = counts(mask, prediction, target)  # (*S)
    difference = np.where(present, prediction - target, 0)  # (*S)   d
    size, delta = magnitude(difference), constant(delta).like(difference)  # (*S), ()   |d|, δ
    near = np.where(size > delta, delta, size)  # (*S)   c
    loss, share = reduced(near * (size - near / 2), present, reduction)

    def vjp(loss_bar):
        p_bar = share(loss_bar) * np.where(difference.real < 0, -near, near)  # (*S)
        return p_bar, -p_bar

    return loss, vjp


@page("mean to (*S), std positive to (*S), y to (*S) → () or (*S)", **counting("mean, std, y"))
def gaussian_nll(mean, std, y, *, mask=None, reduction="mean"):
    """Minus the log density of a normal distribution, ℓ = ½ z² + log σ + ½ log 2π with z = (y − μ)/σ.

    Shapes, mask and reduction of mean, std and y as in `mse`.
    Raises ValueError for a std that counts and is not positive and finite, and what `mse` raises.
    VJP: ∂ℓ/∂y = z/σ, and ∂ℓ/∂σ = (1 − z²)/σ, written with w = 1 − |z| = (σ − |y − μ|)/σ: near |z| = 1 the difference is
    exact, so as many digits are left as y − μ has.

        ȳ = ℓ̄ z/σ        μ̄ = −ȳ        σ̄ = ℓ̄ w (2 − w)/σ

    Source: Sivaraya (2023) §3.2, eq. 9.
    Elsewhere: PyTorch's GaussianNLLLoss takes the variance, not σ, bounds it below by 1e-6, and leaves out ½ log 2π
    unless full=True. TNP-pytorch adds up the axes of y and averages over points.
    """
    present = counts(mask, mean, std, y)  # (*S)
    std = np.where(present, std, 1)  # (*S)   σ
    difference = np.where(present, y - mean, 0)  # (*S)
    z = difference / std  # (*S)
    loss, share = reduced(z * z / 2 + (np.log(std) + HALF_LOG_TWO_PI), present, reduction)

    def vjp(loss_bar):
        bar = share(loss_bar)  # (*S)
        y_bar = bar * (z / std)  # (*S)
        std_bar = bar * slope_of_std(difference, std)  # (*S)
        return -y_bar, std_bar, y_bar

    return loss, vjp


@part
def slope_of_std(difference, std):
    """(1 − z²)/σ of z = (y − μ)/σ."""
    w = (std - magnitude(difference)) / std  # (*S)   1 − |z|
    return w * (2 - w) / std


@page(
    "logits to (*S), targets probability to (*S) → () or (*S)",
    positive_weight="positive",
    **counting("logits, targets"),
)
def binary_cross_entropy(logits, targets, *, positive_weight=1.0, mask=None, reduction="mean"):
    """ℓ = w t log(1 + e^(−x)) + (1 − t) log(1 + eˣ): σ(x) is the probability of a yes, the target t is 1 for a yes.

    A target between 0 and 1 is a probability itself.
    Shapes, mask and reduction as in `mse`. w = `positive_weight` is a number, how much more a yes counts than a no;
    "mean" divides by the number of elements that count, whatever w.
    Both logarithms are of 1 plus a number, and neither term is negative: no digit is lost in either tail, as σ itself
    would lose them.
    Raises ValueError for a target that counts and is not in [0, 1], and for w what `huber` raises for δ.
    VJP: x̄ = ℓ̄ ((1 − t) σ(x) − w t σ(−x)), t̄ = ℓ̄ ((w − 1) log(1 + e^(−x)) − x).
    Elsewhere: PyTorch's binary_cross_entropy_with_logits (its binary_cross_entropy takes σ(x), whose 1 − σ has lost its
    digits, and bounds the logarithms by −100).
    """
    present, weight = counts(mask, logits, targets), constant(positive_weight)  # (*S), ()
    x, t = np.where(present, logits, 0), np.where(present, targets, 0)  # (*S)
    above = x.real > 0
    e = np.exp(np.where(above, -x, x))  # (*S)   e^(−|x|)
    yes = np.log1p(e) - np.where(above, 0, x)  # (*S)   log(1 + e^(−x))
    no = np.log1p(e) + np.where(above, x, 0)  # (*S)   log(1 + eˣ)
    loss, share = reduced(weight * times(t, yes) + times(1 - t, no), present, reduction)

    def vjp(loss_bar):
        bar = share(loss_bar)  # (*S)
        sigma = np.where(above, 1, e) / (1 + e)  # (*S)   σ(x)
        sigma_of_minus = np.where(above, e, 1) / (1 + e)  # (*S)   σ(−x)
        x_bar = bar * ((1 - t) * sigma - weight * t * sigma_of_minus)
        t_bar = bar * (-x if positive_weight == 1 else (weight - 1) * yes - x)
        return x_bar, t_bar

    return loss, vjp


# ---- what losses have in common


def counts(mask, *arrays):
    """A mask as booleans of the shape that the arrays broadcast to, True everywhere for None."""
    return everywhere(True if mask is None else mask, *arrays)


@part
def reduced(terms, present, reduction, count=None):
    """The "mean", "sum" or "none" (all) of the terms that are present, and the function from ℓ̄ to their gradients.

    A mean is divided by `count`, the number of terms that are present if none is given; the mean of nothing is 0.
    """
    count = present.sum() if count is None else count
    divisor = count if reduction == "mean" and count.real > 0 else 1
    terms = np.where(present, terms, 0)
    loss = terms if reduction == "none" else terms.sum() / divisor

    def share(loss_bar):
        return np.where(present, loss_bar if reduction == "none" else loss_bar / divisor, 0)

    return loss, share


@part
def magnitude(x):
    """|x|."""
    return np.where(x.real < 0, -x, x)


@part
def times(share, x):
    """share · x, and 0 where the share is 0 and x infinite."""
    return share * np.where((share.real == 0) & (np.abs(x.real) == np.inf), 0, x)
