"""Transformer neural processes: context and targets are tokens of one Transformer encoder.

    context token  [x_c, y_c]        target token  [x_t, 0]        all of them through an embedding MLP
    TNP-D          every token attends to the context tokens, and to nothing else; what becomes of target token t
                   gives the mean and the standard deviation of y_t

Nobody attends to a target, so each is predicted as if it stood alone: predictions are permuted with the targets, and
the context has no order. `TNPA` and `TNPND` are the paper's other two.

Source: Sivaraya (2023) §3.2, §3.3; Nguyen & Grover (2022), arXiv 2207.04179;
code: TNP-pytorch, whose
weights `refnp.models.published.tnp` reads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Tensor
from refnp.layers.distributions import Mixture, MultivariateNormal, Normal, check_generator
from refnp.layers.linear import MLP
from refnp.layers.module import on_tape
from refnp.layers.multi_head import KeyValueCache, over_heads
from refnp.models.neural_process import (
    NeuralProcess,
    check_floor,
    check_positive_counts,
    check_presence,
    normal_of,
    present,
    whole_targets,
)
from refnp.models.transformer_layers import EncoderLayer

COVARIANCES = ("low_rank", "cholesky")


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


def attention_mask(contexts: int, targets: int) -> np.ndarray:
    """Who may attend to whom among C context, T real and T padded tokens: booleans (C + 2T, C + 2T), True = may.

    With 2 contexts and 3 targets the rows are 11000000, 11000000, 11100000, 11110000, 11111000, 11000000, 11100000,
    11110000: nobody attends to padded tokens, whose columns are False.
    """
    mask = np.zeros((contexts + 2 * targets, contexts + 2 * targets), bool)
    mask[:, :contexts] = True
    real, padded = slice(contexts, contexts + targets), slice(contexts + targets, None)
    mask[real, real] = np.tri(targets, dtype=bool)
    mask[padded, real] = np.tri(targets, k=-1, dtype=bool)
    return mask


class TNPA(MarginalTNP):
    """TNP-A: the joint distribution of all targets in their order.

    Shapes: context_x (B, C, dx), context_y (B, C, dy), target_x (B, T, dx), context_mask (B, C) → `TargetByTarget`.
    Parameters and options are those of TNP-D. The loss is −(1/n) log p(y_1 … y_T | C), added up over the batch, n the
    targets present: a joint likelihood, not to be compared with TNP-D's marginal one.
    """

    def __call__(self, context_x: Any, context_y: Any, target_x: Any, context_mask: Any = None) -> TargetByTarget:
        return TargetByTarget(self, *self.sets(context_x, context_y, target_x, context_mask))


class TargetByTarget:
    """The joint distribution of T targets, as TNP-A gives it: a product of conditionals in the order of the targets.

    Known exactly: the law of each y_t given the values before it (`conditionals`), and so the density of all of them
    together (`log_prob`). The law of y_t given the context alone is known for the first target only, and for the others
    estimated (`marginals`).
    Shapes: sets as `NeuralProcess.sets` returns them; `shape` is (B,), `elements` (B, T, dy). Masks broadcast to the
    elements, True = counts; targets that do not count are left out of the chain and not looked at.
    """

    def __init__(self, model: TNPA, context_x: Any, context_y: Any, target_x: Any, context_mask: np.ndarray):
        self.model, self.target_x = model, target_x
        self.context_x, self.context_y, self.context_mask = context_x, context_y, context_mask
        self.elements = (*target_x.shape[:2], model.dy)
        self.shape = self.elements[:1]

    def log_prob(self, y: Any, *, mask: Any = None) -> Any:
        """log p(y_1 … y_T | C) = Σ_t log p(y_t | y_1 … y_{t−1}, C) of y (B, T, dy): (B,)."""
        return ag.sum(self.conditionals(y, mask=mask).log_prob(y, mask=mask), (1, 2))

    def conditionals(self, y: Any, *, mask: Any = None) -> Normal:
        """p(y_t | y_1 … y_{t−1}, C) for every t at once: mean and std (B, T, dy).

        Raises ValueError as `whole_targets`.
        """
        y, there = whole_targets("TargetByTarget", y, mask, self.elements)  # (B, T, dy), (B, T)
        model, c, t = self.model, self.context_x.shape[1], self.elements[1]
        known, real = model.observed(self.context_x, self.context_y), model.observed(self.target_x, y)
        tokens = ag.concatenate([known, real, model.asked(self.target_x)], 1)  # (B, C+2T, F)
        allowed = attention_mask(c, t)[:, : c + t]  # (C+2T, C+T)
        seen = np.concatenate([self.context_mask, there], 1)  # (B, C+T)
        if not seen.all():
            allowed = allowed & seen[:, None]  # (B, C+2T, C+T)
        z = model.encode(tokens, seen=c + t, wanted=t, mask=allowed)  # (B, T, D)
        return model.read_off(z)

    def sample(self, rng: np.random.Generator, shape: int | tuple[int, ...] = ()) -> np.ndarray:
        """Draws of all targets together, (*shape, B, T, dy), an array without gradient: coherent functions."""
        return self.paths(rng, shape)[0]

    def marginals(self, rng: np.random.Generator, paths: int = 50) -> Mixture:
        """p(y_t | C) = E p(y_t | y_1 … y_{t−1}, C), the mean over `paths` draws of the values before: an estimate.

        A mixture of `paths` normal distributions for every element (B, T, dy), with log_prob, mean and std.
        """
        return Mixture(self.paths(rng, paths)[1])

    def paths(self, rng: np.random.Generator, shape: int | tuple[int, ...] = ()) -> tuple[np.ndarray, Normal]:
        """Draws y (*shape, B, T, dy), and the conditionals N(μ_t, σ_t²) along them: y_t = μ_t + σ_t ε_t."""
        check_generator("TargetByTarget.sample", rng)
        shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        places, copies = raw(self.target_x), math.prod(shape)
        x = np.tile(places, (copies, 1, 1))  # (R, T, dx)
        mean, std, y = found = [np.empty((*x.shape[:2], self.model.dy), x.dtype) for _ in range(3)]  # (R, T, dy)
        noise = np.asarray(rng.standard_normal(y.shape), x.real.dtype)  # (R, T, dy)
        with ag.no_grad():
            reader = Reader(self, copies)
            for t in range(self.elements[1]):
                before, now = slice(max(t - 1, 0), t), slice(t, t + 1)
                p = reader.next(x[:, before], y[:, before], x[:, now])
                mean[:, now], std[:, now] = raw(p.mean), raw(p.std)
                y[:, now] = mean[:, now] + std[:, now] * noise[:, now]
        mean, std, y = (a.reshape(*shape, *self.elements) for a in found)  # (..., B, T, dy)
        return y, Normal(mean, std)


class Reader:
    """TNP-A reading target after target, with `copies` of each context; it keeps keys and values of what was seen."""

    def __init__(self, chain: TargetByTarget, copies: int):
        model = chain.model  # and the same with arrays for parameters, which takes half the time
        self.model = model.without_tape()
        self.caches = [KeyValueCache() for _ in model.layers]
        self.seen = chain.context_mask[:, None]  # (B, 1, C)
        context_x, context_y = raw(chain.context_x), raw(chain.context_y)
        self._read(self.model.observed(context_x, context_y), context_x.shape[1])
        rows = np.tile(np.arange(len(context_x)), copies)  # (R,)
        for cache in self.caches:
            cache.reorder(rows)
        self.seen = self.seen[rows]  # (R, 1, C)

    def next(self, before_x: np.ndarray, before_y: np.ndarray, x: np.ndarray) -> Normal:
        """p(y | all that was seen) at x (R, 1, dx), once the target before, (R, n, ·) with n = 0 or 1, has been seen.

        Its real token and the padded one of x attend to the same tokens, so they go through the layers together.
        """
        new = before_x.shape[1]
        self.seen = np.concatenate([self.seen, np.ones((len(x), 1, new), bool)], -1)  # (R, 1, M)
        tokens = ag.concatenate([self.model.observed(before_x, before_y), self.model.asked(x)], 1)  # (R, n+1, F)
        return self.model.read_off(self._read(tokens, new)[:, new:])

    def _read(self, tokens: Any, new: int) -> Any:
        """The layers' output for tokens (R, k, F), the first `new` of which stay: all attend to what stays."""
        z = self.model.embedder(tokens)  # (R, k, D)
        mask = None if self.seen.all() else over_heads(self.seen)
        for layer, cache in zip(self.model.layers, self.caches, strict=True):

            def attend(z, layer=layer, cache=cache):
                kept = cache.extend(*layer.attention.keys_and_values(z[:, :new], z[:, :new]))
                return layer.attention.look_up(z, *kept, mask=mask)

            z = layer.around_attention(attend, z)  # (R, k, D)
            z = layer.around_feed_forward(layer.feed_forward, z)  # (R, k, D)
        return z


class TNPND(TNP):
    """TNP-ND: `MultivariateNormal` over all T · dy numbers of a task, target after target, from `rank` features each.

    Shapes: context_x (B, C, dx), context_y (B, C, dy), target_x (B, T, dx), masks (B, C) and (B, T) → mean (B, T·dy),
    Cholesky factor (B, T·dy, T·dy): its `log_prob` takes y.reshape(B, T·dy), `log_prob` of this page y as it is.
    Targets that `target_mask` hides are not looked at; they are standard normal and independent of the others.
    `covariance` is "low_rank" or "cholesky", see above. A `floor` makes the diagonal of L in the latter
    f + (1 − f) tanh(·), with 0.05 the authors' `bound_std`; the low rank form has none.
    Raises ValueError for another covariance or a floor that does not fit, and as `NeuralProcess.sets`.
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
        target_layers: int = 2,
        embedding_depth: int = 4,
        rank: int = 20,
        covariance: str = "low_rank",
        flag: bool = False,
        floor: float = 0.0,
        rng: np.random.Generator,
    ):
        if covariance not in COVARIANCES:
            raise ValueError(f"TNPND: covariance is {covariance!r}; use 'low_rank' or 'cholesky'")
        if not 0 <= floor < 1 or (floor and covariance == "low_rank"):
            raise ValueError(f"TNPND: floor is {floor}; it must be 0, or for covariance='cholesky' lie in [0, 1)")
        if rank < 1 or target_layers < 0:
            raise ValueError(f"TNPND: rank {rank} must be positive, target_layers {target_layers} not negative")
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
        self.mean = MLP([features, hidden, dy], rng=rng)
        self.target_layers = [EncoderLayer(features, heads, hidden, rng=rng) for _ in range(target_layers)]
        self.projector = MLP([features, hidden, hidden, hidden, rank * dy], rng=rng)
        low_rank = covariance == "low_rank"
        self.diagonal = MLP([features, hidden, hidden, hidden, dy], rng=rng) if low_rank else None
        self.rank, self.floor = rank, floor

    def __call__(
        self, context_x: Any, context_y: Any, target_x: Any, context_mask: Any = None, target_mask: Any = None
    ) -> MultivariateNormal:
        there = check_presence("TNPND", "target_mask", target_mask, np.shape(target_x)[:2])
        context_x, context_y, target_x, mask = self.sets(context_x, context_y, present(there, target_x), context_mask)
        tokens = ag.concatenate([self.observed(context_x, context_y), self.asked(target_x)], 1)  # (B, C+T, F)
        seen = None if mask.all() else mask[:, None]  # (B, 1, C)
        b, t, _ = target_x.shape
        z = self.encode(tokens, seen=mask.shape[1], wanted=t, mask=seen)  # (B, T, D)
        mean = ag.reshape(self.mean(z), (b, t * self.dy))  # (B, T·dy)
        return MultivariateNormal(mean, self._factor(z, there))

    def _factor(self, z: Any, there: np.ndarray) -> Any:
        """The Cholesky factor (B, T·dy, T·dy) from target tokens z (B, T, D), `there` (B, T) says which are present."""
        b, t, _ = z.shape
        seen = z
        for layer in self.target_layers:
            seen = layer(seen, mask=None if there.all() else there[:, None])  # (B, T, D)
        p = ag.reshape(self.projector(seen), (b, t * self.dy, self.rank))  # (B, T·dy, R)
        products = p @ ag.swapaxes(p, -1, -2)  # (B, T·dy, T·dy)
        on_diagonal = np.eye(t * self.dy, dtype=bool)
        if self.diagonal is not None:
            d = ag.reshape(ag.exp(self.diagonal(z)), (b, 1, t * self.dy))  # (B, 1, T·dy)
            return ag.cholesky(apart(products + ag.where(on_diagonal, d, 0.0), there))
        if self.floor:
            bounded = self.floor + (1 - self.floor) * ag.tanh(products)  # (B, T·dy, T·dy)
            products = ag.where(on_diagonal, bounded, products)  # (B, T·dy, T·dy)
        return ag.where(np.tri(t * self.dy, dtype=bool), apart(products, there), 0.0)

    @on_tape()
    def loss(self, task: Any, *, rng: np.random.Generator | None = None) -> Tensor:
        """−(1/n) Σ log p(y_1 … y_T | C) over the batch, n the targets present: the joint likelihood per target.

        Elsewhere: in training TNP-pytorch divides by the number of tasks, in evaluation by that of targets.
        """
        target_x, target_y, mask = self.targets(task)
        joint = self(task.context_x, task.context_y, target_x, task.context_mask, mask)
        return -ag.sum(log_prob(joint, target_y, mask)) / max(int(mask.sum()), 1)


def apart(matrices: Any, there: np.ndarray) -> Any:
    """Matrices (B, T·dy, T·dy) with the rows and columns of the identity for targets that are not there (B, T)."""
    if there.all():
        return matrices
    there = np.repeat(there, matrices.shape[-1] // max(there.shape[1], 1), axis=1)  # (B, T·dy)
    identity = np.eye(there.shape[1], dtype=raw(matrices).dtype)  # (T·dy, T·dy)
    return ag.where(there[:, :, None] & there[:, None], matrices, identity)


def log_prob(joint: MultivariateNormal, y: Any, mask: np.ndarray | None = None) -> Any:
    """log p of y (B, T, dy) where mask (B, T) is True, all together: (B,)."""
    b, t, dy = y.shape
    counts = None if mask is None or mask.all() else np.repeat(mask, dy, axis=1)  # (B, T·dy)
    return joint.log_prob(ag.reshape(y, (b, t * dy)), mask=counts)


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
