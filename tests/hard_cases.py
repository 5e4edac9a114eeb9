"""Inputs on which digits are lost easily, for tests/exactness.py: operations of the engine, and layers.

A layer has the equation of its page in refnp/verify/layers. An operation of the engine has the formula itself, on
arrays of `Number`s, and central differences of it for a gradient.
"""

import functools

import mpmath
import numpy as np

import refnp.autograd as ad
from refnp import layers
from refnp.autograd.primitives import raw
from refnp.layers import Mixture, Normal, density
from refnp.numbers.exact import Number
from refnp.numbers.rounding import exact
from refnp.tasks import GaussianProcess, Task
from refnp.tasks.kernels import EQ
from refnp.verify import layers as pages
from refnp.verify.case import Case, Layer
from refnp.verify.judged_pages import by_page
from refnp.verify.layers import activations, attention, engine, losses, normalization, set_convolution, softmax
from tests.transcriptions import autograd as printed

TINY = np.array([3e-300, -2e-155, 1e-16, -1e-8, 1e-3])
MIXED = np.array([1e-8, -0.3, 1.5, 700.0, -40.0])
NEARLY_SINGULAR = np.array([[1.0, 0.5, 0.25], [0.5, 1.0, 0.999999], [0.25, 0.999999, 1.1]])
HILBERT = 1 / (1.0 + np.add.outer(np.arange(5), np.arange(5)))


def formula(f):
    """f of arrays of numbers as an equation, whose pullback takes central differences."""

    def equation(*arguments, **options):
        arrays = [argument.value for argument in arguments]
        y = np.asarray(f(*arrays, **options))

        def pullback(g):
            return tuple(exact(slopes(f, arrays, k, g.value, options)) for k in range(len(arrays)))

        return exact(y), pullback

    return equation


def slopes(f, arrays, k, g, options):
    """Σ g ∂f/∂x for every element x of one array of `Number`s, with thrice the digits and steps of a third of them.

    In floating point there are none: 0.
    """
    found = np.zeros(arrays[k].shape, arrays[k].dtype)
    if found.dtype != object:
        return found
    digits = mpmath.mp.dps
    for place, x in np.ndenumerate(arrays[k]):
        size = abs(x.mpf) or mpmath.mpf(1)
        smaller = max(0, -int(mpmath.floor(mpmath.log10(size))))
        with mpmath.workdps(3 * digits + 2 * smaller):
            h = size / mpmath.mpf(10) ** digits
            sides = []
            for step in (h, -h):
                moved = arrays[k].copy()
                moved[place] = x + Number(step)
                sides.append(np.asarray(f(*arrays[:k], moved, *arrays[k + 1 :], **options)))
            found[place] = np.sum(g * (sides[0] - sides[1])) / Number(2 * h)
    return found


def operation(name, function, equation, variant, *arrays, cotangent=None, **options):
    """A case of the engine; inputs are called x, y, z."""
    inputs = dict(zip("xyz", arrays, strict=False))
    return Case(Layer(name, function, formula(equation)), f"hard, {variant}", inputs, options, cotangent=cotangent)


def along(rule):
    """A rule of tests/transcriptions/autograd.py along the last axis."""
    return lambda x: printed.along(rule, x, -1)


def elementary():
    """Arithmetic and elementary functions, near 0 and far out."""
    near_one, angles = np.array([1.0, 0.5, 3.0]) * (1 + 1e-9), np.array([3e-30, 1.0, -1e-8])
    return [
        operation("add", ad.add, np.add, "cancelling", near_one, -np.array([1.0, 0.5, 3.0])),
        operation("subtract", ad.subtract, np.subtract, "cancelling", near_one, np.array([1.0, 0.5, 3.0])),
        operation(
            "multiply", ad.multiply, np.multiply, "tiny and huge", TINY, np.array([1e200, 1e150, 3.0, 1e8, 1e-3])
        ),
        operation("divide", ad.divide, np.true_divide, "near 0", TINY, np.array([7e-290, 1e-150, 1e-8, 3.0, 1e300])),
        operation(
            "divide",
            ad.divide,
            np.true_divide,
            "near the smallest numbers",
            np.array([3e-310, 2e-308, 1e-320, 1e-200, 1e150]),
            np.array([1e-300, 3e-309, 2e-310, 1e-310, 1e-158]),
        ),
        operation(
            "power",
            ad.power,
            power,
            "x^p",
            np.array([1e-300, 1e-8, 0.9, 40.0, 1e10]),
            np.array([0.3, -2.5, 700.0, -30.0, 17.5]),
        ),
        operation(
            "power",
            ad.power,
            power,
            "p near 0 and 1",
            np.array([3e-5, 2.0, 2.0, 7.0]),
            np.array([1e-12, 1 + 1e-12, 1e-300, 1.0]),
        ),
        operation(
            "power",
            ad.power,
            power,
            "near the smallest numbers",
            np.array([1e-310, 5e-324, 1e-308, 3e-309]),
            np.array([0.5, 1.5, 0.99, 0.5]),
            cotangent=[1e-100, 1e100, 1.0, 1.0],
        ),
        operation("power", lambda x: ad.power(x, 3), lambda x: x * x * x, "x³", TINY[2:]),
        operation("power", lambda x: ad.power(x, -0.5), lambda x: 1 / np.sqrt(x), "x^−½", np.abs(TINY)),
        operation("exp", ad.exp, np.exp, "both ends", np.array([-700.0, -40.0, 1e-20, 1.0, 80.0])),
        operation("expm1", ad.expm1, np.expm1, "near 0", np.append(TINY, [-40.0, 700.0])),
        operation("log", ad.log, np.log, "near 1 and 0", np.array([1 + 1e-12, 1 - 1e-8, 3e-300, 1e300])),
        operation("log1p", ad.log1p, np.log1p, "near 0 and −1", np.append(TINY, [-1 + 1e-12, 1e300])),
        operation("sqrt", ad.sqrt, np.sqrt, "tiny and huge", np.array([3e-300, 1e-16, 1e300])),
        operation("tanh", ad.tanh, np.tanh, "saturated", np.array([-300.0, -19.0, -1e-9, 3e-300, 0.4, 5.0, 40.0])),
        operation("sin", ad.sin, np.sin, "near 0 and far out", np.array([1e-300, 1e-8, 1.0, 1e5, 3.141592653589793])),
        operation("cos", ad.cos, np.cos, "near 0 and far out", np.array([1e-300, 1e-8, 1.0, 1e5, 1.5707963267948966])),
        operation("arctan2", ad.arctan2, lambda y, x: np.arctan(y / x), "right of 0", angles, np.array([2, 1e-8, 3])),
        operation(
            "arctan2",
            ad.arctan2,
            lambda y, x: 2 * np.arctan((np.sqrt(x * x + y * y) - x) / y),  # the tangent of half the angle
            "left of 0",
            angles,
            -np.array([2, 1e-8, 3]),
        ),
        operation("absolute", ad.absolute, np.abs, "tiny", TINY),
        operation("maximum", ad.maximum, np.maximum, "nearly equal", near_one, np.array([1.0, 0.5, 4.0])),
        operation("minimum", ad.minimum, np.minimum, "nearly equal", near_one, np.array([1.0, 0.5, 4.0])),
        Case(ERF, "hard, tails and near 0", {"x": np.array([-5.5, -1.0, 3e-300, 1e-9, 0.3, 4.0, 6.5])}),
        Case(ERFC, "hard, tails and near 0", {"x": np.array([-5.5, -1.0, 3e-300, 0.3, 4.0, 10.0, 26.0])}),
    ]


ERF, ERFC = engine.ERF, engine.ERFC
NORMAL_CDF = Layer("normal_cdf", density.normal_cdf, by_page(density.normal_cdf))


def power(x, exponent):
    """x^p = exp(p log x), of positive x."""
    return np.exp(exponent * np.log(x))


def reductions():
    """Sums and their relatives."""
    cancelling = np.array([[1e16, 1.0, -1e16, 3.0], [1.0, 1e-10, -1.0, 2e-20]])
    rows = np.array([[0.0, -40.0, -700.0], [1e3, 1e3 - 1e-9, -1e3], [-3.0, -3.5, 2.0]])
    last = {"axis": -1}
    return [
        operation("sum", lambda x: ad.sum(x, -1), along(printed.total), "cancelling", cancelling),
        operation("mean", lambda x: ad.mean(x, -1), along(printed.mean), "cancelling", cancelling),
        operation(
            "prod",
            lambda x: ad.prod(x, -1),
            along(printed.product),
            "tiny and huge",
            np.array([[1e-200, 1e200, 3.0], [1e-100, 1e-100, 1e150]]),
        ),
        operation("logsumexp", lambda x: ad.logsumexp(x, -1), along(printed.logsumexp), "saturated", rows),
        operation(
            "norm",
            lambda x: ad.norm(x, -1),
            along(printed.norm),
            "tiny and huge",
            np.array([[3e-200, 4e-200], [1e200, 1e-200], [1.0, 1e-9]]),
        ),
        operation("cumsum", lambda x: ad.cumsum(x, -1), lambda x: np.cumsum(x, -1), "cancelling", cancelling),
        Case(softmax.LOGSUMEXP, "hard, saturated", {"x": rows}, last),
        Case(softmax.SOFTMAX, "hard, saturated", {"x": rows}, last),
        Case(softmax.LOG_SOFTMAX, "hard, saturated", {"x": rows}, last),
    ]


def matrices():
    """Products that cancel, and matrices that are nearly singular."""
    x, y = np.array([[1.0, 1e8, -1.0], [1e-8, 2.0, 3.0]]), np.array([[1.0, 2.0], [1e-8, 1.0], [1.0, -3.0]])
    factor = np.linalg.cholesky(HILBERT)
    return [
        operation("matmul", ad.matmul, np.matmul, "cancelling", x, y),
        operation("outer", ad.outer, lambda x, y: x[..., :, None] * y[..., None, :], "tiny", TINY, MIXED),
        operation("trace", ad.trace, lambda x: x[0, 0] + x[1, 1] + x[2, 2], "cancelling", np.diag([1.0, -1.0, 1e-9])),
        operation("einsum", lambda x, y: ad.einsum("ij,jk->ik", x, y), np.matmul, "cancelling", x, y),
        operation("cholesky", ad.cholesky, symmetric(printed.cholesky), "nearly singular, 1e-6", NEARLY_SINGULAR),
        operation("cholesky", ad.cholesky, symmetric(printed.cholesky), "Hilbert's matrix, 5 rows", HILBERT),
        operation(
            "triangular_solve",
            ad.triangular_solve,
            printed.triangular_solve,
            "Hilbert's matrix",
            factor,
            np.eye(5)[:, :2] + 0.1,
        ),
        operation("log_determinant", ad.log_determinant, printed.log_determinant, "Hilbert's matrix", factor),
        operation(
            "log_determinant of A",
            lambda a: ad.log_determinant(ad.cholesky(a)),
            lambda a: printed.log_determinant(symmetric(printed.cholesky)(a)),
            "Hilbert's matrix",
            HILBERT,
        ),
    ]


def symmetric(f):
    """f of the symmetric part."""
    return lambda a: f((a + a.swapaxes(-1, -2)) / 2)


def rows():
    """Normalisation, activations, losses and distributions at their extremes."""
    nearly = 1 + 1e-6 * np.array([[1.0, -2.0, 0.5, 3.0], [0.0, 0.0, 1.0, 0.0], [1e3, 1.0, 2.0, 5.0]])
    far = 1e6 + np.array([[1.0, -2.0, 0.5, 3.0]])
    parameters = {"gain": np.array([1.0, -0.5, 2.0, 1e-3]), "shift": np.array([0.1, 0.0, -1.0, 2.0])}
    gain = {"gain": parameters["gain"]}
    tails = np.array([-37.0, -20.0, -7.0, -1e-9, 1e-300, 2.0, 9.0, 37.0])
    normalize = [
        Case(normalization.LAYER_NORM, f"hard, {name}", {"x": x} | parameters, options)
        for name, x, options in (
            ("nearly constant", nearly, {}),
            ("nearly constant, ε = 0", nearly, {"eps": 0.0}),
            ("mean 1e6", far, {}),
            ("small", 1e-200 * (nearly - 1) * 1e6, {"eps": 0.0}),
            ("large", 1e200 * (nearly - 1) * 1e6, {}),
        )
    ] + [
        Case(normalization.RMS_NORM, f"hard, {name}", {"x": x} | gain, options)
        for name, x, options in (
            ("nearly constant", nearly, {}),
            ("small", 1e-200 * (nearly - 1) * 1e6, {"eps": 0.0}),
            ("large", 1e200 * (nearly - 1) * 1e6, {}),
            ("one element dominates", np.array([[1e4, 1.0, -2.0, 0.5]]), {}),
        )
    ]
    return (
        normalize
        + [Case(layer, "hard, tails", {"x": tails}) for layer in activations.LAYERS]
        + [Case(activations.GELU, "hard, tanh, tails", {"x": tails}, {"approximate": "tanh"})]
    )


def probabilities():
    """Densities 10 σ and more away, divergences of nearly equal distributions, saturated classes."""
    y, mean, std = np.array([-12.5, 1e-9, 3.0, 12.5, 40.0]), np.zeros(5), np.full(5, 1.25)
    named = {case.layer.name: case.layer for case in pages.cases()}
    factor = np.linalg.cholesky(HILBERT[:4, :4])
    logits = np.array([[0.0, -40.0, -3.0], [300.0, 0.0, 1.0], [2.0, 2.0, -60.0]])
    close = logits * (1 + 1e-9)
    return [
        Case(losses.MSE, "hard, nearly equal", {"prediction": 1 + 1e-9 * y, "target": np.ones(5)}),
        Case(losses.GAUSSIAN_NLL, "hard, 10 σ", {"mean": mean, "std": std, "y": y}),
        Case(losses.CROSS_ENTROPY, "hard, saturated", {"logits": logits}, {"targets": np.array([0, 0, 1])}),
        Case(
            losses.CROSS_ENTROPY,
            "hard, saturated, smoothed",
            {"logits": logits},
            {"targets": np.array([0, 0, 1]), "label_smoothing": 0.1},
        ),
        Case(named["normal_log_prob"], "hard, 10 σ", {"y": y, "mean": mean, "std": std}),
        Case(NORMAL_CDF, "hard, 10 σ", {"y": y[:4], "mean": mean[:4], "std": std[:4]}),
        Case(
            named["normal_kl"],
            "hard, nearly equal",
            {"mean_p": y, "std_p": std, "mean_q": y * (1 + 1e-12), "std_q": std * (1 + 1e-10)},
        ),
        Case(
            named["multivariate_normal_log_prob"],
            "hard, nearly singular",
            {"y": y[:4], "mean": mean[:4], "factor": factor},
        ),
        Case(named["categorical_entropy"], "hard, saturated", {"logits": logits}),
        Case(named["categorical_kl"], "hard, saturated", {"logits_p": logits, "logits_q": logits[::-1].copy()}),
        Case(named["categorical_kl"], "hard, nearly equal", {"logits_p": logits, "logits_q": close}),
    ]


def points():
    """Set convolutions far from all points and at them."""
    x, y, far = np.array([[0.0], [0.5]]), np.array([[2.0], [-1.0]]), np.array([[0.25], [8.0], [-30.0]])
    inputs = {"target_x": far, "context_x": x, "context_y": y, "length_scale": np.array(1.0)}
    return [
        Case(set_convolution.SET_CONVOLUTION, "hard, far from all points", inputs),
        Case(set_convolution.SET_CONVOLUTION, "hard, far from all points, divided", inputs, {"divide": True}),
    ]


def scores():
    """Attention whose weights are nearly 0 and 1."""
    rng = np.random.default_rng(0)
    query, key, value = (rng.normal(size=size) for size in ((3, 4), (5, 4), (5, 2)))
    inputs = {"query": 4 * query, "key": 4 * key, "value": value}
    return [
        Case(attention.ATTENTION, "hard, saturated", inputs),
        Case(attention.ATTENTION, "hard, saturated, masked", inputs, {"mask": rng.random((3, 5)) < 0.7}),
        Case(BLOCKS, "hard, saturated", inputs),
        Case(BLOCKS, "hard, saturated, masked", inputs, {"mask": rng.random((3, 5)) < 0.7}),
        Case(COSINE, "hard, nearly parallel", {"query": query, "key": query[0] + 1e-6 * key, "value": value}),
    ]


def cosine(query, key, value):
    """O = softmax(q·k/(|q| |k|)) V."""
    lengths = np.sqrt((query * query).sum(-1))[:, None] * np.sqrt((key * key).sum(-1))[None, :]
    e = np.exp(np.matmul(query, key.T) / lengths)
    return np.matmul(e / e.sum(-1, keepdims=True), value)


in_blocks = functools.partial(layers.attention, method="blocks")
BLOCKS = Layer("attention in blocks", in_blocks, attention.attention)
COSINE = Layer(
    "similarity_attention, cosine", functools.partial(layers.similarity_attention, similarity="cosine"), formula(cosine)
)


def positions():
    """Rotations at places where a sine is nearly 0: 355 and 103993 are nearly multiples of π."""
    x, places = np.random.default_rng(0).normal(size=(4, 4)), np.array([0, 22, 355, 103993])

    def printed(x):
        pairs = [
            rotated(x[:, 2 * k], x[:, 2 * k + 1], [p / mpmath.mpf(10000) ** k_of(k) for p in map(int, places)])
            for k in (0, 1)
        ]
        return np.stack([part for pair in pairs for part in pair], -1)

    def k_of(k):
        return mpmath.mpf(2 * k) / 4

    def rotated(a, b, angles):
        cos, sin = ([Number(f(angle)) for angle in angles] for f in (mpmath.cos, mpmath.sin))
        if a.dtype != object:
            cos, sin = (np.array([np.longdouble(mpmath.nstr(v.mpf, 25)) for v in part]) for part in (cos, sin))
        return a * cos - b * sin, a * sin + b * cos

    return [
        operation("rotate", lambda x: layers.rotate(x, places=places), printed, "far places", x),
    ]


def processes():
    """Gaussian processes whose points nearly coincide, and mixtures far from all components."""
    context_x, context_y = np.array([0.0, 1e-3, 0.5, 2.0]), np.array([0.3, 0.31, -1.0, 0.25])
    target_x = np.array([0.25, 1e-3, 9.0])
    given = {"context_x": context_x, "context_y": context_y, "target_x": target_x}
    mixture = {"mean": np.array([[0.0], [3.0]]), "std": np.array([[0.5], [1.25]]), "y": np.array([40.0])}
    log_p = lambda mean, std, y: Mixture(Normal(mean, std), together=1).log_prob(y)
    return [
        Case(
            Layer("GaussianProcess.posterior", posterior, formula(printed_posterior)),
            "hard, points 1e-3 apart",
            given,
            gradients=(),
        ),
        operation("log N(y; 0, A)", log_density, printed_log_density, "Hilbert's matrix", HILBERT[:4, :4], context_y),
        Case(Layer("mixture_log_prob", log_p, formula(printed_mixture)), "hard, 30 σ from all components", mixture),
    ]


NOISE = 0.05


def posterior(context_x, context_y, target_x):
    """Mean and standard deviation of the targets; in float64 whatever comes."""
    arrays = [raw(a) for a in (context_x, context_y, target_x)]
    columns = (a[None, :, None] for a in (*arrays, np.zeros_like(arrays[2])))
    given = GaussianProcess(EQ(0.5), NOISE).posterior(Task(*columns)).marginals()
    return np.concatenate([given.mean[0], given.std[0]], -1).astype(arrays[0].dtype)


def printed_posterior(context_x, context_y, target_x):
    """μ = K_tc K_cc⁻¹ y and Σ = K_tt − K_tc K_cc⁻¹ K_ct, by substitution, in as many digits as cancel."""
    factor = printed.cholesky(covariance(context_x))
    across = kernel(context_x, target_x)
    whitened = printed.triangular_solve(factor, np.concatenate([context_y[:, None], across], -1))
    mean = (whitened[:, 1:] * whitened[:, :1]).sum(0)
    variance = 1 + exactly_squared(NOISE) - (whitened[:, 1:] * whitened[:, 1:]).sum(0)
    return np.stack([mean, np.sqrt(variance)], -1)


def exactly_squared(number):
    """A number of Python, squared without rounding."""
    return Number(mpmath.mpf(number) ** 2)


def kernel(x, z):
    """exp(−½ |x − z|²/ℓ²), ℓ = ½."""
    d = x[:, None] - z[None, :]
    return np.exp(-2 * (d * d))


def covariance(x):
    """K + σ² I."""
    return kernel(x, x) + np.eye(len(x)) * exactly_squared(NOISE)


def log_density(a, y):
    """log N(y; 0, A), less a constant, by the operations of the engine."""
    factor = ad.cholesky(a)
    z = ad.triangular_solve(factor, ad.reshape(y, (-1, 1)))
    return ad.multiply(-0.5, ad.add(ad.sum(ad.multiply(z, z)), ad.log_determinant(factor)))


def printed_log_density(a, y):
    """−½ yᵀ A⁻¹ y − ½ log det A."""
    factor = symmetric(printed.cholesky)(a)
    z = printed.triangular_solve(factor, y[:, None])
    return -((z * z).sum() + printed.log_determinant(factor)) / 2


def printed_mixture(mean, std, y):
    """log of the mean of the densities."""
    z = (y - mean) / std
    log_p = -(z * z) / 2 - np.log(std) - np.log(Number(2 * mpmath.pi)) / 2
    return np.log(np.exp(log_p.sum(-1)).mean())


def hard_cases():
    """All of them."""
    return [
        *elementary(),
        *reductions(),
        *matrices(),
        *rows(),
        *probabilities(),
        *points(),
        *scores(),
        *positions(),
        *processes(),
    ]


MOVED = "it moves numbers, picks them or rounds them once, and adds what goes to one place"
COMPOSED = "it is made of operations that have rows"
OF_THE_FUNCTION = "a module, or another form, of a function that has a row"
NO_VALUE = "it computes nothing of its own"
ELSEWHERE = {  # why public names have no row of their own
    MOVED: "clip negative where max min broadcast_to concatenate flip getitem pad reshape roll split stack swapaxes "
    "take transpose sum_to dropout argmax argmin expand_dims squeeze astype "
    "hstack vstack diag sort floor round remainder",
    COMPOSED: "median Mixture TranslationAttention MLP SimpleCNN UNet RelativePositions ALiBi T5Bias ImagePositions "
    "Shaw",
    OF_THE_FUNCTION: "Convolution ConvolutionTranspose attention_with_weights column_attention grouped_attention dot "
    "BatchNorm InstanceNorm GroupNorm Linear Embedding LayerNorm RMSNorm "
    "LearnedPositions SinusoidalPositions sinusoidal Rotary SetConvolution",
    NO_VALUE: "elementwise get_threads rowwise set_threads grad hessian hvp jacobian jvp value_and_grad vjp gradients "
    "explain Grid primitive Array Parameter Tensor is_recording no_grad Module KeyValueCache image_places GridOptions",
}
