"""Multi-head attention: several attentions side by side, each on its own projection, and a linear map of them all.

    H^(i) = Attention(X W_q^(i), Y W_k^(i), Y W_v^(i))        MHA(X, Y) = concat(H^(1), …, H^(h)) W_o

The heads are concatenated along the feature axis, (N, h·d_v); S002 prints them stacked as rows. The W^(i) of all heads
stand side by side in one matrix, so that a single product serves them; maps on top of queries, keys and values that
are already projected, as in S002 eq. 6, are a product of two matrices, and so one matrix.

Source: S002 §1.4, eq. 6; S004; Vaswani et al. (2017) §3.2.2.
Elsewhere: torch.nn.MultiheadAttention keeps W_q, W_k, W_v as one (3D, D) matrix, transposed, and its mask is True
where attention is forbidden.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refnp.autograd import reshape, transpose
from refnp.autograd.primitive import raw
from refnp.layers.attention import attention
from refnp.layers.linear import Linear
from refnp.layers.module import Module


class MultiHeadAttention(Module):
    """Attention with `heads` heads on features of width D, each D/heads wide.

    Shapes: query (..., N, D), key (..., M, D_k), value (..., M, D_v) → (..., N, D); the weights, on request,
    (..., H, N, M). `mask` and `bias` broadcast to (..., N, M) and serve all heads; with `per_head` they broadcast to
    (..., H, N, M). Called with one argument it is self-attention, with two cross-attention (value = key).
    `key_heads` < heads shares keys and values among groups of heads (grouped-query attention).
    Raises ValueError if the heads do not divide the features, or key_heads the heads.
    """

    def __init__(
        self,
        features: int,
        heads: int,
        *,
        key_features: int | None = None,
        value_features: int | None = None,
        key_heads: int | None = None,
        similarity: str = "scaled_dot",
        bias: bool = True,
        rng: np.random.Generator,
    ):
        key_heads = heads if key_heads is None else key_heads
        if heads < 1 or features % heads:
            raise ValueError(f"MultiHeadAttention: {heads} heads do not divide {features} features equally")
        if key_heads < 1 or heads % key_heads:
            raise ValueError(f"MultiHeadAttention: key_heads is {key_heads}; it must divide the {heads} heads")
        if similarity not in ("scaled_dot", "dot", "cosine"):
            raise ValueError(f"MultiHeadAttention: similarity is {similarity!r}; use 'scaled_dot', 'dot' or 'cosine'")
        width = features // heads * key_heads
        self.query = Linear(features, features, bias=bias, rng=rng)
        self.key = Linear(features if key_features is None else key_features, width, bias=bias, rng=rng)
        self.value = Linear(features if value_features is None else value_features, width, bias=bias, rng=rng)
        self.output = Linear(features, features, bias=bias, rng=rng)
        self.heads, self.key_heads, self.similarity = heads, key_heads, similarity

    def __call__(
        self,
        query: Any,
        key: Any = None,
        value: Any = None,
        *,
        mask: Any = None,
        bias: Any = None,
        per_head: bool = False,
        return_weights: bool = False,
    ) -> Any:
        key = query if key is None else key
        value = key if value is None else value
        if not per_head:
            mask, bias = _over_heads(mask), _over_heads(bias)
        result = attention(
            split_heads(self.query(query), self.heads),
            split_heads(self.key(key), self.key_heads),
            split_heads(self.value(value), self.key_heads),
            mask=mask,
            bias=bias,
            similarity=self.similarity,
            grouped_heads=self.key_heads != self.heads,
            return_weights=return_weights,
        )
        output, weights = result if return_weights else (result, None)
        output = self.output(merge_heads(output))
        return (output, weights) if return_weights else output


def split_heads(x: Any, heads: int) -> Any:
    """(..., N, h·d) → (..., h, N, d): the features of a token, cut into the heads' shares.

    Raises ValueError if they do not divide.
    """
    *batch, n, features = x.shape
    if features % heads:
        raise ValueError(f"split_heads: {heads} heads do not divide {features} features equally")
    x = reshape(x, (*batch, n, heads, features // heads))
    axes = tuple(range(len(batch)))
    return transpose(x, (*axes, len(axes) + 1, len(axes), len(axes) + 2))


def merge_heads(x: Any) -> Any:
    """(..., h, N, d) → (..., N, h·d): the heads side by side along the features."""
    *batch, heads, n, width = x.shape
    axes = tuple(range(len(batch)))
    x = transpose(x, (*axes, len(axes) + 1, len(axes), len(axes) + 2))
    return reshape(x, (*batch, n, heads * width))


def _over_heads(array: Any) -> Any:
    """(..., N, M) → (..., 1, N, M), so that a mask or bias serves every head."""
    if array is None or np.ndim(raw(array)) < 3:
        return array
    shape = np.shape(raw(array))
    return reshape(array, (*shape[:-2], 1, *shape[-2:]))
