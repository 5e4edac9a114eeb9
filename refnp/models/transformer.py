"""The Transformer: an encoder reads a sequence, a decoder writes another one, token by token.

    X = √D E[source] + P        Y = Encoder(X)        Z = Decoder(√D E'[target] + P, Y)        logits = Z W + b

The decoder's token n attends to the encoder's whole output and to the target up to n; its logits are for token n + 1,
and softmax(logits) is the distribution of the next word. In training the target is known and all tokens are computed
at once (teacher forcing); in inference they come one by one (`refnp.models.decoding`).

Source: Sivaraya (2023) §1.2 to §1.8; Vaswani et al. (2017), arXiv 1706.03762.
Elsewhere: torch.nn.Transformer has neither embeddings nor positions nor the final map, and one more LayerNorm after
each stack: it is `EncoderDecoder` of two stacks with `final_norm=True`. Its decoder attends to later tokens unless
it is given a causal mask; refnp's never does.
Transcription: tests/transcriptions/transformer.py.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from refnp.autograd import matmul, swapaxes
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.layers.activations import relu
from refnp.layers.linear import Embedding, Linear
from refnp.layers.masks import check_mask, combine
from refnp.layers.module import Module
from refnp.layers.normalization import LayerNorm
from refnp.layers.positions.absolute import SinusoidalPositions
from refnp.layers.positions.relative import RelativePositions
from refnp.layers.regularization import dropout as drop
from refnp.models.transformer_layers import DecoderLayer, EncoderLayer, LayerState, causal_after, token_count

Relative = Callable[[], RelativePositions] | None


class Stack(Module):
    """Layers of one kind, and a LayerNorm after them if `final_norm` (by default for pre-norm only).

    layers: how many. features, heads, hidden, norm, activation, dropout, eps: of each layer.
    relative: gives the relative positions of a layer; it is called once for each, and may return the same every time.
    final_norm: whether a LayerNorm follows the last layer; None: after pre-norm layers.
    Raises ValueError for fewer layers than make sense, heads that do not divide features, or another norm.
    """

    layer: type[EncoderLayer] | type[DecoderLayer]
    fewest = 0

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
        if layers < self.fewest:
            raise ValueError(f"{type(self).__name__}: layers is {layers}; it must be at least {self.fewest}")
        options: dict[str, Any] = {"norm": norm, "activation": activation, "dropout": dropout, "eps": eps, "rng": rng}
        self.layers: list[Any] = [
            self.layer(features, heads, hidden, positions=relative and relative(), **options) for _ in range(layers)
        ]
        if final_norm is None:  # nothing is normalised after pre-norm layers, so that it is the rule there
            final_norm = norm == "pre"
        self.final_norm = LayerNorm(features, eps=eps) if final_norm else None

    def finished(self, x: Array | Tensor) -> Array | Tensor:
        """The last layer's output x (..., N, D), after the LayerNorm if there is one."""
        return x if self.final_norm is None else self.final_norm(x)


class Encoder(Stack):
    """Encoder layers: Y = Layer_L(… Layer_1(X)), and LayerNorm(Y) if `final_norm`.

    Shapes: x (..., N, D), mask (..., N, N), places (N,) → (..., N, D). A list `weights` collects those of all layers.

    layers: how many. features, heads, hidden: the width D of a token, the heads of each attention, the hidden units of
        the feed-forward networks.
    norm: "post" or "pre", LayerNorm after or before a sub-layer; eps: its ε. final_norm: whether a LayerNorm follows
        the last layer; None: after pre-norm layers.
    activation: of the feed-forward networks. dropout: the probability with which an output is dropped in training.
    relative: gives the relative positions of a layer; it is called once for each, and may return the same every time.
    Raises ValueError for fewer layers than make sense, heads that do not divide features, or another norm.
    Source: Sivaraya (2023) §1.5.
    """

    layer = EncoderLayer

    def __call__(
        self,
        x: Array | Tensor,
        *,
        mask: ArrayLike | None = None,
        places: ArrayLike | None = None,
        rng: np.random.Generator | None = None,
        weights: list | None = None,
    ) -> Array | Tensor:
        for layer in self.layers:
            x = layer(x, mask=mask, places=places, rng=rng, weights=weights)
        return self.finished(x)


class Decoder(Stack):
    """Decoder layers under the causal mask: token n attends to those up to itself, and to the memory.

    Shapes: x (..., N, D), memory (..., M, D), mask (..., N, N), memory_mask (..., N, M) → (..., N, D).
    A mask hides more than the causal one does. A list `weights` collects those of all layers.

    layers: how many. features, heads, hidden: the width D of a token, the heads of each attention, the hidden units of
        the feed-forward networks.
    norm: "post" or "pre", LayerNorm after or before a sub-layer; eps: its ε. final_norm: whether a LayerNorm follows
        the last layer; None: after pre-norm layers.
    activation: of the feed-forward networks. dropout: the probability with which an output is dropped in training.
    relative: gives the relative positions of a layer; it is called once for each, and may return the same every time.
    Raises ValueError for fewer layers than make sense, heads that do not divide features, or another norm.
    Source: Sivaraya (2023) §1.6, eq. 7.
    """

    layer, fewest = DecoderLayer, 1

    def __call__(
        self,
        x: Array | Tensor,
        memory: Array | Tensor,
        *,
        mask: ArrayLike | None = None,
        memory_mask: ArrayLike | None = None,
        rng: np.random.Generator | None = None,
        weights: list | None = None,
    ) -> Array | Tensor:
        n = token_count(x)
        mask = combine(causal_after(0, n), check_mask("Decoder", mask, (*x.shape[:-1], n)))  # (..., N, N)
        for layer in self.layers:
            x = layer(x, memory, mask=mask, memory_mask=memory_mask, rng=rng, weights=weights)
        return self.finished(x)

    def start(self, memory: Array | Tensor) -> list[LayerState]:
        """The state of every layer before the first token.   Raises RuntimeError outside no_grad."""
        return [layer.start(memory) for layer in self.layers]

    def extend(
        self, x: Array | Tensor, states: list[LayerState], *, memory_mask: ArrayLike | None = None
    ) -> Array | Tensor:
        """The output for tokens x (..., n, D) that follow those in `states`, which grow by them."""
        mask = causal_after(states[0].length, token_count(x))
        for layer, state in zip(self.layers, states, strict=True):
            x = layer.extend(x, state, mask=mask, memory_mask=memory_mask)
        return self.finished(x)


class EncoderDecoder(Module):
    """Encoder and decoder on sequences of vectors: Z = Decoder(target, Encoder(source)).

    Shapes: source (..., M, D), target (..., N, D), source_mask (..., M, M), memory_mask (..., N, M), target_mask
    (..., N, N), which hides more than the causal mask does → (..., N, D).
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
        rng: np.random.Generator | None = None,
    ) -> Array | Tensor:
        memory = self.encoder(source, mask=source_mask, rng=rng)
        return self.decoder(target, memory, mask=target_mask, memory_mask=memory_mask, rng=rng)


class Transformer(Module):
    """From token numbers to the logits of every next token.

        logits = Decoder(√D E'[target] + P, Encoder(√D E[source] + P)) W + b

    Shapes: source (..., M) and target (..., N) integers → logits (..., N, V). `source_mask` (..., M) and `target_mask`
    (..., N) are True for real tokens and False for padding, to which no token attends. It may stand anywhere, but
    places are counted with it: pad at the end. A source of padding alone, or of no token, is attention to nothing.

    `positions` are added to embeddings (None: not at all); `relative` gives the relative positions of
    each layer's self-attention.
    `tied` is "none", "output" (the last map is the target embedding, transposed) or "all" (one table for source,
    target and output, as Vaswani et al. have it). A generator `rng` in the call means training with dropout; a list
    `weights` collects those of all attentions, of the encoder's layers and then, two for each, of the decoder's.
    Raises IndexError for tokens outside a vocabulary, ValueError for sizes and masks that do not fit.
    Source: Sivaraya (2023) §1.2 to §1.8.
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
        options: dict[str, Any] = {"norm": norm, "activation": activation, "dropout": dropout, "eps": eps}
        sizes = (features, heads, hidden)
        self.target_embedding = Embedding(target_vocabulary, features, scaled=True, rng=rng)
        self.source_embedding = self.target_embedding
        if tied != "all":
            self.source_embedding = Embedding(source_vocabulary, features, scaled=True, rng=rng)
        self.encoder = Encoder(encoder_layers, *sizes, **options, relative=relative, final_norm=final_norm, rng=rng)
        self.decoder = Decoder(decoder_layers, *sizes, **options, relative=relative, final_norm=final_norm, rng=rng)
        self.output = Linear(features, target_vocabulary, rng=rng) if tied == "none" else None
        self.positions, self.dropout = positions, dropout

    def __call__(
        self,
        source: ArrayLike,
        target: ArrayLike,
        *,
        source_mask: ArrayLike | None = None,
        target_mask: ArrayLike | None = None,
        rng: np.random.Generator | None = None,
        weights: list | None = None,
    ) -> Array | Tensor:
        memory = self.encode(source, source_mask=source_mask, rng=rng, weights=weights)
        x = self._embedded(self.target_embedding, target, None, rng)
        mask, memory_mask = _as_keys(target, target_mask, "target"), _as_keys(source, source_mask, "source")
        x = self.decoder(x, memory, mask=mask, memory_mask=memory_mask, rng=rng, weights=weights)
        return self.logits(x)

    def encode(self, source, *, source_mask=None, rng=None, weights=None):
        """The memory (..., M, D) that the decoder attends to."""
        x = self._embedded(self.source_embedding, source, None, rng)
        return self.encoder(x, mask=_as_keys(source, source_mask, "source"), rng=rng, weights=weights)

    def logits(self, x: Array | Tensor) -> Array | Tensor:
        """The final map: (..., N, D) → (..., N, V)."""
        if self.output is not None:
            return self.output(x)
        return matmul(x, swapaxes(self.target_embedding.weight, -1, -2))

    def start(self, source: ArrayLike, *, source_mask: ArrayLike | None = None) -> "DecodingState":
        """The state before the first target token, of sources (..., M) that are encoded once.

        Raises RuntimeError outside `no_grad`: what is kept has no gradient.
        """
        memory = self.encode(source, source_mask=source_mask)  # (..., M, D)
        return DecodingState(self.decoder.start(memory), _as_keys(source, source_mask, "source"), len(memory))

    def extend(self, target: ArrayLike, state: "DecodingState") -> Array | Tensor:
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

    def __init__(self, layers: list[LayerState], memory_mask: np.ndarray | None, sources: int):
        self.layers, self.memory_mask, self.sources = layers, memory_mask, np.arange(sources)

    @property
    def length(self) -> int:
        """The number of target tokens so far."""
        return self.layers[0].length

    def reorder(self, rows: np.ndarray) -> None:
        """Sequence b of the first axis becomes what `rows[b]` was: beams are chosen anew, or repeated."""
        sources = self.sources[rows]
        new = not np.array_equal(sources, self.sources)  # else each keeps its memory: beams of one source share theirs
        self.sources = sources
        for layer in self.layers:
            layer.reorder(rows, with_memory=new)
        if new and self.memory_mask is not None:
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
