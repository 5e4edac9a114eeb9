"""Linear attention: attention whose weights are products of features, so that time grows with N + M and not with N M.

    O_n = Σ_m φ(q_n)·φ(k_m) v_m / Σ_m φ(q_n)·φ(k_m)        φ(x) = x + 1 for x > 0, else eˣ

Softmax attention is the same with exp(q·k/√d) in place of φ(q)·φ(k). Since a product of features is a sum over d of
them, the sums over m can be taken first, once for all queries:

    S = Σ_m φ(k_m) v_mᵀ   (d, d_v)        z = Σ_m φ(k_m)   (d,)        O_n = φ(q_n)ᵀ S / φ(q_n)·z

What the softmax adds is what this gives up. The weights A_nm = φ(q_n)·φ(k_m)/φ(q_n)·z have rank d at most, so with more
than d tokens no linear attention can give each token another one's value, as a copy needs, while exp(q·k) has a feature
for every power of q·k and can. And a weight grows with q in proportion, not exponentially: it cannot be made as sharp
as one likes by longer queries.

Source: Katharopoulos et al. (2020).
Transcription: tests/transcriptions/rows.py.
"""

from typing import Any

import numpy as np

import refnp.autograd as ad
from refnp.autograd.declaration import takes
from refnp.autograd.errors import explained
from refnp.autograd.primitives import primitive, raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.kernels.blocks import elementwise


@primitive
@takes("x (...) → (...)")
@elementwise
def positive_features(x):
    """φ(x) = x + 1 for x > 0, else eˣ: elu(x) + 1, which as a sum would lose the digits of small features.

    Shapes: any → the same.   VJP: x̄ = ȳ where x > 0, else ȳ eˣ; there is no kink.
    Source: Katharopoulos et al. (2020), eq. 7.
    """
    positive = x.real > 0
    e = np.exp(np.where(positive, 0, x))
    return np.where(positive, x + 1, e), lambda y_bar: (y_bar * e,)


@explained
@takes(
    "query (..., N, d), key (..., M, d), value (..., M, d_v) → (..., N, d_v)",
    key_mask="boolean to (..., M)? hides (key, value), True = may be attended to",
    causal="True or False",
)
def linear_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    *,
    key_mask: ArrayLike | None = None,
    causal: bool = False,
) -> Array | Tensor:
    """O_n = φ(q_n)ᵀ S / φ(q_n)·z with S = Σ_m φ(k_m) v_mᵀ and z = Σ_m φ(k_m), φ the `positive_features`.

    Shapes: query (..., N, d), key (..., M, d), value (..., M, d_v) → (..., N, d_v). The axes in front broadcast.
    `key_mask` (..., M), True = may be attended to; what it hides is not read. With `causal`, query n sees keys m ≤ n:
    S and z are running sums, M d d_v numbers. A mask for each pair would need all N M weights: that is `attention`.
    A query that may attend to nothing gets 0, and so do all without keys. So does one for which φ(q)·z is below the
    smallest normal number over ε, 1e-31 in float32, 1e-292 in float64: 1/φ(q)·z would overflow in gradients. There is
    no 1/√d: it would only rescale φ.
    Raises ValueError for shapes that do not fit, TypeError for a mask that is not boolean.
    VJP: that of the sums and products, in this order, O' the numerator and r = φ(q)·z:

        Ō' = Ō/r     r̄ = −Ō·O/r     φ̄(q) = S Ō' + r̄ z     S̄ = Σ_n φ(q_n) Ō'_nᵀ     z̄ = Σ_n r̄_n φ(q_n)
        φ̄(k_m) = S̄ v_m + z̄     v̄_m = S̄ᵀ φ(k_m)
    """
    q: Any
    k: Any
    v: Any
    mask: Any = key_mask
    q, k, v = (a if isinstance(a, Tensor) else np.asarray(a) for a in (query, key, value))
    queries, keys = q.shape[-2], k.shape[-2]
    if causal and queries != keys:
        raise ValueError(f"linear_attention: causal needs as many keys as queries; there are {keys} and {queries}")
    if mask is not None:
        k, v = (ad.where(mask[..., None], a, 0.0) for a in (k, v))
    q, k = positive_features(q), positive_features(k)  # (..., N, d), (..., M, d)
    if mask is not None:
        k = ad.where(mask[..., None], k, 0.0)
    if causal:
        sums = ad.cumsum(k[..., :, None] * v[..., None, :], -3)  # (..., M, d, d_v)   S up to each place
        totals = ad.cumsum(k, -2)  # (..., M, d)   z
        above = (ad.expand_dims(q, -2) @ sums)[..., 0, :]  # (..., N, d_v)
        below = ad.sum(q * totals, -1, keepdims=True)  # (..., N, 1)
    else:
        above = q @ (ad.swapaxes(k, -1, -2) @ v)  # (..., N, d_v)
        below = q @ ad.expand_dims(ad.sum(k, -2), -1)  # (..., N, 1)
    lost = np.abs(raw(below).real) < _least(raw(below).real.dtype)
    return ad.where(lost, 0.0, above) / ad.where(lost, 1.0, below)


def _least(dtype):
    """The least φ(q)·z that is divided by."""
    return np.finfo(dtype).tiny / np.finfo(dtype).eps
