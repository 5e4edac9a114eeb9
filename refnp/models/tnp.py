"""Transformer neural processes: context and targets are tokens of one Transformer encoder.

    context token  [x_c, y_c]        target token  [x_t, 0]        all of them through an embedding MLP
    TNP-D          every token attends to the context tokens, and to nothing else; what becomes of target token t
                   gives the mean and the standard deviation of y_t

Nobody attends to a target, so each is predicted as if it stood alone: predictions are permuted with the targets, and
the context has no order. `TNPA` (refnp/models/tnp_a.py) and `TNPND` (refnp/models/tnp_nd.py) are the paper's other two.

Source: Sivaraya (2023) §3.2, §3.3; Nguyen & Grover, Transformer Neural Processes, arXiv 2207.04179;
code: TNP-pytorch, whose
weights `refnp.models.from_tnp` reads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.primitives import raw
from refnp.layers.distributions import Normal
from refnp.layers.linear import MLP
from refnp.models.neural_process import NeuralProcess, check_floor, check_positive_counts, normal_of
from refnp.models.transformer_layers import EncoderLayer


class TNP(NeuralProcess):
    """What the three have in common: tokens, the MLP that embeds them, and the layers of the encoder (post-norm, ReLU).

    y = 0 also stands for "not known": a context point at 0 and a target look alike. With `flag=True` tokens have one
    number more, 1 where y was observed and 0 where it is asked for, as in later code.
    """

    def __init__(
        self,
        dx: int = 1,
        dy: int = 1,
        *,
        features: int = 64,
        heads: int = 4,
        hidden: int = 128,
        layers: int = 6,
        embedding_depth: int = 4,
        flag: bool = False,
        rng: np.random.Generator,
    ):
        super().__init__(dx, dy)
        check_positive_counts(type(self).__name__, layers=layers, embedding_depth=embedding_depth)
        self.flag = flag
        self.embedder = MLP([dx + dy + flag, *[features] * embedding_depth], rng=rng)
        self.layers = [EncoderLayer(features, heads, hidden, rng=rng) for _ in range(layers)]

    def observed(self, x: Any, y: Any) -> Any:
        """Tokens of points that are known: [x, y], or [x, y, 1], (B, N, dx + dy + flag)."""
        known = [x, y, np.ones_like(raw(x)[..., :1])] if self.flag else [x, y]
        return ag.concatenate(known, -1)

    def asked(self, x: Any) -> Any:
        """Tokens of points that are asked for: [x, 0], (B, N, dx + dy + flag)."""
        return ag.concatenate([x, np.zeros((*x.shape[:-1], self.dy + self.flag), raw(x).dtype)], -1)

    def encode(self, tokens: Any, *, seen: int, wanted: int, mask: np.ndarray | None = None) -> Any:
        """What becomes of the last `wanted` tokens if all attend to the first `seen` of them, as `mask` allows.

        Shapes: tokens (B, N, dx + dy + flag), mask (..., N, seen), or None if it allows everything → (B, wanted, D).
        This is the encoder under a mask (N, N) that is False from column `seen` on, in less time: tokens that nobody
        attends to have no keys and values, and the last layer has only the queries whose answers are wanted.
        """
        x = self.embedder(tokens)  # (B, N, D)
        for layer in self.layers[:-1]:
            x = attend_to(layer, x, x[:, :seen], mask)  # (B, N, D)
        n = x.shape[1]
        if mask is not None:
            mask = np.broadcast_to(mask, (*mask.shape[:-2], n, seen))[..., n - wanted :, :]
        return attend_to(self.layers[-1], x[:, n - wanted :], x[:, :seen], mask)


class MarginalTNP(TNP):
    """TNP-D and TNP-A, which have the same parameters: an MLP reads μ_t and σ_t off each target's token.

    [μ, s] = MLP(token), σ = exp(s). With a `floor` f under it, σ = f + (1 − f) log(1 + exp(s)); f = 0.05 is `bound_std`
    of the authors' code.
    """

    def __init__(
        self,
        dx: int = 1,
        dy: int = 1,
        *,
        features: int = 64,
        heads: int = 4,
        hidden: int = 128,
        layers: int = 6,
        embedding_depth: int = 4,
        flag: bool = False,
        floor: float = 0.0,
        rng: np.random.Generator,
    ):
        super().__init__(
            dx,
            dy,
            features=features,
            heads=heads,
            hidden=hidden,
            layers=layers,
            embedding_depth=embedding_depth,
            flag=flag,
            rng=rng,
        )
        check_floor(type(self).__name__, floor)
        self.predictor = MLP([features, hidden, 2 * dy], rng=rng)
        self.floor = floor

    def read_off(self, z: Any) -> Normal:
        """The distribution (B, T, dy) of targets from what became of their tokens, (B, T, D)."""
        return exponential_normal(self.predictor(z), self.floor)


class TNPD(MarginalTNP):
    """TNP-D: y_t ~ N(μ_t, σ_t²), each target by itself.

    Shapes: context_x (B, C, dx), context_y (B, C, dy), target_x (B, T, dx), context_mask (B, C) → Normal with mean and
    std (B, T, dy). A context may be empty, C = 0 or all masked: targets then attend to nothing, which adds 0.
    Raises ValueError or TypeError as `NeuralProcess.sets`.
    """

    def __call__(self, context_x: Any, context_y: Any, target_x: Any, context_mask: Any = None) -> Normal:
        context_x, context_y, target_x, mask = self.sets(context_x, context_y, target_x, context_mask)
        tokens = ag.concatenate([self.observed(context_x, context_y), self.asked(target_x)], 1)  # (B, C+T, F)
        seen = None if mask.all() else mask[:, None]  # (B, 1, C)
        return self.read_off(self.encode(tokens, seen=mask.shape[1], wanted=target_x.shape[1], mask=seen))


def attend_to(layer: EncoderLayer, x: Any, keys: Any, mask: np.ndarray | None) -> Any:
    """A post-norm encoder layer whose tokens x (B, N, D) attend to `keys` (B, M, D), mask (..., N, M) → (B, N, D)."""
    x = layer.around_attention(lambda x: layer.attention(x, keys, mask=mask), x)  # (B, N, D)
    return layer.around_feed_forward(layer.feed_forward, x)  # (B, N, D)


def exponential_normal(values: Any, floor: float = 0.0) -> Normal:
    """[μ, s] (..., 2 dy) → N(μ, σ²), (..., dy), with σ = exp(s); with a floor, σ as `normal_of` has it."""
    if floor:
        return normal_of(values, floor)
    mean, spread = ag.split(values, 2, -1)  # (..., dy)
    return Normal(mean, ag.exp(spread))
