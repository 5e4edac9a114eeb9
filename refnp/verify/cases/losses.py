"""Cases of the losses."""

from __future__ import annotations

import numpy as np

from refnp.layers import losses
from refnp.verify import known
from refnp.verify.case import Case, Layer, normal, uniform
from refnp.verify.equations import losses as equations


def cross_entropy(logits, *, targets, **options):
    """refnp's, with the targets among the options, since they have no gradient."""
    return losses.cross_entropy(logits, targets, **options)


MSE = Layer("mse", losses.mse, equations.mse)
GAUSSIAN_NLL = Layer("gaussian_nll", losses.gaussian_nll, equations.gaussian_nll)
CROSS_ENTROPY = Layer("cross_entropy", cross_entropy, equations.cross_entropy)

TARGETS = np.array([3, 0, 5, 1, 1, 4])


def cases() -> list[Case]:
    """All cases of this page."""

    def mse(variant, shape, **options):
        return Case(MSE, variant, {"prediction": normal(*shape), "target": normal(*shape)}, options)

    def nll(variant, std, *, mean=0.0, n=12, **options):
        inputs = {"mean": normal(n, shift=mean), "std": std, "y": normal(n, shift=mean)}
        return Case(GAUSSIAN_NLL, variant, inputs, options)

    def entropy(variant, logits, *, targets=TARGETS, known=(), **options):
        return Case(CROSS_ENTROPY, variant, {"logits": logits}, {"targets": targets} | options, known)

    sure = (known.LOG_SOFTMAX_NEAR_ZERO, known.LOG_SOFTMAX_VJP)
    weights = np.array([0.5, 1.0, 2.0, 0.0, 1.5, 1.0])
    confident = np.where(TARGETS[:, None] == np.arange(6), 30.0, 0.0) + np.arange(6) / 8
    return [
        mse("mean", (4, 5)),
        mse("sum", (4, 5), reduction="sum"),
        mse("none", (7,), reduction="none"),
        mse("one element", (1,)),
        nll("mean", uniform(12, low=0.3, high=2.0)),
        nll("sum", uniform(12, low=0.3, high=2.0), reduction="sum"),
        nll("none", uniform(12, low=0.3, high=2.0), reduction="none"),
        nll("small deviations", uniform(12, low=0.01, high=0.02)),
        nll("mean 1e4", uniform(12, low=0.3, high=2.0), mean=1e4),
        nll("one element", uniform(1, low=0.3, high=2.0), n=1),
        entropy("mean", normal(6, 6)),
        entropy("sum", normal(6, 6), reduction="sum"),
        entropy("none", normal(6, 6), reduction="none"),
        entropy("ignored rows", normal(6, 6), ignore_index=1),
        entropy("class weights", normal(6, 6), class_weights=weights),
        entropy("smoothing 0.1", normal(6, 6), label_smoothing=0.1),
        entropy("smoothing and weights", normal(6, 6), label_smoothing=0.2, class_weights=weights),
        entropy("one class", normal(6, 1), targets=np.zeros(6, int)),
        entropy("logits with mean 1e4", normal(6, 6, shift=1e4)),
        entropy("logits 100", normal(6, 6, scale=100), reduction="none", known=sure),
        entropy("confident", confident, reduction="none", known=sure),
    ]
