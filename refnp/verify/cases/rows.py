"""Cases of softmax, log_softmax, logsumexp and the normalisations."""

from __future__ import annotations

import numpy as np

from refnp.autograd import logsumexp
from refnp.layers.normalization import layer_norm, rms_norm
from refnp.layers.softmaxes import log_softmax, softmax
from refnp.verify import known
from refnp.verify.case import Case, Layer, normal
from refnp.verify.equations import rows as equations

SOFTMAX = Layer("softmax", softmax, equations.softmax)
LOG_SOFTMAX = Layer("log_softmax", log_softmax, equations.log_softmax)
LOGSUMEXP = Layer("logsumexp", logsumexp, equations.logsumexp)
LAYER_NORM = Layer("layer_norm", layer_norm, equations.layer_norm)
RMS_NORM = Layer("rms_norm", rms_norm, equations.rms_norm)

HALF_HIDDEN = np.where(np.arange(24).reshape(4, 6) % 5 < 2, -np.inf, np.linspace(-2, 3, 24).reshape(4, 6))


def cases() -> list[Case]:
    """All cases of this page."""
    return [*softmax_cases(), *layer_norm_cases(), *rms_norm_cases()]


DOMINATED = {  # rows in which one element has all the weight
    "log_softmax": (known.LOG_SOFTMAX_NEAR_ZERO, known.JAX_LOG_SOFTMAX),
    "logsumexp": (known.LOGSUMEXP_VJP,),
}
FAR_OFF = {"logsumexp": (known.LOGSUMEXP_VJP,)}  # rows with a large mean


def softmax_cases() -> list[Case]:
    """Softmax, its logarithm and logsumexp: large logits, large means, −∞, rows of one."""
    found = []
    for layer in (SOFTMAX, LOG_SOFTMAX, LOGSUMEXP):
        dominated, far_off = DOMINATED.get(layer.name, ()), FAR_OFF.get(layer.name, ())
        found += [
            Case(layer, "ordinary", {"x": normal(5, 8)}, {"axis": -1}),
            Case(layer, "first axis", {"x": normal(7, 4)}, {"axis": 0}),
            Case(layer, "middle axis", {"x": normal(2, 6, 3)}, {"axis": 1}),
            Case(layer, "length 1", {"x": normal(5, 1, scale=10)}, {"axis": -1}),
            Case(layer, "long rows", {"x": normal(2, 100)}, {"axis": -1}),
            Case(layer, "mean 1e4", {"x": normal(4, 8, shift=1e4)}, {"axis": -1}, far_off),
            Case(layer, "logits 100", {"x": normal(4, 8, scale=100)}, {"axis": -1}, dominated),
            Case(layer, "logits 1e4", {"x": normal(4, 8, scale=1e4)}, {"axis": -1}, dominated),
            Case(layer, "equal logits", {"x": np.full((3, 7), 2.5)}, {"axis": -1}),
            Case(layer, "some -inf", {"x": HALF_HIDDEN}, {"axis": -1}),
        ]
    return found


def layer_norm_cases() -> list[Case]:
    """LayerNorm: large means, constant rows, one feature, every ε."""

    def case(variant, x, features, *, known=(), **options):
        gain = normal(features, shift=1.0, scale=0.5)
        return Case(LAYER_NORM, variant, {"x": x, "gain": gain, "shift": normal(features)}, options, known)

    one_pass = (known.JAX_VARIANCE,)

    return [
        case("ordinary", normal(6, 16), 16),
        case("batch of images", normal(2, 3, 4, 12), 12),
        case("64 features", normal(3, 64), 64),
        case("mean 30", normal(5, 16, shift=30.0), 16, known=one_pass),
        case("mean 1e4", normal(5, 16, shift=1e4), 16, known=one_pass),
        case("small variance", normal(5, 16, scale=1e-4), 16),
        case("scale 1e6", normal(5, 16, scale=1e6), 16),
        case("constant rows", np.repeat([[0.0], [1.0], [-3.5]], 8, 1), 8),
        case("eps 1e-3", normal(5, 8, scale=0.1), 8, eps=1e-3),
        case("two features", normal(9, 2), 2, known=one_pass),
        case("one hot rows", np.eye(4), 4),
        case("one element", np.array([[1.0], [-2.0], [0.5], [0.0]]), 1),
    ]


def rms_norm_cases() -> list[Case]:
    """RMSNorm: zeros, large and small numbers."""

    def case(variant, x, features, **options):
        return Case(
            RMS_NORM, variant, {"x": x, "gain": normal(features, shift=1.0, scale=0.5)}, {"eps": 1e-5} | options
        )

    return [
        case("ordinary", normal(6, 16), 16),
        case("mean 1e4", normal(5, 16, shift=1e4), 16),
        case("small rows", normal(5, 16, scale=1e-4), 16),
        case("rows of zeros", np.zeros((2, 8)), 8),
        case("one element", np.array([[3.0], [-2.0], [1e-3]]), 1),
        case("eps 1e-3", normal(5, 8, scale=0.1), 8, eps=1e-3),
    ]
