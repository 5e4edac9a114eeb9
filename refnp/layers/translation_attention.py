"""Attention that sees where tokens are, but only relative to each other: translation equivariant attention.

    d_nm = x_n − x_m        s^h_nm = q^h_n · k^h_m / √d        (a¹_nm … a^H_nm) = MLP([d_nm, s¹_nm … s^H_nm])

    output_n = W_o concat_h(Σ_m α^h_nm v^h_m) + b_o,   α^h = softmax_m(a^h)        Δx_n = mean_m d_nm φ(α¹_nm … α^H_nm)

How well two tokens fit depends on what they hold and on the difference of their places. Shift all places by the same
amount, and nothing changes; x_n + Δx_n shift with them. An MLP that looks at d alone makes a convolution with a kernel
that is learned, one that passes s on makes plain attention: this is what unifies the two.

Source: Sivaraya (2023), the title; Ashman et al., Translation Equivariant Transformer Neural Processes,
arXiv 2406.12409,
§3; weights of the authors' layers: `refnp.models.from_te_tnp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from refnp.autograd import matmul, sum, swapaxes, transpose, where
from refnp.autograd.primitive import raw
from refnp.layers.linear import MLP, Linear
from refnp.layers.masks import all_finite, check_mask, shielded, spoil
from refnp.layers.module import Module
from refnp.layers.multi_head import merge_heads, over_heads, split_heads
from refnp.layers.pair_kernel import pair_kernel
from refnp.layers.softmax import softmax


class TranslationAttention(Module):
    """Translation equivariant attention with `heads` heads on features of width D and places of dx numbers.

    Shapes: query (B, N, D), key (B, M, D), differences x_n − x_m (B, N, M, dx), mask (B, N, M) or what broadcasts to it
    → (output (B, N, D), Δx (B, N, dx)); Δx is None unless the layer `moves` places.
    `kernel` and `movement` are the hidden widths of the MLP that weighs pairs and of φ. `length_scale` is the distance,
    in units of x, over which weights vary at first (`kernel_of`); training goes on from there. Who may attend to
    nothing gets b_o, and does not move.
    What the mask hides is not looked at: NaN or infinity in a hidden key or difference reaches nothing.
    Raises ValueError if the heads do not divide the features, or a length scale is not positive and finite; ValueError
    or TypeError when called with a mask that does not fit.
    """

    def __init__(
        self,
        features: int,
        heads: int,
        *,
        dx: int = 1,
        kernel: Sequence[int] = (32, 32),
        length_scale: float = 0.1,
        moves: bool = False,
        movement: Sequence[int] = (16,),
        rng: np.random.Generator,
    ):
        if heads < 1 or features % heads:
            raise ValueError(f"TranslationAttention: {heads} heads do not divide {features} features equally")
        self.query, self.key, self.value = (Linear(features, features, bias=False, rng=rng) for _ in range(3))
        self.kernel = kernel_of(dx, heads, kernel, length_scale, rng)
        self.output = Linear(features, features, rng=rng)
        self.movement = MLP([heads, *movement, dx], rng=rng) if moves else None
        self.heads = heads

    def __call__(self, query: Any, key: Any, differences: Any, *, mask: Any = None) -> tuple[Any, Any]:
        mask, lost = check_mask("TranslationAttention", mask, differences.shape[:3]), None
        if mask is not None and not all_finite(query, key, differences):
            (query, key, *_), (_, lost) = shielded(mask, query, key, key, None)
            differences = where(mask[..., None], differences, 0.0)
        q, k, v = (split_heads(y, self.heads) for y in (self.query(query), self.key(key), self.value(key)))
        scores = matmul(q, swapaxes(k, -1, -2)) * q.shape[-1] ** -0.5  # (B, H, N, M)
        logits = pair_kernel(differences, scores, *parameters_of(self.kernel))  # (B, H, N, M)
        weights = softmax(logits if mask is None else where(over_heads(mask), logits, -np.inf))  # (B, H, N, M)
        output = self.output(merge_heads(matmul(weights, v)))  # (B, N, D)
        step = None if self.movement is None else mean_step(differences, weights, self.movement, mask)  # (B, N, dx)
        if lost is not None:  # who does look at NaN gets it
            output, step = (y if y is None else spoil(y, lost) for y in (output, step))
        return output, step


def mean_step(differences: Any, weights: Any, movement: MLP, mask: Any) -> Any:
    """Δx_n, the mean over the keys that n may attend to of d_nm φ(α_nm): (B, N, M, dx), (B, H, N, M) → (B, N, dx)."""
    nowhere = np.empty((*differences.shape[:3], 0), raw(differences).dtype)  # φ sees no differences
    factors = transpose(pair_kernel(nowhere, weights, *parameters_of(movement)), (0, 2, 3, 1))  # (B, N, M, dx)
    steps = differences * factors  # (B, N, M, dx)
    if mask is None:
        return sum(steps, 2) / max(differences.shape[2], 1)
    mask = np.broadcast_to(mask, differences.shape[:3])  # (B, N, M)
    count = np.maximum(mask.sum(-1, keepdims=True), 1).astype(raw(steps).real.dtype)  # (B, N, 1)
    return sum(where(mask[..., None], steps, 0.0), 2) / count


def kernel_of(dx: int, heads: int, hidden: Sequence[int], length_scale: float, rng: np.random.Generator) -> MLP:
    """The MLP of pairs, as it is before training: weights from U(−√(6/n), √(6/n)), which keep the size of numbers under
    relu (He et al., arXiv 1502.01852), those on d divided by `length_scale`, so that logits vary over such distances.

    The first biases are divided by 2 `length_scale`: half of the relus bend within ½ a unit of x, whatever the length
    scale. With the weights of a `Linear`, logits hardly vary with d at first, and training is several times slower.
    """
    if not 0 < length_scale < np.inf:
        raise ValueError(
            f"TranslationAttention: length_scale is {length_scale}; it must be positive and finite, in units of x"
        )
    mlp = MLP([dx + heads, *hidden, heads], rng=rng)
    for layer in mlp.layers:
        layer.weight.data *= 6**0.5
    weight, bias = parameters_of(mlp)[:2]
    weight.data[:dx] /= length_scale
    bias.data *= 6**0.5 / (2 * length_scale)
    return mlp


def parameters_of(mlp: MLP) -> list:
    """W and b of each linear map."""
    return [parameter for layer in mlp.layers for parameter in (layer.weight, layer.bias)]
