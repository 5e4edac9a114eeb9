"""Attention: every query takes a mean of the values, weighted by how well their keys fit.

    A = softmax(Q Kᵀ / √d)        O = A V

Rows of Q, K and V are tokens, the softmax runs over keys; weights are ≥ 0 and each row of them sums to 1.
A query that may attend to nothing gets output 0 and gradient 0 (as PyTorch's SDPA since 2.5 and ONNX opset 24).

Source: Sivaraya (2023), eq. 3-5 (rows), Attention Notes 10-14 to 10-16 (columns; they drop the √d), Transformer Notes;
Vaswani et al. (2017).
Long sequences are taken in blocks of queries and keys, below.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refnp.autograd import Tensor, matmul, reshape, sum_to, swapaxes, where
from refnp.autograd.blocks import run_all
from refnp.autograd.primitives import primitive
from refnp.layers.masks import all_finite, check_mask, fits, shielded, spoil
from refnp.layers.similarity import additive_scores, as_dot, check_parameters
from refnp.layers.softmaxes import masked_softmax, softmax

LONG = 1 << 16  # scores of one head; above this many the blocked form takes less time, and far less memory


@primitive
def attend(query, key, value, bias=None, *, mask=None, scale=None):
    """O = A V with A = softmax(scale · Q Kᵀ + bias) where the mask allows, all scores at once.

    Shapes: query (..., N, d), key (..., M, d), value (..., M, d_v), bias and mask (..., N, M) → (..., N, d_v).

    VJP, from the last step to the first; the softmax's is that of refnp/layers/softmaxes.py, row by row, and since
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
        s_bar = sum_to(o_bar @ value.swapaxes(-1, -2), a.shape)  # (..., N, M)   Ā
        if weights_bar is None:
            row_sums = np.einsum("...e,...e->...", o_bar, output)[..., None]  # (..., N, 1)
            s_bar -= sum_to(row_sums, (*a.shape[:-1], 1))
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
    request. The axes in front (batch, heads) broadcast; the weights lack those that only the value has. `mask` (True =
    may attend) and `bias` broadcast to (..., N, M). With `grouped_heads`, axis −3 of query is a multiple of that of key
    and value, and each of their heads serves as many consecutive query heads.

    `similarity` is "scaled_dot", "dot", "cosine", "general" with parameters=(W,) or "additive" with
    parameters=(W_q, W_k, v); see refnp/layers/similarity.py. Zero keys give 0.
    `method` is "auto", "full" (all scores at once) or "blocks" (memory O(N + M), equal to rounding).

    What a mask hides is not looked at: NaN or infinity in a hidden key, value or bias, or in a query that may attend to
    nothing, reaches neither output nor gradients (in PyTorch it does). Who may attend to an infinite value gets an
    infinite output, to a key with NaN or infinity NaN; their gradients are NaN, but 0 where their cotangents are.

    VJP: at `attend`.   Raises ValueError or TypeError naming the argument whose shape or type does not fit.
    """
    query, key, value = map(_floating, (query, key, value))
    bias = bias if bias is None or isinstance(bias, Tensor) else np.asarray(bias)
    shape = scores_shape(query, key, value, grouped_heads)
    check_parameters(similarity, parameters, query, key)
    mask = check_mask("attention", mask, shape)
    _check_bias(bias, shape)
    _check_method(method, similarity, return_weights)
    if grouped_heads:
        groups = key.shape[-3]
        query, key, value, mask, bias = (_in_groups(a, groups) for a in (query, key, value, mask, bias))
    if method == "auto":
        method = "blocks" if shape[-2] * shape[-1] > LONG else "full"

    arrays, put_back = (query, key, value, bias), None
    if mask is not None and not all_finite(*arrays):
        arrays, put_back = shielded(mask, *arrays)
    results = _attention(*arrays, mask, similarity, parameters, method, return_weights)
    if put_back is not None:
        results = tuple(spoil(y, amount) for y, amount in zip(results, put_back, strict=False))
    if grouped_heads:
        results = tuple(reshape(y, (*y.shape[:-4], shape[-3], *y.shape[-2:])) for y in results)
    return results if return_weights else results[0]


def _attention(query, key, value, bias, mask, similarity, parameters, method, return_weights) -> tuple:
    """(O, A) or (O,), of arguments that have been checked."""
    if similarity == "additive":
        scores = additive_scores(query, key, parameters)  # (..., N, M)
        scores = scores if bias is None else scores + bias
        weights = softmax(scores if mask is None else where(mask, scores, -np.inf))
        return matmul(weights, value), weights
    query, key, scale = as_dot(query, key, similarity, parameters)
    if return_weights:
        return attend_with_weights(query, key, value, bias, mask=mask, scale=scale)
    return ((attend_in_blocks if method == "blocks" else attend)(query, key, value, bias, mask=mask, scale=scale),)


def column_attention(query: Any, key: Any, value: Any, *, scaled: bool = True) -> Any:
    """Attention with tokens as columns: V · softmax(KᵀQ / √d), the softmax running down the columns.

    Shapes: query (..., d, M), key (..., d, N), value (..., d_v, N) → (..., d_v, M): the transpose of `attention`.
    `scaled=False` leaves out the √d, as the Attention Notes 10-15 and 10-16 print it (its line above has it).
    Raises ValueError as `attention` does.
    """
    query, key, value = (swapaxes(a, -1, -2) for a in (query, key, value))
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(
            f"column_attention: key has {key.shape[-2]} columns but value has {value.shape[-2]}; they must match"
        )
    return swapaxes(attention(query, key, value, similarity="scaled_dot" if scaled else "dot"), -1, -2)


def _in_groups(array: Any, groups: int) -> Any:
    """A head axis −3 as two: queries (..., G, H/G, N, d) meet keys (..., G, 1, M, d). A length of 1 becomes (1, 1)."""
    if array is None or array.ndim < 3:
        return array
    n = array.shape[-3]
    parts = (groups, n // groups) if n > 1 else (1, n)
    return reshape(array, (*array.shape[:-3], *parts, *array.shape[-2:]))


def _floating(array: Any) -> Any:
    """As an array, or a Tensor as it is; whole numbers become float64."""
    array = array if isinstance(array, Tensor) else np.asarray(array)
    return array * 1.0 if array.dtype.kind in "biu" else array


def scores_shape(query: Any, key: Any, value: Any, grouped: bool = False) -> tuple[int, ...]:
    """The shape (..., N, M) of the scores, with axis −3 the heads of query if keys and values are grouped.

    Raises ValueError if query, key and value do not fit each other.
    """
    axes = 3 if grouped else 2
    for name, array in (("query", query), ("key", key), ("value", value)):
        if array.ndim < axes:
            wanted = "(..., heads, tokens, features)" if grouped else "(..., tokens, features)"
            raise ValueError(f"attention: {name} has shape {array.shape}; it must be {wanted}")
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"attention: key has {key.shape[-2]} rows but value has {value.shape[-2]}; they must match")
    if not query.shape[-1]:
        raise ValueError("attention: query has 0 features; at least one is needed")
    if grouped:
        heads, groups, value_groups = (a.shape[-3] for a in (query, key, value))
        if groups == 0 or heads % groups or value_groups != groups:
            raise ValueError(
                f"attention: {heads} query heads cannot share {groups} key heads and {value_groups} value heads; "
                "the first must be a multiple of the others"
            )
    try:
        batch = np.broadcast_shapes(query.shape[:-axes], key.shape[:-axes], value.shape[:-axes])
    except ValueError:
        raise ValueError(
            f"attention: the axes in front of query {query.shape}, key {key.shape} and value {value.shape} "
            "do not broadcast"
        ) from None
    return (*batch, *query.shape[-axes:-1], key.shape[-2])


def _check_bias(bias: Any, shape: tuple[int, ...]) -> None:
    if bias is None:
        return
    if bias.dtype.kind not in "fc":
        raise TypeError(f"attention: bias is {bias.dtype}; pass floats (a boolean goes to mask)")
    if not fits(bias.shape, shape):
        raise ValueError(f"attention: bias has shape {bias.shape}; it must broadcast to (..., queries, keys) = {shape}")


def _check_method(method: str, similarity: str, return_weights: bool) -> None:
    if method not in ("auto", "full", "blocks"):
        raise ValueError(f"attention: method is {method!r}; use 'auto', 'full' or 'blocks'")
    if method == "blocks" and (return_weights or similarity == "additive"):
        what = "keeps no weights" if return_weights else "does not know similarity 'additive'"
        raise ValueError(f"attention: method 'blocks' {what}; use 'full'")


# ---- Attention without the N × M matrix: blocks of queries and keys, with the online softmax.
#
# For one query, with scores s_j so far, keep their maximum m, the sum ℓ = Σ exp(s_j − m) and o = Σ exp(s_j − m) v_j.
# A new block of keys with maximum m' changes the maximum to m* = max(m, m'), and
#
#     ℓ ← ℓ exp(m − m*) + Σ_new exp(s_j − m*)        o ← o exp(m − m*) + Σ_new exp(s_j − m*) v_j
#
# At the end O = o / ℓ, and m and ℓ are all that the way back needs: they make each block of weights again,
# A_ij = exp(s_ij − m_i) / ℓ_i, where the division is done once and for all to the row Ō_i. Memory is O(N + M) forward
# and backward. Blocks that a mask hides altogether are left out, which halves the work under a causal one.
#
# Source: Milakov & Gimelshein (2018), arXiv 1805.02867 (online softmax); Rabe & Staats (2021), arXiv 2112.05682; Dao et
# al. (2022), arXiv 2205.14135 (backward).


QUERIES = 256  # rows of a block of scores
KEYS = 512  # columns: 256 × 512 float32 scores are half a megabyte


@primitive
def attend_in_blocks(query, key, value, bias=None, *, mask=None, scale=None):
    """O = softmax(scale · Q Kᵀ + bias) V where the mask allows; `attend` to rounding, in memory O(N + M).

    Shapes: query (..., N, d), key (..., M, d), value (..., M, d_v), bias and mask (..., N, M) → (..., N, d_v).
    VJP: that of `attend`, a block of A and S̄ at a time; sums over blocks are taken in their order, so the bits do
    not depend on the number of threads.
    """
    n, m = query.shape[-2], key.shape[-2]
    leading = np.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    q = _heads(query if scale is None else query * scale, leading)
    k, v = _heads(key, leading), _heads(value, leading)
    parts = [None if x is None else np.broadcast_to(x, (*leading, n, m)) for x in (bias, mask)]
    of_scores = np.result_type(q, k, *(() if bias is None else (bias,)))
    output = np.zeros((*leading, n, v.shape[-1]), np.result_type(of_scores, v))
    top, total = np.zeros((2, *leading, n, 1), of_scores)  # m and ℓ
    heads = list(np.ndindex(leading))
    pieces = [(head, rows) for head in heads for rows in _cut(n, QUERIES)]

    def forward(i):
        head, rows = pieces[i]
        output[head][rows], top[head][rows], total[head][rows] = _online_softmax(
            q[head][rows], k[head], v[head], parts, head, rows
        )

    run_all(forward, len(pieces))

    def vjp(o_bar):
        q_bar, k_bar, v_bar = (np.zeros(x.shape, np.result_type(output, o_bar)) for x in (q, k, v))
        bias_bar = None if bias is None else np.zeros((1,) * (2 - bias.ndim) + bias.shape, q_bar.dtype)
        o_bar = o_bar / total  # (..., N, d_v)
        dot = np.einsum("...e,...e->...", o_bar, output)[..., None]  # (..., N, 1)

        def backward(i):
            head = heads[i]
            for rows in _cut(n, QUERIES):
                for columns in _visible(m, parts, head, rows):
                    a = _scores(q[head][rows], k[head][columns], parts, head, rows, columns)
                    a -= top[head][rows]
                    np.exp(a, out=a)  # ℓ A
                    s_bar = o_bar[head][rows] @ v[head][columns].T
                    s_bar -= dot[head][rows]
                    s_bar *= a
                    v_bar[head][columns] += a.T @ o_bar[head][rows]
                    k_bar[head][columns] += s_bar.T @ q[head][rows]
                    q_bar[head][rows] += s_bar @ k[head][columns]
                    if bias_bar is not None:
                        _add_block(bias_bar, s_bar, head, rows, columns)

        if bias_bar is None:
            run_all(backward, len(heads))
        else:  # heads may share a bias, so they take turns
            for i in range(len(heads)):
                backward(i)
        if scale is not None:
            q_bar *= scale
        return q_bar, k_bar, v_bar, bias_bar if bias_bar is None else bias_bar.reshape(bias.shape)

    return output, vjp


def _online_softmax(q, k, v, parts, head, rows):
    """Output, m and ℓ for a block of queries, from all keys block by block; 0, 0 and 1 where none is allowed."""
    top = np.full((len(q), 1), -np.inf, q.real.dtype)
    total = output = None
    for columns in _visible(len(k), parts, head, rows):
        scores = _scores(q, k[columns], parts, head, rows, columns)
        new_top = np.maximum(top, scores.real.max(-1, keepdims=True))
        shift = np.where(new_top == -np.inf, 0, new_top)
        scores -= shift
        np.exp(scores, out=scores)
        block_total = np.einsum("nm->n", scores)[:, None]
        block_output = scores @ v[columns]
        if total is None:
            total, output = block_total, block_output
        else:
            shrink = np.exp(top - shift)
            total = total * shrink + block_total
            output *= shrink
            output += block_output
        top = new_top
    if total is None:
        return 0, 0, 1
    empty = total == 0
    total = np.where(empty, 1, total)
    return output / total, np.where(empty, 0, top), total


def _scores(q, k, parts, head, rows, columns):
    """scale · Q Kᵀ + bias for one block, −∞ where the mask hides."""
    bias, mask = parts
    scores = q @ k.T
    if bias is not None:
        scores = scores + bias[head][rows, columns]
    if mask is not None:
        np.copyto(scores, -np.inf, where=~mask[head][rows, columns])
    return scores


def _add_block(bias_bar, block, head, rows, columns):
    """Add a block of S̄ to the gradient of a bias that may be shared over heads, queries or keys."""
    lead = bias_bar.ndim - 2
    own = tuple(0 if n == 1 else i for n, i in zip(bias_bar.shape[:-2], head[len(head) - lead :], strict=True))
    at = bias_bar[own]
    if at.shape[0] == 1:
        rows, block = slice(0, 1), block.sum(0, keepdims=True)
    if at.shape[1] == 1:
        columns, block = slice(0, 1), block.sum(1, keepdims=True)
    at[rows, columns] += block


def _visible(length, parts, head, rows):
    """The blocks of keys of which the mask shows at least one to at least one of these queries."""
    _, mask = parts
    blocks = _cut(length, KEYS)
    return blocks if mask is None else [columns for columns in blocks if mask[head][rows, columns].any()]


def _heads(x, leading):
    return np.broadcast_to(x, (*leading, *x.shape[-2:]))


def _cut(length, step):
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]
