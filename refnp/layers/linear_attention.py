"""Linear attention: attention whose weights are products of features, so that time grows with N + M and not with N M.

    O_n = Σ_m φ(q_n)·φ(k_m) v_m / Σ_m φ(q_n)·φ(k_m)        φ(x) = x + 1 for x > 0, else eˣ

Softmax attention is the same with exp(q·k/√d) in place of φ(q)·φ(k). Since a product of features is a sum over d of
them, the sums over m can be taken first, once for all queries:

    S = Σ_m φ(k_m) v_mᵀ   (d, d_v)        z = Σ_m φ(k_m)   (d,)        O_n = φ(q_n)ᵀ S / φ(q_n)·z

What the softmax adds is what this gives up. The weights A_nm = φ(q_n)·φ(k_m)/φ(q_n)·z have rank d at most, so with more
than d tokens no linear attention can give each token another one's value, as a copy needs, while exp(q·k) has a feature
for every power of q·k and can. And φ(q)·φ(k) grows with q in proportion, not exponentially: longer queries do not
make weights as sharp as one likes.

Source: Katharopoulos et al. (2020).
Words: layers/__init__.py.   Transcription: tests/transcriptions/rows.py.
"""

import numpy as np

from refnp.autograd.pages import page
from refnp.kernels import attention as kernels
from refnp.kernels.hidden import idle_set_apart
from refnp.numbers.parts import part


@page("x (...) → (...)")
def positive_features(x):
    """φ(x) = x + 1 for x > 0, else eˣ: elu(x) + 1, which as a sum would lose the digits of small features.

    Shapes: any → the same.   VJP: x̄ = ȳ where x > 0, else ȳ eˣ; there is no kink.
    Source: Katharopoulos et al. (2020), eq. 7.
    """
    e = np.exp(np.where(x.real > 0, 0, x))
    y = np.where(x > 0, x + 1, e)

    def vjp(y_bar):
        x_bar = y_bar * e
        return (x_bar,)

    return y, vjp


@part
def vanishes(below):
    """Where a query has nothing to read, and φ(q)·z is 0."""
    return below.real == 0


@page(
    "query (..., N, d), key (..., M, d), value (..., M, d_v) → (..., N, d_v)",
    key_mask="boolean to (..., M)? hides (key, value), True = may be attended to",
    causal="True or False",
    needs="N = M if causal, pass as many keys as queries, or causal=False",
    kernel={vanishes: kernels.vanishes},
    around=idle_set_apart,
)
def linear_attention(query, key, value, *, key_mask=None, causal=False):
    """O_n = φ(q_n)ᵀ S / φ(q_n)·z with S = Σ_m φ(k_m) v_mᵀ and z = Σ_m φ(k_m), φ the `positive_features`.

    Shapes: query (..., N, d), key (..., M, d), value (..., M, d_v) → (..., N, d_v). The axes in front broadcast.
    `key_mask` (..., M), True = may be attended to; what it hides is not read. With `causal`, query n sees keys m ≤ n:
    S and z are running sums, M d (d_v + 1) numbers. A mask for pairs would need all N M weights: that is `attention`.
    A query that may attend to nothing gets 0, as without keys. So does, on arrays of floats, one for which φ(q)·z is
    below the smallest normal number over ε, 1e-31 in float32, 1e-292 in float64: what is divided by it might overflow
    in gradients. There is no 1/√d: it would cancel.
    Raises ValueError for shapes that do not fit, TypeError for a mask or `causal` that is not boolean.
    VJP, O' the numerator and r = φ(q)·z, without what is hidden and what gets 0; if causal, for n ≥ m, S and z up to n:

        Ō' = Ō/r     r̄ = −Ō·O/r     φ̄(q) = S Ō' + r̄ z     S̄ = Σ_n φ(q_n) Ō'_nᵀ     z̄ = Σ_n r̄_n φ(q_n)
        φ̄(k_m) = S̄ v_m + z̄     v̄_m = S̄ᵀ φ(k_m)     q̄ = φ̄(q) φ′(q)     k̄ = φ̄(k) φ′(k)
    """
    seen = True if key_mask is None else np.expand_dims(key_mask, -1)
    key, value = np.where(seen, key, 0), np.where(seen, value, 0)
    (q, q_vjp), (k, k_vjp) = positive_features.page(query), positive_features.page(key)
    k = np.where(seen, k, 0)  # (..., M, d)
    once = np.ones_like(value.sum(-1, keepdims=True))  # (..., M, 1)   behind each value, so that S ends with z
    read, read_vjp = (read_up_to if causal else read_all)(q, k, np.concatenate([value, once], -1))
    above, below = read[..., :-1], read[..., -1:]
    nothing = vanishes(below)  # (..., N, 1)
    r = np.where(nothing, 1, below)  # (..., N, 1)
    output = np.where(nothing, 0, above) / r  # (..., N, d_v)

    def vjp(output_bar):
        above_bar = np.where(nothing, 0, output_bar) / r  # (..., N, d_v)
        below_bar = -(above_bar * output).sum(-1, keepdims=True)  # (..., N, 1)
        q_bar, k_bar, values_bar = read_vjp(np.concatenate([above_bar, below_bar], -1))
        (query_bar,), (key_bar,) = q_vjp(q_bar), k_vjp(np.where(seen, k_bar, 0))
        value_bar = np.where(seen, values_bar[..., :-1], 0)  # (..., M, d_v)
        return query_bar, key_bar, value_bar

    return output, vjp


@part
def read_all(q, k, values):
    """φ(q)ᵀ [S, z], the sums over all keys of φ(k_m) [v_m, 1]ᵀ; and the function to the gradients of all three."""
    sums = k.mT @ values  # (..., d, d_v + 1)   [S, z]
    read = q @ sums  # (..., N, d_v + 1)

    def vjp(read_bar):
        sums_bar = q.mT @ read_bar  # (..., d, d_v + 1)
        q_bar, k_bar = read_bar @ sums.mT, values @ sums_bar.mT  # (..., N, d), (..., M, d)
        values_bar = k @ sums_bar  # (..., M, d_v + 1)
        return q_bar, k_bar, values_bar

    return read, vjp


@part
def read_up_to(q, k, values):
    """The same with sums over the keys m ≤ n; their gradients are sums over the queries n ≥ m."""
    sums = np.cumsum(k[..., :, None] * values[..., None, :], -3)  # (..., M, d, d_v + 1)   [S, z]
    read = (q[..., None, :] @ sums)[..., 0, :]  # (..., N, d_v + 1)

    def vjp(read_bar):
        terms = q[..., :, None] * read_bar[..., None, :]  # (..., N, d, d_v + 1)
        sums_bar = np.flip(np.cumsum(np.flip(terms, -3), -3), -3)  # (..., M, d, d_v + 1)
        q_bar = (sums @ read_bar[..., None])[..., 0]  # (..., N, d)
        k_bar = (sums_bar @ values[..., None])[..., 0]  # (..., M, d)
        values_bar = (k[..., None, :] @ sums_bar)[..., 0, :]  # (..., M, d_v + 1)
        return q_bar, k_bar, values_bar

    return read, vjp
