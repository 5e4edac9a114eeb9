"""LayerNorm, RMSNorm and norms of channels: rows brought to mean 0 and size 1, or to size 1."""

import numpy as np

from refnp import layers
from refnp.layers.group_norm import per_channel
from refnp.layers.layer_norm import standardized
from refnp.numbers import rounding
from refnp.numbers.rounding import Rounded, constant, either
from refnp.verify.case import (
    Case,
    GradientInputs,
    KnownDefect,
    Layer,
    exact_gradient,
    gradient_of,
    module_gradient,
    normal,
    uniform,
)
from refnp.verify.judged_pages import by_page, of_page


def one_pass(x, eps, axes=-1):
    """x̂ = (x − μ)/s, s² = E[x²] − μ² + ε, or ε where rounding makes that difference negative; and its own pullback:
    x̄ = (ŷ − mean ŷ)/s − (x − μ) Σ ŷ (x − μ)/(n s³).
    """
    mean = x.mean(axes, keepdims=True)
    n = x.size // mean.size
    variance = (x * x).mean(axes, keepdims=True) - mean * mean
    r = inverse_root(variance, eps)
    centred = x - mean

    def pullback(u_bar):
        share = (u_bar * centred).sum(axes, keepdims=True) * (r * r * r)
        own = u_bar * r
        return own - own.mean(axes, keepdims=True) - centred * share / n

    return centred * r, pullback


def inverse_root(variance, eps):
    """1/√(σ² + ε) of a variance that rounding may have made anything within its error, but 0 where that is below 0."""
    value, off, u = np.maximum(variance.value, 0), variance.off, variance.arithmetic.u
    r = 1 / np.sqrt(value + eps)
    nearest, farthest = 1 / np.sqrt(value + off + eps), 1 / np.sqrt(np.maximum(value - off, 0) + eps)
    return Rounded(r, np.maximum(r - nearest, farthest - r) / u + 4 * r, 1, variance.arithmetic)


def mean_and_deviation(x, eps, axes):
    """μ, s and how many numbers they are of."""
    mean = x.mean(axes, keepdims=True)
    n = x.size // mean.size
    centred = x - mean if n > 1 else rounding.exact(np.zeros(x.shape))
    return mean, rounding.sqrt((centred * centred).mean(axes, keepdims=True) + constant(eps)), n


def folded(x, eps, axes=-1):
    """x̂ = x/s − μ/s, which cancels where the mean is far above the deviation."""
    unit, pullback = standardized(x, eps, axes)
    mean, s, _ = mean_and_deviation(x, eps, axes)
    return either(lambda: unit, lambda: x / s - mean / s), pullback


def folded_of_one(x, eps, axes=-1):
    """`folded` where the statistics are of one element, and else what is right."""
    _, _, n = mean_and_deviation(x, eps, axes)
    return (folded if n == 1 else standardized)(x, eps, axes)


def folded_both_ways(x, eps, axes=-1):
    """`folded`, and x̄ = ŷ/s + c x + (−c μ − Σ ŷ/(n s)) with c = (μ Σ ŷ − Σ ŷ x)/(n s³), which cancels likewise."""
    unit, _ = folded(x, eps, axes)
    mean, s, n = mean_and_deviation(x, eps, axes)
    r = 1 / s

    def pullback(u_bar):
        total, along = u_bar.sum(axes, keepdims=True), (u_bar * x).sum(axes, keepdims=True)
        c = (total * mean - along) * (r * r * r) / n
        return u_bar * r + c * x + (-(c * mean) - total * r / n)

    return unit, pullback


def torch_layer_norm(torch, x, gain, shift, *, eps=1e-5):
    """Over the last axis."""
    return torch.nn.functional.layer_norm(x, gain.shape, gain, shift, eps)


def jax_layer_norm(jax, x, gain, shift, *, eps=1e-5):
    """jax.nn has `standardize`; gain and shift are applied outside, as flax does."""
    return jax.nn.standardize(x, epsilon=eps) * gain + shift


def torch_rms_norm(torch, x, gain, *, eps):
    """Over the last axis."""
    return torch.nn.functional.rms_norm(x, gain.shape, gain, eps)


LAYER_NORM = of_page(layers.layer_norm, torch=torch_layer_norm, jax=jax_layer_norm)
RMS_NORM = of_page(layers.rms_norm, torch=torch_rms_norm)


OF_BOTH = by_page(layers.batch_norm)


def batch_norm(x, gain, shift, *, eps=1e-5):
    """By the statistics of x."""
    return OF_BOTH(x, gain, shift, eps=eps)


def batch_norm_of_statistics(x, gain, shift, mean, variance, *, eps=1e-5):
    """By statistics that are given."""
    return OF_BOTH(x, gain, shift, mean, variance, eps=eps)


def folded_statistics(x, gain, shift, mean, variance, *, eps=1e-5):
    """x γ/s + (β − μ γ/s), which cancels where the mean is far above the deviation; the page's gradients."""
    _, pullback = batch_norm_of_statistics(x, gain, shift, mean, variance, eps=eps)
    wide = lambda p: per_channel(p, x)
    scale = wide(gain / rounding.sqrt(variance + constant(eps)))
    return x * scale + (wide(shift) - wide(mean) * scale), pullback


def torch_group_norm(torch, x, gain, shift, *, groups, eps=1e-5):
    """PyTorch's order of arguments."""
    return torch.nn.functional.group_norm(x, groups, gain, shift, eps)


def torch_instance_norm(torch, x, gain, shift, *, eps=1e-5):
    """Statistics of the input."""
    return torch.nn.functional.instance_norm(x, weight=gain, bias=shift, eps=eps)


def torch_batch_norm(torch, x, gain, shift, mean=None, variance=None, *, eps=1e-5):
    """`training` says whose statistics; PyTorch has no gradient of given ones."""
    return torch.nn.functional.batch_norm(x, mean, variance, gain, shift, mean is None, 0.0, eps)


def jax_over_channels(axes):
    """nn.standardize over axes, with gain and shift for each channel, as flax does."""

    def adapter(jax, x, gain, shift, *, eps=1e-5):
        wide = lambda a: a.reshape(-1, *[1] * (x.ndim - 2))
        return jax.nn.standardize(x, axis=axes(x.ndim), epsilon=eps) * wide(gain) + wide(shift)

    return adapter


def jax_group_norm(jax, x, gain, shift, *, groups, eps=1e-5):
    """The same over groups of channels."""
    wide = lambda a: a.reshape(-1, *[1] * (x.ndim - 2))
    rows = x.reshape(x.shape[0], groups, -1)
    return jax.nn.standardize(rows, axis=-1, epsilon=eps).reshape(x.shape) * wide(gain) + wide(shift)


GROUP_NORM_FOLDED = KnownDefect(
    "PyTorch",
    "group_norm: x γ/s + (β − μ γ/s)",
    "group_norm forms x γ/s + (β − μ γ/s), which cancels where the mean is far above the deviation; of one element "
    "rounding is left, where x̂ and its gradients are 0",
    parts={standardized: folded_both_ways},
)
STATISTICS_FOLDED = KnownDefect(
    "PyTorch",
    "batch_norm: x γ/s + (β − μ γ/s)",
    "batch_norm of given statistics forms x γ/s + (β − μ γ/s), which cancels where the mean is far above the deviation",
    ("output",),
    equation=folded_statistics,
)
GROUP_NORM = of_page(layers.group_norm, torch=torch_group_norm, jax=jax_group_norm, known=(GROUP_NORM_FOLDED,))
INSTANCE_NORM = of_page(
    layers.instance_norm, torch=torch_instance_norm, jax=jax_over_channels(lambda axes: tuple(range(2, axes)))
)
BATCH_NORM = Layer(
    "batch_norm",
    layers.batch_norm,
    batch_norm,
    torch=torch_batch_norm,
    jax=jax_over_channels(lambda axes: (0, *range(2, axes))),
)
WITH_STATISTICS = Layer(
    "batch_norm of statistics",
    layers.batch_norm,
    batch_norm_of_statistics,
    torch=torch_batch_norm,
    names=("batch_norm",),
    known=(STATISTICS_FOLDED,),
)
FOLDED = {standardized: folded}
LAYER_NORM_ONE = KnownDefect(
    "PyTorch",
    "pytorch/pytorch#188372",
    "layer_norm over one element: x̂ is 0, and so the weight's gradient; rounding leaves some",
    ("gradient of gain",),
    parts={standardized: folded_of_one},
)
ONE_PASS = {standardized: one_pass}
JAX_VARIANCE = KnownDefect(
    "JAX",
    "jax-ml/jax#37281",
    "nn.standardize takes E[x²] − E[x]² unless asked for algorithm='stable': it cancels",
    parts=ONE_PASS,
)


CHANNELS: dict[str, dict] = {"group_norm": {"groups": 2}, "instance_norm": {}, "batch_norm": {}}
SMALL = np.array([[1e-12], [1e-2], [1e8]])


def cases() -> list[Case]:
    """Large means, constant rows, one feature, every ε; first the one that was made to show a defect."""
    one = {"x": np.full((4, 1), 1e6), "gain": np.ones(1), "shift": np.zeros(1)}
    return [
        Case(LAYER_NORM, "one element of 1e6", one, {}, (LAYER_NORM_ONE, JAX_VARIANCE)),
        *layer_norm_cases(),
        *rms_norm_cases(),
        *cases_of_channels(),
    ]


def layer_norm_cases() -> list[Case]:
    """LayerNorm: large means, constant rows, one feature, every ε."""

    def case(variant, x, features, *, defects=(), **options):
        gain = normal(features, shift=1.0, scale=0.5)
        return Case(LAYER_NORM, variant, {"x": x, "gain": gain, "shift": normal(features)}, options, defects)

    one_pass = (JAX_VARIANCE,)

    return [
        case("ordinary", normal(6, 16), 16),
        case("batch of images", normal(2, 3, 4, 12), 12),
        case("64 features", normal(3, 64), 64),
        case("mean 30", normal(5, 16, shift=30.0), 16, defects=one_pass),
        case("mean 1e4", normal(5, 16, shift=1e4), 16, defects=one_pass),
        case("small variance", normal(5, 16, scale=1e-4), 16),
        case("scale 1e6", normal(5, 16, scale=1e6), 16),
        case("constant rows", np.repeat([[0.0], [1.0], [-3.5]], 8, 1), 8),
        case("eps 1e-3", normal(5, 8, scale=0.1), 8, eps=1e-3),
        case("two features", normal(9, 2), 2, defects=one_pass),
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


def cases_of_channels() -> list[Case]:
    """BatchNorm, InstanceNorm, GroupNorm: signals and images, large means, constant channels."""

    def case(layer, variant, x, channels, *, defects=(), gradients=None, **options):
        given = {"x": x, "gain": normal(channels, shift=1.0, scale=0.5), "shift": normal(channels)}
        if layer is WITH_STATISTICS:
            given |= {"mean": normal(channels), "variance": uniform(channels, low=0.1, high=2.0)}
            gradients = ("x", "gain", "shift")
        return Case(layer, variant, given, options, defects, gradients)

    flat = np.repeat(np.repeat([[[0.0], [1.0], [-3.5], [2.0]]], 5, 2), 2, 0)
    found = []
    for layer, options in ((GROUP_NORM, {"groups": 2}), (INSTANCE_NORM, {}), (BATCH_NORM, {})):
        found += [
            case(layer, "images", normal(2, 4, 3, 3), 4, **options),
            case(layer, "signals of mean 30", normal(3, 4, 6, shift=30.0), 4, defects=(JAX_VARIANCE,), **options),
            case(layer, "small variance, eps 1e-3", normal(3, 4, 6, scale=1e-2), 4, eps=1e-3, **options),
            case(layer, "constant channels", flat, 4, defects=(JAX_VARIANCE,), **options),
        ]
    return [
        *found,
        case(GROUP_NORM, "one group", normal(2, 4, 5), 4, groups=1),
        case(GROUP_NORM, "no places", normal(3, 6), 6, groups=3),
        case(BATCH_NORM, "no places", normal(8, 4), 4),
        case(WITH_STATISTICS, "images", normal(2, 4, 3, 3), 4),
        case(WITH_STATISTICS, "mean 1e4", normal(2, 4, 5, shift=1e4), 4, eps=1e-3),
    ]


def gradient_inputs() -> list[GradientInputs]:
    """Small rows; given statistics; no ε, and two axes; and the modules."""
    rng = np.random.default_rng(1)
    x, gain, shift, gains = (rng.normal(size=shape) for shape in ((3, 5), 5, 5, (3, 5)))
    images, rows = rng.normal(size=(2, 5, 3)), rng.normal(size=(3, 4))
    statistics = gain, shift, rng.normal(size=5), rng.uniform(0.3, 2, 5)
    return [
        gradient_of("batch_norm, statistics", WITH_STATISTICS.function, images, *statistics),
        gradient_of("layer_norm, ε = 0", layers.layer_norm, x, eps=0.0),
        gradient_of("layer_norm, axis (0, 1)", layers.layer_norm, x, gains, axis=(0, 1)),
        exact_gradient("layer_norm, small rows", layers.layer_norm, LAYER_NORM.equation, x * SMALL, gain, shift),
        exact_gradient("rms_norm, small rows", layers.rms_norm, RMS_NORM.equation, x * SMALL, gain),
        module_gradient("GroupNorm", layers.GroupNorm(4, 2), rng.normal(size=(2, 4, 3))),
        module_gradient("InstanceNorm", layers.InstanceNorm(5), images),
        module_gradient("BatchNorm", layers.BatchNorm(5), images),
        module_gradient("LayerNorm", layers.LayerNorm(4), rows),
        module_gradient("RMSNorm", layers.RMSNorm(4), rows),
        module_gradient("LayerNorm, two axes", layers.LayerNorm((3, 4)), rows),
        module_gradient("RMSNorm, two axes", layers.RMSNorm((3, 4)), rows),
    ]
