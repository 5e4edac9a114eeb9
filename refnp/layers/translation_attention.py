"""Attention that sees where tokens are, but only relative to each other: translation equivariant attention.

    d_nm = x_n − x_m        s^h_nm = q^h_n · k^h_m / √d        (a¹_nm … a^H_nm) = MLP([d_nm, s¹_nm … s^H_nm])

    output_n = Σ_h Σ_m softmax_m(a^h_nm) v^h_m W_o^h        x_n ← x_n + mean_m d_nm φ(softmax(a)_nm), if places move

How well two tokens fit depends on what they hold and on the difference of their places; shift all places by the same
amount, and nothing changes. Convolution is the case in which the MLP looks at d alone; attention that in which it
passes s on: this is what unifies the two.

Source: S000, S002 (the title); Ashman et al., Translation Equivariant Transformer Neural Processes, arXiv 2406.12409.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from refnp.autograd import concatenate, matmul, swapaxes, transpose, where
from refnp.layers.linear import MLP, Linear
from refnp.layers.module import Module
from refnp.layers.multi_head import merge_heads, split_heads
from refnp.layers.softmax import softmax


class TranslationAttention(Module):
    """Translation equivariant attention with `heads` heads on features of width D and places of dx numbers.

    Shapes: query (B, N, D), key (B, M, D), differences x_n − x_m (B, N, M, dx), mask (..., N, M), True = may attend
    → (B, N, D). `kernel` are the widths of the hidden layers of the MLP.
    Queries, keys and values are projected without bias, as the authors' code has it.
    Raises ValueError if the heads do not divide the features.
    """

    def __init__(
        self, features: int, heads: int, *, dx: int = 1, kernel: Sequence[int] = (32, 32), rng: np.random.Generator
    ):
        if heads < 1 or features % heads:
            raise ValueError(f"TranslationAttention: {heads} heads do not divide {features} features equally")
        self.query, self.key, self.value = (Linear(features, features, bias=False, rng=rng) for _ in range(3))
        self.kernel = MLP([dx + heads, *kernel, heads], rng=rng)
        self.output = Linear(features, features, rng=rng)
        self.heads = heads

    def __call__(self, query: Any, key: Any, differences: Any, *, mask: Any = None) -> Any:
        q, k, v = (split_heads(y, self.heads) for y in (self.query(query), self.key(key), self.value(key)))
        scores = matmul(q, swapaxes(k, -1, -2)) * q.shape[-1] ** -0.5  # (B, H, N, M)
        pairs = concatenate([differences, transpose(scores, (0, 2, 3, 1))], -1)  # (B, N, M, dx+H)
        logits = transpose(self.kernel(pairs), (0, 3, 1, 2))  # (B, H, N, M)
        weights = softmax(logits if mask is None else where(mask[..., None, :, :], logits, -np.inf))  # (B, H, N, M)
        return self.output(merge_heads(matmul(weights, v)))
