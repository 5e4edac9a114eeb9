"""The layers of the Transformer and their stacks, post-norm and pre-norm.

Parameters come as a flat sequence, in the order of refnp's modules: of an attention the four weights and biases, of a
LayerNorm gain and shift, of a feed-forward network two weights and biases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.verify.equations.activations import gelu, relu
from refnp.verify.equations.attention import multi_head
from refnp.verify.equations.linear import linear
from refnp.verify.equations.rows import layer_norm

ENCODER_LAYER = 8 + 2 + 4 + 2  # parameters of a layer
DECODER_LAYER = 8 + 2 + 8 + 2 + 4 + 2


def around(sublayer: Callable, x: Any, affine: Any, norm: str, eps: float = 1e-5) -> tuple[Any, Callable]:
    """post: LayerNorm(x + f(x)); pre: x + f(LayerNorm(x)).   pullback(ȳ) = x̄, γ̄, β̄, and what f's pullback adds."""
    gain, shift = affine
    if norm == "post":
        y, sublayer_pullback = sublayer(x)
        z, norm_pullback = layer_norm(x + y, gain, shift, eps=eps)

        def post_pullback(g):
            sum_bar, gain_bar, shift_bar = norm_pullback(g)
            x_bar, *rest = sublayer_pullback(sum_bar)
            return sum_bar + x_bar, gain_bar, shift_bar, rest

        return z, post_pullback
    unit, norm_pullback = layer_norm(x, gain, shift, eps=eps)
    y, sublayer_pullback = sublayer(unit)

    def pullback(g):
        unit_bar, *rest = sublayer_pullback(g)
        x_bar, gain_bar, shift_bar = norm_pullback(unit_bar)
        return g + x_bar, gain_bar, shift_bar, rest

    return x + y, pullback


def self_attention(parameters, heads, mask):
    """x ↦ MHA(x, x, x), its x̄ the sum of those of query, key and value."""

    def sublayer(x):
        y, pullback = multi_head(x, x, x, *parameters, heads=heads, mask=mask)

        def summed(g):
            query_bar, key_bar, value_bar, *rest = pullback(g)
            return query_bar + key_bar + value_bar, *rest

        return y, summed

    return sublayer


def attention_to(memory, parameters, heads, mask):
    """x ↦ MHA(x, memory, memory); the first of what its pullback adds is that of the memory."""

    def sublayer(x):
        y, pullback = multi_head(x, memory, memory, *parameters, heads=heads, mask=mask)

        def summed(g):
            query_bar, key_bar, value_bar, *rest = pullback(g)
            return query_bar, key_bar + value_bar, *rest

        return y, summed

    return sublayer


def feed_forward(parameters, activation):
    """x ↦ f(x W + b) W' + b'."""
    w1, b1, w2, b2 = parameters

    def sublayer(x):
        inner, inner_pullback = linear(x, w1, b1)
        hidden, activation_pullback = {"relu": relu, "gelu": gelu}[activation](inner)
        y, outer_pullback = linear(hidden, w2, b2)

        def pullback(g):
            hidden_bar, w2_bar, b2_bar = outer_pullback(g)
            x_bar, w1_bar, b1_bar = inner_pullback(*activation_pullback(hidden_bar))
            return x_bar, w1_bar, b1_bar, w2_bar, b2_bar

        return y, pullback

    return sublayer


def encoder_layer(x, *parameters, heads, norm="post", activation="relu", eps=1e-5, mask=None):
    """x ← around(self-attention), x ← around(feed-forward), Sivaraya (2023) §1.5."""
    attention, norm_1, maps, norm_2 = _cut(parameters, 8, 2, 4, 2)
    x, first = around(self_attention(attention, heads, mask), x, norm_1, norm, eps)
    x, second = around(feed_forward(maps, activation), x, norm_2, norm, eps)

    def pullback(g):
        x_bar, *norm_2_bars, maps_bars = second(g)
        x_bar, *norm_1_bars, attention_bars = first(x_bar)
        return x_bar, *attention_bars, *norm_1_bars, *maps_bars, *norm_2_bars

    return x, pullback


def decoder_layer(x, memory, *parameters, heads, norm="post", activation="relu", mask=None, memory_mask=None):
    """x ← around(self-attention), around(attention to the memory), around(feed-forward), Sivaraya (2023) §1.6."""
    own, norm_1, other, norm_2, maps, norm_3 = _cut(parameters, 8, 2, 8, 2, 4, 2)
    x, first = around(self_attention(own, heads, mask), x, norm_1, norm)
    x, second = around(attention_to(memory, other, heads, memory_mask), x, norm_2, norm)
    x, third = around(feed_forward(maps, activation), x, norm_3, norm)

    def pullback(g):
        x_bar, *norm_3_bars, maps_bars = third(g)
        x_bar, *norm_2_bars, (memory_bar, *other_bars) = second(x_bar)
        x_bar, *norm_1_bars, own_bars = first(x_bar)
        bars = (*own_bars, *norm_1_bars, *other_bars, *norm_2_bars, *maps_bars, *norm_3_bars)
        return x_bar, memory_bar, *bars

    return x, pullback


def transformer(source, target, *parameters, heads, layers, norm="post", activation="relu", source_mask=None):
    """Encoder and decoder of `layers` layers each, a LayerNorm after either; the causal mask in the decoder.

    `source_mask` (B, 1, M) hides padding of the source from the encoder and from the decoder.
    """
    sizes = ENCODER_LAYER * layers, 2, DECODER_LAYER * layers, 2
    encoder, encoder_norm, decoder, decoder_norm = _cut(parameters, *sizes)
    options = {"heads": heads, "norm": norm, "activation": activation}
    n, m = target.shape[-2], source.shape[-2]
    hidden = None if source_mask is None else np.broadcast_to(source_mask, (len(source_mask), m, m))
    memory_mask = None if source_mask is None else np.broadcast_to(source_mask, (len(source_mask), n, m))
    x, encoder_pullbacks = source, []
    for own in _cut(encoder, *[ENCODER_LAYER] * layers):
        x, pull = encoder_layer(x, *own, **options, mask=hidden)
        encoder_pullbacks.append(pull)
    memory, memory_pullback = layer_norm(x, *encoder_norm)
    x, decoder_pullbacks = target, []
    for own in _cut(decoder, *[DECODER_LAYER] * layers):
        x, pull = decoder_layer(x, memory, *own, **options, mask=np.tri(n, dtype=bool), memory_mask=memory_mask)
        decoder_pullbacks.append(pull)
    y, output_pullback = layer_norm(x, *decoder_norm)

    def pullback(g):
        x_bar, *decoder_norm_bars = output_pullback(g)
        decoder_bars: list[Any] = []
        memory_bar = None
        for pull in reversed(decoder_pullbacks):
            x_bar, own_memory_bar, *bars = pull(x_bar)
            memory_bar = own_memory_bar if memory_bar is None else memory_bar + own_memory_bar
            decoder_bars = bars + decoder_bars
        target_bar = x_bar
        x_bar, *encoder_norm_bars = memory_pullback(memory_bar)
        encoder_bars: list[Any] = []
        for pull in reversed(encoder_pullbacks):
            x_bar, *bars = pull(x_bar)
            encoder_bars = bars + encoder_bars
        return x_bar, target_bar, *encoder_bars, *encoder_norm_bars, *decoder_bars, *decoder_norm_bars

    return y, pullback


def _cut(parameters, *lengths):
    """Consecutive parts of the given lengths."""
    ends = np.cumsum(lengths)
    if ends[-1] != len(parameters):
        raise ValueError(f"there are {len(parameters)} parameters, not {ends[-1]}")
    return [parameters[end - length : end] for end, length in zip(ends, lengths, strict=True)]
