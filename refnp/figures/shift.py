"""The shift experiment: what happens to a prediction when context and targets are moved along together.

TNP-D knows where points are, ConvCNP where they are relative to a grid that moves with them by whole blocks of its
U-Net, TE-TNP differences alone. So the first is right where it was trained and nowhere else, the second repeats its
prediction exactly for multiples of a block (spacing × total stride, here 1) and nearly for other shifts, the third for
all. Two were trained on the RBF task, the ConvCNP on the EQ task, whose functions are larger. Computed in float64, at
places that shifts do not round.

Source: Sivaraya (2023) §4.1. Weights: refnp/studies/weights, trained on [−2, 2].
"""

from functools import cache
from typing import Any

import numpy as np

from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array
from refnp.figures.canvas import Drawn, canvas
from refnp.models.neural_process import NeuralProcess
from refnp.studies.registry import sampler
from refnp.studies.trained import open_trained

MODELS = {"tnpd": "TNP-D", "convcnp": "ConvCNP", "tetnp": "TE-TNP"}
COLOURS = {"tnpd": "tab:red", "convcnp": "tab:blue", "tetnp": "tab:green"}
FAR = 4.0  # the shift whose predictions are drawn
SHIFTS = [2.0**k for k in range(-7, 6)]
FINE = 512  # places are multiples of 1/512, so that x + shift is exact
LEAST = 1e-7  # where a discrepancy of 0 is drawn
POINTS, SEED = 257, 5


def functions() -> tuple[Array, Array, Array]:
    """A context (1, M, 1) twice and targets (1, N, 1), from the Gaussian process of the RBF task."""
    task = sampler("rbf").sample(np.random.default_rng(SEED), 1)
    x = np.round(np.asarray(task.context_x, np.float64)[:, :14] * FINE) / FINE
    return x, np.asarray(task.context_y, np.float64)[:, :14], np.linspace(-2, 2, POINTS)[None, :, None]


@cache
def model_of(name: str) -> NeuralProcess:
    """A shipped model in float64."""
    return open_trained(name, np.float64).model


def predictions(name: str, shift: float) -> tuple[Array, Array]:
    """Mean and standard deviation (N,) of a shipped model, for everything moved by `shift`."""
    x, y, t = functions()
    answer: Any = model_of(name)(x + shift, y, t + shift)
    return raw(answer.mean)[0, :, 0], raw(answer.std)[0, :, 0]


def discrepancies(name: str) -> list[float]:
    """The largest change of any mean, for each of SHIFTS."""
    here, _ = predictions(name, 0.0)
    return [float(np.abs(predictions(name, shift)[0] - here).max()) for shift in SHIFTS]


def draw() -> Drawn:
    """Predictions where they were trained and moved by 4, and the largest change of a mean against the shift."""
    x, y, t = functions()
    figure, axes = canvas(6.6, 2, 3, height_ratios=(1, 1.1))
    numbers: dict[str, float | str] = {}
    for own, (name, title) in zip(axes[0], MODELS.items(), strict=True):
        for shift, colour, style in ((0.0, "gray", "-"), (FAR, COLOURS[name], "--")):
            mean, std = predictions(name, shift)
            own.fill_between(t[0, :, 0], mean - 2 * std, mean + 2 * std, color=colour, alpha=0.2, lw=0)
            own.plot(t[0, :, 0], mean, style, color=colour, lw=1.4, label=f"{shift:g}")
        own.plot(x[0, :, 0], y[0, :, 0], "o", color="black", ms=3, label="context")
        own.set_title(title)
        own.set_xlabel("x − shift")
        own.margins(x=0)
    axes[0, 0].set_ylabel("mean and 2 σ")
    handles, _ = axes[0, 2].get_legend_handles_labels()
    words = ["where it was trained", f"shifted by {FAR:g}, drawn back (dashed)", "context"]
    figure.legend(handles, words, loc="outside upper center", ncols=3)
    low = min(own.get_ylim()[0] for own in axes[0])
    high = max(own.get_ylim()[1] for own in axes[0])
    for own in axes[0]:
        own.set_ylim(low, high)
    grid = axes[1, 0].get_gridspec()
    for own in axes[1]:
        own.remove()
    below = figure.add_subplot(grid[1, :])
    for name, title in MODELS.items():
        found = discrepancies(name)
        below.plot(SHIFTS, np.maximum(found, LEAST), "o-", color=COLOURS[name], label=title, ms=4, lw=1)
        numbers |= {f"{title}, shifted by {shift:g}: largest change of a mean": change
                    for shift, change in zip(SHIFTS, found, strict=True)}  # fmt: skip
    below.set_xscale("log", base=2)
    below.set_yscale("log")
    ticks = [LEAST, 1e-5, 1e-3, 1e-1]
    below.set_yticks(ticks, ["0", *(f"{tick:g}" for tick in ticks[1:])])
    below.minorticks_off()
    below.set_xticks(SHIFTS, [f"1/{1 / shift:g}" if shift < 1 else f"{shift:g}" for shift in SHIFTS])
    below.set_xlabel("shift of context and targets (a block of the ConvCNP's U-Net is 1)")
    below.set_ylabel("largest change of a mean")
    below.grid(alpha=0.3)
    below.legend(loc="center left", bbox_to_anchor=(0.01, 0.45))
    return Drawn(figure, numbers)
