"""The layers of a Transformer: attention and a feed-forward network, each with a residual connection and LayerNorm.

    post-norm   x ← LayerNorm(x + Sublayer(x))        (Sivaraya (2023) §1.5, Vaswani et al. (2017))
    pre-norm    x ← x + Sublayer(LayerNorm(x))        (Xiong et al. (2020), arXiv 2002.04745)

    encoder     Sublayers: self-attention; feed-forward W₂ f(W₁ x + b₁) + b₂, f = ReLU or GELU
    decoder     Sublayers: self-attention; attention to the encoder's output, MHA(Q_dec, K_enc, V_enc); feed-forward

Masks are True where a query may attend to a key; biases are numbers that are added to the scores. Both serve all heads,
(..., N, M), or with `per_head` each its own, (..., H, N, M).

Source: Sivaraya (2023) §1.5, §1.6 (its LayerNorm has no ε and no affine map: `eps=0.0`).
Elsewhere: torch.nn.TransformerEncoderLayer and DecoderLayer, whose weights `refnp.models.published.torch` reads; they
also drop attention weights and hidden units in training, here the outputs of sub-layers are dropped, as the paper says.

Transcription: tests/transcriptions/transformer.py.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.layers.activation import relu
from refnp.layers.key_value_cache import KeyValueCache
from refnp.layers.layer_norm import LayerNorm
from refnp.layers.linear import MLP
from refnp.layers.masks import causal, without_unread
from refnp.layers.module import Module, options_of
from refnp.layers.multi_head import MultiHeadAttention
from refnp.layers.positions.relative import RelativePositions
from refnp.layers.regularization import dropout
from refnp.numbers.words import arange


class Residual(Module):
    """A residual connection around a sub-layer, its LayerNorm and its dropout: `around(sublayer, x)`.

    post: LayerNorm(x + dropout(f(x)))        pre: x + dropout(f(LayerNorm(x)))

    Shapes: x (..., D), and f keeps them. bias=False leaves the LayerNorm's shift out.
    Raises ValueError if norm is neither 'post' nor 'pre'.
    """

    def __init__(self, features: int, *, norm: str, dropout: float, eps: float, bias: bool = True):
        if norm not in ("post", "pre"):
            raise ValueError(f"Residual: norm is {norm!r}; use 'post' (LayerNorm after the sum) or 'pre' (before f)")
        self.layer_norm = LayerNorm(features, eps=eps, bias=bias)
        self.norm, self.dropout = norm, dropout

    def __call__(self, sublayer: Callable, x: Array | Tensor, rng: np.random.Generator | None = None) -> Array | Tensor:
        if self.norm == "pre":
            return x + dropout(sublayer(self.layer_norm(x)), self.dropout, rng)
        return self.layer_norm(x + dropout(sublayer(x), self.dropout, rng))


class TransformerLayer(Module):
    """What encoder and decoder layers have in common; a decoder layer has `memory_features`, others None.

    features, heads, hidden: the width D of a token, the heads of each attention, the hidden units of the
        feed-forward network.
    norm: "post" or "pre", LayerNorm after or before a sub-layer; eps: its ε.
    activation: of the feed-forward network, FFN(x) = W₂ f(W₁ x + b₁) + b₂.
    dropout: the probability with which an output of a sub-layer is dropped in training.
    bias: with False no linear map has a bias and no LayerNorm a shift.
    head_features, head_value_features: the width of queries and keys, and of values, in a head; D/heads if not given.
    positions: relative positions of the tokens, in the attention to each other; a scheme of refnp.layers.positions.
    Raises ValueError if heads do not divide features, or norm is neither 'post' nor 'pre'.
    """

    def __init__(
        self,
        features: int,
        heads: int,
        hidden: int,
        memory_features: int | None,
        *,
        norm: str = "post",
        activation: Callable = relu,
        dropout: float = 0.0,
        eps: float = 1e-5,
        bias: bool = True,
        head_features: int | None = None,
        head_value_features: int | None = None,
        positions: RelativePositions | None = None,
        rng: np.random.Generator,
    ):
        widths: dict[str, Any] = {"head_features": head_features, "head_value_features": head_value_features}
        around: dict[str, Any] = {"norm": norm, "dropout": dropout, "eps": eps, "bias": bias}
        self.attention = MultiHeadAttention(features, heads, **widths, positions=positions, bias=bias, rng=rng)
        self.around_attention = Residual(features, **around)
        if memory_features is not None:
            of_memory: dict[str, Any] = {"key_features": memory_features, "value_features": memory_features}
            self.memory_attention = MultiHeadAttention(features, heads, **of_memory, **widths, bias=bias, rng=rng)
            self.around_memory_attention = Residual(features, **around)
        self.feed_forward = MLP([features, hidden, features], activation=activation, bias=bias, rng=rng)
        self.around_feed_forward = Residual(features, **around)


class Pairs(NamedTuple):
    """What is said of pairs of tokens: who may attend to whom, and what is added to their scores.

    Shapes: mask and bias (..., N, M), or with per_head (..., H, N, M).
    """

    mask: ArrayLike | None = None
    bias: ArrayLike | None = None
    per_head: bool = False


class EncoderLayer(TransformerLayer):
    """Attention and a feed-forward network, each in a residual connection.

        x ← around(MHA(x, keys), x)        x ← around(FFN, x)

    Shapes: x (..., N, D), keys (..., M, D), mask (..., N, M) → (..., N, D).

    Options: those of `TransformerLayer`.

    When called:
    keys: tokens that x attends to; x itself, M = N, if there are none. With norm="pre" they are normalised as x is.
    mask, bias: True where a token of x may attend to one of the keys; numbers that are added to the scores. Both serve
        all heads, or with `per_head` each its own, (..., H, N, M).
    places, key_places: of x and of the keys, for relative positions; 0, 1, 2, … if not given.
    cache: keeps the keys' projections for later calls; x attends to all that are kept; mask and bias are for all of
        them.
    rng: a generator means training with dropout.
    weights: a list to which the attention weights (..., H, N, M) are appended.

    Raises ValueError if heads do not divide features, norm is neither 'post' nor 'pre', or shapes do not fit.
    Source: Sivaraya (2023) §1.5; Vaswani et al. (2017) §3.1, §3.3.
    """

    def __init__(self, features: int, heads: int, hidden: int, **options: Any):
        super().__init__(features, heads, hidden, None, **options)

    def __call__(
        self,
        x: Array | Tensor,
        keys: Array | Tensor | None = None,
        *,
        mask: ArrayLike | None = None,
        bias: ArrayLike | None = None,
        per_head: bool = False,
        places: ArrayLike | None = None,
        key_places: ArrayLike | None = None,
        cache: KeyValueCache | None = None,
        rng: np.random.Generator | None = None,
        weights: list | None = None,
    ) -> Array | Tensor:
        pairs = Pairs(mask, bias, per_head)
        if keys is None:
            key_places = places
        elif self.around_attention.norm == "pre":
            keys = self.around_attention.layer_norm(keys)

        def attend(x):
            own = x if keys is None else keys
            return attended(self.attention, x, own, pairs, (places, key_places), cache, weights)

        x = self.around_attention(attend, x, rng)  # (..., N, D)
        return self.around_feed_forward(self.feed_forward, x, rng)  # (..., N, D)


class DecoderLayer(TransformerLayer):
    """Self-attention, attention to a memory (the encoder's output), and a feed-forward network.

        x ← around(MHA(x, x), x)        x ← around(MHA(x, memory), x)        x ← around(FFN, x)

    Shapes: x (..., N, D), memory (..., M, D), mask and bias (..., N, N), memory_mask and memory_bias (..., N, M)
    → (..., N, D).
    The layer hides nothing by itself: its stack, `Decoder`, gives it the causal mask. Masks and biases serve all heads,
    or with `per_head` each its own, (..., H, N, N) and (..., H, N, M). A generator `rng` means training with dropout;
    `weights` is a list to which the weights of both attentions are appended, (..., H, N, N) and (..., H, N, M).

    memory_features: the width of the memory; D if not given. Its places are not comparable with the layer's own: the
        attention to it has no relative positions.
    Other options: those of `TransformerLayer`.

    Raises ValueError if heads do not divide features, norm is neither 'post' nor 'pre', or shapes do not fit.
    Source: Sivaraya (2023) §1.6; Vaswani et al. (2017) §3.1.
    """

    def __init__(self, features: int, heads: int, hidden: int, *, memory_features: int | None = None, **options: Any):
        super().__init__(features, heads, hidden, features if memory_features is None else memory_features, **options)

    def start(self, memory: ArrayLike) -> "LayerState":
        """What decoding needs of a memory (..., M, D), before the first token. RuntimeError outside no_grad."""
        kept = KeyValueCache().extend(*self.memory_attention.keys_and_values(memory, memory))  # head by head in memory
        return LayerState(kept, KeyValueCache())

    def extend(
        self,
        x: Array | Tensor,
        state: "LayerState",
        *,
        mask: ArrayLike | None = None,
        memory_mask: ArrayLike | None = None,
        bias: ArrayLike | None = None,
        memory_bias: ArrayLike | None = None,
        per_head: bool = False,
        rng: np.random.Generator | None = None,
        weights: list | None = None,
    ) -> Array | Tensor:
        """The layer's output for n tokens x (..., n, D) that follow those in `state`, which grows by them.

        Mask and bias are those of the n tokens and all so far, (..., n, earlier + n); of the memory, (..., n, M).
        """
        pairs, memory_pairs = Pairs(mask, bias, per_head), Pairs(memory_mask, memory_bias, per_head)
        places = arange(token_count(x)) + state.length  # (n,)

        def attend(x):
            return attended(self.attention, x, x, pairs, (places, places), state.cache, weights)

        def attend_to_memory(x):
            return looked_up(self.memory_attention, x, state.memory, memory_pairs, (None, None), weights)

        x = self.around_attention(attend, x, rng)  # (..., n, D)
        x = self.around_memory_attention(attend_to_memory, x, rng)  # (..., n, D)
        return self.around_feed_forward(self.feed_forward, x, rng)  # (..., n, D)

    @options_of(extend)
    def __call__(
        self,
        x: Array | Tensor,
        memory: Array | Tensor,
        *,
        memory_mask: ArrayLike | None = None,
        per_head: bool = False,
        **options: Any,
    ) -> Array | Tensor:
        memory = without_unread(memory_mask, memory, per_head=per_head)
        state = LayerState(self.memory_attention.keys_and_values(memory, memory), cache=None)
        return self.extend(x, state, memory_mask=memory_mask, per_head=per_head, **options)


class LayerState:
    """What one decoder layer keeps between tokens: keys and values of the memory, and those of the tokens so far."""

    def __init__(self, memory: tuple[Any, Any], cache: KeyValueCache | None):
        self.memory, self.cache = memory, cache

    @property
    def length(self) -> int:
        """The number of tokens so far."""
        return 0 if self.cache is None else self.cache.length

    def reorder(self, rows: np.ndarray, *, with_memory: bool) -> None:
        """Sequence b of the first axis becomes what `rows[b]` was; its memory stays, unless it moves too."""
        if with_memory:
            self.memory = tuple(array[rows] for array in self.memory)
        if self.cache is not None:
            self.cache.reorder(rows)


def attended(
    attention: MultiHeadAttention,
    x: Array | Tensor,
    keys: Array | Tensor,
    pairs: Pairs,
    places: tuple[ArrayLike | None, ArrayLike | None],
    cache: KeyValueCache | None,
    weights: list | None,
) -> Array | Tensor:
    """MHA(x, keys), of x (..., N, D) at the first of `places` and keys (..., M, D) at the second.

    A `cache` keeps the keys after those of earlier calls, and x attends to all of them.
    """
    kept = attention.keys_and_values(keys, keys, places=places[1])
    if cache is not None:
        kept, places = cache.extend(*kept), (places[0], np.arange(cache.length))
    return looked_up(attention, x, kept, pairs, places, weights)


def looked_up(
    attention: MultiHeadAttention,
    x: Array | Tensor,
    kept: tuple,
    pairs: Pairs,
    places: tuple[ArrayLike | None, ArrayLike | None],
    weights: list | None,
) -> Array | Tensor:
    """The attention of x to keys and values that are projected already; its weights go to the list, if there is one."""
    query_places, key_places = places
    found = attention(
        x,
        *kept,
        projected=True,
        mask=pairs.mask,
        bias=pairs.bias,
        per_head=pairs.per_head,
        query_places=query_places,
        key_places=key_places,
        return_weights=weights is not None,
    )
    if weights is None:
        return found
    weights.append(raw(found[1]))
    return found[0]


def token_count(x: Array | Tensor) -> int:
    """N of x (..., N, D).   Raises ValueError if there are no such axes."""
    if x.ndim < 2:
        raise ValueError(f"decoder: x has shape {x.shape}; it must be (..., tokens, features)")
    return x.shape[-2]


def causal_after(earlier: int, new: int) -> np.ndarray | None:
    """The causal mask of `new` tokens that follow `earlier` ones: (new, earlier + new), or None for a single token."""
    return None if new == 1 else causal(new, earlier + new, align="bottom_right")
