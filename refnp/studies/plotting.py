"""`refnp plot`: what a model predicts from a few points, with samples, beside the exact Gaussian process.

Each panel is a new function of the task, known at some points. Drawn are the model's mean and 2 σ of each value by
itself (noise included), samples, the context, and dashed the mean and 2 σ of the exact posterior, or the true function
where it comes from no Gaussian process.

Samples are the model's `functions`: coherent, and without noise. A latent model has one for each draw of z; of the
others, values at some places are drawn together, and the mean given these too is the sample, as in Bruinsma et al.
(2023), arXiv 2303.14468.
"""

import dataclasses
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array
from refnp.models.neural_process import NeuralProcess
from refnp.studies.evaluation import by_itself
from refnp.studies.registry import Sampler, sampler
from refnp.studies.trained import Trained
from refnp.tasks.task import Places, Task

FORMATS = (".png", ".svg", ".pdf")
POINTS = 257  # at which curves are drawn
DRAWN = 40  # at which values of a sample are drawn
STYLE = {"font.size": 9, "svg.hashsalt": "refnp"}  # with a salt, the same figure is the same file
MODEL, EXACT, TRUTH = "tab:blue", "black", "tab:green"


class Evenly(Places):
    """Contexts uniform in their range, targets evenly spaced over it: to draw curves of a task."""

    def task(self, rng, batch, function):
        """Tasks whose values are function(x), without masks."""
        low, high = self.context_range
        context_x = rng.uniform(low, high, size=(batch, self.context[0], 1))
        target_x = np.tile(np.linspace(low, high, self.target[0])[:, None], (batch, 1, 1))
        y = function(np.concatenate([context_x, target_x], 1))
        contexts = context_x.shape[1]
        return Task(context_x, y[:, :contexts], target_x, y[:, contexts:])


@dataclass(frozen=True, eq=False)
class Panel:
    """What a panel shows: places x (N,), curves (N,), samples (S, N), the context (M,) and (M,).

    `exact` are mean and standard deviation of the exact posterior, or None; `truth` the function itself if they are.
    """

    x: Array
    mean: Array
    std: Array
    samples: Array
    context_x: Array
    context_y: Array
    exact: tuple[Array, Array] | None
    truth: Array | None


def panel(model: NeuralProcess, tasks: Sampler, contexts: int, samples: int, seed: int, shift: float = 0.0) -> Panel:
    """One function known at `contexts` points, and what the model predicts of it; all moved along by `shift`."""
    functions, draws = np.random.default_rng([seed, contexts]).spawn(2)
    evenly = Evenly((contexts, contexts), (POINTS, POINTS), tasks.places.context_range)
    task, posterior = dataclasses.replace(tasks, places=evenly).sample_with_posterior(functions, 1)
    task = task.shifted(shift)
    own = task.astype(model.parameters()[0].dtype)
    each = by_itself(model, own, draws)
    return Panel(
        x=task.target_x[0, :, 0],
        mean=raw(each.mean)[0, :, 0],
        std=raw(each.std)[0, :, 0],
        samples=model.functions(own, draws, samples, places=DRAWN)[:, 0, :, 0],
        context_x=task.context_x[0, :, 0],
        context_y=task.context_y[0, :, 0],
        exact=None if posterior is None else (posterior.mean[0, :, 0], posterior.std[0]),
        truth=task.target_y[0, :, 0] if posterior is None else None,
    )


def plot(
    trained: Trained,
    task: str,
    file: str | Path,
    *,
    contexts: tuple[int, ...] = (3, 8, 20),
    samples: int = 3,
    seed: int = 0,
    shift: float = 0.0,
) -> None:
    """Draw a panel for each number of context points into `file`, .png, .svg or .pdf.

    Raises ValueError for another kind of file, negative counts or seed, or an infinite shift; OSError if the file
    cannot be written.
    """
    check(Path(file), contexts, samples, seed, shift)
    panels = [panel(trained.model, sampler(task), n, samples, seed, shift) for n in contexts]
    about = trained.configuration
    title = f"{about['model']}, {trained.steps} steps on {about['task']}"
    title += "" if about["task"] == task else f", here on {task}"
    title += f", shifted by {shift:g}" if shift else ""
    saved(lambda: drawing(panels), title, Path(file))


def saved(drawn: Callable[[], Any], title: str, file: Path) -> None:
    """Save a figure under a title."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        figure = drawn()
        figure.suptitle(title, fontsize="medium")
        figure.savefig(file, dpi=150, metadata={"Date": None} if file.suffix.lower() == ".svg" else None)


def check_drawable(file: Path) -> None:
    """ValueError for a file whose name is of no kind that can be drawn, and where there is no matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError("plots need matplotlib; python -m pip install 'refnp[study]'")
    if file.suffix.lower() not in FORMATS:
        raise ValueError(
            f"plot: {file} ends in {file.suffix or 'nothing'!r}; give a file that ends in {', '.join(FORMATS)}"
        )


def plot_curves(curves: Mapping[str, tuple[Array, Array]], title: str, file: Path) -> None:
    """Draw curves of several runs each into a file: their mean, from the least to the largest, and each run.

    `curves` are steps (S,) and values (runs, S), by name. Raises ValueError as `check_drawable` does.
    """
    check_drawable(file)
    saved(lambda: drawing_of_curves(curves), title, file)


def drawing_of_curves(curves: Mapping[str, tuple[Array, Array]]) -> Any:
    """The curves over each other as a figure of matplotlib."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    for name, (steps, values) in curves.items():
        (line,) = axes.plot(steps, values.mean(0), lw=1.6, label=f"{name}, {len(values)} seeds")
        axes.fill_between(steps, values.min(0), values.max(0), color=line.get_color(), alpha=0.18, lw=0)
        axes.plot(steps, values.T, color=line.get_color(), lw=0.5, alpha=0.6)
    axes.set_xlabel("step")
    axes.set_ylabel("validation: mean, and from the least to the largest")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def check(file: Path, contexts: tuple[int, ...], samples: int, seed: int = 0, shift: float = 0.0) -> None:
    """ValueError for what cannot be drawn."""
    check_drawable(file)
    if not contexts or min(contexts) < 0 or samples < 0:
        raise ValueError(f"plot: contexts are {list(contexts)}, samples {samples}; they must be 0 or more")
    if seed < 0 or not np.isfinite(shift):
        raise ValueError(f"plot: seed is {seed}, shift {shift}; they must be 0 or more, and finite")


def drawing(panels: list[Panel]) -> Any:
    """The panels side by side as a figure of matplotlib, without its global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(4.0 * len(panels), 5.5), 3.6), layout="constrained")
    all_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, shown in zip(all_axes, panels, strict=True):
        draw(axes, shown)
        axes.set_title(f"{len(shown.context_x)} context points", fontsize="medium")
        axes.set_xlabel("x")
    all_axes[0].set_ylabel("y")
    handles, labels = all_axes[0].get_legend_handles_labels()
    columns = min(len(labels), 3 * len(panels))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    return figure


def draw(axes: Any, shown: Panel) -> None:
    """One panel."""
    x = shown.x
    axes.fill_between(
        x, shown.mean - 2 * shown.std, shown.mean + 2 * shown.std, color=MODEL, alpha=0.18, lw=0, label="2 σ"
    )
    for i, curve in enumerate(shown.samples):
        axes.plot(x, curve, color=MODEL, lw=0.7, alpha=0.6, label="samples" if i == 0 else None)
    axes.plot(x, shown.mean, color=MODEL, lw=1.6, label="mean")
    if shown.exact is not None:
        mean, std = shown.exact
        axes.plot(x, mean, color=EXACT, lw=1.0, ls="--", label="exact Gaussian process: mean, 2 σ")
        for sign in (-2, 2):
            axes.plot(x, mean + sign * std, color=EXACT, lw=0.7, ls="--", alpha=0.7)
    if shown.truth is not None:
        axes.plot(x, shown.truth, color=TRUTH, lw=0.9, ls="--", label="the true function")
    axes.plot(shown.context_x, shown.context_y, "o", color=EXACT, ms=3.5, label="context")
    axes.margins(x=0)
