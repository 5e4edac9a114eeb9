"""Attention: every query takes a mean of the values, weighted by how well their keys fit.

    A = softmax(Q Kᵀ / √d)        O = A V

Rows of Q, K and V are tokens, the softmax runs over keys; weights are ≥ 0 and each row of them sums to 1.
A query that may attend to nothing gets output 0 and gradient 0 (as PyTorch's SDPA since 2.5 and ONNX opset 24).

Source: S002 eq. 3-5 (rows), S003 10-14 to 10-16 (columns; it drops the √d), S004; Vaswani et al. (2017).
Long sequences are taken in blocks of queries and keys: refnp/layers/attention_blocks.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refnp.autograd import matmul, reshape, swapaxes, where
from refnp.autograd.primitive import primitive, raw
from refnp.layers.attention_blocks import attend_in_blocks
from refnp.layers.masks import check_mask
from refnp.layers.similarity import additive_scores, as_dot, check_parameters
from refnp.layers.softmax import softmax

LONG = 1 << 16  # scores of one head; above this many the blocked form takes less time, and far less memory


@primitive
def attend(query, key, value, bias=None, *, mask=None, scale=None):
    """O = A V with A = softmax(scale · Q Kᵀ + bias) where the mask allows, all scores at once.

    Shapes: query (..., N, d), key (..., M, d), value (..., M, d_v), bias and mask (..., N, M) → (..., N, d_v).

    VJP, from the last step to the first; the softmax's is that of refnp/layers/softmax.py, row by row, and since
    Σ_j Ā_ij A_ij = Σ_e Ō_ie O_ie, its row sums need no N × M product:

        V̄ = Aᵀ Ō        Ā = Ō Vᵀ        S̄ = A ∘ (Ā − Σ_e Ō_ie O_ie)        Q̄ = scale · S̄ K        K̄ = scale · S̄ᵀ Q
    """
    output, _, vjp = _attend(query, key, value, bias, mask, scale)
    return output, vjp


@primitive
def attend_with_weights(query, key, value, bias=None, *, mask=None, scale=None):
    """(O, A) of `attend`.   VJP: with a gradient B̄ of the weights, S̄ = A ∘ (Ā + B̄ − Σ_j (Ā + B̄)_ij A_ij)."""
    output, weights, vjp = _attend(query, key, value, bias, mask, scale)
    return (output, weights), vjp


def _attend(query, key, value, bias, mask, scale):
    q = query if scale is None else query * scale  # (..., N, d)
    scores = q @ key.swapaxes(-1, -2)  # (..., N, M)
    if bias is not None:
        scores = scores + bias
    a = masked_softmax(scores, mask)  # (..., N, M)
    output = a @ value  # (..., N, d_v)

    def vjp(o_bar, weights_bar=None):
        s_bar = o_bar @ value.swapaxes(-1, -2)  # (..., N, M)   Ā
        if weights_bar is None:
            s_bar -= np.einsum("...e,...e->...", o_bar, output)[..., None]
        else:
            s_bar = s_bar + weights_bar
            s_bar -= np.einsum("...m,...m->...", s_bar, a)[..., None]
        s_bar *= a

        def q_bar():
            bar = s_bar @ key  # (..., N, d)
            return bar if scale is None else np.multiply(bar, scale, out=bar)

        return (
            q_bar,
            lambda: s_bar.swapaxes(-1, -2) @ q,
            lambda: a.swapaxes(-1, -2) @ o_bar,
            s_bar,
        )

    return output, a, vjp


def masked_softmax(scores, mask=None):
    """Softmax along the last axis over what the mask allows, in place; rows that allow nothing become 0."""
    real = scores.real if scores.dtype.kind == "c" else scores
    if mask is None:
        m = real.max(-1, keepdims=True, initial=-np.inf)  # (..., N, 1)
    else:  # arithmetic with a few numbers: np.where would take ten times as long
        keep = mask.astype(real.dtype)  # (..., N, M)   1 or 0
        m = np.minimum(real, (keep - 0.5) * np.inf).max(-1, keepdims=True, initial=-np.inf)
    scores -= np.where(m == -np.inf, 0, m)
    if mask is None:
        np.exp(scores, out=scores)
    elif scores.dtype.kind == "c":
        np.exp(np.where(mask, scores, 0), out=scores)
        scores *= keep
    else:
        np.minimum(scores, 0, out=scores)  # so that no hidden score overflows; the others are ≤ 0 already
        np.exp(scores, out=scores)
        scores *= keep
    total = np.einsum("...m->...", scores)[..., None]  # (..., N, 1)
    scores /= np.where(total == 0, 1, total)
    return scores


def attention(
    query: Any,
    key: Any,
    value: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    similarity: str = "scaled_dot",
    parameters: tuple = (),
    grouped_heads: bool = False,
    return_weights: bool = False,
    method: str = "auto",
) -> Any:
    """A mean of the values for each query: softmax over keys of similarity(q, k) + bias, times the values.

    Shapes: query (..., N, d), key (..., M, d), value (..., M, d_v) → (..., N, d_v), and weights (..., N, M) on
    request. The axes in front (batch, heads) broadcast. `mask` (True = may attend) and `bias` broadcast to
    (..., N, M). With `grouped_heads`, axis −3 of query is a multiple of that of key and value, and each of their
    heads serves as many consecutive query heads.

    `similarity` is "scaled_dot", "dot", "cosine", "general" with parameters=(W,) or "additive" with
    parameters=(W_q, W_k, v); see refnp/layers/similarity.py. What a mask hides is not looked at: NaN or infinity in a
    hidden key or value reaches neither output nor gradients (in PyTorch it does). Zero keys give 0.
    `method` is "auto", "full" (all scores at once) or "blocks" (memory O(N + M), equal to rounding).

    VJP: at `attend`.   Raises ValueError or TypeError naming the argument whose shape or type does not fit.
    """
    query, key, value = (a if hasattr(a, "dtype") else np.asarray(a, float) for a in (query, key, value))
    if grouped_heads:
        return _grouped(query, key, value, mask, bias, similarity, parameters, return_weights, method)
    shape = _check_shapes(query, key, value)
    check_parameters(similarity, parameters, query, key)
    mask = check_mask("attention", mask, shape)
    _check_bias(bias, shape)
    if method not in ("auto", "full", "blocks") or (method == "blocks" and return_weights):
        raise ValueError(f"attention: method is {method!r}; use 'auto', 'full', or 'blocks' (which keeps no weights)")
    if mask is not None and not (np.isfinite(raw(key)).all() and np.isfinite(raw(value)).all()):
        query, key, value = _shielded(query, key, value, mask)
    if similarity == "additive":
        scores = additive_scores(query, key, parameters)
        scores = scores if bias is None else scores + bias
        weights = softmax(scores if mask is None else where(mask, scores, -np.inf))
        output = matmul(weights, value)
        return (output, weights) if return_weights else output
    query, key, scale = as_dot(query, key, similarity, parameters)
    if return_weights:
        return attend_with_weights(query, key, value, bias, mask=mask, scale=scale)
    if method == "blocks" or (method == "auto" and shape[-2] * shape[-1] > LONG):
        return attend_in_blocks(query, key, value, bias, mask=mask, scale=scale)
    return attend(query, key, value, bias, mask=mask, scale=scale)


def column_attention(query: Any, key: Any, value: Any, *, scaled: bool = True) -> Any:
    """Attention with tokens as columns: V · softmax(KᵀQ / √d), the softmax running down the columns.

    Shapes: query (..., d, M), key (..., d, N), value (..., d_v, N) → (..., d_v, M): the transpose of `attention`.
    `scaled=False` leaves out the √d, as S003 10-15 and 10-16 print it (its line above has it).
    """
    query, key, value = (swapaxes(a, -1, -2) for a in (query, key, value))
    return swapaxes(attention(query, key, value, similarity="scaled_dot" if scaled else "dot"), -1, -2)


def _shielded(query: Any, key: Any, value: Any, mask: np.ndarray) -> tuple:
    """Keys and values that are not finite, put out of reach of the queries that may not attend to them.

    A product 0 · NaN would carry them there. Zeros stand in for them, unless a query does attend: its own row of
    the query becomes NaN then, as its output would be.
    """
    bad = ~(np.isfinite(raw(key)).all(-1) & np.isfinite(raw(value)).all(-1))  # (..., M)
    touched = (mask & bad[..., None, :]).any(-1)  # (..., N)
    finite = ~bad[..., None]  # (..., M, 1)
    return where(~touched[..., None], query, np.nan), where(finite, key, 0.0), where(finite, value, 0.0)


def _grouped(query, key, value, mask, bias, similarity, parameters, return_weights, method):
    """Query heads (..., H, N, d) as (..., G, H/G, N, d) beside keys (..., G, 1, M, d)."""
    if query.ndim < 3 or key.ndim < 3 or value.ndim < 3:
        raise ValueError(
            f"attention: grouped_heads needs a head axis −3; query has shape {query.shape}, key {key.shape}"
        )
    heads, groups = query.shape[-3], key.shape[-3]
    if groups == 0 or heads % groups or value.shape[-3] != groups:
        raise ValueError(
            f"attention: {heads} query heads cannot share {groups} key heads and {value.shape[-3]} value heads; "
            "the first must be a multiple of the others"
        )

    def split(array: Any) -> Any:  # a head axis of length H becomes (G, H/G); of length 1, (1, 1)
        if array is None or np.ndim(raw(array)) < 3:
            return array
        n = array.shape[-3]
        parts = (groups, n // groups) if n == heads else (1, 1)
        return reshape(array, (*array.shape[:-3], *parts, *array.shape[-2:]))

    key, value = (reshape(a, (*a.shape[:-2], 1, *a.shape[-2:])) for a in (key, value))
    result = attention(
        split(query),
        key,
        value,
        mask=split(mask),
        bias=split(bias),
        similarity=similarity,
        parameters=parameters,
        return_weights=return_weights,
        method=method,
    )
    merge = [reshape(r, (*r.shape[:-4], heads, *r.shape[-2:])) for r in (result if return_weights else [result])]
    return tuple(merge) if return_weights else merge[0]


def _check_shapes(query: Any, key: Any, value: Any) -> tuple[int, ...]:
    """The shape (..., N, M) of the scores, or ValueError."""
    for name, array in (("query", query), ("key", key), ("value", value)):
        if array.ndim < 2:
            raise ValueError(f"attention: {name} has shape {array.shape}; it must be (..., tokens, features)")
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"attention: key has {key.shape[-2]} rows but value has {value.shape[-2]}; they must match")
    if not query.shape[-1]:
        raise ValueError("attention: query has 0 features; at least one is needed")
    try:
        batch = np.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    except ValueError:
        raise ValueError(
            f"attention: the axes in front of query {query.shape}, key {key.shape} and value {value.shape} "
            "do not broadcast"
        ) from None
    return (*batch, query.shape[-2], key.shape[-2])


def _check_bias(bias: Any, shape: tuple[int, ...]) -> None:
    if bias is None:
        return
    own = np.shape(raw(bias))
    if np.asarray(raw(bias)).dtype.kind not in "fc":
        raise TypeError(f"attention: bias is {np.asarray(raw(bias)).dtype}; pass floats (a boolean goes to mask)")
    try:
        fits = np.broadcast_shapes(own, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"attention: bias has shape {own}; it must broadcast to (..., queries, keys) = {shape}")
