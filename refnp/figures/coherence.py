"""Sample paths of one task: each target by itself, with one latent z for all, and target by target.

A draw is one line. The shaded band is the exact posterior's mean and two deviations, the same in all panels; draws of
one model have its marginals, whether they are coherent or not.

Source: Sivaraya (2023) §2.2, §2.3. Code: refnp/studies/paths.py, refnp/models/chain_rule.py, refnp/models/latent.py.
"""

from typing import NamedTuple

import numpy as np

from refnp.autograd.tensor import Array
from refnp.figures.canvas import Drawn, canvas
from refnp.studies import paths
from refnp.studies.trained import open_trained
from refnp.tasks.gaussian_process import Posterior
from refnp.tasks.task import Task

TARGETS, DRAWS, SHOWN, SEED = 32, 64, 5, 1


class Panel(NamedTuple):
    """What a panel shows: a title, and draws (S, N) at the targets."""

    title: str
    draws: Array


def panels(task: Task) -> list[Panel]:
    """The three ways of drawing all targets of a task, by shipped weights."""

    def rng() -> np.random.Generator:
        return np.random.default_rng(0)

    alone, together = paths.LAWS
    cnp, latent, tnpd = (open_trained(name).model for name in ("cnp", "np", "tnpd"))
    return [
        Panel("CNP, each target by itself", paths.drawn(cnp, task, rng(), DRAWS, alone)[:, 0]),
        Panel("latent NP, mean given z", paths.functions(latent, task, rng(), DRAWS)[:, 0]),
        Panel("TNP-D, target by target", paths.drawn(tnpd, task, rng(), DRAWS, together)[:, 0]),
    ]


def given() -> tuple[Task, Posterior]:
    """The task that is drawn, and its exact posterior."""
    return paths.few_points(1, targets=TARGETS, seed=SEED)


def draw() -> Drawn:
    """Three panels, and the coherence of the draws in each: the mean correlation of neighbours."""
    task, posterior = given()
    x, mean, std = task.target_x[0, :, 0], posterior.mean[0, :, 0], posterior.std[0]
    figure, all_axes = canvas(3.2, 1, 3, sharey=True)
    numbers: dict[str, float | str] = {}
    for axes, panel in zip(all_axes[0], panels(task), strict=True):
        axes.fill_between(x, mean - 2 * std, mean + 2 * std, color="#dddddd", lw=0)
        axes.plot(x, panel.draws[:SHOWN].T, lw=1)
        inside = np.abs(task.context_x[0, :, 0]) < 1.3
        axes.plot(task.context_x[0, inside, 0], task.context_y[0, inside, 0], "ko", ms=4)
        value = paths.coherence(panel.draws)
        numbers[f"correlation of neighbours, {panel.title}"] = value
        axes.set_title(f"{panel.title}\ncorrelation of neighbours {value:z.2f}")
        axes.set_xlabel("x")
    numbers["correlation of neighbours, exact posterior"] = paths.coherence(
        posterior.sample(np.random.default_rng(0), DRAWS)[:, 0, :, 0]
    )
    all_axes[0, 0].set_ylabel("y")
    return Drawn(figure, numbers)
