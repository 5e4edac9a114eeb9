"""Attention and the set convolution: what is equal, within derived bounds, and where it stops (docs/unification.md)."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.layers import attention, convolution, set_convolution, similarity_attention
from refnp.layers.positions import ALiBi, sinusoidal
from refnp.layers.positions.biases import alibi_slopes
from refnp.numbers import rounding
from refnp.numbers.rounding import WIDE, Rounded, arithmetic, arranged, constant, exact, tolerance
from refnp.symmetry import Translate, invariant, search
from refnp.verify.bounds import unit_roundoff
from refnp.verify.layers.attention import attention as attention_equation
from refnp.verify.layers.convolution import CONVOLUTION
from refnp.verify.layers.set_convolution import SET_CONVOLUTION
from tests.helpers import assert_same_bits, assert_within, real_dtypes, seeds

sizes = st.tuples(st.integers(1, 4), st.integers(1, 6), st.integers(1, 3))  # N, M, dx
length_scales = st.sampled_from([0.5, 1.0, 2.0])


def problem(seed, size, dtype=np.float64):
    """Targets (N, dx), context points (M, dx) and values (M, 2)."""
    rng = np.random.default_rng(seed)
    n, m, dx = size
    x, places = (rng.uniform(-2, 2, (k, dx)).astype(dtype) for k in (n, m))
    return x, places, rng.standard_normal((m, 2)).astype(dtype)


# ---- On arrays, and on numbers that carry their rounding error


def beside(*parts, axis=-1):
    """One after the other."""
    if any(isinstance(part, Rounded) for part in parts):
        return arranged(lambda *arrays: np.concatenate(arrays, axis), *parts)
    return np.concatenate(parts, axis)


def filled(like, shape, value):
    """A number everywhere."""
    return constant(np.full(shape, value)) if isinstance(like, Rounded) else np.full(shape, value, like.dtype)


def square(x):
    """|x|²: (N, dx) → (N, 1)."""
    return (x * x).sum((-1,), keepdims=True)


def features(x, places, scale):
    """q = [x/ℓ, 1] and k = [x_m/ℓ, −|x_m|²/2ℓ²]: q·k = −|x − x_m|²/2ℓ² + |x|²/2ℓ²."""
    q, k = x / scale, places / scale
    return beside(q, filled(x, (x.shape[0], 1), 1)), beside(k, square(k) / -2)


def features_with_a_sink(x, places, scale, log_eps):
    """q·k = −|x − x_m|²/2ℓ² itself, and log ε for one key more."""
    q, k = features(x, places, scale)
    q = beside(q, square(x / scale) / -2)
    k = beside(k, filled(k, (k.shape[0], 1), 1))
    sink = beside(filled(k, (1, x.shape[-1]), 0), log_eps, filled(k, (1, 1), 0))
    return q, beside(k, sink, axis=0)


def by_attention(of_features, dtype, arrays, values):
    """Attention with the features of the arrays, and the bound on it, which knows how features are rounded."""
    judged = arithmetic(dtype)
    equation, _ = attention_equation(
        *of_features(*(exact(array, judged) for array in arrays)), exact(values, judged), similarity="dot"
    )
    return attention(*of_features(*arrays), values, scale=1), tolerance(equation, dtype)


def convolved(x, places, y, scale, **options):
    """A set convolution, and the bound on it."""
    dtype = y.dtype
    judged = arithmetic(dtype)
    inputs = x, places, y, dtype.type(scale)
    equation, _ = SET_CONVOLUTION.equation(*(exact(array, judged) for array in inputs), **options)
    return set_convolution(*inputs, **options), tolerance(equation, dtype)


def kernel_attention(x, places, y, scale):
    return by_attention(features, y.dtype, (x, places, y.dtype.type(scale)), y)


# ---- The identity, and the density that is missing


@given(seeds, sizes, length_scales, real_dtypes)
def test_a_divided_set_convolution_is_dot_product_attention(seed, size, scale, dtype):
    """For ε → 0: with ε they differ by the part ε/(ρ + ε) of the result, and by rounding."""
    x, places, y = problem(seed, size, dtype)
    first, limit = kernel_attention(x, places, y, scale)
    eps = float(np.finfo(np.float32).tiny)
    second, other = convolved(x, places, y, scale, divide=True, eps=eps)
    assert_within(first, second[:, 1:], limit + other[:, 1:] + np.abs(y).max() * eps / second[:, :1])
    assert limit.max() < 1e5 * np.finfo(dtype).eps  # the bound says something


epsilons = st.sampled_from([2.0**-27, 2.0**-13, 1.0, 128.0])


@given(seeds, sizes, length_scales, epsilons, real_dtypes)
def test_with_one_key_more_attention_is_the_division_by_density_and_epsilon(seed, size, scale, eps, dtype):
    """A key with the score log ε and the value 0: S/(ρ + ε) for every ε, and ρ/(ρ + ε) of the value 1.

    |ρ/(ρ + ε) − ρ′/(ρ′ + ε)| ≤ |ρ − ρ′|/(ρ + ε).
    """
    x, places, y = problem(seed, size, dtype)
    values = np.concatenate([np.ones_like(y[:, :1]), y], 1)
    values = np.concatenate([values, np.zeros_like(values[:1])])
    inputs = x, places, dtype(scale), np.log(np.full((1, 1), eps, dtype))
    judged = arithmetic(dtype)
    q, k = features_with_a_sink(
        *(exact(a, judged) for a in inputs[:3]), rounding.log(exact(np.full((1, 1), eps), judged))
    )
    limit = tolerance(attention_equation(q, k, exact(values, judged), similarity="dot")[0], dtype)
    found = attention(*features_with_a_sink(*inputs), values, scale=1)
    right, other = convolved(x, places, y, scale, divide=True, eps=eps)
    density = right[:, :1].astype(WIDE)
    assert_within(found[:, 1:], right[:, 1:], limit[:, 1:] + other[:, 1:])
    assert_within(found[:, :1], density / (density + eps), limit[:, :1] + other[:, :1] / (density + eps))


def test_channels_with_length_scales_of_their_own_are_heads():
    """One head for each length scale; but then the density that divides has one of its own, and means are none."""
    x, places, y = problem(0, (5, 7, 1))
    scales = np.array([0.5, 0.5, 2.0])  # of the density and of two channels
    sums, limit = convolved(x, places, y, 0.5)
    other, its_limit = convolved(x, places, y, 2.0)
    found = set_convolution(x, places, y, scales)
    assert_within(found[:, :2], sums[:, :2], 2 * limit[:, :2])
    assert_within(found[:, 2], other[:, 2], 2 * its_limit[:, 2])
    constant_values = set_convolution(x, places, np.ones_like(y), scales, divide=True)
    assert (np.abs(constant_values[:, 1] - 1) < 1.01e-8 / constant_values[:, 0]).all()  # ε/ρ
    assert constant_values[:, 2].min() > 1.5  # a mean of ones would be 1


def test_features_lose_digits_far_from_0_where_differences_do_not():
    """Everything shifted by 1024, exactly: a set convolution keeps its bits, and scores round by u |x|²/ℓ²."""
    x, places, y = problem(0, (5, 6, 1))
    x, places = (np.round(a * 2**30) / 2**30 for a in (x, places))
    assert_same_bits(set_convolution(x + 1024, places + 1024, y, 0.5), set_convolution(x, places, y, 0.5))
    (here, limit), (there, its_limit) = (kernel_attention(x + t, places + t, y, 0.5) for t in (0, 1024))
    assert_within(there, here, limit + its_limit)
    assert np.abs(there - here).max() > 1e-11 > limit.max()


# ---- Sums and means


@given(seeds, sizes, length_scales, st.integers(1, 5), real_dtypes)
def test_a_set_convolution_adds_up_and_attention_mixes(seed, size, scale, more, dtype):
    """S(A ∪ B) = S(A) + S(B), and f(A ∪ B) = (ρ_A f(A) + ρ_B f(B))/(ρ_A + ρ_B), which is no sum.

    A mixture of means with weights w is off by no more than what the means are, and by |f(A) − f(B)| times what w is:
    the relative errors of the two densities.
    """
    x, places, y = problem(seed, (size[0], size[1] + more, size[2]), dtype)
    parts = [(places[:more], y[:more]), (places[more:], y[more:])]
    sums = [convolved(x, *part, scale) for part in parts]
    whole, limit = convolved(x, places, y, scale)
    assert_within(sums[0][0].astype(WIDE) + sums[1][0], whole, limit + sums[0][1] + sums[1][1])
    (one, off), (two, its_off) = (kernel_attention(x, *part, scale) for part in parts)
    mean, mean_off = kernel_attention(x, places, y, scale)
    first, second = (s[:, :1].astype(WIDE) for s, _ in sums)
    mixed = (first * one + second * two) / (first + second)
    of_weights = sum(s[1][:, :1] / s[0][:, :1] for s in sums) + 4 * np.finfo(WIDE).eps
    slack = np.maximum(off, its_off) + np.abs(one - two) * of_weights * 1.01 + mean_off
    assert_within(mixed, mean, slack)


def test_the_sum_of_two_attentions_is_not_attention_to_both():
    """And giving every point twice changes nothing, where a set convolution doubles."""
    x, places, y = problem(0, (5, 6, 1))
    whole, limit = kernel_attention(x, places, y, 0.5)
    one, two = (kernel_attention(x, places[part], y[part], 0.5)[0] for part in (slice(0, 3), slice(3, None)))
    assert np.abs(one + two - whole).max() > 0.3
    twice, its_limit = kernel_attention(x, np.tile(places, (2, 1)), np.tile(y, (2, 1)), 0.5)
    assert_within(twice, whole, limit + its_limit)
    one_more, _ = kernel_attention(x, np.concatenate([places, places[:1]]), np.concatenate([y, y[:1]]), 0.5)
    assert np.abs(one_more - whole).max() > 0.1  # one of them twice is another distribution of points
    sums, sums_limit = convolved(x, places, y, 0.5)
    doubled, doubled_limit = convolved(x, np.tile(places, (2, 1)), np.tile(y, (2, 1)), 0.5)
    assert_within(doubled, 2 * sums, 2 * sums_limit + doubled_limit)


@pytest.mark.parametrize("places", [7, 12])
def test_on_a_full_ring_attention_is_a_convolution(places):
    """Where every place of a ring has its point, the density is the same everywhere: kernel k/Σk, circular padding."""
    rng = np.random.default_rng(0)
    y, reach = rng.standard_normal((places, 2)), places // 2
    steps = np.arange(places)[:, None] - np.arange(places)
    around = np.minimum(steps % places, -steps % places)
    nothing, signal, options = np.zeros((places, 1)), y.T[:, None], {"padding_mode": "circular", "padding": reach}
    inputs = nothing, nothing, y, -(around**2) / 2.0
    limit = tolerance(attention_equation(*map(exact, inputs))[0], np.float64)
    kernel = rounding.exp(exact(-(np.roll(around[0], reach) ** 2) / 2.0))
    weight = (kernel / kernel.sum((-1,), keepdims=True)).reshape(1, 1, places)
    bound = tolerance(CONVOLUTION.equation(exact(signal), weight, **options)[0], np.float64)[..., :places]
    weight = np.exp(-(np.roll(around[0], reach) ** 2) / 2.0)
    weight = (weight / weight.sum())[None, None]  # (1, 1, places)
    right = convolution(signal, weight, **options)[..., :places]
    assert_within(attention(*inputs), right[:, 0].T, limit + bound[:, 0].T)
    ends = convolution(signal, weight, padding=reach)[..., :places]  # on the line the density falls at the ends
    assert np.abs(attention(nothing, nothing, y, -(steps**2) / 2.0) - ends[:, 0].T).max() > 0.1


# ---- Nothing near


def test_far_from_all_points_attention_gives_the_nearest_value_and_a_set_convolution_nothing():
    """Of weights w_m/w_1 ≤ exp(−(d_m² − d_1²)/2ℓ²) the nearest remains; ρ falls below ε at ℓ√(2 log(1/ε))."""
    places, y = np.array([[0.0], [0.5], [1.0]]), np.array([[1.0], [2.0], [3.0]])
    x = np.array([[31.0]])
    found, limit = kernel_attention(x, places, y, 1.0)
    others = sum(np.exp(-((31.0 - p) ** 2 - 30.0**2) / 2) for p in (0.0, 0.5))
    assert others < 1e-6
    assert_within(found, np.array([[3.0]]), limit + 2 * others)
    assert set_convolution(x, places, y, 1.0)[0].max() < 1e-190
    assert set_convolution(x, places, y, 1.0, divide=True)[0, 1] < 1e-180
    edge = np.sqrt(2 * np.log(1e8))  # of one point ρ = ε there, and half of its value is left
    half, bound = convolved(np.array([[edge]]), places[:1], y[:1], 1.0, divide=True)
    rounded_edge = 4 * edge**2 * np.finfo(float).eps  # of d²/2, d being rounded; a half moves by a quarter of that
    assert_within(half[:, 1], np.array([0.5]), bound[:, 1] + rounded_edge / 4)


def test_without_points_a_set_convolution_says_so_and_attention_cannot():
    """0 with the density 0, beside 0 with the density of a point at 0: attention gives 0 to both."""
    x, at, nothing = np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((0, 1))
    zero = np.zeros((1, 1))
    assert set_convolution(x, nothing, nothing, 1.0).tolist() == [[0, 0]]
    assert set_convolution(x, at, zero, 1.0).tolist() == [[1, 0]]
    for places, y in ((nothing, nothing), (at, zero)):
        assert attention(*features(x, places, np.float64(1)), y, scale=1).tolist() == [[0]]


# ---- Which kernels have features of finite width

DIGITS = 120


def log_eq(d):
    return -d * d / 2


def log_periodic(d):
    return mpmath.cos(2 * mpmath.pi * d / 3) - 1  # −2 sin²(πd/p), p = 3, ℓ = 1


def log_weakly_periodic(d):
    return log_eq(d) + log_periodic(d)


def log_quartic(d):
    return -(d**4)


def log_sinusoidal(d):
    """The dot product of sinusoidal positions of 8 features."""
    return sum(mpmath.cos(d * mpmath.mpf(10000) ** (-mpmath.mpf(i) / 4)) for i in range(4))


def log_laplace(d):
    return -abs(d)


def log_matern_32(d):
    a = mpmath.sqrt(3) * abs(d)
    return mpmath.log(1 + a) - a


def log_matern_52(d):
    a = mpmath.sqrt(5) * abs(d)
    return mpmath.log(1 + a + a * a / 3) - a


def log_rational_quadratic(d):
    return -mpmath.log(1 + d * d / 2)


def pivots(log_kernel, points):
    """Of the matrix log k(x_i − z_j) − log k(x_i − z_0), i, j = 1 … n, by elimination with the largest pivot."""
    with mpmath.workdps(DIGITS):
        x = [mpmath.mpf(i) * 7 / 23 for i in range(points)]
        z = [mpmath.mpf(j) * 5 / 17 + mpmath.mpf(1) / 10 for j in range(points + 1)]
        rows = [[log_kernel(a - b) - log_kernel(a - z[0]) for b in z[1:]] for a in x]
        found = []
        while rows:
            i, j = max(
                ((i, j) for i in range(len(rows)) for j in range(len(rows))), key=lambda at: abs(rows[at[0]][at[1]])
            )
            top = rows.pop(i)
            pivot = top[j]
            found.append(float(abs(pivot)))
            if pivot:
                rows = [[a - row[j] / pivot * b for a, b in zip(row, top, strict=True)] for row in rows]
            rows = [row[:j] + row[j + 1 :] for row in rows]
        return found


def rank(log_kernel, points):
    """How many pivots are not 0.

    A step of elimination with the largest pivot at most doubles elements and adds their errors, so that those of all
    are below 4ⁿ n · 10^(3 − digits): 1e-95 for 12 points of numbers up to 10⁴ in 120 digits. A pivot above proves a
    minor that is not 0, and so the rank; one below is 0 as far as 120 digits tell.
    """
    found = pivots(log_kernel, points)
    assert all(pivot > 1e-60 or pivot < 1e-95 for pivot in found), "between them nothing would be known"
    return sum(pivot > 1e-60 for pivot in found)


WIDTHS = {log_eq: 2, log_periodic: 2, log_weakly_periodic: 4, log_quartic: 4, log_sinusoidal: 8}


@pytest.mark.parametrize("log_kernel", WIDTHS, ids=lambda f: f.__name__)
def test_exponential_polynomials_have_the_rank_of_their_features(log_kernel):
    """No fewer features would do, however many points there are."""
    assert [rank(log_kernel, points) for points in (4, 12)] == [min(4, WIDTHS[log_kernel]), WIDTHS[log_kernel]]


@pytest.mark.parametrize("log_kernel", [log_laplace, log_matern_32, log_matern_52, log_rational_quadratic])
def test_other_kernels_have_the_rank_of_the_number_of_points(log_kernel):
    """So features of width n − 1 do not suffice for n points, for any n that was tried; the page proves it for all."""
    assert [rank(log_kernel, points) for points in (1, 2, 4, 8, 12)] == [1, 2, 4, 8, 12]


def test_the_rank_in_several_dimensions_is_one_more_than_they_are():
    """EQ on points of dx numbers: log k(x − z) − log k(x − z_0) = x·(z − z_0) + c(z), of rank dx + 1."""
    rng = np.random.default_rng(0)
    for dx in (1, 2, 3):
        x, z = (rng.integers(-8, 9, (9, dx)) for _ in range(2))  # squares of whole numbers are exact
        matrix = -((x[:, None] - z) ** 2).sum(-1) + ((x[:, None] - z[:1]) ** 2).sum(-1)
        assert rank_of_whole_numbers(matrix) == dx + 1


def rank_of_whole_numbers(matrix):
    """The rank of a matrix of whole numbers, by elimination in fractions."""
    rows, found = [[Fraction(int(a)) for a in row] for row in matrix], 0
    for j in range(matrix.shape[1]):
        at = next((i for i in range(found, len(rows)) if rows[i][j]), None)
        if at is None:
            continue
        rows[found], rows[at] = rows[at], rows[found]
        top = rows[found]
        rows[found + 1 :] = [
            [a - row[j] / top[j] * b for a, b in zip(row, top, strict=True)] for row in rows[found + 1 :]
        ]
        found += 1
    return found


def cosine(x):
    """cos of a number that carries its rounding error; its slope is at most 1."""
    return rounding.function(np.cos(x.value), np.ones(x.shape), x)


def sine(x):
    return rounding.function(np.sin(x.value), np.ones(x.shape), x)


def periodic_features(x, places, frequency):
    """[cos ωx, sin ωx] on both sides, ω = 2π/p: q·k = cos ω(x − x_m) = 1 + log k for k = exp(−2 sin²(π d/p))."""
    cos, sin = (cosine, sine) if isinstance(x, Rounded) else (np.cos, np.sin)
    return tuple(beside(cos(a * frequency), sin(a * frequency)) for a in (x, places))


def weakly_periodic_features(x, places, frequency):
    """Those of both factors side by side: logarithms of kernels add up where kernels multiply."""
    one = exact(np.ones(())) if isinstance(x, Rounded) else x.dtype.type(1)
    both = zip(features(x, places, one), periodic_features(x, places, frequency), strict=True)
    return tuple(beside(*parts) for parts in both)


def quartic_features(x, places, _):
    """−(x − z)⁴ + x⁴ = 4x³z − 6x²z² + 4xz³ − z⁴."""
    x2, z2 = x * x, places * places
    z3, z4 = z2 * places, z2 * z2
    return beside(x2 * x, x2, x, filled(x, x.shape, 1)), beside(places * 4, z2 * -6, z3 * 4, -z4)


FEATURES = {
    "periodic": (periodic_features, lambda d, frequency: np.exp(np.cos(frequency * d) - 1)),
    "weakly periodic": (weakly_periodic_features, lambda d, frequency: np.exp(np.cos(frequency * d) - 1 - d * d / 2)),
    "quartic": (quartic_features, lambda d, _: np.exp(-(d**4))),
}


@pytest.mark.parametrize("name", FEATURES)
@given(seed=seeds, size=sizes)
def test_other_kernels_with_features(name, seed, size):
    """Σ k y/Σ k in longdouble against attention with those features; −d⁴ is no positive definite kernel, and may be."""
    x, places, y = problem(seed, (*size[:2], 1))
    of_features, kernel = FEATURES[name]
    frequency = np.float64(2 * np.pi / 3)
    found, limit = by_attention(of_features, np.dtype(float), (x, places, frequency), y)
    weights = kernel(x.astype(WIDE) - places[:, 0], WIDE(frequency))
    assert_within(found, weights @ y / weights.sum(1, keepdims=True), limit)


# ---- Similarities


def test_scaled_and_general_dot_products_are_dot_products():
    """√d goes into q; W into a length scale for each axis: (x − z)ᵀ W (x − z) with the feature −zᵀWz/2."""
    x, places, y = problem(0, (5, 6, 2))
    right, limit = kernel_attention(x, places, y, 0.5)
    q, k = features(x, places, 0.5)
    root = np.sqrt(3.0)
    scores = np.abs(q) @ np.abs(k).T  # √3, its product with q and the quotient are rounded: three units of each term
    off = 2 * np.abs(y).max() * 2 * 3 * unit_roundoff(float) * scores.max()
    assert_within(similarity_attention(q * root, k, y), right, 2 * limit + off)
    ends = np.ones((5, 1)), -2 * (places * places).sum(1, keepdims=True)
    query, key = np.concatenate([x, ends[0]], 1), np.concatenate([places, ends[1]], 1)
    weight = np.diag([4.0, 4.0, 1.0])  # 1/ℓ²
    found = similarity_attention(query, key, y, similarity="general", parameters=(weight,))
    assert_within(found, right, 2 * limit + off)


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_the_periodic_kernel_is_cosine_attention_for_long_length_scales(scale):
    """Unit vectors [cos, sin]/ℓ with √(1 − 1/ℓ²) in two places of their own: their product is cos ωd/ℓ², ℓ ≥ 1."""
    x, places, y = problem(0, (5, 6, 1))
    rest = np.sqrt(1 - 1 / scale**2)

    def unit(a, place):
        apart = np.zeros((len(a), 2))
        apart[:, place] = rest
        return np.concatenate([np.cos(a) / scale, np.sin(a) / scale, apart], 1)

    d = x.astype(WIDE) - places[:, 0]
    weights = np.exp((np.cos(d) - 1) / scale**2)
    found = similarity_attention(unit(x, 0), unit(places, 1), y, similarity="cosine")
    off = (4 + 2) * 2 * rounding.ELEMENTARY * unit_roundoff(float)  # 4 products of two rounded features, and two norms
    right = weights @ y / weights.sum(1, keepdims=True)
    assert_within(found, right, np.abs(y).max() * 2 * (off + 16 * unit_roundoff(float)))


@given(seeds, st.sampled_from([1.0, 1e3]))
def test_similarities_that_are_bounded_make_no_kernel_that_falls_far(seed, scale):
    """Cosines lie within 1: no weight is less than e⁻² of another. Additive ones within Σ|v|, whatever q and k are."""
    rng = np.random.default_rng(seed)
    q, k, values = rng.standard_normal((4, 3)) * scale, rng.standard_normal((6, 3)) * scale, np.eye(6)
    parameters = rng.standard_normal((3, 5)), rng.standard_normal((3, 5)), rng.standard_normal(5)
    bounds = {"cosine": 2.0, "additive": 2 * np.abs(parameters[2]).sum()}
    for similarity, bound in bounds.items():
        own = parameters if similarity == "additive" else ()
        weights = similarity_attention(q, k, values, similarity=similarity, parameters=own)
        assert (weights.min(1) >= weights.max(1) * np.exp(-bound) * (1 - 64 * bound * unit_roundoff(float))).all()
    x, places = np.zeros((1, 1)), np.array([[0.0], [9.0]])
    assert kernel_attention(x, places, np.eye(2), 1.0)[0][0, 1] < 1e-17  # e^(−81/2)


def test_the_features_of_log_weights_are_not_those_of_weights():
    """The EQ kernel itself has no features of finite width: linear attention, whose weights are φ(q)·φ(k), needs more.

    Its matrix of n different points has rank n, that of its logarithm 2 + 1.
    """
    assert rank(lambda d: mpmath.exp(log_eq(d)), 12) == 12


# ---- Positions as differences


def test_alibi_without_content_is_a_divided_set_convolution_with_the_laplace_kernel():
    """Queries of 0 leave −slope |m − n|: exp(−|d|/ℓ) with ℓ = 1/slope, which has no features, and needs none."""
    heads, places = 4, np.arange(9.0)[:, None]
    y = np.random.default_rng(0).standard_normal((9, 2))

    def laplace(s):
        return np.exp(-np.sqrt(s)), lambda: np.full_like(s, np.nan)  # for values alone

    nothing = np.zeros((heads, 9, 1))
    bias = ALiBi(heads).scores(nothing, np.arange(9), np.arange(9))
    inputs = nothing, nothing, np.broadcast_to(y, (heads, 9, 2)), bias
    limit = tolerance(attention_equation(*map(exact, inputs))[0], np.float64)
    found = attention(*inputs)
    for h, slope in enumerate(alibi_slopes(heads).astype(float)):
        right = set_convolution(places, places, y, 1 / slope, kernel=laplace, divide=True, eps=1e-30)
        # the weight exp(−√(d²/ℓ²)) of slopes that are powers of 2 rounds as exp(−slope |d|) does, and sums likewise
        assert_within(found[h], right[:, 1:], 2 * limit[h])


def test_sinusoidal_positions_alone_are_a_divided_set_convolution_with_their_own_kernel():
    """Their dot product is Σ_k cos ω_k d: log k up to a constant. It is no falling function of the distance."""
    places = sinusoidal(np.arange(40), 8)
    y = np.random.default_rng(0).standard_normal((40, 2))
    d = np.arange(40.0).astype(WIDE)[:, None] - np.arange(40)
    weights = np.exp(sum(np.cos(d * WIDE(10000) ** (-WIDE(k) / 4)) for k in range(4)))
    found = attention(places, places, y, scale=1)
    _, bound = by_attention(lambda q, k: (q, k), np.dtype(float), (places, places), y)
    off = 2 * 8 * rounding.ELEMENTARY * unit_roundoff(float)  # of a score, from 8 sines or cosines on either side
    assert_within(found, weights @ y / weights.sum(1, keepdims=True), bound + 2 * off * np.abs(y).max())
    assert np.argmin(weights[0]) < 39


def plain(x, places, y):
    return attention(x, places, y, scale=1)


def with_squares(x, places, y):
    return attention(*features(x, places, x.dtype.type(1)), y, scale=1)


def of_differences(x, places, y):
    bias = -((x[:, None] - places) ** 2).sum(-1) / 2
    nothing = np.zeros_like(x[:, :1])
    return attention(nothing, np.zeros_like(places[:, :1]), y, bias)


def sets(rng, n, m):
    return {"x": rng.uniform(-1, 1, (n, 2)), "places": rng.uniform(-1, 1, (m, 2)), "y": rng.standard_normal((m, 1))}


@pytest.mark.parametrize(
    ("function", "outcome"), [(plain, "fails"), (with_squares, "holds"), (of_differences, "holds")]
)
def test_weights_are_invariant_where_scores_are_a_function_of_differences_and_one_of_the_query(function, outcome):
    """x·x_m is not of that form, and a counter-example is found; −|x_m|²/2 beside it makes it one."""
    claim = invariant(function, Translate(("x", "places")))
    verdict = search(claim, sets, sizes={"n": range(1, 4), "m": range(1, 5)}, scales=(1.0,), count=16)
    assert verdict.outcome == outcome, str(verdict)
    if outcome == "fails":
        inputs, moved = verdict.counterexample.inputs, verdict.counterexample.moved
        assert np.abs(plain(**inputs) - plain(**moved)).max() > 1e-3


# ---- Content


def test_content_and_distance_multiply():
    """Scores of both side by side: weights ∝ exp(q·k/√d) k(x − x_m), and what is constant in either drops out."""
    x, places, y = problem(0, (5, 6, 2))
    rng = np.random.default_rng(1)
    query, key, root = rng.standard_normal((5, 3)), rng.standard_normal((6, 3)), np.sqrt(3.0)

    def both(query, key, x, places, root):
        q, k = features(x, places, exact(np.float64(0.5)) if isinstance(x, Rounded) else 0.5)
        return beside(query / root, q), beside(key, k)

    found, limit = by_attention(both, np.dtype(float), (query, key, x, places, root), y)
    distance = -2 * ((x.astype(WIDE)[:, None] - places) ** 2).sum(-1)
    weights = np.exp(query.astype(WIDE) @ key.T / WIDE(root) + distance)
    assert_within(found, weights @ y / weights.sum(1, keepdims=True), limit)
    same = np.ones((5, 3)), np.ones((6, 3)), x, places, root
    alone, limit = by_attention(both, np.dtype(float), same, y)
    kernel, its_limit = kernel_attention(x, places, y, 0.5)
    assert_within(alone, kernel, limit + its_limit)
