"""Transformer neural processes: context and targets are tokens of one Transformer encoder.

    context token  [x_m, y_m]        target token  [x_n, 0]        all of them through an embedding MLP
    TNP-D     p(y_n | x_n, C) = N(μ_n, σ_n²)             μ_n and σ_n from what becomes of target token n
    TNP-A     p(y_1 … y_N | C) = Π_n N(y_n; μ_n, σ_n²)   μ_n and σ_n from C, (x_1, y_1) … (x_{n−1}, y_{n−1}) and x_n
    TNP-ND    p(y_1 … y_N | C) = N(μ, Σ)                 μ_n = MLP(z_n), Σ from tokens that attended to each other

They differ in who may attend to whom: `diagonal_mask`, `autoregressive_mask` and `nondiagonal_mask`, below. Where no
token attends to a target, it is predicted as if it stood alone: predictions are permuted with the targets. In all of
them the context has no order.

**In less time.** Columns of a mask that are False in every row need no keys and values, and after the last layer only
the tokens that are read off matter. So `TNP.encode` gives each layer as keys the tokens that are attended to, and
the last layer the targets' tokens alone as queries. What it computes is the encoder under the whole mask (tested).

**Layers of their own.** In the published TNP one layer serves all tokens, and a token that is read off attends to what
the layer was given. The TE-TNP code has it otherwise, and so have two options here: with `untied` tokens that are read
off go through layers with weights of their own; with `updated` they attend to what the layer has made of the others.

Source: Sivaraya (2023) §3.2, eq. 8 and 9, §3.3, which leaves open whether a padded token of TNP-A attends to itself;
Nguyen & Grover (2022), arXiv 2207.04179; TNP-pytorch, whose masks these are and whose
weights `refnp.models.published.tnp` reads.
Elsewhere: the TE-TNP code's TNP has norm="pre", updated=True, untied=True unless it is given one kind of layer.
TNP-pytorch computes all tokens anew for every target of a sample of TNP-A, and in training with a floor
under σ adds noise of 0.05 to the y of real tokens.
Transcription: tests/transcriptions/tnp.py.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.errors import explained
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.layers.distributions import Normal
from refnp.layers.key_value_cache import KeyValueCache
from refnp.layers.linear import MLP
from refnp.layers.multivariate_normal import MultivariateNormal
from refnp.models.chain_rule import ChainRule, OneByOne
from refnp.models.checks import (
    DEVIATIONS,
    check_deviation,
    check_flagged,
    check_floor,
    check_positive_counts,
    check_presence,
    present,
)
from refnp.models.joint import JointNormal
from refnp.models.neural_process import NeuralProcess, for_every_query, normal_of
from refnp.models.transformer_layers import EncoderLayer

if TYPE_CHECKING:
    from refnp.tasks import Task


@explained
def diagonal_mask(contexts: int, targets: int) -> np.ndarray:
    """TNP-D: every token attends to the M context tokens and to nothing else. Booleans (M+N, M+N), True = may attend.

    With 2 contexts C and 3 targets T:

              C C T T T
        C     1 1 0 0 0
        C     1 1 0 0 0
        T     1 1 0 0 0
        T     1 1 0 0 0
        T     1 1 0 0 0

    Raises ValueError for negative numbers.
    """
    check_lengths("diagonal_mask", contexts, targets)
    return np.tile(np.arange(contexts + targets) < contexts, (contexts + targets, 1))


@explained
def autoregressive_mask(contexts: int, targets: int) -> np.ndarray:
    """TNP-A: a target has a real token [x_n, y_n] and a padded one [x_n, 0], from which μ_n and σ_n are read off.

    Real token n attends to the context and to real tokens 1 … n, padded token n to the context and to real tokens
    1 … n − 1: not to itself, nor to any other padded token. Booleans (M+2N, M+2N), True = may attend.
    With 2 contexts C and 3 targets, R their real tokens and P their padded ones:

              C C R R R P P P
        C     1 1 0 0 0 0 0 0
        C     1 1 0 0 0 0 0 0
        R     1 1 1 0 0 0 0 0
        R     1 1 1 1 0 0 0 0
        R     1 1 1 1 1 0 0 0
        P     1 1 0 0 0 0 0 0
        P     1 1 1 0 0 0 0 0
        P     1 1 1 1 0 0 0 0

    Raises ValueError for negative numbers.
    """
    check_lengths("autoregressive_mask", contexts, targets)
    mask = np.zeros((contexts + 2 * targets, contexts + 2 * targets), bool)
    mask[:, :contexts] = True
    real, padded = slice(contexts, contexts + targets), slice(contexts + targets, None)
    mask[real, real] = np.tri(targets, dtype=bool)
    mask[padded, real] = np.tri(targets, k=-1, dtype=bool)
    return mask


@explained
def nondiagonal_mask(target_mask: np.ndarray) -> np.ndarray:
    """TNP-ND: after layers under `diagonal_mask`, target layers in which targets attend to all targets present.

    Shapes: target_mask (B, N) → (B, N, N), True = may attend. With 3 targets T, the last of them hidden:

              T T T
        T     1 1 0
        T     1 1 0
        T     1 1 0

    Raises TypeError unless target_mask is boolean, ValueError unless it has two axes.
    """
    target_mask = check_presence("nondiagonal_mask", "target_mask", target_mask, np.shape(target_mask))
    if target_mask.ndim != 2:
        raise ValueError(f"nondiagonal_mask: target_mask has shape {target_mask.shape}; it must be (B, N)")
    return np.repeat(target_mask[:, None], target_mask.shape[1], 1)


def check_lengths(name: str, contexts: int, targets: int) -> None:
    """ValueError for a negative number of points."""
    if contexts < 0 or targets < 0:
        raise ValueError(f"{name}: contexts {contexts} and targets {targets} must not be negative")


class TokenModel(NeuralProcess):
    """What models have in common whose points are tokens, which an MLP embeds and layers of attention change.

    features, heads, hidden: the width D of a token, the heads of its attention, the hidden units of feed-forward
        networks and of the MLPs that read off the answer.
    layers: the number of layers.
    embedding_depth: the number of linear maps of the embedding MLP, relu between them.
    flagged: which tokens have 1 in the place of the flag, those of the "context", whose y is known, or of the
        "targets".
    """

    def __init__(
        self,
        *sizes: int,
        features: int = 64,
        heads: int = 4,
        hidden: int = 128,
        layers: int = 5,
        embedding_depth: int = 2,
        flagged: str = "context",
        **options: Any,
    ):
        super().__init__(*sizes, **options)
        check_positive_counts(type(self).__name__, layers=layers, embedding_depth=embedding_depth)
        check_flagged(type(self).__name__, flagged)
        self.layer_sizes, self.depth, self.flagged = (features, heads, hidden), layers, flagged
        self.embedding_widths = [features] * embedding_depth

    def add_layers(self, layer: Callable, untied: bool, updated: bool) -> None:
        """Assign the layers that `layer(moves)` makes; `moves`: whether something attends to its tokens afterwards."""

        def stack(count, moving):
            return [layer(i < moving) for i in range(count)]

        # After the last layer nothing attends to the others, unless tokens that are read off wait for what it makes.
        self.layers = stack(self.depth - (untied and not updated), self.depth - (not updated))
        self.reading_layers = stack(self.depth, self.depth - 1) if untied else None
        self.apart, self.updated = untied or updated, updated


class TNP(TokenModel):
    """What the three have in common: tokens, and the layers of the encoder (ReLU).

    norm: "post" or "pre", LayerNorm after or before a sub-layer.
    untied: tokens that are read off have layers of their own; else one layer serves all tokens.
    updated: tokens that are read off attend to what a layer has made of the others; else to what it was given.
    flag: tokens have one number more, 1 where y was observed and 0 where not, or with flagged="targets" the other way
        round. Without it y = 0 also stands for "not known": a context point at 0 and a target are the same token.
    Other options: those of `TokenModel`.
    """

    def __init__(
        self,
        *sizes: int,
        layers: int = 6,
        embedding_depth: int = 4,
        flag: bool = False,
        norm: str = "post",
        untied: bool = False,
        updated: bool = False,
        rng: np.random.Generator,
        **options: Any,
    ):
        super().__init__(*sizes, layers=layers, embedding_depth=embedding_depth, **options)
        self.flag, self.norm = flag, norm
        self.embedder = MLP([self.dx + self.dy + flag, *self.embedding_widths], rng=rng)
        self.add_layers(lambda _: EncoderLayer(*self.layer_sizes, norm=norm, rng=rng), untied, updated)

    def attention_mask(self, contexts: int, targets: int) -> np.ndarray:
        """Who may attend to whom, among the tokens of M context points and N targets: `diagonal_mask`, (M+N, M+N)."""
        return diagonal_mask(contexts, targets)

    def observed(self, x: Array | Tensor, y: Array | Tensor) -> Array | Tensor:
        """Tokens of points whose y is known: [x, y], or [x, y, 1], (B, N, dx+dy+flag)."""
        known = [x, y, np.full_like(raw(x)[..., :1], self.flagged == "context")] if self.flag else [x, y]
        return ag.concatenate(known, -1)

    def unobserved(self, x: Array | Tensor) -> Array | Tensor:
        """Tokens of points whose y is not known: [x, 0], or [x, 0, 0], (B, N, dx+dy+flag)."""
        zero = np.zeros_like(raw(x)[..., :1])
        flag = [np.full_like(zero, self.flagged == "targets")] if self.flag else []
        return ag.concatenate([x, *[zero] * self.dy, *flag], -1)

    def encode(self, attended: Array | Tensor, read: Array | Tensor, mask: np.ndarray | None = None) -> Array | Tensor:
        """The tokens that are read off after all layers, (B, N, D): see "In less time" above.

        Shapes: tokens `attended` (B, K, F) that others attend to, and `read` (B, N, F) that none attends to; mask
        (..., K+N, K), or (..., 1, K) the same for all, True = may attend; None: all may.
        """
        count = attended.shape[1]
        x = self.embedder(ag.concatenate([attended, read], 1))  # (B, K+N, D)
        if self.apart:
            return self.encode_apart(x[:, :count], x[:, count:], mask)
        for layer in self.layers[:-1]:
            x = layer(x, x[:, :count], mask=mask)  # (B, K+N, D)
        if mask is not None and mask.shape[-2] > 1:
            mask = mask[..., count:, :]
        return self.layers[-1](x[:, count:], x[:, :count], mask=mask)

    def encode_apart(
        self, known: Array | Tensor, asked: Array | Tensor, mask: np.ndarray | None, caches: Sequence = ()
    ) -> Array | Tensor:
        """`encode` where tokens that are read off, `asked` (B, N, D), are not layer by layer beside the others.

        `caches` are two for each layer, of what `known` (B, K, D) and `asked` attend to besides.
        """
        count = known.shape[1]
        among = onto = mask
        if mask is not None and mask.shape[-2] > 1:
            among, onto = mask[..., :count, :], mask[..., count:, :]
        readers = self.layers if self.reading_layers is None else self.reading_layers
        for i, reader in enumerate(readers):
            cache, reading_cache = caches[i] if caches else (None, None)
            given = known
            if self.updated or i < len(readers) - 1:
                known = self.layers[i](given, given, mask=among, cache=cache)  # (B, K, D)
            keys = known if self.updated else given
            asked = reader(asked, keys, mask=onto, cache=reading_cache)  # (B, N, D)
        return asked

    def targets_given(
        self, context_x: Array | Tensor, context_y: Array | Tensor, target_x: Array | Tensor, context_mask: np.ndarray
    ) -> Array | Tensor:
        """Target tokens (B, N, D) under `diagonal_mask`, for sets as `self.sets` returns them."""
        mask = for_every_query(context_mask)  # (B, 1, M)
        return self.encode(self.observed(context_x, context_y), self.unobserved(target_x), mask)


class ReadOff(NeuralProcess):
    """What models have in common that predict each target alone: y_n ~ N(μ_n, σ_n²), [μ_n, s_n] = MLP(target token n).

    predictor_depth: the number of linear maps of the MLP, relu between them.
    floor: the least σ. σ = exp(s) without one, f + (1 − f) log(1 + exp(s)) with floor f; 0.05 is `bound_std` of
        TNP-pytorch.
    deviation: how σ comes from s and the floor; as above ("published"), or "softplus", "exp" or "softplus_variance" as
        in `normal_of`.
    Other options: those of the model that the tokens are of, a `TokenModel`.
    """

    layer_sizes: tuple[int, int, int]

    def __init__(
        self,
        *sizes: int,
        floor: float = 0.0,
        deviation: str = "published",
        predictor_depth: int = 2,
        rng: np.random.Generator,
        **options: Any,
    ):
        super().__init__(*sizes, rng=rng, **options)  # type: ignore[call-arg]  # a TokenModel
        check_positive_counts(type(self).__name__, predictor_depth=predictor_depth)
        check_floor(type(self).__name__, floor)
        check_deviation(type(self).__name__, deviation, ("published", *DEVIATIONS))
        features, _, hidden = self.layer_sizes
        self.predictor = MLP([features, *[hidden] * (predictor_depth - 1), 2 * self.dy], rng=rng)
        self.floor, self.deviation = floor, deviation

    def read_off(self, z: Array | Tensor) -> Normal:
        """The distribution (B, N, dy) of targets from their tokens after all layers, (B, N, D)."""
        return exponential_normal(self.predictor(z), self.floor, self.deviation)


class TNPD(ReadOff, TNP):
    """TNP-D: y_n ~ N(μ_n, σ_n²), each target alone, [μ_n, s_n] = MLP(target token n).

    Shapes: context_x (B, M, dx), context_y (B, M, dy), target_x (B, N, dx), context_mask (B, M) → Normal with mean and
    std (B, N, dy). A context may be empty, M = 0 or all masked: targets then attend to nothing, which adds 0.

    Options: those of `TNP` and of `ReadOff`.
    """

    def _predicted(
        self, context_x: Array | Tensor, context_y: Array | Tensor, mask: np.ndarray, target_x: Array | Tensor
    ) -> Normal:
        return self.read_off(self.targets_given(context_x, context_y, target_x, mask))


class TNPA(TNPD):
    """TNP-A: the joint distribution of all targets in their order, a `ChainRule` whose factors come in one pass.

    Shapes: context_x (B, M, dx), context_y (B, M, dy), target_x (B, N, dx), context_mask (B, M) → ChainRule.
    Its parameters are those of TNP-D, and so is its answer for the first target. The loss is
    −(1/n) log p(y_1 … y_N | C), added up over the batch, n the targets present: a joint likelihood, not to be compared
    with TNP-D's marginal one.
    """

    joint_loss = True

    def attention_mask(self, contexts: int, targets: int) -> np.ndarray:
        """Who may attend to whom, among context tokens, real and padded ones: `autoregressive_mask`, (M+2N, M+2N)."""
        return autoregressive_mask(contexts, targets)

    def _predicted(  # type: ignore[override]  # a joint distribution where TNP-D has marginal ones
        self, context_x: Array | Tensor, context_y: Array | Tensor, mask: np.ndarray, target_x: Array | Tensor
    ) -> ChainRule:
        return ChainRule(InOnePass(self, context_x, context_y, mask), target_x)

    def marginal(self, task: "Task", *, rng: np.random.Generator | None = None) -> Normal:
        """q(y_n | x_n, C) of every target as the first of a chain, which is what TNP-D says: (B, N, dy)."""
        context_x, context_y, target_x, mask = self.sets(*self.inputs(task))
        return super()._predicted(context_x, context_y, mask, target_x)


class InOnePass(OneByOne):
    """The factors of TNP-A's chain rule: all in one pass if y is known, and with a cache of keys and values if not."""

    model: TNPA

    def conditionals(self, x: Array | Tensor, y: Array | Tensor, there: np.ndarray) -> Iterator[tuple[slice, Normal]]:
        """p(y_n | y_1 … y_{n−1}, C) for every n at once, N(μ_n, σ_n²) with mean and std (R, N, dy)."""
        context_x, context_y, mask = self.context(len(there))
        observed = self.model.observed
        attended = ag.concatenate([observed(context_x, context_y), observed(x, y)], 1)  # (R, M+N, F)
        m, n = mask.shape[1], x.shape[1]
        allowed = self.model.attention_mask(m, n)[:, : m + n]  # (M+2N, M+N)   nothing attends to padded tokens
        known = np.concatenate([mask, there], 1)  # (R, M+N)
        if not known.all():
            allowed = allowed & known[:, None]  # (R, M+2N, M+N)
        yield slice(0, n), self.model.read_off(self.model.encode(attended, self.model.unobserved(x), allowed))

    def start(self, copies: int) -> "CachedReading":
        """The reader of targets one after the other."""
        return CachedReading(self, copies)

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """ε of all draws y_n = μ_n + σ_n ε_n."""
        return np.asarray(rng.standard_normal(shape), raw(self.context_y).real.dtype)


class CachedReading:
    """TNP-A reading target after target, with `copies` of each context: keys and values of real tokens are kept.

    The real token of a target and the padded one of the next attend to the same tokens, so they go through the layers
    together, two tokens for each target.
    """

    def __init__(self, factors: InOnePass, copies: int):
        self.model = factors.model.without_tape()
        pairs = range(len(self.model.reading_layers or self.model.layers))
        self.caches = [(KeyValueCache(), KeyValueCache()) for _ in pairs]  # the second ones where layers are apart
        self.known = factors.context_mask[:, None]  # (B, 1, M)
        self._read(self.model.observed(raw(factors.context_x), raw(factors.context_y)), self.known.shape[-1])
        rows = np.tile(np.arange(len(self.known)), copies)  # (R,)
        for cache in itertools.chain(*self.caches):
            cache.reorder(rows)
        self.known = self.known[rows]  # (R, 1, M)

    def __call__(self, x: Array, before_x: Array, before_y: Array) -> Normal:
        """p(y | C and all targets before) at x (R, 1, dx); the last of those before, (R, n, ·), is the one to read."""
        new = min(before_x.shape[1], 1)
        self.known = np.concatenate([self.known, np.ones((len(x), 1, new), bool)], -1)  # (R, 1, K)
        real = self.model.observed(before_x[:, -1:], before_y[:, -1:])  # (R, n, F)
        return self.model.read_off(self._read(ag.concatenate([real, self.model.unobserved(x)], 1), new))

    def _read(self, tokens: Any, new: int) -> Any:
        """The layers' output for tokens (R, k, F) but the first `new`, which are kept: all attend to what is kept."""
        z = self.model.embedder(tokens)  # (R, k, D)
        mask = None if self.known.all() else self.known
        if self.model.apart:
            return self.model.encode_apart(z[:, :new], z[:, new:], mask, self.caches)
        for layer, (cache, _) in zip(self.model.layers, self.caches, strict=True):
            z = layer(z, z[:, :new], mask=mask, cache=cache)  # (R, k, D)
        return z[:, new:]


class TNPND(JointNormal, TNP):
    """TNP-ND: a `MultivariateNormal` over all N·dy numbers of a task, target after target. Two forms of its covariance:

        "low_rank"    Σ = P Pᵀ + diag(exp(d)), d_n = MLP(z_n)   permutes with the targets, positive definite if exp(d)
                                                                is not lost in the rounding of P Pᵀ
        "cholesky"    Σ = L Lᵀ, L = tril(P Pᵀ)                  depends on the order of the targets; singular if a row
                                                                of P is 0

    P are rows of an MLP of target tokens that have attended to each other. The second is the default of TNP-pytorch:
    P Pᵀ permutes with the targets, its lower triangle does not, so the same targets in another order get another
    likelihood.

    Shapes: context_x (B, M, dx), context_y (B, M, dy), target_x (B, N, dx), masks (B, M) and (B, N) → mean (B, N·dy),
    Cholesky factor (B, N·dy, N·dy): its `log_prob` takes y.reshape(B, N·dy), `joint_log_prob` a task as it is.
    Targets that `target_mask` hides are standard normal and independent of the others. The loss is the joint likelihood
    per target; TNP-pytorch divides by the number of tasks in training, and by that of targets in evaluation.

    target_layers: the number of layers in which targets attend to each other.
    rank: the width of a row of P.
    mean_depth, projector_depth, diagonal_depth: the number of linear maps of the MLPs of μ, of P and of d.
    covariance: "low_rank" or "cholesky".
    floor: with "cholesky" the diagonal of L is f + (1 − f) tanh(·), 0.05 is `bound_std` of TNP-pytorch; "low_rank" has
        none.
    Other options: those of `TNP`.

    Raises ValueError for another covariance or a floor that does not fit; when called, for shapes that disagree, or NaN
    or infinity in what is present; TypeError for a mask that is not boolean.   Source: Nguyen & Grover (2022) §3.3.
    """

    def __init__(
        self,
        *sizes: int,
        target_layers: int = 2,
        rank: int = 20,
        covariance: str = "low_rank",
        floor: float = 0.0,
        mean_depth: int = 2,
        projector_depth: int = 4,
        diagonal_depth: int = 4,
        rng: np.random.Generator,
        **options: Any,
    ):
        if covariance not in ("low_rank", "cholesky"):
            raise ValueError(f"TNPND: covariance is {covariance!r}; use 'low_rank' or 'cholesky'")
        if not 0 <= floor < 1 or (floor and covariance == "low_rank"):
            raise ValueError(f"TNPND: floor is {floor}; it must be 0, or for covariance='cholesky' lie in [0, 1)")
        if rank < 1 or target_layers < 0:
            raise ValueError(f"TNPND: rank {rank} must be positive, target_layers {target_layers} not negative")
        depths = {"mean_depth": mean_depth, "projector_depth": projector_depth, "diagonal_depth": diagonal_depth}
        check_positive_counts("TNPND", **depths)
        super().__init__(*sizes, rng=rng, **options)
        features, _, hidden = self.layer_sizes
        self.mean = MLP([features, *[hidden] * (mean_depth - 1), self.dy], rng=rng)
        self.target_layers = [EncoderLayer(*self.layer_sizes, norm=self.norm, rng=rng) for _ in range(target_layers)]
        self.projector = MLP([features, *[hidden] * (projector_depth - 1), rank * self.dy], rng=rng)
        low_rank = covariance == "low_rank"
        self.diagonal = MLP([features, *[hidden] * (diagonal_depth - 1), self.dy], rng=rng) if low_rank else None
        self.rank, self.floor = rank, floor

    def __call__(
        self,
        context_x: ArrayLike,
        context_y: ArrayLike,
        target_x: Array | Tensor,
        context_mask: ArrayLike | None = None,
        target_mask: ArrayLike | None = None,
    ) -> MultivariateNormal:
        target_mask = check_presence("TNPND", "target_mask", target_mask, np.shape(target_x)[:2])
        target_x = present(target_mask, target_x)
        z = self.targets_given(*self.sets(context_x, context_y, target_x, context_mask))  # (B, N, D)
        mean = ag.reshape(self.mean(z), (z.shape[0], z.shape[1] * self.dy))  # (B, N·dy)
        return MultivariateNormal(mean, self._factor(z, target_mask))

    def _factor(self, z: Any, target_mask: np.ndarray) -> Any:
        """The Cholesky factor (B, N·dy, N·dy) from target tokens z (B, N, D)."""
        b, n, _ = z.shape
        among = z
        for layer in self.target_layers:
            among = layer(among, mask=None if target_mask.all() else nondiagonal_mask(target_mask))  # (B, N, D)
        p = ag.reshape(self.projector(among), (b, n * self.dy, self.rank))  # (B, N·dy, R)
        products = p @ ag.swapaxes(p, -1, -2)  # (B, N·dy, N·dy)
        on_diagonal = np.eye(n * self.dy, dtype=bool)
        if self.diagonal is not None:
            d = ag.reshape(ag.exp(self.diagonal(z)), (b, 1, n * self.dy))  # (B, 1, N·dy)
            return ag.cholesky(apart(products + ag.where(on_diagonal, d, 0.0), target_mask))
        if self.floor:
            bounded = self.floor + (1 - self.floor) * ag.tanh(products)  # (B, N·dy, N·dy)
            products = ag.where(on_diagonal, bounded, products)  # (B, N·dy, N·dy)
        return ag.where(np.tri(n * self.dy, dtype=bool), apart(products, target_mask), 0.0)

    def joint(self, task: "Task") -> MultivariateNormal:
        """The distribution of all N dy numbers of the targets that are present."""
        return self(*self.inputs(task), task.target_mask)

    joint_normal = joint


def apart(matrices: Array | Tensor, there: np.ndarray) -> Array | Tensor:
    """Matrices (B, N·dy, N·dy) with the rows and columns of the identity for targets that are not there (B, N)."""
    if there.all():
        return matrices
    there = np.repeat(there, matrices.shape[-1] // max(there.shape[1], 1), axis=1)  # (B, N·dy)
    identity = np.eye(there.shape[1], dtype=raw(matrices).dtype)  # (N·dy, N·dy)
    return ag.where(there[:, :, None] & there[:, None], matrices, identity)


def exponential_normal(values: Array | Tensor, floor: float = 0.0, deviation: str = "published") -> Normal:
    """[μ, s] (..., 2 dy) → N(μ, σ²), (..., dy), with σ = exp(s); with a floor, σ as `normal_of` has it.

    Another `deviation` than "published" is one of `normal_of`, with the floor or without.
    """
    if deviation == "published":
        deviation = "softplus" if floor else "exp"
    return normal_of(values, floor, deviation)
