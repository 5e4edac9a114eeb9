"""Cases of attention, one head and several: shapes, masks, and what a mask hides."""

from __future__ import annotations

import numpy as np

from refnp.layers.dot_product_attention import attention
from refnp.layers.masks import causal, key_padding
from refnp.verify import known
from refnp.verify.case import Case, Layer, normal
from refnp.verify.equations import attention as equations


def biased(query, key, value, bias=None, **options):
    """refnp's attention with the bias among the arrays, since it has a gradient."""
    return attention(query, key, value, bias=bias, **options)


def causal_attention(query, key, value):
    """Query i attends to keys j ≤ i, aligned top left."""
    return attention(query, key, value, mask=causal(query.shape[-2], key.shape[-2]))


def causal_equation(query, key, value):
    """Attention under a lower triangular mask, top left."""
    return equations.attention(query, key, value, mask=np.tri(query.shape[-2], key.shape[-2], dtype=bool))


ATTENTION = Layer("attention", biased, equations.attention)
CAUSAL = Layer("causal_attention", causal_attention, causal_equation)

CHECKERED = np.add.outer(np.arange(5), np.arange(6)) % 2 == 0
ONE_ROW_HIDDEN = np.arange(5)[:, None] != np.zeros(6, int) + 2


IN_FLOAT32 = (known.JAX_ATTENTION_DOUBLE,)  # every case of JAX's in float64
MASKED_ROW = (known.JAX_MASKED_ROW,)


def tensors(*, batch=(), n=5, m=6, d=4, width=None, scale=1.0, shift=0.0) -> dict:
    """Query (…, n, d), key (…, m, d), value (…, m, width)."""
    return {
        "query": normal(*batch, n, d, scale=scale, shift=shift),
        "key": normal(*batch, m, d, scale=scale),
        "value": normal(*batch, m, width or d),
    }


def cases() -> list[Case]:
    """All cases of this page."""

    def case(variant, inputs, *, also=(), **options):
        return Case(ATTENTION, variant, inputs, options, also + IN_FLOAT32)

    found = [
        case("ordinary", tensors()),
        case("batch and heads", tensors(batch=(2, 3))),
        case("values of another width", tensors(width=7)),
        case("one query", tensors(n=1)),
        case("one key", tensors(m=1)),
        case("one feature", tensors(d=1)),
        case("32 keys of 16 features", tensors(n=4, m=32, d=16)),
        case("large logits", tensors(scale=20.0)),
        case("queries with mean 1e4", tensors(shift=1e4)),
        case("no root of d", tensors(), similarity="dot"),
        case("mask", tensors(), mask=CHECKERED),
        case("mask of padding", tensors(batch=(2,)), mask=key_padding(np.array([6, 2]), 6)),
        case("fully masked row", tensors(), mask=ONE_ROW_HIDDEN, also=MASKED_ROW),
        case("everything masked", tensors(), mask=np.zeros((5, 6), bool), also=MASKED_ROW),
        case("causal, square", tensors(m=5), mask=causal(5, 5)),
        case("causal, more keys, bottom right", tensors(), mask=causal(5, 6, align="bottom_right")),
        case(
            "causal, fewer keys, bottom right",
            tensors(n=6, m=4),
            mask=causal(6, 4, align="bottom_right"),
            also=MASKED_ROW,
        ),
        case("bias", tensors() | {"bias": normal(5, 6)}),
        case("bias and mask", tensors() | {"bias": normal(5, 6)}, mask=CHECKERED),
        Case(CAUSAL, "square", tensors(m=5), known=IN_FLOAT32),
        Case(CAUSAL, "more keys than queries", tensors(n=3, m=7), known=IN_FLOAT32),
        Case(CAUSAL, "more queries than keys", tensors(n=7, m=3), known=IN_FLOAT32),
    ]
    return found
