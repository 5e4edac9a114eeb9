"""The Transformer: an encoder reads a sequence, a decoder writes another one, token by token.

    X = √D E[source] + P        Y = Encoder(X)        Z = Decoder(√D E'[target] + P, Y)        logits = Z W + b

The decoder's token n sees the encoder's whole output and the target up to n; its logits are for token n + 1, and
softmax(logits) is the distribution of the next word. In training the target is known and all tokens are computed at
once (teacher forcing); in inference they come one by one (`refnp.models.decoding`).

Source: S002 §1.2 to §1.8; Vaswani et al., arXiv 1706.03762.
Elsewhere: torch.nn.Transformer has neither embeddings nor positions nor the final map, and one more LayerNorm after
each stack: it is `EncoderDecoder(…, final_norm=True)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.autograd import matmul, swapaxes
from refnp.layers.activations import relu
from refnp.layers.dropout import dropout as drop
from refnp.layers.embedding import Embedding
from refnp.layers.layer_norm import LayerNorm
from refnp.layers.linear import Linear
from refnp.layers.masks import combine
from refnp.layers.module import Module
from refnp.layers.positions import SinusoidalPositions
from refnp.layers.relative_positions import RelativePositions
from refnp.models.transformer_layers import DecoderLayer, EncoderLayer, LayerState, causal_after

Relative = Callable[[], RelativePositions] | None


class Encoder(Module):
    """A stack of encoder layers, and a LayerNorm after it if `final_norm` (by default for pre-norm only).

    Shapes: x (..., N, D), mask (..., N, N) → (..., N, D).
    `relative` gives the relative positions of a layer; it is called once for each, and may return the same every time.
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
        relative: Relative = None,
        final_norm: bool | None = None,
        rng: np.random.Generator,
    ):
        self.layers = [
            EncoderLayer(
                features,
                heads,
                hidden,
                norm=norm,
                activation=activation,
                dropout=dropout,
                eps=eps,
                positions=relative and relative(),
                rng=rng,
            )
            for _ in range(layers)
        ]
        self.final_norm = LayerNorm(features, eps=eps) if _has_final_norm(final_norm, norm) else None

    def __call__(self, x, *, mask=None, places=None, rng=None, weights=None):
        for layer in self.layers:
            x = layer(x, mask=mask, places=places, rng=rng, weights=weights)
        return x if self.final_norm is None else self.final_norm(x)


class Decoder(Module):
    """A stack of decoder layers under the causal mask, and a LayerNorm after it as in `Encoder`.

    Shapes: x (..., N, D), memory (..., M, D), mask (..., N, N), memory_mask (..., N, M) → (..., N, D).
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
        relative: Relative = None,
        final_norm: bool | None = None,
        rng: np.random.Generator,
    ):
        if layers < 1:
            raise ValueError(f"Decoder: layers is {layers}; a decoder needs at least one layer")
        self.layers = [
            DecoderLayer(
                features,
                heads,
                hidden,
                norm=norm,
                activation=activation,
                dropout=dropout,
                eps=eps,
                positions=relative and relative(),
                rng=rng,
            )
            for _ in range(layers)
        ]
        self.final_norm = LayerNorm(features, eps=eps) if _has_final_norm(final_norm, norm) else None

    def __call__(self, x, memory, *, mask=None, memory_mask=None, rng=None, weights=None):
        mask = combine(causal_after(0, x.shape[-2]), mask)
        for layer in self.layers:
            x = layer(x, memory, mask=mask, memory_mask=memory_mask, rng=rng, weights=weights)
        return x if self.final_norm is None else self.final_norm(x)

    def start(self, memory: Any) -> list[LayerState]:
        """The state of every layer before the first token."""
        return [layer.start(memory) for layer in self.layers]

    def extend(self, x: Any, states: list[LayerState], *, memory_mask: Any = None) -> Any:
        """The output for tokens x (..., n, D) that follow those in `states`, which grow by them."""
        mask = causal_after(states[0].length, x.shape[-2])
        for layer, state in zip(self.layers, states, strict=True):
            x = layer.extend(x, state, mask=mask, memory_mask=memory_mask)
        return x if self.final_norm is None else self.final_norm(x)


class EncoderDecoder(Module):
    """Encoder and decoder on sequences of vectors: torch.nn.Transformer, if `final_norm`.

    Shapes: source (..., M, D), target (..., N, D), source_mask (..., M, M), memory_mask (..., N, M), target_mask
    (..., N, N), to which the causal mask is added → (..., N, D).
    """

    def __init__(self, encoder: Encoder, decoder: Decoder):
        self.encoder, self.decoder = encoder, decoder

    def __call__(self, source, target, *, source_mask=None, target_mask=None, memory_mask=None, rng=None):
        memory = self.encoder(source, mask=source_mask, rng=rng)
        return self.decoder(target, memory, mask=target_mask, memory_mask=memory_mask, rng=rng)


class Transformer(Module):
    """From token numbers to the logits of every next token.

    Shapes: source (..., M) and target (..., N) integers → logits (..., N, V). `source_mask` (..., M) and `target_mask`
    (..., N) are True for real tokens and False for padding, which nobody attends to.

    `positions` are added to embeddings (None: not at all); `relative` acts inside the self-attentions, see `Encoder`.
    `tied` is "none", "output" (the last map is the target embedding, transposed) or "all" (one table for source,
    target and output, as Vaswani et al. have it). A generator `rng` in the call means training with dropout.
    Raises IndexError for tokens outside a vocabulary, ValueError for sizes that do not fit.
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        *,
        features: int = 512,
        heads: int = 8,
        hidden: int = 2048,
        encoder_layers: int = 6,
        decoder_layers: int = 6,
        norm: str = "post",
        activation: Callable = relu,
        dropout: float = 0.1,
        eps: float = 1e-5,
        positions: Module | None = SinusoidalPositions(),  # noqa: B008  (it has no state)
        relative: Relative = None,
        final_norm: bool | None = None,
        tied: str = "none",
        rng: np.random.Generator,
    ):
        if tied not in ("none", "output", "all"):
            raise ValueError(f"Transformer: tied is {tied!r}; use 'none', 'output' or 'all'")
        if tied == "all" and source_vocabulary != target_vocabulary:
            raise ValueError(
                f"Transformer: vocabularies of {source_vocabulary} and {target_vocabulary} cannot share one table; "
                "make one vocabulary of both languages, or use tied='output'"
            )
        options = {"norm": norm, "activation": activation, "dropout": dropout, "eps": eps}
        sizes = (features, heads, hidden)
        self.target_embedding = Embedding(target_vocabulary, features, scaled=True, rng=rng)
        one_table = tied == "all"
        self.source_embedding = (
            self.target_embedding if one_table else Embedding(source_vocabulary, features, scaled=True, rng=rng)
        )
        self.encoder = Encoder(encoder_layers, *sizes, **options, relative=relative, final_norm=final_norm, rng=rng)
        self.decoder = Decoder(decoder_layers, *sizes, **options, relative=relative, final_norm=final_norm, rng=rng)
        self.output = Linear(features, target_vocabulary, rng=rng) if tied == "none" else None
        self.positions, self.dropout = positions, dropout

    def __call__(self, source, target, *, source_mask=None, target_mask=None, rng=None, weights=None):
        memory = self.encode(source, source_mask=source_mask, rng=rng, weights=weights)
        x = self._embedded(self.target_embedding, target, None, rng)
        mask, memory_mask = _as_keys(target, target_mask, "target"), _as_keys(source, source_mask, "source")
        x = self.decoder(x, memory, mask=mask, memory_mask=memory_mask, rng=rng, weights=weights)
        return self.logits(x)

    def encode(self, source, *, source_mask=None, rng=None, weights=None):
        """The memory (..., M, D) that the decoder attends to."""
        x = self._embedded(self.source_embedding, source, None, rng)
        return self.encoder(x, mask=_as_keys(source, source_mask, "source"), rng=rng, weights=weights)

    def logits(self, x: Any) -> Any:
        """The final map: (..., N, D) → (..., N, V)."""
        if self.output is not None:
            return self.output(x)
        return matmul(x, swapaxes(self.target_embedding.weight, -1, -2))

    def start(self, source: Any, *, source_mask: Any = None) -> DecodingState:
        """The state before the first target token, of sources (..., M) that are encoded once."""
        memory = self.encode(source, source_mask=source_mask)
        return DecodingState(self.decoder.start(memory), _as_keys(source, source_mask, "source"))

    def extend(self, target: Any, state: DecodingState) -> Any:
        """Logits (..., n, V) after each of n tokens (..., n) that follow those in `state`, which grows by them."""
        places = np.arange(np.shape(target)[-1]) + state.length
        x = self._embedded(self.target_embedding, target, places, None)
        return self.logits(self.decoder.extend(x, state.layers, memory_mask=state.memory_mask))

    def _embedded(self, embedding, tokens, places, rng):
        x = embedding(tokens)  # (..., N, D)
        if self.positions is not None:
            x = self.positions(x, places)  # (..., N, D)
        return drop(x, self.dropout, rng)


class DecodingState:
    """What decoding keeps between tokens: a state for every layer, and who of the source is padding."""

    def __init__(self, layers: list[LayerState], memory_mask: np.ndarray | None):
        self.layers, self.memory_mask = layers, memory_mask

    @property
    def length(self) -> int:
        """How many target tokens have been seen."""
        return self.layers[0].length

    def reorder(self, rows: np.ndarray) -> None:
        """Sequence b becomes what `rows[b]` was: beams are chosen anew, or repeated."""
        for layer in self.layers:
            layer.reorder(rows)
        if self.memory_mask is not None:
            self.memory_mask = self.memory_mask[rows]


def _as_keys(tokens: Any, mask: Any, name: str) -> np.ndarray | None:
    """(..., N) → (..., 1, N): whether each token is there, for every query alike."""
    if mask is None:
        return None
    mask = np.asarray(mask)
    if mask.dtype != bool or mask.shape != np.shape(tokens):
        raise ValueError(
            f"Transformer: {name}_mask is {mask.dtype} of shape {mask.shape}; it must be booleans in the shape of "
            f"{name}, {np.shape(tokens)}, True for real tokens"
        )
    return mask[..., None, :]


def _has_final_norm(final_norm: bool | None, norm: str) -> bool:
    """After pre-norm layers nothing is normalised, so that a LayerNorm at the end is the rule there."""
    return norm == "pre" if final_norm is None else final_norm
