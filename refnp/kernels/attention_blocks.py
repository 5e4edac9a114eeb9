"""Attention in blocks of queries and keys, for long sequences: the online softmax, and its gradient.

Source: Milakov & Gimelshein (2018), arXiv 1805.02867 (online softmax); Rabe & Staats (2021), arXiv 2112.05682; Dao et
al. (2022), arXiv 2205.14135 (backward).
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.kernels.blocks import run_all, slices
from refnp.kernels.hidden import moderate
from refnp.kernels.softmax import reach_of
from refnp.numbers.arrays import Array
from refnp.numbers.summation import sum_of_products

QUERY_BLOCK = 512  # rows of a block of scores
KEY_BLOCK = 256  # columns: 512 × 256 float32 scores are half a megabyte
MOST_LARGER = 1024  # times Σ exp(s) may be what Σ exp(s − m) can be; of normal scores of variance σ² it is exp(σ²/2)


def attention_in_blocks(q, key, value, bias, mask, scale, softcap=None, factors=None):
    """(output, vjp) of `attention` without the N × M matrix, in memory O(N + M) forward and backward; q = scale · Q.

    For one query, with scores s_j so far, keep their maximum m, the sum ℓ = Σ exp(s_j − m) and o = Σ exp(s_j − m) v_j.
    A new block of keys with maximum m' changes the maximum to m* = max(m, m'), and

        ℓ ← ℓ exp(m − m*) + Σ_new exp(s_j − m*)        o ← o exp(m − m*) + Σ_new exp(s_j − m*) v_j

    At the end O = o / ℓ. The VJP computes each block of weights again from m and ℓ, A_nj = exp(s_nj − m_n) / ℓ_n, where
    the row Ō_n is divided by ℓ_n instead. Blocks that the mask hides altogether are left out. Sums over blocks are
    taken in their order: the bits do not depend on the number of threads.

    Where the norms of queries and keys bound the scores of a block so that no exponential is near overflow, m is 0 in
    place of the maximum; unless a weight may be more than ½, for the VJP has to know where such a weight stands, or
    sums would overflow or underflow that do not with the maximum.
    """
    n, m = q.shape[-2], key.shape[-2]
    batch = np.broadcast_shapes(q.shape[:-2], key.shape[:-2], value.shape[:-2])
    q, k, v = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (q, key, value))
    score_dtype = np.result_type(q, k, *(() if bias is None else (bias,)))
    output = np.zeros((*batch, n, v.shape[-1]), np.result_type(score_dtype, v))
    top, total = np.zeros((2, *batch, n, 1), score_dtype)  # m and ℓ
    heads = list(np.ndindex(batch))
    blocks = [(head, rows) for head in heads for rows in slices(n, QUERY_BLOCK)]
    shifted = np.ones(len(blocks), bool)  # by their maximum
    may_be_small = m > 0 and bias is None and mask is None and softcap is None
    longest = norms(k).max(-1, keepdims=True) if may_be_small else None  # (..., 1)

    def arrays_of(head, rows):
        pairs = (None if x is None else np.broadcast_to(x, (*batch, n, m))[head][rows] for x in (bias, mask))
        return q[head][rows], k[head], v[head], *pairs

    def forward(i):
        head, rows = blocks[i]
        kept = None if factors is None else factors(i // max(len(blocks) // len(heads), 1), rows)
        queries, keys, values, biases, allowed = arrays_of(head, rows)
        found = None
        if longest is not None and _are_small(norms(queries), longest[head], reach_of(q.dtype, m)):
            found = _softmax_of_small(queries, keys, values, kept)
        shifted[i] = found is None
        found = found or _online_softmax(queries, keys, values, biases, allowed, softcap, kept)
        output[head][rows], top[head][rows], total[head][rows] = found

    run_all(forward, len(blocks))

    def vjp(o_bar):
        q_bar, k_bar, v_bar = (np.zeros(x.shape, np.result_type(output, o_bar)) for x in (q, k, v))
        bias_bar = None if bias is None else np.zeros((1,) * (2 - bias.ndim) + bias.shape, q_bar.dtype)
        o_bar = o_bar / total  # (..., N, d_v)
        huge = mask is not None and not moderate(o_bar, value)  # as in `zero_where_hidden`
        sums_of_rows = row_sums(o_bar, output)  # (..., N, 1)

        def backward(i):
            head = heads[i]
            for j in range(i * len(blocks) // len(heads), (i + 1) * len(blocks) // len(heads)):
                rows = blocks[j][1]
                queries, keys, values, biases, allowed = arrays_of(head, rows)
                kept = None if factors is None else factors(i, rows)
                # where exp(s_L − m) is 1, all others below 0.9
                sure = np.flatnonzero(total[head][rows] < 1.9) if shifted[j] else np.zeros(0, int)
                largest = np.full(len(sure), -1)  # L
                others, slopes = np.zeros(len(sure), q_bar.dtype), np.ones(len(sure), q_bar.dtype)  # Σ_{m≠L} S̄_m
                for columns in _blocks_of_keys(m, allowed):
                    a, slope = _scores(queries, keys, biases, allowed, columns, softcap)
                    if shifted[j]:
                        a -= top[head][rows]
                    np.exp(a, out=a)  # ℓ A
                    s_bar = o_bar[head][rows] @ values[columns].T
                    used = a
                    if kept is not None:
                        used = a * kept[:, columns]
                        s_bar *= kept[:, columns]
                    if huge and allowed is not None:
                        np.copyto(s_bar, 0, where=~allowed[:, columns])
                    s_bar -= sums_of_rows[head][rows]
                    s_bar *= a
                    if len(sure):
                        _take_out(s_bar, a, slope, sure, largest, others, slopes, columns.start)
                    if bias_bar is not None:
                        _add_block(bias_bar, s_bar, head, rows, columns)
                    if slope is not None:
                        s_bar *= slope
                    v_bar[head][columns] += used.T @ o_bar[head][rows]
                    k_bar[head][columns] += s_bar.T @ queries
                    q_bar[head][rows] += s_bar @ keys[columns]
                there = largest >= 0
                if there.any():
                    sure, largest, s_bar = sure[there], largest[there], -others[there]  # S̄_L
                    if bias_bar is not None:
                        _add_places(bias_bar, s_bar, head, rows.start + sure, largest)
                    s_bar = (s_bar * slopes[there])[:, None]
                    q_bar[head][rows][sure] += s_bar * keys[largest]
                    np.add.at(k_bar[head], largest, s_bar * queries[sure])

        if bias_bar is None:
            run_all(backward, len(heads))
        else:  # heads may share a bias, so one after the other
            for i in range(len(heads)):
                backward(i)
        return q_bar * scale, k_bar, v_bar, bias_bar if bias_bar is None else bias_bar.reshape(bias.shape)

    return output, vjp


@np.errstate(invalid="ignore")
def _are_small(of_queries, of_keys, reach):
    """Whether no score is beyond `reach`, by |q·k| ≤ |q| |k|; not where that is ∞ times 0."""
    return np.all(of_queries * of_keys <= reach)


@np.errstate(over="ignore", invalid="ignore")
def _softmax_of_small(q, k, v, kept):
    """Output, m = 0 and ℓ for a block of queries whose scores are small.

    None if a weight may be more than ½, or if the sum over values, which are multiplied by exp(s) here and not by
    exp(s − m) ≤ 1, might overflow. ℓ must be that of exp(s − m), 1 to M, but for the factor MOST_LARGER: else products
    with values underflow, or those with gradients, which the VJP divides by ℓ.
    """
    largest: Any = 0
    total: Any = 0
    output: Any = 0
    for columns in slices(len(k), KEY_BLOCK):
        scores = q @ k[columns].T
        np.exp(scores, out=scores)
        largest = max(largest, scores.max())
        total = total + sum_of_products("nm->n", scores)[:, None]
        output = output + (scores if kept is None else scores * kept[:, columns]) @ v[columns]
    if not max(1, 2 * largest) <= total.min() <= total.max() <= MOST_LARGER * len(k) or not moderate(output):
        return None
    return output / total, 0, total


def norms(x):
    """|x_n| of each row, (..., N, d) → (..., N)."""
    return np.sqrt(sum_of_products("...d,...d->...", x, x))


def _online_softmax(q, k, v, bias, mask, softcap, kept):
    """Output, m and ℓ for a block of queries, from all keys block by block; 0, 0 and 1 where none is allowed."""
    top = np.full((len(q), 1), -np.inf, q.dtype)
    total, output = np.zeros((2, 1, 1), q.dtype)
    for columns in _blocks_of_keys(len(k), mask):
        scores, _ = _scores(q, k, bias, mask, columns, softcap)
        new_top = np.maximum(top, scores.max(-1, keepdims=True))
        shift = np.where(new_top == -np.inf, 0, new_top)
        scores -= shift
        np.exp(scores, out=scores)
        shrink = np.exp(top - shift)
        total = total * shrink + sum_of_products("nm->n", scores)[:, None]
        output = output * shrink + (scores if kept is None else scores * kept[:, columns]) @ v[columns]
        top = new_top
    empty = total == 0
    total = np.where(empty, 1, total)
    return output / total, np.where(empty, 0, top), total


def _scores(q, k, bias, mask, columns, softcap):
    """scale · Q Kᵀ + bias for one block, −∞ where the mask hides, and the slope of the softcap, if there is one."""
    scores = q @ k[columns].T
    if softcap is not None and mask is not None:
        np.copyto(scores, 0, where=~mask[:, columns])  # which may be NaN
    scores, slope = capped(scores, softcap)
    if bias is not None:
        scores = scores + bias[:, columns]
    if mask is not None:
        np.copyto(scores, -np.inf, where=~mask[:, columns])
    return scores, slope


def _take_out(s_bar, a, slope, sure, largest, others, slopes, start):
    """In a block of S̄, 0 for S̄_L in the rows `sure`; L, and the slope there, are noted, the rest adds to `others`.

    S̄_L = −Σ_{m≠L} S̄_m, as in `balance`: it is known when all blocks are.
    """
    found = a[sure] > 0.95
    rows, columns = found.any(-1), found.argmax(-1)
    largest[rows] = start + columns[rows]
    s_bar[sure[rows], columns[rows]] = 0
    if slope is not None:
        slopes[rows] = slope[sure[rows], columns[rows]]
    others += sum_of_products("nm->n", s_bar)[sure]


def _add_places(bias_bar, values, head, rows, columns):
    """Add single elements of S̄, as `_add_block` does a block."""
    at = _shared_by(bias_bar, head)
    np.add.at(at, (np.minimum(rows, at.shape[0] - 1), np.minimum(columns, at.shape[1] - 1)), values)


def _shared_by(bias_bar, head):
    """The part (N, M), (1, M), (N, 1) or (1, 1) of the gradient of a bias that belongs to a head."""
    lead = bias_bar.ndim - 2
    return bias_bar[
        tuple(0 if n == 1 else i for n, i in zip(bias_bar.shape[:-2], head[len(head) - lead :], strict=True))
    ]


def _add_block(bias_bar, block, head, rows, columns):
    """Add a block of S̄ to the gradient of a bias that may be shared over heads, queries or keys."""
    at = _shared_by(bias_bar, head)
    if at.shape[0] == 1:
        rows, block = slice(0, 1), block.sum(0, keepdims=True)
    if at.shape[1] == 1:
        columns, block = slice(0, 1), block.sum(1, keepdims=True)
    at[rows, columns] += block


def _blocks_of_keys(length, mask):
    """The blocks of keys of which the mask shows at least one to at least one of these queries."""
    return [columns for columns in slices(length, KEY_BLOCK) if mask is None or mask[:, columns].any()]


# ---- what both forms have


def capped(scores: Array, softcap: float | None) -> tuple[Array, Array | None]:
    """c tanh(s/c), or s without a softcap c; and its slope 4e/(1 + e)² with e = exp(−2|s|/c), which does not cancel."""
    if softcap is None:
        return scores, None
    c = scores.dtype.type(softcap)
    u = scores / c
    e = np.exp(np.where(u < 0, 2 * u, -2 * u))
    return c * np.tanh(u), 4 * e / ((1 + e) * (1 + e))


def row_sums(x: Array, y: Array) -> Array:
    """Σ_e x_ne y_ne, (..., N, 1)."""
    return sum_of_products("...e,...e->...", x, y)[..., None]


def dropout_factors(dropout: float, rng: np.random.Generator | None, shape: tuple[int, ...], dtype: Any) -> Any:
    """A function of a head (its number) and a slice of its queries: 0 with probability p, else 1/(1 − p), (n, M).

    It draws the same numbers whenever it is asked, so that none are kept. None where nothing is dropped.
    """
    if rng is None or not dropout:
        return None
    seed, kept = int(rng.integers(2**63)), dtype.type(1 / (1 - np.longdouble(dropout)))

    def factors(head, rows):
        draws = np.random.default_rng((seed, head, rows.start)).random((rows.stop - rows.start, shape[-1]), np.float32)
        return np.where(draws >= dropout, kept, dtype.type(0))

    return factors


def all_factors(factors: Callable, shape: tuple[int, ...]) -> Array:
    """The `factors` of all heads and queries, (..., N, M)."""
    heads = math.prod(shape[:-2])
    blocks = [factors(head, rows) for head in range(heads) for rows in slices(shape[-2], QUERY_BLOCK)]
    return np.concatenate(blocks).reshape(shape) if blocks else np.ones(shape, bool)
