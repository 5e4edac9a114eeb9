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
from refnp.layers.layer_norm import LayerNorm
from refnp.layers.masked_reductions import full_mask
from refnp.layers.masks import combine, without_unread
from refnp.layers.module import Module, options_of
from refnp.layers.positions.relative import RelativePositions
from refnp.models.transformer_layers import (
    DecoderLayer,
    EncoderLayer,
    LayerState,
    TransformerLayer,
    causal_after,
    token_count,
)

Relative = Callable[[], RelativePositions] | None


class Stack(Module):
    """Layers of one kind, and a LayerNorm after them if `final_norm` (by default for pre-norm only).

    layers: how many. features, heads, hidden: the width D of a token, the heads of each attention, the hidden units of
        the feed-forward networks.
    relative: gives the relative positions of a layer; it is called once for each, and may return the same every time.
    final_norm: whether a LayerNorm follows the last layer; None: after pre-norm layers.
    Other options: those of each layer, `TransformerLayer`.
    Raises ValueError for fewer layers than make sense, heads that do not divide features, or another norm.
    """

    fewest = 0
    kind: type[EncoderLayer] | type[DecoderLayer]

    @options_of(TransformerLayer, without=("positions",))
    def __init__(
        self,
        layers: int,
        features: int,
        heads: int,
        hidden: int,
        *,
        norm: str = "post",
        eps: float = 1e-5,
        bias: bool = True,
        relative: Relative = None,
        final_norm: bool | None = None,
        **options: Any,
    ):
        if layers < self.fewest:
            raise ValueError(f"{type(self).__name__}: layers is {layers}; it must be at least {self.fewest}")
        options |= {"norm": norm, "eps": eps, "bias": bias}
        self.layers: list[Any] = [
            self.kind(features, heads, hidden, positions=relative and relative(), **options) for _ in range(layers)
        ]
        if final_norm is None:  # nothing is normalised after pre-norm layers, so that it is the rule there
            final_norm = norm == "pre"
        self.final_norm = LayerNorm(features, eps=eps, bias=bias) if final_norm else None

    def finished(self, x: Array | Tensor) -> Array | Tensor:
        """The last layer's output x (..., N, D), after the LayerNorm if there is one."""
        return x if self.final_norm is None else self.final_norm(x)


class Encoder(Stack):
    """Encoder layers: Y = Layer_L(… Layer_1(X)), and LayerNorm(Y) if `final_norm`.

    Shapes: x (..., N, D), mask and bias (..., N, N), places (N,) → (..., N, D).
    In the call, `mask` is True where a token may attend to another, `bias` is added to the scores; all layers have the
    same, and all heads, or with `per_head` each its own, (..., H, N, N). A list `weights` collects those of all layers.

    Options: those of `Stack`.
    Source: Sivaraya (2023) §1.5.
    """

    kind = EncoderLayer

    @options_of(EncoderLayer.__call__, without=("key_places", "cache"))
    def __call__(self, x: Array | Tensor, **options: Any) -> Array | Tensor:
        for layer in self.layers:
            x = layer(x, **options)
        return self.finished(x)


class Decoder(Stack):
    """Decoder layers under the causal mask: token n attends to those up to itself, and to the memory.

    Shapes: x (..., N, D), memory (..., M, D), mask and bias (..., N, N), memory_mask and memory_bias (..., N, M)
    → (..., N, D).
    In the call, a mask is True where a token may attend to another; it hides more than the causal one does. A bias is
    added to the scores. All layers have the same, and all heads, or with `per_head` each its own, (..., H, N, N) and
    (..., H, N, M). A list `weights` collects those of all layers.

    causal: with False a token attends to all others, also to later ones.
    memory_features: the width of the memory; D if not given.
    Other options: those of `Stack`.
    Source: Sivaraya (2023) §1.6, eq. 7.
    """

    fewest, kind = 1, DecoderLayer

    @options_of(DecoderLayer, without=("positions",))
    def __init__(self, layers: int, features: int, heads: int, hidden: int, *, causal: bool = True, **options: Any):
        super().__init__(layers, features, heads, hidden, **options)
        self.causal = causal

    @options_of(DecoderLayer.__call__)
    def __call__(
        self,
        x: Array | Tensor,
        memory: Array | Tensor,
        *,
        mask: ArrayLike | None = None,
        memory_mask: ArrayLike | None = None,
        per_head: bool = False,
        **options: Any,
    ) -> Array | Tensor:
        mask = self._hidden(x, mask, 0, per_head)  # (..., N, N)
        memory = without_unread(memory_mask, memory, per_head=per_head)  # once: gradients add up in the same order
        for layer in self.layers:
            x = layer(x, memory, mask=mask, memory_mask=memory_mask, per_head=per_head, **options)
        return self.finished(x)

    def start(self, memory: Array | Tensor) -> list[LayerState]:
        """The state of every layer before the first token.   Raises RuntimeError outside no_grad."""
        return [layer.start(memory) for layer in self.layers]

    @options_of(DecoderLayer.extend, without=("rng", "weights"))
    def extend(
        self,
        x: Array | Tensor,
        states: list[LayerState],
        *,
        mask: ArrayLike | None = None,
        per_head: bool = False,
        **options: Any,
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
        mask = self._hidden(x, mask, earlier, per_head)  # (..., n, earlier + n)
        for layer, state in zip(self.layers, states, strict=True):
            x = layer.extend(x, state, mask=mask, per_head=per_head, **options)
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

    @options_of(Decoder.__call__, without=("mask", "bias", "weights"))
    def __call__(
        self,
        source: Array | Tensor,
        target: Array | Tensor,
        *,
        per_head: bool = False,
        rng: np.random.Generator | None = None,
        source_mask: ArrayLike | None = None,
        target_mask: ArrayLike | None = None,
        source_bias: ArrayLike | None = None,
        target_bias: ArrayLike | None = None,
        **of_memory: Any,
    ) -> Array | Tensor:
        of_both: dict[str, Any] = {"per_head": per_head, "rng": rng}
        memory = self.encoder(source, mask=source_mask, bias=source_bias, **of_both)
        return self.decoder(target, memory, mask=target_mask, bias=target_bias, **of_memory, **of_both)
