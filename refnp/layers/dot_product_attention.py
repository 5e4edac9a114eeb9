"""Attention: every query takes a mean of the values, weighted by how well their keys fit.

    A = softmax(Q Kᵀ / √d)        O = A V

Rows of Q, K and V are tokens, the softmax runs over keys; weights are ≥ 0 and each row of them sums to 1.
A query that may attend to nothing gets output 0 and gradient 0 (as PyTorch's SDPA since 2.5 and ONNX opset 24).

Source: Sivaraya (2023), eq. 3-5 (rows), Attention Notes 10-14 to 10-16 (columns; they drop the √d), Transformer Notes;
Vaswani et al. (2017). In blocks: Milakov & Gimelshein (2018), arXiv 1805.02867 (online softmax); Rabe & Staats (2021),
arXiv 2112.05682; Dao et al. (2022), arXiv 2205.14135 (backward).
Transcription: tests/transcriptions/rows.py.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import refnp.autograd as ad
from refnp.autograd.declaration import takes
from refnp.autograd.errors import explained
from refnp.autograd.primitives import primitive, raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.kernels.blocks import run_all, slices
from refnp.kernels.products import product, product_like
from refnp.kernels.softmax import balance, masked_softmax, reach_of, softmax_vjp, with_axes_of
from refnp.layers.masked_reductions import numbers
from refnp.layers.masks import apart_from_hidden, hides_harm, moderate, shielded_form
from refnp.numbers.arrays import floating, sum_to
from refnp.numbers.summation import sum_of_products

LONG = 1 << 16  # scores of one head; above this many the blocked form takes less time, and far less memory
QUERY_BLOCK = 512  # rows of a block of scores
KEY_BLOCK = 256  # columns: 512 × 256 float32 scores are half a megabyte
SHAPES = "query (..., N, d ≥ 1), key (..., M, d), value (..., M, d_v), bias floating to (..., N, M)?"
MASK = "boolean to (..., N, M)? hides (key, value, bias), True = may attend"
OPTIONS = {"mask": MASK, "scale": "finite?", "softcap": "positive?", "dropout": "in [0, 1)", "rng": "generator?"}
METHOD = {"method": "auto | full | blocks"}
MOST_LARGER = 1024  # times Σ exp(s) may be what Σ exp(s − m) can be; of normal scores of variance σ² it is exp(σ²/2)


@primitive
@takes(f"{SHAPES} → (..., N, d_v)", **OPTIONS, **METHOD)
def attention(
    query, key, value, bias=None, *, mask=None, scale=None, softcap=None, dropout=0.0, rng=None, method="auto"
):
    """O = A V with A = softmax(scale · Q Kᵀ + bias) where the mask allows: a mean of the values for each query.

    Shapes: query (..., N, d), key (..., M, d), value (..., M, d_v) → (..., N, d_v). The axes in front (batch, heads)
    broadcast; `mask` (True = may attend) and `bias` broadcast to (..., N, M). `scale` is a number, 1/√d if None.
    An additive mask, as PyTorch's attn_mask of floats, is the bias; −∞ in it hides.
    `softcap` c bounds the scaled scores before bias and mask, s ← c tanh(s/c), None leaves them; the order is ONNX's.
    `dropout` is the part of the weights that are set to 0 by draws of `rng`, the others divided by 1 − dropout; a
    generator means training, None evaluation. Draws are the same for every method.
    `method` is "full" (all scores at once), "blocks" (memory O(N + M), equal to rounding), or "auto": blocks for more
    than 2¹⁶ scores a head. No queries or no keys give 0.
    A hidden key, value or bias, and a query that may attend to nothing, reach neither output nor gradients, whatever
    their bits: NaN, infinity (in PyTorch they do), or so large that products overflow. A query that may attend to an
    infinite value has an infinite output; to a key with NaN or infinity, NaN. The gradients of such outputs are NaN,
    but 0 where their cotangents are. A score that may be seen must be a finite number of the precision: where q·k
    overflows, the row is NaN, and so are gradients that depend on it.
    Raises ValueError for shapes that do not fit, a softcap that is not positive and finite, a dropout outside [0, 1) or
    a method that does not exist, TypeError for a mask that is not boolean, a bias that is not floating or an rng that
    is no generator, naming the argument.

    VJP, from the last step to the first; the softmax's is row by row, and since Σ_m Ā_nm A_nm = Σ_e Ō_ne O_ne, its row
    sums need no N × M product:

        V̄ = Aᵀ Ō        Ā = Ō Vᵀ        S̄ = A ∘ (Ā − Σ_e Ō_ne O_ne)        Q̄ = scale · S̄ K        K̄ = scale · S̄ᵀ Q

    Where one weight A_nL is more than ½, S̄_nL = −Σ_{m≠L} S̄_nm instead: the same number, with its digits (`balance`).
    Under a softcap, Q̄ and K̄ take S̄ ∘ (1 − tanh²(s/c)); with dropout, the factors D of the weights (0 or 1/(1 − p))
    stand beside A in V̄ = (A ∘ D)ᵀ Ō and beside Ā = (Ō Vᵀ) ∘ D.   Source of the softcap: Riviere et al. (2024).
    """
    query, key, value = map(floating, (query, key, value))
    shape = shape_of_scores(query, key, value)
    scale = scale_of(scale, query)
    q = query * scale  # (..., N, d)
    huge = mask is not None and not moderate(q, key, value, bias)
    if huge and hides_harm(query, key, value, bias, mask):
        options = {"scale": scale, "softcap": softcap, "dropout": dropout, "rng": rng, "method": method}
        return shielded_form(attention, query, key, value, bias, mask, options)
    factors = dropout_factors(dropout, rng, shape, q.real.dtype)
    if method == "blocks" or (method == "auto" and shape[-2] * shape[-1] > LONG):
        return attention_in_blocks(q, key, value, bias, mask, scale, softcap, factors)

    scores, slope = capped(zero_where_hidden(product(q, key.swapaxes(-1, -2)), mask, huge), softcap)  # (..., N, M)
    if bias is not None:
        scores = scores + bias
    a = masked_softmax(scores, mask)  # (..., N, M)
    kept = None if factors is None else all_factors(factors, shape)  # (..., N, M)
    used = a if kept is None else a * kept  # (..., N, M)
    output = product_like(q, used, value)  # (..., N, d_v)

    def vjp(o_bar):
        a_bar = product(o_bar, value.swapaxes(-1, -2))  # (..., N, M)
        a_bar = sum_to(a_bar if kept is None else a_bar * kept, a.shape)
        s_bar = zero_where_hidden(a_bar, mask, huge, o_bar)
        row_sums = sum_of_products("...e,...e->...", o_bar, output)[..., None]  # (..., N, 1)
        s_bar -= sum_to(row_sums, (*a.shape[:-1], 1))
        s_bar *= a
        balance(s_bar, a)
        qk_bar = s_bar if slope is None else s_bar * slope
        return (
            lambda: product_like(q, qk_bar, key) * scale,  # called if the gradient is needed
            lambda: product_like(key, qk_bar.swapaxes(-1, -2), q),
            lambda: product_like(value, used.swapaxes(-1, -2), o_bar),
            lambda: s_bar if mask is None else s_bar + 0,  # a hidden −0 becomes 0
        )

    return output, vjp


def one_over_root(query: Array) -> np.floating:
    """1/√d, d the number of features of a query, in the precision of the query."""
    return 1 / np.sqrt(np.asarray(query.shape[-1], query.real.dtype))


def scale_of(scale: float | None, query: Array) -> np.number:
    """The scale in the precision of the query, 1/√d for None."""
    return one_over_root(query) if scale is None else query.real.dtype.type(scale)


def shape_of_scores(query: Any, key: Any, value: Any) -> tuple[int, ...]:
    """(..., N, M), the axes in front those of all three, broadcast."""
    batch = np.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    return (*batch, query.shape[-2], key.shape[-2])


def zero_where_hidden(pairs: Array, mask: Array | None, huge: bool, *factors: Array) -> Array:
    """Products for pairs (..., N, M), with 0 for those that the mask hides if factors are so huge that they may be ∞.

    Elsewhere what is hidden does no harm: a weight of 0 times a finite number is 0. In place unless the mask has more
    axes.
    """
    if mask is not None and (huge or not moderate(*factors)):
        pairs = with_axes_of(mask, pairs)
        np.copyto(pairs, 0, where=~mask)
    return pairs


def soft_capped(scores: Array | Tensor, softcap: float | None) -> Array | Tensor:
    """c tanh(s/c), or s without a softcap c."""
    if softcap is None:
        return scores
    c = raw(scores).real.dtype.type(softcap)
    return c * ad.tanh(scores / c)


def capped(scores: Array, softcap: float | None) -> tuple[Array, Array | None]:
    """`soft_capped`, and its slope 1 − tanh²(s/c) as 4e/(1 + e)² with e = exp(−2|s|/c), which does not cancel."""
    if softcap is None:
        return scores, None
    c = scores.real.dtype.type(softcap)
    u = scores / c
    e = np.exp(np.where(u.real < 0, 2 * u, -2 * u))
    return c * np.tanh(u), 4 * e / ((1 + e) * (1 + e))


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


# ---- its weights, and tokens as columns


@primitive
@takes(f"{SHAPES} → (..., N, d_v), (..., N, M)", **OPTIONS)
def attention_with_weights(query, key, value, bias=None, *, mask=None, scale=None, softcap=None, dropout=0.0, rng=None):
    """(O, A): the output of `attention` and the weights, all scores in memory at once.

    Shapes: query (..., N, d), key (..., M, d), value (..., M, d_v), bias and mask (..., N, M) → (..., N, d_v) and
    (..., N, M), the latter without axes in front that only the value has, except under dropout. `scale` is a number,
    1/√d if None; `softcap`, `dropout` and `rng` as in `attention`: the weights are those that the values get, after
    dropout.   What a mask hides reaches neither results nor gradients.
    Raises ValueError for shapes that do not fit, a softcap that is not positive and finite or a dropout outside [0, 1),
    TypeError for a mask that is not boolean, a bias that is not floating or an rng that is no generator.
    VJP: with a gradient B̄ of the weights, S̄ = A ∘ (Ā + B̄ − Σ_m (Ā + B̄)_nm A_nm); all else as in `attention`.
    """
    query, key, value = map(floating, (query, key, value))
    shape = shape_of_scores(query, key, value)
    scale = scale_of(scale, query)
    q = query * scale  # (..., N, d)
    huge = mask is not None and not moderate(q, key, value, bias)
    if huge and hides_harm(query, key, value, bias, mask):
        options = {"scale": scale, "softcap": softcap, "dropout": dropout, "rng": rng}
        return shielded_form(attention_with_weights, query, key, value, bias, mask, options)

    scores, slope = capped(zero_where_hidden(product(q, key.swapaxes(-1, -2)), mask, huge), softcap)  # (..., N, M)
    if bias is not None:
        scores = scores + bias
    a = masked_softmax(scores, mask)  # (..., N, M)
    factors = dropout_factors(dropout, rng, shape, q.real.dtype)
    kept = None if factors is None else all_factors(factors, shape)
    used = a if kept is None else a * kept  # (..., N, M)

    def vjp(o_bar, weights_bar):
        a_bar = sum_to(product(o_bar, value.swapaxes(-1, -2)), used.shape)  # (..., N, M)
        a_bar = zero_where_hidden(a_bar, mask, huge, o_bar) + weights_bar
        s_bar = softmax_vjp(a_bar if kept is None else sum_to(a_bar * kept, a.shape), a)  # (..., N, M)
        qk_bar = s_bar if slope is None else s_bar * slope
        return (
            lambda: (qk_bar @ key) * scale,
            lambda: qk_bar.swapaxes(-1, -2) @ q,
            lambda: used.swapaxes(-1, -2) @ o_bar,
            lambda: s_bar if mask is None else s_bar + 0,  # a hidden −0 becomes 0
        )

    return (used @ value, used), vjp


@explained
@takes(
    "query (..., N, d ≥ 1), key (..., M, d), bias floating to (..., N, M)? → (..., N, M)",
    mask=MASK.replace("value, ", ""),
    scale="finite?",
    softcap="positive?",
)
def attention_scores(
    query: ArrayLike,
    key: ArrayLike,
    bias: ArrayLike | None = None,
    *,
    mask: ArrayLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Array | Tensor:
    """S = scale · Q Kᵀ + bias, the scores as they enter the softmax, −∞ where the mask hides: softmax(S) is A.

    Shapes: query (..., N, d), key (..., M, d), bias and mask (..., N, M) → (..., N, M). `scale` and `softcap` as in
    `attention`. What a mask hides reaches no gradient; the row of a query that may attend to NaN or ∞ is NaN.
    Raises ValueError for shapes that do not fit or a softcap that is not positive and finite, TypeError for a mask that
    is not boolean or a bias that is not floating.
    VJP: Q̄ = scale · S̄ K, K̄ = scale · S̄ᵀ Q, S̄ for the bias, S̄ 0 where hidden.
    """
    q, k = numbers(query, key)
    nothing = np.zeros((*k.shape[-2:-1], 1), raw(k).dtype)
    factor = scale_of(scale, raw(q))

    def scores_of(query, key, _, bias, mask):
        scores = soft_capped(ad.matmul(query * factor, ad.swapaxes(key, -1, -2)), softcap)  # (..., N, M)
        scores = scores if bias is None else scores + bias
        return scores if mask is None else ad.where(mask, scores, -np.inf)

    pairs: Any = bias, mask
    return apart_from_hidden(scores_of, q, k, nothing, *pairs)


@explained
@takes("query (..., d ≥ 1, N), key (..., d, M), value (..., d_v, M) → (..., d_v, N)", scaled="True or False")
def column_attention(query: ArrayLike, key: ArrayLike, value: ArrayLike, *, scaled: bool = True) -> Array | Tensor:
    """Attention with tokens as columns: V · softmax(KᵀQ / √d), the softmax running down the columns.

    Shapes: query (..., d, N), key (..., d, M), value (..., d_v, M) → (..., d_v, N): the transpose of `attention`.
    `scaled=False` leaves out the √d, as the Attention Notes 10-15 and 10-16 print it (its line above has it).
    Raises ValueError for shapes that do not fit.
    """
    q, k, v = (ad.swapaxes(a, -1, -2) for a in (query, key, value))
    return ad.swapaxes(attention(q, k, v, scale=None if scaled else 1), -1, -2)


# ---- in blocks of queries and keys, for long sequences


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
        row_sums = sum_of_products("...e,...e->...", o_bar, output)[..., None]  # (..., N, 1)

        def backward(i):
            head = heads[i]
            for j in range(i * len(blocks) // len(heads), (i + 1) * len(blocks) // len(heads)):
                rows = blocks[j][1]
                queries, keys, values, biases, allowed = arrays_of(head, rows)
                kept = None if factors is None else factors(i, rows)
                # where exp(s_L − m) is 1, all others below 0.9
                sure = np.flatnonzero(total[head][rows].real < 1.9) if shifted[j] else np.zeros(0, int)
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
                    s_bar -= row_sums[head][rows]
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
        largest = max(largest, scores.real.max())
        total = total + sum_of_products("nm->n", scores)[:, None]
        output = output + (scores if kept is None else scores * kept[:, columns]) @ v[columns]
    if not max(1, 2 * largest) <= total.real.min() <= total.real.max() <= MOST_LARGER * len(k) or not moderate(output):
        return None
    return output / total, 0, total


def norms(x):
    """|x_n| of each row, (..., N, d) → (..., N)."""
    return np.sqrt(sum_of_products("...d,...d->...", x.real, x.real))


def _online_softmax(q, k, v, bias, mask, softcap, kept):
    """Output, m and ℓ for a block of queries, from all keys block by block; 0, 0 and 1 where none is allowed."""
    top = np.full((len(q), 1), -np.inf, q.real.dtype)
    total, output = np.zeros((2, 1, 1), q.dtype)
    for columns in _blocks_of_keys(len(k), mask):
        scores, _ = _scores(q, k, bias, mask, columns, softcap)
        new_top = np.maximum(top, scores.real.max(-1, keepdims=True))
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
    found = a[sure].real > 0.95
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
