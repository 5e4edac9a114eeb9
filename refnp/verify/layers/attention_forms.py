"""Attention as libraries have it beside the plain one: another scale, masks aligned bottom right, a sink, given dropout
masks, and kept keys and values. For `refnp.judge` alone."""

from dataclasses import replace

import numpy as np

from refnp import layers
from refnp.autograd import broadcast_to, concatenate, matmul, reshape
from refnp.autograd.primitives import raw
from refnp.layers.masks import causal
from refnp.layers.softmax import softmax_vjp
from refnp.numbers.rounding import WIDE, arranged, constant, contract, either, where
from refnp.verify.case import Case, Layer, normal
from refnp.verify.layers.attention import (
    CAUSAL,
    CHECKERED,
    IN_FLOAT32,
    ONE_ROW_HIDDEN,
    WINDOW,
    attention,
    causal_equation,
    in_window,
    own_key,
    scores_pullback,
    tensors,
    torch_attention,
)
from refnp.verify.layers.softmax import printed_pullback, weights


def scaled(query, key, value, *, scale, mask=None):
    """O = A V, A = softmax of s Q Kᵀ over the allowed keys, s the `scale`.

    Shapes: query (..., N, d), key (..., M, d), value (..., M, e) → (..., N, e).
    """
    return layers.attention(query, key, value, mask=mask, scale=scale)


def scaled_equation(query, key, value, *, scale, mask=None):
    """Attention without √d, of s Q; Q̄ is s times that of s Q."""
    y, pullback = attention(query * constant(scale), key, value, mask=mask, similarity="dot")

    def own(g):
        query_bar, *others = pullback(g)
        return query_bar * constant(scale), *others

    return y, own


def with_sink(query, key, value, sink, *, mask=None):
    """O = A V, A_nm = e^{s_nm}/(e^b + Σ_j e^{s_nj}), S = Q Kᵀ/√d, b the `sink`, a learned logit for each head.

    It is one key more, whose value is 0. A query that may attend to no key gets 0.
    Shapes: query (..., H, N, d), key (..., H, M, d), value (..., H, M, e), sink (H,) → (..., H, N, e).
    Source: Xiao et al. (2024), arXiv 2309.17453; a logit for each head as in gpt-oss.
    """
    scores = layers.attention_scores(query, key, mask=mask)
    column = broadcast_to(reshape(sink, (-1, 1, 1)), (*raw(scores).shape[:-1], 1))
    a = layers.softmax(concatenate([scores, column], axis=-1))
    return matmul(a[..., :-1], value)


def sink_equation(query, key, value, sink, *, mask=None):
    """The softmax with one logit more, b, of which no value is read; b̄ is the sum of its S̄ over all queries."""
    root = constant(np.sqrt(WIDE(query.shape[-1])))
    scores = contract("...nd,...md->...nm", query, key) / root
    seen = where(True if mask is None else mask, scores, -np.inf)
    column = sink.moved(lambda b: np.broadcast_to(b[:, None, None], (*scores.shape[:-1], 1)))
    a = weights(arranged(lambda *parts: np.concatenate(parts, -1), seen, column))
    output = contract("...nm,...md->...nd", a[..., :-1], value)

    def pullback(g):
        a_bar = contract("...nd,...md->...nm", g, value)
        of_all = a_bar.moved(lambda b: np.concatenate([b, np.zeros_like(b[..., :1])], -1))
        s_bar = scores_pullback(a, of_all, g, output)
        own = s_bar[..., :-1] / root
        others = tuple(i for i in range(len(s_bar.shape) - 1) if i != len(s_bar.shape) - 3)
        return (
            contract("...nm,...md->...nd", own, key),
            contract("...nm,...nd->...md", own, query),
            contract("...nm,...nd->...md", a[..., :-1], g),
            s_bar[..., -1].sum(others),
        )

    return output, pullback


def dropped(query, key, value, *, keep, dropout, mask=None):
    """O = (A ∘ K/(1 − p)) V, A = softmax of Q Kᵀ/√d, K True where a weight is kept, p the `dropout`.

    Shapes: query (..., N, d), key (..., M, d), value (..., M, e), keep (..., N, M) → (..., N, e).
    """
    a = layers.softmax(layers.attention_scores(query, key, mask=mask))
    return matmul(a * np.where(keep, 1 / (1 - np.asarray(dropout, raw(a).real.dtype)), 0), value)


def dropped_equation(query, key, value, *, keep, dropout, mask=None):
    """Attention whose weights are multiplied by 0 or 1/(1 − p) after the softmax."""
    factors = where(keep, 1 / (1 - constant(dropout)), 0)
    return attention(query, key, value, mask=mask, factors=factors)


def attention_weights(query, key, *, mask=None):
    """A = softmax of Q Kᵀ/√d over the allowed keys; 0 for a query that may attend to none.

    Shapes: query (..., N, d), key (..., M, d) → (..., N, M).
    """
    return layers.softmax(layers.attention_scores(query, key, mask=mask))


def weights_equation(query, key, *, mask=None):
    """S̄ = A ∘ (Ā − Σ Ā A), as it stands or as in softmax; Q̄ = S̄ K/√d, K̄ = S̄ᵀ Q/√d."""
    root = constant(np.sqrt(WIDE(query.shape[-1])))
    scores = contract("...nd,...md->...nm", query, key) / root
    a = weights(where(True if mask is None else mask, scores, -np.inf))

    def pullback(g):
        own = either(lambda: softmax_vjp(a, g), lambda: printed_pullback(a, g)) / root
        return contract("...nm,...md->...nd", own, key), contract("...nm,...nd->...md", own, query)

    return a, pullback


def decoded(query, key, value, cached_key, cached_value):
    """Attention of new tokens to kept keys and values, then to their own up to themselves: bottom right of M kept + N.

    Shapes: query, key (..., N, d), value (..., N, e), cached_key (..., M, d), cached_value (..., M, e) → (..., N, e).
    """
    keys, values = concatenate([cached_key, key], axis=-2), concatenate([cached_value, value], axis=-2)
    mask = causal(raw(query).shape[-2], raw(keys).shape[-2], align="bottom_right")
    return layers.attention(query, keys, values, mask=mask)


def decoded_equation(query, key, value, cached_key, cached_value):
    """Causal attention, aligned bottom right, to what is kept and what is new."""
    m = cached_key.shape[-2]
    both = lambda kept, new: arranged(lambda *parts: np.concatenate(parts, -2), kept, new)
    y, pullback = causal_equation(query, both(cached_key, key), both(cached_value, value), align="bottom_right")

    def own(g):
        query_bar, keys_bar, values_bar = pullback(g)
        new, kept = np.s_[..., m:, :], np.s_[..., :m, :]
        return query_bar, keys_bar[new], values_bar[new], keys_bar[kept], values_bar[kept]

    return y, own


def torch_causal(torch, query, key, value, *, align="top_left"):
    """PyTorch's is_causal is aligned top left; the other corner is a mask."""
    n, m = query.shape[-2], key.shape[-2]
    return torch_attention(torch, query, key, value, mask=np.tri(n, m, own_key(n, m, align), dtype=bool))


def torch_window(torch, query, key, value, *, before, after, align="top_left"):
    """A mask."""
    n, m = query.shape[-2], key.shape[-2]
    k = own_key(n, m, align)
    return torch_attention(torch, query, key, value, mask=in_window(np.ones((n, m), bool), before - k, after + k))


def torch_scaled(torch, query, key, value, *, scale, mask=None):
    """scaled_dot_product_attention takes a scale."""
    allowed = None if mask is None else torch.tensor(mask)
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed, scale=scale)


SCALED = Layer("scaled_attention", scaled, scaled_equation, torch=torch_scaled, names=("attention",))
CAUSAL_IN_A_CORNER = replace(CAUSAL, torch=torch_causal, jax=None)
WINDOW_IN_A_CORNER = replace(WINDOW, torch=torch_window, jax=None)
SINK = Layer("sink_attention", with_sink, sink_equation)
WEIGHTS = Layer("attention_weights", attention_weights, weights_equation)
DROPOUT = Layer("dropout_attention", dropped, dropped_equation)
DECODING = Layer("decoding_attention", decoded, decoded_equation)


def cases() -> list[Case]:
    """Scales, both corners, sinks high and low, dropped weights, and one or more new tokens beside kept ones."""
    corner = {"align": "bottom_right"}
    near = {"before": 2, "after": 0} | corner
    heads = tensors(batch=(2, 3))
    kept = {"cached_key": normal(2, 6, 4), "cached_value": normal(2, 6, 4)}
    keep = np.add.outer(np.arange(5), np.arange(6) ** 2) % 3 != 0
    new = lambda n: {name: normal(2, n, 4) for name in ("query", "key", "value")}

    def sinks(variant, sink, given=heads, **options):
        return Case(SINK, variant, given | {"sink": sink}, options)

    return [
        Case(SCALED, "scale 0.3", tensors(), {"scale": 0.3}, IN_FLOAT32),
        Case(SCALED, "scale 1, mask", tensors(batch=(2,)), {"scale": 1.0, "mask": CHECKERED}, IN_FLOAT32),
        Case(SCALED, "negative scale", tensors(), {"scale": -0.5}, IN_FLOAT32),
        Case(CAUSAL_IN_A_CORNER, "bottom right, more keys", tensors(n=3, m=7), corner),
        Case(CAUSAL_IN_A_CORNER, "bottom right, more queries", tensors(n=7, m=3), corner),
        Case(WINDOW_IN_A_CORNER, "bottom right, more keys", tensors(n=3, m=7), near),
        Case(WINDOW_IN_A_CORNER, "bottom right, more queries", tensors(n=7, m=4), near | {"after": 1}),
        sinks("ordinary", normal(3)),
        sinks("high and low", np.array([30.0, 0.0, -30.0])),
        sinks("large logits", normal(3), tensors(batch=(2, 3), scale=8.0)),
        sinks("mask", normal(3), mask=CHECKERED),
        sinks("a query that may attend to nothing", normal(3), mask=ONE_ROW_HIDDEN),
        Case(WEIGHTS, "ordinary", scores_of(batch=(2, 3))),
        Case(WEIGHTS, "large logits", scores_of(scale=20.0)),
        Case(WEIGHTS, "mask", scores_of(), {"mask": CHECKERED}),
        Case(WEIGHTS, "a query that may attend to nothing", scores_of(), {"mask": ONE_ROW_HIDDEN}),
        Case(DROPOUT, "a third dropped", tensors(), {"keep": keep, "dropout": 0.3}),
        Case(DROPOUT, "mask", tensors(), {"keep": keep, "dropout": 0.5, "mask": CHECKERED}),
        Case(DECODING, "one token", new(1) | kept),
        Case(DECODING, "three tokens", new(3) | kept),
        Case(DECODING, "nothing kept", new(3) | {"cached_key": normal(2, 0, 4), "cached_value": normal(2, 0, 4)}),
    ]


def scores_of(**sizes):
    """Query and key alone."""
    return {name: draw for name, draw in tensors(**sizes).items() if name != "value"}
