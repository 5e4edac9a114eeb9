"""Embedding: from token numbers to vectors. Row v of a table is the vector of token v; rows of the result are tokens.

    X_n = scale · E[token_n]

Source: Sivaraya (2023) §1.2, Transformer Notes; Vaswani et al. (2017) §3.4 multiply by √D, so
that it is not small beside the positions that are added.
Transcription: tests/transcriptions/transformer.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refnp.autograd import take
from refnp.autograd.blocks import floating
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import ArrayLike, Parameter, Tensor
from refnp.layers.module import Module


def embedding(tokens: ArrayLike, table: ArrayLike, *, scaled: bool = False) -> Any:
    """Rows of `table` at integer `tokens`, times √D if `scaled`.

    Shapes: tokens (..., N) integers, table (V, D) → (..., N, D).
    VJP: Ē_v = scale · Σ_{n: token_n = v} X̄_n; tokens have none.
    Raises TypeError unless tokens are integers, IndexError for a token outside 0 … V − 1, ValueError unless the
    table is a matrix.
    """
    numbers = np.asarray(raw(tokens))
    vectors = table if isinstance(table, Tensor) else floating(table)
    if vectors.ndim != 2:
        raise ValueError(f"embedding: table has shape {vectors.shape}; it must be (vocabulary, features)")
    if numbers.dtype.kind not in "iu" and numbers.size:  # an empty list is an array of floats
        raise TypeError(f"embedding: tokens are {numbers.dtype}; pass integers")
    vocabulary, features = vectors.shape
    outside = numbers[(numbers < 0) | (numbers >= vocabulary)]
    if outside.size:
        bad, last = outside.flat[0], vocabulary - 1
        raise IndexError(f"embedding: token {bad} is not in a vocabulary of {vocabulary}; use 0 to {last}")
    rows = take(vectors, numbers)  # (..., N, D)
    return rows * np.sqrt(np.asarray(features, raw(vectors).real.dtype)) if scaled else rows


class Embedding(Module):
    """A table of `vocabulary` vectors with `features` numbers, drawn from N(0, 1), or N(0, 1/D) if `scaled` by √D."""

    def __init__(self, vocabulary: int, features: int, *, scaled: bool = False, rng: np.random.Generator):
        if vocabulary < 1 or features < 1:
            raise ValueError(f"Embedding: vocabulary {vocabulary} and features {features} must be positive")
        self.weight = Parameter(rng.normal(0, features**-0.5 if scaled else 1, (vocabulary, features)))
        self.scaled = scaled

    def __call__(self, tokens: ArrayLike) -> Any:
        return embedding(tokens, self.weight, scaled=self.scaled)
