"""Attention: every query takes a mean of the values, weighted by how well their keys fit.

    S = Q Kᵀ / √d        A = softmax(S)        O = A V

Rows of Q, K and V are tokens, the softmax runs over keys; weights are ≥ 0, and each row of them sums to 1.
A query that may attend to nothing gets output 0 and gradient 0 (as PyTorch's SDPA since 2.5 and ONNX opset 24).

Source: Sivaraya (2023), eq. 3-5 (rows), Attention Notes 10-14 to 10-16 (columns; they drop the √d), Transformer Notes;
Vaswani et al. (2017).
Words: layers/__init__.py.   Transcription: tests/transcriptions/rows.py.   Kernel: refnp/kernels/attention.py.
"""

from typing import Any

import numpy as np

import refnp.autograd as ad
from refnp.autograd.declaration import takes
from refnp.autograd.pages import page
from refnp.autograd.primitives import of_several
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.kernels import attention as kernels
from refnp.kernels.hidden import set_apart, set_apart_without_value
from refnp.layers.softmax import softmax, softmax_vjp
from refnp.numbers.arrays import sum_to
from refnp.numbers.parts import part
from refnp.numbers.words import constant, root

SHAPES = "query (..., N, d ≥ 1), key (..., M, d), value (..., M, d_v), bias floating to (..., N, M)?"
MASK = "boolean to (..., N, M)? hides (key, value, bias), True = may attend"
OPTIONS: dict[str, Any] = {
    "mask": MASK,
    "scale": "finite?",
    "softcap": "positive?",
    "dropout": "in [0, 1)",
    "rng": "generator?",
}
METHOD: dict[str, Any] = {"method": "auto | full | blocks"}


@page(f"{SHAPES} → (..., N, d_v)", kernel=kernels.attention, around=set_apart, **OPTIONS, **METHOD)
def attention(
    query, key, value, bias=None, *, mask=None, scale=None, softcap=None, dropout=0.0, rng=None, method="auto"
):
    """O = A V with A = softmax(scale · Q Kᵀ + bias) where the mask allows: a mean of the values for each query.

    Shapes: query (..., N, d), key (..., M, d), value (..., M, d_v) → (..., N, d_v). The axes in front (batch, heads)
    broadcast; `mask` (True = may attend) and `bias` broadcast to (..., N, M). `scale` is a number, 1/√d if None.
    An additive mask, as PyTorch's attn_mask of floats, is the bias; −∞ in it is a weight of 0, and hides no NaN.
    `softcap` c bounds the scaled scores before bias and mask, s ← c tanh(s/c), None leaves them; the order is ONNX's.
    `dropout` is the part of the weights that are set to 0 by draws of `rng`, the others divided by 1 − dropout; a
    generator means training, None evaluation. Draws are the same for every method.
    `method` is how arrays of floats are computed: "full" (all scores at once), "blocks" (memory O(N + M), equal to
    rounding), or "auto": blocks for more than 2¹⁶ scores a head. Without keys the output is 0.
    What the mask hides, a key, a value or a bias, and a query that may attend to nothing, reach neither output nor
    gradients, whatever their bits: NaN, infinity (in PyTorch they do), or so large that products overflow. With a mask,
    a query that may attend to an infinite value has an output of ±∞ or NaN, to a key with NaN or infinity NaN; without
    one, what the arithmetic gives. Gradients of outputs that are not finite are NaN, but 0 where their cotangents are,
    and without a mask V̄ = Aᵀ Ō, in which no value stands. Scores that may be seen must be finite in the precision:
    where q·k overflows to +∞, the row is NaN (a softcap hides that), to −∞ its weight is 0; no gradient is promised.
    Raises ValueError for shapes that do not fit, a scale that is not finite, a softcap that is not positive and finite,
    a dropout outside [0, 1) or a method that does not exist, TypeError for a mask that is not boolean, a bias that is
    not floating or an rng that is no generator, naming the argument.

    VJP, from the last step to the first; the softmax's is row by row:

        V̄ = Aᵀ Ō        Ā = Ō Vᵀ        S̄ = A ∘ (Ā − Σ_m Ā_nm A_nm)        Q̄ = scale · S̄ K        K̄ = scale · S̄ᵀ Q

    and S̄ is the bias's. With a softcap, Q̄ and K̄ take S̄ ∘ (1 − tanh²(s/c)), as in `attention_scores`. With dropout, its
    factors D (0 or 1/(1 − p)) stand beside A in V̄ and beside Ā.
    """
    drop = dropout_map(dropout, rng, query, key, value)  # A ↦ A ∘ D, or A itself
    value = as_read(value, mask)  # (..., M, d_v)   0 where hidden from all
    scores, scores_vjp = attention_scores.page(query, key, bias, mask=mask, scale=scale, softcap=softcap)
    weights, _ = softmax.page(scores)  # (..., N, M)   A
    output = drop(weights) @ value  # (..., N, d_v)

    def vjp(output_bar):
        weights_bar = sum_to(drop(output_bar @ value.mT), weights.shape)  # (..., N, M)   Σ over axes of V alone
        scores_bar = weights_vjp(weights, weights_bar, output, output_bar)  # (..., N, M)   A ∘ (Ā − Σ_m Ā_nm A_nm)
        query_bar, key_bar, bias_bar = scores_vjp(scores_bar)
        value_bar = drop(weights).mT @ output_bar  # (..., M, d_v)
        return query_bar, key_bar, value_bar, bias_bar

    return output, vjp


@page(
    "query (..., N, d ≥ 1), key (..., M, d), bias floating to (..., N, M)? → (..., N, M)",
    around=set_apart_without_value,
    mask=MASK.replace("value, ", ""),
    scale="finite?",
    softcap="positive?",
)
def attention_scores(query, key, bias=None, *, mask=None, scale=None, softcap=None):
    """S = scale · Q Kᵀ + bias, the scores as they enter the softmax, −∞ where the mask hides: softmax(S) is A.

    Shapes: query (..., N, d), key (..., M, d), bias and mask (..., N, M) → (..., N, M). `scale` and `softcap` as in
    `attention`. What a mask hides reaches no gradient; with one, the row of a query that may attend to NaN or ∞ is NaN.
    Raises ValueError for shapes that do not fit, a scale that is not finite or a softcap that is not positive and
    finite, TypeError for a mask that is not boolean or a bias that is not floating.
    VJP: Q̄ = scale · S̄ K, K̄ = scale · S̄ᵀ Q, S̄ for the bias, S̄ 0 where hidden; with a softcap c, Q̄ and K̄ take
    S̄ ∘ (1 − tanh²(s/c)).   Source of the softcap: Riviere et al. (2024).
    """
    scale = 1 / root(query.shape[-1]) if scale is None else constant(scale)
    key = as_read(key, mask)  # (..., M, d)   0 where hidden from all
    capped, slope = soft_capped(scale * (query @ key.mT), softcap)  # s and 1, or c tanh(s/c) and its slope
    scores, masked_vjp = masked(capped, bias, mask)  # (..., N, M)   plus the bias, −∞ where hidden

    def vjp(scores_bar):
        capped_bar, bias_bar = masked_vjp(scores_bar)  # (..., N, M)   S̄; 0 where hidden
        scaled_bar = slope * capped_bar  # (..., N, M)
        products_bar = scale * scaled_bar  # (..., N, M)   of Q Kᵀ
        query_bar, key_bar = products_bar @ key, products_bar.mT @ query  # (..., N, d), (..., M, d)
        return query_bar, key_bar, bias_bar

    return scores, vjp


@of_several
@page(f"{SHAPES} → (..., N, d_v), (..., N, M)", kernel=kernels.attention_with_weights, around=set_apart, **OPTIONS)
def attention_with_weights(query, key, value, bias=None, *, mask=None, scale=None, softcap=None, dropout=0.0, rng=None):
    """(O, A): the output of `attention` and the weights, all scores in memory at once.

    Shapes: query (..., N, d), key (..., M, d), value (..., M, d_v), bias and mask (..., N, M) → (..., N, d_v) and
    (..., N, M), the latter without axes in front that only the value has, except under dropout.
    Options and errors are those of `attention`; the weights are those that the values get, after dropout.
    What a mask hides reaches neither results nor gradients.
    VJP: with a gradient B̄ of the weights, S̄ = A ∘ (Ā + B̄ − Σ_m (Ā + B̄)_nm A_nm), under dropout with D
    beside B̄ too; all else as in `attention`.
    """
    drop = dropout_map(dropout, rng, query, key, value)  # A ↦ A ∘ D, or A itself
    value = as_read(value, mask)  # (..., M, d_v)   0 where hidden from all
    scores, scores_vjp = attention_scores.page(query, key, bias, mask=mask, scale=scale, softcap=softcap)
    weights, all_vjp = softmax.page(scores)  # (..., N, M)   A
    used = drop(weights)  # (..., N, M)
    output = used @ value  # (..., N, d_v)

    def vjp(output_bar, used_bar):
        through_output = sum_to(output_bar @ value.mT, used.shape)  # (..., N, M)   Σ over axes of V alone
        weights_bar = sum_to(drop(through_output + used_bar), weights.shape)  # (..., N, M)
        (scores_bar,) = all_vjp(weights_bar)  # (..., N, M)
        query_bar, key_bar, bias_bar = scores_vjp(scores_bar)
        value_bar = used.mT @ output_bar  # (..., M, d_v)
        return query_bar, key_bar, value_bar, bias_bar

    return (output, used), vjp


# ---- helpers of these pages, which other frameworks have otherwise


@part
def as_read(x, mask):
    """Keys or values x (..., M, d), 0 where no query may attend to them, whatever stands there."""
    if mask is None:
        return x
    read = np.expand_dims(np.atleast_2d(mask).any(-2), -1)  # (..., M, 1)
    return np.where(read, x, 0)


@part
def masked(capped, bias, mask):
    """S plus the bias, −∞ where the mask hides; and the function from its gradient to those of S and bias, 0 there."""
    shown = True if mask is None else mask
    scores = np.where(shown, capped if bias is None else capped + bias, -np.inf)  # (..., N, M)

    def vjp(scores_bar):
        shown_bar = np.where(shown, scores_bar, 0)  # (..., N, M)
        return shown_bar, shown_bar

    return scores, vjp


@part
def soft_capped(scores, softcap):
    """c tanh(s/c) under a softcap c, and its slope 1 − tanh²(s/c) as 4e/(1 + e)², e = exp(−2|s|/c), uncancelled."""
    if softcap is None:
        return scores, 1
    u = scores / constant(softcap)
    e = np.exp(2 * np.where(u.real < 0, u, -u))
    return constant(softcap) * np.tanh(u), 4 * e / ((1 + e) * (1 + e))


@part
def weights_vjp(weights, weights_bar, output, output_bar):
    """S̄ = A ∘ (Ā − Σ_m Ā_nm A_nm), as on the page of softmax.

    Kernels take Σ_e Ō_ne O_ne for Σ_m Ā_nm A_nm, which is the same and needs no N × M product.
    """
    return softmax_vjp(weights, weights_bar)


@part
def dropout_map(dropout, rng, query, key, value):
    """A ↦ A ∘ D, a linear map: D is 0 with probability p, else 1/(1 − p); A itself without a generator."""
    if rng is None or not dropout:
        return lambda weights: weights
    shape = kernels.shape_of_scores(query, key, value)
    kept = kernels.all_factors(kernels.dropout_factors(dropout, rng, shape, np.dtype(float)), shape) > 0  # D > 0

    def drop(weights):
        return np.where(kept, weights / (1 - constant(dropout)), 0)

    return drop


# ---- tokens as columns


@takes("query (..., d ≥ 1, N), key (..., d, M), value (..., d_v, M) → (..., d_v, N)", scaled="True or False")
def column_attention(query: ArrayLike, key: ArrayLike, value: ArrayLike, *, scaled: bool = True) -> Array | Tensor:
    """Attention with tokens as columns: V · softmax(KᵀQ / √d), the softmax running down the columns.

    Shapes: query (..., d, N), key (..., d, M), value (..., d_v, M) → (..., d_v, N): the transpose of `attention`.
    `scaled=False` leaves out the √d, as the Attention Notes 10-15 and 10-16 print it (its line above has it).
    Raises ValueError for shapes that do not fit.
    """
    q, k, v = (ad.swapaxes(a, -1, -2) for a in (query, key, value))
    return ad.swapaxes(attention(q, k, v, scale=None if scaled else 1), -1, -2)
