"""Softmax, its logarithm, and the logarithm of a sum of exponentials, along one axis."""

from dataclasses import replace

import numpy as np

from refnp import autograd, layers
from refnp.autograd.declaration import takes_unchecked
from refnp.autograd.pages import along_axes
from refnp.autograd.reductions import log_of_total
from refnp.layers.softmax import softmax_vjp
from refnp.numbers import rounding
from refnp.numbers.rounding import either, overflowing, where
from refnp.numbers.words import peak
from refnp.verify.case import Case, GradientInputs, KnownDefect, Layer, exact_gradient, gradient_of, normal
from refnp.verify.judged_pages import by_tape, of_page


def weights(x):
    """Softmax along the last axis, as every equation of attention takes it."""
    return layers.softmax.page(x)[0]


def printed_pullback(p, g):
    """x̄ = p (ḡ − Σ ḡ p) as it stands, which cancels where one weight is near 1."""
    return p * (g - (g * p).sum(-1, keepdims=True))


def or_printed_alone(p, g):
    """The page's; or, of a weight that is alone, p (ḡ − ḡ p): it is 1 on paper, and nothing is to be kept."""
    alone = (p.value != 0).sum(-1, keepdims=True) == 1
    of_page = softmax_vjp(p, g)
    return either(lambda: of_page, lambda: where(alone, printed_pullback(p, g), of_page)) if alone.any() else of_page


@takes_unchecked("x (..., n ≥ 1) → (...)")
def sum_in_log(x, *, axis=-1):
    """y = log Σ exp(x_i), along the last axis unless told otherwise."""
    return autograd.logsumexp(x, axis)


def log_of_total_or_printed(e, ones, axes):
    """From the rest beside the largest, or as it stands."""
    logarithm, total = log_of_total(e, ones, axes)
    printed = e.sum(axes, keepdims=True)
    printed = where(printed.value == 0, 1, printed)
    return either(lambda: logarithm, lambda: rounding.log(printed)), either(lambda: total, lambda: printed)


logsumexp = by_tape(sum_in_log, {log_of_total: log_of_total_or_printed})


@along_axes
def printed_log_softmax(x):
    """y = (x − m) − log Σ exp(x − m), or x − (m + log Σ); x̄ = ȳ − p Σ ȳ, p = e^y."""
    shifted = x - peak(x)
    m = x.value.max(-1, keepdims=True, initial=-np.inf)
    total = rounding.exp(shifted).sum(-1, keepdims=True)
    nothing = total.value == 0
    logarithm = rounding.log(where(nothing, 1, total))
    finite = shifted.value > -np.inf
    own = lambda a: where(finite, a, 0)
    y = either(lambda: own(shifted) - logarithm, lambda: own(x) - (logarithm + np.where(nothing, 0, m)))
    y = where(finite, y, -np.inf)
    p = rounding.exp(y)
    return y, lambda g: (where(nothing, 0, g - p * g.sum(-1, keepdims=True)),)


def printed_logsumexp(x, *, axis=-1):
    """The gradient ȳ exp(x − y) takes y rounded, and is NaN where both are −∞."""
    y, _ = logsumexp(x, axis=axis)
    kept = lambda a: np.expand_dims(a, axis)
    return y, lambda g: (rounding.exp(x - kept(y)) * kept(g),)


def logsumexp_from_maximum(x, *, axis=-1):
    """m + log Σ exp(x − m) without a word on rows of −∞: −∞ + ∞ is NaN."""
    y, pullback = printed_logsumexp(x, axis=axis)
    nothing = np.isneginf(x.value.max(axis))
    return where(nothing, np.nan, y), lambda g: (where(np.expand_dims(nothing, axis), np.nan, *pullback(g)),)


@along_axes
def logarithm_of_softmax(x):
    """y = log p: −∞ where p underflows to 0, and nothing is known of it where p is subnormal."""
    p = weights(x)
    judged = p.arithmetic
    least = 0 if judged is None else judged.smallest * judged.u  # half the smallest subnormal number
    gone = p.value < least
    return where(gone, -np.inf, rounding.log(where(gone, 1, p))), lambda g: (g - p * g.sum(-1, keepdims=True),)


def logsumexp_without_maximum(x, *, axis=-1):
    """y = log Σ eˣ: ∞ where eˣ overflows, and −∞ where all eˣ underflow."""
    total = overflowing(overflowing(rounding.exp(x)).sum(axis))
    return rounding.log(total), lambda g: (rounding.exp(x) / total.moved(lambda a: np.expand_dims(a, axis)),)


OF_ONE = {softmax_vjp: or_printed_alone}
SOFTMAX = of_page(layers.softmax, OF_ONE, torch=lambda torch, x, axis: x.softmax(axis), jax="nn.softmax")
LOG_SOFTMAX = of_page(layers.log_softmax, torch=lambda torch, x, axis: x.log_softmax(axis), jax="nn.log_softmax")
LOGSUMEXP = Layer(
    "logsumexp", sum_in_log, logsumexp, torch=lambda torch, x, axis: x.logsumexp(axis), jax="nn.logsumexp"
)

PRINTED_LOGARITHM = {layers.log_softmax.page: printed_log_softmax}
PRINTED_PULLBACK = {softmax_vjp: printed_pullback}
LOG_SOFTMAX_NEAR_ZERO = KnownDefect(
    "PyTorch",
    "pytorch/pytorch#113708",
    "log_softmax as x − log Σ exp: a log p near 0 becomes 0; log1p of the rest keeps it",
    ("output",),
    parts=PRINTED_LOGARITHM,
)
LOG_SOFTMAX_VJP = KnownDefect(
    "PyTorch",
    "pytorch/pytorch#195680",
    "log_softmax's VJP forms 1 − p with p rounded to 1, and drops that component",
    ("gradient of x", "gradient of logits"),
    parts=PRINTED_LOGARITHM,
)
LOGSUMEXP_NOTHING = KnownDefect(
    "PyTorch",
    "logsumexp of -inf: NaN gradient",
    "logsumexp of −inf alone: −inf has no slope, its gradient is 0 (pytorch/pytorch#49724)",
    equation=printed_logsumexp,
)
LOGSUMEXP_VJP = KnownDefect(
    "PyTorch",
    "logsumexp: gradient exp(x - y)",
    "logsumexp's gradient exp(x − y) takes y rounded: |y| u of relative error",
    ("gradient of x",),
    equation=printed_logsumexp,
)
JAX_LOG_SOFTMAX = KnownDefect(
    "JAX",
    "log_softmax: log of the sum",
    "log_softmax as x − log Σ exp: a log p near 0 becomes 0",
    ("output",),
    parts=PRINTED_LOGARITHM,
)
JAX_LOG_SOFTMAX_VJP = KnownDefect(
    "JAX",
    "log_softmax: gradient by 1 - p",
    "log_softmax's VJP forms 1 − p with p rounded to 1",
    ("gradient of x",),
    parts=PRINTED_LOGARITHM,
)
JAX_LOGSUMEXP_NOTHING = KnownDefect(
    "JAX",
    "jax-ml/jax#6811",
    "logsumexp of −inf alone: NaN gradient",
    equation=printed_logsumexp,
)
SOFTMAX_VJP = KnownDefect(
    "PyTorch",
    "softmax: gradient by p (g - sum(g p))",
    "softmax's VJP p_L (ḡ_L − Σ ḡ p) loses its digits as p_L → 1",
    ("gradient of x",),
    parts=PRINTED_PULLBACK,
)
LOST = (SOFTMAX_VJP, replace(SOFTMAX_VJP, framework="JAX"))
DOMINATED = {  # rows in which one element has all the weight
    "softmax": LOST,
    "log_softmax": (LOG_SOFTMAX_NEAR_ZERO, JAX_LOG_SOFTMAX),
    "logsumexp": (LOGSUMEXP_VJP,),
}
FAR_OFF = {"logsumexp": (LOGSUMEXP_VJP,)}  # rows with a large mean
NEARLY_ONE = 37.42994775023705  # exp(−x) is 2⁻⁵⁴: half the distance from 1 to its neighbour below
SATURATED = np.array([[0.0, -30.0, -5.0], [-40.0, 0.0, -3.5], [80.0, -0.5, 10.0], [1.0, 2.0, 3.0], [2.0, 2.0, -60.0]])
HALF_HIDDEN = np.where(np.arange(24).reshape(4, 6) % 5 < 2, -np.inf, np.linspace(-2, 3, 24).reshape(4, 6))


def cases() -> list[Case]:
    """Large logits, large means, −∞, rows of one; first those that were made to show a defect."""
    near_zero = (LOG_SOFTMAX_NEAR_ZERO, JAX_LOG_SOFTMAX)
    last = {"axis": -1}
    found = [
        Case(LOG_SOFTMAX, "20 and 0", {"x": np.array([[20.0, 0.0]])}, last, near_zero),
        Case(
            LOG_SOFTMAX,
            "one component of the gradient",
            {"x": np.array([NEARLY_ONE, 0.0])},
            last,
            (*near_zero, LOG_SOFTMAX_VJP, JAX_LOG_SOFTMAX_VJP),
            cotangent=[1.0, 0.0],
        ),
        Case(SOFTMAX, "0 and -30", {"x": np.array([0.0, -30.0])}, last, LOST, cotangent=[1.0, 0.0]),
        Case(SOFTMAX, "0 and -40", {"x": np.array([0.0, -40.0])}, last, LOST, cotangent=[1.0, 0.0]),
        Case(SOFTMAX, "saturated rows", {"x": normal(50, 6, scale=20)}, last, LOST),
        Case(
            LOGSUMEXP, "-inf alone", {"x": np.full((2, 3), -np.inf)}, last, (LOGSUMEXP_NOTHING, JAX_LOGSUMEXP_NOTHING)
        ),
    ]
    for layer in (SOFTMAX, LOG_SOFTMAX, LOGSUMEXP):
        dominated, far_off = DOMINATED.get(layer.name, ()), FAR_OFF.get(layer.name, ())
        found += [
            Case(layer, "ordinary", {"x": normal(5, 8)}, last),
            Case(layer, "first axis", {"x": normal(7, 4)}, {"axis": 0}),
            Case(layer, "middle axis", {"x": normal(2, 6, 3)}, {"axis": 1}),
            Case(layer, "length 1", {"x": normal(5, 1, scale=10)}, last),
            Case(layer, "long rows", {"x": normal(2, 100)}, last),
            Case(layer, "mean 1e4", {"x": normal(4, 8, shift=1e4)}, last, far_off),
            Case(layer, "logits 100", {"x": normal(4, 8, scale=100)}, last, dominated),
            Case(layer, "logits 1e4", {"x": normal(4, 8, scale=1e4)}, last, dominated),
            Case(layer, "equal logits", {"x": np.full((3, 7), 2.5)}, last),
            Case(layer, "some -inf", {"x": HALF_HIDDEN}, last),
        ]
    return found


def gradient_inputs() -> list[GradientInputs]:
    """Rows in which one number has nearly all the weight; and two axes."""
    x = np.random.default_rng(0).normal(size=(3, 5))
    return [
        gradient_of("log_softmax, axis (0, 1)", layers.log_softmax, x, axis=(0, 1)),
        exact_gradient("softmax, saturated", layers.softmax, SOFTMAX.equation, SATURATED),
        exact_gradient("log_softmax, saturated", layers.log_softmax, LOG_SOFTMAX.equation, SATURATED),
        exact_gradient("logsumexp, saturated", autograd.logsumexp, logsumexp, SATURATED, axis=-1),
    ]
