"""Attention without the N × M matrix: blocks of queries and keys, and a softmax that learns of the keys as they come.

For one query, with scores s_j seen so far, keep their maximum m, the sum ℓ = Σ exp(s_j − m) and o = Σ exp(s_j − m) v_j.
A new block of keys with maximum m' changes the maximum to m* = max(m, m'), and

    ℓ ← ℓ exp(m − m*) + Σ_new exp(s_j − m*)        o ← o exp(m − m*) + Σ_new exp(s_j − m*) v_j

At the end O = o / ℓ, and m and ℓ are all that the way back needs: they make each block of weights again,
A_ij = exp(s_ij − m_i) / ℓ_i, where the division is done once and for all to the row Ō_i. Memory is O(N + M) forward
and backward. Blocks that a mask hides altogether are left out, which halves the work under a causal one.

Source: Milakov & Gimelshein, arXiv 1805.02867 (online softmax); Rabe & Staats, arXiv 2112.05682; Dao et al.,
arXiv 2205.14135 (backward).
"""

from __future__ import annotations

import numpy as np

from refnp.autograd.blocks import run_all
from refnp.autograd.primitive import primitive

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
