"""Joint predictions: one normal distribution of all targets, or any neural process target by target.

Target by target each is a context point for the next (refnp/models/chain_rule.py).

Source: Sivaraya (2023) §3.2, eq. 8 and 9; Bruinsma et al. (2023), arXiv 2303.14468.
Transcription: tests/transcriptions/neural_processes.py.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.layers.distributions import Normal
from refnp.layers.mixture import Mixture
from refnp.layers.module import on_tape
from refnp.models.chain_rule import ChainRule, OneByOne, joint_log_prob
from refnp.models.checks import check_presence
from refnp.models.neural_process import NeuralProcess

if TYPE_CHECKING:
    from refnp.tasks import Task


class JointNormal(NeuralProcess):
    """What models have in common whose answer is one normal distribution of all N·dy numbers of a task, by `joint`."""

    joint_loss = True

    @on_tape()
    def loss(self, task: "Task", *, rng: np.random.Generator | None = None) -> Tensor:
        """−(1/n) Σ log p(y_1 … y_N | C) over the batch, n the targets present: the joint likelihood per target."""
        _, target_y, mask = self.targets(task)
        return -ag.sum(joint_log_prob(self.joint(task), target_y, mask)) / max(int(mask.sum()), 1)

    def marginal(self, task: "Task", *, rng: np.random.Generator | None = None) -> Normal:
        """The mean and the standard deviation of every number, (B, N, dy)."""
        normal, shape = self.joint(task).marginals(), (*np.shape(task.target_x)[:2], self.dy)
        return Normal(ag.reshape(normal.mean, shape), ag.reshape(normal.std, shape))

    def joint_log_prob(self, task: "Task", *, rng: np.random.Generator | None = None) -> Array | Tensor:
        """log p of the targets that are present, all together: (B,)."""
        mask = check_presence(type(self).__name__, "target_mask", task.target_mask, np.shape(task.target_x)[:2])
        return joint_log_prob(self.joint(task), task.target_y, mask)

    def joint_samples(self, task: "Task", rng: np.random.Generator, samples: int) -> Array:
        """Draws of all targets together, noise included: (S, B, N, dy), arrays without gradient."""
        return super().joint_samples(task, rng, samples).reshape(samples, *np.shape(task.target_y))


class Autoregressive(NeuralProcess):
    """A conditional model used target by target; parameters and training are those of `model`.

    Shapes: contexts (B, M, dx) and (B, M, dy), targets (B, N, dx), mask (B, M) → ChainRule over all N targets. `orders`
    (N,) or (O, N) are permutations of 0 … N − 1, the order of the targets as they stand if none are given;
    `random_orders` draws some.
    """

    joint_loss = True

    def __init__(self, model: NeuralProcess):
        super().__init__(model.dx, model.dy)
        self.model = model

    def _predicted(self, *sets: Any, orders: ArrayLike | None = None) -> "ChainRule":
        context_x, context_y, mask, target_x = sets
        return ChainRule(OneByOne(self.model, context_x, context_y, mask), target_x, orders=orders)

    def targets(self, task: "Task") -> tuple[Array | Tensor, Array | Tensor, Array]:
        """As the model has them: a ConvCNP does not put hidden ones at 0."""
        return self.model.targets(task)

    def marginal(self, task: "Task", *, rng: np.random.Generator | None = None) -> Normal | Mixture:
        """The model's own."""
        return self.model.marginal(task, rng=rng)
