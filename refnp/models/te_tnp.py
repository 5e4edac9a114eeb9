"""TE-TNP: a Transformer neural process that knows places by their differences alone.

    context token  [y_m, 1]        target token  [0, 0]        through an MLP; x enters the attention, as x_n − x_m

As in TNP-D all tokens attend to the context alone, here by translation equivariant attention
(refnp/layers/translation_attention.py). Shift context and targets together, and the prediction stays as it was: the
symmetry of a ConvCNP without its grid. Where shifted places are represented exactly, the prediction is the same to the
bit.

Source: Sivaraya (2023), the title; Ashman et al. (2024), arXiv 2406.12409.
Elsewhere: the authors' flag is 1 for targets and 0 for the context, flagged="targets" here; their targets attend to
context tokens that the same layer has updated already, which is `updated=True` here. Without it they attend to those
that it was given, as in TNP-D. If they are given two kinds of layers, tokens of the context and of the targets have
different ones: `untied`.
Transcription: tests/transcriptions/tnp.py.
"""

from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, Tensor
from refnp.layers.distributions import Normal
from refnp.layers.linear import MLP
from refnp.layers.masks import without_unread
from refnp.layers.module import Module, options_of, taken
from refnp.layers.translation_attention import TranslationAttention
from refnp.models.neural_process import for_every_query
from refnp.models.tnp import ReadOff, TokenModel
from refnp.models.transformer_layers import Residual
from refnp.numbers.words import full


class TranslationLayer(Module):
    """Translation equivariant attention and a feed-forward network of `hidden` units, each in a residual connection.

    Shapes: x (B, N, D), keys (B, M, D), differences (B, N, M, dx), mask (..., N, M) → (x (B, N, D), Δx (B, N, dx) or
    None). With norm="pre" keys go through the same LayerNorm as queries; `eps` is its ε.
    Other options: those of `TranslationAttention`.
    """

    @options_of(TranslationAttention)
    def __init__(
        self,
        features: int,
        heads: int,
        hidden: int,
        *,
        norm: str = "pre",
        eps: float = 1e-5,
        rng: np.random.Generator,
        **options: Any,
    ):
        self.attention = TranslationAttention(features, heads, rng=rng, **options)
        self.around_attention = Residual(features, norm=norm, dropout=0.0, eps=eps)
        self.feed_forward = MLP([features, hidden, features], rng=rng)
        self.around_feed_forward = Residual(features, norm=norm, dropout=0.0, eps=eps)

    def __call__(
        self, x: Array | Tensor, keys: Array | Tensor, differences: Array | Tensor, *, mask: np.ndarray | None = None
    ) -> tuple[Array | Tensor, Array | Tensor | None]:
        residual, step, keys = self.around_attention, None, without_unread(mask, keys)
        if residual.norm == "pre":
            keys = residual.layer_norm(keys)  # (B, M, D)

        def attend(x):
            nonlocal step
            x, step = self.attention(x, keys, differences, mask=mask)
            return x

        x = residual(attend, x)  # (B, N, D)
        return self.around_feed_forward(self.feed_forward, x), step


class TranslationTokens(TokenModel):
    """The tokens of `TETNP`, and its layers.

    moves: every layer but the last moves the tokens as well; with `updated` the last one moves the context.
    untied: the targets' tokens have layers of their own; else one layer serves all tokens.
    updated: the targets' tokens attend to what a layer has made of the context, where it has moved it; else to what it
        was given.
    Other options: those of `TranslationLayer` and of `TokenModel`.
    """

    @options_of(TranslationLayer, without=("dx",))
    def __init__(
        self,
        *sizes: int,
        moves: bool = False,
        untied: bool = False,
        updated: bool = False,
        rng: np.random.Generator,
        **options: Any,
    ):
        super().__init__(*sizes, **taken(TokenModel, options))
        self.embedder = MLP([self.dy + 1, *self.embedding_widths], rng=rng)
        options |= {"dx": self.dx, "rng": rng}
        layer = lambda moving: TranslationLayer(*self.layer_sizes, moves=moves and moving, **options)
        self.add_layers(layer, untied, updated)


class TETNP(ReadOff, TranslationTokens):
    """TE-TNP: y_n ~ N(μ_n, σ_n²), each target alone, from values and differences of places.

    Shapes: context_x (B, M, dx), context_y (B, M, dy), target_x (B, N, dx), context_mask (B, M) → Normal with mean and
    std (B, N, dy). A context may be empty.

    Options: those of `TranslationTokens` and of `ReadOff`.
    """

    def _predicted(
        self, context_x: Array | Tensor, context_y: Array | Tensor, mask: np.ndarray, target_x: Array | Tensor
    ) -> Normal:
        m, allowed = context_x.shape[1], for_every_query(mask)
        x = ag.concatenate([context_x, target_x], 1)  # (B, M+N, dx)
        differences = x[:, :, None] - context_x[:, None]  # (B, M+N, M, dx)
        z = self.embedder(tokens(context_y, target_x.shape[1], self.flagged))  # (B, M+N, D)
        if self.apart:
            return self.read_off(
                self._encode_apart(z[:, :m], z[:, m:], differences[:, :m], differences[:, m:], allowed)
            )
        for layer in self.layers[:-1]:
            z, step = layer(z, z[:, :m], differences, mask=allowed)  # (B, M+N, D), (B, M+N, dx)
            if step is not None:  # of differences, not of places: a shift has no part in what is rounded
                differences = moved(differences, step, step[:, :m])  # (B, M+N, M, dx)
        z, _ = self.layers[-1](z[:, m:], z[:, :m], differences[:, m:], mask=allowed)  # (B, N, D), ()
        return self.read_off(z)

    def _encode_apart(
        self,
        known: Array | Tensor,
        asked: Array | Tensor,
        among: Array | Tensor,
        toward: Array | Tensor,
        mask: np.ndarray | None,
    ) -> Array | Tensor:
        """The targets' tokens after all layers where they are not layer by layer beside those of the context.

        Shapes: known (B, M, D), asked (B, N, D), differences among (B, M, M, dx) and toward (B, N, M, dx) the context,
        mask (B, 1, M) → (B, N, D).
        """
        readers = self.layers if self.reading_layers is None else self.reading_layers
        for i, reader in enumerate(readers):
            given, step = (known, toward), None
            if self.updated or i < len(readers) - 1:
                known, step = self.layers[i](known, known, among, mask=mask)  # (B, M, D), (B, M, dx)
            if step is not None:
                among, toward = moved(among, step, step), moved(toward, None, step)
            keys, differences = (known, toward) if self.updated else given
            asked, own = reader(asked, keys, differences, mask=mask)  # (B, N, D), (B, N, dx)
            if own is not None:
                toward = moved(toward, own, None)  # (B, N, M, dx)
        return asked


def moved(differences: Array | Tensor, step: Array | Tensor | None, key_step: Array | Tensor | None) -> Array | Tensor:
    """x_n − x_m (B, N, M, dx) after steps Δx_n (B, N, dx) and Δx_m (B, M, dx); None: they stay where they are."""
    if step is None:
        return differences if key_step is None else differences - key_step[:, None]
    step = step[:, :, None]  # (B, N, 1, dx)
    return differences + (step if key_step is None else step - key_step[:, None])


def tokens(context_y: Array | Tensor, targets: int, flagged: str = "context") -> Array | Tensor:
    """[y, 1] for each point of the context and [0, 0] for each target: (B, M, dy) → (B, M + N, dy + 1).

    With flagged="targets" [y, 0] and [0, 1].
    """
    b, _, dy = context_y.shape
    of_targets = flagged == "targets"
    flag = np.full_like(raw(context_y)[..., :1], not of_targets)
    known = ag.concatenate([context_y, flag], -1)  # (B, M, dy+1)
    asked = [full((b, targets, dy), 0.0), full((b, targets, 1), float(of_targets))]
    return ag.concatenate([known, np.concatenate(asked, -1).astype(raw(known).dtype)], 1)
