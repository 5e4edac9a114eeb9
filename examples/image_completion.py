"""Handwritten digits completed from a few pixels: a ConvCNP on the grid, two Transformer neural processes, a CNP.

    python -m pip install '.[vision]'
    python examples/image_completion.py [--steps 1000] [--floor 0.05] [--seed 0] [--out image_completion.png]

An image is a function: a pixel's place is x, its brightness y. Some pixels are known, and the models say what the
others are, each as a normal distribution. They learn from the first half of scikit-learn's 1797 digits of 8 × 8 pixels
and predict the second half, all the same pixels. Two that are only fitted stand beside them: the mean
image, and a joint normal distribution of all 64 pixels given those known.

Brightness comes in sixteenths and some pixels are black in nearly all digits: there a density has no bound, and a model
could win by predicting 0 ± 0. So no standard deviation, of no row, is below --floor, and no pixel counts more than
−log(floor √2π), which is 2.08 for 0.05. Ends with what moving a digit does, and with a picture.
"""

import argparse
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from refnp.autograd import no_grad
from refnp.autograd.primitives import raw
from refnp.layers import Normal
from refnp.layers.unet import UNet
from refnp.models.convcnp_image import OnGridConvCNP, OnPixels
from refnp.models.neural_process import CNP, NeuralProcess
from refnp.models.te_tnp import TETNP
from refnp.models.tnp import TNPD
from refnp.numbers.summation import sum_of_products
from refnp.tasks.images import ImageTasks, digits
from refnp.tasks.task import Task
from refnp.training.loop import train
from refnp.training.optimizers import Adam
from refnp.training.schedules import cosine

SIDE, CANVAS = 8, 32
BATCH = 16
RATES = {"ConvCNP": 3e-3, "TE-TNP": 2e-3, "TNP-D": 1e-3, "CNP": 3e-3}
KNOWN = (5, 16, 32)  # of 64 pixels, in the tables; in training 1 to 48
MOVED = 8  # pixels along both axes
LONGER = {"ConvCNP": 2, "TE-TNP": 1, "TNP-D": 3, "CNP": 3}  # steps for each of --steps: steps cost differently


class InPixels(NeuralProcess):
    """A model that is given places in pixels, neighbours 1 apart, and brightness with a variance of about 1.

    With both below 1 a Transformer sees little of either at first, and takes longer to look beyond the mean image.
    """

    def __init__(self, model: NeuralProcess):
        super().__init__(model.dx, model.dy)
        self.model = model

    def __call__(self, context_x, context_y, target_x, context_mask=None) -> Normal:
        pixel = 2 / (SIDE - 1)
        return self.model(context_x / pixel, 3 * (context_y - 0.3), target_x / pixel, context_mask)


def models(floor: float, seed: int) -> dict[str, NeuralProcess]:
    """The four by name, untrained, in float32. The U-Net has no strides: it keeps shifts by every whole pixel."""
    rng = np.random.default_rng(seed)
    network = UNet(16, (32, 32, 32), channels_out=32, kernel=3, stride=1, dimensions=2, rng=rng)
    grid = OnGridConvCNP(network, channels=16, kernel=5, length_scale=1.0, hidden=(32,), floor=floor, rng=rng)
    made = {
        "ConvCNP": OnPixels(grid, SIDE, SIDE),
        "TE-TNP": InPixels(TETNP(2, 1, layers=2, length_scale=2.0, floor=floor, rng=rng)),
        "TNP-D": InPixels(TNPD(2, 1, layers=2, flag=True, floor=floor, rng=rng)),
        "CNP": InPixels(CNP(2, 1, floor=floor, rng=rng)),
    }
    return {name: model.astype(np.float32) for name, model in made.items()}


def halves() -> tuple[np.ndarray, np.ndarray]:
    """Images to learn from, and to be asked about: the first half and the second, (M, 8, 8) in [0, 1]."""
    images, _ = digits()
    middle = len(images) // 2
    return images[:middle], images[middle:]


def fit(model: NeuralProcess, images: np.ndarray, steps: int, rate: float, seed: int) -> float:
    """Train on 16 pixels that are not known, given 1 to 48 that are; the seconds it took."""
    tasks = ImageTasks(images, context=(1, 48), target=(16, 16), ragged=True)

    def loss(model, rng):
        return model.loss(tasks.sample(rng, BATCH).astype(np.float32))

    def schedule(step):
        return cosine(step, rate, steps, warmup=steps // 20)

    start = time.perf_counter()
    optimizer = Adam(model.parameters(), learning_rate=rate)
    train(model, loss, optimizer, steps=steps, rng=np.random.default_rng(seed), schedule=schedule, clip=1.0)
    return time.perf_counter() - start


def questions(images: np.ndarray, known: int, count: int, seed: int) -> Task:
    """`count` images with `known` pixels as context and all the others as targets, in float32."""
    unknown = images[0].size - known
    tasks = ImageTasks(images, context=(known, known), target=(unknown, unknown))
    return tasks.sample(np.random.default_rng([seed, known]), count).astype(np.float32)


def asked(model, task: Task) -> Normal:
    """What the model says, as arrays."""
    with no_grad():
        answer = model(task.context_x, task.context_y, task.target_x)
    return Normal(raw(answer.mean), raw(answer.std))


def scores(answer: Normal, task: Task) -> tuple[float, float]:
    """Mean log-likelihood of a pixel, each by itself, and the RMSE of their means."""
    error = answer.mean - task.target_y
    return float(answer.log_prob(task.target_y).mean()), float(np.sqrt(np.square(error).mean()))


def numbers_of(x: np.ndarray) -> np.ndarray:
    """The number of the pixel at each place of an 8 × 8 image, row after row: (B, N, 2) → (B, N)."""
    return np.rint((x + 1) / 2 * (SIDE - 1)).astype(int) @ (SIDE, 1)


class Fitted:
    """Images as draws from one normal distribution: its mean alone, or the mean and deviation given what is known."""

    def __init__(self, images: np.ndarray, floor: float, *, conditional: bool):
        pixels = images.reshape(len(images), -1)
        self.mean = pixels.mean(0)
        self.covariance = np.cov(pixels.T) + floor**2 * np.eye(len(self.mean))
        self.floor, self.conditional = floor, conditional

    def __call__(self, context_x: np.ndarray, context_y: np.ndarray, target_x: np.ndarray) -> Normal:
        known, wanted = numbers_of(context_x), numbers_of(target_x)
        mean, variance = self.mean[wanted], self.covariance[wanted, wanted]  # (B, T)
        if self.conditional:
            across = self.covariance[wanted[:, :, None], known[:, None]]  # (B, T, C)
            within = self.covariance[known[:, :, None], known[:, None]]  # (B, C, C)
            weights = np.linalg.solve(within, across.swapaxes(1, 2))  # (B, C, T)
            mean = mean + sum_of_products("bct,bc->bt", weights, context_y[..., 0] - self.mean[known])
            variance = variance - sum_of_products("bct,btc->bt", weights, across)
        return Normal(mean[..., None], np.maximum(np.sqrt(variance), self.floor)[..., None])


def on_canvas(model: NeuralProcess, task: Task, by: int) -> Normal:
    """What the model says of a digit that is moved by so many rows and columns, with nothing known around it.

    To a ConvCNP the frame's edges are visible, so it is given a canvas of 32 × 32 with the digit at (8 + by, 8 + by);
    the others know no frame.
    """
    if not isinstance(model, OnPixels):
        return asked(model, task.shifted(2 * by / (SIDE - 1)))

    def there(x: np.ndarray) -> np.ndarray:
        return 2 * ((x + 1) / 2 * (SIDE - 1) + 8 + by) / (CANVAS - 1) - 1

    larger = Task(there(task.context_x), task.context_y, there(task.target_x), task.target_y)
    return asked(OnPixels(model.model, CANVAS, CANVAS), larger)


def moved_row(model: NeuralProcess, task: Task) -> tuple[str, ...]:
    """Log-likelihood as trained, on the canvas, and moved there; and the largest change of a mean by moving."""
    here, there = on_canvas(model, task, 0), on_canvas(model, task, MOVED)
    figures = [scores(answer, task)[0] for answer in (asked(model, task), here, there)]
    return *(f"{f:.3f}" for f in figures), f"{np.abs(there.mean - here.mean).max():.1e}"


def as_image(x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values of some pixels as an image, NaN at the others: (N, 2), (N,) → (8, 8)."""
    image = np.full(SIDE * SIDE, np.nan)
    image[numbers_of(x)] = values
    return image.reshape(SIDE, SIDE)


def draw(answers: list[tuple[Task, dict[str, Normal]]], path: str) -> None:
    """One row a digit: the pixels known (unknown ones blue), the truth, and mean and deviation of each model."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    names = list(answers[0][1])
    titles = ["known", "truth", *(title for name in names for title in (f"{name}: mean", "σ"))]
    size = 1.25 * len(titles), 1.5 * len(answers) + 0.4
    figure, axes = plt.subplots(len(answers), len(titles), figsize=size, layout="constrained")
    greys = plt.get_cmap("gray_r").with_extremes(bad="cornflowerblue")
    for row, (task, said) in zip(axes, answers, strict=True):
        seen = as_image(task.context_x[0], task.context_y[0, :, 0])
        row[0].imshow(seen, cmap=greys, vmin=0, vmax=1)
        row[0].set_xlabel(f"{len(task.context_x[0])} of {SIDE * SIDE}", fontsize=7)

        def filled(values, seen=seen, task=task):
            return np.where(np.isnan(seen), as_image(task.target_x[0], values[0, :, 0]), seen)

        row[1].imshow(filled(task.target_y), cmap=greys, vmin=0, vmax=1)
        for i, name in enumerate(names):
            row[2 + 2 * i].imshow(filled(said[name].mean), cmap=greys, vmin=0, vmax=1)
            row[2 + 2 * i].set_xlabel("log p {:.2f}, RMSE {:.2f}".format(*scores(said[name], task)), fontsize=7)
            deviation = as_image(task.target_x[0], said[name].std[0, :, 0])
            shades = plt.get_cmap("magma").with_extremes(bad="cornflowerblue")
            shown = row[3 + 2 * i].imshow(deviation, cmap=shades, vmin=0, vmax=0.5)
            row[3 + 2 * i].set_xlabel(f"up to {np.nanmax(deviation):.2f}", fontsize=7)
    figure.colorbar(shown, ax=axes[:, -1], shrink=0.6).ax.tick_params(labelsize=7)
    for ax, title in zip(axes[0], titles, strict=True):
        ax.set_title(title, fontsize=9)
    for ax in axes.flat:
        ax.set_xticks([])
        ax.set_yticks([])
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument(
        "--steps", type=int, default=1000, help="of training, for TE-TNP; two or three times as many for the others"
    )
    options.add_argument("--floor", type=float, default=0.05, help="the least standard deviation")
    options.add_argument("--tests", type=int, default=1000, help="images in the tables")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", metavar="FILE", default="image_completion.png", help="where the picture goes")
    chosen = options.parse_args()
    console = Console(width=110)
    learned_from, new = halves()
    tasks = [questions(new, known, chosen.tests, chosen.seed) for known in KNOWN]

    columns = [f"{what}, {known}" for what in ("log p", "RMSE") for known in KNOWN]
    table = Table("known pixels:", *columns, "parameters", "steps", "s", title="pixels not known, of images not seen")

    def add(name, model, *figures):
        log_p, rmse = zip(*(scores(asked(model, task), task) for task in tasks), strict=True)
        table.add_row(name, *(f"{f:.3f}" for f in (*log_p, *rmse)), *figures)

    add("mean image", Fitted(learned_from, chosen.floor, conditional=False), "64", "", "")
    add("joint normal", Fitted(learned_from, chosen.floor, conditional=True), "2,144", "", "")
    trained = models(chosen.floor, chosen.seed)
    moved = Table(
        "16 pixels known:", "as trained", "on a canvas", f"moved by {MOVED}, {MOVED}", "change of a mean, at most"
    )
    for name, model in trained.items():
        steps = LONGER[name] * chosen.steps
        seconds = fit(model, learned_from, steps, RATES[name], chosen.seed)
        add(name, model, f"{sum(p.size for p in model.parameters()):,}", f"{steps}", f"{seconds:.0f}")
        moved.add_row(name, *moved_row(model, tasks[1][:200]))
    console.print(table)
    console.print(moved)

    pictured = [(task[i : i + 1], {}) for i, task in enumerate(tasks)]
    panels = Table("in the picture:", *(f"{name}" for name in trained), title="log p, RMSE, largest σ")
    for task, said in pictured:
        said.update({name: asked(model, task) for name, model in trained.items()})
        figures = ("{:.2f} {:.2f} {:.2f}".format(*scores(p, task), p.std.max()) for p in said.values())
        panels.add_row(f"{task.context_x.shape[1]} known", *figures)
    console.print(panels)
    draw(pictured, chosen.out)
    print(f"{chosen.out}: mean and deviation of every pixel that was not known")


if __name__ == "__main__":
    main()
