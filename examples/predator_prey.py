"""Predators and prey: a ConvCNP that has only ever seen simulated worlds predicts the real lynx and hares.

    python -m pip install '.[study]'
    python examples/predator_prey.py [--steps 5000] [--seed 0] [--out predator_prey.png]

Trained on stochastic Lotka-Volterra equations, each task another world with coefficients of its own, observed at random
times; then it predicts the pelts that the Hudson's Bay Company collected from 1900 to 1920, one series, known through
its context only. The model sees z = log(1 + y), and predicts in three ways:

    between    each year from the 20 others
    ahead      the four years after 1908, 1909, … 1916 from those before
    worlds     new simulated worlds, in the way of the training: what to expect if the real one were such a world

Ends in a picture: years left out at either side of a known one, and a forecast from 1912 with paths drawn together.
"""

import argparse
from collections.abc import Callable, Iterator

import numpy as np
from rich.console import Console
from rich.table import Table

from refnp.autograd import no_grad
from refnp.layers.distributions import Normal
from refnp.layers.set_convolution import GridOptions
from refnp.models.convcnp import ConvCNP
from refnp.models.joint import Autoregressive
from refnp.tasks.predator_prey import PredatorPreyTasks, lynx_hare
from refnp.tasks.task import Task
from refnp.training.loop import train
from refnp.training.optimizers import Adam
from refnp.training.schedules import cosine

BATCH, RATE, WORLDS = 16, 3e-3, 512
POINTS_PER_YEAR, MARGIN = 4, 1.0
SIMULATED = PredatorPreyTasks(data=(60, 150), targets=(10, 50), steps=2200)
NAMES, COLOURS = ("hare", "lynx"), ("tab:brown", "tab:blue")
SPREAD = 1.959963984540054  # 95 % of a normal distribution lie within so many σ


def logs(task: Task) -> Task:
    """The task as the model sees it: z = log(1 + y) in float32."""
    z = (np.log1p(y) for y in (task.context_y, task.target_y))
    return Task(task.context_x, next(z), task.target_x, next(z)).astype(np.float32)


def batches(rng: np.random.Generator) -> Iterator[Task]:
    """Batches of new worlds for ever. Many are simulated at once, those of equal times come one after the other."""
    while True:
        worlds = logs(SIMULATED.sample(rng, WORLDS))
        for first in range(0, WORLDS, BATCH):
            yield worlds[first : first + BATCH]


def fit(steps: int, seed: int) -> ConvCNP:
    """A ConvCNP of two populations, trained on simulated worlds."""
    first, second, third = np.random.default_rng(seed).spawn(3)
    model = ConvCNP.gordon("xl", dy=2, grid=GridOptions(POINTS_PER_YEAR, MARGIN), rng=first).astype(np.float32)
    worlds = batches(second)

    def schedule(step):
        return cosine(step, RATE, steps, warmup=steps // 20)

    optimizer = Adam(model.parameters(), learning_rate=RATE)
    train(
        model, lambda model, _: model.loss(next(worlds)), optimizer, steps=steps, rng=third, schedule=schedule, clip=1
    )
    return model


def asked(*known_and_asked: tuple[np.ndarray, np.ndarray]) -> Task:
    """Tasks from the real series: pairs of booleans (21,), the years that are known and those asked for."""
    years, pelts = lynx_hare()

    def part(which: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        return np.stack([(years - years[0])[w] for w in which])[..., None], np.stack([pelts[w] for w in which])

    known, wanted = (list(column) for column in zip(*known_and_asked, strict=True))
    return Task(*part(known), *part(wanted))


def between() -> Task:
    """Each year from all others: 21 tasks."""
    years = np.arange(len(lynx_hare()[0]))
    return asked(*((years != year, years == year) for year in years))


def ahead() -> list[Task]:
    """The four years after 1908, … 1916, each from all years before: a batch for every length of context."""
    years = lynx_hare()[0]
    return [asked((years <= last, (years > last) & (years <= last + 4))) for last in range(1908, 1917)]


def answers(model: ConvCNP, task: Task) -> Normal:
    """What the model says of z = log(1 + y) at each target by itself, in float64."""
    seen = logs(task)
    with no_grad():
        normal = model(seen.context_x, seen.context_y, seen.target_x)
    return Normal(*(part.astype(np.float64) for part in (normal.mean, normal.std)))


def neighbours(task: Task) -> np.ndarray:
    """The plain guess: straight lines in z between the nearest known years; beyond them the last value; (B, T, 2)."""
    z = np.log1p(task.context_y)
    lines = [
        [np.interp(task.target_x[b, :, 0], task.context_x[b, :, 0], z[b, :, population]) for population in range(2)]
        for b in range(task.batch)
    ]
    return np.expm1(np.array(lines)).swapaxes(1, 2)


def judged(model: ConvCNP, tasks: list[Task]) -> list[str]:
    """Log-likelihood of y per value, RMSE of the median, of the plain guess, and how many lie in the 95 % interval."""
    rows = []
    for task in tasks:
        normal, y = answers(model, task), task.target_y
        z = np.log1p(y)
        density = normal.log_prob(z) - z  # of y:  p(y) = p(z) dz/dy,  dz/dy = 1/(1 + y)
        errors = [np.expm1(normal.mean) - y, neighbours(task) - y]
        inside = np.abs(z - normal.mean) <= SPREAD * normal.std
        rows.append([part.ravel() for part in (density, errors[0] ** 2, errors[1] ** 2, inside)])
    density, own, plain, inside = (np.concatenate(column) for column in zip(*rows, strict=True))
    return [f"{density.mean():.2f}", f"{own.mean() ** 0.5:.1f}", f"{plain.mean() ** 0.5:.1f}", f"{inside.mean():.0%}"]


def interval(normal: Normal) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lower end, median and upper end of 95 % for y; a population is never below 0."""
    ends = (normal.mean + side * SPREAD * normal.std for side in (-1, 0, 1))
    low, middle, high = (np.maximum(np.expm1(z), 0) for z in ends)
    return low, middle, high


def pictured() -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """The two panels: which years are known."""
    return {
        "every third year": lambda years: (years - years[0]) % 3 == 0,
        "until 1912": lambda years: years <= 1912,
    }


def draw(model: ConvCNP, seed: int, path: str) -> None:
    """Pelts of both panels, median and 95 % interval at any time, and in the forecast four paths drawn together."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    years, pelts = lynx_hare()
    figure, all_axes = plt.subplots(1, 2, figsize=(11, 3.8), sharey=True, layout="constrained")
    fine = np.linspace(0, years[-1] - years[0], 161)
    for axes, (title, known_in) in zip(all_axes, pictured().items(), strict=True):
        known = known_in(years)
        task = Task(
            (years - years[0])[None, known, None], pelts[None, known], fine[None, :, None], np.zeros((1, 161, 2))
        )
        low, middle, high = interval(answers(model, task))
        for i, (name, colour) in enumerate(zip(NAMES, COLOURS, strict=True)):
            axes.fill_between(years[0] + fine, low[0, :, i], high[0, :, i], color=colour, alpha=0.15, lw=0)
            axes.plot(years[0] + fine, middle[0, :, i], color=colour, label=f"{name}: median, 95 %")
            axes.plot(years[known], pelts[known, i], "o", color=colour, ms=4, label=f"{name}: known")
            axes.plot(years[~known], pelts[~known, i], "o", color=colour, mfc="white", ms=4, label=f"{name}: asked for")
        if "until" in title:
            last = years[known][-1] - years[0]
            later = np.arange(last + 0.5, years[-1] - years[0] + 0.1, 0.5)
            seen = logs(Task(task.context_x, task.context_y, later[None, :, None], np.zeros((1, len(later), 2))))
            with no_grad():
                chain = Autoregressive(model)(seen.context_x, seen.context_y, seen.target_x)
                paths = np.expm1(chain.sample(np.random.default_rng(seed), 4))  # (4, 1, T, 2)
            for i, colour in enumerate(COLOURS):
                axes.plot(years[0] + later, paths[:, 0, :, i].T, color=colour, lw=0.6, alpha=0.7)
        axes.set_title(f"known: {title}", fontsize=10)
        axes.set_xticks(years[::5])
        axes.set_ylim(0, 130)
    all_axes[0].set_ylabel("thousands of pelts")
    handles, labels = all_axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)


def numbers(model: ConvCNP) -> Table:
    """What the picture shows of the years asked for: truth, median and interval."""
    years, pelts = lynx_hare()
    table = Table("known", "year", *(f"{name}: {what}" for name in NAMES for what in ("true", "median", "95 %")))
    for title, known_in in pictured().items():
        known = known_in(years)
        task = asked((known, ~known))
        low, middle, high = (end[0] for end in interval(answers(model, task)))
        for t, (year, true) in enumerate(zip(years[~known], pelts[~known], strict=True)):
            cells = [
                (f"{true[i]:.1f}", f"{middle[t, i]:.1f}", f"{low[t, i]:.1f} to {high[t, i]:.1f}") for i in range(2)
            ]
            table.add_row(title if t == 0 else "", f"{year:.0f}", *cells[0], *cells[1])
    return table


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--steps", type=int, default=5000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", metavar="FILE", default="predator_prey.png", help="where the picture goes")
    chosen = options.parse_args()

    model = fit(chosen.steps, chosen.seed)
    worlds = np.random.default_rng([chosen.seed, 1])
    asks = {
        "between: a year from the others": [between()],
        "ahead: the next four years": ahead(),
        "worlds: 1024 simulated ones": [SIMULATED.sample(worlds, 32) for _ in range(32)],
    }
    table = Table("asked", "log-likelihood", "RMSE: median", "RMSE: straight lines", "in the 95 %")
    for name, tasks in asks.items():
        table.add_row(name, *judged(model, tasks))
    console = Console(width=120)
    console.print(table)
    console.print(numbers(model))
    draw(model, chosen.seed, chosen.out)
    print(f"{chosen.out}: the lynx and the hares of Hudson Bay, thousands of pelts")


if __name__ == "__main__":
    main()
