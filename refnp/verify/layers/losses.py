"""Losses: squared error and Huber's, Gaussian likelihood, cross-entropies. Options are those of the layers."""

from typing import Any

import numpy as np

from refnp import layers
from refnp.numbers import rounding
from refnp.numbers.rounding import WIDE, constant, either, exact, where, where_positive
from refnp.verify.case import (
    Case,
    GradientInputs,
    KnownDefect,
    Layer,
    exact_gradient,
    generator,
    gradient_of,
    normal,
    uniform,
)
from refnp.verify.layers.activations import logarithm_of_one_more, logistic
from refnp.verify.layers.linear import summed_to
from refnp.verify.layers.softmax import (
    LOG_SOFTMAX_NEAR_ZERO,
    LOG_SOFTMAX_VJP,
    PRINTED_LOGARITHM,
    SATURATED,
)

HALF_LOG_TWO_PI = constant(np.log(8 * np.arctan(WIDE(1))) / 2)


def reduced(terms, mask, reduction, divisor=None):
    """All of the terms that count, their sum, or that divided by their number; and what the gradient of each is."""
    divisor = exact(mask.sum()) if divisor is None else divisor
    divisor = divisor if reduction == "mean" and divisor.value > 0 else exact(1)
    terms = where(mask, terms, 0)
    value = terms if reduction == "none" else terms.sum() / divisor
    return value, lambda g: where(mask, g if reduction == "none" else g / divisor, 0)


def mse(prediction, target, *, mask=None, reduction="mean"):
    """ℓ = (p − t)², p̄ = 2 ℓ̄ (p − t), t̄ = −p̄."""
    mask = np.broadcast_to(True if mask is None else mask, np.broadcast_shapes(prediction.shape, target.shape))
    difference = where(mask, prediction, 0) - where(mask, target, 0)
    value, share = reduced(difference * difference, mask, reduction)

    def pullback(g):
        bar = share(g) * difference * 2
        return summed_to((bar, -bar), prediction, target)

    return value, pullback


def huber(prediction, target, *, delta=1.0, mask=None, reduction="mean"):
    """ℓ = c (|d| − ½ c), c = min(|d|, δ), d = p − t; p̄ = ℓ̄ sign(d) c, t̄ = −p̄."""
    mask = np.broadcast_to(True if mask is None else mask, np.broadcast_shapes(prediction.shape, target.shape))
    difference = where(mask, prediction, 0) - where(mask, target, 0)
    size = where(difference.value < 0, -difference, difference)
    bounded = where_positive(size - delta, constant(delta), size)
    value, share = reduced(bounded * (size - bounded * 0.5), mask, reduction)

    def pullback(g):
        bar = share(g) * where(difference.value < 0, -bounded, bounded)
        return summed_to((bar, -bar), prediction, target)

    return value, pullback


def gaussian_nll(mean, std, y, *, mask=None, reduction="mean"):
    """ℓ = ½ z² + log σ + ½ log 2π, ȳ = ℓ̄ z/σ, μ̄ = −ȳ, σ̄ = ℓ̄ (1 − z)(1 + z)/σ."""
    arguments = mean, std, y
    mask = np.broadcast_to(True if mask is None else mask, np.broadcast_shapes(mean.shape, std.shape, y.shape))
    mean, std, y = where(mask, mean, 0), where(mask, std, 1), where(mask, y, 0)
    z = (y - mean) / std
    value, share = reduced(z * z * 0.5 + (rounding.log(std) + HALF_LOG_TWO_PI), mask, reduction)

    def pullback(g):
        y_bar = share(g) * (z / std)
        std_bar = share(g) * ((1 - z) * (1 + z) / std)
        return summed_to((-y_bar, std_bar, y_bar), *arguments)

    return value, pullback


def binary_cross_entropy(logits, targets, *, positive_weight=1.0, mask=None, reduction="mean"):
    """ℓ = w t log(1 + e^(−x)) + (1 − t) log(1 + eˣ), x̄ = ℓ̄ ((1 − t) σ(x) − w t σ(−x)), t̄ = ℓ̄ ((w − 1) yes − x)."""
    mask = np.broadcast_to(True if mask is None else mask, np.broadcast_shapes(logits.shape, targets.shape))
    x, t, weight = where(mask, logits, 0), where(mask, targets, 0), constant(positive_weight)
    e = rounding.exp(where(x.value > 0, -x, x))
    no = rounding.log1p(e) + where(x.value > 0, x, 0)
    yes = rounding.log1p(e) + where(x.value > 0, 0, -x)
    value, share = reduced(weight * t * yes + (1 - t) * no, mask, reduction)

    def pullback(g):
        sigma = [where(side, exact(1), e) / (1 + e) for side in (x.value > 0, x.value <= 0)]
        x_bar = share(g) * ((1 - t) * sigma[0] - weight * t * sigma[1])
        t_bar = share(g) * (-x if positive_weight == 1 else (weight - 1) * yes - x)
        return summed_to((x_bar, t_bar), logits, targets)

    return value, pullback


def printed_binary_cross_entropy(logits, targets, *, positive_weight=1.0, mask=None, reduction="mean"):
    """ℓ = (1 − t) x + (1 + (w − 1) t) (s + max(−x, 0)) or max(x, 0) − x t + s, s = log(1 + e^(−|x|)); x̄ = ℓ̄ (σ − t)."""
    mask = np.broadcast_to(True if mask is None else mask, np.broadcast_shapes(logits.shape, targets.shape))
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
        t_bar = share(g) * (weight * of_yes - (soft + where(x.value > 0, x, 0)))
        return summed_to((x_bar, t_bar), logits, targets)

    return value, pullback


def sure_of_softplus(logits, targets, *, positive_weight=1.0, reduction="mean"):
    """w t s(−x) + (1 − t) s(x), s(x) = log(1 + eˣ) as it stands."""
    yes, no = (logarithm_of_one_more(x) for x in (-logits, logits))
    terms = constant(positive_weight) * targets * yes + (1 - targets) * no
    value, _ = reduced(terms, np.ones(terms.shape, bool), reduction)
    return value, lambda g: (exact(np.zeros(logits.shape)),) * 2


def cross_entropy_of_probabilities(logits, targets, *, label_smoothing=0.0, class_weights=None, reduction="mean"):
    """ℓ = −Σ_c a_c log p_c, a = w ((1 − ε) q + ε/V).

    x̄_i = ℓ̄ (p_i Σ_{c≠i} a_c + a_i (p_i − 1)), q̄_i = −ℓ̄ w_i (1 − ε) log p_i.
    """
    classes = logits.shape[-1]
    weights = exact(np.ones(classes)) if class_weights is None else constant(class_weights)
    kept, share = exact(1), exact(0)
    if label_smoothing:
        kept, share = 1 - constant(label_smoothing), constant(label_smoothing) / classes
    a = weights * kept * targets + weights * share  # (..., V)
    log_p, _ = layers.log_softmax.page(logits)
    terms = -(a * where(a.value == 0, 0, log_p)).sum(-1)
    value, average = reduced(terms, np.ones(terms.shape, bool), reduction)

    def pullback(g):
        bar = average(g)[..., None]
        others = rounding.contract("...c,ci->...i", a, 1 - np.eye(classes))
        x_bar = bar * (rounding.exp(log_p) * others + a * rounding.expm1(log_p))
        return x_bar, -(bar * (weights * kept) * log_p)

    return value, pullback


def cross_entropy(
    logits,
    *,
    targets,
    ignore_index=None,
    label_smoothing=0.0,
    smoothing="uniform",
    class_weights=None,
    reduction="mean",
):
    """ℓ = −Σ_c w_c q_c log p_c, q smoothed or not; x̄ by the pullback of log p, and where q is smoothed ℓ̄ (Q p − w q).

    Q = Σ_c w_c q_c. The mean divides by Σ w_target over the rows that count.
    """
    classes, mask = logits.shape[-1], np.asarray(targets != ignore_index)
    targets = np.where(mask, targets, 0)
    hit = targets[..., None] == np.arange(classes)  # (..., V)
    own, off = shares(classes, label_smoothing, smoothing, ignore_index)
    weights = None if class_weights is None else constant(class_weights)
    if weights is not None:
        own, off = own * weights, off * weights
    q = where(hit, own, off)  # (..., V)   w q
    log_p, log_p_pullback = layers.log_softmax.page(where(mask[..., None], logits, 0))
    parts = q * where(q.value == 0, 0, log_p)
    terms = -(where(hit, parts, 0).sum(-1, depth=0) + where(hit, 0, parts).sum(-1))
    divisor = None if weights is None else where(mask, weights[targets], 0).sum()
    value, share = reduced(terms, mask, reduction, divisor)

    def pullback(g):
        bar = share(g)[..., None]
        (x_bar,) = log_p_pullback(-(q * bar))
        smoothed = bar * (q.sum(-1, keepdims=True) * rounding.exp(log_p) - q)
        return (where(hit | (q.value == 0), x_bar, smoothed),)

    return value, pullback


def shares(classes, epsilon, smoothing, padding):
    """(V,) twice: the part q_c of every class if it is the target, and if it is not."""
    if not epsilon:
        return exact(np.ones(classes)), exact(np.zeros(classes))
    epsilon = constant(epsilon)
    if smoothing == "uniform":
        each = epsilon / classes
        return 1 - epsilon + each + np.zeros(classes), each + np.zeros(classes)
    without_pad = smoothing == "without_pad"
    each = epsilon / (classes - 2 if without_pad else classes - 1)
    gets_none = (np.arange(classes) == padding) & without_pad
    return 1 - epsilon + np.zeros(classes), where(gets_none, 0, each)


def torch_gaussian_nll(torch, mean, std, y, *, reduction="mean"):
    """PyTorch takes the variance, and leaves out ½ log 2π unless asked for the full density."""
    return torch.nn.functional.gaussian_nll_loss(mean, y, std * std, full=True, reduction=reduction)


def torch_cross_entropy(torch, logits, *, targets, ignore_index=None, class_weights=None, **options):
    """In PyTorch, -100 is the target to ignore unless another is named."""
    weight = None if class_weights is None else torch.tensor(class_weights, dtype=logits.dtype)
    ignored = -100 if ignore_index is None else ignore_index
    return torch.nn.functional.cross_entropy(logits, torch.tensor(targets), weight, ignore_index=ignored, **options)


def torch_binary_cross_entropy(torch, logits, targets, *, positive_weight=1.0, reduction="mean"):
    """PyTorch's pos_weight is a tensor."""
    weight = torch.tensor(positive_weight, dtype=logits.dtype)
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, targets, pos_weight=weight, reduction=reduction)


def torch_cross_entropy_of_probabilities(torch, logits, targets, *, class_weights=None, **options):
    """The same function of PyTorch takes both kinds of targets."""
    weight = None if class_weights is None else torch.tensor(class_weights, dtype=logits.dtype)
    return torch.nn.functional.cross_entropy(logits, targets, weight, **options)


MSE = Layer("mse", layers.mse, mse, torch="nn.functional.mse_loss")
GAUSSIAN_NLL = Layer("gaussian_nll", layers.gaussian_nll, gaussian_nll, torch=torch_gaussian_nll)
FRONTS = {"...": ((3,), ())}  # with more axes, frameworks have the classes elsewhere
CROSS_ENTROPY = Layer("cross_entropy", layers.cross_entropy, cross_entropy, torch=torch_cross_entropy, tried=FRONTS)
HUBER = Layer("huber", layers.huber, huber, torch="nn.functional.huber_loss")
BINARY = Layer(
    "binary_cross_entropy", layers.binary_cross_entropy, binary_cross_entropy, torch=torch_binary_cross_entropy
)
OF_PROBABILITIES = Layer(
    "cross_entropy of probabilities",
    layers.cross_entropy,
    cross_entropy_of_probabilities,
    torch=torch_cross_entropy_of_probabilities,
    names=("cross_entropy",),
)
BINARY_TAIL = KnownDefect(
    "PyTorch",
    "pytorch/pytorch#195677",
    "binary_cross_entropy_with_logits adds (1 − t) x and max(−x, 0), and its gradient is σ(x) − t: where a "
    "prediction is sure and right both cancel, and a small loss and its gradients are lost",
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


def gradient_inputs(seed: int = 0) -> list[GradientInputs]:
    """Every loss with each of its options."""
    rng = generator(seed, skip=2600)
    mean, y, std = rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), rng.uniform(0.5, 2, (3, 4))
    mask = np.arange(4) < np.array([4, 2, 0])[:, None]
    logits, targets, weights = rng.normal(size=(4, 5)), np.array([0, 2, 4, 4]), rng.uniform(0.5, 2, 5)
    options = {"label_smoothing": 0.2, "ignore_index": 2}
    entropies: dict[str, dict[str, Any]] = {
        "cross_entropy": {},
        "cross_entropy, weights": {"class_weights": weights},
        "cross_entropy, none": {"reduction": "none"},
        "cross_entropy, uniform": {**options, "smoothing": "uniform"},
        "cross_entropy, off_target": {**options, "smoothing": "off_target"},
        "cross_entropy, without_pad": {**options, "smoothing": "without_pad"},
    }
    yes, soft = rng.uniform(0.1, 0.9, (3, 4)), rng.uniform(0.1, 0.9, (4, 5))
    classes: Any = np.array([0, 0, 2, 1, 2])
    smooth: Any = {"label_smoothing": 0.1, "smoothing": "off_target"}
    far = np.array([-10.0, 1e-8, 3.0, 40.0])
    return [
        gradient_of("mse", layers.mse, mean, y, mask=mask),
        gradient_of("huber", layers.huber, mean, 2 * y, delta=0.7, mask=mask),
        gradient_of("binary_cross_entropy", layers.binary_cross_entropy, mean, yes, mask=mask),
        gradient_of("binary_cross_entropy, weight", layers.binary_cross_entropy, mean, yes, positive_weight=2.5),
        gradient_of("cross_entropy of probabilities", layers.cross_entropy, logits, soft),
        gradient_of(
            "cross_entropy of probabilities, options",
            layers.cross_entropy,
            logits,
            soft,
            label_smoothing=0.2,
            class_weights=weights,
            reduction="none",
        ),
        gradient_of("gaussian_nll", layers.gaussian_nll, mean, std, y),
        gradient_of("gaussian_nll, mask", layers.gaussian_nll, mean, std, y, mask=mask),
        gradient_of("gaussian_nll, none", layers.gaussian_nll, mean, std[0], y, reduction="none"),
        *(gradient_of(name, layers.cross_entropy, logits, targets=targets, **o) for name, o in entropies.items()),
        exact_gradient("gaussian_nll, far off", layers.gaussian_nll, gaussian_nll, 0 * far, 0 * far + 1.25, far),
        exact_gradient("cross_entropy, saturated", layers.cross_entropy, cross_entropy, SATURATED, targets=classes),
        exact_gradient(
            "cross_entropy, saturated, smoothed",
            layers.cross_entropy,
            cross_entropy,
            SATURATED,
            targets=classes,
            **smooth,
        ),
    ]
