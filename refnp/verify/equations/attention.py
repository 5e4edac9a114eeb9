"""Attention of one head and of several."""

from __future__ import annotations

import numpy as np

from refnp.verify.equations.linear import linear, sum_to
from refnp.verify.equations.rows import weights
from refnp.verify.rounding import WIDE, constant, contract, where


def attention(query, key, value, bias=None, *, mask=None, similarity="scaled_dot"):
    """O = A V, A = softmax over the allowed keys of S = Q Kᵀ/√d + bias ("dot": without √d); 0 where no key is allowed.

    V̄ = Aᵀ Ō;   Ā = Ō Vᵀ;   S̄ = A∘(Ā − Σ_j Ā A);   Q̄ = S̄ K/√d, K̄ = S̄ᵀ Q/√d; and S̄ for the bias.
    Keys and values that no query may attend to are taken for 0, whatever they hold.
    """
    n, m = query.shape[-2], key.shape[-2]
    mask = np.broadcast_to(True if mask is None else mask, np.broadcast_shapes(np.shape(mask), (n, m)))
    used = mask.any(-2)[..., None]
    key, value = where(used, key, 0), where(used, value, 0)
    root = constant(np.sqrt(WIDE(query.shape[-1])))
    scores = contract("...nd,...md->...nm", query, key)
    if similarity == "scaled_dot":
        scores = scores / root
    if bias is not None:
        scores = scores + bias
    a = weights(where(mask, scores, -np.inf))

    def pullback(g):
        a_bar = contract("...nd,...md->...nm", g, value)
        s_bar = a * (a_bar - (a_bar * a).sum(-1, keepdims=True))
        scaled = s_bar / root if similarity == "scaled_dot" else s_bar
        bars = (
            sum_to(contract("...nm,...md->...nd", scaled, key), query.shape),
            sum_to(contract("...nm,...nd->...md", scaled, query), key.shape),
            sum_to(contract("...nm,...nd->...md", a, g), value.shape),
        )
        return bars if bias is None else (*bars, sum_to(s_bar, bias.shape))

    return contract("...nm,...md->...nd", a, value), pullback


def split_heads(x, heads):
    """(..., N, H d) → (..., H, N, d)."""
    return x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads).swapaxes(-2, -3)


def join_heads(x):
    """(..., H, N, d) → (..., N, H d)."""
    x = x.swapaxes(-2, -3)
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


def multi_head(query, key, value, wq, bq, wk, bk, wv, bv, wo, bo, *, heads, mask=None):
    """O = concat_h attention(Q W_q, K W_k, V W_v)_h W_o, biases added; one mask (..., N, M) serves all heads."""
    projections = [linear(x, w, b) for x, w, b in ((query, wq, bq), (key, wk, bk), (value, wv, bv))]
    mask = None if mask is None else np.expand_dims(mask, -3)
    mixed, attention_pullback = attention(*(split_heads(y, heads) for y, _ in projections), mask=mask)
    y, output_pullback = linear(join_heads(mixed), wo, bo)

    def pullback(g):
        mixed_bar, wo_bar, bo_bar = output_pullback(g)
        bars = [join_heads(bar) for bar in attention_pullback(split_heads(mixed_bar, heads))]
        back = [pull(bar) for (_, pull), bar in zip(projections, bars, strict=True)]
        parameters = [bar for _, w_bar, b_bar in back for bar in (w_bar, b_bar)]
        return *(x_bar for x_bar, _, _ in back), *parameters, wo_bar, bo_bar

    return y, pullback
