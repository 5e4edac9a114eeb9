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
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.layers.distributions import Normal
from refnp.layers.grid import Grid, GridOptions
from refnp.layers.module import on_tape
from refnp.layers.multivariate_normal import LowRankNormal, MultivariateNormal
from refnp.layers.unet import Network
from refnp.models.chain_rule import joint_log_prob
from refnp.models.checks import check_positive_counts, check_presence
from refnp.models.convcnp import ConvCNP, Encoding, Head, bruinsma_parts, check_context_dy

if TYPE_CHECKING:
    from refnp.tasks import Task


class ConvGNP(ConvCNP):
    """The convolutional Gaussian neural process: a `LowRankNormal` over all N·dy numbers of a task, target by target.

    Shapes: context_x (B, M, dx), context_y (B, M, dy), target_x (B, N, dx), context_mask (B, M) → mean and std
    (B, N·dy), factor (B, N·dy, K): its `log_prob` takes y.reshape(B, N·dy), `joint_log_prob` a task as it is.
    Which shifts it respects, contexts that are empty or several, grids: as a `ConvCNP`.

    rank: K, the columns of F.
    network: (B, channels, *lengths) → (B, channels_out, *lengths), with attributes `total_stride` and `channels_out`: a
        `UNet`, `SimpleCNN` or `PooledUNet` of dx dimensions. `bruinsma` makes the published model.
    dx, dy: the sizes of x and of y. context_dy: for several context sets, the numbers of a y of each.
    encoding: what the network takes in, an `Encoding`. head: from what the network gives to a distribution, a `Head`
        without `separate`.
    grid: how fine it is and how far it reaches, `GridOptions`; or a `Grid` of one task, the same for all tasks.

    Raises ValueError for options that do not fit; when called, as a `ConvCNP`.
    """

    joint_loss = True

    def __init__(
        self,
        network: Network,
        *,
        rank: int = 64,
        dx: int = 1,
        dy: int = 1,
        context_dy: Sequence[int] | None = None,
        encoding: Encoding | None = None,
        grid: GridOptions | Grid | None = None,
        head: Head | None = None,
        rng: np.random.Generator,
    ):
        check_positive_counts("ConvGNP", rank=rank)
        self.rank, head = rank, head or Head()
        if head.separate:
            raise ValueError("ConvGNP: head has separate=True; one readout gives μ, F and σ")
        super().__init__(network, dx=dx, dy=dy, context_dy=context_dy, encoding=encoding, grid=grid, head=head, rng=rng)

    def numbers_of_a_target(self) -> int:
        """Mean, a row of F and deviation of each of the dy numbers: (2 + K) dy."""
        return (2 + self.rank) * self.dy

    @classmethod
    def gordon(cls, *_: Any, **__: Any) -> Self:
        """There is none: ValueError."""
        raise ValueError("ConvGNP.gordon: Gordon et al. have no joint prediction; use ConvGNP.bruinsma")

    @classmethod
    def bruinsma(
        cls,
        channels: Sequence[int] = (64,) * 6,
        *,
        rank: int = 64,
        dx: int = 1,
        dy: int = 1,
        context_dy: Sequence[int] | None = None,
        kernel: int | Sequence[int] = 5,
        strides: int | Sequence[int] = 2,
        upsampling: str = "transposed",
        divide: bool = True,
        grid: GridOptions | Grid | None = None,
        learn_scales: bool = True,
        architecture: str = "unet",
        receptive_field: float = 0.0,
        rng: np.random.Generator,
    ) -> Self:
        """The published model: `construct_convgnp(unet_channels=channels, num_basis_functions=rank)`, neuralprocesses.

        There is a linear map after the set convolution if channels[0] < (2 + rank) dy. All other options are those of
        `ConvCNP.bruinsma`.
        Raises ValueError for no channels, another architecture, and for what `PooledUNet` or `SimpleCNN` refuses.
        """
        check_positive_counts("ConvGNP.bruinsma", rank=rank)
        sizes = check_context_dy(context_dy, dy)
        parts = bruinsma_parts(
            f"{cls.__name__}.bruinsma",
            len(sizes) + sum(sizes),
            channels,
            (2 + rank) * dy,
            dx=dx,
            kernel=kernel,
            strides=strides,
            upsampling=upsampling,
            divide=divide,
            grid=grid,
            learn_scales=learn_scales,
            architecture=architecture,
            receptive_field=receptive_field,
            rng=rng,
        )
        return cls(**parts, rank=rank, dx=dx, dy=dy, context_dy=context_dy, rng=rng)

    def __call__(  # type: ignore[override]  # a joint distribution where a ConvCNP has marginal ones
        self,
        context_x: Any,
        context_y: Any,
        target_x: ArrayLike,
        context_mask: Any = None,
        *,
        grid: Grid | None = None,
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

    @on_tape()
    def loss(self, task: "Task", *, rng: np.random.Generator | None = None) -> Tensor:
        """−(1/n) Σ log p(y_1 … y_N | C) over the batch, n the targets present: the joint likelihood per target."""
        target_x, target_y, mask = self.targets(task)
        joint = self(task.context_x, task.context_y, target_x, task.context_mask)
        return -ag.sum(joint_log_prob(joint, target_y, mask)) / max(int(mask.sum()), 1)

    def joint(self, task: "Task") -> LowRankNormal:
        """The distribution of all N dy numbers, hidden targets among them, wherever they stand."""
        return self(*self.inputs(task))

    def joint_normal(self, task: "Task") -> MultivariateNormal:
        """The same by its Cholesky factor: arrays, of float64 at least, for σ² may be lost beside F Fᵀ in float32."""
        with ag.no_grad():
            joint = self.joint(task)
        parts = (raw(part) for part in (joint.mean, joint.factor, joint.std))
        return LowRankNormal(*(part.astype(np.promote_types(part.dtype, np.float64)) for part in parts)).dense()

    def marginal(self, task: "Task", *, rng: np.random.Generator | None = None) -> Normal:
        """The mean and the standard deviation of every number, (B, N, dy)."""
        normal, shape = self.joint(task).marginals(), (*np.shape(task.target_x)[:2], self.dy)
        return Normal(ag.reshape(normal.mean, shape), ag.reshape(normal.std, shape))

    def joint_log_prob(self, task: "Task", *, rng: np.random.Generator | None = None) -> Array | Tensor:
        """log p of the targets that are present, all together: (B,)."""
        mask = check_presence("ConvGNP", "target_mask", task.target_mask, np.shape(task.target_x)[:2])
        return joint_log_prob(self.joint(task), task.target_y, mask)

    def joint_samples(self, task: "Task", rng: np.random.Generator, samples: int) -> Array:
        """Draws of all targets together, noise included: (S, B, N, dy), arrays without gradient."""
        return super().joint_samples(task, rng, samples).reshape(samples, *np.shape(task.target_y))

    def functions(self, task: "Task", rng: np.random.Generator, samples: int, *, places: int = 40) -> Array:
        """Draws μ + F ε of the function without noise, (S, B, N, dy), arrays without gradient; `places` is not used."""
        with ag.no_grad():
            drawn = raw(self.joint(task).functions(rng, samples))
        return drawn.reshape(samples, *np.shape(task.target_y))
