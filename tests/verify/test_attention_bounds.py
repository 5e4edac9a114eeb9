"""Attention's gradients in whichever order a kernel forms D: PyTorch's and a tiled backward are within their bounds.

D = Σ_m Ā A over the keys and D = Σ_e Ō O over the features are one number on paper. Where a query may attend to one key
alone, S̄ = A (Ā − D) is 0 on paper, and what two sums in different orders leave of it is rounding.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp
from refnp.numbers.rounding import WIDE, arithmetic, exact
from refnp.verify import bounds
from refnp.verify.bounds import deviation
from refnp.verify.layers.attention import attention, causal_equation
from refnp.verify.layers.softmax import SOFTMAX

NAMES = ("output", "gradient of query", "gradient of key", "gradient of value")
SCALES = (1.0, 4.0, 16.0)  # of queries and keys: from even weights to rows in which one key has all weight


def drawn(seed, dtype, causal):
    """Query, key, value and cotangent of 2 to 5 axes with 4 to 128 features."""
    rng = np.random.default_rng(seed)
    d, scale = int(rng.choice([4, 8, 16, 32, 64, 128])), rng.choice(SCALES)
    n, m = rng.integers(1, 9, 2)
    m = n if causal else m
    batch = tuple(rng.integers(1, 3, seed % 4))
    shapes = ((n, d), (m, d), (m, d), (n, d))
    factors = (scale, scale, 1.0, 1.0)
    return [(rng.standard_normal((*batch, *s)) * c).astype(dtype) for s, c in zip(shapes, factors, strict=True)]


def excess(found, arrays, cotangent, causal):
    """The worst error over its bound of the output and of each gradient, by name."""
    dtype = cotangent.dtype
    equation = causal_equation if causal else attention
    output, pullback = equation(*(exact(a, arithmetic(dtype)) for a in arrays))
    right = [output.value, *(bar.value for bar in pullback(exact(cotangent, arithmetic(dtype))))]
    allowed = bounds.of(equation, arrays, cotangent)
    ratios = [deviation(*three, dtype)[0] for three in zip(found, right, allowed, strict=True)]
    return dict(zip(NAMES, ratios, strict=True))


def tiled(query, key, value, cotangent, causal, block):
    """The forward pass by an online softmax over blocks of keys; backward P = exp(S − L), S̄ = P∘(Ō Vᵀ − rowsum(Ō∘O)).

    Dao et al. (2022), algorithms 1 and 4, in the precision of the arrays.
    """
    n, m, d = query.shape[-2], key.shape[-2], query.shape[-1]
    scale = query.dtype.type(1 / np.sqrt(d))
    turned = lambda x: x.swapaxes(-1, -2)

    def scores(part):
        s = query @ turned(key[..., part, :]) * scale
        return np.where(np.arange(n)[:, None] >= np.arange(m)[part], s, -np.inf).astype(s.dtype) if causal else s

    parts = [slice(start, start + block) for start in range(0, m, block)]
    largest = np.full((*query.shape[:-1], 1), -np.inf, query.dtype)
    total, output = np.zeros_like(largest), np.zeros_like(cotangent)
    for part in parts:
        s = scores(part)
        now = np.maximum(largest, s.max(-1, keepdims=True))
        p, kept = np.exp(s - now), np.exp(largest - now)
        total, output = kept * total + p.sum(-1, keepdims=True), kept * output + p @ value[..., part, :]
        largest = now
    output, logarithm = output / total, largest + np.log(total)
    d_rows = (cotangent * output).sum(-1, keepdims=True)
    query_bar, key_bar, value_bar = np.zeros_like(query), np.zeros_like(key), np.zeros_like(value)
    for part in parts:
        p = np.exp(scores(part) - logarithm)
        value_bar[..., part, :] = turned(p) @ cotangent
        s_bar = p * (cotangent @ turned(value[..., part, :]) - d_rows) * scale
        query_bar += s_bar @ key[..., part, :]
        key_bar[..., part, :] = turned(s_bar) @ query
    return output, query_bar, key_bar, value_bar


@given(st.integers(0, 2**32 - 1), st.sampled_from(["float32", "float64"]), st.booleans(), st.sampled_from([1, 2, 3, 8]))
def test_a_tiled_backward_is_within_the_bound(seed, dtype, causal, block):
    *arrays, cotangent = drawn(seed, dtype, causal)
    found = tiled(*arrays, cotangent, causal, block)
    assert max(excess(found, arrays, cotangent, causal).values()) <= 1


@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_pytorch_is_within_the_bound(causal):
    torch = pytest.importorskip("torch")
    for seed in range(100):
        for dtype in ("float32", "float64"):
            *arrays, cotangent = drawn(seed, dtype, causal)
            inputs = [torch.tensor(a, requires_grad=True) for a in arrays]
            output = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=causal)
            bars = torch.autograd.grad(output, inputs, torch.tensor(cotangent))
            found = [output.detach().numpy(), *(bar.numpy() for bar in bars)]
            assert max(excess(found, arrays, cotangent, causal).values()) <= 1, (seed, dtype)


@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from(["of each other row", "doubled", "left out"]))
def test_a_wrong_sum_of_rows_is_beyond_it(seed, causal, how):
    """D of another row, twice D and no D are off by D itself, which no order of summation is."""
    *arrays, cotangent = drawn(seed, "float64", causal)
    query, key, value = arrays
    s = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    s = np.where(np.tri(*s.shape[-2:], dtype=bool), s, -np.inf) if causal else s
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    d_rows = (cotangent * (p @ value)).sum(-1, keepdims=True)
    wrong = {"of each other row": d_rows[..., ::-1, :], "doubled": 2 * d_rows, "left out": 0 * d_rows}[how]
    shift = p * (d_rows - wrong) / np.sqrt(query.shape[-1])
    found = list(tiled(*arrays, cotangent, causal, 8))
    found[1] = found[1] + shift @ key
    moved = np.abs(shift @ key).max() > 1e-9 * max(np.abs(p * (cotangent @ value.swapaxes(-1, -2))).max(), 1)
    assert not moved or excess(found, arrays, cotangent, causal)["gradient of query"] > 1


def test_a_causal_row_with_one_key_is_rounding():
    """The public front: the first row of causal attention has one key, and its gradient of the query is 0 on paper."""
    rng = np.random.default_rng(0)
    query, key, value, bar = (rng.standard_normal((1, 2, 8, 64)).astype(np.float32) for _ in range(4))
    names = ("output", "gradient of query", "gradient of key", "gradient of value")
    answer = dict(zip(names, tiled(query, key, value, bar, True, 3), strict=True))
    assert np.abs(answer["gradient of query"][..., 0, :]).max() > 0, "rounding leaves something"
    inputs = {"query": query, "key": key, "value": value}
    refnp.assert_close("causal_attention", answer, inputs, cotangent=bar)
    answer["gradient of query"] = answer["gradient of query"] + np.float32(1e-4)
    with pytest.raises(AssertionError, match="gradient of query"):
        refnp.assert_close("causal_attention", answer, inputs, cotangent=bar)


@given(st.integers(0, 2**32 - 1))
def test_a_weight_that_is_alone_has_the_bound_of_what_cancels(seed):
    """p (ḡ − ḡ p) with p rounded to 1 − u is within; what is left where p is not alone is not given away."""
    rng = np.random.default_rng(seed)
    x, g = rng.standard_normal((3, 4)), rng.standard_normal((3, 4))
    x[0, 1:] = -np.inf
    _, pullback = SOFTMAX.equation(exact(x, arithmetic("float64")))
    (bar,) = pullback(exact(g, arithmetic("float64")))
    (allowed,) = bounds.of(SOFTMAX.equation, [x], g)[1:]
    p = 1 - np.finfo(float).eps / 2
    assert bar.value[0, 0] == 0
    assert abs(p * (g[0, 0] - g[0, 0] * p)) <= allowed[0, 0] <= 64 * np.finfo(float).eps * abs(g[0, 0]) + 1e-300
    assert (allowed[1:] < WIDE(1e-13)).all()
