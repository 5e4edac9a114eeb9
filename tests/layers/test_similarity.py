"""Similarities: dot, scaled dot, cosine, general and additive, one by one and as what attention makes of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.kernels.attention import one_over_root
from refnp.layers.attention import attention
from refnp.layers.similarity import (
    additive_scores,
    as_dot,
    check_parameters,
    similarity_attention,
    unit_rows,
)
from refnp.numbers import rounding
from refnp.numbers.rounding import WIDE, constant, contract, exact, tolerance
from refnp.verify.layers import softmax as equations
from tests.helpers import COMPLEX, REAL, assert_same_bits, assert_within, check, normal, real_dtypes, scales, seeds
from tests.transcriptions import rows as printed

SIMILARITIES = similarity_attention.takes.options["similarity"].choices
every = pytest.mark.parametrize("name", SIMILARITIES)


def parameters(name, d_query, d_key, dtype=np.float64, seed=9, hidden=4):
    shapes = {"general": [(d_query, d_key)], "additive": [(d_query, hidden), (d_key, hidden), (hidden,)]}.get(name, [])
    return tuple(normal(seed + i, shape, dtype) for i, shape in enumerate(shapes))


def scores(name, query, key, given_parameters):
    """S (N, M) as refnp computes it."""
    if name == "additive":
        return additive_scores(query, key, *given_parameters)
    q, k, scale = as_dot(query, key, name, given_parameters)
    return ad.matmul(q * (one_over_root(query) if scale is None else scale), ad.swapaxes(k, -1, -2))


def rounded_scores(name, query, key, given_parameters):
    """The same with the errors that rounding may make."""
    query, key, *given_parameters = map(exact, (query, key, *given_parameters))
    dot = "nd,md->nm"
    if name == "general":
        return contract(dot, contract("nd,de->ne", query, given_parameters[0]), key)
    if name == "additive":
        q, k = (contract("nd,da->na", x, w) for x, w in zip((query, key), given_parameters, strict=False))
        inner = q[:, None, :] + k[None, :, :]
        return contract("nma,a->nm", rounding.tanh(inner), given_parameters[2])
    if name == "cosine":
        query, key = (x / rounding.sqrt((x * x).sum((1,), keepdims=True)) for x in (query, key))
    s = contract(dot, query, key)
    return s / constant(np.sqrt(WIDE(query.shape[-1]))) if name == "scaled_dot" else s


def rounded_attention(name, query, key, value, given_parameters, bias=0, mask=True):
    """(O, A) likewise: the softmax of scores with their errors, and the mean that it takes."""
    total = rounded_scores(name, query, key, given_parameters) + exact(bias)
    weights = equations.SOFTMAX.equation(rounding.where(mask, total, -np.inf))[0]
    return contract("nm,me->ne", weights, exact(value)), weights


@every
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 5), st.integers(1, 5), real_dtypes, scales, seeds)
def test_every_similarity_is_its_equation(name, n, m, d_query, d_key, dtype, scale, seed):
    d_key = d_key if name in ("general", "additive") else d_query
    query, key = normal(seed, (n, d_query), dtype, scale), normal(seed + 1, (m, d_key), dtype)
    given_parameters = parameters(name, d_query, d_key, dtype, seed + 2)
    s = scores(name, query, key, given_parameters)
    assert s.dtype == dtype
    wide = [a.astype(WIDE) for a in (query, key, *given_parameters)]
    right = [[printed.similarity(q, k, name, wide[2:]) for k in wide[1]] for q in wide[0]]
    assert_within(s, np.array(right, WIDE), tolerance(rounded_scores(name, query, key, given_parameters), dtype))


@every
@given(st.integers(1, 4), st.integers(1, 5), real_dtypes, seeds)
def test_attention_with_every_similarity(name, n, m, dtype, seed):
    """Weights and output against the transcription."""
    query, key, value = normal(seed, (n, 3), dtype), normal(seed + 1, (m, 3), dtype), normal(seed + 2, (m, 2), dtype)
    mask, bias = np.random.default_rng(seed).random((n, m)) < 0.7, normal(seed + 3, (n, m), dtype)
    given_parameters = parameters(name, 3, 3, dtype, seed + 4)
    options = {"mask": mask, "bias": bias, "similarity": name, "parameters": given_parameters}
    output, weights = similarity_attention(query, key, value, return_weights=True, **options)
    right, right_weights = printed.attention(query, key, value, mask, bias, name, given_parameters)
    o, a = rounded_attention(name, query, key, value, given_parameters, bias, mask)
    assert_within(weights, right_weights, tolerance(a, dtype))
    assert_within(output, right, tolerance(o, dtype))
    assert_within(similarity_attention(query, key, value, **options), right, tolerance(o, dtype))


@every
@pytest.mark.parametrize("dtype", REAL)
def test_first_derivatives(name, dtype):
    """Of output and weights, for query, key, value, bias and the parameters."""
    arrays = [normal(i, s, dtype) for i, s in enumerate([(3, 2), (4, 2), (4, 3), (3, 4)])]
    mask = np.random.default_rng(0).random((3, 4)) < 0.6

    def f(query, key, value, bias, *given_parameters):
        options = {"mask": mask, "bias": bias, "similarity": name, "parameters": given_parameters}
        return similarity_attention(query, key, value, return_weights=True, **options)

    check(f, (*arrays, *parameters(name, 2, 2, dtype)))


@every
def test_second_derivatives(name):
    arrays = [normal(i, s) for i, s in enumerate([(2, 2), (3, 2), (3, 1)])]

    def f(query, key, value, *given_parameters):
        return similarity_attention(query, key, value, similarity=name, parameters=given_parameters)

    assert check(f, (*arrays, *parameters(name, 2, 2)), order=2).method == "complex step"


@every
@pytest.mark.parametrize("dtype", [*REAL, *COMPLEX])
def test_dtype_is_kept(name, dtype):
    arrays = [normal(i, s, dtype) for i, s in enumerate([(2, 3), (4, 3), (4, 3)])]
    given_parameters = parameters(name, 3, 3, dtype)
    if np.dtype(dtype).kind == "c":  # real numbers, as the complex step has them
        arrays, given_parameters = ([a.real.astype(dtype) for a in x] for x in (arrays, given_parameters))
    y, pullback = ad.vjp(
        lambda *a: similarity_attention(*a[:3], similarity=name, parameters=a[3:]), *arrays, *given_parameters
    )
    assert y.dtype == dtype
    assert {bar.dtype for bar in pullback(np.ones_like(y))} == {np.dtype(dtype)}


@every
def test_batches_broadcast(name):
    query, key, value = normal(0, (2, 1, 3, 2)), normal(1, (4, 5, 2)), normal(2, (4, 5, 1))
    options = {"similarity": name, "parameters": parameters(name, 2, 2)}
    output = similarity_attention(query, key, value, **options)
    assert output.shape == (2, 4, 3, 1)
    for b, h in np.ndindex(2, 4):
        alone = similarity_attention(query[b, 0], key[h], value[h], **options)
        o, _ = rounded_attention(name, query[b, 0], key[h], value[h], options["parameters"])
        assert_within(output[b, h], alone, 2 * tolerance(o, np.float64))


# ---- one by one


@given(st.integers(1, 6), real_dtypes, scales, scales, seeds)
def test_cosine_lies_between_minus_1_and_1_and_ignores_lengths(d, dtype, query_scale, key_scale, seed):
    query, key = normal(seed, (3, d), dtype, query_scale), normal(seed + 1, (4, d), dtype, key_scale)
    s, bound = scores("cosine", query, key, ()), tolerance(rounded_scores("cosine", query, key, ()), dtype)
    assert (np.abs(s.astype(WIDE)) <= 1 + bound).all()
    assert_same_bits(scores("cosine", 8 * query, key / 4, ()), s)
    own = scores("cosine", query, query, ())
    assert_within(
        np.diagonal(own), np.ones(3), np.diagonal(tolerance(rounded_scores("cosine", query, query, ()), dtype))
    )


@pytest.mark.parametrize("dtype", [*REAL, *COMPLEX])
def test_cosine_with_a_row_of_zeros_is_0_and_so_is_its_gradient(dtype):
    x = np.array([[0, 0], [3, 4]], dtype)
    y, pullback = ad.vjp(unit_rows, x)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y[0], 0)
    np.testing.assert_array_equal(pullback(np.ones_like(y))[0][0], 0)
    if np.dtype(dtype).kind != "c":
        _, forward = ad.jvp(unit_rows, (x,), (np.ones_like(x),))
        np.testing.assert_array_equal(forward[0], 0)
        np.testing.assert_array_equal(scores("cosine", x, x, ())[0], 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cosine_of_rows_whose_squares_overflow_or_vanish(dtype):
    info = np.finfo(dtype)
    rows = np.array([[3, 4], [-4, 3]], dtype) * np.array([[info.max / 8], [info.tiny]], dtype)
    u = info.eps / 2
    assert_within(unit_rows(rows), np.array([[0.6, 0.8], [-0.8, 0.6]], WIDE), 8 * u)


def test_general_with_the_unit_matrix_is_the_dot_product():
    query, key = normal(0, (3, 4)), normal(1, (5, 4))
    assert_same_bits(scores("general", query, key, (np.eye(4),)), scores("dot", query, key, ()))


def test_scaled_dot_of_4_features_is_half_the_dot_product():
    query, key = normal(0, (3, 4)), normal(1, (5, 4))
    assert_same_bits(scores("scaled_dot", query, key, ()), scores("dot", query, key, ()) / 2)
    assert not np.array_equal(attention(query, key, key), attention(query, key, key, scale=1))


@pytest.mark.parametrize("dtype", REAL)
def test_root_is_taken_in_the_precision_of_the_query(dtype):
    root = one_over_root(np.ones((1, 3), dtype))
    assert root.dtype == dtype
    assert_within(root, 1 / np.sqrt(WIDE(3)), 2 * np.finfo(dtype).eps / np.sqrt(WIDE(3)))


def test_additive_scores_are_bounded_by_the_sum_of_v():
    query, key = 1e3 * normal(0, (3, 2)), 1e3 * normal(1, (4, 2))
    given_parameters = parameters("additive", 2, 2)
    vector = given_parameters[2]
    assert (np.abs(additive_scores(query, key, *given_parameters)) <= np.abs(vector).sum() * (1 + 2.0**-50)).all()


# ---- errors


@pytest.mark.parametrize(
    ("name", "d_key", "shapes", "message"),
    [
        ("cosine", 2, [], r"query has 3 features but key has 2; they must match"),
        ("scaled_dot", 3, [(3, 3)], r"similarity 'scaled_dot' takes no parameters; got shapes \(\(3, 3\),\)"),
        ("general", 4, [], r"similarity 'general' takes \(W,\) of shape \(3, 4\); got shapes \(\)"),
        ("general", 4, [(4, 3)], r"similarity 'general' takes \(W,\) of shape \(3, 4\); got shapes \(\(4, 3\),\)"),
        ("additive", 4, [(3, 5), (4, 5)], r"similarity 'additive' takes \(W_q, W_k, v\) of shapes \(3, A\), .*"),
        ("additive", 4, [(3, 5), (4, 5), (4,)], r"similarity 'additive' takes \(W_q, W_k, v\) of shapes .*"),
        ("additive", 4, [(3, 5), (3, 5), (5,)], r"similarity 'additive' takes .* got shapes \(\(3, 5\), \(3, 5\), .*"),
        ("additive", 4, [(3, 5), (4, 5), (5, 1)], r"similarity 'additive' takes .*"),
    ],
)
def test_errors(name, d_key, shapes, message):
    query, key = np.ones((2, 3)), np.ones((4, d_key))
    given_parameters = tuple(map(np.ones, shapes))
    for call in (
        lambda: check_parameters(name, given_parameters, query, key),
        lambda: similarity_attention(query, key, key, similarity=name, parameters=given_parameters),
    ):
        with pytest.raises(ValueError, match=rf"^attention: {message}$"):
            call()
