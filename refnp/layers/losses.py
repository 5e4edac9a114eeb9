"""Losses: how badly a prediction fits what was observed, as one number to make small.

    mse                    (p − t)²
    huber                  ½ d² for |d| ≤ δ, else δ |d| − ½ δ²,          d = p − t
    gaussian_nll           ½ z² + log σ + ½ log 2π,                      z = (y − μ)/σ
    binary_cross_entropy   −w t log σ(x) − (1 − t) log σ(−x),            σ the sigmoid, x a logit
    cross_entropy          −Σ_c w_c q_c log p_c,                         p = softmax(logits), q the target

Each is one primitive with its gradient. `reduction` is "mean" over all that counts, "sum", or "none" for one loss an
element or row. What does not count, under a mask or an ignored index, has loss 0 and gradient 0 whatever stands there,
NaN included; if nothing counts, so has the whole (PyTorch: NaN).
Transcription: tests/transcriptions/probability.py.
Source: Szegedy et al. (2016) (cross-entropy), Sivaraya (2023) §3.2 eq. 8 and 9 (Gaussian conditionals); Huber (1964).
"""

import numpy as np

from refnp.autograd.declaration import takes
from refnp.autograd.elementary import log1p_of
from refnp.autograd.primitives import integers, primitive
from refnp.kernels.blocks import block_numbers, run_all, slices
from refnp.layers.masked_reductions import check_positive, counts, masked, numbers, product, reduced
from refnp.layers.softmax import log_softmax
from refnp.numbers.arrays import floating, in_order
from refnp.numbers.summation import sum_of_products

HALF_LOG_TWO_PI = np.longdouble("0.918938533204672741780329736405617639861")
REDUCTION = {"reduction": "mean | sum | none"}
SMOOTHINGS = {"uniform": 1, "off_target": 2, "without_pad": 3}  # and how many classes each needs


def counting(arguments: str) -> dict[str, str]:
    """The options of a loss of elements: a mask of these arguments, and how elements are reduced."""
    return {"mask": f"boolean to (*S)? hides ({arguments}), True = counts", **REDUCTION}


@primitive
@takes("prediction to (*S), target to (*S) → () or (*S)", **counting("prediction, target"))
def mse(prediction, target, *, mask=None, reduction="mean"):
    """Squared error ℓ = (p − t)².

    Shapes: prediction and target broadcast, one of them to the shape of all; `mask` too, True = counts → a number, or
    that shape for reduction="none".
    Raises ValueError for shapes that do not fit or an unknown reduction, TypeError for a mask that is not boolean.
    VJP: p̄ = 2 ℓ̄ (p − t), t̄ = −p̄.
    """
    mask = counts(mask, prediction, target)
    prediction, target = (masked(mask, a, 0) for a in numbers(prediction, target))
    difference = np.asarray(prediction - target)
    value, terms_bar = reduced(difference * difference, mask, reduction)

    def vjp(loss_bar):
        p_bar = product(2 * terms_bar(loss_bar), difference)
        return p_bar, lambda: -p_bar

    return value, vjp


@primitive
@takes("prediction to (*S), target to (*S) → () or (*S)", delta="positive", **counting("prediction, target"))
def huber(prediction, target, *, delta=1.0, mask=None, reduction="mean"):
    """ℓ = ½ d² for |d| ≤ δ and δ |d| − ½ δ² beyond, d = p − t: squared near 0, proportional to |d| far off.

    Shapes: prediction and target broadcast, one of them to the shape of all; `mask` too, True = counts → a number, or
    that shape for reduction="none". δ is a number, in units of the target; the loss is written c (|d| − ½ c), with
    c = min(|d|, δ).
    Raises ValueError for a δ that is not positive and finite, shapes that do not fit or an unknown reduction, TypeError
    for a mask that is not boolean.
    VJP: p̄ = ℓ̄ max(−δ, min(d, δ)), t̄ = −p̄. The slope has no jump; its own slope has, at |d| = δ.
    Source: Huber (1964).
    Elsewhere: PyTorch's smooth_l1_loss with beta = δ is this divided by δ.
    """
    delta = float(delta)
    mask = counts(mask, prediction, target)
    prediction, target = (masked(mask, a, 0) for a in numbers(prediction, target))
    difference = np.asarray(prediction - target)
    sign = np.where(difference.real < 0, -1, 1).astype(difference.real.dtype)
    size = sign * difference  # |d|
    bounded = np.where(size.real > delta, delta, size)  # c, which is NaN where d is
    value, terms_bar = reduced(bounded * (size - 0.5 * bounded), mask, reduction)

    def vjp(loss_bar):
        p_bar = product(terms_bar(loss_bar), sign * bounded)
        return p_bar, lambda: -p_bar

    return value, vjp


@primitive
@takes("mean to (*S), std positive to (*S), y to (*S) → () or (*S)", **counting("mean, std, y"))
def gaussian_nll(mean, std, y, *, mask=None, reduction="mean"):
    """Minus the log density of a normal distribution, ℓ = ½ z² + log σ + ½ log 2π with z = (y − μ)/σ.

    Shapes: mean, std and y broadcast, one of them to the shape of all; `mask` too, True = counts → a number, or that
    shape for reduction="none". "mean" divides by the number of elements that count.
    Raises ValueError for a std that counts and is not positive and finite, for shapes that do not fit or an unknown
    reduction, TypeError for a mask that is not boolean.
    VJP: ∂ℓ/∂y = z/σ, and ∂ℓ/∂σ = (1 − z²)/σ, written with w = 1 − |z| = (σ − |y − μ|)/σ: near |z| = 1 the difference is
    exact, so as many digits are left as y − μ has.

        ȳ = ℓ̄ z/σ        μ̄ = −ȳ        σ̄ = ℓ̄ w (2 − w)/σ

    Source: Sivaraya (2023) §3.2, eq. 9.
    Elsewhere: PyTorch's GaussianNLLLoss takes the variance, not σ, bounds it below by 1e-6, and leaves out ½ log 2π
    unless full=True. TNP-pytorch adds up the axes of y and averages over points.
    """
    mask = counts(mask, mean, std, y)
    mean, std, y = (masked(mask, a, neutral) for a, neutral in zip(numbers(mean, std, y), (0, 1, 0), strict=True))
    check_positive("gaussian_nll", "std", std)
    difference = np.asarray(y - mean)
    z = difference / std
    terms = np.asarray(0.5 * z * z + (np.log(std) + HALF_LOG_TWO_PI.astype(z.real.dtype)))
    value, terms_bar = reduced(terms, mask, reduction)

    def vjp(loss_bar):
        bar = terms_bar(loss_bar)
        y_bar = product(bar, z / std)

        def std_bar():
            size = np.abs(difference) if z.dtype.kind == "f" else np.where(z.real < 0, -difference, difference)
            w = std - size
            w /= std
            slope = 2 - w
            slope *= w
            slope /= std
            return product(bar, slope)

        return lambda: -y_bar, std_bar, y_bar

    return value, vjp


@primitive
@takes(
    "logits to (*S), targets probability to (*S) → () or (*S)",
    positive_weight="positive",
    **counting("logits, targets"),
)
def binary_cross_entropy(logits, targets, *, positive_weight=1.0, mask=None, reduction="mean"):
    """ℓ = w t log(1 + e^(−x)) + (1 − t) log(1 + eˣ): σ(x) is the probability of a yes, the target t is 1 for a yes.

    A target between 0 and 1 is a probability itself.
    Shapes: logits and targets broadcast, one of them to the shape of all; `mask` too, True = counts → a number, or that
    shape for reduction="none". w = `positive_weight` is a number, how much more a yes counts than a no. "mean" divides
    by the number of elements that count, whatever w.
    Both logarithms are of 1 plus a number, and neither term is negative: no digit is lost in either tail, as σ itself
    would lose them.
    Raises ValueError for a target outside [0, 1], a weight that is not positive and finite, shapes that do not fit or
    an unknown reduction, TypeError for a mask that is not boolean.
    VJP: x̄ = ℓ̄ ((1 − t) σ(x) − w t σ(−x)), t̄ = ℓ̄ ((w − 1) log(1 + e^(−x)) − x).
    Elsewhere: PyTorch's binary_cross_entropy_with_logits (its binary_cross_entropy takes σ(x), whose 1 − σ has lost its
    digits, and bounds the logarithms by −100).
    """
    name = "binary_cross_entropy"
    mask = counts(mask, logits, targets)
    x, t = (masked(mask, a, 0) for a in numbers(logits, targets))
    _check_probabilities(name, t)
    x, t, weight = np.asarray(x), np.asarray(t), float(positive_weight)
    positive = x.real > 0
    e = np.exp(np.where(positive, -x, x))  # e^(−|x|)
    log_sum = log1p_of(e)
    no, yes = log_sum + np.where(positive, x, 0), log_sum - np.where(positive, 0, x)  # log(1 + eˣ), log(1 + e^(−x))
    value, terms_bar = reduced(weight * product(t, yes) + product(1 - t, no), mask, reduction)

    def vjp(loss_bar):
        bar = terms_bar(loss_bar)
        sigma, sigma_of_minus = (np.where(side, 1, e) / (1 + e) for side in (positive, ~positive))  # σ(x), σ(−x)
        x_bar = product(bar, (1 - t) * sigma - weight * t * sigma_of_minus)
        return x_bar, lambda: product(bar, (weight - 1) * yes - x if weight != 1 else -x)

    return value, vjp


def _check_probabilities(name, targets):
    """ValueError naming the first target that is not a probability."""
    real = np.asarray(targets).real
    wrong = ~((real >= 0) & (real <= 1))
    if wrong.any():
        raise ValueError(f"{name}: targets hold {real[wrong][0]}; a probability lies in [0, 1]")


@primitive
@takes(
    "logits (..., V ≥ 1), targets whole < V (...) or probability (..., V) → () or (...)",
    ignore_index="whole?",
    label_smoothing="in [0, 1)",
    smoothing="uniform | off_target | without_pad",
    class_weights="real (V)?",
    **REDUCTION,
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
    give them. "uniform" smoothing makes (1 − ε) q + ε/V of them; there is no `ignore_index`.

    Shapes: logits (..., V), classes last since rows are tokens (PyTorch has them second); targets (...) integers, or
    (..., V) floats; class_weights w (V,) → a number, or (...) for reduction="none".
    "mean" divides by Σ_n w_{y_n} over the rows that count, a weighted mean as in PyTorch (Keras: by their number); with
    targets that are probabilities by the number of rows, as in PyTorch.
    A logit of −∞ gives its class probability 0: a loss of +∞ if that class has a part of q, no effect if not.
    Raises TypeError for targets that are neither integers nor floats, ValueError for a class out of range (naming it),
    a probability outside [0, 1], shapes that do not fit, weights that are negative or not finite, ε outside [0, 1), too
    few classes for the way of smoothing, or an option that probabilities do not have.
    VJP, with Q = Σ_c w_c q_c and ∂(log p_c)/∂x_i = δ_ci − p_i:

        x̄_i = ℓ̄ (Q p_i − w_i q_i),   at i = y written as ℓ̄ (w_y q_y (p_y − 1) + (Q − w_y q_y) p_y)

    where p_y − 1 = expm1(log p_y) keeps its digits as p_y → 1. Of probabilities, with a_i = w_i q_i: x̄_i =
    ℓ̄ (p_i Σ_{c≠i} a_c − a_i (1 − p_i)), and q̄_i = −ℓ̄ w_i log p_i (times 1 − ε).
    Source: Szegedy et al. (2016), §7; Vaswani et al. (2017) §5.4.
    """
    x = floating(logits)
    if np.asarray(targets).dtype.kind in "fc" and (np.size(targets) or np.shape(targets) == x.shape):
        return _cross_entropy_of_probabilities(
            x, np.asarray(targets), ignore_index, label_smoothing, smoothing, class_weights, reduction
        )
    targets, mask = _check_targets(x, targets, ignore_index)
    weights = _check_weights(class_weights, x)
    target_share, share = _shares(smoothing, label_smoothing, x, ignore_index)
    own, off = weights * target_share, weights * share  # (V,)   w_c q_c if c is the target, and if it is not
    y, present = targets.reshape(-1), mask.reshape(-1)
    rows = x.reshape(y.size, x.shape[-1])
    terms, rows_vjp = _in_blocks(rows, y, present, own, off)
    divisor = np.where(present, weights[y], 0).sum()
    value, terms_bar = reduced(terms.reshape(targets.shape), mask, reduction, divisor)

    def vjp(loss_bar):
        bar = np.broadcast_to(terms_bar(loss_bar), targets.shape).reshape(-1)
        return rows_vjp(bar).reshape(x.shape), None

    return value, vjp


def _cross_entropy_of_probabilities(x, q, ignore_index, epsilon, smoothing, class_weights, reduction):
    """(value, vjp) of `cross_entropy` for targets q (..., V), the probabilities of the classes."""
    if ignore_index is not None or smoothing != "uniform":
        raise ValueError(
            "cross_entropy: targets are probabilities, to which neither ignore_index nor smoothing="
            f"{smoothing!r} applies; leave them out, or pass the numbers of the classes"
        )
    _check_probabilities("cross_entropy", q)
    x, q = in_order(x), in_order(q)
    weights = _check_weights(class_weights, x)
    _, share = _shares(smoothing, epsilon, x, None)
    kept = weights * (1 - x.real.dtype.type(epsilon))  # (V,)
    a = kept * q + weights * share  # (..., V)   w q, smoothed
    log_p = log_softmax(x)  # (..., V)
    terms = -product(a, log_p).sum(-1)
    value, terms_bar = reduced(terms, np.ones(terms.shape, bool), reduction)

    def vjp(loss_bar):
        bar = np.broadcast_to(terms_bar(loss_bar), terms.shape)[..., None]
        x_bar = np.exp(log_p) * _sum_of_others(a) + product(a, np.expm1(log_p))
        return product(bar, x_bar), lambda: product(-bar * kept, log_p)

    return value, vjp


def _sum_of_others(a):
    """Σ_{c≠i} a_c for each i of the last axis, without subtraction."""
    before, after = np.zeros_like(a), np.zeros_like(a)
    np.cumsum(a[..., :-1], -1, out=before[..., 1:])
    np.cumsum(a[..., :0:-1], -1, out=after[..., -2::-1])
    return before + after


def _cross_entropy_rows(x, y, present, own, off, others):
    """Losses (R,) of rows of logits x (R, V) with targets y (R,), and their VJP.

    own, off and others (V,), for each class c: w_c q_c if c is the target, if it is not, and Σ_{i≠c} off_i.
    Rows that are not present are read as 0.
    """
    x = x if present.all() else np.where(present[:, None], x, 0)
    hit = np.arange(len(x)), y
    log_p = log_softmax(x)  # (R, V)
    log_hit = log_p[hit]  # (R,)
    terms = -product(own[y], log_hit)
    if off.any():
        miss = np.where(off == 0, 0, log_p)  # (R, V)   0 · (−∞) is nothing here
        miss[hit] = 0
        terms -= sum_of_products("rv,v->r", miss, off)

    def vjp(bar):
        p = np.exp(log_p)  # (R, V)
        x_bar = p * (own + others)[y][:, None] - off  # (R, V)
        x_bar[hit] = own[y] * np.expm1(log_hit) + others[y] * p[hit]
        x_bar *= bar[:, None]
        return x_bar

    return terms, vjp


def _in_blocks(rows, y, present, own, off):
    """`_cross_entropy_rows` block by block on threads: the logits of a block stay in the cache."""
    others = _sum_of_others(off)
    height = max(1, block_numbers(rows.dtype) // rows.shape[1])
    blocks = slices(len(rows), height)
    terms, vjps = np.empty(len(rows), rows.dtype), [None] * len(blocks)

    def forward(i):
        b = blocks[i]
        terms[b], vjps[i] = _cross_entropy_rows(rows[b], y[b], present[b], own, off, others)

    run_all(forward, len(blocks))

    def vjp(bar):
        x_bar = np.empty(rows.shape, np.result_type(bar, rows))

        def backward(i):
            x_bar[blocks[i]] = vjps[i](bar[blocks[i]])

        run_all(backward, len(blocks))
        return x_bar

    return terms, vjp


def _shares(smoothing, epsilon, x, pad):
    """q of the target, a number, and q (V,) of each class where it is not the target."""
    classes = x.shape[-1]
    if classes < SMOOTHINGS[smoothing]:
        raise ValueError(f"cross_entropy: {smoothing!r} needs {SMOOTHINGS[smoothing]} classes, logits have {classes}")
    if smoothing == "without_pad" and (pad is None or not 0 <= pad < classes):
        raise ValueError(
            f"cross_entropy: 'without_pad' needs ignore_index, the padding class, below {classes}, not {pad}"
        )
    epsilon = x.real.dtype.type(epsilon)
    each = epsilon / {"uniform": classes, "off_target": classes - 1, "without_pad": classes - 2}[smoothing]
    share = np.full(classes, each)
    if smoothing == "without_pad":
        share[pad] = 0
    return (1 - epsilon + each if smoothing == "uniform" else 1 - epsilon), share


def _check_targets(x, targets, ignore_index):
    """Targets with 0 in place of what is ignored, and the mask of the others: integers and booleans of one shape."""
    targets = integers("cross_entropy", "targets", targets, ", the numbers of the classes")
    mask = np.ones(targets.shape, bool) if ignore_index is None else np.asarray(targets != ignore_index)
    wrong = mask & ((targets < 0) | (targets >= x.shape[-1]))
    if wrong.any():
        place = np.argwhere(wrong)[0].tolist()
        raise ValueError(
            f"cross_entropy: targets hold class {targets[wrong][0]} at {place}, logits have {x.shape[-1]} classes; "
            f"use 0 to {x.shape[-1] - 1}, or ignore_index"
        )
    return np.where(mask, targets, 0), mask


def _check_weights(class_weights, x):
    """Class weights (V,) in the precision of x, 1 by default."""
    classes = x.shape[-1]
    if class_weights is None:
        return np.ones(classes, x.real.dtype)
    weights = class_weights
    wrong = ~((weights >= 0) & (weights < np.inf))
    if wrong.any():
        raise ValueError(f"cross_entropy: class_weights hold {weights[wrong][0]}; they must be finite and not negative")
    return weights.astype(x.real.dtype)
