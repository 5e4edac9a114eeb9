"""Losses: squared error and Huber's, Gaussian likelihood, cross-entropies. Options are those of the layers."""

from typing import Any

import numpy as np

from refnp import layers
from refnp.layers.loss import counts, reduced
from refnp.numbers import rounding
from refnp.numbers.rounding import constant, either, exact, where
from refnp.verify.case import (
    Case,
    GradientInputs,
    KnownDefect,
    exact_gradient,
    gradient_of,
    normal,
    uniform,
)
from refnp.verify.judged_pages import of_page
from refnp.verify.layers.activations import logarithm_of_one_more, logistic
from refnp.verify.layers.linear import summed_to
from refnp.verify.layers.softmax import (
    LOG_SOFTMAX_NEAR_ZERO,
    LOG_SOFTMAX_VJP,
    PRINTED_LOGARITHM,
    SATURATED,
)


def printed_binary_cross_entropy(logits, targets, *, positive_weight=1.0, mask=None, reduction="mean"):
    """ℓ = (1 − t) x + (1 + (w − 1) t) (s + max(−x, 0)) or max(x, 0) − x t + s, s = log(1 + e^(−|x|)); x̄ = ℓ̄ (σ − t).

    t̄ = ℓ̄ (log σ(−x) − w log σ(x)) with a weight; without one it is −ℓ̄ x, of which nothing is lost.
    """
    mask = counts(mask, logits, targets)
    x, t, weight = where(mask, logits, 0), where(mask, targets, 0), constant(positive_weight)
    e = rounding.exp(where(x.value > 0, -x, x))
    soft = either(lambda: rounding.log1p(e), lambda: rounding.log(1 + e))
    factor = 1 if positive_weight == 1 else (weight - 1) * t + 1
    of_yes = soft + where(x.value > 0, 0, -x)
    first = lambda: (1 - t) * x + of_yes * factor
    second = lambda: (soft + where(x.value > 0, x, 0)) - x * t
    value, share = reduced(either(first, second) if positive_weight == 1 else first(), mask, reduction)

    def pullback(g):
        sigma = logistic(x)
        x_bar = share(g) * (sigma - t if positive_weight == 1 else (1 - t) - (1 - sigma) * factor)
        t_bar = share(g) * (-x if positive_weight == 1 else weight * of_yes - (soft + where(x.value > 0, x, 0)))
        return summed_to((x_bar, t_bar), logits, targets)

    return value, pullback


def sure_of_softplus(logits, targets, *, positive_weight=1.0, reduction="mean"):
    """w t s(−x) + (1 − t) s(x), s(x) = log(1 + eˣ) as it stands."""
    yes, no = (logarithm_of_one_more(x) for x in (-logits, logits))
    terms = constant(positive_weight) * targets * yes + (1 - targets) * no
    value, _ = reduced(terms, np.ones(terms.shape, bool), reduction)
    return value, lambda g: (exact(np.zeros(logits.shape)),) * 2


def torch_gaussian_nll(torch, mean, std, y, *, reduction="mean"):
    """PyTorch takes the variance, and leaves out ½ log 2π unless asked for the full density."""
    return torch.nn.functional.gaussian_nll_loss(mean, y, std * std, full=True, reduction=reduction)


def torch_cross_entropy(torch, logits, *, targets, ignore_index=None, class_weights=None, **options):
    """In PyTorch, -100 is the target to ignore unless another is named."""
    weight = None if class_weights is None else torch.tensor(class_weights, dtype=logits.dtype)
    ignored = -100 if ignore_index is None else ignore_index
    return torch.nn.functional.cross_entropy(logits, torch.tensor(targets), weight, ignore_index=ignored, **options)


def torch_binary_cross_entropy(torch, logits, targets, *, positive_weight=1.0, reduction="mean"):
    """PyTorch's pos_weight is a tensor, and with one it takes the gradient of targets by another formula."""
    weight = None if positive_weight == 1 else torch.tensor(positive_weight, dtype=logits.dtype)
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, targets, pos_weight=weight, reduction=reduction)


def torch_cross_entropy_of_probabilities(torch, logits, targets, *, class_weights=None, **options):
    """The same function of PyTorch takes both kinds of targets."""
    weight = None if class_weights is None else torch.tensor(class_weights, dtype=logits.dtype)
    return torch.nn.functional.cross_entropy(logits, targets, weight, **options)


MSE = of_page(layers.mse, torch="nn.functional.mse_loss")
GAUSSIAN_NLL = of_page(layers.gaussian_nll, torch=torch_gaussian_nll)
FRONTS = {"...": ((3,), (), (2, 11))}  # several rows; as many as no classes, which others have on the second axis
CROSS_ENTROPY = of_page(
    layers.cross_entropy,
    by_name=("targets",),
    torch=torch_cross_entropy,
    tried=FRONTS | {"ignore_index": (None, 0, -100)},
)
HUBER = of_page(layers.huber, torch="nn.functional.huber_loss")
BINARY = of_page(layers.binary_cross_entropy, torch=torch_binary_cross_entropy)
OF_PROBABILITIES = of_page(
    layers.cross_entropy,
    name="cross_entropy of probabilities",
    torch=torch_cross_entropy_of_probabilities,
    names=("cross_entropy",),
)
BINARY_TAIL = KnownDefect(
    "PyTorch",
    "pytorch/pytorch#195677",
    "binary_cross_entropy_with_logits adds (1 − t) x and max(−x, 0), and its gradient is σ(x) − t: where a "
    "prediction is sure and right both cancel, and a small loss and its gradients are lost",
    ("output", "gradient of logits"),
    equation=printed_binary_cross_entropy,
)
TARGET_OF_SURE = KnownDefect(
    "PyTorch",
    "cross_entropy: gradient of q by log_softmax",
    "log_softmax as x − log Σ exp: a log p near 0, the gradient of its target, becomes 0",
    ("gradient of targets",),
    parts=PRINTED_LOGARITHM,
)
TARGETS = np.array([3, 0, 5, 1, 1, 4])


def cases() -> list[Case]:
    """All cases of this page."""

    def mse(variant, shape, **options):
        return Case(MSE, variant, {"prediction": normal(*shape), "target": normal(*shape)}, options)

    def nll(variant, std, *, mean=0.0, n=12, **options):
        inputs = {"mean": normal(n, shift=mean), "std": std, "y": normal(n, shift=mean)}
        return Case(GAUSSIAN_NLL, variant, inputs, options)

    def entropy(variant, logits, *, targets=TARGETS, defects=(), **options):
        return Case(CROSS_ENTROPY, variant, {"logits": logits}, {"targets": targets} | options, defects)

    def huber(variant, scale, **options):
        return Case(HUBER, variant, {"prediction": normal(3, 4, scale=scale), "target": normal(3, 4)}, options)

    def binary(variant, logits, targets, *, defects=(), **options):
        return Case(BINARY, variant, {"logits": logits, "targets": targets}, options, defects)

    def soft(variant, scale, *, defects=(), **options):
        inputs = {"logits": normal(5, 6, scale=scale), "targets": probabilities(5, 6)}
        return Case(OF_PROBABILITIES, variant, inputs, options, defects)

    sure = (LOG_SOFTMAX_NEAR_ZERO, LOG_SOFTMAX_VJP)
    weights = np.array([0.5, 1.0, 2.0, 0.0, 1.5, 1.0])
    confident = np.where(TARGETS[:, None] == np.arange(6), 30.0, 0.0) + np.arange(6) / 8
    between = uniform(3, 8, low=0.0, high=1.0)
    tails = np.array([-800.0, -90.0, -40.0, -1e-3, 0.0, 40.0, 90.0, 800.0])
    return [
        huber("mean", 1.0),
        huber("far off", 100.0, reduction="sum"),
        huber("delta 0.3", 1.0, delta=0.3, reduction="none"),
        binary("mean", normal(3, 8), between, defects=(BINARY_TAIL,)),
        binary("none", normal(3, 8, scale=10), between, reduction="none", defects=(BINARY_TAIL,)),
        binary("positive weight 3", normal(3, 8), between, positive_weight=3.0, reduction="sum"),
        binary("tails, yes", tails, np.ones(8), reduction="none", defects=(BINARY_TAIL,)),
        binary("tails, no", tails, np.zeros(8), reduction="none", defects=(BINARY_TAIL,)),
        soft("mean", 1.0),
        soft(
            "smoothing and weights", 1.0, label_smoothing=0.2, class_weights=np.array([0.5, 1.0, 2.0, 0.25, 1.5, 1.0])
        ),
        soft("logits 100", 100.0, reduction="none", defects=(*sure, TARGET_OF_SURE)),
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
        entropy("logits 100", normal(6, 6, scale=100), reduction="none", defects=sure),
        entropy("confident", confident, reduction="none", defects=sure),
        entropy("confident and smoothed", confident, reduction="none", label_smoothing=0.1, defects=sure),
    ]


def probabilities(*shape):
    """Rows of positive numbers with sum 1."""

    def draw(rng):
        q = rng.exponential(size=shape)
        return q / q.sum(-1, keepdims=True)

    return draw


def gradient_inputs() -> list[GradientInputs]:
    """Masks, kinds of smoothing, probabilities away from 0 and 1; and losses that are nearly 0."""
    rng = np.random.default_rng(0)
    x, y, std = rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), rng.uniform(0.5, 2, (3, 4))
    mask = np.arange(4) < np.array([4, 2, 0])[:, None]
    logits, targets, weights = rng.normal(size=(4, 5)), np.array([0, 2, 4, 4]), rng.uniform(0.5, 2, 5)
    yes, soft = rng.uniform(0.3, 0.7, (3, 4)), rng.uniform(0.3, 0.7, (4, 5))
    of_all: dict[str, Any] = {"label_smoothing": 0.2, "class_weights": weights, "reduction": "none"}
    of_classes: dict[str, Any] = {"targets": targets, "label_smoothing": 0.2, "ignore_index": 2}
    classes: Any = np.array([0, 0, 2, 1, 2])
    smooth: Any = {"label_smoothing": 0.1, "smoothing": "off_target"}
    entropy, of_entropy, far = layers.cross_entropy, CROSS_ENTROPY.equation, np.array([-10.0, 1e-8, 3.0, 40.0])
    of_far = 0 * far, 0 * far + 1.25, far
    return [
        gradient_of("mse, mask", layers.mse, x, y, mask=mask),
        gradient_of("huber, mask", layers.huber, x, 2 * y, delta=0.7, mask=mask),
        gradient_of("gaussian_nll, mask", layers.gaussian_nll, x, std, y, mask=mask),
        gradient_of("gaussian_nll, one σ for all", layers.gaussian_nll, x, std[0], y),
        gradient_of("binary_cross_entropy, mask", layers.binary_cross_entropy, x, yes, mask=mask),
        gradient_of("binary_cross_entropy, weight", layers.binary_cross_entropy, x, yes, positive_weight=2.5),
        gradient_of("cross_entropy of probabilities", entropy, logits, soft),
        gradient_of("cross_entropy of probabilities, options", entropy, logits, soft, **of_all),
        *(
            gradient_of(f"cross_entropy, {smoothing}", entropy, logits, **of_classes, smoothing=smoothing)
            for smoothing in ("uniform", "off_target", "without_pad")
        ),
        exact_gradient("gaussian_nll, far off", layers.gaussian_nll, GAUSSIAN_NLL.equation, *of_far),
        exact_gradient("cross_entropy, saturated", entropy, of_entropy, SATURATED, targets=classes),
        exact_gradient("cross_entropy, saturated, smoothed", entropy, of_entropy, SATURATED, targets=classes, **smooth),
    ]
