"""Attention as libraries have it beside the plain one: another scale, masks aligned bottom right, a sink, given dropout
masks, and kept keys and values. For `refnp.judge` alone."""

from dataclasses import replace

import numpy as np

from refnp import layers
from refnp.autograd import broadcast_to, concatenate, matmul, reshape
from refnp.autograd.declaration import takes_unchecked
from refnp.autograd.primitives import raw
from refnp.layers.attention import dropout_map, weights_vjp
from refnp.layers.masks import causal
from refnp.numbers.parts import with_parts
from refnp.numbers.rounding import constant, where
from refnp.verify.case import Case, Layer, normal
from refnp.verify.judged_pages import by_page, of_tape
from refnp.verify.layers.attention import (
    CAUSAL,
    CHECKERED,
    IN_ANY_FORM,
    IN_FLOAT32,
    ONE_ROW_HIDDEN,
    OR_PRINTED,
    TOKENS,
    TOKENS_HIDDEN,
    WINDOW,
    attention,
    in_window,
    own_key,
    tensors,
    torch_attention,
)


@takes_unchecked(TOKENS, scale="finite", mask=TOKENS_HIDDEN)
def scaled(query, key, value, *, scale, mask=None):
    """O = A V, A = softmax of s Q Kᵀ over the allowed keys, s the `scale`.

    Shapes: query (..., N, d), key (..., M, d), value (..., M, e) → (..., N, e).
    """
    return layers.attention(query, key, value, mask=mask, scale=scale)


@takes_unchecked(
    "query (..., H, N, d), key (..., H, M, d), value (..., H, M, e), sink (H) → (..., H, N, e)",
    mask="boolean to (N, M)?",
)
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


def beside_sink(query, key, value, sink, *, mask=None):
    """The same by pages, for the part of attention that kernels have in another form."""
    scores, scores_vjp = layers.attention_scores.page(query, key, mask=mask)
    column = np.broadcast_to(sink[:, None, None], (*scores.shape[:-1], 1))
    weights, _ = layers.softmax.page(np.concatenate([scores, column], -1))  # (..., H, N, M + 1)
    output = weights[..., :-1] @ value

    def vjp(output_bar):
        weights_bar, value_bar = output_bar @ value.mT, weights[..., :-1].mT @ output_bar
        of_all = np.concatenate([weights_bar, np.zeros_like(weights_bar[..., :1])], -1)
        logits_bar = weights_vjp(weights, of_all, output, output_bar)
        query_bar, key_bar, _ = scores_vjp(logits_bar[..., :-1])
        return query_bar, key_bar, value_bar, logits_bar[..., -1].sum(-1)

    return output, vjp


@takes_unchecked(TOKENS, keep="boolean (..., N, M)", dropout="in [0, 1)")  # masks have listed cases
def dropped(query, key, value, *, keep, dropout, mask=None):
    """O = (A ∘ K/(1 − p)) V, A = softmax of Q Kᵀ/√d, K True where a weight is kept, p the `dropout`.

    Shapes: query (..., N, d), key (..., M, d), value (..., M, e), keep (..., N, M) → (..., N, e).
    """
    a = layers.softmax(layers.attention_scores(query, key, mask=mask))
    return matmul(a * np.where(keep, 1 / (1 - np.asarray(dropout, raw(a).real.dtype)), 0), value)


def with_kept(query, key, value, *, keep, dropout, mask=None):
    """Attention whose weights are multiplied by 0 or 1/(1 − p) after the softmax."""
    factors = where(keep, 1 / (1 - constant(dropout)), 0)
    return with_parts(attention, {dropout_map: lambda *_: lambda weights: weights * factors})(
        query, key, value, mask=mask
    )


@takes_unchecked("query (..., N, d), key (..., M, d) → (..., N, M)", mask="boolean to (..., N, M)? hides (key)")
def attention_weights(query, key, *, mask=None):
    """A = softmax of Q Kᵀ/√d over the allowed keys; 0 for a query that may attend to none.

    Shapes: query (..., N, d), key (..., M, d) → (..., N, M).
    """
    return layers.softmax(layers.attention_scores(query, key, mask=mask))


@takes_unchecked(
    "query (..., N, d), key (..., N, d), value (..., N, e), cached_key (..., M, d), cached_value (..., M, e) → "
    "(..., N, e)"
)
def decoded(query, key, value, cached_key, cached_value):
    """Attention of new tokens to kept keys and values, then to their own up to themselves: bottom right of M kept + N.

    Shapes: query, key (..., N, d), value (..., N, e), cached_key (..., M, d), cached_value (..., M, e) → (..., N, e).
    """
    keys, values = concatenate([cached_key, key], axis=-2), concatenate([cached_value, value], axis=-2)
    mask = causal(raw(query).shape[-2], raw(keys).shape[-2], align="bottom_right")
    return layers.attention(query, keys, values, mask=mask)


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


SCALED = of_tape(scaled, IN_ANY_FORM, name="scaled_attention", torch=torch_scaled, names=("attention",))
CAUSAL_IN_A_CORNER = replace(CAUSAL, torch=torch_causal, jax=None)
WINDOW_IN_A_CORNER = replace(WINDOW, torch=torch_window, jax=None)
FEW_QUERIES = {"N": (5, 1, 2, 67)}  # keys are many
SINK = Layer("sink_attention", with_sink, by_page(beside_sink, IN_ANY_FORM), tried=FEW_QUERIES)
WEIGHTS = of_tape(attention_weights, OR_PRINTED)
DROPOUT = Layer("dropout_attention", dropped, with_kept, tried=FEW_QUERIES)
DECODING = of_tape(decoded, IN_ANY_FORM, name="decoding_attention", tried=FEW_QUERIES)


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
