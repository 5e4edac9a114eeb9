"""Stacks of Transformer layers: an encoder, a decoder under its causal mask, and both on sequences of vectors.

    Encoder    Y = Layer_L(… Layer_1(X))                    Decoder    Z = Layer_L(… Layer_1(X, Y), …, Y)

A LayerNorm follows the last layer if `final_norm`; by default it does after pre-norm layers, which end in a sum.

Source: Sivaraya (2023) §1.5, §1.6; Vaswani et al. (2017), arXiv 1706.03762.
Elsewhere: torch.nn.TransformerEncoder and TransformerDecoder; the latter attends to later tokens unless it is given a
causal mask, this one does with `causal=False`. torch.nn.Transformer is `EncoderDecoder` with `final_norm=True` twice.
Transcription: tests/transcriptions/transformer.py.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.layers.activation import relu
from refnp.layers.layer_norm import LayerNorm
from refnp.layers.masked_reductions import full_mask
from refnp.layers.masks import combine, without_unread
from refnp.layers.module import Module
from refnp.layers.positions.relative import RelativePositions
from refnp.models.transformer_layers import DecoderLayer, EncoderLayer, LayerState, causal_after, token_count

Relative = Callable[[], RelativePositions] | None


class Stack(Module):
    """Layers of one kind, and a LayerNorm after them if `final_norm` (by default for pre-norm only).

    Raises ValueError for fewer layers than make sense.
    """

    fewest = 0

    def __init__(self, layers: int, of_each: Callable[[], Any], after: LayerNorm, norm: str, final_norm: bool | None):
        if layers < self.fewest:
            raise ValueError(f"{type(self).__name__}: layers is {layers}; it must be at least {self.fewest}")
        self.layers: list[Any] = [of_each() for _ in range(layers)]
        if final_norm is None:  # nothing is normalised after pre-norm layers, so that it is the rule there
            final_norm = norm == "pre"
        self.final_norm = after if final_norm else None

    def finished(self, x: Array | Tensor) -> Array | Tensor:
        """The last layer's output x (..., N, D), after the LayerNorm if there is one."""
        return x if self.final_norm is None else self.final_norm(x)


class Encoder(Stack):
    """Encoder layers: Y = Layer_L(… Layer_1(X)), and LayerNorm(Y) if `final_norm`.

    Shapes: x (..., N, D), mask and bias (..., N, N), places (N,) → (..., N, D).
    In the call, `mask` is True where a token may attend to another, `bias` is added to the scores; all layers have the
    same, and all heads, or with `per_head` each its own, (..., H, N, N). A list `weights` collects those of all layers.

    layers: how many. features, heads, hidden: the width D of a token, the heads of each attention, the hidden units of
        the feed-forward networks.
    norm: "post" or "pre", LayerNorm after or before a sub-layer; eps: its ε. final_norm: whether a LayerNorm follows
        the last layer; None: after pre-norm layers.
    activation: of the feed-forward networks. dropout: the probability with which an output is dropped in training.
    bias: with False no linear map has a bias and no LayerNorm a shift.
    head_features, head_value_features: the width of queries and keys, and of values, in a head; D/heads if not given.
    relative: gives the relative positions of a layer; it is called once for each, and may return the same every time.
    Raises ValueError for fewer layers than make sense, heads that do not divide features, or another norm.
    Source: Sivaraya (2023) §1.5.
    """

    def __init__(
        self,
        layers: int,
        features: int,
        heads: int,
        hidden: int,
        *,
        norm: str = "post",
        activation: Callable = relu,
        dropout: float = 0.0,
        eps: float = 1e-5,
        bias: bool = True,
        head_features: int | None = None,
        head_value_features: int | None = None,
        relative: Relative = None,
        final_norm: bool | None = None,
        rng: np.random.Generator,
    ):
        options: dict[str, Any] = {"norm": norm, "activation": activation, "dropout": dropout, "eps": eps, "bias": bias}
        options |= {"head_features": head_features, "head_value_features": head_value_features, "rng": rng}
        of_each = lambda: EncoderLayer(features, heads, hidden, positions=relative and relative(), **options)
        super().__init__(layers, of_each, LayerNorm(features, eps=eps, bias=bias), norm, final_norm)

    def __call__(
        self,
        x: Array | Tensor,
        *,
        mask: ArrayLike | None = None,
        bias: ArrayLike | None = None,
        per_head: bool = False,
        places: ArrayLike | None = None,
        rng: np.random.Generator | None = None,
        weights: list | None = None,
    ) -> Array | Tensor:
        for layer in self.layers:
            x = layer(x, mask=mask, bias=bias, per_head=per_head, places=places, rng=rng, weights=weights)
        return self.finished(x)


class Decoder(Stack):
    """Decoder layers under the causal mask: token n attends to those up to itself, and to the memory.

    Shapes: x (..., N, D), memory (..., M, D), mask and bias (..., N, N), memory_mask and memory_bias (..., N, M)
    → (..., N, D).
    In the call, a mask is True where a token may attend to another; it hides more than the causal one does. A bias is
    added to the scores. All layers have the same, and all heads, or with `per_head` each its own, (..., H, N, N) and
    (..., H, N, M). A list `weights` collects those of all layers.

    layers: how many. features, heads, hidden: the width D of a token, the heads of each attention, the hidden units of
        the feed-forward networks.
    norm: "post" or "pre", LayerNorm after or before a sub-layer; eps: its ε. final_norm: whether a LayerNorm follows
        the last layer; None: after pre-norm layers.
    activation: of the feed-forward networks. dropout: the probability with which an output is dropped in training.
    bias: with False no linear map has a bias and no LayerNorm a shift.
    head_features, head_value_features: the width of queries and keys, and of values, in a head; D/heads if not given.
    relative: gives the relative positions of a layer; it is called once for each, and may return the same every time.
    causal: with False a token attends to all others, also to later ones.
    memory_features: the width of the memory; D if not given.
    Raises ValueError for fewer layers than make sense, heads that do not divide features, or another norm.
    Source: Sivaraya (2023) §1.6, eq. 7.
    """

    fewest = 1

    def __init__(
        self,
        layers: int,
        features: int,
        heads: int,
        hidden: int,
        *,
        causal: bool = True,
        memory_features: int | None = None,
        norm: str = "post",
        activation: Callable = relu,
        dropout: float = 0.0,
        eps: float = 1e-5,
        bias: bool = True,
        head_features: int | None = None,
        head_value_features: int | None = None,
        relative: Relative = None,
        final_norm: bool | None = None,
        rng: np.random.Generator,
    ):
        options: dict[str, Any] = {"norm": norm, "activation": activation, "dropout": dropout, "eps": eps, "bias": bias}
        options |= {"head_features": head_features, "head_value_features": head_value_features, "rng": rng}
        options["memory_features"] = memory_features
        of_each = lambda: DecoderLayer(features, heads, hidden, positions=relative and relative(), **options)
        super().__init__(layers, of_each, LayerNorm(features, eps=eps, bias=bias), norm, final_norm)
        self.causal = causal

    def __call__(
        self,
        x: Array | Tensor,
        memory: Array | Tensor,
        *,
        mask: ArrayLike | None = None,
        memory_mask: ArrayLike | None = None,
        bias: ArrayLike | None = None,
        memory_bias: ArrayLike | None = None,
        per_head: bool = False,
        rng: np.random.Generator | None = None,
        weights: list | None = None,
    ) -> Array | Tensor:
        options: dict[str, Any] = {"memory_mask": memory_mask, "bias": bias, "memory_bias": memory_bias}
        options |= {"per_head": per_head, "rng": rng, "weights": weights}
        mask = self._hidden(x, mask, 0, per_head)  # (..., N, N)
        memory = without_unread(memory_mask, memory, per_head=per_head)  # once: gradients add up in the same order
        for layer in self.layers:
            x = layer(x, memory, mask=mask, **options)
        return self.finished(x)

    def start(self, memory: Array | Tensor) -> list[LayerState]:
        """The state of every layer before the first token.   Raises RuntimeError outside no_grad."""
        return [layer.start(memory) for layer in self.layers]

    def extend(
        self,
        x: Array | Tensor,
        states: list[LayerState],
        *,
        mask: ArrayLike | None = None,
        memory_mask: ArrayLike | None = None,
        bias: ArrayLike | None = None,
        memory_bias: ArrayLike | None = None,
        per_head: bool = False,
    ) -> Array | Tensor:
        """The output for tokens x (..., n, D) that follow those in `states`, which grow by them.

        Mask and bias are those of the n tokens and all so far, (..., n, earlier + n); of the memory, (..., n, M).
        Raises ValueError if there are earlier tokens and the decoder is not causal: they would attend to these.
        """
        earlier = states[0].length
        if earlier and not self.causal:
            raise ValueError(
                f"Decoder: {earlier} tokens attend to those that come now, as causal is False; pass all tokens at once"
            )
        options: dict[str, Any] = {"memory_mask": memory_mask, "bias": bias, "memory_bias": memory_bias}
        mask = self._hidden(x, mask, earlier, per_head)  # (..., n, earlier + n)
        for layer, state in zip(self.layers, states, strict=True):
            x = layer.extend(x, state, mask=mask, **options, per_head=per_head)
        return self.finished(x)

    def _hidden(self, x: Array | Tensor, mask: ArrayLike | None, earlier: int, per_head: bool) -> Array | None:
        """The mask of x (..., n, D) and all tokens so far, causal if the decoder is; (..., n, earlier + n)."""
        n = token_count(x)
        heads = (self.layers[0].attention.heads,) if per_head else ()
        mask = None if mask is None else full_mask("Decoder", mask, (*x.shape[:-2], *heads, n, earlier + n))
        return combine(causal_after(earlier, n), mask) if self.causal else mask


class EncoderDecoder(Module):
    """Encoder and decoder on sequences of vectors: Z = Decoder(target, Encoder(source)).

    Shapes: source (..., M, D), target (..., N, D), source_mask and source_bias (..., M, M), memory_mask and memory_bias
    (..., N, M), target_mask and target_bias (..., N, N) → (..., N, D).
    Masks are True where a token may attend to another; the target's hides more than the causal one does. Biases are
    added to the scores. They serve all heads, or with `per_head` each its own: (..., H, M, M) and so on.
    Raises ValueError for shapes that do not fit, TypeError for masks that are not booleans.   Source: Sivaraya (2023)
    §1.6.
    """

    def __init__(self, encoder: Encoder, decoder: Decoder):
        self.encoder, self.decoder = encoder, decoder

    def __call__(
        self,
        source: Array | Tensor,
        target: Array | Tensor,
        *,
        source_mask: ArrayLike | None = None,
        target_mask: ArrayLike | None = None,
        memory_mask: ArrayLike | None = None,
        source_bias: ArrayLike | None = None,
        target_bias: ArrayLike | None = None,
        memory_bias: ArrayLike | None = None,
        per_head: bool = False,
        rng: np.random.Generator | None = None,
    ) -> Array | Tensor:
        options: dict[str, Any] = {"per_head": per_head, "rng": rng}
        memory = self.encoder(source, mask=source_mask, bias=source_bias, **options)
        masks: dict[str, Any] = {"mask": target_mask, "memory_mask": memory_mask}
        return self.decoder(target, memory, **masks, bias=target_bias, memory_bias=memory_bias, **options)
