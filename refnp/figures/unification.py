"""The set convolution and its way through a ConvCNP; its weights beside those of attention on the same points.

    set {(x_m, y_m)} → density ρ and signal S/(ρ + ε) on a grid → network → read-out at any x

docs/unification.md derives what both pictures show.

Source: Sivaraya (2023), eq. 10 to 12, §4.2; Gordon et al. (2020). Code: refnp/layers/set_convolution.py,
refnp/models/convcnp.py, refnp/layers/attention.py.
"""

from typing import Any, NamedTuple

import numpy as np

from refnp.autograd import no_grad
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array
from refnp.figures.canvas import Drawn, canvas
from refnp.layers.attention import attention
from refnp.layers.set_convolution import set_convolution
from refnp.models.convcnp import ConvCNP
from refnp.studies.trained import open_trained
from refnp.tasks.gaussian_process import GaussianProcess
from refnp.tasks.kernels import EQ
from refnp.tasks.task import Task

CONTEXTS, NOISE, EDGE = 12, 0.05**0.5, 2.0  # the protocol of the trained model: EQ, ℓ = 1/4, noise variance .05
PLACES = np.array([-1.5, -1.4, -1.3, -0.4, 0.3, 1.0, 1.5])
VALUES = np.array([0.9, 0.6, 0.8, -0.7, 0.5, -0.2, 1.0])
SCALE, EPSILON = 0.25, 1e-8
BLUE, RED, GREY = "#3b6ea5", "#b5483a", "#888888"


class Steps(NamedTuple):
    """What a task is in each step: points (M,), places of the grid (L,), channels there, and the prediction (N,)."""

    x: Array
    y: Array
    places: Array
    density: Array
    signal: Array
    channels: Array  # (C, L)
    target: Array
    mean: Array
    std: Array
    posterior: Array


def steps() -> Steps:
    """The way of one task through the trained ConvCNP, step by step; and the posterior mean of its Gaussian process."""
    rng, model = np.random.default_rng(3), open_trained("convcnp").model
    assert isinstance(model, ConvCNP)
    process, target = GaussianProcess(EQ(length_scale=SCALE), NOISE), np.linspace(-EDGE, EDGE, 201)[None, :, None]
    x = np.sort(rng.uniform(-EDGE, EDGE, (1, CONTEXTS, 1)), 1)
    y = process.sample(rng, x)
    task = Task(x, y, target, np.zeros_like(target))
    single = task.astype(np.float32)
    with no_grad():
        grid = model.grid(single.context_x, single.target_x)
        scale = model.encoder.length_scale(single.context_y)
        encoded = set_convolution(grid, single.context_x, single.context_y, scale, **model.encoder.options)
        channels = model.network(model.lifted(encoded))
        found = model(single.context_x, single.context_y, single.target_x)
    places = (raw(grid.start)[0, 0] + np.arange(grid.lengths[0])) / grid.points_per_unit
    density, signal = raw(encoded)[0]
    return Steps(
        x[0, :, 0],
        y[0, :, 0],
        places,
        density,
        signal,
        raw(channels)[0],
        target[0, :, 0],
        raw(found.mean)[0, :, 0],
        raw(found.std)[0, :, 0],
        process.posterior(task).mean[0, :, 0],
    )


def draw_pipeline() -> Drawn:
    """Five pictures one below the other, with one axis of x; how many places and channels there are."""
    s = steps()
    figure, axes = canvas(9.6, 5, 1, sharex=True, height_ratios=(1, 1, 1, 0.9, 1.6))
    of_set, of_density, of_signal, of_network, of_answer = axes[:, 0]
    of_set.plot(s.x, s.y, "o", color="black", ms=5)
    of_set.set_title("the set, $\\{(x_m, y_m)\\}$")
    for own, channel, title in (
        (of_density, s.density, "density channel, $\\rho = \\Sigma_m\\,k(x - x_m)$, at every place of the grid"),
        (
            of_signal,
            s.signal,
            "signal channel, $\\Sigma_m\\,k(x - x_m)\\,y_m / (\\rho + \\epsilon)$, at every place of the grid",
        ),
    ):
        own.plot(s.places, channel, ".", color=BLUE, ms=2.5)
        own.set_title(title)
    of_signal.plot(s.x, s.y, "o", color="black", ms=3)
    size = np.abs(s.channels).max(1, keepdims=True)
    half = (s.places[1] - s.places[0]) / 2
    extent = (s.places[0] - half, s.places[-1] + half, len(size) + 0.5, 0.5)
    shown = s.channels / np.where(size, size, 1)  # a channel may be 0 everywhere
    of_network.imshow(shown, cmap="RdBu", vmin=-1, vmax=1, aspect="auto", extent=extent, rasterized=True)
    of_network.set_title(f"network, {len(size)} channels on the grid, each by its largest number")
    of_network.set_ylabel("channel")
    of_answer.fill_between(s.target, s.mean - 2 * s.std, s.mean + 2 * s.std, color=BLUE, alpha=0.2, lw=0)
    of_answer.plot(s.target, s.mean, color=BLUE, label="read-out, $\\mu \\pm 2\\sigma$ at any $x$")
    of_answer.plot(s.target, s.posterior, "--", color=RED, lw=1, label="exact posterior mean")
    of_answer.plot(s.x, s.y, "o", color="black", ms=5)
    of_answer.legend(loc="lower left", ncols=2)
    of_answer.set_title("read-out, a set convolution from the grid and an MLP")
    of_answer.set_xlabel("x")
    of_answer.set_xlim(-EDGE, EDGE)
    remote = int(np.abs(s.target[:, None] - s.x).min(1).argmax())
    numbers: dict[str, float | str] = {
        "points in the set": len(s.x),
        "places of the grid": len(s.places),
        "places in a unit of x": round(float(1 / (s.places[1] - s.places[0]))),
        "channels of the network": len(s.channels),
        "largest density": float(s.density.max()),
        "x farthest from all points": float(s.target[remote]),
        "standard deviation there": float(s.std[remote]),
        "least standard deviation": float(s.std.min()),
        "largest difference from the posterior mean": float(np.abs(s.mean - s.posterior).max()),
    }
    return Drawn(figure, numbers)


class Weights(NamedTuple):
    """Weights of both, (N, M), the density (N,) and what comes of the values, (N,), at places x (N,)."""

    x: Array
    of_set_convolution: Array
    of_attention: Array
    density: Array
    sums: Array
    means: Array
    divided: Array


def weights(x: Array) -> Weights:
    """For `PLACES` and `VALUES`, the EQ kernel, and the features that make attention of it.

    Values that are the rows of an identity matrix give the weights themselves.
    """
    places, values = PLACES[:, None], np.concatenate([np.eye(len(PLACES)), VALUES[:, None]], 1)
    found = set_convolution(x[:, None], places, values, SCALE)
    divided = set_convolution(x[:, None], places, VALUES[:, None], SCALE, divide=True, eps=EPSILON)[:, 1]
    q, k = x[:, None] / SCALE, places / SCALE
    query, key = np.concatenate([q, np.ones_like(q)], 1), np.concatenate([k, k * k / -2], 1)
    means = attention(query, key, values, scale=1)
    return Weights(x, found[:, 1:-1], means[:, :-1], found[:, 0], found[:, -1], means[:, -1], divided)


def draw_attention() -> Drawn:
    """Weights as functions of x, one line a point; what they add up to; what comes of the values. Left and right."""
    w = weights(np.linspace(-4, 4, 801))
    figure, axes = canvas(7.6, 3, 2, sharex=True, sharey="row", height_ratios=(1.2, 0.9, 1.2))
    of_sets: tuple[Any, ...] = ("set convolution", w.of_set_convolution, w.density, "density $\\rho$", BLUE)
    of_means: tuple[Any, ...] = ("attention", w.of_attention, w.of_attention.sum(1), "always 1", RED)
    for column, (name, shown, total, says, colour) in zip(axes.T, (of_sets, of_means), strict=True):
        column[0].plot(w.x, shown, lw=1.2, color=colour)
        column[0].set_title(f"{name}: weight of each point")
        column[1].plot(w.x, total, color=colour)
        column[1].set_title(f"their sum: {says}")
        column[1].set_ylim(0, 3.2)
        column[2].plot(PLACES, VALUES, "o", color="black", ms=5)
        column[2].axhline(0, color=GREY, lw=0.6)
        column[2].set_xlabel("x")
        for own in column[:2]:
            own.plot(PLACES, np.zeros_like(PLACES), "|", color="black", ms=9, clip_on=False)
    axes[2, 0].plot(w.x, w.sums, color=BLUE, label="$S = \\Sigma_m\\,k\\,y_m$")
    axes[2, 1].plot(w.x, w.means, color=RED, label="$A = S/\\rho$")
    axes[2, 1].plot(w.x, w.divided, "--", color=BLUE, lw=1, label="$S/(\\rho + \\epsilon)$, $\\epsilon = 10^{-8}$")
    for own in axes[2]:
        own.set_title("what comes of the values")
        own.legend(loc="lower left")
    within = np.abs(w.x) <= EDGE
    numbers: dict[str, float | str] = {
        "largest density": float(w.density.max()),
        "least density between the points": float(w.density[(w.x > PLACES[0]) & (w.x < PLACES[-1])].min()),
        "largest weight in a set convolution": float(w.of_set_convolution.max()),
        "largest difference of a sum of attention's weights from 1": float(np.abs(w.of_attention.sum(1) - 1).max()),
        "largest difference of density times attention from S, to |x| = 2": float(
            np.abs(w.density * w.means - w.sums)[within].max()
        ),
        "S at x = 4": float(w.sums[-1]),
        "attention at x = 4": float(w.means[-1]),
        "attention at x = -4": float(w.means[0]),
        "S/(density + 1e-8) at x = 4": float(w.divided[-1]),
        "ℓ√(2 log(1/ε)), where one point's value halves": SCALE * float(np.sqrt(2 * np.log(1 / EPSILON))),
    }
    return Drawn(figure, numbers)
