"""Learning from a few examples: sine waves from a few points, and characters never seen before from a few drawings.

    python -m pip install '.[vision]'
    python examples/few_shot.py [--steps 1500] [--floor 0.05] [--seeds 3] [--out few_shot.png]

A model is given the examples as its context and predicts the rest; nothing is trained any more in the test. Waves are
MAML's, y = A sin(x − φ), and neural processes answer with normal distributions; as there is no noise, no standard
deviation is below --floor.

Characters are `refnp.tasks.glyphs`: 28 × 28 pixels, drawn with many fonts, turned, sheared and moved. Five alphabets
with 595 characters are for training, six others with 252 for the test. A prototypical network has features of an image
by convolutions; a class is the mean of its examples' features, in any order and any number, and an image belongs to the
nearest one. Beside it stand the nearest drawing, and a ridge regression of the classes on the pixels.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

import refnp.autograd as ad
from refnp.autograd import no_grad
from refnp.autograd.primitives import raw
from refnp.layers import Convolution, LayerNorm, Linear, Module, Normal, cross_entropy
from refnp.layers.activation import relu
from refnp.models.attentive import CANP
from refnp.models.neural_process import CNP, NeuralProcess
from refnp.models.tnp import TNPD
from refnp.tasks.few_shot import Episodes, SinusoidTasks
from refnp.tasks.glyphs import glyphs
from refnp.tasks.task import Places, Task
from refnp.training.loop import train
from refnp.training.optimizers import Adam
from refnp.training.schedules import cosine

POINTS = (1, 2, 5, 10)  # of a wave, in the table; in training 1 to 10
LEARNED = ("latin", "greek", "cyrillic", "armenian", "canadian")
NEW = ("georgian", "hebrew", "arabic", "lao", "nko", "tifinagh")
EPISODES = ((5, 1), (5, 5), (20, 1), (20, 5))  # ways and shots, in the table; in training 20 ways, 1 and 5 shots
BATCH, RATE = 16, 1e-3


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


# characters


class PrototypicalNetwork(Module):
    """Logits of classes: −|e − m_k|²/√d, e the features of an image and m_k the mean of those of class k's examples.

    Features are three convolutions of stride 2 with relu, a linear map and LayerNorm.
    Shapes: images (B, M, 784), their classes (B, M, N) one-hot, images (B, T, 784) → (B, T, N).
    Source: Snell, Swersky & Zemel (2017), eq. 1 and 2.
    """

    def __init__(self, *, channels: int = 32, features: int = 64, rng: np.random.Generator):
        self.convolutions = [
            Convolution(c, channels, 3, dimensions=2, stride=2, padding=1, rng=rng) for c in (1, channels, channels)
        ]
        self.output = Linear(16 * channels, features, rng=rng)  # 28 → 14 → 7 → 4 pixels along each side
        self.norm = LayerNorm(features)

    def features(self, images):
        """(B, M, 784) → (B, M, d)."""
        *front, pixels = images.shape
        side = int(pixels**0.5)
        h = ad.reshape(images, (-1, 1, side, side))
        for convolution in self.convolutions:
            h = relu(convolution(h))
        h = self.norm(self.output(ad.reshape(h, (h.shape[0], -1))))
        return ad.reshape(h, (*front, h.shape[-1]))

    def __call__(self, context_x, context_y, target_x):
        e, known = self.features(target_x), self.features(context_x)  # (B, T, d), (B, M, d)
        members = ad.swapaxes(context_y, 1, 2)  # (B, N, M)
        means = ad.matmul(members, known) / ad.sum(members, -1, keepdims=True)  # (B, N, d)
        differences = ad.expand_dims(e, 2) - ad.expand_dims(means, 1)  # (B, T, N, d)
        return ad.sum(differences * differences, -1) / -(e.shape[-1] ** 0.5)


def episode_loss(images: np.ndarray, labels: np.ndarray) -> Callable:
    """Cross-entropy of the classes in an episode of 20 ways and 1 or 5 shots."""
    samplers = [Episodes(images, labels, ways=20, shots=shots, queries=5) for shots in (1, 5)]

    def loss(model, rng):
        task = samplers[rng.integers(len(samplers))].sample(rng, 1).astype(np.float32)
        return cross_entropy(model(task.context_x, task.context_y, task.target_x), task.target_y.argmax(-1))

    return loss


def predicted(model: Module, task: Task) -> np.ndarray:
    """The class of every target, (B, T): that of the largest logit. Episode by episode, for they are many images."""
    found = []
    for i in range(len(task.context_x)):
        episode = task[i : i + 1].astype(np.float32)
        with no_grad():
            found.append(raw(model(episode.context_x, episode.context_y, episode.target_x)).argmax(-1))
    return np.concatenate(found)


def squares(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """|x − z|² of every x (B, T, d) and z (B, C, d): (B, T, C)."""
    return np.square(x).sum(-1)[..., None] - 2 * x @ z.swapaxes(1, 2) + np.square(z).sum(-1)[:, None]


def nearest_image(task: Task) -> np.ndarray:
    """The class of the nearest image."""
    nearest = squares(task.target_x, task.context_x).argmin(-1)
    return np.take_along_axis(task.context_y.argmax(-1), nearest, 1)


def ridge(task: Task, penalty: float = 10.0) -> np.ndarray:
    """The class whose 0 or 1 is predicted highest by the W of least |Y − X W|² + penalty · |W|², of centred X and Y."""
    mean_x, mean_y = (a.mean(1, keepdims=True) for a in (task.context_x, task.context_y))
    x = task.context_x - mean_x
    weights = np.linalg.solve(x @ x.mT + penalty * np.eye(x.shape[1]), task.context_y - mean_y)  # (B, C, N)
    return ((task.target_x - mean_x) @ x.mT @ weights + mean_y).argmax(-1)


def accuracy(classes: np.ndarray, task: Task) -> tuple[float, float]:
    """The fraction of targets that are right, and its standard error over episodes."""
    right = (classes == task.target_y.argmax(-1)).mean(-1)
    return float(right.mean()), float(right.std(ddof=1) / np.sqrt(len(right)))


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


def draw_bars(ax, found: dict[str, list[tuple[float, float]]]) -> None:
    """Accuracy of each rule in each kind of episode, with two standard errors."""
    places = np.arange(len(EPISODES))
    for i, (name, points) in enumerate(found.items()):
        mean, error = zip(*points, strict=True)
        ax.bar(places + (i - 1) / 4, mean, 1 / 4, yerr=2 * np.array(error), label=name)
    ax.set_xticks(places, [f"{ways} ways\n{shots} shots" for ways, shots in EPISODES], fontsize=7)
    ax.set_ylim(0, 1.15)
    ax.set_title("accuracy on characters of alphabets never seen", fontsize=9)
    ax.tick_params(labelsize=7)
    ax.legend(fontsize=7, loc="upper center", ncols=3)


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


def draw(trained: dict[str, NeuralProcess], wave: tuple, found: dict, episode: tuple, path: str) -> list[str]:
    """Above a wave from 5 points, below the accuracies and an episode; the titles of the wave's panels."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure = plt.figure(figsize=(10, 7), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(2, 3))
    said = draw_wave(above.subplots(1, len(trained), sharey=True), trained, *wave)
    left, right = below.subfigures(1, 2, width_ratios=(1, 1))
    draw_bars(left.subplots(), found)
    task, classes = episode
    draw_episode(right.subplots(1 + task.target_x.shape[1] // 5, 5), task, classes)
    right.suptitle("one drawing of each class (blue), and what the network says of others", fontsize=9)
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
    options.add_argument("--steps", type=int, default=1500, help="of training on waves; twice as many on characters")
    options.add_argument("--floor", type=float, default=0.05, help="the least standard deviation")
    options.add_argument("--tests", type=int, default=200, help="waves, and episodes, in the tables")
    options.add_argument("--seeds", type=int, default=3, help="how often the network of characters is trained")
    options.add_argument("--each", type=int, default=20, help="drawings of each character")
    options.add_argument("--out", metavar="FILE", default="few_shot.png", help="where the picture goes")
    chosen = options.parse_args()
    console = Console(width=110)

    on_waves = models(1, 1, chosen.floor, 0)
    seconds = {name: fit(model, wave_loss, chosen.steps, 0) for name, model in on_waves.items()}
    console.print(wave_table(on_waves, seconds, chosen.tests, 0))

    drawn = [glyphs(np.random.default_rng([0, i]), alphabets=a, each=chosen.each) for i, a in enumerate((LEARNED, NEW))]
    networks = [PrototypicalNetwork(rng=np.random.default_rng(s)).astype(np.float32) for s in range(chosen.seeds)]
    spent = sum(fit(network, episode_loss(*drawn[0]), 2 * chosen.steps, s) for s, network in enumerate(networks))

    def sample(ways: int, shots: int, queries: int = 5, episodes: int = chosen.tests) -> Task:
        sampler = Episodes(*drawn[1], ways=ways, shots=shots, queries=queries)
        return sampler.sample(np.random.default_rng([ways, shots]), episodes)

    tasks = [sample(*kind) for kind in EPISODES]
    rules: dict[str, Callable[[Task], np.ndarray]] = {"nearest drawing": nearest_image, "ridge regression": ridge}
    rows = {name: [accuracy(rule(task), task) for task in tasks] for name, rule in rules.items()}
    for seed, network in enumerate(networks):
        name = f"prototypes, seed {seed}"
        rows[name] = [accuracy(predicted(network, task), task) for task in tasks]
    columns = (f"{ways} ways, {shots} shots" for ways, shots in EPISODES)
    table = Table("accuracy:", *columns, title="characters of alphabets not seen in training; ± over episodes")
    for name, points in rows.items():
        table.add_row(name, *(f"{mean:.3f} ± {error:.3f}" for mean, error in points))
    means = np.array([[mean for mean, _ in rows[name]] for name in rows if name.startswith("prototypes")])
    spread = means.std(0, ddof=1) if len(means) > 1 else np.zeros(len(EPISODES))
    table.add_row("mean of the seeds", *(f"{m:.3f} ± {s:.3f}" for m, s in zip(means.mean(0), spread, strict=True)))
    console.print(table)
    print(f"{len(networks)} networks of {sum(p.size for p in networks[0].parameters()):,} parameters: {spent:.0f} s")

    episode = sample(5, 1, queries=3, episodes=1)
    classes = predicted(networks[0], episode)
    shown = {name: points for name, points in rows.items() if name in (*rules, "prototypes, seed 0")}
    said = draw(on_waves, pictured_wave(0), shown, (episode, classes), chosen.out)
    print(f"{chosen.out}: a wave from 5 points,", "; ".join(said))
    right = int((classes == episode.target_y.argmax(-1)).sum())
    print(f"{chosen.out}: an episode with one drawing of each class, of which {right} of {classes.size} are right")


if __name__ == "__main__":
    main()
