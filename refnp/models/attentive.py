"""Attentive neural processes: each target attends to the context points that are near it.

    r_n = Block(query(x_n), key(x_m), value(x_m, y_m))        p(y_n | x_n, C) = N(μ_n, σ_n²) from MLP(r_n, r or z, x_n)

The CNP's one vector r for all targets blurs what is known at a place. Here queries are made of the targets' x, keys of
the context's x, and r_n is local; the mean r, or the latent z, is kept beside it. Nothing depends on the order of the
context. For a target without a context attention gives 0, and the block computes from the query alone.

The block, with the projected queries in the residual path:

    u = LN(q + Attention(q, k, v)),   Block = LN(u + relu(u W + b)),      q = Q W_q, k = K W_k, v = V W_v

Scaling. Scores q·k are divided by √(width of a head), as in Vaswani et al. (2017). The Set Transformer's code, and
through it the baselines of TNP-pytorch, divide by √(width of all heads): scaling="features". With 8 heads on 128
features that is √128 and not √16, a softmax 2.8 times flatter; weights trained with one do not fit the other.

Source: Sivaraya (2023) §3.1; Kim et al. (2019), arXiv 1901.05761; the block: Lee et al. (2019), arXiv 1810.00825, eq. 6
and 7, and their code.
Transcription: tests/transcriptions/neural_processes.py.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, Tensor
from refnp.kernels.attention import one_over_root
from refnp.layers.activation import relu
from refnp.layers.attention import attention
from refnp.layers.distributions import Normal
from refnp.layers.layer_norm import LayerNorm
from refnp.layers.linear import MLP, Linear, side_by_side
from refnp.layers.masks import without_unread
from refnp.layers.module import Module
from refnp.layers.multi_head import merge_heads, split_heads
from refnp.models.checks import check_positive_counts
from refnp.models.latent import LatentModel
from refnp.models.neural_process import (
    ByRepresentation,
    NeuralProcess,
    SetEncoder,
    for_every_query,
    normal_of,
)


class AttentionBlock(Module):
    """LN(u + relu(u W + b)) with u = LN(q + Attention(q, k, v)), and q, k, v projected without bias.

    Shapes: query (..., N, D), key and value (..., M, D), mask (..., N, M) → (..., N, D), D = `features`.
    `scaling` is "head", scores over √(D/heads), or "features", over √D.
    Raises ValueError if the heads do not divide the features, or for another scaling.
    """

    def __init__(self, features: int, heads: int, *, scaling: str = "head", rng: np.random.Generator):
        if heads < 1 or features % heads:
            raise ValueError(f"AttentionBlock: {heads} heads do not divide {features} features equally")
        if scaling not in ("head", "features"):
            raise ValueError(f"AttentionBlock: scaling is {scaling!r}; use 'head' or 'features'")
        self.query, self.key, self.value = (Linear(features, features, bias=False, rng=rng) for _ in range(3))
        self.output = Linear(features, features, rng=rng)
        self.first_norm, self.second_norm = LayerNorm(features), LayerNorm(features)
        self.heads, self.scaling = heads, scaling

    def __call__(
        self, query: Array | Tensor, key: Array | Tensor, value: Array | Tensor, mask: np.ndarray | None = None
    ) -> Array | Tensor:
        key, value = without_unread(mask, key), without_unread(mask, value)
        q, k, v = self.query(query), self.key(key), self.value(value)  # (..., N, D), (..., M, D), (..., M, D)
        heads = (split_heads(a, self.heads) for a in (q, k, v))
        scale = None if self.scaling == "head" else one_over_root(raw(q))  # of all features
        mask = None if mask is None else mask[..., None, :, :]  # one for all heads
        found = attention(*heads, mask=mask, scale=scale)  # (..., H, N, d)
        u = self.first_norm(q + merge_heads(found))  # (..., N, D)
        return self.second_norm(u + relu(self.output(u)))  # (..., N, D)


class CrossEncoder(Module):
    """What each target finds in the context: r_n = Block(query(x_n), key(x_m), value(x_m, y_m)).

    Queries and keys are made by one MLP of x with `query_depth` linear maps, values by one of (x, y) with `depth` − 2
    and a self-attention block, in which the context points attend to each other; `hidden` is the width of all.
    Shapes: context_x (B, M, dx), pairs (..., B, M, dx+dy), mask (B, M), target_x (B, N, dx) → (..., B, N, hidden).
    """

    def __init__(
        self,
        dx: int,
        dy: int,
        hidden: int,
        heads: int,
        *,
        depth: int,
        query_depth: int,
        scaling: str,
        activation: Callable,
        rng: np.random.Generator,
    ):
        self.value = MLP([dx + dy, *[hidden] * (depth - 2)], activation=activation, rng=rng)
        self.self_attention = AttentionBlock(hidden, heads, scaling=scaling, rng=rng)
        self.place = MLP([dx, *[hidden] * query_depth], activation=activation, rng=rng)
        self.cross_attention = AttentionBlock(hidden, heads, scaling=scaling, rng=rng)

    def __call__(
        self, context_x: Array | Tensor, pairs: Array | Tensor, mask: np.ndarray, target_x: Array | Tensor
    ) -> Array | Tensor:
        values = self.value(pairs)  # (..., B, M, F)
        allowed = for_every_query(mask)  # (B, 1, M)
        values = self.self_attention(values, values, values, allowed)  # (..., B, M, F)
        return self.cross_attention(self.place(target_x), self.place(context_x), values, allowed)


class Attentive(NeuralProcess):
    """What CANP and ANP have in common: what each target finds in the context itself, r_n, beside one vector for all.

    A subclass says in `_add_vector` which vector that is.

    hidden, heads: the width of all hidden layers, and the heads of attention.
    depth: the number of linear maps of (x, y), of which the last two are a self-attention block.
    query_depth, after: the number of linear maps of x, and of those after the mean.
    decoder: the number of linear maps of the last MLP.
    scaling: "head", scores over √(width of a head), or "features", over √(width of all heads).
    activation: between the linear maps.
    before: the depth of the path with the mean, where it is another than `depth`, that of the values for attention.
    Raises ValueError for depths below 3, counts below 1, or another scaling.
    """

    _add_vector: Callable

    def __init__(
        self,
        *sizes: int,
        hidden: int = 128,
        heads: int = 8,
        activation: Callable = relu,
        scaling: str = "head",
        depth: int = 4,
        before: int | None = None,
        query_depth: int = 2,
        after: int = 2,
        decoder: int = 3,
        rng: np.random.Generator,
        **options: Any,
    ):
        super().__init__(*sizes, **options)
        before = depth if before is None else before
        check_depths(type(self).__name__, depth=depth, before=before)
        check_positive_counts(type(self).__name__, query_depth=query_depth, after=after, decoder=decoder)
        like: dict[str, Any] = {"activation": activation, "rng": rng}
        self.cross_encoder = CrossEncoder(
            self.dx, self.dy, hidden, heads, depth=depth, query_depth=query_depth, scaling=scaling, **like
        )
        block = AttentionBlock(hidden, heads, scaling=scaling, rng=rng)
        of_set = partial(SetEncoder, self.dx + self.dy, hidden, before=before - 2, after=after, attention=block, **like)
        last = [*[hidden] * (decoder - 1), 2 * self.dy]
        self._add_vector(hidden, of_set, lambda features: MLP([hidden + features + self.dx, *last], **like))


class CANP(Attentive, ByRepresentation):
    """The attentive CNP: beside the mean r over the context, what each target finds there itself, r_n.

    Shapes: contexts (B, M, dx) and (B, M, dy), targets (B, N, dx), mask (B, M) → Normal of (B, N, dy).
    Options: those of `Attentive` and of `NormalOutputs`.

    CANP(floor=0.1, scaling="features") is the baseline of TNP-pytorch.
    """

    def _add_vector(self, hidden: int, set_encoder: Callable, decoder: Callable) -> None:
        self.encoder, self.decoder = set_encoder(hidden), decoder(hidden)

    def represent(
        self, context_x: Array | Tensor, context_y: Array | Tensor, mask: np.ndarray, target_x: Array | Tensor
    ) -> Array | Tensor:
        """What the decoder is given for each target beside x, [r_n, r], (..., B, N, F)."""
        pairs = side_by_side(context_x, context_y)  # (..., B, M, dx+dy)
        local = self.cross_encoder(context_x, pairs, mask, target_x)  # (..., B, N, F)
        return side_by_side(local, self.encoder(pairs, mask)[..., None, :])


class AttnCNP(NeuralProcess):
    """The CNP of Gordon et al. in which each target attends to the context: what it finds stands in place of the mean.

        h_m = MLP(x_m, y_m),   k_m = φ(x_m),   q_n = φ(x_n),   φ an MLP with one hidden layer
        u_n = LN(q_n + (W_o, b_o) MultiHead(q_n W_q, k W_k, h W_v)),   r_n = LN(u_n + u_n W + b)
        μ_n, σ_n = MLP(x_n, r_n),   σ = log(1 + eˢ)

    The last map of r_n has no relu there. For a target without a context attention gives 0, theirs NaN.
    Shapes: contexts (B, M, dx) and (B, M, dy), targets (B, N, dx), mask (B, M) → Normal of (B, N, dy).

    dx, dy: the sizes of x and of y. hidden, heads: the width of all hidden layers, and the heads of attention.
    Raises ValueError for counts below 1, or if the heads do not divide the width.
    Source: Gordon et al. (2020), arXiv 1910.13556, appendix C; github.com/cambridge-mlg/convcnp, convcnp/cnp.py.
    """

    def __init__(self, dx: int = 1, dy: int = 1, *, hidden: int = 128, heads: int = 8, rng: np.random.Generator):
        super().__init__(dx, dy)
        check_positive_counts("AttnCNP", hidden=hidden, heads=heads)
        if hidden % heads:
            raise ValueError(f"AttnCNP: {heads} heads do not divide {hidden} features equally")
        self.value = MLP([dx + dy, hidden, hidden, hidden], rng=rng)
        self.place = MLP([dx, hidden, hidden], rng=rng)
        self.query_map, self.key_map, self.value_map = (Linear(hidden, hidden, bias=False, rng=rng) for _ in range(3))
        self.combine, self.output = Linear(hidden, hidden, rng=rng), Linear(hidden, hidden, rng=rng)
        self.first_norm, self.second_norm = LayerNorm(hidden), LayerNorm(hidden)
        self.decoder = MLP([dx + hidden, hidden, hidden, 2 * dy], rng=rng)
        self.heads = heads

    def _predicted(
        self, context_x: Array | Tensor, context_y: Array | Tensor, mask: np.ndarray, target_x: Array | Tensor
    ) -> Normal:
        query, key = self.place(target_x), self.place(context_x)  # (B, N, F), (B, M, F)
        value = self.value(ag.concatenate([context_x, context_y], -1))  # (B, M, F)
        maps = (self.query_map, query), (self.key_map, key), (self.value_map, value)
        allowed = for_every_query(mask)  # (B, 1, M)
        allowed = None if allowed is None else allowed[:, None]  # one for all heads
        found = attention(*(split_heads(own(x), self.heads) for own, x in maps), mask=allowed)  # (B, H, N, d)
        u = self.first_norm(query + self.combine(merge_heads(found)))  # (B, N, F)
        r = self.second_norm(u + self.output(u))  # (B, N, F)
        return normal_of(self.decoder(ag.concatenate([target_x, r], -1)))


class ANP(Attentive, LatentModel):
    """The attentive neural process: a latent z for what the context leaves open, and what each target finds there.

    Its answer is a Mixture over draws of z.

    latent: L, the width of z.
    Other options: those of `Attentive` and of `LatentModel`.

    ANP(floor=0.1, latent_floor=0.1, scaling="features") is the baseline of TNP-pytorch.
    """

    def __init__(self, *sizes: int, latent: int = 128, **options: Any):
        check_positive_counts(type(self).__name__, latent=latent)
        self.width = latent
        super().__init__(*sizes, **options)

    def _add_vector(self, hidden: int, set_encoder: Callable, decoder: Callable) -> None:
        self.latent_encoder, self.decoder = set_encoder(2 * self.width), decoder(self.width)

    def represent(
        self, context_x: Array | Tensor, pairs: Array | Tensor, mask: np.ndarray, target_x: Array | Tensor
    ) -> Array | Tensor:
        """What each target finds in the context."""
        return self.cross_encoder(context_x, pairs, mask, target_x)


def check_depths(name: str, **depths: int) -> None:
    """ValueError that names the first depth that leaves no linear map before the attention block."""
    for argument, depth in depths.items():
        if depth < 3:
            what = "the last two are the attention block, at least 3 are needed"
            raise ValueError(f"{name}: {argument} is {depth}; {what}")
