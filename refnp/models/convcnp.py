"""ConvCNP: a neural process whose predictions move with the data.

    E_k  = [ρ_k, Σ_m y_m k(g_k − x_m)/(ρ_k + ε)],   ρ_k = Σ_m k(g_k − x_m)    the context at the places g_k of a grid
    h    = CNN(φ(W E + b))                                                   on the grid: a U-Net or a plain stack
    f(x) = Σ_k h_k k(g_k − x)                                                back from the grid, at any x
    p(y | x, C) = N(y; μ, σ²),   (μ, s) = MLP(f(x)),   σ = log(1 + eˢ)

The first and the third line are one set convolution, to the grid and from it. Every step depends on differences of
positions only, and the grid moves with the data (`Grid`). So a shift of contexts and targets shifts the predictions,
exactly, if it is a multiple of spacing × total stride of the network along each axis, and the spacing a power of two;
with others to the rounding of positions. A U-Net does not respect smaller shifts; a plain stack, total stride 1,
respects each multiple of the spacing.
No finite grid is without edges: a prediction depends a little on how far the other targets reach.

A context may be several sets, each with places and values of its own, of which one may say less of the targets than
another: E is then [E⁽¹⁾, E⁽²⁾, …], each set with its own density and length scales.

Source: Sivaraya (2023) §4.2-4.3, eq. 10-12; Gordon et al. (2020), arXiv 1910.13556, and its code: σ;
neuralprocesses (software): the other model, σ².
Transcription: tests/transcriptions/convcnp.py.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from refnp import autograd as ag
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.layers.activation import relu, sigmoid
from refnp.layers.convolution import convolution
from refnp.layers.distributions import Normal
from refnp.layers.grid import Grid, GridOptions, first_present
from refnp.layers.linear import MLP, Linear
from refnp.layers.masked_reductions import numbers
from refnp.layers.module import Module, options_of
from refnp.layers.pooled_unet import PooledUNet
from refnp.layers.set_convolution import SetConvolution, set_convolution
from refnp.layers.unet import SimpleCNN, UNet
from refnp.models.checks import check_deviation, check_finite, check_floor, check_points, check_presence
from refnp.models.neural_process import NeuralProcess, normal_of

if TYPE_CHECKING:
    from refnp.tasks import Task


@dataclass(frozen=True)
class Encoding:
    """How the context becomes what the network takes in.

    channels: those that the network takes in, made of density and values by a linear map and `activation` at every
        place; None: it takes density and values as they are, 1 + dy channels.
    divide, eps: divide values by density + eps (Gordon et al. 1e-8; neuralprocesses 1e-4), or not.
    length_scale: of all set convolutions at first, to the grid and from it, in units of x; 2/points_per_unit if None.
        Each channel learns its own. shared_scales: all channels of a set convolution learn one instead.
    learn_encoder_scale, learn_decoder_scale: with False the length scales of the set convolution to the grid, or of
        those from it, are frozen: no gradient, not among `model.parameters()`, but stored.
    Raises ValueError for `divide` with an eps that is not positive.
    """

    channels: int | None = 8
    activation: Callable = sigmoid
    divide: bool = True
    eps: float = 1e-8
    length_scale: float | None = None
    shared_scales: bool = False
    learn_encoder_scale: bool = True
    learn_decoder_scale: bool = True

    def __post_init__(self) -> None:
        if self.divide and not self.eps > 0:
            raise ValueError(
                f"Encoding: eps is {self.eps}; it must be positive, for the density is 0 where no point is near"
            )


@dataclass(frozen=True)
class Head:
    """How predictions are made of what the network gives, h.

    rectified: a relu of h first.
    hidden: widths of the hidden layers of the MLP; none, and it is a linear map; None, and there is no map, the network
        itself has 2 dy channels (a `ConvGNP`'s 2 dy + rank dy).
    separate: mean and deviation have a set convolution and an MLP each, instead of one for both.
    deviation, floor: σ as `normal` says; floor is the least σ, none (0) unless asked for.
    Raises ValueError for another deviation, or a floor outside [0, 1).
    """

    hidden: Sequence[int] | None = ()
    separate: bool = False
    deviation: str = "softplus"
    floor: float = 0.0
    rectified: bool = False

    def __post_init__(self) -> None:
        check_deviation("Head", self.deviation)
        check_floor("Head", self.floor)

    def normal(self, answers: Array | Tensor) -> Normal:
        """N(μ, σ²) from [μ, s] (B, N, 2 dy), with f = `floor`, the least σ; see `normal_of`:

        "softplus"             σ = f + (1 − f) log(1 + eˢ)
        "exp"                  σ = f + eˢ
        "softplus_variance"    σ² = f² + log(1 + eˢ)
        """
        return normal_of(answers, self.floor, self.deviation)


Network = SimpleCNN | UNet | PooledUNet  # or anything that keeps lengths and says its `total_stride` and `channels_out`


class ConvCNP(NeuralProcess):
    """The convolutional conditional neural process, for inputs of 1 to 3 dimensions anywhere.

    Shapes: context_x (B, M, dx), context_y (B, M, dy), target_x (B, N, dx), context_mask (B, M) → Normal of (B, N, dy).
    An empty context has density 0 and gives finite predictions. Positions may be more precise than the values (float64
    beside float32).

    network: (B, channels, *lengths) → (B, channels_out, *lengths), with attributes `total_stride` and `channels_out`: a
        `UNet`, `SimpleCNN` or `PooledUNet` of dx dimensions. `gordon` and `bruinsma` make the published models.
    context_dy: for several context sets, the numbers of a y of each. Then `context_x`, `context_y` and `context_mask`
        are tuples of as many arrays, (B, M, dx), (B, M, dy) and (B, M) with the M and dy of the set; a mask, or the
        tuple, may be None. Points of one set have no order; sets do. None: one set, whose y has dy numbers.
    encoding: what the network takes in, an `Encoding`. head: from what the network gives to a distribution, a `Head`.
    grid: how fine it is and how far it reaches, `GridOptions`; or a `Grid` of one task, the same for all tasks wherever
        their data lie. Its first place need not be a whole number.

    Raises ValueError for options that do not fit; when called, for shapes that disagree, for NaN that no mask hides,
    for positions so far apart that the grid would have more than `max_points` places, saying what memory that takes, or
    outside a grid that is given.
    """

    rank = 0  # of F, in a `ConvGNP`: columns of numbers of a target beside mean and deviation

    def __init__(
        self,
        network: Network,
        *,
        dx: int = 1,
        dy: int = 1,
        context_dy: Sequence[int] | None = None,
        encoding: Encoding | None = None,
        grid: GridOptions | Grid | None = None,
        head: Head | None = None,
        rng: np.random.Generator,
    ):
        super().__init__(dx, dy)
        name, wanted, sizes = type(self).__name__, (2 + self.rank) * dy, check_context_dy(context_dy, dy)
        self.context_dy = None if context_dy is None else sizes
        encoding, self.grid_options, self.head = encoding or Encoding(), grid or GridOptions(), head or Head()
        check_given_grid(self.grid_options, dx, network.total_stride)
        hidden, separate = self.head.hidden, self.head.separate
        if dx > 3:
            raise ValueError(f"{name}: dx is {dx}; a grid of more than 3 dimensions has too many places")
        if hidden is None and (separate or network.channels_out != wanted):
            raise ValueError(
                f"{name}: hidden=None needs a network with {wanted} channels out and separate=False; "
                f"it has {network.channels_out}, separate={separate}"
            )
        scale, shared = encoding.length_scale, encoding.shared_scales
        scale = 2 / self.grid_options.points_per_unit if scale is None else scale
        options: dict[str, Any] = {"shared": shared, "divide": encoding.divide, "eps": encoding.eps}
        self.encoder, *self.other_encoders = (
            SetConvolution(n, scale, learnable=encoding.learn_encoder_scale, **options) for n in sizes
        )
        channels_in = len(sizes) + sum(sizes)
        self.lift = None if encoding.channels is None else Linear(channels_in, encoding.channels, rng=rng)
        self.activation = encoding.activation
        self.network = network
        self.decoders = [
            GridReadout(
                network.channels_out,
                None if hidden is None else [*hidden, n],
                scale,
                shared,
                learnable=encoding.learn_decoder_scale,
                rng=rng,
            )
            for n in ([dy, dy] if separate else [wanted])
        ]
        self.width = max(p.shape[0] for p in network.parameters() if p.ndim > 1)  # channels of its widest layer

    @classmethod
    def gordon(
        cls,
        architecture: str = "xl",
        *,
        dx: int = 1,
        dy: int = 1,
        grid: GridOptions | Grid | None = None,
        learn_scales: bool = True,
        rng: np.random.Generator,
    ) -> Self:
        """The models of Gordon et al. (2020): "xl", a U-Net of 12 layers, or "simple", 4 layers of convolution.

        50 612 and 6 532 parameters for dx = dy = 1. Weights of theirs: refnp/models/published/convcnp.py.
        learn_scales: with False all length scales are frozen.
        Raises ValueError for another architecture.
        """
        if architecture == "xl":
            network: Network = UNet(8, (8, 16, 16, 32, 32, 64), dimensions=dx, rng=rng)
        elif architecture == "simple":
            network = SimpleCNN((8, 16, 32, 16, 8), dimensions=dx, rng=rng)
        else:
            raise ValueError(f"ConvCNP.gordon: architecture is {architecture!r}; use 'xl' or 'simple'")
        head = Head(separate=True, rectified=architecture == "simple")
        encoding = Encoding(learn_encoder_scale=learn_scales, learn_decoder_scale=learn_scales)
        return cls(network, dx=dx, dy=dy, encoding=encoding, grid=grid, head=head, rng=rng)

    @classmethod
    @options_of()
    def bruinsma(
        cls,
        channels: Sequence[int] = (64,) * 6,
        *,
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
        **options: Any,
    ) -> Self:
        """Bruinsma's model: `construct_convgnp(likelihood="het", unet_channels=channels)` of neuralprocesses.

        context_dy: of several context sets, as the class has it (`dim_yc`).
        channels, kernel, strides, upsampling: those of its `PooledUNet`. divide: values by density + 1e-4, or not.
        learn_scales: with False both length scales are frozen (`encoder_scales_learnable`, `decoder_scale_learnable`).
        architecture: "conv" is `conv_arch="conv"`, a `SimpleCNN` whose layers have `channels`, the last its own number;
            with `receptive_field` R, in units of x, their kernel is the least odd one with which it reaches so far.
        One length scale, 1/points_per_unit at first, on the way in and one on the way out, no map before the U-Net, and
        one after it only if channels[0] < 2 dy; σ² = 1e-6 + log(1 + eˢ). Other options are the class's own.
        Raises ValueError for no channels, another architecture, and for what `PooledUNet` or `SimpleCNN` refuses.
        """
        name, sizes = f"{cls.__name__}.bruinsma", check_context_dy(context_dy, dy)
        if not len(channels):
            raise ValueError(f"{name}: channels are empty; give one number for each layer of the U-Net")
        if architecture not in ("unet", "conv"):
            raise ValueError(f"{name}: architecture is {architecture!r}; use 'unet' or 'conv'")
        grid, channels_in = grid or GridOptions(), len(sizes) + sum(sizes)
        numbers_out = (2 + options.get("rank", cls.rank)) * dy
        mapped = channels[0] < numbers_out
        out = channels[0] if mapped else numbers_out
        if architecture == "conv":
            if receptive_field:
                kernel = _kernel_for(receptive_field * grid.points_per_unit, len(channels))
            if not isinstance(kernel, (int, np.integer)):
                raise ValueError(f"{name}: kernel is {kernel}; with architecture='conv' all layers have one")
            layers = (channels_in, *channels[:-1], out)
            network: Network = SimpleCNN(layers, kernel=int(kernel), dimensions=dx, rng=rng)
        else:
            of_steps: dict[str, Any] = {"kernel": kernel, "strides": strides, "upsampling": upsampling}
            network = PooledUNet(channels_in, channels, out, **of_steps, dimensions=dx, rng=rng)
        encoding = Encoding(
            channels=None,
            divide=divide,
            eps=1e-4,
            length_scale=1 / grid.points_per_unit,
            shared_scales=True,
            learn_encoder_scale=learn_scales,
            learn_decoder_scale=learn_scales,
        )
        head = Head(hidden=() if mapped else None, deviation="softplus_variance", floor=1e-3)
        options |= {"encoding": encoding, "grid": grid, "head": head, "context_dy": context_dy}
        return cls(network, dx=dx, dy=dy, **options, rng=rng)

    def __call__(
        self, context_x: Any, context_y: Any, target_x: ArrayLike, context_mask: Any = None, *, grid: Grid | None = None
    ) -> Normal:
        """The predictions at the targets, by way of the grid around the data, or of a given one."""
        return self.head.normal(self.answers(context_x, context_y, target_x, context_mask, grid))

    def answers(
        self, context_x: Any, context_y: Any, target_x: ArrayLike, context_mask: Any, grid: Grid | None
    ) -> Array | Tensor:
        """What the distribution of each target is made of, (B, N, (2 + rank) dy)."""
        contexts, target_x = self.context_sets(context_x, context_y, target_x, context_mask)
        grid = self._grid_around([(x, mask) for x, _, mask in contexts], target_x) if grid is None else grid
        encoded = []
        for encoder, (x, y, mask) in zip((self.encoder, *self.other_encoders), contexts, strict=True):
            scale = encoder.length_scale(y)
            encoded.append(set_convolution(grid, x, y, scale, mask=mask, **encoder.options))
        h = encoded[0] if len(encoded) == 1 else ag.concatenate(encoded, 1)  # (B, channels, *lengths)
        h = self.network(self.lifted(h))  # (B, channels_out, *lengths)
        h = relu(h) if self.head.rectified else h
        answers = []
        for decoder in self.decoders:
            scale = decoder.convolution.length_scale(h)
            f = set_convolution(target_x, grid, h, scale, **decoder.convolution.options)
            answers.append(f if decoder.mlp is None else decoder.mlp(f))  # (B, N, channels_out) → (B, N, C) or dy
        return ag.concatenate(answers, -1)

    def context_sets(
        self, context_x: Any, context_y: Any, target_x: Any, context_mask: Any = None
    ) -> tuple[list[tuple[Array | Tensor, Array | Tensor, Array]], Array | Tensor]:
        """[(x, y, mask) of each context set] and target_x: checked as `sets` does, one set or several.

        Raises ValueError unless there are as many sets as `context_dy` says, and as `sets`.
        """
        if self.context_dy is None:
            x, y, target_x, mask = self.sets(context_x, context_y, target_x, context_mask)
            return [(x, y, mask)], target_x
        name, count = type(self).__name__, len(self.context_dy)
        xs, ys = (as_many(name, part, given, count) for part, given in (("x", context_x), ("y", context_y)))
        masks = [None] * count if context_mask is None else as_many(name, "mask", context_mask, count)
        given = numbers(*xs, *ys, target_x)
        target_x, found = given[-1], []
        for s, (dy, mask) in enumerate(zip(self.context_dy, masks, strict=True)):
            found.append(self._pairs("context", given[s], given[count + s], mask, dy=dy, which=f"[{s}]"))
        check_points(name, "target_x", target_x, "N", self.dx)
        check_finite(name, "target_x", target_x)
        if len({len(target_x), *(len(mask) for *_, mask in found)}) > 1:
            tasks = [len(mask) for *_, mask in found]
            raise ValueError(f"{name}: target_x has {len(target_x)} tasks but the contexts {tasks}; they must agree")
        return found, target_x

    def grid(self, context_x: Any, target_x: Array | Tensor, context_mask: Any = None) -> Grid:
        """The grid around contexts and targets, or the one that was given, for every task."""
        return self._grid_around(self._places(context_x, context_mask), target_x)

    def _places(self, context_x: Any, context_mask: Any) -> list[tuple[Any, Any]]:
        """(x, mask) of each context set."""
        if self.context_dy is None:
            return [(context_x, context_mask)]
        masks = [None] * len(context_x) if context_mask is None else context_mask
        return list(zip(context_x, masks, strict=True))

    def _grid_around(self, contexts: list[tuple[Any, Any]], target_x: Array | Tensor) -> Grid:
        """The grid around the places (x, mask) of contexts, and targets."""
        name, sets = type(self).__name__, [*contexts, (target_x, None)]
        if isinstance(self.grid_options, Grid):
            return self.grid_options.holding(name, sets)
        return self.grid_options.around(
            name, sets, multiple=self.network.total_stride, bytes_per_point=self.width * raw(target_x).itemsize
        )

    def lifted(self, h: Array | Tensor) -> Array | Tensor:
        """φ(W E + b) at every place, which is a convolution with a kernel of 1; E where there is no map."""
        if self.lift is None:
            return h
        weight = ag.reshape(ag.transpose(self.lift.weight), (*self.lift.weight.shape[::-1], *[1] * self.dx))
        return self.activation(convolution(h, weight, self.lift.bias))

    def targets(self, task: "Task") -> tuple[Array | Tensor, Array | Tensor, Array]:
        """(target_x, target_y, target_mask) of a task, as every neural process has them, except that hidden targets
        stand where their task has a point: a grid holds all targets.
        """
        target_x, target_y, mask = super().targets(task)
        if not mask.all():
            name, contexts = type(self).__name__, []
            for x, present in self._places(task.context_x, task.context_mask):
                x = raw(x)
                contexts.append((x, check_presence(name, "context_mask", present, np.shape(x)[:2])))
            some = first_present(((raw(target_x), mask), *contexts))  # (B, 1, dx)
            target_x = ag.where(mask[..., None], target_x, some)
        return target_x, target_y, mask


def check_context_dy(context_dy: Sequence[int] | None, dy: int) -> tuple[int, ...]:
    """The numbers of a y of each context set, (dy,) for None; ValueError without a set, or for less than one number."""
    sizes = (dy,) if context_dy is None else tuple(context_dy)
    if not sizes or min(sizes) < 1:
        raise ValueError(f"ConvCNP: context_dy is {context_dy}; give a positive number for each of the context sets")
    return sizes


def as_many(name: str, part: str, given: Any, count: int) -> list:
    """The arrays of `count` context sets; ValueError unless there are so many in a tuple or list."""
    if not isinstance(given, (tuple, list)) or len(given) != count:
        what = f"{len(given)} of them" if isinstance(given, (tuple, list)) else type(given).__name__
        raise ValueError(f"{name}: context_{part} is {what}; pass a tuple of {count} arrays, one for each context set")
    return list(given)


def check_given_grid(grid: GridOptions | Grid, dx: int, total_stride: int) -> None:
    """ValueError unless a `Grid` is of one task, has dx axes, and lengths that the network's total stride divides."""
    if isinstance(grid, GridOptions):
        return
    if np.shape(grid.start) != (1, dx) or len(grid.lengths) != dx:
        raise ValueError(
            f"ConvCNP: grid has start of shape {np.shape(grid.start)} and lengths {grid.lengths}; a grid for all tasks "
            f"has (1, {dx}) and {dx} of them"
        )
    if any(n < 1 or n % total_stride for n in grid.lengths):
        right = f"they must be positive multiples of the network's total stride {total_stride}"
        raise ValueError(f"ConvCNP: grid has lengths {grid.lengths}; {right}")


def _kernel_for(reach: float, layers: int) -> int:
    """The least odd kernel with which so many layers reach so many places."""
    kernel = math.ceil(1 + (reach - 1) / layers)
    return kernel + 1 - kernel % 2


class GridReadout(Module):
    """The way from features on a grid to answers at any x: a set convolution, then an MLP with widths `sizes`, or none.

    Its parts are used by `ConvCNP`.
    """

    def __init__(
        self,
        channels: int,
        sizes: Sequence[int] | None,
        length_scale: float,
        shared: bool = False,
        *,
        learnable: bool = True,
        rng: np.random.Generator,
    ):
        self.convolution = SetConvolution(channels, length_scale, learnable=learnable, density=False, shared=shared)
        self.mlp = None if sizes is None else MLP([channels, *sizes], rng=rng)
