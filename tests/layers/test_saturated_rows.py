"""Rows in which one weight is nearly 1: every element of every gradient, against as many digits as it takes.

The bounds are those of the equations, element by element: what rounding of each step allows, magnified by what cancels
for its signs, and nothing for the size of a neighbour. The usual formula, p̄_L − Σ p̄ p in each, goes beyond them.
"""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.layers.attention import attention, attention_with_weights, column_attention
from refnp.layers.cross_entropy import cross_entropy
from refnp.layers.distributions import Categorical, kl_divergence
from refnp.layers.grouped_attention import grouped_attention
from refnp.layers.mixture import log_mean_exp
from refnp.layers.similarity import similarity_attention
from refnp.layers.softmax import softmax
from refnp.layers.translation_attention import TranslationAttention
from refnp.numbers.rounding import exact, tolerance
from refnp.verify.layers import distributions, losses
from refnp.verify.layers import softmax as equations
from refnp.verify.layers.attention import attention as attention_equation
from tests.helpers import assert_within, normal, seeds
from tests.layers.test_attention_blocks import blocks_of
from tests.transcriptions import probability
from tests.transcriptions import rows as printed

ROWS = 100
both = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def gradients(function, arrays, bar):
    """The gradients of ⟨ȳ, f⟩."""
    return ad.vjp(function, *arrays)[1](bar)


def naive(p, p_bar):
    """The usual formula."""
    return p * (p_bar - (p_bar * p).sum(-1, keepdims=True))


# ---- softmax


@pytest.mark.parametrize("gap", [30.0, 40.0, 300.0])
def test_two_classes(gap):
    """p̄ = (1, 0): x̄ = p (1 − p) (1, −1), 4.2e-18 at a gap of 40, where 1 − p in float64 is 0."""
    x, bar = np.array([0.0, -gap]), np.array([1.0, 0.0])
    (x_bar,) = gradients(softmax, [x], bar)
    right = printed.softmax_gradient(x, bar)
    assert_within(x_bar, right, 4 * np.finfo(float).eps * np.abs(right) * (1 + gap))
    assert x_bar[0] > 0 > x_bar[1]
    assert abs(naive(softmax(x), bar)[0] / x_bar[0] - 1) > 1e-4


@both
def test_softmax_row_by_row(dtype):
    """100 rows of N(0, 20²) and N(0, 1), ties of the largest, −∞ among them."""
    rng = np.random.default_rng(1)
    x = normal(rng, (ROWS, 6), dtype, 20.0)
    x[::7, 1] = x[::7, 4] = x[::7].max(-1)
    x[::5, 2] = -np.inf
    x[::11] /= 20
    bar = normal(rng, x.shape, dtype)
    (x_bar,) = gradients(softmax, [x], bar)
    right = np.array([printed.softmax_gradient(a, b) for a, b in zip(x, bar, strict=True)])
    p, pullback = equations.SOFTMAX.equation(exact(x))
    bound = tolerance(pullback(exact(bar))[0], dtype)
    assert_within(x_bar, right, bound)
    assert (p.value.max(-1) > 0.99).sum() > ROWS / 3
    beyond = np.abs(naive(softmax(x), bar) - right) > bound
    assert beyond.any(-1).sum() > ROWS / 3
    large = np.abs(right) > 1e6 * np.finfo(dtype).tiny
    assert np.median(bound[large] / np.abs(right[large])) < 200 * np.finfo(dtype).eps  # it is a relative one


@both
def test_longer_rows_and_several_axes(dtype):
    """Rows of 300 in several blocks, along two axes: the same within the bound of their equation."""
    x, bar = normal(0, (20, 100, 3), dtype, 20.0), normal(1, (20, 100, 3), dtype)
    (x_bar,) = gradients(lambda x: softmax(x, axis=(1, 2)), [x], bar)
    rows, bars = x.reshape(20, -1), bar.reshape(20, -1)
    right = np.array([printed.softmax_gradient(a, b) for a, b in zip(rows[:4], bars[:4], strict=True)])
    bound = tolerance(equations.SOFTMAX.equation(exact(rows))[1](exact(bars))[0], dtype)
    assert_within(x_bar.reshape(20, -1)[:4], right, bound[:4])


# ---- attention


@functools.cache
def problem(seed, dtype):
    """(query, key, value, bias), Ō, mask, gradients with many digits, and their bounds: scores of N(0, 32²)."""
    rng = np.random.default_rng(seed)
    query, key = normal(rng, (5, 4), dtype, 4.0), normal(rng, (6, 4), dtype, 4.0)
    if seed % 3 == 0:
        key[1] = key[0]  # equal scores, which may be the largest
    arrays = query, key, normal(rng, (6, 3), dtype), normal(rng, (5, 6), dtype) * (seed % 2)
    mask, bar = None if seed % 5 else rng.random((5, 6)) < 0.7, normal(rng, (5, 3), dtype)
    right = printed.attention_gradients(*arrays[:3], bar, mask, arrays[3])
    limits = attention_equation(*map(exact, arrays), mask=mask)[1](exact(bar))
    return arrays, bar, mask, right, [tolerance(limit, dtype) for limit in limits]


def in_groups(query, key, value, bias, mask):
    """One head of keys that serves two of queries, the second of which does not count."""
    query, bias = ad.stack([query, query]), ad.stack([bias, bias])
    return grouped_attention(query, key[None], value[None], bias, mask=mask)[0]


FORMS = {
    "full": lambda *a, mask: attention(*a, mask=mask, method="full"),
    "blocks": lambda *a, mask: attention(*a, mask=mask, method="blocks"),
    "weights": lambda *a, mask: attention_with_weights(*a, mask=mask)[0],
    "dot": lambda q, *a, mask: similarity_attention(q / 2, *a, mask=mask, similarity="dot"),
    "general": lambda q, *a, mask: similarity_attention(
        q, *a, mask=mask, similarity="general", parameters=(np.eye(4, dtype=a[0].dtype) / 2,)
    ),
    "grouped": in_groups,
}


@both
@pytest.mark.parametrize("form", FORMS)
def test_attention_row_by_row(form, dtype):
    """100 rows for each form and precision: query, key, value and scores."""
    saturated = 0
    with blocks_of(2, 2):
        for seed in range(ROWS // 5):
            arrays, bar, mask, right, bounds = problem(seed, dtype)
            found = gradients(functools.partial(FORMS[form], mask=mask), arrays, bar)
            for gradient, expected, bound in zip(found, right, bounds, strict=True):
                assert_within(gradient, expected, bound)
            a = attention_with_weights(*arrays, mask=mask)[1]
            saturated += (a.max(-1) > 0.99).sum()
    assert saturated > ROWS / 3


def test_columns():
    arrays, bar, _, right, bounds = problem(2, np.float64)
    found = gradients(column_attention, [a.T for a in arrays[:3]], bar.T)
    for gradient, expected, bound in zip(found, right, bounds, strict=False):
        assert_within(gradient.T, expected, bound)


def by_bias(similarity, parameters=(), **options):
    """Attention in which all scores are the bias: queries are 0."""
    zero, key = np.zeros((5, 4)), normal(7, (6, 4))

    def attend(value, bias):
        found = similarity_attention(zero, key, value, bias, similarity=similarity, parameters=parameters, **options)
        return found[0] if options.get("return_weights") else found

    return attend


def by_translation(value, bias):
    """TranslationAttention whose MLP returns 16 d, or −16 d where d < 0, for d = bias/16."""
    layer = TranslationAttention(3, 1, kernel=(2,), rng=np.random.default_rng(0))
    first, second = layer.kernel.layers
    first.weight.data[...], first.bias.data[...] = [[1, -1], [0, 0]], 0
    second.weight.data[...], second.bias.data[...] = [[16], [-16]], 0
    for linear in (layer.value, layer.output):
        linear.weight.data[...] = np.eye(3)
    layer.output.bias.data[...] = 0
    zero = np.zeros((1, 5, 3))
    return layer(zero, ad.reshape(value, (1, 6, 3)), ad.reshape(bias, (1, 5, 6, 1)) / 16)[0][0]


BY_BIAS = {
    "scaled_dot": by_bias("scaled_dot"),
    "cosine": by_bias("cosine"),
    "cosine, weights": by_bias("cosine", return_weights=True),
    "additive": by_bias("additive", (np.ones((4, 2)), np.zeros((4, 2)), np.ones(2))),
    "translation": by_translation,
}


@pytest.mark.parametrize("form", BY_BIAS)
def test_every_similarity(form):
    """100 rows of scores of N(0, 20²), given as a bias."""
    for seed in range(ROWS // 5):
        arrays, bar, right, bounds = biased_problem(seed)
        for gradient, expected, bound in zip(gradients(BY_BIAS[form], arrays, bar), right, bounds, strict=True):
            assert_within(gradient, expected, bound)


@functools.cache
def biased_problem(seed):
    """(value, bias), Ō, gradients with many digits, and their bounds."""
    rng = np.random.default_rng(seed)
    value, bias, bar = normal(rng, (6, 3)), normal(rng, (5, 6), scale=20.0), normal(rng, (5, 3))
    zero = np.zeros((5, 1)), np.zeros((6, 1))
    limits = attention_equation(*map(exact, (*zero, value, bias)))[1](exact(bar))
    right = printed.attention_gradients(*zero, value, bar, bias=bias)
    return (value, bias), bar, right[2:], [tolerance(limit, np.float64) for limit in limits[2:]]


# ---- losses and distributions


@both
@given(seeds, st.sampled_from([1.0, 20.0, 100.0]), st.sampled_from(["uniform", "off_target", "without_pad"]))
def test_cross_entropy(dtype, seed, scale, smoothing):
    """Every target, with and without smoothing: off-target gradients are small, and have all their digits."""
    x = normal(seed, (5, 5), dtype, scale)
    weights = np.random.default_rng(seed).uniform(0.5, 2, 5).astype(dtype)
    for epsilon in (0.0, 0.1, 1e-6):
        options = {"smoothing": smoothing, "ignore_index": 0 if smoothing == "without_pad" else None}
        options |= {"label_smoothing": epsilon, "class_weights": weights, "reduction": "none"}
        rows = [y for y in range(5) if y != options["ignore_index"]]
        y, bar = np.array(rows), normal(seed + 1, len(rows), dtype)
        (x_bar,) = gradients(lambda x, y=y, options=options: cross_entropy(x, y, **options), [x[: len(y)]], bar)
        (limit,) = losses.CROSS_ENTROPY.equation(exact(x[: len(y)]), targets=y, **options)[1](exact(bar))
        for i, target in enumerate(rows):
            right = probability.cross_entropy_gradient(
                x[i], target, epsilon=dtype(epsilon), smoothing=smoothing, pad=0, weights=weights
            )
            assert_within(x_bar[i], bar[i] * right, tolerance(limit, dtype)[i])


@both
def test_categorical_row_by_row(dtype):
    """Entropy, log p and divergence of 100 rows of N(0, 20²), some with equal logits."""
    rng = np.random.default_rng(3)
    a, b = normal(rng, (ROWS, 5), dtype, 20.0), normal(rng, (ROWS, 5), dtype, 20.0)
    a[::7, 0] = a[::7, 3] = a[::7].max(-1)
    b[::3] = a[::3] + normal(rng, b[::3].shape, dtype, 1e-3)
    bar = normal(rng, ROWS, dtype)
    (h_bar,) = gradients(lambda x: Categorical(x).entropy(), [a], bar)
    (bound,) = distributions.CATEGORICAL_ENTROPY.equation(exact(a))[1](exact(bar))
    right = np.array([probability.categorical_entropy_gradient(x) for x in a])
    assert_within(h_bar, bar[:, None] * right, tolerance(bound, dtype))
    found = gradients(lambda a, b: kl_divergence(Categorical(a), Categorical(b)), [a, b], bar)
    limits = distributions.CATEGORICAL_KL.equation(exact(a), exact(b))[1](exact(bar))
    expected = zip(*(probability.categorical_kl_gradients(*pair) for pair in zip(a, b, strict=True)), strict=True)
    for gradient, right, limit in zip(found, expected, limits, strict=True):
        assert_within(gradient, bar[:, None] * np.array(right), tolerance(limit, dtype))


@both
def test_weights_of_a_mixture(dtype):
    """Of log (1/K) Σ exp x the gradient is softmax(x): a product, in which nothing cancels."""
    x, bar = normal(0, (6, ROWS), dtype, 20.0), normal(1, ROWS, dtype)
    (x_bar,) = gradients(lambda x: log_mean_exp(x, 0), [x], bar)
    pullback = equations.logsumexp(exact(x), axis=0)[1]
    (limit,) = pullback(exact(bar))
    assert_within(x_bar, (printed.softmax(x.T) * bar[:, None]).T, tolerance(limit, dtype))
    assert (np.abs(x_bar) > 0).sum() > ROWS
