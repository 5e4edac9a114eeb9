"""ConvGNP: a ConvCNP whose prediction is one normal distribution of all targets together.

    (μ_n, f_n, s_n) = MLP(f(x_n)) at each target, f_n of K numbers        F_nk = f_nk/K        σ² = 10⁻⁶ + log(1 + eˢ)

    p(y_1, …, y_N | x_1, …, x_N, C) = N(μ, F Fᵀ + diag(σ²))

A ConvCNP says of each target alone how uncertain it is; here K functions on the grid, the columns of F, say how targets
vary together. Two targets at the same place have the same row of F. Σ is positive definite whatever the network gives,
and permutes with the targets: what is said of some of them does not depend on which others are asked for, but for the
grid that holds them all. Draws μ + F ε are functions; noise is apart from them.

Source: Bruinsma et al. (2021), arXiv 2101.03606; Markou et al. (2022), arXiv 2203.08775; neuralprocesses (software),
whose K is 64.
Elsewhere: that code divides by K, and says √K; an earlier one divided by √(K dy).
Transcription: tests/transcriptions/convcnp.py.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from refnp import autograd as ag
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, ArrayLike
from refnp.layers.grid import Grid
from refnp.layers.module import options_of
from refnp.layers.multivariate_normal import LowRankNormal, MultivariateNormal
from refnp.models.checks import check_positive_counts
from refnp.models.convcnp import ConvCNP, Head, Network
from refnp.models.joint import JointNormal

if TYPE_CHECKING:
    from refnp.tasks import Task


class ConvGNP(JointNormal, ConvCNP):
    """The convolutional Gaussian neural process: a `LowRankNormal` over all N·dy numbers of a task, target by target.

    Shapes: context_x (B, M, dx), context_y (B, M, dy), target_x (B, N, dx), context_mask (B, M) → mean and std
    (B, N·dy), factor (B, N·dy, K): its `log_prob` takes y.reshape(B, N·dy), `joint_log_prob` a task as it is.
    Which shifts it respects, contexts that are empty or several, grids: as a `ConvCNP`.

    rank: K, the columns of F.
    head: from what the network gives to a distribution, a `Head` without `separate`.
    Other options: those of `ConvCNP`. `bruinsma` makes the published model.

    Raises ValueError for options that do not fit; when called, as a `ConvCNP`.
    """

    def __init__(self, network: Network, *, rank: int = 64, head: Head | None = None, **options: Any):
        check_positive_counts("ConvGNP", rank=rank)
        self.rank, head = rank, head or Head()
        if head.separate:
            raise ValueError("ConvGNP: head has separate=True; one readout gives μ, F and σ")
        super().__init__(network, head=head, **options)

    @classmethod
    def gordon(cls, *_: Any, **__: Any) -> Self:
        """There is none: ValueError."""
        raise ValueError("ConvGNP.gordon: Gordon et al. have no joint prediction; use ConvGNP.bruinsma")

    @classmethod
    @options_of(ConvCNP.bruinsma)
    def bruinsma(cls, channels: Sequence[int] = (64,) * 6, *, rank: int = 64, **options: Any) -> Self:
        """The published model: `construct_convgnp(unet_channels=channels, num_basis_functions=rank)`, neuralprocesses.

        There is a linear map after the set convolution if channels[0] < (2 + rank) dy. All other options are those of
        `ConvCNP.bruinsma`.
        Raises ValueError for no channels, another architecture, and for what `PooledUNet` or `SimpleCNN` refuses.
        """
        check_positive_counts("ConvGNP.bruinsma", rank=rank)
        return super().bruinsma(channels, rank=rank, **options)

    def __call__(  # type: ignore[override]  # a joint distribution where a ConvCNP has marginal ones
        self, context_x: Any, context_y: Any, target_x: ArrayLike, context_mask: Any = None, *, grid: Grid | None = None
    ) -> LowRankNormal:
        """The prediction at the targets, by way of the grid around the data, or of a given one."""
        values = self.answers(context_x, context_y, target_x, context_mask, grid)  # (B, N, C)
        (b, n, _), dy, k = values.shape, self.dy, self.rank
        mean, f, s = values[..., :dy], values[..., dy : dy + k * dy], values[..., dy + k * dy :]
        each = self.head.normal(ag.concatenate([mean, s], -1))  # of (B, N, dy)
        f = ag.swapaxes(ag.reshape(f, (b, n, k, dy)), -1, -2) / k  # (B, N, dy, K)
        return LowRankNormal(
            ag.reshape(each.mean, (b, n * dy)), ag.reshape(f, (b, n * dy, k)), ag.reshape(each.std, (b, n * dy))
        )

    def joint(self, task: "Task") -> LowRankNormal:
        """The distribution of all N dy numbers, hidden targets among them, wherever they stand."""
        return self(*self.inputs(task))

    def joint_normal(self, task: "Task") -> MultivariateNormal:
        """The same by its Cholesky factor: arrays, of float64 at least, for σ² may be lost beside F Fᵀ in float32."""
        with ag.no_grad():
            joint = self.joint(task)
        parts = (raw(part) for part in (joint.mean, joint.factor, joint.std))
        return LowRankNormal(*(part.astype(np.promote_types(part.dtype, np.float64)) for part in parts)).dense()

    def functions(self, task: "Task", rng: np.random.Generator, samples: int, *, places: int = 40) -> Array:
        """Draws μ + F ε of the function without noise, (S, B, N, dy), arrays without gradient; `places` is not used."""
        with ag.no_grad():
            drawn = raw(self.joint(task).functions(rng, samples))
        return drawn.reshape(samples, *np.shape(task.target_y))
