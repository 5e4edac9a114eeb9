"""ConvCNP: a neural process that a shift of all its data only shifts along.

    E_k  = [ρ_k, Σ_n y_n k(g_k − x_n)/(ρ_k + ε)],   ρ_k = Σ_n k(g_k − x_n)    the context at the places g_k of a grid
    h    = CNN(σ(W E + b))                                                   on the grid: a U-Net or a plain stack
    f(x) = Σ_k h_k k(g_k − x)                                                back from the grid, at any x
    p(y | x, C) = N(y; μ, σ²),   (μ, s) = MLP(f(x)),   σ = log(1 + eˢ)

Every step knows differences of positions only, and the grid moves with the data (`Grid`). So a shift of
contexts and targets shifts the predictions, exactly, if it is a multiple of spacing × total stride of the network along
each axis, and the spacing a power of two; with others to the rounding of positions. A U-Net does not respect smaller
shifts; a plain stack, total stride 1, respects each multiple of the spacing.
No finite grid is without edges: a prediction depends a little on how far the other targets reach.

Source: Sivaraya (2023) §4.2-4.3, eq. 10-12; Gordon et al. (2020), arXiv 1910.13556;
Bruinsma, github.com/wesselb/neuralprocesses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.primitives import raw
from refnp.layers.activations import relu, sigmoid, softplus
from refnp.layers.convolutions import convolution
from refnp.layers.distributions import Normal
from refnp.layers.linear import MLP, Linear
from refnp.layers.module import Module
from refnp.layers.set_convolutions import SetConvolution
from refnp.layers.set_convolutions.grid import Grid, grid_around, one_of
from refnp.layers.unet import Network, PooledUNet, SimpleCNN, UNet
from refnp.models.convcnp_window import from_grid, to_grid
from refnp.models.neural_process import NeuralProcess, check_floor, check_presence, normal_of

DEVIATIONS = ("softplus", "exp", "softplus_variance")
MAX_POINTS = 1 << 20


class ConvCNP(NeuralProcess):
    """The convolutional conditional neural process, for inputs of 1 to 3 dimensions anywhere.

    Shapes: as the law, (B, C, dx), (B, C, dy), (B, T, dx), (B, C) → Normal of (B, T, dy). An empty context has density
    0 and gives finite predictions. Positions may be more precise than the values (float64 beside float32).

    network: (B, channels, *lengths) → (B, channels_out, *lengths), with attributes `total_stride` and `channels_out`: a
        `UNet`, `SimpleCNN` or `PooledUNet` of dx dimensions. `gordon` and `neuralprocesses` make the published models.
    channels: what the network takes in, made of density and values by a linear map and `activation` at every place;
        None: it takes density and values as they are, 1 + dy channels.
    points_per_unit, margin: the places of the grid per unit of x, and how far it goes beyond the data, in units of x.
    length_scale: of all set convolutions at first, 2/points_per_unit unless given. Each channel learns its own; with
        `shared_scales` all channels of a set convolution learn one.
    divide, eps: divide values by density + eps (Gordon et al. 1e-8; neuralprocesses 1e-4), or not.
    hidden: widths of the hidden layers of the MLP; none, and it is a linear map; None, and there is no map, the network
        itself answers with 2 dy channels.
    separate: mean and deviation have a set convolution and an MLP each, instead of one for both.
    deviation: "softplus" as above; "exp", σ = eˢ; "softplus_variance", σ² = log(1 + eˢ).
    floor: the least σ, none (0) unless asked for: see `normal_of`; with "exp" added to σ, with "softplus_variance" its
        square to σ².
    rectified: a relu after the network.
    max_points: the most places that the grid of a task may have.

    Raises ValueError for options that do not fit; when called, for shapes that disagree, for NaN that no mask hides,
    for positions so far apart that the grid would have more than `max_points` places, saying what memory that takes.
    """

    def __init__(
        self,
        network: Network,
        *,
        dx: int = 1,
        dy: int = 1,
        channels: int | None = 8,
        activation: Callable = sigmoid,
        points_per_unit: float = 64,
        margin: float = 0.1,
        length_scale: float | None = None,
        shared_scales: bool = False,
        divide: bool = True,
        eps: float = 1e-8,
        hidden: Sequence[int] | None = (),
        separate: bool = False,
        deviation: str = "softplus",
        floor: float = 0.0,
        rectified: bool = False,
        max_points: int = MAX_POINTS,
        rng: np.random.Generator,
    ):
        super().__init__(dx, dy)
        _check_options(dx, points_per_unit, margin, divide, eps, deviation, floor)
        self.points_per_unit, self.margin, self.max_points = points_per_unit, margin, max_points
        self.activation, self.rectified = activation, rectified
        self.deviation, self.floor = deviation, floor
        if hidden is None and (separate or network.channels_out != 2 * dy):
            raise ValueError(
                f"ConvCNP: hidden=None needs a network with {2 * dy} channels out and separate=False; "
                f"it has {network.channels_out}, separate={separate}"
            )
        scale = 2 / points_per_unit if length_scale is None else length_scale
        self.encoder = SetConvolution(dy, scale, shared=shared_scales, divide=divide, eps=eps)
        self.lift = None if channels is None else Linear(1 + dy, channels, rng=rng)
        self.network = network
        self.decoders = [
            FromGrid(network.channels_out, None if hidden is None else [*hidden, n], scale, shared_scales, rng=rng)
            for n in ([dy, dy] if separate else [2 * dy])
        ]
        self.width = max(p.shape[0] for p in network.parameters() if p.ndim > 1)  # channels of its widest layer

    @classmethod
    def gordon(
        cls,
        architecture: str = "xl",
        *,
        dx: int = 1,
        dy: int = 1,
        points_per_unit: float = 64,
        margin: float = 0.1,
        max_points: int = MAX_POINTS,
        rng: np.random.Generator,
    ) -> ConvCNP:
        """The models of Gordon et al.: "xl", a U-Net of 12 layers, or "simple", 4 layers of convolution.

        50 612 and 6 532 parameters for dx = dy = 1. Weights of theirs: refnp/models/published/convcnp.py.
        """
        if architecture not in ("xl", "simple"):
            raise ValueError(f"ConvCNP.gordon: architecture is {architecture!r}; use 'xl' or 'simple'")
        xl = architecture == "xl"
        if xl:
            network: Network = UNet(8, (8, 16, 16, 32, 32, 64), dimensions=dx, rng=rng)
        else:
            network = SimpleCNN((8, 16, 32, 16, 8), dimensions=dx, rng=rng)
        return cls(
            network,
            dx=dx,
            dy=dy,
            points_per_unit=points_per_unit,
            margin=margin,
            separate=True,
            rectified=not xl,
            max_points=max_points,
            rng=rng,
        )

    @classmethod
    def neuralprocesses(
        cls,
        channels: Sequence[int] = (64,) * 6,
        *,
        dx: int = 1,
        dy: int = 1,
        kernel: int | Sequence[int] = 5,
        strides: int | Sequence[int] = 2,
        upsampling: str = "transposed",
        divide: bool = True,
        points_per_unit: float = 64,
        margin: float = 0.1,
        max_points: int = MAX_POINTS,
        rng: np.random.Generator,
    ) -> ConvCNP:
        """Bruinsma's model: `construct_convgnp(likelihood="het", unet_channels=channels)` of neuralprocesses.

        One length scale, 1/points_per_unit at first, on the way in and one on the way out, ε = 1e-4, no map before the
        U-Net, and one after it only if channels[0] < 2 dy; σ² = 1e-6 + log(1 + eˢ).
        """
        if not len(channels):
            raise ValueError("ConvCNP.neuralprocesses: channels are empty; give one number for each layer of the U-Net")
        mapped = channels[0] < 2 * dy
        network = PooledUNet(
            1 + dy,
            channels,
            channels[0] if mapped else 2 * dy,
            kernel=kernel,
            strides=strides,
            dimensions=dx,
            upsampling=upsampling,
            rng=rng,
        )
        return cls(
            network,
            dx=dx,
            dy=dy,
            channels=None,
            points_per_unit=points_per_unit,
            margin=margin,
            length_scale=1 / points_per_unit,
            shared_scales=True,
            divide=divide,
            eps=1e-4,
            hidden=() if mapped else None,
            deviation="softplus_variance",
            floor=1e-3,
            max_points=max_points,
            rng=rng,
        )

    def __call__(self, context_x: Any, context_y: Any, target_x: Any, context_mask: Any = None) -> Normal:
        context_x, context_y, target_x, mask = self.sets(context_x, context_y, target_x, context_mask)
        return self.on(self.grid(context_x, target_x, mask), context_x, context_y, target_x, mask)

    def grid(self, context_x: Any, target_x: Any, context_mask: np.ndarray | None = None) -> Grid:
        """The grid around contexts and targets."""
        return grid_around(
            type(self).__name__,
            [(context_x, context_mask), (target_x, None)],
            points_per_unit=self.points_per_unit,
            margin=self.margin,
            multiple=self.network.total_stride,
            max_points=self.max_points,
            bytes_per_point=self.width * raw(target_x).itemsize,
        )

    def on(self, grid: Grid, context_x: Any, context_y: Any, target_x: Any, mask: np.ndarray) -> Normal:
        """The predictions by way of a given grid; the rest is as `sets` returns it."""
        dtype = np.result_type(raw(context_y).real, raw(self.encoder.log_length_scale).real)
        context_x, target_x = (grid.distances(x, dtype) for x in (context_x, target_x))  # (B, C, dx), (B, T, dx)
        h = self.encoded(grid, context_x, context_y, mask)
        if self.lift is not None:  # a linear map at every place is a convolution with a kernel of 1
            weight = ag.reshape(ag.transpose(self.lift.weight), (*self.lift.weight.shape[::-1], *[1] * self.dx))
            h = self.activation(convolution(h, weight, self.lift.bias))
        h = self.network(h)
        h = relu(h) if self.rectified else h
        answers = [decode(target_x, h, grid.points_per_unit) for decode in self.decoders]
        return normal_from(ag.concatenate(answers, -1), self.deviation, self.floor)

    def encoded(self, grid: Grid, context_x: Any, context_y: Any, mask: np.ndarray) -> Any:
        """The set convolution of the context at every place, density first: (B, 1 + dy, *lengths)."""
        present = mask[..., None].astype(raw(context_y).dtype)  # (B, C, 1)
        z = to_grid(
            ag.concatenate([present, context_y], -1),
            context_x if mask.all() else ag.where(mask[..., None], context_x, 0.0),
            scales_of(self.encoder, 1 + self.dy),
            lengths=grid.lengths,
            points_per_unit=grid.points_per_unit,
            eps=self.encoder.eps if self.encoder.divide else 1.0,
        )
        if not self.encoder.divide:
            return z
        density, sums = z[:, :1], z[:, 1:]
        return ag.concatenate([density, sums / (density + self.encoder.eps)], 1)

    def targets(self, task: Any) -> tuple:
        """As `NeuralProcess.targets`, but hidden ones stand where their task has a point: a grid holds all targets."""
        target_x, target_y, mask = super().targets(task)
        if not mask.all():
            name, context_x = type(self).__name__, raw(task.context_x)
            there = check_presence(name, "context_mask", task.context_mask, np.shape(context_x)[:2])
            some = one_of(((raw(target_x), mask), (context_x, there)))  # (B, 1, dx)
            target_x = ag.where(mask[..., None], target_x, some)
        return target_x, target_y, mask


def _check_options(
    dx: int, points_per_unit: float, margin: float, divide: bool, eps: float, deviation: str, floor: float
) -> None:
    if dx > 3:
        raise ValueError(f"ConvCNP: dx is {dx}; a grid of more than 3 dimensions has too many places")
    if not 0 < points_per_unit < np.inf or not 0 <= margin < np.inf:
        raise ValueError(
            f"ConvCNP: points_per_unit {points_per_unit} must be positive and margin {margin} not negative, both finite"
        )
    if divide and not eps > 0:
        raise ValueError(f"ConvCNP: eps is {eps}; it must be positive, for the density is 0 where no point is near")
    if deviation not in DEVIATIONS:
        raise ValueError(f"ConvCNP: deviation is {deviation!r}; use one of {', '.join(DEVIATIONS)}")
    check_floor("ConvCNP", floor)


class FromGrid(Module):
    """From features on a grid to answers at any x: f(x) = Σ_k h_k k(g_k − x), then an MLP with widths `sizes`, or none.

    Shapes: x (B, T, dx) as distances from the first place, features (B, C, *lengths) → (B, T, sizes[-1]).
    """

    def __init__(
        self,
        channels: int,
        sizes: Sequence[int] | None,
        length_scale: float,
        shared: bool = False,
        *,
        rng: np.random.Generator,
    ):
        self.convolution = SetConvolution(channels, length_scale, density=False, shared=shared)
        self.mlp = None if sizes is None else MLP([channels, *sizes], rng=rng)

    def __call__(self, x: Any, features: Any, points_per_unit: float) -> Any:
        scales = scales_of(self.convolution, features.shape[1])
        f = from_grid(features, x, scales, points_per_unit=points_per_unit)  # (B, T, C)
        return f if self.mlp is None else self.mlp(f)


def scales_of(convolution: SetConvolution, channels: int) -> Any:
    """The length scale of each channel, (channels,)."""
    return ag.broadcast_to(ag.exp(convolution.log_length_scale), (channels,))


def normal_from(answers: Any, deviation: str, floor: float) -> Normal:
    """N(μ, σ²) from [μ, s] (B, T, 2 dy), with f = `floor`, the least σ:

    "softplus"             σ = f + (1 − f) log(1 + eˢ), as `normal_of`
    "exp"                  σ = f + eˢ
    "softplus_variance"    σ² = f² + log(1 + eˢ)
    """
    if deviation == "softplus":
        return normal_of(answers, floor)
    mean, spread = ag.split(answers, 2, -1)  # (B, T, dy)
    if deviation == "exp":
        return Normal(mean, ag.exp(spread) + floor)
    return Normal(mean, ag.sqrt(softplus(spread) + floor**2))
