"""Similarities: how well does a key fit a query? One number per pair, before the softmax.

    dot          q·k                                 scaled_dot   q·k / √d       (Sivaraya (2023), eq. 3)
    cosine       q·k / (|q| |k|), in [−1, 1]         (Attention Notes 10-15)
    general      q W k                               (Luong, Pham & Manning (2015), arXiv 1508.04025)
    additive     v · tanh(q W_q + k W_k)             (Bahdanau, Cho & Bengio (2015), arXiv 1409.0473)

The first four are dot products of changed queries and keys: one attention serves them. The additive has its own scores.
Words: layers/__init__.py.   Transcription: tests/transcriptions/rows.py.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from refnp.autograd import matmul, tanh, where
from refnp.autograd.declaration import takes
from refnp.autograd.pages import page
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.kernels import layer_norm as kernels
from refnp.layers.attention import METHOD, OPTIONS, attention, attention_with_weights, soft_capped
from refnp.layers.masked_reductions import numbers
from refnp.layers.masks import apart_from_hidden
from refnp.layers.regularization import dropout as drop
from refnp.layers.softmax import softmax
from refnp.numbers.words import nonzero

OPTIONS_OF_SIMILARITY = {
    "similarity": "dot | scaled_dot | cosine | general | additive",
    **{name: OPTIONS[name] for name in ("mask", "softcap", "dropout", "rng")},
    "return_weights": "True or False",
} | METHOD
COUNTS = {"general": 1, "additive": 3}  # of parameters; the others have none


@takes(
    "query (..., N, d), key (..., M, d_k), value (..., M, d_v), bias floating to (..., N, M)? → (..., N, d_v)",
    **OPTIONS_OF_SIMILARITY,
    needs="not return_weights and similarity ≠ additive if method = blocks, use method='full'",
)
def similarity_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    *,
    mask: ArrayLike | None = None,
    similarity: str = "scaled_dot",
    parameters: Sequence = (),
    softcap: float | None = None,
    dropout: float = 0.0,
    rng: np.random.Generator | None = None,
    method: str = "auto",
    return_weights: bool = False,
) -> Any:
    """Attention with another similarity: softmax over keys of S(q, k) + bias, times the values.

    Shapes: query (..., N, d), key (..., M, d), value (..., M, d_v), bias and mask (..., N, M) → (..., N, d_v), or with
    `return_weights` (output, weights (..., N, M)).
    `similarity` is "scaled_dot", "dot", "cosine", "general" with parameters=(W,), W (d, d_k) for keys of d_k features,
    or "additive" with parameters=(W_q, W_k, v), W_q (d, A), W_k (d_k, A), v (A,).
    `softcap` bounds similarities before bias and mask, `dropout` and `rng` drop weights, as in `attention`.
    `method` is "auto", "full" or "blocks"; the last neither returns weights nor knows the additive similarity.
    Raises ValueError for an unknown similarity, one with other parameters, or a method that it does not have, and what
    `attention` raises. What a mask hides reaches nothing.
    """

    def attend(query, key, value, bias, mask):
        if similarity == "additive":
            if mask is not None:  # what no query may attend to is not read
                read = np.expand_dims(np.atleast_2d(mask).any(-2), -1)  # (..., M, 1)
                key, value = where(read, key, 0), where(read, value, 0)
            scores = additive_scores(query, key, *parameters, mask=mask)  # (..., N, M)
            if softcap is not None:
                c = raw(scores).real.dtype.type(softcap)
                scores = c * tanh(scores / c)
            scores = scores if bias is None else scores + bias
            weights = softmax(scores if mask is None else where(mask, scores, -np.inf))
            weights = drop(weights, dropout, rng)
            output = matmul(weights, value)  # (..., N, d_v)
            return (output, weights) if return_weights else output
        query, key, scale = as_dot(query, key, similarity, parameters)
        options = {"mask": mask, "softcap": softcap, "dropout": dropout, "rng": rng}
        if return_weights:
            return attention_with_weights(query, key, value, bias, scale=scale, **options)
        return attention(query, key, value, bias, scale=scale, method=method, **options)

    if similarity in ("dot", "scaled_dot") and not (parameters or return_weights):  # attention checks all there is
        return attend(query, key, value, bias, mask)
    q, k, v = numbers(query, key, value)
    if len(parameters) != (count := COUNTS.get(similarity, 0)):
        raise ValueError(f"attention: similarity {similarity!r} takes {count} parameters; got {len(parameters)}")
    pairs: Any = bias, mask
    return apart_from_hidden(attend, q, k, v, *pairs)


def as_dot(
    query: Array | Tensor, key: Array | Tensor, similarity: str, parameters: Sequence
) -> tuple[Array | Tensor, Array | Tensor, float | None]:
    """(q', k', scale) with S(q, k) = scale · q'·k', None for 1/√d; for every similarity but the additive one.

    Shapes: query (..., N, d), key (..., M, d); general: parameters (W,), W (d, d_k) with key (..., M, d_k).
    """
    if similarity == "general":
        query = as_keys(query, key, *parameters)
    if similarity == "cosine":
        query, key = unit_rows(query), unit_rows(key)
    return query, key, None if similarity == "scaled_dot" else 1


@takes("query (..., N, d), key (..., M, d_k), weight (d, d_k) → (..., N, d_k)")
def as_keys(query: Array | Tensor, key: Array | Tensor, weight: Array | Tensor) -> Array | Tensor:
    """q W, whose dot product with a key is their general similarity."""
    return matmul(query, weight)


@page("x (..., d) → (..., d)", kernel=kernels.unit_rows)
def unit_rows(x):
    """u = x/|x|, rows divided by their length; a row of zeros stays 0, as is its cosine with finite rows.

    Shapes: x (..., d) → the same.   VJP: x̄ = (ū − u Σ_i ū_i u_i)/|x|, and 0 for a row of zeros.
    """
    square = (x * x).sum(-1, keepdims=True)  # (..., 1)   |x|²
    length = np.sqrt(nonzero(square))  # (..., 1)
    unit = x / length  # (..., d)   u

    def vjp(unit_bar):
        along = (unit * unit_bar).sum(-1, keepdims=True)  # (..., 1)
        x_bar = np.where(square.real == 0, 0, (unit_bar - unit * along) / length)  # (..., d)
        return (x_bar,)

    return unit, vjp


@page(
    "query (..., N, d), key (..., M, d_k), query_weight (d, A), key_weight (d_k, A), vector (A) → (..., N, M)",
    mask="boolean to (..., N, M)?, True = may attend",
)
def additive_scores(query, key, query_weight, key_weight, vector, *, mask=None):
    """S_nm = Σ_a v_a tanh((q_n W_q)_a + (k_m W_k)_a); tanh 0 where the mask hides, for sums may overflow there.

    Shapes: query (..., N, d_q), key (..., M, d_k), W_q (d_q, A), W_k (d_k, A), v (A,) → (..., N, M).
    VJP: with T_nma = tanh(…), Z̄_nma = S̄_nm v_a (1 − T²_nma), both 0 where hidden:

        Q̄ = (Σ_m Z̄) W_qᵀ        K̄ = (Σ_n Z̄) W_kᵀ        W̄_q = Qᵀ Σ_m Z̄        W̄_k = Kᵀ Σ_n Z̄        v̄ = Σ_nm S̄ T
    """
    inner = (query @ query_weight)[..., :, None, :] + (key @ key_weight)[..., None, :, :]  # (..., N, M, A)
    inner = inner if mask is None else np.where(mask[..., None], inner, 0)
    activation, slope = soft_capped(inner, 1)  # (..., N, M, A)   T, 1 − T²
    scores = activation @ vector  # (..., N, M)

    def vjp(scores_bar):
        inner_bar = scores_bar[..., None] * vector * slope  # (..., N, M, A)   Z̄
        inner_bar = inner_bar if mask is None else np.where(mask[..., None], inner_bar, 0)
        of_queries, of_keys = inner_bar.sum(-2), inner_bar.sum(-3)  # (..., N, A), (..., M, A)
        query_bar, key_bar = of_queries @ query_weight.swapaxes(-1, -2), of_keys @ key_weight.swapaxes(-1, -2)
        query_weight_bar = query.swapaxes(-1, -2) @ of_queries  # (..., d, A)
        key_weight_bar = key.swapaxes(-1, -2) @ of_keys  # (..., d_k, A)
        vector_bar = scores_bar[..., None] * activation  # (..., N, M, A)   the walk back sums over n and m
        return query_bar, key_bar, query_weight_bar, key_weight_bar, vector_bar

    return scores, vjp
