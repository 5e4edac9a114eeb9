"""Decoder-only Transformers: from the tokens so far to the logits of the next, as language models are made.

    x = E[tokens] + P        x ← Layer_l(x), l = 1 … L, under the causal mask        logits = norm(x) Eᵀ

GPT       learned positions P; pre-norm layers x ← x + MHA(LayerNorm(x)), x ← x + W₂ GELU(W₁ LayerNorm(x) + b₁) + b₂
LLaMA     no P, queries and keys rotated (RoPE); RMSNorm, no biases, heads that share keys and values, and

              x ← x + W₂ (silu(W₁ n) ∘ W₃ n),   n = RMSNorm(x)

Token n depends on tokens up to itself. So the keys and values of those before it stay as they are when another token
comes, and `extend` keeps them: N tokens one by one take the work of one pass over N.

Source: Radford et al. (2019), GPT-2; Touvron et al. (2023), arXiv 2302.13971, LLaMA; gated networks: Shazeer (2020),
arXiv 2002.05202.
Elsewhere: GPT2LMHeadModel and LlamaForCausalLM of transformers, whose weights `refnp.models.published.transformers`
reads. GPT-2's GELU is that with tanh; nanoGPT's that with erf.
Transcription: tests/transcriptions/transformer.py.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from refnp.autograd import is_recording, matmul, no_grad, swapaxes
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.layers.activation import gelu, silu
from refnp.layers.key_value_cache import KeyValueCache
from refnp.layers.layer_norm import LayerNorm, RMSNorm
from refnp.layers.linear import Embedding, Linear
from refnp.layers.masks import combine
from refnp.layers.module import Module
from refnp.layers.multi_head import MultiHeadAttention
from refnp.layers.positions.absolute import LearnedPositions
from refnp.layers.positions.rotary import Rotary
from refnp.layers.softmax import softmax
from refnp.models.checks import check_positive_counts
from refnp.models.transformer_layers import EncoderLayer, Pairs, attended, causal_after


class DecoderOnly(Module):
    """What GPT and LLaMA have in common: tokens (..., N) → logits (..., N, V) of the token after each.

    When called:
    mask: (..., N), True for real tokens and False for padding, to which no token attends. Places are counted with it:
        pad at the end.
    weights: a list to which the attention weights (..., H, N, N) of all layers are appended.
    Raises IndexError for tokens outside the vocabulary, TypeError unless they are integers.
    """

    embedding: Embedding
    positions: LearnedPositions | None
    layers: list
    final_norm: Module
    output: Linear | None  # None: the embedding, transposed

    def __call__(
        self, tokens: ArrayLike, *, mask: ArrayLike | None = None, weights: list | None = None
    ) -> Array | Tensor:
        return self._logits(tokens, [None] * len(self.layers), 0, mask, weights)

    def start(self) -> list[KeyValueCache]:
        """What `extend` keeps of each layer, before the first token."""
        return [KeyValueCache() for _ in self.layers]

    def extend(self, tokens: ArrayLike, kept: list[KeyValueCache]) -> Array | Tensor:
        """Logits (..., n, V) after each of n tokens (..., n) that follow those in `kept`, which grows by them.

        Raises RuntimeError outside `no_grad`: what is kept has no gradient.
        """
        if is_recording():
            raise RuntimeError(f"{type(self).__name__}.extend: what is kept has no gradient; call it within no_grad()")
        return self._logits(tokens, kept, kept[0].length, None, None)

    def continued(
        self, tokens: ArrayLike, count: int, *, temperature: float = 0.0, rng: np.random.Generator | None = None
    ) -> Array:
        """`count` more tokens after tokens (..., N), one by one: (..., count) integers.

        The most probable one each time, the lowest of equals; with a temperature T > 0 and a generator one drawn from
        softmax(logits/T). Raises ValueError for no token to begin with, or a temperature without a generator.
        """
        last = np.asarray(raw(tokens))
        if not last.shape or not last.shape[-1]:
            raise ValueError(f"continued: tokens have shape {last.shape}; it needs a token to begin with")
        if temperature and rng is None:
            raise ValueError(f"continued: temperature is {temperature}, which draws; pass rng, a generator")
        kept, found = self.start(), np.empty((*last.shape[:-1], count), int)
        with no_grad():
            for n in range(count):
                logits = np.asarray(raw(self.extend(last, kept)))[..., -1, :]  # (..., V)
                found[..., n] = drawn(softmax(logits / temperature), rng) if temperature else logits.argmax(-1)
                last = found[..., n : n + 1]
        return found

    def _logits(self, tokens, kept, earlier, mask, weights):
        n = np.shape(raw(tokens))[-1]
        places = np.arange(n) + earlier  # (n,)
        x = self.embedding(tokens)  # (..., n, D)
        if self.positions is not None:
            x = self.positions(x, places)
        pairs = combine(causal_after(earlier, n), None if mask is None else np.asarray(mask)[..., None, :])
        for layer, cache in zip(self.layers, kept, strict=True):
            x = layer(x, mask=pairs, places=places, cache=cache, weights=weights)
        x = self.final_norm(x)
        return matmul(x, swapaxes(self.embedding.weight, -1, -2)) if self.output is None else self.output(x)


def drawn(p: Array, rng: np.random.Generator | None) -> Array:
    """One number of each row of probabilities (..., V) → (...): the first whose cumulative sum is above a uniform."""
    u = rng.random((*p.shape[:-1], 1))  # type: ignore[union-attr]
    return np.minimum((np.cumsum(p, -1) <= u * p.sum(-1, keepdims=True)).sum(-1), p.shape[-1] - 1)


GELU_BY_TANH = partial(gelu, approximate="tanh")


class GPT(DecoderOnly):
    """GPT-2, and nanoGPT with activation=gelu and bias=False.

    vocabulary, length: V tokens, and places in the table of positions. features, heads, hidden: the width D of a
        token, the heads of each attention, the hidden units of the feed-forward networks (4D if not given).
    layers: how many. activation: of the feed-forward networks; GELU with tanh if not given. eps: of the LayerNorms.
    bias: with False no linear map has a bias and no LayerNorm a shift.
    tied: whether the last map is the embedding, transposed; it has no bias either way.
    Raises ValueError for sizes that do not fit; when called, IndexError for more tokens than there are places.
    Source: Radford et al. (2019).
    """

    def __init__(
        self,
        vocabulary: int,
        length: int,
        *,
        features: int = 768,
        heads: int = 12,
        hidden: int | None = None,
        layers: int = 12,
        activation: Callable = GELU_BY_TANH,
        eps: float = 1e-5,
        bias: bool = True,
        tied: bool = True,
        rng: np.random.Generator,
    ):
        check_positive_counts("GPT", layers=layers)
        options: dict[str, Any] = {"norm": "pre", "activation": activation, "eps": eps, "bias": bias, "rng": rng}
        self.embedding = Embedding(vocabulary, features, rng=rng)
        self.positions = LearnedPositions(length, features, rng=rng)
        self.layers = [EncoderLayer(features, heads, hidden or 4 * features, **options) for _ in range(layers)]
        self.final_norm = LayerNorm(features, eps=eps, bias=bias)
        self.output = None if tied else Linear(features, vocabulary, bias=False, rng=rng)


class LLaMA(DecoderOnly):
    """LLaMA, and LLaMA 2 with fewer heads of keys and values.

    vocabulary: V tokens. features, heads, hidden: the width D of a token, the heads of each attention, the hidden units
        of the feed-forward networks. key_heads: fewer heads of keys and values, each for several of queries.
    layers: how many. eps: of the RMSNorms. tied: whether the last map is the embedding, transposed.
    base: of the rotations, ω_k = base^(−2k/d); layout: "half", as transformers stores the weights, or "interleaved".
    head_features: the width of a head; D/heads if not given.
    Raises ValueError for sizes that do not fit.
    Source: Touvron et al. (2023).
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        features: int = 4096,
        heads: int = 32,
        hidden: int = 11008,
        key_heads: int | None = None,
        layers: int = 32,
        eps: float = 1e-5,
        base: float = 10000,
        layout: str = "half",
        head_features: int | None = None,
        tied: bool = False,
        rng: np.random.Generator,
    ):
        check_positive_counts("LLaMA", layers=layers)
        options: dict[str, Any] = {"key_heads": key_heads, "head_features": head_features, "eps": eps, "rng": rng}
        self.embedding = Embedding(vocabulary, features, rng=rng)
        self.positions = None
        rotary = Rotary(layout=layout, base=base)
        self.layers = [GatedLayer(features, heads, hidden, positions=rotary, **options) for _ in range(layers)]
        self.final_norm = RMSNorm(features, eps=eps)
        self.output = None if tied else Linear(features, vocabulary, bias=False, rng=rng)


class GatedLayer(Module):
    """x ← x + MHA(RMSNorm(x)), x ← x + GatedMLP(RMSNorm(x)), a layer of `LLaMA`, which says what the options are.

    Shapes: x (..., N, D), mask (..., N, M), M the tokens in `cache` and these → (..., N, D).
    """

    def __init__(
        self,
        features: int,
        heads: int,
        hidden: int,
        *,
        key_heads: int | None = None,
        head_features: int | None = None,
        positions: Rotary,
        eps: float,
        rng: np.random.Generator,
    ):
        options: dict[str, Any] = {"key_heads": key_heads, "head_features": head_features, "positions": positions}
        self.attention = MultiHeadAttention(features, heads, **options, bias=False, rng=rng)
        self.attention_norm = RMSNorm(features, eps=eps)
        self.feed_forward = GatedMLP(features, hidden, rng=rng)
        self.feed_forward_norm = RMSNorm(features, eps=eps)

    def __call__(
        self,
        x: Array | Tensor,
        *,
        mask: ArrayLike | None = None,
        places: ArrayLike | None = None,
        cache: KeyValueCache | None = None,
        weights: list | None = None,
    ) -> Array | Tensor:
        n = self.attention_norm(x)
        x = x + attended(self.attention, n, n, Pairs(mask), (places, places), cache, weights)
        return x + self.feed_forward(self.feed_forward_norm(x))


class GatedMLP(Module):
    """y = W₂ (f(W₁ x) ∘ W₃ x), f silu unless told: SwiGLU, without biases.

    Shapes: x (..., D) → (..., D), with `hidden` units between.
    Source: Shazeer (2020), arXiv 2002.05202, eq. 6.
    """

    def __init__(self, features: int, hidden: int, *, activation: Callable = silu, rng: np.random.Generator):
        self.gate = Linear(features, hidden, bias=False, rng=rng)
        self.up = Linear(features, hidden, bias=False, rng=rng)
        self.down = Linear(hidden, features, bias=False, rng=rng)
        self.activation = activation

    def __call__(self, x: ArrayLike) -> Array | Tensor:
        return self.down(self.activation(self.gate(x)) * self.up(x))
