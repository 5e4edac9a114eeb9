"""TNP-ND: all targets at once, with a covariance between them.

    p(y_1 … y_T | C) = N(μ, Σ),    μ_t = MLP(z_t),    P = rows of an MLP of z′,   z′ = encoder layers over all targets

z are the target tokens of TNP-D; in z′ they have looked at each other. Two forms of Σ, both of the paper's code:

    "low_rank"    Σ = P Pᵀ + diag(exp(d)), d_t = MLP(z_t)       permutes with the targets, positive definite if exp(d)
                                                                is not lost in the rounding of P Pᵀ
    "cholesky"    Σ = L Lᵀ, L = tril(P Pᵀ)                      depends on the order of the targets; singular if a row
                                                                of P is 0

The second is the default of the authors' code. P Pᵀ permutes with the targets, its lower triangle does not: the same
targets in another order get another likelihood.

Source: Sivaraya (2023) §3.2; Nguyen & Grover, arXiv 2207.04179 §3.3; TNP-pytorch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Tensor
from refnp.layers.distributions import MultivariateNormal
from refnp.layers.linear import MLP
from refnp.models.neural_process import check_presence, present
from refnp.models.tnp import TNP
from refnp.models.transformer_layers import EncoderLayer

COVARIANCES = ("low_rank", "cholesky")


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
