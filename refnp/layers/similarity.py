"""Similarities: how well does a key fit a query? One number per pair, before the softmax.

    dot          q·k                                 scaled_dot   q·k / √d       (Sivaraya (2023), eq. 3)
    cosine       q·k / (|q| |k|), in [−1, 1]         (Attention Notes 10-15)
    general      q W k                               (Luong, Pham & Manning (2015), arXiv 1508.04025)
    additive     v · tanh(q W_q + k W_k)             (Bahdanau, Cho & Bengio (2015), arXiv 1409.0473)

The first four are dot products of changed queries and keys, so that one attention serves them all: `as_dot` returns
the changed pair and the scale. Only the additive one needs its own scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refnp.autograd import divide, matmul, norm, tanh, where
from refnp.autograd.primitives import raw

SIMILARITIES = ("dot", "scaled_dot", "cosine", "general", "additive")


def as_dot(query: Any, key: Any, similarity: str, parameters: tuple) -> tuple[Any, Any, Any]:
    """(q', k', scale) with S(q, k) = scale · q'·k', for every similarity but the additive one.

    Shapes: query (..., N, d), key (..., M, d); general: parameters (W,), W (d, d_k) with key (..., M, d_k).
    """
    if similarity == "general":
        (weight,) = parameters
        return matmul(query, weight), key, None
    if similarity == "cosine":
        return unit_rows(query), unit_rows(key), None
    if similarity == "dot":
        return query, key, None
    return query, key, one_over_root(raw(query))


def one_over_root(query: np.ndarray) -> Any:
    """1/√d, d the number of features of a query, in the precision of the query."""
    return 1 / np.sqrt(np.asarray(query.shape[-1], query.real.dtype))


def unit_rows(x: Any) -> Any:
    """Rows divided by their length; a row of zeros stays 0, as is its cosine with anything, and has gradient 0."""
    length = norm(x, -1, keepdims=True)  # (..., N, 1)
    return divide(x, where(raw(length).real == 0, np.inf, length))


def additive_scores(query: Any, key: Any, parameters: tuple) -> Any:
    """S_ij = Σ_a v_a tanh((q_i W_q)_a + (k_j W_k)_a).

    Shapes: query (..., N, d_q), key (..., M, d_k), W_q (d_q, A), W_k (d_k, A), v (A,) → (..., N, M).
    """
    query_weight, key_weight, vector = parameters
    q = matmul(query, query_weight)  # (..., N, A)
    k = matmul(key, key_weight)  # (..., M, A)
    q_shape, k_shape = q.shape, k.shape
    q = q.reshape((*q_shape[:-1], 1, q_shape[-1]))
    k = k.reshape((*k_shape[:-2], 1, *k_shape[-2:]))
    return matmul(tanh(q + k), vector)


def check_parameters(similarity: str, parameters: tuple, query: Any, key: Any) -> None:
    """ValueError unless the similarity exists and its parameters have shapes that fit query and key."""
    if similarity not in SIMILARITIES:
        raise ValueError(f"attention: similarity is {similarity!r}; use one of {', '.join(SIMILARITIES)}")
    d_q, d_k = query.shape[-1], key.shape[-1]
    shapes = tuple(np.shape(raw(p)) for p in parameters)
    if similarity == "general":
        right = shapes == ((d_q, d_k),)
        wanted = f"(W,) of shape ({d_q}, {d_k})"
    elif similarity == "additive":
        right = len(shapes) == 3 and len(shapes[2]) == 1 and shapes[:2] == ((d_q, *shapes[2]), (d_k, *shapes[2]))
        wanted = f"(W_q, W_k, v) of shapes ({d_q}, A), ({d_k}, A), (A,)"
    else:
        right, wanted = not shapes, "no parameters"
        if d_q != d_k:
            raise ValueError(f"attention: query has {d_q} features but key has {d_k}; they must match")
    if not right:
        raise ValueError(f"attention: similarity {similarity!r} takes {wanted}; got shapes {shapes}")
