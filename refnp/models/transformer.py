"""The Transformer: an encoder reads a sequence, a decoder writes another one, token by token.

    X = √D E[source] + P        Y = Encoder(X)        Z = Decoder(√D E'[target] + P, Y)        logits = Z W + b

The decoder's token n attends to the encoder's whole output and to the target up to n; its logits are for token n + 1,
and softmax(logits) is the distribution of the next word. In training the target is known and all tokens are computed
at once (teacher forcing); in inference they come one by one (`refnp.models.decoding`).

Source: Sivaraya (2023) §1.2 to §1.8; Vaswani et al. (2017), arXiv 1706.03762.
Elsewhere: torch.nn.Transformer has neither embeddings nor positions nor the final map, and one more LayerNorm after
each stack: it is `EncoderDecoder` of two stacks with `final_norm=True`. Its decoder attends to later tokens unless
it is given a causal mask; refnp's does with `causal=False`.
Transcription: tests/transcriptions/transformer.py.
"""

from typing import Any

import numpy as np

from refnp.autograd import matmul, swapaxes
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.layers.linear import Embedding, Linear
from refnp.layers.masks import combine
from refnp.layers.module import Module, options_of, taken
from refnp.layers.positions.absolute import SinusoidalPositions
from refnp.layers.regularization import dropout as drop
from refnp.models.transformer_layers import LayerState
from refnp.models.transformer_stacks import Decoder, Encoder


class Transformer(Module):
    """From token numbers to the logits of every next token.

        logits = Decoder(√D E'[target] + P, Encoder(√D E[source] + P)) W + b

    Shapes: source (..., M) and target (..., N) integers → logits (..., N, V).

    features, heads, hidden: the width D of a token, the heads of each attention, the hidden units of the feed-forward
        networks.
    encoder_layers, decoder_layers: how many; dropout, and other options: of the stacks, `Encoder` and `Decoder`.
    bias: with False no linear map has a bias, the last one included, and no LayerNorm a shift.
    causal: with False a target token attends to all others, also to later ones; words are not decoded one by one then.
    positions: added to embeddings (None: not at all).
    tied: "none", "output" (the last map is the target embedding, transposed) or "all" (one table for source, target and
        output, as Vaswani et al. have it).

    When called:
    source_mask, target_mask: (..., M) and (..., N), True for real tokens and False for padding, to which no token
        attends. It may stand anywhere, but places are counted with it: pad at the end. A source of padding alone, or of
        no token, is attention to nothing.
    source_pair_mask, target_pair_mask, memory_mask: (..., M, M), (..., N, N) and (..., N, M), True where a token may
        attend to another; what any mask hides is hidden. source_bias, target_bias, memory_bias: numbers of these shapes
        that are added to the scores. All of them serve all heads, or with `per_head` each its own, (..., H, M, M) …
    rng: a generator means training with dropout.
    weights: a list that collects the weights of all attentions, of the encoder's layers and then, two for each, of the
        decoder's.

    Raises IndexError for tokens outside a vocabulary, ValueError for sizes and masks that do not fit.
    Source: Sivaraya (2023) §1.2 to §1.8.
    """

    @options_of(Encoder)
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
        positions: Module | None = SinusoidalPositions(),  # noqa: B008  (it has no state)
        dropout: float = 0.1,
        bias: bool = True,
        causal: bool = True,
        tied: str = "none",
        rng: np.random.Generator,
        **options: Any,
    ):
        if tied not in ("none", "output", "all"):
            raise ValueError(f"Transformer: tied is {tied!r}; use 'none', 'output' or 'all'")
        if tied == "all" and source_vocabulary != target_vocabulary:
            raise ValueError(
                f"Transformer: vocabularies of {source_vocabulary} and {target_vocabulary} cannot share one table; "
                "make one vocabulary of both languages, or use tied='output'"
            )
        options |= {"dropout": dropout, "bias": bias, "rng": rng}
        sizes = (features, heads, hidden)
        self.target_embedding = Embedding(target_vocabulary, features, scaled=True, rng=rng)
        self.source_embedding = self.target_embedding
        if tied != "all":
            self.source_embedding = Embedding(source_vocabulary, features, scaled=True, rng=rng)
        self.encoder = Encoder(encoder_layers, *sizes, **options)
        self.decoder = Decoder(decoder_layers, *sizes, causal=causal, **options)
        self.output = Linear(features, target_vocabulary, bias=bias, rng=rng) if tied == "none" else None
        self.positions, self.dropout = positions, dropout

    @options_of(Encoder.__call__, without=("mask", "bias", "places"))
    def encode(
        self,
        source: ArrayLike,
        *,
        source_mask: ArrayLike | None = None,
        source_pair_mask: ArrayLike | None = None,
        source_bias: ArrayLike | None = None,
        per_head: bool = False,
        rng: np.random.Generator | None = None,
        **options: Any,
    ) -> Array | Tensor:
        """The memory (..., M, D) that the decoder attends to."""
        x = self._embedded(self.source_embedding, source, None, rng)
        mask = _joined("source", _as_keys(source, source_mask, "source"), source_pair_mask, per_head)
        return self.encoder(x, mask=mask, bias=source_bias, per_head=per_head, rng=rng, **options)

    @options_of(Decoder.extend, only=("memory_bias",))
    def _of_pairs(
        self,
        keys: tuple[np.ndarray | None, np.ndarray | None],
        *,
        per_head: bool = False,
        target_pair_mask: ArrayLike | None = None,
        memory_mask: ArrayLike | None = None,
        target_bias: ArrayLike | None = None,
        **of_memory: Any,
    ) -> dict[str, Any]:
        """What the decoder is told of pairs of tokens; `keys` say which words of target and source are real."""
        return {
            "mask": _joined("target", keys[0], target_pair_mask, per_head),
            "memory_mask": _joined("memory", keys[1], memory_mask, per_head),
            "bias": target_bias,
            "per_head": per_head,
            **of_memory,
        }

    @options_of(encode, _of_pairs)
    def __call__(
        self,
        source: ArrayLike,
        target: ArrayLike,
        *,
        source_mask: ArrayLike | None = None,
        target_mask: ArrayLike | None = None,
        per_head: bool = False,
        rng: np.random.Generator | None = None,
        weights: list | None = None,
        **options: Any,
    ) -> Array | Tensor:
        of_both: dict[str, Any] = {"rng": rng, "weights": weights}
        of_source = taken(Transformer.encode, options) | {"source_mask": source_mask, "per_head": per_head}
        memory = self.encode(source, **of_source, **of_both)
        x = self._embedded(self.target_embedding, target, None, rng)
        keys = _as_keys(target, target_mask, "target"), _as_keys(source, source_mask, "source")
        x = self.decoder(x, memory, **self._of_pairs(keys, per_head=per_head, **options), **of_both)
        return self.logits(x)

    def logits(self, x: Array | Tensor) -> Array | Tensor:
        """The final map: (..., N, D) → (..., N, V)."""
        if self.output is not None:
            return self.output(x)
        return matmul(x, swapaxes(self.target_embedding.weight, -1, -2))

    @options_of(encode, without=("rng", "weights"))
    def start(self, source: ArrayLike, *, source_mask: ArrayLike | None = None, **options: Any) -> "DecodingState":
        """The state before the first target token, of sources (..., M) that are encoded once.

        Raises RuntimeError outside `no_grad`: what is kept has no gradient.
        """
        memory = self.encode(source, source_mask=source_mask, **options)  # (..., M, D)
        return DecodingState(self.decoder.start(memory), _as_keys(source, source_mask, "source"), len(memory))

    @options_of(_of_pairs)
    def extend(self, target: ArrayLike, state: "DecodingState", **options: Any) -> Array | Tensor:
        """Logits (..., n, V) after each of n tokens (..., n) that follow those in `state`, which grows by them.

        Masks and biases are the rows of these tokens: (..., n, earlier + n) of the target, (..., n, M) of the memory.
        Raises ValueError if there are earlier tokens and the model is not causal: they would attend to these.
        """
        places = np.arange(np.shape(target)[-1]) + state.length
        x = self._embedded(self.target_embedding, target, places, None)
        return self.logits(self.decoder.extend(x, state.layers, **self._of_pairs((None, state.memory_mask), **options)))

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


def _joined(name: str, keys: np.ndarray | None, pairs: ArrayLike | None, per_head: bool) -> np.ndarray | None:
    """What both allow: `keys` (..., 1, M) for every query alike, a mask of `pairs` (..., N, M) or (..., H, N, M)."""
    if keys is not None and per_head:
        keys = keys[..., None, :, :]  # (..., 1, 1, M)
    if pairs is not None and np.asarray(pairs).dtype != bool:
        raise TypeError(
            f"Transformer: the mask of pairs of {name} is {np.asarray(pairs).dtype}; pass booleans, True = may attend"
        )
    return combine(keys, pairs)
