"""Drawn characters completed from some of their pixels: a ConvCNP on the grid, a Transformer neural process, a CNP.

    python -m pip install '.[vision]'
    python examples/image_completion.py [--steps 2000] [--seeds 3] [--floor 0.05] [--out image_completion.png]

An image is a function: a pixel's place is x, its brightness y. Some pixels are known, and the models say what the
others are, each as a normal distribution. Images are `refnp.tasks.glyphs`, 28 × 28 pixels: 595 characters of five
alphabets to learn from, 252 of six others to be asked about, all the same pixels. Four that are only fitted stand
beside the models: the mean image; linear regression, that is a joint normal distribution of all 784 pixels given those
known; a Gaussian process over the places; and the nearest images.

Most pixels are black or white: there a density has no bound, and a model could win by predicting 0 ± 0. So no standard
deviation, of no row, is below --floor, and no pixel counts more than −log(floor √2π), which is 2.08 for 0.05. Ends with
what moving a character does, and with a picture.
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
from refnp.models.tnp import TNPD
from refnp.tasks.glyphs import glyphs
from refnp.tasks.images import ImageTasks, pixel_positions
from refnp.tasks.task import Task
from refnp.training.loop import train
from refnp.training.optimizers import Adam
from refnp.training.schedules import cosine

LEARNED = ("latin", "greek", "cyrillic", "armenian", "canadian")
NEW = ("georgian", "hebrew", "arabic", "lao", "nko", "tifinagh")
SIDE, CANVAS, START = 28, 120, 40  # pixels; an output of the U-Net depends on 53 along each side at most
BATCH = 16
RATES = {"ConvCNP": 2e-3, "TNP-D": 1e-3, "CNP": 2e-3}
KNOWN = (78, 235, 392)  # of 784 pixels, 10, 30 and 50 %; in training 40 to 392
MOVED = 8  # pixels along both axes: the total stride of the U-Net


class InPixels(NeuralProcess):
    """A model that is given places in pixels, neighbours 1 apart, and brightness with a variance of about 1.

    With both below 1 a Transformer sees little of either at first, and takes longer to look beyond the mean image.
    """

    def __init__(self, model: NeuralProcess):
        super().__init__(model.dx, model.dy)
        self.model = model

    def __call__(self, context_x, context_y, target_x, context_mask=None) -> Normal:
        pixel = 2 / (SIDE - 1)
        return self.model(context_x / pixel, 3 * (context_y - 0.2), target_x / pixel, context_mask)


def model(name: str, floor: float, seed: int) -> NeuralProcess:
    """One of the three by name, untrained, in float32."""
    rng = np.random.default_rng(seed)
    made: NeuralProcess
    if name == "ConvCNP":
        network = UNet(16, (32, 48, 64), channels_out=32, dimensions=2, rng=rng)
        grid = OnGridConvCNP(network, channels=16, kernel=7, length_scale=1.0, hidden=(32,), floor=floor, rng=rng)
        made = OnPixels(grid, SIDE, SIDE)
    elif name == "TNP-D":
        made = InPixels(TNPD(2, 1, layers=2, flag=True, floor=floor, rng=rng))
    else:
        made = InPixels(CNP(2, 1, floor=floor, rng=rng))
    return made.astype(np.float32)


def drawn(alphabets: tuple[str, ...], each: int, seed: int) -> np.ndarray:
    """Images (M, 28, 28) in [0, 1]."""
    return glyphs(np.random.default_rng(seed), alphabets=alphabets, each=each, side=SIDE)[0]


def fit(model: NeuralProcess, images: np.ndarray, steps: int, rate: float, seed: int) -> float:
    """Train on 392 pixels that are not known, or 64 of a model of sets, given 40 to 392; the seconds it took."""
    targets = 392 if isinstance(model, OnPixels) else 64
    tasks = ImageTasks(images, context=(40, 392), target=(targets, targets), ragged=True)

    def loss(model, rng):
        return model.loss(tasks.sample(rng, BATCH).astype(np.float32))

    def schedule(step):
        return cosine(step, rate, steps, warmup=steps // 20)

    start = time.perf_counter()
    optimizer = Adam(model.parameters(), learning_rate=rate)
    train(model, loss, optimizer, steps=steps, rng=np.random.default_rng(seed), schedule=schedule, clip=1.0)
    return time.perf_counter() - start


def questions(images: np.ndarray, known: int, count: int, seed: int = 0) -> Task:
    """`count` images with `known` pixels as context and all the others as targets."""
    unknown = images[0].size - known
    tasks = ImageTasks(images, context=(known, known), target=(unknown, unknown))
    return tasks.sample(np.random.default_rng([seed, known]), count)


def asked(model, task: Task) -> Normal:
    """What the model says, as arrays; images one by one, for they are many pixels."""
    found = []
    for i in range(len(task.context_x)):
        given = task[i : i + 1].astype(np.float32)
        with no_grad():
            answer = model(given.context_x, given.context_y, given.target_x)
        found.append((raw(answer.mean), raw(answer.std)))
    return Normal(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def scores(answer: Normal, task: Task) -> tuple[float, float]:
    """Mean log-likelihood of a pixel, each by itself, and the RMSE of their means."""
    error = answer.mean - task.target_y
    return float(answer.log_prob(task.target_y).mean()), float(np.sqrt(np.square(error).mean()))


def numbers_of(x: np.ndarray) -> np.ndarray:
    """The number of the pixel at each place of an image, row after row: (…, N, 2) → (…, N)."""
    return np.rint((x + 1) / 2 * (SIDE - 1)).astype(int) @ (SIDE, 1)


class Fitted:
    """A normal distribution of all pixels given those known; a subclass gives mean (784,) and covariance (784, 784)."""

    def __init__(self, mean: np.ndarray, covariance: np.ndarray, floor: float):
        self.mean, self.covariance, self.floor = mean, covariance + floor**2 * np.eye(len(mean)), floor

    def __call__(self, context_x: np.ndarray, context_y: np.ndarray, target_x: np.ndarray) -> Normal:
        known, wanted = numbers_of(context_x)[0], numbers_of(target_x)[0]
        across = self.covariance[np.ix_(known, wanted)]  # (C, T)
        weights = np.linalg.solve(self.covariance[np.ix_(known, known)], across)
        mean = self.mean[wanted] + (context_y[0, :, 0] - self.mean[known]) @ weights
        variance = self.covariance[wanted, wanted] - (weights * across).sum(0)
        return normal(mean, np.sqrt(np.maximum(variance, 0)), self.floor)


def normal(mean: np.ndarray, std: np.ndarray, floor: float) -> Normal:
    """Of one image: (T,) and (T,)."""
    return Normal(mean[None, :, None], np.maximum(std, floor)[None, :, None])


class MeanImage:
    """Each pixel's mean and deviation over the images that are learned from, whatever is known."""

    def __init__(self, images: np.ndarray, floor: float):
        self.pixels, self.floor = images.reshape(len(images), -1), floor
        self.mean, self.std = self.pixels.mean(0), self.pixels.std(0)

    def __call__(self, context_x: np.ndarray, context_y: np.ndarray, target_x: np.ndarray) -> Normal:
        wanted = numbers_of(target_x)[0]
        return normal(self.mean[wanted], self.std[wanted], self.floor)


class Nearest(MeanImage):
    """Mean and deviation of the 50 images whose known pixels are nearest; 5 or 20 have a lower log-likelihood."""

    def __call__(self, context_x: np.ndarray, context_y: np.ndarray, target_x: np.ndarray) -> Normal:
        known, wanted = numbers_of(context_x)[0], numbers_of(target_x)[0]
        distances = np.square(self.pixels[:, known] - context_y[0, :, 0]).sum(-1)
        nearest = self.pixels[np.argsort(distances)[:50]][:, wanted]
        return normal(nearest.mean(0), nearest.std(0), self.floor)


def gaussian_process(images: np.ndarray, floor: float) -> Fitted:
    """A Gaussian process over the places with the EQ kernel, of those on a grid the best on images to learn from."""
    x = pixel_positions(SIDE, SIDE)
    squares = np.square(x[:, None] - x).sum(-1)
    task, mean = questions(images, KNOWN[1], 40), np.full(len(x), images.mean())
    made = [
        Fitted(mean, scale**2 * np.exp(-squares / (2 * length**2)), max(noise, floor))
        for length in (0.06, 0.1, 0.15, 0.2)
        for scale in (0.2, 0.3, 0.45)
        for noise in (0.05, 0.1, 0.15)
    ]
    return max(made, key=lambda fitted: scores(asked(fitted, task), task)[0])


def fitted(images: np.ndarray, floor: float) -> dict:
    """Those without training, by name."""
    pixels = images.reshape(len(images), -1)
    return {
        "mean image": MeanImage(images, floor),
        "linear regression": Fitted(pixels.mean(0), np.cov(pixels.T), floor),
        "Gaussian process": gaussian_process(images, floor),
        "nearest images": Nearest(images, floor),
    }


def on_canvas(model: NeuralProcess, task: Task, by: int) -> Normal:
    """What the model says of a character that is moved by so many rows and columns, with nothing known around it.

    To a ConvCNP the frame's edges are visible, so it is given a canvas of 120 × 120 with the character at
    (40 + by, 40 + by); the others know no frame.
    """
    if not isinstance(model, OnPixels):
        return asked(model, task.shifted(2 * by / (SIDE - 1)))

    def there(x: np.ndarray) -> np.ndarray:
        return 2 * ((x + 1) / 2 * (SIDE - 1) + START + by) / (CANVAS - 1) - 1

    larger = Task(there(task.context_x), task.context_y, there(task.target_x), task.target_y)
    return asked(OnPixels(model.model, CANVAS, CANVAS), larger)


def moved_row(model: NeuralProcess, task: Task) -> tuple[str, ...]:
    """Log-likelihood as trained, on the canvas, and moved there; and the largest change of a mean by moving."""
    here, there = on_canvas(model, task, 0), on_canvas(model, task, MOVED)
    figures = [scores(answer, task)[0] for answer in (asked(model, task), here, there)]
    return *(f"{f:.3f}" for f in figures), f"{np.abs(there.mean - here.mean).max():.1e}"


def as_image(x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values of some pixels as an image, NaN at the others: (N, 2), (N,) → (28, 28)."""
    image = np.full(SIDE * SIDE, np.nan)
    image[numbers_of(x)] = values
    return image.reshape(SIDE, SIDE)


def draw(answers: list[tuple[Task, dict[str, Normal]]], path: str) -> None:
    """One row a character: the pixels known (unknown ones blue), the truth, and mean and deviation of each model."""
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
    options.add_argument("--steps", type=int, default=2000, help="of training")
    options.add_argument("--seeds", type=int, default=3, help="how often the ConvCNP is trained")
    options.add_argument("--floor", type=float, default=0.05, help="the least standard deviation")
    options.add_argument("--tests", type=int, default=200, help="images in the tables")
    options.add_argument("--each", type=int, default=20, help="drawings of each character to learn from")
    options.add_argument("--out", metavar="FILE", default="image_completion.png", help="where the picture goes")
    chosen = options.parse_args()
    console = Console(width=120)
    learned_from, new = drawn(LEARNED, chosen.each, 0), drawn(NEW, 8, 1)
    tasks = [questions(new, known, chosen.tests) for known in KNOWN]

    columns = [f"{what}, {known}" for what in ("log p", "RMSE") for known in KNOWN]
    table = Table("known pixels:", *columns, "s", title=f"{chosen.tests} characters of alphabets not seen")

    def add(name, model, seconds=""):
        log_p, rmse = zip(*(scores(asked(model, task), task) for task in tasks), strict=True)
        table.add_row(name, *(f"{f:.3f}" for f in (*log_p, *rmse)), seconds)
        return log_p

    for name, rule in fitted(learned_from, chosen.floor).items():
        add(name, rule)
    moved = Table(
        f"{KNOWN[0]} known:", "as trained", "on a canvas", f"moved by {MOVED}, {MOVED}", "change of a mean, at most"
    )
    trained, reached = {}, []
    runs = [(name, 0) for name in ("CNP", "TNP-D")] + [("ConvCNP", seed) for seed in range(chosen.seeds)]
    for name, seed in runs:
        made = model(name, chosen.floor, seed)
        seconds = fit(made, learned_from, chosen.steps, RATES[name], seed)
        log_p = add(f"{name}, seed {seed}, {sum(p.size for p in made.parameters()):,}", made, f"{seconds:.0f}")
        if name == "ConvCNP":
            reached.append(log_p)
        if name not in trained:
            trained[name] = made
            moved.add_row(name, *moved_row(made, tasks[0][:20]))
    spread = np.std(reached, 0, ddof=1) if len(reached) > 1 else np.zeros(len(KNOWN))
    means = zip(np.mean(reached, 0), spread, strict=True)
    table.add_row("ConvCNP, all seeds", *(f"{m:.3f} ± {s:.3f}" for m, s in means))
    console.print(table)
    console.print(moved)

    pictured = [(task[i : i + 1], {}) for i, task in enumerate(tasks)]
    for task, said in pictured:
        said.update({name: asked(model, task) for name, model in trained.items()})
    draw(pictured, chosen.out)
    print(f"{chosen.out}: mean and deviation of every pixel that was not known")


if __name__ == "__main__":
    main()
