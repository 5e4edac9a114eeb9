"""TE-TNP holds the set convolution and the attention of TNP-D; what means cannot know; Gaussian processes beside both.

The page is docs/unification.md; identities of single layers are in tests/layers/test_kernel_attention.py.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.autograd.primitives import raw
from refnp.layers import convolution, set_convolution
from refnp.layers.set_convolution import GridOptions
from refnp.layers.translation_attention import TranslationAttention
from refnp.models import CANP, CNP, TETNP, TNPD, ConvCNP, EncoderLayer, TranslationLayer
from refnp.numbers.rounding import WIDE, exact, tolerance
from refnp.tasks import Task
from refnp.tasks.gaussian_process import GaussianProcess
from refnp.tasks.kernels import EQ
from refnp.verify.bounds import unit_roundoff
from refnp.verify.layers.convolution import CONVOLUTION
from refnp.verify.layers.set_convolution import SET_CONVOLUTION
from tests.helpers import assert_same_bits, assert_within, normal, real_dtypes, seeds
from tests.models import helpers
from tests.models.helpers import drawn_task, few, on_grid, predict, rounded, shaken

EPS = 2.0**-27
kernels = st.sampled_from([(), (16,), (20, 17)])


# ---- TNP-D's attention


@pytest.mark.parametrize("norm", ["pre", "post"])
@given(seed=seeds, kernel=kernels, dtype=real_dtypes)
def test_a_layer_of_tnp_d_is_a_layer_of_te_tnp_that_hands_on_scores(norm, seed, kernel, dtype):
    """The parameters of an encoder layer, and an MLP of pairs that returns s: the same, whatever the places are."""
    layer = shaken(EncoderLayer(4, 2, 5, norm=norm, rng=np.random.default_rng(0))).astype(dtype)
    options = {"dx": 2, "kernel": kernel, "bias": True, "norm": norm, "rng": np.random.default_rng(1)}
    translated = TranslationLayer(4, 2, 5, **options).astype(dtype)
    translated.attention.set_pairs()
    translated.load_state_dict(translated.state_dict() | layer.state_dict())
    rng = np.random.default_rng(seed)
    x, keys, differences = (normal(rng, shape, dtype) for shape in ((1, 3, 4), (1, 5, 4), (1, 3, 5, 2)))
    mask = rng.random((1, 3, 5)) < 0.7
    found, _ = translated(x, keys, differences, mask=mask)
    limits, _ = rounded(translated, x, keys, differences, mask=mask)
    own = rounded(layer, x, keys, mask=mask)
    assert_within(raw(found), raw(layer(x, keys, mask=mask)), tolerance(limits, dtype) + tolerance(own, dtype))


def with_and_without_places(places):
    """TNP-D, and the TE-TNP with its parameters; TNP-D's embedding multiplies x by `places`."""
    sizes = {"features": 4, "heads": 2, "hidden": 5, "layers": 2, "embedding_depth": 2}
    one = shaken(TNPD(**sizes, flag=True, rng=np.random.default_rng(0)))
    other = TETNP(**sizes, norm="post", bias=True, kernel=(), rng=np.random.default_rng(1))
    for layer in other.layers:
        layer.attention.set_pairs()
    one.embedder.layers[0].weight.data[0] *= places
    state = one.state_dict()
    state["embedder.layers.0.weight"] = state["embedder.layers.0.weight"][1:]  # without the row of x
    other.load_state_dict(other.state_dict() | state)
    return one, other


@given(seeds, few, few)
def test_a_tnp_d_that_does_not_see_places_is_a_te_tnp(seed, contexts, targets):
    """Tokens of both are then [y, flag]; and a TE-TNP whose pairs hand on scores does not see places either."""
    one, other = with_and_without_places(0)
    (context_x, context_y, target_x, _), (mask, _) = drawn_task(seed, (2, contexts, targets, 1, 1))
    sets = context_x, context_y, target_x, mask
    limits = zip(rounded(predict, one, *sets), rounded(predict, other, *sets), strict=True)
    for a, b, limit in zip(predict(one, *sets), predict(other, *sets), limits, strict=True):
        assert_within(a, b, sum(tolerance(of, np.float64) for of in limit))


def test_a_tnp_d_that_sees_places_is_no_te_tnp():
    """Whatever its parameters are, a TE-TNP does not change under a shift; with a place in its tokens, TNP-D does."""
    one, other = with_and_without_places(1)
    (context_x, context_y, target_x, _), _ = drawn_task(0, (2, 4, 3, 1, 1))
    context_x, target_x = (np.round(a * 64) / 64 for a in (context_x, target_x))
    for model, least in ((one, 1e-3), (other, 0)):
        here, there = (predict(model, context_x + by, context_y, target_x + by)[0] for by in (0, 4))
        assert (np.abs(there - here).max() > least) == (model is one)


# ---- ConvCNP's set convolution


def as_set_convolution(channels, dx, length_scale, normalization, *, eps=None, kernel=(), dtype=np.float64):
    """A TranslationAttention on tokens [1, y] that is the set convolution with the EQ kernel."""
    module = TranslationAttention(
        channels, 1, dx=dx, kernel=kernel, squares=True, normalization=normalization, rng=np.random.default_rng(0)
    ).astype(dtype)
    module.set_pairs(content=0, length_scale=length_scale)
    module.value.weight.data[...] = module.output.weight.data[...] = np.eye(channels)
    module.output.bias.data[...] = 0
    if eps is not None:
        module.sink.data[...] = np.log(dtype(eps))
    return module


def attended(module, x, places, y):
    """Its output at x (N, dx) for points (M, dx) with y (M, C), and the bound on it."""
    dtype, n = y.dtype, len(x)
    keys = np.concatenate([np.ones_like(y[:, :1]), y], 1)[None]  # (1, M, C+1)
    arrays = np.zeros((1, n, keys.shape[-1]), dtype), keys, (x[:, None] - places)[None]
    differences = (exact(x[:, None]) - exact(places))[None]
    limit, _ = rounded(module, *arrays[:2], differences)
    return raw(module(*arrays)[0])[0], tolerance(limit, dtype)[0]


def points(seed, size, dtype=np.float64):
    rng = np.random.default_rng(seed)
    n, m, dx = size
    x, places = (rng.uniform(-2, 2, (k, dx)).astype(dtype) for k in (n, m))
    return x, places, rng.standard_normal((m, 2)).astype(dtype)


sizes = st.tuples(st.integers(1, 4), st.integers(1, 6), st.integers(1, 3))  # N, M, dx


@pytest.mark.parametrize("normalization", ["softmax", "sink", "sum"])
@given(seed=seeds, size=sizes, kernel=kernels, scale=st.sampled_from([0.5, 1.0, 2.0]), dtype=real_dtypes)
def test_the_set_convolution_is_an_attention_of_te_tnp(normalization, seed, size, kernel, scale, dtype):
    """ "sum": [ρ, S], eq. 10.  "sink", b = log ε: [ρ, S]/(ρ + ε).  "softmax": [1, S/ρ].

    The logit log ε is rounded, by its logarithm and to the dtype: ε is off by a factor of 1 ± 4u |log ε|.
    """
    x, places, y = points(seed, size, dtype)
    of_sink = {"eps": EPS} if normalization == "sink" else {}
    module = as_set_convolution(3, size[2], scale, normalization, kernel=kernel, dtype=dtype, **of_sink)
    found, limit = attended(module, x, places, y)
    eps = EPS if normalization == "sink" else 2.0**-120
    options = {} if normalization == "sum" else {"divide": True, "eps": eps}
    inputs = x, places, y, dtype(scale)
    right = set_convolution(*inputs, **options).astype(WIDE)
    other = tolerance(SET_CONVOLUTION.equation(*map(exact, inputs), **options)[0], dtype)
    density = right[:, :1].copy()
    if normalization != "sum":
        right[:, :1] = density / (density + eps)  # |ρ/(ρ + ε) − ρ′/(ρ′ + ε)| ≤ |ρ − ρ′|/(ρ + ε)
        other[:, :1] /= density + eps
        of_eps = 4 * unit_roundoff(dtype) * abs(np.log(WIDE(eps))) if of_sink else 1  # and |S|/ρ ≤ max |y|
        other = other + np.maximum(1, np.abs(y).max()) * of_eps * eps / (density + eps)
    assert_within(found, right, limit + other)


@pytest.mark.parametrize("normalization", ["sum", "sink"])
def test_a_convcnp_reads_its_context_by_an_attention_of_te_tnp(normalization):
    """The first set convolution of Gordon's model, on its own grid: density by "sum", the values by "sink"."""
    model = ConvCNP.gordon("simple", rng=np.random.default_rng(0))
    x, places, y = (a[None] for a in points(0, (5, 7, 1)))
    grid = model.grid(places, x)
    scale = model.encoder.length_scale(y[..., :1])
    assert np.ptp(raw(scale)) == 0
    encoded = raw(set_convolution(grid, places, y[..., :1], scale, **model.encoder.options))[0].T  # (K, 2)
    k = (grid.start[0] + np.arange(grid.lengths[0])[:, None]) / grid.points_per_unit  # (K, 1)
    eps = {"eps": model.encoder.options["eps"]} if normalization == "sink" else {}
    module = as_set_convolution(2, 1, float(raw(scale)[0]), normalization, **eps)
    found, limit = attended(module, k, places[0], y[0, :, :1])
    chosen = slice(0, 1) if normalization == "sum" else slice(1, 2)
    inputs = k, places[0], y[0, :, :1], raw(scale)
    options = {name: value for name, value in model.encoder.options.items() if name != "kernel"}
    other = tolerance(SET_CONVOLUTION.equation(*map(exact, inputs), **options)[0], np.float64)
    # near.py leaves out less than u (ρ + ε) of all weights; the logit log ε is rounded as above
    left_out = unit_roundoff(float) * np.abs(y).max() * (2 + 4 * abs(np.log(1e-8)))
    assert_within(found[:, chosen], encoded[:, chosen], limit[:, chosen] + other[:, chosen] + left_out)


def test_without_squares_a_kernel_of_te_tnp_is_piecewise_exponential():
    """relu(±d) make exp(−|d|/ℓ) exactly."""
    module = TranslationAttention(2, 1, kernel=(2,), rng=np.random.default_rng(0))
    first, second = module.kernel.layers
    first.weight.data[...], first.bias.data[...] = [[2.0, -2.0], [0, 0]], 0
    second.weight.data[...], second.bias.data[...] = -1, 0
    module.value.weight.data[...] = module.output.weight.data[...] = np.eye(2)
    module.output.bias.data[...] = 0
    x, places, y = points(0, (5, 6, 1))
    keys = np.concatenate([np.ones_like(y[:, :1]), y[:, :1]], 1)[None]
    arrays = np.zeros((1, 5, 2)), keys, (x[:, None] - places)[None]
    found = raw(module(*arrays)[0])[0]
    limit, _ = rounded(module, *arrays)
    weights = np.exp(-2 * np.abs(x.astype(WIDE) - places[:, 0]))
    assert_within(found[:, 1], weights @ y[:, 0] / weights.sum(1), 2 * tolerance(limit, np.float64)[0, :, 1])


@pytest.mark.parametrize("hinges", [8, 32, 128])
def test_without_squares_other_kernels_are_approached_by_pieces(hinges):
    """K relus are the EQ kernel's logarithm −2d² at K + 1 places of [−4, 4]: off by at most h²/2, h = 8/K.

    The error of linear interpolation is h²/8 times the second derivative, 4. Each hinge changes the slope by −4h.
    """
    h = 8 / hinges
    knots = -4 + h * np.arange(hinges)
    module = TranslationAttention(2, 1, kernel=(hinges + 1,), rng=np.random.default_rng(0))
    first, second = module.kernel.layers
    first.weight.data[...], first.bias.data[:-1] = [[1.0] * hinges + [0.0], [0.0] * (hinges + 1)], -knots
    first.bias.data[-1] = 1.0  # a constant: −2d² at −4
    second.weight.data[:-1, 0], second.weight.data[-1, 0], second.bias.data[...] = -4 * h, -32.0, 0
    second.weight.data[0, 0] = 16 - 2 * h  # the slope of the first piece
    d = np.linspace(-4, 4, 1001)
    found = raw(module.kernel(np.stack([d, np.zeros(1001)], 1)))[:, 0]
    assert 0.9 * h * h / 2 < np.abs(found + 2 * d * d).max() < h * h / 2 + 1e-10  # rounding of sums of up to 128 terms


# ---- The network on the grid


def as_convolution(weight, bias, dtype=np.float64):
    """A TranslationAttention that is the convolution with weight (O, C, T) and bias (O,), zeros beyond the ends.

    a^h = −β (d − δ_h)²: head h attends to the place at δ_h alone, and a sink of logit −β/2 to none past the ends. For
    spacing 1 and β = 2000 all other weights are at most e^(−1000), which is 0 in float64. Tokens are T max(C, O) wide.
    """
    out, channels, taps = weight.shape
    width, beta, offsets = max(out, channels), 2000.0, np.arange(taps) - taps // 2  # δ of x_m − x_n
    options = {"squares": True, "kernel": (), "normalization": "sink", "rng": np.random.default_rng(0)}
    module = TranslationAttention(taps * width, taps, **options).astype(dtype)
    (linear,) = module.kernel.layers
    linear.weight.data[...], module.sink.data[...] = 0, -beta / 2
    linear.weight.data[0], linear.weight.data[1] = -2 * beta * offsets, -beta  # d = x_n − x_m
    linear.bias.data[...] = -beta * offsets**2
    module.value.weight.data[...] = module.output.weight.data[...] = module.output.bias.data[...] = 0
    for h in range(taps):
        part = slice(h * width, h * width + channels)
        module.value.weight.data[:channels, part] = np.eye(channels)
        module.output.weight.data[part, :out] = weight[:, :, h].T
    module.output.bias.data[:out] = bias
    return module


def convolved(module, signal, out):
    """Its output (L, O) at all places of a signal (L, C)."""
    places = np.arange(len(signal)).astype(signal.dtype)
    keys = np.zeros((1, len(signal), module.value.weight.shape[0]), signal.dtype)
    keys[0, :, : signal.shape[1]] = signal
    return raw(module(keys, keys, (places[:, None] - places)[None, ..., None])[0])[0, :, :out]


@pytest.mark.parametrize("taps", [1, 3, 5])
@given(seed=seeds)
def test_a_convolution_is_an_attention_with_a_head_for_each_tap(taps, seed):
    """Weights are 0 and 1: the same products and sums."""
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((1, 2, 7)), rng.standard_normal((3, 2, taps)), rng.standard_normal(3)
    right = convolution(*inputs, padding=taps // 2)[0]
    other = tolerance(CONVOLUTION.equation(*map(exact, inputs), padding=taps // 2)[0], np.float64)[0]
    assert_within(convolved(as_convolution(*inputs[1:]), inputs[0][0].T, 3).T, right, 2 * other)


@pytest.mark.skipif(np.finfo(WIDE).eps == np.finfo(float).eps, reason="longdouble is float64 here")
def test_a_whole_convcnp_is_attention_to_differences():
    """Gordon's model with four layers of convolution: to the grid, on it and from it, maps of single tokens between.

    Both in longdouble, judged by the bound of float64: rounding is 2¹¹ times less, and what the rounded logit log ε of
    the sink adds is 4 |log ε| = 74 roundings of one step.
    """
    options = {"grid": GridOptions(points_per_unit=16), "rng": np.random.default_rng(0)}
    model = ConvCNP.gordon("simple", **options).astype(WIDE)
    x, places, y = (a[None] for a in points(0, (5, 7, 1)))
    y = y[..., :1]
    grid = model.grid(places, x)
    k = (grid.start[0] + np.arange(grid.lengths[0])[:, None]) / WIDE(grid.points_per_unit)
    scales = [
        model.encoder.length_scale(y.astype(WIDE)),
        *(d.convolution.length_scale(y.astype(WIDE)) for d in model.decoders),
    ]
    assert np.ptp(np.concatenate([raw(scale) for scale in scales])) == 0
    scale = raw(scales[0])[0]

    def read(normalization, at, keys_at, tokens, **options):
        module = as_set_convolution(tokens.shape[1], 1, scale, normalization, dtype=WIDE, **options)
        queries = np.zeros((1, len(at), tokens.shape[1]), WIDE)
        return raw(module(queries, tokens[None], (at[:, None] - keys_at)[None])[0])[0]

    tokens = np.concatenate([np.ones_like(y[0]), y[0]], 1).astype(WIDE)
    density = read("sum", k, places[0].astype(WIDE), tokens)[:, :1]
    signal = read("sink", k, places[0].astype(WIDE), tokens, eps=WIDE(1e-8))[:, 1:]
    h = raw(model.activation(model.lift(np.concatenate([density, signal], 1))))
    for i, layer in enumerate(model.network.layers):
        h = convolved(as_convolution(layer.weight.data, layer.bias.data, WIDE), h, layer.weight.shape[0])
        h = np.maximum(h, 0) if i < 3 or model.head.rectified else h
    answers = [raw(decoder.mlp(read("sum", x[0].astype(WIDE), k, h)[None])) for decoder in model.decoders]
    found = model.head.normal(np.concatenate(answers, -1))
    right = model(places.astype(WIDE), y.astype(WIDE), x.astype(WIDE))
    limits = on_grid(model.astype(np.float64), grid, places, y, x)
    for name, limit in zip(("mean", "std"), limits, strict=True):
        bound = tolerance(limit, np.float64)
        assert_within(raw(getattr(found, name)), raw(getattr(right, name)), bound)
        assert bound.max() < 1e-8


# ---- What means cannot know


def twice(sets):
    context_x, context_y, target_x = sets
    return np.tile(context_x, (1, 2, 1)), np.tile(context_y, (1, 2, 1)), target_x


SMALL = {"features": 4, "heads": 2, "hidden": 5, "layers": 2}
DOUBLED_IS_THE_SAME = {
    "TNPD": (TNPD, SMALL),
    "TNPD, pre-norm, untied, updated": (TNPD, SMALL | {"norm": "pre", "untied": True, "updated": True}),
    "TETNP": (TETNP, SMALL | {"kernel": (4,)}),
    "CNP, which is a mean": (CNP, {"hidden": 8}),
    "CANP": (CANP, {"hidden": 8, "heads": 2}),
}


@pytest.mark.parametrize("name", DOUBLED_IS_THE_SAME)
@given(seed=seeds)
def test_every_point_twice_changes_no_prediction_of_attention(name, seed):
    """By induction over layers: tokens of both copies are equal, and their weights half as large."""
    kind, options = DOUBLED_IS_THE_SAME[name]
    model = shaken(kind(**options, rng=np.random.default_rng(0)))
    (*sets, _), _ = drawn_task(seed, (2, 3, 4, 1, 1))
    first, second = (predict(model, *given) for given in (sets, twice(sets)))
    limits = zip(*(rounded(predict, model, *given) for given in (sets, twice(sets))), strict=True)
    for a, b, limit in zip(first, second, limits, strict=True):
        assert_within(b, a, sum(tolerance(of, np.float64) for of in limit))


@pytest.mark.parametrize(
    "model",
    [
        TETNP(**SMALL, kernel=(4,), length_scale=1.0, normalization="sink", rng=np.random.default_rng(0)),
        TETNP(**SMALL, kernel=(4,), length_scale=1.0, normalization="sum", rng=np.random.default_rng(0)),
        TETNP(**SMALL, kernel=(4,), moves=True, rng=np.random.default_rng(0)),
        ConvCNP.gordon("simple", rng=np.random.default_rng(0)),
        CNP(hidden=8, pooling="sum", rng=np.random.default_rng(0)),
    ],
    ids=["TETNP, sink", "TETNP, sum", "TETNP, moving", "ConvCNP", "CNP, sum"],
)
def test_every_point_twice_changes_predictions_that_know_the_density(model):
    """A TE-TNP that moves tokens knows it too: φ is given the weights themselves, which halve."""
    (*sets, _), _ = drawn_task(0, (2, 3, 4, 1, 1))
    assert np.abs(predict(model, *sets)[0] - predict(model, *twice(sets))[0]).max() > 1e-5  # rounding leaves 1e-10


# ---- Gaussian processes


def kernel_matrices(x, places):
    """K (M, M) and k(x) (N, M) of the EQ kernel with ℓ = 1/2."""
    kernel = EQ(length_scale=0.5)
    return (kernel(a[None], places[None])[0] for a in (places, x))


def smoothed(matrix, onto, noise_variance, y):
    """W y with W = k(x) (K + σ²)⁻¹, W, and how far W y may be off.

    No eigenvalue of K is negative, so |k − W (K + σ²)|/σ² bounds the error of a row of W; then M products and sums.
    """
    inverse_noise, m = 1 / WIDE(noise_variance), len(matrix)
    weights = np.linalg.solve(matrix + noise_variance * np.eye(m), onto.T).T
    left = onto - weights.astype(WIDE) @ (matrix.astype(WIDE) + WIDE(noise_variance) * np.eye(m))
    size = np.sqrt((left * left).sum(1, keepdims=True)) * inverse_noise * np.sqrt((y * y).sum(0))
    return weights @ y, weights, size + 2 * m * unit_roundoff(float) * (np.abs(weights) @ np.abs(y))


def test_the_posterior_mean_is_a_linear_smoother_whose_weights_are_no_mean():
    """Fixed weights, linear in y; some negative, and with sums that are not 1: so it can exceed all values."""
    _, places, y = points(0, (1, 12, 1))
    matrix, onto = kernel_matrices(places, places)
    mean, weights, bound = smoothed(matrix, onto, 0.01, y)
    assert weights.min() < -0.05
    assert np.abs(weights.sum(1) - 1).max() > 0.01
    assert np.linalg.eigvals(weights).real.max() < 1  # λ/(λ + σ²)
    posterior = GaussianProcess(EQ(length_scale=0.5), 0.1).posterior(Task(places[None], y[None], places[None], y[None]))
    of_factor = 12**2 * unit_roundoff(float) * 12 / 0.01 * np.abs(y).sum(0)  # Higham (2002), th. 10.3: M² u ‖K‖/σ²
    assert_within(posterior.mean[0], mean, bound + of_factor)
    matrix, onto = kernel_matrices(np.array([[0.2]]), np.array([[0.0], [0.4]]))
    between, *_ = smoothed(matrix, onto, 1e-6, np.ones((2, 1)))
    assert between.item() > 1.05  # above both values, where a mean cannot be


def test_ratios_of_weights_depend_on_other_points_in_a_gaussian_process_only():
    """Softmax weights have w_1/w_2 = exp(s_1 − s_2), whatever else there is; posterior means do not."""
    x, places, y = np.array([[0.1]]), np.array([[0.0], [0.5], [0.3]]), np.eye(3)
    ratios = []
    for count in (2, 3):
        matrix, onto = kernel_matrices(x, places[:count])
        _, weights, _ = smoothed(matrix, onto, 0.01, np.eye(count))
        attention = set_convolution(x, places[:count], y[:count], 0.5, divide=True)[0, 1:]
        ratios.append((weights[0, 0] / weights[0, 1], attention[0] / attention[1]))
    assert abs(ratios[0][0] - ratios[1][0]) > 1
    np.testing.assert_allclose(
        ratios[0][1], ratios[1][1], rtol=8 * unit_roundoff(float)
    )  # three quotients on each side


@given(seeds, st.sampled_from([0.125, 1.0]))
def test_a_point_given_twice_is_a_point_with_half_the_noise(seed, noise_variance):
    """A posterior mean is neither a sum nor a mean: two measurements y, y at noise σ² are one at σ²/2."""
    x, places, y = points(seed, (4, 5, 1))
    matrix, onto = kernel_matrices(x, places)
    first, weights, limit = smoothed(np.tile(matrix, (2, 2)), np.tile(onto, 2), noise_variance, np.tile(y, (2, 1)))
    second, single, other = smoothed(matrix, onto, noise_variance / 2, y)
    assert_within(first, second, limit + other)
    for half in (weights[:, :5], weights[:, 5:]):  # each of the two counts for half
        for m, one in enumerate(np.eye(5)):
            _, _, bound = smoothed(matrix, onto, noise_variance / 2, one[:, None])
            _, _, bound_of_both = smoothed(
                np.tile(matrix, (2, 2)), np.tile(onto, 2), noise_variance, np.append(one, one)[:, None]
            )
            assert_within(2 * half[:, m], single[:, m], 2 * bound_of_both[:, 0] + bound[:, 0])


def test_far_from_all_points_the_posterior_mean_is_0_where_attention_has_the_nearest_value():
    """|m(x)| ≤ |k(x)| |y|/σ², and |k(x)| is at most √M exp(−d²/2ℓ²) for a nearest point d away."""
    _, places, y = points(0, (1, 5, 1))
    x = np.array([[8.0]])
    matrix, onto = kernel_matrices(x, places)
    mean, _, _ = smoothed(matrix, onto, 0.01, y)
    nearest = places[:, 0].max()
    assert np.abs(mean).max() <= np.sqrt(5 * (y * y).sum(0).max()) * np.exp(-((8 - nearest) ** 2) * 2) / 0.01 < 1e-20
    module = as_set_convolution(3, 1, 0.5, "softmax")
    assert np.abs(attended(module, x, places, y)[0][0, 1:] - y[places[:, 0].argmax()]).max() < 1e-3


@given(seeds)
def test_for_much_noise_the_posterior_mean_is_the_set_convolution(seed):
    """σ² (K + σ²)⁻¹ = I − K (K + σ²)⁻¹: |σ² m(x) − S(x)| ≤ |k(x)| ‖K‖ |y|/σ², undivided and without any density."""
    x, places, y = points(seed, (4, 5, 1))
    matrix, onto = kernel_matrices(x, places)
    inputs = x, places, y, np.asarray(0.5)
    sums = set_convolution(*inputs, density=False)
    of_sums = tolerance(SET_CONVOLUTION.equation(*map(exact, inputs), density=False)[0], np.float64)
    sizes = np.sqrt((onto * onto).sum(1, keepdims=True)) * np.abs(matrix).sum(1).max() * np.sqrt((y * y).sum(0))
    for noise_variance in (2.0**7, 2.0**14, 2.0**21):
        mean, _, limit = smoothed(matrix, onto, noise_variance, y)
        assert_within(noise_variance * mean, sums, sizes / noise_variance + noise_variance * limit + 2 * of_sums)


def test_layers_of_undivided_attention_with_residual_connections_converge_to_the_posterior_mean():
    """α ← α + η (y − σ² α − Σ_m k α_m), then Σ_m k α_m at x: after L layers within |k(x)| q^L |α*|, q = max |1 − η λ|.

    Each layer is attention of TE-TNP with the weights of a sum, whose values are α. What one layer rounds is made
    smaller by q in each that follows, so that all of them together leave 1/(1 − q) times as much.
    """
    x, places, y = points(0, (4, 6, 1))
    noise_variance, u = 0.5, unit_roundoff(float)
    matrix, onto = kernel_matrices(x, places)
    right, _, bound = smoothed(matrix, onto, noise_variance, y)
    largest = np.abs(matrix).sum(1).max() + noise_variance  # no eigenvalue is larger, and none less than σ²
    step, q = 2 / (largest + noise_variance), (largest - noise_variance) / (largest + noise_variance)
    module = as_set_convolution(3, 1, 0.5, "sum")
    sizes = np.sqrt((onto * onto).sum(1, keepdims=True)), np.sqrt((y * y).sum(0)) / noise_variance  # |α*| ≤ |y|/σ²
    alpha, errors, rounded = np.zeros_like(y), [], 0.0
    for layers in range(121):
        if layers % 40 == 0:
            found, limit = attended(module, x, places, alpha)
            rounding = sizes[0] * rounded / (1 - q) + limit[:, 1:]
            assert_within(found[:, 1:], right, sizes[0] * q**layers * sizes[1] + rounding + bound)
            errors.append(np.abs(found[:, 1:] - right).max())
        sums, limit = attended(module, places, places, alpha)
        terms = np.abs(y) + noise_variance * np.abs(alpha) + np.abs(sums[:, 1:])
        own = step * (limit[:, 1:] + 4 * u * terms) + u * np.abs(alpha)  # K as computed there and here, four roundings
        rounded = max(rounded, 2 * np.sqrt((own * own).sum(0)).max())
        alpha = alpha + step * (y - noise_variance * alpha - sums[:, 1:])
    assert errors[0] > 0.5
    assert errors[-1] < 1e-6
    divided = as_set_convolution(3, 1, 0.5, "softmax")  # with means in place of sums it converges to something else
    alpha = np.zeros_like(y)
    for _ in range(100):
        alpha = alpha + 0.5 * (y - noise_variance * alpha - attended(divided, places, places, alpha)[0][:, 1:])
    assert np.abs(attended(divided, x, places, alpha)[0][:, 1:] - right).max() > 0.05


# ---- Invariant under translations: a function of differences


@given(seeds, helpers.sizes)
def test_an_invariant_function_is_known_from_the_differences_to_one_point(seed, size):
    """f(x) = f(x − x_1): what a TE-TNP says follows from x_i − x_1, and those follow from all x_i − x_j."""
    b, c, t, dx, dy = size
    model = shaken(TETNP(dx, dy, **SMALL, kernel=(4,), rng=np.random.default_rng(0)))
    (context_x, context_y, target_x, _), _ = drawn_task(seed, (b, c + 1, t, dx, dy))
    context_x, target_x = (np.round(a * 64) / 64 for a in (context_x, target_x))
    first = context_x[:, :1]
    for a, z in zip(
        predict(model, context_x, context_y, target_x),
        predict(model, context_x - first, context_y, target_x - first),
        strict=True,
    ):
        assert_same_bits(a, z)
