"""ConvCNP on the grid: where x are the pixels of an image, the context is the image and a mask of what is known.

    ρ = w ∗ M,    E = [ρ, (w ∗ (M y))/(ρ + ε)],    w = exp(v) > 0        M 1 where a pixel is known, 0 elsewhere
    h = CNN(φ(W E + b))
    p(y_ij | M, y) = N(y_ij; μ_ij, σ_ij²),   (μ, s) = MLP(h_ij) at every pixel,   σ = log(1 + eˢ)

This is the set convolution where points and places coincide: its kernel is a table of k × k weights for each colour.
Positive weights keep the density positive wherever a pixel is known, so that the quotient is a mean of known pixels.
The density tells "black" from "unknown".
Away from the edges a shift of image and mask by multiples of the network's total stride shifts the predictions exactly.

Source: Sivaraya (2023) §4.2-4.3; Gordon et al. (2020), arXiv 1910.13556, §4 and app. D.
Elsewhere: there w = |v|, which has a kink.
Transcription: tests/transcriptions/convcnp.py.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd import Parameter
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.layers.activation import relu
from refnp.layers.convolution import convolution
from refnp.layers.distributions import Normal
from refnp.layers.linear import MLP, Linear
from refnp.layers.masked_reductions import numbers
from refnp.layers.module import Module, on_tape
from refnp.models.checks import check_finite, check_floor, check_positive_counts
from refnp.models.convcnp import Network
from refnp.models.neural_process import NeuralProcess, normal_of

if TYPE_CHECKING:
    from refnp.tasks import Task


class OnGridConvCNP(Module):
    """The ConvCNP of images: model(image, mask) → Normal of the image's shape, at every pixel, known or not.

    Shapes: image (B, C, H, W), mask booleans (B, H, W) or (B, 1, H, W), True = known, for all C `colours`. What the
    mask hides has no influence. H and W need not be multiples of the network's `total_stride`: unknown pixels are added
    below and on the right, and cut off again. `OnPixels` gives it the law of all neural processes.

    network: (B, channels, H, W) → (B, channels_out, H, W), a `UNet` or `SimpleCNN` with dimensions=2.
    channels: what it takes in, made of densities and colours by a linear map and `activation`.
    kernel: k, odd; the first weights are exp(−d²/2ℓ²), ℓ = `length_scale` in pixels.
    divide, eps: divide colours by density + eps, or not. hidden: widths of the hidden layers of the MLP.
    floor: the least σ, f in σ = f + (1 − f) log(1 + eˢ); at least 0, below 1.

    Raises ValueError for options or shapes that do not fit, or NaN that the mask does not hide; TypeError for a mask
    that is not boolean.
    """

    def __init__(
        self,
        network: Network,
        *,
        colours: int = 1,
        channels: int = 8,
        activation: Callable = relu,
        kernel: int = 9,
        length_scale: float = 2.0,
        divide: bool = True,
        eps: float = 1e-8,
        hidden: Sequence[int] = (),
        floor: float = 0.0,
        rng: np.random.Generator,
    ):
        if kernel < 1 or kernel % 2 == 0 or colours < 1 or not 0 < length_scale < np.inf or not eps > 0:
            raise ValueError(
                f"OnGridConvCNP: kernel {kernel} must be odd, and colours {colours}, length_scale {length_scale} and "
                f"eps {eps} positive"
            )
        check_floor("OnGridConvCNP", floor)
        steps = np.arange(kernel) - kernel // 2
        squares = steps[:, None] ** 2 + steps**2
        self.log_weight = Parameter(np.tile(squares / (-2.0 * length_scale**2), (colours, 1, 1, 1)))
        self.lift = Linear(2 * colours, channels, rng=rng)
        self.network = network
        self.mlp = MLP([network.channels_out, *hidden, 2 * colours], rng=rng)
        self.colours, self.activation, self.floor = colours, activation, floor
        self.divide, self.eps = divide, eps

    def __call__(self, image: ArrayLike, mask: Array) -> Normal:
        pixels = self._image(image)
        known = self._mask("mask", mask, pixels)
        pixels = ag.where(known, pixels, 0.0)
        check_finite("OnGridConvCNP", "image", pixels)
        height, width = pixels.shape[2:]
        h = ag.transpose(self.encoded(pixels, known), (0, 2, 3, 1))  # (B, H, W, 2C)
        h = ag.transpose(self.activation(self.lift(h)), (0, 3, 1, 2))
        h = ag.transpose(self.network(h)[:, :, :height, :width], (0, 2, 3, 1))
        answers = normal_of(self.mlp(h), self.floor)
        return Normal(*(ag.transpose(a, (0, 3, 1, 2)) for a in (answers.mean, answers.std)))

    def encoded(self, image: Array | Tensor, known: Array) -> Array | Tensor:
        """Densities and colours at every pixel of the longer image, (B, 2C, H + below, W + right)."""
        total = self.network.total_stride
        added = [(0, 0), (0, 0), *((0, -n % total) for n in image.shape[2:])]
        there = np.broadcast_to(known, image.shape).astype(raw(image).dtype)
        there, colours = np.pad(there, added), ag.pad(ag.where(known, image, 0.0), added)
        weight, groups = ag.exp(self.log_weight), self.colours
        density = convolution(there, weight, groups=groups, padding="same")
        sums = convolution(colours, weight, groups=groups, padding="same")
        return ag.concatenate([density, sums / (density + self.eps) if self.divide else sums], 1)

    @on_tape()
    def loss(self, image: ArrayLike, mask: Array, *, target_mask: Array | None = None) -> Tensor:
        """−(1/n) Σ log p(y), added up over the colours, a mean over n pixels: all, or those of `target_mask` (B, H, W).

        Targets must be numbers, whether known to the model or not; what is no target may be NaN.
        """
        image = self._image(image)
        known = self._mask("mask", mask, image)
        targets = np.ones(known.shape, bool) if target_mask is None else self._mask("target_mask", target_mask, image)
        y = ag.where(targets, image, 0.0)
        check_finite("OnGridConvCNP", "image", y)
        log_prob = self(image, known).log_prob(y, mask=targets)
        return -ag.sum(log_prob) / max(int(targets.sum()), 1)

    def _image(self, image: Any) -> Any:
        """Images in floating numbers, or ValueError unless they are (B, C, H, W) with a pixel at least."""
        (image,) = numbers(image)
        if image.ndim != 4 or image.shape[1] != self.colours or 0 in image.shape[2:]:
            raise ValueError(f"OnGridConvCNP: image has shape {image.shape}; it must be (B, {self.colours}, H, W)")
        return image

    def _mask(self, argument: str, mask: Array, image: Any) -> Array:
        """A mask as (B, 1, H, W)."""
        mask, (tasks, _, height, width) = np.asarray(mask), image.shape
        if mask.dtype != bool:
            raise TypeError(f"OnGridConvCNP: {argument} is {mask.dtype}; pass booleans, True = known")
        right = (tasks, height, width)
        if mask.shape not in (right, (tasks, 1, height, width)):
            raise ValueError(f"OnGridConvCNP: {argument} has shape {mask.shape}; it must be {right}, as the pixels")
        return mask.reshape(tasks, 1, height, width)


class OnPixels(NeuralProcess):
    """An `OnGridConvCNP` under the law of all neural processes, for images of height × width with dx = 2.

    Positions are rows and columns as `refnp.tasks.images.pixel_positions` has them, from −1 to 1, with a step of
    2/(height − 1) and 2/(width − 1); a side of one pixel lies at 0. Targets that a task hides stand at the first pixel.
    Raises ValueError for sides below 1, for positions that are no pixels, or one twice in a context.
    """

    def __init__(self, model: OnGridConvCNP, height: int, width: int):
        super().__init__(2, model.colours)
        check_positive_counts("OnPixels", height=height, width=width)
        self.model, self.height, self.width = model, height, width

    def _predicted(
        self, context_x: Array | Tensor, context_y: Array | Tensor, mask: np.ndarray, target_x: Array | Tensor
    ) -> Normal:
        which = np.arange(self.height * self.width)[:, None] == self._pixels("context_x", context_x, mask)[:, None]
        which &= mask[:, None]  # (B, P, M)
        if (which.sum(-1) > 1).any():
            raise ValueError("OnPixels: context_x has a pixel twice in a task; a pixel has one colour")
        size = len(mask), self.height, self.width
        colours = ag.swapaxes(ag.matmul(which.astype(raw(context_y).dtype), context_y), 1, 2)  # (B, dy, P)
        answers = self.model(ag.reshape(colours, (len(mask), self.dy, *size[1:])), which.any(-1).reshape(size))
        places = np.arange(len(mask))[:, None], slice(None), self._pixels("target_x", target_x)
        flat = (ag.reshape(a, (len(mask), self.dy, self.height * self.width)) for a in (answers.mean, answers.std))
        return Normal(*(a[places] for a in flat))  # (B, N, dy)

    def targets(self, task: "Task") -> tuple[Array | Tensor, Array | Tensor, Array]:
        """(target_x, target_y, target_mask) of a task, as every neural process has them, except that hidden targets
        stand at the first pixel: 0 is no pixel where a side is even.
        """
        target_x, target_y, mask = super().targets(task)
        return target_x if mask.all() else ag.where(mask[..., None], target_x, -1.0), target_y, mask

    def _pixels(self, argument: str, x: Any, mask: Array | None = None) -> Array:
        """The number of the pixel at each position, (B, N)."""
        lasts = np.array([self.height - 1, self.width - 1])
        places = (raw(x).real.astype(np.float64) + 1) / 2 * lasts  # (B, N, 2)
        near = np.rint(places)
        wrong = (np.abs(places - near) > 1e-3) | (near < 0) | (near > lasts)
        if (wrong.any(-1) & (True if mask is None else mask)).any():
            raise ValueError(
                f"OnPixels: {argument} holds positions that are no pixels of {self.height} × {self.width} in [−1, 1]²"
            )
        return np.clip(near, 0, lasts).astype(int) @ np.array([self.width, 1])
